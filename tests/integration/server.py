"""A real server for tests: `riddle serve` on a free port with a home of its own, and a small client on Python's own http.client. Every JSON
answer that the client gets is checked against the API description."""

import functools
import http.client
import json
import os
import queue
import re
import signal
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from described import Description

ROOT = Path(__file__).resolve().parent.parent.parent
RIDDLE = (ROOT / os.environ.get("RIDDLE_BUILD", "build")).resolve() / "riddle"

START_TIMEOUT_S = 120  # a sanitized zygote imports pandas slowly
REQUEST_TIMEOUT_S = 120


def wait_until(condition, what, timeout_s=30):
    """For what only shows from the outside, such as a file that goes away."""
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, f"still not so after {timeout_s} s: {what}"
        time.sleep(0.005)


@dataclass
class Answer:
    status: int
    headers: dict
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        """(type, message) of an error answer."""
        error = self.json["error"]
        return error["type"], error["message"]


def read_events(response):
    """(name, data) of each event of an SSE response, which is as described; its type is the name of an unnamed event."""
    name = data = None
    for line in response:
        line = line.decode().rstrip("\n")
        if line.startswith("event: "):
            name = line[7:]
        elif line.startswith("data: "):
            data = json.loads(line[6:])
            misfit = description().event_misfit(data)
            assert not misfit, misfit
        elif not line and data is not None:
            yield name or data["type"], data
            name = data = None


BOUNDARY = "riddle-test-boundary-7d1"
FORM_TYPE = f"multipart/form-data; boundary={BOUNDARY}"


def part_head(filename, field="files"):
    return (f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{field}"; filename="{filename}"\r\n'
            "Content-Type: text/csv\r\n\r\n").encode()


FORM_END = f"\r\n--{BOUNDARY}--\r\n".encode()


def form(*files, field="files"):
    """The body of a form with these (filename, content) in it."""
    parts = [part_head(name, field) + (content if isinstance(content, bytes) else content.encode()) for name, content in files]
    return b"\r\n".join(parts) + FORM_END


class Server:
    def __init__(self, directory, **settings):
        self.directory = Path(directory)
        self.home = self.directory / "home"
        self.datasets = self.directory / "datasets"
        self.datasets.mkdir(parents=True, exist_ok=True)  # empty, so that none are generated
        self.settings = settings
        self.key = None
        self.process = None
        self.port = 0  # any

    def start(self):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("RIDDLE_", "OPENAI_", "ANTHROPIC_", "LLM_"))}
        env.update(RIDDLE_HOME=str(self.home), DATASETS_DIR=str(self.datasets), **{k: str(v) for k, v in self.settings.items()})
        self.log = self.directory / "log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([str(RIDDLE), "serve", "--port", str(self.port)], cwd=self.directory, env=env,
                                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log)
        lines = queue.Queue()
        threading.Thread(target=lambda: lines.put(self.process.stdout.readline()), daemon=True).start()
        try:
            line = lines.get(timeout=START_TIMEOUT_S).decode()
        except queue.Empty:
            line = "nothing"
        ready = re.match(r"Riddle is ready: http://(?:127\.0\.0\.1|localhost):(\d+)", line)
        if not ready:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"the server said {line!r}\n{self.log.read_text()[-4000:]}")
        self.port = int(ready[1])
        return self

    def stop(self, sig=signal.SIGTERM):
        """Ends the server; its exit status."""
        if self.process is None or self.process.poll() is not None:
            return self.process and self.process.returncode
        self.process.send_signal(sig)
        try:
            return self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            self.process.stdout.close()

    def status_kb(self, field):
        """A field of the server's /proc/PID/status, such as VmHWM."""
        return int(re.search(rf"^{field}:\s+(\d+) kB", Path(f"/proc/{self.process.pid}/status").read_text(), re.M)[1])

    def forget_peak(self):
        """VmHWM begins anew."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def headers(self, more=None, key=None):
        key = key or self.key
        return {**({"Authorization": f"Bearer {key}"} if key else {}), **(more or {})}

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=REQUEST_TIMEOUT_S)

    def plain_call(self, method, path, body=None, headers=None, key=None):
        connection = self.connect()
        try:
            connection.request(method, path, body, self.headers(headers, key))
            response = connection.getresponse()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def call(self, method, path, *more, **named):
        answer = self.plain_call(method, path, *more, **named)
        if answer.headers.get("content-type") == "application/json" and answer.body and "content-encoding" not in answer.headers:
            misfit = description().misfit(method, path, answer.status, answer.body)
            assert not misfit, f"{method} {path}: {misfit}"
        return answer

    def get(self, path, **more):
        return self.call("GET", path, **more)

    def delete(self, path, **more):
        return self.call("DELETE", path, **more)

    def post(self, path, value, **more):
        return self.call("POST", path, json.dumps(value), {"Content-Type": "application/json"}, **more)

    def upload(self, *files, query="", field="files", **more):
        return self.call("POST", "/upload" + query, form(*files, field=field), {"Content-Type": FORM_TYPE}, **more)

    def sql(self, dataset_id, sql, **more):
        return self.post("/runs", {"dataset_id": dataset_id, "query_type": "sql", "sql": sql}, **more)

    def events(self, path, key=None):
        """The events of a GET stream, to its end."""
        connection = self.connect()
        try:
            connection.request("GET", path, headers=self.headers(key=key))
            response = connection.getresponse()
            assert response.status == 200, response.read()
            assert response.getheader("Content-Type").startswith("text/event-stream")
            yield from read_events(response)
        finally:
            connection.close()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()


@functools.cache
def description():
    """Of this build; asked of a server of its own, whose limits and log are no test's."""
    with tempfile.TemporaryDirectory() as directory, Server(directory) as server:
        return Description(server.plain_call("GET", "/openapi.json").json)
