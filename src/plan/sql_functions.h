#ifndef RIDDLE_PLAN_SQL_FUNCTIONS_H
#define RIDDLE_PLAN_SQL_FUNCTIONS_H

/* The functions that a user's SQL may call: an allowlist by theme. Names are lower case. */

#include <stdbool.h>
#include <stddef.h>

struct sql_function_group {
    const char *theme;
    const char *const *names; /* sorted by strcmp() */
    size_t n_names;
};

extern const struct sql_function_group sql_function_groups[];
extern const size_t sql_n_function_groups;
extern const struct sql_function_group sql_table_functions; /* allowed in FROM */

bool sql_function_in(const struct sql_function_group *group, const char *name);
bool sql_function_is_allowed(const char *name); /* as a scalar, aggregate or window function */

#endif
