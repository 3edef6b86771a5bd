/* A run of run.h for a command that waits for it. */

#include "run/foreground_impl.h"

struct executing {
    struct foreground *fg;
    const struct run_listener *listener;
    struct foreground_stop stop;
    struct lease *lease; /* when the code has ended */
    bool done;
    struct run_result result;
    struct err err;
};

static void on_begun(void *arg, struct lease *lease)
{
    struct executing *x = arg;
    if (x->listener->begun)
        x->listener->begun(x->listener->arg, lease);
    x->stop.lease = lease;
    foreground_watch_stop(x->fg, &x->stop);
}

static void on_output(void *arg, bool is_stderr, const char *text, size_t len)
{
    struct executing *x = arg;
    x->listener->output(x->listener->arg, is_stderr, text, len);
}

static void on_display(void *arg, json_t *data)
{
    struct executing *x = arg;
    x->listener->display(x->listener->arg, data);
}

static void on_progress(void *arg, const char *stage, double fraction)
{
    struct executing *x = arg;
    x->listener->progress(x->listener->arg, stage, fraction);
}

static bool on_ask(void *arg, struct lease *lease, uint32_t id, const char *what,
                   const json_t *args)
{
    struct executing *x = arg;
    return x->listener->ask(x->listener->arg, lease, id, what, args);
}

static void on_ended(void *arg, struct lease *lease)
{
    struct executing *x = arg;
    x->lease = lease;
}

static void on_done(void *arg, const struct run_report *report, const struct err *err)
{
    struct executing *x = arg;
    x->done = true;
    if (err) {
        x->err = *err;
    } else {
        x->result = *report->ran;
        *report->ran = (struct run_result){ .verdict = x->result.verdict };
    }
}

int foreground_execute(struct foreground *fg, const struct run_spec *spec,
                       const struct run_listener *listener, struct run_stop *stop,
                       struct lease **ret_lease, struct run_result *ret, struct err *err)
{
    static const struct run_listener nobody = { .done = NULL };
    struct runs runs = { .executor = foreground_executor(fg) };
    struct executing x = { .fg = fg, .listener = listener ? listener : &nobody, .err = ERR_INIT };
    const struct run_listener mine = {
        .begun = on_begun,
        .output = x.listener->output ? on_output : NULL,
        .display = x.listener->display ? on_display : NULL,
        .progress = x.listener->progress ? on_progress : NULL,
        .ask = x.listener->ask ? on_ask : NULL,
        .ended = ret_lease ? on_ended : NULL,
        .done = on_done,
        .arg = &x,
    };
    x.stop = (struct foreground_stop){ .stop = stop, .done = &x.done, .err = &x.err };
    struct run *run;
    int r = run_start(&runs, spec, &mine, &run, err);
    if (r < 0)
        return r;
    foreground_wait_for(fg, &x.done);
    foreground_unwatch_stop(fg, &x.stop);
    runs_abandon(&runs); /* killed: it is still under way */
    if (ret_lease)
        *ret_lease = x.lease;
    if (x.err.code != ERR_NONE) {
        *err = x.err;
        return -(int)err->code;
    }
    *ret = x.result;
    return 0;
}
