#ifndef RIDDLE_NET_SCHEMA_H
#define RIDDLE_NET_SCHEMA_H

/*
 * JSON objects described once, as static data: a request body is validated by it (with messages
 * that name the path, what is allowed and what was found) and the API description is printed from
 * it. Unknown fields are dropped from the object and named in the report.
 *
 *   static const struct schema_field limits_fields[] = {
 *       SCHEMA_FIELD("timeout_seconds", INTEGER, "Wall time.", SCHEMA_RANGE(1, 60), .dflt = "10"),
 *       SCHEMA_REQUIRED("mode", STRING, "…", .choices = modes),
 *       { .name = NULL },
 *   };
 *   const struct schema limits_schema = { .name = "Limits", .doc = "…", .fields = limits_fields };
 */

#include <stdbool.h>
#include <stddef.h>
#include "base/json.h"

enum schema_type {
    SCHEMA_STRING = 1 << 0,
    SCHEMA_INTEGER = 1 << 1, /* also satisfies SCHEMA_NUMBER */
    SCHEMA_NUMBER = 1 << 2,
    SCHEMA_BOOLEAN = 1 << 3,
    SCHEMA_OBJECT = 1 << 4,
    SCHEMA_ARRAY = 1 << 5,
    SCHEMA_NULL = 1 << 6,
};
#define SCHEMA_SCALAR (SCHEMA_STRING | SCHEMA_NUMBER | SCHEMA_BOOLEAN)
#define SCHEMA_ANY 0u /* types of a field that may hold anything */

/* SCHEMA_RANGE(1, 60) is the designated initialisers of a closed range. */
#define SCHEMA_RANGE(lo, hi) .has_min = true, .min = (lo), .has_max = true, .max = (hi)
#define SCHEMA_MIN(lo) .has_min = true, .min = (lo)
#define SCHEMA_MAX(hi) .has_max = true, .max = (hi)

/*
 * A row of a table of fields: SCHEMA_OPTIONAL("limit", INTEGER, "At most so many.",
 * SCHEMA_RANGE(1, 100), .dflt = "50"). Of an optional one, null counts as missing.
 */
#define SCHEMA_FIELD(name_, type_, doc_, ...)                                                      \
    {                                                                                              \
        .name = (name_), .types = SCHEMA_##type_, .doc = (doc_), __VA_ARGS__                       \
    }
#define SCHEMA_OPTIONAL(name_, type_, doc_, ...)                                                   \
    SCHEMA_FIELD(name_, type_, doc_, .nullable = true, __VA_ARGS__)
#define SCHEMA_REQUIRED(name_, type_, doc_, ...)                                                   \
    SCHEMA_FIELD(name_, type_, doc_, .required = true, __VA_ARGS__)

struct schema_field {
    const char *name; /* NULL ends the list */
    unsigned types;   /* SCHEMA_… or-ed; SCHEMA_ANY */
    bool required;
    bool nullable;         /* null counts as missing, and the default is put in its place */
    bool has_min, has_max; /* of a number; of a string's characters; of an array's items */
    long long min, max;
    const char *dflt;            /* JSON text put where the field is missing; NULL for none */
    const char *const *choices;  /* strings allowed, NULL-terminated; NULL for any */
    const char *format;          /* documentation only: "date-time", "binary", … */
    const struct schema *object; /* what an object holds; NULL for any */
    const struct schema_field
        *items; /* what each item of an array is (one field; its name is not used); NULL for any */
    const char *example; /* JSON text; NULL for none */
    const char *doc;
};

struct schema {
    const char
        *name; /* of components/schemas; NULL writes it in place (then it must not be recursive) */
    const char *doc;
    const struct schema_field *fields; /* NULL: an object of any fields */
    bool open;                         /* unknown fields are kept; otherwise they are dropped */
    bool closed;                       /* unknown fields are refused, the nearest name told */
    const char *example;               /* JSON text of a whole object; NULL for none */
};

#define SCHEMA_PATH_SIZE 256

struct schema_report {
    /* Of the first fault: FastAPI's name of its kind ("missing", "string_type"), and its place. */
    const char *fault;
    char path[SCHEMA_PATH_SIZE]; /* "limits.timeout", "filters[2].op"; "" is the whole value */
    /* Paths of the dropped fields, separated by blanks, cut with "…". */
    char ignored[SCHEMA_PATH_SIZE];
};

/*
 * VALIDATION at the first fault. Puts the defaults in place, drops unknown fields. `value` may be
 * any JSON, the report NULL. The report is set on failure as well.
 */
int schema_validate(const struct schema *s, json_t *value, struct schema_report *ret_report,
                    struct err *err);

/*
 * The fault as FastAPI tells it, [{"loc": [where, "limits", "timeout"], "msg": …, "type": …}]:
 * `where` is "body", "query" or "path". NULL when out of memory.
 */
json_t *schema_fault_to_json(const struct schema_report *report, const char *where,
                             const struct err *err);

/*
 * JSON Schema (2020-12) of s. Named schemas become {"$ref": "#/components/schemas/NAME"} and are
 * added, once each, to `components`; with components NULL everything is written in place up to the
 * first recursion. NULL when out of memory.
 */
json_t *schema_to_json(const struct schema *s, json_t *components);
json_t *schema_field_to_json(const struct schema_field *f, json_t *components);

/*
 * A text (of a path or a query) as the field's type wants it; VALIDATION otherwise. Caller owns
 * *ret. The report may be NULL.
 */
int schema_parse_text(const struct schema_field *f, const char *text, json_t **ret,
                      struct schema_report *ret_report, struct err *err);

#endif
