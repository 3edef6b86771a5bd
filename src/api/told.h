#ifndef RIDDLE_API_TOLD_H
#define RIDDLE_API_TOLD_H

/*
 * Words that owners wrote about data sets (PATCH /datasets/{id}): kept in the store, and all of
 * them in memory, because threads need them without waiting.
 */

#include "api/app.h"

int told_open(struct app *app, struct err *err); /* reads them; blocks */
void told_close(struct app *app);

/* An owner's own words about a data set; NULL: none. Borrowed. */
const json_t *told_find(struct app *app, const char *owner, const char *dataset_id);
/* The data set is gone; the store has forgotten already. app may be NULL. */
void told_forget(struct app *app, const char *owner, const char *dataset_id);

/* dataset_summary() and dataset_schema_json() as this owner sees them. New references. */
json_t *told_summary(struct app *app, const char *owner, const struct dataset *d);
json_t *told_schema(struct app *app, const char *owner, const struct dataset *d);

#endif
