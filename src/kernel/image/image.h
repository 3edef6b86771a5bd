#ifndef RIDDLE_KERNEL_IMAGE_IMAGE_H
#define RIDDLE_KERNEL_IMAGE_IMAGE_H

/*
 * A kernel as a file: its files, its mappings and its memory, written by the kernel itself between
 * two requests and read by another kernel, which becomes the first one. Both are the same program,
 * forked from zygotes with the same layout; what else they share is checked (struct image_head).
 *
 * The reader is in its own closed jail and trusts nothing of the file: a damaged or forged one
 * costs it its life at most, and gives it nothing that code in the jail could not have done.
 */

#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* What image_save() came back as. */
enum image_outcome { IMAGE_SAVED, IMAGE_RESTORED };

/*
 * What the reader of an image had for the process that it becomes: bytes that were read too soon.
 */
#define IMAGE_CARRIED_MAX (256u << 10)

/*
 * Writes this process to `fd`, a pipe. IMAGE_RESTORED in the process that was made from it, after
 * carry() has been called. CONFLICT names what cannot be kept: a thread, a socket, a child. IO
 * when the other end of the pipe is gone. After an error the process goes on as it was.
 */
int image_save(int fd, void (*carry)(const void *bytes, size_t len), int64_t *ret_bytes,
               struct err *err);

/*
 * Becomes the process in the file `fd`. Returns only if that cannot be: VALIDATION for a damaged
 * file, CONFLICT for one of another program or machine.
 */
int image_restore(int fd, const void *carried, size_t len, struct err *err);

#endif
