"""Control groups: what is limited by them, where they are made, and that none is left behind.

What is about version 2 needs a machine that has nothing else: `make check-cgroup2` boots one.
"""

import json
import os
import subprocess
import time
from pathlib import Path

import pytest
from conftest import BUILD, DELEGATE, MB, PLAIN_ID, SLOWNESS, Group, has_groups, programs_for_plain, runs, children_of, wait_until

TOP = Path("/sys/fs/cgroup")
CONTROLLERS = ["memory", "pids", "cpu"]

version_2 = pytest.mark.skipif(not DELEGATE, reason="needs a machine with control groups of version 2 only: make check-cgroup2")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can delegate")


def groups_of(pid):
    """The directories of a riddle, in whatever hierarchy."""
    return [d for d, *_ in os.walk(TOP) if Path(d).name.startswith("riddle-") and d.endswith(f"-{pid}")]


def group_of(box):
    """The group of a kernel, version 2."""
    [line] = Path(f"/proc/{box.pid}/cgroup").read_text().splitlines()
    return Path(f"{TOP}{line.split(':', 2)[2]}")


@pytest.fixture
def riddle(tmp_path_factory):
    """Runs the program as `user`, in a control group; the orders are at `riddle.orders`."""
    home = tmp_path_factory.mktemp("home")
    home.chmod(0o777)
    for parent in home.parents:
        if str(parent).startswith("/tmp/"):
            parent.chmod(0o755)
    orders = home / "orders.csv"
    orders.write_text("id,region,total\n1,north,10.5\n2,south,20.25\n3,north,30\n")
    orders.chmod(0o644)

    def run(user, *args, enter=None, prefix=(), status=0, **settings):
        env = {k: v for k, v in os.environ.items() if not k.startswith("RIDDLE_")}
        env.update(RIDDLE_HOME=str(home / user), RIDDLE_KERNEL=str(programs_for_plain() / "riddle-kernel"), **settings)
        if user == "plain":
            prefix = [*prefix, "setpriv", f"--reuid={PLAIN_ID}", f"--regid={PLAIN_ID}", "--clear-groups"]
        command = [*prefix, str(BUILD / "riddle"), *args]
        done = subprocess.run(command, cwd=home, env=env, preexec_fn=enter, capture_output=True, text=True, timeout=120 * SLOWNESS)
        assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
        return done.stdout

    run.orders = str(orders)
    return run


def layers(text):
    """The lines of doctor about control groups: {controller: (status, detail)}."""
    checks = {check["name"]: check for check in json.loads(text)["checks"]}
    return {c: (checks[f"cgroup {c}"]["status"], checks[f"cgroup {c}"]["detail"]) for c in CONTROLLERS}


ALL_V2 = {c: ("pass", "v2") for c in CONTROLLERS}
FALLBACK = {"memory": ("caution", "memory is watched every 10 ms instead of limited by the kernel"),
            "pids": ("caution", "processes are limited by RLIMIT_NPROC instead"),
            "cpu": ("caution", "a kernel may use every processor")}


def works(riddle, user, python=False, **how):
    """Code gives its result."""
    rows = riddle(user, "run", "--csv", "--sql", "SELECT region, sum(total) AS s FROM orders GROUP BY 1 ORDER BY 1", riddle.orders, **how)
    assert rows.split() == ["region,s", "north,40.5", "south,20.25"]
    if not python:
        return
    script = Path(riddle.orders).parent / "script.py"
    script.write_text("result = int(orders.id.sum())")
    script.chmod(0o644)
    assert "6" in riddle(user, "run", "--timeout", "60", "--python", str(script), riddle.orders, **how).split()


# ---- none is left ----


def test_no_groups_are_left(drivers, user):
    driver = drivers.start(user)
    assert driver.box(kind="sql").run("SELECT 1")["verdict"] == "ok"
    assert bool(groups_of(driver.pid)) == has_groups(user)
    driver.close()
    assert groups_of(driver.pid) == []
    if driver.group:  # it is as it was: the next process may be put into it
        assert driver.group.inside() == [] and driver.group.read("cgroup.subtree_control").strip() == ""
        driver.group.remove()


def test_groups_of_a_killed_riddle_are_removed_by_the_next(drivers):
    if os.geteuid() != 0:
        pytest.skip("a plain user has no control groups here")
    killed = drivers.start("root")
    killed.box(kind="sql")
    family = children_of(killed.pid)
    killed.kill()
    assert wait_until(lambda: not any(map(runs, family)))
    assert groups_of(killed.pid)
    following = drivers.start("root")
    following.box(kind="sql")
    assert groups_of(killed.pid) == [] and groups_of(following.pid)
    following.close()
    assert groups_of(following.pid) == []


# ---- version 2: what is in the files ----


@version_2
def test_limits_are_set(make_box):
    group = group_of(make_box(memory_bytes=256 * MB, pids=32))
    said = {name: (group / name).read_text().strip() for name in
            ("memory.max", "memory.swap.max", "pids.max", "cpu.max", "cgroup.type")}
    assert said == {"memory.max": str(256 * MB), "memory.swap.max": "0", "pids.max": "32",
                    "cpu.max": "200000 100000", "cgroup.type": "domain"}


@version_2
def test_every_process_is_in_the_group(box):
    box.tells("""
pids = [os.fork() for _ in range(3)]
if 0 in pids:
    while True: time.sleep(100)
tell(len(pids))""")
    assert sorted(map(int, (group_of(box) / "cgroup.procs").read_text().split())) == sorted(box.processes())
    assert len(box.processes()) > 3


@version_2
def test_memory_bomb_does_not_swap(make_box):
    def swapped():
        with open("/proc/meminfo") as lines:
            values = {line.split(":")[0]: int(line.split()[1]) for line in lines}
        assert values["SwapTotal"] > 256 * 1024, "the machine has no swap to go to"
        return (values["SwapTotal"] - values["SwapFree"]) * 1024

    box = make_box(memory_bytes=256 * MB)
    group, before = group_of(box), swapped()
    done = box.run("x = []\nwhile True: x.append(bytearray(b'x') * (4 << 20))", timeout_ms=15000)
    assert (done["verdict"], done["state_lost"]) == ("memory", True), done
    assert swapped() - before < 32 * MB
    assert not group.exists() or "populated 0" in (group / "cgroup.events").read_text()


@version_2
def test_processor_share_is_kept(drivers, user):
    """A query that would take a processor gets half of one."""
    driver = drivers.start(user, RIDDLE_CPUS="0.5")
    box = driver.box(kind="sql")
    group = group_of(box)
    assert (group / "cpu.max").read_text().split() == ["50000", "100000"]
    used = lambda: int((group / "cpu.stat").read_text().split()[1])
    before, begun = used(), time.monotonic()
    assert box.run("SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b", timeout_ms=1000)["verdict"] == "timeout"
    share = (used() - before) / 1e6 / (time.monotonic() - begun)
    assert 0.3 < share < 0.6
    driver.close()


# ---- version 2: where they are made ----


@version_2
def test_root(riddle):
    before = sorted(os.listdir(TOP))
    assert layers(riddle("root", "doctor", "--json")) == ALL_V2
    works(riddle, "root", python=True)
    assert sorted(os.listdir(TOP)) == before


@version_2
def test_delegated_group(riddle):
    group = Group(DELEGATE)
    how = {"enter": group.enter}
    assert layers(riddle("plain", "doctor", "--json", **how)) == ALL_V2
    works(riddle, "plain", python=True, **how)
    assert group.inside() == [] and group.read("cgroup.subtree_control").strip() == ""
    group.remove()


@version_2
def test_no_delegation(riddle):
    """It falls back and says so."""
    before = sorted(d for d, *_ in os.walk(TOP))
    assert layers(riddle("plain", "doctor", "--json")) == FALLBACK
    works(riddle, "plain", python=True)
    assert sorted(d for d, *_ in os.walk(TOP)) == before


@pytest.fixture
def neighbour():
    """Starts a process that stays in a group."""
    started = []

    def start(group):
        started.append(subprocess.Popen(["sleep", "1000"], preexec_fn=group.enter))

    yield start
    for process in started:
        process.kill()
        process.wait()


@version_2
def test_delegated_group_with_others_in_it(riddle, neighbour):
    """Nothing can be limited below a group that has processes, and nobody else's process is moved."""
    group = Group(DELEGATE)
    neighbour(group)
    assert layers(riddle("plain", "doctor", "--json", enter=group.enter)) == FALLBACK
    works(riddle, "plain", enter=group.enter)
    assert group.inside() == [] and len(group.read("cgroup.procs").split()) == 1
    assert group.read("cgroup.type").strip() == "domain"


@version_2
def test_group_above_is_ours(riddle, neighbour, drivers):
    """A shell in a group of a user's own manager: the groups are made beside it, and a dead riddle's removed."""
    above = Group(DELEGATE)
    shell = Group(above.path, "shell")
    (above.path / "cgroup.subtree_control").write_text("+memory +pids +cpu")
    neighbour(shell)
    assert layers(riddle("plain", "doctor", "--json", enter=shell.enter)) == ALL_V2
    works(riddle, "plain", enter=shell.enter)
    assert above.inside() == ["shell"]

    killed = drivers.start("plain", group=shell)
    killed.box(kind="sql")
    family = children_of(killed.pid)
    assert groups_of(killed.pid) == [str(above.path / Path(groups_of(killed.pid)[0]).name)]
    killed.kill()
    assert wait_until(lambda: not any(map(runs, family)))
    assert groups_of(killed.pid)
    works(riddle, "plain", enter=shell.enter)
    assert above.inside() == ["shell"]


@version_2
def test_two_at_once_in_a_delegated_group(riddle, drivers):
    """The second is started by the first: it finds the group that the first was given."""
    driver = drivers.start("plain")
    driver.box(kind="sql")
    leaf = Path(groups_of(driver.pid)[0]) / "self"
    enter = lambda: (leaf / "cgroup.procs").write_text("0")
    assert layers(riddle("plain", "doctor", "--json", enter=enter)) == ALL_V2
    works(riddle, "plain", enter=enter)
    driver.close()
    assert driver.group.inside() == []


CONTAINER = ["unshare", "--cgroup", "--mount", "sh", "-c", 'umount /sys/fs/cgroup; mount -t cgroup2 cgroup2 /sys/fs/cgroup && exec "$@"', "sh"]


@version_2
def test_container(riddle):
    """The only process of a group that looks like the top one, as in a container."""
    group = Group(TOP)
    assert layers(riddle("root", "doctor", "--json", enter=group.enter, prefix=CONTAINER)) == ALL_V2
    works(riddle, "root", enter=group.enter, prefix=CONTAINER)
    assert group.inside() == []
    group.remove()


@version_2
def test_container_with_others_in_it(riddle, neighbour):
    group = Group(TOP)
    neighbour(group)
    assert layers(riddle("root", "doctor", "--json", enter=group.enter, prefix=CONTAINER)) == FALLBACK
    works(riddle, "root", enter=group.enter, prefix=CONTAINER)
    assert group.inside() == [] and group.read("cgroup.type").strip() == "domain"
