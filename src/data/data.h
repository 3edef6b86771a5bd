#ifndef RIDDLE_DATA_DATA_H
#define RIDDLE_DATA_DATA_H

/*
 * The data room: everything that can be asked about. A data set has files, a file has tables, a
 * table has columns, a profile and a report of how it was read. The server's own sets (registry.h),
 * uploads and files of threads (file_sets.h) and databases (database_sets.h) are data sets with
 * different owners and lifetimes; data_find() finds any of them by its id, and
 * data_view_find() (view.h) combines some of them for a thread.
 *
 * Everything runs in the loop's thread; file work is the worker pool's.
 */

#include <stdbool.h>
#include "base/config.h"
#include "base/err.h"
#include "data/records.h"
#include "data/registry.h"
#include "data/view.h"
#include "net/loop.h"
#include "sandbox/pool/executor.h"
#include "store/store.h"

struct database_set;
struct database_sets;
struct databases;
struct file_set;
struct file_sets;
struct told;

/* Who works with the data: told what becomes of it. All members are set. */
struct data_user {
    /* A set can be asked about from now on. own: it is an upload of this owner. */
    void (*ready)(void *arg, const char *owner, const char *id, bool own);
    /* Its file was read again: the tables are others. */
    void (*reread)(void *arg, const char *owner, const char *id);
    void (*gone)(void *arg, const char *owner, const char *id);
    /* Names or words about data of this owner changed. */
    void (*changed)(void *arg, const char *owner);
    /* Files of the thread went. */
    void (*thread_changed)(void *arg, const char *owner, const char *thread_id);
};

struct data_env {
    struct loop *loop;
    const struct config *cfg;
    struct executor *executor;
    struct store *store;
    struct databases *databases;
    const char *home; /* resolved */
};

struct data_room {
    struct data_env env;
    const struct data_user *user; /* NULL: nobody */
    void *user_arg;
    struct registry *registry; /* NULL until there is a directory of data sets */
    int64_t registry_loaded_ms;
    struct loop_timer *reload_timer;
    struct file_sets *files;
    struct told *told;
    struct records *records;             /* what is known of the tables */
    struct profiling *profilings;        /* under way */
    struct database_sets *database_sets; /* NULL: there are no databases */
    bool stopping;
};

/* Reads what is known; generates the bundled sets if DATASETS_DIR does not exist. Blocks. */
int data_room_open(const struct data_env *env, struct data_room **ret, struct err *err);
/* From now on new sets of DATASETS_DIR are looked for, and those that are there are profiled. */
void data_room_watch(struct data_room *room);
/* Ends what is under way; before the executor and the store go. */
void data_room_stop(struct data_room *room);
void data_room_destroy(struct data_room *room); /* NULL is fine */

/* ---- one data set ---- */

/* A data set as runs see it: it stays what it was until it is released, whatever is reloaded or
 * deleted meanwhile. */
struct dataset_handle {
    const struct dataset *dataset;
    struct registry *registry;     /* a reference to where it is from: this … */
    struct file_set *file;         /* … or this: an upload, or a file of a thread … */
    struct database_set *database; /* … or this, whose tables are no files */
};

/* NOT_FOUND "Unknown dataset_id: x". */
int data_find(struct data_room *room, const char *owner, const char *id, struct dataset_handle *ret,
              struct err *err);
void dataset_handle_release(struct dataset_handle *h);
/* False: it is a file without a table. */
bool dataset_handle_has_tables(const struct dataset_handle *h);
/* How many files sandboxes get; the database that runs SQL in their place, or NULL. */
size_t dataset_handle_n_files(const struct dataset_handle *h);
const char *dataset_handle_database(const struct dataset_handle *h);
/* A file of it as sandboxes take it; what it points to is the data set's. */
struct sandbox_file dataset_handle_file(const struct dataset_handle *h, size_t i);

/* Profiles what is not profiled yet, in a jail, then calls done (never from within the call). */
typedef void (*data_done_fn)(const struct err *err, void *arg);
int data_profile(struct data_room *room, const struct dataset_handle *h, const char *owner,
                 data_done_fn done, void *arg, struct err *err);
/* The file goes, or is about to have another table: whoever waits for its profile is told why. */
void data_profile_stop(struct data_room *room, const struct file_set *set, const struct err *why);

/*
 * Reads DATASETS_DIR again if that was not done just now; done comes later. False: it is fresh, or
 * cannot be read now.
 */
bool data_reload(struct data_room *room, void (*done)(void *arg), void *arg);

#endif
