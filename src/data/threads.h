#ifndef RIDDLE_DATA_THREADS_H
#define RIDDLE_DATA_THREADS_H

/*
 * Threads that have files. A thread may have files before anybody chats with it. Code sees them at
 * /data; those that can be read as tables are tables, too. They go when the thread was not used for
 * SESSION_TTL_SECONDS.
 */

#include "base/limits.h"
#include "data/file_sets.h"

#define THREAD_OUTPUTS_MAX 200
#define THREAD_FILES_ROOM ((size_t)SANDBOX_FILES_MAX + THREAD_OUTPUTS_MAX)

struct data_thread {
    struct data_thread *next; /* of its bucket */
    struct file_sets *all;
    char owner[64], id[THREAD_ID_MAX + 1];
    struct file_set **files; /* references, in the order that they came */
    size_t n_files;
    int64_t bytes, incoming;     /* of the files; on their way in */
    unsigned pins;               /* requests under way */
    int64_t used_ms, touched_ms; /* wall clock: last used, and as much of it as the store knows */
};

/* NULL when it has no files, or its time is over. Counts as use. */
struct data_thread *data_thread_find(struct data_room *room, const char *owner, const char *id);
/* Finds or makes it, and keeps it until it is unpinned. VALIDATION, TOO_LARGE. */
int data_thread_pin(struct file_sets *all, const char *owner, const char *id,
                    struct data_thread **ret, struct err *err);
void data_thread_unpin(struct data_thread *t);

struct file_set *data_thread_named(const struct data_thread *t, const char *name);
/* The i-th file but outputs of a thread (NULL: of none), borrowed; NULL behind the last. */
struct file_set *data_thread_at(struct data_room *room, const char *owner, const char *id,
                                size_t i);
/* Whether one of the thread's files, but the one of this name, makes a table called so. */
bool data_thread_has_table(struct file_sets *all, const char *owner, const char *id,
                           const char *table, const char *but_name);

/* It is its thread's from now on, if it was not; one of the same name is deleted. */
void data_thread_join(struct file_set *set);
/* The same for one that the store had; newer ones come before older ones. */
void data_thread_load(struct file_set *set, const char *used_at);
/* It is being deleted. */
void data_thread_leave(struct file_set *set);
/* Deletes all of them; done (may be NULL) comes later. The thread may be gone unless pinned. */
int data_thread_clear(struct data_thread *t, data_done_fn done, void *arg, struct err *err);

/* The thread is deleted. True if it had files. */
bool data_thread_forget(struct data_room *room, const char *owner, const char *id);
/*
 * Gives another thread links to the files of this one, of the owner's quota as uploads are. done
 * comes when they are on disk. TOO_LARGE past a quota.
 */
int data_thread_fork(struct data_room *room, const char *owner, const char *from_id,
                     const char *to_id, data_done_fn done, void *arg, struct err *err);

/* It was cleared while its kernel went on: what that still has in /data/outputs is not shown. */
void data_thread_note_cleared(struct file_sets *all, const char *owner, const char *id);
bool data_thread_was_cleared(struct file_sets *all, const char *owner, const char *id);
/* A file of the kernel that was there when the thread was cleared. */
bool data_thread_hides(struct file_sets *all, const char *owner, const char *id, const char *path,
                       int64_t modified_ms);

void data_threads_sweep(struct file_sets *all);
int64_t data_threads_sweep_ms(const struct file_sets *all);
void data_threads_close(struct file_sets *all);

/* threads_adopt.c: files of a home whose threads have an index.json get records instead. */
int data_threads_adopt(struct file_sets *all, struct err *err);

#endif
