/* Making a catalog in the event loop: record by record, then all of them in the background. */

#include "data/catalog_read.h"

#include <stdlib.h>
#include "base/arena.h"
#include "base/background.h"
#include "base/macros.h"
#include "base/part_name.h"
#include "net/loop.h"

struct catalog_reading {
    struct catalog_source source;
    /* What the background needs of it, which may outlive it. */
    struct arena arena;
    const char *dataset_id, **names; /* of the files' tables */
    bool is_database;
    json_t *relationships, *words;
    uv_loop_t *loop;
    struct record_wait *wait;
    size_t at; /* the file whose record is waited for */
    struct record *found;
    record_progress_fn progress;
    catalog_read_fn done;
    void *arg;
    bool is_busy, is_over; /* in the background; to be freed when that is done */
    struct catalog *catalog;
    int status;
    struct err err;
};

void catalog_read_stop(struct catalog_reading *r)
{
    if (!r)
        return;
    if (r->is_busy) {
        r->is_over = true;
        return;
    }
    record_wait_stop(r->wait);
    for (size_t i = 0; i <= r->source.n_files; i++) {
        json_discard(r->found[i].profile);
        json_discard(r->found[i].values);
    }
    catalog_unref(r->catalog);
    json_decref(r->relationships);
    json_decref(r->words);
    arena_finish(&r->arena);
    free(r->found);
    free(r);
}

static void end(struct catalog_reading *r, const struct err *err)
{
    r->done(err ? NULL : r->catalog, err, r->arg);
    catalog_read_stop(r);
}

/* ---- the catalog ---- */

/* The tables of a record: the first is called `table`, of a database NULL. */
static int add_tables(struct catalog *c, const char *table, const struct record *record,
                      size_t *n_tables, struct err *err)
{
    size_t i;
    json_t *part;
    int r = table ? catalog_add(c, table, record->profile, json_array_get(record->values, 0), err) :
                    0;
    *n_tables += table != NULL;
    json_array_foreach(json_object_get(record->profile, "tables"), i, part) {
        char name[PART_TABLE_SIZE];
        const char *given = json_string_value(json_object_get(part, "name"));
        if (table)
            part_table_name(table, given, name);
        if (r < 0 || !given || (table && !*name) || *n_tables >= CATALOG_TABLES_MAX)
            continue;
        r = catalog_add(c, table ? name : given, part, json_array_get(record->values, i + 1), err);
        *n_tables += 1;
    }
    return r;
}

static void make_work(void *arg)
{
    struct catalog_reading *r = arg;
    size_t n = 0;
    r->status = catalog_create(r->dataset_id, r->source.dialect, r->relationships, r->words,
                               &r->catalog, &r->err);
    if (r->is_database && r->status == 0)
        r->status = add_tables(r->catalog, NULL, &r->found[0], &n, &r->err);
    for (size_t i = 0; i < r->source.n_files && !r->is_database && r->status == 0; i++)
        if (r->found[i].profile && n < CATALOG_TABLES_MAX)
            r->status = add_tables(r->catalog, r->names[i], &r->found[i], &n, &r->err);
    if (r->status == 0)
        r->status = catalog_finish(r->catalog, &r->err);
}

static void make_done(void *arg)
{
    struct catalog_reading *r = arg;
    r->is_busy = false;
    if (r->is_over)
        catalog_read_stop(r);
    else
        end(r, r->status < 0 ? &r->err : NULL);
}

/* ---- the records ---- */

static void on_record(const struct record *record, const struct err *err, void *arg);

static void on_progress(void *arg, const char *stage, double fraction)
{
    struct catalog_reading *r = arg;
    if (r->progress)
        r->progress(r->arg, stage, fraction);
}

static int next(struct catalog_reading *r, struct err *err)
{
    const struct catalog_source *s = &r->source;
    struct record_subject subject = { .database = s->database,
                                      .look = s->look,
                                      .dialect = s->dialect,
                                      .tables = s->tables,
                                      .n_tables = MIN_OF(s->n_tables, (size_t)CATALOG_TABLES_MAX) };
    while (!s->database && r->at < s->n_files && !s->files[r->at].table)
        r->at++;
    bool is_all = r->at >= (s->database ? 1 : s->n_files);
    if (!is_all && !s->database)
        subject.file = &s->files[r->at];
    if (!is_all)
        return records_need(s->records, s->owner, &subject, on_progress, on_record, r, &r->wait,
                            err);
    int n = loop_background(r->loop, make_work, make_done, r, err);
    r->is_busy = n == 0;
    return n;
}

static void on_record(const struct record *record, const struct err *err, void *arg)
{
    struct catalog_reading *r = arg;
    struct err why = err ? *err : (struct err)ERR_INIT;
    r->wait = NULL;
    int n = err ? -(int)err->code : 0;
    if (n == 0) {
        r->found[r->at] = (struct record){ .profile = json_incref(record->profile),
                                           .values = json_incref(record->values) };
        r->at++;
        n = next(r, &why);
    }
    if (n < 0)
        end(r, &why);
}

int catalog_read(struct executor *ex, const struct catalog_source *source,
                 record_progress_fn progress, catalog_read_fn done, void *arg,
                 struct catalog_reading **ret, struct err *err)
{
    struct catalog_reading *r = calloc(1, sizeof(*r));
    struct record *found = calloc(source->n_files + 1, sizeof(*found));
    if (!r || !found) {
        free(r);
        free(found);
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    }
    *r = (struct catalog_reading){ .source = *source,
                                   .is_database = source->database != NULL,
                                   .relationships = json_incref((json_t *)source->relationships),
                                   .words = json_incref((json_t *)source->words),
                                   .loop = executor_loop(ex),
                                   .found = found,
                                   .progress = progress,
                                   .done = done,
                                   .arg = arg,
                                   .err = ERR_INIT };
    arena_init(&r->arena, 1u << 20);
    r->dataset_id = arena_strdup(&r->arena, source->dataset_id);
    r->names = arena_alloc(&r->arena, (source->n_files + 1) * sizeof(*r->names));
    bool ok = r->dataset_id && r->names;
    for (size_t i = 0; i < source->n_files && ok; i++) {
        const char *table = source->files[i].table;
        r->names[i] = table ? arena_strdup(&r->arena, table) : NULL;
        ok = r->names[i] || !table;
    }
    int n = ok ? next(r, err) : err_set(err, ERR_NO_MEMORY, "out of memory");
    if (n < 0)
        catalog_read_stop(r);
    else
        *ret = r;
    return n;
}
