/*
 * The local provider: kernels as children of riddle, forked from zygotes into jails made by Linux
 * itself.
 *
 * Theory of operation. zygote.c forks a kernel in a worker thread; what it yields becomes a link
 * here, in the loop's thread. A link has four descriptors: the control socket, the pipes of stdout
 * and stderr, and the pidfd, which becomes readable when every process of the kernel's pid
 * namespace is gone. The pidfd is polled for the link's whole life, so a death is noticed in the
 * pool, too; the other three only while a run is under way, so that an idle kernel cannot make
 * riddle read.
 *
 * Where no control group limits memory, a timer adds up what the kernel's processes use while a run
 * is under way, and an idle kernel is held still (watchdog.h).
 *
 * A frozen kernel is frozen by its control group of version 2, or stopped by a signal, process by
 * process, where it has none.
 */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include "base/clock.h"
#include "base/fdio.h"
#include "base/proc.h"
#include "base/str.h"
#include "sandbox/local/local_impl.h"
#include "sandbox/local/watchdog.h"

/* Requests that the kernel has not taken yet. */
#define UNSENT_MAX_BYTES (WIRE_REQUEST_MAX + (2u << 20))
/*
 * Without control groups memory is looked at this often, or more seldom where looking takes long.
 */
#define WATCHDOG_MS 10
#define WATCHDOG_SHARE 10
#define LOOK_MS 3000
/* Of kernels that yield to others, where no control group weighs them. */
#define YIELDING_NICE 6
/*
 * How long the processes of a control group may take until all of them are frozen, and how often
 * they are looked at.
 */
#define FREEZE_MS 2000
#define FREEZE_LOOK_MS 1

static void finish_close(struct local *p);

/* ---- the end of a link ---- */

void local_put_link(struct local_link *l)
{
    if (--l->open_handles > 0)
        return;
    struct local *p = provider_of(l);
    const int fds[] = { l->kernel.pidfd, l->kernel.control, l->kernel.out, l->kernel.errout,
                        l->passed,       l->passed_base,    l->image,      l->image_base };
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    cgroup_destroy(&l->kernel.group);
    user_ids_give_back(&p->users, l->kernel.user);
    buf_finish(&l->unsent);
    free(l);
    p->n_links--;
    finish_close(p);
}

static void free_link(uv_handle_t *h)
{
    local_put_link(h->data);
}

/*
 * The kernel is reaped and nobody holds the link: its handles are closed, and with the last one it
 * is freed.
 */
static void close_link(struct local_link *l)
{
    for (int i = 0; i < _END_MAX; i++)
        if (l->polls[i].data)
            uv_close((uv_handle_t *)&l->polls[i], free_link);
    uv_close((uv_handle_t *)&l->watch, free_link);
    uv_close((uv_handle_t *)&l->settle, free_link);
    local_end_rest(l);
    uv_close((uv_handle_t *)&l->rest, free_link);
}

void local_signal(struct local_link *l, int sig)
{
    if (!l->base.dead)
        (void)proc_pidfd_signal(l->kernel.pidfd, sig, NULL);
}

static void local_kill(struct kernel_link *link)
{
    local_signal(of(link), SIGKILL);
}

static void watch_end(struct local_link *l);

static void local_release(struct kernel_link *link)
{
    if (!link)
        return;
    struct local_link *l = of(link);
    l->released = true;
    l->base.events = NULL;
    uv_timer_stop(&l->settle);
    if (l->passed >= 0)
        close(TAKE_FD(l->passed)); /* its reader ends */
    if (l->passed_base >= 0)
        close(TAKE_FD(l->passed_base));
    if (l->base.dead) {
        close_link(l);
        return;
    }
    local_signal(l, SIGKILL); /* on_pidfd closes it */
    watch_end(l);
}

/* ---- the end of a kernel ---- */

/* Every process of the kernel is gone. */
static void on_pidfd(uv_poll_t *h, int status, int events)
{
    struct local_link *l = h->data;
    (void)status, (void)events;
    /* What it left in its pipes and its socket comes before the news of its end. */
    static const int order[] = { END_OUT, END_ERR, END_CONTROL };
    for (size_t i = 0; i < ARRAY_SIZE(order); i++)
        while (local_read_end(l, order[i]))
            ;
    l->exit_waits = l->control_paused && l->base.events;
    if (l->exit_waits) {
        uv_poll_stop(h);
        return;
    }
    pid_t pid = wait4(l->kernel.pid, &l->wait_status, WNOHANG, &l->usage);
    if (pid == 0 || (pid < 0 && errno == EINTR))
        return;
    uv_poll_stop(h);
    uv_timer_stop(&l->watch);
    l->base.dead = true;
    if (l->released) {
        close_link(l);
        return;
    }
    for (int end = 0; end < END_PIDFD; end++)
        local_poll_stop(l, end);
    struct kernel_exit how = {
        .code = WIFEXITED(l->wait_status) ? WEXITSTATUS(l->wait_status) : -1,
        .signal = WIFSIGNALED(l->wait_status) ? WTERMSIG(l->wait_status) : 0,
        .memory = l->over_memory,
    };
    if (l->base.events)
        l->base.events->exited(l->base.arg, &how);
}

/* The end of the kernel, if that is what waits, is told by the loop. */
static void watch_end(struct local_link *l)
{
    if (!l->exit_waits)
        return;
    l->exit_waits = false;
    uv_poll_start(&l->polls[END_PIDFD], UV_READABLE, on_pidfd);
}

static void local_pause_control(struct kernel_link *link, bool paused)
{
    struct local_link *l = of(link);
    l->control_paused = paused;
    local_poll_control(l);
    if (!paused)
        watch_end(l);
}

/* ---- memory without control groups ---- */

static void on_watch(uv_timer_t *h)
{
    struct local_link *l = h->data;
    int64_t begun_us = clock_now_us();
    if (watchdog_used_kb(l->kernel.pid, l->pids, l->kernel.shared_kb) * 1024 > l->memory_bytes) {
        l->over_memory = true;
        local_signal(l, SIGKILL);
        return;
    }
    int64_t next = MAX_OF((int64_t)WATCHDOG_MS,
                          (clock_now_us() - begun_us) * WATCHDOG_SHARE / 1000);
    uv_timer_start(h, on_watch, (uint64_t)next, 0);
}

/* An idle kernel does nothing: what its cells left running would take memory unseen. */
static void hold(struct local_link *l)
{
    uv_timer_stop(&l->watch);
    if (!l->watch_memory || l->base.dead || l->held)
        return;
    l->held = true;
    if (!watchdog_stop(l->kernel.pid, l->pids))
        local_signal(l, SIGKILL);
}

static void let_go(struct local_link *l)
{
    if (!l->watch_memory || l->base.dead)
        return;
    if (l->held)
        watchdog_continue(l->kernel.pid, l->pids);
    l->held = false;
    uv_timer_start(&l->watch, on_watch, WATCHDOG_MS, 0);
}

/* ---- freezing ---- */

static void on_settle(uv_timer_t *h)
{
    struct local_link *l = h->data;
    struct err *err = &l->settle_err;
    bool waits = l->frozen && !err->code && !l->base.dead && cgroup_can_freeze(&l->kernel.group) &&
                 !cgroup_is_frozen(&l->kernel.group);
    if (waits && clock_now_ms() < l->settle_by_ms) {
        uv_timer_start(h, on_settle, FREEZE_LOOK_MS, 0);
        return;
    }
    if (waits) {
        (void)cgroup_freeze(&l->kernel.group, false, NULL);
        (void)err_set(err, ERR_TIMEOUT, "the kernel's processes did not stand still within %d s",
                      FREEZE_MS / 1000);
    }
    if (l->base.dead && !err->code)
        (void)err_set(err, ERR_UNAVAILABLE, "the kernel of this sandbox is gone");
    if (err->code)
        l->frozen = false;
    if (l->frozen)
        local_page_out(l);
    l->settled(l->settled_arg, err->code ? err : NULL);
}

static void settle(struct local_link *l, link_done_fn done, void *arg)
{
    l->settled = done;
    l->settled_arg = arg;
    l->settle_by_ms = clock_now_ms() + FREEZE_MS;
    uv_timer_start(&l->settle, on_settle, 0, 0); /* never from within the call */
}

static void local_freeze(struct kernel_link *link, link_done_fn done, void *arg)
{
    struct local_link *l = of(link);
    l->settle_err = (struct err)ERR_INIT;
    l->frozen = true;
    if (l->base.dead || l->held) {
        /* it does nothing already */
    } else if (cgroup_can_freeze(&l->kernel.group)) {
        (void)cgroup_freeze(&l->kernel.group, true, &l->settle_err);
    } else if (!watchdog_stop(l->kernel.pid, l->pids)) {
        (void)err_set(&l->settle_err, ERR_UNAVAILABLE,
                      "the kernel starts processes faster than they can be stopped");
        local_signal(l, SIGKILL);
    }
    settle(l, done, arg);
}

static void local_thaw(struct kernel_link *link, link_done_fn done, void *arg)
{
    struct local_link *l = of(link);
    l->settle_err = (struct err)ERR_INIT;
    l->frozen = false;
    if (l->base.dead || l->held) {
        /* its next run lets it go */
    } else if (cgroup_can_freeze(&l->kernel.group)) {
        (void)cgroup_freeze(&l->kernel.group, false, &l->settle_err);
    } else {
        watchdog_continue(l->kernel.pid, l->pids);
    }
    settle(l, done, arg);
}

/* ---- using a link ---- */

static void local_set_busy(struct kernel_link *link, bool busy)
{
    struct local_link *l = of(link);
    if (l->busy == busy || l->base.dead)
        return;
    l->busy = busy;
    if (busy) {
        local_end_rest(l); /* a client asks for more */
        local_poll_output(l);
        let_go(l);
        local_poll_control(l);
    } else { /* polled for until something comes: most often the next request is first */
        buf_clear(&l->unsent);
        hold(l);
    }
}

static int local_send(struct kernel_link *link, const void *bytes, size_t len, struct err *err)
{
    struct local_link *l = of(link);
    size_t sent = 0;
    if (l->base.dead || l->ended[END_CONTROL])
        return err_set(err, ERR_UNAVAILABLE, "the kernel of this sandbox is gone");
    if (l->passed >= 0) {
        const int fds[2] = { TAKE_FD(l->passed), TAKE_FD(l->passed_base) };
        int r = fd_send_fds(l->kernel.control, bytes, len, fds, fds[1] < 0 ? 1 : 2, err);
        close(fds[0]);
        if (fds[1] >= 0)
            close(fds[1]);
        return r;
    }
    if (l->unsent.len == 0 && !l->unsealing) {
        ssize_t n = send(l->kernel.control, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return err_errno(err, ERR_UNAVAILABLE, errno, "sending a request to the kernel");
        sent = n > 0 ? (size_t)n : 0;
    }
    if (sent == len)
        return 0;
    int r = buf_append(&l->unsent, (const char *)bytes + sent, len - sent, err);
    if (r == 0)
        local_poll_control(l);
    return r;
}

static int local_start(struct kernel_link *link, json_t *start, const struct kernel_mount *mounts,
                       size_t n_mounts, struct err *err)
{
    struct local_link *l = of(link);
    int fds[FD_PASS_MAX];
    size_t n_fds = 0;
    int r = n_mounts <= FD_PASS_MAX ?
                0 :
                err_set(err, ERR_VALIDATION, "more than %d files", FD_PASS_MAX);
    json_t *list = json_array();
    for (size_t i = 0; i < n_mounts && r == 0; i++) {
        struct shown_file shown;
        r = shown_open(provider_of(l), &mounts[i], l->kernel.user, &shown, err);
        if (r < 0)
            break;
        if (shown.mount_fd >= 0)
            fds[n_fds++] = shown.mount_fd;
        /*
         * The path tells where the file is and whose it is: a kernel that does not open it is not
         * told.
         */
        bool needs_path = shown.mount_fd < 0 || str_eq(l->base.provider->cfg->jail, "partial");
        json_t *item = json_pack("{s:s, s:s, s:I, s:I, s:b, s:b}", "target", mounts[i].target,
                                 "path", needs_path ? mounts[i].path : "", "dev",
                                 (json_int_t)shown.dev, "ino", (json_int_t)shown.ino, "fd",
                                 shown.mount_fd >= 0, "writable", mounts[i].writable);
        if (!item || json_array_append_new(list, item) < 0)
            r = err_set(err, ERR_VALIDATION, "a file's name is not valid UTF-8");
    }
    json_object_set_new(start, "mounts", list);
    if (r == 0 && l->image >= 0) {
        json_object_set_new(start, "image", json_true());
        if (local_is_own_base(l))
            json_object_set_new(start, "own_base", json_true());
        if (n_fds + 2 > FD_PASS_MAX)
            r = err_set(err, ERR_VALIDATION, "more than %d files", FD_PASS_MAX - 2);
        if (r == 0)
            fds[n_fds++] = TAKE_FD(l->image);
        if (r == 0 && l->image_base >= 0)
            fds[n_fds++] = TAKE_FD(l->image_base);
    }
    if (r == 0 && l->unsealing) {
        unseal_hold_start(l, start, fds, n_fds);
        return 0;
    }
    if (r == 0)
        r = wire_send_json(l->kernel.control, WIRE_START, 0, start, fds, n_fds, err);
    for (size_t i = 0; i < n_fds; i++)
        close(fds[i]);
    return r;
}

static int local_limit(struct kernel_link *link, const struct sandbox_limits *limits,
                       struct err *err)
{
    struct local_link *l = of(link);
    l->pids = limits->pids;
    l->memory_bytes = limits->memory_bytes;
    if (limits->yields && provider_of(l)->cgroups.at[CGROUP_CPU].version == 0)
        (void)setpriority(PRIO_PROCESS, (id_t)l->kernel.pid, YIELDING_NICE);
    if (limits->yields)
        proc_run_in_long_slices(l->kernel.pid);
    return cgroup_limit(&l->kernel.group, limits, err);
}

static void local_interrupt(struct kernel_link *link)
{
    local_signal(of(link), SIGINT);
}

/* Processor time of the kernel so far, its ended children not included while it lives. */
static int64_t cpu_us(struct local_link *l)
{
    struct timespec t;
    const struct rusage *u = &l->usage;
    if (l->base.dead)
        return (int64_t)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) * 1000000 + u->ru_utime.tv_usec +
               u->ru_stime.tv_usec;
    if (!l->has_clock && clock_getcpuclockid(l->kernel.pid, &l->clock) != 0)
        return 0;
    l->has_clock = true;
    if (clock_gettime(l->clock, &t) < 0)
        return 0;
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void local_usage(struct kernel_link *link, unsigned figures, struct kernel_usage *ret)
{
    struct local_link *l = of(link);
    struct cgroup *group = &l->kernel.group;
    if (figures & USAGE_CPU)
        ret->cpu_us = cpu_us(l);
    if (figures & USAGE_PEAK)
        ret->peak_memory_bytes = cgroup_peak_memory(group);
    if (figures & USAGE_REFUSALS) {
        ret->oom_kills = cgroup_oom_kills(group);
        ret->pids_refused = cgroup_pids_refused(group);
    }
    if (figures & USAGE_PIDS)
        ret->pids = cgroup_pids(group);
}

pid_t local_link_pid(const struct kernel_link *link)
{
    return link->dead ? 0 : ((const struct local_link *)link)->kernel.pid;
}

pid_t local_zygote_pid(const struct provider *p, enum run_kind kind)
{
    return ((const struct local *)p)->zygotes[kind].pid;
}

/* ---- spawning ---- */

struct local_spawn {
    uv_work_t work;
    struct local *provider;
    struct local_spawn *next;
    struct spawn_spec spec;
    spawn_fn done; /* NULL: only the zygote is wanted */
    void *arg;
    struct kernel_proc kernel;
    unsigned starts;
    int result;
    struct err err;
};

static int make_link(struct local *p, struct local_spawn *s, struct kernel_link **ret,
                     struct err *err)
{
    struct local_link *l = calloc(1, sizeof(*l));
    if (!l) {
        kernel_kill(p, &s->kernel);
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    }
    const int fds[_END_MAX] = { s->kernel.control, s->kernel.out, s->kernel.errout,
                                s->kernel.pidfd };
    l->base.provider = &p->base;
    l->kernel = s->kernel;
    l->pids = s->spec.limits.pids;
    l->memory_bytes = s->spec.limits.memory_bytes;
    l->watch_memory = p->cgroups.at[CGROUP_MEMORY].version == 0;
    buf_init(&l->unsent, UNSENT_MAX_BYTES);
    p->n_links++;
    uv_timer_init(p->base.loop, &l->watch);
    uv_timer_init(p->base.loop, &l->settle);
    uv_timer_init(p->base.loop, &l->rest);
    l->watch.data = l->settle.data = l->rest.data = l;
    l->open_handles = 3;
    l->passed = l->passed_base = l->image = l->image_base = -1;
    l->kind = s->spec.kind;
    int r = 0;
    for (int i = 0; i < _END_MAX && r == 0; i++) {
        r = uv_poll_init(p->base.loop, &l->polls[i], fds[i]);
        if (r == 0) {
            l->polls[i].data = l;
            l->open_handles++;
        }
    }
    if (r == 0)
        r = uv_poll_start(&l->polls[END_PIDFD], UV_READABLE, on_pidfd);
    if (r < 0) {
        (void)proc_pidfd_signal(l->kernel.pidfd, SIGKILL, NULL);
        while (waitpid(l->kernel.pid, NULL, 0) < 0 && errno == EINTR)
            ;
        close_link(l);
        return err_set(err, ERR_UNAVAILABLE, "watching a kernel: %s", uv_strerror(r));
    }
    *ret = &l->base;
    return 0;
}

static void spawn_work(uv_work_t *work)
{
    struct local_spawn *s = work->data;
    if (s->done)
        s->result = kernel_spawn(s->provider, &s->spec, &s->kernel, &s->starts, &s->err);
    else
        s->result = zygote_revive(s->provider, s->spec.kind, &s->starts, &s->err);
}

static void spawn_next(struct local *p, enum run_kind kind);

/*
 * A zygote that ends may have cloned a kernel that it did not tell of. Such a kernel finds its
 * control socket closed and ends; as a child of riddle it stays a zombie until it is reaped. A
 * child of ours that is a zombie now and still is some seconds later is one: others are reaped as
 * soon as they end.
 */
static void reap_orphans(struct local *p)
{
    for (size_t i = 0; i < p->n_orphans; i++)
        if (proc_state(p->orphans[i]) == 'Z')
            (void)waitpid(p->orphans[i], NULL, WNOHANG);
    p->n_orphans = proc_zombies(p->orphans, ORPHANS_MAX);
    p->seeks_orphans = p->n_orphans > 0;
}

static void spawn_done(uv_work_t *work, int status)
{
    struct local_spawn *s = work->data;
    struct local *p = s->provider;
    enum run_kind kind = s->spec.kind;
    struct kernel_link *link = NULL;
    if (status < 0)
        s->result = err_set(&s->err, ERR_CANCELLED, "starting a kernel was cancelled");
    if (s->result == 0 && s->done)
        s->result = make_link(p, s, &link, &s->err);
    if (s->result < 0 && p->spawns[kind].failure.code == ERR_NONE)
        p->spawns[kind].failed_ms = clock_wall_ms();
    p->spawns[kind].failure = s->result < 0 ? s->err : (struct err)ERR_INIT;
    p->spawns[kind].starts += s->starts;
    p->seeks_orphans = p->seeks_orphans || s->starts > 0;
    p->spawns[kind].first = s->next;
    if (!s->next)
        p->spawns[kind].end = &p->spawns[kind].first;
    spawn_next(p, kind);
    bool revived = !s->done;
    if (s->done)
        s->done(s->arg, link, s->result < 0 ? &s->err : NULL);
    free(s);
    if (revived) {
        p->n_links--;
        finish_close(p);
    }
}

static void spawn_next(struct local *p, enum run_kind kind)
{
    struct local_spawn *s = p->spawns[kind].first;
    if (s && uv_queue_work(p->base.loop, &s->work, spawn_work, spawn_done) < 0)
        abort(); /* only without a callback */
}

static int queue_spawn(struct local *p, const struct spawn_spec *spec, spawn_fn done, void *arg,
                       struct err *err)
{
    struct local_spawn *s = calloc(1, sizeof(*s));
    if (!s)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    *s = (struct local_spawn){
        .provider = p, .spec = *spec, .done = done, .arg = arg, .kernel = KERNEL_PROC_NONE
    };
    s->work.data = s;
    bool idle = !p->spawns[spec->kind].first;
    *p->spawns[spec->kind].end = s;
    p->spawns[spec->kind].end = &s->next;
    if (idle)
        spawn_next(p, spec->kind);
    return 0;
}

static int local_spawn_kernel(struct provider *base, const struct spawn_spec *spec, spawn_fn done,
                              void *arg, struct err *err)
{
    return queue_spawn((struct local *)base, spec, done, arg, err);
}

/*
 * A zygote that died while the pool is full is replaced before somebody has to wait for it. Those
 * that were never started are not wanted yet. While nothing is spawned no other thread changes it.
 */
static void look_at_zygote(struct local *p, enum run_kind kind)
{
    const struct zygote *z = &p->zygotes[kind];
    const struct spawn_spec spec = { .kind = kind };
    struct err ignored = ERR_INIT;
    bool lives = z->pid > 0 && !strchr("ZX", proc_state(z->pid));
    if (p->spawns[kind].first || z->generation == 0 || lives)
        return;
    if (queue_spawn(p, &spec, NULL, NULL, &ignored) == 0)
        p->n_links++; /* it keeps the provider */
}

static void on_look(uv_timer_t *t)
{
    struct local *p = t->data;
    for (int kind = 0; kind < _RUN_KIND_MAX; kind++)
        look_at_zygote(p, (enum run_kind)kind);
    if (p->seeks_orphans)
        reap_orphans(p);
}

static void local_health(const struct provider *base, enum run_kind kind, struct kernel_health *ret)
{
    const struct local *p = (const struct local *)base;
    ret->starts = p->spawns[kind].starts;
    ret->err = p->spawns[kind].failure;
    ret->since_ms = p->spawns[kind].failed_ms;
}

/* Not one that was stopped, unless riddle did it, nor one whose end the loop has not seen yet. */
static bool local_usable(struct kernel_link *link)
{
    const struct local_link *l = of(link);
    char state = proc_state(l->kernel.pid);
    return !link->dead && state != 'Z' && state != 'X' && (l->held || state != 'T');
}

/* ---- the provider ---- */

int local_kernel_path(const struct config *cfg, char *ret, size_t n, struct err *err)
{
    if (*cfg->kernel_path) {
        snprintf(ret, n, "%s", cfg->kernel_path);
        return 0;
    }
    char dir[PATH_MAX - 32];
    int r = proc_self_dir(dir, sizeof(dir), err);
    if (r == 0)
        snprintf(ret, n, "%s/riddle-kernel", dir);
    return r;
}

static int find_kernel(const struct config *cfg, char *ret, size_t n, struct err *err)
{
    int r = local_kernel_path(cfg, ret, n, err);
    if (r == 0 && access(ret, X_OK) < 0)
        r = err_errno(
            err, ERR_CONFIG, errno,
            "the program riddle-kernel is not at '%s'; build it with 'make' or set RIDDLE_KERNEL",
            ret);
    return r;
}

static int open_home(const struct config *cfg, char *ret, size_t n, struct err *err)
{
    char path[PATH_MAX], cache[PATH_MAX + 32];
    int r = fd_mkdir_p(cfg->home, 0700, err);
    if (r == 0 && !realpath(cfg->home, path))
        r = err_errno(err, ERR_IO, errno, "'%s'", cfg->home);
    if (r == 0 && snprintf(ret, n, "%s", path) >= (int)n - 64)
        return err_set(err, ERR_CONFIG, "RIDDLE_HOME is too long: '%s'", path);
    if (r == 0) {
        snprintf(cache, sizeof(cache), "%s/cache/matplotlib", path);
        r = fd_mkdir_p(cache, 0700, err);
    }
    return r < 0 ? err_wrap(err, "RIDDLE_HOME") : 0;
}

static bool wants_plots(const char *code)
{
    static const char *const words[] = { "plot", "seaborn", "sns.", "plt." };
    for (size_t i = 0; code && i < ARRAY_SIZE(words); i++)
        if (strstr(code, words[i]))
            return true;
    return false;
}

static int local_open(uv_loop_t *loop, const struct config *cfg, const struct provider_options *opt,
                      struct provider **ret, struct err *err)
{
    struct local *p = calloc(1, sizeof(*p));
    if (!p)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    extern const struct provider_ops local_provider;
    p->base = (struct provider){ .ops = &local_provider, .loop = loop, .cfg = cfg };
    p->root = geteuid() == 0;
    user_ids_init(&p->users, p->root ? (unsigned)cfg->sandbox_uids : 1);
    p->one_shot = opt->one_shot;
    p->plots = wants_plots(opt->code);
    for (int i = 0; i < _RUN_KIND_MAX; i++) {
        p->zygotes[i] = (struct zygote){ .sock = -1,
                                         .stderr_fd = -1,
                                         .lock = PTHREAD_MUTEX_INITIALIZER };
        p->spawns[i].end = &p->spawns[i].first;
    }
    int r = find_kernel(cfg, p->kernel_path, sizeof(p->kernel_path), err);
    if (r == 0)
        r = open_home(cfg, p->home, sizeof(p->home), err);
    if (r < 0) {
        free(p);
        return r;
    }
    if (!p->one_shot && (p->look = calloc(1, sizeof(*p->look)))) {
        uv_timer_init(loop, p->look);
        uv_unref((uv_handle_t *)p->look);
        p->look->data = p;
        uv_timer_start(p->look, on_look, LOOK_MS, LOOK_MS);
    }
    signal(SIGPIPE, SIG_IGN);
    cgroup_tree_open(&p->cgroups);
    /* It loads while the files are hashed. What hinders it is told when it is needed. */
    struct err ignored = ERR_INIT;
    if (p->one_shot && zygote_launch(p, opt->kind, &ignored) == 0)
        p->spawns[opt->kind].starts++;
    *ret = &p->base;
    return 0;
}

static void finish_close(struct local *p)
{
    if (!p->closed || p->n_links > 0)
        return;
    void (*closed)(void *) = p->closed;
    void *arg = p->closed_arg;
    for (int kind = 0; kind < _RUN_KIND_MAX; kind++)
        zygote_stop(&p->zygotes[kind]);
    id_maps_close(p);
    cgroup_tree_close(&p->cgroups);
    free(p);
    closed(arg);
}

static void free_timer(uv_handle_t *h)
{
    free(h);
}

static void on_closing(uv_handle_t *h)
{
    struct local *p = h->data;
    free(h);
    finish_close(p);
}

static void local_cancel_spawns(struct provider *base)
{
    struct local *p = (struct local *)base;
    atomic_store(&p->closing, true);
    for (int kind = 0; kind < _RUN_KIND_MAX; kind++)
        if (p->zygotes[kind].pid > 0)
            kill(p->zygotes[kind].pid, SIGKILL);
}

static void local_close(struct provider *base, void (*closed)(void *arg), void *arg)
{
    struct local *p = (struct local *)base;
    if (p->look)
        uv_close((uv_handle_t *)TAKE_PTR(p->look), free_timer);
    p->closed = closed;
    p->closed_arg = arg;
    local_cancel_spawns(base); /* zygotes end while the kernels do */
    if (p->n_links > 0)
        return; /* the last one finishes */
    /* Never from within this call: by the end of a handle that does nothing. */
    uv_timer_t *turn = calloc(1, sizeof(*turn));
    if (!turn)
        abort();
    uv_timer_init(p->base.loop, turn);
    turn->data = p;
    uv_close((uv_handle_t *)turn, on_closing);
}

const struct provider_ops local_provider = {
    .name = "local",
    .caps = PROVIDER_INTERRUPT | PROVIDER_USAGE | PROVIDER_LIMIT | PROVIDER_FREEZE |
            PROVIDER_IMAGE | PROVIDER_SHARED_FILES | PROVIDER_DISK,
    .probe = local_probe,
    .open = local_open,
    .cancel_spawns = local_cancel_spawns,
    .close = local_close,
    .spawn = local_spawn_kernel,
    .start = local_start,
    .send = local_send,
    .set_busy = local_set_busy,
    .pause_control = local_pause_control,
    .drain = local_drain,
    .limit = local_limit,
    .interrupt = local_interrupt,
    .kill = local_kill,
    .release = local_release,
    .usage = local_usage,
    .freeze = local_freeze,
    .thaw = local_thaw,
    .image = local_image,
    .prepare_image = local_prepare_image,
    .branch = local_branch,
    .restore = local_restore,
    .was_ported = local_was_ported,
    .usable = local_usable,
    .health = local_health,
};
