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

struct text_cache {
    duckdb_string_t key;
    PyObject *text; /* owned by the column's references */
};

struct dataframe_column {
    PyObject *name;
    struct dataframe_type *type;
    struct plain plain;
    size_t n;
    PyObject *raw;   /* bytearray; longer than n rows while they come */
    PyObject *nulls; /* bytearray with a byte for each row; NULL: there was none so far */
    PyObject **objects;
    size_t capacity; /* of objects */
    struct text_cache *cache;
    bool grows; /* nobody knows how many rows come */
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

struct dataframe_column *dataframe_column_plain(const char *name, size_t name_len,
                                                struct dataframe_type *type)
{
    struct dataframe_column *c = calloc(1, sizeof(*c));

    if (!c) {
        dataframe_type_destroy(type);
        PyErr_NoMemory();
        return NULL;
    }
    c->type = type;
    c->plain = plain_of(type->id, type->internal, type->scale);
    c->name = PyUnicode_DecodeUTF8(name, (Py_ssize_t)name_len, "replace");
    if (c->name && c->plain.width)
        c->raw = PyByteArray_FromStringAndSize(NULL, 0);
    if (!c->name || (c->plain.width && !c->raw)) {
        dataframe_column_destroy(c);
        return NULL;
    }
    return c;
}

struct dataframe_column *dataframe_column_create(duckdb_result *result, idx_t index)
{
    const char *name = duckdb_column_name(result, index);
    struct dataframe_type *type = NULL;
    struct dataframe_column *c = NULL;

    if (!name) {
        PyErr_NoMemory();
        return NULL;
    }
    type = dataframe_type_create(duckdb_column_logical_type(result, index), name);
    if (type)
        c = dataframe_column_plain(name, strlen(name), type);
    if (c)
        c->grows = true;
    if (c && type->id == DUCKDB_TYPE_VARCHAR) {
        c->cache = calloc((size_t)1 << TEXT_CACHE_BITS, sizeof(*c->cache));
        if (!c->cache) {
            dataframe_column_destroy(c);
            PyErr_NoMemory();
            return NULL;
        }
    }
    return c;
}

/* ---- appending ----------------------------------------------------------------------------------------------------- */

/*
 * For how many rows there shall be room behind those that are there when n more come. If there are
 * many, for so many that the C library gives the column a mapping of its own: that grows without
 * being copied, and its unused pages cost nothing.
 */
static size_t with_room(const struct dataframe_column *c, idx_t n)
{
    return !c->grows || c->n + n < MANY_ROWS ? n : MAX_OF(n + c->n / 2, ROOM_ROWS);
}

/* Room for n more raw values; where they go. */
static void *grow_raw(struct dataframe_column *c, idx_t n)
{
    size_t width = c->plain.width, have = c->n * width;

    if (n > ((size_t)PY_SSIZE_T_MAX / 2 - have) / width) {
        PyErr_NoMemory();
        return NULL;
    }
    if (have + n * width > (size_t)PyByteArray_GET_SIZE(c->raw) &&
        PyByteArray_Resize(c->raw, (Py_ssize_t)((c->n + with_room(c, n)) * width)) < 0)
        return NULL;
    return PyByteArray_AS_STRING(c->raw) + have;
}

static int note_nulls(struct dataframe_column *c, const uint64_t *validity, idx_t n)
{
    bool any = false;
    char *to;

    for (idx_t i = 0; validity && !any && i < n; i++)
        any = plain_is_null(validity, i);
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
        to[i] = plain_is_null(validity, i);
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

/* Room for n more references. */
static int grow_objects(struct dataframe_column *c, idx_t n)
{
    size_t wanted = c->n + with_room(c, n);
    PyObject **grown;

    if (c->capacity - c->n >= n)
        return 0;
    grown = wanted <= PY_SSIZE_T_MAX / sizeof(*grown) ?
                PyMem_RawRealloc(c->objects, wanted * sizeof(*grown)) :
                NULL;
    if (!grown) {
        PyErr_NoMemory();
        return -1;
    }
    c->objects = grown;
    c->capacity = wanted;
    return 0;
}

static int append_objects(struct dataframe_column *c, duckdb_vector vector, idx_t n)
{
    const duckdb_string_t *texts = duckdb_vector_get_data(vector);
    const uint64_t *validity = duckdb_vector_get_validity(vector);

    if (grow_objects(c, n) < 0)
        return -1;
    for (idx_t i = 0; i < n; i++) {
        PyObject *made = !c->cache                  ? dataframe_value(c->type, vector, i) :
                         plain_is_null(validity, i) ? Py_NewRef(Py_None) :
                                                          shared_text(c, &texts[i]);

        if (!made)
            return -1;
        c->objects[c->n++] = made;
    }
    return 0;
}

int dataframe_column_append(struct dataframe_column *c, duckdb_vector vector, idx_t n)
{
    return c->plain.width ? dataframe_column_append_plain(c, duckdb_vector_get_data(vector),
                                                          duckdb_vector_get_validity(vector), n) :
                            append_objects(c, vector, n);
}

static int append_scalars(struct dataframe_column *c, const void *data, const uint64_t *validity,
                          idx_t n)
{
    if (grow_objects(c, n) < 0)
        return -1;
    for (idx_t i = 0; i < n; i++) {
        PyObject *made = plain_is_null(validity, i) ? Py_NewRef(Py_None) :
                                                      dataframe_scalar(c->type, data, i);

        if (!made)
            return -1;
        c->objects[c->n++] = made;
    }
    return 0;
}

int dataframe_column_append_plain(struct dataframe_column *c, const void *data,
                                  const uint64_t *validity, idx_t n)
{
    void *to;

    if (!c->plain.width)
        return append_scalars(c, data, validity, n);
    to = grow_raw(c, n);
    if (!to)
        return -1;
    plain_gather(&c->plain, data, validity, n, to);
    if (plain_has_nulls(&c->plain) && note_nulls(c, validity, n) < 0)
        return -1;
    c->n += n;
    return 0;
}

/* ---- arrays ---------------------------------------------------------------------------------- */

PyObject *dataframe_array(PyObject *buffer, const char *dtype, size_t n, size_t at)
{
    auto_ref PyObject *numpy = PyImport_ImportModule("numpy");

    return numpy ? PyObject_CallMethod(numpy, "frombuffer", "Osnn", buffer, dtype, (Py_ssize_t)n,
                                       (Py_ssize_t)at) :
                   NULL;
}

static PyObject *array_over(struct dataframe_column *c, PyObject *bytes, const char *dtype)
{
    return dataframe_array(bytes, dtype, c->n, 0);
}

PyObject *dataframe_array_of_none(size_t n, Py_buffer *ret_view)
{
    auto_ref PyObject *numpy = PyImport_ImportModule("numpy"), *array = NULL;

    if (numpy)
        array = PyObject_CallMethod(numpy, "empty", "ns", (Py_ssize_t)n, "O");
    /* numpy lends out the references themselves. */
    if (!array ||
        PyObject_GetBuffer(array, ret_view, PyBUF_WRITABLE | PyBUF_ND | PyBUF_FORMAT) < 0)
        return NULL;
    if ((size_t)ret_view->len != n * sizeof(PyObject *)) {
        PyBuffer_Release(ret_view);
        PyErr_SetString(PyExc_RuntimeError,
                        "numpy made an array of another size than it was asked for");
        return NULL;
    }
    return TAKE_PTR(array);
}

/*
 * An array of dtype object that takes over n references; they are the caller's still if it fails.
 */
static PyObject *array_of_objects(PyObject **objects, size_t n)
{
    Py_buffer view;
    PyObject *array = dataframe_array_of_none(n, &view);

    if (!array)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        Py_XDECREF(((PyObject **)view.buf)[i]); /* None */
        ((PyObject **)view.buf)[i] = objects[i];
    }
    PyBuffer_Release(&view);
    return array;
}

static PyObject *raw_object(const struct dataframe_column *c, size_t i)
{
    const char *raw = PyByteArray_AS_STRING(c->raw);

    if (c->plain.store == PLAIN_MOMENT) {
        int64_t v = ((const int64_t *)raw)[i];

        return v == INT64_MIN ? Py_NewRef(Py_None) : dataframe_moment(c->type->id, v);
    }
    if (c->nulls && PyByteArray_AS_STRING(c->nulls)[i])
        return Py_NewRef(Py_None);
    if (c->plain.store == PLAIN_BOOLEAN)
        return PyBool_FromLong(raw[i]);
    return integer_from_bytes((const unsigned char *)raw + i * c->plain.width, c->plain.width,
                              c->plain.dtype ? c->plain.dtype[0] == 'i' :
                                               c->type->id == DUCKDB_TYPE_HUGEINT);
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
    auto_ref PyObject *bytes = NULL;

    if (c->n > (size_t)PY_SSIZE_T_MAX / sizeof(double))
        return PyErr_NoMemory();
    bytes = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)(c->n * sizeof(double)));
    if (!bytes)
        return NULL;
    return plain_to_double(&c->plain, PyByteArray_AS_STRING(c->raw),
                           c->nulls ? PyByteArray_AS_STRING(c->nulls) : NULL, c->n,
                           (double *)PyByteArray_AS_STRING(bytes)) ?
               array_over(c, bytes, "f8") :
               finish_as_objects(c);
}

PyObject *dataframe_array_in_utc(PyObject *array)
{
    auto_ref PyObject *pandas = PyImport_ImportModule("pandas"), *type = NULL, *args = NULL,
                      *named = NULL, *index = NULL;

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

static PyObject *finish_moment(struct dataframe_column *c)
{
    auto_ref PyObject *array = NULL;

    if (!plain_to_ns(&c->plain, PyByteArray_AS_STRING(c->raw), c->n))
        return finish_as_objects(c);
    array = array_over(c, c->raw, c->plain.dtype);
    if (array && c->type->id == DUCKDB_TYPE_TIMESTAMP_TZ)
        return dataframe_array_in_utc(array);
    return TAKE_PTR(array);
}

static PyObject *finish_array(struct dataframe_column *c)
{
    PyObject *array;

    switch (c->plain.store) {
    case PLAIN_INTEGER:
        return c->nulls ? finish_as_double(c) : array_over(c, c->raw, c->plain.dtype);
    case PLAIN_HUGE:
        return finish_as_double(c);
    case PLAIN_BOOLEAN:
        return c->nulls ? finish_as_objects(c) : array_over(c, c->raw, c->plain.dtype);
    case PLAIN_FLOAT:
    case PLAIN_DOUBLE:
    case PLAIN_DECIMAL:
        return array_over(c, c->raw, c->plain.dtype);
    case PLAIN_MOMENT:
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

    if (c->raw && PyByteArray_Resize(c->raw, (Py_ssize_t)(c->n * c->plain.width)) < 0)
        return NULL;
    array = finish_array(c);
    if (c->raw)
        c->n = 0;
    Py_CLEAR(c->nulls);
    Py_CLEAR(c->raw); /* numpy holds it */
    return array ? PyTuple_Pack(2, c->name, array) : NULL;
}
