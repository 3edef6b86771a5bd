#include "kernel/python/generators.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include "base/macros.h"

#define GENERATORS_MAX 4

/* One interpreter per process: its generators are just as global. */
static struct {
    void *words;
    size_t len;
} found[GENERATORS_MAX];
static size_t n_found;

int generators_find(PyObject *pairs, struct err *err)
{
    Py_ssize_t n = PySequence_Size(pairs);
    if (n < 0 || n > GENERATORS_MAX)
        return err_set(err, ERR_INTERNAL, "%zd random generators", n);
    n_found = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *pair = PyList_GetItem(pairs, i), *generator;
        const char *words;
        Py_ssize_t len;
        if (!pair || !PyArg_ParseTuple(pair, "Oy#", &generator, &words, &len)) {
            PyErr_Clear();
            return err_set(err, ERR_INTERNAL, "a random generator without its state");
        }
        /* The words are part of the object; where, only its own source says. */
        void *at = memmem(generator, (size_t)Py_TYPE(generator)->tp_basicsize, words, (size_t)len);
        if (!at)
            return err_set(err, ERR_INTERNAL, "the state of a %.100s is not where it is looked for",
                           Py_TYPE(generator)->tp_name);
        found[n_found].words = at;
        found[n_found++].len = (size_t)len;
    }
    return 0;
}

int generators_seed(struct err *err)
{
    for (size_t i = 0; i < n_found; i++)
        for (size_t done = 0; done < found[i].len;) {
            ssize_t n = getrandom((char *)found[i].words + done, found[i].len - done, 0);
            if (n < 0)
                return err_errno(err, ERR_INTERNAL, errno, "seeding random numbers");
            done += (size_t)n;
        }
    return 0;
}
