/* Types, parameters and functions of PostgreSQL; see postgres_text.h. */

#include "database/postgres_text.h"

#include <stdlib.h>
#include <string.h>
#include "base/macros.h"
#include "base/str.h"

#define CELL_MAX_BYTES ((size_t)32 << 20)

/* ---- types: the OIDs of pg_type.dat, which never change ---- */

static const struct {
    unsigned oid;
    const char *name;
} types[] = {
    { 16, "BOOLEAN" },
    { 17, "BLOB" },
    { 20, "BIGINT" },
    { 21, "BIGINT" },
    { 23, "BIGINT" },
    { 26, "BIGINT" },
    { 700, "DOUBLE" },
    { 701, "DOUBLE" },
    { 1700, "DECIMAL" },
    { 1082, "DATE" },
    { 1083, "TIME" },
    { 1114, "TIMESTAMP" },
    { 1186, "INTERVAL" },
    { 2950, "UUID" },
    { 114, "JSON" },
    { 3802, "JSON" },
    { 1000, "BOOLEAN[]" },
    { 1001, "BLOB[]" },
    { 1005, "BIGINT[]" },
    { 1007, "BIGINT[]" },
    { 1016, "BIGINT[]" },
    { 1021, "DOUBLE[]" },
    { 1022, "DOUBLE[]" },
    { 1231, "DECIMAL[]" },
    { 1182, "DATE[]" },
    { 1183, "TIME[]" },
    { 1115, "TIMESTAMP[]" },
    { 2951, "UUID[]" },
    { 1009, "VARCHAR[]" },
    { 1015, "VARCHAR[]" },
    { 1014, "VARCHAR[]" },
    { 1003, "VARCHAR[]" },
    { 199, "JSON[]" },
    { 3807, "JSON[]" },
    { 1184, "TIMESTAMP WITH TIME ZONE" },
    { 1185, "TIMESTAMP WITH TIME ZONE[]" },
};

const char *postgres_type_name(unsigned oid)
{
    for (size_t i = 0; i < ARRAY_SIZE(types); i++)
        if (types[i].oid == oid)
            return types[i].name;
    return "VARCHAR";
}

static int item_json(const char *type, const char *s, size_t len, struct buf *out, struct err *err)
{
    if (str_eq(type, "BOOLEAN[]"))
        return buf_append_str(out, *s == 't' ? "true" : "false", err);
    if (str_eq(type, "BIGINT[]") || str_eq(type, "JSON[]"))
        return buf_append(out, s, len, err);
    if (str_eq(type, "DOUBLE[]") && !strpbrk(s, "NI"))
        return buf_append(out, s, len, err);
    if (str_eq(type, "BLOB[]") && len >= 2)
        return json_write_str(s + 2, len - 2, out, err);
    return json_write_str(s, len, out, err);
}

/* {1,NULL,{"a \"b\""}} → [1,null,["a \"b\""]]; a prefix such as [0:1]= is left out. */
static int array_json(const char *type, const char *s, size_t len, struct buf *out, struct err *err)
{
    auto_buf struct buf item = BUF_INIT(CELL_MAX_BYTES);
    size_t i = 0;
    int r = 0;
    const char *start = *s == '[' ? memchr(s, '=', len) : NULL;
    if (start)
        i = (size_t)(start - s) + 1;
    for (bool quoted = false; i < len && r == 0; quoted = false) {
        if (s[i] == '{' || s[i] == '}' || s[i] == ',') {
            r = buf_append_str(out, s[i] == '{' ? "[" : s[i] == '}' ? "]" : ",", err);
            i++;
            continue;
        }
        buf_clear(&item);
        r = buf_append(&item, "", 0, err);
        if (s[i] == '"') {
            quoted = true;
            for (i++; i < len && s[i] != '"' && r == 0; i++) {
                if (s[i] == '\\' && i + 1 < len)
                    i++;
                r = buf_append(&item, s + i, 1, err);
            }
            i++;
        } else {
            for (; i < len && !strchr(",{}", s[i]) && r == 0; i++)
                r = buf_append(&item, s + i, 1, err);
        }
        if (r == 0 && !quoted && str_ieq(buf_cstr(&item), "null"))
            r = buf_append_str(out, "null", err);
        else if (r == 0)
            r = item_json(type, buf_cstr(&item), item.len, out, err);
    }
    return r;
}

int postgres_cell(unsigned oid, const char *text, size_t len, struct buf *scratch,
                  struct db_cell *ret, struct err *err)
{
    const char *type;
    *ret = (struct db_cell){ .data = text, .len = len };
    switch (oid) {
    case 16:
        *ret = *text == 't' ? (struct db_cell){ "true", 4 } : (struct db_cell){ "false", 5 };
        return 0;
    case 17:
        if (len >= 2)
            *ret = (struct db_cell){ text + 2, len - 2 };
        return 0;
    case 20:
    case 21:
    case 23:
    case 25:
    case 1043:
        return 0;
    default:
        break;
    }
    type = postgres_type_name(oid);
    if (oid == 1184 && len > 10 && (text[len - 3] == '+' || text[len - 3] == '-')) {
        buf_clear(scratch); /* PostgreSQL leaves minutes out that are 0 */
        int e = buf_printf(scratch, err, "%.*s:00", (int)len, text);
        *ret = (struct db_cell){ .data = buf_cstr(scratch), .len = scratch->len };
        return e;
    }
    if (!str_ends(type, "[]"))
        return 0;
    buf_clear(scratch);
    int r = array_json(type, text, len, scratch, err);
    *ret = (struct db_cell){ .data = buf_cstr(scratch), .len = scratch->len };
    return r;
}

/* ---- parameters ---- */

static unsigned integer_oid(const char *text)
{
    long long v;
    if (str_parse_i64(text, "", INT64_MIN, INT64_MAX, &v, NULL) < 0)
        return 1700;
    return v >= INT16_MIN && v <= INT16_MAX ? 21 : v >= INT32_MIN && v <= INT32_MAX ? 23 : 20;
}

static unsigned oid_of(const struct db_param *p)
{
    switch (p->type) {
    case DB_PARAM_DECIMAL:
        return 1700;
    case DB_PARAM_DATE:
        return 1082;
    case DB_PARAM_TIME:
        return 1083;
    case DB_PARAM_TIMESTAMP:
        return 1114;
    case DB_PARAM_TIMESTAMPTZ:
        return 1184;
    case DB_PARAM_INTERVAL:
        return 1186;
    case DB_PARAM_UUID:
        return 2950;
    case DB_PARAM_BYTES:
        return 17;
    case DB_PARAM_INTEGER:
        return integer_oid(buf_cstr(&p->text));
    case DB_PARAM_REAL:
        return 701;
    case DB_PARAM_BOOL:
        return 16;
    default:
        return 0;
    }
}

static int bind(struct postgres_statement *s, const char *name, const json_t *value,
                struct err *err)
{
    struct db_param p;
    size_t i = s->n;
    int r = db_param_read(name, value, &p, err);
    if (r == 0 && p.type == DB_PARAM_ARRAY)
        r = db_param_postgres_array(name, p.items, &p.text, err);
    if (r < 0) {
        db_param_finish(&p);
        return r;
    }
    s->types[i] = oid_of(&p);
    s->formats[i] = p.type == DB_PARAM_BYTES;
    s->values[i] = p.text;
    s->lens[i] = (int)p.text.len;
    s->texts[i] = p.type == DB_PARAM_NULL ? NULL : buf_cstr(&s->values[i]);
    s->n++;
    return 0;
}

int postgres_statement_make(const struct sql_text *t, const json_t *params,
                            struct postgres_statement **ret, struct err *err)
{
    struct postgres_statement *s = calloc(1, sizeof(*s));
    auto_free size_t *at = calloc(t->n ? t->n : 1, sizeof(*at)); /* token → number */
    size_t from = 0;
    int r = s && at ? 0 : err_set(err, ERR_NO_MEMORY, "out of memory");
    if (s)
        buf_init(&s->sql, 4u << 20);
    for (size_t i = 0; i < t->n && r == 0; i++) {
        const struct sql_token *k = &t->tokens[i];
        if (k->kind != SQL_PARAM)
            continue;
        for (size_t j = 0; j < i && !at[i]; j++)
            if (at[j] && str_eq(t->tokens[j].name, k->name))
                at[i] = at[j];
        const json_t *value = json_object_get(params, k->name);
        if (!value)
            r = err_set(err, ERR_VALIDATION, "the parameter ':%s' was not given", k->name);
        else if (!at[i] && s->n == ARRAY_SIZE(s->types))
            r = err_set(err, ERR_VALIDATION, "more than %zu parameters", ARRAY_SIZE(s->types));
        else if (!at[i]) {
            r = bind(s, k->name, value, err);
            at[i] = s->n;
        }
        if (r == 0)
            r = buf_append(&s->sql, t->text + from, k->at - from, err);
        if (r == 0)
            r = buf_printf(&s->sql, err, "$%zu", at[i]);
        from = k->at + k->len;
    }
    if (r == 0)
        r = buf_append(&s->sql, t->text + from, t->len - from, err);
    if (r < 0) {
        postgres_statement_free(s);
        return r;
    }
    *ret = s;
    return 0;
}

void postgres_statement_free(struct postgres_statement *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n; i++)
        buf_finish(&s->values[i]);
    buf_finish(&s->sql);
    free(s);
}

/* ---- functions ---- */

/* With side effects, or a way to run text as SQL. A '*' stands for any letters. */
static const char *const refused[] = {
    "set_config",
    "pg_sleep*",
    "pg_read_*",
    "pg_ls_*",
    "pg_stat_file",
    "pg_terminate_*",
    "pg_cancel_*",
    "pg_reload_conf",
    "pg_rotate_*",
    "pg_switch_*",
    "pg_advisory_*",
    "pg_try_advisory_*",
    "pg_notify",
    "nextval",
    "setval",
    "lo_*",
    "loread",
    "lowrite",
    "dblink*",
    "query_to_xml*",
    "cursor_to_xml*",
    "table_to_xml*",
    "schema_to_xml*",
    "database_to_xml*",
    "ts_stat",
    "ts_rewrite",
    "crosstab*",
    "connectby",
    "xpath_table",
    "pg_logical_*",
    "pg_replication_*",
    "pg_create_*",
    "pg_drop_*",
    "pg_copy_*",
    "pg_backup_*",
    "pg_start_backup",
    "pg_stop_*",
    "pg_promote",
    "pg_wal_replay_*",
    "pg_export_*",
    "pg_import_*",
    "pg_file_*",
    "pg_logdir_ls",
    "pg_stat_reset*",
    "txid_current",
    "pg_current_xact_id",
    "pg_log_*",
    "brin_*summarize*",
    "gin_clean_pending_list",
    "binary_upgrade_*",
    "pg_prewarm*",
    "autoprewarm*",
    "pg_stat_statements_reset",
    "postgres_fdw_*",
    "pg_extension_config_dump",
    "pg_nextoid",
    "setseed",
    "pg_stat_force_*",
    "pg_stat_clear_*",
    "currtid*",
    "pg_truncate_*",
    "heap_force_*",
    "pg_show_all_file_*",
    "pg_hba_file_*",
    "pg_ident_file_*",
    "pg_current_logfile",
    "plpgsql_*",
    "plpython*",
};

static bool matches(const char *pattern, const char *name)
{
    const char *star = strchr(pattern, '*');
    if (!star)
        return str_eq(pattern, name);
    size_t n = (size_t)(star - pattern);
    if (strncmp(pattern, name, n) != 0)
        return false;
    return star[1] == '\0' || strchr(star + 1, '*') != NULL || str_ends(name, star + 1);
}

/* Relations and functions that show statements of others, who share this role. */
static const char of_others[] = "pg_stat_activity pg_stat_get_activity "
                                "pg_stat_get_backend_activity pg_stat_statements";

int postgres_check_calls(const struct sql_text *t, struct err *err)
{
    for (size_t i = 0; i < t->n; i++) {
        if (sql_is_name(t, i) && str_has_word(of_others, t->tokens[i].name) &&
            (i == 0 || !sql_is_word(t, i - 1, "as")))
            return err_set(err, ERR_FORBIDDEN, "'%s' has statements of others and is refused",
                           t->tokens[i].name);
        enum sql_call call = sql_call_at(t, i);
        if (call != SQL_CALL_PLAIN && call != SQL_CALL_FIELD)
            continue;
        for (size_t k = 0; k < ARRAY_SIZE(refused); k++)
            if (matches(refused[k], t->tokens[i].name))
                return err_set(err, ERR_FORBIDDEN,
                               "the function '%s' is refused: it has side effects, or reaches "
                               "outside of the database's tables",
                               t->tokens[i].name);
    }
    return 0;
}
