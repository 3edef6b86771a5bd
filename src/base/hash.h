#ifndef RIDDLE_BASE_HASH_H
#define RIDDLE_BASE_HASH_H

/* SHA-256, in hexadecimal: what contents are known by. */

#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

#define HASH_HEX_SIZE 65

/*
 * Piece by piece: begin, update…, end. A hash that is not ended must be dropped; both may be called
 * on a zeroed one.
 */
struct hash {
    void *state; /* NULL: not begun */
};

int hash_begin(struct hash *h, struct err *err);
int hash_update(struct hash *h, const void *data, size_t len, struct err *err);
int hash_end(struct hash *h, char ret_hex[HASH_HEX_SIZE], struct err *err);
void hash_drop(struct hash *h);

int hash_bytes(const void *data, size_t len, char ret_hex[HASH_HEX_SIZE], struct err *err);

/*
 * A descriptor from where it stands to its end. on_read (may be NULL) hears how many bytes have
 * been read so far.
 */
int hash_fd(int fd, void (*on_read)(void *arg, int64_t bytes), void *arg,
            char ret_hex[HASH_HEX_SIZE], struct err *err);

#endif
