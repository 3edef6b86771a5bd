#ifndef RIDDLE_NET_SSE_H
#define RIDDLE_NET_SSE_H

/*
 * Server-sent events. An event has a name and a JSON object in which "type" repeats the name, so
 * that clients of either habit work: `event: NAME\ndata: {"type":"NAME",…}\n\n`. A comment every
 * heartbeat keeps proxies from closing an idle stream.
 *
 *   struct sse *sse = http_reply_sse(req);
 *   sse_on_close(sse, cancel_run, run);
 *   sse_send(sse, "status", json_pack("{s:s}", "message", "running"), NULL);
 *   …
 *   sse_end(sse);
 *
 * A stream lives until sse_end() is called or on_close ran; afterwards the pointer is gone.
 */

#include <stdbool.h>
#include <stddef.h>
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

#define SSE_QUEUE_MAX                                                                              \
    (1024u * 1024) /* bytes that wait for a slow client; one event may be as large */
#define SSE_QUEUE_HIGH (256u * 1024) /* past it the producer should pause: sse_is_full() */

struct sse;

/*
 * Queues an event; `taken` is released in any case. UNAVAILABLE when the queue is past
 * SSE_QUEUE_MAX (the client does not read): the stream then ends and on_close will run, soon and
 * from the loop.
 */
int sse_send(struct sse *sse, const char *event, json_t *taken, struct err *err);

/*
 * Back-pressure: true while more than SSE_QUEUE_HIGH waits; on_drain runs when it has fallen below
 * half of that.
 */
bool sse_is_full(const struct sse *sse);
void sse_on_drain(struct sse *sse, void (*fn)(void *arg), void *arg);

/*
 * Called once if the client goes away, does not read, or the server stops, before sse_end(). Never
 * from inside sse_send().
 */
void sse_on_close(struct sse *sse, void (*fn)(void *arg), void *arg);

/* Sends what is queued and ends the response. NULL is fine. */
void sse_end(struct sse *sse);

/*
 * The text of one event (for tests and stored streams). An object gets "type"; other values become
 * {"type", "value"}.
 */
int sse_format(struct buf *b, const char *event, json_t *value, struct err *err);

#endif
