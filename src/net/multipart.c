/*
 * The multipart parser: a state machine over bytes. A delimiter is "\r\n--BOUNDARY" and has its
 * only CR at the front, so a mismatch never has to look back: what was matched so far is data, and
 * the byte in hand is looked at afresh. Matched bytes that turn out to be data are given out from
 * the delimiter's own text, since the input they came in may be gone.
 */

#include "net/multipart.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/buf.h"
#include "base/str.h"

enum state {
    PREAMBLE,       /* before the first delimiter */
    AFTER_BOUNDARY, /* "\r\n" begins a part, "--" ends everything; blanks before are allowed */
    AFTER_CR,
    AFTER_DASH,
    HEADERS,
    DATA,
    EPILOGUE,
};

struct multipart {
    const struct multipart_handler *handler;
    void *arg;
    size_t max_parts, n_parts;
    enum state state;
    char delimiter[MULTIPART_BOUNDARY_MAX + 5]; /* "\r\n--BOUNDARY" */
    size_t delimiter_len;
    size_t matched; /* bytes of the delimiter that the input has matched so far */
    size_t held,
        given; /* after a mismatch: bytes of the delimiter that are data, and how many were taken */
    size_t header_len;
    char headers[MULTIPART_HEADERS_MAX + 1];
    bool failed;
};

/* ---- set-up ---- */

/*
 * The value of `key` among the parameters of a header ("; key=value; key2=\"quoted\""); false when
 * it is not there.
 */
static bool parameter(const char *header, const char *key, char *ret, size_t size, struct err *err)
{
    const char *p = strchr(header, ';');
    size_t key_len = strlen(key);

    while (p) {
        size_t name_len, n = 0;
        const char *name;
        bool wanted, cut = false;

        p += 1 + strspn(p + 1, " \t");
        name = p;
        name_len = strcspn(p, "=; \t");
        p += name_len;
        p += strspn(p, " \t");
        if (*p != '=') {
            p = strchr(p, ';');
            continue;
        }
        p += 1 + strspn(p + 1, " \t");
        wanted = name_len == key_len && strncasecmp(name, key, key_len) == 0;
        if (*p == '"') {
            for (p++; *p != '\0' && *p != '"'; p++) {
                /*
                 * Browsers escape a quote as %22, others as \"; a backslash before anything else is
                 * itself.
                 */
                if (*p == '\\' && (p[1] == '"' || p[1] == '\\'))
                    p++;
                if (n + 1 < size)
                    ret[n++] = *p;
                else
                    cut = true;
            }
        } else {
            for (; *p != '\0' && *p != ';' && *p != ' ' && *p != '\t'; p++) {
                if (n + 1 < size)
                    ret[n++] = *p;
                else
                    cut = true;
            }
        }
        if (wanted) {
            if (cut)
                err_set(err, ERR_TOO_LARGE, "'%s' of a part is longer than %zu bytes", key,
                        size - 1);
            ret[n] = '\0';
            return true;
        }
        p = strchr(p, ';');
    }
    return false;
}

int multipart_create(const char *content_type, size_t max_parts,
                     const struct multipart_handler *handler, void *arg, struct multipart **ret,
                     struct err *err)
{
    char boundary[MULTIPART_BOUNDARY_MAX + 1];
    struct err long_boundary = ERR_INIT;
    struct multipart *mp;
    size_t n;

    if (!content_type || strncasecmp(content_type, "multipart/form-data", 19) != 0 ||
        !strchr("; \t", content_type[19]))
        return err_set(err, ERR_UNSUPPORTED_MEDIA, "the content type must be multipart/form-data");
    if (!parameter(content_type, "boundary", boundary, sizeof(boundary), &long_boundary))
        return err_set(err, ERR_INVALID_INPUT, "the content type has no boundary");
    n = strlen(boundary);
    if (long_boundary.code != ERR_NONE || n == 0)
        return err_set(err, ERR_INVALID_INPUT, "the boundary must have 1 to %d characters",
                       MULTIPART_BOUNDARY_MAX);
    for (size_t i = 0; i < n; i++) {
        if (boundary[i] < ' ' || boundary[i] > '~')
            return err_set(err, ERR_INVALID_INPUT,
                           "the boundary has characters that are not allowed");
    }
    mp = calloc(1, sizeof(*mp));
    if (!mp)
        return err_set(err, ERR_NO_MEMORY, "out of memory for an upload");
    mp->handler = handler;
    mp->arg = arg;
    mp->max_parts = max_parts ? max_parts : MULTIPART_PARTS_MAX;
    mp->delimiter_len = (size_t)snprintf(mp->delimiter, sizeof(mp->delimiter), "\r\n--%s",
                                         boundary);
    mp->matched = 2; /* the first delimiter needs no line break before it */
    *ret = mp;
    return 0;
}

void multipart_destroy(struct multipart *mp)
{
    free(mp);
}

/* ---- the headers of a part ---- */

/*
 * The last component of a path of any system, without what could harm a terminal or a file system.
 */
static void clean_filename(char *name)
{
    char *base = name, *out = name;

    for (char *p = name; *p; p++) {
        if (*p == '/' || *p == '\\')
            base = p + 1;
    }
    if (!str_is_utf8(base, strlen(base))) {
        for (char *p = base; *p; p++)
            *p = (unsigned char)*p < 0x80 ? *p : '_';
    }
    for (char *p = base; *p; p++) {
        if ((unsigned char)*p >= 0x20 && *p != 0x7f)
            *out++ = *p;
    }
    *out = '\0';
}

static bool has_control(const char *s)
{
    while (*s && (unsigned char)*s >= 0x20 && *s != 0x7f)
        s++;
    return *s != '\0';
}

static int begin_part(struct multipart *mp, struct err *err)
{
    char name[MULTIPART_NAME_MAX + 1] = "", filename[MULTIPART_NAME_MAX + 1] = "",
                                   type[MULTIPART_NAME_MAX + 1] = "";
    struct multipart_part part = { .name = name, .content_type = type };
    struct err too_long = ERR_INIT;
    bool has_name = false;

    if (++mp->n_parts > mp->max_parts)
        return err_set(err, ERR_TOO_LARGE, "more than %zu parts", mp->max_parts);
    if (memchr(mp->headers, '\0', mp->header_len))
        return err_set(err, ERR_INVALID_INPUT, "a part has a NUL character in its headers");
    mp->headers[mp->header_len] = '\0';
    for (char *line = mp->headers, *next; *line; line = next) {
        char *end = strstr(line, "\r\n");
        char *value = strchr(line, ':');

        next = end ? end + 2 : line + strlen(line);
        if (end)
            *end = '\0';
        if (!value || (end && value > end))
            return err_set(err, ERR_INVALID_INPUT, "a part has a header line without ':'");
        *value++ = '\0';
        value += strspn(value, " \t");
        if (strcasecmp(line, "content-disposition") == 0) {
            if (strncasecmp(value, "form-data", 9) != 0)
                return err_set(err, ERR_INVALID_INPUT, "a part is no form-data");
            has_name = parameter(value, "name", name, sizeof(name), &too_long);
            if (parameter(value, "filename", filename, sizeof(filename), &too_long))
                part.filename = filename;
        } else if (strcasecmp(line, "content-type") == 0) {
            snprintf(type, sizeof(type), "%.*s", (int)sizeof(type) - 1, value);
            if (has_control(type))
                type[0] = '\0';
        } else if (strcasecmp(line, "content-transfer-encoding") == 0 &&
                   strcasecmp(value, "binary") != 0 && strcasecmp(value, "8bit") != 0 &&
                   strcasecmp(value, "7bit") != 0) {
            return err_set(
                err, ERR_INVALID_INPUT,
                "a part is encoded ('Content-Transfer-Encoding'), which is not supported");
        }
    }
    if (too_long.code != ERR_NONE) {
        if (err)
            *err = too_long;
        return -(int)too_long.code;
    }
    if (!has_name)
        return err_set(err, ERR_INVALID_INPUT,
                       "a part has no name ('Content-Disposition: form-data; name=…')");
    if (!str_is_utf8(name, strlen(name)) || has_control(name))
        return err_set(err, ERR_INVALID_INPUT, "the name of a part is not UTF-8 text");
    if (part.filename)
        clean_filename(filename);
    return mp->handler->begin(mp->arg, &part, err);
}

/* ---- feeding ---- */

/* Data bytes from data[0..len); *ret_taken is how many the handler took. */
static int give(struct multipart *mp, const char *data, size_t len, size_t *ret_taken,
                struct err *err)
{
    ssize_t n = len > 0 ? mp->handler->data(mp->arg, data, len, err) : 0;

    if (n < 0)
        return (int)n;
    *ret_taken = MIN_OF((size_t)n, len);
    return 0;
}

/*
 * Bytes of input consumed in state DATA or PREAMBLE; *ret_paused when the handler took less than it
 * was given.
 */
static ssize_t feed_data(struct multipart *mp, const char *data, size_t len, bool *ret_paused,
                         struct err *err)
{
    size_t i = 0, taken = 0;
    int r;

    if (mp->held > 0) {
        r = give(mp, mp->delimiter + mp->given, mp->held - mp->given, &taken, err);
        if (r < 0)
            return r;
        mp->given += taken;
        if (mp->given < mp->held) {
            *ret_paused = true;
            return 0;
        }
        mp->held = mp->given = 0;
    }

    while (i < len) {
        if (mp->matched == 0) {
            const char *cr = memchr(data + i, '\r', len - i);
            size_t plain = cr ? (size_t)(cr - data) - i : len - i;

            if (plain > 0 && mp->state == DATA) {
                r = give(mp, data + i, plain, &taken, err);
                if (r < 0)
                    return r;
                i += taken;
                if (taken < plain) {
                    *ret_paused = true;
                    return (ssize_t)i;
                }
            } else {
                i += plain;
            }
            if (!cr)
                return (ssize_t)i;
            mp->matched = 1;
            i++;
            continue;
        }
        if (data[i] == mp->delimiter[mp->matched]) {
            i++;
            if (++mp->matched < mp->delimiter_len)
                continue;
            mp->matched = 0;
            if (mp->state == DATA) {
                r = mp->handler->end(mp->arg, err);
                if (r < 0)
                    return r;
            }
            mp->state = AFTER_BOUNDARY;
            return (ssize_t)i;
        }
        /* No delimiter after all: what matched is data. */
        if (mp->state == DATA) {
            mp->held = mp->matched;
            mp->given = 0;
            mp->matched = 0;
            r = give(mp, mp->delimiter, mp->held, &taken, err);
            if (r < 0)
                return r;
            mp->given = taken;
            if (mp->given < mp->held) {
                *ret_paused = true;
                return (ssize_t)i;
            }
            mp->held = mp->given = 0;
        }
        mp->matched = 0;
    }
    return (ssize_t)i;
}

static int feed_byte(struct multipart *mp, char c, struct err *err)
{
    switch (mp->state) {
    case AFTER_BOUNDARY:
        if (c == '\r')
            mp->state = AFTER_CR;
        else if (c == '-')
            mp->state = AFTER_DASH;
        else if (c != ' ' && c != '\t')
            return err_set(err, ERR_INVALID_INPUT, "a boundary is not followed by a line break");
        return 0;
    case AFTER_CR:
        if (c != '\n')
            return err_set(err, ERR_INVALID_INPUT, "a boundary is not followed by a line break");
        mp->state = HEADERS;
        mp->header_len = 0;
        return 0;
    case AFTER_DASH:
        if (c != '-')
            return err_set(err, ERR_INVALID_INPUT, "a boundary is followed by a single '-'");
        mp->state = EPILOGUE;
        return 0;
    case HEADERS:
        if (mp->header_len == MULTIPART_HEADERS_MAX)
            return err_set(err, ERR_TOO_LARGE, "the headers of a part are longer than %d bytes",
                           MULTIPART_HEADERS_MAX);
        mp->headers[mp->header_len++] = c;
        if (c != '\n')
            return 0;
        if (mp->header_len == 2 && mp->headers[0] == '\r')
            return err_set(err, ERR_INVALID_INPUT, "a part has no headers");
        if (mp->header_len >= 4 && memcmp(mp->headers + mp->header_len - 4, "\r\n\r\n", 4) == 0) {
            mp->header_len -= 2;
            mp->state = DATA;
            mp->matched = 0;
            return begin_part(mp, err);
        }
        return 0;
    default:
        return 0;
    }
}

ssize_t multipart_feed(struct multipart *mp, const char *data, size_t len, struct err *err)
{
    size_t i = 0;
    bool paused = false;

    if (mp->failed)
        return err_set(err, ERR_INVALID_INPUT, "the upload has already failed");
    while (i < len && !paused) {
        ssize_t r;

        if (mp->state == EPILOGUE) {
            i = len;
        } else if (mp->state == PREAMBLE || mp->state == DATA) {
            r = feed_data(mp, data + i, len - i, &paused, err);
            if (r < 0) {
                mp->failed = true;
                return r;
            }
            i += (size_t)r;
        } else {
            int f = feed_byte(mp, data[i++], err);

            if (f < 0) {
                mp->failed = true;
                return f;
            }
        }
    }
    return (ssize_t)i;
}

int multipart_finish(struct multipart *mp, struct err *err)
{
    if (mp->failed)
        return err_set(err, ERR_INVALID_INPUT, "the upload has already failed");
    if (mp->state != EPILOGUE)
        return err_set(err, ERR_INVALID_INPUT,
                       mp->state == PREAMBLE ? "the body has no part: its boundary was not found" :
                                               "the body ends before its closing boundary");
    return 0;
}
