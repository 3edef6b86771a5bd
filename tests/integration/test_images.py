"""Threads whose kernel becomes a file and comes back, in forks, too: everything that Python can hold between two cells, after a restart as well."""

import contextlib
import hashlib
import http.client
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from api import QUICK, fails_to_start, metric, refused, wait_for_metric
from server import RIDDLE, Server, wait_until
from test_chat import KEYS, SALES, new_thread, say, stream
from test_files import PETS, give, listed
from test_verified import ANN, BEN

pytestmark = [pytest.mark.plain, pytest.mark.skipif("asan" in str(RIDDLE), reason="a sanitizer's own memory is no part of an image")]

PANDAS = {**QUICK, "RIDDLE_PRELOAD": "numpy,pandas,matplotlib", "RIDDLE_IMAGES_SIZE": "8g"}

# Each pair: what a cell makes, and a cell that must give True before and after, as often as it is run.
HELD = {
    "numbers and text": ("a = 1\nb = 2.5\nc = 'ü' * 1000\nd = b'x' * 100000\ne = 10 ** 400\nf = 3 + 4j",
                         "(a, b, len(c), len(d), e % 7, f) == (1, 2.5, 1000, 100000, 10 ** 400 % 7, 3 + 4j)"),
    "containers": ("held = {i: (str(i), [i, {i}], frozenset([i])) for i in range(50000)}\nimport collections\nq = collections.deque(range(9), 4)\n"
                   "od = collections.OrderedDict(a=1)\ndd = collections.defaultdict(list)\ndd['x'].append(1)",
                   "held[49999] == ('49999', [49999, {49999}], frozenset([49999])) and len(held) == 50000 and list(q) == [5, 6, 7, 8] and dd['x'] == [1]"),
    "a half-run generator": ("def count():\n    n = 0\n    while True:\n        n += 1\n        yield n\ng = count()\nseen = [next(g) for _ in range(5)]",
                             "seen.append(next(g)) or seen == list(range(1, len(seen) + 1))"),
    "a coroutine that waits": ("import types\n@types.coroutine\ndef wait():\n    got = yield 'waiting'\n    return got\nasync def talk():\n    total = 0\n"
                               "    while True:\n        total += await wait()\nco = talk()\nco.send(None)\nrounds = 0",
                               "rounds += 1\nco.send(1) == 'waiting' and co.cr_frame.f_locals['total'] == rounds"),
    "an event loop": ("import asyncio\nawait asyncio.sleep(0)\nq = asyncio.Queue()\nawait q.put(3)\nticks = []\n"
                      "async def tick():\n    while True:\n        ticks.append(1)\n        await asyncio.sleep(0)\ntask = asyncio.create_task(tick())",
                      "before = len(ticks)\nawait asyncio.sleep(0.001)\nq.qsize() == 1 and len(ticks) > before and not task.done()"),
    "closures and lambdas": ("def adder(n):\n    def add(m):\n        nonlocal n\n        n += m\n        return n\n    return add\nadd = adder(10)\n"
                             "double = lambda x: 2 * x\nimport functools\npart = functools.partial(pow, 2)\n"
                             "@functools.lru_cache\ndef slow(n): return n * n\nslow(3)",
                             "add(0) == 10 and double(4) == 8 and part(5) == 32 and slow(3) == 9 and slow.cache_info().hits >= 1"),
    "classes of cells": ("import dataclasses, enum\n@dataclasses.dataclass\nclass Point:\n    x: int\n    tags: list\nclass Color(enum.Enum):\n    RED = 1\n"
                         "class Base:\n    made = 0\n    def __init_subclass__(cls): Base.made += 1\nclass Child(Base):\n    __slots__ = ('v',)\n"
                         "p = Point(3, ['a'])\nc1 = Child()\nc1.v = Color.RED",
                         "p == Point(3, ['a']) and c1.v is Color.RED and Base.made == 1 and isinstance(c1, Base) and type(p).__name__ == 'Point'"),
    "modules of cells": ("import decimal, fractions, statistics, zoneinfo, email.message, xml.etree.ElementTree as ET, sqlite3, ctypes\n"
                         "decimal.getcontext().prec = 50\nthird = decimal.Decimal(1) / 3\ntree = ET.fromstring('<a><b>1</b></a>')\n"
                         "db = sqlite3.connect(':memory:')\n_ = db.execute('create table t(a)')\n_ = db.executemany('insert into t values (?)', [(i,) for i in range(100)])\n"
                         "cur = db.execute('select a from t order by a')\nrow = cur.fetchone()",
                         "str(decimal.Decimal(1) / 3) == str(third) and tree[0].text == '1' and db.execute('select sum(a) from t').fetchone() == (4950,)"
                         " and ctypes.sizeof(ctypes.c_long) == 8"),
    "regular expressions and dates": ("import re, datetime\nr = re.compile(r'(?P<y>\\d{4})-(\\d\\d)')\nm = r.match('2024-05')\nwhen = datetime.datetime(2024, 5, 1, tzinfo=datetime.timezone.utc)",
                                      "r.match('1999-12')['y'] == '1999' and m['y'] == '2024' and when.isoformat() == '2024-05-01T00:00:00+00:00'"),
    "frames": ("import pandas as pd, numpy as np\ndf = pd.DataFrame({'k': np.arange(100000) % 7, 'n': np.arange(100000), 's': [str(i) for i in range(100000)]})\n"
               "view = df[df.k == 3]\nby = df.groupby('k')\ncat = df.k.astype('category')\nwhen = pd.date_range('2024-01-01', periods=1000, freq='h')\n"
               "arr = np.arange(1000000).reshape(1000, 1000)\nsub = arr[::2, 5]",
               "int(df.n.sum()) == 4999950000 and len(view) == 14286 and by.n.sum().sum() == df.n.sum() and len(cat.cat.categories) == 7"
               " and sub.base is not None and int(sub.sum()) == int(arr[::2, 5].sum()) and when[-1].year == 2024 and df.s.iloc[-1] == '99999'"),
    "a table of the data set": ("was = int(sales.amount.sum())\nsales['amount'] += 1\nmaps = open('/proc/self/maps').read().count('.duckdb')\ncools = 0",
                                "cools += 1\nint(sales.amount.sum()) == was + len(sales) and maps == 1 and open('/proc/self/maps').read().count('.duckdb') == (cools == 1)"),
    "an open figure": ("import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\n_ = ax.plot([1, 2, 3], [4, 5, 6], label='one')\nlines = len(ax.lines)",
                       "len(ax.lines) == lines and ax.lines[0].get_label() == 'one' and fig.canvas is not None and ax.get_xlim()[1] > 3"),
    "open files": ("f = open('/workspace/a.txt', 'w+')\n_ = f.write('hello world')\n_ = f.seek(6)\nimport os\nos.makedirs('/workspace/deep/er', exist_ok=True)\n"
                   "_ = open('/workspace/deep/er/b.bin', 'wb').write(b'x' * 100000)\nos.symlink('a.txt', '/workspace/link') if not os.path.lexists('/workspace/link') else None\nos.chdir('/workspace/deep')",
                   "f.tell() == 6 and f.read() == 'world' and f.seek(6) == 6 and os.path.getsize('er/b.bin') == 100000 and os.readlink('/workspace/link') == 'a.txt'"
                   " and os.getcwd() == '/workspace/deep'"),
    "objects from before the fork": ("import gc\ngc.unfreeze()\n_ = gc.collect()\nmany = len(gc.get_objects())",
                                     "gc.collect() >= 0 and abs(len(gc.get_objects()) - many) < 5000 and many > 10000"),
    "temporary tables and views": ("import pandas as pd\nmine = pd.DataFrame({'v': [1, 2, 3]})\n_ = sql('CREATE TEMP TABLE copied AS SELECT v * 2 AS w FROM mine')\n"
                                   "_ = sql('CREATE TEMP VIEW total AS SELECT sum(v) AS s FROM mine')",
                                   "int(sql('SELECT sum(w) AS s FROM copied').s[0]) == 12 and int(sql('SELECT s FROM total').s[0]) == 6"),
    "SQL over frames": ("t = sql('SELECT sum(amount) AS s FROM sales')\nimport pandas as pd\nmine = pd.DataFrame({'v': [1, 2, 3]})\nu = sql('SELECT sum(v) AS s FROM mine')",
                        "int(sql('SELECT sum(amount) AS s FROM sales').s[0]) == int(t.s[0]) and int(sql('SELECT sum(v) AS s FROM mine').s[0]) == 6"),
}


def execute(server, thread, code, **more):
    answer = server.post(f"/thread/{thread}/execute", {"code": code, "timeout_seconds": 60, **more})
    assert answer.status == 200, answer.body
    return answer.json


def holds(server, thread, check):
    *before, last = check.split("\n")
    answer = execute(server, thread, "\n".join([*before, f"bool({last})"]))
    assert answer["result"]["rows"] == [[True]], answer["result"]
    return answer


def status(server, thread):
    return server.get(f"/thread/{thread}/status").json


def cool(server, thread):
    answer = server.post(f"/thread/{thread}/cool", {})
    assert answer.status == 200, answer.body
    assert answer.json["sandbox_status"] == "cold" and answer.json["sandbox"]["has_variables"] is True, answer.json
    return answer.json["sandbox"]


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("images")
    (path / "datasets" / "sales").mkdir(parents=True)
    (path / "datasets" / "sales" / "sales.csv").write_text(SALES)
    return path


@pytest.fixture(scope="module")
def server(directory):
    with Server(directory, **PANDAS) as s:
        yield s


def images(server):
    """What they are differences to, their base, is not counted."""
    return sorted(p.name for p in (server.home / "images").iterdir() if not p.name.startswith("base-"))


def image_prefix(thread, owner="local"):
    """How the names of its files begin."""
    return hashlib.sha256(f"{owner}\n{thread}".encode()).hexdigest()[:32]


@pytest.mark.parametrize("what", HELD)
def test_comes_back(server, what):
    made, check = HELD[what]
    thread = new_thread(server)
    assert execute(server, thread, made)["status"] == "succeeded"
    holds(server, thread, check)
    for _ in range(2):
        sandbox = cool(server, thread)
        assert sandbox["last_move"] == "hot→cold" and sandbox["bytes"] > 0
        answer = holds(server, thread, check)
        assert answer["container_state"].startswith("cold→hot (") and not answer.get("state_lost"), answer
    holds(server, thread, check)
    assert server.delete(f"/thread/{thread}").json["deleted"] is True


@pytest.mark.skipif(os.geteuid() != 0, reason="only root hides the path of the file")
def test_long_runs_are_mapped(server):
    """Memory that is mapped from the file behaves as it did: it is private, given back as zeros, and in the next image."""
    thread = new_thread(server)
    execute(server, thread, "import ctypes, mmap, numpy as np\narr = np.arange(4000000)\nroom = mmap.mmap(-1, 1 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\nroom[:] = b'x' * (1 << 20)\n"
                            "libc = ctypes.CDLL(None)\naddress = ctypes.addressof(ctypes.c_char.from_buffer(room))\n"
                            "def lines(): return [l.split() for l in open('/proc/self/maps') if l.split()[5:] and l.split()[5].startswith('/')]\n"
                            "def mapped(): return sum(int(l[0].split('-')[1], 16) - int(l[0].split('-')[0], 16) for l in lines() if l[5] == '/')\n"
                            "before = mapped(), {l[5] for l in lines()}")
    for n in range(2):
        cool(server, thread)
        holds(server, thread, f"mapped() > 30_000_000 and before[0] == 0 and {{l[5] for l in lines()}} - before[1] == {{'/'}} and int(arr.sum()) == {sum(range(4000000)) + n}")
        execute(server, thread, f"arr[3999999] += 1\nroom[:4096] = b'{n}' * 4096")
    cool(server, thread)
    holds(server, thread, "was = room[0], room[8191]\n_ = libc.madvise(ctypes.c_void_p(address), 8192, 4)\n"
                          "was == (ord('1'), ord('x')) and room[:8192] == bytes(8192) and room[8192:] == b'x' * (len(room) - 8192)")
    cool(server, thread)
    holds(server, thread, "room[:8192] == bytes(8192) and room[8192:] == b'x' * (len(room) - 8192) and int(arr[-1]) == 4000001")
    server.delete(f"/thread/{thread}")


def test_message_during_the_move_is_served(server):
    """A message that comes while the image is written finds the kernel, not its image."""
    thread = new_thread(server)
    execute(server, thread, "kept = bytearray(100_000_000)\nfor i in range(0, len(kept), 4096): kept[i] = 1\nkept[0] = 5")
    cooling = threading.Thread(target=server.post, args=(f"/thread/{thread}/cool", {}))
    cooling.start()
    wait_until(lambda: any((server.home / "images").glob("*.partial")) or status(server, thread)["sandbox_status"] == "cold", "the image is being written")
    answer = execute(server, thread, "kept[0] += 1\nkept[0]")
    assert answer["result"]["rows"] == [[6]] and not answer.get("state_lost"), answer
    cooling.join()
    cool(server, thread)
    assert execute(server, thread, "kept[0]")["result"]["rows"] == [[6]]
    server.delete(f"/thread/{thread}")


def test_idle_thread_is_small(server):
    thread = new_thread(server)
    execute(server, thread, "x = 1")
    sizes = []
    for _ in range(2):
        sizes.append(cool(server, thread)["bytes"])
        assert execute(server, thread, "x")["result"]["rows"] == [[1]]
    assert max(sizes) <= 300_000, sizes
    server.delete(f"/thread/{thread}")


def test_random_numbers_go_on(server):
    thread = new_thread(server)
    execute(server, thread, "import random, numpy as np\nrandom.seed(7)\nnp.random.seed(7)\nrng = np.random.default_rng(7)\n"
                            "mine = [(random.random(), float(np.random.rand()), float(rng.random())) for _ in range(3)]")
    cool(server, thread)
    answer = execute(server, thread, "after = (random.random(), float(np.random.rand()), float(rng.random()))\nrandom.seed(7); np.random.seed(7); rng = np.random.default_rng(7)\n"
                                     "[(random.random(), float(np.random.rand()), float(rng.random())) for _ in range(4)] == mine + [after]")
    assert answer["result"]["rows"] == [[True]], answer["result"]


def test_frozen_thread_is_cooled(server):
    thread = new_thread(server)
    execute(server, thread, "kept = 5")
    assert server.post(f"/thread/{thread}/freeze", {}).json["sandbox_status"] == "warm"
    cool(server, thread)
    assert execute(server, thread, "kept")["result"]["rows"] == [[5]]


@pytest.mark.parametrize("made, named", [
    ("import socket\npair = socket.socketpair()\nkept = 1", "socket:"),
    ("import threading, time\nt = threading.Thread(target=time.sleep, args=(600,), daemon=True)\nt.start()\nkept = 1", "1 threads"),
    ("import os, time\nchild = os.fork()\nif child == 0:\n    time.sleep(600)\n    os._exit(0)\nkept = 1", "1 processes"),
    ("import signal\n_ = signal.setitimer(signal.ITIMER_REAL, 500)\nkept = 1", "timer"),
    ("import os\nf = open('/workspace/gone', 'w')\nos.unlink('/workspace/gone')\nkept = 1", "/workspace/gone"),
])
def test_what_cannot_be_kept_is_named_and_stays(server, made, named):
    thread = new_thread(server)
    assert execute(server, thread, made)["status"] == "succeeded"
    answer = server.post(f"/thread/{thread}/cool", {})
    assert answer.status == 200 and answer.json["sandbox_status"] == "hot", answer.body
    assert named in answer.json["sandbox"]["not_cooled"], answer.json
    assert execute(server, thread, "kept")["result"]["rows"] == [[1]]
    assert "not_cooled" not in status(server, thread)["sandbox"]
    server.delete(f"/thread/{thread}")


def test_images_go_with_their_thread(server):
    thread = new_thread(server)
    execute(server, thread, "kept = 5")
    before = images(server)
    cool(server, thread)
    assert len(images(server)) == len(before) + 1
    server.delete(f"/thread/{thread}")
    assert images(server) == before
    thread = new_thread(server)
    execute(server, thread, "kept = 5")
    cool(server, thread)
    execute(server, thread, "kept")  # a kernel that is used is newer than its image, which is kept in case that the server is killed
    retired, = set(images(server)) - set(before)
    assert retired.endswith(".used")
    cool(server, thread)
    assert set(images(server)) - set(before) == {retired[:-len(".used")]}
    server.delete(f"/thread/{thread}")
    assert images(server) == before


def test_damaged_image_is_told(server):
    thread = new_thread(server)
    execute(server, thread, "kept = 5")
    for change in (lambda b: b[:5000], lambda b: b[:-100] + bytes(100), lambda b: bytes(4096) + b[4096:], lambda b: b""):
        before = images(server)
        cool(server, thread)
        name, = set(images(server)) - set(before)
        path = server.home / "images" / name
        path.write_bytes(change(path.read_bytes()))
        answer = execute(server, thread, "'kept' in globals()")
        assert answer["result"]["rows"] == [[False]] and answer["state_lost"] is True, answer
        assert "image cannot be used" in answer["state_lost_reason"], answer
        execute(server, thread, "kept = 5")


def test_threads_outlive_the_server(tmp_path):
    (tmp_path / "datasets" / "sales").mkdir(parents=True)
    (tmp_path / "datasets" / "sales" / "sales.csv").write_text(SALES)
    server = Server(tmp_path, **PANDAS)
    with server:
        threads = [new_thread(server) for _ in range(3)]
        for i, thread in enumerate(threads):
            execute(server, thread, f"mine = {i}\nnumbers = (n for n in range(100))\nfirst = next(numbers)")
        cool(server, threads[0])
        server.post(f"/thread/{threads[1]}/freeze", {})
    with server:  # SIGTERM has put all of them aside
        for i, thread in enumerate(threads):
            answer = execute(server, thread, "(mine, next(numbers)) == (%d, 1)" % i)
            assert answer["result"]["rows"] == [[True]] and not answer.get("state_lost"), answer
        cool(server, threads[2])
        execute(server, threads[1], "mine = 'changed'")
        server.process.kill()
        server.process.wait(30)
    with server:
        answer = say(server, threads[2], "PYTHON: (mine, next(numbers)) == (2, 2)")
        assert answer["result"]["rows"] == [[True]] and not answer.get("state_lost"), answer
        old = execute(server, threads[1], "(mine, next(numbers)) == (1, 1)")  # as of its last image, and it says so
        assert old["result"]["rows"] == [[True]] and old["state_lost"] is True and "without what ran since" in old["state_lost_reason"], old
        assert not execute(server, threads[1], "mine").get("state_lost")


def post_until_killed(server, thread, code):
    with contextlib.suppress(OSError, http.client.HTTPException):
        server.post(f"/thread/{thread}/execute", {"code": code, "timeout_seconds": 60})


def test_images_outlive_a_program_that_is_installed_anew(tmp_path):
    """The same build under another inode is the same; an image that is not found under its name is told of."""
    (tmp_path / "datasets" / "sales").mkdir(parents=True)
    (tmp_path / "datasets" / "sales" / "sales.csv").write_text(SALES)
    (tmp_path / "third_party").symlink_to(Path(RIDDLE).parent.parent / "third_party")
    program = tmp_path / "bin" / "riddle-kernel"
    program.parent.mkdir()
    server = Server(tmp_path, **QUICK, RIDDLE_KERNEL=program)
    inodes = set()
    for n in range(2):
        shutil.copy2(Path(RIDDLE).parent / "riddle-kernel", tmp_path / "new")
        (tmp_path / "new").rename(program)
        inodes.add(program.stat().st_ino)
        with server:
            thread = new_thread(server) if n == 0 else thread
            assert value(server, thread, "numbers = iter(range(9)); next(numbers)" if n == 0 else "next(numbers)") == n
    assert len(inodes) == 2
    image, = (p for p in (server.home / "images").iterdir() if p.name.startswith(image_prefix(thread)))
    image.rename(image.with_name(image.name[:33] + "0" * 16 + image.name[49:]))  # of other data
    with server:
        answer = execute(server, thread, "'numbers' in globals()")
        assert answer["result"]["rows"] == [[False]] and "its image is of other data" in answer["state_lost_reason"], answer


def other_build(path):
    """Gives a copy of riddle-kernel the id of another build: the note of the linker with its last byte changed."""
    program = bytearray(path.read_bytes())
    note = program.index(b"\4\0\0\0\x14\0\0\0\3\0\0\0GNU\0")
    program[note + 35] ^= 255
    path.write_bytes(program)


def test_another_build_reads_the_pickles_behind_the_image(tmp_path):
    """Its images are refused by name; variables come from the portable form behind them, and what that lacks is told."""
    (tmp_path / "datasets" / "sales").mkdir(parents=True)
    (tmp_path / "datasets" / "sales" / "sales.csv").write_text(SALES)
    (tmp_path / "third_party").symlink_to(Path(RIDDLE).parent.parent / "third_party")
    program = tmp_path / "bin" / "riddle-kernel"
    program.parent.mkdir()
    shutil.copy2(Path(RIDDLE).parent / "riddle-kernel", program)
    server = Server(tmp_path, **QUICK, RIDDLE_KERNEL=program)
    with server:
        all_kept, some, slow = (new_thread(server) for _ in range(3))
        execute(server, all_kept, "kept = {'a': [1]}\nclass Point:\n    x = 3\np = Point()\nopen('/workspace/f.txt', 'w').write('file')")
        execute(server, some, "half = iter([1, 2, 3])\ndef count():\n    yield 1\n    yield 2\ng = count()\nfirst = next(g)\nsame = [1]\nother = same\n"
                              "_ = sql('CREATE TEMP TABLE mine AS SELECT 1 AS a')")
        execute(server, slow, "kept = 1\nclass Slow:\n    def __reduce__(self):\n        global kept\n        kept = 2\n        while True:\n            pass\nslow = Slow()")
        for thread, lacks in (all_kept, None), (some, "g (generator"), (slow, "slow (Slow"):
            assert lacks in (cool(server, thread).get("not_elsewhere") or "") if lacks else "not_elsewhere" not in cool(server, thread), thread
        assert value(server, slow, "kept") == 1  # what pickling does is no part of the image, however long it takes
        assert value(server, some, "next(g)") == 2
    other_build(program)
    with server:
        status = server.get(f"/thread/{some}/status").json["sandbox"]  # of a thread that nobody has used since the start
        assert status["state"] == "cold" and "g (generator" in status["not_elsewhere"], status
        answer = execute(server, all_kept, "open('/workspace/f.txt').read() + str(kept) + str(p.x)")
        assert answer["result"]["rows"] == [["file{'a': [1]}3"]], answer
        assert "another version of" in answer["state_lost_reason"] and "riddle-kernel" in answer["state_lost_reason"], answer
        assert answer["state_lost_reason"].endswith("read from their pickles, all of them"), answer
        answer = execute(server, some, "first == 1 and same is other and next(half) == 1 and 'g' not in globals()")
        assert answer["result"]["rows"] == [[True]] and "; lost: " in answer["state_lost_reason"], answer
        assert "mine (a temporary table of SQL)" in answer["state_lost_reason"] and "g (generator" in answer["state_lost_reason"], answer
        answer = execute(server, slow, "kept == 1 and 'slow' not in globals()")
        assert answer["result"]["rows"] == [[True]] and "slow (Slow: pickling takes too long)" in answer["state_lost_reason"], answer
        cool(server, all_kept)  # an image of the new build
        answer = execute(server, all_kept, "kept['a']")
        assert answer["result"]["rows"] == [[1]] and "state_lost" not in answer, answer


def bases(server):
    return sorted(p.name for p in (server.home / "images").iterdir() if p.name.startswith("base-"))


def kill_fork_servers(server):
    for pid in {pid for one in Path(f"/proc/{server.process.pid}/task").glob("*/children") for pid in one.read_text().split()}:
        if Path(f"/proc/{pid}/comm").read_text() == "riddle-zygote-p\n":
            os.kill(int(pid), 9)


def test_one_base_for_all_zygotes_of_an_identity(tmp_path):
    """A new fork server is made from the base of the first one, in the next server and in the same one; a damaged base is never used."""
    (tmp_path / "datasets" / "sales").mkdir(parents=True)
    (tmp_path / "datasets" / "sales" / "sales.csv").write_text(SALES)
    server = Server(tmp_path, **PANDAS)
    threads, base = [], None
    for n in range(3):
        with server:
            for i, thread in enumerate(threads):
                answer = execute(server, thread, "next(numbers)")
                assert answer["result"]["rows"] == [[n - i]] and not answer.get("state_lost"), answer
            threads.append(new_thread(server))
            execute(server, threads[-1], "numbers = iter(range(9))\nfirst = next(numbers)\nimport pandas as pd\ndf = pd.DataFrame({'a': [1, 2]})")
            assert cool(server, threads[-1])["bytes"] < 400_000
            base = base or bases(server)
            assert len(base) == 1 and bases(server) == base
            if n == 2:
                kill_fork_servers(server)
                for i, thread in enumerate(threads):
                    assert value(server, thread, "(next(numbers), int(df.a.sum())) == (%d, 3)" % (n - i + 1)), thread
                    cool(server, thread)
                assert bases(server) == base
    assert "zygote.base_not_used" not in server.log.read_text()
    path = server.home / "images" / base[0]
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        word = file.read(8)
        file.seek(-8, 1)
        file.write(bytes(b ^ 255 for b in word))
    with server:
        answer = execute(server, threads[0], "next(numbers)")  # from the pickles behind the image
        assert answer["result"]["rows"] == [[4]] and "needs a base" in answer["state_lost_reason"], answer
        cool(server, threads[0])
        assert len(bases(server)) == 1 and bases(server) != base
    assert "its pages are not what was written" in server.log.read_text()


def test_checkpoints_outlive_a_kill(tmp_path):
    (tmp_path / "datasets" / "sales").mkdir(parents=True)
    (tmp_path / "datasets" / "sales" / "sales.csv").write_text(SALES)
    server = Server(tmp_path, **PANDAS, CHECKPOINT_SECONDS=1)
    with server:
        idle, busy = new_thread(server), new_thread(server)
        for thread in idle, busy:
            execute(server, thread, "mine = 1\nnumbers = (n for n in range(100))\nfirst = next(numbers)")
        wait_until(lambda: len([n for n in images(server) if n.endswith(".same")]) == 2, "both have an image")
        assert all(status(server, t)["sandbox"]["has_variables"] for t in (idle, busy))
        running = threading.Thread(target=post_until_killed, args=(server, busy, "mine = 2\nimport time\ntime.sleep(600)"))
        running.start()
        wait_until(lambda: any(n.endswith(".used") for n in images(server)), "code runs that is in no image")
        server.process.kill()
        server.process.wait(30)
        running.join()
    with server:  # killed again before anybody was told of the loss
        server.post(f"/thread/{busy}/wake", {})
        wait_until(lambda: status(server, busy)["sandbox_status"] == "hot", "there is a kernel again")
        server.process.kill()
        server.process.wait(30)
    with server:
        answer = execute(server, idle, "(mine, next(numbers)) == (1, 1)")  # nothing ran since
        assert answer["result"]["rows"] == [[True]] and not answer.get("state_lost"), answer
        answer = execute(server, busy, "mine")
        assert answer["result"]["rows"] == [[1]] and "without what ran since" in answer["state_lost_reason"], answer


def test_idle_threads_become_files(tmp_path):
    (tmp_path / "datasets" / "sales").mkdir(parents=True)
    (tmp_path / "datasets" / "sales" / "sales.csv").write_text(SALES)
    with Server(tmp_path, **PANDAS, RIDDLE_FREEZE_SECONDS=1, RIDDLE_COLD_SECONDS=2) as server:
        threads = [new_thread(server) for _ in range(2)]
        for i, thread in enumerate(threads):
            execute(server, thread, f"mine = {i}")
        wait_until(lambda: all(status(server, t)["sandbox_status"] == "cold" for t in threads), "idle threads are files")
        wait_for_metric(server, 2, "riddle_threads", state="cold")
        last = status(server, threads[0])["sandbox"]
        assert last["last_move"] == "hot→cold" and last["last_move_ms"] > 0 and last["bytes"] > 0 and last["since"], last
        for i, thread in enumerate(threads):
            assert execute(server, thread, "mine")["result"]["rows"] == [[i]]
        moves = server.get("/sandbox/statistics").json["statistics"]["moves"]
        assert moves == {"cold→hot": 2, "hot→warm": 2, "hot→cold": 2}, moves  # a thread's start is no move
        for move, n in moves.items():
            came, went = move.split("→")
            assert metric(server, "riddle_thread_moves_total", **{"from": came, "to": went}) == n
            assert metric(server, "riddle_thread_move_seconds_total", **{"from": came, "to": went}) > 0
        logged = [line for line in server.log.read_text().splitlines() if "event=thread.moved" in line and threads[1] in line]
        assert any("from=hot" in line and "to=cold" in line for line in logged), logged


def test_room_for_images_is_bounded(tmp_path):
    (tmp_path / "datasets" / "sales").mkdir(parents=True)
    (tmp_path / "datasets" / "sales" / "sales.csv").write_text(SALES)
    with Server(tmp_path, **QUICK, RIDDLE_IMAGES_SIZE="1m") as server:
        threads = [new_thread(server) for _ in range(2)]
        for thread in threads:
            execute(server, thread, "import os\nkept = os.urandom(2000000)")
        cool(server, threads[0])
        wait_until(lambda: server.post(f"/thread/{threads[1]}/cool", {}).status == 503, "the room for images is used up")
        assert execute(server, threads[1], "len(kept)")["result"]["rows"] == [[2000000]]
        assert execute(server, threads[0], "len(kept)")["result"]["rows"] == [[2000000]]


def test_oldest_images_beyond_the_quota_of_their_owner_go(tmp_path):
    (tmp_path / "datasets" / "sales").mkdir(parents=True)
    (tmp_path / "datasets" / "sales" / "sales.csv").write_text(SALES)
    server = Server(tmp_path, **QUICK, **KEYS, IMAGE_QUOTA_BYTES="6m")
    server.key = ANN

    def filled(key=ANN):
        thread = server.post("/thread/new", {"datasets": ["sales"]}, key=key).json["thread_id"]
        assert server.post(f"/thread/{thread}/execute", {"code": "import os\nkept = os.urandom(2000000)"}, key=key).json["status"] == "succeeded"
        assert server.post(f"/thread/{thread}/cool", {}, key=key).json["sandbox"]["bytes"] > 4_000_000  # the pickle behind it, too
        return thread

    def image_bytes(key=ANN):
        return server.get("/sandbox/statistics", key=key).json["statistics"]["image_bytes"]

    def lost(thread):
        answer = execute(server, thread, "'kept' in globals()")
        assert answer["result"]["rows"] == [[False]] and answer["state_lost"] is True, answer
        return answer["state_lost_reason"]

    with server:
        bens = filled(BEN)  # the oldest of all, of another owner
        first = filled()
        branch = server.post(f"/thread/{first}/fork", {}).json["thread_id"]
        assert server.post(f"/thread/{first}/checkpoint", {}).status == 200
        assert 4_000_000 < image_bytes() < 4_500_000, "three names of one file count once"
        second = filled()
        assert 4_000_000 < image_bytes() < 4_500_000 and 4_000_000 < image_bytes(BEN) < 4_500_000
        assert server.get(f"/thread/{first}/checkpoints").json["checkpoints"] == []
        for thread in first, branch:
            assert status(server, thread)["sandbox"]["has_variables"] is False
            assert "IMAGE_QUOTA_BYTES" in lost(thread)
    with server:  # threads that are not in memory
        filled()
        assert "IMAGE_QUOTA_BYTES" in lost(second)
        assert server.post(f"/thread/{bens}/execute", {"code": "len(kept)"}, key=BEN).json["result"]["rows"] == [[2_000_000]]
        for thread in server.get("/threads").json["threads"]:
            server.delete(f"/thread/{thread}")
        assert image_bytes() == 0 and [n for n in images(server) if not n.startswith(image_prefix(bens, "ben"))] == []


def test_images_are_sealed_with_the_key_of_the_operator(tmp_path):
    (tmp_path / "datasets" / "sales").mkdir(parents=True)
    (tmp_path / "datasets" / "sales" / "sales.csv").write_text(SALES)
    key = "0123456789abcdef" * 4
    make = "import os\nkept = '-'.join(['a', 'secret', 'of', 'mine']) * 100000\nmore = os.urandom(1000000)\nnumbers = iter(range(9))\nfirst = next(numbers)"
    secret = b"-secret-of-minea-secret-of-minea"

    def started(key):
        return Server(tmp_path, **QUICK, RIDDLE_IMAGE_KEY=key)

    def lost(server, thread):
        answer = execute(server, thread, "'kept' in globals()")
        assert answer["result"]["rows"] == [[False]] and answer["state_lost"] is True, answer
        return answer["state_lost_reason"]

    def found(server):
        return [p.name for p in (server.home / "images").iterdir() if secret in p.read_bytes()]

    with started("") as server:
        plain = new_thread(server)
        execute(server, plain, make)
        cool(server, plain)
        assert len(found(server)) == 1
    with started(key) as server:
        assert "not sealed with RIDDLE_IMAGE_KEY" in lost(server, plain)
        threads = [new_thread(server) for _ in range(4)]
        for thread in threads:
            execute(server, thread, make)
            cool(server, thread)
        assert value(server, threads[0], "str((len(kept), len(more), next(numbers)))") == "(1600000, 1000000, 1)"
        assert value(server, threads[0], f"'{key}' in str(dict(os.environ))") is False
        cool(server, threads[0])
        assert found(server) == []
        for at in 100, 5000, -5:  # of the head, of the first piece, of the last tag
            name, = (n for n in images(server) if n.startswith(image_prefix(threads[3])))
            path = server.home / "images" / name
            raw = bytearray(path.read_bytes())
            raw[at] ^= 1
            path.write_bytes(raw)
            assert "image cannot be used" in lost(server, threads[3])
            execute(server, threads[3], make)
            cool(server, threads[3])
        path.write_bytes(path.read_bytes()[:4096 + 2 * (262144 + 16)])  # whole pieces
        assert "image cannot be used" in lost(server, threads[3])
    with started("f" * 64) as server:
        assert "sealed with another key than RIDDLE_IMAGE_KEY" in lost(server, threads[1])
    with started("") as server:
        assert "sealed, and RIDDLE_IMAGE_KEY is not set" in lost(server, threads[2])
    with started(key) as server:
        assert value(server, threads[0], "next(numbers)") == 2
    code, said_why = fails_to_start(started(key[1:]))
    assert code != 0 and "RIDDLE_IMAGE_KEY: the key is not 64 hexadecimal digits" in said_why and key[1:] not in said_why, said_why


# ---- forks ----

STATE = ("import pandas as pd\ndef count():\n    n = 0\n    while True:\n        n += 1\n        yield n\ng = count()\nfirst = [next(g), next(g)]\n"
         "kept = {'a': 1}\ndf = pd.DataFrame({'n': range(1000)})\nf = open('/workspace/notes.txt', 'w+')\n_ = f.write('one')\nf.flush()")


def fork(server, thread, **more):
    answer = server.post(f"/thread/{thread}/fork", {}, **more)
    assert answer.status == 200, answer.body
    assert answer.json["forked_from"] == thread and answer.json["thread_id"] != thread, answer.json
    return answer.json


def value(server, thread, code):
    answer = execute(server, thread, code)
    assert answer["status"] == "succeeded" and not answer.get("state_lost"), answer
    return answer["result"]["rows"][0][0]


def said(server, thread):
    return [(m["role"], m["content"], m["run_id"]) for m in server.get(f"/threads/{thread}/messages").json["messages"]]


def test_fork_goes_on_beside_its_thread(server):
    before = images(server)
    thread = new_thread(server, datasets=["sales"], title="Spring")
    give(server, thread, ("pets.csv", PETS))
    say(server, thread, "SQL: SELECT count(*) AS n FROM sales")
    assert say(server, thread, "PYTHON: " + STATE)["status"] == "succeeded"
    answer = fork(server, thread)
    branch = answer["thread_id"]
    assert answer == {"thread_id": branch, "forked_from": thread, "title": "Spring", "message_count": 4, "has_variables": True}
    assert len(said(server, branch)) == 4 and said(server, branch) == said(server, thread)
    assert status(server, branch)["forked_from"] == thread and status(server, branch)["title"] == "Spring" and "forked_from" not in status(server, thread)

    # Each goes on from there, and neither sees what the other does.
    assert value(server, thread, "kept['a'] = 'thread'; df.loc[0, 'n'] = 7; _ = f.write(' two'); f.flush(); int(df.n.sum()) * 10 + next(g)") == 4995073
    assert value(server, branch, "int(df.n.sum()) * 10 + next(g)") == 4995003
    assert value(server, branch, "str(kept) + open('/workspace/notes.txt').read()") == "{'a': 1}one"
    assert value(server, thread, "kept['a'] + open('/workspace/notes.txt').read() + str(next(g))") == "threadone two4"
    assert value(server, branch, "len(sql('SELECT * FROM pets')) + len(open('/data/pets.csv').readlines())") == 7
    say(server, branch, "SQL: SELECT 1 AS one")
    assert status(server, branch)["message_count"] == 6 and status(server, thread)["message_count"] == 4

    # A fork of the fork, from the kernel that goes on; and one of a thread that is cold.
    value(server, branch, "kept['a'] = 'branch'; 1")
    twig = fork(server, branch)["thread_id"]
    cool(server, thread)
    late = fork(server, thread)["thread_id"]
    assert len(said(server, twig)) == 6
    for who, expected in ((twig, "branch4"), (branch, "branch4"), (late, "thread5"), (thread, "thread5")):
        assert value(server, who, "kept['a'] + str(next(g))") == expected

    # Files and images are each thread's own.
    server.delete(f"/thread/{thread}")
    assert "/data/pets.csv" in [x["path"] for x in listed(server, branch)["files"]]
    for who in (branch, twig, late):
        cool(server, who)
    assert len(set(images(server)) - set(before)) == 3
    assert value(server, branch, "kept['a'] + str(len(sql('SELECT * FROM pets')))") == "branch3"
    for who in (branch, twig, late):
        assert server.delete(f"/thread/{who}").json["deleted"] is True
    assert images(server) == before


def kernel_of(server, mark):
    """The process whose /workspace has this file, as the host sees it."""
    children = Path(f"/proc/{server.process.pid}/task").glob("*/children")
    pids = {pid for task in children for pid in task.read_text().split()}
    pid, = (pid for pid in pids if Path(f"/proc/{pid}/root/workspace/{mark}").exists())
    return pid


def jail_of(pid):
    """What must be its own, and what must be as of every kernel."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    own = {name: os.readlink(f"/proc/{pid}/ns/{name}") for name in ("pid", "mnt", "net", "ipc", "uts", "cgroup", "user")}
    own["groups"] = Path(f"/proc/{pid}/cgroup").read_text()
    own["root"] = (lambda s: s.st_dev)(os.stat(f"/proc/{pid}/root/workspace"))
    own["uid"] = lines["Uid"]
    same = {name: lines[name] for name in ("NoNewPrivs", "Seccomp", "Seccomp_filters", "CapEff", "CapPrm", "CapBnd", "CapInh", "CapAmb", "Groups")}
    same["limits"] = Path(f"/proc/{pid}/limits").read_text()
    same["mounts"] = sorted(line.split(" - ")[0].split(" ", 3)[3] for line in Path(f"/proc/{pid}/mountinfo").read_text().splitlines())
    return own, same


@pytest.mark.skipif(os.getuid() != 0, reason="looks into the jails of kernels")
def test_live_fork_has_a_jail_of_its_own(server):
    thread, other = new_thread(server), new_thread(server)
    assert value(server, thread, "kept = 1; open('/workspace/first', 'w').close(); 1") == 1
    assert value(server, other, "open('/workspace/other', 'w').close(); 1") == 1
    pid = kernel_of(server, "first")
    branch = fork(server, thread)["thread_id"]
    assert status(server, thread)["sandbox_status"] == "hot"  # the thread's own kernel went on
    assert value(server, branch, "import os; os.rename('/workspace/first', '/workspace/second'); os.getpid() * 10 + kept") == 11
    assert value(server, thread, "import os; sorted(p for p in os.listdir('/proc') if p.isdigit()) == ['1'] and os.path.exists('/workspace/first')") is True
    (own, same), (twin, twin_same), (new, new_same) = (jail_of(p) for p in (pid, kernel_of(server, "second"), kernel_of(server, "other")))
    assert twin_same == same == new_same
    shared = {name for name in own if own[name] == new[name]}  # by two kernels of different threads, on this machine
    assert {name for name in own if own[name] == twin[name]} == shared and not shared & {"pid", "mnt", "net", "ipc", "groups", "root", "uid"}, (own, twin)
    for who in (thread, branch, other):
        server.delete(f"/thread/{who}")


def test_fork_says_what_it_has_not(server):
    thread = new_thread(server)
    say(server, thread, "SQL: SELECT count(*) AS n FROM sales")
    branch = fork(server, thread)
    assert branch["has_variables"] is False and "not_kept" not in branch and said(server, branch["thread_id"]) == said(server, thread)
    assert value(server, branch["thread_id"], "kept = 1; 2") == 2

    say(server, thread, "PYTHON: import socket\npair = socket.socketpair()\nkept = 1")
    branch = fork(server, thread)
    assert branch["has_variables"] is True and branch["not_kept"].startswith("pair (tuple: "), branch
    answer = execute(server, branch["thread_id"], "'pair' in globals() or kept")
    assert answer["result"]["rows"] == [[1]] and answer["state_lost"] is True and "pair (tuple: " in answer["state_lost_reason"], answer
    assert value(server, thread, "len(pair)") == 2

    with stream(server, f"/thread/{thread}/execute/stream", {"code": "import time\nprint('on', flush=True)\nwhile True: time.sleep(0.01)"}) as events:
        for kind, event in events:
            if kind == "step":
                refused(server.post(f"/thread/{thread}/fork", {}), 409, "CONFLICT")
                server.post(f"/thread/{thread}/stop", {})
    refused(server.post("/thread/no-such-thread/fork", {}), 404, "NOT_FOUND")


def test_forks_outlive_the_server(tmp_path):
    (tmp_path / "datasets" / "sales").mkdir(parents=True)
    (tmp_path / "datasets" / "sales" / "sales.csv").write_text(SALES)
    server = Server(tmp_path, **QUICK, **KEYS)
    server.key = ANN
    with server:
        thread = new_thread(server)
        say(server, thread, "PYTHON: numbers = iter(range(100))\nfirst = next(numbers)")
        branch = fork(server, thread)["thread_id"]  # it never ran anything here
        refused(server.post(f"/thread/{thread}/fork", {}, key=BEN), 404, "NOT_FOUND")
        refused(server.get(f"/thread/{branch}/status", key=BEN), 404, "NOT_FOUND")
        assert value(server, thread, "next(numbers)") == 1
    with server:
        late = fork(server, thread)["thread_id"]
        assert value(server, branch, "next(numbers)") == 1
        assert value(server, late, "next(numbers)") == 2 and value(server, thread, "next(numbers)") == 2
        assert len(said(server, late)) == len(said(server, branch)) == 2


BIG = "big = bytes(range(250)) * 80_000\nnumbers = iter(range(100))\nfirst = next(numbers)"


def is_imaging(server, thread, before):
    """Something that was not there before stands for a fork, or its kernel was put aside."""
    return any(name.endswith(".partial") for name in set(images(server)) - set(before)) or status(server, thread)["sandbox"].get("last_move") == "hot→cold"


def test_message_waits_for_the_image_of_a_fork(server):
    thread = new_thread(server)
    assert execute(server, thread, BIG)["status"] == "succeeded"
    before = images(server)
    with ThreadPoolExecutor(1) as pool:
        forking = pool.submit(server.post, f"/thread/{thread}/fork", {})
        wait_until(lambda: is_imaging(server, thread, before), "the image is being written")
        assert value(server, thread, "next(numbers) * 10 + (len(big) == 20_000_000)") == 11
        answer = forking.result(60)
    assert answer.status == 200, answer.body
    assert value(server, answer.json["thread_id"], "next(numbers)") == 1
    branch = fork(server, thread)["thread_id"]
    assert value(server, branch, "next(numbers)") == value(server, thread, "next(numbers)") == 2
    for who in (thread, branch):
        server.delete(f"/thread/{who}")


def test_server_is_killed_in_mid_fork(tmp_path):
    (tmp_path / "datasets" / "sales").mkdir(parents=True)
    (tmp_path / "datasets" / "sales" / "sales.csv").write_text(SALES)
    server = Server(tmp_path, **QUICK)
    with server:
        thread = new_thread(server)
        assert execute(server, thread, BIG)["status"] == "succeeded"
        cool(server, thread)
        assert value(server, thread, "next(numbers)") == 1
        before = images(server)
        with ThreadPoolExecutor(1) as pool:
            forking = pool.submit(server.post, f"/thread/{thread}/fork", {})
            wait_until(lambda: is_imaging(server, thread, before), "the image is being written")
            server.process.kill()
            server.process.wait(30)
            if not forking.exception(60):  # it was quicker
                assert forking.result().status == 200
    # As if the server had been killed after it had stored a fork and before the fork had its image.
    with server:
        branch = new_thread(server)
        assert execute(server, branch, "kept = 1")["status"] == "succeeded"
        cool(server, branch)
        mine, = (name for name in images(server) if name.startswith(image_prefix(branch)))
    (server.home / "images" / mine).rename(server.home / "images" / (mine + ".link.partial"))
    with server:
        assert not [name for name in images(server) if name.endswith(".partial")]
        answer = execute(server, thread, "next(numbers)")  # as it was put aside last, or as the fork's image has it
        assert (answer["result"]["rows"], answer.get("state_lost", False)) in (([[1]], True), ([[2]], False)), answer
        answer = execute(server, branch, "'kept' in globals()")
        assert answer["result"]["rows"] == [[False]] and "before the thread that was forked had an image" in answer["state_lost_reason"], answer
        for who in server.get("/threads").json["threads"]:
            assert execute(server, who, "1")["result"]["rows"] == [[1]]
            server.delete(f"/thread/{who}")
        assert images(server) == []


def test_fork_has_an_image_of_its_own_soon(tmp_path):
    (tmp_path / "datasets" / "sales").mkdir(parents=True)
    (tmp_path / "datasets" / "sales" / "sales.csv").write_text(SALES)
    server = Server(tmp_path, **QUICK)
    with server:
        thread = new_thread(server)
        assert execute(server, thread, "numbers = iter(range(100))\nfirst = next(numbers)")["status"] == "succeeded"
        old = fork(server, thread)["thread_id"]
        wait_until(lambda: any(name.startswith(image_prefix(old)) and ".partial" not in name for name in images(server)), "the fork has an image", 30)
        wait_until(lambda: not any(name.endswith(".partial") for name in images(server)), "nothing stands for it any more", 30)
        new = fork(server, thread)["thread_id"]
        server.process.kill()
        server.process.wait(30)
    with server:
        answer = execute(server, old, "next(numbers)")
        assert answer["result"]["rows"] == [[1]] and not answer.get("state_lost"), answer
        answer = execute(server, new, "'numbers' in globals()")
        assert answer["result"]["rows"] == [[False]] and "before the thread that was forked had an image" in answer["state_lost_reason"], answer


# ---- checkpoints ----

def test_thread_goes_back_to_checkpoints(tmp_path):
    (tmp_path / "datasets" / "sales").mkdir(parents=True)
    (tmp_path / "datasets" / "sales" / "sales.csv").write_text(SALES)
    server = Server(tmp_path, **QUICK, **KEYS)
    server.key = ANN

    def rollback(checkpoint, **more):
        return server.post(f"/thread/{thread}/rollback", {"checkpoint": checkpoint}, **more)

    def checkpoints():
        return server.get(f"/thread/{thread}/checkpoints").json["checkpoints"]

    with server:
        thread = new_thread(server)
        assert "no variables" in refused(server.post(f"/thread/{thread}/checkpoint", {}), 409, "CONFLICT")
        say(server, thread, "PYTHON: numbers = iter(range(100))\nkept = [next(numbers)]")
        first = server.post(f"/thread/{thread}/checkpoint", {"name": "one"}).json
        assert first["thread_id"] == thread and first["name"] == "one" and first["message_count"] == 2 and first["bytes"] > 0, first
        assert value(server, thread, "kept.append(next(numbers)); str(kept)") == "[0, 1]"
        say(server, thread, "PYTHON: kept.append('more')")
        second = server.post(f"/thread/{thread}/checkpoint", {}).json
        assert [(c["checkpoint_id"], c["name"]) for c in checkpoints()] == [(first["checkpoint_id"], "one"), (second["checkpoint_id"], None)]
        execute(server, thread, "del kept")
        for again in range(2):  # from a kernel that goes on
            answer = rollback(first["checkpoint_id"])
            assert answer.status == 200 and answer.json["messages_after"] == 2, answer.body
            assert value(server, thread, "kept.append(next(numbers)); str(kept)") == "[0, 1]"
        assert status(server, thread)["message_count"] == 4
        assert rollback(second["checkpoint_id"]).json["messages_after"] == 0

        for path in ("checkpoint", "rollback"):
            refused(server.post(f"/thread/{thread}/{path}", {"checkpoint": first["checkpoint_id"]} if path == "rollback" else {}, key=BEN), 404, "NOT_FOUND")
        refused(server.get(f"/thread/{thread}/checkpoints", key=BEN), 404, "NOT_FOUND")
        refused(rollback("00000000"), 404, "NOT_FOUND")
        branch = fork(server, thread)["thread_id"]
        assert server.get(f"/thread/{branch}/checkpoints").json["checkpoints"] == []
        refused(server.post(f"/thread/{branch}/rollback", {"checkpoint": first["checkpoint_id"]}), 404, "NOT_FOUND")
    with server:  # the base that they need is kept
        assert value(server, thread, "str(kept)") == "[0, 1, 'more']"
        assert rollback(first["checkpoint_id"]).status == 200
        assert value(server, thread, "str(kept) + str(next(numbers))") == "[0]1"
        while len(checkpoints()) < 8:
            assert server.post(f"/thread/{thread}/checkpoint", {}).status == 200
        assert "at most 8" in refused(server.post(f"/thread/{thread}/checkpoint", {}), 409, "CONFLICT")
        assert server.delete(f"/thread/{thread}/checkpoints/{second['checkpoint_id']}").json["deleted"] is True
        refused(rollback(second["checkpoint_id"]), 404, "NOT_FOUND")
        assert len(checkpoints()) == 7 and server.post(f"/thread/{thread}/checkpoint", {}).status == 200
        give(server, thread, ("pets.csv", PETS))  # other data: nothing of before comes back
        assert checkpoints() == [] and not [name for name in images(server) if ".cp-" in name]
        server.delete(f"/thread/{thread}")
        server.delete(f"/thread/{branch}")
        assert images(server) == []
