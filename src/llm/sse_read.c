/*
 * The reader of server-sent events. A line that came whole is read where it lies; only what is cut
 * by the end of a piece is kept.
 */

#include "llm/sse_read.h"

#include <string.h>
#include "base/str.h"

void sse_reader_init(struct sse_reader *r)
{
    memset(r, 0, sizeof(*r));
    buf_init(&r->line, SSE_READ_EVENT_MAX);
    buf_init(&r->data, SSE_READ_EVENT_MAX);
}

void sse_reader_finish(struct sse_reader *r)
{
    buf_finish(&r->line);
    buf_finish(&r->data);
}

static int too_large(struct err *err)
{
    return err_set(err, ERR_LLM_BAD_RESPONSE,
                   "an event of the model's stream is larger than the limit of %u bytes",
                   SSE_READ_EVENT_MAX);
}

static int keep(struct buf *b, const char *data, size_t len, struct err *err)
{
    struct err why = ERR_INIT;
    int r = buf_append(b, data, len, &why);

    if (r == -ERR_TOO_LARGE)
        return too_large(err);
    return r < 0 ? err_set(err, why.code, "%s", why.message) : 0;
}

static int end_event(struct sse_reader *r, sse_read_fn *fn, void *arg, struct err *err)
{
    char event[SSE_READ_NAME_SIZE];
    bool has_data = r->has_data;
    int code = 0;

    memcpy(event, r->event, sizeof(event));
    r->event[0] = '\0';
    r->has_data = false;
    if (has_data) /* an event without data is none */
        code = fn(arg, event, buf_cstr(&r->data), r->data.len, err);
    buf_clear(&r->data);
    return code;
}

static int read_line(struct sse_reader *r, const char *line, size_t len, sse_read_fn *fn, void *arg,
                     struct err *err)
{
    const char *colon, *value;
    size_t name_len, value_len;
    int code;

    if (!r->past_mark) {
        r->past_mark = true;
        if (len >= 3 && memcmp(line, "\xef\xbb\xbf", 3) == 0) {
            line += 3;
            len -= 3;
        }
    }
    if (len == 0)
        return end_event(r, fn, arg, err);
    colon = memchr(line, ':', len);
    if (colon == line)
        return 0; /* a comment */
    name_len = colon ? (size_t)(colon - line) : len;
    value = colon ? colon + 1 : line + len;
    value_len = (size_t)(line + len - value);
    if (value_len > 0 && *value == ' ') {
        value++;
        value_len--;
    }
    if (name_len == 4 && memcmp(line, "data", 4) == 0) {
        if (r->has_data) {
            code = keep(&r->data, "\n", 1, err);
            if (code < 0)
                return code;
        }
        r->has_data = true;
        return keep(&r->data, value, value_len, err);
    }
    if (name_len == 5 && memcmp(line, "event", 5) == 0) {
        size_t n = MIN_OF(value_len, sizeof(r->event) - 1);

        memcpy(r->event, value, n);
        r->event[n] = '\0';
    }
    return 0;
}

int sse_read(struct sse_reader *r, const char *data, size_t len, sse_read_fn *fn, void *arg,
             struct err *err)
{
    const char *p = data, *end = data + len;

    while (p < end) {
        const char *stop = p;
        int code;

        if (r->skip_lf) {
            r->skip_lf = false;
            if (*p == '\n') {
                p++;
                continue;
            }
        }
        while (stop < end && *stop != '\n' && *stop != '\r')
            stop++;
        if (stop == end)
            return keep(&r->line, p, (size_t)(stop - p), err);
        r->skip_lf = *stop == '\r';
        if (r->line.len > 0) {
            code = keep(&r->line, p, (size_t)(stop - p), err);
            if (code == 0)
                code = read_line(r, r->line.data, r->line.len, fn, arg, err);
            buf_clear(&r->line);
        } else {
            code = read_line(r, p, (size_t)(stop - p), fn, arg, err);
        }
        if (code != 0)
            return code;
        p = stop + 1;
    }
    return 0;
}

bool sse_reader_is_inside(const struct sse_reader *r)
{
    return r->has_data || r->line.len > 0;
}
