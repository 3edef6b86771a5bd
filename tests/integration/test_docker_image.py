"""The image of the docker provider and the relay in it (`riddle-kernel --attached`), spoken to as the provider does."""

import hashlib
import json
import struct
import time

import dockerd
import pytest
import wire
from dockerd import BUSY, CONTROL, DATA, EXIT, FILE, INTERRUPT, READY, STDOUT, USAGE, Attached

pytestmark = [pytest.mark.plain, pytest.mark.skipif(dockerd.SANITIZED, reason="the image is the same for every tree")]


@pytest.fixture
def attach(docker_daemon):
    made = []

    def make(kind, start=None, files=(), **host):
        made.append(Attached(docker_daemon, kind, **host))
        made[-1].until(READY)
        made[-1].send(BUSY, b"\1")
        for target, content in files:
            made[-1].send(FILE, json.dumps({"target": target, "size": len(content)}).encode())
            made[-1].send(DATA, content)
        if start is not None:
            made[-1].tell(wire.message("start", **{**wire.START, **start}))
            ready = messages(made[-1].until(CONTROL))
            assert ready == [{"message": "ready", "id": 0, "version": wire.VERSION, "missing": ""}]
        return made[-1]

    yield make
    for one in made:
        one.close()


def messages(seen):
    found, rest = wire.messages(seen[CONTROL])
    assert rest == b""
    return found


def run(attached, kind, code, until=CONTROL):
    attached.tell(wire.execute(1, kind, code))
    return attached.until(until)


def test_sql_runs_in_a_container(attach):
    result = messages(run(attach("sql", {}), "sql", "SELECT 40 + 2 AS x"))[-1]
    assert (result["verdict"], result["rows"]) == ("ok", [[42]])


def test_output_comes_before_its_answer_and_state_is_kept(attach):
    kernel = attach("python", {})
    run(kernel, "python", "x = 'kept'")
    seen = run(kernel, "python", "print(x)")
    assert seen[STDOUT] == b"kept\n" and messages(seen)[-1]["verdict"] == "ok"


def test_usage_is_told_with_each_answer(attach):
    cpu_us, peak, oom_kills, refused = struct.unpack("<4q", run(attach("sql", {}), "sql", "SELECT 1")[USAGE][-32:])
    assert cpu_us > 1000 and (8 << 20) < peak < (512 << 20) and (oom_kills, refused) == (0, 0)


def test_files_are_put_where_code_looks_for_them(attach):
    kernel = attach("python", {}, files=[("data/orders.csv", b"a,b\n1,2\n"), ("tables/0.duckdb", b"x" * 200000)])
    seen = run(kernel, "python", "import hashlib; print(open('/data/orders.csv').read(), "
                                 "hashlib.sha256(open('/data/.tables/0.duckdb', 'rb').read()).hexdigest())")
    assert seen[STDOUT].decode() == f"a,b\n1,2\n {hashlib.sha256(b'x' * 200000).hexdigest()}\n"


def test_data_cannot_be_changed_by_user_code(attach):
    kernel = attach("python", {}, files=[("data/orders.csv", b"a,b\n1,2\n")])
    result = messages(run(kernel, "python", "import os; os.chmod('/data/orders.csv', 0o644); open('/data/orders.csv', 'w')"))[-1]
    assert "PermissionError" in result["error"]["message"], result


def test_a_file_outside_data_is_refused(attach):
    kernel = attach("sql")
    kernel.send(FILE, json.dumps({"target": "data/../tmp/x", "size": 1}).encode())
    with pytest.raises(EOFError, match="a container has no place for the file 'data/../tmp/x'"):
        kernel.until(EXIT)


def test_a_writable_directory_is_sent_back_before_the_answer(attach):
    csv = b"id,name\n" + b"".join(b"%d,name %d\n" % (i, i % 7) for i in range(20000))
    kernel = attach("sql", files=[("data/t.csv", csv)])
    kernel.send(FILE, json.dumps({"target": "out", "writable": True}).encode())
    mounts = [{"target": "data/t.csv", "path": "/data/t.csv"}, {"target": "out", "path": "/data/.out", "writable": True}]
    kernel.tell(wire.message("start", **{**wire.START, "mounts": mounts}))
    kernel.until(CONTROL)
    kernel.tell(wire.message("ingest", 1, name="t.csv", unsynced=False))
    frames = [kernel.frame()]
    while not (frames[-1][0] == CONTROL and messages({CONTROL: frames[-1][1]})[-1]["message"] == "ingested"):
        frames.append(kernel.frame())
    files = [json.loads(data) for kind, data in frames if kind == FILE]
    assert [f["target"] for f in files] == ["out/table.duckdb"]
    table = b"".join(data for kind, data in frames if kind == DATA)
    assert len(table) == files[0]["size"] > 10000 and table[8:12] == b"DUCK"
    assert messages({CONTROL: frames[-1][1]})[-1]["verdict"] == "ok"


def test_an_interrupt_stops_a_cell_and_keeps_the_state(attach):
    kernel = attach("python", {})
    run(kernel, "python", "x = 7")
    kernel.tell(wire.execute(2, "python", "print('begun', flush=True)\nwhile True: pass"))
    kernel.until(STDOUT)
    kernel.send(INTERRUPT)
    assert messages(kernel.until(CONTROL))[-1]["verdict"] == "interrupted"
    assert run(kernel, "python", "print(x)")[STDOUT] == b"7\n"


def test_nothing_is_sent_while_no_run_is_under_way(attach):
    kernel = attach("python", {})
    code = "import os, time\nif os.fork() == 0:\n    time.sleep(0.3)\n    os.write(1, b'late\\n')\n    os._exit(0)"
    run(kernel, "python", code)
    kernel.send(BUSY, b"\0")
    kernel.sock.settimeout(1.5)
    with pytest.raises(TimeoutError):
        kernel.frame()
    kernel.sock.settimeout(60)
    kernel.send(BUSY, b"\1")
    assert kernel.until(STDOUT)[STDOUT] == b"late\n"


def test_memory_that_runs_out_ends_the_kernel_and_is_told(attach):
    kernel = attach("python", {}, Memory=256 << 20, MemorySwap=256 << 20)
    seen = run(kernel, "python", "x = bytearray(600 << 20)", until=EXIT)
    assert json.loads(seen[EXIT]) == {"code": -1, "signal": 9}
    assert struct.unpack("<4q", seen[USAGE][-32:])[2] >= 1


def test_processes_are_limited(attach):
    kernel = attach("python", {}, PidsLimit=12)
    code = "import os\nn = 0\ntry:\n    while True:\n        if os.fork() == 0:\n            import time; time.sleep(60)\n        n += 1\n" \
           "except BlockingIOError:\n    print('refused')"
    seen = run(kernel, "python", code)
    assert seen[STDOUT] == b"refused\n" and struct.unpack("<4q", seen[USAGE][-32:])[3] >= 1


def test_the_relay_is_out_of_reach_of_user_code(attach):
    kernel = attach("python", {})
    code = "import os, signal\nfor s in (signal.SIGKILL, signal.SIGTERM):\n    try:\n        os.kill(1, s)\n    except PermissionError:\n" \
           "        pass\nfor name in ('fd/1', 'mem', 'environ'):\n    try:\n        open(f'/proc/1/{name}', 'wb')\n" \
           "    except OSError as e:\n        print(e.errno)"
    seen = run(kernel, "python", code)
    assert seen[STDOUT] == b"13\n13\n13\n" and messages(seen)[-1]["verdict"] == "ok"


@pytest.mark.parametrize("weaker, step", [({"ReadonlyRootfs": False}, "the container's root is not read-only"),
                                          ({"CapDrop": [], "CapAdd": ["ALL"]}, None)])
def test_a_container_that_lacks_a_wall_runs_nothing(attach, weaker, step):
    kernel = attach("sql", **weaker)
    kernel.tell(wire.message("start", **wire.START))
    said = messages(kernel.until(CONTROL))[-1]
    if step:
        assert said["message"] == "failed" and step in said["error"]["message"]
    else:
        assert said["message"] == "ready"  # capabilities of a user that is not root are none


def test_the_container_ends_when_riddle_is_gone(attach, docker_daemon):
    kernel = attach("sql", {})
    kernel.sock.close()
    until = time.monotonic() + 30
    while docker_daemon.call("GET", f"/containers/{kernel.id}/json")[1]["State"]["Running"]:
        assert time.monotonic() < until
        time.sleep(0.05)


def test_an_unprivileged_user_and_labels(docker_daemon):
    status, image = docker_daemon.call("GET", f"/images/{dockerd.IMAGE}/json")
    assert status == 200 and image["Config"]["User"] == "64646:64646"
    assert {"io.riddle.version", "io.riddle.mux", "io.riddle.wire"} <= set(image["Config"]["Labels"])
    assert image["Size"] < 600 << 20


RUNNER = {"NetworkMode": "none", "ReadonlyRootfs": True, "PidsLimit": 64, "Memory": 512 << 20, "NanoCpus": 500000000,
          "Tmpfs": {"/tmp": "rw,noexec,nosuid,size=64m"}}


@pytest.mark.parametrize("entrypoint, request_", [(None, {"sql": "SELECT sum(b) AS total FROM t"}),
                                                  (["python3", "/app/runner_python.py"], {"python_code": "result = t.b.sum()"})])
def test_the_image_is_a_runner_with_the_flags_of_the_seed(docker_daemon, tmp_path, entrypoint, request_):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3,4\n")
    tmp_path.chmod(0o755)
    spec = {"Image": dockerd.IMAGE, "OpenStdin": True, "StdinOnce": True, "AttachStdin": True, "AttachStdout": True, "AttachStderr": True,
            "HostConfig": {**RUNNER, "Binds": [f"{tmp_path}:/data:ro"]}}
    if entrypoint:
        spec.update(Entrypoint=entrypoint[:1], Cmd=entrypoint[1:])
    status, made = docker_daemon.call("POST", "/containers/create", spec)
    assert status == 201, made
    asked = {"dataset_id": "d", "files": [{"name": "t.csv", "path": "/data/t.csv"}], **request_}
    out, words = dockerd.converse(docker_daemon, made["Id"], json.dumps(asked).encode())
    docker_daemon.call("DELETE", f"/containers/{made['Id']}?force=1&v=1")
    response = json.loads(out)
    assert (response["status"], response["rows"]) == ("success", [[6]]), words
