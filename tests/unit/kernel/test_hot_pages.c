/*
 * Pages that a rehearsal writes to are copied ahead in a child that asks for it, those of files
 * mapped, and nothing else changes.
 */

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include "kernel/zygote/hot_pages.h"

#define PAGES 1024
#define EVERY 16 /* one of so many is written to in the rehearsal */

static char *region;

static char *page(size_t i)
{
    return region + i * 4096;
}

static void rehearse(void *arg)
{
    (void)arg;
    for (size_t i = 0; i < PAGES; i += EVERY)
        page(i)[7] = 'r';
}

/* The page's entry in the map of this process. */
static uint64_t entry_of(const char *at)
{
    uint64_t entry = 0;
    int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    bool read_it = pread(fd, &entry, sizeof(entry),
                         (off_t)((uintptr_t)at / 4096 * sizeof(entry))) == sizeof(entry);
    close(fd);
    return read_it ? entry : 0;
}

static bool is_present(const char *at)
{
    return entry_of(at) >> 63 & 1;
}

/* Whether this process shares the page with nobody. */
static bool is_own(const char *at)
{
    return is_present(at) && (entry_of(at) >> 56 & 1);
}

static void learn(void (*run)(void *arg), void *arg)
{
    struct hot_rehearsal rehearsal = { .run = run, .arg = arg };
    hot_pages_learn(&rehearsal);
}

/* In a child: 0, or what is wrong. */
static int check_child(bool populates)
{
    if (populates)
        hot_pages_populate();
    for (size_t i = 0; i < PAGES; i++) {
        if (is_own(page(i)) != (populates && i % EVERY == 0))
            return 1;
        if (page(i)[7] != 'z' || page(i)[100] != (char)i)
            return 2;
        page(i)[7] = 'k';
    }
    return 0;
}

static void check_in_child(bool populates)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(check_child(populates));
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    for (size_t i = 0; i < PAGES;
         i++) /* neither the rehearsal nor a kernel has changed anything here */
        assert_int_equal(page(i)[7], 'z');
}

static void check_copies(int advice)
{
    const size_t huge = 2u << 20, bytes = PAGES * 4096;
    char *reserved = mmap(NULL, bytes + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                          -1, 0);
    assert_ptr_not_equal(reserved, MAP_FAILED);
    region = reserved + (huge - (uintptr_t)reserved % huge) % huge;
    (void)madvise(region, bytes, advice);
    for (size_t i = 0; i < PAGES; i++) {
        page(i)[7] = 'z';
        page(i)[100] = (char)i;
    }
    learn(rehearse, NULL);
    check_in_child(true);
    check_in_child(false);
    check_in_child(true);
    munmap(reserved, bytes + huge);
    hot_pages_populate(); /* what is no longer mapped is passed over */
}

static void test_small_pages(void **state)
{
    (void)state;
    check_copies(MADV_NOHUGEPAGE);
}

/* A child copies 4 kB of a huge page, not all of it. */
static void test_parts_of_huge_pages(void **state)
{
    (void)state;
    check_copies(MADV_HUGEPAGE);
}

#define FILE_PAGES 256

static void read_some(void *arg)
{
    const char *at = arg;
    for (size_t i = 128; i < 136; i++)
        (void)*(volatile const char *)(at + i * 4096);
    hot_pages_rehearsed();
}

/*
 * In a child: 0, or what is wrong. Linux maps some pages around one that is read, so only far ones
 * are surely absent.
 */
static int check_view(const char *at)
{
    if (is_present(at + 128 * 4096))
        return 1;
    hot_pages_populate();
    for (size_t i = 128; i < 136; i++)
        if (!is_present(at + i * 4096))
            return 2;
    if (is_present(at) || is_present(at + (FILE_PAGES - 1) * 4096))
        return 3;
    for (size_t i = 0; i < FILE_PAGES; i++)
        if (at[i * 4096] != (char)i)
            return 4;
    return 0;
}

static void test_pages_of_files(void **state)
{
    (void)state;
    char path[] = "/tmp/riddle-hot-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    unlink(path);
    for (size_t i = 0; i < FILE_PAGES; i++) {
        char bytes[4096];
        memset(bytes, (char)i, sizeof(bytes));
        assert_int_equal(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
    }
    char *at = mmap(NULL, FILE_PAGES * 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    assert_ptr_not_equal(at, MAP_FAILED);
    for (size_t i = 0; i < FILE_PAGES; i++) /* the zygote has used all of it */
        assert_int_equal(at[i * 4096], (char)i);
    learn(read_some, at);
    pid_t pid = fork();
    if (pid == 0)
        _exit(check_view(at));
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    munmap(at, FILE_PAGES * 4096);
    close(fd);
}

static void give_up(void *arg)
{
    (void)arg;
    _exit(3);
}

/* A rehearsal that fails leaves what was known before. */
static void test_failed_rehearsal(void **state)
{
    (void)state;
    learn(give_up, NULL);
    hot_pages_populate();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_pages),
        cmocka_unit_test(test_parts_of_huge_pages),
        cmocka_unit_test(test_pages_of_files),
        cmocka_unit_test(test_failed_rehearsal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
