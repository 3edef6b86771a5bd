/* One loop, run until the callback that is waited for has come. */

#include "run/foreground_impl.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>
#include "base/clock.h"
#include "base/macros.h"

/*
 * Most answers of a live kernel come sooner than a sleeping processor wakes up: the loop looks a
 * moment before it sleeps.
 */
#define SPIN_US 200

struct foreground {
    uv_loop_t loop;
    struct executor *executor;
};

static void do_nothing(uv_work_t *work)
{
    (void)work;
}

static void did_nothing(uv_work_t *work, int status)
{
    (void)status;
    free(work);
}

/*
 * The loop's worker threads are made when they get their first work, with the signal mask of that
 * moment. They block every signal, so that Ctrl-C reaches the command's own thread, which decides
 * what it means.
 */
static void start_workers(struct foreground *fg)
{
    sigset_t all, before;
    uv_work_t *work = calloc(1, sizeof(*work));
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (work && uv_queue_work(&fg->loop, work, do_nothing, did_nothing) < 0)
        free(work);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

int foreground_open(const struct config *cfg, const struct executor_options *opt,
                    struct foreground **ret, struct err *err)
{
    struct foreground *fg = calloc(1, sizeof(*fg));
    if (!fg || uv_loop_init(&fg->loop) < 0) {
        free(fg);
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    }
    start_workers(fg);
    int r = executor_create(&fg->loop, cfg, opt, &fg->executor, err);
    if (r < 0) {
        foreground_close(fg);
        return r;
    }
    *ret = fg;
    return 0;
}

void foreground_close(struct foreground *fg)
{
    if (!fg)
        return;
    executor_destroy(fg->executor);
    while (uv_loop_close(&fg->loop) == UV_EBUSY)
        uv_run(&fg->loop, UV_RUN_ONCE);
    free(fg);
}

struct executor *foreground_executor(struct foreground *fg)
{
    return fg->executor;
}

uv_loop_t *foreground_loop(struct foreground *fg)
{
    return &fg->loop;
}

void foreground_wait_for(struct foreground *fg, const bool *done)
{
    int64_t until = clock_now_us() + SPIN_US;
    while (!*done && clock_now_us() < until)
        uv_run(&fg->loop, UV_RUN_NOWAIT);
    while (!*done)
        uv_run(&fg->loop, UV_RUN_ONCE);
}

/* ---- leases ---- */

struct acquiring {
    bool done;
    struct lease *lease;
    struct err err;
};

static void on_ready(struct lease *lease, const struct err *err, void *arg)
{
    struct acquiring *a = arg;
    a->done = true;
    a->lease = err ? NULL : lease;
    if (err)
        a->err = *err;
}

int foreground_acquire(struct foreground *fg, const struct sandbox_spec *spec,
                       const struct run_events *events, struct lease **ret, struct err *err)
{
    struct acquiring a = { .err = ERR_INIT };
    int r = executor_acquire(fg->executor, FOREGROUND_OWNER, spec, events, on_ready, &a, &a.lease,
                             err);
    if (r < 0)
        return r;
    while (!a.done)
        uv_run(&fg->loop, UV_RUN_ONCE);
    if (!a.lease) {
        *err = a.err;
        return -(int)err->code;
    }
    *ret = a.lease;
    return 0;
}

/* ---- runs ---- */

void foreground_ran(struct lease *lease, struct run_result *result, const struct err *err,
                    void *arg)
{
    struct foreground_result *w = arg;
    (void)lease;
    w->done = true;
    if (err)
        w->err = *err;
    else
        w->result = *result;
}

int foreground_wait(struct foreground *fg, struct foreground_result *w, struct run_result *ret,
                    struct err *err)
{
    foreground_wait_for(fg, &w->done);
    if (w->err.code != ERR_NONE) {
        *err = w->err;
        return -(int)err->code;
    }
    *ret = w->result;
    return 0;
}

static void on_stop(uv_poll_t *h, int status, int events)
{
    struct foreground_stop *s = h->data;
    char drain[256]; /* one signalfd record, or the eight bytes of an eventfd */
    (void)status, (void)events;
    if (read(s->stop->fd, drain, sizeof(drain)) <= 0)
        return;
    if (s->stop->count++ == 0) {
        lease_interrupt(s->lease);
    } else {
        *s->done = true;
        err_set(s->err, ERR_CANCELLED, "the run was killed");
    }
}

static void on_stop_closed(uv_handle_t *h)
{
    struct foreground_stop *s = h->data;
    s->closed = true;
}

void foreground_watch_stop(struct foreground *fg, struct foreground_stop *s)
{
    s->polled = s->stop && uv_poll_init(&fg->loop, &s->poll, s->stop->fd) == 0;
    if (!s->polled)
        return;
    s->poll.data = s;
    uv_poll_start(&s->poll, UV_READABLE, on_stop);
}

void foreground_unwatch_stop(struct foreground *fg, struct foreground_stop *s)
{
    if (s->polled)
        uv_close((uv_handle_t *)&s->poll, on_stop_closed);
    while (s->polled && !s->closed)
        uv_run(&fg->loop, UV_RUN_NOWAIT);
}

int foreground_run(struct foreground *fg, struct lease *lease, const struct run_request *req,
                   struct run_result *ret, struct err *err)
{
    struct foreground_result waiting = { .err = ERR_INIT };
    int r = lease_run(lease, req, NULL, foreground_ran, &waiting, err);
    return r < 0 ? r : foreground_wait(fg, &waiting, ret, err);
}

/* ---- files ---- */

struct piece_wait {
    bool done;
    struct buf *data;
    struct file_piece piece;
    struct err err;
};

static void on_piece(struct lease *lease, const struct file_piece *piece, const struct err *err,
                     void *arg)
{
    struct piece_wait *w = arg;
    (void)lease;
    w->done = true;
    if (err) {
        w->err = *err;
        return;
    }
    w->piece = *piece;
    if (w->data && buf_append(w->data, piece->data, piece->len, &w->err) == 0)
        w->piece.data = buf_cstr(w->data);
}

static int wait_piece(struct foreground *fg, struct piece_wait *w, struct file_piece *ret,
                      struct err *err)
{
    foreground_wait_for(fg, &w->done);
    if (w->err.code != ERR_NONE) {
        *err = w->err;
        return -(int)err->code;
    }
    if (ret)
        *ret = w->piece;
    return 0;
}

int foreground_read_file(struct foreground *fg, struct lease *lease, const char *path,
                         int64_t offset, int64_t max_bytes, struct buf *data,
                         struct file_piece *ret, struct err *err)
{
    struct piece_wait w = { .data = data, .err = ERR_INIT };
    buf_clear(data);
    int r = lease_read_file(lease, path, offset, max_bytes, on_piece, &w, err);
    return r < 0 ? r : wait_piece(fg, &w, ret, err);
}

int foreground_write_file(struct foreground *fg, struct lease *lease, const char *path,
                          const void *data, size_t len, bool append, struct err *err)
{
    struct piece_wait w = { .err = ERR_INIT };
    int r = lease_write_file(lease, path, data, len, append, on_piece, &w, err);
    return r < 0 ? r : wait_piece(fg, &w, NULL, err);
}

int foreground_export(struct foreground *fg, struct lease *lease, const struct lease_export *export,
                      int (*write)(void *arg, const void *data, size_t len, struct err *err),
                      void *arg, struct run_stop *stop, struct err *err)
{
    auto_buf struct buf data = BUF_INIT(FILE_PIECE_MAX + 1);
    struct piece_wait w = { .data = &data, .err = ERR_INIT };
    struct foreground_stop s = { .stop = stop, .lease = lease, .done = &w.done, .err = &w.err };
    int r = lease_export(lease, export, on_piece, &w, err);
    if (r < 0)
        return r;
    foreground_watch_stop(fg, &s);
    while (r == 0) {
        r = wait_piece(fg, &w, NULL, err);
        if (r == 0 && stop && stop->count > 0)
            r = err_set(err, ERR_CANCELLED, "the export was interrupted");
        if (r < 0 || w.piece.end)
            break;
        r = write(arg, buf_cstr(&data), data.len, err);
        buf_clear(&data);
        w.done = false;
        if (r == 0)
            r = lease_export_next(lease, err);
    }
    foreground_unwatch_stop(fg, &s);
    return r;
}
