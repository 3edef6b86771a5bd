/*
 * Trying out each layer of the jail, for `riddle doctor`. A layer that fails is explained by what
 * to do about it.
 */

#include "kernel/jail/probe.h"

#include <duckdb.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "base/fdio.h"
#include "base/json.h"
#include "base/landlock.h"
#include "base/str.h"
#include "gen/platform.h"
#include "kernel/jail/jail.h"
#include "kernel/jail/syscalls.h"

#define PASS "pass"
#define CAUTION "caution"
#define FAIL "fail"

static const char userns_remedy[] =
    "as root: sysctl -w kernel.unprivileged_userns_clone=1 (Debian's own kernels), "
    "sysctl -w user.max_user_namespaces=15000, sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu's); "
    "in a container: --security-opt seccomp=unconfined --security-opt apparmor=unconfined, or let the container be the wall "
    "with RIDDLE_JAIL=partial";

static void add(json_t *layers, const char *name, const char *status, const char *detail,
                const char *remedy)
{
    json_array_append_new(layers, json_pack("{s:s, s:s, s:s, s:s}", "name", name, "status", status,
                                            "detail", detail, "remedy",
                                            str_eq(status, PASS) ? "" : remedy));
}

/* Runs fn in a child; its errno (0: it worked) comes back as the exit status. */
static int try_in_child(int (*fn)(void *), void *arg)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        _exit(fn(arg) == 0 ? 0 : (errno & 0xff ? errno & 0xff : 255));
    int status;
    if (pid < 0 || waitpid(pid, &status, 0) < 0)
        return errno;
    return WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
}

static int try_unshare(void *arg)
{
    /* Without root every other namespace needs the user namespace first. */
    return unshare(CLONE_NEWUSER | *(int *)arg);
}

static void probe_namespaces(json_t *layers)
{
    static const struct {
        const char *name;
        int flag;
    } spaces[] = {
        { "user namespace", CLONE_NEWUSER },     { "pid namespace", CLONE_NEWPID },
        { "mount namespace", CLONE_NEWNS },      { "network namespace", CLONE_NEWNET },
        { "ipc namespace", CLONE_NEWIPC },       { "uts namespace", CLONE_NEWUTS },
        { "cgroup namespace", CLONE_NEWCGROUP },
    };
    for (size_t i = 0; i < ARRAY_SIZE(spaces); i++) {
        int flag = spaces[i].flag;
        int e = try_in_child(try_unshare, &flag);
        add(layers, spaces[i].name, e ? FAIL : PASS, e ? strerror(e) : "can be made",
            userns_remedy);
    }
}

static void probe_seccomp(json_t *layers)
{
    struct seccomp_filters filters = { 0 };
    struct err err = ERR_INIT;
    char detail[128];
    bool good = seccomp_compile(&filters, &err) == 0 && prctl(PR_GET_SECCOMP, 0, 0, 0, 0) >= 0;
    snprintf(detail, sizeof(detail), "filters of %d and %d instructions", filters.first.len,
             filters.last.len);
    add(layers, "seccomp", good ? PASS : FAIL, good ? detail : err.message,
        "use a kernel built with CONFIG_SECCOMP_FILTER");
    seccomp_finish(&filters);
}

static void probe_landlock(json_t *layers)
{
    int abi = landlock_abi();
    char detail[128];
    snprintf(detail, sizeof(detail), abi ? "ABI %d" : "not in this kernel", abi);
    const char *status = abi == 0 ? FAIL : abi < 6 ? CAUTION : PASS;
    if (abi > 0 && abi < 6)
        snprintf(detail, sizeof(detail),
                 "ABI %d: file rules hold; scoping of sockets and signals needs 6", abi);
    add(layers, "landlock", status, detail,
        abi ?
            "Linux 6.12 or newer has all of it; the namespaces cover the rest meanwhile" :
            "boot a kernel with CONFIG_SECURITY_LANDLOCK and 'landlock' in the lsm= list, or set RIDDLE_JAIL=partial");
}

static int try_idmap(void *arg)
{
    (void)arg;
    /* Any mount will do: what matters is that the call exists and the file system takes part. */
    int fd = open_tree(AT_FDCWD, ".", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY };
    return fd < 0 ? -1 : mount_setattr(fd, "", AT_EMPTY_PATH, &attr, sizeof(attr));
}

static void probe_packages(json_t *layers)
{
    static const struct {
        const char *module, *package;
        bool needed;
    } list[] = {
        { "pandas", "python3-pandas", true },
        { "numpy", "python3-numpy", true },
        { "matplotlib", "python3-matplotlib", true },
        { "seaborn", "python3-seaborn", true },
        { "scipy", "python3-scipy", false },
        { "sklearn", "python3-sklearn", false },
        { "statsmodels", "python3-statsmodels", false },
    };
    char duckdb[64];
    snprintf(duckdb, sizeof(duckdb), "%s", duckdb_library_version());
    add(layers, "duckdb", PASS, duckdb, "");
    for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
        char path[256], name[64], remedy[96];
        snprintf(path, sizeof(path), PLATFORM_PYTHON_PACKAGES "/%s/__init__.py", list[i].module);
        snprintf(name, sizeof(name), "python %s", list[i].module);
        snprintf(remedy, sizeof(remedy), "apt-get install %s", list[i].package);
        bool there = access(path, R_OK) == 0;
        add(layers, name,
            there          ? PASS :
            list[i].needed ? FAIL :
                             CAUTION,
            there ? "installed" : "not installed", remedy);
    }
}

int probe_print(FILE *out)
{
    auto_json json_t *all = json_pack("{s:[]}", "layers");
    json_t *layers = json_object_get(all, "layers");
    probe_namespaces(layers);
    probe_landlock(layers);
    probe_seccomp(layers);
    if (geteuid() == 0) {
        int e = try_in_child(try_idmap, NULL);
        add(layers, "mounts for data files", e ? FAIL : PASS, e ? strerror(e) : "can be made",
            "Linux 5.12 or newer and CAP_SYS_ADMIN (in a container: --cap-add SYS_ADMIN), or run riddle as a plain user");
    }
    probe_packages(layers);
    auto_free char *text = json_to_str(all);
    fprintf(out, "%s\n", text ? text : "{}");
    return 0;
}
