#ifndef RIDDLE_BASE_FDIO_H
#define RIDDLE_BASE_FDIO_H

/*
 * Descriptors and files. Codes: NOT_FOUND for what is missing, TOO_LARGE past a buffer's maximum,
 * otherwise IO.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/buf.h"
#include "base/err.h"

/* retries EINTR, polls on EAGAIN */
int fd_write_all(int fd, const void *data, size_t len, struct err *err);
/* TOO_LARGE past the buffer's maximum */
int fd_read_to_end(int fd, struct buf *b, struct err *err);
/* NOT_FOUND, IO, TOO_LARGE */
int fd_read_file(const char *path, struct buf *b, struct err *err);
/* one write(2) to an existing or new file */
int fd_write_file(const char *path, const char *text, struct err *err);
/*
 * Writes to path.tmp-XXXX in the same directory, fsyncs, renames: the file is whole or not there.
 */
int fd_replace_file(const char *path, const void *data, size_t len, mode_t mode, struct err *err);
int fd_set_nonblock(int fd, bool on, struct err *err);
int fd_set_cloexec(int fd, bool on, struct err *err);
int fd_mkdir_p(const char *path, mode_t mode, struct err *err);
/* never follows a symbolic link; missing is fine */
int fd_remove_tree(const char *path, struct err *err);

/*
 * Sends len bytes (at least one) with n_fds descriptors attached to the first byte; receives
 * likewise. fd_recv_fds returns the byte count (0 at end of file), closes what does not fit, and
 * sets close-on-exec on what it returns. UNAVAILABLE when a non-blocking socket has nothing now;
 * PROTOCOL when the kernel cut a record or its descriptors (then all are closed).
 */
#define FD_PASS_MAX 128
int fd_send_fds(int sock, const void *data, size_t len, const int *fds, size_t n_fds,
                struct err *err);
ssize_t fd_recv_fds(int sock, void *data, size_t len, int *ret_fds, size_t max_fds,
                    size_t *ret_n_fds, struct err *err);

/* The bytes of a whole file, to be read from its beginning to its end. Empty: data is NULL. */
struct fd_mapping {
    const unsigned char *data;
    size_t len;
};

int fd_map_file(const char *path, struct fd_mapping *ret, struct err *err);
void fd_mapping_finish(struct fd_mapping *m); /* also of one that was never made, if it is zero */

#define auto_mapping __attribute__((cleanup(fd_mapping_finish)))

/* Closes every descriptor >= first except those listed (close_range). */
int fd_close_all_but(int first, const int *keep, size_t n_keep, struct err *err);

#endif
