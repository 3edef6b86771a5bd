"""`riddle plan` from the outside: what it prints, and how it fails."""

import json

import pytest
from conftest import ROOT

GOLDEN = ROOT / "tests/golden"
REGISTRY = GOLDEN / "registry.json"
PLAN = {"dataset_id": "ecommerce", "table": "orders", "select": [{"column": "total"}]}


def test_compile_prints_the_sql(programs):
    done = programs.riddle("plan", "compile", "--schema", REGISTRY, GOLDEN / "plans/join-two.json")
    assert (done.status, done.err) == (0, "")
    assert done.text == (GOLDEN / "plans/join-two.sql").read_text()


def test_compile_reads_standard_input(programs):
    done = programs.riddle("plan", "compile", "-", stdin=json.dumps(PLAN))
    assert (done.status, done.err) == (0, "")
    assert done.text == 'SELECT\n  "total"\nFROM "orders"\nLIMIT 200\n'


@pytest.mark.parametrize("plan, text", [
    (PLAN, "ok\n"),
    ({**PLAN, "limit": 1000}, "ok, but broad: it has no filter and no aggregation\n"),
])
def test_check(programs, plan, text):
    done = programs.riddle("plan", "check", "-", stdin=json.dumps(plan))
    assert (done.status, done.text, done.err) == (0, text, "")


def test_the_registry_is_read_for_the_plans_dataset(programs):
    done = programs.riddle("plan", "check", "--schema", REGISTRY, "-", stdin=json.dumps({**PLAN, "dataset_id": "shop"}))
    assert (done.status, done.text) == (1, "")
    assert done.err == f"riddle: {REGISTRY}: no dataset 'shop' in the registry\n"


def test_a_name_is_checked_against_the_schema(programs):
    plan = {**PLAN, "select": [{"column": "totl"}]}
    done = programs.riddle("plan", "compile", "--schema", REGISTRY, "-", stdin=json.dumps(plan))
    assert (done.status, done.text) == (1, "")
    assert done.err == "riddle: Failed to compile QueryPlan: select[0]: Unknown column 'totl'; did you mean 'total'?\n"


def test_bad_json(programs):
    done = programs.riddle("plan", "check", "-", stdin="{")
    assert done.status == 1
    assert done.err.startswith("riddle: standard input: invalid JSON at line 1")


@pytest.mark.parametrize("arguments, message", [
    (["explain", "x"], "unknown action 'explain' of 'plan'; there are 'compile' and 'check'"),
    (["check"], "'plan check' takes one FILE ('-' for standard input); see 'riddle plan --help'"),
    (["check", "--shema", "x", "-"], "unknown option '--shema' of 'plan'; did you mean '--schema'?"),
    (["check", "--schema", "-", "-"], "the plan and the schema cannot both come from standard input"),
])
def test_usage(programs, arguments, message):
    done = programs.riddle("plan", *arguments)
    assert (done.status, done.text, done.err) == (2, "", f"riddle: {message}\n")
