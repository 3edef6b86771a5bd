/* `riddle`: the table of verbs, and what needs no verb. */

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/fdio.h"
#include "base/macros.h"
#include "base/str.h"
#include "base/version.h"
#include "cli/cli.h"
#include "database/database.h"
#include "database/sqlite_worker.h"
#include "llm/llm.h"
#include "sandbox/provider.h"
#include "store/store.h"

static const struct verb {
    const char *name;
    int (*fn)(const struct cli *cli, int argc, char **argv);
    const char *summary;
} verbs[] = {
    { "serve", cli_serve, "start the server" },
    { "ask", cli_ask, "answer a question about files in plain English, without a model" },
    { "chat", cli_chat,
      "talk about files on the terminal: questions, SQL and Python that remembers" },
    { "run", cli_run, "run SQL or Python on CSV files in a sandbox" },
    { "replay", cli_replay, "run a stored run again and compare" },
    { "datasets", cli_datasets, "write the bundled datasets, list those that there are" },
    { "plan", cli_plan, "compile or check a QueryPlan" },
    { "backup", cli_backup, "copy the store and uploaded files, also while a server runs" },
    { "restore", cli_restore, "put a backup back" },
    { "sandbox", cli_sandbox, "create sandboxes of a running server, run code and move files" },
    { "threads", cli_threads, "list the threads of a running server" },
    { "thread", cli_thread, "freeze, cool, wake or remove a thread of a running server" },
    { "bench-stream", cli_bench_stream, "time a question to a thread, whole and as a stream" },
    { "doctor", cli_doctor, "check this machine: dependencies and every layer of the jail" },
};

static void print_help(FILE *to)
{
    fputs("usage: riddle <verb> [options]\n\n", to);
    for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
        fprintf(to, "  %-12s %s\n", verbs[i].name, verbs[i].summary);
    fputs("\n"
          "  riddle <verb> --help    what the verb takes (also: riddle help <verb>)\n"
          "  riddle --version        version, and what this binary has\n"
          "  riddle --print-env-docs every setting (docs/env.md)\n"
          "  riddle --print-env-example  the same for a file .env\n",
          to);
}

static int print_settings(int (*print)(struct buf *b, struct err *err))
{
    struct err err = ERR_INIT;
    auto_buf struct buf b = BUF_INIT(1u << 20);
    if (print(&b, &err) < 0 || fd_write_all(STDOUT_FILENO, buf_cstr(&b), b.len, &err) < 0) {
        cli_complain("%s", err.message);
        return CLI_FAILED;
    }
    return CLI_OK;
}

static int unknown_verb(const char *name)
{
    const char *names[ARRAY_SIZE(verbs)];
    for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
        names[i] = verbs[i].name;
    const char *near = str_nearest(name, names, ARRAY_SIZE(verbs));
    if (near)
        cli_complain("unknown verb '%s'; did you mean '%s'?", name, near);
    else
        cli_complain("unknown verb '%s'; 'riddle --help' lists them", name);
    return CLI_USAGE;
}

/* "riddle 0.1.0 sandboxes=local,docker …": what this program has, from the tables of each. */
static void print_version(const char *version)
{
    const char *name;
    printf("riddle %s sandboxes=", version);
    for (size_t i = 0; provider_at(i); i++)
        printf("%s%s", i ? "," : "", provider_at(i)->name);
    printf(" stores=");
    for (size_t i = 0; (name = store_provider_name(i)); i++)
        printf("%s%s", i ? "," : "", name);
    printf(" databases=");
    for (size_t i = 0; (name = database_kind_name(i)); i++)
        printf("%s%s", i ? "," : "", name);
    printf(" models=");
    for (size_t i = 0; (name = llm_provider_name(i)); i++)
        printf("%s%s", i ? "," : "", name);
    printf("\n");
}

int main(int argc, char **argv)
{
    const struct cli cli = { .version = RIDDLE_VERSION };
    const char *first = argc > 1 ? argv[1] : NULL;
    char help[] = "--help", *helped[] = { argv[0], argc > 2 ? argv[2] : NULL, help, NULL };

    if (!first) {
        print_help(stderr);
        return CLI_USAGE;
    }
    if (str_eq(first, "help") && argc > 2) {
        first = argv[2];
        argc = 3;
        argv = helped;
    }
    if (str_eq(first, "--help") || str_eq(first, "-h") || str_eq(first, "help")) {
        print_help(stdout);
        return CLI_OK;
    }
    if (str_eq(first, "--version")) {
        print_version(cli.version);
        return CLI_OK;
    }
    if (str_eq(first, "--sqlite-worker"))
        return sqlite_worker_main();
    if (str_eq(first, "--print-env-docs"))
        return print_settings(config_print_markdown);
    if (str_eq(first, "--print-env-example"))
        return print_settings(config_print_example);
    for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
        if (str_eq(first, verbs[i].name))
            return verbs[i].fn(&cli, argc - 1, argv + 1);
    if (first[0] == '-') {
        cli_complain("unknown option '%s'; see 'riddle --help'", first);
        return CLI_USAGE;
    }
    return unknown_verb(first);
}
