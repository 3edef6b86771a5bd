#ifndef RIDDLE_SANDBOX_WIRE_H
#define RIDDLE_SANDBOX_WIRE_H

/*
 * The two protocols between riddle and riddle-kernel. docs/wire.md describes both.
 *
 * Zygote socket (SOCK_SEQPACKET): fixed records, so that the zygote allocates nothing and touches
 * no page that its kernels share.
 *
 * Control stream of a kernel: messages in both directions. A message is a head of 12 bytes and a
 * body, a JSON object or (of `bytes`) anything. The head names the message, so that what is not
 * permitted, not known or too long is dropped or refused before a byte of its body is looked at.
 * wire_table() is the one place that says which messages there are, what members they have and what
 * is permitted when: the checks of both sides, the fuzzer and docs/wire.md come from it.
 *
 * riddle believes nothing that a kernel says about sizes or states: user code can write to the
 * stream. What riddle does with a kernel's messages is in inbox.h.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/limits.h"

#define WIRE_VERSION 4
#define WIRE_MAGIC 0x6c644452u /* "RDdl" */

/*
 * How a kernel says that a request ended. riddle decides the verdict of a run from this and from
 * what it saw itself.
 */
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

/* ---- messages ---- */

enum wire_type {
    WIRE_NONE,
    /* riddle → kernel */
    WIRE_JOIN,
    WIRE_START,
    WIRE_EXEC,
    WIRE_INGEST,
    WIRE_LIST,
    WIRE_READ,
    WIRE_WRITE,
    WIRE_INTERRUPT,
    WIRE_REPLY,
    /* both */
    WIRE_BYTES,
    /* kernel → riddle */
    WIRE_READY,
    WIRE_FAILED,
    WIRE_RESULT,
    WIRE_INGESTED,
    WIRE_LISTED,
    WIRE_PIECE,
    WIRE_WRITTEN,
    WIRE_DISPLAY,
    WIRE_PROGRESS,
    WIRE_ASK,
    /* riddle → kernel, and back */
    WIRE_IMAGE,
    WIRE_IMAGED,
    WIRE_EXPORT,
    WIRE_EXPORTED,
    WIRE_PAUSE,
    WIRE_STEPS,
    _WIRE_TYPE_MAX
};

/* Bits, so that a message can go both ways. */
enum wire_direction { WIRE_TO_KERNEL = 1, WIRE_TO_RIDDLE = 2 };

/*
 * A request has an id that its sender chose and its answer repeats. An event has the id of the
 * request that it is about.
 */
enum wire_kind { WIRE_REQUEST, WIRE_ANSWER, WIRE_EVENT, _WIRE_KIND_MAX };

/*
 * States of a kernel, as bits. riddle may send requests ahead: it knows the kernel's state by what
 * has come from it.
 */
enum wire_state {
    WIRE_NEW = 1 << 0,      /* it has been told nothing */
    WIRE_BOXED = 1 << 1,    /* it has entered its control groups and waits for its start */
    WIRE_STARTING = 1 << 2, /* it has its start and has not said that it is ready */
    WIRE_IDLE = 1 << 3,
    WIRE_BUSY = 1 << 4,   /* a request is under way */
    WIRE_ASKING = 1 << 5, /* … and the kernel waits for the reply to what it asked */
};

enum wire_field_type {
    WIRE_INT,  /* min … max */
    WIRE_REAL, /* min … max, finite; an integer will do */
    WIRE_BOOL,
    WIRE_STR,    /* min … max bytes */
    WIRE_STRS,   /* array of min … max strings */
    WIRE_ARRAY,  /* of min … max values of any kind */
    WIRE_OBJECT, /* of min … max members */
    WIRE_ANY,
    WIRE_VERDICT, /* a name of WIRE_VERDICT_LIST */
    WIRE_ERROR,   /* {"type","message","line"?,"traceback"?} */
    _WIRE_FIELD_TYPE_MAX
};

struct wire_field {
    const char *name;
    enum wire_field_type type;
    bool optional; /* may be missing */
    bool nullable; /* may be null */
    int64_t min, max;
    const char *doc;
};

struct wire_message {
    const char *name;
    unsigned directions,
        states; /* bits of wire_direction; of wire_state, in which its receiver takes it */
    enum wire_kind kind;
    enum wire_type answer; /* of a request: the answer that it gets, unless it gets `failed` */
    uint32_t max_bytes;    /* of the body */
    uint32_t max_nodes;    /* JSON values in it */
    const struct wire_field *fields;
    size_t n_fields;
    const char *doc;
};

/* NULL if there is none of that number. */
const struct wire_message *wire_message(unsigned type);

/*
 * VALIDATION unless the body (NULL: empty) has all members that it must have, of the right types
 * and in range, and no others.
 */
int wire_check(enum wire_type type, const json_t *body, struct err *err);
/*
 * Parses within the message's budgets and checks. *nodes is the most values there may be, and then
 * how many there are. PROTOCOL.
 */
int wire_parse(enum wire_type type, const char *text, size_t len, size_t *nodes, json_t **ret,
               struct err *err);

/*
 * The largest result of a run that asked for at most max_bytes of rows, and the most values in it.
 * Both sides keep to it.
 */
#define WIRE_RESULT_MORE_NODES 300000u
size_t wire_result_bytes(int64_t max_bytes);
uint32_t wire_result_nodes(int64_t max_bytes);

/* Bytes of one display: each of its four parts may be as long as a PNG in base64. */
#define WIRE_DISPLAY_MAX                                                                           \
    (4 * (uint32_t)BASE64_MAX(DISPLAY_PART_MAX) + DISPLAY_INLINE_MAX + WIRE_FRAME_REST)
#define WIRE_DISPLAY_NODES 250000u

/* Bytes of one message of steps, and the most that one debugged run may send of them. */
#define WIRE_STEPS_MAX (1u << 20)
#define WIRE_STEPS_NODES 100000u

/* ---- framing ---- */

#define WIRE_HEAD_BYTES 12

struct wire_head {
    uint32_t len; /* of the body */
    uint32_t id;
    enum wire_type type;
};

void wire_head_write(const struct wire_head *h, unsigned char ret[WIRE_HEAD_BYTES]);
/*
 * False if it is the head of no message that is sent in that direction, or of one whose body is
 * longer than it may be.
 */
bool wire_head_read(const unsigned char raw[WIRE_HEAD_BYTES], enum wire_direction direction,
                    struct wire_head *ret);

/* Checks a message and appends it as it is sent. VALIDATION, TOO_LARGE. */
int wire_append(struct buf *out, enum wire_type type, uint32_t id, const json_t *body,
                struct err *err);
/* The same of `bytes`. */
int wire_append_bytes(struct buf *out, uint32_t id, const void *bytes, size_t len, struct err *err);

/*
 * Writes one message, waiting while the stream is full. The body is not checked; fds (at most
 * FD_PASS_MAX) travel with its first byte.
 */
int wire_send(int fd, enum wire_type type, uint32_t id, const void *body, size_t len,
              struct err *err);
int wire_send_json(int sock, enum wire_type type, uint32_t id, const json_t *body, const int *fds,
                   size_t n_fds, struct err *err);

/*
 * Takes a stream of bytes apart. The bytes are pushed in pieces of any size; each step consumes
 * some of them.
 *
 *   while ((step = wire_reader_step(&r, &bytes, &len)) != WIRE_MORE) …
 */
enum wire_step {
    WIRE_MORE,    /* everything was consumed */
    WIRE_HEAD,    /* r->head is set; r->skip may be set to drop the body unseen */
    WIRE_MESSAGE, /* r->body and r->head.len are the body, until the next step */
    WIRE_BROKEN,  /* no head of a message: nothing that follows has a meaning */
};

struct wire_reader {
    enum wire_direction direction;
    unsigned char raw[WIRE_HEAD_BYTES];
    size_t n_raw;
    struct wire_head head;
    bool in_body, skip, done;
    size_t got; /* of the body */
    const char *body;
    struct buf kept; /* of a body that came in pieces */
};

void wire_reader_init(struct wire_reader *r, enum wire_direction direction);
void wire_reader_finish(struct wire_reader *r);
enum wire_step wire_reader_step(struct wire_reader *r, const char **bytes, size_t *len);

/* ---- start ---- */

/* What a kernel is for. The mounts are added by the provider, which knows how files get there. */
struct wire_start {
    const char *dataset_id; /* may be NULL */
    const struct wire_start_table {
        const char *name;
        size_t mount; /* index of the mount that is its file */
        size_t part;  /* which table of the file; 0 is the first */
    } * tables;
    size_t n_tables;
    int64_t memory_bytes, workspace_bytes, tmp_bytes, inodes, file_bytes;
    int pids, open_files, threads;
    bool interrupts; /* by message: no signal can reach the kernel */
    const char *python_allowed, *python_blocked;
    bool agent, debugging;
};

/* The body of `start`. NULL when a name is not valid UTF-8, or out of memory. */
json_t *wire_start_body(const struct wire_start *s);

/* ---- documentation ---- */

/* The tables of docs/wire.md, in Markdown. */
int wire_describe(struct buf *out, struct err *err);

/* ---- zygote records ---- */

enum zygote_op {
    ZYGOTE_HELLO = 1, /* zygote → riddle, once it is ready: value = pid, status = zygote_made */
    /* zygote → riddle, root only: "write my uid_map and gid_map", answered by ZYGOTE_MAPPED */
    ZYGOTE_MAP,
    ZYGOTE_MAPPED, /* riddle → zygote */
    ZYGOTE_SPAWN,  /* riddle → zygote with 3 fds (control, stdout, stderr); value = user id in
                         the zygote's namespace, status = 1: for the pool */
    /* zygote → riddle: value = pid, 1 fd (pidfd); status = errno if it failed, then no fd */
    ZYGOTE_SPAWNED,
    ZYGOTE_BASE,  /* riddle → zygote with 1 fd: "write your memory to this file" */
    ZYGOTE_BASED, /* zygote → riddle: status = 0 if it is written */
    _ZYGOTE_OP_MAX
};

/* How a zygote came to be. */
enum zygote_made {
    /* everything was loaded anew: it had no base, or one of other libraries */
    ZYGOTE_LOADED,
    ZYGOTE_FROM_BASE,    /* it is what its base was written from */
    ZYGOTE_BASE_DAMAGED, /* loaded anew, because the base is not what was written */
};

#define ZYGOTE_EXIT_ISOLATION                                                                      \
    3 /* exit status of a zygote that cannot build its jail on this machine */

struct zygote_record {
    uint32_t magic;
    uint16_t version;
    uint16_t op;
    int32_t status;
    int32_t reserved;
    int64_t value;
};

int zygote_send(int sock, enum zygote_op op, int64_t value, int status, const int *fds,
                size_t n_fds, struct err *err);
/*
 * PROTOCOL on a record of the wrong size, magic, version or op; UNAVAILABLE when the peer is gone.
 */
int zygote_recv(int sock, struct zygote_record *ret, int *ret_fds, size_t max_fds,
                size_t *ret_n_fds, struct err *err);

#endif
