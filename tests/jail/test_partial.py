"""A machine that denies namespaces, as many containers do: nothing runs, unless RIDDLE_JAIL=partial says that something else is the
wall. Then the layers that are left hold all the same, and riddle says what is missing."""

import json
import sys

import pytest
from conftest import PRELUDE, SECRET

# Runs a command where no further user namespace can be made. Whoever started us maps the ids from outside, if that is root.
DENIED = r"""
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
ids = "0 0 4294967295" if os.geteuid() == 0 else "%d %d 1" % (os.getuid(), os.getuid())
groups = "0 0 4294967295" if os.geteuid() == 0 else "%d %d 1" % (os.getgid(), os.getgid())
me, (ready, go) = os.getpid(), os.pipe()

def write(path, text):
    with open(path, "w") as f:
        f.write(text)

def write_maps(pid):
    if os.geteuid() != 0:
        write(f"/proc/{pid}/setgroups", "deny")
    write(f"/proc/{pid}/uid_map", ids)
    write(f"/proc/{pid}/gid_map", groups)

helper = os.fork() if os.geteuid() == 0 else None
if helper == 0:
    os.read(ready, 1)
    write_maps(me)
    os._exit(0)
if libc.unshare(0x10000000) < 0:
    sys.exit("unshare: " + os.strerror(ctypes.get_errno()))
os.write(go, b"x")
if helper is None:
    write_maps("self")
elif os.waitpid(helper, 0)[1] != 0:
    sys.exit("mapping the ids failed")
write("/proc/sys/user/max_user_namespaces", "0")
os.execvp(sys.argv[1], sys.argv[1:])
"""


@pytest.fixture
def start(drivers):
    made = []

    def start(**settings):
        made.append(drivers.start("plain", prefix=[sys.executable, "-c", DENIED], **settings))
        return made[-1]
    yield start
    for driver in made:
        driver.close()


@pytest.fixture
def partial(start):
    return start(RIDDLE_JAIL="partial")


def create(driver, kind="python", **request):
    made = driver.call(op="create", kind=kind, files=[], **request)
    assert "sandbox" in made, made
    return made["sandbox"]


def run(driver, sandbox, code):
    return driver.call(op="run", sandbox=sandbox, kind="python", policy="open", code=PRELUDE + code, timeout_ms=20000)


def tells(driver, code):
    done = run(driver, create(driver), code)
    assert done.get("verdict") == "ok", done
    return json.loads(done["stdout"])


def log_of(driver):
    driver.errors.seek(0)
    return driver.errors.read().decode()


@pytest.mark.parametrize("kind", ["python", "sql"])
def test_nothing_runs_without_being_told_to(start, kind):
    refused = start().call(op="create", kind=kind, files=[])["error"]
    assert refused["type"] == "ISOLATION_UNAVAILABLE" and "allows no more user namespaces" in refused["message"] and "riddle doctor" in refused["message"], refused


def test_code_runs_and_riddle_says_what_is_missing(partial):
    assert tells(partial, "tell(sum(range(10)))") == 45
    assert tells(partial, "tell(1 + 1)") == 2
    [line] = [line for line in log_of(partial).splitlines() if "kernel.partial" in line]  # once, not for each kernel
    assert "missing=namespaces" in line and "seccomp" not in line and "landlock" not in line, line


def test_the_layers_that_are_left_hold(partial):
    told = tells(partial, """
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
tell({"status": {k: status[k].strip() for k in ("Seccomp", "Seccomp_filters", "NoNewPrivs", "CapEff", "CapPrm")},
      "done": attempts({
          "passwd": (open, "/etc/passwd"), "root": (os.listdir, "/root"), "write": (open, "/var/tmp/x", "w"),
          "internet": (socket.socket, socket.AF_INET), "netlink": (socket.socket, socket.AF_NETLINK),
          "chroot": (os.chroot, "/tmp"), "program": (os.execv, "/bin/true", ["true"])})})
""")
    assert told["status"] == {"Seccomp": "2", "Seccomp_filters": "2", "NoNewPrivs": "1", "CapEff": "0" * 16, "CapPrm": "0" * 16}
    refused = {"failed": "PermissionError", "errno": "EACCES"}
    assert told["done"] == {"passwd": refused, "root": refused, "write": refused, "internet": refused, "netlink": refused,
                            "chroot": {"failed": "PermissionError", "errno": "EPERM"}, "program": refused}


@pytest.mark.parametrize("name, number, args", [("unshare", 272, "0x10000000"), ("mount", 165, 'b"none", b"/tmp", b"tmpfs", 0, 0'),
                                                ("setns", 308, "0, 0"), ("ptrace", 101, "0, 0, 0, 0")])
def test_what_the_jail_is_made_with_kills(partial, name, number, args):
    done = run(partial, create(partial), f"syscall({number}, {args})")
    assert done["verdict"] == "policy" and "system call" in done["body"]["error"]["message"], (name, done)


def test_no_secret_is_in_reach(partial):
    told = tells(partial, """
tell({"environment": dict(os.environ), "parent": attempt(open, f"/proc/{os.getppid()}/environ")})
""")
    assert SECRET not in json.dumps(told) and told["parent"]["failed"] == "PermissionError", told
