"""What survives: runs that were acknowledged, when the server is killed; service, when its helpers die or its disk is full."""

import http.client
import os
import shutil
import signal
import sqlite3
import subprocess
import threading
from contextlib import contextmanager

import pytest
from api import (FOREVER_PYTHON, QUICK, Background, children, fails_to_start, make_set, metric, refused, run_body, wait_until_settled,
                 watching)
from server import Server, wait_until

pytestmark = pytest.mark.plain

KILLS = 6
THREADS = 8


def make_server(directory, **settings):
    server = Server(directory, **QUICK, **settings)
    make_set(server)
    return server


def kill(server):
    server.process.kill()
    server.process.wait()
    server.process.stdout.close()


def post_until_it_dies(server, acknowledged, enough):
    """Posts runs and writes down which were answered."""
    try:
        while True:
            answer = server.sql("shop", "SELECT count(*) AS n FROM sales")
            if answer.status == 200:
                acknowledged.append((answer.json["run_id"], answer.json["result"]["rows"]))
                enough.release()
            else:
                assert answer.status == 503, answer.body  # too busy is fair
    except (OSError, http.client.HTTPException):
        pass  # killed


def test_acknowledged_runs_survive_kill_9(tmp_path):
    """Many threads post, the server is killed in the middle, again and again; nothing that was answered 200 is missing."""
    server = make_server(tmp_path)
    every = []
    for kill_number in range(KILLS):
        server.start()
        acknowledged, enough = [], threading.Semaphore(0)
        threads = [threading.Thread(target=post_until_it_dies, args=(server, acknowledged, enough)) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for _ in range(10 + 7 * kill_number):  # never at the same moment
            assert enough.acquire(timeout=60)
        family = children(server.process.pid)
        kill(server)
        for thread in threads:
            thread.join()
        every += acknowledged
        wait_until(lambda: not any(alive(pid, line) for pid, line in family.items()), "its kernels and zygotes die with it")
    with server:
        assert len(every) >= sum(10 + 7 * i for i in range(KILLS))
        for run_id, rows in every:
            capsule = server.get(f"/runs/{run_id}")
            assert capsule.status == 200, f"run {run_id} was acknowledged and is lost"
            assert capsule.json["status"] == "succeeded" and capsule.json["result_json"]["rows"] == rows == [[3]]
        # Nothing came twice, and the list knows each.
        listed, cursor = [], ""
        while cursor is not None:
            page = server.get("/runs?limit=200" + cursor).json
            listed += [run["run_id"] for run in page["runs"]]
            cursor = page["next"] and f"&cursor={page['next']}"
        assert len(listed) == len(set(listed)) and set(listed) >= {run_id for run_id, _ in every}
        assert server.get("/healthz").json == {"status": "ok"}
    with sqlite3.connect(server.home / "riddle.db") as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def alive(pid, line):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode().strip() == line != ""
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_run_under_way_when_it_was_killed_is_not_there(tmp_path):
    """It was never acknowledged, and nobody is told that it still runs."""
    server = make_server(tmp_path).start()
    with watching(server, run_body("shop", python=FOREVER_PYTHON, timeout_seconds=60)) as watched:
        watched.until("step")
        kill(server)
    with server:
        assert server.get(f"/runs/{watched.run_id}/status").json["status"] in ("not_found", "failed", "cancelled")
        wait_until_settled(server)
        # No half-made table or lock of the dead one is in the way.
        assert server.sql("shop", "SELECT count(*) FROM sales").json["result"]["rows"] == [[3]]


# ---- a store that cannot be used ----


def test_damaged_store(tmp_path):
    server = make_server(tmp_path)
    with server:
        server.sql("shop", "SELECT 1 AS one")
    path = server.home / "riddle.db"
    whole = path.read_bytes()
    for suffix in ("-wal", "-shm"):
        (server.home / f"riddle.db{suffix}").unlink(missing_ok=True)
    for damage in (b"this is no database, but a text of some length" * 100, whole[:100] + b"\xff" * (len(whole) - 100)):
        path.write_bytes(damage)
        status, said = fails_to_start(server)
        assert status == 1 and str(path) in said
        assert "damaged" in said or "no database" in said or "not a database" in said
        assert path.read_bytes() == damage  # left as it is, for who wants to save something
    path.write_bytes(whole)
    with server:
        assert len(server.get("/runs").json["runs"]) == 1


def test_store_of_another_program(tmp_path):
    server = make_server(tmp_path)
    server.home.mkdir()
    path = server.home / "riddle.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE accounts (id INTEGER)")
    before = path.read_bytes()
    status, said = fails_to_start(server)
    assert status == 1 and str(path) in said and "another program" in said
    assert path.read_bytes() == before


def test_locked_store(tmp_path):
    server = make_server(tmp_path)
    with server:
        server.sql("shop", "SELECT 1 AS one")
    path = server.home / "riddle.db"
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    status, said = fails_to_start(server)
    assert status == 1 and str(path) in said and "locked" in said
    holder.execute("ROLLBACK")
    with server:
        # While it serves, too: who waits is told, reads go on, and it heals by itself.
        holder.execute("BEGIN IMMEDIATE")
        call = Background(server.sql, "shop", "SELECT 2 AS two")
        assert len(server.get("/runs").json["runs"]) == 1
        assert "locked" in refused(call.result(), 503, "UNAVAILABLE")
        assert server.get("/healthz").status == 503
        holder.execute("ROLLBACK")
        assert server.sql("shop", "SELECT 3 AS three").json["status"] == "succeeded"
        assert server.get("/healthz").status == 200
        assert len(server.get("/runs").json["runs"]) == 2
    holder.close()


# ---- disks ----


@contextmanager
def small_disk(path, options):
    path.mkdir(exist_ok=True)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "riddle-test", str(path)], capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"only who may mount can have a small disk: {mounted.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def test_read_only_home(tmp_path):
    server = make_server(tmp_path)
    with small_disk(server.home, "size=8m,ro"):
        status, said = fails_to_start(server)
    assert status == 1 and str(server.home) in said and "Read-only file system" in said


def test_home_that_cannot_be_made(tmp_path):
    server = make_server(tmp_path)
    server.home.write_text("a file is in the way")
    status, said = fails_to_start(server)
    assert status == 1 and str(server.home) in said


def test_full_disk(tmp_path):
    server = make_server(tmp_path)
    with small_disk(server.home, "size=12m"):
        with server:
            wait_until_settled(server)
            kept = server.sql("shop", "SELECT 1 AS one").json["run_id"]
            filler = server.home / "filler"
            with filler.open("wb", buffering=0) as file:
                try:
                    while True:
                        file.write(b"\0" * 4096)
                except OSError:
                    pass
            # SQLite may still have room in its log; it has none for long.
            big = "SELECT repeat('x', 900) AS x FROM range(1000)"
            failed = None
            for _ in range(100):
                answer = server.post("/runs", run_body("shop", big, max_rows=1000, max_output_bytes=1000000))
                if answer.status != 200:
                    failed = answer
                    break
            assert failed, "the disk was never full"
            assert "full" in refused(failed, 500, "IO_ERROR")
            assert server.get("/healthz").status == 503
            assert server.get(f"/runs/{kept}").json["status"] == "succeeded"
            filler.unlink()
            again = server.sql("shop", "SELECT 2 AS two")
            assert again.status == 200 and server.get(f"/runs/{again.json['run_id']}").status == 200
            assert server.get("/healthz").status == 200


def refuse_writes(server, refuse):
    """As a disk that is full does: every write to the records of uploads fails."""
    with sqlite3.connect(server.home / "riddle.db") as store:
        for what in ("INSERT", "UPDATE", "DELETE"):
            store.execute(f"CREATE TRIGGER no_{what} BEFORE {what} ON uploads BEGIN SELECT RAISE(FAIL, 'database or disk is full'); END"
                          if refuse else f"DROP TRIGGER no_{what}")


def test_start_with_work_to_finish_that_cannot_be_stored(tmp_path):
    """Uploads whose file has gone, or that are half deleted, are noted at a start that can write. The server starts all the same."""
    server = make_server(tmp_path)
    with server:
        lost, deleted, kept = (server.upload((f"{name}.csv", "id,n\n1,2\n")).json["files"][0]["file_id"] for name in "abc")
    directory = next((server.home / "uploads").glob(f"*/{lost}"))
    shutil.rmtree(directory)
    (directory.parent / deleted / ".deleted").touch()
    refuse_writes(server, True)
    with server:
        assert server.log.read_text().count("upload.put_off") == 2
        assert server.get(f"/uploads/{kept}").json["status"] == "ready"
        assert server.get(f"/uploads/{lost}").json["status"] == "failed" and server.get(f"/uploads/{deleted}").status == 404
    refuse_writes(server, False)
    with server:
        assert server.log.read_text().count("upload.put_off") == 2 and server.get(f"/uploads/{deleted}").status == 404
    assert not (directory.parent / deleted).exists()


# ---- helpers that die ----


def depth(pid):
    """How many pid namespaces deep a process is."""
    try:
        with open(f"/proc/{pid}/status") as file:
            return next(len(line.split()) for line in file if line.startswith("NSpid:"))
    except (FileNotFoundError, ProcessLookupError):
        return None


def zygotes(server):
    """{kind: pid}. Kernels have the same command line, being forks, but live in pid namespaces of their own."""
    mine = depth(server.process.pid)
    return {line.split("--zygote=")[1].split()[0]: pid for pid, line in children(server.process.pid).items()
            if "--zygote=" in line and depth(pid) == mine}


def kernels(server):
    return set(children(server.process.pid)) - set(zygotes(server).values())


def test_a_zygote_that_dies_is_started_again(tmp_path):
    with make_server(tmp_path) as server:
        wait_until_settled(server)
        first = zygotes(server)
        assert set(first) == {"sql", "python"}
        for pid in first.values():
            os.kill(pid, signal.SIGKILL)
        for _ in range(8):  # more than the pool holds
            assert server.sql("shop", "SELECT count(*) FROM sales").json["result"]["rows"] == [[3]]
            again = server.post("/runs", run_body("shop", python="result = 6 * 7"))
            assert again.status == 200 and again.json["result"]["rows"] == [[42]], again.body
        wait_until(lambda: server.get("/healthz").status == 200, "it is healthy again")
        second = zygotes(server)
        assert set(second) == {"sql", "python"} and not set(first.values()) & set(second.values())
        assert metric(server, "riddle_zygote_restarts_total") >= 2


def test_zygotes_that_die_under_load(tmp_path):
    with make_server(tmp_path) as server:
        wait_until_settled(server)
        stop = threading.Event()
        answers = []

        def work():
            while not stop.is_set():
                answers.append(server.sql("shop", "SELECT count(*) AS n FROM sales"))
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for kill_number in range(3):
            seen = len(answers)
            wait_until(lambda: len(answers) >= seen + 10, "runs are answered")
            pid = zygotes(server).get("sql")
            if pid:
                os.kill(pid, signal.SIGKILL)
        seen = len(answers)
        wait_until(lambda: len(answers) >= seen + 10, "runs are answered after the last kill")
        stop.set()
        for thread in threads:
            thread.join()
        assert {(a.status, a.json["status"]) for a in answers} == {(200, "succeeded")}


def test_a_run_outlives_its_zygote(tmp_path):
    with make_server(tmp_path) as server:
        with watching(server, run_body("shop", python=FOREVER_PYTHON, timeout_seconds=60)) as watched:
            watched.until("step")
            os.kill(zygotes(server)["python"], signal.SIGKILL)
            answer = server.post("/runs", run_body("shop", python="result = 1"))
            assert answer.status == 200 and answer.json["result"]["rows"] == [[1]], answer.body
            assert server.get(f"/runs/{watched.run_id}/status").json["status"] == "running"
            server.delete(f"/runs/{watched.run_id}")
            assert watched.until("result")["status"] == "cancelled"


def test_kernels_that_die(tmp_path):
    """Kernels that wait for work are killed from outside: runs soon get others."""
    with make_server(tmp_path) as server:
        wait_until_settled(server)
        waiting = kernels(server)
        assert waiting
        for pid in waiting:
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: all(state(pid) in (None, "Z") for pid in waiting), "they are dead")
        def answered():
            answer = server.sql("shop", "SELECT count(*) FROM sales")
            if answer.status == 200:
                return answer.json["status"] == "succeeded"
            # A run that found only dead ones may be sent away, if it is told to come back.
            assert refused(answer, 503, "UNAVAILABLE") == "the waiting kernel was gone; try again"
            assert answer.headers["retry-after"] == "1"
            return False
        wait_until(answered, "a run is answered")
        for _ in range(6):
            assert answered()


def state(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None
