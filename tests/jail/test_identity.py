"""Who the code is: nobody on the host, nobody with rights inside, in namespaces of its own, with four descriptors."""

import os
import socket
import subprocess
import time

import pytest
from conftest import KERNEL, PLAIN_ID, SANDBOX_ID, failed, status_of

NAMESPACES = ["user", "pid", "mnt", "net", "ipc", "uts", "cgroup"]


def test_ids(box, user):
    assert box.tells("tell([os.getresuid(), os.getresgid(), os.getgroups()])")[:2] == [[1000] * 3, [1000] * 3]
    status = status_of(box.pid)
    uids = {int(uid) for uid in status["Uid"].split()}
    if user == "root":
        assert len(uids) == 1 and uids <= set(range(SANDBOX_ID + 1, SANDBOX_ID + 512))
        assert status["Gid"].split() == [str(SANDBOX_ID)] * 4 and status["Groups"] == ""
    else:
        assert uids == {PLAIN_ID if os.geteuid() == 0 else os.getuid()}


def host_id(box):
    return status_of(box.pid)["Uid"].split()[0]


def test_each_kernel_has_a_user_id_of_its_own(make_box, user):
    """Where riddle may give them away. An id is used again when every process of its kernel is gone."""
    if user != "root":
        pytest.skip("a plain user has one id")
    boxes = [make_box(kind="sql") for _ in range(3)] + [make_box()]
    ids = [host_id(box) for box in boxes]
    assert len(set(ids)) == 4
    boxes[1].destroy()
    assert host_id(make_box(kind="sql")) not in {ids[0], ids[2], ids[3]}


def test_as_many_user_ids_as_are_set(drivers):
    """The rest shares one."""
    if os.geteuid() != 0:
        pytest.skip("a plain user has one id")
    driver = drivers.start("root", RIDDLE_SANDBOX_UIDS="2")
    ids = [host_id(driver.box(kind="sql")) for _ in range(3)]
    driver.close()
    assert sorted(ids) == [str(SANDBOX_ID), str(SANDBOX_ID), str(SANDBOX_ID + 1)]


def test_kernels_are_never_root_of_the_machine():
    """A zygote of root's that nobody gave another id refuses to serve: inside, /dev/null and all of root's files would be its own."""
    if os.geteuid() != 0:
        pytest.skip("only root can start a zygote as root")
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, its:
        os.set_inheritable(its.fileno(), True)
        done = subprocess.run(["/usr/bin/python3", "-c", "import os, sys; fd = int(sys.argv[1]); os.dup2(fd, 3); "
                               "os.execv(sys.argv[2], ['riddle-kernel', '--zygote=sql'])", str(its.fileno()), str(KERNEL)],
                              pass_fds=[its.fileno()], env={}, capture_output=True, text=True, timeout=60)
        its.close()
        assert ours.recv(100) == b""  # no hello
    assert done.returncode == 3  # cannot isolate
    assert done.stderr == ("riddle-kernel: the user namespace would make kernels root of this machine; "
                           "'riddle doctor' tells what to do\n")


def test_no_supplementary_group_has_a_name(box):
    """Groups that a user namespace could not drop are mapped to nobody."""
    assert set(box.tells("tell(os.getgroups())")) <= {65534}


def test_privileges(box):
    said = box.tells("tell(dict(line.split(':\\t', 1) for line in open('/proc/self/status').read().splitlines()))")
    for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(said[kind], 16) == 0, kind
    assert (said["NoNewPrivs"], said["Seccomp"]) == ("1", "2")
    assert (said["Pid"], said["PPid"], said["NSpid"], said["TracerPid"]) == ("1", "0", "1", "0")


def test_securebits(box):
    """NOROOT, NO_SETUID_FIXUP and NO_CAP_AMBIENT_RAISE are set and locked; KEEP_CAPS is locked off."""
    assert box.tells("tell(syscall(157, 27, 0, 0, 0, 0))") == 0b11101111


def test_hostname(box):
    assert box.tells("tell([os.uname().nodename, socket.gethostname()])") == ["riddle", "riddle"]
    assert box.tells("tell(attempt(socket.sethostname, 'other'))") == failed("PermissionError", "EPERM")


def test_namespaces(box, driver):
    mine = {name: os.readlink(f"/proc/{os.getpid()}/ns/{name}") for name in NAMESPACES}
    inside = box.tells(f"tell({{name: os.readlink('/proc/self/ns/' + name) for name in {NAMESPACES}}})")
    zygote = driver.call(op="zygotes")["python"]
    assert {name for name in NAMESPACES if inside[name] == mine[name]} == set()
    assert {name for name in NAMESPACES if inside[name] == os.readlink(f"/proc/{zygote}/ns/{name}")} == set()


def test_sandboxes_share_no_namespace(make_box):
    ask = f"tell({{name: os.readlink('/proc/self/ns/' + name) for name in {NAMESPACES}}})"
    first, second = make_box().tells(ask), make_box().tells(ask)
    assert {name for name in NAMESPACES if first[name] == second[name]} == set()


def test_network_namespaces_made_ahead_are_of_one_kernel_each(make_box, driver):
    """An idle zygote makes the next one's. It has left it when it answers, and the next kernel gets another."""
    kernels = []
    for pause_s in (0.1, 0.1, 0, 0, 0.1):
        time.sleep(pause_s)
        kernels.append(make_box().tells("tell(os.readlink('/proc/self/ns/net'))"))
        zygote = driver.call(op="zygotes")["python"]
        assert os.readlink(f"/proc/{zygote}/ns/net") not in kernels
    assert len(set(kernels)) == len(kernels)
    assert os.readlink("/proc/self/ns/net") not in kernels


def test_namespaces_of_others_cannot_be_opened(box):
    said = box.tells("""tell({name: attempt(os.open, "/proc/self/ns/" + name, os.O_RDONLY) for name in os.listdir("/proc/self/ns")})""")
    # One's own can be held, which is of no use: setns is not allowed (test_syscalls).
    for name, how in said.items():
        assert "returned" in how or how["errno"] == "EACCES", (name, how)


def test_descriptors(box):
    """Nothing but what a kernel needs: standard input from nowhere, two pipes and the control socket."""
    said = box.tells("""
names = os.listdir("/proc/self/fd")  # and the descriptor of this look, which is closed by then
tell({n: os.readlink(f"/proc/self/fd/{n}") for n in names if os.path.lexists(f"/proc/self/fd/{n}")})""")
    assert sorted(said) == ["0", "1", "2", "3"]
    assert said["0"] == "/dev/null" or said["0"].endswith("/null")
    assert said["1"].startswith("pipe:") and said["2"].startswith("pipe:") and said["3"].startswith("socket:")
    assert said["1"] != said["2"]


def test_descriptors_are_the_same_with_files(make_box, orders):
    """Descriptors that were passed for mounts are gone before user code runs."""
    box = make_box(files=orders)
    assert box.tells("""
names = os.listdir("/proc/self/fd")
tell([n for n in names if os.path.lexists(f"/proc/self/fd/{n}") and os.readlink(f"/proc/self/fd/{n}")[0] != "/"])""") == ["1", "2", "3"]


def test_standard_input_is_empty(box):
    assert box.tells("tell(os.read(0, 10).decode())") == ""


def test_pipes_of_output_lead_only_out(box):
    """The ends that riddle reads cannot be opened for reading through /proc, and the pipes cannot be widened beyond the limit."""
    said = box.tells("""
import fcntl
tell({"read": attempt(os.read, 1, 1), "reopen": attempt(os.open, "/proc/self/fd/1", os.O_RDONLY | os.O_NONBLOCK),
      "grow": attempt(fcntl.fcntl, 1, 1031, 1 << 30)})""")
    assert said["read"] == failed("OSError", "EBADF")
    # A pipe of one's own may be reopened; what is in it is what one wrote.
    assert "returned" in said["reopen"] or said["reopen"]["errno"] == "EACCES"
    assert said["grow"] == failed("PermissionError", "EPERM")


def test_user_namespace_maps_one_id(box):
    said = box.tells("tell([open('/proc/self/uid_map').read().split(), open('/proc/self/gid_map').read().split(), "
                     "open('/proc/self/setgroups').read().strip()])")
    assert said == [["1000", "0", "1"], ["1000", "0", "1"], "deny"] or said[0][0] == "1000" and said[0][2] == "1", said
    assert said[0][2] == said[1][2] == "1" and said[2] == "deny"


@pytest.mark.parametrize("name", ["RLIMIT_MEMLOCK", "RLIMIT_MSGQUEUE", "RLIMIT_RTPRIO", "RLIMIT_NICE"])
def test_limits_of_resources(box, name):
    soft, hard = box.tells(f"import resource; tell(resource.getrlimit(resource.{name}))")
    assert soft == hard == {"RLIMIT_MEMLOCK": 65536}.get(name, 0)


def test_no_dump_and_no_handler_of_dumps(box):
    """Where core_pattern names a program, a limit of 0 starts it; only 1 does not, and it cannot be changed."""
    said = box.tells("""
import resource
line = next(line for line in open('/proc/self/limits') if line.startswith('Max core file size'))
tell([line.split()[4:6], attempt(resource.setrlimit, resource.RLIMIT_CORE, (0, 0)), attempt(resource.setrlimit, resource.RLIMIT_CPU, (99, 99))])""")
    assert said[0] == ["1", "1"]
    assert said[1]["failed"] in ("ValueError", "PermissionError") and "failed" not in (said[2] or {}), said


def test_control_group_is_not_shown(box):
    """The cgroup namespace makes its own group the top one."""
    said = box.tells("tell(open('/proc/self/cgroup').read())")
    assert {line.split(":", 2)[2] for line in said.splitlines()} == {"/"}, said
