/* Making a catalog of the records of tables; see catalog.h. */

#include "data/catalog.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/macros.h"
#include "base/str.h"
#include "plan/compile.h"

#define ARENA_BYTES (64u << 20)

struct catalog {
    unsigned refs;
    struct arena arena;
    enum plan_dialect dialect;
    json_t *relationships; /* array */
    json_t *words;         /* what people wrote; NULL: nothing */
    struct nl_schema *nl;
    struct plan_schema *plan;
    json_t *described;
    json_t *short_schema; /* for plan_schema_parse() */
};

static int no_memory(struct err *err)
{
    return err_set(err, ERR_NO_MEMORY, "out of memory");
}

/* ---- tables ---- */

/* Least or greatest as the planner takes it: as SQL writes it. */
static const char *range_text(const json_t *value, char *ret, size_t size)
{
    if (json_is_integer(value))
        snprintf(ret, size, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        snprintf(ret, size, "%.17g", json_real_value(value));
    else
        snprintf(ret, size, "%s", json_string_value(value) ? json_string_value(value) : "");
    if (json_is_string(value) && strlen(ret) > 10 && ret[10] == 'T')
        ret[10] = ' ';
    return ret;
}

static int add_column(struct catalog *c, int t, const json_t *column, const json_t *values,
                      struct err *err)
{
    const char *name = json_string_value(json_object_get(column, "name")),
               *type = json_string_value(json_object_get(column, "type"));
    const json_t *low = json_object_get(column, "min"), *high = json_object_get(column, "max"),
                 *nulls = json_object_get(column, "nulls");
    enum plan_type kind = type ? plan_type_from_name(type) : TYPE_OTHER;
    char min[64], max[64];
    size_t i;
    json_t *value;
    if (!name || !type)
        return err_set(err, ERR_PROTOCOL, "a column has no name or type");
    int at = nl_schema_add_column(c->nl, t, name, type, err), r = at;
    if (r >= 0 && low && high && !json_is_null(low) && !json_is_null(high) &&
        (kind == TYPE_DATE || kind == TYPE_TIMESTAMP || kind == TYPE_INTEGER ||
         kind == TYPE_NUMBER))
        r = nl_schema_set_range(c->nl, t, at, range_text(low, min, sizeof(min)),
                                range_text(high, max, sizeof(max)), err);
    if (r >= 0 && nulls)
        nl_schema_set_counts(c->nl, t, at, json_integer_value(nulls),
                             json_is_true(json_object_get(column, "is_serial")));
    json_array_foreach(values, i, value)
        if (r >= 0 && json_is_string(value))
            r = nl_schema_add_value(c->nl, t, at, json_string_value(value), err);
    return r < 0 ? r : 0;
}

int catalog_add(struct catalog *c, const char *table, json_t *profile, const json_t *values,
                struct err *err)
{
    json_t *about = json_copy(profile), *columns = json_object_get(profile, "columns"), *column,
           *types = json_object();
    size_t i;
    int t = nl_schema_add_table(c->nl, table,
                                json_integer_value(json_object_get(profile, "row_count")), err),
        r = t;
    json_object_set_new(about, "name", json_string(table));
    json_object_del(about, "tables");
    json_object_del(about, "report");
    if (json_array_append_new(json_object_get(c->described, "tables"), about) < 0 ||
        json_object_set_new(json_object_get(c->short_schema, "tables"), table, types) < 0)
        return no_memory(err);
    json_array_foreach(columns, i, column) {
        if (r >= 0)
            r = add_column(c, t, column, json_array_get(values, i), err);
        if (r >= 0)
            json_object_set(types, json_string_value(json_object_get(column, "name")),
                            json_object_get(column, "type"));
    }
    return r < 0 ? r : 0;
}

/* ---- the end ---- */

static void take_relationships(struct catalog *c)
{
    json_t *kept = json_array(), *notes = json_array(), *rel;
    size_t i;
    json_array_foreach(c->relationships, i, rel) {
        struct err why = ERR_INIT;
        const char *from = json_string_value(json_object_get(rel, "from")),
                   *to = json_string_value(json_object_get(rel, "to"));
        int r = from && to ? nl_schema_add_relationship(c->nl, from, to, &why) :
                             err_set(&why, ERR_VALIDATION, "a relationship has no 'from' or 'to'");
        if (r >= 0)
            json_array_append(kept, rel);
        else
            json_array_append_new(notes, json_string(why.message));
    }
    json_object_set(c->described, "relationships", kept);
    json_object_set_new(c->short_schema, "relationships", kept);
    if (json_array_size(notes) > 0)
        json_object_set(c->described, "notes", notes);
    json_decref(notes);
}

/* Descriptions, units, roles and metrics, for the planner. */
static int take_words(struct catalog *c, struct err *err)
{
    const json_t *tables = json_object_get(c->described, "tables");
    json_t *table, *column, *meaning;
    const char *name;
    size_t t, k;
    int r = 0;
    json_array_foreach(tables, t, table) {
        const json_t *told = json_object_get(c->words,
                                             json_string_value(json_object_get(table, "name")));
        const json_t *columns = json_object_get(told, "columns"),
                     *roles = json_object_get(told, "roles");
        json_array_foreach(json_object_get(table, "columns"), k, column) {
            const char *about = json_string_value(
                json_object_get(columns, json_string_value(json_object_get(column, "name"))));
            const char *role = json_string_value(
                json_object_get(roles, json_string_value(json_object_get(column, "name"))));
            if (about && r >= 0)
                r = nl_schema_tell_column(c->nl, (int)t, (int)k, about, err);
            if (role && r >= 0)
                r = nl_schema_set_role(c->nl, (int)t, (int)k, role, err);
        }
    }
    json_object_foreach(json_object_get(c->words, ".metrics"), name, meaning)
        if (r >= 0 && json_is_string(meaning))
            r = nl_schema_add_metric(c->nl, name, json_string_value(meaning), err);
    return r;
}

int catalog_finish(struct catalog *c, struct err *err)
{
    take_relationships(c);
    int r = take_words(c, err);
    if (r >= 0)
        r = nl_schema_finish(c->nl, err);
    if (r >= 0)
        r = plan_schema_parse(c->short_schema, NULL, &c->arena, &c->plan, err);
    if (r < 0)
        return r;
    c->plan->dialect = c->dialect;
    json_decref(TAKE_PTR(c->short_schema));
    json_decref(TAKE_PTR(c->relationships));
    json_decref(TAKE_PTR(c->words));
    return 0;
}

/* ---- life ---- */

int catalog_create(const char *dataset_id, enum plan_dialect dialect, const json_t *relationships,
                   const json_t *words, struct catalog **ret, struct err *err)
{
    struct catalog *c = calloc(1, sizeof(*c));
    if (!c)
        return no_memory(err);
    c->refs = 1;
    c->dialect = dialect;
    arena_init(&c->arena, ARENA_BYTES);
    c->relationships = json_is_array(relationships) ? json_deep_copy(relationships) : json_array();
    c->words = json_deep_copy(words);
    c->described = json_pack("{s:s, s:[]}", "dataset_id", dataset_id, "tables");
    c->short_schema = json_pack("{s:s, s:{}}", "id", dataset_id, "tables");
    int r = c->relationships && c->described && c->short_schema ?
                nl_schema_create(dataset_id, &c->nl, err) :
                no_memory(err);
    if (r < 0) {
        catalog_unref(c);
        return r;
    }
    *ret = c;
    return 0;
}

struct catalog *catalog_ref(struct catalog *c)
{
    c->refs++;
    return c;
}

void catalog_unref(struct catalog *c)
{
    if (!c || --c->refs > 0)
        return;
    json_decref(c->relationships);
    json_decref(c->words);
    json_decref(c->described);
    json_decref(c->short_schema);
    nl_schema_destroy(c->nl);
    arena_finish(&c->arena);
    free(c);
}

const struct nl_schema *catalog_schema(const struct catalog *c)
{
    return c->nl;
}

const struct plan_schema *catalog_plan_schema(const struct catalog *c)
{
    return c->plan;
}

const json_t *catalog_describe(const struct catalog *c)
{
    return c->described;
}

int catalog_compile(const struct catalog *c, const json_t *plan, struct buf *ret_sql,
                    struct err *err)
{
    auto_arena struct arena a;
    struct query_plan *parsed = NULL;
    arena_init(&a, PLAN_ARENA_BYTES);
    size_t before = ret_sql->len;
    int r = plan_parse(plan, &a, &parsed, err);
    if (r >= 0)
        r = plan_compile(parsed, c->plan, ret_sql, err);
    if (r < 0)
        return r;
    /*
     * A limit that nobody asked for is only the size of the answer, which the run has too; without
     * it rows that are equal in what they are ordered by keep the order of the file.
     */
    static const char tail[] = "\nLIMIT 1000";
    size_t len = ret_sql->len - before;
    if (parsed->limit == PLAN_LIMIT_MAX && len > sizeof(tail) &&
        str_ends(buf_cstr(ret_sql), tail)) {
        ret_sql->len -= sizeof(tail) - 1;
        ret_sql->data[ret_sql->len] = '\0';
    }
    return 0;
}
