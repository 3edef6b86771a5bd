"""Odd files, whose truth is known: every value is right, or the report says what became of it."""
import datetime
import io
import json
import zipfile

import openpyxl

import pytest

import corpus
from server import Server


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("corpus")) as s:
        yield s


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


def padded_book():
    book = openpyxl.Workbook()
    book.active.append(["zip", "n"])
    for i in range(3):
        book.active.append([1067 + i, i])
        book.active.cell(i + 2, 1).number_format = "00000"
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def merged_book():
    book = openpyxl.Workbook()
    for row in (["Sales"], [], ["Region", "Q1", None, "Total"], [None, 2023, 2024, None], ["North", 1.5, 2.5, 4], ["South", 2, 3, 5], ["West", 1, 1, 2]):
        book.active.append(row)
    for cells in ("A1:D1", "A3:A4", "B3:C3", "D3:D4"):
        book.active.merge_cells(cells)
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def zipped(name, data):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        z.writestr(name, data)
    return out.getvalue()


def rows_book(rows):
    book, out = openpyxl.Workbook(), io.BytesIO()
    for row in rows:
        book.active.append(row)
    book.save(out)
    return out.getvalue()


RUSSIAN_DOLL = {"u1": {"name": "A", "age": 3}, "u2": {"name": "B", "age": 4}}
# Name, bytes, columns, first row, what a note says.
KINDS = [
    ("years.csv", ",2020,,2021,\nRegion,Men,Women,Men,Women\nN,1,2,3,4\nS,5,6,7,8\nW,5,6,7,8\n",
     ["Region", "2020 Men", "2020 Women", "2021 Men", "2021 Women"], ["N", "1", "2", "3", "4"], "2 header lines"),
    ("rnames.txt", 'mpg cyl\n"1" 20.5 4\n"2" 21.5 6\n"3" 22.5 8\n"4" 9.5 8\n', ["column0", "mpg", "cyl"], ["1", "20.5", "4"], "one name less"),
    ("ruled.txt", "Report\n\n-----------\n|Mat  |Qty|\n-----------\n|00047|  5|\n|00048|  6|\n-----------\n", ["Mat", "Qty"], ["00047", "5"],
     "3 lines of dashes"),
    ("markdown.csv", "| id | name |\n|----|:----|\n| 1 | A |\n| 2 | B |\n", ["id", "name"], ["1", "A"], "line of dashes"),
    ("decimals.csv", "Wert\n0,5\n1,25\n2,75\n", ["Wert"], ["0.5"], None),
    ("mixed_signs.csv", 'r,n\na,"1,250"\nb,1 150\nc,662\n', ["r", "n"], ["a", "1,250"], None),
    ("two_encodings.csv", "id,name\n".encode() + b"".join(f"{i},Zo\u00eb\n".encode() for i in range(9)) + b"9,Ren\xe9\n", ["id", "name"], ["0", "Zo\u00eb"],
     "read as windows-1252"),
    ("polish.csv", "Imi\u0119;Miasto\n\u015awi\u0119tos\u0142aw;\u0141\u00f3d\u017a\n\u017b\u00f3\u0142kiewski;\u0141\u00f3d\u017a\n".encode("cp1250"),
     ["Imi\u0119", "Miasto"], ["\u015awi\u0119tos\u0142aw", "\u0141\u00f3d\u017a"], None),
    ("kanji.csv", "\u65e5\u4ed8,\u91d1\u984d\n2024\u5e744\u67081\u65e5,\uffe55\n2024\u5e744\u67082\u65e5,\uffe5105\n".encode("cp932"),
     ["\u65e5\u4ed8", "\u91d1\u984d"], ["2024-04-01", "5"], None),
    ("stamps.csv", "a;b;c_time\n10/Oct/2023:13:55:36 +0000;29.03.2024, 10:18 Uhr;20240309101807\n", ["a", "b", "c_time"],
     ["2023-10-10 13:55:36+00", "2024-03-29 10:18:00", "2024-03-09 10:18:07"], None),
    ("units.csv", "Time,Wind,,Temp\n,Speed,Dir,Air\n,m/s,deg,C\n2024-01-01 00:00,1.5,180,3.2\n2024-01-01 01:00,2.5,190,3.1\n2024-01-01 02:00,2.7,200,3.0\n",
     ["Time", "Wind Speed m/s", "Wind Dir deg", "Temp Air C"], ["2024-01-01 00:00:00", "1.5", "180", "3.2"], "3 header lines"),
    ("born.csv", "n,born\na,31.12.68\nb,01.01.49\n", ["n", "born"], ["a", "1968-12-31"], None),
    ("no_date.csv", "id;Datum\n1;31.01.2024\n2;00.00.0000\n", ["id", "Datum"], ["1", "2024-01-31"], None),
    ("null_words.csv", "id,v\n1,2.5\n2,\\N\n3,-1E5\n", ["id", "v"], ["1", "2.5"], None),
    ("padded.csv", " id , name ,amount \n 1 , Ann , 5.5 \n 2 , Bob ,  6.25\n", ["id", "name", "amount"], ["1", "Ann", "5.5"], None),
    ("below.csv", 'id,text,n\n1,a,2\n2,"one\ntwo\nthree",3\n', ["id", "text", "n"], ["1", "a", "2"], None),
    ("stacked.csv", "a,b\nN,1\nS,3\n\nStaff\nname,age\nAnn,30\n", ["a", "b"], ["N", "1"], "a table of its own"),
    ("large.json", '[{"zip":"01234","n":1,"big":12345678901234567890},{"zip":"9","n":2,"big":2}]', ["zip", "n", "big"],
     ["01234", "1", "12345678901234567890"], "too large for 64 bits"),
    ("moments.ndjson", '{"ts":"2024-01-01T00:00:00.123Z"}\n{"ts":"2024-01-01T00:00:01.5Z"}\n{"ts":"2024-01-01T00:00:02Z","x":"a"}\n', ["ts", "x"],
     ["2024-01-01 00:00:00.123", None], None),
    ("kinds.ndjson", '{"id":"x","v":"12"}\n{"id":2,"v":13}\n', ["id", "v"], ["x", "12"], "of several types"),
    ("lists.json", '{"a":[1,2,3],"b":["x","y","z"]}', ["a", "b"], ["1", "x"], "each list was read as a column"),
    ("keys.json", json.dumps(RUSSIAN_DOLL), ["key", "name", "age"], ["u1", "A", "3"], "each was read as a row"),
    ("bank.csv", '"Konto:";"DE12 / Giro";\n\n"Tag";"Zweck";"Betrag (EUR)";\n"28.03.2024";"Strom; Gas";"-85,00";\n"27.03.2024";"Lohn";"3.250,17";\n'.encode("cp1252"),
     ["Tag", "Zweck", "Betrag (EUR)"], ["2024-03-28", "Strom; Gas", "-85.0"], "line above the header"),
    ("grid.txt", "List\n\n---------------------\n|Doc  |Date      |Amt      |Cur|\n---------------------\n|00012|31.01.2024|12.345,67|EUR|\n"
     "|00013|02.02.2024|1.200,00-|EUR|\n---------------------\n|*    |          |11.145,67|EUR|\n", ["Doc", "Date", "Amt", "Cur"],
     ["00012", "2024-01-31", "12345.67", "EUR"], "line of totals"),
    ("survey.csv", 'Start,Q1,Q2\nStart Date,How satisfied are you?,"Anything else?\n\nTell us."\n"{""Id"":""start""}","{""Id"":""QID1""}","{""Id"":""QID2""}"\n'
     '2024-01-05 10:00:01,Very,"Good.\nAgain, ""yes""."\n2024-01-06 11:00:00,Not,\n2024-01-07 12:00:00,Very,ok\n', ["Start", "Q1", "Q2"],
     ["2024-01-05 10:00:01", "Very", 'Good.\nAgain, "yes".'], "3 header lines"),
    ("positions.txt", "NAME               DEPT     HIRED       SALARY\nSmith, John        Sales    2019-03-01  54,000.00\n"
     "Doe, Jane                   2020-11-15  71,250.50\nvan der Berg, Mia  R and D  2022-01-10   9,999.99\n", ["NAME", "DEPT", "HIRED", "SALARY"],
     ["Smith, John", "Sales", "2019-03-01", "54000.0"], "by their position"),
    ("ledger.csv", 'Account,Jan,Feb\nSales," $1,200.00 "," $900.00 "\nReturns, $(50.00), $-   \n', ["Account", "Jan", "Feb"], ["Sales", "1200.0", "900.0"],
     None),
    ("pulse.csv", "who,heart\nAnn,150 bpm\nBob,160 bpm\nCyd,171 bpm\n", ["who", "heart"], ["Ann", "150"], None),
    ("streets.csv", "who,home\nAnn,12 Main\nBob,14 Main\nCyd,3 Main\n", ["who", "home"], ["Ann", "12 Main"], None),
    ("days.csv", "who,day\nAnn,12 mar\nBob,14 mar\nCyd,3 mar\n", ["who", "day"], ["Ann", "12 mar"], None),
    ("yen.csv", "\u65e5\u4ed8,\u58f2\u4e0a\n2024/04/01,\"\\1,234,567\"\n2024/04/02,\"\\987\"\n".encode("cp932"), ["\u65e5\u4ed8", "\u58f2\u4e0a"],
     ["2024-04-01", "1234567"], None),
    ("unseen.csv", "Order\u00a0ID,Customer\u200b\n1,Ann\n2,Bob\n", ["Order ID", "Customer"], ["1", "Ann"], None),
    ("web.log", "".join(f'10.0.0.{i} - - [10/Oct/2023:13:55:0{i} +0200] "GET /p{i} HTTP/1.1" 200 {i}\n' for i in range(1, 8)),
     [f"column{i}" for i in range(7)], ["10.0.0.1", "-", "-", "2023-10-10 11:55:01+00", "GET /p1 HTTP/1.1", "200", "1"], "no header"),
    ("subtotals.csv", "Region,Item,Units\nN,a,1\n,b,2\nN Total,,3\nS,a,4\n,b,5\nS Total,,9\nGrand Total,,12\n", ["Region", "Item", "Units"],
     ["N", "a", "1"], "subtotals of rows above"),
    ("merged.xlsx", merged_book(), ["Region", "Q1 2023", "Q1 2024", "Total"], ["North", "1.5", "2.5", "4"], "2 header lines"),
    ("pivot.xlsx", rows_book([["Sum of Sales", "Column Labels"], ["Row Labels", "2023", "2024", "Grand Total"], ["North", 10, 20, 30], ["South", 5, 6, 11]]),
     ["Row Labels", "2023", "2024", "Grand Total"], ["North", "10", "20", "30"], "line above the header"),
    ("codes.xlsx", padded_book(), ["zip", "n"], ["01067", "0"], None),
    ("packed.zip", zipped("in/book.xlsx", padded_book()), ["zip", "n"], ["01067", "0"], None),
]


def test_kinds(programs, tmp_path):
    """Kinds of files that each showed a fault of its own."""
    for at in range(0, len(KINDS), 11):
        some = KINDS[at:at + 11]
        for name, data, *_ in some:
            (tmp_path / name).write_bytes(data if isinstance(data, bytes) else data.encode())
        done = programs.run("--python", "-", *[tmp_path / name for name, *_ in some], stdin=SCRIPT)
        assert done.status == 0, done.err
        found = {t["table"]: t for t in map(json.loads, done.text.splitlines())}
        for name, _, columns, row, note in some:
            table = found[name.split(".")[0]]
            notes = [line for line in done.err.splitlines() if line.startswith(f"riddle: {name}:")]
            assert (table["columns"], table["rows"][0]) == (columns, row), name
            assert any(note in n for n in notes) if note else not notes, (name, notes)


TYPES = {"VARCHAR": "t", "BIGINT": "n", "DOUBLE": "n", "DATE": "d", "TIMESTAMP": "ts", "TIMESTAMP WITH TIME ZONE": "tz", "TIME": "tm", "BOOLEAN": "b"}


def test_exports(programs, tmp_path):
    """Every name, type and value of files as programs export them."""
    script = SCRIPT.replace('"columns": columns', '"types": list(sql(f\'DESCRIBE "{name}"\').column_type), "columns": columns')
    wrong = []
    for at in range(0, len(corpus.EXPORTS), 20):
        some = corpus.EXPORTS[at:at + 20]
        for name, text, encoding, *_ in some:
            (tmp_path / name).write_bytes(text.encode(encoding))
        done = programs.run("--python", "-", *[tmp_path / name for name, *_ in some], stdin=script)
        assert done.status == 0, done.err
        found = {t["table"]: t for t in map(json.loads, done.text.splitlines())}
        for name, _, _, columns, rows in some:
            t = found[name.split(".")[0]]
            names = [f"{c}:{TYPES.get(k, k)}" for c, k in zip(t["columns"], t["types"])]
            typed = [[float(v) if v is not None and c.endswith(":n") else v for c, v in zip(names, row)] for row in t["rows"]]
            truth = [[float(v) if v is not None and c.endswith(":n") else v for c, v in zip(names, row)] for row in rows]
            if names != columns.split("|") or typed != truth:
                wrong.append((name, names, typed))
    assert not wrong


def test_last_row_of_a_sheet_with_a_name_only(programs, tmp_path):
    (tmp_path / "people.xlsx").write_bytes(rows_book([["customer", "city"], ["Ann", "Ulm"], ["Bob"]]))
    done = programs.run("--csv", "--sql", "SELECT * FROM people", tmp_path / "people.xlsx")
    assert (done.text.splitlines(), done.err) == (["customer,city", "Ann,Ulm", "Bob,"], "")


def test_columns_without_a_value_and_with_percent_in_some_are_told(server):
    [file] = server.upload(("told.csv", "id,a,p\n1,n/a,5%\n2,n/a,0.05\n")).json["files"]
    notes = {c["name"]: c["note"] for c in file["report"]["columns"]}
    assert "nothing but words for no value ('n/a')" in notes["a"] and "others have none" in notes["p"]


@pytest.mark.parametrize("name, data, note", [
    ("letter.txt", "Dear all,\nplease find it there.\n", None),
    ("rows.json", "[1, 2, 3]", "not of objects"),
    ("page.xls", "<html><table><tr><td>1</td></tr></table></html>", "HTML page"),
    ("frame.feather", b"ARROW1\0\0", "write it as Parquet"),
])
def test_files_without_a_table_say_why(server, name, data, note):
    [file] = server.upload((name, data)).json["files"]
    assert file["table"] is None and (note in file["note"] if note else "note" not in file), file
    assert server.get(f"/data/{file['file_id']}").json.get("note") == file.get("note")


def test_text_files_with_columns_are_tables(server):
    [file] = server.upload(("app.log", "2024-04-05 12:00:01,123|INFO|a b\n2024-04-05 12:00:02,123|WARN|c d\n")).json["files"]
    assert file["table"] == "app" and file["rows"] == 2 and len(file["columns"]) == 3


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
