#ifndef RIDDLE_SANDBOX_TABLE_NAMES_H
#define RIDDLE_SANDBOX_TABLE_NAMES_H

/*
 * Names of ingested tables, their reports and their profiles.
 *
 * What belongs to a file that somebody uploaded (`is_beside`) is hidden in the directory of that
 * file: it has the same owner, counts for the same quota and is removed with the same directory,
 * and nobody else's upload can find it. What belongs to data sets of the server and to files of the
 * command line is in RIDDLE_HOME/tables, named by the hash of the content and by the file's ending:
 * the same bytes are read differently under another ending, or with options, whose hash is in the
 * name as well.
 */

#include <stdbool.h>
#include <stdint.h>
#include "sandbox/sandbox.h"

#define TABLE_PATH_SIZE 4300
#define TABLE_OPTIONS_MAX 2048 /* bytes of sandbox_file.options */

/* home is absolute. "" when the content (hex) has to be known, and is not. */
void table_path(const char *home, const struct sandbox_file *file, const char *hex,
                char ret[TABLE_PATH_SIZE]);
void table_report_path(const char *home, const struct sandbox_file *file, const char *hex,
                       char ret[TABLE_PATH_SIZE]);
void table_profile_path(const char *home, const struct sandbox_file *file, const char *hex,
                        char ret[TABLE_PATH_SIZE]);

/* False for what an earlier version named in RIDDLE_HOME/tables: nobody finds it any more. */
bool table_name_is_current(const char *name);

/* Bytes on the disk of what is kept beside a file. */
int64_t table_beside_bytes(const char *file_path);

#endif
