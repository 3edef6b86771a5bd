/* CSV → columnar file: dialects, encodings, rejected lines, bad files, progress, interrupts, and what is left on disk. */

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/clock.h"
#include "base/macros.h"
#include "kernel/ingest/csv_file.h"
#include "kernel/sql_fixture.h"

static char *dump(const json_t *j)
{
    return json_dumps(j, JSON_COMPACT | JSON_ENCODE_ANY);
}

static void assert_json(const json_t *result, const char *key, const char *expected)
{
    char *text = dump(json_object_get(result, key));

    if (strcmp(text, expected) != 0)
        fail_msg("%s: got %s, expected %s", key, text, expected);
    free(text);
}

static json_t *ingest_text(const char *text)
{
    fixture_write("in.csv", text, strlen(text));
    return fixture_ingest(engine, "in.csv", "out.db");
}

/* The rows of the ingested file, as another engine reads them. */
static char *read_back(const char *sql)
{
    struct sql_table table = { "t", fixture_path("out.db") };
    struct sql_setup setup = {
        .tables = &table, .n_tables = 1, .memory_bytes = 128 << 20, .threads = 1
    };
    struct sql_engine *e = NULL;
    struct err err = ERR_INIT;
    json_t *result;
    char *rows;

    assert_int_equal(sql_engine_create(&e, &err), 0);
    if (sql_engine_setup(e, &setup, &err) < 0)
        fail_msg("%s", err.message);
    result = fixture_sql(e, sql, true, 100, -1);
    if (strcmp(fixture_verdict(result), "ok") != 0)
        fail_msg("%s: %s", sql, fixture_message(result));
    rows = dump(json_object_get(result, "rows"));
    json_decref(result);
    sql_engine_destroy(e);
    return rows;
}

static void assert_rows(const char *sql, const char *expected)
{
    char *rows = read_back(sql);

    if (strcmp(rows, expected) != 0)
        fail_msg("%s: got %s, expected %s", sql, rows, expected);
    free(rows);
}

/* The output file is there, closed and whole; nothing else is left. */
static void assert_output(bool exists)
{
    assert_int_equal(access(fixture_path("out.db"), F_OK) == 0, exists);
    assert_int_equal(access(fixture_path("out.db.wal"), F_OK), -1);
}

static void test_plain(void **state)
{
    json_t *result = ingest_text(
        "id,day,amount,ok,name\n1,2024-01-31,1.5,true,a\n2,2024-02-01,2.25,false,\"b, \"\"c\"\"\"\n");

    (void)state;
    assert_string_equal(fixture_verdict(result), "ok");
    assert_json(result, "row_count", "2");
    assert_json(result, "columns", "[\"id\",\"day\",\"amount\",\"ok\",\"name\"]");
    assert_json(result, "types", "[\"BIGINT\",\"DATE\",\"DOUBLE\",\"BOOLEAN\",\"VARCHAR\"]");
    assert_json(result, "rejects", "{\"count\":0,\"lines\":[]}");
    assert_json(result, "dialect",
                "{\"format\":\"csv\",\"delimiter\":\",\",\"quote\":\"\\\"\",\"encoding\":\"utf-8\",\"header\":true}");
    assert_json(result, "error", "null");
    json_decref(result);
    assert_output(true);
    assert_rows(
        "SELECT * FROM t ORDER BY id",
        "[[1,\"2024-01-31\",1.5,true,\"a\"],[2,\"2024-02-01\",2.25,false,\"b, \\\"c\\\"\"]]");
}

static void test_dialects(void **state)
{
    static const struct {
        const char *text, *columns, *types, *rows;
    } cases[] = {
        { "a;b\r\n1;x\r\n2;y\r\n", "[\"a\",\"b\"]", "[\"BIGINT\",\"VARCHAR\"]",
          "[[1,\"x\"],[2,\"y\"]]" },
        { "a\tb\n1\tx\n2\ty\n", "[\"a\",\"b\"]", "[\"BIGINT\",\"VARCHAR\"]",
          "[[1,\"x\"],[2,\"y\"]]" },
        { "a|b\n1|x\n2|y", "[\"a\",\"b\"]", "[\"BIGINT\",\"VARCHAR\"]", "[[1,\"x\"],[2,\"y\"]]" },
        { "a,b\n1,'x,1'\n2,'y'\n", "[\"a\",\"b\"]", "[\"BIGINT\",\"VARCHAR\"]",
          "[[1,\"x,1\"],[2,\"y\"]]" },
        { "a,b\n1,\"x\\\"1\"\n2,\"y\"\n", "[\"a\",\"b\"]", "[\"BIGINT\",\"VARCHAR\"]",
          "[[1,\"x\\\"1\"],[2,\"y\"]]" },
        { "d\n31/01/2024\n01/02/2024\n", "[\"d\"]", "[\"DATE\"]",
          "[[\"2024-01-31\"],[\"2024-02-01\"]]" },
        { "1,2\n3,4\n", "[\"column0\",\"column1\"]", "[\"BIGINT\",\"BIGINT\"]", "[[1,2],[3,4]]" },
        { "only\n1\n2\n", "[\"only\"]", "[\"BIGINT\"]", "[[1],[2]]" },
        { "note\nhello, world\nbye, all\n", NULL, NULL, NULL },
        { "a,a,b\n1,2,3\n4,5,6\n", "[\"a\",\"a_1\",\"b\"]", "[\"BIGINT\",\"BIGINT\",\"BIGINT\"]",
          "[[1,2,3],[4,5,6]]" },
        { "a,,b\n1,2,3\n4,5,6\n", "[\"a\",\"column1\",\"b\"]", "[\"BIGINT\",\"BIGINT\",\"BIGINT\"]",
          "[[1,2,3],[4,5,6]]" },
        { "a'b,\"c\"\"d\"\n1,2\n3,4\n", "[\"a'b\",\"c\\\"d\"]", "[\"BIGINT\",\"BIGINT\"]",
          "[[1,2],[3,4]]" },
        { "a,b\n\"1\n2\",x\n\"3\",y\n", "[\"a\",\"b\"]", "[\"VARCHAR\",\"VARCHAR\"]",
          "[[\"1\\n2\",\"x\"],[\"3\",\"y\"]]" },
        { "\xef\xbb\xbf"
          "n\xc3\xa4me,b\n\xc3\xa4,2\n",
          "[\"n\xc3\xa4me\",\"b\"]", "[\"VARCHAR\",\"BIGINT\"]", "[[\"\xc3\xa4\",2]]" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        json_t *result = ingest_text(cases[i].text);

        if (strcmp(fixture_verdict(result), "ok") != 0)
            fail_msg("%s: %s", cases[i].text, fixture_message(result));
        if (cases[i].columns) {
            assert_json(result, "columns", cases[i].columns);
            assert_json(result, "types", cases[i].types);
            assert_rows("SELECT * FROM t", cases[i].rows);
        }
        assert_json(result, "rejects", "{\"count\":0,\"lines\":[]}");
        json_decref(result);
    }
}

static void test_encodings(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
        const char *encoding, *rows;
    } cases[] = {
#define BYTES(s) s, sizeof(s) - 1
        { BYTES("\xff\xfe"
                "a\0,\0b\0\n\0\xe4\0,\0"
                "1\0\n\0"),
          "utf-16-le", "[[\"\xc3\xa4\",1]]" },
        { BYTES("\xfe\xff"
                "\0a\0,\0b\0\n\0\xe4\0,\0"
                "1\0\n"),
          "utf-16-be", "[[\"\xc3\xa4\",1]]" },
        { BYTES("a\0,\0b\0\n\0x\0,\0"
                "1\0\n\0"),
          "utf-16-le", "[[\"x\",1]]" },
        { BYTES("\0a\0,\0b\0\n\0x\0,\0"
                "1\0\n"),
          "utf-16-be", "[[\"x\",1]]" },
        { BYTES("\xff\xfe"
                "a\0,\0b\0\n\0\x3d\xd8\x00\xde,\0"
                "1\0\n\0"),
          "utf-16-le", "[[\"\xf0\x9f\x98\x80\",1]]" },
        { BYTES("a,b\n\xe4\xdf,1\n"), "latin-1", "[[\"\xc3\xa4\xc3\x9f\",1]]" },
        { BYTES("a,b\n10\x80 \x96 \xe4,1\n"), "windows-1252",
          "[[\"10\xe2\x82\xac \xe2\x80\x93 \xc3\xa4\",1]]" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        json_t *result;

        fixture_write("in.csv", cases[i].bytes, cases[i].len);
        result = fixture_ingest(engine, "in.csv", "out.db");
        if (strcmp(fixture_verdict(result), "ok") != 0)
            fail_msg("case %zu: %s", i, fixture_message(result));
        assert_string_equal(
            json_string_value(json_object_get(json_object_get(result, "dialect"), "encoding")),
            cases[i].encoding);
        assert_json(result, "columns", "[\"a\",\"b\"]");
        json_decref(result);
        assert_rows("SELECT * FROM t", cases[i].rows);
    }
}

/* Bytes that are not UTF-8 far behind the sample, in a column of numbers: still Latin-1, not a wrong number of no encoding. */
static void test_late_latin1(void **state)
{
    auto_buf struct buf text = BUF_INIT(4 << 20);
    struct err err = ERR_INIT;
    json_t *result;

    (void)state;
    assert_int_equal(buf_append_str(&text, "a,b\n", &err), 0);
    for (int i = 0; i < 30000; i++)
        assert_int_equal(buf_printf(&text, &err, "%d,x%d\n", i, i), 0);
    assert_int_equal(buf_append_str(&text, "30000,\xe4\n", &err), 0);
    fixture_write("in.csv", text.data, text.len);
    result = fixture_ingest(engine, "in.csv", "out.db");
    assert_string_equal(fixture_verdict(result), "ok");
    assert_json(result, "row_count", "30001");
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(result, "dialect"), "encoding")),
        "latin-1");
    json_decref(result);
    assert_rows("SELECT b FROM t WHERE a = 30000", "[[\"\xc3\xa4\"]]");
}

static void test_rejected_lines(void **state)
{
    json_t *result = ingest_text("a,b,c\n1,2,3\n4,5\n6,7,8,9\n10,11,12\n13,14,15\n");

    (void)state;
    assert_string_equal(fixture_verdict(result), "ok");
    assert_json(result, "row_count", "3");
    assert_json(result, "columns", "[\"a\",\"b\",\"c\"]");
    assert_json(
        result, "rejects",
        "{\"count\":2,\"lines\":[{\"line\":3,\"column\":\"c\",\"error\":\"Expected Number of Columns: 3 Found: 2\","
        "\"text\":\"4,5\"},{\"line\":4,\"column\":null,\"error\":\"Expected Number of Columns: 3 Found: 4\","
        "\"text\":\"6,7,8,9\"}]}");
    json_decref(result);
    assert_rows("SELECT * FROM t", "[[1,2,3],[10,11,12],[13,14,15]]");
}

/* n lines of integers, every `every`th of them from `from` on with `odd` in place of the first. */
static json_t *ingest_odd(int n, int from, int every, const char *odd)
{
    auto_buf struct buf text = BUF_INIT(8 << 20);
    struct err err = ERR_INIT;

    assert_int_equal(buf_append_str(&text, "a,b\n", &err), 0);
    for (int i = 0; i < n; i++) {
        if (i >= from && i % every == 0)
            assert_int_equal(buf_printf(&text, &err, "%s,%d\n", odd, i), 0);
        else
            assert_int_equal(buf_printf(&text, &err, "%d,%d\n", i, i), 0);
    }
    fixture_write("in.csv", text.data, text.len);
    return fixture_ingest(engine, "in.csv", "out.db");
}

static void test_wrong_type_behind_the_sample(void **state)
{
    json_t *result = ingest_odd(30000, 29000, 100, "n/a");
    const json_t *lines = json_object_get(json_object_get(result, "rejects"), "lines");

    (void)state;
    /* Ten odd ones are rejected and told. */
    assert_string_equal(fixture_verdict(result), "ok");
    assert_json(result, "types", "[\"BIGINT\",\"BIGINT\"]");
    assert_json(result, "row_count", "29990");
    assert_int_equal(json_array_size(lines), 10);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(lines, 0), "line")), 29002);
    assert_string_equal(json_string_value(json_object_get(json_array_get(lines, 0), "text")),
                        "n/a,29000");
    assert_string_equal(json_string_value(json_object_get(json_array_get(lines, 0), "column")),
                        "a");
    json_decref(result);
    /* A thousand of them are a column of texts. */
    result = ingest_odd(30000, 25000, 5, "n/a");
    assert_string_equal(fixture_verdict(result), "ok");
    assert_json(result, "types", "[\"VARCHAR\",\"BIGINT\"]");
    assert_json(result, "row_count", "30000");
    assert_json(result, "rejects", "{\"count\":0,\"lines\":[]}");
    json_decref(result);
}

/* DuckDB alone would read 1.5 as 2 here. */
static void test_decimals_behind_the_sample(void **state)
{
    json_t *result = ingest_odd(60000, 59999, 1, "1.5");

    (void)state;
    assert_json(result, "types", "[\"DOUBLE\",\"BIGINT\"]");
    json_decref(result);
    assert_rows("SELECT a FROM t WHERE b = 59999", "[[1.5]]");
}

static void test_quotes_behind_the_sample(void **state)
{
    auto_buf struct buf text = BUF_INIT(4 << 20);
    struct err err = ERR_INIT;
    json_t *result;

    (void)state;
    assert_int_equal(buf_append_str(&text, "a,b\n", &err), 0);
    for (int i = 0; i < 30000; i++)
        assert_int_equal(buf_printf(&text, &err, "%d,x%d\n", i, i), 0);
    assert_int_equal(buf_append_str(&text, "30000,\"x, \"\"y\"\"\"\n", &err), 0);
    fixture_write("in.csv", text.data, text.len);
    result = fixture_ingest(engine, "in.csv", "out.db");
    assert_json(result, "rejects", "{\"count\":0,\"lines\":[]}");
    json_decref(result);
    assert_rows("SELECT b FROM t WHERE a = 30000", "[[\"x, \\\"y\\\"\"]]");
}

static void assert_hits(const char *text, bool has_header, const enum csv_sought *sought, const bool *expected)
{
    const struct csv_layout layout = { ',', '"', has_header };
    bool hit[3] = { false };
    struct err err = ERR_INIT;

    fixture_write("in.csv", text, strlen(text));
    assert_int_equal(csv_file_find(fixture_path("in.csv"), &layout, sought, 3, hit, &err), 0);
    for (size_t c = 0; c < 3; c++) {
        if (hit[c] != expected[c])
            fail_msg("%s: column %zu", text, c);
    }
}

static void test_find_decimals(void **state)
{
    static const struct {
        const char *text;
        bool hit[3];
    } cases[] = {
        { "1,2,3\n4,5,6\n", { false, false, false } },
        { "1,2,3\n4,5.5,6\n", { false, true, false } },
        { "1.0,2,3", { true, false, false } },
        { "1,2,-3.25", { false, false, true } },
        { "1,\"2.5\",3\n", { false, true, false } },
        { "1,\"a,b\",3.5\n", { false, false, true } },
        { "1,\"x\n7.5,y\",3\n2,b,3\n", { false, false, false } },
        { "1.2.3,v1.5,10.0.0.1\n1.x,.5,5.\n", { false, false, false } },
        { "1,5\" pipe,3\n1,x,3.5\n", { false, false, true } },
        { "1,2,3\n1,2,3\n1,2,3\n1,2,3\n1,2,3\n1,2,3\n1,2,3\n1,2,3\n1,2,3\n1,2,3\n1,2,3.5\n1,2,3\n1,2,3\n",
          { false, false, true } },
        { "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa,2.5,3\n",
          { false, true, false } },
    };
    const enum csv_sought sought[3] = { CSV_DECIMALS, CSV_DECIMALS, CSV_DECIMALS };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        assert_hits(cases[i].text, false, sought, cases[i].hit);
}

static void test_find_odd_dates(void **state)
{
    static const struct {
        const char *text;
        bool header, hit[3];
    } cases[] = {
        { "2024-01-02,2024-01-02,2024-01-02\n,,\n", false, { false, false, false } },
        { "2024-01-02,2024-01-02,2024-01-02\r\n1999-12-31,,0000-99-99\r\n", false, { false, false, false } },
        { "2024-01-02,2024-01-02,2024-01-02", false, { false, false, false } },
        { "a,b,c\n2024-01-02,,\n", true, { false, false, false } },
        { "a,b,c\r\n2024-01-02,,\r\n", true, { false, false, false } },
        { "a,2024-01-02,c\n2024-01-02,,\n", false, { true, false, true } },
        { "\na,b,c\n2024-01-02,,\n", true, { true, true, true } },        /* the header is not where it should be */
        { "a,\"b\nx,y,z\",c\n2024-01-02,,\n", true, { false, false, false } }, /* a header of two lines */
        { "2024-01-02 ,2024-01-0, 2024-01-02\n", false, { true, true, true } },
        { "2024-1-2,2024/01/02,20240-1-02\n", false, { true, true, true } },
        { "2024-01-02x,2024-01-02 10:00:00,infinity\n", false, { true, true, true } },
        { "2024-01-0:,2024-01-0/,2\xb0" "24-01-02\n", false, { true, true, true } },
        { "2024-01-02,2024-01-02,2024-01-02x", false, { false, false, true } },
        { "2024-01-02,2024-01-02,2024-01-02\r\n2024-01-02,2024-01-02,x\r\n", false, { false, false, true } },
        { "2024-01-02\n\n2024-01-02,\n2024-01-02,,,x,2024\n2024-01-02,2024-01-02,2024-01-02,x\n", false, { false, false, false } },
        { "2024-01-02\n\n2024-01-02,\n2024-01-02,,,x,2024\nx,2024-01-02,2024-01-02,x\n", false, { true, false, false } },
        { "\"2024-01-02\",\"\",\"2024-01-02\"", false, { false, false, false } },
        { "\"2024-01-02 10:00\",\" \",\"2024-01-02x\"\n", false, { true, true, true } },
        { "\"2024-01-02\n\",2024-01-02,\"2024-01-\n02\"\n", false, { true, false, true } },
        { "\"2024-01-02\"\"\",2024-01-02,2024-01-02\n", false, { true, false, false } },
        /* where readers differ about quotes */
        { "2024-01-02,5\" of pipe,2024-01-02\n", false, { true, true, true } },
        { "2024-01-02, \"a,,\",2024-01-02 10:00\n", false, { true, true, true } },
        { "\"2024-01-02\" ,2024-01-02,2024-01-02\n", false, { true, true, true } },
        { "2024-01-02,2024-01-02,\"2024-01-02\n", false, { true, true, true } },
    };
    const enum csv_sought sought[3] = { CSV_ODD_DATES, CSV_ODD_DATES, CSV_ODD_DATES };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        assert_hits(cases[i].text, cases[i].header, sought, cases[i].hit);
}

/* Whatever the place of a field in the blocks that are searched at once, and with quotes near it or not. */
static void test_find_at_every_place(void **state)
{
    static const struct {
        const char *line;
        bool hit[3];
    } cases[] = {
        { "2024-01-02,name,17\n", { false, false, false } },
        { "2024-01-02,2024-01-02x,17\n", { false, false, false } },
        { "2024-01-02x,name,17\n", { true, false, false } },
        { "2024-01-02 10:00:00,1.5,17\n", { true, false, false } },
        { "2024-01-02,name,17.5\n", { false, false, true } },
        { "\"2024-01-02\",\"a, b\",\"17\"\r\n", { false, false, false } },
        { "\"2024-01-02x\",\"a, b\",\"17.5\"\r\n", { true, false, true } },
        { "2024-01-02x,name,17.5", { true, false, true } },
        { "2024-01-02,2024-01-02,17,2024-01-02x,1.5,1.5,1.5", { false, false, false } },
    };
    const enum csv_sought sought[3] = { CSV_ODD_DATES, CSV_NOTHING, CSV_DECIMALS };

    (void)state;
    for (size_t i = 0; i < 2 * ARRAY_SIZE(cases); i++) {
        for (int n = 1; n <= 140; n++) {
            char text[1024];
            const char *line = cases[i / 2].line;
            int len = snprintf(text, sizeof(text), "day,name,n\n,%s,%0*d\n%s", i % 2 ? "x" : "\"x\"", n, 0, line);

            if (line[strlen(line) - 1] == '\n') /* lines behind it, for blocks without end */
                for (int k = 0; k < 9; k++)
                    len += snprintf(text + len, sizeof(text) - (size_t)len, "2024-12-%02d,%0*d,%d\n", 10 + k, n % 7, k, k);
            assert_true(len < (int)sizeof(text));
            assert_hits(text, true, sought, cases[i / 2].hit);
        }
    }
}

/* Quotes in odd places cost no time per column: it took minutes. */
static void test_find_among_odd_quotes(void **state)
{
    enum { COLUMNS = 20000, BYTES = 2 << 20 };
    const struct csv_layout layout = { ',', '"', false };
    struct err err = ERR_INIT;
    enum csv_sought *sought = calloc(COLUMNS, sizeof(*sought));
    bool *hit = calloc(COLUMNS, sizeof(*hit));
    char *text = malloc(BYTES);
    int64_t begun;

    (void)state;
    assert_true(sought && hit && text);
    sought[0] = CSV_ODD_DATES;
    sought[1] = CSV_DECIMALS;
    for (size_t i = 0; i < BYTES; i++)
        text[i] = i % 2 ? '"' : 'a';
    fixture_write("in.csv", text, BYTES);
    begun = clock_now_ms();
    assert_int_equal(csv_file_find(fixture_path("in.csv"), &layout, sought, COLUMNS, hit, &err), 0);
    assert_true(clock_now_ms() - begun < 3000);
    assert_true(hit[0] && !hit[1]);
    free(sought);
    free(hit);
    free(text);
}

static void test_bad_files(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
        const char *message;
    } cases[] = {
        { BYTES(""), "File is empty" },
        { BYTES(" \n\r\n\t\n"), "File is empty" },
        { BYTES("a,b,c\n"), "CSV has no data rows" },
        { BYTES("a,b\n1,2\0"
                "3\n"),
          "binary file, not CSV (a NUL byte at position 7)" },
        { BYTES("\x89PNG\r\n\x1a\n\0\0"), "a PNG image" },
        { BYTES("\x7f"
                "ELF\2\1\1\0"),
          "a program (ELF)" },
        { BYTES("\x1f\x8b\x08\0\0\0"), "a gzip file that ends in the middle" },
        { BYTES("\x1f\x8b\x09\0\0\0\0\0\0\0"), "a gzip file that is damaged" },
        { BYTES("PK\x03\x04\x14\0"), "it is a ZIP archive without its directory" },
        { BYTES("PK\x05\x06\0\0"), "an empty ZIP archive" },
        { BYTES("PAR1\x15\0"), "Could not parse Parquet: 'in.csv'" },
        { BYTES("PARE\x15\0"), "an encrypted Parquet file" },
        { BYTES("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"),
          "an old Excel file (.xls), or a workbook with a password; save it as .xlsx without a password, or the sheet as CSV" },
        { BYTES("<!DOCTYPE html><table>"), "an HTML page; save its table as .xlsx or CSV" },
        { BYTES("<?xml version=\"1.0\"?><a/>"), "an XML document" },
        { BYTES("%PDF-1.4\n"), "a PDF document" },
        { BYTES("SQLite format 3\0"), "an SQLite database; export its tables as CSV" },
        { BYTES("\xff\xfe\0\0a\0\0\0"), "UTF-32; save it as UTF-8" },
        { BYTES("\xff\xfe"
                "a\0,\0b\0\n\0\x00\xd8"
                "x\0\n\0"),
          "not valid UTF-16" },
        { BYTES("\xff\xfe"
                "a\0,\0b\0\n\0"
                "1\0,\0"
                "2"),
          "cut off in the middle of a UTF-16 character" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        json_t *result;

        fixture_write("in.csv", cases[i].bytes, cases[i].len);
        unlink(fixture_path("out.db"));
        result = fixture_ingest(engine, "in.csv", "out.db");
        assert_string_equal(fixture_verdict(result), "error");
        assert_string_equal(fixture_type(result), "VALIDATION_ERROR");
        if (!strstr(fixture_message(result), cases[i].message))
            fail_msg("case %zu: %s", i, fixture_message(result));
        json_decref(result);
        assert_output(false);
    }
}

static void test_no_files(void **state)
{
    json_t *result = fixture_ingest(engine, "nowhere.csv", "none.db");

    (void)state;
    assert_non_null(strstr(fixture_message(result), "file 'nowhere.csv' does not exist"));
    json_decref(result);
    result = fixture_ingest(engine, fixture_dir, "none.db");
    assert_non_null(
        strstr(fixture_message(result), "is a directory; give one of the CSV files in it"));
    json_decref(result);
    result = fixture_ingest(engine, "/dev/null", "none.db");
    assert_non_null(strstr(fixture_message(result), "is not a regular file"));
    json_decref(result);
    if (geteuid() != 0) { /* root reads everything */
        fixture_write("secret.csv", "a\n1\n", 4);
        assert_int_equal(chmod(fixture_path("secret.csv"), 0), 0);
        result = fixture_ingest(engine, "secret.csv", "none.db");
        assert_non_null(strstr(fixture_message(result), "permission denied; make it readable"));
        json_decref(result);
    }
}

/* More lines that do not fit than lines that do: no table, and the count of both. */
static void test_mostly_ragged(void **state)
{
    auto_buf struct buf text = BUF_INIT(1 << 20);
    struct err err = ERR_INIT;
    json_t *result;

    (void)state;
    assert_int_equal(buf_append_str(&text, "a,b,c\n", &err), 0);
    for (int i = 0; i < 25000; i++)
        assert_int_equal(buf_append_str(&text, "1,2,3\n", &err), 0);
    for (int i = 0; i < 26000; i++)
        assert_int_equal(buf_append_str(&text, "1,2,3,4\n", &err), 0);
    fixture_write("in.csv", text.data, text.len);
    result = fixture_ingest(engine, "in.csv", "out.db");
    assert_string_equal(fixture_verdict(result), "error");
    assert_non_null(strstr(fixture_message(result),
                           "26000 of 51000 lines of 'in.csv' do not fit its 3 columns"));
    json_decref(result);
    assert_output(false);
}

static json_t *ingest_wide(int n_columns)
{
    auto_buf struct buf text = BUF_INIT(1 << 20);
    struct err err = ERR_INIT;

    for (int line = 0; line < 3; line++) {
        for (int i = 0; i < n_columns; i++)
            assert_int_equal(buf_printf(&text, &err, line ? "%s%d" : "%sc%d", i ? "," : "", i), 0);
        assert_int_equal(buf_append_str(&text, "\n", &err), 0);
    }
    fixture_write("in.csv", text.data, text.len);
    return fixture_ingest(engine, "in.csv", "out.db");
}

static void test_wide(void **state)
{
    json_t *result = ingest_wide(10000);

    (void)state;
    if (strcmp(fixture_verdict(result), "ok") != 0)
        fail_msg("%s", fixture_message(result));
    assert_int_equal(json_array_size(json_object_get(result, "columns")), 10000);
    json_decref(result);
    assert_rows("SELECT c9999 FROM t", "[[9999],[9999]]");
    result = ingest_wide(16000); /* the fixture gives 512 MB */
    assert_string_equal(fixture_type(result), "VALIDATION_ERROR");
    assert_non_null(
        strstr(fixture_message(result),
               "has about 16000 columns; at most 14563 can be read here: leave out columns"));
    json_decref(result);
    assert_output(true); /* of the run before: a refused file touches nothing */
}

/* ---- progress and interrupts --------------------------------------------------------------------------------------- */

/* About 60 MB: more than a tenth of a second on any machine. */
static void write_large(void)
{
    FILE *f = fopen(fixture_path("large.csv"), "w");

    assert_non_null(f);
    fprintf(f, "id,name,amount,day\n");
    for (int i = 0; i < 1500000; i++)
        fprintf(f, "%d,name of %d,%d.%02d,2024-%02d-%02d\n", i, i % 1000, i % 900, i % 100,
                1 + i % 12, 1 + i % 28);
    assert_int_equal(fclose(f), 0);
}

struct progress {
    int n;
    double last;
};

static void on_progress(void *arg, double fraction)
{
    struct progress *p = arg;

    assert_true(fraction >= 0 && fraction <= 1);
    p->n++;
    p->last = fraction;
}

static void on_progress_interrupt(void *arg, double fraction)
{
    (void)arg;
    (void)fraction;
    sql_interrupt(engine);
}

static void test_progress_and_interrupt(void **state)
{
    __attribute__((cleanup(result_finish))) struct result out;
    struct progress progress = { 0 };
    char csv[256], db[256];
    struct sql_ingest in = { .path = csv,
                             .name = "large.csv",
                             .out_path = db,
                             .threads = 1,
                             .memory_bytes = 512 << 20,
                             .temp_directory = fixture_dir,
                             .progress = on_progress,
                             .progress_arg = &progress };
    struct err err = ERR_INIT;
    json_t *result;

    (void)state;
    write_large();
    snprintf(csv, sizeof(csv), "%s", fixture_path("large.csv"));
    snprintf(db, sizeof(db), "%s", fixture_path("out.db"));
    result_init(&out, 1 << 20);
    assert_int_equal(sql_ingest(engine, &in, &out, &err), 0);
    assert_non_null(strstr(buf_cstr(&out.json.text), "\"row_count\":1500000"));
    assert_true(progress.n > 0);
    assert_true(progress.last > 0);
    assert_output(true);
    /* The interrupt comes from within: in the middle of the work, whatever the speed of the machine. */
    in.progress = on_progress_interrupt;
    assert_int_equal(sql_ingest(engine, &in, &out, &err), 0);
    assert_int_equal(out.verdict, WIRE_VERDICT_INTERRUPTED);
    assert_output(false);
    /* The engine is as good as before. */
    result = ingest_text("a\n1\n");
    assert_string_equal(fixture_verdict(result), "ok");
    json_decref(result);
    unlink(csv);
}

static void test_memory(void **state)
{
    __attribute__((cleanup(result_finish))) struct result out;
    char csv[256], db[256];
    struct sql_ingest in = {
        .path = csv, .name = "in.csv", .out_path = db, .threads = 1, .memory_bytes = 4 << 20
    };
    struct err err = ERR_INIT;

    (void)state;
    fixture_write("in.csv", "a,b\n1,2\n", 8);
    snprintf(csv, sizeof(csv), "%s", fixture_path("in.csv"));
    snprintf(db, sizeof(db), "%s", fixture_path("out.db"));
    result_init(&out, 1 << 20);
    assert_int_equal(sql_ingest(engine, &in, &out, &err), 0);
    assert_int_equal(out.verdict, WIRE_VERDICT_MEMORY);
    assert_non_null(strstr(buf_cstr(&out.json.text), "needs more memory than there is"));
    assert_output(false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_dialects),
        cmocka_unit_test(test_encodings),
        cmocka_unit_test(test_late_latin1),
        cmocka_unit_test(test_rejected_lines),
        cmocka_unit_test(test_wrong_type_behind_the_sample),
        cmocka_unit_test(test_decimals_behind_the_sample),
        cmocka_unit_test(test_quotes_behind_the_sample),
        cmocka_unit_test(test_find_decimals),
        cmocka_unit_test(test_find_odd_dates),
        cmocka_unit_test(test_find_at_every_place),
        cmocka_unit_test(test_find_among_odd_quotes),
        cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_no_files),
        cmocka_unit_test(test_mostly_ragged),
        cmocka_unit_test(test_wide),
        cmocka_unit_test(test_progress_and_interrupt),
        cmocka_unit_test(test_memory),
    };

    return cmocka_run_group_tests_name("kernel/ingest", tests, fixture_open_engine, fixture_close_engine);
}
