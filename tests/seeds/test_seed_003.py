"""Sandboxed Agent: what its page sends to /chat and /files, as raw requests."""

import json

import pytest
from model import Model
from server import FORM_TYPE, Server, form

SUM = {"name": "run_python", "arguments": {"code": "print(2 + 2)"}}
FIXTURES = [
    {"match": {"userMessage": "2+2", "hasToolResult": False}, "response": {"toolCalls": [{"id": "call_s", **SUM}]}},
    {"match": {"userMessage": "2+2", "hasToolResult": True}, "response": {"content": "It is 4."}},
    {"match": {"userMessage": "notes"}, "response": {"content": "I see the file."}},
    {"match": {"userMessage": "Go on."}, "response": {"content": "And so on."}},
    {"match": {"userMessage": "word"}, "response": {"content": "A word."}},
]


@pytest.fixture(scope="module")
def modelled(tmp_path_factory):
    model = Model(tmp_path_factory.mktemp("model"), FIXTURES)
    server = Server(tmp_path_factory.mktemp("modelled"), RATE_LIMIT_MAX=0, LLM_MAX_RETRIES=0, **model.openai())
    try:
        with server:
            yield server, model
    finally:
        model.stop()


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


def chat(server, *messages, **more):
    answer = server.post("/chat", {"messages": list(messages), **more})
    assert answer.status == 200, answer.body
    return answer.json


def stream(server, *messages, **more):
    """The events, read in blocks as the page does."""
    answer = server.call("POST", "/chat/stream", json.dumps({"messages": list(messages), **more}), {"Content-Type": "application/json"})
    assert answer.status == 200, answer.body
    assert b"event:" not in answer.body
    return [json.loads(block[6:]) for block in answer.body.decode().split("\n\n") if block.startswith("data: ")]


def upload(server, session, *files):
    body = (f'--riddle-test-boundary-7d1\r\nContent-Disposition: form-data; name="session_id"\r\n\r\n{session}\r\n').encode()
    return server.call("POST", "/files/upload", body + form(*files, field="files[]"), {"Content-Type": FORM_TYPE})


def asked(model):
    """What the model was last sent, as text."""
    return json.dumps(model.requests()[-1]["body"]["messages"])


# ---- chat without a table ----


def test_question_without_a_file(modelled):
    server, model = modelled
    answer = chat(server, user("What is 2+2? use python"))
    assert answer["reply"] == "It is 4." and answer["images"] == []
    assert answer["status"] == "succeeded" and answer["code_runs"][0]["output"] == "4\n" and answer["llm_calls"] == 2


def test_stream_without_a_file(modelled):
    server, _ = modelled
    events = stream(server, user("What is 2+2? use python"))
    assert "".join(e["value"] for e in events if e["type"] == "token") == "It is 4."
    assert [e["type"] for e in events][-2:] == ["images", "done"] and events[-2]["value"] == []


def test_session_with_only_a_text_file_and_after_clear(modelled):
    server, model = modelled
    taken = upload(server, "only-notes", ("notes.txt", "remember the milk\n")).json
    assert taken["status"] == "ok" and [(f["name"], f["size"]) for f in taken["files"]] == [("notes.txt", 18)]
    assert chat(server, user("what do my notes say?"), session_id="only-notes")["reply"] == "I see the file."
    assert "/data/notes.txt" in asked(model)
    assert server.post("/files/clear", {"session_id": "only-notes"}).json["status"] == "ok"
    assert chat(server, user("What is 2+2?"), session_id="only-notes")["reply"] == "It is 4."
    assert "/data/notes.txt" not in asked(model)


def test_without_a_model_it_says_what_can_be_done(server):
    answer = chat(server, user("What is 2+2? use python"), session_id="bare")
    assert answer["status"] == "rejected" and answer["result"]["error"]["type"] == "LLM_UNAVAILABLE"
    assert "PYTHON:" in answer["reply"] and "Upload" in answer["reply"]
    assert chat(server, user("PYTHON: print(2 + 2)"), session_id="bare")["code_runs"][0]["output"] == "4\n"


# ---- histories ----


def test_history_is_what_the_client_sends(modelled):
    server, model = modelled
    first = [user("first word"), assistant("A word.")]
    chat(server, first[0], session_id="told")
    chat(server, *first, user("second word"), session_id="told")
    assert asked(model).count("first word") == 1  # not doubled
    chat(server, user("edited word"), assistant("Another answer."), user("third word"), session_id="told")
    text = asked(model)
    assert "edited word" in text and "Another answer." in text and "first word" not in text and "second word" not in text
    chat(server, user("fresh word"), session_id="told")  # a new chat under the same id
    assert "edited word" not in asked(model) and "third word" not in asked(model)


def test_last_message_of_the_assistant(modelled):
    server, model = modelled
    assert chat(server, user("tell me"), assistant("Once upon a time"))["reply"] == "And so on."
    assert "Once upon a time" in asked(model)


def test_other_roles(server):
    answer = server.post("/chat", {"messages": [{"role": "system", "content": "be brief"}, user("hi")]})
    assert answer.status == 422 and "role" in json.dumps(answer.json["detail"])


# ---- what is refused ----


@pytest.mark.parametrize("path", ["/chat", "/chat/stream"])
@pytest.mark.parametrize("messages", [[], [user("   ")], [user("a"), user("\n")]])
def test_no_message(server, path, messages):
    answer = server.post(path, {"messages": messages})
    assert (answer.status, answer.json["detail"]) == (400, "Please provide at least one message.")


@pytest.mark.parametrize("path", ["/chat", "/chat/stream"])
def test_message_too_long(server, path):
    answer = server.post(path, {"messages": [user("x" * 2000), assistant("y" * 1500), user("z" * 501)]})
    assert (answer.status, answer.json["detail"]) == (400, "Message too long. Please shorten your request and try again.")


def test_model_that_fails(modelled):
    server, model = modelled
    try:
        model.chaos(dropRate=1)
        answer = server.post("/chat", {"messages": [user("a word")]})
        assert (answer.status, answer.json["detail"]) == (500, "Something went wrong while running the agent.")
        events = stream(server, user("a word"))
        told = [e for e in events if e["type"] != "status"]
        assert [e["type"] for e in told] == ["error", "done"] and told[0]["message"]
        assert "127.0.0.1" not in json.dumps(events) and "127.0.0.1" not in answer.body.decode()
    finally:
        model.chaos()
    assert chat(server, user("a word"))["reply"] == "A word."


# ---- files ----


def test_files(server):
    answer = upload(server, "with-files", ("a.csv", "x\n1\n2\n"), ("blob.bin", b"\x00\x01"))
    assert answer.status == 200 and answer.json["status"] == "ok"
    assert [(f["name"], f["size"]) for f in answer.json["files"]] == [("a.csv", 6), ("blob.bin", 2)]
    assert chat(server, user("PYTHON: print(open('/data/a.csv').read())"), session_id="with-files")["code_runs"][0]["output"].startswith("x\n1\n2\n")
    assert server.post("/files/clear", {"session_id": "with-files"}).json["status"] == "ok"
    assert server.post("/files/clear", {"session_id": "never-seen"}).json["status"] == "ok"


def test_sessions_see_their_own_files_and_nothing_of_the_server(server):
    upload(server, "mine", ("mine.txt", "a"))
    upload(server, "theirs", ("theirs.txt", "b"))
    code = "PYTHON: import os\nprint(sorted(n for n in os.listdir('/data') if n.endswith('.txt')), [k for k in os.environ if 'KEY' in k or 'RIDDLE' in k])"
    assert chat(server, user(code), session_id="mine")["code_runs"][0]["output"] == "['mine.txt'] []\n"
    assert chat(server, user(code), session_id="theirs")["code_runs"][0]["output"] == "['theirs.txt'] []\n"


def test_libraries_of_analysts(server):
    code = ("PYTHON: import numpy as np, pandas as pd, matplotlib.pyplot as plt, seaborn as sns\n"
            "sns.histplot(np.array([1, 2, 2])); plt.savefig('h.png'); print(pd.Series([1, 2]).sum())")
    answer = chat(server, user(code), session_id="libraries", timeout_seconds=60)
    assert answer["code_runs"][0]["output"] == "3\n" and answer["images"] == ["h.png"], answer


def test_figures(server):
    code = "PYTHON: import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.savefig('plot.png')"
    answer = chat(server, user(code), session_id="painter")
    assert answer["images"] == ["plot.png"]
    assert "plot.png" in server.get("/files/list?session_id=painter").json["images"]
    picture = server.get("/files/download?session_id=painter&path=plot.png")
    assert picture.status == 200 and picture.body.startswith(b"\x89PNG")
    events = stream(server, user("PYTHON: 1"), session_id="painter")
    assert [e["value"] for e in events if e["type"] == "images"] == [["plot.png"]]


def test_saved_figures_stay_until_they_are_cleared(server):
    code = "PYTHON: import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.savefig('/data/outputs/kept.png')"
    assert chat(server, user(code), session_id="keeper")["status"] == "succeeded"
    chat(server, user("PYTHON: import os; os._exit(1)"), session_id="keeper")  # the kernel is gone
    (kept,) = [n for n in server.get("/files/list?session_id=keeper").json["images"] if n.endswith("kept.png")]
    picture = server.get(f"/files/download?session_id=keeper&path={kept}")
    assert picture.status == 200 and picture.body.startswith(b"\x89PNG")
    assert server.post("/files/clear", {"session_id": "keeper"}).json["status"] == "ok"
    assert server.get("/files/list?session_id=keeper").json["images"] == []
    assert server.get(f"/files/download?session_id=keeper&path={kept}").status == 404


def test_downloads_that_are_none(server):
    answer = server.get("/files/download?session_id=painter&path=../etc/passwd")
    assert (answer.status, answer.json["detail"]) == (400, "Invalid file path.")
    answer = server.get("/files/download?session_id=painter&path=nothing.png")
    assert answer.status == 404 and answer.json["detail"].startswith("File not found.")
    assert server.post("/chat", {"messages": [user("hi")], "session_id": "../x"}).status == 400
