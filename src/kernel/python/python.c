/*
 * The embedding of CPython: one interpreter, made in the zygote, used by each kernel that is forked
 * from it.
 *
 * The main thread holds the GIL from python_init() on, across the fork, and between requests;
 * threads that user code leaves behind run only while a cell does. What a cell does is decided in
 * runtime/session.py; here are its start, the module `_riddle` through which it calls back,
 * signals, and the answer when even it cannot give one.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "kernel/python/python.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include "base/limits.h"
#include "base/macros.h"
#include "base/str.h"
#include "kernel/python/dataframe.h"
#include "kernel/python/dataframe_impl.h"
#include "kernel/python/generators.h"
#include "kernel/python/runtime.h"
#include "kernel/python/trace.h"

#define PACKAGE "riddle_runtime"

/* One interpreter per process: CPython's own state is just as global. */
static struct {
    /* Of riddle_runtime.session. Kernels do not import: that touches many pages. */
    PyObject *start, *execute, *state, *suspend, *resume, *save, *load;
    struct python_setup setup;
    pid_t pid;               /* of the kernel: a cell may fork, and its children have no say here */
    unsigned long thread;    /* its first one */
    struct sigaction sigint; /* as the kernel has set it */
    atomic_bool running;     /* a cell: only then does an interrupt mean anything */
} py;

/* ---- exceptions as errors ---- */

/* Sets err to "what: Type: message" from the exception that is pending, and clears that. */
static int fail_python(struct err *err, enum err_code code, const char *what)
{
    PyObject *type = NULL, *value = NULL, *tb = NULL;
    PyErr_Fetch(&type, &value, &tb);
    PyErr_NormalizeException(&type, &value, &tb);
    auto_ref PyObject *text = value ? PyObject_Str(value) : NULL;
    const char *message = text ? PyUnicode_AsUTF8(text) : NULL;
    int r = err_set(err, code, "%s: %s: %s", what,
                    type ? ((PyTypeObject *)type)->tp_name : "no exception",
                    message ? message : "no message");
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(tb);
    PyErr_Clear();
    return r;
}

/* ---- the module _riddle ---- */

static PyObject *riddle_display(PyObject *self, PyObject *arg)
{
    (void)self;
    char *data;
    Py_ssize_t len;
    if (PyBytes_AsStringAndSize(arg, &data, &len) < 0)
        return NULL;
    if (py.setup.display && py.pid == getpid())
        py.setup.display(data, (size_t)len);
    Py_RETURN_NONE;
}

/* Waits without the GIL, so that other threads of the cell go on. NULL with an exception set. */
static json_t *wait_for_reply(void)
{
    for (;;) {
        struct err err = ERR_INIT;
        json_t *reply = NULL;
        int r;
        Py_BEGIN_ALLOW_THREADS r = py.setup.reply(&reply, &err);
        Py_END_ALLOW_THREADS if (r == 0) return reply;
        if (r != -ERR_CANCELLED)
            PyErr_SetString(PyExc_OSError, err.message);
        if (PyErr_Occurred() || PyErr_CheckSignals() < 0) {
            py.setup.withdraw();
            return NULL;
        }
    }
}

static PyObject *object_of(const json_t *j);

static PyObject *list_of(const json_t *j)
{
    PyObject *list = PyList_New((Py_ssize_t)json_array_size(j));
    size_t i;
    json_t *item;
    json_array_foreach(j, i, item) {
        PyObject *one = list ? object_of(item) : NULL;
        if (!one) {
            Py_XDECREF(list);
            return NULL;
        }
        PyList_SET_ITEM(list, (Py_ssize_t)i, one);
    }
    return list;
}

static PyObject *dict_of(const json_t *j)
{
    PyObject *dict = PyDict_New();
    const char *key;
    json_t *item;
    json_object_foreach((json_t *)j, key, item) {
        PyObject *one = dict ? object_of(item) : NULL;
        if (!one || PyDict_SetItemString(dict, key, one) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(one);
        if (!dict)
            return NULL;
    }
    return dict;
}

/* JSON as json.loads() reads it. Its depth was bounded when it was parsed. */
static PyObject *object_of(const json_t *j)
{
    switch (json_typeof(j)) {
    case JSON_OBJECT:
        return dict_of(j);
    case JSON_ARRAY:
        return list_of(j);
    case JSON_STRING:
        return PyUnicode_DecodeUTF8(json_string_value(j), (Py_ssize_t)json_string_length(j),
                                    "replace");
    case JSON_INTEGER:
        return PyLong_FromLongLong(json_integer_value(j));
    case JSON_REAL:
        return PyFloat_FromDouble(json_real_value(j));
    case JSON_TRUE:
    case JSON_FALSE:
        return PyBool_FromLong(json_is_true(j));
    default:
        Py_RETURN_NONE;
    }
}

static PyObject *riddle_ask(PyObject *self, PyObject *arg)
{
    (void)self;
    char *data;
    Py_ssize_t len;
    struct err err = ERR_INIT;
    if (PyBytes_AsStringAndSize(arg, &data, &len) < 0)
        return NULL;
    if (!py.setup.ask || py.pid != getpid() || PyThread_get_thread_ident() != py.thread) {
        PyErr_SetString(PyExc_EOFError,
                        "only the cell itself can ask, not a process or thread that it started");
        return NULL;
    }
    if (py.setup.ask(data, (size_t)len, &err) < 0) {
        PyErr_SetString(PyExc_OSError, err.message);
        return NULL;
    }
    auto_json json_t *reply = wait_for_reply();
    return reply ? object_of(reply) : NULL;
}

static PyObject *riddle_restore_sigint(PyObject *self, PyObject *arg)
{
    (void)self;
    (void)arg;
    sigaction(SIGINT, &py.sigint, NULL);
    Py_RETURN_NONE;
}

/*
 * An interrupted query and the handler of SIGINT both raise KeyboardInterrupt: the second must not
 * hit the runtime.
 */
static PyObject *riddle_clear_interrupt(PyObject *self, PyObject *arg)
{
    (void)self;
    (void)arg;
    if (PyErr_CheckSignals() < 0)
        PyErr_Clear();
    Py_RETURN_NONE;
}

static PyMethodDef riddle_methods[] = {
    { "ask", riddle_ask, METH_O,
      "Sends a question, a JSON object as bytes, and returns the reply." },
    { "display", riddle_display, METH_O, "Sends one display, a JSON object as bytes." },
    { "clear_interrupt", riddle_clear_interrupt, METH_NOARGS,
      "Forgets an interrupt that is pending." },
    { "trace_begin", trace_begin, METH_VARARGS, "The next code is debugged." },
    { "trace_arm", trace_arm, METH_NOARGS, "It begins." },
    { "trace_end", trace_end, METH_NOARGS, "It has ended." },
    { "trace_breakpoints", trace_breakpoints, METH_O, "Lines of its cell that are looked at." },
    { "trace_output", trace_output, METH_VARARGS, "What it has written." },
    { "trace_back", trace_back, METH_VARARGS, "Goes on from an earlier step." },
    { "trace_store", trace_store, METH_O, "Writes changed variables back to their frame." },
    { "restore_sigint", riddle_restore_sigint, METH_NOARGS, "Gives SIGINT back to the kernel." },
    { NULL, NULL, 0, NULL },
};

static struct PyModuleDef riddle_module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_riddle",
    .m_size = -1,
    .m_methods = riddle_methods,
};

static PyObject *create_riddle_module(void)
{
    static const struct {
        const char *name;
        long value;
    } limits[] = {
        { "CODE_MAX", CODE_MAX_BYTES },      { "FIGURES_MAX", FIGURES_MAX },
        { "DISPLAYS_MAX", DISPLAYS_MAX },    { "DISPLAY_PART_MAX", DISPLAY_PART_MAX },
        { "DISPLAY_MAX", WIRE_DISPLAY_MAX },
    };
    PyObject *module = PyModule_Create(&riddle_module);
    for (size_t i = 0; module && i < ARRAY_SIZE(limits); i++)
        if (PyModule_AddIntConstant(module, limits[i].name, limits[i].value) < 0)
            Py_CLEAR(module);
    return module;
}

/* ---- start of the interpreter ---- */

static int fail_status(struct err *err, PyStatus status)
{
    return err_set(err, ERR_INTERNAL, "starting CPython: %s",
                   status.err_msg ? status.err_msg : "unknown failure");
}

static int init_interpreter(struct err *err)
{
    PyPreConfig pre;
    PyPreConfig_InitIsolatedConfig(&pre);
    pre.utf8_mode = 1;
    PyStatus status = Py_PreInitialize(&pre);
    if (PyStatus_Exception(status))
        return fail_status(err, status);

    PyConfig config;
    PyConfig_InitIsolatedConfig(&config);
    config.use_hash_seed = 1;
    config.hash_seed = 0;
    config.write_bytecode = 0;
    config.parse_argv = 0;
    /* Signals are the kernel's; what Python shall know of SIGINT is set below. */
    config.install_signal_handlers = 0;
    status = PyConfig_SetString(&config, &config.program_name, L"/usr/bin/python3");
    if (!PyStatus_Exception(status))
        status = Py_InitializeFromConfig(&config);
    PyConfig_Clear(&config);
    return PyStatus_Exception(status) ? fail_status(err, status) : 0;
}

/* PyErr_SetInterrupt() works only if Python believes that SIGINT is its own. */
static int own_sigint(struct err *err)
{
    struct sigaction saved;
    sigaction(SIGINT, NULL, &saved);
    int r = PyRun_SimpleString(
        "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\ndel signal\n");
    sigaction(SIGINT, &saved, NULL);
    return r < 0 ? err_set(err, ERR_INTERNAL, "setting Python's handler of SIGINT") : 0;
}

static void set_environment(void)
{
    /*
     * Read by libraries when they are loaded. A pool of threads would be lost in the fork, and
     * forbids it.
     */
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    setenv("OMP_NUM_THREADS", "1", 1);
    setenv("NUMEXPR_MAX_THREADS", "1", 1);
    setenv("MPLBACKEND", "Agg", 1);
}

static int preload_modules(const char *list, struct err *err)
{
    auto_free char *copy = strdup(list ? list : "");
    if (!copy)
        return err_set(err, ERR_NO_MEMORY, "the list of packages");
    char *save = NULL;
    for (char *name = strtok_r(copy, ", \t\n", &save); name;
         name = strtok_r(NULL, ", \t\n", &save)) {
        auto_ref PyObject *module = PyImport_ImportModule(name);
        if (!module) {
            char what[160];
            snprintf(what, sizeof(what), "cannot preload Python package '%.100s'", name);
            return fail_python(err, ERR_CONFIG, what);
        }
    }
    return 0;
}

/* ---- the runtime ---- */

static PyObject *runtime_sources(void)
{
    auto_ref PyObject *sources = PyDict_New();
    if (!sources)
        return NULL;
    for (const struct runtime_file *f = runtime_files; f->name; f++) {
        auto_ref PyObject *text = PyUnicode_DecodeUTF8(f->text, (Py_ssize_t)f->len, NULL);
        if (!text || PyDict_SetItemString(sources, f->name, text) < 0)
            return NULL;
    }
    return TAKE_PTR(sources);
}

/* Makes the package itself; its __init__ then finds the other files in `_sources`. */
static int load_package(struct err *err)
{
    auto_ref PyObject *sources = runtime_sources();
    PyObject *text = sources ? PyDict_GetItemString(sources, "__init__") : NULL;
    const char *source = text ? PyUnicode_AsUTF8(text) : NULL;
    auto_ref PyObject *code = source ?
                                  Py_CompileString(source, "<riddle>/__init__.py", Py_file_input) :
                                  NULL;
    PyObject *package = code ? PyImport_AddModule(PACKAGE) : NULL;
    auto_ref PyObject *path = package ? PyList_New(0) : NULL;
    if (!path || PyModule_AddObjectRef(package, "_sources", sources) < 0 ||
        PyModule_AddObjectRef(package, "__path__", path) < 0)
        return fail_python(err, ERR_INTERNAL, "loading the Python runtime");
    auto_ref PyObject *module = PyImport_ExecCodeModule(PACKAGE, code);
    if (!module)
        return fail_python(err, ERR_INTERNAL, "loading the Python runtime");
    return 0;
}

/* Calls riddle_runtime.<module>.<function>() without arguments. NULL with err set. */
static PyObject *call_runtime(const char *module_name, const char *function, struct err *err)
{
    auto_ref PyObject *module = PyImport_ImportModule(module_name);
    PyObject *result = module ? PyObject_CallMethod(module, function, NULL) : NULL;
    if (!result)
        fail_python(err, ERR_INTERNAL, function);
    return result;
}

int python_init(const char *preload, struct sql_engine *engine, struct err *err)
{
    set_environment();
    if (PyImport_AppendInittab("_riddle", create_riddle_module) < 0)
        return err_set(err, ERR_NO_MEMORY, "registering a Python module");
    int r = init_interpreter(err);
    if (r == 0)
        r = own_sigint(err);
    if (r == 0)
        r = preload_modules(preload, err);
    if (r == 0)
        r = dataframe_init(engine, err);
    if (r == 0)
        r = load_package(err);
    if (r < 0)
        return r;
    auto_ref PyObject *session = PyImport_ImportModule(PACKAGE ".session");
    py.start = session ? PyObject_GetAttrString(session, "start") : NULL;
    py.execute = py.start ? PyObject_GetAttrString(session, "execute") : NULL;
    py.state = py.execute ? PyObject_GetAttrString(session, "state") : NULL;
    py.suspend = py.state ? PyObject_GetAttrString(session, "suspend") : NULL;
    py.resume = py.suspend ? PyObject_GetAttrString(session, "resume") : NULL;
    py.save = py.resume ? PyObject_GetAttrString(session, "save") : NULL;
    py.load = py.save ? PyObject_GetAttrString(session, "load") : NULL;
    return py.load ? 0 : fail_python(err, ERR_INTERNAL, "loading the Python runtime");
}

/* `how`: a function of runtime/warm.py. */
static int settle(const char *how, struct err *err)
{
    auto_ref PyObject *done = call_runtime(PACKAGE ".warm", how, err);
    auto_ref PyObject *pairs = done ? call_runtime(PACKAGE ".session", "generators", err) : NULL;
    return pairs ? generators_find(pairs, err) : -(int)err->code;
}

int python_warm(struct err *err)
{
    return settle("warm", err);
}

int python_settle(struct err *err)
{
    return settle("settle", err);
}

int python_prepare(struct err *err)
{
    return generators_seed(err);
}

const char *python_first_cell(void)
{
    auto_ref PyObject *name = PyUnicode_FromString("pandas");
    auto_ref PyObject *pandas = name ? PyImport_GetModule(name) : NULL;
    PyErr_Clear();
    return pandas ?
               "import numpy as np; import pandas as pd; "
               "df = pd.DataFrame({'k': [1, 1, 2], 'n': [1, 2, 3]}); df.groupby('k')['n'].sum(); "
               /* as a table of the data set becomes one */
               "df = pd.DataFrame({0: np.empty(2, 'O'), **{i: np.frombuffer(bytearray(16), t, 2, 0)"
               " for i, t in enumerate(['i8', 'f8', 'M8[ns]', '?'], 1)}}, copy=False); "
               "df.columns = list('abcde'); len(df)" :
               "1 + 1";
}

/* A fork of the kernel goes on in its place. */
static void adopt(void)
{
    py.pid = getpid();
    py.setup.adopt();
}

int python_start(const struct python_setup *setup, struct err *err)
{
    py.setup = *setup;
    py.pid = getpid();
    py.thread = PyThread_get_thread_ident();
    trace_set_up(&(struct trace_setup){ .send = setup->steps,
                                        .take_pause = setup->take_pause,
                                        .adopt = setup->adopt ? adopt : NULL });
    sigaction(SIGINT, NULL, &py.sigint);
    auto_ref PyObject *places = PyDict_New();
    for (size_t i = 0; places && i < setup->n_tables; i++) {
        const struct sql_table *t = &setup->tables[i];
        auto_ref PyObject *place = Py_BuildValue("sn", t->db_path, (Py_ssize_t)t->part);
        if (!place || PyDict_SetItemString(places, t->name, place) < 0)
            return fail_python(err, ERR_INTERNAL, "naming the tables");
    }
    auto_ref PyObject *done = NULL;
    if (places)
        done = PyObject_CallFunction(py.start, "Ozzii", places, setup->policy_allowed,
                                     setup->policy_blocked, setup->agent, setup->debugging);
    return done ? 0 : fail_python(err, ERR_INTERNAL, "starting the Python session");
}

/* ---- cells ---- */

struct piece {
    const char *json; /* NULL: null */
    Py_ssize_t len;
};

static void write_piece(struct json_out *json, const char *key, struct piece p)
{
    json_out_key(json, key);
    if (p.json)
        json_out_raw(json, p.json, (size_t)p.len);
    else
        json_out_null(json);
}

/* The members that only Python has. */
static void write_value(struct json_out *json, struct piece value, bool has_result)
{
    write_piece(json, "value", value);
    json_out_key(json, "has_result");
    json_out_bool(json, has_result);
}

/*
 * The result of a cell that the runtime could not write: an interrupt or a lack of memory while it
 * did.
 */
static void write_failure(struct result *out)
{
    enum wire_verdict verdict = WIRE_VERDICT_ERROR;
    const char *name = "an exception";
    char message[256] = "Interrupted";
    if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) {
        verdict = WIRE_VERDICT_INTERRUPTED;
    } else {
        if (PyErr_ExceptionMatches(PyExc_MemoryError))
            verdict = WIRE_VERDICT_MEMORY;
        PyObject *type = PyErr_Occurred();
        if (type && PyExceptionClass_Check(type))
            name = PyExceptionClass_Name(type);
        /* Names of classes are the user's: one that cannot be shown is not. */
        if (!str_is_utf8(name, strlen(name)) || strlen(name) > 100)
            name = "an exception";
        snprintf(message, sizeof(message), "The result could not be written: %s", name);
    }
    PyErr_Clear();
    result_fail(out, verdict, "PYTHON_EXECUTION_ERROR", message);
    write_value(&out->json, (struct piece){ 0 }, false);
}

/*
 * From what riddle_runtime.session.execute() returned. False when user code has put something else
 * in its place.
 */
static bool write_result(PyObject *answer, struct result *out)
{
    struct piece columns, types, rows, error, value, returned, debug, stepped;
    const char *verdict;
    long long row_count;
    int truncated, has_result;
    if (!PyTuple_Check(answer) ||
        !PyArg_ParseTuple(answer, "sy#y#y#Lpz#z#pz#z#z#", &verdict, &columns.json, &columns.len,
                          &types.json, &types.len, &rows.json, &rows.len, &row_count, &truncated,
                          &error.json, &error.len, &value.json, &value.len, &has_result,
                          &returned.json, &returned.len, &debug.json, &debug.len, &stepped.json,
                          &stepped.len))
        return false;
    int v = wire_verdict_from_name(verdict);
    if (v < 0)
        return false;
    result_begin(out, (enum wire_verdict)v);
    struct json_out *json = &out->json;
    write_piece(json, "columns", columns);
    write_piece(json, "types", types);
    write_piece(json, "rows", rows);
    json_out_key(json, "row_count");
    json_out_int(json, row_count);
    json_out_key(json, "truncated");
    json_out_bool(json, truncated);
    write_piece(json, "error", error);
    write_value(json, value, has_result);
    if (py.setup.agent) {
        write_piece(json, "returned", returned);
        write_piece(json, "debug", debug);
    }
    if (stepped.json)
        write_piece(json, "stepped", stepped);
    return true;
}

/* asyncio.run() and others put Python's handler in the kernel's place. */
static void keep_sigint(void)
{
    struct sigaction now;
    sigaction(SIGINT, NULL, &now);
    if (now.sa_handler != py.sigint.sa_handler)
        sigaction(SIGINT, &py.sigint, NULL);
}

int python_execute(const struct python_request *req, struct result *ret, struct err *err)
{
    atomic_store(&py.running, true);
    auto_ref PyObject *answer = PyObject_CallFunction(
        py.execute, "y#iiLLzz", req->code, (Py_ssize_t)req->code_len, req->restricted, req->svg,
        req->max_rows, req->max_output_bytes, req->context, req->debug);
    atomic_store(&py.running, false);
    if (getpid() != py.pid)
        _exit(answer ? 0 : 1);
    keep_sigint();
    if (!answer || !write_result(answer, ret))
        write_failure(ret);
    /* An interrupt that came too late must not hit the next cell. */
    if (PyErr_CheckSignals() < 0)
        PyErr_Clear();
    return json_out_status(&ret->json, err);
}

void python_state(struct result *ret)
{
    auto_ref PyObject *answer = PyObject_CallNoArgs(py.state);
    struct piece variables, names;
    if (answer && PyTuple_Check(answer) &&
        PyArg_ParseTuple(answer, "y#y#", &variables.json, &variables.len, &names.json,
                         &names.len)) {
        write_piece(&ret->json, "variables", variables);
        write_piece(&ret->json, "globals", names);
    }
    PyErr_Clear();
}

bool python_suspend(void)
{
    auto_ref PyObject *did = PyObject_CallNoArgs(py.suspend);
    PyErr_Clear();
    dataframe_stored_detach();
    return did == Py_True;
}

void python_resume(void)
{
    auto_ref PyObject *did = PyObject_CallNoArgs(py.resume);
    (void)did;
    PyErr_Clear(); /* then the next cell that awaits something fails, and says why */
}

static int take_text(PyObject *made, char *ret_not_kept, size_t n, const char *what,
                     struct err *err)
{
    auto_ref PyObject *answer = made;
    const char *text = answer ? PyUnicode_AsUTF8(answer) : NULL;
    if (!text)
        return fail_python(err, ERR_CONFLICT, what);
    snprintf(ret_not_kept, n, "%s", text);
    return 0;
}

int python_save(int fd, int go_fd, char (*tables)[SQL_NAME_SIZE], size_t n_tables,
                char *ret_not_kept, size_t n, struct err *err)
{
    auto_ref PyObject *names = PyList_New(0);
    for (size_t i = 0; names && i < n_tables; i++) {
        auto_ref PyObject *name = PyUnicode_DecodeUTF8(tables[i], (Py_ssize_t)strlen(tables[i]),
                                                       "replace");
        if (name)
            (void)PyList_Append(names, name);
    }
    PyErr_Clear();
    return take_text(PyObject_CallFunction(py.save, "iiO", fd, go_fd, names ? names : Py_None),
                     ret_not_kept, n, "pickling variables", err);
}

void python_is_forked(void)
{
    PyOS_AfterFork_Child();
    PyGC_Disable(); /* it writes to every object, and each page would be copied */
}

int python_load(int fd, char *ret_not_kept, size_t n, struct err *err)
{
    return take_text(PyObject_CallFunction(py.load, "i", fd), ret_not_kept, n,
                     "reading pickled variables", err);
}

void python_interrupt(void)
{
    if (atomic_load(&py.running))
        PyErr_SetInterrupt();
}
