#include "sandbox/mux.h"

#include <stdio.h>
#include <string.h>
#include "base/str.h"

int mux_append(struct buf *out, enum mux_type type, const void *data, size_t len, struct err *err)
{
    const size_t frames = len ? (len + MUX_PAYLOAD_MAX - 1) / MUX_PAYLOAD_MAX : 1;
    int r = buf_reserve(out, len + frames * MUX_HEAD_BYTES, err);
    const char *bytes = data;
    while (r == 0) {
        size_t n = MIN_OF(len, (size_t)MUX_PAYLOAD_MAX);
        const unsigned char head[MUX_HEAD_BYTES] = { (unsigned char)type,
                                                     0,
                                                     0,
                                                     0,
                                                     (unsigned char)n,
                                                     (unsigned char)(n >> 8),
                                                     (unsigned char)(n >> 16),
                                                     (unsigned char)(n >> 24) };
        r = buf_append(out, head, sizeof(head), err);
        if (r == 0 && n)
            r = buf_append(out, bytes, n, err);
        bytes += n;
        len -= n;
        if (!len)
            break;
    }
    return r;
}

void mux_reader_init(struct mux_reader *r)
{
    buf_init(&r->in, 4 * MUX_PAYLOAD_MAX);
    r->at = 0;
}

void mux_reader_finish(struct mux_reader *r)
{
    buf_finish(&r->in);
    r->at = 0;
}

int mux_reader_feed(struct mux_reader *r, const char *bytes, size_t len, struct err *err)
{
    buf_consume(&r->in, r->at);
    r->at = 0;
    return buf_append(&r->in, bytes, len, err);
}

int mux_reader_next(struct mux_reader *r, struct mux_frame *ret, struct err *err)
{
    size_t left = r->in.len - r->at;
    if (left < MUX_HEAD_BYTES)
        return 0;
    const unsigned char *head = (const unsigned char *)r->in.data + r->at;
    size_t len = head[4] | (size_t)head[5] << 8 | (size_t)head[6] << 16 | (size_t)head[7] << 24;
    if (head[0] < MUX_CONTROL || head[0] >= _MUX_TYPE_MAX || head[1] || head[2] || head[3] ||
        len > MUX_PAYLOAD_MAX)
        return err_set(err, ERR_PROTOCOL, "the attached stream is out of step");
    if (left < MUX_HEAD_BYTES + len)
        return 0;
    *ret = (struct mux_frame){ (enum mux_type)head[0], (const char *)head + MUX_HEAD_BYTES, len };
    r->at += MUX_HEAD_BYTES + len;
    return 1;
}

int mux_path(const char *target, bool writable, char *ret, size_t n, struct err *err)
{
    bool good = target && *target && *target != '/' && !strstr(target, "//") &&
                !str_ends(target, "/");
    for (const char *p = target; good && p; p = strchr(p, '/') ? strchr(p, '/') + 1 : NULL)
        good = !(p[0] == '.' && (p[1] == '/' || !p[1])) &&
               !(p[0] == '.' && p[1] == '.' && (p[2] == '/' || !p[2]));
    if (good && writable)
        good = !strchr(target, '/') && snprintf(ret, n, "/data/.%s", target) < (int)n;
    else if (good && str_starts(target, "tables/"))
        good = snprintf(ret, n, "/data/.%s", target) < (int)n;
    else if (good)
        good = str_starts(target, "data/") && snprintf(ret, n, "/%s", target) < (int)n;
    return good ? 0 :
                  err_set(err, ERR_VALIDATION, "a container has no place for the file '%.200s'",
                          target ? target : "");
}
