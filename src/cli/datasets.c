/* `riddle datasets`: writes the bundled sets, and lists what the server will serve. */

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/config.h"
#include "base/fdio.h"
#include "base/json.h"
#include "base/macros.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/table.h"
#include "data/generate.h"
#include "data/registry.h"

#define LIST_MAX_BYTES (64u << 20)

static const char usage[] =
    "usage: riddle datasets generate [DIR]\n"
    "       riddle datasets list [--json] [DIR]\n"
    "\n"
    "generate writes the bundled datasets and their registry.json: the same bytes every time. Other datasets of DIR\n"
    "stay as they are. list shows the datasets of DIR: those of its registry and every other folder of CSV files.\n"
    "DIR is the setting DATASETS_DIR unless it is given.\n";

static const struct option long_options[] = {
    { "json", no_argument, NULL, 'j' },
    { "help", no_argument, NULL, 'h' },
    { NULL, 0, NULL, 0 },
};

static int print_buf(const struct buf *b)
{
    struct err err = ERR_INIT;

    if (fd_write_all(STDOUT_FILENO, buf_cstr(b), b->len, &err) < 0) {
        cli_complain("%s", err.message);
        return CLI_FAILED;
    }
    return CLI_OK;
}

static int print_json(const struct registry *reg)
{
    struct err err = ERR_INIT;
    auto_buf struct buf b = BUF_INIT(LIST_MAX_BYTES);
    auto_json json_t *list = json_array();
    auto_json json_t *all = json_pack("{s:O}", "datasets", list);

    for (size_t i = 0; i < registry_count(reg); i++)
        json_array_append_new(list, dataset_summary(registry_get(reg, i)));
    if (json_write(all, &b, &err) < 0 || buf_append_str(&b, "\n", &err) < 0) {
        cli_complain("%s", err.message);
        return CLI_FAILED;
    }
    return print_buf(&b);
}

static int print_table(const struct registry *reg)
{
    static const struct table_style style = { .width = 0, .colour = false };
    struct err err = ERR_INIT;
    auto_buf struct buf b = BUF_INIT(LIST_MAX_BYTES);
    auto_json json_t *columns = json_pack("[s, s, s, s, s, s]", "id", "name", "tables", "rows",
                                          "bytes", "version");
    auto_json json_t *types = json_pack("[s, s, s, s, s, s]", "VARCHAR", "VARCHAR", "VARCHAR",
                                        "BIGINT", "BIGINT", "VARCHAR");
    auto_json json_t *rows = json_array();

    for (size_t i = 0; i < registry_count(reg); i++) {
        const struct dataset *d = registry_get(reg, i);
        auto_buf struct buf tables = BUF_INIT(1u << 20);
        int64_t count = dataset_row_count(d);

        for (size_t k = 0; k < d->n_files; k++)
            (void)buf_printf(&tables, NULL, "%s%s", k ? ", " : "", d->files[k].table);
        json_array_append_new(
            rows, json_pack("[s, o, s, o, I, s%]", d->id, json_text(d->name, strlen(d->name)),
                            buf_cstr(&tables), count < 0 ? json_string("?") : json_integer(count),
                            (json_int_t)d->size_bytes, d->version_hash, strlen("sha256:") + 12));
    }
    if (table_render(columns, types, rows, &style, &b, &err) < 0) {
        cli_complain("%s", err.message);
        return CLI_FAILED;
    }
    return print_buf(&b);
}

static int list(const char *dir, bool json)
{
    struct err err = ERR_INIT;
    struct registry *reg = NULL;
    const json_t *notes;
    json_t *note;
    size_t i;
    int status;

    if (registry_load(dir, NULL, &reg, &err) < 0) {
        cli_complain("%s", err.message);
        return CLI_FAILED;
    }
    notes = registry_notes(reg);
    json_array_foreach(notes, i, note)
        cli_complain("%s", json_string_value(note));
    status = json ? print_json(reg) : print_table(reg);
    registry_unref(reg);
    return status;
}

static int generate(const char *dir)
{
    struct err err = ERR_INIT;

    if (datasets_generate(dir, &err) < 0) {
        cli_complain("%s", err.message);
        return CLI_FAILED;
    }
    return list(dir, false);
}

int cli_datasets(const struct cli *cli, int argc, char **argv)
{
    static const char *const actions[] = { "generate", "list" };
    bool json = false;
    const char *action, *near, *dir;
    struct config cfg;
    int c, status;

    (void)cli;
    opterr = 0;
    optind = 0;
    while ((c = getopt_long(argc, argv, ":h", long_options, NULL)) != -1) {
        if (c == 'h') {
            fputs(usage, stdout);
            return CLI_OK;
        }
        if (c != 'j')
            return cli_bad_option("datasets", argv, long_options);
        json = true;
    }
    if (optind >= argc) {
        fputs(usage, stderr);
        return CLI_USAGE;
    }
    action = argv[optind];
    if (!str_eq(action, "generate") && !str_eq(action, "list")) {
        near = str_nearest(action, actions, ARRAY_SIZE(actions));
        cli_complain("'datasets' cannot '%s'; %s%s", action,
                     near ? "did you mean " : "see 'riddle datasets --help'", near ? near : "");
        return CLI_USAGE;
    }
    if (argc - optind > 2) {
        cli_complain("'datasets %s' takes one directory, not '%s' as well", action,
                     argv[optind + 2]);
        return CLI_USAGE;
    }
    status = cli_load_config(&cfg);
    if (status != CLI_OK)
        return status;
    dir = argc - optind == 2 ? argv[optind + 1] : cfg.datasets_dir;
    status = str_eq(action, "generate") ? generate(dir) : list(dir, json);
    config_finish(&cfg);
    return status;
}
