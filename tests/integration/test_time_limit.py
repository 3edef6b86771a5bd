"""A test that hangs fails by its name, and those after it run."""

import shutil
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent

CASES = """
import subprocess, time
import pytest

@pytest.fixture
def stuck():
    time.sleep(100)

@pytest.mark.limit(1)
def test_sleeps():
    time.sleep(100)

@pytest.mark.limit(1)
def test_waits_for_a_child():
    try:
        subprocess.run(["sleep", "100"])
    except Exception:
        pass

@pytest.mark.limit(1)
def test_has_a_stuck_fixture(stuck):
    pass

def test_goes_on():
    pass
"""


def test_hanging_tests_fail_by_name(tmp_path):
    shutil.copy(TESTS / "conftest.py", tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    limit: seconds\n")
    (tmp_path / "test_cases.py").write_text(CASES)
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "--tb=line", "-p", "no:cacheprovider", "."], cwd=tmp_path,
                          capture_output=True, text=True, timeout=60)
    assert "2 failed, 1 passed, 1 error" in done.stdout, done.stdout + done.stderr
    for phase, name in (("the run", "test_sleeps"), ("the run", "test_waits_for_a_child"), ("set-up", "test_has_a_stuck_fixture")):
        assert f"{phase} of test_cases.py::{name} took longer than 1 s" in done.stdout
