/*
 * DuckDB's values as Python objects, one at a time: nested types, and the types for which numpy has
 * no array.
 *
 * Where Python has no such value, the object is text: a year outside 1…9999, "infinity", the time
 * 24:00:00.
 */

#include "kernel/python/dataframe_impl.h"
#include "kernel/python/integer.h"

#include <datetime.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/macros.h"

#define US_PER_SECOND INT64_C(1000000)
#define DAYS_PER_MONTH 30 /* in an INTERVAL, as DuckDB itself compares them */

/* ---- types --------------------------------------------------------------------------------------------------------- */

void dataframe_type_destroy(struct dataframe_type *t)
{
    if (!t)
        return;
    for (size_t i = 0; t->children && i < t->n_children; i++)
        dataframe_type_destroy(t->children[i]);
    free(t->children);
    Py_XDECREF(t->names);
    free(t);
}

static bool is_known(duckdb_type id)
{
    /*
     * What the C API has no name for (TIME_NS, VARIANT) is INVALID there; what comes behind SQLNULL
     * is never in a result.
     */
    return id > DUCKDB_TYPE_INVALID && id <= DUCKDB_TYPE_SQLNULL && id != DUCKDB_TYPE_ANY;
}

/* Takes over a string of DuckDB's. */
static PyObject *take_name(char *s)
{
    PyObject *name = s ? PyUnicode_DecodeUTF8(s, (Py_ssize_t)strlen(s), "replace") :
                         PyErr_NoMemory();

    duckdb_free(s);
    return name;
}

static int read_names(struct dataframe_type *t, duckdb_logical_type type, idx_t n,
                      char *(*name_of)(duckdb_logical_type, idx_t))
{
    t->names = PyTuple_New((Py_ssize_t)n);
    for (idx_t i = 0; t->names && i < n; i++) {
        PyObject *name = take_name(name_of(type, i));

        if (!name)
            return -1;
        PyTuple_SET_ITEM(t->names, (Py_ssize_t)i, name);
    }
    return t->names ? 0 : -1;
}

static int read_children(struct dataframe_type *t, duckdb_logical_type type, idx_t n,
                         const char *column,
                         duckdb_logical_type (*child_of)(duckdb_logical_type, idx_t))
{
    t->children = calloc(n ? n : 1, sizeof(struct dataframe_type *));
    if (!t->children) {
        PyErr_NoMemory();
        return -1;
    }
    t->n_children = n;
    for (idx_t i = 0; i < n; i++) {
        t->children[i] = dataframe_type_create(child_of(type, i), column);
        if (!t->children[i])
            return -1;
    }
    return 0;
}

static duckdb_logical_type list_child(duckdb_logical_type type, idx_t i)
{
    (void)i;
    return duckdb_list_type_child_type(type);
}

static duckdb_logical_type array_child(duckdb_logical_type type, idx_t i)
{
    (void)i;
    return duckdb_array_type_child_type(type);
}

static duckdb_logical_type map_child(duckdb_logical_type type, idx_t i)
{
    return i == 0 ? duckdb_map_type_key_type(type) : duckdb_map_type_value_type(type);
}

static int read_struct(struct dataframe_type *t, duckdb_logical_type type, const char *column)
{
    idx_t n = duckdb_struct_type_child_count(type);

    if (read_children(t, type, n, column, duckdb_struct_type_child_type) < 0 ||
        read_names(t, type, n, duckdb_struct_type_child_name) < 0)
        return -1;
    if (n > 0 && PyUnicode_GET_LENGTH(PyTuple_GET_ITEM(t->names, 0)) == 0)
        Py_CLEAR(t->names); /* row(1, 2) */
    return 0;
}

static int read_type(struct dataframe_type *t, duckdb_logical_type type, const char *column)
{
    switch (t->id) {
    case DUCKDB_TYPE_DECIMAL:
        t->internal = duckdb_decimal_internal_type(type);
        t->scale = duckdb_decimal_scale(type);
        return 0;
    case DUCKDB_TYPE_ENUM:
        t->internal = duckdb_enum_internal_type(type);
        return read_names(t, type, duckdb_enum_dictionary_size(type), duckdb_enum_dictionary_value);
    case DUCKDB_TYPE_LIST:
        return read_children(t, type, 1, column, list_child);
    case DUCKDB_TYPE_ARRAY:
        t->array_size = duckdb_array_type_array_size(type);
        return read_children(t, type, 1, column, array_child);
    case DUCKDB_TYPE_MAP:
        return read_children(t, type, 2, column, map_child);
    case DUCKDB_TYPE_STRUCT:
        return read_struct(t, type, column);
    case DUCKDB_TYPE_UNION:
        return read_children(t, type, duckdb_union_type_member_count(type), column,
                             duckdb_union_type_member_type);
    default:
        if (is_known(t->id))
            return 0;
        PyErr_Format(dataframe_sql_error(),
                     "column '%.200s' has a type that Python cannot hold; use CAST(... AS VARCHAR)",
                     column);
        return -1;
    }
}

struct dataframe_type *dataframe_type_create(duckdb_logical_type type, const char *column)
{
    struct dataframe_type *t = calloc(1, sizeof(*t));
    int r = -1;

    if (!t)
        PyErr_NoMemory();
    if (t && Py_EnterRecursiveCall(" while reading a nested type") == 0) {
        t->id = duckdb_get_type_id(type);
        r = read_type(t, type, column);
        Py_LeaveRecursiveCall();
    }
    duckdb_destroy_logical_type(&type);
    if (r < 0) {
        dataframe_type_destroy(t);
        return NULL;
    }
    return t;
}

struct dataframe_type *dataframe_type_plain(duckdb_type id)
{
    struct dataframe_type *t = calloc(1, sizeof(*t));

    if (!t) {
        PyErr_NoMemory();
        return NULL;
    }
    t->id = id;
    return t;
}

/* ---- numbers and texts ----------------------------------------------------------------------- */

uint64_t dataframe_enum_index(const struct dataframe_type *t, const void *data, idx_t row)
{
    return t->internal == DUCKDB_TYPE_UTINYINT  ? ((const uint8_t *)data)[row] :
           t->internal == DUCKDB_TYPE_USMALLINT ? ((const uint16_t *)data)[row] :
                                                  ((const uint32_t *)data)[row];
}

static const char *bytes_of(const duckdb_string_t *s)
{
    return s->value.inlined.length <= sizeof(s->value.inlined.inlined) ? s->value.inlined.inlined :
                                                                         s->value.pointer.ptr;
}

PyObject *dataframe_text(const duckdb_string_t *s)
{
    return PyUnicode_DecodeUTF8(bytes_of(s), (Py_ssize_t)s->value.inlined.length, "replace");
}

/* A BIT is a byte with the number of bits to skip, then the bits. */
static PyObject *bits_text(const uint8_t *bytes, size_t len)
{
    size_t skip = len > 0 ? bytes[0] : 0, n = len > 1 ? (len - 1) * 8 : 0;
    PyObject *text;
    Py_UCS1 *digits;

    n = n > skip ? n - skip : 0;
    text = PyUnicode_New((Py_ssize_t)n, 127);
    if (!text || n == 0)
        return text;
    digits = PyUnicode_1BYTE_DATA(text);
    for (size_t i = 0; i < n; i++)
        digits[i] = bytes[1 + (i + skip) / 8] >> (7 - (i + skip) % 8) & 1 ? '1' : '0';
    return text;
}

/*
 * A BIGNUM has a header of three bytes whose first bit is its sign; a negative one has all its bits
 * inverted.
 */
static PyObject *bignum_object(const uint8_t *bytes, size_t len)
{
    bool negative = len > 0 && !(bytes[0] & 0x80);
    auto_ref PyObject *magnitude = NULL, *digits = NULL;
    char *to;

    if (len <= 3)
        return PyLong_FromLong(0);
    digits = PyBytes_FromStringAndSize((const char *)bytes + 3, (Py_ssize_t)len - 3);
    if (!digits)
        return NULL;
    to = PyBytes_AS_STRING(digits);
    for (size_t i = 0; negative && i < len - 3; i++)
        to[i] = (char)~to[i];
    magnitude = PyObject_CallMethod((PyObject *)&PyLong_Type, "from_bytes", "Os", digits, "big");
    if (!magnitude)
        return NULL;
    return negative ? PyNumber_Negative(magnitude) : Py_NewRef(magnitude);
}

/* DuckDB keeps a UUID as a HUGEINT with its top bit flipped, so that it sorts as text does. */
static PyObject *uuid_object(duckdb_hugeint v)
{
    auto_ref PyObject *module = PyImport_ImportModule("uuid"), *type = NULL, *bytes = NULL;
    uint64_t parts[2] = { __builtin_bswap64((uint64_t)v.upper ^ (UINT64_C(1) << 63)),
                          __builtin_bswap64(v.lower) };

    if (module)
        type = PyObject_GetAttrString(module, "UUID");
    if (type)
        bytes = PyBytes_FromStringAndSize((const char *)parts, sizeof(parts));
    /* UUID(hex=None, bytes=…) */
    return bytes ? PyObject_CallFunctionObjArgs(type, Py_None, bytes, NULL) : NULL;
}

/* ---- dates and times ----------------------------------------------------------------------------------------------- */

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

struct civil {
    int64_t year;
    int month, day;
};

/* Days since 1970-01-01 → proleptic Gregorian (Howard Hinnant's algorithm). */
static struct civil civil_from_days(int64_t days)
{
    int64_t z = days + 719468, era = floor_div(z, 146097), doe = z - era * 146097;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100), mp = (5 * doy + 2) / 153;
    int month = (int)(mp < 10 ? mp + 3 : mp - 9);

    return (struct civil){ yoe + era * 400 + (month <= 2), month,
                           (int)(doy - (153 * mp + 2) / 5 + 1) };
}

static PyObject *moment_text(const struct civil *c, int64_t second, int64_t us, bool is_date)
{
    char text[96];
    int n = snprintf(text, sizeof(text), "%s%04" PRId64 "-%02d-%02d", c->year < 0 ? "-" : "",
                     c->year < 0 ? -c->year : c->year, c->month, c->day);

    if (!is_date) {
        n += snprintf(text + n, sizeof(text) - (size_t)n, " %02" PRId64 ":%02" PRId64 ":%02" PRId64,
                      second / 3600, second / 60 % 60, second % 60);
    }
    if (us)
        snprintf(text + n, sizeof(text) - (size_t)n, ".%06" PRId64, us);
    return PyUnicode_FromString(text);
}

PyObject *dataframe_moment(duckdb_type id, int64_t v)
{
    int64_t per_second = id == DUCKDB_TYPE_TIMESTAMP_S  ? 1 :
                         id == DUCKDB_TYPE_TIMESTAMP_MS ? 1000 :
                         id == DUCKDB_TYPE_TIMESTAMP_NS ? 1000000000 :
                                                          US_PER_SECOND;
    int64_t infinity = id == DUCKDB_TYPE_DATE ? INT32_MAX : INT64_MAX, days, second = 0, us = 0;
    struct civil c;

    if (v == infinity || v == -infinity)
        return PyUnicode_FromString(v > 0 ? "infinity" : "-infinity");
    if (id == DUCKDB_TYPE_DATE) {
        days = v;
    } else {
        int64_t seconds = floor_div(v, per_second), fraction = v - seconds * per_second;

        days = floor_div(seconds, PLAIN_SECONDS_PER_DAY);
        second = seconds - days * PLAIN_SECONDS_PER_DAY;
        us = per_second > US_PER_SECOND ? fraction / (per_second / US_PER_SECOND) :
                                          fraction * (US_PER_SECOND / per_second);
    }
    c = civil_from_days(days);
    if (c.year < 1 || c.year > 9999)
        return moment_text(&c, second, us, id == DUCKDB_TYPE_DATE);
    if (id == DUCKDB_TYPE_DATE)
        return PyDate_FromDate((int)c.year, c.month, c.day);
    return PyDateTimeAPI->DateTime_FromDateAndTime(
        (int)c.year, c.month, c.day, (int)(second / 3600), (int)(second / 60 % 60),
        (int)(second % 60), (int)us,
        id == DUCKDB_TYPE_TIMESTAMP_TZ ? PyDateTime_TimeZone_UTC : Py_None,
        PyDateTimeAPI->DateTimeType);
}

static PyObject *time_object(int64_t us, PyObject *zone)
{
    int64_t second = us / US_PER_SECOND;

    if (us >= FRAMES_US_PER_DAY)
        return PyUnicode_FromString("24:00:00");
    return PyDateTimeAPI->Time_FromTime((int)(second / 3600), (int)(second / 60 % 60),
                                        (int)(second % 60), (int)(us % US_PER_SECOND), zone,
                                        PyDateTimeAPI->TimeType);
}

static PyObject *time_tz_object(duckdb_time_tz v)
{
    duckdb_time_tz_struct parts = duckdb_from_time_tz(v);
    int64_t us = ((int64_t)parts.time.hour * 3600 + parts.time.min * 60 + parts.time.sec) *
                     US_PER_SECOND +
                 parts.time.micros;
    auto_ref PyObject *offset = PyDelta_FromDSU(0, parts.offset, 0), *zone = NULL;

    if (offset)
        zone = PyTimeZone_FromOffset(offset);
    return zone ? time_object(us, zone) : NULL;
}

static PyObject *interval_object(duckdb_interval v)
{
    int64_t days = (int64_t)v.months * DAYS_PER_MONTH + v.days +
                   floor_div(v.micros, FRAMES_US_PER_DAY);
    int64_t us = v.micros - floor_div(v.micros, FRAMES_US_PER_DAY) * FRAMES_US_PER_DAY;

    if (days > 999999999 || days < -999999999) { /* more than a timedelta holds */
        return PyUnicode_FromFormat("%d months %d days %lld microseconds", (int)v.months,
                                    (int)v.days, (long long)v.micros);
    }
    return PyDelta_FromDSU((int)days, (int)(us / US_PER_SECOND), (int)(us % US_PER_SECOND));
}

/* ---- nested -------------------------------------------------------------------------------------------------------- */

static PyObject *list_object(const struct dataframe_type *t, duckdb_vector child, idx_t first,
                             idx_t n)
{
    PyObject *list = PyList_New((Py_ssize_t)n);

    for (idx_t i = 0; list && i < n; i++) {
        PyObject *item = dataframe_value(t, child, first + i);

        if (item)
            PyList_SET_ITEM(list, (Py_ssize_t)i, item);
        else
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *struct_object(const struct dataframe_type *t, duckdb_vector vector, idx_t row)
{
    PyObject *made = t->names ? PyDict_New() : PyTuple_New((Py_ssize_t)t->n_children);

    for (size_t i = 0; made && i < t->n_children; i++) {
        PyObject *item = dataframe_value(t->children[i], duckdb_struct_vector_get_child(vector, i),
                                         row);

        if (!item) {
            Py_CLEAR(made);
        } else if (!t->names) {
            PyTuple_SET_ITEM(made, (Py_ssize_t)i, item);
        } else {
            if (PyDict_SetItem(made, PyTuple_GET_ITEM(t->names, (Py_ssize_t)i), item) < 0)
                Py_CLEAR(made);
            Py_DECREF(item);
        }
    }
    return made;
}

/* A dict, or a list of pairs when the keys cannot be keys in Python (lists, structs, maps). */
static PyObject *map_object(const struct dataframe_type *t, duckdb_vector vector,
                            duckdb_list_entry entry)
{
    duckdb_vector pairs = duckdb_list_vector_get_child(vector);
    duckdb_vector keys = duckdb_struct_vector_get_child(pairs, 0);
    duckdb_vector values = duckdb_struct_vector_get_child(pairs, 1);
    duckdb_type id = t->children[0]->id;
    bool hashable = id != DUCKDB_TYPE_LIST && id != DUCKDB_TYPE_ARRAY && id != DUCKDB_TYPE_STRUCT &&
                    id != DUCKDB_TYPE_MAP && id != DUCKDB_TYPE_UNION;
    auto_ref PyObject *made = hashable ? PyDict_New() : PyList_New(0);

    for (idx_t i = entry.offset; made && i < entry.offset + entry.length; i++) {
        auto_ref PyObject *key = dataframe_value(t->children[0], keys, i), *value = NULL,
                          *pair = NULL;

        if (key)
            value = dataframe_value(t->children[1], values, i);
        if (value && !hashable)
            pair = PyTuple_Pack(2, key, value);
        if (!value || (!hashable && !pair))
            return NULL;
        if ((hashable ? PyDict_SetItem(made, key, value) : PyList_Append(made, pair)) < 0)
            return NULL;
    }
    return Py_XNewRef(made);
}

static PyObject *nested_object(const struct dataframe_type *t, duckdb_vector vector,
                               const void *data, idx_t row)
{
    switch (t->id) {
    case DUCKDB_TYPE_LIST: {
        duckdb_list_entry entry = ((const duckdb_list_entry *)data)[row];

        return list_object(t->children[0], duckdb_list_vector_get_child(vector), entry.offset,
                           entry.length);
    }
    case DUCKDB_TYPE_ARRAY:
        return list_object(t->children[0], duckdb_array_vector_get_child(vector),
                           row * t->array_size, t->array_size);
    case DUCKDB_TYPE_MAP:
        return map_object(t, vector, ((const duckdb_list_entry *)data)[row]);
    case DUCKDB_TYPE_STRUCT:
        return struct_object(t, vector, row);
    default: { /* UNION: the first child is the tag, which counts the members behind it */
        uint8_t tag = ((const uint8_t *)duckdb_vector_get_data(
            duckdb_struct_vector_get_child(vector, 0)))[row];

        if (tag >= t->n_children)
            Py_RETURN_NONE;
        return dataframe_value(t->children[tag],
                               duckdb_struct_vector_get_child(vector, (idx_t)tag + 1), row);
    }
    }
}

PyObject *dataframe_scalar(const struct dataframe_type *t, const void *data, idx_t row)
{
    switch (t->id) {
    case DUCKDB_TYPE_BOOLEAN:
        return PyBool_FromLong(((const uint8_t *)data)[row]);
    case DUCKDB_TYPE_TINYINT:
        return PyLong_FromLong(((const int8_t *)data)[row]);
    case DUCKDB_TYPE_SMALLINT:
        return PyLong_FromLong(((const int16_t *)data)[row]);
    case DUCKDB_TYPE_INTEGER:
        return PyLong_FromLong(((const int32_t *)data)[row]);
    case DUCKDB_TYPE_BIGINT:
        return PyLong_FromLongLong(((const int64_t *)data)[row]);
    case DUCKDB_TYPE_UTINYINT:
        return PyLong_FromLong(((const uint8_t *)data)[row]);
    case DUCKDB_TYPE_USMALLINT:
        return PyLong_FromLong(((const uint16_t *)data)[row]);
    case DUCKDB_TYPE_UINTEGER:
        return PyLong_FromUnsignedLong(((const uint32_t *)data)[row]);
    case DUCKDB_TYPE_UBIGINT:
        return PyLong_FromUnsignedLongLong(((const uint64_t *)data)[row]);
    case DUCKDB_TYPE_HUGEINT:
    case DUCKDB_TYPE_UHUGEINT: /* little-endian as they lie there */
        return integer_from_bytes((const unsigned char *)data + row * 16, 16,
                                  t->id == DUCKDB_TYPE_HUGEINT);
    case DUCKDB_TYPE_FLOAT:
        return PyFloat_FromDouble(((const float *)data)[row]);
    case DUCKDB_TYPE_DOUBLE:
        return PyFloat_FromDouble(((const double *)data)[row]);
    case DUCKDB_TYPE_DECIMAL:
        return PyFloat_FromDouble(plain_decimal(t->internal, t->scale, data, row));
    case DUCKDB_TYPE_DATE:
        return dataframe_moment(t->id, ((const int32_t *)data)[row]);
    case DUCKDB_TYPE_TIMESTAMP:
    case DUCKDB_TYPE_TIMESTAMP_TZ:
    case DUCKDB_TYPE_TIMESTAMP_S:
    case DUCKDB_TYPE_TIMESTAMP_MS:
    case DUCKDB_TYPE_TIMESTAMP_NS:
        return dataframe_moment(t->id, ((const int64_t *)data)[row]);
    case DUCKDB_TYPE_TIME:
        return time_object(((const int64_t *)data)[row], Py_None);
    case DUCKDB_TYPE_TIME_TZ:
        return time_tz_object(((const duckdb_time_tz *)data)[row]);
    case DUCKDB_TYPE_INTERVAL:
        return interval_object(((const duckdb_interval *)data)[row]);
    case DUCKDB_TYPE_UUID:
        return uuid_object(((const duckdb_hugeint *)data)[row]);
    case DUCKDB_TYPE_ENUM: {
        uint64_t index = dataframe_enum_index(t, data, row);

        return Py_NewRef(index < (uint64_t)PyTuple_GET_SIZE(t->names) ?
                             PyTuple_GET_ITEM(t->names, (Py_ssize_t)index) :
                             Py_None);
    }
    case DUCKDB_TYPE_VARCHAR:
        return dataframe_text(&((const duckdb_string_t *)data)[row]);
    case DUCKDB_TYPE_BLOB:
    case DUCKDB_TYPE_BIT:
    case DUCKDB_TYPE_BIGNUM: {
        const duckdb_string_t *s = &((const duckdb_string_t *)data)[row];
        size_t len = s->value.inlined.length;

        if (t->id == DUCKDB_TYPE_BLOB)
            return PyBytes_FromStringAndSize(bytes_of(s), (Py_ssize_t)len);
        return t->id == DUCKDB_TYPE_BIT ? bits_text((const uint8_t *)bytes_of(s), len) :
                                          bignum_object((const uint8_t *)bytes_of(s), len);
    }
    default: /* SQLNULL */
        Py_RETURN_NONE;
    }
}

PyObject *dataframe_value(const struct dataframe_type *t, duckdb_vector vector, idx_t row)
{
    const void *data = duckdb_vector_get_data(vector);

    if (plain_is_null(duckdb_vector_get_validity(vector), row))
        Py_RETURN_NONE;
    return t->n_children ? nested_object(t, vector, data, row) : dataframe_scalar(t, data, row);
}

int dataframe_value_init(void)
{
    PyDateTime_IMPORT;
    return PyDateTimeAPI ? 0 : -1;
}
