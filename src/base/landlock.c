/*
 * Landlock: the file rules once more, by a mechanism that shares nothing with mounts. Whatever a
 * path leads to, only what is listed can be read or written. Newer kernels also refuse TCP,
 * abstract Unix sockets and signals to the outside.
 */

#include "base/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/macros.h"

static inline int sys_landlock_create_ruleset(const struct landlock_ruleset_attr *attr, size_t size,
                                              uint32_t flags)
{
    return (int)syscall(SYS_landlock_create_ruleset, attr, size, flags);
}

static inline int sys_landlock_add_rule(int fd, enum landlock_rule_type type, const void *attr,
                                        uint32_t flags)
{
    return (int)syscall(SYS_landlock_add_rule, fd, type, attr, flags);
}

static inline int sys_landlock_restrict_self(int fd, uint32_t flags)
{
    return (int)syscall(SYS_landlock_restrict_self, fd, flags);
}

/* The newest layout this file knows; Debian 12's header ends with the first member. */
struct ruleset_attr {
    uint64_t handled_access_fs;
    uint64_t handled_access_net; /* ABI 4 */
    uint64_t scoped;             /* ABI 6 */
};

#define FS_TRUNCATE (1ULL << 14)  /* ABI 3 */
#define FS_IOCTL_DEV (1ULL << 15) /* ABI 5 */
#define NET_BIND_TCP (1ULL << 0)
#define NET_CONNECT_TCP (1ULL << 1)
#define SCOPE_ABSTRACT_UNIX_SOCKET (1ULL << 0)
#define SCOPE_SIGNAL (1ULL << 1)

#define FS_READ (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define FS_FILE_RIGHTS (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | FS_TRUNCATE)
/* Everything but execution and device nodes. */
#define FS_WRITE                                                                                   \
    (FS_READ | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |                     \
     LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |  \
     LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_SYM |   \
     LANDLOCK_ACCESS_FS_REFER | FS_TRUNCATE)
#define FS_ALL                                                                                     \
    (FS_WRITE | LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_MAKE_CHAR |                        \
     LANDLOCK_ACCESS_FS_MAKE_BLOCK | FS_IOCTL_DEV)

int landlock_abi(void)
{
    int abi = sys_landlock_create_ruleset(NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    return abi < 0 ? 0 : abi;
}

static uint64_t known_fs_rights(int abi)
{
    uint64_t rights = FS_ALL;
    if (abi < 2)
        rights &= ~LANDLOCK_ACCESS_FS_REFER;
    if (abi < 3)
        rights &= ~FS_TRUNCATE;
    if (abi < 5)
        rights &= ~FS_IOCTL_DEV;
    return rights;
}

int landlock_apply(const struct landlock_path *paths, size_t n, struct err *err)
{
    int abi = landlock_abi();
    if (abi < 1)
        return err_set(err, ERR_ISOLATION, "the kernel has no Landlock");
    uint64_t known = known_fs_rights(abi);
    struct ruleset_attr attr = { .handled_access_fs = known };
    size_t size = sizeof(attr.handled_access_fs);
    if (abi >= 4) {
        attr.handled_access_net = NET_BIND_TCP | NET_CONNECT_TCP;
        size = offsetof(struct ruleset_attr, scoped);
    }
    if (abi >= 6) {
        attr.scoped = SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL;
        size = sizeof(attr);
    }
    auto_close int ruleset = sys_landlock_create_ruleset((const void *)&attr, size, 0);
    if (ruleset < 0)
        return err_errno(err, ERR_ISOLATION, errno, "creating the Landlock rules");

    for (size_t i = 0; i < n; i++) {
        auto_close int fd = open(paths[i].path, O_PATH | O_CLOEXEC);
        if (fd < 0) {
            if (errno == ENOENT)
                continue; /* a rule can only be missing, never too wide */
            return err_errno(err, ERR_ISOLATION, errno, "Landlock rule for '%s'", paths[i].path);
        }
        struct stat st;
        if (fstat(fd, &st) < 0)
            return err_errno(err, ERR_ISOLATION, errno, "Landlock rule for '%s'", paths[i].path);
        struct landlock_path_beneath_attr rule = {
            .allowed_access = (paths[i].writable ? FS_WRITE : FS_READ) & known,
            .parent_fd = fd,
        };
        if (!S_ISDIR(st.st_mode))
            rule.allowed_access &= FS_FILE_RIGHTS;
        if (sys_landlock_add_rule(ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
            return err_errno(err, ERR_ISOLATION, errno, "Landlock rule for '%s'", paths[i].path);
    }
    if (sys_landlock_restrict_self(ruleset, 0) < 0)
        return err_errno(err, ERR_ISOLATION, errno, "applying the Landlock rules");
    return 0;
}
