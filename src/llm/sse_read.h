#ifndef RIDDLE_LLM_SSE_READ_H
#define RIDDLE_LLM_SSE_READ_H

/*
 * Reads a stream of server-sent events, however it is cut into pieces. Lines may end in LF, CR or
 * CRLF; comments and unknown fields are passed over; an event's data lines are joined by LF. What
 * one event may hold is bounded.
 */

#include <stdbool.h>
#include <stddef.h>
#include "base/buf.h"
#include "base/err.h"

#define SSE_READ_EVENT_MAX (4u << 20) /* bytes of one line, and of the data of one event */
#define SSE_READ_NAME_SIZE 64

/*
 * One event: its name ("" when it has none; cut when it is longer than fits) and its data,
 * NUL-terminated. Negative (err set) ends the reading with that error, positive ends it without
 * one.
 */
typedef int sse_read_fn(void *arg, const char *event, const char *data, size_t len,
                        struct err *err);

struct sse_reader {
    struct buf line; /* the part of a line that has come so far */
    struct buf data;
    char event[SSE_READ_NAME_SIZE];
    bool has_data;
    bool skip_lf;   /* the last byte was a CR */
    bool past_mark; /* a byte order mark can only be first */
};

void sse_reader_init(struct sse_reader *r);
void sse_reader_finish(struct sse_reader *r);

/* 0, what fn returned, or LLM_BAD_RESPONSE when an event is too large. */
int sse_read(struct sse_reader *r, const char *data, size_t len, sse_read_fn *fn, void *arg,
             struct err *err);

/* Whether an event has begun that has not ended: at the end of a stream it was cut. */
bool sse_reader_is_inside(const struct sse_reader *r);

#endif
