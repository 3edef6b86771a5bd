#ifndef RIDDLE_CLI_READ_ARGS_H
#define RIDDLE_CLI_READ_ARGS_H

/* Options of commands that say how files are read: --decimal=, and its like (docs/files.md). */

#include <getopt.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include "base/err.h"

#define READ_ARGS                                                                                  \
    { "encoding", required_argument, NULL, 1000 }, { "delimiter", required_argument, NULL, 1001 }, \
        { "quote", required_argument, NULL, 1002 }, { "header", required_argument, NULL, 1003 },   \
        { "decimal", required_argument, NULL, 1004 },                                              \
        { "thousands", required_argument, NULL, 1005 },                                            \
        { "date-order", required_argument, NULL, 1006 },                                           \
        { "types", required_argument, NULL, 1007 }, { "sheet", required_argument, NULL, 1008 },    \
    {                                                                                              \
        "null", required_argument, NULL, 1009                                                      \
    }

#define READ_ARGS_USAGE                                                                            \
    "How files are read, where they do not show it (docs/files.md):\n"                             \
    "  --encoding NAME  --delimiter CHARS  --quote CHAR  --header LINE (0: none)\n"                \
    "  --decimal . or ,  --thousands CHAR  --date-order dmy, mdy or ymd\n"                         \
    "  --types text  --sheet NAME  --null WORD\n"

struct read_args {
    json_t *options; /* NULL: nothing was said */
    char *text;      /* … as text, for struct sandbox_file; read_args_clear() frees both */
};

/* False if c is none of READ_ARGS. A value that is wrong is told by whoever reads the file. */
bool read_args_take(struct read_args *a, int c, const char *value);
int read_args_finish(struct read_args *a, struct err *err); /* a->text */
void read_args_clear(struct read_args *a);
#define auto_read_args __attribute__((cleanup(read_args_clear)))

/*
 * A word "-" or "TABLE=-" is standard input: it becomes the path of a copy, which is removed when
 * the program ends. CONFLICT for a second one.
 */
int read_args_stdin(char **words, size_t n, struct err *err);

/*
 * What the reports of a lease's tables say to a person, on standard error. `files` are the names of
 * its files, a path or only its end.
 */
struct lease;
void read_args_tell(const struct lease *lease, const char *const *files);

#endif
