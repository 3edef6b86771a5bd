"""The Python Sandbox Environment: all examples of its document, as they are written there and in their order, against a PostgreSQL.

Code for its service runs here, with clients/riddle_sandbox.py in the place of its modules; code for a sandbox runs in one.
"""

import asyncio
import os
import re
import sys
import types
from ast import PyCF_ALLOW_TOP_LEVEL_AWAIT
from inspect import CO_COROUTINE
from pathlib import Path
from urllib.parse import unquote

import postgres
import pytest
from server import ROOT, Server

sys.path.insert(0, str(ROOT / "clients"))
from riddle_sandbox import Client, SandboxService  # noqa: E402

SEEDS = Path(os.environ.get("RIDDLE_SEEDS", ROOT.parent / "shared" / "seeds"))
DOCUMENT = next(iter(sorted(SEEDS.glob("004_*.txt"))), None)

pytestmark = [pytest.mark.skipif(DOCUMENT is None, reason=f"no document of the Python Sandbox Environment in {SEEDS}"),
              pytest.mark.skipif(postgres.programs() is None, reason="PostgreSQL is not installed: scripts/install-deps test")]

TABLES = f"""
CREATE ROLE reader LOGIN PASSWORD '{unquote(postgres.PASSWORD)}';
CREATE TABLE users (id int, name text, email text, created_at timestamptz);
INSERT INTO users VALUES (1, 'Ada', 'ada@example.org', '2024-02-01'), (2, 'Lin', 'nobody', '2023-02-01');
CREATE TABLE user_activities (user_id int, action text, timestamp timestamptz);
INSERT INTO user_activities VALUES (1, 'open', now()), (1, 'open', now()), (2, 'close', now()), (3, 'open', now() - interval '1 year');
CREATE TABLE documents (id int, title text, content text, processed bool);
INSERT INTO documents VALUES (1, 'Letter', 'Write to ada@example.org or call 555-123-4567, see https://example.org/about', false), (2, 'Done', '', true);
CREATE TABLE pipeline_input (id int, content text);
INSERT INTO pipeline_input VALUES (1, 'text'), (2, ''), (3, NULL);
GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader;
GRANT UPDATE ON documents TO reader;
"""


@pytest.fixture(scope="module")
def pg():
    server = postgres.Postgres().start()
    try:
        server.psql(TABLES)
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def server(pg, tmp_path_factory):
    with Server(tmp_path_factory.mktemp("server"), RATE_LIMIT_MAX=0, RIDDLE_PRELOAD="", DATABASES=f"main={pg.url()};write=documents") as s:
        yield s


def blocks():
    return re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.S) if DOCUMENT else []


def run(source, names):
    """A snippet with await at its top; what it binds stays in names."""
    code = compile(source, "<example>", "exec", PyCF_ALLOW_TOP_LEVEL_AWAIT)
    value = eval(code, names)
    if code.co_flags & CO_COROUTINE:
        asyncio.run(value)


def test_all_examples_run_as_written_and_in_their_order(server, pg, monkeypatch, capsys):
    client, ran = Client(f"http://127.0.0.1:{server.port}"), []

    class Recording(SandboxService):
        """The service; what comes of code is kept."""

        def __init__(self, db_session):
            super().__init__(client)

        async def execute_code(self, sandbox_id, code, context=None):
            ran.append(await super().execute_code(sandbox_id, code, context))
            return ran[-1]

    async def get_db_session():
        return None

    for name, member in (("app", {}), ("app.services", {}), ("app.core", {}), ("app.services.sandbox_service", {"SandboxService": Recording}),
                         ("app.core.database", {"get_db_session": get_db_session})):
        module = types.ModuleType(name)
        vars(module).update(member)
        monkeypatch.setitem(sys.modules, name, module)
    examples, names = blocks(), {}
    assert len(examples) >= 17
    for block in examples:
        if not re.search(r"\bservice\b|^config = |^code = ", block, re.M):  # code for a sandbox
            inside = client.open(names["sandbox_id"]).execute(block, {"data": [1], "my_data": [2]})
            assert inside["status"] == "completed", (block, inside["error"])
            continue
        run(block, names)
        if "cleanup_sandbox" in block:  # the examples behind it need one, too
            run(examples[0], names)
            run("await service.execute_code(sandbox_id, '1')", names)
    assert [r.error for r in ran if r.status != "completed"] == []
    results = [r.result for r in ran if isinstance(r.result, dict)]
    assert results[0]["processed_users"][0]["domain"] == "example.org"
    activities = next(r for r in results if "most_active_users" in r)
    assert activities["total_activities"] == 3 and activities["most_active_users"][0] == [1, {"open": 2}]
    knowledge = next(r for r in results if "extracted_knowledge" in r)["extracted_knowledge"]
    assert [k["entities"]["emails"] for k in knowledge] == [["ada@example.org"]] and pg.ask("SELECT count(*) FROM documents WHERE processed") == "2"
    assert next(r for r in results if "valid_output_count" in r)["valid_output_count"] == 1
    assert names["query_result"]["results"] == [{"user_count": 1}] and "users" in names["schema"]["tables"]
    printed = capsys.readouterr().out
    assert re.search(r"Line 7: +processed = item \* 2", printed) and "Success rate: 100.00%" in printed
