/*
 * What a process has mapped from the image that it was made from. It was anonymous memory before,
 * and code relies on one difference: MADV_DONTNEED makes anonymous memory zero, and a private
 * mapping of a file what the file has. Allocators (jemalloc in DuckDB) give out such memory as
 * zeroed. So madvise() of this program, which every library calls, puts anonymous memory there.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/macros.h"
#include "kernel/image/image_impl.h"

static struct {
    uint64_t dev, ino;
    size_t n;
    struct image_run *runs;
} mapped;

void image_note_mapped(const struct image_mapped *now)
{
    size_t bytes = now->n * sizeof(now->runs[0]);
    free(mapped.runs); /* of the process that wrote the image */
    mapped.runs = bytes ? malloc(bytes) : NULL;
    mapped.dev = now->dev;
    mapped.ino = now->n ? now->ino : 0;
    mapped.n = mapped.runs ? now->n : 0;
    if (mapped.runs)
        memcpy(mapped.runs, now->runs, bytes);
}

bool image_is_mapped(uint64_t dev, uint64_t ino)
{
    return mapped.ino && mapped.ino == ino && mapped.dev == dev;
}

/* Whether the range has pages that were mapped once. Without a list, it may. */
static bool may_be_mapped(uintptr_t from, uintptr_t to)
{
    size_t low = 0, high = mapped.n;
    if (!mapped.runs)
        return true;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (mapped.runs[mid].from + mapped.runs[mid].pages * IMAGE_PAGE <= from)
            low = mid + 1;
        else
            high = mid;
    }
    return low < mapped.n && mapped.runs[low].from < to;
}

/* Puts anonymous memory in place of what is mapped from the image. */
static void replace(uintptr_t from, uintptr_t to)
{
    struct maps reader;
    struct maps_entry e;
    if (!maps_open(&reader, "/proc"))
        return;
    while (maps_next(&reader, &e) && e.from < to) {
        uintptr_t at = MAX_OF(e.from, from), end = MIN_OF(e.to, to);
        int prot = (e.perms[0] == 'r' ? PROT_READ : 0) | (e.perms[1] == 'w' ? PROT_WRITE : 0) |
                   (e.perms[2] == 'x' ? PROT_EXEC : 0);
        if (at < end && e.perms[3] == 'p' && image_is_mapped(e.device, e.inode))
            (void)mmap((void *)at, end - at, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    }
    maps_close(&reader);
}

/* Instead of the C library's, for every library of this program. */
int madvise(void *at, size_t len, int advice)
{
    uintptr_t from = (uintptr_t)at;
    if (mapped.ino && advice == MADV_DONTNEED && from % IMAGE_PAGE == 0 &&
        len < UINTPTR_MAX - from && may_be_mapped(from, from + len)) {
        int before = errno;
        replace(from, image_pad(from + len));
        errno = before;
    }
    return (int)syscall(SYS_madvise, at, len, advice);
}
