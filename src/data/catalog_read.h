#ifndef RIDDLE_DATA_CATALOG_READ_H
#define RIDDLE_DATA_CATALOG_READ_H

/* Makes the catalog of some files or of a database in the event loop, of their records. */

#include "data/catalog.h"
#include "data/records.h"

struct catalog_reading;

/* What the catalog is of; what it points to lives until done. */
struct catalog_source {
    struct records *records;
    const char *owner;
    const char *dataset_id, *database; /* database NULL: the tables are those of the files */
    unsigned look;                     /* at the database */
    enum plan_dialect dialect;
    const struct sandbox_file *files;
    size_t n_files;
    const char *const *tables; /* of the database */
    size_t n_tables;
    const json_t *relationships, *words; /* may be NULL */
};

/* catalog is borrowed, and NULL when err is not. */
typedef void (*catalog_read_fn)(struct catalog *catalog, const struct err *err, void *arg);

/* done comes once, never from within the call. progress may be NULL. */
int catalog_read(struct executor *ex, const struct catalog_source *source,
                 record_progress_fn progress, catalog_read_fn done, void *arg,
                 struct catalog_reading **ret, struct err *err);
void catalog_read_stop(struct catalog_reading *r); /* no done any more; NULL is fine */

#endif
