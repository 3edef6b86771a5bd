/*
 * The module `_riddle_frames`: queries whose results are arrays, and DataFrames that are tables.
 * dataframe.h says what maps to what.
 *
 * Life of query(): the text is split into statements, all but the last are run, the last is
 * streamed: DuckDB makes a chunk without the GIL, its values are appended to the columns with it,
 * and the result is never held twice. An interrupt may come at any point: DuckDB sees it while it
 * works, sql_must_stop() between its queries, and PyErr_CheckSignals() between chunks.
 */

#include "kernel/python/dataframe.h"

#include "kernel/python/dataframe_impl.h"

#include <stdlib.h>
#include <string.h>
#include "base/macros.h"
#include "base/str.h"
#include "kernel/python/dataframe_scan.h"
#include "kernel/sql/sql_impl.h"

#define MAX_MESSAGE_BYTES 4096
/*
 * pandas warns of fragmentation from 100 blocks on; up to here arrays become columns without a
 * copy.
 */
#define MAX_BLOCKS 64

/*
 * Python's module functions have no other way to their engine, and there is one engine in a
 * process.
 */
static struct {
    struct sql_engine *engine;
    PyObject *error; /* SqlError */
    PyThread_type_lock lock;
    unsigned long owner; /* the thread that has the lock; 0: none. Read and written with the GIL */
    bool altered; /* a statement was no SELECT: a name may mean another table than it did */
} frames;

PyObject *dataframe_sql_error(void)
{
    return frames.error;
}

/* All that a query holds in DuckDB; released without the GIL, in this order. */
struct query {
    duckdb_result result;
    duckdb_pending_result pending;
    duckdb_prepared_statement statement;
    duckdb_extracted_statements statements;
    bool has_result;
    char failure[MAX_MESSAGE_BYTES]; /* "": none */
};

/* ---- in DuckDB, without the GIL ------------------------------------------------------------------------------------ */

static bool fail(struct query *q, const char *message)
{
    size_t len;

    if (!message || !*message)
        message = "the query failed and DuckDB gave no reason";
    len = str_utf8_cut(message, strlen(message), sizeof(q->failure) - 1);
    /* DuckDB ends its messages with blank lines */
    while (len > 1 && strchr(" \n\r\t", message[len - 1]))
        len--;
    memcpy(q->failure, message, len);
    q->failure[len] = '\0';
    return false;
}

static void note_statement(const struct query *q)
{
    if (duckdb_prepared_statement_type(q->statement) != DUCKDB_STATEMENT_TYPE_SELECT)
        frames.altered = true;
}

/* Runs statement i of several for its effect. */
static bool run_through(struct query *q, duckdb_connection con, idx_t i)
{
    bool done = duckdb_prepare_extracted_statement(con, q->statements, i, &q->statement) ==
                DuckDBSuccess;

    if (!done) {
        fail(q, q->statement ? duckdb_prepare_error(q->statement) : NULL);
    } else {
        duckdb_result result = { 0 };

        note_statement(q);
        done = duckdb_execute_prepared(q->statement, &result) == DuckDBSuccess;
        if (!done)
            fail(q, duckdb_result_error(&result));
        duckdb_destroy_result(&result);
    }
    duckdb_destroy_prepare(&q->statement);
    return done && (!sql_must_stop(frames.engine) || fail(q, "INTERRUPT Error: Interrupted!"));
}

static bool start(struct query *q, const char *sql)
{
    duckdb_connection con = frames.engine->con;
    idx_t n = duckdb_extract_statements(con, sql, &q->statements);
    const char *message = q->statements ? duckdb_extract_statements_error(q->statements) : NULL;

    if (n == 0 && message)
        return fail(q, message);
    if (n == 0)
        return fail(q, "the SQL text has no statement in it");
    for (idx_t i = 0; i + 1 < n; i++) {
        if (!run_through(q, con, i))
            return false;
    }
    if (duckdb_prepare_extracted_statement(con, q->statements, n - 1, &q->statement) !=
        DuckDBSuccess)
        return fail(q, q->statement ? duckdb_prepare_error(q->statement) : NULL);
    note_statement(q);
    if (duckdb_pending_prepared_streaming(q->statement, &q->pending) != DuckDBSuccess)
        return fail(q, duckdb_pending_error(q->pending));
    /* DuckDB forgot interrupts from before this point. */
    if (sql_must_stop(frames.engine))
        return fail(q, "INTERRUPT Error: Interrupted!");
    q->has_result = true;
    if (duckdb_execute_pending(q->pending, &q->result) != DuckDBSuccess)
        return fail(q, duckdb_result_error(&q->result));
    return true;
}

/* NULL at the end, or with a failure. */
static duckdb_data_chunk next_chunk(struct query *q)
{
    duckdb_data_chunk chunk = duckdb_fetch_chunk(q->result);
    const char *message = chunk ? NULL : duckdb_result_error(&q->result);

    if (message && *message)
        fail(q, message);
    else if (sql_must_stop(frames.engine))
        fail(q, "INTERRUPT Error: Interrupted!");
    if (chunk && q->failure[0])
        duckdb_destroy_data_chunk(&chunk);
    return chunk;
}

static void finish(struct query *q)
{
    if (q->has_result)
        duckdb_destroy_result(&q->result);
    if (q->pending)
        duckdb_destroy_pending(&q->pending);
    if (q->statement)
        duckdb_destroy_prepare(&q->statement);
    if (q->statements)
        duckdb_destroy_extracted(&q->statements);
}

/* ---- results ------------------------------------------------------------------------------------------------------- */

/* The exception for what DuckDB said. */
static void raise_failure(const struct query *q)
{
    auto_ref PyObject *message = NULL;
    PyObject *type = frames.error;

    /* The lookup's own exception says more than DuckDB's sentence about it. */
    if (dataframe_scan_raise())
        return;
    switch (sql_classify(frames.engine, q->failure)) {
    case SQL_INTERRUPTED:
        /* The signal is pending for Python as well: one KeyboardInterrupt is enough. */
        if (PyErr_CheckSignals() == 0)
            PyErr_SetNone(PyExc_KeyboardInterrupt);
        return;
    case SQL_NO_MEMORY:
        type = PyExc_MemoryError;
        break;
    default:
        break;
    }
    message = PyUnicode_DecodeUTF8(q->failure, (Py_ssize_t)strlen(q->failure), "replace");
    if (message)
        PyErr_SetObject(type, message);
}

static int read_rows(struct query *q, struct dataframe_column **columns, idx_t n_columns)
{
    for (;;) {
        duckdb_data_chunk chunk;
        int r = 0;

        Py_BEGIN_ALLOW_THREADS chunk = next_chunk(q);
        Py_END_ALLOW_THREADS if (q->failure[0])
        {
            raise_failure(q);
            return -1;
        }
        if (!chunk)
            return 0;
        for (idx_t i = 0; r == 0 && i < n_columns; i++) {
            r = dataframe_column_append(columns[i], duckdb_data_chunk_get_vector(chunk, i),
                                        duckdb_data_chunk_get_size(chunk));
        }
        duckdb_destroy_data_chunk(&chunk);
        if (r < 0 || PyErr_CheckSignals() < 0)
            return -1;
    }
}

static PyObject *read_columns(struct query *q, struct dataframe_column **columns, idx_t n_columns)
{
    auto_ref PyObject *list = NULL;

    for (idx_t i = 0; i < n_columns; i++) {
        columns[i] = dataframe_column_create(&q->result, i);
        if (!columns[i])
            return NULL;
    }
    if (read_rows(q, columns, n_columns) < 0)
        return NULL;
    list = PyList_New(0);
    for (idx_t i = 0; list && i < n_columns; i++) {
        auto_ref PyObject *pair = dataframe_column_finish(columns[i]);

        if (!pair || PyList_Append(list, pair) < 0)
            return NULL;
    }
    return TAKE_PTR(list);
}

static PyObject *read_result(struct query *q)
{
    /* CREATE TABLE and the like have a column "Count" that nobody asked for. */
    bool nothing = duckdb_result_return_type(q->result) == DUCKDB_RESULT_TYPE_NOTHING;
    idx_t n_columns = duckdb_column_count(&q->result);
    struct dataframe_column **columns = calloc(n_columns ? n_columns : 1, sizeof(*columns));
    PyObject *list;

    if (!columns)
        return PyErr_NoMemory();
    list = read_columns(q, columns, n_columns);
    for (idx_t i = 0; i < n_columns; i++)
        dataframe_column_destroy(columns[i]);
    free(columns);
    if (list && nothing)
        Py_SETREF(list, PyList_New(0));
    return list;
}

/* ---- one at a time ------------------------------------------------------------------------------------------------- */

static int acquire(void)
{
    unsigned long self = PyThread_get_thread_ident();

    if (frames.owner == self) {
        PyErr_SetString(
            frames.error,
            "a query cannot run while another one looks up a DataFrame or reads its result");
        return -1;
    }
    for (;;) {
        PyLockStatus status = PyThread_acquire_lock_timed(frames.lock, 0, 0);

        if (status == PY_LOCK_FAILURE) {
            Py_BEGIN_ALLOW_THREADS status = PyThread_acquire_lock_timed(frames.lock, -1, 1);
            Py_END_ALLOW_THREADS
        }
        if (status == PY_LOCK_ACQUIRED)
            break;
        if (PyErr_CheckSignals() < 0)
            return -1;
    }
    frames.owner = self;
    return 0;
}

static void release(void)
{
    frames.owner = 0;
    PyThread_release_lock(frames.lock);
}

static PyObject *run_query(const char *sql)
{
    struct query q = { 0 };
    PyObject *list = NULL;
    bool started;
    struct err err = ERR_INIT;

    /* The kernel's first statement attaches the tables and locks the engine. */
    if (sql_engine_ready(frames.engine, &err) < 0 ||
        sql_engine_qualify(frames.engine, sql, &err) < 0) {
        PyErr_SetString(frames.error, err.message);
        return NULL;
    }
    /* An interrupt from before sql_begin() is Python's alone. */
    sql_begin(frames.engine);
    if (PyErr_CheckSignals() == 0) {
        Py_BEGIN_ALLOW_THREADS started = start(&q, sql);
        Py_END_ALLOW_THREADS if (started) list = read_result(&q);
        else raise_failure(&q);
    }
    Py_BEGIN_ALLOW_THREADS finish(&q);
    Py_END_ALLOW_THREADS sql_end(frames.engine);
    return list;
}

/*
 * Nothing of a query stays behind: neither what its scans held nor an exception of the lookup that
 * nobody asked for. What dies here may run code of the user's (__del__), so the exception under way
 * is put aside.
 */
static void drop_remains(void)
{
    PyObject *type, *value, *traceback;

    PyErr_Fetch(&type, &value, &traceback);
    dataframe_scan_drain();
    if (dataframe_scan_raise())
        PyErr_Clear();
    PyErr_Restore(type, value, traceback);
}

static PyObject *query(PyObject *module, PyObject *arg)
{
    PyObject *list;
    const char *sql;
    Py_ssize_t len;

    (void)module;
    if (!PyUnicode_Check(arg))
        return PyErr_Format(PyExc_TypeError, "sql must be a str, not %.100s",
                            Py_TYPE(arg)->tp_name);
    sql = PyUnicode_AsUTF8AndSize(arg, &len);
    if (!sql)
        return NULL;
    if (strlen(sql) != (size_t)len) {
        PyErr_SetString(frames.error, "the SQL text has a NUL character in it; remove it");
        return NULL;
    }
    if (acquire() < 0)
        return NULL;
    drop_remains(); /* of those that did not come through here */
    list = run_query(sql);
    drop_remains();
    release();
    return list;
}

/* ---- DataFrames ---------------------------------------------------------------------------------------------------- */

/* Names of columns, the second a being a_1. */
static PyObject *distinct_names(PyObject *list)
{
    auto_ref PyObject *taken = PySet_New(NULL), *names = PyList_New(0);

    for (Py_ssize_t i = 0; taken && names && i < PyList_GET_SIZE(list); i++) {
        PyObject *wish = PyTuple_GET_ITEM(PyList_GET_ITEM(list, i), 0);
        auto_ref PyObject *name = Py_NewRef(wish);
        int is_taken = PySet_Contains(taken, name);

        for (size_t k = 1; is_taken == 1; k++) {
            Py_SETREF(name, PyUnicode_FromFormat("%U_%zu", wish, k));
            is_taken = name ? PySet_Contains(taken, name) : -1;
        }
        if (is_taken < 0 || PySet_Add(taken, name) < 0 || PyList_Append(names, name) < 0)
            return NULL;
    }
    return taken ? Py_XNewRef(names) : NULL;
}

/* The arrays by their positions: names may not be distinct, and pandas sorts nothing then. */
static PyObject *numbered_arrays(PyObject *list)
{
    auto_ref PyObject *arrays = PyDict_New();

    for (Py_ssize_t i = 0; arrays && i < PyList_GET_SIZE(list); i++) {
        auto_ref PyObject *key = PyLong_FromSsize_t(i);

        if (!key || PyDict_SetItem(arrays, key, PyTuple_GET_ITEM(PyList_GET_ITEM(list, i), 1)) < 0)
            return NULL;
    }
    return Py_XNewRef(arrays);
}

static PyObject *make_frame(PyObject *list)
{
    auto_ref PyObject *pandas = PyImport_ImportModule("pandas"), *type = NULL, *args = NULL,
                      *named = NULL;
    auto_ref PyObject *arrays = numbered_arrays(list), *names = NULL, *frame = NULL;

    if (pandas && arrays)
        type = PyObject_GetAttrString(pandas, "DataFrame");
    if (type)
        args = PyTuple_Pack(1, arrays);
    if (args)
        named = Py_BuildValue("{s:O}", "copy",
                              PyList_GET_SIZE(list) > MAX_BLOCKS ? Py_True : Py_False);
    if (named)
        names = distinct_names(list);
    if (names)
        frame = PyObject_Call(type, args, named);
    if (!frame || PyObject_SetAttrString(frame, "columns", names) < 0)
        return NULL;
    return TAKE_PTR(frame);
}

static PyObject *query_frame(PyObject *module, PyObject *arg)
{
    auto_ref PyObject *list = query(module, arg);

    return list ? make_frame(list) : NULL;
}

static PyObject *stored_frame(PyObject *module, PyObject *args)
{
    auto_ref PyObject *list = NULL;
    const char *path;
    Py_ssize_t part;

    (void)module;
    if (!PyArg_ParseTuple(args, "sn", &path, &part))
        return NULL;
    if (frames.altered)
        Py_RETURN_NONE;
    list = dataframe_stored_columns(path, (size_t)part);
    return !list || list == Py_None ? Py_XNewRef(list) : make_frame(list);
}

static PyObject *set_lookup(PyObject *module, PyObject *arg)
{
    (void)module;
    if (arg != Py_None && !PyCallable_Check(arg))
        return PyErr_Format(PyExc_TypeError, "the lookup must be callable or None, not %.100s",
                            Py_TYPE(arg)->tp_name);
    dataframe_scan_set_lookup(arg == Py_None ? NULL : arg);
    Py_RETURN_NONE;
}

/* ---- module -------------------------------------------------------------------------------------------------------- */

static PyMethodDef methods[] = {
    { "query", query, METH_O,
      "query(sql) -> [(name, array), ...]: runs SQL, the columns of the last statement's result" },
    { "query_frame", query_frame, METH_O, "query_frame(sql) -> pandas.DataFrame: runs SQL" },
    { "stored_frame", stored_frame, METH_VARARGS,
      "stored_frame(path, part) -> pandas.DataFrame or None: a table, by the columns behind its "
      "file" },
    { "set_lookup", set_lookup, METH_O,
      "set_lookup(f): f(name) gives the DataFrame that SQL may call by that name, or None" },
    { NULL, NULL, 0, NULL },
};

static struct PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_riddle_frames",
    .m_doc = "Queries whose results are arrays, and DataFrames that are tables.",
    .m_size = -1,
    .m_methods = methods,
};

static int register_module(void)
{
    auto_ref PyObject *module = PyModule_Create(&module_def);

    if (!module || dataframe_value_init() < 0 || dataframe_capture_init() < 0 ||
        dataframe_stored_init() < 0)
        return -1;
    Py_XSETREF(frames.error, PyErr_NewExceptionWithDoc("_riddle_frames.SqlError",
                                                       "What DuckDB says is wrong with a query.",
                                                       PyExc_RuntimeError, NULL));
    if (!frames.error || PyModule_AddObjectRef(module, "SqlError", frames.error) < 0)
        return -1;
    return PyDict_SetItemString(PyImport_GetModuleDict(), module_def.m_name, module);
}

int dataframe_init(struct sql_engine *engine, struct err *err)
{
    int r;

    if (!frames.lock)
        frames.lock = PyThread_allocate_lock();
    if (!frames.lock)
        return err_set(err, ERR_NO_MEMORY, "out of memory for a lock");
    if (register_module() < 0) {
        PyErr_Print();
        return err_set(err, ERR_INTERNAL, "Python does not take the module %s", module_def.m_name);
    }
    r = dataframe_scan_register(engine->db, engine->con, err);
    if (r == 0)
        frames.engine = engine;
    return r;
}
