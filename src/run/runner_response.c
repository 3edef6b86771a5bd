/*
 * RunnerResponse: what a run_result, or an err that came before one, looks like to whoever sent the
 * request.
 *
 * The members that the first runner had are always there, whatever happened. The words of a verdict
 * are outcome.c's.
 */

#include "run/runner.h"

#include <string.h>

#include "base/str.h"
#include "run/outcome.h"

/* ---- parts of a response ---- */

static json_t *error_object(const char *type, const char *message)
{
    json_t *error = json_object();
    json_object_set_new(error, "type", json_string(type));
    json_object_set_new(error, "message", json_text(message, strlen(message)));
    return error;
}

/*
 * A borrowed member of the body if it is an array, else an empty one; a new reference either way.
 */
static json_t *array_or_empty(const json_t *body, const char *key)
{
    json_t *v = json_object_get(body, key);
    return json_is_array(v) ? json_incref(v) : json_array();
}

static json_t *text_of(const struct buf *b)
{
    return json_text(buf_cstr(b), b->len);
}

/*
 * Figures under "images", everything else that was displayed under "displays"; neither when there
 * is none.
 */
static void set_displays(json_t *response, const json_t *displays)
{
    json_t *images = json_array(), *others = json_array();
    size_t i;
    json_t *d;
    json_array_foreach(displays, i, d) {
        bool image = json_object_get(d, "png") || json_object_get(d, "svg");
        json_array_append(image ? images : others, d);
    }
    if (json_array_size(images) > 0)
        json_object_set(response, "images", images);
    if (json_array_size(others) > 0)
        json_object_set(response, "displays", others);
    json_decref(images);
    json_decref(others);
}

static bool has_result(const json_t *body)
{
    const json_t *flag = json_object_get(body, "has_result");
    if (json_is_boolean(flag))
        return json_is_true(flag);
    const json_t *value = json_object_get(body, "value");
    return json_array_size(json_object_get(body, "columns")) > 0 || (value && !json_is_null(value));
}

static bool is_silent_python(const struct runner_request *req, const struct run_result *result)
{
    return req->run.kind == RUN_PYTHON && result->verdict == VERDICT_OK &&
           !has_result(result->body) && result->out.len == 0 &&
           json_array_size(result->displays) == 0;
}

/* ---- responses ---- */

json_t *runner_response(const struct runner_request *req, const struct run_result *result)
{
    const struct outcome_of of = { .request = &req->run, .limits = &req->limits };
    const json_t *body = result->body;
    const char *status = "success";
    const char *verdict = verdict_name(result->verdict);
    json_t *error = NULL;
    json_t *response = json_object();

    if (is_silent_python(req, result)) {
        status = "error";
        verdict = verdict_name(VERDICT_ERROR);
        error = error_object(
            "PYTHON_EXECUTION_ERROR",
            "no result produced: set result_df, result_rows or result, or end the code with an "
            "expression, or print something");
    } else if (result->verdict != VERDICT_OK) {
        status = result->verdict == VERDICT_TIMEOUT ? "timeout" : "error";
        error = outcome_error(&of, result);
    }

    json_t *rows = error ? json_array() : array_or_empty(body, "rows");
    json_object_set_new(response, "status", json_string(status));
    json_object_set_new(response, "columns",
                        error ? json_array() : array_or_empty(body, "columns"));
    json_object_set(response, "rows", rows);
    json_object_set_new(response, "row_count", json_integer((json_int_t)json_array_size(rows)));
    json_object_set_new(response, "exec_time_ms", json_integer(outcome_exec_time_ms(result)));
    json_object_set_new(response, "stdout_trunc", text_of(&result->out));
    json_object_set_new(response, "stderr_trunc", text_of(&result->errout));
    json_object_set_new(response, "error", error ? error : json_null());
    json_object_set_new(response, "truncated",
                        json_boolean(!error && json_is_true(json_object_get(body, "truncated"))));
    json_decref(rows);

    json_object_set_new(response, "verdict", json_string(verdict));
    json_object_set_new(response, "types", error ? json_array() : array_or_empty(body, "types"));
    json_object_set_new(response, "stdout_truncated", json_boolean(result->out_truncated));
    json_object_set_new(response, "stderr_truncated", json_boolean(result->errout_truncated));
    json_object_set_new(response, "interrupted", json_boolean(result->interrupted));
    json_object_set_new(response, "state_lost", json_boolean(result->state_lost));
    set_displays(response, result->displays);
    json_t *rejects = json_object_get(body, "rejects");
    if (rejects && !json_is_null(rejects))
        json_object_set(response, "rejects", rejects);
    json_object_set_new(response, "timings_ms",
                        json_pack("{s:f, s:f, s:f}", "start", (double)result->start_us / 1e3,
                                  "load", (double)result->load_us / 1e3, "execute",
                                  (double)result->execute_us / 1e3));
    return response;
}

json_t *runner_failure(const struct err *err)
{
    const char *type, *verdict = verdict_name(VERDICT_ERROR);

    switch (err->code) {
    case ERR_INVALID_INPUT:
    case ERR_INVALID_JSON:
    case ERR_VALIDATION:
    case ERR_ISOLATION:
    case ERR_CONFIG:
        type = err_name(err->code);
        break;
    case ERR_CANCELLED:
        verdict = verdict_name(VERDICT_KILLED);
        type = "KILLED";
        break;
    default:
        type = err_name(ERR_INTERNAL);
        break;
    }
    json_t *response = json_object();
    json_object_set_new(response, "status", json_string("error"));
    json_object_set_new(response, "columns", json_array());
    json_object_set_new(response, "rows", json_array());
    json_object_set_new(response, "row_count", json_integer(0));
    json_object_set_new(response, "exec_time_ms", json_integer(0));
    json_object_set_new(response, "stdout_trunc", json_string(""));
    json_object_set_new(response, "stderr_trunc", json_string(""));
    json_object_set_new(response, "error", error_object(type, err->message));
    json_object_set_new(response, "truncated", json_false());
    json_object_set_new(response, "verdict", json_string(verdict));
    json_object_set_new(response, "types", json_array());
    json_object_set_new(response, "interrupted", json_false());
    json_object_set_new(response, "state_lost", json_false());
    return response;
}

bool runner_succeeded(const json_t *response)
{
    return str_eq(json_string_value(json_object_get(response, "status")), "success");
}
