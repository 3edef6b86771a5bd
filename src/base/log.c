/*
 * Structured logging. A line is composed on the stack and goes out in one write(2), so that lines
 * of several processes do not mix and logging works when memory is out. A value past LOG_VALUE_MAX
 * is cut; a field that does not fit into the line is left out, and the line says so with cut=true.
 */

#include "base/log.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/macros.h"
#include "base/str.h"

#define LOG_LINE_MAX 32768
#define LOG_VALUE_MAX 2048
#define LOG_RESERVED 16 /* for the mark of a cut line and its end */

static const char *const level_names[_LOG_LEVEL_MAX] = {
    [LOG_DEBUG] = "debug",
    [LOG_INFO] = "info",
    [LOG_WARN] = "warn",
    [LOG_ERROR] = "error",
};

/* One log per process, set once at start: passing it through every function would buy nothing. */
static enum log_level log_level = LOG_INFO;
static enum log_format log_format = LOG_FORMAT_KV;
static int log_fd = STDERR_FILENO;

void log_setup(enum log_level level, enum log_format format)
{
    log_level = level;
    log_format = format;
}

void log_set_fd(int fd)
{
    log_fd = fd;
}

bool log_enabled(enum log_level level)
{
    return level >= log_level;
}

struct line {
    char text[LOG_LINE_MAX];
    size_t len;
    bool full; /* something did not fit; what was put since the last good length is to be dropped */
};

static void put(struct line *l, const char *s, size_t len)
{
    if (l->full || len > sizeof(l->text) - LOG_RESERVED - l->len) {
        l->full = true;
        return;
    }
    memcpy(l->text + l->len, s, len);
    l->len += len;
}

static void put_str(struct line *l, const char *s)
{
    put(l, s, strlen(s));
}

/*
 * The control character of n bytes at s, or 0. U+0080 to U+009F are some, too: a terminal may obey
 * them.
 */
static unsigned control_code(const char *s, size_t n)
{
    unsigned char c = (unsigned char)s[0], d = (unsigned char)(n == 2 ? s[1] : 0);

    if (n == 1 && (c < 0x20 || c == 0x7f))
        return c;
    return n == 2 && c == 0xc2 && d < 0xa0 ? d : 0;
}

/*
 * Both formats quote alike: what is inside the quotes is a JSON string, invalid bytes as U+FFFD, no
 * control character.
 */
static void put_quoted(struct line *l, const char *s, size_t len)
{
    put(l, "\"", 1);
    while (len > 0) {
        size_t bad, n = str_utf8_next(s, len, &bad);
        unsigned char c = (unsigned char)s[0];
        unsigned control = control_code(s, n);

        if (n == 0) {
            put_str(l, "\xef\xbf\xbd");
        } else if (n == 1 && (c == '"' || c == '\\')) {
            put(l, "\\", 1);
            put(l, s, 1);
        } else if (c == '\n' || c == '\r' || c == '\t') {
            put_str(l, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
        } else if (control) {
            char escape[8];

            snprintf(escape, sizeof(escape), "\\u%04x", control & 0xff);
            put_str(l, escape);
        } else {
            put(l, s, n);
        }
        n = n ? n : bad;
        s += n;
        len -= n;
    }
    put(l, "\"", 1);
}

static bool is_bare(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (s[i] <= ' ' || s[i] >= 0x7f || s[i] == '=' || s[i] == '"' || s[i] == '\\')
            return false; /* a byte past ASCII is negative, or past 0x7f */
    }
    return len > 0;
}

static void put_text(struct line *l, const char *s)
{
    size_t len = s ? strnlen(s, LOG_VALUE_MAX + 4) : 0;
    size_t cut = s ? str_utf8_cut(s, len, LOG_VALUE_MAX) : 0;

    if (!s)
        put_str(l, "null");
    else if (log_format == LOG_FORMAT_KV && is_bare(s, cut))
        put(l, s, cut);
    else
        put_quoted(l, s, cut);
}

static void put_key(struct line *l, const char *key)
{
    if (log_format == LOG_FORMAT_JSON) {
        put(l, l->len > 1 ? "," : "", l->len > 1);
        put_quoted(l, key, strlen(key));
        put(l, ":", 1);
    } else {
        put(l, " ", l->len > 0);
        put_str(l, key);
        put(l, "=", 1);
    }
}

static void put_field(struct line *l, const struct log_field *f)
{
    char number[STR_DOUBLE_SIZE];

    put_key(l, f->key);
    switch (f->type) {
    case LOG_FIELD_STR:
        put_text(l, f->s);
        break;
    case LOG_FIELD_INT:
        snprintf(number, sizeof(number), "%lld", f->i);
        put_str(l, number);
        break;
    case LOG_FIELD_DBL:
        str_from_double(f->d, number);
        /* JSON has no word for what is no number. */
        put_str(l, log_format == LOG_FORMAT_JSON && !isfinite(f->d) ? "null" : number);
        break;
    }
}

void log_event(enum log_level level, const char *event, const struct log_field *fields)
{
    char now[CLOCK_ISO_SIZE];
    struct line l;
    bool cut = false;
    ssize_t n;

    if (!log_enabled(level))
        return;
    l.len = 0;
    l.full = false;
    clock_iso8601(clock_wall_ms(), now);
    if (log_format == LOG_FORMAT_JSON)
        put(&l, "{", 1);
    put_field(&l, &LOG_STR("time", now));
    put_field(&l, &LOG_STR("level", level_names[level]));
    put_field(&l, &LOG_STR("event", event));
    for (; fields && fields->key; fields++) {
        size_t good = l.len;

        put_field(&l, fields);
        if (l.full) {
            l.len = good;
            l.full = false;
            cut = true;
        }
    }
    /* put() keeps LOG_RESERVED bytes free for these. */
    if (cut) {
        const char *mark = log_format == LOG_FORMAT_JSON ? ",\"cut\":true" : " cut=true";

        memcpy(l.text + l.len, mark, strlen(mark));
        l.len += strlen(mark);
    }
    if (log_format == LOG_FORMAT_JSON)
        l.text[l.len++] = '}';
    l.text[l.len++] = '\n';

    do
        n = write(log_fd, l.text, l.len);
    while (n < 0 && errno == EINTR);
    /* A log that cannot be written is no reason to fail what is being logged. */
}
