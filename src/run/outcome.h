#ifndef RIDDLE_RUN_OUTCOME_H
#define RIDDLE_RUN_OUTCOME_H

/* A run that ended, in the words of the API: the same for a run of its own and for one that a chat made. */

#include <stdint.h>
#include "sandbox/sandbox.h"

/* What the words depend on besides the result. */
struct outcome_of {
    enum run_kind kind;
    int64_t timeout_ms, memory_bytes;
    bool cancelled; /* somebody asked for the end */
};

const char *outcome_status(const struct outcome_of *of, enum verdict v); /* succeeded, rejected, timed_out, cancelled, failed */
/* {type, message} for a verdict: the kernel's own error, or what the limit means; null when it is ok. New reference. */
json_t *outcome_error(const struct outcome_of *of, const struct run_result *res);
/*
 * {columns, types, rows, row_count, truncated, exec_time_ms, error, verdict}, for Python with stdout, stderr, outputs (figures), value
 * and files besides. New reference; NULL when out of memory.
 */
json_t *outcome_result(const struct outcome_of *of, const struct run_result *res);

#endif
