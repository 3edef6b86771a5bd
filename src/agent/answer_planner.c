/*
 * Answers without a model: the planner reads the question, its readings are tried, and the one that
 * is clearly meant is shown.
 */

#include <string.h>
#include "agent/agent_impl.h"
#include "agent/chart.h"
#include "agent/summary.h"
#include "base/str.h"

static void step(struct turn *t);

static void on_rows(void *arg, const struct run_result *result, const struct err *err)
{
    struct turn *t = arg;
    turn_count_wait(t);
    if (turn_should_stop(t))
        return;
    if (err) {
        turn_fail(t, err);
        return;
    }
    struct err why = ERR_INIT;
    bool ok = result->verdict == VERDICT_OK;
    json_array_append_new(t->exec_ms, json_real((double)result->execute_us / 1000));
    if (!ok) {
        const char *message = json_string_value(
            json_object_get(json_object_get(result->body, "error"), "message"));
        err_set(&why, result->verdict == VERDICT_TIMEOUT ? ERR_TIMEOUT : ERR_INTERNAL, "%s",
                message ? message : verdict_name(result->verdict));
    }
    reading_feed(t->reading, ok ? result->body : NULL, ok ? NULL : &why);
    step(t);
}

/* {columns, …} of the answer as a run's result has it, with no more rows than a run may give. */
static json_t *result_of(struct turn *t, const json_t *answer)
{
    static const char *const keys[] = { "columns", "types", "rows", "row_count", "truncated" };
    json_t *r = json_object();
    double ms = json_number_value(json_array_get(t->exec_ms, 0));
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
        if (json_object_get(answer, keys[i]))
            json_object_set_new(r, keys[i], json_copy(json_object_get(answer, keys[i])));
    json_t *rows = json_object_get(r, "rows");
    size_t most = (size_t)turn_cfg(t)->max_rows;
    if (json_array_size(rows) > most) {
        while (json_array_size(rows) > most)
            json_array_remove(rows, json_array_size(rows) - 1);
        json_object_set_new(r, "row_count", json_integer((json_int_t)most));
        json_object_set_new(r, "truncated", json_true());
    }
    json_object_set_new(r, "exec_time_ms", json_integer((json_int_t)(ms + 0.5)));
    json_object_set_new(r, "error", json_null());
    json_object_set_new(r, "verdict", json_string("ok"));
    return r;
}

/* How the question was read, and which of its words were not. */
static void tell_reading(struct turn *t, const json_t *answer)
{
    static const char *const told[] = { "reading", "understood", "not_understood" };
    for (size_t i = 0; i < ARRAY_SIZE(told); i++)
        if (json_object_get(answer, told[i]))
            json_object_set(t->extra, told[i], json_object_get(answer, told[i]));
}

static void answered(struct turn *t, const json_t *answer)
{
    const char *sql = json_string_value(json_object_get(answer, "sql"));
    t->mode = "plan";
    t->status = "succeeded";
    t->sql = arena_strdup(&t->arena, sql ? sql : "");
    turn_set_plan(t, json_object_get(answer, "plan"));
    t->result = result_of(t, answer);
    json_array_append(t->results, t->result);
    tell_reading(t, answer);
    json_t *chart = chart_suggest(t->result, json_object_get(answer, "chart"));
    if (chart)
        json_object_set_new(t->extra, "chart", chart);
    turn_show_run(t, "plan", t->sql, t->plan, json_number_value(json_array_get(t->exec_ms, 0)));
    turn_summarise(t);
    struct err err = ERR_INIT;
    (void)summary_write_ties(json_object_get(answer, "ties"),
                             json_array_size(json_object_get(t->result, "rows")), &t->text, &err);
}

static void read_question(struct turn *t);

/* The code of a verified question ran. */
static void verified_ran(struct turn *t)
{
    if (!json_is_null(json_object_get(t->result, "error"))) { /* the data is another now */
        json_decref(TAKE_PTR(t->result));
        json_array_clear(t->code_runs);
        read_question(t);
        return;
    }
    json_object_set_new(t->extra, "verified", verified_origin(t));
    turn_summarise(t);
    turn_finish(t);
}

static void python_ran(struct turn *t)
{
    turn_summarise(t);
    turn_finish(t);
}

/* The same as Python, which was asked for. */
static void answer_in_python(struct turn *t, const json_t *answer)
{
    const char *sql = json_string_value(json_object_get(answer, "sql"));
    auto_buf struct buf code = BUF_INIT(CODE_MAX_BYTES);
    struct err err = ERR_INIT;
    struct turn_run run = { .language = "python" };
    if (!turn_cfg(t)->enable_python)
        err_set(&err, ERR_FEATURE_DISABLED,
                "Python is switched off on this server (ENABLE_PYTHON_EXECUTION)");
    else if (python_of_plan(json_object_get(answer, "plan"), sql ? sql : "", t->chat->data.database,
                            &code, &err) == 0)
        run.code = buf_cstr(&code);
    tell_reading(t, answer);
    if (run.code)
        turn_run_code(t, &run, python_ran);
    else
        turn_fail(t, &err);
}

static void asked(struct turn *t, const json_t *answer)
{
    struct err err = ERR_INIT;
    size_t i;
    json_t *choice;
    json_t *alike = json_array();
    json_object_set(t->extra, "choices", json_object_get(answer, "choices"));
    tell_reading(t, answer);
    verified_offer(t, alike);
    if (json_array_size(alike) > 0)
        json_object_set(t->extra, "suggestions", alike);
    json_decref(alike);
    const json_t *choices = json_object_get(answer, "choices");
    (void)buf_append_str(&t->text,
                         json_array_size(choices) == 1 ?
                             "I am not sure that I read this right. Do you mean:" :
                             "I can read this in more than one way. Which do you mean?",
                         &err);
    json_array_foreach(choices, i, choice)
        (void)buf_printf(&t->text, &err, "\n%zu. %s", i + 1,
                         json_string_value(json_object_get(choice, "reading")));
}

/* suggestions may be NULL. */
static void declined(struct turn *t, json_t *suggestions)
{
    struct err err = ERR_INIT;
    size_t i;
    json_t *q;
    if (suggestions) {
        verified_offer(t, suggestions);
        if (json_array_size(suggestions) > 0)
            json_object_set(t->extra, "suggestions", suggestions);
    }
    (void)buf_append_str(&t->text, "I can't read this one without a model.", &err);
    if (json_array_size(suggestions))
        (void)buf_append_str(&t->text, " Questions about this data that I can answer:", &err);
    json_array_foreach(suggestions, i, q)
        (void)buf_printf(&t->text, &err, "\n- %s", json_string_value(q));
    turn_reject(t, err_name(ERR_LLM_UNAVAILABLE),
                "No model is configured, and the built-in planner cannot read this. Use a model, "
                "or `SQL: …` / `PYTHON: …`.");
}

/* Nothing to plan with: says what can be done here. */
static void no_tables(struct turn *t)
{
    struct err err = ERR_INIT;
    if (t->planner_note) {
        turn_fail(t, &t->failure);
        return;
    }
    (void)buf_append_str(
        &t->text,
        "There is no table here yet. Upload a file (CSV, JSON, Parquet or Excel) or choose "
        "a data set, then ask about it.",
        &err);
    if (turn_cfg(t)->enable_python)
        (void)buf_append_str(&t->text, " `PYTHON: …` runs code as it is.", &err);
    (void)buf_append_str(&t->text, " Other questions need a model, and none is configured.", &err);
    turn_reject(t, err_name(ERR_LLM_UNAVAILABLE),
                "No model is configured, and there is no table to ask about.");
    turn_finish(t);
}

static void settle(struct turn *t)
{
    const json_t *answer = reading_answer(t->reading);
    const char *status = json_string_value(json_object_get(answer, "status"));
    if (t->planner_note && !str_eq(status, "answered")) {
        /* it was only a second chance: the first failure is the one to tell */
        turn_fail(t, &t->failure);
        return;
    }
    if (str_eq(status, "answered") && !t->planner_note && message_wants_python(t->message)) {
        answer_in_python(t, answer);
        return;
    }
    if (str_eq(status, "answered")) {
        answered(t, answer);
    } else if (str_eq(status, "asked")) {
        asked(t, answer);
    } else if (str_eq(status, "declined")) {
        declined(t, json_object_get(answer, "suggestions"));
    } else {
        const char *message = json_string_value(
            json_object_get(json_object_get(answer, "error"), "message"));
        struct err err = ERR_INIT;
        err_set(&err, ERR_INTERNAL, "%s", message ? message : "the question could not be planned");
        turn_fail(t, &err);
        return;
    }
    if (t->planner_note) {
        struct err ignored = ERR_INIT;
        json_object_set_new(t->extra, "warning", json_string(t->planner_note));
        (void)buf_printf(&t->text, &ignored, "\n\n(%s)", t->planner_note);
    }
    turn_finish(t);
}

static void step(struct turn *t)
{
    struct err err = ERR_INIT;
    int64_t max_rows = 0;
    const char *sql = reading_next_sql(t->reading, &max_rows);
    if (!sql)
        settle(t);
    else if (turn_query(t, sql, max_rows, on_rows, &err) < 0)
        turn_fail(t, &err);
}

static void on_planned(void *arg)
{
    struct turn *t = arg;
    if (t->finishing || t->chat->agent->closing || turn_should_stop(t))
        return;
    if (!reading_answer(t->reading))
        turn_stage_run(t, "plan");
    step(t);
}

static void read_question(struct turn *t)
{
    struct err err = ERR_INIT;
    struct chat *c = t->chat;
    if (!data_view_has_tables(&c->data)) {
        no_tables(t);
        return;
    }
    if (!t->planner_note && answer_by_schema(t))
        return;
    if (message_needs_more_than_a_query(t->message, catalog_describe(c->catalog))) {
        if (t->planner_note) {
            turn_fail(t, &t->failure);
            return;
        }
        auto_json json_t *alike = json_array(); /* confirmed questions that are like it */
        declined(t, alike);
        turn_finish(t);
        return;
    }
    struct nl_context context = { .previous_plan = c->last_plan,
                                  .previous_question = c->last_question };
    if (reading_begin_beside(c->agent->env.loop, c->owner, c->catalog, t->message,
                             c->last_plan ? &context : NULL, on_planned, t, &t->reading, &err) < 0)
        turn_fail(t, &err);
}

static void begin(struct turn *t)
{
    if (!verified_run(t, verified_ran))
        read_question(t);
}

static void look_for_examples(struct turn *t)
{
    turn_need_examples(t, begin);
}

void answer_by_planner(struct turn *t)
{
    turn_need_catalog(t, look_for_examples);
}
