#ifndef RIDDLE_PLAN_EXPR_H
#define RIDDLE_PLAN_EXPR_H

/*
 * Expressions of a plan: a small grammar of our own, parsed into a tree. SQL is printed from the
 * tree, so that no text of a user reaches it but as a quoted name, a quoted string or checked
 * digits. The shorthands of a plan ({"column": …}, {"func": …, "column": …}, {"column": …,
 * "bucket": …}) become the same trees.
 *
 *   or, and, not                         case when … then … else … end
 *   = != <> < <= > >=                    is [not] null, [not] in (…), [not] between … and …, [not] like '…'
 *   ||                                   cast(… as integer|double|text|date|timestamp|boolean)
 *   + -                                  function(…), aggregate(…), count(*), count(distinct …)
 *   * / %                                1.5, 'text', true, false, null
 *   -x                                   column, table.column, "any name"
 */

#include <stdbool.h>
#include <stddef.h>
#include "base/arena.h"
#include "base/err.h"

#define EXPR_MAX_BYTES 4000
#define EXPR_MAX_DEPTH 32
#define EXPR_MAX_ARGS 200
#define EXPR_NAME_MAX_BYTES 256

enum expr_kind {
    EXPR_NUMBER,
    EXPR_STRING,
    EXPR_BOOL,
    EXPR_NULL,
    EXPR_COLUMN,
    EXPR_NEGATE,
    EXPR_NOT,
    EXPR_BINARY,
    EXPR_IS_NULL,
    EXPR_IN,      /* args: value, members … */
    EXPR_BETWEEN, /* args: value, low, high */
    EXPR_LIKE,    /* args: value; text: the pattern */
    EXPR_CASE,    /* args: when, then, …; one more if there is an else */
    EXPR_CAST,
    EXPR_CALL,
    EXPR_AGGREGATE, /* args: what; none for count(*), two for corr() */
    EXPR_BUCKET,    /* args: a date */
    _EXPR_KIND_MAX
};

enum expr_op {
    OP_OR,
    OP_AND,
    OP_EQ,
    OP_NE,
    OP_LT,
    OP_LE,
    OP_GT,
    OP_GE,
    OP_CONCAT,
    OP_ADD,
    OP_SUB,
    OP_MUL,
    OP_DIV,
    OP_MOD,
    _EXPR_OP_MAX
};

enum plan_func {
    FUNC_COUNT,
    FUNC_COUNT_DISTINCT,
    FUNC_SUM,
    FUNC_AVG,
    FUNC_MIN,
    FUNC_MAX,
    FUNC_MEDIAN,
    FUNC_MODE,
    FUNC_STDDEV,
    FUNC_VARIANCE,
    FUNC_QUANTILE,
    FUNC_CORR, /* of two arguments; in expressions only */
    _PLAN_FUNC_MAX
};

enum plan_bucket {
    BUCKET_HOUR,
    BUCKET_DAY,
    BUCKET_WEEK,
    BUCKET_MONTH,
    BUCKET_QUARTER,
    BUCKET_YEAR,
    _PLAN_BUCKET_MAX
};

/* What is known of a value. UNKNOWN goes with everything: there is no schema, or it is NULL. */
enum plan_type {
    TYPE_UNKNOWN,
    TYPE_INTEGER, /* fits 64 bits */
    TYPE_NUMBER,
    TYPE_TEXT,
    TYPE_DATE,
    TYPE_TIMESTAMP,
    TYPE_BOOL,
    TYPE_OTHER,
    _PLAN_TYPE_MAX
};

extern const char *const plan_func_names[_PLAN_FUNC_MAX];
extern const char *const plan_bucket_names[_PLAN_BUCKET_MAX];
extern const char *const plan_type_words[_PLAN_TYPE_MAX]; /* "a number", "text", … for messages */
extern const char
    *const plan_type_sql[_PLAN_TYPE_MAX]; /* what cast() may make; NULL for the others */
extern const char *const expr_op_sql[_EXPR_OP_MAX];

/*
 * A function that expressions may call. `args` has a letter per argument, the last one repeats: n
 * number, i integer, l integer literal, t text, d date or timestamp, u unit literal ('day'), s same
 * as the first such argument, a any. `ret` likewise; 1 is the type of the first argument.
 */
struct expr_function {
    const char *name;
    unsigned char min_args, max_args;
    const char *args;
    char ret;
};
extern const struct expr_function expr_functions[];
extern const size_t expr_n_functions;

struct expr {
    enum expr_kind kind;
    int at; /* column of the expression, from 1; 0 for what a shorthand made */

    /*
     * COLUMN: `text` as it was written, `name` without quotes around it, and its two halves if it
     * has the form table.column, else NULL. A column named in an expression has `table` only when
     * it was qualified. NUMBER, STRING, LIKE: text.
     */
    const char *text;
    const char *name;
    const char *table;
    const char *column;
    bool
        whole; /* COLUMN: `name` as a whole may be the name (false for table.column in an expression) */

    bool negated; /* IS_NULL, IN, BETWEEN, LIKE: the form with "not". BOOL: the value is false. */
    enum expr_op op;
    enum plan_func func;
    double quantile; /* FUNC_QUANTILE */
    enum plan_bucket bucket;
    enum plan_type type; /* CAST */
    const struct expr_function *call;

    const struct expr **args;
    size_t n_args;
};

/*
 * VALIDATION with the column where it went wrong and what was expected there. The text is copied.
 */
int expr_parse(const char *text, struct arena *a, const struct expr **ret, struct err *err);

/* The trees of shorthands. NULL when the arena is full. */
struct expr *expr_new_column(struct arena *a, const char *text);
struct expr *expr_new_aggregate(struct arena *a, enum plan_func func, double quantile,
                                const struct expr *arg);
struct expr *expr_new_bucket(struct arena *a, enum plan_bucket bucket, const struct expr *arg);

bool expr_has_aggregate(const struct expr *e);
bool expr_has_column(const struct expr *e); /* an aggregate counts: count(*) depends on the rows */

/*
 * True if an unquoted name may have this form: letters, digits and underscores of any script; not
 * empty.
 */
bool expr_is_plain_name(const char *s);

/*
 * A double as seed plans have it: the fewest digits that read back, never without a point or an
 * exponent.
 */
#define EXPR_DOUBLE_SIZE 48
void expr_from_double(double v, char ret[EXPR_DOUBLE_SIZE]);

/* Looks at other rows than its own, as rank() and running() do. */
bool expr_is_window(const struct expr_function *f);
bool expr_has_window(const struct expr *e);

/* The unit of date_diff(), date_trunc() and date_add(); false if s is none. */
bool expr_is_unit(const char *s);

#endif
