/*
 * The parser of a plan's expressions: one function per level of precedence, over the tokens of
 * expr_lex.c.
 */

#include "plan/expr_lex.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/str.h"

/* ---- trees ---- */

static char *strip_quotes(struct arena *a, const char *s, size_t len)
{
    while (len > 0 && s[0] == '"')
        s++, len--;
    while (len > 0 && s[len - 1] == '"')
        len--;
    return arena_strndup(a, s, len);
}

struct expr *expr_new_column(struct arena *a, const char *text)
{
    struct expr *e = arena_alloc(a, sizeof(*e));
    const char *dot = strchr(text, '.');

    if (!e)
        return NULL;
    e->kind = EXPR_COLUMN;
    e->whole = true;
    e->text = arena_strdup(a, text);
    e->name = strip_quotes(a, text, strlen(text));
    if (!e->text || !e->name)
        return NULL;
    if (dot && dot > text && dot[1] && !strchr(dot + 1, '.')) {
        e->table = strip_quotes(a, text, (size_t)(dot - text));
        e->column = strip_quotes(a, dot + 1, strlen(dot + 1));
        if (!e->table || !e->column)
            return NULL;
    }
    return e;
}

static struct expr *with_arg(struct arena *a, enum expr_kind kind, const struct expr *arg)
{
    struct expr *e = arena_alloc(a, sizeof(*e));

    if (!e)
        return NULL;
    e->kind = kind;
    if (arg) {
        e->args = arena_alloc(a, sizeof(*e->args));
        if (!e->args)
            return NULL;
        e->args[0] = arg;
        e->n_args = 1;
    }
    return e;
}

struct expr *expr_new_aggregate(struct arena *a, enum plan_func func, double quantile,
                                const struct expr *arg)
{
    struct expr *e = with_arg(a, EXPR_AGGREGATE, arg);

    if (!e)
        return NULL;
    e->func = func;
    e->quantile = quantile;
    return e;
}

struct expr *expr_new_bucket(struct arena *a, enum plan_bucket bucket, const struct expr *arg)
{
    struct expr *e = with_arg(a, EXPR_BUCKET, arg);

    if (!e)
        return NULL;
    e->bucket = bucket;
    return e;
}

bool expr_has_aggregate(const struct expr *e)
{
    if (e->kind == EXPR_AGGREGATE)
        return true;
    for (size_t i = 0; i < e->n_args; i++)
        if (expr_has_aggregate(e->args[i]))
            return true;
    return false;
}

bool expr_has_window(const struct expr *e)
{
    if (e->kind == EXPR_CALL && expr_is_window(e->call))
        return true;
    for (size_t i = 0; i < e->n_args; i++)
        if (expr_has_window(e->args[i]))
            return true;
    return false;
}

bool expr_has_column(const struct expr *e)
{
    if (e->kind == EXPR_COLUMN || e->kind == EXPR_AGGREGATE)
        return true;
    for (size_t i = 0; i < e->n_args; i++)
        if (expr_has_column(e->args[i]))
            return true;
    return false;
}

/* ---- grammar ---- */

static int parse_or(struct parser *p, const struct expr **ret);
static int parse_concat(struct parser *p, const struct expr **ret);

static struct expr *new_node(struct parser *p, enum expr_kind kind, int at)
{
    struct expr *e = arena_alloc(p->arena, sizeof(*e));

    if (!e)
        return NULL;
    e->kind = kind;
    e->at = at;
    return e;
}

/* Arguments grow in the parser's stack frame and are copied once their number is known. */
struct arg_list {
    const struct expr *items[EXPR_MAX_ARGS];
    size_t n;
};

static int add_arg(struct parser *p, struct arg_list *list, const struct expr *arg)
{
    if (list->n == EXPR_MAX_ARGS)
        return lex_fail(p, p->token.at, "more than %d parts in one place", EXPR_MAX_ARGS);
    list->items[list->n++] = arg;
    return 0;
}

static int set_args(struct parser *p, struct expr *e, const struct expr *const *items, size_t n)
{
    if (n == 0)
        return 0;
    e->args = arena_alloc(p->arena, n * sizeof(*e->args));
    if (!e->args)
        return lex_out_of_memory(p);
    memcpy(e->args, items, n * sizeof(*e->args));
    e->n_args = n;
    return 0;
}

static int new_binary(struct parser *p, enum expr_op op, int at, const struct expr *left,
                      const struct expr *right, const struct expr **ret)
{
    struct expr *e = new_node(p, EXPR_BINARY, at);
    const struct expr *both[] = { left, right };

    if (!e)
        return lex_out_of_memory(p);
    e->op = op;
    *ret = e;
    return set_args(p, e, both, 2);
}

static int copy_text(struct parser *p, const struct token *t, const char **ret)
{
    *ret = arena_strndup(p->arena, t->text, t->len);
    return *ret ? 0 : lex_out_of_memory(p);
}

/* ", b, c)" behind a first argument, or "a, b)" from the start. */
static int parse_args(struct parser *p, struct arg_list *list)
{
    int r = lex_accept_symbol(p, ")");

    if (r != 0)
        return r < 0 ? r : 0;
    for (;;) {
        const struct expr *arg;

        r = parse_or(p, &arg);
        if (r >= 0)
            r = add_arg(p, list, arg);
        if (r < 0)
            return r;
        r = lex_accept_symbol(p, ",");
        if (r < 0)
            return r;
        if (r == 0)
            return lex_need_symbol(p, ")", "',' or ')'");
    }
}

static bool is_integer_literal(const struct expr *e)
{
    if (e->kind == EXPR_NEGATE)
        e = e->args[0];
    return e->kind == EXPR_NUMBER && strlen(e->text) <= 6 && !strpbrk(e->text, ".eE");
}

/* What must be a literal is checked here: its place in the text is at hand. */
static int check_literals(struct parser *p, const struct expr *e)
{
    const struct expr_function *f = e->call;

    for (size_t i = 0; i < e->n_args; i++) {
        char c = f->args[MIN_OF(i, strlen(f->args) - 1)];
        const struct expr *arg = e->args[i];

        if (c == 'u' && (arg->kind != EXPR_STRING || !expr_is_unit(arg->text)))
            return lex_fail(
                p, arg->at,
                "expected 'second', 'minute', 'hour', 'day', 'week', 'month', 'quarter' or "
                "'year' as argument %zu of %s()",
                i + 1, f->name);
        if (c == 'l' && !is_integer_literal(arg))
            return lex_fail(p, arg->at,
                            "expected a whole number of at most 6 digits as argument %zu of %s()",
                            i + 1, f->name);
    }
    return 0;
}

static int parse_aggregate(struct parser *p, enum plan_func func, int at, const struct expr **ret)
{
    struct expr *e = new_node(p, EXPR_AGGREGATE, at);
    struct arg_list list = { .n = 0 };
    const char *name = plan_func_names[func];
    int r;

    if (!e)
        return lex_out_of_memory(p);
    e->func = func;
    *ret = e;
    if (func == FUNC_COUNT && lex_is_symbol(&p->token, "*")) {
        r = lex_next(p);
        return r < 0 ? r : lex_need_symbol(p, ")", "')'");
    }
    if (func == FUNC_COUNT) {
        r = lex_accept_word(p, "distinct");
        if (r < 0)
            return r;
        if (r > 0)
            e->func = FUNC_COUNT_DISTINCT;
    }
    r = parse_args(p, &list);
    if (r < 0)
        return r;
    if (func == FUNC_QUANTILE) {
        if (list.n != 2)
            return lex_fail(p, at, "quantile() takes 2 arguments, not %zu", list.n);
        e->quantile = list.items[1]->kind == EXPR_NUMBER ? strtod(list.items[1]->text, NULL) : -1;
        if (!(e->quantile >= 0 && e->quantile <= 1))
            return lex_fail(p, list.items[1]->at,
                            "expected a number from 0 to 1 as argument 2 of quantile()");
        list.n = 1;
    }
    size_t takes = func == FUNC_CORR ? 2 : 1;
    if (list.n != takes)
        return lex_fail(p, at, "%s() takes %zu argument%s, not %zu", name, takes,
                        takes == 1 ? "" : "s", list.n);
    for (size_t i = 0; i < takes; i++)
        if (expr_has_aggregate(list.items[i]))
            return lex_fail(p, list.items[i]->at, "an aggregate inside %s()", name);
    return set_args(p, e, list.items, takes);
}

static int unknown_function(struct parser *p, const char *name, int at)
{
    const char *names[64];
    char list[500] = "", shown[STR_SHOWN_SIZE];
    size_t n = 0, used = 0;

    for (size_t i = 0; i < _PLAN_FUNC_MAX && n < ARRAY_SIZE(names); i++)
        names[n++] = plan_func_names[i];
    for (size_t i = 0; i < expr_n_functions && n < ARRAY_SIZE(names); i++)
        names[n++] = expr_functions[i].name;
    str_show(name, strlen(name), shown, sizeof(shown));
    const char *near = str_nearest(name, names, n);
    if (near)
        return lex_fail(p, at, "unknown function '%s'; did you mean '%s'?", shown, near);
    for (size_t i = 0; i < n && used < sizeof(list); i++)
        used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", i ? " " : "", names[i]);
    return lex_fail(p, at, "unknown function '%s'; known are %s", shown, list);
}

/* Behind "name(". */
static int parse_call(struct parser *p, const char *name, int at, const struct expr **ret)
{
    const struct expr_function *f = NULL;
    struct arg_list list = { .n = 0 };

    for (int i = 0; i < _PLAN_FUNC_MAX; i++)
        if (str_ieq(name, plan_func_names[i]))
            return parse_aggregate(p, (enum plan_func)i, at, ret);
    for (size_t i = 0; i < expr_n_functions && !f; i++)
        if (str_ieq(name, expr_functions[i].name))
            f = &expr_functions[i];
    if (!f)
        return unknown_function(p, name, at);

    int r = parse_args(p, &list);
    if (r < 0)
        return r;
    if (list.n < f->min_args || list.n > f->max_args) {
        if (f->min_args == f->max_args)
            return lex_fail(p, at, "%s() takes %d argument%s, not %zu", f->name, f->min_args,
                            f->min_args == 1 ? "" : "s", list.n);
        return lex_fail(p, at, "%s() takes %d to %d arguments, not %zu", f->name, f->min_args,
                        f->max_args, list.n);
    }
    struct expr *e = new_node(p, EXPR_CALL, at);
    if (!e)
        return lex_out_of_memory(p);
    e->call = f;
    *ret = e;
    r = set_args(p, e, list.items, list.n);
    return r < 0 ? r : check_literals(p, e);
}

static int parse_case(struct parser *p, int at, const struct expr **ret)
{
    struct expr *e = new_node(p, EXPR_CASE, at);
    struct arg_list list = { .n = 0 };
    const struct expr *part;
    int r;

    if (!e)
        return lex_out_of_memory(p);
    *ret = e;
    do {
        r = lex_need_word(p, "when");
        if (r >= 0)
            r = parse_or(p, &part);
        if (r >= 0)
            r = add_arg(p, &list, part);
        if (r >= 0)
            r = lex_need_word(p, "then");
        if (r >= 0)
            r = parse_or(p, &part);
        if (r >= 0)
            r = add_arg(p, &list, part);
        if (r < 0)
            return r;
    } while (lex_is_word(&p->token, "when"));
    r = lex_accept_word(p, "else");
    if (r > 0) {
        r = parse_or(p, &part);
        if (r >= 0)
            r = add_arg(p, &list, part);
    }
    if (r >= 0)
        r = lex_accept_word(p, "end");
    if (r == 0)
        return lex_expected(p, list.n % 2 ? "'end'" : "'when', 'else' or 'end'");
    return r < 0 ? r : set_args(p, e, list.items, list.n);
}

/* Behind "cast". */
static int parse_cast(struct parser *p, int at, const struct expr **ret)
{
    static const struct {
        const char *name;
        enum plan_type type;
    } types[] = {
        { "integer", TYPE_INTEGER }, { "bigint", TYPE_INTEGER },      { "double", TYPE_NUMBER },
        { "number", TYPE_NUMBER },   { "text", TYPE_TEXT },           { "varchar", TYPE_TEXT },
        { "date", TYPE_DATE },       { "timestamp", TYPE_TIMESTAMP }, { "boolean", TYPE_BOOL },
    };
    struct expr *e = new_node(p, EXPR_CAST, at);
    const struct expr *arg;

    if (!e)
        return lex_out_of_memory(p);
    int r = lex_need_symbol(p, "(", "'(' behind 'cast'");
    if (r >= 0)
        r = parse_or(p, &arg);
    if (r >= 0)
        r = lex_need_word(p, "as");
    if (r < 0)
        return r;
    for (size_t i = 0; i < ARRAY_SIZE(types) && !e->type; i++)
        if (lex_is_word(&p->token, types[i].name))
            e->type = types[i].type;
    if (!e->type)
        return lex_expected(p, "integer, double, text, date, timestamp or boolean");
    r = lex_next(p);
    if (r >= 0)
        r = lex_need_symbol(p, ")", "')'");
    *ret = e;
    return r < 0 ? r : set_args(p, e, &arg, 1);
}

static int parse_name(struct parser *p, const struct expr **ret)
{
    struct token first = p->token;
    const char *name;
    int r = copy_text(p, &first, &name);

    if (r >= 0)
        r = lex_next(p);
    if (r < 0)
        return r;
    if (first.kind == TOKEN_NAME) {
        r = lex_accept_symbol(p, "(");
        if (r != 0)
            return r < 0 ? r : parse_call(p, name, first.at, ret);
    }
    struct expr *e = new_node(p, EXPR_COLUMN, first.at);
    if (!e)
        return lex_out_of_memory(p);
    e->text = e->name = name;
    e->whole = true;
    *ret = e;
    r = lex_accept_symbol(p, ".");
    if (r <= 0)
        return r;
    if (p->token.kind != TOKEN_NAME && p->token.kind != TOKEN_QUOTED)
        return lex_expected(p, "the name of a column");
    e->whole = false;
    e->table = name;
    r = copy_text(p, &p->token, &e->column);
    if (r < 0)
        return r;
    e->text = arena_printf(p->arena, "%s.%s", e->table, e->column);
    e->name = e->text;
    return e->text ? lex_next(p) : lex_out_of_memory(p);
}

static int parse_literal(struct parser *p, enum expr_kind kind, bool negated,
                         const struct expr **ret)
{
    struct expr *e = new_node(p, kind, p->token.at);

    if (!e)
        return lex_out_of_memory(p);
    e->negated = negated;
    *ret = e;
    if (kind == EXPR_NUMBER || kind == EXPR_STRING) {
        int r = copy_text(p, &p->token, &e->text);
        if (r < 0)
            return r;
    }
    return lex_next(p);
}

static int parse_primary(struct parser *p, const struct expr **ret)
{
    const struct token *t = &p->token;
    int at = t->at, r;

    if (t->kind == TOKEN_NUMBER)
        return parse_literal(p, EXPR_NUMBER, false, ret);
    if (t->kind == TOKEN_STRING)
        return parse_literal(p, EXPR_STRING, false, ret);
    if (lex_is_word(t, "true") || lex_is_word(t, "false"))
        return parse_literal(p, EXPR_BOOL, lex_is_word(t, "false"), ret);
    if (lex_is_word(t, "null"))
        return parse_literal(p, EXPR_NULL, false, ret);
    if (lex_is_word(t, "case")) {
        r = lex_next(p);
        return r < 0 ? r : parse_case(p, at, ret);
    }
    if (lex_is_word(t, "cast")) {
        r = lex_next(p);
        return r < 0 ? r : parse_cast(p, at, ret);
    }
    if (t->kind == TOKEN_QUOTED || (t->kind == TOKEN_NAME && !lex_is_keyword(t)))
        return parse_name(p, ret);
    r = lex_accept_symbol(p, "(");
    if (r < 0)
        return r;
    if (r == 0)
        return lex_expected(p, "a column, a number, a text, a function or '('");
    r = parse_or(p, ret);
    return r < 0 ? r : lex_need_symbol(p, ")", "')'");
}

/* Every way down the grammar comes through here, so the depth is counted here. */
static int parse_unary(struct parser *p, const struct expr **ret)
{
    int at = p->token.at, r;

    if (++p->depth > EXPR_MAX_DEPTH)
        return lex_fail(p, at, "more than %d levels deep", EXPR_MAX_DEPTH);
    if (lex_is_symbol(&p->token, "-")) {
        const struct expr *arg;
        struct expr *e = new_node(p, EXPR_NEGATE, at);

        if (!e)
            return lex_out_of_memory(p);
        r = lex_next(p);
        if (r >= 0)
            r = parse_unary(p, &arg);
        *ret = e;
        if (r >= 0)
            r = set_args(p, e, &arg, 1);
    } else {
        r = parse_primary(p, ret);
    }
    p->depth--;
    return r;
}

struct level {
    const char *symbol;
    enum expr_op op;
};

/* One level of left-associative operators, named by symbols, NULL-terminated. */
static int parse_level(struct parser *p, const struct level *ops,
                       int (*below)(struct parser *, const struct expr **), const struct expr **ret)
{
    int r = below(p, ret), n = 0;

    while (r >= 0) {
        const struct level *found = NULL;
        const struct expr *right;
        int at = p->token.at;

        for (const struct level *l = ops; l->symbol && !found; l++)
            if (lex_is_symbol(&p->token, l->symbol))
                found = l;
        if (!found)
            return 0;
        /* A long chain is as deep a tree as nested parentheses are. */
        if (++n > EXPR_MAX_ARGS)
            return lex_fail(p, at, "more than %d operators in one chain", EXPR_MAX_ARGS);
        r = lex_next(p);
        if (r >= 0)
            r = below(p, &right);
        if (r >= 0)
            r = new_binary(p, found->op, at, *ret, right, ret);
    }
    return r;
}

static int parse_product(struct parser *p, const struct expr **ret)
{
    static const struct level ops[] = {
        { "*", OP_MUL }, { "/", OP_DIV }, { "%", OP_MOD }, { NULL, 0 }
    };
    return parse_level(p, ops, parse_unary, ret);
}

static int parse_sum(struct parser *p, const struct expr **ret)
{
    static const struct level ops[] = { { "+", OP_ADD }, { "-", OP_SUB }, { NULL, 0 } };
    return parse_level(p, ops, parse_product, ret);
}

static int parse_concat(struct parser *p, const struct expr **ret)
{
    static const struct level ops[] = { { "||", OP_CONCAT }, { NULL, 0 } };
    return parse_level(p, ops, parse_sum, ret);
}

/* Behind "value [not]", at "in", "between" or "like". */
static int parse_predicate(struct parser *p, struct expr *e)
{
    struct arg_list list = { .n = 1, .items = { e->args[0] } };
    const struct expr *arg;
    int r;

    if (lex_is_word(&p->token, "like")) {
        e->kind = EXPR_LIKE;
        r = lex_next(p);
        if (r < 0)
            return r;
        if (p->token.kind != TOKEN_STRING)
            return lex_expected(p, "a pattern such as 'abc%'");
        r = copy_text(p, &p->token, &e->text);
        return r < 0 ? r : lex_next(p);
    }
    if (lex_is_word(&p->token, "in")) {
        e->kind = EXPR_IN;
        r = lex_next(p);
        if (r >= 0)
            r = lex_need_symbol(p, "(", "'(' behind 'in'");
        if (r >= 0)
            r = parse_args(p, &list);
        if (r >= 0 && list.n < 2)
            return lex_fail(p, e->at, "expected a value between the parentheses of 'in'");
    } else {
        e->kind = EXPR_BETWEEN;
        r = lex_next(p);
        for (int i = 0; i < 2 && r >= 0; i++) {
            if (i == 1)
                r = lex_need_word(p, "and");
            if (r >= 0)
                r = parse_concat(p, &arg);
            if (r >= 0)
                r = add_arg(p, &list, arg);
        }
    }
    return r < 0 ? r : set_args(p, e, list.items, list.n);
}

static int parse_comparison(struct parser *p, const struct expr **ret)
{
    static const struct level ops[] = {
        { "=", OP_EQ },  { "==", OP_EQ }, { "!=", OP_NE }, { "<>", OP_NE },
        { "<=", OP_LE }, { ">=", OP_GE }, { "<", OP_LT },  { ">", OP_GT },
    };
    int r = parse_concat(p, ret), at = p->token.at;
    struct expr *e;

    if (r < 0)
        return r;
    for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
        const struct expr *right;

        if (!lex_is_symbol(&p->token, ops[i].symbol))
            continue;
        r = lex_next(p);
        if (r >= 0)
            r = parse_concat(p, &right);
        if (r >= 0)
            r = new_binary(p, ops[i].op, at, *ret, right, ret);
        for (size_t k = 0; k < ARRAY_SIZE(ops) && r >= 0; k++)
            if (lex_is_symbol(&p->token, ops[k].symbol))
                return lex_fail(p, p->token.at, "comparisons do not chain; join two with 'and'");
        return r;
    }
    bool is = lex_is_word(&p->token, "is"), negated = lex_is_word(&p->token, "not");
    if (!is && !negated && !lex_is_word(&p->token, "in") && !lex_is_word(&p->token, "between") &&
        !lex_is_word(&p->token, "like"))
        return 0;
    e = new_node(p, EXPR_IS_NULL, at);
    if (!e)
        return lex_out_of_memory(p);
    r = set_args(p, e, ret, 1);
    if (r >= 0 && (is || negated))
        r = lex_next(p);
    if (r >= 0 && is) {
        r = lex_accept_word(p, "not");
        e->negated = r > 0;
        if (r >= 0)
            r = lex_need_word(p, "null");
    } else if (r >= 0) {
        e->negated = negated;
        if (negated && !lex_is_word(&p->token, "in") && !lex_is_word(&p->token, "between") &&
            !lex_is_word(&p->token, "like"))
            return lex_expected(p, "'in', 'between' or 'like' behind 'not'");
        r = parse_predicate(p, e);
    }
    *ret = e;
    return r;
}

static int parse_not(struct parser *p, const struct expr **ret)
{
    int at = p->token.at, r = lex_accept_word(p, "not");
    const struct expr *arg;

    if (r < 0)
        return r;
    if (r == 0)
        return parse_comparison(p, ret);
    if (++p->depth > EXPR_MAX_DEPTH)
        return lex_fail(p, at, "more than %d levels deep", EXPR_MAX_DEPTH);
    r = parse_not(p, &arg);
    p->depth--;
    struct expr *e = new_node(p, EXPR_NOT, at);
    if (!e)
        return lex_out_of_memory(p);
    *ret = e;
    return r < 0 ? r : set_args(p, e, &arg, 1);
}

static int parse_logic(struct parser *p, const char *word, enum expr_op op,
                       int (*below)(struct parser *, const struct expr **), const struct expr **ret)
{
    int r = below(p, ret), n = 0;

    while (r >= 0 && lex_is_word(&p->token, word)) {
        const struct expr *right;
        int at = p->token.at;

        if (++n > EXPR_MAX_ARGS)
            return lex_fail(p, at, "more than %d operators in one chain", EXPR_MAX_ARGS);
        r = lex_next(p);
        if (r >= 0)
            r = below(p, &right);
        if (r >= 0)
            r = new_binary(p, op, at, *ret, right, ret);
    }
    return r;
}

static int parse_and(struct parser *p, const struct expr **ret)
{
    return parse_logic(p, "and", OP_AND, parse_not, ret);
}

static int parse_or(struct parser *p, const struct expr **ret)
{
    return parse_logic(p, "or", OP_OR, parse_and, ret);
}

int expr_parse(const char *text, struct arena *a, const struct expr **ret, struct err *err)
{
    struct parser p = { .arena = a, .err = err };
    const struct expr *e = NULL;

    if (strlen(text) > EXPR_MAX_BYTES)
        return err_set(err, ERR_VALIDATION, "an expression may have at most %d bytes",
                       EXPR_MAX_BYTES);
    p.text = arena_strdup(a, text);
    if (!p.text)
        return lex_out_of_memory(&p);
    int r = lex_next(&p);
    if (r >= 0)
        r = parse_or(&p, &e);
    if (r >= 0 && p.token.kind != TOKEN_END)
        r = lex_expected(&p, "an operator or the end");
    if (r < 0)
        return r;
    *ret = e;
    return 0;
}
