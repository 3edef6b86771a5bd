/* Tables of images: what is damaged or forged is refused. Which pages a process has. */

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/macros.h"
#include "kernel/image/image_impl.h"
#include "kernel/image/pagemap.h"

struct file {
    struct image_head head;
    struct image_map maps[3];
    struct image_run runs[2], longs[1];
    struct image_patch patches[2];
    struct image_fd fds[1];
    char names[64];
};

static void seal(struct file *f)
{
    f->head.check = 0;
    f->head.check = checksum(0, f, sizeof(*f));
}

static struct file good(void)
{
    struct file f = {
        .head = { .magic = IMAGE_MAGIC,
                  .n_maps = 3,
                  .n_runs = 2,
                  .n_longs = 1,
                  .n_patches = 2,
                  .n_fds = 1,
                  .names_bytes = 64,
                  .n_pages = 5,
                  .cwd = 1 },
        .maps = { { .from = 0x10000, .to = 0x20000, .prot = PROT_READ | PROT_WRITE },
                  { .from = 0x20000, .to = 0x30000, .kind = IMAGE_FILE, .name = 1 },
                  { .from = 0x7ffff0000000, .to = 0x7ffff0010000, .kind = IMAGE_STACK } },
        .runs = { { 0x11000, 2 }, { 0x7ffff0001000, 1 } },
        .longs = { { 0x14000, 2 } },
        .patches = { { 0x1f000, 7 }, { 0x20008, 8 } },
        .fds = { { .fd = 5, .name = 1 } },
        .names = "\0/workspace/a.txt"
    };
    seal(&f);
    return f;
}

static int check(const struct file *f, size_t len)
{
    struct image_tables t;
    struct err err = ERR_INIT;
    struct file *copy = malloc(len ? len : 1); /* so that a sanitizer sees what is read beyond it */
    memcpy(copy, f, len);
    int r = image_check(copy, len, &t, &err);
    if (r == 0) {
        /* Everything that follows from the tables can be looked at. */
        size_t sum = strlen(t.names + t.head->cwd);
        for (size_t i = 0; i < t.head->n_maps; i++)
            sum += strlen(t.names + t.maps[i].name) + (t.maps[i].to > t.maps[i].from);
        for (size_t i = 0; i < t.head->n_runs; i++)
            sum += t.runs[i].pages > 0;
        for (size_t i = 0; i < t.head->n_fds; i++)
            sum += strlen(t.names + t.fds[i].name);
        assert_true(sum > 0);
    } else {
        assert_int_equal(r, -ERR_VALIDATION);
        assert_non_null(strstr(err.message, "damaged"));
    }
    free(copy);
    return r;
}

static void takes_what_is_good(void **state)
{
    (void)state;
    struct file f = good();
    assert_int_equal(check(&f, sizeof(f)), 0);
}

static void refuses_what_is_cut_or_changed(void **state)
{
    (void)state;
    struct file f = good();
    for (size_t len = 0; len < sizeof(f); len += 7)
        assert_int_equal(check(&f, len), -ERR_VALIDATION);
    for (size_t at = 0; at < sizeof(f); at += 3) {
        f = good();
        ((char *)&f)[at] ^= 0x41;
        assert_int_equal(check(&f, sizeof(f)), -ERR_VALIDATION);
    }
}

#define FORGED(change)                                                                             \
    do {                                                                                           \
        struct file f = good();                                                                    \
        change;                                                                                    \
        seal(&f);                                                                                  \
        assert_int_equal(check(&f, sizeof(f)), -ERR_VALIDATION);                                   \
    } while (0)

static void refuses_what_is_forged(void **state)
{
    (void)state;
    FORGED(f.maps[1].from = 0x1f000);                      /* over another */
    FORGED(f.maps[0].from = 0);                            /* the first page */
    FORGED(f.maps[0].to = 0x20001);                        /* half a page */
    FORGED(f.maps[2].to = IMAGE_ADDRESS_MAX + IMAGE_PAGE); /* Linux's own */
    FORGED(f.maps[1] = ((struct image_map){ .from = IMAGE_ROOM_AT,
                                            .to = IMAGE_ROOM_AT + IMAGE_PAGE }));
    FORGED(f.maps[1].kind = 9);
    FORGED(f.maps[1].prot = 0x100);
    FORGED(f.maps[1].name = 64);
    FORGED(f.maps[0].is_shared = 1);
    FORGED(f.runs[0].from = 0x1f000); /* goes on beyond its mapping */
    FORGED(f.runs[1].from = 0x40000); /* of no mapping */
    FORGED(f.runs[0].pages = UINT64_MAX);
    FORGED(f.longs[0].from = 0x24000); /* of a file's mapping */
    FORGED(f.longs[0].from = 0x7ffff0001000);
    FORGED(f.longs[0].pages = 13);
    FORGED(f.head.n_longs = IMAGE_LONGS_MAX + 1);
    FORGED(f.patches[0].at = 0x1f001);
    FORGED(f.patches[0].at = 0x20008);        /* twice */
    FORGED(f.patches[1].at = 0x40000);        /* of no mapping */
    FORGED(f.patches[1].at = 0x7ffff0001000); /* of the stack */
    FORGED(f.patches[1].at = UINT64_MAX - 7);
    FORGED(f.head.n_patches = IMAGE_PATCHES_MAX + 1);
    FORGED(f.head.n_pages = 4);
    FORGED(f.head.n_maps = 4);
    FORGED(f.head.n_maps = UINT64_MAX / 2);
    FORGED(f.head.names_bytes = 0);
    FORGED(f.head.cwd = 64);
    FORGED(f.names[63] = 'x');
    FORGED(f.fds[0].fd = 3); /* the control socket */
    FORGED(f.fds[0].name = 1000);
}

/* Words anywhere replaced by ones that are likely to hurt, and sealed again. */
static void survives_anything(void **state)
{
    (void)state;
    static const uint64_t words[] = { 0,          1,          0xfff,      0x1000,     0x20000,
                                      0x7fffffff, 0xffffffff, 1ull << 47, 1ull << 63, UINT64_MAX };
    unsigned random = 1;
    for (int round = 0; round < 200000; round++) {
        struct file f = good();
        for (int n = 0; n < 1 + round % 3; n++) {
            random = random * 1103515245 + 12345;
            size_t at = random / 8 % (sizeof(f) / 8) * 8;
            memcpy((char *)&f + at, &words[random / 65536 % ARRAY_SIZE(words)], 8);
        }
        seal(&f);
        (void)check(&f, sizeof(f));
    }
}

#if defined(__x86_64__)

#define PAGES 3000

/* 'w' written to, 'r' only read, which shows Linux's page of zeros, '.' not there. */
static char kind_of(size_t i)
{
    return i < 1000 ? "w.r.ww.rr"[i % 9] : i < 2000 ? '.' : i % 700 ? 'w' : 'r';
}

static void finds_the_pages_that_are_there(void **state)
{
    (void)state;
    static struct pagemap_walk walk;
    struct pagemap_range range;
    struct pagemap_zeros zeros;
    char seen[PAGES];
    memset(seen, '.', sizeof(seen));
    char *at = mmap(NULL, PAGES * IMAGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                    -1, 0);
    assert_ptr_not_equal(at, MAP_FAILED);
    (void)madvise(at, PAGES * IMAGE_PAGE, MADV_NOHUGEPAGE);
    for (size_t i = 0; i < PAGES; i++) {
        volatile char *page = at + i * IMAGE_PAGE;
        if (kind_of(i) == 'w')
            *page = 1;
        else if (kind_of(i) == 'r')
            (void)*page;
    }
    uint64_t from = (uint64_t)at, to = from + PAGES * IMAGE_PAGE, entry = 0;
    int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    pagemap_walk_begin(&walk, fd, from, to);
    /* In two pieces, as two mappings would be. */
    for (uint64_t now = from, end = from + 2500 * IMAGE_PAGE; now < to; now = end, end = to)
        for (; pagemap_walk_next(&walk, now, end, &range); now = range.to)
            for (uint64_t page = range.from; page < range.to; page += IMAGE_PAGE) {
                assert_true(range.from >= now && range.to <= end);
                assert_true(pagemap_walk_entry(&walk, &range, page, &entry));
                bool is_zero = walk.is_blind ? !*(char *)page : range.categories & PAGE_ZERO;
                if (entry & PM_PRESENT)
                    seen[(page - from) / IMAGE_PAGE] = is_zero ? 'r' : 'w';
            }
    for (size_t i = 0; i < PAGES; i++)
        assert_int_equal(seen[i], kind_of(i));
    pagemap_find_zeros(fd, from + 2000 * IMAGE_PAGE, to, &zeros);
    if (!walk.is_blind) {
        assert_int_equal(zeros.n, 2);
        assert_false(pagemap_has_no_zeros(&zeros, from + 2100 * IMAGE_PAGE, to));
        assert_true(
            pagemap_has_no_zeros(&zeros, from + 2101 * IMAGE_PAGE, from + 2800 * IMAGE_PAGE));
    }
    pagemap_find_zeros(fd, from, to, &zeros);
    assert_true(zeros.n < 0); /* too many of them */
    close(fd);
    munmap(at, PAGES * IMAGE_PAGE);
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_what_is_good),
        cmocka_unit_test(refuses_what_is_cut_or_changed),
        cmocka_unit_test(refuses_what_is_forged),
        cmocka_unit_test(survives_anything),
#if defined(__x86_64__)
        cmocka_unit_test(finds_the_pages_that_are_there),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
