/* Names, numbers and tokens of a plan's expressions. */

#include "plan/expr_lex.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/str.h"

/* ---- names and numbers ---- */

/*
 * What is not a letter or a digit outside ASCII: controls, spaces, punctuation, symbols, private
 * use. Names are quoted wherever they go, so this is about clear names, not about safety.
 */
static bool is_name_char(uint32_t c)
{
    static const struct {
        uint32_t first, last;
    } others[] = {
        { 0x80, 0xa9 },     { 0xab, 0xb1 },       { 0xb4, 0xb4 },        { 0xb6, 0xb8 },
        { 0xbb, 0xbb },     { 0xbf, 0xbf },       { 0xd7, 0xd7 },        { 0xf7, 0xf7 },
        { 0x2c2, 0x2c5 },   { 0x1680, 0x1680 },   { 0x2000, 0x206f },    { 0x207a, 0x207e },
        { 0x208a, 0x208e }, { 0x20a0, 0x20cf },   { 0x2190, 0x245f },    { 0x249c, 0x24e9 },
        { 0x2500, 0x2775 }, { 0x2794, 0x2bff },   { 0x2e00, 0x2e7f },    { 0x3000, 0x3004 },
        { 0x3008, 0x3020 }, { 0x3030, 0x3030 },   { 0xd800, 0xf8ff },    { 0xfe10, 0xfe6f },
        { 0xfeff, 0xff0f }, { 0xff1a, 0xff20 },   { 0xff3b, 0xff40 },    { 0xff5b, 0xff65 },
        { 0xffe0, 0xffff }, { 0x1f000, 0x1fbef }, { 0xe0000, 0x10ffff },
    };
    if (c < 0x80)
        return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
               c == '_';
    for (size_t i = 0; i < ARRAY_SIZE(others); i++)
        if (c >= others[i].first && c <= others[i].last)
            return false;
    return true;
}

/* Bytes of the name character at s; 0 if there is none. */
static size_t name_char_len(const char *s)
{
    size_t bad, n = str_utf8_next(s, strlen(s), &bad);
    uint32_t c = (unsigned char)s[0];

    if (n == 0 || s[0] == '\0')
        return 0;
    if (n > 1) {
        c &= 0x7fu >> n;
        for (size_t i = 1; i < n; i++)
            c = c << 6 | ((unsigned char)s[i] & 0x3f);
    }
    return is_name_char(c) ? n : 0;
}

bool expr_is_plain_name(const char *s)
{
    if (*s == '\0')
        return false;
    for (size_t n; *s; s += n) {
        n = name_char_len(s);
        if (n == 0)
            return false;
    }
    return true;
}

void expr_from_double(double v, char ret[EXPR_DOUBLE_SIZE])
{
    char sci[EXPR_DOUBLE_SIZE], digits[24];
    size_t n = 0;

    for (int precision = 0; precision <= 16; precision++) {
        snprintf(sci, sizeof(sci), "%.*e", precision, v);
        if (strtod(sci, NULL) == v)
            break;
    }
    const char *e = strchr(sci, 'e');
    if (!e) { /* not finite */
        snprintf(ret, EXPR_DOUBLE_SIZE, "%s", sci);
        return;
    }
    int exponent = atoi(e + 1);
    for (const char *p = sci; p < e && n < sizeof(digits) - 1; p++)
        if (*p >= '0' && *p <= '9')
            digits[n++] = *p;
    while (n > 1 && digits[n - 1] == '0')
        n--;
    digits[n] = '\0';

    const char *sign = sci[0] == '-' ? "-" : "";
    if (exponent < -4 || exponent >= 16)
        snprintf(ret, EXPR_DOUBLE_SIZE, "%s%c%s%se%+03d", sign, digits[0], n > 1 ? "." : "",
                 digits + 1, exponent);
    else if (exponent < 0)
        snprintf(ret, EXPR_DOUBLE_SIZE, "%s0.%.*s%s", sign, -exponent - 1, "000", digits);
    else if ((size_t)exponent + 1 >= n)
        snprintf(ret, EXPR_DOUBLE_SIZE, "%s%s%.*s.0", sign, digits, exponent + 1 - (int)n,
                 "0000000000000000");
    else
        snprintf(ret, EXPR_DOUBLE_SIZE, "%s%.*s.%s", sign, exponent + 1, digits,
                 digits + exponent + 1);
}

/* ---- tokens ---- */

static const char *const keywords[] = {
    "and", "as", "between", "case", "cast", "distinct", "else", "end",  "false",
    "in",  "is", "like",    "not",  "null", "or",       "then", "true", "when",
};

static int column_of(const struct parser *p, const char *at)
{
    int n = 1;
    for (const char *s = p->text; s < at; s++)
        n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

int lex_fail(struct parser *p, int at, const char *fmt, ...)
{
    char what[640], shown[STR_SHOWN_SIZE];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    return err_set(p->err, ERR_VALIDATION, "expression '%s', column %d: %s",
                   str_show(p->text, strlen(p->text), shown, sizeof(shown)), at, what);
}

int lex_out_of_memory(struct parser *p)
{
    return err_set(p->err, ERR_TOO_LARGE, "the plan is too large");
}

static const char *describe(const struct token *t, char ret[STR_SHOWN_SIZE + 16])
{
    char shown[STR_SHOWN_SIZE];

    if (t->kind == TOKEN_END)
        return "the end";
    str_show(t->text, t->len, shown, sizeof(shown));
    snprintf(ret, STR_SHOWN_SIZE + 16, t->kind == TOKEN_STRING ? "the text '%s'" : "'%s'", shown);
    return ret;
}

int lex_expected(struct parser *p, const char *what)
{
    char shown[STR_SHOWN_SIZE + 16];

    return lex_fail(p, p->token.at, "expected %s, found %s", what, describe(&p->token, shown));
}

/* The content between two `quote`s, where a doubled one stands for itself. */
static int scan_quoted(struct parser *p, const char *s, char quote, struct token *t)
{
    const char *end = s + 1;
    size_t n = 0;

    while (*end && (*end != quote || end[1] == quote))
        end += *end == quote ? 2 : 1;
    if (*end == '\0')
        return lex_fail(p, t->at, "%s has no end; expected %c",
                        quote == '"' ? "the quoted name" : "the text", quote);
    char *to = arena_alloc(p->arena, (size_t)(end - s));
    if (!to)
        return lex_out_of_memory(p);
    for (const char *from = s + 1; from < end; from += *from == quote ? 2 : 1)
        to[n++] = *from;
    t->text = to;
    t->len = n;
    t->end = end + 1;
    if (quote == '"' && (n == 0 || n > EXPR_NAME_MAX_BYTES))
        return lex_fail(p, t->at, "a name must have 1 to %d bytes", EXPR_NAME_MAX_BYTES);
    return 0;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int scan_number(struct parser *p, const char *s, struct token *t)
{
    const char *from = s;

    while (is_digit(*s))
        s++;
    if (*s == '.' && is_digit(s[1]))
        for (s++; is_digit(*s); s++)
            ;
    if (*s == 'e' || *s == 'E') {
        const char *e = s + 1 + (s[1] == '+' || s[1] == '-');
        if (!is_digit(*e))
            return lex_fail(p, column_of(p, s), "the exponent of a number needs digits");
        for (s = e; is_digit(*s); s++)
            ;
    }
    if (*s == '.' || name_char_len(s))
        return lex_fail(p, column_of(p, s), "a number may not go on with '%.*s'",
                        (int)MAX_OF(name_char_len(s), 1), s);
    if (s - from > 60)
        return lex_fail(p, t->at, "the number is too long");
    t->len = (size_t)(s - from);
    t->end = s;
    t->text = arena_printf(p->arena, "%s%.*s", *from == '.' ? "0" : "", (int)t->len, from);
    if (!t->text)
        return lex_out_of_memory(p);
    if (!isfinite(strtod(t->text, NULL)))
        return lex_fail(p, t->at, "the number is too large");
    t->len = strlen(t->text);
    return 0;
}

int lex_next(struct parser *p)
{
    static const char *const symbols[] = { "||", "<=", ">=", "<>", "!=", "==", "+", "-", "*",
                                           "/",  "%",  "(",  ")",  ",",  ".",  "<", ">", "=" };
    const char *s = p->token.end ? p->token.end : p->text;
    struct token *t = &p->token;
    char shown[STR_SHOWN_SIZE];

    while (*s == ' ' || *s == '\t' || *s == '\n' || *s == '\r')
        s++;
    t->at = column_of(p, s);
    t->text = s;
    t->len = 0;
    t->end = s;
    if (*s == '\0') {
        t->kind = TOKEN_END;
        return 0;
    }
    if (is_digit(*s) || (*s == '.' && is_digit(s[1]))) {
        t->kind = TOKEN_NUMBER;
        return scan_number(p, s, t);
    }
    if (*s == '\'' || *s == '"') {
        t->kind = *s == '"' ? TOKEN_QUOTED : TOKEN_STRING;
        return scan_quoted(p, s, *s, t);
    }
    for (size_t n; (n = name_char_len(s)) > 0; s += n)
        ;
    if (s > t->text) {
        t->kind = TOKEN_NAME;
        t->len = (size_t)(s - t->text);
        t->end = s;
        if (t->len > EXPR_NAME_MAX_BYTES)
            return lex_fail(p, t->at, "a name may have at most %d bytes", EXPR_NAME_MAX_BYTES);
        return 0;
    }
    for (size_t i = 0; i < ARRAY_SIZE(symbols); i++)
        if (str_starts(s, symbols[i])) {
            t->kind = TOKEN_SYMBOL;
            t->len = strlen(symbols[i]);
            t->end = s + t->len;
            return 0;
        }
    size_t bad, n = str_utf8_next(s, strlen(s), &bad);
    return lex_fail(p, t->at, "unexpected '%s'", str_show(s, n ? n : bad, shown, sizeof(shown)));
}

bool lex_is_word(const struct token *t, const char *word)
{
    return t->kind == TOKEN_NAME && t->len == strlen(word) &&
           strncasecmp(t->text, word, t->len) == 0;
}

bool lex_is_symbol(const struct token *t, const char *symbol)
{
    return t->kind == TOKEN_SYMBOL && t->len == strlen(symbol) &&
           memcmp(t->text, symbol, t->len) == 0;
}

bool lex_is_keyword(const struct token *t)
{
    for (size_t i = 0; i < ARRAY_SIZE(keywords); i++)
        if (lex_is_word(t, keywords[i]))
            return true;
    return false;
}

/* Goes on behind the token if it is the one wanted: 1, 0 if it is another, or an error. */
int lex_accept_word(struct parser *p, const char *word)
{
    if (!lex_is_word(&p->token, word))
        return 0;
    int r = lex_next(p);
    return r < 0 ? r : 1;
}

int lex_accept_symbol(struct parser *p, const char *symbol)
{
    if (!lex_is_symbol(&p->token, symbol))
        return 0;
    int r = lex_next(p);
    return r < 0 ? r : 1;
}

int lex_need_word(struct parser *p, const char *word)
{
    char what[32];
    int r = lex_accept_word(p, word);

    snprintf(what, sizeof(what), "'%s'", word);
    return r == 0 ? lex_expected(p, what) : r;
}

int lex_need_symbol(struct parser *p, const char *symbol, const char *what)
{
    int r = lex_accept_symbol(p, symbol);

    return r == 0 ? lex_expected(p, what) : r;
}
