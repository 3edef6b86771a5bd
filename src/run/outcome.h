#ifndef RIDDLE_RUN_OUTCOME_H
#define RIDDLE_RUN_OUTCOME_H

/*
 * A run that ended, in words. One table says what each verdict means: RunnerResponse (runner.h),
 * the API's runs and the turns of a thread all take their status, error type and message from it.
 */

#include <stdbool.h>
#include "sandbox/sandbox.h"

/* What ran: the words name the limits that it had. */
struct outcome_of {
    const struct run_request *request;
    const struct sandbox_limits *limits;
    bool cancelled; /* a client asked for the end */
};

const char *outcome_status(const struct outcome_of *of,
                           enum verdict v); /* succeeded, rejected, timed_out, cancelled, failed */
/*
 * {type, message}, and line, column and traceback where the kernel knows them; null when the
 * verdict is ok. The message names the limit that was hit and what to do about it; of an error in
 * the code it is the kernel's own. New reference.
 */
json_t *outcome_error(const struct outcome_of *of, const struct run_result *res);
/* By the kernel's clock; from the request to its answer when the kernel did not live to tell. */
json_int_t outcome_exec_time_ms(const struct run_result *res);
/*
 * {columns, types, rows, row_count, truncated, exec_time_ms, error, verdict}, for Python with
 * stdout, stderr, outputs (figures), value and files besides. New reference; NULL when out of
 * memory.
 */
json_t *outcome_result(const struct outcome_of *of, const struct run_result *res);

#endif
