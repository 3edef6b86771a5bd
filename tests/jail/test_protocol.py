"""The control socket, descriptor 3, is user code's to write on. Whatever it says, only its own run can suffer, and riddle says why."""

import os
import time

import pytest
from conftest import MB, failed, status_of, wait_until

# What cells need to speak as the kernel does (docs/wire.md).
NUMBERS = {name: number for number, name in enumerate(
    "join start exec ingest list read write interrupt reply bytes ready failed result ingested listed piece written "
    "display progress ask".split(), 1)}
FRAMES = f"NUMBERS = {NUMBERS}" + """
def head(length, name, number=0):
    return struct.pack("<IIB3x", length, number, NUMBERS[name] if isinstance(name, str) else name)

def frame(name, value=None, number=0):
    data = value if isinstance(value, bytes) else b"" if value is None else json.dumps(value).encode()
    return head(len(data), name, number) + data

def say(data):
    while data:
        data = data[os.write(3, data):]

EMPTY = {"columns": [], "types": [], "rows": [], "row_count": 0, "truncated": False, "error": None, "value": None, "exec_time_ms": 1}
def result(number, **more):
    return frame("result", {"verdict": "ok", **EMPTY, **more}, number)
"""

# The prelude was run 1 and FRAMES is run 2.
THIS_RUN, NEXT_RUN = 3, 4

# Goes on whatever happens.
DEAF = "signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass"


@pytest.fixture
def pair(make_box):
    """The one that lies, and another that must not notice."""
    liar, other = make_box(), make_box()
    assert liar.run(FRAMES)["verdict"] == "ok"
    assert other.run("kept = 7")["verdict"] == "ok"
    yield liar, other
    assert other.tells("tell(kept)") == 7


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def resident(driver):
    return int(status_of(driver.pid)["VmRSS"].split()[0]) * 1024


def said(words):
    return f"the kernel broke the protocol ({words}) and was ended; its variables are lost"


NO_MESSAGE = "the kernel sent something that is no message"
WRONG = "'result': '{}' of 'result' is of the wrong type or out of range"
AT_ODDS = "the members of 'result' do not agree"
FAILURE = "frame('failed', {{'error': {{'type': {!r}, 'message': 'made up'}}}}, " + str(THIS_RUN) + ")"


def forged(**more):
    return f"say(result({THIS_RUN}, **{more!r}))"


BROKEN = {
    "text": ("say(b'garbage, garbage')", said(NO_MESSAGE)),
    "zeros": ("say(bytes(12))", said(NO_MESSAGE)),
    "unknown message": ("say(head(0, 99))", said(NO_MESSAGE)),
    "message of the other direction": ("say(frame('exec', {}))", said(NO_MESSAGE)),
    "largest length": ("say(b'\\xff' * 4 + head(0, 'result')[4:])", said(NO_MESSAGE)),
    "largest length behind a message": ("say(frame('progress', {'fraction': 1}) + b'\\xff' * 4 + head(0, 'result')[4:])", said(NO_MESSAGE)),
    "one too long": ("say(head((32 << 20) + 1, 'result'))", said(NO_MESSAGE)),
    "longer than was asked for": (f"say(head(20 << 20, 'result', {THIS_RUN}))", said("a result of 20971520 bytes")),
    "no JSON": (f"say(frame('result', b'{{no json', {THIS_RUN}))",
                said("'result': invalid JSON at line 1, column 3: string or '}' expected near 'no'")),
    "twice the same key": (f"say(frame('display', b'{{\"text\":\"\",\"text\":\"\"}}', {THIS_RUN}))",
                           said("'display': invalid JSON at line 1, column 17: duplicate object key near '\"text\"'")),
    "deep JSON": (f"say(frame('display', b'[' * 1000000, {THIS_RUN}))",
                  said("'display': invalid JSON at line 1, column 65: nested deeper than 64 levels")),
    "no object": (f"say(frame('display', [1], {THIS_RUN}))", said("'display': a message that is no object")),
    "many values": (f"say(frame('display', b'{{\"json\":[' + b'0,' * 1000000 + b'0]}}', {THIS_RUN}))",
                    said("'display': JSON with about 1000004 values; at most 250000 are allowed")),
    "unknown verdict": (forged(verdict="splendid"), said(WRONG.format("verdict"))),
    "verdict of riddle's": (forged(verdict="timeout"), said(WRONG.format("verdict"))),
    "columns of numbers": (forged(columns=[1]), said(WRONG.format("columns"))),
    "row_count below zero": (forged(row_count=-5), said(WRONG.format("row_count"))),
    "truncated by a word": (forged(truncated="yes"), said(WRONG.format("truncated"))),
    "time without end": (forged(exec_time_ms=1e308), said(WRONG.format("exec_time_ms"))),
    "error that is none": (forged(error={"type": 1}), said(WRONG.format("error"))),
    "a member more": (forged(x=1), said("'result': 'result' has a member that it must not have")),
    "more rows than were asked for": (f"say(result({THIS_RUN}, rows=[[]] * 20000, row_count=20000))", said(AT_ODDS)),
    "row_count of other rows": (forged(row_count=7), said(AT_ODDS)),
    "ragged rows": (forged(columns=["a"], types=["b"], rows=[[1], [1, 2]], row_count=2), said(AT_ODDS)),
    "rows that are none": (forged(columns=["a"], types=["b"], rows=["x"], row_count=1), said(AT_ODDS)),
    "fewer types than columns": (forged(columns=["a"]), said(AT_ODDS)),
    "error of a success": (forged(error={"type": "x", "message": "y"}), said(AT_ODDS)),
    "failure without a reason": (forged(verdict="error"), said(AT_ODDS)),
    "failure": (f"say({FAILURE.format('x')})", "the kernel failed: made up; its variables are lost"),
    "failure of a kind that has a meaning": (f"say({FAILURE.format('CONFLICT')})", "the kernel failed: made up; its variables are lost"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_message(pair, driver, name):
    """The kernel is given up: nothing that it says can be used any more. The run has a verdict, so that it leaves a capsule."""
    liar, _ = pair
    code, words = BROKEN[name]
    begun = time.monotonic()
    done = liar.run(code + "\ntime.sleep(100)", timeout_ms=20000)
    assert (done.get("verdict"), done.get("state_lost")) == ("killed", True), done
    assert done["body"]["error"]["message"] == words
    assert time.monotonic() - begun < 5
    assert wait_until(lambda: not liar.processes())
    assert liar.run("1")["error"]["message"] == "the kernel of this sandbox is gone"


IGNORED = {
    "ready again": "say(frame('ready', {'version': 2, 'missing': 'seccomp,landlock'}) + frame('ready', b'garbage'))",
    "result of another run": "say(result(1, value='old') + result(99999, value='far') + result((1 << 32) - 1) + result(0))",
    "answer to another kind of request": f"say(frame('listed', b'garbage', {THIS_RUN}) + frame('piece', b'', {THIS_RUN}))",
    "progress of no ingest": f"say(frame('progress', {{'fraction': 'x'}}, {THIS_RUN}))",
    "display of another run": "say(frame('display', b'garbage', 1))",
    "bytes that nobody asked for": f"say(frame('bytes', b'abc', {THIS_RUN}))",
    "failure of another run": "say(frame('failed', b'garbage', 1))",
    "empty display": f"say(frame('display', {{}}, {THIS_RUN}))",
    "messages in pieces": f"for b in frame('display', {{'text': 'y' * 50}}, {THIS_RUN}): say(bytes([b]))",
}


@pytest.mark.parametrize("name", IGNORED)
def test_message_without_meaning(pair, name):
    liar, _ = pair
    assert liar.tells(IGNORED[name] + "\ntell('done')") == "done"
    assert liar.tells("tell('again')") == "again"


def test_forged_result(pair):
    """User code can say what its own run gives; that is its right. The true answer that follows is nobody's."""
    liar, _ = pair
    done = liar.run(f"say(result({THIS_RUN}, columns=['a'], types=['b'], rows=[['forged']], row_count=1))")
    assert (done["verdict"], done["body"]["rows"]) == ("ok", [["forged"]])
    assert liar.tells("tell('next')") == "next"


def test_forged_result_of_the_next_run(pair):
    """At most its own next result is forged; those after it are true again."""
    liar, _ = pair
    liar.run(f"say(result({NEXT_RUN}, value={{'text': 'forged'}}))")
    liar.run("1")
    assert liar.tells("tell('true')") == "true"


def test_result_while_the_code_goes_on(pair, driver):
    """The run is over for riddle; the next one finds a kernel that does not listen, and time decides."""
    liar, _ = pair
    done = liar.run(f"say(result({THIS_RUN}))\n{DEAF}")
    assert done["verdict"] == "ok"
    begun = time.monotonic()
    done = liar.run("1", timeout_ms=150)
    assert (done["verdict"], done["state_lost"]) == ("timeout", True), done
    assert time.monotonic() - begun < 3


def test_large_request_to_a_kernel_that_does_not_listen(pair, driver):
    """More than a socket holds: riddle must not wait for the kernel to read it."""
    liar, _ = pair
    done = liar.run(f"say(result({THIS_RUN}))\n{DEAF}")
    assert done["verdict"] == "ok"
    begun = time.monotonic()
    done = liar.run("x = '" + "x" * 1000000 + "'", timeout_ms=150, timeout_s=15)
    assert (done["verdict"], done["state_lost"]) == ("timeout", True), done
    assert time.monotonic() - begun < 3


def test_large_request_to_a_kernel_that_listens(box):
    assert box.tells("x = '" + "x" * 1000000 + "'\ntell(len(x))") == 1000000


def test_length_without_a_frame(pair):
    """The true answer becomes part of the frame that was announced, and the run ends with its time."""
    liar, _ = pair
    done = liar.run(f"say(head(1 << 20, 'result', {THIS_RUN}))", timeout_ms=150)
    assert (done["verdict"], done["state_lost"]) == ("timeout", True), done


@pytest.mark.parametrize("code", [
    f"data = frame('ready', {{}}) * 1000",
    f"data = frame('display', {{'text': 'x' * 100000}}, {THIS_RUN})",
    f"data = frame('display', {{'json': list(range(20000))}}, {THIS_RUN})",
    "data = frame('display', {'json': [0] * 4000000}, 1)",
    "data = frame('result', b'z' * (16 << 20), 1)",
], ids=["small messages", "displays", "displays of structure", "large displays that are dropped", "large results of another run"])
def test_flood_of_messages(pair, driver, code):
    """A flood ends in a verdict, soon, and riddle keeps no more of it than it allows itself."""
    liar, _ = pair
    before, begun = resident(driver), time.monotonic()
    done = liar.run(code + "\nwhile True: say(data)", timeout_ms=10000)
    assert (done["verdict"], done["state_lost"]) == ("output", True), {k: v for k, v in done.items() if k != "displays"}
    assert done["body"]["error"]["message"].startswith("the code sent more to its control socket than a run may")
    assert time.monotonic() - begun < 8
    assert len(done["displays"]) <= 64
    assert resident(driver) - before < 64 * MB


def test_passed_descriptors_are_closed(pair, driver):
    liar, _ = pair
    before = descriptors(driver.pid)
    assert liar.tells("""
control = socket.socket(fileno=os.dup(3))
for _ in range(50):
    while True:
        try:
            socket.send_fds(control, [frame("ready", {})], [0, 1, 2] * 20)
            break
        except OSError as error:  # the kernel of the machine bounds how many are under way
            if error.errno != errno.ETOOMANYREFS: raise
tell("done")""") == "done"
    assert descriptors(driver.pid) == before


def test_many_descriptors(pair, driver):
    """riddle takes none: Linux drops them, and the run goes on."""
    liar, _ = pair
    before = descriptors(driver.pid)
    assert liar.tells("""
control = socket.socket(fileno=os.dup(3))
socket.send_fds(control, [frame("ready", {})], [0] * 200)
tell("done")""") == "done"
    assert descriptors(driver.pid) <= before


CLOSINGS = {
    "close": "os.close(3)",
    "close of all": "os.closerange(0, 200)",
    "shutdown": "socket.socket(fileno=os.dup(3)).shutdown(socket.SHUT_RDWR)",
    "replaced": "os.dup2(os.open('/dev/null', os.O_RDWR), 3)",
}


@pytest.mark.parametrize("name", CLOSINGS)
def test_closed_control_socket(pair, name):
    """Without it a kernel is of no use: it is ended at once, not at the end of its time."""
    liar, _ = pair
    begun = time.monotonic()
    done = liar.run(CLOSINGS[name] + "\ntime.sleep(100)", timeout_ms=20000)
    assert (done["verdict"], done["state_lost"], done["alive"]) == ("killed", True, False), done
    assert time.monotonic() - begun < 5
    assert wait_until(lambda: not liar.processes())


def test_stolen_request(pair):
    """A child that reads requests in the kernel's place makes the next run time out, and no more."""
    liar, _ = pair
    assert liar.run("if os.fork() == 0:\n    while True: os.read(3, 100000)")["verdict"] == "ok"
    done = liar.run("1", timeout_ms=500)
    # Either of the two may get it.
    assert (done["verdict"], done["state_lost"]) in (("timeout", True), ("ok", False), ("killed", True)), done


def test_control_socket_leads_to_nobody(pair, driver, user):
    """A pair without a name. Where the machine gives a pidfd of its other end, riddle, it is of no use from in here."""
    liar, _ = pair
    said = liar.tells("""
control = socket.socket(fileno=os.dup(3))
peer = struct.unpack("iII", control.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
def kill_peer():
    pidfd = struct.unpack("i", control.getsockopt(socket.SOL_SOCKET, 77, 4))[0]  # SO_PEERPIDFD
    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
tell({"names": [control.getsockname(), control.getpeername()], "peer": peer, "kill": attempt(kill_peer),
      "reopen": attempt(os.open, "/proc/self/fd/3", os.O_RDWR),
      "connect": attempt(control.connect, "\\0anything"), "accept": attempt(control.accept)})""")
    assert said["names"] == ["", ""]
    assert said["peer"] == [0, 65534, 65534] if user == "root" else [0, 1000, 1000]
    assert said["kill"] in (failed("OSError", "EINVAL"), failed("PermissionError", "EPERM"), failed("OSError", "ENOPROTOOPT"))
    assert said["reopen"] == failed("OSError", "ENXIO")
    assert said["connect"] == failed("ConnectionRefusedError", "ECONNREFUSED") and said["accept"] == failed("OSError", "EINVAL")
    assert driver.alive()


def test_nonblocking_output(pair):
    """A pipe that user code has made non-blocking does not lose its result."""
    liar, _ = pair
    assert liar.tells("os.set_blocking(3, False); os.set_blocking(1, False)\ntell('x')") == "x"
    assert liar.tells("tell('y')") == "y"


def test_kernel_refuses_other_requests(make_box):
    """The zygote takes its requests from riddle's socket alone; a kernel has none to it."""
    box = make_box()
    said = box.tells("""
found = []
for name in os.listdir("/proc/self/fd"):
    try:
        if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
            found.append(int(name))
    except OSError:
        pass
tell(found)""")
    assert said == [3]
