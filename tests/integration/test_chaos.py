"""Faults at random under load, with an oracle of everything that was acknowledged: kill -9 of kernels, zygotes and the server, kernels and
zygotes that are stopped, a disk that is full. Some seconds of it every day; `make check-chaos MINUTES=30` for longer."""

import http.client
import os
import random
import signal
import threading
import time

import pytest
from api import QUICK, children, make_set, wait_until_settled
from server import Server, wait_until
from test_server_durability import kernels, small_disk, state, zygotes

SECONDS = 8
KEPT_UPLOADS = 2000  # older ones are deleted, so that the disk of a long test has room for all that is acknowledged
SEED = int(os.environ.get("RIDDLE_SEED", str(random.randrange(1 << 30))))
# What a client may be told while things break; anything else is a fault of the server's.
TOLD = {("500", "IO_ERROR"), ("503", "UNAVAILABLE"), ("504", "TIMEOUT"), ("413", "TOO_LARGE"), ("499", "CANCELLED")}
# How a run may end when its kernel is killed or stopped.
BROKEN = {"failed", "timed_out", "cancelled"}


class Load(threading.Thread):
    """Asks without end, and notes what was acknowledged."""

    def __init__(self, chaos, kind):
        super().__init__(daemon=True)
        self.chaos, self.kind, self.number, self.answered = chaos, kind, 0, 0

    def run(self):
        while not self.chaos.over.is_set():
            self.number += 1
            try:
                getattr(self, self.kind)()
                self.answered += 1
            except (http.client.HTTPException, ConnectionError, TimeoutError, OSError):
                time.sleep(0.02)  # the server is being started anew
            except AssertionError as error:
                self.chaos.wrong.append(f"{self.kind}: {error}")

    def good(self, answer):
        """The answer's body, or None when it is one of the refusals that may come now."""
        body = answer.json
        if answer.status == 200:
            return body
        told = (str(answer.status), body["error"]["type"])
        full = "the room for it" in body["error"]["message"] or "reader crashed" in body["error"]["message"]
        assert told in TOLD or (told == ("400", "VALIDATION_ERROR") and full), (told, body)
        return None

    def check_run(self, body, rows):
        if body and body["status"] not in BROKEN:
            assert body["status"] == "succeeded" and body["result"]["rows"] == rows, body
            self.chaos.runs[body["run_id"]] = rows

    def sql(self):
        answer = self.chaos.server.sql("shop", f"SELECT count(*) + {self.number} AS n FROM sales")
        self.check_run(self.good(answer), [[3 + self.number]])

    def python(self):
        body = {"dataset_id": "shop", "query_type": "python", "python_code": f"result = {self.number} * 2"}
        self.check_run(self.good(self.chaos.server.post("/runs", body)), [[self.number * 2]])

    def uploads(self):
        text = "id,n\n" + "".join(f"{i},{self.number}\n" for i in range(1, 9))
        body = self.good(self.chaos.server.upload((f"u{self.number}.csv", text)))
        if not body or "files" not in body or not body["files"]:
            return
        file_id = body["files"][0]["file_id"]
        self.chaos.uploads[file_id] = (f"u{self.number}", 8 * self.number)
        if self.number % 3 == 0:
            self.remove(file_id)
        elif len(self.chaos.uploads) > KEPT_UPLOADS:
            self.remove(next(iter(self.chaos.uploads)))

    def remove(self, file_id):
        self.chaos.uploads.pop(file_id)
        if self.chaos.server.delete(f"/uploads/{file_id}").status == 200:
            self.chaos.deleted.add(file_id)

    def threads(self):
        body = self.good(self.chaos.server.post("/chat", {"dataset_id": "shop", "message": f"SQL: SELECT {self.number} AS n"}))
        if body and body.get("status", "succeeded") == "succeeded":
            self.chaos.messages[body["thread_id"]] = f"SQL: SELECT {self.number} AS n"


class Chaos:
    def __init__(self, server, seed):
        self.server, self.random = server, random.Random(seed)
        self.over = threading.Event()
        self.runs, self.uploads, self.messages, self.deleted, self.wrong, self.faults = {}, {}, {}, set(), [], []

    def signal_one(self, pids, sig):
        for pid in self.random.sample(sorted(pids), min(1, len(pids))):
            try:
                os.kill(pid, sig)
            except ProcessLookupError:
                pass

    def kill_kernel(self):
        self.signal_one(kernels(self.server), signal.SIGKILL)

    def stop_kernel(self):
        stopped = kernels(self.server)
        self.signal_one(stopped, signal.SIGSTOP)
        time.sleep(1)
        for pid in stopped:
            if state(pid) == "T":
                self.signal_one([pid], signal.SIGCONT)

    def kill_zygote(self):
        self.signal_one(zygotes(self.server).values(), signal.SIGKILL)

    def stop_zygote(self):
        self.signal_one(zygotes(self.server).values(), signal.SIGSTOP)

    def kill_server(self):
        self.server.stop(signal.SIGKILL)
        self.server.start()

    def fill_disk(self):
        filler = self.server.home / "filler"
        try:
            with filler.open("wb", buffering=0) as file:
                for _ in range(1 << 16):
                    file.write(b"\0" * 65536)
        except OSError:
            pass
        time.sleep(0.3)
        filler.unlink(missing_ok=True)

    def go(self, seconds, kinds):
        loads = [Load(self, kind) for kind in ("sql", "sql", "python", "uploads", "threads")]
        for load in loads:
            load.start()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            fault = self.random.choice(kinds)
            self.faults.append(fault)
            getattr(self, fault)()
            time.sleep(self.random.uniform(0.1, 0.8))
        # It heals without anybody's help, while the load goes on.
        seen = [load.answered for load in loads]
        wait_until(lambda: all(load.answered > n for load, n in zip(loads, seen)), "every kind of request is answered again", 60)
        self.over.set()
        for load in loads:
            load.join(60)
            assert not load.is_alive(), "a request hangs"

    def check(self):
        """Everything that was acknowledged is there, and nothing that was deleted is."""
        server = self.server
        for run_id, rows in self.runs.items():
            capsule = server.get(f"/runs/{run_id}")
            assert capsule.status == 200, f"run {run_id} was acknowledged and is lost"
            assert capsule.json["result_json"]["rows"] == rows
        for file_id, (table, total) in self.uploads.items():
            answer = server.sql(file_id, f"SELECT sum(n) FROM {table}")
            assert answer.status == 200 and answer.json["result"]["rows"] == [[total]], answer.body
        for thread, message in self.messages.items():
            told = server.get(f"/threads/{thread}/messages").json["messages"]
            assert message in [m["content"] for m in told], (thread, message)
        for file_id in self.deleted:
            assert server.get(f"/uploads/{file_id}").status == 404
            assert not list((server.home / "uploads").glob(f"*/{file_id}"))


@pytest.mark.parametrize("seconds", [SECONDS, pytest.param(60 * float(os.environ.get("MINUTES", "10")),
                                                           marks=[pytest.mark.long, pytest.mark.limit(24 * 3600)])])
def test_chaos(tmp_path, seconds):
    print(f"RIDDLE_SEED={SEED}")
    server = Server(tmp_path, **QUICK, RUN_TIMEOUT_SECONDS=5)
    make_set(server)
    kinds = ["kill_kernel"] * 4 + ["stop_kernel", "kill_zygote", "kill_zygote", "stop_zygote", "kill_server"]
    small = seconds > SECONDS and os.geteuid() == 0
    chaos = Chaos(server, SEED)
    if small:
        with small_disk(server.home, f"size={512 + int(seconds)}m"):  # all that is acknowledged has room
            body(server, chaos, seconds, [*kinds, "fill_disk"])
    else:
        body(server, chaos, seconds, kinds)


def body(server, chaos, seconds, kinds):
    with server:
        wait_until_settled(server)
        chaos.go(seconds, kinds)
        assert not chaos.wrong, f"seed {SEED}, faults {chaos.faults[-10:]}: {chaos.wrong[:5]}"
        wait_until(lambda: server.get("/healthz").status == 200, "it is healthy again", 60)
        chaos.check()
        wait_until(lambda: not [p for p in children(server.process.pid) if state(p) == "Z"], "nothing is left unreaped", 30)
        wait_until(lambda: not list((server.home / "tables").glob("new-*")), "no half-made table is left", 30)
        family = list(children(server.process.pid))
        assert server.stop() == 0
    wait_until(lambda: all(state(pid) in (None, "Z") for pid in family), "its processes are gone")
    # A new server finds all of it again.
    with server:
        chaos.check()
        print(f"{len(chaos.faults)} faults; {len(chaos.runs)} runs, {len(chaos.uploads)} uploads, {len(chaos.messages)} threads kept")
