/*
 * The files that the zygote's modules were read from. A zygote that is made from a base has modules
 * in memory that were imported long ago: if a file of theirs is another one since, they are stale.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "kernel/python/python.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/macros.h"

/* Paths, each with its NUL, and what stat() said of them. */
static struct {
    char *paths;
    size_t len;
    uint64_t state;
} sources;

static uint64_t state_of(const char *path)
{
    struct stat st = { 0 };
    const uint64_t m = 0xff51afd7ed558ccdull;
    if (stat(path, &st) < 0)
        return m;
    uint64_t h = (uint64_t)st.st_mtim.tv_sec * m ^ (uint64_t)st.st_mtim.tv_nsec;
    h = (h ^ (h >> 31)) * m ^ (uint64_t)st.st_size;
    return (h ^ (h >> 29)) * m;
}

static uint64_t state_of_all(void)
{
    uint64_t state = 0;
    for (size_t at = 0; at < sources.len; at += strlen(sources.paths + at) + 1)
        state = state * 31 + state_of(sources.paths + at);
    return state;
}

static int add(const char *path, struct err *err)
{
    size_t n = strlen(path) + 1;
    char *more = realloc(sources.paths, sources.len + n);
    if (!more)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    sources.paths = more;
    memcpy(more + sources.len, path, n);
    sources.len += n;
    return 0;
}

int python_note_sources(struct err *err)
{
    PyObject *modules = PyImport_GetModuleDict(), *name, *module;
    Py_ssize_t at = 0;
    sources.len = 0;
    int r = add("/etc/localtime", err);
    while (r == 0 && PyDict_Next(modules, &at, &name, &module)) {
        PyObject *names = PyModule_Check(module) ? PyModule_GetDict(module) : NULL;
        PyObject *file = names ? PyDict_GetItemString(names, "__file__") : NULL;
        const char *path = file && PyUnicode_Check(file) ? PyUnicode_AsUTF8(file) : NULL;
        if (path && path[0] == '/')
            r = add(path, err);
        PyErr_Clear();
    }
    sources.state = state_of_all();
    return r;
}

bool python_sources_changed(void)
{
    return state_of_all() != sources.state;
}
