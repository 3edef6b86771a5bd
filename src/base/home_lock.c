#include "base/home_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
#include "base/fdio.h"
#include "base/macros.h"

int home_lock(const char *home, const char *who, int *ret_fd, struct err *err)
{
    char path[PATH_MAX], text[128] = "";
    if (snprintf(path, sizeof(path), "%s/lock", home) >= (int)sizeof(path))
        return err_set(err, ERR_CONFIG, "RIDDLE_HOME is too long");
    int r = fd_mkdir_p(home, 0700, err);
    if (r < 0)
        return r;
    auto_close int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_errno(err, ERR_IO, errno, "opening '%s'", path);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK)
            return err_errno(err, ERR_IO, errno, "locking '%s'", path);
        (void)!pread(fd, text, sizeof(text) - 1, 0);
        text[strcspn(text, "\n")] = '\0';
        return err_set(
            err, ERR_CONFLICT,
            "RIDDLE_HOME '%s' is in use by %s; end it first, or set RIDDLE_HOME to another "
            "directory",
            home, *text ? text : "another riddle");
    }
    snprintf(text, sizeof(text), "%s (process %d)\n", who, (int)getpid());
    /* Only for the message: a full disk is no reason not to start. */
    if (ftruncate(fd, 0) == 0)
        (void)!pwrite(fd, text, strlen(text), 0);
    *ret_fd = TAKE_FD(fd);
    return 0;
}
