"""Files of clients: how code finds them, and what becomes of files that are no tables."""

import json

from server import FORM_TYPE, form

ORDERS = "id,region,total\n1,north,10.5\n2,south,20\n3,north,30\n"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(64)


def upload(server, name, content):
    answer = server.upload((name, content))
    assert answer.status == 200, answer.body
    (file,) = answer.json["files"]
    return file


def new_thread(server, *file_ids):
    answer = server.post("/thread/new", {"file_ids": list(file_ids)})
    assert answer.status == 200, answer.body
    return answer.json["thread_id"]


def printed(server, thread, code):
    answer = server.post(f"/thread/{thread}/message", {"message": "PYTHON: " + code})
    assert answer.status == 200, answer.body
    return answer.json["code_runs"][0]["output"].strip()


# ---- where code finds its files ----


def test_df_and_data_csv_of_the_default_file(server):
    thread = server.post("/thread/new", {}).json["thread_id"]
    assert printed(server, thread, "print(df.shape, pd.read_csv('data.csv').shape)") == "(1000, 6) (1000, 6)"
    assert printed(server, thread, "df['big'] = df['amount'] > 100\nprint('big' in df)") == "True"
    assert printed(server, thread, "print('big' in df)") == "True"


def test_files_by_every_name(server):
    file = upload(server, "orders.csv", ORDERS)
    other = upload(server, "people.csv", "name\nAda\n")
    thread = new_thread(server, file["file_id"], other["file_id"])
    names = ["orders.csv", "data.csv", file["file_id"] + ".csv", "/data/orders.csv", "people.csv"]
    code = f"import os\nfor n in {names!r}: print(len(pd.read_csv(n)), os.path.exists(n))"
    assert printed(server, thread, code).split() == ["3", "True"] * 4 + ["1", "True"]
    assert printed(server, thread, "print(len(df))") == "3"


def test_df_of_a_cell_is_its_own(server):
    """The table is read only where the seed's variable is meant."""
    thread = new_thread(server, upload(server, "orders.csv", ORDERS)["file_id"])
    assert printed(server, thread, "def f(df): return len(df)\nprint(f([1]))") == "1"
    assert printed(server, thread, "print('df' in globals())") == "False"
    assert printed(server, thread, "df = pd.DataFrame({'a': [1]})\nprint(df.shape)") == "(1, 1)"


def test_a_file_of_the_working_directory_can_be_replaced(server):
    thread = new_thread(server, upload(server, "orders.csv", ORDERS)["file_id"])
    code = "df.head(1).to_csv('orders.csv', index=False)\nprint(len(pd.read_csv('orders.csv')), len(pd.read_csv('/data/orders.csv')))"
    assert printed(server, thread, code) == "1 3"


def test_data_shows_files_and_a_place_to_write(server):
    thread = new_thread(server, upload(server, "orders.csv", ORDERS)["file_id"])
    listed = printed(server, thread, "import os\nprint(sorted(n for n in os.listdir('/data') if n.endswith('s') or n.endswith('.csv')))")
    assert "orders.csv" in listed and "outputs" in listed and ".tables" not in listed
    code = "os.makedirs('/data/outputs', exist_ok=True)\nopen('/data/outputs/note.txt', 'w').write('kept')\nos.mkdir('outputs')\nprint('ok')"
    assert printed(server, thread, code) == "ok"
    got = server.get(f"/files/download?session_id={thread}&path=outputs/note.txt")
    assert (got.status, got.body) == (200, b"kept")


# ---- /upload takes any file ----


def test_other_files_are_files_of_the_thread(server):
    note = upload(server, "notes.md", "# Title\na, b\n1, 2\n")
    assert (note["rows"], note["columns"], note["size_bytes"]) == (None, None, 18)
    picture = upload(server, "dot.png", PNG)
    odd = upload(server, "settings.json", json.dumps({"a": {"b": 1}}) + "x")
    thread = new_thread(server, note["file_id"], picture["file_id"], odd["file_id"], upload(server, "orders.csv", ORDERS)["file_id"])
    code = f"print(open('notes.md').read().split()[1], len(open('/data/dot.png', 'rb').read()), open('{odd['file_id']}.json').read()[-1], len(df))"
    assert printed(server, thread, code) == "Title 72 x 3"
    assert note["file_id"] not in [d["id"] for d in server.get("/datasets").json["datasets"]]
    assert server.get("/uploads/" + note["file_id"]).json["status"] == "ready"


def test_a_broken_csv_is_an_error(server):
    answer = server.call("POST", "/upload", form(("head.csv", "a,b\n"), ("ok.txt", "x")), {"Content-Type": FORM_TYPE})
    assert answer.status == 200
    assert [f["filename"] for f in answer.json["files"]] == ["ok.txt"]
    (error,) = answer.json["errors"]
    assert error["filename"] == "head.csv" and error["error"].startswith("CSV has no data rows")


def test_other_files_survive_a_restart(server):
    file = upload(server, "kept.txt", "still here")
    server.stop()
    server.start()
    assert server.get("/uploads/" + file["file_id"]).json["rows"] is None
    thread = new_thread(server, file["file_id"])
    assert printed(server, thread, "print(open('kept.txt').read())") == "still here"
