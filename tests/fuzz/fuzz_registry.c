/*
 * Fuzzes registry.json: whatever it says, the datasets that are loaded are ours: files below the
 * directory, identifiers where there have to be some. Profiles of any shape are refused or usable.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "data/registry.h"
#include "scratch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_dataset(const struct dataset *d, const char *dir)
{
    if (!dataset_is_id(d->id) || !d->name || !d->description || !json_is_array(d->prompts) ||
        !json_is_array(d->tags))
        abort();
    for (size_t i = 0; i < d->n_files; i++) {
        const struct dataset_file *f = &d->files[i];
        struct dataset_table found;

        if (!str_starts(f->full_path, dir) || f->full_path[strlen(dir)] != '/' ||
            strlen(f->sha256) != 64 || !dataset_find_table(d, f->table, &found) || found.at != i)
            abort();
    }
    auto_json json_t *summary = dataset_summary(d);
    auto_json json_t *schema = dataset_schema_json(d);
    auto_free char *written = json_to_str(schema);
    if (!summary || !written)
        abort();
}

static void check_all(const struct registry *r, const char *dir)
{
    for (size_t i = 0; i < registry_count(r); i++) {
        const struct dataset *d = registry_get(r, i);

        if (registry_find(r, d->id) != d)
            abort();
        check_dataset(d, dir);
    }
}

/* The input once more, as what was kept about a file. */
static void try_profile(struct registry *r, const char *dir, const uint8_t *data, size_t size)
{
    auto_json json_t *profile = NULL;
    struct err err = ERR_INIT;

    if (json_parse((const char *)data, size, &profile, &err) < 0)
        return;
    for (size_t i = 0; i < registry_count(r); i++) {
        const struct dataset *d = registry_get(r, i);

        if (d->n_files > 0 && registry_set_profile(r, d->files[0].sha256, profile, &err) == 0)
            check_dataset(d, dir);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char csv[] = "order_id,status\n1,paid\n";
    static struct registry *found; /* what the directory has without a registry.json */
    static char *dir;
    struct registry *r, *again;
    struct err err = ERR_INIT;

    if (make_scratch()) {
        char path[256];

        snprintf(path, sizeof(path), "%s/shop", scratch);
        if (mkdir(path, 0700) < 0)
            abort();
        snprintf(path, sizeof(path), "%s/found", scratch);
        if (mkdir(path, 0700) < 0)
            abort();
        scratch_write("shop/orders.csv", csv, strlen(csv));
        scratch_write("shop/items.csv", csv, strlen(csv));
        scratch_write("found/x.csv", csv, strlen(csv));
        dir = realpath(scratch, NULL);
        if (!dir || registry_load(scratch, NULL, &found, &err) < 0 || registry_count(found) != 2)
            abort();
    }
    try_profile(found, dir, data, size);
    scratch_write(REGISTRY_FILE, data, size);
    if (registry_load(scratch, NULL, &r, &err) < 0) {
        if (err.code == ERR_NONE || err.message[0] == '\0' || err.code == ERR_INTERNAL)
            abort();
        return 0;
    }
    check_all(r, dir);
    registry_adopt_profiles(r, found);
    check_all(r, dir);
    if (registry_load(scratch, r, &again, &err) < 0 || registry_count(again) != registry_count(r))
        abort();
    registry_adopt_profiles(again, r);
    check_all(again, dir);
    registry_unref(r);
    registry_unref(again);
    return 0;
}
