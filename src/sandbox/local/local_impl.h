#ifndef RIDDLE_SANDBOX_LOCAL_LOCAL_IMPL_H
#define RIDDLE_SANDBOX_LOCAL_LOCAL_IMPL_H

/*
 * What the files of the local provider share: local.c (the provider and its links, in the loop's
 * thread), zygote.c (fork servers and spawns, in worker threads), shown.c (files of this host in a
 * jail).
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>
#include "base/buf.h"
#include "base/limits.h"
#include "sandbox/image_file.h"
#include "sandbox/local/cgroup.h"
#include "sandbox/local/user_ids.h"
#include "sandbox/provider.h"
#include "sandbox/wire.h"

#define BASE_KEY_HEX 16

struct zygote {
    pid_t pid;    /* 0: not running */
    bool greeted; /* it has said hello */
    bool lost;    /* it did not answer, or not what it should: it is to be replaced */
    int sock;
    int stderr_fd;                       /* its last words */
    int64_t anon_kb;                     /* memory that its kernels share with it */
    pthread_mutex_t lock;                /* spawns, and whoever wants its base */
    unsigned generation;                 /* counts zygotes of this kind */
    char base_id[IMAGE_BASE_ID_SIZE];    /* of its memory as a file; "": there is none yet */
    char base_key[BASE_KEY_HEX + 1];     /* what the names of its bases begin with */
    char offered_id[IMAGE_BASE_ID_SIZE]; /* the base that it was given to become; "": none */
    bool is_base_bad;                    /* … which did not end well: no more of them */
};

/*
 * Owners of files whose content other users may not read, as user namespaces that map them to the
 * id of a kernel.
 */
#define ID_MAPS_MAX 64
#define ORPHANS_MAX 64
struct id_map {
    uid_t uid;
    gid_t gid;
    unsigned user; /* of the kernel: user_ids.h */
    int userns;
};

/* A forked kernel: boxed, not yet told what it is for. */
struct kernel_proc {
    pid_t pid;
    int pidfd, control, out, errout;
    struct cgroup group;
    int64_t shared_kb;
    unsigned generation; /* of its zygote */
    unsigned user;       /* user_ids.h */
};

#define KERNEL_PROC_NONE                                                                           \
    {                                                                                              \
        .pid = 0, .pidfd = -1, .control = -1, .out = -1, .errout = -1, .group = CGROUP_NONE        \
    }

struct local_spawn;

struct local {
    struct provider base;
    char kernel_path[4096];
    char home[4096]; /* absolute */
    bool root;       /* started by root: kernels run as cfg->sandbox_uid and those behind it */
    bool one_shot;   /* see struct provider_options */
    bool plots;      /* … and the code wants its plotting packages */
    struct user_ids users;
    struct cgroup_tree cgroups;
    struct zygote zygotes[_RUN_KIND_MAX]; /* touched by the spawn under way only */
    struct {
        struct local_spawn *first, **end; /* the first one is under way */
        struct err failure;               /* of the last one */
        int64_t failed_ms;                /* since when they fail, by the wall clock */
        unsigned starts;                  /* of its zygote so far; written in the loop's thread */
    } spawns[_RUN_KIND_MAX];
    uv_timer_t *look; /* at zygotes, and at kernels whose zygote ended before it told of them */
    bool seeks_orphans;
    pid_t orphans[ORPHANS_MAX];
    size_t n_orphans;
    struct id_map id_maps[ID_MAPS_MAX];
    size_t n_id_maps;
    struct {
        char id[IMAGE_BASE_ID_SIZE];
        unsigned generation;
    } bases[_RUN_KIND_MAX]; /* the last ones that were made */
    size_t n_links;         /* not yet freed */
    int n_resting;
    atomic_bool closing; /* no zygote is started any more; read by spawns */
    void (*closed)(void *arg);
    void *closed_arg;
};

/* ---- links: local.c ---- */

enum { END_CONTROL, END_OUT, END_ERR, END_PIDFD, _END_MAX };

struct local_link {
    struct kernel_link base;
    struct kernel_proc kernel;
    uv_poll_t polls[_END_MAX];
    int polled[END_PIDFD]; /* events that each is polled for: reading.c */
    uv_timer_t watch;
    int open_handles; /* that the loop still knows */
    struct buf unsent;
    int pids;             /* its limit */
    int64_t memory_bytes; /* its limit */
    bool watch_memory;    /* no control group does */
    /* End of file, or broken; closed with the link, because the loop knows it by its number. */
    bool ended[END_PIDFD];
    bool busy, held, frozen;
    bool control_paused, exit_waits; /* for the control stream to go on */
    uv_timer_t rest;                 /* nothing is read until then */
    bool resting;
    uv_timer_t settle; /* tells that the kernel is frozen or thawed */
    link_done_fn settled;
    void *settled_arg;
    int64_t settle_by_ms;
    struct err settle_err;
    enum run_kind kind;
    char base_id[IMAGE_BASE_ID_SIZE]; /* what its images are a difference to; "": not known */
    int passed; /* a pipe that goes along with the next request, and a base behind it; -1: none */
    int passed_base;
    int image, image_base;       /* files that go along with the start; -1: none */
    struct unsealing *unsealing; /* … and what the start waits for; NULL: nothing */
    bool is_writing;             /* an image */
    link_done_fn written;
    void *written_arg;
    bool over_memory; /* killed by the watchdog */
    bool released;
    int wait_status;
    struct rusage usage;
    clockid_t clock; /* of the kernel's processor time */
    bool has_clock;
};

static inline struct local_link *of(struct kernel_link *l)
{
    return (struct local_link *)l;
}

static inline struct local *provider_of(const struct local_link *l)
{
    return (struct local *)l->base.provider;
}

void local_signal(struct local_link *l, int sig);
/* Something that kept the link is over. */
void local_put_link(struct local_link *l);

/* ---- reading.c ---- */

/* Takes what is there, up to a bound. True if there may be more. */
bool local_read_end(struct local_link *l, int end);
void local_drain(struct kernel_link *link);
/* Reads, and sends what could not be sent, or leaves the control socket alone. */
void local_poll_control(struct local_link *l);
/* Reads stdout and stderr, or leaves them alone. */
void local_poll_output(struct local_link *l);
void local_poll_stop(struct local_link *l, int end);
void local_end_rest(struct local_link *l);

/* ---- local.c, local_probe.c ---- */

int local_kernel_path(const struct config *cfg, char *ret, size_t n, struct err *err);
bool local_probe(const struct config *cfg, probe_fn fn, void *arg);

/* ---- zygote.c: blocks, in a worker thread; one call at a time for each kind ---- */

/* Starts it without waiting for its hello. */
int zygote_launch(struct local *p, enum run_kind kind, struct err *err);
void zygote_stop(struct zygote *z); /* kills and reaps it */
/* *starts is incremented for each zygote that had to be started. */
int kernel_spawn(struct local *p, const struct spawn_spec *spec, struct kernel_proc *ret,
                 unsigned *starts, struct err *err);
/* Starts it if it is dead. */
int zygote_revive(struct local *p, enum run_kind kind, unsigned *starts, struct err *err);
/*
 * The memory of the zygote as a file in RIDDLE_HOME/images, made if there is none. CONFLICT when
 * the zygote of that generation is gone.
 */
int zygote_base(struct local *p, enum run_kind kind, unsigned generation,
                char ret_id[IMAGE_BASE_ID_SIZE], struct err *err);
/* Kills, waits, closes, removes its group. */
void kernel_kill(struct local *p, struct kernel_proc *k);

/* ---- image.c: the operations of images (provider.h) ---- */

void local_prepare_image(struct kernel_link *link, link_done_fn done, void *arg);
int local_branch(struct kernel_link *from, struct kernel_link *to, struct err *err);
void local_image(struct kernel_link *link, const char *path, int64_t max_bytes, link_done_fn done,
                 void *arg);
int local_restore(struct kernel_link *link, const char *path, struct err *err);
void local_was_ported(struct kernel_link *link);
/* Whether the kernel was forked from the process that its image is a difference to. */
bool local_is_own_base(const struct local_link *l);

/* ---- pageout.c ---- */

/* Memory of a kernel that was just frozen goes to swap, if there is some. Does not wait. */
void local_page_out(struct local_link *l);

/* ---- unseal.c ---- */

/* Takes file and seal, also when it fails. The link's image is what it has from now on. */
int unseal_begin(struct local_link *l, int file, const struct seal *seal, struct err *err);
/* The start is sent when the image is there. Takes the descriptors. */
void unseal_hold_start(struct local_link *l, json_t *start, const int *fds, size_t n_fds);

/* ---- shown.c: host files in a jail ---- */

struct shown_file {
    uint64_t dev, ino;
    int mount_fd; /* -1: the kernel binds the path itself */
};

/* Opens the file or directory as something that the kernel of this user can show. */
int shown_open(struct local *p, const struct kernel_mount *mount, unsigned user,
               struct shown_file *ret, struct err *err);
void shown_close(struct shown_file *f);
void id_maps_close(struct local *p);

/*
 * For tests: the first process of the kernel, as the host sees it; 0 when it is gone. The zygote's;
 * 0 when there is none.
 */
pid_t local_link_pid(const struct kernel_link *l);
pid_t local_zygote_pid(const struct provider *p, enum run_kind kind);

#endif
