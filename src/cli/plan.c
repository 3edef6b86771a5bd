/* `riddle plan`: compiles a QueryPlan to SQL, or says what is wrong with it. Runs nothing. */

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/fdio.h"
#include "base/json.h"
#include "base/macros.h"
#include "base/str.h"
#include "cli/cli.h"
#include "plan/compile.h"
#include "plan/query_plan.h"

#define PLAN_FILE_MAX_BYTES (4u << 20)
#define SCHEMA_FILE_MAX_BYTES (64u << 20)

enum { OPTION_SCHEMA = 256, OPTION_HELP };

static const struct option options[] = {
    { "schema", required_argument, NULL, OPTION_SCHEMA },
    { "help", no_argument, NULL, OPTION_HELP },
    { NULL, 0, NULL, 0 },
};

static const char usage[] =
    "usage: riddle plan compile|check [--schema SCHEMA.json] FILE\n"
    "\n"
    "  compile          print the SQL of the QueryPlan in FILE ('-': standard input)\n"
    "  check            say only whether it is right, and whether it reads much without narrowing anything\n"
    "  --schema FILE    check names and types against a dataset, a registry (the plan names the dataset), or\n"
    "                   {\"tables\": {\"t\": {\"column\": \"type\"}}}; joins follow its relationships\n"
    "\n"
    "docs/plans.md describes plans.\n";

static int read_json(const char *path, size_t max_bytes, json_t **ret, struct err *err)
{
    auto_buf struct buf text = BUF_INIT(max_bytes);
    bool is_stdin = str_eq(path, "-");
    int r = is_stdin ? fd_read_to_end(STDIN_FILENO, &text, err) : fd_read_file(path, &text, err);

    if (r < 0)
        return r;
    r = json_parse(buf_cstr(&text), text.len, ret, err);
    return r < 0 ? err_wrap(err, "%s", is_stdin ? "standard input" : path) : 0;
}

static int work(bool compile, const char *path, const char *schema_path, struct err *err)
{
    auto_arena struct arena arena;
    auto_arena struct arena schema_arena;
    auto_buf struct buf sql = BUF_INIT(PLAN_SQL_MAX_BYTES);
    auto_json json_t *plan_json = NULL;
    auto_json json_t *schema_json = NULL;
    struct plan_schema *schema = NULL;
    struct query_plan *plan;

    arena_init(&arena, PLAN_ARENA_BYTES);
    arena_init(&schema_arena, SCHEMA_FILE_MAX_BYTES);
    int r = read_json(path, PLAN_FILE_MAX_BYTES, &plan_json, err);
    if (r >= 0)
        r = plan_parse(plan_json, &arena, &plan, err);
    if (r >= 0 && schema_path) {
        r = read_json(schema_path, SCHEMA_FILE_MAX_BYTES, &schema_json, err);
        if (r >= 0) {
            r = plan_schema_parse(schema_json, plan->dataset_id, &schema_arena, &schema, err);
            if (r < 0)
                err_wrap(err, "%s", schema_path);
        }
    }
    if (r < 0)
        return r;
    if (!compile) {
        r = plan_check(plan, schema, err);
        if (r >= 0)
            r = buf_printf(
                &sql, err, "ok%s\n",
                plan_is_broad(plan) ? ", but broad: it has no filter and no aggregation" : "");
    } else {
        r = plan_compile(plan, schema, &sql, err);
        if (r >= 0)
            r = buf_append_str(&sql, "\n", err);
    }
    return r < 0 ? r : fd_write_all(STDOUT_FILENO, buf_cstr(&sql), sql.len, err);
}

int cli_plan(const struct cli *cli, int argc, char **argv)
{
    struct err err = ERR_INIT;
    const char *schema = NULL;
    int c;

    (void)cli;
    while ((c = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        switch (c) {
        case OPTION_SCHEMA:
            schema = optarg;
            break;
        case 'h':
        case OPTION_HELP:
            fputs(usage, stdout);
            return CLI_OK;
        default:
            return cli_bad_option("plan", argv, options);
        }
    }
    const char *action = optind < argc ? argv[optind] : NULL;
    if (!action) {
        fputs(usage, stderr);
        return CLI_USAGE;
    }
    if (!str_eq(action, "compile") && !str_eq(action, "check")) {
        cli_complain("unknown action '%s' of 'plan'; there are 'compile' and 'check'", action);
        return CLI_USAGE;
    }
    if (argc - optind != 2) {
        cli_complain("'plan %s' takes one FILE ('-' for standard input); see 'riddle plan --help'",
                     action);
        return CLI_USAGE;
    }
    if (schema && str_eq(schema, "-") && str_eq(argv[optind + 1], "-")) {
        cli_complain("the plan and the schema cannot both come from standard input");
        return CLI_USAGE;
    }
    if (work(str_eq(action, "compile"), argv[optind + 1], schema, &err) < 0) {
        cli_complain("%s", err.message);
        return CLI_FAILED;
    }
    return CLI_OK;
}
