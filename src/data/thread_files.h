#ifndef RIDDLE_DATA_THREAD_FILES_H
#define RIDDLE_DATA_THREAD_FILES_H

/*
 * Files of sessions. A session is a thread: its id is the thread's id, and it may have files before
 * anybody chats with it. Code sees them at /data; those that can be read as tables are tables, too.
 */

#include "data/data.h"

/* Reference-counted: who began with a file goes on with it, even if it is removed meanwhile. */
struct session_file;
struct session_file *session_file_ref(struct session_file *f);
void session_file_unref(struct session_file *f); /* NULL is fine */

/* A file of any thread of this owner, by its id: a reference, or NULL. */
struct session_file *session_file_find(struct data_room *room, const char *owner, const char *id);
const struct dataset *session_file_dataset(struct session_file *f);
bool session_file_has_table(const struct session_file *f);
int session_file_set_profile(struct session_file *f, json_t *profile, struct err *err);
/* {id, name, kind, …} of each of them, as GET /data shows it. */
void session_files_append(struct data_room *room, const char *owner, json_t *list);
/* Takes it out of its thread, and from disk once nobody uses it. */
int session_file_remove(struct data_room *room, struct session_file *f,
                        void (*done)(const struct err *err, void *arg), void *arg, struct err *err);

/* At start: what is on disk; removes what is past its time or was interrupted. */
int sessions_open(struct data_room *room, struct err *err);
void sessions_close(struct data_room *room);

/*
 * The i-th file of a thread (NULL: of none), borrowed, as a sandbox sees it; NULL behind the last.
 */
const struct session_file *session_file_at(struct data_room *room, const char *owner,
                                           const char *thread_id, size_t i,
                                           struct sandbox_file *ret);

/* The thread is in use: its files are kept on. */
void session_touch(struct data_room *room, const char *owner, const char *thread_id);
/*
 * Gives another thread links to the files of this one, of the owner's quota as uploads are. done
 * comes when they are on disk. TOO_LARGE past a quota.
 */
int session_fork(struct data_room *room, const char *owner, const char *from_id, const char *to_id,
                 void (*done)(const struct err *err, void *arg), void *arg, struct err *err);
/* The thread is deleted. True if it had files. */
bool session_forget(struct data_room *room, const char *owner, const char *thread_id);

#endif
