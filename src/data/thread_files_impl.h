#ifndef RIDDLE_DATA_THREAD_FILES_IMPL_H
#define RIDDLE_DATA_THREAD_FILES_IMPL_H

/*
 * What the files of sessions share. On disk: RIDDLE_HOME/sessions/<owner>/<session_id>/<file id>/<name>, and beside the files `index.json`,
 * which says what there is and whose time of change is when the session was used last. What is on its way in lies below
 * sessions/.uploading, which is emptied at start. A file without an entry of the index was never acknowledged.
 */

#include <limits.h>
#include <string.h>
#include "base/hash.h"
#include "base/id.h"
#include "data/thread_files.h"
#include "data/uploads_impl.h"

#define SESSION_FILE_DIGITS 12
#define SESSION_NOTE_SIZE 400

#define SESSION_OUTPUTS "outputs/" /* names of what code saved to /data/outputs begin so */
#define SESSION_OUTPUTS_MAX 200
#define SESSION_FILES_ROOM ((size_t)SANDBOX_FILES_MAX + SESSION_OUTPUTS_MAX)

struct session;
struct arrivals;

struct session_file {
    unsigned refs;
    struct sessions *all;   /* a reference */
    struct upload_use *use; /* whose quota it counts for */
    char id[SESSION_FILE_DIGITS + 1];
    char name[UPLOAD_NAME_SIZE];
    char table[DATASET_TABLE_MAX]; /* "": a raw file */
    char note[SESSION_NOTE_SIZE];  /* why it is raw though its name promised a table; "" */
    char sha256[HASH_HEX_SIZE];
    int64_t size, modified_ms;
    int64_t table_bytes; /* what is kept beside it: of the owner's quota, not of the session's */
    char path[PATH_MAX];
    bool removed; /* from disk with the last reference */
    char session[THREAD_ID_MAX + 1], owner[64];
    struct dataset dataset; /* the file as a data set; no id until somebody asks for it */
    struct dataset_file table_file;
    char description[2 * UPLOAD_NAME_SIZE];
};

struct save_waiter;

struct session {
    struct session *next; /* of its bucket */
    struct sessions *all;
    char owner[64], id[THREAD_ID_MAX + 1];
    char dir[PATH_MAX];
    struct session_file **files; /* room for SESSION_FILES_ROOM */
    size_t n_files;
    int64_t bytes, incoming; /* of the files; on their way in */
    unsigned pins;           /* uploads and saves under way */
    int64_t used_ms, touched_ms; /* wall clock: last used, and as much of it as the disk knows */
    bool saving;
    struct save_waiter *waiters; /* for the next save */
};

#define SESSION_BUCKETS 1024

struct sessions {
    unsigned refs;   /* one of the room, one of each session, file and upload under way */
    struct data_room *room; /* NULL once closed */
    struct loop *loop;
    struct uploads *uploads; /* a reference: its counts by owner */
    char root[PATH_MAX];
    int root_fd;
    struct session *buckets[SESSION_BUCKETS];
    struct arrivals *arrivals; /* uploads whose body is whole */
    void (*close_arrivals)(struct sessions *all);
    struct cleared_session {
        char owner[64], id[THREAD_ID_MAX + 1];
        int64_t at_ms;
    } * cleared; /* what their kernels still have from before is not shown */
    size_t n_cleared;
    struct loop_timer *sweep;
};

struct sessions *sessions_ref(struct sessions *all);
void sessions_unref(struct sessions *all);

/* NULL when there is none, or its time is over. Counts as use. */
struct session *session_find(struct sessions *all, const char *owner, const char *id);
/* Finds or makes it, pinned. */
int session_pin(struct sessions *all, const char *owner, const char *id, struct session **ret, struct err *err);
void session_unpin(struct session *s);
const struct session_file *session_file_named(const struct session *s, const char *name);

/* One reference. Counts for the owner's quota from now on. NULL: out of memory. */
struct session_file *session_file_create(struct session *s, const char *id, const char *name, int64_t size);
/* Takes the reference; a file of the same name goes. The table's name is made unlike the others. */
void session_add(struct session *s, struct session_file *f);
/* Takes it out again, and from disk once nobody uses it. */
void session_drop(struct session *s, struct session_file *f);
void session_clear(struct session *s); /* all of them; it may be gone afterwards unless pinned */

/* Writes the index; done (may be NULL) comes later. */
typedef void (*session_saved_fn)(const struct err *err, void *arg);
int session_save(struct session *s, session_saved_fn done, void *arg, struct err *err);
/* The thread, if it is in memory, looks at its files anew. */
void session_changed(struct sessions *all, const char *owner, const char *id);

/* ---- files_outputs.c ---- */

static inline bool file_is_output(const char *path)
{
    return strncmp(path, SESSION_OUTPUTS, strlen(SESSION_OUTPUTS)) == 0;
}
void session_note_cleared(struct sessions *all, const char *owner, const char *id);
/* A file of the kernel that was there when the session was cleared. */
bool session_hides(struct sessions *all, const char *owner, const char *id, const char *path,
                   int64_t modified_ms);
bool session_was_cleared(struct sessions *all, const char *owner, const char *id);

#endif
