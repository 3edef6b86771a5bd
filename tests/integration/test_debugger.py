"""/sandbox/{id}/debug: steps, breakpoints, pauses, evaluation."""

import json
import threading

import pytest

from server import Server, read_events, wait_until
from test_chat import KEYS

pytestmark = pytest.mark.plain

PAUSE_SECONDS = 4


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    directory = tmp_path_factory.mktemp("debugger")
    (directory / "datasets").mkdir()
    settings = {"RIDDLE_PRELOAD": "numpy,pandas", "RATE_LIMIT_MAX": 0, "RIDDLE_DEBUG_PAUSE_SECONDS": PAUSE_SECONDS}
    with Server(directory, **settings, **KEYS) as s:
        s.key = "ann-key-0123456789"
        yield s


@pytest.fixture(scope="module")
def sandbox(server):
    return server.post("/sandbox/create", {"policy": "open", "max_cpu_percent": 400}).json["sandbox_id"]


class Debugged:
    """One execution: its events as they come, and commands for it."""

    def __init__(self, server, sandbox, code, **more):
        self.server, self.sandbox, self.steps, self.id = server, sandbox, [], None
        self.connection = server.connect()
        headers = {**server.headers(), "Content-Type": "application/json"}
        self.connection.request("POST", f"/sandbox/{sandbox}/debug", json.dumps({"code": code, **more}), headers)
        response = self.connection.getresponse()
        assert response.status == 200, response.read()
        self.events = read_events(response)

    def wait(self, stage):
        """The status of this stage, or the result when that comes first. Steps are kept."""
        for name, data in self.events:
            assert data["type"] == name
            if name == "step":
                self.steps.append(data)
            elif name == "status" and data["stage"] == "debugging":
                self.id = data["debug_id"]
            if name == "result" or (name == "status" and data["stage"] == stage):
                return data
        return None

    def paused(self):
        told = self.wait("paused")
        assert told["type"] == "status", told
        return told

    def result(self):
        told = self.wait("")
        assert self.wait("") is None
        return told

    def do(self, command, **more):
        return self.server.post(f"/sandbox/{self.sandbox}/debug/{self.id}", {"command": command, **more})

    def value(self, command, **more):
        answer = self.do(command, **more)
        assert answer.status == 200, answer.body
        return answer.json

    def go(self, command="continue"):
        assert self.value(command)["status"] == "running"
        return self

    def lines(self):
        return [s for s in self.steps if "line" in s]


def run(server, sandbox, code, **more):
    it = Debugged(server, sandbox, code, **more)
    return it.result(), it.lines()


def changes(steps):
    return {(s["line"], name): value["repr"] for s in steps for name, value in s["variables"].items()}


# ---- steps ----


def test_each_line_is_told_with_what_it_changed_and_printed(server, sandbox):
    code = "total = 0\nfor i in range(3):\n    total += i\n    print('i is', i)\nwords = ['a']\nwords.append('b')\ndel total\n"
    result, steps = run(server, sandbox, code)
    assert result["status"] == "completed" and result["stdout"] == "i is 0\ni is 1\ni is 2\n"
    assert result["stepped"] == {"lines": 14, "steps": 14}
    assert [s["line"] for s in steps] == [1, 2, 3, 4, 2, 3, 4, 2, 3, 4, 2, 5, 6, 7]
    assert [s["step"] for s in steps] == list(range(1, 15))
    assert steps[0]["source"] == "total = 0" and steps[0]["function"] == "<module>" and steps[0]["depth"] == 0
    assert steps[0]["variables"] == {"total": {"type": "int", "repr": "0"}}
    assert [s.get("output") for s in steps if s["line"] == 4] == ["i is 0\n", "i is 1\n", "i is 2\n"]
    assert steps[12]["variables"] == {"words": {"type": "list", "repr": "['a', 'b']", "size": 2}}
    assert steps[13]["removed"] == ["total"] and all(s["time_us"] >= 0 for s in steps)
    stored = server.get(f"/runs/{result['execution_id']}")
    assert stored.status == 200 and stored.json["status"] == "succeeded"


def test_functions_comprehensions_generators_and_await(server, sandbox):
    code = (
        "def double(n):\n    half = n\n    return half * 2\n"  # 1-3
        "y = double(4)\nsquares = [v * v for v in range(3)]\n"  # 4-5
        "def gen():\n    got = yield 1\n    yield got\n"  # 6-8
        "g = gen()\nfirst = next(g)\nsecond = g.send(7)\n"  # 9-11
        "import asyncio\nasync def slow(n):\n    await asyncio.sleep(0)\n    return n + 1\n"  # 12-15
        "z = await slow(1)\ny + z\n"  # 16-17
    )
    result, steps = run(server, sandbox, code)
    assert result["result"] == 10, result
    changed = changes(steps)
    assert changed[4, "y"] == "8" and changed[2, "n"] == "4" and changed[2, "half"] == "4"
    assert changed[5, "squares"] == "[0, 1, 4]" and changed[11, "second"] == "7" and changed[7, "got"] == "7"
    assert changed[16, "z"] == "2" and changed[14, "n"] == "1"
    inner = [s for s in steps if s["function"] == "double"]
    assert [s["depth"] for s in inner] == [1, 1] and inner[-1]["returned"] == {"type": "int", "repr": "8"}
    # A line that calls is told when it calls and, resumed, when something has changed behind it: one step all the same.
    call = [s for s in steps if s["line"] == 4]
    assert [s.get("resumed") for s in call] == [None, True] and call[0]["step"] == call[1]["step"]


def test_frames_have_shapes_and_types(server, sandbox):
    code = "import pandas as pd, numpy as np\ndf = pd.DataFrame({'a': [1, 2], 'b': ['x', 'y']})\ndf.loc[0, 'a'] = 9\nn = np.zeros((3, 4))\nn[0, 0] = 1"
    _, steps = run(server, sandbox, code)
    told = [s["variables"] for s in steps]
    assert told[1]["df"]["shape"] == [2, 2] and told[1]["df"]["dtypes"] == {"a": "int64", "b": "object"}
    assert "df" in told[2] and told[3]["n"]["shape"] == [3, 4] and told[3]["n"]["dtype"] == "float64" and "n" in told[4]
    assert told[1]["df"]["type"] == "pandas.DataFrame" and told[1]["df"]["size"] == 2


def test_no_method_of_a_users_class_is_run_to_show_it(server, sandbox):
    code = (
        "class Bad:\n    def __init__(self):\n        self.v = 1\n"
        "    def __repr__(self):\n        while True: pass\n"
        "    __str__ = __len__ = __sizeof__ = __hash__ = __eq__ = __bool__ = __repr__\n"
        "class Worse(Bad):\n    def __getattribute__(self, name):\n        while True: pass\n"
        "class Text(str):\n    def __repr__(self):\n        while True: pass\n"
        "bad = Bad()\nnested = {'k': [bad, Text('t')]}\nworse = object.__new__(Worse)\nlong = 'x' * 10**6\nnumber = 1 << 10**6\n"
        "me = []\nme.append(me)\nbad.v = 2\n"
    )
    code += "del bad, nested, worse\n"
    code = "class Meta(type):\n    def __getattribute__(cls, name):\n        while True: pass\nclass Hidden(metaclass=Meta): pass\nhid = Hidden()\ndel hid, Hidden\n" + code
    result, steps = run(server, sandbox, code, timeout_seconds=10)
    assert result["status"] == "completed", result
    changed = changes([{**s, "line": s["line"] - 6} for s in steps])
    assert changed[-1, "hid"] == "<Hidden object>" and changed[20, "bad"] == "Bad(v=2)" and changed[14, "nested"].startswith("{'k': [Bad(v=1), <Text object>")
    assert changed[15, "worse"] == "<Worse object>" and len(changed[16, "long"]) <= 200
    assert changed[17, "number"] == "<int of 1000001 bits>" and changed[19, "me"].startswith("[[")


def test_long_loops_are_sampled_and_what_follows_is_still_told(server, sandbox):
    code = "x = 0\nfor i in range(100_000):\n    x += i\nafter = x\nraise ValueError('at the end')\n"
    result, steps = run(server, sandbox, code, max_steps=200)
    assert result["stepped"]["lines"] == 200_004 and len(steps) <= 300
    assert result["status"] == "failed" and "at the end" in result["error"]
    assert [s["line"] for s in steps[-2:]] == [4, 5] and steps[-2]["variables"]["after"]["repr"] == str(sum(range(100_000)))
    assert steps[-1]["exception"] == "ValueError: at the end"
    # Numbers are those of all lines, and `skipped` accounts for those between.
    numbers = [s["step"] for s in steps]
    assert numbers == sorted(numbers) and numbers[-1] == 200_004
    assert sum(s.get("skipped", 0) for s in steps) + len(steps) == 200_004
    small, few = run(server, sandbox, "s = []\nfor i in range(5000):\n    s.append('y' * 150)\n", max_step_bytes=20_000)
    assert small["status"] == "completed" and sum(len(json.dumps(s)) for s in few) < 100_000 and len(few) > 10


def test_library_code_is_passed_over_and_children_do_not_speak(server, sandbox):
    code = "import json, os\nd = json.loads(json.dumps({'a': [1, 2]}))\npid = os.fork()\nif pid == 0:\n    x = 1\n    os._exit(0)\nstatus = os.waitpid(pid, 0)[1]\n"
    result, steps = run(server, sandbox, code)
    assert result["status"] == "completed" and {s["function"] for s in steps} == {"<module>"}
    assert [s["line"] for s in steps] == [1, 2, 3, 4, 7] and changes(steps)[7, "status"] == "0"


# ---- breakpoints and pauses ----

CODE = """\
def f(n):
    x = n * 2

    return x + 1
a = f(1)
b = f(2)
for i in range(6):
    c = i
d = {"k": [1, 2]}
f(0) / 0
"""


def test_breakpoints_stop_and_frames_can_be_read_and_changed(server, sandbox):
    points = [{"line": 3, "condition": "n == 2"}, {"line": 8, "hit_count": 4}, {"line": 8, "log_message": "i={i}, {{{i * 2}}}"}]
    it = Debugged(server, sandbox, CODE, breakpoints=points, exceptions="uncaught")
    told = it.paused()
    # A line without code stands for the next one that has some.
    assert (told["reason"], told["line"], told["function"], told["breakpoint"], told["debug_id"]) == ("breakpoint", 4, "f", 1, it.id)
    assert [(f["function"], f["line"]) for f in told["frames"]] == [("f", 4), ("<module>", 6)]
    assert {k: v["repr"] for k, v in told["variables"].items()} == {"n": "2", "x": "4"}
    assert it.value("evaluate", expression="[x + k for k in range(2)]")["json"] == [4, 5]
    assert it.value("evaluate", expression="a + 1", frame=1)["repr"] == "4"
    assert it.do("evaluate", expression="1 / 0").error == ("VALIDATION_ERROR", "ZeroDivisionError: division by zero")
    assert it.do("evaluate", expression="x", frame=9).error == ("VALIDATION_ERROR", "LookupError: there are 2 frames")
    it.value("evaluate", expression="x = 50")
    assert it.value("set", name="x", expression="x * 2")["repr"] == "100"
    assert it.do("set", name="nothing", value=1).status == 400
    assert it.value("state")["status"] == "paused"
    told = it.go("out").paused()
    assert (told["reason"], told["line"], told["variables"]["b"]["repr"]) == ("step", 7, "101")
    told = it.go().paused()
    assert (told["line"], told["breakpoint"], told["variables"]["i"]["repr"]) == (8, 2, "3")
    assert it.value("breakpoints", breakpoints=[{"line": 99}, {"line": 9}])["breakpoints"][1] == {"id": 2, "line": 9, "verified": True}
    told = it.go().paused()
    assert told["line"] == 9 and [s["log"] for s in it.lines() if "log" in s] == ["i=0, {0}", "i=1, {2}", "i=2, {4}", "i=3, {6}"]
    told = it.go("next").paused()
    assert (told["reason"], told["line"]) == ("step", 10)
    assert it.value("variables", path=["d", "'k'"])["variables"]["[1]"] == {"type": "int", "repr": "2", "children": 0}
    told = it.go("step").paused()
    assert (told["line"], told["function"]) == (2, "f")
    told = it.go().paused()
    assert told["exception"] == {"type": "ZeroDivisionError", "message": "ZeroDivisionError: division by zero"}
    assert (told["reason"], told["line"]) == ("exception", 10)
    result = it.go().result()
    assert result["status"] == "failed" and "ZeroDivisionError" in result["error"]
    assert it.do("continue").error == ("NOT_FOUND", f"no execution '{it.id}' is being debugged")


def test_stepping_over_await_stays_in_its_frame(server, sandbox):
    code = "import asyncio\nasync def a():\n    await asyncio.sleep(0)\n    return 1\nx = sum(await asyncio.gather(a(), a()))\ny = 2\n"
    it = Debugged(server, sandbox, code, stop_on_entry=True)
    told, lines = it.paused(), []
    assert told["reason"] == "entry"
    while told["type"] == "status":
        lines.append((told["function"], told["line"]))
        told = it.go("next").wait("paused")
    assert lines == [("<module>", n) for n in (1, 2, 5, 6)] and told["status"] == "completed"


def test_caught_exceptions_stop_only_when_asked_for(server, sandbox):
    code = "try:\n    int('x')\nexcept ValueError:\n    ok = True\n"
    assert run(server, sandbox, code, exceptions="uncaught")[0]["status"] == "completed"
    it = Debugged(server, sandbox, code, exceptions="raised")
    told = it.paused()
    assert told["line"] == 2 and told["exception"]["message"].startswith("ValueError: invalid literal")
    assert it.go().result()["status"] == "completed"


def test_a_busy_loop_is_paused_and_its_breakpoints_are_changed_while_it_runs(server, sandbox):
    it = Debugged(server, sandbox, "n = 0\nwhile n >= 0:\n    n += 1\nend = n\n")
    it.wait("executing")
    assert it.do("evaluate", expression="n").error == ("CONFLICT", "the execution is not paused")
    told = it.value("breakpoints", breakpoints=[{"line": 3, "condition": "n > 1000"}])
    assert told["breakpoints"] == [{"id": 1, "line": 3, "verified": True}]
    assert it.paused()["reason"] == "breakpoint"
    it.value("breakpoints", breakpoints=[])
    it.go()
    it.value("pause")
    assert it.paused()["reason"] == "pause"
    it.value("set", name="n", value=-5)
    result = it.go().result()
    assert result["status"] == "completed" and result["stepped"]["lines"] > 1000


def test_the_clock_stands_in_a_pause_and_a_pause_has_an_end(server, sandbox):
    it = Debugged(server, sandbox, "import time\ntime.sleep(0.2)\nz = 1\n", stop_on_entry=True, timeout_seconds=2)
    it.paused()
    release = threading.Event()
    release.wait(2.5)  # longer than the execution may take
    assert it.go().result()["status"] == "completed"
    it = Debugged(server, sandbox, "z = 2\nz = 3\n", stop_on_entry=True)
    it.paused()
    result = it.result()
    assert result["status"] == "timeout" and result["error_details"]["type"] == "PAUSE_LIMIT"
    # An evaluation is no pause: its time counts.
    it = Debugged(server, sandbox, "z = 4\n", stop_on_entry=True, timeout_seconds=1)
    it.paused()
    assert it.do("evaluate", expression="next(v for v in iter(int, 1) if v)").error == ("UNAVAILABLE", "the execution has ended")
    assert it.result()["error"] == "Execution timeout after 1 seconds"
    assert server.post(f"/sandbox/{sandbox}/execute", {"code": "z"}).json["result"] == 1


def test_a_pause_that_a_cell_claims_does_not_stop_its_clock(server, sandbox):
    # The cell writes to the wire itself: head (length, id, type) and the body of `ask`, then burns processor time.
    code = (
        "import os, struct, json\nbody = json.dumps({'what': 'debug', 'args': {'event': 'paused', 'reason': 'step'}}).encode()\n"
        "ask = 22\nos.write(3, struct.pack('<IIHH', len(body), 77, ask, 0) + body)\nwhile True: pass\n"
    )
    it = Debugged(server, sandbox, code, timeout_seconds=1)
    result = it.result()
    # Where processor time is scarce, the limit of a pause comes first.
    assert result["status"] == "timeout" and result["error_details"]["type"] in ("RUNNER_TIMEOUT", "PAUSE_LIMIT"), result


def test_going_back_and_on_with_another_value(server):
    sandbox = server.post("/sandbox/create", {"policy": "open", "max_cpu_percent": 400}).json["sandbox_id"]
    code = "x = 0\nseen = []\nfor i in range(1000):\n    x += i\n    seen.append(i)\nprint('end', x)\nx\n"
    it = Debugged(server, sandbox, code, breakpoints=[{"line": 6}], rewind=True)
    there = it.paused()
    assert there["line"] == 6 and there["step"] == 3004
    for step in (2004, 1504, 1504):  # twice: a state that was returned to can be returned to again
        told = it.value("back", step=step)
        assert (told["status"], told["reason"], told["step"]) == ("paused", "back", step)
        assert it.paused()["step"] == step
        assert told["variables"]["i"]["repr"] == str((step - 4) // 3) and told["variables"]["seen"]["size"] == (step - 2) // 3
    assert it.do("back", step=1505).error == ("VALIDATION_ERROR", "ValueError: steps 1 to 1504 can be gone back to")
    it.value("set", name="x", value=10**9)
    again = it.go().paused()  # the breakpoint still holds
    assert again["step"] == 3004 and int(again["variables"]["x"]["repr"]) > 10**9
    result = it.go().result()
    assert result["status"] == "completed" and result["stdout"] == f"end {result['result']}\n" and result["result"] > 10**9
    # What went back is the kernel from now on: it keeps its variables, is interrupted, and its end is told.
    run = lambda code, **more: server.post(f"/sandbox/{sandbox}/execute", {"code": code, **more}).json  # noqa: E731
    assert run("x == %d, len(seen)" % result["result"])["result"] == [True, 1000]
    alone = "import os\nsorted(p for p in os.listdir('/proc') if p.isdecimal()) == sorted(['1', str(os.getpid())])"
    wait_until(lambda: run(alone)["result"] is True, "states that nobody can go back to end")
    assert run("while True: pass", timeout_seconds=1)["status"] == "timeout" and run("len(seen)")["result"] == 1000
    assert "ended by itself" in run("import os\nos._exit(3)")["error"] and run("1 + 1")["result"] == 2
    it = Debugged(server, sandbox, "y = 1\nz = 2\n", stop_on_entry=True)
    it.paused()
    assert it.do("back", step=1).error == ("VALIDATION_ERROR", "ValueError: no states are kept: the request has no rewind")
    assert it.go().result()["status"] == "completed"


def test_stop_leave_and_strangers(server, sandbox):
    it = Debugged(server, sandbox, "while True: pass\n", stop_on_entry=True)
    it.paused()
    path = f"/sandbox/{sandbox}/debug/{it.id}"
    assert server.post(path, {"command": "state"}, key="ben-key-0123456789").status == 404
    assert server.post(path, {"command": "jump"}).status == 422
    assert it.value("stop")["status"] == "stopping" and it.result()["status"] == "cancelled"
    it = Debugged(server, sandbox, "while True: pass\n", stop_on_entry=True)
    it.paused()
    it.connection.sock.close()  # the client leaves: nothing is left paused
    it.connection.close()
    it.events.close()
    wait_until(lambda: it.do("state").status == 404, "the execution of a client that left ends")
    quiet = server.post("/sandbox/create", {"enable_debugging": False}).json["sandbox_id"]
    refused = server.post(f"/sandbox/{quiet}/debug", {"code": "1"})
    assert refused.error == ("CONFLICT", "this sandbox was created without enable_debugging")


def test_the_policy_holds_for_what_the_debugger_evaluates(server):
    restricted = server.post("/sandbox/create", {}).json["sandbox_id"]
    it = Debugged(server, restricted, "x = 1\ny = 2\n", breakpoints=[{"line": 2, "condition": "__import__('os')"}, {"line": 2}])
    it.paused()
    for text in ("import os", "open('/etc/passwd')", "().__class__.__base__.__subclasses__()"):
        assert it.do("evaluate", expression=text).status == 400, text
    assert it.value("breakpoints", breakpoints=[{"line": 2, "log_message": "{eval('1')}"}])["breakpoints"][0]["verified"] is False
    assert it.go().result()["status"] == "completed"
