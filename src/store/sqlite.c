/*
 * The default store: one SQLite file. Write-ahead log, so that readers never wait for the writer,
 * and synchronous=FULL, so that a commit returns when it is on the disk. One connection writes and
 * STORE_READERS others read; each is used by one thread, so SQLite's own locks are off. Every
 * statement is prepared once per connection and found again by what it does; its text is made from
 * the tables of record.c.
 */

#include "store/sqlite_impl.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include "base/fdio.h"
#include "base/limits.h"
#include "base/str.h"
#include "store/store_impl.h"

#define STATEMENTS_MAX 48
#define SQL_MAX_BYTES 8192
#define LIKE_WORDS_MAX 60
#define SCRUB_BUSY_MS 100

enum verb {
    VERB_BEGIN,
    VERB_COMMIT,
    VERB_PUT,
    VERB_CREATE,
    VERB_REMOVE,
    VERB_ABANDON,
    VERB_EXPIRE,
    VERB_DROP_FIGURES,
    VERB_TRIM,
    VERB_GET,
    VERB_LIST,
    VERB_UPLOAD_BYTES,
    VERB_KEPT_BYTES,
};

/* What a statement does: verb, kind of record, and a bit for each filter of a list. */
#define KEY(verb, type, bits) ((uint32_t)(verb) | (uint32_t)(type) << 8 | (uint32_t)(bits) << 16)
#define BIT_OWNER (1u << 0) /* as query_filters has it */
#define BIT_DATASET (1u << 1)
#define BIT_LIKE (1u << QUERY_LIKE)
#define BIT_AFTER (1u << QUERY_FILTERS)
#define BIT_NAMED (1u << (QUERY_FILTERS + 1)) /* the data set's id is not empty */

struct statement {
    uint32_t key;
    sqlite3_stmt *stmt;
    uint64_t used;
};

struct connection {
    sqlite3 *db;
    const char *path;
    struct statement statements[STATEMENTS_MAX];
    uint64_t uses;
};

struct store_backend {
    char *path;
    int busy_timeout_ms;
    dev_t device; /* of the file that was opened */
    ino_t inode;
    struct connection writer;
    struct connection readers[STORE_READERS];
};

/* ---- text of the statements ---- */

static int sql_columns(struct buf *b, enum record_type type, unsigned without, struct err *err)
{
    const struct record_info *info = &record_infos[type];
    const char *separator = "";
    for (size_t i = 0; i < info->n_fields; i++) {
        if (info->fields[i].flags & without)
            continue;
        int r = buf_printf(b, err, "%s\"%s\"", separator, info->fields[i].name);
        if (r < 0)
            return r;
        separator = ", ";
    }
    return 0;
}

static int sql_put(struct buf *b, enum record_type type, bool create, struct err *err)
{
    const struct record_info *info = &record_infos[type];
    const char *separator = "";
    int r = buf_printf(b, err, "INSERT INTO %s (", info->table);
    if (r == 0)
        r = sql_columns(b, type, FIELD_KEPT, err);
    if (r == 0)
        r = buf_append_str(b, ") VALUES (", err);
    for (size_t i = 0; r == 0 && i < info->n_fields; i++) {
        if (info->fields[i].flags & FIELD_KEPT)
            continue;
        r = buf_printf(b, err, "%s?", separator);
        separator = ", ";
    }
    if (r < 0 || type == RECORD_MESSAGE)
        return r < 0 ? r : buf_append_str(b, ")", err);
    r = buf_printf(b, err, ") ON CONFLICT (%s%s) DO ", info->own_ids ? "owner, " : "", info->key);
    if (r < 0 || create)
        return r < 0 ? r : buf_append_str(b, "NOTHING", err);
    r = buf_append_str(b, "UPDATE SET ", err);
    separator = "";
    for (size_t i = 0; r == 0 && i < info->n_fields; i++) {
        const struct record_field *f = &info->fields[i];
        if (f->flags & (FIELD_KEPT | FIELD_FIXED))
            continue;
        r = buf_printf(b, err, "%s\"%s\" = excluded.\"%s\"", separator, f->name, f->name);
        separator = ", ";
    }
    /* Another owner's record is not touched; that no row changed tells. */
    return r < 0 ? r : buf_printf(b, err, " WHERE %s.owner = excluded.owner", info->table);
}

static int sql_list(struct buf *b, enum record_type type, unsigned bits, struct err *err)
{
    const struct record_info *info = &record_infos[type];
    const char *separator = "WHERE";
    int r = buf_append_str(b, "SELECT ", err);
    if (r == 0)
        r = sql_columns(b, type, FIELD_HEAVY, err);
    if (r == 0)
        r = buf_printf(b, err, " FROM %s ", info->table);
    if (r == 0 && bits & BIT_LIKE)
        r = buf_append_str(b, "JOIN verified_words ON verified_words.rowid = verified.id ", err);
    for (size_t i = 0; r == 0 && i < QUERY_FILTERS; i++) {
        const struct query_filter *f = &query_filters[i];
        if (!(bits & 1u << i))
            continue;
        r = buf_printf(b, err, "%s %s %s ?%s ", separator, f->column ? f->column : info->sort,
                       f->op, str_eq(f->op, "LIKE") ? " ESCAPE '\\'" : "");
        separator = "AND";
    }
    if (r == 0 && type == RECORD_CAPSULE && bits & BIT_NAMED) /* as the index of them says */
        r = buf_append_str(b, "AND dataset_id <> '' ", err);
    if (r < 0)
        return r;
    if (type == RECORD_MESSAGE)
        return buf_printf(b, err, "%s%sORDER BY id DESC LIMIT ?", bits & BIT_AFTER ? separator : "",
                          bits & BIT_AFTER ? " id < ? " : "");
    if (bits & BIT_LIKE)
        return buf_printf(b, err, "ORDER BY bm25(verified_words), %s DESC LIMIT ?", info->sort);
    if (bits & BIT_AFTER) {
        r = buf_printf(b, err, "%s (%s, %s) < (?, ?) ", separator, info->sort, info->key);
        if (r < 0)
            return r;
    }
    return buf_printf(b, err, "ORDER BY %s DESC, %s DESC LIMIT ?", info->sort, info->key);
}

static int sql_text(struct buf *b, enum verb verb, enum record_type type, unsigned bits,
                    struct err *err)
{
    const struct record_info *info = &record_infos[type];
    const char *owned = bits & BIT_OWNER ? " AND owner = ?" : "";
    int r;
    switch (verb) {
    case VERB_BEGIN:
        return buf_append_str(b, "BEGIN IMMEDIATE", err);
    case VERB_COMMIT:
        return buf_append_str(b, "COMMIT", err);
    case VERB_PUT:
    case VERB_CREATE:
        return sql_put(b, type, verb == VERB_CREATE, err);
    case VERB_REMOVE:
        return buf_printf(b, err, "DELETE FROM %s WHERE %s = ?%s", info->table, info->key, owned);
    case VERB_ABANDON:
        return buf_append_str(b,
                              "UPDATE run_capsules SET status = 'failed', error_json = ? "
                              "WHERE status IN ('queued', 'running')",
                              err);
    case VERB_EXPIRE:
        return buf_printf(b, err,
                          "DELETE FROM run_capsules WHERE run_id IN ("
                          "WITH RECURSIVE owners (owner) AS (SELECT min(owner) FROM run_sizes "
                          "UNION ALL SELECT (SELECT min(owner) FROM run_sizes "
                          "WHERE owner > owners.owner) FROM owners WHERE owner IS NOT NULL) "
                          "SELECT run_id FROM owners CROSS JOIN run_sizes USING (owner) "
                          "WHERE created_at < ? LIMIT %d)",
                          STORE_TRIM_MAX);
    case VERB_DROP_FIGURES:
        return buf_append_str(b, sqlite_drop_figures, err);
    case VERB_TRIM:
        return buf_append_str(b, sqlite_trim_runs, err);
    case VERB_GET:
        r = buf_append_str(b, "SELECT ", err);
        if (r == 0)
            r = sql_columns(b, type, 0, err);
        return r < 0 ? r :
                       buf_printf(b, err, " FROM %s WHERE %s = ?%s LIMIT 1", info->table, info->key,
                                  owned);
    case VERB_LIST:
        return sql_list(b, type, bits, err);
    case VERB_UPLOAD_BYTES:
        return buf_printf(b, err, "SELECT coalesce(sum(size_bytes), 0) FROM uploads%s",
                          bits & BIT_OWNER ? " WHERE owner = ?" : "");
    case VERB_KEPT_BYTES:
        return buf_append_str(b, "SELECT coalesce(max(bytes), 0) FROM owner_sizes WHERE owner = ?",
                              err);
    }
    abort();
}

/* ---- connections ---- */

/*
 * The prepared statement of this key; the least recently used one makes room. Not to be finalized
 * by the caller.
 */
static int prepare(struct connection *c, enum verb verb, enum record_type type, unsigned bits,
                   sqlite3_stmt **ret, struct err *err)
{
    uint32_t key = KEY(verb, type, bits);
    struct statement *oldest = &c->statements[0];
    for (size_t i = 0; i < STATEMENTS_MAX; i++) {
        struct statement *s = &c->statements[i];
        if (s->stmt && s->key == key) {
            s->used = ++c->uses;
            *ret = s->stmt;
            return 0;
        }
        if (s->used < oldest->used)
            oldest = s;
    }
    auto_buf struct buf text = BUF_INIT(SQL_MAX_BYTES);
    int r = sql_text(&text, verb, type, bits, err);
    if (r < 0)
        return r;
    sqlite3_finalize(oldest->stmt);
    *oldest = (struct statement){ .key = key };
    int code = sqlite3_prepare_v3(c->db, text.data, (int)text.len + 1, SQLITE_PREPARE_PERSISTENT,
                                  &oldest->stmt, NULL);
    if (code != SQLITE_OK)
        return sqlite_error(c->db, code, c->path, "preparing", err);
    oldest->used = ++c->uses;
    *ret = oldest->stmt;
    return 0;
}

/* Runs a statement that gives no rows. ret_n (may be NULL) is how many rows changed. */
static int finish(struct connection *c, sqlite3_stmt *stmt, const char *doing, int64_t *ret_n,
                  struct err *err)
{
    int r = 0;
    int code = sqlite3_step(stmt);
    if (code != SQLITE_DONE)
        r = sqlite_error(c->db, code, c->path, doing, err);
    else if (ret_n)
        *ret_n = sqlite3_changes64(c->db);
    sqlite3_reset(stmt);
    sqlite3_clear_bindings(stmt);
    return r;
}

/*
 * Binding fails only for want of memory or a wrong index; the step that follows would then store
 * NULL.
 */
static int bind_text(struct connection *c, sqlite3_stmt *stmt, int at, const char *text,
                     struct err *err)
{
    int code = sqlite3_bind_text(stmt, at, text, -1, SQLITE_STATIC); /* NULL binds NULL */
    return code == SQLITE_OK ? 0 : sqlite_error(c->db, code, c->path, "binding", err);
}

static int bind_int(struct connection *c, sqlite3_stmt *stmt, int at, int64_t value,
                    struct err *err)
{
    int code = sqlite3_bind_int64(stmt, at, value);
    return code == SQLITE_OK ? 0 : sqlite_error(c->db, code, c->path, "binding", err);
}

static void connection_close(struct connection *c)
{
    for (size_t i = 0; i < STATEMENTS_MAX; i++)
        sqlite3_finalize(c->statements[i].stmt);
    int code = sqlite3_close(c->db);
    assert(code == SQLITE_OK);
    (void)code;
    *c = (struct connection){ .db = NULL };
}

static int connection_open(struct connection *c, const char *path, int busy_timeout_ms,
                           struct err *err)
{
    c->path = path;
    int code = sqlite3_open_v2(path, &c->db,
                               SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX |
                                   SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_EXRESCODE,
                               NULL);
    if (code != SQLITE_OK)
        return sqlite_error(c->db, code, path, "opening", err);
    sqlite3_busy_timeout(c->db, busy_timeout_ms);
    sqlite3_db_config(c->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_limit(c->db, SQLITE_LIMIT_LENGTH, RECORD_MAX_BYTES);
    if (sqlite3_db_readonly(c->db, "main") == 1) /* SQLite falls back to reading */
        return err_set(
            err, ERR_IO,
            "opening: the store '%s' cannot be written; make the file writable for this user, or "
            "set CAPSULE_DB_PATH",
            path);
    return 0;
}

static int set_wal(struct connection *c, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int code = sqlite3_prepare_v2(c->db, "PRAGMA journal_mode = WAL", -1, &stmt, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_step(stmt);
    int r = 0;
    if (code != SQLITE_ROW)
        r = sqlite_error(c->db, code, c->path, "opening", err);
    else if (!str_eq((const char *)sqlite3_column_text(stmt, 0), "wal"))
        r = err_set(
            err, ERR_IO,
            "opening: the store '%s' lies on a file system without shared memory, which a write-ahead "
            "log needs; set CAPSULE_DB_PATH to a local disk",
            c->path);
    sqlite3_finalize(stmt);
    return r;
}

/* ---- opening ---- */

/*
 * Only a file that is not there is made here, private to this user: opening and closing an existing
 * one would drop the locks that this process may have on it. Its name is synced; SQLite does that
 * for its log only.
 */
static int create_file(const char *path, struct err *err)
{
    auto_free char *dir = strdup(path);
    if (!dir)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    char *slash = strrchr(dir, '/');
    strcpy(slash ? (slash == dir ? slash + 1 : slash) : dir, slash ? "" : ".");
    if (fd_mkdir_p(dir, 0700, err) < 0)
        return err_wrap(err,
                        "making the directory of the store; set RIDDLE_HOME or CAPSULE_DB_PATH");
    auto_close int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno == EEXIST ?
                   0 :
                   err_errno(err, ERR_IO, errno,
                             "opening: the store '%s' cannot be made; make its directory writable "
                             "for this user, or set CAPSULE_DB_PATH",
                             path);
    auto_close int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0 || fsync(dir_fd) < 0)
        return err_errno(err, ERR_IO, errno, "opening: syncing '%s'", dir);
    return 0;
}

static void backend_close(struct store_backend *b)
{
    if (!b)
        return;
    for (size_t i = 0; i < STORE_READERS; i++)
        connection_close(&b->readers[i]);
    connection_close(&b->writer); /* the last one moves the log into the database */
    free(b->path);
    free(b);
}

static int backend_connect(struct store_backend *b, int busy_timeout_ms, struct err *err)
{
    struct connection *w = &b->writer;
    int r = connection_open(w, b->path, busy_timeout_ms, err);
    if (r == 0) /* before anything of it is changed: it may be another program's */
        r = sqlite_check(w->db, b->path, err);
    /* A new file can give back what is removed from it. One that has tables stays as it is. */
    if (r == 0)
        r = sqlite_exec(w->db, b->path, "opening", "PRAGMA auto_vacuum = INCREMENTAL", err);
    if (r == 0)
        r = set_wal(w, err);
    if (r == 0) /* what is removed is overwritten, also in pages that stay in use */
        r = sqlite_exec(
            w->db, b->path, "opening",
            "PRAGMA secure_delete = ON; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;"
            "PRAGMA cell_size_check = ON;"
            "PRAGMA temp_store = MEMORY; PRAGMA cache_size = -8000;"
            "PRAGMA journal_size_limit = 67108864",
            err);
    if (r == 0)
        r = sqlite_migrate(w->db, b->path, err);
    for (size_t i = 0; r == 0 && i < STORE_READERS; i++) {
        r = connection_open(&b->readers[i], b->path, busy_timeout_ms, err);
        if (r == 0)
            r = sqlite_exec(
                b->readers[i].db, b->path, "opening",
                "PRAGMA query_only = ON; PRAGMA cell_size_check = ON; PRAGMA temp_store = MEMORY;"
                "PRAGMA cache_size = -4000",
                err);
    }
    return r;
}

static int backend_open(const struct store_options *options, struct store_backend **ret,
                        struct err *err)
{
    /* SQLite takes "" and ":memory:" for databases that nobody else sees. */
    if (!options->path || !options->path[0] || options->path[0] == ':')
        return err_set(err, ERR_CONFIG, "opening: the store needs the path of a file");
    int r = create_file(options->path, err);
    if (r < 0)
        return r;
    struct store_backend *b = calloc(1, sizeof(*b));
    if (!b || !(b->path = strdup(options->path))) {
        free(b);
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    }
    b->busy_timeout_ms = options->busy_timeout_ms;
    r = backend_connect(b, options->busy_timeout_ms, err);
    struct stat st;
    if (r == 0 && stat(b->path, &st) < 0)
        r = err_errno(err, ERR_IO, errno, "opening the store '%s'", b->path);
    if (r == 0) {
        b->device = st.st_dev;
        b->inode = st.st_ino;
    }
    if (r < 0) {
        backend_close(b);
        return r;
    }
    *ret = b;
    return 0;
}

/* ---- writing ---- */

static int run_verb(struct store_backend *b, enum verb verb, const char *doing, struct err *err)
{
    sqlite3_stmt *stmt;
    int r = prepare(&b->writer, verb, 0, 0, &stmt, err);
    return r < 0 ? r : finish(&b->writer, stmt, doing, NULL, err);
}

/*
 * A file that was deleted or replaced still takes writes, and the next server would know nothing of
 * them.
 */
static int backend_check(struct store_backend *b, struct err *err)
{
    struct stat st;
    if (stat(b->path, &st) == 0 && st.st_dev == b->device && st.st_ino == b->inode)
        return 0;
    return err_set(err, ERR_IO,
                   "writing: the store '%s' was deleted or replaced while the server runs, "
                   "so nothing more is written to it; "
                   "stop the server, then put it back or run 'riddle restore' with a backup",
                   b->path);
}

/*
 * Pages that are free go back to the disk, and the log, which has earlier contents of pages, is
 * emptied.
 */
static int backend_scrub(struct store_backend *b, struct err *err)
{
    static const char doing[] = "emptying the log";
    sqlite3 *db = b->writer.db;
    int r = sqlite_exec(db, b->path, doing, "PRAGMA incremental_vacuum", err);
    sqlite3_busy_timeout(db, SCRUB_BUSY_MS); /* writers wait for this */
    int code = r == 0 ?
                   sqlite3_wal_checkpoint_v2(db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL) :
                   SQLITE_OK;
    sqlite3_busy_timeout(db, b->busy_timeout_ms);
    return code == SQLITE_OK ? r : sqlite_error(db, code, b->path, doing, err);
}

static int backend_begin(struct store_backend *b, struct err *err)
{
    int r = backend_check(b, err);
    if (r < 0)
        return r;
    return run_verb(b, VERB_BEGIN, "writing", err);
}

static int backend_commit(struct store_backend *b, struct err *err)
{
    return run_verb(b, VERB_COMMIT, "writing", err);
}

static void backend_rollback(struct store_backend *b)
{
    /* A full disk and some other failures have already rolled it back. */
    if (!sqlite3_get_autocommit(b->writer.db))
        (void)sqlite3_exec(b->writer.db, "ROLLBACK", NULL, NULL, NULL);
}

static int backend_put(struct store_backend *b, enum record_type type, const void *record,
                       enum store_mode mode, int64_t *ret_value, struct err *err)
{
    const struct record_info *info = &record_infos[type];
    struct connection *c = &b->writer;
    sqlite3_stmt *stmt;
    int64_t n = 0;
    int at = 0;
    int r = prepare(c, mode == STORE_CREATE ? VERB_CREATE : VERB_PUT, type, 0, &stmt, err);
    if (r < 0)
        return r;
    for (size_t i = 0; r == 0 && i < info->n_fields; i++) {
        const struct record_field *f = &info->fields[i];
        if (f->flags & FIELD_KEPT)
            continue;
        at++;
        if (f->kind != FIELD_INT)
            r = bind_text(c, stmt, at, record_text(record, f), err);
        else if (record_int(record, f) >= 0)
            r = bind_int(c, stmt, at, record_int(record, f), err);
    }
    if (r < 0) {
        sqlite3_clear_bindings(stmt);
        return r;
    }
    r = finish(c, stmt, "writing", &n, err);
    if (r < 0)
        return r;
    if (n == 0)
        return err_set(err, ERR_CONFLICT, "there is already a %s of this id", info->noun);
    *ret_value = type == RECORD_MESSAGE ? sqlite3_last_insert_rowid(c->db) : n;
    return 0;
}

static int backend_remove(struct store_backend *b, enum record_type type, const char *owner,
                          const char *id, int64_t *ret_n, struct err *err)
{
    struct connection *c = &b->writer;
    sqlite3_stmt *stmt;
    bool any = owner == store_any_owner;
    int64_t n = 0;
    int r = prepare(c, VERB_REMOVE, type, any ? 0 : BIT_OWNER, &stmt, err);
    if (r == 0)
        r = bind_text(c, stmt, 1, id, err);
    if (r == 0 && !any)
        r = bind_text(c, stmt, 2, owner, err);
    if (r == 0)
        r = finish(c, stmt, "removing", &n, err);
    if (r < 0)
        return r;
    if (n == 0)
        return err_set(err, ERR_NOT_FOUND, "%s not found", record_infos[type].noun);
    *ret_n = n;
    return 0;
}

static int backend_abandon(struct store_backend *b, const char *error_json, int64_t *ret_n,
                           struct err *err)
{
    sqlite3_stmt *stmt;
    int r = prepare(&b->writer, VERB_ABANDON, 0, 0, &stmt, err);
    if (r == 0)
        r = bind_text(&b->writer, stmt, 1, error_json, err);
    return r < 0 ? r : finish(&b->writer, stmt, "writing", ret_n, err);
}

static int trim_by(struct connection *c, int verb, int64_t max_bytes, int64_t *ret_n,
                   struct err *err)
{
    sqlite3_stmt *stmt;
    int r = prepare(c, verb, 0, 0, &stmt, err);
    if (r == 0)
        r = bind_int(c, stmt, 1, max_bytes, err);
    return r < 0 ? r : finish(c, stmt, "removing", ret_n, err);
}

static int backend_trim(struct store_backend *b, int64_t max_bytes, const char *before,
                        int64_t *ret_n, struct err *err)
{
    struct connection *c = &b->writer;
    sqlite3_stmt *stmt;
    int64_t expired = 0, dropped = 0, trimmed = 0;
    int r = 0;
    if (before) {
        r = prepare(c, VERB_EXPIRE, 0, 0, &stmt, err);
        if (r == 0)
            r = bind_text(c, stmt, 1, before, err);
        if (r == 0)
            r = finish(c, stmt, "removing", &expired, err);
    }
    if (r == 0 && max_bytes > 0) {
        r = trim_by(c, VERB_DROP_FIGURES, max_bytes, &dropped, err);
        /* What does not fit without them goes as a whole. */
        if (r == 0 && dropped < STORE_TRIM_MAX)
            r = trim_by(c, VERB_TRIM, max_bytes, &trimmed, err);
    }
    *ret_n = expired + dropped + trimmed;
    return r;
}

/* ---- reading ---- */

/* The row that the statement is at, into record; *bytes grows by its text. */
static int read_row(sqlite3_stmt *stmt, enum record_type type, unsigned without,
                    struct arena *arena, void *record, size_t *bytes, struct err *err)
{
    const struct record_info *info = &record_infos[type];
    int at = 0;
    for (size_t i = 0; i < info->n_fields; i++) {
        const struct record_field *f = &info->fields[i];
        if (f->kind == FIELD_INT)
            record_set_int(record, f, -1);
        if (f->flags & without)
            continue;
        int column = at++;
        if (sqlite3_column_type(stmt, column) == SQLITE_NULL)
            continue;
        if (f->kind == FIELD_INT) {
            record_set_int(record, f, sqlite3_column_int64(stmt, column));
            continue;
        }
        const char *text = (const char *)sqlite3_column_text(stmt, column);
        size_t len = (size_t)sqlite3_column_bytes(stmt, column);
        /* It goes out as it is; what a damaged disk made of it must not. */
        if (text && !str_is_utf8(text, len))
            return err_set(err, ERR_IO,
                           "the store is damaged: a %s in it cannot be read; stop the server and "
                           "put a backup in its place (riddle restore)",
                           info->noun);
        char *copy = text ? arena_strndup(arena, text, len) : NULL;
        if (!copy)
            return err_set(err, ERR_NO_MEMORY, "reading a %s: out of memory", info->noun);
        record_set_text(record, f, copy);
        *bytes += len;
    }
    return 0;
}

static void read_end(sqlite3_stmt *stmt)
{
    sqlite3_reset(stmt);
    sqlite3_clear_bindings(stmt);
}

static int backend_get(struct store_backend *b, size_t slot, enum record_type type,
                       const char *owner, const char *id, struct store_page *ret, struct err *err)
{
    const struct record_info *info = &record_infos[type];
    struct connection *c = &b->readers[slot];
    sqlite3_stmt *stmt;
    bool any = owner == store_any_owner;
    size_t bytes = 0;
    int r = prepare(c, VERB_GET, type, any ? 0 : BIT_OWNER, &stmt, err);
    if (r < 0)
        return r;
    r = bind_text(c, stmt, 1, id, err);
    if (r == 0 && !any)
        r = bind_text(c, stmt, 2, owner, err);
    if (r == 0) {
        int code = sqlite3_step(stmt);
        ret->items = arena_alloc(&ret->arena, info->size);
        if (code == SQLITE_DONE)
            r = err_set(err, ERR_NOT_FOUND, "%s not found", info->noun);
        else if (code != SQLITE_ROW)
            r = sqlite_error(c->db, code, c->path, "reading", err);
        else if (!ret->items)
            r = err_set(err, ERR_NO_MEMORY, "reading a %s: out of memory", info->noun);
        else
            r = read_row(stmt, type, 0, &ret->arena, ret->items, &bytes, err);
        ret->n = 1;
    }
    read_end(stmt);
    return r;
}

/* The words of a text as a query of FTS5 for any of them. Each is quoted, so that none is taken for
 * an operator. */
static void words_query(const char *text, struct buf *b)
{
    struct err ignored = ERR_INIT;
    size_t n = 0;
    for (const char *p = text; *p && n < LIKE_WORDS_MAX;) {
        size_t len = 0;
        while (isalnum((unsigned char)p[len]) || (unsigned char)p[len] >= 0x80)
            len++;
        if (len > 0 && buf_printf(b, &ignored, "%s\"%.*s\"", n ? " OR " : "", (int)len, p) == 0)
            n++;
        p += len ? len : 1;
    }
    if (n == 0)
        (void)buf_append_str(b, "\"\"", &ignored); /* matches nothing */
}

static int bind_query(struct connection *c, sqlite3_stmt *stmt, enum record_type type,
                      const struct store_query *q, const struct store_position *after,
                      struct err *err)
{
    int at = 0, r = 0;
    for (size_t i = 0; r == 0 && i < QUERY_FILTERS; i++) {
        const char *value = query_filter_value(q, &query_filters[i]);
        if (value && i == QUERY_LIKE) {
            auto_buf struct buf words = BUF_INIT(SQL_MAX_BYTES);
            words_query(value, &words);
            int code = sqlite3_bind_text(stmt, ++at, buf_cstr(&words), -1, SQLITE_TRANSIENT);
            r = code == SQLITE_OK ? 0 : sqlite_error(c->db, code, c->path, "binding", err);
        } else if (value) {
            r = bind_text(c, stmt, ++at, value, err);
        }
    }
    if (r == 0 && after && type == RECORD_MESSAGE) {
        r = bind_int(c, stmt, ++at, after->number, err);
    } else if (r == 0 && after) {
        r = bind_text(c, stmt, ++at, after->time, err);
        if (r == 0)
            r = bind_text(c, stmt, ++at, after->id, err);
    }
    return r < 0 ? r : bind_int(c, stmt, ++at, q->limit + 1, err);
}

static int backend_list(struct store_backend *b, size_t slot, enum record_type type,
                        const struct store_query *q, const struct store_position *after,
                        struct store_page *ret, bool *ret_more, struct err *err)
{
    const struct record_info *info = &record_infos[type];
    struct connection *c = &b->readers[slot];
    sqlite3_stmt *stmt;
    bool ended = false;
    size_t max = (size_t)q->limit + 1, bytes = 0;
    unsigned bits = after ? BIT_AFTER : 0;
    for (size_t i = 0; i < QUERY_FILTERS; i++)
        if (query_filter_value(q, &query_filters[i]))
            bits |= 1u << i;
    if (bits & BIT_DATASET && q->dataset_id[0])
        bits |= BIT_NAMED;
    ret->items = arena_alloc(&ret->arena, max * info->size);
    if (!ret->items)
        return err_set(err, ERR_NO_MEMORY, "listing %ss: out of memory", info->noun);
    int r = prepare(c, VERB_LIST, type, bits, &stmt, err);
    if (r < 0)
        return r;
    r = bind_query(c, stmt, type, q, after, err);
    while (r == 0 && ret->n < max && bytes <= STORE_PAGE_BYTES) {
        int code = sqlite3_step(stmt);
        ended = code == SQLITE_DONE;
        if (ended)
            break;
        if (code != SQLITE_ROW)
            r = sqlite_error(c->db, code, c->path, "reading", err);
        else
            r = read_row(stmt, type, FIELD_HEAVY, &ret->arena,
                         (char *)ret->items + ret->n++ * info->size, &bytes, err);
    }
    read_end(stmt);
    /*
     * One more than was asked for was read, or more text than fits: it shows that there is more,
     * and is left for later.
     */
    *ret_more = !ended && ret->n > 1;
    if (*ret_more)
        ret->n--;
    return r;
}

/* owner: NULL for all. */
static int read_sum(struct connection *c, enum verb verb, const char *owner, int64_t *ret,
                    struct err *err)
{
    sqlite3_stmt *stmt;
    int r = prepare(c, verb, 0, owner ? BIT_OWNER : 0, &stmt, err);
    if (r < 0)
        return r;
    if (owner)
        r = bind_text(c, stmt, 1, owner, err);
    if (r == 0) {
        int code = sqlite3_step(stmt);
        if (code != SQLITE_ROW)
            r = sqlite_error(c->db, code, c->path, "reading", err);
        else
            *ret = sqlite3_column_int64(stmt, 0);
    }
    read_end(stmt);
    return r;
}

static int backend_upload_bytes(struct store_backend *b, size_t slot, const char *owner,
                                int64_t *ret, struct err *err)
{
    return read_sum(&b->readers[slot], VERB_UPLOAD_BYTES, owner == store_any_owner ? NULL : owner,
                    ret, err);
}

static int backend_kept_bytes(struct store_backend *b, const char *owner, int64_t *ret,
                              struct err *err)
{
    return read_sum(&b->writer, VERB_KEPT_BYTES, owner, ret, err);
}

const struct store_ops store_sqlite_ops = {
    .name = "sqlite",
    .caps = STORE_CAP_DURABLE,
    .open = backend_open,
    .close = backend_close,
    .begin = backend_begin,
    .commit = backend_commit,
    .rollback = backend_rollback,
    .put = backend_put,
    .remove = backend_remove,
    .abandon = backend_abandon,
    .scrub = backend_scrub,
    .trim = backend_trim,
    .check = backend_check,
    .get = backend_get,
    .list = backend_list,
    .kept_bytes = backend_kept_bytes,
    .upload_bytes = backend_upload_bytes,
};
