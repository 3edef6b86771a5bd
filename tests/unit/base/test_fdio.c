/*
 * Descriptors and files: limits, atomic replacement, descriptors over sockets, trees that must not
 * lead outside.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/fdio.h"
#include "base/str.h"
#include "check.h"

static char scratch[64];

static const char *in_scratch(const char *name)
{
    static char paths[4][256];
    static unsigned next;
    char *path = paths[next++ % 4];

    snprintf(path, sizeof(paths[0]), "%s/%s", scratch, name);
    return path;
}

static bool exists(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0;
}

static int open_scratch(void **state)
{
    (void)state;
    make_scratch(scratch);
    return 0;
}

static int close_scratch(void **state)
{
    (void)state;
    return fd_remove_tree(scratch, NULL) < 0 || exists(scratch) ? -1 : 0;
}

static int count_fds(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = 0;

    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

/* ---- reading and writing ---- */

static void test_files(void **state)
{
    auto_buf struct buf b = BUF_INIT(5), none = BUF_INIT(0);
    const char *path = in_scratch("text");
    struct err e;
    char message[300];

    (void)state;
    assert_works(fd_write_file(path, "hello", &e), &e);
    assert_works(fd_read_file(path, &b, &e), &e); /* exactly the maximum */
    assert_string_equal(buf_cstr(&b), "hello");
    buf_clear(&b);
    b.max_bytes = 4;
    snprintf(message, sizeof(message), "reading '%s': larger than the limit of 4 bytes", path);
    assert_fails(fd_read_file(path, &b, &e), &e, ERR_TOO_LARGE, message);
    assert_int_equal(b.len, 0);
    assert_string_equal(buf_cstr(&b), "");
    assert_works(fd_write_file(path, "hi", &e), &e); /* shorter than what was there */
    assert_works(fd_read_file(path, &b, &e), &e);
    assert_string_equal(buf_cstr(&b), "hi");

    snprintf(message, sizeof(message), "cannot open '%s': No such file or directory",
             in_scratch("none"));
    assert_fails(fd_read_file(in_scratch("none"), &b, &e), &e, ERR_NOT_FOUND, message);
    assert_int_equal(fd_read_file(in_scratch("text/x"), &b, &e), -ERR_NOT_FOUND);
    assert_int_equal(fd_read_file(scratch, &b, &e), -ERR_IO);
    snprintf(message, sizeof(message),
             "'%s' does not exist and cannot be created: No such file or directory",
             in_scratch("no/where"));
    assert_fails(fd_write_file(in_scratch("no/where"), "x", &e), &e, ERR_NOT_FOUND, message);
    assert_int_equal(fd_write_file(scratch, "x", &e), -ERR_IO);
    assert_int_equal(fd_read_file("/proc/self/status", &none, &e),
                     -ERR_TOO_LARGE); /* its size says 0 */
}

static void *write_slowly(void *arg)
{
    int fd = *(int *)arg;
    static char block[300000];
    struct err e;

    memset(block, 'z', sizeof(block));
    assert_int_equal(fd_write_all(fd, block, sizeof(block), &e), 0);
    close(fd);
    return NULL;
}

/* Both ends non-blocking, and far more than a pipe holds. */
static void test_nonblocking_pipe(void **state)
{
    auto_buf struct buf b = BUF_INIT(300000);
    pthread_t writer;
    struct err e;
    int p[2];

    (void)state;
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    assert_works(fd_set_nonblock(p[0], true, &e), &e);
    assert_works(fd_set_nonblock(p[1], true, &e), &e);
    assert_int_equal(pthread_create(&writer, NULL, write_slowly, &p[1]), 0);
    assert_works(fd_read_to_end(p[0], &b, &e), &e);
    pthread_join(writer, NULL);
    assert_int_equal(b.len, 300000);
    assert_int_equal(b.data[299999], 'z');
    close(p[0]);
}

static void test_write_fails(void **state)
{
    auto_close int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    struct err e;

    (void)state;
    assert_fails(fd_write_all(full, "x", 1, &e), &e, ERR_IO,
                 "cannot write: No space left on device");
    assert_fails(fd_write_all(-1, "x", 1, &e), &e, ERR_IO, "cannot write: Bad file descriptor");
    assert_works(fd_write_all(-1, NULL, 0, &e), &e);
    assert_fails(fd_write_file("/dev/full", "x", &e), &e, ERR_IO,
                 "cannot write to '/dev/full': No space left on device");
}

static void test_replace(void **state)
{
    auto_buf struct buf b = BUF_INIT(100);
    const char *path = in_scratch("kept");
    struct stat st;
    struct err e;
    int before = count_fds();
    mode_t mask = umask(077);

    (void)state;
    assert_works(fd_replace_file(path, "one\0two", 7, 0644, &e), &e);
    umask(mask);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0644); /* the mode asked for, whatever the umask */
    assert_works(fd_replace_file(path, "three", 5, 0600, &e), &e);
    assert_works(fd_read_file(path, &b, &e), &e);
    assert_string_equal(buf_cstr(&b), "three");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);

    /* A failure leaves the old file and no other. */
    assert_works(fd_mkdir_p(in_scratch("only/dir"), 0755, &e), &e);
    assert_works(fd_write_file(in_scratch("only/dir/x"), "", &e), &e);
    assert_int_equal(fd_replace_file(in_scratch("only/dir"), "x", 1, 0600, &e), -ERR_IO);
    assert_int_equal(unlink(in_scratch("only/dir/x")), 0);
    assert_int_equal(rmdir(in_scratch("only/dir")), 0);
    assert_int_equal(rmdir(in_scratch("only")), 0); /* it was empty otherwise */
    assert_int_equal(fd_replace_file(in_scratch("no/where"), "x", 1, 0600, &e), -ERR_NOT_FOUND);
    assert_int_equal(count_fds(), before);
}

static void test_flags(void **state)
{
    struct err e;
    int p[2];

    (void)state;
    assert_int_equal(pipe(p), 0);
    assert_works(fd_set_nonblock(p[0], true, &e), &e);
    assert_true(fcntl(p[0], F_GETFL) & O_NONBLOCK);
    assert_works(fd_set_nonblock(p[0], false, &e), &e);
    assert_false(fcntl(p[0], F_GETFL) & O_NONBLOCK);
    assert_works(fd_set_cloexec(p[0], true, &e), &e);
    assert_works(fd_set_cloexec(p[0], true, &e), &e);
    assert_true(fcntl(p[0], F_GETFD) & FD_CLOEXEC);
    assert_works(fd_set_cloexec(p[0], false, &e), &e);
    assert_false(fcntl(p[0], F_GETFD) & FD_CLOEXEC);
    close(p[0]);
    close(p[1]);
    assert_fails(fd_set_nonblock(-1, true, &e), &e, ERR_IO,
                 "cannot set the flags of descriptor -1: Bad file descriptor");
}

/* ---- directories ---- */

static void test_mkdir_p(void **state)
{
    char path[300], too_long[PATH_MAX + 2];
    struct err e;

    (void)state;
    assert_works(fd_mkdir_p(in_scratch("d/e//f/"), 0755, &e), &e);
    assert_true(exists(in_scratch("d/e/f")));
    assert_works(fd_mkdir_p(in_scratch("d/e/f"), 0755, &e), &e);
    assert_works(fd_mkdir_p("/", 0755, &e), &e);
    assert_works(fd_write_file(in_scratch("plain"), "", &e), &e);
    assert_works(fd_write_file(in_scratch("d/file"), "", &e), &e);
    snprintf(path, sizeof(path), "cannot create directory '%s': Not a directory",
             in_scratch("d/file"));
    assert_fails(fd_mkdir_p(in_scratch("d/file"), 0755, &e), &e, ERR_IO, path);
    assert_int_equal(fd_mkdir_p(in_scratch("d/file/g"), 0755, &e), -ERR_IO);
    assert_int_equal(fd_mkdir_p("", 0755, &e), -ERR_IO);
    memset(too_long, 'a', sizeof(too_long) - 1);
    too_long[sizeof(too_long) - 1] = '\0';
    assert_int_equal(fd_mkdir_p(too_long, 0755, &e), -ERR_IO);
}

static void test_remove_tree(void **state)
{
    struct err e;
    int before = count_fds();

    (void)state;
    assert_works(fd_remove_tree(in_scratch("missing"), &e), &e);
    assert_works(fd_mkdir_p(in_scratch("outside/sub"), 0755, &e), &e);
    assert_works(fd_write_file(in_scratch("outside/sub/precious"), "x", &e), &e);
    assert_works(fd_mkdir_p(in_scratch("tree/a/b/c"), 0755, &e), &e);
    assert_works(fd_write_file(in_scratch("tree/a/b/c/file"), "x", &e), &e);
    assert_int_equal(symlink(in_scratch("outside"), in_scratch("tree/a/link")), 0);
    assert_int_equal(symlink("/nonexistent", in_scratch("tree/a/b/broken")), 0);
    assert_int_equal(mkfifo(in_scratch("tree/fifo"), 0600), 0);
    assert_int_equal(chmod(in_scratch("tree/a/b"), 0), 0);
    assert_works(fd_remove_tree(in_scratch("tree"), &e), &e);
    assert_false(exists(in_scratch("tree")));
    assert_true(exists(in_scratch("outside/sub/precious")));

    /* A symbolic link as the tree itself is removed, not followed; so is a plain file. */
    assert_int_equal(symlink(in_scratch("outside"), in_scratch("direct")), 0);
    assert_works(fd_remove_tree(in_scratch("direct"), &e), &e);
    assert_false(exists(in_scratch("direct")));
    assert_true(exists(in_scratch("outside/sub/precious")));
    assert_works(fd_remove_tree(in_scratch("outside/sub/precious"), &e), &e);
    assert_false(exists(in_scratch("outside/sub/precious")));
    assert_int_equal(count_fds(), before);
}

/*
 * Deeper than PATH_MAX, than the bound of the recursion and than the number of descriptors that we
 * may have.
 */
static void test_remove_deep_tree(void **state)
{
    struct rlimit old, low;
    struct err e;
    int fd;

    (void)state;
    assert_works(fd_mkdir_p(in_scratch("deep"), 0755, &e), &e);
    fd = open(in_scratch("deep"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < 1500; i++) {
        int next;

        assert_int_equal(mkdirat(fd, "directory", 0755), 0);
        next = openat(fd, "directory", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(next >= 0);
        close(fd);
        fd = next;
    }
    close(fd);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    low = (struct rlimit){ .rlim_cur = 256, .rlim_max = old.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    assert_works(fd_remove_tree(in_scratch("deep"), &e), &e);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_false(exists(in_scratch("deep")));
}

/*
 * What is mounted inside a tree is somebody else's. Needs the right to mount; elsewhere there is
 * nothing to prove.
 */
static void test_remove_stops_at_mount(void **state)
{
    struct err e;
    char message[300];

    (void)state;
    assert_works(fd_mkdir_p(in_scratch("host"), 0755, &e), &e);
    assert_works(fd_write_file(in_scratch("host/precious"), "x", &e), &e);
    assert_works(fd_mkdir_p(in_scratch("jail/data"), 0755, &e), &e);
    if (mount(in_scratch("host"), in_scratch("jail/data"), NULL, MS_BIND, NULL) < 0)
        skip();
    snprintf(message, sizeof(message), "will not remove 'data' in '%s': something is mounted there",
             in_scratch("jail"));
    e = (struct err)ERR_INIT;
    int r = fd_remove_tree(in_scratch("jail"), &e);
    assert_int_equal(umount(in_scratch("jail/data")), 0);
    assert_int_equal(r, -ERR_IO);
    assert_string_equal(e.message, message);
    assert_true(exists(in_scratch("host/precious")));
}

/* ---- passing descriptors ---- */

static void test_pass(void **state)
{
    int s[2], p[2], got[4];
    size_t n_got = 99;
    char data[16];
    struct err e;

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s), 0);
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    assert_works(fd_send_fds(s[0], "hello", 5, p, 2, &e), &e);
    assert_int_equal(fd_recv_fds(s[1], data, sizeof(data), got, 4, &n_got, &e), 5);
    assert_memory_equal(data, "hello", 5);
    assert_int_equal(n_got, 2);
    for (size_t i = 0; i < 2; i++)
        assert_true(fcntl(got[i], F_GETFD) & FD_CLOEXEC);
    assert_works(fd_write_all(got[1], "!", 1, &e), &e);
    assert_int_equal(read(p[0], data, 1), 1);
    assert_int_equal(data[0], '!');
    close(got[0]);
    close(got[1]);

    assert_works(fd_send_fds(s[0], "x", 1, NULL, 0, &e), &e); /* none is fine */
    assert_int_equal(fd_recv_fds(s[1], data, sizeof(data), got, 4, &n_got, &e), 1);
    assert_int_equal(n_got, 0);

    assert_works(fd_set_nonblock(s[1], true, &e), &e);
    assert_int_equal(fd_recv_fds(s[1], data, sizeof(data), got, 4, &n_got, &e), -ERR_UNAVAILABLE);
    close(s[0]);
    assert_int_equal(fd_recv_fds(s[1], data, sizeof(data), got, 4, &n_got, &e),
                     0);                                                        /* end of file */
    assert_int_equal(fd_send_fds(s[1], "x", 1, NULL, 0, &e), -ERR_UNAVAILABLE); /* and no SIGPIPE */
    close(s[1]);
    close(p[0]);
    close(p[1]);
}

static void test_pass_limits(void **state)
{
    int s[2], many[FD_PASS_MAX + 1], got[FD_PASS_MAX];
    size_t n_got = 0;
    char data[16];
    struct err e;
    int before;

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s), 0);
    for (size_t i = 0; i < FD_PASS_MAX + 1; i++)
        many[i] = s[0];
    before = count_fds();
    assert_fails(fd_send_fds(s[0], "x", 1, many, FD_PASS_MAX + 1, &e), &e, ERR_TOO_LARGE,
                 "cannot pass 129 descriptors at once, only 128");
    assert_fails(fd_send_fds(s[0], "", 0, many, 1, &e), &e, ERR_INVALID_INPUT,
                 "cannot send descriptors without a byte");
    assert_works(fd_send_fds(s[0], "x", 1, many, FD_PASS_MAX, &e), &e);
    assert_int_equal(fd_recv_fds(s[1], data, sizeof(data), got, FD_PASS_MAX, &n_got, &e), 1);
    assert_int_equal(n_got, FD_PASS_MAX);
    assert_int_equal(count_fds(), before + FD_PASS_MAX);
    for (size_t i = 0; i < n_got; i++)
        close(got[i]);

    /* More than there is room for: the rest is closed. */
    assert_works(fd_send_fds(s[0], "x", 1, many, 5, &e), &e);
    assert_int_equal(fd_recv_fds(s[1], data, sizeof(data), got, 2, &n_got, &e), 1);
    assert_int_equal(n_got, 2);
    assert_int_equal(count_fds(), before + 2);
    close(got[0]);
    close(got[1]);

    /* A record that is longer than the room loses its end, so nothing of it is kept. */
    assert_works(fd_send_fds(s[0], "0123456789", 10, many, 3, &e), &e);
    assert_int_equal(fd_recv_fds(s[1], data, 4, got, FD_PASS_MAX, &n_got, &e), -ERR_PROTOCOL);
    assert_string_equal(e.message, "received a message whose end was cut off");
    assert_int_equal(n_got, 0);
    assert_int_equal(count_fds(), before);
    close(s[0]);
    close(s[1]);
}

/*
 * The receiver runs out of descriptors half-way: the kernel cuts the list, and what did arrive must
 * not leak.
 */
static void test_pass_cut(void **state)
{
    int s[2], many[20], got[20], before;
    struct rlimit old, low;
    size_t n_got = 0;
    ssize_t r;
    char data[4];
    struct err e = ERR_INIT;

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s), 0);
    for (size_t i = 0; i < 20; i++)
        many[i] = s[0];
    assert_works(fd_send_fds(s[0], "x", 1, many, 20, &e), &e);
    before = count_fds();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    low = (struct rlimit){ .rlim_cur = (rlim_t)MAX_OF(s[0], s[1]) + 6, .rlim_max = old.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    r = fd_recv_fds(s[1], data, sizeof(data), got, 20, &n_got, &e);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_int_equal(r, -ERR_PROTOCOL);
    assert_string_equal(e.message, "received a message whose descriptors were cut off");
    assert_int_equal(n_got, 0);
    assert_int_equal(count_fds(), before);
    close(s[0]);
    close(s[1]);
}

static void test_close_all_but(void **state)
{
    const int keep[] = { 70, 65, 200, -1, 3 };
    int status;
    pid_t pid = fork();

    (void)state;
    if (pid == 0) { /* in a child, which has nothing to lose */
        for (int fd = 60; fd <= 75; fd++)
            dup2(1, fd);
        dup2(1, 200);
        if (fd_close_all_but(62, keep, 5, NULL) != 0)
            _exit(1);
        for (int fd = 60; fd <= 250; fd++) {
            bool open_now = fcntl(fd, F_GETFD) >= 0;

            if (open_now != (fd == 60 || fd == 61 || fd == 65 || fd == 70 || fd == 200))
                _exit(fd);
        }
        _exit(fd_close_all_but(62, NULL, 0, NULL) == 0 && fcntl(65, F_GETFD) < 0 &&
                      fcntl(61, F_GETFD) >= 0 ?
                  0 :
                  2);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void test_map_file(void **state)
{
    const char *path = in_scratch("mapped");
    struct fd_mapping m = { 0 };
    struct err e;

    (void)state;
    assert_works(fd_write_file(path, "hello", &e), &e);
    assert_works(fd_map_file(path, &m, &e), &e);
    assert_int_equal(m.len, 5);
    assert_memory_equal(m.data, "hello", 5);
    fd_mapping_finish(&m);
    fd_mapping_finish(&m); /* nothing is left to undo */
    assert_int_equal(truncate(path, 0), 0);
    assert_works(fd_map_file(path, &m, &e), &e);
    assert_true(!m.data && m.len == 0);
    unlink(path);
    assert_int_equal(fd_map_file(path, &m, &e), -ERR_IO);
    assert_null(m.data);
}

/* The other side ends and has not read what was sent to it. */
static void test_receive_from_the_dead(void **state)
{
    static const int types[] = { SOCK_SEQPACKET, SOCK_STREAM };
    struct err e = ERR_INIT;
    char data[8];
    size_t n_got;
    int s[2], got[4];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
        assert_int_equal(socketpair(AF_UNIX, types[i] | SOCK_CLOEXEC, 0, s), 0);
        assert_int_equal(fd_send_fds(s[1], "ask", 3, NULL, 0, &e), 0);
        assert_int_equal(fd_send_fds(s[0], "answer", 6, &(int){ 2 }, 1, &e), 0);
        close(s[0]);
        assert_int_equal(fd_recv_fds(s[1], data, sizeof(data), got, 4, &n_got, &e), 6);
        assert_memory_equal(data, "answer", 6);
        assert_int_equal(n_got, 1);
        close(got[0]);
        assert_int_equal(fd_recv_fds(s[1], data, sizeof(data), got, 4, &n_got, &e), 0);
        close(s[1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_nonblocking_pipe),
        cmocka_unit_test(test_write_fails),
        cmocka_unit_test(test_replace),
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_mkdir_p),
        cmocka_unit_test(test_remove_tree),
        cmocka_unit_test(test_remove_deep_tree),
        cmocka_unit_test(test_pass),
        cmocka_unit_test(test_remove_stops_at_mount),
        cmocka_unit_test(test_pass_limits),
        cmocka_unit_test(test_pass_cut),
        cmocka_unit_test(test_close_all_but),
        cmocka_unit_test(test_map_file),
        cmocka_unit_test(test_receive_from_the_dead),
    };

    return cmocka_run_group_tests(tests, open_scratch, close_scratch);
}
