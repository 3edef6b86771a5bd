/* PATCH /datasets/{id}: what people write about their data. */

#include <stdio.h>
#include "api/app.h"
#include "data/told.h"
#include "data/words.h"

struct change {
    struct http_request *req; /* NULL: the client left */
};

static void changed(const json_t *words, const struct err *err, void *arg)
{
    struct http_request *req = ((struct change *)arg)->req;
    free(arg);
    if (req && err)
        http_reply_error(req, err);
    else if (req)
        http_reply_json(
            req, 200, json_pack("{s:s, s:O}", "id", http_param(req, "dataset_id"), "words", words));
}

static void patch_dataset(struct http_request *req)
{
    struct err err = ERR_INIT;
    struct change *c = calloc(1, sizeof(*c));
    int r = c ? told_change(app_of(req)->data, http_owner(req), http_param(req, "dataset_id"),
                            http_body_json(req), changed, c, &err) :
                err_set(&err, ERR_NO_MEMORY, "out of memory");
    if (r < 0) {
        free(c);
        http_reply_error(req, &err);
        return;
    }
    c->req = req;
    http_hold(req, &c->req);
}

static const struct schema_field note = { .name = "",
                                          .types = SCHEMA_STRING,
                                          SCHEMA_RANGE(1, WORDS_TEXT_MAX) };
static const struct schema_field words_fields[] = {
    { .name = "description",
      .types = SCHEMA_STRING | SCHEMA_NULL,
      .doc = "What the data is about.",
      SCHEMA_MAX(WORDS_DESCRIPTION_MAX) },
    { .name = "notes",
      .types = SCHEMA_ARRAY | SCHEMA_NULL,
      .items = &note,
      SCHEMA_MAX(WORDS_NOTES_MAX),
      .doc =
          "Rules and definitions for whoever answers. They stand beside those of registry.json." },
    { .name = "metrics",
      .types = SCHEMA_OBJECT | SCHEMA_NULL,
      .example = "{\"revenue\":\"sum of amount where status is "
                 "completed\",\"volume\":\"sum(quantity * price)\"}",
      .doc = "Measures by name. The planner understands one figure of one table in plain words, or "
             "a call such as `sum(a * b)`." },
    { .name = "tables",
      .types = SCHEMA_OBJECT | SCHEMA_NULL,
      .example =
          "{\"orders\":{\"description\":\"One row per "
          "order\",\"columns\":{\"amt\":{\"description\":\"Net amount\",\"unit\":\"EUR\"}}}}",
      .doc = "{table: {description, columns: {column: {description, unit, role}}}}; role is `id`, "
             "`measure`, `category` or `text`" },
    { .name = NULL },
};
static const struct schema words_schema = {
    .name = "DatasetWords",
    .fields = words_fields,
    .doc =
        "What to change (JSON Merge Patch): null or an empty text removes, what is not named stays."
};
static const struct route_param params[] = {
    ROUTE_PATH("dataset_id", STRING, "A dataset, or the `file_id` of an upload.",
               SCHEMA_RANGE(1, 200)),
    { .field = { .name = NULL } },
};

static const struct route routes[] = {
    { HTTP_PATCH, "/datasets/{dataset_id}", patch_dataset, .id = "describeDataset",
      .tag = "datasets", .summary = "Describe a dataset, its columns, units and metrics",
      .params = params, .body = &words_schema,
      .doc = "Your words reach models and the planner in every thread of yours, and nobody else's.",
      .errors = ROUTE_ERR(NOT_FOUND) | ROUTE_ERR(VALIDATION) | ROUTE_ERR(UNAVAILABLE) },
};

const struct route_table told_routes = { routes, ARRAY_SIZE(routes) };
