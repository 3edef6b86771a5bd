/* How much memory there is, by trees of files as machines and containers show them. */

#include "base/check.h"

#include <stdarg.h>
#include <sys/stat.h>
#include "base/fdio.h"
#include "base/macros.h"
#include "base/memory.h"

#define MB (1ll << 20)
#define GB (1ll << 30)

static char root[64];

static void put(const char *path, const char *text)
{
    char full[512];
    struct err err = ERR_INIT;
    snprintf(full, sizeof(full), "%s%s", root, path);
    for (char *p = full + strlen(root) + 1; (p = strchr(p, '/')); p++) {
        *p = '\0';
        (void)mkdir(full, 0755);
        *p = '/';
    }
    assert_works(fd_write_file(full, text, &err), &err);
}

/* A machine of 16 GB of which 10 can be had. */
static int setup(void **state)
{
    (void)state;
    make_scratch(root);
    put("/proc/meminfo",
        "MemTotal:       16777216 kB\nMemFree:        1000 kB\nMemAvailable:   10485760 kB\n");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    assert_works(fd_remove_tree(root, &err), &err);
    return 0;
}

static void test_without_groups_it_is_the_machines(void **state)
{
    (void)state;
    assert_int_equal(memory_limit_bytes(root), 16 * GB);
    assert_int_equal(memory_available_bytes(root), 10 * GB);
}

static void test_nothing_is_known(void **state)
{
    (void)state;
    assert_int_equal(memory_limit_bytes("/nowhere"), -1);
    assert_int_equal(memory_available_bytes("/nowhere"), -1);
}

static void test_version_2_up_the_hierarchy(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "0::/system.slice/riddle.service/self\n");
    put("/proc/self/mountinfo",
        "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n");
    put("/sys/fs/cgroup/system.slice/riddle.service/self/memory.max", "max\n");
    assert_int_equal(memory_limit_bytes(root), 16 * GB);
    put("/sys/fs/cgroup/system.slice/riddle.service/memory.max", "2147483648\n");
    put("/sys/fs/cgroup/system.slice/riddle.service/memory.current", "1610612736\n");
    put("/sys/fs/cgroup/system.slice/riddle.service/memory.stat",
        "anon 1\ninactive_file 536870912\nactive_file 7\n");
    assert_int_equal(memory_limit_bytes(root), 2 * GB);
    assert_int_equal(memory_available_bytes(root), 1 * GB);
    /* A group above may allow still less. */
    put("/sys/fs/cgroup/system.slice/memory.max", "1073741824\n");
    put("/sys/fs/cgroup/system.slice/memory.current", "1072693248\n");
    assert_int_equal(memory_limit_bytes(root), 1 * GB);
    assert_int_equal(memory_available_bytes(root), 1 * MB);
}

static void test_version_1_in_a_container(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "9:cpu,cpuacct:/docker/1f\n8:memory:/docker/1f\n0::/\n");
    put("/proc/self/mountinfo",
        "40 30 0:30 /docker/1f /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu,cpuacct\n"
        "41 30 0:31 /docker/1f /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    assert_int_equal(memory_limit_bytes(root), 16 * GB); /* that is how version 1 says "no limit" */
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n");
    put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "104857600\n");
    put("/sys/fs/cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 52428800\n");
    assert_int_equal(memory_limit_bytes(root), 512 * MB);
    assert_int_equal(memory_available_bytes(root), 462 * MB);
}

static void test_the_smaller_of_group_and_machine(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "0::/\n");
    put("/proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    put("/sys/fs/cgroup/memory.max", "68719476736\n");
    put("/sys/fs/cgroup/memory.current", "0\n");
    assert_int_equal(memory_limit_bytes(root), 16 * GB);
    assert_int_equal(memory_available_bytes(root), 10 * GB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_without_groups_it_is_the_machines, setup, teardown),
        cmocka_unit_test(test_nothing_is_known),
        cmocka_unit_test_setup_teardown(test_version_2_up_the_hierarchy, setup, teardown),
        cmocka_unit_test_setup_teardown(test_version_1_in_a_container, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_smaller_of_group_and_machine, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
