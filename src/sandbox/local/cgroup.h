#ifndef RIDDLE_SANDBOX_LOCAL_CGROUP_H
#define RIDDLE_SANDBOX_LOCAL_CGROUP_H

/*
 * Control groups, v1, v2 or some of each. Every controller is looked for where it is; one that is
 * not there, or not ours to write, is simply absent, and the provider falls back (rlimits, a
 * watchdog) and says so.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/err.h"
#include "sandbox/sandbox.h"

enum cgroup_controller { CGROUP_MEMORY, CGROUP_PIDS, CGROUP_CPU, _CGROUP_CONTROLLER_MAX };

#define CGROUP_PATH_MAX 512

struct cgroup_tree {
    struct {
        int version;                /* 0: absent */
        char base[CGROUP_PATH_MAX]; /* our directory in that hierarchy */
    } at[_CGROUP_CONTROLLER_MAX];
    unsigned next;
};

const char *cgroup_controller_name(enum cgroup_controller c);

/* Finds what can be used and makes our directories. Never fails: what cannot be had is absent. */
void cgroup_tree_open(struct cgroup_tree *t);
void cgroup_tree_close(struct cgroup_tree *t); /* removes our directories */

/* What is asked of a group again and again; the files stay open. */
enum cgroup_figure {
    CGROUP_OOM_KILLS,
    CGROUP_PIDS_REFUSED,
    CGROUP_PIDS_NOW,
    CGROUP_PEAK_MEMORY,
    _CGROUP_FIGURE_MAX
};

struct cgroup {
    const struct cgroup_tree *tree; /* NULL: none */
    char name[24];
    int fds[_CGROUP_FIGURE_MAX];         /* -1: not opened yet */
    int members[_CGROUP_CONTROLLER_MAX]; /* the file a kernel gets in by, until it is in */
    /* Its limits: a pooled kernel mostly has those that it is wanted with. */
    int64_t memory_bytes;
    int pids;
    double cpus;
    bool yields;
};

#define CGROUP_NONE                                                                                \
    {                                                                                              \
        .tree = NULL, .fds = { -1, -1, -1, -1 }, .members = { -1, -1, -1 }, .memory_bytes = -1,    \
        .pids = -1, .cpus = -1                                                                     \
    }

int cgroup_create(struct cgroup_tree *t, const struct sandbox_limits *limits, struct cgroup *ret,
                  struct err *err);
int cgroup_limit(struct cgroup *g, const struct sandbox_limits *limits, struct err *err);
/*
 * Two ways in. Moving another process waits for every processor to have passed a quiet point, which
 * takes milliseconds; a thread that moves itself does not, but only v1 lets it. So a kernel is
 * given what cgroup_join_fds() says and writes "0" to each, and cgroup_add() moves it where it
 * cannot do so itself. Both before it is told what it is for.
 */
size_t cgroup_join_fds(const struct cgroup *g, int ret[_CGROUP_CONTROLLER_MAX]);
int cgroup_add(struct cgroup *g, pid_t pid, struct err *err);
void cgroup_destroy(struct cgroup *g); /* its processes must be gone */

/*
 * Freezing, by v2 alone: a process that v1's freezer holds cannot be killed, so it would outlive
 * riddle. Linux freezes in the background; cgroup_is_frozen() tells when every process stands
 * still. Thawing is immediate.
 */
bool cgroup_can_freeze(const struct cgroup *g);
int cgroup_freeze(const struct cgroup *g, bool frozen, struct err *err);
bool cgroup_is_frozen(const struct cgroup *g);
/* Where memory.reclaim is. "": the group is not of version 2. */
void cgroup_reclaim_dir(const struct cgroup *g, char *ret, size_t n);

/* What happened inside; 0 or -1 when unknown. */
long long cgroup_oom_kills(struct cgroup *g);
long long cgroup_pids_refused(struct cgroup *g);
long long cgroup_pids(struct cgroup *g); /* processes and threads in it */
long long cgroup_peak_memory(struct cgroup *g);

#endif
