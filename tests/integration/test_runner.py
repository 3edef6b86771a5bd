"""The RunnerRequest → RunnerResponse contract, through `riddle run --json` and `riddle-kernel --once` alike."""

import base64

import pytest

pytestmark = pytest.mark.plain

FIELDS = {"status", "columns", "rows", "row_count", "exec_time_ms", "stdout_trunc", "stderr_trunc", "error", "truncated"}


def failed(done, kind, status="error"):
    """The message of a response that failed in just this way."""
    response = done.response
    assert done.status != 0
    assert FIELDS <= response.keys()
    assert (response["status"], response["error"]["type"]) == (status, kind), response["error"]
    assert response["columns"] == [] and response["rows"] == [] and response["row_count"] == 0
    return response["error"]["message"]


def succeeded(done):
    response = done.response
    assert response["error"] is None and response["status"] == "success", (response["error"], done.err)
    assert done.status == 0
    assert FIELDS <= response.keys()
    return response


def test_sql(runner, orders):
    response = succeeded(runner({
        "dataset_id": "shop", "files": orders, "query_type": "sql",
        "sql": "SELECT region, sum(total) AS total FROM orders GROUP BY region ORDER BY region",
        "python_code": None, "timeout_seconds": 10, "max_rows": 200, "max_output_bytes": 65536}))
    assert response["columns"] == ["region", "total"]
    assert response["rows"] == [["east", None], ["north", 40.5], ["south", 20.25]]
    assert response["row_count"] == 3
    assert response["types"] == ["VARCHAR", "DOUBLE"]
    assert response["truncated"] is False
    assert response["verdict"] == "ok"
    assert isinstance(response["exec_time_ms"], int)
    assert set(response["timings_ms"]) == {"start", "load", "execute"}
    assert "images" not in response


def test_defaults(runner, orders):
    """Without query_type, dataset_id and limits: SQL, at most 200 rows."""
    response = succeeded(runner({"files": orders, "sql": "SELECT i FROM range(201) t(i)"}))
    assert response["row_count"] == 200 and response["truncated"] is True
    response = succeeded(runner({"files": orders, "sql": "SELECT i FROM range(200) t(i)"}))
    assert response["row_count"] == 200 and response["truncated"] is False


@pytest.mark.parametrize("name", ["orders", "shop.orders", '"shop"."orders"'])
def test_names_of_a_table(runner, orders, name):
    response = succeeded(runner({"dataset_id": "shop", "files": orders, "sql": f"SELECT count(*) AS n FROM {name}"}))
    assert response["rows"] == [[4]]


def test_join(runner, data, orders):
    files = orders + [{"name": "items.csv", "path": str(data / "items.csv")}]
    response = succeeded(runner({"files": files, "sql": "SELECT region, sum(quantity) AS n FROM orders JOIN items "
                                                        "ON id = order_id GROUP BY 1 ORDER BY 1"}))
    assert response["rows"] == [["north", 4], ["south", 5]]


def test_max_rows(runner, orders):
    response = succeeded(runner({"files": orders, "sql": "SELECT id FROM orders ORDER BY id", "max_rows": 2}))
    assert response["rows"] == [[1], [2]] and response["truncated"] is True


def test_max_output_bytes(runner, orders):
    response = succeeded(runner({"files": orders, "max_output_bytes": 1025, "max_rows": 1000,
                                 "sql": "SELECT repeat('x', 100) AS x FROM range(100)"}))
    assert 0 < response["row_count"] < 11 and response["truncated"] is True


def test_sql_error(runner, orders):
    message = failed(runner({"files": orders, "sql": "SELECT no_such_column FROM orders"}), "SQL_EXECUTION_ERROR")
    assert "no_such_column" in message


@pytest.mark.parametrize("sql, words", [
    ("DROP TABLE orders", "SELECT"),
    ("COPY orders TO '/tmp/x.csv'", "SELECT"),
    ("SELECT * FROM read_csv('/etc/passwd')", "read_csv"),
    ("SELECT 1; SELECT 2", "Multiple SQL statements"),
])
def test_sql_policy(runner, orders, sql, words):
    assert words in failed(runner({"files": orders, "sql": sql}), "SQL_POLICY_VIOLATION")


def test_words_in_a_string_are_no_statement(runner, orders):
    response = succeeded(runner({"files": orders, "sql": "SELECT count(*) AS n FROM orders WHERE region = 'drop table'"}))
    assert response["rows"] == [[0]]


def test_sql_timeout(runner, orders):
    done = runner({"files": orders, "timeout_seconds": 1,
                   "sql": "SELECT sum(a.i * b.i) FROM range(10000000) a(i), range(1000000) b(i)"})
    assert failed(done, "RUNNER_TIMEOUT", "timeout") == "Query exceeded timeout of 1 seconds"
    assert done.response["verdict"] == "timeout"


# ---- Python ----

def python(files, code, **more):
    return {"files": files, "query_type": "python", "python_code": code, "timeout_seconds": 30, **more}


def test_python(runner, orders):
    response = succeeded(runner({
        "files": orders, "python_code": 'result_df = orders.groupby("region").size().reset_index(name="n")',
        "timeout_seconds": 30}))
    assert response["columns"] == ["region", "n"]
    assert response["rows"] == [["east", 1], ["north", 2], ["south", 1]]


@pytest.mark.parametrize("code, columns, rows", [
    ("result_df = orders[['id']].head(1)", ["id"], [[1]]),
    ("result_rows = [[1, 'a'], [2, 'b']]", ["col_1", "col_2"], [[1, "a"], [2, "b"]]),
    ("result_rows = [[1]]\nresult_columns = ['n']", ["n"], [[1]]),
    ("result = {'a': 1}", ["key", "value"], [["a", 1]]),
    ("result = [1, 2]", ["value"], [[1], [2]]),
    ("result = 7", ["value"], [[7]]),
    ("len(orders) + 38", ["value"], [[42]]),
    ("len(dfs['orders'])", ["value"], [[4]]),
    ("sql('SELECT max(id) AS m FROM orders')", ["m"], [[4]]),
    ("import math\nk = 2\n[math.floor(k * x) for x in (1.6, 2.6)]", ["value"], [[3], [5]]),
])
def test_python_results(runner, orders, code, columns, rows):
    response = succeeded(runner(python(orders, code)))
    assert (response["columns"], response["rows"]) == (columns, rows)


def test_python_output(runner, orders):
    response = succeeded(runner(python(orders, "print('to out')", python_policy="restricted")))
    assert response["stdout_trunc"] == "to out\n" and response["stderr_trunc"] == ""
    assert response["columns"] == [] and response["rows"] == []
    response = succeeded(runner(python(orders, "import sys\nprint('to err', file=sys.stderr)\n1", python_policy="open")))
    assert response["stderr_trunc"] == "to err\n"


def test_python_output_is_bounded(runner, orders):
    response = succeeded(runner(python(orders, "for i in range(300): print('x' * 9)\n1", max_output_bytes=2000)))
    assert len(response["stdout_trunc"]) <= 2000 and response["stdout_truncated"] is True


def test_python_without_result(runner, orders):
    message = failed(runner(python(orders, "x = 1")), "PYTHON_EXECUTION_ERROR")
    assert message.startswith("no result produced: set result_df")


def test_python_error(runner, orders):
    done = runner(python(orders, "a = 1\nb = a / 0\n"))
    assert "ZeroDivisionError" in failed(done, "PYTHON_EXECUTION_ERROR")
    assert done.response["error"]["line"] == 2


@pytest.mark.parametrize("code, message", [
    ("import os", "Blocked import: os"),
    ("import sqlite3", "Import not allowed: sqlite3"),
    ("x = 1\nopen('/etc/passwd')", "Blocked call: open"),
    ("pd.read_csv('/data/orders.csv')", "Blocked method: pd.read_csv"),
    ("().__class__", "Blocked dunder access: __class__"),
])
def test_python_policy(runner, orders, code, message):
    assert message in failed(runner(python(orders, code)), "PYTHON_POLICY_VIOLATION")


def test_open_policy(runner, orders):
    """Nothing is blocked by name, and the file is where the design says: read-only under /data."""
    response = succeeded(runner(python(orders, "import os\nsorted(os.listdir('/data'))", python_policy="open")))
    assert ["orders.csv"] in response["rows"]


def test_python_timeout(runner, orders):
    done = runner({**python(orders, "while True: pass"), "timeout_seconds": 1})
    assert failed(done, "RUNNER_TIMEOUT", "timeout") == "Python execution exceeded timeout of 1 seconds"


def test_memory_limit(runner, orders):
    done = runner(python(orders, "x = [bytearray(1 << 20) for _ in range(2000)]\nlen(x)", memory_mb=128))
    assert "memory limit of 128 MB" in failed(done, "MEMORY_LIMIT")
    assert done.response["verdict"] == "memory"


def test_figures(runner, orders):
    code = "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\nplt.show()"
    response = succeeded(runner(python(orders, code)))
    [image] = response["images"]
    assert base64.b64decode(image["png"]).startswith(b"\x89PNG\r\n") and "svg" not in image
    [image] = succeeded(runner(python(orders, code, svg=True)))["images"]
    assert "<svg" in image["svg"]


def test_values(runner, orders):
    response = succeeded(runner({"files": orders, "sql":
        "SELECT 9223372036854775807 AS i, DATE '2024-02-29' AS d, 'nan'::DOUBLE AS n, [1, 2] AS l, NULL AS z"}))
    assert response["rows"] == [[9223372036854775807, "2024-02-29", None, [1, 2], None]]
