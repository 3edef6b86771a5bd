"""ClickHouse asked where it is: two of Debian's servers (version 18.16) with a cluster, through the API and from inside of kernels."""

import json
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import clickhouse
import pytest
from clickhouse_statements import CLICKHOUSE_HARMLESS, CLICKHOUSE_REFUSED
from server import Server
from test_databases import logged, printed, query, refused, unrefused, wait_until

pytestmark = pytest.mark.skipif(clickhouse.program() is None, reason=clickhouse.SKIP)

PASSWORD = urllib.parse.unquote(clickhouse.PASSWORD)

SETUP = """
CREATE TABLE users (id Int64, name String, score Nullable(Float64)) ENGINE = MergeTree ORDER BY id
INSERT INTO users VALUES (1, 'ann', 1.5), (2, 'bob', NULL), (3, 'cay', 2.5)
CREATE TABLE notes (id Int64, body String) ENGINE = Memory
INSERT INTO notes VALUES (1, 'first')
CREATE TABLE odd ("update" String, "delete" String, "insert" String, url String, file String, remote String, sleep Int8, settings Int8, format Int8, \
outfile Int8, cluster Int8, created_at Date, updated_at Date) ENGINE = Memory
CREATE VIEW recent AS SELECT * FROM users WHERE id < 3
CREATE TABLE spread AS users ENGINE = Distributed(both, default, users)
CREATE TABLE every (i8 Int8, u64 UInt64, i64 Int64, f32 Float32, f64 Float64, d32 Decimal32(4), d128 Decimal128(10), s String, fs FixedString(5), \
bin FixedString(3), d Date, t DateTime, z DateTime('Europe/Berlin'), e Enum8('low' = -1, 'it\\'s' = 5), u UUID, ai Array(Int64), an Array(Nullable(String)), \
aa Array(Array(UInt8)), tup Tuple(Int8, String), n Nullable(Int32), nn Nullable(Decimal64(2)), ab Array(String), au Array(UInt64)) ENGINE = Memory
INSERT INTO every SELECT -128, 18446744073709551615, -9223372036854775808, 0.1, 0.1, toDecimal32('-1.0500', 4), \
toDecimal128('1234567890123456789012345678.0123456789', 10), 'tab\\t quote" back\\\\ nl\\n é', 'abc', unhex('00ff22'), toDate('2024-02-29'), \
toDateTime('2024-02-29 12:34:56'), toDateTime('2024-10-27 02:30:00', 'Europe/Berlin'), 'it\\'s', toUUID('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'), \
[1, -2], ['a "b"', NULL, 'c,d', ''], [[1, 2], []], (1, 'x'), NULL, toDecimal64('1.10', 2), ['a', unhex('ff')], [18446744073709551615]
"""


@pytest.fixture(scope="module")
def click():
    servers = clickhouse.ClickHouse(2).start()
    try:
        for line in SETUP.strip().split("\n"):
            servers.ask(line)
        servers.ask("CREATE TABLE users (id Int64, name String, score Nullable(Float64)) ENGINE = MergeTree ORDER BY id", server=1)
        servers.ask("INSERT INTO users VALUES (4, 'dee', 4.5)", server=1)
        yield servers
    finally:
        servers.stop()


@pytest.fixture(scope="module")
def riddle(click, tmp_path_factory):
    databases = ",".join([
        f"ch={click.url()};write=notes;redact=token",
        f"strict={click.url('strict')}",
        f"two={click.url('two')}",
        f"wrong={click.url(password='other-pass-word')}",
        f"nodb={click.url(database='nosuch')}",
        "gone=clickhouse://reader:hush@127.0.0.1:1/default",
    ])
    server = Server(tmp_path_factory.mktemp("clickhouse"), DATABASES=databases, RATE_LIMIT_MAX=0, DATABASE_TIMEOUT_SECONDS=10)
    (server.datasets / "tiny").mkdir()
    (server.datasets / "tiny" / "sales.csv").write_text("region,total\nnorth,1\nsouth,2\n")
    with server:
        yield server


def test_clickhouse_refuses_what_writes_or_reaches_out_and_nothing_else(riddle, click):
    assert len(set(CLICKHOUSE_REFUSED)) >= 150 and len(set(CLICKHOUSE_HARMLESS)) >= 150
    assert unrefused(riddle, "ch", CLICKHOUSE_REFUSED) == []
    assert refused(riddle, "ch", CLICKHOUSE_HARMLESS) == []
    # A profile of its own keeps the role from nothing that our wall would let through.
    assert unrefused(riddle, "two", [s for s in CLICKHOUSE_REFUSED if "(" in s]) == []
    assert click.ask("SELECT count() FROM users") == "3" and click.ask("SELECT count() FROM notes") == "1"
    assert click.ask("SELECT name FROM system.tables WHERE database = 'default' ORDER BY name").split() == sorted(
        ["every", "notes", "odd", "recent", "spread", "users"])


def test_the_server_is_told_too(riddle, click):
    """The second wall: what the checks of riddle let through is read-only there, and has limits there."""
    said = query(riddle, "ch", "SELECT name, value FROM system.settings WHERE name IN ('readonly', 'max_execution_time', 'max_result_rows', "
                 "'max_result_bytes', 'result_overflow_mode')", max_rows=50, timeout_seconds=7).json["results"]
    assert {r["name"]: r["value"] for r in said} == {"readonly": "1", "max_execution_time": "7", "max_result_rows": "51",
                                                     "max_result_bytes": str(8 * 12 * 1024 * 1024), "result_overflow_mode": "break"}
    forbidden = query(riddle, "ch", "SELECT * FROM numbers(3)")
    assert forbidden.status == 403 and "Table functions are forbidden" in forbidden.json["error"]["message"]


def test_values_keep_everything_as_json_and_in_python(riddle):
    answer = query(riddle, "ch", "SELECT * FROM every").json
    [row], types = answer["results"], dict(zip(answer["columns"], answer["types"]))
    assert row["u64"] == "18446744073709551615" and row["i64"] == -9223372036854775808 and row["i8"] == -128
    assert (row["f32"], row["f64"], row["d32"], row["nn"]) == (0.1, 0.1, "-1.0500", "1.10")
    assert row["d128"] == "1234567890123456789012345678.0123456789" and row["s"] == 'tab\t quote" back\\ nl\n é'
    assert (row["fs"], row["bin"], row["e"], row["n"]) == ("abc", "AP8i", "it's", None)
    assert (row["d"], row["t"], types["t"]) == ("2024-02-29", "2024-02-29 12:34:56", "TIMESTAMP")
    # The hour that comes twice: an instant has no doubt about it.
    assert row["z"] in ("2024-10-27 00:30:00+00:00", "2024-10-27 01:30:00+00:00") and types["z"] == "TIMESTAMP WITH TIME ZONE"
    assert row["ai"] == [1, -2] and row["an"] == ['a "b"', None, "c,d", ""] and row["aa"] == [[1, 2], []] and row["tup"] == [1, "x"]
    assert row["au"] == ["18446744073709551615"] and types["ab"] == "BLOB[]" and types["u64"] == "BIGINT" and types["d128"] == "DECIMAL"
    code = """
import datetime, decimal, uuid
[row] = db_query("SELECT * FROM every")
assert row["u64"] == 2**64 - 1 and row["au"] == [2**64 - 1] and row["i64"] == -2**63
assert row["d128"] == decimal.Decimal("1234567890123456789012345678.0123456789") and row["d32"] == decimal.Decimal("-1.0500")
assert row["fs"] == "abc" and row["bin"] == b"\\x00\\xff\\x22" and row["ab"] == [b"a", b"\\xff"]
assert row["d"] == datetime.date(2024, 2, 29) and row["t"] == datetime.datetime(2024, 2, 29, 12, 34, 56)
assert row["z"].tzinfo and row["u"] == uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11") and row["n"] is None
back = {k: row[k] for k in ("u64", "i64", "f64", "d32", "d128", "s", "bin", "d", "t", "z", "u", "ai", "au", "nn", "n")}
again = db_query("SELECT " + ", ".join(f":{k} AS {k}" for k in back), back)[0]
assert again == back, [(k, back[k], again[k]) for k in back if again[k] != back[k]]
assert db_query("SELECT count() AS n FROM users WHERE has(:ids, id)", {"ids": [1, 3]}) == [{"n": 2}]
assert db_query("SELECT id FROM users ORDER BY id LIMIT :n", {"n": 2}) == [{"id": 1}, {"id": 2}]
empty = db_query("SELECT id, name FROM users WHERE id > 99")
assert empty == [] and empty.columns == ("id", "name")
print(db_tables(), [c["data_type"] for c in db_schema("users")], db_query("SELECT count() AS n FROM spread"))
"""
    assert printed(riddle, code, python_policy="open").strip() == (
        "['every', 'notes', 'odd', 'recent', 'spread', 'users'] ['Int64', 'String', 'Nullable(Float64)'] [{'n': 4}]")


TRICKS = ["'; DROP TABLE users; --", "\\'; --", "\\", "\\\\'", "' OR '1'='1", "1); --", "\n--", ":n", "é\ue000", "{p1:String}", "a\tb\\nc", "/*", "'||'"]


def test_parameters_are_written_as_literals_and_never_pasted(riddle):
    for text in TRICKS:
        answer = query(riddle, "ch", "SELECT :s AS s, ':s' AS t", {"s": text}).json
        assert answer["results"][0]["t"] == ":s" and answer["results"][0]["s"] == text, (text, answer)
    assert query(riddle, "ch", "SELECT 5-:m AS m, :b AS b", {"m": -3, "b": True}).json["results"] == [{"m": 8, "b": 1}]
    for value, kind in [("1); DROP", "integer"), ("1.5.5", "decimal"), ("0x1p3", "real"), ("2024-13-01", "date"), ("2024-01-01 25:00:00", "timestamp"),
                        ("x", "uuid"), ("2024-01-01 00:00:00+99x", "timestamptz")]:
        bad = query(riddle, "ch", "SELECT :x", {"x": {"type": kind, "value": value}})
        assert bad.status == 400 and "parameter 'x' is no" in bad.json["error"]["message"], (kind, bad)
    missing = query(riddle, "ch", "SELECT :missing")
    assert missing.status == 400 and ":missing" in missing.json["error"]["message"]


class Newer(BaseHTTPRequestHandler):
    """Stands for a server that binds parameters: they are what it answers, with names and types in front of the binary rows."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        if getattr(self.server, "has_ended", False):  # a connection that was kept open
            self.close_connection = True
            return
        arguments = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query, keep_blank_values=True))
        sql = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.asked.append((sql, arguments))
        body = getattr(self.server, "version", b"24.3.1.1") + b"\tUTC\t2\n"
        if "version()" not in sql:
            text = lambda s: bytes([len(s.encode())]) + s.encode()  # noqa: E731
            given = sorted((k[6:], v) for k, v in arguments.items() if k.startswith("param_"))
            body = bytes([len(given)]) + b"".join(text(k) for k, _ in given) + text("String") * len(given) + b"".join(text(v) for _, v in given)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def test_parameters_are_bound_where_the_server_can(tmp_path):
    newer = ThreadingHTTPServer(("127.0.0.1", 0), Newer)
    newer.asked = []
    threading.Thread(target=newer.serve_forever, daemon=True).start()
    try:
        with Server(tmp_path, DATABASES=f"ch=clickhouse://u:p@127.0.0.1:{newer.server_port}/d") as server:
            for text in TRICKS:
                answer = query(server, "ch", "SELECT :s, :n, :s2", {"s": text, "n": -5, "s2": "x" * 5000})
                [row] = answer.json["results"]
                unescaped = row["p1"].replace("\\\\", "\ue001").replace("\\t", "\t").replace("\\n", "\n").replace("\ue001", "\\")
                assert unescaped == text and row["p2"] == "-5", (text, row)
                sql, arguments = newer.asked[-1]
                assert sql == "SELECT {p1:String}, {p2:Int64}, '" + "x" * 5000 + "'" and "readonly" not in arguments, sql[:80]
                assert arguments["default_format"] == "RowBinaryWithNamesAndTypes" and arguments["max_execution_time"] == "30"
    finally:
        newer.shutdown()
        newer.server_close()


def test_another_version_that_comes_back_is_spoken_to_as_such(tmp_path):
    def serve(port, version):
        server = ThreadingHTTPServer(("127.0.0.1", port), Newer)
        server.asked, server.version = [], version
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    def end(server):
        server.has_ended = True
        server.shutdown()
        server.server_close()

    first = serve(0, b"25.8.2.29-lts")
    with Server(tmp_path, DATABASES=f"ch=clickhouse://u:p@127.0.0.1:{first.server_port}/d") as server:
        query(server, "ch", "SELECT :s", {"s": "a"})
        assert first.asked[-1][0] == "SELECT {p1:String}"
        end(first)
        wait_until(lambda: query(server, "ch", "SELECT :s", {"s": "a"}).status == 503, "its end is noticed")
        second = serve(first.server_port, b"18.16.1")
        query(server, "ch", "SELECT :s", {"s": "a"})
        assert "version()" in second.asked[0][0] and second.asked[1][0] == "DESCRIBE TABLE (SELECT 'a'\n)", second.asked
        end(second)


# ---- limits, cancelling, failing ----


def test_rows_time_and_bytes_are_limited(riddle):
    cut = query(riddle, "ch", "SELECT number FROM system.numbers LIMIT 1000000", max_rows=3).json
    assert (cut["count"], cut["truncated"]) == (3, True)
    whole = query(riddle, "ch", "SELECT number FROM system.numbers LIMIT 3", max_rows=3).json
    assert (whole["count"], whole["truncated"]) == (3, False)
    cut = query(riddle, "ch", "SELECT toFixedString(toString(number), 100000) AS x FROM system.numbers LIMIT 1000").json
    assert cut["truncated"] and 10 < cut["count"] < 1000
    late = query(riddle, "ch", "SELECT count() FROM system.numbers", timeout_seconds=1)
    assert late.status == 504 and "longer than 1000 ms" in late.json["error"]["message"]


def running(click):
    return click.ask("SELECT count() FROM system.processes WHERE query LIKE '%numbers WHERE number%' AND user = 'reader'")


def test_a_client_that_leaves_kills_its_query(riddle, click):
    connection = riddle.connect()
    sql = "SELECT count() FROM system.numbers WHERE number % 7 = 3"
    connection.request("POST", "/databases/ch/query", json.dumps({"query": sql}), {"Content-Type": "application/json"})
    wait_until(lambda: running(click) == "1", "the query began")
    connection.close()
    wait_until(lambda: running(click) == "0", "the query was killed on its server")
    assert logged(riddle, "ch", sql, "&verdict=cancelled")[0]["thread_id"] is None


def test_what_cannot_be_asked_is_told_without_its_address(riddle):
    for name, words in {"wrong": "refused the login", "gone": "nothing listens there", "nodb": "no database of that name",
                        "strict": "its profile has readonly = 1; give it readonly = 2"}.items():
        answer = query(riddle, name, "SELECT 1")
        assert answer.status == 503 and words in answer.json["error"]["message"], (name, answer)
    everything = riddle.log.read_text()
    for secret in (PASSWORD, clickhouse.PASSWORD, "other-pass-word", "reader:", "hush"):
        assert secret not in everything, secret


def test_a_server_that_comes_back_is_asked_again(tmp_path):
    click = clickhouse.ClickHouse(1, timezone="Asia/Tokyo").start()
    try:
        with Server(tmp_path, DATABASES=f"ch={click.url()}") as server:
            # Its zone is not UTC: a DateTime without one of its own is an instant all the same.
            answer = query(server, "ch", "SELECT toDateTime('2024-01-01 09:00:00') AS t").json
            assert answer["results"] == [{"t": "2024-01-01 00:00:00+00:00"}] and answer["types"] == ["TIMESTAMP WITH TIME ZONE"]
            click.restart()
            assert query(server, "ch", "SELECT 1 AS n").json["results"] == [{"n": 1}]
    finally:
        click.stop()


def test_many_queries_share_few_connections(riddle):
    answers = []
    ask = lambda: answers.append(query(riddle, "ch", "SELECT count() AS n FROM users").json["results"])  # noqa: E731
    threads = [threading.Thread(target=ask) for _ in range(24)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert answers == [[{"n": 3}]] * 24


# ---- writing, log, doctor ----


def test_writing_is_a_right_of_a_table_and_is_logged(riddle, click):
    code = """
print(db_query("INSERT INTO notes VALUES (:id, :b), (8, 'y')", {"id": 7, "b": "it's"}))
print(db_query("INSERT INTO notes (id, body) SELECT id, name FROM users WHERE id = 1"))
try:
    db_query("INSERT INTO users VALUES (9, 'x', 1)")
except Exception as error:
    print(type(error).__name__, "|", error)
"""
    assert printed(riddle, code, python_policy="open").splitlines() == [
        "[{'affected_rows': 2}]", "[{'affected_rows': 0}]",
        "QueryRefused | this database is read-only: its entry in DATABASES gives no right to write to the table 'users'"]
    assert click.ask("SELECT count() FROM notes") == "4" and click.ask("SELECT body FROM notes WHERE id = 7") == "it\\'s"
    click.ask("DROP TABLE notes")
    click.ask("CREATE TABLE notes (id Int64, body String) ENGINE = Memory")
    click.ask("INSERT INTO notes VALUES (1, 'first')")
    assert [q["sql"][:6] for q in logged(riddle, "ch", "INSERT INTO users") if q["wrote"]][:2] == ["INSERT", "INSERT"]
    assert "event=database.write" in riddle.log.read_text()


def test_the_log_keeps_what_was_asked_and_hides_what_is_marked(riddle):
    assert query(riddle, "ch", "SELECT :a AS a, :token AS t", {"a": 1, "token": "hush-1"}).status == 200
    last = logged(riddle, "ch", "SELECT :a AS a")[0]
    assert last["parameters"] == {"a": 1, "token": "(redacted)"} and (last["verdict"], last["row_count"]) == ("ok", 1)
    assert query(riddle, "ch", "DROP TABLE users").status == 403
    assert logged(riddle, "ch", "DROP TABLE")[0]["verdict"] == "refused"


def test_settings_and_doctor(programs, click):
    for value in ("clickhouse:x:hush", "clickhouse://u:hush@/d", "clickhouse://u:hush@h:99999/d", "clickhouse://u:hush@h:1/d/e"):
        done = programs.riddle("serve", "--port", "0", env={"DATABASES": f"ch={value}"})
        assert done.status != 0 and "clickhouse://user:password@host:port/database" in done.err and "hush" not in done.err, (value, done)
    env = {"DATABASES": f"ch={click.url()};write=notes,wrong={click.url(password='other-pass-word')}"}
    done = programs.riddle("doctor", "--json", env=env)
    checks = {c["name"]: (c["status"], c["detail"]) for c in json.loads(done.out)["checks"]}
    assert checks["database ch"][0] == "pass" and "ClickHouse 18.16" in checks["database ch"][1] and "may write to: notes" in checks["database ch"][1]
    assert checks["database wrong"][0] == "fail" and "other-pass-word" not in done.text + done.err
