/* The guard and the catalog query of PostgreSQL; see postgres_catalog.h. */

#include "database/postgres_catalog.h"

#include <string.h>
#include "base/macros.h"
#include "base/str.h"

#define LIST_MAX_BYTES (4u << 20)

/* ---- what a statement names ---- */

/* Reserved: these are no functions and no types, whatever the catalog has. */
static const char keywords[] =
    "all and any array as asc between case cast check coalesce desc distinct else end except "
    "exists from group "
    "grouping having in intersect interval into lateral limit not null nullif offset on "
    "or order primary returning row select some table then union unique using values when where "
    "window with";

/* Operators that a keyword calls by their name. */
static const struct {
    const char *keyword, *operators[4];
} implied[] = {
    { "between", { ">=", "<=", "<", ">" } },
    { "like", { "~~", "!~~" } },
    { "ilike", { "~~*", "!~~*" } },
    { "similar", { "~", "!~" } },
    { "in", { "=", "<>" } },
    { "distinct", { "=", "<>" } },
    { "nullif", { "=" } },
    { "case", { "=" } },
    { "using", { "=" } },
    { "natural", { "=" } },
};

static int add_name(struct buf *list, const char *name, struct err *err)
{
    int r = buf_append_str(list, list->len == 1 ? "\"" : ",\"", err);
    for (; *name && r == 0; name++) {
        if (*name == '"' || *name == '\\')
            r = buf_append(list, "\\", 1, err);
        if (r == 0)
            r = buf_append(list, name, 1, err);
    }
    return r == 0 ? buf_append(list, "\"", 1, err) : r;
}

/* PostgreSQL may read a sign at the end of an operator as the sign of what follows. */
static int add_operator(struct buf *list, const char *name, struct err *err)
{
    char text[SQL_NAME_MAX];
    int r = str_eq(name, "!=") ? add_name(list, "<>", err) : 0;
    memcpy(text, name, sizeof(text));
    for (size_t n = strlen(text); n > 0 && r == 0; n--) {
        text[n] = '\0';
        r = add_name(list, text, err);
        if (text[n - 1] != '+' && text[n - 1] != '-')
            break;
    }
    return r;
}

static int add_implied(struct buf *list, const char *keyword, struct err *err)
{
    int r = 0;
    for (size_t i = 0; i < ARRAY_SIZE(implied); i++)
        for (size_t k = 0; k < 4 && r == 0 && str_eq(implied[i].keyword, keyword); k++)
            if (implied[i].operators[k])
                r = add_name(list, implied[i].operators[k], err);
    return r;
}

static bool is_keyword(const struct sql_text *t, size_t i)
{
    return t->tokens[i].kind == SQL_WORD && str_has_word(keywords, t->tokens[i].name);
}

/*
 * Behind '::', AS, RETURNING or another name, and in front of a string or, but for INSERT INTO, a
 * parenthesis. Aliases are in such places, too: they only cost a look at the catalog.
 */
static bool in_place_of_type(const struct sql_text *t, size_t i)
{
    bool made = i + 1 < t->n && t->tokens[i + 1].kind == SQL_STRING;
    bool called = sql_is_mark(t, i + 1, '(');
    while (i >= 2 && sql_is_mark(t, i - 1, '.') && sql_is_name(t, i - 2))
        i -= 2;
    if (i == 0)
        return made || called;
    return made || (called && !sql_is_word(t, i - 1, "into")) || sql_is_word(t, i - 1, "as") ||
           sql_is_word(t, i - 1, "returning") ||
           (t->tokens[i - 1].kind == SQL_OP && str_eq(t->tokens[i - 1].name, "::")) ||
           (sql_is_name(t, i - 1) && !is_keyword(t, i - 1) && !sql_is_word(t, i - 1, "join") &&
            !sql_is_word(t, i - 1, "update") && !sql_is_word(t, i - 1, "only"));
}

static int add_token(const struct sql_text *t, size_t i, struct buf *lists, struct err *err)
{
    const struct sql_token *k = &t->tokens[i];
    enum sql_call call = sql_call_at(t, i);
    int r = 0;
    if (k->kind == SQL_OP)
        return add_operator(&lists[POSTGRES_OPERATORS], k->name, err);
    if (k->kind == SQL_WORD)
        r = add_implied(&lists[POSTGRES_OPERATORS], k->name, err);
    if (r < 0 || !sql_is_name(t, i) || is_keyword(t, i))
        return r;
    if (call != SQL_CALL_NONE)
        r = add_name(&lists[call == SQL_CALL_OF_ROW ? POSTGRES_OF_ROWS : POSTGRES_CALLS], k->name,
                     err);
    if (r == 0)
        r = add_name(&lists[POSTGRES_NAMES], k->name, err);
    if (r == 0 && in_place_of_type(t, i))
        r = add_name(&lists[POSTGRES_TYPES], k->name, err);
    return r;
}

int postgres_names_read(const struct sql_text *t, struct postgres_names *ret, struct err *err)
{
    int r = 0;
    for (size_t i = 0; i < _POSTGRES_LIST_MAX; i++)
        buf_init(&ret->lists[i], LIST_MAX_BYTES);
    for (size_t i = 0; i < _POSTGRES_LIST_MAX && r == 0; i++)
        r = buf_append(&ret->lists[i], "{", 1, err);
    for (size_t i = 0; i < t->n && r == 0; i++)
        r = add_token(t, i, ret->lists, err);
    for (size_t i = 0; i < _POSTGRES_LIST_MAX && r == 0; i++)
        r = buf_append(&ret->lists[i], "}", 1, err);
    return r;
}

void postgres_names_finish(struct postgres_names *n)
{
    for (size_t i = 0; i < _POSTGRES_LIST_MAX; i++)
        buf_finish(&n->lists[i]);
}

/* ---- what the catalog says ---- */

/* Objects that come with PostgreSQL have smaller OIDs. */
#define FIRST_OID "'16384'::oid"

/* Some functions that the catalog calls volatile have no side effects. */
#define HARMLESS                                                                                   \
    "'{random,clock_timestamp,timeofday,gen_random_uuid,pg_relation_size,pg_table_size,"           \
    "pg_total_relation_size,pg_indexes_size,pg_database_size,pg_tablespace_size,currval,lastval,"  \
    "pg_is_in_recovery,pg_current_wal_lsn,current_query,bernoulli,system,system_rows,system_time," \
    "pg_partition_tree,pg_partition_ancestors,pg_jit_available,random_normal,uuidv4,uuidv7}'"
#define NOT_HARMLESS                                                                               \
    " AND NOT (p.oid < " FIRST_OID " AND p.proname = ANY (" HARMLESS "::text[])) "                 \
    "AND p.proname <> ALL ('{uuid_generate_v1,uuid_generate_v1mc,uuid_generate_v4}'::text[])"
/* Operators that call a volatile function; casts that do. */
#define OPERATORS(list)                                                                            \
    "FROM pg_catalog.pg_operator o JOIN pg_catalog.pg_proc p ON p.oid = o.oprcode "                \
    "WHERE o.oprname = ANY (" list ") AND o.oid >= " FIRST_OID " AND p.provolatile = 'v'"
#define CASTS                                                                                      \
    "FROM pg_catalog.pg_cast c JOIN pg_catalog.pg_proc p ON p.oid = c.castfunc "                   \
    "WHERE c.oid >= " FIRST_OID " AND p.provolatile = 'v'"
/*
 * Types of users that may have checks: domains, ranges, arrays and, in the place of a type,
 * composite types. Elsewhere these are the names of tables.
 */
#define TYPES(names, types)                                                                        \
    "FROM pg_catalog.pg_type t WHERE t.typname = ANY (" names ") AND t.oid >= " FIRST_OID          \
    " AND (t.typtype IN ('d', 'r', 'm') OR t.typelem <> 0 "                                        \
    "OR (t.typtype = 'c' AND t.typname = ANY (" types ")))"

/* Small, because each part of a plan costs time at every start of it. */
#define SETTINGS                                                                                   \
    "pg_catalog.set_config('statement_timeout', $1, true), "                                       \
    "pg_catalog.set_config('transaction_read_only', $2, true), "                                   \
    "pg_catalog.set_config('plan_cache_mode', 'auto', true)"

const char postgres_settings_sql[] = "SELECT " SETTINGS;

const char postgres_guard_sql[] =
    "PREPARE " POSTGRES_GUARD " (text, text, text[], text[], text[], text[], text[]) AS "
    "SELECT 1 / (NOT EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.proname = ANY ($3 || $4) "
    "AND (p.provolatile = 'v' OR (p.prokind = 'a' AND p.oid >= " FIRST_OID "))" NOT_HARMLESS
    ") AND NOT EXISTS (SELECT " OPERATORS("$5") ") AND NOT EXISTS (SELECT " CASTS
                                                ") AND NOT EXISTS (SELECT " TYPES(
                                                    "$6", "$7") "))::int, " SETTINGS;

/*
 * Values of a type are made by the checks of domains, also of those inside of it: base types,
 * elements, attributes, bounds of ranges, and types that a check itself converts to. The tree of a
 * check names all of its functions; pg_depend leaves out those that come with PostgreSQL.
 */
const char postgres_catalog_sql[] = "WITH RECURSIVE part (top, oid) AS (SELECT t.typname, t.oid " TYPES(
    "$4::text[]",
    "$5::text[]") " UNION SELECT p.top, x.oid FROM part p JOIN pg_catalog.pg_type t ON t.oid = p.oid, "
                  "LATERAL (SELECT t.typbasetype UNION ALL SELECT t.typelem "
                  "UNION ALL SELECT a.atttypid FROM pg_catalog.pg_attribute a "
                  "WHERE t.typtype = 'c' AND a.attrelid = t.typrelid AND a.attnum > 0 "
                  "UNION ALL SELECT g.rngsubtype FROM pg_catalog.pg_range g WHERE t.typtype IN ('r', 'm') AND "
                  "(g.rngtypid = t.oid OR (pg_catalog.to_jsonb(g) ->> 'rngmultitypid')::oid = t.oid) "
                  "UNION ALL SELECT m[1]::oid FROM pg_catalog.pg_constraint k, "
                  "pg_catalog.regexp_matches(k.conbin::text, ':resulttype (\\d+)', 'g') m "
                  "WHERE t.typtype = 'd' AND k.contypid = t.oid) x (oid) WHERE x.oid <> 0) "
                  "SELECT 'function', p.proname FROM pg_catalog.pg_proc p WHERE (p.proname = ANY ($1::text[]) "
                  "OR (p.proname = ANY ($2::text[]) AND EXISTS (SELECT FROM pg_catalog.unnest(p.proargtypes) a "
                  "JOIN pg_catalog.pg_type t ON t.oid = a WHERE t.typtype IN ('c', 'p')))) "
                  "AND (p.provolatile = 'v' OR (p.prokind = 'a' AND EXISTS (SELECT "
                  "FROM pg_catalog.pg_aggregate g JOIN pg_catalog.pg_proc f ON f.oid IN (g.aggtransfn, "
                  "g.aggfinalfn, g.aggcombinefn, g.aggmtransfn, g.aggminvtransfn, g.aggmfinalfn) "
                  "WHERE g.aggfnoid = p.oid AND f.provolatile = 'v')))" NOT_HARMLESS
                  " UNION ALL SELECT 'operator', o.oprname " OPERATORS(
                      "$3::text[]") " UNION ALL SELECT 'cast to', t.typname FROM pg_catalog.pg_type t "
                                    "WHERE t.typname = ANY ($4::text[]) AND t.oid IN (SELECT c.casttarget " CASTS
                                    ") UNION ALL SELECT 'cast to', x.top FROM part x WHERE x.oid IN (SELECT c.casttarget " CASTS
                                    ") OR EXISTS (SELECT FROM pg_catalog.pg_constraint k, "
                                    "pg_catalog.regexp_matches(k.conbin::text, ':(?:opfuncid|funcid) (\\d+)', 'g') m "
                                    "JOIN pg_catalog.pg_proc p ON p.oid = m[1]::oid "
                                    "WHERE k.contypid = x.oid AND p.provolatile = 'v') LIMIT 1";

/*
 * The locks of a transaction tell what it may have changed: PostgreSQL takes one of these modes on
 * a table before it changes a row, truncates or alters it, and keeps it until the end. Unlike the
 * counters of pg_stat_xact_all_tables, nobody can turn locks off, and they show TRUNCATE, DROP and
 * foreign tables. A table that was locked and has no row in pg_class was dropped. Partitions and
 * heirs are granted with their parent; indexes, TOAST tables and views change with a table that has
 * a lock of its own.
 */
const char postgres_changes_sql[] =
    "PREPARE " POSTGRES_CHANGES " (text) AS "
    "WITH RECURSIVE held (top, oid) AS (SELECT l.relation, l.relation FROM pg_catalog.pg_locks l "
    "LEFT JOIN pg_catalog.pg_class c ON c.oid = l.relation "
    "WHERE l.pid = pg_catalog.pg_backend_pid() AND l.locktype = 'relation' "
    "AND l.mode <> ALL ('{AccessShareLock,RowShareLock,SIReadLock}'::text[]) "
    "AND (c.oid IS NULL OR (c.relkind IN ('r', 'p', 'f', 'm') AND c.relpersistence <> 't')) "
    "UNION SELECT h.top, i.inhparent FROM held h "
    "JOIN pg_catalog.pg_inherits i ON i.inhrelid = h.oid), "
    "named (top, is_top, name) AS (SELECT h.top, h.oid = h.top, CASE n.nspname WHEN 'public' "
    "THEN '' ELSE n.nspname || '.' END || c.relname FROM held h "
    "LEFT JOIN pg_catalog.pg_class c ON c.oid = h.oid "
    "LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace) "
    "SELECT (SELECT coalesce(pg_catalog.max(name) FILTER (WHERE is_top), '(dropped)') FROM named "
    "GROUP BY top HAVING NOT coalesce(pg_catalog.bool_or(name = ANY "
    "(pg_catalog.string_to_array($1, ' '))), false) ORDER BY 1 LIMIT 1), "
    "pg_catalog.set_config('transaction_read_only', 'on', true)";
