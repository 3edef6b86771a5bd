#ifndef RIDDLE_RUN_RUNNER_H
#define RIDDLE_RUN_RUNNER_H

/*
 * The runner: one RunnerRequest (JSON) in, one RunnerResponse (JSON) out. `riddle run` and
 * `riddle-kernel --once` are both this module; they differ only in which paths a request may name.
 * README.md, "On the command line", shows one.
 *
 * A request that cannot be accepted is an err (INVALID_JSON, INVALID_INPUT, VALIDATION); everything
 * that happens once the code runs is a run_result. runner_response() and runner_failure() turn
 * either into the same shape of answer.
 */

#include <stdbool.h>
#include <stddef.h>
#include "base/arena.h"
#include "base/config.h"
#include "base/err.h"
#include "base/json.h"
#include "base/limits.h"
#include "run/run.h"
#include "sandbox/sandbox.h"

enum runner_flags {
    /* paths must be under the setting data_root, links followed */
    RUNNER_IN_DATA_ROOT = 0,
    RUNNER_HOST_PATHS = 1 << 0,     /* any absolute path of the host */
    RUNNER_FILES_OPTIONAL = 1 << 1, /* a request without files is fine */
};

/* A checked request. Strings live in its arena; `run.code` is terminated and code_len long. */
struct runner_request {
    struct arena arena;
    struct buf ignored; /* names of the fields that were skipped */
    const char *dataset_id;
    struct sandbox_file *files; /* paths resolved: absolute, no link left in them */
    size_t n_files;
    struct sandbox_limits limits;
    struct run_request run;
};

/* On failure *ret needs no finish. */
int runner_request_parse(const struct config *cfg, unsigned flags, const char *text, size_t len,
                         struct runner_request *ret, struct err *err);
/* The same from a parsed value, which is only read. */
int runner_request_from_json(const struct config *cfg, unsigned flags, const json_t *value,
                             struct runner_request *ret, struct err *err);
void runner_request_finish(struct runner_request *req);

/* The run that the request asks for, of the person at this machine; points into the request. */
struct run_spec runner_spec(const struct runner_request *req);

/*
 * RunnerResponse of a run that ended, or of a request that could not run. NULL only when out of
 * memory.
 */
json_t *runner_response(const struct runner_request *req, const struct run_result *result);
json_t *runner_failure(const struct err *err);

/* True if the response's status is "success". */
bool runner_succeeded(const json_t *response);

/*
 * Reads one request from in_fd, runs it, writes the response and a newline to out_fd. Returns the
 * exit status: 0 only on success. Nothing else is written to out_fd, whatever fails.
 */
int runner_run_once(const struct config *cfg, unsigned flags, int in_fd, int out_fd);

#endif
