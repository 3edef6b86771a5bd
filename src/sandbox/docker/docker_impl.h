#ifndef RIDDLE_SANDBOX_DOCKER_DOCKER_IMPL_H
#define RIDDLE_SANDBOX_DOCKER_DOCKER_IMPL_H

/* What the files of the docker provider share. */

#include "sandbox/docker/engine.h"
#include "sandbox/mux.h"
#include "sandbox/provider.h"

/* Containers carry both labels: RIDDLE_HOME's random id, and that of the process that made them. */
#define LABEL_HOME "io.riddle.home"
#define LABEL_INSTANCE "io.riddle.instance"
#define DOCKER_ID_DIGITS 16

struct docker_link;

struct docker {
    struct provider base;
    struct engine *engine;
    char home_id[DOCKER_ID_DIGITS + 1], instance_id[DOCKER_ID_DIGITS + 1];
    char lock_path[4200];
    int lock_fd;     /* held as long as this process may have containers */
    unsigned n_made; /* for their names */
    struct docker_link *waiting[_RUN_KIND_MAX]; /* in the pool, the newest first */
    size_t n_links;                             /* that are not freed yet */
    size_t n_calls; /* of nobody's: containers being removed, the sweep */
    struct {
        struct err failure; /* of the last start */
        int64_t failed_ms;  /* since when, by the wall clock */
        unsigned starts;
    } kinds[_RUN_KIND_MAX];
    void (*closed)(void *arg);
    void *closed_arg;
};

/* ---- container.c ---- */

/* What is posted to /containers/create. NULL when out of memory. */
json_t *docker_container_spec(const struct docker *p, const struct spawn_spec *spec);
/* What is posted to /containers/{id}/update; CONFLICT for what cannot be changed any more. */
int docker_container_update(const struct sandbox_limits *from, const struct sandbox_limits *to,
                            json_t **ret, struct err *err);

/* ---- home.c: whose containers are whose ---- */

int docker_home_open(struct docker *p, struct err *err);
void docker_home_close(struct docker *p);
/*
 * Removes the containers of processes that are gone and had the same RIDDLE_HOME. Never fails: it
 * tries.
 */
void docker_sweep(struct docker *p);
/*
 * Removes a container with its volume, whatever it does. Nobody waits for it but the provider's
 * end.
 */
void docker_remove(struct docker *p, const char *container);
/* A call of nobody's has ended: the provider may be waiting for it. */
void docker_call_ended(struct docker *p);

/* ---- files.c: files that go into a container, and those that come back ---- */

/* One way: riddle's file to /data. Pieces are given to the stream as it takes them. */
struct docker_outbound {
    struct docker_link *link;
    struct {
        char *path; /* NULL: a directory that is sent back */
        char *target;
    } * files;
    size_t n_files, next;
    uv_fs_t req;
    bool under_way;
    int fd;
    bool announced;
    int64_t offset, sent, size; /* read so far, given to the stream, of the file */
    char *chunk;
};

/* The other: what a kernel wrote into a writable directory. */
struct docker_inbound {
    struct docker_link *link;
    char *target, *path; /* of the directory; NULL: none is expected */
    uv_fs_t req;
    bool under_way;
    int fd;
    int64_t left, offset;
    int64_t max_bytes; /* of one file */
    char *chunk;
    ssize_t chunk_len;
};

int docker_outbound_add(struct docker_outbound *o, const struct kernel_mount *mount,
                        struct err *err);
void docker_outbound_finish(struct docker_outbound *o);
/*
 * Sends what can be sent now. 1: everything has been sent; 0: docker_outbound_ready() or the
 * stream's drained event follows.
 */
int docker_outbound_pump(struct docker_outbound *o, struct engine_stream *stream, struct err *err);

int docker_inbound_begin(struct docker_inbound *in, const struct mux_frame *f, struct err *err);
/* Starts a write; until docker_inbound_ready() nothing more may be given. */
int docker_inbound_data(struct docker_inbound *in, const struct mux_frame *f, struct err *err);
void docker_inbound_finish(struct docker_inbound *in);

/* Called by files.c. err is NULL if all went well. */
void docker_outbound_ready(struct docker_link *l, const struct err *err);
void docker_inbound_ready(struct docker_link *l, const struct err *err);
uv_loop_t *docker_link_loop(struct docker_link *l);

/* ---- a link ---- */

#define WORDS_MAX 1000

enum spawn_state { CREATING, ATTACHING, LOADING, SPAWNED };

struct docker_link {
    struct kernel_link base;
    struct spawn_spec spec;
    enum spawn_state state;
    spawn_fn done; /* NULL once it has been called */
    void *done_arg;
    uv_timer_t timer; /* of the spawn */
    char id[80];
    struct engine_stream *stream;
    struct mux_reader in;
    struct buf early;   /* frames that came while no run was under way; given out with the next */
    struct buf waiting; /* frames that go when the files have gone */
    struct docker_outbound outbound;
    struct docker_inbound inbound;
    struct mux_usage usage;
    char words[WORDS_MAX + 1]; /* what the relay said on stderr */
    struct kernel_exit how;
    size_t n_calls;
    struct docker_link *below; /* the next older one of its kind that waits in the pool */
    bool waits;                /* in the pool */
    bool paused, want_paused, is_changing; /* … which takes a call */
    bool updating, busy, handling;
    bool control_paused; /* no frame is taken */
    bool exit_told;      /* the relay has said how the kernel ended */
    bool removed;        /* the container has been or is being removed */
    bool released, timer_closed, stream_closed;
    link_done_fn freeze_done;
    void *freeze_arg;
};

/*
 * A call about the link's container: /containers/{id}{what}. Keeps the link alive until it ended.
 */
int docker_link_call(struct docker_link *l, const char *method, const char *what,
                     const json_t *body, engine_fn done, struct err *err);
/* First in done(). True if the link has been released meanwhile: it may be freed by now. */
bool docker_link_call_ended(struct docker_link *l);
/* Something went wrong that the link cannot go on after. */
void docker_link_fail(struct docker_link *l, const struct err *err);

/* ---- pause.c ---- */

void docker_want_paused(struct docker_link *l, bool paused);
void docker_enter_pool(struct docker_link *l);
void docker_leave_pool(struct docker_link *l); /* harmless for one that is not in it */
void docker_freeze(struct kernel_link *link, link_done_fn done, void *arg);
void docker_thaw(struct kernel_link *link, link_done_fn done, void *arg);

/* ---- probe.c ---- */

bool docker_probe(const struct config *cfg, probe_fn say, void *arg);

extern const struct provider_ops docker_provider;

#endif
