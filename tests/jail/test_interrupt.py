"""Time: a run that is too long is interrupted and keeps its state; one that will not yield loses it within a second."""

import time

import pytest
from conftest import SANITIZED, SLOWNESS

# An interrupt is given 800 ms before the kill; the rest is for a machine with other work.
GRACE_S = 1.0
SLACK_S = (4.0 if SANITIZED else 1.0) * SLOWNESS


def timed(box, code, timeout_ms=150, **request):
    begun = time.monotonic()
    done = box.run(code, timeout_ms=timeout_ms, **request)
    return done, time.monotonic() - begun - timeout_ms * SLOWNESS / 1000


YIELDING = {
    "loop": "while True: pass",
    "sleep": "time.sleep(100)",
    "loop in a function": "def f():\n    n = 0\n    while True: n += 1\nf()",
    "multiplication": "a = 3 ** 40000000; b = a * a * a",
    "await, again and again": "import asyncio\nwhile True:\n    try: await asyncio.sleep(100)\n    except BaseException: pass",
    "comprehension": "[0 for _ in iter(int, 1)]",
    "await": "import asyncio\nawait asyncio.sleep(100)",
    "lock": "threading.Lock().acquire() and (l := threading.Lock()).acquire() and l.acquire()",
    "join of a thread": "t = threading.Thread(target=time.sleep, args=(100,), daemon=True); t.start(); t.join()",
    "select": "import select\nselect.select([], [], [], 100)",
    "read of a pipe": "r, w = os.pipe()\nos.read(r, 1)",
    "wait for a child": "pid = os.fork()\nif pid == 0:\n    while True: time.sleep(100)\nos.waitpid(pid, 0)",
    "query": 'sql("SELECT count(*) FROM range(1000000000) a, range(1000000000) b")',
    "query in a loop": 'while True: sql("SELECT sum(range) FROM range(1000000)")',
    "generator": "def g():\n    while True: yield 1\nfor _ in g(): pass",
    "numpy": "while True: np.sort(np.random.rand(100000))",
    "regular expression": "re.match('(a+)+$', 'a' * 64 + 'b')",  # its matcher looks for signals
    "pandas": "while True: pd.DataFrame(np.random.rand(1000, 10)).describe()",
}


@pytest.mark.parametrize("name", YIELDING)
def test_interrupted_run_keeps_its_state(box, name):
    assert box.run("kept = 42")["verdict"] == "ok"
    done, late_s = timed(box, "partial = 'here'\n" + YIELDING[name])
    assert (done["verdict"], done["interrupted"], done["state_lost"], done["alive"]) == ("timeout", True, False, True), done
    assert done["body"]["error"] == {"type": "KILLED", "message": "the run was interrupted; variables of earlier runs are kept"}
    assert late_s < GRACE_S + SLACK_S
    assert box.tells("tell([kept, partial])") == [42, "here"]
    if "sql" in YIELDING[name]:
        assert box.tells("tell(int(sql('SELECT 1 AS a').a[0]))") == 1  # the connection survives


STUBBORN = {
    # No Python code runs for a signal to be noticed in.
    "sum of a range": "sum(range(10**12))",
    "machine code": "ctypes.CFUNCTYPE(None)(code_page(bytes.fromhex('ebfe')))()",
    # Swallows every KeyboardInterrupt. The inner loop is a function: what is raised at the end of a loop's turn is outside of the
    # `try` that the loop is in, to CPython since version 3.11.
    "swallowing": "def loop():\n    while True: pass\nwhile True:\n    try: loop()\n    except BaseException: pass",
    "finally": "def loop():\n    while True: pass\ndef f():\n    try: loop()\n    finally: f()\nf()",
    "handler": "signal.signal(signal.SIGINT, lambda *_: None)\nwhile True: pass",
    "blocking": "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nwhile True: pass",
    "ignoring by libc": "libc.signal(2, ctypes.c_void_p(1))\nwhile True: pass",
    "wait for a stopped child": "pid = os.fork()\nif pid == 0:\n    signal.pause()\nwhile True:\n"
                                "    try: os.waitpid(pid, 0)\n    except BaseException: pass",
}


@pytest.mark.parametrize("name", STUBBORN)
def test_stubborn_run_is_killed(make_box, name):
    box = make_box(memory_bytes=2 << 30)
    done, late_s = timed(box, STUBBORN[name])
    assert (done["verdict"], done["interrupted"], done["state_lost"], done["alive"]) == ("timeout", False, True, False), done
    assert done["body"]["error"] == {
        "type": "KILLED", "message": "the run did not yield and its kernel was killed; its variables are lost"}
    assert 0.5 < late_s < GRACE_S + SLACK_S
    assert box.processes() == []


def test_interrupt_by_the_caller(box):
    """Not a time-out: the verdict says killed."""
    box.run("kept = 1")
    begun = time.monotonic()
    done = box.run("while True: pass", timeout_ms=20000, interrupt_after_ms=100)
    assert (done["verdict"], done["interrupted"], done["state_lost"]) == ("killed", True, False), done
    assert time.monotonic() - begun < 0.1 + GRACE_S + SLACK_S
    assert box.tells("tell(kept)") == 1


def test_interrupt_by_the_caller_of_a_stubborn_run(box):
    done = box.run(STUBBORN["swallowing"], timeout_ms=20000, interrupt_after_ms=100)
    assert (done["verdict"], done["interrupted"], done["state_lost"]) == ("killed", False, True), done


def test_interrupt_once_is_enough_for_a_tidy_cell(box):
    """A cell may catch the interrupt, tidy up and end: its work is not lost."""
    done = box.run("""
def loop():
    while True: pass
try:
    loop()
except KeyboardInterrupt:
    tidied = True
""", timeout_ms=300)
    assert not done["state_lost"], done
    assert box.tells("tell(tidied)") is True


def test_late_interrupt_does_not_hit_the_next_run(box):
    """Runs that end about when their time does, again and again."""
    for timeout_ms in range(20, 60, 2):
        done = box.run("time.sleep(0.04)", timeout_ms=timeout_ms)
        assert done["verdict"] in ("ok", "timeout") and not done["state_lost"], done
        assert box.tells("tell('next')") == "next"


def test_output_before_the_interrupt_is_kept(box):
    done = box.run("print('before'); sys.stderr.write('too\\n')\nwhile True: pass", timeout_ms=300)
    assert (done["verdict"], done["stdout"], done["stderr"]) == ("timeout", "before\n", "too\n")


def test_sql_sandbox(make_box, orders):
    """A query without end in a sandbox that has no Python."""
    box = make_box(kind="sql", files=orders)
    done, late_s = timed(box, "SELECT count(*) FROM range(1000000000) a, range(1000000000) b")
    assert (done["verdict"], done["interrupted"], done["state_lost"]) == ("timeout", True, False), done
    assert late_s < GRACE_S + SLACK_S
    done = box.run("SELECT count(*) AS n FROM orders")
    assert done["verdict"] == "ok" and done["body"]["rows"] == [[3]]


def test_background_work_does_not_end_the_time(box):
    """Threads and children that go on do not keep a cell from ending, nor the next one from starting."""
    code = "threading.Thread(target=lambda: [None for _ in iter(int, 1)], daemon=True).start()\nif os.fork() == 0:\n    while True: pass\n"
    done, late_s = timed(box, code, 5000)
    assert done["verdict"] == "ok" and late_s < 0
    assert box.tells("tell(1)", timeout_ms=5000) == 1
