/*
 * Questions to try, made of the best columns of the data: what people see before they have asked,
 * and after a question that was not understood. A prompt is offered only if the planner answers it.
 */

#include <stdio.h>

#include "base/macros.h"
#include "base/str.h"
#include "nl/frame.h"

#define CATEGORY_VALUES 30
#define DAYS_OF_MANY_YEARS 1500 /* totals by year, not by month */
#define DAYS_OF_MONTHS 70       /* totals by month, not by day */

/* ---- the best columns ---- */

/* A category with few values, and no flag where there is another; `not` is passed over. */
static const struct nl_column *good_category(const struct nl_table *t,
                                             const struct nl_column * not )
{
    const struct nl_column *best = NULL;
    for (int c = 0; c < t->n_columns; c++) {
        const struct nl_column *x = &t->columns[c];
        if (x == not || x->type != TYPE_TEXT || x->numeric_text || x->is_id || x->is_unique ||
            x->n_values < 2)
            continue;
        bool few = x->n_values <= CATEGORY_VALUES;
        if (!best || (few && !x->is_flag && (best->is_flag || best->n_values > CATEGORY_VALUES)))
            best = x;
    }
    return best;
}

static bool is_good_measure(const struct nl_column *x)
{
    return fr_is_measure(x) && !x->formula && !x->numeric_text;
}

static const struct nl_column *good_measure(const struct nl_schema *s, const struct nl_table *t,
                                            const struct nl_column * not )
{
    struct nl_ref main;
    if (!not &&nl_main_measure(s, (int)(t - s->tables), &main) &&
        is_good_measure(&t->columns[main.column]))
        return &t->columns[main.column];
    for (int c = 0; c < t->n_columns; c++)
        if (&t->columns[c] != not &&is_good_measure(&t->columns[c]))
            return &t->columns[c];
    return NULL;
}

static const struct nl_column *good_time(const struct nl_table *t)
{
    for (int c = 0; c < t->n_columns; c++) {
        const struct nl_column *x = &t->columns[c];
        if ((x->type == TYPE_DATE || x->type == TYPE_TIMESTAMP) && x->min && x->max &&
            !str_eq(x->min, x->max))
            return x;
    }
    return NULL;
}

/* The table with the most to sum up; NULL: there is none. */
static const struct nl_table *best_table(const struct nl_schema *s)
{
    const struct nl_table *best = NULL;
    int most = -1;
    for (int t = 0; t < s->n_tables; t++) {
        int n = 0;
        for (int c = 0; c < s->tables[t].n_columns; c++)
            n += is_good_measure(&s->tables[t].columns[c]);
        if (n > most) {
            most = n;
            best = &s->tables[t];
        }
    }
    return best;
}

/* "How many rows for each city?"; no second mark behind a name that is a question itself. */
static const char *ask_of(struct arena *a, const char *words, const struct nl_column *c)
{
    return arena_printf(a, "%s %s%s", words, c->name, str_ends(c->name, "?") ? "" : "?");
}

static const char *total_or_average(const struct nl_column *measure)
{
    return measure->is_rate ? "average" : "total";
}

/* ---- after a question that was declined ---- */

void nl_suggest(const struct nl_schema *s, struct arena *a, struct nl_answer *ret)
{
    const struct nl_table *best = best_table(s);
    if (!best)
        return;
    const struct nl_column *measure = good_measure(s, best, NULL);
    const struct nl_column *category = good_category(best, NULL);
    ret->suggestions[ret->n_suggestions++] = arena_printf(a, "how many rows are in %s?",
                                                          best->name);
    if (measure)
        ret->suggestions[ret->n_suggestions++] = ask_of(a, "what is the average", measure);
    if (measure && category)
        ret->suggestions[ret->n_suggestions++] = arena_printf(
            a, "%s %s by %s", total_or_average(measure), measure->name, category->name);
    else if (category)
        ret->suggestions[ret->n_suggestions++] = ask_of(a, "how many rows for each", category);
    if (ret->n_suggestions < 3 && best->n_columns > 0)
        ret->suggestions[ret->n_suggestions++] = arena_printf(a, "list the different %s",
                                                              best->columns[0].name);
}

/* ---- before the first question ---- */

struct prompts {
    const struct nl_schema *s;
    const char **ret;
    size_t n, max;
};

static bool mentions(const json_t *plan, const char *name)
{
    const char *key;
    json_t *part;
    size_t i;
    json_object_foreach((json_t *)plan, key, part)
        if (mentions(part, name))
            return true;
    json_array_foreach(plan, i, part)
        if (mentions(part, name))
            return true;
    return str_eq(json_string_value(plan), name);
}

/* Takes the question if it is answered, with a plan that has both columns; they may be NULL. */
static void offer(struct prompts *p, const struct nl_column *one, const struct nl_column *other,
                  const char *question)
{
    struct arena scratch;
    struct nl_answer answer = { 0 };
    struct err err = ERR_INIT;
    if (p->n == p->max || !question)
        return;
    arena_init(&scratch, NL_ARENA_BYTES);
    bool works = nl_plan(p->s, question, NULL, &scratch, &answer, &err) >= 0 &&
                 answer.status == NL_ANSWERED && answer.n_not_understood == 0 &&
                 (!one || mentions(answer.choices[0].plan, one->name)) &&
                 (!other || mentions(answer.choices[0].plan, other->name));
    nl_answer_finish(&answer);
    arena_finish(&scratch);
    if (works)
        p->ret[p->n++] = question;
}

/* Days from one ISO date to another, roughly: enough to choose a unit. */
static long days_between(const char *from, const char *to)
{
    int y[2] = { 0 }, m[2] = { 0 }, d[2] = { 0 };
    if (sscanf(from, "%d-%d-%d", &y[0], &m[0], &d[0]) != 3 ||
        sscanf(to, "%d-%d-%d", &y[1], &m[1], &d[1]) != 3)
        return 0;
    return (y[1] - y[0]) * 365L + (m[1] - m[0]) * 30L + (d[1] - d[0]);
}

size_t nl_prompts(const struct nl_schema *s, struct arena *a, const char **ret, size_t max)
{
    struct prompts p = { .s = s, .ret = ret, .max = max };
    const struct nl_table *t = best_table(s);
    if (!t)
        return 0;
    const struct nl_column *measure = good_measure(s, t, NULL), *time = good_time(t);
    const struct nl_column *category = good_category(t, NULL);
    const struct nl_column *second = measure ? good_measure(s, t, measure) : NULL;
    const struct nl_column *other = category ? good_category(t, category) : NULL;
    long days = time ? days_between(time->min, time->max) : 0;
    const char *unit = days > DAYS_OF_MANY_YEARS ? "year" : days > DAYS_OF_MONTHS ? "month" : "day";

    if (measure && category)
        offer(&p, measure, category,
              arena_printf(a, "%s %s by %s", measure->is_rate ? "Average" : "Total", measure->name,
                           category->name));
    else if (category)
        offer(&p, category, NULL, ask_of(a, "How many rows for each", category));
    if (measure && time)
        offer(&p, measure, time,
              arena_printf(a, "%s %s by %s", measure->is_rate ? "Average" : "Total", measure->name,
                           unit));
    else if (time)
        offer(&p, time, NULL, arena_printf(a, "How many rows by %s?", unit));
    if (measure && category)
        offer(&p, category, NULL, ask_of(a, "How many rows for each", category));
    if (other)
        offer(&p, other, NULL, ask_of(a, "How many rows for each", other));
    if (second && category)
        offer(&p, second, category,
              arena_printf(a, "Average %s by %s", second->name, category->name));
    if (measure)
        offer(&p, measure, NULL, ask_of(a, "What is the average", measure));
    if (second)
        offer(&p, second, NULL, ask_of(a, "What is the highest", second));
    offer(&p, NULL, NULL, "How many rows are there?");
    offer(&p, NULL, NULL, "Show the first 10 rows");
    return p.n;
}
