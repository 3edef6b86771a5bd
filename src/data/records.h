#ifndef RIDDLE_DATA_RECORDS_H
#define RIDDLE_DATA_RECORDS_H

/*
 * The records of tables: what one scan (scan.h) finds out about the tables of a file or a database,
 * for everybody who wants to know. A record is made once per content: whoever needs it meanwhile
 * waits for the scan that is under way. That of a file is kept beside its table
 * (table_profile_path()): a line with the profile and a line with the values. That of a database is
 * kept in memory until the database is looked at again.
 *
 * Everything is called from the loop's thread.
 */

#include "base/config.h"
#include "base/json.h"
#include "plan/plan_schema.h"
#include "sandbox/pool/executor.h"

struct records;
struct record_wait;

/*
 * profile: that of the first table (scan.h), with its "report", and "tables": [{"name", …}] of the
 * others, by what stands behind the first one's name. Of a database all are there, by their names.
 * values: [those of the first, those of the others…]. Never changed.
 */
struct record {
    json_t *profile, *values;
};

struct record_subject {
    const struct sandbox_file *file; /* this, or … */
    const char *database;            /* … the tables of this, as they were looked at */
    unsigned look;
    enum plan_dialect dialect;
    const char *const *tables;
    size_t n_tables;
};

int records_create(struct executor *ex, const struct config *cfg, const char *home,
                   struct records **ret, struct err *err);
/* Before the executor goes. Who waits is not told any more. NULL is fine. */
void records_destroy(struct records *rs);

/* The record is borrowed, and NULL when err is not. */
typedef void (*record_fn)(const struct record *record, const struct err *err, void *arg);
typedef void (*record_progress_fn)(void *arg, const char *stage, double fraction);

/* The subject is copied. done comes once, never from within the call. progress may be NULL. */
int records_need(struct records *rs, const char *owner, const struct record_subject *subject,
                 record_progress_fn progress, record_fn done, void *arg, struct record_wait **ret,
                 struct err *err);
/* No done any more. A scan that nobody waits for ends. NULL is fine. */
void record_wait_stop(struct record_wait *w);

/* The profile of a file that was kept, or NULL; reads a file. New reference. */
json_t *records_kept_profile(const struct records *rs, const struct sandbox_file *file);

#endif
