"""Every test has a time limit: one that hangs fails by its name, and the rest of its suite goes on.

The limit is of each phase (set-up, test, tear-down). A test that needs more says so: @pytest.mark.limit(seconds). Where an alarm does not
help, because no Python code runs, faulthandler_timeout of pytest.ini shows where every thread is before the suite is killed.
TEST_SLOWNESS is how many times longer than usual things may take.
"""

import faulthandler
import os
import signal

import pytest

LIMIT_S = 180
LONG_LIMIT_S = 3600
AGAIN_S = 20  # when a test goes on after its alarm


def limit_of(item):
    mark = item.get_closest_marker("limit")
    if mark:
        seconds = mark.args[0]
    else:
        seconds = LONG_LIMIT_S if item.get_closest_marker("long") else LIMIT_S
    return seconds * int(os.environ.get("TEST_SLOWNESS", "1"))


def limited(item, phase):
    seconds = limit_of(item)

    def on_alarm(_signal, _frame):
        pytest.fail(f"{phase} of {item.nodeid} took longer than {seconds} s")

    if seconds > LIMIT_S:
        faulthandler.cancel_dump_traceback_later()  # it is early for this test, and can crash a process whose threads are running
    before = signal.signal(signal.SIGALRM, on_alarm)
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_setup(item):
    yield from limited(item, "set-up")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    yield from limited(item, "the run")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_teardown(item):
    yield from limited(item, "tear-down")
