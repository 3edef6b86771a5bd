/* What of DuckDB's values is the same in numpy, and how the rest is converted. */

#include "kernel/sql/plain.h"

#include <math.h>
#include <string.h>
#include "base/macros.h"

static const struct {
    duckdb_type id;
    enum plain_store store;
    const char *dtype;
    size_t width;
} stores[] = {
    { DUCKDB_TYPE_TINYINT, PLAIN_INTEGER, "i1", 1 },
    { DUCKDB_TYPE_SMALLINT, PLAIN_INTEGER, "i2", 2 },
    { DUCKDB_TYPE_INTEGER, PLAIN_INTEGER, "i4", 4 },
    { DUCKDB_TYPE_BIGINT, PLAIN_INTEGER, "i8", 8 },
    { DUCKDB_TYPE_UTINYINT, PLAIN_INTEGER, "u1", 1 },
    { DUCKDB_TYPE_USMALLINT, PLAIN_INTEGER, "u2", 2 },
    { DUCKDB_TYPE_UINTEGER, PLAIN_INTEGER, "u4", 4 },
    { DUCKDB_TYPE_UBIGINT, PLAIN_INTEGER, "u8", 8 },
    { DUCKDB_TYPE_BOOLEAN, PLAIN_BOOLEAN, "?", 1 },
    { DUCKDB_TYPE_HUGEINT, PLAIN_HUGE, NULL, 16 },
    { DUCKDB_TYPE_UHUGEINT, PLAIN_HUGE, NULL, 16 },
    { DUCKDB_TYPE_FLOAT, PLAIN_FLOAT, "f4", 4 },
    { DUCKDB_TYPE_DOUBLE, PLAIN_DOUBLE, "f8", 8 },
    { DUCKDB_TYPE_DECIMAL, PLAIN_DECIMAL, "f8", 8 },
    { DUCKDB_TYPE_DATE, PLAIN_MOMENT, "M8[ns]", 8 },
    { DUCKDB_TYPE_TIMESTAMP, PLAIN_MOMENT, "M8[ns]", 8 },
    { DUCKDB_TYPE_TIMESTAMP_S, PLAIN_MOMENT, "M8[ns]", 8 },
    { DUCKDB_TYPE_TIMESTAMP_MS, PLAIN_MOMENT, "M8[ns]", 8 },
    { DUCKDB_TYPE_TIMESTAMP_NS, PLAIN_MOMENT, "M8[ns]", 8 },
    { DUCKDB_TYPE_TIMESTAMP_TZ, PLAIN_MOMENT, "M8[ns]", 8 },
};

struct plain plain_of(duckdb_type id, duckdb_type internal, uint8_t scale)
{
    struct plain p = { .id = id, .internal = internal, .scale = scale, .store = PLAIN_NOT };

    for (size_t i = 0; i < ARRAY_SIZE(stores); i++) {
        if (stores[i].id == id) {
            p.store = stores[i].store;
            p.dtype = stores[i].dtype;
            p.width = stores[i].width;
        }
    }
    return p;
}

bool plain_has_nulls(const struct plain *p)
{
    return p->store == PLAIN_INTEGER || p->store == PLAIN_BOOLEAN || p->store == PLAIN_HUGE;
}

/* ---- gathering ------------------------------------------------------------------------------- */

__int128 plain_hugeint(duckdb_hugeint v)
{
    return (__int128)((unsigned __int128)(uint64_t)v.upper << 64 | v.lower);
}

double plain_decimal(duckdb_type internal, uint8_t scale, const void *data, size_t row)
{
    static const double powers[] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                     1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                     1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };
    const duckdb_hugeint *huge = data;
    __int128 v = internal == DUCKDB_TYPE_SMALLINT ? ((const int16_t *)data)[row] :
                 internal == DUCKDB_TYPE_INTEGER  ? ((const int32_t *)data)[row] :
                 internal == DUCKDB_TYPE_BIGINT   ? ((const int64_t *)data)[row] :
                                                    plain_hugeint(huge[row]);

    /* Both sides exact: the quotient is the double nearest to the decimal. */
    if (v >= -PLAIN_EXACT_DOUBLE && v <= PLAIN_EXACT_DOUBLE && scale < ARRAY_SIZE(powers))
        return (double)v / powers[scale];
    return (double)((long double)v / powl(10, scale));
}

void plain_gather(const struct plain *p, const void *data, const uint64_t *validity, size_t n,
                  void *to)
{
    if (n == 0)
        return;
    if (p->store == PLAIN_DECIMAL) {
        for (size_t i = 0; i < n; i++)
            ((double *)to)[i] = plain_is_null(validity, i) ?
                                    NAN :
                                    plain_decimal(p->internal, p->scale, data, i);
        return;
    }
    if (p->id == DUCKDB_TYPE_DATE) {
        for (size_t i = 0; i < n; i++)
            ((int64_t *)to)[i] = ((const int32_t *)data)[i];
    } else {
        memcpy(to, data, n * p->width);
    }
    for (size_t i = 0; validity && !plain_has_nulls(p) && i < n; i++) {
        if (!plain_is_null(validity, i))
            continue;
        if (p->store == PLAIN_FLOAT)
            ((float *)to)[i] = NAN;
        else if (p->store == PLAIN_DOUBLE)
            ((double *)to)[i] = NAN;
        else
            ((int64_t *)to)[i] = INT64_MIN;
    }
}

/* ---- converting ------------------------------------------------------------------------------ */

static __int128 integer_at(const struct plain *p, const void *gathered, size_t i)
{
    switch (p->id) {
    case DUCKDB_TYPE_TINYINT:
        return ((const int8_t *)gathered)[i];
    case DUCKDB_TYPE_SMALLINT:
        return ((const int16_t *)gathered)[i];
    case DUCKDB_TYPE_INTEGER:
        return ((const int32_t *)gathered)[i];
    case DUCKDB_TYPE_BIGINT:
        return ((const int64_t *)gathered)[i];
    case DUCKDB_TYPE_UTINYINT:
        return ((const uint8_t *)gathered)[i];
    case DUCKDB_TYPE_USMALLINT:
        return ((const uint16_t *)gathered)[i];
    case DUCKDB_TYPE_UINTEGER:
        return ((const uint32_t *)gathered)[i];
    case DUCKDB_TYPE_UBIGINT:
        return ((const uint64_t *)gathered)[i];
    default: {
        __int128 v = plain_hugeint(((const duckdb_hugeint *)gathered)[i]);

        /* The upper half of UHUGEINT looks negative; what counts is that it is large. */
        return p->id == DUCKDB_TYPE_UHUGEINT && v < 0 ? (__int128)UINT64_MAX : v;
    }
    }
}

bool plain_to_double(const struct plain *p, const void *gathered, const char *nulls, size_t n,
                     double *ret)
{
    for (size_t i = 0; i < n; i++) {
        __int128 v = nulls && nulls[i] ? 0 : integer_at(p, gathered, i);

        if (v > PLAIN_EXACT_DOUBLE || v < -PLAIN_EXACT_DOUBLE)
            return false;
        ret[i] = nulls && nulls[i] ? NAN : (double)v;
    }
    return true;
}

bool plain_to_ns(const struct plain *p, void *gathered, size_t n)
{
    int64_t *v = gathered;
    int64_t ns = p->id == DUCKDB_TYPE_DATE         ? PLAIN_SECONDS_PER_DAY * 1000000000 :
                 p->id == DUCKDB_TYPE_TIMESTAMP_S  ? 1000000000 :
                 p->id == DUCKDB_TYPE_TIMESTAMP_MS ? 1000000 :
                 p->id == DUCKDB_TYPE_TIMESTAMP_NS ? 1 :
                                                     1000;
    int64_t most = ns == 1 ? INT64_MAX - 1 : INT64_MAX / ns; /* the largest of all is infinity */

    for (size_t i = 0; i < n; i++) {
        if ((v[i] > most || v[i] < -most) && v[i] != INT64_MIN)
            return false;
    }
    for (size_t i = 0; ns != 1 && i < n; i++)
        v[i] = v[i] == INT64_MIN ? INT64_MIN : v[i] * ns;
    return true;
}
