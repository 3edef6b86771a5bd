"""What is deleted is gone: no word of it is in any file of RIDDLE_HOME, and the disk is as it was."""

import os
import signal
import sqlite3

import pytest
from api import QUICK, metric, run_body
from server import BOUNDARY, FORM_TYPE, Server, form, wait_until

KEY_A, KEY_B = "keyaaaaaaaaaaaaa", "keybbbbbbbbbbbbb"
WORD = b"Zebrafinkenweibchen"
SLACK_BYTES = 1 << 20


def content(word, n):
    """A table with the word in a column's name and in its cells, unlike any other."""
    return f"id,{word}_column\n" + "".join(f"{i},{word} {n} {i}\n" for i in range(20))


def files_with(home, words):
    """Paths below home that have one of the words in their content or in their name."""
    found = []
    for at, dirs, files in os.walk(home):
        for name in dirs + files:
            path = os.path.join(at, name)
            if any(word in name.encode() for word in words):
                found.append(path)
            elif name in files:
                try:
                    with open(path, "rb") as file:
                        data = file.read()
                except FileNotFoundError:
                    continue
                if any(word in data for word in words):
                    found.append(path)
    return found


def used(home):
    """Bytes of all files, as the disk counts them."""
    total = 0
    for at, _, files in os.walk(home):
        for name in files:
            try:
                total += os.lstat(os.path.join(at, name)).st_blocks * 512
            except FileNotFoundError:
                pass
    return total


def give(server, session, *files):
    field = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="session_id"\r\n\r\n{session}\r\n'.encode()
    answer = server.call("POST", "/files/upload", field + form(*files), {"Content-Type": FORM_TYPE})
    assert answer.status == 200, answer.body
    return answer.json


def upload(server, n, word=WORD.decode(), **more):
    answer = server.upload((f"{word}_{n}.csv", content(word, n)), **more)
    assert answer.status == 200, answer.body
    return answer.json["files"][0]["file_id"]


def make_and_delete(server, n):
    word = WORD.decode()
    for begin in range(0, n, 60):
        answer = server.upload(*[(f"{word}_{i}.csv", content(word, i)) for i in range(begin, min(n, begin + 60))])
        assert answer.status == 200 and "errors" not in answer.json, answer.body[:2000]
        assert begin > 0 or files_with(server.home, [WORD])
        for file in answer.json["files"]:
            assert server.delete(f"/uploads/{file['file_id']}").status == 200


def nothing_is_left(server, before, words=(WORD,)):
    wait_until(lambda: not files_with(server.home, words), "no word of what was deleted is on the disk", 20)
    wait_until(lambda: used(server.home) <= before + SLACK_BYTES, "the disk is as it was", 20)


@pytest.mark.parametrize("n", [180, pytest.param(10_000, marks=[pytest.mark.long, pytest.mark.limit(4 * 3600)])])
def test_uploads(tmp_path, n):
    with Server(tmp_path, **QUICK) as server:
        first = upload(server, "first", "ordinary")
        before = used(server.home)
        make_and_delete(server, n)
        nothing_is_left(server, before)
        assert server.sql(first, "SELECT count(*) FROM ordinary_first").json["result"]["rows"] == [[20]]


def test_files_of_sessions(tmp_path):
    word = WORD.decode()
    with Server(tmp_path, **QUICK) as server:
        before = used(server.home)
        give(server, "cleared", (f"{word}.csv", content(word, 1)), (f"{word}.bin", word))
        give(server, "deleted", (f"{word}.csv", content(word, 2)))
        thread = server.post("/thread/new", {"thread_id": "deleted"}).json
        assert thread["thread_id"] == "deleted"
        assert files_with(server.home / "sessions", [WORD])
        assert server.post("/files/clear", {"session_id": "cleared"}).status == 200
        assert server.delete("/thread/deleted").status == 200
        nothing_is_left(server, before)


def test_a_file_of_a_session_that_is_replaced(tmp_path):
    word = WORD.decode()
    with Server(tmp_path, **QUICK) as server:
        give(server, "s", ("data.csv", content(word, 1)))
        give(server, "s", ("data.csv", "id,text\n1,other\n"))
        wait_until(lambda: not files_with(server.home, [WORD]), "the first one is gone", 20)


def test_expired(tmp_path):
    server = Server(tmp_path, **QUICK, UPLOAD_TTL_SECONDS=3600, SESSION_TTL_SECONDS=1)
    with server:
        before = used(server.home)
        give(server, "s", (f"{WORD.decode()}.csv", content(WORD.decode(), 1)))
        wait_until(lambda: not files_with(server.home / "sessions", [WORD]), "its time is over", 20)
        upload(server, 1)
    with sqlite3.connect(server.home / "riddle.db") as db:
        db.execute("UPDATE uploads SET expires_at = '2020-01-01T00:00:00.000Z'")
    db.close()
    with server:
        nothing_is_left(server, before)


def test_while_it_is_in_use(tmp_path):
    """A thread that was asked about it and a kernel that is kept for the next query let go of it."""
    with Server(tmp_path, RATE_LIMIT_MAX=0) as server:
        file_id = upload(server, 1)
        table = f"{WORD.decode()}_1"
        assert server.sql(file_id, f"SELECT count(*) FROM {table}").json["result"]["rows"] == [[20]]
        thread = server.post("/thread/new", {"file_ids": [file_id]}).json["thread_id"]
        answer = server.post(f"/thread/{thread}/execute", {"code": "x = 41 + 1\nprint(x)"})
        assert answer.status == 200 and "42" in answer.json["result"]["stdout"], answer.body
        assert server.delete(f"/uploads/{file_id}").status == 200
        wait_until(lambda: not files_with(server.home / "uploads", [WORD]), "its file and its table are gone", 20)
        wait_until(lambda: not files_with(server.home / "tables", [WORD]), "no table of it is elsewhere", 20)
        wait_until(lambda: metric(server, "riddle_kernels", state="idle") == 0, "no kernel holds it open", 20)
        again = server.post(f"/thread/{thread}/message", {"message": "SQL: SELECT 1"})
        assert again.status == 404 and f"file_id '{file_id}' not found" in again.json["error"]["message"], again.body
        refused = server.sql(file_id, "SELECT 1")
        assert refused.status == 404


def test_killed_while_it_deletes(tmp_path):
    """Whatever was being deleted when the server was killed is either there as a whole or gone without a trace."""
    server = Server(tmp_path, **QUICK)
    for number in range(3):
        with server:
            words = [f"{WORD.decode()}{number}x{i}" for i in range(6)]
            ids = {upload(server, i, word): word for i, word in enumerate(words)}
            acknowledged = []
            connection = server.connect()
            for count, (file_id, word) in enumerate(ids.items()):
                connection.request("DELETE", f"/uploads/{file_id}")
                if count < number + 1:
                    answer = connection.getresponse()
                    answer.read()
                    acknowledged.append(word)
                else:
                    break  # sent, not answered: the kill comes somewhere in between
            server.stop(signal.SIGKILL)
            connection.close()
        with server:
            listed = {entry["file_id"] for entry in server.get("/uploads").json["uploads"]}
            gone = [word.encode() for file_id, word in ids.items() if file_id not in listed]
            assert {word.encode() for word in acknowledged} <= set(gone)
            wait_until(lambda: not files_with(server.home, gone), f"no trace of {gone}", 20)
            for file_id in listed & set(ids):
                table = f"{ids[file_id]}_{words.index(ids[file_id])}"
                assert server.sql(file_id, f"SELECT count(*) FROM {table}").json["result"]["rows"] == [[20]]


def test_killed_ingests_leave_nothing(tmp_path):
    server = Server(tmp_path, **QUICK)
    big = "id,text\n" + "".join(f"{i},{'x' * 60}\n" for i in range(300_000))
    with server:
        [file] = server.upload(("big.csv", big), query="?wait=false").json["files"]
        wait_until(lambda: list((server.home / "tables").glob("new-*")), "it is being read")
        server.stop(signal.SIGKILL)
    assert list((server.home / "tables").glob("new-*"))
    old = server.home / "tables" / ("ab" * 32 + ".d144-2.duckdb")  # as an earlier version named it
    old.write_text("of an upload that is long deleted")
    with server:
        assert not old.exists()
        wait_until(lambda: server.get(f"/uploads/{file['file_id']}").json["status"] == "ready", "it is read anew")
        wait_until(lambda: not list((server.home / "tables").glob("new-*")), "nothing is left of the first ingest")
        assert server.delete(f"/uploads/{file['file_id']}").status == 200
        wait_until(lambda: used(server.home) < SLACK_BYTES, "the disk is as it was", 20)


# ---- one owner's table is not another's ----


def test_the_first_reader_does_not_decide_for_others(tmp_path):
    """The same bytes under two endings are two tables, and nobody's upload shows in another's."""
    text = "name,city\tzip,total\n" + "".join(f"n{i},c{i}\t{i},{i}\n" for i in range(30))
    with Server(tmp_path, **QUICK, RIDDLE_API_KEYS=f"a:{KEY_A},b:{KEY_B}") as server:
        tabs = server.upload(("p2.tsv", text), key=KEY_A).json["files"][0]
        commas = server.upload(("p2.csv", text), key=KEY_B).json["files"][0]
        own = server.upload(("p2.csv", text), key=KEY_A).json["files"][0]
        assert tabs["columns"] == ["name,city", "zip,total"]
        assert commas["columns"] == own["columns"] != tabs["columns"]
        for key, file in ((KEY_A, tabs), (KEY_B, commas), (KEY_A, own)):
            rows = server.sql(file["file_id"], "SELECT * FROM p2 LIMIT 1", key=key).json["result"]
            assert rows["columns"] == file["columns"]
        # Neither a name nor a link of one owner's file leads to the other's.
        tables = [p for p in server.home.rglob("*.duckdb")]
        assert len(tables) == 3 and len({p.stat().st_ino for p in tables}) == 3
        assert sorted(p.relative_to(server.home / "uploads").parts[0] for p in tables) == ["a", "a", "b"]


def test_equal_bytes_of_a_dataset_under_two_endings(tmp_path):
    text = "name,city\tzip,total\n" + "".join(f"n{i},c{i}\t{i},{i}\n" for i in range(30))
    server = Server(tmp_path, **QUICK)
    for name in ("one", "two"):
        (server.datasets / name).mkdir()
    (server.datasets / "one" / "p.csv").write_text(text)
    (server.datasets / "two" / "p.tsv").write_text(text)
    with server:
        columns = {}
        for name in ("one", "two"):
            answer = server.post("/runs", run_body(name, sql="SELECT * FROM p LIMIT 1"))
            if answer.status == 200:
                columns[name] = answer.json["result"]["columns"]
        assert columns["one"] != columns.get("two", ["name,city", "zip,total"])


def test_tables_count_for_the_quota(tmp_path):
    with Server(tmp_path, **QUICK, UPLOAD_QUOTA_BYTES=300_000) as server:
        small = "id\n1\n2\n"
        seen = 0
        while server.upload((f"s{seen}.csv", small)).status == 200:
            seen += 1
            assert seen < 100, "tables are not counted"
        refused = server.upload(("last.csv", small))
        assert refused.status == 413 and "UPLOAD_QUOTA_BYTES" in refused.json["detail"]
        for entry in server.get("/uploads").json["uploads"]:
            assert server.delete(f"/uploads/{entry['file_id']}").status == 200
        assert server.upload(("again.csv", small)).status == 200
