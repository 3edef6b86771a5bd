"""Network: no socket but Unix ones, no interface, and nothing of the host's to reach by them."""

import os
import secrets
import socket

import pytest
from conftest import failed, wait_until

DENIED = failed("PermissionError", "EACCES")

FAMILIES = {
    "tcp": ("AF_INET", "SOCK_STREAM", 0),
    "udp": ("AF_INET", "SOCK_DGRAM", 0),
    "tcp6": ("AF_INET6", "SOCK_STREAM", 0),
    "udp6": ("AF_INET6", "SOCK_DGRAM", 0),
    "raw": ("AF_INET", "SOCK_RAW", 1),
    "raw6": ("AF_INET6", "SOCK_RAW", 58),
    "ping": ("AF_INET", "SOCK_DGRAM", 1),
    "sctp": ("AF_INET", "SOCK_STREAM", 132),
    "mptcp": ("AF_INET", "SOCK_STREAM", 262),
    "netlink route": ("AF_NETLINK", "SOCK_RAW", 0),
    "netlink audit": ("AF_NETLINK", "SOCK_RAW", 9),
    "netlink uevent": ("AF_NETLINK", "SOCK_DGRAM", 15),
    "packet": ("AF_PACKET", "SOCK_RAW", 768),
    "vsock": ("AF_VSOCK", "SOCK_STREAM", 0),
    "alg": ("AF_ALG", "SOCK_SEQPACKET", 0),
    "bluetooth": (31, "SOCK_RAW", 1),
    "can": ("AF_CAN", "SOCK_RAW", 1),
    "tipc": ("AF_TIPC", "SOCK_STREAM", 0),
    "xdp": (44, "SOCK_RAW", 0),
    "rds": (21, "SOCK_SEQPACKET", 0),
    "key": (15, "SOCK_RAW", 2),
    "unspecified": (0, "SOCK_STREAM", 0),
    "beyond": (999, "SOCK_STREAM", 0),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_socket_cannot_be_made(box, name):
    family, kind, protocol = FAMILIES[name]
    value = lambda v: f"socket.{v}" if isinstance(v, str) else str(v)
    call = f"{value(family)}, {value(kind)}, {protocol}"
    assert box.tells(f"tell([attempt(socket.socket, {call}), attempt(socket.socketpair, {call})])") == [DENIED, DENIED]
    # Bits above the 32 that the kernel looks at must not get past the filter.
    assert box.tells(f"tell(attempt(syscall, 41, {value(family)} | 1 << 32, {value(kind)}, {protocol}))") == DENIED


def test_no_interface(box):
    """Only loopback, and it is down: no packet was ever seen on it. There is no socket to ask with."""
    assert box.tells("tell(attempt(socket.if_nameindex))") == DENIED
    said = box.tells("tell({name: open('/proc/self/net/' + name).read() for name in ('dev', 'route', 'tcp', 'unix')})")
    interfaces = [line.split() for line in said["dev"].splitlines()[2:]]
    assert [fields[0] for fields in interfaces] == ["lo:"] and set(interfaces[0][1:]) == {"0"}
    assert len(said["route"].splitlines()) <= 1 and len(said["tcp"].splitlines()) == 1
    assert "riddle" not in said["unix"] and "@" not in said["unix"] and "/" not in said["unix"]


def test_dns(box):
    said = box.tells("""tell([attempt(socket.getaddrinfo, "example.com", 80), attempt(socket.gethostbyname, "localhost"),
                               attempt(socket.getnameinfo, ("127.0.0.1", 22), 0)])""")
    assert [how.get("failed") for how in said[:2]] == ["gaierror", "gaierror"], said


def test_urls(box):
    said = box.tells("""
import urllib.request
tell([attempt(urllib.request.urlopen, "http://127.0.0.1:80/"), attempt(urllib.request.urlopen, "http://1.1.1.1/"),
      attempt(lambda: pd.read_csv("http://127.0.0.1:80/x.csv"))])""")
    assert [how["failed"] for how in said] == ["URLError"] * 3


@pytest.fixture
def listeners():
    """Sockets of the host that would gladly talk: abstract and on loopback."""
    name = "riddle-jail-" + secrets.token_hex(8)
    abstract, datagram = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    tcp, udp = socket.socket(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    abstract.bind("\0" + name)
    datagram.bind("\0" + name + "-dgram")
    tcp.bind(("127.0.0.1", 0))
    udp.bind(("127.0.0.1", 0))
    sockets = {"abstract": abstract, "datagram": datagram, "tcp": tcp, "udp": udp}
    for s in sockets.values():
        s.setblocking(False)
        if s.type == socket.SOCK_STREAM:
            s.listen()
    # They do listen: the host reaches them.
    with socket.create_connection(tcp.getsockname(), 5), socket.socket(socket.AF_UNIX) as local:
        local.connect("\0" + name)
        tcp.accept()[0].close()
        abstract.accept()[0].close()
    yield name, sockets
    for s in sockets.values():
        s.close()


def test_listeners_of_the_host_hear_nothing(box, listeners):
    name, sockets = listeners
    port, udp_port = sockets["tcp"].getsockname()[1], sockets["udp"].getsockname()[1]
    said = box.tells(f"""
stream, datagram = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
tell(attempts({{
    "abstract": (stream.connect, "\\0{name}"),
    "datagram": (datagram.sendto, b"x", "\\0{name}-dgram"),
    "tcp": (socket.create_connection, ("127.0.0.1", {port}), 1),
    "tcp6": (socket.create_connection, ("::1", {port}), 1),
    "udp": (lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", {udp_port}))),
}}))""")
    assert said["abstract"] == said["datagram"] == failed("ConnectionRefusedError", "ECONNREFUSED")
    assert said["tcp"]["failed"] in ("PermissionError", "gaierror")
    assert said["tcp6"]["failed"] in ("PermissionError", "gaierror")
    assert said["udp"] == DENIED
    for kind in ("abstract", "tcp"):
        with pytest.raises(BlockingIOError):
            sockets[kind].accept()
    for kind in ("datagram", "udp"):
        with pytest.raises(BlockingIOError):
            sockets[kind].recv(1)


def test_sockets_of_the_host_by_path(box, driver):
    """A Unix socket in a directory of the host has no path in here."""
    path = driver.home / "listener.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        path.chmod(0o777)
        listener.listen()
        listener.setblocking(False)
        assert box.tells(f"tell(attempt(socket.socket(socket.AF_UNIX).connect, {str(path)!r}))") == failed(
            "FileNotFoundError", "ENOENT")
        with pytest.raises(BlockingIOError):
            listener.accept()
    path.unlink()


def test_sandboxes_do_not_share_abstract_sockets(make_box):
    first, second = make_box(), make_box()
    # A child keeps listening after the cell: the main thread only runs while a cell does.
    first.tells("""
server = socket.socket(socket.AF_UNIX)
server.bind("\\0riddle-jail-meeting")
server.listen()
if os.fork() == 0:
    while True:
        server.accept()[0].sendall(b"hello")
tell(1)""")
    assert first.tells("""
client = socket.socket(socket.AF_UNIX)
client.connect("\\0riddle-jail-meeting")
tell(client.recv(5).decode())""") == "hello"
    assert second.tells("tell(attempt(socket.socket(socket.AF_UNIX).connect, '\\0riddle-jail-meeting'))") == failed(
        "ConnectionRefusedError", "ECONNREFUSED")


def net_of(box):
    return os.stat(f"/proc/{box.pid}/ns/net").st_ino


def test_network_namespace_of_an_ended_sandbox(make_box):
    """It may be given to a later one, and then nothing of the first is left; two that live never have the same."""
    first, other = make_box(), make_box()
    net = net_of(first)
    assert len({net, net_of(other), os.stat("/proc/self/ns/net").st_ino}) == 3
    # Processes of its own, and a socket that only itself still refers to: it is in its own queue.
    first.tells("""
if os.fork() == 0:
    server = socket.socket(socket.AF_UNIX)
    server.bind("\\0riddle-jail-later")
    server.listen()
    time.sleep(600)
loop = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
loop.bind("\\0riddle-jail-circle")
loop.connect("\\0riddle-jail-circle")
socket.send_fds(loop, [b"x"], [loop.fileno()])
loop.close()
tell(1)""")
    first.destroy()
    assert wait_until(lambda: not first.processes())
    for _ in range(4):
        later = make_box()
        assert net_of(later) != net_of(other)
        assert later.tells("tell(attempt(socket.socket(socket.AF_UNIX).connect, '\\0riddle-jail-later'))") == failed(
            "ConnectionRefusedError", "ECONNREFUSED")
        assert later.tells("""
taken = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
taken.setblocking(False)
tell(attempt(lambda: taken.bind("\\0riddle-jail-mine") or taken.recv(9)))""") == failed("BlockingIOError", "EAGAIN")


def test_shared_memory_and_queues_of_system_v(make_box):
    first, second = make_box(), make_box()
    for box in (first, second):
        said = box.tells("""tell(attempts({
            "shmget": (syscall, 29, 4711, 4096, 0o1666), "semget": (syscall, 64, 4711, 1, 0o1666),
            "msgget": (syscall, 68, 4711, 0o1666), "mq_open": (syscall, 240, b"/queue", 0o102, 0o666, 0),
        }))""")
        assert said == {name: failed("OSError", "ENOSYS") for name in said} and len(said) == 4


def test_unix_sockets_work_inside(box):
    """asyncio and multiprocessing live on them."""
    assert box.tells("""
a, b = socket.socketpair()
a.sendall(b"x")
tell(b.recv(1).decode())""") == "x"
