"""A model API on loopback that says what a test tells it to: well-formed OpenAI streams, and every way of going wrong."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def delta(content=None, finish=None, **more):
    return {"choices": [{"index": 0, "delta": {**({"content": content} if content is not None else {}), **more}, "finish_reason": finish}]}


def text(*pieces, finish="stop"):
    """An answer in words."""
    return [delta(p) for p in pieces] + [delta(finish=finish), {"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 10}}]


def calls(*tools, say=None):
    """An answer that calls tools: (name, arguments) each; arguments that are no text become JSON."""
    events = [delta(say)] if say else []
    for i, (name, arguments) in enumerate(tools):
        arguments = arguments if isinstance(arguments, str) else json.dumps(arguments)
        events.append(delta(tool_calls=[{"index": i, "id": f"call_{i}", "type": "function", "function": {"name": name, "arguments": ""}}]))
        for at in range(0, len(arguments), 7):  # in small pieces, as models send them
            events.append(delta(tool_calls=[{"index": i, "function": {"arguments": arguments[at:at + 7]}}]))
    return events + [delta(finish="tool_calls")]


class Raw:
    """A status, headers, bytes, and whether the connection is cut there. Past them it waits for `hold`; `rest` is what then follows."""

    def __init__(self, body=b"", status=200, headers=None, cut=False, content_type="text/event-stream", hold=None, rest=None):
        self.body, self.status, self.headers, self.cut, self.content_type = body, status, headers or {}, cut, content_type
        self.hold, self.rest = hold, rest


def stream_bytes(events, done=True):
    return b"".join(b"data: " + json.dumps(e).encode() + b"\n\n" for e in events) + (b"data: [DONE]\n\n" if done else b"")


class ScriptedModel:
    """Answers requests with the steps of `script`, one after the other; the last one repeats."""

    def __init__(self):
        self.requests, self.script, self.at = [], [], 0
        self.closed = threading.Event()  # a client went away in the middle
        self.lock = threading.Lock()
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with model.lock:
                    model.requests.append({"headers": dict(self.headers), "body": json.loads(body), "path": self.path})
                    step = model.script[min(model.at, len(model.script) - 1)]
                    model.at += 1
                if callable(step):
                    step = step(model.requests[-1]["body"])
                step = step if isinstance(step, Raw) else Raw(stream_bytes(step))
                self.send_response(step.status)
                self.send_header("Content-Type", step.content_type)
                self.send_header("Connection", "close")
                for name, value in step.headers.items():
                    self.send_header(name, value)
                if step.cut:
                    self.send_header("Content-Length", str(len(step.body) + 1000))
                self.end_headers()
                try:
                    self.wfile.write(step.body)
                    self.wfile.flush()
                    if step.hold:
                        step.hold.wait(60)
                    if step.rest:
                        self.wfile.write(step.rest)
                    elif step.hold:
                        self.wfile.write(b"x" * 100)
                        self.connection.settimeout(5)
                        if not self.connection.recv(1):
                            model.closed.set()
                except OSError:
                    model.closed.set()
                self.close_connection = True

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def settings(self):
        return {"LLM_PROVIDER": "openai", "OPENAI_BASE_URL": f"http://127.0.0.1:{self.server.server_port}/v1", "OPENAI_API_KEY": "sk-very-secret-0123"}

    def says(self, *script):
        with self.lock:
            self.requests, self.script, self.at = [], list(script), 0
        self.closed.clear()
        return self

    def close(self):
        self.server.shutdown()
        self.server.server_close()
