/*
 * Fuzzes what a kernel may send: frames of the control socket, however they arrive, and records of the zygote. The frames that come
 * out are those that went in, up to the first that is too long or empty.
 *
 * Input: a byte for the greatest length of a frame, a byte for the sizes of the writes, then the bytes that are sent.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fdio.h"
#include "sandbox/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SENT_MAX 4096 /* fits into the socket, so that nothing waits */

static void pair(int type, int ret[2])
{
    if (socketpair(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ret) < 0)
        abort();
}

static void send_some(int fd, const uint8_t *data, size_t len)
{
    if (len > 0 && send(fd, data, len, MSG_NOSIGNAL) != (ssize_t)len)
        abort();
}

static void try_frames(size_t max_frame, unsigned step, const uint8_t *data, size_t size)
{
    struct wire_reader reader;
    struct err err = ERR_INIT;
    size_t sent = 0, at = 0; /* at: of the next frame in data */
    int fds[2];
    bool open = true;

    pair(SOCK_STREAM, fds);
    auto_close int ours = fds[0];
    auto_close int theirs = fds[1];
    wire_reader_init(&reader, max_frame);
    while (open) {
        size_t n = MIN_OF((size_t)step, size - sent);

        send_some(theirs, data + sent, n);
        sent += n;
        if (n == 0) {
            close(TAKE_FD(theirs));
            open = false;
        }
        int r = wire_reader_fill(&reader, ours, &err);
        if (n > 0 && r == 0)
            abort();
        if (n == 0 && err.code != ERR_UNAVAILABLE)
            abort();
        if (r < 0 && n > 0) {
            /* A refusal is of a frame that is really bad: the one whose length is at the front. */
            size_t left = sent - at;
            uint32_t len = left >= 4 ?
                               (uint32_t)data[at] | (uint32_t)data[at + 1] << 8 |
                                   (uint32_t)data[at + 2] << 16 | (uint32_t)data[at + 3] << 24 :
                               1;
            if (err.code != ERR_PROTOCOL || (len > 0 && len <= max_frame))
                abort();
            break;
        }
        const char *json;
        size_t len;
        while (wire_reader_next(&reader, &json, &len)) {
            auto_json json_t *message = NULL;
            struct err bad = ERR_INIT;

            if (len == 0 || len > max_frame || at + 4 + len > sent ||
                memcmp(json, data + at + 4, len) != 0)
                abort();
            (void)json_parse(json, len, &message, &bad);
            at += 4 + len;
            wire_reader_next_done(&reader);
        }
    }
    wire_reader_finish(&reader);
}

static void try_record(const uint8_t *data, size_t size)
{
    struct zygote_record record;
    struct err err = ERR_INIT;
    size_t n_fds = 0;
    int fds[2], got[4];

    pair(SOCK_SEQPACKET, fds);
    auto_close int ours = fds[0];
    auto_close int theirs = fds[1];
    send_some(theirs, data, size);
    close(TAKE_FD(theirs));
    int r = zygote_recv(ours, &record, got, ARRAY_SIZE(got), &n_fds, &err);
    if (r == 0 && (size != sizeof(record) || record.op < ZYGOTE_HELLO ||
                   record.op >= _ZYGOTE_OP_MAX || n_fds != 0))
        abort();
    if (r < 0 && (err.code == ERR_NONE || err.message[0] == '\0'))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3 || size > SENT_MAX)
        return 0;
    try_frames(data[0] + 1u, data[1] % 32u + 1, data + 2, size - 2);
    try_frames(1u << 20, SENT_MAX, data + 2, size - 2);
    try_record(data + 2, size - 2);
    return 0;
}
