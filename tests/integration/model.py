"""A model's server for tests: aimock, written by others, which speaks the protocols of OpenAI and Anthropic over real HTTP.

    def test_it(start_model):
        model = start_model([{"match": {"userMessage": "hello"}, "response": {"content": "Hi."}}])
        server = Server(directory, **model.openai())          # or model.anthropic()
        …
        assert model.requests()[0]["body"]["messages"]

A fixture's `match` may have userMessage (a part of the last user message), toolCallId, toolName, toolResultContains, systemMessage,
turnIndex, hasToolResult, sequenceIndex (the nth time that it matches); its `response` has content, toolCalls ([{name, arguments, id}]),
usage, finishReason, or error ({message, type, code}) with status and retryAfter. Beside them may stand latency (ms between chunks),
chunkSize, truncateAfterChunks, disconnectAfterMs and chaos ({dropRate, malformedRate, disconnectRate, rateLimitRate, latencyMs}).
"""

import http.client
import json
import queue
import re
import subprocess
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
AIMOCK = ROOT / "third_party/aimock/dist/cli.cjs"
START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 20


class Model:
    """One aimock process on a free port of loopback."""

    KEY = "sk-riddle-test-5f0c1e7b9d"

    def __init__(self, directory, fixtures, *options):
        path = Path(directory) / "fixtures.json"
        path.write_text(json.dumps({"fixtures": fixtures}))
        self.process = subprocess.Popen(["node", str(AIMOCK), "--host", "127.0.0.1", "--port", "0", "--fixtures", str(path),
                                         "--validate-on-load", *map(str, options)],
                                        cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.said = []
        ports = queue.Queue()
        threading.Thread(target=self._listen, args=(ports,), daemon=True).start()
        try:
            self.port = ports.get(timeout=START_TIMEOUT_S)
        except queue.Empty:
            self.port = None
        if self.port is None:
            self.stop()
            raise AssertionError("aimock did not start:\n" + "".join(self.said))
        self.url = f"http://127.0.0.1:{self.port}"

    def _listen(self, ports):
        """Reads to the end, so that it is never blocked by a full pipe."""
        for line in self.process.stdout:
            self.said.append(line.decode(errors="replace"))
            found = re.search(r"listening on http://127\.0\.0\.1:(\d+)", self.said[-1])
            if found:
                ports.put(int(found[1]))
        ports.put(None)

    def openai(self, **more):
        """Settings that make it the model."""
        return {"LLM_PROVIDER": "openai", "OPENAI_BASE_URL": self.url + "/v1", "OPENAI_API_KEY": self.KEY, **more}

    def anthropic(self, **more):
        return {"LLM_PROVIDER": "anthropic", "ANTHROPIC_BASE_URL": self.url, "ANTHROPIC_API_KEY": self.KEY, **more}

    def control(self, method, path, value=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, "/__aimock" + path, None if value is None else json.dumps(value),
                               {"Content-Type": "application/json"})
            response = connection.getresponse()
            body = response.read()
            assert response.status == 200, (path, response.status, body)
            return json.loads(body)
        finally:
            connection.close()

    def requests(self):
        """What was asked so far: entries with path, headers, body and response."""
        return self.control("GET", "/journal")

    def reset(self):
        """No fixtures, no chaos, nothing asked so far."""
        self.control("POST", "/reset", {})

    def add(self, *fixtures):
        self.control("POST", "/fixtures", {"fixtures": list(fixtures)})

    def fail_once(self, status, message="broken", **more):
        """The next request gets this error."""
        self.control("POST", "/error", {"status": status, "body": {"message": message, **more}})

    def chaos(self, **rates):
        """dropRate, malformedRate, disconnectRate, rateLimitRate (0 to 1), latencyMs; none of them: as usual again."""
        self.control("POST", "/chaos", rates)

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


@pytest.fixture
def start_model(tmp_path_factory):
    """A function that starts a model with these fixtures (and options of aimock's command line); stopped after the test."""
    started = []

    def start(fixtures, *options):
        started.append(Model(tmp_path_factory.mktemp("model"), fixtures, *options))
        return started[-1]

    yield start
    for model in started:
        model.stop()
