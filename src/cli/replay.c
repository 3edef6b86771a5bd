/*
 * riddle replay RUN_ID: runs what a capsule holds again, on the same data, and compares. Needs no
 * server.
 */

#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/arena.h"
#include "base/str.h"
#include "cli/cli.h"
#include "data/registry.h"
#include "run/capsule.h"
#include "run/foreground.h"
#include "store/store.h"

static const char usage[] =
    "usage: riddle replay [--json] RUN_ID\n"
    "\n"
    "Runs a stored run again and compares columns, rows and verdict. Exit status: 0 when they are equal,\n"
    "1 when they differ or the run cannot be repeated.\n";

/* A path as it is from any directory; ret holds it. */
static const char *absolute(const char *path, char ret[PATH_MAX])
{
    char cwd[PATH_MAX];
    if (path[0] == '/' || !getcwd(cwd, sizeof(cwd)) ||
        snprintf(ret, PATH_MAX, "%s/%s", cwd, path) >= PATH_MAX)
        return path;
    return ret;
}

/* The files of the dataset as they are now. NOT_FOUND when there is no such dataset any more. */
static int find_files(const struct config *cfg, struct store *store, const struct capsule *c,
                      struct arena *a, struct registry **ret_registry, struct run_spec *spec,
                      char *ret_version, size_t n_version, struct err *err)
{
    int r = registry_load(cfg->datasets_dir, NULL, ret_registry, err);
    const struct dataset *d = r == 0 ? registry_find(*ret_registry, c->dataset_id) : NULL;
    if (d) {
        struct sandbox_file *files = arena_alloc(a, (d->n_files + 1) * sizeof(*files));
        if (!files)
            return err_set(err, ERR_NO_MEMORY, "out of memory");
        for (size_t i = 0; i < d->n_files; i++)
            files[i] = (struct sandbox_file){ .name = d->files[i].name,
                                              .path = d->files[i].full_path,
                                              .table = d->files[i].table,
                                              .sha256 = d->files[i].sha256 };
        spec->files = files;
        spec->n_files = d->n_files;
        snprintf(ret_version, n_version, "%s", d->version_hash);
        return 0;
    }
    struct store_page page;
    struct err ignored = ERR_INIT;
    char path[PATH_MAX];
    if (store_get_wait(store, RECORD_UPLOAD, store_any_owner, c->dataset_id, &page, &ignored) < 0)
        return err_set(err, ERR_NOT_FOUND,
                       "the dataset '%s' of this run is neither in %s (DATASETS_DIR) nor an upload",
                       c->dataset_id, absolute(cfg->datasets_dir, path));
    const struct upload *u = &page.uploads[0];
    struct sandbox_file *file = arena_alloc(a, sizeof(*file));
    char table[DATASET_TABLE_MAX + 1], stem[256];
    str_stem(u->filename, stem, sizeof(stem));
    dataset_safe_name(stem, "data", true, table, sizeof(table));
    if (file) {
        *file = (struct sandbox_file){ .name = arena_strdup(a, u->filename),
                                       .path = arena_strdup(a, u->path),
                                       .table = arena_strdup(a, table),
                                       .is_beside = true };
        spec->files = file;
        spec->n_files = 1;
        snprintf(ret_version, n_version, "sha256:%s", u->sha256 ? u->sha256 : "");
    }
    store_page_finish(&page);
    return file ? 0 : err_set(err, ERR_NO_MEMORY, "out of memory");
}

static int run_again(const struct config *cfg, const struct capsule *c, struct run_spec *spec,
                     struct run_result *ret, struct err *err)
{
    int r = capsule_request(c, cfg, &spec->request, err);
    if (r < 0)
        return r;
    struct foreground *fg = NULL;
    struct executor_options once = { .one_shot = true,
                                     .kind = spec->request.kind,
                                     .code = spec->request.code };
    r = foreground_open(cfg, &once, &fg, err);
    if (r == 0)
        r = foreground_execute(fg, spec, NULL, NULL, NULL, ret, err);
    foreground_close(fg);
    return r;
}

/* What differs, in words; empty when nothing does. */
static void compare(const struct capsule *c, const struct run_result *now, char *ret, size_t n)
{
    auto_json json_t *then = NULL;
    if (c->result_json)
        (void)json_parse(c->result_json, strlen(c->result_json), &then, NULL);
    static const char *const keys[] = { "columns", "rows", "row_count", "truncated" };
    *ret = 0;
    if (!str_eq(c->verdict, verdict_name(now->verdict)))
        snprintf(ret, n, "the verdict was '%s' and is '%s'", c->verdict ? c->verdict : "unknown",
                 verdict_name(now->verdict));
    for (size_t i = 0; i < ARRAY_SIZE(keys) && !*ret; i++)
        if (!json_equal(json_object_get(then, keys[i]), json_object_get(now->body, keys[i])))
            snprintf(ret, n, "the %s differ", keys[i]);
}

static int replay(const struct config *cfg, const char *run_id, bool as_json, struct err *err)
{
    struct store *store = NULL;
    struct store_page page = { 0 };
    struct registry *registry = NULL;
    struct run_result now = { 0 };
    struct arena arena;
    arena_init(&arena, 1u << 20);
    char version[HASH_VERSION_SIZE + 8] = "", difference[160] = "", path[PATH_MAX];
    int r = store_open_configured(cfg, NULL, &store, err);
    if (r == 0)
        r = store_get_wait(store, RECORD_CAPSULE, store_any_owner, run_id, &page, err);
    if (r == -ERR_NOT_FOUND)
        err_set(err, ERR_NOT_FOUND, "run '%s' not found in the store of %s (RIDDLE_HOME%s)", run_id,
                absolute(cfg->home, path), *cfg->capsule_db_path ? ", CAPSULE_DB_PATH" : "");
    if (r == 0) {
        const struct capsule *c = &page.capsules[0];
        struct run_spec spec = { .owner = FOREGROUND_OWNER,
                                 .dataset_id = c->dataset_id,
                                 .query_mode = c->query_mode,
                                 .sql = c->python_code ? NULL : c->compiled_sql,
                                 .python = c->python_code };
        sandbox_limits_default(cfg, &spec.limits);
        r = find_files(cfg, store, c, &arena, &registry, &spec, version, sizeof(version), err);
        if (r == 0)
            r = run_again(cfg, c, &spec, &now, err);
        if (r == 0)
            compare(c, &now, difference, sizeof(difference));
        bool same_data = r == 0 && str_eq(c->dataset_version_hash, version);
        if (r == 0 && as_json) {
            auto_json json_t *out = json_pack(
                "{s:s, s:b, s:b, s:s, s:s}", "run_id", run_id, "equal", !*difference, "same_data",
                same_data, "verdict", verdict_name(now.verdict), "difference", difference);
            auto_free char *text = json_to_str(out);
            puts(text ? text : "{}");
        } else if (r == 0) {
            printf("%s: %s%s\n", run_id, *difference ? difference : "equal",
                   same_data ? "" : " (the dataset has changed since)");
        }
    }
    run_result_finish(&now);
    registry_unref(registry);
    store_page_finish(&page);
    store_close(store);
    arena_finish(&arena);
    return r < 0 ? r : *difference ? 1 : 0;
}

int cli_replay(const struct cli *cli, int argc, char **argv)
{
    (void)cli;
    static const struct option options[] = { { "json", no_argument, NULL, 'j' },
                                             { "help", no_argument, NULL, 'h' },
                                             { NULL, 0, NULL, 0 } };
    bool as_json = false;
    for (int c; (c = getopt_long(argc, argv, ":", options, NULL)) != -1;) {
        if (c == 'j') {
            as_json = true;
        } else if (c == 'h') {
            fputs(usage, stdout);
            return CLI_OK;
        } else {
            return cli_bad_option("replay", argv, options);
        }
    }
    if (optind + 1 != argc) {
        fputs(usage, stderr);
        return CLI_USAGE;
    }
    struct config cfg;
    int status = cli_load_config(&cfg);
    if (status != CLI_OK)
        return status;
    struct err err = ERR_INIT;
    int r = replay(&cfg, argv[optind], as_json, &err);
    if (r < 0)
        cli_complain("%s", err.message);
    config_finish(&cfg);
    return r == 0 ? CLI_OK : CLI_FAILED;
}
