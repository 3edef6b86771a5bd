"""ClickHouse as a data set: copies of the bundled sets answer as the files do, on one server and spread over two."""

import csv

import clickhouse
import pytest
from api import generate_sets
from server import Server
from test_database_sets import AGGREGATES, EXPRESSIONS, ask, columns_of, run_plan
from test_prompts import PROMPTS, is_answer

pytestmark = [pytest.mark.skipif(clickhouse.program() is None, reason=clickhouse.SKIP), pytest.mark.long]

TYPES = {"BIGINT": "Int64", "DOUBLE": "Float64", "VARCHAR": "String", "DATE": "Date", "TIMESTAMP": "DateTime", "BOOLEAN": "UInt8", "TIME": "String"}


def quoted(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def copy_of(click, name, schema, folder):
    """Tables of a set: the largest one is spread over both servers, behind a Distributed table of its name."""
    for server in range(len(click.ports)):
        click.ask(f"CREATE DATABASE {name}", server=server)
        click.ask(f"CREATE DATABASE {name}_parts", server=server)
    for file in schema["files"]:
        table = file["table"]
        columns = columns_of(file["schema"], folder / f"{table}.csv")
        keys = {r["from"].split(".")[1]: r["to"].split(".") for r in schema["relationships"] if r["from"].split(".")[0] == table}
        listed = []
        for column, kind in columns:
            said = file["schema"][column].get("description", "")
            said += f" REFERENCES {keys[column][0]} ({keys[column][1]})" if column in keys else ""  # how a key is declared here
            listed.append(f'"{column}" Nullable({TYPES[kind]}) COMMENT {quoted(said)}')
        listed = ", ".join(listed)
        with open(folder / f"{table}.csv", newline="") as f:
            rows = list(csv.reader(f))[1:]
        spread = table in ("orders", "tickets", "sensors", "transactions")
        for server, part in enumerate([rows[0::2], rows[1::2]] if spread else [rows]):
            local = f"{name}_parts.{table}" if spread else f"{name}.{table}"
            click.ask(f"CREATE TABLE {local} ({listed}) ENGINE = MergeTree ORDER BY tuple()", server=server)
            data = "\n".join("\t".join("\\N" if v == "" else v.replace("\\", "\\\\").replace("\t", "\\t") for v in row) for row in part)
            click.ask(f"INSERT INTO {local} FORMAT TabSeparated", data.encode(), server=server)
        if spread:
            click.ask(f"CREATE TABLE {name}.{table} ({listed}) ENGINE = Distributed(both, {name}_parts, {table})")


@pytest.fixture(scope="module")
def riddle(tmp_path_factory):
    directory = tmp_path_factory.mktemp("clickhouse_sets")
    click = clickhouse.ClickHouse(2).start()
    try:
        server = Server(directory / "first")
        generate_sets(server)
        with server:
            schemas = {name: server.get(f"/datasets/{name}/schema").json for name in PROMPTS}
        for name, schema in schemas.items():
            copy_of(click, name, schema, server.datasets / name)
        entries = [f"ch_{name}={click.url(database=name)}" for name in schemas]
        again = Server(directory / "second", DATABASES=",".join(entries), RATE_LIMIT_MAX=0)
        again.datasets.rmdir()
        again.datasets.symlink_to(server.datasets)
        with again:
            again.click = click
            yield again
    finally:
        click.stop()


@pytest.mark.parametrize("name", PROMPTS)
def test_every_bundled_prompt_is_answered_as_on_files(riddle, name):
    for prompt, (sql, ordered) in PROMPTS[name].items():
        known = riddle.post("/runs", {"dataset_id": name, "sql": sql, "max_rows": 1000}).json["result"]["rows"]
        answer = ask(riddle, f"ch_{name}", prompt)
        assert answer["status"] == "succeeded", (prompt, answer["assistant_message"], answer["details"], answer["result"]["error"])
        assert is_answer(answer["result"]["rows"], known, ordered), (prompt, answer["details"]["compiled_sql"], answer["result"]["rows"][:3])


def agree(riddle, plan):
    known, _ = run_plan(riddle, "transactions", plan)
    rows, sql = run_plan(riddle, "ch_transactions", plan)
    wrong = [(k, r) for k, r in zip(known, rows, strict=True) if k != r]
    assert known and not wrong, (sql[:2000], wrong[:2])


def test_plans_mean_the_same(riddle):
    order = {"order_by": [{"expr": "id", "direction": "asc"}], "limit": 40}
    for expression in EXPRESSIONS:
        agree(riddle, {"table": "transactions", "select": [{"column": "id"}, {"expr": expression, "alias": "x"}], **order})
    for func in [*AGGREGATES, "quantile"]:
        item = {"func": func, "column": "status" if func == "mode" else "amount", "alias": "x", **({"q": 0.9} if func == "quantile" else {})}
        agree(riddle, {"table": "transactions", "select": [{"column": "category"}, item], "group_by": ["category"],
                       "order_by": [{"expr": "category", "direction": "asc"}]})
    # An alias that is the name of a column does not take its place.
    agree(riddle, {"table": "transactions", "select": [{"column": "category"}, {"func": "sum", "column": "amount", "alias": "amount"}],
                   "filters": [{"column": "amount", "op": ">", "value": 20}], "group_by": ["category"],
                   "order_by": [{"expr": "amount", "direction": "desc"}]})
    for op, value in [("contains", "in"), ("startswith", "D"), ("endswith", "g"), ("not_contains", "o%_'\\")]:
        agree(riddle, {"table": "transactions", "select": [{"column": "id"}], "filters": [{"column": "category", "op": op, "value": value}], **order})
    agree(riddle, {"table": "transactions", "select": [{"column": "id"}], **order,
                   "filters": [{"column": "date", "op": "between", "value": ["2024-02-01", "2024-03-15"]}, {"column": "category", "op": "!=", "value": "it's \\"}]})
    for bucket in ("day", "week", "month", "quarter", "year"):
        agree(riddle, {"table": "transactions", "select": [{"column": "date", "bucket": bucket}, {"func": "count", "column": "*", "alias": "n"}],
                       "group_by": [f"date_{bucket}"], "order_by": [{"expr": f"date_{bucket}", "direction": "asc"}], "limit": 50})
    agree(riddle, {"table": "transactions", "describe": "columns"})
    statistics, _ = run_plan(riddle, "ch_transactions", {"table": "transactions", "describe": "statistics"})
    assert [row[0] for row in statistics] == ["id", "date", "description", "amount", "category", "status"], statistics


def test_rows_of_both_servers_are_counted_and_profiled(riddle):
    both = [int(riddle.click.ask("SELECT count() FROM sensors_parts.sensors", server=i)) for i in (0, 1)]
    answer = ask(riddle, "ch_sensors", "SQL: SELECT count() AS n FROM sensors")
    assert min(both) > 0 and answer["result"]["rows"] == [[sum(both)]], answer
    files = {f["table"]: f for f in riddle.get("/datasets/ch_sensors/schema").json["files"]}
    known = riddle.get("/datasets/sensors/schema").json["files"][0]
    assert files["sensors"]["row_count"] == known["row_count"] == sum(both)
    for column, about in files["sensors"]["schema"].items():
        assert about["nulls"] == known["schema"][column]["nulls"], column
        if about["type"] in ("integer", "float"):
            assert (about["min"], about["max"]) == (known["schema"][column]["min"], known["schema"][column]["max"]), column
    page = riddle.post("/runs", {"dataset_id": "ch_sensors", "sql": "SELECT sensor_id, count() AS n FROM sensors GROUP BY sensor_id"}).json
    rows = riddle.get(f"/runs/{page['run_id']}/rows?limit=3&offset=1&sort=sensor_id").json
    assert len(rows["rows"]) == 3 and rows["rows"] == sorted(rows["rows"]) and rows["total"] == page["result"]["row_count"], rows


def test_refusals_and_errors_of_runs(riddle):
    for sql, status, error in [
        ("DROP TABLE sensors", "rejected", "SQL_POLICY_VIOLATION"),
        ("SELECT * FROM url('http://127.0.0.1:1/', CSV, 'a Int8')", "rejected", "SQL_POLICY_VIOLATION"),
        ("SELECT nothing FROM sensors", "failed", "SQL_EXECUTION_ERROR"),
        ("SELECT count() FROM system.numbers", "timed_out", "RUNNER_TIMEOUT"),
    ]:
        answer = riddle.post("/runs", {"dataset_id": "ch_sensors", "sql": sql, "timeout_seconds": 1}).json
        assert answer["status"] == status and answer["result"]["error"]["type"] == error, answer
