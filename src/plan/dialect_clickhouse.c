/*
 * Forms of ClickHouse for what DuckDB writes otherwise, those of version 18 and later. What differs
 * most: there are no truth values, rounding and quantiles mean something else, and a name that is
 * an alias is the alias everywhere, so that a plan whose aliases are names of columns gets an inner
 * query (compile.c).
 */

#include "plan/compile_impl.h"

#include <string.h>

#include "base/macros.h"
#include "base/str.h"

/* ---- functions ---- */

#define DAYS(x) "toInt64(toDate(" x "))"
#define DIFFERENCE(number) "(toInt64(" number "($3)) - toInt64(" number "($2)))"
#define CLOCK(number) "(toInt64(" number "(toDateTime($3))) - toInt64(" number "(toDateTime($2))))"
#define WITHOUT(pattern, x) "replaceRegexpOne(" x ", '" pattern "', '')"

static const struct {
    const char *name;
    const char *unit; /* of date_add, date_diff and date_trunc; NULL: any */
    const char *form;
} forms[] = {
    { "sign", NULL, "CASE WHEN $1 > 0 THEN 1 WHEN $1 < 0 THEN -1 WHEN $1 = 0 THEN 0 END" },
    { "ceil", NULL, "ceil(toFloat64($1))" },
    { "floor", NULL, "floor(toFloat64($1))" },
    { "exp", NULL, "exp(toFloat64($1))" },
    { "ln", NULL, "log(toFloat64($1))" },
    { "log10", NULL, "log10(toFloat64($1))" },
    { "sqrt", NULL, "sqrt(toFloat64($1))" },
    { "power", NULL, "pow(toFloat64($1), toFloat64($2))" },
    { "nullif", NULL, "nullIf($1, $2)" },
    { "contains", NULL, "(position($1, $2) > 0)" },
    { "ends_with", NULL, "endsWith($1, $2)" },
    { "starts_with", NULL, "startsWith($1, $2)" },
    { "left", NULL, "substringUTF8($1, 1, $2)" },
    { "right", NULL, "reverseUTF8(substringUTF8(reverseUTF8($1), 1, $2))" },
    { "length", NULL, "lengthUTF8($1)" },
    { "lower", NULL, "lowerUTF8($1)" },
    { "upper", NULL, "upperUTF8($1)" },
    { "ltrim", NULL, WITHOUT("^ +", "$1") },
    { "rtrim", NULL, WITHOUT(" +$", "$1") },
    { "trim", NULL, WITHOUT(" +$", WITHOUT("^ +", "$1")) },
    { "replace", NULL, "replaceAll($1, $2, $3)" },
    { "day", NULL, "toDayOfMonth($1)" },
    { "dayofweek", NULL, "(toDayOfWeek($1) % 7)" },
    { "dayofyear", NULL, "toDayOfYear($1)" },
    { "hour", NULL, "toHour(toDateTime($1))" },
    { "minute", NULL, "toMinute(toDateTime($1))" },
    { "month", NULL, "toMonth($1)" },
    { "quarter", NULL, "toQuarter($1)" },
    { "week", NULL, "toISOWeek($1)" },
    { "year", NULL, "toYear($1)" },
    { "dayname", NULL,
      "CASE WHEN toDayOfWeek($1) = 1 THEN 'Monday' WHEN toDayOfWeek($1) = 2 THEN 'Tuesday' WHEN "
      "toDayOfWeek($1) = 3 THEN 'Wednesday' WHEN toDayOfWeek($1) = 4 THEN 'Thursday' WHEN "
      "toDayOfWeek($1) = 5 THEN 'Friday' WHEN toDayOfWeek($1) = 6 THEN 'Saturday' WHEN "
      "toDayOfWeek($1) = 7 THEN 'Sunday' END" },
    { "monthname", NULL,
      "CASE WHEN toMonth($1) = 1 THEN 'January' WHEN toMonth($1) = 2 THEN 'February' WHEN "
      "toMonth($1) = 3 THEN 'March' WHEN toMonth($1) = 4 THEN 'April' WHEN toMonth($1) = 5 THEN "
      "'May' WHEN toMonth($1) = 6 THEN 'June' WHEN toMonth($1) = 7 THEN 'July' WHEN toMonth($1) = "
      "8 THEN 'August' WHEN toMonth($1) = 9 THEN 'September' WHEN toMonth($1) = 10 THEN 'October' "
      "WHEN toMonth($1) = 11 THEN 'November' WHEN toMonth($1) = 12 THEN 'December' END" },
    { "last_day", NULL, "subtractDays(addMonths(toStartOfMonth($1), 1), 1)" },
    { "today", NULL, "today()" },
    { "date_add", "year", "addYears($3, $2)" },
    { "date_add", "quarter", "addMonths($3, ($2) * 3)" },
    { "date_add", "month", "addMonths($3, $2)" },
    { "date_add", "week", "addWeeks($3, $2)" },
    { "date_add", "day", "addDays($3, $2)" },
    { "date_add", "hour", "addHours(toDateTime($3), $2)" },
    { "date_add", "minute", "addMinutes(toDateTime($3), $2)" },
    { "date_add", "second", "addSeconds(toDateTime($3), $2)" },
    { "date_diff", "year", DIFFERENCE("toYear") },
    { "date_diff", "quarter", DIFFERENCE("toRelativeQuarterNum") },
    { "date_diff", "month", DIFFERENCE("toRelativeMonthNum") },
    { "date_diff", "week", "intDiv(" DAYS("$3") " - " DAYS("$2") ", 7)" },
    { "date_diff", "day", "(" DAYS("$3") " - " DAYS("$2") ")" },
    { "date_diff", "hour", CLOCK("toRelativeHourNum") },
    { "date_diff", "minute", CLOCK("toRelativeMinuteNum") },
    { "date_diff", "second", CLOCK("toRelativeSecondNum") },
    { "date_trunc", "year", "toStartOfYear($2)" },
    { "date_trunc", "quarter", "toStartOfQuarter($2)" },
    { "date_trunc", "month", "toStartOfMonth($2)" },
    { "date_trunc", "week", "toMonday($2)" },
    { "date_trunc", "day", "toDate($2)" },
    { "date_trunc", "hour", "toStartOfHour(toDateTime($2))" },
    { "date_trunc", "minute", "toStartOfMinute(toDateTime($2))" },
    { "date_trunc", "second", "toDateTime($2)" },
};

const char *clickhouse_form(const char *name, const char *unit)
{
    for (size_t i = 0; i < ARRAY_SIZE(forms); i++)
        if (str_eq(forms[i].name, name) && (!forms[i].unit || str_ieq(forms[i].unit, unit)))
            return forms[i].form;
    return NULL;
}

/* Halves are rounded away from 0; round() of ClickHouse rounds them to even numbers. */
static int put_round(struct printer *p, const struct standpoint *at, const struct expr *e)
{
    return dialect_put_form(p, at,
                            e->n_args > 1 ?
                                "(CASE WHEN $1 < 0 THEN -1 ELSE 1 END * floor(abs(toFloat64($1)) * "
                                "exp10($2) + 0.5) / exp10($2))" :
                                "(CASE WHEN $1 < 0 THEN -1 ELSE 1 END * floor(abs(toFloat64($1)) + "
                                "0.5))",
                            (const struct expr *const *)e->args, e->n_args);
}

/* The greater one of each and all behind it, where NULL does not count. */
static int put_extreme(struct printer *p, const struct standpoint *at, const struct expr *e,
                       size_t from)
{
    const char *op = str_eq(e->call->name, "greatest") ? ">=" : "<=";
    const struct expr *const one[] = { e->args[from] };
    if (from + 1 == e->n_args)
        return dialect_put_form(p, at, "$1", one, 1);
    int r = dialect_put_form(p, at, "CASE WHEN $1 IS NULL THEN ", one, 1);
    if (r >= 0)
        r = put_extreme(p, at, e, from + 1);
    if (r >= 0)
        r = put(p, " WHEN ");
    if (r >= 0)
        r = put_extreme(p, at, e, from + 1);
    if (r >= 0)
        r = dialect_put_form(p, at, " IS NULL THEN $1 WHEN $1 ", one, 1);
    if (r >= 0)
        r = put(p, op);
    if (r >= 0)
        r = put(p, " ");
    if (r >= 0)
        r = put_extreme(p, at, e, from + 1);
    if (r >= 0)
        r = dialect_put_form(p, at, " THEN $1 ELSE ", one, 1);
    if (r >= 0)
        r = put_extreme(p, at, e, from + 1);
    return r < 0 ? r : put(p, " END");
}

#define EXTREME_ARGS_MAX 5 /* each one doubles the text */

int clickhouse_put_call(struct printer *p, const struct standpoint *at, const struct expr *e)
{
    const char *name = e->call->name;
    const char *unit = e->n_args > 0 && e->args[0]->kind == EXPR_STRING ? e->args[0]->text : "";
    const char *form = clickhouse_form(name, unit);
    int r;
    if (form)
        return dialect_put_form(p, at, form, (const struct expr *const *)e->args, e->n_args);
    if (str_eq(name, "round"))
        return put_round(p, at, e);
    if (str_eq(name, "substr"))
        return dialect_put_form(p, at,
                                e->n_args > 2 ? "substringUTF8($1, $2, $3)" :
                                                "substringUTF8($1, $2, 2147483647)",
                                (const struct expr *const *)e->args, e->n_args);
    if (str_eq(name, "greatest") || str_eq(name, "least")) {
        if (e->n_args > EXTREME_ARGS_MAX)
            return err_set(p->err, ERR_VALIDATION, "ClickHouse takes %s() of at most %d values",
                           name, EXTREME_ARGS_MAX);
        r = put(p, "(");
        if (r >= 0)
            r = put_extreme(p, at, e, 0);
        return r < 0 ? r : put(p, ")");
    }
    if (!str_eq(name, "concat"))
        return 1;
    r = put(p, "concat(''");
    for (size_t i = 0; i < e->n_args && r >= 0; i++) {
        r = put(p, ", coalesce(toString(");
        if (r >= 0)
            r = put_expr(p, at, e->args[i], BIND_OR);
        if (r >= 0)
            r = put(p, "), '')");
    }
    return r < 0 ? r : put(p, ")");
}

/* ---- operators, types, values ---- */

/* A text that is compared with a time becomes one; with a day, a day. */
int clickhouse_put_text(struct printer *p, enum plan_type other, const char *text)
{
    bool time = other == TYPE_TIMESTAMP, day = other == TYPE_DATE;
    int r = put(p, time ? "parseDateTimeBestEffort(" :
                   day  ? "toDate(parseDateTimeBestEffort(" :
                          "");
    if (r >= 0)
        r = put_text(p, text);
    return r < 0 ? r : put(p, time ? ")" : day ? "))" : "");
}

static int put_side(struct printer *p, const struct standpoint *at, const struct expr *e,
                    const struct expr *other, enum binding least)
{
    if (e->kind == EXPR_STRING)
        return clickhouse_put_text(p, check_type_of(at, other), e->text);
    return put_expr(p, at, e, least);
}

static bool is_comparison(enum expr_op op)
{
    return op == OP_EQ || op == OP_NE || op == OP_LT || op == OP_LE || op == OP_GT || op == OP_GE;
}

int clickhouse_put_binary(struct printer *p, const struct standpoint *at, const struct expr *e)
{
    enum plan_type left = check_type_of(at, e->args[0]), right = check_type_of(at, e->args[1]);
    bool whole = left == TYPE_INTEGER && right == TYPE_INTEGER;
    const struct expr *const *args = (const struct expr *const *)e->args;
    if (e->op == OP_DIV)
        return dialect_put_form(p, at, "(toFloat64($1) / nullIf(toFloat64($2), 0))", args, 2);
    if (e->op == OP_MOD)
        return dialect_put_form(p, at,
                                whole ? "($1 % nullIf($2, 0))" :
                                        "(toFloat64($1) - toFloat64($2) * trunc(toFloat64($1) / "
                                        "nullIf(toFloat64($2), 0)))",
                                args, 2);
    if (e->op == OP_CONCAT)
        return dialect_put_form(p, at, "concat(toString($1), toString($2))", args, 2);
    /* Decimals and floats do not mix. */
    bool sum = e->op == OP_ADD || e->op == OP_SUB || e->op == OP_MUL;
    if (sum && !whole && check_is_number(left) && check_is_number(right))
        return dialect_put_form(p, at,
                                e->op == OP_ADD ? "(toFloat64($1) + toFloat64($2))" :
                                e->op == OP_SUB ? "(toFloat64($1) - toFloat64($2))" :
                                                  "(toFloat64($1) * toFloat64($2))",
                                args, 2);
    if (!is_comparison(e->op) ||
        (e->args[0]->kind != EXPR_STRING && e->args[1]->kind != EXPR_STRING))
        return 1;
    int r = put_side(p, at, e->args[0], e->args[1], BIND_CONCAT);
    if (r >= 0)
        r = buf_printf(p->out, p->err, " %s ", expr_op_sql[e->op]);
    return r < 0 ? r : put_side(p, at, e->args[1], e->args[0], BIND_CONCAT);
}

/* What cannot be cast is NULL. */
int clickhouse_put_cast(struct printer *p, const struct standpoint *at, const struct expr *e)
{
    enum plan_type from = check_type_of(at, e->args[0]);
    bool text = !check_is_number(from) && !check_is_time(from) && from != TYPE_BOOL;
    static const char *const of_text[_PLAN_TYPE_MAX] = {
        [TYPE_INTEGER] = "toInt64OrNull(" WITHOUT(" +$", WITHOUT("^ +", "toString($1)")) ")",
        [TYPE_NUMBER] = "toFloat64OrNull(" WITHOUT(" +$", WITHOUT("^ +", "toString($1)")) ")",
        [TYPE_DATE] = "toDate(parseDateTimeBestEffortOrNull(toString($1)))",
        [TYPE_TIMESTAMP] = "parseDateTimeBestEffortOrNull(toString($1))",
        [TYPE_BOOL] = "CASE WHEN lower(toString($1)) IN ('t', 'true', 'yes', '1') THEN 1 WHEN "
                      "lower(toString($1)) IN ('f', 'false', 'no', '0') THEN 0 END",
    };
    static const char *const of_other[_PLAN_TYPE_MAX] = {
        [TYPE_INTEGER] = "toInt64(round($1))",
        [TYPE_NUMBER] = "toFloat64($1)",
        [TYPE_DATE] = "toDate($1)",
        [TYPE_TIMESTAMP] = "toDateTime($1)",
        [TYPE_BOOL] = "($1 != 0)",
        [TYPE_TEXT] = "toString($1)",
    };
    const char *form = text ? of_text[e->type] : of_other[e->type];
    return dialect_put_form(p, at, form ? form : "toString($1)",
                            (const struct expr *const *)e->args, e->n_args);
}

const char *clickhouse_type(enum plan_type type)
{
    static const char *const names[_PLAN_TYPE_MAX] = {
        [TYPE_INTEGER] = "Nullable(Int64)", [TYPE_NUMBER] = "Nullable(Float64)",
        [TYPE_TEXT] = "Nullable(String)",   [TYPE_DATE] = "Nullable(Date)",
        [TYPE_BOOL] = "Nullable(UInt8)",    [TYPE_TIMESTAMP] = "Nullable(DateTime)",
    };
    return names[type] ? names[type] : "Nullable(String)";
}

/* ---- aggregates ---- */

#define SORTED "arraySort(groupArray(toFloat64($1)))"
#define PLACE(q) "((toFloat64(count($1)) - 1) * " q ")"
/* Between the two values at the place of a quantile; that of ClickHouse takes a sample. */
#define QUANTILE(q)                                                                                \
    "CASE WHEN count($1) > 0 THEN " SORTED                                                         \
    "[toUInt64(floor(" PLACE(q) ")) + 1] + (" PLACE(q) " - floor(" PLACE(                          \
        q) ")) * (" SORTED "[toUInt64(ceil(" PLACE(q) ")) + 1] - " SORTED                          \
                                                      "[toUInt64(floor(" PLACE(q) ")) + 1]) END"

int clickhouse_put_aggregate(struct printer *p, const struct standpoint *at, const struct expr *e)
{
    struct standpoint in = *at;
    char digits[EXPR_DOUBLE_SIZE];
    in.in_aggregate = true;
    if (e->n_args == 0)
        return 1;
    enum plan_type type = check_type_of(&in, e->args[0]);
    if (check_is_time(type) &&
        (e->func == FUNC_MEDIAN || e->func == FUNC_QUANTILE || e->func == FUNC_AVG))
        return err_set(p->err, ERR_VALIDATION,
                       "ClickHouse has no average, median and quantile of dates");
    /* Of no values, an aggregate is NULL only if its argument could be. */
    static const char *const aggregates[_PLAN_FUNC_MAX] = {
        [FUNC_COUNT_DISTINCT] = "uniqExact($1)",
        [FUNC_SUM] = "sum(toNullable($1))",
        [FUNC_AVG] = "avg(toNullable(toFloat64($1)))",
        [FUNC_MIN] = "min(toNullable($1))",
        [FUNC_MAX] = "max(toNullable($1))",
        [FUNC_MEDIAN] = QUANTILE("0.5"),
        [FUNC_MODE] =
            "CASE WHEN count($1) > 0 THEN arraySort(v -> (-countEqual(groupArray($1), v), "
            "v), groupUniqArray($1))[1] END",
        [FUNC_STDDEV] = "CASE WHEN count($1) > 1 THEN stddevSamp(toFloat64($1)) END",
        [FUNC_VARIANCE] = "CASE WHEN count($1) > 1 THEN varSamp(toFloat64($1)) END",
        [FUNC_CORR] = "corr(toFloat64($1), toFloat64($2))",
    };
    const struct expr *const *args = (const struct expr *const *)e->args;
    if (e->func == FUNC_QUANTILE) {
        /* $2 is no argument of the plan's: the digits stand there. */
        auto_buf struct buf form = BUF_INIT(4096);
        static const char text[] = QUANTILE("@");
        expr_from_double(e->quantile, digits);
        int r = 0;
        for (const char *s = text; *s && r >= 0; s++)
            r = *s == '@' ? buf_append_str(&form, digits, p->err) : buf_append(&form, s, 1, p->err);
        return r < 0 ? r : dialect_put_form(p, &in, buf_cstr(&form), args, e->n_args);
    }
    return aggregates[e->func] ? dialect_put_form(p, &in, aggregates[e->func], args, e->n_args) : 1;
}
