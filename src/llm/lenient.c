/*
 * JSON as models' servers send it. Text that json_parse() takes is read by it. Text that it refuses
 * is copied with the parts mended that servers are known to get wrong, and read again: a random
 * seed of 64 unsigned bits, NaN of a log-probability, a duplicate key of a gateway, half of a
 * surrogate pair at the end of a token.
 */

#include "llm/llm_impl.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/str.h"

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */
#define NUMBER_MAX 400             /* characters of a number */

struct mending {
    const char *p, *end;
    struct buf out;
    int depth;
};

static int hex4(const char *p, const char *end)
{
    int v = 0;

    if (end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        if (!isxdigit((unsigned char)p[i]))
            return -1;
        v = v * 16 + (isdigit((unsigned char)p[i]) ? p[i] - '0' : (p[i] | 32) - 'a' + 10);
    }
    return v;
}

/* An escape at m->p, which is a backslash. */
static int mend_escape(struct mending *m, struct err *err)
{
    int v = m->end - m->p >= 2 && m->p[1] == 'u' ? hex4(m->p + 2, m->end) : -1;
    size_t n = v >= 0 ? 6 : (size_t)MIN_OF(m->end - m->p, 2);
    int r;

    if (v >= 0xd800 && v <= 0xdbff && m->end - m->p >= 12 && m->p[6] == '\\' && m->p[7] == 'u') {
        int low = hex4(m->p + 8, m->end);

        if (low >= 0xdc00 && low <= 0xdfff)
            n = 12;
    }
    if (v == 0 || (v >= 0xd800 && v <= 0xdfff && n == 6))
        r = buf_append_str(&m->out, REPLACEMENT, err);
    else
        r = buf_append(&m->out, m->p, n, err);
    m->p += n;
    return r;
}

/* A string; m->p is behind its first quote. */
static int mend_string(struct mending *m, struct err *err)
{
    int r = buf_append(&m->out, "\"", 1, err);

    while (r == 0 && m->p < m->end) {
        unsigned char c = (unsigned char)*m->p;
        size_t bad, n;

        if (c == '"') {
            m->p++;
            return buf_append(&m->out, "\"", 1, err);
        }
        if (c == '\\') {
            r = mend_escape(m, err);
        } else if (c == 0) {
            r = buf_append_str(&m->out, REPLACEMENT, err);
            m->p++;
        } else if (c < 0x20) {
            r = buf_printf(&m->out, err, "\\u%04x", c);
            m->p++;
        } else {
            n = str_utf8_next(m->p, (size_t)(m->end - m->p), &bad);
            r = n ? buf_append(&m->out, m->p, n, err) : buf_append_str(&m->out, REPLACEMENT, err);
            m->p += n ? n : bad;
        }
    }
    return r;
}

static int mend_number(struct mending *m, struct err *err)
{
    char text[NUMBER_MAX + 1];
    size_t n = 0;
    bool is_real;

    while (m->p + n < m->end && n < NUMBER_MAX && m->p[n] && strchr("+-0123456789.eE", m->p[n]))
        n++;
    memcpy(text, m->p, n);
    text[n] = '\0';
    m->p += n;
    is_real = strpbrk(text, ".eE") != NULL;
    if (is_real)
        return buf_append_str(&m->out, isfinite(strtod(text, NULL)) ? text : "null", err);
    errno = 0;
    (void)strtoll(text, NULL, 10);
    return buf_printf(&m->out, err, "%s%s", text, errno == ERANGE ? ".0" : "");
}

/* Words that are no JSON, but stand where a number does. */
static size_t no_number(const struct mending *m)
{
    static const char *const words[] = { "NaN", "Infinity", "-Infinity", "nan", "inf", "-inf" };

    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        size_t n = strlen(words[i]);

        if ((size_t)(m->end - m->p) >= n && memcmp(m->p, words[i], n) == 0)
            return n;
    }
    return 0;
}

static int mend(struct mending *m, struct err *err)
{
    int r = 0;

    while (r == 0 && m->p < m->end) {
        char c = *m->p;
        size_t n = no_number(m);

        if (n > 0) {
            r = buf_append_str(&m->out, "null", err);
            m->p += n;
        } else if (c == '"') {
            m->p++;
            r = mend_string(m, err);
        } else if (c == '-' || isdigit((unsigned char)c)) {
            r = mend_number(m, err);
        } else {
            m->depth += (c == '{' || c == '[') - (c == '}' || c == ']');
            if (m->depth > JSON_MAX_DEPTH)
                return err_set(err, ERR_INVALID_JSON, "nested deeper than %d levels",
                               JSON_MAX_DEPTH);
            r = buf_append(&m->out, &c, 1, err);
            m->p++;
        }
    }
    return r;
}

int llm_json_read(const char *text, size_t len, json_t **ret, struct err *err)
{
    struct mending m = { .p = text, .end = text + len, .out = BUF_INIT(6 * len + 16) };
    struct err first = ERR_INIT, ignored = ERR_INIT;
    json_t *j = NULL;
    int r = json_parse(text, len, ret, &first);

    if (r == 0)
        return 0;
    if (first.code == ERR_INVALID_JSON && mend(&m, &ignored) == 0)
        j = json_loadb(buf_cstr(&m.out), m.out.len, JSON_DECODE_ANY, NULL);
    buf_finish(&m.out);
    if (!j)
        return err_set(err, first.code, "%s", first.message);
    *ret = j;
    return 0;
}
