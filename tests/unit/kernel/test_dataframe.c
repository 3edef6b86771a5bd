/*
 * The bridge between DuckDB and pandas: every type both ways, NULLs, failures, interrupts. The
 * cases are written in Python, where the results live; a failed assert there prints its traceback
 * and fails the test here.
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
#include <duckdb.h>
#include <signal.h>
#include <stdatomic.h>
#include "kernel/python/dataframe.h"
#include "kernel/sql/sql.h"

/*
 * What a process may grow by in 1,000 queries. AddressSanitizer keeps what was freed for a while.
 */
#ifdef __SANITIZE_ADDRESS__
#define GROWTH_KB "500000"
#else
#define GROWTH_KB "8192"
#endif

static struct sql_engine *engine;
static atomic_int calls;    /* of interrupt_me() */
static atomic_int gil_held; /* in one of them */

/* Python that all cases share. */
static const char prelude[] =
    "import datetime, decimal, gc, math, uuid\n"
    "import numpy as np\n"
    "import pandas as pd\n"
    "if np.__version__ > '2': np.set_printoptions(legacy='1.25')\n" /* 1.5, not np.float64(1.5) */
    "import _riddle_frames as rf\n"
    "from datetime import date, datetime as dt, time, timedelta, timezone\n"
    "space = {}\n"
    "rf.set_lookup(lambda name: space.get(name))\n"
    "def one(sql):\n"
    "    [(name, column)] = rf.query('SELECT ' + sql)\n"
    "    return column\n"
    "def vals(sql, dtype):\n"
    "    column = one(sql)\n"
    "    assert str(column.dtype) == dtype, (sql, column.dtype, column)\n"
    "    return list(column)\n"
    "def same(got, want):\n"
    "    assert repr(got) == repr(want), (got, want)\n"
    "def rows(frame, sql='SELECT * FROM f'):\n"
    "    space['f'] = frame\n"
    "    columns = rf.query(sql)\n"
    "    return list(zip(*[list(c) for _, c in columns]))\n"
    "def types(frame):\n"
    "    space['f'] = frame\n"
    "    return list(rf.query('SELECT column_type FROM (DESCRIBE SELECT * FROM f)')[0][1])\n"
    "def back(values, dtype=None):\n"
    "    'type and values of a column that DuckDB was shown'\n"
    "    frame = pd.DataFrame({'x': pd.Series(values, dtype=dtype)})\n"
    "    return types(frame)[0], [r[0] for r in rows(frame)]\n"
    "def fails(kind, text, f, *args):\n"
    "    try:\n"
    "        f(*args)\n"
    "    except BaseException as e:\n"
    "        assert type(e) is kind and text in str(e), repr(e)\n"
    "        return e\n"
    "    raise AssertionError('nothing was raised')\n"
    "def rss_kb():\n"
    "    with open('/proc/self/statm') as f:\n"
    "        return int(f.read().split()[1]) * 4\n";

static void check(const char *code)
{
    PyObject *space = PyModule_GetDict(PyImport_AddModule("__main__"));
    PyObject *r = PyRun_String(code, Py_file_input, space, space);

    if (!r)
        PyErr_Print();
    assert_non_null(r);
    Py_DECREF(r);
}

/* As a kernel's: both worlds are told. */
static void on_sigint(int sig)
{
    (void)sig;
    sql_interrupt(engine);
    PyErr_SetInterrupt();
}

/* interrupt_me(x) is x; the second chunk of a query that calls it brings SIGINT. */
static void interrupt_me(duckdb_function_info info, duckdb_data_chunk input, duckdb_vector output)
{
    idx_t n = duckdb_data_chunk_get_size(input);

    (void)info;
    memcpy(duckdb_vector_get_data(output),
           duckdb_vector_get_data(duckdb_data_chunk_get_vector(input, 0)), n * sizeof(int64_t));
    if (PyGILState_Check())
        atomic_store(&gil_held, 1);
    if (atomic_fetch_add(&calls, 1) == 1)
        raise(SIGINT);
}

static void register_interrupt_me(void)
{
    duckdb_scalar_function f = duckdb_create_scalar_function();
    duckdb_logical_type bigint = duckdb_create_logical_type(DUCKDB_TYPE_BIGINT);

    duckdb_scalar_function_set_name(f, "interrupt_me");
    duckdb_scalar_function_add_parameter(f, bigint);
    duckdb_scalar_function_set_return_type(f, bigint);
    duckdb_scalar_function_set_volatile(f);
    duckdb_scalar_function_set_function(f, interrupt_me);
    assert_int_equal(duckdb_register_scalar_function(sql_engine_connection(engine), f),
                     DuckDBSuccess);
    duckdb_destroy_logical_type(&bigint);
    duckdb_destroy_scalar_function(&f);
}

static int set_up(void **state)
{
    struct err err = ERR_INIT;
    PyPreConfig before;
    PyConfig config;
    PyStatus status;

    (void)state;
    PyPreConfig_InitIsolatedConfig(&before);
#ifdef __SANITIZE_ADDRESS__
    before.allocator = PYMEM_ALLOCATOR_MALLOC; /* so that it sees Python's objects as well */
#endif
    assert_false(PyStatus_Exception(Py_PreInitialize(&before)));
    PyConfig_InitIsolatedConfig(&config);
    config.install_signal_handlers = 0;
    config.write_bytecode = 0;
    status = PyConfig_SetString(&config, &config.program_name, L"/usr/bin/python3");
    if (!PyStatus_Exception(status))
        status = Py_InitializeFromConfig(&config);
    PyConfig_Clear(&config);
    assert_false(PyStatus_Exception(status));
    if (sql_engine_create(&engine, &err) < 0 || dataframe_init(engine, &err) < 0) {
        print_error("%s\n", err.message);
        return -1;
    }
    register_interrupt_me();
    check(prelude);
    check("import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n");
    signal(SIGINT, on_sigint);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    check("rf.set_lookup(None)\nspace.clear()\n");
    sql_engine_destroy(engine);
    return 0;
}

/* ---- results ------------------------------------------------------------------------------------------------------- */

static void test_integers(void **state)
{
    (void)state;
    check(
        "for sql, dtype, low, high in [('TINYINT', 'int8', -128, 127), ('SMALLINT', 'int16', -2**15, 2**15 - 1),\n"
        "        ('INTEGER', 'int32', -2**31, 2**31 - 1), ('BIGINT', 'int64', -2**63, 2**63 - 1),\n"
        "        ('UTINYINT', 'uint8', 0, 255), ('USMALLINT', 'uint16', 0, 2**16 - 1),\n"
        "        ('UINTEGER', 'uint32', 0, 2**32 - 1), ('UBIGINT', 'uint64', 0, 2**64 - 1)]:\n"
        "    assert vals(f'unnest([{low}, {high}])::{sql} x', dtype) == [low, high]\n"
        "    same(vals(f'unnest([1, NULL, 3])::{sql} x', 'float64'), [1.0, math.nan, 3.0])\n"
        "assert one('unnest([1, 2])').flags.writeable\n"
        "# a float would change these\n"
        "assert vals('unnest([9007199254740993, NULL])::BIGINT', 'object') == [9007199254740993, None]\n"
        "assert vals('unnest([-9007199254740993, NULL])::BIGINT', 'object') == [-9007199254740993, None]\n"
        "assert vals('unnest([18446744073709551615, NULL])::UBIGINT', 'object') == [2**64 - 1, None]\n"
        "assert vals('unnest([9007199254740992, NULL])::BIGINT', 'float64')[0] == 2**53\n"
        "same(vals('unnest([5, NULL])::HUGEINT', 'float64'), [5.0, math.nan])\n"
        "assert vals('sum(i) FROM range(10) t(i)', 'float64') == [45.0]\n"
        "assert vals('unnest([170141183460469231731687303715884105727, NULL, -1])::HUGEINT', 'object') == "
        "[2**127 - 1, None, -1]\n"
        "assert vals(\"'340282366920938463463374607431768211455'::UHUGEINT\", 'object') == [2**128 - 1]\n"
        "assert vals('7::UHUGEINT', 'float64') == [7.0]\n"
        "assert vals(\"unnest(['-123456789012345678901234567890123456789012345678901', '0', '255'])::BIGNUM\", 'object') == "
        "[-123456789012345678901234567890123456789012345678901, 0, 255]\n");
}

static void test_numbers(void **state)
{
    (void)state;
    check(
        "same(vals(\"unnest(['1.5', NULL, 'nan', 'inf'])::FLOAT\", 'float32'), [1.5, math.nan, math.nan, math.inf])\n"
        "same(vals('unnest([0.1, NULL])::DOUBLE', 'float64'), [0.1, math.nan])\n"
        "for width in (4, 9, 18, 38):\n"
        "    same(vals(f'unnest([1.1, -2.25, NULL])::DECIMAL({width}, 2)', 'float64'), [1.1, -2.25, math.nan])\n"
        "assert vals('12345678901234567890.123456789::DECIMAL(38, 9)', 'float64') == [12345678901234567890.123456789]\n"
        "assert vals('unnest([true, false])', 'bool') == [True, False]\n"
        "same(vals('unnest([true, NULL, false])', 'object'), [True, None, False])\n");
}

static void test_moments(void **state)
{
    (void)state;
    check(
        "T = pd.Timestamp\n"
        "def stamps(sql):\n"
        "    column = one(sql)\n"
        "    assert str(column.dtype) == 'datetime64[ns]', column.dtype\n"
        "    return list(pd.Series(column))\n"
        "same(stamps(\"unnest(['2024-02-29', NULL, '1969-12-31'])::DATE\"), [T('2024-02-29'), pd.NaT, T('1969-12-31')])\n"
        "for t, text in [('TIMESTAMP', '2024-02-29 12:34:56.789012'), ('TIMESTAMP_S', '1900-01-01 00:00:01'),\n"
        "                ('TIMESTAMP_MS', '2024-02-29 12:34:56.789'), ('TIMESTAMP_NS', '2024-02-29 12:34:56.789012345')]:\n"
        "    same(stamps(f\"unnest(['{text}', NULL])::{t}\"), [T(text), pd.NaT])\n"
        "c = one(\"unnest(['2024-02-29 12:00:00+02', NULL])::TIMESTAMPTZ\")\n"
        "assert str(c.dtype) == 'datetime64[ns, UTC]' and list(c) == [T('2024-02-29 10:00', tz='UTC'), pd.NaT]\n"
        "# what nanoseconds cannot hold\n"
        "assert vals(\"unnest(['2024-02-29', NULL, '9999-12-31', 'infinity', '-infinity', '10000-01-01', '0001-01-01', "
        "'0044-03-15 (BC)'])::DATE\", 'object') == [date(2024, 2, 29), None, date(9999, 12, 31), 'infinity', '-infinity', "
        "'10000-01-01', date(1, 1, 1), '-0043-03-15']\n"
        "for t in ('TIMESTAMP', 'TIMESTAMP_S', 'TIMESTAMP_MS'):\n"
        "    assert vals(f\"unnest(['2024-02-29 01:02:03', NULL, '1500-01-01', 'infinity', '-infinity', "
        "'10000-01-01 23:59:59'])::{t}\", 'object') == [dt(2024, 2, 29, 1, 2, 3), None, dt(1500, 1, 1), 'infinity', "
        "'-infinity', '10000-01-01 23:59:59']\n"
        "assert vals(\"unnest(['infinity', '2024-01-01', NULL])::TIMESTAMP_NS\", 'object') == ['infinity', dt(2024, 1, 1), "
        "None]\n"
        "assert vals(\"'1500-01-01 00:00:00.000001+00'::TIMESTAMPTZ\", 'object') == "
        "[dt(1500, 1, 1, 0, 0, 0, 1, timezone.utc)]\n"
        "assert vals(\"'1677-09-21'::DATE\", 'object') == [date(1677, 9, 21)]\n"
        "assert stamps(\"'1677-09-22'::DATE\") == [T('1677-09-22')]\n");
}

static void test_objects(void **state)
{
    (void)state;
    check(
        "v = lambda sql: vals(sql, 'object')\n"
        "assert v(\"unnest(['01:02:03.5', NULL, '24:00:00'])::TIME\") == [time(1, 2, 3, 500000), None, '24:00:00']\n"
        "assert v(\"'01:02:03+05:30'::TIMETZ\") == [time(1, 2, 3, tzinfo=timezone(timedelta(hours=5, minutes=30)))]\n"
        "assert v(\"unnest([INTERVAL 1 DAY, NULL, INTERVAL '-1' HOUR, INTERVAL '2 months'])\") == [timedelta(1), None, "
        "timedelta(hours=-1), timedelta(60)]\n"
        "assert v(\"INTERVAL '100000000 months'\") == ['100000000 months 0 days 0 microseconds']\n"
        "u = 'f81d4fae-7dec-11d0-a765-00a0c91e6bf6'\n"
        "assert v(f\"unnest(['{u}', NULL, '00000000-0000-0000-0000-000000000001'])::UUID\") == [uuid.UUID(u), None, "
        "uuid.UUID(int=1)]\n"
        "assert v(\"unnest(['a\\\\x00\\\\xFF', NULL, ''])::BLOB\") == [b'a\\0\\xff', None, b'']\n"
        "assert v(\"'01010'::BIT\") == ['01010'] and v(\"'0101010111110000'::BIT\") == ['0101010111110000']\n"
        "assert v('unnest([[1, NULL], [], NULL])') == [[1, None], [], None]\n"
        "assert v('array_value(1.5::DOUBLE, 2.5)') == [[1.5, 2.5]]\n"
        "assert v(\"unnest([{'a': 1, 'b': ['x', NULL]}, NULL])\") == [{'a': 1, 'b': ['x', None]}, None]\n"
        "assert v('row(1, NULL)') == [(1, None)]\n"
        "assert v(\"map {'k': 1, 'l': NULL}\") == [{'k': 1, 'l': None}]\n"
        "assert v('map {[1]: 2}') == [[([1], 2)]]\n"
        "assert v(\"unnest([union_value(n := 7), NULL])\") == [7, None]\n"
        "assert v(\"unnest([1::UNION(n INT, s VARCHAR), 'two'::VARCHAR::UNION(n INT, s VARCHAR)])\") == [1, 'two']\n"
        "assert v(\"[{'d': DATE '2024-01-01', 't': TIMESTAMP '2024-01-01 01:00:00', 'x': 1.5, 'h': 2::HUGEINT, 'y': true, "
        "'e': 'b'::ENUM('a', 'b')}]\") == [[{'d': date(2024, 1, 1), 't': dt(2024, 1, 1, 1), 'x': 1.5, 'h': 2, 'y': True, "
        "'e': 'b'}]]\n"
        "assert v(\"'{\\\"a\\\": 1}'::JSON\") == ['{\"a\": 1}']\n"
        "assert v('NULL::VARCHAR') == [None]\n"
        "same(vals('NULL', 'float64'), [math.nan])\n");
}

static void test_texts(void **state)
{
    (void)state;
    check(
        "texts = ['', 'a', 'zwölf Zeichen', 'ä', '漢字', '🙂' * 20, 'x' * 100000, \"it's\", 'exactly 12 b', 'now 13 bytes.']\n"
        "for t in texts:\n"
        "    quoted = t.replace(\"'\", \"''\")\n"
        "    assert vals(f\"unnest(['{quoted}', NULL])\", 'object') == [t, None]\n"
        "assert vals('chr(0) || chr(65)', 'object') == ['\\0A']\n"
        "[(name, c)] = rf.query('SELECT 1 AS \"größe 🙂\"')\n"
        "assert name == 'größe 🙂'\n"
        "# one str for each word, not for each row\n"
        "c = one(\"(['red', 'green'])[1 + i % 2]::ENUM('red', 'green', 'blue') FROM range(5000) t(i)\")\n"
        "assert list(c[:3]) == ['red', 'green', 'red'] and len({id(x) for x in c}) == 2\n"
        "assert vals(\"unnest(['a', NULL]::ENUM('a')[])\", 'object') == ['a', None]\n"
        "c = one(\"'v' || (i % 300) FROM range(100000) t(i)\")\n"
        "assert len({id(x) for x in c}) < 50000 and list(c) == [f'v{i % 300}' for i in range(100000)]\n"
        "rf.query('CREATE TYPE big AS ENUM (SELECT \\'w\\' || i FROM range(70000) t(i))')\n"
        "assert vals(\"'w69999'::big\", 'object') == ['w69999']\n"
        "rf.query('DROP TYPE big')\n");
}

static void test_shapes(void **state)
{
    (void)state;
    check(
        "for t, dtype in [('INT', 'int32'), ('DOUBLE', 'float64'), ('VARCHAR', 'object'), ('DATE', 'datetime64[ns]'),\n"
        "                 ('BOOLEAN', 'bool'), ('TIMESTAMPTZ', 'datetime64[ns, UTC]'), ('HUGEINT', 'float64'), ('INT[]', 'object')]:\n"
        "    assert vals(f'NULL::{t} x WHERE false', dtype) == []\n"
        "assert rf.query('CREATE TABLE shapes (a INT)') == []\n"
        "[(name, c)] = rf.query('INSERT INTO shapes SELECT * FROM range(5)')\n"
        "assert (name, list(c)) == ('Count', [5])\n"
        "assert rf.query('DROP TABLE shapes') == []\n"
        "frame = rf.query_frame('CREATE TEMP TABLE shapes (a INT); DROP TABLE shapes')\n"
        "assert frame.shape == (0, 0)\n"
        "# the last statement's result, the others' effects\n"
        "got = rf.query('CREATE TEMP TABLE s2 AS SELECT 3 a; INSERT INTO s2 VALUES (4); SELECT sum(a) FROM s2; FROM s2 ORDER BY a;')\n"
        "assert [(n, list(c)) for n, c in got] == [('a', [3, 4])]\n"
        "rf.query('DROP TABLE s2')\n"
        "# many chunks, a NULL only late\n"
        /* around the steps in which columns grow */
        "for n in (0, 1, 2047, 2048, 2049, 32768, 34815, 34817, 70000, 150001):\n"
        "    f = rf.query_frame('SELECT i, i / 2 AS x, (i % 3 = 0) AS b, i::VARCHAR AS s, '\n"
        "                       f\"DATE '2024-01-01' AS d FROM range({n}) t(i)\")\n"
        "    is_third = np.arange(n) % 3 == 0\n"
        "    assert len(f) == n and (f.i == np.arange(n)).all(), n\n"
        "    assert (f.x == np.arange(n) / 2).all() and (f.b == is_third).all(), n\n"
        "    assert list(f.s) == [str(i) for i in range(n)] and (f.d == '2024-01-01').all(), n\n"
        "c = one('CASE WHEN i = 99999 THEN NULL ELSE i END FROM range(100000) t(i)')\n"
        "assert c.dtype == 'float64' and np.isnan(c[99999]) and (c[:99999] == np.arange(99999)).all()\n"
        "frame = rf.query_frame(\"SELECT 1 a, 'x' a, 2 a_1, 3 a, 4 B, now() t\")\n"
        "assert list(frame.columns) == ['a', 'a_1', 'a_1_1', 'a_2', 'B', 't'] and frame.shape == (1, 6)\n"
        "assert frame.a_1[0] == 'x' and str(frame.t.dtype) == 'datetime64[ns, UTC]'\n"
        "frame['new'] = frame.a + 1\n"
        "frame = rf.query_frame('SELECT ' + ', '.join(f'{i} c{i}' for i in range(200)))\n"
        "assert frame.shape == (1, 200) and frame.c199[0] == 199\n"
        "import warnings\n"
        "with warnings.catch_warnings():\n"
        "    warnings.simplefilter('error')\n"
        "    frame['more'] = 1\n");
}

static void test_failures(void **state)
{
    (void)state;
    check(
        "assert issubclass(rf.SqlError, RuntimeError) and rf.SqlError.__module__ == '_riddle_frames'\n"
        "fails(rf.SqlError, 'Catalog Error: Table with name nosuch does not exist!', rf.query, 'SELECT * FROM nosuch')\n"
        "fails(rf.SqlError, 'Parser Error: syntax error at or near \"SELEC\"', rf.query, 'SELEC 1')\n"
        "fails(rf.SqlError, 'Could not convert string', rf.query, \"SELECT 'x'::INT\")\n"
        "fails(rf.SqlError, 'Could not convert string', rf.query, \"SELECT 1; SELECT 'x'::INT; SELECT 2\")\n"
        "e = fails(rf.SqlError, 'no statement', rf.query, ' -- nothing')\n"
        "fails(rf.SqlError, 'NUL character', rf.query, 'SELECT 1\\0')\n"
        "fails(rf.SqlError, \"column 'n' has a type that Python cannot hold; use CAST(... AS VARCHAR)\", rf.query, "
        "\"SELECT 1 a, TIME_NS '01:02:03' AS n\")\n"
        "fails(rf.SqlError, \"column 'n' has a type\", rf.query, 'SELECT [1::VARIANT] AS n')\n"
        "fails(TypeError, 'sql must be a str, not int', rf.query, 1)\n"
        "fails(TypeError, 'must be callable or None, not int', rf.set_lookup, 1)\n"
        "# one that comes after rows were already read\n"
        "fails(rf.SqlError, 'boom', rf.query, \"SELECT CASE WHEN i = 99999 THEN error('boom') ELSE i END FROM range(100000) t(i)\")\n"
        "rf.query(\"SET memory_limit='50MB'\")\n"
        "e = fails(MemoryError, 'Out of Memory Error', rf.query, 'SELECT i, count(*) FROM range(20000000) t(i) GROUP BY i')\n"
        "rf.query(\"SET memory_limit='2GB'\")\n"
        "assert vals('1', 'int32') == [1]\n");
}

static void test_interrupts(void **state)
{
    (void)state;
    /* While DuckDB works on one statement that would never end. */
    atomic_store(&calls, 0);
    check(
        "fails(KeyboardInterrupt, '', rf.query, 'SELECT sum(interrupt_me(i)) FROM range(1000000000000) t(i)')\n"
        "assert vals('1', 'int32') == [1]\n");
    assert_true(atomic_load(&calls) > 1);
    assert_int_equal(atomic_load(&gil_held), 0);
    /* While rows come in. */
    atomic_store(&calls, 0);
    check(
        "fails(KeyboardInterrupt, '', rf.query_frame, 'SELECT interrupt_me(i) FROM range(1000000000000) t(i)')\n"
        "assert vals('1', 'int32') == [1]\n");
    /* Of several statements, the ones behind it do not run. */
    atomic_store(&calls, 0);
    check(
        "fails(KeyboardInterrupt, '', rf.query, 'CREATE TABLE i1 AS SELECT interrupt_me(i) FROM range(1000000000) t(i); "
        "CREATE TABLE i2 (a INT)')\n"
        "assert vals(\"count(*) FROM duckdb_tables() WHERE table_name IN ('i1', 'i2')\", 'int64') == [0]\n");
    /* While a DataFrame is looked up. */
    check("import os, signal\n"
          "def looks(name):\n"
          "    signal.raise_signal(signal.SIGINT)\n"
          "    return None\n"
          "rf.set_lookup(looks)\n"
          "fails(KeyboardInterrupt, '', rf.query, 'SELECT * FROM anything')\n"
          "rf.set_lookup(lambda name: space.get(name))\n"
          "assert vals('1', 'int32') == [1]\n");
}

/* ---- DataFrames ---------------------------------------------------------------------------------------------------- */

static void test_scan_numbers(void **state)
{
    (void)state;
    check(
        "for dtype, sql, low, high in [('int8', 'TINYINT', -128, 127), ('int16', 'SMALLINT', -2**15, 2**15 - 1),\n"
        "        ('int32', 'INTEGER', -2**31, 2**31 - 1), ('int64', 'BIGINT', -2**63, 2**63 - 1), ('uint8', 'UTINYINT', 0, 255),\n"
        "        ('uint16', 'USMALLINT', 0, 2**16 - 1), ('uint32', 'UINTEGER', 0, 2**32 - 1), ('uint64', 'UBIGINT', 0, 2**64 - 1)]:\n"
        "    assert back([low, 1, high], dtype) == (sql, [low, 1, high])\n"
        "    nullable = dtype.replace('i', 'I', 1).replace('uI', 'UI')\n"
        "    t, got = back([1, None, high], nullable)\n"
        "    assert t == sql and (got[0] == 1) and pd.isna(got[1]) and got[2] == high, (nullable, t, got)\n"
        "for dtype, sql in [('float32', 'FLOAT'), ('float64', 'DOUBLE'), ('float16', 'FLOAT'), ('longdouble', 'DOUBLE'),\n"
        "                   ('Float64', 'DOUBLE'), ('Sparse[float64]', 'DOUBLE')]:\n"
        "    t, got = back([1.5, None, -2.5], dtype)\n"
        "    assert t == sql; same([float(x) for x in got], [1.5, math.nan, -2.5])\n"
        "assert rows(pd.DataFrame({'x': [1.0, np.nan, np.inf]}), 'SELECT count(x), count(*), max(x) FROM f') == [(2, 3, math.inf)]\n"
        "assert back([True, False], 'bool') == ('BOOLEAN', [True, False])\n"
        "assert back([True, None, False], 'boolean') == ('BOOLEAN', [True, None, False])\n"
        "assert back([1 + 2j], 'complex128') == ('VARCHAR', ['(1+2j)'])\n"
        "assert back(np.array([1, 2], '>i4')) == ('INTEGER', [1, 2])\n"
        "# strided: every second row, reversed, and columns of one C-ordered block\n"
        "x = np.arange(10)\n"
        "assert back(x[::2]) == ('BIGINT', [0, 2, 4, 6, 8]) and back(x[::-3]) == ('BIGINT', [9, 6, 3, 0])\n"
        "frame = pd.DataFrame(np.arange(20000.0).reshape(5000, 4), columns=list('abcd'))\n"
        "assert rows(frame, 'SELECT sum(a), sum(d), count(*) FROM f WHERE b > 40') == "
        "[(frame[frame.b > 40].a.sum(), frame[frame.b > 40].d.sum(), 4990)]\n"
        "assert rows(frame.iloc[::-1], 'SELECT first(a) FROM f') == [(19996.0,)]\n");
}

static void test_scan_moments(void **state)
{
    (void)state;
    check(
        "T = pd.Timestamp\n"
        "t, got = back([T('2024-02-29 12:34:56.789012'), pd.NaT, T('1969-12-31 23:59:59.999999')])\n"
        "assert t == 'TIMESTAMP'; same([T(x) for x in got], [T('2024-02-29 12:34:56.789012'), pd.NaT, T('1969-12-31 23:59:59.999999')])\n"
        "t, got = back([T('2024-02-29 12:34:56.789012345'), pd.NaT, T('1969-12-31 23:59:59.999999999')])\n"
        "assert t == 'TIMESTAMP_NS'; same([T(x) for x in got], [T('2024-02-29 12:34:56.789012345'), pd.NaT, T('1969-12-31 23:59:59.999999999')])\n"
        "t, got = back(pd.to_datetime(['2024-07-01 12:00', None]).tz_localize('Europe/Paris'))\n"
        "assert t == 'TIMESTAMP WITH TIME ZONE' and got == [T('2024-07-01 10:00', tz='UTC'), pd.NaT]\n"
        "t, got = back(pd.to_timedelta(['3 days 04:00:00', None, '-1 hours']))\n"
        "assert t == 'INTERVAL' and got == [timedelta(3, 14400), None, timedelta(hours=-1)]\n"
        "ends = [T(-2**63 + 2), T(2**63 - 2)] # the two beyond are DuckDB's infinities\n"
        "t, got = back(ends)\n"
        "assert t == 'TIMESTAMP_NS' and [T(x) for x in got] == ends\n"
        "assert back(pd.period_range('2024-01', periods=2, freq='M')) == ('VARCHAR', ['2024-01', '2024-02'])\n");
}

static void test_scan_objects(void **state)
{
    (void)state;
    check(
        "texts = ['', 'a', 'zwölf', 'é' * 300, '漢字', '🙂' * 20, 'x' * 100000, 'exactly 12 b', 'now 13 bytes.', '\\xff', 'nul\\0nul']\n"
        "assert back(texts + [None, np.nan, pd.NA, pd.NaT]) == ('VARCHAR', texts + [None] * 4)\n"
        "assert back(texts + [None], 'string') == ('VARCHAR', texts + [None])\n"
        "assert back(['half \\ud800'], object) == ('VARCHAR', ['half \\ufffd'])\n"
        "class Text(str): pass\n"
        "assert back([Text('sub'), Text('süb'), np.str_('np')], object) == ('VARCHAR', ['sub', 'süb', 'np'])\n"
        "assert back([None, np.nan], object) == ('VARCHAR', [None, None])\n"
        "assert back([True, None, np.False_], object) == ('BOOLEAN', [True, None, False])\n"
        "same(back([1, None, np.int64(3)], object), ('BIGINT', [1.0, math.nan, 3.0]))\n"
        "assert back([2**70, None, -1], object) == ('HUGEINT', [2**70, None, -1])\n"
        "assert back([2**200, None, -1], object) == ('VARCHAR', [str(2**200), None, '-1'])\n"
        "same(back([1, 2.5, None, np.nan, np.float32(4), decimal.Decimal('0.1')], object), "
        "('DOUBLE', [1.0, 2.5, math.nan, math.nan, 4.0, 0.1]))\n"
        "assert back([10**400, 0.5], object) == ('VARCHAR', [str(10**400), '0.5'])\n"
        "same(back([decimal.Decimal('NaN'), decimal.Decimal(3)], object), ('DOUBLE', [math.nan, 3.0]))\n"
        "assert back([date(9999, 12, 31), None, date(1, 1, 1)], object) == ('DATE', [date(9999, 12, 31), None, date(1, 1, 1)])\n"
        "assert back([dt(1500, 1, 2, 3, 4, 5, 6), None, date(2024, 1, 1)], object) == "
        "('TIMESTAMP', [dt(1500, 1, 2, 3, 4, 5, 6), None, dt(2024, 1, 1)])\n"
        "assert back([timedelta(days=-2, microseconds=5), None], object) == ('INTERVAL', [timedelta(days=-2, microseconds=5), None])\n"
        "assert back([b'\\0\\xff', None, b'long enough not to be inlined'], object) == "
        "('BLOB', [b'\\0\\xff', None, b'long enough not to be inlined'])\n"
        "assert back([1, 'one', None, [1], True], object) == ('VARCHAR', ['1', 'one', None, '[1]', 'True'])\n"
        "assert back([dt(2024, 1, 1, tzinfo=timezone.utc), time(1, 2)], object) == ('VARCHAR', ['2024-01-01 00:00:00+00:00', '01:02:00'])\n"
        "assert back(['b', 'a', None, 'b'], 'category') == ('VARCHAR', ['b', 'a', None, 'b'])\n"
        "assert back([3, 1, 3], 'category') == ('BIGINT', [3, 1, 3])\n"
        "assert back(pd.cut([1, 5], [0, 3, 6])) == ('VARCHAR', ['(0, 3]', '(3, 6]'])\n"
        "# what the queries gave can be asked again\n"
        "frame = rf.query_frame(\"SELECT unnest([true, NULL]) b, unnest([NULL, 2::HUGEINT ** 100]) h, unnest([NULL, DATE '9999-01-01']) d, "
        "unnest([INTERVAL 1 DAY, NULL]) i, unnest(['x'::BLOB, NULL]) y, unnest([[1], NULL]) l\")\n"
        "assert types(frame)[0] == 'BOOLEAN' and types(frame)[2:] == ['DATE', 'INTERVAL', 'BLOB', 'VARCHAR']\n");
}

static void test_scan_names(void **state)
{
    (void)state;
    check(
        "frame = pd.DataFrame([[1, 2, 3, 4, 5, 6]], columns=['a', 'A', 'a', 7, '', ('x', 1)])\n"
        "space['Größe'] = frame\n"
        "got = rf.query('SELECT * FROM Größe')\n"
        "assert [n for n, _ in got] == ['a', 'A_1', 'a_2', '7', 'column4', \"('x', 1)\"], got\n"
        "assert [c[0] for _, c in got] == [1, 2, 3, 4, 5, 6]\n"
        "assert list(rf.query('SELECT \"7\" + a_2 FROM \"Größe\"')[0][1]) == [7]\n"
        "space['f'] = pd.DataFrame({'a': [1, 1], 'b': ['x', 'y']})\n"
        "assert list(one('count(*) FROM f f1 JOIN f f2 USING (a)')) == [4]\n"
        "assert list(one(\"count(*) FROM riddle_frame('f')\")) == [2]\n"
        "rf.query('CREATE TEMP TABLE kept AS FROM f')\n"
        "assert [list(c) for _, c in rf.query('FROM kept')] == [[1, 1], ['x', 'y']]\n"
        "# a table comes before a DataFrame\n"
        "space['kept'] = pd.DataFrame({'other': [0]})\n"
        "assert len(rf.query('FROM kept')) == 2\n"
        "rf.query('DROP TABLE kept')\n"
        "assert len(rf.query('FROM kept')) == 1\n"
        "assert rows(pd.DataFrame({'a': [], 'b': pd.Series([], dtype=object)}), 'SELECT count(*), count(b) FROM f') == [(0, 0)]\n"
        "assert list(rf.query('SELECT * FROM f')[0][1]) == []\n");
}

static void test_scan_failures(void **state)
{
    (void)state;
    check(
        "fails(rf.SqlError, 'Table with name missing does not exist', rf.query, 'FROM missing')\n"
        "fails(ValueError, \"the DataFrame 'f' has 0 columns\", rows, pd.DataFrame())\n"
        "fails(TypeError, \"'f' is a int, not a DataFrame\", rows, 3)\n"
        "fails(LookupError, \"there is no DataFrame 'missing'\", rf.query, \"FROM riddle_frame('missing')\")\n"
        "class Odd:\n"
        "    def __str__(self): raise ZeroDivisionError('odd')\n"
        "fails(ZeroDivisionError, 'odd', rows, pd.DataFrame({'x': [Odd()]}))\n"
        "def broken(name): raise KeyError('broken lookup')\n"
        "rf.set_lookup(broken)\n"
        "fails(KeyError, 'broken lookup', rf.query, 'FROM f')\n"
        "def greedy(name): return rf.query_frame('SELECT 1 a')\n"
        "rf.set_lookup(greedy)\n"
        "fails(rf.SqlError, 'a query cannot run while another one', rf.query, 'FROM f')\n"
        "rf.set_lookup(None)\n"
        "fails(rf.SqlError, 'Table with name f does not exist', rf.query, 'FROM f')\n"
        "rf.set_lookup(lambda name: space.get(name))\n"
        "assert rows(pd.DataFrame({'x': [1]})) == [(1,)]\n");
}

/* A kernel is a fork of the process in which all of this was set up. */
static void test_fork(void **state)
{
    (void)state;
    check("import os\n"
          "space['f'] = pd.DataFrame({'x': [1.5, 2.5], 's': ['a', 'b']})\n"
          "child = os.fork()\n"
          "if child == 0:\n"
          "    good = False\n"
          "    try:\n"
          "        space['g'] = pd.DataFrame({'x': [2.5], 'y': [7]})\n"
          "        good = list(one('max(s) || y FROM f JOIN g USING (x) GROUP BY y')) == ['b7']\n"
          "    finally:\n"
          "        os._exit(0 if good else 1)\n"
          "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0\n");
}

/*
 * Order, totals and strings with several of DuckDB's threads; several of Python's on one
 * connection.
 */
static void test_threads(void **state)
{
    (void)state;
    check(
        "rf.query('SET threads=4')\n"
        "n = 500000\n"
        "space['f'] = pd.DataFrame({'i': np.arange(n), 's': [f'näme {i % 1000}' for i in range(n)]})\n"
        "i, s = [c for _, c in rf.query('SELECT * FROM f')]\n"
        "assert (i == np.arange(n)).all() and list(s) == list(space['f'].s)\n"
        "a, b, c = rf.query('SELECT sum(i), count(DISTINCT s), min(s) FROM f')\n"
        "assert (a[1][0], b[1][0], c[1][0]) == (n * (n - 1) // 2, 1000, 'näme 0')\n"
        "import threading\n"
        "sums, failed = [], []\n"
        "def work():\n"
        "    try:\n"
        "        for _ in range(10):\n"
        "            sums.append(int(one('sum(i) FROM f')[0]))\n"
        "    except BaseException as e:\n"
        "        failed.append(e)\n"
        "workers = [threading.Thread(target=work) for _ in range(4)]\n"
        "for w in workers: w.start()\n"
        "for w in workers: w.join()\n"
        "assert not failed, failed\n"
        "assert sums == [n * (n - 1) // 2] * 40\n"
        "rf.query('SET threads=1')\n");
}

static void test_references(void **state)
{
    (void)state;
    check(
        "import sys\n"
        "word, column = 'a text of some length', np.arange(10.0)\n"
        "space['f'] = pd.DataFrame({'s': [word] * 10, 'x': column}, copy=False)\n"
        "nothing = pd.DataFrame({'s': [None, 'a', np.nan, pd.NA] * 5})\n"
        "def work(n):\n"
        "    for _ in range(n):\n"
        "        rf.query('SELECT * FROM f'); rf.query('SELECT count(*), sum(x), [NULL], NULL::TIME, NULL::BOOLEAN FROM f')\n"
        "        fails(rf.SqlError, 'not found in FROM clause', rf.query, 'SELECT nosuch FROM f')\n"
        "        rows(nothing, 'SELECT * FROM f'); space['f'] = frame\n"
        "    gc.collect()\n"
        "frame = space['f']\n"
        "work(300) # until the caches of pandas and numpy are full\n"
        "before = sys.getrefcount(word), sys.getrefcount(column), sys.getrefcount(None)\n"
        "work(300)\n"
        "assert (sys.getrefcount(word), sys.getrefcount(column)) == before[:2], before\n"
        "assert abs(sys.getrefcount(None) - before[2]) < 100, sys.getrefcount(None) - before[2]\n"
        "del frame\n"
        "# the DataFrame may go while its query runs\n"
        "def once(name):\n"
        "    return pd.DataFrame({'s': [f'only here {i}' for i in range(5000)]})\n"
        "rf.set_lookup(once)\n"
        "assert list(rf.query('SELECT max(s), count(*) FROM anything')[0][1]) == ['only here 999']\n"
        "rf.set_lookup(lambda name: space.get(name))\n"
        "del space['f']\n"
        "assert sys.getrefcount(word) < before[0] - 5\n");
    check(
        "space['f'] = pd.DataFrame({'s': [f's{i}' for i in range(1000)], 'x': np.arange(1000.0)})\n"
        "def round():\n"
        "    for _ in range(1000):\n"
        "        rf.query(\"SELECT s, x, i, [i] l, {'a': i} d, DATE '2024-01-01' + i::INT t FROM f, range(10) r(i) WHERE x < 100\")\n"
        "    gc.collect()\n"
        "round()\n"
        "before = rss_kb()\n"
        "round()\n"
        "grown = rss_kb() - before\n"
        "assert grown < " GROWTH_KB ", grown\n");
}

/* A kernel is locked before its first query. The last test: there is no way back. */
static void test_locked(void **state)
{
    (void)state;
    check(
        "rf.query('SET enable_external_access=false; SET lock_configuration=true')\n"
        "fails(rf.SqlError, 'configuration has been locked', rf.query, 'SET threads=1')\n"
        "fails(rf.SqlError, 'Permission Error', rf.query, \"FROM read_text('/proc/self/status')\")\n"
        "assert rows(pd.DataFrame({'x': [1.5, 2.5], 's': ['a', 'b']}), 'SELECT sum(x), max(s) FROM f') == [(4.0, 'b')]\n"
        "fails(rf.SqlError, 'does not exist', rf.query, 'FROM missing')\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers),      cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_moments),       cmocka_unit_test(test_objects),
        cmocka_unit_test(test_texts),         cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_failures),      cmocka_unit_test(test_interrupts),
        cmocka_unit_test(test_scan_numbers),  cmocka_unit_test(test_scan_moments),
        cmocka_unit_test(test_scan_objects),  cmocka_unit_test(test_scan_names),
        cmocka_unit_test(test_scan_failures), cmocka_unit_test(test_fork),
        cmocka_unit_test(test_threads),       cmocka_unit_test(test_references),
        cmocka_unit_test(test_locked),
    };

    return cmocka_run_group_tests_name("frames", tests, set_up, tear_down);
}
