/*
 * The docker provider: a kernel is a container of RUNNER_IMAGE whose first process is
 * `riddle-kernel --attached`, spoken to over the container's attached stream with the frames of
 * mux.h. docs/docker.md.
 *
 * Theory of operation. A link is made by create, attach, start, and the relay's word that
 * everything is loaded. Its start sends its files (files.c), then the message. From then on there
 * is nothing but the stream: frames in, frames out. A container ends by itself when its kernel
 * does, when riddle closes the stream, or by `DELETE`; it removes itself.
 *
 * Links that wait in the pool are paused, all but the newest of a kind: pausing and unpausing take
 * the daemon some 30 ms each, and a pool gives out the newest first. When that one goes, the next
 * is woken.
 *
 * What must be waited for before a link's memory can go: calls of the daemon, a file operation, the
 * stream. free_if_done() knows.
 */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "sandbox/docker/docker_impl.h"
#include "sandbox/wire.h"

#define CALL_MS 60000
#define SPAWN_MS 120000
/* Requests that wait for the files, and what a kernel sent while no run is under way. */
#define WAITING_MAX (32u << 20)
#define EARLY_MAX (2u << 20)

static struct docker_link *of(struct kernel_link *l)
{
    return (struct docker_link *)l;
}

static struct docker *provider_of(const struct docker_link *l)
{
    return (struct docker *)l->base.provider;
}

uv_loop_t *docker_link_loop(struct docker_link *l)
{
    return l->base.provider->loop;
}

static void finish_close(struct docker *p);
static void take_frames(struct docker_link *l);
static void pump(struct docker_link *l);

/* ---- the end of a link ---- */

static void free_if_done(struct docker_link *l)
{
    if (!l->released || l->n_calls || !l->timer_closed || !l->stream_closed ||
        l->outbound.under_way || l->inbound.under_way || l->handling)
        return;
    struct docker *p = provider_of(l);
    mux_reader_finish(&l->in);
    buf_finish(&l->early);
    buf_finish(&l->waiting);
    docker_outbound_finish(&l->outbound);
    docker_inbound_finish(&l->inbound);
    free(l);
    p->n_links--;
    finish_close(p);
}

static void remove_container(struct docker_link *l)
{
    if (l->removed || !*l->id)
        return;
    l->removed = true;
    docker_remove(provider_of(l), l->id);
}

static void on_stream_closed(void *arg)
{
    struct docker_link *l = arg;
    l->stream_closed = true;
    free_if_done(l);
}

static void on_timer_closed(uv_handle_t *h)
{
    struct docker_link *l = h->data;
    l->timer_closed = true;
    free_if_done(l);
}

static void docker_release(struct kernel_link *link)
{
    if (!link)
        return;
    struct docker_link *l = of(link);
    docker_leave_pool(l);
    l->released = true;
    l->base.events = NULL;
    remove_container(l);
    if (l->stream)
        engine_stream_close(TAKE_PTR(l->stream), on_stream_closed, l);
    else if (!l->base.dead)
        l->stream_closed = true;
    uv_close((uv_handle_t *)&l->timer, on_timer_closed);
}

/* The kernel is gone, or as good as: nothing of the container is of use any more. */
static void end_link(struct docker_link *l)
{
    if (l->base.dead)
        return;
    docker_leave_pool(l);
    l->base.dead = true;
    remove_container(l);
    if (l->stream)
        engine_stream_close(TAKE_PTR(l->stream), on_stream_closed, l);
    else
        l->stream_closed = true;
    if (l->base.events)
        l->base.events->exited(l->base.arg, &l->how);
}

/* The spawn is over: err is NULL if it succeeded. */
static void spawn_over(struct docker_link *l, const struct err *err)
{
    struct docker *p = provider_of(l);
    spawn_fn done = TAKE_PTR(l->done);
    if (!done)
        return;
    uv_timer_stop(&l->timer);
    if (err && p->kinds[l->spec.kind].failure.code == ERR_NONE)
        p->kinds[l->spec.kind].failed_ms = clock_wall_ms();
    p->kinds[l->spec.kind].failure = err ? *err : (struct err)ERR_INIT;
    l->state = SPAWNED;
    if (!err) {
        done(l->done_arg, &l->base, NULL);
        return;
    }
    struct err why = *err;
    if (*l->words)
        err_set(&why, strstr(l->words, "jail") ? ERR_ISOLATION : ERR_UNAVAILABLE, "%s", l->words);
    void *arg = l->done_arg;
    docker_release(&l->base);
    done(arg, NULL, &why);
}

/* Something went wrong that the link cannot go on after. */
void docker_link_fail(struct docker_link *l, const struct err *err)
{
    if (l->done) {
        spawn_over(l, err);
    } else if (!l->base.dead) {
        log_warn("docker.link", LOG_STR("container", l->id), LOG_STR("error", err->message));
        end_link(l);
    }
}

/* ---- frames from the relay ---- */

static void deliver(struct docker_link *l, const struct mux_frame *f)
{
    if (!l->base.events)
        return;
    if (f->type == MUX_CONTROL)
        l->base.events->control(l->base.arg, f->data, f->len);
    else
        l->base.events->output(l->base.arg, f->type == MUX_STDERR, f->data, f->len);
}

static void deliver_early(struct docker_link *l)
{
    struct mux_reader r;
    struct mux_frame f;
    if (!l->early.len)
        return;
    mux_reader_init(&r);
    r.in = l->early;
    buf_init(&l->early, EARLY_MAX);
    while (mux_reader_next(&r, &f, NULL) == 1)
        deliver(l, &f);
    mux_reader_finish(&r);
}

static int take_output(struct docker_link *l, const struct mux_frame *f, struct err *err)
{
    if (l->state != SPAWNED)
        return err_set(err, ERR_PROTOCOL, "a kernel spoke before it was asked");
    if (l->busy) {
        deliver_early(l);
        deliver(l, f);
        return 0;
    }
    return mux_append(&l->early, f->type, f->data, f->len, err);
}

static void spawn_loaded(struct docker_link *l);

static int take_ready(struct docker_link *l, const struct mux_frame *f, struct err *err)
{
    auto_json json_t *body = NULL;
    long long version = 0;
    int r = json_parse(f->data, f->len, &body, err);
    if (r == 0)
        r = json_get_i64(body, "mux", 0, 0, 1 << 20, &version, err);
    if (r < 0 || l->state != LOADING)
        return err_set(err, ERR_PROTOCOL, "a container said that it is ready out of turn");
    if (version != MUX_VERSION)
        return err_set(
            err, ERR_CONFIG,
            "the image '%s' is of another riddle (protocol %lld, expected %d); run 'make image'",
            l->base.provider->cfg->runner_image, version, MUX_VERSION);
    spawn_loaded(l);
    return 0;
}

static int take_exit(struct docker_link *l, const struct mux_frame *f, struct err *err)
{
    auto_json json_t *body = NULL;
    long long code = -1, sig = 0;
    int r = json_parse(f->data, f->len, &body, err);
    if (r == 0)
        r = json_get_i64(body, "code", -1, -1, 255, &code, err);
    if (r == 0)
        r = json_get_i64(body, "signal", 0, 0, 64, &sig, err);
    if (r < 0)
        return r;
    l->how = (struct kernel_exit){ .code = (int)code, .signal = (int)sig };
    l->exit_told = true;
    if (l->done)
        return 0; /* stderr, which may come later, says why */
    deliver_early(l);
    end_link(l);
    return 0;
}

static int take_frame(struct docker_link *l, const struct mux_frame *f, struct err *err)
{
    switch (f->type) {
    case MUX_CONTROL:
    case MUX_STDOUT:
    case MUX_STDERR:
        return take_output(l, f, err);
    case MUX_FILE:
        return docker_inbound_begin(&l->inbound, f, err);
    case MUX_DATA:
        return docker_inbound_data(&l->inbound, f, err);
    case MUX_READY:
        return take_ready(l, f, err);
    case MUX_USAGE:
        if (f->len != sizeof(l->usage))
            return err_set(err, ERR_PROTOCOL, "figures of usage of the wrong size");
        memcpy(&l->usage, f->data, f->len);
        return 0;
    case MUX_EXIT:
        return take_exit(l, f, err);
    default:
        return err_set(err, ERR_PROTOCOL, "frame %d is not permitted", (int)f->type);
    }
}

static void take_frames(struct docker_link *l)
{
    struct err err = ERR_INIT;
    struct mux_frame f;
    int r = 0;
    l->handling = true; /* events may release the link */
    while (r == 0 && !l->released && !l->base.dead && !l->inbound.under_way && !l->control_paused &&
           (r = mux_reader_next(&l->in, &f, &err)) == 1)
        r = take_frame(l, &f, &err);
    if (r < 0 && !l->released)
        docker_link_fail(l, &err);
    l->handling = false;
    if (l->released)
        free_if_done(l);
    else if (l->stream)
        engine_stream_read(l->stream, !l->inbound.under_way && !l->control_paused);
}

static void on_data(void *arg, bool is_stderr, const char *bytes, size_t len)
{
    struct docker_link *l = arg;
    struct err err = ERR_INIT;
    if (is_stderr) {
        static const char name[] = "riddle-kernel: ";
        const size_t name_len = sizeof(name) - 1, have = strlen(l->words);
        bool is_named = !have && len > name_len && memcmp(bytes, name, name_len) == 0;
        size_t from = is_named ? name_len : 0;
        size_t n = MIN_OF(len - from, WORDS_MAX - have);
        memcpy(l->words + have, bytes + from, n);
        l->words[have + n] = 0;
        while (have + n && l->words[have + n - 1] == '\n')
            l->words[have + --n] = 0;
    } else if (mux_reader_feed(&l->in, bytes, len, &err) < 0) {
        docker_link_fail(l, &err);
    } else {
        take_frames(l);
    }
}

static void on_resume(uv_timer_t *h)
{
    take_frames(h->data);
}

/* The timer was the spawn's, which is over. */
static void docker_pause_control(struct kernel_link *link, bool paused)
{
    struct docker_link *l = of(link);
    l->control_paused = paused;
    if (paused && l->stream && !l->handling)
        engine_stream_read(l->stream, false);
    if (!paused && !l->base.dead)
        uv_timer_start(&l->timer, on_resume, 0, 0);
}

void docker_inbound_ready(struct docker_link *l, const struct err *err)
{
    if (l->released)
        free_if_done(l);
    else if (err)
        docker_link_fail(l, err);
    else
        take_frames(l);
}

static void on_ended(void *arg, const struct err *err)
{
    struct docker_link *l = arg;
    struct err why = ERR_INIT;
    if (l->done) {
        err_set(&why, ERR_UNAVAILABLE, "the container of the kernel ended%s%s", err ? ": " : "",
                err ? err->message : "");
        spawn_over(l, &why);
        return;
    }
    if (!l->exit_told)
        l->how = (struct kernel_exit){ .code = -1, .signal = SIGKILL };
    l->handling = true;
    deliver_early(l);
    l->handling = false;
    if (l->released)
        free_if_done(l);
    else
        end_link(l);
}

/* ---- frames to the relay ---- */

/* Files first, then what waits for them. */
static void pump(struct docker_link *l)
{
    struct err err = ERR_INIT;
    if (l->released || l->base.dead || !l->stream || l->updating)
        return;
    int r = docker_outbound_pump(&l->outbound, l->stream, &err);
    if (r == 1 && l->waiting.len) {
        r = engine_stream_write(l->stream, l->waiting.data, l->waiting.len, &err);
        buf_clear(&l->waiting);
    }
    if (r < 0)
        docker_link_fail(l, &err);
}

void docker_outbound_ready(struct docker_link *l, const struct err *err)
{
    if (l->released)
        free_if_done(l);
    else if (err)
        docker_link_fail(l, err);
    else
        pump(l);
}

static void on_drained(void *arg)
{
    pump(arg);
}

/* Now, unless files or an earlier frame have to go first. */
static int send_frame(struct docker_link *l, enum mux_type type, const void *bytes, size_t len,
                      struct err *err)
{
    if (l->base.dead || !l->stream)
        return err_set(err, ERR_UNAVAILABLE, "the kernel of this sandbox is gone");
    int r = mux_append(&l->waiting, type, bytes, len, err);
    if (r < 0 || l->updating || l->outbound.next < l->outbound.n_files)
        return r;
    r = engine_stream_write(l->stream, l->waiting.data, l->waiting.len, err);
    buf_clear(&l->waiting);
    return r;
}

/* ---- calls of the daemon ---- */

int docker_link_call(struct docker_link *l, const char *method, const char *what,
                     const json_t *body, engine_fn done, struct err *err)
{
    char path[256];
    snprintf(path, sizeof(path), "/containers/%s%s", l->id, what);
    int r = engine_call(provider_of(l)->engine, method, path, body, CALL_MS, done, l, err);
    if (r == 0)
        l->n_calls++;
    return r;
}

/* True if the link has been released meanwhile: it may be freed by now. */
bool docker_link_call_ended(struct docker_link *l)
{
    l->n_calls--;
    if (!l->released)
        return false;
    free_if_done(l);
    return true;
}

/* ---- spawning ---- */

static void spawn_loaded(struct docker_link *l)
{
    if (l->spec.pooled)
        docker_enter_pool(l);
    spawn_over(l, NULL);
}

static void on_started(void *arg, const json_t *body, const struct err *err)
{
    struct docker_link *l = arg;
    (void)body;
    if (docker_link_call_ended(l) || !l->done)
        return;
    if (err)
        spawn_over(l, err);
}

static void on_attached(void *arg)
{
    struct docker_link *l = arg;
    struct err err = ERR_INIT;
    l->state = LOADING; /* the relay may speak before the daemon answers */
    if (docker_link_call(l, "POST", "/start", NULL, on_started, &err) < 0)
        spawn_over(l, &err);
}

static const struct engine_stream_events stream_events = {
    .attached = on_attached,
    .data = on_data,
    .drained = on_drained,
    .ended = on_ended,
};

static void on_created(void *arg, const json_t *body, const struct err *err)
{
    struct docker_link *l = arg;
    const char *id = json_string_value(json_object_get(body, "Id"));
    struct err why = ERR_INIT;
    if (!err && id && strlen(id) < sizeof(l->id) && strspn(id, "0123456789abcdef") == strlen(id))
        snprintf(l->id, sizeof(l->id), "%s", id);
    else if (!err)
        err_set(&why, ERR_PROTOCOL, "the Docker daemon made a container without an id");
    else if (err->code == ERR_NOT_FOUND)
        err_set(&why, ERR_UNAVAILABLE,
                "the image '%s' is not there: run 'make image', or set RUNNER_IMAGE (%s)",
                l->base.provider->cfg->runner_image, err->message);
    else
        why = *err;
    if (l->released)
        remove_container(l);
    if (docker_link_call_ended(l) || !l->done)
        return;
    if (why.code == ERR_NONE) {
        l->state = ATTACHING;
        if (engine_attach(provider_of(l)->engine, l->id, &stream_events, l, &l->stream, &why) == 0)
            return;
    }
    spawn_over(l, &why);
}

static void on_spawn_timeout(uv_timer_t *h)
{
    struct docker_link *l = h->data;
    struct err err = ERR_INIT;
    err_set(&err, ERR_TIMEOUT, "the container of a kernel was not ready within %d s",
            SPAWN_MS / 1000);
    spawn_over(l, &err);
}

static int docker_spawn(struct provider *base, const struct spawn_spec *spec, spawn_fn done,
                        void *arg, struct err *err)
{
    struct docker *p = (struct docker *)base;
    struct docker_link *l = calloc(1, sizeof(*l));
    auto_json json_t *body = docker_container_spec(p, spec);
    if (!l || !body) {
        free(l);
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    }
    *l = (struct docker_link){ .base.provider = base,
                               .spec = *spec,
                               .done = done,
                               .done_arg = arg,
                               .usage = { 0, -1, 0, 0 },
                               .how = { .code = -1, .signal = SIGKILL } };
    l->outbound = (struct docker_outbound){ .link = l, .fd = -1 };
    l->inbound = (struct docker_inbound){ .link = l,
                                          .fd = -1,
                                          .max_bytes = spec->limits.file_bytes };
    mux_reader_init(&l->in);
    buf_init(&l->early, EARLY_MAX);
    buf_init(&l->waiting, WAITING_MAX);
    char path[128];
    snprintf(path, sizeof(path), "/containers/create?name=riddle-%s-%u", p->instance_id,
             ++p->n_made);
    int r = engine_call(p->engine, "POST", path, body, CALL_MS, on_created, l, err);
    if (r < 0) {
        free(l);
        return r;
    }
    l->n_calls++;
    p->n_links++;
    uv_timer_init(base->loop, &l->timer);
    l->timer.data = l;
    uv_timer_start(&l->timer, on_spawn_timeout, SPAWN_MS, 0);
    return 0;
}

/* ---- using a link ---- */

static void on_updated(void *arg, const json_t *body, const struct err *err)
{
    struct docker_link *l = arg;
    (void)body;
    l->updating = false;
    if (docker_link_call_ended(l))
        return;
    if (err)
        docker_link_fail(l, err);
    else
        pump(l);
}

static int docker_limit(struct kernel_link *link, const struct sandbox_limits *limits,
                        struct err *err)
{
    struct docker_link *l = of(link);
    auto_json json_t *body = NULL;
    int r = docker_container_update(&l->spec.limits, limits, &body, err);
    if (r < 0)
        return r;
    /*
     * gVisor and the like cannot change a container's limits: it keeps those that it was made with.
     */
    const char *runtime = l->base.provider->cfg->docker_runtime;
    if (body && (!*runtime || str_eq(runtime, "runc"))) {
        r = docker_link_call(l, "POST", "/update", body, on_updated, err);
        l->updating = r == 0;
    }
    l->spec.limits = *limits;
    l->inbound.max_bytes = limits->file_bytes;
    return r;
}

static int add_mount(struct docker_link *l, json_t *list, const struct kernel_mount *m,
                     struct err *err)
{
    char path[600];
    int r = mux_path(m->target, m->writable, path, sizeof(path), err);
    if (r == 0)
        r = docker_outbound_add(&l->outbound, m, err);
    if (r == 0 && m->writable) {
        if (l->inbound.target)
            return err_set(err, ERR_VALIDATION, "a container has one writable directory");
        l->inbound.target = strdup(m->target);
        l->inbound.path = strdup(m->path);
        if (!l->inbound.target || !l->inbound.path)
            return err_set(err, ERR_NO_MEMORY, "out of memory");
    }
    if (r < 0)
        return r;
    json_t *item = json_pack("{s:s, s:s, s:I, s:I, s:b, s:b}", "target", m->target, "path", path,
                             "dev", (json_int_t)0, "ino", (json_int_t)0, "fd", 0, "writable",
                             m->writable);
    return item && json_array_append_new(list, item) == 0 ?
               0 :
               err_set(err, ERR_VALIDATION, "a file's name is not valid UTF-8");
}

static int docker_start(struct kernel_link *link, json_t *start, const struct kernel_mount *mounts,
                        size_t n_mounts, struct err *err)
{
    struct docker_link *l = of(link);
    json_t *list = json_array();
    int r = l->base.dead ? err_set(err, ERR_UNAVAILABLE, "the kernel's container is gone") : 0;
    for (size_t i = 0; i < n_mounts && r == 0; i++)
        r = add_mount(l, list, &mounts[i], err);
    json_object_set_new(start, "mounts", list);
    auto_buf struct buf frame = BUF_INIT(WAITING_MAX);
    if (r == 0)
        r = wire_append(&frame, WIRE_START, 0, start, err);
    if (r < 0)
        return r;
    docker_leave_pool(l);
    docker_want_paused(l, false); /* what is sent meanwhile waits in its stream */
    r = send_frame(l, MUX_CONTROL, frame.data, frame.len, err);
    if (r == 0)
        pump(l);
    return r;
}

static int docker_send(struct kernel_link *link, const void *bytes, size_t len, struct err *err)
{
    return send_frame(of(link), MUX_CONTROL, bytes, len, err);
}

static void docker_set_busy(struct kernel_link *link, bool busy)
{
    struct docker_link *l = of(link);
    struct err ignored = ERR_INIT; /* a stream that ended tells by itself */
    if (l->busy == busy || l->base.dead)
        return;
    l->busy = busy;
    (void)send_frame(l, MUX_BUSY, busy ? "\1" : "\0", 1, &ignored);
}

static void docker_drain(struct kernel_link *link)
{
    (void)link; /* one stream: what was written first has come first */
}

static void docker_interrupt(struct kernel_link *link)
{
    struct err ignored = ERR_INIT;
    (void)send_frame(of(link), MUX_INTERRUPT, NULL, 0, &ignored);
}

static void docker_kill(struct kernel_link *link)
{
    remove_container(of(link)); /* the end of its stream tells */
}

static void docker_usage(struct kernel_link *link, unsigned figures, struct kernel_usage *ret)
{
    (void)figures; /* the container has sent them all */
    const struct mux_usage *u = &of(link)->usage;
    *ret = (struct kernel_usage){ u->cpu_us, u->peak_memory_bytes, u->oom_kills, u->pids_refused,
                                  0 };
}

/* ---- the provider ---- */

static void docker_health(const struct provider *base, enum run_kind kind,
                          struct kernel_health *ret)
{
    const struct docker *p = (const struct docker *)base;
    ret->starts = p->kinds[kind].starts;
    ret->err = p->kinds[kind].failure;
    ret->since_ms = p->kinds[kind].failed_ms;
}

static int docker_open(uv_loop_t *loop, const struct config *cfg,
                       const struct provider_options *opt, struct provider **ret, struct err *err)
{
    struct docker *p = calloc(1, sizeof(*p));
    if (!p)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    p->base = (struct provider){ .ops = &docker_provider, .loop = loop, .cfg = cfg };
    int r = docker_home_open(p, err);
    if (r == 0)
        r = engine_create(loop, cfg->docker_host, &p->engine, err);
    if (r < 0) {
        docker_home_close(p);
        free(p);
        return r;
    }
    if (!opt->one_shot)
        docker_sweep(p);
    *ret = &p->base;
    return 0;
}

static void finish_close(struct docker *p)
{
    if (!p->closed || p->n_links || p->n_calls)
        return;
    void (*closed)(void *) = p->closed;
    void *arg = p->closed_arg;
    engine_destroy(p->engine);
    docker_home_close(p);
    free(p);
    closed(arg);
}

void docker_call_ended(struct docker *p)
{
    p->n_calls--;
    finish_close(p);
}

static void on_closing(uv_handle_t *h)
{
    struct docker *p = h->data;
    free(h);
    docker_call_ended(p);
}

static void docker_close(struct provider *base, void (*closed)(void *arg), void *arg)
{
    struct docker *p = (struct docker *)base;
    p->closed = closed;
    p->closed_arg = arg;
    /* Never from within this call: by the end of a handle that does nothing. */
    uv_timer_t *turn = calloc(1, sizeof(*turn));
    if (!turn)
        abort();
    p->n_calls++;
    uv_timer_init(base->loop, turn);
    turn->data = p;
    uv_close((uv_handle_t *)turn, on_closing);
}

const struct provider_ops docker_provider = {
    .name = "docker",
    .caps = PROVIDER_INTERRUPT | PROVIDER_USAGE | PROVIDER_LIMIT | PROVIDER_FREEZE |
            PROVIDER_SHARED_FILES,
    .probe = docker_probe,
    .open = docker_open,
    .close = docker_close,
    .spawn = docker_spawn,
    .start = docker_start,
    .send = docker_send,
    .set_busy = docker_set_busy,
    .pause_control = docker_pause_control,
    .drain = docker_drain,
    .limit = docker_limit,
    .interrupt = docker_interrupt,
    .kill = docker_kill,
    .release = docker_release,
    .usage = docker_usage,
    .freeze = docker_freeze,
    .thaw = docker_thaw,
    .health = docker_health,
};
