/*
 * Fuzzes forms: however a body is cut into pieces, and however often its reader pauses, the same
 * parts come out of it, and the same error ends it.
 *
 * Input: a byte that begins a sequence of piece lengths and pauses, a Content-Type up to the first
 * line feed (the usual one when that line is empty), then the body.
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/str.h"
#include "net/multipart.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct record {
    struct buf log; /* what the handler was told, one after the other */
    unsigned pace;  /* state of the sequence; 0: whole pieces, no pauses */
    bool in_part;
    int code; /* how it ended */
};

static unsigned next(unsigned *pace)
{
    *pace = *pace * 1103515245u + 12345u;
    return *pace >> 16;
}

static int on_begin(void *arg, const struct multipart_part *part, struct err *err)
{
    struct record *r = arg;
    const char *name = part->filename ? part->filename : "";

    if (r->in_part || strlen(part->name) > MULTIPART_NAME_MAX ||
        !str_is_utf8(part->name, strlen(part->name)) || !str_is_utf8(name, strlen(name)) ||
        strpbrk(name, "/\\\r\n"))
        abort();
    r->in_part = true;
    return buf_printf(&r->log, err, "<%s|%s|%s>", part->name, part->filename ? name : "(none)",
                      part->content_type);
}

static ssize_t on_data(void *arg, const char *data, size_t len, struct err *err)
{
    struct record *r = arg;

    if (!r->in_part || len == 0)
        abort();
    if (r->pace && next(&r->pace) % 4 == 0)
        len = next(&r->pace) % len;
    int n = buf_append(&r->log, data, len, err);
    return n < 0 ? n : (ssize_t)len;
}

static int on_end(void *arg, struct err *err)
{
    struct record *r = arg;

    if (!r->in_part)
        abort();
    r->in_part = false;
    return buf_append_str(&r->log, "</>", err);
}

static void parse(struct record *r, const char *type, const char *body, size_t len)
{
    static const struct multipart_handler handler = { .begin = on_begin,
                                                      .data = on_data,
                                                      .end = on_end };
    struct multipart *mp = NULL;
    struct err err = ERR_INIT;
    size_t at = 0;

    buf_init(&r->log, 64u << 20);
    r->code = multipart_create(type, 4, &handler, r, &mp, &err);
    while (r->code == 0 && at < len) {
        size_t piece = r->pace ? 1 + next(&r->pace) % 12 : len;
        if (piece > len - at)
            piece = len - at;
        /* An exact copy lets AddressSanitizer see a read past the piece. */
        char *copy = malloc(piece);
        if (!copy)
            abort();
        memcpy(copy, body + at, piece);
        ssize_t n = multipart_feed(mp, copy, piece, &err);
        free(copy);
        if (n > (ssize_t)piece || (n < (ssize_t)piece && n >= 0 && !r->pace))
            abort();
        if (n < 0)
            r->code = (int)n;
        else
            at += (size_t)n;
    }
    if (r->code == 0)
        r->code = multipart_finish(mp, &err);
    if (r->code < 0 && (err.code == ERR_NONE || err.message[0] == '\0'))
        abort();
    if (r->code == 0 && r->in_part)
        abort();
    multipart_destroy(mp);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char type[256] = "multipart/form-data; boundary=b";
    struct record whole = { .pace = 0 };

    if (size == 0)
        return 0;
    const char *text = (const char *)data + 1, *line = memchr(text, '\n', size - 1);
    if (!line || (size_t)(line - text) >= sizeof(type))
        return 0;
    if (line > text)
        snprintf(type, sizeof(type), "%.*s", (int)(line - text), text);
    const char *body = line + 1;
    size_t len = size - 1 - (size_t)(body - text);

    parse(&whole, type, body, len);
    for (unsigned i = 1; i <= 3; i++) {
        struct record cut = { .pace = data[0] * 8u + i };

        parse(&cut, type, body, len);
        if (cut.code != whole.code || strcmp(buf_cstr(&cut.log), buf_cstr(&whole.log)) != 0 ||
            cut.log.len != whole.log.len)
            abort();
        buf_finish(&cut.log);
    }
    buf_finish(&whole.log);
    return 0;
}
