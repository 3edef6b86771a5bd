#ifndef RIDDLE_KERNEL_PYTHON_DATAFRAME_IMPL_H
#define RIDDLE_KERNEL_PYTHON_DATAFRAME_IMPL_H

/*
 * What the files of the bridge share. Functions that give a PyObject* or -1 follow Python's rule:
 * on failure an exception is set. All need the GIL unless they say otherwise.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <duckdb.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "kernel/sql/plain.h"

static inline void cleanup_ref(PyObject **o)
{
    Py_XDECREF(*o);
}

/* A local reference that is dropped when its scope ends. */
#define auto_ref __attribute__((cleanup(cleanup_ref)))

#define FRAMES_US_PER_DAY (PLAIN_SECONDS_PER_DAY * 1000000)

/* ---- dataframe.c ---- */

PyObject *dataframe_sql_error(void); /* borrowed */

/* ---- dataframe_value.c: single values as Python objects ---- */

struct dataframe_type {
    duckdb_type id;
    duckdb_type internal; /* of DECIMAL and ENUM */
    uint8_t scale;        /* of DECIMAL */
    idx_t array_size;
    struct dataframe_type **children;
    size_t n_children;
    PyObject *names; /* tuple of str: members of a STRUCT (NULL: it has none), words of an ENUM */
};

/* Takes over `type`. A type that cannot be read is a SqlError that names `column`. */
struct dataframe_type *dataframe_type_create(duckdb_logical_type type, const char *column);
void dataframe_type_destroy(struct dataframe_type *t);

/* A type of which its id says all. */
struct dataframe_type *dataframe_type_plain(duckdb_type id);

PyObject *dataframe_value(const struct dataframe_type *t, duckdb_vector vector, idx_t row);
/* The same for types that are not nested, of a value that is not NULL. */
PyObject *dataframe_scalar(const struct dataframe_type *t, const void *data, idx_t row);
/* A day or a time as DuckDB counts it; date or datetime, or text where Python has no such year. */
PyObject *dataframe_moment(duckdb_type id, int64_t v);
PyObject *dataframe_text(const duckdb_string_t *s);
uint64_t dataframe_enum_index(const struct dataframe_type *t, const void *data, idx_t row);

int dataframe_value_init(void);

/* ---- dataframe_column.c: the columns of a result as arrays ---- */

struct dataframe_column;

struct dataframe_column *dataframe_column_create(duckdb_result *result, idx_t index);
void dataframe_column_destroy(struct dataframe_column *c);
int dataframe_column_append(struct dataframe_column *c, duckdb_vector vector, idx_t n);

/* A column whose values lie in memory as in vectors. Takes over `type`. */
struct dataframe_column *dataframe_column_plain(const char *name, size_t name_len,
                                                struct dataframe_type *type);
int dataframe_column_append_plain(struct dataframe_column *c, const void *data,
                                  const uint64_t *validity, idx_t n);
/* The tuple (name, array). The column is empty afterwards. */
PyObject *dataframe_column_finish(struct dataframe_column *c);

/* An array over n values in what has a buffer, from byte `at` on. */
PyObject *dataframe_array(PyObject *buffer, const char *dtype, size_t n, size_t at);
/* An array of datetime64[ns] as one of UTC. */
PyObject *dataframe_array_in_utc(PyObject *array);
/*
 * An array of n objects, and where they lie; they are None. Its buffer is the caller's to release.
 */
PyObject *dataframe_array_of_none(size_t n, Py_buffer *ret_view);

/* ---- dataframe_stored.c: columns that lie behind a table's file ---- */

/* A list as query() gives it, or None if table `part` of the file has none that are whole. */
PyObject *dataframe_stored_columns(const char *path, size_t part);
int dataframe_stored_init(void);

/* ---- dataframe_scan.c: DataFrames as tables ---- */

/* Registers the table function and the replacement scan. */
int dataframe_scan_register(duckdb_database db, duckdb_connection con, struct err *err);
/* The callable that finds a DataFrame by name. */
void dataframe_scan_set_lookup(PyObject *lookup);
/* Drops what finished scans have held. */
void dataframe_scan_drain(void);
/*
 * Raises again what the lookup (or str() of a cell) raised since the last call; false if it raised
 * nothing.
 */
bool dataframe_scan_raise(void);

#endif
