/* Tokens of a statement; see sql_text.h. */

#include "database/sql_text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include "base/macros.h"
#include "base/str.h"

#define POSTGRES_NAME_BYTES 63

struct reader {
    enum sql_dialect dialect;
    const char *s;
    size_t len, at;
    struct sql_text *out;
    size_t cap;
    struct err *err;
};

static unsigned char look(const struct reader *r, size_t ahead)
{
    return r->at + ahead < r->len ? (unsigned char)r->s[r->at + ahead] : 0;
}

static bool starts_name(unsigned char c)
{
    return isalpha(c) || c == '_' || c >= 0x80;
}

static bool in_name(const struct reader *r, unsigned char c)
{
    return isalnum(c) || c == '_' || (r->dialect == SQL_POSTGRES && (c >= 0x80 || c == '$'));
}

static struct sql_token *add(struct reader *r, enum sql_kind kind, size_t from)
{
    struct sql_text *t = r->out;
    if (t->n == r->cap) {
        size_t cap = r->cap ? r->cap * 2 : 64;
        struct sql_token *more = reallocarray(t->tokens, cap, sizeof(*more));
        if (!more) {
            err_set(r->err, ERR_NO_MEMORY, "out of memory");
            return NULL;
        }
        t->tokens = more;
        r->cap = cap;
    }
    struct sql_token *token = &t->tokens[t->n++];
    *token = (struct sql_token){ .kind = kind, .at = from, .len = r->at - from };
    return token;
}

/* A name as the server knows it: PostgreSQL cuts it to 63 bytes. */
static void set_name(struct sql_token *t, const char *s, size_t len, bool fold)
{
    len = str_utf8_cut(s, len, POSTGRES_NAME_BYTES);
    for (size_t i = 0; i < len; i++)
        t->name[i] = (char)(fold && s[i] >= 'A' && s[i] <= 'Z' ? s[i] + 32 : s[i]);
    t->name[len] = '\0';
}

/* ---- blanks and comments ---- */

static bool is_blank(unsigned char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
}

/* PostgreSQL ends a comment at a carriage return, too; ClickHouse reads on. */
static int skip_line(struct reader *r)
{
    while (r->at < r->len && look(r, 0) != '\n' && look(r, 0) != '\r')
        r->at++;
    if (r->dialect == SQL_CLICKHOUSE && look(r, 0) == '\r' && look(r, 1) != '\n')
        return err_set(r->err, ERR_FORBIDDEN,
                       "a carriage return without a line feed in a comment is refused");
    return 0;
}

static int skip_comment(struct reader *r)
{
    unsigned depth = 0;
    do {
        if (r->at >= r->len)
            return err_set(r->err, ERR_VALIDATION, "a comment does not end");
        if (look(r, 0) == '/' && look(r, 1) == '*') {
            if (depth > 0 && r->dialect == SQL_CLICKHOUSE)
                return err_set(r->err, ERR_FORBIDDEN, "a comment inside of a comment is refused");
            depth++;
            r->at += 2;
        } else if (look(r, 0) == '*' && look(r, 1) == '/') {
            depth--;
            r->at += 2;
        } else {
            r->at++;
        }
    } while (depth > 0);
    return 0;
}

/* ---- strings ---- */

/* To behind the closing quote; r->at is behind the opening one. */
static int skip_quoted(struct reader *r, char quote, bool backslashes)
{
    for (;;) {
        if (r->at >= r->len)
            return err_set(r->err, ERR_VALIDATION, "a string or a quoted name does not end");
        unsigned char c = look(r, 0);
        r->at++;
        if (c == '\\' && backslashes)
            r->at++;
        else if (c == (unsigned char)quote && look(r, 0) == (unsigned char)quote)
            r->at++;
        else if (c == (unsigned char)quote)
            return 0;
    }
}

/*
 * PostgreSQL joins strings with a line break between them; the later ones are read as the first
 * one is, backslashes included.
 */
static bool continues(struct reader *r)
{
    size_t before = r->at;
    bool line = false;
    while (r->at < r->len) {
        unsigned char c = look(r, 0);
        if (c == '-' && look(r, 1) == '-') {
            (void)skip_line(r); /* of PostgreSQL */
        } else if (is_blank(c)) {
            line = line || c == '\n' || c == '\r';
            r->at++;
        } else {
            break;
        }
    }
    if (line && look(r, 0) == '\'') {
        r->at++;
        return true;
    }
    r->at = before;
    return false;
}

static int read_string(struct reader *r, size_t from, bool backslashes)
{
    r->at++;
    int e = skip_quoted(r, '\'', backslashes);
    while (e == 0 && r->dialect == SQL_POSTGRES && continues(r))
        e = skip_quoted(r, '\'', backslashes);
    return e == 0 && !add(r, SQL_STRING, from) ? -ERR_NO_MEMORY : e;
}

static int read_dollar(struct reader *r, bool *ret_is_one)
{
    size_t from = r->at, tag = r->at + 1;
    *ret_is_one = false;
    if (starts_name(look(r, 1)))
        while (tag < r->len && (isalnum((unsigned char)r->s[tag]) || r->s[tag] == '_' ||
                                (unsigned char)r->s[tag] >= 0x80))
            tag++;
    if (tag >= r->len || r->s[tag] != '$')
        return 0;
    size_t n = tag + 1 - from;
    const char *end = memmem(r->s + tag + 1, r->len - tag - 1, r->s + from, n);
    if (!end)
        return err_set(r->err, ERR_VALIDATION, "a dollar-quoted string does not end");
    r->at = (size_t)(end - r->s) + n;
    *ret_is_one = true;
    return add(r, SQL_STRING, from) ? 0 : -ERR_NO_MEMORY;
}

static int read_quoted_name(struct reader *r, char quote)
{
    size_t from = r->at++;
    auto_free char *name = malloc(r->len + 1);
    size_t n = 0;
    bool backslashes = r->dialect == SQL_CLICKHOUSE;
    if (!name)
        return err_set(r->err, ERR_NO_MEMORY, "out of memory");
    int e = skip_quoted(r, quote, backslashes);
    if (e < 0)
        return e;
    for (size_t i = from + 1; i + 1 < r->at; i++) {
        if (r->s[i] == '\\' && backslashes)
            return err_set(r->err, ERR_FORBIDDEN, "a backslash in a quoted name is not allowed");
        if (r->s[i] == quote)
            i++;
        name[n++] = r->s[i];
    }
    struct sql_token *t = add(r, SQL_QUOTED, from);
    if (!t)
        return -ERR_NO_MEMORY;
    set_name(t, name, n, false);
    return 0;
}

/* ---- the rest ---- */

static int read_name(struct reader *r)
{
    size_t from = r->at;
    while (in_name(r, look(r, 0)) && r->at < r->len)
        r->at++;
    size_t n = r->at - from;
    unsigned char first = (unsigned char)tolower((unsigned char)r->s[from]);
    if (r->dialect == SQL_POSTGRES && n == 1 && look(r, 0) == '\'' && strchr("ebxn", first))
        return read_string(r, from, first == 'e');
    if (r->dialect == SQL_POSTGRES && n == 1 && first == 'u' && look(r, 0) == '&') {
        if (look(r, 1) == '"')
            return err_set(r->err, ERR_FORBIDDEN,
                           "a name with Unicode escapes (U&\"…\") is not allowed");
        if (look(r, 1) == '\'') {
            r->at++;
            return read_string(r, from, false);
        }
    }
    struct sql_token *t = add(r, SQL_WORD, from);
    if (!t)
        return -ERR_NO_MEMORY;
    set_name(t, r->s + from, n, true);
    return 0;
}

static int read_number(struct reader *r)
{
    size_t from = r->at;
    while (isdigit(look(r, 0)) || look(r, 0) == '.')
        r->at++;
    if ((look(r, 0) == 'e' || look(r, 0) == 'E') &&
        (isdigit(look(r, 1)) ||
         ((look(r, 1) == '+' || look(r, 1) == '-') && isdigit(look(r, 2))))) {
        r->at += 2;
        while (isdigit(look(r, 0)))
            r->at++;
    }
    return add(r, SQL_NUMBER, from) ? 0 : -ERR_NO_MEMORY;
}

/* `:name`, unless it is part of `::` or follows what makes it a slice of an array (a[1:n]). */
static bool is_param(const struct reader *r)
{
    unsigned char before = r->at > 0 ? (unsigned char)r->s[r->at - 1] : ' ';
    return starts_name(look(r, 1)) && look(r, 1) < 0x80 && before != ':' && !isalnum(before) &&
           before != '_';
}

static int read_param(struct reader *r)
{
    size_t from = r->at++;
    while (isalnum(look(r, 0)) || look(r, 0) == '_')
        r->at++;
    struct sql_token *t = add(r, SQL_PARAM, from);
    if (!t)
        return -ERR_NO_MEMORY;
    if (r->at - from - 1 >= sizeof(t->name))
        return err_set(r->err, ERR_VALIDATION, "a parameter has a name of more than 63 bytes");
    set_name(t, r->s + from + 1, r->at - from - 1, false);
    return 0;
}

static int read_mark(struct reader *r)
{
    static const char operators[] = "+-*/<>=~!@#%^&|`?";
    size_t from = r->at;
    unsigned char c = look(r, 0);
    if (c == ':' && look(r, 1) == ':') {
        r->at += 2;
    } else if (strchr(operators, c)) {
        while (look(r, 0) && strchr(operators, look(r, 0)) &&
               !(look(r, 0) == '-' && look(r, 1) == '-') &&
               !(look(r, 0) == '/' && look(r, 1) == '*'))
            r->at++;
    } else if (strchr("()[]{},;.:", c)) {
        r->at++;
    } else {
        return err_set(r->err, ERR_VALIDATION, "the character '%c' (0x%02x) has no meaning here",
                       isprint(c) ? c : '?', c);
    }
    bool op = strchr(operators, c) || r->at - from > 1;
    struct sql_token *t = add(r, op ? SQL_OP : SQL_PUNCT, from);
    if (!t)
        return -ERR_NO_MEMORY;
    set_name(t, r->s + from, r->at - from, false);
    return 0;
}

static int read_token(struct reader *r)
{
    unsigned char c = look(r, 0), next = look(r, 1);
    bool is_dollar = false;
    if (is_blank(c)) {
        r->at++;
        return 0;
    }
    if (c == '-' && next == '-')
        return skip_line(r);
    if (c == '/' && next == '*')
        return skip_comment(r);
    if (c == '\'')
        return read_string(r, r->at, r->dialect == SQL_CLICKHOUSE);
    if (c == '"' || (c == '`' && r->dialect == SQL_CLICKHOUSE))
        return read_quoted_name(r, (char)c);
    if (c == '$' && r->dialect == SQL_POSTGRES) {
        int e = read_dollar(r, &is_dollar);
        if (e < 0 || is_dollar)
            return e;
        return err_set(r->err, ERR_FORBIDDEN, "parameters are written ':name', not '$1'");
    }
    /* Newer servers read quotes, blanks and comments there that older ones do not know. */
    if (r->dialect == SQL_CLICKHOUSE && (c >= 0x80 || c == '#' || c == '$'))
        return err_set(r->err, ERR_FORBIDDEN,
                       "'#', '$' and letters other than A to Z are allowed in quotes only");
    if (starts_name(c))
        return read_name(r);
    if (isdigit(c) || (c == '.' && isdigit(next)))
        return read_number(r);
    if (c == ':' && is_param(r))
        return read_param(r);
    return read_mark(r);
}

int sql_text_read(enum sql_dialect dialect, const char *text, struct sql_text *ret, struct err *err)
{
    struct reader r = {
        .dialect = dialect, .s = text, .len = strlen(text), .out = ret, .err = err
    };
    int e = 0;
    *ret = (struct sql_text){ .text = text, .len = r.len };
    if (!str_is_utf8(text, r.len))
        return err_set(err, ERR_VALIDATION, "the statement is not valid UTF-8");
    while (e == 0 && r.at < r.len)
        e = read_token(&r);
    if (e < 0)
        sql_text_finish(ret);
    return e;
}

void sql_text_finish(struct sql_text *t)
{
    free(t->tokens);
    t->tokens = NULL;
    t->n = 0;
}

/* ---- what it says ---- */

bool sql_is_word(const struct sql_text *t, size_t i, const char *word)
{
    return i < t->n && t->tokens[i].kind == SQL_WORD && str_eq(t->tokens[i].name, word);
}

bool sql_is_mark(const struct sql_text *t, size_t i, char mark)
{
    return i < t->n && t->tokens[i].kind == SQL_PUNCT && t->tokens[i].name[0] == mark;
}

bool sql_is_name(const struct sql_text *t, size_t i)
{
    return i < t->n && (t->tokens[i].kind == SQL_WORD || t->tokens[i].kind == SQL_QUOTED);
}

enum sql_call sql_call_at(const struct sql_text *t, size_t i)
{
    if (!sql_is_name(t, i))
        return SQL_CALL_NONE;
    if (sql_is_mark(t, i + 1, '('))
        return SQL_CALL_PLAIN;
    if (i == 0 || !sql_is_mark(t, i - 1, '.'))
        return SQL_CALL_NONE;
    return i >= 2 && sql_is_name(t, i - 2) ? SQL_CALL_OF_ROW : SQL_CALL_FIELD;
}

static bool is_one_of(const struct sql_text *t, size_t i, const char *words)
{
    return i < t->n && t->tokens[i].kind == SQL_WORD && str_has_word(words, t->tokens[i].name);
}

/* A statement that writes begins here, whatever it is inside of. */
static bool begins_write(const struct sql_text *t, size_t i)
{
    if (!sql_is_mark(t, i - 1, '(') && !sql_is_mark(t, i - 1, ')'))
        return false; /* elsewhere it is the name of something */
    if (sql_is_word(t, i, "insert") || sql_is_word(t, i, "merge"))
        return sql_is_word(t, i + 1, "into");
    if (sql_is_word(t, i, "delete"))
        return sql_is_word(t, i + 1, "from");
    if (!sql_is_word(t, i, "update") || !sql_is_name(t, i + 1))
        return false;
    for (size_t k = i + 2; k < t->n && k < i + 12; k++) /* UPDATE ONLY schema.table AS t SET */
        if (sql_is_word(t, k, "set"))
            return true;
    return false;
}

static int check_explain(const struct sql_text *t, size_t *i, struct err *err)
{
    for (++*i; *i < t->n; ++*i) {
        if (is_one_of(t, *i, "analyze analyse"))
            return err_set(err, ERR_FORBIDDEN, "EXPLAIN ANALYZE runs the statement and is refused");
        if (is_one_of(t, *i, "select with values table"))
            return 0;
        if (!sql_is_name(t, *i) && t->tokens[*i].kind != SQL_PUNCT)
            break;
    }
    return err_set(err, ERR_FORBIDDEN, "EXPLAIN is allowed in front of a SELECT only");
}

/* The table that INSERT INTO, UPDATE or DELETE FROM names first. */
static int check_write(const struct sql_text *t, const char *writable, struct sql_verdict *ret,
                       struct err *err)
{
    size_t i = sql_is_word(t, 0, "update") ? 1 : 2;
    const char *verb = t->tokens[0].name;
    char shown[STR_SHOWN_SIZE];
    if (!sql_is_word(t, 0, "update") &&
        !sql_is_word(t, 1, sql_is_word(t, 0, "insert") ? "into" : "from"))
        return err_set(err, ERR_FORBIDDEN, "only INSERT INTO, UPDATE and DELETE FROM can write");
    if (!sql_is_name(t, i) || sql_is_word(t, i, "only"))
        return err_set(err, ERR_FORBIDDEN, "%s without the name of a table is refused", verb);
    if (sql_is_mark(t, i + 1, '.')) {
        if (!sql_is_word(t, i, "public") || !sql_is_name(t, i + 2))
            return err_set(err, ERR_FORBIDDEN, "only tables of the schema 'public' can be written");
        i += 2;
    }
    memcpy(ret->table, t->tokens[i].name, sizeof(ret->table));
    if (!writable || strpbrk(ret->table, " ,.\n") || !str_has_word(writable, ret->table))
        return err_set(err, ERR_FORBIDDEN,
                       "this database is read-only: its entry in DATABASES gives no right to "
                       "write to the table '%s'",
                       str_show(ret->table, strlen(ret->table), shown, sizeof(shown)));
    ret->writes = true;
    return 0;
}

static int check_rest(const struct sql_text *t, bool is_insert, struct err *err)
{
    for (size_t i = 1; i < t->n; i++) {
        if (sql_is_mark(t, i, ';') && i + 1 < t->n)
            return err_set(err, ERR_FORBIDDEN, "only one statement is allowed");
        if (begins_write(t, i))
            return err_set(err, ERR_FORBIDDEN, "%s inside of a statement is refused",
                           t->tokens[i].name);
        if (sql_is_word(t, i, "into") && !(is_insert && i == 1) && !sql_is_word(t, i - 1, "as") &&
            !sql_is_mark(t, i - 1, '.'))
            return err_set(err, ERR_FORBIDDEN, "SELECT … INTO makes a table and is refused");
        if (sql_is_word(t, i, "for") && is_one_of(t, i + 1, "update share no key"))
            return err_set(err, ERR_FORBIDDEN, "SELECT … FOR UPDATE locks rows and is refused");
    }
    return 0;
}

int sql_check_statement(const struct sql_text *t, const char *writable, struct sql_verdict *ret,
                        struct err *err)
{
    size_t i = 0;
    char shown[STR_SHOWN_SIZE];
    *ret = (struct sql_verdict){ .writes = false };
    while (sql_is_mark(t, i, '('))
        i++;
    if (i >= t->n || sql_is_mark(t, i, ';'))
        return err_set(err, ERR_VALIDATION, "there is no statement");
    bool writes = i == 0 && is_one_of(t, 0, "insert update delete");
    int r = 0;
    if (writes)
        r = check_write(t, writable, ret, err);
    else if (sql_is_word(t, i, "explain"))
        r = check_explain(t, &i, err);
    else if (!is_one_of(t, i, "select with values table"))
        r = err_set(
            err, ERR_FORBIDDEN,
            "only SELECT, WITH, VALUES, TABLE and EXPLAIN are allowed; this begins with '%s'",
            str_show(t->text + t->tokens[i].at, t->tokens[i].len, shown, sizeof(shown)));
    if (r == 0)
        r = check_rest(t, sql_is_word(t, 0, "insert"), err);
    return r;
}
