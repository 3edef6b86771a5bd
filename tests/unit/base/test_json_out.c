/* The JSON writer: what it writes parses to what was meant, and its first failure stays. */

#include <math.h>
#include <string.h>
#include "base/json_out.h"
#include "check.h"

static void test_everything(void **state)
{
    (void)state;
    struct json_out j;
    struct err err = ERR_INIT;
    auto_json json_t *value = json_pack("[i, s]", 1, "x"), *back = NULL;
    json_out_init(&j, 1 << 20);
    json_out_open(&j, '{');
    json_out_key(&j, "empty");
    json_out_open(&j, '[');
    json_out_close(&j, ']');
    json_out_key(&j, "list");
    json_out_open(&j, '[');
    json_out_int(&j, INT64_MIN);
    json_out_bool(&j, true);
    json_out_bool(&j, false);
    json_out_null(&j);
    json_out_text(&j, NULL);
    json_out_text(&j, "a\"\\\n\x01é");
    json_out_str(&j, "a\0b", 3);
    json_out_fixed(&j, 1.23456, 3);
    json_out_fixed(&j, NAN, 3);
    json_out_open(&j, '{');
    json_out_close(&j, '}');
    json_out_value(&j, value);
    json_out_raw(&j, "{\"k\":1}", 7);
    json_out_close(&j, ']');
    json_out_key(&j, "by hand");
    assert_int_equal(buf_append_str(json_out_begin(&j), "[1]", &err), 0);
    json_out_key(&j, "last");
    json_out_int(&j, 0);
    json_out_close(&j, '}');
    assert_int_equal(json_out_status(&j, &err), 0);
    assert_string_equal(
        buf_cstr(&j.text),
        "{\"empty\":[],\"list\":[-9223372036854775808,true,false,null,null,\"a\\\"\\\\\\n\\u0001é\",\"a\xef\xbf\xbd"
        "b\",1.235,null,{},[1,\"x\"],{\"k\":1}],\"by hand\":[1],\"last\":0}");
    assert_int_equal(json_parse(j.text.data, j.text.len, &back, &err), 0);
    json_out_finish(&j);
}

static void test_failure_stays(void **state)
{
    (void)state;
    struct json_out j;
    struct err err = ERR_INIT;
    json_out_init(&j, 16);
    json_out_open(&j, '[');
    json_out_text(&j, "longer than sixteen bytes");
    size_t len = j.text.len;
    json_out_int(&j, 1); /* would fit, but must not follow what is missing */
    json_out_close(&j, ']');
    assert_int_equal(j.text.len, len);
    assert_int_equal(json_out_status(&j, &err), -ERR_TOO_LARGE);
    json_out_clear(&j);
    json_out_int(&j, 7);
    assert_int_equal(json_out_status(&j, &err), 0);
    assert_string_equal(buf_cstr(&j.text), "7");
    json_out_finish(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything),
        cmocka_unit_test(test_failure_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
