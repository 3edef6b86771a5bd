/* Sandboxes in the event loop: their descriptors and timers, and the end of those that are no longer wanted. */

#include <signal.h>
#include "base/clock.h"
#include "base/proc.h"
#include "sandbox/pool/executor_impl.h"

/* ---- watching a sandbox ---- */

static void on_watch_closed(uv_handle_t *h)
{
    struct watch *w = h->data;
    if (--w->open_handles == 0)
        free(w);
}

void watch_stop(struct lease *l)
{
    struct watch *w = l->watch;
    if (!w)
        return;
    l->watch = NULL;
    w->lease = NULL;
    for (size_t i = 0; i < w->n_polls; i++)
        uv_close((uv_handle_t *)&w->polls[i], on_watch_closed);
    uv_close((uv_handle_t *)&w->timer, on_watch_closed);
}

static struct sandbox *current_sandbox(struct lease *l)
{
    return l->ingest ? ingest_sandbox(l->ingest) : l->sandbox;
}

static void on_watch_poll(uv_poll_t *h, int status, int events)
{
    (void)status, (void)events;
    struct watch *w = h->data;
    if (w->lease)
        executor_step(w->lease);
}

static void on_watch_timer(uv_timer_t *h)
{
    struct watch *w = h->data;
    if (w->lease)
        executor_step(w->lease);
}

/* Polls what the sandbox wants polled now; a pipe that was closed meanwhile is dropped. */
int watch_update(struct lease *l, struct err *err)
{
    struct pollfd fds[SANDBOX_POLL_MAX];
    int64_t deadline;
    size_t n = sandbox_poll_fds(current_sandbox(l), fds, &deadline);
    struct watch *w = l->watch;
    bool same = w && w->n_polls == n;
    for (size_t i = 0; same && i < n; i++)
        same = w->fds[i] == fds[i].fd;
    if (!same) {
        watch_stop(l);
        w = calloc(1, sizeof(*w));
        if (!w)
            return err_set(err, ERR_NO_MEMORY, "out of memory");
        w->lease = l;
        uv_timer_init(l->ex->loop, &w->timer);
        w->timer.data = w;
        w->open_handles = 1;
        l->watch = w;
        for (size_t i = 0; i < n; i++) {
            int r = uv_poll_init(l->ex->loop, &w->polls[i], fds[i].fd);
            if (r < 0)
                return err_set(err, ERR_INTERNAL, "watching a kernel: %s", uv_strerror(r));
            w->polls[i].data = w;
            w->fds[i] = fds[i].fd;
            w->n_polls++;
            w->open_handles++;
            uv_poll_start(&w->polls[i], UV_READABLE, on_watch_poll);
        }
    }
    if (deadline < 0)
        uv_timer_stop(&w->timer);
    else
        uv_timer_start(&w->timer, on_watch_timer, (uint64_t)MAX_OF(0, deadline - clock_now_ms()), 0);
    return 0;
}

/* ---- letting go of a kernel ---- */

static void on_dying_closed(uv_handle_t *h)
{
    struct dying *d = h->data;
    d->ex->n_dying--;
    free(d);
}

static void on_dead(uv_poll_t *h, int status, int events)
{
    (void)status, (void)events;
    struct dying *d = h->data;
    sandbox_destroy(d->sandbox); /* reaps at once: it is dead */
    uv_close((uv_handle_t *)h, on_dying_closed);
}

void retire(struct executor *ex, struct sandbox *sb)
{
    if (!sb)
        return;
    struct dying *d = sandbox_alive(sb) ? calloc(1, sizeof(*d)) : NULL;
    if (!d || uv_poll_init(ex->loop, &d->poll, sandbox_pidfd(sb)) < 0) {
        free(d);
        sandbox_destroy(sb);
        return;
    }
    d->ex = ex;
    d->sandbox = sb;
    d->poll.data = d;
    ex->n_dying++;
    (void)proc_pidfd_signal(sandbox_pidfd(sb), SIGKILL, NULL);
    uv_poll_start(&d->poll, UV_READABLE, on_dead);
}
