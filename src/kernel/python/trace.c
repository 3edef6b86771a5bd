/*
 * Theory of operation. While a debugged cell runs, CPython calls on_trace() for every call, line,
 * return and exception of the main thread. Frames of cells are kept in `levels`; other frames are
 * passed over after one look at the name of their file.
 *
 * A line is recorded when the next one begins, so that what it changed and printed is known. A line
 * that calls functions of cells is told when the first call begins, and again, `resumed`, when
 * something has changed after the calls.
 *
 * Sampling: every line has a count of its executions and the count at which it is recorded next.
 * While three quarters of the budget are left, that is always the next one; after that the
 * distance grows in proportion to the count, and doubles past the budget. So a loop of any length
 * is told in a bounded number of steps, and the lines behind it are still told. A line that is not
 * recorded costs a comparison.
 */

#include "kernel/python/trace.h"

#include <frameobject.h>
#include <opcode.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "base/json_out.h"
#include "base/macros.h"
#include "base/str.h"
#include "kernel/python/dataframe_impl.h"
#include "kernel/python/rewind.h"
#include "sandbox/wire.h"

#define LINES_MAX (1 << 16) /* of one cell; those beyond share one count */
#define FILES_MAX 64        /* cells whose functions run */
#define PARKED_MAX 64       /* generators whose variables are remembered */
#define LEVELS_MAX 20000
#define SOURCE_MAX 200        /* bytes */
#define OUTPUT_MAX (8u << 10) /* of one step */
#define STEP_MAX (128u << 10) /* of one step as JSON */
#define BATCH_BYTES (32u << 10)
#define BATCH_NS INT64_C(20000000)
#define MARK_NS INT64_C(100000000) /* between states that are kept */
#define FRAME_FLAGS (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)

enum mode {
    MODE_RUN,
    MODE_STEP,      /* to the next line of any cell */
    MODE_NEXT,      /* … of the target frame */
    MODE_OUT,       /* to the end of the target frame */
    MODE_RETURNING, /* the target frame has ended: to a line of a level up to `target_level` */
};

struct line {
    uint64_t hits, next;
    bool has_breakpoint;
};

struct file {
    PyObject *name, *source; /* source: a list of lines */
    struct line *lines;
    size_t n_lines;
};

/* A frame of a cell that is on the stack. */
struct level {
    PyFrameObject *frame; /* borrowed */
    struct file *file;
    struct marks marks;
    int64_t step, begun_ns; /* of its line */
    int line;
    bool is_split; /* its line was told when it called */
    bool raised;   /* an exception passes through it */
};

static struct trace_setup setup;

static struct {
    bool is_on;
    pid_t pid;
    PyObject *hooks, *describe, *mark_rare; /* of runtime/stepper.py */
    PyObject *given;                        /* variables that every kernel has */
    struct file files[FILES_MAX];           /* the first one is the cell itself */
    size_t n_files;
    struct level *levels;
    size_t n_levels, room;
    struct level parked[PARKED_MAX]; /* those of generators and coroutines that have yielded */
    size_t next_parked;

    int64_t total, shown, skipped; /* lines; skipped since the last one that was shown */
    int64_t max_steps, max_bytes, bytes;
    bool rewinds;      /* states are kept to go back to */
    int64_t goal;      /* it goes back to this step, and tells nothing until then; 0: none */
    int64_t marked_ns; /* when the last state was kept */
    bool is_pending;   /* the line of the top level is recorded when it has ended */
    PyObject *log;     /* what a logpoint says about it */
    PyObject *raised;  /* the exception that was raised last */

    enum mode mode;
    PyFrameObject *root, *target; /* borrowed, compared only */
    size_t target_level;
    time_t tick_s;
    long tick_ns;

    struct buf out, errout;
    bool out_cut;
    struct json_out step, batch;
    size_t n_batch;
    int64_t sent_ns;
} t;

void trace_set_up(const struct trace_setup *s)
{
    setup = *s;
}

static int64_t now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* ---- files and lines ---- */

static bool is_cell(PyObject *name)
{
    static const char prefix[] = "<cell ";
    return PyUnicode_IS_ASCII(name) && PyUnicode_GET_LENGTH(name) > (Py_ssize_t)sizeof(prefix) &&
           memcmp(PyUnicode_DATA(name), prefix, sizeof(prefix) - 1) == 0;
}

static struct file *add_file(PyObject *name)
{
    struct file *f = &t.files[t.n_files];
    if (t.n_files == FILES_MAX)
        return NULL;
    auto_ref PyObject *source = PyObject_CallMethod(t.hooks, "source", "O", name);
    if (!source || !PyList_Check(source))
        return NULL;
    size_t n = MIN_OF((size_t)PyList_GET_SIZE(source) + 2, (size_t)LINES_MAX);
    struct line *lines = calloc(n, sizeof(*lines));
    if (!lines) {
        PyErr_NoMemory();
        return NULL;
    }
    *f = (struct file){
        .name = Py_NewRef(name), .source = TAKE_PTR(source), .lines = lines, .n_lines = n
    };
    t.n_files++;
    return f;
}

/* NULL: not of a cell, or (with an exception) it cannot be known. */
static struct file *file_of(PyFrameObject *frame)
{
    PyCodeObject *code = PyFrame_GetCode(frame);
    PyObject *name = code->co_filename;
    struct file *found = NULL;
    for (size_t i = 0; i < t.n_files && !found; i++)
        if (t.files[i].name == name)
            found = &t.files[i];
    if (!found && is_cell(name)) {
        for (size_t i = 0; i < t.n_files && !found; i++)
            if (PyUnicode_Compare(t.files[i].name, name) == 0)
                found = &t.files[i];
        if (!found)
            found = add_file(name);
    }
    Py_DECREF(code);
    return found;
}

static struct line *line_at(struct file *f, int line)
{
    return &f->lines[line >= 0 && (size_t)line < f->n_lines ? (size_t)line : 0];
}

/* How much of the budget is used: 1 is all of it. */
static double used(void)
{
    return MAX_OF((double)t.shown / (double)t.max_steps, (double)t.bytes / (double)t.max_bytes);
}

static void plan_next(struct line *at)
{
    double u = used();
    if (u < 0.75)
        at->next = at->hits + 1;
    else if (u < 1)
        at->next = at->hits + (at->hits < 3 ? 1 : at->hits / 4);
    else
        at->next = u < 2 ? at->hits * 2 : UINT64_MAX;
}

/* ---- steps ---- */

static void flush(void)
{
    if (t.n_batch == 0)
        return;
    json_out_close(&t.batch, ']');
    json_out_close(&t.batch, '}');
    if (json_out_status(&t.batch, NULL) == 0 && t.pid == getpid())
        setup.send(t.batch.text.data, t.batch.text.len);
    t.n_batch = 0;
    t.sent_ns = now_ns();
}

static void add_to_batch(void)
{
    if (t.n_batch == 0) {
        json_out_clear(&t.batch);
        json_out_open(&t.batch, '{');
        json_out_key(&t.batch, "steps");
        json_out_open(&t.batch, '[');
    }
    json_out_raw(&t.batch, t.step.text.data, t.step.text.len);
    t.bytes += (int64_t)t.step.text.len;
    t.n_batch++;
    if (t.batch.text.len > BATCH_BYTES || now_ns() - t.sent_ns > BATCH_NS)
        flush();
}

static void write_text(const char *key, PyObject *text, size_t max)
{
    Py_ssize_t len = 0;
    const char *s = text && PyUnicode_Check(text) ? PyUnicode_AsUTF8AndSize(text, &len) : NULL;
    PyErr_Clear(); /* a lone surrogate */
    json_out_key(&t.step, key);
    if (s)
        json_out_str(&t.step, s, str_utf8_cut(s, (size_t)len, max));
    else
        json_out_text(&t.step, "");
}

static void write_place(const struct level *l, int64_t number)
{
    PyCodeObject *code = PyFrame_GetCode(l->frame);
    Py_ssize_t at = l->line - 1;
    json_out_key(&t.step, "step");
    json_out_int(&t.step, number);
    json_out_key(&t.step, "line");
    json_out_int(&t.step, l->line);
    PyObject *source = at >= 0 && at < PyList_GET_SIZE(l->file->source) ?
                           PyList_GET_ITEM(l->file->source, at) :
                           NULL;
    write_text("source", source, SOURCE_MAX);
    write_text("function", code->co_name, SOURCE_MAX);
    json_out_key(&t.step, "depth");
    json_out_int(&t.step, l - t.levels);
    if (l->file != &t.files[0])
        write_text("cell", l->file->name, SOURCE_MAX);
    Py_DECREF(code);
}

static void write_output(const char *key, struct buf *b)
{
    if (b->len == 0)
        return;
    json_out_key(&t.step, key);
    /* A character that was cut at the limit is left out. */
    size_t len = b->len;
    while (len > 0 && b->len - len < 4 && !str_is_utf8(b->data, len))
        len--;
    json_out_str(&t.step, b->data, str_is_utf8(b->data, len) ? len : 0);
    buf_clear(b);
}

/* `how` is variables, returned or exception. 0, or -1 with an exception: an interrupt. */
static int write_described(const char *key, const char *how, PyObject *what)
{
    auto_ref PyObject *text = PyObject_CallFunction(t.describe, "sO", how, what);
    if (text && PyBytes_CheckExact(text)) {
        json_out_key(&t.step, key);
        json_out_raw(&t.step, PyBytes_AS_STRING(text), (size_t)PyBytes_GET_SIZE(text));
        return 0;
    }
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_KeyboardInterrupt))
        return -1;
    PyErr_Clear();
    return 0;
}

/*
 * Writes the step of a level's line. A resumed one is left out when it has nothing to tell.
 * `returned` may be NULL.
 */
static int write_step(struct level *l, bool resumed, PyObject *returned)
{
    auto_ref PyObject *changed = PyList_New(0), *removed = PyList_New(0);
    int r = 0;
    if (!changed || !removed)
        return -1;
    Py_ssize_t n = marks_update(&l->marks, l->frame, t.given, t.mark_rare, changed, removed);
    if (n < 0) {
        if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt))
            return -1;
        PyErr_Clear();
    }
    bool tells = n > 0 || t.out.len || t.errout.len || l->raised || returned;
    if (resumed && !tells)
        return 0;
    json_out_clear(&t.step);
    json_out_open(&t.step, '{');
    write_place(l, l->step);
    if (resumed) {
        json_out_key(&t.step, "resumed");
        json_out_bool(&t.step, true);
    }
    if (!resumed && t.skipped > 0) {
        json_out_key(&t.step, "skipped");
        json_out_int(&t.step, t.skipped);
        t.skipped = 0;
    }
    r = write_described("variables", "variables", changed);
    if (r == 0 && PyList_GET_SIZE(removed) > 0)
        r = write_described("removed", "removed", removed);
    if (r == 0 && returned)
        r = write_described("returned", "returned", returned);
    if (r == 0 && l->raised && t.raised)
        r = write_described("exception", "exception", t.raised);
    if (r == 0 && t.log)
        write_text("log", t.log, OUTPUT_MAX);
    Py_CLEAR(t.log);
    write_output("output", &t.out);
    write_output("stderr", &t.errout);
    if (t.out_cut) {
        json_out_key(&t.step, "output_truncated");
        json_out_bool(&t.step, true);
        t.out_cut = false;
    }
    json_out_key(&t.step, "time_us");
    json_out_fixed(&t.step, (double)(now_ns() - l->begun_ns) / 1000, 1);
    json_out_close(&t.step, '}');
    if (r == 0 && json_out_status(&t.step, NULL) == 0)
        add_to_batch();
    return r;
}

/* The recorded line of the top level has ended, or calls. */
static int end_step(PyObject *returned)
{
    struct level *l = &t.levels[t.n_levels - 1];
    t.is_pending = false;
    return write_step(l, false, returned);
}

/* What a line did that had called. */
static int end_split(struct level *l, PyObject *returned)
{
    l->is_split = false;
    return t.goal ? 0 : write_step(l, true, returned);
}

/* ---- levels ---- */

static struct level take_parked(PyFrameObject *frame, struct file *file)
{
    struct level level = { .frame = frame, .file = file };
    for (size_t i = 0; i < PARKED_MAX; i++)
        if (t.parked[i].frame == frame) {
            if (t.parked[i].file == file)
                level = t.parked[i];
            else
                marks_clear(&t.parked[i].marks); /* of a frame that is gone */
            t.parked[i] = (struct level){ 0 };
        }
    return level;
}

static void park(struct level *l)
{
    struct level *place = &t.parked[t.next_parked++ % PARKED_MAX];
    marks_clear(&place->marks);
    *place = *l;
    l->marks = (struct marks){ 0 };
}

static struct level *push(PyFrameObject *frame, struct file *file)
{
    if (t.n_levels == LEVELS_MAX) {
        PyErr_SetString(PyExc_RecursionError, "too many calls for the debugger");
        return NULL;
    }
    if (t.n_levels == t.room) {
        size_t room = t.room ? t.room * 2 : 32;
        struct level *more = realloc(t.levels, room * sizeof(*more));
        if (!more) {
            PyErr_NoMemory();
            return NULL;
        }
        t.levels = more;
        t.room = room;
    }
    struct level *l = &t.levels[t.n_levels++];
    *l = take_parked(frame, file);
    return l;
}

static void pop_to(size_t n)
{
    while (t.n_levels > n)
        marks_clear(&t.levels[--t.n_levels].marks);
}

static struct level *top(void)
{
    return t.n_levels ? &t.levels[t.n_levels - 1] : NULL;
}

static int on_call(PyFrameObject *frame)
{
    struct file *file = file_of(frame);
    if (!file)
        return PyErr_Occurred() ? -1 : 0;
    if (t.is_pending) {
        top()->is_split = true;
        if (end_step(NULL) < 0)
            return -1;
    }
    struct level *l = push(frame, file);
    if (!l)
        return -1;
    /* What the namespace has before the cell begins, it has not changed. */
    if (!t.root && (t.root = frame) &&
        marks_update(&l->marks, frame, t.given, t.mark_rare, NULL, NULL) < 0)
        return -1;
    return 0;
}

/* Whether the frame will be resumed. */
static bool is_yield(PyFrameObject *frame)
{
    PyCodeObject *code = PyFrame_GetCode(frame);
    bool yields = false;
    if (code->co_flags & FRAME_FLAGS) {
        PyObject *bytes = PyCode_GetCode(code);
        const unsigned char *ops = bytes ? (const unsigned char *)PyBytes_AS_STRING(bytes) : NULL;
        int at = PyFrame_GetLasti(frame);
        /* Since CPython 3.12 it is already at the instruction behind it. */
        yields = ops && at >= 0 && at < PyBytes_GET_SIZE(bytes) &&
                 (ops[at] == YIELD_VALUE || (at >= 2 && ops[at - 2] == YIELD_VALUE));
        Py_XDECREF(bytes);
        PyErr_Clear();
    }
    Py_DECREF(code);
    return yields;
}

static int pause_at(const char *reason, PyFrameObject *frame);

/* The exception leaves the cell. */
static int on_uncaught(PyFrameObject *frame)
{
    auto_ref PyObject *wanted = PyObject_CallMethod(t.hooks, "stops_at_uncaught", "O", t.raised);
    if (!wanted)
        return -1;
    return wanted == Py_True ? pause_at("exception", frame) : 0;
}

static int on_return(PyFrameObject *frame, PyObject *value)
{
    struct level *l = top();
    if (!l || l->frame != frame)
        return 0;
    bool yields = !l->raised && is_yield(frame);
    PyObject *told = l->raised || yields || value == Py_None || t.n_levels == 1 ? NULL : value;
    int r = 0;
    if (t.is_pending) {
        r = end_step(told);
        l->is_split = yields; /* its line goes on when it is resumed */
    } else if (l->is_split && !yields) {
        r = end_split(l, told);
    }
    if (r == 0 && l->raised && frame == t.root && t.raised && !t.goal)
        r = on_uncaught(frame);
    if (t.target == frame && !yields && (t.mode == MODE_NEXT || t.mode == MODE_OUT)) {
        t.target = NULL;
        t.target_level = t.n_levels - 1;
        t.mode = t.n_levels > 1 ? MODE_RETURNING : MODE_RUN;
    }
    if (yields)
        park(l);
    pop_to(t.n_levels - 1);
    return r;
}

static int on_exception(PyFrameObject *frame, PyObject *info)
{
    struct level *l = top();
    PyObject *value = info && PyTuple_Check(info) && PyTuple_GET_SIZE(info) > 1 ?
                          PyTuple_GET_ITEM(info, 1) :
                          NULL;
    if (!l || l->frame != frame || !value)
        return 0;
    /* CPython 3.11 sets it only where the exception is caught; a pause shows the frames in it. */
    PyObject *traceback = PyTuple_GET_SIZE(info) > 2 ? PyTuple_GET_ITEM(info, 2) : Py_None;
    if (traceback != Py_None && PyExceptionInstance_Check(value) &&
        PyException_SetTraceback(value, traceback) < 0)
        return -1;
    l->raised = true;
    bool is_new = t.raised != value;
    Py_INCREF(value);
    Py_XSETREF(t.raised, value);
    if (!is_new || t.goal)
        return 0;
    auto_ref PyObject *wanted = PyObject_CallMethod(t.hooks, "stops_at_raised", "O", value);
    if (!wanted)
        return -1;
    return wanted == Py_True ? pause_at("exception", frame) : 0;
}

/* ---- stops ---- */

static void set_mode(const char *command, PyFrameObject *frame)
{
    static const struct {
        const char *name;
        enum mode mode;
    } modes[] = { { "step", MODE_STEP }, { "next", MODE_NEXT }, { "out", MODE_OUT } };
    t.mode = MODE_RUN;
    t.target = frame;
    for (size_t i = 0; i < ARRAY_SIZE(modes); i++)
        if (strcmp(command, modes[i].name) == 0)
            t.mode = modes[i].mode;
}

/* Waits in Python for what to do next. -1 with an exception: an interrupt. */
static int pause_at(const char *reason, PyFrameObject *frame)
{
    flush();
    auto_ref PyObject *command = PyObject_CallMethod(t.hooks, "paused", "sOLO", reason, frame,
                                                     (long long)t.total,
                                                     t.raised ? t.raised : Py_None);
    const char *name = command && PyUnicode_Check(command) ? PyUnicode_AsUTF8(command) : NULL;
    if (!name)
        return -1;
    set_mode(name, frame);
    (void)setup.take_pause(); /* it is what has just happened */
    return 0;
}

/* A few times in 10 ms: whether riddle wants a pause; sends what has waited. */
static bool look_up(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
    if (ts.tv_nsec == t.tick_ns && ts.tv_sec == t.tick_s)
        return false;
    t.tick_ns = ts.tv_nsec;
    t.tick_s = ts.tv_sec;
    if (t.pid != getpid()) { /* a process that the cell has made is not debugged */
        PyEval_SetTrace(NULL, NULL);
        t.is_on = false;
        return false;
    }
    if (t.n_batch && now_ns() - t.sent_ns > BATCH_NS)
        flush();
    return setup.take_pause();
}

/* ---- back in time ---- */

/* The state before a line is kept. In a process that goes back to it, 1; -1 with an exception. */
static int keep_state(void)
{
    struct rewind_goal goal;
    flush();
    auto_ref PyObject *flushed = PyObject_CallMethod(t.hooks, "flush", NULL);
    if (!flushed)
        return -1;
    t.marked_ns = now_ns();
    if (rewind_mark(t.total, &goal) != 1)
        return 0;
    t.pid = getpid();
    setup.adopt();
    t.goal = goal.step;
    t.marked_ns = now_ns();
    auto_ref PyObject *told = PyObject_CallMethod(t.hooks, "went_back", "s#", goal.orders,
                                                  (Py_ssize_t)goal.len);
    free(goal.orders);
    return told ? 1 : -1;
}

PyObject *trace_back(PyObject *self, PyObject *args)
{
    long long step;
    const char *orders;
    Py_ssize_t len;
    struct err err = ERR_INIT;
    (void)self;
    if (!PyArg_ParseTuple(args, "Ls#", &step, &orders, &len))
        return NULL;
    if (!t.rewinds)
        PyErr_SetString(PyExc_ValueError, "no states are kept: the request has no rewind");
    else if (step < 1 || step > t.total)
        PyErr_Format(PyExc_ValueError, "steps 1 to %lld can be gone back to", (long long)t.total);
    else if (rewind_go(step, orders, (size_t)len, &err) < 0)
        PyErr_SetString(PyExc_LookupError, err.message);
    return NULL;
}

/* What stops execution at this line; NULL: nothing, or (with an exception) an interrupt. */
static const char *stop_at(const struct level *l, const struct line *at, bool wants_pause)
{
    size_t index = (size_t)(l - t.levels);
    bool here = t.mode == MODE_STEP || (t.mode == MODE_NEXT && t.target == l->frame) ||
                (t.mode == MODE_RETURNING && index < t.target_level);
    const char *reason = wants_pause ? "pause" : here ? t.total == 1 ? "entry" : "step" : NULL;
    if (!at->has_breakpoint || l->file != &t.files[0])
        return reason;
    auto_ref PyObject *hit = PyObject_CallMethod(t.hooks, "hit", "iO", l->line, l->frame);
    if (!hit)
        return NULL;
    PyObject *log;
    int stops;
    if (!PyArg_ParseTuple(hit, "pO", &stops, &log))
        return NULL;
    if (log != Py_None)
        Py_XSETREF(t.log, Py_NewRef(log));
    return stops ? "breakpoint" : reason;
}

static struct level *find_level(PyFrameObject *frame)
{
    for (size_t i = t.n_levels; i-- > 0;)
        if (t.levels[i].frame == frame) {
            pop_to(i + 1);
            return &t.levels[i];
        }
    struct file *file = file_of(frame);
    return file ? push(frame, file) : NULL;
}

static int begin_step(struct level *l, struct line *at)
{
    t.shown++;
    plan_next(at);
    t.is_pending = true;
    l->step = t.total;
    l->begun_ns = now_ns();
    return 0;
}

static int on_line(PyFrameObject *frame)
{
    struct level *l = top();
    if (!l || l->frame != frame) {
        l = find_level(frame);
        if (!l)
            return PyErr_Occurred() ? -1 : 0;
    }
    if (t.is_pending && end_step(NULL) < 0)
        return -1;
    if (l->is_split && end_split(l, NULL) < 0)
        return -1;
    int line = PyFrame_GetLineNumber(frame);
    struct line *at = line_at(l->file, line);
    bool wants_pause = look_up();
    at->hits++;
    t.total++;
    l->line = line;
    l->raised = false;
    if (t.rewinds && !t.goal && (t.total == 1 || now_ns() - t.marked_ns > MARK_NS) &&
        keep_state() < 0)
        return -1;
    if (t.goal) {
        if (t.total < t.goal)
            return 0;
        t.goal = 0;
        return pause_at("back", frame) < 0 ? -1 : begin_step(l, at);
    }
    if (at->hits < at->next && t.mode == MODE_RUN && !at->has_breakpoint && !wants_pause) {
        t.skipped++;
        return 0;
    }
    const char *reason = stop_at(l, at, wants_pause);
    if (!reason && PyErr_Occurred())
        return -1;
    if (reason && t.rewinds) {
        int kept = keep_state();
        if (kept < 0)
            return -1;
        if (kept > 0) { /* it is gone back to this very line, or to one that follows */
            if (t.total < t.goal)
                return 0;
            t.goal = 0;
            reason = "back";
        }
    }
    if (reason && pause_at(reason, frame) < 0)
        return -1;
    if (!reason && !t.log && (at->hits < at->next || used() >= 2)) {
        t.skipped++;
        return 0;
    }
    return begin_step(l, at);
}

static int on_trace(PyObject *self, PyFrameObject *frame, int what, PyObject *arg)
{
    (void)self;
    if (!t.is_on)
        return 0;
    switch (what) {
    case PyTrace_LINE:
        return on_line(frame);
    case PyTrace_CALL:
        return on_call(frame);
    case PyTrace_RETURN:
        return on_return(frame, arg ? arg : Py_None);
    case PyTrace_EXCEPTION:
        return on_exception(frame, arg);
    default:
        return 0;
    }
}

/* ---- what Python calls ---- */

static void clear(void)
{
    pop_to(0);
    for (size_t i = 0; i < PARKED_MAX; i++)
        marks_clear(&t.parked[i].marks);
    for (size_t i = 0; i < t.n_files; i++) {
        Py_CLEAR(t.files[i].name);
        Py_CLEAR(t.files[i].source);
        free(t.files[i].lines);
    }
    free(t.levels);
    Py_CLEAR(t.hooks);
    Py_CLEAR(t.describe);
    Py_CLEAR(t.mark_rare);
    Py_CLEAR(t.given);
    Py_CLEAR(t.log);
    Py_CLEAR(t.raised);
    buf_finish(&t.out);
    buf_finish(&t.errout);
    json_out_finish(&t.step);
    json_out_finish(&t.batch);
    memset(&t, 0, sizeof(t));
}

PyObject *trace_begin(PyObject *self, PyObject *args)
{
    PyObject *name, *hooks;
    long long max_steps, max_bytes;
    int enters, rewinds;
    (void)self;
    if (!PyArg_ParseTuple(args, "UOLLpp", &name, &hooks, &max_steps, &max_bytes, &enters, &rewinds))
        return NULL;
    clear();
    t.pid = getpid();
    t.max_steps = MAX_OF(1, max_steps);
    t.max_bytes = MAX_OF(1, max_bytes);
    t.rewinds = rewinds && setup.adopt;
    t.mode = enters ? MODE_STEP : MODE_RUN;
    t.sent_ns = now_ns();
    buf_init(&t.out, OUTPUT_MAX);
    buf_init(&t.errout, OUTPUT_MAX);
    json_out_init(&t.step, STEP_MAX);
    json_out_init(&t.batch, WIRE_STEPS_MAX);
    t.hooks = Py_NewRef(hooks);
    t.describe = PyObject_GetAttrString(hooks, "describe");
    t.mark_rare = t.describe ? PyObject_GetAttrString(hooks, "mark") : NULL;
    t.given = t.mark_rare ? PyObject_GetAttrString(hooks, "given") : NULL;
    if (!t.given || !PyDict_Check(t.given) || !add_file(name)) {
        clear();
        return NULL;
    }
    Py_RETURN_NONE;
}

PyObject *trace_arm(PyObject *self, PyObject *arg)
{
    (void)self;
    (void)arg;
    t.is_on = t.hooks != NULL;
    if (t.is_on)
        PyEval_SetTrace(on_trace, NULL);
    Py_RETURN_NONE;
}

PyObject *trace_end(PyObject *self, PyObject *arg)
{
    (void)self;
    (void)arg;
    PyEval_SetTrace(NULL, NULL);
    t.is_on = false;
    if (!t.hooks)
        Py_RETURN_NONE;
    if (t.pid == getpid())
        rewind_end();
    flush();
    PyObject *counts = Py_BuildValue("LL", (long long)t.total, (long long)t.shown);
    clear();
    return counts;
}

PyObject *trace_breakpoints(PyObject *self, PyObject *lines)
{
    (void)self;
    if (!PyList_Check(lines) || t.n_files == 0)
        Py_RETURN_NONE;
    for (size_t i = 0; i < t.files[0].n_lines; i++)
        t.files[0].lines[i].has_breakpoint = false;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(lines); i++) {
        long line = PyLong_AsLong(PyList_GET_ITEM(lines, i));
        if (line < 0 && PyErr_Occurred())
            return NULL;
        line_at(&t.files[0], (int)MIN_OF(line, LINES_MAX))->has_breakpoint = true;
    }
    Py_RETURN_NONE;
}

PyObject *trace_output(PyObject *self, PyObject *args)
{
    const char *bytes;
    Py_ssize_t len;
    int is_stderr;
    (void)self;
    if (!PyArg_ParseTuple(args, "py#", &is_stderr, &bytes, &len))
        return NULL;
    struct buf *b = is_stderr ? &t.errout : &t.out;
    if (t.is_on && t.goal == 0 && t.pid == getpid()) {
        size_t keep = MIN_OF((size_t)len, OUTPUT_MAX - b->len);
        t.out_cut = t.out_cut || keep < (size_t)len;
        (void)buf_append(b, bytes, keep, NULL);
    }
    return PyBool_FromLong(t.goal == 0);
}

/* Before CPython 3.13, f_locals of a function is a copy: this writes it back. */
PyObject *trace_store(PyObject *self, PyObject *frame)
{
    (void)self;
    if (!PyFrame_Check(frame)) {
        PyErr_SetString(PyExc_TypeError, "no frame");
        return NULL;
    }
#if PY_VERSION_HEX < 0x030d0000
    PyFrame_LocalsToFast((PyFrameObject *)frame, 0);
#endif
    Py_RETURN_NONE;
}
