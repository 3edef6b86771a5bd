#ifndef RIDDLE_DATA_RECEIVE_H
#define RIDDLE_DATA_RECEIVE_H

/*
 * Files that a request brings, as uploads or for a thread: streamed to disk (intake.h) within the
 * limits of both, recorded, ingested. The route answers when that is done. Whatever ends the
 * request before its body is whole removes every trace of it.
 */

#include "data/intake.h"
#include "data/threads.h"

#define RECEIVE_FILES_MAX 64 /* in one request */

struct incoming {
    struct intake_file in; /* in.err: why it could not be used */
    struct receiver *rx;
    char id[FILE_ID_DIGITS + 1];
    struct file_set *set; /* NULL when there is an error instead */
    struct file_watcher watcher;
};

struct receive_terms {
    bool for_thread; /* that the form names as session_id */
    bool wait;       /* for the ingests; true for a thread */
    /*
     * Takes the receiver over. settled: every ingest has ended. err: nothing was kept (of a thread:
     * all of its files or none).
     */
    void (*answer)(struct receiver *rx, bool settled, const struct err *err);
    void *arg;
};

struct receiver {
    struct intake in; /* its files are struct incoming */
    struct receive_terms terms;
    struct file_sets *all;
    struct file_use *use;
    int64_t counted_bytes;
    json_t *options;               /* how all of them are to be read */
    struct data_thread *thread;    /* pinned; NULL until the form has named it */
    size_t n_open;                 /* records, then ingests, that are still awaited */
    struct err err;                /* of a thread's: the first */
    struct receiver *next, **prev; /* of those whose chat is to call back */
};

static inline struct incoming *incoming_first(const struct receiver *rx)
{
    return (struct incoming *)rx->in.files;
}

static inline struct incoming *incoming_next(const struct incoming *f)
{
    return (struct incoming *)f->in.next;
}

/* For on_headers; intake_body() is for on_body. */
int receive_begin(struct http_request *req, struct data_room *room,
                  const struct receive_terms *terms, struct err *err);
/* For the handler. */
void receive_end(struct http_request *req, bool for_thread);
void receiver_free(struct receiver *rx);
/* Somebody is asked to call back, and may not when the room is closed: then it is freed. */
void receiver_hold(struct receiver *rx);
void receivers_close(struct file_sets *all);

#endif
