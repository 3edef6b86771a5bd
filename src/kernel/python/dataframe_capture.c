/*
 * Captures of DataFrames: which type each column has for DuckDB, what has to be held so that it can
 * be read without the GIL, and the reading. dataframe_scan.c says when each happens.
 */

#include "kernel/python/dataframe_scan.h"
#include "kernel/python/integer.h"

#include <datetime.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/macros.h"

#define MAX_COLUMNS 100000
#define MAX_TEXT_BYTES                                                                             \
    ((size_t)UINT32_MAX / 4) /* DuckDB counts in 32 bits, a character may need 4 bytes */

/* What a capture needs from the outside, fetched once for all of its columns. */
struct context {
    PyObject *numpy, *dtype_type, *na, *nat;
    PyObject *taken; /* set of lower-case column names */
    size_t n_rows;
};

void dataframe_capture_destroy(struct dataframe_capture *capture)
{
    if (!capture)
        return;
    for (size_t i = 0; i < capture->n_columns; i++) {
        struct dataframe_captured *c = &capture->columns[i];

        PyBuffer_Release(&c->view); /* does nothing to an empty one */
        PyBuffer_Release(&c->mask_view);
        free(c->owned);
        free(c->owned_mask);
        free(c->name);
    }
    free(capture);
}

/* ---- object columns ------------------------------------------------------------------------------------------------ */

enum seen {
    SEEN_TEXT = 1 << 0,
    SEEN_BOOL = 1 << 1,
    SEEN_INT = 1 << 2,
    SEEN_FLOAT = 1 << 3,
    SEEN_DATE = 1 << 4,
    SEEN_DATETIME = 1 << 5,
    SEEN_DELTA = 1 << 6,
    SEEN_BYTES = 1 << 7,
    SEEN_OTHER = 1 << 8,
};

static bool type_is(PyObject *o, const char *prefix)
{
    return strncmp(Py_TYPE(o)->tp_name, prefix, strlen(prefix)) == 0;
}

/* 0: a NULL. */
static int kind_of(const struct context *x, PyObject *o)
{
    if (o == Py_None || o == x->na || o == x->nat)
        return 0;
    if (PyUnicode_Check(o))
        return SEEN_TEXT;
    if (PyFloat_Check(o))
        return isnan(PyFloat_AS_DOUBLE(o)) ? 0 : SEEN_FLOAT;
    if (PyBool_Check(o) || type_is(o, "numpy.bool"))
        return SEEN_BOOL;
    if (PyLong_CheckExact(o) || type_is(o, "numpy.int") || type_is(o, "numpy.uint"))
        return SEEN_INT;
    if (type_is(o, "decimal.Decimal") || type_is(o, "numpy.float"))
        return SEEN_FLOAT;
    if (PyDateTime_Check(o))
        return PyDateTime_DATE_GET_TZINFO(o) == Py_None ? SEEN_DATETIME : SEEN_OTHER;
    if (PyDate_Check(o))
        return SEEN_DATE;
    if (PyDelta_Check(o))
        return SEEN_DELTA;
    if (PyBytes_Check(o))
        return SEEN_BYTES;
    return SEEN_OTHER;
}

/*
 * Makes every NULL None, so that the scan need not know the others, and tells what else there is.
 */
static int survey(const struct context *x, PyObject **cells, size_t n)
{
    int seen = 0;

    for (size_t i = 0; i < n; i++) {
        PyObject *o = cells[i];
        int kind;

        if (!o) { /* numpy's way to say None in an array that was never filled */
            cells[i] = Py_NewRef(Py_None);
            continue;
        }
        kind = PyUnicode_CheckExact(o) ? SEEN_TEXT : kind_of(x, o);
        seen |= kind;
        if (kind == 0 && o != Py_None) {
            cells[i] = Py_NewRef(Py_None);
            Py_DECREF(o);
        }
    }
    return seen;
}

/* Every cell a str that can be read without Python's help. */
static int make_texts(PyObject **cells, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        PyObject *o = cells[i];

        if (o == Py_None)
            continue;
        if (!PyUnicode_Check(o)) {
            PyObject *text = PyObject_Str(o);

            if (!text)
                return -1;
            cells[i] = text;
            Py_DECREF(o);
            o = text;
        }
        if (PyUnicode_READY(o) < 0)
            return -1;
        if ((size_t)PyUnicode_GET_LENGTH(o) > MAX_TEXT_BYTES) {
            PyErr_SetString(PyExc_ValueError,
                            "a text is longer than the 1 GB that a table can hold");
            return -1;
        }
    }
    return 0;
}

static int check_bytes(PyObject **cells, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (cells[i] != Py_None && (size_t)PyBytes_GET_SIZE(cells[i]) > MAX_TEXT_BYTES) {
            PyErr_SetString(PyExc_ValueError,
                            "a value is longer than the 1 GB that a table can hold");
            return -1;
        }
    }
    return 0;
}

static int64_t days_from_civil(int year, int month, int day)
{
    int64_t y = year - (month <= 2), era = (y >= 0 ? y : y - 399) / 400, yoe = y - era * 400;
    int64_t doy = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;

    return era * 146097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719468;
}

/* datetime, and date as its midnight. */
static int64_t us_of(PyObject *o)
{
    int64_t days = days_from_civil(PyDateTime_GET_YEAR(o), PyDateTime_GET_MONTH(o),
                                   PyDateTime_GET_DAY(o));
    int64_t second = 0, us = 0;

    if (PyDateTime_Check(o)) {
        second = PyDateTime_DATE_GET_HOUR(o) * 3600 + PyDateTime_DATE_GET_MINUTE(o) * 60 +
                 PyDateTime_DATE_GET_SECOND(o);
        us = PyDateTime_DATE_GET_MICROSECOND(o);
    }
    return days * FRAMES_US_PER_DAY + second * 1000000 + us;
}

/* One cell as a value of the column's type. 1: does not fit, -1: exception. */
static int convert(duckdb_type type, PyObject *o, void *to)
{
    switch (type) {
    case DUCKDB_TYPE_BOOLEAN: {
        int truth = PyObject_IsTrue(o);

        *(uint8_t *)to = truth > 0;
        return truth < 0 ? -1 : 0;
    }
    case DUCKDB_TYPE_HUGEINT: {
        auto_ref PyObject *number = PyNumber_Index(o);

        return number ? integer_to_bytes(number, to, 16) : -1;
    }
    case DUCKDB_TYPE_BIGINT: {
        auto_ref PyObject *number = PyNumber_Index(o);
        int overflow = 0;

        if (!number)
            return -1;
        *(int64_t *)to = PyLong_AsLongLongAndOverflow(number, &overflow);
        return overflow ? 1 : 0;
    }
    case DUCKDB_TYPE_DOUBLE:
        *(double *)to = PyFloat_AsDouble(o);
        if (!PyErr_Occurred())
            return 0;
        if (!PyErr_ExceptionMatches(PyExc_OverflowError) &&
            !PyErr_ExceptionMatches(PyExc_ValueError))
            return -1;
        PyErr_Clear(); /* an int beyond all doubles, a signalling NaN */
        return 1;
    case DUCKDB_TYPE_DATE:
        *(int32_t *)to = (int32_t)days_from_civil(PyDateTime_GET_YEAR(o), PyDateTime_GET_MONTH(o),
                                                  PyDateTime_GET_DAY(o));
        return 0;
    case DUCKDB_TYPE_TIMESTAMP:
        *(int64_t *)to = us_of(o);
        return 0;
    default: /* INTERVAL */
        *(duckdb_interval *)to = (duckdb_interval){
            .days = PyDateTime_DELTA_GET_DAYS(o),
            .micros = PyDateTime_DELTA_GET_SECONDS(o) * INT64_C(1000000) +
                      PyDateTime_DELTA_GET_MICROSECONDS(o),
        };
        return 0;
    }
}

/* Object cells as plain values. 1: one of them does not fit the type. */
static int make_plain(struct dataframe_captured *c, duckdb_type type, size_t width,
                      PyObject **cells, size_t n)
{
    auto_free char *values = calloc(n ? n : 1, width);
    auto_free uint8_t *mask = calloc(n ? n : 1, 1);

    if (!values || !mask) {
        PyErr_NoMemory();
        return -1;
    }
    for (size_t i = 0; i < n; i++) {
        int r = 0;

        if (cells[i] == Py_None)
            mask[i] = 1;
        else
            r = convert(type, cells[i], values + i * width);
        if (r != 0)
            return r;
    }
    c->type = type;
    c->read = type == DUCKDB_TYPE_DOUBLE ? FRAMES_READ_DOUBLE : FRAMES_READ_PLAIN;
    c->width = width;
    c->stride = (ptrdiff_t)width;
    c->data = c->owned = TAKE_PTR(values);
    c->mask = c->owned_mask = TAKE_PTR(mask);
    return 0;
}

static int make_typed(struct dataframe_captured *c, int seen, PyObject **cells, size_t n)
{
    int r;

    switch (seen) {
    case SEEN_BOOL:
        return make_plain(c, DUCKDB_TYPE_BOOLEAN, 1, cells, n);
    case SEEN_INT:
        r = make_plain(c, DUCKDB_TYPE_BIGINT, 8, cells, n);
        return r != 1 ? r : make_plain(c, DUCKDB_TYPE_HUGEINT, 16, cells, n);
    case SEEN_FLOAT:
    case SEEN_FLOAT | SEEN_INT:
        return make_plain(c, DUCKDB_TYPE_DOUBLE, 8, cells, n);
    case SEEN_DATE:
        return make_plain(c, DUCKDB_TYPE_DATE, 4, cells, n);
    case SEEN_DATETIME:
    case SEEN_DATETIME | SEEN_DATE:
        return make_plain(c, DUCKDB_TYPE_TIMESTAMP, 8, cells, n);
    case SEEN_DELTA:
        return make_plain(c, DUCKDB_TYPE_INTERVAL, sizeof(duckdb_interval), cells, n);
    default:
        return 1;
    }
}

/* Takes a view of a one-dimensional array with as many items as there are rows. */
static int hold(const struct context *x, PyObject *array, size_t width, Py_buffer *ret)
{
    if (PyObject_GetBuffer(array, ret, PyBUF_STRIDES | PyBUF_FORMAT) < 0)
        return -1;
    if (ret->ndim == 1 && (size_t)ret->shape[0] == x->n_rows && (size_t)ret->itemsize == width)
        return 0;
    PyBuffer_Release(ret);
    PyErr_SetString(PyExc_ValueError, "the column is not an array with one value for each row");
    return -1;
}

static int capture_objects(const struct context *x, struct dataframe_captured *c, PyObject *array)
{
    /*
     * A copy is ours alone, and contiguous: cells can be replaced in it and no other thread can
     * change it.
     */
    auto_ref PyObject *copy = PyObject_CallMethod(array, "copy", NULL);
    PyObject **cells;
    int seen, r;

    if (!copy || hold(x, copy, sizeof(PyObject *), &c->view) < 0)
        return -1;
    cells = c->view.buf;
    seen = survey(x, cells, x->n_rows);
    r = make_typed(c, seen, cells, x->n_rows);
    if (r == 0)
        PyBuffer_Release(&c->view);
    if (r <= 0)
        return r;
    c->type = seen == SEEN_BYTES ? DUCKDB_TYPE_BLOB : DUCKDB_TYPE_VARCHAR;
    c->read = seen == SEEN_BYTES ? FRAMES_READ_BYTES : FRAMES_READ_TEXT;
    c->width = sizeof(PyObject *);
    c->data = c->view.buf;
    c->stride = sizeof(PyObject *);
    return seen == SEEN_BYTES ? check_bytes(cells, x->n_rows) : make_texts(cells, x->n_rows);
}

/* ---- arrays -------------------------------------------------------------------------------------------------------- */

static int capture_plain(const struct context *x, struct dataframe_captured *c, PyObject *array,
                         duckdb_type type, enum dataframe_read read, size_t width)
{
    if (hold(x, array, width, &c->view) < 0)
        return -1;
    c->type = type;
    c->read = read;
    c->width = width;
    c->data = c->view.buf;
    c->stride = c->view.strides[0];
    return 0;
}

/* DuckDB's usual TIMESTAMP counts microseconds; TIMESTAMP_NS is for those who need it. */
static bool needs_ns(const struct dataframe_captured *c, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int64_t v;

        memcpy(&v, c->data + (ptrdiff_t)i * c->stride, sizeof(v));
        if (v != INT64_MIN && v % 1000 != 0)
            return true;
    }
    return false;
}

static PyObject *cast(const struct context *x, PyObject *array, const char *dtype)
{
    return PyObject_CallMethod(x->numpy, "asarray", "Os", array, dtype);
}

static int capture_moments(const struct context *x, struct dataframe_captured *c, PyObject *array,
                           char kind, bool utc)
{
    auto_ref PyObject *ns = cast(x, array, kind == 'M' ? "M8[ns]" : "m8[ns]"), *numbers = NULL;

    if (!ns)
        return -1;
    numbers = PyObject_CallMethod(ns, "view", "s", "i8");
    if (!numbers)
        return -1;
    if (kind == 'm')
        return capture_plain(x, c, numbers, DUCKDB_TYPE_INTERVAL, FRAMES_READ_DELTA, 8);
    if (capture_plain(x, c, numbers, DUCKDB_TYPE_TIMESTAMP, FRAMES_READ_NS_AS_US, 8) < 0)
        return -1;
    if (utc) {
        c->type = DUCKDB_TYPE_TIMESTAMP_TZ;
    } else if (needs_ns(c, x->n_rows)) {
        c->type = DUCKDB_TYPE_TIMESTAMP_NS;
        c->read = FRAMES_READ_NS;
    }
    return 0;
}

static const struct {
    char kind;
    size_t width;
    duckdb_type type;
    enum dataframe_read read;
} plain_types[] = {
    { 'b', 1, DUCKDB_TYPE_BOOLEAN, FRAMES_READ_PLAIN },
    { 'i', 1, DUCKDB_TYPE_TINYINT, FRAMES_READ_PLAIN },
    { 'i', 2, DUCKDB_TYPE_SMALLINT, FRAMES_READ_PLAIN },
    { 'i', 4, DUCKDB_TYPE_INTEGER, FRAMES_READ_PLAIN },
    { 'i', 8, DUCKDB_TYPE_BIGINT, FRAMES_READ_PLAIN },
    { 'u', 1, DUCKDB_TYPE_UTINYINT, FRAMES_READ_PLAIN },
    { 'u', 2, DUCKDB_TYPE_USMALLINT, FRAMES_READ_PLAIN },
    { 'u', 4, DUCKDB_TYPE_UINTEGER, FRAMES_READ_PLAIN },
    { 'u', 8, DUCKDB_TYPE_UBIGINT, FRAMES_READ_PLAIN },
    { 'f', 4, DUCKDB_TYPE_FLOAT, FRAMES_READ_FLOAT },
    { 'f', 8, DUCKDB_TYPE_DOUBLE, FRAMES_READ_DOUBLE },
};

static int capture_array(const struct context *x, struct dataframe_captured *c, PyObject *array,
                         bool utc)
{
    auto_ref PyObject *dtype = PyObject_GetAttrString(array, "dtype"), *kind = NULL, *size = NULL,
                      *native = NULL;
    auto_ref PyObject *changed = NULL;
    size_t width;
    char k;

    if (dtype)
        kind = PyObject_GetAttrString(dtype, "kind");
    if (kind)
        size = PyObject_GetAttrString(dtype, "itemsize");
    if (size)
        native = PyObject_GetAttrString(dtype, "isnative");
    if (!native || !PyUnicode_Check(kind) || PyUnicode_GET_LENGTH(kind) != 1) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "the column has an unknown dtype");
        return -1;
    }
    k = (char)PyUnicode_READ_CHAR(kind, 0);
    width = PyLong_AsSize_t(size);
    if (k == 'O')
        return capture_objects(x, c, array);
    if (native == Py_False) {
        auto_ref PyObject *order = PyObject_CallMethod(dtype, "newbyteorder", "s", "=");

        changed = order ? PyObject_CallMethod(x->numpy, "asarray", "OO", array, order) : NULL;
        return changed ? capture_array(x, c, changed, utc) : -1;
    }
    if (k == 'M' || k == 'm')
        return capture_moments(x, c, array, k, utc);
    for (size_t i = 0; i < ARRAY_SIZE(plain_types); i++) {
        if (plain_types[i].kind == k && plain_types[i].width == width)
            return capture_plain(x, c, array, plain_types[i].type, plain_types[i].read, width);
    }
    /* Floats that DuckDB lacks become those that it has, anything else what str() says. */
    changed = cast(x, array, k == 'f' ? width == 2 ? "f4" : "f8" : "O");
    return changed ? capture_array(x, c, changed, utc) : -1;
}

/* Int64, boolean and the like: an array of values and which of them are missing. */
static int capture_masked(const struct context *x, struct dataframe_captured *c, PyObject *series,
                          PyObject *dtype)
{
    auto_ref PyObject *missing = PyObject_CallMethod(series, "isna", NULL), *mask = NULL,
                      *values = NULL;
    auto_ref PyObject *convert_to = PyObject_GetAttrString(series, "to_numpy"), *args = NULL,
                      *named = NULL;

    if (missing)
        mask = PyObject_CallMethod(missing, "to_numpy", NULL);
    if (mask && convert_to)
        args = PyTuple_New(0);
    if (args)
        named = Py_BuildValue("{s:O,s:i}", "dtype", dtype, "na_value", 0);
    if (named)
        values = PyObject_Call(convert_to, args, named);
    if (!values || hold(x, mask, 1, &c->mask_view) < 0)
        return -1;
    if (c->mask_view.strides[0] != 1 && x->n_rows > 1) {
        PyErr_SetString(PyExc_ValueError, "the mask of a column is not contiguous");
        return -1;
    }
    c->mask = c->mask_view.buf;
    return capture_array(x, c, values, false);
}

static int capture_series(const struct context *x, struct dataframe_captured *c, PyObject *series)
{
    auto_ref PyObject *dtype = PyObject_GetAttrString(series, "dtype"), *masked = NULL,
                      *zone = NULL, *values = NULL;
    int is_numpy = dtype ? PyObject_IsInstance(dtype, x->dtype_type) : -1;

    if (is_numpy < 0)
        return -1;
    if (!is_numpy) {
        masked = PyObject_GetAttrString(dtype, "numpy_dtype");
        if (!masked)
            PyErr_Clear();
        zone = PyObject_GetAttrString(dtype, "tz");
        if (!zone)
            PyErr_Clear();
    }
    if (masked)
        return capture_masked(x, c, series, masked);
    if (zone && zone != Py_None) { /* the values are UTC whatever the zone */
        values = PyObject_CallMethod(series, "to_numpy", "s", "M8[ns]");
        return values ? capture_array(x, c, values, true) : -1;
    }
    /* category, string, Sparse, Period, … */
    values = is_numpy ? PyObject_CallMethod(series, "to_numpy", NULL) :
                        PyObject_CallMethod(x->numpy, "asarray", "O", series);
    return values ? capture_array(x, c, values, false) : -1;
}

/* ---- names --------------------------------------------------------------------------------------------------------- */

/*
 * Whether the name is still free, which it then no longer is. DuckDB does not tell upper from lower
 * case.
 */
static int claim(const struct context *x, PyObject *name)
{
    auto_ref PyObject *lower = PyObject_CallMethod(name, "lower", NULL);
    int taken = lower ? PySet_Contains(x->taken, lower) : -1;

    if (taken != 0)
        return taken < 0 ? -1 : 0;
    return PySet_Add(x->taken, lower) < 0 ? -1 : 1;
}

static int capture_name(const struct context *x, struct dataframe_captured *c, PyObject *label,
                        size_t index)
{
    auto_ref PyObject *wish = PyObject_Str(label), *name = NULL, *bytes = NULL;
    int claimed;

    if (wish && PyUnicode_GET_LENGTH(wish) == 0)
        Py_SETREF(wish, PyUnicode_FromFormat("column%zu", index)); /* SQL cannot say "" */
    if (!wish)
        return -1;
    name = Py_NewRef(wish);
    claimed = claim(x, name);
    for (size_t i = 1; claimed == 0; i++) {
        Py_SETREF(name, PyUnicode_FromFormat("%U_%zu", wish, i));
        claimed = name ? claim(x, name) : -1;
    }
    if (claimed < 0)
        return -1;
    bytes = PyUnicode_AsEncodedString(name, "utf-8", "replace");
    if (!bytes)
        return -1;
    c->name = strdup(PyBytes_AS_STRING(bytes)); /* up to a NUL, if someone has one in a name */
    if (!c->name)
        PyErr_NoMemory();
    return c->name ? 0 : -1;
}

/* ---- DataFrames ---------------------------------------------------------------------------------------------------- */

static int capture_columns(const struct context *x, struct dataframe_capture *capture,
                           PyObject *frame, PyObject *labels)
{
    auto_ref PyObject *iloc = PyObject_GetAttrString(frame, "iloc"),
                      *all = PySlice_New(NULL, NULL, NULL);

    if (!iloc || !all)
        return -1;
    for (size_t i = 0; i < capture->n_columns; i++) {
        auto_ref PyObject *key = Py_BuildValue("(On)", all, (Py_ssize_t)i), *series = NULL;

        if (key)
            series = PyObject_GetItem(iloc, key);
        if (!series ||
            capture_name(x, &capture->columns[i], PyList_GET_ITEM(labels, (Py_ssize_t)i), i) < 0 ||
            capture_series(x, &capture->columns[i], series) < 0)
            return -1;
    }
    return 0;
}

static int read_context(struct context *x)
{
    auto_ref PyObject *pandas = PyImport_ImportModule("pandas");

    x->numpy = PyImport_ImportModule("numpy");
    if (!pandas || !x->numpy)
        return -1;
    x->dtype_type = PyObject_GetAttrString(x->numpy, "dtype");
    x->na = PyObject_GetAttrString(pandas, "NA");
    x->nat = PyObject_GetAttrString(pandas, "NaT");
    x->taken = PySet_New(NULL);
    return x->dtype_type && x->na && x->nat && x->taken ? 0 : -1;
}

static void cleanup_context(struct context *x)
{
    Py_XDECREF(x->numpy);
    Py_XDECREF(x->dtype_type);
    Py_XDECREF(x->na);
    Py_XDECREF(x->nat);
    Py_XDECREF(x->taken);
}

struct dataframe_capture *dataframe_capture_create(PyObject *frame, const char *name)
{
    __attribute__((cleanup(cleanup_context))) struct context x = { 0 };
    auto_ref PyObject *columns = PyObject_GetAttrString(frame, "columns"), *labels = NULL;
    struct dataframe_capture *capture;
    Py_ssize_t n_rows;

    if (!columns) {
        PyErr_Format(PyExc_TypeError, "'%.200s' is a %.100s, not a DataFrame", name,
                     Py_TYPE(frame)->tp_name);
        return NULL;
    }
    labels = PySequence_List(columns);
    n_rows = PyObject_Length(frame);
    if (!labels || n_rows < 0 || read_context(&x) < 0)
        return NULL;
    if (PyList_GET_SIZE(labels) == 0 || PyList_GET_SIZE(labels) > MAX_COLUMNS) {
        PyErr_Format(PyExc_ValueError,
                     "the DataFrame '%.200s' has %zd columns; a table has from 1 to %d", name,
                     PyList_GET_SIZE(labels), MAX_COLUMNS);
        return NULL;
    }
    capture = calloc(1, sizeof(*capture) +
                            (size_t)PyList_GET_SIZE(labels) * sizeof(capture->columns[0]));
    if (!capture) {
        PyErr_NoMemory();
        return NULL;
    }
    capture->n_columns = (size_t)PyList_GET_SIZE(labels);
    capture->n_rows = x.n_rows = (size_t)n_rows;
    if (capture_columns(&x, capture, frame, labels) < 0) {
        dataframe_capture_destroy(capture);
        return NULL;
    }
    return capture;
}

/* ---- reading, without the GIL -------------------------------------------------------------------------------------- */

/* The NULLs of a vector; it has no bitmap until there is one. */
struct nulls {
    duckdb_vector vector;
    uint64_t *bits;
};

static void set_null(struct nulls *nulls, size_t row)
{
    if (!nulls->bits) {
        duckdb_vector_ensure_validity_writable(nulls->vector);
        nulls->bits = duckdb_vector_get_validity(nulls->vector);
    }
    nulls->bits[row / 64] &= ~(UINT64_C(1) << (row % 64));
}

static void read_plain(const struct dataframe_captured *c, const char *from, size_t n, char *to)
{
    if (c->stride == (ptrdiff_t)c->width) {
        memcpy(to, from, n * c->width);
        return;
    }
    for (size_t i = 0; i < n; i++)
        memcpy(to + i * c->width, from + (ptrdiff_t)i * c->stride, c->width);
}

static void set_string(duckdb_string_t *to, const char *bytes, size_t len)
{
    if (len <= sizeof(to->value.inlined.inlined)) {
        *to = (duckdb_string_t){ .value.inlined.length = (uint32_t)len };
        memcpy(to->value.inlined.inlined, bytes, len);
        return;
    }
    to->value.pointer.length = (uint32_t)len;
    memcpy(to->value.pointer.prefix, bytes, sizeof(to->value.pointer.prefix));
    to->value.pointer.ptr = (char *)bytes;
}

static size_t encode(Py_UCS4 ch, char *to)
{
    if (ch >= 0xd800 && ch <= 0xdfff)
        ch = 0xfffd; /* half of a pair: UTF-8 has no word for it */
    if (ch < 0x80) {
        to[0] = (char)ch;
        return 1;
    }
    if (ch < 0x800) {
        to[0] = (char)(0xc0 | ch >> 6);
        to[1] = (char)(0x80 | (ch & 0x3f));
        return 2;
    }
    if (ch < 0x10000) {
        to[0] = (char)(0xe0 | ch >> 12);
        to[1] = (char)(0x80 | (ch >> 6 & 0x3f));
        to[2] = (char)(0x80 | (ch & 0x3f));
        return 3;
    }
    to[0] = (char)(0xf0 | ch >> 18);
    to[1] = (char)(0x80 | (ch >> 12 & 0x3f));
    to[2] = (char)(0x80 | (ch >> 6 & 0x3f));
    to[3] = (char)(0x80 | (ch & 0x3f));
    return 4;
}

/*
 * A str never changes and the capture holds a reference, so its characters may be read by any
 * thread. ASCII is lent to DuckDB as it lies there, which the capture outlives; the rest is encoded
 * into the vector's own memory.
 */
static bool read_text(PyObject *text, duckdb_vector vector, duckdb_string_t *to, size_t row)
{
    size_t n = (size_t)PyUnicode_GET_LENGTH(text), len = 0;
    char small[1024];
    auto_free char *large = NULL;
    char *bytes = small;
    const void *data = PyUnicode_DATA(text);
    int kind = PyUnicode_KIND(text);

    if (PyUnicode_IS_ASCII(text)) {
        set_string(to, data, n);
        return true;
    }
    if (n > sizeof(small) / 4) {
        bytes = large = malloc(n * 4);
        if (!large)
            return false;
    }
    for (size_t i = 0; i < n; i++)
        len += encode(PyUnicode_READ(kind, data, i), bytes + len);
    duckdb_vector_assign_string_element_len(vector, row, bytes, len);
    return true;
}

static bool read_cells(const struct dataframe_captured *c, const char *from, size_t n,
                       struct nulls *nulls, duckdb_string_t *to)
{
    PyObject *const *cells = (PyObject *const *)from;

    for (size_t i = 0; i < n; i++) {
        if (cells[i] == Py_None)
            set_null(nulls, i);
        else if (c->read == FRAMES_READ_BYTES)
            set_string(&to[i], PyBytes_AS_STRING(cells[i]), (size_t)PyBytes_GET_SIZE(cells[i]));
        else if (!read_text(cells[i], nulls->vector, &to[i], i))
            return false;
    }
    return true;
}

static void read_moments(const struct dataframe_captured *c, const char *from, size_t n,
                         struct nulls *nulls, void *to)
{
    for (size_t i = 0; i < n; i++) {
        int64_t v, us;

        memcpy(&v, from + (ptrdiff_t)i * c->stride, sizeof(v));
        us = v / 1000 - (v % 1000 < 0);
        if (v == INT64_MIN)
            set_null(nulls, i);
        else if (c->read == FRAMES_READ_DELTA)
            ((duckdb_interval *)to)[i] = (duckdb_interval){
                .days = (int32_t)(us / FRAMES_US_PER_DAY), .micros = us % FRAMES_US_PER_DAY
            };
        else
            ((int64_t *)to)[i] = c->read == FRAMES_READ_NS ? v : us;
    }
}

bool dataframe_capture_read(const struct dataframe_captured *c, size_t first, size_t n,
                            duckdb_vector vector)
{
    const char *from = c->data + (ptrdiff_t)first * c->stride;
    struct nulls nulls = { .vector = vector };
    void *to = duckdb_vector_get_data(vector);

    switch (c->read) {
    case FRAMES_READ_TEXT:
    case FRAMES_READ_BYTES:
        return read_cells(c, from, n, &nulls, to);
    case FRAMES_READ_NS:
    case FRAMES_READ_NS_AS_US:
    case FRAMES_READ_DELTA:
        read_moments(c, from, n, &nulls, to);
        break;
    default:
        read_plain(c, from, n, to);
    }
    for (size_t i = 0; c->read == FRAMES_READ_FLOAT && i < n; i++) {
        if (isnan(((const float *)to)[i]))
            set_null(&nulls, i);
    }
    for (size_t i = 0; c->read == FRAMES_READ_DOUBLE && i < n; i++) {
        if (isnan(((const double *)to)[i]))
            set_null(&nulls, i);
    }
    for (size_t i = 0; c->mask && i < n; i++) {
        if (c->mask[first + i])
            set_null(&nulls, i);
    }
    return true;
}

int dataframe_capture_init(void)
{
    PyDateTime_IMPORT;
    return PyDateTimeAPI ? 0 : -1;
}
