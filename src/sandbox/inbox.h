#ifndef RIDDLE_SANDBOX_INBOX_H
#define RIDDLE_SANDBOX_INBOX_H

/*
 * riddle's side of a kernel's control stream: bytes in, checked items out. The kernel is not
 * believed: user code can write to the stream as it likes.
 *
 * What costs what. A message that is unknown, too long or out of its place in the stream ends the
 * sandbox (INBOX_BROKEN). One that is known but not permitted now, of another request, or past what
 * is kept of its kind, is dropped by its head: its body is neither kept nor parsed. A body that is
 * taken is bounded in bytes and in values before it is parsed; a long one is parsed by a worker
 * (INBOX_LARGE), so that no message occupies the loop. All that one request may send, taken or not,
 * is bounded (INBOX_FLOOD), by the heads of messages where those tell. `ready` counts once.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "base/json.h"
#include "sandbox/wire.h"

/* Of one request, besides DISPLAYS_MAX and DISPLAY_BYTES_MAX. */
#define INBOX_DISPLAY_NODES_MAX 500000u
#define INBOX_BYTES_MAX (INT64_C(256) << 20)
#define INBOX_MESSAGES_MAX 100000
/* Of those bytes, in messages of other requests: late figures of a thread of user code. */
#define INBOX_UNASKED_BYTES_MAX (INT64_C(16) << 20)
/* Longer bodies are parsed by a worker. Those of most answers are some hundred bytes. */
#define INBOX_AT_ONCE_MAX (8u << 10)
/* A display with more values than this has them as text: see struct inbox_large. */
#define INBOX_TREE_NODES_MAX 4000u

enum inbox_what {
    INBOX_NOTHING,   /* all bytes were consumed */
    INBOX_READY,     /* text: the layers of the jail that are missing, "" for none */
    INBOX_FAILED,    /* the kernel could not do its part and ends; err */
    INBOX_ANSWER,    /* of the request under way: body, verdict */
    INBOX_DISPLAY,   /* body: data of a display, to be kept */
    INBOX_PROGRESS,  /* fraction */
    INBOX_STEPS,     /* body: lines that a debugged run executed, an array of objects */
    INBOX_ASK,       /* id, text: what is wanted; body: its arguments */
    INBOX_ANNOUNCED, /* n_bytes: of the long message whose body follows; go on when there is room */
    INBOX_LARGE,     /* large: pass it to inbox_parse(), then to inbox_parsed() */
    INBOX_BROKEN,    /* the kernel broke the protocol; err. Nothing follows */
    INBOX_FLOOD,     /* it sent more than a request may. Nothing follows */
};

/*
 * The body of a message on its way through a worker. A display's `json` of many values becomes
 * `json_text` there, because a large tree costs time again whenever it is written and freed.
 */
struct inbox_large {
    struct wire_head head;
    struct buf text;
    size_t nodes; /* the most that there may be; then how many there are */
    json_t *body;
    struct err err;
};

struct inbox_item {
    enum inbox_what what;
    struct inbox_large *large; /* the receiver's to free, by inbox_parsed() or inbox_large_free() */
    json_t *body;              /* the receiver's to free, or NULL */
    enum wire_verdict verdict;
    double fraction;
    uint32_t id;
    size_t n_bytes;
    char text[264];
    struct err err;
};

struct inbox {
    struct wire_reader reader;
    bool ready, over; /* over: INBOX_BROKEN or INBOX_FLOOD came */
    uint32_t id;      /* of the request under way; 0: none */
    uint32_t ask;     /* of the kernel's question that waits for a reply; 0: none */
    enum wire_type request;
    int64_t max_rows, max_bytes; /* of an exec */
    size_t max_bytes_back;       /* of `bytes` that the request wants; 0: none */
    struct buf bytes;            /* that came for the answer */
    size_t displays, display_bytes, display_nodes;
    bool displays_dropped;
    size_t max_steps_bytes, steps_bytes; /* of a debugged exec */
    int64_t n_bytes, n_messages;         /* in all, of this request */
    int64_t unasked_bytes;
};

void inbox_init(struct inbox *in);
void inbox_finish(struct inbox *in);

/* What is expected from now on: the answer to this request. */
struct inbox_request {
    enum wire_type type;
    uint32_t id;
    int64_t max_rows, max_bytes; /* of an exec: what was asked for, -1 for no limit */
    size_t max_bytes_back;
    size_t max_steps_bytes; /* of an exec that is debugged; 0: it is not */
};
void inbox_begin(struct inbox *in, const struct inbox_request *req);
/* Nothing is expected any more: what comes is dropped until the next request. */
void inbox_end(struct inbox *in);

/*
 * Consumes bytes up to the next item. Call it until it says INBOX_NOTHING, INBOX_BROKEN or
 * INBOX_FLOOD. After INBOX_LARGE nothing is given to it before inbox_parsed().
 */
void inbox_take(struct inbox *in, const char **bytes, size_t *len, struct inbox_item *ret);

/* In any thread. */
void inbox_parse(struct inbox_large *large);
/* What the message says. Frees it. */
void inbox_parsed(struct inbox *in, struct inbox_large *large, struct inbox_item *ret);
void inbox_large_free(struct inbox_large *large);

#endif
