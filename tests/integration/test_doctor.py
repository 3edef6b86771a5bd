"""`riddle doctor`: what it checks, what it says to do, and its exit status."""

import json
import os
import re
import stat

import independent_reader
import pytest

from conftest import KERNEL
from scripted_model import Raw, ScriptedModel, calls, text


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


# ---- --model: a conversation ----

KEY = "sk-secret-0123456789abcdef"


@pytest.fixture
def model():
    m = ScriptedModel()
    yield m
    m.close()


def talk(programs, model, **more):
    done = programs.riddle("doctor", "--json", "--model",
                           env={**{k: str(v) for k, v in model.settings.items()}, "OPENAI_API_KEY": KEY, "LLM_MAX_RETRIES": "0", **more})
    return done, {name.removeprefix("model: "): check for name, check in checks(done).items() if name.startswith("model: ")}


def test_model_that_can_everything(programs, model, tmp_path):
    both = calls(("temperature", {"city": "Paris"}), ("temperature", {"city": "Oslo"}))
    model.says(both, text("Paris has 21, ", "Oslo has -7; the picture is red."), text("Good", "bye."))
    done, found = talk(programs, model, LLM_VISION="on", LLM_RECORD=str(tmp_path / "record"))
    assert done.status == 0 and {c["status"] for name, c in found.items() if name != "usage"} == {"pass"}, found
    assert found["tools"]["detail"] == "2 calls in one reply" and found["images"]["detail"] == "it sees figures"
    assert "as they are written" in found["stream"]["detail"] and found.keys() == {"answers", "tools", "results", "stream", "images", "next turn", "usage"}
    # Requests and answers were kept, the key in none of them, in the form that test_recordings.py reads.
    index = [json.loads(line) for line in (tmp_path / "record" / "index.jsonl").read_text().splitlines()]
    assert len(index) == 3 and {(row["protocol"], row["status"], row["content_type"]) for row in index} == {("openai", 200, "text/event-stream")}
    seen = independent_reader.read("openai", (tmp_path / "record" / index[1]["file"]).read_bytes(), True).seen()
    assert seen["text"] == "Paris has 21, Oslo has -7; the picture is red."
    sent = json.loads((tmp_path / "record" / index[1]["request"]).read_text())
    assert [m["role"] for m in sent["messages"]].count("tool") == 2 and "image_url" in json.dumps(sent)
    assert not any(KEY in file.read_text() for file in (tmp_path / "record").iterdir())
    assert (tmp_path / "record").stat().st_mode & 0o777 == 0o700


def test_model_that_knows_no_tools_and_does_not_stream(programs, model):
    whole = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "one two"}, "finish_reason": "stop"}]}
    answer = Raw(json.dumps(whole).encode(), content_type="application/json")
    model.says(answer, answer, answer)
    done, found = talk(programs, model)
    assert done.status == 0 and found["tools"]["status"] == found["stream"]["status"] == "caution"
    assert "it called no tool, but said: one two" in found["tools"]["detail"] and found["next turn"]["status"] == "pass"
    assert "not tried" in found["images"]["detail"] and found["usage"]["status"] == "caution"


def test_model_that_refuses(programs, model, tmp_path):
    refusal = json.dumps({"error": {"message": f"invalid key {KEY} given"}}).encode()
    model.says(Raw(refusal, status=401, content_type="application/json"))
    done, found = talk(programs, model, LLM_RECORD=str(tmp_path))
    assert done.status == 1 and found["answers"]["status"] == "fail" and "OPENAI_API_KEY" in found["answers"]["detail"]
    assert KEY not in done.text and not any(KEY in file.read_text() for file in tmp_path.iterdir())
    assert "[key]" in (tmp_path / json.loads((tmp_path / "index.jsonl").read_text())["file"]).read_text()


def test_no_model_to_talk_with(programs):
    found = checks(programs.riddle("doctor", "--json", "--model", env={"OPENAI_API_KEY": "", "ANTHROPIC_API_KEY": ""}))
    assert found["model: answers"]["status"] == "caution" and found["model: answers"]["detail"] == "not tried: no model is configured"


def test_record_directory_that_cannot_be_made(programs, model, tmp_path):
    (tmp_path / "file").write_text("")
    done, found = talk(programs, model, LLM_RECORD=str(tmp_path / "file" / "x"))
    assert done.status == 1 and not found and "LLM_RECORD" in checks(done)["model"]["detail"]
