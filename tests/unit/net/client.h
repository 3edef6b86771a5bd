#ifndef RIDDLE_TESTS_UNIT_NET_CLIENT_H
#define RIDDLE_TESTS_UNIT_NET_CLIENT_H

/*
 * A server in a thread of its own and a client of raw sockets in the test's. The test never touches
 * what the loop owns, except through in_loop().
 */

#include <pthread.h>
#include <semaphore.h>
#include "base/check.h"
#include "net/http.h"

#define PATIENCE_MS                                                                                \
    10000 /* how long a test waits for what must come; it never waits for time to pass */

struct fixture {
    struct loop *loop;
    struct http_server *server;
    struct http_options options;
    pthread_t thread;
    uv_async_t wake;
    int port;
    void (*call)(void *arg);
    void *call_arg;
    sem_t called;
};

/* Set options in f->options before. */
void fixture_start(struct fixture *f, const struct route *routes, size_t n);
void fixture_stop(struct fixture *f);                              /* at once */
void in_loop(struct fixture *f, void (*fn)(void *arg), void *arg); /* waits until fn has run */

void await(sem_t *event); /* fails the test when it does not come */

struct reply {
    int status;
    char head[8192]; /* status line and headers */
    char body[65536];
    size_t len;
};

int dial(int port);
void put(int fd, const char *text);
void put_bytes(int fd, const void *data, size_t len);
/* One whole answer: by Content-Length, chunked, or until the end. */
void take(int fd, struct reply *ret);
void take_head_only(int fd,
                    struct reply *ret); /* of a HEAD request, or the beginning of a stream */
/*
 * Reads until `text` has been seen in what came since the last call; ret (65536 bytes) has all that
 * came.
 */
void take_until(int fd, const char *text, char *ret);
void expect_closed(int fd);
/* Value of a header of the answer, or NULL; the buffer is shared. */
const char *header_of(const struct reply *r, const char *name);
/* A request on a connection of its own. */
void ask(int port, const char *request, struct reply *ret);
void expect_error(const struct reply *r, int status, const char *type, const char *message);

#endif
