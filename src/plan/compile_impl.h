#ifndef RIDDLE_PLAN_COMPILE_IMPL_H
#define RIDDLE_PLAN_COMPILE_IMPL_H

/* What compile.c and dialect.c share. */

#include "base/buf.h"
#include "plan/plan_impl.h"

struct printer {
    struct buf *out;
    struct err *err;
    enum plan_dialect dialect;
};

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

/* ---- compile.c ---- */

/* inner: without the LIMIT that nobody asked for. */
int compile_put_plan(struct printer *p, const struct query_plan *plan,
                     const struct plan_schema *schema, bool inner);

/* ---- compile_expr.c ---- */

int compile_put(struct printer *p, const char *s);
int compile_put_name(struct printer *p, const char *name);
int compile_put_text(struct printer *p, const char *text);
int compile_put_expr(struct printer *p, const struct standpoint *at, const struct expr *e,
                     enum binding least);

int compile_put_column(struct printer *p, const char *table, const char *column);
int compile_put_filter(struct printer *p, const struct standpoint *at, const struct plan_filter *f);
/* The filter looks at other rows than its own. */
bool compile_looks_around(const struct plan_filter *f);
/* The name of an item's column in the result; NULL: it has none of its own. */
const char *compile_item_name(const struct scope *s, size_t i);

/* ---- dialect.c: forms that other engines have instead of DuckDB's. Not for DuckDB. ---- */

/* 1: the form is the same as DuckDB's, and nothing was written. */
int dialect_put_call(struct printer *p, const struct standpoint *at, const struct expr *e);
int dialect_put_aggregate(struct printer *p, const struct standpoint *at, const struct expr *e);
int dialect_put_binary(struct printer *p, const struct standpoint *at, const struct expr *e);
int dialect_put_cast(struct printer *p, const struct standpoint *at, const struct expr *e);
int dialect_put_bucket(struct printer *p, const struct standpoint *at, const struct expr *e);
/* What a table has, as rows: its columns, or statistics about them. */
int dialect_put_description(struct printer *p, const struct scope *s);
/* The name of a type for CAST. */
const char *dialect_type(const struct printer *p, enum plan_type type);

/* form with $1, $2, … replaced by the arguments, between parentheses unless they are atoms. */
int dialect_put_form(struct printer *p, const struct standpoint *at, const char *form,
                     const struct expr *const *args, size_t n_args);

/* ---- dialect_clickhouse.c: what dialect.c asks for ClickHouse, with the same meanings ---- */

const char *clickhouse_form(const char *name, const char *unit); /* NULL: as DuckDB writes it */
int clickhouse_put_call(struct printer *p, const struct standpoint *at, const struct expr *e);
int clickhouse_put_aggregate(struct printer *p, const struct standpoint *at, const struct expr *e);
int clickhouse_put_binary(struct printer *p, const struct standpoint *at, const struct expr *e);
int clickhouse_put_cast(struct printer *p, const struct standpoint *at, const struct expr *e);
const char *clickhouse_type(enum plan_type type);
/* A text that is compared with a value of the type `other`. */
int clickhouse_put_text(struct printer *p, enum plan_type other, const char *text);

/* Short names for the files. */
#define put compile_put
#define put_name compile_put_name
#define put_text compile_put_text
#define put_expr compile_put_expr
#define put_column compile_put_column
#define put_filter compile_put_filter
#define put_plan compile_put_plan
#define looks_around compile_looks_around
#define item_name compile_item_name

#endif
