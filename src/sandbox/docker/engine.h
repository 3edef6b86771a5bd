#ifndef RIDDLE_SANDBOX_DOCKER_ENGINE_H
#define RIDDLE_SANDBOX_DOCKER_ENGINE_H

/*
 * The Docker Engine API at DOCKER_HOST (unix:// or tcp://), inside the loop: calls with JSON both
 * ways, and the streams of attached containers. No callback comes from within the function that
 * asked for it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>
#include "base/err.h"
#include "base/json.h"

struct engine;

/* CONFIG for a host that cannot be spoken to. Connects to nobody yet. */
int engine_create(uv_loop_t *loop, const char *host, struct engine **ret, struct err *err);
/* Nothing is under way any more; NULL is fine. The loop must still run once. */
void engine_destroy(struct engine *e);

/*
 * body is the answer's JSON, NULL if it has none, and good only within the call. err is set for a
 * status of 400 or more as well: NOT_FOUND, CONFLICT, or UNAVAILABLE, with the daemon's message.
 */
typedef void (*engine_fn)(void *arg, const json_t *body, const struct err *err);
/* body may be NULL. Calls back once, unless it fails at once. */
int engine_call(struct engine *e, const char *method, const char *path, const json_t *body,
                int64_t timeout_ms, engine_fn done, void *arg, struct err *err);

/* ---- attached streams ---- */

struct engine_stream;

struct engine_stream_events {
    void (*attached)(void *arg);
    void (*data)(void *arg, bool is_stderr, const char *bytes, size_t len);
    void (*drained)(void *arg); /* all that was written has left */
    /* The last event; err is NULL at the end of the stream. */
    void (*ended)(void *arg, const struct err *err);
};

/* Attaches to stdin, stdout and stderr of a container that has not been started. */
int engine_attach(struct engine *e, const char *container,
                  const struct engine_stream_events *events, void *arg, struct engine_stream **ret,
                  struct err *err);
/* Copies what cannot be written now. */
int engine_stream_write(struct engine_stream *s, const void *bytes, size_t len, struct err *err);
size_t engine_stream_queued(const struct engine_stream *s);
void engine_stream_read(struct engine_stream *s, bool on);
/* No event comes after it. `closed` (may be NULL) is called when the loop has let go of it. */
void engine_stream_close(struct engine_stream *s, void (*closed)(void *arg), void *arg);

#endif
