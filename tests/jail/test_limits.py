"""Limits: whatever the code takes too much of, it alone suffers, the verdict says so, and the machine does not notice."""

import os

import pytest
from conftest import MB, MemoryWatch, failed, has_groups, status_of, wait_until

# What the machine may lose beyond a sandbox's limit while one runs wild. Other programs run at the same time.
SLACK = 1024 * MB


def check(done, verdict, state_lost):
    assert (done.get("verdict"), done.get("state_lost")) == (verdict, state_lost), done


def works(driver):
    """A new sandbox does what sandboxes do."""
    box = driver.box()
    assert box.tells("tell(int(pd.Series([1, 2]).sum()))") == 3
    box.destroy()


# ---- processes and threads ----

FORK_BOMB = """
children = []
while True:
    pid = os.fork()
    if pid == 0:
        time.sleep(1000)
    children.append(pid)
"""

# Everybody forks, nobody waits, errors do not matter.
WILD_FORK_BOMB = """
while True:
    try:
        os.fork()
    except OSError:
        pass
"""

THREAD_BOMB = """
while True:
    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
"""


def test_fork_bomb(make_box, driver):
    box = make_box(pids=32)
    check(box.run(FORK_BOMB), "processes", False)
    assert 16 < len(box.running()) <= 32
    works(driver)
    box.destroy()
    assert box.processes() == []


def test_wild_fork_bomb(make_box, driver):
    """It never ends by itself: the time does, and the kill takes all. The verdict says what it did with its time."""
    box = make_box(pids=12)
    done = box.run(WILD_FORK_BOMB, timeout_ms=3000)
    assert done["verdict"] == ("processes" if has_groups(driver.user) else "timeout"), done
    assert len(box.running()) <= 12
    box.destroy()
    assert box.processes() == []
    works(driver)


def test_thread_bomb(make_box, driver):
    box = make_box(pids=32)
    check(box.run(THREAD_BOMB), "processes", False)
    assert int(status_of(box.pid)["Threads"]) <= 32
    works(driver)
    box.destroy()
    assert box.processes() == []


def test_bombs_of_two_sandboxes_do_not_add_up(make_box):
    """The limit is a sandbox's, not the user's that all of them run as."""
    first, second = make_box(pids=32), make_box(pids=32)
    check(first.run(FORK_BOMB), "processes", False)
    assert second.tells("""
pids = []
for _ in range(10):
    pids.append(os.fork())
    if pids[-1] == 0:
        os._exit(0)
tell([os.waitpid(pid, 0)[1] for pid in pids])""") == [0] * 10


def test_what_linux_counts_by_user(make_box, user):
    """Pages of pipes, and descriptors that are on their way: each kernel has its own, because it has a user id of its own."""
    if user != "root":
        pytest.skip("a plain user's kernels have one id")
    one, other = make_box(), make_box()
    use = """
import array, fcntl
pipes, pair = [], socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
def grow():
    pipes.append(os.pipe())
    return fcntl.fcntl(pipes[-1][1], fcntl.F_SETPIPE_SZ, 1 << 20)
def send():
    return pair[0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0] * 100))])
def most(call, n):
    for _ in range(n):
        failed = attempt(call)
        if "failed" in failed:
            return failed["errno"]
tell([most(grow, TIMES), fcntl.fcntl(os.pipe()[0], fcntl.F_GETPIPE_SZ), most(send, TIMES)])"""
    full = one.tells(use.replace("TIMES", "90"))
    assert full[0] == "EPERM" and full[1] < 65536 and full[2] == "ETOOMANYREFS", full
    assert other.tells(use.replace("TIMES", "1")) == [None, 65536, None]


# ---- memory ----

MEMORY_BOMBS = {
    "bytearray": "x = bytearray(4 << 30)\nfor i in range(0, len(x), 4096): x[i] = 1",
    "zeros of numpy": "x = np.ones(1 << 29)",
    "steps": "x = []\nwhile True: x.append(bytearray(b'x') * (16 << 20))",
    "small objects": "x = []\nwhile True: x.append([len(x)])",
    "dict of text": "x = {}\nwhile True: x[len(x)] = str(len(x)) * 20",
    "shared mapping": "m = mmap.mmap(-1, 4 << 30)\nfor i in range(0, len(m), 4096): m[i] = 1",
    "shared mapping of machine code": """
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
m = mmap.mmap(-1, 4 << 30)
libc.memset(ctypes.addressof(ctypes.c_char.from_buffer(m)), 1, 4 << 30)""",
    "children": """
for _ in range(16):
    if os.fork() == 0:
        x = bytearray(b"x") * (256 << 20)
        time.sleep(1000)
while True: time.sleep(0.01)""",
    "far descendants": """
for _ in range(12):  # each the child of the one before, and only the last one takes
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
        if os.getpid() != 1: os._exit(1)
        raise RuntimeError("the last one is dead")
x = bytearray(b"x") * (1 << 30)
time.sleep(1000)""",
    "child of a thread": """
def fork():
    if os.fork() == 0:
        x = bytearray(b"x") * (1 << 30)
    time.sleep(1000)
threading.Thread(target=fork, daemon=True).start()
while not [p for p in os.listdir("/proc") if p.isdigit() and p != "1"]: pass
os.wait()
raise RuntimeError("the child is dead")""",
    "orphans": """
for _ in range(8):
    if os.fork() == 0:
        if os.fork(): os._exit(0)
        os.setsid()
        x = bytearray(b"x") * (128 << 20)
        time.sleep(1000)
while os.wait()[1] == 0: pass
raise RuntimeError("one is dead")""",
}


@pytest.mark.parametrize("name", MEMORY_BOMBS)
def test_memory_bomb(make_box, driver, name):
    box = make_box(memory_bytes=256 * MB)
    with MemoryWatch() as machine:
        # Children may die alone. A cell that waits for them in vain ends with its time, and with the verdict of the limit.
        done = box.run(MEMORY_BOMBS[name], timeout_ms=1500 if name == "children" else 15000)
    assert done["verdict"] == "memory", done
    if done["state_lost"]:
        assert done["body"]["error"]["message"] == "the kernel ran out of memory; its variables are lost"
    assert machine.drop < 256 * MB + SLACK
    works(driver)
    box.destroy()
    assert box.processes() == []


@pytest.mark.parametrize("directory", ["/workspace", "/tmp", "/dev/shm"])
def test_memory_bomb_by_files(make_box, driver, directory):
    """Files there are memory: they count, and their file systems are smaller than the memory limit besides."""
    box = make_box(memory_bytes=256 * MB, workspace_bytes=64 * MB, tmp_bytes=64 * MB, file_bytes=4096 * MB)
    with MemoryWatch() as machine:
        done = box.run(f"""
with open("{directory}/big", "wb") as file:
    for _ in range(4096):
        file.write(bytes(1 << 20))""")
    check(done, "filesize", False)
    assert "No space left on device" in done["body"]["error"]["message"]
    assert machine.drop < 256 * MB + SLACK
    assert box.tells(f"tell(os.stat('{directory}/big').st_size)") <= 64 * MB
    works(driver)


def test_files_and_objects_together(make_box, user):
    """Where there are control groups, memory in files and memory in objects share one limit."""
    if not has_groups(user):
        pytest.skip("without control groups the two are limited apart: by the sizes of the file systems, and by the watchdog")
    box = make_box(memory_bytes=256 * MB, workspace_bytes=200 * MB, file_bytes=4096 * MB)
    assert box.tells("open('/workspace/big', 'wb').write(bytes(1 << 20) * 1) and tell(1)") == 1
    done = box.run("""
with open("/workspace/big", "wb") as file:
    for _ in range(190):
        file.write(bytes(1 << 20))
x = bytearray(b"x") * (190 << 20)""")
    assert done["verdict"] == "memory", done


def test_memory_of_idle_time(make_box, driver):
    """A process that a cell left behind takes its memory when no cell runs."""
    box = make_box(memory_bytes=256 * MB)
    with MemoryWatch() as machine:
        assert box.tells("""
r, w = os.pipe()
if os.fork() == 0:
    os.read(r, 1)
    x = []
    for _ in range(2048):
        x.append(bytearray(b"x") * (1 << 20))
    time.sleep(1000)
tell(os.getpid())""") == 1
        box.run("os.write(w, b'x')")
        # The bomb is at work now, with nobody waiting for it: killed by its control group, or held still without one.
        quiet = lambda: all(status_of(pid)["State"][0] == "T" for pid in box.running()) or len(box.running()) == 1
        assert wait_until(lambda: quiet() or machine.drop > 256 * MB + SLACK)
    assert machine.drop < 256 * MB + SLACK, f"{machine.drop >> 20} MB were taken by a sandbox of 256 MB"
    assert box.run("1")["verdict"] in ("ok", "memory")


def test_peak_is_told(make_box, user):
    if not has_groups(user):
        pytest.skip("without control groups nobody measures the peak")
    box = make_box(memory_bytes=512 * MB)
    done = box.run("x = bytearray(b'x') * (100 << 20)\ndel x")
    assert 100 * MB < done["peak_memory_bytes"] <= 512 * MB


# ---- files ----


@pytest.mark.parametrize("directory", ["/workspace", "/tmp"])
def test_space(make_box, directory):
    box = make_box(workspace_bytes=8 * MB, tmp_bytes=8 * MB)
    done = box.run(f"""
for n in range(64):
    with open(f"{directory}/{{n}}", "wb") as file:
        file.write(bytes(1 << 20))""")
    check(done, "filesize", False)
    assert done["body"]["error"]["message"].startswith("OSError: [Errno 28] No space left on device")
    assert box.tells(f"tell(sum(os.stat('{directory}/' + n).st_size for n in os.listdir('{directory}') if n != '.outputs'))") <= 8 * MB


@pytest.mark.parametrize("directory", ["/workspace", "/tmp"])
def test_inodes(make_box, directory):
    box = make_box(inodes=100)
    for code in ("open(f'{d}/f{n}', 'w').close()", "os.mkdir(f'{d}/d{n}')", "os.symlink('/x' * 100, f'{d}/s{n}')"):
        done = box.run(f"d = '{directory}'\nfor n in range(200): {code}")
        check(done, "filesize", False)
        assert "[Errno 28] No space left on device" in done["body"]["error"]["message"]
    assert box.tells(f"tell(len(os.listdir('{directory}')))") <= 100


def test_hard_links_are_bounded(make_box):
    """A name takes memory too, though no inode of its own."""
    box = make_box(inodes=100)
    done = box.run("open('/tmp/a', 'w').close()\nfor n in range(200): os.link('/tmp/a', f'/tmp/{n}')")
    check(done, "filesize", False)


def test_file_size(make_box):
    box = make_box(file_bytes=MB, workspace_bytes=64 * MB)
    done = box.run("kept = 1\nwith open('/workspace/big', 'wb', 0) as file:\n    for _ in range(8): file.write(bytes(1 << 19))")
    check(done, "filesize", False)
    assert done["body"]["error"]["message"].startswith("OSError: [Errno 27] File too large")
    assert box.tells("tell([kept, os.stat('/workspace/big').st_size])") == [1, MB]
    assert box.tells("tell([attempt(os.truncate, '/workspace/big', 1 << 40), "
                     "attempt(os.posix_fallocate, os.open('/workspace/big', os.O_RDWR), 0, 2 << 20)])") == [
        failed("OSError", "EFBIG"), failed("OSError", "EFBIG")]


def test_file_size_by_signal(make_box):
    """With the signal's default the kernel is ended by it, or spared as the first process: never is the file longer."""
    box = make_box(file_bytes=MB, workspace_bytes=64 * MB)
    done = box.run("""
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
file = open("/workspace/big", "wb", 0)
for _ in range(8):
    file.write(bytes(1 << 19))""")
    assert done["verdict"] == "filesize", done
    if not done["state_lost"]:
        assert box.tells("tell(os.stat('/workspace/big').st_size)") == MB


def test_open_files(make_box, driver):
    box = make_box(open_files=64)
    said = box.tells("""
kept = []
how = attempt(lambda: [kept.append(os.open("/dev/null", os.O_RDONLY)) for _ in range(1000)])
tell([how, len(kept)])
for fd in kept:
    os.close(fd)""")
    assert said[0] == failed("OSError", "EMFILE")
    assert 50 < said[1] <= 60
    assert box.tells("tell(attempt(os.dup2, 0, 64))") == failed("OSError", "EBADF")
    works(driver)


# ---- output ----

FLOODS = {
    "print": ("stdout", "while True: print('x' * 1000)"),
    "write": ("stdout", "while True: os.write(1, b'x' * 65536)"),
    "write to stderr": ("stderr", "while True: os.write(2, b'x' * 65536)"),
    "print to stderr": ("stderr", "while True: print('x' * 1000, file=sys.stderr)"),
    "machine code": ("stdout", """
# mov eax,1; mov edi,1; mov edx,65536; syscall; jmp to the beginning; with rsi from the caller's first argument
code = code_page(bytes.fromhex("4889fe b801000000 bf01000000 ba00000100 0f05 ebed"))
ctypes.CFUNCTYPE(None, ctypes.c_char_p)(code)(b"x" * 65536)"""),
}


@pytest.mark.parametrize("name", FLOODS)
def test_output_flood(make_box, driver, name):
    box = make_box()
    stream, code = FLOODS[name]
    resident = lambda: int(status_of(driver.pid)["VmRSS"].split()[0]) * 1024
    before = resident()
    done = box.run(code, timeout_ms=20000, max_output_bytes=65536)
    assert done["verdict"] == "output", done
    assert len(done[stream]) == 65536 and set(done[stream]) <= {"x", "\n"}
    assert done[stream + "_truncated"] and not done[("stderr" if stream == "stdout" else "stdout") + "_truncated"]
    assert resident() - before < 8 * MB
    if name != "machine code":  # which hears no interrupt
        assert not done["state_lost"] and box.tells("tell(1)") == 1
    else:
        assert done["state_lost"]


def test_output_up_to_the_limit(box):
    """Cut but not stopped."""
    done = box.run("print('x' * 100000)", max_output_bytes=65536)
    check(done, "ok", False)
    assert done["stdout_truncated"] and done["stdout"] == "x" * 65536


def test_displays_are_bounded(make_box, driver):
    box = make_box()
    resident = lambda: int(status_of(driver.pid)["VmRSS"].split()[0]) * 1024
    before = resident()
    done = box.run("for _ in range(2000): display({'a': 1})")
    check(done, "ok", False)
    assert len(done["displays"]) == 64
    assert resident() - before < 64 * MB


def test_result_is_bounded(make_box, driver):
    """A result larger than a frame ends as an error of its run."""
    box = make_box()
    done = box.run("'x' * (90 << 20)", timeout_ms=20000)
    assert done.get("verdict") in ("ok", "error") and len(str(done)) < 10 * MB, str(done)[:500]
    works(driver)


# ---- processor time ----


def test_processor_share_is_set(box, user):
    """Measured elsewhere; here it is asserted that the group of the kernel has its quota."""
    if not has_groups(user):
        pytest.skip("a plain user has no control groups here")
    with open(f"/proc/{box.pid}/cgroup") as lines:
        groups = [line.strip().split(":", 2) for line in lines]
    cpu = [path for _, names, path in groups if "cpu" in names.split(",")]
    files = [f"/sys/fs/cgroup/cpu{path}/cpu.cfs_quota_us" for path in cpu] or [f"/sys/fs/cgroup{groups[0][2]}/cpu.max"]
    if not os.path.exists(files[0]):
        pytest.skip(f"the machine has no '{files[0]}'")
    with open(files[0]) as quota:
        assert quota.read().split()[0] == "200000"
