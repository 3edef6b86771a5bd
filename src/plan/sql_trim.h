#ifndef RIDDLE_PLAN_SQL_TRIM_H
#define RIDDLE_PLAN_SQL_TRIM_H

#include <stddef.h>

/*
 * Length of a statement without the semicolons, comments and white space behind it, so that it can
 * stand in parentheses: "(" statement "\n)".
 */
size_t sql_trimmed(const char *sql, size_t len);

#endif
