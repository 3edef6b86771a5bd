#ifndef RIDDLE_STORE_DISPATCH_H
#define RIDDLE_STORE_DISPATCH_H

/* Requests, and the threads that carry them out: what store.c and dispatch.c share. */

#include <pthread.h>
#include "base/background.h"
#include "store/store_impl.h"

enum request_kind {
    REQUEST_PUT,
    REQUEST_REMOVE,
    REQUEST_ABANDON,
    REQUEST_TRIM,
    REQUEST_GET,
    REQUEST_LIST,
    REQUEST_UPLOAD_BYTES
};

/* A record to be put, copied. */
struct part {
    enum record_type type;
    enum store_mode mode;
    void *record;
};

struct request {
    struct background_job job; /* first: writes a result, makes or frees a page */
    struct request *next;
    enum request_kind kind;
    enum record_type type;
    int64_t since_us;

    /* What is asked; text lives in the arena. */
    struct arena arena;
    struct part *parts; /* of a put, in the arena */
    size_t n_parts;
    struct capsule *capsule; /* one of the parts: its result is to be written */
    json_t *unwritten;       /* that result */
    char *written;
    struct store *store;     /* that waits for it, or for what is made of a page */
    size_t bytes; /* of the records */
    const char *owner, *id, *error_json, *before;
    int64_t max_bytes;
    struct store_query query;
    struct store_position after;
    bool has_after;

    /* What came of it. */
    int result;
    struct err err;
    int64_t value;
    struct store_page page;

    /* Whom to tell: one of these, or the thread that waits. */
    store_done_fn done;
    store_read_fn read;
    void *arg;
    bool waited, finished;
};

struct queue {
    struct request *head, **tail;
    size_t n, bytes;
};

struct reader {
    struct store *store;
    size_t slot;
    pthread_t thread;
};

struct store {
    const struct store_ops *ops;
    struct store_backend *backend;
    uv_loop_t *loop; /* NULL: nobody calls back */
    uv_async_t async;
    size_t pending; /* callbacks that are due; the loop's thread only */

    pthread_mutex_t lock; /* everything below */
    pthread_cond_t writes_there, reads_there, finished;
    struct queue writes, reads, done;
    size_t n_making;    /* reads that the background completes */
    size_t n_unwritten; /* requests that become writes once their result is text */
    bool closing, expected; /* a write is announced */
    struct store_stats stats;
    struct err write_failure, read_failure; /* of the last one, if it was the store's */
    int64_t quota_bytes;                    /* set once */
    char **full;                            /* owners who have more than that */
    size_t n_full;

    /* The writer's thread only. */
    bool trimmed; /* the last trim removed something */
    /* For a write that was announced: 1 a transaction is begun, -1 it could not be. */
    int begun;
    struct err begin_failure;
    pthread_t writer;
    struct reader readers[STORE_READERS];
    size_t n_readers;
    bool has_writer;
};

/* NULL when out of memory */
struct request *request_new(enum request_kind kind, enum record_type type);
void request_free(struct request *r);

void dispatch_init(struct store *s);
void dispatch_finish(struct store *s);
int dispatch_start(struct store *s, struct err *err);
/* Ends the threads when they have done all that is queued. */
void dispatch_stop(struct store *s);

/* Calls back for all that is done. */
void dispatch_call_back(struct store *s);

/* A write is about to be handed in. */
void dispatch_expect(struct store *s);
/* Both take the request when they fail. */
int dispatch_submit(struct store *s, struct request *r, struct err *err);
/* Waits for the request, which is still the caller's when this returns 0: its result is in it. */
int dispatch_wait(struct store *s, struct request *r, struct err *err);

#endif
