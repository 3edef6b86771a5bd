#ifndef RIDDLE_DATA_TOLD_H
#define RIDDLE_DATA_TOLD_H

/*
 * Words that owners wrote about data sets (PATCH /datasets/{id}): kept in the store, and all of
 * them in memory, because threads need them without waiting.
 */

#include "data/data.h"

int told_open(struct data_room *room, struct err *err); /* reads them; blocks */
void told_close(struct data_room *room);

/* An owner's own words about a data set; NULL: none. Borrowed. */
const json_t *told_find(struct data_room *room, const char *owner, const char *dataset_id);
/* The data set is gone; the store has forgotten already. room may be NULL. */
void told_forget(struct data_room *room, const char *owner, const char *dataset_id);

/* dataset_summary() and dataset_schema_json() as this owner sees them. New references. */
json_t *told_summary(struct data_room *room, const char *owner, const struct dataset *d);
json_t *told_schema(struct data_room *room, const char *owner, const struct dataset *d);

/*
 * Puts a patch (words.h) over an owner's words and stores them. words are borrowed; NULL with err.
 */
typedef void (*told_changed_fn)(const json_t *words, const struct err *err, void *arg);
int told_change(struct data_room *room, const char *owner, const char *id, json_t *patch,
                told_changed_fn done, void *arg, struct err *err);

#endif
