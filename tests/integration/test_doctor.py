"""`riddle doctor`: what it checks, what it says to do, and its exit status."""

import json
import os
import re
import stat

import pytest

from conftest import KERNEL


def checks(done):
    report = done.response
    assert set(report) == {"status", "version", "checks"}
    for check in report["checks"]:
        assert check["status"] in ("pass", "caution", "fail") and check["name"] and check["detail"]
        assert check["status"] == "pass" or check["remedy"], f"no remedy: {check}"
    return {check["name"]: check for check in report["checks"]}


def test_this_machine(programs):
    """The machine that runs the tests can run Riddle."""
    done = programs.riddle("doctor", "--json")
    found = checks(done)
    assert [c for c in found.values() if c["status"] == "fail"] == []
    assert done.status == 0
    assert {"riddle-kernel", "home", "disk space", "memory", "processors"} < found.keys()
    assert len(found) > 8, "the layers of the jail are missing"


def test_readable(programs):
    done = programs.riddle("doctor")
    assert done.status == 0
    lines = done.text.splitlines()
    assert lines[-1].endswith(", 0 failed")
    assert all(line.startswith(("PASS     ", "CAUTION  ", "         ")) for line in lines[:-1])
    assert "\x1b" not in done.text


def fake_kernel(tmp_path, body):
    path = tmp_path / "riddle-kernel"
    path.write_text("#!/bin/sh\n" + body)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return {"RIDDLE_KERNEL": str(path)}


@pytest.fixture
def version(programs):
    return programs.riddle("--version").text.split()[1]


def test_kernel_missing(programs, tmp_path):
    done = programs.riddle("doctor", "--json", env={"RIDDLE_KERNEL": str(tmp_path / "nothing")})
    check = checks(done)["riddle-kernel"]
    assert done.status == 1 and done.response["status"] == "fail"
    assert check["status"] == "fail" and "No such file" in check["detail"] and "make" in check["remedy"]


def test_kernel_of_another_version(programs, tmp_path):
    done = programs.riddle("doctor", "--json", env=fake_kernel(tmp_path, "echo riddle-kernel 0.0.0-other\n"))
    check = checks(done)["riddle-kernel"]
    assert done.status == 1 and "says it is 'riddle-kernel 0.0.0-other'" in check["detail"]


def test_library_missing(programs, tmp_path):
    env = fake_kernel(tmp_path, "echo 'error while loading shared libraries: libduckdb.so: no such file' >&2\nexit 127\n")
    done = programs.riddle("doctor", "--json", env=env)
    check = checks(done)["riddle-kernel"]
    assert done.status == 1 and "libduckdb.so" in check["detail"] and check["remedy"] == \
        "run 'make deps', which fetches DuckDB"


def test_probe_missing(programs, tmp_path, version):
    env = fake_kernel(tmp_path, f'[ "$1" = --version ] && echo riddle-kernel {version} && exit\necho no >&2\nexit 2\n')
    done = programs.riddle("doctor", "--json", env=env)
    found = checks(done)
    assert done.status == 1 and found["riddle-kernel"]["status"] == "pass"
    assert found["probe"]["status"] == "fail" and "no (exit status 2)" in found["probe"]["detail"]


def layers(tmp_path, version, *found):
    answer = json.dumps({"layers": list(found)})
    return fake_kernel(tmp_path, f'[ "$1" = --version ] && echo riddle-kernel {version} && exit\n'
                                 f'[ "$1" = --probe ] || exec {KERNEL} "$@"\n'
                                 f"cat <<'END'\n{answer}\nEND\n")


def test_layers(programs, tmp_path, version):
    good = {"name": "namespaces", "status": "pass", "detail": "all seven"}
    weak = {"name": "cgroup", "status": "caution", "detail": "rlimits and a watchdog", "remedy": "delegate a cgroup"}
    bad = {"name": "seccomp", "status": "fail", "detail": "the kernel has none", "remedy": "use another kernel"}
    odd = {"name": "landlock", "status": "splendid", "detail": "?", "remedy": "ask"}

    done = programs.riddle("doctor", env=layers(tmp_path, version, good, weak))
    assert done.status == 0
    assert re.search(r"^PASS     namespaces  +all seven$", done.text, re.M)
    assert re.search(r"^CAUTION  cgroup  +rlimits and a watchdog\n +→ delegate a cgroup$", done.text, re.M)

    done = programs.riddle("doctor", "--json", env=layers(tmp_path, version, good, weak))
    assert done.status == 0 and done.response["status"] == "caution"

    done = programs.riddle("doctor", "--json", env=layers(tmp_path, version, good, weak, bad))
    assert done.status == 1 and checks(done)["seccomp"]["remedy"] == "use another kernel"

    done = programs.riddle("doctor", "--json", env=layers(tmp_path, version, odd))
    assert done.status == 1 and checks(done)["landlock"]["status"] == "fail"

    done = programs.riddle("doctor", "--json", env=layers(tmp_path, version))
    assert done.status == 1 and "names no layers" in checks(done)["probe"]["detail"]


def test_home_is_a_file(programs, tmp_path):
    (tmp_path / "file").write_text("")
    done = programs.riddle("doctor", "--json", env={"RIDDLE_HOME": str(tmp_path / "file")})
    check = checks(done)["home"]
    assert done.status == 1 and check["status"] == "fail" and "RIDDLE_HOME" in check["remedy"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_home_not_writable(programs, tmp_path):
    (tmp_path / "locked").mkdir(mode=0o500)
    done = programs.riddle("doctor", "--json", env={"RIDDLE_HOME": str(tmp_path / "locked")})
    assert done.status == 1 and "Permission denied" in checks(done)["home"]["detail"]


@pytest.mark.parametrize("model,status,says", [("gpt-4.1-nano", "caution", "ended it on 2026-10-23"), ("gpt-6-luna", "pass", "gpt-6-luna by openai"),
                                               ("llama3.1:8b", "pass", "llama3.1:8b")])
def test_model_near_its_end(programs, model, status, says):
    found = checks(programs.riddle("doctor", "--json", env={"OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "OPENAI_MODEL": model}))
    assert found["model"]["status"] == status and says in found["model"]["detail"]
    assert status == "pass" or "OPENAI_MODEL" in found["model"]["remedy"]


def test_model_without_its_key(programs):
    done = programs.riddle("doctor", "--json", env={"LLM_PROVIDER": "anthropic"})
    assert checks(done)["model"]["status"] == "fail" and done.status == 1


def test_usage(programs):
    done = programs.riddle("doctor", "--jsn")
    assert (done.status, done.err) == (2, "riddle: unknown option '--jsn' of 'doctor'; did you mean '--json'?\n")
    done = programs.riddle("doctor", "x")
    assert done.status == 2 and "takes no 'x'" in done.err
