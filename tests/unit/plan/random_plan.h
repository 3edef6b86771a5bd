#ifndef RIDDLE_TESTS_UNIT_PLAN_RANDOM_PLAN_H
#define RIDDLE_TESTS_UNIT_PLAN_RANDOM_PLAN_H

/*
 * Random plans over the tables of tests/golden/registry.json that are right by construction:
 * expressions are built by type, names are those of the tables, what is shown is grouped by. One
 * seed, one plan.
 */

#include "plan/golden.h"

static void put_name(struct buf *b, const char *name)
{
    struct err err = ERR_INIT;

    assert_works(buf_append_str(b, "\"", &err), &err);
    for (const char *s = name; *s; s++)
        assert_works(buf_append_str(b, *s == '"' ? "\"\"" : (char[]){ *s, '\0' }, &err), &err);
    assert_works(buf_append_str(b, "\"", &err), &err);
}

struct column {
    char name[80]; /* as a plan may write it */
    char in_expr[100];
    enum plan_type type;
};

struct generator {
    uint64_t state;
    struct column columns[64];
    size_t n_columns;
};

static unsigned pick(struct generator *g, unsigned n)
{
    g->state ^= g->state << 13;
    g->state ^= g->state >> 7;
    g->state ^= g->state << 17;
    return (unsigned)((g->state >> 16) % n);
}

static bool chance(struct generator *g, unsigned percent)
{
    return pick(g, 100) < percent;
}

static bool fits(enum plan_type wanted, enum plan_type t)
{
    return wanted == TYPE_UNKNOWN || t == wanted || (wanted == TYPE_NUMBER && t == TYPE_INTEGER) ||
           (wanted == TYPE_DATE && t == TYPE_TIMESTAMP);
}

/*
 * A column of the type, NULL if the tables have none. UNKNOWN: of any, NUMBER: also an integer,
 * DATE: also a timestamp.
 */
static const struct column *pick_column(struct generator *g, enum plan_type wanted)
{
    size_t from = pick(g, (unsigned)g->n_columns);

    for (size_t i = 0; i < g->n_columns; i++) {
        const struct column *c = &g->columns[(from + i) % g->n_columns];
        if (fits(wanted, c->type))
            return c;
    }
    return NULL;
}

static const char *pick_word(struct generator *g)
{
    static const char *const words[] = { "completed", "50%_", "it''s", "",     "Toys",
                                         "\\",        "--",   "/* x",  "ü; \"" };
    return words[pick(g, ARRAY_SIZE(words))];
}

static void put(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);

static void put(struct buf *b, const char *fmt, ...)
{
    char text[300];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    assert_int_equal(buf_append_str(b, text, NULL), 0);
}

static void put_random(struct generator *g, struct buf *b, enum plan_type type, int depth);

static void put_leaf(struct generator *g, struct buf *b, enum plan_type type)
{
    const struct column *c = chance(g, 75) ? pick_column(g, type) : NULL;

    if (c)
        put(b, "%s", c->in_expr);
    else if (type == TYPE_TEXT)
        put(b, "'%s'", pick_word(g));
    else if (type == TYPE_DATE)
        put(b, "cast('2025-%02u-11' as date)", pick(g, 12) + 1);
    else if (type == TYPE_BOOL)
        put(b, chance(g, 50) ? "true" : "false");
    else if (type == TYPE_INTEGER || chance(g, 50))
        put(b, "%u", pick(g, 9) + 1);
    else
        put(b, "%u.%u", pick(g, 9), pick(g, 100));
}

/* "f(…)" with arguments of the types that follow, '%' in `form` for each. */
static void put_form(struct generator *g, struct buf *b, int depth, const char *form,
                     const enum plan_type *types)
{
    for (const char *s = form; *s; s++) {
        if (*s == '@')
            put_random(g, b, *types++, depth - 1);
        else
            assert_int_equal(buf_append(b, s, 1, NULL), 0);
    }
}

#define FORM(form, ...)                                                                            \
    put_form(g, b, depth, form, (const enum plan_type[]){ __VA_ARGS__, TYPE_UNKNOWN })
#define N TYPE_NUMBER
#define T TYPE_TEXT
#define D TYPE_DATE
#define B TYPE_BOOL

/*
 * Divisors are never zero and factors are small: what overflows at run time is no question of the
 * compiler.
 */
static void put_number(struct generator *g, struct buf *b, int depth)
{
    switch (pick(g, 16)) {
    case 0:
        FORM("(@ + @)", N, N);
        return;
    case 1:
        FORM("@ - (@ - @)", N, N, N);
        return;
    case 2:
        FORM("(@) * 2", N);
        return;
    case 3:
        FORM("(@) / (1 + abs(@))", N, N);
        return;
    case 4:
        FORM("round(@, 1) % 7", N);
        return;
    case 5:
        FORM("-(-(@))", N);
        return;
    case 6:
        FORM("coalesce(@, @, 0)", N, N);
        return;
    case 7:
        FORM("case when @ then @ when @ then @ else @ end", B, N, B, N, N);
        return;
    case 8:
        FORM("length(@)", T);
        return;
    case 9:
        FORM("year(@) - month(@)", D, D);
        return;
    case 10:
        FORM("date_diff('day', @, @)", D, D);
        return;
    case 11:
        FORM("greatest(@, @)", N, N);
        return;
    case 12:
        FORM("nullif(@, @)", N, N);
        return;
    case 13:
        FORM("sqrt(abs(@)) + ln(1 + abs(@)) - ceil(@)", N, N, N);
        return;
    case 14:
        FORM("cast(@ as integer)", T);
        return;
    default:
        FORM("sign(@)", N);
    }
}

static void put_text(struct generator *g, struct buf *b, int depth)
{
    switch (pick(g, 9)) {
    case 0:
        FORM("@ || @", T, N);
        return;
    case 1:
        FORM("upper(trim(@))", T);
        return;
    case 2:
        FORM("substr(@, 1, 3)", T);
        return;
    case 3:
        FORM("replace(@, 'a', @)", T, T);
        return;
    case 4:
        FORM("case when @ then @ end", B, T);
        return;
    case 5:
        FORM("cast(@ as text)", D);
        return;
    case 6:
        FORM("coalesce(@, 'x')", T);
        return;
    case 7:
        FORM("dayname(@)", D);
        return;
    default:
        FORM("concat(@, @, @)", N, T, B);
    }
}

static void put_bool(struct generator *g, struct buf *b, int depth)
{
    switch (pick(g, 12)) {
    case 0:
        FORM("@ < @", N, N);
        return;
    case 1:
        FORM("(@ and @)", B, B);
        return;
    case 2:
        FORM("@ or not @", B, B);
        return;
    case 3:
        FORM("@ is not null", T);
        return;
    case 4:
        FORM("@ in ('a', @)", T, T);
        return;
    case 5:
        FORM("@ not between 1 and @", N, N);
        return;
    case 6:
        FORM("@ like '%e_'", T);
        return;
    case 7:
        FORM("@ >= '2025-03-01'", D);
        return;
    case 8:
        FORM("starts_with(@, @)", T, T);
        return;
    case 9:
        FORM("(@) = (@)", B, B);
        return;
    case 10:
        FORM("not (@)", B);
        return;
    default:
        FORM("@ != @", T, T);
    }
}

static void put_date(struct generator *g, struct buf *b, int depth)
{
    switch (pick(g, 4)) {
    case 0:
        FORM("date_trunc('month', @)", D);
        return;
    case 1:
        FORM("date_add('week', -3, @)", D);
        return;
    case 2:
        FORM("last_day(@)", D);
        return;
    default:
        FORM("coalesce(@, @)", D, D);
    }
}

static void put_random(struct generator *g, struct buf *b, enum plan_type type, int depth)
{
    /* Parentheses, so that the form around it need not know how tightly this one binds. */
    if (depth <= 0 || b->len > 2000 || chance(g, 30)) {
        put_leaf(g, b, type);
        return;
    }
    put(b, "(");
    if (type == TYPE_TEXT)
        put_text(g, b, depth);
    else if (type == TYPE_BOOL)
        put_bool(g, b, depth);
    else if (type == TYPE_DATE)
        put_date(g, b, depth);
    else
        put_number(g, b, depth);
    put(b, ")");
}

static json_t *random_expr(struct generator *g, enum plan_type type)
{
    auto_buf struct buf b = BUF_INIT(EXPR_MAX_BYTES * 2);

    do {
        buf_clear(&b);
        put_random(g, &b, type, (int)pick(g, 4));
    } while (b.len > EXPR_MAX_BYTES);
    return json_string(buf_cstr(&b));
}

static enum plan_type random_type(struct generator *g)
{
    static const enum plan_type types[] = { N, T, D, B };
    return types[pick(g, ARRAY_SIZE(types))];
}

#undef N
#undef T
#undef D
#undef B

static json_t *random_value(struct generator *g, enum plan_type type)
{
    char text[64];

    switch (type) {
    case TYPE_INTEGER:
        return json_integer((json_int_t)pick(g, 20) - 5);
    case TYPE_NUMBER:
        return chance(g, 50) ? json_integer(pick(g, 100)) : json_real(pick(g, 1000) / 8.0 - 20);
    case TYPE_BOOL:
        return json_boolean(chance(g, 50));
    case TYPE_TEXT:
        return json_string(pick_word(g));
    default:
        snprintf(text, sizeof(text), "2025-%02u-%02u%s", pick(g, 12) + 1, pick(g, 28) + 1,
                 chance(g, 30) ? " 10:30:00" : "");
        return json_string(text);
    }
}

static json_t *random_list(struct generator *g, enum plan_type type, unsigned n)
{
    json_t *list = json_array();

    for (unsigned i = 0; i < n; i++)
        json_array_append_new(list, random_value(g, type));
    return list;
}

/* The op and the value of a condition on something of the type. */
static void random_op(struct generator *g, json_t *f, enum plan_type type)
{
    static const char *const compare[] = { "=", "!=", "<", "<=", ">", ">=" };
    static const char *const patterns[] = { "contains", "not_contains", "startswith", "endswith" };

    switch (pick(g, 6)) {
    case 0:
        json_object_set_new(f, "op", json_string(chance(g, 50) ? "is_null" : "is_not_null"));
        return;
    case 1:
        json_object_set_new(f, "op", json_string(chance(g, 50) ? "in" : "not_in"));
        json_object_set_new(f, "value", random_list(g, type, pick(g, 4) + 1));
        return;
    case 2:
        json_object_set_new(f, "op", json_string("between"));
        json_object_set_new(f, "value", random_list(g, type, 2));
        return;
    case 3:
        json_object_set_new(f, "op", json_string(patterns[pick(g, ARRAY_SIZE(patterns))]));
        json_object_set_new(f, "value", random_value(g, TYPE_TEXT));
        if (chance(g, 30))
            json_object_set_new(f, "ignore_case", json_true());
        return;
    default:
        json_object_set_new(f, "op", json_string(compare[pick(g, ARRAY_SIZE(compare))]));
        json_object_set_new(f, "value", random_value(g, type));
        return;
    }
}

static json_t *random_filter(struct generator *g, int depth)
{
    json_t *f = json_object();

    if (depth > 0 && chance(g, 30)) {
        static const char *const groups[] = { "and", "or" };
        if (chance(g, 30)) {
            json_object_set_new(f, "not", random_filter(g, depth - 1));
            return f;
        }
        json_t *list = json_array();
        for (unsigned i = pick(g, 3) + 1; i > 0; i--)
            json_array_append_new(list, random_filter(g, depth - 1));
        json_object_set_new(f, groups[pick(g, 2)], list);
        return f;
    }
    if (chance(g, 20)) {
        json_object_set_new(f, "expr", random_expr(g, TYPE_BOOL));
        return f;
    }
    if (chance(g, 30)) {
        enum plan_type type = random_type(g);
        json_object_set_new(f, "expr", random_expr(g, type));
        random_op(g, f, type);
        return f;
    }
    const struct column *c = pick_column(g, TYPE_UNKNOWN);
    json_object_set_new(f, "column", json_string(c->name));
    random_op(g, f, c->type);
    return f;
}

static json_t *item_of(json_t *list, const char *key, json_t *value, const char *prefix)
{
    json_t *item = json_object();
    char alias[32];

    json_object_set_new(item, key, value);
    if (prefix) {
        snprintf(alias, sizeof(alias), "%s%zu", prefix, json_array_size(list));
        json_object_set_new(item, "alias", json_string(alias));
    }
    json_array_append_new(list, item);
    return item;
}

static void random_order(struct generator *g, json_t *list, const char *expr)
{
    json_t *o = json_object();

    json_object_set_new(o, "expr", json_string(expr));
    if (chance(g, 60))
        json_object_set_new(o, "direction", json_string(chance(g, 50) ? "asc" : "desc"));
    if (chance(g, 30))
        json_object_set_new(o, "nulls", json_string(chance(g, 50) ? "first" : "last"));
    json_array_append_new(list, o);
}

static const char *alias_of(const json_t *item)
{
    return json_string_value(json_object_get(item, "alias"));
}

/* A column, something computed or a bucket; with an alias that is told apart by its number. */
static void random_dimension(struct generator *g, json_t *select)
{
    static const char *const buckets[] = { "hour", "day", "week", "month", "quarter", "year" };
    const struct column *date = pick_column(g, TYPE_DATE);

    if (date && chance(g, 25)) {
        json_t *item = item_of(select, "column", json_string(date->name), "b");
        json_object_set_new(item, "bucket", json_string(buckets[pick(g, ARRAY_SIZE(buckets))]));
    } else if (chance(g, 40)) {
        item_of(select, "expr", random_expr(g, random_type(g)), "e");
    } else {
        item_of(select, "column", json_string(pick_column(g, TYPE_UNKNOWN)->name),
                chance(g, 50) ? "c" : NULL);
    }
}

static void random_rows(struct generator *g, json_t *plan)
{
    json_t *select = json_array(), *order = json_array();
    bool distinct = chance(g, 20);

    for (unsigned i = pick(g, 5) + 1; i > 0; i--)
        random_dimension(g, select);
    if (chance(g, 30))
        item_of(select, "expr", json_string("1"), "k");
    for (size_t i = 0; i < json_array_size(select); i++)
        if (alias_of(json_array_get(select, i)) && chance(g, 25))
            random_order(g, order, alias_of(json_array_get(select, i)));
    if (!distinct && chance(g, 40))
        random_order(g, order, pick_column(g, TYPE_UNKNOWN)->name);
    if (!distinct && chance(g, 30)) {
        auto_buf struct buf b = BUF_INIT(EXPR_MAX_BYTES);
        const struct column *c = pick_column(g, TYPE_UNKNOWN);
        put(&b, "case when %s is null then 1 else 0 end", c->in_expr);
        random_order(g, order, buf_cstr(&b));
    }
    if (chance(g, 15) && !distinct)
        json_decref(select);
    else
        json_object_set_new(plan, "select", json_incref(select)), json_decref(select);
    if (!json_object_get(plan, "select"))
        json_decref(order); /* its aliases are gone */
    else
        json_object_set_new(plan, "order_by", order);
    if (distinct)
        json_object_set_new(plan, "distinct", json_true());
}

static void random_measure(struct generator *g, json_t *select)
{
    static const char *const any[] = { "count", "count_distinct", "min", "max", "mode" };
    static const char *const numbers[] = {
        "sum", "avg", "median", "stddev", "variance", "quantile"
    };
    const struct column *number = pick_column(g, TYPE_NUMBER);

    if (chance(g, 20)) {
        json_t *item = item_of(select, "column", json_string("*"), "m");
        json_object_set_new(item, "func", json_string("count"));
    } else if (number && chance(g, 50)) {
        const char *func = numbers[pick(g, ARRAY_SIZE(numbers))];
        json_t *item = chance(g, 30) ? item_of(select, "expr", random_expr(g, TYPE_NUMBER), "m") :
                                       item_of(select, "column", json_string(number->name), "m");
        json_object_set_new(item, "func", json_string(func));
        if (str_eq(func, "quantile"))
            json_object_set_new(item, "q", json_real(pick(g, 5) / 4.0));
    } else if (number && chance(g, 50)) {
        auto_buf struct buf b = BUF_INIT(EXPR_MAX_BYTES);
        put(&b, "round(100 * sum(%s) / count(*), 2) + max(length(concat(%s)))", number->in_expr,
            pick_column(g, TYPE_UNKNOWN)->in_expr);
        item_of(select, "expr", json_string(buf_cstr(&b)), "m");
    } else {
        json_t *item = item_of(select, "column", json_string(pick_column(g, TYPE_UNKNOWN)->name),
                               "m");
        json_object_set_new(item, "func", json_string(any[pick(g, ARRAY_SIZE(any))]));
    }
}

static void random_groups(struct generator *g, json_t *plan)
{
    json_t *select = json_array(), *group = json_array(), *order = json_array(),
           *having = json_array();

    for (unsigned i = pick(g, 3); i > 0; i--) {
        random_dimension(g, select);
        const json_t *item = json_array_get(select, json_array_size(select) - 1);
        const char *name = alias_of(item) ? alias_of(item) :
                                            json_string_value(json_object_get(item, "column"));
        /* A leaf may be the same for every row, and then there is nothing to group by. */
        const char *expr = json_string_value(json_object_get(item, "expr"));
        bool varies = !expr;
        for (size_t k = 0; k < g->n_columns && !varies; k++)
            varies = strstr(expr, g->columns[k].in_expr) != NULL;
        if (varies)
            json_array_append_new(group, json_string(name));
    }
    size_t dimensions = json_array_size(select);
    for (unsigned i = pick(g, 3) + 1; i > 0; i--)
        random_measure(g, select);
    for (size_t i = 0; i < json_array_size(select); i++) {
        const char *alias = alias_of(json_array_get(select, i));

        if (alias && chance(g, 30))
            random_order(g, order, alias);
        if (alias && i >= dimensions && chance(g, 30))
            json_array_append_new(having,
                                  json_pack("{s:s, s:s}", "column", alias, "op", "is_not_null"));
    }
    if (chance(g, 30))
        json_array_append_new(having, json_pack("{s:s, s:s, s:s, s:i}", "func", "count", "column",
                                                "*", "op", ">", "value", (int)pick(g, 3)));
    if (chance(g, 20))
        random_order(g, order, "count(*) + 1");
    json_object_set_new(plan, "select", select);
    json_object_set_new(plan, "group_by", group);
    json_object_set_new(plan, "having", having);
    json_object_set_new(plan, "order_by", order);
}

static void add_columns(struct generator *g, const struct plan_schema *schema, const char *table,
                        bool qualify)
{
    const struct plan_table *t = plan_schema_table(schema, table);

    for (size_t i = 0; i < t->n_columns; i++) {
        struct column *c = &g->columns[g->n_columns++];
        auto_buf struct buf quoted = BUF_INIT(200);

        put_name(&quoted, t->columns[i].name);
        snprintf(c->name, sizeof(c->name), "%s%s%s", qualify ? table : "", qualify ? "." : "",
                 t->columns[i].name);
        snprintf(c->in_expr, sizeof(c->in_expr), "%s%s%s", qualify ? table : "", qualify ? "." : "",
                 buf_cstr(&quoted));
        c->type = t->columns[i].type;
    }
}

static json_t *random_plan(struct generator *g, const struct plan_schema *const *schemas,
                           const struct plan_schema **ret_schema)
{
    static const struct {
        unsigned dataset;
        const char *table, *join, *join2;
    } shapes[] = {
        { 0, "orders", NULL, NULL },
        { 0, "order_items", NULL, NULL },
        { 0, "inventory", NULL, NULL },
        { 0, "orders", "order_items", NULL },
        { 0, "order_items", "orders", "inventory" },
        { 0, "inventory", "order_items", "orders" },
        { 1, "tickets", NULL, NULL },
        { 2, "sensors", NULL, NULL },
        { 3, "odd names", NULL, NULL },
    };
    unsigned shape = pick(g, ARRAY_SIZE(shapes));
    const char *const tables[] = { shapes[shape].table, shapes[shape].join, shapes[shape].join2 };
    json_t *plan = json_object(), *joins = json_array(), *filters = json_array();

    *ret_schema = schemas[shapes[shape].dataset];
    g->n_columns = 0;
    for (size_t i = 0; i < ARRAY_SIZE(tables) && tables[i]; i++) {
        add_columns(g, *ret_schema, tables[i], tables[1] != NULL);
        if (i > 0)
            json_array_append_new(joins, json_pack("{s:s, s:s}", "table", tables[i], "type",
                                                   chance(g, 50) ? "inner" : "left"));
    }
    json_object_set_new(plan, "dataset_id", json_string((*ret_schema)->dataset_id));
    json_object_set_new(plan, "table", json_string(tables[0]));
    json_object_set_new(plan, "joins", joins);
    for (unsigned i = pick(g, 4); i > 0; i--)
        json_array_append_new(filters, random_filter(g, 3));
    json_object_set_new(plan, "filters", filters);
    if (chance(g, 50))
        random_rows(g, plan);
    else
        random_groups(g, plan);
    if (chance(g, 50))
        json_object_set_new(plan, "limit", json_integer(pick(g, 1000) + 1));
    if (chance(g, 20))
        json_object_set_new(plan, "offset", json_integer(pick(g, 5)));
    return plan;
}

#endif
