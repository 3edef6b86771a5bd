"""Processes: a sandbox sees and signals only its own, leaves none behind, and dies with riddle."""

import os
import signal
import time

import pytest
from conftest import SLOWNESS, children_of, failed, has_groups, pid_namespace, processes_of, runs, status_of, wait_until

NO_SUCH_PROCESS = failed("ProcessLookupError", "ESRCH")

# Processes that do all they can to stay: a session of their own, no parent, deaf to what can be ignored. The cell ends when all
# four are what they want to be; of those that forked them one may still be about to exit.
DAEMONS = """
r, w = os.pipe()
def daemon(forks):
    if os.fork() == 0:
        os.setsid()
        for number in range(1, 65):
            try:
                signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError):
                pass
        for _ in range(forks):
            if os.fork():
                os._exit(0)
            os.setsid()
        os.write(w, b"x")
        while True:
            time.sleep(1000)

for forks in (0, 1, 2, 5):
    daemon(forks)
for _ in range(4):
    os.read(r, 1)
"""


# ---- seeing and signalling ----


def test_first_process_of_its_own_namespace(box, driver):
    assert box.tells("tell([os.getpid(), os.getppid(), os.getpgrp(), os.getsid(0)])") == [1, 0, 1, 1]
    assert status_of(box.pid)["NSpid"].split()[-1] == "1"
    assert status_of(box.pid)["PPid"] == str(driver.pid)


def test_no_signal_leaves_the_sandbox(make_box, driver):
    """Every pid of the machine but those inside answers as if it did not exist, to kill and to pidfd_open."""
    box, other = make_box(), make_box()
    said = box.tells("""
hits = []
for pid in sorted(set(range(2, 32769)) - set(map(int, os.listdir("/proc/self/task")))):
    try:
        os.kill(pid, signal.SIGKILL)
        hits.append(pid)
    except ProcessLookupError:
        pass
def queue(pid):
    return syscall(129, pid, signal.SIGKILL, struct.pack("iii", signal.SIGKILL, 0, -1) + bytes(116))
def thread(pid):
    return syscall(234, pid, pid, signal.SIGKILL)
tell({"hits": hits, "ppid": attempt(os.kill, os.getppid(), 0)})""", timeout_ms=30000)
    assert said["hits"] == []
    named = [driver.pid, box.pid, other.pid, os.getpid(), *(p for p in driver.call(op="zygotes").values() if p)]
    said = box.tells(f"""
tell([[attempt(os.kill, pid, 9), attempt(os.pidfd_open, pid), attempt(queue, pid), attempt(thread, pid),
       attempt(os.killpg, pid, 9)] for pid in {named}])""")
    assert said == [[NO_SUCH_PROCESS] * 5] * len(named) and len(named) >= 5
    assert driver.alive() and other.tells("tell(1)") == 1


def test_kill_of_everybody(make_box, driver):
    """-1 and 0 mean all of the namespace, of which the kernel is the only process."""
    box, other = make_box(), make_box()
    zygotes = driver.call(op="zygotes")
    assert box.tells("tell(attempt(os.kill, -1, signal.SIGKILL))") == NO_SUCH_PROCESS
    # Group 0 means its own process group; nobody else may be in that one, because groups know nothing of namespaces.
    assert box.tells("tell(attempt(os.kill, 0, signal.SIGTERM))") == {"returned": "None"}
    assert driver.alive() and driver.call(op="zygotes") == zygotes
    assert other.tells("tell(1)") == 1
    assert all(pid_namespace(pid) for pid in zygotes.values() if pid)


def test_group_and_session_of_the_server_cannot_be_joined(box, driver):
    said = box.tells(f"""tell(attempts({{
        "group": (os.setpgid, 0, {os.getpgid(driver.pid)}), "other's group": (os.getpgid, {driver.pid}),
        "other's session": (os.getsid, {driver.pid}), "affinity": (os.sched_setaffinity, {driver.pid}, [0]),
        "priority": (os.setpriority, os.PRIO_PROCESS, {driver.pid}, 19), "everybody's": (os.setpriority, os.PRIO_USER, 0, 19),
        "limits": (lambda: __import__("resource").prlimit({driver.pid}, 7, (1, 1))),
    }}))""")
    assert said == {"group": failed("PermissionError", "EPERM"), "other's group": NO_SUCH_PROCESS,
                    "other's session": NO_SUCH_PROCESS, "affinity": failed("PermissionError", "EPERM"),
                    "priority": failed("PermissionError", "EPERM"), "everybody's": failed("PermissionError", "EPERM"),
                    "limits": NO_SUCH_PROCESS}


def test_sandboxes_do_not_see_each_other(make_box):
    first, second = make_box(), make_box()
    first.tells(DAEMONS + "tell(1)")
    assert len(first.running()) >= 5
    assert second.tells("tell([p for p in os.listdir('/proc') if p.isdigit()])") == ["1"]
    assert first.namespace != second.namespace


# ---- nothing is left ----



def test_daemons_end_with_the_sandbox(make_box):
    box = make_box()
    assert box.tells(DAEMONS + "tell(1)") == 1
    assert len(box.running()) >= 5
    pids = box.processes()
    box.destroy()
    # At once: the destruction has waited for all of them.
    assert box.processes() == [] and not any(pid_namespace(pid) == box.namespace for pid in pids)


def test_daemons_end_with_a_killed_kernel(box):
    assert box.tells(DAEMONS + "tell(1)") == 1
    assert len(box.running()) >= 5
    assert box.run("os._exit(3)")["verdict"] == "killed"
    assert box.processes() == []


def test_daemons_do_not_hold_up_a_run(box):
    """They hold the pipes of stdout and stderr open; the cell ends all the same."""
    begun = time.monotonic()
    assert box.run(DAEMONS)["verdict"] == "ok"
    assert box.tells("tell(2)") == 2
    assert time.monotonic() - begun < 2 * SLOWNESS


def test_child_that_returns_from_its_cell(make_box):
    """A fork whose child runs off the end of the cell must not answer in its parent's place."""
    box = make_box()
    assert box.tells("""
pid = os.fork()
if pid:
    os.waitpid(pid, 0)
    tell("parent")""") == "parent"
    assert box.tells("tell([os.getpid(), len([p for p in os.listdir('/proc') if p.isdigit()])])") == [1, 1]


def test_control_groups_are_removed(driver, user):
    if not has_groups(user):
        pytest.skip("a plain user has no control groups here")
    box = driver.box()
    with open(f"/proc/{box.pid}/cgroup") as lines:
        own = {line.strip().split(":", 2)[2] for line in lines}
    names = {path.rsplit("/", 1)[-1] for path in own if "/riddle-" in path and f"-{driver.pid}/" in path}
    assert len(names) == 1, own
    found = lambda: [d for d, *_ in os.walk("/sys/fs/cgroup") if d.endswith(f"-{driver.pid}/{next(iter(names))}")]
    assert found()
    box.run(DAEMONS)
    box.destroy()
    assert found() == []


# ---- the end of a kernel ----


@pytest.mark.parametrize("code, words", [
    ("ctypes.string_at(0)", "signal 11 (Segmentation fault)"),
    # The first process of a namespace is spared its own SIGABRT; libc then makes sure by an instruction that faults.
    ("os.abort()", "signal 11 (Segmentation fault)"),
    ("os._exit(3)", "exit status 3"),
    ("os._exit(0)", "exit status 0"),
    ("ctypes.CFUNCTYPE(None)(code_page(bytes.fromhex('0f0b')))()", "signal 4 (Illegal instruction)"),
    ("ctypes.CFUNCTYPE(None)(code_page(bytes.fromhex('31c9f7f1')))()", "signal 8 (Floating point exception)"),
    # A stack that overflows: push and jump back.
    ("ctypes.CFUNCTYPE(None)(code_page(bytes.fromhex('50ebfd')))()", "signal 11 (Segmentation fault)"),
])
def test_crash_is_told(make_box, driver, code, words):
    box, other = make_box(), make_box()
    other.tells("kept = 1; tell(1)")
    done = box.run(code)
    assert (done["verdict"], done["state_lost"], done["interrupted"], done["alive"]) == ("killed", True, False, False), done
    assert done["body"]["error"] == {
        "type": "KILLED", "message": f"the kernel ended by itself ({words}); its variables are lost"}
    again = box.run("1")
    assert again["error"]["message"] == "the kernel of this sandbox is gone"
    assert other.tells("tell(kept)") == 1


def test_signals_to_itself_are_ignored(box):
    """The first process of a namespace gets no signal from inside that it does not handle, SIGKILL included."""
    assert box.tells("""
for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1):
    os.kill(1, number)
tell("here")""") == "here"


def test_exit_of_the_cell(box):
    assert box.run("kept = 1\nimport sys\nsys.exit(0)")["verdict"] == "ok"
    done = box.run("sys.exit('enough')")
    assert (done["verdict"], done["state_lost"]) == ("error", False)
    assert done["body"]["error"]["message"].startswith("SystemExit: enough")
    assert box.tells("tell(kept)") == 1


# ---- the end of the zygote and of riddle ----


def test_death_of_the_zygote(own_driver):
    """Kernels live on, and the next sandbox comes from a new zygote."""
    box = own_driver.box()
    box.tells("kept = 42; tell(1)")
    old = own_driver.call(op="zygotes")["python"]
    os.kill(old, signal.SIGKILL)
    assert wait_until(lambda: status_of(old).get("State", "Z").startswith("Z"))
    assert box.tells("tell(kept)") == 42
    fresh = own_driver.box()
    assert fresh.tells("tell(os.getpid())") == 1
    assert own_driver.call(op="zygotes")["python"] not in (0, old)
    assert box.tells("tell(kept)") == 42


BUSY = """
import ctypes
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
libc.prctl(1, 0, 0, 0, 0)  # PR_SET_PDEATHSIG: would let it outlive its parent
print("busy", flush=True)
while True:
    pass
"""


def test_death_of_riddle(own_driver):
    """Killed without a chance to tidy up: an idle kernel, one with daemons, a busy one and the zygote are gone within a second."""
    idle, daemons, busy = own_driver.box(), own_driver.box(), own_driver.box()
    daemons.tells(DAEMONS + "tell(1)")
    own_driver.send({"op": "run", "sandbox": busy.number, "kind": "python", "policy": "open", "code": BUSY, "timeout_ms": 30000})
    ignoring = lambda: int(status_of(busy.pid)["SigIgn"], 16) & 1 << signal.SIGTERM - 1
    assert wait_until(ignoring)
    spaces = [b.namespace for b in (idle, daemons, busy)]
    children = children_of(own_driver.pid)
    assert len(children) == 4  # three kernels and the zygote
    assert len(daemons.running()) >= 5
    # Whoever inherits the dead reaps them when it likes: what counts is that none runs.
    everybody = children + [pid for space in spaces for pid in processes_of(space)]
    begun = time.monotonic()
    own_driver.kill()
    assert wait_until(lambda: not any(map(runs, everybody)))
    assert time.monotonic() - begun < 1 * SLOWNESS
