#ifndef RIDDLE_SANDBOX_SANDBOX_H
#define RIDDLE_SANDBOX_SANDBOX_H

/*
 * For users of sandboxes: what a sandbox is made from, what it runs and how a run ends. Most of
 * them hold a lease (pool/executor.h), which makes the sandbox; the functions below are what a
 * lease is made of. Implementers of providers include provider.h.
 *
 * A sandbox runs one request at a time and keeps its state between them. Nothing here blocks: what
 * takes time ends in a callback from the event loop, never from within the call that asked for it.
 *
 * Ownership: a sandbox belongs to whoever made it. Strings and arrays in a spec or request are
 * copied. A run_result is the callee's; run_result_finish() frees it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/config.h"
#include "base/err.h"
#include "base/json.h"
#include "base/limits.h"
#include "sandbox/workspace_path.h"

/* How a run ended. A result, never an error. */
#define VERDICT_LIST(X)                                                                            \
    X(OK, "ok")                                                                                    \
    X(ERROR, "error")                                                                              \
    X(TIMEOUT, "timeout")                                                                          \
    X(MEMORY, "memory")                                                                            \
    X(PROCESSES, "processes")                                                                      \
    X(OUTPUT, "output")                                                                            \
    X(FILESIZE, "filesize")                                                                        \
    X(POLICY, "policy")                                                                            \
    X(KILLED, "killed")

enum verdict {
#define X(code, name) VERDICT_##code,
    VERDICT_LIST(X)
#undef X
        _VERDICT_MAX
};

const char *verdict_name(enum verdict v);

enum run_kind { RUN_SQL, RUN_PYTHON, _RUN_KIND_MAX };
enum python_policy { POLICY_RESTRICTED, POLICY_OPEN, _POLICY_MAX };

/* Limits of a sandbox for its whole life. sandbox_limits_default() fills them from the settings. */
struct sandbox_limits {
    int64_t memory_bytes;
    double cpus;
    bool yields; /* to others' SQL, when processors are short: Python and ingests */
    int pids;
    int open_files;
    int64_t file_bytes;
    int64_t workspace_bytes;
    int64_t tmp_bytes;
    int64_t inodes;
};

/*
 * A file of the host that the sandbox sees as /data/<name>; `table` is the name it is queried by. A
 * raw one is only seen.
 */
struct sandbox_file {
    const char *name;   /* "orders.csv": no slash */
    const char *path;   /* absolute, on the host */
    const char *table;  /* identifier, unique in the sandbox; NULL if raw */
    const char *alias;  /* second name below /data, such as its file_id's; NULL: none */
    const char *sha256; /* of its content, in hexadecimal, if already known; NULL: to be computed */
    const char *options; /* how to read it, as a JSON object (docs/files.md); NULL: as it looks */
    bool is_beside;      /* its table is kept in the file's own directory, and goes with it */
    /*
     * of any kind and any name that can stand below /data: not ingested, no table, and Python's
     * only
     */
    bool raw;
};

/* How it stands with starting kernels of one kind. */
struct kernel_health {
    struct err err;   /* of the last start; code NONE: it succeeded, or there was none */
    int64_t since_ms; /* wall clock: when it began to fail */
    unsigned starts;  /* how often its base (a zygote, a daemon's connection) began */
};

struct sandbox_spec {
    enum run_kind kind;     /* RUN_SQL sandboxes hold no Python and start without waiting for it */
    const char *dataset_id; /* qualifies table names in SQL; may be NULL */
    /* A database that runs SQL in the place of a kernel (executor_set_engine()); NULL: none */
    const char *database;
    const struct sandbox_file *files;
    size_t n_files;
    struct sandbox_limits limits;
    const char *image; /* a file of lease_image(): the sandbox goes on as it was; NULL: a new one */
    struct lease *from; /* of lease_branch(): goes on as that is; NULL: a new one */
    /*
     * Of the policy `restricted`, instead of the server's; "=a,b": these modules alone. NULL: the
     * server's.
     */
    const char *python_allowed, *python_blocked;
    bool agent; /* code of /sandbox: debug() is there, and results are JSON values ("returned") */
    bool debugging; /* … and what debug() says is kept ("debug") */
    /* UNAVAILABLE when too many of its owner wait already (RIDDLE_QUEUE). Others wait. */
    bool refusable;
    bool exports; /* for lease_export() and nothing else: a kernel that nobody has used */
};

struct run_request {
    enum run_kind kind;
    const char *code;
    size_t code_len;
    enum python_policy policy;
    int64_t timeout_ms;
    int64_t max_rows;
    int64_t max_output_bytes;       /* of stdout, of stderr, and of the rows */
    bool svg;                       /* figures as SVG too */
    const json_t *context;          /* an object: variables that Python sets first; may be NULL */
    const char *run_id, *thread_id; /* for the log of a database; may be NULL */
    /*
     * Of the wire's `exec`: Python is stepped through, and `debug` is asked in each pause; may be
     * NULL. The clock of the run stands while it is paused or waits for input(), but for processor
     * time; each may last for pause_ms. 0: input() has no more time than the run.
     */
    const json_t *debug;
    int64_t pause_ms;
};

/* Called while a run is under way. Any may be NULL. */
struct run_events {
    void (*output)(void *arg, bool is_stderr, const char *text, size_t len);
    /* {"png","svg","html","text","json"}. True: the listener keeps it, and the result does not. */
    bool (*display)(void *arg, const json_t *data);
    void (*steps)(void *arg, json_t *steps); /* of a debugged run: an array of objects, borrowed */
    /* "ingest orders.csv", 0..1 */
    void (*progress)(void *arg, const char *stage, double fraction);
    /*
     * The code asks for something ("input": a line of text; args {"prompt"}). True: sandbox_reply()
     * will follow; else nobody answers.
     */
    bool (*ask)(void *arg, uint32_t id, const char *what, const json_t *args);
    void *arg;
};

struct run_result {
    enum verdict verdict;
    bool interrupted;     /* a running cell was stopped by an interrupt and its state is kept */
    bool paused_too_long; /* by its debugger; the verdict is TIMEOUT */
    bool state_lost;      /* the kernel is gone, and with it its variables */
    /*
     * Checked result of the kernel: "columns", "types", "rows", "row_count", "truncated", "value",
     * "error" ({"type","message","line"?,"traceback"?}), "exec_time_ms", "rejects"?; of Python
     * while its kernel lives also "files", what is in /workspace ({"path","size","modified" in Unix
     * ms}, sorted by path), and "files_truncated". Never NULL after success.
     */
    json_t *body;
    json_t *displays;        /* array of those that no listener has kept */
    bool displays_truncated; /* more than DISPLAYS_MAX, or than DISPLAY_BYTES_MAX */
    struct buf bytes;        /* that came with the answer to a request for some */
    struct buf out, errout;
    bool out_truncated, errout_truncated;
    /* By stage, in microseconds: start (fork and jail), load (hash and ingest), execute. */
    int64_t start_us, load_us, execute_us;
    int64_t cpu_us;
    int64_t peak_memory_bytes;
};

void run_result_finish(struct run_result *r);

struct sandbox;

void sandbox_limits_default(const struct config *cfg, struct sandbox_limits *ret);

/*
 * result is the callee's; err is set instead when the sandbox broke, which is dead then. Either
 * destroys the sandbox or not.
 */
typedef void (*sandbox_done_fn)(struct sandbox *sb, struct run_result *result,
                                const struct err *err, void *arg);

/* Begins a run. One at a time: CONFLICT otherwise. UNAVAILABLE when the sandbox is dead. */
int sandbox_begin(struct sandbox *sb, const struct run_request *req,
                  const struct run_events *events, sandbox_done_fn done, void *arg,
                  struct err *err);
/*
 * Answers run_events.ask with a value, or with an error. Ignored when that question is not open any
 * more.
 */
void sandbox_reply(struct sandbox *sb, uint32_t ask, const json_t *value, const struct err *error);
/* A debugged run pauses at its next line. Ignored by any other. */
void sandbox_pause(struct sandbox *sb);
/*
 * Stops the run under way: an interrupt first, then the kill; its result has VERDICT_KILLED.
 * Harmless when idle.
 */
void sandbox_interrupt(struct sandbox *sb);
bool sandbox_alive(const struct sandbox *sb);
/* Kills it, with all that it started, without waiting. No callback comes any more. NULL is fine. */
void sandbox_destroy(struct sandbox *sb);
/* The same, and gone() comes when nothing of it runs any more. */
void sandbox_end(struct sandbox *sb, void (*gone)(void *arg), void *arg);

/*
 * Files of a live sandbox's /workspace are read and written between runs, in pieces (workspace.h,
 * lease_read_file()). A path is relative to /workspace or below it, without '..'. VALIDATION for
 * another, and for a link, a directory or anything else that is no regular file; NOT_FOUND.
 * Whatever the code in the sandbox has made of its files, nothing outside its /workspace is ever
 * read or written.
 */
struct file_piece {
    const char *data; /* of a read, len bytes */
    size_t len;
    int64_t size; /* of the file, now */
    bool end;     /* nothing follows this piece */
};

#endif
