/*
 * DataFrames as tables: a replacement scan turns a name that DuckDB does not know into
 * riddle_frame('name').
 *
 * Bind takes the GIL, asks for the DataFrame and captures its columns: what lies in memory as
 * DuckDB wants it is held by the buffer protocol; object columns become a copy of the array of
 * references, in which every cell is None or of the one type that the column has. From then on the
 * DataFrame may change or vanish. The scan only reads memory that the capture holds, so it needs no
 * GIL and any number of DuckDB's threads may run it.
 *
 * The end of a capture needs the GIL again, but DuckDB may end one on a thread of its own while its
 * caller waits with the GIL in hand. So what is finished goes onto a list, and is dropped where the
 * GIL is held anyway: by query() before it returns, by the next bind, or between two bytecodes.
 */

#include "kernel/python/dataframe_impl.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "base/macros.h"
#include "kernel/python/dataframe_scan.h"

#define FUNCTION_NAME "riddle_frame"
#define ROWS_PER_THREAD 122880 /* DuckDB's own row group: less is not worth a second thread */

/*
 * DuckDB's callbacks and Python's module functions meet here; all of it is used with the GIL only.
 */
static struct {
    PyObject *lookup;
    PyObject *type, *value, *traceback; /* what a callback raised */
} scans;

static _Atomic(struct dataframe_capture *) finished;

void dataframe_scan_set_lookup(PyObject *lookup)
{
    Py_XSETREF(scans.lookup, Py_XNewRef(lookup));
}

/* ---- what Python raised inside a callback --------------------------------------------------------------------------- */

/* Keeps the exception for query() and returns its text for DuckDB; the caller frees it. */
static char *keep_exception(void)
{
    auto_ref PyObject *text = NULL;
    const char *message = NULL;
    char *copy;

    Py_CLEAR(scans.type);
    Py_CLEAR(scans.value);
    Py_CLEAR(scans.traceback);
    PyErr_Fetch(&scans.type, &scans.value, &scans.traceback);
    PyErr_NormalizeException(&scans.type, &scans.value, &scans.traceback);
    if (scans.value)
        text = PyObject_Str(scans.value);
    if (text)
        message = PyUnicode_AsUTF8(text);
    copy = strdup(message ? message : "reading a DataFrame failed");
    PyErr_Clear(); /* of the text */
    return copy;
}

bool dataframe_scan_raise(void)
{
    if (!scans.type)
        return false;
    PyErr_Restore(TAKE_PTR(scans.type), TAKE_PTR(scans.value), TAKE_PTR(scans.traceback));
    return true;
}

/* ---- the end of a capture ------------------------------------------------------------------------------------------- */

void dataframe_scan_drain(void)
{
    struct dataframe_capture *list = atomic_exchange(&finished, NULL);

    while (list) {
        struct dataframe_capture *next = list->next;

        dataframe_capture_destroy(list);
        list = next;
    }
}

static int drain_later(void *arg)
{
    (void)arg;
    dataframe_scan_drain();
    return 0;
}

/* On any thread, with or without the GIL. */
static void retire(void *data)
{
    struct dataframe_capture *capture = data;

    if (!capture || !Py_IsInitialized())
        return;
    capture->next = atomic_load(&finished);
    while (!atomic_compare_exchange_weak(&finished, &capture->next, capture))
        ;
    if (!capture->next)
        Py_AddPendingCall(drain_later, NULL); /* if its queue is full, the next query drains */
}

/* ---- bind ---------------------------------------------------------------------------------------------------------- */

static PyObject *find_frame(const char *name)
{
    auto_ref PyObject *text = NULL;

    if (!scans.lookup)
        Py_RETURN_NONE;
    text = PyUnicode_DecodeUTF8(name, (Py_ssize_t)strlen(name), "replace");
    return text ? PyObject_CallOneArg(scans.lookup, text) : NULL;
}

static void replace(duckdb_replacement_scan_info info, const char *name, void *data)
{
    PyGILState_STATE gil;
    auto_free char *failure = NULL;
    PyObject *frame;
    bool found;

    (void)data;
    if (!Py_IsInitialized())
        return;
    gil = PyGILState_Ensure();
    frame = find_frame(name);
    found = frame && frame != Py_None;
    if (!frame)
        failure = keep_exception();
    Py_XDECREF(frame);
    PyGILState_Release(gil);
    if (failure)
        duckdb_replacement_scan_set_error(info, failure);
    if (found) {
        duckdb_value parameter = duckdb_create_varchar(name);

        duckdb_replacement_scan_set_function_name(info, FUNCTION_NAME);
        duckdb_replacement_scan_add_parameter(info, parameter);
        duckdb_destroy_value(&parameter);
    }
}

/* Finds and captures. NULL with an exception. */
static struct dataframe_capture *capture_by_name(const char *name)
{
    auto_ref PyObject *frame = find_frame(name);

    if (!frame)
        return NULL;
    if (frame == Py_None) {
        PyErr_Format(PyExc_LookupError, "there is no DataFrame '%.200s'", name);
        return NULL;
    }
    return dataframe_capture_create(frame, name);
}

static void bind(duckdb_bind_info info)
{
    duckdb_value parameter = duckdb_bind_get_parameter(info, 0);
    char *name = duckdb_get_varchar(parameter);
    struct dataframe_capture *capture;
    auto_free char *failure = NULL;
    PyGILState_STATE gil;

    duckdb_destroy_value(&parameter);
    gil = PyGILState_Ensure();
    dataframe_scan_drain();
    capture = capture_by_name(name ? name : "");
    if (!capture)
        failure = keep_exception();
    PyGILState_Release(gil);
    duckdb_free(name);
    if (!capture) {
        duckdb_bind_set_error(info, failure ? failure : "out of memory");
        return;
    }
    duckdb_bind_set_bind_data(info, capture, retire);
    for (size_t i = 0; i < capture->n_columns; i++) {
        duckdb_logical_type type = duckdb_create_logical_type(capture->columns[i].type);

        duckdb_bind_add_result_column(info, capture->columns[i].name, type);
        duckdb_destroy_logical_type(&type);
    }
    duckdb_bind_set_cardinality(info, capture->n_rows, true);
}

/* ---- scan ---------------------------------------------------------------------------------------------------------- */

struct progress {
    atomic_size_t next_row;
    size_t n_columns;
    idx_t columns[]; /* those that the query reads */
};

static void init(duckdb_init_info info)
{
    const struct dataframe_capture *capture = duckdb_init_get_bind_data(info);
    idx_t n = duckdb_init_get_column_count(info);
    struct progress *p = calloc(1, sizeof(*p) + n * sizeof(p->columns[0]));

    if (!p) {
        duckdb_init_set_error(info, "out of memory");
        return;
    }
    p->n_columns = n;
    for (idx_t i = 0; i < n; i++)
        p->columns[i] = duckdb_init_get_column_index(info, i);
    duckdb_init_set_init_data(info, p, free);
    duckdb_init_set_max_threads(info, capture->n_rows / ROWS_PER_THREAD + 1);
}

static void scan(duckdb_function_info info, duckdb_data_chunk output)
{
    const struct dataframe_capture *capture = duckdb_function_get_bind_data(info);
    struct progress *p = duckdb_function_get_init_data(info);
    size_t most = duckdb_vector_size(), first = atomic_fetch_add(&p->next_row, most), n;

    if (first >= capture->n_rows) {
        duckdb_data_chunk_set_size(output, 0);
        return;
    }
    n = MIN_OF(most, capture->n_rows - first);
    for (size_t i = 0; i < p->n_columns; i++) {
        idx_t index = p->columns[i];

        /* count(*) reads the row number, which is no column of ours and which nobody looks at. */
        if (index >= capture->n_columns)
            continue;
        if (!dataframe_capture_read(&capture->columns[index], first, n,
                                    duckdb_data_chunk_get_vector(output, i))) {
            duckdb_function_set_error(info, "out of memory");
            return;
        }
    }
    duckdb_data_chunk_set_size(output, n);
}

int dataframe_scan_register(duckdb_database db, duckdb_connection con, struct err *err)
{
    duckdb_table_function function = duckdb_create_table_function();
    duckdb_logical_type text = duckdb_create_logical_type(DUCKDB_TYPE_VARCHAR);
    duckdb_state state;

    duckdb_table_function_set_name(function, FUNCTION_NAME);
    duckdb_table_function_add_parameter(function, text);
    duckdb_table_function_set_bind(function, bind);
    duckdb_table_function_set_init(function, init);
    duckdb_table_function_set_function(function, scan);
    duckdb_table_function_supports_projection_pushdown(function, true);
    state = duckdb_register_table_function(con, function);
    duckdb_destroy_table_function(&function);
    duckdb_destroy_logical_type(&text);
    if (state != DuckDBSuccess)
        return err_set(err, ERR_INTERNAL, "DuckDB does not take the table function " FUNCTION_NAME);
    duckdb_add_replacement_scan(db, replace, NULL, NULL);
    return 0;
}
