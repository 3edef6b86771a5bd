"""Databases as data sets: PostgreSQL and SQLite copies of the bundled sets answer as the files do."""

import csv
import sqlite3
import urllib.parse

import postgres
import pytest
from api import generate_sets
from server import Server
from test_prompts import PROMPTS, is_answer

pytestmark = pytest.mark.skipif(postgres.programs() is None, reason="PostgreSQL is not installed: scripts/install-deps test")

PASSWORD = urllib.parse.unquote(postgres.PASSWORD)
POSTGRES_TYPES = {"BIGINT": "bigint", "DOUBLE": "double precision", "VARCHAR": "text", "DATE": "date", "TIMESTAMP": "timestamp",
                  "BOOLEAN": "boolean", "TIME": "time"}
SQLITE_TYPES = {"BIGINT": "INTEGER", "DOUBLE": "REAL", "VARCHAR": "TEXT"}


def columns_of(schema, file):
    """(column, type of DuckDB) in the order of the file."""
    with open(file, newline="") as f:
        heads = next(csv.reader(f))
    return [(c, schema[c]["sql_type"]) for c in heads]


def clause(relationships, table, quote='"'):
    """Foreign keys of a table, as registries declare them."""
    keys = [r for r in relationships if r["from"].split(".")[0] == table]
    return "".join(', FOREIGN KEY ("{}") REFERENCES "{}" ("{}")'.format(r["from"].split(".")[1], *r["to"].split(".")) for r in keys)


def targets(relationships, table):
    return "".join(f', UNIQUE ("{c}")' for c in sorted({r["to"].split(".")[1] for r in relationships if r["to"].split(".")[0] == table}))


def in_order(relationships, tables):
    """Those that others refer to first."""
    done = []
    while len(done) < len(tables):
        for t in tables:
            needs = {r["to"].split(".")[0] for r in relationships if r["from"].split(".")[0] == t}
            if t not in done and needs <= set(done):
                done.append(t)
    return done


def copy_to_postgres(pg, name, schema, folder):
    sql = [f"CREATE DATABASE pg_{name}", f"\\c pg_{name}"]
    relationships, files = schema["relationships"], {f["table"]: f for f in schema["files"]}
    for table in in_order(relationships, list(files)):
        columns = columns_of(files[table]["schema"], folder / f"{table}.csv")
        listed = ", ".join(f'"{c}" {POSTGRES_TYPES[t]}' for c, t in columns)
        sql.append(f'CREATE TABLE "{table}" ({listed}{targets(relationships, table)}{clause(relationships, table)})')
        text = (folder / f"{table}.csv").read_text().partition("\n")[2]
        sql.append(f'COPY "{table}" FROM STDIN (FORMAT csv);\n{text}\\.')
        for column, about in files[table]["schema"].items():
            said = about.get("description", "").replace("'", "''")
            sql.append(f"""COMMENT ON COLUMN "{table}"."{column}" IS '{said}'""")
    sql.append("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
    pg.psql("\n".join(s if s.endswith("\\.") or s.startswith("\\c") else s + ";" for s in sql))


def copy_to_sqlite(path, schema, folder):
    relationships, files = schema["relationships"], {f["table"]: f for f in schema["files"]}
    with sqlite3.connect(path) as db:
        for table in in_order(relationships, list(files)):
            columns = columns_of(files[table]["schema"], folder / f"{table}.csv")
            listed = ", ".join(f'"{c}" {SQLITE_TYPES.get(t, t)}' for c, t in columns)
            db.execute(f'CREATE TABLE "{table}" ({listed}{clause(relationships, table)})')
            with open(folder / f"{table}.csv", newline="") as f:
                rows = [[None if v == "" else v for v in row] for row in list(csv.reader(f))[1:]]
            db.executemany(f'INSERT INTO "{table}" VALUES ({", ".join("?" * len(columns))})', rows)


@pytest.fixture(scope="module")
def riddle(tmp_path_factory):
    """One server with the bundled sets as files, in PostgreSQL and in SQLite."""
    directory = tmp_path_factory.mktemp("database_sets")
    pg = postgres.Postgres().start()
    try:
        pg.psql(f"CREATE ROLE reader LOGIN PASSWORD '{PASSWORD}'; CREATE TABLE \"Odd Names\" (\"Sold On\" date, \"Total\" numeric); "
                "INSERT INTO \"Odd Names\" SELECT date '2024-01-01' + g, g * 1.25 FROM generate_series(0, 99) g; "
                "CREATE TABLE big AS SELECT g AS id, g % 7 AS kind FROM generate_series(1, 1000100) g; "
                "GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader;")
        server = Server(directory / "first")
        generate_sets(server)
        with server:
            schemas = {name: server.get(f"/datasets/{name}/schema").json for name in PROMPTS}
        entries = [f"odd={pg.url()}", "gone=postgresql://reader@127.0.0.1:1/postgres"]
        for name, schema in schemas.items():
            copy_to_postgres(pg, name, schema, server.datasets / name)
            copy_to_sqlite(directory / f"{name}.db", schema, server.datasets / name)
            entries += [f"pg_{name}={pg.url(database=f'pg_{name}')}", f"lite_{name}=sqlite://{directory}/{name}.db"]
        again = Server(directory / "second", DATABASES=",".join(entries), RATE_LIMIT_MAX=0)
        again.datasets.rmdir()
        again.datasets.symlink_to(server.datasets)
        with again:
            again.pg = pg
            yield again
    finally:
        pg.stop()


def ask(riddle, dataset, message):
    answer = riddle.post("/chat", {"message": message, "dataset_id": dataset})
    assert answer.status == 200, answer
    return answer.json


@pytest.mark.parametrize("name", PROMPTS)
def test_every_bundled_prompt_is_answered_as_on_files(riddle, name):
    for prompt, (sql, ordered) in PROMPTS[name].items():
        known = riddle.post("/runs", {"dataset_id": name, "sql": sql, "max_rows": 1000}).json["result"]["rows"]
        for kind in ("pg", "lite"):
            answer = ask(riddle, f"{kind}_{name}", prompt)
            assert answer["status"] == "succeeded", (kind, prompt, answer["assistant_message"], answer["result"]["error"])
            assert is_answer(answer["result"]["rows"], known, ordered), (kind, prompt, answer["details"]["compiled_sql"], answer["result"]["rows"][:3])


def test_a_database_is_listed_with_its_schema_and_profile(riddle):
    listed = {d["id"]: d for d in riddle.get("/datasets").json["datasets"]}
    assert {"odd", "pg_ecommerce", "lite_ecommerce", "ecommerce"} <= set(listed) and "gone" not in listed
    gone = riddle.get("/datasets/gone/schema")
    assert gone.status == 503 and "nothing is known about the database 'gone'" in gone.error[1], gone
    for kind in ("pg", "lite"):
        schema = riddle.get(f"/datasets/{kind}_ecommerce/schema").json
        files = {f["table"]: f for f in schema["files"]}
        known = {f["table"]: f for f in riddle.get("/datasets/ecommerce/schema").json["files"]}
        assert set(files) == set(known) and {r["to"] for r in schema["relationships"]} == {"orders.order_id", "inventory.product_id"}
        for table, file in files.items():
            assert file["profiled"] and file["row_count"] == known[table]["row_count"] and len(file["sample_rows"]) == 3
            for column, about in file["schema"].items():
                want = known[table]["schema"][column]
                assert about["sql_type"] == want["sql_type"] and about["nulls"] == want["nulls"], (kind, table, column, about)
                assert kind == "lite" or about["description"] == want["description"]
                if about["type"] in ("integer", "float"):
                    assert (about["min"], about["max"]) == (want["min"], want["max"]), (table, column)


def test_large_tables_are_sampled(riddle):
    big = {f["table"]: f for f in riddle.get("/datasets/odd/schema").json["files"]}["big"]
    looked_at = sum(v["count"] for v in big["schema"]["kind"]["top"])
    assert big["row_count"] == 1000001 and looked_at == 100000, big["schema"]
    answer = ask(riddle, "odd", "How many big are there?")
    assert answer["result"]["rows"] == [[1000100]], answer


def test_runs_plans_and_rows_are_the_databases(riddle):
    run = riddle.post("/runs", {"dataset_id": "odd", "sql": 'SELECT count(*) AS n, sum("Total") AS s FROM "Odd Names"'}).json
    assert run["status"] == "succeeded" and run["result"]["rows"] == [[100, 6187.5]], run
    capsule = riddle.get(f"/runs/{run['run_id']}").json
    assert capsule["dataset_id"] == "odd" and capsule["status"] == "succeeded"
    plan = {"dataset_id": "odd", "table": "Odd Names", "select": [{"column": "Sold On", "bucket": "month"},
            {"func": "median", "column": "Total", "alias": "m"}], "group_by": ["Sold On_month"], "order_by": [{"expr": "m", "direction": "desc"}]}
    answer = riddle.post("/runs", {"dataset_id": "odd", "query_type": "plan", "plan_json": plan}).json
    assert "PERCENTILE_CONT" in answer["details"]["compiled_sql"], answer
    assert [r[0] for r in answer["result"]["rows"]] == ["2024-04-01", "2024-03-01", "2024-02-01", "2024-01-01"], answer
    page = riddle.get(f"/runs/{answer['run_id']}/rows?limit=2&offset=1&sort=m").json
    assert [r[0] for r in page["rows"]] == ["2024-02-01", "2024-03-01"] and page["total"] == 4, page
    for sql, status, error in [
        ('DELETE FROM "Odd Names"', "rejected", "SQL_POLICY_VIOLATION"),
        ("SELECT pg_sleep(9)", "rejected", "SQL_POLICY_VIOLATION"),
        ("SELECT nothing FROM big", "failed", "SQL_EXECUTION_ERROR"),
        ("SELECT count(*) FROM big a, big b", "timed_out", "RUNNER_TIMEOUT"),
    ]:
        answer = riddle.post("/runs", {"dataset_id": "odd", "sql": sql, "timeout_seconds": 1}).json
        assert answer["status"] == status and answer["result"]["error"]["type"] == error, answer
    logged = riddle.get("/databases/odd/queries?limit=50").json["queries"]
    assert any(q["run_id"] == run["run_id"] for q in logged), logged


def test_a_chat_runs_sql_and_python_on_a_database_and_joins_it_with_files(riddle):
    first = ask(riddle, "pg_ecommerce", "SQL: SELECT count(*) AS n FROM orders")
    thread = first["thread_id"]
    known = riddle.post("/runs", {"dataset_id": "ecommerce", "sql": "SELECT count(*) FROM orders"}).json["result"]["rows"]
    assert first["result"]["rows"] == known
    python = riddle.post("/chat", {"thread_id": thread, "message": "using pandas, total revenue per month"}).json
    assert python["status"] == "succeeded" and "db_query(" in python["details"]["python_code"], python
    pulled = riddle.post("/chat", {"thread_id": thread, "message": 'PYTHON: orders = db_query("SELECT * FROM orders").df(); len(orders)'}).json
    assert pulled["status"] == "succeeded", pulled
    names = riddle.post("/chat", {"thread_id": thread, "message": "PYTHON: import pandas as pd\n"
                        "names = pd.DataFrame({'status': orders['status'].unique()}); "
                        "sql('SELECT count(*) AS n FROM orders JOIN names USING (status)')"}).json
    assert names["status"] == "succeeded" and names["result"]["rows"] == known, names
    # The thread's own kernel is awake now, and SQL still goes to the database.
    again = riddle.post("/chat", {"thread_id": thread, "message": "SQL: SELECT version() LIKE 'PostgreSQL%' AS is_postgres"}).json
    assert again["result"]["rows"] == [[True]], again


def test_a_thread_asks_one_database(riddle):
    answer = riddle.post("/thread/new", {"datasets": ["pg_ecommerce", "lite_ecommerce"]})
    assert answer.status == 400 and "a thread asks one database" in answer.error[1], answer


EXPRESSIONS = [
    "amount / 3", "amount / (amount - amount)", "round(amount, 1)", "round(amount)", "ceil(amount)", "floor(amount)", "abs(-amount)",
    "sign(-amount)", "sqrt(amount)", "power(amount, 2)", "ln(amount + 1)", "log10(amount + 1)", "7 % 4", "coalesce(null, amount)",
    "greatest(amount, 50.5)", "least(amount, 50.5)", "nullif(status, 'pending')", "concat(category, '-', status)", "contains(category, 'in')",
    "starts_with(category, 'D')", "ends_with(category, 'g')", "left(category, 3)", "right(category, 3)", "length(category)", "upper(category)",
    "replace(category, 'i', 'I')", "substr(category, 2, 3)", "trim(category)", "category || '!'", "day(date)", "dayofweek(date)",
    "dayofyear(date)", "month(date)", "quarter(date)", "week(date)", "year(date)", "dayname(date)", "monthname(date)", "last_day(date)",
    "date_diff('day', date, cast('2024-07-01' as date))", "date_diff('week', date, cast('2024-07-01' as date))", "date_diff('month', date, cast('2024-07-01' as date))",
    "date_diff('quarter', date, cast('2024-07-01' as date))", "date_diff('year', date, cast('2025-07-01' as date))", "date_trunc('month', date)", "date_add('day', 3, date)",
    "date_add('month', -1, date)", "date_add('week', 2, date)", "cast(status as integer)", "cast('12' as integer)", "cast(amount as text) = ''",
    "case when amount > 100 then 'big' else 'small' end", "category in ('Dining', 'Housing')", "amount between 10 and 100",
    "not (category like 'D%')",
]
AGGREGATES = ["count", "count_distinct", "sum", "avg", "min", "max", "median", "mode", "stddev", "variance"]


def same(value):
    """A figure to nine digits; a day is the same with and without midnight; SQLite's truth values are numbers."""
    value = {True: 1, False: 0}.get(value, value) if isinstance(value, bool) else value
    if isinstance(value, (int, float)):
        return float(f"{value:.9g}") + 0.0
    return value.replace("T0", " 0").removesuffix(" 00:00:00") if isinstance(value, str) else value


def run_plan(riddle, dataset, plan):
    answer = riddle.post("/runs", {"dataset_id": dataset, "query_type": "plan", "plan_json": {"dataset_id": dataset, **plan}})
    assert answer.status == 200 and answer.json["status"] == "succeeded", (dataset, plan, answer)
    return [[same(v) for v in row] for row in answer.json["result"]["rows"]], answer.json["details"]["compiled_sql"]


def agree(riddle, plan, kinds=("pg", "lite")):
    known, _ = run_plan(riddle, "transactions", plan)
    assert known
    for kind in kinds:
        rows, sql = run_plan(riddle, f"{kind}_transactions", plan)
        wrong = [(k, r) for k, r in zip(known, rows, strict=True) if k != r]
        assert not wrong, (kind, sql[:2000], wrong[:2])


def test_plans_mean_the_same_in_every_engine(riddle):
    order = {"order_by": [{"expr": "id", "direction": "asc"}], "limit": 40}
    for expression in EXPRESSIONS:
        agree(riddle, {"table": "transactions", "select": [{"column": "id"}, {"expr": expression, "alias": "x"}], **order})
    for func in AGGREGATES:
        item = {"func": func, "column": "status" if func == "mode" else "amount", "alias": "x"}
        agree(riddle, {"table": "transactions", "select": [{"column": "category"}, item], "group_by": ["category"],
                       "order_by": [{"expr": "category", "direction": "asc"}]}, ("pg",) if func in ("median", "mode") else ("pg", "lite"))
    missing = riddle.post("/runs", {"dataset_id": "lite_transactions", "query_type": "plan", "plan_json": {
        "dataset_id": "lite_transactions", "table": "transactions", "select": [{"func": "median", "column": "amount", "alias": "m"}]}})
    assert missing.status == 400 and "SQLite has no median" in missing.error[1], missing
    grouped = [{"column": "category"}, {"func": "sum", "column": "amount", "alias": "total"}]
    by_total = {"group_by": ["category"], "order_by": [{"expr": "total", "direction": "desc"}]}
    agree(riddle, {"table": "transactions", "select": [*grouped, {"expr": "share(total)", "alias": "s"}], **by_total})
    agree(riddle, {"table": "transactions", "select": [{"column": "id"}, {"column": "category"}, {"column": "amount"}],
                   "filters": [{"expr": "rank(amount, category) <= 2"}, {"column": "status", "op": "=", "value": "completed"}],
                   "order_by": [{"expr": "category", "direction": "asc"}, {"expr": "id", "direction": "asc"}]})
    for op, value in [("contains", "in"), ("startswith", "D"), ("endswith", "g"), ("not_contains", "o%_'")]:
        agree(riddle, {"table": "transactions", "select": [{"column": "id"}], "filters": [{"column": "category", "op": op, "value": value}],
                       **order})
    for bucket in ("day", "week", "month", "quarter", "year"):
        agree(riddle, {"table": "transactions", "select": [{"column": "date", "bucket": bucket}, {"func": "count", "column": "*", "alias": "n"}],
                       "group_by": [f"date_{bucket}"], "order_by": [{"expr": f"date_{bucket}", "direction": "asc"}], "limit": 50})
    agree(riddle, {"table": "transactions", "describe": "columns"})
    statistics, _ = run_plan(riddle, "pg_transactions", {"table": "transactions", "describe": "statistics"})
    assert [row[0] for row in statistics] == ["id", "date", "description", "amount", "category", "status"], statistics
