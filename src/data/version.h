#ifndef RIDDLE_DATA_VERSION_H
#define RIDDLE_DATA_VERSION_H

/*
 * What names a version of a dataset: "sha256:" and the SHA-256 of the lines that
 *     sha256sum orders.csv order_items.csv …
 * prints inside the dataset's folder. Anyone can check it with that command piped into itself, and
 * a file's own hash (which ingested tables go by) is found on the way.
 */

#include <stddef.h>
#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"

#define HASH_VERSION_SIZE (sizeof("sha256:") - 1 + HASH_HEX_SIZE)

/* Appends "hex  name\n". */
int hash_add_line(struct buf *lines, const char *hex, const char *name, struct err *err);
int hash_version(const struct buf *lines, char ret[HASH_VERSION_SIZE], struct err *err);

#endif
