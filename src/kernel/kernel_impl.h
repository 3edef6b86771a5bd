#ifndef RIDDLE_KERNEL_KERNEL_IMPL_H
#define RIDDLE_KERNEL_KERNEL_IMPL_H

/* What the files of one kernel share: its requests (kernel.c) and its images (kernel_image.c). */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/fdio.h"
#include "base/json.h"
#include "kernel/kernel.h"
#include "kernel/python/python.h"
#include "kernel/result.h"

#define MAX_MOUNTS FD_PASS_MAX

struct kernel {
    const struct kernel_parts *parts;
    json_t *start; /* the specification; strings below point into it */
    struct jail_mount mounts[MAX_MOUNTS];
    size_t n_mounts;
    int64_t memory_bytes;
    int threads;
    struct sql_export *export; /* under way; NULL: none */
    bool exports_refused;      /* rows that were refused, not the tables' */
    int64_t exported;          /* bytes that were sent of it */
    bool is_ported;            /* it was made from a portable form, and that was not told yet */
    char not_kept[PYTHON_NOT_KEPT_SIZE]; /* … which lacks these; "": none, or told */
    bool has_files;                      /* … whose files were read before */
    char no_image[ERR_MESSAGE_MAX];      /* why it was made from that behind an image; "": told */
    pid_t companion;                     /* the child that wrote one, to be reaped; 0: none */
};

static inline long long int_of(const json_t *obj, const char *key)
{
    return json_integer_value(json_object_get(obj, key));
}

static inline const char *str_of(const json_t *obj, const char *key)
{
    return json_string_value(json_object_get(obj, key));
}

/* ---- kernel.c ---- */

void kernel_tell_ready(const struct kernel_parts *parts);

/* ---- kernel_image.c ---- */

/*
 * Becomes the image that came with the start. Comes back with an error, or with the descriptor of a
 * portable form, which is still to be read.
 */
int kernel_restore(struct kernel *k, int *ret_portable, struct err *err);
int kernel_read_portable(struct kernel *k, int fd, struct err *err);

/*
 * The request for an image. 1 in the kernel that was made from the image: it is ready, and nobody
 * asked it for one.
 */
int kernel_run_image(struct kernel *k, const json_t *req, struct result *out, struct err *err);
/* After the answer. */
void kernel_reap_companion(struct kernel *k);

#endif
