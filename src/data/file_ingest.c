/*
 * From a whole file to a table that can be asked about: the file gets its name (worker pool) → a
 * lease of a sandbox, which waits for a place and ingests what is new → the outcome is stored →
 * whoever waits is told → an upload is profiled. A file that is read again is profiled before its
 * outcome is told.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/background.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/str.h"
#include "base/text_name.h"
#include "data/file_sets.h"

#define INGEST_SHARE 0.9 /* of the progress; storing it is the rest */
#define NOTE_MAX 399
#define TRIES_MAX 7 /* a second, then twice as long each time: a minute in all */

enum job_state { JOB_NAMING, JOB_INGESTING, JOB_WAITING, JOB_PROFILING, JOB_STORING };

struct ingest_job {
    struct file_set *set;
    struct ingest_job *next, **prev;
    enum job_state state;
    bool cancelled; /* nobody wants the outcome; freed by the callback that is due */
    struct lease *lease;
    unsigned tries;
    struct loop_timer *again;
    int64_t begun_ms;
    struct err err;
};

static void job_free(struct ingest_job *job)
{
    free(job);
}

/* The job no longer counts. */
static void job_leave(struct ingest_job *job)
{
    struct file_set *set = job->set;
    *job->prev = job->next;
    if (job->next)
        job->next->prev = job->prev;
    set->job = NULL;
    job->set = NULL;
    file_set_unref(set);
}

static void job_end(struct ingest_job *job)
{
    job_leave(job);
    job_free(job);
}

/* ---- the profile that follows ---- */

static void on_late_profile(const struct err *err, void *arg)
{
    struct file_set *set = arg;
    if (err && err->code != ERR_NOT_FOUND) /* it is tried again when somebody asks for it */
        log_warn("upload.profile", LOG_STR("file_id", set->dataset.id),
                 LOG_STR("error", err->message));
    if (!err && !set->deleting)
        file_set_count(set);
    file_set_unref(set);
}

static void profile_later(struct file_set *set)
{
    struct dataset_handle h = { .dataset = &set->dataset, .file = set };
    struct err why = ERR_INIT;
    set->profile_begun = true;
    if (data_profile(set->all->room, &h, set->owner, on_late_profile, file_set_ref(set), &why) < 0)
        file_set_unref(set);
}

/* ---- the outcome ---- */

static void on_stored(const struct err *err, int64_t value, void *arg)
{
    (void)value;
    struct ingest_job *job = arg;
    if (job->cancelled) {
        job_free(job);
        return;
    }
    struct file_set *set = job->set;
    if (err) /* the next server finds it `processing` and does it again */
        log_error("upload.store", LOG_STR("file_id", set->dataset.id),
                  LOG_STR("error", err->message));
    log_info("upload.settled", LOG_STR("file_id", set->dataset.id), LOG_STR("owner", set->owner),
             LOG_STR("status", job->err.code ? "failed" : "ready"),
             LOG_INT("bytes", set->file.size_bytes), LOG_INT("rows", set->file.row_count),
             LOG_INT("ms", clock_now_ms() - job->begun_ms));
    file_set_settle(set, job->err.code ? &job->err : NULL);
    if (!job->err.code && !set->raw && !set->thread_id && !set->deleting)
        profile_later(set);
    job_end(job);
}

static bool is_csv(const char *name)
{
    size_t n = strlen(name);
    return n >= 4 && str_ieq(name + n - 4, ".csv");
}

/*
 * The message of an ingest begins with the file's name, which the caller knows; what is wrong with
 * a CSV is said in fixed words.
 */
void file_reword(struct err *err, const char *name)
{
    static const char *const known[] = { "File is empty", "CSV has no data rows",
                                         "Could not parse" };
    size_t n = strlen(name);
    if (str_starts(err->message, name) && str_starts(err->message + n, ": "))
        memmove(err->message, err->message + n + 2, strlen(err->message + n + 2) + 1);
    if (err->code != ERR_VALIDATION || !is_csv(name))
        return;
    for (size_t i = 0; i < ARRAY_SIZE(known); i++)
        if (str_starts(err->message, known[i]))
            return;
    err_wrap(err, "Could not parse CSV");
}

static void acquire(struct ingest_job *job);

static void try_again(void *arg)
{
    struct ingest_job *job = arg;
    job->again = NULL;
    acquire(job);
}

/*
 * A fault of the server's, which may pass. Somebody who waits is told; a file that was acknowledged
 * (before this server started, or without waiting) is not given up for it.
 */
static bool is_tried_again(struct ingest_job *job, const struct err *err)
{
    static const enum err_code passing[] = { ERR_UNAVAILABLE, ERR_TIMEOUT,   ERR_IO,
                                             ERR_NO_MEMORY,   ERR_ISOLATION, ERR_INTERNAL };
    struct file_set *set = job->set;
    struct err ignored = ERR_INIT;
    bool passes = false;
    for (size_t i = 0; err && i < ARRAY_SIZE(passing); i++)
        passes = passes || err->code == passing[i];
    if (!passes || job->state == JOB_NAMING || set->watchers || set->reread || set->deleting ||
        ++job->tries >= TRIES_MAX ||
        loop_after(set->all->loop, 500u << job->tries, try_again, job, &job->again, &ignored) < 0)
        return false;
    job->state = JOB_WAITING;
    log_warn("upload.again", LOG_STR("file_id", set->dataset.id), LOG_STR("error", err->message));
    return true;
}

static void finish(struct ingest_job *job, const struct err *err)
{
    struct file_set *set = job->set;
    struct err why = ERR_INIT;
    if (is_tried_again(job, err))
        return;
    if (set->reread) {
        file_reread_settle(set, err);
        job_end(job);
        return;
    }
    if (err) {
        int64_t until = clock_wall_ms() + FILE_FAILED_TTL_MS;
        char soon[CLOCK_ISO_SIZE];
        job->err = *err;
        file_reword(&job->err, set->file.name);
        clock_iso8601(until, soon);
        if (!*set->expires_at || strcmp(soon, set->expires_at) < 0)
            snprintf(set->expires_at, sizeof(set->expires_at), "%s", soon);
    }
    job->state = JOB_STORING;
    if (set->deleting) { /* its record is going; it must not come back */
        job_end(job);
        return;
    }
    if (file_set_store(set, err ? FILE_FAILED : FILE_READY, err ? &job->err : NULL, STORE_PUT,
                       on_stored, job, &why) < 0)
        on_stored(&why, 0, job);
}

/* ---- steps ---- */

/*
 * What is no table is kept as it is: code reads it. A CSV that cannot be read is a mistake, and so
 * is a file that cannot be read as somebody said.
 */
static bool is_kept_raw(const struct ingest_job *job, const struct err *err)
{
    const struct file_set *set = job->set;
    if (set->thread_id && (set->watchers || err->code == ERR_VALIDATION))
        return true; /* a note says why */
    return err->code == ERR_VALIDATION && !is_csv(set->file.name) && !set->file.options &&
           !set->reread;
}

static void finish_raw(struct ingest_job *job, const struct err *err)
{
    struct file_set *set = job->set;
    struct err why = ERR_INIT;
    if (err && file_is_tabular(set->file.name)) {
        why = *err;
        file_reword(&why, set->file.name);
        why.message[str_utf8_cut(why.message, strlen(why.message), NOTE_MAX)] = '\0';
        set->note = arena_strdup(&set->arena, why.message);
    } else if (file_way_out(set->file.name)) {
        set->note = arena_printf(&set->arena, "Files of this kind are not read as tables: %s",
                                 file_way_out(set->file.name));
    }
    set->raw = true;
    set->file.row_count = -1;
    json_decref(TAKE_PTR(set->columns));
    finish(job, NULL);
}

/* Its rows and columns are known. */
static void settle_table(struct ingest_job *job, const struct err *err)
{
    struct err why = ERR_INIT;
    if (!err && job->set->file.row_count == 0) {
        err_set(&why, ERR_VALIDATION,
                is_csv(job->set->file.name) ? "CSV has no data rows" : "The file has no data rows");
        err = &why;
    }
    if (err && is_kept_raw(job, err))
        finish_raw(job, err);
    else
        finish(job, err);
}

static void on_profiled(const struct err *err, void *arg)
{
    struct ingest_job *job = arg;
    if (job->cancelled)
        job_free(job);
    else
        settle_table(job, err);
}

/* What the ingest says about the tables is enough to answer. */
static void take_shape(struct ingest_job *job, struct lease *lease)
{
    struct err why = ERR_INIT;
    size_t n;
    const struct lease_table *tables = lease_tables(lease, &n);
    auto_discard json_t *shape = dataset_shape(tables, n);
    int r = shape ? file_set_profile(job->set, shape, &why) :
                    err_set(&why, ERR_NO_MEMORY, "out of memory");
    lease_release(lease);
    job->set->progress = MAX_OF(job->set->progress, INGEST_SHARE);
    file_set_notify(job->set);
    settle_table(job, r < 0 ? &why : NULL);
}

static void on_progress(void *arg, const char *stage, double fraction)
{
    (void)stage;
    struct ingest_job *job = arg;
    double progress = INGEST_SHARE * MIN_OF(1.0, MAX_OF(0.0, fraction));
    if (progress <= job->set->progress)
        return;
    job->set->progress = progress;
    file_set_notify(job->set);
}

/* The table is there: this sandbox has done its part. */
static void on_ready(struct lease *lease, const struct err *err, void *arg)
{
    struct ingest_job *job = arg;
    struct file_set *set = job->set;
    struct err why = ERR_INIT;
    job->lease = NULL;
    if (err) {
        if (is_kept_raw(job, err))
            finish_raw(job, err);
        else
            finish(job, err);
        return;
    }
    if (!set->thread_id && !set->reread) {
        take_shape(job, lease);
        return;
    }
    lease_release(lease);
    if (set->thread_id) { /* profiled when somebody asks for it */
        finish(job, NULL);
        return;
    }
    struct dataset_handle h = { .dataset = &set->dataset, .file = set };
    job->state = JOB_PROFILING;
    set->progress = MAX_OF(set->progress, INGEST_SHARE);
    file_set_notify(set);
    if (data_profile(set->all->room, &h, set->owner, on_profiled, job, &why) < 0)
        finish(job, &why);
}

static void acquire(struct ingest_job *job)
{
    struct file_set *set = job->set;
    struct data_room *room = set->all->room;
    struct sandbox_file file = { .name = set->file.name,
                                 .path = set->file.full_path,
                                 .table = set->file.table,
                                 .sha256 = set->file.sha256,
                                 .options = set->file.options,
                                 .is_beside = true };
    struct sandbox_spec spec = { .kind = RUN_SQL, .files = &file, .n_files = 1 };
    struct run_events events = { .progress = on_progress, .arg = job };
    struct err err = ERR_INIT;
    sandbox_limits_default(room->env.cfg, &spec.limits);
    job->state = JOB_INGESTING;
    int r = executor_acquire(room->env.executor, set->owner, &spec, &events, on_ready, job,
                             &job->lease, &err);
    if (r < 0)
        finish(job, &err);
}

static void naming_work(void *arg)
{
    struct ingest_job *job = arg;
    struct file_set *set = job->set;
    char part[PATH_MAX + 16], dir[PATH_MAX];
    snprintf(dir, sizeof(dir), "%s", set->file.full_path);
    *strrchr(dir, '/') = '\0';
    file_set_part(set, part);
    int r = -1;
    /* Whoever removed the thread's last file may just have removed the directory: once more. */
    for (int tries = 0; tries < 3 && r < 0; tries++) {
        r = fd_mkdir_p(dir, 0700, &job->err);
        if (r == 0)
            r = rename(part, set->file.full_path) < 0 && errno != ENOENT ? -errno : 0;
        if (r == 0 && access(dir, F_OK) < 0)
            r = -ENOENT;
    }
    job->err = (struct err)ERR_INIT;
    if (r < 0) {
        err_errno(&job->err, ERR_IO, -r, "naming the file");
        return;
    }
    if (!str_starts(part, dir)) { /* it came through a directory of its own */
        *strrchr(part, '/') = '\0';
        (void)rmdir(part);
    }
    struct stat st;
    auto_close int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) < 0 || stat(set->file.full_path, &st) < 0 ||
        st.st_size != set->file.size_bytes)
        err_set(&job->err, ERR_IO, "The file is no longer there; upload it again");
}

/* Of an upload also without an ending. */
bool file_may_be_table(const struct file_set *set)
{
    const char *name = set->file.name, *dot = strrchr(name, '.');
    if (file_is_output(name))
        return false;
    return file_is_tabular(name) || is_text_name(name) || (!set->thread_id && (!dot || !dot[1]));
}

static void naming_done(void *arg)
{
    struct ingest_job *job = arg;
    if (job->cancelled) {
        struct file_set *set = TAKE_PTR(job->set);
        job_free(job);
        file_set_unref(set);
        return;
    }
    if (job->err.code) {
        struct err why = job->err;
        finish(job, &why);
        return;
    }
    struct err empty = ERR_INIT;
    bool tried = file_may_be_table(job->set);
    if (tried && job->set->file.size_bytes == 0)
        err_set(&empty, ERR_VALIDATION, "File is empty");
    if (!tried || empty.code)
        finish_raw(job, empty.code ? &empty : NULL);
    else
        acquire(job);
}

/* ---- jobs ---- */

int file_ingest(struct file_set *set, struct err *err)
{
    struct file_sets *all = set->all;
    struct ingest_job *job = calloc(1, sizeof(*job));
    if (!job)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    job->set = file_set_ref(set);
    job->state = JOB_NAMING;
    job->begun_ms = clock_now_ms();
    job->next = all->jobs;
    job->prev = &all->jobs;
    if (job->next)
        job->next->prev = &job->next;
    all->jobs = job;
    set->job = job;
    if (loop_work(all->loop, naming_work, naming_done, job, &job->err) < 0) {
        struct err why = job->err;
        finish(job, &why);
    }
    return 0;
}

static void cancel(struct ingest_job *job)
{
    struct file_set *set = job->set;
    enum job_state state = job->state;
    struct err why = ERR_INIT;
    job->cancelled = true;
    lease_release(TAKE_PTR(job->lease));
    loop_cancel(TAKE_PTR(job->again));
    if (set->reread) {
        err_set(&why, ERR_UNAVAILABLE, "the server is stopping");
        file_reread_settle(set, &why);
    }
    if (state == JOB_NAMING)
        file_set_ref(set); /* the worker reads it */
    job_leave(job);
    if (state == JOB_NAMING)
        job->set = set;
    else if (state != JOB_PROFILING && state != JOB_STORING)
        job_free(job);
}

void file_ingest_cancel(struct file_set *set)
{
    if (set->job)
        cancel(set->job);
}

void file_ingest_close(struct file_sets *all)
{
    while (all->jobs)
        cancel(all->jobs);
}
