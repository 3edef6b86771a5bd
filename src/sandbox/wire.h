#ifndef RIDDLE_SANDBOX_WIRE_H
#define RIDDLE_SANDBOX_WIRE_H

/*
 * The two protocols between riddle and riddle-kernel. docs/wire.md describes both.
 *
 * Zygote socket (SOCK_SEQPACKET): fixed records, so that the zygote allocates nothing and touches no page that its kernels
 * share. Control socket of a kernel (SOCK_STREAM): frames of a 32-bit little-endian length and that many bytes of JSON.
 * The reader of either side bounds what it accepts; riddle believes nothing that a kernel says about sizes or states.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/limits.h"

#define WIRE_VERSION 1
#define WIRE_MAGIC 0x6c644452u /* "RDdl" */

/* How a kernel says that a request ended. riddle decides the verdict of a run from this and from what it saw itself. */
#define WIRE_VERDICT_LIST(X)                                                                       \
    X(OK, "ok")                                                                                    \
    X(ERROR, "error")                                                                              \
    X(MEMORY, "memory")                                                                            \
    X(PROCESSES, "processes")                                                                      \
    X(FILESIZE, "filesize")                                                                        \
    X(POLICY, "policy")                                                                            \
    X(INTERRUPTED, "interrupted")

enum wire_verdict {
#define X(code, name) WIRE_VERDICT_##code,
    WIRE_VERDICT_LIST(X)
#undef X
    _WIRE_VERDICT_MAX
};

const char *wire_verdict_name(enum wire_verdict v);
int wire_verdict_from_name(const char *name); /* -1 if unknown */

/* ---- zygote records ---- */

enum zygote_op {
    ZYGOTE_HELLO = 1, /* zygote → riddle, once it is ready: value = pid, status = threads (must be 1) */
    ZYGOTE_MAP,       /* zygote → riddle, root only: "write my uid_map and gid_map", answered by ZYGOTE_MAPPED */
    ZYGOTE_MAPPED,    /* riddle → zygote */
    ZYGOTE_SPAWN,     /* riddle → zygote with 3 fds (control, stdout, stderr); value = 1: for the pool */
    ZYGOTE_SPAWNED,   /* zygote → riddle: value = pid, 1 fd (pidfd); status = errno if it failed, then no fd */
    _ZYGOTE_OP_MAX
};

#define ZYGOTE_EXIT_ISOLATION 3 /* exit status of a zygote that cannot build its jail on this machine */

struct zygote_record {
    uint32_t magic;
    uint16_t version;
    uint16_t op;
    int32_t status;
    int32_t reserved;
    int64_t value;
};

int zygote_send(int sock, enum zygote_op op, int64_t value, int status, const int *fds, size_t n_fds,
                struct err *err);
/* PROTOCOL on a record of the wrong size, magic, version or op; UNAVAILABLE when the peer is gone. */
int zygote_recv(int sock, struct zygote_record *ret, int *ret_fds, size_t max_fds, size_t *ret_n_fds,
                struct err *err);

/* ---- control frames ---- */


/* Writes one frame, waiting while the socket is full; fds (at most FD_PASS_MAX) travel with its first byte. */
int wire_send(int sock, const char *json, size_t len, const int *fds, size_t n_fds, struct err *err);
int wire_send_json(int sock, const json_t *msg, const int *fds, size_t n_fds, struct err *err);

/* A frame that begins with a NUL, as no JSON does, carries the bytes behind it: of the next frame's request or answer. */
static inline bool wire_is_bytes(const char *frame, size_t len)
{
    return len > 0 && frame[0] == '\0';
}

/* Collects bytes into frames without blocking. */
struct wire_reader {
    struct buf in;
    size_t max_frame_bytes;
    bool accept_fds; /* false: descriptors that come along are closed (riddle takes none from a kernel) */
    int fds[128];
    size_t n_fds;
};

void wire_reader_init(struct wire_reader *r, size_t max_frame_bytes);
void wire_reader_finish(struct wire_reader *r);
/* Reads what is there. Returns 1 if bytes came, 0 if none are there now, UNAVAILABLE at end of file, PROTOCOL. */
int wire_reader_fill(struct wire_reader *r, int sock, struct err *err);
/* Takes bytes that somebody else has read. PROTOCOL, as above. */
int wire_reader_push(struct wire_reader *r, const char *bytes, size_t len, struct err *err);
/* The next whole frame (valid until wire_reader_next_done), or false. */
bool wire_reader_next(struct wire_reader *r, const char **ret_json, size_t *ret_len);
void wire_reader_next_done(struct wire_reader *r);

#endif
