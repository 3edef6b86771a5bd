/*
 * Fuzzes the reader of old workbooks (.xls). Whatever the bytes are, they are refused with a
 * reason, or become lines of CSV.
 */

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/ingest/xlsx/xlsx.h"
#include "scratch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool never(const void *arg)
{
    (void)arg;
    return false;
}

static void check(const struct err *err)
{
    if (err->code != ERR_VALIDATION || err->message[0] == '\0')
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int null_fd = -1;
    struct xlsx_options options = { .name = "x", .max_text_bytes = 4u << 20, .must_stop = never };
    struct xlsx_book *book;
    struct err err = ERR_INIT;
    char path[128];

    if (!xlsx_is_old(data, size))
        return 0;
    if (null_fd < 0)
        null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    make_scratch();
    scratch_write("x.xls", data, size);
    snprintf(path, sizeof(path), "%s/x.xls", scratch);
    options.path = path;
    if (xlsx_open(data, size, &options, &book, &err) < 0) {
        check(&err);
        return 0;
    }
    for (size_t i = 0; i < xlsx_n_sheets(book) && i < 4; i++) {
        struct sheet_writer w;

        sheet_writer_init(&w, null_fd, 16u << 20);
        if (xlsx_write_sheet(book, i, &w, &err) < 0)
            check(&err);
        else if (!xlsx_sheet_name(book, i) || (w.n_rows > 0) != (w.width > 0))
            abort();
        sheet_writer_finish(&w);
    }
    xlsx_close(book);
    return 0;
}
