"""Fresh Python runs over HTTP: their rate, their latency, and the processor time of all processes that take part."""

import json
import os
import re
import select
import socket
import subprocess
import sys
import tempfile
import time

from peers import BUILD, p50

TICKS = os.sysconf("SC_CLK_TCK")
PANDAS = "import pandas as pd\nprint(pd.DataFrame({'a': [1, 2, 3], 'b': [1, 1, 2]}).groupby('b').a.sum())"


def stat_of(pid):
    """(parent, processor time of it in ms, of its reaped children in ms)"""
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rpartition(")")[2].split()
    user, system, children_user, children_system = (int(x) * 1000 / TICKS for x in fields[11:15])
    return int(fields[1]), user + system, children_user + children_system


def children_of(parent):
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and stat_of(name)[0] == parent:
                yield int(name)
        except OSError:
            pass


def processor_ms(server):
    """Of a server, its zygotes, and all kernels, those that are gone included: they are its children."""
    _, own, reaped = stat_of(server)
    total = own + reaped
    for pid in children_of(server):
        try:
            total += stat_of(pid)[1]
        except OSError:
            pass
    return total


class Fresh:
    """A server with one small data set."""

    def __init__(self, home, kernel=None, build=BUILD):
        self.home = tempfile.mkdtemp(prefix="fresh-", dir=home)
        os.makedirs(f"{self.home}/datasets/shop")
        with open(f"{self.home}/datasets/shop/orders.csv", "w") as f:
            f.write("id,total\n" + "".join(f"{i},{i * 2}\n" for i in range(100)))
        env = {k: v for k, v in os.environ.items() if not k.startswith("RIDDLE_")}
        env.update(RIDDLE_HOME=f"{self.home}/home", DATASETS_DIR=f"{self.home}/datasets", RATE_LIMIT_MAX="0", LOG_LEVEL="warn")
        if kernel:
            env["RIDDLE_KERNEL"] = kernel
        self.log = open(f"{self.home}/log", "w")
        self.process = subprocess.Popen([os.path.join(build, "riddle"), "serve", "--port", "0"], cwd=self.home, env=env,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log, text=True)
        line = self.process.stdout.readline()
        ready = re.match(r"Riddle is ready: http://[^:]+:(\d+)", line)
        if not ready:
            self.close()
            sys.exit(f"bench: the server said {line!r}; {open(self.log.name).read()[-2000:]}")
        self.port = int(ready[1])
        self.load(1, 0.5)  # the zygote starts, the data set is ingested, the pool is filled

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()

    def kernel_mb(self):
        """Private memory of the kernels that wait in the pool."""
        used = []
        for pid in children_of(self.process.pid):
            try:
                with open(f"/proc/{pid}/comm") as f:
                    if f.read().strip() != "riddle-kernel":
                        continue
                with open(f"/proc/{pid}/smaps_rollup") as f:
                    used.append(sum(int(line.split()[1]) for line in f if line.startswith("Private_")) / 1024)
            except OSError:
                pass
        return max(used, default=0)  # those of SQL are smaller

    def request(self, code, sql):
        run = {"query_type": "sql", "sql": sql} if sql else {"query_type": "python", "python_code": code}
        body = json.dumps({"dataset_id": "shop", **run}).encode()
        return (b"POST /runs HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                % (self.port, len(body)) + body)

    def load(self, clients, seconds, code="print(1)", sql=None):
        """Each client sends the next run as soon as the last is answered. Rate, processor time of a run, latency."""
        request = self.request(code, sql)
        poll = select.epoll()
        waiting = {}
        for _ in range(clients):
            s = socket.create_connection(("127.0.0.1", self.port))
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            poll.register(s, select.EPOLLIN)
            waiting[s.fileno()] = s, bytearray()
        cpu = processor_ms(self.process.pid)
        begun = time.perf_counter()
        sent, times = {}, []
        for fd, (s, _) in waiting.items():
            s.sendall(request)
            sent[fd] = begun
        while waiting:
            for fd, _ in poll.poll():
                s, answer = waiting[fd]
                answer += s.recv(65536)
                end = answer.find(b"\r\n\r\n")
                length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", answer[:end + 2]) if end >= 0 else None
                if length and len(answer) < end + 4 + int(length[1]):
                    continue
                if not answer.startswith(b"HTTP/1.1 200") or b'"succeeded"' not in answer:
                    sys.exit(f"bench: {bytes(answer[:2000])!r}")
                now = time.perf_counter()
                times.append((now - sent[fd]) * 1000)
                answer.clear()
                if now < begun + seconds:
                    sent[fd] = now
                    s.sendall(request)
                else:
                    poll.unregister(fd)
                    s.close()
                    del waiting[fd]
        took = time.perf_counter() - begun
        time.sleep(0.2)  # the last kernels end, the pool is full again
        return {"rate": len(times) / took, "cpu": (processor_ms(self.process.pid) - cpu) / len(times), "p50": p50(times)}

    def first_ms(self, code, count):
        """Milliseconds of single runs, with time for the pool between them."""
        times = []
        for _ in range(count):
            time.sleep(0.3)
            times.append(self.load(1, 0, code)["p50"])
        return times
