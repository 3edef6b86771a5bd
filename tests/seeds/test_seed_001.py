"""sandbox-agent: its README's commands, its page and its benchmark script, as raw requests."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from model import Model
from server import RIDDLE, Server

PYTHON = {"name": "run_python", "arguments": {"code": "total = 79750.72\nprint(total)"}}
FIXTURES = [
    {"match": {"userMessage": "compute", "hasToolResult": False}, "response": {"toolCalls": [{"id": "call_a", **PYTHON}]}},
    {"match": {"userMessage": "compute", "hasToolResult": True}, "response": {"content": "The total is 79750.72."}},
    {"match": {"userMessage": "round and round"},
     "response": {"toolCalls": [{"id": "call_r", "name": "run_python", "arguments": {"code": "print('again')"}}]}},
    {"match": {"userMessage": "hello"}, "response": {"content": "Hello there."}},
]


@pytest.fixture(scope="module")
def modelled(tmp_path_factory):
    """A server whose model is scripted, and the model."""
    model = Model(tmp_path_factory.mktemp("model"), FIXTURES)
    server = Server(tmp_path_factory.mktemp("modelled"), RATE_LIMIT_MAX=0, LLM_MAX_RETRIES=0, **model.openai())
    (server.datasets / "transactions").mkdir()
    (server.datasets / "transactions" / "transactions.csv").write_text("id,amount\n1,2.5\n2,4\n")
    try:
        with server:
            yield server, model
    finally:
        model.stop()


def new_thread(server, **body):
    answer = server.post("/thread/new", body)
    assert answer.status == 200, answer.body
    return answer.json["thread_id"]


def say(server, thread, message, **more):
    answer = server.post(f"/thread/{thread}/message", {"message": message, **more})
    assert answer.status == 200, answer.body
    return answer.json


def stream(server, thread, message):
    answer = server.call("POST", f"/thread/{thread}/message/stream", json.dumps({"message": message}),
                         {"Content-Type": "application/json", "Accept": "text/event-stream"})
    assert answer.status == 200, answer.body
    return answer


def by_lines(body):
    """As the page and the benchmark read."""
    return [json.loads(line[6:]) for line in body.decode().split("\n") if line.startswith("data: ")]


def by_blocks(body):
    """As readers do that take a block for its data."""
    return [json.loads(block[6:]) for block in body.decode().split("\n\n") if block.startswith("data: ")]


# ---- threads ----


@pytest.mark.parametrize("body", [None, {}, {"file_ids": []}, {"file_ids": None}])
def test_new_thread_has_the_transactions(server, body):
    answer = server.call("POST", "/thread/new") if body is None else server.post("/thread/new", body)
    assert answer.status == 200, answer.body
    made = answer.json
    assert made["container_status"] in ("hot", "cold") and made["attached_files"] == ["transactions.csv"] and made["workspace"]
    assert set(made["timings_ms"]) == {"schema_build", "container_startup", "total"}
    rows = say(server, made["thread_id"], "SQL: SELECT count(*) AS n FROM transactions")["result"]["rows"]
    assert rows == [[1000]]


def test_new_thread_with_uploads(server):
    answer = server.upload(("a.csv", "x,y\n1,2\n"), ("b.csv", "z\n7\n"))
    assert answer.status == 200 and answer.json["message"] == "2 file(s) uploaded successfully"
    files = answer.json["files"]
    assert [(f["filename"], f["size_bytes"], f["rows"], f["columns"]) for f in files] == [("a.csv", 8, 1, ["x", "y"]), ("b.csv", 4, 1, ["z"])]
    thread = new_thread(server, file_ids=[f["file_id"] for f in files])
    assert say(server, thread, "SQL: SELECT x + z AS s FROM a, b")["result"]["rows"] == [[8]]


def test_cells_written_for_it(server):
    """The first table is `df`, and files are in the working directory by their own names."""
    code = "PYTHON: import pandas as pd\nprint(len(df), len(pd.read_csv('data.csv')))"
    assert say(server, new_thread(server), code)["code_runs"][0]["output"] == "1000 1000\n"
    file = server.upload(("mine.csv", "x\n3\n4\n")).json["files"][0]["file_id"]
    code = f"PYTHON: print(df.x.sum(), open('{file}.csv').read().split())"
    assert say(server, new_thread(server, file_ids=[file]), code)["code_runs"][0]["output"] == "7 ['x', '3', '4']\n"


def test_upload_takes_any_file(server):
    answer = server.upload(("notes.txt", "remember the milk\n"), ("dot.png", b"\x89PNG\r\n\x1a\n"))
    assert answer.status == 200 and "errors" not in answer.json, answer.body
    files = answer.json["files"]
    assert [f["filename"] for f in files] == ["notes.txt", "dot.png"] and all(f["file_id"] for f in files)
    thread = new_thread(server, file_ids=[files[0]["file_id"]])
    assert say(server, thread, "PYTHON: print(open('notes.txt').read())")["code_runs"][0]["output"] == "remember the milk\n\n"


def test_unknown_file(server):
    answer = server.post("/thread/new", {"file_ids": ["nope1234"]})
    assert (answer.status, answer.json["detail"]) == (404, "file_id 'nope1234' not found. Upload a file first via POST /upload")


def test_upload_that_fails_in_part_and_whole(server):
    answer = server.upload(("good.csv", "x\n1\n"), ("empty.csv", ""), ("head.csv", "x,y\n"))
    assert answer.status == 200 and [f["filename"] for f in answer.json["files"]] == ["good.csv"]
    assert {e["filename"]: e["error"] for e in answer.json["errors"]} == {"empty.csv": "File is empty", "head.csv": answer.json["errors"][1]["error"]}
    assert answer.json["errors"][1]["error"].startswith("CSV has no data rows")
    answer = server.upload(("empty.csv", ""))
    assert answer.status == 400 and answer.json["detail"] == {"errors": [{"filename": "empty.csv", "error": "File is empty"}]}


def test_status_history_and_list(server):
    thread = new_thread(server)
    say(server, thread, "PYTHON: kept = 41")
    assert server.get(f"/thread/{thread}/status").json.items() >= {"thread_id": thread, "sandbox_status": "hot", "message_count": 2}.items()
    history = server.get(f"/thread/{thread}/history").json
    assert history["thread_id"] == thread and [m["role"] for m in history["messages"]] == ["user", "assistant"]
    assert history["messages"][0]["content"] == "PYTHON: kept = 41"
    assert server.get("/threads").json["threads"][thread].items() >= {"message_count": 2, "sandbox_status": "hot", "cached": True}.items()
    assert say(server, thread, "PYTHON: print(kept + 1)")["code_runs"][0]["output"] == "42\n"


@pytest.mark.parametrize("method, path", [("GET", "/thread/nope/status"), ("GET", "/thread/nope/history"), ("POST", "/thread/nope/message"),
                                          ("POST", "/thread/nope/message/stream")])
def test_unknown_thread(server, method, path):
    answer = server.post(path, {"message": "hi"}) if method == "POST" else server.get(path)
    assert (answer.status, answer.json["detail"]) == (404, "Thread not found")


def test_root_lists_endpoints(server):
    root = server.get("/").json
    assert root["status"] == "ok" and root["ui"] == "/ui" and root["docs"] == "/docs" and root["endpoints"]


def test_history_and_runs_survive_a_restart(tmp_path):
    server = Server(tmp_path, RATE_LIMIT_MAX=0, RIDDLE_PRELOAD="")
    (server.datasets / "transactions").mkdir()
    (server.datasets / "transactions" / "transactions.csv").write_text("id,amount\n1,2.5\n2,4\n")
    with server:
        thread = new_thread(server)
        run_id = say(server, thread, "SQL: SELECT sum(amount) AS s FROM transactions")["run_id"]
    with server:
        history = server.get(f"/thread/{thread}/history").json["messages"]
        assert [m["role"] for m in history] == ["user", "assistant"]
        assert server.get(f"/runs/{run_id}").json["result_json"]["rows"] == [[6.5]]
        assert say(server, thread, "SQL: SELECT count(*) AS n FROM transactions")["result"]["rows"] == [[2]]


# ---- messages ----


def test_message(server):
    answer = say(server, new_thread(server), "What are the top 5 categories by spend?")
    assert {"response", "thread_id", "container_state", "openai_calls", "total_ms", "timings_ms", "code_runs"} <= set(answer)
    assert set(answer["timings_ms"]) >= {"sandbox_restore", "openai_per_call", "openai_total", "exec_per_call", "exec_total", "overhead"}
    assert set(answer["code_runs"][0]) >= {"code", "output", "exec_ms"}


def test_output_has_the_rows_of_a_result(server):
    """A client of this form shows the response and the code_runs, and nothing else."""
    answer = say(server, new_thread(server), "What are the top 5 categories by spend?")
    lines = answer["code_runs"][0]["output"].split("\n")
    rows = answer["result"]["rows"]
    assert lines[0].split() == answer["result"]["columns"] and lines[-1] == f"{len(rows)} rows"
    for row, line in zip(rows, lines[1:]):
        assert row[0] in line and f"{row[1]:.15g}" in line.split(), (row, line)


def test_output_of_a_long_result_is_its_beginning(server):
    output = say(server, new_thread(server), "SQL: SELECT i AS number, repeat('ä', 100) AS word FROM range(150) t(i)")["code_runs"][0]["output"]
    lines = output.split("\n")
    assert lines[1] == "     0  " + "ä" * 40 + "…" and lines[20].startswith("    19  ")
    assert lines[-1] == "150 rows, the first 20 shown" and len(lines) == 22


def test_texts_of_outputs(server):
    thread = new_thread(server)
    assert say(server, thread, "PYTHON: x = 1")["code_runs"][0]["output"] == "(executed, no output)"
    failed = say(server, thread, "PYTHON: 1/0")
    assert "[error]: " in failed["code_runs"][0]["output"] and "ZeroDivisionError" in failed["code_runs"][0]["output"]
    assert say(server, thread, "SQL: SELECT 1 AS one WHERE false")["code_runs"][0]["output"] == "one\n0 rows"


def test_message_names_its_time_limit(server):
    thread = new_thread(server)
    answer = say(server, thread, "PYTHON: while True: pass", timeout_seconds=1)
    assert answer["status"] == "timed_out" and "1 second" in answer["code_runs"][0]["output"]
    assert server.post(f"/thread/{thread}/message", {"message": "x", "timeout_seconds": 601}).status == 422
    assert server.get(f"/runs/{answer['run_id']}").json["limits_json"]["timeout_ms"] == 1000


def test_code_may_be_longer_than_a_question(server):
    thread = new_thread(server)
    long = "PYTHON: " + "# " + "x" * 200000 + "\nprint('end')"
    assert say(server, thread, long)["code_runs"][0]["output"] == "end\n"
    assert server.post(f"/thread/{thread}/message", {"message": "x" * 4001}).status == 400


# ---- streams ----


def test_stream_is_unnamed_whoever_reads(server):
    answer = stream(server, new_thread(server), "PYTHON: print('hi')")
    assert answer.headers["cache-control"].startswith("no-cache") and answer.headers["x-accel-buffering"] == "no"
    assert b"event:" not in answer.body
    events = by_lines(answer.body)
    assert events == by_blocks(answer.body) and events[-1]["type"] == "done"
    assert [e["text"] for e in events if e["type"] == "status"] == ["Executing Python code..."]
    (ran,) = [e for e in events if e["type"] == "code_run"]
    assert ran["code"] == "print('hi')" and ran["output"] == "hi\n" and ran["exec_ms"] >= 0
    assert events[-1].keys() >= {"thread_id", "container_state", "openai_calls", "total_ms", "timings_ms", "code_runs"}
    assert events[-1]["images"] == []


def test_question_that_is_not_understood_runs_nothing(server):
    events = by_lines(stream(server, new_thread(server), "vrint the zorp of fleem").body)
    assert not [e for e in events if e["type"] in ("status", "code_run", "error")]
    assert [e["type"] for e in events if e["type"] != "progress"] == ["token", "done"]
    assert events[-1]["status"] == "rejected" and "without a model" in events[-2]["text"]


def test_stream_of_a_model(modelled):
    server, _ = modelled
    events = by_blocks(stream(server, new_thread(server), "please compute it").body)
    assert "".join(e["text"] for e in events if e["type"] == "token") == "The total is 79750.72."
    done = events[-1]
    assert done["type"] == "done" and done["openai_calls"] == 2 and "flagged" not in done
    assert set(done["timings_ms"]) >= {"ttft", "ttft_saved", "sandbox_restore", "openai_per_call", "openai_total", "exec_per_call", "exec_total"}
    assert [e["output"] for e in events if e["type"] == "code_run"] == ["79750.72\n"]


def test_at_most_ten_calls(modelled):
    server, _ = modelled
    answer = say(server, new_thread(server), "round and round")
    assert answer["openai_calls"] == 10 and answer["response"]


def test_failure_is_told_once(modelled):
    server, model = modelled
    thread = new_thread(server)
    try:
        model.chaos(dropRate=1)
        events = by_lines(stream(server, thread, "hello vrint").body)
        told = [e for e in events if e["type"] in ("token", "error", "done")]
        assert [e["type"] for e in told] == ["error"] and told[0]["message"]
        answer = server.post(f"/thread/{thread}/message", {"message": "hello vrint"})
        assert answer.status == 500 and answer.json["detail"] == told[0]["message"]
        for text in (json.dumps(events), answer.body.decode()):
            assert "127.0.0.1" not in text and str(model.port) not in text
        assert model.url in Path(server.log).read_text()  # the operator finds it
    finally:
        model.chaos()
    assert say(server, thread, "hello")["response"] == "Hello there."


# ---- the benchmark ----


def bench(server, *words):
    return subprocess.run([str(RIDDLE), "bench-stream", "--server", f"http://127.0.0.1:{server.port}", *words], cwd=server.directory,
                          capture_output=True, text=True, timeout=120,
                          env={"PATH": os.environ["PATH"], "RIDDLE_HOME": str(server.home)})


def test_benchmark(server):
    thread = new_thread(server)
    done = bench(server, thread, "PYTHON: print(6 * 7)")
    assert done.returncode == 0, done.stderr
    for text in ("[ Non-streaming ]", "[ Streaming ]", "status: Executing Python code...", "code_run", "TTFT", "Breakdown:", "restore="):
        assert text in done.stdout, done.stdout
    lost = bench(server, "nope", "hi")
    assert lost.returncode == 1 and "Thread not found" in lost.stderr
