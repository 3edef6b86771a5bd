"""The control socket, descriptor 3, is user code's to write on. Whatever it says, only its own run can suffer, and riddle says why."""

import os
import time

import pytest
from conftest import MB, failed, status_of, wait_until

# What cells need to speak as the kernel does.
FRAMES = """
def frame(value):
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return struct.pack("<I", len(data)) + data

def say(data):
    while data:
        data = data[os.write(3, data):]

EMPTY = {"columns": [], "types": [], "rows": [], "row_count": 0, "truncated": False, "error": None, "value": None}
def result(number, **more):
    return frame({"event": "result", "id": number, "verdict": "ok", **EMPTY, **more})
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


BROKEN = {
    "text": ("say(b'garbage, garbage')", "control frame of 1651663207 bytes; at most 67108864 are allowed"),
    "empty frame": ("say(bytes(4))", "control frame of 0 bytes; at most 67108864 are allowed"),
    "largest length": ("say(b'\\xff' * 4)", "control frame of 4294967295 bytes; at most 67108864 are allowed"),
    "one too long": ("say(struct.pack('<I', (64 << 20) + 1))", "control frame of 67108865 bytes; at most 67108864 are allowed"),
    "no JSON": ("say(frame(b'{no json'))", "the kernel sent something that is not JSON"),
    "bad UTF-8": ("say(frame(b'{\"event\":\"\\xff\\xfe\"}'))", "the kernel sent something that is not JSON"),
    "deep JSON": ("say(frame(b'[' * 1000000))", "the kernel sent something that is not JSON"),
    "unknown verdict": (f"say(result({THIS_RUN}, verdict='splendid'))", "the kernel sent a result of the wrong shape"),
    "no verdict": (f"say(result({THIS_RUN}, verdict=None))", "the kernel sent a result of the wrong shape"),
    "columns of numbers": (f"say(result({THIS_RUN}, columns=[1]))", "the kernel sent a result of the wrong shape"),
    "ragged rows": (f"say(result({THIS_RUN}, columns=['a'], rows=[[1], [1, 2]]))", "the kernel sent a result of the wrong shape"),
    "rows that are none": (f"say(result({THIS_RUN}, columns=['a'], rows=['x']))", "the kernel sent a result of the wrong shape"),
    "error that is none": (f"say(result({THIS_RUN}, error={{'type': 1}}))", "the kernel sent a result of the wrong shape"),
    "failure": ("say(frame({'event': 'failed', 'error': {'message': 'made up'}}))", "made up"),
    "failure without words": ("say(frame({'event': 'failed', 'error': 5}))", "the kernel failed"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_frame(pair, driver, name):
    """The kernel is given up: nothing that it says can be used any more."""
    liar, _ = pair
    code, words = BROKEN[name]
    done = liar.run(code + "\ntime.sleep(100)", timeout_ms=20000)
    assert done.get("error", {}).get("message") == words, done
    assert wait_until(lambda: not liar.processes())
    assert liar.run("1")["error"]["message"] == "the kernel of this sandbox is gone"


IGNORED = {
    "no object": "say(frame([1, 2]) + frame('text') + frame(b'null') + frame(b'1'))",
    "unknown event": "say(frame({'event': 'invented', 'x': 1}) + frame({}) + frame({'event': 5}))",
    "ready again": "say(frame({'event': 'ready', 'missing': ''}))",
    "result of another run": "say(result(1, value='old') + result(99999, value='far') + result(-1) + result('x') + result(1 << 62))",
    "progress": "say(frame({'event': 'progress', 'fraction': 'x'}) + frame({'event': 'progress', 'fraction': 1e308}))",
    "displays of the wrong shape": "say(frame({'event': 'display', 'data': 5}) + frame({'event': 'display'}) + "
                                   "frame({'event': 'display', 'data': {'png': 5, 'nonsense': 'x'}}))",
    "frames in pieces": "for b in frame({'event': 'invented', 'x': 'y' * 50}): say(bytes([b]))",
}


@pytest.mark.parametrize("name", IGNORED)
def test_frame_without_meaning(pair, name):
    liar, _ = pair
    assert liar.tells(IGNORED[name] + "\ntell('done')") == "done"
    assert liar.tells("tell('again')") == "again"


def test_forged_result(pair):
    """User code can say what its own run gives; that is its right. The true answer that follows is nobody's."""
    liar, _ = pair
    done = liar.run(f"say(result({THIS_RUN}, columns=['a'], rows=[['forged']], row_count=1))")
    assert (done["verdict"], done["body"]["rows"]) == ("ok", [["forged"]])
    assert liar.tells("tell('next')") == "next"


def test_forged_result_of_the_next_run(pair):
    """At most its own next result is forged; those after it are true again."""
    liar, _ = pair
    liar.run(f"say(result({NEXT_RUN}, value='forged'))")
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
    done = liar.run("say(struct.pack('<I', 64 << 20))", timeout_ms=150)
    assert (done["verdict"], done["state_lost"]) == ("timeout", True), done


@pytest.mark.parametrize("code", [
    "data = frame({'event': 'invented'}) * 1000\nwhile True: say(data)",
    "data = frame({'event': 'display', 'data': {'text': 'x' * 100000}})\nwhile True: say(data)",
    "data = frame({'event': 'display', 'data': {'json': list(range(20000))}})\nwhile True: say(data)",
    "data = frame(b'{\"event\":\"x\",\"y\":\"' + b'z' * (16 << 20) + b'\"}')\nwhile True: say(data)",
], ids=["small frames", "displays", "displays of structure", "large frames"])
def test_flood_of_frames(pair, driver, code):
    """Riddle goes on measuring time while it reads, and keeps no more than it allows itself."""
    liar, _ = pair
    before, begun = resident(driver), time.monotonic()
    done = liar.run(code, timeout_ms=300)
    assert done["verdict"] == "timeout", {k: v for k, v in done.items() if k != "displays"}
    assert time.monotonic() - begun < 5
    assert len(done["displays"]) <= 64
    assert resident(driver) - before < 256 * MB


def test_passed_descriptors_are_closed(pair, driver):
    liar, _ = pair
    before = descriptors(driver.pid)
    assert liar.tells("""
control = socket.socket(fileno=os.dup(3))
for _ in range(50):
    while True:
        try:
            socket.send_fds(control, [frame({"event": "invented"})], [0, 1, 2] * 20)
            break
        except OSError as error:  # the kernel of the machine bounds how many are under way
            if error.errno != errno.ETOOMANYREFS: raise
tell("done")""") == "done"
    assert descriptors(driver.pid) == before


def test_too_many_descriptors(pair, driver):
    """riddle takes no descriptor from a kernel, however many come at once."""
    liar, _ = pair
    before = descriptors(driver.pid)
    assert liar.tells("""
control = socket.socket(fileno=os.dup(3))
socket.send_fds(control, [frame({"event": "invented"})], [0] * 200)
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
