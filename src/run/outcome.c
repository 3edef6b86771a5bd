/* What a verdict means to whoever asked for the run. */

#include "run/outcome.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/macros.h"
#include "base/str.h"

/* ---- the table ---- */

/*
 * In a message {what} stands for the kind of code, {limit} for the limit that was hit, {own} for
 * the kernel's message.
 */
struct words {
    const char *status;
    const char *type; /* NULL: the kernel's own */
    const char *message;
    const char
        *with_own; /* instead of it, when the kernel gave a message of its own; NULL: never */
};

static const struct words words[_VERDICT_MAX] = {
    [VERDICT_OK] = { "succeeded", NULL, "", NULL },
    [VERDICT_ERROR] = { "failed", NULL, "the run failed and gave no reason", "{own}" },
    [VERDICT_TIMEOUT] = { "timed_out", "RUNNER_TIMEOUT",
                          "{what} exceeded timeout of {limit} seconds", NULL },
    [VERDICT_MEMORY] = { "failed", "MEMORY_LIMIT",
                         "the run needed more than its memory limit of {limit} MB: select fewer "
                         "rows or columns, aggregate in SQL "
                         "first, or raise the limit (RIDDLE_MEMORY; of a sandbox: max_memory_mb)",
                         NULL },
    [VERDICT_PROCESSES] = { "failed", "PROCESS_LIMIT",
                            "the run started more than its limit of {limit} processes and "
                            "threads: start fewer, or raise the "
                            "limit (RIDDLE_PIDS; of a sandbox: max_threads)",
                            NULL },
    [VERDICT_OUTPUT] = { "failed", "OUTPUT_LIMIT",
                         "the run printed far more than its limit of {limit} bytes: print less, "
                         "leave rows in result_df, or raise "
                         "max_output_bytes (at most 1000000)",
                         NULL },
    [VERDICT_FILESIZE] = { "failed", "FILE_SIZE_LIMIT",
                           "the run wrote a file larger than its limit of {limit} MB: write "
                           "smaller files, or raise the limit "
                           "(RIDDLE_FILE_SIZE)",
                           NULL },
    [VERDICT_POLICY] = { "rejected", NULL, "the code is not allowed by the policy", "{own}" },
    [VERDICT_KILLED] = { "failed", "KILLED",
                         "the run was killed before it ended: run it again, and see `riddle "
                         "doctor` if it repeats",
                         "{own}: run it again, and see `riddle doctor` if it repeats" },
};

/* A reason for VERDICT_TIMEOUT that is not the code's. */
static const struct words paused = {
    "timed_out", "PAUSE_LIMIT",
    "the run was paused, or waited for input, for too long and was stopped: continue sooner, or "
    "raise the limit (RIDDLE_DEBUG_PAUSE_SECONDS)",
    NULL
};
/* Two reasons for VERDICT_KILLED that are nobody's fault. */
static const struct words cancelled = { "cancelled", "CANCELLED", "The run was cancelled", NULL };
static const struct words interrupted = {
    "failed", "KILLED", "the run was interrupted before it ended: run it again for a result", NULL
};

static const struct words *words_for(const struct outcome_of *of, enum verdict v,
                                     bool was_interrupted)
{
    if (v == VERDICT_KILLED && of->cancelled)
        return &cancelled;
    return v == VERDICT_KILLED && was_interrupted ? &interrupted : &words[v];
}

static int64_t limit_of(const struct outcome_of *of, enum verdict v)
{
    switch (v) {
    case VERDICT_TIMEOUT:
        return (of->request->timeout_ms + 999) / 1000;
    case VERDICT_MEMORY:
        return of->limits->memory_bytes >> 20;
    case VERDICT_PROCESSES:
        return of->limits->pids;
    case VERDICT_OUTPUT:
        return of->request->max_output_bytes;
    case VERDICT_FILESIZE:
        return of->limits->file_bytes >> 20;
    default:
        return 0;
    }
}

/* ---- status and error ---- */

const char *outcome_status(const struct outcome_of *of, enum verdict v)
{
    return words_for(of, v, false)->status;
}

static json_t *write_message(const char *text, const char *what, int64_t limit, const char *own)
{
    char number[24];
    snprintf(number, sizeof(number), "%" PRId64, limit);
    const struct {
        const char *name, *value;
    } marks[] = { { "{what}", what }, { "{limit}", number }, { "{own}", own } };
    auto_buf struct buf b = BUF_INIT(4u << 20);
    struct err ignored = ERR_INIT;
    while (*text) {
        size_t i = 0;
        while (i < ARRAY_SIZE(marks) && !str_starts(text, marks[i].name))
            i++;
        bool mark = i < ARRAY_SIZE(marks);
        if (buf_append(&b, mark ? marks[i].value : text, mark ? strlen(marks[i].value) : 1,
                       &ignored) < 0)
            break;
        text += mark ? strlen(marks[i].name) : 1;
    }
    return json_text(buf_cstr(&b), b.len);
}

/* A kernel that died of a forbidden system call could not name its own error. */
static const char *type_of(enum verdict v, bool python, const char *type)
{
    if (v == VERDICT_POLICY && !(type && str_ends(type, "_POLICY_VIOLATION")))
        return python ? "PYTHON_POLICY_VIOLATION" : "SQL_POLICY_VIOLATION";
    return type ? type : "RUNNER_INTERNAL_ERROR";
}

/* The first or, of a traceback, the last bytes of a member. */
static void cut_member(json_t *error, const char *key, size_t max, bool keeps_end)
{
    const json_t *v = json_object_get(error, key);
    const char *text = json_string_value(v);
    size_t len = json_string_length(v), from;
    if (len <= max)
        return;
    from = keeps_end ? len - max : 0;
    while (from > 0 && from < len && ((unsigned char)text[from] & 0xc0) == 0x80)
        from++; /* not within a character */
    len = keeps_end ? len - from : str_utf8_cut(text, len, max);
    json_object_set_new(error, key, json_text(text + from, len));
}

/* An error with a line of user code in it may be as long as that line. A capsule keeps less. */
static void cut_error(json_t *error)
{
    auto_free char *text = json_to_str(error);
    if (text && strlen(text) <= ERROR_JSON_MAX)
        return;
    cut_member(error, "message", ERROR_JSON_MAX / 20, false);
    cut_member(error, "traceback", ERROR_JSON_MAX / 10, true); /* escaped, a byte is up to six */
}

json_t *outcome_error(const struct outcome_of *of, const struct run_result *res)
{
    if (res->verdict == VERDICT_OK)
        return json_null();
    const struct words *w = res->paused_too_long ? &paused :
                                                   words_for(of, res->verdict, res->interrupted);
    const json_t *body = json_object_get(res->body, "error");
    const char *own = json_string_value(json_object_get(body, "message"));
    const char *type = json_string_value(json_object_get(body, "type"));
    bool python = of->request->kind == RUN_PYTHON;
    json_t *error = json_object();
    json_object_set_new(error, "type",
                        json_string(w->type ? w->type : type_of(res->verdict, python, type)));
    json_object_set_new(error, "message",
                        write_message(own && w->with_own ? w->with_own : w->message,
                                      python ? "Python execution" : "Query",
                                      limit_of(of, res->verdict), own));
    static const char *const details[] = { "line", "column", "traceback" };
    for (size_t i = 0; i < ARRAY_SIZE(details); i++) {
        json_t *v = json_object_get(body, details[i]);
        if (v && !json_is_null(v))
            json_object_set(error, details[i], v);
    }
    cut_error(error);
    return error;
}

/* ---- the result ---- */

json_int_t outcome_exec_time_ms(const struct run_result *res)
{
    const json_t *v = json_object_get(res->body, "exec_time_ms");
    return json_is_number(v) ? (json_int_t)(json_number_value(v) + 0.5) :
                               (json_int_t)((res->execute_us + 500) / 1000);
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
    json_t *r = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:I, s:o, s:s}", "columns",
        take_or(res->body, "columns", json_array()), "types",
        take_or(res->body, "types", json_array()), "rows", take_or(res->body, "rows", json_array()),
        "row_count", take_or(res->body, "row_count", json_integer(0)), "truncated",
        take_or(res->body, "truncated", json_false()), "exec_time_ms", outcome_exec_time_ms(res),
        "error", outcome_error(of, res), "verdict", verdict_name(res->verdict));
    if (!r)
        return NULL;
    if (of->request->kind == RUN_PYTHON) {
        json_object_set_new(r, "stdout", json_text(res->out.data, res->out.len));
        json_object_set_new(r, "stderr", json_text(res->errout.data, res->errout.len));
        json_object_set_new(r, "stdout_truncated", json_boolean(res->out_truncated));
        json_object_set_new(r, "stderr_truncated", json_boolean(res->errout_truncated));
        if (json_array_size(res->displays))
            json_object_set(r, "outputs", res->displays);
        if (res->displays_truncated)
            json_object_set_new(r, "outputs_truncated", json_true());
        json_t *value = json_object_get(res->body, "value");
        if (value && !json_is_null(value))
            json_object_set(r, "value", value);
    }
    static const char *const extras[] = { "rejects",  "files", "files_truncated",
                                          "returned", "debug", "stepped" };
    for (size_t i = 0; i < ARRAY_SIZE(extras); i++)
        if (json_object_get(res->body, extras[i]))
            json_object_set(r, extras[i], json_object_get(res->body, extras[i]));
    return r;
}
