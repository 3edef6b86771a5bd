"""What the tests of the server share: runs in the background, event streams, figures of /metrics, and servers that must not start."""

import csv
import json
import os
import re
import socket
import subprocess
import threading
from contextlib import contextmanager

from server import RIDDLE, START_TIMEOUT_S, read_events, wait_until

FOREVER_SQL = "SELECT sum(a.i * b.i) FROM range(10000000) a(i), range(100000000) b(i)"
FOREVER_PYTHON = "print('begun', flush=True)\nwhile True: pass"
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")

# A server that runs no pandas starts in a fraction of the time.
QUICK = {"RIDDLE_PRELOAD": "", "RATE_LIMIT_MAX": 0}


def refused(answer, status, kind):
    """The message of an error answer, which must have this status, type and the shape that all errors have."""
    assert answer.status == status, (answer.status, answer.body[:2000])
    body = answer.json
    assert set(body) == {"error", "detail"} and {"type", "message"} <= set(body["error"])
    assert body["error"]["type"] == kind, body
    message = body["error"]["message"]
    if status == 422:
        (fault,) = body["detail"]
        assert set(fault) == {"loc", "msg", "type"} and fault["loc"][0] in ("body", "query", "path") and fault["msg"] == message
    else:
        assert body["detail"] == message
    assert message and answer.headers["content-type"].startswith("application/json")
    return message


def run_body(dataset_id, sql=None, python=None, plan=None, **more):
    kind = "sql" if sql else "python" if python else "plan"
    named = {"sql": sql, "python_code": python, "plan_json": plan}
    return {"dataset_id": dataset_id, "query_type": kind, **{k: v for k, v in named.items() if v is not None}, **more}


def metric(server, name, key=None, **labels):
    """The figure of a series of /metrics; None when there is no such."""
    wanted = name + ("{" + ",".join(f'{k}="{v}"' for k, v in labels.items()) + "}" if labels else "")
    for line in server.get("/metrics", key=key).body.decode().splitlines():
        series, _, value = line.rpartition(" ")
        if series == wanted:
            return float(value)
    return None


def wait_for_metric(server, value, name, key=None, **labels):
    wait_until(lambda: metric(server, name, key, **labels) == value, f"{name}{labels} is {value}")


def wait_until_settled(server, key=None):
    """Returns when the server has read and described its datasets and does nothing any more."""
    files = {file.read_bytes() for file in server.datasets.rglob("*.csv")}
    wait_until(lambda: len(list((server.home / "tables").glob("*.profile-[0-9]*.json"))) >= len(files), "the datasets are profiled", 60)
    for state in ("loading", "running"):
        wait_for_metric(server, 0, "riddle_kernels", key, state=state)


class Background:
    """A call in a thread of its own; result() gives what it returned, or what it raised."""

    def __init__(self, call, *arguments, **more):
        def work():
            try:
                self.value = call(*arguments, **more)
            except Exception as error:  # raised again by result()
                self.error = error
        self.value = self.error = None
        self.thread = threading.Thread(target=work, daemon=True)
        self.thread.start()

    def result(self, timeout_s=60):
        self.thread.join(timeout_s)
        assert not self.thread.is_alive(), f"no answer within {timeout_s} s"
        if self.error:
            raise self.error
        return self.value


class Watched:
    """An open POST /runs/stream."""

    def __init__(self, server, body, key=None):
        self.connection = server.connect()
        self.connection.request("POST", "/runs/stream", json.dumps(body), server.headers({"Content-Type": "application/json"}, key))
        self.response = self.connection.getresponse()
        assert self.response.status == 200, self.response.read()
        assert self.response.getheader("Content-Type") == "text/event-stream; charset=utf-8"
        self.events = read_events(self.response)
        name, data = next(self.events)
        assert (name, data["stage"]) == ("status", "queued")
        self.run_id = data["run_id"]

    def until(self, name, **fields):
        """Reads on to an event of this name with these fields; its data."""
        for event, data in self.events:
            if event == name and all(data.get(k) == v for k, v in fields.items()):
                return data
        raise AssertionError(f"the stream ended without {name} {fields}")

    def executing(self):
        self.until("status", stage="executing")
        return self

    def leave(self):
        self.response.close()
        self.connection.close()


@contextmanager
def watching(server, body, key=None):
    watched = Watched(server, body, key)
    try:
        yield watched
    finally:
        watched.leave()


def status_of(server, run_id, key=None):
    answer = server.get(f"/runs/{run_id}/status", key=key)
    assert answer.status == 200 and answer.json["run_id"] == run_id
    return answer.json["status"]


def wait_for_status(server, run_id, status, key=None):
    wait_until(lambda: status_of(server, run_id, key) == status, f"run {run_id} is {status}")


def make_set(server, name="shop", **tables):
    """A folder of CSV files in the server's datasets."""
    folder = server.datasets / name
    folder.mkdir()
    for table, text in (tables or {"sales": "id,region,total\n1,north,10.5\n2,south,20\n3,north,30\n"}).items():
        (folder / f"{table}.csv").write_text(text)


def generate_sets(server):
    """The bundled datasets, into the server's own directory."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RIDDLE_")}
    environment.update(RIDDLE_HOME=str(server.home), DATASETS_DIR=str(server.datasets))
    done = subprocess.run([str(RIDDLE), "datasets", "generate"], cwd=server.directory, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def read_csv(server, dataset_id, name):
    """A file of a dataset as dictionaries of text."""
    with (server.datasets / dataset_id / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def fails_to_start(server, *arguments, wrap=()):
    """(exit status, what it said) of `riddle serve` where it must give up by itself."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RIDDLE_")}
    environment.update({"RIDDLE_PRELOAD": "", "RIDDLE_HOME": str(server.home), "DATASETS_DIR": str(server.datasets)})
    environment.update({k: str(v) for k, v in server.settings.items()})
    done = subprocess.run([*wrap, str(RIDDLE), "serve", "--port", "0", *arguments], cwd=server.directory, env=environment,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=START_TIMEOUT_S)
    assert "ready" not in done.stdout
    return done.returncode, done.stderr


def say(server, request, wait_for_end=True):
    """Sends bytes as they are; what comes back until the server closes, or once it paused after an answer."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as s:
        try:
            s.sendall(request)
            if wait_for_end:
                s.shutdown(socket.SHUT_WR)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it answered before it had read everything
        answer = b""
        try:
            while piece := s.recv(65536):
                answer += piece
        except ConnectionResetError:
            pass
        return answer


def children(pid):
    """{pid: command line} of the direct children of a process."""
    found = {}
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children") as file:
            for child in file.read().split():
                try:
                    with open(f"/proc/{child}/cmdline", "rb") as line:
                        found[int(child)] = line.read().replace(b"\0", b" ").decode().strip()
                except (FileNotFoundError, ProcessLookupError):
                    pass
    return found
