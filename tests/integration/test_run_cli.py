"""`riddle run` as a person types it, and `riddle` without a verb."""

import csv
import io
import os
import pty
import re
import select
import signal
import struct
import termios
import time
import zipfile
from fcntl import ioctl

import pytest

from conftest import PROCESS_TIMEOUT_S, RIDDLE

pytestmark = pytest.mark.plain

TABLE = """\
region  total
──────  ─────
east     NULL
north    40.5
south   20.25
"""
TOTALS = "SELECT region, sum(total) AS total FROM orders GROUP BY 1 ORDER BY 1"


def test_table(programs, data):
    done = programs.run("--sql", TOTALS, data / "orders.csv")
    assert (done.status, done.text, done.err) == (0, TABLE, "")


def test_relative_path_and_options_behind(programs, data):
    done = programs.run("data/orders.csv", "--sql", TOTALS)
    assert (done.status, done.text) == (0, TABLE)


def test_query_on_standard_input(programs, data):
    done = programs.run("--sql", "-", data / "orders.csv", stdin=TOTALS)
    assert (done.status, done.text) == (0, TABLE)


def test_csv(programs, data):
    done = programs.run("--csv", "--sql", "SELECT id, region || ',\"x\"' AS r, total FROM orders ORDER BY id",
                        data / "orders.csv")
    assert done.status == 0 and done.err == ""
    assert done.out.startswith(b'id,r,total\r\n1,"north,""x""",10.5\r\n')
    rows = list(csv.reader(io.StringIO(done.text, newline="")))
    assert rows[4] == ["4", 'east,"x"', ""]


def test_csv_has_all_rows(programs, data):
    wide = ", ".join(f"i AS column_{n}" for n in range(20))
    done = programs.run("--csv", "--sql", f"SELECT {wide} FROM range(30000) t(i); -- each", data / "orders.csv")
    assert (done.status, done.err) == (0, "")
    rows = done.text.split("\r\n")
    assert len(rows) == 30002 and rows[30000] == ",".join(["29999"] * 20)
    done = programs.run("--csv", "--sql", "SELECT '=1+2' AS a, nope FROM orders", data / "orders.csv")
    assert (done.status, done.text) == (1, "") and "nope" in done.err
    done = programs.run("--csv", "--sql", "SELECT '=1+2' AS a, '' AS b, NULL AS c FROM range(1)", data / "orders.csv")
    assert done.text == 'a,b,c\r\n=1+2,"",\r\n'


def test_everyday_cells(programs, data):
    """What analysts import is there, files are found by their names, and a notebook's lines do no harm."""
    code = """%matplotlib inline
!pip install nothing
import importlib, io
import pandas as pd
for name in "scipy sklearn statsmodels openpyxl xlsxwriter plotly PIL sympy networkx lxml bs4 tqdm tabulate jinja2".split():
    importlib.import_module(name)
assert len(pd.read_csv("orders.csv")) == len(pd.read_csv("/mnt/data/orders.csv")) == len(pd.read_csv("/home/user/orders.csv"))
df = pd.DataFrame({"a": [1, 2, 3], "b": ["x", None, "z"], "t": pd.to_datetime(["2024-01-01", "2024-01-02", None])})
df.to_excel("o.xlsx", index=False)
assert pd.read_excel("o.xlsx")["a"].tolist() == [1, 2, 3]
df.to_parquet("/data/outputs/o.parquet")
back = pd.read_parquet("/data/outputs/o.parquet")
assert back["t"].equals(df["t"]) and back["b"].isna().tolist() == [False, True, False]
assert pd.read_parquet(io.BytesIO(df.to_parquet()), columns=["b", "a"]).columns.tolist() == ["b", "a"]
import plotly.express as px
assert len(px.bar(df, x="b", y="a").data) == 1
import numpy as np
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
GridSearchCV(Ridge(), {"alpha": [1, 2]}, n_jobs=2, cv=2).fit(np.arange(20).reshape(10, 2), np.arange(10))
try:
    sql("SELECT * FROM read_text('/etc/hostname')")
except Exception as error:
    print("Permission" in str(error))
%time print("done")
"""
    (data / "everyday.py").write_text(code)
    done = programs.run("--policy", "open", "--timeout", "60", "--python", data / "everyday.py", data / "orders.csv",
                        env={"RIDDLE_MEMORY": "2g"})  # room for a sanitized kernel, too
    assert done.status == 0, done.err
    assert done.text.splitlines() == ["!pip install nothing: not run; a sandbox has no shell and no network, and packages cannot be "
                                      "installed in it", "True", "done"]


def test_a_missing_module_says_how_it_can_be_had(programs):
    done = programs.run("--python", "-", stdin="import Some_package.part")
    assert done.status == 1
    assert "ModuleNotFoundError: No module named 'Some_package'" in done.err and "Debian's python3-some-package" in done.err


def test_what_a_sandbox_lacks_is_told_with_what_there_is(programs, tmp_path):
    done = programs.run("--python", "-", stdin="import duckdb")
    assert done.status == 1 and 'sql("SELECT …") is DuckDB' in done.err
    done = programs.run("--policy", "open", "--python", "-", stdin="import urllib.request\nurllib.request.urlopen('http://example.com', timeout=2)")
    assert done.status == 1 and "A sandbox has no network" in done.err
    done = programs.run("--policy", "open", "--timeout", "60", "--save", tmp_path, "--python", "-", env={"RIDDLE_MEMORY": "2g"},
                        stdin="import plotly.graph_objects as go\ngo.Figure(go.Bar(x=[1], y=[2])).show()")
    assert done.status == 0 and done.text == "plotly draws in a browser: the figure is in plotly-1.html\n", done.err
    assert "Traceback" not in done.err and b"plotly" in (tmp_path / "plotly-1.html").read_bytes()


def test_a_picture_as_the_last_line_is_shown(programs, tmp_path):
    done = programs.run("--policy", "open", "--out", tmp_path, "--python", "-", stdin="from PIL import Image\nImage.new('RGB', (5, 5), 'red')")
    assert done.status == 0 and (tmp_path / "figure-1.png").read_bytes().startswith(b"\x89PNG"), done.err
    done = programs.run("--policy", "open", "--out", tmp_path / "more", "--timeout", "60", "--python", "-", env={"RIDDLE_MEMORY": "2g"},
                        stdin="import matplotlib.pyplot as plt\nf, a = plt.subplots()\nplt.close(f)\nf")
    assert done.status == 0 and (tmp_path / "more" / "figure-1.png").exists(), done.err


def test_json(programs, data):
    done = programs.run("--json", "--sql", TOTALS, data / "orders.csv")
    assert done.status == 0
    assert done.response["rows"] == [["east", None], ["north", 40.5], ["south", 20.25]]
    assert done.response["status"] == "success"


def test_truncated(programs, data):
    done = programs.run("--max-rows", "2", "--sql", "SELECT id FROM orders ORDER BY id", data / "orders.csv")
    assert done.status == 0
    assert done.text.endswith("1\n 2\n… first 2 rows; use --max-rows for more (at most 1000)\n")
    done = programs.run("--csv", "--max-rows", "2", "--sql", "SELECT id FROM orders ORDER BY id", data / "orders.csv")
    assert done.text == "id\r\n1\r\n2\r\n"
    assert done.err == "riddle: … first 2 rows; use --max-rows for more (at most 1000)\n"


def test_no_file(programs):
    done = programs.run("--csv", "--sql", "SELECT 40 + 2 AS answer")
    assert (done.status, done.text) == (0, "answer\r\n42\r\n")


def test_table_name_given(programs, data):
    (data / "2024-orders.csv").write_text("id\n7\n")
    done = programs.run("--sql", "SELECT * FROM x", data / "2024-orders.csv")
    assert done.status == 2
    assert "invalid table name '2024-orders'" in done.err and "as in mytable=" in done.err
    done = programs.run("--csv", "--sql", "SELECT * FROM x", f"x={data}/2024-orders.csv")
    assert (done.status, done.text) == (0, "id\r\n7\r\n")


def test_two_files_of_one_stem(programs, data):
    (data / "sub").mkdir()
    (data / "sub/orders.csv").write_text("id\n7\n")
    done = programs.run("--sql", "SELECT 1", data / "orders.csv", data / "sub/orders.csv")
    assert done.status == 2 and "duplicate table name 'orders': give one of the files another name" in done.err
    done = programs.run("--csv", "--sql", "SELECT count(*) AS n FROM orders, orders2", data / "orders.csv",
                        f"orders2={data}/sub/orders.csv")
    assert (done.status, done.text) == (0, "n\r\n4\r\n")


# ---- Python ----

@pytest.fixture
def script(tmp_path):
    def write(text):
        path = tmp_path / "plot.py"
        path.write_text(text)
        return path
    return write


def test_python(programs, data, script):
    code = "print('working')\nresult_df = orders.groupby('region', as_index=False)['id'].count()"
    done = programs.run("--timeout", "30", "--python", script(code), data / "orders.csv")
    assert done.status == 0, done.err
    assert done.text == "working\nregion  id\n──────  ──\neast     1\nnorth    2\nsouth    1\n"


def test_python_on_standard_input(programs, data):
    done = programs.run("--timeout", "30", "--python", "-", data / "orders.csv", stdin="len(orders)")
    assert (done.status, done.text) == (0, "4\n")


def test_python_csv_keeps_output_apart(programs, data, script):
    done = programs.run("--csv", "--timeout", "30", "--python", script("print('working')\norders[['id']].head(1)"),
                        data / "orders.csv")
    assert (done.status, done.text) == (0, "id\r\n1\r\n")
    assert done.err == "working\n"


def test_figures_beside_the_script(programs, data, script, tmp_path):
    path = script("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\nplt.bar(['a'], [1])\nplt.show()")
    done = programs.run("--timeout", "30", "--svg", "--python", path, data / "orders.csv")
    assert done.status == 0, done.err
    names = re.findall(r"^figure: (.*)$", done.err, re.M)
    assert names == [str(tmp_path / f"plot-{n}.{kind}") for n in (1, 2) for kind in ("png", "svg")]
    assert (tmp_path / "plot-1.png").read_bytes().startswith(b"\x89PNG\r\n")
    assert "<svg" in (tmp_path / "plot-2.svg").read_text()


def test_figures_elsewhere(programs, data, tmp_path):
    done = programs.run("--timeout", "30", "--out", "figures/new", "--python", "-", data / "orders.csv",
                        stdin="import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()")
    assert done.status == 0, done.err
    assert done.err == "figure: figures/new/figure-1.png\n"
    assert (tmp_path / "figures/new/figure-1.png").read_bytes().startswith(b"\x89PNG\r\n")


WRITES = """import os
os.makedirs("sub/deep")
open("report.csv", "w").write("a\\n1\\n")
open("sub/deep/big.bin", "wb").write(bytes(range(256)) * 5000)
open("empty", "w")
os.symlink("/etc/passwd", "link")
print("done")
"""


def save(programs, code, *more, to="out/new"):
    return programs.run("--timeout", "30", "--policy", "open", "--python", "-", "--save", to, *more, stdin=code)


def test_save(programs, tmp_path):
    done = save(programs, WRITES)
    assert (done.status, done.text) == (0, "done\n"), done.err
    assert done.err == "file: out/new/empty\nfile: out/new/report.csv\nfile: out/new/sub/deep/big.bin\n"
    out = tmp_path / "out/new"
    assert sorted(str(p.relative_to(out)) for p in out.rglob("*") if not p.is_dir()) == ["empty", "report.csv", "sub/deep/big.bin"]
    assert (out / "report.csv").read_text() == "a\n1\n" and (out / "sub/deep/big.bin").read_bytes() == bytes(range(256)) * 5000
    assert (out / "report.csv").stat().st_mode & 0o777 == 0o644


def test_save_names_files_with_one_slash(programs):
    code = "open('a.txt', 'w').write('x')"
    assert save(programs, code, to="out/").err == "file: out/a.txt\n"
    assert save(programs, code, to="out//").err.startswith("riddle: 'out/a.txt' is there already")


def test_save_replaces_nothing_unasked(programs, tmp_path):
    out = tmp_path / "out/new"
    out.mkdir(parents=True)
    (out / "report.csv").write_text("mine")
    done = save(programs, WRITES)
    assert done.status == 1
    assert done.err == "riddle: 'out/new/report.csv' is there already and nothing was saved; --force replaces it\n"
    assert [p.name for p in out.iterdir()] == ["report.csv"] and (out / "report.csv").read_text() == "mine"
    done = save(programs, WRITES, "--force")
    assert done.status == 0 and (out / "report.csv").read_text() == "a\n1\n"
    assert not [p for p in out.rglob("*") if p.name.startswith(".riddle-")]


def test_save_follows_no_link(programs, tmp_path):
    """Neither of a file, which is replaced itself, nor of a directory."""
    out, other = tmp_path / "out/new", tmp_path / "other"
    out.mkdir(parents=True)
    other.mkdir()
    (other / "kept").write_text("mine")
    (out / "report.csv").symlink_to(other / "kept")
    assert save(programs, WRITES).status == 1
    done = save(programs, WRITES, "--force")
    assert done.status == 0 and (out / "report.csv").read_text() == "a\n1\n" and not (out / "report.csv").is_symlink()
    (out / "empty").unlink()
    (out / "sub/deep/big.bin").unlink()
    (out / "sub/deep").rmdir()
    (out / "sub/deep").symlink_to(other)
    done = save(programs, WRITES, "--force")
    assert done.status == 1 and "saving 'sub/deep/big.bin': directory 'deep'" in done.err
    assert [p.name for p in other.iterdir()] == ["kept"] and (other / "kept").read_text() == "mine"


def test_save_of_a_run_that_fails(programs, tmp_path):
    done = save(programs, "open('partial.txt', 'w').write('x')\n1 / 0")
    assert done.status == 1 and "file: out/new/partial.txt" in done.err and "ZeroDivisionError" in done.err
    assert (tmp_path / "out/new/partial.txt").read_text() == "x"


def test_save_says_what_is_missing(programs, tmp_path):
    done = save(programs, "for i in range(201): open(f'f{i}', 'w')\nopen('x', 'wb').truncate(1 << 20)")
    assert done.status == 1 and "riddle: not everything in /workspace was saved" in done.err
    assert len(list((tmp_path / "out/new").iterdir())) == 200
    done = save(programs, "for i in range(5): open(f's{i}', 'wb').truncate(60 << 20)")
    assert done.status == 1 and "the files are larger than all of /workspace may be" in done.err


def test_policy(programs, data, script):
    path = script("import os\nos.getpid() > 0")
    done = programs.run("--timeout", "30", "--policy", "restricted", "--python", path, data / "orders.csv")
    assert done.status == 1 and "Blocked import: os" in done.err
    done = programs.run("--timeout", "30", "--python", path, data / "orders.csv")
    assert (done.status, done.text) == (0, "True\n")


def test_traceback(programs, data, script):
    done = programs.run("--timeout", "30", "--python", script("def f():\n    return 1 / 0\nf()\n"), data / "orders.csv")
    assert done.status == 1 and done.text == ""
    assert "ZeroDivisionError: division by zero" in done.err
    assert "line 2" in done.err and "line 3" in done.err


# ---- how it ends ----

@pytest.mark.parametrize("arguments, status, words", [
    ([], 2, "what is there to run?"),
    (["--sql"], 2, "option '--sql' needs a value"),
    (["--sqll", "x"], 2, "unknown option '--sqll' of 'run'; did you mean '--sql'?"),
    (["--sql", "SELECT 1", "--python", "x.py"], 2, "--sql and --python exclude each other"),
    (["--sql", "SELECT 1", "--csv", "--json"], 2, "--csv and --json exclude each other"),
    (["--json", "data/orders.csv"], 2, "the whole request comes from standard input"),
    (["--json", "--save", "x"], 2, "the whole request comes from standard input"),
    (["--sql", "SELECT 1", "--save", "x"], 2, "--save belongs to --python: SQL leaves no files"),
    (["--python", "-", "--force"], 2, "--force belongs to --save DIR"),
    (["--sql", "SELECT 1", "--max-rows", "0"], 2, "--max-rows"),
    (["--sql", "SELECT 1", "--max-rows", "ten"], 2, "--max-rows is 'ten'"),
    (["--sql", "SELECT 1", "--timeout", "61"], 2, "between 1 and 60"),
    (["--sql", "SELECT 1", "--policy", "lax"], 2, "unknown python_policy 'lax'"),
    (["--sql", "SELECT 1", "nothing.csv"], 2, "nothing.csv' does not exist"),
    (["--sql", "SELECT 1", "x=data"], 2, "is a directory"),
    (["--python", "nothing.py"], 2, "nothing.py"),
    (["--sql", ""], 2, "SQL query is required"),
    (["--sql", "SELECT x", "data/orders.csv"], 1, "x"),
    (["--sql", "DROP TABLE orders", "data/orders.csv"], 1, "SELECT"),
])
def test_exit_status(programs, data, arguments, status, words):
    done = programs.run(*arguments)
    assert (done.status, done.out) == (status, b"")
    assert done.err.startswith("riddle: ") and words in done.err


def test_timeout(programs, data):
    done = programs.run("--timeout", "1", "--sql", "SELECT sum(a.i * b.i) FROM range(10000000) a(i), range(1000000) b(i)",
                        data / "orders.csv")
    assert (done.status, done.text, done.err) == (124, "", "riddle: Query exceeded timeout of 1 seconds\n")


def test_interrupt(programs, data):
    """Ctrl-C ends the run, and what was printed before it is there."""
    child = programs.start(RIDDLE, "run", "--timeout", "60", "--python", "-", data / "orders.csv")
    try:
        child.stdin.write(b"print('started', flush=True)\nwhile True: pass\n")
        child.stdin.close()
        assert child.stdout.readline() == b"started\n"
        child.send_signal(signal.SIGINT)
        assert child.wait(PROCESS_TIMEOUT_S) == 130
        assert b"interrupted" in child.stderr.read()
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
        child.stderr.close()


# ---- on a terminal ----

def on_terminal(programs, columns, *arguments):
    """What `riddle` writes to a terminal of that width, and its exit status."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    child = programs.start_on(theirs, *arguments)
    os.close(theirs)
    shown = b""
    deadline = time.monotonic() + PROCESS_TIMEOUT_S
    try:
        while select.select([ours], [], [], max(0, deadline - time.monotonic()))[0]:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            shown += piece
        return child.wait(PROCESS_TIMEOUT_S), shown.decode().replace("\r\n", "\n")
    finally:
        child.kill()
        child.wait()
        os.close(ours)


def test_terminal(programs, data):
    (data / "wide.csv").write_text("id,text\n1," + "x" * 300 + "\n2,\n")
    status, shown = on_terminal(programs, 40, "run", "--sql", "SELECT * FROM wide ORDER BY id", data / "wide.csv")
    assert status == 0
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    lines = [line for line in plain.splitlines() if "ingest" not in line]
    assert lines[1] == "──  " + "─" * 36
    assert lines[2] == " 1  " + "x" * 35 + "…"
    assert "\x1b[1mid\x1b[0m" in shown and "\x1b[2mNULL\x1b[0m" in shown


def test_terminal_is_not_steered(programs, data):
    """Neither a cell nor what Python prints can send a control sequence."""
    (data / "evil.csv").write_text('a\n"\x1b]0;owned\x07"\n')
    status, shown = on_terminal(programs, 80, "run", "--timeout", "30", "--python", data.parent / "evil.py",
                                data / "evil.csv")
    assert status == 2  # no such script yet
    (data.parent / "evil.py").write_text("print('\\x1b[2J')\nevil\n")
    status, shown = on_terminal(programs, 80, "run", "--timeout", "30", "--python", data.parent / "evil.py",
                                data / "evil.csv")
    assert status == 0, shown
    assert "\x1b[2J" not in shown and "\x1b]0;" not in shown
    assert "\\x1b[2J" in shown and "\\x1b]0;owned\\x07" in shown


# ---- riddle itself ----

def test_version(programs):
    done = programs.riddle("--version")
    assert done.status == 0 and re.fullmatch(
        r"riddle \S+ sandboxes=local,docker stores=sqlite databases=postgresql,sqlite,clickhouse models=openai,\S+builtin\n", done.text)


def test_help(programs):
    done = programs.riddle("--help")
    assert done.status == 0 and "  run  " in done.text and "  doctor  " in done.text
    for verb in re.findall(r"^  ([a-z]+) ", done.text, re.M):
        if verb != "riddle":
            assert programs.riddle(verb, "--help").text.startswith(f"usage: riddle {verb}")


def test_no_verb(programs):
    done = programs.riddle()
    assert done.status == 2 and done.out == b"" and done.err.startswith("usage: riddle")


def test_unknown_verb(programs):
    done = programs.riddle("docter")
    assert (done.status, done.err) == (2, "riddle: unknown verb 'docter'; did you mean 'doctor'?\n")
    done = programs.riddle("qqqqqqqq")
    assert (done.status, done.err) == (2, "riddle: unknown verb 'qqqqqqqq'; 'riddle --help' lists them\n")


def test_large_files_are_hashed_beside_the_ingest(programs, tmp_path):
    """A size that is new, the same file again, and another file of that size: each is what it is, and is read once."""
    def write(name, digit):
        path = tmp_path / name
        with open(path, "w") as out:
            out.write("id,n\n")
            out.writelines(f"{i:07d},{digit}\n" for i in range(1_700_000))
        assert path.stat().st_size > 16 << 20
        return path

    tables = tmp_path / "home/tables"
    query = "SELECT sum(n)::BIGINT AS n FROM big"
    first, second = write("first.csv", 1), write("second.csv", 2)
    for path, total, count in ((first, 1_700_000, 1), (first, 1_700_000, 1), (second, 3_400_000, 2), (second, 3_400_000, 2)):
        done = programs.run("--json", "--sql", query, f"big={path}", env={"RIDDLE_HOME": str(tmp_path / "home")})
        assert done.status == 0, done.err
        assert done.response["rows"] == [[total]]
        made = {p.stem.partition(".")[0] for p in tables.glob("*.duckdb")}
        assert len(made) == count
        assert made == {p.stem.partition(".")[0] for p in tables.glob("*.json")}
        assert not list(tables.glob("new-*")) and not list(tables.glob("*.tmp-*"))


def test_table_of_a_single_run_is_kept(programs, tmp_path):
    """It is used before it is on the disk, and published afterwards: whole, with its report, and nothing beside it."""
    file, home = tmp_path / "fresh.csv", tmp_path / "home"
    file.write_text("a,b\n1,2\n3,4\n")
    for _ in range(2):
        assert "4" in programs.run("--sql", "SELECT sum(a) AS s FROM fresh", file, env={"RIDDLE_HOME": str(home)}).text
        names = sorted(p.name for p in (home / "tables").iterdir())
        assert len(names) == 2 and names[0].endswith(".duckdb") and names[1].endswith(".json"), names
        assert names[0].split(".")[0] == names[1].split(".")[0]


def test_how_files_are_read(programs, tmp_path):
    """Options say what the file does not show; what was a guess is told."""
    path = tmp_path / "odd.csv"
    path.write_text("a note\na;b;c\n1.234;01/02/2024;x\n2.500;03/04/2024;none at all\n")
    done = programs.run("--csv", "--sql", "SELECT * FROM odd", path)
    assert done.text.splitlines() == ["a,b,c", "1.234,2024-01-02,x", "2.5,2024-03-04,none at all"]
    assert "odd.csv: whether day or month comes first is a guess" in done.err and "1 line above the header was skipped" in done.err
    done = programs.run("--csv", "--decimal=,", "--date-order", "dmy", "--null", "none at all", "--sql", "SELECT * FROM odd", path)
    assert done.text.splitlines() == ["a,b,c", "1234,2024-02-01,x", "2500,2024-04-03,none at all"]
    assert "is a guess" not in done.err
    path.write_text("a;b\n1.234;31.12.2024\n2.500;01.02.2024\n")  # as they write where decimals have a comma
    done = programs.run("--csv", "--sql", "SELECT a FROM odd", path)
    assert done.text.splitlines() == ["a", "1234", "2500"] and "is a guess (thousands)" in done.err
    path.write_text("a note\na;b;c\n1.234;01/02/2024;x\n2.500;03/04/2024;none at all\n")
    done = programs.run("--csv", "--types=text", "--header", "0", "--delimiter", ";", "--sql", "SELECT count(*), min(column0) FROM odd", path)
    assert done.text.splitlines()[1] == "3,1.234", done.err
    done = programs.run("--decimal", "x", "--sql", "SELECT 1", path)
    assert done.status != 0 and "option 'decimal' must be '.' or ','" in done.err


def test_sheets(programs, tmp_path):
    """Each sheet with rows is a table, in SQL, Python and for questions; one can be asked for; an empty one is passed over."""
    def sheet(*rows):
        cells = "".join("<row>" + "".join(f'<c t="inlineStr"><is><t>{v}</t></is></c>' if isinstance(v, str) else f"<c><v>{v}</v></c>"
                                          for v in row) + "</row>" for row in rows)
        return f"<worksheet><sheetData>{cells}</sheetData></worksheet>"
    names = ["Cover", "Sales", "Staff"]
    with zipfile.ZipFile(tmp_path / "book.xlsx", "w") as z:
        z.writestr("_rels/.rels", '<R><Relationship Id="a" Type="/officeDocument" Target="xl/workbook.xml"/></R>')
        z.writestr("xl/workbook.xml", "<workbook><sheets>" + "".join(f'<sheet name="{n}" id="r{i}"/>' for i, n in enumerate(names)) +
                   "</sheets></workbook>")
        z.writestr("xl/_rels/workbook.xml.rels", "<R>" + "".join(f'<Relationship Id="r{i}" Type="/worksheet" Target="s{i}.xml"/>'
                                                                 for i in range(3)) + "</R>")
        for i, rows in enumerate([[], [("Price list",), ("item", "price"), ("a", 1.5), ("b", 2), ("Total", 3.5)], [("who",), ("Ann",)]]):
            z.writestr(f"xl/s{i}.xml", sheet(*rows))
    done = programs.run("--csv", "--sql", "SELECT * FROM book", tmp_path / "book.xlsx")
    assert done.text.splitlines() == ["item,price", "a,1.5", "b,2.0"], done.err
    assert "the workbook has 3 visible sheets; each with rows is a table" in done.err and "1 line of totals" in done.err
    assert "book.xlsx (book_Staff): a table of its own" in done.err
    done = programs.run("--csv", "--sql", "SELECT who, (SELECT sum(price) FROM book) AS p FROM book_staff", tmp_path / "book.xlsx")
    assert done.text.splitlines() == ["who,p", "Ann,3.5"], done.err
    (tmp_path / "cell.py").write_text("print(len(book), list(book_Staff['who']))")
    done = programs.run("--python", tmp_path / "cell.py", tmp_path / "book.xlsx")
    assert done.text == "2 ['Ann']\n", done.err
    done = programs.run("--csv", "--sheet", "Staff", "--sql", "SELECT * FROM book", tmp_path / "book.xlsx")
    assert done.text.splitlines() == ["who", "Ann"], done.err
    done = programs.run("--csv", "--sheet", "None", "--sql", "SELECT * FROM book", tmp_path / "book.xlsx")
    assert "'book.xlsx' has no visible sheet 'None'" in done.err
    content = ('<d><a><style name="h"><table-properties display="false"/></style></a><body><spreadsheet>'
               '<table name="Hid" style-name="h"><table-row><table-cell value-type="float" value="1"/></table-row></table>'
               '<table name="Länder 1"><table-header-rows><table-row><table-cell value-type="string"><p>land</p></table-cell>'
               '<table-cell value-type="string"><p>seit</p></table-cell><table-cell value-type="string"><p>n</p></table-cell></table-row></table-header-rows>'
               '<table-row number-rows-repeated="2"><table-cell value-type="string"><p>Mali<s/>x</p></table-cell>'
               '<table-cell value-type="date" date-value="2024-01-31"><p>31.01.24</p></table-cell>'
               '<table-cell value-type="float" value="2.5"><p>2,5</p></table-cell></table-row>'
               '<table-row number-rows-repeated="1048573"><table-cell number-columns-repeated="1024"/></table-row></table>'
               '<table name="日本"><table-row><table-cell value-type="string"><p>a</p></table-cell><table-cell value-type="string"><p>b</p></table-cell></table-row>'
               '<table-row><table-cell value-type="boolean" boolean-value="true"/><table-cell value-type="time" time-value="PT26H30M00S"/></table-row></table>'
               '</spreadsheet></body></d>')
    with zipfile.ZipFile(tmp_path / "sheet.ods", "w") as z:
        z.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        z.writestr("META-INF/manifest.xml", "<m/>")
        z.writestr("content.xml", content)
    done = programs.run("--csv", "--sql", "SELECT * FROM sheet UNION ALL SELECT CAST(b AS VARCHAR), NULL, CAST(a AS INT) FROM sheet_2", tmp_path / "sheet.ods")
    assert done.text.splitlines() == ["land,seit,n", "Mali x,2024-01-31,2.5", "Mali x,2024-01-31,2.5", "26:30:00,,1.0"], done.err


def test_standard_input_is_a_file(programs):
    done = programs.run("--csv", "--sql", "SELECT sum(a) AS n FROM data", "-", stdin="a;b\n1,5;x\n2,5;y\n")
    assert (done.status, done.text.splitlines(), done.err) == (0, ["n", "4.0"], "")
