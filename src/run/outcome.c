/* What a verdict means to whoever asked for the run. */

#include "run/outcome.h"

#include "base/macros.h"

const char *outcome_status(const struct outcome_of *of, enum verdict v)
{
    switch (v) {
    case VERDICT_OK:
        return "succeeded";
    case VERDICT_POLICY:
        return "rejected";
    case VERDICT_TIMEOUT:
        return "timed_out";
    case VERDICT_KILLED:
        return of->cancelled ? "cancelled" : "failed"; /* it may have ended itself */
    default:
        return "failed";
    }
}

json_t *outcome_error(const struct outcome_of *of, const struct run_result *res)
{
    bool python = of->kind == RUN_PYTHON;
    long long seconds = (long long)(of->timeout_ms + 999) / 1000;
    json_t *own = json_object_get(res->body, "error");
    switch (res->verdict) {
    case VERDICT_OK:
        return json_null();
    case VERDICT_TIMEOUT:
        return json_pack("{s:s, s:o}", "type", "RUNNER_TIMEOUT", "message",
                         json_sprintf(python ? "Python execution exceeded timeout of %lld seconds"
                                             : "Query exceeded timeout of %lld seconds", seconds));
    case VERDICT_KILLED:
        if (of->cancelled)
            return json_pack("{s:s, s:s}", "type", "CANCELLED", "message", "The run was cancelled");
        break;
    case VERDICT_MEMORY:
        return json_pack("{s:s, s:o}", "type", "MEMORY_LIMIT", "message",
                         json_sprintf("The run needed more than its %lld MB of memory; select fewer rows or columns, or raise "
                                      "RIDDLE_MEMORY", (long long)(of->memory_bytes >> 20)));
    case VERDICT_OUTPUT:
        return json_pack("{s:s, s:s}", "type", "OUTPUT_LIMIT", "message",
                         "The code printed far more than can be shown and was stopped; print less");
    default:
        break;
    }
    return own && !json_is_null(own) ? json_incref(own)
                                     : json_pack("{s:s, s:s}", "type", "RUNNER_INTERNAL_ERROR", "message", "The run failed");
}

static json_t *take_or(json_t *body, const char *key, json_t *dflt)
{
    json_t *v = json_object_get(body, key);
    if (!v)
        return dflt;
    json_decref(dflt);
    return json_incref(v);
}

json_t *outcome_result(const struct outcome_of *of, const struct run_result *res)
{
    json_t *r = json_pack("{s:o, s:o, s:o, s:o, s:o, s:I, s:o, s:s}", "columns", take_or(res->body, "columns", json_array()),
                          "types", take_or(res->body, "types", json_array()), "rows", take_or(res->body, "rows", json_array()),
                          "row_count", take_or(res->body, "row_count", json_integer(0)), "truncated",
                          take_or(res->body, "truncated", json_false()), "exec_time_ms",
                          (json_int_t)(json_number_value(json_object_get(res->body, "exec_time_ms")) + 0.5), "error",
                          outcome_error(of, res), "verdict", verdict_name(res->verdict));
    if (!r)
        return NULL;
    if (of->kind == RUN_PYTHON) {
        json_object_set_new(r, "stdout", json_text(res->out.data, res->out.len));
        json_object_set_new(r, "stderr", json_text(res->errout.data, res->errout.len));
        json_object_set_new(r, "stdout_truncated", json_boolean(res->out_truncated));
        json_object_set_new(r, "stderr_truncated", json_boolean(res->errout_truncated));
        if (json_array_size(res->displays))
            json_object_set(r, "outputs", res->displays);
        json_t *value = json_object_get(res->body, "value");
        if (value && !json_is_null(value))
            json_object_set(r, "value", value);
    }
    static const char *const extras[] = { "rejects", "files", "files_truncated" };
    for (size_t i = 0; i < ARRAY_SIZE(extras); i++)
        if (json_object_get(res->body, extras[i]))
            json_object_set(r, extras[i], json_object_get(res->body, extras[i]));
    return r;
}
