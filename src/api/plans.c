/* /plans: a QueryPlan as SQL, for tools. */

#include "api/app.h"
#include "data/database_sets.h"
#include "base/log.h"
#include "base/str.h"
#include "plan/compile.h"
#include "plan/query_plan.h"

#define IGNORED_SHOWN_MAX 512 /* of the names of skipped fields, in the log */

/* The schema that plans are checked against; NULL while nothing is known about the columns. */
static int plan_schema_of(const struct dataset *d, struct arena *a, struct plan_schema **ret,
                          struct err *err)
{
    *ret = NULL;
    for (size_t i = 0; i < d->n_files; i++)
        if (!d->files[i].schema && !d->files[i].profile)
            return 0;
    auto_json json_t *schema = dataset_schema_json(d);
    return plan_schema_parse(schema, NULL, a, ret, err);
}

int app_compile_plan(const struct dataset_handle *h, const json_t *plan, struct arena *a,
                     struct buf *ret_sql, struct err *err)
{
    const struct dataset *d = h->dataset;
    struct query_plan *parsed;
    struct plan_schema *schema;
    auto_buf struct buf ignored = BUF_INIT(IGNORED_SHOWN_MAX);
    int r = plan_parse_known(plan, a, &ignored, &parsed, err);
    if (r == 0 && ignored.len > 0)
        log_debug("plan.ignored", LOG_STR("fields", buf_cstr(&ignored)));
    if (r == 0 && d && !str_eq(parsed->dataset_id, d->id))
        r = err_set(err, ERR_VALIDATION, "the plan is for dataset '%s', the request for '%s'",
                    parsed->dataset_id, d->id);
    if (r == 0)
        r = d ? plan_schema_of(d, a, &schema, err) : (schema = NULL, 0);
    if (r == 0 && schema && h->database)
        schema->dialect = database_set_dialect(h->database);
    if (r == 0)
        r = plan_check(parsed, schema, err);
    if (r == 0)
        r = plan_compile(parsed, schema, ret_sql, err);
    return r;
}

/* ---- POST /plans/compile ---- */

static const struct schema_field fields[] = {
    SCHEMA_REQUIRED(
        "plan", OBJECT, "A QueryPlan (docs/plans.md).",
        .example =
            "{\"dataset_id\":\"ecommerce\",\"table\":\"orders\",\"select\":[{\"func\":\"count\",\"column\":\"*\",\"alias\":\"n\"}]}"),
    { .name = NULL },
};
static const struct schema compile_schema = { .name = "CompileRequest", .fields = fields };

static void post_compile(struct http_request *req)
{
    struct err err = ERR_INIT;
    const json_t *plan = json_object_get(http_body_json(req), "plan");
    const char *id = json_string_value(json_object_get(plan, "dataset_id"));
    struct dataset_handle handle = { 0 };
    auto_buf struct buf sql = BUF_INIT(1u << 20);
    int r = id ? data_find(app_of(req)->data, http_owner(req), id, &handle, &err) : 0;
    if (r == 0)
        r = app_compile_plan(&handle, plan, http_arena(req), &sql, &err);
    dataset_handle_release(&handle);
    if (r < 0)
        http_reply_error(req, &err);
    else
        http_reply_json(req, 200, json_pack("{s:s, s:O}", "sql", buf_cstr(&sql), "plan", plan));
}

static const struct route routes[] = {
    { HTTP_POST, "/plans/compile", post_compile, .id = "compilePlan", .tag = "plans",
      .summary = "Check a plan against its dataset and show its SQL", .body = &compile_schema,
      .errors = ROUTE_ERR(NOT_FOUND) | ROUTE_ERR(VALIDATION) },
};

const struct route_table plan_routes = { routes, ARRAY_SIZE(routes) };
