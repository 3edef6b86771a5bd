"""Charts: `riddle ask --chart` from the outside, and the code that draws in a kernel on data of every kind."""

import csv
import json
import math
import struct
from pathlib import Path

import pytest
from conftest import ROOT

CITIES = {"Paris": 1200.5, "Rome": 300, 'O\'Neil "x" $5 and $6': 20, "'); import os #": 4}


@pytest.fixture
def sales(tmp_path):
    path = tmp_path / "sales.csv"
    with open(path, "w", newline="") as f:
        out = csv.writer(f)
        out.writerow(["city", "amount", "sold"])
        for month in range(1, 7):
            for city, amount in CITIES.items():
                out.writerow([city, amount * month, f"2024-{month:02d}-15"])
    return path


def size_of(png):
    assert png[:8] == b"\x89PNG\r\n\x1a\n" and png[12:16] == b"IHDR"
    return struct.unpack(">II", png[16:24])


def test_a_png(programs, sales, tmp_path):
    target = tmp_path / "out.png"
    done = programs.riddle("ask", "--chart", target, "total amount by city", sales)
    assert done.status == 0, done.err
    assert f"chart: {target}" in done.err
    width, height = size_of(target.read_bytes())
    assert width > 800 and height > 400
    # It is not replaced unless asked for, and nothing is run for it.
    target.write_bytes(b"mine")
    done = programs.riddle("ask", "--chart", target, "total amount by city", sales)
    assert done.status == 2 and "--force" in done.err and target.read_bytes() == b"mine"
    done = programs.riddle("ask", "--chart", target, "--force", "total amount by month", sales)
    assert done.status == 0, done.err
    size_of(target.read_bytes())


def test_an_svg_has_the_values_as_text(programs, sales, tmp_path):
    target = tmp_path / "out.svg"
    done = programs.riddle("ask", "--json", "--chart", target, "total amount by city", sales)
    assert done.status == 0, done.err
    assert done.response["status"] == "answered"
    text = target.read_text()
    assert "<svg" in text and "Total amount by city" in text and "Paris" in text
    assert "$5 and $6" in text and "); import os #" in text
    assert "25,210" in text or "25,211" in text  # 1200.5 * (1 + … + 6)


@pytest.mark.parametrize("arguments, status, message", [
    (["--chart", "x.jpg", "total amount by city"], 2, ".png or .svg"),
    (["--chart", "x.png", "--sql", "total amount by city"], 2, "--sql"),
    (["--chart", "x.png", "what is the total amount"], 1, "no chart fits"),
    (["--chart", "no/such/directory/x.png", "total amount by city"], 1, "no/such/directory/x.png"),
])
def test_no_chart(programs, sales, tmp_path, arguments, status, message):
    done = programs.riddle("ask", *arguments, sales)
    assert done.status == status, done.err
    assert message in done.err
    assert not list(Path(programs.cwd).glob("x.*"))


# ---- the code that draws ----

NAMESPACE = {}
exec((ROOT / "src/agent/draw.py").read_text().split("\n_riddle_draw(")[0], NAMESPACE)  # noqa: S102


def draw(tmp_path, kind, columns, rows, x_type="nominal", **roles):
    spec = {"title": "A $title$ of " + kind, "usermeta": {"kind": kind, **roles},
            "encoding": {"x": {"type": x_type, "title": "the x"}, "y": {"type": "quantitative", "title": "the y"}, "color": {"title": "colour"}}}
    source, target = tmp_path / "in.json", tmp_path / "out.svg"
    source.write_text(json.dumps({"format": "svg", "spec": spec, "result": {"columns": columns, "rows": rows}}))
    NAMESPACE["_riddle_draw"](str(source), str(target))
    return target.read_text()


ODD = ["a", None, True, "x" * 300, "two\nlines", "<b>&", "$\\frac{", "日本", -1.5]


def test_bars_of_anything(tmp_path):
    text = draw(tmp_path, "bar", ["k", "n"], [[k, i * 1e6] for i, k in enumerate(ODD)], x="k", y="n")
    assert "(none)" in text and "&lt;b&gt;&amp;" in text and "…" in text and "two lines" in text and "8M" in text
    assert "A $title$ of bar" in text


def test_numbers_that_are_none(tmp_path):
    rows = [["a", None], ["b", "12345678901234567890"], ["c", "not a number"], ["d", 0.00001], ["e", -3]]
    assert "<svg" in draw(tmp_path, "bar", ["k", "n"], rows, x="k", y="n")


@pytest.mark.parametrize("x_type, xs", [
    ("temporal", ["2024-01-01", "2024-02-01T10:00:00", None, "2024-03-01 00:00:00", "2024-04-01T00:00:00+02:00", "no time"]),
    ("ordinal", [2020, 2021, 2022, 2023, 2024, 2025]),
    ("quantitative", [0.5, 1, None, 3, 4, 5]),
])
@pytest.mark.parametrize("kind", ["line", "point"])
def test_lines_and_points(tmp_path, kind, x_type, xs):
    rows = [[x, "ab"[i % 2], i * 1000] for i, x in enumerate(xs)]
    text = draw(tmp_path, kind, ["t", "s", "n"], rows, x_type, x="t", y="n", series="s")
    assert "colour" in text and "the x" in text and "4,000" in text


def test_arcs_and_groups(tmp_path):
    text = draw(tmp_path, "arc", ["k", "n"], [["a", 1], ["b", 3], ["c", None]], x="k", y="n")
    assert "75.0%" in text
    rows = [[f"place {i}", s, math.pow(i, 2)] for i in range(20) for s in ("p", "q")]
    text = draw(tmp_path, "bar", ["k", "s", "n"], rows, x="k", y="n", series="s")
    assert "place 19" in text and "colour" in text
