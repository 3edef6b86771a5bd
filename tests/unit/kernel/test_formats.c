/*
 * Files other than plain CSV: told by their content, unpacked, and read into the same kind of
 * table.
 */

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zstd.h>
#include <cmocka.h>
#include "base/macros.h"
#include "base/str.h"
#include "kernel/ingest/json_file.h"
#include "kernel/sql_fixture.h"
#include "kernel/sql/sql_impl.h"
#include "kernel/zip_writer.h"

static int open_engine(void **state)
{
    /* As in a kernel: a write past the file-size limit is an error, not the end. */
    signal(SIGXFSZ, SIG_IGN);
    return fixture_open_engine(state);
}

static void limit_files(rlim_t bytes)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

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

/* Nothing is left in the directory but what the test has put there. */
static void assert_no_scratch(void)
{
    DIR *dir = opendir(fixture_dir);
    const struct dirent *e;

    assert_non_null(dir);
    while ((e = readdir(dir)))
        if (str_starts(e->d_name, "riddle-"))
            fail_msg("left behind: %s", e->d_name);
    closedir(dir);
}

static json_t *ingest_bytes(const char *name, const void *data, size_t len)
{
    json_t *result;

    fixture_write(name, data, len);
    unlink(fixture_path("out.db"));
    result = fixture_ingest(engine, name, "out.db");
    assert_no_scratch();
    assert_int_equal(access(fixture_path("out.db"), F_OK) == 0,
                     str_eq(fixture_verdict(result), "ok"));
    assert_int_equal(access(fixture_path("out.db.wal"), F_OK), -1);
    return result;
}

/* The rows of the ingested file, as another engine reads them. */
static void assert_rows(const char *sql, const char *expected)
{
    struct sql_table table = { "t", fixture_path("out.db"), 0 };
    struct sql_setup setup = {
        .tables = &table, .n_tables = 1, .memory_bytes = 128 << 20, .threads = 1
    };
    struct sql_engine *e = NULL;
    struct err err = ERR_INIT;
    json_t *result;

    assert_int_equal(sql_engine_create(&e, &err), 0);
    if (sql_engine_setup(e, &setup, &err) < 0)
        fail_msg("%s", err.message);
    result = fixture_sql(e, sql, true, 100, -1);
    if (strcmp(fixture_verdict(result), "ok") != 0)
        fail_msg("%s: %s", sql, fixture_message(result));
    assert_json(result, "rows", expected);
    json_decref(result);
    sql_engine_destroy(e);
}

/* The report has these members, among others. */
static void assert_members(const json_t *report, const char *expected)
{
    json_t *members = json_loads(expected, 0, NULL), *value;
    const char *key;

    assert_non_null(members);
    json_object_foreach(members, key, value) {
        if (!json_equal(json_object_get(report, key), value))
            fail_msg("%s is not as in %s", key, expected);
    }
    json_decref(members);
}

static void assert_table(const char *name, const void *data, size_t len, const char *report,
                         const char *columns, const char *types, const char *rows)
{
    json_t *result = ingest_bytes(name, data, len);

    if (strcmp(fixture_verdict(result), "ok") != 0)
        fail_msg("%s: %s", name, fixture_message(result));
    if (report)
        assert_members(json_object_get(result, "report"), report);
    assert_json(result, "columns", columns);
    assert_json(result, "types", types);
    json_decref(result);
    assert_rows("SELECT * FROM t", rows);
}

static void assert_refused(const char *name, const void *data, size_t len, const char *message)
{
    json_t *result = ingest_bytes(name, data, len);

    assert_string_equal(fixture_verdict(result), "error");
    assert_string_equal(fixture_type(result), "VALIDATION_ERROR");
    if (!strstr(fixture_message(result), message))
        fail_msg("%s: got '%s', expected '%s' in it", name, fixture_message(result), message);
    if (strstr(fixture_message(result), fixture_dir))
        fail_msg("a path of ours in '%s'", fixture_message(result));
    json_decref(result);
}

#define BYTES(s) s, sizeof(s) - 1
#define CSV_DIALECT(d) ",\"delimiter\":\"" d "\",\"quote\":\"\\\"\",\"encoding\":\"utf-8\"}"

/* ---- text ---------------------------------------------------------------------------------------------------------- */

static void test_tsv(void **state)
{
    (void)state;
    assert_table("in.tsv", BYTES("a\tb\n1\tx,y;z\n2\tx\n"),
                 "{\"format\":\"tsv\"" CSV_DIALECT("\\t"), "[\"a\",\"b\"]",
                 "[\"BIGINT\",\"VARCHAR\"]", "[[1,\"x,y;z\"],[2,\"x\"]]");
    /* Commas that agree better than tabs: the name decides. */
    assert_table("in.tsv", BYTES("a,b,c\td\n1,2,3\t4\n5,6,7\t8\n"), NULL, "[\"a,b,c\",\"d\"]",
                 "[\"VARCHAR\",\"BIGINT\"]", "[[\"1,2,3\",4],[\"5,6,7\",8]]");
    /* By the name alone nothing is a TSV. */
    assert_table("in.tsv", BYTES("a,b\n1,2\n"), "{\"format\":\"csv\"" CSV_DIALECT(","),
                 "[\"a\",\"b\"]", "[\"BIGINT\",\"BIGINT\"]", "[[1,2]]");
}

/*
 * Characters that mean something to DuckDB's patterns, endings that lie, and brackets that are no
 * JSON.
 */
static void test_names(void **state)
{
    static const char *const names[] = { "a[1].csv", "a*.csv",    "a?.csv",
                                         "it's.csv", "[[x]].csv", "plain.csv.gz",
                                         "x.json",   "x.parquet", "x.xlsx" };

    (void)state;
    fixture_write("a1.csv", BYTES("wrong\n0\n"));
    fixture_write("ab.csv", BYTES("wrong\n0\n"));
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        assert_table(names[i], BYTES("a,b\n1,2\n"), NULL, "[\"a\",\"b\"]",
                     "[\"BIGINT\",\"BIGINT\"]", "[[1,2]]");
    assert_table("b[1].json", BYTES("[{\"a\":1}]"), NULL, "[\"a\"]", "[\"BIGINT\"]", "[[1]]");
    assert_table("in.csv", BYTES("[Date],[Amount]\n2024-01-31,5\n"), NULL,
                 "[\"[Date]\",\"[Amount]\"]", "[\"DATE\",\"BIGINT\"]", "[[\"2024-01-31\",5]]");
    assert_table("in.csv", BYTES("{x},y\n1,2\n"), NULL, "[\"{x}\",\"y\"]",
                 "[\"BIGINT\",\"BIGINT\"]", "[[1,2]]");
}

/* ---- gzip ---------------------------------------------------------------------------------------------------------- */

static void test_gzip(void **state)
{
    auto_buf struct buf packed = BUF_INIT(16 << 20);
    auto_buf struct buf text = BUF_INIT(16 << 20);

    (void)state;
    /* Two members, as from appending, and the padding of a tape. */
    write_gzip(BYTES("a,b\n1,x\n"), &packed);
    write_gzip(BYTES("2,y\n"), &packed);
    assert_int_equal(buf_append(&packed, "\0\0\0\0", 4, NULL), 0);
    assert_table("in.csv.gz", packed.data, packed.len,
                 "{\"format\":\"csv\",\"compression\":\"gzip\"" CSV_DIALECT(","), "[\"a\",\"b\"]",
                 "[\"BIGINT\",\"VARCHAR\"]", "[[1,\"x\"],[2,\"y\"]]");
    buf_clear(&packed);
    write_gzip(BYTES("a\tb\n1\tx,1\n"), &packed);
    assert_table("in.tsv.gz", packed.data, packed.len,
                 "{\"format\":\"tsv\",\"compression\":\"gzip\"" CSV_DIALECT("\\t"), "[\"a\",\"b\"]",
                 "[\"BIGINT\",\"VARCHAR\"]", "[[1,\"x,1\"]]");
    buf_clear(&packed);
    write_gzip(BYTES("{\"a\":1}\n{\"a\":2}\n"), &packed);
    assert_table("in.bin", packed.data, packed.len,
                 "{\"format\":\"ndjson\",\"compression\":\"gzip\"}", "[\"a\"]", "[\"BIGINT\"]",
                 "[[1],[2]]");
    /*
     * What CSV files are checked for is checked in packed ones: encodings, and decimals behind the
     * sample.
     */
    buf_clear(&packed);
    write_gzip(BYTES("a,b\n\xe4,1\n"), &packed);
    assert_table("in.csv.gz", packed.data, packed.len, NULL, "[\"a\",\"b\"]",
                 "[\"VARCHAR\",\"BIGINT\"]", "[[\"ä\",1]]");
    buf_clear(&packed);
    assert_int_equal(buf_append_str(&text, "a,b\n", NULL), 0);
    for (int i = 0; i < 60000; i++)
        assert_int_equal(buf_printf(&text, NULL, "%d,%d\n", i, i), 0);
    assert_int_equal(buf_append_str(&text, "1.5,60000\n", NULL), 0);
    write_gzip(text.data, text.len, &packed);
    json_decref(ingest_bytes("in.csv.gz", packed.data, packed.len));
    assert_rows("SELECT a FROM t WHERE b = 60000", "[[1.5]]");
}

static void test_bad_gzip(void **state)
{
    auto_buf struct buf packed = BUF_INIT(16 << 20);
    auto_buf struct buf twice = BUF_INIT(16 << 20);
    char tar[512] = "data.csv";

    (void)state;
    write_gzip(BYTES("a,b\n1,2\n"), &packed);
    assert_refused("in.gz", packed.data, packed.len - 9,
                   "'in.gz' is a gzip file that ends in the middle (at byte");
    packed.data[packed.len - 6] ^= 1;
    assert_refused("in.gz", packed.data, packed.len,
                   "'in.gz' is a gzip file that is damaged (at byte");
    packed.data[packed.len - 6] ^= 1;
    write_gzip(packed.data, packed.len, &twice);
    assert_refused("in.gz", twice.data, twice.len, "is packed twice; unpack it once");
    buf_clear(&packed);
    write_gzip("", 0, &packed);
    assert_refused("in.gz", packed.data, packed.len, "File is empty: there is nothing in 'in.gz'");
    buf_clear(&packed);
    memcpy(tar + 257, "ustar", 5);
    write_gzip(tar, sizeof(tar), &packed);
    assert_refused("in.tgz", packed.data, packed.len,
                   "is a tar archive; unpack it and send the files inside");
    buf_clear(&packed);
    write_gzip(BYTES("\x89PNG\r\n\x1a\n"), &packed);
    assert_refused("in.gz", packed.data, packed.len, "a PNG image");
}

/* ---- zstd ---- */

static void write_zstd(const void *data, size_t len, struct buf *out)
{
    char packed[4096];
    size_t n = ZSTD_compress(packed, sizeof(packed), data, len, 3);

    assert_false(ZSTD_isError(n));
    assert_int_equal(buf_append(out, packed, n, NULL), 0);
}

static void test_zstd(void **state)
{
    auto_buf struct buf packed = BUF_INIT(16 << 20);
    auto_buf struct buf zeros = BUF_INIT(64 << 20);

    (void)state;
    /* Two frames, as from appending. */
    write_zstd(BYTES("a\tb\n1\tx,1\n"), &packed);
    write_zstd(BYTES("2\ty\n"), &packed);
    assert_table("in.tsv.zst", packed.data, packed.len,
                 "{\"format\":\"tsv\",\"compression\":\"zstd\"" CSV_DIALECT("\\t"), "[\"a\",\"b\"]",
                 "[\"BIGINT\",\"VARCHAR\"]", "[[1,\"x,1\"],[2,\"y\"]]");
    assert_refused("in.zst", packed.data, packed.len - 3,
                   "'in.zst' is a zstd file that ends in the middle (at byte");
    packed.data[4] ^= 0x08; /* a bit that is reserved */
    assert_refused("in.zst", packed.data, packed.len, "'in.zst' is a zstd file that is damaged");
    buf_clear(&packed);
    assert_int_equal(buf_reserve(&zeros, 40u << 20, NULL), 0);
    memset(zeros.data, '0', 40u << 20);
    write_zstd(zeros.data, 40u << 20, &packed);
    limit_files(16 << 20);
    assert_refused("bomb.zst", packed.data, packed.len,
                   "'bomb.zst' unpacks to more than 16 MB from ");
    limit_files(RLIM_INFINITY);
}

/* ---- limits -------------------------------------------------------------------------------------------------------- */

static void test_bombs(void **state)
{
    auto_buf struct buf packed = BUF_INIT(64 << 20);
    auto_buf struct buf text = BUF_INIT(64 << 20);
    uint64_t x = 88172645463325252u;
    json_t *result;

    (void)state;
    assert_int_equal(buf_append_str(&text, "a,b\n", NULL), 0);
    while (text.len < 40u << 20)
        assert_int_equal(buf_append_str(&text, "0,0\n", NULL), 0);
    write_gzip(text.data, text.len, &packed);
    /* What it unpacks to is larger than a file may be. */
    limit_files(16 << 20);
    assert_refused("bomb.csv.gz", packed.data, packed.len,
                   "'bomb.csv.gz' unpacks to more than 16 MB from ");
    limit_files(RLIM_INFINITY);
    /* The table is: random numbers do not get smaller. */
    buf_clear(&text);
    assert_int_equal(buf_append_str(&text, "a,b\n", NULL), 0);
    while (text.len < 24u << 20) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        assert_int_equal(buf_printf(&text, NULL, "%016llx,%llu\n", (unsigned long long)x,
                                    (unsigned long long)(x >> 20)),
                         0);
    }
    fixture_write("large.csv", text.data, text.len);
    limit_files(8 << 20);
    result = fixture_ingest(engine, "large.csv", "out.db");
    limit_files(RLIM_INFINITY);
    assert_string_equal(fixture_verdict(result), "error");
    if (!strstr(fixture_message(result),
                "'large.csv' becomes a table that is larger than the room for it"))
        fail_msg("%s", fixture_message(result));
    json_decref(result);
    assert_int_equal(access(fixture_path("out.db"), F_OK), -1);
    assert_no_scratch();
}

/* ---- JSON ---------------------------------------------------------------------------------------------------------- */

static void test_json(void **state)
{
    (void)state;
    assert_table(
        "in.json",
        BYTES(
            "\xef\xbb\xbf [ {\"a\":1, \"d\":\"2024-01-31\", \"n\":{\"x\":[1,2]}},\n {\"a\":2.5,\"late\":true,\"s\":\"[{\\\"\"} ]\n"),
        "{\"format\":\"json\"}", "[\"a\",\"d\",\"n\",\"late\",\"s\"]",
        "[\"DOUBLE\",\"DATE\",\"STRUCT(x BIGINT[])\",\"BOOLEAN\",\"VARCHAR\"]",
        "[[1.0,\"2024-01-31\",{\"x\":[1,2]},null,null],[2.5,null,null,true,\"[{\\\"\"]]");
    assert_table(
        "in.csv",
        BYTES(
            "{\"meta\":{\"n\":[1,2],\"e\":[]},\"data\" : [\n{\"a\":1,\"sub\":[{\"y\":1}]},{\"a\":2}]}"),
        "{\"format\":\"json\",\"records\":\"data\"}", "[\"a\",\"sub\"]",
        "[\"BIGINT\",\"STRUCT(y BIGINT)[]\"]", "[[1,[{\"y\":1}]],[2,null]]");
    assert_table(
        "in.json", BYTES("{\"k\":{\"\\\"q\\\\\":0,\"rows\":[{\"a\":\"]}\"}]},\"z\":\"\\\\\"}"),
        "{\"format\":\"json\",\"records\":\"k.rows\"}", "[\"a\"]", "[\"VARCHAR\"]", "[[\"]}\"]]");
    /* One object is one row. */
    assert_table("in.json", BYTES("{\"a\":1,\"b\":[1,2]}"), "{\"format\":\"json\"}",
                 "[\"a\",\"b\"]", "[\"BIGINT\",\"BIGINT[]\"]", "[[1,[1,2]]]");
    assert_table("in.json", BYTES("{\n\"a\":1\n}\n{\n\"a\":2\n}"), "{\"format\":\"json\"}",
                 "[\"a\"]", "[\"BIGINT\"]", "[[1],[2]]");
    /* Names that differ in case only. */
    assert_table("in.json", BYTES("[{\"a\":1,\"A\":2}]"), NULL, "[\"a\",\"A_1\"]",
                 "[\"BIGINT\",\"BIGINT\"]", "[[1,2]]");
    assert_table("in.json", BYTES("\xff\xfe[\0{\0\"\0a\0\"\0:\0\"\0\xe4\0\"\0}\0]\0"), NULL,
                 "[\"a\"]", "[\"VARCHAR\"]", "[[\"ä\"]]");
}

static void test_ndjson(void **state)
{
    auto_buf struct buf text = BUF_INIT(16 << 20);
    json_t *result;

    (void)state;
    assert_table("in.txt", BYTES("{\"a\":1}\n{\"a\":2}\n\n"), "{\"format\":\"ndjson\"}", "[\"a\"]",
                 "[\"BIGINT\"]", "[[1],[2]]");
    /* One line with a list in it: the name says that it is a record. */
    assert_table("in.jsonl", BYTES("{\"a\":[{\"b\":1}]}\n"), "{\"format\":\"ndjson\"}", "[\"a\"]",
                 "[\"STRUCT(b BIGINT)[]\"]", "[[[{\"b\":1}]]]");
    /* Keys and types that come late count as much as early ones. */
    for (int i = 0; i < 30000; i++)
        assert_int_equal(buf_printf(&text, NULL, "{\"a\":%d}\n", i), 0);
    assert_int_equal(buf_append_str(&text, "{\"a\":0.5,\"z\":\"q\"}\n", NULL), 0);
    result = ingest_bytes("in.ndjson", text.data, text.len);
    assert_json(result, "types", "[\"DOUBLE\",\"VARCHAR\"]");
    assert_json(result, "row_count", "30001");
    json_decref(result);
    assert_rows("SELECT a, z FROM t WHERE z = 'q'", "[[0.5,\"q\"]]");
    /* Records of which no two have a key in common are a table of many columns, not a map. */
    buf_clear(&text);
    for (int i = 0; i < 400; i++)
        assert_int_equal(buf_printf(&text, NULL, "{\"k%d\":%d}\n", i, i), 0);
    result = ingest_bytes("in.ndjson", text.data, text.len);
    assert_int_equal(json_array_size(json_object_get(result, "columns")), 400);
    json_decref(result);
    assert_rows("SELECT sum(k399) FROM t", "[[399]]");
}

static void test_bad_json(void **state)
{
    (void)state;
    assert_refused("in.json", BYTES("[{\"a\":1},{\"a\":2"),
                   "Could not parse JSON: 'in.json': Malformed JSON");
    assert_refused("in.json", BYTES("[{\"a\":1}] x"), "Could not parse JSON");
    assert_refused("in.json", BYTES("{\"a\":1,"), "Could not parse JSON");
    assert_refused("in.ndjson", BYTES("{\"a\":1}\n{\"a\":2\n{\"a\":3}\n"), "in line 3");
    assert_refused("in.ndjson", BYTES("{\"a\":1}\n5\n"), "every row must be an object");
    assert_refused("in.json", BYTES("[{\"a\":1},5]"), "every row must be an object");
    assert_refused("in.json", BYTES("[1,2]"), "is a JSON array, but not of objects");
    assert_refused("in.json", BYTES("[]"), "JSON has no data rows: 'in.json' is an empty list");
    assert_refused("in.json", BYTES("[{}]"), "every row must be an object with names and values");
    assert_refused("in.json", BYTES("{\"a\":[{}],\"b\":{\"c\":[{}]}}"),
                   "every row must be an object with names and values");
    assert_table("in.json", BYTES("[{\"a\":\"\xe4\"}]"), NULL, "[\"a\"]", "[\"VARCHAR\"]",
                 "[[\"\xc3\xa4\"]]"); /* windows-1252 */
}

/* ---- Parquet ------------------------------------------------------------------------------------------------------- */

static size_t write_parquet(const char *select, char *ret, size_t size)
{
    char sql[600];
    struct err err = ERR_INIT;
    FILE *f;
    size_t n;

    snprintf(sql, sizeof(sql), "COPY (%s) TO '%s' (FORMAT parquet)", select,
             fixture_path("made.parquet"));
    if (sql_run(engine, sql, &err) < 0)
        fail_msg("%s", err.message);
    f = fopen(fixture_path("made.parquet"), "rb");
    assert_non_null(f);
    n = fread(ret, 1, size, f);
    fclose(f);
    assert_true(n > 0 && n < size);
    return n;
}

static void test_parquet(void **state)
{
    static char bytes[65536];
    size_t n = write_parquet(
        "SELECT 1 AS a, 'x' AS b, DATE '2024-01-31' AS d, [1, 2] AS l, {'k': 0.5::DOUBLE} AS s",
        bytes, sizeof(bytes));

    (void)state;
    assert_table("in.dat", bytes, n, "{\"format\":\"parquet\"}", "[\"a\",\"b\",\"d\",\"l\",\"s\"]",
                 "[\"INTEGER\",\"VARCHAR\",\"DATE\",\"INTEGER[]\",\"STRUCT(k DOUBLE)\"]",
                 "[[1,\"x\",\"2024-01-31\",[1,2],{\"k\":0.5}]]");
    assert_refused("in.parquet", bytes, n - 5, "Could not parse Parquet: 'in.parquet'");
    memset(bytes + n - 60, 0xff, 40);
    assert_refused("in.parquet", bytes, n, "Could not parse Parquet: 'in.parquet'");
    n = write_parquet("SELECT 1 AS a WHERE false", bytes, sizeof(bytes));
    assert_table("in.parquet", bytes, n, "{\"rows\":0}", "[\"a\"]", "[\"INTEGER\"]", "[]");
}

/* ---- workbooks ----------------------------------------------------------------------------------------------------- */

#define TEXT(s) "<c t=\"inlineStr\"><is><t>" s "</t></is></c>"
#define NUM(s) "<c><v>" s "</v></c>"

static void test_xlsx(void **state)
{
    static const char styles[] =
        "<cellXfs><xf numFmtId=\"0\"/><xf numFmtId=\"14\"/><xf numFmtId=\"22\"/><xf numFmtId=\"21\"/>"
        "<xf numFmtId=\"46\"/></cellXfs>";
    static const char sheet[] = "<row><c/>" TEXT("id") TEXT("day") TEXT("at") TEXT("time")
        TEXT("for") TEXT("code") TEXT(
            "note") "</row>"
                    "<row><c/>" NUM(
                        "1") "<c s=\"1\"><v>45322</v></c><c s=\"2\"><v>45322</v></c><c s=\"3\"><v>0.5</v></c>"
                             "<c s=\"4\"><v>1.5</v></c>" TEXT("007") TEXT(
                                 "a \"b\",\nc") "</row>"
                                                "<row><c/>" NUM(
                                                    "2") "<c/><c s=\"2\"><v>45322.5</v></c></row>"
                                                         "<row><c r=\"K4\" t=\"b\"><v>1</v></c></row>";
    auto_buf struct buf bytes = BUF_INIT(64 << 20);
    auto_buf struct buf long_rows = BUF_INIT(64 << 20);
    json_t *result;

    (void)state;
    write_workbook(&(struct test_workbook){ .sheet = sheet, .styles = styles }, &bytes);
    assert_table(
        "book.xlsx", bytes.data, bytes.len,
        "{\"format\":\"xlsx\",\"sheet\":\"Data\",\"sheets\":1,\"skipped\":0}",
        "[\"id\",\"day\",\"at\",\"time\",\"for\",\"code\",\"note\",\"column10\"]",
        "[\"BIGINT\",\"DATE\",\"TIMESTAMP\",\"TIME\",\"INTERVAL\",\"VARCHAR\",\"VARCHAR\",\"BOOLEAN\"]",
        "[[1,\"2024-01-31\",\"2024-01-31 00:00:00\",\"12:00:00\",\"36:00:00\",\"007\","
        "\"a \\\"b\\\",\\nc\",null],"
        "[2,null,\"2024-01-31 12:00:00\",null,null,null,null,null],"
        "[null,null,null,null,null,null,null,true]]");
    /* Rows far longer than DuckDB's usual limit. */
    for (int row = 0; row < 2; row++) {
        assert_int_equal(buf_append_str(&long_rows, "<row>" NUM("1"), NULL), 0);
        for (int i = 0; i < 100; i++)
            assert_int_equal(buf_append_str(&long_rows, "<c t=\"s\"><v>0</v></c>", NULL), 0);
        assert_int_equal(buf_append_str(&long_rows, "</row>", NULL), 0);
    }
    {
        auto_buf struct buf strings = BUF_INIT(1 << 20);

        assert_int_equal(buf_append_str(&strings, "<si><t>", NULL), 0);
        for (int i = 0; i < 32000; i++)
            assert_int_equal(buf_append_str(&strings, "y", NULL), 0);
        assert_int_equal(buf_append_str(&strings, "</t></si>", NULL), 0);
        buf_clear(&bytes);
        write_workbook(
            &(struct test_workbook){ .sheet = buf_cstr(&long_rows), .strings = buf_cstr(&strings) },
            &bytes);
    }
    result = ingest_bytes("book.xlsx", bytes.data, bytes.len);
    if (strcmp(fixture_verdict(result), "ok") != 0)
        fail_msg("%s", fixture_message(result));
    json_decref(result);
    assert_rows("SELECT count(*), min(length(column100)) FROM t", "[[2,32000]]");
    buf_clear(&bytes);
    write_workbook(&(struct test_workbook){ .sheet = "<row>" TEXT("a") TEXT("b") "</row>" },
                   &bytes);
    assert_refused("book.xlsx", bytes.data, bytes.len,
                   "Sheet has no data rows: 'Data' in 'book.xlsx' has a header only");
    buf_clear(&bytes);
    write_workbook(&(struct test_workbook){ .sheet = "<row/>" }, &bytes);
    assert_refused("book.xlsx", bytes.data, bytes.len,
                   "File is empty: no visible sheet of 'book.xlsx' has a cell");
}

static void test_outline(void **state)
{
    static const struct {
        const char *text;
        enum records_layout layout;
        const char *inside;
    } cases[] = {
        { "[{}]", RECORDS_ARRAY, NULL },
        { "{\"a\":1}", RECORDS_OBJECTS, NULL },
        { "{\"a\":1}{\"a\":2}", RECORDS_LINES, NULL },
        { "{\"a\":", RECORDS_OBJECTS, NULL },
        { "{\"a\":\"[{\",\"b\":[{}]}", RECORDS_INSIDE, "[{}]" },
        { "{\"a\":[[{}]],\"b\":[ {\"c\":[{}]} ]}", RECORDS_INSIDE, "[ {\"c\":[{}]} ]" },
        { "{\"s\":{\"f\":[{\"n\":1}]},\"d\":[{\"x\":1}]}", RECORDS_INSIDE, "[{\"x\":1}]" },
        { "{\"a\":[{}", RECORDS_OBJECTS, NULL },
        { "{]]]}", RECORDS_OBJECTS, NULL },
        { "{\"", RECORDS_OBJECTS, NULL },
        { "{\"\\\"", RECORDS_OBJECTS, NULL },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct json_records found = { 0 };
        struct err err = ERR_INIT;
        size_t n = strlen(cases[i].text);
        char *exact = malloc(n);

        assert_non_null(exact);
        memcpy(exact, cases[i].text, n);
        if (json_find_records(exact, n, "x", &found, &err) < 0)
            fail_msg("%s: %s", cases[i].text, err.message);
        if (found.layout != cases[i].layout)
            fail_msg("%s: %d", cases[i].text, (int)found.layout);
        if (cases[i].inside) {
            const struct json_list *list = &found.lists[0];

            assert_int_equal(list->end - list->begin, strlen(cases[i].inside));
            assert_memory_equal(exact + list->begin, cases[i].inside, list->end - list->begin);
        }
        free(exact);
    }
}

/* Rows in SQL and in lists of JSON, which go through a database of our own. */
static void test_rows_in_text(void **state)
{
    static const char mysql[] =
        "-- MySQL dump 10.13\n/*!40101 SET NAMES utf8 */;\nCREATE TABLE `k` (\n  `id` int(11) NOT "
        "NULL,\n  `name` varchar(80) DEFAULT ';',\n  `sum` decimal(20,2),\n  `ok` bool,\n  "
        "PRIMARY KEY (`id`),\n  KEY `n` (`name`)\n) ENGINE=InnoDB;\nINSERT INTO `k` VALUES "
        "(1,'O\\'Neil; ''x''\\n',12.50,1),(2,NULL,-3,0);\nINSERT INTO `k` (`name`,`id`) VALUES "
        "('007',3);\n";
    static const char postgres[] =
        "SET client_encoding = 'UTF8';\nCREATE FUNCTION f() RETURNS int AS $$ SELECT 1; $$;\n"
        "CREATE TABLE public.\"O\" (id integer, t text, at timestamp without time zone, big "
        "numeric);\nCOPY public.\"O\" (id, t, at, big) FROM stdin;\n1\ta\\tb\t2024-01-31 "
        "10:00:00\t12345678901234567890\n2\t\\N\t\\N\t1\n\\.\n\n-- done\n";
    static const char server[] =
        "USE [shop]\nGO\nINSERT [dbo].[s] ([a], [b], [c]) VALUES (1, N'x\\', CAST(N'2024-01-31' AS "
        "Date))\nGO\nINSERT [dbo].[s] ([a], [b], [c]) VALUES (CAST(2.50 AS Decimal(10, 2)), "
        "N'it''s', NULL)\nGO\n";

    (void)state;
    assert_table("k.sql", BYTES(mysql), "{\"format\":\"sql\",\"table\":\"k\",\"rows\":3}",
                 "[\"id\",\"name\",\"sum\",\"ok\"]",
                 "[\"BIGINT\",\"VARCHAR\",\"DOUBLE\",\"BOOLEAN\"]",
                 "[[1,\"O'Neil; 'x'\\n\",12.5,true],[2,null,-3.0,false],[3,\"007\",null,null]]");
    assert_table("o.sql", BYTES(postgres), "{\"table\":\"O\"}", "[\"id\",\"t\",\"at\",\"big\"]",
                 "[\"BIGINT\",\"VARCHAR\",\"TIMESTAMP\",\"VARCHAR\"]",
                 "[[1,\"a\\tb\",\"2024-01-31 10:00:00\",\"12345678901234567890\"],[2,null,null,"
                 "\"1\"]]");
    assert_table("s.sql", BYTES(server), NULL, "[\"a\",\"b\",\"c\"]",
                 "[\"DOUBLE\",\"VARCHAR\",\"DATE\"]",
                 "[[1.0,\"x\\\\\",\"2024-01-31\"],[2.5,\"it's\",null]]");
    assert_refused("n.sql", BYTES("SELECT 1;\nINSERT INTO a SELECT * FROM b;\n"),
                   "has statements but no rows");
    assert_refused("w.sql", BYTES("CREATE TABLE a (b int, c int);\nINSERT INTO a VALUES (1);\n"),
                   "line 2 has fewer values than its table has columns");
    assert_refused("q.sql", BYTES("INSERT INTO a VALUES ('x"), "has a text without an end");
    assert_table("l.json", BYTES("[[\"a\",\"b\"],[1,true],[2.5,null],[3,false]]"),
                 "{\"format\":\"json\",\"rows\":3}", "[\"a\",\"b\"]", "[\"DOUBLE\",\"BOOLEAN\"]",
                 "[[1.0,true],[2.5,null],[3.0,false]]");
    assert_table("split.json",
                 BYTES("{\"columns\":[\"a\",\"b\"],\"index\":[0,1],\"data\":[[1,\"x\\u00e4\"],[2,"
                       "{\"y\":[1]}]]}"),
                 NULL, "[\"a\",\"b\"]", "[\"BIGINT\",\"VARCHAR\"]",
                 "[[1,\"x\u00e4\"],[2,\"{\\\"y\\\":[1]}\"]]");
    assert_refused("bad.json", BYTES("[[1,2],[3"), "list 2 of its rows is malformed");
    assert_table("f.geojson",
                 BYTES("{\"type\":\"FeatureCollection\",\"features\":[{\"type\":\"Feature\","
                       "\"properties\":{\"n\":7},\"geometry\":null}]}"),
                 NULL, "[\"type\",\"n\",\"geometry\"]", "[\"VARCHAR\",\"BIGINT\",\"VARCHAR\"]",
                 "[[\"Feature\",7,null]]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tsv),          cmocka_unit_test(test_names),
        cmocka_unit_test(test_gzip),         cmocka_unit_test(test_bad_gzip),
        cmocka_unit_test(test_bombs),        cmocka_unit_test(test_json),
        cmocka_unit_test(test_ndjson),       cmocka_unit_test(test_bad_json),
        cmocka_unit_test(test_parquet),      cmocka_unit_test(test_xlsx),
        cmocka_unit_test(test_outline),      cmocka_unit_test(test_zstd),
        cmocka_unit_test(test_rows_in_text),
    };

    return cmocka_run_group_tests_name("kernel/formats", tests, open_engine, fixture_close_engine);
}
