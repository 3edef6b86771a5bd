#ifndef RIDDLE_PLAN_SQL_NAMES_H
#define RIDDLE_PLAN_SQL_NAMES_H

/*
 * Statements name tables with or without their data set. What is run and kept is without it:
 *   SELECT * FROM support.tickets   →   SELECT * FROM tickets
 */

#include "base/buf.h"
#include "base/err.h"
#include "plan/sql_policy.h"

/*
 * Appends sql without the data set's name where that stands before one of its tables. Strings,
 * comments and other names stay as they are; so does a text that is no SQL.
 */
int sql_plain_names(const struct sql_policy *names, const char *sql, struct buf *ret,
                    struct err *err);

#endif
