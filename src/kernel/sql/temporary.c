/* What users have made in SQL that lives in the kernel only. */

#include <stdio.h>
#include <string.h>
#include "base/str.h"
#include "kernel/sql/sql_impl.h"

static bool is_of_the_data(const struct sql_engine *e, const char *name)
{
    for (size_t i = 0; i < e->n_tables; i++)
        if (str_ieq(e->tables[i], name))
            return true;
    return false;
}

size_t sql_temporary(struct sql_engine *e, char (*ret)[SQL_NAME_SIZE], size_t max)
{
    auto_result duckdb_result result = { 0 };
    size_t n = 0;
    if (e->prepare || /* no statement of a user was ever run */
        duckdb_query(
            e->con,
            "SELECT table_name FROM duckdb_tables() WHERE temporary AND NOT internal "
            "UNION ALL SELECT view_name FROM duckdb_views() WHERE temporary AND NOT internal",
            &result) != DuckDBSuccess)
        return 0;
    for (idx_t row = 0; row < duckdb_row_count(&result) && n < max; row++) {
        char *name = duckdb_value_varchar(&result, 0, row);
        if (name && !is_of_the_data(e, name))
            snprintf(ret[n++], SQL_NAME_SIZE, "%s", name);
        duckdb_free(name);
    }
    return n;
}
