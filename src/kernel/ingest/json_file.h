#ifndef RIDDLE_KERNEL_INGEST_JSON_FILE_H
#define RIDDLE_KERNEL_INGEST_JSON_FILE_H

/* Where in a JSON file the records are. DuckDB parses them; this only looks for brackets. */

#include <stdbool.h>
#include <stddef.h>
#include "base/err.h"

enum records_layout {
    RECORDS_ARRAY, /* [{…},{…}] */
    RECORDS_LINES, /* {…} on each line */
    RECORDS_OBJECTS, /* {…} {…} with line breaks inside them, or a single one that is the record */
    RECORDS_INSIDE, /* {"…":[{…},{…}]}: arrays somewhere inside one object */
    _RECORDS_LAYOUT_MAX
};

#define JSON_PATH_SIZE 128
#define JSON_MAX_LISTS 100

/* An array of objects that is in no other array. */
struct json_list {
    size_t begin, end; /* its bytes */
    size_t depth;
    char path[JSON_PATH_SIZE]; /* the keys that lead to it, with dots between them */
};

struct json_records {
    enum records_layout layout;
    /* RECORDS_INSIDE: those nearest to the top first, otherwise as they stand in the file. */
    struct json_list lists[JSON_MAX_LISTS];
    size_t n_lists;
    size_t n_found; /* may be more than `lists` has */
};

/*
 * VALIDATION for what takes DuckDB minutes, or more stack than there is: an object with more keys
 * than a table may have columns, or values nested too deep. Looks at the first JSON_SHAPE_BYTES.
 */
#define JSON_SHAPE_BYTES (32u << 20)
#define JSON_SHAPE_DEPTH 200
int json_check_shape(const char *data, size_t len, const char *name, struct err *err);

/*
 * Is it a list of lists, or an object that begins with lists and values and has no list of objects?
 * A quick look, for scratch_from_json() to find out.
 */
bool json_may_be_rows(const char *data, size_t len);

/*
 * VALIDATION if there is no object at all. What is malformed is left to who reads it. `name` is for
 * messages.
 */
int json_find_records(const char *data, size_t len, const char *name, struct json_records *ret,
                      struct err *err);

#endif
