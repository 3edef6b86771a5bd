#ifndef RIDDLE_PLAN_PLAN_SCHEMA_H
#define RIDDLE_PLAN_PLAN_SCHEMA_H

/*
 * What a plan is checked against: the tables of a dataset, their columns with types, and the
 * relationships along which they join. Plain data that lives as long as whoever made it; strings
 * are borrowed.
 */

#include <stddef.h>
#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "plan/expr.h"

#define PLAN_MAX_TABLES 1000
#define PLAN_MAX_COLUMNS 10000 /* of one table */

/* The SQL that the engine which has the tables understands. */
enum plan_dialect {
    DIALECT_DUCKDB,
    DIALECT_POSTGRES,
    DIALECT_SQLITE,
    DIALECT_CLICKHOUSE,
    _PLAN_DIALECT_MAX
};

struct plan_column {
    const char *name;
    const char *type_name; /* as the source has it, for messages; may be "" */
    enum plan_type type;
};

struct plan_table {
    const char *name;
    const struct plan_column *columns;
    size_t n_columns;
};

struct plan_relationship {
    const char *from_table, *from_column;
    const char *to_table, *to_column;
};

struct plan_schema {
    const char *dataset_id; /* NULL: any */
    enum plan_dialect dialect;
    const struct plan_table *tables;
    size_t n_tables;
    const struct plan_relationship *relationships;
    size_t n_relationships;
};

/*
 * Reads a dataset of the registry, the answer of GET /datasets/{id}/schema, a whole registry (then
 * the dataset named dataset_id is taken), or the short form
 *   {"tables": {"orders": {"order_id": "integer", "total": "double"}},
 *    "relationships": [{"from": "order_items.order_id", "to": "orders.order_id"}]}
 * The strings are copied into the arena. VALIDATION says what is wrong with it, NOT_FOUND that the
 * registry has no such dataset.
 */
int plan_schema_parse(const json_t *j, const char *dataset_id, struct arena *a,
                      struct plan_schema **ret, struct err *err);

/*
 * The class of a type by its name in SQL ("DECIMAL(10,2)") or in a registry ("string", "datetime").
 */
enum plan_type plan_type_from_name(const char *name);

/* Exact first, then without case. NULL if there is none. */
const struct plan_table *plan_schema_table(const struct plan_schema *s, const char *name);
const struct plan_column *plan_table_column(const struct plan_table *t, const char *name);

#endif
