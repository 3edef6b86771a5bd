"""Files of sessions: uploaded, asked about, left by code, downloaded; who sees them, how long, and what no path leads to."""

import base64
import hashlib
import json
import os
import signal
import socket
import sqlite3
import time
from urllib.parse import quote

import pytest

from api import QUICK, Background, refused, say, wait_for_metric
from server import BOUNDARY, FORM_END, FORM_TYPE, RIDDLE, Server, part_head, wait_until

pytestmark = pytest.mark.plain

KEYS = {"RIDDLE_API_KEYS": "ann:ann-key-0123456789,ben:ben-key-0123456789,.hid:hid-key-0123456789"}
ANN, BEN, HID = "ann-key-0123456789", "ben-key-0123456789", "hid-key-0123456789"
SANITIZED = "asan" in str(RIDDLE)
PETS = "pet,legs\ncat,4\nbird,2\nspider,8\n"
BROKEN = b'a,b\n"never closed,1\n\x00\xff\xfe' + bytes(range(256)) * 8
PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("files"), **QUICK, **KEYS, SESSION_QUOTA_BYTES="64m") as s:
        s.key = ANN
        yield s
        assert s.stop() == 0, s.log.read_text()[-4000:]


def field(name, value):
    return f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()


def body_of(session, files, name="files[]", last=False):
    parts = b"\r\n".join(part_head(n, name) + (c if isinstance(c, bytes) else c.encode()) for n, c in files)
    if last:
        return parts + b"\r\n" + field("session_id", session).removesuffix(b"\r\n") + FORM_END
    return (field("session_id", session) if session is not None else b"") + parts + FORM_END


def send(server, session, *files, key=None, **more):
    return server.call("POST", "/files/upload", body_of(session, files, **more), {"Content-Type": FORM_TYPE}, key=key)


def give(server, session, *files, **more):
    answer = send(server, session, *files, **more)
    assert answer.status == 200, answer.body
    assert answer.json["status"] == "ok" and answer.json["session_id"] == session
    return answer.json["files"]


def ask(server, session, message, **more):
    answer = server.post("/chat", {"messages": [{"role": "user", "content": message}], "session_id": session}, **more)
    assert answer.status == 200, answer.body
    return answer.json


def printed(server, session, code):
    answer = ask(server, session, "PYTHON: " + code)
    assert answer["status"] == "succeeded", answer["result"]
    return answer["result"]["stdout"].strip()


def fetch(server, session, path, **more):
    return server.get(f"/files/download?session_id={session}&path={quote(path, safe='')}", **more)


def listed(server, session, **more):
    answer = server.get(f"/files/list?session_id={session}", **more)
    assert answer.status == 200, answer.body
    return answer.json


def on_disk(server):
    root = server.home / "sessions"
    return sorted(os.path.relpath(os.path.join(at, name), root) for at, _, files in os.walk(root) for name in files
                  if not name.startswith((".table.", ".profile-")))


def recorded(server):
    """Names of the files that the store knows as ready."""
    with sqlite3.connect(f"file:{server.home / 'riddle.db'}?mode=ro", uri=True) as db:
        names = [name for name, in db.execute("SELECT filename FROM uploads WHERE status = 'ready'")]
    db.close()
    return names


def test_shapes_of_the_answers(server):
    [pets, note] = give(server, "shapes", ("pets.csv", PETS), ("note.txt", "hello"))
    assert pets == {"name": "pets.csv", "size": len(PETS), "where": "/data/pets.csv", "table": "pets"}
    assert note == {"name": "note.txt", "size": 5, "where": "/data/note.txt"}
    have = listed(server, "shapes")
    assert have["images"] == [] and set(have) == {"images", "files"}
    assert [(f["path"], f["size"], f["where"]) for f in have["files"]] == [("/data/pets.csv", len(PETS), "data"), ("/data/note.txt", 5, "data")]
    assert abs(have["files"][0]["modified"] / 1000 - time.time()) < 300
    for path in ("/data/pets.csv", "pets.csv"):
        got = fetch(server, "shapes", path)
        assert got.status == 200 and got.body == PETS.encode()
        assert got.headers["content-type"] == "text/csv; charset=utf-8" and got.headers["x-content-type-options"] == "nosniff"
        assert got.headers["content-disposition"] == "attachment; filename=\"pets.csv\"; filename*=UTF-8''pets.csv"
        assert got.headers["content-security-policy"] == "default-src 'none'; sandbox"
    assert server.get("/threads").json["order"].count("shapes") == 0  # nothing in the store before somebody chats
    assert server.post("/files/clear", {"session_id": "shapes"}).json == {"status": "ok"}
    assert listed(server, "shapes") == {"images": [], "files": []}
    assert refused(fetch(server, "shapes", "/data/pets.csv"), 404, "NOT_FOUND") == "File not found."
    wait_until(lambda: not [p for p in on_disk(server) if "shapes" in p], "nothing is left on disk")
    assert server.post("/files/clear", {"session_id": "never-seen"}).json == {"status": "ok"}


def test_a_table_can_be_asked(server):
    give(server, "asked", ("my pets.csv", PETS), name="files")
    answer = ask(server, "asked", "how many rows are there?")
    assert answer["result"]["rows"] == [[3]] and answer["session_id"] == "asked"
    assert ask(server, "asked", "SQL: SELECT sum(legs) FROM my_pets")["result"]["rows"] == [[14]]
    assert printed(server, "asked", "print(open('/data/my pets.csv').read().count('\\n'), int(my_pets.legs.sum()))") == "4 14"
    refusal = ask(server, "asked", "PYTHON: open('/data/my pets.csv', 'a')")
    assert refusal["status"] == "failed"


def test_replaced_and_of_one_table_name(server):
    give(server, "again", ("t.csv", "a\n1\n"))
    [t, u] = give(server, "again", ("t.csv", "a\n1\n2\n"), ("t.tsv", "b\n7\n"))
    assert (t["table"], u["table"]) == ("t", "t_2")
    assert len(listed(server, "again")["files"]) == 2
    assert fetch(server, "again", "t.csv").body == b"a\n1\n2\n"
    assert ask(server, "again", "SQL: SELECT (SELECT count(*) FROM t), (SELECT max(b) FROM t_2)")["result"]["rows"] == [[2, 7]]


def test_session_named_after_its_files(server):
    give(server, "after", ("pets.csv", PETS), last=True)
    assert [f["path"] for f in listed(server, "after")["files"]] == ["/data/pets.csv"]


@pytest.mark.parametrize("name,content,why", [
    ("broken.csv", BROKEN, "Could not parse CSV"),
    ("empty.csv", b"", "File is empty"),
    ("fake.parquet", b"PAR1 no", ""),
    ("torn.csv.gz", b"\x1f\x8b\x08\x00broken", ""),
    ("fake.xlsx", b"PK\x03\x04 nothing", ""),
], ids=["csv", "empty", "parquet", "gz", "xlsx"])
def test_what_is_no_table_is_a_raw_file(server, name, content, why):
    session = "raw-" + name
    files = give(server, session, (name, content), ("pets.csv", PETS))
    assert "table" not in files[0] and files[0]["note"].startswith(why) and files[0]["note"], files
    assert files[1]["table"] == "pets"
    seen = printed(server, session, f"import hashlib; print(hashlib.sha256(open('/data/{name}','rb').read()).hexdigest())")
    assert seen == hashlib.sha256(content).hexdigest()
    assert ask(server, session, "how many rows are there?")["result"]["rows"] == [[3]]
    assert fetch(server, session, name).body == content


def test_other_kinds_of_tables(server):
    import gzip
    files = give(server, "kinds", ("a.csv.gz", gzip.compress(PETS.encode())), ("b.json", '[{"x":1},{"x":2}]'), ("c.ndjson", '{"y":1}\n{"y":5}\n'),
                 ("d.tsv", "p\tq\n1\t2\n"), ("e.CSV", PETS))
    assert [f.get("table") for f in files] == ["a", "b", "c", "d", "e"], files
    assert ask(server, "kinds", "SQL: SELECT (SELECT count(*) FROM a), (SELECT sum(x) FROM b), (SELECT max(y) FROM c), (SELECT q FROM d)"
               )["result"]["rows"] == [[3, 3, 5, 2]]


# ---- what code leaves ----

def test_what_code_leaves(server):
    code = f"""
import base64, os
os.makedirs('outputs')
open('outputs/dot.png','wb').write(base64.b64decode('{base64.b64encode(PNG).decode()}'))
open('evil.svg','w').write('<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>')
open('page.html','w').write('<script>alert(1)</script>')
open('größe "1".txt','w').write('ü')
os.symlink('/etc/passwd', 'passwd')
os.symlink('/data', 'there')
print('made')
"""
    answer = ask(server, "left", "PYTHON: " + code)
    assert answer["result"]["stdout"] == "made\n", answer["result"]
    assert sorted(answer["images"]) == ["evil.svg", "outputs/dot.png"]
    have = listed(server, "left")
    assert sorted(have["images"]) == ["evil.svg", "outputs/dot.png"]
    assert {f["path"]: f["where"] for f in have["files"]} == dict.fromkeys(
        ["/workspace/evil.svg", "/workspace/größe \"1\".txt", "/workspace/outputs/dot.png", "/workspace/page.html"], "workspace")
    for path in ("outputs/dot.png", "/workspace/outputs/dot.png"):
        got = fetch(server, "left", path)
        assert got.status == 200 and got.body == PNG and got.headers["content-type"] == "image/png"
        assert got.headers["content-disposition"].startswith("inline; filename=\"dot.png\"")
        assert got.headers["content-length"] == str(len(PNG))
    svg, page = fetch(server, "left", "evil.svg"), fetch(server, "left", "page.html")
    for got in (svg, page):
        assert got.status == 200 and got.headers["content-disposition"].startswith("attachment;")
        assert "sandbox" in got.headers["content-security-policy"] and "html" not in got.headers["content-type"]
    odd = fetch(server, "left", 'größe "1".txt')
    assert odd.body == "ü".encode()
    assert odd.headers["content-disposition"] == "attachment; filename=\"gr____e _1_.txt\"; filename*=UTF-8''gr%C3%B6%C3%9Fe%20%221%22.txt"
    for path in ("passwd", "/workspace/passwd", "there/passwd", "outputs"):
        refused(fetch(server, "left", path), 400, "VALIDATION_ERROR")
    assert refused(fetch(server, "left", "/workspace/none.txt"), 404, "NOT_FOUND") == "File not found."
    assert fetch(server, "left", "outputs/dot.png", key=BEN).status == 404


def test_large_file_from_the_workspace(server):
    code = "import hashlib\nd = bytes((i * 7919 >> 3) & 255 for i in range(65536)) * 320\nopen('big.bin','wb').write(d)\nprint(hashlib.sha256(d).hexdigest())"
    digest = printed(server, "large", code)
    before = server.status_kb("VmHWM")
    got = fetch(server, "large", "/workspace/big.bin")
    assert got.status == 200 and len(got.body) == 20 << 20 and got.headers["content-type"] == "application/octet-stream"
    assert hashlib.sha256(got.body).hexdigest() == digest
    assert SANITIZED or server.status_kb("VmHWM") - before < 16 << 10  # a piece at a time
    assert printed(server, "large", "print(len(d))") == str(20 << 20)  # the kernel is none the worse for it


def test_slow_download_and_cells_share_the_kernel(server):
    printed(server, "shared", "open('big.bin','wb').write(bytes(16 << 20)); x = 41; print(1)")
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as s:
        s.sendall(f"GET /files/download?session_id=shared&path=big.bin HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {ANN}\r\n"
                  "Connection: close\r\n\r\n".encode())
        assert s.recv(100).startswith(b"HTTP/1.1 200")
        for i in range(5):  # the client reads nothing meanwhile
            assert printed(server, "shared", "x += 1; print(x)") == str(42 + i)
        running = Background(printed, server, "shared", "import time; time.sleep(1); print(x)")
        total = 0
        while piece := s.recv(1 << 20):
            total += len(piece)
        assert total >= (16 << 20) - 100
        assert running.result() == "46"


def test_no_kernel_no_workspace(server):
    give(server, "cold", ("pets.csv", PETS))
    ask(server, "cold", "how many rows are there?")
    message = refused(fetch(server, "cold", "/workspace/x.txt"), 404, "NOT_FOUND")
    assert message.startswith("File not found.") and "sandbox" in message
    assert refused(fetch(server, "cold", "x.txt"), 404, "NOT_FOUND") == message
    assert refused(fetch(server, "unheard-of", "x.txt"), 404, "NOT_FOUND") == message  # nobody learns which sessions exist


def test_threads_have_files_too(server):
    thread = server.post("/thread/new", {}).json["thread_id"]
    [pets] = give(server, thread, ("pets.csv", PETS))
    assert pets["where"] == "/data/pets.csv"
    told = server.post(f"/thread/{thread}/message", {"message": "PYTHON: open('made.txt','w').write(str(len(pets)))"}).json
    assert told["status"] == "succeeded" and fetch(server, thread, "made.txt").body == b"3"
    assert server.delete(f"/thread/{thread}").json == {"thread_id": thread, "deleted": True}
    assert listed(server, thread) == {"images": [], "files": []}
    wait_until(lambda: not [p for p in on_disk(server) if thread in p], "its files go with it")
    give(server, "only-files", ("pets.csv", PETS))
    assert server.delete("/thread/only-files").status == 200 and listed(server, "only-files")["files"] == []
    assert server.delete("/thread/only-files").status == 404


# ---- files that come while Python keeps variables ----

def test_variables_are_kept_when_files_come_and_go(server):
    give(server, "kept", ("pets.csv", PETS))
    assert printed(server, "kept", "x = 7; open('own.txt','w').write('mine'); print(len(pets))") == "3"
    big = os.urandom(3 << 20)
    [more, own, blob] = give(server, "kept", ("more.csv", "n\n1\n2\n"), ("own.txt", "theirs"), ("blob.bin", big))
    assert more["where"] == "/workspace/more.csv" and more["table"] == "more"
    assert own["where"] == "/workspace/own_2.txt"  # what code left is not overwritten
    assert blob["where"] == "/workspace/blob.bin"
    code = ("import hashlib; print(x, open('/workspace/more.csv').read().split(), open('own.txt').read(), open('own_2.txt').read(), "
            "hashlib.sha256(open('/workspace/blob.bin','rb').read()).hexdigest())")
    assert printed(server, "kept", code) == f"7 ['n', '1', '2'] mine theirs {hashlib.sha256(big).hexdigest()}"
    assert ask(server, "kept", "SQL: SELECT sum(n) FROM more")["result"]["rows"] == [[3]]  # SQL has it at once
    answer = ask(server, "kept", "what is the highest n?")
    assert answer["result"]["rows"] == [[2]], answer
    assert ask(server, "kept", "SQL: SELECT x FROM (SELECT 1 AS x)")["result"]["rows"] == [[1]]
    assert fetch(server, "kept", "/data/own.txt").body == b"theirs" and fetch(server, "kept", "/workspace/own.txt").body == b"mine"
    [more] = give(server, "kept", ("more.csv", "n\n10\n"))  # its own place is written anew
    assert more["where"] == "/workspace/more.csv"
    assert printed(server, "kept", "print(x, open('more.csv').read().split())") == "7 ['n', '10']"
    assert server.post("/files/clear", {"session_id": "kept"}).json == {"status": "ok"}
    answer = ask(server, "kept", "PYTHON: print(x, len(pets))")
    assert answer["result"]["stdout"] == "7 3\n" and not answer.get("state_lost")
    assert listed(server, "kept")["files"] and not [f for f in listed(server, "kept")["files"] if f["where"] == "data"]


def test_a_file_without_room_is_told(server):
    code = """
import os
n = os.statvfs('.').f_bavail * os.statvfs('.').f_frsize
for i in range(n // (60 << 20)):
    open(f'fill{i}', 'wb').write(bytes(60 << 20))
left = os.statvfs('.').f_bavail * os.statvfs('.').f_frsize
open('rest', 'wb').write(bytes(max(0, left - (1 << 20))))
x = 5
print(sorted(os.listdir('.')))
"""
    before = printed(server, "full", code)
    [blob] = give(server, "full", ("blob.bin", os.urandom(4 << 20)))
    assert "where" not in blob and "cannot have this file" in blob["note"]
    code = "import os; print(sorted(n for n in os.listdir('.') if os.path.getsize(n))); assert x == 5"
    assert printed(server, "full", code) == before  # no half of it


def test_files_that_come_during_a_turn_are_there_in_the_next(server):
    printed(server, "during", "x = 1; print(x)")
    running = Background(printed, server, "during", "import time, os; time.sleep(2); x += 1; print(sorted(os.listdir('.')))")
    wait_for_metric(server, 1, "riddle_kernels", state="running")
    [pets] = give(server, "during", ("pets.csv", PETS))
    assert "next" in pets["note"]
    assert running.result() == "['.outputs']"
    assert printed(server, "during", "print(x, open('/workspace/pets.csv').read().count('\\n'))") == "2 4"
    assert ask(server, "during", "how many pets are there?")["result"]["rows"] == [[3]]


def test_kernel_without_variables_is_exchanged(server):
    thread = server.post("/thread/new", {}).json
    assert thread["container_status"] == "hot"
    [pets] = give(server, thread["thread_id"], ("pets.csv", PETS))
    assert pets["where"] == "/data/pets.csv"
    assert printed_in(server, thread["thread_id"], "print(len(pets), open('/data/pets.csv').read(3))") == "3 pet"


def printed_in(server, thread, code):
    return server.post(f"/thread/{thread}/message", {"message": "PYTHON: " + code}).json["result"]["stdout"].strip()


# ---- what no path leads to, and no name does ----

@pytest.mark.parametrize("path", ["../pets.csv", "..", ".", "", "/etc/passwd", "/data/../../etc/passwd", "/data/", "/data", "data/../x", "a//b",
                                  "/workspace/../data/pets.csv", "a\nb", "x" * 600, "/data/" + "a/" * 9 + "b", "/data/./pets.csv", "//data/pets.csv"])
def test_paths_that_lead_nowhere(server, path):
    give(server, "paths", ("pets.csv", PETS))
    assert refused(fetch(server, "paths", path), 400, "VALIDATION_ERROR") == "Invalid file path."


@pytest.mark.parametrize("query,status,kind", [("path=%00", 400, "INVALID_INPUT"), ("path=a%00b", 400, "INVALID_INPUT"),
                                               ("path=%ff", 400, "INVALID_INPUT"), ("path=%2e%2e%2fpets.csv", 400, "VALIDATION_ERROR"),
                                               ("", 422, "VALIDATION_ERROR")])
def test_encoded_paths(server, query, status, kind):
    refused(server.get("/files/download?session_id=paths&" + query), status, kind)


def test_twice_encoded_is_a_name(server):
    refused(server.get("/files/download?session_id=paths&path=%252e%252e%252fpets.csv"), 404, "NOT_FOUND")


@pytest.mark.parametrize("sent,stored", [
    ("../../etc/cron.csv", "cron.csv"), ("C:\\\\Users\\\\me\\\\x.txt", "x.txt"), ("..", "_."), (".", "_"), (".hidden", "_hidden"), (".tables", "_tables"),
    ("a\tb.txt", "ab.txt"), ("žluťoučký kůň.txt", "žluťoučký kůň.txt"), ("index.json", "index.json"), ("", "upload"), ("-rf", "-rf"),
])
def test_names_of_files(server, sent, stored):
    session = "names-" + hashlib.sha256(sent.encode()).hexdigest()[:8]
    [file] = give(server, session, (sent, "content"))
    assert file["name"] == stored and file["where"] == "/data/" + stored
    assert fetch(server, session, "/data/" + stored).body == b"content"
    assert printed(server, session, "import os; print([n for n in os.listdir('/data') if n != 'outputs'])") == repr([stored])
    assert all(p.startswith(("ann/", "local/", "%.hid/", "ben/")) for p in on_disk(server)), on_disk(server)


def test_bytes_that_are_no_name(server):
    for name in (b"a\x00b.txt", b"a\rb.txt", b"\xff\xfe.txt", b"x" * 300):
        head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="files[]"; filename="'.encode() + name + b'"\r\n\r\n'
        answer = server.call("POST", "/files/upload", field("session_id", "bytes") + head + b"x" + FORM_END, {"Content-Type": FORM_TYPE})
        assert answer.status in (200, 400, 413), answer.body
    assert all(set(f["path"]) & set("\0\r\n") == set() for f in listed(server, "bytes")["files"])


@pytest.mark.parametrize("session", ["", "a/b", "..%2f", "a b", "ü", "x" * 101, "a\0b", "../up"])
def test_ids_that_are_none(server, session):
    refused(send(server, session, ("a.txt", "x")), 400, "VALIDATION_ERROR")


@pytest.mark.parametrize("session", [".", "..", "...", ".uploading", "index.json", "a:b", "%"[:0] + "-"])
def test_odd_ids_are_only_ids(server, session):
    give(server, session, ("a.txt", "x"))
    assert fetch(server, session, "a.txt").body == b"x"
    assert (server.home / "sessions" / ".uploading").is_dir() and (server.home / "sessions" / "ann").is_dir()
    server.post("/files/clear", {"session_id": session})
    assert listed(server, session)["files"] == []


@pytest.mark.parametrize("body,message", [
    (body_of(None, [("a.txt", "x")]), "session_id is required"),
    (field("session_id", "s").removesuffix(b"\r\n") + FORM_END, "No files were sent; send them in the multipart field 'files[]'"),
    (field("session_id", "s") + body_of("t", [("a.txt", "x")]), "session_id is there twice"),
    (body_of("s", [("a.txt", "x")], name="upload"), "a file came in the field 'upload'; files go into the field 'files[]'"),
    (body_of("s", [("", "")]), "No files were sent; send them in the multipart field 'files[]'"),
    (field("files", "text") + body_of("s", []), "the part 'files' is no file: it has no filename"),
], ids=["no-session", "no-files", "twice", "field", "unchosen", "text"])
def test_bad_forms(server, body, message):
    before = on_disk(server)
    assert refused(server.call("POST", "/files/upload", body, {"Content-Type": FORM_TYPE}), 400, "VALIDATION_ERROR") == message
    wait_until(lambda: set(on_disk(server)) <= set(before), "nothing is left")  # what earlier tests sent may still be going


# ---- whose ----

def test_owners_are_apart(server):
    give(server, "same", ("pets.csv", PETS))
    give(server, "same", ("pets.csv", "pet\ndog\n"), key=BEN)
    give(server, "same", ("hid.txt", "x"), key=HID)
    assert fetch(server, "same", "pets.csv").body == PETS.encode() and fetch(server, "same", "pets.csv", key=BEN).body == b"pet\ndog\n"
    assert ask(server, "same", "how many rows are there?")["result"]["rows"] == [[3]]
    assert ask(server, "same", "how many rows are there?", key=BEN)["result"]["rows"] == [[1]]
    server.post("/files/clear", {"session_id": "same"}, key=BEN)
    assert len(listed(server, "same")["files"]) == 1 and listed(server, "same", key=BEN)["files"] == []
    assert server.delete("/thread/same", key=BEN).status == 200
    assert fetch(server, "same", "pets.csv").body == PETS.encode()
    assert refused(fetch(server, "same", "/data/pets.csv", key=HID), 404, "NOT_FOUND") == "File not found."
    assert server.get("/files/list?session_id=same", key="no-such-key-000000").status == 401


# ---- limits and time ----

@pytest.fixture(scope="module")
def tight(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("tight"), **QUICK, SESSION_QUOTA_BYTES=20000, SESSION_FILES_MAX=3, UPLOAD_QUOTA_BYTES=50000) as s:
        yield s


def test_quota(tight):
    give(tight, "q", ("a.bin", b"a" * 15000))
    before = on_disk(tight)
    assert refused(send(tight, "q", ("b.bin", b"b" * 6000)), 413, "TOO_LARGE") == "Session storage limit exceeded."
    assert refused(send(tight, "q", ("b.bin", b"b" * 6000), last=True), 413, "TOO_LARGE") == "Session storage limit exceeded."
    assert refused(send(tight, "r", ("b.bin", b"b" * 30000), last=True), 413, "TOO_LARGE") == "Session storage limit exceeded."
    head = f"POST /files/upload HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {FORM_TYPE}\r\nContent-Length: {2 << 20}\r\nConnection: close\r\n\r\n"
    early = say(tight, head.encode())  # known by its length, before any of it came
    assert early.startswith(b"HTTP/1.1 413") and b"Session storage limit exceeded." in early
    wait_until(lambda: on_disk(tight) == before, "nothing is left")
    give(tight, "q", ("b.bin", b"b" * 5000))
    tight.post("/files/clear", {"session_id": "q"})
    give(tight, "q", ("c.bin", b"c" * 20000))
    give(tight, "q2", ("c.bin", b"c" * 20000))
    assert "UPLOAD_QUOTA_BYTES" in refused(send(tight, "q3", ("c.bin", b"c" * 12000)), 413, "TOO_LARGE")
    for session in ("q", "q2"):
        tight.post("/files/clear", {"session_id": session})


def test_bytes_on_their_way_count(tight):
    begun = tight.connect()
    body = body_of("way", [("slow.bin", b"s" * 12000)])
    try:
        begun.putrequest("POST", "/files/upload")
        begun.putheader("Content-Type", FORM_TYPE)
        begun.putheader("Content-Length", str(len(body)))
        begun.endheaders()
        begun.send(body[:-100])
        wait_until(lambda: any(p.endswith("slow.bin") for p in on_disk(tight)), "it is on its way")
        assert all(p.startswith(".uploading/") for p in on_disk(tight) if p.endswith("slow.bin"))
        assert listed(tight, "way")["files"] == []
        refused(send(tight, "way", ("b.bin", b"b" * 10000)), 413, "TOO_LARGE")
    finally:
        begun.close()  # interrupted
    wait_until(lambda: not any(p.endswith("slow.bin") for p in on_disk(tight)), "nothing is left of it")
    assert listed(tight, "way")["files"] == []
    wait_until(lambda: send(tight, "way", ("b.bin", b"b" * 10000)).status == 200, "its bytes no longer count")
    tight.post("/files/clear", {"session_id": "way"})


def test_number_of_files(tight):
    give(tight, "many", ("a", "1"), ("b", "1"), ("c", "1"))
    give(tight, "many", ("a", "2"))
    assert "SESSION_FILES_MAX" in refused(send(tight, "many", ("d", "1")), 413, "TOO_LARGE")
    assert "SESSION_FILES_MAX" in refused(send(tight, "many2", *((str(i), "1") for i in range(4))), 413, "TOO_LARGE")
    assert [f["path"] for f in listed(tight, "many")["files"]] == ["/data/b", "/data/c", "/data/a"]
    tight.post("/files/clear", {"session_id": "many"})


def test_time_runs_out_unless_used(tmp_path):
    ttl = 10 if SANITIZED else 3  # longer than it takes to start
    with Server(tmp_path, **QUICK, SESSION_TTL_SECONDS=ttl) as server:
        give(server, "used", ("pets.csv", PETS))
        give(server, "chatted", ("pets.csv", PETS))
        give(server, "idle", ("pets.csv", PETS))
        ask(server, "idle", "PYTHON: x = 1")
        give(server, "still", ("pets.csv", PETS))
        assert ask(server, "still", "SQL: SELECT count(*) FROM pets")["status"] == "succeeded"
        end = time.monotonic() + 2 * ttl
        while time.monotonic() < end:
            assert fetch(server, "used", "pets.csv").status == 200
            assert ask(server, "chatted", "how many rows are there?")["result"]["rows"] == [[3]]
            time.sleep(0.3)
        wait_until(lambda: not any("/idle/" in p for p in on_disk(server)), "it has expired")
        assert fetch(server, "idle", "/data/pets.csv").status == 404
        assert ask(server, "still", "SQL: SELECT count(*) FROM pets")["status"] != "succeeded"
        assert printed(server, "idle", "print(x)") == "1"  # its variables are not the files'
        assert server.stop() == 0
        server.start()
        assert fetch(server, "used", "pets.csv").status == 200
        assert server.stop() == 0
        time.sleep(ttl + 0.1)
        server.start()
        wait_until(lambda: on_disk(server) == [], "a server that was away forgets what expired meanwhile")


def test_restart_keeps_and_cleans_up(tmp_path):
    with Server(tmp_path, **QUICK) as server:
        give(server, "stay", ("pets.csv", PETS), ("broken.csv", BROKEN))
        ask(server, "stay", "how many rows are there?")
        assert server.stop(signal.SIGKILL) == -signal.SIGKILL
        sessions = server.home / "sessions"
        (sessions / ".uploading" / "0123456789ab").mkdir()
        (sessions / ".uploading" / "0123456789ab" / "half.csv").write_text("a,b\n1")
        (sessions / "local" / "stay" / "ffffffffffff").mkdir()
        (sessions / "local" / "stay" / "ffffffffffff" / ".part").write_text("a\n")  # was never recorded
        (sessions / "local" / "gone" / "ffffffffffff").mkdir(parents=True)
        server.start()
        assert [(f["path"], f.get("table")) for f in listed(server, "stay")["files"]] == [("/data/pets.csv", "pets"), ("/data/broken.csv", None)]
        assert sorted(p.rpartition("/")[2] for p in on_disk(server)) == ["broken.csv", "pets.csv"]
        assert not (sessions / "local" / "gone").exists()
        assert ask(server, "stay", "how many rows are there?")["result"]["rows"] == [[3]]
        assert printed(server, "stay", "print(len(open('/data/broken.csv','rb').read()))") == str(len(BROKEN))
        assert fetch(server, "stay", "pets.csv").body == PETS.encode()
        server.stop()
        with sqlite3.connect(server.home / "riddle.db") as db:  # a store put back from a backup: nothing is thrown away
            db.execute("DELETE FROM uploads")
        db.close()
        server.start()
        assert listed(server, "stay")["files"] == [] and len(on_disk(server)) == 2


def test_a_home_of_an_earlier_version(tmp_path):
    """Its threads listed their files in index.json; the store has them afterwards, with table, note and time."""
    with Server(tmp_path, **QUICK) as server:
        give(server, "old", ("pets.csv", PETS), ("broken.csv", BROKEN))
        server.stop()
        folder = server.home / "sessions" / "local" / "old"
        with sqlite3.connect(server.home / "riddle.db") as db:
            rows = db.execute("SELECT file_id, filename, size_bytes, sha256, table_name, error FROM uploads ORDER BY created_at").fetchall()
            db.execute("DELETE FROM uploads")
        db.close()
        entries = [{"id": i, "name": name, "size": size, "sha256": sha, "table": table, "note": note or "", "modified": 1700000000123 + n}
                   for n, (i, name, size, sha, table, note) in enumerate(rows)]
        entries.append({"id": "../../..", "name": "../x", "size": 1, "sha256": "0" * 64, "table": "x", "note": "", "modified": 1})
        (folder / "index.json").write_text(json.dumps({"files": entries}))
        (folder.parent / "odd").mkdir()
        (folder.parent / "odd" / "index.json").write_text("{")  # unreadable: it is left as it is
        server.start()
        files = listed(server, "old")["files"]
        assert [(f["path"], f.get("table"), f["modified"]) for f in files] == [("/data/pets.csv", "pets", 1700000000123), ("/data/broken.csv", None, 1700000000124)]
        assert files[1]["note"]
        assert ask(server, "old", "SQL: SELECT sum(legs) FROM pets")["result"]["rows"] == [[14]]
        assert not (folder / "index.json").exists() and (folder.parent / "odd" / "index.json").read_text() == "{"


def test_planted_links_on_disk_are_not_followed(tmp_path):
    with Server(tmp_path, **QUICK) as server:
        give(server, "links", ("a.txt", "x" * 9))
        [path] = (server.home / "sessions").rglob("a.txt")
        path.unlink()
        secret = tmp_path / "secret"
        secret.write_text("s" * 9)
        path.symlink_to(secret)
        assert refused(fetch(server, "links", "a.txt"), 404, "NOT_FOUND") == "File not found."


def test_outputs_are_there_while_they_are_copied(server):
    """A copy has its name in the list a moment before it has it on the disk."""
    for i in range(20):
        ask(server, f"copied{i}", "PYTHON: import os\nos.makedirs('outputs')\nopen('outputs/dot.png','wb').write(b'x' * 300)")
        for _ in range(6):
            got = fetch(server, f"copied{i}", "outputs/dot.png")
            assert (got.status, len(got.body)) == (200, 300), got.body


def test_outputs_are_kept_with_the_session(tmp_path):
    """What a cell saves to /data/outputs outlives its kernel and the server, and goes when the session is cleared."""
    def listed():
        answer = server.get("/files/list?session_id=kept").json
        return [f["path"] for f in answer["files"]], answer["images"]

    def download(path):
        return server.get("/files/download?session_id=kept&path=" + quote(path))

    def cell(code):
        answer = server.post("/thread/kept/execute", {"language": "python", "code": code}).json
        assert answer["status"] == "succeeded", answer

    with Server(tmp_path, **QUICK) as server:
        give(server, "kept", ("pets.csv", PETS))
        ask(server, "kept", "SQL: SELECT 1 AS one")
        save = f"import base64, os\nos.makedirs('/data/outputs/deep', exist_ok=True)\ndata = base64.b64decode('{base64.b64encode(PNG).decode()}')"
        cell(save + "\nopen('/data/outputs/plot.png', 'wb').write(data)\nopen('/data/outputs/deep/big.bin', 'wb').write(data * 40000)")
        wait_until(lambda: len(list(server.home.glob("sessions/*/kept/*/outputs/plot.png"))) == 1, "the output is kept")
        wait_until(lambda: "outputs/deep/big.bin" in recorded(server), "both are recorded")
        cell("open('/data/outputs/plot.png', 'wb').write(b'another')")  # a later cell replaces it
        wait_until(lambda: [p.read_bytes() for p in server.home.glob("sessions/*/kept/*/outputs/plot.png")] == [b"another"], "the new one is kept")
        assert sorted(listed()[0]) == ["/data/pets.csv", "/workspace/outputs/deep/big.bin", "/workspace/outputs/plot.png"]
        assert not [d for d in server.get("/data").json["data"] if "plot" in d["name"]]
        assert server.stop() == 0
        server.start()  # no kernel any more
        assert sorted(listed()[0]) == ["/data/pets.csv", "/workspace/outputs/deep/big.bin", "/workspace/outputs/plot.png"]
        for path in ("outputs/plot.png", "/data/outputs/plot.png", "/workspace/outputs/plot.png"):
            answer = download(path)
            assert (answer.status, answer.body) == (200, b"another") and 'filename="plot.png"' in answer.headers["content-disposition"]
        assert download("outputs/deep/big.bin").body == PNG * 40000
        cell("import os\nassert sorted(os.listdir('/data')) == ['outputs', 'pets.csv'], os.listdir('/data')\nopen('/data/outputs/more.png', 'wb').write(b'x')")
        wait_until(lambda: "outputs/more.png" in recorded(server), "the third is kept")
        assert server.post("/files/clear", {"session_id": "kept"}).json == {"status": "ok"}
        assert listed() == ([], [])  # though the kernel that wrote more.png lives
        assert download("outputs/more.png").status == 404 and download("outputs/plot.png").status == 404
        cell("open('/data/outputs/late.png', 'wb').write(b'late')")
        wait_until(lambda: list(server.home.glob("sessions/*/kept/*/outputs/late.png")), "what comes later is kept")
        assert listed()[1] == ["outputs/late.png"] and download("outputs/late.png").body == b"late"
        assert server.stop() == 0, server.log.read_text()[-4000:]
