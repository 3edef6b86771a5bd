"""Tables that are larger than the memory of a kernel: SQL puts aside what does not fit, Python gets a table that is read in parts."""

import json
import os

import pytest

pytestmark = pytest.mark.plain


def write_rows(path, n, more=""):
    with open(path, "w") as f:
        f.write("id,name,place,amount\n")
        f.writelines(f"{i},customer number {i * 7919 % n}{more},place {i % 1000} of many{more},{i % 977}\n" for i in range(n))


def left(home):
    return [name for name in os.listdir(home / "tables") if name.startswith("new-")]


@pytest.mark.long
def test_python_reads_a_large_table_in_parts(programs, tmp_path):
    write_rows(tmp_path / "orders.csv", 250_000, " " + "x" * 300)
    cell = """
print(type(orders).__name__, len(orders), orders.shape, list(orders.columns))
print(orders.head(2)[["id", "amount"]].values.tolist(), orders[:3].id.tolist(), "id" in orders)
print(int(orders["amount"].sum()), int(orders.amount.max()), orders[["id", "amount"]].shape)
print(int(sql("SELECT count(DISTINCT name) AS n FROM orders").n[0]))
for wrong in (lambda: orders.groupby("place"), lambda: orders.to_frame(), lambda: orders[["name", "place", "id", "amount"]]):
    try:
        wrong()
    except (AttributeError, MemoryError) as error:
        print(type(error).__name__, "sql('SELECT … FROM orders …')" in str(error), "250,000 rows" in str(error))
print("more than fit into memory" in repr(orders), type(small).__name__)
"""
    (tmp_path / "small.csv").write_text("a\n1\n")
    done = programs.run("--python", "-", tmp_path / "orders.csv", tmp_path / "small.csv", stdin=cell, env={"RIDDLE_MEMORY": "192m"})
    assert done.status == 0, done.err
    total = sum(i % 977 for i in range(250_000))
    assert done.text.splitlines() == [
        "LargeTable 250000 (250000, 4) ['id', 'name', 'place', 'amount']",
        "[[0, 0], [1, 1]] [0, 1, 2] True",
        f"{total} 976 (250000, 2)",
        "250000",
        "AttributeError True True",
        "MemoryError True True",
        "MemoryError True True",
        "True DataFrame",
    ]


@pytest.mark.long
def test_queries_put_aside_what_does_not_fit(programs, home, tmp_path):
    write_rows(tmp_path / "orders.csv", 3_000_000)
    query = "SELECT count(*) AS n, sum(c) AS c FROM (SELECT name, place, count(*) AS c FROM orders GROUP BY ALL)"
    for size, verdict in (("1g", "ok"), ("0", "memory"), ("8m", "memory")):
        done = programs.run("--json", "--sql", query, "--timeout", "60", tmp_path / "orders.csv", env={"RIDDLE_MEMORY": "512m", "RIDDLE_SPILL_SIZE": size})
        answer = json.loads(done.text)
        assert answer["verdict"] == verdict, (size, answer["error"])
        if verdict == "ok":
            assert [int(v) for v in answer["rows"][0]] == [3_000_000, 3_000_000]
        assert left(home) == []
