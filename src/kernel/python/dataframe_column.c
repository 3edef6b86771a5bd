/*
 * The columns of a result as arrays for pandas, built chunk by chunk while DuckDB streams.
 *
 * Values of fixed width are gathered in a bytearray, which grows in place and which numpy then
 * looks at without a copy; everything else is gathered as references. What dtype a column has is
 * known only at its end: a NULL among integers, a date that nanoseconds cannot hold. So the raw
 * values are kept as DuckDB counts them and converted once.
 */

#include "kernel/python/dataframe_impl.h"
#include "kernel/python/integer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/macros.h"

/*
 * Short texts that repeat share one str: as fast as making it, and a column of categories needs a
 * tenth of the memory.
 */
#define MANY_ROWS 2048 /* a whole chunk of DuckDB's */
#define ROOM_ROWS 32768
#define TEXT_CACHE_BITS 12

enum store {
    STORE_INTEGER, /* raw, and which are NULL in `nulls` */
    STORE_BOOLEAN,
    STORE_HUGE,
    STORE_FLOAT, /* raw, NULL is NaN */
    STORE_DOUBLE,
    STORE_DECIMAL, /* as doubles, NULL is NaN */
    /* as int64 in DuckDB's unit, NULL is INT64_MIN (numpy's NaT; no value of DuckDB's) */
    STORE_MOMENT,
    STORE_TEXT, /* references */
    STORE_ENUM,
    STORE_OBJECT,
    _STORE_MAX
};

struct text_cache {
    duckdb_string_t key;
    PyObject *text; /* owned by the column's references */
};

struct dataframe_column {
    PyObject *name;
    struct dataframe_type *type;
    enum store store;
    const char *dtype; /* numpy's, of the raw values */
    size_t width;      /* bytes of a raw value */
    size_t n;
    PyObject *raw;   /* bytearray; longer than n rows while they come */
    PyObject *nulls; /* bytearray with a byte for each row; NULL: there was none so far */
    PyObject **objects;
    size_t capacity; /* of objects */
    struct text_cache *cache;
};

static const struct {
    duckdb_type id;
    enum store store;
    const char *dtype;
    size_t width;
} stores[] = {
    { DUCKDB_TYPE_TINYINT, STORE_INTEGER, "i1", 1 },
    { DUCKDB_TYPE_SMALLINT, STORE_INTEGER, "i2", 2 },
    { DUCKDB_TYPE_INTEGER, STORE_INTEGER, "i4", 4 },
    { DUCKDB_TYPE_BIGINT, STORE_INTEGER, "i8", 8 },
    { DUCKDB_TYPE_UTINYINT, STORE_INTEGER, "u1", 1 },
    { DUCKDB_TYPE_USMALLINT, STORE_INTEGER, "u2", 2 },
    { DUCKDB_TYPE_UINTEGER, STORE_INTEGER, "u4", 4 },
    { DUCKDB_TYPE_UBIGINT, STORE_INTEGER, "u8", 8 },
    { DUCKDB_TYPE_BOOLEAN, STORE_BOOLEAN, "?", 1 },
    { DUCKDB_TYPE_HUGEINT, STORE_HUGE, NULL, 16 },
    { DUCKDB_TYPE_UHUGEINT, STORE_HUGE, NULL, 16 },
    { DUCKDB_TYPE_FLOAT, STORE_FLOAT, "f4", 4 },
    { DUCKDB_TYPE_DOUBLE, STORE_DOUBLE, "f8", 8 },
    { DUCKDB_TYPE_DECIMAL, STORE_DECIMAL, "f8", 8 },
    { DUCKDB_TYPE_DATE, STORE_MOMENT, "M8[ns]", 8 },
    { DUCKDB_TYPE_TIMESTAMP, STORE_MOMENT, "M8[ns]", 8 },
    { DUCKDB_TYPE_TIMESTAMP_S, STORE_MOMENT, "M8[ns]", 8 },
    { DUCKDB_TYPE_TIMESTAMP_MS, STORE_MOMENT, "M8[ns]", 8 },
    { DUCKDB_TYPE_TIMESTAMP_NS, STORE_MOMENT, "M8[ns]", 8 },
    { DUCKDB_TYPE_TIMESTAMP_TZ, STORE_MOMENT, "M8[ns]", 8 },
    { DUCKDB_TYPE_VARCHAR, STORE_TEXT, NULL, 0 },
    { DUCKDB_TYPE_ENUM, STORE_ENUM, NULL, 0 },
};

/* ---- a column's life ----------------------------------------------------------------------------------------------- */

void dataframe_column_destroy(struct dataframe_column *c)
{
    if (!c)
        return;
    for (size_t i = 0; c->objects && i < c->n; i++)
        Py_DECREF(c->objects[i]);
    PyMem_RawFree(c->objects);
    Py_XDECREF(c->name);
    Py_XDECREF(c->raw);
    Py_XDECREF(c->nulls);
    free(c->cache);
    dataframe_type_destroy(c->type);
    free(c);
}

struct dataframe_column *dataframe_column_create(duckdb_result *result, idx_t index)
{
    const char *name = duckdb_column_name(result, index);
    struct dataframe_column *c = calloc(1, sizeof(*c));

    if (!c || !name) {
        free(c);
        PyErr_NoMemory();
        return NULL;
    }
    c->store = STORE_OBJECT;
    c->name = PyUnicode_DecodeUTF8(name, (Py_ssize_t)strlen(name), "replace");
    if (c->name)
        c->type = dataframe_type_create(duckdb_column_logical_type(result, index), name);
    for (size_t i = 0; c->type && i < ARRAY_SIZE(stores); i++) {
        if (stores[i].id == c->type->id) {
            c->store = stores[i].store;
            c->dtype = stores[i].dtype;
            c->width = stores[i].width;
        }
    }
    if (c->type && c->width)
        c->raw = PyByteArray_FromStringAndSize(NULL, 0);
    if (c->type && c->store == STORE_TEXT) {
        c->cache = calloc((size_t)1 << TEXT_CACHE_BITS, sizeof(*c->cache));
        if (!c->cache)
            PyErr_NoMemory();
    }
    if (!c->type || (c->width && !c->raw) || (c->store == STORE_TEXT && !c->cache)) {
        dataframe_column_destroy(c);
        return NULL;
    }
    return c;
}

/* ---- appending ----------------------------------------------------------------------------------------------------- */

/*
 * For how many rows there shall be room behind the first `had` when n more come. If there are many,
 * for so many that the C library gives the column a mapping of its own: that grows without being
 * copied, and its unused pages cost nothing.
 */
static size_t with_room(size_t had, idx_t n)
{
    return had + n < MANY_ROWS ? n : MAX_OF(n + had / 2, ROOM_ROWS);
}

/* Room for n more raw values; where they go. */
static void *grow_raw(struct dataframe_column *c, idx_t n)
{
    size_t have = c->n * c->width;

    if (n > ((size_t)PY_SSIZE_T_MAX / 2 - have) / c->width) {
        PyErr_NoMemory();
        return NULL;
    }
    if (have + n * c->width > (size_t)PyByteArray_GET_SIZE(c->raw) &&
        PyByteArray_Resize(c->raw, (Py_ssize_t)((c->n + with_room(c->n, n)) * c->width)) < 0)
        return NULL;
    return PyByteArray_AS_STRING(c->raw) + have;
}

static int note_nulls(struct dataframe_column *c, const uint64_t *validity, idx_t n)
{
    bool any = false;
    char *to;

    for (idx_t i = 0; validity && !any && i < n; i++)
        any = dataframe_is_null(validity, i);
    if (!any && !c->nulls)
        return 0;
    if (!c->nulls) {
        c->nulls = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)c->n);
        if (!c->nulls)
            return -1;
        memset(PyByteArray_AS_STRING(c->nulls), 0, c->n);
    }
    if (PyByteArray_Resize(c->nulls, (Py_ssize_t)(c->n + n)) < 0)
        return -1;
    to = PyByteArray_AS_STRING(c->nulls) + c->n;
    for (idx_t i = 0; i < n; i++)
        to[i] = dataframe_is_null(validity, i);
    return 0;
}

static int append_raw(struct dataframe_column *c, duckdb_vector vector, idx_t n)
{
    const void *data = duckdb_vector_get_data(vector);
    const uint64_t *validity = duckdb_vector_get_validity(vector);
    void *to = grow_raw(c, n);

    if (!to)
        return -1;
    if (c->store == STORE_DECIMAL) {
        for (idx_t i = 0; i < n; i++)
            ((double *)to)[i] = dataframe_is_null(validity, i) ?
                                    NAN :
                                    dataframe_decimal(c->type, data, i);
        return 0;
    }
    if (c->type->id == DUCKDB_TYPE_DATE) {
        for (idx_t i = 0; i < n; i++)
            ((int64_t *)to)[i] = ((const int32_t *)data)[i];
    } else {
        memcpy(to, data, n * c->width);
    }
    if (c->store == STORE_INTEGER || c->store == STORE_BOOLEAN || c->store == STORE_HUGE)
        return note_nulls(c, validity, n);
    for (idx_t i = 0; validity && i < n; i++) {
        if (!dataframe_is_null(validity, i))
            continue;
        if (c->store == STORE_FLOAT)
            ((float *)to)[i] = NAN;
        else if (c->store == STORE_DOUBLE)
            ((double *)to)[i] = NAN;
        else
            ((int64_t *)to)[i] = INT64_MIN;
    }
    return 0;
}

static PyObject *shared_text(struct dataframe_column *c, const duckdb_string_t *s)
{
    struct text_cache *entry;
    uint64_t halves[2];

    if (s->value.inlined.length > sizeof(s->value.inlined.inlined))
        return dataframe_text(s);
    /* DuckDB fills a short text with zeros, so 16 bytes are the whole of it. */
    memcpy(halves, s, sizeof(halves));
    entry = &c->cache[((halves[0] ^ halves[1] * UINT64_C(0x9e3779b97f4a7c15)) *
                       UINT64_C(0xff51afd7ed558ccd)) >>
                      (64 - TEXT_CACHE_BITS)];
    if (!entry->text || memcmp(&entry->key, s, sizeof(*s)) != 0) {
        PyObject *text = dataframe_text(s);

        if (text) {
            entry->key = *s;
            entry->text = text;
        }
        return text;
    }
    return Py_NewRef(entry->text);
}

static int append_objects(struct dataframe_column *c, duckdb_vector vector, idx_t n)
{
    const duckdb_string_t *texts = duckdb_vector_get_data(vector);
    const uint64_t *validity = duckdb_vector_get_validity(vector);

    if (c->capacity - c->n < n) {
        size_t wanted = c->n + with_room(c->n, n);
        PyObject **grown = wanted <= PY_SSIZE_T_MAX / sizeof(*grown) ?
                               PyMem_RawRealloc(c->objects, wanted * sizeof(*grown)) :
                               NULL;

        if (!grown) {
            PyErr_NoMemory();
            return -1;
        }
        c->objects = grown;
        c->capacity = wanted;
    }
    for (idx_t i = 0; i < n; i++) {
        PyObject *made = c->store != STORE_TEXT         ? dataframe_value(c->type, vector, i) :
                         dataframe_is_null(validity, i) ? Py_NewRef(Py_None) :
                                                          shared_text(c, &texts[i]);

        if (!made)
            return -1;
        c->objects[c->n++] = made;
    }
    return 0;
}

int dataframe_column_append(struct dataframe_column *c, duckdb_vector vector, idx_t n)
{
    if (!c->width)
        return append_objects(c, vector, n);
    if (append_raw(c, vector, n) < 0)
        return -1;
    c->n += n;
    return 0;
}

/* ---- arrays -------------------------------------------------------------------------------------------------------- */

static PyObject *array_over(PyObject *bytes, const char *dtype)
{
    auto_ref PyObject *numpy = PyImport_ImportModule("numpy");

    return numpy ? PyObject_CallMethod(numpy, "frombuffer", "Os", bytes, dtype) : NULL;
}

/*
 * An array of dtype object that takes over n references; they are the caller's still if it fails.
 */
static PyObject *array_of_objects(PyObject **objects, size_t n)
{
    auto_ref PyObject *numpy = PyImport_ImportModule("numpy"), *array = NULL;
    Py_buffer view;

    if (numpy)
        array = PyObject_CallMethod(numpy, "empty", "ns", (Py_ssize_t)n, "O");
    /* numpy lends out the references themselves. */
    if (!array || PyObject_GetBuffer(array, &view, PyBUF_WRITABLE | PyBUF_ND | PyBUF_FORMAT) < 0)
        return NULL;
    if ((size_t)view.len != n * sizeof(PyObject *)) {
        PyBuffer_Release(&view);
        PyErr_SetString(PyExc_RuntimeError,
                        "numpy made an array of another size than it was asked for");
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        Py_XDECREF(((PyObject **)view.buf)[i]); /* None */
        ((PyObject **)view.buf)[i] = objects[i];
    }
    PyBuffer_Release(&view);
    return TAKE_PTR(array);
}

static __int128 raw_integer(const struct dataframe_column *c, size_t i)
{
    const void *raw = PyByteArray_AS_STRING(c->raw);

    switch (c->type->id) {
    case DUCKDB_TYPE_TINYINT:
        return ((const int8_t *)raw)[i];
    case DUCKDB_TYPE_SMALLINT:
        return ((const int16_t *)raw)[i];
    case DUCKDB_TYPE_INTEGER:
        return ((const int32_t *)raw)[i];
    case DUCKDB_TYPE_BIGINT:
        return ((const int64_t *)raw)[i];
    case DUCKDB_TYPE_UTINYINT:
        return ((const uint8_t *)raw)[i];
    case DUCKDB_TYPE_USMALLINT:
        return ((const uint16_t *)raw)[i];
    case DUCKDB_TYPE_UINTEGER:
        return ((const uint32_t *)raw)[i];
    case DUCKDB_TYPE_UBIGINT:
        return ((const uint64_t *)raw)[i];
    default: {
        __int128 v = dataframe_hugeint(((const duckdb_hugeint *)raw)[i]);

        /* The upper half of UHUGEINT looks negative; what counts is that it is large. */
        return c->type->id == DUCKDB_TYPE_UHUGEINT && v < 0 ? (__int128)UINT64_MAX : v;
    }
    }
}

static PyObject *raw_object(const struct dataframe_column *c, size_t i)
{
    const char *raw = PyByteArray_AS_STRING(c->raw);

    if (c->store == STORE_MOMENT) {
        int64_t v = ((const int64_t *)raw)[i];

        return v == INT64_MIN ? Py_NewRef(Py_None) : dataframe_moment(c->type->id, v);
    }
    if (c->nulls && PyByteArray_AS_STRING(c->nulls)[i])
        return Py_NewRef(Py_None);
    if (c->store == STORE_BOOLEAN)
        return PyBool_FromLong(raw[i]);
    return integer_from_bytes((const unsigned char *)raw + i * c->width, c->width,
                              c->dtype ? c->dtype[0] == 'i' : c->type->id == DUCKDB_TYPE_HUGEINT);
}

/* The raw values one by one, where no dtype of numpy fits. */
static PyObject *finish_as_objects(struct dataframe_column *c)
{
    PyObject **objects = PyMem_RawCalloc(c->n ? c->n : 1, sizeof(PyObject *)), *array = NULL;
    size_t made = 0;

    if (!objects)
        return PyErr_NoMemory();
    while (made < c->n && (objects[made] = raw_object(c, made)))
        made++;
    if (made == c->n)
        array = array_of_objects(objects, made);
    for (size_t i = 0; !array && i < made; i++)
        Py_DECREF(objects[i]);
    PyMem_RawFree(objects);
    return array;
}

/* Integers as float64 with NaN for NULL, unless that would change one. */
static PyObject *finish_as_double(struct dataframe_column *c)
{
    const char *nulls = c->nulls ? PyByteArray_AS_STRING(c->nulls) : NULL;
    auto_ref PyObject *bytes = NULL;
    double *to;

    if (c->n > (size_t)PY_SSIZE_T_MAX / sizeof(double))
        return PyErr_NoMemory();
    bytes = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)(c->n * sizeof(double)));
    if (!bytes)
        return NULL;
    to = (double *)PyByteArray_AS_STRING(bytes);
    for (size_t i = 0; i < c->n; i++) {
        __int128 v = nulls && nulls[i] ? 0 : raw_integer(c, i);

        if (v > FRAMES_EXACT_DOUBLE || v < -FRAMES_EXACT_DOUBLE)
            return finish_as_objects(c);
        to[i] = nulls && nulls[i] ? NAN : (double)v;
    }
    return array_over(bytes, "f8");
}

static PyObject *finish_moment(struct dataframe_column *c)
{
    int64_t *v = (int64_t *)PyByteArray_AS_STRING(c->raw);
    duckdb_type id = c->type->id;
    int64_t ns = id == DUCKDB_TYPE_DATE         ? FRAMES_SECONDS_PER_DAY * 1000000000 :
                 id == DUCKDB_TYPE_TIMESTAMP_S  ? 1000000000 :
                 id == DUCKDB_TYPE_TIMESTAMP_MS ? 1000000 :
                 id == DUCKDB_TYPE_TIMESTAMP_NS ? 1 :
                                                  1000;
    int64_t most = ns == 1 ? INT64_MAX - 1 : INT64_MAX / ns; /* the largest of all is infinity */
    auto_ref PyObject *array = NULL, *pandas = NULL, *type = NULL, *args = NULL, *named = NULL,
                      *index = NULL;

    for (size_t i = 0; i < c->n; i++) {
        if ((v[i] > most || v[i] < -most) && v[i] != INT64_MIN)
            return finish_as_objects(c);
    }
    for (size_t i = 0; ns != 1 && i < c->n; i++)
        v[i] = v[i] == INT64_MIN ? INT64_MIN : v[i] * ns;
    array = array_over(c->raw, c->dtype);
    if (!array || id != DUCKDB_TYPE_TIMESTAMP_TZ)
        return TAKE_PTR(array);
    pandas = PyImport_ImportModule("pandas");
    if (pandas)
        type = PyObject_GetAttrString(pandas, "DatetimeIndex");
    if (type)
        args = PyTuple_Pack(1, array);
    if (args)
        named = Py_BuildValue("{s:s,s:O}", "tz", "UTC", "copy", Py_False);
    if (named)
        index = PyObject_Call(type, args, named);
    return index ? PyObject_GetAttrString(index, "array") : NULL;
}

static PyObject *finish_array(struct dataframe_column *c)
{
    PyObject *array;

    switch (c->store) {
    case STORE_INTEGER:
        return c->nulls ? finish_as_double(c) : array_over(c->raw, c->dtype);
    case STORE_HUGE:
        return finish_as_double(c);
    case STORE_BOOLEAN:
        return c->nulls ? finish_as_objects(c) : array_over(c->raw, c->dtype);
    case STORE_FLOAT:
    case STORE_DOUBLE:
    case STORE_DECIMAL:
        return array_over(c->raw, c->dtype);
    case STORE_MOMENT:
        return finish_moment(c);
    default:
        array = array_of_objects(c->objects, c->n);
        if (array)
            c->n = 0; /* the references are the array's now */
        return array;
    }
}

PyObject *dataframe_column_finish(struct dataframe_column *c)
{
    auto_ref PyObject *array = NULL;

    if (c->raw && PyByteArray_Resize(c->raw, (Py_ssize_t)(c->n * c->width)) < 0)
        return NULL;
    array = finish_array(c);
    if (c->raw)
        c->n = 0;
    Py_CLEAR(c->nulls);
    Py_CLEAR(c->raw); /* numpy holds it */
    return array ? PyTuple_Pack(2, c->name, array) : NULL;
}
