"""Helpers of the integration tests: the programs of a build tree, run from the outside with a home of their own."""

import json
import os
import sqlite3
import subprocess
from dataclasses import dataclass
from pathlib import Path

import dockerd
import pytest
from api import generate_sets
from model import start_model  # noqa: F401 (a fixture)
from server import Server

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = (ROOT / os.environ.get("RIDDLE_BUILD", "build")).resolve()
RIDDLE = BUILD / "riddle"
KERNEL = BUILD / "riddle-kernel"

# A run is bounded by its own limit of at most 60 seconds; a sanitized zygote takes some of its own to start.
PROCESS_TIMEOUT_S = 180


@dataclass
class Done:
    """How a program ended, and what it said."""

    status: int
    out: bytes
    err: str

    @property
    def text(self):
        return self.out.decode()

    @property
    def response(self):
        """The one line of JSON on standard output."""
        assert self.out.endswith(b"\n") and self.out.count(b"\n") == 1, (self.out[:2000], self.err)
        return json.loads(self.out)


class Programs:
    def __init__(self, home, cwd):
        self.cwd = cwd
        # Nothing of the person's own settings; ASAN_OPTIONS and the like stay.
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("RIDDLE_")}
        self.env["RIDDLE_HOME"] = str(home)

    def start(self, program, *arguments, env=None, **more):
        return subprocess.Popen([str(program), *map(str, arguments)], cwd=self.cwd, env={**self.env, **(env or {})},
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)

    def start_on(self, terminal, *arguments):
        """`riddle` with a terminal as its standard input, output and error."""
        env = {k: v for k, v in self.env.items() if k != "NO_COLOR"}
        return subprocess.Popen([str(RIDDLE), *map(str, arguments)], cwd=self.cwd, env={**env, "TERM": "xterm"},
                                stdin=terminal, stdout=terminal, stderr=terminal)

    def call(self, program, *arguments, stdin=b"", env=None):
        child = self.start(program, *arguments, env=env)
        try:
            out, err = child.communicate(stdin if isinstance(stdin, bytes) else stdin.encode(),
                                         timeout=PROCESS_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            raise
        return Done(child.returncode, out, err.decode(errors="replace"))

    def riddle(self, *arguments, **more):
        return self.call(RIDDLE, *arguments, **more)

    def run(self, *arguments, **more):
        return self.riddle("run", *arguments, **more)

    def host(self, request, data_root, **more):
        """`riddle run --json` with a request: an object, or text as it is."""
        return self.riddle("run", "--json", "--data", data_root, stdin=as_text(request), **more)

    def once(self, request, data_root, env=None):
        """`riddle-kernel --once` with a request."""
        return self.call(KERNEL, "--once", stdin=as_text(request), env={"RIDDLE_DATA_ROOT": str(data_root), **(env or {})})


def as_text(request):
    return request if isinstance(request, (str, bytes)) else json.dumps(request)


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    """One home for a session: what one test ingested the next need not."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def programs(home, tmp_path):
    return Programs(home, tmp_path)


@pytest.fixture
def data(tmp_path):
    """A data directory with two tables."""
    directory = tmp_path / "data"
    directory.mkdir()
    (directory / "orders.csv").write_text("id,region,total\n1,north,10.5\n2,south,20.25\n3,north,30\n4,east,\n")
    (directory / "items.csv").write_text("order_id,name,quantity\n1,apple,3\n1,pear,1\n2,apple,5\n")
    return directory


@pytest.fixture(params=["host", "once"])
def runner(request, programs, data):
    """Both ways to send a RunnerRequest: a function from a request to how the program ended."""
    call = programs.host if request.param == "host" else programs.once
    return lambda body, **more: call(body, data, **more)


@pytest.fixture
def orders(data):
    return [{"name": "orders.csv", "path": str(data / "orders.csv")}]


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    """One server with the bundled datasets, for all tests that need no settings of their own."""
    directory = tmp_path_factory.mktemp("shared")
    with sqlite3.connect(directory / "files.db") as db:
        db.execute("CREATE TABLE files (name TEXT)")
    server = Server(directory, RATE_LIMIT_MAX=0, DATABASES=f"files=sqlite://{directory}/files.db")
    generate_sets(server)
    with server:
        yield server


@pytest.fixture(scope="session")
def docker_daemon():
    """A Docker daemon of this test run, with the image of this build tree."""
    why = dockerd.why_not()
    if why:
        pytest.skip(why)
    daemon = dockerd.Daemon()
    try:
        daemon.load_image()
        yield daemon
    finally:
        daemon.stop()
