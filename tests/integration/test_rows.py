"""All rows of a result or of a table: page by page and as files, of any size, for their owner only."""

import csv
import http.client
import io
import json
import zipfile

import pytest

from api import QUICK, refused
from server import BOUNDARY, FORM_END, FORM_TYPE, RIDDLE, Server, part_head

pytestmark = pytest.mark.plain

KEYS = {"RIDDLE_API_KEYS": "ann:ann-key-0123456789,ben:ben-key-0123456789"}
ANN, BEN = "ann-key-0123456789", "ben-key-0123456789"
ROWS = 20000
TEXT = "id,name,amount,day,note\n" + "".join(
    f"{i},name {i % 7},{i / 4:.2f},2024-01-{i % 28 + 1:02d},{'=1+2' if i % 5 == 0 else '-3' if i % 5 == 1 else 'x, y'!r}\n"
    .replace("'x, y'", '"x, y"').replace("'", "") for i in range(ROWS))


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    s = Server(tmp_path_factory.mktemp("rows"), **QUICK, **KEYS)
    (s.datasets / "shop").mkdir()
    (s.datasets / "shop" / "orders.csv").write_text("id,total\n1,2.5\n2,3\n")
    with s:
        s.key = ANN
        body = part_head("sales 2024.csv") + TEXT.encode() + FORM_END
        answer = s.call("POST", "/upload", body, {"Content-Type": FORM_TYPE})
        assert answer.status == 200, answer.body
        s.sales = answer.json["files"][0]["file_id"]
        s.table = answer.json["files"][0]["table"]
        yield s
        assert s.stop() == 0, s.log.read_text()[-4000:]


def run(server, sql, **more):
    answer = server.post("/runs", {"dataset_id": server.sales, "query_type": "sql", "sql": sql} | more)
    assert answer.status == 200 and answer.json["status"] == "succeeded", answer.body
    return answer.json


def lines(answer):
    assert answer.status == 200, answer.body
    return list(csv.reader(io.StringIO(answer.body.decode(), newline="")))


def test_a_runs_whole_result_comes_in_every_format(server):
    done = run(server, f"SELECT * FROM {server.table} WHERE id % 2 = 0 ORDER BY id DESC; -- all of them")
    assert done["result"]["truncated"]
    at = f"/runs/{done['run_id']}"
    all_rows = lines(server.get(f"{at}/export?format=csv"))
    assert all_rows[0] == ["id", "name", "amount", "day", "note"]
    assert len(all_rows) == 1 + ROWS // 2
    assert all_rows[1] == ["19998", "name 6", "4999.5", "2024-01-07", "x, y"]
    # What a spreadsheet would run has a quote in front; a number has none.
    assert {row[4] for row in all_rows[1:]} == {"'=1+2", "-3", "x, y"}
    objects = server.get(f"{at}/export?format=json").json
    assert len(objects) == ROWS // 2 and objects[0]["id"] == 19998 and {o["note"] for o in objects} == {"=1+2", "-3", "x, y"}
    parquet = server.get(f"{at}/export?format=parquet")
    assert parquet.body[:4] == b"PAR1" == parquet.body[-4:] and parquet.headers["content-type"] == "application/vnd.apache.parquet"
    book = server.get(f"{at}/export?format=xlsx")
    assert 'filename="run-' in book.headers["content-disposition"]
    with zipfile.ZipFile(io.BytesIO(book.body)) as z:
        sheet = z.read("xl/worksheets/sheet1.xml").decode()
        assert sheet.count("<row ") == 1 + ROWS // 2 and "<v>19998</v>" in sheet and "<f>" not in sheet
    # What was exported is read as it was.
    again = server.call("POST", "/upload", part_head("again.parquet") + parquet.body + FORM_END, {"Content-Type": FORM_TYPE}).json
    assert again["files"][0]["rows"] == ROWS // 2
    book = server.call("POST", "/upload", part_head("again.xlsx") + book.body + FORM_END, {"Content-Type": FORM_TYPE}).json
    assert book["files"][0]["rows"] == ROWS // 2 and book["files"][0]["columns"] == all_rows[0]


def test_rows_of_a_run_come_page_by_page(server):
    run_id = run(server, f"SELECT id, name, id AS id FROM {server.table} ORDER BY id")["run_id"]
    page = server.get(f"/runs/{run_id}/rows").json
    assert page["columns"] == ["id", "name", "id_1"] and page["total"] == ROWS
    assert [r[0] for r in page["rows"]] == list(range(100)) and page["offset"] == 0 and page["limit"] == 100
    page = server.get(f"/runs/{run_id}/rows?offset={ROWS - 3}&limit=10").json
    assert [r[0] for r in page["rows"]] == [ROWS - 3, ROWS - 2, ROWS - 1] and page["total"] == ROWS
    page = server.get(f"/runs/{run_id}/rows?offset={ROWS + 5}").json
    assert page["rows"] == [] and page["total"] == ROWS
    page = server.get(f"/runs/{run_id}/rows?sort=-name,%22id%22&limit=2&filter=id%20%3C%2014").json
    assert page["total"] == 14 and [r[:2] for r in page["rows"]] == [[6, "name 6"], [13, "name 6"]]


def test_what_python_made_is_kept_or_refused(server):
    code = "import pandas as pd\npd.DataFrame({'a': [1, None, 2.5], 'b': [\"it's\", '=x', None]})"
    done = server.post("/runs", {"dataset_id": server.sales, "query_type": "python", "python_code": code}).json
    page = server.get(f"/runs/{done['run_id']}/rows?sort=-a").json
    assert page["columns"] == ["a", "b"] and page["rows"] == [[2.5, None], [1.0, "it's"], [None, "=x"]] and page["total"] == 3
    assert lines(server.get(f"/runs/{done['run_id']}/export"))[2] == ["", "'=x"]
    done = server.post("/runs", {"dataset_id": server.sales, "query_type": "python", "max_rows": 2, "python_code": code}).json
    assert "only the first rows" in refused(server.get(f"/runs/{done['run_id']}/export"), 409, "CONFLICT")


def test_the_result_of_a_message_is_exported_from_the_threads_data(server):
    thread = server.post("/thread/new", {"file_ids": [server.sales]}).json["thread_id"]
    answer = server.post(f"/thread/{thread}/message", {"message": f"SQL: SELECT id FROM {server.table}"}).json
    assert len(lines(server.get(f"/runs/{answer['run_id']}/export"))) == ROWS + 1


def test_bad_requests_say_what_is_wrong(server):
    run_id = run(server, f"SELECT id FROM {server.table}")["run_id"]
    at = f"/runs/{run_id}"
    assert "format" in refused(server.get(f"{at}/export?format=pdf"), 422, "VALIDATION_ERROR")
    assert "limit" in refused(server.get(f"{at}/rows?limit=0"), 422, "VALIDATION_ERROR")
    assert "nope" in refused(server.get(f"{at}/rows?sort=nope"), 400, "VALIDATION_ERROR")
    assert "sort" in refused(server.get(f"{at}/rows?sort=,"), 400, "VALIDATION_ERROR")
    assert "yntax error" in refused(server.get(f"{at}/rows?filter=id%20%3E"), 400, "VALIDATION_ERROR")
    assert "nope" in refused(server.get(f"{at}/export?filter=nope%20%3D%201"), 400, "VALIDATION_ERROR")
    assert "read_text" in refused(server.get(f"{at}/rows?filter=1%3D1)%20UNION%20SELECT%20content%20FROM%20read_text('/etc/passwd'"), 400, "VALIDATION_ERROR")
    assert "Run not found" in refused(server.get("/runs/no-such-run/rows"), 404, "NOT_FOUND")
    assert "Run not found" in refused(server.get(f"{at}/export", key=BEN), 404, "NOT_FOUND")
    failed = server.post("/runs", {"dataset_id": server.sales, "query_type": "sql", "sql": "SELECT nope"}).json["run_id"]
    assert "did not succeed" in refused(server.get(f"/runs/{failed}/rows"), 409, "CONFLICT")


def test_a_statement_that_fails_midway_cuts_the_download(server):
    """The first piece is sent before the failure is known: the client must see that the file is not whole."""
    sql = (f"SELECT CASE WHEN a.id = {ROWS - 1} AND b.id > 90 THEN error('late') ELSE repeat('x', 50) END AS t "
           f"FROM {server.table} a, {server.table} b WHERE b.id < 100")
    run_id = run(server, sql)["run_id"]
    with pytest.raises(http.client.IncompleteRead):
        server.get(f"/runs/{run_id}/export")


def items(server, **more):
    return {item["id"]: item for item in server.get("/data", **more).json["data"]}


def test_all_data_of_an_owner_is_listed_described_and_paged(server):
    session = (f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="session_id"\r\n\r\nroom-1\r\n'.encode()
               + part_head("pets.csv") + b"pet,legs\ncat,4\nbird,2\nspider,8\n" + FORM_END)
    assert server.call("POST", "/files/upload", session, {"Content-Type": FORM_TYPE}).status == 200
    mine = items(server)
    assert mine[server.sales]["kind"] == "upload" and mine[server.sales]["tables"][0]["rows"] == ROWS
    assert mine["shop"]["kind"] == "bundled" and [t["name"] for t in mine["shop"]["tables"]] == ["orders"]
    (pets,) = [item for item in mine.values() if item["kind"] == "thread"]
    assert pets["thread_id"] == "room-1" and pets["name"] == "pets.csv"
    assert server.get(f"/data/{pets['id']}").json["id"] == pets["id"]
    # A file of a thread is a data set like any other.
    assert server.sql(pets["id"], "SELECT sum(legs) FROM pets").json["result"]["rows"] == [[14]]
    page = server.get(f"/data/{pets['id']}/tables/pets/rows?sort=-legs&limit=1").json
    assert page["rows"] == [["spider", 8]] and page["total"] == 3

    table = server.get(f"/data/{server.sales}/tables/{server.table}").json
    columns = {c["name"]: c for c in table["columns"]}
    assert table["rows"] == ROWS and list(columns) == ["id", "name", "amount", "day", "note"]
    assert [columns[c]["role"] for c in columns] == ["id", "category", "measure", "time", "category"]
    histogram = columns["amount"]["histogram"]
    assert sum(histogram["counts"]) == ROWS and len(histogram["counts"]) == 12
    assert max(histogram["counts"]) - min(histogram["counts"]) <= 2
    assert {t["value"] for t in columns["name"]["top"]} >= {"name 0", "name 1"} and table["sample_rows"]
    assert table["report"]["rows"] == ROWS

    page = server.get(f"/data/{server.sales}/tables/{server.table}/rows?offset=10&limit=2&sort=id").json
    assert [r[0] for r in page["rows"]] == [10, 11] and page["total"] == ROWS
    exported = lines(server.get(f"/data/{server.sales}/tables/{server.table}/export?format=csv&sort=-id&filter=id%20%3C%205"))
    assert [r[0] for r in exported] == ["id", "4", "3", "2", "1", "0"]
    assert lines(server.get("/data/shop/tables/ORDERS/export")) == [["id", "total"], ["1", "2.5"], ["2", "3.0"]]

    # Nobody else sees any of it.
    assert {i["kind"] for i in items(server, key=BEN).values()} == {"bundled"}
    for path in (f"/data/{pets['id']}", f"/data/{server.sales}", f"/data/{server.sales}/tables/{server.table}",
                 f"/data/{server.sales}/tables/{server.table}/rows", f"/data/{pets['id']}/tables/pets/export"):
        assert "no such data set" in refused(server.get(path, key=BEN), 404, "NOT_FOUND")
    assert "no such data set" in refused(server.delete(f"/data/{pets['id']}", key=BEN), 404, "NOT_FOUND")
    assert "no such table" in refused(server.get(f"/data/{server.sales}/tables/nope"), 404, "NOT_FOUND")
    assert "nope" in refused(server.get(f"/data/{server.sales}/tables/{server.table}/rows?sort=nope"), 400, "VALIDATION_ERROR")
    assert "server's own" in refused(server.delete("/data/shop"), 403, "FORBIDDEN")

    assert server.delete(f"/data/{pets['id']}").json == {"id": pets["id"], "status": "deleted"}
    assert pets["id"] not in items(server)


def patch(server, data_id, **change):
    return server.call("PATCH", f"/data/{data_id}", json.dumps(change).encode(), {"Content-Type": "application/json"})


def test_a_data_set_is_renamed_and_keeps_its_table(server):
    sent = server.call("POST", "/upload", part_head("old.csv") + b"a,b\n1,2\n3,4\n" + FORM_END, {"Content-Type": FORM_TYPE}).json
    data_id = sent["files"][0]["file_id"]
    assert "keep '.csv'" in refused(patch(server, data_id, name="new.json"), 400, "VALIDATION_ERROR")
    renamed = patch(server, data_id, name="new name.csv").json
    assert renamed["name"] == "new name.csv" and renamed["tables"][0]["name"] == "new_name"
    for again in (False, True):
        if again:  # a server that starts anew finds the file by its old name
            assert server.stop() == 0
            server.start()
        assert server.get(f"/data/{data_id}").json["name"] == "new name.csv"
        assert server.sql(data_id, "SELECT sum(b) FROM new_name").json["result"]["rows"] == [[6]]
    assert server.delete(f"/data/{data_id}").status == 200
    assert not list(server.home.glob(f"uploads/*/{data_id}"))


def test_a_thread_takes_and_gives_up_data_while_it_runs(server):
    """Variables stay, SQL sees the new table, Python the new file, and a server that starts anew knows the list."""
    sent = server.upload(("first.csv", "a\n1\n2\n"), ("second.csv", "b\n10\n20\n")).json["files"]
    first, second = (f["file_id"] for f in sent)
    thread = server.post("/thread/new", {"file_ids": [first]}).json["thread_id"]

    def cell(code, language="python"):
        return server.post(f"/thread/{thread}/execute", {"language": language, "code": code}).json

    assert cell("kept = first['a'].sum()")["status"] == "succeeded"
    assert "not found" in refused(server.post(f"/thread/{thread}/data", {"data": ["nope"]}), 404, "NOT_FOUND")
    now = server.post(f"/thread/{thread}/data", {"data": [second, "shop"]}).json
    assert now["datasets"] == ["shop"] and now["file_ids"] == [first, second]
    assert {f["name"] for f in now["files"]} == {"first.csv", "second.csv", "orders.csv"}
    done = cell("import csv\nprint(kept, list(csv.reader(open('second.csv')))[1:], open('orders.csv').readline())")
    assert done["result"]["stdout"] == "3 [['10'], ['20']] id,total\n\n", done
    assert cell("SELECT sum(a.a) + sum(b.b) AS n FROM first a, second b", "sql")["result"]["rows"] == [[66]]
    now = server.delete(f"/thread/{thread}/data/{first}").json
    assert now["file_ids"] == [second]
    assert "no data set" in refused(server.delete(f"/thread/{thread}/data/{first}"), 404, "NOT_FOUND")
    assert "Thread not found" in refused(server.post("/thread/none/data", {"data": [second]}), 404, "NOT_FOUND")
    assert server.stop() == 0
    server.start()
    told = server.get(f"/thread/{thread}/status").json
    assert (told["datasets"], told["file_ids"]) == (["shop"], [second])
    assert cell("SELECT sum(b) AS n FROM second", "sql")["result"]["rows"] == [[30]]
    assert cell("SELECT count(*) AS n FROM orders", "sql")["result"]["rows"] == [[2]]
    gone = cell("SELECT * FROM first", "sql")["result"]["error"]
    assert gone and "first" in gone["message"]


def test_a_thread_goes_on_when_its_file_is_read_again(server):
    """SQL has the new table at once; Python keeps its variables and the old one, which is told; a new kernel has the new one."""
    data_id = server.upload(("codes.csv", "code,n\n007,1\n042,2\n")).json["files"][0]["file_id"]
    thread = server.post("/thread/new", {"file_ids": [data_id]}).json["thread_id"]

    def cell(code, language="python", to=None):
        return server.post(f"/thread/{to or thread}/execute", {"language": language, "code": code}).json["result"]

    assert cell("kept = codes['n'].sum(); print(kept, list(codes['code']))")["stdout"].startswith("3 [")
    assert patch(server, data_id, options={"types": "text"}).status == 200
    assert cell("SELECT code || '/' || n AS t FROM codes ORDER BY 1", "sql")["rows"] == [["007/1"], ["042/2"]]
    assert cell("print(kept)")["stdout"] == "3\n"
    [file] = server.post(f"/thread/{thread}/data", {"data": [data_id]}).json["files"]
    assert file["path"] == "/data/codes.csv" and "as it was read before" in file["note"]
    other = server.post("/thread/new", {"file_ids": [data_id]}).json["thread_id"]
    assert cell("print(list(codes['n']))", to=other)["stdout"] == "['1', '2']\n"
    # A kernel that was frozen keeps what it has; one that became a file would find another table: its loss is told.
    assert server.post(f"/thread/{thread}/freeze", {}).json["sandbox_status"] == "warm"
    images = "asan" not in str(RIDDLE)  # a sanitizer's own memory is no part of an image
    assert server.post(f"/thread/{other}/cool", {}).json["sandbox_status"] == ("cold" if images else "hot")
    assert patch(server, data_id, options={"types": None}).status == 200
    assert cell("print(kept)")["stdout"] == "3\n"
    if images:
        answer = server.post(f"/thread/{other}/execute", {"language": "python", "code": "print(list(codes['n']))"}).json
        assert answer["result"]["stdout"] == "[1, 2]\n" and answer["state_lost"] is True, answer
    assert server.delete(f"/data/{data_id}").status == 200


def workbook(**sheets):
    """Sheets of texts and numbers as an XLSX file."""
    def cell(v):
        return f'<c t="inlineStr"><is><t>{v}</t></is></c>' if isinstance(v, str) else f"<c><v>{v}</v></c>" if v is not None else "<c/>"
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        z.writestr("_rels/.rels", '<R><Relationship Id="a" Type="/officeDocument" Target="xl/workbook.xml"/></R>')
        z.writestr("xl/workbook.xml", "<workbook><sheets>" + "".join(f'<sheet name="{n}" id="{n}"/>' for n in sheets) + "</sheets></workbook>")
        z.writestr("xl/_rels/workbook.xml.rels", "<R>" + "".join(f'<Relationship Id="{n}" Type="/worksheet" Target="{n}.xml"/>' for n in sheets) + "</R>")
        for name, rows in sheets.items():
            z.writestr(f"xl/{name}.xml", "<worksheet><sheetData>" + "".join(f"<row>{''.join(map(cell, row))}</row>" for row in rows) +
                       "</sheetData></worksheet>")
    return out.getvalue()


def test_every_sheet_is_a_table(server):
    """In the upload's answer, the schema, /data, SQL, Python, questions and downloads; another reading takes one of them."""
    book = workbook(Sales=[("Sales of 2024",), ("city", "price"), ("Ulm", "1.234,50"), ("Bonn", "12,5"), ("Total", "1.247,00")],
                    Staff=[("name", "age"), ("Ann", 31), ("Bob", 45), ("Cy", 52)], Nothing=[])
    answer = server.call("POST", "/upload", part_head("firm.xlsx") + book + FORM_END, {"Content-Type": FORM_TYPE}).json["files"][0]
    assert (answer["table"], answer["rows"], answer["report"]["header_line"], answer["report"]["decimal"]) == ("firm", 2, 2, ",")
    [other] = answer["tables"]
    assert (other["table"], other["rows"], other["columns"], other["report"]["sheet"]) == ("firm_Staff", 3, ["name", "age"], "Staff")
    data_id = answer["file_id"]
    assert [(t["name"], t["rows"], t["columns"]) for t in server.get(f"/data/{data_id}").json["tables"]] == [("firm", 2, 2), ("firm_Staff", 3, 2)]
    schema = server.get(f"/datasets/{data_id}/schema").json["files"]
    assert [f["table"] for f in schema] == ["firm", "firm_Staff"] and schema[1]["schema"]["age"]["type"] == "integer"
    table = server.get(f"/data/{data_id}/tables/firm_staff").json
    assert table["rows"] == 3 and table["columns"][1]["histogram"] and table["report"]["sheet"] == "Staff"
    assert server.get(f"/data/{data_id}/tables/firm_staff/rows?sort=-age&limit=1").json["rows"] == [["Cy", 52]]
    assert server.get(f"/data/{data_id}/tables/firm_Staff/export?format=csv").body.splitlines()[1:2] == [b"Ann,31"]
    assert server.get(f"/data/{data_id}/tables/firm_None").status == 404
    plan = {"dataset_id": data_id, "table": "firm_Staff", "select": [{"func": "max", "column": "age", "alias": "n"}]}
    run = server.post("/runs", {"dataset_id": data_id, "query_type": "plan", "plan_json": plan})
    assert run.status in (200, 201) and run.json["result"]["rows"] == [[52]], run.body
    run = server.sql(data_id, f'SELECT count(*) FROM "{data_id}".firm_staff, firm')
    assert run.json["result"]["rows"] == [[6]], run.body
    thread = server.post("/thread/new", {"file_ids": [data_id]}).json["thread_id"]
    cell = server.post(f"/thread/{thread}/execute", {"language": "python", "code": "print(firm['price'].sum(), firm_Staff['age'].max())"})
    assert cell.json["result"]["stdout"] == "1247.0 52\n", cell.body
    said = server.post(f"/thread/{thread}/message", {"message": "what is the average age in staff?"}).json
    assert "42.67" in json.dumps(said), said
    changed = patch(server, data_id, options={"sheet": "Staff"}).json
    assert [(t["name"], t["rows"]) for t in changed["tables"]] == [("firm", 3)]
    assert patch(server, data_id, options={"sheet": "Nobody"}).status == 400
    assert len(patch(server, data_id, options={"sheet": None}).json["tables"]) == 2
    assert server.delete(f"/data/{data_id}").status == 200


def upload(server, name, content):
    answer = server.call("POST", "/upload", part_head(name) + content + FORM_END, {"Content-Type": FORM_TYPE})
    assert answer.status == 200, answer.body
    return answer.json["files"][0]


def test_every_refused_row_is_downloaded(server):
    bad = [(i * 13 + 14, f'{i},"a ""b""",=c' + "é" * (10000 if i == 1 else 300)) for i in range(3000)]
    text = ["id,name"] + [line for _, row in bad for line in ["1,x"] * 12 + [row]]
    file = upload(server, "bad.csv", "\n".join(text).encode())
    report = file["report"]
    assert (report["rows"], report["refused"], len(report["refused_rows"])) == (36000, 3000, 20) and "refused_kept" not in report
    at = f"/data/{file['file_id']}/tables/bad"
    rows, kept = lines(server.get(f"{at}/refused")), 16 << 10  # bytes of a text
    assert len(bad[1][1].encode()) > kept
    bad[1] = (bad[1][0], bad[1][1].encode()[:kept].decode(errors="ignore"))
    assert rows == [["line", "reason", "text"]] + [[str(line), "3 fields instead of 2", row] for line, row in bad]
    assert server.get(f"{at}/refused").headers["content-disposition"].count("bad-refused.csv")
    assert server.get(f"{at}/refused?format=json&filter=line<20").json == [{"line": 14, "reason": "3 fields instead of 2", "text": bad[0][1]}]
    assert server.get(f"{at}/rows?limit=1").json["total"] == 36000
    refused(server.get(f"{at}/refused", key=BEN), 404, "NOT_FOUND")
    # Read as one column of text there is nothing to refuse.
    assert patch(server, file["file_id"], options={"delimiter": "|"}).status == 200
    assert lines(server.get(f"{at}/refused")) == [["line", "reason", "text"]]
    assert server.delete(f"/data/{file['file_id']}").status == 200
    refused(server.get(f"{at}/refused"), 404, "NOT_FOUND")
    assert lines(server.get("/data/shop/tables/orders/refused")) == [["line", "reason", "text"]]
    refused(server.get("/data/shop/tables/nothing/refused"), 404, "NOT_FOUND")


def test_every_list_of_a_json_file_is_a_table(server):
    shop = {"meta": {"links": [{"rel": "self"}]}, "errors": [{}], "orders": [{"id": i, "total": i / 2, "items": [{"n": 1}]} for i in range(3)],
            "tags": ["a"], "customers": [{"name": "Ann", "since": "2024-01-31"}, {"name": "Bob", "since": None}]}
    file = upload(server, "firm.json", json.dumps(shop).encode())
    report = file["report"]
    assert (file["table"], file["rows"], file["columns"], report["records"]) == ("firm", 3, ["id", "total", "items"], "orders")
    assert report["notes"] == ["the file has 4 lists of objects; each is a table", "1 of them could not be read as tables or are too many"]
    assert [(t["table"], t["rows"], t["columns"], t["report"]["records"]) for t in file["tables"]] == [
        ("firm_items", 3, ["parent_id", "n"], "items"), ("firm_customers", 2, ["name", "since"], "customers"),
        ("firm_meta_links", 1, ["rel"], "meta.links")]
    data_id = file["file_id"]
    run = server.sql(data_id, "SELECT sum(total), max(since), any_value(rel) FROM firm, firm_customers, firm_meta_links")
    assert run.json["result"]["rows"] == [[3.0, "2024-01-31", "self"]], run.body
    assert server.get(f"/data/{data_id}/tables/firm_customers/rows?sort=name").json["rows"] == [["Ann", "2024-01-31"], ["Bob", None]]
    [only] = patch(server, data_id, options={"sheet": "meta.links"}).json["tables"]
    assert (only["name"], only["rows"]) == ("firm", 1)
    assert "no list of objects 'nobody'" in refused(patch(server, data_id, options={"sheet": "nobody"}), 400, "VALIDATION_ERROR")
    assert server.delete(f"/data/{data_id}").status == 200


def packed(**files):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as z:
        for name, content in files.items():
            z.writestr(name, content)
    return out.getvalue()


def test_every_file_of_an_archive_is_a_table(server):
    """Each is read by its own kind, encoding and separator; what is no table is passed over."""
    orders = "\n".join(["id;price"] + ["1;2,5"] * 40 + ["2;3;4"]).encode()
    book = packed(**{"README.md": "# not data", "__MACOSX/._orders.csv": b"\0", "in/": "", "empty.csv": "", "in/orders.csv": orders,
                     "header.csv": "a,b\n", "in/people.tsv": "name\tcity, land\nJos\xe9\tUlm\n".encode("cp1252"), "tags.csv": "a,b\nx y,1\nz,2\n",
                     "firm.json": json.dumps({"a": [{"n": 1}], "b": [{"m": 2}, {"m": 3}]}), "deep.json": packed(**{"x.csv": "a\n1\n"})})
    file = upload(server, "all.zip", book)
    report = file["report"]
    assert (file["table"], file["rows"], report["format"], report["compression"], report["file"]) == ("all", 40, "csv", "zip", "in/orders.csv")
    assert report["delimiter"] == ";" and report["decimal"] == "," and report["refused"] == 1
    assert report["notes"][-2:] == ["the archive has 7 files with data; each with rows is a table", "3 files or lists without a table in them were passed over"]
    assert [(t["table"], t["rows"], t["columns"], t["report"]["format"], t["report"].get("encoding"), t["report"]["file"]) for t in file["tables"]] == [
        ("all_people", 1, ["name", "city, land"], "tsv", "windows-1252", "in/people.tsv"), ("all_tags", 2, ["a", "b"], "csv", "utf-8", "tags.csv"),
        ("all_firm_a", 1, ["n"], "json", None, "firm.json"), ("all_firm_b", 2, ["m"], "json", None, "firm.json")]
    data_id = file["file_id"]
    run = server.sql(data_id, "SELECT sum(price), min(name), max(a), max(n), max(m) FROM \"all\", all_people, all_tags, all_firm_a, all_firm_b")
    assert run.json["result"]["rows"] == [[400.0, "José", "z", 1, 3]], run.body
    assert lines(server.get(f"/data/{data_id}/tables/all/refused"))[1:] == [["42", "3 fields instead of 2", "2;3;4"]]
    assert len(lines(server.get(f"/data/{data_id}/tables/all_people/refused"))) == 1
    [only] = patch(server, data_id, options={"sheet": "tags.csv"}).json["tables"]
    assert (only["name"], only["rows"]) == ("all", 2)
    assert "no file 'x.csv'" in refused(patch(server, data_id, options={"sheet": "x.csv"}), 400, "VALIDATION_ERROR")
    assert server.delete(f"/data/{data_id}").status == 200
    # What has no table is kept for code, as before.
    assert upload(server, "none.zip", packed(**{"a.png": b"\x89PNG"})).get("table") is None
