"""CSV Analyst Chat: what its page, its tests and its users' scripts send, and what they read from the answers."""

import json
import re

import pytest

UUID4 = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
COUNT_PLAN = {"dataset_id": "ecommerce", "table": "orders", "select": [{"func": "count", "column": "order_id", "alias": "n"}]}
SETTINGS = {"LOG_LEVEL": "debug"}


def run(server, dataset_id="ecommerce", **body):
    return server.post("/runs", {"dataset_id": dataset_id, **body})


def chat(server, message, dataset_id="ecommerce", **more):
    answer = server.post("/chat", {"dataset_id": dataset_id, "message": message, **more})
    assert answer.status == 200, answer.body
    return answer.json


def stream(server, message, dataset_id="ecommerce", **more):
    """(name, data) of each event, read in blocks as the page does: an event has its name in a line of its own."""
    body = json.dumps({"dataset_id": dataset_id, "message": message, **more})
    answer = server.call("POST", "/chat/stream", body, {"Content-Type": "application/json"})
    assert answer.status == 200 and answer.headers["content-type"].startswith("text/event-stream")
    events = []
    for block in answer.body.decode().split("\n\n"):
        name = re.search(r"^event: (\w+)$", block, re.M)
        data = re.search(r"^data: (.*)$", block, re.M)
        if name and data:
            events.append((name[1], json.loads(data[1])))
    return events


def missing(answer, detail, status=404):
    assert (answer.status, answer.json["detail"]) == (status, detail)


# ---- data sets ----


def test_healthz(server):
    answer = server.get("/healthz")
    assert (answer.status, answer.json) == (200, {"status": "ok"})


def test_datasets(server):
    listed = {d["id"]: d for d in server.get("/datasets").json["datasets"]}
    assert {"ecommerce", "support", "sensors"} <= set(listed)
    for one in listed.values():
        assert {"id", "name", "description", "prompts", "version_hash"} <= set(one)
    assert len(listed["support"]["prompts"]) == 6 and listed["support"]["version_hash"].startswith("sha256:")


def test_schema(server):
    schema = server.get("/datasets/ecommerce/schema").json
    assert (schema["id"], [f["name"] for f in schema["files"]]) == ("ecommerce", ["orders.csv", "order_items.csv", "inventory.csv"])
    orders = schema["files"][0]
    assert orders["schema"]["status"]["type"] and len(orders["sample_rows"]) == 3
    assert all(isinstance(v, str) for row in orders["sample_rows"] for v in row.values())
    missing(server.get("/datasets/nope/schema"), "Dataset not found")


@pytest.mark.parametrize("dataset,table,rows", [("ecommerce", "orders", 4018), ("ecommerce", "order_items", 9008), ("ecommerce", "inventory", 500),
                                                ("support", "tickets", 6417), ("sensors", "sensors", 49950)])
def test_rows_of_the_three_sets(server, dataset, table, rows):
    assert run(server, dataset, sql=f"SELECT COUNT(*) AS n FROM {table}").json["result"]["rows"] == [[rows]]


# ---- runs ----


def test_run_answers_as_a_chat_does(server):
    body = run(server, sql="SELECT status, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY n DESC").json
    assert body["assistant_message"] == "Run submitted and executed." and body["thread_id"] is None
    assert re.fullmatch(UUID4, body["run_id"]) and body["status"] == "succeeded"
    result = body["result"]
    assert (result["columns"], result["row_count"], result["error"]) == (["status", "n"], 3, None)
    assert result["rows"] == [["completed", 2470], ["returned", 1416], ["cancelled", 132]]
    details = body["details"]
    assert (details["dataset_id"], details["query_mode"], details["plan_json"], details["python_code"]) == ("ecommerce", "sql", None, None)


def test_values_as_the_runner_writes_them(server):
    """json.dumps(rows, default=str): times after a blank, decimals as text with their digits."""
    sql = "SELECT created_at, CAST(1.5 AS DECIMAL(4,2)) AS d, DATE '2025-08-01' AS day FROM tickets ORDER BY 1 LIMIT 1"
    (row,) = run(server, "support", query_type="sql", sql=sql).json["result"]["rows"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", row[0]) and row[1:] == ["1.50", "2025-08-01"]
    code = "result_df = pd.DataFrame({'t': tickets['created_at'].astype('datetime64[ns]').sort_values().head(1)})"
    assert run(server, "support", query_type="python", python_code=code).json["result"]["rows"] == [[row[0]]]


def test_compiled_sql_names_tables_without_the_data_set(server):
    sql = "SELECT count(*) FROM support.tickets WHERE 'support.tickets' <> ''"
    plain = "SELECT count(*) FROM tickets WHERE 'support.tickets' <> ''"
    answer = run(server, "support", query_type="sql", sql=sql).json
    assert (answer["status"], answer["details"]["compiled_sql"]) == ("succeeded", plain)
    assert server.get(f"/runs/{answer['run_id']}").json["compiled_sql"] == plain
    assert chat(server, "SQL: " + sql, "support")["details"]["compiled_sql"] == plain


def test_run_python_and_plan(server):
    body = run(server, query_type="python", python_code="result = len(orders)").json
    assert (body["status"], body["details"]["query_mode"], body["result"]["rows"]) == ("succeeded", "python", [[4018]])
    body = run(server, query_type="plan", plan_json=COUNT_PLAN).json
    assert (body["status"], body["result"]["rows"]) == ("succeeded", [[4018]])
    assert body["details"]["compiled_sql"] == 'SELECT\n  COUNT("order_id") AS "n"\nFROM "orders"\nLIMIT 200'


def test_run_says_what_is_missing(server):
    missing(run(server), "sql is required for query_type=sql", 400)
    missing(run(server, query_type="python"), "python_code is required for query_type=python", 400)
    missing(run(server, query_type="plan"), "plan_json is required for query_type=plan", 400)
    assert "Unknown dataset_id: x" in run(server, "x", sql="SELECT 1").json["detail"]


def test_capsule(server):
    body = run(server, sql="SELECT 1 AS one").json
    capsule = server.get("/runs/" + body["run_id"]).json
    assert {"run_id", "created_at", "dataset_id", "dataset_version_hash", "question", "query_mode", "plan_json", "compiled_sql",
            "python_code", "status", "result_json", "error_json", "exec_time_ms"} <= set(capsule)
    assert capsule["result_json"]["rows"] == [[1]]
    assert server.get(f"/runs/{body['run_id']}/status").json == {"run_id": body["run_id"], "status": "succeeded"}
    missing(server.get("/runs/none"), "Run not found")
    answer = server.get("/runs/none/status")
    assert (answer.status, answer.json) == (200, {"run_id": "none", "status": "not_found"})


# ---- fields that the seed did not know, and wrong ones ----


def test_unknown_fields_are_ignored_and_named_in_the_log(server):
    newest = {"dataset_id": "ecommerce", "message": "SQL: SELECT 1 AS one", "user_id": "visitor-1", "thread_id": "thread-of-the-page"}
    answer = server.post("/chat", newest)
    assert (answer.status, answer.json["result"]["rows"]) == (200, [[1]])
    assert [name for name, _ in stream(server, "SQL: SELECT 1", user_id="visitor-1")][-1] == "done"
    assert run(server, sql="SELECT 1", user_id="u", trace={"a": [1]}).json["status"] == "succeeded"
    plan = {**COUNT_PLAN, "confidence": 0.9, "select": [{**COUNT_PLAN["select"][0], "why": "x"}],
            "filters": [{"column": "status", "op": "=", "value": "completed", "note": 1}], "order_by": [{"expr": "n", "rank": 1}]}
    body = run(server, query_type="plan", plan_json=plan).json
    assert (body["status"], body["result"]["rows"]) == ("succeeded", [[2470]])
    log = server.log.read_text()
    assert len(re.findall(r"http\.ignored.*path=/chat fields=user_id\b", log)) == 1
    assert re.search(r"http\.ignored.*fields=\"user_id trace\"", log) and re.search(r"plan\.ignored.*fields=\"confidence why note rank\"", log)


@pytest.mark.parametrize("path,body,loc,kind", [
    ("/chat", {"message": "Hi", "dataset_id": 7}, ["body", "dataset_id"], "string_type"),
    ("/runs", {"sql": "SELECT 1"}, ["body", "dataset_id"], "missing"),
    ("/runs", {"dataset_id": "ecommerce", "query_type": "perl"}, ["body", "query_type"], "literal_error"),
    ("/runs", {"dataset_id": "ecommerce", "sql": ["SELECT 1"]}, ["body", "sql"], "string_type"),
    ("/runs", [], ["body"], "model_attributes_type"),
])
def test_wrong_types_answer_as_fastapi(server, path, body, loc, kind):
    answer = server.post(path, body)
    assert answer.status == 422
    (fault,) = answer.json["detail"]
    assert (fault["loc"], fault["type"]) == (loc, kind) and fault["msg"] == answer.json["error"]["message"]
    assert answer.json["error"]["type"] == "VALIDATION_ERROR"


# ---- policy ----


@pytest.mark.parametrize("sql,message", [("DROP TABLE orders", "Only SELECT/WITH queries are allowed."),
                                         ("SELECT 1; SELECT 2", "Multiple SQL statements are not allowed."),
                                         ("SELECT * FROM read_csv('/etc/passwd')", ""), ("SELECT * FROM '/etc/passwd'", "")])
def test_sql_policy(server, sql, message):
    body = run(server, sql=sql).json
    assert (body["status"], body["result"]["error"]["type"]) == ("rejected", "SQL_POLICY_VIOLATION")
    assert body["result"]["error"]["message"].startswith(message)


@pytest.mark.parametrize("sql", ["SELECT 1;", "WITH a AS (SELECT 1 AS x) SELECT x FROM a", "SELECT created_at FROM tickets LIMIT 1",
                                 "SELECT count(*) FROM tickets WHERE category = 'drop table'", "SELECT count(*) FROM support.tickets",
                                 'SELECT count(*) FROM "support".tickets'])
def test_sql_that_passes(server, sql):
    assert run(server, "support", sql=sql).json["status"] == "succeeded"


# ---- chat ----


def test_chat_in_plain_english(server):
    body = chat(server, "How many orders are there?")
    assert body["status"] == "succeeded" and body["result"]["rows"] == [[4018]]
    assert re.fullmatch("thread-" + UUID4, body["thread_id"])
    assert {"assistant_message", "run_id", "thread_id", "status", "result", "details"} <= set(body)


def test_chat_prefixes(server):
    assert chat(server, "  sql:  SELECT count(*) AS n FROM inventory")["result"]["rows"] == [[500]]
    body = chat(server, "Python: result_df = orders.groupby('status').size().reset_index(name='n')")
    assert (body["details"]["query_mode"], body["result"]["columns"]) == ("python", ["status", "n"])


def test_threads(server):
    body = chat(server, "SQL: SELECT 1", thread_id="thread-made-by-the-page")
    assert body["thread_id"] == "thread-made-by-the-page"
    chat(server, "SQL: SELECT count(*) FROM tickets", "support", thread_id="thread-made-by-the-page")
    messages = server.get("/threads/thread-made-by-the-page/messages").json["messages"]
    assert [(m["role"], m["dataset_id"]) for m in messages] == [("user", "ecommerce"), ("assistant", "ecommerce"), ("user", "support"),
                                                                ("assistant", "support")]
    assert {"id", "thread_id", "created_at", "dataset_id", "role", "content", "run_id", "metadata"} <= set(messages[0])
    newest = server.get("/threads/thread-made-by-the-page/messages?limit=1").json["messages"]
    assert [m["id"] for m in newest] == [messages[-1]["id"]]


def test_stream(server):
    events = stream(server, "SQL: SELECT 7 AS seven")
    names = [name for name, _ in events]
    assert names[0] == "status" and names[-2:] == ["result", "done"]
    result, done = events[-2][1], events[-1][1]
    assert result["result"]["rows"] == [[7]] and done["run_id"] == result["run_id"]


def test_pages_of_messages(server):
    for i in range(105):
        chat(server, f"SQL: SELECT {i} AS i", thread_id="thread-long")
    def ids(query):
        return [m["id"] for m in server.get("/threads/thread-long/messages" + query).json["messages"]]
    every = ids("?limit=1000")
    assert len(every) == 200 and every == sorted(every)
    assert ids("") == every[-50:] and ids("?limit=0") == every[-1:] and ids("?limit=7") == every[-7:]


def test_time_that_runs_out(server):
    body = run(server, query_type="python", python_code="while True: pass", timeout_seconds=1).json
    assert (body["status"], body["result"]["error"]["type"]) == ("timed_out", "RUNNER_TIMEOUT")


@pytest.mark.parametrize("plan,words", [
    ({**COUNT_PLAN, "table": "nope"}, "nope"),
    ({**COUNT_PLAN, "limit": 0}, "limit"),
    ({**COUNT_PLAN, "select": []}, "Select list cannot be empty if provided"),
    ({**COUNT_PLAN, "filters": [{"column": "status", "op": "~", "value": 1}]}, "filters[0]"),
    ({**COUNT_PLAN, "filters": [{"column": "status", "op": "between", "value": 1}]}, "filters[0]"),
])
def test_plans_that_are_refused_name_the_place(server, plan, words):
    answer = run(server, query_type="plan", plan_json=plan)
    assert words in json.dumps(answer.json) and (answer.status in (400, 422) or answer.json["status"] == "rejected"), answer.body


# ---- the page ----


def test_page(server):
    answer = server.get("/", headers={"Accept": "text/html,*/*"})
    assert answer.status == 200 and answer.headers["content-type"].startswith("text/html")
    assert server.get("/metrics").status == 200


def test_unknown_table_is_a_failure_not_a_refusal(server):
    answer = server.post("/runs", {"dataset_id": "support", "sql": "SELECT * FROM nope"}).json
    assert answer["status"] == "failed" and answer["result"]["error"]["type"] == "SQL_EXECUTION_ERROR"
    assert "tickets" in answer["result"]["error"]["message"]
