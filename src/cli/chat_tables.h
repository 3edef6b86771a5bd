#ifndef RIDDLE_CLI_CHAT_TABLES_H
#define RIDDLE_CLI_CHAT_TABLES_H

/*
 * The files that a chat is about: named, hashed, ingested and looked at before the first line is
 * asked for.
 */

#include "agent/agent.h"
#include "data/catalog_read.h"
#include "cli/progress.h"
#include "run/runner.h"

#define CHAT_OWNER "local"

struct chat_tables {
    struct arena arena;
    struct sandbox_file files[SANDBOX_FILES_MAX];
    size_t n_files;
    struct data_view data;   /* the same for the agent */
    struct catalog *catalog; /* finished once they are loaded */

    struct progress *progress;
    int64_t hashed_bytes;            /* of the file that is being hashed */
    struct records *records;
    struct catalog_reading *reading; /* while they are loaded */
    void (*done)(void *arg, const struct err *err);
    void *arg;
};

void chat_tables_init(struct chat_tables *t, struct progress *progress);
/* while the executor is there, if they are being loaded */
void chat_tables_finish(struct chat_tables *t);

/*
 * Words of the command line, "[TABLE=]PATH". Reads the files to hash them. VALIDATION, NOT_FOUND.
 */
int chat_tables_name(struct chat_tables *t, char **words, size_t n, struct err *err);
/* Ingests what is new and reads the catalog; done comes once, not from within. */
int chat_tables_load(struct chat_tables *t, struct executor *ex,
                     void (*done)(void *arg, const struct err *err), void *arg, struct err *err);
void chat_tables_stop(struct chat_tables *t); /* no done any more; before the executor goes */
#endif
