"""Attacks on a running server, from outside: alice attacks, bob works. Each test asserts how an attack fails and that bob did not notice.

Bounds of time are generous: they tell a server that stopped serving from one on a busy machine."""

import re
import threading
import time

from api import make_set
from server import RIDDLE, Server

ALICE, BOB = "alice-has-this-key", "bob-works-with-this"
KEYS = {"RIDDLE_API_KEYS": f"alice:{ALICE},bob:{BOB}", "RATE_LIMIT_MAX": 0, "RIDDLE_PRELOAD": ""}
NOTICED_S = 8  # a request of bob's that takes longer was held up by alice
USUAL_S = 1.5  # … and half of them take less than this
SANITIZED = "asan" in str(RIDDLE)  # then freed memory is kept
LONG_TURN_S = "0.1" if SANITIZED else "0.01"  # of the loop: one of its buckets


def serve(directory, **settings):
    server = Server(directory, **{**KEYS, **settings})
    make_set(server)
    return server


def long_turns(server):
    """Turns of riddle's loop that took more processor time than this. What else runs on the machine does not change it."""
    said = server.get("/metrics", key=BOB).body.decode()
    counts = {le: int(n) for le, n in re.findall(r'^riddle_loop_cpu_seconds_bucket{le="([^"]+)"} (\d+)', said, re.M)}
    return counts["+Inf"] - counts[LONG_TURN_S]


class Neighbour:
    """Bob, who asks for health and runs SQL over and over while alice attacks."""

    def __init__(self, server, sql=True):
        self.server, self.sql = server, sql
        self.took, self.wrong = [], []
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._work, daemon=True)

    def _call(self, what, call, *arguments):
        began = time.monotonic()
        try:
            answer = call(*arguments, key=BOB)
        except OSError as error:
            self.wrong.append((what, error))
            return
        self.took.append((time.monotonic() - began, what))
        if answer.status != 200 or (what == "sql" and answer.json["status"] != "succeeded"):
            self.wrong.append((what, answer.status, answer.body[:500]))

    def _work(self):
        while not self.stopping.is_set():
            self._call("health", self.server.get, "/healthz")
            if self.sql:
                self._call("sql", self.server.sql, "shop", "SELECT sum(total) FROM sales")
            self.stopping.wait(0.02)

    def __enter__(self):
        self.began = time.monotonic()
        self.thread.start()
        return self

    def __exit__(self, kind, *_):
        self.stopping.set()
        self.thread.join(120)
        if kind:
            return
        assert not self.thread.is_alive(), "bob still waits"
        assert not self.wrong, self.wrong[:3]
        took = sorted(self.took)
        assert took[-1][0] < NOTICED_S and took[len(took) // 2][0] < USUAL_S, took[len(took) // 2:][-3:]


def python(server, code, key=ALICE, **more):
    """A run of alice's by the policy that any caller may ask for."""
    return server.post("/runs", {"dataset_id": "shop", "query_type": "python", "python_code": code, "python_policy": "open", **more},
                       key=key)
