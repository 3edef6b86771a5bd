#ifndef RIDDLE_KERNEL_SQL_SQL_VALUE_IMPL_H
#define RIDDLE_KERNEL_SQL_SQL_VALUE_IMPL_H

/* The tree of a type, as sql_type.c makes it and sql_value.c walks it. */

#include <duckdb.h>
#include <stddef.h>
#include <stdint.h>

struct sql_type {
    duckdb_type id;
    duckdb_type internal; /* of DECIMAL and ENUM */
    uint8_t width, scale; /* of DECIMAL */
    idx_t array_size;
    char *alias; /* a named type such as JSON */
    struct sql_type **children;
    char **names; /* of STRUCT and UNION members, or the words of an ENUM */
    size_t n_children, n_names;
};

#endif
