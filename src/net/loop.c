/*
 * The event loop. Deferred calls are a list that an idle handle drains: while it is not empty the
 * idle handle is active and libuv does not sleep. A drain runs only what was there when it began,
 * so that a call which defers itself leaves room for the descriptors.
 */

#include "net/loop.h"

#include <signal.h>
#include <stdlib.h>
#include "base/background.h"
#include "base/macros.h"

struct deferred {
    struct deferred *next;
    void (*fn)(void *arg);
    void *arg;
};

#define LAG_WINDOW_NS UINT64_C(60000000000)
#define SHORT_TURN_NS 100000
#define SHORT_TURNS_MAX 8

struct loop {
    uv_loop_t uv;
    uv_idle_t idle;
    uv_prepare_t before_wait;
    uint64_t waited_at_ns, idle_ns; /* when measure() ran last, and libuv's idle time then */
    uint64_t cpu_ns;                /* the thread's processor time when Linux was asked for it */
    unsigned n_short;               /* turns since then */
    uint64_t window_ns;             /* when the window of max_s began */
    double max_s, last_max_s;       /* of this window and of the one before */
    struct loop_lag lag;
    struct deferred *first, **last;
    struct loop_timer *timers;
    uv_signal_t signals[2];
    void (*on_signal)(void *arg, int count);
    void *signal_arg;
    int n_signals;
};

struct loop_timer {
    uv_timer_t uv;
    struct loop_timer *next, **prev;
    void (*fn)(void *arg);
    void *arg;
};

struct work {
    uv_work_t uv;
    void (*work)(void *arg);
    void (*done)(void *arg);
    void *arg;
};

static void background_ended(uv_async_t *handle);

static int uv_failed(struct err *err, int code, const char *what)
{
    return err_set(err, code == UV_ENOMEM ? ERR_NO_MEMORY : ERR_IO, "%s: %s", what,
                   uv_strerror(code));
}

/* ---- lag ---- */

const double loop_lag_bounds[LOOP_LAG_BUCKETS] = { 0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01,
                                                   0.02,   0.05,   0.1,   0.25,   0.5,   1 };

/*
 * Before each wait for events. I/O callbacks run inside libuv's wait, so the busy time is the time
 * since the last call less what libuv spent waiting.
 */
static void count(struct loop_times *t, double seconds)
{
    size_t i = 0;

    while (i < LOOP_LAG_BUCKETS && seconds > loop_lag_bounds[i])
        i++;
    if (i < LOOP_LAG_BUCKETS)
        t->counts[i]++;
    t->count++;
    t->sum_s += seconds;
}

static uint64_t thread_cpu_ns(void)
{
    struct timespec cpu = { 0 };

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
    return (uint64_t)cpu.tv_sec * 1000000000 + (uint64_t)cpu.tv_nsec;
}

static void measure(uv_prepare_t *handle)
{
    struct loop *loop = handle->data;
    uint64_t now = uv_hrtime(), idle = uv_metrics_idle_time(&loop->uv);
    uint64_t waited = idle - loop->idle_ns, passed = now - loop->waited_at_ns;
    uint64_t busy_ns = passed - MIN_OF(waited, passed), cpu_ns = busy_ns;

    /*
     * The processor time of a turn takes a system call. A short turn had at most what it lasted;
     * a long one at most what was used since Linux was asked, which is a few short turns ago.
     */
    if (!loop->waited_at_ns || busy_ns >= SHORT_TURN_NS || ++loop->n_short >= SHORT_TURNS_MAX) {
        uint64_t used_ns = thread_cpu_ns();

        cpu_ns = MIN_OF(busy_ns, used_ns - loop->cpu_ns);
        loop->cpu_ns = used_ns;
        loop->n_short = 0;
    }
    if (loop->waited_at_ns && passed >= waited) {
        double busy_s = (double)busy_ns / 1e9;

        count(&loop->lag.busy, busy_s);
        count(&loop->lag.cpu, (double)cpu_ns / 1e9);
        if (now - loop->window_ns > LAG_WINDOW_NS) {
            loop->last_max_s = loop->max_s;
            loop->max_s = 0;
            loop->window_ns = now;
        }
        if (busy_s > loop->max_s)
            loop->max_s = busy_s;
    }
    loop->waited_at_ns = now;
    loop->idle_ns = idle;
}

void loop_lag(struct loop *loop, struct loop_lag *ret)
{
    *ret = loop->lag;
    ret->max_s = loop->max_s > loop->last_max_s ? loop->max_s : loop->last_max_s;
}

/* ---- the loop ---- */

int loop_create(struct loop **ret, struct err *err)
{
    struct loop *loop = calloc(1, sizeof(*loop));
    int r;

    if (!loop)
        return err_set(err, ERR_NO_MEMORY, "out of memory for the event loop");
    r = uv_loop_init(&loop->uv);
    if (r < 0) {
        free(loop);
        return uv_failed(err, r, "cannot make an event loop");
    }
    uv_idle_init(&loop->uv, &loop->idle);
    loop->idle.data = loop;
    if (uv_loop_configure(&loop->uv, UV_METRICS_IDLE_TIME) == 0) {
        uv_prepare_init(&loop->uv, &loop->before_wait);
        loop->before_wait.data = loop;
        uv_prepare_start(&loop->before_wait, measure);
        uv_unref((uv_handle_t *)&loop->before_wait); /* it is no reason to go on */
    }
    loop->last = &loop->first;
    *ret = loop;
    return 0;
}

static void close_handle(uv_handle_t *h, void *arg)
{
    (void)arg;
    if (!uv_is_closing(h))
        uv_close(h, NULL);
}

static void find_background(uv_handle_t *h, void *arg)
{
    bool *found = arg;

    *found |= h->type == UV_ASYNC && !uv_is_closing(h) &&
              ((uv_async_t *)h)->async_cb == background_ended;
}

/* Whether work in the background has yet to end. */
static bool awaits_background(struct loop *loop)
{
    bool found = false;

    uv_walk(&loop->uv, find_background, &found);
    return found;
}

void loop_destroy(struct loop *loop)
{
    if (!loop)
        return;
    while (loop->timers)
        loop_cancel(loop->timers);
    while (awaits_background(loop)) /* their threads are about to wake this loop */
        uv_run(&loop->uv, UV_RUN_ONCE);
    uv_walk(&loop->uv, close_handle, NULL);
    uv_run(&loop->uv, UV_RUN_DEFAULT);
    /* Work that was under way may have deferred calls or opened handles as it ended. */
    while (uv_loop_close(&loop->uv) == UV_EBUSY) {
        uv_walk(&loop->uv, close_handle, NULL);
        uv_run(&loop->uv, UV_RUN_ONCE);
    }
    while (loop->first) {
        struct deferred *d = loop->first;

        loop->first = d->next;
        free(d);
    }
    free(loop);
}

uv_loop_t *loop_uv(struct loop *loop)
{
    return &loop->uv;
}

void loop_run(struct loop *loop)
{
    loop->waited_at_ns = 0;
    uv_run(&loop->uv, UV_RUN_DEFAULT);
}

void loop_quit(struct loop *loop)
{
    uv_stop(&loop->uv);
}

/* ---- deferred calls ---- */

static void run_deferred(uv_idle_t *idle)
{
    struct loop *loop = idle->data;
    struct deferred *d = loop->first;

    loop->first = NULL;
    loop->last = &loop->first;
    while (d) {
        struct deferred *next = d->next;

        d->fn(d->arg);
        free(d);
        d = next;
    }
    if (!loop->first)
        uv_idle_stop(idle);
}

int loop_defer(struct loop *loop, void (*fn)(void *arg), void *arg, struct err *err)
{
    struct deferred *d = malloc(sizeof(*d));

    if (!d)
        return err_set(err, ERR_NO_MEMORY, "out of memory for a deferred call");
    *d = (struct deferred){ .fn = fn, .arg = arg };
    *loop->last = d;
    loop->last = &d->next;
    if (!uv_is_closing((uv_handle_t *)&loop->idle))
        uv_idle_start(&loop->idle, run_deferred);
    return 0;
}

/* ---- timers ---- */

static void free_timer(uv_handle_t *h)
{
    free(h->data);
}

void loop_cancel(struct loop_timer *timer)
{
    if (!timer)
        return;
    *timer->prev = timer->next;
    if (timer->next)
        timer->next->prev = timer->prev;
    uv_close((uv_handle_t *)&timer->uv, free_timer);
}

static void timer_fired(uv_timer_t *uv)
{
    struct loop_timer *t = uv->data;
    void (*fn)(void *arg) = t->fn;
    void *arg = t->arg;

    loop_cancel(t);
    fn(arg);
}

int loop_after(struct loop *loop, uint64_t delay_ms, void (*fn)(void *arg), void *arg,
               struct loop_timer **ret, struct err *err)
{
    struct loop_timer *t = malloc(sizeof(*t));

    if (!t)
        return err_set(err, ERR_NO_MEMORY, "out of memory for a timer");
    uv_timer_init(&loop->uv, &t->uv);
    t->uv.data = t;
    t->next = loop->timers;
    t->prev = &loop->timers;
    if (t->next)
        t->next->prev = &t->next;
    loop->timers = t;
    t->fn = fn;
    t->arg = arg;
    uv_update_time(&loop->uv);
    uv_timer_start(&t->uv, timer_fired, delay_ms, 0);
    if (ret)
        *ret = t;
    return 0;
}

/* ---- workers ---- */

static void run_work(uv_work_t *uv)
{
    struct work *w = uv->data;

    w->work(w->arg);
}

static void work_done(uv_work_t *uv, int status)
{
    struct work *w = uv->data;

    (void)status; /* nothing is ever cancelled */
    w->done(w->arg);
    free(w);
}

int loop_work(struct loop *loop, void (*work)(void *arg), void (*done)(void *arg), void *arg,
              struct err *err)
{
    struct work *w = malloc(sizeof(*w));
    int r;

    if (!w)
        return err_set(err, ERR_NO_MEMORY, "out of memory for a piece of work");
    *w = (struct work){ .work = work, .done = done, .arg = arg };
    w->uv.data = w;
    r = uv_queue_work(&loop->uv, &w->uv, run_work, work_done);
    if (r < 0) {
        free(w);
        return uv_failed(err, r, "cannot queue work");
    }
    return 0;
}

/* ---- work in the background ---- */

struct background {
    struct background_job job;
    uv_async_t ended; /* active, so that the loop goes on until the work is done */
    void (*work)(void *arg);
    void (*done)(void *arg);
    void *arg;
};

static void run_background(struct background_job *job)
{
    struct background *b = (struct background *)job;

    b->work(b->arg);
    uv_async_send(&b->ended); /* the loop may free it from here on */
}

static void free_background(uv_handle_t *h)
{
    free(h->data);
}

static void background_ended(uv_async_t *handle)
{
    struct background *b = handle->data;

    b->done(b->arg);
    uv_close((uv_handle_t *)handle, free_background);
}

/* owner: of long work, NULL for other. */
static int begin_background(uv_loop_t *uv, const char *owner, void (*work)(void *arg),
                            void (*done)(void *arg), void *arg, struct err *err)
{
    struct background *b = malloc(sizeof(*b));
    int r;

    if (!b)
        return err_set(err, ERR_NO_MEMORY, "out of memory for a piece of work");
    *b = (struct background){ .job.fn = run_background, .work = work, .done = done, .arg = arg };
    r = uv_async_init(uv, &b->ended, background_ended);
    if (r < 0) {
        free(b);
        return uv_failed(err, r, "cannot queue work");
    }
    b->ended.data = b;
    if (!(owner ? background_run_long(&b->job, owner) : background_run(&b->job))) {
        uv_close((uv_handle_t *)&b->ended, free_background);
        return err_set(err, ERR_NO_MEMORY, "no thread can be started");
    }
    return 0;
}

int loop_background(uv_loop_t *uv, void (*work)(void *arg), void (*done)(void *arg), void *arg,
                    struct err *err)
{
    return begin_background(uv, NULL, work, done, arg, err);
}

int loop_background_long(uv_loop_t *uv, const char *owner, void (*work)(void *arg),
                         void (*done)(void *arg), void *arg, struct err *err)
{
    return begin_background(uv, owner, work, done, arg, err);
}

/* ---- signals ---- */

static void got_signal(uv_signal_t *uv, int signum)
{
    struct loop *loop = uv->data;

    (void)signum;
    loop->on_signal(loop->signal_arg, ++loop->n_signals);
}

int loop_on_stop_signal(struct loop *loop, void (*fn)(void *arg, int count), void *arg,
                        struct err *err)
{
    static const int numbers[] = { SIGINT, SIGTERM };

    signal(SIGPIPE, SIG_IGN);
    loop->on_signal = fn;
    loop->signal_arg = arg;
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
        int r = uv_signal_init(&loop->uv, &loop->signals[i]);

        if (r == 0) {
            loop->signals[i].data = loop;
            r = uv_signal_start(&loop->signals[i], got_signal, numbers[i]);
            /* Waiting for a signal is no reason to go on. */
            uv_unref((uv_handle_t *)&loop->signals[i]);
        }
        if (r < 0)
            return uv_failed(err, r, "cannot handle signals");
    }
    return 0;
}
