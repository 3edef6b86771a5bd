"""Datasets over HTTP: lists, schemas with their profiles, folders that appear and change, and registries that cannot be read."""

import json
from collections import Counter

import pytest
from api import QUICK, Background, fails_to_start, make_set, read_csv, refused, run_body
from server import Server, wait_until


def ids(server):
    return [d["id"] for d in server.get("/datasets").json["datasets"]]


def test_list(shared):
    answer = shared.get("/datasets")
    assert list(answer.json) == ["datasets"]
    *datasets, database = answer.json["datasets"]
    assert [d["id"] for d in datasets] == ["ecommerce", "support", "sensors", "transactions"]
    assert (database["id"], database["kind"], database["prompts"]) == ("files", "database", [])
    for d in datasets:
        assert set(d) == {"id", "name", "kind", "description", "prompts", "version_hash"} and d["kind"] == "bundled"
        assert len(d["prompts"]) == 6 and all(d["prompts"]) and d["name"] and d["description"]
        assert d["version_hash"].startswith("sha256:") and len(d["version_hash"]) == 71


def test_unknown(shared):
    assert refused(shared.get("/datasets/nosuch/schema"), 404, "NOT_FOUND") == "Dataset not found"


@pytest.mark.parametrize("dataset_id", ["ecommerce", "support", "sensors", "transactions"])
def test_schema_and_profile(shared, dataset_id):
    schema = shared.get(f"/datasets/{dataset_id}/schema").json
    registry = json.loads((shared.datasets / "registry.json").read_text())
    [entry] = [d for d in registry["datasets"] if d["id"] == dataset_id]
    assert (schema["id"], schema["name"]) == (dataset_id, entry["name"])
    assert [file["name"] for file in schema["files"]] == [file["name"] for file in entry["files"]]
    for file, declared in zip(schema["files"], entry["files"]):
        rows = read_csv(shared, dataset_id, file["table"])
        assert file["path"] == declared["path"] and file["profiled"] is True
        assert file["row_count"] == len(rows)
        assert [as_read(row, file["schema"]) for row in file["sample_rows"]] == [as_read(row, file["schema"]) for row in rows[:3]]
        assert list(file["schema"]) == list(rows[0])
        for name, column in file["schema"].items():
            check_column(name, column, declared["schema"][name], [row[name] for row in rows])


def as_read(row, schema):
    """A row of texts with its numbers read: 0.70 is 0.7."""
    assert all(isinstance(text, str) for text in row.values())
    return {name: float(text) if text and schema[name]["type"] == "float" else text for name, text in row.items()}


def check_column(name, column, declared, texts):
    present = [text for text in texts if text != ""]
    assert (column["type"], column["description"]) == (declared["type"], declared["description"])
    assert column["nulls"] == len(texts) - len(present), name
    assert column["nullable"] is (column["nulls"] > 0), name
    assert column.get("values") == declared.get("values")
    number = {"integer": int, "float": float}.get(column["type"])
    values = [number(text) for text in present] if number else present
    assert column["distinct"] == len(set(values)), name
    if number:
        assert (column["min"], column["max"]) == (min(values), max(values)), name
        assert column["mean"] == pytest.approx(sum(values) / len(values)), name
    elif column["type"] == "string":
        assert (column["min"], column["max"]) == (min(values), max(values)), name
    elif column["type"] in ("date", "datetime"):
        assert column["min"][:10] == min(values)[:10] and column["max"][:10] == max(values)[:10], name
    if column["top"]:
        counts = Counter(str(value).lower() if column["type"] == "boolean" else value for value in values)
        shown = [(str(t["value"]).lower() if column["type"] == "boolean" else t["value"], t["count"]) for t in column["top"]]
        assert all(counts[value] == count for value, count in shown), name
        assert [count for _, count in shown] == [count for _, count in counts.most_common(len(shown))], name


def test_frequent_values_are_there(shared):
    columns = shared.get("/datasets/ecommerce/schema").json["files"][0]["schema"]
    counts = Counter(order["status"] for order in read_csv(shared, "ecommerce", "orders"))
    assert columns["status"]["top"] == [{"value": value, "count": count} for value, count in counts.most_common()]


def test_relationships(shared):
    found = shared.get("/datasets/ecommerce/schema").json["relationships"]
    assert {"from": "order_items.order_id", "to": "orders.order_id", "type": "many-to-one"} in found


# ---- folders ----


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server into whose directory folders are dropped after it started."""
    with Server(tmp_path_factory.mktemp("folders"), **QUICK) as server:
        assert ids(server) == []
        assert refused(server.sql("drop", "SELECT 1"), 404, "NOT_FOUND") == "Unknown dataset_id: drop"
        make_set(server, "drop", people="id,name,born,height,member\n1,Ann,1990-05-01,1.71,true\n2,Bob,,1.80,false\n3,Cy,2001-12-31,,true\n",
                 pets="owner_id,animal\n1,cat\n1,dog\n3,cat\n")
        make_set(server, "changing", t="n\n1\n2\n")
        make_set(server, "going", t="n\n1\n")
        make_set(server, "awkward", Größen='\ufeffName;Größe\n"Müller; ""Max""";1,5\nß;2,5\n')
        make_set(server, "popular", t="n,m\n" + "".join(f"{i},{i % 7}\n" for i in range(20000)))
        wait_until(lambda: len(ids(server)) == 5, "the folders are seen")
        yield server


def test_a_folder_dropped_in_is_picked_up(server):
    sql = "SELECT p.name, count(*) AS pets FROM people p JOIN pets ON pets.owner_id = p.id GROUP BY p.name ORDER BY p.name"
    assert server.sql("drop", sql).json["result"]["rows"] == [["Ann", 2], ["Cy", 1]]
    schema = server.get("/datasets/drop/schema").json
    columns = {file["table"]: file["schema"] for file in schema["files"]}
    assert {name: column["type"] for name, column in columns["people"].items()} == {
        "id": "integer", "name": "string", "born": "date", "height": "float", "member": "boolean"}
    assert (columns["people"]["born"]["min"], columns["people"]["born"]["nulls"], columns["people"]["height"]["max"]) == (
        "1990-05-01", 1, 1.8)
    assert columns["pets"]["animal"]["top"] == [{"value": "cat", "count": 2}, {"value": "dog", "count": 1}]
    plan = {"dataset_id": "drop", "table": "people", "select": [{"func": "avg", "column": "height", "alias": "h"}]}
    assert server.post("/runs", run_body("drop", plan=plan)).json["result"]["rows"] == [[pytest.approx(1.755)]]
    assert "did you mean 'height'?" in refused(
        server.post("/plans/compile", {"plan": {**plan, "select": [{"column": "heigth"}]}}), 400, "VALIDATION_ERROR")


def test_awkward_files(server):
    """What a spreadsheet writes: a byte order mark, semicolons, quotes, Latin names."""
    [file] = server.get("/datasets/awkward/schema").json["files"]
    assert [list(row.values())[0] for row in file["sample_rows"]] == ['Müller; "Max"', "ß"]
    rows = server.sql("awkward", f'SELECT "Name" FROM "{file["table"]}" ORDER BY 1').json["result"]["rows"]
    assert rows == [['Müller; "Max"'], ["ß"]]


def test_many_ask_for_a_new_schema_at_once(server):
    calls = [Background(server.get, "/datasets/popular/schema") for _ in range(8)]
    for call in calls:
        answer = call.result()
        assert answer.status == 200 and answer.json["files"][0]["schema"]["m"]["distinct"] == 7


def test_folders_that_change_and_go(server):
    def versions():
        return {d["id"]: d["version_hash"] for d in server.get("/datasets").json["datasets"]}
    before = versions()
    assert server.sql("changing", "SELECT sum(n) AS s FROM t").json["result"]["rows"] == [[3]]
    run_id = server.sql("going", "SELECT n FROM t").json["run_id"]
    (server.datasets / "changing" / "t.csv").write_text("n\n1\n2\n40\n")
    (server.datasets / "going" / "t.csv").unlink()
    (server.datasets / "going").rmdir()
    wait_until(lambda: versions() != before, "the change is seen")
    after = versions()
    assert after["changing"] != before["changing"] and "going" not in after and after["drop"] == before["drop"]
    assert server.sql("changing", "SELECT sum(n) AS s FROM t").json["result"]["rows"] == [[43]]
    assert server.get("/datasets/changing/schema").json["files"][0]["schema"]["n"]["max"] == 40
    assert refused(server.sql("going", "SELECT n FROM t"), 404, "NOT_FOUND") == "Unknown dataset_id: going"
    assert server.get(f"/runs/{run_id}").json["result_json"]["rows"] == [[1]]  # what was asked is still known


def test_a_registry_that_breaks_while_serving(server):
    before = ids(server)
    registry = server.datasets / "registry.json"
    registry.write_text('{"version": "1.0", "datasets": [')
    # What was there stays, and the log says why.
    wait_until(lambda: server.get("/datasets").status == 200 and "event=datasets.reload" in server.log.read_text(), "it is noted")
    assert ids(server) == before
    registry.unlink()


# ---- at start ----


@pytest.mark.parametrize("text, message", [
    ('{"version": "1.0", "datasets": [', "invalid JSON at line 1, column "),
    ('{"version": "7", "datasets": []}', "'version' must be \"1.0\", not \"7\""),
    ('{"version": "1.0"}', "'datasets' is required"),
    ('{"version": "1.0", "datasets": [{"id": "x", "name": "X", "files": [{"name": "x.csv", "path": "../../etc/passwd"}]}]}',
     "leads out of the registry's directory"),
    ('{"version": "1.0", "datasets": [{"id": "x", "name": "X", "files": [{"name": "x.csv", "path": "x/x.csv"}]}]}', "missing"),
    ("", "the text is empty"),
])
def test_broken_registry(tmp_path, text, message):
    server = Server(tmp_path)
    (server.datasets / "registry.json").write_text(text)
    status, said = fails_to_start(server)
    assert status == 1
    assert f"DATASETS_DIR '{server.datasets}'" in said and message in said


def test_no_directory_yet(tmp_path, shared):
    """A first start makes the bundled sets, the same as everywhere."""
    server = Server(tmp_path, **QUICK)
    server.datasets.rmdir()
    with server:
        versions = [{d["id"]: d["version_hash"] for d in s.get("/datasets").json["datasets"] if d["id"] != "files"} for s in (server, shared)]
        assert versions[0] == versions[1]
        n = len(read_csv(server, "transactions", "transactions"))
        assert server.sql("transactions", "SELECT count(*) FROM transactions").json["result"]["rows"] == [[n]]
