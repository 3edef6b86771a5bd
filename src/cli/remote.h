#ifndef RIDDLE_CLI_REMOTE_H
#define RIDDLE_CLI_REMOTE_H

/* Requests to a running server: what `sandbox`, `threads`, `thread` and `bench-stream` share. */

#include <stdbool.h>
#include <stddef.h>
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

#define REMOTE_ANSWER_MAX_BYTES (64u << 20)

#define REMOTE_USAGE                                                                               \
    "  --server URL  where the server is; http://127.0.0.1:$PORT when missing\n\n"                 \
    "A server with keys is sent RIDDLE_API_KEY, or else the first one of RIDDLE_API_KEYS.\n\n"

struct remote {
    char server[256], key[256];
};

/* Reads the settings. server: of --server, or NULL. Complains unless it returns CLI_OK. */
int remote_init(struct remote *r, const char *server);

struct remote_request {
    const char *method, *path; /* the path is coded: remote_append_coded() */
    const char *accept;        /* NULL: JSON */
    const char *content_type;  /* NULL: JSON */
    const void *body;          /* NULL: none */
    size_t body_len;
    /* Takes the body of a success as it comes; NULL: it goes to the buffer of the answer. */
    int (*take)(void *arg, const char *data, size_t len, struct err *err);
    void *arg;
};

/*
 * Waits for the answer, and appends its body to `answer`, whose maximum bounds it. UNAVAILABLE with
 * the server's message unless the status is 200; with its address when no server is there.
 */
int remote_call(const struct remote *r, const struct remote_request *q, struct buf *answer,
                struct err *err);
/* The same for JSON; body may be NULL. Caller owns *ret. */
int remote_call_json(const struct remote *r, const char *method, const char *path,
                     const json_t *body, json_t **ret, struct err *err);

/* Appends text as it may stand in a URL. `slashes`: they separate names and stay. */
int remote_append_coded(struct buf *b, const char *text, bool slashes, struct err *err);
/* True for an id that can be one name of a path. */
bool remote_is_id(const char *s);

/* The text of a key, or "". */
const char *remote_text(const json_t *o, const char *key);

#endif
