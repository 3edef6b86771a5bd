/*
 * A turn: one message and its answer, or the execution of some code. It begins when the turns
 * before it have ended, is answered by what its first word asks for (answer_direct.c) or by whoever
 * answers here (answer_model.c, answer_planner.c), and ends in turn_finish() (turn_end.c). It does
 * not depend on its listeners: they may leave and follow it again.
 */

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include "agent/agent_impl.h"
#include "data/scan.h"
#include "base/background.h"
#include "base/limits.h"
#include "base/str.h"
#include "run/figures.h"
#include "run/outcome.h"
#include "run/run.h"

#define CODE_DELAY_MS 5000       /* of a run, before its own time begins */
#define FOLLOWED_CODE_BYTES 2000 /* of an execution, for who follows it */

const struct config *turn_cfg(const struct turn *t)
{
    return t->chat->agent->env.cfg;
}

void turn_say(struct turn *t, const char *type, json_t *taken)
{
    if (taken)
        turn_log_add(&t->log, type, taken);
    for (struct turn_ear *e = t->ears, *next; e && taken; e = next) {
        next = e->next;
        if (e->listener.event)
            e->listener.event(e->listener.arg, type, taken);
    }
    json_decref(taken);
}

void turn_stage(struct turn *t, const char *stage, const char *text)
{
    turn_say(t, "status", json_pack("{s:s, s:s}", "stage", stage, "text", text));
}

void turn_stage_run(struct turn *t, const char *language)
{
    bool python = str_eq(language, "python");
    turn_stage(t, "validating", python ? "Checking the code..." : "Checking the query...");
    turn_stage(t, "executing", python ? "Executing Python code..." : "Running the query...");
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
    turn_say(arg, "step",
             json_pack("{s:s, s:o}", "stream", is_stderr ? "stderr" : "stdout", "text",
                       json_text(text, len)));
}

static bool on_display(void *arg, const json_t *data)
{
    struct turn *t = arg;
    if (!t->figures)
        t->figures = figures_begin(t->chat->agent->env.figures, t->chat->owner, t->run_id);
    model_keep_figure(t, data);
    json_t *shown = t->figures ? figures_take(t->figures, data, false) : NULL;
    if (shown)
        turn_say(t, "image", json_incref(shown));
    return true;
}

/* The result has the displays of its own run, for the model; the answer has all of the turn. */
static void set_outputs(struct turn *t)
{
    json_t *all = t->figures ? figures_list(t->figures) : NULL;
    size_t n = json_array_size(all);
    if (t->n_shown == n)
        return;
    json_t *own = json_array();
    for (size_t i = t->n_shown; i < n; i++)
        json_array_append(own, json_array_get(all, i));
    json_object_set_new(t->result, "outputs", own);
    t->n_shown = n;
}

static void on_progress(void *arg, const char *stage, double fraction)
{
    turn_say(arg, "status",
             json_pack("{s:s, s:s, s:s, s:f}", "stage", "loading", "text", stage, "what", stage,
                       "progress", fraction));
}

static bool on_ask(void *arg, uint32_t id, const char *what, const json_t *args)
{
    return debug_ask(arg, id, what, args) || input_ask(arg, id, what, args);
}

static int begin_job(struct turn *t, enum run_kind kind, const char *code, int64_t timeout_ms,
                     int64_t max_rows, int64_t max_output_bytes, bool shown, kernel_job_fn done,
                     struct err *err)
{
    struct kernel_job job = {
        .kind = kind,
        .code = code,
        .policy = chat_policy(t->chat),
        .context = t->code.context,
        .debug = shown ? t->code.debug : NULL,
        .pause_ms = (int64_t)turn_cfg(t)->debug_pause_s * 1000,
        .run_id = t->run_id,
        .timeout_ms = timeout_ms,
        .max_rows = max_rows,
        .max_output_bytes = max_output_bytes,
        .events = { .progress = on_progress,
                    .output = shown ? on_output : NULL,
                    .display = shown ? on_display : NULL,
                    .steps = t->debug ? debug_steps : NULL,
                    .ask = shown ? on_ask : NULL,
                    .arg = t },
        .done = done,
        .arg = t,
    };
    return thread_kernel_run(t->chat->kernel, &job, err);
}

int turn_query(struct turn *t, const char *sql, int64_t max_rows, kernel_job_fn done,
               struct err *err)
{
    return begin_job(t, RUN_SQL, sql, t->code.timeout_ms, max_rows, CATALOG_OUTPUT_MAX_BYTES, false,
                     done, err);
}

int turn_look_up(struct turn *t, const char *sql, int64_t max_rows, kernel_job_fn done,
                 struct err *err)
{
    return begin_job(t, RUN_SQL, sql, SCAN_TIMEOUT_MS, max_rows, CATALOG_OUTPUT_MAX_BYTES, false,
                     done, err);
}

void turn_show_run(struct turn *t, const char *language, const char *code, json_t *plan,
                   double exec_ms)
{
    if (!t->message)
        return; /* whoever executes code knows it, and gets the whole result */
    json_t *run = json_pack("{s:s, s:s, s:o, s:f, s:s, s:O}", "language", language, "code", code,
                            "output", run_text(t->result), "exec_ms", exec_ms, "status", t->status,
                            "error", json_object_get(t->result, "error"));
    if (plan)
        json_object_set(run, "plan", plan);
    json_array_append(t->code_runs, run);
    turn_say(t, "code_run", run);
}

/* Of the whole turn. A message that asks for long runs has the time for one. */
static int64_t turn_limit_ms(const struct turn *t)
{
    return MAX_OF((int64_t)turn_cfg(t)->agent_timeout_s * 1000, t->code.timeout_ms + CODE_DELAY_MS);
}

bool turn_should_stop(struct turn *t)
{
    struct err err = ERR_INIT;
    if (t->cancelled) {
        turn_finish(t);
    } else if (t->timed_out) {
        err_set(&err, ERR_TIMEOUT, "no answer within %lld seconds (AGENT_TIMEOUT_SECONDS)",
                (long long)turn_limit_ms(t) / 1000);
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
struct run_request turn_request(const struct turn *t)
{
    return (struct run_request){ .kind = str_eq(t->run.language, "python") ? RUN_PYTHON : RUN_SQL,
                                 .policy = chat_policy(t->chat),
                                 .timeout_ms = t->code.timeout_ms,
                                 .max_rows = t->code.max_rows,
                                 .max_output_bytes = t->code.max_output_bytes };
}

/*
 * SQL that failed may ask about a DataFrame: in a chat whose Python holds variables it is tried
 * again by Python's own sql(). A string of JSON is one of Python, too.
 */
static bool try_among_frames(struct turn *t)
{
    struct err err = ERR_INIT;
    if (str_eq(t->run.language, "python") || !thread_kernel_has_variables(t->chat->kernel) ||
        t->run.among_frames)
        return false;
    auto_json json_t *text = json_string(t->run.code);
    auto_free char *quoted = json_dumps(text, JSON_ENCODE_ANY);
    const char *cell = quoted ? arena_printf(&t->arena, "sql(%s)", quoted) : NULL;
    t->run.among_frames = true;
    return cell && begin_job(t, RUN_PYTHON, cell, t->code.timeout_ms, t->code.max_rows,
                             t->code.max_output_bytes, false, on_code_ran, &err) == 0;
}

static void on_code_ran(void *arg, const struct run_result *result, const struct err *err)
{
    struct turn *t = arg;
    if (!t->message && t->chat->agent->env.store) /* an execution ends with its code */
        store_expect_put(t->chat->agent->env.store);
    turn_count_wait(t);
    debug_end(t);
    t->input.is_open = false;
    if (err && !t->cancelled) {
        turn_fail(t, err);
        return;
    }
    struct run_result nothing = { .verdict = VERDICT_KILLED };
    const struct run_result *res = err ? &nothing : result;
    bool refused = res->verdict == VERDICT_ERROR || res->verdict == VERDICT_POLICY;
    struct sandbox_limits limits;
    struct run_request request = turn_request(t);
    const struct outcome_of of = { .request = &request,
                                   .limits = &limits,
                                   .cancelled = t->cancelled };
    chat_limits(t->chat, &limits);
    if (refused && !t->cancelled && !t->timed_out && try_among_frames(t)) {
        t->first_failure = outcome_error(&of, res);
        return;
    }
    json_discard(t->result);
    t->result = outcome_result(&of, res);
    set_outputs(t);
    t->status = outcome_status(&of, res->verdict);
    /* it was no DataFrame: the first error is the one that helps */
    if (t->first_failure && res->verdict != VERDICT_OK) {
        json_object_set(t->result, "error", t->first_failure);
        t->status = str_eq(json_string_value(json_object_get(t->first_failure, "type")),
                           "SQL_POLICY_VIOLATION") ?
                        "rejected" :
                        "failed";
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
        outputs_keep(t->chat, files);
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
    const struct data_view *d = &t->chat->data;
    t->run = (struct turn_run){
        .language = run->language,
        .plan = json_incref(run->plan),
        .code = python || !t->chat->has_data || d->database ?
                    arena_strdup(&t->arena, run->code) :
                    run_plain_sql(&t->arena, d->dataset_id, d->files, d->n_files, run->code),
    };
    t->after_run = next;
    turn_stage_run(t, run->language);
    int r = t->run.code ? 0 : err_set(&err, ERR_TOO_LARGE, "the code is too large");
    if (r == 0)
        r = begin_job(t, python ? RUN_PYTHON : RUN_SQL, t->run.code, t->code.timeout_ms,
                      t->code.max_rows, t->code.max_output_bytes, true, on_code_ran, &err);
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

void turn_start_timer(struct turn *t, int64_t limit_ms)
{
    struct err err = ERR_INIT;
    t->deadline_ms = clock_now_ms() + limit_ms;
    (void)loop_after(t->chat->agent->env.loop, (uint64_t)limit_ms, on_deadline, t, &t->timer, &err);
}

void turn_begin(struct turn *t)
{
    struct chat *c = t->chat;
    struct err err = ERR_INIT;
    t->started = true;
    thread_kernel_times(c->kernel)->ahead_us = 0;
    thread_kernel_times(c->kernel)->woke_from = NULL;
    if (t->cancelled) {
        turn_finish(t);
        return;
    }
    chat_refresh_due(c);
    int r = 0;
    if (t->data)
        r = chat_replace_data(c, json_object_get(t->data, "datasets"),
                              json_object_get(t->data, "uploads"), &err);
    if (r == 0 && !c->has_data)
        r = chat_replace_data(c, c->datasets, c->uploads, &err);
    if (r < 0) {
        turn_fail(t, &err);
        return;
    }
    thread_kernel_rouse(c->kernel); /* while the question is read, or the model thinks */
    if (!t->message) {              /* its code has a time limit of its own */
        if (t->code.debug && debug_begin(t, &err) < 0)
            turn_fail(t, &err);
        else
            answer_by_code(t);
        return;
    }
    if (t->earlier)
        chat_adopt(c, t->earlier);
    turn_start_timer(t, turn_limit_ms(t));
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

void turn_begin_first(struct chat *c)
{
    struct err ignored = ERR_INIT;
    chat_ref(c);
    if (loop_defer(c->agent->env.loop, begin_first, c, &ignored) < 0)
        begin_first(c);
}

static int add_listener(struct turn *t, const struct turn_listener *listener, struct err *err)
{
    struct turn_ear **at = &t->ears;
    size_t n = 0;
    for (; *at; at = &(*at)->next)
        n++;
    if (n >= LISTENERS_MAX)
        return err_set(err, ERR_UNAVAILABLE, "%zu clients follow this turn already", n);
    struct turn_ear *e = malloc(sizeof(*e));
    if (!e)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    *e = (struct turn_ear){ .listener = *listener };
    *at = e;
    return 0;
}

/* A turn at the end of the queue. */
static int queue_turn(struct chat *c, const struct chat_message *message,
                      const struct chat_code *code, const struct turn_listener *listener,
                      struct turn **ret, struct err *err)
{
    size_t n = 0;
    struct turn **at = &c->turns;
    for (; *at; at = &(*at)->next)
        n++;
    if (c->deleted || c->agent->closing)
        return err_set(err, ERR_NOT_FOUND, "Thread not found");
    if (n >= TURNS_QUEUED_MAX)
        return err_set(err, ERR_UNAVAILABLE,
                       "%zu messages of this thread wait for their turn already", n);
    struct turn *t = calloc(1, sizeof(*t));
    if (!t)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    arena_init(&t->arena, TURN_ARENA_BYTES);
    turn_log_init(&t->log);
    t->chat = c;
    t->begun_us = clock_now_us();
    t->mode = "chat";
    t->first_token_us = -1;
    buf_init(&t->text, TURN_TEXT_MAX);
    id_uuid4(t->run_id);
    clock_iso8601(clock_wall_ms(), t->created_at);
    t->message = message ? arena_strdup(&t->arena, message->text) : NULL;
    t->earlier = message ? json_deep_copy(message->earlier) : NULL;
    t->data = TAKE_PTR(c->next_data);
    t->code = *code;
    t->code.code = code->code ? arena_strdup(&t->arena, code->code) : NULL;
    json_incref((json_t *)t->code.context);
    json_incref((json_t *)t->code.debug);
    t->results = json_array();
    t->code_runs = json_array();
    t->files = json_array();
    t->extra = json_object();
    t->llm_ms = json_array();
    t->exec_ms = json_array();
    *at = t;
    int r = t->message || t->code.code ? add_listener(t, listener, err) :
                                         err_set(err, ERR_NO_MEMORY, "out of memory");
    if (r == 0 && c->turns == t) {
        r = loop_defer(c->agent->env.loop, begin_first, c, err);
        if (r == 0)
            chat_ref(c);
    }
    if (r < 0) {
        turn_free(t);
        return r;
    }
    *ret = t;
    return 0;
}

int chat_check_message(const struct config *cfg, const char *text, struct err *err)
{
    size_t length = 0, bytes = strlen(text);
    const char *p = text;
    while (isspace((unsigned char)*p))
        p++;
    for (const char *q = text; *q; q++)
        length += ((unsigned char)*q & 0xc0) != 0x80;
    if (!*p)
        return err_set(err, ERR_VALIDATION, "the message is empty");
    if (chat_is_code(text))
        return bytes <= CODE_MAX_BYTES ?
                   0 :
                   err_set(err, ERR_VALIDATION, "the code has %zu bytes; at most %u are taken",
                           bytes, CODE_MAX_BYTES);
    if (length > (size_t)cfg->max_input_chars)
        return err_set(err, ERR_VALIDATION,
                       "the message has %zu characters; at most %lld are taken (MAX_INPUT_CHARS)",
                       length, (long long)cfg->max_input_chars);
    return 0;
}

int chat_send(struct chat *c, const struct chat_message *message,
              const struct turn_listener *listener, struct turn **ret, struct err *err)
{
    const struct config *cfg = c->agent->env.cfg;
    if (c->terms)
        return err_set(err, ERR_CONFLICT, "'%s' is a sandbox: it runs code and takes no messages",
                       c->id);
    int r = chat_check_message(cfg, message->text, err);
    if (r == 0 && c->agent->env.store)
        r = store_has_room(c->agent->env.store, c->owner, err);
    if (r < 0)
        return r;
    struct chat_code limits = { .timeout_ms = message->timeout_ms ? message->timeout_ms :
                                                                    cfg->run_timeout_s * 1000,
                                .max_rows = cfg->max_rows,
                                .max_output_bytes = cfg->max_output_bytes };
    return queue_turn(c, message, &limits, listener, ret, err);
}

int chat_execute(struct chat *c, const struct chat_code *code, const struct turn_listener *listener,
                 struct turn **ret, struct err *err)
{
    struct chat_code own = *code;
    own.language = str_eq(code->language, "python") ? "python" : "sql";
    if (str_eq(own.language, "python") && !c->agent->env.cfg->enable_python)
        return err_set(err, ERR_FEATURE_DISABLED,
                       "Python is switched off on this server (ENABLE_PYTHON_EXECUTION)");
    if (!*code->code)
        return err_set(err, ERR_VALIDATION, "the code is empty");
    if (strlen(code->code) > CODE_MAX_BYTES)
        return err_set(err, ERR_TOO_LARGE, "the code has %zu bytes; at most %u are taken",
                       strlen(code->code), CODE_MAX_BYTES);
    struct chat_debugger d = c->debugger;
    bool is_awaited = d.begun && !own.debug && str_eq(own.language, "python");
    if (is_awaited)
        own.debug = d.options;
    int r = queue_turn(c, NULL, &own, listener, ret, err);
    if (r == 0 && is_awaited) {
        chat_await_end(c, d.arg);
        d.begun(d.arg, *ret, code->code);
    }
    return r;
}

/* ---- who listens ---- */

struct turn *chat_turn(const struct chat *c)
{
    return c->turns;
}

size_t chat_stop(struct chat *c)
{
    size_t n = 0;
    chat_ref(c);
    for (struct turn *t = c->turns, *next; t; t = next) {
        next = t->next;
        turn_cancel(t);
        n++;
    }
    chat_unref(c);
    return n;
}

int turn_follow(struct turn *t, const struct turn_listener *listener, struct err *err)
{
    const char *code = t->code.code;
    int r = add_listener(t, listener, err);
    if (r < 0 || !listener->event)
        return r;
    json_t *what = json_pack("{s:s, s:s, s:s, s:s, s:s*, s:s*, s:I}", "stage", "following", "text",
                             "Following", "run_id", t->run_id, "created_at", t->created_at,
                             "message", t->message, "language", t->code.language, "skipped",
                             (json_int_t)t->log.skipped);
    if (code)
        json_object_set_new(what, "code",
                            json_text(code, str_utf8_cut(code, strlen(code), FOLLOWED_CODE_BYTES)));
    listener->event(listener->arg, "status", what);
    json_decref(what);
    turn_log_replay(&t->log, listener->event, listener->arg);
    return 0;
}

void turn_leave(struct turn *t, const void *arg)
{
    struct turn_ear **at = &t->ears;
    while (*at && (*at)->listener.arg != arg)
        at = &(*at)->next;
    struct turn_ear *e = *at;
    if (e) {
        *at = e->next;
        free(e);
    }
}

void turn_drop(struct turn *t, const void *arg)
{
    turn_leave(t, arg);
    if (!t->ears)
        turn_cancel(t);
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

void turn_free(struct turn *t)
{
    struct turn **at = &t->chat->turns;
    while (*at && *at != t)
        at = &(*at)->next;
    if (*at)
        *at = t->next;
    while (t->ears)
        turn_leave(t, t->ears->listener.arg);
    debug_end(t);
    turn_log_finish(&t->log);
    loop_cancel(t->timer);
    turn_forget_learning(t);
    turn_forget_lookup(t);
    json_decref(t->examples);
    model_talk_destroy(t);
    reading_destroy(t->reading);
    json_decref(t->data);
    json_decref((json_t *)t->code.context);
    json_decref((json_t *)t->code.debug);
    json_decref(t->earlier);
    json_decref(t->run.plan);
    json_decref(t->first_failure);
    json_decref(t->plan);
    json_discard(t->answer);
    json_discard(t->result);
    json_discard(t->results);
    json_decref(t->code_runs);
    /* A server that ends keeps them: the next start removes what has no capsule. */
    figures_end(t->figures, t->stored || t->chat->agent->closing);
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
