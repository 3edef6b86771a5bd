"""Editors attach to sandboxes: src/dap, driven by the client that Microsoft tests debug adapters with, and by hand."""

import json
import socket
import subprocess
import time
from pathlib import Path

import pytest

from api import Background
from server import RIDDLE, Server, wait_until
from test_chat import KEYS

CLIENT = Path(__file__).parent / "dap_client.cjs"
FILE = "/home/ann/work.py"
LOOP = "total = 0\nfor i in range(4):\n    total += i\nprint('total', total)\n"
CALLS = "def half(n):\n    h = n // 2\n    return h\ntotal = 10\nfor i in range(4):\n    total += half(i)\nprint(total)\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    directory = tmp_path_factory.mktemp("dap")
    (directory / "datasets").mkdir()
    with Server(directory, RIDDLE_PRELOAD="numpy", RATE_LIMIT_MAX=0, **KEYS) as s:
        s.key = "ann-key-0123456789"
        yield s


@pytest.fixture(scope="module")
def sandbox(server):
    return server.post("/sandbox/create", {"policy": "open", "max_cpu_percent": 400}).json["sandbox_id"]


def offer(server, sandbox, code, **more):
    answer = server.post(f"/sandbox/{sandbox}/dap", {"code": code, "path": FILE, **more})
    assert answer.status == 200, answer.body
    return answer.json


def drive(offered, scenario):
    command = ["node", str(CLIENT), str(offered["port"]), offered["token"], scenario]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=90)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


# ---- as an editor ----


def test_breakpoints_frames_and_stepping(server, sandbox):
    seen = drive(offer(server, sandbox, CALLS), "breakpoints")
    assert seen["capabilities"]["supportsStepBack"] and seen["capabilities"]["supportsConditionalBreakpoints"]
    assert [(p["verified"], p["line"]) for p in seen["told"]] == [(True, 2), (True, 6), (False, 999)]
    first = seen["first"]
    assert (first["reason"], first["line"], first["hitBreakpointIds"]) == ("breakpoint", 2, [1])
    assert [(f["name"], f["line"]) for f in first["frames"]] == [("half", 2), ("<module>", 6)]
    assert first["frames"][0]["source"]["path"] == FILE
    assert seen["inside"]["n"]["value"] == "0" and seen["scopes"] == ["Locals", "Globals"] and "total" in seen["globals"]
    assert seen["caller"]["result"] == "11"
    assert seen["out"]["reason"] == "step" and seen["out"]["frames"][0]["name"] == "<module>"
    assert (seen["conditional"]["line"], seen["i"]["result"]) == (6, "2")
    assert seen["output"]["stdout"] == "12\n", seen["output"]


def test_values_are_opened_and_changed(server, sandbox):
    code = "n = 1\ndata = {'k': [1, 2], 'x': None}\n\n\nprint(n, data)\n"
    seen = drive(offer(server, sandbox, code), "values")
    assert (seen["entry"]["reason"], seen["entry"]["line"], seen["at"]["line"]) == ("entry", 1, 5)
    assert seen["inner"]["'x'"]["value"] == "None" and seen["inner"]["'k'"]["evaluateName"] == "data['k']"
    assert seen["deep"]["[1]"]["evaluateName"] == "data['k'][1]"
    assert (seen["item"]["value"], seen["number"]["value"], seen["expression"]["value"]) == ("22", "41", "42")
    assert seen["statement"]["result"] == "" and seen["list"]["result"] == "[42, 84]" and seen["held"]["[1]"]["value"] == "84"
    assert "ZeroDivisionError" in seen["wrong"] and "not paused" in seen["late"]
    assert seen["output"]["stdout"] == "42 {'k': [1, 22], 'x': None, 'new': 42}\n"


def test_back_in_time(server, sandbox):
    seen = drive(offer(server, sandbox, LOOP.replace("total", "walked")), "back")
    assert seen["first"]["line"] == 2 and seen["there"]["result"] == "1"
    assert [(seen[at]["reason"], seen[at]["line"]) for at in ("one", "hit", "earlier", "start")] == [
        ("step", 3), ("breakpoint", 2), ("breakpoint", 2), ("entry", 1)]
    assert "NameError" in seen["before"] and "first step" in seen["edge"]
    assert seen["output"]["stdout"] == "walked 106\n", seen["output"]  # it went on from the changed value


def test_uncaught_exception_stops_with_its_text(server, sandbox):
    seen = drive(offer(server, sandbox, "def f():\n    raise ValueError('boom')\nf()\n"), "exception")
    assert (seen["at"]["reason"], seen["at"]["text"], seen["at"]["line"]) == ("exception", "ValueError", 2)
    assert seen["info"]["exceptionId"] == "ValueError" and "boom" in seen["info"]["description"]
    assert "ValueError: boom" in seen["output"]["stderr"]


def test_busy_loop_is_paused(server, sandbox):
    code = "n = 0\nkeep_going = True\nwhile keep_going:\n    n += 1\n    if n == 100:\n        print('looping', flush=True)\nprint('ended')\n"
    seen = drive(offer(server, sandbox, code), "pause")
    assert seen["at"]["reason"] == "pause" and seen["n"] >= 100 and seen["output"]["stdout"] == "looping\nended\n"


def test_logpoints_print_and_do_not_stop(server, sandbox):
    seen = drive(offer(server, sandbox, LOOP), "logpoint")
    assert seen["told"][0]["verified"] and seen["output"]["console"] == "total is 0\ntotal is 1\ntotal is 3\n"
    assert seen["output"]["stdout"] == "total 6\n"


def test_detached_execution_goes_on_and_is_kept(server, sandbox):
    offered = offer(server, sandbox, LOOP + "detached = total\n")
    assert drive(offered, "detach")["at"]["line"] == 2
    wait_until(lambda: server.get(f"/sandbox/{sandbox}/history").json["history"][0]["status"] == "completed", "the end of the execution")
    assert server.post(f"/sandbox/{sandbox}/execute", {"code": "detached"}).json["result"] == 6


def test_code_without_a_file_is_a_source_of_its_own(server, sandbox):
    seen = drive(offer(server, sandbox, LOOP, path=None, stop_on_entry=True), "source")
    assert seen["at"]["reason"] == "entry" and seen["text"] == LOOP


def test_command_prints_an_entry_for_an_editor(server, sandbox, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(LOOP)
    command = [str(RIDDLE), "sandbox", "debug", "--server", f"http://127.0.0.1:{server.port}", sandbox, str(script)]
    ran = subprocess.run(command, capture_output=True, text=True, env={"RIDDLE_API_KEY": server.key}, timeout=60)
    assert ran.returncode == 0, ran.stderr
    entry = json.loads(ran.stdout)
    assert (entry["type"], entry["request"]) == ("debugpy", "attach") and "launch.json" in ran.stderr
    assert drive({"port": entry["connect"]["port"], "token": entry["token"]}, "logpoint")["output"]["stdout"] == "total 6\n"


# ---- what must not work ----


def test_tokens_work_once_and_belong_to_the_owner(server, sandbox):
    offered = offer(server, sandbox, "x = 1")
    drive(offered, "logpoint")
    assert "expired" in drive(offered, "refused")["why"]
    assert "expired" in drive({"port": offered["port"], "token": "0" * 64}, "refused")["why"]
    other = server.post(f"/sandbox/{sandbox}/dap", {"code": "1"}, key="ben-key-0123456789")
    assert other.status == 404
    plain = server.post("/sandbox/create", {"enable_debugging": False}).json["sandbox_id"]
    assert server.post(f"/sandbox/{plain}/dap", {"code": "1"}).status == 409


def test_code_that_cannot_run_refuses_the_client(server, sandbox):
    assert "Invalid Python syntax" in drive(offer(server, sandbox, "x = ("), "refused")["why"]


def connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=20)


def message(seq, command, **arguments):
    text = json.dumps({"seq": seq, "type": "request", "command": command, "arguments": arguments}).encode()
    return b"Content-Length: %d\r\n\r\n%s" % (len(text), text)


def read_all(s):
    got = b""
    while chunk := s.recv(65536):
        got += chunk
    return got


def test_hostile_bytes_end_their_own_connection_only(server, sandbox):
    port = offer(server, sandbox, "1")["port"]
    bad = [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"Content-Length: 99999999999\r\n\r\n",
        b"Content-Length: -1\r\n\r\n",
        b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
        b"Content-Length: 2\r\n\r\n{}",
        b"Content-Length: 5\r\n\r\n[1,2]",
        b"Content-Length: 400\r\n\r\n" + b"[" * 400,
        b"x" * 5000,
    ]
    for bytes_ in bad:
        with connect(port) as s:
            s.sendall(bytes_)
            assert b'"event":"output"' in read_all(s).replace(b" ", b""), bytes_[:40]
    assert server.get("/healthz").status == 200


def test_requests_before_attaching_are_refused_and_unknown_ones_too(server, sandbox):
    port = offer(server, sandbox, "1")["port"]
    names = ["threads", "continue", "evaluate", "stackTrace", "stepBack", "configurationDone", "noSuchThing", "terminate"]
    with connect(port) as s:
        s.sendall(b"".join(message(i, name) for i, name in enumerate(names, 1)) + message(99, "disconnect"))
        got = read_all(s)
    answers = [json.loads(part.split(b"\r\n\r\n", 1)[1]) for part in got.split(b"Content-Length: ")[1:]]
    ok = {a["command"]: a["success"] for a in answers}
    assert ok == {**dict.fromkeys(names, False), "threads": True, "terminate": True, "disconnect": True}


def test_connection_that_breaks_ends_the_execution(server, sandbox):
    offered = offer(server, sandbox, "import time\nwhile True:\n    time.sleep(0.01)\n")
    with connect(offered["port"]) as s:
        s.sendall(message(1, "initialize") + message(2, "attach", token=offered["token"]))
        got = b""
        while b'"initialized"' not in got:
            got += s.recv(65536)
        s.sendall(message(3, "configurationDone"))
        time.sleep(0.1)
    started = time.monotonic()
    assert server.post(f"/sandbox/{sandbox}/execute", {"code": "7"}).json["result"] == 7
    assert time.monotonic() - started < 15


# ---- executions of others ----


def attach_to_next(server, sandbox):
    """An editor that waits for the next execution."""
    def attach():
        offered = server.post(f"/sandbox/{sandbox}/dap", {}).json
        editor = WebSocket(server, offered["websocket"])
        editor.frame(editor.request("attach", token=offered["token"]))
        return editor
    editor, rival = attach(), attach()
    refused = rival.until("attach")
    assert not refused["success"] and "another debugger waits" in refused["message"]
    rival.close()
    return editor


def test_editor_steps_through_what_another_client_executes(server, sandbox):
    editor = attach_to_next(server, sandbox)
    running = Background(server.post, f"/sandbox/{sandbox}/execute", {"code": LOOP + "total"})
    editor.until("initialized")
    assert editor.ask("setBreakpoints", source={"path": FILE}, breakpoints=[{"line": 3, "condition": "i == 3"}])["breakpoints"][0]["verified"]
    editor.ask("configurationDone")
    assert editor.until("stopped")["body"]["reason"] == "breakpoint"
    frame = editor.ask("stackTrace", threadId=1)["stackFrames"][0]
    editor.ask("setExpression", expression="total", value="1000", frameId=frame["id"])
    editor.ask("continue", threadId=1)
    editor.until("terminated")
    editor.close()
    assert running.result().json["result"] == 1003
    # The next one is nobody's again.
    assert server.post(f"/sandbox/{sandbox}/execute", {"code": "total"}).json["result"] == 1003


def test_editor_that_waits_or_lets_go_holds_nobody_up(server, sandbox):
    for leave in ("disconnect", None):
        editor = attach_to_next(server, sandbox)
        if leave:
            editor.frame(editor.request(leave))
            assert editor.until(leave)["success"]
        editor.close()
        wait_until(lambda: server.post(f"/sandbox/{sandbox}/execute", {"code": "6 * 7"}).json["result"] == 42, "it runs without a debugger")
    for leave in ("disconnect", None):
        editor = attach_to_next(server, sandbox)
        running = Background(server.post, f"/sandbox/{sandbox}/execute", {"code": "x = 6\nx * 7"})
        editor.until("initialized")
        if leave:
            editor.ask(leave)
        editor.close()
        done = running.result().json
        assert (done["status"], done["result"]) == (("completed", 42) if leave else ("cancelled", None))


# ---- over a WebSocket ----


class WebSocket:
    """The client's side of RFC 6455, as small as it can be."""

    def __init__(self, server, path, key=None, **headers):
        self.socket = socket.create_connection(("127.0.0.1", server.port), 30)
        self.stream = self.socket.makefile("rb")
        head = {"Host": f"127.0.0.1:{server.port}", "Authorization": f"Bearer {key or server.key}", "Upgrade": "websocket",
                "Connection": "keep-alive, Upgrade", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", **headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in head.items() if value)
        self.socket.sendall(f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode())
        self.status = int(self.stream.readline().split()[1])
        self.headers = {}
        while (line := self.stream.readline().strip()):
            name, _, value = line.decode().partition(": ")
            self.headers[name.lower()] = value
        self.seq = 0

    def frame(self, payload, opcode=1, last=True, mask=b"\x12\x34\x56\x78"):
        data = payload.encode() if isinstance(payload, str) else payload
        size = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + len(data).to_bytes(2, "big")
        self.socket.sendall(bytes([opcode | (0x80 if last else 0)]) + size + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(data)))

    def take(self):
        """(opcode, payload) of the next frame; None at the end."""
        head = self.stream.read(2)
        if len(head) < 2:
            return None
        size = head[1]
        assert head[0] & 0x80 and size < 128
        if size > 125:
            size = int.from_bytes(self.stream.read(2 if size == 126 else 8), "big")
        return head[0] & 15, self.stream.read(size)

    def request(self, command, **arguments):
        self.seq += 1
        return json.dumps({"seq": self.seq, "type": "request", "command": command, "arguments": arguments})

    def until(self, wanted):
        """The first message that is an answer to this command, or an event of this name."""
        while True:
            opcode, payload = self.take()
            assert opcode == 1
            message = json.loads(payload)
            if wanted in (message.get("command"), message.get("event")):
                return message

    def ask(self, command, **arguments):
        self.frame(self.request(command, **arguments))
        answer = self.until(command)
        assert answer["success"], answer
        return answer.get("body")

    def close(self):
        self.stream.close()
        self.socket.close()


def test_editor_attaches_over_a_websocket(server, sandbox):
    offered = offer(server, sandbox, LOOP)
    editor = WebSocket(server, offered["websocket"])
    assert editor.status == 101 and editor.headers["sec-websocket-accept"] == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    assert editor.ask("initialize", adapterID="x")["supportsStepBack"]
    editor.frame("still there?", opcode=9)
    assert editor.take() == (10, b"still there?")
    text = editor.request("attach", token=offered["token"])
    editor.frame(text[:10], last=False)  # in pieces, with a ping between them
    editor.frame("", opcode=9)
    editor.frame(text[10:], opcode=0)
    assert editor.take() == (10, b"")
    editor.until("initialized")
    points = editor.ask("setBreakpoints", source={"path": FILE}, breakpoints=[{"line": 3, "condition": "i == 2"}])
    assert points["breakpoints"][0]["verified"]
    editor.ask("configurationDone")
    assert editor.until("stopped")["body"]["reason"] == "breakpoint"
    frame = editor.ask("stackTrace", threadId=1)["stackFrames"][0]
    assert frame["line"] == 3 and editor.ask("evaluate", expression="total", frameId=frame["id"])["result"] == "1"
    editor.ask("setExpression", expression="total", value="'x' * 70000", frameId=frame["id"])  # an answer of more than 65,535 bytes is possible
    editor.ask("setExpression", expression="total", value="100", frameId=frame["id"])
    editor.ask("continue", threadId=1)
    assert editor.until("output")["body"]["output"] == "total 105\n"
    editor.until("terminated")
    editor.frame((1000).to_bytes(2, "big"), opcode=8)
    assert editor.take() == (8, (1000).to_bytes(2, "big")) and editor.take() is None
    editor.close()


def test_websocket_takes_offers_of_its_owner_and_sandbox_only(server, sandbox):
    other = server.post("/sandbox/create", {}).json["sandbox_id"]
    offered = offer(server, sandbox, "x = 1")
    for path, key, status in ((f"/sandbox/{sandbox}/dap", "ben-key-0123456789", 404), ("/sandbox/none/dap", None, 404)):
        editor = WebSocket(server, path, key)
        assert editor.status == status
        editor.close()
    editor = WebSocket(server, f"/sandbox/{other}/dap")
    editor.frame(editor.request("attach", token=offered["token"]))
    assert not editor.until("attach")["success"]
    editor.close()
    editor = WebSocket(server, f"/sandbox/{sandbox}/dap")  # the token was not used up
    editor.frame(editor.request("attach", token=offered["token"]))
    editor.until("initialized")
    editor.close()
    server.delete(f"/sandbox/{other}")


def test_what_is_no_websocket_is_told_so(server, sandbox):
    path = f"/sandbox/{sandbox}/dap"
    plain = server.get(path)
    assert plain.status == 426 and plain.headers["upgrade"] == "websocket" and "WebSocket" in plain.error[1]
    for header, value, status in (("Sec-WebSocket-Version", "8", 426), ("Sec-WebSocket-Key", "short", 400), ("Sec-WebSocket-Key", None, 400),
                                  ("Connection", "keep-alive", 426), ("Origin", "http://evil.example", 403), ("Authorization", None, 401)):
        refused = WebSocket(server, path, **{header: value})
        assert refused.status == status, (header, value, refused.status)
        refused.close()


def test_hostile_frames_end_their_own_connection_only(server, sandbox):
    offered = offer(server, sandbox, "x = 1")
    for raw in (b"\x81\x05hello", b"\xf1\x80\0\0\0\0", b"\x83\x80\0\0\0\0", b"\x80\x80\0\0\0\0", b"\x09\x80\0\0\0\0",
                b"\x81\xff\0\0\0\0\x7f\xff\xff\xff\0\0\0\0", b"\x01\x80\0\0\0\0\x01\x80\0\0\0\0", b"\x82\x82\0\0\0\0{}", b"\x81\x82\0\0\0\0[]"):
        editor = WebSocket(server, offered["websocket"])
        editor.socket.sendall(raw)
        said = []
        while (frame := editor.take()) and frame[0] != 8:
            said.append(json.loads(frame[1])["event"])
        assert said == ["output"] and frame is not None, raw
        editor.close()
    editor = WebSocket(server, offered["websocket"])
    editor.frame(editor.request("attach", token=offered["token"]))
    editor.until("initialized")
    editor.close()
