#include "kernel/zip_writer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <cmocka.h>

#define MAX_BYTES (512u << 20)

static void put(struct buf *b, const void *data, size_t len)
{
    assert_int_equal(buf_append(b, data, len, NULL), 0);
}

static void put16(struct buf *b, unsigned v)
{
    put(b, (unsigned char[]){ (unsigned char)v, (unsigned char)(v >> 8) }, 2);
}

static void put32(struct buf *b, uint32_t v)
{
    put16(b, v & 0xffff);
    put16(b, v >> 16);
}

/* Packs with the given window: raw deflate, or gzip. */
static void pack(const void *data, size_t len, int window, struct buf *ret)
{
    static unsigned char block[65536];
    z_stream z = { .next_in = (unsigned char *)data, .avail_in = (unsigned)len };
    int status;

    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY), Z_OK);
    do {
        z.next_out = block;
        z.avail_out = sizeof(block);
        status = deflate(&z, Z_FINISH);
        put(ret, block, sizeof(block) - z.avail_out);
    } while (status == Z_OK);
    assert_int_equal(status, Z_STREAM_END);
    deflateEnd(&z);
}

void write_gzip(const void *data, size_t len, struct buf *ret)
{
    pack(data, len, 16 + MAX_WBITS, ret);
}

void zip_writer_init(struct zip_writer *w)
{
    buf_init(&w->out, MAX_BYTES);
    buf_init(&w->directory, MAX_BYTES);
    w->n = 0;
}

void zip_writer_finish(struct zip_writer *w)
{
    buf_finish(&w->out);
    buf_finish(&w->directory);
}

/* What the local header and the directory have in common. */
static void put_common(struct buf *b, bool deflated, uint32_t crc, size_t packed, size_t len,
                       const char *name)
{
    put16(b, 20);
    put16(b, 0);
    put16(b, deflated ? 8 : 0);
    put32(b, 0);
    put32(b, crc);
    put32(b, (uint32_t)packed);
    put32(b, (uint32_t)len);
    put16(b, (unsigned)strlen(name));
    put16(b, 0);
}

void zip_writer_add(struct zip_writer *w, const char *name, const void *data, size_t len,
                    bool deflated)
{
    auto_buf struct buf packed = BUF_INIT(MAX_BYTES);
    uint32_t crc = (uint32_t)crc32(0, data, (unsigned)len), at = (uint32_t)w->out.len;

    if (deflated)
        pack(data, len, -MAX_WBITS, &packed);
    else
        put(&packed, data, len);
    put(&w->out, "PK\3\4", 4);
    put_common(&w->out, deflated, crc, packed.len, len, name);
    put(&w->out, name, strlen(name));
    put(&w->out, buf_cstr(&packed), packed.len);
    put(&w->directory, "PK\1\2", 4);
    put16(&w->directory, 20);
    put_common(&w->directory, deflated, crc, packed.len, len, name);
    put(&w->directory, "\0\0\0\0\0\0\0\0\0\0", 10);
    put32(&w->directory, at);
    put(&w->directory, name, strlen(name));
    w->n++;
}

void zip_writer_end(struct zip_writer *w)
{
    uint32_t at = (uint32_t)w->out.len;

    put(&w->out, buf_cstr(&w->directory), w->directory.len);
    put(&w->out, "PK\5\6\0\0\0\0", 8);
    put16(&w->out, w->n);
    put16(&w->out, w->n);
    put32(&w->out, (uint32_t)w->directory.len);
    put32(&w->out, at);
    put16(&w->out, 0);
}

/* ---- workbooks ---- */

#define XML "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>\n"
#define MAIN "xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/2006/main\""
#define OFFICE "http://schemas.openxmlformats.org/officeDocument/2006/relationships"

static const char package_rels[] = XML
    "<Relationships xmlns=\"http://schemas.openxmlformats.org/package/2006/relationships\"><Relationship Id=\"rId1\" "
    "Type=\"" OFFICE "/officeDocument\" Target=\"xl/workbook.xml\"/></Relationships>";
static const char usual_workbook[] = XML "<workbook " MAIN " xmlns:r=\"" OFFICE
                                         "\"><workbookPr/><sheets><sheet name=\"Data\" "
                                         "sheetId=\"1\" r:id=\"rId1\"/></sheets></workbook>";
static const char workbook_rels[] = XML
    "<Relationships><Relationship Id=\"rId1\" Type=\"" OFFICE
    "/worksheet\" Target=\"worksheets/sheet1.xml\"/>"
    "<Relationship Id=\"rId2\" Type=\"" OFFICE "/sharedStrings\" Target=\"/xl/sharedStrings.xml\"/>"
    "<Relationship Id=\"rId3\" Type=\"" OFFICE "/styles\" Target=\"../xl/styles.xml\"/>"
    "<Relationship Id=\"rId4\" Type=\"" OFFICE
    "/hyperlink\" Target=\"http://example.org/\" TargetMode=\"External\"/>"
    "</Relationships>";

static void add_wrapped(struct zip_writer *w, const char *name, const char *open,
                        const char *inside, const char *close, bool deflated)
{
    auto_buf struct buf part = BUF_INIT(MAX_BYTES);

    put(&part, open, strlen(open));
    put(&part, inside, strlen(inside));
    put(&part, close, strlen(close));
    zip_writer_add(w, name, part.data, part.len, deflated);
}

void write_workbook(const struct test_workbook *wb, struct buf *ret)
{
    struct zip_writer w;
    bool deflated = !wb->stored;
    const char *workbook = wb->workbook ? wb->workbook : usual_workbook;

    zip_writer_init(&w);
    zip_writer_add(&w, "[Content_Types].xml", XML "<Types/>", strlen(XML "<Types/>"), false);
    zip_writer_add(&w, "_rels/.rels", package_rels, strlen(package_rels), deflated);
    zip_writer_add(&w, "xl/workbook.xml", workbook, strlen(workbook), deflated);
    zip_writer_add(&w, "xl/_rels/workbook.xml.rels", workbook_rels, strlen(workbook_rels),
                   deflated);
    if (wb->strings)
        add_wrapped(&w, "xl/sharedStrings.xml", XML "<sst " MAIN ">", wb->strings, "</sst>",
                    deflated);
    if (wb->styles)
        add_wrapped(&w, "xl/styles.xml", XML "<styleSheet " MAIN ">", wb->styles, "</styleSheet>",
                    deflated);
    if (wb->sheet)
        add_wrapped(&w, "xl/worksheets/sheet1.xml",
                    XML
                    "<worksheet " MAIN
                    "><dimension ref=\"A1:XFD1048576\"/><cols><col min=\"1\"/></cols><sheetData>",
                    wb->sheet,
                    "</sheetData><mergeCells><mergeCell ref=\"A1:B1\"/></mergeCells></worksheet>",
                    deflated);
    zip_writer_end(&w);
    put(ret, w.out.data, w.out.len);
    zip_writer_finish(&w);
}
