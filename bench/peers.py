"""What the benchmarks share: the table of results, a Docker daemon to compare with, and data."""

import http.client
import json
import os
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import uuid

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build"))
IMAGE = "riddle-bench:latest"


def p50(values):
    return statistics.median(values)


class Table:
    head = ("what", "Riddle", "peer", "ratio", "bar", "")

    def __init__(self):
        self.rows = []

    def add(self, what, ours, peer, ratio, bar, met):
        self.rows.append((what, ours, peer, ratio, bar, "" if met is None else "met" if met else "MISSED"))
        print("  ".join(str(c) for c in self.rows[-1]), flush=True)

    def show(self):
        widths = [max(len(str(r[i])) for r in self.rows + [self.head]) for i in range(len(self.head))]
        print()
        for row in [self.head, tuple("-" * w for w in widths)] + self.rows:
            print("  ".join(str(c).ljust(w) for c, w in zip(row, widths)).rstrip())


class Docker:
    """A dockerd of our own with its defaults, the bridge network and its iptables rules included, on a socket in a temporary directory. It has
    a network namespace of its own: the machine's interfaces and rules stay as they are. The image is kept between runs."""

    CONFINED = ("--network", "none", "--read-only", "--memory", "512m")  # options of a container that is confined as a sandbox is

    def __init__(self):
        self.store = os.path.join(os.environ.get("XDG_CACHE_HOME", "/var/tmp"), "riddle-bench-docker")
        self.dir = tempfile.mkdtemp(prefix="riddle-dockerd-")
        os.makedirs(self.store, exist_ok=True)
        self.socket = f"unix://{self.dir}/docker.sock"
        self.log = open(f"{self.dir}/log", "w")
        self.daemon = subprocess.Popen(
            ["unshare", "--net", "/usr/sbin/dockerd", "-H", self.socket, "--data-root", self.store, "--exec-root", f"{self.dir}/exec",
             "--pidfile", f"{self.dir}/pid"], stdout=self.log, stderr=self.log)
        until = time.time() + 60
        while subprocess.run(self.cli("info"), capture_output=True).returncode:
            if self.daemon.poll() is not None or time.time() > until:
                sys.exit(f"bench: dockerd does not start:\n{open(self.log.name).read()[-2000:]}")
            time.sleep(0.2)

    def cli(self, *args):
        client = "/usr/bin/docker" if os.path.exists("/usr/bin/docker") else "docker"
        return [client, "-H", self.socket, *args]

    def image(self):
        if subprocess.run(self.cli("image", "inspect", IMAGE), capture_output=True).returncode == 0:
            return
        print("bench: making a Docker image with Debian's python3-pandas; this is done once …", flush=True)
        tree = tempfile.mkdtemp(prefix="riddle-image-", dir="/var/tmp")
        mirror = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI)", "Codename: bookworm"],
                                capture_output=True, text=True).stdout.split()
        subprocess.run(["debootstrap", "--variant=minbase", "--include=python3-pandas", "bookworm", tree, *mirror[:1]],
                       check=True, stdout=subprocess.DEVNULL)
        tar = subprocess.Popen(["tar", "-C", tree, "-c", "."], stdout=subprocess.PIPE)
        subprocess.run(self.cli("import", "-", IMAGE), stdin=tar.stdout, check=True, stdout=subprocess.DEVNULL)
        tar.wait()
        shutil.rmtree(tree)

    def run_ms(self, code, *options):
        """A container for this Python, from the command to its end."""
        begun = time.perf_counter()
        subprocess.run(self.cli("run", "--rm", *options, IMAGE, "python3", "-c", code), check=True, stdout=subprocess.DEVNULL)
        return (time.perf_counter() - begun) * 1000

    def close(self):
        self.daemon.send_signal(signal.SIGTERM)
        self.daemon.wait(30)
        self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)


class Jupyter:
    """Debian's jupyter-server with one kernel, and the channel that notebooks use: a WebSocket."""

    def __init__(self):
        import asyncio

        from tornado.websocket import websocket_connect

        self.dir = tempfile.mkdtemp(prefix="riddle-jupyter-")
        spec = os.path.join(self.dir, "kernels", "python3")
        os.makedirs(spec)
        with open(os.path.join(spec, "kernel.json"), "w") as f:  # Debian's interpreter whatever the PATH says
            json.dump({"argv": ["/usr/bin/python3", "-m", "ipykernel_launcher", "-f", "{connection_file}"], "display_name": "Python"}, f)
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        self.log = open(f"{self.dir}/log", "w")
        self.server = subprocess.Popen(
            ["/usr/bin/python3", "-m", "jupyter_server", "--no-browser", "--allow-root", f"--port={port}", "--ServerApp.token=", "--ServerApp.password=",
             "--ServerApp.disable_check_xsrf=True", f"--ServerApp.root_dir={self.dir}"], stdout=self.log, stderr=self.log,
            env={**os.environ, "JUPYTER_DATA_DIR": self.dir, "JUPYTER_CONFIG_DIR": self.dir, "JUPYTER_RUNTIME_DIR": self.dir})
        until = time.time() + 60
        while True:
            try:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                connection.request("POST", "/api/kernels", "{}")
                kernel = json.loads(connection.getresponse().read())["id"]
                break
            except OSError:
                if self.server.poll() is not None or time.time() > until:
                    sys.exit(f"bench: jupyter-server does not start:\n{open(self.log.name).read()[-2000:]}")
                time.sleep(0.1)
        self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)

        async def connect():
            return await websocket_connect(f"ws://127.0.0.1:{port}/api/kernels/{kernel}/channels")

        self.channel = self.loop.run_until_complete(connect())

    def run_ms(self, code):
        """From the request to the answer and the word that the kernel is idle."""
        number = uuid.uuid4().hex
        request = json.dumps({"header": {"msg_id": number, "msg_type": "execute_request", "session": "bench", "username": "", "version": "5.3"},
                              "parent_header": {}, "metadata": {}, "channel": "shell", "buffers": [],
                              "content": {"code": code, "silent": False, "store_history": False, "user_expressions": {}, "allow_stdin": False}})

        async def run():
            begun = time.perf_counter()
            await self.channel.write_message(request)
            wanted = {"execute_reply", "idle"}
            while wanted:
                said = json.loads(await self.channel.read_message())
                if said["parent_header"].get("msg_id") == number:
                    wanted -= {said["msg_type"], said["content"].get("execution_state")}
            return (time.perf_counter() - begun) * 1000

        return self.loop.run_until_complete(run())

    def close(self):
        self.channel.close()
        self.server.send_signal(signal.SIGTERM)
        self.server.wait(30)
        self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)


def make_csv(path, rows):
    rng = random.Random(7)
    categories = ["books", "toys", "food", "home", "garden", "music", "games", "tools"]
    with open(path, "w") as f:
        f.write("id,day,customer,category,amount,quantity\n")
        for base in range(0, rows, 10000):
            f.write("".join(f"{i},2024-{i % 12 + 1:02d}-{i % 28 + 1:02d},c{rng.randrange(50000)},{categories[i % 8]},"
                            f"{rng.randrange(100000) / 100},{i % 9 + 1}\n" for i in range(base, min(rows, base + 10000))))
