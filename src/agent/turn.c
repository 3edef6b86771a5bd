/*
 * A turn: one message and its answer. It begins when the turns before it have ended, is answered by what its first word asks for
 * (answer_direct.c) or by whoever answers here (answer_model.c, answer_planner.c), and ends in turn_finish(): capsule and messages are
 * stored, then the listener is told, then the next turn begins.
 */

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "agent/agent_impl.h"
#include "agent/chart.h"
#include "agent/claims.h"
#include "agent/summary.h"
#include "agent/tools.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/str.h"
#include "run/capsule.h"
#include "run/outcome.h"

#define SHOWN_OUTPUT_BYTES 20000 /* of a code_run's output */

const struct config *turn_cfg(const struct turn *t)
{
    return t->chat->agent->env.cfg;
}

void turn_say(struct turn *t, const char *type, json_t *taken)
{
    if (!t->dropped && t->listener.event && taken)
        t->listener.event(t->listener.arg, type, taken);
    json_decref(taken);
}

void turn_stage(struct turn *t, const char *stage, const char *text)
{
    turn_say(t, "status", json_pack("{s:s, s:s}", "stage", stage, "text", text));
}

void turn_set_plan(struct turn *t, json_t *plan)
{
    json_incref(plan);
    json_decref(t->plan);
    t->plan = plan;
}

/* ---- code that runs ---- */

static void on_output(void *arg, bool is_stderr, const char *text, size_t len)
{
    turn_say(arg, "step", json_pack("{s:s, s:o}", "stream", is_stderr ? "stderr" : "stdout", "text", json_text(text, len)));
}

static void on_display(void *arg, const json_t *data)
{
    struct turn *t = arg;
    if (json_array_size(t->images) >= FIGURES_MAX)
        return;
    if (json_object_get(data, "png") || json_object_get(data, "svg"))
        json_array_append_new(t->images, json_deep_copy(data));
    turn_say(t, "image", json_deep_copy(data));
}

static void on_progress(void *arg, const char *stage, double fraction)
{
    turn_say(arg, "status", json_pack("{s:s, s:s, s:s, s:f}", "stage", "loading", "text", stage, "what", stage, "progress", fraction));
}

static int begin_job(struct turn *t, enum run_kind kind, const char *code, int64_t max_rows, int64_t max_output_bytes, bool shown,
                     kernel_job_fn done, struct err *err)
{
    const struct config *cfg = turn_cfg(t);
    struct kernel_job job = {
        .kind = kind,
        .code = code,
        .timeout_ms = cfg->run_timeout_s * 1000,
        .max_rows = max_rows,
        .max_output_bytes = max_output_bytes,
        .events = { .progress = on_progress, .output = shown ? on_output : NULL, .display = shown ? on_display : NULL, .arg = t },
        .done = done,
        .arg = t,
    };
    return thread_kernel_run(t->chat->kernel, &job, err);
}

int turn_query(struct turn *t, const char *sql, int64_t max_rows, kernel_job_fn done, struct err *err)
{
    return begin_job(t, RUN_SQL, sql, max_rows, CATALOG_OUTPUT_MAX_BYTES, false, done, err);
}

/* What a run printed and gave, as text for people and models; bounded. */
static json_t *output_text(const json_t *result)
{
    auto_buf struct buf b = BUF_INIT(SHOWN_OUTPUT_BYTES + 4096);
    const char *out = json_string_value(json_object_get(result, "stdout")), *bad = json_string_value(json_object_get(result, "stderr"));
    const char *error = json_string_value(json_object_get(json_object_get(result, "error"), "message"));
    const char *trace = json_string_value(json_object_get(json_object_get(result, "error"), "traceback"));
    const char *value = json_string_value(json_object_get(json_object_get(result, "value"), "text"));
    struct err ignored = ERR_INIT;
    if (out && *out)
        (void)buf_append(&b, out, str_utf8_cut(out, strlen(out), SHOWN_OUTPUT_BYTES / 2), &ignored);
    if (bad && *bad)
        (void)buf_append(&b, bad, str_utf8_cut(bad, strlen(bad), SHOWN_OUTPUT_BYTES / 4), &ignored);
    if (error) {
        const char *text = trace && *trace ? trace : error;
        (void)buf_append_str(&b, b.len ? "\n[error]: " : "[error]: ", &ignored);
        (void)buf_append(&b, text, str_utf8_cut(text, strlen(text), SHOWN_OUTPUT_BYTES / 4), &ignored);
    } else if (value && *value) {
        if (b.len && b.data[b.len - 1] != '\n')
            (void)buf_append_str(&b, "\n", &ignored);
        (void)buf_append(&b, value, str_utf8_cut(value, strlen(value), SHOWN_OUTPUT_BYTES / 4), &ignored);
    } else if (json_array_size(json_object_get(result, "columns"))) {
        if (b.len)
            (void)buf_append_str(&b, "\n", &ignored);
        (void)buf_printf(&b, &ignored, "%lld row%s", (long long)json_integer_value(json_object_get(result, "row_count")),
                         json_integer_value(json_object_get(result, "row_count")) == 1 ? "" : "s");
    }
    if (b.len == 0)
        (void)buf_append_str(&b, "(executed, no output)", &ignored);
    return json_text(b.data, b.len);
}

void turn_show_run(struct turn *t, const char *language, const char *code, json_t *plan, double exec_ms)
{
    json_t *run = json_pack("{s:s, s:s, s:o, s:f, s:s, s:O}", "language", language, "code", code, "output", output_text(t->result),
                            "exec_ms", exec_ms, "status", t->status, "error", json_object_get(t->result, "error"));
    if (plan)
        json_object_set(run, "plan", plan);
    json_array_append(t->code_runs, run);
    turn_say(t, "code_run", run);
}

bool turn_should_stop(struct turn *t)
{
    struct err err = ERR_INIT;
    if (t->cancelled) {
        turn_finish(t);
    } else if (t->timed_out) {
        err_set(&err, ERR_TIMEOUT, "no answer within %lld seconds (AGENT_TIMEOUT_SECONDS)", (long long)turn_cfg(t)->agent_timeout_s);
        turn_fail(t, &err);
    }
    return t->cancelled || t->timed_out;
}

void turn_count_wait(struct turn *t)
{
    int64_t us = thread_kernel_times(t->chat->kernel)->wait_us;
    if (us >= 0)
        t->restore_us += us;
}

static void on_code_ran(void *arg, const struct run_result *result, const struct err *err);

/* The code that the turn ran last, or would have. */
static struct run_request run_request_of(const struct turn *t)
{
    const struct config *cfg = turn_cfg(t);
    return (struct run_request){ .kind = str_eq(t->run.language, "python") ? RUN_PYTHON : RUN_SQL, .policy = POLICY_OPEN,
                                 .timeout_ms = cfg->run_timeout_s * 1000, .max_rows = cfg->max_rows,
                                 .max_output_bytes = cfg->max_output_bytes };
}

/*
 * SQL that failed may ask about a DataFrame: in a chat whose Python holds variables it is tried again by Python's own sql(). A string of
 * JSON is one of Python, too.
 */
static bool try_among_frames(struct turn *t)
{
    struct err err = ERR_INIT;
    if (str_eq(t->run.language, "python") || !thread_kernel_has_variables(t->chat->kernel) || t->run.among_frames)
        return false;
    auto_json json_t *text = json_string(t->run.code);
    auto_free char *quoted = json_dumps(text, JSON_ENCODE_ANY);
    const char *cell = quoted ? arena_printf(&t->arena, "sql(%s)", quoted) : NULL;
    t->run.among_frames = true;
    return cell && begin_job(t, RUN_PYTHON, cell, turn_cfg(t)->max_rows, turn_cfg(t)->max_output_bytes, false, on_code_ran, &err) == 0;
}

static void on_code_ran(void *arg, const struct run_result *result, const struct err *err)
{
    struct turn *t = arg;
    turn_count_wait(t);
    if (err && !t->cancelled) {
        turn_fail(t, err);
        return;
    }
    struct run_result nothing = { .verdict = VERDICT_KILLED };
    const struct run_result *res = err ? &nothing : result;
    bool refused = res->verdict == VERDICT_ERROR || res->verdict == VERDICT_POLICY;
    struct sandbox_limits limits;
    struct run_request request = run_request_of(t);
    const struct outcome_of of = { .request = &request, .limits = &limits, .cancelled = t->cancelled };
    sandbox_limits_default(turn_cfg(t), &limits);
    if (refused && !t->cancelled && !t->timed_out && try_among_frames(t)) {
        t->first_failure = outcome_error(&of, res);
        return;
    }
    json_decref(t->result);
    t->result = outcome_result(&of, res);
    t->status = outcome_status(&of, res->verdict);
    if (t->first_failure && res->verdict != VERDICT_OK) { /* it was no DataFrame: the first error is the one that helps */
        json_object_set(t->result, "error", t->first_failure);
        t->status = str_eq(json_string_value(json_object_get(t->first_failure, "type")), "SQL_POLICY_VIOLATION") ? "rejected" : "failed";
    }
    json_decref(TAKE_PTR(t->first_failure));
    t->mode = t->run.language;
    turn_set_plan(t, t->run.plan);
    t->sql = str_eq(t->mode, "python") ? NULL : t->run.code;
    t->python = str_eq(t->mode, "python") ? t->run.code : NULL;
    if (res->verdict == VERDICT_OK)
        json_array_append(t->results, t->result);
    json_array_append_new(t->exec_ms, json_real((double)res->execute_us / 1000));
    json_t *files = json_object_get(t->result, "files");
    if (files) {
        json_decref(t->files);
        t->files = json_incref(files);
    }
    turn_show_run(t, t->run.language, t->run.code, t->run.plan, (double)res->execute_us / 1000);
    json_decref(TAKE_PTR(t->run.plan));
    turn_next_fn next = TAKE_PTR(t->after_run);
    if (!turn_should_stop(t))
        next(t);
}

void turn_run_code(struct turn *t, const struct turn_run *run, turn_next_fn next)
{
    struct err err = ERR_INIT;
    bool python = str_eq(run->language, "python");
    t->run = (struct turn_run){ .language = run->language, .plan = json_incref(run->plan), .code = arena_strdup(&t->arena, run->code) };
    t->after_run = next;
    turn_stage(t, "executing", python ? "Executing Python code..." : "Running the query...");
    int r = t->run.code ? 0 : err_set(&err, ERR_TOO_LARGE, "the code is too large");
    if (r == 0)
        r = begin_job(t, python ? RUN_PYTHON : RUN_SQL, t->run.code, turn_cfg(t)->max_rows, turn_cfg(t)->max_output_bytes, true,
                      on_code_ran, &err);
    if (r < 0)
        turn_fail(t, &err);
}

int turn_compile(struct turn *t, const json_t *plan, const char **ret_sql, struct err *err)
{
    auto_buf struct buf sql = BUF_INIT(CODE_MAX_BYTES);
    int r = catalog_compile(t->chat->catalog, plan, &sql, err);
    if (r == 0 && !(*ret_sql = arena_strdup(&t->arena, buf_cstr(&sql))))
        r = err_set(err, ERR_NO_MEMORY, "out of memory");
    return r;
}

/* ---- the end ---- */

void turn_summarise(struct turn *t)
{
    struct err err = ERR_INIT;
    buf_clear(&t->text);
    if (!t->result || summary_write(t->result, t->mode, json_string_value(json_object_get(t->extra, "reading")), &t->text, &err) < 0)
        (void)buf_append_str(&t->text, "There is no result.", &err);
}

void turn_fail(struct turn *t, const struct err *err)
{
    t->failed = true;
    t->failure = *err;
    turn_finish(t);
}

static json_t *timings(const struct turn *t, int64_t total_us)
{
    double llm = 0, exec = 0;
    size_t i;
    json_t *v;
    json_array_foreach(t->llm_ms, i, v) llm += json_number_value(v);
    json_array_foreach(t->exec_ms, i, v) exec += json_number_value(v);
    double restore = (double)t->restore_us / 1000, total = (double)total_us / 1000;
    double busy = llm + exec + restore;
    json_t *o = json_pack("{s:f, s:O, s:f, s:O, s:f, s:f, s:f}", "sandbox_restore", restore, "openai_per_call", t->llm_ms, "openai_total",
                          llm, "exec_per_call", t->exec_ms, "exec_total", exec, "overhead", total > busy ? total - busy : 0.0, "total", total);
    if (t->first_token_us >= 0)
        json_object_set_new(o, "ttft", json_real((double)t->first_token_us / 1000));
    /* What the first token would have waited for, had the kernel not come up meanwhile. */
    if (t->first_token_us >= 0)
        json_object_set_new(o, "ttft_saved", json_real((double)MIN_OF(thread_kernel_times(t->chat->kernel)->ahead_us, t->first_token_us) / 1000));
    return o;
}

/* Result of a turn in which nothing ran: an error, or nothing but words. */
static json_t *empty_result(const struct turn *t)
{
    return json_pack("{s:[], s:[], s:[], s:i, s:b, s:i, s:o}", "columns", "types", "rows", "row_count", 0, "truncated", 0, "exec_time_ms", 0,
                     "error", t->failed ? json_error(&t->failure) : json_null());
}

static const char *failure_status(const struct turn *t)
{
    switch (t->failure.code) {
    case ERR_VALIDATION:
    case ERR_FORBIDDEN:
    case ERR_INVALID_INPUT:
        return "rejected";
    case ERR_TIMEOUT:
        return "timed_out";
    default:
        return "failed";
    }
}

static void settle_outcome(struct turn *t)
{
    struct err ignored = ERR_INIT;
    if (t->failed) {
        json_decref(t->result);
        t->result = empty_result(t);
        t->status = failure_status(t);
        buf_clear(&t->text);
        (void)buf_printf(&t->text, &ignored, "I couldn't do that: %s", t->failure.message);
    }
    if (!t->result)
        t->result = empty_result(t);
    if (t->cancelled) {
        t->status = "cancelled";
        buf_clear(&t->text);
        (void)buf_append_str(&t->text, "Stopped before it was finished.", &ignored);
    }
    if (!t->status)
        t->status = "succeeded";
    if (!json_object_get(t->extra, "chart")) {
        json_t *chart = str_eq(t->status, "succeeded") ? chart_suggest(t->result, NULL) : NULL;
        if (chart)
            json_object_set_new(t->extra, "chart", chart);
    }
    const char *loss = thread_kernel_take_loss(t->chat->kernel);
    if (loss) {
        json_object_set_new(t->extra, "state_lost", json_true());
        json_object_set_new(t->extra, "state_lost_reason", json_string(loss));
        (void)buf_printf(&t->text, &ignored, "%s(Variables of earlier cells are gone: %s.)", t->text.len ? "\n\n" : "", loss);
    }
}

static json_t *answer_json(struct turn *t)
{
    struct chat *c = t->chat;
    const struct agent_env *env = &c->agent->env;
    int64_t total_us = clock_now_us() - t->begun_us;
    json_t *a = json_pack("{s:s, s:s, s:o, s:s, s:O, s:{s:s, s:s, s:O?, s:s?, s:s?}}", "thread_id", c->id, "run_id", t->run_id,
                          "assistant_message", json_text(t->text.data, t->text.len), "status", t->status, "result", t->result, "details",
                          "dataset_id", c->has_data ? c->data.dataset_id : "", "query_mode", t->mode, "plan_json", t->plan, "compiled_sql",
                          t->sql, "python_code", t->python);
    if (!a)
        return NULL;
    json_object_set(a, "code_runs", t->code_runs);
    json_object_set(a, "images", t->images);
    json_object_set(a, "files", t->files);
    json_object_update(a, t->extra);
    json_object_set_new(a, "model", json_string(llm_is_builtin(env->llm) ? "builtin" : llm_model(env->llm)));
    if (t->usage)
        json_object_set(a, "usage", t->usage);
    json_object_set_new(a, "llm_calls", json_integer(t->n_llm));
    json_object_set_new(a, "container_state", t->restore_us > 0 ? json_sprintf("cold→hot (%.1fms)", (double)t->restore_us / 1000)
                                                                  : json_string("hot"));
    json_object_set_new(a, "total_ms", json_real((double)total_us / 1000));
    json_t *times = timings(t, total_us);
    json_object_set_new(a, "timings_ms", times);
    json_object_set(json_object_get(a, "details"), "timings_ms", times);
    return a;
}

static void begin_first(void *arg);

/* Everything is safe, or cannot be made safe: tell, and let the next one begin. */
static void turn_end(struct turn *t, json_t *answer, const struct err *err)
{
    struct chat *c = t->chat;
    struct agent *a = c->agent;
    chat_ref(c);
    bool ok = !err && str_eq(t->status, "succeeded");
    a->stats.answered += ok;
    a->stats.failed += !ok;
    c->turns = t->next;
    if (!t->dropped)
        t->listener.done(t->listener.arg, answer, err);
    t->next = NULL;
    turn_free(t);
    c->used_ms = clock_now_ms();
    if (c->turns) {
        struct err ignored = ERR_INIT;
        chat_ref(c);
        if (loop_defer(a->env.loop, begin_first, c, &ignored) < 0)
            begin_first(c);
    } else if (c->deleted) {
        thread_kernel_drop(c->kernel, NULL);
    } else {
        chat_refresh_due(c);
    }
    chat_unref(c);
}

static void on_stored(const struct err *err, int64_t value, void *arg)
{
    (void)value;
    struct turn *t = arg;
    if (t->chat->agent->closing)
        return;
    struct chat *c = t->chat;
    if (err && !c->deleted) {
        log_error("agent.store", LOG_STR("thread", c->id), LOG_STR("run", t->run_id), LOG_STR("error", err->message));
        turn_end(t, NULL, err);
        return;
    }
    auto_json json_t *calls = history_of(t);
    chat_remember(c, "user", t->message, NULL);
    chat_remember(c, "assistant", buf_cstr(&t->text), calls);
    c->message_count += 2;
    if (t->plan && str_eq(t->status, "succeeded")) {
        json_decref(c->last_plan);
        c->last_plan = json_incref(t->plan);
        free(c->last_question);
        c->last_question = strdup(t->message);
    }
    auto_json json_t *answer = answer_json(t);
    struct err out_of_memory = ERR_INIT;
    if (!answer)
        err_set(&out_of_memory, ERR_NO_MEMORY, "out of memory");
    turn_end(t, answer, answer ? NULL : &out_of_memory);
}

/* As a store would: not from within whatever finished the turn, which may still look at it. */
static void stored_nothing(void *arg)
{
    on_stored(NULL, 0, arg);
}

/* The capsule and the two messages of the turn: all or none. A thread that was deleted meanwhile takes no messages. */
static void store_turn(struct turn *t)
{
    struct err err = ERR_INIT;
    struct chat *c = t->chat;
    const char *code = t->python ? t->python : t->sql, *dataset_id = c->has_data ? c->data.dataset_id : NULL;
    auto_json json_t *calls = history_of(t);
    auto_json json_t *meta = json_pack("{s:s, s:s, s:s*, s:O*, s:O*, s:O*}", "status", t->status, "query_mode", t->mode, "code", code, "plan",
                                       t->plan, "chart", json_object_get(t->extra, "chart"), "calls", calls);
    auto_json json_t *times = timings(t, clock_now_us() - t->begun_us);
    auto_free char *meta_text = json_to_str(meta);
    struct sandbox_limits limits;
    struct run_request request = run_request_of(t);
    sandbox_limits_default(turn_cfg(t), &limits);
    const struct message messages[] = {
        { .owner = c->owner, .thread_id = c->id, .dataset_id = dataset_id, .role = "user", .content = t->message, .run_id = t->run_id },
        { .owner = c->owner, .thread_id = c->id, .dataset_id = dataset_id, .role = "assistant", .content = buf_cstr(&t->text),
          .run_id = t->run_id, .metadata_json = meta_text },
    };
    const struct capsule_spec spec = {
        .run_id = t->run_id,
        .owner = c->owner,
        .created_at = t->created_at,
        .dataset_id = dataset_id ? dataset_id : "",
        .dataset_version_hash = c->has_data ? c->data.version_hash : NULL,
        .query_mode = t->mode,
        .thread_id = c->id,
        .question = t->message,
        .status = t->status,
        .sql = t->sql,
        .python = t->python,
        .plan = t->plan,
        .request = &request,
        .limits = &limits,
        .result = t->result,
        .timings = times,
        .usage = t->usage,
    };
    if (capsule_store(c->agent->env.store, &spec, messages, c->deleted ? 0 : ARRAY_SIZE(messages), on_stored, t, &err) < 0)
        on_stored(&err, 0, t);
}

void turn_finish(struct turn *t)
{
    if (t->finishing)
        return;
    t->finishing = true;
    loop_cancel(TAKE_PTR(t->timer));
    turn_forget_learning(t);
    model_talk_destroy(t);
    settle_outcome(t);
    if (!t->streamed)
        turn_say(t, "token", json_pack("{s:o}", "text", json_text(t->text.data, t->text.len)));
    if (t->chat->agent->env.store) {
        store_turn(t);
    } else {
        struct err err = ERR_INIT;
        if (loop_defer(t->chat->agent->env.loop, stored_nothing, t, &err) < 0)
            stored_nothing(t);
    }
}

/* ---- the beginning ---- */

static void on_deadline(void *arg)
{
    struct turn *t = arg;
    t->timer = NULL;
    t->timed_out = true;
    if (thread_kernel_has_job(t->chat->kernel)) {
        thread_kernel_interrupt(t->chat->kernel); /* its callback ends the turn */
        return;
    }
    model_cancel(t);
    (void)turn_should_stop(t);
}

void turn_begin(struct turn *t)
{
    struct chat *c = t->chat;
    struct err err = ERR_INIT;
    t->started = true;
    thread_kernel_times(c->kernel)->ahead_us = 0;
    if (t->cancelled) {
        turn_finish(t);
        return;
    }
    chat_refresh_due(c);
    if (!c->has_data && chat_set_data(c, c->datasets, c->uploads, &err) < 0) {
        turn_fail(t, &err);
        return;
    }
    t->deadline_ms = clock_now_ms() + turn_cfg(t)->agent_timeout_s * 1000;
    (void)loop_after(c->agent->env.loop, (uint64_t)turn_cfg(t)->agent_timeout_s * 1000, on_deadline, t, &t->timer, &err);
    turn_stage(t, "planning", "Reading the question...");
    if (answer_directly(t))
        return;
    if (llm_is_builtin(c->agent->env.llm))
        answer_by_planner(t);
    else
        answer_by_model(t);
}

static void begin_first(void *arg)
{
    struct chat *c = arg;
    if (c->turns && !c->turns->started && !c->agent->closing)
        turn_begin(c->turns);
    if (!c->agent->closing)
        chat_unref(c);
}

int chat_send(struct chat *c, const char *message, const struct turn_listener *listener, struct turn **ret, struct err *err)
{
    size_t n = 0, length = 0;
    for (const struct turn *t = c->turns; t; t = t->next)
        n++;
    const char *p = message;
    while (isspace((unsigned char)*p))
        p++;
    for (const char *q = message; *q; q++)
        length += ((unsigned char)*q & 0xc0) != 0x80;
    if (c->deleted || c->agent->closing)
        return err_set(err, ERR_NOT_FOUND, "Thread not found");
    if (!*p)
        return err_set(err, ERR_VALIDATION, "the message is empty");
    if (length > (size_t)turn_cfg(&(struct turn){ .chat = c })->max_input_chars)
        return err_set(err, ERR_VALIDATION, "the message has %zu characters; at most %lld are taken (MAX_INPUT_CHARS)", length,
                       (long long)c->agent->env.cfg->max_input_chars);
    if (n >= TURNS_QUEUED_MAX)
        return err_set(err, ERR_UNAVAILABLE, "%zu messages of this thread wait for their turn already", n);
    struct turn *t = calloc(1, sizeof(*t));
    if (!t)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    arena_init(&t->arena, TURN_ARENA_BYTES);
    t->chat = c;
    t->listener = *listener;
    t->begun_us = clock_now_us();
    t->mode = "chat";
    t->first_token_us = -1;
    buf_init(&t->text, TURN_TEXT_MAX);
    id_uuid4(t->run_id);
    clock_iso8601(clock_wall_ms(), t->created_at);
    t->message = arena_strdup(&t->arena, message);
    t->results = json_array();
    t->code_runs = json_array();
    t->images = json_array();
    t->files = json_array();
    t->extra = json_object();
    t->llm_ms = json_array();
    t->exec_ms = json_array();
    struct turn **at = &c->turns;
    while (*at)
        at = &(*at)->next;
    *at = t;
    if (c->turns == t) {
        chat_ref(c);
        int r = loop_defer(c->agent->env.loop, begin_first, c, err);
        if (r < 0) {
            c->turns = NULL;
            turn_free(t);
            chat_unref(c);
            return r;
        }
    }
    *ret = t;
    return 0;
}

void turn_cancel(struct turn *t)
{
    if (t->cancelled || t->finishing)
        return;
    t->cancelled = true;
    if (!t->started)
        return; /* its turn comes, and ends at once */
    if (thread_kernel_has_job(t->chat->kernel)) {
        thread_kernel_interrupt(t->chat->kernel); /* its callback ends the turn */
        return;
    }
    model_cancel(t);
    turn_finish(t);
}

void turn_kill(struct turn *t)
{
    if (t->finishing)
        return;
    if (!t->started || !thread_kernel_has_job(t->chat->kernel)) {
        turn_cancel(t);
        return;
    }
    t->cancelled = true;
    thread_kernel_kill(t->chat->kernel); /* its callback ends the turn */
}

void turn_drop(struct turn *t)
{
    t->dropped = true;
    turn_cancel(t);
}

void turn_free(struct turn *t)
{
    struct turn **at = &t->chat->turns;
    while (*at && *at != t)
        at = &(*at)->next;
    if (*at)
        *at = t->next;
    loop_cancel(t->timer);
    turn_forget_learning(t);
    model_talk_destroy(t);
    reading_destroy(t->reading);
    json_decref(t->run.plan);
    json_decref(t->first_failure);
    json_decref(t->plan);
    json_decref(t->result);
    json_decref(t->results);
    json_decref(t->code_runs);
    json_decref(t->images);
    json_decref(t->files);
    json_decref(t->extra);
    json_decref(t->usage);
    json_decref(t->llm_ms);
    json_decref(t->exec_ms);
    json_decref(t->transcript);
    buf_finish(&t->text);
    arena_finish(&t->arena);
    free(t);
}
