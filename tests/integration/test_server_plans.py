"""Plans over HTTP: what they compile to, what is wrong with them, and that they mean what their SQL means."""

import json

import pytest
from api import refused, run_body

ORDERS = {"dataset_id": "ecommerce", "table": "orders"}

PLANS = [
    {**ORDERS, "select": [{"column": "status"}, {"func": "sum", "column": "total", "alias": "revenue"}], "group_by": ["status"],
     "order_by": [{"expr": "status"}]},
    {**ORDERS, "select": [{"column": "order_date", "bucket": "month", "alias": "month"}, {"func": "count", "column": "*", "alias": "n"}],
     "group_by": ["month"], "order_by": [{"expr": "month"}]},
    {**ORDERS, "joins": [{"table": "order_items"}, {"table": "inventory", "type": "left"}],
     "select": [{"column": "inventory.category", "alias": "category"}, {"func": "sum", "expr": "price * quantity", "alias": "revenue"}],
     "group_by": ["inventory.category"], "having": [{"func": "count", "column": "*", "op": ">", "value": 10}],
     "order_by": [{"expr": "revenue", "direction": "desc"}]},
    {**ORDERS, "distinct": True, "select": [{"column": "status"}], "order_by": [{"expr": "status", "direction": "desc"}], "offset": 1},
    {**ORDERS, "select": [{"column": "order_id"}, {"expr": "round(total * 1.19, 2)", "alias": "gross"}],
     "filters": [{"or": [{"column": "status", "op": "startswith", "value": "can"}, {"not": {"column": "total", "op": "<", "value": 3000}}]}],
     "order_by": [{"expr": "order_id"}], "limit": 17},
]


def compiled(server, plan):
    answer = server.post("/plans/compile", {"plan": plan})
    assert answer.status == 200, answer.body
    assert set(answer.json) == {"sql", "plan"} and answer.json["plan"] == plan
    return answer.json["sql"]


def test_compile(shared):
    assert compiled(shared, PLANS[0]) == ('SELECT\n  "status",\n  SUM("total") AS "revenue"\nFROM "orders"\nGROUP BY "status"\n'
                                          'ORDER BY "status" ASC\nLIMIT 200')
    assert compiled(shared, ORDERS) == 'SELECT *\nFROM "orders"\nLIMIT 200'
    quoted = {**ORDERS, "filters": [{"column": "status", "op": "=", "value": "it's; DROP TABLE orders --"}]}
    assert "\"status\" = 'it''s; DROP TABLE orders --'" in compiled(shared, quoted)


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_a_plan_gives_the_rows_of_its_sql(shared, plan):
    sql = compiled(shared, plan)
    by_plan = shared.post("/runs", run_body("ecommerce", plan=plan)).json
    by_sql = shared.sql("ecommerce", sql).json
    assert (by_plan["status"], by_sql["status"]) == ("succeeded", "succeeded"), (by_plan["result"], by_sql["result"])
    assert by_plan["details"]["compiled_sql"] == sql
    assert by_plan["result"]["row_count"] > 0
    for key in ("columns", "types", "rows", "truncated"):
        assert by_plan["result"][key] == by_sql["result"][key]


BAD = [
    ({"select": []}, "Select list cannot be empty if provided"),
    ({"limit": 0}, "'limit' must be an integer between 1 and 1000, not 0"),
    ({"select": [{"column": "totl"}]}, "did you mean 'total'?"),
    ({"table": "order"}, "did you mean 'orders'?"),
    ({"select": [{"alias": "x"}]}, "Either 'column' or 'expr' must be provided"),
    ({"filters": [{"column": "total", "op": "between", "value": [1]}]}, "Operator 'between' requires a list of exactly 2 values"),
    ({"filters": [{"column": "total", "op": "in", "value": 1}]}, "Operator 'in' requires a list value"),
    ({"filters": [{"column": "total", "op": "is_null", "value": 1}]}, "Operator is_null should not have a value"),
    ({"filters": [{"column": "total", "op": "="}]}, "Operator = requires a value"),
    ({"select": [{"column": "status"}, {"func": "sum", "column": "total", "alias": "s"}]},
     "When mixing aggregations with regular columns, group_by is required"),
    ({"select": [{"expr": "price * ", "alias": "x"}]}, "column 9: expected a column"),
    ({"select": [{"expr": "(SELECT 1)", "alias": "x"}]}, "expression '(SELECT 1)'"),
]


@pytest.mark.parametrize("change, message", BAD, ids=[json.dumps(change) for change, _ in BAD])
def test_what_is_wrong_is_said_alike_everywhere(shared, change, message):
    plan = {**ORDERS, **change}
    said = refused(shared.post("/plans/compile", {"plan": plan}), 400, "VALIDATION_ERROR")
    assert message in said
    assert refused(shared.post("/runs", run_body("ecommerce", plan=plan)), 400, "VALIDATION_ERROR") == said
    assert refused(shared.post("/runs/stream", run_body("ecommerce", plan=plan)), 400, "VALIDATION_ERROR") == said


def test_datasets_of_plans(shared):
    unknown = {**ORDERS, "dataset_id": "ecommerse"}
    assert refused(shared.post("/plans/compile", {"plan": unknown}), 404, "NOT_FOUND") == "Unknown dataset_id: ecommerse"
    other = {"dataset_id": "support", "table": "tickets"}
    message = refused(shared.post("/runs", run_body("ecommerce", plan=other)), 400, "VALIDATION_ERROR")
    assert message == "the plan is for dataset 'support', the request for 'ecommerce'"
    nothing = refused(shared.post("/plans/compile", {"plan": {}}), 400, "VALIDATION_ERROR")
    assert nothing == "'dataset_id' is required"


def test_patterns_are_taken_literally(shared):
    """% and _ in a value match themselves."""
    for value in ("comp%", "c_mpleted", "com\\pleted"):
        plan = {**ORDERS, "select": [{"func": "count", "column": "*", "alias": "n"}],
                "filters": [{"column": "status", "op": "contains", "value": value}]}
        assert shared.post("/runs", run_body("ecommerce", plan=plan)).json["result"]["rows"] == [[0]]
