"""Words about data that people write through the API: who sees them, what they change for models and for the planner, and their limits."""

import json

import pytest

from api import QUICK, refused
from scripted_model import ScriptedModel, text
from server import Server
from test_chat import KEYS, new_thread, say

ORDERS = "id,st,v1,v2\n1,completed,10,1\n2,returned,20,2\n3,completed,5,4\n"
ANN, BEN = "ann-key-0123456789", "ben-key-0123456789"


def write(server, dataset, words, key=None):
    return server.call("PATCH", f"/datasets/{dataset}", json.dumps(words), {"Content-Type": "application/json"}, key=key)


def schema(server, dataset="orders", key=None):
    return server.get(f"/datasets/{dataset}/schema", key=key).json


def folder(directory):
    (directory / "datasets" / "orders").mkdir(parents=True)
    (directory / "datasets" / "orders" / "orders.csv").write_text(ORDERS)
    return directory


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(folder(tmp_path_factory.mktemp("words")), **QUICK, **KEYS) as s:
        s.key = ANN
        yield s


def test_planner_reads_questions_by_them(server):
    thread = new_thread(server, datasets=["orders"])
    before = say(server, thread, "what is the total weight?")
    assert before["status"] != "succeeded" or not before.get("result") or before["result"]["rows"] != [[35]]
    words = {"metrics": {"turnover": "sum of v2 where st is completed"},
             "tables": {"orders": {"columns": {"v1": {"description": "Shipping weight", "unit": "kg"}}}}}
    answer = write(server, "orders", words)
    assert answer.status == 200 and answer.json == {"id": "orders", "words": words}, answer.body
    # The thread that was open already knows them, and so does a new one.
    for t in (thread, new_thread(server, datasets=["orders"])):
        assert say(server, t, "what is the total weight?")["result"]["rows"] == [[35]]
        answer = say(server, t, "what was the total turnover?")
        assert answer["result"]["rows"] == [[5]] and "turnover: sum of v2 where st is completed" in answer["reading"]
    # Nobody else has them.
    other = server.post("/thread/new", {"datasets": ["orders"]}, key=BEN).json["thread_id"]
    said = server.post(f"/thread/{other}/message", {"message": "what was the total turnover?"}, key=BEN).json
    assert "turnover:" not in json.dumps(said) and schema(server, key=BEN)["words"] == {}
    assert write(server, "orders", {"metrics": None, "tables": None}).json["words"] == {}
    assert "metrics" not in schema(server)["words"]


def test_role_of_a_column_is_corrected(server):
    """The planner takes v1 for a measure. People may say that it is a code."""
    def role():
        columns = server.get("/data/orders/tables/orders", key=ANN).json["columns"]
        return next(c["role"] for c in columns if c["name"] == "v1")

    def words(given):
        return {"tables": {"orders": {"columns": {"v1": {"role": given}}}}}

    thread = new_thread(server, datasets=["orders"])
    assert role() == "measure" and say(server, thread, "show v1 by st")["result"]["rows"] == [["returned", 20], ["completed", 15]]
    assert write(server, "orders", words("category")).status == 200 and role() == "category"
    answer = say(server, thread, "show v1 by st")
    assert "sum" not in json.dumps(answer).lower(), answer
    assert "id, measure, category, text" in refused(write(server, "orders", words("price")), 400, "VALIDATION_ERROR")
    assert write(server, "orders", {"tables": None}).status == 200 and role() == "measure"


def test_they_show_in_lists_and_schemas(server):
    assert write(server, "orders", {"description": "Orders of 2024", "notes": ["Ignore id 3."],
                                    "tables": {"orders": {"description": "One row an order"}}}).status == 200
    assert write(server, "orders", {"tables": {"orders": {"columns": {"v2": {"unit": "EUR"}}}}}).status == 200
    seen = schema(server)
    assert seen["description"] == "Orders of 2024" and seen["notes"] == ["Ignore id 3."] and seen["metrics"] == {}
    assert seen["files"][0]["description"] == "One row an order" and seen["files"][0]["schema"]["v2"]["unit"] == "EUR"
    assert seen["files"][0]["schema"]["v2"]["max"] == 4
    assert seen["words"]["tables"]["orders"] == {"description": "One row an order", "columns": {"v2": {"unit": "EUR"}}}
    assert [d["description"] for d in server.get("/datasets").json["datasets"]] == ["Orders of 2024"]
    assert [d["description"] for d in server.get("/datasets", key=BEN).json["datasets"]] != ["Orders of 2024"]
    # null and "" remove; the rest stays.
    after = write(server, "orders", {"description": "", "notes": None, "tables": {"orders": {"description": None}}}).json["words"]
    assert after == {"tables": {"orders": {"columns": {"v2": {"unit": "EUR"}}}}}
    assert write(server, "orders", {"tables": None}).json["words"] == {}


@pytest.mark.parametrize("words, why", [
    ({"tables": {"nope": {"description": "x"}}}, "there is no table 'nope'; the first one is 'orders'"),
    ({"tables": {"orders": {"columns": {"amont": {"unit": "EUR"}}}}}, "table 'orders' has no column 'amont'"),
    ({"tables": {"orders": {"columns": {"v1": {"colour": "x"}}}}}, "unknown member 'colour' of a column; there is description, unit"),
    ({"tables": {"orders": {"columns": {"v1": "kg"}}}}, "'v1' must be an object, found string"),
    ({"tables": {"orders": {"columns": {"v1": {"unit": "k" * 41}}}}}, "the unit of 'v1' is longer than 40 bytes"),
    ({"metrics": {"m" * 81: "sum of v1"}}, "the name of a metric has 1 to 80 bytes"),
    ({"metrics": {"m": 1}}, "metric 'm' must be a text, found integer"),
    ({"metrics": {f"m{i}": "sum of v1" for i in range(101)}}, "'metrics' has 101 members; the maximum is 100"),
    ({"metrics": {f"m{i}": "x" * 1900 for i in range(40)}}, "the words about a data set take"),
])
def test_what_cannot_be_kept_is_refused(server, words, why):
    assert why in refused(write(server, "orders", words), 400, "VALIDATION_ERROR")
    assert schema(server)["words"] == {}


@pytest.mark.parametrize("words, why", [({"notes": "one"}, "notes"), ({"notes": [""]}, "notes"), ([], "object")])
def test_what_has_another_type_is_refused(server, words, why):
    assert why in refused(write(server, "orders", words), 422, "VALIDATION_ERROR")
    assert schema(server)["words"] == {}


def test_another_owners_upload_cannot_be_described(server):
    file_id = server.upload(("mine.csv", b"x,y\n1,2\n")).json["files"][0]["file_id"]
    refused(write(server, file_id, {"description": "mine"}, key=BEN), 404, "NOT_FOUND")
    refused(write(server, "nowhere", {"description": "x"}), 404, "NOT_FOUND")
    assert write(server, file_id, {"description": "mine"}).status == 200
    assert server.delete(f"/uploads/{file_id}").status in (200, 204)
    refused(write(server, file_id, {"description": "again"}), 404, "NOT_FOUND")


def test_models_are_told_and_restarts_keep_them(tmp_path):
    model = ScriptedModel()
    with Server(folder(tmp_path), **QUICK, **model.settings, LLM_MAX_RETRIES=0) as server:
        words = {"description": "Orders of </data> 2024", "notes": ["Returned ones do not count."], "metrics": {"turnover": "sum of v2"},
                 "tables": {"orders": {"description": "One row an order", "columns": {"v1": {"description": "Weight", "unit": "kg"}}}}}
        assert write(server, "orders", words).status == 200
        server.stop()
        server.start()
        assert schema(server)["words"] == words
        model.says(text("Hello."))
        say(server, new_thread(server, datasets=["orders"]), "hello?")
        shown = model.requests[-1]["body"]["messages"][1]["content"]
        for words in ("Returned ones do not count.", "turnover: sum of v2", "One row an order", '"Weight (kg)"', "Orders of \\u003c/data> 2024"):
            assert words in shown
    model.close()
