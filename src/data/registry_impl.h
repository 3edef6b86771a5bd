#ifndef RIDDLE_DATA_REGISTRY_IMPL_H
#define RIDDLE_DATA_REGISTRY_IMPL_H

/*
 * What registry.c, which walks the directory, and registry_entry.c, which reads what is declared,
 * share.
 */

#include "base/arena.h"
#include "data/registry.h"

struct registry {
    int refs;
    char *dir;           /* resolved */
    struct arena memory; /* datasets, their files and their texts */
    json_t *json;        /* texts of declared datasets point into it */
    json_t *notes;
    struct dataset **datasets;
    size_t n;
};

void *registry_alloc(struct registry *r, size_t size, struct err *err); /* NULL with NO_MEMORY */
char *registry_strdup(struct registry *r, const char *s, struct err *err);

/*
 * Makes a dataset from its entry; files are not looked at yet. The caller has *ret, which lives in
 * r->memory.
 */
int registry_read_entry(struct registry *r, const json_t *entry, struct dataset **ret,
                        struct err *err);

#endif
