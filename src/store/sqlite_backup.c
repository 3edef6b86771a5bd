/* Copies of a store by SQLite's own means: whole, also of one that a server is writing to. */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/str.h"
#include "store/sqlite_impl.h"
#include "store/store.h"

#define BACKUP_PAGES 512 /* at a time: writers get in between */
#define BACKUP_BUSY_MS 5000

static int open_db(const char *path, int flags, sqlite3 **ret, struct err *err)
{
    int code = sqlite3_open_v2(path, ret, flags | SQLITE_OPEN_EXRESCODE, NULL);
    if (code != SQLITE_OK)
        return sqlite_error(*ret, code, path, "opening", err);
    sqlite3_busy_timeout(*ret, BACKUP_BUSY_MS);
    return 0;
}

static int copy_pages(sqlite3 *from, sqlite3 *to, const char *to_path, struct err *err)
{
    static const char doing[] = "copying the store";
    sqlite3_backup *b = sqlite3_backup_init(to, "main", from, "main");
    if (!b)
        return sqlite_error(to, sqlite3_errcode(to), to_path, doing, err);
    int code;
    do {
        code = sqlite3_backup_step(b, BACKUP_PAGES);
        if (code == SQLITE_BUSY || code == SQLITE_LOCKED)
            sqlite3_sleep(20);
    } while (code == SQLITE_OK || code == SQLITE_BUSY || code == SQLITE_LOCKED);
    int end = sqlite3_backup_finish(b);
    code = code == SQLITE_DONE ? end : code;
    return code == SQLITE_OK ? 0 : sqlite_error(to, code, to_path, doing, err);
}

static int check_whole(sqlite3 *db, const char *path, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int r = sqlite_check(db, path, err);
    if (r < 0)
        return r;
    int code = sqlite3_prepare_v2(db, "PRAGMA integrity_check(1)", -1, &stmt, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_step(stmt);
    const char *said = code == SQLITE_ROW ? (const char *)sqlite3_column_text(stmt, 0) : NULL;
    if (!said || !str_eq(said, "ok"))
        r = err_set(err, ERR_IO, "'%s' is damaged: %s", path, said ? said : sqlite3_errmsg(db));
    sqlite3_finalize(stmt);
    return r;
}

int store_copy(const char *from_path, const char *to_path, struct err *err)
{
    sqlite3 *from = NULL, *to = NULL;
    if (access(from_path, R_OK) < 0)
        return err_errno(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, errno, "the store '%s'",
                         from_path);
    if (access(to_path, F_OK) == 0)
        return err_set(err, ERR_CONFLICT, "'%s' is there already", to_path);
    int r = open_db(from_path, SQLITE_OPEN_READWRITE, &from, err);
    if (r == 0)
        r = sqlite_check(from, from_path, err);
    if (r == 0)
        r = open_db(to_path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, &to, err);
    if (r == 0)
        r = copy_pages(from, to, to_path, err);
    if (r == 0)
        r = check_whole(to, to_path, err);
    sqlite3_close(to);
    sqlite3_close(from);
    if (r < 0 && to)
        (void)unlink(to_path);
    return r;
}
