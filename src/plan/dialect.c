/*
 * Forms of PostgreSQL and SQLite for what DuckDB writes otherwise; those of ClickHouse are in
 * dialect_clickhouse.c. A form is a text in which $1, $2, … stand for the arguments, written
 * between parentheses unless they are single words.
 */

#include "plan/compile_impl.h"

#include <string.h>

#include "base/macros.h"
#include "base/str.h"

static const char *const engine_names[_PLAN_DIALECT_MAX] = { "DuckDB", "PostgreSQL", "SQLite",
                                                             "ClickHouse" };

static int has_none(struct printer *p, const char *what)
{
    return err_set(p->err, ERR_VALIDATION, "%s has no %s", engine_names[p->dialect], what);
}

int dialect_put_form(struct printer *p, const struct standpoint *at, const char *form,
                     const struct expr *const *args, size_t n_args)
{
    int r = 0;

    while (*form && r >= 0) {
        size_t n = strcspn(form, "$");

        r = buf_append(p->out, form, n, p->err);
        form += n;
        if (r < 0 || !*form)
            break;
        size_t i = (size_t)(form[1] - '1');
        bool is_place = form[1] >= '1' && form[1] <= '9';
        if (!is_place) /* the end of a line in a pattern */
            r = put(p, "$");
        else if (i < n_args)
            r = put_expr(p, at, args[i], BIND_ATOM);
        form += is_place ? 2 : 1;
    }
    return r;
}

static int put_form_of(struct printer *p, const struct standpoint *at, const char *form,
                       const struct expr *e)
{
    return dialect_put_form(p, at, form, (const struct expr *const *)e->args, e->n_args);
}

/* ---- functions ---- */

struct form {
    const char *name;
    const char *unit;              /* of date_add, date_diff and date_trunc; NULL: any */
    const char *postgres, *sqlite; /* NULL: as DuckDB writes it */
};

#define PG_PART(part) "CAST(EXTRACT(" part " FROM $1) AS BIGINT)"
#define LITE_PART(part) "CAST(strftime('" part "', $1) AS INTEGER)"
#define PG_CLOCK(unit, seconds)                                                                    \
    "CAST((EXTRACT(EPOCH FROM date_trunc('" unit "', $3)) - EXTRACT(EPOCH FROM date_trunc('" unit  \
    "', $2))) / " seconds " AS BIGINT)"
#define LITE_CLOCK(format, per_day)                                                                \
    "CAST(round((julianday(strftime('" format "', $3)) - julianday(strftime('" format              \
    "', $2))) * " per_day ") AS INTEGER)"
#define LITE_MONDAY(x) "date(" x ", 'weekday 0', '-6 days')"
#define LITE_YEAR(x) "CAST(strftime('%Y', " x ") AS INTEGER)"
#define LITE_MONTH(x) "CAST(strftime('%m', " x ") AS INTEGER)"
#define LITE_QUARTER_START(x)                                                                      \
    "strftime('%Y-', " x ") || substr('0' || ((" LITE_MONTH(x) " - 1) / 3 * 3 + 1), -2) || '-01'"

static const struct form forms[] = {
    { "sign", NULL, "CAST(sign($1) AS BIGINT)", NULL },
    { "ceil", NULL, "ceil(CAST($1 AS DOUBLE PRECISION))", NULL },
    { "floor", NULL, "floor(CAST($1 AS DOUBLE PRECISION))", NULL },
    { "exp", NULL, "exp(CAST($1 AS DOUBLE PRECISION))", NULL },
    { "ln", NULL, "ln(CAST($1 AS DOUBLE PRECISION))", NULL },
    { "log10", NULL, "log(CAST($1 AS DOUBLE PRECISION))", NULL },
    { "sqrt", NULL, "sqrt(CAST($1 AS DOUBLE PRECISION))", NULL },
    { "power", NULL, "power(CAST($1 AS DOUBLE PRECISION), $2)", NULL },
    { "contains", NULL, "(strpos($1, $2) > 0)", "(instr($1, $2) > 0)" },
    { "ends_with", NULL, "(right($1, length($2)) = $2)", "(substr($1, -length($2)) = $2)" },
    { "starts_with", NULL, NULL, "(substr($1, 1, length($2)) = $2)" },
    { "left", NULL, NULL, "substr($1, 1, $2)" },
    { "right", NULL, NULL, "substr($1, -($2))" },
    { "day", NULL, PG_PART("DAY"), LITE_PART("%d") },
    { "dayofweek", NULL, PG_PART("DOW"), LITE_PART("%w") },
    { "dayofyear", NULL, PG_PART("DOY"), LITE_PART("%j") },
    { "hour", NULL, PG_PART("HOUR"), LITE_PART("%H") },
    { "minute", NULL, PG_PART("MINUTE"), LITE_PART("%M") },
    { "month", NULL, PG_PART("MONTH"), LITE_PART("%m") },
    { "quarter", NULL, PG_PART("QUARTER"), "((" LITE_MONTH("$1") " + 2) / 3)" },
    { "week", NULL, PG_PART("WEEK"),
      "((CAST(strftime('%j', date($1, '-3 days', 'weekday 4')) AS INTEGER) - 1) / 7 + 1)" },
    { "year", NULL, PG_PART("YEAR"), LITE_PART("%Y") },
    { "dayname", NULL, "to_char($1, 'FMDay')",
      "CASE strftime('%w', $1) WHEN '0' THEN 'Sunday' WHEN '1' THEN 'Monday' WHEN '2' THEN "
      "'Tuesday' WHEN '3' THEN 'Wednesday' WHEN '4' THEN 'Thursday' WHEN '5' THEN 'Friday' WHEN "
      "'6' THEN 'Saturday' END" },
    { "monthname", NULL, "to_char($1, 'FMMonth')",
      "CASE strftime('%m', $1) WHEN '01' THEN 'January' WHEN '02' THEN 'February' WHEN '03' THEN "
      "'March' WHEN '04' THEN 'April' WHEN '05' THEN 'May' WHEN '06' THEN 'June' WHEN '07' THEN "
      "'July' WHEN '08' THEN 'August' WHEN '09' THEN 'September' WHEN '10' THEN 'October' WHEN "
      "'11' THEN 'November' WHEN '12' THEN 'December' END" },
    { "last_day", NULL, "CAST(date_trunc('month', $1) + INTERVAL '1 month - 1 day' AS DATE)",
      "date($1, 'start of month', '+1 month', '-1 day')" },
    { "today", NULL, "CURRENT_DATE", "date('now')" },
    { "date_add", "quarter", "(CAST($3 AS TIMESTAMP) + ($2) * INTERVAL '3 months')",
      "datetime($3, ($2 * 3) || ' months')" },
    { "date_add", "week", "(CAST($3 AS TIMESTAMP) + ($2) * INTERVAL '7 days')",
      "datetime($3, ($2 * 7) || ' days')" },
    { "date_add", "year", "(CAST($3 AS TIMESTAMP) + ($2) * INTERVAL '1 year')",
      "datetime($3, ($2) || ' years')" },
    { "date_add", "month", "(CAST($3 AS TIMESTAMP) + ($2) * INTERVAL '1 month')",
      "datetime($3, ($2) || ' months')" },
    { "date_add", "day", "(CAST($3 AS TIMESTAMP) + ($2) * INTERVAL '1 day')",
      "datetime($3, ($2) || ' days')" },
    { "date_add", "hour", "(CAST($3 AS TIMESTAMP) + ($2) * INTERVAL '1 hour')",
      "datetime($3, ($2) || ' hours')" },
    { "date_add", "minute", "(CAST($3 AS TIMESTAMP) + ($2) * INTERVAL '1 minute')",
      "datetime($3, ($2) || ' minutes')" },
    { "date_add", "second", "(CAST($3 AS TIMESTAMP) + ($2) * INTERVAL '1 second')",
      "datetime($3, ($2) || ' seconds')" },
    { "date_diff", "year", "CAST(EXTRACT(YEAR FROM $3) - EXTRACT(YEAR FROM $2) AS BIGINT)",
      "(" LITE_YEAR("$3") " - " LITE_YEAR("$2") ")" },
    { "date_diff", "quarter",
      "CAST((EXTRACT(YEAR FROM $3) - EXTRACT(YEAR FROM $2)) * 4 + EXTRACT(QUARTER FROM $3) - "
      "EXTRACT(QUARTER FROM $2) AS BIGINT)",
      "((" LITE_YEAR("$3") " - " LITE_YEAR("$2") ") * 4 + (" LITE_MONTH(
          "$3") " + 2) / 3 - "
                "(" LITE_MONTH("$2") " + 2) / 3)" },
    { "date_diff", "month",
      "CAST((EXTRACT(YEAR FROM $3) - EXTRACT(YEAR FROM $2)) * 12 + EXTRACT(MONTH FROM $3) - "
      "EXTRACT(MONTH FROM $2) AS BIGINT)",
      "((" LITE_YEAR("$3") " - " LITE_YEAR("$2") ") * 12 + " LITE_MONTH("$3") " - " LITE_MONTH(
          "$2") ")" },
    { "date_diff", "week", "((CAST($3 AS DATE) - CAST($2 AS DATE)) / 7)",
      "CAST((julianday(date($3)) - julianday(date($2))) / 7 AS INTEGER)" },
    { "date_diff", "day", "(CAST($3 AS DATE) - CAST($2 AS DATE))",
      "CAST(round(julianday(date($3)) - julianday(date($2))) AS INTEGER)" },
    { "date_diff", "hour", PG_CLOCK("hour", "3600"), LITE_CLOCK("%Y-%m-%d %H:00:00", "24") },
    { "date_diff", "minute", PG_CLOCK("minute", "60"), LITE_CLOCK("%Y-%m-%d %H:%M:00", "1440") },
    { "date_diff", "second", PG_CLOCK("second", "1"), LITE_CLOCK("%Y-%m-%d %H:%M:%S", "86400") },
    { "date_trunc", "year", NULL, "strftime('%Y-01-01', $2)" },
    { "date_trunc", "quarter", NULL, "(" LITE_QUARTER_START("$2") ")" },
    { "date_trunc", "month", NULL, "strftime('%Y-%m-01', $2)" },
    { "date_trunc", "week", NULL, LITE_MONDAY("$2") },
    { "date_trunc", "day", NULL, "date($2)" },
    { "date_trunc", "hour", NULL, "strftime('%Y-%m-%d %H:00:00', $2)" },
    { "date_trunc", "minute", NULL, "strftime('%Y-%m-%d %H:%M:00', $2)" },
    { "date_trunc", "second", NULL, "strftime('%Y-%m-%d %H:%M:%S', $2)" },
};

static const char *find_form(const struct printer *p, const char *name, const char *unit)
{
    if (p->dialect == DIALECT_CLICKHOUSE)
        return clickhouse_form(name, unit);
    for (size_t i = 0; i < ARRAY_SIZE(forms); i++)
        if (str_eq(forms[i].name, name) && (!forms[i].unit || str_ieq(forms[i].unit, unit)))
            return p->dialect == DIALECT_SQLITE ? forms[i].sqlite : forms[i].postgres;
    return NULL;
}

/* A function of any number of arguments. */
static int put_list(struct printer *p, const struct standpoint *at, const struct expr *e,
                    const char *begin, const char *between, const char *before, const char *behind)
{
    int r = put(p, begin);

    for (size_t i = 0; i < e->n_args && r >= 0; i++) {
        r = put(p, i > 0 ? between : "");
        if (r >= 0)
            r = put(p, before);
        if (r >= 0)
            r = put_expr(p, at, e->args[i], BIND_OR);
        if (r >= 0)
            r = put(p, behind);
    }
    return r < 0 ? r : put(p, ")");
}

/*
 * PostgreSQL rounds to digits only what is exact, and halves of what is not to even numbers. SQLite
 * rounds to digits what is stored, not what is written: 33.65 is a little less, so it gives 33.6
 * (from 3.43 on), where the others give 33.7.
 */
static int put_round(struct printer *p, const struct standpoint *at, const struct expr *e)
{
    if (p->dialect == DIALECT_SQLITE)
        return put_form_of(
            p, at, e->n_args > 1 ? "(round($1 * power(10, $2)) / power(10, $2))" : "round($1)", e);
    return put_form_of(p, at,
                       e->n_args > 1 ? "CAST(round(CAST($1 AS NUMERIC), $2) AS DOUBLE PRECISION)" :
                                       "CAST(round(CAST($1 AS NUMERIC)) AS DOUBLE PRECISION)",
                       e);
}

int dialect_put_call(struct printer *p, const struct standpoint *at, const struct expr *e)
{
    if (p->dialect == DIALECT_CLICKHOUSE)
        return clickhouse_put_call(p, at, e);
    const char *name = e->call->name;
    bool lite = p->dialect == DIALECT_SQLITE;
    const char *unit = e->n_args > 0 && e->args[0]->kind == EXPR_STRING ? e->args[0]->text : "";
    const char *form = find_form(p, name, unit);

    if (form)
        return put_form_of(p, at, form, e);
    if (str_eq(name, "round"))
        return put_round(p, at, e);
    if (!lite && str_eq(name, "date_trunc")) {
        int r = put(p, "date_trunc(");
        if (r >= 0)
            r = put_text(p, unit);
        return r < 0 ? r : put_form_of(p, at, ", CAST($2 AS TIMESTAMP))", e);
    }
    if (lite && str_eq(name, "concat"))
        return put_list(p, at, e, "(", " || ", "coalesce(", ", '')");
    if (lite && (str_eq(name, "greatest") || str_eq(name, "least")))
        return put_list(p, at, e,
                        e->n_args < 2         ? "(" :
                        str_eq(name, "least") ? "min(" :
                                                "max(",
                        ", ", "", "");
    return 1;
}

int dialect_put_bucket(struct printer *p, const struct standpoint *at, const struct expr *e)
{
    const char *unit = plan_bucket_names[e->bucket];
    const char *form = find_form(p, "date_trunc", unit);
    const struct expr *const args[] = { e->args[0], e->args[0] };
    if (form) /* its argument is the second one of date_trunc() */
        return dialect_put_form(p, at, form, args, 2);
    bool date = e->bucket != BUCKET_HOUR;
    int r = buf_printf(p->out, p->err, "%sdate_trunc('%s', ", date ? "CAST(" : "", unit);
    if (r >= 0)
        r = dialect_put_form(p, at, "CAST($1 AS TIMESTAMP))", args, 1);
    return r < 0 || !date ? r : put(p, " AS DATE)");
}

/* ---- operators and types ---- */

int dialect_put_binary(struct printer *p, const struct standpoint *at, const struct expr *e)
{
    if (p->dialect == DIALECT_CLICKHOUSE)
        return clickhouse_put_binary(p, at, e);
    bool lite = p->dialect == DIALECT_SQLITE;
    bool whole = check_type_of(at, e->args[0]) == TYPE_INTEGER &&
                 check_type_of(at, e->args[1]) == TYPE_INTEGER;

    if (e->op == OP_DIV)
        return put_form_of(
            p, at,
            lite ? "(CAST($1 AS REAL) / $2)" : "(CAST($1 AS DOUBLE PRECISION) / NULLIF($2, 0))", e);
    if (e->op == OP_MOD && !lite)
        return put_form_of(p, at,
                           whole ? "($1 % NULLIF($2, 0))" :
                                   "CAST(CAST($1 AS NUMERIC) % NULLIF(CAST($2 AS NUMERIC), "
                                   "0) AS DOUBLE PRECISION)",
                           e);
    return 1;
}

const char *dialect_type(const struct printer *p, enum plan_type type)
{
    static const char *const lite[_PLAN_TYPE_MAX] = {
        [TYPE_INTEGER] = "INTEGER", [TYPE_NUMBER] = "REAL", [TYPE_TEXT] = "TEXT"
    };
    if (p->dialect == DIALECT_SQLITE && lite[type])
        return lite[type];
    if (p->dialect == DIALECT_CLICKHOUSE)
        return clickhouse_type(type);
    if (p->dialect == DIALECT_POSTGRES && type == TYPE_NUMBER)
        return "DOUBLE PRECISION";
    return plan_type_sql[type];
}

/*
 * DuckDB's TRY_CAST gives NULL for a text that is no such value. Others have no such cast, so the
 * text is looked at first. In PostgreSQL a date that the calendar does not have still fails.
 */
int dialect_put_cast(struct printer *p, const struct standpoint *at, const struct expr *e)
{
    if (p->dialect == DIALECT_CLICKHOUSE)
        return clickhouse_put_cast(p, at, e);
    static const char *const patterns[_PLAN_TYPE_MAX] = {
        [TYPE_INTEGER] = "^ *[-+]?[0-9]{1,18} *$",
        [TYPE_NUMBER] = "^ *[-+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][-+]?[0-9]{1,2})? *$",
        [TYPE_DATE] = "^ *[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])",
        [TYPE_TIMESTAMP] = "^ *[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])",
        [TYPE_BOOL] = "^ *(t|true|f|false|yes|no|0|1) *$",
    };
    bool lite = p->dialect == DIALECT_SQLITE;
    if (lite && (e->type == TYPE_DATE || e->type == TYPE_TIMESTAMP))
        return put_form_of(p, at, e->type == TYPE_DATE ? "date($1)" : "datetime($1)", e);
    enum plan_type from = check_type_of(at, e->args[0]);
    bool text = from == TYPE_TEXT || from == TYPE_UNKNOWN;
    if (lite && text && check_is_number(e->type))
        return put_form_of(p, at,
                           e->type == TYPE_NUMBER ?
                               "CASE WHEN trim($1) GLOB '[-+.0-9]*' AND trim($1) NOT GLOB "
                               "'*[^-+.0-9eE]*' THEN CAST($1 AS REAL) END" :
                               "CASE WHEN trim($1) GLOB '[-+0-9]*' AND trim($1) NOT GLOB "
                               "'*[^-+0-9]*' THEN CAST($1 AS INTEGER) END",
                           e);
    bool looks = !lite && patterns[e->type] && text;
    int r = looks ? put_form_of(p, at, "CASE WHEN $1 ~* '", e) : 0;
    if (r >= 0 && looks)
        r = put(p, patterns[e->type]);
    if (r >= 0)
        r = put_form_of(p, at, looks ? "' THEN CAST($1 AS " : "CAST($1 AS ", e);
    if (r >= 0)
        r = put(p, dialect_type(p, e->type));
    return r < 0 ? r : put(p, looks ? ") END" : ")");
}

/* ---- aggregates ---- */

/* Those of DuckDB that have another name or another form; of $1, a number is meant. */
static const struct {
    enum plan_func func;
    const char *postgres, *sqlite; /* "": the engine has none */
} aggregates[] = {
    { FUNC_AVG, "AVG(CAST($1 AS DOUBLE PRECISION))", "AVG($1)" },
    { FUNC_MEDIAN, "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY CAST($1 AS DOUBLE PRECISION))",
      "" },
    { FUNC_MODE, "MODE() WITHIN GROUP (ORDER BY $1)", "" },
    { FUNC_QUANTILE, "", "" },
    { FUNC_STDDEV, "STDDEV(CAST($1 AS DOUBLE PRECISION))",
      "sqrt((SUM(1.0 * $1 * $1) - SUM(1.0 * $1) * SUM(1.0 * $1) / COUNT($1)) / NULLIF(COUNT($1) - "
      "1, 0))" },
    { FUNC_VARIANCE, "VARIANCE(CAST($1 AS DOUBLE PRECISION))",
      "((SUM(1.0 * $1 * $1) - SUM(1.0 * $1) * SUM(1.0 * $1) / COUNT($1)) / NULLIF(COUNT($1) - 1, "
      "0))" },
    { FUNC_CORR, "CORR(CAST($1 AS DOUBLE PRECISION), CAST($2 AS DOUBLE PRECISION))", "" },
};

static int put_quantile(struct printer *p, const struct standpoint *at, const struct expr *e)
{
    char digits[EXPR_DOUBLE_SIZE];
    expr_from_double(e->quantile, digits);
    int r = buf_printf(p->out, p->err, "PERCENTILE_CONT(%s) WITHIN GROUP (ORDER BY ", digits);
    return r < 0 ? r : put_form_of(p, at, "CAST($1 AS DOUBLE PRECISION))", e);
}

int dialect_put_aggregate(struct printer *p, const struct standpoint *at, const struct expr *e)
{
    if (p->dialect == DIALECT_CLICKHOUSE)
        return clickhouse_put_aggregate(p, at, e);
    struct standpoint in = *at;
    bool lite = p->dialect == DIALECT_SQLITE;

    in.in_aggregate = true;
    if (e->n_args == 0)
        return 1;
    enum plan_type type = check_type_of(&in, e->args[0]);
    bool truth = type == TYPE_BOOL && !lite;
    if (truth && (e->func == FUNC_MIN || e->func == FUNC_MAX))
        return put_form_of(p, &in, e->func == FUNC_MIN ? "BOOL_AND($1)" : "BOOL_OR($1)", e);
    if (truth && e->func == FUNC_SUM)
        return put_form_of(p, &in, "SUM(CAST($1 AS INTEGER))", e);
    if (truth && (e->func == FUNC_AVG || e->func == FUNC_STDDEV || e->func == FUNC_VARIANCE))
        return buf_printf(p->out, p->err, "%s(",
                          e->func == FUNC_AVG    ? "AVG" :
                          e->func == FUNC_STDDEV ? "STDDEV" :
                                                   "VARIANCE") < 0 ?
                   -(int)p->err->code :
                   put_form_of(p, &in, "CAST(CAST($1 AS INTEGER) AS DOUBLE PRECISION))", e);
    if (check_is_time(type) &&
        (e->func == FUNC_MEDIAN || e->func == FUNC_QUANTILE || e->func == FUNC_AVG))
        return has_none(p, "average, median and quantile of dates");
    if (e->func == FUNC_QUANTILE && !lite)
        return put_quantile(p, &in, e);
    for (size_t i = 0; i < ARRAY_SIZE(aggregates); i++) {
        const char *form = lite ? aggregates[i].sqlite : aggregates[i].postgres;

        if (aggregates[i].func != e->func)
            continue;
        return *form ? put_form_of(p, &in, form, e) : has_none(p, plan_func_names[e->func]);
    }
    return 1;
}

/* ---- descriptions ---- */

static int put_statistics(struct printer *p, const struct plan_column *c, const char *table)
{
    bool number = c->type == TYPE_INTEGER || c->type == TYPE_NUMBER;
    bool ordered = number || c->type == TYPE_DATE || c->type == TYPE_TIMESTAMP ||
                   c->type == TYPE_TEXT;
    const char *const parts[] = { ordered ? "CAST(MIN(" : NULL, ordered ? "CAST(MAX(" : NULL,
                                  "COUNT(DISTINCT ", number ? "AVG(" : NULL, "COUNT(" };
    static const char *const names[] = { "min", "max", "approx_unique", "avg", "count" };
    int r = 0;

    for (size_t i = 0; i < ARRAY_SIZE(parts) && r >= 0; i++) {
        const char *text = dialect_type(p, TYPE_TEXT), *real = dialect_type(p, TYPE_NUMBER);
        if (!parts[i]) {
            r = buf_printf(p->out, p->err, ", CAST(NULL AS %s) AS %s", i < 2 ? text : real,
                           names[i]);
            continue;
        }
        r = buf_printf(p->out, p->err, ", %s%s", i == 3 ? "CAST(" : "", parts[i]);
        if (r >= 0)
            r = put_name(p, c->name);
        if (r >= 0)
            r = put(p, ")");
        if (r >= 0 && (i < 2 || i == 3))
            r = buf_printf(p->out, p->err, " AS %s)", i == 3 ? real : text);
        if (r >= 0)
            r = buf_printf(p->out, p->err, " AS %s", names[i]);
    }
    if (r >= 0)
        r = put(p, " FROM ");
    return r < 0 ? r : put_name(p, table);
}

/* ClickHouse gives rows of a UNION in any order. */
static int put_place(struct printer *p, size_t i)
{
    return p->dialect == DIALECT_CLICKHOUSE ? buf_printf(p->out, p->err, ", %zu AS place", i) : 0;
}

int dialect_put_description(struct printer *p, const struct scope *s)
{
    const struct plan_table *t = s->tables[0];
    bool click = p->dialect == DIALECT_CLICKHOUSE;
    bool statistics = s->plan->describe == DESCRIBE_STATISTICS;
    int r = t ? 0 : has_none(p, "description of a table that is not known");

    if (r >= 0 && click)
        r = put(p, statistics ? "SELECT column_name, column_type, min, max, approx_unique, avg, "
                                "count FROM (\n" :
                                "SELECT column_name, column_type FROM (\n");
    for (size_t i = 0; r >= 0 && i < t->n_columns; i++) {
        r = put(p, i > 0 ? "\nUNION ALL SELECT " : "SELECT ");
        if (r >= 0)
            r = put_text(p, t->columns[i].name);
        if (r >= 0)
            r = put(p, " AS column_name, ");
        if (r >= 0)
            r = put_text(p, plan_type_sql[t->columns[i].type] ? plan_type_sql[t->columns[i].type] :
                                                                t->columns[i].type_name);
        if (r >= 0)
            r = put(p, " AS column_type");
        if (r >= 0)
            r = put_place(p, i);
        if (r >= 0 && statistics)
            r = put_statistics(p, &t->columns[i], t->name);
    }
    return r < 0 || !click ? r : put(p, "\n) ORDER BY place");
}
