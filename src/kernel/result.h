#ifndef RIDDLE_KERNEL_RESULT_H
#define RIDDLE_KERNEL_RESULT_H

/*
 * The answer to a request while it is written: one JSON object that begins with its verdict.
 * Whoever runs the request calls result_begin() or result_fail() and adds members; kernel.c adds
 * what all answers have and closes it.
 */

#include "base/json_out.h"
#include "sandbox/wire.h"

struct result {
    struct json_out json;
    enum wire_verdict verdict; /* as written last */
};

void result_init(struct result *r, size_t max_bytes);
void result_finish(struct result *r);

/* {"verdict":…: forgets what was written before. Members follow. */
void result_begin(struct result *r, enum wire_verdict verdict);
/*
 * The whole answer of a request that failed: columns and rows are empty. The message is cut at
 * RESULT_MESSAGE_MAX bytes.
 */
#define RESULT_MESSAGE_MAX 4096
/* The error alone, for answers without a table. */
void result_error(struct result *r, const char *type, const char *message);
void result_fail(struct result *r, enum wire_verdict verdict, const char *type,
                 const char *message);
/* "columns":[],"types":[],"rows":[],"row_count":0,"truncated":false */
void result_no_table(struct result *r);
/* Closes the object. TOO_LARGE when it did not fit, NO_MEMORY. */
int result_end(struct result *r, struct err *err);

#endif
