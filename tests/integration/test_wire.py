"""A kernel spoken to without riddle: it asks while it runs, and a message interrupts it where no signal can."""

import os
import socket
import struct
import subprocess

import pytest
import wire

pytestmark = pytest.mark.plain

BUILD = os.path.abspath(os.environ.get("RIDDLE_BUILD", "build"))
HELLO, MAP, MAPPED, SPAWN, SPAWNED = range(1, 6)


def record(op, value=0):
    return struct.pack("<IHHiiq", 0x6C644452, wire.VERSION, op, 0, 0, value)


class Kernel:
    """One that a zygote of its own has forked. It has no control groups."""

    def __init__(self, **start):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.zygote = subprocess.Popen([f"{BUILD}/riddle-kernel", "--zygote=python", "--one-shot", "--partial"], pass_fds=[3],
                                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                       preexec_fn=lambda: os.dup2(theirs.fileno(), 3))
        theirs.close()
        op = 0
        while op != HELLO:
            op = struct.unpack("<IHHiiq", ours.recv(64))[2]
        self.control, control = socket.socketpair()
        self.out, out = os.pipe()
        socket.send_fds(ours, [record(SPAWN)], [control.fileno(), out, out])
        _, fds, _, _ = socket.recv_fds(ours, 64, 1)
        for fd in (*fds, out):
            os.close(fd)
        control.close()
        ours.close()
        self.data = b""
        self.control.settimeout(60)
        self.control.sendall(wire.message("join", groups=0) + wire.message("start", **{**wire.START, **start}))
        assert self.next()["message"] == "ready"

    def next(self):
        while True:
            found, _ = wire.messages(self.data)
            if found:
                self.data = self.data[12 + struct.unpack("<I", self.data[:4])[0]:]
                return found[0]
            more = self.control.recv(65536)
            assert more, "the kernel is gone"
            self.data += more

    def close(self):
        self.control.close()
        os.close(self.out)
        self.zygote.kill()
        self.zygote.wait()


@pytest.fixture
def kernel():
    made = Kernel(interrupts=True)
    yield made
    made.close()


def test_input_asks_and_waits_for_the_reply(kernel):
    kernel.control.sendall(wire.execute(1, "python", "name = input('who? ')\nname * 2"))
    asked = kernel.next()
    assert (asked["message"], asked["what"], asked["args"]) == ("ask", "input", {"prompt": "who? "})
    kernel.control.sendall(wire.message("reply", asked["id"] + 1, value="of another question", error=None))
    kernel.control.sendall(wire.message("reply", asked["id"], value="ann", error=None))
    result = kernel.next()
    assert (result["message"], result["id"], result["rows"]) == ("result", 1, [["annann"]])


def test_input_without_anybody_to_ask(kernel):
    kernel.control.sendall(wire.execute(1, "python", "input()"))
    error = {"type": "UNAVAILABLE", "message": "nobody is there to answer"}
    kernel.control.sendall(wire.message("reply", kernel.next()["id"], value=None, error=error))
    assert kernel.next()["error"]["message"] == "EOFError: input() is not available: nobody is there to answer (line 1)"


@pytest.mark.parametrize("code", ["print('begun', flush=True)\nwhile True: pass", "print('begun', flush=True)\nimport time; time.sleep(60)"])
def test_a_message_interrupts_a_cell_and_its_state_is_kept(kernel, code):
    kernel.control.sendall(wire.execute(1, "python", "x = 7") + wire.execute(2, "python", code))
    assert kernel.next()["verdict"] == "ok"
    assert os.read(kernel.out, 100) == b"begun\n"
    kernel.control.sendall(wire.message("interrupt", 1) + wire.message("interrupt", 2))
    result = kernel.next()
    assert (result["id"], result["verdict"]) == (2, "interrupted")
    kernel.control.sendall(wire.message("interrupt", 2) + wire.execute(3, "python", "x"))
    assert kernel.next()["rows"] == [[7]]


def test_a_message_interrupts_a_question(kernel):
    kernel.control.sendall(wire.execute(1, "python", "input()"))
    asked = kernel.next()
    kernel.control.sendall(wire.message("interrupt", 1))
    assert kernel.next()["verdict"] == "interrupted"
    kernel.control.sendall(wire.message("reply", asked["id"], value="late", error=None) + wire.execute(2, "python", "1"))
    assert kernel.next()["rows"] == [[1]]


def test_a_request_that_is_not_permitted_ends_the_kernel(kernel):
    kernel.control.sendall(wire.message("start", **wire.START))
    said = kernel.next()
    assert (said["message"], said["error"]["message"]) == ("failed", "'start' is not permitted now")
