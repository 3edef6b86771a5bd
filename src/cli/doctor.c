/*
 * `riddle doctor`: does this machine have what Riddle needs, and does every layer of the jail hold
 * on it?
 *
 * Each check is PASS, CAUTION (it works, but something is weaker or slower than it should be) or
 * FAIL, and one that is not PASS says what to do. What belongs to sandboxes the chosen provider
 * checks (struct provider_ops, probe); then a sandbox is made and used.
 */

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/fdio.h"
#include "base/json.h"
#include "base/macros.h"
#include "base/proc.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/doctor_model.h"
#include "cli/table.h"
#include "database/database.h"
#include "llm/llm.h"
#include "run/foreground.h"
#include "sandbox/provider.h"

#define MEGABYTE (1024LL * 1024)

enum status { PASS, CAUTION, FAIL, _STATUS_MAX };
static const char *const status_names[_STATUS_MAX] = { "pass", "caution", "fail" };
static const char *const status_labels[_STATUS_MAX] = { "PASS", "CAUTION", "FAIL" };
static const char *const status_colours[_STATUS_MAX] = { "\033[32m", "\033[33m", "\033[31m" };

/* ---- checks are an array of {"name","status","detail","remedy"} ---- */

static void add(json_t *checks, const char *name, enum status status, const char *remedy,
                const char *fmt, ...) PRINTF_LIKE(5, 6);
static void add(json_t *checks, const char *name, enum status status, const char *remedy,
                const char *fmt, ...)
{
    char detail[ERR_MESSAGE_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(detail, sizeof(detail), fmt, ap);
    va_end(ap);
    json_t *check = json_object();
    json_object_set_new(check, "name", json_text(name, strlen(name)));
    json_object_set_new(check, "status", json_string(status_names[status]));
    json_object_set_new(check, "detail", json_text(detail, strlen(detail)));
    if (status != PASS && remedy)
        json_object_set_new(check, "remedy", json_text(remedy, strlen(remedy)));
    json_array_append_new(checks, check);
}

static enum status status_of(const json_t *check)
{
    const char *name = json_string_value(json_object_get(check, "status"));
    for (size_t i = 0; i < _STATUS_MAX; i++)
        if (str_eq(name, status_names[i]))
            return (enum status)i;
    return FAIL; /* what cannot be understood has not passed */
}

/* ---- sandboxes ---- */

static void on_probed(void *arg, enum probe_level level, const char *name, const char *detail,
                      const char *remedy)
{
    static const enum status statuses[] = {
        [PROBE_PASS] = PASS, [PROBE_CAUTION] = CAUTION, [PROBE_FAIL] = FAIL
    };
    add(arg, name, statuses[level], remedy, "%s", detail);
}

/* The proof of the pudding: a sandbox is made and a query run inside. */
static void check_sandbox(const struct config *cfg, json_t *checks)
{
    struct err err = ERR_INIT;
    struct foreground *fg = NULL;
    struct run_result result = { .verdict = VERDICT_OK };
    struct executor_options once = { .one_shot = true, .kind = RUN_SQL };
    struct run_spec spec = {
        .owner = FOREGROUND_OWNER,
        .query_mode = "sql",
        .sql = "SELECT 42",
        .request = { .timeout_ms = 10000, .max_rows = 1, .max_output_bytes = 65536 },
    };
    sandbox_limits_default(cfg, &spec.limits);
    int r = foreground_open(cfg, &once, &fg, &err);
    if (r == 0)
        r = foreground_execute(fg, &spec, NULL, NULL, NULL, &result, &err);
    if (r < 0 || result.verdict != VERDICT_OK)
        add(checks, "jail as a whole", FAIL, "see the checks above that did not pass", "%s",
            r < 0 ? err.message : verdict_name(result.verdict));
    else if (str_eq(cfg->jail, "partial"))
        add(checks, "jail as a whole", CAUTION, "unset RIDDLE_JAIL where this machine is the wall",
            "closed, with RIDDLE_JAIL=partial");
    else
        add(checks, "jail as a whole", PASS, NULL, "closed and verified");
    run_result_finish(&result);
    foreground_close(fg);
}

/* ---- the machine ---- */

static void check_home(const struct config *cfg, json_t *checks)
{
    struct err err = ERR_INIT;
    struct statvfs fs;
    auto_free char *probe = NULL;
    static const char remedy[] = "set RIDDLE_HOME to a directory that this user may write";

    if (fd_mkdir_p(cfg->home, 0700, &err) < 0) {
        add(checks, "home", FAIL, remedy, "%s", err.message);
        return;
    }
    if (asprintf(&probe, "%s/.doctor-XXXXXX", cfg->home) < 0) {
        probe = NULL;
        return;
    }
    auto_close int fd = mkostemp(probe, O_CLOEXEC);
    if (fd < 0) {
        add(checks, "home", FAIL, remedy, "no file can be made in '%s': %s", cfg->home,
            strerror(errno));
        return;
    }
    unlink(probe);
    add(checks, "home", PASS, NULL, "'%s' can be written", cfg->home);

    if (fstatvfs(fd, &fs) < 0) {
        add(checks, "disk space", CAUTION, "see df", "the free space of '%s' is not known: %s",
            cfg->home, strerror(errno));
        return;
    }
    long long free_mb = (long long)(fs.f_bavail * (unsigned long long)fs.f_frsize) / MEGABYTE;
    add(checks, "disk space",
        free_mb < 100  ? FAIL :
        free_mb < 1024 ? CAUTION :
                         PASS,
        "free some space, or move RIDDLE_HOME to another disk: ingested tables are kept there",
        "%lld MB free in '%s'", free_mb, cfg->home);
}

static long long available_memory_mb(void)
{
    struct err err = ERR_INIT;
    auto_buf struct buf b = BUF_INIT(65536);
    long long kb = 0;
    if (fd_read_file("/proc/meminfo", &b, &err) < 0)
        return -1;
    const char *line = strstr(buf_cstr(&b), "MemAvailable:");
    return line && sscanf(line, "MemAvailable: %lld kB", &kb) == 1 ? kb / 1024 : -1;
}

static void check_machine(const struct config *cfg, json_t *checks)
{
    static const char remedy[] = "lower RIDDLE_MEMORY, RIDDLE_POOL_SIZE, or free some memory";
    long long have_mb = available_memory_mb(), kernel_mb = cfg->memory_bytes / MEGABYTE;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);

    if (have_mb < 0)
        add(checks, "memory", CAUTION, "mount /proc",
            "the free memory of this machine is not known");
    else /* the zygote holds about 130 MB beside what a kernel may take */
        add(checks, "memory",
            have_mb < 256             ? FAIL :
            have_mb < kernel_mb + 256 ? CAUTION :
                                        PASS,
            remedy, "%lld MB available; one kernel may take %lld MB", have_mb, kernel_mb);
    add(checks, "processors", cores < 2 || (double)cores < cfg->cpus ? CAUTION : PASS,
        "runs will wait for each other; a second processor helps, and RIDDLE_CPUS should not be more than there are",
        "%ld online; one kernel may use %g", cores, cfg->cpus);
}

#define MODEL_END_SOON_DAYS 90

/* Days from today to a day written "2027-01-14". */
static long days_until(const char *day)
{
    struct tm tm = { .tm_isdst = -1 };
    if (sscanf(day, "%d-%d-%d", &tm.tm_year, &tm.tm_mon, &tm.tm_mday) != 3)
        return LONG_MAX;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    return (long)(((int64_t)timegm(&tm) * 1000 - clock_wall_ms()) / 86400000);
}

static void on_finding(void *arg, const char *name, bool good, bool is_bad, const char *remedy,
                       const char *detail)
{
    add(arg, name, good ? PASS : is_bad ? FAIL : CAUTION, remedy, "%s", detail);
}

/* Which model answers, and whether its maker ends it soon. Asked over the network only with `ask`.
 */
static void check_model(const struct config *cfg, bool ask, json_t *checks)
{
    struct err err = ERR_INIT;
    struct llm *llm;
    uv_loop_t loop;
    char remedy[200];

    uv_loop_init(&loop);
    if (llm_create(&loop, cfg, &llm, &err) < 0) {
        add(checks, "model", FAIL, "see docs/models.md", "%s", err.message);
    } else {
        const char *ends = llm_model_ends(llm);
        long days = *ends ? days_until(ends) : LONG_MAX;
        snprintf(remedy, sizeof(remedy), "set %s to a model that goes on; see docs/models.md",
                 llm_model_setting(llm));
        if (llm_is_builtin(llm))
            add(checks, "model", PASS, NULL, "none: the built-in planner answers");
        else if (days < 0)
            add(checks, "model", CAUTION, remedy, "%s: its maker ended it on %s", llm_model(llm),
                ends);
        else if (days < MODEL_END_SOON_DAYS)
            add(checks, "model", CAUTION, remedy, "%s: its maker ends it on %s, in %ld days",
                llm_model(llm), ends, days);
        else
            add(checks, "model", PASS, NULL, "%s by %s", llm_model(llm), llm_provider(llm));
        if (ask && llm_is_builtin(llm))
            add(checks, "model: answers", CAUTION, "configure one: see docs/models.md",
                "not tried: no model is configured");
        else if (ask)
            doctor_ask_model(llm, &loop, on_finding, checks);
        llm_destroy(llm);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
}

/* ---- databases ---- */

static void check_databases(const struct config *cfg, json_t *checks)
{
    struct err err = ERR_INIT;
    struct databases *all = NULL;
    uv_loop_t loop;
    char name[96], detail[1024];
    uv_loop_init(&loop);
    if (databases_create(&loop, cfg, &all, &err) < 0)
        add(checks, "databases", FAIL, "see docs/databases.md", "%s", err.message);
    for (size_t i = 0; all && i < databases_count(all); i++) {
        struct database *db = databases_get(all, i);
        snprintf(name, sizeof(name), "database %s", database_name(db));
        if (database_check(db, detail, sizeof(detail), &err) < 0)
            add(checks, name, FAIL, "see its entry in DATABASES, and docs/databases.md", "%s",
                err.message);
        else
            add(checks, name, PASS, NULL, "%s", detail);
    }
    databases_destroy(all);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
}

/* ---- printing ---- */

static void print_visible(const char *text)
{
    auto_buf struct buf b = BUF_INIT(65536);
    if (table_append_visible(&b, text, strlen(text), false, NULL) >= 0)
        fputs(buf_cstr(&b), stdout);
}

static void print_checks(const json_t *checks)
{
    struct table_style style;
    int name_width = 0, counts[_STATUS_MAX] = { 0 };
    size_t i;
    json_t *check;

    table_style_for(STDOUT_FILENO, &style);
    json_array_foreach(checks, i, check)
        name_width = MAX_OF(
            name_width,
            (int)MIN_OF(json_string_length(json_object_get(check, "name")), (size_t)32));
    json_array_foreach(checks, i, check) {
        enum status status = status_of(check);
        const char *remedy = json_string_value(json_object_get(check, "remedy"));
        counts[status]++;
        printf("%s%-7s%s  %-*s  ", style.colour ? status_colours[status] : "",
               status_labels[status], style.colour ? "\033[0m" : "", name_width,
               json_string_value(json_object_get(check, "name")));
        print_visible(json_string_value(json_object_get(check, "detail")));
        putchar('\n');
        if (remedy && *remedy) {
            printf("%*s", 7 + 2 + name_width + 2, "");
            fputs("→ ", stdout);
            print_visible(remedy);
            putchar('\n');
        }
    }
    printf("%d passed, %d with caution, %d failed\n", counts[PASS], counts[CAUTION], counts[FAIL]);
}

static int print_json(const char *version, const json_t *checks, enum status worst)
{
    struct err err = ERR_INIT;
    auto_buf struct buf b = BUF_INIT(4u << 20);
    auto_json json_t *report = json_pack("{s:s, s:s, s:O}", "status", status_names[worst],
                                         "version", version, "checks", checks);
    if (!report || json_write(report, &b, &err) < 0 || buf_append_str(&b, "\n", &err) < 0 ||
        fd_write_all(STDOUT_FILENO, b.data, b.len, &err) < 0) {
        cli_complain("%s", err.message);
        return CLI_FAILED;
    }
    return CLI_OK;
}

static const char usage[] =
    "usage: riddle doctor [--json] [--model]\n"
    "\n"
    "Checks what Riddle needs and every layer of the jail, and says what to do about what is "
    "missing.\n"
    "\n"
    "  --model   also talks with the configured model, for a few hundred tokens: stream, tools, "
    "images, second turn\n"
    "  --json    the report as JSON\n"
    "\n"
    "Exit status: 0 when everything is PASS or CAUTION, 1 when something is FAIL.\n";

static const struct option long_options[] = {
    { "json", no_argument, NULL, 'j' },
    { "model", no_argument, NULL, 'm' },
    { "help", no_argument, NULL, 'h' },
    { NULL, 0, NULL, 0 },
};

int cli_doctor(const struct cli *cli, int argc, char **argv)
{
    bool json = false, ask = false;
    struct err err = ERR_INIT;
    struct config cfg;
    int c;

    opterr = 0;
    optind = 0;
    while ((c = getopt_long(argc, argv, ":h", long_options, NULL)) != -1) {
        if (c == 'h') {
            fputs(usage, stdout);
            return CLI_OK;
        }
        if (c != 'j' && c != 'm')
            return cli_bad_option("doctor", argv, long_options);
        *(c == 'j' ? &json : &ask) = true;
    }
    if (optind < argc) {
        cli_complain("'doctor' takes no '%s'; see 'riddle doctor --help'", argv[optind]);
        return CLI_USAGE;
    }
    int status = cli_load_config(&cfg);
    if (status != CLI_OK)
        return status;

    auto_json json_t *checks = json_array();
    const struct provider_ops *provider = provider_find(cfg.sandbox_provider, &err);
    if (!provider)
        add(checks, "SANDBOX_PROVIDER", FAIL, "set one of these", "%s", err.message);
    else if (provider->probe(&cfg, on_probed, checks))
        check_sandbox(&cfg, checks);
    check_home(&cfg, checks);
    check_machine(&cfg, checks);
    check_model(&cfg, ask, checks);
    check_databases(&cfg, checks);

    enum status worst = PASS;
    size_t i;
    json_t *check;
    json_array_foreach(checks, i, check)
        worst = MAX_OF(worst, status_of(check));
    status = worst == FAIL ? CLI_FAILED : CLI_OK;
    if (!json)
        print_checks(checks);
    else if (print_json(cli->version, checks, worst) != CLI_OK)
        status = CLI_FAILED;
    config_finish(&cfg);
    return status;
}
