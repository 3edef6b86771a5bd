#ifndef RIDDLE_SANDBOX_PROVIDER_H
#define RIDDLE_SANDBOX_PROVIDER_H

/*
 * For implementers of sandbox providers; users of sandboxes include sandbox.h.
 * docs/adding-a-provider.md walks through the fake one.
 *
 * A provider starts riddle-kernel somewhere and hands back a link to it: a control stream that
 * carries the wire (wire.h), the kernel's stdout and its stderr. It knows nothing of messages, runs
 * or verdicts. Everything is asynchronous: an op never waits, callbacks come from the event loop
 * and never from within the op that asked for them. All of it runs in the loop's thread; a provider
 * that has to block does so in the loop's worker pool.
 *
 * Life of a link: spawn → (pooled, silent) → start, once → listen/busy … → exited → release. A
 * provider embeds struct kernel_link as the first member of its own type. A file ends with its
 * struct provider_ops; provider.c lists them.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>
#include "base/config.h"
#include "base/err.h"
#include "base/json.h"
#include "sandbox/sandbox.h"

/* What a provider can do besides running kernels. An op whose bit is missing may be NULL. */
enum provider_cap {
    /* interrupt() stops a running cell; without it an interrupt message goes over the wire */
    PROVIDER_INTERRUPT = 1 << 0,
    /* usage() knows processor time, memory and the limits that were hit */
    PROVIDER_USAGE = 1 << 1,
    PROVIDER_LIMIT = 1 << 2,  /* limit() changes the limits of a kernel that waits in the pool */
    PROVIDER_FREEZE = 1 << 3, /* freeze() and thaw() */
    PROVIDER_IMAGE = 1 << 4,  /* image(), restore() and branch() */
    PROVIDER_DISK = 1 << 6,   /* what is written to a writable mount is on this host's disk */
    /* kernels write to directories of this host: a mount may be writable */
    PROVIDER_SHARED_FILES = 1 << 5,
};

struct provider;
struct kernel_link;

/* How a kernel ended. Unknown figures are -1. */
struct kernel_exit {
    int code;    /* exit status, -1 if it was ended by a signal */
    int signal;  /* 0 if it exited */
    bool memory; /* the provider ended it because it was over its memory limit */
};

/* Groups of figures: each costs system calls, so only those that are needed are read. */
enum usage_figures {
    USAGE_CPU = 1 << 0,
    USAGE_PEAK = 1 << 1,
    USAGE_REFUSALS = 1 << 2, /* oom_kills, pids_refused */
    USAGE_PIDS = 1 << 3,
};

struct kernel_usage {
    int64_t cpu_us;            /* so far */
    int64_t peak_memory_bytes; /* so far */
    /* processes of it that were ended for lack of memory; also after its end */
    int64_t oom_kills;
    int64_t pids_refused; /* forks and threads refused by the limit of processes */
    int64_t pids;         /* processes and threads; 0: not known */
};

/*
 * What a link tells its user. The callee may call any op on the link from within, release() too: no
 * event follows it.
 */
struct link_events {
    void (*control)(void *arg, const char *bytes, size_t len);
    void (*output)(void *arg, bool is_stderr, const char *bytes, size_t len);
    /*
     * The last event: nothing follows but release(). What the kernel wrote before its end has been
     * delivered.
     */
    void (*exited)(void *arg, const struct kernel_exit *how);
};

struct kernel_link {
    struct provider *provider;
    const struct link_events *events; /* NULL: nobody listens; only its end is noted */
    void *arg;
    bool dead; /* it has exited; set by the provider before exited() */
};

/*
 * A file or directory that a kernel sees. Named by content: a provider that does not share this
 * host's files sends the bytes.
 */
struct kernel_mount {
    const char *target; /* relative to the kernel's root: "data/orders.csv" */
    const char *sha256; /* of the content, in hexadecimal; NULL for a directory */
    /* where riddle has it; for riddle and this host's kernels, never shown to anybody */
    const char *path;
    bool writable; /* needs PROVIDER_SHARED_FILES */
};

struct spawn_spec {
    enum run_kind kind;
    bool pooled; /* it will wait, and may use the time to prepare itself */
    struct sandbox_limits limits;
};

/* link is NULL when err is not. The callee owns the link and releases it. */
typedef void (*spawn_fn)(void *arg, struct kernel_link *link, const struct err *err);
typedef void (*link_done_fn)(void *arg, const struct err *err);

struct provider_options {
    /* a command that runs once and ends: nothing is prepared that it does not need */
    bool one_shot;
    enum run_kind kind; /* … what it will run */
    const char *code;   /* … to know which packages that needs; may be NULL */
};

/*
 * One line of `riddle doctor`. CAUTION: it works, but something is weaker or slower than it should
 * be.
 */
enum probe_level { PROBE_PASS, PROBE_CAUTION, PROBE_FAIL };
typedef void (*probe_fn)(void *arg, enum probe_level level, const char *name, const char *detail,
                         const char *remedy);

struct provider_ops {
    const char *name;
    unsigned caps;
    /*
     * Checks, blocking, what this provider needs. False: there is no use in trying to make a
     * sandbox.
     */
    bool (*probe)(const struct config *cfg, probe_fn say, void *arg);
    int (*open)(uv_loop_t *loop, const struct config *cfg, const struct provider_options *opt,
                struct provider **ret, struct err *err);
    /* Spawns under way fail soon, and no other comes. NULL: they end in their own time. */
    void (*cancel_spawns)(struct provider *p);
    /*
     * Every link has been released, every spawn has called back. closed() comes when nothing of the
     * provider is left.
     */
    void (*close)(struct provider *p, void (*closed)(void *arg), void *arg);
    /* Starts a kernel. Spawns of one kind may be served one after the other. */
    int (*spawn)(struct provider *p, const struct spawn_spec *spec, spawn_fn done, void *arg,
                 struct err *err);
    /*
     * Tells the kernel what it is for: sends `start` (the wire's message; "mounts" is added here)
     * with its files, and begins to deliver events. An error that comes later ends the kernel:
     * exited() tells.
     */
    int (*start)(struct kernel_link *l, json_t *start, const struct kernel_mount *mounts,
                 size_t n_mounts, struct err *err);
    /*
     * Queues bytes of the control stream. UNAVAILABLE when the kernel is gone. The bytes are copied
     * if they must wait.
     */
    int (*send)(struct kernel_link *l, const void *bytes, size_t len, struct err *err);
    /*
     * A run is under way, or none is. While none is, nothing is read from the kernel (its pipes
     * fill up) and a provider without control groups holds it still.
     */
    void (*set_busy)(struct kernel_link *l, bool busy);
    /*
     * No bytes of the control stream are delivered until it goes on, nor the end of the kernel.
     * Called from within control() or from the loop; what has come by then is delivered later.
     */
    void (*pause_control)(struct kernel_link *l, bool paused);
    /*
     * Delivers now what has arrived on stdout and stderr: what a kernel wrote before an answer is
     * shown before it.
     */
    void (*drain)(struct kernel_link *l);
    int (*limit)(struct kernel_link *l, const struct sandbox_limits *limits, struct err *err);
    void (*interrupt)(struct kernel_link *l);
    void (*kill)(struct kernel_link *l); /* with everything it started; exited() follows */
    /* kills what is left, without a wait and without an event; NULL is fine */
    void (*release)(struct kernel_link *l);
    /* Sets at least these figures, and leaves others as they are. */
    void (*usage)(struct kernel_link *l, unsigned figures, struct kernel_usage *ret);
    void (*freeze)(struct kernel_link *l, link_done_fn done, void *arg);
    void (*thaw)(struct kernel_link *l, link_done_fn done, void *arg);
    /*
     * The next request that is sent takes a pipe along. What the kernel writes to it goes into a
     * new file at `path`, at most max_bytes; done comes when the pipe is closed and the file is
     * complete and synced.
     */
    void (*image)(struct kernel_link *l, const char *path, int64_t max_bytes, link_done_fn done,
                  void *arg);
    /* Before image(): makes what images share. What goes wrong there makes images larger only. */
    void (*prepare_image)(struct kernel_link *l, link_done_fn done, void *arg);
    /* Before start(): the kernel becomes what the file holds. */
    int (*restore)(struct kernel_link *l, const char *path, struct err *err);
    /*
     * The same with a kernel that lives: the next request that is sent to `from` takes a pipe along,
     * whose other end goes with the start of `to`. After prepare_image() of `from`.
     */
    int (*branch)(struct kernel_link *from, struct kernel_link *to, struct err *err);
    /* It did not: it is a new kernel that has read the portable form in the file. */
    void (*was_ported)(struct kernel_link *l);
    /*
     * A look at a kernel that waits, before it is lent: false when it cannot answer, because it was
     * stopped or has just died. Does not wait. May be NULL.
     */
    bool (*usable)(struct kernel_link *l);
    /* How kernels of this kind could be started lately. */
    void (*health)(const struct provider *p, enum run_kind kind, struct kernel_health *ret);
};

/* Embedded first in every provider. */
struct provider {
    const struct provider_ops *ops;
    uv_loop_t *loop;
    const struct config *cfg;
};

/* By SANDBOX_PROVIDER. CONFIG names those that this program has. */
const struct provider_ops *provider_find(const char *name, struct err *err);
/* In order, NULL past the last: for `riddle --version` and tests. */
const struct provider_ops *provider_at(size_t i);

#endif
