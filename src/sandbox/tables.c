/*
 * Ingested tables: RIDDLE_HOME/tables/<sha256 of the file>.<format>.duckdb, with the report of the ingest beside it. A data file is
 * parsed once, in a jail of its own that sees nothing but that file and an empty directory; everybody after that opens the result
 * read-only. riddle itself only counts the bytes.
 */

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/clock.h"
#include "base/fdio.h"
#include "base/id.h"
#include "base/proc.h"
#include "base/str.h"
#include "sandbox/local/local_impl.h"

/* Part of every file's name: a change of engine or of how files are ingested makes new files. */
#define TABLE_FORMAT "d144-2"
#define INGEST_TIMEOUT_MS (30 * 60 * 1000)
/* Below this DuckDB's threads only get in each other's way: one is twice as fast. */
#define SMALL_FILE_BYTES (16 << 20)

/* Opens a data file for what it must be: regular, readable, not empty. */
static int open_data_file(const struct sandbox_file *file, struct stat *ret_st, struct err *err)
{
    int fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return err_errno(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_VALIDATION, errno, "cannot open '%s'", file->name);
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

/* Progress of hashing, told now and then. */
struct telling {
    const struct run_events *events;
    int64_t size, told_ms;
};

static void tell(void *arg, int64_t bytes)
{
    struct telling *t = arg;
    int64_t now = clock_now_ms();
    if (!t->events || !t->events->progress || now - t->told_ms < 200)
        return;
    t->told_ms = now;
    t->events->progress(t->events->arg, "hash", t->size > 0 ? MIN_OF(1.0, (double)bytes / (double)t->size) : 1);
}

int tables_hash(const struct sandbox_file *file, const struct run_events *events, char ret_hex[HASH_HEX_SIZE],
                struct err *err)
{
    struct stat st;
    auto_close int fd = open_data_file(file, &st, err);
    if (fd < 0)
        return fd;
    if (st.st_size == 0)
        return err_set(err, ERR_VALIDATION, "%s: File is empty", file->name);
    struct telling t = { .events = events, .size = st.st_size, .told_ms = clock_now_ms() };
    int r = hash_fd(fd, tell, &t, ret_hex, err);
    return r < 0 ? err_wrap(err, "'%s'", file->name) : 0;
}

/* ---- what is there ---- */

static void table_paths(struct provider *p, const char *hex, char *table, size_t n_table, char *report,
                        size_t n_report)
{
    snprintf(table, n_table, "%.3900s/tables/%s." TABLE_FORMAT ".duckdb", p->home, hex);
    snprintf(report, n_report, "%.3900s/tables/%s." TABLE_FORMAT ".json", p->home, hex);
}

static json_t *read_report(const char *path)
{
    auto_buf struct buf text = BUF_INIT(1u << 20);
    json_t *report = NULL;
    if (fd_read_file(path, &text, NULL) == 0)
        (void)json_parse(text.data, text.len, &report, NULL);
    return report;
}

bool tables_find(struct provider *p, const char *hex, struct table_file *ret)
{
    char report_path[4200];
    table_paths(p, hex, ret->path, sizeof(ret->path), report_path, sizeof(report_path));
    ret->report = access(ret->path, R_OK) == 0 ? read_report(report_path) : NULL;
    return ret->report != NULL;
}

/* ---- making one ---- */

struct ingest {
    struct provider *provider;
    struct sandbox *sandbox;
    char name[256];
    char hex[HASH_HEX_SIZE];
    char out_dir[4200];
    bool unsynced;       /* used where it was made, and published when it is on the disk: see tables_settle() */
    json_t *report;      /* … with this */
    struct ingest *next; /* in the provider's list of these */
};

/* A directory only this ingest uses, writable by its kernel. */
static int make_out_dir(struct provider *p, char *ret, size_t n, struct err *err)
{
    char id[17];
    id_hex(id, 16);
    snprintf(ret, n, "%s/tables/new-%s", p->home, id);
    if (mkdir(ret, 0700) < 0)
        return err_errno(err, ERR_IO, errno, "creating '%s'", ret);
    if (p->root && chown(ret, (uid_t)p->cfg->sandbox_uid, (gid_t)p->cfg->sandbox_uid) < 0) {
        int r = err_errno(err, ERR_IO, errno, "giving '%s' to the sandbox's user", ret);
        rmdir(ret);
        return r;
    }
    return 0;
}

static int start_ingest(struct ingest *in, const struct sandbox_file *file, const struct run_events *events,
                        struct err *err)
{
    struct provider *p = in->provider;
    struct shown_file shown[2] = { { .mount_fd = -1 }, { .mount_fd = -1 } };
    struct sandbox_start start = { .kind = RUN_SQL, .shown = shown, .n_shown = 2 };
    sandbox_limits_default(p->cfg, &start.limits);
    start.limits.memory_bytes = p->cfg->ingest_memory_bytes;
    start.limits.file_bytes = p->cfg->ingest_file_bytes;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    start.limits.cpus = (double)cores;
    struct stat st;
    bool small = stat(file->path, &st) == 0 && st.st_size < SMALL_FILE_BYTES;
    start.threads = small ? 1 : (int)cores;
    in->unsynced = small && p->one_shot;
    char target[320];
    snprintf(target, sizeof(target), "data/%.255s", file->name);
    struct kernel_proc k = KERNEL_PROC_NONE;
    int r = shown_open(p, file->path, target, false, &shown[0], err);
    if (r == 0)
        r = shown_open(p, in->out_dir, "out", true, &shown[1], err);
    if (r == 0)
        r = kernel_take(p, RUN_SQL, &start.limits, &k, err);
    if (r == 0)
        r = sandbox_start(p, &k, &start, &in->sandbox, err);
    if (r == 0) {
        auto_json json_t *req = json_pack("{s:s, s:s, s:b}", "op", "ingest", "name", file->name, "unsynced", in->unsynced);
        r = req ? sandbox_begin_json(in->sandbox, req, INGEST_TIMEOUT_MS, 65536, events, err)
                : err_set(err, ERR_VALIDATION, "the file's name is not valid UTF-8");
    }
    shown_close(&shown[0]);
    shown_close(&shown[1]);
    return r;
}

int ingest_begin(struct provider *p, const struct sandbox_file *file, const char *hex,
                 const struct run_events *events, struct ingest **ret, struct err *err)
{
    struct ingest *in = calloc(1, sizeof(*in));
    if (!in)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    in->provider = p;
    snprintf(in->name, sizeof(in->name), "%s", file->name);
    snprintf(in->hex, sizeof(in->hex), "%s", hex);
    int r = make_out_dir(p, in->out_dir, sizeof(in->out_dir), err);
    if (r == 0)
        r = start_ingest(in, file, events, err);
    if (r < 0) {
        ingest_abort(in);
        return r;
    }
    *ret = in;
    return 0;
}

struct sandbox *ingest_sandbox(struct ingest *in)
{
    return in->sandbox;
}

void ingest_abort(struct ingest *in)
{
    if (!in)
        return;
    sandbox_destroy(in->sandbox);
    if (*in->out_dir)
        (void)fd_remove_tree(in->out_dir, NULL);
    json_decref(in->report);
    free(in);
}

/* Without waiting for the disk: a table whose report is lost or cut off is made anew. */
static int write_report(const char *path, const char *text, struct err *err)
{
    char id[17], tmp[4300];
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
static int take_over(struct provider *p, const char *out_dir, struct err *err)
{
    char made[4300];
    snprintf(made, sizeof(made), "%s/table.duckdb", out_dir);
    /* The kernel is gone or dying, and what it left is not trusted: no link is followed, only a plain file is taken. */
    auto_close int fd = open(made, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_nlink != 1)
        return err_set(err, ERR_INTERNAL, "the ingest left no table");
    if (fchmod(fd, 0444) < 0 || (p->root && fchown(fd, 0, 0) < 0))
        return err_errno(err, ERR_IO, errno, "taking over the ingested table");
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
     * Two may ingest the same contents at once. The first one's table stays: it is as good, and a kernel that is about to mount a
     * file cannot when its name is given to another.
     */
    if (r == 0 && renameat2(AT_FDCWD, made, AT_FDCWD, final_path, RENAME_NOREPLACE) < 0 && errno != EEXIST &&
        (errno != EINVAL || rename(made, final_path) < 0)) /* EINVAL: a file system that only knows rename */
        r = err_errno(err, ERR_IO, errno, "storing the ingested table");
    return r;
}

int ingest_finish(struct ingest *in, const struct run_result *result, struct table_file *ret, struct err *err)
{
    struct provider *p = in->provider;
    char report_path[4200];
    int r = 0;
    if (result->verdict != VERDICT_OK) {
        const char *why = json_string_value(json_object_get(json_object_get(result->body, "error"), "message"));
        if (result->verdict == VERDICT_MEMORY)
            why = "reading it needs more memory than RIDDLE_INGEST_MEMORY allows";
        r = err_set(err, ERR_VALIDATION, "%s: %s", in->name, why ? why : verdict_name(result->verdict));
        ingest_abort(in);
        return r;
    }
    /* The kernel goes first: nothing may still write to what is published. What is published later need not wait for its end now. */
    if (in->unsynced)
        (void)proc_pidfd_signal(sandbox_pidfd(in->sandbox), SIGKILL, NULL);
    else
        sandbox_destroy(TAKE_PTR(in->sandbox));
    auto_close int fd = take_over(p, in->out_dir, err);
    if (fd >= 0 && in->unsynced) {
        snprintf(ret->path, sizeof(ret->path), "%.4000s/table.duckdb", in->out_dir);
        ret->report = json_incref(result->body);
        in->report = json_incref(result->body);
        in->next = p->unsettled;
        p->unsettled = in;
        return 0;
    }
    table_paths(p, in->hex, ret->path, sizeof(ret->path), report_path, sizeof(report_path));
    r = fd < 0 ? fd : publish(in->out_dir, ret->path, report_path, result->body, err);
    if (r == 0)
        ret->report = json_incref(result->body);
    ingest_abort(in);
    return r;
}

void tables_settle(struct provider *p)
{
    char path[4200], report_path[4200];
    while (p->unsettled) {
        struct ingest *in = p->unsettled;
        struct err ignored = ERR_INIT; /* what cannot be kept is made anew */
        p->unsettled = in->next;
        sandbox_destroy(TAKE_PTR(in->sandbox));
        auto_close int fd = take_over(p, in->out_dir, &ignored);
        table_paths(p, in->hex, path, sizeof(path), report_path, sizeof(report_path));
        if (fd >= 0 && fsync(fd) == 0)
            (void)publish(in->out_dir, path, report_path, in->report, &ignored);
        ingest_abort(in);
    }
}

/* ---- hash and ingest at once ---- */

/*
 * Hashing a large file takes a tenth of the time that reading it as a table does, and its result is only needed for the name of
 * that. So it is done in a thread beside the ingest, unless a file of this size has been ingested before and may be this one.
 */
struct hashing {
    const struct sandbox_file *file;
    char hex[HASH_HEX_SIZE];
    int result;
    struct err err;
};

static void *hash_beside(void *arg)
{
    struct hashing *h = arg;
    h->result = tables_hash(h->file, NULL, h->hex, &h->err);
    return NULL;
}

/* An empty file says that there was one of so many bytes: a hint, so nothing depends on its being there. */
static void size_path(struct provider *p, off_t size, char *ret, size_t n)
{
    snprintf(ret, n, "%.3900s/tables/%lld.size", p->home, (long long)size);
}

static bool is_new_and_large(struct provider *p, const struct sandbox_file *file)
{
    struct stat st;
    char path[4200];
    if (stat(file->path, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size < SMALL_FILE_BYTES)
        return false;
    size_path(p, st.st_size, path, sizeof(path));
    return access(path, F_OK) < 0;
}

static void note_size(struct provider *p, const struct sandbox_file *file)
{
    struct stat st;
    char path[4200];
    if (stat(file->path, &st) < 0 || st.st_size < SMALL_FILE_BYTES)
        return;
    size_path(p, st.st_size, path, sizeof(path));
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
}

static int ingest_and_hash(struct provider *p, const struct sandbox_file *file, const struct run_events *events,
                           struct table_file *ret, struct err *err)
{
    struct hashing h = { .file = file, .err = ERR_INIT };
    struct run_result result = { 0 };
    struct ingest *in = NULL;
    pthread_t thread;
    if (pthread_create(&thread, NULL, hash_beside, &h) != 0)
        return err_set(err, ERR_UNAVAILABLE, "starting a thread");
    int r = ingest_begin(p, file, "", events, &in, err);
    if (r == 0)
        r = sandbox_wait(in->sandbox, &result, err);
    pthread_join(thread, NULL);
    if (r == 0 && h.result < 0) {
        *err = h.err;
        r = h.result;
    }
    if (r < 0 || tables_find(p, h.hex, ret)) {
        ingest_abort(in);
    } else {
        snprintf(in->hex, sizeof(in->hex), "%s", h.hex);
        r = ingest_finish(in, &result, ret, err);
    }
    run_result_finish(&result);
    return r;
}

int tables_ensure(struct provider *p, const struct sandbox_file *file, const struct run_events *events,
                  bool prepare, struct table_file *ret, struct err *err)
{
    char hex[HASH_HEX_SIZE];
    int r;
    if (is_new_and_large(p, file)) {
        r = ingest_and_hash(p, file, events, ret, err);
        if (r == 0)
            note_size(p, file);
        return r;
    }
    r = tables_hash(file, events, hex, err);
    if (r < 0 || tables_find(p, hex, ret))
        return r;
    struct ingest *in;
    r = ingest_begin(p, file, hex, events, &in, err);
    if (r < 0)
        return r;
    /* The kernel that the table is for is forked meanwhile, on another processor. */
    if (p->one_shot && prepare)
        kernel_prepare(p, RUN_SQL);
    struct run_result result = { 0 };
    r = sandbox_wait(in->sandbox, &result, err);
    if (r < 0)
        ingest_abort(in);
    else
        r = ingest_finish(in, &result, ret, err);
    run_result_finish(&result);
    return r;
}
