/*
 * Finding and using control groups. The layout below our base, in each hierarchy: riddle-<pid
 * namespace>-<pid>/k<N>, one directory per kernel.
 *
 * v2 has two rules that shape this file: a controller must be enabled in every parent's
 * cgroup.subtree_control, and a group with controllers enabled for its children may hold no process
 * itself, the top one excepted. So a base is made below the first of these that can have it:
 *   - the top group (root);
 *   - our own group, if it was delegated to us and nobody else is in it: we move into a leaf, riddle-…/self, and back at the end;
 *   - the nearest group above our own that is ours and has controllers enabled already. A riddle that another one started finds
 *     the group which that one was given; a shell in a group of a user's own manager, the manager's.
 */

#include "sandbox/local/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/fdio.h"
#include "base/memory.h"
#include "base/str.h"

static const char *const controller_names[_CGROUP_CONTROLLER_MAX] = { "memory", "pids", "cpu" };

const char *cgroup_controller_name(enum cgroup_controller c)
{
    return controller_names[c];
}

/* ---- small files ---- */

static int put(const char *dir, const char *file, const char *value, struct err *err)
{
    char path[CGROUP_PATH_MAX + 128];
    snprintf(path, sizeof(path), "%s/%s", dir, file);
    return fd_write_file(path, value, err);
}

static bool get(const char *dir, const char *file, struct buf *b)
{
    char path[CGROUP_PATH_MAX + 128];
    snprintf(path, sizeof(path), "%s/%s", dir, file);
    buf_clear(b);
    return fd_read_file(path, b, NULL) == 0;
}

/* ---- making our base ---- */

/*
 * Pids mean something within their namespace only, and a hierarchy may be shared between several:
 * both are in the name.
 */
static unsigned long pid_namespace(void)
{
    struct stat st;
    return stat("/proc/self/ns/pid", &st) == 0 ? (unsigned long)st.st_ino : 0;
}

static void base_name(char *ret, size_t n)
{
    snprintf(ret, n, "riddle-%lu-%d", pid_namespace(), (int)getpid());
}

/*
 * A riddle that was killed could not remove its groups: the next one does. `parent` is where ours
 * is going to be.
 */
static void remove_stale(const char *parent)
{
    DIR *dir = opendir(parent);
    if (!dir)
        return;
    for (struct dirent *e; (e = readdir(dir));) {
        unsigned long space;
        int pid;
        if (sscanf(e->d_name, "riddle-%lu-%d", &space, &pid) != 2 || space != pid_namespace() ||
            pid <= 0 || kill(pid, 0) == 0 || errno != ESRCH)
            continue;
        char path[CGROUP_PATH_MAX + 300];
        snprintf(path, sizeof(path), "%.*s/%s", CGROUP_PATH_MAX, parent, e->d_name);
        DIR *base = opendir(path);
        for (struct dirent *k; base && (k = readdir(base));) {
            if (k->d_type == DT_DIR && k->d_name[0] != '.')
                unlinkat(dirfd(base), k->d_name, AT_REMOVEDIR);
        }
        if (base)
            closedir(base);
        rmdir(path);
    }
    closedir(dir);
}

static bool make_dir(const char *path)
{
    return mkdir(path, 0755) == 0 || (errno == EEXIST && access(path, W_OK) == 0);
}

static void open_v1(struct cgroup_tree *t, const char *cgroup_file, const char *mountinfo)
{
    char point[CGROUP_PATH_MAX], path[CGROUP_PATH_MAX], name[64];
    base_name(name, sizeof(name));
    for (int c = 0; c < _CGROUP_CONTROLLER_MAX; c++) {
        if (!cgroup_mount_point(mountinfo, controller_names[c], point, sizeof(point)) ||
            !cgroup_own_path(cgroup_file, controller_names[c], path, sizeof(path)))
            continue;
        char parent[2 * CGROUP_PATH_MAX], base[2 * CGROUP_PATH_MAX + 80];
        snprintf(parent, sizeof(parent), "%s%s", point, str_eq(path, "/") ? "" : path);
        /* in a container the path is the host's; the mount shows our own group */
        if (access(parent, F_OK) < 0)
            snprintf(parent, sizeof(parent), "%s", point);
        snprintf(base, sizeof(base), "%s/%s", parent, name);
        remove_stale(parent);
        if (strlen(base) >= CGROUP_PATH_MAX || !make_dir(base))
            continue;
        t->at[c].version = 1;
        snprintf(t->at[c].base, sizeof(t->at[c].base), "%.*s", CGROUP_PATH_MAX - 1, base);
    }
}

static void switch_controller(const char *dir, char sign, enum cgroup_controller c)
{
    char word[32];
    snprintf(word, sizeof(word), "%c%s", sign, controller_names[c]);
    (void)put(dir, "cgroup.subtree_control", word, NULL);
}

/*
 * Whoever is in `leaf` goes back to where we came from: we, and what we have started and not ended.
 */
static void leave_leaf(const char *leaf, const char *parent)
{
    auto_buf struct buf members = BUF_INIT(65536);
    (void)get(leaf, "cgroup.procs", &members);
    for (char *save = NULL, *pid = strtok_r((char *)buf_cstr(&members), "\n", &save); pid;
         pid = strtok_r(NULL, "\n", &save))
        (void)put(parent, "cgroup.procs", pid, NULL);
    rmdir(leaf);
}

/*
 * Removes a base of v2. The controllers go first: while they are enabled for the children of
 * `parent`, nobody can go back into it. Only if there is a leaf have we enabled them there; should
 * another riddle need them by now, the kernel refuses.
 */
static void remove_v2(const char *base)
{
    char parent[CGROUP_PATH_MAX], leaf[CGROUP_PATH_MAX + 16];
    snprintf(parent, sizeof(parent), "%s", base);
    *strrchr(parent, '/') = 0;
    snprintf(leaf, sizeof(leaf), "%s/self", base);
    if (access(leaf, F_OK) == 0) {
        for (int c = 0; c < _CGROUP_CONTROLLER_MAX; c++) {
            switch_controller(base, '-', c);
            switch_controller(parent, '-', c);
        }
        leave_leaf(leaf, parent);
    }
    rmdir(base);
}

/*
 * A group with processes, other than the top one, gives its children no memory controller; it would
 * give them others, and make them groups of threads by that, which no kernel can enter.
 */
static bool is_taken(const char *dir)
{
    auto_buf struct buf text = BUF_INIT(1u << 20);
    return get(dir, "cgroup.type", &text) && (!get(dir, "cgroup.procs", &text) || text.len > 0);
}

/* Tries to have `wanted` controllers for the children of a new base below `parent`. */
static bool open_v2_below(struct cgroup_tree *t, const char *parent, bool move_self,
                          const bool *wanted)
{
    if (!move_self && is_taken(parent))
        return false;
    char name[64], base[CGROUP_PATH_MAX + 80], leaf[CGROUP_PATH_MAX + 96];
    base_name(name, sizeof(name));
    snprintf(base, sizeof(base), "%s/%s", parent, name);
    snprintf(leaf, sizeof(leaf), "%s/self", base);
    remove_stale(parent);
    if (strlen(base) >= CGROUP_PATH_MAX || !make_dir(base))
        return false;
    if (move_self && (!make_dir(leaf) || put(leaf, "cgroup.procs", "0", NULL) < 0)) {
        rmdir(leaf);
        rmdir(base);
        return false;
    }
    auto_buf struct buf enabled = BUF_INIT(4096);
    for (int c = 0; c < _CGROUP_CONTROLLER_MAX; c++)
        if (wanted[c]) {
            switch_controller(parent, '+', c); /* may be enabled already, and not be ours to do */
            switch_controller(base, '+', c);
        }
    (void)get(base, "cgroup.subtree_control", &enabled);
    bool any = false;
    for (int c = 0; c < _CGROUP_CONTROLLER_MAX; c++)
        any |= wanted[c] && str_has_word(buf_cstr(&enabled), controller_names[c]);
    if (!any) {
        remove_v2(base);
        return false;
    }
    for (int c = 0; c < _CGROUP_CONTROLLER_MAX; c++) {
        if (!wanted[c] || !str_has_word(buf_cstr(&enabled), controller_names[c]))
            continue;
        t->at[c].version = 2;
        snprintf(t->at[c].base, sizeof(t->at[c].base), "%.*s", CGROUP_PATH_MAX - 1, base);
    }
    /*
     * Beside any number of kernels, of 100 each. In version 1 their base group weighs 1024, as one.
     */
    if (move_self)
        (void)put(leaf, "cpu.weight", "1000", NULL);
    return true;
}

/* Ours to make groups in and to move processes within. */
static bool is_ours(const char *dir)
{
    struct stat st;
    char procs[CGROUP_PATH_MAX + 32];
    snprintf(procs, sizeof(procs), "%s/cgroup.procs", dir);
    return stat(dir, &st) == 0 && st.st_uid == geteuid() && access(procs, W_OK) == 0;
}

static void open_v2(struct cgroup_tree *t, const char *cgroup_file, const char *mountinfo)
{
    char point[CGROUP_PATH_MAX], path[CGROUP_PATH_MAX], dir[2 * CGROUP_PATH_MAX];
    if (!cgroup_mount_point(mountinfo, "", point, sizeof(point)))
        return;
    auto_buf struct buf controllers = BUF_INIT(4096);
    if (!get(point, "cgroup.controllers", &controllers))
        return;
    bool wanted[_CGROUP_CONTROLLER_MAX], some = false;
    for (int c = 0; c < _CGROUP_CONTROLLER_MAX; c++) {
        wanted[c] = t->at[c].version == 0 &&
                    str_has_word(buf_cstr(&controllers), controller_names[c]);
        some |= wanted[c];
    }
    if (!some)
        return;
    if (open_v2_below(t, point, false, wanted))
        return;
    if (!cgroup_own_path(cgroup_file, "", path, sizeof(path)) || strstr(path, "/.."))
        return;
    snprintf(dir, sizeof(dir), "%s%s", point, str_eq(path, "/") ? "" : path);
    /* in a container the path may be the host's; the mount shows our own group */
    if (access(dir, F_OK) < 0)
        snprintf(dir, sizeof(dir), "%s", point);
    if (strlen(dir) >= CGROUP_PATH_MAX || open_v2_below(t, dir, true, wanted))
        return;
    while (strlen(dir) > strlen(point)) {
        *strrchr(dir, '/') = 0;
        if (is_ours(dir) && open_v2_below(t, dir, false, wanted))
            return;
    }
}

void cgroup_tree_open(struct cgroup_tree *t)
{
    memset(t, 0, sizeof(*t));
    auto_buf struct buf cgroups = BUF_INIT(65536);
    auto_buf struct buf mounts = BUF_INIT(4u << 20);
    if (fd_read_file("/proc/self/cgroup", &cgroups, NULL) < 0 ||
        fd_read_file("/proc/self/mountinfo", &mounts, NULL) < 0)
        return;
    open_v1(t, buf_cstr(&cgroups), buf_cstr(&mounts));
    open_v2(t, buf_cstr(&cgroups), buf_cstr(&mounts));
}

static bool same_dir_as_earlier(const struct cgroup_tree *t, int c)
{
    for (int i = 0; i < c; i++)
        if (t->at[i].version && str_eq(t->at[i].base, t->at[c].base))
            return true;
    return false;
}

void cgroup_tree_close(struct cgroup_tree *t)
{
    for (int c = 0; c < _CGROUP_CONTROLLER_MAX; c++) {
        if (t->at[c].version == 0 || same_dir_as_earlier(t, c))
            continue;
        if (t->at[c].version == 2)
            remove_v2(t->at[c].base);
        else
            rmdir(t->at[c].base);
        char parent[CGROUP_PATH_MAX];
        snprintf(parent, sizeof(parent), "%s", t->at[c].base);
        *strrchr(parent, '/') = 0;
        remove_stale(parent); /* whose kernels were still ending when we began */
    }
}

/* ---- one group ---- */

static void group_dir(const struct cgroup *g, enum cgroup_controller c, char *ret, size_t n)
{
    snprintf(ret, n, "%s/%s", g->tree->at[c].base, g->name);
}

static int limit_memory(const struct cgroup *g, int64_t bytes, struct err *err)
{
    bool v1 = g->tree->at[CGROUP_MEMORY].version == 1;
    char dir[CGROUP_PATH_MAX + 32], value[64];
    group_dir(g, CGROUP_MEMORY, dir, sizeof(dir));
    snprintf(value, sizeof(value), "%lld", (long long)bytes);
    /*
     * Swap included: memory+swap has the same limit in v1, swap has none in v2. Absent without swap
     * accounting. In v1 the one may never be below the other: raising needs it first, lowering
     * last.
     */
    const char *swap = v1 ? "memory.memsw.limit_in_bytes" : "memory.swap.max";
    (void)put(dir, swap, v1 ? value : "0", NULL);
    int r = put(dir, v1 ? "memory.limit_in_bytes" : "memory.max", value, err);
    if (r == 0 && v1)
        (void)put(dir, swap, value, NULL);
    return r;
}

static int limit_pids(const struct cgroup *g, int pids, struct err *err)
{
    char dir[CGROUP_PATH_MAX + 32], value[64];
    group_dir(g, CGROUP_PIDS, dir, sizeof(dir));
    snprintf(value, sizeof(value), "%d", pids);
    return put(dir, "pids.max", value, err);
}

static int limit_cpus(const struct cgroup *g, double cpus, struct err *err)
{
    const long period_us = 100000;
    long quota_us = (long)(cpus * (double)period_us);
    char dir[CGROUP_PATH_MAX + 32], value[64];
    group_dir(g, CGROUP_CPU, dir, sizeof(dir));
    if (g->tree->at[CGROUP_CPU].version == 1) {
        snprintf(value, sizeof(value), "%ld", quota_us);
        return put(dir, "cpu.cfs_quota_us", value, err); /* the period is 100 ms by default */
    }
    snprintf(value, sizeof(value), "%ld %ld", quota_us, period_us);
    return put(dir, "cpu.max", value, err);
}

/* A quarter of the weight that others have, when processors are short. */
static void weigh(const struct cgroup *g, bool yields)
{
    bool v1 = g->tree->at[CGROUP_CPU].version == 1;
    char dir[CGROUP_PATH_MAX + 32];
    group_dir(g, CGROUP_CPU, dir, sizeof(dir));
    if (v1)
        (void)put(dir, "cpu.shares", yields ? "256" : "1024", NULL);
    else
        (void)put(dir, "cpu.weight", yields ? "25" : "100", NULL);
}

int cgroup_limit(struct cgroup *g, const struct sandbox_limits *limits, struct err *err)
{
    if (!g->tree)
        return 0;
    int r = 0;
    if (g->tree->at[CGROUP_MEMORY].version && g->memory_bytes != limits->memory_bytes)
        r = limit_memory(g, limits->memory_bytes, err);
    if (r == 0 && g->tree->at[CGROUP_PIDS].version && g->pids != limits->pids)
        r = limit_pids(g, limits->pids, err);
    if (r == 0 && g->tree->at[CGROUP_CPU].version && g->cpus != limits->cpus)
        r = limit_cpus(g, limits->cpus, err);
    if (r == 0 && g->tree->at[CGROUP_CPU].version && g->yields != limits->yields)
        weigh(g, limits->yields);
    if (r < 0)
        return err_wrap(err, "setting the limits of a control group");
    g->memory_bytes = limits->memory_bytes;
    g->pids = limits->pids;
    g->cpus = limits->cpus;
    g->yields = limits->yields;
    return 0;
}

int cgroup_create(struct cgroup_tree *t, const struct sandbox_limits *limits, struct cgroup *ret,
                  struct err *err)
{
    struct cgroup g = CGROUP_NONE;
    g.tree = t;
    /* Kernels of both kinds are forked in threads of their own. */
    snprintf(g.name, sizeof(g.name), "k%u", __atomic_fetch_add(&t->next, 1, __ATOMIC_RELAXED));
    for (int c = 0; c < _CGROUP_CONTROLLER_MAX; c++) {
        if (t->at[c].version == 0 || same_dir_as_earlier(t, c))
            continue;
        char dir[CGROUP_PATH_MAX + 32];
        group_dir(&g, c, dir, sizeof(dir));
        if (mkdir(dir, 0755) < 0 && errno != EEXIST) {
            int r = err_errno(err, ERR_ISOLATION, errno, "creating control group '%s'", dir);
            cgroup_destroy(&g);
            return r;
        }
        /* Opened now, while the kernel is being cloned: it waits for what comes after. */
        char path[CGROUP_PATH_MAX + 64];
        snprintf(path, sizeof(path), "%s/%s", dir,
                 t->at[c].version == 1 ? "tasks" : "cgroup.procs");
        g.members[c] = open(path, O_WRONLY | O_CLOEXEC);
        if (g.members[c] < 0) {
            int r = err_errno(err, ERR_ISOLATION, errno, "opening '%s'", path);
            cgroup_destroy(&g);
            return r;
        }
    }
    int r = cgroup_limit(&g, limits, err);
    if (r < 0) {
        cgroup_destroy(&g);
        return r;
    }
    *ret = g;
    return 0;
}

size_t cgroup_join_fds(const struct cgroup *g, int ret[_CGROUP_CONTROLLER_MAX])
{
    size_t n = 0;
    for (int c = 0; g->tree && c < _CGROUP_CONTROLLER_MAX; c++)
        if (g->members[c] >= 0 && g->tree->at[c].version == 1)
            ret[n++] = g->members[c];
    return n;
}

int cgroup_add(struct cgroup *g, pid_t pid, struct err *err)
{
    char value[32];
    int len = snprintf(value, sizeof(value), "%d", (int)pid), r = 0;
    for (int c = 0; g->tree && c < _CGROUP_CONTROLLER_MAX; c++) {
        if (g->members[c] < 0)
            continue;
        ssize_t n = 0;
        if (g->tree->at[c].version == 2)
            do
                n = write(g->members[c], value, (size_t)len);
            while (n < 0 && errno == EINTR);
        if (n < 0 && r == 0)
            r = err_errno(err, ERR_IO, errno, "moving a kernel into its control group for %s",
                          controller_names[c]);
        close(TAKE_FD(g->members[c]));
    }
    return r;
}

void cgroup_destroy(struct cgroup *g)
{
    if (!g->tree)
        return;
    for (int f = 0; f < _CGROUP_FIGURE_MAX; f++)
        if (g->fds[f] >= 0)
            close(TAKE_FD(g->fds[f]));
    for (int c = 0; c < _CGROUP_CONTROLLER_MAX; c++)
        if (g->members[c] >= 0)
            close(TAKE_FD(g->members[c]));
    for (int c = 0; c < _CGROUP_CONTROLLER_MAX; c++) {
        if (g->tree->at[c].version == 0 || same_dir_as_earlier(g->tree, c))
            continue;
        char dir[CGROUP_PATH_MAX + 32];
        group_dir(g, c, dir, sizeof(dir));
        rmdir(dir);
    }
    g->tree = NULL;
}

/* ---- freezing ---- */

/* The directory of a group of v2; false if it has none. */
static bool v2_dir(const struct cgroup *g, char *ret, size_t n)
{
    for (int c = 0; g->tree && c < _CGROUP_CONTROLLER_MAX; c++)
        if (g->tree->at[c].version == 2) {
            group_dir(g, c, ret, n);
            return true;
        }
    return false;
}

bool cgroup_can_freeze(const struct cgroup *g)
{
    char dir[CGROUP_PATH_MAX + 32], path[CGROUP_PATH_MAX + 64];
    if (!v2_dir(g, dir, sizeof(dir)))
        return false;
    snprintf(path, sizeof(path), "%s/cgroup.freeze", dir);
    return access(path, W_OK) == 0;
}

int cgroup_freeze(const struct cgroup *g, bool frozen, struct err *err)
{
    char dir[CGROUP_PATH_MAX + 32];
    if (!v2_dir(g, dir, sizeof(dir)))
        return err_set(err, ERR_UNAVAILABLE, "there is no control group that can freeze");
    /* What stands still may be in swap: it allocates nothing. */
    if (g->tree->at[CGROUP_MEMORY].version == 2)
        (void)put(dir, "memory.swap.max", frozen ? "max" : "0", NULL);
    return put(dir, "cgroup.freeze", frozen ? "1" : "0", err);
}

void cgroup_reclaim_dir(const struct cgroup *g, char *ret, size_t n)
{
    ret[0] = '\0';
    if (g->tree && g->tree->at[CGROUP_MEMORY].version == 2)
        group_dir(g, CGROUP_MEMORY, ret, n);
}

bool cgroup_is_frozen(const struct cgroup *g)
{
    char dir[CGROUP_PATH_MAX + 32];
    auto_buf struct buf events = BUF_INIT(4096);
    return v2_dir(g, dir, sizeof(dir)) && get(dir, "cgroup.events", &events) &&
           strstr(buf_cstr(&events), "frozen 1");
}

/* ---- figures ---- */

static const struct {
    enum cgroup_controller controller;
    const char *v1, *v2; /* files */
    const char *key;     /* of "key value" lines; "": the file is the number */
} figures[_CGROUP_FIGURE_MAX] = {
    [CGROUP_OOM_KILLS] = { CGROUP_MEMORY, "memory.oom_control", "memory.events", "oom_kill" },
    [CGROUP_PIDS_REFUSED] = { CGROUP_PIDS, "pids.events", "pids.events", "max" },
    [CGROUP_PIDS_NOW] = { CGROUP_PIDS, "pids.current", "pids.current", "" },
    [CGROUP_PEAK_MEMORY] = { CGROUP_MEMORY, "memory.max_usage_in_bytes", "memory.peak", "" },
};

/* `unknown` where it cannot be read. */
static long long figure(struct cgroup *g, enum cgroup_figure f, long long unknown)
{
    enum cgroup_controller c = figures[f].controller;
    char text[4096];
    if (!g->tree || !g->tree->at[c].version)
        return unknown;
    if (g->fds[f] < 0) {
        char dir[CGROUP_PATH_MAX + 32], path[CGROUP_PATH_MAX + 128];
        group_dir(g, c, dir, sizeof(dir));
        snprintf(path, sizeof(path), "%s/%s", dir,
                 g->tree->at[c].version == 1 ? figures[f].v1 : figures[f].v2);
        g->fds[f] = open(path, O_RDONLY | O_CLOEXEC);
    }
    ssize_t n = g->fds[f] < 0 ? -1 : pread(g->fds[f], text, sizeof(text) - 1, 0);
    if (n <= 0)
        return unknown;
    text[n] = 0;
    size_t len = strlen(figures[f].key);
    if (len == 0)
        return atoll(text);
    for (const char *line = text; *line;
         line = strchrnul(line, '\n') + (*strchrnul(line, '\n') != 0))
        if (strncmp(line, figures[f].key, len) == 0 && line[len] == ' ')
            return atoll(line + len + 1);
    return unknown;
}

long long cgroup_oom_kills(struct cgroup *g)
{
    return figure(g, CGROUP_OOM_KILLS, 0);
}

long long cgroup_pids_refused(struct cgroup *g)
{
    return figure(g, CGROUP_PIDS_REFUSED, 0);
}

long long cgroup_pids(struct cgroup *g)
{
    return figure(g, CGROUP_PIDS_NOW, 0);
}

long long cgroup_peak_memory(struct cgroup *g)
{
    return figure(g, CGROUP_PEAK_MEMORY, -1);
}
