"""Threads, their messages and what was told about data have a quota: past it more is refused, and nothing that was acknowledged goes."""

from api import QUICK, make_set, refused
from server import Server

KEYS = {"RIDDLE_API_KEYS": "alice:alice-key-0123456789,bob:bob-key-0123456789"}
ALICE, BOB = "alice-key-0123456789", "bob-key-0123456789"


def say(server, thread, text, key=ALICE):
    return server.post(f"/thread/{thread}/message", {"message": text}, key=key)


def test_a_full_owner_is_refused_until_threads_are_deleted(tmp_path):
    long = "SQL: SELECT 1 AS n /* " + "x" * 30000 + " */"
    server = Server(tmp_path, **QUICK, **KEYS, THREAD_QUOTA_BYTES=200_000)
    make_set(server)
    with server:
        thread = server.post("/thread/new", {"datasets": ["shop"]}, key=ALICE).json["thread_id"]
        other = server.post("/thread/new", {"datasets": ["shop"]}, key=ALICE).json["thread_id"]
        answered = say(server, other, "SQL: SELECT count(*) AS n FROM sales").json
        sent = 0
        while sent < 30:
            answer = say(server, thread, long)
            if answer.status != 200:
                break
            sent += 1
        assert 1 <= sent <= 7, sent
        message = refused(answer, 413, "TOO_LARGE")
        assert "THREAD_QUOTA_BYTES" in message and "delete" in message
        refused(server.post("/thread/new", {}, key=ALICE), 413, "TOO_LARGE")
        refused(server.post(f"/thread/{other}/fork", {}, key=ALICE), 413, "TOO_LARGE")
        refused(server.post(f"/thread/{other}/messages", {"messages": [{"role": "user", "content": "x"}]}, key=ALICE), 413, "TOO_LARGE")
        refused(server.call("PATCH", "/datasets/shop", '{"description": "x"}', {"Content-Type": "application/json"}, key=ALICE), 413, "TOO_LARGE")
        # Nothing that was acknowledged went, code still runs, and nobody else notices.
        told = server.get(f"/threads/{thread}/messages?limit=200", key=ALICE).json["messages"]
        assert [m["content"] for m in told if m["role"] == "user"] == [long] * sent
        assert server.post(f"/thread/{other}/execute", {"language": "sql", "code": "SELECT 2 AS n"}, key=ALICE).status == 200
        assert server.get(f"/runs/{answered['run_id']}", key=ALICE).status == 200
        theirs = server.post("/thread/new", {"datasets": ["shop"]}, key=BOB).json["thread_id"]
        assert say(server, theirs, "SQL: SELECT 1 AS n", BOB).status == 200
    with server:  # the total is stored; who has too much is known from the first write
        say(server, thread, "SQL: SELECT 1 AS n")
        refused(say(server, thread, "SQL: SELECT 1 AS n"), 413, "TOO_LARGE")
        assert server.delete(f"/thread/{thread}", key=ALICE).status == 200
        assert say(server, other, "SQL: SELECT 1 AS n").status == 200
