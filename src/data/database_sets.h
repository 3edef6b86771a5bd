#ifndef RIDDLE_DATA_DATABASE_SETS_H
#define RIDDLE_DATA_DATABASE_SETS_H

/*
 * Databases as data sets: the tables, columns, foreign keys and comments of each, read when the
 * server starts and again every ten minutes when somebody looks, and a profile of the rows.
 */

#include "data/data.h"
#include "plan/plan_schema.h"

/* A database as it was when it was looked at. Reference-counted. */
struct database_set;

/* Looks at all of them; waits for the answers, by running the loop, for at most three seconds. */
int database_sets_open(struct data_room *room, struct err *err);
/* Before the executor and the databases go. */
void database_sets_close(struct data_room *room);

/* A reference. NOT_FOUND; UNAVAILABLE says why nothing is known about it, and looks again. */
int database_set_find(struct data_room *room, const char *id, struct database_set **ret,
                      struct err *err);
struct database_set *database_set_ref(struct database_set *set); /* NULL is fine */
void database_set_unref(struct database_set *set);               /* NULL is fine */

/* Its tables are files without contents. */
const struct dataset *database_set_dataset(const struct database_set *set);
enum plan_dialect database_set_dialect(const struct database_set *set);
/* Another number with each look: what was learnt about its values is kept by it. */
unsigned database_set_serial(const struct database_set *set);

/* Adds dataset summaries, or entries of GET /data, of those that are known. */
void database_sets_append(struct data_room *room, json_t *list,
                          json_t *(*item)(struct data_room *room, const char *owner,
                                          const struct dataset *d),
                          const char *owner);

/* What a record of it is about; what it points to is the set's. */
void database_set_subject(const struct database_set *set, struct record_subject *ret);
int database_set_attach(struct database_set *set, json_t *profile, struct err *err);

#endif
