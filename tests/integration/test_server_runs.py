"""Runs over HTTP: figures that are right, failures that say what failed, cancelling, streams, queues, capsules and their replay."""

import base64
import datetime
import json
from collections import Counter, defaultdict

import pytest
from api import (FOREVER_PYTHON, FOREVER_SQL, QUICK, UUID, Background, make_set, metric, read_csv, refused, run_body, status_of,
                 wait_for_metric, wait_for_status, wait_until_settled, watching)
from conftest import Programs
from server import Server, wait_until

pytestmark = pytest.mark.plain

KEY_A, KEY_B = "keyaaaaaaaaaaaaa", "keybbbbbbbbbbbbb"


def done(answer, status="succeeded"):
    """The response of a run that must have ended so."""
    assert answer.status == 200, answer.body[:2000]
    body = answer.json
    assert body["status"] == status, body
    assert UUID.fullmatch(body["run_id"])
    assert (body["result"]["error"] is None) == (status == "succeeded")
    return body


def error_of(answer, status, kind):
    """The message of the error that a run must have ended in."""
    result = done(answer, status)["result"]
    assert result["error"]["type"] == kind, result
    assert (result["columns"], result["rows"], result["row_count"], result["truncated"]) == ([], [], 0, False)
    return result["error"]["message"]


# ---- the right figures ----


def test_sql_groups(shared):
    counts, totals = Counter(), defaultdict(float)
    for order in read_csv(shared, "ecommerce", "orders"):
        counts[order["status"]] += 1
        totals[order["status"]] += float(order["total"])
    body = done(shared.sql("ecommerce", "SELECT status, count(*) AS n, sum(total) AS total FROM orders GROUP BY status ORDER BY status"))
    result = body["result"]
    assert result["columns"] == ["status", "n", "total"] and result["types"][:2] == ["VARCHAR", "BIGINT"]
    assert [row[:2] for row in result["rows"]] == [[status, counts[status]] for status in sorted(counts)]
    assert [row[2] for row in result["rows"]] == [pytest.approx(totals[status]) for status in sorted(counts)]
    assert (result["row_count"], result["truncated"], result["verdict"]) == (len(counts), False, "ok")
    assert (body["assistant_message"], body["thread_id"]) == ("Run submitted and executed.", None)
    assert {k: v for k, v in body["details"].items() if k != "timings_ms"} == {
        "dataset_id": "ecommerce", "query_mode": "sql", "plan_json": None, "python_code": None,
        "compiled_sql": "SELECT status, count(*) AS n, sum(total) AS total FROM orders GROUP BY status ORDER BY status"}
    timings = body["details"]["timings_ms"]
    assert set(timings) == {"queue", "load", "start", "execute", "kernel"} and 0 < timings["kernel"] <= timings["execute"]


def test_sql_joins(shared):
    items, names = read_csv(shared, "ecommerce", "order_items"), {p["product_id"]: p["name"] for p in read_csv(shared, "ecommerce", "inventory")}
    revenue = Counter()
    for item in items:
        revenue[item["product_id"]] += int(item["quantity"]) * float(item["price"])
    best = max(revenue, key=revenue.get)
    sql = ("SELECT i.name, sum(o.quantity * o.price) AS revenue FROM order_items o JOIN inventory i USING (product_id) "
           "GROUP BY i.product_id, i.name ORDER BY revenue DESC LIMIT 1")
    assert done(shared.sql("ecommerce", sql))["result"]["rows"] == [[names[best], pytest.approx(revenue[best])]]


@pytest.mark.parametrize("dataset_id, table", [("ecommerce", "orders"), ("ecommerce", "order_items"), ("ecommerce", "inventory"),
                                               ("support", "tickets"), ("sensors", "sensors"), ("transactions", "transactions")])
def test_every_bundled_table_is_whole(shared, dataset_id, table):
    rows = read_csv(shared, dataset_id, table)
    result = done(shared.sql(dataset_id, f"SELECT count(*) FROM {table}"))["result"]
    assert result["rows"] == [[len(rows)]]
    missing = {column: sum(row[column] == "" for row in rows) for column in rows[0]}
    counts = ", ".join(f'count(*) - count("{column}") AS "{column}"' for column in missing)
    result = done(shared.sql(dataset_id, f"SELECT {counts} FROM {table}"))["result"]
    assert dict(zip(result["columns"], result["rows"][0])) == missing


@pytest.mark.parametrize("sql", [
    "SELECT count(*) AS n FROM ecommerce.orders",
    'SELECT count(*) AS n FROM "ecommerce"."orders"',
    "SELECT count(*) AS n FROM ECOMMERCE . orders",
    "SELECT count(ecommerce.orders.order_id) AS n FROM ecommerce.orders",
])
def test_names_qualified_by_the_dataset(shared, sql):
    assert done(shared.sql("ecommerce", sql))["result"]["rows"] == [[len(read_csv(shared, "ecommerce", "orders"))]]


def test_plan(shared):
    counts = Counter(t["priority"] for t in read_csv(shared, "support", "tickets") if t["channel"] == "Phone")
    plan = {"dataset_id": "support", "table": "tickets",
            "select": [{"column": "priority"}, {"func": "count", "column": "*", "alias": "n"}],
            "filters": [{"column": "channel", "op": "=", "value": "Phone"}],
            "group_by": ["priority"], "order_by": [{"expr": "priority"}]}
    body = done(shared.post("/runs", run_body("support", plan=plan)))
    assert body["result"]["rows"] == [[priority, counts[priority]] for priority in sorted(counts)]
    assert body["details"]["query_mode"] == "plan" and body["details"]["plan_json"] == plan
    assert body["details"]["compiled_sql"].startswith('SELECT\n  "priority",\n  COUNT(*) AS "n"\nFROM "tickets"\n')


def test_python_on_frames(shared):
    spent = Counter()
    for t in read_csv(shared, "transactions", "transactions"):
        spent[t["category"]] += float(t["amount"])
    code = ("import pandas as pd\nprint(transactions.shape)\n"
            "result_df = transactions.groupby('category', as_index=False).amount.sum().sort_values('category')")
    body = done(shared.post("/runs", run_body("transactions", python=code)))
    result = body["result"]
    assert result["columns"] == ["category", "amount"]
    assert result["rows"] == [[category, pytest.approx(spent[category])] for category in sorted(spent)]
    assert result["stdout"] == f"{(1000, 6)}\n" and result["stderr"] == ""
    assert (body["details"]["query_mode"], body["details"]["python_code"], body["details"]["compiled_sql"]) == ("python", code, None)


def test_python_has_all_frames(shared):
    code = "result = {name: len(frame) for name, frame in sorted(dfs.items())}"
    result = done(shared.post("/runs", run_body("ecommerce", python=code)))["result"]
    assert result["rows"] == [[t, len(read_csv(shared, "ecommerce", t))] for t in ("inventory", "order_items", "orders")]


def test_truncated(shared):
    cut = done(shared.post("/runs", run_body("ecommerce", "SELECT order_id FROM orders ORDER BY order_id", max_rows=3)))["result"]
    assert (cut["rows"], cut["row_count"], cut["truncated"]) == ([[1], [2], [3]], 3, True)
    fits = done(shared.post("/runs", run_body("ecommerce", "SELECT order_id FROM orders LIMIT 3", max_rows=3)))["result"]
    assert (fits["row_count"], fits["truncated"]) == (3, False)
    default = done(shared.sql("ecommerce", "SELECT order_id FROM orders"))["result"]
    assert (default["row_count"], len(default["rows"]), default["truncated"]) == (200, 200, True)


def test_max_output_bytes(shared):
    sql = "SELECT repeat('x', 100) AS x FROM range(100)"
    result = done(shared.post("/runs", run_body("ecommerce", sql, max_output_bytes=2000)))["result"]
    assert result["truncated"] and 10 < result["row_count"] < 20
    code = "for i in range(1000): print('y' * 9)"
    printed = done(shared.post("/runs", run_body("ecommerce", python=code, max_output_bytes=2000)))["result"]
    assert printed["stdout_truncated"] and printed["stdout"].startswith("yyyyyyyyy\n") and len(printed["stdout"]) < 2500


# ---- what goes wrong ----


@pytest.mark.parametrize("sql, message", [
    ("DROP TABLE orders", "Only SELECT/WITH queries are allowed."),
    ("SELECT 1; SELECT 2", "Multiple SQL statements are not allowed."),
    ("SELECT * FROM read_csv('/etc/passwd')", "reading files is not allowed: read_csv()"),
    ("SELECT * FROM '/etc/passwd'", "reading files is not allowed"),
    ("COPY orders TO '/tmp/x'", "Only SELECT/WITH queries are allowed."),
])
def test_sql_policy(shared, sql, message):
    assert message in error_of(shared.sql("ecommerce", sql), "rejected", "SQL_POLICY_VIOLATION")


def test_words_in_texts_are_no_statements(shared):
    sql = "SELECT 'drop; delete' AS x /* insert; update */ -- attach"
    assert done(shared.sql("ecommerce", sql))["result"]["rows"] == [["drop; delete"]]


def test_sql_error(shared):
    message = error_of(shared.sql("ecommerce", "SELECT totl FROM orders"), "failed", "SQL_EXECUTION_ERROR")
    assert "totl" in message and "total" in message


def test_python_error_has_its_line(shared):
    answer = shared.post("/runs", run_body("ecommerce", python="x = 1\nprint('so far')\nx / 0"))
    assert error_of(answer, "failed", "PYTHON_EXECUTION_ERROR") == "ZeroDivisionError: division by zero (line 3)"
    assert answer.json["result"]["error"]["line"] == 3
    assert answer.json["result"]["stdout"] == "so far\n"


@pytest.mark.parametrize("code, message", [("import subprocess", "Blocked import: subprocess (line 1)"),
                                           ("x = 1\nopen('/etc/passwd')", "Blocked call: open (line 2)")])
def test_python_policy(shared, code, message):
    assert error_of(shared.post("/runs", run_body("ecommerce", python=code)), "rejected", "PYTHON_POLICY_VIOLATION") == message


def test_python_policy_open(shared):
    code = "import os\nresult = sorted(name for name in os.listdir('/data') if name.endswith('.csv'))"
    result = done(shared.post("/runs", run_body("ecommerce", python=code, python_policy="open")))["result"]
    assert result["rows"] == [["inventory.csv"], ["order_items.csv"], ["orders.csv"]]


@pytest.mark.parametrize("what, message", [
    ({"sql": FOREVER_SQL}, "Query exceeded timeout of 1 seconds"),
    ({"python": FOREVER_PYTHON}, "Python execution exceeded timeout of 1 seconds"),
])
def test_timeout(shared, what, message):
    answer = shared.post("/runs", run_body("ecommerce", **what, timeout_seconds=1))
    assert error_of(answer, "timed_out", "RUNNER_TIMEOUT") == message
    assert answer.json["result"]["verdict"] == "timeout"
    assert 900 < answer.json["details"]["timings_ms"]["execute"]


def test_memory_limit(shared):
    code = "x = [bytearray(1 << 20) for _ in range(3000)]\nresult = len(x)"
    message = error_of(shared.post("/runs", run_body("ecommerce", python=code, timeout_seconds=60)), "failed", "MEMORY_LIMIT")
    assert message.startswith("the run needed more than its memory limit of 512 MB")


def test_unknown_dataset(shared):
    assert refused(shared.sql("x", "SELECT 1"), 404, "NOT_FOUND") == "Unknown dataset_id: x"
    assert refused(shared.post("/runs/stream", run_body("x", "SELECT 1")), 404, "NOT_FOUND") == "Unknown dataset_id: x"


@pytest.mark.parametrize("body, message", [
    ({}, "sql is required for query_type=sql"),
    ({"query_type": "sql", "sql": ""}, "sql is required for query_type=sql"),
    ({"query_type": "sql", "sql": None, "python_code": "1"}, "sql is required for query_type=sql"),
    ({"query_type": "python", "sql": "SELECT 1"}, "python_code is required for query_type=python"),
    ({"query_type": "plan", "sql": "SELECT 1"}, "plan_json is required for query_type=plan"),
    ({"query_type": "plan", "plan_json": None}, "plan_json is required for query_type=plan"),
])
def test_what_is_missing(shared, body, message):
    for path in ("/runs", "/runs/stream"):
        assert refused(shared.post(path, {"dataset_id": "ecommerce", **body}), 400, "VALIDATION_ERROR") == message


def test_python_switched_off(tmp_path):
    server = Server(tmp_path, **QUICK, ENABLE_PYTHON_EXECUTION="false")
    make_set(server)
    with server:
        answer = server.post("/runs", run_body("shop", python="1"))
        assert error_of(answer, "rejected", "FEATURE_DISABLED") == "Python is switched off on this server (ENABLE_PYTHON_EXECUTION)"
        kept = server.get(f"/runs/{answer.json['run_id']}").json
        assert kept["status"] == "rejected" and kept["error_json"]["type"] == "FEATURE_DISABLED" and kept["python_code"] == "1"
        with watching(server, run_body("shop", python="1")) as watched:
            assert watched.until("result")["result"]["error"]["type"] == "FEATURE_DISABLED"
        assert done(server.sql("shop", "SELECT count(*) FROM sales"))["result"]["rows"] == [[3]]


# ---- what is kept ----


def test_capsule(shared):
    question = "How many orders are there? – größer"
    body = done(shared.post("/runs", run_body("ecommerce", "SELECT count(*) AS n FROM orders", question=question, max_rows=7,
                                              timeout_seconds=9)))
    capsule = shared.get(f"/runs/{body['run_id']}").json
    [summary] = [d for d in shared.get("/datasets").json["datasets"] if d["id"] == "ecommerce"]
    wanted = {"run_id": body["run_id"], "dataset_id": "ecommerce", "dataset_version_hash": summary["version_hash"],
              "question": question, "query_mode": "sql", "status": "succeeded", "verdict": "ok", "thread_id": None, "replay_of": None,
              "plan_json": None, "compiled_sql": "SELECT count(*) AS n FROM orders", "python_code": None, "error_json": None,
              "result_json": body["result"], "timings_json": body["details"]["timings_ms"],
              "exec_time_ms": body["result"]["exec_time_ms"]}
    assert {k: capsule[k] for k in wanted} == wanted
    assert capsule["limits_json"]["max_rows"] == 7 and capsule["limits_json"]["timeout_ms"] == 9000
    assert capsule["usage_json"]["peak_memory_bytes"] > 0
    assert capsule["created_at"].endswith("+00:00")
    assert status_of(shared, body["run_id"]) == "succeeded"


def test_capsule_of_a_failure(shared):
    body = done(shared.post("/runs", run_body("ecommerce", python="1/0")), "failed")
    capsule = shared.get(f"/runs/{body['run_id']}").json
    assert capsule["error_json"] == body["result"]["error"] and capsule["result_json"] == body["result"]
    assert (capsule["status"], capsule["verdict"], capsule["python_code"]) == ("failed", "error", "1/0")


def test_what_was_refused_is_not_kept(shared):
    before = shared.get("/runs?limit=1").json["runs"][0]["run_id"]
    refused(shared.post("/runs", {"dataset_id": "ecommerce"}), 400, "VALIDATION_ERROR")
    assert shared.get("/runs?limit=1").json["runs"][0]["run_id"] == before


def test_unknown_run(shared):
    unknown = "00000000-0000-4000-8000-000000000000"
    assert refused(shared.get(f"/runs/{unknown}"), 404, "NOT_FOUND") == "Run not found"
    assert shared.get(f"/runs/{unknown}/status").json == {"run_id": unknown, "status": "not_found"}
    assert refused(shared.delete(f"/runs/{unknown}"), 404, "NOT_FOUND") == "Run not found"
    assert shared.get("/runs/%27%3B%20DROP%20TABLE%20run_capsules/status").json["status"] == "not_found"


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """A server of its own, for lists that nobody else adds to, and room for one run at a time; the default key is a's."""
    server = Server(tmp_path_factory.mktemp("quick"), **QUICK, RIDDLE_API_KEYS=f"a:{KEY_A},b:{KEY_B}", RIDDLE_MAX_KERNELS=1,
                    RIDDLE_QUEUE=4)
    make_set(server)
    server.key = KEY_A
    with server:
        wait_until_settled(server)
        yield server


def walk(server, query):
    """The ids of all pages."""
    ids, cursor = [], ""
    for _ in range(100):
        page = server.get(f"/runs?{query}{cursor}").json
        ids += [run["run_id"] for run in page["runs"]]
        if page["next"] is None:
            return ids
        assert page["runs"], "a page with a next one is not empty"
        cursor = f"&cursor={page['next']}"
    raise AssertionError("the pages do not end")


def test_list(quick):
    made = {"succeeded": [], "failed": [], "rejected": []}
    for i in range(4):
        made["succeeded"].append(done(quick.post("/runs", run_body("shop", f"SELECT {i} AS i", question=f"number {i}")))["run_id"])
        made["failed"].append(done(quick.post("/runs", run_body("shop", python="1/0")), "failed")["run_id"])
        made["rejected"].append(done(quick.sql("shop", "DROP TABLE sales"), "rejected")["run_id"])
    newest_first = [run_id for three in reversed(list(zip(*made.values()))) for run_id in reversed(three)]
    for limit in (1, 5, 12, 200):
        assert walk(quick, f"limit={limit}") == newest_first
    for status, ids in made.items():
        assert walk(quick, f"status={status}&limit=3") == ids[::-1]
    assert walk(quick, "query_mode=python") == made["failed"][::-1]
    assert walk(quick, "dataset_id=shop&query_mode=sql&status=rejected") == made["rejected"][::-1]
    assert walk(quick, "dataset_id=other") == []
    runs = quick.get("/runs?status=succeeded").json["runs"]
    assert [run["question"] for run in runs] == [f"number {i}" for i in (3, 2, 1, 0)]
    assert "result_json" not in runs[0] and "compiled_sql" not in runs[0]
    middle = runs[1]["created_at"].replace("+", "%2B")
    assert set(walk(quick, f"since={middle}")) | set(walk(quick, f"until={middle}")) == set(newest_first)
    assert not set(walk(quick, f"since={middle}")) & set(walk(quick, f"until={middle}"))
    assert walk(quick, "until=2020-01-01") == [] and walk(quick, "since=2020-01-01") == newest_first


def test_paging_while_runs_arrive(quick):
    before = walk(quick, "limit=200")
    seen, cursor = [], ""
    while True:
        page = quick.get(f"/runs?limit=3{cursor}").json
        seen += [run["run_id"] for run in page["runs"]]
        done(quick.sql("shop", "SELECT 1 AS one"))
        if not page["next"]:
            break
        cursor = f"&cursor={page['next']}"
    assert seen == before


def test_bad_cursor(quick):
    assert refused(quick.get("/runs?cursor=nonsense"), 400, "VALIDATION_ERROR") == "cursor is not one that a list of runs gave"


# ---- cancelling ----


@pytest.mark.parametrize("what", [{"sql": FOREVER_SQL}, {"python": FOREVER_PYTHON}])
def test_cancel(shared, what):
    with watching(shared, run_body("ecommerce", **what, timeout_seconds=60)) as watched:
        watched.executing()
        assert status_of(shared, watched.run_id) == "running"
        answer = shared.delete(f"/runs/{watched.run_id}")
        assert (answer.status, answer.json) == (202, {"run_id": watched.run_id, "status": "cancelling"})
        result = watched.until("result")
        assert result["status"] == "cancelled"
        assert result["result"]["error"] == {"type": "CANCELLED", "message": "The run was cancelled"}
    assert status_of(shared, watched.run_id) == "cancelled"
    assert shared.get(f"/runs/{watched.run_id}").json["verdict"] == "killed"
    assert refused(shared.delete(f"/runs/{watched.run_id}"), 409, "CONFLICT") == "This run has already ended: cancelled"


def test_cancel_of_an_ended_run(shared):
    run_id = done(shared.sql("ecommerce", "SELECT 1 AS one"))["run_id"]
    assert refused(shared.delete(f"/runs/{run_id}"), 409, "CONFLICT") == "This run has already ended: succeeded"
    assert status_of(shared, run_id) == "succeeded"


def test_cancel_stops_only_what_is_named(shared):
    body = run_body("ecommerce", FOREVER_SQL, timeout_seconds=60)
    with watching(shared, body) as one, watching(shared, body) as other:
        one.executing()
        other.executing()
        shared.delete(f"/runs/{one.run_id}")
        assert one.until("result")["status"] == "cancelled"
        assert status_of(shared, other.run_id) == "running"
        shared.delete(f"/runs/{other.run_id}")
        assert other.until("result")["status"] == "cancelled"


def test_cancel_at_any_moment(shared):
    """Also while the kernel still attaches its tables: a cancelled run is cancelled, and kept."""
    for _ in range(12):
        with watching(shared, run_body("ecommerce", FOREVER_SQL, timeout_seconds=60)) as watched:
            watched.executing()
            assert shared.delete(f"/runs/{watched.run_id}").status == 202
            assert watched.until("result")["status"] == "cancelled"
        assert shared.get(f"/runs/{watched.run_id}").json["status"] == "cancelled"


# ---- streams ----


def test_stream_order(shared):
    assert shared.sql("ecommerce", "SELECT 1").status == 200  # its tables are there: no stage "loading"
    code = "import sys\nprint('out')\nprint('err', file=sys.stderr)\nresult = 42"
    with watching(shared, run_body("ecommerce", python=code, python_policy="open")) as watched:
        events = list(watched.events)
    names = [name for name, _ in events]
    assert names[0] == "status" and events[0][1]["stage"] == "executing"
    assert names[-2:] == ["result", "done"] and set(names[1:-2]) == {"step"}
    steps = [(data["stream"], data["text"]) for name, data in events if name == "step"]
    assert sorted(steps) == [("stderr", "err\n"), ("stdout", "out\n")]
    result, end = events[-2][1], events[-1][1]
    assert result["result"]["rows"] == [[42]] and result["result"]["stdout"] == "out\n"
    assert result["run_id"] == end["run_id"] == watched.run_id
    assert all(data["type"] == name for name, data in events)
    kept = shared.get(f"/runs/{watched.run_id}").json
    assert kept["result_json"] == result["result"]


def test_stream_says_what_a_plain_run_says(shared):
    body = run_body("ecommerce", "SELECT status, count(*) AS n FROM orders GROUP BY status ORDER BY n")
    with watching(shared, body) as watched:
        streamed = watched.until("result")
    plain = done(shared.post("/runs", body))
    assert set(streamed) - {"type"} == set(plain)
    assert [streamed["result"][k] for k in ("columns", "types", "rows")] == [plain["result"][k] for k in ("columns", "types", "rows")]


def test_output_is_live(shared):
    with watching(shared, run_body("ecommerce", python=FOREVER_PYTHON, timeout_seconds=60)) as watched:
        assert watched.until("step") == {"type": "step", "stream": "stdout", "text": "begun\n"}
        assert status_of(shared, watched.run_id) == "running"  # it was said while the code still runs
        shared.delete(f"/runs/{watched.run_id}")
        assert watched.until("result")["result"]["stdout"] == "begun\n"
        assert watched.until("done") == {"type": "done", "run_id": watched.run_id}


def test_stream_of_a_plot(shared):
    code = "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\nplt.show()"
    with watching(shared, run_body("ecommerce", python=code, timeout_seconds=60)) as watched:
        image = watched.until("image")
        result = watched.until("result")
    assert result["status"] == "succeeded" and len(result["result"]["outputs"]) == 1
    assert base64.b64decode(image["png"]).startswith(b"\x89PNG\r\n")


def test_failure_in_a_stream(shared):
    with watching(shared, run_body("ecommerce", python="1/0")) as watched:
        result = watched.until("result")
        assert (result["status"], result["result"]["error"]["line"]) == ("failed", 1)
        watched.until("done")


def test_a_client_that_leaves_a_stream_cancels_the_run(shared):
    with watching(shared, run_body("ecommerce", python=FOREVER_PYTHON, timeout_seconds=60)) as watched:
        watched.until("step")
    wait_for_status(shared, watched.run_id, "cancelled")
    wait_for_metric(shared, 0, "riddle_http_event_streams")


def test_a_client_that_leaves_cancels_the_run(quick):
    connection = quick.connect()
    body = run_body("shop", FOREVER_SQL, question="left alone", timeout_seconds=60)
    connection.request("POST", "/runs", json.dumps(body), quick.headers({"Content-Type": "application/json"}))
    wait_for_metric(quick, 1, "riddle_kernels", state="running")
    connection.close()
    wait_for_metric(quick, 0, "riddle_kernels", state="running")
    wait_until(lambda: quick.get("/runs?limit=1").json["runs"][0]["question"] == "left alone", "the run is kept")
    [run] = quick.get("/runs?limit=1").json["runs"]
    assert (run["status"], run["verdict"]) == ("cancelled", "killed")


# ---- admission: one run at a time, four may wait ----


def fill(server, bodies):
    """Posts them one after the other, each only when the one before is in the queue."""
    calls = []
    for i, (body, key) in enumerate(bodies):
        calls.append(Background(server.post, "/runs", body, key=key))
        wait_for_metric(server, i + 1, "riddle_queue_depth")
    return calls


def start_of(server, answer):
    """When a run left the queue, in seconds: runs of one place cannot start together."""
    body = done(answer)
    created = server.get(f"/runs/{body['run_id']}", key=KEY_B if body["result"]["rows"][0][0].startswith("b") else KEY_A).json["created_at"]
    return body["result"]["rows"][0][0], datetime.datetime.fromisoformat(created).timestamp() + body["details"]["timings_ms"]["queue"] / 1000


def test_queue_full(quick):
    with watching(quick, run_body("shop", FOREVER_SQL, timeout_seconds=60)) as gate:
        gate.executing()
        calls = fill(quick, [(run_body("shop", f"SELECT {i} AS i"), KEY_A) for i in range(4)])
        refusals = metric(quick, "riddle_runs_refused_total")
        for path in ("/runs", "/runs/stream"):
            busy = quick.post(path, run_body("shop", "SELECT 9 AS i"))
            assert refused(busy, 503, "UNAVAILABLE") == "the server is busy: 4 runs of yours are waiting; try again soon"
            assert busy.headers["retry-after"] == "1"
        assert metric(quick, "riddle_runs_refused_total") == refusals + 2
        assert quick.get("/healthz").status == 200
        others = Background(quick.post, "/runs", run_body("shop", "SELECT 4 AS i"), key=KEY_B)  # a's queue is full, not b's
        wait_for_metric(quick, 5, "riddle_queue_depth")
        quick.delete(f"/runs/{gate.run_id}")
        assert [call.result().json["result"]["rows"] for call in [*calls, others]] == [[[i]] for i in range(5)]
    assert done(quick.sql("shop", "SELECT 1 AS one"))


def test_owners_take_turns(quick):
    with watching(quick, run_body("shop", FOREVER_SQL, timeout_seconds=60)) as gate:
        gate.executing()
        order = [("a1", KEY_A), ("a2", KEY_A), ("a3", KEY_A), ("b1", KEY_B)]
        # Long enough that the order of two starts shows in milliseconds.
        calls = fill(quick, [(run_body("shop", f"SELECT '{name}' AS i, count(*) AS n FROM range(50000000)"), key) for name, key in order])
        quick.delete(f"/runs/{gate.run_id}")
        answers = [call.result() for call in calls]
    # b came last, and its turn came before a's second, which came before it.
    started = dict(start_of(quick, answer) for answer in answers)
    assert started["b1"] < started["a2"] + 0.002  # created_at has milliseconds
    assert started["a1"] < started["a2"] + 0.002 and started["a2"] < started["a3"] + 0.002


def test_sql_does_not_wait_for_python(quick):
    with watching(quick, run_body("shop", python=FOREVER_PYTHON, timeout_seconds=60)) as gate:
        gate.executing()
        with watching(quick, run_body("shop", python="result = 1")) as second:  # the one place of Python is taken
            assert done(quick.sql("shop", "SELECT 1 AS one"))["result"]["rows"] == [[1]]
            assert status_of(quick, gate.run_id) == "running" and status_of(quick, second.run_id) == "queued"
            quick.delete(f"/runs/{gate.run_id}")
            assert second.until("result")["status"] == "succeeded"


def test_one_owner_with_many_runs_does_not_starve_another(tmp_path):
    server = Server(tmp_path, **QUICK, RIDDLE_API_KEYS=f"a:{KEY_A},b:{KEY_B}", RIDDLE_MAX_KERNELS=2, RIDDLE_QUEUE=64)
    make_set(server)
    server.key = KEY_A
    with server:
        wait_until_settled(server)
        with watching(server, run_body("shop", FOREVER_SQL, timeout_seconds=60)) as one, \
             watching(server, run_body("shop", FOREVER_SQL, timeout_seconds=60)) as two:
            one.executing(), two.executing()
            calls = [Background(server.sql, "shop", f"SELECT {i} AS i, count(*) AS n FROM range(20000000)") for i in range(64)]
            wait_for_metric(server, 64, "riddle_queue_depth")
            other = Background(server.post, "/runs", run_body("shop", "SELECT 1 AS one"), key=KEY_B)
            wait_for_metric(server, 65, "riddle_queue_depth")
            server.delete(f"/runs/{one.run_id}")
            assert done(other.result())["result"]["rows"] == [[1]]
            assert metric(server, "riddle_queue_depth") >= 48, "b's run waited for a's"
            for gate in (one, two):
                server.delete(f"/runs/{gate.run_id}")
        assert sorted(done(call.result())["result"]["rows"][0][0] for call in calls) == list(range(64))


def test_a_queued_run_can_be_cancelled(quick):
    with watching(quick, run_body("shop", FOREVER_SQL, timeout_seconds=60)) as gate:
        gate.executing()
        with watching(quick, run_body("shop", "SELECT 1 AS one")) as queued:
            assert status_of(quick, queued.run_id) == "queued"
            assert quick.delete(f"/runs/{queued.run_id}").status == 202
            assert queued.until("result")["status"] == "cancelled"  # though nothing has become free
        assert status_of(quick, gate.run_id) == "running" and status_of(quick, queued.run_id) == "cancelled"
        assert metric(quick, "riddle_queue_depth") == 0
        quick.delete(f"/runs/{gate.run_id}")
        gate.until("done")


def test_a_client_that_leaves_the_queue_leaves_its_place(quick):
    with watching(quick, run_body("shop", FOREVER_SQL, timeout_seconds=60)) as gate:
        gate.executing()
        with watching(quick, run_body("shop", "SELECT 1 AS one")) as queued:
            assert metric(quick, "riddle_queue_depth") == 1
        wait_for_metric(quick, 0, "riddle_queue_depth")
        assert status_of(quick, queued.run_id) == "not_found"  # nothing ran
        quick.delete(f"/runs/{gate.run_id}")
        gate.until("done")


def test_many_clients_at_once(shared):
    calls = [Background(shared.sql, "ecommerce", f"SELECT {i} AS i, count(*) AS n FROM orders") for i in range(24)]
    n = len(read_csv(shared, "ecommerce", "orders"))
    assert [done(call.result())["result"]["rows"] for call in calls] == [[[i, n]] for i in range(24)]


# ---- replay ----


def test_replay(quick, tmp_path):
    """The store holds what is needed to run it again; `riddle replay` needs no server, and none in its way."""
    programs = Programs(quick.home, tmp_path)
    settings = {"DATASETS_DIR": str(quick.datasets), "RIDDLE_PRELOAD": ""}
    make_set(quick, "other", numbers="n\n1\n2\n3\n")
    wait_until(lambda: "other" in [d["id"] for d in quick.get("/datasets").json["datasets"]], "the folder is seen")
    sql = done(quick.sql("other", "SELECT sum(n) AS s FROM numbers"))["run_id"]
    python = done(quick.post("/runs", run_body("other", python="1/0")), "failed")["run_id"]

    same = programs.riddle("replay", sql, env=settings)
    assert (same.status, same.text) == (0, f"{sql}: equal\n"), same.err
    again = programs.riddle("replay", "--json", python, env=settings)
    assert again.status == 0 and json.loads(again.text) == {"run_id": python, "equal": True, "same_data": True, "verdict": "error",
                                                            "difference": ""}
    (quick.datasets / "other" / "numbers.csv").write_text("n\n1\n2\n4\n")
    other = programs.riddle("replay", sql, env=settings)
    assert (other.status, other.text) == (1, f"{sql}: the rows differ (the dataset has changed since)\n")

    unknown = programs.riddle("replay", "00000000-0000-4000-8000-000000000000", env=settings)
    assert unknown.status == 1 and unknown.text == ""
    assert unknown.err == f"riddle: run '00000000-0000-4000-8000-000000000000' not found in the store of {quick.home} (RIDDLE_HOME)\n"
    elsewhere = programs.riddle("replay", sql, env={"RIDDLE_PRELOAD": "", "DATASETS_DIR": "sets"})
    assert elsewhere.status == 1
    assert elsewhere.err == f"riddle: the dataset 'other' of this run is neither in {tmp_path}/sets (DATASETS_DIR) nor an upload\n"
    assert quick.get("/healthz").status == 200
