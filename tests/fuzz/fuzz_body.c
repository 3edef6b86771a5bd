/*
 * Fuzzes the bodies of requests: any JSON is checked against the body of every route that has one,
 * and read as a RunnerRequest. What is accepted is accepted again with its defaults in place, and
 * names no file outside the data directory.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/app.h"
#include "base/str.h"
#include "run/runner.h"
#include "scratch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct route_table *const tables[] = { &health_routes, &dataset_routes, &plan_routes,
                                                    &run_routes, &upload_routes };

static void try_schema(const struct schema *schema, const json_t *body)
{
    auto_json json_t *value = json_deep_copy(body);
    struct err err = ERR_INIT;

    if (!value)
        abort();
    if (schema_validate(schema, value, NULL, &err) < 0) {
        if (err.code != ERR_VALIDATION || err.message[0] == '\0')
            abort();
        return;
    }
    auto_json json_t *again = json_deep_copy(value);
    if (!json_is_object(value) || schema_validate(schema, again, NULL, &err) < 0 ||
        !json_equal(value, again))
        abort();
}

/* The paths of the corpus are under /data; here they are under the scratch directory. */
static void aim_at_scratch(json_t *body)
{
    size_t i;
    json_t *file;

    json_array_foreach(json_object_get(body, "files"), i, file) {
        const char *path = json_string_value(json_object_get(file, "path"));

        if (path && str_starts(path, "/data"))
            json_object_set_new(file, "path",
                                json_sprintf("%s%s", scratch, path + strlen("/data")));
    }
}

static void try_runner(const struct config *cfg, unsigned flags, const json_t *body)
{
    struct runner_request req;
    struct err err = ERR_INIT;

    if (runner_request_from_json(cfg, flags, body, &req, &err) < 0) {
        if (err.code == ERR_NONE || err.message[0] == '\0' || err_http_status(err.code) >= 500)
            abort();
        return;
    }
    if (strlen(req.run.code) != req.run.code_len || req.n_files > SANDBOX_FILES_MAX ||
        (req.n_files == 0 && !(flags & RUNNER_FILES_OPTIONAL)))
        abort();
    for (size_t i = 0; i < req.n_files; i++) {
        if (!str_starts(req.files[i].path, scratch) || req.files[i].path[strlen(scratch)] != '/')
            abort();
    }
    runner_request_finish(&req);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct config cfg;
    struct err err = ERR_INIT;

    if (make_scratch()) {
        static const char csv[] = "id,total\n1,2.5\n";

        scratch_write("orders.csv", csv, strlen(csv));
        scratch_write("items.csv", csv, strlen(csv));
        /* The defaults: settings of whoever runs this would change what is tested. */
        if (clearenv() != 0 || config_load(&cfg, NULL, &err) < 0)
            abort();
        cfg.data_root = scratch;
    }
    auto_json json_t *body = NULL;
    if (json_parse((const char *)data, size, &body, &err) < 0)
        return 0;
    for (size_t t = 0; t < ARRAY_SIZE(tables); t++) {
        for (size_t i = 0; i < tables[t]->n; i++) {
            if (tables[t]->routes[i].body)
                try_schema(tables[t]->routes[i].body, body);
        }
    }
    aim_at_scratch(body);
    try_runner(&cfg, RUNNER_IN_DATA_ROOT, body);
    try_runner(&cfg, RUNNER_IN_DATA_ROOT | RUNNER_FILES_OPTIONAL, body);
    return 0;
}
