#ifndef RIDDLE_KERNEL_IMAGE_IMAGE_IMPL_H
#define RIDDLE_KERNEL_IMAGE_IMAGE_IMPL_H

/*
 * The file, in this order: struct image_mark; records of files (archive.c) up to one of kind
 * ARCHIVE_END; padding to a page; struct image_head; its tables; padding to a page; pages of the
 * short runs; pages of the long runs; a checksum of all short runs and one of each long run. Behind
 * that, COMPANION_MAGIC and pickled variables may follow.
 *
 * Short runs are read and checked. Long runs are mapped privately from the file: they cost nothing
 * until they are touched, and their checksums are compared only where they are read, too, because
 * the file may not be mapped.
 */

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/err.h"
#include "base/maps.h"
#include "kernel/checksum.h"
#include "kernel/image/image.h"

#define IMAGE_MAGIC 0x33676d4965646452ull     /* "RddeImg3" */
#define PORTABLE_MAGIC 0x3174726f50646452ull  /* "RddPort1" */
#define COMPANION_MAGIC 0x31706d6f43646452ull /* "RddComp1" */
#define IMAGE_PAGE 4096ull
#define IMAGE_MAPS_MAX 16384
#define IMAGE_RUNS_MAX (1u << 20)
#define IMAGE_DROPS_MAX (1u << 18)
#define IMAGE_CHANGES_MAX 1024
/*
 * So many neighbouring pages are mapped, for as many runs as there may be: below it a mapping and
 * the faults of its pages cost more than reading them.
 */
#define IMAGE_LONG_PAGES 8
#define IMAGE_LONGS_MAX 2048
/* Of one page that the base has: with more words that differ it is written as a whole. */
#define IMAGE_PATCH_WORDS 64
#define IMAGE_PATCHES_MAX (1u << 20)
/* How many pages ahead those are fetched that are only looked at. */
#define IMAGE_PREFETCH 16
#define IMAGE_FDS_MAX 1024
#define IMAGE_NAMES_MAX (4u << 20)
#define IMAGE_SIGNALS 64
/*
 * Where the writer keeps its tables and the reader also its stack: no allocator of Linux comes
 * here by itself.
 */
#define IMAGE_ROOM_AT 0x100000000000ull
#define IMAGE_ROOM_BYTES (256ull << 20)
/* Behind it, the base of the image is mapped. */
#define IMAGE_BASE_AT (IMAGE_ROOM_AT + IMAGE_ROOM_BYTES)
#define IMAGE_BASE_BYTES (64ull << 30)
#define IMAGE_ADDRESS_MAX 0x7ffffffff000ull

enum image_kind { IMAGE_ANON, IMAGE_FILE, IMAGE_STACK, IMAGE_SYSTEM, _IMAGE_KIND_MAX };

struct image_map {
    uint64_t from, to, offset;
    uint64_t dev, ino; /* of anonymous memory: none, or in the writer those of its image */
    uint64_t first;    /* hash of the first page of a file's mapping that was never written to */
    uint32_t prot, kind;
    uint32_t name;      /* into the names */
    uint32_t is_shared; /* of a file */
};

/* Neighbouring pages that are in the file, in this order. */
struct image_run {
    uint64_t from, pages;
};

/* A word that differs from what the base has: most such pages differ in few, reference counts. */
struct image_patch {
    uint64_t at, value;
};

struct image_fd {
    int32_t fd, flags;
    uint64_t offset;
    uint32_t name;
    uint32_t unused;
};

/* Of /proc/self/pagemap. */
#define PM_EXCLUSIVE (1ull << 56) /* no other process has this page */
#define PM_FILE (1ull << 61)
#define PM_SWAP (1ull << 62)
#define PM_PRESENT (1ull << 63)

/* As Linux has it; the C library's own handlers are addresses in it. */
struct image_signal {
    uint64_t handler, flags, restorer, mask;
};

/* Registers that a call preserves, and where to go on. */
struct image_context {
    uint64_t rbx, rbp, r12, r13, r14, r15, rsp, rip;
    uint32_t mxcsr;
    uint16_t fpu_control, unused;
};

struct image_mark {
    uint64_t magic;
    /* Of uname and of the processor: addresses of the vDSO and choices of the C library depend on
     * them. */
    char system[120];
};

struct image_head {
    uint64_t magic;
    uint64_t check; /* of the head, without this, and of the tables */
    uint64_t n_maps, n_runs, n_longs, n_drops, n_patches, n_fds, names_bytes, n_pages;
    uint64_t base; /* checksum of the base that pages are missing from; 0: there is none */
    uint64_t brk, thread_pointer;
    struct image_context context;
    struct image_signal signals[IMAGE_SIGNALS];
    uint64_t sigmask;
    uint32_t umask;
    uint32_t cwd; /* into the names */
};

struct image_tables {
    struct image_head *head;
    struct image_map *maps;
    struct image_run *runs;
    struct image_run *longs; /* of anonymous memory */
    struct image_run *drops; /* what the base has and the image has not */
    struct image_patch *patches;
    struct image_fd *fds;
    char *names;
};

static inline size_t image_tables_bytes(const struct image_head *h)
{
    return sizeof(*h) + h->n_maps * sizeof(struct image_map) +
           (h->n_runs + h->n_longs + h->n_drops) * sizeof(struct image_run) +
           h->n_patches * sizeof(struct image_patch) + h->n_fds * sizeof(struct image_fd) +
           h->names_bytes;
}

/* Whether nothing in the head is so large that a sum of sizes could overflow. */
static inline bool image_sizes_are_good(const struct image_head *h)
{
    return h->n_maps <= IMAGE_MAPS_MAX && h->n_runs <= IMAGE_RUNS_MAX &&
           h->n_longs <= IMAGE_LONGS_MAX && h->n_drops <= IMAGE_DROPS_MAX &&
           h->n_patches <= IMAGE_PATCHES_MAX && h->n_fds <= IMAGE_FDS_MAX &&
           h->names_bytes <= IMAGE_NAMES_MAX && h->n_pages <= IMAGE_ADDRESS_MAX / IMAGE_PAGE;
}

static inline uint64_t image_pad(uint64_t at)
{
    return (at + IMAGE_PAGE - 1) & ~(IMAGE_PAGE - 1);
}

/*
 * Whether Linux itself may write to the pages: it does so near the thread pointer whenever it moves
 * the thread to another processor (rseq).
 */
static inline __attribute__((always_inline)) bool image_is_near(const struct image_run *r,
                                                                uint64_t thread_pointer)
{
    return r->from < thread_pointer + 2 * IMAGE_PAGE &&
           r->from + r->pages * IMAGE_PAGE > thread_pointer - 2 * IMAGE_PAGE;
}

/* What is mapped from the image that a process was made from. */
struct image_mapped {
    uint64_t dev, ino; /* as /proc/self/maps has them */
    size_t n;          /* 0: nothing is */
    struct image_run runs[IMAGE_LONGS_MAX];
};

/* The room begins with this when a process has been made from an image. */
struct image_carried {
    struct image_mapped mapped;
    size_t len;
    char bytes[IMAGE_CARRIED_MAX];
};

/* ---- check.c ---- */

/*
 * Lays the tables out in `bytes`, which begin with the head. VALIDATION unless everything in them
 * can be used.
 */
int image_check(void *bytes, size_t len, struct image_tables *ret, struct err *err);
void image_system(char ret[120]);

/* ---- archive.c ---- */

/* Everything below /workspace and /tmp. *at counts the bytes. */
int archive_write(int fd, uint64_t *at, struct err *err);
int archive_write_none(int fd, uint64_t *at, struct err *err);
int archive_read(int fd, uint64_t *at, struct err *err);
int archive_skip(int fd, uint64_t *at, struct err *err);
int image_write(int fd, const void *data, size_t len, struct err *err);
int image_read(int fd, void *data, size_t len, struct err *err);

/* ---- tables.c ---- */

/*
 * Reads head and tables, `at` bytes behind the begin of a file or of the pipe that a living kernel
 * writes itself to, into `bytes`, and checks them. *ret_end: where the first page is, which is read
 * next. NOT_FOUND: in the pipe, the portable form follows instead.
 */
int image_read_tables(int fd, bool is_stream, uint64_t at, void *bytes, size_t max,
                      struct image_tables *ret, uint64_t *ret_end, struct err *err);

/* ---- mapped.c ---- */

/* In the process that was made from an image. */
void image_note_mapped(const struct image_mapped *mapped);
/* Whether the mapping is one of the image that this process was made from. */
bool image_is_mapped(uint64_t dev, uint64_t ino);

/* ---- base.c ---- */

/*
 * Pages of the zygote that are not as its base has them; every other page that a kernel shares with
 * its zygote is. A process that was made from an image has those of the writer, which may be more
 * than it needs: restoring leaves no shared page that differs.
 */
struct image_changes {
    bool any; /* too many were changed for a list */
    size_t n;
    struct image_run runs[IMAGE_CHANGES_MAX];
};
const struct image_changes *image_changes(void);

/* Behind a base that was just written to the file: this process as a difference to it. */
int image_save_zygote(int fd, struct err *err);

/* ---- layout.c ---- */

/* /proc/self/pagemap, in a zygote that has confined itself, too. Negative: it cannot be read. */
int image_open_pagemap(void);

/* Where a zygote that has confined itself sees processes. */
#define IMAGE_ZYGOTE_PROC "/host/proc"

/* Where the reader maps the first page of an image, to see how /proc/self/maps names its file. */
#define IMAGE_PROBE_AT (IMAGE_ROOM_AT + IMAGE_ROOM_BYTES - IMAGE_PAGE)

/*
 * The mappings of this process, without the room and what is behind it. Those of the image that it
 * was made from are anonymous. CONFLICT if there are too many, or one cannot be kept. The reader is
 * not on the stack, which is being looked at. ret_probe: of the mapping at IMAGE_PROBE_AT; or NULL.
 */
int layout_read(struct maps *reader, struct image_map *maps, size_t max, size_t *ret_n, char *names,
                size_t names_max, size_t *names_len, struct image_mapped *ret_probe,
                struct err *err);

#endif
