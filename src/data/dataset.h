#ifndef RIDDLE_DATA_DATASET_H
#define RIDDLE_DATA_DATASET_H

/*
 * A dataset: a few data files that are asked about together, and what is known about them. The
 * schema of a file is what its registry entry says; a profile, made from the ingested table inside
 * a jail, adds what the data says. Riddle itself never reads the files' contents, except to hash
 * them.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/err.h"
#include "base/json.h"
#include "base/part_name.h"
#include "data/version.h"

#define DATASET_ID_MAX 64
#define DATASET_TABLE_MAX 64

struct dataset_file {
    const char *name;  /* "orders.csv" */
    const char *table; /* "orders": an identifier, unlike the others of the set whatever the case */
    const char *path;  /* below the registry's directory: "ecommerce/orders.csv" */
    const char *full_path;   /* resolved, absolute */
    const char *description; /* "" when there is none */
    const char *options;     /* how to read it, as a JSON object; NULL: as it looks */
    int64_t row_count;       /* -1 until a registry or a profile says */
    int64_t size_bytes;
    int64_t mtime_ns, ctime_ns;
    dev_t device;
    ino_t inode;
    char sha256[HASH_HEX_SIZE]; /* of the contents: what ingested tables and profiles go by */
    /* {column: {type, description, unit?, values?, nullable?}}; NULL when not declared */
    json_t *schema;
    json_t *profile; /* of its record (records.h); NULL until attached */
};

struct dataset_relationship {
    const char *from, *to; /* "order_items.order_id", "orders.order_id" */
    const char *type;      /* "many-to-one", … */
};

struct dataset {
    const char *id; /* ^[A-Za-z0-9][A-Za-z0-9_-]*$ */
    const char *name;
    const char *description;
    const char *domain; /* "" when there is none, like the description */
    bool is_declared;   /* by the registry; otherwise a folder that was found */
    char version_hash[HASH_VERSION_SIZE];
    int64_t size_bytes;
    struct dataset_file *files;
    size_t n_files;
    struct dataset_relationship *relationships;
    size_t n_relationships;
    json_t *prompts; /* strings; never NULL */
    json_t *tags;
    json_t *notes;   /* texts for whoever answers; may be NULL */
    json_t *metrics; /* {name: what it means}; may be NULL */
};

/*
 * A table of a data set. Files with several have those behind the first in their profile
 * (`tables`), so that they are known once it is attached.
 */
struct dataset_table {
    struct dataset_file file; /* as if it were a file of its own */
    size_t at, part;          /* the file's place in the set, and the table's in the file */
    char name[PART_TABLE_SIZE];
    bool begun;
};
/* False behind the last. *t is zeroed before the first call, and has nothing to be released. */
bool dataset_next_table(const struct dataset *d, struct dataset_table *t);
bool dataset_find_table(const struct dataset *d, const char *table, struct dataset_table *ret);
int64_t dataset_row_count(const struct dataset *d); /* -1 if a table's is unknown */

/*
 * GET /datasets: {id, name, description, prompts, version_hash}. New reference; NULL when out of
 * memory.
 */
json_t *dataset_summary(const struct dataset *d);

/*
 * GET /datasets/{id}/schema: {id, name, description, version_hash, relationships, files: [{name,
 * path, table, description, row_count, size_bytes, profiled, schema, sample_rows}]}. With a profile
 * the columns are those that the file has, in its order, and each has `sql_type`, `nulls`,
 * `distinct`, `min`, `max`, `top` and `mean` beside what was declared. New reference; NULL when out
 * of memory.
 */
json_t *dataset_schema_json(const struct dataset *d);

/* [{name, file, rows, columns?}], as GET /data shows them. */
json_t *dataset_tables_json(const struct dataset *d);

/*
 * What an ingest says about the tables of one file, in the form of a profile: columns have name and
 * type, and nothing about their values. It stands until the table is profiled. NULL when out of
 * memory.
 */
struct lease_table;
json_t *dataset_shape(const struct lease_table *tables, size_t n);
bool dataset_profile_is_partial(const json_t *profile);

/*
 * "integer", "float", "string", "date", "datetime", "time", "boolean" or "other" for a type of
 * DuckDB.
 */
const char *dataset_type_of(const char *sql_type);

bool dataset_is_id(const char *s);

/*
 * An identifier made from any text: what is no ASCII letter or digit becomes '_', an empty one
 * `fallback`. With `is_table` it does not begin with a digit either. ret holds `size` bytes.
 */
void dataset_safe_name(const char *s, const char *fallback, bool is_table, char *ret, size_t size);

#endif
