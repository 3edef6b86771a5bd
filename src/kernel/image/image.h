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

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* What image_save() came back as. */
enum image_outcome { IMAGE_SAVED, IMAGE_RESTORED };

/*
 * What the reader of an image had for the process that it becomes: bytes that were read too soon.
 */
#define IMAGE_CARRIED_MAX (256u << 10)

struct image_hooks {
    /* In the process that was made from the image. */
    void (*carry)(const void *bytes, size_t len);
    /*
     * When it is known what is in the image, and nothing of it has been written. It may fork, and
     * changes no memory but the stack. Or NULL.
     */
    void (*found)(void *arg, int64_t bytes);
    void *arg; /* in a frame of the caller: it is not in the image as found() leaves it */
    /* The other end of the pipe is a kernel that becomes this one now: there are no checksums. */
    bool is_live;
};

/*
 * Writes this process to `fd`, a pipe: what differs from the base in the file base_fd, or
 * everything if that is negative. IMAGE_RESTORED in the process that was made from it, after
 * hooks->carry() has been called. CONFLICT names what cannot be kept: a thread, a socket, a child.
 * IO when the other end of the pipe is gone. After an error the process goes on as it was; then
 * *ret_bytes is 0, or what its files took, and nothing behind them was written.
 */
int image_save(int fd, int base_fd, const struct image_hooks *hooks, int64_t *ret_bytes,
               struct err *err);

struct image_source {
    int fd;
    int base_fd;    /* negative: the image needs none */
    bool is_base;   /* this process was forked from the one that the base is of */
    bool is_zygote; /* the image is the one behind its base */
    uint64_t magic; /* of image_magic() */
    bool follows;   /* set: there is no image behind its files, but the portable form */
};

/*
 * Becomes the process in the file, or in the pipe that a kernel writes itself to (is_live). Returns only if that cannot be: VALIDATION for a damaged
 * file, CONFLICT for one of another program or machine. Then the image's own files are there,
 * unless it is damaged, all descriptors above 3 are closed, and source->fd is another one.
 */
int image_restore(struct image_source *source, const void *carried, size_t len, struct err *err);

/*
 * The portable form, for a kernel that cannot be an image: its files, and behind them what the
 * caller writes. A new kernel reads the files and then the rest.
 */
int image_write_portable(int fd, struct err *err);
/* The first word: of a pipe it is taken, as those expect that read on. 0: there is none. */
uint64_t image_magic(int fd);
bool image_is_portable(uint64_t magic);
int image_read_portable(int fd, struct err *err);

/*
 * Behind an image, variables may follow in the portable form, for a kernel that cannot become the
 * image. Finds them, given where the image begins: NOT_FOUND if there are none.
 */
int image_write_companion(int fd, struct err *err);
int image_find_companion(int fd, int64_t begin, struct err *err);

/*
 * In a zygote: writes its memory to a file, as the base of images of its kernels, and behind it the
 * rest of what a process needs to become this one. Nothing of it changes but its stack. As
 * image_save(): IMAGE_RESTORED in a process that was made from the file.
 */
int image_write_base(int fd, struct err *err);
/*
 * Early in a process that is to be a zygote: becomes the one that wrote the file. Returns as
 * image_restore() does.
 */
int image_become_base(int fd, struct err *err);
/*
 * In a zygote that was made from its base, before its first kernel: notes which of its pages
 * are no longer as the base has them.
 */
void image_note_changes(void);

#endif
