"""Files: nothing of the host is readable, nothing but /workspace and /tmp writable, and no trick leads out."""

import json
import os
import pwd
import shutil

import pytest
from conftest import BUILD, LIBRARIES, LOADER, ROOT, SECRET, SECRET_PATTERN, STDLIB, failed

NOT_THERE = failed("FileNotFoundError", "ENOENT")
READ_ONLY = failed("OSError", "EROFS")
DENIED = failed("PermissionError", "EACCES")


# ---- reading ----


def test_root_shows_only_the_jail(box):
    assert sorted(box.tells("tell(os.listdir('/'))")) == [
        "data", "dev", "etc", "home", "lib", "mnt", "out", "proc", "tables", "tmp", "usr", "workspace"]
    assert box.tells("tell([os.listdir('/home'), os.listdir('/mnt')])") == [["user"], ["data"]]
    assert set(box.tells("tell(os.listdir('/etc'))")) <= {"alternatives", "ld.so.cache", "matplotlibrc"}
    assert sorted(box.tells("tell(os.listdir('/dev'))")) == [
        "fd", "full", "null", "random", "shm", "stderr", "stdin", "stdout", "urandom", "zero"]
    assert set(box.tells("tell(os.listdir('/usr'))")) <= {"lib", "local", "share"}
    assert box.tells("tell([os.listdir('/data'), os.listdir('/out'), os.listdir('/tables')])") == [["outputs"], [], []]


@pytest.mark.parametrize("path", ["/etc/passwd", "/etc/shadow", "/etc/hostname", "/etc/resolv.conf", "/root", "/home/root", "/host",
                                  "/jail", "/var", "/run", "/sys", "/boot", "/bin/sh", "/usr/bin/python3", "/dev/kmsg",
                                  "/dev/mem", "/dev/fuse", "/dev/tty", "/dev/ptmx", "/proc/kcore", "/proc/sys", "/proc/net",
                                  "/proc/cmdline", "/proc/meminfo", "/proc/keys", "/proc/sysrq-trigger"])
def test_host_path_does_not_exist(box, path):
    if path.startswith("/etc/") or path == "/usr/bin/python3":
        assert os.path.exists(path) or path == "/etc/resolv.conf"  # on the host
    if path == "/proc/net":  # a link to self/net, whose directory is the network namespace's, empty of others
        assert box.tells("tell(attempt(os.listdir, '/proc/net'))") == NOT_THERE
        return
    assert box.tells(f"tell(attempt(os.open, {path!r}, os.O_RDONLY))") == NOT_THERE
    assert box.tells(f"tell(attempt(os.lstat, {path!r}))") == NOT_THERE


def test_homes_and_programs_do_not_exist(box, driver):
    homes = {entry.pw_dir for entry in pwd.getpwall() if entry.pw_dir not in ("/", "/proc")}
    for path in sorted(homes | {str(BUILD), str(ROOT), str(driver.home), os.getcwd()}):
        # The parents of some homes exist inside (/usr/lib); the homes do not.
        said = box.tells(f"tell(attempt(os.listdir, {path!r}))")
        assert said == NOT_THERE or path in ("/dev", "/tmp"), path


def test_own_program_is_not_readable(box):
    """/proc/self/exe is a link into the host's tree that no path check stops."""
    said = box.tells("""tell({
        "exe": attempt(os.open, "/proc/self/exe", os.O_RDONLY),
        "write": attempt(os.open, "/proc/self/exe", os.O_WRONLY),
        "map_files": [attempt(os.open, "/proc/self/map_files/" + name, os.O_RDONLY)
                      for name in (attempt(os.listdir, "/proc/self/map_files").get("returned") and
                                   os.listdir("/proc/self/map_files")[:20] or [])],
    })""")
    assert said["exe"] == DENIED
    assert said["write"]["failed"] in ("PermissionError", "OSError") and said["write"]["errno"] in ("EACCES", "ETXTBSY", "EROFS")
    for attempt in said["map_files"]:
        assert attempt == failed("PermissionError", "EPERM")


def test_proc_shows_only_own_processes(box, driver):
    assert sorted(box.tells("tell(os.listdir('/proc'))")) == ["1", "self", "thread-self"]
    pids = [driver.pid, box.pid, os.getpid(), *driver.call(op="zygotes").values()]
    said = box.tells(f"tell([attempt(os.listdir, f'/proc/{{pid}}') for pid in {[p for p in pids if p > 1]}])")
    assert said == [NOT_THERE] * len(said) and len(said) >= 4


def test_links_of_proc_stay_inside(box):
    """cwd and root of every process that can be seen are directories of the jail."""
    said = box.tells("""tell({
        "root": sorted(os.listdir("/proc/self/root")), "above": sorted(os.listdir("/proc/1/root" + "/../../..")),
        "cwd": os.readlink("/proc/1/cwd"), "task": os.readlink("/proc/self/task/1/cwd"),
        "passwd": attempt(open, "/proc/1/root/etc/passwd"), "dev_fd": attempt(open, "/dev/fd/../root/etc/passwd"),
    })""")
    assert said["root"] == said["above"] and "etc" in said["root"] and "var" not in said["root"]
    assert said["cwd"] == said["task"] == "/workspace"
    assert said["passwd"] == said["dev_fd"] == NOT_THERE


# ---- the server's secret ----


def test_server_holds_the_secret(driver):
    """What the next tests look for is really there to be found."""
    with open(f"/proc/{driver.pid}/environ", "rb") as env:
        assert SECRET.encode() in env.read()


def test_environment_has_nothing_of_the_server(box):
    said = box.tells("""tell({
        "os": dict(os.environ),
        "self": open("/proc/self/environ", "rb").read().decode().split("\\0"),
        "one": open("/proc/1/environ", "rb").read().decode().split("\\0"),
    })""")
    assert SECRET not in json.dumps(said)
    assert set(said["os"]) <= {"HOME", "JOBLIB_MULTIPROCESSING", "LANG", "LC_ALL", "LOGNAME", "MPLBACKEND", "MPLCONFIGDIR", "NUMEXPR_MAX_THREADS",
                               "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PATH", "PYTHONDONTWRITEBYTECODE",
                               "PYTHONHASHSEED", "TMPDIR", "USER"}
    names = {line.split("=")[0] for line in said["self"] + said["one"] if line}
    assert names <= {"PATH", "LANG", "LC_ALL", "HOME", "TMPDIR", "USER", "LOGNAME", "PYTHONHASHSEED", "MPLCONFIGDIR"}


def test_memory_has_nothing_of_the_server(box):
    """Every readable page of the process: its stack, its heap, and what it shares with the zygote."""
    said = box.tells(f"""
decoy = "jail-secret-" + "ab" * 16  # put together at run time: proves that the search finds what is there
pattern = re.compile(rb"{SECRET_PATTERN}")
found, size, refused = set(), 0, []
with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as mem:
    for line in maps.read().splitlines():
        span, rights, *rest = line.split()
        start, end = (int(x, 16) for x in span.split("-"))
        if "r" not in rights or rest[-1] in ("[vvar]", "[vvar_vclock]", "[vsyscall]"):
            continue
        for at in range(start, end, 1 << 24):
            try:
                mem.seek(at)
                chunk = mem.read(min(1 << 24, end - at))
            except OSError:
                refused.append(line)
                break
            size += len(chunk)
            found.update(pattern.findall(chunk))
tell({{"found": [f.decode() for f in found], "size": size, "refused": refused}})""", timeout_ms=30000)
    assert said["found"] == ["jail-secret-" + "ab" * 16]
    assert said["size"] > 100 << 20 and len(said["refused"]) < 5, said


def test_every_readable_file_lacks_the_secret(box):
    """A walk over all that the jail shows, but for Debian's own trees."""
    said = box.tells(f"""
pattern, found, count = re.compile(rb"{SECRET_PATTERN}"), [], 0
for top in ("/data", "/workspace", "/tmp", "/out", "/etc", "/dev/shm", "/proc"):
    for directory, names, files in os.walk(top):
        for name in files:
            path = os.path.join(directory, name)
            try:
                if not stat.S_ISREG(os.lstat(path).st_mode) or name in ("mem", "pagemap", "clear_refs"):
                    continue
                with open(path, "rb") as file:
                    if pattern.search(file.read(1 << 20)):
                        found.append(path)
                    count += 1
            except OSError:
                pass
tell([found, count])""")
    assert said[0] == [] and said[1] > 30, said


# ---- tricks with paths ----


def test_dots_and_links_lead_nowhere(make_box, orders):
    box = make_box(files=orders)
    said = box.tells("""
os.symlink("/etc/passwd", "/workspace/passwd")
os.symlink("../../../../../../etc/passwd", "/workspace/up")
os.symlink("/proc/1/root/etc/shadow", "/tmp/shadow")
os.symlink("/", "/workspace/top")
os.mkdir("/tmp/d")
os.chdir("/tmp/d")
tell(attempts({
    "dots of data": (open, "/data/../../../etc/passwd"),
    "dots of workspace": (open, "/workspace/" + "../" * 60 + "etc/passwd"),
    "dots of here": (open, "../" * 60 + "etc/passwd"),
    "link": (open, "/workspace/passwd"),
    "relative link": (open, "/workspace/up"),
    "link through proc": (open, "/tmp/shadow"),
    "link to the top": (open, "/workspace/top/etc/passwd"),
    "hard link of host": (os.link, "/etc/passwd", "/workspace/hard"),
    "descriptor of the top": (lambda: open("../etc/passwd", opener=lambda p, f: os.open(p, f, dir_fd=os.open("/", os.O_RDONLY)))),
}))""")
    assert said == {name: NOT_THERE for name in said} and len(said) == 9


def test_link_on_the_host_is_not_followed_anew(driver, shared_dir):
    """A data file is opened by riddle, once; a link put into its place later shows nothing else."""
    path = shared_dir / "swapped.csv"
    path.write_text("a,b\n1,2\n")
    box = driver.box(files=[{"name": "swapped.csv", "path": str(path), "table": "swapped"}])
    try:
        path.unlink()
        path.symlink_to("/etc/passwd")
        assert box.tells("tell(open('/data/swapped.csv').read())") == "a,b\n1,2\n"
    finally:
        box.destroy()
        path.unlink()


def test_neighbours_of_a_data_file_are_not_shown(make_box, orders, shared_dir):
    (shared_dir / "neighbour.csv").write_text("a\n1\n")
    box = make_box(files=orders)
    assert box.tells("tell(sorted(os.listdir('/data')))") == ["orders.csv", "outputs"]
    assert box.tells("tell(attempt(open, '/data/neighbour.csv'))") == NOT_THERE
    assert box.tells("tell(open('/data/orders.csv').read(2))") == "id"


def test_files_that_only_their_owner_may_read(make_box, shared_dir, user):
    """Each kernel reads them, whatever its own id is, and cannot change them."""
    if user != "root":
        pytest.skip("only root may read the files of others")
    path = shared_dir / "private.csv"
    path.write_text("a\n1\n")
    os.chown(path, 12345, 54321)
    path.chmod(0o600)
    for box in [make_box(files=[{"name": "private.csv", "path": str(path), "table": "private"}]) for _ in range(3)]:
        assert box.tells("tell([open('/data/private.csv').read(), attempt(os.chmod, '/data/private.csv', 0o777)])") == \
            ["a\n1\n", failed("OSError", "EROFS")]
    assert path.stat().st_mode & 0o777 == 0o600


def test_paths_of_the_host_are_not_told(make_box, orders, driver, user):
    """Neither where a data file lies, which may have its owner's name in it, nor riddle's home."""
    box = make_box(files=orders)
    said = box.tells("""
import matplotlib
child = os.fork()  # its /proc has other files
if child == 0:
    os._exit(any(open(f"/proc/self/{n}").read() for n in ("mountinfo", "mounts", "mountstats")))
text = [open(f"/proc/self/{n}").read() for n in ("environ", "cmdline", "cgroup")]
text += {line.split()[-1] for line in open("/proc/self/maps") if "/usr/lib/" not in line}
tell({"mounts": [open(f"/proc/self/{n}").read() for n in ("mountinfo", "mounts", "mountstats", "task/1/mountinfo")],
      "child": os.waitpid(child, 0)[1], "text": "\\n".join(text), "fonts": [matplotlib.get_configdir(), matplotlib.get_cachedir()],
      "styles": matplotlib.style.core.USER_LIBRARY_PATHS})""")
    assert said["mounts"] == [""] * 4 and said["child"] == 0
    assert said["fonts"] == ["/tmp/matplotlib"] * 2 and said["styles"] == ["/tmp/matplotlib/stylelib"]
    assert str(driver.home) not in said["text"] and os.path.dirname(orders[0]["path"]) not in said["text"]
    if user == "root":  # a plain user's kernel opens the path itself
        directory = os.path.dirname(orders[0]["path"]).encode()
        assert box.tells(f"""
word = bytes({list(directory)})
found = []
with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as mem:
    for line in maps.read().splitlines():
        start, end = (int(x, 16) for x in line.split()[0].split("-"))
        if "heap" in line:
            mem.seek(start)
            found += [m.start() for m in re.finditer(re.escape(word) + b"/orders", mem.read(end - start))]
tell(found)""") == []


# ---- writing ----


def test_data_is_read_only(make_box, orders):
    box = make_box(files=orders)
    with open(orders[0]["path"]) as file:
        before = file.read()
    said = box.tells("""tell(attempts({
        "write": (os.open, "/data/orders.csv", os.O_WRONLY),
        "append": (open, "/data/orders.csv", "a"),
        "truncate": (os.truncate, "/data/orders.csv", 0),
        "create": (open, "/data/new", "w"),
        "mkdir": (os.mkdir, "/data/new"),
        "unlink": (os.unlink, "/data/orders.csv"),
        "rename": (os.rename, "/data/orders.csv", "/data/x"),
        "replace": (lambda: (open("/workspace/x", "w").close(), os.rename("/workspace/x", "/data/orders.csv"))),
        "chmod": (os.chmod, "/data/orders.csv", 0o777),
        "utime": (os.utime, "/data/orders.csv", (1, 1)),
        "link": (os.link, "/data/orders.csv", "/data/y"),
        "symlink": (os.symlink, "/etc", "/data/z"),
        "table": (os.open, "/tables/0.duckdb", os.O_RDWR),
        "through proc": (lambda: os.open("/proc/self/fd/%d" % os.open("/data/orders.csv", os.O_RDONLY), os.O_WRONLY)),
        "chmod of descriptor": (lambda: os.fchmod(os.open("/data/orders.csv", os.O_RDONLY), 0o777)),
        "truncate of descriptor": (lambda: os.ftruncate(os.open("/data/orders.csv", os.O_RDONLY), 0)),
        "shared mapping": (lambda: mmap.mmap(os.open("/data/orders.csv", os.O_RDONLY), 0)),
        "chown": (os.chown, "/data/orders.csv", 0, 0),
        "xattr": (os.setxattr, "/data/orders.csv", "user.x", b"1"),
    }))""")
    refused = {name: how.get("errno") for name, how in said.items()}
    assert refused.pop("replace") in ("EXDEV", "EROFS")
    assert refused.pop("unlink") in ("EROFS", "EBUSY")
    assert refused.pop("rename") in ("EROFS", "EBUSY")
    assert refused.pop("chown") == "EPERM" and refused.pop("xattr") == "ENOTSUP"
    assert refused.pop("shared mapping") == "EACCES"
    assert refused.pop("truncate of descriptor") == "EINVAL"
    assert refused.pop("table") in ("EROFS", "EACCES")  # its mode may speak first
    assert refused.pop("link") in ("EROFS", "EPERM", "EXDEV")
    assert refused == {name: "EROFS" for name in refused} and len(refused) == 10
    with open(orders[0]["path"]) as file:
        assert file.read() == before


@pytest.mark.parametrize("directory", ["/", "/etc", STDLIB, LIBRARIES, "/dev", "/proc",
                                       "/out", "/usr/share/fonts"])
def test_the_rest_is_read_only(box, directory):
    said = box.tells(f"""tell(attempts({{
        "create": (lambda: open(os.path.join({directory!r}, "planted"), "w")),
        "mkdir": (lambda: os.mkdir(os.path.join({directory!r}, "planted"))),
        "symlink": (lambda: os.symlink("/x", os.path.join({directory!r}, "planted"))),
        "chmod": (lambda: os.chmod({directory!r}, 0o777)),
    }}))""")
    # /proc is no place for files at all, and Landlock may speak before the read-only mount does.
    allowed = {"EROFS", "EACCES"} | ({"ENOENT", "EPERM"} if directory == "/proc" else set())
    assert {how["errno"] for how in said.values()} <= allowed, said


def test_installed_modules_cannot_be_replaced(box):
    said = box.tells("""
import numpy
tell(attempts({"write": (open, os.__file__, "a"), "unlink": (os.unlink, os.__file__), "module": (open, numpy.__file__, "w"),
               "rename": (os.rename, os.__file__, os.__file__ + ".x")}))""")
    assert {how["errno"] for how in said.values()} <= {"EROFS", "EACCES"}, said  # the modes of root's files may speak first


def test_devices(box):
    """The few that are there are what they say; none can be made."""
    said = box.tells("""tell({
        "null": open("/dev/null", "w").write("x"), "zero": open("/dev/zero", "rb").read(4).hex(),
        "full": attempt(lambda: os.write(os.open("/dev/full", os.O_WRONLY), b"x")),
        "seed": attempt(os.open, "/dev/urandom", os.O_WRONLY), "entropy": attempt(os.open, "/dev/random", os.O_RDWR),
        "char": attempt(os.mknod, "/tmp/mem", 0o666 | stat.S_IFCHR, os.makedev(1, 1)),
        "block": attempt(os.mknod, "/workspace/disk", 0o666 | stat.S_IFBLK, os.makedev(254, 0)),
        "regular": attempt(os.mknod, "/workspace/file", 0o666 | stat.S_IFREG),
        "chmod": attempt(os.chmod, "/dev/null", 0o666),  # as it is: no harm if it worked
        "times": attempt(os.utime, "/dev/zero"),
        "unlink": attempt(os.unlink, "/dev/null"),
    })""")
    assert said["null"] == 1 and said["zero"] == "00000000" and said["full"] == failed("OSError", "ENOSPC")
    assert said["seed"] == said["entropy"] == DENIED
    assert said["char"] == said["block"] == said["regular"] == failed("PermissionError", "EPERM")
    assert said["chmod"] == READ_ONLY
    assert said["times"] == READ_ONLY
    assert said["unlink"]["errno"] in ("EROFS", "EBUSY", "EACCES")
    assert os.stat("/dev/null").st_mode & 0o777 == 0o666


def test_proc_cannot_be_written(box):
    said = box.tells("""
names = ["oom_score_adj", "oom_adj", "mem", "coredump_filter", "comm", "clear_refs", "uid_map", "gid_map", "setgroups", "attr/current",
         "loginuid", "sched", "timerslack_ns", "autogroup", "projid_map", "timens_offsets"]
tell({name: attempt(os.open, "/proc/self/" + name, os.O_WRONLY) for name in names if os.path.lexists("/proc/self/" + name)})""")
    assert len(said) >= 6
    for name, how in said.items():
        assert how.get("errno") in ("EROFS", "EACCES"), (name, how)


def test_programs_cannot_be_run(box):
    """There is none, and what is written is not executable: no execve, and no mapping of a file as code."""
    said = box.tells(f"loader = {LOADER!r}" """
import subprocess
with open("/workspace/program", "wb") as file, open(loader, "rb") as program:
    file.write(program.read())
os.chmod("/workspace/program", 0o755)
def map_code(path):
    fd = os.open(path, os.O_RDONLY)
    return mmap.mmap(fd, 4096, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_EXEC)
tell(attempts({
    "loader": (os.execv, loader, [loader]),
    "written": (os.execv, "/workspace/program", ["program"]),
    "self": (os.execv, "/proc/self/exe", ["riddle-kernel", "--version"]),
    "subprocess": (subprocess.run, [loader, "--version"]),
    "spawn": (os.posix_spawn, loader, [loader], {}),
    "system": (lambda: os.system("true") and (_ for _ in ()).throw(PermissionError(13, "exit status"))),
    "mapped": (map_code, "/workspace/program"),
    "library": (ctypes.CDLL, "/workspace/program"),
    "memfd": (os.memfd_create, "program"),
}))""")
    assert said.pop("memfd") == failed("PermissionError", "EPERM")
    assert said.pop("mapped") == failed("PermissionError", "EPERM")
    assert said.pop("library")["failed"] == "OSError"
    assert said == {name: DENIED for name in said}, said


def test_workspace_and_tmp_are_usable(box):
    """The other side: what is meant to work does."""
    assert box.tells("""
open("/workspace/a", "w").write("x"); open("/tmp/b", "w").write("y"); os.rename("/workspace/a", "/workspace/c")
os.mkdir("/dev/shm/d"); open("/dev/shm/d/e", "w").write("z")
tell([sorted(os.listdir("/workspace")), sorted(set(os.listdir("/tmp")) - {"matplotlib"}), os.path.realpath("/dev/shm")])""") == [
        [".outputs", "c"], ["b", "d"], "/tmp"]


def test_sandboxes_do_not_share_files(make_box):
    first, second = make_box(), make_box()
    for directory in ("/workspace", "/tmp", "/dev/shm"):
        first.tells(f"open('{directory}/note', 'w').write('mine'); tell(1)")
        assert second.tells(f"tell(attempt(open, '{directory}/note'))") == NOT_THERE
    first.destroy()
    again = make_box()
    assert again.tells("tell([os.listdir('/workspace'), os.path.exists('/tmp/note')])") == [[".outputs"], False]
    assert shutil.disk_usage("/tmp").total > 0
