/* What the verbs of the command line share: complaints, settings, bad options. */

#include "cli/cli.h"

#include <fcntl.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/str.h"
#include "cli/table.h"

void cli_complain(const char *fmt, ...)
{
    va_list ap;
    fputs("riddle: ", stderr);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
}

void cli_end_output(void)
{
    fflush(stdout);
    auto_close int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (null >= 0)
        (void)dup2(null, STDOUT_FILENO);
}

void cli_pass_through(int fd, bool tty, const char *text, size_t len)
{
    if (!tty) {
        (void)fd_write_all(fd, text, len, NULL);
        return;
    }
    auto_buf struct buf b = BUF_INIT(len * 8 + 64);
    if (table_append_visible(&b, text, len, true, NULL) >= 0)
        (void)fd_write_all(fd, buf_cstr(&b), b.len, NULL);
}

int cli_load_config(struct config *ret)
{
    struct err err = ERR_INIT;
    if (config_load(ret, ".env", &err) < 0) {
        cli_complain("%s", err.message);
        return CLI_USAGE;
    }
    static const char *const levels[] = { "debug", "info", "warn", "error" };
    enum log_level level = LOG_INFO;
    for (size_t i = 0; i < ARRAY_SIZE(levels); i++)
        if (str_eq(ret->log_level, levels[i]))
            level = (enum log_level)i;
    log_setup(level, str_eq(ret->log_format, "json") ? LOG_FORMAT_JSON : LOG_FORMAT_KV);
    return CLI_OK;
}

int cli_bad_option(const char *verb, char **argv, const struct option *options)
{
    const char *names[32];
    char asked[64];
    size_t n = 0;
    const char *word = argv[optind - 1];

    for (; options[n].name && n < ARRAY_SIZE(names); n++)
        names[n] = options[n].name;
    if (!str_starts(word, "--")) {
        cli_complain("unknown option '-%c' of '%s'; see 'riddle %s --help'", optopt ? optopt : '?',
                     verb, verb);
        return CLI_USAGE;
    }
    snprintf(asked, sizeof(asked), "%.*s", (int)MIN_OF(strcspn(word + 2, "="), sizeof(asked) - 1),
             word + 2);
    for (size_t i = 0; i < n; i++)
        if (str_eq(asked, names[i])) {
            if (options[i].has_arg == required_argument)
                cli_complain("option '--%s' needs a value; see 'riddle %s --help'", asked, verb);
            else
                cli_complain("option '--%s' takes no value; see 'riddle %s --help'", asked, verb);
            return CLI_USAGE;
        }
    const char *near = str_nearest(asked, names, n);
    if (near)
        cli_complain("unknown option '--%s' of '%s'; did you mean '--%s'?", asked, verb, near);
    else
        cli_complain("unknown option '--%s' of '%s'; see 'riddle %s --help'", asked, verb, verb);
    return CLI_USAGE;
}
