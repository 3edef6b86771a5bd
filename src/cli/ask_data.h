#ifndef RIDDLE_CLI_ASK_DATA_H
#define RIDDLE_CLI_ASK_DATA_H

/*
 * Files to ask about: a sandbox that holds them as tables, and what is known of them, read from it
 * once.
 */

#include "data/catalog.h"
#include "base/arena.h"
#include "run/foreground.h"

struct ask_data {
    struct foreground *fg;
    struct lease *lease;
    struct catalog *catalog;
};

/*
 * Words of a command line, "[TABLE=]PATH", as files of a sandbox: ret has room for n, its strings
 * are the arena's. VALIDATION for none or more than SANDBOX_FILES_MAX, NOT_FOUND.
 */
int ask_data_name_files(struct arena *a, const char *const *words, size_t n,
                        struct sandbox_file *ret, struct err *err);

/* Paths may be "TABLE=PATH"; options as in struct sandbox_file. On failure *ret needs no finish. */
int ask_data_open(struct foreground *fg, const struct config *cfg, const char *const *files,
                  size_t n_files, const char *options, const struct run_events *events,
                  struct ask_data *ret, struct err *err);
void ask_data_finish(struct ask_data *d);

/*
 * Runs SQL; VALIDATION with the kernel's words when it failed. The body is {"columns", "types",
 * "rows", …}; new reference.
 */
int ask_data_run(struct ask_data *d, const char *sql, int64_t max_rows, json_t **ret_body,
                 struct err *err);

#endif
