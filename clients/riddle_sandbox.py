"""A client of Riddle's sandboxes: one file, nothing but the standard library.

    from riddle_sandbox import Client

    client = Client("http://127.0.0.1:8000", key=None)
    with client.create(max_execution_time=30) as sandbox:
        print(sandbox.execute("x = 20\\nx + 1")["result"])

SandboxService has the same under the names of the Python Sandbox Environment, for asyncio.
"""

import asyncio
import http.client
import json
import threading
from types import SimpleNamespace
from urllib.parse import quote, urlencode, urlsplit


class SandboxError(Exception):
    """An answer that is no success: `status` (HTTP), `type` and the message."""

    def __init__(self, status, kind, message):
        super().__init__(message)
        self.status, self.type = status, kind


class Client:
    """Connections are kept open, one for each thread."""

    def __init__(self, url="http://127.0.0.1:8000", key=None, timeout=330):
        parts = urlsplit(url)
        self._secure = parts.scheme == "https"
        self._host, self._base = parts.netloc, parts.path.rstrip("/")
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._timeout, self._local = timeout, threading.local()

    def _connection(self):
        found = getattr(self._local, "connection", None)
        if found is None:
            kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
            found = self._local.connection = kind(self._host, timeout=self._timeout)
        return found

    def _send(self, method, path, body, headers):
        """A connection that the server has closed meanwhile is opened again, once: nothing was sent on it."""
        for last in (False, True):
            connection = self._connection()
            fresh = connection.sock is None
            try:
                connection.request(method, self._base + path, body, headers)
                return connection.getresponse()
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                connection.close()
                if last or fresh:
                    raise

    def call(self, method, path, body=None, raw=None):
        """The answer: what JSON holds, or bytes. Raises SandboxError."""
        headers = dict(self._headers)
        if body is not None:
            raw, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
        elif raw is not None:
            headers["Content-Type"] = "application/octet-stream"
        response = self._send(method, path, raw, headers)
        content = response.read()
        is_json = (response.getheader("Content-Type") or "").startswith("application/json")
        if response.status >= 400:
            error = json.loads(content).get("error", {}) if is_json else {}
            raise SandboxError(response.status, error.get("type", "HTTP"), error.get("message", response.reason))
        return json.loads(content) if is_json else content

    def stream(self, method, path, body):
        """(event, data) of each event of an answer that is a stream. Leaving the loop ends the connection, and with it what runs."""
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        connection = kind(self._host, timeout=self._timeout)
        try:
            connection.request(method, self._base + path, json.dumps(body).encode(), {**self._headers, "Content-Type": "application/json"})
            response = connection.getresponse()
            if response.status >= 400:
                error = json.loads(response.read()).get("error", {})
                raise SandboxError(response.status, error.get("type", "HTTP"), error.get("message", response.reason))
            event = data = None
            for line in response:
                line = line.decode().rstrip("\n")
                if line.startswith("event: "):
                    event = line[7:]
                elif line.startswith("data: "):
                    data = json.loads(line[6:])
                elif not line and data is not None:
                    yield event or data.get("type"), data
                    event = data = None
        finally:
            connection.close()

    def create(self, **terms):
        return Sandbox(self, self.call("POST", "/sandbox/create", terms)["sandbox_id"])

    def sandboxes(self):
        """Those that there are, the newest first: sandbox_id, created_at, kernel, running, expires_at."""
        page = self.call("GET", "/sandbox")
        found = page["sandboxes"]
        while page["next"]:
            page = self.call("GET", f"/sandbox?{urlencode({'cursor': page['next']})}")
            found += page["sandboxes"]
        return found

    def open(self, sandbox_id):
        return Sandbox(self, sandbox_id)

    def quick_execute(self, code, context=None, **config):
        return self.call("POST", "/sandbox/agent/quick-execute", {"code": code, "context": context, "config": config})

    def analyze_data(self, table_name, analysis_type="summary", limit=100, **more):
        query = urlencode({"table_name": table_name, "analysis_type": analysis_type, "limit": limit, **more})
        return self.call("POST", f"/sandbox/agent/analyze-data?{query}")

    def statistics(self):
        return self.call("GET", "/sandbox/statistics")["statistics"]

    def cleanup_all(self):
        return self.call("POST", "/sandbox/cleanup-all")["cleaned_up"]


class Sandbox:
    """Leaving its `with` block deletes it."""

    def __init__(self, client, sandbox_id):
        self.client, self.id = client, sandbox_id

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.delete()

    def _call(self, method, what, body=None, raw=None):
        return self.client.call(method, f"/sandbox/{quote(self.id, safe='')}{what}", body, raw)

    def execute(self, code, context=None, **more):
        return self._call("POST", "/execute", {"code": code, "context": context, **more})

    def debug(self, code, **options):
        """Steps through code: (event, data) of each event as it comes, such as ("step", {"line": 1, …}); the last ones are result and done."""
        path, body = f"/sandbox/{quote(self.id, safe='')}/debug", {"code": code, **options}
        yield from self.client.stream("POST", path, body)

    def query(self, sql, parameters=None, database=None):
        """What a database answers: `results` has a dict for each row. Without a name it is the first of the server's DATABASES."""
        return self._call("POST", "/database/query", {"query": sql, "parameters": parameters, "database": database})

    def schema(self, database=None):
        """{"tables": [name, …], "schema": {name: columns}} of a database."""
        return self._call("GET", f"/database/schema{'?' + urlencode({'database': database}) if database else ''}")["schema"]

    def interrupt(self):
        return self._call("POST", "/interrupt")["interrupted"]

    def status(self):
        return self._call("GET", "/status")["data"]

    def history(self):
        return self._call("GET", "/history")["history"]

    def template(self, processor_type="data_processor"):
        return self._call("POST", "/templates/processor", {"processor_type": processor_type})["template_code"]

    def functions(self):
        return self._call("GET", "/help/functions")

    def examples(self):
        return self._call("GET", "/help/examples")

    def files(self):
        return self._call("GET", "/files")["files"]

    def read(self, path):
        return self._call("GET", f"/files/{quote(path)}")

    def write(self, path, content):
        return self._call("PUT", f"/files/{quote(path)}", raw=content.encode() if isinstance(content, str) else bytes(content))

    def remove(self, path):
        return self._call("DELETE", f"/files/{quote(path)}")

    def fork(self):
        """A new sandbox on the same terms that goes on from the present state of this one."""
        return Sandbox(self.client, self._call("POST", "/fork")["sandbox_id"])

    def checkpoint(self, name=None):
        """Keeps the present variables and files: the id to roll back to."""
        return self._call("POST", "/checkpoint", {"name": name})["checkpoint_id"]

    def checkpoints(self):
        return self._call("GET", "/checkpoints")["checkpoints"]

    def rollback(self, checkpoint):
        return self._call("POST", "/rollback", {"checkpoint": checkpoint})

    def remove_checkpoint(self, checkpoint):
        return self._call("DELETE", f"/checkpoints/{quote(checkpoint, safe='')}")

    def delete(self):
        return self._call("DELETE", "")


class SandboxService:
    """The service of the Python Sandbox Environment, as coroutines over a Client."""

    def __init__(self, client):
        self.client = client

    @staticmethod
    async def _wait(function, *arguments, **more):
        return await asyncio.to_thread(function, *arguments, **more)

    async def create_agent_sandbox(self, user_id=None, config=None):
        """The owner is the client's key; user_id is not sent."""
        return (await self._wait(self.client.create, **(config or {}))).id

    async def execute_code(self, sandbox_id, code, context=None):
        return SimpleNamespace(**await self._wait(self.client.open(sandbox_id).execute, code, context))

    async def debug_code(self, sandbox_id, code):
        """Each line that ran: line_number, line_code, result (its status) and state, with all variables so far."""
        events, variables, end = self.client.open(sandbox_id).debug(code), {}, object()
        try:
            while (told := await self._wait(next, events, end)) is not end:
                event, data = told
                if event == "error":
                    raise SandboxError(500, data.get("error_type", "INTERNAL"), data.get("message", "the execution failed"))
                if event != "step" or "line" not in data:
                    continue
                for name, value in data.get("variables", {}).items():
                    variables[name] = value.get("repr") if isinstance(value, dict) else value
                status = "failed" if data.get("exception") else "completed"
                yield {"line_number": data["line"], "line_code": data.get("source", ""), "result": SimpleNamespace(status=status, **data),
                       "state": {"variables": dict(variables)}}
        finally:
            events.close()

    async def query_database(self, sandbox_id, query, params=None):
        return await self._wait(self.client.open(sandbox_id).query, query, params)

    async def get_database_schema(self, sandbox_id):
        return await self._wait(self.client.open(sandbox_id).schema)

    async def create_processor_template(self, sandbox_id, processor_type="data_processor"):
        return await self._wait(self.client.open(sandbox_id).template, processor_type)

    async def get_sandbox_state(self, sandbox_id):
        return await self._wait(self.client.open(sandbox_id).status)

    async def get_execution_history(self, sandbox_id):
        return await self._wait(self.client.open(sandbox_id).history)

    async def get_sandbox_statistics(self):
        return await self._wait(self.client.statistics)

    async def cleanup_sandbox(self, sandbox_id):
        return await self._wait(self.client.open(sandbox_id).delete)
