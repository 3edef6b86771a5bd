"""Threads and chats with no model: three forms of one thing, code run as it is, a kernel that remembers, and histories that stay."""

import json
import threading
from contextlib import contextmanager

import pytest

from api import QUICK, refused, wait_for_metric
from server import Server, read_events, wait_until

SALES = "region,product,amount,sold_on\nNorth,Tea,10,2024-01-05\nSouth,Tea,20,2024-01-20\nNorth,Coffee,30,2024-02-03\nEast,Coffee,45,2024-02-11\n"
STAFF = "name,team\nAda,Red\nBob,Blue\nCy,Red\n"
KEYS = {"RIDDLE_API_KEYS": "ann:ann-key-0123456789,ben:ben-key-0123456789"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    directory = tmp_path_factory.mktemp("chat")
    for name, text in (("sales", SALES), ("staff", STAFF)):
        (directory / "datasets" / name).mkdir(parents=True)
        (directory / "datasets" / name / f"{name}.csv").write_text(text)
    with Server(directory, **QUICK, **KEYS) as s:
        s.key = "ann-key-0123456789"
        yield s


@contextmanager
def stream(server, path, value, key=None):
    connection = server.connect()
    try:
        connection.request("POST", path, json.dumps(value), server.headers({"Content-Type": "application/json"}, key))
        response = connection.getresponse()
        assert response.status == 200, response.read()
        yield read_events(response)
    finally:
        connection.close()


def new_thread(server, **spec):
    answer = server.post("/thread/new", spec or {"datasets": ["sales"]})
    assert answer.status == 200, answer.body
    return answer.json["thread_id"]


def say(server, thread, message, **more):
    answer = server.post(f"/thread/{thread}/message", {"message": message}, **more)
    assert answer.status == 200, answer.body
    return answer.json


def unanswered(server, thread, message):
    """The failure of a message that no model answered."""
    answer = server.post(f"/thread/{thread}/message", {"message": message})
    assert answer.status == 500, (answer.status, answer.body)
    body = answer.json
    assert body["detail"] == body["message"] and body["error"]["message"] in body["detail"] and body["thread_id"] == thread
    assert "http://" not in body["detail"]
    return body


def test_thread_is_made_and_answers(server):
    made = {}

    def is_hot():  # a server that has just started does not keep a new thread waiting for long
        made.update(server.post("/thread/new", {"datasets": ["sales"]}).json)
        return made["container_status"] == "hot"

    wait_until(is_hot, "a new thread is hot")
    assert made["attached_files"] == ["sales.csv"]
    assert {"schema_build", "container_startup", "total"} <= set(made["timings_ms"])
    answer = say(server, made["thread_id"], "total amount by region")
    assert sorted(answer["result"]["rows"]) == [["East", 45], ["North", 40], ["South", 20]]
    assert answer["reading"] == "sum of `amount` by `region` of `sales`"
    assert answer["details"]["query_mode"] == "plan" and "GROUP BY" in answer["details"]["compiled_sql"]
    assert answer["code_runs"][0]["language"] == "plan"
    assert answer["openai_calls"] == 0 and answer["model"] == "builtin"
    assert {"sandbox_restore", "openai_per_call", "openai_total", "exec_per_call", "exec_total", "overhead"} <= set(answer["timings_ms"])
    assert "45" in answer["response"]


def test_default_and_several_datasets(server):
    thread = new_thread(server, datasets=["sales", "staff"])
    assert say(server, thread, "SQL: SELECT count(*) AS n FROM staff")["result"]["rows"] == [[3]]
    assert say(server, thread, "SQL: SELECT count(*) AS n FROM sales")["result"]["rows"] == [[4]]
    refused(server.post("/thread/new", {"datasets": ["nothing"]}), 404, "NOT_FOUND")
    message = refused(server.post("/thread/new", {"file_ids": ["abc"]}), 404, "NOT_FOUND")
    assert message == "file_id 'abc' not found. Upload a file first via POST /upload"


def test_uploads_are_chatted_with(server):
    file_id = server.upload(("pets.csv", "pet,legs\ncat,4\nbird,2\nspider,8\n")).json["files"][0]["file_id"]
    thread = new_thread(server, file_ids=[file_id])
    assert say(server, thread, "what is the highest legs?")["result"]["rows"] == [[8]]
    chat = server.post("/chat", {"dataset_id": file_id, "message": "how many rows are there?"}).json
    assert chat["result"]["rows"] == [[3]]


def test_python_remembers_and_sql_sees_frames(server):
    thread = new_thread(server)
    assert say(server, thread, "PYTHON: x = 20\nx + 1")["result"]["rows"] == [[21]]
    assert say(server, thread, "python:   x * 2")["result"]["rows"] == [[40]]
    say(server, thread, "PYTHON: import pandas as pd; mine = pd.DataFrame({'v': [1, 2, x]})")
    assert say(server, thread, "SQL: SELECT sum(v) AS s FROM mine")["result"]["rows"] == [[23]]
    answer = say(server, thread, "PYTHON: print('out'); 1/0")
    assert answer["status"] == "failed" and answer["result"]["error"]["type"] == "PYTHON_EXECUTION_ERROR"
    assert "out" in answer["code_runs"][0]["output"] and "ZeroDivisionError" in answer["code_runs"][0]["output"]
    assert say(server, thread, "PYTHON: x")["result"]["rows"] == [[20]]
    assert server.get(f"/thread/{thread}/status").json["sandbox_status"] == "hot"


def test_state_that_is_lost_is_said_to_be_lost(server):
    thread = new_thread(server)
    say(server, thread, "PYTHON: kept = 1")
    answer = say(server, thread, "PYTHON: import os; os._exit(3)")
    assert answer["status"] == "failed" and answer["state_lost"] is True
    answer = say(server, thread, "PYTHON: kept")
    assert answer["result"]["error"]["type"] == "PYTHON_EXECUTION_ERROR" and "NameError" in answer["code_runs"][0]["output"]


def test_follow_up(server):
    thread = new_thread(server)
    say(server, thread, "total amount by region")
    answer = say(server, thread, "and by product?")
    assert sorted(answer["result"]["rows"]) == [["Coffee", 75], ["Tea", 30]], answer["response"]


def test_what_cannot_be_read_offers_what_can(server):
    thread = new_thread(server)
    answer = say(server, thread, "zorp the fleem of vrint")
    assert answer["status"] == "rejected" and answer["details"]["query_mode"] == "chat"
    assert answer["result"]["error"]["type"] == "LLM_UNAVAILABLE"
    assert len(answer["suggestions"]) == 3
    for question in answer["suggestions"]:
        again = say(server, thread, question)
        assert again["result"]["rows"], question


@pytest.mark.parametrize("question", ["What columns are in this dataset?", "which fields does sales have", "describe the schema",
                                      "list the tables, please"])
def test_columns_are_told_from_the_schema(server, question):
    answer = say(server, new_thread(server), question)
    assert answer["status"] == "succeeded" and answer["details"]["query_mode"] == "chat" and answer["code_runs"] == []
    assert answer["result"]["columns"] == ["table", "column", "type"]
    assert ["sales", "amount", "BIGINT"] in answer["result"]["rows"] and "amount (BIGINT)" in answer["response"]


def test_python_is_written_where_it_is_asked_for(server):
    thread = new_thread(server)
    answer = say(server, thread, "use pandas to group sales by region")
    assert answer["details"]["query_mode"] == "python" and "sales.groupby(\"region\"" in answer["details"]["python_code"]
    assert sorted(answer["result"]["rows"]) == sorted(say(server, thread, "total sales by region")["result"]["rows"])
    answer = say(server, thread, "in python, total amount in East")
    assert answer["details"]["python_code"].startswith("result_df = sql(") and answer["result"]["rows"] == [[45]]
    for question in ("in python, fit a linear regression of amount", "cluster the regions by amount"):
        answer = say(server, thread, question)
        assert answer["status"] == "rejected" and answer["result"]["error"]["type"] == "LLM_UNAVAILABLE" and not answer["code_runs"]


def test_chat_form(server):
    first = server.post("/chat", {"dataset_id": "sales", "message": "SQL: SELECT max(amount) AS m FROM sales"}).json
    assert first["thread_id"].startswith("thread-") and first["status"] == "succeeded"
    assert first["result"]["columns"] == ["m"] and first["result"]["rows"] == [[45]] and first["result"]["error"] is None
    assert first["details"]["query_mode"] == "sql" and first["details"]["compiled_sql"].startswith("SELECT max")
    second = server.post("/chat", {"thread_id": first["thread_id"], "dataset_id": "staff", "message": "how many rows are there?"}).json
    assert second["result"]["rows"] == [[3]] and second["thread_id"] == first["thread_id"]
    messages = server.get(f"/threads/{first['thread_id']}/messages").json["messages"]
    assert [m["role"] for m in messages] == ["user", "assistant"] * 2
    assert [m["dataset_id"] for m in messages] == ["sales"] * 2 + ["staff"] * 2
    assert messages[1]["run_id"] == first["run_id"]
    capsule = server.get(f"/runs/{first['run_id']}").json
    assert capsule["question"] == "SQL: SELECT max(amount) AS m FROM sales" and capsule["thread_id"] == first["thread_id"]
    assert capsule["result_json"]["rows"] == [[45]]
    assert len(server.get(f"/threads/{first['thread_id']}/messages?limit=1").json["messages"]) == 1
    refused(server.post("/chat", {"dataset_id": "sales"}), 400, "VALIDATION_ERROR")
    refused(server.post("/chat", {"dataset_id": "sales", "message": "   "}), 400, "VALIDATION_ERROR")
    refused(server.post("/chat", {"dataset_id": "sales", "message": "x" * 4001}), 400, "VALIDATION_ERROR")
    rejected = server.post("/chat", {"dataset_id": "sales", "message": "SQL: DROP TABLE sales"}).json
    assert rejected["status"] == "rejected" and rejected["result"]["error"]["type"] == "SQL_POLICY_VIOLATION"


def test_chat_stream(server):
    with stream(server, "/chat/stream", {"dataset_id": "sales", "message": "number of sales per product"}) as events:
        events = list(events)
    names = [name for name, _ in events]
    assert names[0] == "status" and names[-2:] == ["result", "done"] and "code_run" in names and "token" in names
    assert all(data["type"] == name for name, data in events)
    stages = [data["stage"] for name, data in events if name == "status"]
    assert stages.index("planning") < stages.index("executing")
    result = events[-2][1]
    assert sorted(result["result"]["rows"]) == [["Coffee", 2], ["Tea", 2]]
    assert events[-1][1]["run_id"] == result["run_id"]


def test_thread_stream_shows_output_and_figures(server):
    thread = new_thread(server)
    code = "PYTHON: print('hello')\nimport matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.show()"
    with stream(server, f"/thread/{thread}/message/stream", {"message": code}) as events:
        events = list(events)
    of = lambda kind: [data for name, data in events if name == kind]
    assert "".join(e["text"] for e in of("step")) == "hello\n"
    assert of("image")[0]["png"].startswith("iVBOR")
    assert of("code_run")[0]["language"] == "python"
    assert of("done")[0]["thread_id"] == thread and of("done")[0]["code_runs"]


def test_session_form(server):
    body = {"session_id": "tab-1", "messages": [{"role": "user", "content": "PYTHON: a = 7"}]}
    first = server.post("/chat", body).json
    assert first["session_id"] == "tab-1" and first["images"] == [] and "reply" in first
    body["messages"] += [{"role": "assistant", "content": "ok"}, {"role": "user", "content": "PYTHON: print(a)"}]
    second = server.post("/chat", body).json
    assert second["code_runs"][0]["output"] == "7\n"
    with stream(server, "/chat/stream", {"session_id": "tab-1", "messages": [{"role": "user", "content": "PYTHON: a + 1"}]}) as events:
        events = list(events)
    assert events[-1][0] == "done" and any(name == "token" and "8" in data["value"] for name, data in events)
    assert refused(server.post("/chat", {"messages": []}), 400, "VALIDATION_ERROR") == "Please provide at least one message."
    long = {"messages": [{"role": "user", "content": "x" * 3000}, {"role": "assistant", "content": "y" * 1001}, {"role": "user", "content": "z"}]}
    assert "too long" in refused(server.post("/chat", long), 400, "VALIDATION_ERROR")


def test_messages_of_one_thread_take_turns(server):
    thread = new_thread(server)
    say(server, thread, "PYTHON: log = []")
    answers = [None] * 4

    def send(i):
        answers[i] = say(server, thread, f"PYTHON: import time\nlog.append(('in', {i})); time.sleep(0.05); log.append(('out', {i}))")

    threads = [threading.Thread(target=send, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    log = json.loads(say(server, thread, "PYTHON: import json; print(json.dumps(log))")["code_runs"][0]["output"])
    assert len(log) == 8
    for i in range(0, 8, 2):
        assert log[i][0] == "in" and log[i + 1] == ["out", log[i][1]], log
    history = server.get(f"/thread/{thread}/history").json["messages"]
    assert [m["role"] for m in history] == ["user", "assistant"] * 6


def test_threads_are_their_owners(server):
    thread = new_thread(server)
    say(server, thread, "how many rows are there?")
    ben = "ben-key-0123456789"
    for answer in (server.get(f"/thread/{thread}/status", key=ben), server.get(f"/thread/{thread}/history", key=ben),
                   server.delete(f"/thread/{thread}", key=ben),
                   server.post(f"/thread/{thread}/message", {"message": "hi"}, key=ben)):
        assert refused(answer, 404, "NOT_FOUND") == "Thread not found"
    assert server.get(f"/threads/{thread}/messages", key=ben).json["messages"] == []
    assert thread in server.get("/threads").json["threads"]
    assert thread not in server.get("/threads", key=ben).json["threads"]


def test_deleted_thread_is_gone(server):
    thread = new_thread(server)
    say(server, thread, "PYTHON: 1")
    assert server.delete(f"/thread/{thread}").json == {"thread_id": thread, "deleted": True}
    refused(server.get(f"/thread/{thread}/status"), 404, "NOT_FOUND")
    refused(server.delete(f"/thread/{thread}"), 404, "NOT_FOUND")


def test_client_that_leaves_a_chat_stops_its_turn(server):
    """Of /chat: its client may not know the thread, so nobody could stop it."""
    say_to = {"dataset_id": "sales", "thread_id": "left-alone"}
    assert server.post("/chat", {**say_to, "message": "PYTHON: kept = 'yes'"}).status == 200
    with stream(server, "/chat/stream", {**say_to, "message": "PYTHON: print('on', flush=True)\nwhile True: pass"}) as events:
        for name, _ in events:
            if name == "step":
                break
    wait_for_metric(server, 0, "riddle_kernels", state="running")
    assert server.post("/chat", {**say_to, "message": "PYTHON: kept"}).json["result"]["rows"] == [["yes"]]
    assert any(m["content"].startswith("Stopped") for m in server.get("/thread/left-alone/history").json["messages"])


def test_history_outlives_the_server(tmp_path):
    (tmp_path / "datasets" / "sales").mkdir(parents=True)
    (tmp_path / "datasets" / "sales" / "sales.csv").write_text(SALES)
    server = Server(tmp_path, **QUICK)
    with server:
        thread = new_thread(server)
        say(server, thread, "total amount by region")
    with server:
        assert server.get(f"/thread/{thread}/status").json == {**server.get(f"/thread/{thread}/status").json, "sandbox_status": "cold",
                                                              "message_count": 2}
        assert sorted(say(server, thread, "and by product?")["result"]["rows"]) == [["Coffee", 75], ["Tea", 30]]


def test_python_can_be_switched_off(tmp_path):
    (tmp_path / "datasets" / "sales").mkdir(parents=True)
    (tmp_path / "datasets" / "sales" / "sales.csv").write_text(SALES)
    with Server(tmp_path, **QUICK, ENABLE_PYTHON_EXECUTION="false") as server:
        thread = new_thread(server)
        answer = say(server, thread, "PYTHON: 1+1")
        assert answer["status"] == "rejected" and "ENABLE_PYTHON_EXECUTION" in answer["response"]
        assert say(server, thread, "how many rows are there?")["result"]["rows"] == [[4]]


def test_least_used_thread_gives_its_kernel_up(tmp_path):
    (tmp_path / "datasets" / "sales").mkdir(parents=True)
    (tmp_path / "datasets" / "sales" / "sales.csv").write_text(SALES)
    with Server(tmp_path, **QUICK, RIDDLE_HOT_THREADS=2, RIDDLE_IMAGES_SIZE=0) as server:
        threads = [new_thread(server) for _ in range(3)]
        for i, thread in enumerate(threads):
            say(server, thread, f"PYTHON: mine = {i}")
        assert [server.get(f"/thread/{t}/status").json["sandbox_status"] for t in threads] == ["cold", "hot", "hot"]
        answer = say(server, threads[0], "PYTHON: 'mine' in globals()")
        assert answer["result"]["rows"] == [[False]] and answer["state_lost"] and "room" in answer["state_lost_reason"]
        assert say(server, threads[2], "PYTHON: mine")["result"]["rows"] == [[2]]


def test_many_threads_do_not_mix(server):
    """Each has data, variables and questions of its own; what comes back must be its own, too."""
    n, wrong = 40, []

    def chat(i):
        name = f"mix{i}"
        thread = server.post("/thread/new", {"datasets": ["sales"], "thread_id": name}).json["thread_id"]
        said = [say(server, thread, f"PYTHON: mine = {i}"), say(server, thread, f"SQL: SELECT {i} AS i, sum(amount) AS s FROM sales"),
                say(server, thread, "PYTHON: print(mine, flush=True)"), say(server, thread, "how many rows are there?")]
        seen = (said[1]["result"]["rows"], said[2]["code_runs"][0]["output"], said[3]["result"]["rows"])
        if seen != ([[i, 105]], f"{i}\n", [[4]]) or any(a["thread_id"] != name for a in said):
            wrong.append((i, seen))
        history = server.get(f"/thread/{thread}/history").json["messages"]
        if history[0]["content"] != f"PYTHON: mine = {i}" or len(history) != 8:
            wrong.append((i, history))

    workers = [threading.Thread(target=chat, args=(i,)) for i in range(n)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert not wrong, wrong[:3]


def test_a_plan_runs_as_it_is(server):
    thread = new_thread(server)
    plan = say(server, thread, "total amount by region")["details"]["plan_json"]
    answer = say(server, thread, "plan:\n" + json.dumps(plan))
    assert (answer["status"], answer["details"]["query_mode"], answer["details"]["plan_json"]) == ("succeeded", "plan", plan)
    assert sorted(answer["result"]["rows"]) == [["East", 45], ["North", 40], ["South", 20]]
    assert answer["code_runs"][0]["code"] == answer["details"]["compiled_sql"] and "GROUP BY" in answer["details"]["compiled_sql"]


def test_a_plan_that_is_none(server):
    thread = new_thread(server)
    answer = say(server, thread, "PLAN: {\"select\": ")
    assert answer["status"] == "rejected" and "the plan behind 'PLAN:' cannot be read" in answer["response"]
    answer = say(server, thread, 'PLAN: {"dataset_id": "sales", "table": "nowhere", "select": [{"column": "amount"}]}')
    assert answer["status"] == "rejected" and "nowhere" in answer["response"]
    # Words after "Plan:" are a question like any other.
    assert say(server, thread, "Plan: total amount")["result"]["rows"] == [[105]]
