"""A real Docker daemon for tests: started with a data root, an exec root and a socket of its own, without bridge and iptables, and stopped
again. The image is built from this tree and loaded by the Engine API; no `docker` program is used."""

import http.client
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = (ROOT / os.environ.get("RIDDLE_BUILD", "build")).resolve()
# The image has no sanitizer's libraries: a sanitized `riddle` is tested with the plain riddle-kernel in its containers.
SANITIZED = (BUILD / "flags").exists() and "-fsanitize" in (BUILD / "flags").read_text()
IMAGE_BUILD = ROOT / "build" if SANITIZED else BUILD
IMAGE = "riddle-runner:test"
DOCKERD = "/usr/sbin/dockerd" if os.path.exists("/usr/sbin/dockerd") else shutil.which("dockerd")
START_TIMEOUT_S = 60


def why_not():
    """Why there can be no daemon on this machine; None if there can."""
    if not DOCKERD:
        return "no dockerd: the package docker.io is not installed"
    if os.geteuid() != 0:
        return "no dockerd: it needs root"
    if not (IMAGE_BUILD / "riddle-kernel").exists():
        return f"no image: {IMAGE_BUILD.name}/riddle-kernel is not built"
    return None


class Connection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("docker", timeout=120)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Daemon:
    def __init__(self, runtimes=()):
        # Not below a test's directory: overlayfs wants a plain file system, and a socket's path has to be short.
        self.dir = Path(tempfile.mkdtemp(prefix="riddle-dockerd-", dir="/var/tmp"))
        self.socket = self.dir / "docker.sock"
        self.host = f"unix://{self.socket}"
        self.log = open(self.dir / "log", "w")
        command = [DOCKERD, "--iptables=false", "--ip6tables=false", "--bridge=none", "-H", self.host, "--data-root", self.dir / "data",
                   "--exec-root", self.dir / "exec", "--pidfile", self.dir / "pid"]
        for name, path in runtimes:
            command += ["--add-runtime", f"{name}={path}"]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True)
        until = time.monotonic() + START_TIMEOUT_S
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > until:
                text = self.words()
                self.stop()
                raise RuntimeError(f"dockerd does not start:\n{text[-3000:]}")
            time.sleep(0.05)

    def words(self):
        return (self.dir / "log").read_text()

    def answers(self):
        try:
            return self.call("GET", "/_ping")[0] == 200
        except OSError:
            return False

    def call(self, method, path, body=None):
        connection = Connection(str(self.socket))
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"Content-Type": "application/json"} if body is not None else {})
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        is_json = answer.getheader("Content-Type", "").startswith("application/json")
        return answer.status, json.loads(data) if data and is_json else data

    def load_image(self, tag=IMAGE):
        made = subprocess.run([ROOT / "scripts/build-image", f"--build={IMAGE_BUILD}", f"--tag={tag}"], capture_output=True, text=True,
                              env={**os.environ, "DOCKER_HOST": self.host})
        assert made.returncode == 0, made.stderr
        return tag

    def containers(self, label="io.riddle.home"):
        filters = quote(json.dumps({"label": [label]} if label else {}))
        return self.call("GET", f"/containers/json?all=1&filters={filters}")[1]

    def stop(self):
        if self.process.poll() is None:
            for one in self.containers(label=None) if self.answers() else ():
                self.call("DELETE", f"/containers/{one['Id']}?force=1&v=1")
            # Nothing of its data is kept: an orderly end of the daemon and of its containerd would only take longer.
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.log.close()
        # What a daemon that was killed leaves mounted would keep its directory from being removed.
        mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        for mount in sorted((m for m in mounts if m.startswith(f"{self.dir}/")), reverse=True):
            subprocess.run(["umount", "-l", mount], capture_output=True)
        shutil.rmtree(self.dir, ignore_errors=True)


# ---- the attached stream (src/sandbox/mux.h) ----

CONTROL, FILE, DATA, INTERRUPT, BUSY, STDOUT, STDERR, READY, USAGE, EXIT = range(1, 11)


def attach(daemon, container):
    """The socket of a container's streams, before it is started."""
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(60)
    sock.connect(str(daemon.socket))
    sock.sendall(f"POST /containers/{container}/attach?stream=1&stdin=1&stdout=1&stderr=1 HTTP/1.1\r\nHost: docker\r\n"
                 "Connection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: 0\r\n\r\n".encode())
    head = b""
    while b"\r\n\r\n" not in head:
        head += sock.recv(1)
    assert head.startswith(b"HTTP/1.1 101"), head
    return sock


def exactly(sock, n):
    data = b""
    while len(data) < n:
        piece = sock.recv(n - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data


def converse(daemon, container, stdin):
    """Starts a container, gives it all of its input, and returns what it wrote: (stdout, stderr)."""
    said = {1: b"", 2: b""}
    with attach(daemon, container) as sock:
        status, why = daemon.call("POST", f"/containers/{container}/start")
        assert status == 204, why
        sock.sendall(stdin)
        sock.shutdown(socket.SHUT_WR)
        try:
            while True:
                stream, length = struct.unpack(">B3xI", exactly(sock, 8))
                said[stream] += exactly(sock, length)
        except EOFError:
            return said[1], said[2]


class Attached:
    """A container of the image, spoken to as the provider does."""

    def __init__(self, daemon, kind, image=IMAGE, command=None, **host):
        self.daemon = daemon
        tmpfs = "rw,noexec,nosuid,nodev,size=64m,uid=64646,gid=64646,mode=755"
        spec = {"Image": image, "Cmd": command or [f"--attached={kind}", "--preload=numpy,pandas"], "OpenStdin": True, "StdinOnce": True,
                "AttachStdin": True, "AttachStdout": True, "AttachStderr": True, "NetworkDisabled": True, "User": "64646:64646",
                "HostConfig": {"NetworkMode": "none", "ReadonlyRootfs": True, "Memory": 512 << 20, "MemorySwap": 512 << 20, "PidsLimit": 66,
                               "CapDrop": ["ALL"], "SecurityOpt": ["no-new-privileges"], "LogConfig": {"Type": "none"},
                               "Tmpfs": {"/tmp": tmpfs, "/workspace": tmpfs},
                               "Mounts": [{"Type": "volume", "Target": "/data"}], **host}}
        status, made = daemon.call("POST", "/containers/create", spec)
        assert status == 201, made
        self.id = made["Id"]
        self.sock = attach(daemon, self.id)
        self.mux, self.words = b"", b""
        status, said = daemon.call("POST", f"/containers/{self.id}/start")
        assert status == 204, said

    def send(self, kind, data=b""):
        self.sock.sendall(struct.pack("<B3xI", kind, len(data)) + data)

    def tell(self, message):
        """Sends a message of wire.py."""
        self.send(CONTROL, message)

    def _exactly(self, n):
        try:
            return exactly(self.sock, n)
        except EOFError:
            raise EOFError(self.words.decode()) from None

    def frame(self):
        """The next (type, bytes) of the relay."""
        while len(self.mux) < 8 or len(self.mux) < 8 + struct.unpack("<I", self.mux[4:8])[0]:
            stream, length = struct.unpack(">B3xI", self._exactly(8))
            data = self._exactly(length)
            if stream == 1:
                self.mux += data
            else:
                self.words += data
        kind, length = struct.unpack("<B3xI", self.mux[:8])
        data, self.mux = self.mux[8:8 + length], self.mux[8 + length:]
        return kind, data

    def until(self, kind):
        """Frames up to the first of this type: {type: bytes of all of them}."""
        seen = {}
        while True:
            got, data = self.frame()
            seen[got] = seen.get(got, b"") + data
            if got == kind:
                return seen

    def close(self):
        self.sock.close()
        self.daemon.call("DELETE", f"/containers/{self.id}?force=1&v=1")
