"""Where a zygote places what kernels write to: the plan of this build saves memory, and no plan, however wrong, does harm."""

import json
import os
import random
import shutil
import subprocess
from contextlib import contextmanager

import pytest
from conftest import BUILD, KERNEL, ROOT

DRIVER = BUILD / "tests/tools/sandbox_driver"
PLAN = BUILD / "riddle-kernel.heap"
SANITIZED = "-fsanitize" in (BUILD / "flags").read_text()
HEADING = "riddle heap plan 1\n"

FIRST = "import pandas as pd\npd.DataFrame({'k': [1, 1, 2], 'n': [1, 2, 3]}).groupby('k')['n'].sum().to_dict()"

# Frees and grows what was there before the fork, and makes much that is new.
CHURN = """
import gc, sys
kept = [list(range(n)) for n in range(300)]
for name in ("seaborn", "matplotlib.pyplot"):
    sys.modules.pop(name, None)
sys.path.extend(str(i) for i in range(2000))
pd.DataFrame.extra = {i: str(i) for i in range(5000)}
for value in list(vars(pd).values()):
    getattr(value, "__dict__", {}).get("nothing")
del kept[::2]
sys.path[:] = sys.path[:5]
gc.collect()
text = ""
for i in range(3000):
    text += str(i)
len(text), sum(map(len, kept)), pd.Series(range(10000)).astype(str).str.len().sum()
"""


@contextmanager
def zygote(tmp_path, plan):
    """A driver whose riddle-kernel has this plan (a text, or None) beside it."""
    tree = tmp_path / "tree"
    (tree / "build").mkdir(parents=True)
    (tree / "third_party").symlink_to(ROOT / "third_party")
    shutil.copy(KERNEL, tree / "build")
    if plan is not None:
        (tree / "build" / PLAN.name).write_text(plan)
    env = {k: v for k, v in os.environ.items() if not k.startswith("RIDDLE_")}
    env.update(RIDDLE_HOME=str(tmp_path / "home"), RIDDLE_KERNEL=str(tree / "build" / KERNEL.name), RIDDLE_POOL_SIZE="0")
    process = subprocess.Popen([DRIVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)

    def ask(**request):
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        assert "error" not in answer, answer
        return answer

    try:
        yield ask
    finally:
        process.stdin.close()
        process.wait()
        shutil.rmtree(tree)


def run(ask, sandbox, code):
    answer = ask(op="run", sandbox=sandbox, kind="python", code=code, timeout_ms=60000)
    assert answer["verdict"] == "ok", answer
    return answer["body"]["value"]["text"]


def private_kb(pid):
    with open(f"/proc/{pid}/smaps_rollup") as f:
        return sum(int(line.split()[1]) for line in f if line.startswith("Private_"))


def size_after_first_cell(ask):
    made = ask(op="create", kind="python")
    assert run(ask, made["sandbox"], FIRST) == "{1: 3, 2: 3}"
    return private_kb(made["pid"])


def test_plan_of_this_build():
    if SANITIZED:
        assert not PLAN.exists()  # it would be one of another allocator
        return
    lines = PLAN.read_text().splitlines(keepends=True)
    assert lines[0] == HEADING
    sections = {line.split()[1] for line in lines if line.startswith("section ")}
    assert {"start", "numpy", "pandas", "runtime", "session"} <= sections
    assert sum(not line.startswith("section ") for line in lines[1:]) > 500


def test_plan_keeps_kernels_small(tmp_path):
    sizes = []
    for i, plan in enumerate([None, "" if SANITIZED else PLAN.read_text()]):
        with zygote(tmp_path / str(i), plan) as ask:
            size_after_first_cell(ask)
            sizes.append(size_after_first_cell(ask))
    without, following = sizes
    if SANITIZED:  # an empty plan is none
        assert 0.8 < following / without < 1.25, sizes
    else:
        assert following < 0.75 * without, sizes


def every_block():
    """Takes whatever comes: of the first 60,000 blocks of each section those whose size is the one guessed."""
    draw = random.Random(1)
    lines = []
    for name in ("start", "numpy", "pandas", "runtime", "warm", "session", "end"):
        lines.append(f"section {name}\n")
        lines += [f"{n} {draw.choice((32, 40, 56, 64, 72, 104, 232, 648, 1136, 4096))}\n" for n in range(1, 9000)]
    return HEADING + "".join(lines)


WRONG = {
    "no plan": "what is this?\n",
    "of another version": "riddle heap plan 2\nsection numpy\n1 64\n",
    "only a heading": HEADING,
    "cut": HEADING + "section pandas\n10 64\n11",
    "not rising": HEADING + "section pandas\n" + "".join(f"{n} 64\n" for n in range(3000, 0, -1)),
    "sizes without end": HEADING + "section pandas\n" + "".join(f"{n} 4294967295\n" for n in range(1, 3000)),
    "too many sections": HEADING + "".join(f"section s{n}\n1 64\n" for n in range(100)),
    "whatever comes": every_block(),
}


@pytest.mark.parametrize("name", list(WRONG) if not SANITIZED else ["cut", "whatever comes"])
def test_wrong_plans_do_no_harm(tmp_path, name):
    with zygote(tmp_path, WRONG[name]) as ask:
        for _ in range(2):
            made = ask(op="create", kind="python")
            assert run(ask, made["sandbox"], FIRST) == "{1: 3, 2: 3}"
            assert run(ask, made["sandbox"], CHURN) == "(10890, 22500, 38890)"
