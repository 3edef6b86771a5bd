#ifndef RIDDLE_CLI_CLI_H
#define RIDDLE_CLI_CLI_H

/*
 * The command line: main.c has the table of verbs, each verb is a file. A verb gets argv from its
 * own name on, prints its own usage and returns the exit status.
 */

#include <stdbool.h>
#include "base/config.h"
#include "base/err.h"

enum cli_exit {
    CLI_OK = 0,
    CLI_FAILED = 1,        /* the run, or a check, failed */
    CLI_USAGE = 2,         /* what was asked for makes no sense */
    CLI_TIMEOUT = 124,     /* as timeout(1) has it */
    CLI_INTERRUPTED = 130, /* as a shell has it */
};

struct cli {
    const char *version;
};

int cli_serve(const struct cli *cli, int argc, char **argv);
int cli_replay(const struct cli *cli, int argc, char **argv);
int cli_chat(const struct cli *cli, int argc, char **argv);
int cli_ask(const struct cli *cli, int argc, char **argv);
int cli_run(const struct cli *cli, int argc, char **argv);
int cli_datasets(const struct cli *cli, int argc, char **argv);
int cli_bench_stream(const struct cli *cli, int argc, char **argv);
int cli_plan(const struct cli *cli, int argc, char **argv);
int cli_backup(const struct cli *cli, int argc, char **argv);
int cli_restore(const struct cli *cli, int argc, char **argv);
int cli_sandbox(const struct cli *cli, int argc, char **argv);
int cli_threads(const struct cli *cli, int argc, char **argv);
int cli_thread(const struct cli *cli, int argc, char **argv);
int cli_doctor(const struct cli *cli, int argc, char **argv);

/* "riddle: message" on standard error. */
void cli_complain(const char *fmt, ...) PRINTF_LIKE(1, 2);

/* All is said: whoever reads our output has its end now, not when the last process is gone. */
void cli_end_output(void);

/*
 * Output of code in a sandbox. It must not be able to steer a terminal, so control sequences are
 * shown and not sent to one.
 */
void cli_pass_through(int fd, bool tty, const char *text, size_t len);

/* Loads the settings and sets up logging; complains and returns CLI_USAGE if one is bad. */
int cli_load_config(struct config *ret);

/*
 * After getopt_long() said '?' or ':': says which option is wrong and, if one is near, which was
 * meant.
 */
struct option;
int cli_bad_option(const char *verb, char **argv, const struct option *options);

#endif
