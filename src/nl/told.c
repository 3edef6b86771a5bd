/*
 * What people wrote about the data. Words of a description or a unit lead to their column where
 * nothing else has them: no name, no value, no phrase of the planner, and few other descriptions. A
 * metric ("revenue: sum of amount where status is completed") is read as a question of its own when
 * a question names it; that question is then read with the plain measure in the name's place, and
 * the metric's filters are added to the plan.
 */

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/macros.h"
#include "base/str.h"
#include "nl/nl_impl.h"

#define TOLD_TEXT_BYTES 600
#define SHARED_MAX 2 /* a word in more descriptions of a table tells nothing */
#define METRIC_SURE 0.6
#define WORD_SCORE 0.7
#define MORE_SCORE 0.08 /* for each further word */

static int no_memory(struct err *err)
{
    return err_set(err, ERR_NO_MEMORY, "the schema does not fit into memory");
}

/* ---- descriptions and units ---- */

static bool is_listed(const struct nl_told *told, const char *stem)
{
    for (int i = 0; told && i < told->n; i++)
        if (str_eq(told->stems[i], stem))
            return true;
    return false;
}

int nl_schema_tell_column(struct nl_schema *s, int table, int column, const char *text,
                          struct err *err)
{
    struct nl_column *c = &s->tables[table].columns[column];
    size_t len = strlen(text);
    char *cut = arena_strndup(&s->arena, text, str_utf8_cut(text, len, TOLD_TEXT_BYTES));
    struct nl_tokens *q = arena_alloc(&s->arena, sizeof(*q));
    struct nl_told *told = arena_alloc(&s->arena, sizeof(*told));
    if (!cut || !q || !told)
        return no_memory(err);
    int r = nl_tokenize(cut, &s->arena, q, err);
    if (r < 0)
        return r;
    *told = (struct nl_told){ .n = 0 };
    for (int i = 0; i < q->n && told->n < NL_TOLD_WORDS; i++) {
        const struct nl_token *t = &q->t[i];
        if (!t->is_stop && !t->is_number && strlen(t->text) >= 2 && !is_listed(told, t->stem))
            told->stems[told->n++] = t->stem;
    }
    c->told = told;
    return 0;
}

int nl_schema_set_role(struct nl_schema *s, int table, int column, const char *role,
                       struct err *err)
{
    const char *kept = arena_strdup(&s->arena, role);
    if (!kept)
        return no_memory(err);
    s->tables[table].columns[column].role = kept;
    return 0;
}

static void take_name(json_t *taken, const struct nl_name *n)
{
    for (int i = 0; i < n->n; i++)
        json_object_set_new(taken, n->stems[i], json_true());
}

/* Stems that mean something already: of names, and of the planner's own phrases. */
static json_t *taken_stems(const struct nl_schema *s, struct arena *a)
{
    json_t *taken = json_object();
    for (int t = 0; t < s->n_tables; t++) {
        take_name(taken, &s->tables[t].words);
        for (int c = 0; c < s->tables[t].n_columns; c++)
            take_name(taken, &s->tables[t].columns[c].words);
    }
    for (size_t i = 0; i < nl_n_phrases; i++)
        for (const char *p = nl_phrases[i].words; *p;) {
            size_t n = strcspn(p, " ");
            const char *word = arena_strndup(a, p, n), *stem = word ? nl_stem(a, word) : NULL;
            if (stem)
                json_object_set_new(taken, stem, json_true());
            p += n;
            p += *p == ' ';
        }
    return taken;
}

void nl_told_finish(struct nl_schema *s)
{
    auto_arena struct arena a;
    auto_json json_t *taken = NULL;
    arena_init(&a, 1u << 20);
    for (int t = 0; t < s->n_tables; t++) {
        auto_json json_t *uses = json_object();
        const struct nl_table *x = &s->tables[t];
        for (int c = 0; c < x->n_columns; c++)
            for (int i = 0; x->columns[c].told && i < x->columns[c].told->n; i++) {
                const char *stem = x->columns[c].told->stems[i];
                json_object_set_new(
                    uses, stem, json_integer(json_integer_value(json_object_get(uses, stem)) + 1));
            }
        for (int c = 0; c < x->n_columns; c++) {
            struct nl_told *told = x->columns[c].told;
            int kept = 0;
            if (told && !taken)
                taken = taken_stems(s, &a);
            for (int i = 0; told && i < told->n; i++)
                if (json_integer_value(json_object_get(uses, told->stems[i])) <= SHARED_MAX &&
                    !json_object_get(taken, told->stems[i]) &&
                    !nl_find_value(s, told->stems[i], NULL))
                    told->stems[kept++] = told->stems[i];
            if (told)
                told->n = kept;
        }
    }
}

double nl_told_score(const struct nl_column *c, const struct nl_tokens *q, int i, int end)
{
    int words = 0;
    for (int k = i; k < end; k++) {
        bool found = false;
        for (int w = 0; w < c->told->n && !found; w++)
            found = str_eq(c->told->stems[w], q->t[k].stem);
        if (!found)
            return 0;
        words++;
    }
    return words ? MIN_OF(WORD_SCORE + MORE_SCORE * (words - 1), 0.95) : 0;
}

/* ---- metrics ---- */

int nl_schema_add_metric(struct nl_schema *s, const char *name, const char *meaning,
                         struct err *err)
{
    if (s->n_metrics == NL_METRICS_MAX)
        return 0;
    struct nl_metric *m = &s->metrics[s->n_metrics];
    *m = (struct nl_metric){ .table = -1,
                             .name = arena_strdup(&s->arena, name),
                             .meaning = arena_strdup(&s->arena, meaning) };
    if (!m->name || !m->meaning || nl_split_name(&s->arena, name, &m->words) < 0)
        return no_memory(err);
    s->n_metrics += m->words.n > 0;
    return 0;
}

static const struct {
    const char *func, *phrase, *sql;
} funcs[] = {
    { "sum", "total", "sum" },
    { "avg", "average", "avg" },
    { "avg", "average", "mean" },
    { "min", "lowest", "min" },
    { "max", "highest", "max" },
    { "median", "median", "median" },
    { "count_distinct", "number of different", NULL },
    { "count", "number of", "count" },
};

static const char *phrase_of(const char *func)
{
    for (size_t i = 0; i < ARRAY_SIZE(funcs); i++)
        if (str_eq(funcs[i].func, func))
            return funcs[i].phrase;
    return NULL;
}

/* A name in the words that a question would have for it. */
static const char *spoken(struct arena *a, const struct nl_name *n)
{
    const char *text = "";
    for (int i = 0; i < n->n && text; i++)
        text = arena_printf(a, "%s%s%s", text, i ? " " : "", n->words[i]);
    return text;
}

static int table_of(const struct nl_schema *s, const char *name)
{
    for (int t = 0; name && t < s->n_tables; t++)
        if (str_eq(s->tables[t].name, name))
            return t;
    return -1;
}

static const struct nl_column *column_of(const struct nl_schema *s, int table, const char *name)
{
    for (int c = 0; c < s->tables[table].n_columns; c++)
        if (str_eq(s->tables[table].columns[c].name, name))
            return &s->tables[table].columns[c];
    return NULL;
}

/* What a sentence asks for, if that is one figure of one table. */
static bool read_sentence(const struct nl_schema *s, const char *sentence, json_t **ret_plan)
{
    auto_arena struct arena a;
    struct nl_answer answer = { .n_choices = 0 };
    struct err ignored = ERR_INIT;
    json_t *plan = NULL;
    arena_init(&a, NL_ARENA_BYTES);
    if (nl_plan_plain(s, sentence, &a, &answer, &ignored) >= 0 && answer.n_choices > 0 &&
        answer.choices[0].probability >= METRIC_SURE)
        plan = json_incref(answer.choices[0].plan);
    nl_answer_finish(&answer);
    const json_t *items = json_object_get(plan, "select");
    bool one = json_array_size(items) == 1 && json_object_get(json_array_get(items, 0), "func") &&
               !json_object_get(plan, "joins") && !json_object_get(plan, "group_by") &&
               !json_object_get(plan, "having") && !json_object_get(plan, "order_by");
    if (!one) {
        json_decref(plan);
        return false;
    }
    *ret_plan = plan;
    return true;
}

/* Takes "sum(quantity * price) where …" apart. False: it is written in words. */
static bool split_call(struct arena *a, const char *text, const char **ret_func, char **ret_inner,
                       const char **ret_rest)
{
    size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_");
    const char *open = text + n + strspn(text + n, " ");
    int depth = 0;
    if (n == 0 || *open != '(')
        return false;
    *ret_func = NULL;
    for (size_t i = 0; i < ARRAY_SIZE(funcs); i++)
        if (funcs[i].sql && strlen(funcs[i].sql) == n && strncasecmp(funcs[i].sql, text, n) == 0)
            *ret_func = funcs[i].func;
    for (const char *p = open; *ret_func && *p; p++) {
        depth += *p == '(' ? 1 : *p == ')' ? -1 : 0;
        if (depth == 0) {
            const char *from = open + 1;
            size_t len = (size_t)(p - from);
            while (len > 0 && *from == ' ')
                from++, len--;
            while (len > 0 && from[len - 1] == ' ')
                len--;
            *ret_inner = arena_strndup(a, from, len);
            *ret_rest = p + 1;
            return *ret_inner != NULL;
        }
    }
    return false;
}

/* The first numeric column that an expression names, with its table. */
static const struct nl_column *column_in(const struct nl_schema *s, const char *expr,
                                         int *ret_table)
{
    for (const char *p = expr; *p;) {
        size_t n = 0;
        while (isalnum((unsigned char)p[n]) || p[n] == '_' || (unsigned char)p[n] >= 0x80)
            n++;
        for (int t = 0; t < s->n_tables && n > 0; t++)
            for (int c = 0; c < s->tables[t].n_columns; c++) {
                const struct nl_column *x = &s->tables[t].columns[c];
                if (strlen(x->name) == n && strncasecmp(x->name, p, n) == 0 &&
                    (x->type == TYPE_INTEGER || x->type == TYPE_NUMBER) && !x->formula) {
                    *ret_table = t;
                    return x;
                }
            }
        p += n ? n : 1;
    }
    return NULL;
}

static bool define_call(const struct nl_schema *s, struct nl_metric *m, struct arena *a)
{
    const char *func, *rest;
    char *inner;
    json_t *plan = NULL;
    if (!split_call(a, m->meaning, &func, &inner, &rest))
        return false;
    const struct nl_column *c = column_in(s, inner, &m->table);
    while (*rest == ' ')
        rest++;
    if (!c || str_eq(func, "count"))
        return false;
    if (*rest) {
        const char *asked = arena_printf(a, "how many %s %s", spoken(a, &s->tables[m->table].words),
                                         rest);
        if (!asked || !read_sentence(s, asked, &plan))
            return false;
        bool same = table_of(s, json_string_value(json_object_get(plan, "table"))) == m->table;
        m->filters = same ? json_incref(json_object_get(plan, "filters")) : NULL;
        json_decref(plan);
        if (!m->filters)
            return false;
    }
    m->func = func;
    m->column = c->name;
    m->expr = str_ieq(inner, c->name) ? NULL : inner;
    m->phrase = arena_printf(a, "%s %s", phrase_of(func), spoken(a, &c->words));
    return m->phrase != NULL;
}

static bool define_words(const struct nl_schema *s, struct nl_metric *m, struct arena *a)
{
    json_t *plan;
    if (!read_sentence(s, m->meaning, &plan))
        return false;
    const json_t *item = json_array_get(json_object_get(plan, "select"), 0);
    const char *func = json_string_value(json_object_get(item, "func")),
               *column = json_string_value(json_object_get(item, "column"));
    const char *phrase = phrase_of(func);
    m->table = table_of(s, json_string_value(json_object_get(plan, "table")));
    const struct nl_column *c = m->table >= 0 && column ? column_of(s, m->table, column) : NULL;
    bool rows = column && str_eq(column, "*");
    if (phrase && m->table >= 0 && (c || rows)) {
        m->func = arena_strdup(a, func);
        m->column = arena_strdup(a, column);
        m->phrase = arena_printf(a, "%s %s", phrase,
                                 spoken(a, rows ? &s->tables[m->table].words : &c->words));
        m->filters = json_incref(json_object_get(plan, "filters"));
    }
    json_decref(plan);
    return m->func && m->column && m->phrase;
}

/* ---- questions that name a metric ---- */

struct word {
    size_t at, len;
    const char *stem;
};

static int split_words(const char *text, struct arena *a, struct word *ret, int max)
{
    int n = 0;
    for (size_t i = 0; text[i] && n < max;) {
        size_t len = 0;
        while (isalnum((unsigned char)text[i + len]) || (unsigned char)text[i + len] >= 0x80)
            len++;
        if (len > 0) {
            char *lower = arena_strndup(a, text + i, len);
            for (char *p = lower; p && *p; p++)
                *p = (char)tolower((unsigned char)*p);
            ret[n] = (struct word){ i, len, lower ? nl_stem(a, lower) : NULL };
            if (!ret[n++].stem)
                return 0;
        }
        i += len ? len : 1;
    }
    return n;
}

static bool is_word(const char *text, const struct word *w, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strlen(list[i]) == w->len && strncasecmp(text + w->at, list[i], w->len) == 0)
            return true;
    return false;
}

const char *nl_told_rewrite(const struct nl_schema *s, const char *question, struct arena *a,
                            struct nl_metric *ret)
{
    static const char *const sums[] = { "total", "overall", "the" };
    static const char *const others[] = { "average", "mean",    "median",  "lowest",
                                          "highest", "minimum", "maximum", "min",
                                          "max",     "avg",     "least",   "greatest" };
    struct word words[NL_MAX_TOKENS];
    int n = s->n_metrics ? split_words(question, a, words, NL_MAX_TOKENS) : 0;
    const struct nl_metric *best = NULL;
    int at = 0;
    for (int m = 0; m < s->n_metrics; m++)
        for (int i = 0; i + s->metrics[m].words.n <= n; i++) {
            int k = 0;
            const struct nl_name *name = &s->metrics[m].words;
            while (k < name->n &&
                   (str_eq(words[i + k].stem, name->stems[k]) ||
                    (name->shortened[k] && str_ieq(words[i + k].stem, name->shortened[k]))))
                k++;
            if (k == s->metrics[m].words.n && (!best || k > best->words.n)) {
                best = &s->metrics[m];
                at = i;
            }
        }
    if (!best)
        return NULL;
    int from = at;
    if (from > 0 && is_word(question, &words[from - 1], others, ARRAY_SIZE(others)))
        return NULL; /* "average revenue": of what, the metric does not say */
    while (from > 0 && is_word(question, &words[from - 1], sums, ARRAY_SIZE(sums)))
        from--;
    const struct word *last = &words[at + best->words.n - 1];
    struct nl_metric m = *best;
    if (!define_call(s, &m, a) && !define_words(s, &m, a)) {
        json_decref(m.filters);
        return NULL;
    }
    const char *text = arena_printf(a, "%.*s%s%s", (int)words[from].at, question, m.phrase,
                                    question + last->at + last->len);
    *ret = m;
    return text;
}

static bool names(const json_t *name, const char *table, const char *column, bool *ret_qualified)
{
    const char *text = json_string_value(name);
    size_t n = strlen(table);
    if (!text)
        return false;
    *ret_qualified = strncmp(text, table, n) == 0 && text[n] == '.';
    return str_eq(*ret_qualified ? text + n + 1 : text, column);
}

/* The filters with their columns said as the plan says columns. */
static void qualify(json_t *filter, const char *table)
{
    size_t i;
    json_t *child, *column = json_object_get(filter, "column");
    const char *key;
    if (json_is_string(column) && !strchr(json_string_value(column), '.'))
        json_object_set_new(filter, "column",
                            json_sprintf("%s.%s", table, json_string_value(column)));
    json_object_foreach(filter, key, child) {
        json_t *one;
        if (json_is_array(child))
            json_array_foreach(child, i, one)
                qualify(one, table);
        else if (json_is_object(child))
            qualify(child, table);
    }
}

/* False: this plan does not use the metric's measure. */
static bool add_to_plan(const struct nl_schema *s, const struct nl_metric *m, json_t *plan)
{
    const char *table = s->tables[m->table].name;
    json_t *items = json_object_get(plan, "select"), *item,
           *filters = json_object_get(plan, "filters");
    bool found = false, joined = json_object_get(plan, "joins") != NULL;
    size_t i;
    json_array_foreach(items, i, item) {
        bool qualified = false, rows = str_eq(m->column, "*");
        if (!str_eq(json_string_value(json_object_get(item, "func")) ?: "", m->func))
            continue;
        if (rows ?
                !str_eq(json_string_value(json_object_get(plan, "table")) ?: "", table) || joined :
                !names(json_object_get(item, "column"), table, m->column, &qualified))
            continue;
        found = true;
        if (m->expr) {
            json_object_del(item, "column");
            json_object_set_new(item, "expr", json_string(m->expr));
        }
    }
    if (!found || (joined && m->expr))
        return false;
    auto_json json_t *own = json_deep_copy(m->filters);
    json_array_foreach(own, i, item)
        if (joined)
            qualify(item, table);
    if (json_array_size(own) > 0 && filters)
        json_array_extend(filters, own);
    else if (json_array_size(own) > 0)
        json_object_set(plan, "filters", own);
    return nl_is_valid(s, plan);
}

void nl_told_apply(const struct nl_schema *s, const struct nl_metric *m, struct arena *a,
                   struct nl_answer *answer)
{
    size_t kept = 0;
    for (size_t i = 0; i < answer->n_choices; i++) {
        struct nl_choice c = answer->choices[i];
        json_t *plan = json_deep_copy(c.plan);
        const char *reading = arena_printf(a, "%s (%s: %s)", c.reading, m->name, m->meaning);
        json_decref(c.plan);
        c.plan = plan;
        if (!plan || !reading || !add_to_plan(s, m, plan)) {
            json_decref(plan);
            json_decref(c.chart);
            continue;
        }
        c.reading = reading;
        answer->choices[kept++] = c;
    }
    answer->n_choices = kept;
}
