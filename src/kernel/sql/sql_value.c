/*
 * DuckDB's values as JSON text, straight from the vectors: no value object is built for a cell.
 *
 * Numbers that JSON readers keep are numbers; the rest is text: integers past 64 bits, decimals
 * (1.50 stays 1.50). Dates are ISO 8601, times stand after a blank, as Python's str() writes both;
 * years before 1 are astronomical (1 BC is 0000); infinity is "infinity". NaN and the
 * infinities of floating point are null, since JSON has no word for them.
 */

#include "kernel/sql/sql_value.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "base/macros.h"
#include "base/str.h"
#include "kernel/sql/sql_value_impl.h"

#define BLOB_MAX_BYTES (SQL_CELL_MAX_BYTES / 4 * 3)

/* ---- text ---------------------------------------------------------------------------------------------------------- */

static int write_text(struct buf *out, const char *s, size_t len, bool *ret_cut, struct err *err)
{
    auto_free char *cut = NULL;
    size_t keep;

    if (len <= SQL_CELL_MAX_BYTES)
        return json_write_str(s, len, out, err);
    keep = str_utf8_cut(s, len, SQL_CELL_MAX_BYTES);
    cut = malloc(keep + 4);
    if (!cut)
        return err_set(err, ERR_NO_MEMORY, "out of memory for a cell of %zu bytes", len);
    memcpy(cut, s, keep);
    memcpy(cut + keep, "…", sizeof("…"));
    *ret_cut = true;
    return json_write_str(cut, keep + strlen("…"), out, err);
}

static int write_base64(struct buf *out, const uint8_t *data, size_t len, bool *ret_cut,
                        struct err *err)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    bool cut = len > BLOB_MAX_BYTES;
    int r;

    if (cut) {
        len = BLOB_MAX_BYTES;
        *ret_cut = true;
    }
    r = buf_reserve(out, len / 3 * 4 + 12, err);
    if (r == 0)
        r = buf_append(out, "\"", 1, err);
    for (size_t i = 0; r == 0 && i < len; i += 3) {
        uint32_t a = data[i], b = i + 1 < len ? data[i + 1] : 0, c = i + 2 < len ? data[i + 2] : 0;
        uint32_t bits = a << 16 | b << 8 | c;
        char quad[4] = { digits[bits >> 18], digits[bits >> 12 & 63],
                         i + 1 < len ? digits[bits >> 6 & 63] : '=',
                         i + 2 < len ? digits[bits & 63] : '=' };

        r = buf_append(out, quad, sizeof(quad), err);
    }
    if (r == 0 && cut)
        r = buf_append_str(out, "…", err);
    return r < 0 ? r : buf_append(out, "\"", 1, err);
}

/* The first byte says how many bits of the second are padding. */
static int write_bits(struct buf *out, const uint8_t *data, size_t len, bool *ret_cut,
                      struct err *err)
{
    auto_free char *text = NULL;
    size_t n = 0;

    if (len < 2 || data[0] > 7)
        return buf_append_str(out, "\"\"", err);
    text = malloc((len - 1) * 8);
    if (!text)
        return err_set(err, ERR_NO_MEMORY, "out of memory for a bit string");
    for (size_t bit = data[0]; bit < (len - 1) * 8; bit++)
        text[n++] = data[1 + bit / 8] >> (7 - bit % 8) & 1 ? '1' : '0';
    return write_text(out, text, n, ret_cut, err);
}

/* ---- numbers ------------------------------------------------------------------------------------------------------- */

/*
 * The shortest digits that read back as the same number, with a point or exponent so that it stays
 * a float.
 */
static int write_double(struct buf *out, double v, bool single, struct err *err)
{
    char text[40];

    if (!isfinite(v))
        return buf_append_str(out, "null", err);
    for (int digits = single ? 6 : 15; digits <= (single ? 9 : 17); digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, v);
        if (single ? strtof(text, NULL) == (float)v : strtod(text, NULL) == v)
            break;
    }
    if (!strpbrk(text, ".e"))
        memcpy(text + strlen(text), ".0", sizeof(".0"));
    return buf_append_str(out, text, err);
}

#define U128_TEXT_SIZE 40

static const char *u128_text(unsigned __int128 v, char text[U128_TEXT_SIZE])
{
    char *p = text + U128_TEXT_SIZE - 1;

    *p = '\0';
    do {
        *--p = (char)('0' + (int)(v % 10));
        v /= 10;
    } while (v);
    return p;
}

static unsigned __int128 magnitude(__int128 v)
{
    return v < 0 ? -(unsigned __int128)v : (unsigned __int128)v;
}

static int write_i128(struct buf *out, bool negative, unsigned __int128 v, struct err *err)
{
    char text[U128_TEXT_SIZE];
    const char *quote = v <= (unsigned __int128)INT64_MAX ? "" : "\"";

    return buf_printf(out, err, "%s%s%s%s", quote, negative ? "-" : "", u128_text(v, text), quote);
}

static int write_decimal(struct buf *out, __int128 v, unsigned scale, struct err *err)
{
    char text[U128_TEXT_SIZE], padded[U128_TEXT_SIZE + 2];
    const char *digits = u128_text(magnitude(v), text);
    size_t len = strlen(digits);

    if (scale == 0)
        return buf_printf(out, err, "\"%s%s\"", v < 0 ? "-" : "", digits);
    if (len <= scale) { /* at least one digit before the point */
        memset(padded, '0', scale + 1 - len);
        memcpy(padded + scale + 1 - len, digits, len + 1);
        digits = padded;
        len = scale + 1;
    }
    return buf_printf(out, err, "\"%s%.*s.%s\"", v < 0 ? "-" : "", (int)(len - scale), digits,
                      digits + len - scale);
}

/* ---- dates and times ----------------------------------------------------------------------------------------------- */

#define US_PER_SECOND INT64_C(1000000)
#define NS_PER_SECOND INT64_C(1000000000)
#define SECONDS_PER_DAY INT64_C(86400)

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/*
 * Days since 1970-01-01 → proleptic Gregorian (Howard Hinnant's algorithm; exact for all of int64's
 * useful range).
 */
static void write_days(char *text, size_t size, int64_t days)
{
    int64_t z = days + 719468, era = floor_div(z, 146097);
    int64_t doe = z - era * 146097;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100), mp = (5 * doy + 2) / 153;
    int64_t day = doy - (153 * mp + 2) / 5 + 1, month = mp < 10 ? mp + 3 : mp - 9;
    int64_t year = yoe + era * 400 + (month <= 2);

    snprintf(text, size, "%s%04" PRId64 "-%02" PRId64 "-%02" PRId64, year < 0 ? "-" : "",
             year < 0 ? -year : year, month, day);
}

/* hh:mm:ss with 6 or 9 digits of fraction if there is one. */
static void write_clock(char *text, size_t size, int64_t seconds, int64_t fraction, int digits)
{
    int n = snprintf(text, size, "%02" PRId64 ":%02" PRId64 ":%02" PRId64, seconds / 3600,
                     seconds / 60 % 60, seconds % 60);

    if (fraction)
        snprintf(text + n, size - (size_t)n, ".%0*" PRId64, digits, fraction);
}

static int write_date(struct buf *out, int32_t days, struct err *err)
{
    char text[48];

    if (days == INT32_MAX || days == -INT32_MAX)
        return buf_append_str(out, days > 0 ? "\"infinity\"" : "\"-infinity\"", err);
    write_days(text, sizeof(text), days);
    return buf_printf(out, err, "\"%s\"", text);
}

static int write_timestamp(struct buf *out, int64_t v, int64_t per_second, const char *zone,
                           struct err *err)
{
    char day[48], clock[48];
    int64_t seconds, fraction;

    if (v == INT64_MAX || v == -INT64_MAX)
        return buf_append_str(out, v > 0 ? "\"infinity\"" : "\"-infinity\"", err);
    seconds = floor_div(v, per_second);
    fraction = v - seconds * per_second;
    if (per_second == 1000)
        fraction *= 1000;
    write_days(day, sizeof(day), floor_div(seconds, SECONDS_PER_DAY));
    write_clock(clock, sizeof(clock),
                seconds - floor_div(seconds, SECONDS_PER_DAY) * SECONDS_PER_DAY, fraction,
                per_second == NS_PER_SECOND ? 9 : 6);
    return buf_printf(out, err, "\"%s %s%s\"", day, clock, zone);
}

static int write_time(struct buf *out, int64_t v, int64_t per_second, const char *zone,
                      struct err *err)
{
    char clock[48];

    write_clock(clock, sizeof(clock), v / per_second, v % per_second,
                per_second == NS_PER_SECOND ? 9 : 6);
    return buf_printf(out, err, "\"%s%s\"", clock, zone);
}

static int write_time_tz(struct buf *out, duckdb_time_tz v, struct err *err)
{
    duckdb_time_tz_struct parts = duckdb_from_time_tz(v);
    int offset = abs(parts.offset);
    int64_t us = ((int64_t)parts.time.hour * 3600 + parts.time.min * 60 + parts.time.sec) *
                     US_PER_SECOND +
                 parts.time.micros;
    char zone[32];
    int n = snprintf(zone, sizeof(zone), "%c%02d:%02d", parts.offset < 0 ? '-' : '+', offset / 3600,
                     offset / 60 % 60);

    if (offset % 60)
        snprintf(zone + n, sizeof(zone) - (size_t)n, ":%02d", offset % 60);
    return write_time(out, us, US_PER_SECOND, zone, err);
}

/* As DuckDB prints it: 1 year 2 months 3 days 04:05:06.5 */
static int write_interval(struct buf *out, duckdb_interval v, struct err *err)
{
    const struct {
        int64_t n;
        const char *unit;
    } parts[] = { { v.months / 12, "year" }, { v.months % 12, "month" }, { v.days, "day" } };
    const char *space = "";
    int r = buf_append(out, "\"", 1, err);

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(parts); i++) {
        if (parts[i].n == 0)
            continue;
        r = buf_printf(out, err, "%s%" PRId64 " %s%s", space, parts[i].n, parts[i].unit,
                       parts[i].n == 1 || parts[i].n == -1 ? "" : "s");
        space = " ";
    }
    if (r == 0 && (v.micros || !*space)) {
        uint64_t us = v.micros < 0 ? -(uint64_t)v.micros : (uint64_t)v.micros;
        char clock[48];

        write_clock(clock, sizeof(clock), (int64_t)(us / US_PER_SECOND),
                    (int64_t)(us % US_PER_SECOND), 6);
        r = buf_printf(out, err, "%s%s%s", space, v.micros < 0 ? "-" : "", clock);
    }
    return r < 0 ? r : buf_append(out, "\"", 1, err);
}

/* DuckDB keeps a UUID as a HUGEINT with its top bit flipped, so that it sorts as text does. */
static int write_uuid(struct buf *out, duckdb_hugeint v, struct err *err)
{
    uint64_t hi = (uint64_t)v.upper ^ (UINT64_C(1) << 63), lo = v.lower;

    return buf_printf(
        out, err, "\"%08" PRIx64 "-%04" PRIx64 "-%04" PRIx64 "-%04" PRIx64 "-%012" PRIx64 "\"",
        hi >> 32, hi >> 16 & 0xffff, hi & 0xffff, lo >> 48, lo & UINT64_C(0xffffffffffff));
}

/* ---- cells --------------------------------------------------------------------------------------------------------- */

static __int128 join_hugeint(duckdb_hugeint v)
{
    return (__int128)((unsigned __int128)(uint64_t)v.upper << 64 | v.lower);
}

static int write_list(const struct sql_type *element, duckdb_vector child, idx_t first, idx_t n,
                      struct buf *out, bool *ret_cut, struct err *err)
{
    int r = buf_append(out, "[", 1, err);

    for (idx_t i = 0; r == 0 && i < n; i++) {
        if (i)
            r = buf_append(out, ",", 1, err);
        if (r == 0)
            r = sql_value_write(element, child, first + i, out, ret_cut, err);
    }
    return r < 0 ? r : buf_append(out, "]", 1, err);
}

static int write_struct(const struct sql_type *t, duckdb_vector vector, idx_t row, struct buf *out,
                        bool *ret_cut, struct err *err)
{
    int r = buf_append(out, "{", 1, err);
    bool unnamed = t->n_children && !t->names[0][0]; /* row(1, 2) */

    for (idx_t i = 0; r == 0 && i < t->n_children; i++) {
        char position[24];
        const char *name = t->names[i];

        if (unnamed) {
            snprintf(position, sizeof(position), "%" PRIu64, (uint64_t)i + 1);
            name = position;
        }
        if (i)
            r = buf_append(out, ",", 1, err);
        if (r == 0)
            r = json_write_str(name, strlen(name), out, err);
        if (r == 0)
            r = buf_append(out, ":", 1, err);
        if (r == 0)
            r = sql_value_write(t->children[i], duckdb_struct_vector_get_child(vector, i), row, out,
                                ret_cut, err);
    }
    return r < 0 ? r : buf_append(out, "}", 1, err);
}

/*
 * An object when the keys are texts, else a list of {"key","value"}. A map is a list of structs
 * (key, value).
 */
static int write_map(const struct sql_type *t, duckdb_vector vector, duckdb_list_entry entry,
                     struct buf *out, bool *ret_cut, struct err *err)
{
    duckdb_vector pairs = duckdb_list_vector_get_child(vector);
    duckdb_vector keys = duckdb_struct_vector_get_child(pairs, 0);
    duckdb_vector values = duckdb_struct_vector_get_child(pairs, 1);
    bool object = t->children[0]->id == DUCKDB_TYPE_VARCHAR ||
                  t->children[0]->id == DUCKDB_TYPE_ENUM;
    int r = buf_append(out, object ? "{" : "[", 1, err);

    for (idx_t i = entry.offset; r == 0 && i < entry.offset + entry.length; i++) {
        if (i != entry.offset)
            r = buf_append(out, ",", 1, err);
        if (r == 0 && !object)
            r = buf_append_str(out, "{\"key\":", err);
        if (r == 0)
            r = sql_value_write(t->children[0], keys, i, out, ret_cut, err);
        if (r == 0)
            r = buf_append_str(out, object ? ":" : ",\"value\":", err);
        if (r == 0)
            r = sql_value_write(t->children[1], values, i, out, ret_cut, err);
        if (r == 0 && !object)
            r = buf_append(out, "}", 1, err);
    }
    return r < 0 ? r : buf_append(out, object ? "}" : "]", 1, err);
}

static int write_enum(const struct sql_type *t, const void *data, idx_t row, struct buf *out,
                      struct err *err)
{
    uint64_t index = t->internal == DUCKDB_TYPE_UTINYINT  ? ((const uint8_t *)data)[row] :
                     t->internal == DUCKDB_TYPE_USMALLINT ? ((const uint16_t *)data)[row] :
                                                            ((const uint32_t *)data)[row];

    if (index >= t->n_names)
        return buf_append_str(out, "null", err);
    return json_write_str(t->names[index], strlen(t->names[index]), out, err);
}

int sql_value_write(const struct sql_type *t, duckdb_vector vector, idx_t row, struct buf *out,
                    bool *ret_cut, struct err *err)
{
    uint64_t *validity = duckdb_vector_get_validity(vector);
    const void *data = duckdb_vector_get_data(vector);

    if (validity && !duckdb_validity_row_is_valid(validity, row))
        return buf_append_str(out, "null", err);
    switch (t->id) {
    case DUCKDB_TYPE_BOOLEAN:
        return buf_append_str(out, ((const bool *)data)[row] ? "true" : "false", err);
    case DUCKDB_TYPE_TINYINT:
        return buf_printf(out, err, "%d", ((const int8_t *)data)[row]);
    case DUCKDB_TYPE_SMALLINT:
        return buf_printf(out, err, "%d", ((const int16_t *)data)[row]);
    case DUCKDB_TYPE_INTEGER:
        return buf_printf(out, err, "%" PRId32, ((const int32_t *)data)[row]);
    case DUCKDB_TYPE_BIGINT:
        return buf_printf(out, err, "%" PRId64, ((const int64_t *)data)[row]);
    case DUCKDB_TYPE_UTINYINT:
        return buf_printf(out, err, "%u", ((const uint8_t *)data)[row]);
    case DUCKDB_TYPE_USMALLINT:
        return buf_printf(out, err, "%u", ((const uint16_t *)data)[row]);
    case DUCKDB_TYPE_UINTEGER:
        return buf_printf(out, err, "%" PRIu32, ((const uint32_t *)data)[row]);
    case DUCKDB_TYPE_UBIGINT:
        return write_i128(out, false, ((const uint64_t *)data)[row], err);
    case DUCKDB_TYPE_FLOAT:
        return write_double(out, ((const float *)data)[row], true, err);
    case DUCKDB_TYPE_DOUBLE:
        return write_double(out, ((const double *)data)[row], false, err);
    case DUCKDB_TYPE_HUGEINT: {
        __int128 v = join_hugeint(((const duckdb_hugeint *)data)[row]);

        return write_i128(out, v < 0, magnitude(v), err);
    }
    case DUCKDB_TYPE_UHUGEINT: {
        duckdb_uhugeint v = ((const duckdb_uhugeint *)data)[row];

        return write_i128(out, false, (unsigned __int128)v.upper << 64 | v.lower, err);
    }
    case DUCKDB_TYPE_DECIMAL: {
        __int128 v = t->internal == DUCKDB_TYPE_SMALLINT ?
                         ((const int16_t *)data)[row] :
                     t->internal == DUCKDB_TYPE_INTEGER ?
                         ((const int32_t *)data)[row] :
                     t->internal == DUCKDB_TYPE_BIGINT ?
                         ((const int64_t *)data)[row] :
                         join_hugeint(((const duckdb_hugeint *)data)[row]);

        return write_decimal(out, v, t->scale, err);
    }
    case DUCKDB_TYPE_DATE:
        return write_date(out, ((const int32_t *)data)[row], err);
    case DUCKDB_TYPE_TIMESTAMP:
        return write_timestamp(out, ((const int64_t *)data)[row], US_PER_SECOND, "", err);
    case DUCKDB_TYPE_TIMESTAMP_TZ:
        return write_timestamp(out, ((const int64_t *)data)[row], US_PER_SECOND, "+00:00", err);
    case DUCKDB_TYPE_TIMESTAMP_S:
        return write_timestamp(out, ((const int64_t *)data)[row], 1, "", err);
    case DUCKDB_TYPE_TIMESTAMP_MS:
        return write_timestamp(out, ((const int64_t *)data)[row], 1000, "", err);
    case DUCKDB_TYPE_TIMESTAMP_NS:
        return write_timestamp(out, ((const int64_t *)data)[row], NS_PER_SECOND, "", err);
    case DUCKDB_TYPE_TIME:
        return write_time(out, ((const int64_t *)data)[row], US_PER_SECOND, "", err);
    case DUCKDB_TYPE_TIME_NS:
        return write_time(out, ((const int64_t *)data)[row], NS_PER_SECOND, "", err);
    case DUCKDB_TYPE_TIME_TZ:
        return write_time_tz(out, ((const duckdb_time_tz *)data)[row], err);
    case DUCKDB_TYPE_INTERVAL:
        return write_interval(out, ((const duckdb_interval *)data)[row], err);
    case DUCKDB_TYPE_UUID:
        return write_uuid(out, ((const duckdb_hugeint *)data)[row], err);
    case DUCKDB_TYPE_ENUM:
        return write_enum(t, data, row, out, err);
    case DUCKDB_TYPE_VARCHAR:
    case DUCKDB_TYPE_BLOB:
    case DUCKDB_TYPE_BIT: {
        duckdb_string_t s = ((const duckdb_string_t *)data)[row]; /* short texts live inside it */
        const char *bytes = duckdb_string_t_data(&s);
        size_t len = duckdb_string_t_length(s);

        if (t->id == DUCKDB_TYPE_VARCHAR)
            return write_text(out, bytes, len, ret_cut, err);
        if (t->id == DUCKDB_TYPE_BLOB)
            return write_base64(out, (const uint8_t *)bytes, len, ret_cut, err);
        return write_bits(out, (const uint8_t *)bytes, len, ret_cut, err);
    }
    case DUCKDB_TYPE_LIST: {
        duckdb_list_entry entry = ((const duckdb_list_entry *)data)[row];

        return write_list(t->children[0], duckdb_list_vector_get_child(vector), entry.offset,
                          entry.length, out, ret_cut, err);
    }
    case DUCKDB_TYPE_ARRAY:
        return write_list(t->children[0], duckdb_array_vector_get_child(vector),
                          row * t->array_size, t->array_size, out, ret_cut, err);
    case DUCKDB_TYPE_MAP:
        return write_map(t, vector, ((const duckdb_list_entry *)data)[row], out, ret_cut, err);
    case DUCKDB_TYPE_STRUCT:
        return write_struct(t, vector, row, out, ret_cut, err);
    case DUCKDB_TYPE_UNION: {
        /* The first child is the tag, which counts the members behind it. */
        const uint8_t *tags = duckdb_vector_get_data(duckdb_struct_vector_get_child(vector, 0));
        uint8_t tag = tags[row];

        if (tag >= t->n_children)
            return buf_append_str(out, "null", err);
        return sql_value_write(t->children[tag],
                               duckdb_struct_vector_get_child(vector, (idx_t)tag + 1), row, out,
                               ret_cut, err);
    }
    default: /* SQLNULL; others do not pass sql_type_check() */
        return buf_append_str(out, "null", err);
    }
}
