"""Questions in plain English, answered without a model: every prompt of the bundled sets, and everyday questions over other tables.

The figures come from SQL that was written by hand and runs through `riddle run`.
"""

import json
import os
import subprocess

import everyday
import pytest
from conftest import RIDDLE

ITEM_REVENUE = "quantity * price * (1 - discount)"

# set -> prompt -> (SQL, whether the order of the rows is part of the answer)
PROMPTS = {
    "ecommerce": {
        "What are the top 10 products by revenue?":
            (f"SELECT name, sum({ITEM_REVENUE}) FROM order_items JOIN inventory USING (product_id) GROUP BY product_id, name "
             "ORDER BY 2 DESC LIMIT 10", True),
        "Show me the return rate by category":
            ("SELECT category, avg(returned) FROM order_items JOIN orders USING (order_id) GROUP BY 1", False),
        "How did monthly revenue develop?":
            ("SELECT CAST(date_trunc('month', order_date) AS DATE) AS m, sum(total) FROM orders GROUP BY 1 ORDER BY 1", True),
        "Which customers spent the most?":
            ("SELECT customer_id, sum(total) FROM orders GROUP BY 1 ORDER BY 2 DESC LIMIT 10", True),
        "What is the average order value by status?": ("SELECT status, avg(total) FROM orders GROUP BY 1", False),
        "Which products are out of stock?": ("SELECT product_id, name FROM inventory WHERE stock = 0", False),
    },
    "support": {
        "What's our SLA compliance rate by priority level?": ("SELECT priority, avg(sla_met) FROM tickets GROUP BY 1", False),
        "Which critical tickets have been open the longest?":
            ("SELECT ticket_id, created_at FROM tickets WHERE priority = 'Critical' AND status = 'Open' ORDER BY created_at LIMIT 10", True),
        "What is the average resolution time by category?": ("SELECT category, avg(resolution_time_hours) FROM tickets GROUP BY 1", False),
        "How many tickets came in each week?":
            ("SELECT CAST(date_trunc('week', created_at) AS DATE) AS w, count(*) FROM tickets GROUP BY 1 ORDER BY 1", True),
        "Which agents have the best average CSAT score?":
            ("SELECT agent_id, avg(csat_score) FROM tickets GROUP BY 1 ORDER BY 2 DESC LIMIT 10", True),
        "How does customer satisfaction differ by channel?": ("SELECT channel, avg(csat_score) FROM tickets GROUP BY 1", False),
    },
    "sensors": {
        "How many anomalies were detected by location in the last 24 hours?":
            ("SELECT location, sum(anomaly_flag) FROM sensors WHERE timestamp > (SELECT max(timestamp) FROM sensors) - INTERVAL 24 HOUR "
             "GROUP BY 1 HAVING sum(anomaly_flag) > 0", False),
        "Which sensors have battery below 20%?": ("SELECT DISTINCT sensor_id FROM sensors WHERE battery_pct < 20", False),
        "What is the average temperature by zone and day?":
            ("SELECT zone, CAST(timestamp AS DATE), avg(temperature_c) FROM sensors GROUP BY 1, 2", False),
        "What are the most common anomaly types?":
            ("SELECT anomaly_type, count(*) FROM sensors WHERE anomaly_flag = 1 GROUP BY 1 ORDER BY 2 DESC", True),
        "Which sensors were offline the longest?":
            ("SELECT count(*) FROM sensors WHERE status = 'offline' GROUP BY sensor_id ORDER BY 1 DESC LIMIT 10", True),
        "Which locations vibrate the most during working hours?":
            ("SELECT location, avg(vibration_mm_s) FROM sensors WHERE hour(timestamp) BETWEEN 9 AND 16 AND isodow(timestamp) <= 5 "
             "GROUP BY 1 ORDER BY 2 DESC LIMIT 10", True),
    },
    "transactions": {
        "What are the top 5 categories by spend?":
            ("SELECT category, sum(amount) FROM transactions GROUP BY 1 ORDER BY 2 DESC LIMIT 5", True),
        "How much was spent each month?":
            ("SELECT CAST(date_trunc('month', date) AS DATE) AS m, sum(amount) FROM transactions GROUP BY 1 ORDER BY 1", True),
        "What were the 10 largest transactions?": ("SELECT amount FROM transactions ORDER BY amount DESC LIMIT 10", True),
        "How much was spent on dining per weekday?":
            ("SELECT dayname(date), sum(amount) FROM transactions WHERE category = 'Dining' GROUP BY 1 ORDER BY min(isodow(date))", True),
        "Which transactions are still pending?": ("SELECT id, amount FROM transactions WHERE status = 'pending'", False),
        "What share of spending goes to housing?":
            ("SELECT 100 * sum(amount) FILTER (category = 'Housing') / sum(amount) FROM transactions", False),
    },
}


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    directory = tmp_path_factory.mktemp("sets")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RIDDLE_")}
    subprocess.run([RIDDLE, "datasets", "generate", directory], check=True, capture_output=True, env=environment)
    return directory


def rows_of_sql(programs, sql, files):
    done = programs.riddle("run", "--json", "--max-rows", "1000", "--sql", sql, *files)
    assert done.status == 0, (done.text, done.err)
    return done.response["rows"]


def rows_of_many(programs, tmp_path, queries, files):
    """One process for all of them."""
    script = tmp_path / "known.py"
    script.write_text(f"""import json
for query in {queries!r}:
    rows = [[None if v != v else v for v in r] for r in sql(query).astype(object).values.tolist()]
    print(json.dumps(rows, default=str))
""", encoding="utf-8")
    done = programs.riddle("run", "--json", "--python", script, *files)
    assert done.status == 0, (done.text, done.err)
    return [json.loads(line) for line in done.response["stdout_trunc"].splitlines()]


def plain(value):
    """Figures to nine digits, days and times as SQL has them."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(f"{value:.9g}")
    return value.replace("T", " ").removesuffix(" 00:00:00") if isinstance(value, str) and value[4:5] == value[7:8] == "-" else value


def contains(answer, known, ordered):
    """The columns of `known` are among those of the answer, with the same rows."""
    answer, known = ([tuple(map(plain, r)) for r in rows] for rows in (answer, known))
    if len(answer) != len(known):
        return False
    order = (lambda rows: list(rows)) if ordered else (lambda rows: sorted(rows, key=repr))
    have, found = list(zip(*answer)), []
    for want in zip(*known):
        at = [i for i, column in enumerate(have) if i not in found and order(column) == order(want)]
        if not at:
            return False
        found.append(at[0])
    return order([tuple(r[i] for i in found) for r in answer]) == order(known)


def is_answer(rows, known, ordered):
    """Either is right where a rate is asked for: a fraction, or a percentage."""
    percentages = [[100 * v if isinstance(v, float) and 0 <= v <= 1 else v for v in row] for row in known]
    return contains(rows, known, ordered) or contains(rows, percentages, ordered)


def test_every_bundled_prompt_is_known_here(sets):
    with open(sets / "registry.json", encoding="utf-8") as f:
        registry = json.load(f)
    assert {d["id"]: d["prompts"] for d in registry["datasets"]} == {k: list(v) for k, v in PROMPTS.items()}


@pytest.mark.parametrize("name,prompt", [(n, p) for n, prompts in PROMPTS.items() for p in prompts])
def test_bundled_prompt(programs, sets, name, prompt):
    sql, ordered = PROMPTS[name][prompt]
    (entry,) = [d for d in json.loads((sets / "registry.json").read_text())["datasets"] if d["id"] == name]
    files = [sets / f["path"] for f in entry["files"]]  # in the order that the server has them in
    known = rows_of_sql(programs, sql, files)
    assert known, "a figure to compare with"
    done = programs.riddle("ask", "--json", prompt, *files)
    assert done.status == 0, (done.text, done.err)
    answer = done.response
    assert answer["status"] == "answered"
    assert is_answer(answer["rows"], known, ordered), (answer["reading"], answer["sql"], answer["rows"][:3], known[:3])


@pytest.mark.parametrize("question", ["which 5 customers spent the most?", "Welche 5 Kunden haben am meisten ausgegeben?",
                                      "¿Qué 5 clientes gastaron más?"])
def test_number_before_things_is_how_many(programs, sets, question):
    """… and not the number of one of them."""
    known = rows_of_sql(programs, "SELECT customer_id, sum(total) FROM orders GROUP BY 1 ORDER BY 2 DESC LIMIT 5", [sets / "ecommerce/orders.csv"])
    answer = programs.riddle("ask", "--json", question, sets / "ecommerce/orders.csv").response
    assert answer["status"] == "answered" and contains(answer["rows"], known, True), answer


def test_everyday_questions(programs, tmp_path):
    """A fixed sample with its present score: a rule that gains elsewhere and loses here is seen."""
    files = {name: make(str(tmp_path / name)) for name, make in everyday.SETS.items()}
    lines = [json.dumps({"id": i, "question": q, "files": files[name]}) for i, (name, q, _) in enumerate(everyday.QUESTIONS)]
    batch = tmp_path / "batch.jsonl"
    batch.write_text("\n".join(lines) + "\n", encoding="utf-8")
    done = programs.riddle("ask", "--batch", batch)
    answers = [json.loads(line) for line in done.text.splitlines()]
    known = {}
    for name in everyday.SETS:
        mine = [sql for set_name, _, sql in everyday.QUESTIONS if set_name == name and sql]
        known.update(((name, sql), rows) for sql, rows in zip(mine, rows_of_many(programs, tmp_path, mine, files[name]), strict=True))
    right, wrong, total = [], [], 0
    for (name, question, sql), answer in zip(everyday.QUESTIONS, answers, strict=True):
        assert answer["status"] in ("answered", "asked", "declined"), answer
        if not sql:
            continue
        total += 1
        if answer["status"] == "answered":
            ok = is_answer(answer["rows"], known[name, sql], False)
            (right if ok else wrong).append((question, answer["reading"]))
    print(f"{len(right)} right and {len(wrong)} wrong of {total}; wrong: {wrong}")
    assert len(right) >= 117, wrong
    assert len(wrong) <= 3, wrong
