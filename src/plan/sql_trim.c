/*
 * The scanner knows just enough of SQL to tell text and comments from the rest: quotes, dollar
 * quotes, two kinds of comments.
 */

#include "plan/sql_trim.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

/* Past the quoted text that begins at `at`. A doubled quote reads as two texts side by side. */
static size_t skip_quoted(const char *sql, size_t len, size_t at)
{
    char quote = sql[at];
    bool escapes = quote == '\'' && at > 0 && (sql[at - 1] | 32) == 'e' &&
                   (at < 2 || !is_word(sql[at - 2]));

    for (at++; at < len && sql[at] != quote; at++)
        if (escapes && sql[at] == '\\')
            at++;
    return at < len ? at + 1 : len;
}

/* Past $tag$ … $tag$; one character if it is none. */
static size_t skip_dollar(const char *sql, size_t len, size_t at)
{
    size_t tag = at + 1;

    while (tag < len && is_word(sql[tag]))
        tag++;
    if (tag == len || sql[tag] != '$' || (at > 0 && is_word(sql[at - 1])))
        return at + 1;
    size_t n = tag - at + 1;
    const char *end = memmem(sql + tag + 1, len - tag - 1, sql + at, n);
    return end ? (size_t)(end - sql) + n : len;
}

/* Comments of this kind nest. */
static size_t skip_comment(const char *sql, size_t len, size_t at)
{
    size_t depth = 0;

    for (; at + 1 < len; at++) {
        if (sql[at] == '/' && sql[at + 1] == '*') {
            depth++;
            at++;
        } else if (sql[at] == '*' && sql[at + 1] == '/') {
            at++;
            if (--depth == 0)
                return at + 1;
        }
    }
    return len;
}

size_t sql_trimmed(const char *sql, size_t len)
{
    size_t end = 0, at = 0;

    while (at < len) {
        bool is_pair = at + 1 < len;
        if (is_pair && sql[at] == '-' && sql[at + 1] == '-') {
            const char *eol = memchr(sql + at, '\n', len - at);
            at = eol ? (size_t)(eol - sql) : len;
        } else if (is_pair && sql[at] == '/' && sql[at + 1] == '*') {
            at = skip_comment(sql, len, at);
        } else if (sql[at] == '\'' || sql[at] == '"') {
            end = at = skip_quoted(sql, len, at);
        } else if (sql[at] == '$') {
            end = at = skip_dollar(sql, len, at);
        } else {
            at++;
            if (!isspace((unsigned char)sql[at - 1]) && sql[at - 1] != ';')
                end = at;
        }
    }
    return end;
}
