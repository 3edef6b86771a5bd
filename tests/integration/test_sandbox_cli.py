"""`riddle sandbox`, `riddle threads` and `riddle thread`: clients of a running server."""

import io
import json
import os
import re
import socket
import subprocess
import tarfile

import pytest

from api import QUICK
from server import RIDDLE, Server
from test_chat import KEYS
from test_files import PETS, give, listed

pytestmark = pytest.mark.plain

ANN, BEN = "ann-key-0123456789", "ben-key-0123456789"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("cli"), **QUICK, **KEYS) as s:
        s.key = ANN
        yield s


@pytest.fixture
def riddle(server, tmp_path):
    """A function that runs the program in an empty directory: (exit status, standard output, standard error)."""
    def run(*words, stdin=b"", **settings):
        env = {k: v for k, v in os.environ.items() if not k.startswith("RIDDLE_")}
        env.update({"RIDDLE_HOME": str(tmp_path / "home"), "PORT": str(server.port), "RIDDLE_API_KEY": ANN, **settings})
        done = subprocess.run([RIDDLE, *map(str, words)], input=stdin, cwd=tmp_path, env=env, capture_output=True, timeout=120)
        return done.returncode, done.stdout.decode(), done.stderr.decode()
    return run


def sandbox_of(riddle, *words):
    status, out, err = riddle("sandbox", "create", *words)
    assert status == 0 and err == "" and out.count("\n") == 1, (out, err)
    return out.strip()


def test_code_runs_and_variables_stay(server, riddle, tmp_path):
    sandbox = sandbox_of(riddle, "--memory", "128", "--timeout", "20")
    config = server.get(f"/sandbox/{sandbox}/status").json["data"]["config"]
    assert (config["max_memory_mb"], config["max_execution_time"]) == (128, 20)

    assert riddle("sandbox", "exec", sandbox, "x = 20\nprint('said')\nx + 1") == (0, "said\n21\n", "")
    assert riddle("sandbox", "exec", sandbox, "-", stdin="f'{x}ä'".encode()) == (0, "20ä\n", "")
    (tmp_path / "code.py").write_text("{'a': [x, None]}")
    assert riddle("sandbox", "exec", sandbox, "--file", "code.py") == (0, '{"a":[20,null]}\n', "")
    status, out, err = riddle("sandbox", "exec", sandbox, "print('before')\n1 / 0")
    assert (status, out) == (1, "before\n") and "ZeroDivisionError: division by zero (line 2)" in err
    status, out, err = riddle("sandbox", "exec", "--json", "--timeout", "1", sandbox, "while True: pass")
    assert status == 1 and json.loads(out)["error"] == "Execution timeout after 1 seconds"
    assert riddle("sandbox", "exec", "--quick", "--memory", "64", "6 * 7") == (0, "42\n", "")
    status, out, err = riddle("sandbox", "exec", "--quick", "x")
    assert (status, out) == (1, "") and "name 'x' is not defined" in err

    assert riddle("sandbox", "rm", sandbox) == (0, "", "")
    gone = f"riddle: the server answers 404: Sandbox not found: {sandbox}\n"
    assert riddle("sandbox", "exec", sandbox, "1") == (1, "", gone) and riddle("sandbox", "rm", sandbox) == (1, "", gone)


def test_sandboxes_are_listed(server, riddle):
    server.post("/sandbox/cleanup-all", {})
    assert riddle("sandbox", "list") == (0, "", "riddle: there are no sandboxes; 'riddle sandbox create' makes one\n")
    unused, used = sandbox_of(riddle), sandbox_of(riddle)
    riddle("sandbox", "exec", used, "1")
    status, out, err = riddle("sandbox", "list")
    lines = out.splitlines()[-2:]
    assert (status, err) == (0, "") and lines[0].startswith(used) and " hot " in lines[0] and lines[1].startswith(unused), out
    shown = json.loads(riddle("sandbox", "list", "--json")[1])
    assert [s["sandbox_id"] for s in shown["sandboxes"]] == [used, unused] and shown["next"] is None
    page = server.get("/sandbox?limit=1").json
    assert page["sandboxes"][0]["sandbox_id"] == used and page["sandboxes"][0]["running"] is False
    assert [s["sandbox_id"] for s in server.get(f"/sandbox?limit=1&cursor={page['next']}").json["sandboxes"]] == [unused]
    assert server.get("/sandbox", key=BEN).json["sandboxes"] == []
    riddle("sandbox", "rm", used, unused)


def test_refusals_say_what_helps(riddle):
    status, _, err = riddle("sandbox", "exec", "--quick", "open('x')")
    assert status == 1 and err == ("riddle: Execution error: Blocked call: open (line 1)\n"
                                   "riddle: code of a sandbox is restricted unless it was made with --policy open\n")
    assert riddle("sandbox", "exec", "1 + 1") == (
        2, "", "riddle: 'sandbox exec' takes the ID of a sandbox and CODE, '-' or --file FILE; --quick needs no ID\n")


def test_files_go_in_and_out(riddle, tmp_path):
    sandbox = sandbox_of(riddle, "--policy", "open")
    (tmp_path / "in.bin").write_bytes(bytes(range(256)) * 8192)
    (tmp_path / "empty").touch()
    assert riddle("sandbox", "files", sandbox, "put", "in.bin") == (0, "", "")
    assert riddle("sandbox", "files", sandbox, "put", "empty", "deep/ä b?.txt") == (0, "", "")
    assert riddle("sandbox", "files", sandbox, "put", "-", "typed", stdin=b"hello") == (0, "", "")
    assert riddle("sandbox", "exec", sandbox, "open('in.bin', 'rb').read() == bytes(range(256)) * 8192") == (0, "true\n", "")
    status, out, err = riddle("sandbox", "files", sandbox)
    assert status == 0 and "deep/ä b?.txt" in out and "typed" in out and re.search(r"2097152  20\d\d-\d\d-\d\dT", out), (out, err)
    listed = json.loads(riddle("sandbox", "files", "--json", sandbox)[1])["files"]
    assert {f["path"]: f["size"] for f in listed} == {"in.bin": 2097152, "deep/ä b?.txt": 0, "typed": 5}

    assert riddle("sandbox", "files", sandbox, "get", "typed", "-") == (0, "hello", "")
    assert riddle("sandbox", "files", sandbox, "get", "deep/ä b?.txt") == (0, "", "") and (tmp_path / "ä b?.txt").read_bytes() == b""
    status, _, err = riddle("sandbox", "files", sandbox, "get", "in.bin")
    assert status == 1 and "'in.bin' is there already; --force replaces it" in err
    (tmp_path / "in.bin").write_text("old")
    assert riddle("sandbox", "files", sandbox, "get", "--force", "in.bin") == (0, "", "")
    assert (tmp_path / "in.bin").read_bytes() == bytes(range(256)) * 8192
    status, _, err = riddle("sandbox", "files", sandbox, "get", "nothing")
    assert status == 1 and "404" in err and not (tmp_path / "nothing").exists()
    status, _, err = riddle("sandbox", "files", sandbox, "get", "../status", "-")
    assert status == 1 and "../status" in err
    assert riddle("sandbox", "rm", sandbox)[0] == 0


def test_threads_are_listed_moved_and_removed(server, riddle):
    first, second = (server.post("/thread/new", {"datasets": [], "title": t}).json["thread_id"] for t in ("Sales of May", "Staff & pay"))
    assert server.post(f"/thread/{first}/execute", {"language": "python", "code": "x = 1"}).status == 200

    status, out, err = riddle("threads", "--json")
    listed = {t["thread_id"]: t for t in map(json.loads, out.splitlines())}
    assert status == 0 and set(listed) == {first, second} and listed[first]["sandbox_status"] == "hot", (out, err)
    status, out, _ = riddle("threads", "--search", "& pay")
    assert status == 0 and second in out and "Staff & pay" in out and first not in out
    assert [w in out for w in ("id", "title", "state", "bytes", "messages", "age")] == [True] * 6
    assert riddle("threads", "--json", RIDDLE_API_KEY=BEN) == (0, "", "")
    assert riddle("threads", "--json", RIDDLE_API_KEY="", **KEYS)[1] != "", "the first of RIDDLE_API_KEYS is ann's"

    status, out, err = riddle("thread", "freeze", first)
    assert status == 0 and out.startswith(f"{first}: warm (hot→warm, "), (out, err)
    status, out, err = riddle("thread", "wake", first)
    assert status == 0 and out.startswith(f"{first}: hot (warm→hot, "), (out, err)
    if "asan" not in str(RIDDLE):  # a sanitizer's own memory is no part of an image
        status, out, err = riddle("thread", "cool", first)
        assert status == 0 and out.startswith(f"{first}: cold (hot→cold, ") and "an image of " in out, (out, err)
        size = server.get(f"/thread/{first}/status").json["sandbox"]["bytes"]
        assert {t.get("bytes") for t in map(json.loads, riddle("threads", "--json")[1].splitlines())} == {size, None}
        assert server.post(f"/thread/{first}/execute", {"language": "python", "code": "x"}).json["result"]["rows"] == [[1]]
        timer = "import threading\nt = threading.Timer(600, print)\nt.daemon = True\nt.start()"
        server.post(f"/thread/{second}/execute", {"language": "python", "code": timer})
        status, out, err = riddle("thread", "cool", second)
        assert (status, out) == (1, "") and f"riddle: {second}: it stays hot: " in err and "1 threads" in err, (out, err)

    status, out, err = riddle("thread", "rm", first, "none", second)
    assert (status, out) == (1, f"{first}: removed\n{second}: removed\n")
    assert err == "riddle: none: the server answers 404: Thread not found\n"
    assert riddle("threads", "--json") == (0, "", "")


@pytest.mark.skipif("asan" in str(RIDDLE), reason="a sanitizer's own memory is no part of an image")
def test_branches_and_checkpoints(server, riddle):
    for kind, first in (("sandbox", sandbox_of(riddle)), ("thread", server.post("/thread/new", {"datasets": []}).json["thread_id"])):
        def value(branch, code):
            answer = server.post(f"/{kind}/{branch}/execute", {"code": code}).json
            assert "state_lost" not in answer or not answer["state_lost"], answer
            return answer["result"] if kind == "sandbox" else answer["result"]["rows"][0][0]

        assert value(first, "x = [1]\nlen(x)") == 1
        status, out, err = riddle(kind, "checkpoint", "--name", "one ä", first)
        one = out.strip()
        assert status == 0 and err == "", err
        status, out, err = riddle(kind, "fork", first)
        other = out.strip()
        assert status == 0 and err == "" and other != first and other.startswith("sandbox-") == (kind == "sandbox"), (out, err)
        assert value(first, "x.append(2)\nlen(x)") == 2 and value(other, "x.append(3)\nx[-1]") == 3
        two = riddle(kind, "checkpoint", first)[1].strip()
        status, out, _ = riddle(kind, "checkpoints", first)
        assert status == 0 and out.index(one) < out.index("one ä") < out.index(two), out
        assert value(first, "x.clear()\nlen(x)") == 0
        assert riddle(kind, "rollback", first) == (0, f"{first}: back at {two}\n", "") and value(first, "len(x)") == 2
        assert riddle(kind, "rollback", first, one) == (0, f"{first}: back at {one} one ä\n", "") and value(first, "len(x)") == 1
        for words, said in ((("rollback", other), "it has no checkpoint"), (("rollback", first, "none"), "404: Checkpoint not found"), (("fork", "none"), "ot found")):
            status, out, err = riddle(kind, *words)
            assert (status, out) == (1, "") and said in err, err
        server.delete(f"/{kind}/{first}")
        server.delete(f"/{kind}/{other}")
    thread = server.post("/thread/new", {"datasets": []}).json["thread_id"]
    assert riddle("sandbox", "fork", thread)[2] == f"riddle: {thread}: the server answers 404: Sandbox not found: {thread}\n"


def test_threads_go_to_files_and_back(server, riddle, tmp_path):
    images = "asan" not in str(RIDDLE)  # a sanitizer's own memory is no part of an image
    thread = server.post("/thread/new", {"datasets": [], "title": "Pets ä"}).json["thread_id"]
    give(server, thread, ("pets.csv", PETS), ("note.txt", "kept"))
    messages = [{"role": ("user", "assistant")[i % 2], "content": f"message {i} ä"} for i in range(20)]
    for some in (messages[:16], messages[16:]):
        assert server.post(f"/thread/{thread}/messages", {"messages": some}).status == 200
    code = "numbers = (n for n in range(9))\nfirst = next(numbers)\nlen(sql('SELECT * FROM pets'))"
    assert server.post(f"/thread/{thread}/execute", {"code": code}).json["result"]["rows"] == [[3]]
    status, out, err = riddle("thread", "export", thread, "pets.riddle")
    assert status == 0 and out.startswith(f"{thread}: 20 messages, 2 files, ") and ("variables in " in out) == images, (out, err)
    assert ("another server will not have: numbers (generator" in err) == images and err, err
    status, out, err = riddle("thread", "export", thread, "pets.riddle")
    assert (status, out) == (1, "") and "is there already; --force replaces it" in err
    with tarfile.open(tmp_path / "pets.riddle") as archive:
        assert archive.getnames() == ["thread.json", "files/0", "files/1"] + ["image"] * images

    for key in (ANN, BEN):  # a colleague, too
        status, out, err = riddle("thread", "import", "pets.riddle", RIDDLE_API_KEY=key)
        copy = out.strip()
        assert status == 0 and copy != thread and (err == "") == images, (out, err)
        about = server.get(f"/thread/{copy}/status", key=key).json
        assert about["title"] == "Pets ä" and about["message_count"] == 20 and about["sandbox"]["has_variables"] == images
        got = server.get(f"/threads/{copy}/messages", key=key).json["messages"]
        assert [{"role": m["role"], "content": m["content"]} for m in got] == messages
        assert sorted(f["path"] for f in listed(server, copy, key=key)["files"]) == ["/data/note.txt", "/data/pets.csv"]
        answer = server.post(f"/thread/{copy}/execute", {"code": "next(numbers)" if images else "1"}, key=key).json
        assert answer["result"]["rows"] == [[1]] and not answer.get("state_lost"), answer
        server.delete(f"/thread/{copy}", key=key)

    # Files of others: whatever is wrong with one, it is told, and no thread is left.
    before = server.get("/threads").json["order"]
    good = (tmp_path / "pets.riddle").read_bytes()

    def tar(*parts):
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for name, content in parts:
                info = tarfile.TarInfo(name)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
        return packed.getvalue()

    def about(**changes):
        return "thread.json", json.dumps({"riddle_thread": 1, "messages": [], "files": [], **changes}).encode()

    for bad, said in ((b"", "no file of a thread"), (good[:100], "no file of a thread"), (good[:2000], "no file of a thread"), (b"x" * 5000, "no file of a thread"),
                      (tar(("../../etc/passwd", b"x")), "no file of a thread"), (tar(("thread.json", b"[]")), "no file of a thread"),
                      (tar(about(riddle_thread=2)), "another version"), (tar(about(files=[{"name": "a"}] * 65)), "more than 64 files"),
                      (tar(about(files=[{"name": "../up.csv"}]), ("files/0", b"x")), "no file of a thread"),
                      (tar(about(files=[{"name": 'a"\r\n.csv'}]), ("files/0", b"x")), "no file of a thread"),
                      (tar(about(files=[{"name": "a.csv"}]), ("files/1", b"x")), "no file of a thread"),
                      (tar(about(messages=[{"role": "system", "content": "x"}])), "422")):
        (tmp_path / "bad.riddle").write_bytes(bad)
        status, out, err = riddle("thread", "import", "bad.riddle")
        assert (status, out) == (1, "") and said in err, (bad[:200], err)
        assert server.get("/threads").json["order"] == before
    # An image that is none, of other data, or of another server: the thread is there without variables.
    for image, data, said in ((b"x" * 5000, None, "damaged" if images else "variables"), (b"", None, "variables"), (good[-5000:], "other", "other data")):
        version = server.post(f"/thread/{server.post('/thread/new', {'datasets': []}).json['thread_id']}/export", {}).json["data"]
        (tmp_path / "odd.riddle").write_bytes(tar(about(datasets=[], data=data or version, image_bytes=5), ("image", image)))
        status, out, err = riddle("thread", "import", "odd.riddle")
        assert status == 0 and "variables are not in the new thread" in err and said in err, err
        assert server.post(f"/thread/{out.strip()}/execute", {"code": "6 * 7"}).json["result"]["rows"] == [[42]]
    assert not [p for p in (server.home / "images").iterdir() if p.name.endswith(".partial")]


def test_wrong_requests_say_what_is_wrong(server, riddle):
    with socket.socket() as free:  # bound, but nobody listens
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        for words in (("threads",), ("thread", "wake", "t"), ("sandbox", "create"), ("bench-stream", "t", "hi")):
            status, _, err = riddle(*words, "--server", url)
            assert status == 1, (words, err)
            assert err.endswith(f"no server answers at {url} ('riddle serve' starts one, --server names another): Connection refused\n"), (words, err)
    status, out, err = riddle("threads", RIDDLE_API_KEY="wrong-key-0123456789")
    assert (status, out) == (1, "") and "401" in err and "RIDDLE_API_KEY" in err and "wrong-key" not in err
    for words, said in (
        (("sandbox", "creat"), "did you mean create"), (("sandbox", "rm", "--quick", "s"), "'sandbox rm' takes no --quick"),
        (("sandbox", "rm", ".."), "'..' is no id of a sandbox"), (("sandbox", "create", "--memory", "much"), "--memory"),
        (("sandbox", "exec", "--policy", "open", "id", "1"), "--policy is for 'create'"), (("sandbox", "exec", "id"), "'sandbox exec' takes the ID of a sandbox"), (("thread", "melt", "t"), "it can freeze, cool, wake, rm, fork, "), (("thread", "fork", "a", "b"), "'thread fork' takes the id of a thread"), (("sandbox", "rollback"), "then a checkpoint"),
        (("sandbox", "fork", "--name", "x", "s"), "takes no --name"), (("thread", "wake", "--name", "x", "t"), "takes no --name"),
        (("threads", "all"), "takes no 'all'"), (("threads", "--server", "ftp://x"), "--server"),
    ):
        status, out, err = riddle(*words)
        assert status == (1 if "ftp://x" in words else 2) and out == "" and said in err, (words, err)
    status, _, err = riddle("sandbox", "create", "--memory", "1")
    assert status == 1 and "the server answers 422: " in err and "max_memory_mb" in err


def test_help_has_the_verbs(riddle):
    status, out, _ = riddle("help")
    assert status == 0
    for verb in ("sandbox", "threads", "thread"):
        assert f"\n  {verb} " in out
        assert riddle("help", verb) == riddle(verb, "--help") and riddle("help", verb)[1].startswith(f"usage: riddle {verb} ")
    assert riddle("help", "nothing")[0] == 2
