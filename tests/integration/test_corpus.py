"""Odd files, whose truth is known: every value is right, or the report says what became of it."""
import datetime
import json

import pytest

import corpus

SCRIPT = """
import json
for name in list(dfs):
    columns = list(sql(f'SELECT * FROM "{name}" LIMIT 0').columns)
    rows = sql(f'SELECT columns(*)::VARCHAR FROM "{name}"')
    rows.columns = range(len(columns))
    values = [[None if v is None or v != v else v for v in row] for row in rows.values.tolist()]
    print(json.dumps({"table": name, "columns": columns, "rows": values}))
"""
BATCH = 8


def read(programs, tmp_path, files, *options, ending="csv"):
    """{name: {"columns", "rows"}}: the values as text."""
    found = {}
    for at in range(0, len(files), BATCH):
        paths = []
        for name, data in files[at:at + BATCH]:
            paths.append(tmp_path / f"{name}.{ending}")
            paths[-1].write_bytes(data)
        done = programs.run("--python", "-", *options, *paths, stdin=SCRIPT)
        assert done.status == 0, done.err
        for line in done.text.splitlines():
            table = json.loads(line)
            found[table["table"]] = table
    return found


def same(value, text):
    if value is None or text is None:
        return value is None and text is None
    if isinstance(value, float):
        try:
            return abs(float(text) - value) < 1e-9 * max(1, abs(value))
        except ValueError:
            return False
    if isinstance(value, datetime.datetime):
        return text == value.isoformat(sep=" ")
    return text == str(value)


def score_odd(programs, tmp_path, seeds, ending="csv"):
    files = [corpus.odd(seed) for seed in seeds]
    if ending == "xlsx":
        files = [f for f in files if not f.refused]  # a longer row only makes the sheet wider
    found = read(programs, tmp_path, [(f.name, f.data if ending == "csv" else f.workbook()) for f in files], ending=ending)
    right = total = 0
    wrong = []
    for f in files:
        table = found[f.name]
        n = sum(len(row) for row in f.rows)
        good = 0
        if table["columns"] == f.columns and len(table["rows"]) == len(f.rows):
            good = sum(same(v, t) for row, texts in zip(f.rows, table["rows"]) for v, t in zip(row, texts))
        if good < n:
            odd = next(((v, t) for row, texts in zip(f.rows, table["rows"]) for v, t in zip(row, texts) if not same(v, t)), None)
            wrong.append((f.name, f"{good}/{n}", table["columns"], len(f.rows), len(table["rows"]), odd))
        right, total = right + good, total + n
    return right / total, wrong


def f1(expected, found):
    """Of two lists, by how often each thing is in them."""
    left = list(map(repr, found))
    hits = 0
    counts = {}
    for x in left:
        counts[x] = counts.get(x, 0) + 1
    for x in map(repr, expected):
        if counts.get(x, 0) > 0:
            counts[x] -= 1
            hits += 1
    if not expected and not found:
        return 1.0
    return 2 * hits / (len(expected) + len(found)) if expected or found else 1.0


def score_polluted(programs, tmp_path, files, *options):
    """Of 10, for each file: it was read (1), names (3), records (3), cells (3), as F1."""
    found = read(programs, tmp_path, [(name, data) for name, data, _, _ in files], *options)
    scores = {}
    for name, _, header, records in files:
        table = found.get(name)
        if not table:
            scores[name] = 0
            continue
        names = header or [f"column{i}" for i in range(9)]
        rows = [["" if v is None else v for v in row] for row in table["rows"]]
        cells = [(i, c) for row in records for i, c in enumerate(row)]
        scores[name] = 1 + 3 * f1(names, table["columns"]) + 3 * f1(records, rows) + 3 * f1(
            cells, [(i, c) for row in rows for i, c in enumerate(row)])
    return sum(scores.values()) / len(scores), {n: round(s, 2) for n, s in scores.items() if s < 9.9}


def test_odd_files(programs, tmp_path):
    share, wrong = score_odd(programs, tmp_path, range(16))
    assert share >= 0.97, wrong


def test_odd_sheets(programs, tmp_path):
    share, wrong = score_odd(programs, tmp_path, range(8), "xlsx")
    assert share >= 0.97, wrong


def test_polluted_files(programs, tmp_path):
    files = [f for i, f in enumerate(corpus.polluted()) if i < 19 or i % 9 == 0]
    score, low = score_polluted(programs, tmp_path, files, "--types", "text")
    assert score >= 9.4, low


@pytest.mark.long
def test_whole_corpus(programs, tmp_path):
    share, wrong = score_odd(programs, tmp_path, range(120))
    print(f"odd files: {100 * share:.2f} % of the values; {wrong}")
    assert share >= 0.97
    share, wrong = score_odd(programs, tmp_path, range(120), "xlsx")
    print(f"odd sheets: {100 * share:.2f} % of the values; {wrong}")
    assert share >= 0.97
    score, low = score_polluted(programs, tmp_path, corpus.polluted(), "--types", "text")
    print(f"polluted files: {score:.2f} of 10; {low}")
    assert score >= 9.4
