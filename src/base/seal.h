#ifndef RIDDLE_BASE_SEAL_H
#define RIDDLE_BASE_SEAL_H

/*
 * Files that only a key opens: AES-256-GCM, piece by piece, with a key of the file's own that is
 * derived from the operator's key and what the file's head says. A piece that was changed, moved or
 * left out does not open.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "base/hash.h"

#define SEAL_KEY_HEX 64
#define SEAL_TAG_BYTES 16 /* behind each piece */

/* To be ended when begun; a zeroed one may be, too. */
struct seal {
    void *cipher; /* NULL: not begun */
    unsigned char key[32];
    uint64_t pieces;
};

/* VALIDATION unless it is SEAL_KEY_HEX hexadecimal digits, as `openssl rand -hex 32` prints. */
int seal_check_key(const char *hex, struct err *err);
/*
 * context, different for each file: what the key of the file is derived from besides. ret_check
 * tells whether the key is the same as when the file was sealed, and nothing else.
 */
int seal_begin(struct seal *s, const char *key_hex, const void *context, size_t len,
               char ret_check[HASH_HEX_SIZE], struct err *err);
/* The next piece. ret has room for SEAL_TAG_BYTES more. */
int seal_piece(struct seal *s, bool is_last, const void *plain, size_t len, void *ret,
               struct err *err);
/* The same back: len includes the tag. VALIDATION if it is not as it was sealed. */
int seal_open_piece(struct seal *s, bool is_last, const void *sealed, size_t len, void *ret,
                    struct err *err);
void seal_end(struct seal *s);

#endif
