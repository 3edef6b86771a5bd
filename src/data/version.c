/* The hash of a dataset's list of files. */

#include "data/version.h"

#include <stdio.h>
#include <string.h>

int hash_add_line(struct buf *lines, const char *hex, const char *name, struct err *err)
{
    return buf_printf(lines, err, "%s  %s\n", hex, name);
}

int hash_version(const struct buf *lines, char ret[HASH_VERSION_SIZE], struct err *err)
{
    strcpy(ret, "sha256:");
    return hash_bytes(buf_cstr(lines), lines->len, ret + strlen(ret), err);
}
