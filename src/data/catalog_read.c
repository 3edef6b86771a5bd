/* Reading a catalog in the event loop; see catalog_read.h. */

#include "data/catalog_read.h"

#include <stdlib.h>
#include <string.h>
#include "base/background.h"
#include "base/macros.h"
#include "net/loop.h"

/* So many rows of answers are looked at in the loop; more are looked at in the background. */
#define AT_ONCE_ROWS 1000

struct feeding;

struct catalog_reading {
    struct catalog_source source;
    uv_loop_t *loop;
    struct catalog *catalog;
    struct lease *lease;
    struct feeding *feeding; /* under way */
    size_t n_rows;           /* of all answers */
    catalog_read_fn done;
    void *arg;
};

/* An answer that the catalog takes in; meanwhile nobody else looks at the catalog. */
struct feeding {
    struct catalog_reading *reading; /* NULL: it was stopped */
    struct catalog *catalog;
    json_t *body;
    int status;
    struct err err;
};

void catalog_read_stop(struct catalog_reading *r)
{
    if (!r)
        return;
    if (r->feeding)
        r->feeding->reading = NULL;
    lease_release(r->lease);
    catalog_unref(r->catalog);
    free(r);
}

/* The kernel that answered is given back: the executor keeps it for the first question. */
static void end(struct catalog_reading *r, const struct err *err)
{
    struct err why = err ? *err : (struct err)ERR_INIT;
    lease_release(TAKE_PTR(r->lease));
    r->done(err ? NULL : r->catalog, err ? &why : NULL, r->arg);
    catalog_read_stop(r);
}

static void ask(struct catalog_reading *r);

static void fed(struct catalog_reading *r, int status, const struct err *err)
{
    if (status < 0)
        end(r, err);
    else
        ask(r);
}

static void feed_work(void *arg)
{
    struct feeding *f = arg;
    f->status = catalog_feed(f->catalog, f->body, &f->err);
}

static void feed_done(void *arg)
{
    struct feeding *f = arg;
    struct catalog_reading *r = f->reading;
    catalog_unref(f->catalog);
    json_discard(f->body);
    if (r) {
        r->feeding = NULL;
        fed(r, f->status, &f->err);
    }
    free(f);
}

/*
 * The values of a table that has many take a while to index, the more so all of them at the end.
 */
static void feed(struct catalog_reading *r, json_t *body)
{
    struct err err = ERR_INIT;
    r->n_rows += json_array_size(json_object_get(body, "rows")) +
                 json_array_size(json_object_get(body, "columns"));
    struct feeding *f = r->n_rows > AT_ONCE_ROWS ? malloc(sizeof(*f)) : NULL;
    if (f) {
        *f = (struct feeding){ .reading = r,
                               .catalog = catalog_ref(r->catalog),
                               .body = json_incref(body),
                               .err = ERR_INIT };
        if (loop_background(r->loop, feed_work, feed_done, f, &err) == 0) {
            r->feeding = f;
            return;
        }
        catalog_unref(f->catalog);
        json_decref(f->body);
        free(f);
    }
    int status = catalog_feed(r->catalog, body, &err);
    fed(r, status, &err);
}

static void on_rows(struct lease *lease, struct run_result *result, const struct err *err,
                    void *arg)
{
    (void)lease;
    struct catalog_reading *r = arg;
    const char *database = r->source.database;
    struct err why = ERR_INIT;
    int n = 0;
    if (err) {
        why = *err;
        n = -(int)err->code;
    } else if (result->verdict != VERDICT_OK) {
        const char *message = json_string_value(
            json_object_get(json_object_get(result->body, "error"), "message"));
        n = err_set(&why, database ? ERR_UNAVAILABLE : ERR_INTERNAL,
                    "looking at the data%s%s ended in %s%s%s", database ? " of " : "",
                    database ? database : "", verdict_name(result->verdict), message ? ": " : "",
                    message ? message : "");
    }
    auto_discard json_t *body = n == 0 ? json_incref(result->body) : NULL;
    if (result)
        run_result_finish(result);
    if (n < 0)
        end(r, &why);
    else
        feed(r, body);
}

static void ask(struct catalog_reading *r)
{
    struct err err = ERR_INIT;
    int64_t max_rows;
    const char *sql = catalog_next_sql(r->catalog, &max_rows);
    if (!sql) {
        end(r, NULL);
        return;
    }
    struct run_request req = { .kind = RUN_SQL,
                               .code = sql,
                               .code_len = strlen(sql),
                               .timeout_ms = CATALOG_TIMEOUT_MS,
                               .max_rows = max_rows,
                               .max_output_bytes = CATALOG_OUTPUT_MAX_BYTES };
    if (lease_run(r->lease, &req, NULL, on_rows, r, &err) < 0)
        end(r, &err);
}

static void on_ready(struct lease *lease, const struct err *err, void *arg)
{
    struct catalog_reading *r = arg;
    const struct catalog_source *s = &r->source;
    const char *tables[CATALOG_TABLES_MAX];
    struct err why = ERR_INIT;
    if (err) {
        r->lease = NULL; /* it is gone already */
        end(r, err);
        return;
    }
    size_t n = s->database ? 0 : lease_table_names(lease, tables, CATALOG_TABLES_MAX);
    for (size_t i = 0; i < s->n_tables && n < CATALOG_TABLES_MAX; i++)
        tables[n++] = s->tables[i];
    if (catalog_create(s->dataset_id, s->dialect, tables, n, s->relationships, s->words,
                       &r->catalog, &why) < 0)
        end(r, &why);
    else
        ask(r);
}

int catalog_read(struct executor *ex, const struct catalog_source *source,
                 void (*progress)(void *arg, const char *stage, double fraction),
                 catalog_read_fn done, void *arg, struct catalog_reading **ret, struct err *err)
{
    struct catalog_reading *r = calloc(1, sizeof(*r));
    if (!r)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    *r = (struct catalog_reading){
        .source = *source, .loop = executor_loop(ex), .done = done, .arg = arg
    };
    struct sandbox_spec spec = { .kind = RUN_SQL,
                                 .dataset_id = source->dataset_id,
                                 .database = source->database,
                                 .files = source->files,
                                 .n_files = source->n_files };
    struct run_events events = { .progress = progress, .arg = arg };
    sandbox_limits_default(source->cfg, &spec.limits);
    int n = executor_acquire(ex, source->owner, &spec, progress ? &events : NULL, on_ready, r,
                             &r->lease, err);
    if (n < 0) {
        free(r);
        return n;
    }
    *ret = r;
    return 0;
}
