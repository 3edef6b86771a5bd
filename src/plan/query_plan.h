#ifndef RIDDLE_PLAN_QUERY_PLAN_H
#define RIDDLE_PLAN_QUERY_PLAN_H

/*
 * A QueryPlan: what a person, a model or the built-in planner asks of one dataset, as data.
 * docs/plans.md describes the JSON.
 *
 *   plan_parse()    JSON → struct; its own form and rules
 *   plan_check()    names, types and joins against a schema, and that aggregates and columns go together
 *   plan_compile()  struct → SQL (compile.h); checks first
 *
 * A plan lives in the arena that it was parsed into and is never changed afterwards.
 */

#include <stdbool.h>
#include <stddef.h>
#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "plan/expr.h"
#include "plan/plan_schema.h"

#define PLAN_LIMIT_DEFAULT 200
#define PLAN_LIMIT_MAX 1000
#define PLAN_OFFSET_MAX 1000000000
#define PLAN_MAX_SELECT 256
#define PLAN_MAX_FILTERS 200 /* conditions and groups in all */
#define PLAN_MAX_FILTER_DEPTH 8
#define PLAN_MAX_VALUES 1000 /* of all filters */
#define PLAN_MAX_GROUP_BY 64
#define PLAN_MAX_ORDER_BY 32
#define PLAN_MAX_JOINS 8
#define PLAN_MAX_TEXT_BYTES 10000 /* of a value, of notes */
#define PLAN_MAX_ALIAS_DEPTH 8    /* an expression that names the alias of one that names … */
#define PLAN_MAX_NESTED 3         /* plans inside plans inside plans */
#define PLAN_BROAD_COLUMNS 20

/* A plan that does not fit an arena of this size is refused as too large. */
#define PLAN_ARENA_BYTES (4u << 20)

enum plan_filter_op {
    FILTER_EQ,
    FILTER_NE,
    FILTER_LT,
    FILTER_LE,
    FILTER_GT,
    FILTER_GE,
    FILTER_IN,
    FILTER_NOT_IN,
    FILTER_BETWEEN,
    FILTER_CONTAINS,
    FILTER_NOT_CONTAINS,
    FILTER_STARTSWITH,
    FILTER_ENDSWITH,
    FILTER_IS_NULL,
    FILTER_IS_NOT_NULL,
    _PLAN_FILTER_OP_MAX
};
extern const char *const plan_filter_op_names[_PLAN_FILTER_OP_MAX];

struct plan_value {
    enum { VALUE_NULL, VALUE_BOOL, VALUE_INT, VALUE_REAL, VALUE_TEXT } type;
    union {
        bool b;
        long long i;
        double d;
        const char *s;
    };
};

/*
 * Something that a plan names: {"column"}, {"expr"}, {"func", "column" | "expr"} or {"column",
 * "bucket"}. `what` is its tree; the other members are how it was written.
 */
struct plan_operand {
    const struct expr *what;
    const char *column; /* NULL: by expr */
    const char *expr;
    bool has_func, has_bucket;
    enum plan_func func;
    enum plan_bucket bucket;
    double quantile;
};

struct plan_item {
    struct plan_operand operand;
    const char *alias; /* NULL: none; a bucket always has one */
    bool alias_given;  /* false: column_bucket was made up */
};

struct query_plan;

struct plan_filter {
    enum { FILTER_CONDITION, FILTER_AND, FILTER_OR, FILTER_NOT } kind;
    struct plan_operand operand; /* of a condition */
    bool has_op; /* false: the operand is an expression that is true or false by itself */
    enum plan_filter_op op;
    bool ignore_case;
    const struct plan_value *values;
    size_t n_values;
    const struct query_plan *plan;   /* in the place of values: what it gives; NULL: none */
    const struct plan_filter *parts; /* of a group */
    size_t n_parts;
};

enum plan_nulls { NULLS_DEFAULT, NULLS_FIRST, NULLS_LAST };

struct plan_order {
    const char *text;
    const struct expr *name;  /* the text as an alias or a column */
    const struct expr *expr;  /* the text as an expression; NULL if it is none */
    const char *expr_problem; /* why not */
    bool descending;
    enum plan_nulls nulls;
};

struct plan_join {
    const char *table;
    const char *on_text;   /* NULL: by the declared relationship */
    const struct expr *on; /* equalities of columns, joined with "and" */
    bool left;
};

enum plan_describe { DESCRIBE_NONE, DESCRIBE_COLUMNS, DESCRIBE_STATISTICS, _PLAN_DESCRIBE_MAX };
extern const char *const plan_describe_names[_PLAN_DESCRIBE_MAX];

#define PLAN_SOURCE_NAME "source" /* what the rows of an inner plan are called by */

struct query_plan {
    const char *dataset_id;
    const char *table;               /* PLAN_SOURCE_NAME if there is a source */
    const struct query_plan *source; /* its rows are asked about; NULL: those of the table */
    enum plan_describe describe;     /* the table's columns instead of its rows */
    const struct plan_item *select;  /* NULL: every column */
    size_t n_select;
    bool distinct;
    const struct plan_join *joins;
    size_t n_joins;
    const struct plan_filter *filters;
    size_t n_filters;
    const struct expr **group_by; /* columns by name, or aliases */
    size_t n_group_by;
    const struct plan_filter *having;
    size_t n_having;
    const struct plan_order *order_by;
    size_t n_order_by;
    int limit;
    bool limit_given; /* inner plans have none otherwise */
    long long offset;
    const char *notes; /* NULL: none */
};

/*
 * VALIDATION says where ("filters[0]: …") and what; a field that plans do not have is refused.
 * The JSON may be released afterwards.
 */
int plan_parse(const json_t *j, struct arena *a, struct query_plan **ret, struct err *err);
/* The same for clients of the API: unknown fields are skipped and named in `ignored`. */
int plan_parse_known(const json_t *j, struct arena *a, struct buf *ignored, struct query_plan **ret,
                     struct err *err);

/* schema may be NULL: then names are checked for their form only. */
int plan_check(const struct query_plan *plan, const struct plan_schema *schema, struct err *err);

/* The plan as JSON, without what is at its default. A new reference; NULL when out of memory. */
json_t *plan_to_json(const struct query_plan *plan);

/*
 * True if the plan reads much and narrows nothing: many columns or many rows, no filter and no
 * aggregate.
 */
bool plan_is_broad(const struct query_plan *plan);

/* True if any selected item is, or contains, an aggregate. */
bool plan_has_aggregate(const struct query_plan *plan);

#endif
