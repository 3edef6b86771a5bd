/* Prints the SQL of a plan from its trees. The plan has been checked: every name resolves. */

#include "plan/compile.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/str.h"
#include "plan/plan_impl.h"

struct printer {
    struct buf *out;
    struct err *err;
};

/* ---- tokens of SQL ---- */

static int put(struct printer *p, const char *s)
{
    return buf_append_str(p->out, s, p->err);
}

/* s between two quotes, with those inside doubled. */
static int put_quoted(struct printer *p, const char *s, char quote)
{
    const char q[] = { quote, '\0' };
    int r = put(p, q);

    while (r >= 0 && *s) {
        size_t n = strcspn(s, q);

        r = buf_append(p->out, s, n, p->err);
        s += n;
        if (r >= 0 && *s) {
            r = buf_append(p->out, (const char[]){ quote, quote }, 2, p->err);
            s++;
        }
    }
    return r < 0 ? r : put(p, q);
}

static int put_name(struct printer *p, const char *name)
{
    return put_quoted(p, name, '"');
}

static int put_text(struct printer *p, const char *text)
{
    return put_quoted(p, text, '\'');
}

static int put_column(struct printer *p, const char *table, const char *column)
{
    int r = 0;

    if (table) {
        r = put_name(p, table);
        if (r >= 0)
            r = put(p, ".");
    }
    return r < 0 ? r : put_name(p, column);
}

/* ---- expressions ---- */

/* How tightly a form binds; what binds less than its place demands goes between parentheses. */
enum binding {
    BIND_OR,
    BIND_AND,
    BIND_NOT,
    BIND_COMPARE,
    BIND_CONCAT,
    BIND_SUM,
    BIND_PRODUCT,
    BIND_NEGATE,
    BIND_ATOM
};

static enum binding op_binding(enum expr_op op)
{
    switch (op) {
    case OP_OR:
        return BIND_OR;
    case OP_AND:
        return BIND_AND;
    case OP_CONCAT:
        return BIND_CONCAT;
    case OP_ADD:
    case OP_SUB:
        return BIND_SUM;
    case OP_MUL:
    case OP_DIV:
    case OP_MOD:
        return BIND_PRODUCT;
    default:
        return BIND_COMPARE;
    }
}

static enum binding expr_binding(const struct expr *e)
{
    switch (e->kind) {
    case EXPR_BINARY:
        return op_binding(e->op);
    case EXPR_NOT:
        return BIND_NOT;
    case EXPR_NEGATE:
        return BIND_NEGATE;
    case EXPR_IS_NULL:
    case EXPR_IN:
    case EXPR_BETWEEN:
    case EXPR_LIKE:
        return BIND_COMPARE;
    default:
        return BIND_ATOM;
    }
}

static int put_expr(struct printer *p, const struct standpoint *at, const struct expr *e,
                    enum binding least);

static int put_args(struct printer *p, const struct standpoint *at, const struct expr *e,
                    size_t from, enum binding least)
{
    int r = 0;

    for (size_t i = from; i < e->n_args && r >= 0; i++) {
        if (i > from)
            r = put(p, ", ");
        if (r >= 0)
            r = put_expr(p, at, e->args[i], least);
    }
    return r;
}

static int put_binary(struct printer *p, const struct standpoint *at, const struct expr *e)
{
    enum binding b = op_binding(e->op);
    /* Comparisons do not chain, so neither side may be one; the others lean to the left. */
    int r = put_expr(p, at, e->args[0], b == BIND_COMPARE ? BIND_CONCAT : b);

    if (r >= 0)
        r = buf_printf(p->out, p->err, " %s ", expr_op_sql[e->op]);
    return r < 0 ? r : put_expr(p, at, e->args[1], b + 1);
}

static int put_case(struct printer *p, const struct standpoint *at, const struct expr *e)
{
    int r = put(p, "CASE");

    for (size_t i = 0; i + 1 < e->n_args && r >= 0; i += 2) {
        r = put(p, " WHEN ");
        if (r >= 0)
            r = put_expr(p, at, e->args[i], BIND_OR);
        if (r >= 0)
            r = put(p, " THEN ");
        if (r >= 0)
            r = put_expr(p, at, e->args[i + 1], BIND_OR);
    }
    if (r >= 0 && e->n_args % 2) {
        r = put(p, " ELSE ");
        if (r >= 0)
            r = put_expr(p, at, e->args[e->n_args - 1], BIND_OR);
    }
    return r < 0 ? r : put(p, " END");
}

/* date_add(unit, n, date) has its own form in SQL; the unit was checked to be one. */
static int put_date_add(struct printer *p, const struct standpoint *at, const struct expr *e)
{
    int r = put(p, "date_add(");

    if (r >= 0)
        r = put_expr(p, at, e->args[2], BIND_OR);
    if (r >= 0)
        r = put(p, ", INTERVAL (");
    if (r >= 0)
        r = put_expr(p, at, e->args[1], BIND_OR);
    if (r >= 0)
        r = put(p, ") ");
    for (const char *s = e->args[0]->text; *s && r >= 0; s++)
        r = buf_append(p->out, (const char[]){ (char)toupper((unsigned char)*s) }, 1, p->err);
    return r < 0 ? r : put(p, ")");
}

/* PARTITION BY or ORDER BY the arguments behind the first; nothing if there are none. */
static int put_over(struct printer *p, const struct standpoint *at, const struct expr *e,
                    const char *clause)
{
    int r = e->n_args > 1 ? put(p, clause) : 0;
    return r < 0 || e->n_args < 2 ? r : put_args(p, at, e, 1, BIND_OR);
}

static int put_share(struct printer *p, const struct standpoint *at, const struct expr *e)
{
    int r = put(p, "(100.0 * ");
    if (r >= 0)
        r = put_expr(p, at, e->args[0], BIND_ATOM);
    if (r >= 0)
        r = put(p, " / SUM(");
    if (r >= 0)
        r = put_expr(p, at, e->args[0], BIND_OR);
    if (r >= 0)
        r = put(p, ") OVER (");
    if (r >= 0)
        r = put_over(p, at, e, "PARTITION BY ");
    return r < 0 ? r : put(p, "))");
}

/* The highest is the first; what has no value comes last. */
static int put_rank(struct printer *p, const struct standpoint *at, const struct expr *e)
{
    int r = put(p, "rank() OVER (");
    if (r >= 0)
        r = put_over(p, at, e, "PARTITION BY ");
    if (r >= 0)
        r = put(p, e->n_args > 1 ? " ORDER BY " : "ORDER BY ");
    if (r >= 0)
        r = put_expr(p, at, e->args[0], BIND_OR);
    return r < 0 ? r : put(p, " DESC NULLS LAST)");
}

/* Without a second argument in the order of the table: the engine keeps it where nothing sorts. */
static int put_window(struct printer *p, const struct standpoint *at, const struct expr *e)
{
    const char *name = e->call->name;
    if (str_eq(name, "row_number"))
        return put(p, "row_number() OVER ()");
    if (str_eq(name, "share"))
        return put_share(p, at, e);
    if (str_eq(name, "rank"))
        return put_rank(p, at, e);
    int r = put(p, str_eq(name, "running") ? "SUM(" : str_eq(name, "next") ? "lead(" : "lag(");
    if (r >= 0)
        r = put_expr(p, at, e->args[0], BIND_OR);
    if (r >= 0)
        r = put(p, ") OVER (");
    if (r >= 0)
        r = put_over(p, at, e, "ORDER BY ");
    return r < 0 ? r : put(p, ")");
}

static int put_call(struct printer *p, const struct standpoint *at, const struct expr *e)
{
    if (expr_is_window(e->call))
        return put_window(p, at, e);
    if (str_eq(e->call->name, "date_add"))
        return put_date_add(p, at, e);
    int r = buf_printf(p->out, p->err, "%s(", e->call->name);
    if (r >= 0)
        r = put_args(p, at, e, 0, BIND_OR);
    return r < 0 ? r : put(p, ")");
}

static int put_aggregate(struct printer *p, const struct standpoint *at, const struct expr *e)
{
    static const char *const names[_PLAN_FUNC_MAX] = {
        [FUNC_COUNT] = "COUNT(",
        [FUNC_COUNT_DISTINCT] = "COUNT(DISTINCT ",
        [FUNC_SUM] = "SUM(",
        [FUNC_AVG] = "AVG(",
        [FUNC_MIN] = "MIN(",
        [FUNC_MAX] = "MAX(",
        [FUNC_MEDIAN] = "MEDIAN(",
        [FUNC_MODE] = "MODE(",
        [FUNC_STDDEV] = "STDDEV(",
        [FUNC_VARIANCE] = "VARIANCE(",
        [FUNC_QUANTILE] = "QUANTILE_CONT(",
        [FUNC_CORR] = "CORR(",
    };
    struct standpoint in = *at;
    char digits[EXPR_DOUBLE_SIZE];

    in.in_aggregate = true;
    int r = put(p, names[e->func]);
    if (r >= 0 && e->n_args == 0)
        return put(p, "*)");
    /* The share of true ones is an average that the engine does not take of truth values. */
    bool cast = (e->func == FUNC_AVG || e->func == FUNC_MEDIAN || e->func == FUNC_STDDEV ||
                 e->func == FUNC_VARIANCE || e->func == FUNC_QUANTILE) &&
                check_type_of(&in, e->args[0]) == TYPE_BOOL;
    if (r >= 0 && cast)
        r = put(p, "CAST(");
    if (r >= 0)
        r = put_args(p, &in, e, 0, BIND_OR);
    if (r >= 0 && cast)
        r = put(p, " AS INTEGER)");
    if (r >= 0 && e->func == FUNC_QUANTILE) {
        expr_from_double(e->quantile, digits);
        r = buf_printf(p->out, p->err, ", %s", digits);
    }
    return r < 0 ? r : put(p, ")");
}

static int put_bucket(struct printer *p, const struct standpoint *at, const struct expr *e)
{
    bool date = e->bucket != BUCKET_HOUR;
    int r = date ? put(p, "CAST(") : 0;

    if (r >= 0)
        r = buf_printf(p->out, p->err, "date_trunc('%s', ", plan_bucket_names[e->bucket]);
    if (r >= 0)
        r = put_expr(p, at, e->args[0], BIND_OR);
    return r < 0 ? r : put(p, date ? ") AS DATE)" : ")");
}

static int put_predicate(struct printer *p, const struct standpoint *at, const struct expr *e)
{
    const char *negation = e->negated ? " NOT" : "";
    int r = put_expr(p, at, e->args[0], BIND_CONCAT);

    if (r < 0)
        return r;
    switch (e->kind) {
    case EXPR_IS_NULL:
        return buf_printf(p->out, p->err, " IS%s NULL", negation);
    case EXPR_LIKE:
        r = buf_printf(p->out, p->err, "%s LIKE ", negation);
        return r < 0 ? r : put_text(p, e->text);
    case EXPR_IN:
        r = buf_printf(p->out, p->err, "%s IN (", negation);
        if (r >= 0)
            r = put_args(p, at, e, 1, BIND_OR);
        return r < 0 ? r : put(p, ")");
    default: /* EXPR_BETWEEN */
        r = buf_printf(p->out, p->err, "%s BETWEEN ", negation);
        if (r >= 0)
            r = put_expr(p, at, e->args[1], BIND_CONCAT);
        if (r >= 0)
            r = put(p, " AND ");
        return r < 0 ? r : put_expr(p, at, e->args[2], BIND_CONCAT);
    }
}

/* A column by its name; an alias as what it stands for, since not every clause may name it. */
static int put_resolved(struct printer *p, const struct standpoint *at, const struct expr *e,
                        enum binding least)
{
    struct target t;
    int r = scope_resolve(at, e, &t, p->err);

    if (r < 0)
        return r;
    if (!t.item)
        return put_column(p, t.qualified ? t.table : NULL, t.name);
    const struct standpoint in = scope_within(at, &t);
    return put_expr(p, &in, t.item->operand.what, least);
}

static int put_bare(struct printer *p, const struct standpoint *at, const struct expr *e)
{
    int r;

    switch (e->kind) {
    case EXPR_NUMBER:
        return put(p, e->text);
    case EXPR_STRING:
        return put_text(p, e->text);
    case EXPR_BOOL:
        return put(p, e->negated ? "FALSE" : "TRUE");
    case EXPR_NULL:
        return put(p, "NULL");
    case EXPR_NEGATE: /* its argument in parentheses unless it is an atom: "--" would begin a comment */
        r = put(p, "-");
        return r < 0 ? r : put_expr(p, at, e->args[0], BIND_ATOM);
    case EXPR_NOT:
        r = put(p, "NOT ");
        return r < 0 ? r : put_expr(p, at, e->args[0], BIND_NOT);
    case EXPR_BINARY:
        return put_binary(p, at, e);
    case EXPR_CASE:
        return put_case(p, at, e);
    case EXPR_CAST:
        r = put(p, "TRY_CAST(");
        if (r >= 0)
            r = put_expr(p, at, e->args[0], BIND_OR);
        return r < 0 ? r : buf_printf(p->out, p->err, " AS %s)", plan_type_sql[e->type]);
    case EXPR_CALL:
        return put_call(p, at, e);
    case EXPR_AGGREGATE:
        return put_aggregate(p, at, e);
    case EXPR_BUCKET:
        return put_bucket(p, at, e);
    default:
        return put_predicate(p, at, e);
    }
}

static int put_expr(struct printer *p, const struct standpoint *at, const struct expr *e,
                    enum binding least)
{
    if (e->kind == EXPR_COLUMN)
        return put_resolved(p, at, e, least);
    bool parentheses = expr_binding(e) < least;
    int r = parentheses ? put(p, "(") : 0;

    if (r >= 0)
        r = put_bare(p, at, e);
    return r < 0 || !parentheses ? r : put(p, ")");
}

/* ---- filters ---- */

static int put_value(struct printer *p, const struct plan_value *v)
{
    char digits[EXPR_DOUBLE_SIZE];

    switch (v->type) {
    case VALUE_BOOL:
        return put(p, v->b ? "TRUE" : "FALSE");
    case VALUE_INT:
        return buf_printf(p->out, p->err, "%lld", v->i);
    case VALUE_REAL:
        expr_from_double(v->d, digits);
        return put(p, digits);
    case VALUE_TEXT:
        return put_text(p, v->s);
    default:
        return put(p, "NULL");
    }
}

/* lower('…') when case is ignored. */
static int put_folded(struct printer *p, const struct plan_filter *f, size_t i)
{
    if (!f->ignore_case)
        return put_value(p, &f->values[i]);
    int r = put(p, "lower(");
    if (r >= 0)
        r = put_value(p, &f->values[i]);
    return r < 0 ? r : put(p, ")");
}

/* '%…%' ESCAPE '\', with what LIKE would read as a wildcard escaped. */
static int put_pattern(struct printer *p, const struct plan_filter *f)
{
    bool open_start = f->op != FILTER_STARTSWITH, open_end = f->op != FILTER_ENDSWITH;
    int r = put(p, open_start ? "'%" : "'");

    for (const char *s = f->values[0].s; *s && r >= 0; s++) {
        if (*s == '%' || *s == '_' || *s == '\\')
            r = put(p, "\\");
        else if (*s == '\'')
            r = put(p, "'");
        if (r >= 0)
            r = buf_append(p->out, s, 1, p->err);
    }
    return r < 0 ? r : put(p, open_end ? "%' ESCAPE '\\'" : "' ESCAPE '\\'");
}

static int put_like(struct printer *p, const struct standpoint *at, const struct plan_filter *f)
{
    enum plan_type t = check_type_of(at, f->operand.what);
    bool cast = t != TYPE_UNKNOWN && t != TYPE_TEXT; /* LIKE is for text only */
    int r = cast ? put(p, "CAST(") : 0;

    if (r >= 0)
        r = put_expr(p, at, f->operand.what, cast ? BIND_OR : BIND_CONCAT);
    if (r >= 0 && cast)
        r = put(p, " AS VARCHAR)");
    if (r >= 0)
        r = buf_printf(p->out, p->err, " %s%s ", f->op == FILTER_NOT_CONTAINS ? "NOT " : "",
                       f->ignore_case ? "ILIKE" : "LIKE");
    return r < 0 ? r : put_pattern(p, f);
}

static int put_operand(struct printer *p, const struct standpoint *at, const struct plan_filter *f)
{
    if (!f->ignore_case)
        return put_expr(p, at, f->operand.what, BIND_CONCAT);
    int r = put(p, "lower(");
    if (r >= 0)
        r = put_expr(p, at, f->operand.what, BIND_OR);
    return r < 0 ? r : put(p, ")");
}

static int put_plan(struct printer *p, const struct query_plan *plan,
                    const struct plan_schema *schema, bool inner);

/* x NOT IN (…) is true for no row once the list has a null: those are left out of it. */
static int put_compared_plan(struct printer *p, const struct standpoint *at,
                             const struct plan_filter *f)
{
    const char *op = f->op == FILTER_IN     ? "IN" :
                     f->op == FILTER_NOT_IN ? "NOT IN" :
                                              plan_filter_op_names[f->op];
    int r = buf_printf(p->out, p->err, " %s (\n", op);
    if (r >= 0 && f->op == FILTER_NOT_IN)
        r = put(p, "SELECT * FROM (\n");
    if (r >= 0)
        r = put_plan(p, f->plan, at->scope->schema, true);
    if (r >= 0 && f->op == FILTER_NOT_IN)
        r = put(p, "\n) AS \"list\"(\"item\")\nWHERE \"item\" IS NOT NULL");
    return r < 0 ? r : put(p, "\n)");
}

static int put_condition(struct printer *p, const struct standpoint *at,
                         const struct plan_filter *f)
{
    int r;

    if (!f->has_op) /* as one member of an AND */
        return put_expr(p, at, f->operand.what, BIND_NOT);
    if (f->op == FILTER_CONTAINS || f->op == FILTER_NOT_CONTAINS || f->op == FILTER_STARTSWITH ||
        f->op == FILTER_ENDSWITH)
        return put_like(p, at, f);
    r = put_operand(p, at, f);
    if (r < 0)
        return r;
    if (f->plan)
        return put_compared_plan(p, at, f);
    switch (f->op) {
    case FILTER_IS_NULL:
        return put(p, " IS NULL");
    case FILTER_IS_NOT_NULL:
        return put(p, " IS NOT NULL");
    case FILTER_BETWEEN:
        r = put(p, " BETWEEN ");
        if (r >= 0)
            r = put_value(p, &f->values[0]);
        if (r >= 0)
            r = put(p, " AND ");
        return r < 0 ? r : put_value(p, &f->values[1]);
    case FILTER_IN:
    case FILTER_NOT_IN:
        r = put(p, f->op == FILTER_IN ? " IN (" : " NOT IN (");
        for (size_t i = 0; i < f->n_values && r >= 0; i++) {
            if (i > 0)
                r = put(p, ", ");
            if (r >= 0)
                r = put_folded(p, f, i);
        }
        return r < 0 ? r : put(p, ")");
    default:
        r = buf_printf(p->out, p->err, " %s ", plan_filter_op_names[f->op]);
        return r < 0 ? r : put_folded(p, f, 0);
    }
}

static int put_filter(struct printer *p, const struct standpoint *at, const struct plan_filter *f)
{
    int r;

    if (f->kind == FILTER_CONDITION)
        return put_condition(p, at, f);
    if (f->kind == FILTER_NOT) {
        /* A group brings its own parentheses. */
        bool group = f->parts[0].kind == FILTER_AND || f->parts[0].kind == FILTER_OR;

        r = put(p, group ? "NOT " : "NOT (");
        if (r >= 0)
            r = put_filter(p, at, &f->parts[0]);
        return r < 0 || group ? r : put(p, ")");
    }
    r = put(p, "(");
    for (size_t i = 0; i < f->n_parts && r >= 0; i++) {
        if (i > 0)
            r = put(p, f->kind == FILTER_OR ? " OR " : " AND ");
        if (r >= 0)
            r = put_filter(p, at, &f->parts[i]);
    }
    return r < 0 ? r : put(p, ")");
}

static bool looks_around(const struct plan_filter *f)
{
    if (f->kind == FILTER_CONDITION)
        return expr_has_window(f->operand.what);
    for (size_t i = 0; i < (f->kind == FILTER_NOT ? 1 : f->n_parts); i++)
        if (looks_around(&f->parts[i]))
            return true;
    return false;
}

/* Those that look at other rows have a clause of their own, behind the others. */
static int put_filters(struct printer *p, const struct standpoint *at, const char *clause, bool around,
                       const struct plan_filter *filters, size_t n)
{
    int r = 0;
    bool any = false;

    for (size_t i = 0; i < n && r >= 0; i++) {
        if (looks_around(&filters[i]) != around)
            continue;
        r = any ? put(p, "\n  AND ") : buf_printf(p->out, p->err, "\n%s\n  ", clause);
        any = true;
        if (r >= 0)
            r = put_filter(p, at, &filters[i]);
    }
    return r;
}

/* ---- clauses ---- */

static int put_select(struct printer *p, const struct scope *s)
{
    const struct query_plan *plan = s->plan;
    int r = put(p, plan->distinct ? "SELECT DISTINCT" : "SELECT");

    if (r >= 0 && !plan->select)
        r = put(p, " *");
    for (size_t i = 0; i < plan->n_select && r >= 0; i++) {
        const struct standpoint at = { .scope = s, .place = PLACE_SELECT, .item = i };

        r = put(p, i > 0 ? ",\n  " : "\n  ");
        if (r >= 0)
            r = put_expr(p, &at, plan->select[i].operand.what, BIND_OR);
        if (r >= 0 && plan->select[i].alias) {
            r = put(p, " AS ");
            if (r >= 0)
                r = put_name(p, plan->select[i].alias);
        }
    }
    return r;
}

static int put_from(struct printer *p, const struct scope *s)
{
    const struct standpoint at = { .scope = s, .place = PLACE_ON };
    int r = put(p, "\nFROM ");

    if (r >= 0 && s->plan->source) {
        r = put(p, "(\n");
        if (r >= 0)
            r = put_plan(p, s->plan->source, s->schema, true);
        if (r >= 0)
            r = put(p, "\n) AS ");
    }
    if (r >= 0)
        r = put_name(p, s->names[0]);
    for (size_t i = 0; i < s->plan->n_joins && r >= 0; i++) {
        const struct plan_join *join = &s->plan->joins[i];
        struct join_keys keys;

        r = put(p, join->left ? "\nLEFT JOIN " : "\nJOIN ");
        if (r >= 0)
            r = put_name(p, s->names[i + 1]);
        if (r >= 0)
            r = put(p, " ON ");
        if (r >= 0 && join->on) {
            r = put_expr(p, &at, join->on, BIND_OR);
            continue;
        }
        if (r >= 0)
            r = scope_relationship(s, i, &keys, p->err);
        if (r >= 0)
            r = put_column(p, keys.left_table, keys.left_column);
        if (r >= 0)
            r = put(p, " = ");
        if (r >= 0)
            r = put_column(p, keys.right_table, keys.right_column);
    }
    return r;
}

static int put_group_by(struct printer *p, const struct scope *s)
{
    const struct standpoint at = { .scope = s, .place = PLACE_GROUP };
    int r = 0;

    for (size_t i = 0; i < s->plan->n_group_by && r >= 0; i++) {
        r = put(p, i > 0 ? ", " : "\nGROUP BY ");
        if (r >= 0)
            r = put_expr(p, &at, s->plan->group_by[i], BIND_OR);
    }
    return r;
}

static int put_order_by(struct printer *p, const struct scope *s)
{
    const struct standpoint at = { .scope = s, .place = PLACE_ORDER };
    int r = 0;

    for (size_t i = 0; i < s->plan->n_order_by && r >= 0; i++) {
        const struct plan_order *order = &s->plan->order_by[i];
        const struct expr *e;
        struct target t;

        r = scope_order(s, order, &e, p->err);
        if (r >= 0)
            r = put(p, i > 0 ? ", " : "\nORDER BY ");
        if (r < 0)
            break;
        if (e->kind == EXPR_COLUMN && scope_resolve(&at, e, &t, NULL) >= 0 && t.item)
            r = put_name(p, t.item->alias);
        else
            r = put_expr(p, &at, e, BIND_OR);
        if (r >= 0)
            r = put(p, order->descending ? " DESC" : " ASC");
        if (r >= 0 && order->nulls != NULLS_DEFAULT)
            r = put(p, order->nulls == NULLS_FIRST ? " NULLS FIRST" : " NULLS LAST");
    }
    return r;
}

/* DESCRIBE and SUMMARIZE as tables, so that they have the form of a SELECT. */
static int put_description(struct printer *p, const struct scope *s)
{
    bool statistics = s->plan->describe == DESCRIBE_STATISTICS;
    int r = put(p, statistics ? "SELECT\n  *\nFROM (SUMMARIZE " :
                                "SELECT\n  column_name,\n  column_type\nFROM (DESCRIBE ");
    if (r >= 0)
        r = put_name(p, s->names[0]);
    return r < 0 ? r : put(p, ")");
}

static int put_clauses(struct printer *p, const struct scope *scope)
{
    const struct query_plan *plan = scope->plan;
    const struct standpoint where = { .scope = scope, .place = PLACE_WHERE };
    const struct standpoint having = { .scope = scope, .place = PLACE_HAVING };
    if (plan->describe != DESCRIBE_NONE)
        return put_description(p, scope);
    int r = put_select(p, scope);
    if (r >= 0)
        r = put_from(p, scope);
    if (r >= 0)
        r = put_filters(p, &where, "WHERE", false, plan->filters, plan->n_filters);
    if (r >= 0)
        r = put_group_by(p, scope);
    if (r >= 0)
        r = put_filters(p, &having, "HAVING", false, plan->having, plan->n_having);
    if (r >= 0)
        r = put_filters(p, &where, "QUALIFY", true, plan->filters, plan->n_filters);
    return r < 0 ? r : put_order_by(p, scope);
}

static int put_plan(struct printer *p, const struct query_plan *plan,
                    const struct plan_schema *schema, bool inner)
{
    struct scope *scope = malloc(sizeof(*scope));
    if (!scope)
        return err_set(p->err, ERR_NO_MEMORY, "out of memory");
    int r = scope_init(scope, plan, schema, p->err);
    if (r >= 0)
        r = put_clauses(p, scope);
    free(scope);
    if (r >= 0 && (!inner || plan->limit_given))
        r = buf_printf(p->out, p->err, "\nLIMIT %d", plan->limit);
    if (r >= 0 && plan->offset > 0)
        r = buf_printf(p->out, p->err, " OFFSET %lld", plan->offset);
    return r;
}

int plan_compile(const struct query_plan *plan, const struct plan_schema *schema,
                 struct buf *ret_sql, struct err *err)
{
    struct printer p = { .out = ret_sql, .err = err };
    size_t before = ret_sql->len;
    int r = plan_check(plan, schema, err);

    if (r >= 0)
        r = put_plan(&p, plan, schema, false);
    if (r >= 0)
        return 0;
    ret_sql->len = before;
    if (ret_sql->data)
        ret_sql->data[before] = '\0';
    return err_wrap(err, "Failed to compile QueryPlan");
}
