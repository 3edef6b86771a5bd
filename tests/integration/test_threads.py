"""Code that runs in a thread's kernel, turns that go on without their client, and how they are followed and stopped."""

import json
import threading
from contextlib import contextmanager

import pytest

from api import QUICK, refused, wait_for_metric
from server import Server, read_events, wait_until
from test_chat import KEYS, SALES, STAFF, new_thread, say, stream

pytestmark = pytest.mark.plain

LOOP = "print('on', flush=True)\nwhile True: pass"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    directory = tmp_path_factory.mktemp("threads")
    for name, text in (("sales", SALES), ("staff", STAFF)):
        (directory / "datasets" / name).mkdir(parents=True)
        (directory / "datasets" / name / f"{name}.csv").write_text(text)
    with Server(directory, **QUICK, **KEYS) as s:
        s.key = "ann-key-0123456789"
        yield s


def execute(server, thread, code, language="python", **more):
    answer = server.post(f"/thread/{thread}/execute", {"language": language, "code": code, **more})
    assert answer.status == 200, answer.body
    return answer.json


@contextmanager
def follow(server, thread, key=None):
    connection = server.connect()
    try:
        connection.request("GET", f"/thread/{thread}/turn/stream", headers=server.headers(key=key))
        response = connection.getresponse()
        yield response.status, read_events(response)
    finally:
        connection.close()


def until_it_runs(events):
    for name, data in events:
        if name == "step" and "on" in data["text"]:
            return
    raise AssertionError("the stream ended before the code ran")


# ---- execute ----


def test_python_and_sql_share_the_thread_with_messages(server):
    thread = new_thread(server)
    made = execute(server, thread, "import pandas as pd\nmine = pd.DataFrame({'a': [1, 2, 3]})\nprint('made')")
    assert made["status"] == "succeeded" and made["result"]["stdout"] == "made\n" and made["thread_id"] == thread
    assert execute(server, thread, "SELECT sum(a) AS s FROM mine", "sql")["result"]["rows"] == [[6]]
    assert say(server, thread, "PYTHON: len(mine)")["result"]["rows"] == [[3]]
    say(server, thread, "PYTHON: said = 'hello'")
    assert execute(server, thread, "said")["result"]["rows"] == [["hello"]]
    assert execute(server, thread, "SELECT count(*) AS n FROM sales", "sql")["result"]["rows"] == [[4]]
    messages = server.get(f"/thread/{thread}/history").json["messages"]
    assert [m["content"] for m in messages if m["role"] == "user"] == ["PYTHON: len(mine)", "PYTHON: said = 'hello'"]


def test_execution_has_a_capsule(server):
    thread = new_thread(server)
    done = execute(server, thread, "6 * 7", timeout_seconds=7, max_rows=11, max_output_bytes=2048)
    capsule = server.get(f"/runs/{done['run_id']}").json
    assert capsule["thread_id"] == thread and capsule["python_code"] == "6 * 7" and capsule["query_mode"] == "python"
    assert capsule["status"] == "succeeded" and capsule["result_json"]["rows"] == [[42]]
    limits = capsule["limits_json"]
    assert (limits["timeout_ms"], limits["max_rows"], limits["max_output_bytes"]) == (7000, 11, 2048)


def test_code_may_be_much_longer_than_a_message(server):
    thread = new_thread(server, datasets=[])
    code = "total = 0\n" + "total += 1\n" * 60000 + "total"
    assert 600_000 < len(code) < 1 << 20
    assert execute(server, thread, code)["result"]["rows"] == [[60000]]
    refused(server.post(f"/thread/{thread}/execute", {"code": "#" * ((1 << 20) + 1)}), 413, "TOO_LARGE")


def test_its_own_limits_hold(server):
    thread = new_thread(server)
    rows = execute(server, thread, "SELECT * FROM sales", "sql", max_rows=2)
    assert rows["result"]["row_count"] == 2 and rows["result"]["truncated"] is True
    execute(server, thread, "kept = 1")
    slow = execute(server, thread, "while True: pass", timeout_seconds=1)
    assert slow["status"] == "timed_out" and "1 second" in slow["result"]["error"]["message"]
    assert execute(server, thread, "kept")["result"]["rows"] == [[1]]  # it was interrupted, not killed


def test_thread_without_data(server):
    made = server.post("/thread/new", {"datasets": []}).json
    assert made["attached_files"] == []
    thread = made["thread_id"]
    assert execute(server, thread, "import os\nos.listdir('/data') if os.path.isdir('/data') else []")["result"]["verdict"] == "ok"
    assert execute(server, thread, "SELECT 1 + 1 AS two", "sql")["result"]["rows"] == [[2]]
    assert execute(server, thread, "SELECT * FROM sales", "sql")["status"] in ("failed", "rejected")


def test_what_code_does_is_a_result(server):
    thread = new_thread(server)
    bad = execute(server, thread, "1 / 0")
    assert bad["status"] == "failed" and bad["result"]["error"]["type"] == "PYTHON_EXECUTION_ERROR"
    execute(server, thread, "kept = 1")
    dead = execute(server, thread, "import os\nos._exit(3)")
    assert dead["status"] == "failed" and dead["state_lost"] is True
    assert execute(server, thread, "'kept' in dir()")["result"]["rows"] == [[False]]


def test_bad_executions_are_refused(server):
    thread = new_thread(server)
    path = f"/thread/{thread}/execute"
    refused(server.post(path, {}), 422, "VALIDATION_ERROR")
    refused(server.post(path, {"code": ""}), 400, "VALIDATION_ERROR")
    refused(server.post(path, {"code": "1", "language": "perl"}), 422, "VALIDATION_ERROR")
    refused(server.post(path, {"code": "1", "timeout_seconds": 601}), 422, "VALIDATION_ERROR")
    refused(server.post("/thread/unknown/execute", {"code": "1"}), 404, "NOT_FOUND")
    refused(server.post(path, {"code": "1"}, key="ben-key-0123456789"), 404, "NOT_FOUND")


def test_python_that_is_switched_off_is_refused(tmp_path):
    with Server(tmp_path, **QUICK, ENABLE_PYTHON_EXECUTION="false") as server:
        thread = new_thread(server, datasets=[])
        refused(server.post(f"/thread/{thread}/execute", {"code": "1"}), 403, "FEATURE_DISABLED")
        assert execute(server, thread, "SELECT 1 AS x", "sql")["result"]["rows"] == [[1]]


def test_execution_streams(server):
    thread = new_thread(server)
    code = "print('one', flush=True)\nimport matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.show()\n21 * 2"
    with stream(server, f"/thread/{thread}/execute/stream", {"code": code}) as events:
        seen = list(events)
    names = [name for name, _ in seen]
    assert names[0] == "status" and names[-2:] == ["result", "done"] and "image" in names
    assert "".join(d["text"] for n, d in seen if n == "step") == "one\n"
    assert seen[-2][1]["result"]["rows"] == [[42]] and seen[-1][1]["status"] == "succeeded"
    assert seen[-1][1]["run_id"] == seen[-2][1]["run_id"]


def test_turns_and_executions_keep_their_order(server):
    thread = new_thread(server)
    execute(server, thread, "order = []")
    with stream(server, f"/thread/{thread}/message/stream", {"message": "PYTHON: print('on', flush=True)\nimport time; time.sleep(0.5)\norder.append(1)"}) as first:
        until_it_runs(first)
        answers = {}
        second = threading.Thread(target=lambda: answers.update(e=execute(server, thread, "order.append(2)")))
        second.start()
        wait_for_metric(server, 2, "riddle_turns")
        answers["m"] = say(server, thread, "PYTHON: order")
        second.join(30)
    assert answers["e"]["status"] == "succeeded"
    assert json.dumps(answers["m"]["result"]["rows"]) == json.dumps([[1], [2]]) or "[1, 2]" in json.dumps(answers["m"]["result"])


def test_variables_of_executions_are_missed_after_a_restart(tmp_path):
    """Without images. With them they are there: test_images.py."""
    server = Server(tmp_path, **QUICK, RIDDLE_IMAGES_SIZE=0)
    with server:
        thread = new_thread(server, datasets=[])
        execute(server, thread, "kept = 1")
    with server:
        again = execute(server, thread, "'kept' in dir()")
        assert again["result"]["rows"] == [[False]] and again["state_lost"] is True


# ---- following and stopping ----


def test_turn_goes_on_when_its_client_leaves(server):
    thread = new_thread(server)
    execute(server, thread, "import os")
    code = "PYTHON: print('on', flush=True)\nwhile not os.path.exists('/workspace/go'): pass\nprint('end')"
    with stream(server, f"/thread/{thread}/message/stream", {"message": code}) as events:
        until_it_runs(events)
    with follow(server, thread) as (status, events):
        assert status == 200
        name, asked = next(events)
        assert name == "status" and asked["stage"] == "following" and asked["message"] == code
        until_it_runs(events)  # what was printed before is told again
        assert server.post(f"/thread/{thread}/stop", {}).json["stopped"] == 1
        name, done = list(events)[-1]
        assert name == "done" and done["status"] == "cancelled" and done["run_id"] == asked["run_id"]
    with follow(server, thread) as (status, _):
        assert status == 204
    last = server.get(f"/threads/{thread}/messages").json["messages"][-1]
    assert last["run_id"] == asked["run_id"] and last["content"].startswith("Stopped")
    assert execute(server, thread, "os.getpid() > 0")["result"]["rows"] == [[True]]  # the kernel was kept


def test_turn_that_nobody_follows_ends_and_is_stored(server):
    thread = new_thread(server)
    with stream(server, f"/thread/{thread}/message/stream", {"message": "PYTHON: print('on', flush=True)\nimport time; time.sleep(0.3)\n'finished'"}) as events:
        until_it_runs(events)
    wait_for_metric(server, 0, "riddle_turns")
    last = server.get(f"/threads/{thread}/messages").json["messages"][-1]
    assert last["metadata"]["status"] == "succeeded"
    assert server.get(f"/runs/{last['run_id']}").json["result_json"]["rows"] == [["finished"]]


def test_rename_pin_and_search(server):
    one, two = new_thread(server), new_thread(server)

    def patch(thread, body):
        return server.call("PATCH", f"/thread/{thread}", json.dumps(body), {"Content-Type": "application/json"})

    assert patch(one, {"title": "Löwen 100% wild_cats"}).json == {"thread_id": one, "title": "Löwen 100% wild_cats", "pinned": False}
    assert patch(one, {"pinned": True}).json == {"thread_id": one, "title": "Löwen 100% wild_cats", "pinned": True}
    assert patch(two, {"title": "tame dogs"}).status == 200
    listed = server.get("/threads?pinned=true").json
    assert listed["order"] == [one] and listed["threads"][one]["pinned"] is True
    for text, found in (("100%25", [one]), ("WILD_", [one]), ("dogs", [two]), ("%25%25", []), ("l%C3%B6wen", [one])):
        assert server.get(f"/threads?search={text}").json["order"] == found, text
    assert patch(one, {"pinned": False}).json["pinned"] is False and server.get("/threads?pinned=true").json["order"] == []
    assert patch("nosuchthread", {"title": "x"}).status == 404
    assert patch(one, {"title": "x" * 201}).status == 422 and patch(one, {"title": ""}).status == 422
    assert server.get(f"/thread/{one}/status").json["title"] == "Löwen 100% wild_cats"


def test_history_keeps_what_the_answer_said(server):
    """What a page shows of an answer is there after a reload."""
    thread = new_thread(server)
    answer = server.post(f"/thread/{thread}/message", {"message": "total amount by region with sparkle"}).json
    assert answer["not_understood"] == ["sparkle"]
    kept = server.get(f"/threads/{thread}/messages").json["messages"][-1]["metadata"]
    assert kept["model"] == "builtin" and kept["total_ms"] > 0 and kept["timings_ms"]["exec_total"] >= 0
    for name in ("reading", "not_understood", "chart", "choices", "suggestions", "warning"):
        assert kept.get(name) == answer.get(name), name


def test_execution_can_be_followed_by_several(server):
    thread = new_thread(server)
    with stream(server, f"/thread/{thread}/execute/stream", {"code": LOOP}) as own:
        until_it_runs(own)
        with follow(server, thread) as (_, one), follow(server, thread) as (_, two):
            asked = [next(one)[1], next(two)[1]]
            assert [a["code"] for a in asked] == [LOOP, LOOP] and asked[0]["language"] == "python"
            until_it_runs(one)
            until_it_runs(two)
            assert server.post(f"/thread/{thread}/stop", {}).status == 200
            ends = [list(events)[-2:] for events in (own, one, two)]
    assert [[name for name, _ in e] for e in ends] == [["result", "done"]] * 3
    assert {e[0][1]["status"] for e in ends} == {"cancelled"} and len({e[1][1]["run_id"] for e in ends}) == 1


def test_too_many_cannot_follow(server):
    thread = new_thread(server)
    with stream(server, f"/thread/{thread}/execute/stream", {"code": LOOP}) as own:
        until_it_runs(own)
        connections = [server.connect() for _ in range(16)]
        answers = []
        for c in connections:
            c.request("GET", f"/thread/{thread}/turn/stream", headers=server.headers())
            answers.append(c.getresponse())
        events = list(read_events(answers[-1]))
        assert [n for n, _ in events] == ["error"] and events[0][1]["error_type"] == "UNAVAILABLE"
        server.post(f"/thread/{thread}/stop", {})
        for c in connections:
            c.close()
        assert list(own)[-1][0] == "done"


def test_what_is_told_again_is_bounded(server):
    thread = new_thread(server)
    code = "import sys\nfor i in range(900):\n    print('x' * 1000, flush=True)\nprint('on', flush=True)\nwhile True: pass"
    with stream(server, f"/thread/{thread}/execute/stream", {"code": code, "max_output_bytes": 1000000}) as own:
        until_it_runs(own)
        with follow(server, thread) as (_, events):
            name, asked = next(events)
            told = 0
            assert asked["skipped"] > 0
            server.post(f"/thread/{thread}/stop", {})
            for name, data in events:
                told += len(data["text"]) if name == "step" else 0
            assert name == "done" and told <= 512 << 10


def test_stop_ends_what_waits_as_well(server):
    thread = new_thread(server)
    results = []
    with stream(server, f"/thread/{thread}/execute/stream", {"code": LOOP}) as own:
        until_it_runs(own)
        second = threading.Thread(target=lambda: results.append(execute(server, thread, "1")))
        second.start()
        wait_for_metric(server, 2, "riddle_turns")
        assert server.post(f"/thread/{thread}/stop", {}).json == {"thread_id": thread, "stopped": 2}
        assert list(own)[-1][1]["status"] == "cancelled"
        second.join(30)
    assert results[0]["status"] == "cancelled"
    assert server.post(f"/thread/{thread}/stop", {}).json == {"thread_id": thread, "stopped": 0}


def test_threads_of_others_are_neither_followed_nor_stopped(server):
    thread = new_thread(server)
    ben = "ben-key-0123456789"
    with stream(server, f"/thread/{thread}/execute/stream", {"code": LOOP}) as own:
        until_it_runs(own)
        with follow(server, thread, key=ben) as (status, _):
            assert status == 404
        refused(server.post(f"/thread/{thread}/stop", {}, key=ben), 404, "NOT_FOUND")
        assert server.get(f"/thread/{thread}/status").json["sandbox_status"] == "hot"
        server.post(f"/thread/{thread}/stop", {})
        assert list(own)[-1][1]["status"] == "cancelled"
    with follow(server, "unknown") as (status, _):
        assert status == 404
    refused(server.post("/thread/unknown/stop", {}), 404, "NOT_FOUND")


def test_other_data_begins_with_its_message(server):
    """A message that brings other data does not take them away from the turn under way."""
    thread = new_thread(server)
    answers = []
    ask = {"thread_id": thread, "dataset_id": "staff", "message": "SQL: SELECT count(*) AS n FROM staff"}
    with stream(server, f"/thread/{thread}/execute/stream", {"code": LOOP, "timeout_seconds": 3}) as own:
        until_it_runs(own)
        second = threading.Thread(target=lambda: answers.append(server.post("/chat", ask).json))
        second.start()
        wait_for_metric(server, 2, "riddle_turns")
        refused(server.post("/chat", {**ask, "dataset_id": "nowhere"}), 404, "NOT_FOUND")
        with follow(server, thread) as (_, events):
            until_it_runs(events)  # it still runs
        assert server.get(f"/thread/{thread}/status").json["sandbox_status"] == "hot"
        assert list(own)[-1][1]["status"] == "timed_out"
        second.join(60)
    assert answers[0]["result"]["rows"] == [[3]]


def test_deleting_a_thread_ends_its_turn(server):
    thread = new_thread(server)
    with stream(server, f"/thread/{thread}/execute/stream", {"code": LOOP}) as own:
        until_it_runs(own)
        assert server.delete(f"/thread/{thread}").json["deleted"] is True
        assert list(own)[-1][0] == "done"
    wait_until(lambda: server.get(f"/thread/{thread}/status").status == 404, "the thread is gone")


# ---- frozen threads ----


def status(server, thread):
    return server.get(f"/thread/{thread}/status").json


def test_frozen_thread_keeps_what_it_holds(server):
    thread = new_thread(server)
    execute(server, thread, "kept = [1, 2, 3]\nnumbers = (n * n for n in range(10))\nnext(numbers), next(numbers)")
    frozen = server.post(f"/thread/{thread}/freeze", {})
    assert frozen.status == 200 and frozen.json["sandbox_status"] == "warm", frozen.body
    assert frozen.json["sandbox"]["last_move"] == "hot→warm" and frozen.json["sandbox"]["has_variables"] is True
    assert status(server, thread)["sandbox_status"] == "warm"
    assert server.get("/threads").json["threads"][thread]["sandbox_status"] == "warm"
    assert server.post(f"/thread/{thread}/freeze", {}).json["sandbox_status"] == "warm"  # it is so already
    answer = execute(server, thread, "sum(kept) + next(numbers)")
    assert answer["result"]["rows"] == [[10]] and not answer.get("state_lost")
    assert answer["container_state"].startswith("warm→hot (") and answer["container_state"].endswith("ms)")
    assert status(server, thread)["sandbox"]["last_move"] == "warm→hot"
    assert execute(server, thread, "1")["container_state"] == "hot"


def test_thread_is_woken_and_its_files_are_read(server):
    thread = new_thread(server)
    execute(server, thread, "open('/workspace/a.txt', 'w').write('hello')")
    server.post(f"/thread/{thread}/freeze", {})
    assert server.get(f"/files/download?session_id={thread}&path=a.txt").status == 200  # looking at a file thaws it
    assert status(server, thread)["sandbox_status"] == "hot"
    server.post(f"/thread/{thread}/freeze", {})
    woken = server.post(f"/thread/{thread}/wake", {})
    assert woken.json["sandbox_status"] == "hot" and woken.json["sandbox"]["last_move"] == "warm→hot"


def test_what_cannot_be_frozen_is_refused(server):
    thread = new_thread(server)
    ben = "ben-key-0123456789"
    with stream(server, f"/thread/{thread}/execute/stream", {"code": LOOP}) as own:
        until_it_runs(own)
        refused(server.post(f"/thread/{thread}/freeze", {}), 409, "CONFLICT")
        refused(server.post(f"/thread/{thread}/freeze", {}, key=ben), 404, "NOT_FOUND")
        server.post(f"/thread/{thread}/stop", {})
        assert list(own)[-1][1]["status"] == "cancelled"
    refused(server.post("/thread/unknown/freeze", {}), 404, "NOT_FOUND")
    refused(server.post("/thread/unknown/wake", {}), 404, "NOT_FOUND")


def test_idle_threads_are_frozen(tmp_path):
    (tmp_path / "datasets" / "sales").mkdir(parents=True)
    (tmp_path / "datasets" / "sales" / "sales.csv").write_text(SALES)
    with Server(tmp_path, **QUICK, RIDDLE_FREEZE_SECONDS=1) as server:
        threads = [new_thread(server) for _ in range(3)]
        for i, thread in enumerate(threads):
            execute(server, thread, f"mine = {i}")
        wait_until(lambda: all(status(server, t)["sandbox_status"] == "warm" for t in threads), "idle threads are frozen")
        wait_for_metric(server, 3, "riddle_threads", state="warm")
        for i, thread in enumerate(threads):
            assert say(server, thread, "PYTHON: mine")["result"]["rows"] == [[i]]
        assert server.delete(f"/thread/{threads[0]}").json["deleted"] is True
