#ifndef RIDDLE_SANDBOX_IMAGE_FILE_H
#define RIDDLE_SANDBOX_IMAGE_FILE_H

/*
 * What riddle itself writes in front of an image: which base it is a difference to. What follows
 * was written by a kernel and is read by kernels only.
 */

#include <stdbool.h>
#include "base/err.h"

#define IMAGE_BASE_ID_SIZE 33
#define IMAGE_FILE_HEAD_BYTES 4096

/* At the begin of an empty file. base_id "": the image needs none. */
int image_file_begin(int fd, const char *base_id, struct err *err);
/* Leaves the descriptor at what the kernel wrote. VALIDATION if it is no image. */
int image_file_open(int fd, char ret_base_id[IMAGE_BASE_ID_SIZE], struct err *err);

void image_base_path(const char *dir, const char *base_id, char *ret, size_t n);
/* Removes bases that no image in the directory needs. When no kernel is there that may need one. */
void image_sweep_bases(const char *dir);

#endif
