/* Processes: our own as the example, and a child that ends in every way. */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/proc.h"
#include "base/str.h"
#include "check.h"

static void test_self_dir(void **state)
{
    char dir[PATH_MAX], exe[PATH_MAX], tiny[2];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
    struct err e;

    (void)state;
    assert_true(n > 0);
    exe[n] = '\0';
    *strrchr(exe, '/') = '\0';
    assert_works(proc_self_dir(dir, sizeof(dir), &e), &e);
    assert_string_equal(dir, exe);
    assert_fails(proc_self_dir(tiny, sizeof(tiny), &e), &e, ERR_TOO_LARGE,
                 "the path of the running program is too long");
}

static void test_status_value(void **state)
{
    (void)state;
    assert_true(proc_status_value(0, "VmRSS") > 0);
    assert_int_equal(proc_status_value(0, "Pid"), getpid());
    assert_int_equal(proc_status_value(getpid(), "PPid"), getppid());
    assert_int_equal(proc_status_value(0, "id"), -1); /* the end of a name is not the name */
    assert_int_equal(proc_status_value(0, "Name"), -1);
    assert_int_equal(proc_status_value(INT_MAX, "Pid"), -1);
}

/* A child that waits until it is killed or told to exit with `status`. */
static pid_t start_child(int status)
{
    pid_t pid = fork();

    if (pid == 0) {
        if (status >= 0)
            _exit(status);
        for (;;)
            pause();
    }
    assert_true(pid > 0);
    return pid;
}

static void test_describe_exit(void **state)
{
    char text[64];
    int status;
    pid_t pid;

    (void)state;
    pid = start_child(3);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    proc_describe_exit(status, text, sizeof(text));
    assert_string_equal(text, "exit status 3");

    pid = start_child(-1);
    kill(pid, SIGSTOP);
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    proc_describe_exit(status, text, sizeof(text));
    assert_string_equal(text, "stopped by signal 19 (Stopped (signal))");
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    proc_describe_exit(status, text, sizeof(text));
    assert_string_equal(text, "signal 9 (Killed)");
    proc_describe_exit(status, text, 9);
    assert_string_equal(text, "signal 9");
}

static void test_pidfd(void **state)
{
    pid_t pid = start_child(-1);
    struct pollfd p = { .events = POLLIN };
    int status, fd;
    struct err e = ERR_INIT;

    (void)state;
    fd = proc_pidfd_open(pid, &e);
    assert_true(fd >= 0);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_works(proc_pidfd_signal(fd, SIGTERM, &e), &e);
    p.fd = fd;
    assert_int_equal(poll(&p, 1, 10000), 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WTERMSIG(status), SIGTERM);
    assert_fails(proc_pidfd_signal(fd, SIGTERM, &e), &e, ERR_NOT_FOUND,
                 "cannot send signal 15: No such process");
    close(fd);
    assert_int_equal(proc_pidfd_open(pid, &e), -ERR_NOT_FOUND);
    assert_int_equal(proc_pidfd_open(-1, &e), -ERR_IO);
}

/* Its nice value and, from Linux 6.12 on, its slice. */
static void get_slice(int *ret_nice, uint64_t *ret_ns)
{
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t slice_ns, deadline, period;
    } attr = { .size = sizeof(attr) };

    assert_int_equal(syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0), 0);
    *ret_nice = attr.nice;
    *ret_ns = attr.slice_ns;
}

/* A priority that was set before stays. */
static void test_long_slices(void **state)
{
    int status = 0, nice_before, nice_after;
    uint64_t before, after;
    pid_t pid = fork();

    (void)state;
    if (pid == 0) {
        if (setpriority(PRIO_PROCESS, 0, 7) < 0)
            _exit(2);
        get_slice(&nice_before, &before);
        proc_run_in_long_slices(0);
        get_slice(&nice_after, &after);
        _exit(nice_after != nice_before || (before > 0 && (after <= before || after != 20000000)));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void test_have_program(void **state)
{
    char dir[64], path[128], missing[200], *old = strdup(getenv("PATH"));

    (void)state;
    make_scratch(dir);
    snprintf(path, sizeof(path), "%s/tool", dir);
    snprintf(missing, sizeof(missing), ":/nonexistent:%s", dir);
    setenv("PATH", missing, 1);
    assert_false(proc_have_program("tool"));
    close(open(path, O_WRONLY | O_CREAT, 0644));
    assert_false(proc_have_program("tool")); /* there, but no program */
    chmod(path, 0755);
    assert_true(proc_have_program("tool"));
    assert_true(proc_have_program(path));
    assert_false(proc_have_program(""));
    assert_false(proc_have_program(dir));
    assert_false(proc_have_program("too"));
    setenv("PATH", "", 1);
    assert_false(proc_have_program("tool"));
    unsetenv("PATH");
    assert_false(proc_have_program("tool"));
    setenv("PATH", old, 1);
    free(old);
    unlink(path);
    rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_self_dir),      cmocka_unit_test(test_status_value),
        cmocka_unit_test(test_describe_exit), cmocka_unit_test(test_pidfd),
        cmocka_unit_test(test_long_slices),   cmocka_unit_test(test_have_program),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
