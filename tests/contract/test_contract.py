"""The contract of sandbox providers: the same cases for the fake one, for the local one as root and as a plain user, and for Docker.

build/tests/tools/contract runs one case of one provider; it says on standard output what the provider did wrong.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/integration"))
import dockerd  # noqa: E402

BUILD = (ROOT / os.environ.get("RIDDLE_BUILD", "build")).resolve()
CONTRACT = BUILD / "tests/tools/contract"
PLAIN_ID = 65534
CASE_TIMEOUT_S = 120


def cases(provider):
    listed = subprocess.run([CONTRACT, "--list", provider], capture_output=True, text=True, timeout=60, check=True)
    return listed.stdout.split()


@pytest.fixture(scope="session")
def programs_for_plain(tmp_path_factory):
    """The programs where anybody can run them: the tree may lie below a directory that only its owner may enter."""
    tree = Path(tempfile.mkdtemp(prefix="riddle-contract-"))
    wanted = [BUILD / "riddle-kernel", CONTRACT,
              *(ROOT / "third_party/duckdb").rglob("libduckdb.so")]
    for path in wanted:
        copy = tree / (path.relative_to(ROOT) if path.is_relative_to(ROOT / "third_party") else
                       Path("build") / path.relative_to(BUILD))
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    for path in (tree, *tree.rglob("*")):
        path.chmod(0o755)
    yield tree / "build"
    shutil.rmtree(tree, ignore_errors=True)


def run_case(provider, case, home, build=BUILD, prefix=(), **settings):
    env = {k: v for k, v in os.environ.items() if not k.startswith("RIDDLE_")}
    env.update(RIDDLE_HOME=str(home), RIDDLE_KERNEL=str(build / "riddle-kernel"), RIDDLE_PRELOAD="", **settings)
    done = subprocess.run([*prefix, build / "tests/tools/contract", provider, case], env=env, cwd=home, capture_output=True,
                          text=True, timeout=CASE_TIMEOUT_S)
    assert done.returncode == 0 and not done.stdout, f"{done.stdout}{done.stderr[-2000:]}"


@pytest.mark.parametrize("case", cases("fake"))
def test_fake(case, tmp_path):
    run_case("fake", case, tmp_path)


@pytest.mark.plain
@pytest.mark.parametrize("case", cases("local"))
def test_local(case, tmp_path):
    run_case("local", case, tmp_path)


@pytest.mark.plain
@pytest.mark.parametrize("case", cases("local"))
def test_local_as_plain_user(case, programs_for_plain):
    if os.geteuid() != 0:
        pytest.skip("the test above ran as a plain user already")
    home = Path(tempfile.mkdtemp(prefix="riddle-contract-home-"))
    os.chown(home, PLAIN_ID, PLAIN_ID)
    try:
        run_case("local", case, home, programs_for_plain,
                 ["setpriv", f"--reuid={PLAIN_ID}", f"--regid={PLAIN_ID}", "--clear-groups"])
    finally:
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="module")
def daemon():
    """A Docker daemon of this test run, with the image of this tree."""
    why = dockerd.why_not()
    if why:
        pytest.skip(why)
    daemon = dockerd.Daemon()
    try:
        daemon.load_image()
        yield daemon
    finally:
        daemon.stop()


@pytest.mark.parametrize("case", cases("docker"))
def test_docker(case, tmp_path, daemon):
    run_case("docker", case, tmp_path, DOCKER_HOST=daemon.host, RUNNER_IMAGE=dockerd.IMAGE)
