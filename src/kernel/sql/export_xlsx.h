#ifndef RIDDLE_KERNEL_SQL_EXPORT_XLSX_H
#define RIDDLE_KERNEL_SQL_EXPORT_XLSX_H

#include <stdbool.h>
#include <stddef.h>
#include "kernel/sql/sql_impl.h"

enum export_kind {
    EXPORT_TEXT,
    EXPORT_NUMBER,
    EXPORT_BOOLEAN,
    EXPORT_DATE,
    EXPORT_TIMESTAMP,
    EXPORT_NESTED
};

struct export_column {
    char *name;
    enum export_kind kind;
    bool is_varchar;
};

/*
 * Runs the statement, whose columns are all text, and writes a workbook to the descriptor. Returns
 * why it could not, which the caller frees; NULL: it could.
 */
char *export_xlsx(struct sql_engine *e, const char *sql, const struct export_column *columns,
                  size_t n_columns, int fd);

#endif
