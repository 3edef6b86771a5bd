/* Databases as data sets; see database_sets.h. */

#include "data/database_sets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/str.h"
#include "data/catalog.h"
#include "data/scan.h"
#include "database/database.h"

#define WAIT_AT_START_MS 3000
#define LOOK_AGAIN_MS (10 * 60 * 1000)
#define TRY_AGAIN_MS 2000 /* after a look that failed */
#define SET_ARENA_BYTES (32u << 20)

struct database_set {
    unsigned refs, serial;
    struct arena arena;
    struct dataset dataset;
    const char **tables; /* of the dataset's files */
    enum plan_dialect dialect;
    int64_t made_ms;
};

/* One database of the setting. */
struct entry {
    struct data_room *room;
    struct database *db;
    struct database_set *set; /* NULL: nothing is known */
    struct db_query *look;    /* under way */
    json_t *schema;           /* what the first of two questions gave */
    struct err why;           /* the last look failed */
    int64_t tried_ms;
};

struct database_sets {
    struct entry *all;
    size_t n;
    unsigned serials;
};

/* ---- one set ---- */

struct database_set *database_set_ref(struct database_set *set)
{
    if (set)
        set->refs++;
    return set;
}

void database_set_unref(struct database_set *set)
{
    if (!set || --set->refs > 0)
        return;
    for (size_t i = 0; i < set->dataset.n_files; i++) {
        json_decref(set->dataset.files[i].schema);
        json_decref(set->dataset.files[i].profile);
    }
    json_decref(set->dataset.prompts);
    json_decref(set->dataset.tags);
    arena_finish(&set->arena);
    free(set);
}

const struct dataset *database_set_dataset(const struct database_set *set)
{
    return &set->dataset;
}

enum plan_dialect database_set_dialect(const struct database_set *set)
{
    return set->dialect;
}

unsigned database_set_serial(const struct database_set *set)
{
    return set->serial;
}

static int no_memory(struct err *err)
{
    return err_set(err, ERR_NO_MEMORY, "out of memory");
}

/* ---- a look ---- */

/* The type as registries name it. */
static const char *type_word(const char *type)
{
    static const struct {
        const char *part, *word;
    } words[] = {
        { "enum", "string" },        { "interval", "other" },    { "[]", "other" },
        { "array(", "other" },       { "tuple(", "other" },      { "map(", "other" },
        { "timestamp", "datetime" }, { "datetime", "datetime" }, { "int", "integer" },
        { "serial", "integer" },     { "numeric", "float" },     { "decimal", "float" },
        { "double", "float" },       { "real", "float" },        { "float", "float" },
        { "bool", "boolean" },       { "date", "date" },         { "time", "time" },
        { "char", "string" },        { "text", "string" },       { "clob", "string" },
        { "uuid", "string" },        { "string", "string" },
    };
    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (strcasestr(type, words[i].part))
            return words[i].word;
    return "other";
}

static json_t *columns_json(const json_t *columns)
{
    json_t *out = json_object(), *c;
    size_t i;
    json_array_foreach(columns, i, c) {
        const char *type = json_string_value(json_object_get(c, "data_type"));
        json_object_set_new(
            out, json_string_value(json_object_get(c, "column_name")),
            json_pack("{s:s, s:s, s:b}", "type", type_word(type ? type : ""), "description", "",
                      "nullable",
                      str_eq(json_string_value(json_object_get(c, "is_nullable")), "YES")));
    }
    return out;
}

/* Plans name a table by one word: those of other schemas are left to db_query(). */
static bool is_usable(const char *table, const json_t *columns)
{
    return strlen(table) <= DATASET_TABLE_MAX && !strchr(table, '.') &&
           json_array_size(columns) > 0 && json_array_size(columns) <= REGISTRY_MAX_COLUMNS;
}

static int add_tables(struct database_set *set, const json_t *schema, struct err *err)
{
    struct dataset *d = &set->dataset;
    struct dataset_table found;
    const char *table;
    json_t *columns;
    d->files = arena_alloc(&set->arena, REGISTRY_MAX_FILES * sizeof(*d->files));
    set->tables = arena_alloc(&set->arena, REGISTRY_MAX_FILES * sizeof(*set->tables));
    if (!d->files || !set->tables)
        return no_memory(err);
    json_object_foreach(json_object_get(schema, "schema"), table, columns) {
        if (!is_usable(table, columns) || dataset_find_table(d, table, &found) ||
            d->n_files == REGISTRY_MAX_FILES)
            continue;
        struct dataset_file *f = &d->files[d->n_files];
        *f = (struct dataset_file){ .name = arena_strdup(&set->arena, table),
                                    .description = "",
                                    .row_count = -1,
                                    .schema = columns_json(columns) };
        f->table = f->path = f->full_path = f->name;
        set->tables[d->n_files++] = f->name;
        if (!f->name || !f->schema)
            return no_memory(err);
    }
    return 0;
}

static struct dataset_file *table_of(struct database_set *set, const char *table)
{
    struct dataset_table found;
    return dataset_find_table(&set->dataset, table, &found) ? &set->dataset.files[found.at] : NULL;
}

/* Comments and foreign keys: rows of kind, table, column, text or other table, other column. */
static int add_facts(struct database_set *set, const json_t *rows, struct err *err)
{
    struct dataset *d = &set->dataset;
    size_t i;
    json_t *row;
    d->relationships = arena_alloc(&set->arena, REGISTRY_MAX_LIST * sizeof(*d->relationships));
    if (!d->relationships)
        return no_memory(err);
    json_array_foreach(rows, i, row) {
        const char *texts[5];
        for (size_t k = 0; k < ARRAY_SIZE(texts); k++)
            texts[k] = json_string_value(json_array_get(row, k));
        if (!texts[0] || !texts[1] || !texts[3])
            continue;
        struct dataset_file *f = table_of(set, texts[1]);
        if (str_eq(texts[0], "comment") && f && !texts[2]) {
            f->description = arena_strdup(&set->arena, texts[3]);
        } else if (str_eq(texts[0], "comment") && f) {
            json_t *column = json_object_get(f->schema, texts[2]);
            if (column)
                json_object_set_new(column, "description", json_string(texts[3]));
        } else if (f && texts[2] && texts[4] && table_of(set, texts[3]) &&
                   d->n_relationships < REGISTRY_MAX_LIST) {
            d->relationships[d->n_relationships++] = (struct dataset_relationship){
                .from = arena_printf(&set->arena, "%s.%s", texts[1], texts[2]),
                .to = arena_printf(&set->arena, "%s.%s", texts[3], texts[4]),
                .type = "many-to-one"
            };
        }
    }
    for (i = 0; i < d->n_relationships; i++)
        if (!d->relationships[i].from || !d->relationships[i].to)
            return no_memory(err);
    for (i = 0; i < d->n_files; i++)
        if (!d->files[i].description)
            return no_memory(err);
    return 0;
}

static enum plan_dialect dialect_of(const struct database *db)
{
    return str_eq(database_kind(db), "sqlite")     ? DIALECT_SQLITE :
           str_eq(database_kind(db), "clickhouse") ? DIALECT_CLICKHOUSE :
                                                     DIALECT_POSTGRES;
}

/* The version of a database is that of its tables: its rows change while it is asked. */
static int name_version(struct database_set *set, const json_t *schema, struct err *err)
{
    char hex[HASH_HEX_SIZE];
    auto_free char *text = json_dumps(schema, JSON_SORT_KEYS | JSON_COMPACT);
    if (!text)
        return no_memory(err);
    int r = hash_bytes(text, strlen(text), hex, err);
    if (r == 0)
        snprintf(set->dataset.version_hash, sizeof(set->dataset.version_hash), "sha256:%s", hex);
    return r;
}

static int make_set(struct entry *e, const json_t *facts, struct database_set **ret,
                    struct err *err)
{
    struct database_set *set = calloc(1, sizeof(*set));
    if (!set)
        return no_memory(err);
    arena_init(&set->arena, SET_ARENA_BYTES);
    set->refs = 1;
    set->serial = ++e->room->database_sets->serials;
    set->dialect = dialect_of(e->db);
    set->made_ms = clock_now_ms();
    set->dataset = (struct dataset){
        .id = database_name(e->db),
        .name = database_name(e->db),
        .description = set->dialect == DIALECT_SQLITE     ? "A database of SQLite, asked where "
                                                            "it is." :
                       set->dialect == DIALECT_CLICKHOUSE ? "A database of ClickHouse, asked "
                                                            "where it is." :
                                                            "A database of PostgreSQL, asked "
                                                            "where it is.",
        .domain = "database",
        .is_declared = true,
        .prompts = json_array(),
        .tags = json_array(),
    };
    int r = set->dataset.prompts && set->dataset.tags ? name_version(set, e->schema, err) :
                                                        no_memory(err);
    if (r == 0)
        r = add_tables(set, e->schema, err);
    if (r == 0)
        r = add_facts(set, facts, err);
    if (r < 0) {
        database_set_unref(set);
        return r;
    }
    *ret = set;
    return 0;
}

static void look_ended(struct entry *e, struct database_set *set, const struct err *err)
{
    json_decref(TAKE_PTR(e->schema));
    if (set) {
        database_set_unref(e->set);
        e->set = set;
        e->why = (struct err)ERR_INIT;
        return;
    }
    e->why = *err; /* what was known stays */
    log_warn("database.look", LOG_STR("database", database_name(e->db)),
             LOG_STR("error", err->message));
}

static void on_facts(const struct db_result *result, const struct err *err, void *arg)
{
    struct entry *e = arg;
    struct err why = ERR_INIT;
    struct database_set *set = NULL;
    auto_json json_t *body = NULL;
    e->look = NULL;
    if (err)
        why = *err;
    else if (db_result_json(result, &body, &why) == 0)
        (void)make_set(e, json_object_get(body, "rows"), &set, &why);
    look_ended(e, set, &why);
}

static void on_schema(const struct db_result *result, const struct err *err, void *arg)
{
    struct entry *e = arg;
    struct err why = ERR_INIT;
    e->look = NULL;
    if (err)
        why = *err;
    else if (!(e->schema = database_schema_json(result)))
        err_set(&why, ERR_NO_MEMORY, "out of memory");
    else if (database_facts(e->db, on_facts, e, &e->look, &why) == 0)
        return;
    look_ended(e, NULL, &why);
}

static void look(struct entry *e)
{
    struct err err = ERR_INIT;
    int64_t now = clock_now_ms();
    if (e->look || e->room->stopping)
        return;
    e->tried_ms = now;
    if (database_schema(e->db, NULL, on_schema, e, &e->look, &err) < 0)
        look_ended(e, NULL, &err);
}

/* Somebody uses it: what is old is read again, for those who come later. */
static void freshen(struct entry *e)
{
    int64_t now = clock_now_ms();
    bool old = !e->set || now - e->set->made_ms > LOOK_AGAIN_MS;
    if (old && now - e->tried_ms > TRY_AGAIN_MS)
        look(e);
}

int database_set_find(struct data_room *room, const char *id, struct database_set **ret,
                      struct err *err)
{
    struct database_sets *s = room->database_sets;
    for (size_t i = 0; s && i < s->n; i++) {
        struct entry *e = &s->all[i];
        if (!str_eq(database_name(e->db), id))
            continue;
        freshen(e);
        if (!e->set)
            return err_set(err, ERR_UNAVAILABLE, "nothing is known about the database '%s' yet%s%s",
                           id, e->why.code == ERR_NONE ? "" : ": ", e->why.message);
        *ret = database_set_ref(e->set);
        return 0;
    }
    return err_set(err, ERR_NOT_FOUND, "Unknown dataset_id: %s", id);
}

void database_sets_append(struct data_room *room, json_t *list,
                          json_t *(*item)(struct data_room *room, const char *owner,
                                          const struct dataset *d),
                          const char *owner)
{
    struct database_sets *s = room->database_sets;
    for (size_t i = 0; s && i < s->n; i++) {
        freshen(&s->all[i]);
        if (s->all[i].set)
            json_array_append_new(list, item(room, owner, &s->all[i].set->dataset));
    }
}

/* ---- profiles ---- */

void database_set_subject(const struct database_set *set, struct record_subject *ret)
{
    *ret = (struct record_subject){ .database = set->dataset.id,
                                    .look = set->serial,
                                    .dialect = set->dialect,
                                    .tables = set->tables,
                                    .n_tables = MIN_OF(set->dataset.n_files,
                                                       (size_t)CATALOG_TABLES_MAX) };
}

int database_set_attach(struct database_set *set, json_t *profile, struct err *err)
{
    size_t i;
    json_t *table;
    int r = table_profile_check(profile, err);
    json_array_foreach(json_object_get(profile, "tables"), i, table) {
        struct dataset_file *f = table_of(set, json_string_value(json_object_get(table, "name")));
        if (r < 0 || !f)
            continue;
        json_decref(f->profile);
        f->profile = json_incref(table);
        f->row_count = json_integer_value(json_object_get(table, "row_count"));
    }
    return r;
}

/* ---- all ---- */

static bool is_waiting(const struct database_sets *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->all[i].look)
            return true;
    return false;
}

static void set_true(void *arg)
{
    *(bool *)arg = true;
}

int database_sets_open(struct data_room *room, struct err *err)
{
    size_t n = databases_count(room->env.databases);
    if (n == 0)
        return 0;
    struct database_sets *s = calloc(1, sizeof(*s));
    struct entry *all = calloc(n, sizeof(*all));
    if (!s || !all) {
        free(s);
        free(all);
        return no_memory(err);
    }
    *s = (struct database_sets){ .all = all, .n = n };
    room->database_sets = s;
    for (size_t i = 0; i < n; i++) {
        s->all[i] = (struct entry){ .room = room,
                                    .db = databases_get(room->env.databases, i),
                                    .why = ERR_INIT };
        look(&s->all[i]);
    }
    bool late = false;
    struct loop_timer *timer = NULL;
    int r = loop_after(room->env.loop, WAIT_AT_START_MS, set_true, &late, &timer, err);
    while (r == 0 && is_waiting(s) && !late)
        uv_run(loop_uv(room->env.loop), UV_RUN_ONCE);
    if (!late)
        loop_cancel(timer);
    return r;
}

void database_sets_close(struct data_room *room)
{
    struct database_sets *s = room->database_sets;
    if (!s)
        return;
    for (size_t i = 0; i < s->n; i++) {
        db_query_cancel(s->all[i].look);
        json_decref(s->all[i].schema);
        database_set_unref(s->all[i].set);
    }
    free(s->all);
    free(TAKE_PTR(room->database_sets));
}
