#ifndef RIDDLE_DATA_VIEW_H
#define RIDDLE_DATA_VIEW_H

/* Data sets combined: what the code of one thread sees as its files and tables. */

#include <stdbool.h>
#include <stddef.h>
#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "plan/plan_schema.h"
#include "sandbox/sandbox.h"

struct data_room;

struct data_view {
    struct arena arena;       /* of the strings and the files */
    const char *dataset_id;   /* of capsules; qualifies table names */
    const char *version_hash; /* of capsules */
    const char *key;          /* same key, same contents */
    const char
        *catalog_key; /* the same with the words: what is learnt about the tables is shared by it */
    /*
     * The database that runs its SQL, with its tables; NULL: a kernel does. Files beside it are
     * Python's.
     */
    const char *database;
    unsigned look; /* at its tables (database_set_serial()) */
    enum plan_dialect dialect;
    const char **tables;
    size_t n_tables;
    struct sandbox_file *files;
    size_t n_files;
    json_t *relationships; /* as a registry has them; may be NULL */
    json_t *prompts;       /* questions to try; may be NULL */
    /* What people wrote: {table: {description, columns: {column: text}}, ".": [text], ".metrics":
     * {name: text}}; may be NULL. */
    json_t *words;
    void (*release)(void *held); /* keeps the files from going away until it is called */
    void *held;
};

void data_view_init(struct data_view *v);
void data_view_finish(struct data_view *v);
bool data_view_has_tables(const struct data_view *v);

/*
 * The files behind ids of data sets and uploads (arrays of strings, either may be NULL) and of the
 * thread itself (NULL: of none). Without any id it is the default set. NOT_FOUND names the id.
 */
int data_view_find(struct data_room *room, const char *owner, const char *thread_id,
                   const json_t *datasets, const json_t *uploads, struct data_view *ret,
                   struct err *err);
/* The same files again; what it points to is still the other's. */
int data_view_share(const struct data_view *of, struct data_view *ret, struct err *err);

#endif
