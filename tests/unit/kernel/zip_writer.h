#ifndef RIDDLE_TESTS_ZIP_WRITER_H
#define RIDDLE_TESTS_ZIP_WRITER_H

/* Archives, workbooks and gzip files for tests, in memory. The test fails if one cannot be made. */

#include <stdbool.h>
#include <stddef.h>
#include "base/buf.h"

struct zip_writer {
    struct buf out, directory;
    unsigned n;
};

void zip_writer_init(struct zip_writer *w);
void zip_writer_finish(struct zip_writer *w);
void zip_writer_add(struct zip_writer *w, const char *name, const void *data, size_t len,
                    bool deflated);
void zip_writer_end(struct zip_writer *w); /* w->out is the archive then */

/* The parts of a workbook with one sheet. NULL leaves a part out; "" stands for the usual. */
struct test_workbook {
    const char *sheet;    /* what is inside <sheetData> */
    const char *strings;  /* what is inside <sst> */
    const char *styles;   /* what is inside <styleSheet> */
    const char *workbook; /* the whole part; NULL: the usual one */
    bool stored;
};

void write_workbook(const struct test_workbook *wb, struct buf *ret);

void write_gzip(const void *data, size_t len, struct buf *ret); /* appends a member */

#endif
