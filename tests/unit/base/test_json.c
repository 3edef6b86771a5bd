/* JSON: strict parsing, messages of the getters, text of any bytes. */

#include <limits.h>
#include "base/json.h"
#include "check.h"

static json_t *parse(const char *text)
{
    struct err e = ERR_INIT;
    json_t *j = NULL;

    assert_works(json_parse(text, strlen(text), &j, &e), &e);
    return j;
}

static void test_parse_bad(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        { "", "invalid JSON at line 1, column 1: the text is empty" },
        { " \n\t", "invalid JSON at line 1, column 1: the text is empty" },
        { "{\"a\":1} x", "invalid JSON at line 1, column 9: nothing may follow the value" },
        { "1 2", "invalid JSON at line 1, column 3: nothing may follow the value" },
        { "{\"a\":1,\n \"a\":2}",
          "invalid JSON at line 2, column 4: duplicate object key near '\"a\"'" },
        { "[1,", "invalid JSON at line 1, column 3: ']' expected near end of file" },
        { "[\"\\u0000\"]",
          "invalid JSON at line 1, column 9: \\u0000 (a NUL character) is not supported in strings" },
        { "{\"\\u0000\":1}",
          "invalid JSON at line 1, column 9: \\u0000 (a NUL character) is not supported in strings" },
        { "[9223372036854775808]",
          "invalid JSON at line 1, column 20: an integer must fit into 64 bits" },
        { "[1e999]", "invalid JSON at line 1, column 6: a number is too large for a double" },
        { "{\"a\":\n  nope}", "invalid JSON at line 2, column 6: invalid token near 'nope'" },
        { "\xff", "invalid JSON at line 1, column 1: unable to decode byte 0xff" },
        { "[NaN]", "invalid JSON at line 1, column 4: invalid token near 'NaN'" },
    };
    struct err e;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        json_t *j = NULL;

        assert_fails(json_parse(cases[i].text, strlen(cases[i].text), &j, &e), &e, ERR_INVALID_JSON,
                     cases[i].message);
        assert_null(j);
    }
    assert_int_equal(json_parse("{}\0", 3, &(json_t *){ NULL }, &e), -ERR_INVALID_JSON);
    assert_int_equal(json_parse("\"\xed\xa0\x80\"", 5, &(json_t *){ NULL }, &e), -ERR_INVALID_JSON);
}

static void test_parse_depth(void **state)
{
    char text[2 * JSON_MAX_DEPTH + 8];
    json_t *j = NULL;
    struct err e;

    (void)state;
    memset(text, '[', JSON_MAX_DEPTH);
    memset(text + JSON_MAX_DEPTH, ']', JSON_MAX_DEPTH);
    assert_works(json_parse(text, 2 * JSON_MAX_DEPTH, &j, &e), &e);
    json_decref(j);
    memset(text, '[', JSON_MAX_DEPTH + 1);
    memset(text + JSON_MAX_DEPTH + 1, ']', JSON_MAX_DEPTH + 1);
    assert_fails(json_parse(text, 2 * JSON_MAX_DEPTH + 2, &j, &e), &e, ERR_INVALID_JSON,
                 "invalid JSON at line 1, column 65: nested deeper than 64 levels");

    /* Brackets in strings, and as many side by side, are no depth. */
    j = parse(
        "[\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\\\"[[[[[[\", [], [], {}]");
    json_decref(j);
}

static void test_round_trip(void **state)
{
    static const char *const texts[] = {
        "{\"b\":1,\"a\":[true,false,null],\"c\":{}}", /* in the order given */
        "[9223372036854775807,-9223372036854775808]",
        "[0.1,1.0,1e+300,-0.0,0.30000000000000004]",
        "\"q\\\" b\\\\ \\n\\r\\t\\b\\f\\u0001 /é😀\x7f\"",
        "[]",
        "{}",
        "\"\"",
        "null",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        auto_json json_t *j = parse(texts[i]);
        auto_free char *out = json_to_str(j);

        assert_string_equal(out, texts[i]);
    }
}

static void test_write_limits(void **state)
{
    auto_buf struct buf b = BUF_INIT(10);
    auto_json json_t *j = parse("[1,2,3,4,5,6,7]"), *deep = json_array();
    struct err e;

    (void)state;
    assert_works(buf_append_str(&b, "pre", &e), &e);
    assert_fails(json_write(j, &b, &e), &e, ERR_TOO_LARGE, "larger than the limit of 10 bytes");
    assert_string_equal(buf_cstr(&b), "pre");
    assert_int_equal(b.len, 3);

    for (int i = 0; i < 300; i++) {
        json_t *outer = json_array();

        json_array_append_new(outer, deep);
        deep = outer;
    }
    b.max_bytes = 1000;
    assert_fails(json_write(deep, &b, &e), &e, ERR_INTERNAL,
                 "a JSON value is nested deeper than 256 levels");
    assert_null(json_to_str(deep));
    assert_works(json_write(NULL, &b, &e), &e);
    assert_string_equal(buf_cstr(&b), "prenull");
}

static void test_get_i64(void **state)
{
    auto_json json_t *o = parse(
        "{\"n\":10,\"s\":\"ten\",\"big\":61,\"r\":1.5,\"z\":null,\"o\":{},\"a\":[],\"t\":true}");
    auto_json json_t *array = json_array();
    long long v = -7;
    struct err e;

    (void)state;
    assert_works(json_get_i64(o, "n", 1, 1, 60, &v, &e), &e);
    assert_int_equal(v, 10);
    assert_works(json_get_i64(o, "missing", 5, 1, 60, &v, &e), &e);
    assert_int_equal(v, 5);
    assert_works(json_get_i64(o, "z", 6, 1, 60, &v, &e), &e);
    assert_int_equal(v, 6);
    assert_works(json_get_i64(NULL, "n", 8, 1, 60, &v, &e), &e);
    assert_int_equal(v, 8);
    assert_fails(json_get_i64(o, "s", 1, 1, 60, &v, &e), &e, ERR_VALIDATION,
                 "'s' must be an integer between 1 and 60, not \"ten\"");
    assert_fails(json_get_i64(o, "big", 1, 1, 60, &v, &e), &e, ERR_VALIDATION,
                 "'big' must be an integer between 1 and 60, not 61");
    assert_fails(json_get_i64(o, "r", 1, 2, LLONG_MAX, &v, &e), &e, ERR_VALIDATION,
                 "'r' must be an integer of at least 2, not 1.5");
    assert_fails(json_get_i64(o, "o", 1, LLONG_MIN, 9, &v, &e), &e, ERR_VALIDATION,
                 "'o' must be an integer of at most 9, not an object");
    assert_fails(json_get_i64(o, "a", 1, LLONG_MIN, LLONG_MAX, &v, &e), &e, ERR_VALIDATION,
                 "'a' must be an integer, not an array");
    assert_fails(json_get_i64(o, "t", 1, LLONG_MIN, LLONG_MAX, &v, &e), &e, ERR_VALIDATION,
                 "'t' must be an integer, not true");
    assert_fails(json_get_i64(array, "n", 1, 1, 2, &v, &e), &e, ERR_VALIDATION,
                 "expected an object with 'n', not an array");
    assert_int_equal(v, 8); /* failure does not touch it */
}

static void test_get_others(void **state)
{
    auto_json json_t *o = parse(
        "{\"s\":\"x\",\"n\":2,\"r\":0.5,\"b\":true,\"a\":[1],\"o\":{\"k\":1},\"z\":null}");
    const char *s = NULL;
    double d = 0;
    bool b = false;
    json_t *j = NULL;
    struct err e;

    (void)state;
    assert_works(json_get_str(o, "s", "d", &s, &e), &e);
    assert_string_equal(s, "x");
    assert_works(json_get_str(o, "z", "d", &s, &e), &e);
    assert_string_equal(s, "d");
    assert_fails(json_get_str(o, "n", NULL, &s, &e), &e, ERR_VALIDATION,
                 "'n' must be a string, not 2");
    json_object_set_new(o, "nul", json_stringn("a\0b", 3));
    assert_fails(json_get_str(o, "nul", NULL, &s, &e), &e, ERR_VALIDATION,
                 "'nul' must not contain a NUL character");

    assert_works(json_get_double(o, "r", 0, &d, &e), &e);
    assert_true(d == 0.5);
    assert_works(json_get_double(o, "n", 0, &d, &e), &e);
    assert_true(d == 2);
    assert_fails(json_get_double(o, "s", 0, &d, &e), &e, ERR_VALIDATION,
                 "'s' must be a number, not \"x\"");

    assert_works(json_get_bool(o, "b", false, &b, &e), &e);
    assert_true(b);
    assert_works(json_get_bool(o, "missing", false, &b, &e), &e);
    assert_false(b);
    assert_fails(json_get_bool(o, "n", false, &b, &e), &e, ERR_VALIDATION,
                 "'n' must be true or false, not 2");

    assert_works(json_get_array(o, "a", &j, &e), &e);
    assert_int_equal(json_array_size(j), 1);
    assert_works(json_get_array(o, "missing", &j, &e), &e);
    assert_null(j);
    assert_fails(json_get_array(o, "o", &j, &e), &e, ERR_VALIDATION,
                 "'o' must be an array, not an object");
    assert_works(json_get_object(o, "o", &j, &e), &e);
    assert_int_equal(json_object_size(j), 1);
    assert_fails(json_get_object(o, "b", &j, &e), &e, ERR_VALIDATION,
                 "'b' must be an object, not true");
}

/* A huge value is cut in the message, between characters. */
static void test_found_is_cut(void **state)
{
    auto_json json_t *o = json_object();
    char text[5001];
    long long v;
    struct err e = ERR_INIT;

    (void)state;
    for (size_t i = 0; i < 5000; i += 2)
        memcpy(text + i, "é", 2);
    text[5000] = '\0';
    json_object_set_new(o, "n", json_string(text));
    assert_int_equal(json_get_i64(o, "n", 1, 1, 2, &v, &e), -ERR_VALIDATION);
    assert_true(strlen(e.message) < 200);
    assert_non_null(strstr(e.message, "ééé…\""));
}

static void test_check_keys(void **state)
{
    static const char *const allowed[] = { "query_type", "sql", NULL }, *const none[] = { NULL };
    auto_json json_t *good = parse("{\"sql\":1}"), *near = parse("{\"sql\":1,\"quary_type\":2}");
    auto_json json_t *far = parse("{\"what\\n\":1}"), *text = json_string("x");
    struct err e;

    (void)state;
    assert_works(json_check_keys(good, allowed, &e), &e);
    assert_fails(json_check_keys(near, allowed, &e), &e, ERR_VALIDATION,
                 "unknown field 'quary_type'; did you mean 'query_type'?");
    assert_fails(json_check_keys(far, allowed, &e), &e, ERR_VALIDATION,
                 "unknown field 'what?'; allowed are 'query_type', 'sql'");
    assert_fails(json_check_keys(good, none, &e), &e, ERR_VALIDATION,
                 "unknown field 'sql'; none is allowed here");
    assert_fails(json_check_keys(text, allowed, &e), &e, ERR_VALIDATION,
                 "expected an object, not \"x\"");
    assert_fails(json_check_keys(NULL, allowed, &e), &e, ERR_VALIDATION,
                 "expected an object, not null");
}

static void test_type_name(void **state)
{
    auto_json json_t *a = parse("[{}, [], \"\", 1, 1.5, true, false, null]");
    static const char *const names[] = { "object", "array",   "string",  "integer",
                                         "number", "boolean", "boolean", "null" };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        assert_string_equal(json_type_name(json_array_get(a, i)), names[i]);
    assert_string_equal(json_type_name(NULL), "null");
}

static void test_text(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
        const char *text;
    } cases[] = {
        { "", 0, "" },
        { NULL, 0, "" },
        { "é", 2, "é" },
        { "a\xff\x62", 3, "a\xef\xbf\xbd\x62" },
        { "\xe2\x82", 2, "\xef\xbf\xbd" },             /* one cut character, one mark */
        { "\xc0\x80", 2, "\xef\xbf\xbd\xef\xbf\xbd" }, /* no character at all */
        { "\xed\xa0\x80", 3, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" }, /* surrogate */
        { "a\0b", 3, "a\xef\xbf\xbd\x62" },
        { "\0", 1, "\xef\xbf\xbd" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        auto_json json_t *j = json_text(cases[i].bytes, cases[i].len);

        assert_string_equal(json_string_value(j), cases[i].text);
        assert_int_equal(json_string_length(j), strlen(cases[i].text));
    }
}

/* Long strings are taken past the parser: everything else must be as if they were not. */
static void test_long_strings(void **state)
{
    const size_t n = 100000;
    auto_free char *plain = malloc(n + 1), *escaped = malloc(n + 1);
    auto_buf struct buf b = BUF_INIT(1u << 20);
    auto_json json_t *j = NULL;
    struct err e = ERR_INIT;

    (void)state;
    memset(plain, 'A', n);
    plain[n] = '\0';
    memset(escaped, 'B', n);
    memcpy(escaped + n / 2, "\\\"\\n", 4); /* in the text: an escaped quote and a line break */
    escaped[n] = '\0';
    assert_works(
        buf_printf(
            &b, &e,
            "{\"p\" : \"%s\" , \"list\":[1,\"%s\",{\"q\":\"%s\"}], \"%s\":2, \"short\":\"x\"}",
            plain, escaped, plain, plain),
        &e);
    assert_works(json_parse(b.data, b.len, &j, &e), &e);
    assert_int_equal(json_object_size(j), 4);
    assert_string_equal(json_string_value(json_object_get(j, "p")), plain);
    assert_int_equal(json_integer_value(json_object_get(j, plain)), 2);
    const json_t *list = json_object_get(j, "list");
    assert_int_equal(json_string_length(json_array_get(list, 1)), n - 2);
    assert_int_equal(json_string_value(json_array_get(list, 1))[n / 2], '"');
    assert_string_equal(json_string_value(json_object_get(json_array_get(list, 2), "q")), plain);
    json_decref(j);
    j = NULL;

    /* Errors have the place that they have in the whole text. */
    buf_clear(&b);
    assert_works(buf_printf(&b, &e, "[\"%s\",\n x]", plain), &e);
    assert_int_equal(json_parse(b.data, b.len, &j, &e), -ERR_INVALID_JSON);
    assert_non_null(strstr(e.message, "line 2, column 2"));
    buf_clear(&b);
    assert_works(buf_printf(&b, &e, "[\"%s", plain), &e);
    assert_int_equal(json_parse(b.data, b.len, &j, &e), -ERR_INVALID_JSON);
    /* What no string may hold is refused in a long one, too. */
    buf_clear(&b);
    assert_works(buf_printf(&b, &e, "[\"%s\"]", plain), &e);
    b.data[n / 2] = '\n';
    assert_int_equal(json_parse(b.data, b.len, &j, &e), -ERR_INVALID_JSON);
    b.data[n / 2] = (char)0xff;
    assert_int_equal(json_parse(b.data, b.len, &j, &e), -ERR_INVALID_JSON);
    /* Nothing but a string. */
    buf_clear(&b);
    assert_works(buf_printf(&b, &e, "\"%s\"", plain), &e);
    assert_works(json_parse(b.data, b.len, &j, &e), &e);
    assert_string_equal(json_string_value(j), plain);
}

static void test_error(void **state)
{
    struct err e = ERR_INIT;
    auto_json json_t *j = NULL;
    auto_free char *text = NULL;

    (void)state;
    err_set(&e, ERR_NOT_FOUND, "no dataset '%s'", "x\xff");
    j = json_error(&e);
    text = json_to_str(j);
    assert_string_equal(text,
                        "{\"type\":\"NOT_FOUND\",\"message\":\"no dataset 'x\xef\xbf\xbd'\"}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse_bad),    cmocka_unit_test(test_parse_depth),
        cmocka_unit_test(test_round_trip),   cmocka_unit_test(test_write_limits),
        cmocka_unit_test(test_get_i64),      cmocka_unit_test(test_get_others),
        cmocka_unit_test(test_found_is_cut), cmocka_unit_test(test_check_keys),
        cmocka_unit_test(test_type_name),    cmocka_unit_test(test_text),
        cmocka_unit_test(test_long_strings), cmocka_unit_test(test_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
