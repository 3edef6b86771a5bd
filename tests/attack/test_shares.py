"""One owner takes all there is: places, queue, hot kernels, connections. Another owner has their share all the same."""

import ctypes
import re
import resource
import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from api import children, metric, refused
from attack import ALICE, BOB, Neighbour, python, serve
from server import wait_until

LOOP = "while True: pass"


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A server that is soon full."""
    with serve(tmp_path_factory.mktemp("small"), RIDDLE_MAX_KERNELS=8, RIDDLE_QUEUE=6, RIDDLE_HOT_THREADS=4) as server:
        for key in (ALICE, BOB):  # runs that wait for a table that is being made are in no queue
            assert python(server, "1", key=key).status == 200
        yield server


def test_queue_is_full_for_the_owner_who_filled_it(small):
    """SQL has places of its own, and so has another owner's Python."""
    with ThreadPoolExecutor(40) as clients:
        runs = [clients.submit(python, small, LOOP, timeout_seconds=2) for _ in range(40)]
        wait_until(lambda: metric(small, "riddle_queue_depth", BOB) >= 6, "alice's queue is full")
        with Neighbour(small):
            done = python(small, "print(6 * 7)", key=BOB)
            assert (done.status, done.json["result"]["stdout"]) == (200, "42\n")
        answers = [run.result() for run in runs]
    assert sorted({a.status for a in answers}) == [200, 503]
    assert {a.json["result"]["verdict"] for a in answers if a.status == 200} == {"timeout"}
    assert "runs of yours are waiting" in next(refused(a, 503, "UNAVAILABLE") for a in answers if a.status == 503)


def execute(server, key, thread, code):
    answer = server.post(f"/thread/{thread}/execute", {"language": "python", "code": code}, key=key)
    assert answer.status == 200, answer.body
    return answer.json


def test_variables_of_an_owner_with_few_threads_stay(small):
    mine = small.post("/thread/new", {}, key=BOB).json["thread_id"]
    execute(small, BOB, mine, "x = 42")
    for i in range(6):
        other = small.post("/thread/new", {}, key=ALICE).json["thread_id"]
        execute(small, ALICE, other, f"y = {i}")
    assert metric(small, "riddle_threads", BOB, state="hot") <= 5
    assert execute(small, BOB, mine, "print(x)")["result"]["stdout"] == "42\n"


def test_sql_does_not_wait_for_python(server):
    """Sixteen cells of alice's that use what processor there is."""
    with ThreadPoolExecutor(16) as clients, Neighbour(server) as bob:
        runs = [clients.submit(python, server, LOOP, timeout_seconds=1) for _ in range(16)]
        assert {run.result().json["result"]["verdict"] for run in runs} == {"timeout"}
    assert len(bob.took) > 10


def slice_ns(pid):
    """How long Linux lets it run before others' turns (sched_getattr), since 6.12; 0 before."""
    attr = ctypes.create_string_buffer(48)
    assert ctypes.CDLL(None).syscall(315, pid, attr, 48, 0) == 0
    return struct.unpack_from("<Q", attr, 24)[0]


def test_python_yields_to_whoever_wakes_up(server):
    """Kernels of Python run in longer slices than riddle and kernels of SQL, so those need not wait for the end of a slice."""
    riddle = slice_ns(server.process.pid)
    with ThreadPoolExecutor(1) as clients:
        run = clients.submit(python, server, LOOP, timeout_seconds=2)
        wait_until(lambda: metric(server, "riddle_kernels", BOB, state="running") or run.done(), "it runs")
        kernels = [(pid, line) for pid, line in children(server.process.pid).items() if "--zygote=" in line]
        slices = {kind: {slice_ns(pid) for pid, line in kernels if f"--zygote={kind}" in line} for kind in ("python", "sql")}
        run.result()
    assert slices["sql"] == {riddle} and (riddle == 0 or min(slices["python"]) > 4 * riddle), (riddle, slices)


def test_connections_of_one_owner(tmp_path):
    """Requests under way past a quarter of all connections wait their turn when half of all are busy."""
    with serve(tmp_path, RIDDLE_MAX_CONNECTIONS=32, RIDDLE_QUEUE=100) as server:
        with ThreadPoolExecutor(24) as clients:
            runs = [clients.submit(python, server, LOOP, timeout_seconds=2) for _ in range(24)]
            wait_until(lambda: any(r.done() for r in runs), "a run of alice's is refused or over")
            with Neighbour(server):
                time.sleep(0.5)
            answers = [run.result() for run in runs]
    said = [a for a in answers if a.status == 503]
    assert 1 <= len(said) <= 15, [a.status for a in answers]
    assert "requests of yours are under way" in refused(said[0], 503, "UNAVAILABLE")


def test_descriptors_are_those_that_the_system_allows(tmp_path):
    """A low soft limit is raised; a low hard one is told, with its remedy."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        with serve(tmp_path) as server:
            limits = Path(f"/proc/{server.process.pid}/limits").read_text()
            said = server.log.read_text()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    raised = int(re.search(r"^Max open files\s+(\d+)", limits, re.M)[1])
    assert raised == min(hard, 1 << 20)
    assert ("http.descriptors" in said) == (raised < 4096 + 512)


def test_half_sent_requests(server, bob):
    """Two hundred of them, which say no more: others are served."""
    waiting = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(200)]
    try:
        for s in waiting:
            s.sendall(b"POST /runs HTTP/1.1\r\nHost: localhost\r\nContent-Le")
        seen = len(bob.took)
        wait_until(lambda: len(bob.took) > seen + 10, "bob is served")
    finally:
        for s in waiting:
            s.close()


def test_a_client_that_never_reads_its_stream(server, bob):
    """What it does not read is bounded, and nobody else waits for it."""
    before = server.status_kb("VmRSS")
    body = b'{"dataset_id":"shop","query_type":"python","python_policy":"open","max_output_bytes":1000000,"python_code":"for i in range(40): display({\'json\': \'x\' * 200000})"}'
    ends = []
    for _ in range(4):
        s = socket.create_connection(("127.0.0.1", server.port))
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.sendall(b"POST /runs/stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + ALICE.encode() +
                  b"\r\nContent-Type: application/json\r\nContent-Length: " + str(len(body)).encode() + b"\r\n\r\n" + body)
        ends.append(s)
    seen = len(bob.took)
    wait_until(lambda: len(bob.took) > seen + 10, "bob is served")
    assert server.status_kb("VmRSS") - before < 300 << 10
    for s in ends:
        s.close()
