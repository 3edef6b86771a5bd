/* The words of plans and of their expressions: aggregates, buckets, types, operators, functions. */

#include "plan/expr.h"

#include "base/macros.h"
#include "base/str.h"

const char *const plan_func_names[_PLAN_FUNC_MAX] = {
    [FUNC_COUNT] = "count",       [FUNC_COUNT_DISTINCT] = "count_distinct",
    [FUNC_SUM] = "sum",           [FUNC_AVG] = "avg",
    [FUNC_MIN] = "min",           [FUNC_MAX] = "max",
    [FUNC_MEDIAN] = "median",     [FUNC_MODE] = "mode",
    [FUNC_STDDEV] = "stddev",     [FUNC_VARIANCE] = "variance",
    [FUNC_QUANTILE] = "quantile", [FUNC_CORR] = "corr",
};

const char *const plan_bucket_names[_PLAN_BUCKET_MAX] = {
    [BUCKET_HOUR] = "hour",   [BUCKET_DAY] = "day",         [BUCKET_WEEK] = "week",
    [BUCKET_MONTH] = "month", [BUCKET_QUARTER] = "quarter", [BUCKET_YEAR] = "year",
};

const char *const plan_type_words[_PLAN_TYPE_MAX] = {
    [TYPE_UNKNOWN] = "of unknown type",
    [TYPE_INTEGER] = "an integer",
    [TYPE_NUMBER] = "a number",
    [TYPE_TEXT] = "text",
    [TYPE_DATE] = "a date",
    [TYPE_TIMESTAMP] = "a timestamp",
    [TYPE_BOOL] = "a truth value",
    [TYPE_OTHER] = "of another type",
};

const char *const plan_type_sql[_PLAN_TYPE_MAX] = {
    [TYPE_INTEGER] = "BIGINT", [TYPE_NUMBER] = "DOUBLE",       [TYPE_TEXT] = "VARCHAR",
    [TYPE_DATE] = "DATE",      [TYPE_TIMESTAMP] = "TIMESTAMP", [TYPE_BOOL] = "BOOLEAN",
};

const char *const expr_op_sql[_EXPR_OP_MAX] = {
    [OP_OR] = "OR", [OP_AND] = "AND", [OP_EQ] = "=",  [OP_NE] = "!=",     [OP_LT] = "<",
    [OP_LE] = "<=", [OP_GT] = ">",    [OP_GE] = ">=", [OP_CONCAT] = "||", [OP_ADD] = "+",
    [OP_SUB] = "-", [OP_MUL] = "*",   [OP_DIV] = "/", [OP_MOD] = "%",
};

const struct expr_function expr_functions[] = {
    /* numbers */
    { "abs", 1, 1, "n", '1' },
    { "ceil", 1, 1, "n", 'n' },
    { "exp", 1, 1, "n", 'n' },
    { "floor", 1, 1, "n", 'n' },
    { "ln", 1, 1, "n", 'n' },
    { "log10", 1, 1, "n", 'n' },
    { "power", 2, 2, "n", 'n' },
    { "round", 1, 2, "nl", 'n' },
    { "sign", 1, 1, "n", 'i' },
    { "sqrt", 1, 1, "n", 'n' },
    /* any */
    { "coalesce", 1, 20, "s", '1' },
    { "greatest", 1, 20, "s", '1' },
    { "least", 1, 20, "s", '1' },
    { "nullif", 2, 2, "s", '1' },
    /* text */
    { "concat", 1, 20, "a", 't' },
    { "contains", 2, 2, "t", 'b' },
    { "ends_with", 2, 2, "t", 'b' },
    { "left", 2, 2, "ti", 't' },
    { "length", 1, 1, "t", 'i' },
    { "lower", 1, 1, "t", 't' },
    { "ltrim", 1, 1, "t", 't' },
    { "replace", 3, 3, "t", 't' },
    { "right", 2, 2, "ti", 't' },
    { "rtrim", 1, 1, "t", 't' },
    { "starts_with", 2, 2, "t", 'b' },
    { "substr", 2, 3, "ti", 't' },
    { "trim", 1, 1, "t", 't' },
    { "upper", 1, 1, "t", 't' },
    /* dates */
    { "date_add", 3, 3, "uld", 'T' },
    { "date_diff", 3, 3, "ud", 'i' },
    { "date_trunc", 2, 2, "ud", 'T' },
    { "day", 1, 1, "d", 'i' },
    { "dayname", 1, 1, "d", 't' },
    { "dayofweek", 1, 1, "d", 'i' },
    { "dayofyear", 1, 1, "d", 'i' },
    { "hour", 1, 1, "d", 'i' },
    { "last_day", 1, 1, "d", 'D' },
    { "minute", 1, 1, "d", 'i' },
    { "month", 1, 1, "d", 'i' },
    { "monthname", 1, 1, "d", 't' },
    { "quarter", 1, 1, "d", 'i' },
    { "today", 0, 0, "", 'D' },
    { "week", 1, 1, "d", 'i' },
    { "year", 1, 1, "d", 'i' },
    /* over the rows of the result */
    { "next", 1, 2, "a", '1' },
    { "previous", 1, 2, "a", '1' },
    { "rank", 1, 4, "a", 'i' },
    { "row_number", 0, 0, "", 'i' },
    { "running", 2, 2, "na", 'n' },
    { "share", 1, 4, "na", 'n' },
};
const size_t expr_n_functions = ARRAY_SIZE(expr_functions);

bool expr_is_window(const struct expr_function *f)
{
    static const char *const names[] = { "next",       "previous", "rank",
                                         "row_number", "running",  "share" };
    for (size_t i = 0; f && i < ARRAY_SIZE(names); i++)
        if (str_eq(f->name, names[i]))
            return true;
    return false;
}

bool expr_is_unit(const char *s)
{
    if (str_eq(s, "second") || str_eq(s, "minute"))
        return true;
    for (size_t i = 0; i < _PLAN_BUCKET_MAX; i++)
        if (str_eq(s, plan_bucket_names[i]))
            return true;
    return false;
}
