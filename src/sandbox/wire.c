/* Framing of the two protocols in wire.h. */

#include "sandbox/wire.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include "base/fdio.h"
#include "base/str.h"

/* Memory for the bodies of messages that is kept between them. */
#define KEPT_BYTES (256u << 10)

/* ---- verdicts ---- */

static const char *const verdict_names[_WIRE_VERDICT_MAX] = {
#define X(code, name) [WIRE_VERDICT_##code] = name,
    WIRE_VERDICT_LIST(X)
#undef X
};

const char *wire_verdict_name(enum wire_verdict v)
{
    return v < _WIRE_VERDICT_MAX ? verdict_names[v] : "error";
}

int wire_verdict_from_name(const char *name)
{
    for (int i = 0; name && i < _WIRE_VERDICT_MAX; i++)
        if (str_eq(verdict_names[i], name))
            return i;
    return -1;
}

/* Descriptors of a start frame: two for each file, and two of the sandbox. */
_Static_assert(2 * SANDBOX_FILES_MAX + 2 <= FD_PASS_MAX, "files of a sandbox");

/* ---- zygote records ---- */

int zygote_send(int sock, enum zygote_op op, int64_t value, int status, const int *fds,
                size_t n_fds, struct err *err)
{
    struct zygote_record rec = {
        .magic = WIRE_MAGIC,
        .version = WIRE_VERSION,
        .op = (uint16_t)op,
        .status = status,
        .value = value,
    };
    return fd_send_fds(sock, &rec, sizeof(rec), fds, n_fds, err);
}

int zygote_recv(int sock, struct zygote_record *ret, int *ret_fds, size_t max_fds,
                size_t *ret_n_fds, struct err *err)
{
    struct zygote_record rec;
    size_t n_fds = 0;
    /* One byte more than a record, so that a longer one is seen and refused. */
    char raw[sizeof(rec) + 1];
    ssize_t n = fd_recv_fds(sock, raw, sizeof(raw), ret_fds, max_fds, &n_fds, err);
    if (n < 0)
        return (int)n;
    int r = 0;
    if (n == 0) {
        r = err_set(err, ERR_UNAVAILABLE, "the zygote socket is closed");
    } else if ((size_t)n != sizeof(rec)) {
        r = err_set(err, ERR_PROTOCOL, "zygote record of %zd bytes, expected %zu", n, sizeof(rec));
    } else {
        memcpy(&rec, raw, sizeof(rec));
        if (rec.magic != WIRE_MAGIC || rec.version != WIRE_VERSION)
            r = err_set(
                err, ERR_PROTOCOL,
                "riddle and riddle-kernel are of different versions (protocol %u, expected %d); "
                "rebuild both with 'make'",
                rec.version, WIRE_VERSION);
        else if (rec.op < ZYGOTE_HELLO || rec.op >= _ZYGOTE_OP_MAX)
            r = err_set(err, ERR_PROTOCOL, "unknown zygote record %u", rec.op);
    }
    if (r < 0) {
        for (size_t i = 0; i < n_fds; i++)
            close(ret_fds[i]);
        return r;
    }
    *ret = rec;
    if (ret_n_fds)
        *ret_n_fds = n_fds;
    return 0;
}

/* ---- framing ---- */

void wire_head_write(const struct wire_head *h, unsigned char ret[WIRE_HEAD_BYTES])
{
    for (int i = 0; i < 4; i++) {
        ret[i] = (unsigned char)(h->len >> (8 * i));
        ret[4 + i] = (unsigned char)(h->id >> (8 * i));
    }
    ret[8] = (unsigned char)h->type;
    memset(ret + 9, 0, 3);
}

static uint32_t u32_at(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

bool wire_head_read(const unsigned char raw[WIRE_HEAD_BYTES], enum wire_direction direction,
                    struct wire_head *ret)
{
    const struct wire_message *m = wire_message(raw[8]);
    *ret = (struct wire_head){ .len = u32_at(raw),
                               .id = u32_at(raw + 4),
                               .type = (enum wire_type)raw[8] };
    return m && (m->directions & direction) && ret->len <= m->max_bytes && !raw[9] && !raw[10] &&
           !raw[11];
}

int wire_send(int fd, enum wire_type type, uint32_t id, const void *body, size_t len,
              struct err *err)
{
    const struct wire_message *m = wire_message(type);
    unsigned char raw[WIRE_HEAD_BYTES];
    if (len > m->max_bytes)
        return err_set(err, ERR_TOO_LARGE, "'%s' would have %zu bytes; at most %u are allowed",
                       m->name, len, m->max_bytes);
    wire_head_write(&(struct wire_head){ .len = (uint32_t)len, .id = id, .type = type }, raw);
    /* Both in one call, if the stream takes them: it halves the wake-ups of the reader. */
    struct iovec parts[] = { { .iov_base = raw, .iov_len = sizeof(raw) },
                             { .iov_base = (void *)(uintptr_t)body, .iov_len = len } };
    ssize_t n;
    do
        n = writev(fd, parts, 2);
    while (n < 0 && errno == EINTR);
    size_t sent = n < 0 ? 0 : (size_t)n;
    if (n < 0 && errno != EAGAIN)
        return err_errno(err, ERR_UNAVAILABLE, errno, "sending '%s'", m->name);
    int r = 0;
    if (sent < sizeof(raw)) {
        r = fd_write_all(fd, raw + sent, sizeof(raw) - sent, err);
        sent = sizeof(raw);
    }
    return r < 0 ? r :
                   fd_write_all(fd, (const char *)body + (sent - sizeof(raw)),
                                len - (sent - sizeof(raw)), err);
}

int wire_send_json(int sock, enum wire_type type, uint32_t id, const json_t *body, const int *fds,
                   size_t n_fds, struct err *err)
{
    auto_buf struct buf text = BUF_INIT(WIRE_HEAD_BYTES + wire_message(type)->max_bytes);
    int r = wire_append(&text, type, id, body, err);
    if (r < 0 || n_fds == 0)
        return r < 0 ? r : fd_write_all(sock, text.data, text.len, err);
    r = fd_send_fds(sock, text.data, WIRE_HEAD_BYTES, fds, n_fds, err);
    return r < 0 ? r :
                   fd_write_all(sock, text.data + WIRE_HEAD_BYTES, text.len - WIRE_HEAD_BYTES, err);
}

void wire_reader_init(struct wire_reader *r, enum wire_direction direction)
{
    memset(r, 0, sizeof(*r));
    r->direction = direction;
}

void wire_reader_finish(struct wire_reader *r)
{
    buf_finish(&r->kept);
}

/* A message has been handed over or dropped: the next byte begins a head. */
static void next_head(struct wire_reader *r)
{
    r->n_raw = r->got = 0;
    r->in_body = r->skip = r->done = false;
    /* What a large message took is not kept for small ones. */
    if (r->kept.cap > KEPT_BYTES)
        buf_finish(&r->kept);
    buf_clear(&r->kept);
}

static enum wire_step step_head(struct wire_reader *r, const char **bytes, size_t *len)
{
    size_t n = MIN_OF(*len, sizeof(r->raw) - r->n_raw);
    if (n > 0) { /* no bytes may be no pointer either */
        memcpy(r->raw + r->n_raw, *bytes, n);
        r->n_raw += n;
        *bytes += n;
        *len -= n;
    }
    if (r->n_raw < sizeof(r->raw))
        return WIRE_MORE;
    if (!wire_head_read(r->raw, r->direction, &r->head))
        return WIRE_BROKEN;
    r->in_body = true;
    return WIRE_HEAD;
}

enum wire_step wire_reader_step(struct wire_reader *r, const char **bytes, size_t *len)
{
    if (r->done)
        next_head(r);
    if (!r->in_body)
        return step_head(r, bytes, len);
    size_t n = MIN_OF(*len, r->head.len - r->got);
    const char *at = *bytes;
    r->got += n;
    *bytes += n;
    *len -= n;
    bool whole = r->got == r->head.len;
    if (r->skip) {
        r->done = whole;
        /* Nothing to tell about what was dropped: on to the next one. */
        return whole && *len ? wire_reader_step(r, bytes, len) : WIRE_MORE;
    }
    if (whole && n == r->head.len) {
        r->body = at; /* all of it is here: no copy */
    } else {
        r->kept.max_bytes = r->head.len;
        if (buf_append(&r->kept, at, n, NULL) < 0)
            return WIRE_BROKEN;
        r->body = buf_cstr(&r->kept);
    }
    r->done = whole;
    return whole ? WIRE_MESSAGE : WIRE_MORE;
}
