/*
 * The schema of the SQLite store and its way forward. PRAGMA user_version counts the steps that
 * were taken. Each step and the new count are one transaction, and the count is read again inside
 * it: two programs that start at once do not take a step twice.
 */

#include "store/sqlite_impl.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include "base/macros.h"
#include "store/store.h"

#define STR_OF(x) #x
#define STR(x) STR_OF(x)
#define VERIFIED_MAX STR(STORE_VERIFIED_MAX)

/*
 * JSON is checked here as well, because it goes into responses as it is. The constraint's name
 * comes in the error.
 */
#define JSON_COLUMN(name)                                                                          \
    " " name " TEXT CONSTRAINT " name " CHECK (" name " IS NULL OR json_valid(" name "))"

/*
 * The heavy columns come last: SQLite reads a row from its beginning, so a list never follows the
 * chain of pages that a large result lies in.
 */
static const char step_runs_and_threads[] =
    "CREATE TABLE run_capsules ("
    " run_id TEXT PRIMARY KEY NOT NULL,"
    " owner TEXT NOT NULL,"
    " created_at TEXT NOT NULL,"
    " dataset_id TEXT NOT NULL,"
    " dataset_version_hash TEXT,"
    " query_mode TEXT NOT NULL,"
    " status TEXT NOT NULL,"
    " verdict TEXT,"
    " exec_time_ms INTEGER,"
    " thread_id TEXT,"
    " replay_of TEXT,"
    " question TEXT," JSON_COLUMN("error_json") "," JSON_COLUMN("timings_json") "," JSON_COLUMN("usage_json") "," JSON_COLUMN("limits_json") "," JSON_COLUMN(
        "plan_json") ","
                     " compiled_sql TEXT,"
                     " python_code TEXT," JSON_COLUMN(
                         "result_json") ") STRICT;"
                                        /*
                                         * Status and mode are in the index so that filtering by
                                         * them does not visit the rows.
                                         */
                                        "CREATE INDEX run_capsules_by_time ON run_capsules (owner, created_at, run_id, status, query_mode);"
                                        "CREATE INDEX run_capsules_by_dataset ON run_capsules (owner, dataset_id, created_at, run_id);"
                                        "CREATE INDEX run_capsules_by_thread ON run_capsules (owner, thread_id, created_at, run_id)"
                                        " WHERE thread_id IS NOT NULL;"
                                        "CREATE INDEX run_capsules_in_flight ON run_capsules (run_id) WHERE status IN ('queued', 'running');"

                                        "CREATE TABLE threads ("
                                        " thread_id TEXT NOT NULL,"
                                        " owner TEXT NOT NULL,"
                                        " title TEXT," JSON_COLUMN("datasets_json") "," JSON_COLUMN(
                                            "uploads_json") ","
                                                            " created_at TEXT NOT NULL,"
                                                            " updated_at TEXT NOT NULL,"
                                                            " state TEXT NOT NULL,"
                                                            " message_count INTEGER NOT NULL DEFAULT 0,"
                                                            " PRIMARY KEY (owner, thread_id)"
                                                            ") STRICT;"
                                                            "CREATE INDEX threads_by_time ON threads (owner, updated_at, thread_id);"

                                                            /*
                                                             * The reference includes the owner: no
                                                             * one can write into another's thread.
                                                             */
                                                            "CREATE TABLE thread_messages ("
                                                            " id INTEGER PRIMARY KEY AUTOINCREMENT,"
                                                            " owner TEXT NOT NULL,"
                                                            " thread_id TEXT NOT NULL,"
                                                            " created_at TEXT NOT NULL,"
                                                            " dataset_id TEXT,"
                                                            " role TEXT NOT NULL,"
                                                            " content TEXT NOT NULL,"
                                                            " run_id TEXT," JSON_COLUMN(
                                                                "metadata_json") ","
                                                                                 " FOREIGN KEY (owner, thread_id) REFERENCES threads (owner, thread_id) ON DELETE CASCADE"
                                                                                 ") STRICT;"
                                                                                 "CREATE INDEX thread_messages_by_thread ON thread_messages (owner, thread_id, id);"
                                                                                 "CREATE TRIGGER thread_messages_counted AFTER INSERT ON thread_messages BEGIN"
                                                                                 " UPDATE threads SET message_count = message_count + 1, updated_at = max(updated_at, new.created_at)"
                                                                                 " WHERE owner = new.owner AND thread_id = new.thread_id;"
                                                                                 " END;";

static const char step_uploads[] =
    "CREATE TABLE uploads ("
    " file_id TEXT PRIMARY KEY NOT NULL,"
    " owner TEXT NOT NULL,"
    " filename TEXT NOT NULL,"
    " size_bytes INTEGER NOT NULL,"
    " sha256 TEXT,"
    " path TEXT,"
    " \"rows\" INTEGER," JSON_COLUMN(
        "columns_json") ","
                        " status TEXT NOT NULL,"
                        " error TEXT,"
                        " created_at TEXT NOT NULL,"
                        " expires_at TEXT"
                        ") STRICT;"
                        "CREATE INDEX uploads_by_time ON uploads (owner, created_at, file_id, size_bytes);"
                        "CREATE INDEX uploads_by_expiry ON uploads (expires_at) WHERE expires_at IS NOT NULL;";

/*
 * The index of words is contentless: it holds no second copy of the questions, so each trigger
 * hands it the text that it once got. `id` is there because a rowid without a name may change when
 * the file is compacted.
 */
static const char step_words_and_verified[] =
    "CREATE TABLE dataset_words ("
    " dataset_id TEXT NOT NULL,"
    " owner TEXT NOT NULL," JSON_COLUMN(
        "words_json") ","
                      " updated_at TEXT NOT NULL,"
                      " PRIMARY KEY (owner, dataset_id)"
                      ") STRICT;"
                      "CREATE TABLE verified ("
                      " id INTEGER PRIMARY KEY,"
                      " run_id TEXT NOT NULL,"
                      " owner TEXT NOT NULL,"
                      " created_at TEXT NOT NULL,"
                      " dataset_id TEXT NOT NULL,"
                      " question TEXT NOT NULL,"
                      " query_mode TEXT NOT NULL," JSON_COLUMN(
                          "plan_json") ","
                                       " compiled_sql TEXT,"
                                       " python_code TEXT,"
                                       " UNIQUE (owner, run_id)"
                                       ") STRICT;"
                                       "CREATE INDEX verified_by_dataset ON verified (owner, dataset_id, created_at, run_id);"
                                       "CREATE VIRTUAL TABLE verified_words USING fts5 (asked, content='',"
                                       " tokenize='porter unicode61 remove_diacritics 2');"
                                       "CREATE TRIGGER verified_bounded BEFORE INSERT ON verified"
                                       " WHEN (SELECT count(*) FROM verified WHERE owner = new.owner"
                                       "       AND dataset_id = new.dataset_id) >= " VERIFIED_MAX
                                       " AND NOT EXISTS (SELECT 1 FROM verified WHERE owner = new.owner AND run_id = new.run_id) BEGIN"
                                       " SELECT RAISE(ABORT, 'a data set keeps at most " VERIFIED_MAX
                                       " verified questions; remove some first');"
                                       " END;"
                                       "CREATE TRIGGER verified_added AFTER INSERT ON verified BEGIN"
                                       " INSERT INTO verified_words (rowid, asked) VALUES (new.id, new.question);"
                                       " END;"
                                       "CREATE TRIGGER verified_changed AFTER UPDATE ON verified BEGIN"
                                       " INSERT INTO verified_words (verified_words, rowid, asked)"
                                       " VALUES ('delete', old.id, old.question);"
                                       " INSERT INTO verified_words (rowid, asked) VALUES (new.id, new.question);"
                                       " END;"
                                       "CREATE TRIGGER verified_removed AFTER DELETE ON verified BEGIN"
                                       " INSERT INTO verified_words (verified_words, rowid, asked)"
                                       " VALUES ('delete', old.id, old.question);"
                                       " END;"
                                       "CREATE TRIGGER uploads_told AFTER DELETE ON uploads BEGIN"
                                       " DELETE FROM dataset_words WHERE owner = old.owner AND dataset_id = old.file_id;"
                                       " DELETE FROM verified WHERE owner = old.owner AND dataset_id = old.file_id;"
                                       " END;";

/*
 * What a run takes on the disk: its texts, its row, and the figures that its result refers to,
 * which are files. A table of its own, because a row of run_capsules cannot be read past a large
 * result without reading that.
 */
#define TEXT_BYTES(of) "coalesce(length(CAST(" of " AS BLOB)), 0)"
#define FIGURE_BYTES(part) "coalesce(json_extract(value, '$." part "_bytes'), 0)"
/* Most results refer to none, and need not be parsed for that. */
#define RUN_FIGURES(row)                                                                           \
    "(CASE WHEN instr(" row "result_json, '_bytes\"') THEN (SELECT coalesce(sum(" FIGURE_BYTES(    \
        "png") " + " FIGURE_BYTES("svg") " + " FIGURE_BYTES("html") " + " FIGURE_BYTES(            \
        "json") "), 0) FROM json_each(" row                                                        \
                "result_json, '$.outputs') WHERE type = 'object') ELSE 0 END)"
#define RUN_BYTES(row)                                                                             \
    "1024 + " TEXT_BYTES(row "result_json") " + " TEXT_BYTES(row "python_code") " + " TEXT_BYTES(  \
        row "compiled_sql") " + " TEXT_BYTES(row "plan_json") " + " RUN_FIGURES(row)
static const char step_sizes[] =
    "CREATE TABLE run_sizes ("
    " run_id TEXT PRIMARY KEY NOT NULL,"
    " owner TEXT NOT NULL,"
    " created_at TEXT NOT NULL,"
    " bytes INTEGER NOT NULL"
    ") STRICT;"
    "CREATE INDEX run_sizes_by_owner ON run_sizes (owner, created_at, run_id, bytes);"
    "CREATE INDEX run_sizes_by_time ON run_sizes (created_at);"
    "CREATE TRIGGER run_capsules_added AFTER INSERT ON run_capsules BEGIN"
    " INSERT INTO run_sizes VALUES (new.run_id, new.owner, new.created_at, " RUN_BYTES(
        "new.") ");"
                " END;"
                "CREATE TRIGGER run_capsules_changed AFTER UPDATE ON run_capsules BEGIN"
                " UPDATE run_sizes SET bytes = " RUN_BYTES(
                    "new.") " WHERE run_id = new.run_id;"
                            " END;"
                            "CREATE TRIGGER run_capsules_removed AFTER DELETE ON run_capsules BEGIN"
                            " DELETE FROM run_sizes WHERE run_id = old.run_id;"
                            " END;"
                            "INSERT INTO run_sizes SELECT run_id, owner, created_at, " RUN_BYTES(
                                "run_capsules.") " FROM run_capsules;";

static const char step_pinned[] =
    "ALTER TABLE threads ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0;";
static const char step_sandboxes[] = "ALTER TABLE threads ADD COLUMN" JSON_COLUMN("terms_json") ";";

/* The oldest queries of an owner go with every hundredth that comes. */
#define QUERIES_MAX STR(STORE_QUERIES_MAX)
static const char step_queries[] =
    "CREATE TABLE database_queries ("
    " id INTEGER PRIMARY KEY,"
    " query_id TEXT NOT NULL,"
    " owner TEXT NOT NULL,"
    " created_at TEXT NOT NULL,"
    " dataset_id TEXT NOT NULL,"
    " thread_id TEXT,"
    " run_id TEXT,"
    " sql TEXT NOT NULL," JSON_COLUMN(
        "params_json") ","
                       " status TEXT NOT NULL,"
                       " error TEXT,"
                       " row_count INTEGER,"
                       " exec_time_ms INTEGER,"
                       " wrote INTEGER,"
                       " UNIQUE (owner, query_id)"
                       ") STRICT;"
                       "CREATE INDEX database_queries_by_time ON database_queries (owner, created_at, query_id);"
                       "CREATE TRIGGER database_queries_bounded AFTER INSERT ON database_queries"
                       " WHEN new.id % 100 = 0 BEGIN"
                       " DELETE FROM database_queries WHERE owner = new.owner AND created_at <"
                       " (SELECT created_at FROM database_queries WHERE owner = new.owner"
                       "  ORDER BY created_at DESC LIMIT 1 OFFSET " QUERIES_MAX ");"
                       " END;";

static const char step_options[] = "ALTER TABLE uploads ADD COLUMN" JSON_COLUMN("options_json") ";";

/* A put that replaces a thread is no insert, so the messages are copied once. */
static const char step_forks[] =
    "ALTER TABLE threads ADD COLUMN forked_from TEXT;"
    "CREATE TRIGGER threads_forked AFTER INSERT ON threads WHEN new.forked_from IS NOT NULL BEGIN"
    " INSERT INTO thread_messages"
    " (owner, thread_id, created_at, dataset_id, role, content, run_id, metadata_json)"
    " SELECT owner, new.thread_id, created_at, dataset_id, role, content, run_id, metadata_json"
    " FROM thread_messages WHERE owner = new.owner AND thread_id = new.forked_from ORDER BY id;"
    " END;";

static const char step_thread_files[] = "ALTER TABLE uploads ADD COLUMN thread_id TEXT;"
                                        "ALTER TABLE uploads ADD COLUMN table_name TEXT;"
                                        "ALTER TABLE uploads ADD COLUMN used_at TEXT;";

/*
 * A run writes as few pages as it can, because all of them are synced before its answer: sizes lie
 * in the tree of their key, which is the order in which runs are trimmed, and runs without a data
 * set are not in the index of data sets.
 */
static const char step_fewer_pages[] =
    "DROP TRIGGER run_capsules_added;"
    "DROP TRIGGER run_capsules_changed;"
    "DROP TRIGGER run_capsules_removed;"
    "ALTER TABLE run_sizes RENAME TO run_sizes_before;"
    "CREATE TABLE run_sizes ("
    " owner TEXT NOT NULL,"
    " created_at TEXT NOT NULL,"
    " run_id TEXT NOT NULL,"
    " bytes INTEGER NOT NULL,"
    " PRIMARY KEY (owner, created_at, run_id)"
    ") STRICT, WITHOUT ROWID;"
    "INSERT INTO run_sizes SELECT owner, created_at, run_id, bytes FROM run_sizes_before"
    " ORDER BY owner, created_at, run_id;"
    "DROP TABLE run_sizes_before;"
    "CREATE TRIGGER run_capsules_added AFTER INSERT ON run_capsules BEGIN"
    " INSERT INTO run_sizes VALUES (new.owner, new.created_at, new.run_id, " RUN_BYTES(
        "new.") ");"
                " END;"
                "CREATE TRIGGER run_capsules_changed AFTER UPDATE ON run_capsules BEGIN"
                " UPDATE run_sizes SET bytes = " RUN_BYTES(
                    "new.") " WHERE owner = new.owner AND created_at = new.created_at AND run_id = new.run_id;"
                            " END;"
                            "CREATE TRIGGER run_capsules_removed AFTER DELETE ON run_capsules BEGIN"
                            " DELETE FROM run_sizes"
                            " WHERE owner = old.owner AND created_at = old.created_at AND run_id = old.run_id;"
                            " END;"
                            "DROP INDEX run_capsules_by_dataset;"
                            "CREATE INDEX run_capsules_by_dataset ON run_capsules (owner, dataset_id, created_at, run_id)"
                            " WHERE dataset_id <> '';";

/*
 * What of a run's bytes are files of figures: they are dropped before runs are. The store is told
 * of them, and that a result is JSON (RESULT_CHECK) is certain, because it writes that itself:
 * reading a result of a megabyte three times took the writer, for which all owners wait, 5 ms.
 */
#define RUN_SIZES(of)                                                                              \
    "1024 + " TEXT_BYTES(of "result_json") " + " TEXT_BYTES(of "python_code") " + " TEXT_BYTES(    \
        of "compiled_sql") " + " TEXT_BYTES(of "plan_json") " + coalesce(" of "figure_bytes, 0)"
#define RESULT_CHECK                                                                               \
    " CONSTRAINT result_json CHECK (result_json IS NULL OR json_valid(result_json))"
static const char step_figures[] =
    "DROP TRIGGER run_capsules_added;"
    "DROP TRIGGER run_capsules_changed;"
    "PRAGMA writable_schema = ON;"
    "UPDATE sqlite_schema SET sql = replace(sql, '" RESULT_CHECK "', '')"
    " WHERE type = 'table' AND name = 'run_capsules';"
    "PRAGMA writable_schema = RESET;"
    "ALTER TABLE run_sizes ADD COLUMN figures INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE run_capsules ADD COLUMN figure_bytes INTEGER;"
    "UPDATE run_sizes SET figures = (SELECT " RUN_FIGURES("c.") " FROM run_capsules c"
    " WHERE c.run_id = run_sizes.run_id);"
    "CREATE INDEX run_sizes_with_figures ON run_sizes (owner, created_at, run_id, figures)"
    " WHERE figures > 0;"
    "UPDATE run_capsules SET figure_bytes ="
    " (SELECT figures FROM run_sizes WHERE run_sizes.run_id = run_capsules.run_id)"
    " WHERE run_id IN (SELECT run_id FROM run_sizes WHERE figures > 0);"
    "CREATE TRIGGER run_capsules_added AFTER INSERT ON run_capsules BEGIN"
    " INSERT INTO run_sizes VALUES (new.owner, new.created_at, new.run_id, " RUN_SIZES("new.") ","
    " coalesce(new.figure_bytes, 0));"
    " END;"
    "CREATE TRIGGER run_capsules_changed AFTER UPDATE ON run_capsules BEGIN"
    " UPDATE run_sizes SET bytes = " RUN_SIZES("new.") ", figures = coalesce(new.figure_bytes, 0)"
    " WHERE owner = new.owner AND created_at = new.created_at AND run_id = new.run_id;"
    " END;";

/*
 * What an owner's threads take, and what was told about data: a total, which refuses more
 * (store_has_room()). Runs are counted with their question and error. Queries are removed by their
 * bytes as well.
 */
#define QUERIES_BYTES STR(STORE_QUERIES_BYTES)
#define THREAD_SIZE(of)                                                                            \
    "512 + " TEXT_BYTES(of "title") " + " TEXT_BYTES(of "datasets_json") " + " TEXT_BYTES(         \
        of "uploads_json") " + " TEXT_BYTES(of "terms_json")
#define MESSAGE_SIZE(of) "256 + " TEXT_BYTES(of "content") " + " TEXT_BYTES(of "metadata_json")
#define WORDS_SIZE(of) "256 + " TEXT_BYTES(of "words_json")
#define VERIFIED_SIZE(of)                                                                          \
    "512 + 2 * " TEXT_BYTES(of "question") " + " TEXT_BYTES(of "plan_json") " + " TEXT_BYTES(      \
        of "compiled_sql") " + " TEXT_BYTES(of "python_code")
#define SIZE_TRIGGERS(table, of_columns, SIZE)                                                     \
    "CREATE TRIGGER " table "_size_added AFTER INSERT ON " table " BEGIN"                          \
    " INSERT INTO owner_sizes VALUES (new.owner, " SIZE("new.") ")"                                \
    " ON CONFLICT (owner) DO UPDATE SET bytes = bytes + excluded.bytes;"                           \
    " END;"                                                                                        \
    "CREATE TRIGGER " table "_size_changed AFTER UPDATE OF " of_columns " ON " table " BEGIN"      \
    " UPDATE owner_sizes SET bytes = bytes + (" SIZE("new.") ") - (" SIZE("old.") ")"              \
    " WHERE owner = new.owner;"                                                                    \
    " END;"                                                                                        \
    "CREATE TRIGGER " table "_size_removed AFTER DELETE ON " table " BEGIN"                        \
    " UPDATE owner_sizes SET bytes = bytes - (" SIZE("old.") ") WHERE owner = old.owner;"          \
    " END;"
#define RUN_SIZES_OF_ALL(of)                                                                       \
    RUN_SIZES(of) " + " TEXT_BYTES(of "question") " + " TEXT_BYTES(of "error_json")
static const char step_owner_sizes[] =
    "CREATE TABLE owner_sizes (owner TEXT PRIMARY KEY NOT NULL, bytes INTEGER NOT NULL)"
    " STRICT, WITHOUT ROWID;"
    "INSERT INTO owner_sizes SELECT owner, sum(bytes) FROM"
    " (SELECT owner, " THREAD_SIZE("") " AS bytes FROM threads"
    "  UNION ALL SELECT owner, " MESSAGE_SIZE("") " FROM thread_messages"
    "  UNION ALL SELECT owner, " WORDS_SIZE("") " FROM dataset_words"
    "  UNION ALL SELECT owner, " VERIFIED_SIZE("") " FROM verified) GROUP BY owner;"
    SIZE_TRIGGERS("threads", "title, datasets_json, uploads_json, terms_json", THREAD_SIZE)
    SIZE_TRIGGERS("thread_messages", "content, metadata_json", MESSAGE_SIZE)
    SIZE_TRIGGERS("dataset_words", "words_json", WORDS_SIZE)
    SIZE_TRIGGERS("verified", "question, plan_json, compiled_sql, python_code", VERIFIED_SIZE)
    "DROP TRIGGER run_capsules_added;"
    "DROP TRIGGER run_capsules_changed;"
    "CREATE TRIGGER run_capsules_added AFTER INSERT ON run_capsules BEGIN"
    " INSERT INTO run_sizes VALUES (new.owner, new.created_at, new.run_id, "
    RUN_SIZES_OF_ALL("new.") ","
    " coalesce(new.figure_bytes, 0));"
    " END;"
    "CREATE TRIGGER run_capsules_changed AFTER UPDATE ON run_capsules BEGIN"
    " UPDATE run_sizes SET bytes = " RUN_SIZES_OF_ALL("new.") ","
    " figures = coalesce(new.figure_bytes, 0)"
    " WHERE owner = new.owner AND created_at = new.created_at AND run_id = new.run_id;"
    " END;"
    "DROP TRIGGER database_queries_bounded;"
    "CREATE TRIGGER database_queries_bounded AFTER INSERT ON database_queries"
    " WHEN new.id % 100 = 0 BEGIN"
    " DELETE FROM database_queries WHERE id IN (SELECT id FROM"
    " (SELECT id, row_number() OVER newest AS n, sum(" TEXT_BYTES("sql") " + "
    TEXT_BYTES("params_json") " + " TEXT_BYTES("error") ") OVER newest AS upto"
    " FROM database_queries WHERE owner = new.owner"
    " WINDOW newest AS (ORDER BY created_at DESC, id DESC))"
    " WHERE n > " QUERIES_MAX " OR upto > " QUERIES_BYTES ");"
    " END;";

const char *const sqlite_migrations[] = {
    step_runs_and_threads,
    step_uploads,
    step_words_and_verified,
    step_sizes,
    step_pinned,
    step_sandboxes,
    step_queries,
    step_options,
    step_forks,
    step_thread_files,
    step_fewer_pages,
    step_figures,
    step_owner_sizes,
};
const int sqlite_schema_version = ARRAY_SIZE(sqlite_migrations);

/* ---- what is kept of runs ---- */

#define SQL_NUMBER_(n) #n
#define SQL_NUMBER(n) SQL_NUMBER_(n)
#define SQL_TRIM_MAX SQL_NUMBER(STORE_TRIM_MAX)
/* Of each owner who has more than ?1 bytes: the runs behind the newest that fit. */
#define SQL_RUNS_PAST_QUOTA                                                                        \
    "SELECT run_id FROM (SELECT run_id, sum(bytes) OVER (PARTITION BY owner "                      \
    "ORDER BY created_at DESC, run_id DESC) AS upto FROM run_sizes WHERE owner IN "                \
    "(SELECT owner FROM run_sizes GROUP BY owner HAVING sum(bytes) > ?1)) WHERE upto > ?1 LIMIT " SQL_TRIM_MAX
/* … and the oldest ones with files of figures, as many as it takes to fit without those. */
#define SQL_FIGURES_PAST_QUOTA                                                                     \
    "SELECT run_id FROM (SELECT f.run_id, o.excess, sum(f.figures) OVER (PARTITION BY f.owner "    \
    "ORDER BY f.created_at, f.run_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS older "  \
    "FROM (SELECT owner, sum(bytes) - ?1 AS excess FROM run_sizes GROUP BY owner "                 \
    "HAVING sum(bytes) > ?1) o JOIN run_sizes f ON f.owner = o.owner WHERE f.figures > 0) "        \
    "WHERE coalesce(older, 0) < excess LIMIT " SQL_TRIM_MAX
#define SQL_HAS_FIGURE_FILE(of)                                                                    \
    "coalesce(json_extract(" of ", '$.png_url'), json_extract(" of ", '$.svg_url'), "              \
    "json_extract(" of ", '$.html_url'), json_extract(" of ", '$.json_url')) IS NOT NULL"
#define SQL_FIGURE_MEMBERS                                                                         \
    "'$.png_url', '$.png_bytes', '$.svg_url', '$.svg_bytes', '$.html_url', '$.html_bytes', "       \
    "'$.json_url', '$.json_bytes'"

const char sqlite_trim_runs[] = "DELETE FROM run_capsules WHERE run_id IN (" SQL_RUNS_PAST_QUOTA
                                ")";
/* The result says that they were dropped; a sweep removes the files. */
const char sqlite_drop_figures[] =
    "UPDATE run_capsules SET figure_bytes = 0, result_json = json_set(result_json, '$.outputs', "
    "(SELECT json_group_array(CASE WHEN type = 'object' AND " SQL_HAS_FIGURE_FILE(
        "value") " THEN json_set(json_remove(value, " SQL_FIGURE_MEMBERS
                 "), '$.dropped', json('true')) "
                 "WHEN type IN ('object', 'array') THEN json(value) ELSE value END) "
                 "FROM json_each(result_json, '$.outputs'))) WHERE run_id IN (" SQL_FIGURES_PAST_QUOTA
                 ")";

/* ---- errors ---- */

/* A constraint is about one record. Its text names the column, never a value. */
static int constraint_error(int code, const char *message, const char *doing, struct err *err)
{
    switch (code) {
    case SQLITE_CONSTRAINT_FOREIGNKEY:
        return err_set(err, ERR_NOT_FOUND, "thread not found");
    case SQLITE_CONSTRAINT_UNIQUE:
    case SQLITE_CONSTRAINT_PRIMARYKEY:
        return err_set(err, ERR_CONFLICT, "%s: the id is taken", doing);
    case SQLITE_CONSTRAINT_CHECK:
        message = strrchr(message, ' ');
        return err_set(err, ERR_VALIDATION, "%s: '%s' is not JSON", doing,
                       message ? message + 1 : "");
    default:
        return err_set(err, ERR_VALIDATION, "%s: %s", doing, message);
    }
}

/*
 * What the system said. SQLite passes it on for most statements, but not for a COMMIT: then its
 * files are asked.
 */
static int system_errno(sqlite3 *db)
{
    sqlite3_file *log = NULL;
    int e = sqlite3_system_errno(db);
    if (e == 0)
        (void)sqlite3_file_control(db, "main", SQLITE_FCNTL_LAST_ERRNO, &e);
    if (e == 0 &&
        sqlite3_file_control(db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log) == SQLITE_OK && log &&
        log->pMethods)
        (void)log->pMethods->xFileControl(log, SQLITE_FCNTL_LAST_ERRNO, &e);
    return e;
}

int sqlite_error(sqlite3 *db, int code, const char *path, const char *doing, struct err *err)
{
    const char *message = db ? sqlite3_errmsg(db) : sqlite3_errstr(code);
    int primary = code & 0xff;
    int system = db && (primary == SQLITE_IOERR || primary == SQLITE_CANTOPEN) ? system_errno(db) :
                                                                                 0;

    /*
     * A file size limit and a quota are a full disk in other words, but SQLite calls them I/O
     * errors.
     */
    if (primary == SQLITE_IOERR && (system == ENOSPC || system == EFBIG || system == EDQUOT))
        primary = SQLITE_FULL;
    switch (primary) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return err_set(
            err, ERR_UNAVAILABLE,
            "%s: the store '%s' is locked by another program; end what has it open, then try again",
            doing, path);
    case SQLITE_FULL:
        return err_set(
            err, ERR_IO,
            "%s: no space is left for the store '%s'; free some, or point CAPSULE_DB_PATH to another disk",
            doing, path);
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_CANTOPEN:
        return err_set(
            err, ERR_IO,
            "%s: the store '%s' cannot be written (%s); make the file and its directory writable "
            "for this user, or set CAPSULE_DB_PATH",
            doing, path, system ? strerror(system) : message);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return err_set(
            err, ERR_IO,
            "%s: the store '%s' is damaged or is no SQLite database (%s); put a backup in its place, "
            "or move it away to begin with an empty one",
            doing, path, message);
    case SQLITE_IOERR:
        return err_set(err, ERR_IO,
                       "%s: the store '%s' cannot be read or written: %s; look at its disk", doing,
                       path, system ? strerror(system) : message);
    case SQLITE_CONSTRAINT:
        return constraint_error(code, message, doing, err);
    case SQLITE_TOOBIG:
        return err_set(err, ERR_TOO_LARGE, "%s: the record is too large", doing);
    case SQLITE_NOMEM:
        return err_set(err, ERR_NO_MEMORY, "%s: out of memory", doing);
    default:
        return err_set(err, ERR_INTERNAL, "%s: the store '%s': %s", doing, path, message);
    }
}

int sqlite_exec(sqlite3 *db, const char *path, const char *doing, const char *sql, struct err *err)
{
    int code = sqlite3_exec(db, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? 0 : sqlite_error(db, code, path, doing, err);
}

int sqlite_pragma_int(sqlite3 *db, const char *path, const char *sql, int64_t *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int code = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_step(stmt);
    if (code == SQLITE_ROW)
        *ret = sqlite3_column_int64(stmt, 0);
    int r = code == SQLITE_ROW ? 0 : sqlite_error(db, code, path, "opening", err);
    sqlite3_finalize(stmt);
    return r;
}

/* ---- migrations ---- */

/* Refuses what is not ours: a newer schema, or a database with tables of someone else. */
static int read_version(sqlite3 *db, const char *path, int64_t *ret_version, struct err *err)
{
    int64_t application, objects;
    int r = sqlite_pragma_int(db, path, "PRAGMA user_version", ret_version, err);
    if (r == 0)
        r = sqlite_pragma_int(db, path, "PRAGMA application_id", &application, err);
    if (r == 0)
        r = sqlite_pragma_int(db, path, "SELECT count(*) FROM sqlite_schema", &objects, err);
    if (r < 0)
        return r;
    if (application != SQLITE_STORE_APPLICATION &&
        (objects > 0 || *ret_version != 0 || application != 0))
        return err_set(
            err, ERR_CONFIG,
            "opening: '%s' is a database of another program; set CAPSULE_DB_PATH to a file of Riddle's own",
            path);
    if (*ret_version > sqlite_schema_version)
        return err_set(
            err, ERR_CONFIG,
            "opening: the store '%s' was written by a newer Riddle (schema %lld, this one knows %d); "
            "use that one, or set CAPSULE_DB_PATH to another file",
            path, (long long)*ret_version, sqlite_schema_version);
    return 0;
}

int sqlite_check(sqlite3 *db, const char *path, struct err *err)
{
    int64_t version;
    return read_version(db, path, &version, err);
}

static int take_step(sqlite3 *db, const char *path, struct err *err)
{
    static const char doing[] = "updating the schema";
    char after[96];
    int64_t version;
    int r = sqlite_exec(db, path, doing, "BEGIN IMMEDIATE", err);
    if (r < 0)
        return r;
    r = read_version(db, path, &version, err);
    if (r == 0 && version < sqlite_schema_version) {
        snprintf(after, sizeof(after), "PRAGMA application_id = %d; PRAGMA user_version = %d",
                 SQLITE_STORE_APPLICATION, (int)version + 1);
        /* A step may change the text of the schema: it drops a constraint without a copy. */
        sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 0, NULL);
        r = sqlite_exec(db, path, doing, sqlite_migrations[version], err);
        sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
        if (r == 0)
            r = sqlite_exec(db, path, doing, after, err);
    }
    if (r == 0)
        r = sqlite_exec(db, path, doing, "COMMIT", err);
    if (r < 0 && !sqlite3_get_autocommit(db))
        (void)sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    return r;
}

int sqlite_migrate(sqlite3 *db, const char *path, struct err *err)
{
    for (;;) {
        int64_t version;
        int r = read_version(db, path, &version, err);
        if (r < 0 || version == sqlite_schema_version)
            return r;
        r = take_step(db, path, err);
        if (r < 0)
            return r;
    }
}
