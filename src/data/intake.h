#ifndef RIDDLE_DATA_INTAKE_H
#define RIDDLE_DATA_INTAKE_H

/*
 * Files on their way in: a multipart body, streamed to disk and hashed by the worker pool, never
 * held in memory. What the files are for is the user's business: a struct of its own begins with a
 * struct intake, one for each file with a struct intake_file.
 *
 * However the request ends before the body is whole (the client leaves, a limit, a full disk),
 * `uncount`, `remove` and `free` are called, and nothing else. After `whole` the user ends it: by
 * intake_abort(), or by freeing it all after intake_finish().
 */

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"
#include "net/http.h"
#include "net/multipart.h"

#define INTAKE_NAME_SIZE 256
#define INTAKE_FRAMING_MAX (1 << 20) /* what headers and boundaries may add to the files */

struct intake;
struct intake_chunk;

struct intake_file {
    struct intake_file *next;
    char filename[INTAKE_NAME_SIZE]; /* as it was sent */
    char dir[PATH_MAX];              /* made when the file begins */
    char name[INTAKE_NAME_SIZE];     /* that it has there */
    int64_t size;
    struct err err;             /* set by the user: the file is not wanted */
    char sha256[HASH_HEX_SIZE]; /* once it is whole */
    /* The worker's while it is busy: */
    int fd;
    struct hash hash;
};

struct intake_user {
    /* A part begins that is a file: one of the user's own, all zeros but dir and name. */
    int (*begin)(struct intake *in, const struct multipart_part *part, struct intake_file **ret,
                 struct err *err);
    /* So many bytes more of it: may they come? */
    int (*count)(struct intake *in, struct intake_file *f, size_t len, struct err *err);
    /* All of it came; with f->err set it is not written if it is empty. */
    int (*end)(struct intake *in, struct intake_file *f, struct err *err);
    /* A field that is no file; NULL: they are passed over. */
    int (*field)(struct intake *in, const char *name, const char *value, struct err *err);
    /* The body is over: is everything there? */
    int (*check)(struct intake *in, struct err *err);
    void (*whole)(struct intake *in); /* and everything is on disk */
    /* it was aborted: its bytes count no more, before a refusal is answered */
    void (*uncount)(struct intake *in);
    void (*remove)(struct intake *in); /* in the worker pool: whatever was written */
    void (*free)(struct intake *in);   /* calls intake_finish() */
};

struct intake {
    const struct intake_user *user;
    struct loop *loop;
    struct http_request *req; /* NULL: nobody waits for an answer */
    char owner[128];
    struct multipart *parser;
    struct intake_file *files, **files_end;
    size_t n_files;
    struct intake_file *current; /* NULL while a plain field passes */
    char field_name[MULTIPART_NAME_MAX + 1];
    struct buf field;
    struct intake_chunk *pending, **pending_end;
    size_t pending_bytes;
    struct intake_chunk *working;
    struct intake_chunk *spare; /* written ones, to be filled again */
    bool busy;                  /* a worker has `working` */
    bool aborted;               /* remove everything as soon as the worker lets go */
    bool ended;                 /* the body is over */
    struct err err;             /* of the worker, once it is known here */
    struct err work_err;        /* the worker's own */
};

/*
 * For on_headers, with everything but the user's own part zero. On failure only that is left to
 * free.
 */
int intake_start(struct intake *in, struct http_request *req, size_t max_parts,
                 const struct intake_user *user, struct err *err);
/* For on_body. */
ssize_t intake_body(struct http_request *req, const char *data, size_t len, struct err *err);
/*
 * For the handler; without a body at all there is no intake, and `nothing` is the message of a 400.
 */
void intake_end(struct http_request *req, const char *nothing);

/* Removes what was written, then frees; the request must not be asked for any more. */
void intake_abort(struct intake *in);
/* Takes the request away in order to answer it; NULL when the client has left. */
struct http_request *intake_take_request(struct intake *in);
/* Frees what the intake itself has; the files are the user's. */
void intake_finish(struct intake *in);
void intake_file_finish(struct intake_file *f);

#endif
