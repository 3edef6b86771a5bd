/*
 * Questions about what was shown. They have no subject of their own ("as percentages", "which is
 * the lowest?"), or a pronoun in its place ("what is its total fee?"). The first kind is recognised
 * by its words alone: a rule has words of which one must be there, and words that may; any other
 * word makes it another question. The second kind is planned as it stands, and its readings are
 * kept to what was shown.
 */

#include <string.h>

#include "base/macros.h"
#include "base/str.h"
#include "nl/follow.h"
#include "nl/frame.h"

struct shown {
    const struct nl_schema *s;
    const struct nl_tokens *q;
    struct arena *a;
    json_t *plan; /* a copy of the one before */
    int number;   /* "10", "2nd"; 0: none */
    bool is_ordinal;
    int at; /* the key word */
};

/* ---- words ---- */

static bool is_in(const char *word, const char *list)
{
    size_t n = strlen(word);
    for (const char *p = list; n > 0 && (p = strstr(p, word)) != NULL; p++)
        if ((p == list || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\0'))
            return true;
    return false;
}

#define HIGH "highest largest biggest greatest most best top"
#define ORDINALS "second third fourth fifth"
#define LOW "lowest smallest least fewest worst bottom"

static const char light[] =
    "and so now then ok okay please show me give us just only the a an is are was were 's be what which "
    "who it that this them those these of one ones can you i see has had have with but";

/* "month", "branches": what the rows before are about. */
static bool names_group(const json_t *plan, const struct nl_token *t)
{
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(plan, "select"), i, item) {
        const char *name = follow_name_of(item);
        const char *bucket = json_string_value(json_object_get(item, "bucket"));
        if (follow_is_aggregate(item) || !name)
            continue;
        size_t n = strlen(name);
        if (str_ieq(name, t->text) || (bucket && str_eq(bucket, t->text)) ||
            (t->stem && str_ieq(name, t->stem)) ||
            (n > 2 && strncasecmp(name, t->text, n) == 0 && is_in(t->text + n, "s es")))
            return true;
    }
    return false;
}

/* ---- what can be done with the plan before ---- */

static bool is_grouped(const json_t *plan)
{
    return json_array_size(json_object_get(plan, "group_by")) > 0 &&
           !json_object_get(plan, "source") && follow_first_aggregate(plan);
}

static bool is_cut(const json_t *plan)
{
    json_int_t limit = json_integer_value(json_object_get(plan, "limit"));
    return limit > 0 && limit < PLAN_LIMIT_MAX;
}

static bool adds_up(const json_t *item)
{
    const char *func = json_string_value(json_object_get(item, "func"));
    return func && (str_eq(func, "sum") || str_eq(func, "count"));
}

/* "as percentages": of all groups, also of those that a limit leaves out */
static bool apply_share(struct shown *f)
{
    const json_t *item = follow_first_aggregate(f->plan);
    if (!is_grouped(f->plan) || !adds_up(item))
        return false;
    const char *name = follow_name_of(item);
    json_t *select = follow_list_of(f->plan, "select");
    return name && json_array_append_new(select, json_pack("{s:s, s:s}", "expr",
                                                           arena_printf(f->a, "share(%s)", name),
                                                           "alias", "percentage")) == 0;
}

/* What decides between equal rows stays. */
static void order_by(struct shown *f, const char *name, bool down)
{
    json_t *first = json_array_get(json_object_get(f->plan, "order_by"), 0);
    if (!str_eq(json_string_value(json_object_get(first, "expr")), name)) {
        first = json_pack("{s:s}", "expr", name);
        json_object_set_new(f->plan, "order_by", json_pack("[o]", first));
    }
    json_object_set_new(first, "direction", json_string(down ? "desc" : "asc"));
}

/* "which is the lowest?", "the second highest?", "just the worst three" */
static bool apply_rank(struct shown *f)
{
    static const char *const ordinals[] = { "second", "third", "fourth", "fifth" };
    const char *word = f->q->t[f->at].text;
    const json_t *item = follow_first_aggregate(f->plan);
    const char *name = follow_name_of(item);
    int nth = f->is_ordinal ? f->number : 1, limit = f->is_ordinal ? 1 : MAX_OF(f->number, 1);
    for (int i = 0; i < f->q->n; i++)
        for (size_t k = 0; k < ARRAY_SIZE(ordinals); k++)
            if (str_eq(f->q->t[i].text, ordinals[k]))
                nth = (int)k + 2;
    /* The best of a rate may be its lowest. */
    if (!is_grouped(f->plan) || !name || (is_in(word, "best worst") && !adds_up(item)))
        return false;
    order_by(f, name, is_in(word, HIGH));
    json_object_set_new(f->plan, "limit", json_integer(limit));
    if (nth > 1)
        json_object_set_new(f->plan, "offset", json_integer(nth - 1));
    else
        json_object_del(f->plan, "offset");
    return true;
}

/* "from lowest to highest" */
static bool apply_order(struct shown *f)
{
    const char *first = f->at + 1 < f->q->n ? f->q->t[f->at + 1].text : "";
    const json_t *item = follow_first_aggregate(f->plan);
    if (!is_grouped(f->plan) || !follow_name_of(item) ||
        (!is_in(first, HIGH) && !is_in(first, LOW)) ||
        (is_in(first, "best worst") && !adds_up(item)))
        return false;
    order_by(f, follow_name_of(item), is_in(first, HIGH));
    return true;
}

/* "what is the total?", "and overall?" */
static bool apply_total(struct shown *f)
{
    const json_t *old = json_object_get(f->plan, "select");
    if (!is_grouped(f->plan) || is_cut(f->plan) ||
        (!str_eq(f->q->t[f->at].text, "overall") && !adds_up(follow_first_aggregate(f->plan))))
        return false;
    json_t *select = json_array(), *item;
    size_t i;
    json_array_foreach(old, i, item)
        if (json_object_get(item, "func"))
            json_array_append(select, item);
    json_object_set_new(f->plan, "select", select);
    json_object_del(f->plan, "group_by");
    json_object_del(f->plan, "order_by");
    return json_array_size(select) > 0 && !json_object_get(f->plan, "having");
}

static bool apply_table(struct shown *f)
{
    return follow_table_of(f->s, f->q->t[f->at].text) < 0;
}

/* "show all of them" */
static bool apply_all(struct shown *f)
{
    if (!is_cut(f->plan))
        return false;
    json_object_del(f->plan, "offset");
    return json_object_set_new(f->plan, "limit", json_integer(PLAN_LIMIT_MAX)) == 0;
}

/* "make it 10" */
static bool apply_number(struct shown *f)
{
    if (f->number < 1 || f->number > PLAN_LIMIT_MAX || f->q->t[f->at].is_ordinal ||
        (!is_cut(f->plan) && follow_first_aggregate(f->plan) && !is_grouped(f->plan)))
        return false;
    json_object_del(f->plan, "offset");
    return json_object_set_new(f->plan, "limit", json_integer(f->number)) == 0;
}

/* "how many are there?": rows that were shown */
static bool apply_count(struct shown *f)
{
    json_t *inner = f->plan;
    const char *dataset = json_string_value(json_object_get(inner, "dataset_id"));
    if (follow_first_aggregate(inner) && !is_grouped(inner))
        return false;
    json_t *outer = json_pack("{s:s, s:O, s:[{s:s, s:s, s:s}]}", "dataset_id",
                              dataset ? dataset : "", "source", inner, "select", "func", "count",
                              "column", "*", "alias", "row_count");
    if (!outer)
        return false;
    json_object_del(inner, "dataset_id");
    json_object_del(inner, "order_by");
    if (!is_cut(inner))
        json_object_del(inner, "limit");
    json_decref(inner);
    f->plan = outer;
    return true;
}

struct rule {
    const char *keys, *others;
    bool takes_group;
    bool (*apply)(struct shown *f);
};

static const struct rule rules[] = {
    { "percent percents percentage percentages % share shares proportion proportions",
      "as in total whole relative", false, apply_share },
    { HIGH " " LOW, "overall value " ORDINALS, true, apply_rank },
    { "from", "sort sorted order ordered list to " HIGH " " LOW, false, apply_order },
    { "total overall altogether", "in all together grand sum", false, apply_total },
    { "table", "as in list", false, apply_table },
    { "all everything complete", "list result results rows full whole", true, apply_all },
    { "", "make to limit it first rows results instead lines", true, apply_number },
    { "many", "how there", false, apply_count },
};

/* Every word is one of the rule's, says nothing, or names what the rows are about. */
static bool fits(const struct rule *r, struct shown *f)
{
    int numbers = 0;
    f->at = -1;
    f->number = 0;
    for (int i = 0; i < f->q->n; i++) {
        const struct nl_token *t = &f->q->t[i];
        if (t->quoted)
            return false;
        if (is_in(t->text, r->keys)) {
            if (f->at >= 0)
                return false;
            f->at = i;
        } else if ((t->is_number || t->is_ordinal) && !str_eq(t->text, "one")) {
            f->is_ordinal = t->is_ordinal;
            f->number = (int)MIN_OF(MAX_OF(t->number, 0), 1e6);
            numbers++;
            if (!*r->keys)
                f->at = i;
        } else if (!is_in(t->text, light) && !is_in(t->text, r->others) &&
                   !(r->takes_group && names_group(f->plan, t))) {
            return false;
        }
    }
    return f->at >= 0 && numbers <= 1 &&
           (numbers == 0 || (r->apply == apply_rank && f->number < 100) || !*r->keys);
}

int follow_shown(const struct nl_schema *s, const char *question, const struct nl_context *ctx,
                 struct arena *a, struct nl_answer *ret, struct err *err)
{
    struct nl_tokens *q = arena_alloc(a, sizeof(*q));
    if (!q)
        return err_set(err, ERR_NO_MEMORY, "the question does not fit");
    int r = nl_tokenize(question, a, q, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
        struct shown f = { .s = s, .q = q, .a = a, .plan = json_deep_copy(ctx->previous_plan) };
        bool done = f.plan && fits(&rules[i], &f) && rules[i].apply(&f) && nl_is_valid(s, f.plan);
        if (!done) {
            json_decref(f.plan);
            continue;
        }
        bool table = rules[i].apply == apply_table;
        *ret = (struct nl_answer){ .status = NL_ANSWERED, .n_choices = 1, .others = FOLLOW_OTHERS };
        ret->choices[0] = (struct nl_choice){ .reading = follow_describe(f.plan, a),
                                              .plan = f.plan,
                                              .chart = table ? NULL : follow_draw(s, f.plan, ""),
                                              .probability = 1 / (1 + FOLLOW_OTHERS) };
        return 1;
    }
    return 0;
}

/* ---- pronouns ---- */

/* A pronoun with nothing before it, in its own question, that it could stand for. */
static bool has_pronoun(struct frame *f)
{
    for (int i = 0; i < f->q->n; i++) {
        for (int k = 0; k < f->m.n; k++)
            if (f->m.m[k].start <= i && f->m.m[k].kind != KIND_MARK)
                return false;
        if (!f->q->t[i].quoted &&
            is_in(f->q->t[i].text, "its their theirs his her they them those these"))
            return true;
    }
    return false;
}

/* The one column that the rows before are about; NULL: none, or more than one. */
static const json_t *group_item(const json_t *plan)
{
    const json_t *found = NULL;
    size_t i;
    json_t *item;
    if (json_array_size(json_object_get(plan, "group_by")) != 1)
        return NULL;
    json_array_foreach(json_object_get(plan, "select"), i, item)
        if (!follow_is_aggregate(item)) {
            if (found || json_object_get(item, "bucket") || !json_object_get(item, "column"))
                return NULL;
            found = item;
        }
    return found;
}

/* Keeps a plan to what the plan before showed. NULL: that cannot be said. */
static json_t *keep_to(const json_t *before, const json_t *plan, struct arena *a,
                       const char **ret_words)
{
    const char *table = json_string_value(json_object_get(before, "table"));
    const char *own = json_string_value(json_object_get(plan, "table"));
    if (!table || !own || !str_eq(table, own) || json_object_get(plan, "joins") ||
        json_object_get(before, "joins"))
        return NULL;
    json_t *kept = json_deep_copy(plan), *filters = kept ? follow_list_of(kept, "filters") : NULL;
    if (is_grouped(before) && (is_cut(before) || json_object_get(before, "having"))) {
        const json_t *item = group_item(before);
        const char *column = json_string_value(json_object_get(item, "column"));
        auto_json json_t *inner = json_deep_copy(before);
        json_object_del(inner, "dataset_id");
        json_t *in = column ? json_pack("{s:s, s:s, s:{s:O, s:[{s:s}]}}", "column", column, "op",
                                        "in", "plan", "source", inner, "select", "column",
                                        follow_name_of(item)) :
                              NULL;
        if (in && json_array_append_new(filters, in) == 0) {
            *ret_words = arena_printf(a, ", for the `%s` shown before", column);
            return kept;
        }
    } else if (json_array_size(json_object_get(before, "group_by")) == 0 && !is_cut(before) &&
               !json_object_get(before, "source") &&
               json_array_extend(filters, json_object_get(before, "filters")) == 0) {
        *ret_words = ", of the rows shown before";
        return kept;
    }
    json_decref(kept);
    return NULL;
}

bool follow_refer(const struct nl_schema *s, const char *question, const struct nl_context *ctx,
                  struct arena *a, struct nl_answer *answer)
{
    struct frame *f = NULL;
    struct err err = ERR_INIT;
    if (fr_begin(s, question, a, &f, &err) < 0 || !has_pronoun(f))
        return true;
    for (size_t i = 0; i < answer->n_choices; i++) {
        const char *words = "";
        json_t *kept = keep_to(ctx->previous_plan, answer->choices[i].plan, a, &words);
        if (!kept || !nl_is_valid(s, kept)) {
            json_decref(kept);
            return false;
        }
        json_decref(answer->choices[i].plan);
        answer->choices[i].plan = kept;
        answer->choices[i].reading = arena_printf(a, "%s%s", answer->choices[i].reading, words);
    }
    return true;
}
