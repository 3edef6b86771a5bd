/*
 * Columns behind a table's file: what stored_frame() makes of them is what query_frame() makes of
 * the table, for every type and any mix of NULLs, and damaged ones are told or harmless.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/macros.h"
#include "kernel/checksum.h"
#include "kernel/ingest/ingest_impl.h"
#include "kernel/python/dataframe.h"
#include "kernel/sql/sql.h"
#include "kernel/sql/stored_frame.h"

static struct sql_engine *engine;
static char dir[64], path[96];

/* Python that the cases share. store() ends the file of the tables that make() made. */
static const char prelude[] =
    "import math, os, random\n"
    "import numpy as np\n"
    "import pandas as pd\n"
    "import _riddle_frames as rf\n"
    "def table(part): return 'data' + str(part or '')\n"
    /* Rows of every width of a vector, and around the ends of words and vectors. */
    "SIZES = (0, 1, 63, 64, 65, 2048, 2049)\n"
    "VALUES = {\n"
    "    'TINYINT': '(i % 256 - 128)', 'SMALLINT': '(i % 65536 - 32768)', 'INTEGER': 'i * 7919 - "
    "1', 'BIGINT': 'i * 1000003 - 5',\n"
    "    'UTINYINT': 'i % 256', 'USMALLINT': 'i', 'UINTEGER': 'i * 99991', 'UBIGINT': 'i',\n"
    "    'BIGINT ': '9007199254740990 + i', 'UBIGINT ': '18446744073709551615 - i::UBIGINT',\n"
    "    'HUGEINT': 'i', 'HUGEINT ': 'i * 170141183460469231731687::HUGEINT', 'UHUGEINT': "
    "'i::UHUGEINT',\n"
    "    'FLOAT': 'i / 7', 'DOUBLE': \"CASE WHEN i % 11 = 0 THEN 'nan' WHEN i % 13 = 0 THEN "
    "'-inf' ELSE (i / 7)::VARCHAR END\",\n"
    "    'DECIMAL(4,1)': 'i % 999 / 10', 'DECIMAL(9,3)': 'i / 1000', 'DECIMAL(18,4)': 'i * "
    "12345.6789', 'DECIMAL(38,10)': 'i * 1234567890123.0001',\n"
    "    'BOOLEAN': 'i % 3 = 0', 'DATE': \"DATE '1999-12-30' + i::INT\", 'DATE ': \"DATE "
    "'9990-12-30' + i::INT\",\n"
    "    'TIMESTAMP': \"TIMESTAMP '1969-12-31 23:59:58.5' + to_seconds(i)\", 'TIMESTAMP ': "
    "\"TIMESTAMP '0044-03-15 12:00:00' + to_days(i::INT)\",\n"
    "    'TIMESTAMP_S': \"TIMESTAMP '2000-01-01' + to_seconds(i)\", 'TIMESTAMP_MS': \"TIMESTAMP "
    "'2000-01-01' + to_milliseconds(i)\",\n"
    "    'TIMESTAMP_NS': \"TIMESTAMP '2000-01-01' + to_microseconds(i)\", 'TIMESTAMPTZ': "
    "\"TIMESTAMP '2000-01-01' + to_hours(i)\",\n"
    "    'TIME': \"TIME '00:00:00.000001' + to_seconds(i)\", 'TIMETZ': \"'12:00:00+02'\", "
    "'INTERVAL': 'to_days(i::INT) + to_microseconds(i)',\n"
    "    'UUID': \"('00000000-0000-0000-0000-' || lpad(i::VARCHAR, 12, '0'))\",\n"
    "    'VARCHAR': \"'gr\u00f6\u00dfe ' || i % 7\", 'VARCHAR ': \"repeat('x', (i % 40)::INT) || "
    "i\", 'VARCHAR  ': \"''\",\n"
    "    \"ENUM('a', 'longer than twelve bytes')\": \"CASE WHEN i % 2 = 0 THEN 'a' ELSE 'longer "
    "than twelve bytes' END\",\n"
    "    'BLOB': \"'\\\\x00\\\\xFF'::BLOB || encode(i::VARCHAR)\", 'BIT': \"'1' || repeat('01', "
    "(i % 9)::INT)\", 'BIGNUM': \"'-123456789012345678901234567890'\",\n"
    "}\n"
    "def make(part, n, kinds, share):\n"
    "    columns = ', '.join(f'(CASE WHEN hash(i, {k}) % 100 >= {share} THEN {VALUES[kind]} "
    "END)::{kind.strip()} AS \"c{k} \u00fc\"'\n"
    "                        for k, kind in enumerate(kinds))\n"
    "    run(f'CREATE OR REPLACE TABLE __ingest.main.{table(part)} AS SELECT {columns} FROM "
    "range({n}) t(i)')\n"
    "def attach(read_only):\n"
    "    if not read_only and os.path.exists(path): os.unlink(path)\n"
    "    run(f\"ATTACH '{path}' AS __ingest{' (READ_ONLY)' if read_only else ''}\")\n"
    "def same(a, b, about):\n"
    "    assert list(a.columns) == list(b.columns), about\n"
    "    assert list(a.dtypes) == list(b.dtypes), (about, list(a.dtypes), list(b.dtypes))\n"
    "    assert len(a) == len(b) and a.index.equals(b.index), about\n"
    "    for name in a.columns:\n"
    "        for x, y in zip(a[name], b[name]):\n"
    "            assert type(x) is type(y) and repr(x) == repr(y), (about, name, x, y)\n";

static void check(const char *code)
{
    PyObject *space = PyModule_GetDict(PyImport_AddModule("__main__"));
    PyObject *r = PyRun_String(code, Py_file_input, space, space);

    if (!r)
        PyErr_Print();
    assert_non_null(r);
    Py_DECREF(r);
}

/* store([rows, …]): the tables data, data1 … are all of a file, whose columns are stored. */
static PyObject *store(PyObject *self, PyObject *list)
{
    struct sql_ingest in = { .out_path = path };
    struct ingest g = { .e = engine, .in = &in };
    struct err err = ERR_INIT;
    struct ingest_part parts[8] = { 0 };

    (void)self;
    g.parts = parts;
    g.n_parts = (size_t)PyList_GET_SIZE(list);
    for (size_t i = 0; i < g.n_parts; i++)
        parts[i].n_rows = PyLong_AsLong(PyList_GET_ITEM(list, (Py_ssize_t)i));
    ingest_make_frames(&g);
    assert_int_equal(sql_run(engine, "CHECKPOINT __ingest;DETACH __ingest", &err), 0);
    assert_int_equal(ingest_write_frames(&g, &err), 0);
    ingest_drop_frames(&g);
    Py_RETURN_NONE;
}

/* Beside the bridge, which is to see no statement that is no SELECT. */
static PyObject *run(PyObject *self, PyObject *sql)
{
    struct err err = ERR_INIT;

    (void)self;
    if (sql_run(engine, PyUnicode_AsUTF8(sql), &err) < 0)
        return PyErr_Format(PyExc_RuntimeError, "%s", err.message);
    Py_RETURN_NONE;
}

/* A column's sum, if its pieces are inside of the part. */
static void seal_column(const char *data, size_t len, uint64_t n_rows, struct stored_column *c)
{
    struct {
        uint64_t at, bytes;
    } pieces[] = { { c->name_at, c->name_bytes },
                   { c->data_at, n_rows * c->width },
                   { c->validity_at, c->validity_at ? (n_rows + 63) / 64 * 8 : 0 },
                   { c->ends_at, c->n_texts * UINT64_C(4) },
                   { c->texts_at, c->texts_bytes } };

    c->check = 0;
    for (size_t i = 0; i < ARRAY_SIZE(pieces); i++)
        if (pieces[i].at <= len && pieces[i].bytes <= len - pieces[i].at && pieces[i].at % 8 == 0)
            c->check = checksum(c->check, data + pieces[i].at, pieces[i].bytes);
}

/* seal(bytes): the bytes as the file, with sums of its columns that are right. */
static PyObject *seal(PyObject *self, PyObject *bytes)
{
    char *data = PyByteArray_AS_STRING(bytes);
    size_t len = (size_t)PyByteArray_GET_SIZE(bytes);
    struct stored_trailer *t = (void *)(data + len - sizeof(*t));
    struct stored_part *part = (void *)(data + t->parts_at);
    struct stored_head *head = (void *)(data + part->at);
    struct stored_column *columns = (void *)(head + 1);
    uint64_t n = MIN_OF(head->n_columns, UINT64_C(8));
    int fd = open(path, O_WRONLY | O_TRUNC);

    (void)self;
    for (uint64_t i = 0; i < n; i++)
        seal_column(data + part->at, part->bytes, head->n_rows, &columns[i]);
    head->check = checksum(head->n_rows, columns, n * sizeof(*columns));
    assert_int_equal(write(fd, data, len), len);
    close(fd);
    Py_RETURN_NONE;
}

static PyMethodDef helpers[] = { { "store", store, METH_O, "" },
                                 { "run", run, METH_O, "" },
                                 { "seal", seal, METH_O, "" } };

static int set_up(void **state)
{
    struct err err = ERR_INIT;
    PyPreConfig before;
    PyConfig config;

    (void)state;
    strcpy(dir, "/tmp/riddle-unit-XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/table.duckdb", dir);
    PyPreConfig_InitIsolatedConfig(&before);
#ifdef __SANITIZE_ADDRESS__
    before.allocator = PYMEM_ALLOCATOR_MALLOC; /* so that it sees Python's objects as well */
#endif
    before.utf8_mode = 1;
    assert_false(PyStatus_Exception(Py_PreInitialize(&before)));
    PyConfig_InitIsolatedConfig(&config);
    config.install_signal_handlers = 0;
    config.write_bytecode = 0;
    PyConfig_SetString(&config, &config.program_name, L"/usr/bin/python3");
    assert_false(PyStatus_Exception(Py_InitializeFromConfig(&config)));
    PyConfig_Clear(&config);
    if (sql_engine_create(&engine, &err) < 0 || dataframe_init(engine, &err) < 0) {
        print_error("%s\n", err.message);
        return -1;
    }
    PyObject *space = PyModule_GetDict(PyImport_AddModule("__main__"));
    for (size_t i = 0; i < ARRAY_SIZE(helpers); i++)
        PyDict_SetItemString(space, helpers[i].ml_name, PyCFunction_New(&helpers[i], NULL));
    PyDict_SetItemString(space, "path", PyUnicode_FromString(path));
    check(prelude);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    sql_engine_destroy(engine);
    unlink(path);
    return rmdir(dir);
}

static void test_same_as_sql(void **state)
{
    (void)state;
    check("random.seed(7)\n"
          "kinds = list(VALUES)\n"
          "def compare(tables):\n"
          "    attach(False)\n"
          "    for part, (n, chosen, share) in enumerate(tables): make(part, n, chosen, share)\n"
          "    store([n for n, _, _ in tables])\n"
          "    attach(True)\n"
          "    for part, about in enumerate(tables):\n"
          "        frame = rf.stored_frame(path, part)\n"
          "        assert frame is not None, about\n"
          "        same(frame, rf.query_frame('SELECT * FROM __ingest.main.' + table(part)), "
          "about)\n"
          "    assert rf.stored_frame(path, len(tables)) is None\n"
          "    run('DETACH __ingest')\n"
          "compare([(130, kinds, share) for share in (0, 30, 100)])\n"
          "for size in SIZES:\n"
          "    compare([(size, random.sample(kinds, 6), random.choice((0, 0, 20, 90))) for _ in "
          "range(2)])\n");
}

static void test_frames_are_the_cells_own(void **state)
{
    (void)state;
    check("attach(False)\n"
          "make(0, 5000, ['BIGINT', 'VARCHAR', 'DATE'], 0)\n"
          "store([5000])\n"
          "before = open(path, 'rb').read()\n"
          "frame, other = rf.stored_frame(path, 0), rf.stored_frame(path, 0)\n"
          "frame[frame.columns[0]].values[:] += 1\n"
          "frame.iloc[2, 1] = None\n"
          "frame[frame.columns[2]] = pd.NaT\n"
          "frame['new'] = frame.iloc[:, 0] * 2\n"
          "assert open(path, 'rb').read() == before\n"
          "same(rf.stored_frame(path, 0), other, 'unchanged')\n"
          "array = rf.stored_frame(path, 0).iloc[:, 0].values\n"
          "assert array.flags.writeable and array.sum() == other.iloc[:, 0].sum()\n");
    dataframe_stored_detach();
    check("os.truncate(path, 0)\n" /* a mapping of the file would be gone */
          "assert array.sum() == other.iloc[:, 0].sum() == sum(i * 1000003 - 5 for i in "
          "range(5000))\n"
          "assert rf.stored_frame(path, 0) is None\n");
}

static void test_what_is_not_stored(void **state)
{
    (void)state;
    check("attach(False)\n"
          "run('CREATE TABLE __ingest.main.data AS SELECT [i] AS l, i FROM range(10) t(i)')\n"
          "run('CREATE TABLE __ingest.main.data1 AS SELECT i FROM range(200001) t(i)')\n"
          "run('CREATE TABLE __ingest.main.data2 AS SELECT i FROM range(10) t(i)')\n"
          "store([10, 200001, 10])\n"
          "assert rf.stored_frame(path, 0) is None and rf.stored_frame(path, 1) is None\n"
          "assert len(rf.stored_frame(path, 2)) == 10 and rf.stored_frame(path, 3) is None\n"
          "assert rf.stored_frame('/nowhere', 0) is None and rf.stored_frame('/dev/null', 0) is "
          "None\n");
}

static void test_damage(void **state)
{
    (void)state;
    check(
        "attach(False)\n"
        "make(0, 100, ['BIGINT', 'VARCHAR', 'VARCHAR ', 'UUID', 'BOOLEAN', 'TIMESTAMPTZ', "
        "'BLOB', 'DATE '], 20)\n"
        "store([100])\n"
        "whole = open(path, 'rb').read()\n"
        "want = rf.stored_frame(path, 0).copy()\n"
        "begin = int.from_bytes(whole[-32:-24], 'little')\n"
        "at = int.from_bytes(whole[begin:begin + 8], 'little')\n"
        "random.seed(3)\n"
        "noticed = 0\n"
        "def with_bytes(at, data):\n"
        "    with open(path, 'wb') as f: f.write(whole[:at] + data + whole[at + len(data):])\n"
        "for _ in range(150):\n" /* one bit anywhere is noticed, but between the pieces */
        "    i = random.randrange(begin, len(whole))\n"
        "    with_bytes(i, bytes([whole[i] ^ 1 << random.randrange(8)]))\n"
        "    frame = rf.stored_frame(path, 0)\n"
        "    if frame is not None: same(frame, want, i)\n"
        "    noticed += frame is None\n"
        "for cut in (1, 31, 32, 33, 500, len(whole) - 5):\n"
        "    with open(path, 'wb') as f: f.write(whole[:-cut])\n"
        "    assert rf.stored_frame(path, 0) is None, cut\n"
        "assert noticed > 130, noticed\n"
        "seen = set()\n" /* … and behind sums that are right */
        "for _ in range(800):\n"
        "    data = bytearray(whole)\n"
        "    for _ in range(random.choice((1, 1, 3))):\n"
        "        i = at + 8 + 4 * random.randrange(0, random.choice((8 * 22, 8 * 22, 1500)))\n"
        "        data[i:i + 4] = random.choice((0, 1, 2, 7, 8, 64, 100, 101, 1 << 31, (1 << 32) "
        "- 1, random.getrandbits(32))).to_bytes(4, 'little')\n"
        "    seal(data)\n"
        "    try:\n"
        "        frame = rf.stored_frame(path, 0)\n"
        "    except Exception as e:\n"
        "        seen.add(type(e).__name__)\n"
        "    else:\n"
        "        seen.add(frame is None)\n"
        "        if frame is not None: [frame[name].tolist() for name in frame]\n"
        "assert {True, False} <= seen <= {True, False, 'ValueError', 'OverflowError'}, seen\n");
}

/* The last one: there is no way back. */
static void test_names_that_may_mean_others(void **state)
{
    (void)state;
    check("attach(False)\n"
          "make(0, 5, ['BIGINT'], 0)\n"
          "store([5])\n"
          "rf.query('SELECT 1; SELECT 2')\n"
          "assert len(rf.stored_frame(path, 0)) == 5\n"
          "rf.query('CREATE TEMP TABLE data AS SELECT 1; SELECT 2')\n"
          "assert rf.stored_frame(path, 0) is None\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_as_sql),
        cmocka_unit_test(test_frames_are_the_cells_own),
        cmocka_unit_test(test_what_is_not_stored),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_names_that_may_mean_others),
    };

    return cmocka_run_group_tests_name("stored_frame", tests, set_up, tear_down);
}
