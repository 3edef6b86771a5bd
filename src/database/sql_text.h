#ifndef RIDDLE_DATABASE_SQL_TEXT_H
#define RIDDLE_DATABASE_SQL_TEXT_H

/*
 * The text of a statement as tokens, read as the server will read it: strings, quoted identifiers,
 * dollar quotes, nested comments and continued strings as PostgreSQL has them; backslashes and
 * back-quotes as ClickHouse has them. A text that the two could read differently is refused.
 *
 * This finds `:name` parameters, and decides what is refused before the server sees it. It is one
 * of two walls: the other is the server's own read-only transaction.
 */

#include <stdbool.h>
#include <stddef.h>
#include "base/buf.h"
#include "base/err.h"

enum sql_dialect { SQL_POSTGRES, SQL_CLICKHOUSE };

enum sql_kind {
    SQL_WORD,   /* an identifier or keyword without quotes */
    SQL_QUOTED, /* an identifier in quotes */
    SQL_STRING,
    SQL_NUMBER,
    SQL_PARAM, /* :name */
    SQL_OP,    /* operator characters */
    SQL_PUNCT, /* one of ( ) [ ] { } , ; . : */
};

#define SQL_NAME_MAX 64

struct sql_token {
    enum sql_kind kind;
    size_t at, len;
    /*
     * Of identifiers and parameters: the name, folded and cut as the server does it; of operators
     * and marks the text, cut.
     */
    char name[SQL_NAME_MAX];
};

struct sql_text {
    const char *text;
    size_t len;
    struct sql_token *tokens;
    size_t n;
};

/* FORBIDDEN for what cannot be told apart, VALIDATION for what does not end. */
int sql_text_read(enum sql_dialect dialect, const char *text, struct sql_text *ret,
                  struct err *err);
void sql_text_finish(struct sql_text *t);

bool sql_is_word(const struct sql_text *t, size_t i, const char *word); /* without quotes */
bool sql_is_mark(const struct sql_text *t, size_t i, char mark);
bool sql_is_name(const struct sql_text *t, size_t i); /* an identifier, quoted or not */

/* What a statement does, when it may do it. */
struct sql_verdict {
    bool writes;
    char table[SQL_NAME_MAX]; /* … to this one */
};

/*
 * FORBIDDEN unless it is one statement that reads, or one that changes a table that `writable`
 * (separated by blanks; NULL: none) has. Functions are not looked at.
 */
int sql_check_statement(const struct sql_text *t, const char *writable, struct sql_verdict *ret,
                        struct err *err);

/*
 * Identifiers that may call a function: those in front of a parenthesis, and those behind a dot,
 * which PostgreSQL calls with what is in front of it.
 */
enum sql_call { SQL_CALL_NONE, SQL_CALL_PLAIN, SQL_CALL_FIELD, SQL_CALL_OF_ROW };
enum sql_call sql_call_at(const struct sql_text *t, size_t i);

#endif
