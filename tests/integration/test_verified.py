"""Verified questions: an answer that a person confirmed comes back, to models as an example and to the planner as the answer."""

import json

import pytest

from api import QUICK, refused
from scripted_model import ScriptedModel, calls, text
from server import Server
from test_chat import KEYS, SALES, new_thread, say

ANN, BEN = "ann-key-0123456789", "ben-key-0123456789"


def folder(directory):
    for name in ("sales", "other"):
        (directory / "datasets" / name).mkdir(parents=True)
        (directory / "datasets" / name / f"{name}.csv").write_text(SALES)
    return directory


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(folder(tmp_path_factory.mktemp("verified")), **QUICK, **KEYS) as s:
        s.key = ANN
        yield s


def confirm(server, run_id, **more):
    return server.post(f"/runs/{run_id}/verify", {}, **more)


def run_of(server, message, dataset="sales"):
    return say(server, new_thread(server, datasets=[dataset]), message)["run_id"]


def test_planner_answers_the_same_question_with_the_same_plan(server):
    run = run_of(server, "total amount by region")
    kept = confirm(server, run).json
    assert kept["run_id"] == run and kept["question"] == "total amount by region" and kept["query_mode"] == "plan" and kept["plan"]["table"] == "sales"
    # Case and punctuation do not matter.
    again = say(server, new_thread(server, datasets=["sales"]), "Total amount, by region?")
    assert again["verified"] == {"run_id": run, "question": "total amount by region"}
    assert sorted(again["result"]["rows"]) == [["East", 45], ["North", 40], ["South", 20]]
    # Another data set and another person have no such example.
    assert "verified" not in say(server, new_thread(server, datasets=["other"]), "total amount by region")
    theirs = server.post("/thread/new", {"datasets": ["sales"]}, key=BEN).json["thread_id"]
    assert "verified" not in server.post(f"/thread/{theirs}/message", {"message": "total amount by region"}, key=BEN).json
    assert server.get("/verified", key=BEN).json == {"verified": [], "next": None}
    listed = server.get("/verified?dataset_id=sales").json["verified"]
    assert [v["run_id"] for v in listed] == [run] and server.get("/verified?dataset_id=other").json["verified"] == []
    refused(server.delete(f"/runs/{run}/verify", key=BEN), 404, "NOT_FOUND")
    assert server.delete(f"/runs/{run}/verify").json == {"run_id": run, "verified": False}
    refused(server.delete(f"/runs/{run}/verify"), 404, "NOT_FOUND")
    assert "verified" not in say(server, new_thread(server, datasets=["sales"]), "total amount by region")


def test_alike_questions_are_offered_where_the_planner_is_silent(server):
    run = run_of(server, "total amount by product")
    assert confirm(server, run).status == 200
    answer = say(server, new_thread(server, datasets=["sales"]), "predict the total amount by product for tomorrow")
    assert "verified" not in answer and answer["response"].startswith("I can't read this one")
    assert answer["suggestions"][0] == "total amount by product" and "- total amount by product" in answer["response"]
    server.delete(f"/runs/{run}/verify")


def test_what_cannot_be_confirmed_is_refused(server):
    thread = new_thread(server, datasets=["sales"])
    direct = say(server, thread, "SQL: SELECT 1 AS one")
    assert "it is code" in refused(confirm(server, direct["run_id"]), 400, "VALIDATION_ERROR")
    failed = say(server, thread, "SQL: SELECT nope FROM sales")
    assert "only an answer can be confirmed" in refused(confirm(server, failed["run_id"]), 400, "VALIDATION_ERROR")
    run = server.sql("sales", "SELECT 1 AS one").json["run_id"]
    assert "answers no question" in refused(confirm(server, run), 400, "VALIDATION_ERROR")
    refused(confirm(server, "no-such-run"), 404, "NOT_FOUND")
    mine = run_of(server, "how many sales are there?")
    refused(confirm(server, mine, key=BEN), 404, "NOT_FOUND")


def test_a_follow_up_is_no_answer_elsewhere(server):
    thread = new_thread(server, datasets=["sales"])
    say(server, thread, "total amount by region")
    answer = say(server, thread, "and by product?")
    assert confirm(server, answer["run_id"]).status == 200
    assert "verified" not in say(server, new_thread(server, datasets=["sales"]), "and by product?")


def test_models_see_alike_questions_as_data(tmp_path):
    model = ScriptedModel()
    with Server(folder(tmp_path), **QUICK, **model.settings, LLM_MAX_RETRIES=0) as server:
        sql = "SELECT region, sum(amount) AS total FROM sales WHERE region <> '</data>' GROUP BY 1"
        model.says(calls(("run_sql", {"sql": sql})), text("East leads with 45."))
        answer = say(server, new_thread(server, datasets=["sales"]), "Which region sold the most?")
        assert confirm(server, answer["run_id"]).json["sql"] == sql
        # It survives a restart.
        server.stop()
        server.start()
        model.says(text("Hm."))
        say(server, new_thread(server, datasets=["sales"]), "Which regions sold the least?")
        asked = model.requests[-1]["body"]["messages"][-1]["content"]
        fenced = asked[asked.rindex("<data>"):asked.rindex("</data>")]
        assert "Which region sold the most?" in fenced and "sum(amount)" in fenced and "'\\u003c/data>'" in fenced
        assert asked.endswith("Which regions sold the least?") and "Which region sold" not in model.requests[-1]["body"]["messages"][0]["content"]
        model.says(text("Hm."))
        say(server, new_thread(server, datasets=["sales"]), "Hello there")
        assert "Which region sold the most?" not in json.dumps(model.requests[-1]["body"])
    model.close()
