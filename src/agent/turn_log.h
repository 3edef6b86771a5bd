#ifndef RIDDLE_AGENT_TURN_LOG_H
#define RIDDLE_AGENT_TURN_LOG_H

/*
 * The events of a turn so far, for a client that follows it later. Bounded: consecutive tokens and
 * consecutive output of one stream are joined, of the status only the newest is kept, and past
 * TURN_LOG_BYTES the oldest output and figures go first.
 */

#include <stddef.h>
#include "base/json.h"

#define TURN_LOG_BYTES (512u << 10) /* a new stream takes all of it at once */

struct turn_log {
    struct turn_log_entry *first, *last;
    json_t *status;
    size_t bytes;
    unsigned skipped; /* events that are no longer there */
};

void turn_log_init(struct turn_log *log);
void turn_log_finish(struct turn_log *log);
/* A reference to data is taken. */
void turn_log_add(struct turn_log *log, const char *type, json_t *data);
/* In order; data is borrowed. */
void turn_log_replay(const struct turn_log *log,
                     void (*event)(void *arg, const char *type, json_t *data), void *arg);

#endif
