#ifndef RIDDLE_DATA_UPLOADS_IMPL_H
#define RIDDLE_DATA_UPLOADS_IMPL_H

/*
 * What the files of uploads share. Life of one: received (intake.c: streamed to `.part`,
 * hashed) → recorded as `processing` → ingested and profiled in a jail (upload_ingest.c),
 * unless it is no table: then code sees the file as it is → `ready`, or `failed` and its
 * file removed → deleted, by its owner or because its time is over (upload_sets.c).
 * Everything but file work, which is the worker pool's, is done in the loop.
 *
 * On disk: RIDDLE_HOME/uploads/<owner>/<file_id>/<name>. The file is called `.part` until its
 * record is stored, so that what a killed server leaves behind is known for what it is: `.part`
 * without a record was interrupted, with one it was whole. Beside it are its table and profile
 * (sandbox/table_names.h), and for the moment of its deletion `.deleted`.
 */

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/clock.h"
#include "data/uploads.h"

#define UPLOAD_ID_DIGITS 12
#define UPLOAD_FILES_MAX 64 /* in one request */
#define UPLOADS_PER_OWNER 10000
#define UPLOAD_NAME_SIZE 256
#define UPLOAD_PART ".part"
#define UPLOAD_DELETED ".deleted" /* in its directory: it is being deleted */
#define UPLOAD_FAILED_TTL_MS                                                                       \
    (24 * 3600 * 1000LL) /* how long the reason of a failure can be asked for */

enum upload_status { UPLOAD_PROCESSING, UPLOAD_READY, UPLOAD_FAILED, _UPLOAD_STATUS_MAX };

/* What one owner has, for the quota: bytes on their way in are counted, too. */
struct upload_use {
    struct upload_use *next;
    char owner[128];
    int64_t bytes, n;
};

/* Somebody who wants to know how an upload gets on. The memory is the caller's. */
struct upload_watcher {
    void (*changed)(struct upload_set *set, void *arg); /* may unwatch itself, no other */
    void *arg;
    struct upload_watcher *next, **prev;
};

struct ingest_job;
struct reread;

struct upload_set {
    unsigned refs;
    struct uploads *uploads;
    struct upload_set *next, **prev; /* newest first */
    struct upload_set *hash_next;
    struct arena arena; /* of the strings */
    struct upload_use *use;
    int64_t counted_bytes; /* what of `use` is this one's */
    const char *owner, *filename, *dir;
    struct dataset dataset; /* id is the file_id */
    struct dataset_file file;
    enum upload_status status;
    double progress;
    json_t *columns;  /* names; NULL until they are known */
    struct err error; /* of a failed one; the code says whose fault it was */
    char created_at[CLOCK_ISO_SIZE], expires_at[CLOCK_ISO_SIZE]; /* expires_at "": never */
    bool raw; /* it is no table; its row_count is -1 */
    bool listed, deleting, remove_files;
    struct reread *reread;      /* this one stands for another while that is read again */
    struct reread *reread_by;   /* it is being read again */
    const char *options_before; /* whose table is still there; NULL: of none */
    bool has_before;
    struct ingest_job *job;
    struct upload_watcher *watchers;
};

#define UPLOAD_BUCKETS 1024

struct uploads {
    unsigned refs;     /* one of the room, one of each set and of each receiver */
    struct data_room *room;   /* NULL once closed */
    struct loop *loop; /* outlives the room */
    char root[PATH_MAX];
    struct upload_set *newest;
    struct upload_set *buckets[UPLOAD_BUCKETS];
    struct upload_use *uses;
    struct ingest_job *jobs;
    struct loop_timer *sweep;
    bool has_put_off; /* work that the next start has to do */
};

struct uploads *uploads_ref(struct uploads *up);
void uploads_unref(struct uploads *up);

/* ---- upload_sets.c ---- */

const char *upload_status_name(enum upload_status s);
struct upload_use *uploads_use(struct uploads *up, const char *owner); /* NULL: out of memory */
void upload_dir(const struct uploads *up, const char *owner, const char *file_id, char *ret,
                size_t n);
/*
 * The name that a file has on disk and in sandboxes: what was sent, but never hidden, never "..".
 */
void upload_file_name(const char *filename, char ret[UPLOAD_NAME_SIZE]);
/* By its name: whether it is worth while to read it as a table. Text (.txt, .md) is not. */
bool upload_is_tabular(const char *name);
void upload_table_name(const char *name, char ret[DATASET_TABLE_MAX]);

struct upload_facts {
    const char *owner, *file_id, *filename, *sha256, *created_at,
        *expires_at;     /* expires_at NULL: never */
    const char *options; /* how to read it; NULL: as it looks */
    int64_t size_bytes;
};
/* One reference; not listed yet. NULL: out of memory. */
struct upload_set *upload_set_create(struct uploads *up, const struct upload_facts *facts);
void upload_set_list(struct upload_set *set); /* from now on it is found */
int upload_set_store(struct upload_set *set, enum upload_status status, const struct err *error,
                     enum store_mode mode, store_done_fn done, void *arg, struct err *err);
/* The outcome of its ingest; tells the watchers. error NULL: it is ready. */
void upload_set_settle(struct upload_set *set, const struct err *error);
void upload_set_notify(struct upload_set *set);
void upload_set_count(struct upload_set *set);    /* what its tables take, for the quota */
bool upload_set_describe(struct upload_set *set); /* by its rows and columns */
void upload_watch(struct upload_set *set, struct upload_watcher *w);
void upload_unwatch(struct upload_watcher *w);

/* In any status; a reference, or NULL. */
struct upload_set *uploads_lookup(struct uploads *up, const char *owner, const char *file_id);
bool upload_set_visible(const struct upload_set *set, const char *owner);

/* done (may be NULL) comes later. The record goes at once, the file with the last reference. */
typedef void (*upload_done_fn)(const struct err *err, void *arg);
int upload_set_delete(struct upload_set *set, upload_done_fn done, void *arg, struct err *err);

json_t *upload_json(const struct upload_set *set);
/* Adds `report`, and `tables` if the file has more than one. */
void upload_set_report(const struct upload_set *set, json_t *answer);
/* {id, name, kind, …}, as GET /data shows it. */
json_t *upload_item(const struct upload_set *set);

/* ---- upload_ingest.c ---- */

int upload_ingest(struct upload_set *set,
                  struct err *err); /* the set is `processing` until it is settled */
bool upload_may_be_table(const char *name); /* it is tried: without an ending, too */
void upload_ingest_cancel(struct upload_set *set);
void upload_ingest_close(struct uploads *up);
void upload_reword(struct err *err, const char *name); /* why an ingest failed, for whoever sent the file */

/* ---- upload_options.c ---- */

extern const struct schema upload_options_schema; /* docs/files.md; null takes one back */
extern const struct schema upload_form_schema;    /* of POST /upload */
/* A field of a form: sets what it names. VALIDATION; other fields are passed over. */
int upload_options_field(json_t *options, const char *name, const char *value, struct err *err);
/* As the sandbox takes them. *ret is the caller's; NULL without any. */
int upload_options_text(const json_t *options, char **ret, struct err *err);
/* What is stored with `change` put over it. */
int upload_options_merge(const char *stored, const json_t *change, char **ret, struct err *err);

/* ---- upload_change.c ---- */

/* Another name for the file and its table; the ending stays. VALIDATION, CONFLICT. */
int upload_set_rename(struct upload_set *set, const char *name, upload_done_fn done, void *arg,
                      struct err *err);

/*
 * Reads the file again with these options put over those that it has. The new table takes the
 * place of the old one when it is there and stored; else the old one stays, and done has the
 * reason. CONFLICT, VALIDATION.
 */
int upload_set_reread(struct upload_set *set, const json_t *options, upload_done_fn done, void *arg,
                      struct err *err);
void upload_reread_settle(struct upload_set *fresh, const struct err *err); /* of its ingest */

/* ---- upload_receive.c ---- */

struct intake_file;
/* TOO_LARGE when the owner's uploads may not take so many bytes more. */
int uploads_may_grow(const struct upload_use *use, const struct config *cfg, int64_t bytes, struct err *err);
/* TOO_LARGE when a file may not be so many bytes longer. */
int upload_check_size(const struct config *cfg, const struct intake_file *f, size_t len, struct err *err);

#endif
