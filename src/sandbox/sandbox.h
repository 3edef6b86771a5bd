#ifndef RIDDLE_SANDBOX_SANDBOX_H
#define RIDDLE_SANDBOX_SANDBOX_H

/*
 * What users of sandboxes see: a provider makes sandboxes; a sandbox runs one request at a time, keeps its state between
 * them, and tells how each ended. Nothing here blocks but sandbox_wait() and the *_open calls that say so.
 *
 * Ownership: a sandbox belongs to whoever created it and must be destroyed before its provider. Strings and arrays in a
 * spec or request are copied. A run_result is the caller's; run_result_finish() frees it.
 */

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/buf.h"
#include "base/config.h"
#include "base/err.h"
#include "base/json.h"
#include "base/limits.h"

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
/* -1 if unknown */
int verdict_from_name(const char *name);

enum run_kind { RUN_SQL, RUN_PYTHON, _RUN_KIND_MAX };
enum python_policy { POLICY_RESTRICTED, POLICY_OPEN, _POLICY_MAX };

/* Limits of a sandbox for its whole life. sandbox_limits_default() fills them from the settings. */
struct sandbox_limits {
    int64_t memory_bytes;
    double cpus;
    int pids;
    int open_files;
    int64_t file_bytes;
    int64_t workspace_bytes;
    int64_t tmp_bytes;
    int64_t inodes;
};

/* A file of the host that the sandbox sees as /data/<name>; `table` is the name it is queried by. A raw one is only seen. */
struct sandbox_file {
    const char *name;  /* "orders.csv": no slash */
    const char *path;  /* absolute, on the host */
    const char *table; /* identifier, unique in the sandbox; NULL if raw */
    const char *sha256; /* of its content, in hexadecimal, if already known; NULL: to be computed */
    bool raw;           /* of any kind and any name that can stand below /data: not ingested, no table, and Python's only */
};

struct sandbox_spec {
    enum run_kind kind;     /* RUN_SQL sandboxes hold no Python and start without waiting for it */
    const char *dataset_id; /* qualifies table names in SQL; may be NULL */
    const struct sandbox_file *files;
    size_t n_files;
    struct sandbox_limits limits;
};

struct run_request {
    enum run_kind kind;
    const char *code;
    size_t code_len;
    enum python_policy policy;
    int64_t timeout_ms;
    int64_t max_rows;
    int64_t max_output_bytes; /* of stdout, of stderr, and of the rows */
    bool svg;                 /* figures as SVG too */
};

/* Called while a run is under way. Any may be NULL. */
struct run_events {
    void (*output)(void *arg, bool is_stderr, const char *text, size_t len);
    void (*display)(void *arg, const json_t *data);                     /* {"png","svg","html","text","json"} */
    void (*progress)(void *arg, const char *stage, double fraction);    /* "ingest orders.csv", 0..1 */
    void *arg;
};

struct run_result {
    enum verdict verdict;
    bool interrupted; /* a running cell was stopped by SIGINT and its state is kept */
    bool state_lost;  /* the kernel is gone, and with it its variables */
    /*
     * Checked result of the kernel: "columns", "types", "rows", "row_count", "truncated", "value", "error"
     * ({"type","message","line"?,"traceback"?}), "exec_time_ms", "rejects"?; of Python while its kernel lives also "files", what is in
     * /workspace ({"path","size","modified" in Unix ms}, sorted by path), and "files_truncated". Never NULL after success.
     */
    json_t *body;
    json_t *displays; /* array of display data */
    struct buf bytes; /* that came with the answer to a request for some */
    struct buf out, errout;
    bool out_truncated, errout_truncated;
    /* By stage, in microseconds: queue, start (fork and jail), load (hash and ingest), execute. */
    int64_t start_us, load_us, execute_us;
    int64_t cpu_us;
    int64_t peak_memory_bytes;
};

void run_result_finish(struct run_result *r);

struct provider; /* a way to make sandboxes; today the local one */
struct sandbox;

void sandbox_limits_default(const struct config *cfg, struct sandbox_limits *ret);

/* Starts nothing yet: zygotes start on first use, or at once by provider_warm(). ISOLATION when the jail cannot hold. */
int provider_open_local(const struct config *cfg, struct provider **ret, struct err *err);
void provider_close(struct provider *p);
/*
 * For a command that runs `code` and ends: zygotes then load only what the code seems to need, and warm nothing. Packages that
 * they did not load are imported by the kernel itself; plotting ones are loaded here, where their font cache is.
 */
void provider_one_shot(struct provider *p, const char *code);
/* Starts the zygote for this kind, waits until it is ready, and fills the pool. */
int provider_warm(struct provider *p, enum run_kind kind, struct err *err);

/* Adds one kernel to the pool if it is not full; true if it did. The fork is the caller's idle moment. */
bool provider_refill(struct provider *p, enum run_kind kind, struct err *err);
unsigned provider_zygote_starts(const struct provider *p); /* so far, both kinds */

/* Makes a sandbox: ingests what is not ingested yet (blocking; progress through events), forks, jails. */
int sandbox_create(struct provider *p, const struct sandbox_spec *spec, const struct run_events *events,
                   struct sandbox **ret, struct err *err);
void sandbox_destroy(struct sandbox *sb); /* kills the whole pid namespace and waits for it; NULL is fine */
bool sandbox_alive(const struct sandbox *sb);
int sandbox_pidfd(const struct sandbox *sb);
pid_t sandbox_pid(const struct sandbox *sb); /* of its first process, as the host sees it; 0 when it is gone */

/* Begins a run. One at a time: CONFLICT otherwise. */
int sandbox_begin(struct sandbox *sb, const struct run_request *req, const struct run_events *events,
                  struct err *err);
/* What to poll for and until when (monotonic ms, -1: never). Returns the number of pollfds (at most 4). */
#define SANDBOX_POLL_MAX 4
size_t sandbox_poll_fds(struct sandbox *sb, struct pollfd fds[SANDBOX_POLL_MAX], int64_t *ret_deadline_ms);
/* Does what can be done now. 1: the run ended and *ret is set; 0: go on polling; negative: error. */
int sandbox_advance(struct sandbox *sb, struct run_result *ret, struct err *err);
/* Stops the run under way: SIGINT first, then the kill; its result has VERDICT_KILLED. Harmless when idle. */
void sandbox_interrupt(struct sandbox *sb);
/* Blocks until the run ends. */
int sandbox_wait(struct sandbox *sb, struct run_result *ret, struct err *err);

/*
 * Files of a live sandbox's /workspace, between runs: CONFLICT while one is under way. A path is relative to /workspace or below it,
 * without '..'. VALIDATION for another, and for a link, a directory or anything else that is no regular file; NOT_FOUND. Whatever
 * the code in the sandbox has made of its files, nothing outside its /workspace is ever read or written. All of these block.
 */

struct file_piece {
    const char *data; /* of a read, len bytes */
    size_t len;
    int64_t size; /* of the file, now */
    bool end;     /* nothing follows this piece */
};

/* At most max_bytes, and at most FILE_PIECE_MAX. The piece points into `data`, which must be able to hold it. */
int sandbox_read_file(struct sandbox *sb, const char *path, int64_t offset, int64_t max_bytes, struct buf *data,
                      struct file_piece *ret, struct err *err);
/*
 * Writes a whole file or, with append, the next piece of one; directories are made as needed. TOO_LARGE for a piece beyond
 * FILE_PIECE_MAX and for one that the sandbox's limits have no room for, of which then nothing is left.
 */
int sandbox_write_file(struct sandbox *sb, const char *path, const void *data, size_t len, bool append, struct err *err);
/* The result's body has "files" and "files_truncated" as after a run. */
int sandbox_list_files(struct sandbox *sb, struct run_result *ret, struct err *err);

#endif
