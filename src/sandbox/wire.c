/* Framing of the two protocols in wire.h. */

#include "sandbox/wire.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/fdio.h"
#include "base/str.h"

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

int zygote_send(int sock, enum zygote_op op, int64_t value, int status, const int *fds, size_t n_fds,
                struct err *err)
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

int zygote_recv(int sock, struct zygote_record *ret, int *ret_fds, size_t max_fds, size_t *ret_n_fds,
                struct err *err)
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
            r = err_set(err, ERR_PROTOCOL,
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

/* ---- control frames ---- */

#define KEEP_BYTES 262144 /* of a reader's buffer, between frames */

int wire_send(int sock, const char *json, size_t len, const int *fds, size_t n_fds, struct err *err)
{
    if (len == 0 || len > WIRE_EVENT_MAX)
        return err_set(err, ERR_TOO_LARGE, "a message of %zu bytes does not fit the control socket", len);
    unsigned char head[4] = { (unsigned char)len, (unsigned char)(len >> 8), (unsigned char)(len >> 16),
                              (unsigned char)(len >> 24) };
    if (n_fds) {
        int r = fd_send_fds(sock, head, sizeof(head), fds, n_fds, err);
        if (r < 0)
            return r;
        return fd_write_all(sock, json, len, err);
    }
    /* Small frames leave in one call: it halves the wake-ups of the reader. */
    if (len <= 4096) {
        char one[4 + 4096];
        memcpy(one, head, 4);
        memcpy(one + 4, json, len);
        return fd_write_all(sock, one, len + 4, err);
    }
    int r = fd_write_all(sock, head, sizeof(head), err);
    if (r < 0)
        return r;
    return fd_write_all(sock, json, len, err);
}

int wire_send_json(int sock, const json_t *msg, const int *fds, size_t n_fds, struct err *err)
{
    auto_buf struct buf text = BUF_INIT(WIRE_REQUEST_MAX);
    int r = json_write(msg, &text, err);
    if (r < 0)
        return r;
    return wire_send(sock, text.data, text.len, fds, n_fds, err);
}

void wire_reader_init(struct wire_reader *r, size_t max_frame_bytes)
{
    memset(r, 0, sizeof(*r));
    r->max_frame_bytes = max_frame_bytes;
    buf_init(&r->in, max_frame_bytes + 4 + 65536);
}

void wire_reader_finish(struct wire_reader *r)
{
    for (size_t i = 0; i < r->n_fds; i++)
        close(r->fds[i]);
    r->n_fds = 0;
    buf_finish(&r->in);
}

static size_t frame_len(const struct wire_reader *r)
{
    const unsigned char *p = (const unsigned char *)r->in.data;
    return (size_t)p[0] | (size_t)p[1] << 8 | (size_t)p[2] << 16 | (size_t)p[3] << 24;
}

int wire_reader_push(struct wire_reader *r, const char *bytes, size_t len, struct err *err)
{
    int rc = buf_append(&r->in, bytes, len, err);
    if (rc < 0)
        return rc;
    if (r->in.len >= 4 && (frame_len(r) == 0 || frame_len(r) > r->max_frame_bytes))
        return err_set(err, ERR_PROTOCOL, "control frame of %zu bytes; at most %zu are allowed", frame_len(r),
                       r->max_frame_bytes);
    return 0;
}

int wire_reader_fill(struct wire_reader *r, int sock, struct err *err)
{
    char chunk[65536];
    size_t n_fds = 0;
    errno = 0;
    ssize_t n = fd_recv_fds(sock, chunk, sizeof(chunk), r->fds + r->n_fds,
                            r->accept_fds ? ARRAY_SIZE(r->fds) - r->n_fds : 0, &n_fds, err);
    if (n < 0) {
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            return 0;
        return err_set(err, ERR_UNAVAILABLE, "the control socket failed: %s", strerror(errno));
    }
    r->n_fds += n_fds;
    if (n == 0)
        return err_set(err, ERR_UNAVAILABLE, "the control socket is closed");
    int rc = wire_reader_push(r, chunk, (size_t)n, err);
    return rc < 0 ? rc : 1;
}

bool wire_reader_next(struct wire_reader *r, const char **ret_json, size_t *ret_len)
{
    if (r->in.len < 4)
        return false;
    size_t len = frame_len(r);
    /* One that may not be is refused by the next fill. */
    if (len == 0 || len > r->max_frame_bytes || r->in.len < 4 + len)
        return false;
    *ret_json = r->in.data + 4;
    *ret_len = len;
    return true;
}

void wire_reader_next_done(struct wire_reader *r)
{
    buf_consume(&r->in, 4 + frame_len(r));
    if (r->in.len == 0 && r->in.cap > KEEP_BYTES)
        buf_finish(&r->in); /* a kernel may live for hours after one large frame */
}
