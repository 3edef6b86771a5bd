#ifndef RIDDLE_STORE_SQLITE_IMPL_H
#define RIDDLE_STORE_SQLITE_IMPL_H

/* What the files of the SQLite backend share: the schema, its migrations, and errors in words. */

#include <sqlite3.h>
#include <stdint.h>
#include "base/err.h"

#define SQLITE_STORE_APPLICATION 0x5264646c /* "Rddl" in the file's header: it is ours */

/* Step i takes a database from user_version i to i + 1. Steps are only ever added. */
extern const char *const sqlite_migrations[];
/* For store_trim_runs(); ?1 is the quota. */
extern const char sqlite_trim_runs[], sqlite_drop_figures[];
extern const int sqlite_schema_version; /* how many there are */

/* CONFIG for a database of another program or of a newer Riddle. Changes nothing. */
int sqlite_check(sqlite3 *db, const char *path, struct err *err);
/* Brings the database to sqlite_schema_version, after the same check. */
int sqlite_migrate(sqlite3 *db, const char *path, struct err *err);

/* The connection's last failure as an error that names the file and says what to do. */
int sqlite_error(sqlite3 *db, int code, const char *path, const char *doing, struct err *err);

int sqlite_exec(sqlite3 *db, const char *path, const char *doing, const char *sql, struct err *err);
int sqlite_pragma_int(sqlite3 *db, const char *path, const char *sql, int64_t *ret,
                      struct err *err);

#endif
