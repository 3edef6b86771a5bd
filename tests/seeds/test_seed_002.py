"""The Runner: a RunnerRequest on standard input, a RunnerResponse on standard output, as its container did.

The directory of the data sets stands for `-v DIR:/data`: requests name files below /data.
"""

import json
import os
import subprocess

import pytest
from server import RIDDLE

KERNEL = RIDDLE.parent / "riddle-kernel"
TICKETS = {"name": "tickets.csv", "path": "/data/support/tickets.csv"}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    directory = tmp_path_factory.mktemp("runner")
    (directory / "datasets/support").mkdir(parents=True)
    (directory / "datasets/support/tickets.csv").write_text(
        "ticket_id,priority,created_at,csat\n1,High,2025-08-01 00:40:49,1.50\n2,Low,2025-08-02 10:00:00,\n3,High,2025-08-03 11:30:00,4.25\n")
    return directory


@pytest.fixture
def runner(data):
    def call(request, *, files=(TICKETS,), log_level="error"):
        env = {k: v for k, v in os.environ.items() if not k.startswith("RIDDLE_")}
        env.update(RIDDLE_HOME=str(data / "home"), RIDDLE_DATA_ROOT=str(data / "datasets"), LOG_LEVEL=log_level)
        text = json.dumps({"files": list(files), **request}) if isinstance(request, dict) else request
        done = subprocess.run([str(KERNEL), "--once"], input=text.encode(), capture_output=True, env=env, timeout=150)
        call.log = done.stderr.decode()
        response = json.loads(done.stdout)
        assert {"status", "columns", "rows", "row_count", "exec_time_ms", "stdout_trunc", "stderr_trunc", "error"} <= set(response)
        assert (done.returncode == 0) == (response["status"] == "success")
        return response
    return call


def refused(response, kind, words=""):
    assert response["status"] == "error" and response["error"]["type"] == kind and words in response["error"]["message"], response["error"]


def test_sql_of_the_readme(runner):
    done = runner({"dataset_id": "support", "sql": "SELECT COUNT(*) AS n FROM tickets", "timeout_seconds": 5, "max_rows": 10})
    assert (done["status"], done["columns"], done["rows"], done["row_count"], done["error"]) == ("success", ["n"], [[3]], 1, None)


def test_python_of_the_readme(runner):
    done = runner({"dataset_id": "support", "python_code": 'result_df = tickets.groupby("priority").size().reset_index(name="n")',
                   "timeout_seconds": 5, "max_rows": 10, "max_output_bytes": 65536})
    assert (done["columns"], done["rows"]) == (["priority", "n"], [["High", 2], ["Low", 1]])


def test_every_field_and_fields_that_nobody_knows(runner):
    done = runner({"dataset_id": "support", "query_type": "sql", "sql": "SELECT 1 AS one", "python_code": None, "timeout_seconds": 10,
                   "max_rows": 200, "max_output_bytes": 65536, "run_id": "r1"}, files=[{**TICKETS, "rows": 3}], log_level="debug")
    assert done["rows"] == [[1]]
    assert "request.ignored" in runner.log and 'fields="run_id rows"' in runner.log


def test_the_servers_compiled_plans(runner):
    assert runner({"query_type": "plan", "sql": "SELECT COUNT(*) AS n FROM tickets"})["rows"] == [[3]]


@pytest.mark.parametrize("text,kind", [("", "INVALID_INPUT"), ("{", "INVALID_JSON"), ("[]", "INVALID_INPUT")])
def test_what_is_no_request(runner, text, kind):
    refused(runner(text), kind)


def test_what_is_missing_or_out_of_range(runner):
    refused(runner({"sql": "SELECT 1"}, files=[]), "VALIDATION_ERROR", "At least one file is required")
    refused(runner({}), "VALIDATION_ERROR", "SQL query is required")
    refused(runner({"sql": "SELECT 1", "timeout_seconds": 61}), "VALIDATION_ERROR", "Timeout must be between 1 and 60 seconds")
    refused(runner({"sql": "SELECT 1", "max_rows": 1001}), "VALIDATION_ERROR")
    refused(runner({"sql": "SELECT 1", "max_output_bytes": 1024}), "VALIDATION_ERROR")


@pytest.mark.parametrize("file,words", [
    ({"name": "a;b.csv", "path": "/data/support/tickets.csv"}, "Invalid table name"),
    ({"name": "t.csv", "path": "support/tickets.csv"}, "must be absolute"),
    ({"name": "t.csv", "path": "/etc/passwd"}, "must be under /data"),
    ({"name": "t.csv", "path": "/data/" + "../" * 12 + "etc/passwd"}, "must be under /data"),
    ({"name": "t.csv", "path": "/data/support/none.csv"}, "does not exist"),
])
def test_files_that_are_refused(runner, file, words):
    refused(runner({"sql": "SELECT 1"}, files=[file]), "VALIDATION_ERROR", words)


def test_duplicate_table(runner):
    refused(runner({"sql": "SELECT 1"}, files=[TICKETS, TICKETS]), "VALIDATION_ERROR", "uplicate table name")


def test_errors_of_the_code(runner):
    refused(runner({"sql": "SELECT nope FROM tickets"}), "SQL_EXECUTION_ERROR")
    refused(runner({"python_code": "1/0"}), "PYTHON_EXECUTION_ERROR")
    refused(runner({"python_code": "import os"}), "PYTHON_POLICY_VIOLATION", "Blocked import: os")
    refused(runner({"python_code": "open('/x')"}), "PYTHON_POLICY_VIOLATION", "Blocked call: open")
    refused(runner({"python_code": "result_df = 3"}), "PYTHON_EXECUTION_ERROR")


@pytest.mark.parametrize("code,columns,rows", [
    ("result_rows = [[1, 2]]\nresult_columns = ['a', 'b']", ["a", "b"], [[1, 2]]),
    ("result = {'a': 1}", ["key", "value"], [["a", 1]]),
    ("result = [[1, 2], [3, 4]]", ["col_1", "col_2"], [[1, 2], [3, 4]]),
    ("result = [1, 2]", ["value"], [[1], [2]]),
    ("len(dfs['tickets'])", ["value"], [[3]]),
    ("import math\nresult = math.floor(np.float64(2.5))", ["value"], [[2]]),
])
def test_results_of_python(runner, code, columns, rows):
    done = runner({"python_code": code})
    assert (done["status"], done["columns"], done["rows"]) == ("success", columns, rows), done["error"]


def test_time_limit(runner):
    done = runner({"python_code": "while True: pass", "timeout_seconds": 1})
    assert (done["status"], done["error"]["type"]) == ("timeout", "RUNNER_TIMEOUT")
    assert done["error"]["message"].startswith("Python execution exceeded timeout of 1 seconds")


def test_no_network_and_nothing_to_write(runner):
    refused(runner({"python_code": "import socket"}), "PYTHON_POLICY_VIOLATION", "Blocked import: socket")
    done = runner({"python_code": "pd.Series([1]).to_csv('/data/x.csv')"})
    assert done["status"] == "error"


def test_rows_are_cut(runner):
    done = runner({"sql": "SELECT * FROM tickets", "max_rows": 2})
    assert (done["status"], done["row_count"], len(done["rows"])) == ("success", 2, 2)
