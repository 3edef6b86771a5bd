#ifndef RIDDLE_KERNEL_SQL_PLAIN_H
#define RIDDLE_KERNEL_SQL_PLAIN_H

/*
 * DuckDB's values of fixed width as numpy's arrays have them. What dtype a column gets is known
 * only at its end: a NULL among integers, a date that nanoseconds cannot hold. So values are
 * gathered as DuckDB counts them (plain_gather) and converted once.
 */

#include <duckdb.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLAIN_EXACT_DOUBLE (INT64_C(1) << 53) /* integers up to here are the same as a double */
#define PLAIN_SECONDS_PER_DAY INT64_C(86400)

enum plain_store {
    PLAIN_INTEGER, /* with `nulls`, a byte for each row */
    PLAIN_BOOLEAN,
    PLAIN_HUGE,
    PLAIN_FLOAT, /* NULL is NaN */
    PLAIN_DOUBLE,
    PLAIN_DECIMAL, /* as doubles, NULL is NaN */
    /* as int64 in DuckDB's unit, NULL is INT64_MIN (numpy's NaT; no value of DuckDB's) */
    PLAIN_MOMENT,
    PLAIN_NOT, /* objects */
    _PLAIN_STORE_MAX
};

struct plain {
    duckdb_type id, internal; /* internal: of a DECIMAL */
    uint8_t scale;            /* of a DECIMAL */
    enum plain_store store;
    const char *dtype; /* numpy's, of what is gathered; NULL: it has none */
    size_t width;      /* of a gathered value; 0: objects */
};

struct plain plain_of(duckdb_type id, duckdb_type internal, uint8_t scale);

/* n values of a vector to `to`. Where NULL has no value of its own, nulls[i] tells it. */
void plain_gather(const struct plain *p, const void *data, const uint64_t *validity, size_t n,
                  void *to);
bool plain_has_nulls(const struct plain *p); /* whether NULLs are told besides */

/* Integers as float64 with NaN for NULL; false if that would change one. `nulls` may be NULL. */
bool plain_to_double(const struct plain *p, const void *gathered, const char *nulls, size_t n,
                     double *ret);
/* Moments as nanoseconds, in place; false, and nothing is changed, if one does not fit. */
bool plain_to_ns(const struct plain *p, void *gathered, size_t n);

double plain_decimal(duckdb_type internal, uint8_t scale, const void *data, size_t row);
__int128 plain_hugeint(duckdb_hugeint v);

static inline bool plain_is_null(const uint64_t *validity, size_t row)
{
    return validity && !(validity[row / 64] >> (row % 64) & 1);
}

#endif
