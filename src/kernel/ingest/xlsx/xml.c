/*
 * The pull parser. Tokens point into one buffer, which is refilled in front of a token that is not
 * whole: a tag always is, text comes in pieces.
 */

#include "kernel/ingest/xlsx/xml.h"

#include <stdlib.h>
#include <string.h>
#include "base/macros.h"

#define REFERENCE_MAX 12 /* &#x10FFFF; */

int xml_init(struct xml *x, ssize_t (*read)(void *arg, char *buf, size_t n, struct err *err),
             void *arg, struct err *err)
{
    *x = (struct xml){ .read = read, .read_arg = arg, .buf = malloc(XML_BUFFER_BYTES) };
    return x->buf ? 0 : err_set(err, ERR_NO_MEMORY, "out of memory for reading XML");
}

void xml_finish(struct xml *x)
{
    free(x->buf);
    x->buf = NULL;
}

/* ---- bytes --------------------------------------------------------------------------------------------------------- */

/*
 * More bytes behind those that are there. 1 if some came, 0 at the end of the document or of the
 * buffer.
 */
static int fill(struct xml *x, struct err *err)
{
    if (x->at_eof)
        return 0;
    if (x->at > 0) {
        memmove(x->buf, x->buf + x->at, x->end - x->at);
        x->end -= x->at;
        x->at = 0;
    }
    if (x->end == XML_BUFFER_BYTES)
        return 0;
    ssize_t n = x->read(x->read_arg, x->buf + x->end, XML_BUFFER_BYTES - x->end, err);
    if (n < 0)
        return (int)n;
    x->at_eof = n == 0;
    x->end += (size_t)n;
    return n > 0;
}

/* Makes at least n bytes available if the document has them. */
static int want(struct xml *x, size_t n, struct err *err)
{
    int r = 1;

    while (x->end - x->at < n && r > 0)
        r = fill(x, err);
    return r < 0 ? r : 0;
}

static bool starts(const struct xml *x, const char *s)
{
    size_t n = strlen(s);

    return x->end - x->at >= n && memcmp(x->buf + x->at, s, n) == 0;
}

static int cut_off(struct err *err)
{
    return err_set(err, ERR_VALIDATION, "its XML ends in the middle");
}

static int malformed(struct err *err)
{
    return err_set(err, ERR_VALIDATION, "its XML is malformed");
}

/* Moves behind the next `mark`, however far it is. */
static int skip_past(struct xml *x, const char *mark, struct err *err)
{
    size_t n = strlen(mark);

    for (;;) {
        const char *hit = memmem(x->buf + x->at, x->end - x->at, mark, n);

        if (hit) {
            x->at = (size_t)(hit - x->buf) + n;
            return 0;
        }
        if (x->end - x->at >= n) /* its first bytes may be the last ones here */
            x->at = x->end - (n - 1);
        int r = fill(x, err);
        if (r <= 0)
            return r < 0 ? r : cut_off(err);
    }
}

/* ---- references ---------------------------------------------------------------------------------------------------- */

static size_t put_utf8(uint32_t c, char *out)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 63));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 63));
        out[2] = (char)(0x80 | (c & 63));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 63));
    out[2] = (char)(0x80 | (c >> 6 & 63));
    out[3] = (char)(0x80 | (c & 63));
    return 4;
}

static int digit_of(char c)
{
    return c >= '0' && c <= '9' ? c - '0' :
           c >= 'a' && c <= 'f' ? c - 'a' + 10 :
           c >= 'A' && c <= 'F' ? c - 'A' + 10 :
                                  99;
}

/* s is &…; of len bytes. The bytes of the character it stands for, 0 if it is none. */
static size_t decode(const char *s, size_t len, char out[4])
{
    static const struct {
        const char *name;
        char c;
    } known[] = {
        { "&amp;", '&' }, { "&lt;", '<' }, { "&gt;", '>' }, { "&quot;", '"' }, { "&apos;", '\'' }
    };

    for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
        if (strlen(known[i].name) == len && memcmp(known[i].name, s, len) == 0) {
            out[0] = known[i].c;
            return 1;
        }
    }
    if (len < 4 || s[1] != '#')
        return 0;
    bool hex = s[2] == 'x';
    uint32_t c = 0;
    for (size_t i = hex ? 3 : 2; i + 1 < len; i++) {
        int digit = digit_of(s[i]);

        if (digit >= (hex ? 16 : 10))
            return 0;
        c = c * (hex ? 16 : 10) +
            (uint32_t)digit; /* at most ten digits that matter: REFERENCE_MAX */
        if (c > 0x10ffff)
            return 0;
    }
    if (c == 0 || (c >= 0xd800 && c <= 0xdfff) || (c < 0x20 && c != '\t' && c != '\n' && c != '\r'))
        return 0;
    return put_utf8(c, out);
}

static int bad_reference(struct err *err)
{
    return err_set(err, ERR_VALIDATION, "its XML has a reference (&…;) that is not allowed");
}

static int read_reference(struct xml *x, struct err *err)
{
    int r = want(x, REFERENCE_MAX, err);

    if (r < 0)
        return r;
    size_t n = MIN_OF(x->end - x->at, (size_t)REFERENCE_MAX);
    const char *semicolon = memchr(x->buf + x->at, ';', n);
    if (!semicolon)
        return bad_reference(err);
    n = (size_t)(semicolon - x->buf) + 1 - x->at;
    x->text_len = decode(x->buf + x->at, n, x->character);
    x->text = x->character;
    x->at += n;
    return x->text_len ? XML_TEXT : bad_reference(err);
}

/* ---- tokens -------------------------------------------------------------------------------------------------------- */

static uint32_t hash_name(const char *s, size_t n)
{
    uint32_t h = 2166136261u;

    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)s[i]) * 16777619u;
    return h;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* The tag at x->at, whole in the buffer: where its > is. A > between quotes is text. */
static int find_tag_end(struct xml *x, size_t *ret, struct err *err)
{
    size_t i = 1; /* from x->at, which moves when the buffer is refilled */
    char quote = 0;

    for (;;) {
        for (; x->at + i < x->end; i++) {
            char c = x->buf[x->at + i];

            if (quote) {
                quote = c == quote ? 0 : quote;
            } else if (c == '"' || c == '\'') {
                quote = c;
            } else if (c == '>') {
                *ret = x->at + i;
                return 0;
            } else if (c == '<') {
                return malformed(err);
            }
        }
        int r = fill(x, err);
        if (r < 0)
            return r;
        if (r == 0)
            return x->at_eof ? cut_off(err) :
                               err_set(err, ERR_VALIDATION,
                                       "its XML has a tag of more than %d bytes", XML_BUFFER_BYTES);
    }
}

static void set_name(struct xml *x, const char *name, size_t len)
{
    const char *colon = memchr(name, ':', len);

    x->name = colon ? colon + 1 : name;
    x->name_len = len - (size_t)(x->name - name);
}

static int read_tag(struct xml *x, struct err *err)
{
    size_t end = 0;
    int r = find_tag_end(x, &end, err);

    if (r < 0)
        return r;
    const char *name = x->buf + x->at + 1, *close = x->buf + end;
    bool is_end = *name == '/';
    name += is_end;
    const char *p = name;
    while (p < close && !is_space(*p) && *p != '/')
        p++;
    size_t len = (size_t)(p - name);
    if (len == 0)
        return malformed(err);
    set_name(x, name, len);
    x->at = end + 1;
    uint32_t hash = hash_name(name, len);
    if (is_end) {
        if (x->depth == 0 || x->open[x->depth - 1] != hash)
            return malformed(err);
        x->depth--;
        return XML_END;
    }
    if (x->depth == 0 && x->seen_root)
        return malformed(err);
    if (x->depth == XML_MAX_DEPTH)
        return err_set(err, ERR_VALIDATION, "its XML is nested more than %d deep", XML_MAX_DEPTH);
    x->seen_root = true;
    x->open[x->depth++] = hash;
    x->close_next = close > p && close[-1] == '/';
    x->attributes = p;
    x->attributes_len = (size_t)(close - p) - x->close_next;
    return XML_START;
}

/* Text up to the next < or &, or as much of it as is here. */
static int read_text(struct xml *x, struct err *err)
{
    const char *p = x->buf + x->at;
    size_t n = x->end - x->at;
    const char *stop = memchr(p, '<', n);

    if (*p == '&')
        return read_reference(x, err);
    n = stop ? (size_t)(stop - p) : n;
    stop = memchr(p, '&', n);
    n = stop ? (size_t)(stop - p) : n;
    x->text = p;
    x->text_len = n;
    x->at += n;
    return XML_TEXT;
}

/* 0: nothing of it was left, go on. */
static int read_cdata(struct xml *x, struct err *err)
{
    int r = want(x, 3, err);

    if (r < 0)
        return r;
    if (starts(x, "]]>")) {
        x->at += 3;
        x->in_cdata = false;
        return 0;
    }
    if (x->at == x->end)
        return cut_off(err);
    const char *p = x->buf + x->at;
    const char *stop = memchr(p + 1, ']', x->end - x->at - 1);
    x->text = p;
    x->text_len = stop ? (size_t)(stop - p) : x->end - x->at;
    x->at += x->text_len;
    return XML_TEXT;
}

static int check_start(struct xml *x, struct err *err)
{
    int r = want(x, 4, err);

    if (r < 0)
        return r;
    if (starts(x, "\xff\xfe") || starts(x, "\xfe\xff"))
        return err_set(err, ERR_VALIDATION, "its XML is not in UTF-8");
    if (starts(x, "\xef\xbb\xbf"))
        x->at += 3;
    return 0;
}

/* <!…> and <?…>. 0: passed over, go on. */
static int read_markup(struct xml *x, struct err *err)
{
    if (starts(x, "<?")) {
        x->at += 2;
        return skip_past(x, "?>", err);
    }
    int r = want(x, 9, err);
    if (r < 0)
        return r;
    if (starts(x, "<!--")) {
        x->at += 4;
        return skip_past(x, "-->", err);
    }
    if (starts(x, "<![CDATA[") && x->depth > 0) {
        x->at += 9;
        x->in_cdata = true;
        return 0;
    }
    return starts(x, "<!DOCTYPE") ?
               err_set(err, ERR_VALIDATION, "its XML has a DOCTYPE, which is not allowed") :
               malformed(err);
}

int xml_next(struct xml *x, struct err *err)
{
    int r;

    if (x->close_next) {
        x->close_next = false;
        x->depth--;
        return XML_END;
    }
    if (!x->seen_root && x->at == 0 && x->end == 0) {
        r = check_start(x, err);
        if (r < 0)
            return r;
    }
    for (;;) {
        r = x->in_cdata ? read_cdata(x, err) : want(x, 2, err);
        if (r != 0)
            return r;
        if (x->in_cdata)
            continue;
        if (x->at == x->end) {
            if (x->depth > 0 || !x->seen_root)
                return cut_off(err);
            return XML_EOF;
        }
        const char *p = x->buf + x->at;
        if (*p != '<') {
            r = read_text(x, err);
            if (r < 0 || x->depth > 0)
                return r;
            for (size_t i = 0; i < x->text_len;
                 i++) /* outside of the root there is only white space */
                if (!is_space(x->text[i]))
                    return malformed(err);
            continue;
        }
        if (x->end - x->at < 2)
            return cut_off(err);
        if (p[1] != '!' && p[1] != '?')
            return read_tag(x, err);
        r = read_markup(x, err);
        if (r < 0)
            return r;
    }
}

bool xml_is(const struct xml *x, const char *name)
{
    return strlen(name) == x->name_len && memcmp(name, x->name, x->name_len) == 0;
}

int xml_skip(struct xml *x, struct err *err)
{
    size_t depth = x->depth;
    int r = XML_START;

    while (r > XML_EOF && x->depth >= depth)
        r = xml_next(x, err);
    return MIN_OF(r, 0);
}

/* ---- attributes ---------------------------------------------------------------------------------------------------- */

bool xml_next_attribute(struct xml_attributes *a)
{
    const char *p = a->at, *end = a->end;

    while (p < end && is_space(*p))
        p++;
    a->name = p;
    while (p < end && *p != '=' && !is_space(*p)) {
        if (*p++ == ':')
            a->name = p;
    }
    a->name_len = (size_t)(p - a->name);
    while (p < end && is_space(*p))
        p++;
    if (p == end || *p != '=')
        return false;
    p++;
    while (p < end && is_space(*p))
        p++;
    if (p == end || (*p != '"' && *p != '\''))
        return false;
    const char *close = memchr(p + 1, *p, (size_t)(end - p - 1));
    if (!close)
        return false;
    a->value = p + 1;
    a->value_len = (size_t)(close - p - 1);
    a->at = close + 1;
    return true;
}

bool xml_attribute_is(const struct xml_attributes *a, const char *name)
{
    return strlen(name) == a->name_len && memcmp(name, a->name, a->name_len) == 0;
}

int xml_attribute_text(const struct xml *x, const char *name, struct buf *ret, struct err *err)
{
    struct xml_attributes a = xml_attributes(x);

    buf_clear(ret);
    while (xml_next_attribute(&a)) {
        const char *p = a.value, *end = a.value + a.value_len;

        if (!xml_attribute_is(&a, name))
            continue;
        while (p < end) {
            const char *stop = *p == '&' ? memchr(p, ';', (size_t)(end - p)) :
                                           memchr(p, '&', (size_t)(end - p));
            char c[4];
            size_t n;
            int r;

            if (*p == '&') {
                n = stop && stop - p < REFERENCE_MAX ? decode(p, (size_t)(stop + 1 - p), c) : 0;
                if (n == 0)
                    return bad_reference(err);
                r = buf_append(ret, c, n, err);
                stop++;
            } else {
                stop = stop ? stop : end;
                r = buf_append(ret, p, (size_t)(stop - p), err);
            }
            if (r < 0)
                return r;
            p = stop;
        }
        return 0;
    }
    return 0;
}
