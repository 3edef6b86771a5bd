#ifndef RIDDLE_NET_WEBSOCKET_H
#define RIDDLE_NET_WEBSOCKET_H

/*
 * The WebSocket protocol (RFC 6455), the server's side, without extensions: the answer to a
 * handshake, and messages in a stream of bytes. Whoever has the connection reads and writes it.
 */

#include <stdbool.h>
#include <stddef.h>
#include "base/buf.h"
#include "base/err.h"

#define WS_ACCEPT_SIZE 29
#define WS_CONTROL_MAX 125
#define WS_NORMAL 1000 /* codes of a close */

enum ws_opcode {
    WS_CONTINUATION = 0,
    WS_TEXT = 1,
    WS_BINARY = 2,
    WS_CLOSE = 8,
    WS_PING = 9,
    WS_PONG = 10,
};

/* Sec-WebSocket-Accept for a Sec-WebSocket-Key. VALIDATION unless that is 16 bytes in base64. */
int ws_accept(const char *key, char ret[WS_ACCEPT_SIZE], struct err *err);

/* Reads what a client sends. */
struct ws_reader {
    struct buf message; /* the fragments so far; its maximum is that of a message */
    enum ws_opcode opcode;
    bool is_begun;
    char control[WS_CONTROL_MAX];
};

struct ws_message {
    enum ws_opcode opcode; /* no WS_CONTINUATION */
    const char *data;      /* until the next call */
    size_t len;
};

void ws_reader_init(struct ws_reader *r, size_t max_bytes);
void ws_reader_finish(struct ws_reader *r);
/*
 * Takes the first message of `in` out of it: 1 and *ret, or 0 while it is not whole. PROTOCOL for
 * bytes that are none, TOO_LARGE past the reader's maximum.
 */
int ws_take(struct ws_reader *r, struct buf *in, struct ws_message *ret, struct err *err);

/* Appends a whole message. */
int ws_append(struct buf *out, enum ws_opcode opcode, const void *data, size_t len,
              struct err *err);
int ws_append_close(struct buf *out, unsigned code, struct err *err);

#endif
