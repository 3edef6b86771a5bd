/*
 * The types of a result's columns, read once from DuckDB into a tree that the writer of cells goes
 * by, and their names.
 */

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/macros.h"
#include "base/str.h"
#include "kernel/sql/sql_value.h"
#include "kernel/sql/sql_value_impl.h"

/*
 * Readers of the result bound the depth of JSON (JSON_MAX_DEPTH); what is around the value needs
 * some of it.
 */
#define MAX_NESTING 40

void sql_type_destroy(struct sql_type *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->n_children; i++)
        sql_type_destroy(t->children[i]);
    for (size_t i = 0; i < t->n_names; i++)
        free(t->names[i]);
    free(t->children);
    free(t->names);
    free(t->alias);
    free(t);
}

/* DuckDB's strings have their own allocator; a copy keeps ours in one. */
static char *take_duckdb_text(char *s)
{
    char *copy = s ? strdup(s) : NULL;

    duckdb_free(s);
    return copy;
}

static bool add_child(struct sql_type *t, duckdb_logical_type child)
{
    struct sql_type *made = sql_type_create(child);

    duckdb_destroy_logical_type(&child);
    if (!made)
        return false;
    t->children[t->n_children++] = made;
    return true;
}

static bool add_name(struct sql_type *t, char *duckdb_text)
{
    char *copy = take_duckdb_text(duckdb_text);

    if (!copy)
        return false;
    t->names[t->n_names++] = copy;
    return true;
}

static bool make_room(struct sql_type *t, size_t n_children, size_t n_names)
{
    t->children = calloc(n_children ? n_children : 1, sizeof(*t->children));
    t->names = calloc(n_names ? n_names : 1, sizeof(*t->names));
    return t->children && t->names;
}

static bool read_children(struct sql_type *t, duckdb_logical_type type)
{
    idx_t n;

    switch (t->id) {
    case DUCKDB_TYPE_DECIMAL:
        t->internal = duckdb_decimal_internal_type(type);
        t->width = duckdb_decimal_width(type);
        t->scale = duckdb_decimal_scale(type);
        return true;
    case DUCKDB_TYPE_ENUM:
        t->internal = duckdb_enum_internal_type(type);
        n = duckdb_enum_dictionary_size(type);
        if (!make_room(t, 0, n))
            return false;
        for (idx_t i = 0; i < n; i++) {
            if (!add_name(t, duckdb_enum_dictionary_value(type, i)))
                return false;
        }
        return true;
    case DUCKDB_TYPE_LIST:
        return make_room(t, 1, 0) && add_child(t, duckdb_list_type_child_type(type));
    case DUCKDB_TYPE_ARRAY:
        t->array_size = duckdb_array_type_array_size(type);
        return make_room(t, 1, 0) && add_child(t, duckdb_array_type_child_type(type));
    case DUCKDB_TYPE_MAP:
        return make_room(t, 2, 0) && add_child(t, duckdb_map_type_key_type(type)) &&
               add_child(t, duckdb_map_type_value_type(type));
    case DUCKDB_TYPE_STRUCT:
        n = duckdb_struct_type_child_count(type);
        if (!make_room(t, n, n))
            return false;
        for (idx_t i = 0; i < n; i++) {
            if (!add_name(t, duckdb_struct_type_child_name(type, i)) ||
                !add_child(t, duckdb_struct_type_child_type(type, i)))
                return false;
        }
        return true;
    case DUCKDB_TYPE_UNION:
        n = duckdb_union_type_member_count(type);
        if (!make_room(t, n, n))
            return false;
        for (idx_t i = 0; i < n; i++) {
            if (!add_name(t, duckdb_union_type_member_name(type, i)) ||
                !add_child(t, duckdb_union_type_member_type(type, i)))
                return false;
        }
        return true;
    default:
        return true;
    }
}

struct sql_type *sql_type_create(duckdb_logical_type type)
{
    struct sql_type *t = calloc(1, sizeof(*t));

    if (!t)
        return NULL;
    t->id = duckdb_get_type_id(type);
    t->alias = take_duckdb_text(duckdb_logical_type_get_alias(type));
    if (!read_children(t, type)) {
        sql_type_destroy(t);
        return NULL;
    }
    return t;
}

static const char *plain_name(duckdb_type id)
{
    switch (id) {
    case DUCKDB_TYPE_BOOLEAN:
        return "BOOLEAN";
    case DUCKDB_TYPE_TINYINT:
        return "TINYINT";
    case DUCKDB_TYPE_SMALLINT:
        return "SMALLINT";
    case DUCKDB_TYPE_INTEGER:
        return "INTEGER";
    case DUCKDB_TYPE_BIGINT:
        return "BIGINT";
    case DUCKDB_TYPE_UTINYINT:
        return "UTINYINT";
    case DUCKDB_TYPE_USMALLINT:
        return "USMALLINT";
    case DUCKDB_TYPE_UINTEGER:
        return "UINTEGER";
    case DUCKDB_TYPE_UBIGINT:
        return "UBIGINT";
    case DUCKDB_TYPE_FLOAT:
        return "FLOAT";
    case DUCKDB_TYPE_DOUBLE:
        return "DOUBLE";
    case DUCKDB_TYPE_TIMESTAMP:
        return "TIMESTAMP";
    case DUCKDB_TYPE_TIMESTAMP_S:
        return "TIMESTAMP_S";
    case DUCKDB_TYPE_TIMESTAMP_MS:
        return "TIMESTAMP_MS";
    case DUCKDB_TYPE_TIMESTAMP_NS:
        return "TIMESTAMP_NS";
    case DUCKDB_TYPE_TIMESTAMP_TZ:
        return "TIMESTAMP WITH TIME ZONE";
    case DUCKDB_TYPE_DATE:
        return "DATE";
    case DUCKDB_TYPE_TIME:
        return "TIME";
    case DUCKDB_TYPE_TIME_NS:
        return "TIME_NS";
    case DUCKDB_TYPE_TIME_TZ:
        return "TIME WITH TIME ZONE";
    case DUCKDB_TYPE_INTERVAL:
        return "INTERVAL";
    case DUCKDB_TYPE_HUGEINT:
        return "HUGEINT";
    case DUCKDB_TYPE_UHUGEINT:
        return "UHUGEINT";
    case DUCKDB_TYPE_VARCHAR:
        return "VARCHAR";
    case DUCKDB_TYPE_BLOB:
        return "BLOB";
    case DUCKDB_TYPE_UUID:
        return "UUID";
    case DUCKDB_TYPE_BIT:
        return "BIT";
    case DUCKDB_TYPE_ENUM:
        return "ENUM";
    case DUCKDB_TYPE_MAP:
        return "MAP";
    case DUCKDB_TYPE_STRUCT:
        return "STRUCT";
    case DUCKDB_TYPE_UNION:
        return "UNION";
    case DUCKDB_TYPE_BIGNUM:
        return "BIGNUM";
    case DUCKDB_TYPE_SQLNULL:
        return "NULL";
    default:
        return "UNKNOWN";
    }
}

static int write_name(const struct sql_type *t, struct buf *out, int depth, struct err *err)
{
    int r;

    if (depth > MAX_NESTING)
        return buf_append_str(out, "…", err);
    if (t->alias)
        return buf_append_str(out, t->alias, err);
    switch (t->id) {
    case DUCKDB_TYPE_DECIMAL:
        return buf_printf(out, err, "DECIMAL(%u,%u)", t->width, t->scale);
    case DUCKDB_TYPE_LIST:
        r = write_name(t->children[0], out, depth + 1, err);
        return r < 0 ? r : buf_append_str(out, "[]", err);
    case DUCKDB_TYPE_ARRAY:
        r = write_name(t->children[0], out, depth + 1, err);
        return r < 0 ? r : buf_printf(out, err, "[%" PRIu64 "]", (uint64_t)t->array_size);
    case DUCKDB_TYPE_MAP:
    case DUCKDB_TYPE_STRUCT:
    case DUCKDB_TYPE_UNION:
        r = buf_printf(out, err, "%s(", plain_name(t->id));
        for (size_t i = 0; r == 0 && i < t->n_children; i++) {
            if (i)
                r = buf_append_str(out, ", ", err);
            if (r == 0 && t->n_names && t->names[i][0])
                r = buf_printf(out, err, str_is_identifier(t->names[i]) ? "%s " : "\"%s\" ",
                               t->names[i]);
            if (r == 0)
                r = write_name(t->children[i], out, depth + 1, err);
        }
        return r < 0 ? r : buf_append(out, ")", 1, err);
    default:
        return buf_append_str(out, plain_name(t->id), err);
    }
}

int sql_type_write_name(const struct sql_type *t, struct buf *out, struct err *err)
{
    return write_name(t, out, 0, err);
}

static int check_type(const struct sql_type *t, const char *column, int depth, struct err *err)
{
    if (depth > MAX_NESTING) {
        return err_set(
            err, ERR_VALIDATION,
            "column '%.200s' is nested more than %d levels deep; show it as text: CAST(… AS VARCHAR)",
            column, MAX_NESTING);
    }
    if (str_eq(plain_name(t->id), "UNKNOWN") && t->id != DUCKDB_TYPE_DECIMAL &&
        t->id != DUCKDB_TYPE_LIST && t->id != DUCKDB_TYPE_ARRAY) {
        return err_set(
            err, ERR_VALIDATION,
            "column '%.200s' has a type that cannot be shown; show it as text: CAST(… AS VARCHAR)",
            column);
    }
    if (t->id == DUCKDB_TYPE_BIGNUM) {
        return err_set(
            err, ERR_VALIDATION,
            "column '%.200s' has type BIGNUM, which cannot be shown; show it as text: CAST(… AS VARCHAR)",
            column);
    }
    for (size_t i = 0; i < t->n_children; i++) {
        int r = check_type(t->children[i], column, depth + 1, err);

        if (r < 0)
            return r;
    }
    return 0;
}

int sql_type_check(const struct sql_type *t, const char *column, struct err *err)
{
    return check_type(t, column, 0, err);
}
