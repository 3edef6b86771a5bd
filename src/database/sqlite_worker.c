/* SQLite, in a process of its own; see sqlite_worker.h. */

#include "database/sqlite_worker.h"

#include <ctype.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include "base/clock.h"
#include "base/fdio.h"
#include "base/json.h"
#include "base/macros.h"
#include "base/str.h"
#include "database/params.h"
#include "database/result.h"
#include "database/sqlite_jail.h"

#define CELL_MAX_BYTES (16 << 20)
#define MEMORY_MAX_BYTES (2ll << 30)

struct work {
    const char *sql, *writable;
    bool internal;
    int64_t deadline_ms, timeout_ms;
    struct db_result result;
    char refusal[300]; /* of the authorizer */
};

/* ---- what is allowed ---- */

static const char *const actions[] = {
    [SQLITE_CREATE_INDEX] = "CREATE INDEX",
    [SQLITE_CREATE_TABLE] = "CREATE TABLE",
    [SQLITE_CREATE_TEMP_INDEX] = "CREATE",
    [SQLITE_CREATE_TEMP_TABLE] = "CREATE TEMP TABLE",
    [SQLITE_CREATE_TEMP_TRIGGER] = "CREATE",
    [SQLITE_CREATE_TEMP_VIEW] = "CREATE TEMP VIEW",
    [SQLITE_CREATE_TRIGGER] = "CREATE",
    [SQLITE_CREATE_VIEW] = "CREATE VIEW",
    [SQLITE_DELETE] = "DELETE",
    [SQLITE_DROP_INDEX] = "DROP INDEX",
    [SQLITE_DROP_TABLE] = "DROP TABLE",
    [SQLITE_DROP_TEMP_INDEX] = "DROP",
    [SQLITE_DROP_TEMP_TABLE] = "DROP",
    [SQLITE_DROP_TEMP_TRIGGER] = "DROP",
    [SQLITE_DROP_TEMP_VIEW] = "DROP",
    [SQLITE_DROP_TRIGGER] = "DROP",
    [SQLITE_DROP_VIEW] = "DROP VIEW",
    [SQLITE_INSERT] = "INSERT",
    [SQLITE_PRAGMA] = "PRAGMA",
    [SQLITE_TRANSACTION] = "a transaction",
    [SQLITE_UPDATE] = "UPDATE",
    [SQLITE_ATTACH] = "ATTACH or VACUUM",
    [SQLITE_DETACH] = "DETACH",
    [SQLITE_ALTER_TABLE] = "ALTER TABLE",
    [SQLITE_REINDEX] = "REINDEX",
    [SQLITE_ANALYZE] = "ANALYZE",
    [SQLITE_CREATE_VTABLE] = "CREATE VIRTUAL TABLE",
    [SQLITE_DROP_VTABLE] = "DROP",
    [SQLITE_SAVEPOINT] = "SAVEPOINT",
    [SQLITE_FUNCTION] = "the function",
};

static int refuse(struct work *w, int action, const char *what)
{
    const char *name = (size_t)action < ARRAY_SIZE(actions) ? actions[action] : NULL;
    char shown[STR_SHOWN_SIZE];
    /* A change of the schema begins with a row of its table. */
    if (str_eq(what, "sqlite_master") || str_eq(what, "sqlite_temp_master")) {
        name = "changing the schema";
        what = NULL;
    }
    if (!*w->refusal)
        snprintf(w->refusal, sizeof(w->refusal), "%s%s%s is refused: this database is read-only",
                 name ? name : "this", what ? " " : "",
                 what ? str_show(what, strlen(what), shown, sizeof(shown)) : "");
    return SQLITE_DENY;
}

static int authorize(void *arg, int action, const char *a, const char *b, const char *database,
                     const char *inner)
{
    struct work *w = arg;
    (void)database;
    (void)inner;
    if (w->internal)
        return SQLITE_OK; /* one of Riddle's own; the file is open for reading */
    switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_RECURSIVE:
        return SQLITE_OK;
    case SQLITE_FUNCTION:
        return b && (str_ieq(b, "load_extension") || str_ieq(b, "fts3_tokenizer")) ?
                   refuse(w, action, b) :
                   SQLITE_OK;
    case SQLITE_PRAGMA:
        return a && str_has_word("table_info table_xinfo table_list index_list index_info "
                                 "index_xinfo foreign_key_list collation_list function_list "
                                 "compile_options",
                                 a) ?
                   SQLITE_OK :
                   refuse(w, action, a);
    case SQLITE_INSERT:
    case SQLITE_UPDATE:
    case SQLITE_DELETE:
        /* Declaring the columns of json_each() asks for this; SQLite itself keeps the table. */
        if (str_eq(a, "sqlite_master"))
            return SQLITE_OK;
        return a && w->writable && str_has_word(w->writable, a) ? SQLITE_OK : refuse(w, action, a);
    default:
        return refuse(w, action, a);
    }
}

static int on_progress(void *arg)
{
    const struct work *w = arg;
    return clock_now_ms() >= w->deadline_ms;
}

/* ---- parameters ---- */

static int bind_value(sqlite3_stmt *stmt, int i, const char *name, const json_t *value,
                      struct err *err)
{
    struct db_param p;
    int r = db_param_read(name, value, &p, err), code = SQLITE_OK;
    const char *text = buf_cstr(&p.text);
    if (r == 0 && p.type == DB_PARAM_ARRAY)
        r = json_write(p.items, &p.text, err);
    text = buf_cstr(&p.text);
    if (r < 0)
        ;
    else if (p.type == DB_PARAM_NULL)
        code = sqlite3_bind_null(stmt, i);
    else if (p.type == DB_PARAM_BOOL)
        code = sqlite3_bind_int(stmt, i, *text == 't');
    else if (p.type == DB_PARAM_INTEGER &&
             str_parse_i64(text, "", INT64_MIN, INT64_MAX, &(long long){ 0 }, NULL) == 0)
        code = sqlite3_bind_int64(stmt, i, atoll(text));
    else if (p.type == DB_PARAM_REAL)
        code = sqlite3_bind_double(stmt, i, strtod(text, NULL));
    else if (p.type == DB_PARAM_BYTES)
        code = sqlite3_bind_blob(stmt, i, text, (int)p.text.len, SQLITE_TRANSIENT);
    else
        code = sqlite3_bind_text(stmt, i, text, (int)p.text.len, SQLITE_TRANSIENT);
    db_param_finish(&p);
    return r == 0 && code != SQLITE_OK ?
               err_set(err, ERR_VALIDATION, "the parameter ':%s' cannot be bound", name) :
               r;
}

static int bind_all(sqlite3_stmt *stmt, const json_t *params, struct err *err)
{
    for (int i = 1; i <= sqlite3_bind_parameter_count(stmt); i++) {
        const char *name = sqlite3_bind_parameter_name(stmt, i);
        if (!name || *name != ':')
            return err_set(err, ERR_FORBIDDEN, "parameters are written ':name'");
        const json_t *value = json_object_get(params, name + 1);
        if (!value)
            return err_set(err, ERR_VALIDATION, "the parameter '%s' was not given", name);
        int r = bind_value(stmt, i, name + 1, value, err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- rows ---- */

/* What the cells of a column were so far. */
enum seen { SEEN_INTEGER = 1, SEEN_REAL = 2, SEEN_TEXT = 4, SEEN_BLOB = 8 };

static bool looks_like(const char *s, size_t len, const char *pattern)
{
    size_t n = strlen(pattern);
    if (len < n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (pattern[i] == '0' ? !isdigit((unsigned char)s[i]) :
            pattern[i] == ' ' ? s[i] != ' ' && s[i] != 'T' :
                                s[i] != pattern[i])
            return false;
    return true;
}

static bool all_like(const struct db_column *c, const char *pattern, bool exactly)
{
    struct db_cursor at = { .column = c };
    struct db_cell cell;
    while (db_cursor_next(&at, &cell))
        if (cell.data &&
            (!looks_like(cell.data, cell.len, pattern) || (exactly && cell.len != strlen(pattern))))
            return false;
    return true;
}

static bool all_bits(const struct db_column *c)
{
    struct db_cursor at = { .column = c };
    struct db_cell cell;
    while (db_cursor_next(&at, &cell))
        if (cell.data && (cell.len != 1 || (*cell.data != '0' && *cell.data != '1')))
            return false;
    return true;
}

/* SQLite has no dates and no booleans; a declaration and values that agree make one. */
static const char *type_of(const struct db_column *c, unsigned seen, const char *declared)
{
    char word[32] = "";
    for (size_t i = 0; declared && declared[i] && i + 1 < sizeof(word); i++) {
        word[i] = (char)toupper((unsigned char)declared[i]);
        word[i + 1] = '\0';
    }
    if (seen == SEEN_INTEGER && str_starts(word, "BOOL") && all_bits(c))
        return "BOOLEAN";
    if (seen == SEEN_TEXT && str_eq(word, "DATE") && all_like(c, "0000-00-00", true))
        return "DATE";
    if (seen == SEEN_TEXT && (str_starts(word, "TIMESTAMP") || str_eq(word, "DATETIME")) &&
        all_like(c, "0000-00-00 00:00", false))
        return "TIMESTAMP";
    if (seen == SEEN_INTEGER)
        return "BIGINT";
    if (seen != 0 && (seen & ~(unsigned)(SEEN_INTEGER | SEEN_REAL)) == 0)
        return "DOUBLE";
    return seen == SEEN_BLOB ? "BLOB" : "VARCHAR";
}

static int take_row(sqlite3_stmt *stmt, struct db_result *r, unsigned *seen, struct err *err)
{
    size_t n = r->n_columns;
    auto_free struct db_cell *cells = calloc(n ? n : 1, sizeof(*cells));
    auto_buf struct buf scratch = BUF_INIT((size_t)256 << 20);
    auto_free size_t *at = calloc(n ? n : 1, sizeof(*at));
    int e = cells && at ? 0 : err_set(err, ERR_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < n && e == 0; i++) {
        int type = sqlite3_column_type(stmt, (int)i);
        char text[STR_DOUBLE_SIZE];
        at[i] = scratch.len;
        cells[i].data = type == SQLITE_NULL ? NULL : "";
        if (type == SQLITE_INTEGER) {
            seen[i] |= SEEN_INTEGER;
            e = buf_printf(&scratch, err, "%lld", (long long)sqlite3_column_int64(stmt, (int)i));
        } else if (type == SQLITE_FLOAT) {
            seen[i] |= SEEN_REAL;
            str_from_double(sqlite3_column_double(stmt, (int)i), text);
            e = buf_append_str(&scratch, text, err);
        } else if (type == SQLITE_TEXT) {
            seen[i] |= SEEN_TEXT;
            e = buf_append(&scratch, sqlite3_column_text(stmt, (int)i),
                           (size_t)sqlite3_column_bytes(stmt, (int)i), err);
        } else if (type == SQLITE_BLOB) {
            const unsigned char *blob = sqlite3_column_blob(stmt, (int)i);
            seen[i] |= SEEN_BLOB;
            for (int k = 0; k < sqlite3_column_bytes(stmt, (int)i) && e == 0; k++)
                e = buf_printf(&scratch, err, "%02x", blob[k]);
        }
        cells[i].len = scratch.len - at[i];
    }
    for (size_t i = 0; i < n && e == 0; i++)
        if (cells[i].data)
            cells[i].data = buf_cstr(&scratch) + at[i];
    return e < 0 ? e : db_result_add_row(r, cells, err);
}

static int take_all(sqlite3 *db, sqlite3_stmt *stmt, struct work *w, struct err *err)
{
    struct db_result *r = &w->result;
    int n = sqlite3_column_count(stmt), e = 0, code;
    auto_free unsigned *seen = calloc((size_t)MAX_OF(n, 1), sizeof(*seen));
    if (!seen)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    for (int i = 0; i < n && e == 0; i++)
        e = db_result_add_column(r, sqlite3_column_name(stmt, i), "VARCHAR", err);
    while (e == 0 && (code = sqlite3_step(stmt)) == SQLITE_ROW)
        e = take_row(stmt, r, seen, err);
    if (e < 0 && !r->truncated)
        return e;
    if (e == 0 && code == SQLITE_INTERRUPT)
        return err_set(err, ERR_TIMEOUT, "the query took longer than %lld ms",
                       (long long)w->timeout_ms);
    if (e == 0 && code != SQLITE_DONE)
        return err_set(err, *w->refusal ? ERR_FORBIDDEN : ERR_VALIDATION, "%s",
                       *w->refusal ? w->refusal : sqlite3_errmsg(db));
    for (int i = 0; i < n; i++) {
        struct db_column *c = &r->columns[i];
        free(c->type);
        c->type = strdup(type_of(c, seen[i], sqlite3_column_decltype(stmt, i)));
        if (!c->type)
            return err_set(err, ERR_NO_MEMORY, "out of memory");
    }
    if (!sqlite3_stmt_readonly(stmt))
        r->affected_rows = sqlite3_changes64(db);
    return 0;
}

/* ---- one request ---- */

static int open_file(const json_t *req, struct work *w, sqlite3 **ret, struct err *err)
{
    const char *path = json_string_value(json_object_get(req, "path"));
    int flags = w->writable ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY;
    if (!path || sqlite3_open_v2(path, ret, flags | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
        return err_set(err, ERR_UNAVAILABLE, "its file cannot be opened");
    sqlite3_busy_timeout(*ret, 2000);
    sqlite3_limit(*ret, SQLITE_LIMIT_LENGTH, CELL_MAX_BYTES);
    sqlite3_limit(*ret, SQLITE_LIMIT_ATTACHED, 0);
    sqlite3_db_config(*ret, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(*ret, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(*ret, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, NULL);
    /* Sorting has no other place: files of its own are out of reach. */
    (void)sqlite3_exec(*ret, "PRAGMA temp_store = MEMORY", NULL, NULL, NULL);
    /* So that the authorizer sees what a foreign key would change. */
    sqlite3_db_config(*ret, SQLITE_DBCONFIG_ENABLE_FKEY, 1, NULL);
    if (!w->writable && sqlite3_exec(*ret, "PRAGMA query_only = ON", NULL, NULL, NULL) != SQLITE_OK)
        return err_set(err, ERR_UNAVAILABLE, "its file is no SQLite database, or is locked");
    return 0;
}

/* Blanks and comments. */
static bool is_empty(const char *s)
{
    for (;;) {
        s += strspn(s, " \t\r\n\f;");
        if (s[0] == '-' && s[1] == '-')
            s += strcspn(s, "\n");
        else if (s[0] == '/' && s[1] == '*') {
            const char *end = strstr(s + 2, "*/");
            s = end ? end + 2 : s + strlen(s);
        } else {
            return *s == '\0';
        }
    }
}

static int run(sqlite3 *db, const json_t *req, struct work *w, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    const char *tail = NULL;
    int r = 0;
    sqlite3_set_authorizer(db, authorize, w);
    sqlite3_progress_handler(db, 1000, on_progress, w);
    int code = sqlite3_prepare_v2(db, w->sql, -1, &stmt, &tail);
    if (*w->refusal)
        r = err_set(err, ERR_FORBIDDEN, "%s", w->refusal);
    else if (code != SQLITE_OK && strstr(sqlite3_errmsg(db), "may not be modified"))
        r = err_set(err, ERR_FORBIDDEN, "%s", sqlite3_errmsg(db));
    else if (code != SQLITE_OK)
        r = err_set(err,
                    code == SQLITE_BUSY || code == SQLITE_NOTADB ? ERR_UNAVAILABLE : ERR_VALIDATION,
                    "%s", sqlite3_errmsg(db));
    else if (!stmt)
        r = err_set(err, ERR_VALIDATION, "there is no statement");
    else if (!is_empty(tail))
        r = err_set(err, ERR_FORBIDDEN, "only one statement is allowed");
    else if (!sqlite3_stmt_readonly(stmt) && !w->writable)
        r = err_set(err, ERR_FORBIDDEN, "this database is read-only");
    if (r == 0)
        r = bind_all(stmt, json_object_get(req, "params"), err);
    if (r == 0)
        r = take_all(db, stmt, w, err);
    sqlite3_finalize(stmt);
    return r;
}

static int answer(const struct db_result *r, const struct err *failed)
{
    struct err err = ERR_INIT;
    auto_buf struct buf line = BUF_INIT(SQLITE_WORKER_LINE_MAX);
    auto_json json_t *j = json_object();
    if (failed) {
        json_object_set_new(j, "error", json_error(failed));
    } else {
        json_t *columns = json_array(), *types = json_array(), *bytes = json_array();
        for (size_t i = 0; i < r->n_columns; i++) {
            const struct db_column *c = &r->columns[i];
            json_array_append_new(columns, json_text(c->name, strlen(c->name)));
            json_array_append_new(types, json_string(c->type));
            json_array_append_new(bytes, json_integer((json_int_t)c->cells.len));
        }
        json_object_set_new(j, "columns", columns);
        json_object_set_new(j, "types", types);
        json_object_set_new(j, "bytes", bytes);
        json_object_set_new(j, "rows", json_integer(r->n_rows));
        json_object_set_new(j, "truncated", json_boolean(r->truncated));
        json_object_set_new(j, "affected", json_integer(r->affected_rows));
    }
    int e = json_write(j, &line, &err);
    if (e == 0)
        e = buf_append_str(&line, "\n", &err);
    if (e == 0)
        e = fd_write_all(STDOUT_FILENO, line.data, line.len, &err);
    for (size_t i = 0; e == 0 && !failed && i < r->n_columns; i++)
        if (r->columns[i].cells.len > 0)
            e = fd_write_all(STDOUT_FILENO, r->columns[i].cells.data, r->columns[i].cells.len,
                             &err);
    return e;
}

/* The first request names the file; from then on there is no other. */
static int enter_jail(const json_t *req, const struct work *w, struct err *err)
{
    static bool is_closed;
    const char *path = json_string_value(json_object_get(req, "path"));
    if (is_closed)
        return 0;
    if (!path)
        return err_set(err, ERR_PROTOCOL, "no file");
    is_closed = true;
    if (sqlite_jail(path, w->writable != NULL, err) < 0)
        exit(EXIT_FAILURE); /* nothing is read without it */
    return 0;
}

static int serve(const char *line, size_t len)
{
    auto_json json_t *req = NULL;
    struct err err = ERR_INIT;
    struct work w = { .internal = false };
    sqlite3 *db = NULL;
    int r = json_parse(line, len, &req, &err);
    w.sql = json_string_value(json_object_get(req, "sql"));
    w.writable = json_string_value(json_object_get(req, "writable"));
    w.internal = json_is_true(json_object_get(req, "internal"));
    w.timeout_ms = json_integer_value(json_object_get(req, "timeout_ms"));
    w.deadline_ms = clock_now_ms() + w.timeout_ms;
    db_result_init(&w.result, json_integer_value(json_object_get(req, "max_rows")),
                   json_integer_value(json_object_get(req, "max_bytes")));
    if (r == 0 && !w.sql)
        r = err_set(&err, ERR_PROTOCOL, "no statement");
    if (r == 0)
        r = enter_jail(req, &w, &err);
    if (r == 0)
        r = open_file(req, &w, &db, &err);
    if (r == 0)
        r = run(db, req, &w, &err);
    sqlite3_close(db);
    r = answer(&w.result, r < 0 ? &err : NULL);
    db_result_finish(&w.result);
    return r;
}

int sqlite_worker_main(void)
{
    struct err err = ERR_INIT;
    struct rlimit memory = { MEMORY_MAX_BYTES, MEMORY_MAX_BYTES }, none = { 0, 0 };
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    (void)fd_close_all_but(3, NULL, 0, &err);
#ifndef __SANITIZE_ADDRESS__
    (void)setrlimit(RLIMIT_AS, &memory);
#else
    (void)memory;
#endif
    (void)setrlimit(RLIMIT_CORE, &none);
    signal(SIGINT, SIG_IGN); /* of a terminal: riddle ends us */
    while ((n = getline(&line, &cap, stdin)) > 0)
        if (serve(line, (size_t)n) < 0)
            break;
    free(line);
    return 0;
}
