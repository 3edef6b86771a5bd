#ifndef RIDDLE_SANDBOX_PARSING_H
#define RIDDLE_SANDBOX_PARSING_H

/*
 * Long messages of kernels are parsed by threads of lower priority (loop_background()), in the
 * order in which they came. A kernel has one of them under way at most, since nothing else is read
 * from it meanwhile.
 */

#include <uv.h>
#include "sandbox/inbox.h"

struct parsing;

/* In the loop's thread. Owns the message; passes it on for inbox_parsed(). */
typedef void (*parsed_fn)(void *arg, struct inbox_large *large);

/* Never calls back from within. NULL when out of memory; then the message is still the caller's. */
struct parsing *parsing_begin(uv_loop_t *loop, struct inbox_large *large, parsed_fn done,
                              void *arg);
/* Nobody waits for it any more: done is not called. NULL is fine. */
void parsing_forget(struct parsing *p);

#endif
