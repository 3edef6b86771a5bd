"""Faults heal by themselves: zygotes that hang, kernels that were stopped or killed before they ran, tables that are damaged. What
cannot heal says what to do: two servers in one home, a store that is deleted under a server."""

import http.client
import json
import os
import signal
import socket
import sqlite3
import subprocess
import time

import pytest
from api import QUICK, children, fails_to_start, make_set, metric, refused, run_body, wait_until_settled
from server import FORM_TYPE, RIDDLE, Server, form, wait_until
from test_server_durability import kernels, make_server, state, zygotes

pytestmark = pytest.mark.plain

SALES = "id,region,total\n" + "".join(f"{i},r{i % 7},{i}\n" for i in range(20000))
SUM = sum(range(20000))


def total(server, dataset="shop"):
    answer = server.sql(dataset, "SELECT sum(total) FROM sales")
    assert answer.status == 200 and answer.json["status"] == "succeeded", answer.body
    return answer.json["result"]["rows"][0][0]


def python_answers(server):
    answer = server.post("/runs", run_body("shop", python="result = 6 * 7"))
    assert answer.status == 200 and answer.json["result"]["rows"] == [[42]], answer.body


def zombies(server):
    return [pid for pid in children(server.process.pid) if state(pid) == "Z"]


# ---- zygotes and kernels ----


@pytest.mark.parametrize("kind", ["sql", "python"])
def test_a_zygote_that_hangs_is_replaced(tmp_path, kind):
    with make_server(tmp_path) as server:
        wait_until_settled(server)
        python_answers(server)
        hung = zygotes(server)[kind]
        os.kill(hung, signal.SIGSTOP)
        for _ in range(4):  # more than the pool holds
            if kind == "sql":
                assert server.sql("shop", "SELECT count(*) FROM sales").json["result"]["rows"] == [[3]]
            else:
                python_answers(server)
        wait_until(lambda: state(hung) is None, "the one that hung is killed and reaped")
        wait_until(lambda: zygotes(server).get(kind) not in (None, hung), "there is a new one")
        wait_until(lambda: server.get("/healthz").status == 200, "it is healthy again")
        wait_until(lambda: not zombies(server), "nothing is left unreaped")


def send_all(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:  # it has ended since it was listed
            pass


def test_kernels_that_were_stopped_are_not_lent(tmp_path):
    with make_server(tmp_path) as server:
        wait_until_settled(server)
        for _ in range(3):
            stopped = kernels(server)
            send_all(stopped, signal.SIGSTOP)
            wait_until(lambda: all(state(pid) in ("T", "Z", None) for pid in stopped), "they have stopped")
            begun = time.monotonic()
            assert server.sql("shop", "SELECT count(*) FROM sales").json["result"]["rows"] == [[3]]
            python_answers(server)
            assert time.monotonic() - begun < 9, "a run waited for a kernel that was stopped"


def test_kernels_killed_before_they_ran_are_replaced(tmp_path):
    """Whoever asks while the waiting kernels die gets an answer, not the news of their death."""
    with make_server(tmp_path) as server:
        wait_until_settled(server)
        for number in range(12):
            send_all(kernels(server), signal.SIGKILL)
            # At once: the server may not have seen yet that they are dead.
            answer = server.sql("shop", f"SELECT count(*) + {number} FROM sales")
            assert answer.status == 200 and answer.json["result"]["rows"] == [[3 + number]], answer.body
            python_answers(server)


def test_health_of_each_kind(tmp_path):
    """Python cannot start: that is said, with its reason and since when, and SQL goes on."""
    server = Server(tmp_path, RIDDLE_PRELOAD="no_such_package", RATE_LIMIT_MAX=0)
    make_set(server)
    with server:
        wait_until(lambda: server.get("/healthz").status == 503, "it is noticed")
        health = server.get("/healthz").json
        assert health["kernels"]["sql"] == {"status": "ok"} and health["store"] == "ok"
        python = health["kernels"]["python"]
        assert python["status"] == "failing" and "no_such_package" in python["error"] == health["sandbox"]
        assert python["since"].startswith("20") and server.get("/healthz").json["kernels"]["python"]["since"] == python["since"]
        assert server.sql("shop", "SELECT count(*) FROM sales").json["result"]["rows"] == [[3]]
        answer = server.post("/runs", run_body("shop", python="result = 1"))
        assert answer.status == 503 and "no_such_package" in answer.json["detail"], answer.body


# ---- tables ----


def damage(path, kind):
    whole = path.read_bytes()
    data = bytearray(whole)
    if kind == "flipped":
        for at in range(12288, len(data), 1000):
            data[at] ^= 255
    elif kind == "cut":
        data = data[:len(data) // 2]
    elif kind == "empty":
        data = b""
    elif kind == "garbage":
        data = os.urandom(len(data))
    path.unlink()
    if kind != "gone":
        path.write_bytes(data)


@pytest.mark.parametrize("kind", ["flipped", "cut", "empty", "garbage", "gone"])
def test_a_damaged_table_is_made_anew(tmp_path, kind):
    server = Server(tmp_path, **QUICK, RIDDLE_IDLE_KERNELS=0)
    make_set(server, sales=SALES)
    with server:
        wait_until_settled(server)
        [table] = (server.home / "tables").glob("*.duckdb")
        damage(table, kind)
        assert total(server) == SUM
        uploaded = server.upload(("sales.csv", SALES)).json["files"][0]["file_id"]
        [table] = (server.home / "uploads").rglob(".table.*.duckdb")
        damage(table, kind)
        if kind == "flipped":  # Python is told, unless the change was seen before; the table is made anew for the next kernel
            code = "result = sql('SELECT sum(total) AS t FROM sales')"
            first = server.post("/runs", run_body(uploaded, python=code)).json
            failed = first["status"] == "failed" and "Corrupt database file" in first["result"]["error"]["message"]
            assert failed or first["result"]["rows"] == [[SUM]], first
            assert server.post("/runs", run_body(uploaded, python=code)).json["result"]["rows"] == [[SUM]]
        assert total(server, uploaded) == SUM


def test_an_upload_is_not_given_up_for_a_fault_that_passes(tmp_path):
    """It was acknowledged, and no kernel can be had while it is to be read."""
    broken, kernel = tmp_path / "broken", tmp_path / "riddle-kernel"
    kernel.write_text(f"#!/bin/sh\n[ ! -e {broken} ] || exit 1\nexec {RIDDLE}-kernel \"$@\"\n")
    kernel.chmod(0o755)
    with make_server(tmp_path, RIDDLE_KERNEL=kernel) as server:
        wait_until_settled(server)
        broken.touch()
        send_all(children(server.process.pid), signal.SIGKILL)
        [file] = server.upload(("sales.csv", SALES), query="?wait=false").json["files"]
        wait_until(lambda: server.log.read_text().count("event=upload.again") > 1, "it is tried again and again")
        assert server.get(f"/uploads/{file['file_id']}").json["status"] == "processing"
        broken.unlink()
        wait_until(lambda: server.get(f"/uploads/{file['file_id']}").json["status"] == "ready", "it is read")
        assert total(server, file["file_id"]) == SUM


def test_tables_that_are_all_gone(tmp_path):
    server = Server(tmp_path, **QUICK, RIDDLE_IDLE_KERNELS=0)
    make_set(server, sales=SALES)
    with server:
        wait_until_settled(server)
        subprocess.run(["rm", "-r", str(server.home / "tables")], check=True)
        assert total(server) == SUM


# ---- the home and the store ----


def test_one_server_for_each_home(tmp_path):
    with make_server(tmp_path) as server:
        status, said = fails_to_start(server)
        assert status == 1 and f"process {server.process.pid}" in said and str(server.home) in said
        assert server.sql("shop", "SELECT count(*) FROM sales").json["result"]["rows"] == [[3]]
        server.stop(signal.SIGKILL)
    with server:  # the lock went with the process
        assert server.get("/healthz").status == 200


@pytest.mark.parametrize("replaced", [False, True], ids=["deleted", "replaced"])
def test_a_store_that_goes_away_under_a_server(tmp_path, replaced):
    server = make_server(tmp_path)
    with server:
        path = server.home / "riddle.db"
        kept = server.sql("shop", "SELECT 1 AS one").json["run_id"]
        aside = server.home / "aside.db"
        path.rename(aside)
        if replaced:
            with sqlite3.connect(path) as other:
                other.execute("CREATE TABLE other (id INTEGER)")
            other.close()
        wait_until(lambda: server.get("/healthz").status == 503, "it is noticed without a write")
        assert "deleted or replaced" in server.get("/healthz").json["store"]
        said = refused(server.sql("shop", "SELECT 2 AS two"), 500, "IO_ERROR")
        assert "riddle restore" in said and str(path) in said
        assert server.get(f"/runs/{kept}").status == 200, "reads go on"
        path.unlink(missing_ok=True)
        aside.rename(path)
        wait_until(lambda: server.sql("shop", "SELECT 3 AS three").status == 200, "it is put back, and all is well")
        assert server.get("/healthz").status == 200


def riddle(server, *arguments):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RIDDLE_")}
    environment.update(RIDDLE_HOME=str(server.home), DATASETS_DIR=str(server.datasets))
    return subprocess.run([str(RIDDLE), *map(str, arguments)], cwd=server.directory, env=environment, capture_output=True, text=True)


def test_backup_and_restore(tmp_path):
    server = Server(tmp_path, **QUICK)
    make_set(server, sales=SALES)
    backup = tmp_path / "backup"
    with server:
        run_id = server.sql("shop", "SELECT 1 AS one").json["run_id"]
        file_id = server.upload(("sales.csv", SALES)).json["files"][0]["file_id"]
        done = riddle(server, "backup", backup)  # while it runs
        assert done.returncode == 0, done.stderr
        assert not list(backup.rglob("*.duckdb")), "tables are made anew"
        later = server.sql("shop", "SELECT 2 AS two").json["run_id"]
        again = riddle(server, "backup", backup)
        assert again.returncode == 1 and "already" in again.stderr
        busy = riddle(server, "restore", backup)
        assert busy.returncode == 1 and f"process {server.process.pid}" in busy.stderr
    subprocess.run(["rm", "-r", str(server.home)], check=True)
    restored = riddle(server, "restore", backup)
    assert restored.returncode == 0, restored.stderr
    with server:
        assert server.get(f"/runs/{run_id}").status == 200 and server.get(f"/runs/{later}").status == 404
        assert total(server, file_id) == SUM
    # Over a store that is there: that one is kept aside. A damaged backup changes nothing.
    assert riddle(server, "restore", backup).returncode == 0
    assert list(server.home.glob("riddle.db.before-*"))
    whole = (backup / "riddle.db").read_bytes()
    (backup / "riddle.db").write_bytes(whole[:5000] + os.urandom(len(whole) - 5000))
    refusal = riddle(server, "restore", backup)
    assert refusal.returncode == 1 and "damaged" in refusal.stderr
    with server:
        assert server.get(f"/runs/{run_id}").status == 200
        assert metric(server, "riddle_zygote_restarts_total") is not None


# ---- variables ----


def test_the_loss_of_variables_is_told_once(tmp_path):
    """However old the cell is that made them, and whatever comes after."""
    server = make_server(tmp_path)

    def say(thread, message):
        answer = server.post(f"/thread/{thread}/message", {"message": message})
        assert answer.status == 200, answer.body
        return bool(answer.json.get("state_lost"))

    with server:
        old, executed, plain = (server.post("/thread/new", {"datasets": ["shop"]}).json["thread_id"] for _ in range(3))
        assert not say(old, "PYTHON: x = 1")
        for i in range(8):  # more than a model is shown
            assert not say(old, f"SQL: SELECT {i} AS n")
        assert server.post(f"/thread/{executed}/execute", {"code": "y = 2"}).json["status"] == "succeeded"
        assert not say(plain, "SQL: SELECT 1 AS n")
        server.stop(signal.SIGKILL)
    with server:
        assert [say(old, f"SQL: SELECT {i} AS n") for i in range(4)] == [True] + [False] * 3
        answers = [server.post(f"/thread/{executed}/execute", {"language": "sql", "code": "SELECT 1 AS n"}).json for _ in range(3)]
        assert [bool(a.get("state_lost")) for a in answers] == [True, False, False]
        assert not say(plain, "SQL: SELECT 1 AS n")
        server.stop(signal.SIGKILL)
    with server:  # it was told before
        assert not say(old, "SQL: SELECT 1 AS n") and not say(plain, "SQL: SELECT 1 AS n")


# ---- a damaged store ----


def test_bytes_of_the_store_that_are_no_text(tmp_path):
    """Whatever a damaged disk makes of a capsule, an answer is JSON in UTF-8 or an error that says so."""
    server = make_server(tmp_path)
    with server:
        run = server.sql("shop", "SELECT 'MARKERMARKERMARKER' AS word").json["run_id"]
        thread = server.post("/chat", {"dataset_id": "shop", "message": "SQL: SELECT 'MARKERMARKERMARKER' AS word"}).json["thread_id"]
        assert server.stop() == 0
    path = server.home / "riddle.db"
    damaged = path.read_bytes()
    assert b"MARKERMARKERMARKER" in damaged
    path.write_bytes(damaged.replace(b"MARKERMARKERMARKER", b"MARKER\xff\xfe\xc0\x80ERMARKER"))
    with server:
        for where in (f"/runs/{run}", "/runs", f"/threads/{thread}/messages", "/threads"):
            answer = server.get(where)
            answer.body.decode("utf-8")  # raises where it is none
            assert answer.status == 200 and answer.json or answer.json["error"]["type"] == "IO_ERROR", (where, answer.body)
        assert "put a backup in its place" in refused(server.get(f"/runs/{run}"), 500, "IO_ERROR")
        assert server.sql("shop", "SELECT 1").json["result"]["rows"] == [[1]]


# ---- stopping ----


def test_a_server_that_begins_stops_at_once(tmp_path):
    """Nobody waits for a fork server that is still importing packages, or that never ends doing so."""
    with Server(tmp_path, RATE_LIMIT_MAX=0) as server:
        wait_until(lambda: "python" in zygotes(server), "the fork server of Python")
        zygote = zygotes(server)["python"]
        os.kill(zygote, signal.SIGSTOP)
        assert server.stop() == 0 and state(zygote) is None


def test_half_sent_requests_do_not_hold_up_the_stop(tmp_path):
    """Neither those whose clients are gone nor those that say no more; and what is gone is not kept."""
    with make_server(tmp_path, RIDDLE_STOP_TIMEOUT_SECONDS=60) as server:
        half = []
        for i in range(60):
            s = socket.create_connection(("127.0.0.1", server.port))
            s.sendall(b"POST /runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
                      if i % 2 else b"POST /runs HTTP/1.1\r\nHost: loc")
            half.append(s)
        wait_until(lambda: metric(server, "riddle_http_connections") >= 60, "they are open")
        for s in half[:40]:
            s.close()
        wait_until(lambda: metric(server, "riddle_http_connections") <= 25, "those that are gone are not kept", 20)
        began = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - began < 30  # of 60 that requests under way may take
        for s in half:
            s.close()


def test_an_upload_on_its_way_is_finished_before_the_stop(tmp_path):
    with make_server(tmp_path, RIDDLE_STOP_TIMEOUT_SECONDS=60) as server:
        body = form(("sales.csv", SALES))
        connection = server.connect()
        connection.putrequest("POST", "/upload")
        connection.putheader("Content-Type", FORM_TYPE)
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders()
        connection.send(body[:1000])
        wait_until(lambda: list((server.home / "uploads").rglob(".part")), "it is being received")
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: stops_listening(server), "the server is stopping")
        connection.send(body[1000:])
        answer = connection.getresponse()
        told = json.loads(answer.read())
        assert answer.status == 200, told
        connection.close()
        assert server.stop() == 0
    with server:
        assert total(server, told["files"][0]["file_id"]) == SUM


def stops_listening(server):
    try:
        return server.get("/healthz").status == 503
    except (ConnectionError, http.client.HTTPException):
        return True
