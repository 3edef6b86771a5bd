/* Reading by a guess while the sniffer is at work: right guesses say what the sniffer says, and wrong ones leave no trace. */

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/macros.h"
#include "kernel/ingest/csv_guess.h"
#include "kernel/ingest/ingest_impl.h"
#include "kernel/sql_fixture.h"
#include "kernel/sql/sql_impl.h"

/* `rows` lines made of `line`, where a %d is the line's number, behind a header; from line `at` on they are made of `later`. */
static char *make(const char *header, const char *line, int rows, const char *later, int at)
{
    size_t max = strlen(header) + (size_t)(rows + 1) * 80, len;
    char *text = malloc(max);

    assert_non_null(text);
    len = (size_t)snprintf(text, max, "%s", header);
    for (int i = 0; i < rows; i++) {
        const char *from = later && i >= at ? later : line;
        for (; *from; from++) {
            if (from[0] == '%' && from[1] == 'd') {
                len += (size_t)snprintf(text + len, max - len, "%d", i);
                from++;
            } else {
                text[len++] = *from;
            }
        }
        assert_true(len + 80 <= max);
    }
    text[len] = '\0';
    return text;
}

/* ---- what is guessed ---- */

static char *guess_of(const char *text)
{
    struct buf sql = BUF_INIT(65536);
    struct csv_dialect d;
    struct csv_file file;
    struct err err = ERR_INIT;
    char *options = NULL;

    fixture_write("g.csv", text, strlen(text));
    assert_int_equal(csv_file_inspect(fixture_path("g.csv"), "g.csv", &file, &err), 0);
    int r = csv_guess(fixture_path("g.csv"), &file, &d, &err);
    assert_true(r == 0 || r == 1);
    if (r == 1) {
        assert_int_equal(csv_dialect_write_options(&d, &sql, &err), 0);
        options = strdup(buf_cstr(&sql));
        csv_dialect_finish(&d);
    }
    buf_finish(&sql);
    return options;
}

static char *sniffed(void)
{
    struct buf sql = BUF_INIT(65536);
    struct csv_dialect d = { 0 };
    struct err err = ERR_INIT;
    char *failure = NULL, *options;

    assert_int_equal(csv_dialect_sniff(&d, engine->con, fixture_path("g.csv"), true, false, "", &failure, &err), 0);
    d.plain_dates = csv_dialect_may_have_plain_dates(&d); /* which the sniffer does not say */
    assert_int_equal(csv_dialect_write_options(&d, &sql, &err), 0);
    options = strdup(buf_cstr(&sql));
    csv_dialect_finish(&d);
    buf_finish(&sql);
    return options;
}

static void test_the_guess_is_the_sniffers(void **state)
{
    static const struct {
        const char *header, *line;
    } cases[] = {
        { "id,day,customer,amount\n", "%d,2024-03-05,c%d,%d.25\n" },
        { "id;name\r\n", "%d;n%d\r\n" },
        { "a|b|c\n", "true|-%d|2024-01-02 10:11:12\n" },
        { "a,none,b\n", "%d,,x\n" },
        { "Order Id,Unit price\n", "o%d,%d.5\n" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char *text = make(cases[i].header, cases[i].line, 300, NULL, 0);
        char *guessed = guess_of(text), *said = sniffed();

        if (!guessed || strcmp(guessed, said) != 0)
            fail_msg("guessed %s, but the sniffer says %s", guessed ? guessed : "nothing", said);
        free(text);
        free(guessed);
        free(said);
    }
}

static void test_nothing_to_guess_from(void **state)
{
    static const char *const texts[] = {
        "a\n1\n2\n",           /* one column */
        "a,b\n",               /* no rows */
        "1,2\n3,4\n5,6\n",     /* no names */
        ",b\n1,2\n3,4\n",      /* not of every column */
        "a,b\n1,\"x\"\n2,y\n", /* quotes */
        "a,b\n1,2\r\n3,4\n",   /* of two minds about the ends of lines */
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        char *guessed = guess_of(texts[i]);
        if (guessed)
            fail_msg("'%s': guessed %s", texts[i], guessed);
    }
}

/* ---- plain dates ---- */

/* Is DuckDB told the format of the dates? */
static bool is_told_format(const char *text)
{
    struct ingest g = { .path = fixture_path("g.csv") };
    struct buf sql = BUF_INIT(65536);
    struct err err = ERR_INIT;
    char *failure = NULL;
    bool told;

    fixture_write("g.csv", text, strlen(text));
    assert_int_equal(csv_file_inspect(g.path, "g.csv", &g.file, &err), 0);
    assert_int_equal(csv_dialect_sniff(&g.dialect, engine->con, g.path, g.file.double_quotes_only, false, "", &failure, &err), 0);
    assert_int_equal(ingest_look_closer(&g, &g.dialect, &err), 0);
    assert_int_equal(csv_dialect_write_options(&g.dialect, &sql, &err), 0);
    told = strstr(buf_cstr(&sql), "dateformat") != NULL;
    assert_true(told || strstr(buf_cstr(&sql), "'DATE'"));
    csv_dialect_finish(&g.dialect);
    buf_finish(&sql);
    return told;
}

static void test_only_plain_dates_need_no_format(void **state)
{
    static const struct {
        const char *text;
        bool told;
    } cases[] = {
        { "id,day\n1,2024-01-02\n2,\n3,2024-01-03\n", false },
        { "id,day\r\n1,2024-01-02\r\n2,\r\n3,2024-01-03", false },
        { "id,day\n1,\"2024-01-02\"\n2,\"\"\n3,2024-01-03\n", false },
        { "day,t,until\n2024-01-02,x,2024-01-03\n2024-01-02,y,2024-01-03\n", false },
        { "id,day\n1,2024-01-02\n2,2024-1-3\n", true },
        { "id,day\n1,2024-01-02\n2,infinity\n", true },
        { "id,day\n1,2024-01-02\n2, 2024-01-03\n", true },
        { "id,day\n1,02.01.2024\n2,31.01.2024\n", true },
        { "day,t,until\n2024-01-02,x,2024-01-03\n2024-01-02,y,2024-1-3\n", true },
        { "id,t,day\n1,x,2024-01-02\n2, \"x,\",2024-01-03\n", true }, /* quotes that the search does not know what to make of */
    };
    char *text;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        if (is_told_format(cases[i].text) != cases[i].told)
            fail_msg("%s", cases[i].text);
    text = make("id,day\n", "%d,2024-01-02\n", 24000, NULL, 0);
    assert_false(is_told_format(text));
    free(text);
    text = make("id,day\n", "%d,2024-01-02\n", 24000, "%d,2024-01-02x\n", 23999);
    assert_true(is_told_format(text));
    free(text);
}

/* ---- the table is the same ---- */

static char *content(const char *file, const char *sql)
{
    struct sql_table table = { "t", fixture_path(file) };
    struct sql_setup setup = { .tables = &table, .n_tables = 1, .memory_bytes = 128 << 20, .threads = 1 };
    struct sql_engine *e = NULL;
    struct err err = ERR_INIT;

    assert_int_equal(sql_engine_create(&e, &err), 0);
    if (sql_engine_setup(e, &setup, &err) < 0)
        fail_msg("%s", err.message);
    json_t *result = fixture_sql(e, sql, true, 10, -1);
    char *text = json_dumps(result, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(result);
    sql_engine_destroy(e);
    return text;
}

/* On one processor nothing is guessed. */
static json_t *ingest_on(bool one_processor, const char *out)
{
    struct sql_engine *e = NULL;
    struct err err = ERR_INIT;
    cpu_set_t all, one;

    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    CPU_ZERO(&one);
    for (int i = 0; CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &all))
            CPU_SET(i, &one);
    assert_int_equal(sql_engine_create(&e, &err), 0);
    if (one_processor)
        assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    json_t *result = fixture_ingest(e, "in.csv", out);
    assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
    sql_engine_destroy(e);
    return result;
}

/* What is said of the table, on one processor and on more; it is left in alone.db. */
static json_t *ingest_twice(const char *text)
{
    static const char sql[] = "SELECT count(*), sum(hash(t)) FROM t";

    fixture_write("in.csv", text, strlen(text));
    json_t *alone = ingest_on(true, "alone.db"), *ahead = ingest_on(false, "ahead.db");
    char *a = json_dumps(alone, JSON_COMPACT | JSON_SORT_KEYS), *b = json_dumps(ahead, JSON_COMPACT | JSON_SORT_KEYS);

    if (strcmp(a, b) != 0)
        fail_msg("%.100s: alone %s, ahead %s", text, a, b);
    if (strcmp(fixture_verdict(alone), "ok") == 0) {
        struct stat one, other;
        char *in_one = content("alone.db", sql), *in_other = content("ahead.db", sql);

        assert_string_equal(in_one, in_other);
        assert_int_equal(stat(fixture_path("alone.db"), &one), 0);
        assert_int_equal(stat(fixture_path("ahead.db"), &other), 0);
        assert_int_equal(one.st_size, other.st_size); /* nothing of a first attempt is left in it */
        free(in_one);
        free(in_other);
    }
    unlink(fixture_path("ahead.db"));
    free(a);
    free(b);
    json_decref(ahead);
    return alone;
}

static void assert_same(const char *text)
{
    json_decref(ingest_twice(text));
    unlink(fixture_path("alone.db"));
}

static void test_the_table_is_the_same(void **state)
{
    static const struct {
        const char *header, *line, *later;
        int at;
    } cases[] = {
        /* right guesses */
        { "id,day,amount\n", "%d,2024-03-05,%d.25\n", NULL, 0 },
        { "id,day,amount\r\n", "%d,2024-03-05,%d.25\r\n", NULL, 0 },
        /* wrong ones: behind the lines that the guess is from, and behind those that the sniffer sees */
        { "id,v\n", "%d,1\n", "%d,1.5\n", 250 },
        { "id,v\n", "%d,1\n", "%d,1.5\n", 22000 },
        { "id,v\n", "%d,1\n", "%d,word\n", 250 },
        { "id,v\n", "%d,1\n", "%d,word\n", 22000 },
        { "id,v\n", "%d,1\n", "%d,word\n", 23990 },
        { "id,v\n", "%d,\n", "%d,7\n", 250 },
        { "id,v\n", "%d,2024-01-02\n", "%d,2024-01-02 10:00:00\n", 250 },
        { "id,v\n", "%d,2024-01-02\n", "%d,2024-01-02 10:00:00\n", 22000 },
        { "id,v\n", "%d,2024-01-02\n", "%d,02/01/2024\n", 250 },
        { "id,v\n", "%d,true\n", "%d,yes\n", 250 },
        { "id,v\n", "%d,x\n", "%d,\"a, b\"\n", 250 },
        { "id,v\n", "%d,x\n", "%d,x,y\n", 250 },
        { "id,v\n", "%d,x\n", "%d,x,y\n", 22000 },
        { "id,v\n", "%d,x\n", "%d\n", 250 },
        { "id,v\n", "%d,x\n", "%d,caf\xe9\n", 250 },
        { "id,v\n", "%d,1\n", "%d,99999999999999999999\n", 250 },
        /* no guess at all, or a hopeless one */
        { "a,b\n", "x,y\n", NULL, 0 },
        { "id,ID\n", "%d,1\n", NULL, 0 },
        { "id,v\n", "%d,\"x\"\n", NULL, 0 },
        { "id,v\n", "%d,12:30:00\n", NULL, 0 },
        { "id,v\n", "%d,05.03.2024\n", NULL, 0 },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char *text = make(cases[i].header, cases[i].line, 24000, cases[i].later, cases[i].at);

        assert_same(text);
        free(text);
    }
    assert_same("a,b\n1,2\n");
    assert_same("a,b\n");
    assert_same("a,b\n1,2");
}

/* What is no plain date is read as by DuckDB that knows the format: what is kept is whole, and what is not is reported. */
static void test_no_date_loses_its_rest(void **state)
{
    static const struct {
        const char *line, *later;
        int at;
        const char *types, *content; /* how many rows, and the last value */
        int rejected;
    } cases[] = {
        { "%d,2024-01-02\n", "%d,2024-01-02 10:00:00\n", 250, "[\"BIGINT\",\"VARCHAR\"]",
          "[[24000,\"2024-01-02 10:00:00\",24000]]", 0 },
        { "%d,2024-01-02\n", "%d,2024-01-02 10:00:00\n", 22000, "[\"BIGINT\",\"TIMESTAMP\"]",
          "[[24000,\"2024-01-02 10:00:00\",24000]]", 0 },
        { "%d,2024-01-02\n", "%d,2024-01-02 10:00:00\n", 23990, "[\"BIGINT\",\"DATE\"]",
          "[[23990,\"2024-01-02\",23990]]", 10 },
        { "%d,2024-01-02\n", "%d,2024/01/03\n", 250, "[\"BIGINT\",\"DATE\"]",
          "[[23750,\"2024-01-03\",23750]]", 250 },
        { "%d,2024-01-02\n", "%d,2024/01/03\n", 22000, "[\"BIGINT\",\"DATE\"]",
          "[[22000,\"2024-01-02\",22000]]", 2000 },
        { "%d,2024-01-02\n", "%d,2024-1-3\n", 250, "[\"BIGINT\",\"DATE\"]",
          "[[24000,\"2024-01-03\",24000]]", 0 },
        { "%d,2024-01-02\n", "%d,2024-1-3\n", 22000, "[\"BIGINT\",\"DATE\"]",
          "[[24000,\"2024-01-03\",24000]]", 0 },
        { "%d,2024-01-02\n", "%d,2024-01-03x\n", 250, "[\"BIGINT\",\"VARCHAR\"]",
          "[[24000,\"2024-01-03x\",24000]]", 0 },
        { "%d,2024-01-02\n", "%d,2024-01-03x\n", 22000, "[\"BIGINT\",\"VARCHAR\"]",
          "[[24000,\"2024-01-03x\",24000]]", 0 },
        /* what DuckDB makes of it when it is told the format */
        { "%d,2024-01-02\n", "%d,infinity\n", 250, "[\"BIGINT\",\"DATE\"]",
          "[[24000,\"1900-01-01\",24000]]", 0 },
        { "%d,2024-01-02\n", "%d,infinity\n", 22000, "[\"BIGINT\",\"DATE\"]",
          "[[24000,\"1900-01-01\",24000]]", 0 },
        { "%d,2024-01-02\n", "%d, 2024-01-03 \n", 250, "[\"BIGINT\",\"DATE\"]",
          "[[24000,\"2024-01-03\",24000]]", 0 },
        { "%d,2024-01-02\n", "%d, 2024-01-03 \n", 22000, "[\"BIGINT\",\"DATE\"]",
          "[[24000,\"2024-01-03\",24000]]", 0 },
        { "%d,2024-01-02\n", "%d,2024-02-30\n", 23990, "[\"BIGINT\",\"DATE\"]",
          "[[23990,\"2024-01-02\",23990]]", 10 },
        { "%d,\"2024-01-02\"\n", "%d,\"2024-01-03\"\n", 22000, "[\"BIGINT\",\"DATE\"]",
          "[[24000,\"2024-01-03\",24000]]", 0 },
        { "%d,\"2024-01-02\"\n", "%d,\"2024-01-02 10:00:00\"\n", 22000, "[\"BIGINT\",\"TIMESTAMP\"]",
          "[[24000,\"2024-01-02 10:00:00\",24000]]", 0 },
        { "%d,\"2024-01-02\"\n", "%d,\"2024-01-02 10:00:00\"\n", 23990, "[\"BIGINT\",\"DATE\"]",
          "[[23990,\"2024-01-02\",23990]]", 10 },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char *text = make("id,v\n", cases[i].line, 24000, cases[i].later, cases[i].at);
        json_t *result = ingest_twice(text);
        char *types = json_dumps(json_object_get(result, "types"), JSON_COMPACT);
        char *rows = content("alone.db", "SELECT count(*), arg_max(v, id)::VARCHAR, count(v) FROM t");
        json_int_t rejected = json_integer_value(json_object_get(json_object_get(result, "rejects"), "count"));

        if (strcmp(types, cases[i].types) != 0 || !strstr(rows, cases[i].content) || rejected != cases[i].rejected)
            fail_msg("%s from line %d: %s, %s, %lld rejected", cases[i].later, cases[i].at, types, rows, (long long)rejected);
        unlink(fixture_path("alone.db"));
        json_decref(result);
        free(types);
        free(rows);
        free(text);
    }
}

/* Large enough to be compressed, to go through several buffers and to be written while it is read. */
static void test_the_large_table_is_the_same(void **state)
{
    static const struct {
        const char *later;
        int at;
    } cases[] = {
        { NULL, 0 },
        { "%d,2024-03-05,a word,7\n", 250 },
        { "%d,2024-03-05,1.5,7\n", 250 },
        { "%d,2024-03-05,1.5,7\n", 199000 },
        { "%d,2024-03-05,a word,7\n", 199000 },
        { "%d,2024-03-05,caf\xe9,7\n", 199000 },
        { "%d,2024-03-05 10:00:00,1,7\n", 199000 },
        { "%d,2024-3-5,1,7\n", 199000 },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char *text = make("id,day,amount,n\n", "%d,2024-03-05,%d,%d\n", 200000, cases[i].later, cases[i].at);

        assert_true(strlen(text) > INGEST_SMALL_BYTES);
        assert_same(text);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_guess_is_the_sniffers),
        cmocka_unit_test(test_nothing_to_guess_from),
        cmocka_unit_test(test_only_plain_dates_need_no_format),
        cmocka_unit_test(test_the_table_is_the_same),
        cmocka_unit_test(test_no_date_loses_its_rest),
        cmocka_unit_test(test_the_large_table_is_the_same),
    };

    return cmocka_run_group_tests(tests, fixture_open_engine, fixture_close_engine);
}
