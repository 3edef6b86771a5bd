/* See websocket.h. libcrypto is loaded by the first handshake. */

#include "net/websocket.h"

#include <openssl/evp.h>
#include <stdint.h>
#include <string.h>
#include "base/base64.h"
#include "base/library.h"
#include "base/macros.h"
#include "gen/platform.h"

#define KEY_BYTES 16
#define KEY_LEN 24
#define FIN 0x80
#define RESERVED 0x70
#define MASKED 0x80

/* ---- the handshake ---- */

#define DIGEST_FUNCTIONS(X)                                                                        \
    X(EVP_Digest)                                                                                  \
    X(EVP_sha1)

static struct {
#define X(name) __typeof__(name) *name;
    DIGEST_FUNCTIONS(X)
#undef X
} crypto;

static int load_crypto(struct err *err)
{
    static const struct library_symbol symbols[] = {
#define X(name) { #name, &crypto.name },
        DIGEST_FUNCTIONS(X)
#undef X
    };
    return crypto.EVP_Digest ? 0 :
                               library_load(PLATFORM_CRYPTO_SONAME, PLATFORM_CRYPTO_PACKAGE,
                                            symbols, ARRAY_SIZE(symbols), err);
}

int ws_accept(const char *key, char ret[WS_ACCEPT_SIZE], struct err *err)
{
    static const char magic[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    auto_buf struct buf decoded = BUF_INIT(64), text = BUF_INIT(128), accept = BUF_INIT(64);
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    if (!key || strlen(key) != KEY_LEN || base64_decode(key, KEY_LEN, &decoded, NULL) < 0 ||
        decoded.len != KEY_BYTES)
        return err_set(err, ERR_VALIDATION, "Sec-WebSocket-Key must be %d bytes in base64",
                       KEY_BYTES);
    int r = load_crypto(err);
    if (r == 0)
        r = buf_printf(&text, err, "%s%s", key, magic);
    if (r == 0 && !crypto.EVP_Digest(text.data, text.len, digest, &n, crypto.EVP_sha1(), NULL))
        r = err_set(err, ERR_INTERNAL, "the key of a WebSocket could not be hashed");
    if (r == 0)
        r = base64_encode(digest, n, &accept, err);
    if (r == 0)
        memcpy(ret, buf_cstr(&accept), WS_ACCEPT_SIZE);
    return r;
}

/* ---- reading ---- */

void ws_reader_init(struct ws_reader *r, size_t max_bytes)
{
    *r = (struct ws_reader){ .is_begun = false };
    buf_init(&r->message, max_bytes);
}

void ws_reader_finish(struct ws_reader *r)
{
    buf_finish(&r->message);
}

struct frame {
    enum ws_opcode opcode;
    bool is_last;
    size_t head, len;
    unsigned char mask[4];
};

/* 1 and its head, or 0 while the frame is not whole. */
static int read_head(const struct buf *in, size_t max, struct frame *ret, struct err *err)
{
    const unsigned char *p = (const unsigned char *)in->data;
    if (in->len < 2)
        return 0;
    uint64_t len = p[1] & 0x7f;
    size_t more = len == 126 ? 2 : len == 127 ? 8 : 0;
    *ret = (struct frame){ .opcode = p[0] & 0x0f, .is_last = p[0] & FIN, .head = 2 + more + 4 };
    if (p[0] & RESERVED)
        return err_set(err, ERR_PROTOCOL, "a frame has bits of an extension, and none was agreed");
    if (!(p[1] & MASKED))
        return err_set(err, ERR_PROTOCOL, "a frame of a client is not masked");
    if (ret->opcode >= WS_CLOSE && (!ret->is_last || len > WS_CONTROL_MAX))
        return err_set(err, ERR_PROTOCOL, "a control frame is in pieces or too long");
    if (in->len < ret->head)
        return 0;
    if (more > 0)
        len = 0;
    for (size_t i = 0; i < more; i++)
        len = len << 8 | p[2 + i];
    if (len > max)
        return err_set(err, ERR_TOO_LARGE, "a message has more than %zu bytes", max);
    ret->len = (size_t)len;
    memcpy(ret->mask, p + 2 + more, sizeof(ret->mask));
    return in->len - ret->head >= ret->len;
}

static int check_order(const struct ws_reader *r, const struct frame *f, struct err *err)
{
    switch (f->opcode) {
    case WS_CONTINUATION:
        return r->is_begun ? 0 : err_set(err, ERR_PROTOCOL, "a message begins in its middle");
    case WS_TEXT:
    case WS_BINARY:
        return r->is_begun ? err_set(err, ERR_PROTOCOL, "a message begins inside of another") : 0;
    case WS_CLOSE:
    case WS_PING:
    case WS_PONG:
        return 0;
    }
    return err_set(err, ERR_PROTOCOL, "a frame of the unknown kind %d", (int)f->opcode);
}

int ws_take(struct ws_reader *r, struct buf *in, struct ws_message *ret, struct err *err)
{
    for (;;) {
        struct frame f;
        int e = read_head(in, r->message.max_bytes - (r->is_begun ? r->message.len : 0), &f, err);
        if (e <= 0)
            return e;
        e = check_order(r, &f, err);
        if (e < 0)
            return e;
        char *payload = in->data + f.head;
        for (size_t i = 0; i < f.len; i++)
            payload[i] = (char)(payload[i] ^ f.mask[i % 4]);
        if (f.opcode >= WS_CLOSE) { /* may come between the pieces of a message */
            memcpy(r->control, payload, f.len);
            buf_consume(in, f.head + f.len);
            *ret = (struct ws_message){ f.opcode, r->control, f.len };
            return 1;
        }
        if (!r->is_begun) {
            buf_clear(&r->message);
            r->opcode = f.opcode;
        }
        e = buf_append(&r->message, payload, f.len, err);
        if (e < 0)
            return e;
        buf_consume(in, f.head + f.len);
        r->is_begun = !f.is_last;
        if (f.is_last) {
            *ret = (struct ws_message){ r->opcode, buf_cstr(&r->message), r->message.len };
            return 1;
        }
    }
}

/* ---- writing ---- */

int ws_append(struct buf *out, enum ws_opcode opcode, const void *data, size_t len, struct err *err)
{
    unsigned char head[10] = { (unsigned char)(FIN | opcode) };
    size_t more = len > UINT16_MAX ? 8 : len > WS_CONTROL_MAX ? 2 : 0;
    head[1] = (unsigned char)(more == 8 ? 127 : more == 2 ? 126 : len);
    for (size_t i = 0; i < more; i++)
        head[2 + i] = (unsigned char)((uint64_t)len >> 8 * (more - 1 - i));
    int r = buf_append(out, head, 2 + more, err);
    return r < 0 ? r : buf_append(out, data, len, err);
}

int ws_append_close(struct buf *out, unsigned code, struct err *err)
{
    const unsigned char bytes[] = { (unsigned char)(code >> 8), (unsigned char)code };
    return ws_append(out, WS_CLOSE, bytes, sizeof(bytes), err);
}
