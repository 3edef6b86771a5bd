"""Files that are small and cost much: wide, deep, with names without end. Each is read or refused in seconds, and others are served."""

import json

import pytest
from api import run_body
from attack import ALICE, long_turns


def wide(n, name="c{}"):
    return ",".join(name.format(i) for i in range(n)) + "\n" + ",".join("1" for _ in range(n)) + "\n"


def test_wide_tables_are_read(server, bob):
    """Before their profile was bounded, a thousand columns took half a minute of processor and 20,000 more than ten."""
    for n, name in ((1000, "c{}"), (20000, "equal")):
        done = server.upload((f"w{n}.csv", wide(n, name)), key=ALICE)
        assert done.status == 200, done.body[:500]
        file = done.json["files"][0]
        assert file["rows"] == 1 and len(file["columns"]) == n and not file["profiled"]
        asked = server.post("/runs", run_body(file["file_id"], f"SELECT count(*) FROM {file['table']}", timeout_seconds=60), key=ALICE)
        assert asked.json["result"]["rows"] == [[1]]


def test_values_of_many_columns_are_indexed_beside_the_loop(server, bob):
    """A question about them needs an index of all values, which took a tenth of a second of the loop."""
    n, rows = 300, 1000
    text = wide(n) + "".join(",".join(f"v{(i * 7 + r) % 997}x{r}" for i in range(n)) + "\n" for r in range(rows))
    file = server.upload(("words.csv", text), key=ALICE).json["files"][0]
    assert server.get(f"/datasets/{file['file_id']}/schema", key=ALICE).json["files"][0]["profiled"]
    turns = long_turns(server)
    said = server.post("/chat", {"dataset_id": file["file_id"], "message": "how many rows have v7x1 as c0?"}, key=ALICE)
    assert said.status == 200 and long_turns(server) == turns
    # So does reading a question: each of its words may mean each of the columns.
    said = server.post("/chat", {"dataset_id": file["file_id"], "message": "show the total c1x of c2y and c3z by c4w for v5x1 " * 6}, key=ALICE)
    assert said.status == 200 and long_turns(server) == turns


NESTED = 100_000
REFUSED = {
    "keys.json": (lambda: json.dumps({f"k{i}": i for i in range(200_000)}), "an object with more than 20000 keys"),
    "keys_in_a_list.json": (lambda: json.dumps([{f"k{i}": i for i in range(200_000)}]), "an object with more than 20000 keys"),
    "inner_keys.ndjson": (lambda: json.dumps({"a": {f"k{i}": i for i in range(200_000)}}) + "\n{}\n", "an object with more than 20000 keys"),
    "deep.json": (lambda: "[" + '{"a":' * NESTED + "1" + "}" * NESTED + "]", "nested deeper than 200 levels"),
    "deep_lists.json": (lambda: '{"a":' + "[" * NESTED + "]" * NESTED + "}", "nested deeper than 200 levels"),
    "deep.ndjson": (lambda: '{"a":' * NESTED + "1" + "}" * NESTED + "\n", "nested deeper than 200 levels"),
    "name.csv": (lambda: "x" * 1_000_000 + ",b\n1,2\n", "the name of column 1 has 1000000 bytes"),
    "columns.csv": (lambda: wide(20001), "columns; at most"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_wide_and_deep_files_are_refused(server, bob, name):
    """JSON that is no table is kept as a file for Python."""
    make, words = REFUSED[name]
    said = server.upload((name, make()), key=ALICE)
    if name.endswith("json"):
        assert said.status == 200 and said.json["files"][0]["table"] is None, (said.status, said.body[:500])
        return
    assert said.status == 400, (said.status, said.body[:500])
    assert words in said.json["detail"]["errors"][0]["error"]


def test_a_nested_file_that_is_not_deep_is_read(server):
    done = server.upload(("some.json", json.dumps([{"a": {"b": {"c": [1, 2]}}, "d": i} for i in range(3)])), key=ALICE)
    assert done.status == 200 and done.json["files"][0]["rows"] == 3
