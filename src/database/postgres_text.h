#ifndef RIDDLE_DATABASE_POSTGRES_TEXT_H
#define RIDDLE_DATABASE_POSTGRES_TEXT_H

/* What PostgreSQL writes and reads: types, arrays, statements with parameters. */

#include "database/params.h"
#include "database/result.h"
#include "database/sql_text.h"

/* The name of a type in results, by its OID; VARCHAR for one that is not known. */
const char *postgres_type_name(unsigned oid);
/*
 * A value as results have it. scratch holds what is rewritten and stays valid until its next use.
 */
int postgres_cell(unsigned oid, const char *text, size_t len, struct buf *scratch,
                  struct db_cell *ret, struct err *err);

/* A statement with $1, $2 … for `:name`, and what is bound to them. */
struct postgres_statement {
    struct buf sql;
    unsigned types[256]; /* OIDs; 0: PostgreSQL decides */
    struct buf values[256];
    const char *texts[256]; /* NULL: a NULL */
    int lens[256], formats[256];
    size_t n;
};

/* VALIDATION for a parameter that was not given. */
int postgres_statement_make(const struct sql_text *t, const json_t *params,
                            struct postgres_statement **ret, struct err *err);
void postgres_statement_free(struct postgres_statement *s);

/* ---- functions ---- */

/*
 * FORBIDDEN for a call of a function that is on the list of those with side effects, whatever the
 * catalog says about it.
 */
int postgres_check_calls(const struct sql_text *t, struct err *err);

#endif
