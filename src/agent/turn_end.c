/*
 * The end of a turn: its outcome, its answer, its capsule and messages in the store; then the
 * listeners are told and the next turn begins.
 */

#include <string.h>
#include "agent/agent_impl.h"
#include "agent/chart.h"
#include "agent/summary.h"
#include "agent/tools.h"
#include "base/background.h"
#include "base/log.h"
#include "base/str.h"
#include "run/capsule.h"
#include "run/figures.h"
#include "run/outcome.h"

void turn_summarise(struct turn *t)
{
    struct err err = ERR_INIT;
    buf_clear(&t->text);
    if (!t->result ||
        summary_write(t->result, t->mode, json_string_value(json_object_get(t->extra, "reading")),
                      &t->text, &err) < 0)
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
    json_array_foreach(t->llm_ms, i, v)
        llm += json_number_value(v);
    json_array_foreach(t->exec_ms, i, v)
        exec += json_number_value(v);
    double restore = (double)t->restore_us / 1000, total = (double)total_us / 1000;
    double busy = llm + exec + restore;
    json_t *o = json_pack("{s:f, s:O, s:f, s:O, s:f, s:f, s:f}", "sandbox_restore", restore,
                          "openai_per_call", t->llm_ms, "openai_total", llm, "exec_per_call",
                          t->exec_ms, "exec_total", exec, "overhead",
                          total > busy ? total - busy : 0.0, "total", total);
    if (t->first_token_us >= 0)
        json_object_set_new(o, "ttft", json_real((double)t->first_token_us / 1000));
    /* What the first token would have waited for, had the kernel not come up meanwhile. */
    if (t->first_token_us >= 0)
        json_object_set_new(o, "ttft_saved",
                            json_real((double)MIN_OF(thread_kernel_times(t->chat->kernel)->ahead_us,
                                                     t->first_token_us) /
                                      1000));
    return o;
}

/* Result of a turn in which nothing ran: an error, or nothing but words. */
static json_t *empty_result(const struct turn *t)
{
    return json_pack("{s:[], s:[], s:[], s:i, s:b, s:i, s:o}", "columns", "types", "rows",
                     "row_count", 0, "truncated", 0, "exec_time_ms", 0, "error",
                     t->failed ? json_error(&t->failure) : json_null());
}

void turn_reject(struct turn *t, const char *type, const char *message)
{
    json_decref(t->result);
    t->result = empty_result(t);
    json_object_set_new(t->result, "error",
                        json_pack("{s:s, s:s}", "type", type, "message", message));
    t->status = "rejected";
}

static const char *failure_status(const struct turn *t)
{
    switch (t->failure.code) {
    case ERR_VALIDATION:
    case ERR_FORBIDDEN:
    case ERR_INVALID_INPUT:
    case ERR_FEATURE_DISABLED:
    case ERR_LLM_RATE_LIMITED:
    case ERR_LLM_REJECTED:
    case ERR_LLM_BAD_RESPONSE:
    case ERR_LLM_UNAVAILABLE:
    case ERR_LLM_TIMEOUT:
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
    if (t->figures)
        json_object_set(t->result, "outputs", figures_list(t->figures));
    if (t->cancelled) {
        t->status = "cancelled";
        buf_clear(&t->text);
        (void)buf_append_str(&t->text, "Stopped before it was finished.", &ignored);
    }
    if (!t->status)
        t->status = "succeeded";
    if (t->message && !json_object_get(t->extra, "chart")) {
        json_t *chart = str_eq(t->status, "succeeded") ? chart_suggest(t->result, NULL) : NULL;
        if (chart)
            json_object_set_new(t->extra, "chart", chart);
    }
    const char *loss = thread_kernel_take_loss(t->chat->kernel);
    if (loss) {
        json_object_set_new(t->extra, "state_lost", json_true());
        json_object_set_new(t->extra, "state_lost_reason", json_string(loss));
        (void)buf_printf(&t->text, &ignored, "%s(Variables of earlier cells are gone: %s.)",
                         t->text.len ? "\n\n" : "", loss);
    }
}

/* "hot", or what its sandbox came from and how long that took. */
static json_t *container_state(const struct turn *t)
{
    const struct kernel_times *times = thread_kernel_times(t->chat->kernel);
    if (times->woke_from)
        return json_sprintf("%s→hot (%.1fms)", times->woke_from, (double)times->woke_us / 1000);
    return t->restore_us > 0 ? json_sprintf("cold→hot (%.1fms)", (double)t->restore_us / 1000) :
                               json_string("hot");
}

static json_t *details_json(const struct turn *t)
{
    const struct chat *c = t->chat;
    return json_pack("{s:s, s:s, s:O?, s:s?, s:s?}", "dataset_id",
                     c->has_data ? c->data.dataset_id : "", "query_mode", t->mode, "plan_json",
                     t->plan, "compiled_sql", t->sql, "python_code", t->python);
}

static json_t *answer_json(struct turn *t)
{
    struct chat *c = t->chat;
    const struct agent_env *env = &c->agent->env;
    int64_t total_us = clock_now_us() - t->begun_us;
    json_t *a = json_pack("{s:s, s:s, s:o, s:s, s:O, s:o}", "thread_id", c->id, "run_id", t->run_id,
                          "assistant_message", json_text(t->text.data, t->text.len), "status",
                          t->status, "result", t->result, "details", details_json(t));
    if (!a)
        return NULL;
    json_object_set(a, "code_runs", t->code_runs);
    json_object_set_new(a, "images", figures_images(t->figures));
    json_object_set_new(a, "result", figures_result(t->figures, t->result));
    json_object_set(a, "files", t->files);
    json_object_update(a, t->extra);
    json_object_set_new(a, "model",
                        json_string(llm_is_builtin(env->llm) ? "builtin" : llm_model(env->llm)));
    if (t->usage)
        json_object_set(a, "usage", t->usage);
    json_object_set_new(a, "llm_calls", json_integer(t->n_llm));
    json_object_set_new(a, "container_state", container_state(t));
    json_object_set_new(a, "total_ms", json_real((double)total_us / 1000));
    json_t *times = timings(t, total_us);
    json_object_set_new(a, "timings_ms", times);
    json_object_set(json_object_get(a, "details"), "timings_ms", times);
    return a;
}

/* The answer to an execution: no words, no chart, no images beside the result. */
static json_t *execution_json(struct turn *t)
{
    auto_json json_t *times = timings(t, clock_now_us() - t->begun_us);
    json_t *a = json_pack("{s:s, s:s, s:s, s:O, s:O}", "thread_id", t->chat->id, "run_id",
                          t->run_id, "status", t->status, "result", t->result, "timings_ms", times);
    if (!a)
        return NULL;
    if (!t->chat->terms) { /* the API of sandboxes tells neither */
        json_t *details = details_json(t);
        json_object_set(details, "timings_ms", times);
        json_object_set_new(a, "details", details);
        json_object_set_new(a, "container_state", container_state(t));
    }
    json_object_set(a, "files", t->files);
    json_object_update(a, t->extra);
    return a;
}

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
    for (struct turn_ear *e; (e = t->ears);) {
        struct turn_listener listener = e->listener;
        t->ears = e->next;
        free(e);
        listener.done(listener.arg, answer, err);
    }
    t->next = NULL;
    turn_free(t);
    c->used_ms = clock_now_ms();
    if (c->turns) {
        turn_begin_first(c);
    } else if (c->deleted) {
        thread_kernel_drop(c->kernel, NULL);
    } else {
        chat_refresh_due(c);
    }
    chat_unref(c);
}

/* The turn as the next ones see it. */
static void remember(struct turn *t)
{
    struct chat *c = t->chat;
    auto_json json_t *calls = history_of(t);
    chat_remember(c, "user", t->message, NULL);
    chat_remember(c, "assistant", buf_cstr(&t->text), calls);
    c->message_count += 2;
    if (t->plan && str_eq(t->status, "succeeded")) {
        json_decref(c->last_plan);
        c->last_plan = json_incref(t->plan);
        free(c->last_question);
        const json_t *meant = t->reading ? json_object_get(reading_answer(t->reading), "meant") :
                                           NULL;
        c->last_question = strdup(meant ? json_string_value(meant) : t->message);
    }
}

static void on_stored(const struct err *err, int64_t value, void *arg)
{
    (void)value;
    struct turn *t = arg;
    t->stored = !err;
    if (t->chat->agent->closing)
        return;
    struct chat *c = t->chat;
    if (err && !c->deleted) {
        log_error("agent.store", LOG_STR("thread", c->id), LOG_STR("run", t->run_id),
                  LOG_STR("error", err->message));
        turn_end(t, NULL, err);
        return;
    }
    if (t->message)
        remember(t);
    auto_discard json_t *answer = t->answer ? TAKE_PTR(t->answer) :
                                  t->message ? answer_json(t) :
                                               execution_json(t);
    if (c->terms && answer)
        chat_note_execution(c, answer);
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

/* What the answer says besides its words: whoever opens the thread later sees the same. */
static char *metadata_text(const struct turn *t, json_t *times)
{
    const struct llm *llm = t->chat->agent->env.llm;
    const char *code = t->python ? t->python : t->sql;
    auto_json json_t *calls = history_of(t);
    auto_json json_t *meta = json_pack("{s:s, s:s, s:s*, s:O*, s:O*, s:O*}", "status", t->status,
                                       "query_mode", t->mode, "code", code, "plan", t->plan,
                                       "chart", json_object_get(t->extra, "chart"), "calls", calls);
    json_object_update_missing(meta, t->extra);
    json_object_set(meta, "timings_ms", times);
    json_object_set(meta, "total_ms", json_object_get(times, "total"));
    json_object_set_new(meta, "model",
                        json_string(llm_is_builtin(llm) ? "builtin" : llm_model(llm)));
    if (json_array_size(t->files))
        json_object_set(meta, "files", t->files);
    if (t->usage)
        json_object_set(meta, "usage", t->usage);
    return json_to_str(meta);
}

static void make_answer(struct turn *t)
{
    t->answer = execution_json(t);
    for (const struct turn_ear *e = t->ears; t->answer && e; e = e->next)
        if (e->listener.made)
            e->listener.made(e->listener.arg, t->answer);
}

/*
 * The capsule and the two messages of the turn: all or none. An execution has no messages, and a
 * thread that was deleted meanwhile takes none.
 */
static void store_turn(struct turn *t)
{
    struct err err = ERR_INIT;
    struct chat *c = t->chat;
    const char *dataset_id = c->has_data ? c->data.dataset_id : NULL;
    auto_json json_t *times = timings(t, clock_now_us() - t->begun_us);
    auto_free char *meta_text = t->message ? metadata_text(t, times) : NULL;
    const char *question = t->message && strlen(t->message) > QUESTION_MAX_BYTES ?
                               arena_printf(&t->arena, "%.*s",
                                            (int)str_utf8_cut(t->message, strlen(t->message),
                                                              QUESTION_MAX_BYTES),
                                            t->message) :
                               t->message;
    const json_t *returned = json_object_get(t->result, "returned");
    auto_json json_t *had_result = json_pack("{s:b}", "has_result",
                                             returned && !json_is_null(returned));
    struct sandbox_limits limits;
    struct run_request request = turn_request(t);
    chat_limits(c, &limits);
    const struct message messages[] = {
        { .owner = c->owner,
          .thread_id = c->id,
          .dataset_id = dataset_id,
          .role = "user",
          .content = t->message,
          .run_id = t->run_id },
        { .owner = c->owner,
          .thread_id = c->id,
          .dataset_id = dataset_id,
          .role = "assistant",
          .content = buf_cstr(&t->text),
          .run_id = t->run_id,
          .metadata_json = meta_text },
    };
    const struct capsule_spec spec = {
        .run_id = t->run_id,
        .owner = c->owner,
        .created_at = t->created_at,
        .dataset_id = dataset_id ? dataset_id : "",
        .dataset_version_hash = c->has_data ? c->data.version_hash : NULL,
        .query_mode = t->mode,
        .thread_id = c->id,
        .question = question,
        .status = t->status,
        .sql = t->sql,
        .python = t->python,
        .plan = t->plan,
        .request = &request,
        .limits = &limits,
        .result = t->result,
        .timings = times,
        .usage = c->terms ? had_result : t->usage,
    };
    if (capsule_store(c->agent->env.store, &spec, messages,
                      t->message && !c->deleted ? ARRAY_SIZE(messages) : 0, on_stored, t, &err) < 0)
        on_stored(&err, 0, t);
    else if (!t->message) /* made while the store syncs */
        make_answer(t);
}

void turn_finish(struct turn *t)
{
    if (t->finishing)
        return;
    t->finishing = true;
    loop_cancel(TAKE_PTR(t->timer));
    turn_forget_learning(t);
    turn_forget_lookup(t);
    model_talk_destroy(t);
    settle_outcome(t);
    if (!t->streamed && t->message && !t->failed) /* of a failure the answer tells, once */
        turn_say(t, "token", json_pack("{s:o}", "text", json_text(t->text.data, t->text.len)));
    if (t->chat->agent->env.store) {
        store_turn(t);
    } else {
        struct err err = ERR_INIT;
        if (loop_defer(t->chat->agent->env.loop, stored_nothing, t, &err) < 0)
            stored_nothing(t);
    }
}
