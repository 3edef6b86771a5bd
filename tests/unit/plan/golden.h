#ifndef RIDDLE_TESTS_UNIT_PLAN_GOLDEN_H
#define RIDDLE_TESTS_UNIT_PLAN_GOLDEN_H

/*
 * What the tests over tests/golden share: its files by name, its registry, a plan compiled from
 * JSON.
 */

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/fdio.h"
#include "base/json.h"
#include "base/macros.h"
#include "base/str.h"
#include "plan/compile.h"
#include "plan/plan_schema.h"
#include "plan/query_plan.h"

#define GOLDEN_PLANS "tests/golden/plans"
#define GOLDEN_REJECTED "tests/golden/rejected"
#define GOLDEN_REGISTRY "tests/golden/registry.json"
#define GOLDEN_MAX_FILES 1000

struct golden_names {
    char *stems[GOLDEN_MAX_FILES];
    size_t n;
};

static inline int golden_is_json(const struct dirent *e)
{
    return str_ends(e->d_name, ".json");
}

/* The stems of the .json files of a directory, sorted. */
static inline void golden_list(const char *directory, struct golden_names *ret)
{
    struct dirent **entries;
    int n = scandir(directory, &entries, golden_is_json, alphasort);

    assert_true(n > 0 && n <= GOLDEN_MAX_FILES);
    ret->n = 0;
    for (int i = 0; i < n; i++) {
        char stem[300];

        str_stem(entries[i]->d_name, stem, sizeof(stem));
        ret->stems[ret->n++] = strdup(stem);
        free(entries[i]);
    }
    free(entries);
}

static inline void golden_finish(struct golden_names *names)
{
    for (size_t i = 0; i < names->n; i++)
        free(names->stems[i]);
}

static inline char *golden_text(const char *directory, const char *stem, const char *extension)
{
    auto_buf struct buf b = BUF_INIT(1u << 20);
    struct err err = ERR_INIT;
    char path[600];

    snprintf(path, sizeof(path), "%s/%s%s", directory, stem, extension);
    assert_works(fd_read_file(path, &b, &err), &err);
    return buf_take(&b);
}

static inline json_t *golden_json(const char *directory, const char *stem)
{
    auto_free char *text = golden_text(directory, stem, ".json");
    struct err err = ERR_INIT;
    json_t *j = NULL;

    assert_works(json_parse(text, strlen(text), &j, &err), &err);
    return j;
}

/* The registry's schema for the dataset. */
static inline const struct plan_schema *golden_schema(const char *dataset_id, struct arena *a)
{
    auto_json json_t *registry = golden_json("tests/golden", "registry");
    struct plan_schema *schema = NULL;
    struct err err = ERR_INIT;

    assert_works(plan_schema_parse(registry, dataset_id, a, &schema, &err), &err);
    return schema;
}

static inline const char *golden_dataset(const json_t *plan)
{
    return json_string_value(json_object_get(plan, "dataset_id"));
}

/* Parses and compiles; `sql` ends with a newline, as the golden files do. */
static inline int golden_compile(const json_t *j, bool with_schema, struct buf *sql,
                                 struct err *err)
{
    auto_arena struct arena a;
    struct query_plan *plan;

    arena_init(&a, PLAN_ARENA_BYTES);
    int r = plan_parse(j, &a, &plan, err);
    if (r >= 0)
        r = plan_compile(plan, with_schema ? golden_schema(plan->dataset_id, &a) : NULL, sql, err);
    return r < 0 ? r : buf_append_str(sql, "\n", err);
}

#endif
