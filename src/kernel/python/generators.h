#ifndef RIDDLE_KERNEL_PYTHON_GENERATORS_H
#define RIDDLE_KERNEL_PYTHON_GENERATORS_H

/*
 * Random generators that the zygote has loaded. All kernels inherit the same state of them, so each
 * kernel fills the state with random numbers of its own, in place: a Mersenne twister may begin
 * with any words. By Python's own functions that would write to a hundred shared pages.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include "base/err.h"

/* In the zygote, last. `pairs`: a sequence of (generator, the words of its state as bytes). */
int generators_find(PyObject *pairs, struct err *err);
/* In a kernel. */
int generators_seed(struct err *err);

#endif
