#ifndef RIDDLE_PLAN_SQL_POLICY_H
#define RIDDLE_PLAN_SQL_POLICY_H

/*
 * What SQL a user may run, decided on the parsed tree (the JSON of DuckDB's json_serialize_sql),
 * never on words: one SELECT (or WITH), reading only the dataset's tables, its own CTEs and a few
 * harmless table functions, calling no function that reads files, settings, secrets or other
 * catalogs. The engine is locked besides.
 */

#include <stdbool.h>
#include <stddef.h>
#include "base/err.h"
#include "base/json.h"

struct sql_policy {
    const char *dataset_id;    /* allowed schema qualifier; may be NULL */
    const char *const *tables; /* allowed base tables; compared without case */
    size_t n_tables;
};

/*
 * tree: the parsed output of json_serialize_sql. Returns 0 if it may run. Otherwise VALIDATION, or
 * NOT_FOUND for a table that there is not, with the message for the user ("reading files is not
 * allowed: read_csv(); query the tables by name: orders, order_items").
 */
int sql_policy_check(const struct sql_policy *policy, const json_t *tree, struct err *err);

#endif
