/*
 * CSV → columnar file: dialects, encodings, rejected lines, bad files, progress, interrupts, and
 * what is left on disk.
 */

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
#include "kernel/ingest/csv_scan.h"
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

static json_int_t refused(const json_t *result)
{
    return json_integer_value(json_object_get(json_object_get(result, "report"), "refused"));
}

static json_t *ingest_text(const char *text)
{
    fixture_write("in.csv", text, strlen(text));
    return fixture_ingest(engine, "in.csv", "out.db");
}

/* The rows of the ingested file, as another engine reads them. */
static char *read_back(const char *sql)
{
    struct sql_table table = { "t", fixture_path("out.db"), 0 };
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
    assert_json(
        result, "report",
        "{\"format\":\"csv\","
        "\"rows\":2,\"refused\":0,\"skipped\":0,\"encoding\":\"utf-8\",\"delimiter\":\",\","
        "\"quote\":\"\\\"\",\"header_line\":1,\"decimal\":\".\",\"columns\":[],\"notes\":[]}");
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
        assert_int_equal(refused(result), 0);
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
          "utf-16le", "[[\"\xc3\xa4\",1]]" },
        { BYTES("\xfe\xff"
                "\0a\0,\0b\0\n\0\xe4\0,\0"
                "1\0\n"),
          "utf-16be", "[[\"\xc3\xa4\",1]]" },
        { BYTES("a\0,\0b\0\n\0x\0,\0"
                "1\0\n\0"),
          "utf-16le", "[[\"x\",1]]" },
        { BYTES("\0a\0,\0b\0\n\0x\0,\0"
                "1\0\n"),
          "utf-16be", "[[\"x\",1]]" },
        { BYTES("\xff\xfe"
                "a\0,\0b\0\n\0\x3d\xd8\x00\xde,\0"
                "1\0\n\0"),
          "utf-16le", "[[\"\xf0\x9f\x98\x80\",1]]" },
        { BYTES("a,b\n\xe4\xdf,1\n"), "windows-1252", "[[\"\xc3\xa4\xc3\x9f\",1]]" },
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
            json_string_value(json_object_get(json_object_get(result, "report"), "encoding")),
            cases[i].encoding);
        assert_json(result, "columns", "[\"a\",\"b\"]");
        json_decref(result);
        assert_rows("SELECT * FROM t", cases[i].rows);
    }
}

/*
 * Bytes that are not UTF-8 far behind the sample, in a column of numbers: still Latin-1, not a
 * wrong number of no encoding.
 */
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
        json_string_value(json_object_get(json_object_get(result, "report"), "encoding")),
        "windows-1252");
    json_decref(result);
    assert_rows("SELECT b FROM t WHERE a = 30000", "[[\"\xc3\xa4\"]]");
}

static void test_refused_lines(void **state)
{
    json_t *result = ingest_text("a,b,c\n1,2,3\n4,5\n6,7,8,9\n10,11,12\n13,14,15,,\n");
    json_t *report = json_object_get(result, "report");

    (void)state;
    assert_string_equal(fixture_verdict(result), "ok");
    assert_json(result, "columns", "[\"a\",\"b\",\"c\"]");
    assert_json(report, "rows", "4");
    assert_json(report, "refused", "1");
    assert_json(report, "refused_rows",
                "[{\"line\":4,\"reason\":\"4 fields instead of 3\",\"text\":\"6,7,8,9\"}]");
    assert_json(
        report, "notes",
        "[\"1 row was refused: it has more fields than the table has columns\","
        "\"1 row has fewer fields than the table has columns (first in line 3); the rest is "
        "empty\"]");
    json_decref(result);
    assert_rows("SELECT * FROM t", "[[1,2,3],[4,5,null],[10,11,12],[13,14,15]]");
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

static void test_odd_values(void **state)
{
    json_t *result = ingest_odd(30000, 29000, 100, "n/a");

    (void)state;
    assert_string_equal(fixture_verdict(result), "ok");
    assert_json(result, "types", "[\"BIGINT\",\"BIGINT\"]");
    assert_json(result, "row_count", "30000");
    assert_json(json_object_get(result, "report"), "columns",
                "[{\"name\":\"a\",\"nulls\":{\"n/a\":10}}]");
    json_decref(result);
    assert_rows("SELECT count(*), count(a) FROM t", "[[30000,29990]]");
    result = ingest_odd(30000, 29999, 1, "abc");
    assert_json(result, "types", "[\"VARCHAR\",\"BIGINT\"]");
    assert_json(
        json_object_get(result, "report"), "columns",
        "[{\"name\":\"a\",\"note\":\"text, because 'abc' in line 30001 is neither number nor "
        "date\"}]");
    json_decref(result);
    result = ingest_odd(30000, 29999, 1, "007");
    assert_json(result, "types", "[\"VARCHAR\",\"BIGINT\"]");
    json_decref(result);
    assert_rows("SELECT a FROM t WHERE b = 29999", "[[\"007\"]]");
    result = ingest_odd(30000, 29999, 1, "0x1F");
    assert_json(result, "types", "[\"VARCHAR\",\"BIGINT\"]");
    json_decref(result);
    result = ingest_odd(30000, 29999, 1, "9223372036854775808");
    assert_json(result, "types", "[\"VARCHAR\",\"BIGINT\"]");
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
    assert_int_equal(refused(result), 0);
    json_decref(result);
    assert_rows("SELECT b FROM t WHERE a = 30000", "[[\"x, \\\"y\\\"\"]]");
}

/* Is a file as plain as csv_scan.h wants it? */
static void test_scan(void **state)
{
    static const enum column_type types[] = { COLUMN_INTEGER, COLUMN_REAL,      COLUMN_TEXT,
                                              COLUMN_DATE,    COLUMN_TIMESTAMP, COLUMN_BOOLEAN };
    static const struct {
        const char *line;
        bool plain;
    } cases[] = {
        { "1,2.5,x,2024-01-31,2024-01-31 10:00:00,true", true },
        { "-1,-0.5,\"x, \"\"y\"\"\",2024-01-31,2024-01-31T10:00:00.123456,FALSE", true },
        { ",,,,,", true },
        { "\"1\",\"2\",\"a\nb\",\"2024-01-31\",,", true },
        { "1.5,2.5,x,,,", false },
        { "007,2.5,x,,,", false },
        { "0x1F,2.5,x,,,", false },
        { "1234567890123456789,2.5,x,,,", false },
        { "+1,2.5,x,,,", false },
        { "1,1e5,x,,,", false },
        { "1,1.,x,,,", false },
        { "1,00.5,x,,,", false },
        { "1,0.12345678901234567,x,,,", false },
        { "1,2,x,2024-01-31x,,", false },
        { "1,2,x,2024-1-31,,", false },
        { "1,2,x,,2024-01-31,", false },
        { "1,2,x,,2024-01-31 10:00:00.1234567,", false },
        { "1,2,x,,,yes", false },
        { "\"\",2,x,,,", false },
        { "1,2,x\"y,,,", false },
        { "1,2,\"x\"y,,,", false },
        { "1,2,\"x,,,", false },
        { "1,2,x,,", false },
        { "1,2,x,,,,", false },
        { "", false },
        { "1,2,x\ry,,,", false },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        for (int returns = 0; returns < 2; returns++) {
            struct csv_scan scan = {
                .delimiter = ',', .returns = returns, .types = types, .n_columns = ARRAY_SIZE(types)
            };
            const char *usual = "1,2.5,a text of some length,2024-01-31,2024-01-31 10:00:00,true",
                       *end = returns ? "\r\n" : "\n";
            auto_buf struct buf text = BUF_INIT(4096);
            struct err err = ERR_INIT;
            int64_t rows = 0;

            assert_int_equal(buf_printf(&text, &err, "a,b,c,d,e,f%s%s%s%s%s%s", end, usual, end,
                                        cases[i].line, end, usual),
                             0);
            if (csv_scan_is_plain(&scan, text.data, text.len, &rows) != cases[i].plain)
                fail_msg("%s", cases[i].line);
            if (cases[i].plain)
                assert_int_equal(rows, 3);
        }
    }
}

static void test_scan_notations(void **state)
{
    static const struct column columns[] = {
        { .type = COLUMN_REAL, .notation = NUMBER_COMMA },
        { .type = COLUMN_REAL, .notation = NUMBER_POINTS_COMMA },
        { .type = COLUMN_INTEGER, .notation = NUMBER_COMMAS_POINT },
        { .type = COLUMN_DATE, .order_counts = true, .order = DATE_DMY, .separator = '.' },
    };
    static const enum column_type types[] = { COLUMN_REAL, COLUMN_REAL, COLUMN_INTEGER,
                                              COLUMN_DATE };
    static const struct {
        const char *line;
        bool plain;
    } cases[] = {
        { "-12,5;1.234,50;1,234,567;31.12.2024", true },
        { "0,5;-5;-12;01.01.2024", true },
        { ";;;", true },
        { "\"12,5\";\"1.234\";;", true },
        { "12.5;;;", false },
        { "1,2,3;;;", false },
        { "12,;;;", false },
        { "00,5;;;", false },
        { ";1234.567,5;;", false },
        { ";1.23,5;;", false },
        { ";0.123;;", false },
        { ";1,234.5;;", false },
        { ";;1,234.5;", false },
        { ";;12,34,567;", false },
        { ";;;12.31.2024", false },
        { ";;;1.1.2024", false },
        { ";;;31/12/2024", false },
        { ";;;31.12.2024 10:00", false },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct csv_scan scan = {
            .delimiter = ';', .types = types, .columns = columns, .n_columns = 4
        };
        auto_buf struct buf text = BUF_INIT(4096);
        struct err err = ERR_INIT;
        int64_t rows = 0;

        assert_int_equal(buf_printf(&text, &err, "a;b;c;d\n%s\n", cases[i].line), 0);
        if (csv_scan_is_plain(&scan, text.data, text.len, &rows) != cases[i].plain)
            fail_msg("%s", cases[i].line);
    }
}

/*
 * DuckDB reads a large file itself, and casts; `last` may keep it from that, and the values are the
 * same.
 */
static void test_large_notations(void **state)
{
    static const char *const last[] = { "7;31.12.2024;-0,5;1.234", "7;31.12.2024; -0,5;1.234" };

    (void)state;
    for (size_t k = 0; k < ARRAY_SIZE(last); k++) {
        auto_buf struct buf text = BUF_INIT(32 << 20);
        struct err err = ERR_INIT;
        json_t *result;

        assert_int_equal(buf_append_str(&text, "id;day;amount;n\n", &err), 0);
        for (int i = 0; text.len < 9 << 20; i++)
            assert_int_equal(buf_printf(&text, &err, "%d;%02d.%02d.2024;%d.%03d,25;%d.%03d.500\n",
                                        i % 7, i % 28 + 1, i % 12 + 1, i % 9 + 1, i % 1000,
                                        i % 5 + 1, i % 999),
                             0);
        assert_int_equal(buf_printf(&text, &err, "%s\n", last[k]), 0);
        fixture_write("in.csv", text.data, text.len);
        result = fixture_ingest(engine, "in.csv", "out.db");
        assert_json(result, "types", "[\"BIGINT\",\"DATE\",\"DOUBLE\",\"BIGINT\"]");
        assert_json(json_object_get(result, "report"), "decimal", "\",\"");
        json_decref(result);
        assert_rows("SELECT id, day, amount, n FROM t LIMIT 2",
                    "[[0,\"2024-01-01\",1000.25,1000500],[1,\"2024-02-02\",2001.25,2001500]]");
        assert_rows("SELECT * FROM t WHERE id = 7", "[[7,\"2024-12-31\",-0.5,1234]]");
    }
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
        { BYTES("a,b\n1,2\0"
                "3\2\3\4\n"),
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
        { BYTES("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"), "it is damaged" },
        { BYTES("<!DOCTYPE html><table>"), "an HTML page; save its table as .xlsx or CSV" },
        { BYTES("<?xml version=\"1.0\"?><a/>"), "an XML document" },
        { BYTES("%PDF-1.4\n"), "a PDF document" },
        { BYTES("SQLite format 3\0"), "an SQLite database that is" },
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

/* More long lines than short ones: the short ones are padded. */
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
    assert_string_equal(fixture_verdict(result), "ok");
    assert_json(result, "columns", "[\"a\",\"b\",\"c\",\"column3\"]");
    json_decref(result);
    assert_rows("SELECT count(*), count(column3) FROM t", "[[51000,26000]]");
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
    /*
     * The interrupt comes from within: in the middle of the work, whatever the speed of the
     * machine.
     */
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
    struct sql_ingest in = { .path = csv,
                             .name = "in.csv",
                             .out_path = db,
                             .threads = 1,
                             .memory_bytes = 4 << 20,
                             .temp_directory = fixture_dir };
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
        cmocka_unit_test(test_refused_lines),
        cmocka_unit_test(test_odd_values),
        cmocka_unit_test(test_decimals_behind_the_sample),
        cmocka_unit_test(test_quotes_behind_the_sample),
        cmocka_unit_test(test_scan),
        cmocka_unit_test(test_scan_notations),
        cmocka_unit_test(test_large_notations),
        cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_no_files),
        cmocka_unit_test(test_mostly_ragged),
        cmocka_unit_test(test_wide),
        cmocka_unit_test(test_progress_and_interrupt),
        cmocka_unit_test(test_memory),
    };

    return cmocka_run_group_tests_name("kernel/ingest", tests, fixture_open_engine,
                                       fixture_close_engine);
}
