/* Pages that are pinned are copied in the fork, and nothing else changes by it. */

#include <fcntl.h>
#include <linux/io_uring.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include "kernel/hot_pages.h"

#define PAGES 1024
#define EVERY 16 /* one of so many is written to in the rehearsal */

static char *region;

static char *page(size_t i)
{
    return region + i * 4096;
}

static void rehearse(void)
{
    for (size_t i = 0; i < PAGES; i += EVERY)
        page(i)[7] = 'r';
}

/* Whether this process shares the page with nobody. */
static bool is_own(const char *at)
{
    uint64_t entry = 0;
    int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    bool read_it = pread(fd, &entry, sizeof(entry), (off_t)((uintptr_t)at / 4096 * sizeof(entry))) == sizeof(entry);
    close(fd);
    return read_it && (entry >> 63 & 1) && (entry >> 56 & 1);
}

static bool has_io_uring(void)
{
    struct io_uring_params params = { .flags = IORING_SETUP_R_DISABLED };
    int fd = (int)syscall(SYS_io_uring_setup, 1, &params);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* In a child: 0, or what is wrong. */
static int check_child(void)
{
    for (size_t i = 0; i < PAGES; i++) {
        if (is_own(page(i)) != (i % EVERY == 0))
            return 1;
        if (page(i)[7] != 'z' || page(i)[100] != (char)i)
            return 2;
        page(i)[7] = 'k';
    }
    return 0;
}

static void check_pinning(int advice)
{
    const size_t huge = 2u << 20, bytes = PAGES * 4096;
    if (!has_io_uring())
        skip();
    char *reserved = mmap(NULL, bytes + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(reserved, MAP_FAILED);
    region = reserved + (huge - (uintptr_t)reserved % huge) % huge;
    (void)madvise(region, bytes, advice);
    for (size_t i = 0; i < PAGES; i++) {
        page(i)[7] = 'z';
        page(i)[100] = (char)i;
    }
    hot_pages_pin(rehearse);
    for (int round = 0; round < 3; round++) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(check_child());
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        for (size_t i = 0; i < PAGES; i++) /* neither the rehearsal nor a kernel has changed anything here */
            assert_int_equal(page(i)[7], 'z');
    }
}

static void test_small_pages(void **state)
{
    (void)state;
    check_pinning(MADV_NOHUGEPAGE);
}

/* Pinning a part of a huge page pins it all: it must have been taken out before. */
static void test_parts_of_huge_pages(void **state)
{
    (void)state;
    check_pinning(MADV_HUGEPAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_pages),
        cmocka_unit_test(test_parts_of_huge_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
