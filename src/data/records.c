/*
 * One job for each file or database whose record is needed: it looks for the one that was kept,
 * else takes a lease, scans table by table, tells whoever waits, and keeps the record. Parsing and
 * writing are work for the background, during which the job belongs to that thread.
 */

#include "data/records.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/arena.h"
#include "base/background.h"
#include "base/fdio.h"
#include "base/macros.h"
#include "base/str.h"
#include "data/scan.h"
#include "net/loop.h"
#include "sandbox/table_names.h"

#define KEPT_MAX_BYTES (64u << 20)
#define AT_ONCE_ROWS 1000 /* of an answer that is looked at in the loop */

struct record_wait {
    struct job *job; /* NULL: the records are gone */
    struct record_wait *next;
    record_progress_fn progress;
    record_fn done;
    void *arg;
};

struct job {
    struct records *all; /* NULL: those are gone */
    struct job *next;
    struct arena arena;
    const char *key, *path, *owner; /* path: where it is kept; "" nowhere */
    struct sandbox_file file;
    bool is_file;
    const char *database;
    enum plan_dialect dialect;
    const char **tables;
    size_t n_tables;

    struct lease *lease;
    size_t at; /* the table that is looked at */
    struct table_scan *scan;
    json_t *body; /* the answer that is fed */
    bool again;   /* its kernel was killed by somebody else, once */
    bool is_busy; /* in the background */
    bool is_over; /* to be freed when that is done */
    bool is_done; /* or failed */
    bool is_telling;
    int status;
    struct err err;
    struct record record;
    struct buf text; /* as it is kept */
    struct record_wait *waits;
};

struct records {
    struct executor *executor;
    const struct config *cfg;
    char *home;
    struct job *jobs;
};

static int no_memory(struct err *err)
{
    return err_set(err, ERR_NO_MEMORY, "out of memory");
}

/* ---- what was kept ---- */

/* The first line is the profile; ret_values may be NULL. */
static int read_kept(const char *path, json_t **ret_profile, json_t **ret_values, struct err *err)
{
    auto_buf struct buf text = BUF_INIT(KEPT_MAX_BYTES);
    auto_json json_t *profile = NULL;
    int r = *path ? fd_read_file(path, &text, err) : -ERR_NOT_FOUND;
    const char *end = r == 0 ? memchr(text.data, '\n', text.len) : NULL;
    if (r == 0 && !end)
        r = err_set(err, ERR_VALIDATION, "'%s' is cut", path);
    if (r == 0)
        r = json_parse(text.data, (size_t)(end - text.data), &profile, err);
    if (r == 0)
        r = table_profile_check(profile, err);
    if (r == 0 && ret_values)
        r = json_parse(end + 1, text.len - (size_t)(end + 1 - text.data), ret_values, err);
    if (r == 0)
        *ret_profile = TAKE_PTR(profile);
    return r;
}

json_t *records_kept_profile(const struct records *rs, const struct sandbox_file *file)
{
    char path[TABLE_PATH_SIZE];
    json_t *profile = NULL;
    struct err ignored = ERR_INIT;
    table_profile_path(rs->home, file, file->sha256 ? file->sha256 : "", path);
    return read_kept(path, &profile, NULL, &ignored) == 0 ? profile : NULL;
}

/*
 * It is only a cache: what cannot be written, or was cut when the machine stopped, is made again.
 * Written in the loop's thread, because who waits keeps the file from going away meanwhile.
 */
static void write_kept(const struct job *j)
{
    char path[TABLE_PATH_SIZE + 24];
    struct err ignored = ERR_INIT;
    snprintf(path, sizeof(path), "%s.tmp-%d", j->path, (int)getpid());
    auto_close int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0 && (fd_write_all(fd, j->text.data, j->text.len, &ignored) < 0 ||
                    rename(path, j->path) < 0))
        (void)unlink(path);
}

/* ---- jobs ---- */

static void job_free(struct job *j)
{
    if (j->is_busy) {
        j->is_over = true;
        return;
    }
    lease_release(j->lease);
    table_scan_destroy(j->scan);
    json_discard(j->body);
    json_discard(j->record.profile);
    json_discard(j->record.values);
    buf_finish(&j->text);
    arena_finish(&j->arena);
    free(j);
}

/* Whoever needs its record from now on begins anew. */
static void job_leave(struct job *j)
{
    struct job **at = j->all ? &j->all->jobs : NULL;
    while (at && *at && *at != j)
        at = &(*at)->next;
    if (at && *at)
        *at = j->next;
    j->all = NULL;
    job_free(j);
}

static void tell(struct job *j, const struct err *err)
{
    struct record_wait *w;
    j->is_done = true;
    j->is_telling = true;
    while ((w = j->waits)) { /* some may come, and some may go meanwhile */
        j->waits = w->next;
        w->done(err ? NULL : &j->record, err, w->arg);
        free(w);
    }
    j->is_telling = false;
}

static void fail(struct job *j, const struct err *err)
{
    struct err why = *err;
    struct job **at = &j->all->jobs;
    while (*at != j)
        at = &(*at)->next;
    *at = j->next;
    tell(j, &why);
    j->all = NULL;
    job_free(j);
}

static int background(struct job *j, void (*work)(void *arg), void (*done)(void *arg),
                      struct err *err)
{
    int r = loop_background(executor_loop(j->all->executor), work, done, j, err);
    j->is_busy = r == 0;
    return r;
}

/* False: the job ended meanwhile, and is gone. */
static bool is_back(struct job *j)
{
    bool is_over = j->is_over;
    j->is_busy = false;
    if (is_over)
        job_free(j);
    return !is_over;
}

static void dump_work(void *arg)
{
    struct job *j = arg;
    j->status = json_write(j->record.profile, &j->text, &j->err);
    if (j->status == 0)
        j->status = buf_append(&j->text, "\n", 1, &j->err);
    if (j->status == 0)
        j->status = json_write(j->record.values, &j->text, &j->err);
}

static void dump_done(void *arg)
{
    struct job *j = arg;
    if (!is_back(j))
        return;
    if (j->status == 0)
        write_kept(j);
    buf_finish(&j->text);
    tell(j, NULL);
    job_leave(j);
}

static void finish(struct job *j)
{
    lease_release(TAKE_PTR(j->lease)); /* the executor keeps it for the first question */
    if (*j->path && background(j, dump_work, dump_done, &j->err) == 0)
        return;
    tell(j, NULL);
    if (j->is_file)
        job_leave(j);
}

/* ---- scanning ---- */

static void acquire(struct job *j);
static void ask(struct job *j);

static size_t table_count(const struct job *j)
{
    size_t n;
    if (!j->is_file)
        return j->n_tables;
    (void)lease_tables(j->lease, &n);
    return n;
}

/* The table is looked at. */
static int take_table(struct job *j, struct err *err)
{
    json_t *profile, *values;
    size_t n;
    const struct lease_table *t = j->is_file ? &lease_tables(j->lease, &n)[j->at] : NULL;
    table_scan_take(j->scan, &profile, &values);
    table_scan_destroy(TAKE_PTR(j->scan));
    int bad = json_array_append_new(j->record.values, values);
    if (t && t->report)
        bad |= json_object_set_new(profile, "report", json_deep_copy(t->report));
    if (j->is_file && j->at == 0) {
        j->record.profile = profile;
    } else {
        bad |= json_object_set_new(profile, "name",
                                   json_string(t ? t->suffix : j->tables[j->at]));
        if (!json_object_get(j->record.profile, "tables"))
            bad |= json_object_set_new(j->record.profile, "tables", json_array());
        bad |= json_array_append_new(json_object_get(j->record.profile, "tables"), profile);
    }
    j->at++;
    return bad ? no_memory(err) : 0;
}

static void feed_work(void *arg)
{
    struct job *j = arg;
    j->status = table_scan_feed(j->scan, j->body, &j->err);
}

static void feed_done(void *arg)
{
    struct job *j = arg;
    if (!is_back(j))
        return;
    json_discard(TAKE_PTR(j->body));
    if (j->status < 0)
        fail(j, &j->err);
    else
        ask(j);
}

static void on_rows(struct lease *lease, struct run_result *result, const struct err *err,
                    void *arg)
{
    (void)lease;
    struct job *j = arg;
    struct err why = err ? *err : (struct err)ERR_INIT;
    enum verdict verdict = result ? result->verdict : VERDICT_OK;
    int r = err ? -(int)err->code : 0;
    if (r == 0 && verdict == VERDICT_OK) {
        j->body = json_incref(result->body);
    } else if (r == 0 && verdict == VERDICT_KILLED && !j->again) {
        j->again = true; /* by somebody else: a scan changes nothing */
    } else if (r == 0 && !((verdict == VERDICT_TIMEOUT || verdict == VERDICT_MEMORY) &&
                           table_scan_pass(j->scan))) {
        const char *message = json_string_value(
            json_object_get(json_object_get(result->body, "error"), "message"));
        r = err_set(&why, j->database ? ERR_UNAVAILABLE : ERR_INTERNAL,
                    "looking at the data%s%s ended in %s%s%s", j->database ? " of " : "",
                    j->database ? j->database : "", verdict_name(verdict), message ? ": " : "",
                    message ? message : "");
    }
    if (result)
        run_result_finish(result);
    if (r < 0) {
        fail(j, &why);
    } else if (!j->body) {
        ask(j);
    } else if (json_array_size(json_object_get(j->body, "rows")) +
                       json_array_size(json_object_get(j->body, "columns")) <=
                   AT_ONCE_ROWS ||
               background(j, feed_work, feed_done, &why) < 0) {
        feed_work(j);
        feed_done(j);
    }
}

static void ask(struct job *j)
{
    struct err err = ERR_INIT;
    int64_t max_rows;
    int r = 0;
    if (!lease_alive(j->lease)) {
        lease_release(TAKE_PTR(j->lease));
        acquire(j);
        return;
    }
    const char *sql = j->scan ? table_scan_next_sql(j->scan, &max_rows) : NULL;
    if (j->scan && !sql)
        r = take_table(j, &err);
    if (r == 0 && !sql && j->at == table_count(j)) {
        finish(j);
        return;
    }
    if (r == 0 && !sql) {
        size_t n;
        const char *name = j->is_file ? lease_tables(j->lease, &n)[j->at].name : j->tables[j->at];
        r = table_scan_create(name, j->dialect, &j->scan, &err);
        sql = r == 0 ? table_scan_next_sql(j->scan, &max_rows) : NULL;
    }
    struct run_request req = { .kind = RUN_SQL,
                               .code = sql,
                               .code_len = sql ? strlen(sql) : 0,
                               .timeout_ms = SCAN_TIMEOUT_MS,
                               .max_rows = max_rows,
                               .max_output_bytes = CATALOG_OUTPUT_MAX_BYTES };
    if (r == 0)
        r = lease_run(j->lease, &req, NULL, on_rows, j, &err);
    if (r < 0)
        fail(j, &err);
}

static void on_ready(struct lease *lease, const struct err *err, void *arg)
{
    (void)lease;
    struct job *j = arg;
    if (err) {
        j->lease = NULL; /* it is gone already */
        fail(j, err);
        return;
    }
    ask(j);
}

static void on_progress(void *arg, const char *stage, double fraction)
{
    struct job *j = arg;
    for (struct record_wait *w = j->waits; w; w = w->next)
        if (w->progress)
            w->progress(w->arg, stage, fraction);
}

static void acquire(struct job *j)
{
    struct err err = ERR_INIT;
    struct sandbox_spec spec = { .kind = RUN_SQL,
                                 .database = j->database,
                                 .files = j->is_file ? &j->file : NULL,
                                 .n_files = j->is_file };
    struct run_events events = { .progress = on_progress, .arg = j };
    sandbox_limits_default(j->all->cfg, &spec.limits);
    if (executor_acquire(j->all->executor, j->owner, &spec, &events, on_ready, j, &j->lease, &err) <
        0)
        fail(j, &err);
}

/* ---- the beginning ---- */

static void look_work(void *arg)
{
    struct job *j = arg;
    if (!j->is_done)
        j->status = read_kept(j->path, &j->record.profile, &j->record.values, &j->err);
}

static void look_done(void *arg)
{
    struct job *j = arg;
    struct err err = ERR_INIT;
    if (!is_back(j))
        return;
    if (j->is_done || j->status == 0) {
        tell(j, NULL);
        if (j->is_file)
            job_leave(j);
        return;
    }
    json_discard(TAKE_PTR(j->record.values));
    j->record.values = json_array();
    if (!j->is_file) /* no table is the first */
        j->record.profile = json_pack("{s:i, s:[]}", "row_count", 0, "columns");
    if (!j->is_file && json_array_append_new(j->record.values, json_array()) < 0) {
        no_memory(&err);
        fail(j, &err);
        return;
    }
    acquire(j);
}

/* A file's strings and a database's tables, for as long as the job lives. */
static int copy_subject(struct job *j, const char *home, const struct record_subject *of,
                        struct err *err)
{
    char path[TABLE_PATH_SIZE] = "";
    const struct sandbox_file *f = of->file;
    bool ok = true;
    if (f) {
        table_profile_path(home, f, f->sha256 ? f->sha256 : "", path);
        j->file = *f;
        j->file.alias = NULL;
        j->file.name = arena_strdup(&j->arena, f->name);
        j->file.path = arena_strdup(&j->arena, f->path);
        j->file.table = arena_strdup(&j->arena, f->table);
        j->file.sha256 = f->sha256 ? arena_strdup(&j->arena, f->sha256) : NULL;
        j->file.options = f->options ? arena_strdup(&j->arena, f->options) : NULL;
        ok = j->file.name && j->file.path && j->file.table && (j->file.sha256 || !f->sha256) &&
             (j->file.options || !f->options);
    } else {
        j->database = arena_strdup(&j->arena, of->database);
        j->tables = arena_alloc(&j->arena, (of->n_tables + 1) * sizeof(*j->tables));
        ok = j->database && j->tables;
    }
    for (; ok && j->n_tables < (f ? 0 : of->n_tables); j->n_tables++)
        ok = (j->tables[j->n_tables] = arena_strdup(&j->arena, of->tables[j->n_tables])) != NULL;
    j->path = arena_strdup(&j->arena, path);
    return ok && j->path ? 0 : no_memory(err);
}

/* Those of a database that was looked at again are old. */
static void drop_old(struct records *rs, const char *database)
{
    struct job *next;
    for (struct job *j = rs->jobs; j; j = next) {
        next = j->next;
        if (j->is_done && !j->is_busy && j->database && str_eq(j->database, database))
            job_leave(j);
    }
}

static int begin(struct records *rs, const char *key, const char *owner,
                 const struct record_subject *subject, struct job **ret, struct err *err)
{
    struct job *j = calloc(1, sizeof(*j));
    if (!j)
        return no_memory(err);
    arena_init(&j->arena, 1u << 20);
    buf_init(&j->text, KEPT_MAX_BYTES);
    j->err = (struct err)ERR_INIT;
    j->is_file = subject->file != NULL;
    j->dialect = subject->file ? DIALECT_DUCKDB : subject->dialect;
    j->key = arena_strdup(&j->arena, key);
    j->owner = arena_strdup(&j->arena, owner);
    int r = j->key && j->owner ? copy_subject(j, rs->home, subject, err) : no_memory(err);
    if (r < 0) {
        job_free(j);
        return r;
    }
    if (subject->database)
        drop_old(rs, subject->database);
    j->all = rs;
    j->next = rs->jobs;
    rs->jobs = j;
    *ret = j;
    return 0;
}

int records_need(struct records *rs, const char *owner, const struct record_subject *subject,
                 record_progress_fn progress, record_fn done, void *arg, struct record_wait **ret,
                 struct err *err)
{
    struct record_wait *w = malloc(sizeof(*w));
    const struct sandbox_file *f = subject->file;
    char path[TABLE_PATH_SIZE], key[TABLE_PATH_SIZE + 16] = "";
    struct job *j = rs->jobs;
    int r = 0;
    if (!w)
        return no_memory(err);
    if (f)
        table_profile_path(rs->home, f, f->sha256 ? f->sha256 : "", path);
    if (f && *path)
        snprintf(key, sizeof(key), "file %s", path);
    else if (!f)
        snprintf(key, sizeof(key), "database %u %s", subject->look, subject->database);
    while (j && (!*key || !str_eq(j->key, key)))
        j = j->next;
    if (!j)
        r = begin(rs, key, owner, subject, &j, err);
    if (r < 0) {
        free(w);
        return r;
    }
    bool is_idle = !j->waits && !j->lease && !j->is_busy && !j->is_telling;
    *w = (struct record_wait){
        .job = j, .next = j->waits, .progress = progress, .done = done, .arg = arg
    };
    j->waits = w;
    *ret = w;
    if (is_idle)
        r = background(j, look_work, look_done, err);
    if (r < 0)
        record_wait_stop(w);
    return r;
}

void record_wait_stop(struct record_wait *w)
{
    if (!w)
        return;
    struct job *j = w->job;
    struct record_wait **at = j ? &j->waits : NULL;
    while (at && *at && *at != w)
        at = &(*at)->next;
    if (at && *at)
        *at = w->next;
    free(w);
    if (j && !j->waits && !j->is_done)
        job_leave(j);
}

int records_create(struct executor *ex, const struct config *cfg, const char *home,
                   struct records **ret, struct err *err)
{
    struct records *rs = calloc(1, sizeof(*rs));
    if (!rs || !(rs->home = strdup(home))) {
        free(rs);
        return no_memory(err);
    }
    rs->executor = ex;
    rs->cfg = cfg;
    *ret = rs;
    return 0;
}

void records_destroy(struct records *rs)
{
    if (!rs)
        return;
    while (rs->jobs) {
        struct job *j = rs->jobs;
        for (struct record_wait *w = TAKE_PTR(j->waits); w; w = w->next)
            w->job = NULL;
        job_leave(j);
    }
    free(rs->home);
    free(rs);
}
