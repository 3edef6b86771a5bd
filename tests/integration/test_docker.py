"""The docker provider behind a real server and a real daemon: every kind of run, threads, uploads, limits, stops, and what is left behind."""

import base64
import os
import signal

import dockerd
import pytest
from api import FOREVER_PYTHON, make_set, run_body, wait_until_settled, watching
from server import Server, wait_until

SETTINGS = {"SANDBOX_PROVIDER": "docker", "RUNNER_IMAGE": dockerd.IMAGE, "RATE_LIMIT_MAX": 0, "RIDDLE_POOL_SIZE": 2}


def settings(daemon, **more):
    return {**SETTINGS, "DOCKER_HOST": daemon.host, **more}


@pytest.fixture(scope="module")
def served(docker_daemon, tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("docker"), **settings(docker_daemon))
    make_set(server)
    with server:
        wait_until_settled(server)
        yield server


def result_of(answer, status="succeeded"):
    assert answer.status == 200, answer.body[:2000]
    assert answer.json["status"] == status, answer.json
    return answer.json["result"]


def python(server, code, status="succeeded", **more):
    return result_of(server.post("/runs", run_body("shop", python=code, python_policy="open", **more)), status)


def chat(server, message, thread=None):
    answer = server.post("/chat", {"dataset_id": "shop", "message": message, **({"thread_id": thread} if thread else {})})
    assert answer.status == 200, answer.body
    return answer.json


def test_sql(served):
    result = result_of(served.sql("shop", "SELECT region, sum(total) AS total FROM sales GROUP BY region ORDER BY region"))
    assert result["rows"] == [["north", 40.5], ["south", 20.0]]


def test_python_sees_tables_files_and_a_container(served):
    result = python(served, "import os, socket\nprint(len(sales), open('/data/sales.csv').readline().strip(), socket.gethostname(), os.getuid())")
    assert result["stdout"] == "3 id,region,total riddle 64646\n"


def test_what_is_ingested_in_a_container_is_a_table_of_this_host(served):
    tables = list((served.home / "tables").glob("*.duckdb"))
    assert tables and all(t.stat().st_size > 4096 and t.read_bytes()[8:12] == b"DUCK" for t in tables)


def test_a_thread_keeps_its_state(served):
    thread = chat(served, "PYTHON: x = 41")["thread_id"]
    assert chat(served, "PYTHON: x + 1", thread)["result"]["rows"] == [[42]]
    assert chat(served, "SQL: SELECT count(*) AS n FROM sales", thread)["result"]["rows"] == [[3]]
    assert chat(served, "PYTHON: x", thread)["result"]["rows"] == [[41]]


def test_figures(served):
    [figure] = python(served, "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\nplt.show()")["outputs"]
    assert base64.b64decode(figure["png"]).startswith(b"\x89PNG\r\n")


def test_an_upload_is_ingested_and_asked(served):
    rows = "".join(f"{i},{i * 2}\n" for i in range(50000))
    uploaded = served.upload(("numbers.csv", "a,b\n" + rows))
    assert uploaded.status == 200, uploaded.body
    [file] = uploaded.json["files"]
    assert result_of(served.sql(file["file_id"], "SELECT count(*), sum(b) FROM numbers"))["rows"] == [[50000, 50000 * 49999]]


def test_memory(served):
    result = python(served, "x = bytearray(900 << 20)", "failed")
    assert (result["error"]["type"], result["verdict"]) == ("MEMORY_LIMIT", "memory")


def test_timeout_interrupts(served):
    answer = served.post("/runs", run_body("shop", python="while True: pass", timeout_seconds=1))
    assert (answer.json["status"], answer.json["result"]["error"]["type"]) == ("timed_out", "RUNNER_TIMEOUT")


def test_processes(served):
    code = "import os, time\nchildren = []\nwhile True:\n    pid = os.fork()\n    if pid == 0:\n        time.sleep(60)\n        os._exit(0)"
    result = python(served, code, "failed")
    assert result["verdict"] == "processes", result


def test_output_is_cut(served):
    result = python(served, "print('x' * 100000)", max_output_bytes=2000)
    assert len(result["stdout"]) == 2000


def test_no_network(served):
    result = python(served, "import socket\nsocket.create_connection(('127.0.0.1', 80), 1)", "failed")
    assert "PermissionError" in result["error"]["message"]


def test_a_run_is_stopped(served):
    with watching(served, run_body("shop", python=FOREVER_PYTHON, timeout_seconds=60)) as watched:
        watched.executing()
        assert served.delete(f"/runs/{watched.run_id}").status == 202
        assert watched.until("result")["status"] == "cancelled"


def mine(daemon, server):
    home = (server.home / "docker/id").read_text()
    return daemon.containers(f"io.riddle.home={home}")


def test_a_container_killed_from_outside_is_told(served, docker_daemon):
    with watching(served, run_body("shop", python=FOREVER_PYTHON, timeout_seconds=60)) as watched:
        watched.until("step")
        for one in mine(docker_daemon, served):
            if one["State"] == "running":
                docker_daemon.call("POST", f"/containers/{one['Id']}/kill")
        result = watched.until("result")["result"]
    assert result["verdict"] == "killed", result


def test_pooled_containers_wait_paused_but_the_newest(served, docker_daemon):
    def states(kind):
        return sorted(c["State"] for c in mine(docker_daemon, served) if f"--attached={kind} " in c["Command"])

    assert result_of(served.sql("shop", "SELECT 1 AS x"))["rows"] == [[1]]  # what is gone from the pool is noticed when one is taken
    wait_until(lambda: states("sql").count("paused") >= 1 and "running" in states("sql"), "the pool is full", 60)
    assert result_of(served.sql("shop", "SELECT 2 AS x"))["rows"] == [[2]]


def test_what_a_container_is_given(served, docker_daemon):
    one = docker_daemon.call("GET", f"/containers/{mine(docker_daemon, served)[0]['Id']}/json")[1]
    host = one["HostConfig"]
    assert (host["NetworkMode"], host["ReadonlyRootfs"], host["CapDrop"], host["IpcMode"]) == ("none", True, ["ALL"], "none")
    assert host["Memory"] == host["MemorySwap"] == 512 << 20 and host["PidsLimit"] == 66 and host["NanoCpus"] == 2 * 10**9
    assert "no-new-privileges" in host["SecurityOpt"] and set(host["Tmpfs"]) == {"/workspace", "/tmp"} and not host["Binds"]
    assert all("noexec" in options and "nosuid" in options for options in host["Tmpfs"].values())
    assert one["Config"]["User"] == "64646:64646" and [m["Type"] for m in one["Mounts"]] == ["volume"]


def test_nothing_is_left_when_the_server_stops_and_a_new_one_sweeps(docker_daemon, tmp_path):
    server = Server(tmp_path, **settings(docker_daemon))
    make_set(server)
    with server:
        wait_until(lambda: any(c["State"] == "paused" for c in mine(docker_daemon, server)), "a container waits", 60)
        server.stop(signal.SIGKILL)
        left = {c["Id"] for c in mine(docker_daemon, server)}
        assert left, "a paused container cannot end by itself"
        server.start()
        wait_until(lambda: not left & {c["Id"] for c in mine(docker_daemon, server)}, "the leftovers are gone", 60)
        assert server.stop() == 0
    wait_until(lambda: mine(docker_daemon, server) == [], "its containers are gone")
    assert [p.name for p in (server.home / "docker").iterdir()] == ["id"]


def test_containers_of_another_home_and_of_a_living_process_are_left_alone(docker_daemon, served, programs, tmp_path):
    before = {c["Id"] for c in mine(docker_daemon, served)}
    csv = tmp_path / "t.csv"
    csv.write_text("a\n1\n")
    env = {**settings(docker_daemon), "RIDDLE_HOME": str(served.home), "RATE_LIMIT_MAX": "0", "RIDDLE_POOL_SIZE": "2"}
    ran = programs.run("--sql", "SELECT sum(a) AS s FROM t", csv, env=env)
    assert ran.status == 0 and "1" in ran.text, ran.err
    second = Server(tmp_path / "second", **settings(docker_daemon))
    make_set(second)
    with second:
        wait_until_settled(second)
        assert before & {c["Id"] for c in mine(docker_daemon, served)}
    assert before & {c["Id"] for c in mine(docker_daemon, served)}


def test_the_command_line(docker_daemon, programs, data):
    env = {k: str(v) for k, v in settings(docker_daemon).items()}
    ran = programs.run("--sql", "SELECT region, count(*) AS n FROM orders GROUP BY 1 ORDER BY 1", data / "orders.csv", env=env)
    assert ran.status == 0 and "north" in ran.text, ran.err


def test_an_image_that_is_not_there_is_told_with_what_to_do(docker_daemon, programs, data):
    env = {**{k: str(v) for k, v in settings(docker_daemon).items()}, "RUNNER_IMAGE": "no-such-image:at-all"}
    ran = programs.run("--sql", "SELECT 1 AS x", data / "orders.csv", env=env)
    assert ran.status != 0 and "the image 'no-such-image:at-all' is not there: run 'make image'" in ran.err


def test_no_daemon(programs, data, tmp_path):
    env = {"SANDBOX_PROVIDER": "docker", "DOCKER_HOST": f"unix://{tmp_path}/none.sock"}
    ran = programs.run("--sql", "SELECT 1 AS x", data / "orders.csv", env=env)
    assert ran.status != 0
    assert f"the Docker daemon: cannot connect to {tmp_path}/none.sock: No such file or directory" in ran.err
    said = programs.riddle("doctor", env=env)
    assert said.status != 0 and "FAIL     docker daemon" in said.text


@pytest.mark.parametrize("host, message", [("ssh://x", "is neither unix:// nor tcp://"), ("tcp://localhost", "is not tcp://HOST:PORT"),
                                           ("unix://relative", "is not the absolute path of a socket")])
def test_hosts_that_cannot_be_spoken_to(programs, data, host, message):
    ran = programs.run("--sql", "SELECT 1 AS x", data / "orders.csv", env={"SANDBOX_PROVIDER": "docker", "DOCKER_HOST": host})
    assert ran.status != 0 and message in ran.err


def test_doctor(docker_daemon, programs):
    said = programs.riddle("doctor", env={k: str(v) for k, v in settings(docker_daemon).items()})
    for name in ("docker daemon", "docker image", "docker runtime", "docker limits"):
        assert f"PASS     {name}" in said.text, said.text


@pytest.fixture(scope="module")
def gvisor(tmp_path_factory):
    """A daemon with runsc, without its network stack."""
    why = dockerd.why_not() or (None if os.path.exists("/usr/bin/runsc") else "no runsc: the package runsc is not installed")
    if why:
        pytest.skip(why)
    wrapper = tmp_path_factory.mktemp("runsc") / "runsc"
    wrapper.write_text('#!/bin/sh\nexec /usr/bin/runsc --network=none "$@"\n')
    wrapper.chmod(0o755)
    daemon = dockerd.Daemon([("runsc", wrapper)])
    try:
        daemon.load_image()
        yield daemon
    finally:
        daemon.stop()


@pytest.mark.long
def test_gvisor(gvisor, tmp_path):
    server = Server(tmp_path, **settings(gvisor, DOCKER_RUNTIME="runsc"))
    make_set(server)
    with server:
        assert result_of(server.sql("shop", "SELECT count(*) FROM sales"))["rows"] == [[3]]
        thread = chat(server, "PYTHON: x = 41")["thread_id"]
        assert chat(server, "PYTHON: x + len(sales)", thread)["result"]["rows"] == [[44]]
        uname = python(server, "print(open('/proc/version').read())")["stdout"]
        assert "gVisor" in uname or "4.4.0" in uname, uname
