/*
 * Theory of operation. An ingest runs in a sandbox that sees the data file and one writable
 * directory, new-<random>, under RIDDLE_HOME/tables. When its result is there, the kernel is
 * killed; when it is gone, nothing can write to the table any more, and the file moves to its name.
 * What is left of an ingest that failed is removed by a worker thread, because removing gigabytes
 * takes time.
 */

#include "sandbox/tables.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include "base/clock.h"
#include "base/fdio.h"
#include "base/id.h"
#include "base/str.h"

/* A file may take this long, longer for each megabyte, which may be compressed, up to a maximum. */
#define INGEST_TIMEOUT_MS (120 * 1000)
#define INGEST_MS_PER_MB 10000
#define INGEST_TIMEOUT_MAX_MS (30 * 60 * 1000)
/* Below this DuckDB's threads only get in each other's way: one is twice as fast. */
#define SMALL_FILE_BYTES (16 << 20)

/* Opens a data file for what it must be: regular, readable, not empty. */
static int open_data_file(const struct sandbox_file *file, struct stat *ret_st, struct err *err)
{
    int fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return err_errno(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_VALIDATION, errno,
                         "cannot open '%s'", file->name);
    if (fstat(fd, ret_st) < 0 || !S_ISREG(ret_st->st_mode)) {
        close(fd);
        return err_set(err, ERR_VALIDATION, "'%s' is %s, not a file", file->name,
                       S_ISDIR(ret_st->st_mode) ? "a directory" : "a device or pipe");
    }
    return fd;
}

int tables_check_raw(const struct sandbox_file *file, struct err *err)
{
    struct stat st;
    auto_close int fd = open_data_file(file, &st, err);
    return fd < 0 ? fd : 0;
}

int tables_hash(const struct sandbox_file *file, void (*progress)(void *arg, int64_t bytes),
                void *arg, char ret_hex[HASH_HEX_SIZE], struct err *err)
{
    struct stat st;
    auto_close int fd = open_data_file(file, &st, err);
    if (fd < 0)
        return fd;
    if (st.st_size == 0)
        return err_set(err, ERR_VALIDATION, "%s: File is empty", file->name);
    int r = hash_fd(fd, progress, arg, ret_hex, err);
    return r < 0 ? err_wrap(err, "'%s'", file->name) : 0;
}

/* ---- what is there ---- */

static json_t *read_report(const char *path)
{
    auto_buf struct buf text = BUF_INIT(1u << 20);
    json_t *report = NULL;
    if (fd_read_file(path, &text, NULL) == 0)
        (void)json_parse(text.data, text.len, &report, NULL);
    return report;
}

/* As long as it was when it was made, and what it was: damage further inside is told by a query. */
static bool is_whole(const char *path, const json_t *report)
{
    char head[12];
    struct stat st;
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && fstat(fd, &st) == 0 &&
           st.st_size == json_integer_value(json_object_get(report, "table_bytes")) &&
           pread(fd, head, sizeof(head), 0) == sizeof(head) && memcmp(head + 8, "DUCK", 4) == 0;
}

bool tables_find(struct table_cache *c, const struct sandbox_file *file, const char *hex,
                 struct table_file *ret)
{
    char report_path[TABLE_PATH_SIZE];
    table_path(c->home, file, hex, ret->path);
    table_report_path(c->home, file, hex, report_path);
    ret->report = read_report(report_path);
    if (ret->report && !is_whole(ret->path, ret->report)) { /* it is made anew */
        (void)unlink(ret->path);
        json_decref(ret->report);
        ret->report = NULL;
    }
    return ret->report != NULL;
}

/*
 * What killed ingests left: directories that nobody has locked. Whoever makes one locks it for as
 * long as it lives, so an ingest of another process is not touched.
 */
static void sweep_leftovers(struct table_cache *c)
{
    char path[4400];
    struct dirent *e;
    snprintf(path, sizeof(path), "%.3900s/tables", c->home);
    DIR *d = opendir(path);
    while (d && (e = readdir(d))) {
        bool is_dir = str_starts(e->d_name, "new-");
        snprintf(path, sizeof(path), "%.3900s/tables/%s", c->home, e->d_name);
        if (!is_dir && !table_name_is_current(e->d_name))
            (void)unlink(path);
        auto_close int fd = is_dir ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW) :
                                     -1;
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
            (void)fd_remove_tree(path, NULL);
    }
    if (d)
        closedir(d);
}

int tables_open(struct table_cache *c, uv_loop_t *loop, const struct config *cfg, bool one_shot,
                struct err *err)
{
    char path[PATH_MAX], sub[PATH_MAX + 32];
    *c = (struct table_cache){ .loop = loop, .cfg = cfg, .one_shot = one_shot };
    int r = fd_mkdir_p(cfg->home, 0700, err);
    if (r == 0 && !realpath(cfg->home, path))
        r = err_errno(err, ERR_IO, errno, "'%s'", cfg->home);
    if (r == 0 && snprintf(c->home, sizeof(c->home), "%s", path) >= (int)sizeof(c->home) - 64)
        return err_set(err, ERR_CONFIG, "RIDDLE_HOME is too long: '%s'", path);
    if (r == 0) {
        snprintf(sub, sizeof(sub), "%s/tables", path);
        r = fd_mkdir_p(sub, 0700, err);
    }
    if (r == 0 && !one_shot)
        sweep_leftovers(c);
    return r < 0 ? err_wrap(err, "RIDDLE_HOME") : 0;
}

/*
 * An empty file says that there was one of so many bytes: a hint, so nothing depends on its being
 * there.
 */
static void size_path(struct table_cache *c, int64_t size, char *ret, size_t n)
{
    snprintf(ret, n, "%.3900s/tables/%lld.size", c->home, (long long)size);
}

bool tables_is_new(struct table_cache *c, const struct sandbox_file *file, int64_t *ret_size)
{
    struct stat st;
    char path[4200];
    bool there = stat(file->path, &st) == 0 && S_ISREG(st.st_mode);
    *ret_size = there ? st.st_size : -1;
    if (!there || st.st_size < SMALL_FILE_BYTES)
        return false;
    size_path(c, st.st_size, path, sizeof(path));
    return access(path, F_OK) < 0;
}

static void note_size(struct table_cache *c, int64_t size)
{
    char path[4200];
    if (size < SMALL_FILE_BYTES)
        return;
    size_path(c, size, path, sizeof(path));
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
}

/* ---- making one ---- */

struct ingest {
    struct table_cache *cache;
    struct sandbox *sandbox;
    struct sandbox_file file; /* name and path: its own copies */
    char name[256], path[PATH_MAX], options[TABLE_OPTIONS_MAX];
    char out_dir[4200];
    int out_fd; /* holds the lock of out_dir, by which it is known to be in use */
    int64_t size;
    /* used where it was made, and published when it is on the disk: see tables_settle() */
    bool unsynced;
    char hex[HASH_HEX_SIZE]; /* … under this name */
    json_t *report;
    ingest_done_fn done;
    void *arg;
    struct ingest *next; /* in the cache's list of unsettled ones */
    uv_work_t work;
};

void ingest_limits(const struct config *cfg, struct sandbox_limits *ret)
{
    sandbox_limits_default(cfg, ret);
    ret->memory_bytes = cfg->ingest_memory_bytes;
    ret->file_bytes = cfg->ingest_file_bytes;
    ret->cpus = (double)sysconf(_SC_NPROCESSORS_ONLN);
    ret->yields = true;
}

static void ingest_free(struct ingest *in)
{
    json_decref(in->report);
    if (in->out_fd >= 0)
        close(in->out_fd);
    free(in);
}

static void remove_work(uv_work_t *work)
{
    struct ingest *in = work->data;
    (void)fd_remove_tree(in->out_dir, NULL);
}

static void removed(uv_work_t *work, int status)
{
    struct ingest *in = work->data;
    (void)status;
    in->cache->n_ending--;
    ingest_free(in);
}

/* Nothing writes to its directory any more: a worker removes it. */
static void remove_files(void *arg)
{
    struct ingest *in = arg;
    in->work.data = in;
    if (!*in->out_dir || uv_queue_work(in->cache->loop, &in->work, remove_work, removed) < 0)
        removed(&in->work, 0);
}

void ingest_abort(struct ingest *in)
{
    if (!in)
        return;
    in->cache->n_ending++;
    in->work.data = in;
    struct sandbox *sb = TAKE_PTR(in->sandbox);
    if (sb)
        sandbox_end(sb, remove_files, in);
    else
        remove_files(in);
}

/* A directory only this ingest uses, writable by its kernel. */
static int make_out_dir(struct table_cache *c, char *ret, size_t n, int *ret_fd, struct err *err)
{
    char id[17];
    id_hex(id, 16);
    snprintf(ret, n, "%s/tables", c->home);
    int there = mkdir(ret, 0700) < 0 && errno != EEXIST ? -1 : 0; /* somebody may have removed it */
    snprintf(ret, n, "%s/tables/new-%s", c->home, id);
    if (there < 0 || mkdir(ret, 0700) < 0) {
        int r = err_errno(err, ERR_IO, errno, "creating '%s'", ret);
        *ret = 0;
        return r;
    }
    *ret_fd = open(ret, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*ret_fd < 0 || flock(*ret_fd, LOCK_EX | LOCK_NB) < 0)
        return err_errno(err, ERR_IO, errno, "locking '%s'", ret);
    /*
     * By its group, which all kernels have: the user id of the one that will come is not known yet.
     */
    if (geteuid() == 0 && (chown(ret, 0, (gid_t)c->cfg->sandbox_uid) < 0 || chmod(ret, 0770) < 0))
        return err_errno(err, ERR_IO, errno, "giving '%s' to the sandbox's user", ret);
    return 0;
}

/* ---- directories of kernels ---- */

#define REMOVE_TRIES 200
#define REMOVE_PAUSE_MS 10

struct scratch {
    struct table_cache *cache;
    char path[4200];
    int fd;
    uv_work_t work;
};

/* Its kernel is killed, but may make a file until it is gone. */
static void remove_scratch(uv_work_t *work)
{
    struct scratch *s = work->data;
    for (int i = 0; i < REMOVE_TRIES; i++) {
        if (fd_remove_tree(s->path, NULL) == 0)
            return;
        nanosleep(&(struct timespec){ .tv_nsec = REMOVE_PAUSE_MS * 1000000L }, NULL);
    }
}

static void scratch_removed(uv_work_t *work, int status)
{
    struct scratch *s = work->data;
    (void)status;
    s->cache->n_ending--;
    close(s->fd);
    free(s);
}

int scratch_make(struct table_cache *c, struct scratch **ret, struct err *err)
{
    struct scratch *s = calloc(1, sizeof(*s));
    if (!s)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    *s = (struct scratch){ .cache = c, .fd = -1 };
    int r = make_out_dir(c, s->path, sizeof(s->path), &s->fd, err);
    if (r < 0) {
        if (*s->path)
            (void)fd_remove_tree(s->path, NULL);
        if (s->fd >= 0)
            close(s->fd);
        free(s);
        return r;
    }
    *ret = s;
    return 0;
}

const char *scratch_path(const struct scratch *s)
{
    return s->path;
}

void scratch_drop(void *scratch)
{
    struct scratch *s = scratch;
    if (!s)
        return;
    s->work.data = s;
    s->cache->n_ending++;
    if (uv_queue_work(s->cache->loop, &s->work, remove_scratch, scratch_removed) < 0)
        scratch_removed(&s->work, 0);
}

/* ---- the flow of an ingest ---- */

static void tell(struct ingest *in)
{
    in->done(in->arg, NULL);
}

static void on_gone(void *arg)
{
    struct ingest *in = arg;
    in->sandbox = NULL;
    tell(in);
}

static void on_result(struct sandbox *sb, struct run_result *result, const struct err *err,
                      void *arg)
{
    struct ingest *in = arg;
    struct err why = ERR_INIT;
    if (err) {
        why = *err;
    } else if (result->verdict != VERDICT_OK) {
        const char *message = json_string_value(
            json_object_get(json_object_get(result->body, "error"), "message"));
        if (result->verdict == VERDICT_MEMORY)
            message = "reading it needs more memory than RIDDLE_INGEST_MEMORY allows";
        if (result->verdict == VERDICT_KILLED)
            message = "its reader crashed, so that it cannot be read; is the file damaged?";
        if (result->verdict == VERDICT_TIMEOUT)
            message = "reading it took too long for a file of its size";
        err_set(&why, result->verdict == VERDICT_KILLED ? ERR_INTERNAL : ERR_VALIDATION, "%s: %s",
                in->name, message ? message : verdict_name(result->verdict));
    } else {
        in->report = json_incref(result->body);
    }
    if (result)
        run_result_finish(result);
    if (why.code != ERR_NONE) {
        ingest_done_fn done = in->done;
        void *done_arg = in->arg;
        ingest_abort(in);
        done(done_arg, &why);
    } else if (in->unsynced) {
        in->sandbox = NULL;
        sandbox_destroy(sb); /* what is published later need not wait for its end now */
        tell(in);
    } else {
        sandbox_end(sb, on_gone, in); /* nothing may still write to what is published */
    }
}

static int64_t timeout_of(int64_t bytes)
{
    int64_t ms = INGEST_TIMEOUT_MS + MAX_OF(bytes, 0) / (1 << 20) * INGEST_MS_PER_MB;
    return bytes < 0 ? INGEST_TIMEOUT_MAX_MS : MIN_OF(ms, (int64_t)INGEST_TIMEOUT_MAX_MS);
}

static int start_ingest(struct ingest *in, struct kernel_link *link,
                        const struct sandbox_file *file, const struct run_events *events,
                        struct err *err)
{
    bool small = in->size >= 0 && in->size < SMALL_FILE_BYTES;
    char target[320];
    snprintf(target, sizeof(target), "data/%.255s", file->name);
    struct kernel_mount mounts[2] = { { .target = target, .path = file->path },
                                      { .target = "out", .path = in->out_dir, .writable = true } };
    struct sandbox_start start = { .mounts = mounts, .n_mounts = 2 };
    ingest_limits(in->cache->cfg, &start.limits);
    start.threads = small ? 1 : (int)start.limits.cpus;
    in->unsynced = small && in->cache->one_shot;
    int r = sandbox_open(link, &start, &in->sandbox, err);
    if (r < 0)
        return r;
    auto_json json_t *message = json_pack("{s:s, s:b}", "name", file->name, "unsynced",
                                          in->unsynced);
    if (!message)
        return err_set(err, ERR_VALIDATION, "the file's name is not valid UTF-8");
    json_t *options = NULL;
    if (file->options && strlen(file->options) >= TABLE_OPTIONS_MAX)
        return err_set(err, ERR_VALIDATION, "the options for reading '%s' are too long",
                       file->name);
    if (file->options && json_parse(file->options, strlen(file->options), &options, err) < 0)
        return err_wrap(err, "the options for reading '%s'", file->name);
    if (options)
        json_object_set_new(message, "options", options);
    struct sandbox_request req = { .type = WIRE_INGEST,
                                   .body = message,
                                   .timeout_ms = timeout_of(in->size),
                                   .max_output_bytes = 65536 };
    return sandbox_request(in->sandbox, &req, events, on_result, in, err);
}

int ingest_begin(struct table_cache *c, struct kernel_link *link, const struct sandbox_file *file,
                 const struct run_events *events, ingest_done_fn done, void *arg,
                 struct ingest **ret, struct err *err)
{
    struct ingest *in = calloc(1, sizeof(*in));
    if (!in) {
        link->provider->ops->release(link);
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    }
    *in = (struct ingest){ .cache = c, .done = done, .arg = arg, .out_fd = -1 };
    snprintf(in->name, sizeof(in->name), "%s", file->name);
    snprintf(in->path, sizeof(in->path), "%s", file->path);
    in->file = (struct sandbox_file){ .name = in->name,
                                      .path = in->path,
                                      .options = file->options ? in->options : NULL,
                                      .is_beside = file->is_beside };
    if (file->options)
        snprintf(in->options, sizeof(in->options), "%s", file->options);
    (void)tables_is_new(c, file, &in->size);
    int r = make_out_dir(c, in->out_dir, sizeof(in->out_dir), &in->out_fd, err);
    if (r < 0)
        link->provider->ops->release(link);
    else
        r = start_ingest(in, link, file, events, err);
    if (r < 0) {
        ingest_abort(in);
        return r;
    }
    *ret = in;
    return 0;
}

/* Without waiting for the disk: a table whose report is lost or cut off is made anew. */
static int write_report(const char *path, const char *text, struct err *err)
{
    char id[17], tmp[TABLE_PATH_SIZE + 32];
    id_hex(id, 16);
    snprintf(tmp, sizeof(tmp), "%s.tmp-%s", path, id);
    auto_close int fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_errno(err, ERR_IO, errno, "creating '%s'", tmp);
    int r = fd_write_all(fd, text, strlen(text), err);
    if (r == 0 && rename(tmp, path) < 0)
        r = err_errno(err, ERR_IO, errno, "storing '%s'", path);
    if (r < 0)
        unlink(tmp);
    return r;
}

/* Makes what the ingest left riddle's own. Its descriptor, or negative. */
static int take_over(struct ingest *in, struct err *err)
{
    const char *out_dir = in->out_dir;
    char made[4300];
    snprintf(made, sizeof(made), "%s/table.duckdb", out_dir);
    /*
     * The kernel is gone or dying, and what it left is not trusted: no link is followed, only a
     * plain file is taken.
     */
    auto_close int fd = open(made, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_nlink != 1)
        return err_set(err, ERR_INTERNAL, "the ingest left no table");
    if (fchmod(fd, 0444) < 0 || (geteuid() == 0 && fchown(fd, 0, 0) < 0))
        return err_errno(err, ERR_IO, errno, "taking over the ingested table");
    json_object_set_new(in->report, "table_bytes", json_integer(st.st_size));
    return TAKE_FD(fd);
}

/* The finished file moves to its name; its report first, so that a table is never without one. */
static int publish(const char *out_dir, const char *final_path, const char *report_path,
                   const json_t *report, struct err *err)
{
    char made[4300];
    snprintf(made, sizeof(made), "%s/table.duckdb", out_dir);
    auto_free char *text = json_to_str(report);
    if (!text)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    int r = write_report(report_path, text, err);
    /*
     * Two may ingest the same contents at once. The first one's table stays: it is as good, and a
     * kernel that is about to mount a file cannot when its name is given to another.
     */
    if (r == 0 && renameat2(AT_FDCWD, made, AT_FDCWD, final_path, RENAME_NOREPLACE) < 0 &&
        errno != EEXIST &&
        (errno != EINVAL ||
         rename(made, final_path) < 0)) /* EINVAL: a file system that only knows rename */
        r = err_errno(err, ERR_IO, errno, "storing the ingested table");
    return r;
}

int ingest_publish(struct ingest *in, const char *hex, struct table_file *ret, struct err *err)
{
    struct table_cache *c = in->cache;
    char report_path[TABLE_PATH_SIZE];
    if (!in->file.is_beside)
        note_size(c, in->size);
    if (tables_find(c, &in->file, hex, ret)) {
        ingest_abort(in);
        return 0;
    }
    auto_close int fd = take_over(in, err);
    if (fd >= 0 && in->unsynced) {
        snprintf(ret->path, sizeof(ret->path), "%.4000s/table.duckdb", in->out_dir);
        ret->report = json_incref(in->report);
        snprintf(in->hex, sizeof(in->hex), "%s", hex);
        in->next = c->unsettled;
        c->unsettled = in;
        return 0;
    }
    table_path(c->home, &in->file, hex, ret->path);
    table_report_path(c->home, &in->file, hex, report_path);
    int r = fd < 0 ? fd : publish(in->out_dir, ret->path, report_path, in->report, err);
    if (r == 0)
        ret->report = json_incref(in->report);
    ingest_abort(in);
    return r;
}

void tables_settle(struct table_cache *c)
{
    char path[TABLE_PATH_SIZE], report_path[TABLE_PATH_SIZE];
    if (c->unsettled)
        sweep_leftovers(c);
    while (c->unsettled) {
        struct ingest *in = c->unsettled;
        struct err ignored = ERR_INIT; /* what cannot be kept is made anew */
        c->unsettled = in->next;
        auto_close int fd = take_over(in, &ignored);
        table_path(c->home, &in->file, in->hex, path);
        table_report_path(c->home, &in->file, in->hex, report_path);
        if (fd >= 0 && fsync(fd) == 0)
            (void)publish(in->out_dir, path, report_path, in->report, &ignored);
        (void)fd_remove_tree(in->out_dir, NULL);
        ingest_free(in);
    }
}
