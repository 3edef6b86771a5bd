"""Uploads over HTTP: what comes in, what is refused and why, who sees it, and what is left on disk."""

import hashlib
import json
import os
import signal
import sqlite3
import threading

import pytest
from server import FORM_END, FORM_TYPE, Server, form, part_head, read_events, wait_until
from xls_writer import xls

KEY_A, KEY_B = "keyaaaaaaaaaaaaa", "keybbbbbbbbbbbbb"
SALES = "id,region,total\n1,north,10.5\n2,south,20\n3,north,30\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """One for all tests that need no settings of their own; the default key is a's."""
    with Server(tmp_path_factory.mktemp("uploads"), RIDDLE_API_KEYS=f"a:{KEY_A},b:{KEY_B}") as server:
        server.key = KEY_A
        yield server
        assert server.stop() == 0, server.log.read_text()[-4000:]


@pytest.fixture(scope="module")
def tight(tmp_path_factory):
    """One with small limits."""
    with Server(tmp_path_factory.mktemp("tight"), MAX_UPLOAD_BYTES=2_000_000, UPLOAD_QUOTA_BYTES=7_000_000) as server:
        yield server


def on_disk(server):
    """Every path below the uploads directory, tables aside. (os.walk does not mind when one goes away meanwhile.)"""
    root = server.home / "uploads"
    return sorted(os.path.relpath(os.path.join(at, name), root) for at, dirs, files in os.walk(root) for name in dirs + files
                  if not name.startswith((".table.", ".profile-")))


def parts(server):
    """The ids of uploads that are on their way in, with something in them."""
    found = [p for p in on_disk(server) if p.endswith("/.part")]
    return {p.split("/")[1] for p in found if (server.home / "uploads" / p).stat().st_size > 0}


def new_file(answer):
    assert answer.status == 200, answer.body
    assert "errors" not in answer.json
    [file] = answer.json["files"]
    return file


def rows_text(n, width=10):
    return "id,text\n" + "".join(f"{i},{'x' * width}\n" for i in range(n))


def test_single(server):
    answer = server.upload(("sales.csv", SALES))
    file = new_file(answer)
    assert answer.json["message"] == "1 file(s) uploaded successfully"
    assert len(file["file_id"]) == 12 and int(file["file_id"], 16) >= 0
    assert file["report"]["rows"] == 3 and not file["report"].get("refused")
    assert {k: v for k, v in file.items() if k not in ("file_id", "report", "profiled")} == {
        "filename": "sales.csv", "size_bytes": len(SALES), "rows": 3, "columns": ["id", "region", "total"], "table": "sales"}

    shown = server.get(f"/uploads/{file['file_id']}").json
    assert shown["status"] == "ready" and shown["progress"] == 1 and shown["error"] is None
    assert (shown["rows"], shown["columns"]) == (3, ["id", "region", "total"])
    assert shown["created_at"] < shown["expires_at"]
    stored = server.home / "uploads/a" / file["file_id"] / "sales.csv"
    assert stored.read_text() == SALES


def test_it_can_be_queried_at_once(server):
    file = new_file(server.upload(("sales.csv", SALES)))
    answer = server.sql(file["file_id"], "SELECT region, sum(total) AS t FROM sales GROUP BY region ORDER BY region")
    assert answer.json["status"] == "succeeded", answer.body
    assert answer.json["result"]["rows"] == [["north", 40.5], ["south", 20.0]]

    plan = {"dataset_id": file["file_id"], "table": "sales", "select": [{"column": "region"}], "limit": 1}
    planned = server.post("/runs", {"dataset_id": file["file_id"], "query_type": "plan", "plan_json": plan})
    assert planned.json["result"]["rows"] == [["north"]], planned.body

    code = "result = float(sales.total.sum())"
    ran = server.post("/runs", {"dataset_id": file["file_id"], "query_type": "python", "python_code": code})
    assert ran.json["result"]["rows"] == [[60.5]], ran.body


def test_a_database_has_all_its_tables(server, tmp_path):
    with sqlite3.connect(tmp_path / "shop.db") as db:
        db.executescript("CREATE TABLE customers(id INTEGER, name TEXT); INSERT INTO customers VALUES(1, 'Ann'), (2, 'Bo');"
                         "CREATE TABLE orders(customer INTEGER, amount REAL); INSERT INTO orders VALUES(1, 2.5), (1, 4), (2, 8);"
                         "CREATE VIEW big AS SELECT * FROM orders WHERE amount > 3")
    db.close()
    file = new_file(server.upload(("shop.db", (tmp_path / "shop.db").read_bytes())))
    assert (file["table"], file["rows"], file["report"]["format"]) == ("shop", 2, "sqlite")
    assert [t["table"] for t in file["tables"]] == ["shop_orders"]
    assert any("1 views were left out" in note for note in file["report"]["notes"])
    answer = server.sql(file["file_id"], "SELECT name, sum(amount) FROM shop JOIN shop_orders ON id = customer GROUP BY 1 ORDER BY 1")
    assert answer.json["result"]["rows"] == [["Ann", 6.5], ["Bo", 8.0]], answer.body


def test_old_workbooks(server):
    rows = [["day", "region", "total"], [(45322, "date"), "Nörd", 10.5], [(45323, "date"), "süd", 20], [None, "x", 1e-7]]
    book = xls({"Sales": rows, "Empty": [], "More sales": [["code", "n"], ["007", 1], ["008", 2]]})
    file = new_file(server.upload(("sales.xls", book)))
    assert (file["table"], file["rows"], file["report"]["format"], file["report"]["sheet"]) == ("sales", 3, "xls", "Sales")
    assert [t["table"] for t in file["tables"]] == ["sales_More_sales"]
    answer = server.sql(file["file_id"], "SELECT s.*, m.code FROM sales s JOIN sales_More_sales m ON true WHERE n = 1")
    assert answer.json["result"]["rows"] == [["2024-01-31", "Nörd", 10.5, "007"], ["2024-02-01", "süd", 20.0, "007"],
                                             [None, "x", 1e-7, "007"]], answer.body


def test_it_is_a_dataset(server):
    file = new_file(server.upload(("sales.csv", SALES)))
    [summary] = [d for d in server.get("/datasets").json["datasets"] if d["id"] == file["file_id"]]
    assert summary["name"] == "sales.csv"
    assert summary["description"] == "Uploaded file, 3 rows, 3 columns"
    assert summary["version_hash"] == "sha256:" + hashlib.sha256(SALES.encode()).hexdigest()
    assert summary["prompts"] == []  # those of its schema are made from its columns
    schema = server.get(f"/datasets/{file['file_id']}/schema").json
    assert len(schema["prompts"]) >= 2
    assert schema["files"][0]["table"] == "sales"
    assert schema["files"][0]["schema"]["total"]["max"] == 30


def test_several(server):
    answer = server.upload(("a.csv", "x\n1\n"), ("b.csv", "y,z\n1,2\n3,4\n"))
    assert answer.status == 200, answer.body
    assert answer.json["message"] == "2 file(s) uploaded successfully"
    assert [(f["filename"], f["rows"], f["columns"]) for f in answer.json["files"]] == [("a.csv", 1, ["x"]), ("b.csv", 2, ["y", "z"])]


def test_many_small_files_in_one_request(server):
    answer = server.upload(*[(f"t{i}.csv", f"x\n{i}\n") for i in range(12)])
    assert answer.json["message"] == "12 file(s) uploaded successfully"
    last = answer.json["files"][-1]
    assert server.sql(last["file_id"], "SELECT x FROM t11").json["result"]["rows"] == [[11]]


def test_too_many_files(server):
    before = on_disk(server)
    answer = server.upload(*[(f"t{i}.csv", "x\n1\n") for i in range(65)])
    assert (answer.status, answer.error[0]) == (413, "TOO_LARGE")
    assert "more than 64 files" in answer.error[1]
    wait_until(lambda: on_disk(server) == before, "nothing is left")


def test_good_and_bad(server):
    before = on_disk(server)
    answer = server.upload(("good.csv", SALES), ("empty.csv", ""), ("head.csv", "a,b\n"))
    assert answer.status == 200
    assert answer.json["message"] == "1 file(s) uploaded successfully"
    [good] = answer.json["files"]
    assert good["filename"] == "good.csv"
    errors = {e["filename"]: e["error"] for e in answer.json["errors"]}
    assert errors.keys() == {"empty.csv", "head.csv"}
    assert errors["empty.csv"] == "File is empty"
    assert errors["head.csv"].startswith("CSV has no data rows")
    wait_until(lambda: len(on_disk(server)) == len(before) + 2, "only the good one's directory and file are new")
    listed = {u["filename"]: u for u in server.get("/uploads").json["uploads"]}
    assert not errors.keys() & listed.keys(), "whoever was told need not be told again"


@pytest.mark.parametrize("name, content, error", [
    ("empty.csv", b"", "File is empty"),
    ("head.csv", b"a,b,c\n", "CSV has no data rows"),
    ("binary.csv", bytes(range(256)) * 40, "Could not parse CSV"),
], ids=["empty", "header", "binary"])
def test_nothing_usable(server, name, content, error):
    before = on_disk(server)
    answer = server.upload((name, content))
    assert answer.status == 400, answer.body
    [told] = answer.json["detail"]["errors"]
    assert told["filename"] == name and told["error"].startswith(error), told
    assert answer.error == ("VALIDATION_ERROR", told["error"])
    wait_until(lambda: on_disk(server) == before, "nothing is left")


def test_wrong_field(server):
    before = on_disk(server)
    answer = server.upload(("a.csv", SALES), field="file")
    assert answer.status == 400
    assert answer.error == ("VALIDATION_ERROR", "a file came in the field 'file'; files go into the field 'files'")
    assert answer.json["detail"] == answer.error[1]
    assert on_disk(server) == before


def test_plain_fields_are_ignored(server):
    field = form()[: -len(FORM_END)] + b'--riddle-test-boundary-7d1\r\nContent-Disposition: form-data; name="note"\r\n\r\nhello\r\n'
    answer = server.call("POST", "/upload", field + form(("a.csv", SALES)), {"Content-Type": FORM_TYPE})
    assert new_file(answer)["rows"] == 3


@pytest.mark.parametrize("body, kind, status, error", [
    (b"{}", "application/json", 415, "UNSUPPORTED_MEDIA_TYPE"),
    (b"a,b\n1,2\n", "text/csv", 415, "UNSUPPORTED_MEDIA_TYPE"),
    (b"a,b\n1,2\n", "multipart/form-data", 400, "INVALID_INPUT"),
    (b"a,b\n1,2\n", FORM_TYPE, 400, "INVALID_INPUT"),
    (b"", FORM_TYPE, 400, "INVALID_INPUT"),
    (FORM_END[2:], FORM_TYPE, 400, "VALIDATION_ERROR"),
    (part_head("a.csv") + b"x\n1\n", FORM_TYPE, 400, "INVALID_INPUT"),
])
def test_no_form(server, body, kind, status, error):
    before = on_disk(server)
    answer = server.call("POST", "/upload", body, {"Content-Type": kind})
    assert (answer.status, answer.error[0]) == (status, error), answer.body
    wait_until(lambda: on_disk(server) == before, "nothing is left")


@pytest.mark.parametrize("name, shown, on_disk_name, table", [
    ("../../etc/passwd.csv", "passwd.csv", "passwd.csv", "passwd"),
    ("..", "..", "_.", "data"),
    (".hidden.csv", ".hidden.csv", "_hidden.csv", "hidden"),
    ("2024 täglich.csv", "2024 täglich.csv", "2024 täglich.csv", "t_2024_t_glich"),
    ("x" * 240 + ".csv", "x" * 240 + ".csv", "x" * 240 + ".csv", None),
])
def test_names(server, name, shown, on_disk_name, table):
    file = new_file(server.upload((name, SALES)))
    assert file["filename"] == shown
    assert table is None or file["table"] == table
    names = {p.name for p in (server.home / "uploads/a" / file["file_id"]).iterdir()}
    assert {n for n in names if not n.startswith((".table.", ".profile-"))} == {on_disk_name}
    answer = server.sql(file["file_id"], f"SELECT count(*) FROM {file['table']}")
    assert answer.json["result"]["rows"] == [[3]], answer.body


def test_size_limit(tight):
    before = on_disk(tight)
    answer = tight.upload(("first.csv", SALES), ("large.csv", rows_text(150_000)))
    assert answer.status == 413
    assert answer.error == ("TOO_LARGE", "'large.csv' is larger than the 2000000 bytes that a file may have (MAX_UPLOAD_BYTES)")
    wait_until(lambda: on_disk(tight) == before, "nothing is left of either file")
    assert tight.get("/uploads").json["uploads"] == []


def test_quota(tight):
    content = rows_text(99_000, 12)
    assert 1_800_000 < len(content) < 2_000_000
    first = new_file(tight.upload(("first.csv", content)))
    refused = tight.upload(("second.csv", content))
    assert (refused.status, refused.error[0]) == (413, "TOO_LARGE")
    assert "UPLOAD_QUOTA_BYTES" in refused.error[1]
    assert tight.upload(("small.csv", SALES)).status == 200
    # Before a byte of the body is read, where its length says it already.
    connection = tight.connect()
    connection.putrequest("POST", "/upload")
    connection.putheader("Content-Type", FORM_TYPE)
    connection.putheader("Content-Length", str(1 << 30))
    connection.endheaders()
    response = connection.getresponse()
    assert response.status == 413 and b"UPLOAD_QUOTA_BYTES" in response.read()
    connection.close()

    assert tight.delete(f"/uploads/{first['file_id']}").status == 200
    second = new_file(tight.upload(("second.csv", content)))
    for upload in tight.get("/uploads").json["uploads"]:
        assert tight.delete(f"/uploads/{upload['file_id']}").status == 200
    wait_until(lambda: on_disk(tight) == [], "what was deleted goes when nobody reads it any more")
    assert second


def test_client_closing_leaves_nothing(server):
    before = set(on_disk(server))
    known = [u["file_id"] for u in server.get("/uploads").json["uploads"]]
    connection = begin_upload(server, "whole.csv", SALES)
    connection.send(b"\r\n" + part_head("partial.csv") + rows_text(50_000).encode())
    wait_until(lambda: len(parts(server)) == 2, "both files are being written")
    connection.close()
    # What an earlier test has deleted may go meanwhile; nothing may come.
    wait_until(lambda: set(on_disk(server)) <= before, "nothing is left")
    assert [u["file_id"] for u in server.get("/uploads").json["uploads"]] == known


def test_owners_are_apart(server):
    file = new_file(server.upload(("secret.csv", SALES)))
    path = f"/uploads/{file['file_id']}"
    not_found = ("NOT_FOUND", f"file_id '{file['file_id']}' not found. Upload a file first via POST /upload")
    for answer in (server.get(path, key=KEY_B), server.delete(path, key=KEY_B), server.get(path + "/events", key=KEY_B)):
        assert (answer.status, answer.error) == (404, not_found)
    assert file["file_id"] not in [u["file_id"] for u in server.get("/uploads", key=KEY_B).json["uploads"]]
    assert file["file_id"] not in [d["id"] for d in server.get("/datasets", key=KEY_B).json["datasets"]]
    assert server.get(f"/datasets/{file['file_id']}/schema", key=KEY_B).status == 404
    run = server.sql(file["file_id"], "SELECT 1", key=KEY_B)
    assert (run.status, run.error) == (404, ("NOT_FOUND", f"Unknown dataset_id: {file['file_id']}"))
    assert server.upload(("x.csv", SALES), key="keycccccccccccccc").status == 401
    assert server.get(path).status == 200


def test_list_pages_newest_first(server):
    made = [new_file(server.upload((f"page{i}.csv", SALES)))["file_id"] for i in range(3)]
    first = server.get("/uploads?limit=2").json
    assert [u["file_id"] for u in first["uploads"]] == [made[2], made[1]]
    second = server.get(f"/uploads?limit=1&cursor={first['next']}").json
    assert [u["file_id"] for u in second["uploads"]] == [made[0]]
    bad = server.get("/uploads?cursor=nonsense")
    assert (bad.status, bad.error[0]) == (400, "VALIDATION_ERROR")


def test_delete(server):
    file = new_file(server.upload(("gone.csv", SALES)))
    path = f"/uploads/{file['file_id']}"
    answer = server.delete(path)
    assert (answer.status, answer.json["message"]) == (200, f"Upload {file['file_id']} deleted")
    wait_until(lambda: not (server.home / "uploads/a" / file["file_id"]).exists(), "the file goes when nobody reads it any more")
    assert server.get(path).status == 404
    assert server.delete(path).status == 404
    assert server.sql(file["file_id"], "SELECT 1").status == 404


def test_a_run_outlives_the_deletion(server):
    file = new_file(server.upload(("kept.csv", SALES)))
    code = "import time\nprint('begun', flush=True)\ntime.sleep(0.7)\nresult = len(open('/data/kept.csv').read())"
    body = json.dumps({"dataset_id": file["file_id"], "query_type": "python", "python_code": code, "python_policy": "open"})
    connection = server.connect()
    connection.request("POST", "/runs/stream", body, server.headers({"Content-Type": "application/json"}))
    result = None
    for name, data in read_events(connection.getresponse()):
        if name == "step" and "begun" in data["text"]:
            assert server.delete(f"/uploads/{file['file_id']}").status == 200
            assert result is None
        if name == "result":
            result = data["result"]
    connection.close()
    assert result["rows"] == [[len(SALES)]], result
    wait_until(lambda: not (server.home / "uploads/a" / file["file_id"]).exists(), "the file goes with the last run")


def test_the_profile_follows_the_answer(server):
    text = ",".join(f"c{i}" for i in range(400)) + "\n" + "".join(",".join(f"v{i % (r + 1)}" for i in range(400)) + "\n" for r in range(300))
    [file] = server.upload(("wide.csv", text)).json["files"]
    assert (file["rows"], len(file["columns"]), file["profiled"]) == (300, 400, False)
    assert file["report"]["rows"] == 300
    rows = server.sql(file["file_id"], "SELECT count(*) FROM wide").json["result"]["rows"]
    assert rows == [[300]]
    # Several who ask for it get the same one.
    schemas = []
    asking = [threading.Thread(target=lambda: schemas.append(server.get(f"/datasets/{file['file_id']}/schema").json)) for _ in range(3)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    assert server.get(f"/uploads/{file['file_id']}").json["profiled"]
    assert len(schemas) == 3 and all(s["files"][0]["profiled"] and s["files"][0]["schema"]["c0"]["distinct"] > 0 for s in schemas)
    assert len(server.get(f"/uploads/{file['file_id']}").json["columns"]) == 400
    # Nobody has to ask.
    [other] = server.upload(("other.csv", SALES)).json["files"]
    [at] = server.home.glob(f"uploads/*/{other['file_id']}")
    wait_until(lambda: [p for p in at.iterdir() if p.name.startswith(".profile-")], "it is profiled")
    assert server.delete(f"/uploads/{file['file_id']}").status == 200


def test_deleted_while_it_is_profiled(server):
    """Its kernel is given up, whoever waits for the profile is told, and nothing of it stays."""
    text = ",".join(f"c{i}" for i in range(1000)) + "\n" + "".join(",".join(f"v{i}x{r}" for i in range(1000)) + "\n" for r in range(200))
    [file] = server.upload(("wide.csv", text)).json["files"]
    told = []
    asking = threading.Thread(target=lambda: told.append(server.get(f"/datasets/{file['file_id']}/schema")))
    asking.start()
    assert server.delete(f"/uploads/{file['file_id']}").status == 200
    asking.join()
    assert told[0].status in (200, 404), told[0].body[:500]
    wait_until(lambda: not list((server.home / "uploads").glob(f"*/{file['file_id']}")), "it is gone")


def test_events_until_ready(server):
    answer = server.upload(("steps.csv", rows_text(400_000, 40)), query="?wait=false")
    assert answer.status == 202, answer.body
    [file] = answer.json["files"]
    assert (file["status"], file["rows"], file["columns"]) == ("processing", None, None)
    events = list(server.events(f"/uploads/{file['file_id']}/events"))
    assert [name for name, _ in events[:-1]] == ["status"] * (len(events) - 1)
    assert events[-1] == ("done", {"type": "done", "file_id": file["file_id"], "status": "ready"})
    seen = [data for _, data in events[:-1]]
    assert [s["type"] for s in seen] == ["status"] * len(seen)
    assert [s["status"] for s in seen[:-1]] == ["processing"] * (len(seen) - 1)
    progress = [s["progress"] for s in seen]
    assert progress == sorted(progress) and len(set(progress)) > 2, progress
    assert (seen[-1]["status"], seen[-1]["progress"], seen[-1]["rows"]) == ("ready", 1, 400_000)
    # Who comes late hears how it ended.
    late = list(server.events(f"/uploads/{file['file_id']}/events"))
    assert [name for name, _ in late] == ["status", "done"]


def test_failure_in_the_background_can_be_asked_for(server):
    answer = server.upload(("later.csv", "a,b\n"), query="?wait=false")
    assert answer.status == 202
    [file] = answer.json["files"]
    events = list(server.events(f"/uploads/{file['file_id']}/events"))
    assert events[-1][1]["status"] == "failed"
    shown = server.get(f"/uploads/{file['file_id']}").json
    assert (shown["status"], shown["rows"]) == ("failed", None)
    assert shown["error"].startswith("CSV has no data rows")
    wait_until(lambda: not (server.home / "uploads/a" / file["file_id"]).exists(), "its file is gone")
    assert server.sql(file["file_id"], "SELECT 1").status == 404


def test_deleted_while_processing(server):
    answer = server.upload(("doomed.csv", rows_text(400_000, 41)), query="?wait=false")
    [file] = answer.json["files"]
    ended = []
    stream = server.events(f"/uploads/{file['file_id']}/events")
    assert next(stream)[1]["status"] == "processing"
    follower = threading.Thread(target=lambda: ended.extend(stream))
    follower.start()
    assert server.delete(f"/uploads/{file['file_id']}").status == 200
    follower.join(timeout=30)
    assert ended[-2][0] == "error" and ended[-2][1]["error_type"] == "NOT_FOUND"
    assert ended[-1] == ("done", {"type": "done", "file_id": file["file_id"], "status": "deleted"})
    assert server.get(f"/uploads/{file['file_id']}").status == 404
    wait_until(lambda: not (server.home / "uploads/a" / file["file_id"]).exists(), "its file is gone")


def test_equal_content_has_a_table_for_each_upload(server):
    """Each goes with its upload; nobody finds out what another has uploaded."""
    content = rows_text(5, 7)
    first, second = (new_file(server.upload((name, content))) for name in ("one.csv", "two.csv"))
    tables = [list((server.home / "uploads/a" / file["file_id"]).glob(".table.*.duckdb")) for file in (first, second)]
    assert [len(found) for found in tables] == [1, 1]
    assert server.delete(f"/uploads/{first['file_id']}").status == 200
    assert server.sql(second["file_id"], "SELECT count(*) FROM two").json["result"]["rows"] == [[5]]


def test_memory_stays_flat(server):
    """300 MB made on the fly: what the server holds of it does not grow with it."""
    total = 300_000_000
    block = "".join(f"{i},{'y' * 4000}\n" for i in range(250)).encode()
    head = part_head("large.csv") + b"id,text\n"
    n = total // len(block)
    connection = server.connect()
    with open(f"/proc/{server.process.pid}/clear_refs", "w") as f:
        f.write("5")  # the peak starts anew
    before = server.status_kb("VmRSS")
    connection.putrequest("POST", "/upload")
    length = len(head) + n * len(block) + len(FORM_END)
    for name, value in server.headers({"Content-Type": FORM_TYPE, "Content-Length": str(length)}).items():
        connection.putheader(name, value)
    connection.endheaders()
    connection.send(head)
    for _ in range(n):
        connection.send(block)
    connection.send(FORM_END)
    response = connection.getresponse()
    answer = json.loads(response.read())
    connection.close()
    assert response.status == 200, answer
    [file] = answer["files"]
    assert (file["rows"], file["size_bytes"]) == (n * 250, n * len(block) + 8)
    grown = server.status_kb("VmHWM") - before
    print(f"VmHWM above idle: {grown} kB for {length} bytes")
    assert grown < 64 * 1024, f"the server's peak grew by {grown} kB"
    assert server.delete(f"/uploads/{file['file_id']}").status == 200


def begin_upload(server, name, content):
    """A connection with a request on it whose body is not whole."""
    connection = server.connect()
    connection.putrequest("POST", "/upload")
    for header, value in server.headers({"Content-Type": FORM_TYPE, "Content-Length": str(50_000_000)}).items():
        connection.putheader(header, value)
    connection.endheaders()
    connection.send(part_head(name) + content.encode())
    return connection


def set_expiry(server, file_id, when):
    with sqlite3.connect(server.home / "riddle.db") as db:
        assert db.execute("UPDATE uploads SET expires_at = ? WHERE file_id = ?", (when, file_id)).rowcount == 1
    db.close()


def test_restart(tmp_path):
    """What was there is there again; what is past its time, lost or half done is dealt with."""
    server = Server(tmp_path)
    with server:
        kept, expired, lost = [new_file(server.upload((f"{name}.csv", SALES + f"9,{name},1\n")))["file_id"]
                               for name in ("kept", "expired", "lost")]
        # Killed while one is being read and another is on its way in.
        [cut] = server.upload(("cut.csv", rows_text(400_000, 42)), query="?wait=false").json["files"]
        connection = begin_upload(server, "partial.csv", rows_text(1000))
        root = server.home / "uploads/local"
        known = {kept, expired, lost, cut["file_id"]}
        wait_until(lambda: parts(server) - known, "the other one is being written")
        server.stop(signal.SIGKILL)
        connection.close()
    set_expiry(server, expired, "2020-01-01T00:00:00.000+00:00")
    (root / lost / "lost.csv").unlink()
    with server:
        assert list(server.events(f"/uploads/{cut['file_id']}/events"))[-1][1]["status"] == "ready"
        assert server.get(f"/uploads/{cut['file_id']}").json["rows"] == 400_000
        assert server.get(f"/uploads/{expired}").status == 404
        gone = server.get(f"/uploads/{lost}").json
        assert (gone["status"], gone["error"]) == ("failed", "The file is no longer there; upload it again")
        assert {p.name for p in root.iterdir()} - {lost} == {kept, cut["file_id"]}
        shown = server.get(f"/uploads/{kept}").json
        assert (shown["status"], shown["rows"], shown["columns"]) == ("ready", 4, ["id", "region", "total"])
        assert server.sql(kept, "SELECT count(*) FROM kept").json["result"]["rows"] == [[4]]
        assert [u["file_id"] for u in server.get("/uploads?status=ready").json["uploads"]] == [cut["file_id"], kept]
        assert server.stop() == 0


def test_stop_in_the_middle(tmp_path):
    """A server that is told to stop fails who waits, removes what was on its way in, and keeps what was whole."""
    with Server(tmp_path, RIDDLE_STOP_TIMEOUT_SECONDS=0) as server:
        answers = []
        waiting = threading.Thread(target=lambda: answers.append(server.upload(("whole.csv", rows_text(400_000, 43)))))
        waiting.start()
        wait_until(lambda: server.get("/uploads").json["uploads"], "one is being read")
        [whole] = server.get("/uploads").json["uploads"]
        partial = begin_upload(server, "partial.csv", rows_text(1000))
        wait_until(lambda: parts(server) - {whole["file_id"]}, "one is on its way in")
        assert server.get(f"/uploads/{whole['file_id']}").json["status"] == "processing"
        assert server.stop() == 0, server.log.read_text()[-4000:]
        waiting.join(timeout=30)
        partial.close()
    assert (answers[0].status, answers[0].error) == (503, ("UNAVAILABLE", "the server is stopping"))
    assert os.listdir(server.home / "uploads/local") == [whole["file_id"]]
    assert os.listdir(server.home / "uploads/local" / whole["file_id"]) == ["whole.csv"]


MIXED = "ort;datum;preis\nUlm;03.04.2024;1.234\nBonn;04.05.2024;5.678\n"


def tables_on_disk(server, file_id):
    [at] = server.home.glob(f"uploads/*/{file_id}")
    return {p.name for p in at.iterdir() if p.name.startswith((".table.", ".profile-"))}


def test_read_again(tmp_path):
    """Options of a reading: said with the upload, changed later, refused, kept over a restart."""
    with Server(tmp_path) as server:
        def ask(sql):
            answer = server.sql(file_id, sql)
            assert answer.status == 200, answer.body
            return answer.json["result"]["rows"]

        def patch(body):
            return server.call("PATCH", f"/data/{file_id}", json.dumps(body), {"Content-Type": "application/json"})

        def options(**changed):
            return patch({"options": changed})

        def report():
            return server.get(f"/data/{file_id}/tables/mixed").json["report"]

        file_id = new_file(server.upload(("mixed.csv", MIXED)))["file_id"]
        path = f"/data/{file_id}"
        assert "options" not in server.get(path).json
        assert ask("SELECT round(sum(preis), 3) FROM mixed") == [[6912]]  # as where dates have points

        changed = options(decimal=".", date_order="mdy")
        assert (changed.status, changed.json["options"]) == (200, {"date_order": "mdy", "decimal": "."})
        assert ask("SELECT preis, CAST(datum AS VARCHAR) FROM mixed ORDER BY preis") == [[1.234, "2024-03-04"], [5.678, "2024-04-05"]]
        assert report()["decimal"] == "."
        # Put over what was said before; null takes one back.
        changed = options(decimal=None, types="text")
        assert changed.json["options"] == {"date_order": "mdy", "types": "text"}
        assert ask("SELECT preis, datum FROM mixed ORDER BY preis") == [["1.234", "03.04.2024"], ["5.678", "04.05.2024"]]

        # What fails changes nothing.
        before = server.get(path).json, tables_on_disk(server, file_id), report()
        for body, status, error in [
            ({"options": {"delimeter": ";"}}, 422, "there is no 'options.delimeter'; did you mean 'delimiter'?"),
            ({"options": {"decimal": "x"}}, 422, "options.decimal"),
            ({"options": {"encoding": "nothing-like-it"}}, 400, "nothing-like-it"),
            ({"options": {"header_line": 3}}, 400, "CSV has no data rows"),
            ({"options": {}, "name": "other.csv"}, 400, "either"),
            ({}, 400, "either"),
        ]:
            answer = patch(body)
            assert (answer.status, error in answer.error[1]) == (status, True), (body, answer.body)
        assert (server.get(path).json, tables_on_disk(server, file_id), report()) == before
        assert ask("SELECT count(*) FROM mixed WHERE preis = '1.234'") == [[1]]

        # One table and the one before it are kept, whatever was tried.
        for delimiter in (",", "tab", "|"):
            assert options(delimiter=delimiter, types=None, date_order=None).status == 200
        assert len([n for n in tables_on_disk(server, file_id) if ".duckdb" in n]) == 2
        assert options(delimiter=None, header_line=0).status == 200
        assert ask("SELECT count(*) FROM mixed") == [[3]]

        # Said with the upload, for every file of the form.
        extra = b"".join(b'--riddle-test-boundary-7d1\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % pair
                         for pair in [(b"types", b"text"), (b"header_line", b"2"), (b"sheet", b""), (b"nulls", b"Bonn")])
        body = form()[: -len(FORM_END)] + extra + form(("first.csv", MIXED), ("second.csv", MIXED))
        sent = server.call("POST", "/upload", body, {"Content-Type": FORM_TYPE})
        assert sent.status == 200, sent.body
        said = {"header_line": 2, "nulls": ["Bonn"], "types": "text"}
        for file in sent.json["files"]:
            assert (file["rows"], file["columns"][0]) == (1, "Ulm")
            assert server.get(f"/uploads/{file['file_id']}").json["options"] == said
        wrong = form()[: -len(FORM_END)] + extra.replace(b"types", b"tpyes") + form(("first.csv", MIXED))
        answer = server.call("POST", "/upload", wrong, {"Content-Type": FORM_TYPE})
        assert (answer.status, answer.error[1]) == (400, "there is no field 'tpyes'; did you mean 'types'?")
        assert server.stop() == 0
        with server:
            assert server.get(path).json["options"] == {"header_line": 0}
            assert ask("SELECT count(*) FROM mixed") == [[3]]
            assert options(header_line=None).json["tables"][0]["rows"] == 2
            assert server.stop() == 0


def test_delete_while_it_is_read_again(tmp_path):
    """The deletion holds: the second reading fails, and nothing of it is left."""
    with Server(tmp_path) as server:
        rows = "".join(f"{i},name {i},{i % 100},{i},5\n" for i in range(300_000))
        file_id = new_file(server.upload(("long.csv", "id,name,price,n,other\n" + rows)))["file_id"]
        answers = []

        def read_again():
            body = json.dumps({"options": {"types": "text"}})
            answers.append(server.call("PATCH", f"/data/{file_id}", body, {"Content-Type": "application/json"}))

        thread = threading.Thread(target=read_again)
        thread.start()
        wait_until(lambda: list(server.home.glob("tables/new-*")) or answers, "the file is being read again")
        deleted = server.delete(f"/data/{file_id}")
        thread.join()
        assert deleted.status == 200, deleted.body
        assert answers[0].status in (200, 404, 409), answers[0].body
        assert server.get(f"/data/{file_id}").status == 404
        wait_until(lambda: not list(server.home.glob(f"uploads/*/{file_id}")) and not list(server.home.glob("tables/new-*")),
                   "nothing is left of it")
        assert new_file(server.upload(("next.csv", "a\n1\n")))["rows"] == 1
        assert server.stop() == 0
