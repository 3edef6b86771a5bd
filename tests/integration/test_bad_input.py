"""Whatever is wrong with a request or a file: the error type, and a message that says what to do."""

import json
import os

import pytest

from test_runner import failed, python, succeeded


def sql(path, query=None, **more):
    return {"files": [{"path": str(path)}], "sql": query or f"SELECT * FROM {path.stem}", **more}


# ---- the request ----

@pytest.mark.parametrize("text, kind, words", [
    ("", "INVALID_INPUT", "no input"),
    (" \n", "INVALID_INPUT", "no input"),
    ("hello", "INVALID_JSON", "line 1"),
    ('{"sql": "SELECT 1"', "INVALID_JSON", "line 1"),
    (b'{"sql": "\xff"}', "INVALID_JSON", ""),
    ("[1]", "INVALID_INPUT", "must be a JSON object, not array"),
    ('"SELECT 1"', "INVALID_INPUT", "must be a JSON object, not string"),
    ("[" * 100000, "INVALID_JSON", ""),
], ids=["nothing", "blank", "words", "cut", "not-utf-8", "array", "string", "deep"])
def test_not_a_request(runner, text, kind, words):
    assert words in failed(runner(text), kind)


@pytest.mark.parametrize("change, message", [
    ({"query_type": "sparql"}, "unknown query_type 'sparql': use one of sql, python, plan"),
    ({"query_type": 1}, "'query_type' must be a string"),
    ({"sql": 5}, "'sql' must be a string"),
    ({"sql": None}, "SQL query is required"),
    ({"sql": "  "}, "SQL query is required"),
    ({"query_type": "python"}, "python_code is required"),
    ({"files": []}, "At least one file is required"),
    ({"files": None}, "At least one file is required"),
    ({"files": "orders.csv"}, "'files' must be an array"),
    ({"files": ["orders.csv"]}, "files[0]: expected an object"),
    ({"files": [{"name": "orders.csv"}]}, "files[0]: 'path' is required"),
    ({"files": [{"path": 7}]}, "files[0]: 'path' must be a string"),
    ({"files": [{"path": "orders.csv"}]}, "path 'orders.csv' must be absolute"),
    ({"timeout_seconds": 0}, "Timeout must be between 1 and 60 seconds"),
    ({"timeout_seconds": 61}, "Timeout must be between 1 and 60 seconds"),
    ({"timeout_seconds": "10"}, "'timeout_seconds' must be an integer, not string"),
    ({"timeout_seconds": 1.5}, "'timeout_seconds' must be an integer, not number"),
    ({"max_rows": 0}, "'max_rows' must be between 1 and 1000, not 0"),
    ({"max_rows": 1001}, "'max_rows' must be between 1 and 1000, not 1001"),
    ({"max_output_bytes": 1024}, "'max_output_bytes' must be greater than 1024 and at most 1000000"),
    ({"max_output_bytes": 1000001}, "'max_output_bytes' must be greater than 1024 and at most 1000000"),
    ({"memory_mb": 100000}, "'memory_mb' must be between 64 and 512, not 100000"),
    ({"python_policy": "lax"}, "unknown python_policy 'lax': use restricted or open"),
    ({"svg": "yes"}, "'svg' must be"),
    ({"dataset_id": "a'b"}, "'dataset_id' must be 1 to 128"),
])
def test_bad_fields(runner, orders, change, message):
    assert failed(runner({"files": orders, "sql": "SELECT 1", **change}), "VALIDATION_ERROR").startswith(message)


@pytest.mark.parametrize("key, kind", [("sql", "sql"), ("python_code", "python")])
def test_code_of_two_megabytes(runner, orders, key, kind):
    message = failed(runner({"files": orders, "query_type": kind, key: "#" * (2 << 20)}), "VALIDATION_ERROR")
    assert message.startswith(f"'{key}' is 2097152 bytes long and the limit is 1 MB (1048576 bytes)")


def test_request_of_thirty_megabytes(runner, orders):
    message = failed(runner({"files": orders, "sql": "#" * (30 << 20)}), "VALIDATION_ERROR")
    assert message.startswith("the request is larger than the limit of 8 MB")


def test_two_statements(runner, orders):
    message = failed(runner({"files": orders, "sql": "SELECT 1; DELETE FROM orders"}), "SQL_POLICY_VIOLATION")
    assert message.startswith("Multiple SQL statements are not allowed. Send them one by one")


def test_sql_syntax(runner, orders):
    assert "SELEC" in failed(runner({"files": orders, "sql": "SELEC 1"}), "SQL_EXECUTION_ERROR")


def test_python_syntax(runner, orders):
    message = failed(runner(python(orders, "x = (1,\n")), "PYTHON_POLICY_VIOLATION")
    assert message.startswith("Invalid Python syntax")


# ---- the file, from outside ----

def test_missing_file(runner, data):
    assert failed(runner(sql(data / "nothing.csv")), "VALIDATION_ERROR") == \
        f"file '{data}/nothing.csv' does not exist: check the path"


def test_directory(runner, data):
    (data / "sub.csv").mkdir()
    assert failed(runner(sql(data / "sub.csv")), "VALIDATION_ERROR") == \
        f"'{data}/sub.csv' is a directory: name a CSV file in it"


def test_fifo(runner, data):
    os.mkfifo(data / "pipe.csv")
    assert "is not a regular file" in failed(runner(sql(data / "pipe.csv")), "VALIDATION_ERROR")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file; tests/unit/sandbox covers it by stepping down")
def test_unreadable(runner, data):
    (data / "orders.csv").chmod(0)
    assert "cannot be read: give this user the right" in failed(runner(sql(data / "orders.csv")), "VALIDATION_ERROR")


@pytest.mark.parametrize("name", ["2024.csv", "my orders.csv", "order-items.csv", "a.b.csv", "naïve.csv"])
def test_table_name(runner, data, name):
    (data / name).write_text("a\n1\n")
    message = failed(runner(sql(data / name, "SELECT 1")), "VALIDATION_ERROR")
    assert message.startswith("Invalid table name '") and "give the file another name" in message
    # … which is what "name" is for:
    succeeded(runner({"files": [{"name": "good.csv", "path": str(data / name)}], "sql": "SELECT * FROM good"}))


def test_two_files_of_one_stem(runner, data):
    (data / "sub").mkdir()
    (data / "sub/Orders.csv").write_text("a\n1\n")
    files = [{"path": str(data / "orders.csv")}, {"path": str(data / "sub/Orders.csv")}]
    assert failed(runner({"files": files, "sql": "SELECT 1"}), "VALIDATION_ERROR").startswith(
        "duplicate table name 'Orders' (from files 'orders.csv' and 'Orders.csv')")


@pytest.mark.parametrize("path", ["/etc/passwd", "/etc/no-such-file", "{data}/../outside.csv", "{data}/link.csv",
                                  "{data}x/orders.csv"])
def test_paths_outside_the_data_root(runner, data, path):
    (data.parent / "outside.csv").write_text("a\n1\n")
    (data / "link.csv").symlink_to("../outside.csv")
    done = runner({"files": [{"name": "t.csv", "path": path.format(data=data)}], "sql": "SELECT 1"})
    assert f"must be under /data (here {data})" in failed(done, "VALIDATION_ERROR")


# ---- the file, from inside ----

def test_empty(runner, data):
    (data / "empty.csv").write_bytes(b"")
    assert "is empty" in failed(runner(sql(data / "empty.csv")), "VALIDATION_ERROR")


@pytest.mark.parametrize("content", [
    b"\x7fELF\x02\x01\x01\x00" + bytes(range(256)) * 64,
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(range(255, -1, -1)) * 64,
    b"PK\x03\x04" + b"\x00\x01\x02\xff" * 1000,
], ids=["elf", "png", "zip"])
def test_binary(runner, data, content):
    (data / "binary.csv").write_bytes(content)
    message = failed(runner(sql(data / "binary.csv")), "VALIDATION_ERROR")
    assert "binary.csv" in message


def test_ragged(runner, data):
    """Lines that do not fit are left out and reported, not guessed at; the rest is there."""
    good = "".join(f"{i},x{i},{i / 2}\n" for i in range(50))
    (data / "ragged.csv").write_text("id,name,half\n" + good + "51,too,many,fields,here\n" + "52,x52,26.0\n")
    response = succeeded(runner(sql(data / "ragged.csv", "SELECT count(*) AS n, max(id) AS m FROM ragged")))
    assert response["rows"] == [[51, 52]]
    [of_file] = response["rejects"]
    assert of_file["file"] == "ragged.csv" and of_file["rejects"]["count"] == 1
    assert of_file["rejects"]["lines"][0]["line"] == 52


def test_byte_order_mark(runner, data):
    (data / "bom.csv").write_bytes("\ufeffid,name\n1,ä\n".encode())
    response = succeeded(runner(sql(data / "bom.csv")))
    assert response["columns"] == ["id", "name"] and response["rows"] == [[1, "ä"]]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16(runner, data, encoding):
    (data / "wide.csv").write_bytes("\ufeffid,name\n1,ä\n2,日本\n".encode(encoding))
    response = succeeded(runner(sql(data / "wide.csv")))
    assert response["columns"] == ["id", "name"] and response["rows"] == [[1, "ä"], [2, "日本"]]


def test_latin_1(runner, data):
    (data / "latin.csv").write_bytes("id,name\n1,Müller\n".encode("latin-1"))
    assert succeeded(runner(sql(data / "latin.csv")))["rows"] == [[1, "Müller"]]


def test_one_column(runner, data):
    (data / "one.csv").write_text("name\nann\nbob\n")
    response = succeeded(runner(sql(data / "one.csv")))
    assert response["columns"] == ["name"] and response["rows"] == [["ann"], ["bob"]]


def test_header_only(runner, data):
    (data / "header.csv").write_text("id,name\n")
    response = succeeded(runner(sql(data / "header.csv")))
    assert response["columns"] == ["id", "name"] and response["rows"] == []


def test_ten_thousand_columns(runner, data):
    names = [f"c{i}" for i in range(10000)]
    (data / "broad.csv").write_text(",".join(names) + "\n" + ",".join(str(i) for i in range(10000)) + "\n")
    response = succeeded(runner(sql(data / "broad.csv", "SELECT c0, c9999 FROM broad", timeout_seconds=60)))
    assert response["rows"] == [[0, 9999]]


def test_duplicate_header(runner, data):
    """Both columns are there, under names of their own."""
    (data / "twice.csv").write_text("id,name,name\n1,a,b\n")
    response = succeeded(runner(sql(data / "twice.csv")))
    assert response["rows"] == [[1, "a", "b"]]
    assert response["columns"][:2] == ["id", "name"] and len(set(response["columns"])) == 3


def test_other_delimiters(runner, data):
    (data / "prices.csv").write_text('id;name;price\n1;"a;b";2,50\n2;c;3,75\n')
    response = succeeded(runner(sql(data / "prices.csv", "SELECT id, name FROM prices ORDER BY id")))
    assert response["rows"] == [[1, "a;b"], [2, "c"]]


def test_bad_setting(programs, data, orders):
    """A setting that makes no sense is refused with its name, its value and what is allowed."""
    done = programs.host({"files": orders, "sql": "SELECT 1"}, data, env={"MAX_ROWS": "many"})
    assert done.status == 2 and done.out == b""
    assert "MAX_ROWS" in done.err and "many" in done.err and "1000" in done.err


def test_unknown_setting(programs, data, orders):
    done = programs.host({"files": orders, "sql": "SELECT 1"}, data, env={"RIDDLE_MEMROY": "1g"})
    assert done.status == 2 and "RIDDLE_MEMROY" in done.err and "RIDDLE_MEMORY" in done.err


def test_response_is_one_line(runner, orders):
    done = runner({"files": orders, "sql": "SELECT 'a\nb' AS x"})
    assert json.loads(done.text.splitlines()[0])["rows"] == [["a\nb"]]
