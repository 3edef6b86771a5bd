"""`riddle ask` from the outside: figures worked out here from the CSV files, not by the planner."""

import csv
import json
import os
import subprocess
from collections import defaultdict

import pytest
from conftest import RIDDLE


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    directory = tmp_path_factory.mktemp("sets")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RIDDLE_")}
    subprocess.run([RIDDLE, "datasets", "generate", directory], check=True, capture_output=True, env=environment)
    return directory


def rows_of(path):
    with open(path, encoding="utf-8", newline="") as f:
        return list(csv.DictReader(f))


def ask(programs, question, *files):
    done = programs.riddle("ask", "--json", question, *files)
    assert done.status == 0, (done.text, done.err)
    return done.response


def totals(rows, key, value):
    out = defaultdict(float)
    for r in rows:
        out[r[key]] += float(r[value])
    return out


def test_top_categories_by_spend(programs, sets):
    path = sets / "transactions/transactions.csv"
    want = sorted(totals(rows_of(path), "category", "amount").items(), key=lambda p: -p[1])[:5]
    answer = ask(programs, "What are the top 5 categories by spend?", path)
    assert [r[0] for r in answer["rows"]] == [k for k, _ in want]
    assert [r[1] for r in answer["rows"]] == pytest.approx([v for _, v in want])
    assert answer["chart"]["mark"] == "bar"
    assert "sum of `amount` by `category`" in answer["reading"]


def test_spend_each_month(programs, sets):
    path = sets / "transactions/transactions.csv"
    months = defaultdict(float)
    for r in rows_of(path):
        months[r["date"][:7]] += float(r["amount"])
    answer = ask(programs, "How much was spent each month?", path)
    assert [r[0][:7] for r in answer["rows"]] == sorted(months)
    assert [r[1] for r in answer["rows"]] == pytest.approx([months[m] for m in sorted(months)])


def test_average_resolution_time_by_category(programs, sets):
    path = sets / "support/tickets.csv"
    values = defaultdict(list)
    for r in rows_of(path):
        if r["resolution_time_hours"]:
            values[r["category"]].append(float(r["resolution_time_hours"]))
    answer = ask(programs, "What is the average resolution time by category?", path)
    assert {r[0]: r[1] for r in answer["rows"]} == pytest.approx({k: sum(v) / len(v) for k, v in values.items()})


def test_one_choice_is_no_list_and_has_its_words(programs, tmp_path):
    """Words that the only reading offered has are not told as not understood."""
    survey = tmp_path / "survey.csv"
    survey.write_text("respondent,How satisfied are you with the service?,Region\n" + "".join(f"{i},{i % 5 + 1},R{i % 4}\n" for i in range(40)))
    answer = programs.riddle("ask", "--json", "average satisfaction", survey).response
    assert answer["status"] == "asked" and len(answer["choices"]) == 1 and "not_understood" not in answer, answer
    told = programs.riddle("ask", "average satisfaction", survey)
    assert told.text == f"Do you mean:\n  1. {answer['choices'][0]['reading']}\n"
    said = programs.riddle("chat", survey, stdin="average satisfaction\n", env={"OPENAI_API_KEY": "", "ANTHROPIC_API_KEY": ""})
    assert "I am not sure that I read this right. Do you mean:\n1. average of" in said.text, said.text


def test_a_question_that_makes_no_sense_is_declined(programs, sets):
    done = programs.riddle("ask", "--json", "why does the purple elephant dream of thunder", sets / "transactions/transactions.csv")
    assert done.status == 1
    answer = done.response
    assert answer["status"] == "declined"
    assert len(answer["suggestions"]) == 3


def test_the_answer_in_words(programs, sets):
    path = sets / "transactions/transactions.csv"
    want = sorted(totals(rows_of(path), "category", "amount").items(), key=lambda p: -p[1])[:5]
    done = programs.riddle("ask", "What are the top 5 categories by spend?", path)
    assert done.status == 0, done.err
    (name, most), (last, least) = want[0], want[-1]
    figures = [f"{round(x, 2):,.2f}".rstrip("0").rstrip(".") for x in (most, least)]
    assert done.text.startswith(f"Total amount by category: highest for {name} ({figures[0]}), down to {last} ({figures[1]}).\n")
    assert "Understood: sum of `amount` by `category`" in done.text


def test_names_cannot_command_a_terminal(programs, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("city,\x1b[31mred\nParis,1\nRome,2\n")
    done = programs.riddle("ask", "show everything", path)  # the suggestions name the column
    assert "red" in done.text
    assert b"\x1b" not in done.out


def test_sql_shows_and_does_not_run(programs, sets):
    done = programs.riddle("ask", "--sql", "total amount by category", sets / "transactions/transactions.csv")
    assert done.status == 0
    assert 'SUM("amount")' in done.text and "Housing" not in done.text


def test_batch_keeps_the_order(programs, sets, tmp_path):
    a, b = sets / "transactions/transactions.csv", sets / "support/tickets.csv"
    lines = [{"id": 1, "question": "total amount by category", "files": [str(a)]},
             {"id": 2, "question": "how many tickets are there?", "files": [str(b)]},
             {"id": 3, "question": "total amount by category", "files": [str(tmp_path / "none.csv")]},
             {"id": 4, "question": "total amount by category", "files": [str(a)]}]
    batch = tmp_path / "batch.jsonl"
    batch.write_text("".join(json.dumps(l) + "\n" for l in lines))
    done = programs.riddle("ask", "--batch", batch)
    assert done.status == 0
    answers = [json.loads(l) for l in done.text.splitlines()]
    assert [(x["id"], x["status"]) for x in answers] == [(1, "answered"), (2, "answered"), (3, "error"), (4, "answered")]
    assert answers[1]["rows"] == [[len(rows_of(b))]]
    assert answers[2]["error"]["type"] == "NOT_FOUND"


@pytest.mark.parametrize("arguments, message", [
    (["how many?"], "a question and the files"),
    (["--batch", "x.jsonl", "file.csv"], "with --batch"),
    (["how many rows?", "missing.csv"], "missing.csv"),
])
def test_wrong_requests(programs, arguments, message):
    done = programs.riddle("ask", *arguments)
    assert done.status == 2
    assert message in done.err


def test_batch_follows(programs, sets, tmp_path):
    path = str(sets / "transactions/transactions.csv")
    lines = [
        {"id": "a", "question": "total amount by category", "files": [path]},
        {"id": "b", "question": "and the average?", "files": [path], "follows": "a"},
    ]
    batch = tmp_path / "batch.jsonl"
    batch.write_text("".join(json.dumps(l) + "\n" for l in lines))
    first, second = [json.loads(l) for l in programs.riddle("ask", "--batch", batch).text.splitlines()]
    rows = rows_of(path)
    means = {c: t / sum(r["category"] == c for r in rows) for c, t in totals(rows, "category", "amount").items()}
    assert first["status"] == second["status"] == "answered"
    assert dict(second["rows"]) == pytest.approx(means)


def test_words_that_mean_nothing_here_are_asked_about(programs, tmp_path):
    path = tmp_path / "orders.csv"
    lines = ["order_id,customer,country,amount,ordered_on"]
    lines += [f"{i},C{i % 7},{'FR' if i % 3 else 'DE'},{i}.5,2024-01-{i % 28 + 1:02}" for i in range(60)]
    path.write_text("\n".join(lines) + "\n")
    for question, word in (("profit by country", "profit"), ("how many pilots are there?", "pilots"),
                           ("how many orders are overdue?", "overdue")):
        done = programs.riddle("ask", "--json", question, path)
        assert done.response["status"] in ("asked", "declined"), (question, done.text)
        assert word in done.response["not_understood"]
    # there is no table of customers: whoever is missing from the orders is not known
    never = programs.riddle("ask", "--json", "which customers never ordered?", path)
    assert never.response["status"] in ("asked", "declined"), never.text


def test_explained(programs, tmp_path):
    loans = tmp_path / "loans.csv"
    loans.write_text("branch,fee,days\nHarbour,2,10\nHarbour,3,20\nMarket,4,35\nMarket,9,30\n")
    how = programs.riddle("ask", "--json", "--explain", "do fee and days correlate?", loans).response["explain"]
    words = {w["text"]: w for w in how["words"]}
    assert how["rule"] == "correlation" and how["complete"] and how["not_understood"] == []
    assert words["fee"]["is"].startswith("column loans.fee") and words["fee"]["used"] and words["do"]["is"] == "function word"
    answer = programs.riddle("ask", "--json", "how many loans of imported cookbooks?", loans).response
    assert answer["status"] != "answered" and answer["not_understood"] == ["imported", "cookbooks"]
    done = programs.riddle("ask", "what will the fee be next year?", loans)
    assert done.status == 1 and "This asks for the future, which no query over tables gives." in done.text


@pytest.fixture
def shop(tmp_path):
    """Customers, and orders that name them by their number."""
    cities = ["Rome", "Oslo", "Bonn"]
    lines = ["id,name,city"] + [f"{i},c{i},{cities[i % 3]}" for i in range(1, 31)]
    (tmp_path / "customers.csv").write_text("\n".join(lines) + "\n")
    lines = ["id,customer_id,amount,day"] + [f"{i},{i % 20 + 1},{i * 1.5},2025-{i % 12 + 1:02d}-05" for i in range(1, 201)]
    (tmp_path / "orders.csv").write_text("\n".join(lines) + "\n")
    orders = rows_of(tmp_path / "orders.csv")
    city = {r["id"]: r["city"] for r in rows_of(tmp_path / "customers.csv")}
    by_city = totals([{**r, "city": city[r["customer_id"]]} for r in orders], "city", "amount")
    return tmp_path / "customers.csv", tmp_path / "orders.csv", by_city, totals(orders, "customer_id", "amount")


def test_groups_of_another_table_are_joined(programs, shop):
    customers, orders, by_city, by_customer = shop
    answer = ask(programs, "total amount by city", customers, orders)
    assert {r[0]: r[1] for r in answer["rows"]} == pytest.approx(by_city)
    answer = ask(programs, "total amount per customer", customers, orders)
    assert sorted(r[-1] for r in answer["rows"]) == pytest.approx(sorted(by_customer.values()))
    answer = ask(programs, "which customers never ordered?", customers, orders)
    assert len(answer["rows"]) == 10


def test_groups_that_cannot_be_joined_are_not_left_out(programs, shop, tmp_path):
    weather = tmp_path / "weather.csv"
    weather.write_text("place,rain\nLima,1\nParis,3\n")
    done = programs.riddle("ask", "--json", "total amount by place", weather, shop[1])
    assert done.status != 0 or "place" in json.dumps(done.response.get("columns")), done.text
