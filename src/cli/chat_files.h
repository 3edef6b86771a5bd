#ifndef RIDDLE_CLI_CHAT_FILES_H
#define RIDDLE_CLI_CHAT_FILES_H

/*
 * Files that a chat writes when it is asked to: one that code left in its sandbox, or the chart of
 * an answer. Nothing is replaced.
 */

#include "agent/agent.h"
#include "base/config.h"
#include "base/err.h"
#include "base/json.h"
#include "sandbox/pool/executor.h"

struct chat_file; /* one on its way */

struct chat_file_listener {
    /* err is NULL when the file is there; path is its name. */
    void (*done)(void *arg, const char *path, const struct err *err);
    void *arg;
};

/*
 * Copies a file of the chat's /workspace. to: a file that is not there, a directory, or NULL for
 * the working directory. CONFLICT when there is such a file; it is whole or not there. done never
 * comes from within, but from chat_file_stop().
 */
int chat_file_save(struct chat *chat, const char *from, const char *to, int64_t max_bytes,
                   const struct chat_file_listener *listener, struct chat_file **ret,
                   struct err *err);
/*
 * Draws the result by its chart (Vega-Lite, as the answer of a turn has it), in a sandbox of its
 * own.
 */
int chat_file_draw(struct executor *ex, const struct config *cfg, const json_t *result,
                   const json_t *chart, const char *to, const struct chat_file_listener *listener,
                   struct chat_file **ret, struct err *err);
/* Ends it: done comes with CANCELLED, and nothing is left. */
void chat_file_stop(struct chat_file *f);

#endif
