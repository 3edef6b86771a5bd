#ifndef RIDDLE_PLAN_EXPR_LEX_H
#define RIDDLE_PLAN_EXPR_LEX_H

/* The tokens of an expression, shared by expr_lex.c and the grammar in expr.c. */

#include "plan/expr.h"

enum token_kind { TOKEN_END, TOKEN_NUMBER, TOKEN_STRING, TOKEN_NAME, TOKEN_QUOTED, TOKEN_SYMBOL };

struct token {
    enum token_kind kind;
    int at;           /* column, in characters from 1 */
    const char *text; /* of a string or a quoted name: its content; in the arena */
    size_t len;
    const char *end; /* the first byte behind it */
};

struct parser {
    const char *text;
    struct arena *arena;
    struct err *err;
    struct token token; /* the one that is looked at */
    int depth;
};

/*
 * Goes on to the next token. Of these, those that answer a question return 1 or 0, or a negative
 * code when what follows is no token.
 */
int lex_next(struct parser *p);
bool lex_is_word(const struct token *t, const char *word); /* case ignored */
bool lex_is_symbol(const struct token *t, const char *symbol);
bool lex_is_keyword(const struct token *t);
int lex_accept_word(struct parser *p, const char *word); /* goes on behind it if it is there */
int lex_accept_symbol(struct parser *p, const char *symbol);
int lex_need_word(struct parser *p, const char *word); /* VALIDATION if it is another */
int lex_need_symbol(struct parser *p, const char *symbol, const char *what);

/* VALIDATION with the expression and the column. */
int lex_fail(struct parser *p, int at, const char *fmt, ...) PRINTF_LIKE(3, 4);
int lex_expected(struct parser *p, const char *what); /* "expected …, found …" at the token */
int lex_out_of_memory(struct parser *p);

#endif
