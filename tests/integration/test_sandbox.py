"""/sandbox: code of other people's agents, on terms of its own, in a thread without a conversation."""

import json
import re
import threading

import pytest

from api import UUID, refused
from server import Server, read_events, wait_until
from test_chat import KEYS, SALES

pytestmark = pytest.mark.plain

ANSWER = {"execution_id", "sandbox_id", "status", "result", "stdout", "stderr", "error", "execution_time", "debug_info", "timestamp"}
MODULES = ("json datetime math random collections itertools functools operator re string uuid hashlib base64 urllib.parse typing "
           "dataclasses enum asyncio pandas numpy requests aiohttp").split()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    directory = tmp_path_factory.mktemp("sandbox")
    (directory / "datasets" / "sales").mkdir(parents=True)
    (directory / "datasets" / "sales" / "sales.csv").write_text(SALES)
    with Server(directory, RIDDLE_PRELOAD="numpy,pandas", RATE_LIMIT_MAX=0, RIDDLE_SANDBOXES=8, **KEYS) as s:
        s.key = "ann-key-0123456789"
        yield s


@pytest.fixture(autouse=True)
def clean(server):
    yield
    server.post("/sandbox/cleanup-all", {})


def create(server, **terms):
    answer = server.post("/sandbox/create", terms)
    assert answer.status == 200, answer.body
    made = answer.json
    assert made["status"] == "created" and made["message"] == "Sandbox created successfully"
    return made["sandbox_id"]


def put(server, path, content):
    return server.call("PUT", path, content, {"Content-Type": "application/octet-stream"})


def execute(server, sandbox, code, **more):
    answer = server.post(f"/sandbox/{sandbox}/execute", {"code": code, **more})
    assert answer.status == 200, answer.body
    done = answer.json
    assert ANSWER <= set(done) and done["sandbox_id"] == sandbox and UUID.fullmatch(done["execution_id"])
    return done


def result_of(server, sandbox, code, **more):
    done = execute(server, sandbox, code, **more)
    assert done["status"] == "completed" and done["error"] is None, done
    return done["result"]


# ---- life ----


def test_a_sandbox_has_terms_state_and_a_history(server):
    made = server.post("/sandbox/create", {}).json
    config, sandbox = made["data"]["config"], made["sandbox_id"]
    assert config["provider"] == "local" and config["allowed_modules"] == MODULES and config["policy"] == "restricted" and config["enable_debugging"] is True
    assert {k: v for k, v in config.items() if k.startswith("max_")} == {
        "max_execution_time": 30, "max_memory_mb": 256, "max_cpu_percent": 50, "max_open_files": 100, "max_threads": 10}

    first = execute(server, sandbox, "x = [1, 2]\n_hidden = 1\nprint('said')\n__result__ = {'n': len(x), 'nan': float('nan')}")
    assert (first["status"], first["result"], first["stdout"], first["stderr"]) == ("completed", {"n": 2, "nan": None}, "said\n", "")
    assert 0 < first["execution_time"] < 30 and re.match(r"\d{4}-\d\d-\d\dT", first["timestamp"])
    second = execute(server, sandbox, "x.append(y)\nsum(x)", context={"y": 40})
    assert second["result"] == 43 and second["stdout"] == "", "output of one execution is not that of the next"
    assert execute(server, sandbox, "1 / 0")["error"] == "Execution error: ZeroDivisionError: division by zero (line 1)"
    assert first["execution_id"] != second["execution_id"]

    status = server.get(f"/sandbox/{sandbox}/status").json
    assert (status["sandbox_id"], status["status"], status["message"]) == (sandbox, "active", "Sandbox state retrieved successfully")
    state = status["data"]
    assert state["variables"] == {"x": "[1, 2, 40]", "y": "40"} and {"x", "debug"} <= set(state["globals"])
    assert state["status"] == "failed" and state["kernel"] == "hot" and state["query_log"] == [] and state["config"] == config

    history = server.get(f"/sandbox/{sandbox}/history").json
    assert history["sandbox_id"] == sandbox and history["total_executions"] == 3
    assert [h["status"] for h in history["history"]] == ["failed", "completed", "completed"], "the newest first"
    assert [h["has_result"] for h in history["history"]] == [False, True, True]
    assert history["history"][-1]["execution_id"] == first["execution_id"] and "division" in history["history"][0]["error"]
    capsule = server.get(f"/runs/{first['execution_id']}").json
    assert capsule["thread_id"] == sandbox and capsule["python_code"].startswith("x = [1, 2]")

    assert sandbox not in server.get("/threads").json["threads"], "it is no conversation"
    refused(server.post(f"/thread/{sandbox}/message", {"message": "hello"}), 409, "CONFLICT")

    gone = server.call("DELETE", f"/sandbox/{sandbox}")
    assert gone.json == {"message": f"Sandbox {sandbox} cleaned up successfully"}
    for method, path in (("GET", "status"), ("GET", "history"), ("POST", "execute"), ("POST", "interrupt"), ("GET", "files/a"),
                         ("GET", "help/functions"), ("DELETE", "")):
        body = {"code": "1"} if path == "execute" else None
        answer = server.call(method, f"/sandbox/{sandbox}/{path}".rstrip("/"), body and json.dumps(body),
                             {"Content-Type": "application/json"} if body else None)
        assert refused(answer, 404, "NOT_FOUND") == f"Sandbox not found: {sandbox}"
    refused(put(server, f"/sandbox/{sandbox}/files/a", b"x"), 404, "NOT_FOUND")


def test_members_that_a_request_does_not_have_are_refused(server):
    sandbox = create(server)
    wrong = {
        "/sandbox/create": ({"max_memory": 64}, "max_memory", "max_memory_mb"),
        "/sandbox/agent/quick-execute": ({"code": "1", "config": {"timeout": 3}}, "config.timeout", None),
        f"/sandbox/{sandbox}/execute": ({"code": "1", "timeout_second": 3}, "timeout_second", "timeout_seconds"),
        f"/sandbox/{sandbox}/debug": ({"code": "1", "breakpoints": [{"line": 1, "conditions": "x"}]}, "breakpoints[0].conditions", "condition"),
        f"/sandbox/{sandbox}/debug/x": ({"command": "back", "steps": 3}, "steps", "step"),
        f"/sandbox/{sandbox}/dap": ({"stop_at_entry": True}, "stop_at_entry", "stop_on_entry"),
        f"/sandbox/{sandbox}/database/query": ({"query": "SELECT 1", "params": {}}, "params", None),
        f"/sandbox/{sandbox}/checkpoint": ({"nome": "a"}, "nome", "name"),
        f"/sandbox/{sandbox}/rollback": ({"checkpoint": "a", "checkpoints": "b"}, "checkpoints", "checkpoint"),
        f"/sandbox/{sandbox}/templates/processor": ({"processor_typ": "a"}, "processor_typ", "processor_type"),
        "/sandbox/agent/analyze-data?table_name=sales&limits=3": (None, "limits", "limit"),
    }
    for path, (body, member, near) in wrong.items():
        answer = server.post(path, body)
        kind, message = answer.error
        assert answer.status == 422 and kind == "VALIDATION_ERROR" and f"'{member}'" in message, (path, answer)
        assert near is None or f"did you mean '{near}'?" in message, (path, message)
    config = server.get(f"/sandbox/{sandbox}/status").json["data"]["config"]
    assert server.post("/sandbox/create", config).json["data"]["config"] == config


def test_a_sandbox_is_its_owners(server):
    sandbox = create(server)
    for method, path in (("GET", "status"), ("GET", "history"), ("GET", "files"), ("POST", "interrupt"), ("DELETE", "")):
        refused(server.call(method, f"/sandbox/{sandbox}/{path}".rstrip("/"), key="ben-key-0123456789"), 404, "NOT_FOUND")
    refused(server.post(f"/sandbox/{sandbox}/execute", {"code": "1"}, key="ben-key-0123456789"), 404, "NOT_FOUND")
    assert server.post("/sandbox/cleanup-all", {}, key="ben-key-0123456789").json["cleaned_up"] == 0
    assert server.get(f"/sandbox/{sandbox}/status").status == 200
    for _ in range(7):
        create(server)
    assert "RIDDLE_SANDBOXES" in refused(server.post("/sandbox/create", {}), 503, "UNAVAILABLE")
    assert server.post("/sandbox/cleanup-all", {}).json == {"message": "8 sandboxes cleaned up", "cleaned_up": 8}
    refused(server.get(f"/sandbox/{sandbox}/status"), 404, "NOT_FOUND")


def test_a_sandbox_expires_when_it_is_unused_or_old(server):
    unused, old = create(server, idle_seconds=1), create(server, ttl_seconds=1)
    for sandbox in (unused, old):
        wait_until(lambda: server.get(f"/sandbox/{sandbox}/status").status == 404, "it has expired")
    refused(server.post("/sandbox/create", {"idle_seconds": 10**9}), 400, "VALIDATION_ERROR")
    refused(server.post("/sandbox/create", {"provider": "docker"}), 400, "VALIDATION_ERROR")


def test_it_survives_a_restart_with_its_variables(tmp_path):
    server = Server(tmp_path, RIDDLE_PRELOAD="", RATE_LIMIT_MAX=0).start()
    sandbox = create(server, max_memory_mb=128, policy="open")
    execute(server, sandbox, "x = 1")
    server.stop()
    server.start()
    try:
        done = execute(server, sandbox, "import os\n'x' in globals()")
        assert done["result"] is True and not done.get("state_lost"), "its policy is still `open`"
        assert server.get(f"/sandbox/{sandbox}/status").json["data"]["config"]["max_memory_mb"] == 128
        assert server.get(f"/sandbox/{sandbox}/history").json["total_executions"] == 2
    finally:
        server.stop()


# ---- limits ----


def test_every_limit_is_enforced(server):
    sandbox = create(server, max_execution_time=1)
    slow = execute(server, sandbox, "import asyncio\nawait asyncio.sleep(60)")
    assert (slow["status"], slow["error"]) == ("timeout", "Execution timeout after 1 seconds")
    capped = execute(server, sandbox, "await asyncio.sleep(60)", timeout_seconds=300)
    assert capped["error"] == "Execution timeout after 1 seconds", "a request cannot ask for more than its sandbox has"

    sandbox = create(server)
    assert execute(server, sandbox, "await asyncio.sleep(60)", timeout_seconds=1)["error"] == "Execution timeout after 1 seconds"
    files = execute(server, create(server, policy="open"), "fs = []\ntry:\n    while True: fs.append(open('/dev/null'))\n"
                    "except OSError as e:\n    n = len(fs)\n    assert e.errno == 24, e\n    fs.clear()\nn")
    assert 50 < files["result"] < 100, files

    threads = execute(server, create(server, policy="open"), """
import threading
wait, begun = threading.Event(), []
try:
    for _ in range(20):
        t = threading.Thread(target=wait.wait)
        t.start()
        begun.append(t)
finally:
    wait.set()
    print(len(begun))
""")
    assert threads["status"] == "failed" and threads["stdout"] in ("8\n", "9\n"), threads
    assert threads["error_details"]["type"] == "PROCESS_LIMIT"

    memory = execute(server, create(server), "x = bytearray(400 << 20)")
    assert (memory["status"], memory["error"]) == ("failed", "Memory limit exceeded (256 MB)")
    assert result_of(server, create(server, max_memory_mb=768), "len(bytearray(400 << 20))") == 400 << 20

    spent = execute(server, create(server, policy="open"), """
import time
wall, cpu = time.monotonic(), time.process_time()
while time.monotonic() - wall < 1.5:
    pass
(time.process_time() - cpu) / (time.monotonic() - wall)
""")
    assert spent["result"] < 0.75, "half a processor"
    refused(server.post("/sandbox/create", {"max_memory_mb": 16}), 422, "VALIDATION_ERROR")
    refused(server.post(f"/sandbox/{sandbox}/execute", {"code": "#" * (1 << 20) + "\n1"}), 413, "TOO_LARGE")
    assert result_of(server, sandbox, "#" * ((1 << 20) - 2) + "\n1") == 1


def test_modules_and_operations_are_those_of_the_sandbox(server):
    sandbox = create(server, allowed_modules=["json", "urllib.parse"], blocked_operations=["print", "json.tool"])
    assert result_of(server, sandbox, "import json\nfrom urllib.parse import quote\nquote(json.dumps({'a': 1}))") == "%7B%22a%22%3A%201%7D"
    for code, why in (("import math", "Import not allowed: math"), ("import os", "Blocked import: os"),
                      ("import json.tool", "Blocked import: json.tool"), ("print(1)", "Blocked call: print"),
                      ("eval('1')", "Blocked call: eval"), ("globals()", "Blocked call: globals"), ("math.pi", "NameError"),
                      ("pd.DataFrame()", "NameError"), ("().__class__", "Blocked dunder access: __class__")):
        done = execute(server, sandbox, code)
        assert done["status"] == "failed" and why in done["error"], (code, done)
    refused(server.post("/sandbox/create", {"allowed_modules": ["json, os"]}), 400, "VALIDATION_ERROR")
    assert result_of(server, create(server, policy="open"), "import os\nos.getcwd()") == "/workspace"
    standard = create(server)
    for module in MODULES[:-2]:
        assert execute(server, standard, f"import {module}")["status"] == "completed", module


def test_names_that_agents_expect_are_there(server):
    sandbox = create(server)
    assert re.match(r"\d{4}-", result_of(server, sandbox, "datetime.now().isoformat()"))
    assert result_of(server, create(server), "datetime.datetime(2024, 1, 2).isoformat(), datetime.timedelta(1).days") == ["2024-01-02T00:00:00", 1]
    assert result_of(server, sandbox, "json.dumps([math.floor(2.5), re.sub('a', 'b', 'a')])") == '[2, "b"]'
    assert result_of(server, sandbox, "import datetime\ndatetime.date(2024, 1, 2)") == "2024-01-02"
    large = result_of(server, sandbox, "'x' * 5_000_000")
    assert large["truncated"] is True and large["type"] == "str" and len(large["text"]) < 300_000
    assert result_of(server, sandbox, "pd.DataFrame({'a': [1, 2]})") == [{"a": 1}, {"a": 2}]


# ---- streams, interrupts, quick executions ----


def test_output_streams_and_an_interrupt_stops_it(server):
    sandbox = create(server)
    connection = server.connect()
    connection.request("POST", f"/sandbox/{sandbox}/execute/stream", json.dumps({"code": "kept = 1\nprint('on', flush=True)\nwhile True: pass"}),
                       server.headers({"Content-Type": "application/json"}))
    events = read_events(connection.getresponse())
    for name, data in events:
        if name == "step" and "on" in data["text"]:
            break
    busy = server.get(f"/sandbox/{sandbox}/status").json["data"]
    assert busy["status"] == "running" and busy["variables"] == {}
    assert server.call("POST", f"/sandbox/{sandbox}/interrupt").json == {"sandbox_id": sandbox, "interrupted": 1}
    rest = dict(events)
    connection.close()
    assert rest["result"]["status"] == "cancelled" and rest["result"]["error"] == "Execution cancelled"
    assert rest["done"]["execution_id"] == rest["result"]["execution_id"] and rest["done"]["status"] == "cancelled"
    assert result_of(server, sandbox, "kept") == 1


def test_quick_executions_and_statistics(server):
    before = server.get("/sandbox/statistics").json
    assert before["user_id"] == "ann"
    quick = server.post("/sandbox/agent/quick-execute", {"code": "a + b", "context": {"a": 1, "b": 2}}).json
    assert quick["status"] == "completed" and quick["result"] == 3 and quick["sandbox_id"] is None
    assert server.get(f"/runs/{quick['execution_id']}").json["python_code"] == "a + b"
    failed = server.post("/sandbox/agent/quick-execute", {"code": "import math", "config": {"allowed_modules": ["json"]}}).json
    assert failed["error"] == "Execution error: Import not allowed: math (line 1)"
    tables = server.post("/sandbox/agent/quick-execute", {"code": "len(sql('SELECT * FROM sales'))", "config": {"datasets": ["sales"]}}).json
    assert tables["result"] == SALES.count("\n") - 1
    refused(server.post("/sandbox/agent/quick-execute", {"code": "1", "config": {"datasets": ["none"]}}), 404, "NOT_FOUND")
    after = server.get("/sandbox/statistics").json["statistics"]
    assert after["total_executions"] - before["statistics"]["total_executions"] == 3
    assert after["failed_executions"] - before["statistics"]["failed_executions"] == 1
    assert after["success_rate"] == pytest.approx(100 * after["successful_executions"] / after["total_executions"])
    assert after["active_sandboxes"] == 0 and after["average_execution_time"] > 0


def test_a_table_is_analyzed_by_its_name_and_nothing_else(server):
    rows = SALES.strip().split("\n")
    summary = server.call("POST", "/sandbox/agent/analyze-data?table_name=sales&limit=3").json["result"]
    assert (summary["table_name"], summary["total_rows"], summary["columns"], summary["analysis_type"]) == (
        "sales", len(rows) - 1, rows[0].split(","), "summary")
    assert len(summary["sample_data"]) == 3
    schema = server.call("POST", "/sandbox/agent/analyze-data?table_name=sales&analysis_type=schema").json["result"]
    assert schema["column_count"] == len(rows[0].split(",")) and schema["schema"][0]["column_name"] == rows[0].split(",")[0]
    other = server.call("POST", "/sandbox/agent/analyze-data?table_name=sales&analysis_type=what").json["result"]
    assert other == {"available_tables": ["sales"], "requested_table": "sales", "analysis_type": "what"}
    for name in ("missing", "sales%27);%20import%20os;(%27", "sales%22;DROP%20TABLE%20sales;--"):
        answer = server.call("POST", f"/sandbox/agent/analyze-data?table_name={name}&dataset_id=sales").json
        assert answer["status"] == "completed" and answer["result"]["error"] == "No data found", answer


# ---- files ----


def test_files_go_in_and_out(server):
    sandbox = create(server)
    assert server.get(f"/sandbox/{sandbox}/files").json == {"sandbox_id": sandbox, "files": []}
    large = bytes(range(256)) * 12_000  # three pieces
    assert put(server, f"/sandbox/{sandbox}/files/in/large.bin", large).json["size"] == len(large)
    assert put(server, f"/sandbox/{sandbox}/files/empty", b"").json == {"sandbox_id": sandbox, "path": "empty", "size": 0}
    assert put(server, f"/sandbox/{sandbox}/files/t.csv", b"a,b\n1,2\n").status == 200
    opened = create(server, policy="open")
    put(server, f"/sandbox/{opened}/files/t.csv", b"a,b\n1,2\n")
    assert result_of(server, opened, "open('out.txt', 'w').write('written')\npd.read_csv('t.csv')") == [{"a": 1, "b": 2}]
    assert server.get(f"/sandbox/{opened}/files/out.txt").body == b"written"
    assert server.get(f"/sandbox/{sandbox}/files/in/large.bin").body == large
    assert [f["path"] for f in server.get(f"/sandbox/{sandbox}/files").json["files"]] == ["empty", "in/large.bin", "t.csv"]
    assert server.call("DELETE", f"/sandbox/{sandbox}/files/t.csv").json == {"sandbox_id": sandbox, "path": "t.csv", "deleted": True}
    refused(server.get(f"/sandbox/{sandbox}/files/t.csv"), 404, "NOT_FOUND")
    refused(server.call("DELETE", f"/sandbox/{sandbox}/files/t.csv"), 404, "NOT_FOUND")
    refused(server.get(f"/sandbox/{sandbox}/files/..%2Fetc%2Fpasswd"), 400, "VALIDATION_ERROR")
    refused(put(server, f"/sandbox/{sandbox}/files/..%2Fx", b"1"), 400, "VALIDATION_ERROR")
    assert put(server, f"/sandbox/{sandbox}/files/huge", b"x" * (65 << 20)).status == 413
    writers = [threading.Thread(target=put, args=(server, f"/sandbox/{sandbox}/files/p{i}", b"%d" % i * 100_000)) for i in range(6)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    for i in range(6):
        assert server.get(f"/sandbox/{sandbox}/files/p{i}").body == b"%d" % i * 100_000


# ---- debugging and help ----


def test_what_code_says_about_itself_comes_with_its_execution(server):
    sandbox = create(server)
    done = execute(server, sandbox, """
def work(n):
    debug(f'working on {n}', 'warning', data=[n])
    return n * 2
debug('begin')
inspect_var('seven', 7)
inspect_var('seven', [1])
__result__ = work(21), get_debug_info()['total_logs']
""")
    assert done["result"] == [42, 5]
    info = done["debug_info"]
    assert info["log_levels"] == {"DEBUG": 2, "INFO": 3, "WARNING": 1, "ERROR": 0} and info["total_logs"] == 6
    assert info["tracked_variables"] == 1 and info["variable_names"] == ["seven"]
    assert [v["type"] for v in info["variables"]["seven"]] == ["int", "list"] and info["variables"]["seven"][0]["repr"] == "7"
    assert [log["message"] for log in info["logs"]] == ["Starting code execution", "begin", "seven = 7", "seven = [1]", "working on 21",
                                                        "Code execution completed"]
    frame = info["logs"][4]["frame_info"]
    assert (frame["function"], frame["line_number"], frame["locals"]) == ("work", 3, {"n": "21"}) and info["logs"][4]["data"] == "[21]"
    assert server.get(f"/runs/{done['execution_id']}").json["result_json"]["debug"]["total_logs"] == 6, "it is stored"

    later = execute(server, sandbox, "debug('x', 'LOUD')")
    assert "DEBUG, INFO, WARNING, ERROR" in later["error"]
    assert [log["level"] for log in later["debug_info"]["logs"]] == ["INFO", "ERROR"], "logs are those of one execution"
    many = execute(server, sandbox, "for i in range(5000): debug('y' * 100)")["debug_info"]
    assert many["log_levels"]["INFO"] == 5002 and len(many["logs"]) <= 1000 and len(many["recent_logs"]) == 10
    silent = execute(server, create(server, enable_debugging=False), "debug('x')\ninspect_var('a', 1)\nget_debug_info()['total_logs']")
    assert silent["result"] == 0 and silent["debug_info"] is None


def test_help_is_true(server):
    sandbox = create(server)
    functions = server.get(f"/sandbox/{sandbox}/help/functions").json
    assert set(functions) == {"database_functions", "debug_functions", "built_in_functions", "allowed_modules", "examples"}
    assert len(functions["built_in_functions"]) == 10 and functions["allowed_modules"] == MODULES
    assert set(functions["examples"]) == {"basic_query", "parameterized_query", "debug_logging", "variable_inspection"}
    told = server.get(f"/sandbox/{sandbox}/help/examples").json
    assert set(told["examples"]) == {"basic_data_processing", "text_analysis", "knowledge_extraction", "pipeline_debugging"}
    assert len(told["usage_notes"]) == 5
    for name, example in told["examples"].items():
        assert {"title", "description", "code"} == set(example)
        assert result_of(server, sandbox, example["code"]), name
    for kind in ("data_processor", "text_analyzer", "database_connector", "unheard-of"):
        made = server.post(f"/sandbox/{sandbox}/templates/processor", {"processor_type": kind}).json
        assert made["processor_type"] == kind and made["instructions"] == "Modify this template to create your custom processor"
        assert "# Add your transformation logic here" in made["template_code"]
        assert "Custom" in result_of(server, sandbox, made["template_code"])
    template = server.post(f"/sandbox/{sandbox}/templates/processor", {}).json["template_code"]
    mine = template.replace("# Add your transformation logic here", "return {'transformed': True, 'data': data}")
    result_of(server, sandbox, mine)
    assert result_of(server, sandbox, "await CustomDataProcessor().run([1])") == {"transformed": True, "data": [1]}
