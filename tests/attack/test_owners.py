"""Every route of the API description, with ids of another owner: the answer is the one that an id which nobody has gets, word for word,
and nothing of the other owner's has changed."""

import json
import re
import uuid

import pytest
from attack import ALICE, BOB, serve
from server import BOUNDARY, FORM_TYPE, form

SECRET = "zebra-7361"
CSV = f"name,total\n{SECRET},42\nother,7\n"
PAGE = f"class Page:\n    def _repr_html_(self): return '{SECRET}' * 60000\ndisplay(Page())"


def ok(answer):
    assert answer.status == 200, (answer.status, answer.body[:500])
    return answer.json


def execute(server, key, thread, code):
    return ok(server.post(f"/thread/{thread}/execute", {"language": "python", "code": code}, key=key))


def things(server, key, word):
    """One of everything that has an id."""
    upload = ok(server.upload((f"{word}.csv", CSV.replace(SECRET, word)), key=key))["files"][0]
    file_id, table = upload["file_id"], upload["table"]
    run = ok(server.sql(file_id, f"SELECT name FROM {table}", key=key))["run_id"]
    figure = ok(server.post("/runs", {"dataset_id": file_id, "query_type": "python", "python_policy": "open",
                                      "python_code": PAGE.replace(SECRET, word)}, key=key))["run_id"]
    thread = ok(server.post("/thread/new", {"file_ids": [file_id], "title": word}, key=key))["thread_id"]
    execute(server, key, thread, f"secret = '{word}'")
    checkpoint = ok(server.post(f"/thread/{thread}/checkpoint", {"name": word}, key=key))["checkpoint_id"]
    sandbox = ok(server.post("/sandbox/create", {"policy": "open", "file_ids": [file_id]}, key=key))["sandbox_id"]
    ok(server.post(f"/sandbox/{sandbox}/execute", {"code": f"open('secret.txt', 'w').write('{word}')"}, key=key))
    saved = ok(server.post(f"/sandbox/{sandbox}/checkpoint", {"name": word}, key=key))["checkpoint_id"]
    session = f"session-{word}"
    field = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="session_id"\r\n\r\n{session}\r\n'.encode()
    ok(server.call("POST", "/files/upload", field + form(("s.csv", CSV.replace(SECRET, word))), {"Content-Type": FORM_TYPE}, key=key))
    return {"file_id": file_id, "table": table, "run_id": run, "figure": figure, "thread_id": thread, "checkpoint_id": checkpoint,
            "sandbox_id": sandbox, "sandbox_checkpoint": saved, "session_id": session}


def nobody(like):
    """Ids of the same shape that nobody has."""
    return {name: str(uuid.uuid4()) if re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", value) else
            uuid.uuid4().hex[:len(value)] if re.fullmatch(r"[0-9a-f]+", value) else
            value if name == "table" else re.sub(r"[a-z0-9]+$", lambda m: uuid.uuid4().hex[:len(m[0])], value)
            for name, value in like.items()}


def path_values(path, ids):
    """{parameter: value} of a path, or None when it names nothing of an owner's."""
    values = {"file_id": ids["file_id"], "dataset_id": ids["file_id"], "data_id": ids["file_id"], "table": ids["table"],
              "run_id": ids["figure"] if "figures" in path else ids["run_id"], "n": "1", "thread_id": ids["thread_id"],
              "sandbox_id": ids["sandbox_id"], "path": "secret.txt", "debug_id": ids["run_id"],
              "checkpoint_id": ids["sandbox_checkpoint"] if path.startswith("/sandbox") else ids["checkpoint_id"]}
    names = re.findall(r"{(\w+)}", path)
    return {n: values[n] for n in names} if all(n in values for n in names) else None


# Bodies and queries that are right but for whose ids they name.
def body_of(path, ids, own):
    bodies = {
        "/runs": {"dataset_id": ids["file_id"], "query_type": "sql", "sql": f"SELECT * FROM {ids['table']}"},
        "/runs/stream": {"dataset_id": ids["file_id"], "query_type": "sql", "sql": f"SELECT * FROM {ids['table']}"},
        "/chat": {"thread_id": ids["thread_id"], "message": "PYTHON: print(secret)"},
        "/chat/stream": {"thread_id": ids["thread_id"], "message": "PYTHON: print(secret)"},
        "/thread/new": {"file_ids": [ids["file_id"]]},
        "/sandbox/create": {"file_ids": [ids["file_id"]]},
        "/sandbox/agent/quick-execute": {"code": "print(1)", "config": {"file_ids": [ids["file_id"]]}},
        "/files/clear": {"session_id": ids["session_id"]},
        "/plans/compile": {"plan": {"dataset_id": ids["file_id"], "table": ids["table"], "select": [{"column": "name"}]}},
        "/thread/{thread_id}/data": {"data": [ids["file_id"]]},
        "/thread/{thread_id}/rollback": {"checkpoint": ids["checkpoint_id"]},
        "/sandbox/{sandbox_id}/rollback": {"checkpoint": ids["sandbox_checkpoint"]},
        "/thread/{thread_id}/messages": {"messages": [{"role": "user", "content": "x"}]},
        "/sandbox/{sandbox_id}/debug/{debug_id}": {"command": "continue"},
    }
    samples = {"message": "PYTHON: print(secret)", "code": "print(open('secret.txt').read())", "language": "python", "title": "taken",
               "name": "taken", "description": "taken", "query": "SELECT 1", "processor_type": "generic"}
    if path in bodies:
        return bodies[path]
    return {name: samples[name] for name in own if name in samples}


QUERIES = {"/runs": "dataset_id={file_id}", "/files/list": "session_id={session_id}", "/verified": "dataset_id={file_id}",
           "/files/download": "session_id={session_id}&path=s.csv", "/thread/{thread_id}/image": "data={file_id}",
           "/sandbox/agent/analyze-data": "table_name={table}&dataset_id={file_id}", "/runs/{run_id}": "capsule=true"}


def calls(document, ids):
    """(method, path, target, body) of every operation that can name something of an owner's."""
    for path, item in document["paths"].items():
        for method, op in item.items():
            values = path_values(path, ids)
            content = op.get("requestBody", {}).get("content", {})
            schema = content.get("application/json", {}).get("schema", {})
            while "$ref" in schema:
                schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
            query = QUERIES.get(path, "").format(**ids)
            body = body_of(path, ids, schema.get("properties", {})) if "application/json" in content else None
            if values is None or not (values or query or path in ("/chat", "/chat/stream") or (body and ids["file_id"] in json.dumps(body)) or
                                      (body and ids["session_id"] in json.dumps(body))):
                continue
            target = re.sub(r"{(\w+)}", lambda m: values[m[1]], path) + (f"?{query}" if query else "")
            yield method.upper(), path, target, body if "application/json" in content else "" if content else None


def shown(answer, ids):
    """What an answer says, without the ids that were asked for and what differs between any two answers."""
    text = answer.body.decode(errors="replace")
    for value in sorted(ids.values(), key=len, reverse=True):
        text = text.replace(value, "ID")
    text = re.sub(r"\b\d+\.\d+(e-?\d+)?\b", "0", text)
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b[0-9a-f]{12,}\b", "NEW", text)
    return answer.status, re.sub(r"\d+", "0", text)


def ask(server, method, target, body):
    if body is None:
        return server.call(method, target, key=ALICE)
    if body == "":
        return server.call(method, target, b"taken", {"Content-Type": "application/octet-stream"}, key=ALICE)
    return server.call(method, target, json.dumps(body), {"Content-Type": "application/json"}, key=ALICE)


def state(server, ids):
    """All that bob can see of his own."""
    paths = [f"/uploads/{ids['file_id']}", "/uploads", f"/data/{ids['file_id']}", f"/runs/{ids['run_id']}", f"/runs/{ids['figure']}", "/runs",
             f"/thread/{ids['thread_id']}/history", f"/threads/{ids['thread_id']}/messages", f"/thread/{ids['thread_id']}/checkpoints",
             "/threads", f"/sandbox/{ids['sandbox_id']}/history", f"/sandbox/{ids['sandbox_id']}/files",
             f"/sandbox/{ids['sandbox_id']}/checkpoints", f"/files/list?session_id={ids['session_id']}", "/verified"]
    return {p: ok(server.get(p, key=BOB)) for p in paths}


@pytest.fixture(scope="module")
def owned(tmp_path_factory):
    with serve(tmp_path_factory.mktemp("owned")) as server:
        yield server, things(server, BOB, SECRET), things(server, ALICE, "mine-0001")


def test_ids_of_others_are_ids_of_nobody(owned):
    server, his, hers = owned
    document = server.get("/openapi.json", key=ALICE).json
    none, before = nobody(his), state(server, his)
    wrong, n = [], 0
    # All ids are his; or the outer one is hers and what is inside it is his.
    mixed = [{**hers, "file_id": ids["file_id"], "table": ids["table"], "checkpoint_id": ids["checkpoint_id"],
              "sandbox_checkpoint": ids["sandbox_checkpoint"]} for ids in (his, none)]
    for real, absent in ((his, none), mixed):
        for (method, path, target, body), (_, _, other, other_body) in zip(calls(document, real), calls(document, absent)):
            if target == other and body == other_body:
                continue  # all of it is hers
            n += 1
            got, expected = ask(server, method, target, body), ask(server, method, other, other_body)
            if SECRET.encode() in got.body.replace(his["session_id"].encode(), b""):
                wrong.append(f"{method} {target}: tells {got.body[:300]}")
            elif shown(got, real) != shown(expected, absent):
                wrong.append(f"{method} {target} {body}: {shown(got, real)} and not {shown(expected, absent)}")
    assert not wrong, f"{len(wrong)} of {n}:\n" + "\n".join(w[:800] for w in wrong)
    assert n > 90
    after = state(server, his)
    assert {p for p in before if before[p] != after[p]} == set()
    # What has state in memory has it still.
    assert execute(server, BOB, his["thread_id"], "print(secret)")["result"]["stdout"] == SECRET + "\n"
    assert SECRET in ok(server.post(f"/sandbox/{his['sandbox_id']}/execute", {"code": "print(open('secret.txt').read())"}, key=BOB))["stdout"]
