"""Cells that write to descriptor 3, on which their kernel speaks to riddle. The run alone suffers: it ends in a verdict, and a capsule
tells that it ran. tests/jail/test_protocol.py has every message that riddle must refuse; here the whole server is in between."""

import pytest
from attack import ALICE, SANITIZED, long_turns, python

FRAMES = """
import json, os, socket, struct, time
NUMBERS = {n: i for i, n in enumerate("none join start exec ingest list read write interrupt reply bytes ready failed result "
           "ingested listed piece written display progress ask".split())}
def frame(name, value, number=1):
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return struct.pack("<IIB3x", len(data), number, NUMBERS[name]) + data
def say(data):
    data = memoryview(data)
    while data:
        data = data[os.write(3, data):]
"""
MB = 1 << 10  # of kB

KEPT = {
    "failure": ("say(frame('failed', {'error': {'type': 'INTERNAL', 'message': 'made up'}}))", "killed"),
    "failure with a meaning": ("say(frame('failed', {'error': {'type': 'CONFLICT', 'message': 'made up'}}))", "killed"),
    "garbage": ("say(b'no message at all, of no use')", "killed"),
    "closed": ("os.close(3)", "killed"),
    "result that lies": ("say(frame('result', {'verdict': 'ok', 'columns': [], 'types': [], 'rows': [], 'row_count': -5, "
                         "'truncated': 'yes', 'exec_time_ms': 1e308}))", "killed"),
    "too many values": ("say(frame('display', b'{\"json\":[' + b'0,' * 4000000 + b'0]}'))", "killed"),
    "descriptors": ("s = socket.socket(fileno=os.dup(3))\nfor _ in range(50):\n    try: socket.send_fds(s, [frame('ready', b'')], "
                    "[0] * 200)\n    except OSError: pass\nsay(b'no message, of no use')", "killed"),
}


@pytest.mark.parametrize("name", KEPT)
def test_whatever_a_cell_says_leaves_a_capsule(server, bob, name):
    code, verdict = KEPT[name]
    said = python(server, FRAMES + code + "\ntime.sleep(30)")
    assert said.status == 200, said.body[:1000]
    assert (said.json["result"]["verdict"], said.json["status"]) == (verdict, "failed")
    capsule = server.get(f"/runs/{said.json['run_id']}", key=ALICE)
    assert capsule.status == 200 and capsule.json["verdict"] == verdict and "import json, os" in capsule.json["python_code"]
    assert "level=error" not in server.log.read_text()


def test_an_error_as_long_as_its_code(server, bob):
    """The line of a syntax error is part of its message; so is what an exception was given."""
    for code in ("(" * 500_000, "raise ValueError('\\x01' * 900_000)"):
        said = python(server, code)
        assert (said.status, said.json["result"]["verdict"]) == (200, "error"), said.body[:300]
        assert server.get(f"/runs/{said.json['run_id']}", key=ALICE).json["verdict"] == "error"


def test_ready_counts_once(server, bob):
    """A second one is dropped: nobody is told that the jail lacks a layer."""
    said = python(server, FRAMES + "say(frame('ready', {'version': 2, 'missing': 'seccomp,landlock'}, 0))\n'on'")
    assert said.json["result"]["verdict"] == "ok"
    assert "kernel.partial" not in server.log.read_text()


FLOODS = {
    "arrays": "data = frame('display', b'{\"json\":[' + b'0,' * (15 << 20) + b'0]}')",
    "kept displays": "data = frame('display', b'{\"json\":[' + b'0,' * 200000 + b'0]}')",
    "deep": "data = frame('display', b'{\"json\":' + b'[' * 60 + b']' * 60 + b'}') * 1000",
    "objects": "data = frame('display', json.dumps({'json': {str(i): {} for i in range(80000)}}).encode())",
    "large, of another run": "data = frame('result', b'z' * (31 << 20), 77)",
    "small": "data = frame('ready', b'{}') * 5000",
    "strings": "data = frame('display', {'text': 'x' * (4 << 20)})",
    "results": "data = frame('result', b'{\"verdict\":\"ok\",\"rows\":[' + b'[],' * 2000000 + b'[]]}')",
}


@pytest.mark.parametrize("name", FLOODS)
def test_floods_end_in_a_verdict(server, bob, name):
    """… and cost neither memory nor time of others."""
    before, turns = server.status_kb("VmRSS"), long_turns(server)
    said = python(server, FRAMES + FLOODS[name] + "\nwhile True: say(data)", timeout_seconds=20)
    assert said.status == 200, said.body[:1000]
    result = said.json["result"]
    assert result["verdict"] in ("output", "killed"), result["verdict"]
    assert server.get(f"/runs/{said.json['run_id']}", key=ALICE).json["verdict"] == result["verdict"]
    assert server.status_kb("VmRSS") - before < (400 if SANITIZED else 128) * MB
    assert long_turns(server) == turns


ANSWERS = {"wide": (60000, "[0] * 60000"), "nested": (1, "[[[]] * 100000]")}


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_of_many_values(server, bob, name):
    """… are parsed beside the loop."""
    width, row = ANSWERS[name]
    turns = long_turns(server)
    said = python(server, FRAMES + f"say(frame('result', {{'verdict': 'ok', 'exec_time_ms': 1, 'columns': ['c'] * {width}, "
                  f"'types': ['I'] * {width}, 'rows': [{row}], 'row_count': 1, 'truncated': False}}))\ntime.sleep(30)")
    assert said.json["result"]["verdict"] == "ok" and len(said.json["result"]["columns"]) == width
    assert long_turns(server) == turns


def test_a_figure_of_many_values_is_a_file(server, bob):
    said = python(server, "class Many:\n    def _repr_json_(self): return [{'n': i} for i in range(30000)]\ndisplay(Many())")
    (output,) = said.json["result"]["outputs"]
    assert "json" not in output and output["json_bytes"] > 200000
    got = server.get(output["json_url"], key=ALICE)
    assert got.status == 200 and got.json == [{"n": i} for i in range(30000)]


def test_many_flooding_cells_at_once(server, bob):
    """Six of them, over and over, for some seconds."""
    from concurrent.futures import ThreadPoolExecutor
    codes = [FRAMES + FLOODS[name] + "\nwhile True: say(data)" for name in ("arrays", "kept displays", "small")] * 4
    before = server.status_kb("VmRSS")
    with ThreadPoolExecutor(6) as clients:
        answers = list(clients.map(lambda code: python(server, code, timeout_seconds=20), codes))
    assert [a.status for a in answers] == [200] * len(codes)
    assert {a.json["result"]["verdict"] for a in answers} <= {"output", "killed"}
    assert server.status_kb("VmHWM") - before < 400 * MB
