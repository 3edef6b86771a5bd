/* SQL of expressions and filters: the lower half of compile.c. */

#include "plan/compile_impl.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/str.h"

/* ---- tokens of SQL ---- */

int compile_put(struct printer *p, const char *s)
{
    return buf_append_str(p->out, s, p->err);
}

/* s between two quotes, with those inside doubled, and backslashes where they are escapes. */
static int put_quoted(struct printer *p, const char *s, char quote)
{
    const char quotes[] = { quote, p->dialect == DIALECT_CLICKHOUSE ? '\\' : '\0', '\0' };
    return buf_append_quoted(p->out, quotes, s, p->err);
}

int compile_put_name(struct printer *p, const char *name)
{
    return put_quoted(p, name, '"');
}

int compile_put_text(struct printer *p, const char *text)
{
    return put_quoted(p, text, '\'');
}

int compile_put_column(struct printer *p, const char *table, const char *column)
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
    if (p->dialect != DIALECT_DUCKDB) {
        int other = dialect_put_binary(p, at, e);
        if (other <= 0)
            return other;
    }
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
    bool duck = p->dialect == DIALECT_DUCKDB; /* others do not divide by 0 */
    int r = put(p, "(100.0 * ");
    if (r >= 0)
        r = put_expr(p, at, e->args[0], BIND_ATOM);
    if (r >= 0)
        r = put(p, duck ? " / SUM(" : " / NULLIF(SUM(");
    if (r >= 0)
        r = put_expr(p, at, e->args[0], BIND_OR);
    if (r >= 0)
        r = put(p, ") OVER (");
    if (r >= 0)
        r = put_over(p, at, e, "PARTITION BY ");
    return r < 0 ? r : put(p, duck ? "))" : "), 0))");
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
    if (p->dialect != DIALECT_DUCKDB) {
        int other = dialect_put_call(p, at, e);
        if (other <= 0)
            return other;
    }
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

    if (p->dialect != DIALECT_DUCKDB) {
        int other = dialect_put_aggregate(p, at, e);
        if (other <= 0)
            return other;
    }

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
    if (p->dialect != DIALECT_DUCKDB)
        return dialect_put_bucket(p, at, e);
    int r = date ? put(p, "CAST(") : 0;

    if (r >= 0)
        r = buf_printf(p->out, p->err, "date_trunc('%s', ", plan_bucket_names[e->bucket]);
    if (r >= 0)
        r = put_expr(p, at, e->args[0], BIND_OR);
    return r < 0 ? r : put(p, date ? ") AS DATE)" : ")");
}

/* What the first argument of a predicate is compared with. */
static int put_bound(struct printer *p, const struct standpoint *at, const struct expr *e, size_t i)
{
    if (p->dialect == DIALECT_CLICKHOUSE && e->args[i]->kind == EXPR_STRING)
        return clickhouse_put_text(p, check_type_of(at, e->args[0]), e->args[i]->text);
    return put_expr(p, at, e->args[i], BIND_CONCAT);
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
        for (size_t i = 1; i < e->n_args && r >= 0; i++) {
            r = put(p, i > 1 ? ", " : "");
            if (r >= 0)
                r = put_bound(p, at, e, i);
        }
        return r < 0 ? r : put(p, ")");
    default: /* EXPR_BETWEEN */
        r = buf_printf(p->out, p->err, "%s BETWEEN ", negation);
        if (r >= 0)
            r = put_bound(p, at, e, 1);
        if (r >= 0)
            r = put(p, " AND ");
        return r < 0 ? r : put_bound(p, at, e, 2);
    }
}

/* ClickHouse has numbers for truth values. */
static int put_truth(struct printer *p, bool truth)
{
    bool number = p->dialect == DIALECT_CLICKHOUSE;
    return put(p, truth ? number ? "1" : "TRUE" : number ? "0" : "FALSE");
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
        return put_truth(p, !e->negated);
    case EXPR_NULL:
        return put(p, "NULL");
    case EXPR_NEGATE: /* parentheses unless it is an atom: "--" would begin a comment */
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
        if (p->dialect != DIALECT_DUCKDB)
            return dialect_put_cast(p, at, e);
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

int compile_put_expr(struct printer *p, const struct standpoint *at, const struct expr *e,
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

static int put_value(struct printer *p, enum plan_type other, const struct plan_value *v)
{
    char digits[EXPR_DOUBLE_SIZE];

    switch (v->type) {
    case VALUE_BOOL:
        return put_truth(p, v->b);
    case VALUE_INT:
        return buf_printf(p->out, p->err, "%lld", v->i);
    case VALUE_REAL:
        expr_from_double(v->d, digits);
        return put(p, digits);
    case VALUE_TEXT:
        return p->dialect == DIALECT_CLICKHOUSE ? clickhouse_put_text(p, other, v->s) :
                                                  put_text(p, v->s);
    default:
        return put(p, "NULL");
    }
}

static const char *lower(const struct printer *p)
{
    return p->dialect == DIALECT_CLICKHOUSE ? "lowerUTF8(" : "lower(";
}

/* lower('…') when case is ignored. */
static int put_folded(struct printer *p, const struct standpoint *at, const struct plan_filter *f,
                      size_t i)
{
    if (!f->ignore_case)
        return put_value(p, check_type_of(at, f->operand.what), &f->values[i]);
    int r = put(p, lower(p));
    if (r >= 0)
        r = put_value(p, TYPE_TEXT, &f->values[i]);
    return r < 0 ? r : put(p, ")");
}

/*
 * '%…%' ESCAPE '\', with what LIKE would read as a wildcard escaped. ClickHouse has no other
 * escape, and reads backslashes of strings before LIKE does.
 */
static int put_pattern(struct printer *p, const struct plan_filter *f)
{
    bool click = p->dialect == DIALECT_CLICKHOUSE;
    bool open_start = f->op != FILTER_STARTSWITH, open_end = f->op != FILTER_ENDSWITH;
    int r = put(p, open_start ? "'%" : "'");

    for (const char *s = f->values[0].s; *s && r >= 0; s++) {
        if (*s == '%' || *s == '_' || *s == '\\')
            r = put(p, click && *s == '\\' ? "\\\\\\" : click ? "\\\\" : "\\");
        else if (*s == '\'')
            r = put(p, "'");
        if (r >= 0)
            r = buf_append(p->out, s, 1, p->err);
    }
    if (r >= 0 && click)
        return put(p, open_end ? "%'" : "'");
    return r < 0 ? r : put(p, open_end ? "%' ESCAPE '\\'" : "' ESCAPE '\\'");
}

/* LIKE of SQLite ignores the case of letters; GLOB does not, and has other wildcards. */
static int put_substring(struct printer *p, const struct plan_filter *f)
{
    bool open_start = f->op != FILTER_STARTSWITH, open_end = f->op != FILTER_ENDSWITH;
    int r = put(p, f->op == FILTER_NOT_CONTAINS ? " NOT GLOB '" : " GLOB '");

    if (r >= 0 && open_start)
        r = put(p, "*");
    for (const char *s = f->values[0].s; *s && r >= 0; s++) {
        if (*s == '*' || *s == '?' || *s == '[')
            r = buf_printf(p->out, p->err, "[%c]", *s);
        else
            r = *s == '\'' ? put(p, "''") : buf_append(p->out, s, 1, p->err);
    }
    return r < 0 ? r : put(p, open_end ? "*'" : "'");
}

/* ClickHouse 18 has no ILIKE. */
static int put_click_like(struct printer *p, const struct standpoint *at,
                          const struct plan_filter *f)
{
    int r = put(p, f->ignore_case ? "lowerUTF8(toString(" : "toString(");
    if (r >= 0)
        r = put_expr(p, at, f->operand.what, BIND_OR);
    if (r >= 0)
        r = buf_printf(p->out, p->err, "%s %sLIKE %s", f->ignore_case ? "))" : ")",
                       f->op == FILTER_NOT_CONTAINS ? "NOT " : "",
                       f->ignore_case ? "lowerUTF8(" : "");
    if (r >= 0)
        r = put_pattern(p, f);
    return r < 0 || !f->ignore_case ? r : put(p, ")");
}

static int put_like(struct printer *p, const struct standpoint *at, const struct plan_filter *f)
{
    enum plan_type t = check_type_of(at, f->operand.what);
    bool cast = t != TYPE_UNKNOWN && t != TYPE_TEXT; /* LIKE is for text only */
    if (p->dialect == DIALECT_CLICKHOUSE)
        return put_click_like(p, at, f);
    int r = cast ? put(p, "CAST(") : 0;

    if (r >= 0)
        r = put_expr(p, at, f->operand.what, cast ? BIND_OR : BIND_CONCAT);
    if (r >= 0 && cast)
        r = put(p, " AS VARCHAR)");
    if (r >= 0 && p->dialect == DIALECT_SQLITE && !f->ignore_case)
        return put_substring(p, f);
    if (r >= 0)
        r = buf_printf(p->out, p->err, " %s%s ", f->op == FILTER_NOT_CONTAINS ? "NOT " : "",
                       f->ignore_case && p->dialect != DIALECT_SQLITE ? "ILIKE" : "LIKE");
    return r < 0 ? r : put_pattern(p, f);
}

static int put_operand(struct printer *p, const struct standpoint *at, const struct plan_filter *f)
{
    if (!f->ignore_case)
        return put_expr(p, at, f->operand.what, BIND_CONCAT);
    int r = put(p, lower(p));
    if (r >= 0)
        r = put_expr(p, at, f->operand.what, BIND_OR);
    return r < 0 ? r : put(p, ")");
}

/* The name of an item's column in the result; NULL: it has none of its own. */
const char *compile_item_name(const struct scope *s, size_t i)
{
    const struct plan_item *item = &s->plan->select[i];
    const struct standpoint at = { .scope = s, .place = PLACE_SELECT, .item = i };
    struct target t;
    if (item->alias || item->operand.what->kind != EXPR_COLUMN)
        return item->alias;
    return scope_resolve(&at, item->operand.what, &t, NULL) < 0 ? NULL :
           t.item                                               ? t.item->alias :
                                                                  t.name;
}

/* The end of a list that an inner plan gives, without what is NULL. */
static int put_not_null(struct printer *p, const struct query_plan *inner,
                        const struct plan_schema *schema)
{
    if (p->dialect != DIALECT_SQLITE && p->dialect != DIALECT_CLICKHOUSE)
        return put(p, "\n) AS \"list\"(\"item\")\nWHERE \"item\" IS NOT NULL");
    struct scope *s = malloc(sizeof(*s));
    if (!s)
        return err_set(p->err, ERR_NO_MEMORY, "out of memory");
    int r = scope_init(s, inner, schema, p->err);
    const char *name = r >= 0 && inner->n_select == 1 ? item_name(s, 0) : NULL;
    if (r >= 0 && !name)
        r = err_set(p->err, ERR_VALIDATION, "the list of a 'not in' needs one item with an alias");
    if (r >= 0)
        r = put(p, "\n) AS \"list\"\nWHERE ");
    if (r >= 0)
        r = put_name(p, name);
    free(s);
    return r < 0 ? r : put(p, " IS NOT NULL");
}

/* x NOT IN (…) is true for no row once the list has a null: those are left out of it. */
static int put_compared_plan(struct printer *p, const struct standpoint *at,
                             const struct plan_filter *f)
{
    const char *op = f->op == FILTER_IN     ? "IN" :
                     f->op == FILTER_NOT_IN ? "NOT IN" :
                                              plan_filter_op_names[f->op];
    bool list = f->op == FILTER_IN || f->op == FILTER_NOT_IN;
    int r = buf_printf(p->out, p->err, " %s%s (\n",
                       list && p->dialect == DIALECT_CLICKHOUSE ? "GLOBAL " : "", op);
    if (r >= 0 && f->op == FILTER_NOT_IN)
        r = put(p, "SELECT * FROM (\n");
    if (r >= 0)
        r = put_plan(p, f->plan, at->scope->schema, true);
    if (r >= 0 && f->op == FILTER_NOT_IN)
        r = put_not_null(p, f->plan, at->scope->schema);
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
            r = put_value(p, check_type_of(at, f->operand.what), &f->values[0]);
        if (r >= 0)
            r = put(p, " AND ");
        return r < 0 ? r : put_value(p, check_type_of(at, f->operand.what), &f->values[1]);
    case FILTER_IN:
    case FILTER_NOT_IN:
        r = put(p, f->op == FILTER_IN ? " IN (" : " NOT IN (");
        for (size_t i = 0; i < f->n_values && r >= 0; i++) {
            if (i > 0)
                r = put(p, ", ");
            if (r >= 0)
                r = put_folded(p, at, f, i);
        }
        return r < 0 ? r : put(p, ")");
    default:
        r = buf_printf(p->out, p->err, " %s ", plan_filter_op_names[f->op]);
        return r < 0 ? r : put_folded(p, at, f, 0);
    }
}

int compile_put_filter(struct printer *p, const struct standpoint *at, const struct plan_filter *f)
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

bool compile_looks_around(const struct plan_filter *f)
{
    if (f->kind == FILTER_CONDITION)
        return expr_has_window(f->operand.what);
    for (size_t i = 0; i < (f->kind == FILTER_NOT ? 1 : f->n_parts); i++)
        if (looks_around(&f->parts[i]))
            return true;
    return false;
}
