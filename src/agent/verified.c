/*
 * Questions whose answers a person confirmed. Those that are alike come back with every question
 * about the same data set: to a model as examples beside the question, and to the planner, which
 * answers the same question with the same code and offers alike ones.
 */

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "agent/tools.h"
#include "base/log.h"
#include "base/str.h"

#define ASKED_BYTES                                                                                \
    900 /* of a question that alike ones are looked for with; the store takes a little more */
#define CANDIDATES 12
#define EXAMPLES_MAX 3
#define EXAMPLE_CODE_BYTES 2000
#define WORDS_MAX 60
#define ALIKE_SHARE 0.5      /* of the words of the longer one … */
#define CONTAINED_SHARE 0.75 /* … or of the shorter one, if they share two words at least */

/* A look into the store. The turn may end before it does. */
struct lookup {
    struct turn *turn; /* NULL: it ended */
    turn_next_fn next;
};

/* ---- how alike two questions are ---- */

struct words {
    char word[WORDS_MAX][24];
    size_t n;
};

static void split(const char *text, struct words *ret)
{
    ret->n = 0;
    for (const char *p = text; *p && ret->n < WORDS_MAX;) {
        size_t n = 0;
        for (; isalnum((unsigned char)*p) || (unsigned char)*p >= 0x80; p++)
            if (n + 1 < sizeof(ret->word[0]))
                ret->word[ret->n][n++] = (char)tolower((unsigned char)*p);
        ret->word[ret->n][n] = '\0';
        ret->n += n > 0;
        p += *p && n == 0;
    }
}

static bool is_same(const struct words *a, const struct words *b)
{
    if (a->n != b->n || a->n == 0)
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (!str_eq(a->word[i], b->word[i]))
            return false;
    return true;
}

/* Endings count little: "region" and "regions" are one word. */
static bool is_one_word(const char *a, const char *b)
{
    size_t same = 0, na = strlen(a), nb = strlen(b);
    while (a[same] && a[same] == b[same])
        same++;
    return same == na ? nb - same <= 2 :
           same == nb ? na - same <= 2 :
                        same >= 5 && na - same <= 3 && nb - same <= 3;
}

static bool is_alike(const struct words *a, const struct words *b)
{
    size_t common = 0, long_a = 0, long_b = 0;
    for (size_t i = 0; i < a->n; i++) {
        bool found = false;
        if (strlen(a->word[i]) < 3)
            continue;
        long_a++;
        for (size_t k = 0; k < b->n && !found; k++)
            found = strlen(b->word[k]) >= 3 && is_one_word(a->word[i], b->word[k]);
        common += found;
    }
    for (size_t k = 0; k < b->n; k++)
        long_b += strlen(b->word[k]) >= 3;
    return (common > 0 && (double)common >= ALIKE_SHARE * (double)MAX_OF(long_a, long_b)) ||
           (common > 1 && (double)common >= CONTAINED_SHARE * (double)MIN_OF(long_a, long_b));
}

/* "and by region?" means something else behind every other question. */
static bool leans_on_another(const struct words *w)
{
    static const char *const first[] = { "and",     "but",     "also", "only",  "now",
                                         "without", "then",    "same", "again", "what",
                                         "how",     "instead", "sort", "as" };
    if (w->n < 3)
        return true;
    for (size_t i = 0; i < ARRAY_SIZE(first); i++)
        if (str_eq(w->word[0], first[i]))
            return !(str_eq(first[i], "what") || str_eq(first[i], "how")) ||
                   str_eq(w->word[1], "about");
    return false;
}

/* ---- looking ---- */

static json_t *example_of(const struct verified *v, bool same)
{
    auto_json json_t *plan = NULL;
    if (v->plan_json)
        (void)json_parse(v->plan_json, strlen(v->plan_json), &plan, NULL);
    return json_pack("{s:s, s:s, s:b, s:O*, s:s*, s:s*}", "run_id", v->run_id, "question",
                     v->question, "same", same, "plan", plan, "sql", v->compiled_sql, "python",
                     v->python_code);
}

static void take_examples(struct turn *t, const struct store_page *page)
{
    struct words asked, known;
    t->examples = json_array();
    split(t->message, &asked);
    for (size_t i = 0; i < page->n; i++) {
        split(page->verified[i].question, &known);
        bool same = is_same(&asked, &known);
        if (!same && (json_array_size(t->examples) >= EXAMPLES_MAX || !is_alike(&asked, &known)))
            continue;
        json_t *example = example_of(&page->verified[i], same && !leans_on_another(&asked));
        if (same)
            json_array_insert_new(t->examples, 0, example);
        else
            json_array_append_new(t->examples, example);
    }
}

static void found(const struct err *err, const struct store_page *page, void *arg)
{
    struct lookup *l = arg;
    struct turn *t = l->turn;
    turn_next_fn next = l->next;
    free(l);
    if (!t)
        return;
    t->lookup = NULL;
    if (t->finishing || t->chat->agent->closing)
        return;
    if (err)
        log_warn("agent.verified", LOG_STR("thread", t->chat->id), LOG_STR("error", err->message));
    else
        take_examples(t, page);
    if (!turn_should_stop(t))
        next(t);
}

void turn_need_examples(struct turn *t, turn_next_fn next)
{
    struct chat *c = t->chat;
    struct store *store = c->agent->env.store;
    struct lookup *l = store && !t->examples ? calloc(1, sizeof(*l)) : NULL;
    const char *like = arena_strndup(&t->arena, t->message,
                                     str_utf8_cut(t->message, strlen(t->message), ASKED_BYTES));
    struct store_query query = {
        .owner = c->owner, .dataset_id = c->data.dataset_id, .like = like, .limit = CANDIDATES
    };
    struct err err = ERR_INIT;
    if (l && like) {
        *l = (struct lookup){ t, next };
        t->lookup = l;
        if (store_list(store, RECORD_VERIFIED, &query, found, l, &err) == 0)
            return;
        t->lookup = NULL;
    }
    free(l);
    next(t); /* it does without */
}

void turn_forget_lookup(struct turn *t)
{
    if (t->lookup)
        t->lookup->turn = NULL;
    t->lookup = NULL;
}

/* ---- for a model ---- */

int prompt_examples(const struct turn *t, struct buf *b, struct err *err)
{
    static const char *const kinds[] = { "sql", "python" };
    size_t i;
    json_t *e;
    int r = 0;
    json_array_foreach(t->examples, i, e) {
        if (i == EXAMPLES_MAX || r < 0)
            break;
        r = prompt_text(b,
                        i ? "\n- question: " :
                            "<data>\nAlike questions that the person confirmed, with the code that "
                            "answered them:\n- question: ",
                        json_string_value(json_object_get(e, "question")), err);
        for (size_t k = 0; k < ARRAY_SIZE(kinds) && r == 0; k++) {
            const char *code = json_string_value(json_object_get(e, kinds[k]));
            if (code && strlen(code) <= EXAMPLE_CODE_BYTES)
                r = prompt_text(b, k ? "\n  python: " : "\n  sql: ", code, err);
        }
    }
    return r == 0 && json_array_size(t->examples) > 0 ? buf_append_str(b, "\n</data>\n\n", err) : r;
}

/* ---- for the planner ---- */

/* The code of the same question; false: there is none that can be run. */
bool verified_run(struct turn *t, turn_next_fn next)
{
    json_t *e = json_array_get(t->examples, 0), *plan = json_object_get(e, "plan");
    const char *python = json_string_value(json_object_get(e, "python"));
    struct turn_run run = { .language = "sql",
                            .code = json_string_value(json_object_get(e, "sql")) };
    struct err ignored = ERR_INIT;
    if (!json_is_true(json_object_get(e, "same")) || t->planner_note)
        return false;
    if (plan) {
        run = (struct turn_run){ .language = "plan", .plan = plan };
        if (turn_compile(t, plan, &run.code, &ignored) < 0)
            return false; /* the tables are others now */
    } else if (python) {
        run = (struct turn_run){ .language = "python", .code = python };
    }
    if (!run.code || (python && !plan && !turn_cfg(t)->enable_python))
        return false;
    turn_run_code(t, &run, next);
    return true;
}

json_t *verified_origin(const struct turn *t)
{
    const json_t *e = json_array_get(t->examples, 0);
    return json_pack("{s:O, s:O}", "run_id", json_object_get(e, "run_id"), "question",
                     json_object_get(e, "question"));
}

void verified_offer(const struct turn *t, json_t *list)
{
    size_t i;
    json_t *e;
    json_array_foreach(t->examples, i, e)
        if (!json_is_true(json_object_get(e, "same")))
            json_array_insert(list, MIN_OF(i, json_array_size(list)),
                              json_object_get(e, "question"));
}
