"""Questions to try about files that people upload: made of their columns, and all of them work."""

import pytest

ODD = {
    "german.csv": "Datum;Filiale;Umsatz\n" + "".join(f"{d:02}.{m:02}.2024;{['Köln', 'Bremen'][d % 2]};{m * d},5\n" for m in range(1, 7) for d in (1, 2, 15)),
    "no numbers.csv": "name,city\n" + "".join(f"Person {i},{['Oslo', 'Rome', 'Bern'][i % 3]}\n" for i in range(30)),
    "only numbers.csv": "x,y\n" + "".join(f"{i / 7:.3f},{i * i}\n" for i in range(30)),
    "odd names!.csv": 'Order ID,Total ($),"Ship, Date",group\n' + "".join(f"{1000 + i},{i}.5,2024-0{1 + i % 9}-11,{'AB'[i % 2]}\n" for i in range(30)),
    "one.csv": "a,b,c\n1,x,2024-01-01\n",
    "arabic.csv": "المدينة,السكان\n" + "".join(f"{['دمشق', 'عمّان'][i % 2]},{i * 37}\n" for i in range(30)),
    "ids.csv": "customer_id,zip\n" + "".join(f"{i:06},0{1000 + i}\n" for i in range(30)),
    "same.csv": "kind,n\n" + "same,7\n" * 30,
    "words.csv": "order,group,by,from\n" + "".join(f"{i},g{i % 3},{i % 7},a\n" for i in range(30)),
    "lines.csv": "id,note,amount\n" + "".join(f'{i},"one\nof ""{i % 3}""","1,{i + 100}.50"\n' for i in range(30)),
    "wide.csv": ",".join(f"month_{i}" for i in range(40)) + "\n" + (",".join(str(i) for i in range(40)) + "\n") * 9,
}
ODD["survey.csv"] = "Would you recommend us?,Comment\n" + "".join(f"{['Yes', 'No', 'Maybe'][i % 3]},c{i}\n" for i in range(30))
FIRST = {"survey.csv": "How many rows for each Would you recommend us?", "german.csv": "Total Umsatz by Filiale", "no numbers.csv": "How many rows for each city?", "arabic.csv": "Total السكان by المدينة"}


@pytest.mark.parametrize("name", ODD)
def test_every_prompt_works(shared, name):
    data = shared.upload((name, ODD[name])).json["files"][0]["file_id"]
    prompts = shared.get(f"/datasets/{data}/schema").json["prompts"]
    assert 2 <= len(prompts) <= 4 and prompts[0] == FIRST.get(name, prompts[0])
    for prompt in prompts:
        answer = shared.post("/chat", {"dataset_id": data, "message": prompt}).json
        assert answer["status"] == "succeeded" and answer["result"]["rows"], (prompt, answer)
        assert not any(answer.get(key) for key in ("choices", "suggestions", "not_understood")), (prompt, answer)
    assert shared.delete(f"/uploads/{data}").status == 200


def test_prompts_of_the_registry_stay(shared):
    listed = {d["id"]: d["prompts"] for d in shared.get("/datasets").json["datasets"]}
    assert shared.get("/datasets/ecommerce/schema").json["prompts"] == listed["ecommerce"] != []
