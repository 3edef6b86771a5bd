#ifndef RIDDLE_NET_SSE_H
#define RIDDLE_NET_SSE_H

/*
 * Server-sent events. An event has a name and a JSON object in which "type" repeats the name:
 * `event: NAME\ndata: {"type":"NAME",…}\n\n`. A stream for clients that expect unnamed events
 * leaves the first line out. A comment every heartbeat keeps proxies from closing an idle stream.
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

struct sse;

/* Events without their `event:` line. Before the first one is sent. */
void sse_set_unnamed(struct sse *sse);

/*
 * Queues an event of any size; `taken` is released in any case. A large one is written by another
 * thread: what its members hold may not be changed any more. UNAVAILABLE once more than
 * SSE_QUEUE_MAX waits for this client, or SSE_TOTAL_MAX for all and this queue is the longest of
 * the owner for whom most waits: then the stream ends in an `error` event, and on_close runs, soon
 * and from the loop.
 */
int sse_send(struct sse *sse, const char *event, json_t *taken, struct err *err);

/*
 * The same for text that comes bit by bit, in the member `key` (and `alias`, unless it is NULL).
 * While the client is slow the bits of one event and with equal other members are put together,
 * and sent as the client reads: many small bits take no more memory than their text. key and alias
 * must outlive the stream.
 */
int sse_send_text(struct sse *sse, const char *event, json_t *taken, const char *key,
                  const char *alias, struct err *err);

/*
 * Back-pressure: true from when more than SSE_QUEUE_HIGH waits until less than half of it does. A
 * producer then sends less: progress can be left out, figures can go by reference.
 */
bool sse_is_full(const struct sse *sse);

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
int sse_format(struct buf *b, const char *event, bool named, json_t *value, struct err *err);

#endif
