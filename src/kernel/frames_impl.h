#ifndef RIDDLE_KERNEL_FRAMES_IMPL_H
#define RIDDLE_KERNEL_FRAMES_IMPL_H

/*
 * What the files of the bridge share. Functions that give a PyObject* or -1 follow Python's rule: on failure an exception is
 * set. All need the GIL unless they say otherwise.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <duckdb.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

static inline void cleanup_ref(PyObject **o)
{
    Py_XDECREF(*o);
}

/* A local reference that is dropped when its scope ends. */
#define auto_ref __attribute__((cleanup(cleanup_ref)))

#define FRAMES_EXACT_DOUBLE (INT64_C(1) << 53) /* integers up to here are the same as a double */
#define FRAMES_SECONDS_PER_DAY INT64_C(86400)
#define FRAMES_US_PER_DAY (FRAMES_SECONDS_PER_DAY * 1000000)

/* ---- frames.c ---- */

PyObject *frames_sql_error(void); /* borrowed */

/* ---- frames_value.c: single values as Python objects ---- */

struct frames_type {
    duckdb_type id;
    duckdb_type internal; /* of DECIMAL and ENUM */
    uint8_t scale;        /* of DECIMAL */
    idx_t array_size;
    struct frames_type **children;
    size_t n_children;
    PyObject *names; /* tuple of str: members of a STRUCT (NULL: it has none), words of an ENUM */
};

/* Takes over `type`. A type that cannot be read is a SqlError that names `column`. */
struct frames_type *frames_type_create(duckdb_logical_type type, const char *column);
void frames_type_destroy(struct frames_type *t);

PyObject *frames_value(const struct frames_type *t, duckdb_vector vector, idx_t row);
/* A day or a time as DuckDB counts it; date or datetime, or text where Python has no such year. */
PyObject *frames_moment(duckdb_type id, int64_t v);
PyObject *frames_text(const duckdb_string_t *s);
double frames_decimal(const struct frames_type *t, const void *data, idx_t row);
uint64_t frames_enum_index(const struct frames_type *t, const void *data, idx_t row);
__int128 frames_hugeint(duckdb_hugeint v);

int frames_value_init(void);

static inline bool frames_is_null(const uint64_t *validity, idx_t row)
{
    return validity && !(validity[row / 64] >> (row % 64) & 1);
}

/* ---- frames_column.c: the columns of a result as arrays ---- */

struct frames_column;

struct frames_column *frames_column_create(duckdb_result *result, idx_t index);
void frames_column_destroy(struct frames_column *c);
int frames_column_append(struct frames_column *c, duckdb_vector vector, idx_t n);
/* The tuple (name, array). The column is empty afterwards. */
PyObject *frames_column_finish(struct frames_column *c);

/* ---- frames_scan.c: DataFrames as tables ---- */

/* Registers the table function and the replacement scan. */
int frames_scan_register(duckdb_database db, duckdb_connection con, struct err *err);
/* The callable that finds a DataFrame by name. */
void frames_scan_set_lookup(PyObject *lookup);
/* Drops what finished scans have held. */
void frames_scan_drain(void);
/* Raises again what the lookup (or str() of a cell) raised since the last call; false if it raised nothing. */
bool frames_scan_raise(void);

#endif
