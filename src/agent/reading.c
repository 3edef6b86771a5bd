/*
 * One question answered without a model: see reading.h. The planner decides (nl_plan, nl_settle);
 * this file keeps the books.
 */

#include "agent/reading.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/macros.h"
#include "base/str.h"
#include "net/loop.h"
#include "plan/compile.h"

#define OFFERED_MIN 0.05 /* a reading that is less likely is not offered */
#define OFFERED_CHOICES 3
#define LIKE_BYTES 6           /* of two words that begin alike, so many letters are the same */
#define CLEAR_PROBABILITY 0.97 /* others need not be tried */
#define TRIED_MIN 0.02
#define TIES_LIMIT_MAX 100 /* of lists up to so many rows it is told what ties with the last */
#define TIES_MAX 20
#define AT_ONCE_MAX_EFFORT 500 /* as nl_effort() counts: some milliseconds */

/* A reading that is run. One that cannot be is none, unless it is the best. */
struct trial {
    struct buf sql;
    json_t *body;
    bool is_tried;
    struct err why; /* of one that failed */
};

struct reading {
    struct catalog *catalog;
    struct arena arena;
    struct nl_answer plans;
    struct trial trials[NL_CHOICES_MAX]; /* in the order of the choices */
    size_t at;                           /* the trial under way */
    bool run, is_settled;
    struct trial tie;  /* the best plan with a higher limit */
    size_t tie_column; /* what its rows are ordered by */
    bool looks_for_ties;
    json_t *answer;
    /* What is planned, by another thread if is_planning. */
    char *question, *previous_question;
    json_t *previous_plan;
    int planned;
    struct err why;
    bool is_planning, is_given_up;
    void (*done)(void *arg);
    void *arg;
};

/* ---- the answer ---- */

static json_t *choices_json(const struct nl_answer *plans)
{
    json_t *list = json_array();
    for (size_t i = 0; i < plans->n_choices && json_array_size(list) < OFFERED_CHOICES; i++)
        if (plans->choices[i].probability >= OFFERED_MIN)
            json_array_append_new(list,
                                  json_pack("{s:s, s:O, s:f}", "reading", plans->choices[i].reading,
                                            "plan", plans->choices[i].plan, "probability",
                                            plans->choices[i].probability));
    return list;
}

static void tell_best(const struct reading *r, json_t *out)
{
    static const char *const keys[] = { "columns", "types", "rows", "row_count", "truncated" };
    const struct nl_choice *best = &r->plans.choices[0];
    const struct trial *t = &r->trials[0];
    json_object_set_new(out, "reading", json_string(best->reading));
    json_object_set_new(out, "probability", json_real(best->probability));
    json_object_set(out, "plan", best->plan);
    json_object_set_new(out, "sql", json_string(buf_cstr(&t->sql)));
    if (best->chart)
        json_object_set(out, "chart", best->chart);
    if (best->rule && json_array_size(r->plans.meanings) > 0)
        json_object_set(out, "understood", r->plans.meanings);
    if (best->rule)
        json_object_set_new(out, "rule", json_string(best->rule));
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
        if (json_object_get(t->body, keys[i]))
            json_object_set(out, keys[i], json_object_get(t->body, keys[i]));
}

static void tell_error(json_t *out, const struct err *why)
{
    json_object_set_new(out, "status", json_string("error"));
    json_object_set_new(out, "error", json_error(why));
}

/* True if the text has the word, or one that begins as it does: "satisfied" for "satisfaction". */
static bool has_word_like(const char *text, const char *word)
{
    size_t len = strlen(word), most = MIN_OF(len, (size_t)LIKE_BYTES);
    for (const char *p = text; *p; p++)
        if ((p == text || !isalnum((unsigned char)p[-1])) && strncasecmp(p, word, most) == 0 &&
            (most < len || !isalnum((unsigned char)p[most])))
            return true;
    return false;
}

/* True if every reading that is offered has the word: then it was understood. */
static bool is_offered(const json_t *choices, const char *word)
{
    size_t i;
    json_t *choice;
    json_array_foreach(choices, i, choice)
        if (!has_word_like(json_string_value(json_object_get(choice, "reading")), word))
            return false;
    return json_array_size(choices) > 0;
}

/*
 * Words that mean nothing here, and the kind of question where it is one that no plan answers.
 * choices: what is offered; NULL: nothing.
 */
static void tell_gaps(const struct nl_answer *plans, const json_t *choices, json_t *out)
{
    json_t *words = json_array();
    for (size_t i = 0; i < plans->n_not_understood; i++)
        if (!is_offered(choices, plans->not_understood[i]))
            json_array_append_new(words, json_string(plans->not_understood[i]));
    if (json_array_size(words) > 0)
        json_object_set(out, "not_understood", words);
    json_decref(words);
    if (plans->reason)
        json_object_set_new(out, "reason", json_string(plans->reason));
}

static json_t *ties_json(const struct reading *r);

/* Everything is known. */
static void conclude(struct reading *r)
{
    json_t *out = json_object();
    auto_json json_t *choices = r->plans.status == NL_ASKED ? choices_json(&r->plans) : NULL;
    tell_gaps(&r->plans, choices, out);
    json_object_set_new(out, "status", json_string(nl_status_names[r->plans.status]));
    if (r->plans.status == NL_ANSWERED) {
        tell_best(r, out);
        if (r->plans.meant)
            json_object_set_new(out, "meant", json_string(r->plans.meant));
        json_t *ties = r->tie.body ? ties_json(r) : NULL;
        if (ties)
            json_object_set_new(out, "ties", ties);
        if (r->trials[0].why.code != ERR_NONE)
            tell_error(out, &r->trials[0].why);
    } else if (r->plans.status == NL_ASKED) {
        json_object_set(out, "choices", choices);
    } else {
        json_t *list = json_array();
        for (size_t i = 0; i < r->plans.n_suggestions; i++)
            json_array_append_new(list, json_string(r->plans.suggestions[i]));
        json_object_set_new(out, "suggestions", list);
    }
    r->answer = out;
}

/* ---- trials ---- */

/* Puts the trials into the order that the choices have now. */
static void settle(struct reading *r)
{
    const json_t *rows[NL_CHOICES_MAX] = { NULL };
    size_t order[NL_CHOICES_MAX], n = r->plans.n_choices, at;
    struct trial was[NL_CHOICES_MAX];
    bool kept[NL_CHOICES_MAX] = { false };
    for (size_t i = 0; i < n; i++)
        rows[i] = json_object_get(r->trials[i].body, "rows");
    nl_settle(&r->plans, rows, order);
    memcpy(was, r->trials, sizeof(was));
    for (at = 0; at < r->plans.n_choices; at++) {
        r->trials[at] = was[order[at]];
        kept[order[at]] = true;
    }
    for (size_t i = 0; i < n; i++)
        if (!kept[i])
            r->trials[at++] = was[i]; /* twins: only to be freed */
    r->is_settled = true;
}

static bool is_worth_trying(const struct reading *r, size_t i)
{
    if (i == 0)
        return true;
    return r->run && r->plans.choices[i].share >= TRIED_MIN &&
           r->plans.choices[0].share <= CLEAR_PROBABILITY;
}

/* ---- ties ---- */

/* The shown column that the rows are ordered by first; false if it is not shown. */
static bool find_order(const json_t *plan, const json_t *columns, size_t *ret)
{
    const json_t *order = json_object_get(plan, "order_by");
    const char *expr = json_string_value(json_object_get(json_array_get(order, 0), "expr"));
    size_t i, len = expr ? strlen(expr) : 0;
    json_t *v;
    if (len == 0)
        return false;
    if (len > 2 && expr[0] == '"' && !memchr(expr + 1, '"', len - 2)) {
        expr++;
        len -= 2;
    }
    json_array_foreach(columns, i, v) {
        if (json_string_length(v) == len && memcmp(json_string_value(v), expr, len) == 0) {
            *ret = i;
            return true;
        }
    }
    return false;
}

/*
 * "Which city has the most?" has one row for an answer, although two cities may have as many. A
 * list that its limit cut is asked for again with a higher one, and what equals its last row is
 * told.
 */
static bool begin_ties(struct reading *r)
{
    const struct trial *best = &r->trials[0];
    const json_t *plan = r->plans.choices[0].plan, *rows = json_object_get(best->body, "rows");
    json_int_t limit = json_integer_value(json_object_get(plan, "limit"));
    if (!best->body || limit < 1 || limit > TIES_LIMIT_MAX ||
        json_array_size(rows) != (size_t)limit || json_object_get(plan, "offset") ||
        !find_order(plan, json_object_get(best->body, "columns"), &r->tie_column))
        return false;
    auto_json json_t *longer = json_copy((json_t *)(uintptr_t)plan);
    struct err err = ERR_INIT;
    if (json_object_set_new(longer, "limit", json_integer(limit + TIES_MAX)) < 0 ||
        catalog_compile(r->catalog, longer, &r->tie.sql, &err) < 0)
        return false;
    r->looks_for_ties = true;
    return true;
}

static bool has_row(const json_t *rows, const json_t *row)
{
    size_t i;
    json_t *v;
    json_array_foreach(rows, i, v)
        if (json_equal(v, row))
            return true;
    return false;
}

/*
 * {"columns", "types", "rows", "column", "truncated"}: rows that equal the last of the answer and
 * are not in it. The two queries may order rows that tie differently.
 */
static json_t *ties_json(const struct reading *r)
{
    const json_t *rows = json_object_get(r->tie.body, "rows");
    const json_t *shown = json_object_get(r->trials[0].body, "rows");
    const json_t *last = json_array_get(json_array_get(shown, json_array_size(shown) - 1),
                                        r->tie_column);
    json_t *tied = json_array(), *row;
    size_t i;
    bool more = false;
    json_array_foreach(rows, i, row) {
        bool same = json_equal(json_array_get(row, r->tie_column), last);
        if (same && !has_row(shown, row))
            json_array_append(tied, row);
        more = same && i + 1 == json_array_size(shown) + TIES_MAX;
    }
    if (json_array_size(tied) == 0 || json_is_null(last)) {
        json_decref(tied);
        return NULL;
    }
    return json_pack("{s:O, s:O*, s:o, s:I, s:b}", "columns",
                     json_object_get(r->tie.body, "columns"), "types",
                     json_object_get(r->tie.body, "types"), "rows", tied, "column",
                     (json_int_t)r->tie_column, "truncated", more);
}

/* Goes to the next trial that can be run; concludes when there is none. */
static void go_on(struct reading *r)
{
    for (; !r->is_settled && r->at < r->plans.n_choices; r->at++) {
        struct trial *t = &r->trials[r->at];
        if (!is_worth_trying(r, r->at))
            continue;
        t->is_tried = true;
        if (catalog_compile(r->catalog, r->plans.choices[r->at].plan, &t->sql, &t->why) >= 0 &&
            r->run)
            return;
    }
    if (r->run && !r->is_settled) {
        settle(r);
        /* What was too unlikely to try may have become the best. */
        struct trial *best = &r->trials[0];
        if (r->plans.status == NL_ANSWERED && !best->is_tried) {
            best->is_tried = true;
            r->at = 0;
            if (catalog_compile(r->catalog, r->plans.choices[0].plan, &best->sql, &best->why) >= 0)
                return;
        }
    }
    if (r->run && r->plans.status == NL_ANSWERED && !r->looks_for_ties && begin_ties(r))
        return;
    conclude(r);
}

static struct reading *create(struct catalog *c, const char *question, const struct nl_context *ctx,
                              bool run)
{
    struct reading *r = calloc(1, sizeof(*r));
    if (!r)
        return NULL;
    r->question = strdup(question);
    if (ctx && ctx->previous_question)
        r->previous_question = strdup(ctx->previous_question);
    if (ctx)
        r->previous_plan = json_incref((json_t *)(uintptr_t)ctx->previous_plan);
    r->catalog = catalog_ref(c);
    r->run = run;
    r->plans.status = NL_DECLINED;
    arena_init(&r->arena, NL_ARENA_BYTES);
    for (size_t i = 0; i < NL_CHOICES_MAX; i++)
        buf_init(&r->trials[i].sql, PLAN_SQL_MAX_BYTES);
    buf_init(&r->tie.sql, PLAN_SQL_MAX_BYTES);
    if (r->question && (r->previous_question || !ctx || !ctx->previous_question))
        return r;
    reading_destroy(r);
    return NULL;
}

/* In any thread. */
static void plan(void *arg)
{
    struct reading *r = arg;
    struct nl_context ctx = { .previous_plan = r->previous_plan,
                              .previous_question = r->previous_question };
    r->planned = nl_plan(catalog_schema(r->catalog), r->question, r->previous_plan ? &ctx : NULL,
                         &r->arena, &r->plans, &r->why);
}

static void take_plans(struct reading *r)
{
    if (r->planned >= 0) {
        go_on(r);
    } else {
        r->answer = json_object();
        tell_error(r->answer, &r->why);
    }
}

int reading_begin(struct catalog *c, const char *question, const struct nl_context *ctx, bool run,
                  struct reading **ret, struct err *err)
{
    struct reading *r = create(c, question, ctx, run);
    if (!r)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    plan(r);
    take_plans(r);
    *ret = r;
    return 0;
}

static void planned_later(void *arg)
{
    struct reading *r = arg;
    r->is_planning = false;
    if (r->is_given_up) {
        reading_destroy(r);
        return;
    }
    take_plans(r);
    r->done(r->arg);
}

int reading_begin_beside(struct loop *loop, const char *owner, struct catalog *c,
                         const char *question, const struct nl_context *ctx,
                         void (*done)(void *arg), void *arg, struct reading **ret, struct err *err)
{
    struct reading *r = create(c, question, ctx, true);
    if (!r)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    bool is_long = nl_effort(catalog_schema(c), question) > AT_ONCE_MAX_EFFORT;
    r->done = done;
    r->arg = arg;
    *ret = r;
    if (is_long && loop_background_long(loop_uv(loop), owner, plan, planned_later, r, err) == 0) {
        r->is_planning = true;
        return 0;
    }
    plan(r);
    take_plans(r);
    done(arg);
    return 0;
}

void reading_destroy(struct reading *r)
{
    if (!r)
        return;
    if (r->is_planning) {
        r->is_given_up = true; /* goes when the thread is done with it */
        return;
    }
    free(r->question);
    free(r->previous_question);
    json_decref(r->previous_plan);
    for (size_t i = 0; i < NL_CHOICES_MAX; i++) {
        buf_finish(&r->trials[i].sql);
        json_decref(r->trials[i].body);
    }
    buf_finish(&r->tie.sql);
    json_decref(r->tie.body);
    nl_answer_finish(&r->plans);
    arena_finish(&r->arena);
    json_decref(r->answer);
    catalog_unref(r->catalog);
    free(r);
}

const char *reading_next_sql(const struct reading *r, int64_t *ret_max_rows)
{
    if (r->answer || r->is_planning)
        return NULL;
    *ret_max_rows = READING_ROWS_MAX;
    return buf_cstr(r->looks_for_ties ? &r->tie.sql : &r->trials[r->at].sql);
}

void reading_feed(struct reading *r, const json_t *body, const struct err *why)
{
    struct trial *t = r->looks_for_ties ? &r->tie : &r->trials[r->at];
    if (r->answer)
        return;
    if (body)
        t->body = json_incref((json_t *)(uintptr_t)body); /* only its reference count changes */
    else if (why && why->code != ERR_NONE)
        t->why = *why;
    else
        (void)err_set(&t->why, ERR_INTERNAL, "the query gave neither rows nor a reason");
    r->at++;
    go_on(r);
}

json_t *reading_evidence(const struct reading *r)
{
    json_t *evidence = nl_evidence_json(&r->plans);
    const json_t *rows = json_object_get(r->trials[0].body, "rows");
    if (!evidence || !rows)
        return evidence;
    return json_pack("{s:o, s:O}", "evidence", evidence, "rows", rows);
}

const json_t *reading_answer(const struct reading *r)
{
    return r->answer;
}
