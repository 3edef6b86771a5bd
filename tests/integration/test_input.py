"""input() in code that a person runs: threads, sandboxes, the command line."""

import json
import subprocess
import time

import pytest

from server import RIDDLE, Server, read_events
from test_chat import KEYS

pytestmark = pytest.mark.plain

CODE = "print('before')\nname = input('Name? ')\nprint('hello', name)"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("input"), RIDDLE_PRELOAD="", RATE_LIMIT_MAX=0, RIDDLE_DEBUG_PAUSE_SECONDS=3, **KEYS) as s:
        s.key = "ann-key-0123456789"
        yield s


@pytest.fixture(scope="module")
def thread(server):
    return server.post("/thread/new", {"datasets": []}).json["thread_id"]


def stream(server, path, body):
    connection = server.connect()
    headers = {**server.headers(), "Content-Type": "application/json"}
    connection.request("POST", path, json.dumps(body), headers)
    response = connection.getresponse()
    assert response.status == 200, response.read()
    return connection, read_events(response)


def prompt_of(events):
    for _, data in events:
        if data.get("stage") == "input":
            return data["prompt"]
    raise AssertionError("no code asked for input")


def result_of(events):
    return next(data for name, data in events if name == "result")


def test_line_reaches_the_code_of_a_thread_and_its_clock_stands(server, thread):
    connection, events = stream(server, f"/thread/{thread}/execute/stream", {"code": CODE, "timeout_seconds": 1})
    assert prompt_of(events) == "Name? "
    time.sleep(1.5)  # longer than the code may take
    other = server.post(f"/thread/{thread}/input", {"text": "Eve"}, key="ben-key-0123456789")
    assert other.error == ("NOT_FOUND", f"nothing runs in '{thread}'")
    assert server.post(f"/thread/{thread}/input", {"text": "Ann\tB"}).json == {"status": "answered"}
    result = result_of(events)["result"]
    assert result["stdout"] == "before\nhello Ann\tB\n" and result["error"] is None, result
    connection.close()
    assert server.post(f"/thread/{thread}/input", {"text": "late"}).error == ("CONFLICT", "no code waits for input")


def test_message_with_python_asks_too(server, thread):
    connection, events = stream(server, "/chat/stream", {"thread_id": thread, "message": "PYTHON: int(input('n ')) + 1"})
    assert prompt_of(events) == "n "
    assert server.post(f"/thread/{thread}/input", {"text": "41"}).status == 200
    assert "42" in json.dumps(result_of(events)["result"]["value"])
    connection.close()


def test_line_reaches_the_code_of_a_sandbox(server):
    sandbox = server.post("/sandbox/create", {"policy": "open"}).json["sandbox_id"]
    connection, events = stream(server, f"/sandbox/{sandbox}/execute/stream", {"code": "input('a? ') + input('b? ')"})
    for prompt, text in (("a? ", "x"), ("b? ", "y")):
        assert prompt_of(events) == prompt
        assert server.post(f"/thread/{sandbox}/input", {"text": text}).status == 404, "it is no conversation"
        assert server.post(f"/sandbox/{sandbox}/input", {"text": text}).status == 200
    assert result_of(events)["result"] == "xy"
    connection.close()


def test_without_a_listener_it_is_an_error_at_once(server, thread):
    answer = server.post(f"/thread/{thread}/execute", {"code": "input()"}).json
    assert answer["result"]["error"]["message"].startswith("EOFError: input() is not available: nobody is there")


def test_unanswered_question_ends_the_run(server, thread):
    connection, events = stream(server, f"/thread/{thread}/execute/stream", {"code": CODE, "timeout_seconds": 20})
    assert prompt_of(events) == "Name? "
    result = result_of(events)
    assert result["status"] == "timed_out" and result["result"]["error"]["type"] == "PAUSE_LIMIT", result
    connection.close()
    assert server.post(f"/thread/{thread}/execute", {"code": "1 + 1"}).json["status"] == "succeeded"


def run_command(tmp_path, code, text):
    script = tmp_path / "script.py"
    script.write_text(code)
    env = {"RIDDLE_HOME": str(tmp_path / "home"), "RIDDLE_PRELOAD": ""}
    return subprocess.run([str(RIDDLE), "run", "--python", str(script)], input=text, env=env, capture_output=True, text=True, timeout=60)


def test_command_reads_lines_of_its_standard_input(tmp_path):
    ran = run_command(tmp_path, CODE + "\nprint(input('more? '))\n", "Ann\nlast line without its end")
    assert (ran.returncode, ran.stdout) == (0, "before\nhello Ann\nlast line without its end\n"), ran.stderr
    assert "Name? more? " in ran.stderr
    ended = run_command(tmp_path, CODE, "")
    assert ended.returncode == 1 and "standard input has ended" in ended.stderr
