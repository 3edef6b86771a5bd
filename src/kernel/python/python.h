#ifndef RIDDLE_KERNEL_PYTHON_PYTHON_H
#define RIDDLE_KERNEL_PYTHON_PYTHON_H

/*
 * CPython inside a kernel. The zygote initialises it once (isolated, Debian's interpreter and
 * packages, hash seed 0), preloads packages, warms them and freezes the collector; a forked kernel
 * only starts using it. Everything that is easier said in Python is in runtime/ (embedded in the
 * binary); the C side is the embedding, the `_riddle` module, and the data bridge between DuckDB
 * and pandas.
 */

#include <stdbool.h>
#include <stddef.h>
#include "base/buf.h"
#include "base/err.h"
#include "kernel/result.h"
#include "kernel/sql/sql.h"

/* In the zygote. `preload` is a comma-separated list; one that is missing is CONFIG. */
int python_init(const char *preload, struct sql_engine *engine, struct err *err);
/* In the zygote, last: run the common paths once, collect, gc.freeze(). */
int python_warm(struct err *err);
/* sources.c: the files of all modules. Whether one was changed since they were noted. */
int python_note_sources(struct err *err);
bool python_sources_changed(void);
/* Instead, in a zygote for a single run: only what a kernel relies on. */
int python_settle(struct err *err);

/*
 * In the kernel, after clone3 and before it knows what it is for: seeds the random generators.
 * PyOS_AfterFork_Child is not called: the zygote has one thread and holds no lock, so there is
 * nothing to mend, and it would write to hundreds of shared pages.
 */
int python_prepare(struct err *err);

/*
 * What first cells are made of, with what is loaded: a frame, groups, an aggregate. One line,
 * without a double quote.
 */
const char *python_first_cell(void);

/*
 * In the kernel, once, before the first request. `tables` may be used by name;
 * "policy_allowed"/"policy_blocked" extend the lists. While a cell runs, `display` sends the JSON
 * of one display to riddle; `ask` sends a question, `reply` waits for its answer (CANCELLED when a
 * signal came first) and `withdraw` gives up waiting. NULL: nobody is there.
 */
struct python_setup {
    const struct sql_table *tables;
    size_t n_tables;
    const char *policy_allowed, *policy_blocked;
    bool agent, debugging; /* a sandbox of /sandbox; whether it keeps what debug() says */
    void (*display)(const char *json, size_t len);
    int (*ask)(const char *json, size_t len, struct err *err);
    int (*reply)(json_t **ret, struct err *err);
    void (*withdraw)(void);
    void (*steps)(const char *json, size_t len); /* lines of a debugged cell */
    bool (*take_pause)(void);                    /* whether riddle has asked for a pause of it */
    void (*adopt)(void); /* a fork takes the kernel's place; NULL: it must not */
};
int python_start(const struct python_setup *setup, struct err *err);

struct python_request {
    const char *code;
    size_t code_len;
    bool restricted;
    bool svg;
    long long max_rows;
    long long max_output_bytes; /* of the JSON rows */
    const char *context;        /* a JSON object: variables that are set first; may be NULL */
    const char *debug;          /* a JSON object: the cell is debugged; may be NULL */
};

/*
 * Runs a cell in the persistent namespace and writes its result, which the caller closes, as
 * sql_execute() does, with in addition "value":{"text","html"?}|null and "has_result":bool; of an
 * agent's code also "returned" (any JSON) and "debug" (an object), each or null.
 * Verdicts: ok, error, policy, memory, processes, filesize, interrupted. Error types:
 * PYTHON_EXECUTION_ERROR, PYTHON_POLICY_VIOLATION, VALIDATION_ERROR.
 */
int python_execute(const struct python_request *req, struct result *ret, struct err *err);

/* "variables" {name: short repr} and "globals" [name], into the result that is open. */
void python_state(struct result *ret);

/*
 * Variables as pickles, to a pipe and from a file, where no image can be had. ret_not_kept names
 * those that could not be kept, with the reasons; "": all were. Writes when the other end of go_fd
 * is closed, unless that is negative. CONFLICT.
 */
#define PYTHON_NOT_KEPT_SIZE 6400
int python_save(int fd, int go_fd, char (*tables)[SQL_NAME_SIZE], size_t n_tables,
                char *ret_not_kept, size_t n, struct err *err);
int python_load(int fd, char *ret_not_kept, size_t n, struct err *err);

/*
 * Around an image, also in the kernel that is made from it: gives back what the session holds that
 * no image can have. True: python_resume() must be called.
 */
bool python_suspend(void);
void python_resume(void);

/* First in a child of _Fork(): the interpreter works there, too. */
void python_is_forked(void);

/* Async-signal-safe: KeyboardInterrupt at the next bytecode. */
void python_interrupt(void);

#endif
