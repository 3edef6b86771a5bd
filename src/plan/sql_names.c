/* Table names without their data set: see sql_names.h. */

#include "plan/sql_names.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>
#include "base/macros.h"

static bool is_name_start(char c)
{
    return isalpha((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

static bool is_name_char(char c)
{
    return is_name_start(c) || isdigit((unsigned char)c) || c == '$';
}

static const char *after_name(const char *s)
{
    while (is_name_char(*s))
        s++;
    return s;
}

/* s is the opening quote. The end of the text where it is not closed. */
static const char *after_quoted(const char *s, bool has_escapes)
{
    char quote = *s++;
    for (; *s; s++) {
        if (has_escapes && *s == '\\' && s[1])
            s++;
        else if (*s == quote && s[1] == quote)
            s++;
        else if (*s == quote)
            return s + 1;
    }
    return s;
}

/* s is at "$tag$" or not: then it is one character. */
static const char *after_dollar(const char *s)
{
    const char *tag = s + 1;
    while (is_name_start(*tag) || (tag > s + 1 && isdigit((unsigned char)*tag)))
        tag++;
    if (*tag != '$')
        return s + 1;
    size_t len = (size_t)(tag + 1 - s);
    for (const char *end = tag + 1; (end = strchr(end, '$')); end++)
        if (!strncmp(end, s, len))
            return end + len;
    return s + strlen(s);
}

static const char *after_comment(const char *s)
{
    size_t depth = 0;
    if (*s == '-')
        return s + strcspn(s, "\n");
    do {
        int step = s[0] == '/' && s[1] == '*' ? 1 : s[0] == '*' && s[1] == '/' ? -1 : 0;
        depth = step < 0 ? depth - 1 : depth + (size_t)step;
        s += step ? 2 : 1;
    } while (depth > 0 && *s);
    return s;
}

static const char *after_blanks(const char *s)
{
    while (isspace((unsigned char)*s))
        s++;
    return s;
}

static const char *after_token(const char *s)
{
    if ((*s == 'e' || *s == 'E') && s[1] == '\'')
        return after_quoted(s + 1, true);
    if (is_name_start(*s))
        return after_name(s);
    if (*s == '\'' || *s == '"')
        return after_quoted(s, false);
    if (*s == '$')
        return after_dollar(s);
    if ((s[0] == '-' && s[1] == '-') || (s[0] == '/' && s[1] == '*'))
        return after_comment(s);
    if (isdigit((unsigned char)*s)) /* 1e5 is no name after a number */
        return after_name(s);
    return s + 1;
}

/* The token, quoted or not, is this name. A name with a quote in it is none of a table. */
static bool is_named(const char *token, const char *end, const char *name)
{
    if (*token == '"') {
        token++;
        end--;
    }
    return end > token && strlen(name) == (size_t)(end - token) &&
           !strncasecmp(token, name, (size_t)(end - token));
}

/* Where the table's name begins if `dataset . table` begins at s, whose first token ends at end. */
static const char *table_after(const struct sql_policy *names, const char *s, const char *end)
{
    if (!names->dataset_id || !is_named(s, end, names->dataset_id))
        return NULL;
    const char *dot = after_blanks(end);
    if (*dot != '.')
        return NULL;
    const char *table = after_blanks(dot + 1);
    if (!is_name_start(*table) && *table != '"')
        return NULL;
    for (size_t i = 0; i < names->n_tables; i++)
        if (is_named(table, after_token(table), names->tables[i]))
            return table;
    return NULL;
}

int sql_plain_names(const struct sql_policy *names, const char *sql, struct buf *ret,
                    struct err *err)
{
    char before = '\0'; /* the last character that is no blank */
    int r = 0;
    for (const char *s = sql, *end; r == 0 && *s; s = end) {
        const char *table = NULL;
        end = after_token(s);
        if (before != '.' && (is_name_start(*s) || *s == '"'))
            table = table_after(names, s, end);
        if (table)
            end = table;
        else
            r = buf_append(ret, s, (size_t)(end - s), err);
        if (!isspace((unsigned char)*s))
            before = table ? '\0' : end[-1];
    }
    return r;
}
