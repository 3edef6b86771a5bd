/*
 * Digests of variables, to see which ones a line has changed without keeping any value alive and
 * without running a method of the user's. Exact containers and the attributes of plain objects are
 * followed for a few levels and a bounded number of items; a change beyond that is not seen.
 */

#include <stdlib.h>
#include <string.h>
#include "base/macros.h"
#include "kernel/python/dataframe_impl.h"
#include "kernel/python/trace.h"

#define DEPTH 3
#define NODES 256          /* of one variable */
#define VARIABLES_MAX 2000 /* of one frame */
#define SAMPLES 32         /* of an array */

static uint64_t mix(uint64_t a, uint64_t b)
{
    a ^= b + UINT64_C(0x9e3779b97f4a7c15) + (a << 6) + (a >> 2);
    a *= UINT64_C(0xbf58476d1ce4e5b9);
    return a ^ (a >> 29);
}

static uint64_t digest(PyObject *v, int depth, int *nodes, PyObject *rare);

static uint64_t digest_items(PyObject *const *items, Py_ssize_t n, uint64_t h, int depth,
                             int *nodes, PyObject *rare)
{
    for (Py_ssize_t i = 0; i<n && * nodes> 0; i++)
        h = mix(h, digest(items[i], depth - 1, nodes, rare));
    /* An append to a long list is seen by its end. */
    if (n > 0)
        h = mix(h, (uint64_t)(uintptr_t)items[n - 1]);
    return h;
}

static uint64_t digest_dict(PyObject *dict, uint64_t h, int depth, int *nodes, PyObject *rare)
{
    Py_ssize_t at = 0;
    PyObject *key, *value;
    while (*nodes > 0 && PyDict_Next(dict, &at, &key, &value)) {
        h = mix(h, (uint64_t)(uintptr_t)key);
        h = mix(h, digest(value, depth - 1, nodes, rare));
    }
    return h;
}

static uint64_t digest_bytes(const void *bytes, size_t n, uint64_t h)
{
    const unsigned char *p = bytes;
    size_t stride = n / (SAMPLES * 8);
    for (size_t i = 0; i + 8 <= n; i += 8 * (stride + 1)) {
        uint64_t word;
        memcpy(&word, p + i, sizeof(word));
        h = mix(h, word);
    }
    for (size_t i = n & ~(size_t)7; i < n; i++)
        h = mix(h, p[i]);
    return h;
}

/* Attributes of an object whose class reads them as every class does. */
static uint64_t digest_object(PyObject *v, uint64_t h, int depth, int *nodes, PyObject *rare)
{
    const PyTypeObject *type = Py_TYPE(v);
    if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || type->tp_getattro != PyObject_GenericGetAttr ||
        PyType_Check(v) || PyModule_Check(v))
        return h;
    PyObject *dict = PyObject_GenericGetDict(v, NULL);
    if (!dict) {
        PyErr_Clear();
        return h;
    }
    if (PyDict_CheckExact(dict))
        h = digest_dict(dict, h, depth, nodes, rare);
    Py_DECREF(dict);
    return h;
}

/* Frames and arrays: runtime/stepper.py looks at them. An exception of it counts as a change. */
static uint64_t digest_rare(PyObject *v, PyObject *rare)
{
    static uint64_t failed;
    auto_ref PyObject *number = PyObject_CallOneArg(rare, v);
    uint64_t h = number ? PyLong_AsUnsignedLongLongMask(number) : ++failed;
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_KeyboardInterrupt))
        PyErr_Clear();
    return h;
}

static bool is_rare(const PyTypeObject *type)
{
    static const char *const names[] = { "DataFrame", "Series", "numpy.ndarray" };
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (strcmp(type->tp_name, names[i]) == 0)
            return true;
    return false;
}

static uint64_t digest(PyObject *v, int depth, int *nodes, PyObject *rare)
{
    PyTypeObject *type = Py_TYPE(v);
    uint64_t h = mix((uint64_t)(uintptr_t)type, (uint64_t)(uintptr_t)v);
    --*nodes;
    if (type == &PyLong_Type) {
        int overflow;
        long long number = PyLong_AsLongLongAndOverflow(v, &overflow);
        return overflow ? h : mix((uint64_t)(uintptr_t)type, (uint64_t)number);
    }
    if (type == &PyFloat_Type) {
        double number = PyFloat_AS_DOUBLE(v);
        return digest_bytes(&number, sizeof(number), (uint64_t)(uintptr_t)type);
    }
    if (type == &PyUnicode_Type)
        return mix(h, (uint64_t)PyUnicode_GET_LENGTH(v));
    if (depth <= 0 || *nodes <= 0)
        return h;
    if (type == &PyList_Type)
        return digest_items(((PyListObject *)v)->ob_item, PyList_GET_SIZE(v),
                            mix(h, (uint64_t)PyList_GET_SIZE(v)), depth, nodes, rare);
    if (type == &PyTuple_Type)
        return digest_items(((PyTupleObject *)v)->ob_item, PyTuple_GET_SIZE(v), h, depth, nodes,
                            rare);
    if (type == &PyDict_Type)
        return digest_dict(v, mix(h, (uint64_t)PyDict_GET_SIZE(v)), depth, nodes, rare);
    if (type == &PySet_Type) {
        Py_ssize_t n = PySet_GET_SIZE(v);
        return mix(h, (uint64_t)n);
    }
    if (type == &PyByteArray_Type)
        return digest_bytes(PyByteArray_AS_STRING(v), (size_t)PyByteArray_GET_SIZE(v),
                            mix(h, (uint64_t)PyByteArray_GET_SIZE(v)));
    /* Not inside of a container: Python code may let another thread change that. */
    if (is_rare(type))
        return depth == DEPTH ? mix(h, digest_rare(v, rare)) : h;
    return digest_object(v, h, depth, nodes, rare);
}

/* ---- a frame ---- */

void marks_clear(struct marks *m)
{
    for (size_t i = 0; i < m->n; i++)
        Py_DECREF(m->at[i].name);
    free(m->at);
    *m = (struct marks){ 0 };
}

/* Names of the runtime's own are not variables, nor is the iterator of a comprehension. */
static bool is_hidden(PyObject *name)
{
    if (!PyUnicode_CheckExact(name) || !PyUnicode_IS_ASCII(name))
        return !PyUnicode_CheckExact(name);
    const char *s = PyUnicode_DATA(name);
    return s[0] == '.' || (strncmp(s, "__", 2) == 0 && strcmp(s, "__result__") != 0);
}

/* Its place; they mostly come in the same order. */
static struct mark *find(struct marks *m, PyObject *name, size_t *guess)
{
    for (size_t i = 0; i < m->n; i++) {
        size_t k = (*guess + i) % m->n;
        if (m->at[k].name == name) {
            *guess = k + 1;
            return &m->at[k];
        }
    }
    for (size_t k = 0; k < m->n; k++)
        if (PyUnicode_Compare(m->at[k].name, name) == 0)
            return &m->at[k];
    return NULL;
}

static int tell(PyObject *list, PyObject *taken)
{
    int r = taken && list ? PyList_Append(list, taken) : taken ? 0 : -1;
    Py_XDECREF(taken);
    return r;
}

static int add(struct marks *m, PyObject *name, uint64_t value)
{
    if (m->n == m->room) {
        size_t room = m->room ? m->room * 2 : 16;
        struct mark *more = realloc(m->at, room * sizeof(*more));
        if (!more) {
            PyErr_NoMemory();
            return -1;
        }
        m->at = more;
        m->room = room;
    }
    Py_INCREF(name);
    m->at[m->n++] = (struct mark){ name, value };
    return 0;
}

static Py_ssize_t update(struct marks *m, PyObject *dict, PyObject *given, PyObject *rare,
                         PyObject *changed, PyObject *removed)
{
    Py_ssize_t n = 0, at = 0;
    size_t guess = 0, met = 0, before = m->n;
    PyObject *name, *value;
    uint64_t *seen = before ? calloc((before + 63) / 64, sizeof(*seen)) : NULL;
    if (before && !seen) {
        PyErr_NoMemory();
        return -1;
    }
    while (n >= 0 && m->n < VARIABLES_MAX && PyDict_Next(dict, &at, &name, &value)) {
        int nodes = NODES;
        if (is_hidden(name) || PyDict_GetItem(given, name) == value)
            continue;
        auto_ref PyObject *held = Py_NewRef(value), *own_name = Py_NewRef(name);
        uint64_t now = digest(held, DEPTH, &nodes, rare);
        struct mark *known = find(m, own_name, &guess);
        if (known && (size_t)(known - m->at) < before) {
            seen[(known - m->at) / 64] |= UINT64_C(1) << ((known - m->at) % 64);
            met++;
        }
        if (known && known->digest == now)
            continue;
        if (known)
            known->digest = now;
        else if (add(m, own_name, now) < 0)
            n = -1;
        if (n >= 0)
            n = tell(changed, changed ? PyTuple_Pack(2, own_name, held) : Py_NewRef(Py_None)) < 0 ?
                    -1 :
                    n + 1;
    }
    for (size_t k = before; n >= 0 && met < before && k-- > 0;) {
        if (seen[k / 64] & (UINT64_C(1) << (k % 64)))
            continue;
        n = tell(removed, Py_NewRef(m->at[k].name)) < 0 ? -1 : n + 1;
        Py_DECREF(m->at[k].name);
        memmove(&m->at[k], &m->at[k + 1], (--m->n - k) * sizeof(m->at[0]));
    }
    free(seen);
    return PyErr_Occurred() ? -1 : n;
}

Py_ssize_t marks_update(struct marks *m, PyFrameObject *frame, PyObject *given, PyObject *mark_rare,
                        PyObject *changed, PyObject *removed)
{
    auto_ref PyObject *locals = PyFrame_GetLocals(frame);
    if (!locals)
        return -1;
    if (PyDict_CheckExact(locals))
        return update(m, locals, given, mark_rare, changed, removed);
    /*
     * Since CPython 3.13 the variables of a function are behind a proxy, and at the top of a cell
     * those of a comprehension that runs there.
     */
    PyCodeObject *code = PyFrame_GetCode(frame);
    bool is_top = !(code->co_flags & CO_OPTIMIZED);
    Py_DECREF(code);
    auto_ref PyObject *globals = is_top ? PyFrame_GetGlobals(frame) : NULL;
    auto_ref PyObject *dict = globals ? PyDict_Copy(globals) : PyDict_New();
    if (!dict || PyDict_Update(dict, locals) < 0)
        return -1;
    return update(m, dict, given, mark_rare, changed, removed);
}
