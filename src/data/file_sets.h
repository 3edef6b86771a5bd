#ifndef RIDDLE_DATA_FILE_SETS_H
#define RIDDLE_DATA_FILE_SETS_H

/*
 * Files that people bring, and files that code leaves in /data/outputs: each is a data set of its
 * owner, whose id is the file's. An upload lives until its owner deletes it or its time is over; a
 * file of a thread lives as long as the thread is used (threads.h).
 *
 * Life of one: received (receive.c: streamed to disk and hashed) → recorded as `processing` →
 * named, ingested and profiled in a jail (file_ingest.c), unless it is no table: then code sees the
 * file as it is → `ready`, or `failed` and its file removed → deleted (file_index.c).
 *
 * The index is the store's: one record for each file. On disk an upload is
 * RIDDLE_HOME/uploads/<owner>/<id>/<name>, a file of a thread
 * RIDDLE_HOME/sessions/<owner>/<thread>/<id>/<name>. Until its record is stored it lies elsewhere
 * (file_set_part()), so that what a killed server leaves behind is known for what it is. Beside the
 * file are its table and profile (sandbox/table_names.h), and for the moment of its deletion
 * `.deleted`.
 */

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/clock.h"
#include "base/id.h"
#include "data/data.h"

#define FILE_ID_DIGITS 12
#define FILE_NAME_SIZE 256
#define UPLOADS_PER_OWNER 10000
#define FILE_PART ".part"
#define FILE_DELETED ".deleted"                 /* in its directory: it is being deleted */
#define FILE_FAILED_TTL_MS (24 * 3600 * 1000LL) /* how long the reason of a failure can be asked */
#define OUTPUTS_DIR "outputs/" /* names of what code saved to /data/outputs begin so */

enum file_status { FILE_PROCESSING, FILE_READY, FILE_FAILED, _FILE_STATUS_MAX };

/* What one owner has, for the quota: bytes on their way in are counted, too. */
struct file_use {
    struct file_use *next;
    char owner[128];
    int64_t bytes, n;
};

/* Somebody who wants to know how a file gets on. The memory is the caller's. */
struct file_watcher {
    void (*changed)(struct file_set *set, void *arg); /* may unwatch itself, no other */
    void *arg;
    struct file_watcher *next, **prev;
};

struct data_thread;
struct ingest_job;
struct receiver;
struct reread;

/* Reference-counted: a run goes on with what it began, even if it is deleted meanwhile. */
struct file_set {
    unsigned refs;
    struct file_sets *all;
    struct file_set *next, **prev; /* newest first */
    struct file_set *hash_next;
    struct arena arena; /* of the strings */
    struct file_use *use;
    int64_t counted_bytes; /* what of `use` is this one's */
    const char *owner, *filename, *dir;
    const char *thread_id;      /* NULL: an upload */
    struct data_thread *thread; /* that it is in; NULL: an upload, not ready, or deleted */
    struct dataset dataset;     /* id is the file's */
    struct dataset_file file;
    enum file_status status;
    double progress;
    json_t *columns;  /* names; NULL until they are known */
    struct err error; /* of a failed one; the code says whose fault it was */
    const char *note; /* why it is raw though its name promised a table; NULL */
    char created_at[CLOCK_ISO_SIZE], expires_at[CLOCK_ISO_SIZE]; /* expires_at "": never */
    bool raw; /* it is no table; its row_count is -1 */
    bool listed, deleting, remove_files;
    bool profile_begun;         /* by this server, without being asked */
    struct reread *reread;      /* this one stands for another while that is read again */
    struct reread *reread_by;   /* it is being read again */
    const char *options_before; /* whose table is still there; NULL: of none */
    bool has_before;
    struct ingest_job *job;
    struct file_watcher *watchers;
};

#define FILE_BUCKETS 1024

struct file_sets {
    unsigned refs;          /* one of the room, one of each set, thread and receiver */
    struct data_room *room; /* NULL once closed */
    struct loop *loop;      /* outlives the room */
    char uploads_root[PATH_MAX], threads_root[PATH_MAX];
    int threads_fd; /* of that directory */
    struct file_set *newest;
    struct file_set *buckets[FILE_BUCKETS];
    struct file_use *uses;
    struct ingest_job *jobs;
    struct loop_timer *sweep;
    bool has_put_off;                          /* work that the next start has to do */
    struct data_thread *threads[FILE_BUCKETS]; /* threads.c */
    struct receiver *held;                     /* receive.h */
    struct cleared_thread *cleared;
    size_t n_cleared;
};

/* At start: what the store knows; removes what is past its time. At the end: forgets. */
int file_sets_open(struct data_room *room, struct err *err);
void file_sets_close(struct data_room *room);
struct file_sets *file_sets_ref(struct file_sets *all);
void file_sets_unref(struct file_sets *all);

static inline bool file_is_output(const char *name)
{
    return strncmp(name, OUTPUTS_DIR, strlen(OUTPUTS_DIR)) == 0;
}

/* ---- file_set.c ---- */

/* The name that a file has on disk and in sandboxes: what was sent, but never hidden, no "..". */
void file_safe_name(const char *filename, char ret[FILE_NAME_SIZE]);
/* By its name: whether it is worth while to read it as a table. Text (.txt, .md) is not. */
bool file_is_tabular(const char *name);
/* What to do with a file of a kind that has tables and is not read; NULL for all others. */
const char *file_way_out(const char *name);
/* The table of a file with this name. */
void file_table_name(const char *name, char ret[DATASET_TABLE_MAX]);
const char *file_status_name(enum file_status s);

struct file_facts {
    const char *owner, *id, *filename, *sha256, *created_at;
    const char *expires_at; /* NULL: never */
    const char *options;    /* how to read it; NULL: as it looks */
    const char *thread_id;  /* NULL: an upload */
    const char *table;      /* NULL: after its name */
    int64_t size_bytes;
};
/* One reference; not listed yet. Counts for the owner's quota. NULL: out of memory. */
struct file_set *file_set_create(struct file_sets *all, const struct file_facts *facts);
struct file_set *file_set_ref(struct file_set *set); /* NULL is fine */
void file_set_unref(struct file_set *set);           /* NULL is fine */
bool file_set_describe(struct file_set *set);        /* by its rows and columns */
int file_set_profile(struct file_set *set, json_t *profile, struct err *err);
/* Where it lies until its record is stored. */
void file_set_part(const struct file_set *set, char ret[PATH_MAX + 16]);
void file_part_dir(const struct file_sets *all, const char *owner, const char *id, bool of_thread,
                   char ret[PATH_MAX]);

/* The owner's; NULL: out of memory. */
struct file_use *file_use_of(struct file_sets *all, const char *owner);
/* TOO_LARGE when the owner's files may not take so many bytes more. */
int file_may_grow(const struct file_use *use, const struct config *cfg, int64_t bytes,
                  struct err *err);
void file_set_count(struct file_set *set); /* what its tables take, for the quota */
void file_set_uncount(struct file_set *set);

void file_watch(struct file_set *set, struct file_watcher *w);
void file_unwatch(struct file_watcher *w);
void file_set_notify(struct file_set *set);

/* As GET /uploads shows it. */
json_t *file_set_json(const struct file_set *set);
/* Adds `profiled`, `report`, and `tables` if the file has more than one. */
void file_set_report(const struct file_set *set, json_t *answer);
/* {id, name, kind, …}, as GET /data shows it. */
json_t *file_set_item(const struct file_set *set);

/* ---- file_index.c ---- */

void file_set_list(struct file_set *set); /* from now on it is found */
/* In any status; a reference, or NULL. */
struct file_set *file_set_find(struct file_sets *all, const char *owner, const char *id);
bool file_set_visible(const struct file_set *set, const char *owner);
int file_set_store(struct file_set *set, enum file_status status, const struct err *error,
                   enum store_mode mode, store_done_fn done, void *arg, struct err *err);
/* The outcome of its ingest; tells the watchers. error NULL: it is ready. */
void file_set_settle(struct file_set *set, const struct err *error);
/* done (may be NULL) comes later. The record goes at once, the file with the last reference. */
int file_set_delete(struct file_set *set, data_done_fn done, void *arg, struct err *err);
void file_set_remove_files(struct file_set *set);
/*
 * At start: what cannot be done, because a disk is full, say, must not keep the server from
 * starting. The next start does it. Returns 0.
 */
int file_put_off(struct file_sets *all, const char *id, const char *owner, const struct err *err);

/* ---- file_ingest.c ---- */

int file_ingest(struct file_set *set, struct err *err); /* `processing` until it is settled */
void file_ingest_cancel(struct file_set *set);
void file_ingest_close(struct file_sets *all);
bool file_may_be_table(const struct file_set *set);  /* it is tried */
void file_reword(struct err *err, const char *name); /* why it failed, for whoever sent the file */

/* ---- file_options.c ---- */

struct schema;
extern const struct schema read_options_schema; /* docs/files.md; null takes one back */
extern const struct schema upload_form_schema;  /* of POST /upload */
/* A field of a form: sets what it names. VALIDATION; other fields are passed over. */
int read_options_field(json_t *options, const char *name, const char *value, struct err *err);
/* As the sandbox takes them. *ret is the caller's; NULL without any. */
int read_options_text(const json_t *options, char **ret, struct err *err);
/* What is stored with `change` put over it. */
int read_options_merge(const char *stored, const json_t *change, char **ret, struct err *err);

/* ---- file_change.c ---- */

/* Another name for the file and its table; the ending stays. VALIDATION, CONFLICT. */
int file_set_rename(struct file_set *set, const char *name, data_done_fn done, void *arg,
                    struct err *err);
/*
 * Reads the file again with these options put over those that it has. The new table takes the
 * place of the old one when it is there and stored; else the old one stays, and done has the
 * reason. CONFLICT, VALIDATION.
 */
int file_set_reread(struct file_set *set, const json_t *options, data_done_fn done, void *arg,
                    struct err *err);
void file_reread_settle(struct file_set *fresh, const struct err *err); /* of its ingest */

#endif
