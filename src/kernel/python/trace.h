#ifndef RIDDLE_KERNEL_PYTHON_TRACE_H
#define RIDDLE_KERNEL_PYTHON_TRACE_H

/*
 * The debugger's hot half: CPython's trace interface (PyEval_SetTrace), for the code of cells
 * alone. It counts every line, records those that are to be shown, and decides where execution
 * stops. What happens in a pause, and how values are described, is in runtime/stepper.py.
 *
 * Nothing is installed unless a cell is debugged. Only the kernel's main thread is traced.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct trace_setup {
    void (*send)(const char *json, size_t len); /* one message of steps */
    bool (*take_pause)(void);                   /* riddle asked for a pause */
    void (*adopt)(void); /* this process is the kernel from now on; NULL: it cannot be another */
};

void trace_set_up(const struct trace_setup *setup);

/* Functions of the module _riddle. */
/* (cell, hooks, max_steps, max_bytes, stop_on_entry, rewind) */
PyObject *trace_begin(PyObject *self, PyObject *args);
PyObject *trace_arm(PyObject *self, PyObject *arg); /* from the next call on */
PyObject *trace_end(PyObject *self, PyObject *arg); /* (lines that ran, lines that were told) */
PyObject *trace_breakpoints(PyObject *self, PyObject *lines);
PyObject *trace_output(PyObject *self, PyObject *args);
PyObject *trace_back(PyObject *self, PyObject *args); /* (step, orders) */
PyObject *trace_store(PyObject *self, PyObject *frame);

/* ---- marks.c: which variables of a frame have changed ---- */

/* What is known of one variable: its name, and a digest of its value. */
struct marks {
    struct mark {
        PyObject *name;
        uint64_t digest;
    } * at;
    size_t n, room;
};

void marks_clear(struct marks *m);
/*
 * Compares the variables of a frame with what is known of them, and knows them from now on.
 * `changed` becomes a list of (name, value), `removed` a list of names; either may be NULL. How
 * many there are in both, or -1 with an exception. mark_rare(value) digests what C does not know;
 * variables of the dict `given` that still have the values there are left out.
 */
Py_ssize_t marks_update(struct marks *m, PyFrameObject *frame, PyObject *given, PyObject *mark_rare,
                        PyObject *changed, PyObject *removed);

#endif
