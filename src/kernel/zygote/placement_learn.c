/*
 * Making a plan: which blocks does a first cell write to? Every block is noted when it is made. Then the heap is made read-only, and
 * each write to it traps: its address is noted, the page opened for the one instruction, and closed again after it.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "kernel/zygote/placement.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include "base/macros.h"
#include "base/maps.h"
#include "kernel/zygote/arenas.h"
#include "kernel/zygote/placement_impl.h"

#define PAGE 4096u
#define GRANULE 16u
#define BLOCKS_MAX (16u << 20)
#define BLOCK_BYTES_MAX (32u << 10) /* larger ones stay where they are */
#define SECTIONS_MAX 64
#define PAGES_OPEN_MAX 16
/* Of CPython's arenas and of the C library's heap; each is looked at from its beginning. */
#define RANGE_BYTES (1ul << 30)

/* A range of addresses, and for each of its granules the block that begins there and whether it was written to. */
struct range {
    uintptr_t from, to;
    uint32_t *blocks; /* number + 1 */
    uint8_t *written;
};

static struct {
    PyMemAllocatorEx objects, memory; /* as CPython has them */
    struct range arenas, heap;
    uint32_t *sizes;
    uint32_t n_blocks;
    struct {
        char name[64];
        uint32_t first;
    } sections[SECTIONS_MAX];
    size_t n_sections;
    uintptr_t open[PAGES_OPEN_MAX]; /* pages, for one instruction */
    size_t n_open;
} rec;

/* ---- blocks ---- */

static struct range *range_of(uintptr_t at)
{
    if (at - rec.arenas.from < RANGE_BYTES)
        return &rec.arenas;
    return at - rec.heap.from < RANGE_BYTES ? &rec.heap : NULL;
}

static void *note(void *p, size_t size)
{
    struct range *r = p ? range_of((uintptr_t)p) : NULL;
    if (rec.n_blocks == BLOCKS_MAX)
        return p;
    rec.sizes[rec.n_blocks++] = size <= BLOCK_BYTES_MAX ? (uint32_t)size : 0;
    if (r)
        r->blocks[((uintptr_t)p - r->from) / GRANULE] = rec.n_blocks;
    return p;
}

static void forget(void *p)
{
    struct range *r = p ? range_of((uintptr_t)p) : NULL;
    if (r)
        r->blocks[((uintptr_t)p - r->from) / GRANULE] = 0;
}

static void *noted_malloc(void *ctx, size_t size)
{
    PyMemAllocatorEx *as = ctx;
    return note(as->malloc(as->ctx, size), size);
}

static void *noted_calloc(void *ctx, size_t n, size_t each)
{
    PyMemAllocatorEx *as = ctx;
    return note(as->calloc(as->ctx, n, each), n * each);
}

static void *noted_realloc(void *ctx, void *old, size_t size)
{
    PyMemAllocatorEx *as = ctx;
    forget(old);
    return note(as->realloc(as->ctx, old, size), size);
}

static void noted_free(void *ctx, void *p)
{
    PyMemAllocatorEx *as = ctx;
    forget(p);
    as->free(as->ctx, p);
}

void blocks_section(const char *name)
{
    if (rec.n_sections == SECTIONS_MAX)
        return;
    snprintf(rec.sections[rec.n_sections].name, sizeof(rec.sections[0].name), "%s", name);
    rec.sections[rec.n_sections++].first = rec.n_blocks;
}

static void *reserve(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static bool range_open(struct range *r, uintptr_t from)
{
    r->from = from & ~(uintptr_t)(PAGE - 1);
    r->blocks = reserve(RANGE_BYTES / GRANULE * sizeof(*r->blocks));
    r->written = reserve(RANGE_BYTES / GRANULE);
    return r->blocks && r->written;
}

/* Where the C library's heap begins. */
static uintptr_t heap_start(void)
{
    uintptr_t from = 0;
    struct maps maps;
    struct maps_entry m;
    maps_open(&maps, "/proc");
    while (from == 0 && maps_next(&maps, &m))
        if (m.inode == 0 && strcmp(m.path, "[heap]") == 0)
            from = m.from;
    maps_close(&maps);
    return from;
}

int placement_record(struct err *err)
{
    arenas_install();
    rec.sizes = reserve(BLOCKS_MAX * sizeof(*rec.sizes));
    if (!rec.sizes || !range_open(&rec.arenas, (uintptr_t)arenas_base()) || !range_open(&rec.heap, heap_start()))
        return err_set(err, ERR_NO_MEMORY, "reserving memory for the blocks of CPython");
    PyMem_GetAllocator(PYMEM_DOMAIN_OBJ, &rec.objects);
    PyMem_GetAllocator(PYMEM_DOMAIN_MEM, &rec.memory);
    PyMemAllocatorEx noted = { &rec.objects, noted_malloc, noted_calloc, noted_realloc, noted_free };
    PyMem_SetAllocator(PYMEM_DOMAIN_OBJ, &noted);
    noted.ctx = &rec.memory;
    PyMem_SetAllocator(PYMEM_DOMAIN_MEM, &noted);
    return 0;
}

/* ---- writes ---- */

/* Whether SIGTRAP comes after the next instruction. */
#if defined(__x86_64__)
#define CAN_STEP true
#define TRAP_FLAG 0x100

static void set_step(ucontext_t *uc, bool on)
{
    if (on)
        uc->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
    else
        uc->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
}
#else
#define CAN_STEP false

static void set_step(ucontext_t *uc, bool on)
{
    (void)uc, (void)on;
}
#endif

static void on_write(int sig, siginfo_t *info, void *context)
{
    ucontext_t *uc = context;
    uintptr_t at = (uintptr_t)info->si_addr;
    struct range *r = range_of(at);
    if (!r || at >= r->to || rec.n_open == PAGES_OPEN_MAX) {
        signal(sig, SIG_DFL); /* no write that we look for: it comes again, and ends the process */
        return;
    }
    r->written[(at - r->from) / GRANULE] = 1;
    uintptr_t page = at & ~(uintptr_t)(PAGE - 1);
    (void)mprotect((void *)page, PAGE, PROT_READ | PROT_WRITE);
    rec.open[rec.n_open++] = page;
    set_step(uc, true);
}

static void on_step(int sig, siginfo_t *info, void *context)
{
    (void)sig, (void)info;
    ucontext_t *uc = context;
    while (rec.n_open)
        (void)mprotect((void *)rec.open[--rec.n_open], PAGE, PROT_READ);
    set_step(uc, false);
}

static int watch(void (*rehearse)(void), struct err *err)
{
    if (!CAN_STEP)
        return err_set(err, ERR_UNAVAILABLE, "writes cannot be watched on this processor");
    static char stack[65536];
    stack_t alternate = { .ss_sp = stack, .ss_size = sizeof(stack) };
    struct sigaction write_action = { .sa_sigaction = on_write, .sa_flags = SA_SIGINFO | SA_ONSTACK },
                     step_action = { .sa_sigaction = on_step, .sa_flags = SA_SIGINFO | SA_ONSTACK };
    if (sigaltstack(&alternate, NULL) < 0 || sigaction(SIGSEGV, &write_action, NULL) < 0 ||
        sigaction(SIGTRAP, &step_action, NULL) < 0)
        return err_errno(err, ERR_INTERNAL, errno, "watching the heap");
    struct range *ranges[] = { &rec.arenas, &rec.heap };
    int r = 0;
    for (size_t i = 0; i < ARRAY_SIZE(ranges); i++)
        r |= mprotect((void *)ranges[i]->from, ranges[i]->to - ranges[i]->from, PROT_READ);
    rehearse();
    for (size_t i = 0; i < ARRAY_SIZE(ranges); i++)
        r |= mprotect((void *)ranges[i]->from, ranges[i]->to - ranges[i]->from, PROT_READ | PROT_WRITE);
    signal(SIGSEGV, SIG_DFL);
    signal(SIGTRAP, SIG_DFL);
    return r < 0 ? err_errno(err, ERR_INTERNAL, errno, "watching the heap") : 0;
}

/* ---- the plan ---- */

/* Marks the block that has the granule, unless it was made by the rehearsal itself. */
static void mark(const struct range *r, size_t granule, uint8_t *hot)
{
    for (size_t back = 0; back <= granule && back < BLOCK_BYTES_MAX / GRANULE; back++) {
        uint32_t block = r->blocks[granule - back];
        if (block == 0)
            continue;
        if (back * GRANULE < rec.sizes[block - 1])
            hot[block - 1] = 1;
        return;
    }
}

static int write_plan(const char *path, const uint8_t *hot, uint32_t n, struct err *err)
{
    FILE *out = fopen(path, "we");
    if (!out)
        return err_errno(err, ERR_IO, errno, "'%s'", path);
    fputs(PLAN_HEADING, out);
    for (size_t s = 0; s < rec.n_sections; s++) {
        uint32_t first = rec.sections[s].first, end = s + 1 < rec.n_sections ? rec.sections[s + 1].first : n;
        fprintf(out, "section %s\n", rec.sections[s].name);
        for (uint32_t b = first; b < MIN_OF(end, n); b++)
            if (hot[b])
                fprintf(out, "%u %u\n", b - first + 1, rec.sizes[b]);
    }
    bool failed = ferror(out);
    if (fclose(out) != 0 || failed)
        return err_errno(err, ERR_IO, errno, "writing '%s'", path);
    return 0;
}

int placement_learn(void (*rehearse)(void), const char *plan_path, struct err *err)
{
    uint32_t n = rec.n_blocks;
    uint8_t *hot = reserve(BLOCKS_MAX);
    if (!hot)
        return err_set(err, ERR_NO_MEMORY, "reserving memory for the plan");
    rec.arenas.to = (uintptr_t)arenas_end();
    rec.heap.to = (uintptr_t)sbrk(0) & ~(uintptr_t)(PAGE - 1);
    int r = watch(rehearse, err);
    if (r < 0)
        return r;
    const struct range *ranges[] = { &rec.arenas, &rec.heap };
    for (size_t i = 0; i < ARRAY_SIZE(ranges); i++)
        for (size_t g = 0; g < (ranges[i]->to - ranges[i]->from) / GRANULE; g++)
            if (ranges[i]->written[g])
                mark(ranges[i], g, hot);
    return write_plan(plan_path, hot, n, err);
}
