/*
 * From the files of a lease to its sandbox, one file after the other: a file without a known hash
 * is hashed by a worker thread; one that has no table yet is ingested in a kernel of its own. A
 * large file of a size never seen is most likely new: it is ingested while it is hashed, because
 * its hash is only needed for the name of the table.
 */

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/clock.h"
#include "base/fdio.h"
#include "base/part_name.h"
#include "base/str.h"
#include "sandbox/pool/executor_impl.h"

/* One is faster as long as the tables are small: more threads only pay off over many row groups. */
#define SMALL_TABLES_BYTES (8 << 20)
#define PROGRESS_MS 200

/* ---- hashing ---- */

/* A file being hashed; outlives a lease that is released meanwhile. */
struct hashing {
    uv_work_t work;
    uv_timer_t timer; /* progress */
    struct executor *ex;
    struct lease *lease; /* NULL: released */
    struct sandbox_file file;
    char *name, *path; /* its own copies */
    int64_t size;
    atomic_llong bytes;
    char hex[HASH_HEX_SIZE];
    int result;
    struct err err;
};

static void hash_progress(void *arg, int64_t bytes)
{
    struct hashing *h = arg;
    atomic_store(&h->bytes, bytes);
}

static void hash_work(uv_work_t *work)
{
    struct hashing *h = work->data;
    h->result = tables_hash(&h->file, hash_progress, h, h->hex, &h->err);
}

static void on_hash_progress(uv_timer_t *t)
{
    struct hashing *h = t->data;
    if (h->lease && h->lease->events.progress && h->size > 0)
        h->lease->events.progress(h->lease->events.arg, "hash",
                                  MIN_OF(1.0, (double)atomic_load(&h->bytes) / (double)h->size));
}

static void free_hashing(uv_handle_t *t)
{
    struct hashing *h = t->data;
    h->ex->n_hashing--;
    free(h->name);
    free(h->path);
    free(h);
}

static void hash_done(uv_work_t *work, int status)
{
    struct hashing *h = work->data;
    struct lease *l = h->lease;
    uv_close((uv_handle_t *)&h->timer, free_hashing);
    if (!l)
        return;
    l->hashing = NULL;
    if (status < 0)
        h->result = err_set(&h->err, ERR_CANCELLED, "cancelled");
    if (h->result < 0) {
        lease_fail(l, &h->err);
        return;
    }
    memcpy(l->hashes[l->at], h->hex, sizeof(h->hex));
    load_advance(l);
}

static int begin_hash(struct lease *l, int64_t size, struct err *err)
{
    const struct sandbox_file *f = &l->spec.files[l->at];
    struct hashing *h = calloc(1, sizeof(*h));
    if (!h)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    h->ex = l->ex;
    h->lease = l;
    h->size = size;
    h->name = strdup(f->name);
    h->path = strdup(f->path);
    h->file = (struct sandbox_file){ .name = h->name, .path = h->path };
    h->work.data = h;
    uv_timer_init(l->ex->loop, &h->timer);
    h->timer.data = h;
    l->ex->n_hashing++;
    if (!h->name || !h->path || uv_queue_work(l->ex->loop, &h->work, hash_work, hash_done) < 0) {
        uv_close((uv_handle_t *)&h->timer, free_hashing);
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    }
    uv_timer_start(&h->timer, on_hash_progress, PROGRESS_MS, PROGRESS_MS);
    l->hashing = h;
    return 0;
}

/* ---- ingests ---- */

/* Where the table is that this lease needs next; "" while the content is not known. */
static void next_table(const struct lease *l, char ret[TABLE_PATH_SIZE])
{
    table_path(l->ex->tables.home, &l->spec.files[l->at], l->hashes[l->at], ret);
}

static bool needs_table(const struct lease *l, const char *path)
{
    char own[TABLE_PATH_SIZE];
    next_table(l, own);
    return str_eq(own, path);
}

/* True if another lease is making the table that this one needs next. */
static bool is_being_made(const struct lease *l)
{
    char path[TABLE_PATH_SIZE];
    next_table(l, path);
    for (const struct lease *o = l->ex->all; o; o = o->next)
        if (o != l && o->ingest && needs_table(o, path))
            return true;
    return false;
}

/* An ingest ended, well or not: whoever waited for that table looks again, once. */
static void wake_for_table(struct executor *ex, const char *path)
{
    for (struct lease *l = ex->all; l; l = l->next) {
        l->woken = l->waits_for_table && needs_table(l, path);
        l->waits_for_table = l->waits_for_table && !l->woken;
    }
    for (struct lease *l = ex->all; l;) {
        if (!l->woken) {
            l = l->next;
            continue;
        }
        l->woken = false;
        load_advance(l);
        l = ex->all; /* the list may have changed */
    }
}

/* The ingest is over and the hash is known. */
static void publish(struct lease *l)
{
    struct executor *ex = l->ex;
    struct err err = ERR_INIT;
    char path[TABLE_PATH_SIZE];
    next_table(l, path);
    l->ingested = false;
    if (ingest_publish(TAKE_PTR(l->ingest), l->hashes[l->at], &l->tables[l->at], &err) < 0) {
        lease_fail(l, &err);
    } else {
        l->at++;
        load_advance(l);
    }
    wake_for_table(ex, path);
}

static void on_ingested(void *arg, const struct err *err)
{
    struct lease *l = arg;
    struct executor *ex = l->ex;
    char path[TABLE_PATH_SIZE];
    if (!err) {
        l->ingested = true;
        load_advance(l);
        return;
    }
    l->ingest = NULL; /* gone already */
    /* Nothing of it is published: it is tried again, after a crash once. */
    bool crashed = err->code == ERR_INTERNAL;
    if ((err->code == ERR_UNAVAILABLE || (crashed && l->n_replaced == 0)) && lease_may_replace(l)) {
        load_advance(l);
        return;
    }
    struct err why = *err;
    if (crashed)
        why.code = ERR_VALIDATION;
    next_table(l, path);
    lease_fail(l, &why);
    if (*path)
        wake_for_table(ex, path);
}

/* 1: it has begun; 0: it waits for a place or a kernel. */
static int begin_ingest(struct lease *l, struct err *err)
{
    struct executor *ex = l->ex;
    struct sandbox_limits limits;
    ingest_limits(ex->cfg, &limits);
    if (!lease_has_place(l, PLACE_INGEST, limits.memory_bytes))
        return 0;
    struct kernel_link *link = executor_take_kernel(l, RUN_SQL, &limits);
    if (!link)
        return 0;
    int r = ingest_begin(&ex->tables, link, &l->spec.files[l->at], &l->events, on_ingested, l,
                         &l->ingest, err);
    executor_refill(ex);
    return r < 0 ? r : 1;
}

/* ---- the sandbox ---- */

/* Rows that were refused: [{"file", "rejects": {"count", "lines"}}], for results of runs. */
json_t *lease_rejects(const struct lease *l)
{
    json_t *rejects = json_array();
    for (size_t i = 0; i < l->n_all; i++) {
        const json_t *report = l->all[i].report;
        json_t *n = json_object_get(report, "refused");
        if (json_integer_value(n) > 0)
            json_array_append_new(rejects,
                                  json_pack("{s:s, s:{s:O, s:O}}", "file",
                                            l->spec.files[l->all[i].file].name, "rejects", "count",
                                            n, "lines", json_object_get(report, "refused_rows")));
    }
    return rejects;
}

static off_t table_bytes(const struct lease *l)
{
    off_t bytes = 0;
    for (size_t i = 0; i < l->spec.n_files; i++) {
        struct stat st;
        if (!l->spec.files[i].raw && stat(l->tables[i].path, &st) == 0)
            bytes += st.st_size;
    }
    return bytes;
}

static int engine_threads(const struct lease *l)
{
    if (table_bytes(l) < SMALL_TABLES_BYTES)
        return 1;
    return (int)MAX_OF(1, MIN_OF((long)l->spec.limits.cpus, sysconf(_SC_NPROCESSORS_ONLN)));
}

static bool name_taken(const struct lease *l, const char *name)
{
    for (size_t i = 0; i < l->spec.n_files; i++)
        if (!l->spec.files[i].raw && str_ieq(l->spec.files[i].table, name))
            return true;
    for (size_t i = 0; i < l->n_all; i++)
        if (str_ieq(l->all[i].name, name))
            return true;
    return false;
}

/* The tables of a file, by the report of its ingest. */
static int list_file(struct lease *l, size_t file, struct err *err)
{
    const json_t *made = l->tables[file].report, *parts = json_object_get(made, "tables");
    const char *table = l->spec.files[file].table;
    l->all[l->n_all++] = (struct lease_table){ .name = table,
                                               .suffix = "",
                                               .file = file,
                                               .made = made,
                                               .report = json_object_get(made, "report") };
    for (size_t i = 0; i < json_array_size(parts) && l->n_all < SANDBOX_TABLES_MAX; i++) {
        const json_t *part = json_array_get(parts, i);
        char name[PART_TABLE_SIZE + 8];
        part_table_name(table, json_string_value(json_object_get(part, "name")), name);
        if (!*name)
            continue;
        size_t n = strlen(name), at = n - strlen(json_string_value(json_object_get(part, "name")));
        for (unsigned k = 2; name_taken(l, name) && k < 1000; k++)
            snprintf(name + n, 8, "_%u", k);
        l->all[l->n_all] = (struct lease_table){ .name = arena_strdup(&l->arena, name),
                                                 .file = file,
                                                 .part = i + 1,
                                                 .made = part,
                                                 .report = json_object_get(part, "report") };
        struct lease_table *t = &l->all[l->n_all++];
        if (!t->name)
            return err_set(err, ERR_NO_MEMORY, "out of memory");
        t->suffix = t->name + at;
    }
    return 0;
}

static int list_tables(struct lease *l, struct err *err)
{
    size_t n = l->spec.n_files;
    for (size_t i = 0; i < l->spec.n_files; i++)
        n += json_array_size(json_object_get(l->tables[i].report, "tables"));
    l->n_all = 0;
    l->all = arena_alloc(&l->arena, (MIN_OF(n, (size_t)SANDBOX_TABLES_MAX) + 1) * sizeof(*l->all));
    int r = l->all ? 0 : err_set(err, ERR_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < l->spec.n_files && r == 0; i++)
        if (!l->spec.files[i].raw)
            r = list_file(l, i, err);
    return r;
}

/*
 * Room on the disk for a query whose memory is full. For SQL only: Python code could fill it
 * without DuckDB's limit. What is small is done in memory.
 */
static bool may_spill(const struct lease *l)
{
    return l->spec.kind == RUN_SQL && l->ex->cfg->spill_bytes > 0 &&
           (l->ex->provider->ops->caps & PROVIDER_DISK) && table_bytes(l) >= SMALL_TABLES_BYTES;
}

/* What the kernel shall see of the files: each one's table, and for Python the file itself. */
static int open_sandbox(struct lease *l, struct kernel_link *link, struct err *err)
{
    size_t n = l->spec.n_files;
    struct kernel_mount *mounts = arena_alloc(&l->arena, (3 * n + 2) * sizeof(*mounts));
    struct wire_start_table *tables = arena_alloc(&l->arena, (l->n_all + 1) * sizeof(*tables));
    size_t at = 0;
    struct sandbox_start start = { .owner = l->owner,
                                   .dataset_id = l->spec.dataset_id,
                                   .mounts = mounts,
                                   .tables = tables,
                                   .limits = l->spec.limits,
                                   .threads = engine_threads(l),
                                   .image = l->spec.image,
                                   .source = l->spec.from ? lease_link(l->spec.from) : NULL,
                                   .python_allowed = l->spec.python_allowed,
                                   .python_blocked = l->spec.python_blocked,
                                   .agent = l->spec.agent,
                                   .debugging = l->spec.debugging };
    int r = mounts && tables ? 0 : err_set(err, ERR_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < n && r == 0; i++) {
        const struct sandbox_file *f = &l->spec.files[i];
        char target[320];
        if (f->raw) {
            r = tables_check_raw(f, err);
        } else {
            snprintf(target, sizeof(target), "tables/%zu.duckdb", i);
            for (; at < l->n_all && l->all[at].file == i; at++)
                tables[start.n_tables++] = (struct wire_start_table){ .name = l->all[at].name,
                                                                      .mount = start.n_mounts,
                                                                      .part = l->all[at].part };
            mounts[start.n_mounts++] = (struct kernel_mount){
                .target = arena_strdup(&l->arena, target), .path = l->tables[i].path
            };
        }
        if (l->spec.kind == RUN_PYTHON) {
            snprintf(target, sizeof(target), "data/%.255s", f->name);
            mounts[start.n_mounts++] = (struct kernel_mount){
                .target = arena_strdup(&l->arena, target),
                .path = f->path,
                .sha256 = *l->hashes[i] ? l->hashes[i] : NULL
            };
        }
        if (l->spec.kind == RUN_PYTHON && f->alias && 3 * n <= FD_PASS_MAX) {
            snprintf(target, sizeof(target), "data/%.255s", f->alias);
            mounts[start.n_mounts] = mounts[start.n_mounts - 1];
            mounts[start.n_mounts++].target = arena_strdup(&l->arena, target);
        }
    }
    for (size_t i = 0; i < start.n_mounts && r == 0; i++)
        if (!mounts[i].target)
            r = err_set(err, ERR_NO_MEMORY, "out of memory");
    struct scratch *scratch = NULL;
    struct err ignored = ERR_INIT;
    if (r == 0 && may_spill(l) && start.n_mounts < FD_PASS_MAX)
        (void)scratch_make(&l->ex->tables, &scratch, &ignored); /* without it there is less room */
    if (r < 0) {
        link->provider->ops->release(link);
        return r;
    }
    if (scratch) {
        mounts[start.n_mounts++] = (struct kernel_mount){ .target = "out",
                                                          .path = scratch_path(scratch),
                                                          .writable = true };
        start.limits.file_bytes = l->ex->cfg->spill_bytes;
        start.freed = scratch_drop;
        start.freed_arg = scratch;
    }
    return sandbox_open(link, &start, &l->sandbox, err);
}

/* Every table is there. */
static void start_sandbox(struct lease *l)
{
    struct executor *ex = l->ex;
    struct err err = ERR_INIT;
    if (!lease_has_place(l, place_of(l->spec.kind), l->spec.limits.memory_bytes))
        return;
    l->waits_for_source = l->spec.from && !l->spec.from->image.is_prepared;
    if (l->waits_for_source)
        return;
    if (list_tables(l, &err) < 0) {
        lease_fail(l, &err);
        return;
    }
    if (l->state != LEASE_STARTING) {
        l->state = LEASE_STARTING;
        l->times.load_us = clock_now_us() - l->since_us;
        l->since_us = clock_now_us();
    }
    if (l->spec.kind == RUN_SQL && !l->spec.exports &&
        idle_cache_key(l->owner, &l->spec, l->tables, l->key)) {
        while (!l->sandbox && (l->sandbox = idle_cache_take(&ex->idle, l->key)))
            if (!sandbox_alive(l->sandbox) || !executor_can_use(ex, sandbox_link(l->sandbox)))
                sandbox_destroy(TAKE_PTR(l->sandbox)); /* it died meanwhile */
        l->is_reused = l->sandbox != NULL;
        if (l->sandbox) {
            lease_is_ready(l);
            return;
        }
    }
    l->spec.limits.yields = l->spec.kind == RUN_PYTHON;
    struct kernel_link *link = executor_take_kernel(l, l->spec.kind, &l->spec.limits);
    if (!link)
        return;
    int r = open_sandbox(l, link, &err);
    l->times.start_us = clock_now_us() - l->since_us;
    bool is_branch = l->spec.from;
    if (!is_branch) /* two kernels are busy: the next one is forked when the branch is there */
        executor_refill(ex);
    if (r == -ERR_UNAVAILABLE && lease_may_replace(l)) {
        load_advance(l);
        return;
    }
    if (r < 0) {
        lease_fail(l, &err);
        return;
    }
    sandbox_set_load(l->sandbox, l->times.start_us, l->times.load_us, lease_rejects(l));
    if (is_branch)
        lease_write_to_branch(l->spec.from);
    if (!l->spec.image && !is_branch)
        lease_is_ready(l);
    else if (lease_await_restored(l, &err) < 0)
        lease_fail(l, &err);
}

void load_advance(struct lease *l)
{
    struct executor *ex = l->ex;
    struct err err = ERR_INIT;
    int r = 0;
    l->waits_for_kernel = false;
    if (lease_is_database(l)) {
        lease_is_ready(l);
        return;
    }
    for (; l->at < l->spec.n_files; l->at++) {
        const struct sandbox_file *f = &l->spec.files[l->at];
        bool hashed = *l->hashes[l->at];
        int64_t size = -1;
        if (f->raw)
            continue;
        if (l->ingest && (!l->ingested || !hashed))
            return;
        if (l->ingest) {
            publish(l);
            return;
        }
        if (hashed && tables_find(&ex->tables, f, l->hashes[l->at], &l->tables[l->at]))
            continue;
        if (hashed && is_being_made(l)) {
            l->waits_for_table = true;
            lease_give_up_place(l);
            return;
        }
        bool beside = !hashed && tables_is_new(&ex->tables, f, &size);
        if (!hashed && !l->hashing)
            r = begin_hash(l, size, &err);
        if (r == 0 && (hashed || beside))
            r = begin_ingest(l, &err);
        if (r < 0)
            lease_fail(l, &err);
        return;
    }
    start_sandbox(l);
}

void load_stop(struct lease *l)
{
    if (l->hashing)
        l->hashing->lease = NULL;
    l->hashing = NULL;
    if (!l->ingest)
        return;
    ingest_abort(TAKE_PTR(l->ingest));
    char path[TABLE_PATH_SIZE];
    next_table(l, path);
    if (*path && !l->ex->closing)
        wake_for_table(l->ex, path); /* somebody else has to make it */
}
