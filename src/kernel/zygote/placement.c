/*
 * Following a plan, and noting what is needed to make one. CPython's allocators of objects and of memory are wrapped while the zygote
 * loads. Blocks in the region are never given back: what is there lives as long as the zygote.
 *
 * CPython's own allocator hands blocks that it does not know to the raw one, which stays wrapped: that is how blocks of the region are
 * freed or grow once everything is loaded.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "kernel/zygote/placement.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include "base/str.h"
#include "kernel/zygote/arenas.h"
#include "kernel/zygote/placement_impl.h"

#define REGION_BYTES (8u << 20)
#define REGION_ALIGN (2u << 20)
#define GRANULE 16u
#define BLOCKS_MAX 65536
#define SECTIONS_MAX 64
#define SMALL_BLOCK_MAX 512u /* larger ones CPython takes from the C library */

struct block {
    uint32_t number, size;
};

struct section {
    char name[64];
    size_t first, n;
};

/* One interpreter per process: its allocators are just as global. */
static struct {
    PyMemAllocatorEx objects, memory, raw; /* as CPython has them */
    char *region;
    size_t used;
    uint16_t granules[REGION_BYTES / GRANULE]; /* of the block that begins there */
    struct section sections[SECTIONS_MAX];
    size_t n_sections;
    struct block blocks[BLOCKS_MAX];
    size_t n_blocks;
    const struct block *next, *end; /* to come in this section */
    uint32_t number;                /* of the last block in it */
} plan;

/* ---- the region ---- */

static bool is_ours(const void *p)
{
    return (uintptr_t)p - (uintptr_t)plan.region < REGION_BYTES;
}

static size_t size_of(const void *p)
{
    return (size_t)plan.granules[(size_t)((const char *)p - plan.region) / GRANULE] * GRANULE;
}

/* The next block, if it is one for the region. Its bytes are zero. */
static void *take(size_t size)
{
    plan.number++;
    if (plan.next == plan.end || plan.number != plan.next->number)
        return NULL;
    size_t planned = plan.next++->size, n = (size + GRANULE - 1) / GRANULE;
    /* Another size is another block: the package has changed. A few bytes are chance. */
    if (size == 0 || n > UINT16_MAX || (planned + GRANULE - 1) / GRANULE != n || plan.used + n * GRANULE > REGION_BYTES)
        return NULL;
    char *p = plan.region + plan.used;
    plan.granules[plan.used / GRANULE] = (uint16_t)n;
    plan.used += n * GRANULE;
    return p;
}

/* ---- the wrappers; ctx is the allocator that is wrapped ---- */

static void *placed_malloc(void *ctx, size_t size)
{
    PyMemAllocatorEx *as = ctx;
    void *p = take(size);
    return p ? p : as->malloc(as->ctx, size);
}

static void *placed_calloc(void *ctx, size_t n, size_t each)
{
    PyMemAllocatorEx *as = ctx;
    void *p = each && n > SIZE_MAX / each ? NULL : take(n * each);
    return p ? p : as->calloc(as->ctx, n, each);
}

static void *grow_ours(PyMemAllocatorEx *as, void *old, size_t size)
{
    size_t had = size_of(old);
    if (size <= had)
        return old;
    void *p = as->malloc(as->ctx, size);
    return p ? memcpy(p, old, had) : NULL;
}

static void *placed_realloc(void *ctx, void *old, size_t size)
{
    PyMemAllocatorEx *as = ctx;
    char *planned = take(size);
    void *p = is_ours(old) ? grow_ours(as, old, size) : as->realloc(as->ctx, old, size);
    if (!p || !planned || p == old)
        return p;
    memcpy(planned, p, size);
    as->free(as->ctx, p);
    return planned;
}

static void placed_free(void *ctx, void *p)
{
    PyMemAllocatorEx *as = ctx;
    if (!is_ours(p))
        as->free(as->ctx, p);
}

static void *raw_realloc(void *ctx, void *old, size_t size)
{
    PyMemAllocatorEx *as = ctx;
    return is_ours(old) ? grow_ours(as, old, size) : as->realloc(as->ctx, old, size);
}

/* ---- the plan ---- */

/* Lines: "section NAME", and below it "NUMBER SIZE" by rising numbers. False if it is none. */
static bool read_plan(const char *path)
{
    FILE *f = fopen(path, "re");
    char line[128], name[64];
    unsigned number, size;
    bool good = f && fgets(line, sizeof(line), f) && str_eq(line, PLAN_HEADING);
    while (good && fgets(line, sizeof(line), f)) {
        if (sscanf(line, "section %63s", name) == 1 && plan.n_sections < SECTIONS_MAX) {
            struct section *s = &plan.sections[plan.n_sections++];
            *s = (struct section){ .first = plan.n_blocks };
            snprintf(s->name, sizeof(s->name), "%s", name);
        } else if (sscanf(line, "%u %u", &number, &size) == 2 && plan.n_sections && plan.n_blocks < BLOCKS_MAX) {
            plan.blocks[plan.n_blocks++] = (struct block){ number, size };
            plan.sections[plan.n_sections - 1].n++;
        } else {
            good = false;
        }
    }
    if (f)
        fclose(f);
    return good && plan.n_blocks;
}

static void wrap(PyMemAllocatorDomain domain, PyMemAllocatorEx *as, PyMemAllocatorEx wrapper)
{
    PyMem_GetAllocator(domain, as);
    wrapper.ctx = as;
    PyMem_SetAllocator(domain, &wrapper);
}

static void *raw_malloc(void *ctx, size_t size)
{
    PyMemAllocatorEx *as = ctx;
    return as->malloc(as->ctx, size);
}

static void *raw_calloc(void *ctx, size_t n, size_t each)
{
    PyMemAllocatorEx *as = ctx;
    return as->calloc(as->ctx, n, each);
}

void placement_follow(const char *plan_path)
{
    char *p = mmap(NULL, REGION_BYTES + REGION_ALIGN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return;
    plan.region = p + (REGION_ALIGN - (uintptr_t)p % REGION_ALIGN) % REGION_ALIGN;
    if (!read_plan(plan_path)) {
        plan.region = NULL;
        munmap(p, REGION_BYTES + REGION_ALIGN);
        return;
    }
    const PyMemAllocatorEx placed = { NULL, placed_malloc, placed_calloc, placed_realloc, placed_free };
    wrap(PYMEM_DOMAIN_OBJ, &plan.objects, placed);
    wrap(PYMEM_DOMAIN_MEM, &plan.memory, placed);
    wrap(PYMEM_DOMAIN_RAW, &plan.raw, (PyMemAllocatorEx){ NULL, raw_malloc, raw_calloc, raw_realloc, placed_free });
}

void placement_section(const char *name)
{
    blocks_section(name);
    plan.number = 0;
    plan.next = plan.end = NULL;
    for (size_t i = 0; i < plan.n_sections; i++)
        if (str_eq(plan.sections[i].name, name)) {
            plan.next = &plan.blocks[plan.sections[i].first];
            plan.end = plan.next + plan.sections[i].n;
        }
}

/* Takes what is free between other blocks, so that kernels make theirs side by side where nothing is yet. */
static void fill_gaps(void)
{
    const char *base = arenas_base(), *end = arenas_end();
    for (size_t size = SMALL_BLOCK_MAX; base && size > 0; size -= GRANULE) {
        const char *p;
        do
            p = PyObject_Malloc(size);
        while (p >= base && p < end);
    }
}

void placement_end(void)
{
    plan.next = plan.end = NULL;
    if (!plan.region)
        return;
    PyMem_SetAllocator(PYMEM_DOMAIN_OBJ, &plan.objects);
    PyMem_SetAllocator(PYMEM_DOMAIN_MEM, &plan.memory);
    fill_gaps();
}
