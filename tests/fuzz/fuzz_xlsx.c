/*
 * Fuzzes the reader of workbooks. Bytes that begin as an archive are read as one. Those that begin
 * with "ods" are the content of an OpenDocument sheet. All others are the parts of a workbook of
 * Excel, separated by NUL (sheet, strings, styles, workbook), packed into an archive that is whole,
 * so that what is inside is reached. Whatever they are, they are refused with a reason, or become
 * lines of CSV.
 */

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/buf.h"
#include "kernel/ingest/xlsx/xlsx.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char package_rels[] =
    "<R><Relationship Id=\"a\" Type=\"/officeDocument\" Target=\"xl/workbook.xml\"/></R>";
static const char workbook_rels[] =
    "<R><Relationship Id=\"r1\" Type=\"/worksheet\" Target=\"s.xml\"/>"
    "<Relationship Id=\"r2\" Type=\"/sharedStrings\" Target=\"t.xml\"/>"
    "<Relationship Id=\"r3\" Type=\"/styles\" Target=\"f.xml\"/></R>";
static const char usual_workbook[] =
    "<workbook><sheets><sheet name=\"x\" id=\"r1\"/></sheets></workbook>";

static void put(struct buf *b, const void *data, size_t len)
{
    if (buf_append(b, data, len, NULL) < 0)
        abort();
}

static void put_number(struct buf *b, uint64_t v, size_t bytes)
{
    for (; bytes > 0; bytes--, v >>= 8)
        put(b, &(unsigned char){ (unsigned char)v }, 1);
}

/* What the local header and the directory have in common. */
static void put_entry(struct buf *b, const char *name, const void *data, size_t len)
{
    put_number(b, 20, 8); /* version, flags, method, and half of the time */
    put_number(b, 0, 2);
    put_number(b, crc32(0, data, (unsigned)len), 4);
    put_number(b, len, 4);
    put_number(b, len, 4);
    put_number(b, strlen(name), 4); /* and no extra field */
}

static void add(struct buf *zip, struct buf *directory, const char *name, const void *data,
                size_t len)
{
    size_t at = zip->len;

    put(zip, "PK\3\4", 4);
    put_entry(zip, name, data, len);
    put(zip, name, strlen(name));
    put(zip, data, len);
    put(directory, "PK\1\2\0\0", 6);
    put_entry(directory, name, data, len);
    put_number(directory, 0, 8);
    put_number(directory, 0, 2);
    put_number(directory, at, 4);
    put(directory, name, strlen(name));
}

static void end_directory(struct buf *zip, const struct buf *directory, size_t n)
{
    size_t at = zip->len;
    put(zip, directory->data, directory->len);
    put(zip, "PK\5\6\0\0\0\0", 8);
    put_number(zip, n, 2);
    put_number(zip, n, 2);
    put_number(zip, directory->len, 4);
    put_number(zip, at, 4);
    put_number(zip, 0, 2);
}

static void pack(const uint8_t *data, size_t size, struct buf *zip)
{
    static const char *const names[] = { "xl/s.xml", "xl/t.xml", "xl/f.xml", "xl/workbook.xml" };
    auto_buf struct buf directory = BUF_INIT(1u << 20);
    size_t n = 2;

    add(zip, &directory, "_rels/.rels", package_rels, strlen(package_rels));
    add(zip, &directory, "xl/_rels/workbook.xml.rels", workbook_rels, strlen(workbook_rels));
    for (size_t i = 0; i < 4; i++) {
        const uint8_t *end = size ? memchr(data, 0, size) : NULL;
        size_t len = end ? (size_t)(end - data) : size;

        if (i == 3 && len == 0)
            add(zip, &directory, names[i], usual_workbook, strlen(usual_workbook));
        else if (len > 0)
            add(zip, &directory, names[i], data, len);
        n += len > 0 || i == 3;
        data += len + (end != NULL);
        size -= len + (end != NULL);
    }
    end_directory(zip, &directory, n);
}

static void pack_ods(const uint8_t *data, size_t size, struct buf *zip)
{
    auto_buf struct buf directory = BUF_INIT(1u << 20);

    add(zip, &directory, "META-INF/manifest.xml", "<m/>", 4);
    add(zip, &directory, "content.xml", data, size);
    end_directory(zip, &directory, 2);
}

static bool never(const void *arg)
{
    (void)arg;
    return false;
}

static void read_book(const void *data, size_t size)
{
    static int null_fd = -1;
    struct xlsx_book *book;
    struct err err = ERR_INIT;

    if (null_fd < 0)
        null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    struct xlsx_options options = { .name = "x", .max_text_bytes = 4u << 20, .must_stop = never };
    if (xlsx_open(data, size, &options, &book, &err) < 0) {
        if (err.code != ERR_VALIDATION || err.message[0] == '\0')
            abort();
        return;
    }
    if (xlsx_n_sheets(book) == 0)
        abort();
    for (size_t i = 0; i < xlsx_n_sheets(book) && i < 4; i++) {
        struct sheet_writer w;

        sheet_writer_init(&w, null_fd, 16u << 20);
        if (xlsx_write_sheet(book, i, &w, &err) < 0) {
            if (err.code != ERR_VALIDATION || err.message[0] == '\0')
                abort();
        } else if (!xlsx_sheet_name(book, i) || (w.n_rows > 0) != (w.width > 0)) {
            abort();
        }
        sheet_writer_finish(&w);
    }
    xlsx_close(book);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    auto_buf struct buf zip = BUF_INIT(64u << 20);

    if (size > 1u << 20)
        return 0;
    if (size >= 2 && memcmp(data, "PK", 2) == 0) {
        read_book(data, size);
        return 0;
    }
    if (size >= 3 && memcmp(data, "ods", 3) == 0)
        pack_ods(data + 3, size - 3, &zip);
    else
        pack(data, size, &zip);
    read_book(zip.data, zip.len);
    return 0;
}
