#ifndef RIDDLE_DATABASE_POSTGRES_CATALOG_H
#define RIDDLE_DATABASE_POSTGRES_CATALOG_H

/*
 * Functions, operators and types that may have side effects, as the catalog has them at the moment
 * of a statement: whatever was made or altered after the connection counts.
 *
 * A statement is sent behind a guard in the same pipeline. The guard fails when the statement names
 * something that has to be looked at, and PostgreSQL then skips the statement. The catalog query,
 * which is slower, decides and says what is refused.
 */

#include "database/sql_text.h"

#define POSTGRES_GUARD "riddle_guard"
#define POSTGRES_CHANGES "riddle_changes"
#define POSTGRES_GUARD_STATE "22012" /* SQLSTATE of a guard that failed: division by zero */

enum postgres_list {
    POSTGRES_CALLS,     /* functions that are called */
    POSTGRES_OF_ROWS,   /* names behind a dot, which are columns, or functions of a row */
    POSTGRES_OPERATORS, /* those that keywords stand for included */
    POSTGRES_NAMES,     /* all of them: each can be a type */
    POSTGRES_TYPES,     /* names in the place of a type: there a table's name is its row type */
    _POSTGRES_LIST_MAX
};

/* What a statement names. Each list is the text of a PostgreSQL array. */
struct postgres_names {
    struct buf lists[_POSTGRES_LIST_MAX];
};

int postgres_names_read(const struct sql_text *t, struct postgres_names *ret, struct err *err);
void postgres_names_finish(struct postgres_names *n);

/*
 * Prepares the guard. Its parameters are the time-out in ms, whether the transaction only reads
 * ('on', 'off') and the lists. It sets the first two, and the choice of plans that the session has
 * set aside for the guard.
 */
extern const char postgres_guard_sql[];
/* The same settings without a guard; the first two parameters. */
extern const char postgres_settings_sql[];
/* With the lists as parameters: kind and name of everything that is refused. */
extern const char postgres_catalog_sql[];

/*
 * Prepares the look at what a statement has changed, directly or by triggers, rules, foreign keys
 * and functions of the database. Its parameter is the list of tables that may be changed, separated
 * by blanks; those outside of the schema `public` with their schema. The answer is one row: a table
 * that is not on the list, or NULL. From then on the transaction changes nothing.
 */
extern const char postgres_changes_sql[];

#endif
