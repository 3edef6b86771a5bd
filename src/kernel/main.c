/* riddle-kernel: the inside of every sandbox, and the fork server they come from. */

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
#include "base/config.h"
#include "base/proc.h"
#include "base/str.h"
#include "base/version.h"
#include "kernel/attached.h"
#include "kernel/jail/probe.h"
#include "kernel/zygote/zygote.h"
#include "sandbox/wire.h"

#ifdef __SANITIZE_ADDRESS__
/*
 * The zygote starts with an empty environment, so the sanitizer's options are here. Kernels end by
 * _exit: no leak check.
 */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0:use_sigaltstack=0:allocator_may_return_null=1:handle_segv=1";
}
#endif

static const char usage[] =
    "riddle-kernel: runs SQL and Python in a jail. Started by riddle; by itself it can\n"
    "  riddle-kernel --once     read one RunnerRequest (JSON) on standard input, print one RunnerResponse\n"
    "  riddle-kernel --attached=sql|python   be the first process of a container, for 'riddle'\n"
    "  riddle-kernel --probe    print what of the jail holds on this machine, as JSON ('riddle doctor' shows it)\n"
    "  riddle-kernel --version\n";

static int fail(const struct err *err)
{
    fprintf(stderr, "riddle-kernel: %s\n", err->message);
    return err->code == ERR_ISOLATION ? ZYGOTE_EXIT_ISOLATION : 1;
}

/*
 * The environment of zygotes and of all kernels: nothing of ours, and the same in each, for the
 * same steps from then on. riddle names the one thing that differs, where matplotlib keeps its list
 * of fonts.
 */
static void set_environment(void)
{
    char fonts[PATH_MAX], *given = getenv("MPLCONFIGDIR");
    snprintf(fonts, sizeof(fonts), "%s", given ? given : "/tmp");
    if (given)
        explicit_bzero(given, strlen(given)); /* /proc/self/environ shows it for good */
    clearenv();
    setenv("PATH", "/usr/bin:/bin", 1);
    setenv("LANG", "C.UTF-8", 1);
    setenv("LC_ALL", "C.UTF-8", 1);
    setenv("HOME", "/workspace", 1);
    setenv("TMPDIR", "/tmp", 1);
    setenv("USER", "riddle", 1);
    setenv("LOGNAME", "riddle", 1);
    setenv("PYTHONHASHSEED", "0", 1);
    setenv("MPLCONFIGDIR", fonts, 1);
}

/*
 * --zygote=sql|python [--preload=LIST] [--one-shot] [--partial] [--parent-maps] [--without=LIST]
 * [--base]; the socket is descriptor 3, the base descriptor 4.
 */
static int run_zygote(int argc, char **argv)
{
    struct zygote_options opt = { .preload = "", .sock = 3, .base = -1, .argv = argv };
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    opt.python = str_eq(argv[1], "--zygote=python");
    for (int i = 2; i < argc; i++) {
        if (str_starts(argv[i], "--preload="))
            opt.preload = argv[i] + strlen("--preload=");
        else if (str_eq(argv[i], "--one-shot"))
            opt.one_shot = true;
        else if (str_eq(argv[i], "--partial"))
            opt.partial = true;
        else if (str_eq(argv[i], "--parent-maps"))
            opt.parent_maps = true;
        else if (str_eq(argv[i], ZYGOTE_BASE_OPTION))
            opt.base = 4;
        else if (str_starts(argv[i], "--without="))
            opt.without = argv[i] + strlen("--without=");
    }
    struct err err = ERR_INIT;
    set_environment();
    return zygote_serve(&opt, &err) < 0 ? fail(&err) : 0;
}

/* --attached=sql|python [--preload=LIST] */
static int run_attached(int argc, char **argv)
{
    struct attached_options opt = { .python = str_eq(argv[1], "--attached=python"), .preload = "" };
    for (int i = 2; i < argc; i++)
        if (str_starts(argv[i], "--preload="))
            opt.preload = argv[i] + strlen("--preload=");
    set_environment();
    return attached_run(&opt);
}

/* The contract of a runner is riddle's: this program is only the name that it goes by. */
static int run_once(void)
{
    struct err err = ERR_INIT;
    char dir[PATH_MAX - 16], path[PATH_MAX];
    if (proc_self_dir(dir, sizeof(dir), &err) < 0)
        return fail(&err);
    snprintf(path, sizeof(path), "%s/riddle", dir);
    execl(path, "riddle", "run", "--json", (char *)NULL);
    err_errno(&err, ERR_NOT_FOUND, errno, "starting '%s'", path);
    return fail(&err);
}

int main(int argc, char **argv)
{
    if (argc >= 2 && (str_eq(argv[1], "--zygote=sql") || str_eq(argv[1], "--zygote=python")))
        return run_zygote(argc, argv);
    if (argc >= 2 && (str_eq(argv[1], "--attached=sql") || str_eq(argv[1], "--attached=python")))
        return run_attached(argc, argv);
    if (argc == 2 && str_eq(argv[1], "--once"))
        return run_once();
    if (argc == 2 && str_eq(argv[1], "--probe"))
        return probe_print(stdout);
    if (argc == 2 && str_eq(argv[1], "--version")) {
        printf("riddle-kernel %s\n", RIDDLE_VERSION);
        return 0;
    }
    fputs(usage, argc == 2 && str_eq(argv[1], "--help") ? stdout : stderr);
    return argc == 2 && str_eq(argv[1], "--help") ? 0 : 2;
}
