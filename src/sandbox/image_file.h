#ifndef RIDDLE_SANDBOX_IMAGE_FILE_H
#define RIDDLE_SANDBOX_IMAGE_FILE_H

/*
 * What riddle itself writes in front of an image: which base it is a difference to. What follows
 * was written by a kernel and is read by kernels only.
 */

#include <stdbool.h>
#include "base/err.h"
#include "base/seal.h"

#define IMAGE_BASE_ID_SIZE 33
#define IMAGE_FILE_HEAD_BYTES 4096

/* What a kernel wrote is sealed in pieces of this size; only the last one has less. */
#define IMAGE_PIECE_BYTES (256u << 10)
#define IMAGE_SEALED_PIECE_BYTES (IMAGE_PIECE_BYTES + SEAL_TAG_BYTES)

/*
 * At the begin of an empty file. base_id "": the image needs none. key "": what follows is not
 * sealed, and ret_seal is not begun.
 */
int image_file_begin(int fd, const char *base_id, const char *key, struct seal *ret_seal,
                     struct err *err);
/* Leaves the descriptor at what the kernel wrote. VALIDATION if it is no image. */
int image_file_open(int fd, char ret_base_id[IMAGE_BASE_ID_SIZE], struct err *err);
/* The same. CONFLICT unless it is sealed with this key, or, with "", not sealed. */
int image_file_unlock(int fd, const char *key, char ret_base_id[IMAGE_BASE_ID_SIZE],
                      struct seal *ret_seal, struct err *err);
/* As much as there is, less than n only at the end. */
int image_read_piece(int fd, char *piece, size_t n, size_t *ret_len, struct err *err);

/*
 * For a status: what the image lacks, and why; "": nothing, or it is not known. Written to the head
 * of a file that is not sealed, for names of variables are in it. Cut, and never trusted.
 */
struct image_notes {
    char not_kept[1024];      /* by the portable form that it is */
    char not_elsewhere[1024]; /* by the portable form that follows it */
};
void image_file_note(const char *path, const struct image_notes *notes);
void image_file_noted(const char *path, struct image_notes *ret);

void image_base_path(const char *dir, const char *base_id, char *ret, size_t n);
/* The newest base whose id begins so. False: there is none. */
bool image_newest_base(const char *dir, const char *key, char ret_id[IMAGE_BASE_ID_SIZE]);
/*
 * Removes bases that no image in the directory needs, but for the newest one, which the next zygote
 * may begin with. When no kernel is there that may need one.
 */
void image_sweep_bases(const char *dir);

#endif
