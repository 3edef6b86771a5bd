"""Threads whose kernel cannot be an image: variables are pickled one by one, and what cannot be is told by name."""

import re
import subprocess

import pytest

from api import QUICK
from server import RIDDLE, Server, wait_until
from test_chat import SALES, new_thread
from test_images import execute, image_prefix, status, value

pytestmark = [pytest.mark.plain, pytest.mark.skipif("asan" in str(RIDDLE), reason="sanitized kernels write no images")]

# What each cell makes, and what must be true of it afterwards.
KEPT = {
    "numbers and text": ("a = 1; b = 2.5; c = 'ü' * 1000; d = b'x' * 100000", "(a, b, len(c), len(d)) == (1, 2.5, 1000, 100000)"),
    "frames": ("import pandas as pd, numpy as np\ndf = pd.DataFrame({'n': np.arange(1000)})\ncol = df.n", "int(df.n.sum()) == 499500 and len(col) == 1000"),
    "functions and their globals": ("n = 0\ndef step():\n    global n\n    n += 1\n    return n\n_ = step()", "step() == n == 2 and globals()['n'] == 2"),
    "closures and lambdas": ("def adder(k):\n    return lambda x: x + k\nadd3 = adder(3)\ntwice = lambda x: 2 * x", "add3(4) == 7 and twice(5) == 10"),
    "classes of cells": ("import dataclasses\n@dataclasses.dataclass\nclass Point:\n    x: int\n    def far(self): return self.x > 2\np = Point(3)",
                         "p == Point(3) and p.far() and type(p) is Point"),
    "one object under two names": ("first = [1]; second = first", "first is second"),
    "modules": ("import decimal, json as js", "js.dumps([1]) == '[1]' and decimal.Decimal('1') == 1"),
    "the session's own": ("ask = sql; show = display", "ask is sql and show is display"),
}
LOST = {"worker": "import threading, time\nstop = threading.Event()\nworker = threading.Thread(target=stop.wait, daemon=True)\nworker.start()",
        "lock": "import threading\nlock = threading.Lock()",
        "half": "half = (i for i in range(9)); _ = next(half)",
        "pair": "import socket\npair = socket.socketpair()"}
FILES = "import os\nos.makedirs('/workspace/deep')\nopen('/workspace/deep/a.txt', 'w').write('kept')\nos.chdir('/workspace/deep')"


def make(server):
    thread = new_thread(server)
    for cell in [cell for cell, _ in KEPT.values()] + list(LOST.values()) + [FILES]:
        assert execute(server, thread, cell)["status"] == "succeeded", cell
    return thread


def names_lost(text):
    return set(re.findall(r"(\w+) \(\w+[:)]", text))


def check(server, thread):
    """The first answer tells what was lost; everything else is there."""
    answer = execute(server, thread, "open('a.txt').read() + os.getcwd()")
    assert answer["result"]["rows"] == [["kept/workspace/deep"]], answer
    assert answer["state_lost"] is True and names_lost(answer["state_lost_reason"]) == {*LOST, "stop"}, answer["state_lost_reason"]
    for what, (_, expected) in KEPT.items():
        assert value(server, thread, f"bool({expected})") is True, what
    assert value(server, thread, f"[name for name in {[*LOST]} if name in globals()] == []") is True


@pytest.fixture
def home(tmp_path):
    (tmp_path / "datasets" / "sales").mkdir(parents=True)
    (tmp_path / "datasets" / "sales" / "sales.csv").write_text(SALES)
    return tmp_path


def test_what_can_be_pickled_outlives_the_server_and_the_rest_is_named(home):
    server = Server(home, **QUICK)
    with server:
        thread = make(server)
        branch = server.post(f"/thread/{thread}/fork", {}).json
        assert branch["has_variables"] is True and names_lost(branch["not_kept"]) == {*LOST, "stop"}, branch
        check(server, branch["thread_id"])
        answer = server.post(f"/thread/{thread}/cool", {})  # by hand nothing is given up
        assert answer.json["sandbox_status"] == "hot" and "threads besides the first" in answer.json["sandbox"]["not_cooled"], answer.json
        assert value(server, thread, "worker.is_alive() and next(half)") == 1
    with server:
        assert status(server, thread)["sandbox"]["has_variables"] is True
        check(server, thread)
        assert "state_lost" not in execute(server, thread, "1")  # told once


def put_aside(server, thread, other):
    """The thread gives its kernel up, because there may be one only. Returns the file that it is then."""
    assert value(server, other, "1 + 1") == 2
    def files():
        return [p for p in (server.home / "images").iterdir() if p.name.startswith(image_prefix(thread))]
    wait_until(lambda: [p.suffix for p in files()] == [""], "its kernel is a file")
    path, = files()
    return path


def test_a_kernel_that_has_to_go_leaves_what_can_be_pickled(home):
    with Server(home, **QUICK, RIDDLE_HOT_THREADS=1) as server:
        thread, other = new_thread(server), new_thread(server)
        execute(server, thread, "kept = {'a': 1}\n" + LOST["lock"] + "\n" + LOST["pair"])
        put_aside(server, thread, other)
        answer = execute(server, thread, "kept['a']")
        assert answer["result"]["rows"] == [[1]] and names_lost(answer["state_lost_reason"]) == {"lock", "pair"}, answer

        # A file that is cut off, in the variables and before them: what is lost is told, and code runs.
        for cut, named in ((20, "kept"), (400, "its image cannot be used")):
            execute(server, thread, "kept = bytes(300)\nimport socket\npair = socket.socketpair()")
            path = put_aside(server, thread, other)
            with open(path, "r+b") as file:
                file.truncate(path.stat().st_size - cut)
            answer = execute(server, thread, "'kept' in globals()")
            assert answer["result"]["rows"] == [[False]] and named in answer["state_lost_reason"], answer


def test_another_server_reads_the_portable_form_of_an_export(home, tmp_path_factory):
    """A colleague's server has another base: variables that can be pickled come along, and both ends name the rest."""
    other = tmp_path_factory.mktemp("colleague")
    (other / "datasets" / "sales").mkdir(parents=True)
    (other / "datasets" / "sales" / "sales.csv").write_text(SALES)

    def riddle(server, *words):
        done = subprocess.run([RIDDLE, *words, "--server", f"http://127.0.0.1:{server.port}"], cwd=home, env={}, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip(), done.stderr

    with Server(home, **QUICK) as mine, Server(other, **QUICK) as theirs:
        thread = new_thread(mine)
        execute(mine, thread, "kept = [1, 2]\nopen('/workspace/a.txt', 'w').write('file')")
        for cell in KEPT["classes of cells"][0], LOST["half"]:
            execute(mine, thread, cell)
        _, said = riddle(mine, "thread", "export", thread, "t.riddle")
        assert "another server will not have" in said and names_lost(said) == {"half"}, said
        assert value(mine, thread, "next(half)") == 1  # here everything goes on
        copy, _ = riddle(theirs, "thread", "import", "t.riddle")
        assert status(theirs, copy)["sandbox"]["has_variables"] is True
        answer = execute(theirs, copy, "kept == [1, 2] and open('/workspace/a.txt').read() == 'file' and p.far() and 'half' not in globals()")
        assert answer["result"]["rows"] == [[True]], answer
        assert "its image cannot be used" in answer["state_lost_reason"] and names_lost(answer["state_lost_reason"]) == {"half"}, answer["state_lost_reason"]
