"""What must be impossible: hostile code in a sandbox, once under a riddle of root's and once under a plain user's.

A test gets a `box`, a fresh sandbox of the real product, and runs cells in it with the policy `open`, so that nothing but the
jail stands in their way. Sandboxes are made by build/tests/tools/sandbox_driver, one process for each of the two users; the
zygote therefore starts once for each. The driver's environment holds a planted secret that no cell may ever see.

Two variables are for `make check-cgroup2`: TEST_SLOWNESS is how many times longer than usual things may take; TEST_DELEGATE is a
control group of version 2 below which each driver of the plain user gets one of its own, as a system's manager delegates it.
"""

import atexit
import base64
import functools
import json
import os
import secrets
import select
import shutil
import signal
import subprocess
import sysconfig
import tempfile
import threading
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = (ROOT / os.environ.get("RIDDLE_BUILD", "build")).resolve()
DRIVER = BUILD / "tests/tools/sandbox_driver"
KERNEL = BUILD / "riddle-kernel"
SANITIZED = (BUILD / "flags").exists() and "-fsanitize" in (BUILD / "flags").read_text()

# Where this Debian has the interpreter's library, the libraries of this processor, and their loader.
STDLIB = sysconfig.get_path("stdlib")
LIBRARIES = "/usr/lib/" + sysconfig.get_config_var("MULTIARCH")
LOADER = str(next(Path(LIBRARIES).glob("ld-linux-*.so.*")))

PLAIN_ID = 65534
SANDBOX_ID = 64646  # of the kernels of a riddle that root started
MB = 1 << 20

# A secret as it is planted, and as cells search for it: this text is no match of itself.
SECRET = "jail-secret-" + secrets.token_hex(16)
SECRET_PATTERN = "jail-secret-[0-9a-f]{32}"

SLOWNESS = int(os.environ.get("TEST_SLOWNESS", "1"))
DELEGATE = os.environ.get("TEST_DELEGATE")

# Longer than any run of these tests may take; a driver that says nothing for so long hangs.
ANSWER_TIMEOUT_S = 60 * SLOWNESS

# What cells have at hand. attempt() tells how something failed: the type of the exception and its errno.
PRELUDE = r"""
import ctypes, errno, json, mmap, os, re, signal, socket, stat, struct, sys, threading, time

def attempt(f, *args, **named):
    try:
        return {"returned": repr(f(*args, **named))[:200]}
    except BaseException as error:
        number = getattr(error, "errno", None)
        return {"failed": type(error).__name__, "errno": errno.errorcode.get(number, number)}

def attempts(table):
    return {name: attempt(call) if callable(call) else attempt(*call) for name, call in table.items()}

def tell(value):
    print(json.dumps(value))

libc = ctypes.CDLL(None, use_errno=True)

def checked(value, *_):
    if value == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return value

def syscall(number, *args):
    ctypes.set_errno(0)
    libc.syscall.restype = ctypes.c_long
    return checked(libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in args]))

def code_page(code):
    # Written first and made executable after: what a just-in-time compiler does.
    size = mmap.PAGESIZE
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    page = checked(libc.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0))
    ctypes.memmove(page, code, len(code))
    checked(libc.mprotect(ctypes.c_void_p(page), size, mmap.PROT_READ | mmap.PROT_EXEC))
    return page
"""


def failed(kind, number):
    """What attempt() says of an OSError of this class with this errno."""
    return {"failed": kind, "errno": number}


class DriverDied(Exception):
    """The driver ended, or said nothing in time."""


@functools.cache
def programs_for_plain():
    """The programs where anybody can run them: the tree may lie below a directory that only its owner may enter."""
    tree = Path(tempfile.mkdtemp(prefix="riddle-jail-"))
    atexit.register(shutil.rmtree, tree, ignore_errors=True)
    for path in (DRIVER.relative_to(BUILD), KERNEL.relative_to(BUILD)):
        (tree / "build" / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(BUILD / path, tree / "build" / path)
    (tree / "third_party/duckdb/bound").mkdir(parents=True)  # where riddle-kernel looks for it: beside build
    shutil.copy(ROOT / "third_party/duckdb/bound/libduckdb.so", tree / "third_party/duckdb/bound")
    for path in (tree, *tree.rglob("*")):
        path.chmod(0o755)
    return tree / "build"


class Group:
    """A control group that belongs to the plain user, with the files that a manager gives away with it."""

    def __init__(self, parent, name=None):
        self.path = Path(parent) / (name or "test-" + secrets.token_hex(4))
        self.path.mkdir()
        for path in (self.path, *(self.path / f"cgroup.{n}" for n in ("procs", "subtree_control", "threads"))):
            os.chown(path, PLAIN_ID, PLAIN_ID)

    def read(self, name):
        return (self.path / name).read_text()

    def enter(self):
        (self.path / "cgroup.procs").write_text("0")

    def inside(self):
        """The groups below it."""
        return [str(path.relative_to(self.path)) for path in self.path.rglob("*") if path.is_dir()]

    def remove(self):
        for directory, *_ in os.walk(self.path, topdown=False):
            wait_until(lambda: "populated 0" in Path(directory, "cgroup.events").read_text())
            os.rmdir(directory)


def has_groups(user):
    return user == "root" or DELEGATE is not None


class Driver:
    """The process that stands for the server: it makes sandboxes and runs cells in them."""

    def __init__(self, user, home, group=None, prefix=(), **settings):
        self.user, self.home, self.group = user, home, group
        if user == "plain" and DELEGATE and not group:
            self.group = Group(DELEGATE)
        # Nothing of the person's own settings, which riddle would take for its own; ASAN_OPTIONS and the like stay.
        env = {k: v for k, v in os.environ.items() if not k.startswith("RIDDLE_")}
        drops = user == "plain" and os.geteuid() == 0
        build = programs_for_plain() if drops else BUILD
        env.update(RIDDLE_HOME=str(home), RIDDLE_KERNEL=str(build / KERNEL.name), JAIL_TEST_SECRET=SECRET, **settings)
        if SLOWNESS > 1:
            env.setdefault("RIDDLE_PRELOAD", "pandas")  # all that the cells need; drawing takes a minute to load
        command = [str(build / DRIVER.relative_to(BUILD))]
        if drops:
            command = ["setpriv", f"--reuid={PLAIN_ID}", f"--regid={PLAIN_ID}", "--clear-groups", *command]
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen([*prefix, *command], cwd=home, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.errors, preexec_fn=self.group and self.group.enter)
        os.set_blocking(self.process.stdout.fileno(), False)
        self.pending = b""

    @property
    def pid(self):
        return self.process.pid

    def alive(self):
        return self.process.poll() is None

    def send(self, request):
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise DriverDied(self._last_words()) from None

    def receive(self, timeout_s=ANSWER_TIMEOUT_S):
        until = time.monotonic() + timeout_s
        fd = self.process.stdout.fileno()
        while b"\n" not in self.pending:
            if not select.select([fd], [], [], max(0, until - time.monotonic()))[0]:
                self.kill()
                raise DriverDied(f"the driver said nothing for {timeout_s} s and was killed")
            chunk = os.read(fd, 1 << 20)
            if not chunk:
                raise DriverDied(self._last_words())
            self.pending += chunk
        line, self.pending = self.pending.split(b"\n", 1)
        return json.loads(line)

    def call(self, timeout_s=ANSWER_TIMEOUT_S, **request):
        self.send(request)
        return self.receive(timeout_s)

    def box(self, **spec):
        return Box(self, **spec)

    def _last_words(self):
        status = self.process.wait()
        self.errors.seek(0)
        return f"the driver ended with {status}: {self.errors.read().decode(errors='replace')[-4000:]}"

    def kill(self):
        if self.alive():
            self.process.kill()
            self.process.wait()

    def close(self):
        if self.alive():
            self.process.stdin.close()
            try:
                self.process.wait(20 * SLOWNESS)
            except subprocess.TimeoutExpired:
                self.kill()
        self.process.stdout.close()
        self.errors.close()


class Box:
    """One sandbox."""

    def __init__(self, driver, files=(), kind="python", **limits):
        self.driver = driver
        answer = driver.call(op="create", kind=kind, files=list(files), limits=limits)
        if SLOWNESS > 1 and "the zygote did not answer" in str(answer):  # riddle's limit knows nothing of emulators
            answer = driver.call(op="create", kind=kind, files=list(files), limits=limits)
        assert "sandbox" in answer, answer
        self.number, self.pid = answer["sandbox"], answer["pid"]
        self.namespace = pid_namespace(self.pid)
        assert self.namespace and self.namespace != pid_namespace("self")
        self.kind = kind
        if kind == "python":
            done = self.run(PRELUDE)
            assert done["verdict"] == "ok", done

    def run(self, code, timeout_s=ANSWER_TIMEOUT_S, **request):
        """The driver's answer, whatever it is."""
        request = {"kind": self.kind, "policy": "open", **request}
        request["timeout_ms"] = request.get("timeout_ms", 10000) * SLOWNESS
        return self.driver.call(timeout_s, op="run", sandbox=self.number, code=code, **request)

    def tells(self, code, **request):
        """What the cell passed to tell()."""
        done = self.run(code, **request)
        if done.get("verdict") != "ok":
            pytest.fail(f"{done.get('verdict')}: {(done.get('body') or {}).get('error') or done}", pytrace=False)
        return json.loads(done["stdout"])

    def files(self):
        """What is in /workspace, by path, and whether all of it is told."""
        done = self.driver.call(op="list_files", sandbox=self.number)
        assert done.get("verdict") == "ok", done
        return {f["path"]: f["size"] for f in done["body"]["files"]}, not done["body"]["files_truncated"]

    def read_piece(self, path, **more):
        """The driver's answer, whatever it is."""
        return self.driver.call(op="read_file", sandbox=self.number, path=path, **more)

    def read_file(self, path, piece=MB):
        data = b""
        while True:
            answer = self.read_piece(path, offset=len(data), max_bytes=piece)
            assert "data" in answer, answer
            data += base64.b64decode(answer["data"])
            if answer["end"]:
                return data

    def write_file(self, path, data, **more):
        """The driver's answer, whatever it is."""
        data = base64.b64encode(data).decode()
        return self.driver.call(op="write_file", sandbox=self.number, path=path, data=data, **more)

    def processes(self):
        """All that are in the process table."""
        return processes_of(self.namespace)

    def running(self):
        """Without those that have ended and that their parent has not asked about."""
        return [pid for pid in self.processes() if runs(pid)]

    def destroy(self):
        if self.number is not None:
            self.driver.call(op="destroy", sandbox=self.number)
            self.number = None


# ---- the host's view ----


def pid_namespace(pid):
    """The pid namespace of a process, None if it is gone."""
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return None


def processes_of(namespace):
    return [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and pid_namespace(pid) == namespace]


def status_of(pid):
    """The fields of /proc/<pid>/status; empty if it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def runs(pid):
    return status_of(pid).get("State", "Z")[0] not in "ZX"


def children_of(pid):
    return [int(p) for p in os.listdir("/proc") if p.isdigit() and status_of(p).get("PPid") == str(pid)]


def wait_until(condition, timeout_s=5):
    """Whether the condition came true; for what the kernel of the machine tells nobody."""
    until = time.monotonic() + timeout_s * SLOWNESS
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.005)
    return True


class MemoryWatch:
    """How far the machine's available memory fell below what it was, in bytes."""

    def __enter__(self):
        self.before = self.least = self._available()
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._watch)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()

    def _watch(self):
        while not self.stop.wait(0.01):
            self.least = min(self.least, self._available())

    @staticmethod
    def _available():
        with open("/proc/meminfo") as lines:
            return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))

    @property
    def drop(self):
        return self.before - self.least


# ---- fixtures ----


class Drivers:
    """Makes a driver per user when it is first wanted, and another if a test has been the end of it."""

    def __init__(self):
        self.running, self.homes, self.made = {}, {}, []

    def home(self, user):
        if user not in self.homes:
            home = Path(tempfile.mkdtemp(prefix=f"riddle-jail-{user}-"))
            if user == "plain" and os.geteuid() == 0:
                os.chown(home, PLAIN_ID, PLAIN_ID)
            self.homes[user] = home
        return self.homes[user]

    def start(self, user, **more):
        driver = Driver(user, self.home(user), **more)
        self.made.append(driver)
        return driver

    def get(self, user):
        if user not in self.running or not self.running[user].alive():
            self.running[user] = self.start(user)
        return self.running[user]

    def close(self):
        for driver in self.made:
            driver.close()
        for home in self.homes.values():
            shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def drivers():
    for program in (DRIVER, KERNEL):
        assert program.exists(), f"'{program}' is not there: build it with 'make all tools'"
    made = Drivers()
    yield made
    made.close()


@pytest.fixture(params=["root", "plain"])
def user(request):
    if request.param == "root" and os.geteuid() != 0:
        pytest.skip("only root can start a riddle as root")
    return request.param


@pytest.fixture
def driver(drivers, user):
    return drivers.get(user)


@pytest.fixture
def own_driver(drivers, user):
    """A driver that the test may kill."""
    driver = drivers.start(user)
    yield driver
    driver.kill()


@pytest.fixture
def make_box(driver):
    made = []

    def make(**spec):
        made.append(driver.box(**spec))
        return made[-1]

    yield make
    for box in made:
        if driver.alive():
            box.destroy()
            assert wait_until(lambda: not box.processes()), "processes are left after the sandbox was destroyed"


@pytest.fixture
def box(make_box):
    return make_box()


@pytest.fixture(scope="session")
def shared_dir():
    """A directory of the host that both users can read."""
    directory = Path(tempfile.mkdtemp(prefix="riddle-jail-files-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(scope="session")
def orders(shared_dir):
    path = shared_dir / "orders.csv"
    path.write_text("id,region,total\n1,north,10.5\n2,south,20.25\n3,north,30\n")
    path.chmod(0o666)  # writable by everybody: only the jail refuses
    return [{"name": "orders.csv", "path": str(path), "table": "orders"}]
