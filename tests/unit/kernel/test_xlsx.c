/*
 * Workbooks → CSV: cells of every kind, names and types of columns, sheets, and files that are
 * none.
 */

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/fdio.h"
#include "base/macros.h"
#include "kernel/sql_fixture.h"
#include "kernel/ingest/xlsx/xlsx_impl.h"
#include "kernel/zip_writer.h"

static bool stop_now;

static bool must_stop(const void *arg)
{
    (void)arg;
    return stop_now;
}

/* The lines of the first sheet, or what was wrong. */
struct outcome {
    int r;
    struct err err;
    struct sheet_writer sheet;
    char name[80];
    size_t n_sheets;
    struct buf csv;
};

static void outcome_finish(struct outcome *o)
{
    buf_finish(&o->csv);
}
#define auto_outcome __attribute__((cleanup(outcome_finish)))

static void read_bytes(const struct buf *bytes, uint64_t max_csv, struct outcome *ret)
{
    int fd = open(fixture_path("out.csv"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    /* A block of exactly this size, so that a byte read behind it is found. */
    char *exact = malloc(bytes->len ? bytes->len : 1);
    struct xlsx_options options = { .name = "book.xlsx",
                                    .max_text_bytes = 1 << 20,
                                    .must_stop = must_stop };
    struct xlsx_book *book = NULL;

    assert_true(fd >= 0);
    assert_non_null(exact);
    memcpy(exact, buf_cstr(bytes), bytes->len);
    *ret = (struct outcome){ .err = ERR_INIT };
    buf_init(&ret->csv, 64u << 20);
    sheet_writer_init(&ret->sheet, fd, max_csv);
    ret->r = xlsx_open(exact, bytes->len, &options, &book, &ret->err);
    if (ret->r == 0) {
        ret->n_sheets = xlsx_n_sheets(book);
        snprintf(ret->name, sizeof(ret->name), "%s", xlsx_sheet_name(book, 0));
        ret->r = xlsx_write_sheet(book, 0, &ret->sheet, &ret->err);
    }
    sheet_writer_finish(&ret->sheet);
    xlsx_close(book);
    free(exact);
    close(fd);
    if (ret->r == 0)
        assert_int_equal(fd_read_file(fixture_path("out.csv"), &ret->csv, NULL), 0);
}

static void read_book(const struct test_workbook *wb, struct outcome *ret)
{
    auto_buf struct buf bytes = BUF_INIT(64u << 20);

    write_workbook(wb, &bytes);
    read_bytes(&bytes, 64u << 20, ret);
}

static void assert_book(const struct test_workbook *wb, const char *csv)
{
    auto_outcome struct outcome o;

    read_book(wb, &o);
    if (o.r < 0)
        fail_msg("%s", o.err.message);
    assert_string_equal(buf_cstr(&o.csv), csv);
}

static void assert_refused(const struct test_workbook *wb, const char *message)
{
    auto_outcome struct outcome o;

    read_book(wb, &o);
    assert_int_equal(o.r, -ERR_VALIDATION);
    assert_int_equal(o.err.code, ERR_VALIDATION);
    if (!strstr(o.err.message, message))
        fail_msg("got '%s', expected '%s' in it", o.err.message, message);
    assert_non_null(strstr(o.err.message, "book.xlsx"));
}

#define HEAD3                                                                                                         \
    "<row r=\"1\"><c r=\"A1\" t=\"inlineStr\"><is><t>a</t></is></c><c r=\"B1\" t=\"inlineStr\"><is><t>b</t></is></c>" \
    "<c r=\"C1\" t=\"inlineStr\"><is><t>c</t></is></c></row>"
#define HEAD "\"a\",\"b\",\"c\"\n"
#define TEXT(s) "<c t=\"inlineStr\"><is><t>" s "</t></is></c>"
#define NUM(s) "<c><v>" s "</v></c>"
#define STYLED(n, s) "<c s=\"" n "\"><v>" s "</v></c>"

static void test_kinds_of_cells(void **state)
{
    (void)state;
    assert_book(
        &(struct test_workbook){
            .strings =
                "<si><t>a</t></si><si><t>text</t></si><si><t xml:space=\"preserve\"> x, \"y\"\n</t></si>"
                "<si><r><t>rich</t></r><r><rPr><b/></rPr><t> text</t></r><rPh sb=\"0\" eb=\"1\"><t>no</t></rPh></si>"
                "<si><t>&lt;&#228;&#x20AC;&amp;&gt;</t></si><si/><si><t><![CDATA[<c]]]]></t></si>"
                "<si><t>a_x000D_b_x005F_x0041__x00e4__xZZZZ_</t></si>",
            .sheet =
                "<row r=\"1\"><c r=\"A1\" t=\"s\"><v>0</v></c></row>"
                "<row r=\"2\"><c r=\"A2\" t=\"s\"><v>1</v></c></row><row r=\"3\"><c r=\"A3\" t=\"s\"><v>2</v></c></row>"
                "<row r=\"4\"><c r=\"A4\" t=\"s\"><v>3</v></c></row><row r=\"5\"><c r=\"A5\" t=\"s\"><v>4</v></c></row>"
                "<row r=\"6\"><c r=\"A6\" t=\"s\"><v>5</v></c></row><row r=\"7\"><c r=\"A7\" t=\"s\"><v>6</v></c></row>"
                "<row r=\"8\"><c r=\"A8\" t=\"s\"><v>7</v></c></row>" },
        "\"a\"\n\"text\"\n\" x, \"\"y\"\"\n\"\n\"rich text\"\n\"<ä€&>\"\n\n\"<c]]\"\n"
        "\"a\rb_x0041_ä_xZZZZ_\"\n");
    assert_book(
        &(struct test_workbook){
            .sheet = HEAD3
            "<row><c t=\"str\"><f>A1&amp;\"x\"</f><v>made</v></c><c t=\"b\"><v>1</v></c><c><f>1+1</f><v>2</v></c></row>"
            "<row><c t=\"e\"><v>#N/A</v></c><c t=\"b\"><v>0</v></c><c><v>1E3</v></c></row>"
            "<row>" TEXT("  ") "<c/><c t=\"n\"><v>-5.0</v></c></row>" },
        HEAD "\"made\",true,2\n,false,1000\n,,-5\n");
    assert_book(&(struct test_workbook){ .sheet = HEAD3 "<row>" NUM("0.1")
                                             NUM("123456789012345678") "</row>",
                                         .stored = true },
                HEAD "0.1,123456789012345678\n");
    /* As many digits as it takes, and no more. */
    assert_book(&(struct test_workbook){ .sheet = "<row>" NUM("0.10000000000000001")
                                             NUM("999999.99999000004") NUM("1.5E-7") "</row>" },
                "0.1,999999.99999,1.5e-07\n");
}

static void test_dates(void **state)
{
    static const char styles[] =
        "<numFmts><numFmt numFmtId=\"164\" formatCode=\"yyyy\\-mm\\-dd;@\"/><numFmt numFmtId=\"165\" formatCode=\"[h]:mm:ss\"/>"
        "<numFmt numFmtId=\"166\" formatCode=\"[Red]#,##0.00 &quot;days&quot;\"/></numFmts>"
        "<cellStyleXfs><xf numFmtId=\"14\"/></cellStyleXfs><cellXfs><xf numFmtId=\"0\"/><xf numFmtId=\"14\"/>"
        "<xf numFmtId=\"164\"/><xf numFmtId=\"22\"/><xf numFmtId=\"20\"/><xf numFmtId=\"165\"/><xf numFmtId=\"166\"/></cellXfs>"
        "<dxfs><dxf><numFmt numFmtId=\"166\" formatCode=\"yyyy\"/></dxf></dxfs>";
    static const char dates[] = HEAD3 "<row>" STYLED("1", "1") STYLED("2", "45322.75") STYLED(
        "4", "0.5") "</row>"
                    "<row>" STYLED("1", "59") STYLED("3", "45322") STYLED(
                        "4", "0.000011574") "</row>"
                                            "<row>" STYLED("1", "61") STYLED("3", "45322.999999999")
                                                STYLED("4", "0") "</row>"
                                                                 "<row>" STYLED("2",
                                                                                "2958465") "</row>";
    char since_1904[1024];

    (void)state;
    assert_book(&(struct test_workbook){ .styles = styles, .sheet = dates },
                HEAD "1900-01-01,2024-01-31 18:00:00,12:00:00\n1900-02-28,2024-01-31,00:00:01\n"
                     "1900-03-01,2024-02-01,00:00:00\n9999-12-31\n");
    assert_book(
        &(struct test_workbook){
            .styles = styles,
            .sheet = HEAD3 "<row>" STYLED("5", "1.5") STYLED("6", "1.5")
                STYLED("1", "-3") "</row>"
                                  "<row>" STYLED("5", "0.25") STYLED("0", "45322")
                                      STYLED("1", "5") "</row>"
                                                       "<row>" STYLED("5", "2")
                                                           STYLED("99", "7") "</row>" },
        HEAD "\1"
             "36:00:00,1.5,-3\n\1"
             "06:00:00,45322,1900-01-05\n\1"
             "48:00:00,7\n");
    assert_book(
        &(struct test_workbook){
            .sheet = HEAD3 "<row>" TEXT("2024-02-29")
                TEXT("2023-02-29") "<c t=\"d\"><v>2024-01-31T10:30:00</v></c></row>"
                                   "<row>" TEXT("2024-03-01") TEXT(
                                       "2024-02-28") "<c t=\"d\"><v>2024-01-31</v></c></row>" },
        HEAD "\"2024-02-29\",\"2023-02-29\",\"2024-01-31T10:30:00\"\n"
             "\"2024-03-01\",\"2024-02-28\",\"2024-01-31\"\n");
    snprintf(since_1904, sizeof(since_1904),
             "<workbook><workbookPr date1904=\"1\"/><sheets><sheet name=\"x\" "
             "r:id=\"rId1\"/></sheets><extLst><ext><x15:workbookPr "
             "chartTrackingRefBase=\"1\"/></ext></extLst></workbook>");
    assert_book(&(struct test_workbook){ .workbook = since_1904,
                                         .styles = styles,
                                         .sheet = HEAD3 "<row>" STYLED("1", "0")
                                             STYLED("1", "43860") STYLED("1", "59") "</row>" },
                HEAD "1904-01-01,2024-01-31,1904-02-29\n");
}

static void test_format_codes(void **state)
{
    static const struct {
        const char *code;
        enum number_format format;
    } cases[] = {
        { "General", FORMAT_NUMBER },
        { "0.00E+00", FORMAT_NUMBER },
        { "#,##0.00\\ \"days\"", FORMAT_NUMBER },
        { "[$\xe2\x82\xac-407]\\ #,##0;[Red]-#,##0", FORMAT_NUMBER },
        { "0_d;\"m\"", FORMAT_NUMBER },
        { "0\" unclosed dd", FORMAT_NUMBER },
        { "0\\", FORMAT_NUMBER },
        { "[unclosed", FORMAT_NUMBER },
        { "dd/mm/yy", FORMAT_DATE },
        { "mmm", FORMAT_DATE },
        { "[$-407]d. mmmm yyyy", FORMAT_DATE },
        { "yyyy-mm-dd hh:mm", FORMAT_DATE },
        { "hh:mm:ss AM/PM", FORMAT_TIME },
        { "mm:ss.0", FORMAT_TIME },
        { "[h]:mm", FORMAT_ELAPSED },
        { "[mm]:ss", FORMAT_ELAPSED },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        if (xlsx_format_of(cases[i].code) != cases[i].format)
            fail_msg("%s: %d", cases[i].code, (int)xlsx_format_of(cases[i].code));
}

static void test_sparse(void **state)
{
    auto_outcome struct outcome o;

    (void)state;
    /*
     * Rows and columns that are not there; places in any order; the sheet begins at C5; a later row
     * is longer.
     */
    read_book(
        &(struct test_workbook){
            .sheet = "<row r=\"5\"><c r=\"C5\" t=\"inlineStr\"><is><t>x</t></is></c>"
                     "<c r=\"D5\" t=\"inlineStr\"><is><t>y</t></is></c></row><row r=\"6\"/>"
                     "<row r=\"9\"><c r=\"D9\"><v>2</v></c><c r=\"C9\"><v>1</v></c></row>"
                     "<row r=\"7\"><c r=\"F7\" t=\"inlineStr\"><is><t>far\noff</t></is></c></row>"
                     "<row r=\"8\"><c r=\"C8\"><v>1</v></c><c r=\"C8\"><v>2</v></c></row>"
                     "<row r=\"9\"><c r=\"A9\"><f>B9</f></c>"
                     "<c r=\"B9\" t=\"e\"><v>#N/A</v></c></row>" },
        &o);
    assert_int_equal(o.r, 0);
    assert_string_equal(buf_cstr(&o.csv),
                        "\n\n\n\n,,\"x\",\"y\"\n\n\n\n,,1,2\n,,,,,\"far\noff\"\n,,2\n");
    assert_int_equal(o.sheet.n_rows, 4);
    assert_int_equal(o.sheet.width, 6);
    assert_int_equal(o.sheet.n_valueless, 1);
    assert_int_equal(o.sheet.n_errors, 1);
    assert_string_equal(o.name, "Data");
    outcome_finish(&o);
    /* The last column there can be. */
    read_book(&(struct test_workbook){ .sheet = "<row><c r=\"XFD1\"><v>1</v></c></row>" }, &o);
    assert_int_equal(o.r, 0);
    assert_int_equal(o.sheet.width, XLSX_MAX_COLUMNS);
}

static void test_sheets(void **state)
{
    auto_outcome struct outcome o;

    (void)state;
    read_book(
        &(struct test_workbook){
            .workbook =
                "<x:workbook xmlns:x=\"m\" xmlns:q=\"n\"><!-- > --><x:sheets>"
                "<x:sheet name=\"secret\" state=\"hidden\" q:id=\"rId2\"/><x:sheet name=\"chart\" q:id=\"rId9\"/>"
                "<x:sheet name=\"&#228; &amp; b\" q:id=\"rId1\"/><x:sheet name=\"last\" q:id=\"rId8\"/></x:sheets>"
                "</x:workbook>",
            .sheet = "<row>" NUM("1") "</row>" },
        &o);
    assert_int_equal(o.r, 0);
    assert_string_equal(o.name, "ä & b");
    assert_int_equal(o.n_sheets, 1); /* the others have no part, or are hidden */
    assert_refused(
        &(struct test_workbook){
            .workbook = "<workbook><sheets><sheet name=\"x\" state=\"veryHidden\" "
                        "r:id=\"rId1\"/></sheets></workbook>",
            .sheet = "" },
        "it has no visible sheet;");
    assert_refused(
        &(struct test_workbook){
            .workbook = "<workbook><sheets><sheet name=\"x\" r:id=\"rId7\"/></sheets></workbook>",
            .sheet = "" },
        "it has no visible sheet with cells");
    assert_refused(&(struct test_workbook){ .sheet = NULL }, "its sheet 'Data' is missing");
    assert_refused(&(struct test_workbook){ .workbook = "<html/>", .sheet = "" },
                   "it has no workbook in it");
}

static void test_bad_content(void **state)
{
    auto_buf struct buf deep = BUF_INIT(32 << 20);
    auto_buf struct buf large = BUF_INIT(1 << 20);

    (void)state;
    assert_refused(&(struct test_workbook){ .sheet = "<row><c t=\"s\"><v>0</v></c></row>" },
                   "cell A1 names a text that is not in the table of strings");
    assert_refused(
        &(struct test_workbook){ .strings = "<si/>",
                                 .sheet = "<row r=\"7\"><c r=\"B7\" t=\"s\"><v>-1</v></c></row>" },
        "cell B7 names a text");
    assert_refused(&(struct test_workbook){ .sheet = "<row>" NUM("nan") "</row>" },
                   "cell A1 holds a number that is none");
    assert_refused(&(struct test_workbook){ .sheet = "<row>" NUM("1e400") "</row>" },
                   "cell A1 holds a number that is none");
    assert_refused(&(struct test_workbook){ .sheet = "<row>" NUM("0x10") "</row>" },
                   "cell A1 holds a number that is none");
    assert_refused(&(struct test_workbook){ .sheet = "<row><c t=\"b\"><v>2</v></c></row>" },
                   "cell A1 holds a truth value");
    assert_refused(&(struct test_workbook){ .sheet = "<row><c t=\"q\"><v>2</v></c></row>" },
                   "cell A1 is of an unknown type");
    assert_refused(&(struct test_workbook){ .sheet = "<row><c r=\"XFE1\"><v>2</v></c></row>" },
                   "a cell at 'XFE1'");
    assert_refused(&(struct test_workbook){ .sheet = "<row><c r=\"1\"><v>2</v></c></row>" },
                   "a cell at '1'");
    assert_refused(&(struct test_workbook){ .sheet = "<row><c r=\"XFD1\"/>" NUM("1") "</row>" },
                   "row 1 has more than 16384 columns");
    assert_refused(&(struct test_workbook){ .sheet = "<row r=\"1048577\"/>" },
                   "it has more than 1048576 rows");
    assert_refused(&(struct test_workbook){ .sheet = "<row r=\"0\"/>" },
                   "it has more than 1048576 rows");
    assert_refused(&(struct test_workbook){ .sheet = "<row>" TEXT("\xff") "</row>" },
                   "its XML is malformed");
    assert_refused(&(struct test_workbook){ .strings = "<si><t>\xc3</t></si>", .sheet = "" },
                   "its XML is malformed");
    assert_refused(&(struct test_workbook){ .sheet = "<row>" TEXT("&file;") "</row>" },
                   "a reference (&…;) that is not allowed");
    assert_refused(&(struct test_workbook){ .sheet = "<row>" TEXT("&#0;") "</row>" },
                   "a reference (&…;)");
    assert_refused(&(struct test_workbook){ .sheet = "<row>" TEXT("&#x110000;") "</row>" },
                   "a reference (&…;)");
    assert_refused(&(struct test_workbook){ .sheet = "<row>" TEXT("&#xD800;") "</row>" },
                   "a reference (&…;)");
    assert_refused(&(struct test_workbook){ .sheet = "<row></c>" }, "its XML is malformed");
    assert_refused(&(struct test_workbook){ .sheet = "<row <c>" }, "its XML is malformed");
    assert_refused(&(struct test_workbook){ .sheet = "</sheetData></worksheet><row/>" },
                   "its XML is malformed");
    assert_refused(&(struct test_workbook){ .sheet = "<row><!-- " }, "its XML ends in the middle");
    assert_refused(&(struct test_workbook){ .sheet = "<row><![CDATA[ " },
                   "its XML ends in the middle");
    assert_refused(&(struct test_workbook){ .sheet = "<row x=\"" }, "its XML is malformed");
    assert_refused(
        &(struct test_workbook){
            .workbook = "<!DOCTYPE x [<!ENTITY a SYSTEM \"file:///etc/passwd\">]><workbook/>",
            .sheet = "" },
        "its XML has a DOCTYPE");
    assert_refused(&(struct test_workbook){ .workbook = "\xff\xfe<", .sheet = "" },
                   "its XML ends in the middle");
    assert_refused(
        &(struct test_workbook){ .workbook = "<?xml version=\"1.0\" encoding=\"utf-7\"?><a/>",
                                 .sheet = "" },
        "its XML is in an encoding that is not allowed");
    assert_refused(&(struct test_workbook){ .workbook = "", .sheet = "" },
                   "its XML ends in the middle");
    for (int i = 0; i < XML_MAX_DEPTH; i++)
        assert_int_equal(buf_append_str(&deep, "<row>", NULL), 0);
    assert_refused(&(struct test_workbook){ .sheet = buf_cstr(&deep) },
                   "nested more than 128 deep");
    /* A tag that never ends, which expat would keep until it does. */
    buf_clear(&deep);
    assert_int_equal(buf_append_str(&deep, "<row a='", NULL), 0);
    for (size_t i = 0; i < 2 * XML_MAX_TAG_BYTES / 16; i++)
        assert_int_equal(buf_append_str(&deep, "0123456789abcdef", NULL), 0);
    assert_refused(&(struct test_workbook){ .sheet = buf_cstr(&deep) },
                   "a tag of more than 1048576 bytes");
    /* Nothing but names, which expat keeps. */
    buf_clear(&deep);
    for (unsigned i = 0; i < 1300000; i++)
        assert_int_equal(buf_printf(&deep, NULL, "<%c%x/>", 'a' + (int)(i % 26), i), 0);
    assert_refused(&(struct test_workbook){ .sheet = buf_cstr(&deep) },
                   "more names than fit into 64 MB");
    /* Names that are only a prefix, and text in pieces. */
    assert_book(
        &(struct test_workbook){ .sheet = "<row><c r:=\"x\" :=\"y\" t=\"inlineStr\"><is><t>a"
                                          "\nb&amp;<![CDATA[<c>]]></t></is></c></row>" },
        "\"a\nb&<c>\"\n");
    /* 32,767 characters are a cell, one more is none. */
    assert_int_equal(buf_append_str(&large, "<row><c t=\"inlineStr\"><is><t>", NULL), 0);
    for (int i = 0; i < XLSX_MAX_CELL_CHARS; i++)
        assert_int_equal(buf_append_str(&large, "ä", NULL), 0);
    size_t len = large.len;
    assert_int_equal(buf_append_str(&large, "</t></is></c>" NUM("1") "</row>", NULL), 0);
    {
        auto_outcome struct outcome o;

        read_book(&(struct test_workbook){ .sheet = buf_cstr(&large) }, &o);
        assert_int_equal(o.r, 0);
        assert_int_equal(o.csv.len, 2 * XLSX_MAX_CELL_CHARS + 5);
    }
    large.len = len;
    assert_int_equal(buf_append_str(&large, "x</t></is></c></row>", NULL), 0);
    assert_refused(&(struct test_workbook){ .sheet = buf_cstr(&large) },
                   "cell A1 has more than 32,767 characters");
}

static void test_limits(void **state)
{
    auto_buf struct buf sheet = BUF_INIT(64u << 20);
    auto_buf struct buf bytes = BUF_INIT(64u << 20);
    auto_buf struct buf strings = BUF_INIT(64u << 20);
    auto_outcome struct outcome o;

    (void)state;
    /* The table of strings is larger than it may be (the test gives 1 MB). */
    for (int i = 0; i < 40; i++) {
        assert_int_equal(buf_append_str(&strings, "<si><t>", NULL), 0);
        for (int k = 0; k < 3000; k++)
            assert_int_equal(buf_append_str(&strings, "0123456789", NULL), 0);
        assert_int_equal(buf_append_str(&strings, "</t></si>", NULL), 0);
    }
    assert_refused(&(struct test_workbook){ .strings = buf_cstr(&strings), .sheet = "" },
                   "it has more text (1 MB, or 16777216 strings) than fits into memory");
    /* One long text, shown in very many cells. */
    strings.len = 30016;
    assert_int_equal(buf_append_str(&strings, "", NULL), 0);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(
            buf_append_str(&sheet, "<row><c t=\"s\"><v>0</v></c>" NUM("1") "</row>", NULL), 0);
    write_workbook(
        &(struct test_workbook){
            .strings = "<si><t>0123456789012345678901234567890123456789</t></si>",
            .sheet = buf_cstr(&sheet) },
        &bytes);
    read_bytes(&bytes, 30000, &o);
    assert_int_equal(o.r, -ERR_VALIDATION);
    assert_non_null(strstr(o.err.message, "its rows are more than"));
    outcome_finish(&o);
    /* Interrupted. */
    stop_now = true;
    read_bytes(&bytes, 30000, &o);
    stop_now = false;
    assert_int_equal(o.r, -ERR_CANCELLED);
    outcome_finish(&o);
    /* A bomb: 64 MB of spaces. */
    buf_clear(&sheet);
    buf_clear(&bytes);
    assert_int_equal(buf_reserve(&sheet, 40u << 20, NULL), 0);
    memset(sheet.data, ' ', 40u << 20);
    sheet.len = 40u << 20;
    sheet.data[sheet.len] = '\0';
    write_workbook(&(struct test_workbook){ .sheet = buf_cstr(&sheet) }, &bytes);
    read_bytes(&bytes, 30000, &o);
    assert_int_equal(o.r, -ERR_VALIDATION);
    assert_non_null(strstr(
        o.err.message,
        "the file 'xl/worksheets/sheet1.xml' in it unpacks to more than 300 times its size"));
}

static void assert_bytes_refused(const struct buf *bytes, const char *message)
{
    auto_outcome struct outcome o;

    read_bytes(bytes, 64u << 20, &o);
    assert_int_equal(o.r, -ERR_VALIDATION);
    if (!strstr(o.err.message, message))
        fail_msg("got '%s', expected '%s' in it", o.err.message, message);
}

static void test_bad_archives(void **state)
{
    auto_buf struct buf book = BUF_INIT(1 << 20);
    auto_buf struct buf bytes = BUF_INIT(1 << 20);
    const struct test_workbook wb = { .sheet = HEAD3 "<row>" NUM("1") "</row>", .stored = true };
    static const struct {
        const char *name, *message;
    } others[] = {
        { "data.csv", "is a ZIP archive without an Excel workbook in it; unpack it" },
        { "word/document.xml", "is a text or presentation document" },
        { "xl/workbook.bin", "no workbook in it" },
    };

    (void)state;
    write_workbook(&wb, &book);
    /* Cut anywhere it is refused, and never read past its end. */
    for (size_t n = 1; n < book.len; n += n < 64 || n + 64 > book.len ? 1 : 37) {
        buf_clear(&bytes);
        assert_int_equal(buf_append(&bytes, book.data, n, NULL), 0);
        assert_bytes_refused(&bytes, "it is a ZIP archive without its directory");
    }
    /* A byte of the sheet changed: the checksum tells. */
    char *hit = memmem(book.data, book.len, "<v>1</v>", 8);
    assert_non_null(hit);
    hit[3] = '2';
    assert_bytes_refused(&book, "the file 'xl/worksheets/sheet1.xml' in it is damaged");
    hit[3] = '1';
    /* The directory points past the end, or has entries of no kind. */
    char *end = book.data + book.len - 22;
    for (size_t at = 10; at < 20; at++) {
        char kept = end[at];

        end[at] = (char)0xff;
        {
            auto_outcome struct outcome o;

            read_bytes(&book, 1 << 20, &o);
            assert_int_equal(o.r, -ERR_VALIDATION);
        }
        end[at] = kept;
    }
    /* Encrypted, and packed in a way that nobody reads. */
    char *entry = memmem(book.data, book.len, "PK\1\2", 4);
    assert_non_null(entry);
    entry = memmem(entry + 4, (size_t)(book.data + book.len - entry - 4), "PK\1\2", 4);
    assert_non_null(entry);
    entry[8] = 1;
    assert_bytes_refused(&book, "it is encrypted");
    entry[8] = 0;
    entry[10] = 97;
    assert_bytes_refused(&book, "it is packed by an unusual method");
    for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
        struct zip_writer w;

        zip_writer_init(&w);
        zip_writer_add(&w, others[i].name, "x", 1, false);
        zip_writer_end(&w);
        assert_bytes_refused(&w.out, others[i].message);
        zip_writer_finish(&w);
    }
    {
        struct zip_writer w;

        zip_writer_init(&w);
        zip_writer_add(&w, "content.xml", "x", 1, true);
        zip_writer_add(&w, "META-INF/manifest.xml", "x", 1, true);
        zip_writer_end(&w);
        assert_bytes_refused(&w.out, "cannot be read as an OpenDocument sheet");
        zip_writer_finish(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds_of_cells), cmocka_unit_test(test_dates),
        cmocka_unit_test(test_format_codes),   cmocka_unit_test(test_sparse),
        cmocka_unit_test(test_sheets),         cmocka_unit_test(test_bad_content),
        cmocka_unit_test(test_limits),         cmocka_unit_test(test_bad_archives),
    };

    return cmocka_run_group_tests_name("kernel/xlsx", tests, fixture_open, fixture_close);
}
