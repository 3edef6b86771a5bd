"""The clients of /sandbox. Examples of the Python Sandbox Environment are in tests/seeds."""

import asyncio
import shutil
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import closing
from pathlib import Path

import pytest

from server import RIDDLE, ROOT, Server

sys.path.insert(0, str(ROOT / "clients"))
from riddle_sandbox import Client, SandboxError, SandboxService  # noqa: E402

pytestmark = pytest.mark.plain


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    directory = tmp_path_factory.mktemp("clients")
    with closing(sqlite3.connect(directory / "app.db")) as db:
        db.executescript("""
            CREATE TABLE users (id INTEGER, name TEXT, email TEXT, created_at TEXT);
            INSERT INTO users VALUES (1, 'Ada', 'ada@example.org', '2024-02-01'), (2, 'Lin', 'nobody', '2023-02-01');
            CREATE TABLE pipeline_input (id INTEGER, content TEXT);
            INSERT INTO pipeline_input VALUES (1, 'text'), (2, ''), (3, NULL);
        """)
    with Server(directory, RIDDLE_PRELOAD="", RATE_LIMIT_MAX=0, DATABASES=f"app=sqlite://{directory / 'app.db'}") as s:
        yield s


@pytest.fixture
def client(server):
    return Client(f"http://127.0.0.1:{server.port}")


def test_the_python_client_does_all_of_it(client):
    with client.create(max_memory_mb=128) as sandbox:
        assert sandbox.execute("x = 20\nx + y", {"y": 1})["result"] == 21
        assert sandbox.status()["variables"] == {"x": "20", "y": "1"} and len(sandbox.history()) == 1
        sandbox.write("in a/b.txt", "ä")
        assert [f["path"] for f in sandbox.files()] == ["in a/b.txt"] and sandbox.read("in a/b.txt") == "ä".encode()
        assert sandbox.remove("in a/b.txt")["deleted"] is True and sandbox.interrupt() == 0
        assert "AsyncProcessor" in sandbox.template() and sandbox.examples()["examples"] and sandbox.functions()["examples"]
        assert sandbox.query("SELECT name FROM users WHERE id = :id", {"id": 1})["results"] == [{"name": "Ada"}]
        assert sandbox.schema()["tables"] == sandbox.schema("app")["tables"] == ["pipeline_input", "users"]
        events = list(sandbox.debug("a = 1\nb = a + 1\nb"))
        assert [d["line"] for name, d in events if name == "step"] == [1, 2, 3] and events[-1][0] == "done"
        assert next(d for name, d in events if name == "result")["result"] == 2
        with pytest.raises(SandboxError, match="is refused"):
            sandbox.query("DELETE FROM users")
        with pytest.raises(SandboxError, match="no 'b.txt' in /workspace") as missing:
            sandbox.remove("in a/b.txt")
        assert (missing.value.status, missing.value.type) == (404, "NOT_FOUND")
    with pytest.raises(SandboxError, match=f"Sandbox not found: {sandbox.id}"):
        sandbox.execute("1")
    assert client.quick_execute("1 + 1", max_memory_mb=64)["result"] == 2
    assert client.analyze_data("t")["result"]["error"] == "No data found"
    client.create()
    assert client.statistics()["active_sandboxes"] == 1 and client.cleanup_all() == 1


@pytest.mark.skipif("asan" in str(RIDDLE), reason="a sanitizer's own memory is no part of an image")
def test_sandboxes_are_forked_and_rolled_back(client):
    with client.create() as sandbox:
        sandbox.execute("x = [1]\nnumbers = (n for n in range(9))\nfirst = next(numbers)")
        sandbox.write("in.txt", "kept")
        before = sandbox.checkpoint("before")
        with sandbox.fork() as other:
            assert other.execute("x.append(next(numbers))\nx")["result"] == [1, 1] and other.read("in.txt") == b"kept"
            assert other.status()["config"] == sandbox.status()["config"] and other.checkpoints() == []
            with pytest.raises(SandboxError, match="Checkpoint not found"):
                other.rollback(before)
        assert sandbox.execute("x.append(0)\nx")["result"] == [1, 0]
        assert set(sandbox.rollback(before)) == {"sandbox_id", "checkpoint_id", "name", "created_at", "bytes"}
        assert sandbox.execute("x.append(next(numbers))\nx")["result"] == [1, 1]
        assert [c["name"] for c in sandbox.checkpoints()] == ["before"] and sandbox.remove_checkpoint(before)["deleted"] is True
        assert sandbox.checkpoints() == []
    with pytest.raises(SandboxError, match=f"Sandbox not found: {sandbox.id}"):
        sandbox.fork()


def test_the_client_for_javascript(server):
    node = shutil.which("node")
    if not node or int(subprocess.run([node, "--version"], capture_output=True, text=True).stdout[1:].split(".")[0]) < 18:
        pytest.skip("no Node with fetch()")
    done = subprocess.run([node, "--input-type=module"], capture_output=True, text=True, timeout=60, input=f"""
import {{ Client }} from "{(ROOT / 'clients' / 'riddle-sandbox.mjs').as_uri()}";
const client = new Client("http://127.0.0.1:{server.port}");
const sandbox = await client.create({{ max_memory_mb: 128 }});
const sum = (await sandbox.execute("x + 1", {{ x: 20 }})).result;
await sandbox.write("a b/c.txt", "hello");
const text = new TextDecoder().decode(await sandbox.read("a b/c.txt"));
const listed = (await sandbox.files()).map((f) => f.path);
await sandbox.remove("a b/c.txt");
let branched = 4;
if ({str("asan" not in str(RIDDLE)).lower()}) {{
  const before = await sandbox.checkpoint("before"), other = await sandbox.fork();
  await sandbox.execute("x = 3");
  await sandbox.rollback(before);
  branched = (await other.execute("x")).result + (await sandbox.execute("x")).result + (await sandbox.checkpoints()).length - 37;
  await sandbox.removeCheckpoint(before);
  await other.delete();
}}
const lines = [];
for await (const [event, data] of sandbox.debug(`a = 1\\nb = a + 1`)) if (event === "step" && data.line) lines.push(data.line);
for await (const [event] of sandbox.debug("while True: pass")) if (event === "status") break;
const asked = (await sandbox.query("SELECT name FROM users WHERE id = :id", {{ id: 1 }})).results[0].name;
const tables = (await sandbox.schema()).tables;
const refused = await sandbox.query("DELETE FROM users").catch((e) => e.status);
const history = (await sandbox.history()).length, kernel = (await sandbox.status()).kernel;
await sandbox.delete();
const gone = await sandbox.execute("1").catch((e) => `${{e.status}} ${{e.type}}`);
const quick = (await client.quickExecute("1 + 1")).result;
console.log(JSON.stringify([sum, text, listed, history > 0, kernel, gone, quick, branched, lines, asked, tables, refused]));
""")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == '[21,"hello",["a b/c.txt"],true,"hot","404 NOT_FOUND",2,4,[1,2],"Ada",["pipeline_input","users"],403]'


# ---- the examples of the Python Sandbox Environment ----

OWN = {
    "create": "sandbox_id = await service.create_agent_sandbox(user_id=1, config={'max_execution_time': 30, 'max_memory_mb': 256})",
    "execute": """
        code = '''
        total = 0
        for n in [1, 2, 3]:
            total += n
            debug(f'added {n}', 'DEBUG')
        __result__ = {'total': total, 'at': datetime.utcnow().isoformat()}
        '''
        import textwrap
        result = await service.execute_code(sandbox_id, textwrap.dedent(code))
        assert result.status == 'completed' and result.result['total'] == 6 and result.debug_info['log_levels']['DEBUG'] == 3, result""",
    "template": """
        template = await service.create_processor_template(sandbox_id, 'data_processor')
        code = template.replace('# Add your transformation logic here', "return {'transformed': True}")
        result = await service.execute_code(sandbox_id, code)
        assert result.status == 'completed', result.error""",
    "look": """
        stats = await service.get_sandbox_statistics()
        assert stats['active_sandboxes'] >= 1 and stats['success_rate'] > 0
        history = await service.get_execution_history(sandbox_id)
        assert [h['status'] for h in history] == ['completed', 'completed']""",
    "clean": "await service.cleanup_sandbox(sandbox_id)",
}


def run(source, names):
    """A snippet with await at its top; what it binds stays in names."""
    from ast import PyCF_ALLOW_TOP_LEVEL_AWAIT
    from inspect import CO_COROUTINE
    code = compile(source, "<snippet>", "exec", PyCF_ALLOW_TOP_LEVEL_AWAIT)
    value = eval(code, names)
    if code.co_flags & CO_COROUTINE:
        asyncio.run(value)


def test_own_examples_of_its_service(client):
    names = {"service": SandboxService(client)}
    for snippet in OWN.values():
        run(textwrap.dedent(snippet), names)


def test_a_sandbox_asks_a_database(client):
    with client.create() as sandbox:
        done = sandbox.execute("rows = await db_query('SELECT name FROM users WHERE id = :id', {'id': 1})\n"
                               "__result__ = {'rows': rows, 'tables': sorted(await db_tables())}")
        assert done["result"] == {"rows": [{"name": "Ada"}], "tables": ["pipeline_input", "users"]}, done
        assert sandbox.execute("await db_query('DELETE FROM users')")["status"] == "failed"
    assert client.quick_execute("len(await db_query('SELECT * FROM users'))")["result"] == 2
