#ifndef RIDDLE_DATABASE_PARAMS_H
#define RIDDLE_DATABASE_PARAMS_H

/*
 * Parameters of a statement. JSON has no decimals, dates or bytes, so a value may also be
 * {"type": …, "value": text} with one of the types below that have a name; bytes are base64.
 */

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

#define DB_PARAM_TYPES(X)                                                                          \
    X(DECIMAL, "decimal")                                                                          \
    X(DATE, "date")                                                                                \
    X(TIME, "time")                                                                                \
    X(TIMESTAMP, "timestamp")                                                                      \
    X(TIMESTAMPTZ, "timestamptz")                                                                  \
    X(INTERVAL, "interval")                                                                        \
    X(UUID, "uuid")                                                                                \
    X(BYTES, "bytes")                                                                              \
    X(INTEGER, "integer")                                                                          \
    X(REAL, "real")                                                                                \
    X(JSON, "json")

enum db_param_type {
#define X(code, name) DB_PARAM_##code,
    DB_PARAM_TYPES(X)
#undef X
        DB_PARAM_NULL,
    DB_PARAM_BOOL,
    DB_PARAM_TEXT,
    DB_PARAM_ARRAY, /* of JSON values: items */
};

struct db_param {
    enum db_param_type type;
    struct buf text;     /* in words; of BYTES the bytes themselves */
    const json_t *items; /* borrowed */
};

#define DB_PARAM_MAX_BYTES (1u << 20)

/* VALIDATION names the parameter. The caller finishes it, also after a failure. */
int db_param_read(const char *name, const json_t *value, struct db_param *ret, struct err *err);
void db_param_finish(struct db_param *p);

/* An array as PostgreSQL writes it: {1,NULL,"a \"b\""}. */
int db_param_postgres_array(const char *name, const json_t *items, struct buf *out,
                            struct err *err);

#endif
