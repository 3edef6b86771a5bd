"""Files in /workspace, which riddle lists, reads and writes for the person whose code it is. Whatever the code makes of its files, nothing
outside /workspace comes out or is written to, nothing waits, and a lie costs no more than its own sandbox."""

import base64
import json
import os
import time
from pathlib import Path

import pytest
from conftest import MB, SECRET, wait_until
from test_protocol import FRAMES, THIS_RUN

REFUSED = "VALIDATION_ERROR"
LINK = "is a link, and links are not followed"
NO_DIRECTORY = "leads through a link or something else that is no directory"
IRREGULAR = "is not a regular file"


def refusal(answer, kind=REFUSED):
    assert answer.get("error", {}).get("type") == kind, answer
    return answer["error"]["message"]


def runs_on(box):
    """The sandbox is as good as before."""
    assert box.tells("tell('good')") == "good"


# ---- what works ----


def test_nothing_there(box):
    done = box.run("1 + 1")
    assert (done["body"]["files"], done["body"]["files_truncated"]) == ([], False)


def test_run_tells_its_files(box):
    before = time.time() * 1000
    done = box.run("""
os.makedirs("out/deep")
open("out/report.csv", "w").write("a,b\\n1,2\\n")
open("out/deep/ü.txt", "w").write("x" * 5)
open("b.bin", "wb").write(bytes(range(256)))
open("/tmp/elsewhere", "w").write("not in /workspace")
os.mkdir("empty")""")
    files = done["body"]["files"]
    assert [(f["path"], f["size"]) for f in files] == [("b.bin", 256), ("out/deep/ü.txt", 5), ("out/report.csv", 8)]
    assert all(before - 2000 < f["modified"] < time.time() * 1000 + 2000 for f in files)
    assert done["body"]["files_truncated"] is False
    assert box.files() == ({f["path"]: f["size"] for f in files}, True)
    assert box.read_file("b.bin") == bytes(range(256))
    assert box.read_file("/workspace/out/deep/ü.txt") == b"xxxxx"
    assert box.read_file("./out/report.csv") == b"a,b\n1,2\n"


def test_code_that_fails_keeps_its_files(box):
    done = box.run("open('a', 'w').write('1'); 1 / 0")
    assert done["verdict"] == "error" and [f["path"] for f in done["body"]["files"]] == ["a"]
    done = box.run("open('b', 'w').write('1')\nwhile True: pass", timeout_ms=300)
    assert done["verdict"] == "timeout" and not done["state_lost"] and [f["path"] for f in done["body"]["files"]] == ["a", "b"]


def test_large_file_in_pieces(box):
    assert box.run("data = os.urandom((2 << 20) + 7)\nopen('big', 'wb').write(data)")["verdict"] == "ok"
    first = box.read_piece("big", max_bytes=50 * MB)
    assert len(base64.b64decode(first["data"])) == MB and first["size"] == 2 * MB + 7 and first["end"] is False
    data = box.read_file("big", piece=300_001)
    assert len(data) == 2 * MB + 7
    assert box.write_file("copy", data[:MB]) == {"ok": True}
    assert box.write_file("copy", data[MB:2 * MB], append=True) == {"ok": True}
    assert box.write_file("copy", data[2 * MB:], append=True) == {"ok": True}
    assert box.tells("tell(open('copy', 'rb').read() == data)") is True


def test_ends_of_a_file(box):
    box.run("open('f', 'wb').write(b'0123456789'); open('empty', 'w')")
    assert box.read_piece("f", offset=10) == {"data": "", "size": 10, "end": True}
    assert box.read_piece("f", offset=1 << 62) == {"data": "", "size": 10, "end": True}
    assert box.read_piece("f", offset=3, max_bytes=4) == {"data": base64.b64encode(b"3456").decode(), "size": 10, "end": False}
    assert box.read_piece("f", offset=3, max_bytes=7)["end"] is True
    assert box.read_piece("empty") == {"data": "", "size": 0, "end": True}
    assert refusal(box.read_piece("f", offset=-1)) == refusal(box.read_piece("f", max_bytes=0))


def test_written_file_is_ordinary(box):
    assert box.write_file("in/dir/a.txt", "grüße".encode()) == {"ok": True}
    assert box.tells("tell([open('/workspace/in/dir/a.txt').read(), oct(os.stat('in/dir/a.txt').st_mode), "
                     "oct(os.stat('in').st_mode)])") == ["grüße", "0o100644", "0o40755"]
    assert box.write_file("in/dir/a.txt", b"new") == {"ok": True}
    assert box.read_file("in/dir/a.txt") == b"new"
    assert box.write_file("in/dir/a.txt", b"er", append=True) == {"ok": True}
    assert box.read_file("in/dir/a.txt") == b"newer"
    assert box.write_file("nothing", b"") == {"ok": True} and box.read_file("nothing") == b""
    # A mask that would hide what is made.
    box.run("os.umask(0o777)")
    assert box.write_file("masked/file", b"x") == {"ok": True} and box.read_file("masked/file") == b"x"
    assert box.tells("tell(os.umask(0o777))") == 0o777


def test_before_any_run(make_box, orders):
    """What loading left out is still told with the first run."""
    path = orders[0]["path"].replace("orders", "ragged")
    with open(path, "w") as f:
        f.write("a,b\n" + "1,2\n" * 50 + "1,2,3\n" + "1,2\n")
    os.chmod(path, 0o644)
    box = make_box(files=[{"name": "ragged.csv", "path": path, "table": "ragged"}], kind="sql")
    assert box.write_file("a", b"x") == {"ok": True}
    done = box.run("SELECT count(*) FROM ragged")
    assert done["body"]["rejects"][0]["file"] == "ragged.csv"
    assert "files" not in done["body"] and box.files() == ({"a": 1}, True)


def test_not_while_a_run_is_under_way(box, driver):
    driver.call(op="begin", sandbox=box.number, kind="python", policy="open", code="time.sleep(0.3)")
    for answer in (box.read_piece("a"), box.write_file("a", b"x"), driver.call(op="list_files", sandbox=box.number)):
        assert refusal(answer, "CONFLICT") == "this sandbox is busy with another run"
    assert driver.call(op="wait", sandbox=box.number)["verdict"] == "ok"
    assert refusal(box.read_piece("a"), "NOT_FOUND") == "there is no 'a' in /workspace"


def test_dead_kernel(box):
    assert box.run("os.kill(1, 9); os._exit(3)")["state_lost"] is True
    assert refusal(box.read_piece("a"), "UNAVAILABLE") == "the kernel of this sandbox is gone"


# ---- raw files ----


def test_raw_files(make_box, orders, shared_dir):
    raw = {"Übersicht 2024 (final).docx": b"\x00\x01\xff binary", "empty": b"", "x" * 255: b"long", ".hidden": b"h", "a\nb": b"n"}
    files = list(orders)
    for i, (name, data) in enumerate(raw.items()):
        path = shared_dir / f"raw-{i}"
        path.write_bytes(data)
        path.chmod(0o644)
        files.append({"name": name, "path": str(path), "raw": True})
    box = make_box(files=files)
    said = box.tells("""tell([{n: list(open("/data/" + n, "rb").read()) for n in os.listdir("/data") if n not in ("outputs", "orders.csv")},
        sorted(dfs), len(orders), attempt(open, "/data/empty", "w"), sql("SHOW TABLES").iloc[:, 0].tolist()])""")
    assert said[0] == {name: list(data) for name, data in raw.items()}
    assert said[1:3] == [["orders"], 3] and said[3]["errno"] == "EROFS" and said[4] == ["orders"]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/etc", "../up", ".tables", "x" * 256])
def test_raw_file_of_a_bad_name(driver, orders, name):
    answer = driver.call(op="create", kind="python", files=[{"name": name, "path": orders[0]["path"], "raw": True}])
    assert refusal(answer).endswith("cannot be the name of a file in /data")


def test_raw_files_that_are_none(driver, orders, shared_dir):
    def create(path, name="x", files=()):
        return driver.call(op="create", kind="python", files=[*files, {"name": name, "path": str(path), "raw": True}])

    assert refusal(create(shared_dir)) == "'x' is a directory, not a file"
    assert refusal(create(shared_dir / "missing"), "NOT_FOUND").startswith("cannot open 'x'")
    assert refusal(create("/dev/null")) == "'x' is a device or pipe, not a file"
    assert refusal(create(orders[0]["path"], "orders.csv", orders)) == (
        "two files are named 'orders.csv': give one of them another name")


# ---- paths that lead elsewhere ----


@pytest.mark.parametrize("path", ["", ".", "..", "/", "/etc/passwd", "/workspace", "/workspace/", "/workspace/../etc/passwd", "../tmp/x",
                                  "a/../../b", "a/..", "a//b", "a/", "/tmp/x", "/workspacex/a", "//workspace/a", "a\nb", "a\x7f", "x" * 256,
                                  "a/b/c/d/e/f/g/h/i", "/".join(["y" * 200] * 3), "/proc/self/environ", "/data/orders.csv"])
def test_path_that_is_none(box, path):
    box.run("open('/tmp/x', 'w').write('x'); os.mkdir('a')")
    for answer in (box.read_piece(path), box.write_file(path, b"x")):
        assert "is no path of a file in /workspace" in refusal(answer)
    assert box.files() == ({}, True)


PLANTED = {
    "link to a file": ("os.symlink('/etc/passwd', 'x')", "x", f"'x' {LINK}"),
    "link to the jail's own": ("os.symlink('/proc/self/environ', 'x')", "x", f"'x' {LINK}"),
    "link within": ("open('real', 'w').write('r'); os.symlink('real', 'x')", "x", f"'x' {LINK}"),
    "link to nothing": ("os.symlink('/nowhere', 'x')", "x", f"'x' {LINK}"),
    "link to itself": ("os.symlink('x', 'x')", "x", f"'x' {LINK}"),
    "link to a directory": ("os.symlink('/', 'd')", "d/tmp/x", f"'d' {NO_DIRECTORY}"),
    "link to a directory in the middle": ("os.mkdir('a'); os.symlink('/tmp', 'a/d')", "a/d/x", f"'d' {NO_DIRECTORY}"),
    "link of /proc": ("os.symlink('/proc/self/root', 'd')", "d/etc/ld.so.cache", f"'d' {NO_DIRECTORY}"),
    "file as a directory": ("open('f', 'w')", "f/x", f"'f' {NO_DIRECTORY}"),
    "directory": ("os.mkdir('d')", "d", "'d' is a directory"),
    "socket": ("s = socket.socket(socket.AF_UNIX); s.bind('x')", "x", f"'x' {IRREGULAR}"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted(box, name):
    code, path, words = PLANTED[name]
    done = box.run("open('/tmp/x', 'w').write('tmp')\n" + code)
    assert done["verdict"] == "ok", done
    assert path not in {f["path"] for f in done["body"]["files"]}
    begun = time.monotonic()
    assert refusal(box.read_piece(path)) == words
    assert refusal(box.write_file(path, b"written")) == words
    assert refusal(box.write_file(path, b"written", append=True)) == words
    assert time.monotonic() - begun < 5, "an open waited"
    assert box.tells("tell(open('/tmp/x').read())") == "tmp"


def test_what_cannot_be_planted(make_box, orders):
    """Hard links from elsewhere, devices, and FIFOs, whose opening would wait (the unit test of the kernel's side tries them)."""
    box = make_box(files=orders)
    said = box.tells("""
open("/tmp/x", "w").write("x")
tell(attempts({"data": (os.link, "/data/orders.csv", "l"), "tmp": (os.link, "/tmp/x", "l"), "proc": (os.link, "/proc/self/environ", "l"),
               "etc": (os.link, "/etc/ld.so.cache", "l"), "rename": (os.rename, "/tmp/x", "l"), "fifo": (os.mkfifo, "fifo"),
               "device": (os.mknod, "dev", stat.S_IFCHR | 0o666, os.makedev(1, 3))}))""")
    assert {name: attempt["errno"] for name, attempt in said.items()} == {
        "data": "EXDEV", "tmp": "EXDEV", "proc": "EXDEV", "etc": "EXDEV", "rename": "EXDEV", "fifo": "EPERM", "device": "EPERM"}
    assert box.files() == ({}, True)


def test_swapped_between_list_and_read(box):
    assert [f["path"] for f in box.run("open('x', 'w').write('mine')")["body"]["files"]] == ["x"]
    # A process that goes on after the cell: what was listed is a link by now.
    box.run("""
if os.fork() == 0:
    os.symlink("/etc/passwd", "link"); os.rename("link", "x"); open("swapped", "w")
    os._exit(0)
os.wait()""")
    assert refusal(box.read_piece("x")) == f"'x' {LINK}"


def test_swapped_while_it_is_read(box):
    """A process that exchanges a file, a link and a socket under one name as fast as it can, and a directory with a link to one."""
    assert box.run("""
os.mkdir("/tmp/d"); open("/tmp/d/f", "w").write("outside"); open("/tmp/x", "w").write("outside")
if os.fork() == 0:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.mkdir("real"); open("real/f", "w").write("inside")
    while True:
        open("new", "w").write("inside"); os.rename("new", "x")
        os.symlink("/tmp/x", "link"); os.rename("link", "x")
        s = socket.socket(socket.AF_UNIX); s.bind("sock"); os.rename("sock", "x"); s.close()
        os.rename("real", "d"); os.rename("d", "real")
        os.symlink("/tmp/d", "d"); os.unlink("d")
""")["verdict"] == "ok"
    seen, begun = set(), time.monotonic()
    while time.monotonic() - begun < 2:
        for path in ("x", "d/f"):
            answer = box.read_piece(path)
            seen.add(base64.b64decode(answer["data"]) if "data" in answer else answer["error"]["type"])
        box.write_file("x", b"from riddle")
        box.write_file("d/f", b"from riddle")
        box.files()
    assert b"outside" not in seen and seen & {b"inside", b"", b"from riddle"} and REFUSED in seen, seen
    assert box.tells("tell([open('/tmp/d/f').read(), open('/tmp/x').read()])") == ["outside", "outside"]
    assert seen <= {b"inside", b"", b"from riddle", b"from riddle"[:6], REFUSED, "NOT_FOUND"}, seen


# ---- too much ----


def test_ten_thousand_files(make_box):
    box = make_box(inodes=20000)
    done = box.run("for i in range(10000): open(f'f{i:05}', 'w')", timeout_ms=30000)
    files = [f["path"] for f in done["body"]["files"]]
    assert len(files) == 200 == len(set(files)) and files == sorted(files) and done["body"]["files_truncated"] is True
    done = box.run("1")
    assert done["us"] < 1_000_000 and len(done["body"]["files"]) == 200


@pytest.mark.parametrize("code", ["for i in range(10000): os.symlink('/etc/passwd', f'l{i}')", "for i in range(10000): os.mkdir(f'd{i}')"],
                         ids=["links", "directories"])
def test_ten_thousand_of_something_else(make_box, code):
    box = make_box(inodes=20000)
    done = box.run(code, timeout_ms=30000)
    assert (done["body"]["files"], done["body"]["files_truncated"]) == ([], True)
    assert box.run("1")["us"] < 1_000_000


def test_exactly_as_many_as_are_listed(box):
    done = box.run("for i in range(200): open(f'f{i}', 'w')\nos.symlink('f1', 'l'); os.mkdir('d')")
    assert (len(done["body"]["files"]), done["body"]["files_truncated"]) == (200, False)
    done = box.run("open('d/one more', 'w')")
    assert (len(done["body"]["files"]), done["body"]["files_truncated"]) == (200, True)


def test_deep_tree(box):
    done = box.run("""
at = "."
for depth in range(1, 1000):
    os.mkdir("d"); os.chdir("d")
    if depth in (7, 8): open("f", "w")
os.chdir("/workspace")""")
    assert [f["path"] for f in done["body"]["files"]] == ["d/d/d/d/d/d/d/f"] and done["body"]["files_truncated"] is True
    assert box.read_file("d/d/d/d/d/d/d/f") == b""
    assert "is no path" in refusal(box.read_piece("d/d/d/d/d/d/d/d/f"))


def test_names_that_are_not_told(box):
    done = box.run("""
for name in (b"new\\nline", b"\\xff\\xfe", b"tab\\t", b"del\\x7f", b"esc\\x1b[2J", b"cr\\rlf"):
    open(b"/workspace/" + name, "w")
os.makedirs("a" * 250 + "/" + "b" * 250)
open("a" * 250 + "/" + "b" * 250 + "/" + "c" * 10, "w")   # 512 bytes
open("a" * 250 + "/" + "b" * 250 + "/" + "d" * 11, "w")   # one more
open("plain", "w")""")
    assert done["verdict"] == "ok", done
    assert [f["path"] for f in done["body"]["files"]] == ["/".join(["a" * 250, "b" * 250, "c" * 10]), "plain"]
    assert done["body"]["files_truncated"] is True


def test_unreadable_files(box):
    done = box.run("open('x', 'w').write('1'); os.chmod('x', 0); os.mkdir('d'); open('d/f', 'w'); os.chmod('d', 0)")
    assert ([f["path"] for f in done["body"]["files"]], done["body"]["files_truncated"]) == (["x"], True)
    assert refusal(box.read_piece("x")) == "opening 'x': Permission denied"
    done = box.run("os.chmod('/workspace', 0)")
    assert (done["body"]["files"], done["body"]["files_truncated"]) == ([], True)
    assert refusal(box.read_piece("x"), "IO_ERROR") == "opening /workspace: Permission denied"
    runs_on(box)


def test_no_descriptor_left(box):
    done = box.run("open('x', 'w').write('1')\nkeep = []\nwhile True:\n    try: keep.append(os.open('/dev/null', 0))\n    except OSError: break")
    assert (done["body"]["files"], done["body"]["files_truncated"]) == ([], True)
    assert refusal(box.read_piece("x"), "IO_ERROR") == "opening /workspace: Too many open files"
    box.run("os.closerange(4, 5000)")
    assert box.read_file("x") == b"1"


def test_huge_sparse_file(make_box):
    box = make_box(file_bytes=1 << 40)
    assert box.run("f = open('x', 'wb'); f.truncate(1 << 39)")["body"]["files"][0]["size"] == 1 << 39
    answer = box.read_piece("x", offset=(1 << 39) - 5)
    assert base64.b64decode(answer["data"]) == bytes(5) and answer["end"] is True


# ---- no room ----


def test_full_workspace(make_box):
    box = make_box(workspace_bytes=2 * MB)
    assert box.write_file("a", bytes(MB)) == {"ok": True}
    assert box.write_file("b", bytes(MB - 8192)) == {"ok": True}
    words = "no room for '{}': /workspace holds at most 2097152 bytes (RIDDLE_WORKSPACE_SIZE)"
    assert refusal(box.write_file("c", bytes(MB)), "TOO_LARGE") == words.format("c")
    assert refusal(box.write_file("a", bytes(MB), append=True), "TOO_LARGE") == words.format("a")
    assert box.files() == ({"a": MB, "b": MB - 8192}, True)
    assert box.write_file("c", b"small") == {"ok": True}
    runs_on(box)


def test_no_file_left(make_box):
    box = make_box(inodes=64)
    box.run("for i in range(100):\n    try: open(f'f{i}', 'w')\n    except OSError: break")
    words = "no room for 'new': /workspace holds at most 64 files and directories (RIDDLE_INODES)"
    assert refusal(box.write_file("new", b"x"), "TOO_LARGE") == words
    assert refusal(box.write_file("new/x", b"x"), "TOO_LARGE") == words
    runs_on(box)


def test_file_too_large(make_box):
    box = make_box(file_bytes=MB)
    assert box.write_file("a", bytes(MB)) == {"ok": True}
    assert refusal(box.write_file("a", b"x", append=True), "TOO_LARGE") == (
        "'a' would be larger than a file may be: 1048576 bytes (RIDDLE_FILE_SIZE)")
    assert box.files() == ({"a": MB}, True)
    assert refusal(box.write_file("b", bytes(MB + 1)), "TOO_LARGE") == (
        "a piece of 1048577 bytes; a file is written in pieces of at most 1048576")


# ---- a kernel that lies ----


FILE = {"path": "a", "size": 1, "modified": 1}
LIES = {
    "no list": "files={}",
    "no objects": "files=['a']",
    "path above": f"files=[{ {**FILE, 'path': '../a'} }]",
    "path of the host": f"files=[{ {**FILE, 'path': '/etc/passwd'} }]",
    "path with a line break": f"files=[{ {**FILE, 'path': 'a' + chr(10) + 'b'} }]",
    "no path": f"files=[{ {**FILE, 'path': 5} }]",
    "empty path": f"files=[{ {**FILE, 'path': ''} }]",
    "long path": f"files=[dict({FILE}, path='/'.join(['x' * 200] * 3))]",
    "size below zero": f"files=[{ {**FILE, 'size': -1} }]",
    "size of text": f"files=[{ {**FILE, 'size': '1'} }]",
    "time of text": f"files=[{ {**FILE, 'modified': 'x'} }]",
    "a member more": f"files=[{ {**FILE, 'x': 1} }]",
    "twice": f"files=[{FILE}, {FILE}]",
    "not sorted": f"files=[{ {**FILE, 'path': 'b'} }, {FILE}]",
    "too many": f"files=[dict({FILE}, path=f'f{{i:04}}') for i in range(201)]",
    "truncated by a word": "files=[], files_truncated='yes'",
}


@pytest.mark.parametrize("name", LIES)
def test_lie_about_files(make_box, name):
    box = make_box()
    box.run(FRAMES)
    done = box.run(f"say(result({THIS_RUN}, {LIES[name]}))\ntime.sleep(100)", timeout_ms=20000)
    assert (done["verdict"], done["state_lost"]) == ("killed", True), done
    assert done["body"]["error"]["message"].startswith("the kernel broke the protocol ("), done


def broke(words):
    return f"the kernel broke the protocol ({words}) and was ended; its variables are lost"


AT_ODDS = broke("the members of 'piece' do not agree")
WRONG = broke("'piece': '{}' of 'piece' is of the wrong type or out of range")
ANSWERS = {  # bytes, the answer behind them, and what becomes of it
    "no count": (b"A", {"verdict": "ok", "size": 1}, "UNAVAILABLE", AT_ODDS),
    "no size": (b"A", {"verdict": "ok", "bytes": 1}, "UNAVAILABLE", AT_ODDS),
    "size below zero": (b"A", {"verdict": "ok", "size": -5, "bytes": 1}, "UNAVAILABLE", WRONG.format("size")),
    "fewer than it says": (b"A", {"verdict": "ok", "size": 9, "bytes": 2}, "UNAVAILABLE", AT_ODDS),
    "more than it says": (b"AB", {"verdict": "ok", "size": 9, "bytes": 1}, "UNAVAILABLE", AT_ODDS),
    "none": (None, {"verdict": "ok", "size": 9, "bytes": 1}, "UNAVAILABLE", AT_ODDS),
    "more than asked for": (b"AAAA", {"verdict": "ok", "size": 1 << 40, "bytes": 4}, "UNAVAILABLE", AT_ODDS),
    "far more than asked for": (b"A" * (32 << 20), {"verdict": "ok", "size": 1 << 40, "bytes": 32 << 20}, "UNAVAILABLE",
                                broke("the kernel sent something that is no message")),
    "code of riddle's": (b"A", {"verdict": "error", "error": {"type": "FORBIDDEN", "message": "a\nb\x1b[2J"}}, "IO_ERROR", "a?b?[2J"),
    "no reason": (None, {"verdict": "error"}, "UNAVAILABLE", AT_ODDS),
    "another verdict": (None, {"verdict": "policy", "error": {"type": "x", "message": "m"}}, "CANCELLED", "m"),
}
STUBBORN = {"verdict": "ok", "size": 1 << 60, "bytes": 0}


def lying_box(make_box, data, answer):
    """A kernel whose code has ended its run for riddle, and answers the next requests itself."""
    box = make_box()
    assert box.run(FRAMES + f"""
ANSWER = json.loads({json.dumps(json.dumps(answer))})
DATA = {'None' if data is None else f"{data[:1]!r} * {len(data)}"}
def lie():
    while True:
        length, number, _ = struct.unpack("<III", os.read(3, 12))
        while length: length -= len(os.read(3, length))
        say((b"" if DATA is None else frame("bytes", DATA, number)) + frame("piece", dict(ANSWER, exec_time_ms=1), number))
say(result(2))
signal.signal(signal.SIGINT, signal.SIG_IGN)
lie()""")["verdict"] == "ok"
    return box


@pytest.mark.parametrize("name", ANSWERS)
def test_lie_about_a_file(make_box, driver, name):
    data, answer, kind, words = ANSWERS[name]
    box = lying_box(make_box, data, answer)
    assert refusal(box.read_piece("a", max_bytes=3), kind) == words
    assert driver.alive()


def test_lie_that_would_never_end(make_box):
    """A file that is said to go on and brings nothing is at its end."""
    box = lying_box(make_box, None, STUBBORN)
    assert box.read_piece("a") == {"data": "", "size": 1 << 60, "end": True}


def test_bytes_that_nobody_asked_for(make_box):
    """In a run they are dropped; in front of the true ones they are not taken for them."""
    box = make_box()
    box.run(FRAMES)
    done = box.run("open('a', 'w').write('true')\nfor number in range(9): say(frame('bytes', b'forged', number) + frame('bytes', b'', number) + frame('bytes', bytes(1 << 20), number))")
    assert done["verdict"] == "ok"
    assert box.run("if os.fork() == 0:\n    time.sleep(0.1)\n    for number in range(9): say(frame('bytes', b'forged', number))\n    os._exit(0)")["verdict"] == "ok"
    assert wait_until(lambda: children_ended(box.pid))
    assert box.read_file("a") == b"true"


def children_ended(pid):
    """Whether no child of the process runs any more; nobody need have waited for it."""
    states = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        try:
            states.append(Path(f"/proc/{child}/stat").read_text().rsplit(")", 1)[1].split()[0])
        except FileNotFoundError:
            pass
    return set(states) <= {"Z", "X", "T"}  # T: an idle kernel without a control group is held still


def test_kernel_that_does_not_answer(make_box):
    box = make_box()
    box.run(FRAMES)
    assert box.run(f"say(result({THIS_RUN}))\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass")["verdict"] == "ok"
    begun = time.monotonic()
    assert refusal(box.read_piece("a"), "TIMEOUT") == "the kernel did not answer within 10 s; its variables are lost"
    assert time.monotonic() - begun < 15
    assert refusal(box.read_piece("a"), "UNAVAILABLE") == "the kernel of this sandbox is gone"


def test_secret_of_the_server(box):
    """No path and no link brings out what only riddle knows."""
    box.run("os.symlink('/proc/1/environ', 'a'); os.symlink('/proc/self/mem', 'b'); os.symlink('/proc/1/root', 'c')")
    said = json.dumps([box.read_piece(p) for p in ("a", "b", "c/proc/1/environ", "/proc/1/environ", "c/../../proc/1/environ")])
    assert SECRET not in said and said.count('"error"') == 5
