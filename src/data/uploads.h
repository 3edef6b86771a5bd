#ifndef RIDDLE_DATA_UPLOADS_H
#define RIDDLE_DATA_UPLOADS_H

/* Uploads: files that people bring. Each becomes a dataset of its owner, whose id is the upload's file_id. */

#include "data/data.h"

/* An upload that is ready, as a dataset. Reference-counted: a run goes on with what it began, even if it is deleted meanwhile. */
struct upload_set;

struct upload_set *uploads_find(struct data_room *room, const char *owner,
                                const char *file_id); /* a reference, or NULL */
struct upload_set *upload_set_ref(struct upload_set *set);                               /* NULL is fine */
void upload_set_unref(struct upload_set *set);
const struct dataset *upload_set_dataset(const struct upload_set *set);
bool upload_set_is_raw(const struct upload_set *set); /* its file is no table, and Python's only */
int upload_set_profile(struct upload_set *set, json_t *profile, struct err *err);

/* Adds the dataset summaries of the owner's uploads. */
void uploads_append_summaries(struct data_room *room, const char *owner, json_t *list);

/* At start: what the store knows; removes what is past its time. At the end: forgets. */
int uploads_open(struct data_room *room, struct err *err);
void uploads_close(struct data_room *room);

#endif
