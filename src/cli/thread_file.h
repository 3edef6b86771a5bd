#ifndef RIDDLE_CLI_THREAD_FILE_H
#define RIDDLE_CLI_THREAD_FILE_H

/* Threads as files: `riddle thread export` and `import`. */

#include <stdbool.h>
#include "cli/remote.h"

/* Both complain, and return an exit status. export replaces a file only by force. */
int thread_file_export(const struct remote *to, const char *id, const char *path, bool force);
int thread_file_import(const struct remote *to, const char *path);

#endif
