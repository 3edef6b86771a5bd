/*
 * Fuzzes what a kernel may send, with a budget: however it lies, the inbox takes time and memory in
 * proportion to what it sent. Messages are made from the table of messages, so that a new one is
 * fuzzed without a line here; raw bytes and records of the zygote are tried too.
 *
 * Input: a byte for the sizes of the pieces, then operations. Each is a byte: a message by its
 * number, right or with one wrong field (another byte says which), a head that lies, or raw bytes
 * of the input.
 */

#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/fdio.h"
#include "sandbox/inbox.h"
#include "wire_make.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_MAX 4096
#define SENT_MAX (256u << 10)

/*
 * The oracle. A sanitizer makes everything slower and larger, so the bounds are wide; what they
 * catch is a factor of a thousand.
 */
#define NS_PER_BYTE 2000
#define NS_MORE 50000000
#define BYTES_PER_BYTE 128
#define BYTES_MORE (1u << 20)

struct input {
    const uint8_t *data;
    size_t size, at;
};

static uint8_t next(struct input *in)
{
    return in->at < in->size ? in->data[in->at++] : 0;
}

/* ---- what a kernel sends ---- */

static void add_message(struct buf *out, struct input *in, unsigned type)
{
    const struct wire_message *m = wire_message(type);
    uint8_t how = next(in);
    uint32_t id = how & 1 ? 1 : how;
    if (!m || !(m->directions & WIRE_TO_RIDDLE))
        return;
    auto_json json_t *body = make_body(m, how & 2);
    if (how & 4 && m->n_fields) {
        const struct wire_field *f = &m->fields[(how >> 3) % m->n_fields];
        json_t *wrong = make_wrong(f, next(in) % MAKE_WRONG_MAX);
        if (wrong)
            json_object_set_new(body, f->name, wrong);
        else
            json_object_del(body, f->name);
    }
    auto_free char *text = json_to_str(body);
    unsigned char raw[WIRE_HEAD_BYTES];
    wire_head_write(&(struct wire_head){ .len = (uint32_t)strlen(text),
                                         .id = id,
                                         .type = (enum wire_type)type },
                    raw);
    if (out->len + sizeof(raw) + strlen(text) <= SENT_MAX) {
        (void)buf_append(out, raw, sizeof(raw), NULL);
        (void)buf_append_str(out, text, NULL);
    }
}

static void add_raw(struct buf *out, struct input *in)
{
    size_t wanted = next(in), n = MIN_OF(wanted, in->size - in->at);
    (void)buf_append(out, in->data + in->at, n, NULL);
    in->at += n;
}

/* A message whose body is of the input. */
static void add_body(struct buf *out, struct input *in, unsigned type)
{
    unsigned char raw[WIRE_HEAD_BYTES];
    size_t wanted = next(in) * 8u, n = MIN_OF(wanted, in->size - in->at);
    wire_head_write(
        &(struct wire_head){ .len = (uint32_t)n, .id = 1, .type = (enum wire_type)type }, raw);
    (void)buf_append(out, raw, sizeof(raw), NULL);
    (void)buf_append(out, in->data + in->at, n, NULL);
    in->at += n;
}

static void make_stream(struct buf *out, struct input *in)
{
    while (in->at < in->size && out->len < SENT_MAX) {
        uint8_t op = next(in);
        if (op >= 0xf0)
            add_raw(out, in);
        else if (op >= 0x80)
            add_body(out, in, op & 0x7f);
        else
            add_message(out, in, op);
    }
}

/* ---- the oracle ---- */

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static size_t heap_bytes(void)
{
    struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd; /* 0 under AddressSanitizer, which has its own heap */
}

static void check_item(const struct inbox_item *item)
{
    switch (item->what) {
    case INBOX_BROKEN:
    case INBOX_FAILED:
        if (item->err.code == ERR_NONE || item->err.message[0] == '\0')
            abort();
        break;
    case INBOX_ANSWER:
        if (!json_is_object(item->body) || item->verdict >= _WIRE_VERDICT_MAX)
            abort();
        break;
    case INBOX_DISPLAY:
    case INBOX_ASK:
        if (!json_is_object(item->body))
            abort();
        break;
    case INBOX_PROGRESS:
        if (!(item->fraction >= 0 && item->fraction <= 1))
            abort();
        break;
    default:
        if (item->body)
            abort();
    }
}

static void try_stream(enum wire_type request, size_t step, const struct buf *sent)
{
    struct inbox in;
    json_t *kept = json_array();
    int ready = 0, answers = 0;
    int64_t begun = now_ns();
    size_t heap = heap_bytes();
    inbox_init(&in);
    in.ready = request != WIRE_LIST; /* one of them also begins at the beginning */
    inbox_begin(&in, &(struct inbox_request){ .type = request,
                                              .id = 1,
                                              .max_rows = 200,
                                              .max_bytes = 65536,
                                              .max_bytes_back = 4096 });
    for (size_t at = 0; at < sent->len && !in.over; at += step) {
        const char *p = sent->data + at;
        size_t left = MIN_OF(step, sent->len - at);
        struct inbox_item item;
        do {
            inbox_take(&in, &p, &left, &item);
            if (item.what == INBOX_LARGE) {
                inbox_parse(item.large);
                inbox_parsed(&in, item.large, &item);
            }
            check_item(&item);
            ready += item.what == INBOX_READY;
            answers += item.what == INBOX_ANSWER;
            if (item.body)
                json_array_append_new(kept, item.body);
        } while ((item.what != INBOX_NOTHING || left) && !in.over);
    }
    /* `ready` counts once, and a request has one answer. */
    if (ready > 1 || answers > 1)
        abort();
    if (now_ns() - begun > (int64_t)sent->len * NS_PER_BYTE + NS_MORE)
        abort();
    if (heap_bytes() > heap + sent->len * BYTES_PER_BYTE + BYTES_MORE)
        abort();
    inbox_finish(&in);
    json_decref(kept);
}

/* ---- records of the zygote ---- */

static void try_record(const uint8_t *data, size_t size)
{
    struct zygote_record record;
    struct err err = ERR_INIT;
    size_t n_fds = 0;
    int fds[2], got[4];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0)
        abort();
    auto_close int ours = fds[0];
    auto_close int theirs = fds[1];
    if (size > 0 && send(theirs, data, size, MSG_NOSIGNAL) != (ssize_t)size)
        abort();
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
    if (size < 2 || size > INPUT_MAX)
        return 0;
    auto_buf struct buf made = BUF_INIT(SENT_MAX + 2 * INPUT_MAX), raw = BUF_INIT(INPUT_MAX);
    struct input in = { data, size, 0 };
    size_t step = (size_t)next(&in) * 37 + 1;
    make_stream(&made, &in);
    (void)buf_append(&raw, data + 1, size - 1, NULL);
    for (unsigned type = 0; type < _WIRE_TYPE_MAX; type++) {
        const struct wire_message *m = wire_message(type);
        if (!m || m->kind != WIRE_REQUEST || !(m->directions & WIRE_TO_KERNEL))
            continue;
        try_stream((enum wire_type)type, step, &made);
        try_stream((enum wire_type)type, SENT_MAX, &raw);
    }
    try_record(data + 1, size - 1);
    return 0;
}
