#ifndef RIDDLE_KERNEL_PYTHON_INTEGER_H
#define RIDDLE_KERNEL_PYTHON_INTEGER_H

/*
 * Integers as little-endian bytes: public functions since CPython 3.13, private ones of another
 * signature before.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>

/* A new reference; NULL with an exception. */
static inline PyObject *integer_from_bytes(const void *bytes, size_t n, bool is_signed)
{
#if PY_VERSION_HEX >= 0x030d0000
    int flags = Py_ASNATIVEBYTES_LITTLE_ENDIAN | (is_signed ? 0 : Py_ASNATIVEBYTES_UNSIGNED_BUFFER);
    return PyLong_FromNativeBytes(bytes, n, flags);
#else
    return _PyLong_FromByteArray(bytes, n, 1, is_signed);
#endif
}

/* As two's complement of n bytes. 1: it does not fit, -1: exception. */
static inline int integer_to_bytes(PyObject *number, void *bytes, size_t n)
{
#if PY_VERSION_HEX >= 0x030d0000
    Py_ssize_t needed = PyLong_AsNativeBytes(number, bytes, (Py_ssize_t)n,
                                             Py_ASNATIVEBYTES_LITTLE_ENDIAN);
    return needed < 0 ? -1 : needed > (Py_ssize_t)n ? 1 : 0;
#else
    if (_PyLong_AsByteArray((PyLongObject *)number, bytes, n, 1, 1) == 0)
        return 0;
    if (!PyErr_ExceptionMatches(PyExc_OverflowError))
        return -1;
    PyErr_Clear();
    return 1;
#endif
}

#endif
