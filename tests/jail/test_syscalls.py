"""System calls that nobody needs: each is tried through libc, by machine code made at run time, by the numbers of x32, and
through the 32-bit entry. CALLS is the policy as seen from outside; src/kernel/jail/seccomp.c is the policy itself.
"""

import platform

import pytest
from conftest import LOADER, failed

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers are those of x86-64")

KILLED = "SIGSYS"

# name: (number, arguments as Python source, errno or KILLED). The arguments are such that the call would do something.
CALLS = {
    # debugging and other processes' memory
    "ptrace": (101, "0, 0, 0, 0", KILLED),
    "ptrace attach": (101, "16, os.getppid(), 0, 0", KILLED),
    "process_vm_readv": (310, "1, bytes(16), 1, bytes(16), 1, 0", KILLED),
    "process_vm_writev": (311, "1, bytes(16), 1, bytes(16), 1, 0", KILLED),
    "process_madvise": (440, "0, 0, 0, 0, 0", KILLED),
    "pidfd_getfd": (438, "0, 0, 0", KILLED),
    "kcmp": (312, "1, 1, 0, 0, 0", "EPERM"),
    # mounts
    "mount": (165, 'b"none", b"/tmp", b"tmpfs", 0, 0', KILLED),
    "remount": (165, "0, b'/', 0, 0x20 | 0x1000, 0", KILLED),
    "umount2": (166, 'b"/data", 2', KILLED),
    "pivot_root": (155, 'b"/tmp", b"/tmp"', KILLED),
    "chroot": (161, 'b"/tmp"', "EPERM"),
    "open_tree": (428, '-100, b"/", 1', KILLED),
    "move_mount": (429, '-100, b"/tmp", -100, b"/workspace", 0', KILLED),
    "fsopen": (430, 'b"tmpfs", 0', KILLED),
    "fsconfig": (431, "0, 0, 0, 0, 0", KILLED),
    "fsmount": (432, "0, 0, 0", KILLED),
    "fspick": (433, '-100, b"/", 0', KILLED),
    "mount_setattr": (442, '-100, b"/", 0, bytes(32), 32', KILLED),
    "statmount": (457, "bytes(24), bytes(512), 512, 0", KILLED),
    "listmount": (458, "bytes(24), bytes(512), 64, 0", KILLED),
    # namespaces
    "unshare user": (272, "0x10000000", KILLED),
    "unshare mount": (272, "0x20000", KILLED),
    "setns": (308, "os.open('/proc/self/ns/net', os.O_RDONLY), 0", KILLED),
    "clone user namespace": (56, "0x10000000 | 17, 0, 0, 0, 0", "EPERM"),
    "clone network namespace": (56, "0x40000000 | 17, 0, 0, 0, 0", "EPERM"),
    "clone pid namespace": (56, "0x20000000 | 17, 0, 0, 0, 0", "EPERM"),
    "clone mount namespace": (56, "0x00020000 | 17, 0, 0, 0, 0", "EPERM"),
    "clone cgroup namespace": (56, "0x02000000 | 17, 0, 0, 0, 0", "EPERM"),
    "clone uts namespace": (56, "0x04000000 | 17, 0, 0, 0, 0", "EPERM"),
    "clone ipc namespace": (56, "0x08000000 | 17, 0, 0, 0, 0", "EPERM"),
    "clone3": (435, "bytes(88), 88", "ENOSYS"),
    # large attack surfaces
    "bpf": (321, "0, bytes(128), 128", KILLED),
    "bpf load": (321, "5, bytes(128), 128", KILLED),
    "perf_event_open": (298, "bytes(128), 0, -1, -1, 0", KILLED),
    "userfaultfd": (323, "1", KILLED),
    "io_uring_setup": (425, "8, bytes(120)", "ENOSYS"),
    "io_uring_enter": (426, "0, 1, 0, 0, 0, 0", "ENOSYS"),
    "io_uring_register": (427, "0, 0, 0, 0", "ENOSYS"),
    "io_setup": (206, "1, bytes(8)", KILLED),
    "add_key": (248, 'b"user", b"x", b"y", 1, -1', KILLED),
    "request_key": (249, 'b"user", b"x", 0, -1', KILLED),
    "keyctl": (250, "0, -3, 1", KILLED),
    "fanotify_init": (300, "0, 0", KILLED),
    "inotify_init": (253, "", "ENOSYS"),
    "seccomp": (317, "1, 0, 0", "EPERM"),
    "landlock_create_ruleset": (444, "0, 0, 1", "ENOSYS"),
    "landlock_add_rule": (445, "3, 1, 0, 0", "ENOSYS"),
    "landlock_restrict_self": (446, "3, 0", "ENOSYS"),
    "splice": (275, "0, 0, 1, 0, 1, 0", "EOPNOTSUPP"),
    "vmsplice": (278, "1, bytes(16), 1, 0", "EOPNOTSUPP"),
    # the machine
    "init_module": (175, 'b"x", 1, b""', KILLED),
    "finit_module": (313, '0, b"", 0', KILLED),
    "delete_module": (176, 'b"x", 0', KILLED),
    "kexec_load": (246, "0, 0, 0, 0", KILLED),
    "kexec_file_load": (320, "0, 0, 0, 0, 0", KILLED),
    "reboot": (169, "0xfee1dead, 672274793, 0, 0", KILLED),
    "swapon": (167, 'b"/tmp/x", 0', KILLED),
    "swapoff": (168, 'b"/tmp/x"', KILLED),
    "acct": (163, "0", KILLED),
    "quotactl": (179, "0x80000100, 0, 0, 0", KILLED),
    "quotactl_fd": (443, "0, 0x80000100, 0, 0", KILLED),
    "settimeofday": (164, "bytes(16), 0", KILLED),
    "clock_settime": (227, "0, bytes(16)", KILLED),
    "clock_adjtime": (305, "0, bytes(208)", KILLED),
    "adjtimex": (159, "bytes(208)", KILLED),
    "sethostname": (170, 'b"x", 1', "EPERM"),
    "setdomainname": (171, 'b"x", 1', "EPERM"),
    "syslog": (103, "3, bytes(64), 64", "EPERM"),
    "vhangup": (153, "", KILLED),
    "iopl": (172, "3", KILLED),
    "ioperm": (173, "0, 1, 1", KILLED),
    "modify_ldt": (154, "1, bytes(16), 16", KILLED),
    "personality": (135, "0xffffffff", "EPERM"),
    "personality: read implies exec": (135, "0x0400000", "EPERM"),
    # identity
    "setuid": (105, "0", "EPERM"),
    "setgid": (106, "0", "EPERM"),
    "setreuid": (113, "0, 0", "EPERM"),
    "setregid": (114, "0, 0", "EPERM"),
    "setresuid": (117, "0, 0, 0", "EPERM"),
    "setresgid": (119, "0, 0, 0", "EPERM"),
    "setfsuid": (122, "0", "EPERM"),
    "setfsgid": (123, "0", "EPERM"),
    "setgroups": (116, "0, 0", "EPERM"),
    "capset": (126, "struct.pack('II', 0x20080522, 0), b'\\xff' * 24", "EPERM"),
    # programs and files by other ways
    "execve": (59, f"{LOADER.encode()!r}, 0, 0", "EACCES"),
    "execveat": (322, '-100, b"/proc/self/exe", 0, 0, 0', "EACCES"),
    "execveat of a descriptor": (322, '0, b"", 0, 0, 0x1000', "EACCES"),
    "uselib": (134, 'b"/tmp/x"', KILLED),
    "memfd_create": (319, 'b"x", 0', "EPERM"),
    "memfd_secret": (447, "0", "EPERM"),
    "mknod": (133, 'b"/tmp/null", 0o20666, 0x103', "EPERM"),
    "mknodat": (259, '-100, b"/tmp/null", 0o60666, 0x103', "EPERM"),
    "chown": (92, 'b"/tmp", 0, 0', "EPERM"),
    "name_to_handle_at": (303, '-100, b"/", bytes(136), bytes(8), 0', "EOPNOTSUPP"),
    "open_by_handle_at": (304, "-100, bytes(136), 0", KILLED),
    "openat2": (437, '-100, b"/etc/passwd", bytes(24), 24', "ENOSYS"),
    "setxattr": (188, 'b"/tmp", b"user.x", b"1", 1, 0', "EOPNOTSUPP"),
    "lookup_dcookie": (212, "0, 0, 0", KILLED),
    # prctl and ioctl are judged by their arguments
    "prctl: a second filter": (157, "22, 2, 0, 0, 0", "EPERM"),
    "prctl: dumpable": (157, "4, 1, 0, 0, 0", "EPERM"),
    "prctl: outlive riddle": (157, "1, 0, 0, 0, 0", "EPERM"),
    "prctl: memory map": (157, "35, 1, 0, 0, 0", "EPERM"),
    "prctl: ptracer": (157, "0x59616d61, -1, 0, 0, 0", "EPERM"),
    "prctl: keep capabilities": (157, "8, 1, 0, 0, 0", "EPERM"),
    "prctl: securebits": (157, "28, 0, 0, 0, 0", "EPERM"),
    "prctl: ambient": (157, "47, 2, 0, 0, 0", "EPERM"),
    "prctl: subreaper": (157, "36, 1, 0, 0, 0", "EPERM"),
    "prctl: high bits": (157, "22 | 1 << 32, 2, 0, 0, 0", "EPERM"),
    "ioctl: push a character": (16, "0, 0x5412, b'x'", "ENOTTY"),
    "ioctl: console": (16, "0, 0x541c, b'x'", "ENOTTY"),
    "ioctl: flags of a file": (16, "os.open('/tmp', os.O_RDONLY), 0x40086602, bytes(8)", "ENOTTY"),
    "ioctl: namespace of a file": (16, "os.open('/proc/self/ns/user', os.O_RDONLY), 0xb702, 0", "ENOTTY"),
    "ioctl: high bits": (16, "0, 0x5412 | 1 << 32, b'x'", "ENOTTY"),
    # numbers that are nobody's
    "unassigned": (400, "", KILLED),
    "not yet assigned": (600, "", KILLED),
    "beyond all": (0x3FFFFFFF, "", KILLED),
}

FATAL = [name for name, call in CALLS.items() if call[2] == KILLED]
REFUSED = [name for name, call in CALLS.items() if call[2] != KILLED]

# One way to make a call each: a function of number and arguments that raises OSError.
WAYS = {
    "libc": "make_call = syscall",
    "machine code": r"""
# mov rax,rdi; mov rdi,rsi; mov rsi,rdx; mov rdx,rcx; mov r10,r8; mov r8,r9; mov r9,[rsp+8]; syscall; ret
stub = ctypes.CFUNCTYPE(ctypes.c_long, *[ctypes.c_long] * 7)(code_page(bytes.fromhex(
    "4889f8 4889f7 4889d6 4889ca 4d89c2 4d89c8 4c8b4c2408 0f05 c3")))

def make_call(number, *args):
    keep = [ctypes.create_string_buffer(a, len(a) + 1) if isinstance(a, bytes) else None for a in args]
    values = [ctypes.addressof(k) if k else a for k, a in zip(keep, args)] + [0] * (6 - len(args))
    result = stub(number, *values)
    if -4096 < result < 0:
        raise OSError(-result, os.strerror(-result))
    return result
""",
    "32-bit entry": r"""
# push rbx; mov eax,edi; mov ebx,esi; xchg ecx,edx; mov esi,r8d; int 0x80; pop rbx; ret
stub = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_int] * 5)(code_page(bytes.fromhex("53 89f8 89f3 87ca 4489c6 cd80 5b c3")))

def make_call(number, *args):
    result = stub(number, *args, *[0] * (4 - len(args)))
    if -4096 < result < 0:
        raise OSError(-result, os.strerror(-result))
    return result
""",
}

# How a child ends that makes a call, so that one sandbox serves many.
IN_CHILDREN = r"""
def ending(number, *args):
    pid = os.fork()
    if pid == 0:
        try:
            make_call(number, *args)
            os._exit(0)
        except OSError as error:
            os._exit(error.errno)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return signal.Signals(-status).name if status < 0 else errno.errorcode.get(status, status)
"""


def spelled(name):
    number, arguments, _ = CALLS[name]
    return f"{number}, {arguments}" if arguments else str(number)


@pytest.mark.parametrize("way", ["libc", "machine code"])
@pytest.mark.parametrize("name", FATAL)
def test_call_ends_the_kernel(box, name, way):
    done = box.run(f"{WAYS[way]}\nprint('before', flush=True)\nmake_call({spelled(name)})\nprint('after', flush=True)")
    assert (done["verdict"], done["state_lost"], done["alive"]) == ("policy", True, False), done
    assert done["stdout"] == "before\n"
    assert done["body"]["error"] == {
        "type": "KILLED",
        "message": "the code made a system call that the sandbox does not allow; its variables are lost"}


@pytest.mark.parametrize("way", ["libc", "machine code"])
def test_calls_are_refused(box, way):
    calls = ", ".join(f"{name!r}: (make_call, {spelled(name)})" for name in REFUSED)
    said = box.tells(f"{WAYS[way]}\ntell(attempts({{{calls}}}))")
    assert {name: how.get("errno", how) for name, how in said.items()} == {
        name: "ENOTSUP" if CALLS[name][2] == "EOPNOTSUPP" else CALLS[name][2] for name in REFUSED}
    assert box.tells("tell([os.getuid(), os.getgid()])") == [1000, 1000]  # and nothing changed


def test_calls_end_threads_and_children_too(box):
    """The filter is inherited: a child dies alone, a thread takes the kernel with it."""
    calls = ", ".join(f"{name!r}: ending({spelled(name)})" for name in FATAL)
    said = box.tells(f"{WAYS['machine code']}\n{IN_CHILDREN}\ntell({{{calls}}})")
    assert said == {name: KILLED for name in FATAL}
    done = box.run(f"t = threading.Thread(target=syscall, args=({spelled('mount')},)); t.start(); t.join()")
    assert (done["verdict"], done["state_lost"]) == ("policy", True), done


def test_numbers_of_x32(box):
    """The same calls with the bit of the x32 numbers: another table of the same kernel, and no way around the filter."""
    numbers = sorted({call[0] for call in CALLS.values()} | {0, 1, 2, 41, 57, 512, 520, 521, 545})
    said = box.tells(f"""{WAYS['machine code']}\n{IN_CHILDREN}
tell({{n: ending(n | 0x40000000) for n in {numbers}}})""")
    assert said == {str(n): KILLED for n in numbers}


def test_number_minus_one(box):
    assert box.tells(f"{WAYS['machine code']}\n{IN_CHILDREN}\ntell([ending(-1), ending(0xffffffff), ending(1 << 31)])") == [KILLED] * 3


# Numbers of i386: exit fork read open execve getpid mount ptrace setuid socketcall clone mmap2 unshare socket
I386 = {"exit": 1, "fork": 2, "read": 3, "open": 5, "execve": 11, "getpid": 20, "mount": 21, "ptrace": 26, "setuid": 23,
        "socketcall": 102, "clone": 120, "mmap2": 192, "unshare": 310, "bpf": 357, "socket": 359, "process_vm_readv": 347,
        "keyctl": 288, "io_uring_setup": 425}


def test_32_bit_entry(box):
    """SIGSYS by the filter, or SIGSEGV where the machine has no 32-bit entry."""
    said = box.tells(f"{WAYS['32-bit entry']}\n{IN_CHILDREN}\ntell({{n: ending(v) for n, v in {I386!r}.items()}})")
    assert set(said) == set(I386)
    assert set(said.values()) in ({"SIGSYS"}, {"SIGSEGV"}), said


def test_32_bit_entry_ends_the_kernel(box):
    done = box.run(f"{WAYS['32-bit entry']}\nmake_call(20)")
    assert (done["verdict"], done["state_lost"]) in (("policy", True), ("killed", True)), done
    if done["verdict"] == "killed":
        assert "SIGSEGV" in done["body"]["error"]["message"] or "egmentation" in done["body"]["error"]["message"]


def test_far_jump_to_32_bit_code(box):
    """A change of the code segment makes 32-bit code, whose calls are of another architecture."""
    done = box.run(r"""
libc.mmap.restype = ctypes.c_void_p
low = libc.mmap(ctypes.c_void_p(0x10000000), 4096, 7, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40, -1, 0)
# 32-bit: mov eax,20; int 0x80; hlt
ctypes.memmove(low + 0x100, bytes.fromhex("b814000000 cd80 f4"), 8)
# 64-bit: push 0x23; push low+0x100; retfq
ctypes.memmove(low, bytes.fromhex("6a23 68") + struct.pack("<I", low + 0x100) + bytes.fromhex("48cb"), 9)
ctypes.CFUNCTYPE(None)(low)()""")
    assert done["state_lost"] and done["verdict"] in ("policy", "killed"), done


def test_writable_code_page(box):
    """Machine code needs no trick: a page may be writable and executable, and the filter is what counts."""
    assert box.tells("""
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(bytes.fromhex("b827000000 0f05 c3"))  # mov eax,39 (getpid); syscall; ret
address = ctypes.addressof(ctypes.c_char.from_buffer(page))
tell(ctypes.CFUNCTYPE(ctypes.c_long)(address)())""") == 1


def test_allowed_calls_get_no_further_by_high_bits(box):
    """Arguments are 64 bits wide, the filter compares 32: what the kernel ignores must not matter."""
    said = box.tells("""tell(attempts({
        "socket": (syscall, 41, 2 | 7 << 32, 1, 0), "socketpair": (syscall, 53, 2 | 7 << 32, 1, 0, bytes(8)),
        "clone": (syscall, 56, 0x10000000 | 1 << 33 | 17, 0, 0, 0, 0),
    }))""")
    assert said == {"socket": failed("PermissionError", "EACCES"), "socketpair": failed("PermissionError", "EACCES"),
                    "clone": failed("PermissionError", "EPERM")}


def test_no_leases_notices_owners_or_signals(box):
    """They act on whoever else has the file: a lease on a shared table holds up every owner who opens it."""
    said = box.tells("""
import fcntl
fd = os.open('/workspace/mine', os.O_RDWR | os.O_CREAT)
tell({**attempts({name: (fcntl.fcntl, fd, number, 1) for name, number in
                  {'lease': 1024, 'notify': 1026, 'owner': 8, 'owner_ex': 15, 'signal': 10}.items()}),
      'flags': attempt(fcntl.fcntl, fd, fcntl.F_GETFL), 'dup': attempt(fcntl.fcntl, fd, fcntl.F_DUPFD, 50),
      'lock': attempt(fcntl.lockf, fd, fcntl.LOCK_EX)})""")
    assert {said[name]["errno"] for name in ("lease", "notify", "owner", "owner_ex", "signal")} == {"EINVAL"}, said
    assert not any("failed" in (said[name] or {}) for name in ("flags", "dup", "lock") if isinstance(said[name], dict)), said


def test_limits_can_only_be_lowered(box):
    said = box.tells("""
import resource
names = ["RLIMIT_NPROC", "RLIMIT_NOFILE", "RLIMIT_FSIZE", "RLIMIT_MEMLOCK", "RLIMIT_MSGQUEUE", "RLIMIT_SIGPENDING",
         "RLIMIT_NICE", "RLIMIT_RTPRIO"]
def raise_limit(name):
    which = getattr(resource, name)
    hard = resource.getrlimit(which)[1]
    resource.setrlimit(which, (hard + 1, hard + 1))
tell(attempts({name: (raise_limit, name) for name in names}))""")
    assert len(said) == 8
    assert {how.get("failed") for how in said.values()} == {"ValueError"}, said  # how Python says EPERM
