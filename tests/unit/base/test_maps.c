/* Mappings: our own, whose addresses and files we know, and texts that no Linux would write. */

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include "base/fdio.h"
#include "base/macros.h"
#include "base/maps.h"
#include "check.h"

#define PAGE 4096ul
#define TEXT_MAX (1 << 20)

static char scratch[64];
static size_t n_mallocs;

#if !defined(__SANITIZE_ADDRESS__) &&                                                              \
    !defined(__SANITIZE_THREAD__) /* which have a malloc() of their own */
void *__libc_malloc(size_t size);

void *malloc(size_t size)
{
    n_mallocs++;
    return __libc_malloc(size);
}
#endif

static int open_scratch(void **state)
{
    char dir[128];
    struct err err = ERR_INIT;

    (void)state;
    make_scratch(scratch);
    snprintf(dir, sizeof(dir), "%s/self", scratch);
    return fd_mkdir_p(dir, 0700, &err);
}

static int close_scratch(void **state)
{
    struct err err = ERR_INIT;

    (void)state;
    return fd_remove_tree(scratch, &err);
}

/* Opens this text as if it were our mappings. */
static void open_text(struct maps *m, const char *text)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/self/maps", scratch);
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
    assert_true(maps_open(m, scratch));
}

/* The next entry, as one line. */
static const char *next(struct maps *m)
{
    static char text[2 * sizeof(m->text)];
    struct maps_entry e;

    if (!maps_next(m, &e))
        return "none";
    snprintf(text, sizeof(text), "%lx-%lx %s %lx %x:%x %lu '%s'", e.from, e.to, e.perms, e.offset,
             major(e.device), minor(e.device), e.inode, e.path);
    return text;
}

/* ---- our own ---- */

static bool find(const void *at, struct maps *m, struct maps_entry *ret)
{
    assert_true(maps_open(m, "/proc"));
    while (maps_next(m, ret))
        if (ret->from <= (uintptr_t)at && (uintptr_t)at < ret->to)
            break;
    bool found = ret->from <= (uintptr_t)at && (uintptr_t)at < ret->to;
    maps_close(m);
    return found;
}

static void test_anonymous(void **state)
{
    struct maps m;
    struct maps_entry e = { 0 };
    char *at = mmap(NULL, 4 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)state;
    assert_ptr_not_equal(at, MAP_FAILED);
    assert_int_equal(mprotect(at + PAGE, 2 * PAGE, PROT_READ | PROT_WRITE), 0);
    assert_true(find(at + PAGE, &m, &e));
    assert_ptr_equal((void *)e.from, at + PAGE);
    assert_ptr_equal((void *)e.to, at + 3 * PAGE);
    assert_string_equal(e.perms, "rw-p");
    assert_int_equal(e.inode, 0);
    assert_int_equal(e.device, 0);
    assert_string_equal(e.path, "");
    assert_int_equal(munmap(at, 4 * PAGE), 0);
    assert_false(find(at + PAGE, &m, &e));
}

static void test_deleted_file(void **state)
{
    struct maps m;
    struct maps_entry e = { 0 };
    struct stat st;
    int fd = memfd_create("a  name", MFD_CLOEXEC);

    (void)state;
    assert_int_equal(ftruncate(fd, 4 * PAGE), 0);
    assert_int_equal(fstat(fd, &st), 0);
    char *at = mmap(NULL, 2 * PAGE, PROT_READ, MAP_SHARED, fd, PAGE);
    assert_ptr_not_equal(at, MAP_FAILED);
    assert_true(find(at, &m, &e));
    assert_ptr_equal((void *)e.from, at);
    assert_ptr_equal((void *)e.to, at + 2 * PAGE);
    assert_string_equal(e.perms, "r--s");
    assert_int_equal(e.offset, PAGE);
    assert_int_equal(e.device, st.st_dev);
    assert_int_equal(e.inode, st.st_ino);
    assert_string_equal(e.path, "/memfd:a  name (deleted)");
    munmap(at, 2 * PAGE);
    close(fd);
}

/*
 * All of it: more than the buffer holds, in order, each address once, and nothing of the heap is
 * used for it.
 */
static void test_all(void **state)
{
    struct maps m;
    struct maps_entry e;
    uintptr_t end = 0;
    size_t n = 0, n_ours = 0;
    char exe[4096];
    ssize_t len = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
    char *at = mmap(NULL, 800 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool has_code = false, has_stack = false;

    (void)state;
    assert_true(len > 0);
    exe[len] = '\0';
    for (size_t i = 0; i < 800; i += 2)
        assert_int_equal(mprotect(at + i * PAGE, PAGE, PROT_NONE), 0);
    size_t before = n_mallocs;
    bool opened = maps_open(&m, "/proc"), rises = true;
    while (maps_next(&m, &e)) {
        rises &= e.from >= end;
        end = e.to;
        n++;
        n_ours += e.from >= (uintptr_t)at && e.to <= (uintptr_t)at + 800 * PAGE;
        if (e.from <= (uintptr_t)test_all && (uintptr_t)test_all < e.to)
            has_code = e.perms[2] == 'x' && strcmp(e.path, exe) == 0;
        has_stack |= strcmp(e.path, "[stack]") == 0 && e.inode == 0;
    }
    assert_int_equal(n_mallocs, before);
    assert_true(opened && rises && has_code && has_stack);
    assert_in_range(n_ours, 798, 800); /* its ends may be one with what is beside them */
    assert_true(n > n_ours);
    assert_string_equal(next(&m), "none");
    maps_close(&m);
    munmap(at, 800 * PAGE);
}

static void test_no_proc(void **state)
{
    struct maps m;

    (void)state;
    assert_false(maps_open(&m, "/nonexistent"));
    assert_string_equal(next(&m), "none");
    maps_close(&m);
    maps_close(&m);
}

/* ---- texts ---- */

static void test_lines(void **state)
{
    struct maps m;

    (void)state;
    open_text(
        &m,
        "00400000-00452000 r-xp 00001000 08:02 173521                             /usr/bin/a b\n"
        "00e03000-00e24000 rw-p 00000000 00:00 0                                  [heap]\n"
        "7f0000000000-7f0000001000 ---p 00000000 00:00 0 \n"
        "7f0000002000-7f0000003000 rw-s 10a0b0c0d0 103:fffff 18446744073709551615 /x\\012y (deleted)\n"
        "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n");
    assert_string_equal(next(&m), "400000-452000 r-xp 1000 8:2 173521 '/usr/bin/a b'");
    assert_string_equal(next(&m), "e03000-e24000 rw-p 0 0:0 0 '[heap]'");
    assert_string_equal(next(&m), "7f0000000000-7f0000001000 ---p 0 0:0 0 ''");
    assert_string_equal(
        next(&m),
        "7f0000002000-7f0000003000 rw-s 10a0b0c0d0 103:fffff 18446744073709551615 '/x\\012y (deleted)'");
    assert_string_equal(next(&m), "ffffffffff600000-ffffffffff601000 --xp 0 0:0 0 '[vsyscall]'");
    assert_string_equal(next(&m), "none");
    assert_string_equal(next(&m), "none");
    maps_close(&m);
}

static void test_garbage(void **state)
{
    static const char *const lines[] = {
        "",
        " ",
        "-",
        "garbage",
        "1000-2000",
        "1000-2000 r--p",
        "1000-2000 r--p 0 00:00",
        "1000-2000 r--p 0 00:00 0", /* a blank comes before the path, even if there is none */
        "1000-2000 r--p 0 00:00 x /p",
        "1000-2000 r--p 0 00:00 -1 /p",
        "1000-2000 r--p 0 0000 0 /p",
        "1000-2000 r--p -1 00:00 0 /p",
        "1000-2000 r-- 0 00:00 0 /p",
        "1000-2000 r--pp 0 00:00 0 /p",
        "1000-2000 abcd 0 00:00 0 /p",
        "1000 2000 r--p 0 00:00 0 /p",
        " 1000-2000 r--p 0 00:00 0 /p",
        "+1000-2000 r--p 0 00:00 0 /p",
        "1000--2000 r--p 0 00:00 0 /p",
        "1000-10000000000000000 r--p 0 00:00 0 /p",
        "1000-2000 r--p 0 00:00 18446744073709551616 /p",
        "2000-2000 r--p 0 00:00 0 /p",
        "2000-1000 r--p 0 00:00 0 /p",
        "\xff\xfe\x01",
    };
    struct maps m;
    char text[256];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
        snprintf(text, sizeof(text), "%s\n5000-6000 r--p 0 00:00 0 /good\n", lines[i]);
        open_text(&m, text);
        const char *first = next(&m);
        if (strcmp(first, "5000-6000 r--p 0 0:0 0 '/good'") != 0)
            fail_msg("'%s' was read as %s", lines[i], first);
        assert_string_equal(next(&m), "none");
        maps_close(&m);
    }
    open_text(&m, "");
    assert_string_equal(next(&m), "none");
    maps_close(&m);
    /* what is cut may be cut anywhere */
    open_text(&m, "5000-6000 r--p 0 00:00 0 /good\n6000-7000 r--p 0 00:00 0 /cu");
    assert_string_equal(next(&m), "5000-6000 r--p 0 0:0 0 '/good'");
    assert_string_equal(next(&m), "none");
    maps_close(&m);
}

/*
 * A line that ends just before, at, or behind the end of the buffer; and those behind it, wherever
 * they are cut.
 */
static void test_ends_of_the_buffer(void **state)
{
    struct maps m;
    char *text = malloc(TEXT_MAX), expected[256];

    (void)state;
    for (size_t first = sizeof(m.text) - 200; first < sizeof(m.text) + 4; first++) {
        size_t len = (size_t)snprintf(text, TEXT_MAX, "1000-2000 r--p 0 00:00 7 ");
        size_t path_at = len;
        memset(text + len, 'p', first - len);
        text[path_at] = '/';
        len = first;
        for (unsigned i = 0; i < 300; i++)
            len += (size_t)snprintf(text + len, TEXT_MAX - len,
                                    "\n%x000-%x000 rw-p 0 00:00 %u /path/%u", 16 + i, 17 + i, i, i);
        snprintf(text + len, TEXT_MAX - len, "\n");
        open_text(&m, text);
        struct maps_entry e;
        assert_true(maps_next(&m, &e));
        assert_int_equal(e.inode, 7);
        assert_int_equal(strlen(e.path), MIN_OF(first, sizeof(m.text) - 1) - path_at);
        assert_memory_equal(e.path, text + path_at, strlen(e.path));
        for (unsigned i = 0; i < 300; i++) {
            snprintf(expected, sizeof(expected), "%x000-%x000 rw-p 0 0:0 %u '/path/%u'", 16 + i,
                     17 + i, i, i);
            assert_string_equal(next(&m), expected);
        }
        assert_string_equal(next(&m), "none");
        maps_close(&m);
    }
    free(text);
}

/* What does not fit is no line of its own, whatever it looks like. */
static void test_long_paths(void **state)
{
    static const size_t lengths[] = { 4095, 8100, 8192, 16382, 16383, 20000, 500000 };
    static const char like_a_line[] = "1000-2000 r--p 0 00:00 0 /fake ";
    struct maps m;
    char *text = malloc(TEXT_MAX);

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
        size_t len = (size_t)snprintf(text, TEXT_MAX, "3000-4000 rw-p 0 00:00 9 /"),
               path_at = len - 1;
        while (len < path_at + lengths[i]) {
            text[len] = like_a_line[len % strlen(like_a_line)];
            len++;
        }
        snprintf(text + len, TEXT_MAX - len, "\n5000-6000 r--p 0 00:00 0 /good\n");
        open_text(&m, text);
        struct maps_entry e;
        assert_true(maps_next(&m, &e));
        assert_int_equal(e.from, 0x3000);
        assert_int_equal(e.inode, 9);
        assert_int_equal(strlen(e.path), MIN_OF(lengths[i], sizeof(m.text) - 1 - path_at));
        assert_string_equal(next(&m), "5000-6000 r--p 0 0:0 0 '/good'");
        assert_string_equal(next(&m), "none");
        maps_close(&m);
    }
    free(text);
}

/* Each read(2) gives a few characters only. */
static void test_short_reads(void **state)
{
    static const char text[] = "1000-2000 r--p 0 00:00 1 /a\n2000-3000 rw-p 0 00:00 0 \n"
                               "3000-4000 r-xp f000 08:01 2 /b (deleted)\n";

    (void)state;
    for (size_t step = 1; step < sizeof(text); step++) {
        struct maps m = { 0 };
        int pair[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
        for (size_t at = 0; at < strlen(text); at += step) {
            size_t n = MIN_OF(step, strlen(text) - at);
            assert_int_equal(send(pair[1], text + at, n, MSG_DONTWAIT), n);
        }
        close(pair[1]);
        m.fd = pair[0];
        assert_string_equal(next(&m), "1000-2000 r--p 0 0:0 1 '/a'");
        assert_string_equal(next(&m), "2000-3000 rw-p 0 0:0 0 ''");
        assert_string_equal(next(&m), "3000-4000 r-xp f000 8:1 2 '/b (deleted)'");
        assert_string_equal(next(&m), "none");
        maps_close(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_anonymous),
        cmocka_unit_test(test_deleted_file),
        cmocka_unit_test(test_all),
        cmocka_unit_test(test_no_proc),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_ends_of_the_buffer),
        cmocka_unit_test(test_long_paths),
        cmocka_unit_test(test_short_reads),
    };
    return cmocka_run_group_tests_name("base/maps", tests, open_scratch, close_scratch);
}
