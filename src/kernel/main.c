/* riddle-kernel: the inside of every sandbox, and the fork server they come from. */

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include "base/config.h"
#include "base/str.h"
#include "base/version.h"
#include "kernel/probe.h"
#include "kernel/zygote.h"
#include "sandbox/runner.h"

#ifdef __SANITIZE_ADDRESS__
/* The zygote starts with an empty environment, so the sanitizer's options are here. Kernels end by _exit: no leak check. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0:use_sigaltstack=0:allocator_may_return_null=1:handle_segv=1";
}
#endif

static const char usage[] =
    "riddle-kernel: runs SQL and Python in a jail. Started by riddle; by itself it can\n"
    "  riddle-kernel --once     read one RunnerRequest (JSON) on standard input, print one RunnerResponse\n"
    "  riddle-kernel --probe    print what of the jail holds on this machine, as JSON ('riddle doctor' shows it)\n"
    "  riddle-kernel --version\n";

static int fail(const struct err *err)
{
    fprintf(stderr, "riddle-kernel: %s\n", err->message);
    return 1;
}

/* --zygote=sql|python [--preload=LIST] [--one-shot] [--partial] [--parent-maps]; the socket is descriptor 3. */
static int run_zygote(int argc, char **argv)
{
    struct zygote_options opt = { .preload = "", .sock = 3 };
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
    }
    struct err err = ERR_INIT;
    return zygote_serve(&opt, &err) < 0 ? fail(&err) : 0;
}

static int run_once(void)
{
    struct err err = ERR_INIT;
    struct config cfg;
    if (config_load(&cfg, ".env", &err) < 0)
        return fail(&err);
    int status = runner_run_once(&cfg, RUNNER_IN_DATA_ROOT, 0, 1);
    config_finish(&cfg);
    return status;
}

int main(int argc, char **argv)
{
    if (argc >= 2 && (str_eq(argv[1], "--zygote=sql") || str_eq(argv[1], "--zygote=python")))
        return run_zygote(argc, argv);
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
