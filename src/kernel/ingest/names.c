#include "kernel/ingest/names.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include "base/macros.h"

/*
 * An open hash table of the names so far, case ignored as DuckDB does. `n` is how often a name was
 * wanted again.
 */
struct name_slot {
    const char *name;
    unsigned n;
};

static struct name_slot *find_name(struct name_slot *slots, size_t n_slots, const char *name)
{
    uint32_t h = 2166136261u;

    for (const char *p = name; *p; p++)
        h = (h ^ (unsigned char)(*p >= 'A' && *p <= 'Z' ? *p | 32 : *p)) * 16777619u;
    size_t i = h & (n_slots - 1);
    while (slots[i].name && strcasecmp(slots[i].name, name) != 0)
        i = (i + 1) & (n_slots - 1);
    return &slots[i];
}

/* *name or *name with _1, _2, … behind it, whichever is free. */
static int make_unique(struct name_slot *slots, size_t n_slots, char **name, struct err *err)
{
    struct name_slot *first = find_name(slots, n_slots, *name), *slot = first;
    auto_free char *tried = NULL;

    while (slot->name) {
        free(tried);
        if (asprintf(&tried, "%s_%u", *name, ++first->n) < 0) {
            tried = NULL;
            return err_set(err, ERR_NO_MEMORY, "out of memory for a name");
        }
        slot = find_name(slots, n_slots, tried);
    }
    if (tried) {
        free(*name);
        *name = TAKE_PTR(tried);
    }
    slot->name = *name;
    return 0;
}

int names_make_unique(char **names, size_t n, struct err *err)
{
    size_t n_slots = 64; /* a power of two */
    int r = 0;

    while (n_slots < 4 * n)
        n_slots *= 2;
    auto_free struct name_slot *slots = calloc(n_slots, sizeof(*slots));
    if (!slots)
        return err_set(err, ERR_NO_MEMORY, "out of memory for %zu names", n);
    for (size_t i = 0; r == 0 && i < n; i++)
        r = make_unique(slots, n_slots, &names[i], err);
    return r;
}
