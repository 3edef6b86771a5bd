#ifndef RIDDLE_PLAN_PLAN_IMPL_H
#define RIDDLE_PLAN_PLAN_IMPL_H

/*
 * What the check and the compiler share: which table, column or alias a name in a plan means, and
 * of which type it is.
 */

#include "plan/query_plan.h"

/* Where a name stands decides what it may mean. */
enum place {
    PLACE_SELECT, /* a column, or the alias of an item before */
    PLACE_ON,     /* a column */
    PLACE_WHERE,  /* a column, or the alias of an item that is no aggregate */
    PLACE_GROUP,  /* the alias of an item that is no aggregate, or a column */
    PLACE_HAVING, /* an alias, or a column */
    PLACE_ORDER,  /* an alias, or a column */
};

struct scope {
    const struct query_plan *plan;
    const struct plan_schema *schema;                    /* may be NULL */
    const struct plan_table *tables[1 + PLAN_MAX_JOINS]; /* of the schema, else NULL */
    const char *names[1 + PLAN_MAX_JOINS];
    size_t n_tables;
    struct plan_table source; /* what an inner plan gives, as a table */
    struct plan_column source_columns[PLAN_MAX_SELECT];
};

/*
 * Where the tree that is looked at stands. Within the tree of an alias it is the select item of
 * that alias.
 */
struct standpoint {
    const struct scope *scope;
    enum place place;
    size_t item;       /* PLACE_SELECT: items before this one may be named */
    bool in_aggregate; /* within its argument names mean columns first */
    bool no_aggregate; /* the tree of an alias that was named in filters or group_by */
};

/* What a name means: an item of the select list, or else a column. */
struct target {
    const struct plan_item *item;
    size_t index; /* of the item */

    const char *table; /* of the column; NULL if that is not known */
    const char *name;
    bool qualified; /* the table has to be written */
    enum plan_type type;
    const char *type_name;
};

/* A join's condition when the plan gives none. */
struct join_keys {
    const char *left_table, *left_column;
    const char *right_table, *right_column;
};

/* Finds the tables. VALIDATION if one is unknown, or named twice. */
int scope_init(struct scope *s, const struct query_plan *plan, const struct plan_schema *schema,
               struct err *err);

/* VALIDATION with the nearest name if the name means nothing. */
int scope_resolve(const struct standpoint *at, const struct expr *name, struct target *ret,
                  struct err *err);

/* The standpoint within the tree of an alias that was found from `at`. */
struct standpoint scope_within(const struct standpoint *at, const struct target *alias);

/* The declared relationship between joins[index] and a table before it. */
int scope_relationship(const struct scope *s, size_t index, struct join_keys *ret, struct err *err);

/* What an order_by entry is: a name, or an expression. VALIDATION if it is neither. */
int scope_order(const struct scope *s, const struct plan_order *order, const struct expr **ret,
                struct err *err);

/* VALIDATION in the words of the plans that came before: "Invalid identifier: X. …". */
int scope_check_name(const char *name, struct err *err);

/* ---- the check of expressions ---- */

/* One check of a plan. Zeroed but for err and aggregated. */
struct walk {
    struct err *err;
    bool aggregated; /* the plan groups or aggregates */
    int visits;
    int depth;
    int alias_depth;
    int columns; /* columns and aggregates met so far */
    bool in_window;
};

/* Checks the tree and gives its type. `grouped`: the columns in it need not be in group_by. */
int check_visit(struct walk *w, const struct standpoint *at, const struct expr *e, bool grouped,
                enum plan_type *ret);

/* The item is in group_by by its alias. */
bool check_is_grouped_item(const struct scope *s, size_t index);

bool check_is_number(enum plan_type t);
bool check_is_time(enum plan_type t);
bool check_is_known(enum plan_type t);
bool check_is_condition(enum plan_type t);
bool check_is_date_text(const char *s);
bool check_is_number_text(const char *s, bool integer);
bool check_is_bool_text(const char *s);

/* What e is, for a message: "column 'status' (VARCHAR)". */
#define CHECK_DESCRIBE_SIZE 200
const char *check_describe(const struct standpoint *at, const struct expr *e,
                           char ret[CHECK_DESCRIBE_SIZE]);
int check_mismatch(struct walk *w, const struct standpoint *at, const char *who, const char *wants,
                   const struct expr *e, enum plan_type t);

/* The type of an expression that has been checked; UNKNOWN if nothing is known. */
enum plan_type check_type_of(const struct standpoint *at, const struct expr *e);

#endif
