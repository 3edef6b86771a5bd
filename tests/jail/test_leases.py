"""Files of a sandbox in the server's event loop (build/tests/tools/lease_driver): nothing waits, and nothing gets into another's hands."""

import base64
import json
import os
import subprocess

import pytest
from conftest import BUILD, MB

DRIVER = BUILD / "tests/tools/lease_driver"


class Leases:
    def __init__(self, home):
        env = {k: v for k, v in os.environ.items() if not k.startswith("RIDDLE_")}
        env.update(RIDDLE_HOME=str(home), RIDDLE_KERNEL=str(BUILD / "riddle-kernel"), RIDDLE_POOL_SIZE="1")
        self.process = subprocess.Popen([str(DRIVER)], cwd=home, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __call__(self, op, **request):
        self.process.stdin.write(json.dumps({"op": op, **request}).encode() + b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def write(self, path, data, **more):
        return self("write", path=path, data=base64.b64encode(data).decode(), **more)

    def close(self):
        self.process.stdin.close()
        try:
            return self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    made = Leases(tmp_path_factory.mktemp("leases"))
    yield made
    assert made.close() == 0, "something was left in the event loop"


@pytest.fixture
def leases(server):
    yield server
    server("release")


def test_files_of_a_lease(leases):
    assert leases("acquire", kind="python") == {"ok": True}
    runs = leases("stats")["runs"]
    data = os.urandom(MB + 1000)
    assert leases.write("in/data.bin", data[:MB]) == {"size": MB}
    assert leases.write("in/data.bin", data[MB:], append=True) == {"size": MB + 1000}
    done = leases("run", kind="python", code="open('copy', 'wb').write(open('in/data.bin', 'rb').read())")
    assert [(f["path"], f["size"]) for f in done["body"]["files"]] == [("copy", MB + 1000), ("in/data.bin", MB + 1000)]
    first = leases("read", path="copy")
    second = leases("read", path="/workspace/copy", offset=MB)
    assert (first["end"], second["end"], first["size"]) == (False, True, MB + 1000)
    assert base64.b64decode(first["data"]) + base64.b64decode(second["data"]) == data
    assert leases("list")["body"]["files"] == done["body"]["files"]
    assert leases("stats")["runs"] == runs + 1  # only what is a run is counted as one


def test_refusals_leave_the_lease_good(leases):
    assert leases("acquire", kind="python") == {"ok": True}
    leases("run", kind="python", code="import os; os.symlink('/etc/passwd', 'l'); os.mkdir('d')")
    for path, kind in (("l", "VALIDATION_ERROR"), ("d", "VALIDATION_ERROR"), ("../x", "VALIDATION_ERROR"), ("/etc/passwd", "VALIDATION_ERROR"),
                       ("none", "NOT_FOUND")):
        assert leases("read", path=path)["error"]["type"] == kind
    assert leases.write("l", b"x")["error"]["type"] == "VALIDATION_ERROR"
    assert leases.write("a", bytes(MB + 1))["error"]["type"] == "TOO_LARGE"
    assert leases("stats")["alive"] is True
    assert leases("run", kind="python", code="1")["verdict"] == "ok"


def test_one_thing_at_a_time(leases):
    assert leases("acquire", kind="python") == {"ok": True}
    assert leases("run", kind="python", code="import time; time.sleep(0.3)", nowait=True) == {"ok": True}
    for answer in (leases("read", path="a", nowait=True), leases.write("a", b"x", nowait=True), leases("list", nowait=True)):
        assert answer["error"] == {"type": "CONFLICT", "message": "this sandbox is busy with another run"}
    assert leases("finish")["verdict"] == "ok"
    assert leases.write("a", b"x", nowait=True) == {"ok": True}
    assert leases("read", path="a", nowait=True)["error"]["type"] == "CONFLICT"
    assert leases("run", kind="python", code="1", nowait=True)["error"]["type"] == "CONFLICT"
    assert leases("finish") == {"size": 1}


def test_interrupt_of_a_piece(leases):
    """It is done or not, and the sandbox goes on."""
    assert leases("acquire", kind="python") == {"ok": True}
    leases("run", kind="python", code="kept = 7")
    assert leases.write("a", bytes(MB), nowait=True) == {"ok": True}
    leases("interrupt")
    assert leases("finish") == {"size": MB}
    assert leases("run", kind="python", code="kept")["body"]["value"]["text"] == "7"


def test_release_in_the_middle(leases):
    assert leases("acquire", kind="python") == {"ok": True}
    assert leases.write("a", bytes(MB), nowait=True) == {"ok": True}
    assert leases("release") == {"ok": True}
    assert leases("acquire", kind="python") == {"ok": True}
    assert leases("read", path="a")["error"]["type"] == "NOT_FOUND"


def test_end_of_the_server_in_the_middle(tmp_path):
    leases = Leases(tmp_path)
    assert leases("acquire", kind="sql") == {"ok": True}
    assert leases.write("a", bytes(MB), nowait=True) == {"ok": True}
    assert leases("destroy")["error"] == {"type": "CANCELLED", "message": "the server is shutting down"}
    assert leases.close() == 0


def test_kernel_that_dies(leases):
    assert leases("acquire", kind="python") == {"ok": True}
    assert leases("run", kind="python", code="import os, threading, time\nif os.fork() == 0:\n    time.sleep(0.2); os.kill(1, 9); os._exit(0)")[
        "verdict"] == "ok"
    leases("run", kind="python", code="import os, ctypes\nctypes.string_at(0)")
    assert leases("stats")["alive"] is False
    assert leases("read", path="a")["error"] == {"type": "UNAVAILABLE", "message": "the kernel of this sandbox is gone"}


def test_written_sandbox_is_not_used_again(leases, orders):
    """A SQL sandbox that was given back may serve the next query of the same owner: not one that holds a file of somebody's."""
    ask = {"kind": "sql", "code": "SELECT count(*) FROM orders"}
    assert leases("acquire", kind="sql", files=orders) == {"ok": True}
    assert leases("run", **ask)["body"]["rows"] == [[3]]
    assert leases("release") and leases("stats")["idle"] == 1
    assert leases("acquire", kind="sql", files=orders) == {"ok": True}
    assert leases.write("secret", b"x") == {"size": 1}
    assert leases("release") and leases("stats")["idle"] == 0
    assert leases("acquire", kind="sql", files=orders) == {"ok": True}
    assert leases("list")["body"]["files"] == []


def test_raw_files(leases, orders, tmp_path):
    """Beside a table and without one; SQL does not see them."""
    (tmp_path / "raw").write_bytes(b"")
    raw = {"name": "any thing.bin", "path": str(tmp_path / "raw"), "raw": True}
    for kind, code, rows in (("python", "import os; result_rows = [[len(orders), sorted(os.listdir('/data'))]]",
                              [[3, ["any thing.bin", "orders.csv", "outputs"]]]), ("sql", "SELECT count(*) FROM orders", [[3]])):
        assert leases("acquire", kind=kind, files=[raw, *orders]) == {"ok": True}
        assert leases("run", kind=kind, code=code)["body"]["rows"] == rows
        leases("release")
    assert leases("acquire", kind="python", files=[raw]) == {"ok": True}
    assert leases("run", kind="python", code="open('/data/any thing.bin').read()")["body"]["value"]["text"] == "''"
    leases("release")
    assert leases("acquire", kind="python", files=[{**raw, "name": "a/b"}])["error"]["type"] == "VALIDATION_ERROR"
    assert leases("acquire", kind="python", files=[{**raw, "path": str(tmp_path)}])["error"]["type"] == "VALIDATION_ERROR"
