#ifndef RIDDLE_DATABASE_CLICKHOUSE_TYPES_H
#define RIDDLE_DATABASE_CLICKHOUSE_TYPES_H

/* Types as ClickHouse writes them: Array(Nullable(Decimal(9, 2))), DateTime('Europe/Berlin') */

#include <stdbool.h>
#include <stddef.h>
#include "base/err.h"
#include "base/json.h"

enum click_kind {
    CLICK_INT,
    CLICK_UINT,
    CLICK_FLOAT,
    CLICK_DECIMAL,
    CLICK_BOOL,
    CLICK_DATE,
    CLICK_DATETIME,
    CLICK_STRING,
    CLICK_FIXED,
    CLICK_ENUM,
    CLICK_UUID,
    CLICK_IPV4,
    CLICK_IPV6,
    CLICK_NOTHING,
    CLICK_NULLABLE,
    CLICK_ARRAY,
    CLICK_TUPLE,
    CLICK_MAP,
};

struct click_type {
    enum click_kind kind;
    unsigned bytes, scale;   /* of numbers, dates and FixedString; digits of fractions */
    bool zoned;              /* the type names a zone */
    struct click_type *args; /* of compound types */
    size_t n_args;
    json_t *names; /* of an Enum: "number" → name */
};

/* VALIDATION for a type whose values cannot be read. */
int click_type_read(const char *text, struct click_type **ret, struct err *err);
void click_type_destroy(struct click_type *t); /* NULL is fine */

#endif
