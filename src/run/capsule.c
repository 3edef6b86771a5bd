/* Runs as the store keeps them. */

#include "run/capsule.h"

#include <string.h>
#include "base/json.h"
#include "base/macros.h"
#include "base/str.h"

static const char *const policy_names[_POLICY_MAX] = { "restricted", "open" };

static char *text_of(const json_t *value)
{
    return value && !json_is_null(value) ? json_to_str(value) : NULL;
}

/* Of the files that the result's outputs refer to (figures.c). */
static int64_t figure_bytes(const json_t *result)
{
    static const char *const keys[] = { "png_bytes", "svg_bytes", "html_bytes", "json_bytes" };
    int64_t sum = 0;
    size_t i;
    json_t *output;
    json_array_foreach(json_object_get(result, "outputs"), i, output) {
        for (size_t k = 0; k < ARRAY_SIZE(keys); k++)
            sum += json_integer_value(json_object_get(output, keys[k]));
    }
    return sum;
}

int capsule_store(struct store *s, const struct capsule_spec *spec, const struct message *messages,
                  size_t n_messages, store_done_fn done, void *arg, struct err *err)
{
    const struct run_request *req = spec->request;
    auto_json json_t *limits = json_pack(
        "{s:s, s:I, s:I, s:I, s:I}", "python_policy", policy_names[req->policy], "timeout_ms",
        (json_int_t)req->timeout_ms, "max_rows", (json_int_t)req->max_rows, "max_output_bytes",
        (json_int_t)req->max_output_bytes, "memory_bytes", (json_int_t)spec->limits->memory_bytes);
    auto_free char *error = text_of(json_object_get(spec->result, "error"));
    auto_free char *timings = text_of(spec->timings), *usage = text_of(spec->usage),
                   *plan = text_of(spec->plan);
    auto_free char *limits_text = text_of(limits);
    if (!limits_text)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    const struct capsule c = {
        .run_id = spec->run_id,
        .owner = spec->owner,
        .created_at = spec->created_at,
        .dataset_id = spec->dataset_id,
        .dataset_version_hash = spec->dataset_version_hash,
        .query_mode = spec->query_mode,
        .status = spec->status,
        .verdict = json_string_value(json_object_get(spec->result, "verdict")),
        .exec_time_ms = json_integer_value(json_object_get(spec->result, "exec_time_ms")),
        .thread_id = spec->thread_id,
        .replay_of = spec->replay_of,
        .question = spec->question,
        .error_json = error,
        .timings_json = timings,
        .usage_json = usage,
        .limits_json = limits_text,
        .plan_json = plan,
        .compiled_sql = spec->sql,
        .python_code = spec->python,
        .result = spec->result && !json_is_null(spec->result) ? spec->result : NULL,
        .figure_bytes = figure_bytes(spec->result),
    };
    struct store_put puts[STORE_BATCH_MAX] = { { RECORD_CAPSULE, &c, STORE_CREATE } };
    for (size_t i = 0; i < n_messages && i + 1 < STORE_BATCH_MAX; i++)
        puts[i + 1] = (struct store_put){ RECORD_MESSAGE, &messages[i], STORE_PUT };
    return store_put_batch(s, puts, n_messages + 1, done, arg, err);
}

json_t *capsule_timings(const struct lease_times *times, const struct run_result *res)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:f}", "queue", (double)times->queue_us / 1000, "load",
                     (double)times->load_us / 1000, "start", (double)times->start_us / 1000,
                     "execute", (double)res->execute_us / 1000, "kernel",
                     json_number_value(json_object_get(res->body, "exec_time_ms")));
}

json_t *capsule_usage(const struct run_result *res)
{
    return json_pack("{s:I, s:f}", "peak_memory_bytes", (json_int_t)res->peak_memory_bytes,
                     "cpu_ms", (double)res->cpu_us / 1000);
}

int capsule_request(const struct capsule *c, const struct config *cfg, struct run_request *ret,
                    struct err *err)
{
    auto_json json_t *limits = NULL;
    const char *code = c->python_code ? c->python_code : c->compiled_sql;
    long long timeout_ms, rows, bytes;
    if (!code)
        return err_set(err, ERR_VALIDATION, "this run holds no code to repeat");
    int r = c->limits_json ? json_parse(c->limits_json, strlen(c->limits_json), &limits, err) : 0;
    if (r == 0)
        r = json_get_i64(limits, "timeout_ms", cfg->run_timeout_s * 1000, 1, 3600000, &timeout_ms,
                         err);
    if (r == 0)
        r = json_get_i64(limits, "max_rows", cfg->max_rows, 1, 1000000, &rows, err);
    if (r == 0)
        r = json_get_i64(limits, "max_output_bytes", cfg->max_output_bytes, 1, 1 << 30, &bytes,
                         err);
    if (r < 0)
        return r;
    bool open = str_eq(json_string_value(json_object_get(limits, "python_policy")),
                       policy_names[POLICY_OPEN]);
    *ret = (struct run_request){ .kind = c->python_code ? RUN_PYTHON : RUN_SQL,
                                 .code = code,
                                 .code_len = strlen(code),
                                 .policy = open ? POLICY_OPEN : POLICY_RESTRICTED,
                                 .timeout_ms = timeout_ms,
                                 .max_rows = rows,
                                 .max_output_bytes = bytes };
    return 0;
}
