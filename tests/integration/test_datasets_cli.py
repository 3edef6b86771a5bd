"""`riddle datasets`: writes the bundled sets and lists what there is."""

import hashlib
import json
import subprocess

import pytest

from conftest import RIDDLE


@pytest.fixture
def datasets(programs, tmp_path):
    def call(*arguments, **more):
        return programs.call(RIDDLE, "datasets", *arguments, env={"DATASETS_DIR": str(tmp_path / "sets"), **more})

    call.dir = tmp_path / "sets"
    return call


def digests(folder):
    return {p.relative_to(folder).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest()
            for p in sorted(folder.rglob("*")) if p.is_file()}


def test_generate_is_the_same_everywhere(datasets, tmp_path):
    """Another directory, locale, time zone and umask give the same bytes."""
    first = datasets("generate")
    assert first.status == 0, first.err
    assert first.err == ""
    second = datasets("generate", tmp_path / "other/deep", LC_ALL="de_DE.UTF-8", TZ="Asia/Kathmandu")
    assert second.status == 0, second.err
    assert digests(datasets.dir) == digests(tmp_path / "other/deep")
    assert len(digests(datasets.dir)) == 7


def test_version_hash_can_be_checked_with_sha256sum(datasets):
    assert datasets("generate").status == 0
    entries = json.loads((datasets.dir / "registry.json").read_text())["datasets"]
    for entry in entries:
        names = [f["name"] for f in entry["files"]]
        lines = subprocess.run(["sha256sum", *names], cwd=datasets.dir / entry["id"], capture_output=True, check=True).stdout
        assert entry["version_hash"] == "sha256:" + hashlib.sha256(lines).hexdigest()


def test_list(datasets):
    assert datasets("generate").status == 0
    (datasets.dir / "My Data").mkdir()
    (datasets.dir / "My Data" / "a.csv").write_text("x\n1\n")
    listed = datasets("list")
    assert listed.status == 0, listed.err
    ids = [line.split()[0] for line in listed.text.splitlines()[2:]]
    assert ids == ["ecommerce", "support", "sensors", "transactions", "My_Data"]
    as_json = datasets("list", "--json").response["datasets"]
    assert [d["id"] for d in as_json] == ids
    assert set(as_json[0]) == {"id", "name", "description", "prompts", "version_hash"}
    assert len(as_json[0]["prompts"]) == 6


def test_list_names_what_is_left_out(datasets):
    (datasets.dir / "bad").mkdir(parents=True)
    (datasets.dir / "bad" / "a.csv").symlink_to("/etc/passwd")
    listed = datasets("list")
    assert listed.status == 0
    assert listed.err == ("riddle: folder 'bad' is left out: path 'bad/a.csv' leads out of the registry's directory\n")


@pytest.mark.parametrize("arguments, status, message", [
    (["list"], 1, "there is no directory"),
    (["lst"], 2, "'datasets' cannot 'lst'; did you mean list"),
    (["list", "a", "b"], 2, "'datasets list' takes one directory, not 'b' as well"),
    (["list", "--jsn"], 2, "unknown option '--jsn' of 'datasets'; did you mean '--json'?"),
    ([], 2, "usage: riddle datasets"),
])
def test_mistakes(datasets, arguments, status, message):
    done = datasets(*arguments)
    assert (done.status, done.out) == (status, b"")
    assert message in done.err


def test_help(datasets):
    done = datasets("--help")
    assert done.status == 0
    assert done.text.startswith("usage: riddle datasets generate")
