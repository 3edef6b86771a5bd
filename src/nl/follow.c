/*
 * Questions that lean on the one before: "and by region?", "only the returned ones", "as a chart",
 * "top 3 instead". The words are read like any others, over the tables of the previous plan, and
 * what they say is put into a copy of it. A question that stands on its own, and one with words
 * that mean nothing here, is left to the ordinary way.
 */

#include <string.h>

#include "base/macros.h"
#include "base/str.h"
#include "nl/follow.h"
#include "nl/shape.h"

struct follow {
    const struct nl_schema *s;
    struct arena *a;
    struct nl_scope scope;
    struct nl_tokens *words; /* those that say something, without the ones that only lean */
    struct nl_mentions mentions;
    struct nl_candidate read;
    json_t *plan;     /* the copy */
    const char *mark; /* of the chart that is wanted; "": any; NULL: none */
    bool adds;        /* "also by" */
    bool changed;
    int content; /* words that mean something */
};

/* ---- does it lean? ---- */

static const char *chart_word(const char *w)
{
    static const char *const kinds[][2] = { { "bar", "bar" },       { "bars", "bar" },
                                            { "column", "bar" },    { "line", "line" },
                                            { "pie", "arc" },       { "donut", "arc" },
                                            { "scatter", "point" }, { "area", "area" },
                                            { "histogram", "bar" } };
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
        if (str_eq(kinds[i][0], w))
            return kinds[i][1];
    return NULL;
}

static bool is_chart(const char *w)
{
    return ONE_OF(w, "chart", "graph", "plot", "diagram", "histogram", "picture", "figure",
                  "visualize", "visualise", "draw");
}

/*
 * Takes out what only says that this goes on from before. False if the question stands on its own.
 */
static bool strip(const struct nl_tokens *q, struct follow *f)
{
    bool leans = false;
    int i = 0;
    f->words->n = 0;
    while (i < q->n && ONE_OF(q->t[i].text, "and", "also", "now", "but", "then", "ok", "okay",
                              "please", "no", "so")) {
        leans = true;
        f->adds |= str_eq(q->t[i].text, "also");
        i++;
    }
    if (i + 1 < q->n && ONE_OF(q->t[i].text, "what", "how") && str_eq(q->t[i + 1].text, "about")) {
        leans = true;
        i += 1; /* "about" stays: "about March" */
    } else if (i < q->n && ONE_OF(q->t[i].text, "what", "which", "who", "how", "when", "where",
                                  "whose", "is", "are", "does", "do", "did", "list")) {
        return false;
    }
    /* Fragments: no subject and no verb of their own. */
    leans |= i < q->n && ONE_OF(q->t[i].text, "only", "just", "without", "except", "excluding",
                                "exclude", "as", "by", "per", "sort", "sorted", "order", "ordered",
                                "same", "make", "split", "for", "in", "since", "before", "after",
                                "until", "group", "grouped", "limit", "ascending", "descending",
                                "reverse", "remove", "drop", "leave", "break", "drill");
    f->adds |= i < q->n && ONE_OF(q->t[i].text, "split", "break", "drill", "add");
    for (; i < q->n; i++) {
        const struct nl_token *t = &q->t[i];
        const char *kind = t->quoted ? NULL : chart_word(t->text);
        if (kind && i + 1 < q->n && is_chart(q->t[i + 1].text))
            f->mark = kind;
        else if (!t->quoted && is_chart(t->text))
            f->mark = f->mark && *f->mark ? f->mark : kind ? kind : "";
        else if (!t->quoted && ONE_OF(t->text, "instead", "ones", "those", "them", "it", "that",
                                      "same", "again", "only", "please"))
            leans |= !str_eq(t->text, "that");
        else
            f->words->t[f->words->n++] = *t;
    }
    if (leans && !f->mark && f->words->n == 1 && chart_word(f->words->t[0].text)) { /* "now bars" */
        f->mark = chart_word(f->words->t[0].text);
        f->words->n = 0;
    }
    for (int k = 0; k < f->words->n; k++)
        f->content += !f->words->t[k].is_stop;
    leans |= f->mark && f->content == 0;
    /* "top 3" */
    leans |= f->words->n <= 3 && f->words->n >= 2 &&
             ONE_OF(f->words->t[f->words->n - 2].text, "top", "bottom") &&
             f->words->t[f->words->n - 1].is_number;
    return leans && (f->words->n > 0 || f->mark);
}

/* "remove the filter", "without filters", "all of them again" */
static bool drops_filters(const struct nl_tokens *q)
{
    bool filter = false, drop = false, again = false, all = false;
    for (int i = 0; i < q->n; i++) {
        filter |= ONE_OF(q->t[i].text, "filter", "filters", "condition", "conditions");
        drop |= ONE_OF(q->t[i].text, "remove", "drop", "clear", "without", "reset", "no");
        again |= str_eq(q->t[i].text, "again");
        all |= str_eq(q->t[i].text, "all");
    }
    return q->n <= 6 && ((filter && drop) || (all && again));
}

static bool find_scope(struct follow *f)
{
    const json_t *joins = json_object_get(f->plan, "joins");
    int t = follow_table_of(f->s, json_string_value(json_object_get(f->plan, "table")));
    if (t < 0 || json_array_size(joins) > 1)
        return false;
    f->scope = (struct nl_scope){ .tables = { t }, .n = 1 };
    if (json_array_size(joins) == 0)
        return true;
    int other = follow_table_of(
        f->s, json_string_value(json_object_get(json_array_get(joins, 0), "table")));
    f->scope.tables[1] = other;
    f->scope.n = 2;
    for (int i = 0; i < f->s->n_keys && other >= 0; i++) {
        const struct nl_link_key *k = &f->s->keys[i];
        if ((k->from_table == t && k->to_table == other) ||
            (k->from_table == other && k->to_table == t))
            f->scope.keys[1] = k;
    }
    return f->scope.keys[1] != NULL;
}

/* ---- the plan before ---- */

static bool has_mark(const struct follow *f, enum nl_mark mark)
{
    for (int i = 0; i < f->mentions.n; i++)
        if (f->mentions.m[i].kind == KIND_MARK && f->mentions.m[i].mark == mark)
            return true;
    return false;
}

/* ---- changes ---- */

static bool narrows(const json_t *filter)
{
    const char *op = json_string_value(json_object_get(filter, "op"));
    return op && !str_eq(op, "!=") && !str_eq(op, "not_in") && !json_object_get(filter, "not");
}

static void put_filters(struct follow *f)
{
    struct nl_reading *r = &f->read.reading;
    auto_json json_t *fresh = json_array();
    size_t i;
    json_t *filter;
    for (int k = 0; k < f->mentions.n && !has_mark(f, MARK_BY) && !has_mark(f, MARK_GROUP);
         k++) { /* "only the returned ones" */
        const struct nl_mention *m = &f->mentions.m[k];
        bool known = m->kind != KIND_COLUMN || !nl_col(f->s, m->ref)->is_flag ||
                     r->n_filters == NL_MAX_FILTERS;
        for (int n = 0; n < r->n_filters; n++)
            known |= same_ref(r->filters[n].ref, m->ref);
        if (!known)
            r->filters[r->n_filters++] = (struct nl_filter){
                .ref = m->ref,
                .op = FILTER_EQ,
                .having = -1,
                .n_texts = 1,
                .text = { k > 0 && nl_is_mark(m - 1, MARK_NOT) ? "false" : "true" }
            };
    }
    for (int k = 0; k < r->n_filters; k++)
        if (r->filters[k].having < 0)
            json_array_append_new(fresh, nl_filter_json(f->s, r, &r->filters[k], f->a));
    if (json_array_size(fresh) == 0)
        return;
    json_t *list = follow_list_of(f->plan, "filters");
    /* Another value of the same column takes the place of the one before. */
    json_array_foreach(fresh, i, filter) {
        const char *subject = follow_filter_subject(filter);
        for (size_t k = json_array_size(list); k-- > 0 && narrows(filter);) {
            const char *old = follow_filter_subject(json_array_get(list, k));
            if (old && subject && str_ieq(old, subject) && narrows(json_array_get(list, k)))
                json_array_remove(list, k);
        }
    }
    json_array_extend(list, fresh);
    f->changed = true;
}

static void put_group(struct follow *f)
{
    struct nl_reading *r = &f->read.reading;
    struct nl_item items[ARRAY_SIZE(r->group)];
    int n = 0;
    for (int k = 0; k < r->n_group; k++)
        items[n++] = r->group[k];
    for (int k = 0; n == 0 && k < r->n_select && n < (int)ARRAY_SIZE(items);
         k++) /* "each region" */
        if (r->select[k].func < 0 && has_mark(f, MARK_GROUP))
            items[n++] = r->select[k];
    if (n == 0 ||
        !(has_mark(f, MARK_BY) || has_mark(f, MARK_GROUP) || has_mark(f, MARK_BUCKET) ||
          has_mark(f, MARK_TREND)) ||
        has_mark(f, MARK_ORDER))
        return;
    const json_t *old = json_object_get(f->plan, "select");
    json_t *select = json_array(), *group = json_array(), *item;
    size_t i;
    bool timed = false;
    json_array_foreach(old, i, item)
        if (f->adds && !follow_is_aggregate(item)) {
            json_array_append(select, item);
            json_array_append_new(group, json_string(follow_name_of(item)));
        }
    for (int k = 0; k < n; k++) {
        json_t *j = nl_item_json(f->s, r, &items[k], f->a);
        if (!j)
            continue;
        json_array_append_new(group, json_string(follow_name_of(j)));
        json_array_append_new(select, j);
        timed |= items[k].bucket >= 0;
    }
    bool any = false;
    json_array_foreach(old, i, item)
        if (follow_is_aggregate(item)) {
            json_array_append(select, item);
            any = true;
        }
    if (!any)
        json_array_append_new(select, json_pack("{s:s, s:s, s:s}", "func", "count", "column", "*",
                                                "alias", "row_count"));
    json_object_set_new(f->plan, "select", select);
    json_object_set_new(f->plan, "group_by", group);
    json_object_del(f->plan, "distinct");
    /* One value of what is grouped by now would leave one group. */
    json_t *filters = json_object_get(f->plan, "filters");
    for (size_t k = json_array_size(filters); k-- > 0;) {
        const json_t *filter = json_array_get(filters, k);
        const char *subject = follow_filter_subject(filter);
        bool one = str_eq(json_string_value(json_object_get(filter, "op")), "=");
        json_array_foreach(group, i, item)
            if (one && subject && str_eq(subject, json_string_value(item))) {
                json_array_remove(filters, k);
                break;
            }
    }
    /* An order by what is no longer there goes. */
    json_t *order = follow_list_of(f->plan, "order_by");
    for (size_t k = json_array_size(order); k-- > 0;) {
        const char *e = json_string_value(json_object_get(json_array_get(order, k), "expr"));
        bool there = false;
        json_array_foreach(select, i, item)
            there |= e && follow_name_of(item) && str_ieq(follow_name_of(item), e) &&
                     follow_is_aggregate(item);
        if (!there || timed)
            json_array_remove(order, k);
    }
    if (timed)
        json_array_append_new(
            order, json_pack("{s:s}", "expr", follow_name_of(json_array_get(select, 0))));
    if (json_array_size(order) == 0) {
        json_object_del(f->plan, "order_by");
        json_object_set_new(f->plan, "limit", json_integer(PLAN_LIMIT_MAX));
    }
    f->changed = true;
}

/* "and the average?": another function of the same number, or of one that is named. */
static void put_aggregate(struct follow *f)
{
    const struct nl_reading *r = &f->read.reading;
    int func = -1;
    for (int i = 0; i < f->mentions.n; i++) {
        const struct nl_mention *m = &f->mentions.m[i];
        if (nl_is_mark(m, MARK_AGG))
            func = m->arg;
        else if (nl_is_mark(m, MARK_SUPER))
            func = m->arg > 0 ? FUNC_MAX : FUNC_MIN;
        else if (nl_is_mark(m, MARK_COUNT))
            func = FUNC_COUNT;
    }
    if (func < 0 || has_mark(f, MARK_ORDER) || has_mark(f, MARK_TOP))
        return;
    struct nl_ref ref = { -1, -1 };
    for (int i = 0; i < f->mentions.n && func != FUNC_COUNT; i++) {
        const struct nl_mention *m = &f->mentions.m[i];
        if (m->kind == KIND_COLUMN && nl_col(f->s, m->ref)->is_numeric &&
            !nl_col(f->s, m->ref)->is_id)
            ref = m->ref;
    }
    const json_t *was = follow_first_aggregate(f->plan);
    const char *column = json_string_value(json_object_get(was, "column"));
    json_t *item = NULL;
    if (ref.table < 0 && func != FUNC_COUNT && was && column && !str_eq(column, "*")) {
        const char *dot = strrchr(column, '.');
        item = json_pack("{s:s, s:s, s:s}", "func", plan_func_names[func], "column", column,
                         "alias", nl_func_alias(func, dot ? dot + 1 : column, f->a));
    } else if (ref.table < 0 && func != FUNC_COUNT && was && json_object_get(was, "func") &&
               json_object_get(was, "expr")) {
        item = json_deep_copy(was);
        json_object_set_new(item, "func", json_string(plan_func_names[func]));
        json_object_set_new(item, "alias",
                            json_string(arena_printf(f->a, "%s_value", plan_func_names[func])));
    } else {
        if (ref.table < 0 && func != FUNC_COUNT && !nl_main_measure(f->s, f->scope.tables[0], &ref))
            return;
        item = nl_item_json(f->s, r, &(struct nl_item){ .ref = ref, .func = func, .bucket = -1 },
                            f->a);
    }
    if (!item)
        return;
    const json_t *old = json_object_get(f->plan, "select");
    json_t *select = json_array(), *x;
    size_t i;
    json_array_foreach(old, i, x)
        if (!follow_is_aggregate(x) && json_array_size(json_object_get(f->plan, "group_by")) > 0)
            json_array_append(select, x);
    const char *before = was ? follow_name_of(was) : NULL;
    json_array_foreach(json_object_get(f->plan, "order_by"), i, x)
        if (before && str_eq(json_string_value(json_object_get(x, "expr")), before))
            json_object_set(x, "expr", json_object_get(item, "alias"));
    json_array_append_new(select, item);
    json_object_set_new(f->plan, "select", select);
    json_object_del(f->plan, "having");
    json_object_del(f->plan, "distinct");
    f->changed = true;
}

/* What is shown of this column, or the column itself. */
static const char *order_name(struct follow *f, const struct nl_item *o)
{
    const char *column = o->ref.table >= 0 ? nl_col(f->s, o->ref)->name : "*";
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(f->plan, "select"), i, item) {
        const char *of = json_string_value(json_object_get(item, "column")),
                   *dot = of ? strrchr(of, '.') : NULL;
        if (of && str_ieq(dot ? dot + 1 : of, column))
            return follow_name_of(item);
    }
    if (o->ref.table < 0)
        return follow_first_aggregate(f->plan) ? follow_name_of(follow_first_aggregate(f->plan)) :
                                                 NULL;
    return follow_first_aggregate(f->plan) ? NULL : column;
}

static void put_order(struct follow *f)
{
    const struct nl_reading *r = &f->read.reading;
    if (!has_mark(f, MARK_ORDER) && !has_mark(f, MARK_ASC) && !has_mark(f, MARK_DESC) &&
        !has_mark(f, MARK_ALPHA))
        return;
    const char *name = NULL;
    int dir = has_mark(f, MARK_DESC) ? -1 : 1;
    for (int i = 0; i < r->n_order && !name; i++) {
        bool named = false;
        for (int k = 0; k < f->mentions.n; k++)
            named |= f->mentions.m[k].kind == KIND_COLUMN &&
                     same_ref(f->mentions.m[k].ref, r->order[i].ref);
        name = named || r->order[i].func == FUNC_COUNT ? order_name(f, &r->order[i]) : NULL;
        dir = r->order_dir[i];
    }
    if (!name) {
        const json_t *was = json_array_get(json_object_get(f->plan, "order_by"), 0),
                     *a = follow_first_aggregate(f->plan);
        name = json_string_value(json_object_get(was, "expr"));
        if (!name && a)
            name = follow_name_of(a);
    }
    if (!name)
        return;
    const char *kept = arena_strdup(f->a, name);
    json_object_set_new(
        f->plan, "order_by",
        json_pack("[{s:s, s:s}]", "expr", kept, "direction", dir < 0 ? "desc" : "asc"));
    f->changed = true;
}

static void put_limit(struct follow *f)
{
    int top = 0, n = 0;
    for (int i = 0; i < f->mentions.n; i++) {
        const struct nl_mention *m = &f->mentions.m[i],
                                *next = i + 1 < f->mentions.n ? m + 1 : NULL;
        bool few = nl_is_mark(m, MARK_TOP) || nl_is_mark(m, MARK_LAST);
        if (few && next && next->kind == KIND_NUMBER && next->start == m->end &&
            next->number >= 1 && next->number <= PLAN_LIMIT_MAX) {
            bool unit = next + 1 < f->mentions.m + f->mentions.n &&
                        nl_is_mark(next + 1, MARK_BUCKET);
            if (unit)
                continue; /* "last 30 days" */
            top = nl_is_mark(m, MARK_TOP) ? m->arg : 1;
            n = (int)next->number;
        }
    }
    if (n == 0)
        return;
    json_object_set_new(f->plan, "limit", json_integer(n));
    json_t *order = json_object_get(f->plan, "order_by");
    const json_t *a = follow_first_aggregate(f->plan);
    if (json_array_size(order) == 0 && a)
        json_object_set_new(f->plan, "order_by",
                            json_pack("[{s:s, s:s}]", "expr", follow_name_of(a), "direction",
                                      top < 0 ? "asc" : "desc"));
    else if (top < 0 && json_array_size(order) > 0)
        json_object_set_new(json_array_get(order, 0), "direction", json_string("asc"));
    f->changed = true;
}

/* Every word has to have had its part. */
static bool understood(struct follow *f)
{
    bool covered[NL_MAX_TOKENS] = { false };
    for (int i = 0; i < f->mentions.n; i++)
        for (int k = f->mentions.m[i].start; k < f->mentions.m[i].end; k++)
            covered[k] = true;
    for (int i = 0; i < f->words->n; i++)
        if (!covered[i] && !f->words->t[i].is_stop &&
            !ONE_OF(f->words->t[i].text, "exclude", "remove", "drop", "leave", "split", "make",
                    "group", "limit", "break", "drill", "down", "add"))
            return false;
    return true;
}

int nl_follow(const struct nl_schema *s, const char *question, const struct nl_context *ctx,
              struct arena *a, struct nl_answer *ret, struct err *err)
{
    struct follow *f = arena_alloc(a, sizeof(*f));
    struct nl_tokens *q = arena_alloc(a, sizeof(*q));
    double said[NL_MAX_TABLES] = { 0 };
    if (!f || !q)
        return err_set(err, ERR_NO_MEMORY, "the question does not fit");
    *f = (struct follow){ .s = s, .a = a, .words = arena_alloc(a, sizeof(*f->words)) };
    if (!f->words)
        return err_set(err, ERR_NO_MEMORY, "the question does not fit");
    int r = nl_tokenize(question, a, q, err);
    if (r < 0)
        return r;
    nl_prefer_names(s, q);
    bool unfiltered = json_is_object(ctx->previous_plan) && drops_filters(q);
    if (!json_is_object(ctx->previous_plan) || (!unfiltered && !strip(q, f)))
        return 0;
    f->plan = json_deep_copy(ctx->previous_plan);
    if (f->plan && unfiltered) {
        f->changed = json_object_del(f->plan, "filters") == 0 && find_scope(f);
        f->words->n = 0;
    } else if (f->plan && find_scope(f)) {
        r = nl_link(s, &f->scope, f->words, a, &f->mentions, err);
        int found = r < 0 ? r :
                            nl_read(s, &f->scope, f->words, VARIANT_FRAGMENT, &f->mentions, said, a,
                                    &f->read, err);
        r = found < 0 ? found : 0;
        if (r == 0 && understood(f)) {
            put_filters(f);
            put_group(f);
            put_aggregate(f);
            put_order(f);
            put_limit(f);
        }
    }
    json_t *chart = r == 0 && f->plan && (f->changed || (f->mark && f->content == 0)) ?
                        follow_draw(f->s, f->plan, f->mark) :
                        NULL;
    /* A chart of what has none is no answer. */
    bool done = r == 0 && (f->changed || chart) && !(f->mark && !chart) && understood(f) &&
                nl_is_valid(f->s, f->plan);
    if (!done) {
        json_decref(f->plan);
        json_decref(chart);
        /* "in 2023, how many …" may stand on its own */
        bool may_stand = ONE_OF(q->t[0].text, "in", "for", "since", "before", "after", "until");
        return r < 0 || may_stand ? r : NL_FOLLOW_UNREAD;
    }
    *ret = (struct nl_answer){ .status = NL_ANSWERED, .n_choices = 1, .others = FOLLOW_OTHERS };
    ret->choices[0] = (struct nl_choice){ .reading = follow_describe(f->plan, a),
                                          .plan = f->plan,
                                          .chart = chart,
                                          .score = 0,
                                          .probability = 1 / (1 + FOLLOW_OTHERS) };
    return 1;
}
