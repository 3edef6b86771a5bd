"""Databases that are asked where they are: a real PostgreSQL and SQLite files, through the API and from inside of kernels."""

import ctypes
import json
import sqlite3
import subprocess
import threading
import time
import urllib.parse
from pathlib import Path

import postgres
import pytest
from database_statements import POSTGRES_HARMLESS, POSTGRES_REFUSED, SQLITE_HARMLESS, SQLITE_REFUSED
from server import RIDDLE, Server

pytestmark = pytest.mark.skipif(postgres.programs() is None, reason="PostgreSQL is not installed: scripts/install-deps test")

PASSWORD = urllib.parse.unquote(postgres.PASSWORD)

SETUP = f"""
CREATE ROLE reader LOGIN PASSWORD '{PASSWORD}';
CREATE SCHEMA app;
CREATE SEQUENCE counter;
CREATE TABLE users (id int PRIMARY KEY, name text, email text, score numeric, ok bool, created_at timestamptz);
INSERT INTO users VALUES (1, 'ann', 'ann@example.org', 1.5, true, '2024-01-01 10:00:00+00'),
    (2, 'bob', 'bob@example.org', 2.5, false, '2024-02-01'), (3, 'cay', NULL, NULL, NULL, NULL);
CREATE TABLE notes (id int, body text);
INSERT INTO notes VALUES (1, 'first');
CREATE TABLE odd (update text, delete text, nextval int, set_config int, created_at date, updated_at date);
CREATE TABLE app.documents (id int);
CREATE VIEW recent AS SELECT * FROM users WHERE id < 3;
CREATE FUNCTION bump() RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION app.bump() RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION touch_row(u users) RETURNS text LANGUAGE sql AS 'SELECT $1.name';
CREATE FUNCTION full_name(u users) RETURNS text LANGUAGE sql STABLE AS 'SELECT $1.name';
CREATE FUNCTION steady() RETURNS int LANGUAGE sql STABLE AS 'SELECT 1';
CREATE FUNCTION app.steady() RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 1';
CREATE PROCEDURE proc() LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION looked_at(int) RETURNS bool LANGUAGE sql AS 'SELECT true';
CREATE DOMAIN watched AS int CHECK (looked_at(VALUE));
CREATE DOMAIN watched_twice AS watched;
CREATE TYPE pair AS (a watched, b text);
CREATE TYPE pairs AS (p pair);
CREATE DOMAIN plain AS int CHECK (VALUE > 0);
CREATE FUNCTION step(int, int) RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE AGGREGATE stepping(int) (SFUNC = step, STYPE = int);
CREATE AGGREGATE summing(int) (SFUNC = int4pl, STYPE = int);
CREATE TABLE every (b bool, i2 smallint, i4 int, i8 bigint, n numeric, f4 real, f8 float8, t text, c char(3), d date, tm time,
    ts timestamp, tz timestamptz, iv interval, mo interval, u uuid, by bytea, j json, jb jsonb, ai int[], at text[], an numeric[],
    aa int[], ad date[], ip inet);
INSERT INTO every VALUES (true, -32768, 2147483647, 9223372036854775807, 123456789012345678901234567890.123456789, 0.5, 0.1,
    E'tab\\t quote" back\\\\ nl\\n \\uE000 é', 'ab', '2024-02-29', '12:34:56.789', '2024-02-29 12:34:56.123456', '2024-02-29 12:00:00+02',
    '1 day 02:03:04.5', '1 mon', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '\\x00ff22', '{{"a": [1, null]}}', '[1.5]', '{{1,NULL,3}}',
    '{{"a \\"b\\"","NULL",NULL,"c,d",""}}', '{{1.10,2.20}}', '{{{{1,2}},{{3,4}}}}', '{{2024-01-01}}', '10.0.0.1');
INSERT INTO every (b) VALUES (NULL);
GRANT USAGE ON SCHEMA app TO reader;
GRANT USAGE ON SEQUENCE counter TO reader;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public, app TO reader;
"""


@pytest.fixture(scope="module")
def pg():
    server = postgres.Postgres().start()
    try:
        server.psql(SETUP)
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def lite(tmp_path_factory):
    path = tmp_path_factory.mktemp("lite") / "files.db"
    with sqlite3.connect(path) as db:
        db.executescript("""
            CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT);
            INSERT INTO users VALUES (1, 'ann'), (2, 'bob');
            CREATE INDEX by_name ON users (name);
            CREATE TRIGGER trig AFTER DELETE ON users BEGIN SELECT 1; END;
            CREATE TABLE numbered (id INTEGER PRIMARY KEY AUTOINCREMENT);
            DROP TABLE numbered;
            CREATE TABLE notes (id INTEGER, body TEXT);
            INSERT INTO notes VALUES (1, 'first');
            CREATE TABLE odd ("update" TEXT, "delete" TEXT, created_at DATE, updated_at DATE);
            CREATE VIEW recent AS SELECT * FROM users;
            CREATE TABLE every (i INTEGER, r REAL, t TEXT, b BLOB, d DATE, ts TIMESTAMP, ok BOOLEAN, any);
            INSERT INTO every VALUES (9223372036854775807, 0.1, 'é"x', x'00ff', '2024-02-29', '2024-02-29 12:00:00', 1, 1);
            INSERT INTO every VALUES (NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'a');
        """)
    return path


@pytest.fixture(scope="module")
def riddle(pg, lite, tmp_path_factory):
    databases = ",".join([
        f"kb={pg.url()};write=notes;redact=token",
        f"lite=sqlite://{lite};write=notes",
        f"readonly=sqlite://{lite}",
        f"boss={pg.url('boss', password='')}",
        f"wrong={pg.url(password='other-pass-word')}",
        f"gone=postgresql://reader:{postgres.PASSWORD}@127.0.0.1:1/postgres",
        "nofile=sqlite:///nonexistent/x.db",
    ])
    server = Server(tmp_path_factory.mktemp("databases"), DATABASES=databases, RATE_LIMIT_MAX=0, DATABASE_TIMEOUT_SECONDS=10)
    (server.datasets / "tiny").mkdir()
    (server.datasets / "tiny" / "sales.csv").write_text("region,total\nnorth,1\nsouth,2\n")
    with server:
        yield server


def query(riddle, database, sql, parameters=None, **more):
    return riddle.post(f"/databases/{database}/query", {"query": sql, "parameters": parameters, **more})


def python(riddle, code, **more):
    answer = riddle.post("/runs", {"dataset_id": "tiny", "query_type": "python", "python_code": code, **more})
    assert answer.status == 200, answer
    return answer.json


def printed(riddle, code, **more):
    answer = python(riddle, code, **more)
    assert answer["status"] == "succeeded", answer["result"]["error"]
    return answer["result"]["stdout"]


def wait_until(condition, what):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def logged(riddle, database, first, more=""):
    """The log once a statement that begins so is its newest line: it is written behind the answers."""
    page = {}

    def is_there():
        page.update(riddle.get(f"/databases/{database}/queries?limit=20{more}").json)
        return page["queries"] and page["queries"][0]["sql"].startswith(first)

    wait_until(is_there, f"{first} is logged")
    return page["queries"]


# ---- what is refused ----


def unrefused(riddle, database, statements):
    """Those that were not answered 403, with the answer."""
    answers = [(s, query(riddle, database, s, {"n": 1, "s": "x"})) for s in statements]
    return [(s, a.status, a.body[:100]) for s, a in answers if a.status != 403]


def refused(riddle, database, statements):
    answers = [(s, query(riddle, database, s, {"n": 1, "s": "x"})) for s in statements]
    return [(s, a.status, a.json["error"]["message"]) for s, a in answers if a.status != 200]


def test_postgresql_refuses_what_writes_and_nothing_else(riddle, pg):
    assert len(set(POSTGRES_REFUSED)) >= 150 and len(set(POSTGRES_HARMLESS)) >= 150
    assert unrefused(riddle, "kb", POSTGRES_REFUSED) == []
    assert refused(riddle, "kb", POSTGRES_HARMLESS) == []
    assert pg.ask("SELECT count(*) FROM users") == "3"
    assert pg.ask("SELECT count(*) FROM notes") == "1"
    assert pg.ask("SELECT last_value, is_called FROM counter") == "1|f"
    assert pg.ask("SELECT count(*) FROM pg_largeobject_metadata") == "0"
    assert pg.ask("SELECT count(*) FROM information_schema.tables WHERE table_name IN ('x', 'v')") == "0"


def test_sqlite_refuses_what_writes_and_nothing_else(riddle, lite):
    assert len(set(SQLITE_REFUSED)) >= 150 and len(set(SQLITE_HARMLESS)) >= 150
    before = lite.read_bytes()
    assert unrefused(riddle, "lite", SQLITE_REFUSED) == []
    assert refused(riddle, "readonly", SQLITE_HARMLESS) == []
    assert lite.read_bytes() == before


# Side effects hide behind names that tell nothing. Each is a statement and what makes it harmful.
CREATED_LATER = {
    "SELECT 1 <=> 2": "CREATE OPERATOR <=> (LEFTARG = int, RIGHTARG = int, FUNCTION = leak)",
    "SELECT 1 <=>-2": "",
    "SELECT 1 OPERATOR(public.<=>) 2": "",
    "SELECT s BETWEEN s AND s FROM (SELECT ROW(1)::secret AS s) x":
        "CREATE OPERATOR >= (LEFTARG = secret, RIGHTARG = secret, FUNCTION = leaks); "
        "CREATE OPERATOR <= (LEFTARG = secret, RIGHTARG = secret, FUNCTION = leaks)",
    "SELECT 1::secret": "CREATE CAST (int AS secret) WITH FUNCTION to_secret(int)",
    "SELECT secret(1)": "",
    "INSERT INTO notes VALUES (5::small, 'x')": "CREATE DOMAIN small AS int CHECK (leak(VALUE, 1) = 1)",
    "INSERT INTO notes VALUES (CAST(6 AS public.small), 'x')": "",
    "INSERT INTO notes VALUES ((small '7')::int, 'x')": "",
    "UPDATE notes SET id = ('{8}'::_small)[1]": "",
    "DELETE FROM notes WHERE id = lower('[9,10)'::smalls)": "CREATE TYPE smalls AS RANGE (SUBTYPE = small)",
    "SELECT '(1)'::nested": "CREATE TYPE nested AS (v small[])",
    "SELECT 'x'::noted": "CREATE DOMAIN noted AS text CHECK (pg_notify('x', VALUE) IS NULL)",
    "SELECT 'x'::deeper": "CREATE DOMAIN deeper AS text CHECK (VALUE::noted IS NOT NULL)",
    "SELECT json_populate_record(NULL::kept, '{\"v\": 1}')": "CREATE TABLE kept (v small); GRANT SELECT ON kept TO reader",
    "SELECT * FROM json_to_record('{\"k\": {\"v\": 1}}') AS x(k kept)": "",
    "SELECT altered(1)": "ALTER FUNCTION altered(int) VOLATILE",
    "SELECT late()": "CREATE FUNCTION late() RETURNS int LANGUAGE sql AS 'SELECT 1'",
}


def test_the_catalog_counts_as_it_is_when_a_statement_comes(pg, tmp_path):
    pg.psql("""
        CREATE DATABASE custom; \\c custom
        CREATE TABLE notes (id int, body text); GRANT ALL ON notes TO reader;
        CREATE TYPE secret AS (v int); CREATE TYPE mood AS ENUM ('good', 'bad'); CREATE DOMAIN fine AS int CHECK (VALUE > 0);
        CREATE FUNCTION leak(int, int) RETURNS int LANGUAGE sql AS 'SELECT 1';
        CREATE FUNCTION leaks(secret, secret) RETURNS bool LANGUAGE sql AS 'SELECT true';
        CREATE FUNCTION altered(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 1';
        CREATE FUNCTION to_secret(int) RETURNS secret LANGUAGE sql AS 'SELECT ROW(1)::secret';
    """)
    with Server(tmp_path, DATABASES=f"kb={pg.url(database='custom')};write=notes") as server:
        assert query(server, "kb", "SELECT altered(1) AS a").json["results"] == [{"a": 1}]
        for sql, made in CREATED_LATER.items():
            pg.psql(made, database="custom")
            answer = query(server, "kb", sql)
            assert answer.status == 403 and "side effects" in answer.json["error"]["message"], (sql, answer)
        harmless = {"SELECT 1 < 2 AS v": True, "SELECT 1 IN (1, 2) AS v": True, "SELECT 3::fine AS v": 3, "SELECT 'bad'::mood AS v": "bad",
                    "SELECT count(*) AS v FROM kept": 0, "SELECT k.v AS v FROM kept AS k": None,
                    "SELECT random() < 2 AS v": True, "INSERT INTO notes VALUES (1::fine, 'x') RETURNING id AS v": 1}
        for sql, value in harmless.items():
            answer = query(server, "kb", sql)
            assert answer.status == 200, (sql, answer.json["error"]["message"])
            assert answer.json["results"] == ([{"v": value}] if value is not None else []), sql
        assert pg.ask("SELECT count(*) FROM notes", database="custom") == "1"


# Each makes a table that is granted and a way from it to `hidden`, which is not. Then what would change it.
CHAINS = {
    "trigger": "CREATE TRIGGER t BEFORE INSERT ON {t} FOR EACH ROW EXECUTE FUNCTION log_it('hidden')",
    "of_statement": "CREATE TRIGGER t AFTER INSERT ON {t} EXECUTE FUNCTION log_it('hidden')",
    "deferred": "CREATE CONSTRAINT TRIGGER t AFTER INSERT ON {t} INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION log_it('hidden')",
    "emptied": "CREATE TRIGGER t AFTER INSERT ON {t} EXECUTE FUNCTION run_it('TRUNCATE hidden')",
    "dropped": "CREATE TRIGGER t AFTER INSERT ON {t} EXECUTE FUNCTION run_it('DROP TABLE hidden CASCADE')",
    "abroad": "CREATE TRIGGER t AFTER INSERT ON {t} EXECUTE FUNCTION log_it('away')",
    "by_rule": "CREATE RULE r AS ON INSERT TO {t} DO ALSO INSERT INTO hidden VALUES (1)",
    "instead": "CREATE RULE r AS ON INSERT TO {t} DO INSTEAD DELETE FROM hidden",
    "by_default": "ALTER TABLE {t} ALTER body SET DEFAULT writes()",
    "checked": "ALTER TABLE {t} ADD CHECK (writes() <> id::text)",
}
CHAINED = {
    **{f"INSERT INTO {name} (id) VALUES (5)": "hidden" for name in CHAINS},
    "INSERT INTO abroad (id) VALUES (5)": "away",
    "INSERT INTO dropped (id) VALUES (5)": "(dropped)",
    "INSERT INTO plain SELECT 5, calm()": "hidden",
    "DELETE FROM parent WHERE id = 1": "hidden_child",
    "UPDATE parent SET id = 7 WHERE id = 1": "hidden_child",
    "DELETE FROM twice_removed WHERE id = 1": "hidden_child",
    "INSERT INTO shown VALUES (5)": "hidden",
    "INSERT INTO elsewhere VALUES (5)": "app.elsewhere",
}


def chained_database(pg):
    pg.psql(f"""
        CREATE DATABASE chained; \\c chained
        CREATE SCHEMA app; CREATE TABLE app.log (id int);
        CREATE TABLE hidden (id int, body text); INSERT INTO hidden VALUES (1, 'kept');
        CREATE EXTENSION postgres_fdw;
        CREATE SERVER itself FOREIGN DATA WRAPPER postgres_fdw OPTIONS (dbname 'chained', host '{pg.directory}', port '{pg.port}');
        CREATE USER MAPPING FOR boss SERVER itself OPTIONS (user 'boss');
        CREATE FOREIGN TABLE away (id int, body text) SERVER itself OPTIONS (table_name 'hidden');
        CREATE FUNCTION run_it() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN EXECUTE TG_ARGV[0]; RETURN NEW; END';
        CREATE FUNCTION log_it() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS
            'BEGIN EXECUTE format(''INSERT INTO %s VALUES (99)'', TG_ARGV[0]); RETURN NEW; END';
        CREATE FUNCTION later() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS
            'BEGIN SET CONSTRAINTS ALL DEFERRED; INSERT INTO deferred VALUES (6); RETURN NEW; END';
        CREATE FUNCTION writes() RETURNS text LANGUAGE sql SECURITY DEFINER AS 'INSERT INTO hidden VALUES (99) RETURNING body';
        -- calls what is not STABLE
        CREATE FUNCTION calm() RETURNS text LANGUAGE plpgsql STABLE AS 'BEGIN RETURN writes(); END';
        CREATE TABLE plain (id int, body text);
        CREATE TABLE parent (id int PRIMARY KEY); INSERT INTO parent VALUES (1), (2);
        CREATE TABLE hidden_child (id int REFERENCES parent ON DELETE CASCADE ON UPDATE CASCADE); INSERT INTO hidden_child VALUES (1);
        CREATE TABLE twice_removed (id int PRIMARY KEY); INSERT INTO twice_removed VALUES (1);
        CREATE TABLE child (id int PRIMARY KEY REFERENCES twice_removed ON DELETE CASCADE); INSERT INTO child VALUES (1);
        ALTER TABLE hidden_child ADD other int REFERENCES child ON DELETE SET NULL; UPDATE hidden_child SET other = 1;
        CREATE VIEW shown AS SELECT * FROM hidden;
        CREATE TABLE app.elsewhere (id int);
        {"".join(f"CREATE TABLE {name} (id int, body text); {how.format(t=name)};" for name, how in CHAINS.items())}
        CREATE TABLE postponed (id int);
        CREATE CONSTRAINT TRIGGER t AFTER INSERT ON postponed INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION later();

        CREATE TABLE family (id int PRIMARY KEY, body text) PARTITION BY RANGE (id);
        CREATE TABLE family_old PARTITION OF family FOR VALUES FROM (0) TO (100) PARTITION BY RANGE (id);
        CREATE TABLE family_older PARTITION OF family_old FOR VALUES FROM (0) TO (10);
        CREATE TABLE heir (more int) INHERITS (plain); INSERT INTO heir VALUES (50);
        CREATE TABLE big (id serial PRIMARY KEY, body text, at int REFERENCES parent); CREATE INDEX ON big (at);
        CREATE TRIGGER t BEFORE INSERT ON big FOR EACH ROW EXECUTE FUNCTION log_it('app.log');
        CREATE CONSTRAINT TRIGGER u AFTER INSERT ON big INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION log_it('plain');
        CREATE TRIGGER v BEFORE INSERT ON big EXECUTE FUNCTION run_it('CREATE TEMP TABLE seen ON COMMIT DROP AS SELECT * FROM hidden');
        GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public, app TO reader;
        GRANT USAGE ON SCHEMA app TO reader; GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO reader;
        ALTER ROLE reader IN DATABASE chained SET search_path = public, app;
    """)
    granted = [*CHAINS, "plain", "parent", "twice_removed", "child", "shown", "elsewhere", "postponed", "family", "big", "app.log"]
    return f"kb={pg.url(database='chained')};write={'+'.join(granted)}"


def test_what_a_write_sets_off_changes_granted_tables_only(pg, tmp_path):
    every = """SELECT string_agg(t, ' ' ORDER BY t) FROM (SELECT 'hidden' || to_jsonb(h)::text FROM hidden h UNION ALL
        SELECT 'child' || to_jsonb(c)::text FROM hidden_child c UNION ALL SELECT 'parent' || id FROM parent UNION ALL
        SELECT 'other' || id FROM app.elsewhere) x (t)"""
    with Server(tmp_path, DATABASES=chained_database(pg), RATE_LIMIT_MAX=0) as server:
        before = pg.ask(every, database="chained")
        wrong = []
        for sql, table in CHAINED.items():
            answer = query(server, "kb", sql)
            if answer.status != 403 or f"changes the table '{table}'" not in answer.json["error"]["message"]:
                wrong.append((sql, answer.status, answer.body[:200]))
        assert wrong == []
        answer = query(server, "kb", "INSERT INTO postponed VALUES (5)")
        assert answer.status == 403 and "read-only transaction" in answer.json["error"]["message"], answer
        for sql in ("INSERT INTO app.log VALUES (1)", 'INSERT INTO "app.log" VALUES (1)'):
            assert query(server, "kb", sql).status == 403, sql
        assert pg.ask(every, database="chained") == before
        assert pg.ask("SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in%'") == "0"

        allowed = ["INSERT INTO family VALUES (5, 'x')", "UPDATE family SET body = 'y' WHERE id = 5", "UPDATE plain SET body = 'z'",
                   "INSERT INTO big (body, at) SELECT string_agg(md5(g::text), ''), 2 FROM generate_series(1, 5000) g",
                   "INSERT INTO parent VALUES (9)", "DELETE FROM child WHERE id = 77 AND id < 0"]
        assert refused(server, "kb", allowed) == []
        assert pg.ask("SELECT (SELECT body FROM heir), (SELECT count(*) FROM app.log), (SELECT count(*) FROM plain WHERE id = 99)",
                      database="chained") == "z|1|1"


def test_a_write_is_committed_whole_however_few_rows_are_wanted(riddle, pg):
    cut = query(riddle, "kb", "INSERT INTO notes SELECT g, repeat('x', 1000) FROM generate_series(1, 20000) g RETURNING id, body", max_rows=3).json
    assert (cut["count"], cut["truncated"]) == (3, True)
    assert query(riddle, "kb", "DELETE FROM notes WHERE body LIKE 'x%'").json["affected_rows"] == 20000
    assert pg.ask("SELECT count(*) FROM notes") == "1"


def test_what_a_write_to_sqlite_sets_off_changes_granted_tables_only(tmp_path):
    path = tmp_path / "chained.db"
    with sqlite3.connect(path) as db:
        db.executescript("""
            CREATE TABLE hidden (id INTEGER PRIMARY KEY); INSERT INTO hidden VALUES (1);
            CREATE TABLE noted (id INTEGER PRIMARY KEY); INSERT INTO noted VALUES (1);
            CREATE TRIGGER i AFTER INSERT ON noted BEGIN INSERT INTO hidden VALUES (NEW.id); END;
            CREATE TRIGGER u AFTER UPDATE ON noted BEGIN UPDATE hidden SET id = NEW.id; END;
            CREATE TRIGGER d AFTER DELETE ON noted BEGIN DELETE FROM hidden; END;
            CREATE VIEW shown AS SELECT * FROM hidden;
            CREATE TRIGGER v INSTEAD OF INSERT ON shown BEGIN INSERT INTO hidden VALUES (NEW.id); END;
            CREATE TABLE relay (id INTEGER PRIMARY KEY);
            CREATE TRIGGER r AFTER INSERT ON relay BEGIN INSERT INTO noted VALUES (NEW.id); END;
            CREATE TABLE parent (id INTEGER PRIMARY KEY); INSERT INTO parent VALUES (1), (2);
            CREATE TABLE hidden_child (id REFERENCES parent ON DELETE CASCADE ON UPDATE SET NULL); INSERT INTO hidden_child VALUES (1);
            CREATE TABLE owner (id INTEGER PRIMARY KEY); INSERT INTO owner VALUES (1), (2);
            CREATE TABLE owned (id REFERENCES owner ON DELETE CASCADE); INSERT INTO owned VALUES (1), (2);
        """)
    before = path.read_bytes()
    with Server(tmp_path / "home", DATABASES=f"lite=sqlite://{path};write=noted+shown+relay+parent+owner+owned", RATE_LIMIT_MAX=0) as server:
        for sql, table in {"INSERT INTO noted VALUES (5)": "hidden", "INSERT OR REPLACE INTO noted VALUES (1)": "hidden",
                           "UPDATE noted SET id = 5": "hidden", "DELETE FROM noted": "hidden", "INSERT INTO shown VALUES (5)": "hidden",
                           "INSERT INTO relay VALUES (5)": "hidden", "DELETE FROM parent WHERE id = 1": "hidden_child",
                           "REPLACE INTO parent VALUES (1)": "hidden_child", "UPDATE parent SET id = 7": "hidden_child"}.items():
            answer = query(server, "lite", sql)
            assert answer.status == 403 and f" {table} is refused" in answer.json["error"]["message"], (sql, answer)
        assert path.read_bytes() == before
        assert query(server, "lite", "DELETE FROM owner WHERE id = 1").status == 200
        assert query(server, "lite", "SELECT id FROM owned").json["results"] == [{"id": 2}]
        dangling = query(server, "lite", "INSERT INTO owned VALUES (77)")
        assert dangling.status == 400 and "FOREIGN KEY" in dangling.json["error"]["message"], dangling


def test_superusers_are_refused_unless_the_entry_says_so(riddle, pg, tmp_path):
    answer = query(riddle, "boss", "SELECT 1")
    # boss has no password: over TCP the login fails, over the socket the role is refused
    assert answer.status == 503 and "refused the login" in answer.json["error"]["message"] or "wants a password" in answer.json["error"]["message"]
    socket = f"postgresql://boss@/postgres?host={pg.directory}&port={pg.port}"
    with Server(tmp_path, DATABASES=f"a={socket},b={socket};superuser=yes") as server:
        answer = query(server, "a", "SELECT 1")
        assert answer.status == 403 and "is a superuser" in answer.json["error"]["message"]
        assert query(server, "b", "SELECT 1 AS one").json["results"] == [{"one": 1}]
        assert query(server, "b", "SELECT pg_read_file('/etc/passwd')").status == 403
        assert query(server, "b", "DELETE FROM users").status == 403


# ---- values ----


def test_values_keep_everything_as_json_and_in_python(riddle):
    answer = query(riddle, "kb", "SELECT * FROM every").json
    row, nothing = answer["results"]
    assert set(nothing.values()) == {None}
    assert row["i8"] == 9223372036854775807 and row["n"] == "123456789012345678901234567890.123456789"
    assert row["t"] == 'tab\t quote" back\\ nl\n \ue000 é' and row["f8"] == 0.1 and row["by"] == "AP8i"
    assert row["at"] == ['a "b"', "NULL", None, "c,d", ""] and row["ai"] == [1, None, 3] and row["aa"] == [[1, 2], [3, 4]]
    assert row["an"] == ["1.10", "2.20"] and row["j"] == {"a": [1, None]} and row["tz"] == "2024-02-29 10:00:00+00:00"
    code = """
import datetime, decimal, uuid
row, nothing = db_query("SELECT * FROM every")
assert set(nothing.values()) == {None}
assert row["b"] is True and row["i2"] == -32768 and row["i8"] == 9223372036854775807
assert row["n"] == decimal.Decimal("123456789012345678901234567890.123456789")
assert row["t"] == 'tab\\t quote" back\\\\ nl\\n \\ue000 é', row["t"]
assert row["d"] == datetime.date(2024, 2, 29) and row["tm"] == datetime.time(12, 34, 56, 789000)
assert row["ts"] == datetime.datetime(2024, 2, 29, 12, 34, 56, 123456)
assert row["tz"] == datetime.datetime(2024, 2, 29, 10, tzinfo=datetime.timezone.utc)
assert row["iv"] == datetime.timedelta(days=1, hours=2, minutes=3, seconds=4.5) and row["mo"] == "1 mon"
assert row["u"] == uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11") and row["by"] == b"\\x00\\xff\\x22"
assert row["j"] == {"a": [1, None]} and row["jb"] == [1.5] and row["ai"] == [1, None, 3]
assert row["at"] == ['a "b"', "NULL", None, "c,d", ""] and row["ad"] == [datetime.date(2024, 1, 1)]
assert row["an"] == [decimal.Decimal("1.10"), decimal.Decimal("2.20")] and row["ip"] == "10.0.0.1" and row["c"] == "ab "
back = {k: v for k, v in row.items() if k not in ("ip", "c", "mo", "ai", "at", "an", "aa", "ad", "j", "jb")}
again = db_query("SELECT " + ", ".join(f":{k} AS {k}" for k in back), back)[0]
assert again == back, [(k, back[k], again[k]) for k in back if again[k] != back[k]]
assert db_query("SELECT count(*) AS n FROM users WHERE id = ANY(:ids)", {"ids": [1, 3]}) == [{"n": 2}]
assert db_query("SELECT :x AS x", {"x": None}) == [{"x": None}]
lite = db_query("SELECT * FROM every", db="lite")
assert lite[0] == {"i": 9223372036854775807, "r": 0.1, "t": 'é"x', "b": b"\\x00\\xff", "d": datetime.date(2024, 2, 29),
                   "ts": datetime.datetime(2024, 2, 29, 12), "ok": True, "any": "1"}, lite[0]
assert set(lite[1].values()) == {None, "a"}
print(type(db_query("SELECT 1")).__name__)
"""
    assert printed(riddle, code, python_policy="open") == "Rows\n"


def test_parameters_are_bound_and_never_pasted(riddle):
    tricks = ["'; DROP TABLE users; --", "\\'; --", "$$; DELETE", "' OR '1'='1", "1); --", "\n--", ":n", "é\ue000"]
    for database in ("kb", "lite"):
        for text in tricks:
            assert query(riddle, database, "SELECT :s AS s, ':s' AS t", {"s": text}).json["results"] == [{"s": text, "t": ":s"}]
        missing = query(riddle, database, "SELECT :missing")
        assert missing.status == 400 and ":missing" in missing.json["error"]["message"]


# ---- limits, cancelling, failing ----


def test_rows_time_and_bytes_are_limited(riddle):
    cut = query(riddle, "kb", "SELECT g FROM generate_series(1, 1000000) g", max_rows=3).json
    assert (cut["count"], cut["truncated"]) == (3, True)
    cut = query(riddle, "kb", "SELECT repeat('x', 1000000) AS x FROM generate_series(1, 100)").json
    assert cut["truncated"] and 0 < cut["count"] < 20
    slow = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 1000000000) SELECT max(n) FROM t"
    for database in ("kb", "lite"):
        late = query(riddle, database, slow, timeout_seconds=1)
        assert late.status == 504 and "longer than 1000 ms" in late.json["error"]["message"]
        assert query(riddle, database, "SELECT 1 AS n").json["results"] == [{"n": 1}]
    assert query(riddle, "lite", "SELECT 1 AS n FROM notes, users", max_rows=1).json["truncated"]


def running(pg):
    return pg.ask("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%generate_series(1, 1999%' AND state = 'active' AND usename = 'reader'")


def test_a_client_that_leaves_cancels_its_query(riddle, pg):
    connection = riddle.connect()
    sql = "SELECT count(*) FROM generate_series(1, 1999000000) a"
    connection.request("POST", "/databases/kb/query", json.dumps({"query": sql}), {"Content-Type": "application/json"})
    wait_until(lambda: running(pg) == "1", "the query began")
    connection.close()
    wait_until(lambda: running(pg) == "0", "the query was cancelled on its server")
    assert logged(riddle, "kb", sql, "&verdict=cancelled")[0]["thread_id"] is None


def test_an_interrupted_cell_cancels_its_query(riddle, pg):
    thread = riddle.post("/thread/new", {}).json["thread_id"]
    answer = []
    code = "x = 5\ndb_query('SELECT count(*) FROM generate_series(1, 1999000000) a')"
    asking = threading.Thread(target=lambda: answer.append(riddle.post(f"/thread/{thread}/execute", {"code": code})))
    asking.start()
    wait_until(lambda: running(pg) == "1", "the query began")
    assert riddle.post(f"/thread/{thread}/stop", {}).status == 200
    asking.join(timeout=30)
    wait_until(lambda: running(pg) == "0", "the query was cancelled on its server")
    assert answer[0].status == 200, answer[0]
    kept = riddle.post(f"/thread/{thread}/execute", {"code": "print(x, db_query('SELECT 1 AS n'))"}).json
    assert "5 [{'n': 1}]" in json.dumps(kept), kept
    log = logged(riddle, "kb", "SELECT 1 AS n", f"&thread_id={thread}")
    assert [(q["verdict"], q["thread_id"]) for q in log] == [("ok", thread), ("cancelled", thread)]
    assert log[0]["run_id"] and log[0]["run_id"] != log[1]["run_id"]


def test_what_cannot_be_reached_is_told_without_its_address(riddle):
    for name, words in {"wrong": "refused the login", "gone": "nothing listens there", "nofile": "cannot be opened"}.items():
        answer = query(riddle, name, "SELECT 1")
        assert answer.status == 503 and words in answer.json["error"]["message"], (name, answer)
    missing = query(riddle, "nosuch", "SELECT 1")
    assert missing.status == 404 and "kb, lite" in missing.json["error"]["message"]


def test_a_connection_that_its_server_ended_is_replaced(riddle, pg):
    assert query(riddle, "kb", "SELECT 1 AS n").status == 200
    pg.psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'reader'")
    assert query(riddle, "kb", "SELECT 1 AS n").json["results"] == [{"n": 1}]


def test_many_queries_share_few_connections(riddle, pg):
    answers = []
    ask = lambda: answers.append(query(riddle, "kb", "SELECT count(*) AS n FROM generate_series(1, 100000)").status)  # noqa: E731
    threads = [threading.Thread(target=ask) for _ in range(24)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert answers == [200] * 24
    assert int(pg.ask("SELECT count(*) FROM pg_stat_activity WHERE usename = 'reader'")) <= 4


# ---- from inside of kernels ----


def test_code_asks_with_and_without_await(riddle):
    code = """
rows = await db_query("SELECT id, name FROM users WHERE id = :id", {"id": 2})
same = db_query("SELECT id, name FROM users WHERE id = :id", {"id": 2})
print(rows == same, rows, rows[0].get("name"), len(rows))
print(await db_tables(), db_tables(db="lite"))
print([c["column_name"] for c in await db_schema("notes")], db_schema("users", db="lite")[1]["data_type"])
import asyncio
print(await asyncio.gather(db_query("SELECT 1 AS a"), db_query("SELECT 2 AS a")))
for bad in ("DELETE FROM users", "SELECT nosuch", 5):
    try:
        db_query(bad)
    except Exception as error:
        print(type(error).__name__, "|", error)
print(db_query("SELECT region FROM sales LIMIT 1", db="data"), db_tables("data"))
print(rows.df().shape)
"""
    assert printed(riddle, code, python_policy="open").splitlines() == [
        "True [{'id': 2, 'name': 'bob'}] bob 1",
        "['app.documents', 'every', 'notes', 'odd', 'recent', 'users'] ['every', 'notes', 'odd', 'recent', 'users']",
        "['id', 'body'] text",
        "[[{'a': 1}], [{'a': 2}]]",
        "QueryRefused | this database is read-only: its entry in DATABASES gives no right to write to the table 'users'",
        'DatabaseError | column "nosuch" does not exist',
        "TypeError | db_query() takes a query as text, not int",
        "[{'region': 'north'}] ['sales']",
        "(1, 2)",
    ]


def test_a_result_of_a_query_is_a_result_of_the_run(riddle):
    answer = python(riddle, "result = db_query('SELECT id, name FROM users ORDER BY id LIMIT 2')")
    assert answer["result"]["columns"] == ["id", "name"] and answer["result"]["rows"] == [[1, "ann"], [2, "bob"]]


def test_a_query_gets_no_more_time_than_its_run(riddle):
    code = "db_query('SELECT count(*) FROM generate_series(1, 1999000000) b')"
    answer = python(riddle, code, timeout_seconds=2)
    assert answer["status"] in ("timed_out", "failed") and "ms" in json.dumps(answer) or "seconds" in json.dumps(answer), answer


def test_a_sandbox_asks_databases(riddle):
    sandbox = riddle.post("/sandbox/create", {}).json["sandbox_id"]
    sql = "SELECT count(*) AS user_count FROM users WHERE created_at > :date"
    answer = riddle.post(f"/sandbox/{sandbox}/database/query", {"query": sql, "parameters": {"date": "2024-01-15"}}).json
    assert (answer["query"], answer["parameters"], answer["results"], answer["count"]) == (sql, {"date": "2024-01-15"}, [{"user_count": 1}], 1)
    refusal = riddle.post(f"/sandbox/{sandbox}/database/query", {"query": "DROP TABLE users"})
    assert refusal.status == 403 and refusal.json["error"]["type"] == "FORBIDDEN"
    answer = riddle.get(f"/sandbox/{sandbox}/database/schema").json
    assert answer["sandbox_id"] == sandbox and "users" in answer["schema"]["tables"] and answer["schema"]["total_tables"] == 6
    ran = riddle.post(f"/sandbox/{sandbox}/execute", {"code": "__result__ = len(await db_query('SELECT * FROM users'))"}).json
    assert (ran["status"], ran["result"]) == ("completed", 3), ran
    log = logged(riddle, "kb", "SELECT * FROM users", f"&thread_id={sandbox}")
    assert [q["verdict"] for q in log] == ["ok", "refused", "ok"]
    assert riddle.post("/sandbox/nosuch/database/query", {"query": "SELECT 1"}).status == 404
    state = {}

    def is_logged():
        state.update(riddle.get(f"/sandbox/{sandbox}/status").json["data"])
        return any(q["query"] == "DROP TABLE users" and q["verdict"] == "refused" for q in state["query_log"])

    wait_until(is_logged, "the status has the log")
    [first] = [q for q in state["query_log"] if q["query"] == sql]
    assert first["parameters"] == {"date": "2024-01-15"} and first["database"] == "kb" and first["verdict"] == "ok", first


def test_writing_is_a_right_of_a_table_and_is_logged(riddle, pg):
    code = """
print(db_query("INSERT INTO notes VALUES (:id, :b)", {"id": 7, "b": "it's"}))
print(db_query("UPDATE notes SET body = 'y' WHERE id = 7 RETURNING id, body"))
print(db_query("DELETE FROM public.notes WHERE id = 7"))
print(db_query("INSERT INTO notes VALUES (8, 'x')", db="lite"), db_query("DELETE FROM notes WHERE id = 8", db="lite"))
"""
    one = "[{'affected_rows': 1}]"
    assert printed(riddle, code).splitlines() == [one, "[{'id': 7, 'body': 'y'}]", one, f"{one} {one}"]
    assert pg.ask("SELECT count(*) FROM notes") == "1"
    wrote = [q["sql"][:6] for q in logged(riddle, "kb", "DELETE FROM public") if q["wrote"]]
    assert wrote[:3] == ["DELETE", "UPDATE", "INSERT"]
    assert "event=database.write" in riddle.log.read_text()


def test_the_log_keeps_what_was_asked_and_hides_what_is_marked(riddle):
    assert query(riddle, "kb", "SELECT :a AS a, :token AS t, :b AS b", {"a": 1, "token": "hush-1", "b": "hush-2"}, redact=["b"]).status == 200
    last = logged(riddle, "kb", "SELECT :a AS a")[0]
    assert last["parameters"] == {"a": 1, "token": "(redacted)", "b": "(redacted)"}
    assert (last["verdict"], last["row_count"], last["database"], last["wrote"]) == ("ok", 1, "kb", 0)
    refusal = query(riddle, "kb", "DROP TABLE users")
    first = logged(riddle, "kb", "DROP TABLE")[0]
    assert first["verdict"] == "refused" and first["error"] == refusal.json["error"]["message"]
    page = riddle.get("/databases/kb/queries?limit=2").json
    more = riddle.get(f"/databases/kb/queries?limit=2&cursor={page['next']}").json
    assert len({q["query_id"] for q in page["queries"] + more["queries"]}) == 4


def test_databases_and_schemas_are_listed(riddle):
    listed = riddle.get("/databases").json["databases"]
    assert listed[0] == {"name": "kb", "kind": "postgresql", "writable": ["notes"], "default": True}
    assert [d["name"] for d in listed] == ["kb", "lite", "readonly", "boss", "wrong", "gone", "nofile"]
    schema = riddle.get("/databases/kb/schema?table=users").json["schema"]
    assert schema["tables"] == ["users"] and schema["total_tables"] == 1
    assert schema["schema"]["users"][0] == {"column_name": "id", "data_type": "integer", "is_nullable": "NO", "column_default": None}


def test_credentials_reach_neither_kernels_nor_logs_nor_answers(riddle, pg):
    code = """
import os
print(sorted(os.environ))
try:
    db_query("SELECT 1", db="wrong")
except DatabaseError_ as error:
    pass
"""
    code = code.replace("DatabaseError_", "Exception")
    seen = printed(riddle, code, python_policy="open")
    assert "DATABASES" not in seen
    riddle.get("/databases")
    everything = riddle.log.read_text() + seen + json.dumps([riddle.get("/databases").json, riddle.get("/databases/wrong/queries").json])
    for secret in (PASSWORD, postgres.PASSWORD, "other-pass-word", f":{pg.port}/", "reader:"):
        assert secret not in everything, secret
    for path in riddle.home.rglob("*"):
        if path.is_file() and path.stat().st_size < 1 << 24:
            assert PASSWORD.encode() not in path.read_bytes(), path


def test_a_setting_that_cannot_be_read_names_the_entry_only(programs):
    for value, words in {
        "kb": "is not name=url", "a b=sqlite:///x": "letters, digits", "kb=mysql://u:hush@h/d": "'kb' does not begin with",
        "kb=sqlite:///x;wrote=a": "none of write=", "kb=sqlite:x:hush": "sqlite:///path", "kb=sqlite:///a,kb=sqlite:///b": "two databases",
    }.items():
        done = programs.riddle("serve", "--port", "0", env={"DATABASES": value})
        assert done.status != 0 and words in done.err and "hush" not in done.err, (value, done)


def test_doctor_looks_at_each_database(programs, pg, lite):
    socket = f"postgresql://boss@/postgres?host={pg.directory}&port={pg.port}"
    env = {"DATABASES": f"kb={pg.url()};write=notes,files=sqlite://{lite},root={socket},wrong={pg.url(password='other-pass-word')}"}
    done = programs.riddle("doctor", "--json", env=env)
    checks = {c["name"]: (c["status"], c["detail"]) for c in json.loads(done.out)["checks"]}
    assert checks["database kb"][0] == "pass" and "may write to: notes" in checks["database kb"][1]
    assert checks["database files"][0] == "pass" and "read-only" in checks["database files"][1]
    assert checks["database root"][0] == "fail" and "superuser" in checks["database root"][1]
    assert checks["database wrong"][0] == "fail" and "other-pass-word" not in done.text + done.err

def test_the_process_of_sqlite_reads_its_own_directory_only(lite, tmp_path):
    """Spoken to as riddle does it: whatever takes SQLite over has no more than this process."""
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE t (x)")
    worker = subprocess.Popen([RIDDLE, "--sqlite-worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={})

    def ask(path, sql):
        request = {"path": str(path), "internal": False, "sql": sql, "params": {}, "timeout_ms": 5000, "max_rows": 10, "max_bytes": 10000}
        worker.stdin.write(json.dumps(request).encode() + b"\n")
        worker.stdin.flush()
        answer = json.loads(worker.stdout.readline())
        worker.stdout.read(sum(answer.get("bytes", [])))
        return answer

    try:
        assert ask(lite, "SELECT count(*) FROM users")["rows"] == 1
        status = dict(line.split(":\t") for line in Path(f"/proc/{worker.pid}/status").read_text().splitlines() if ":\t" in line)
        assert status["Seccomp"] == "2" and status["NoNewPrivs"] == "1"
        assert int(status["CapEff"], 16) & ~(1 << 2) == 0 and int(status["CapPrm"], 16) & ~(1 << 2) == 0
        if ctypes.CDLL(None).syscall(444, None, 0, 1) > 0:  # Linux has Landlock
            assert ask(other, "SELECT * FROM t")["error"]["message"] == "its file cannot be opened"
        rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000) SELECT i FROM n ORDER BY i * 7919 % 200003"
        assert ask(lite, rows)["rows"] == 10
    finally:
        worker.kill()
        worker.wait()
