/*
 * Schemas: what they refuse and in which words, the defaults they put in, the JSON Schema they
 * print.
 */

#include "base/check.h"
#include "net/schema.h"

static const char *const modes[] = { "fast", "slow", NULL };
static const struct schema filter_schema;
static const struct schema_field filter_item = { .types = SCHEMA_OBJECT, .object = &filter_schema };
static const struct schema_field filter_fields[] = {
    { .name = "column", .types = SCHEMA_STRING, .required = true, .doc = "A column." },
    { .name = "value", .types = SCHEMA_SCALAR | SCHEMA_NULL },
    { .name = "any_of", .types = SCHEMA_ARRAY, .items = &filter_item, SCHEMA_MAX(2) },
    { .name = NULL },
};
static const struct schema filter_schema = { .name = "Filter",
                                             .doc = "A filter.",
                                             .fields = filter_fields };

static const struct schema_field limits_fields[] = {
    { .name = "timeout", .types = SCHEMA_INTEGER, SCHEMA_RANGE(1, 60), .dflt = "10" },
    { .name = "share", .types = SCHEMA_NUMBER, SCHEMA_MIN(0) },
    { .name = NULL },
};
static const struct schema limits_schema = { .fields = limits_fields };

static const struct schema_field plain_item = { .types = SCHEMA_STRING, SCHEMA_MAX(3) };
static const struct schema_field fields[] = {
    { .name = "name",
      .types = SCHEMA_STRING,
      .required = true,
      SCHEMA_RANGE(1, 5),
      .doc = "The name.",
      .example = "\"Ann\"" },
    { .name = "mode", .types = SCHEMA_STRING, .choices = modes, .dflt = "\"fast\"" },
    { .name = "note", .types = SCHEMA_STRING, .nullable = true, .dflt = "\"none\"" },
    { .name = "tags", .types = SCHEMA_ARRAY, .items = &plain_item, SCHEMA_RANGE(1, 3) },
    { .name = "limits", .types = SCHEMA_OBJECT, .object = &limits_schema },
    { .name = "filter", .types = SCHEMA_OBJECT, .nullable = true, .object = &filter_schema },
    { .name = "on", .types = SCHEMA_BOOLEAN },
    { .name = "extra" },
    { .name = NULL },
};
static const struct schema schema = { .name = "Thing", .doc = "A thing.", .fields = fields };

static json_t *parse(const char *text)
{
    struct err e;
    json_t *j;

    assert_works(json_parse(text, strlen(text), &j, &e), &e);
    return j;
}

static void refuses(const char *text, const char *message)
{
    auto_json json_t *j = parse(text);
    struct err e;

    assert_fails(schema_validate(&schema, j, NULL, &e), &e, ERR_VALIDATION, message);
}

static void accepts(const char *text, const char *becomes)
{
    auto_json json_t *j = parse(text);
    auto_free char *got = NULL;
    struct err e;

    assert_works(schema_validate(&schema, j, NULL, &e), &e);
    got = json_to_str(j);
    assert_string_equal(got, becomes);
}

static void test_accepts(void **state)
{
    (void)state;
    accepts("{\"name\":\"a\"}", "{\"name\":\"a\",\"mode\":\"fast\",\"note\":\"none\"}");
    accepts("{\"name\":\"a\",\"note\":null,\"mode\":\"slow\"}",
            "{\"name\":\"a\",\"note\":\"none\",\"mode\":\"slow\"}");
    /* Characters count, not bytes. */
    accepts(
        "{\"name\":\"\xc3\xa4\xc3\xb6\xc3\xbc\xc3\x9f\xe2\x82\xac\",\"mode\":\"slow\",\"note\":\"\",\"limits\":{\"share\":0}}",
        "{\"name\":\"\xc3\xa4\xc3\xb6\xc3\xbc\xc3\x9f\xe2\x82\xac\",\"mode\":\"slow\",\"note\":\"\",\"limits\":{\"share\":0,\"timeout\":10}}");
    accepts(
        "{\"name\":\"a\",\"mode\":\"slow\",\"note\":\"\",\"extra\":[{\"x\":null}],\"filter\":null}",
        "{\"name\":\"a\",\"mode\":\"slow\",\"note\":\"\",\"extra\":[{\"x\":null}],\"filter\":null}");
    accepts(
        "{\"name\":\"a\",\"mode\":\"slow\",\"note\":\"\",\"filter\":{\"column\":\"c\",\"any_of\":[{\"column\":\"d\",\"value\":1.5}]}}",
        "{\"name\":\"a\",\"mode\":\"slow\",\"note\":\"\",\"filter\":{\"column\":\"c\",\"any_of\":[{\"column\":\"d\",\"value\":1.5}]}}");
}

static void test_refuses(void **state)
{
    (void)state;
    refuses("7", "the body must be an object, not 7");
    refuses("{}", "'name' is required");
    refuses("{\"name\":null}", "'name' must be a string, not null");
    refuses("{\"name\":\"\"}", "'name' must not be empty");
    refuses("{\"name\":\"123456\"}", "'name' must have 1 to 5 characters, not 6");
    refuses("{\"name\":\"a\",\"mode\":\"medium\"}",
            "'mode' must be one of \"fast\", \"slow\", not \"medium\"");
    refuses("{\"name\":\"a\",\"mode\":1}", "'mode' must be one of \"fast\", \"slow\", not 1");
    refuses("{\"name\":\"a\",\"tags\":[]}", "'tags' must not be empty");
    refuses("{\"name\":\"a\",\"tags\":[\"a\",\"b\",\"c\",\"d\"]}",
            "'tags' must have 1 to 3 items, not 4");
    refuses("{\"name\":\"a\",\"tags\":[\"a\",true]}", "'tags[1]' must be a string, not true");
    refuses("{\"name\":\"a\",\"tags\":[\"a\",\"long\"]}",
            "'tags[1]' must have at most 3 characters, not 4");
    refuses("{\"name\":\"a\",\"limits\":[]}", "'limits' must be an object, not an array");
    refuses("{\"name\":\"a\",\"limits\":{\"timeout\":61}}",
            "'limits.timeout' must be an integer between 1 and 60, not 61");
    refuses("{\"name\":\"a\",\"limits\":{\"timeout\":1.5}}",
            "'limits.timeout' must be an integer between 1 and 60, not 1.5");
    refuses("{\"name\":\"a\",\"limits\":{\"share\":-0.5}}",
            "'limits.share' must be a number of at least 0, not -0.5");
    refuses("{\"name\":\"a\",\"filter\":{\"column\":\"c\",\"value\":[]}}",
            "'filter.value' must be a string, a number, a boolean or null, not an array");
    refuses(
        "{\"name\":\"a\",\"filter\":{\"column\":\"c\",\"any_of\":[{\"column\":\"d\",\"any_of\":[{}]}]}}",
        "'filter.any_of[0].any_of[0].column' is required");
    refuses("{\"name\":\"a\",\"on\":\"yes\"}", "'on' must be a boolean, not \"yes\"");
    refuses("{\"name\":\"a\\u0001\\n\xe2\x80\xae\xc3\xa4zzz\"}",
            "'name' must have 1 to 5 characters, not 8");
}

/* Unknown fields are dropped at every depth, and named. */
static void test_ignores(void **state)
{
    auto_json json_t *j = parse(
        "{\"user\":1,\"name\":\"a\",\"mode\":\"slow\",\"note\":\"\","
        "\"limits\":{\"timeout\":1,\"x\\n\":{}},"
        "\"filter\":{\"column\":\"c\",\"any_of\":[{\"column\":\"d\",\"z\":null}]}}");
    auto_json json_t *many = json_pack("{s:s}", "name", "a");
    auto_free char *got = NULL;
    struct schema_report report;
    char key[64];
    struct err e;

    (void)state;
    assert_works(schema_validate(&schema, j, &report, &e), &e);
    got = json_to_str(j);
    assert_string_equal(
        got, "{\"name\":\"a\",\"mode\":\"slow\",\"note\":\"\",\"limits\":{\"timeout\":1},"
             "\"filter\":{\"column\":\"c\",\"any_of\":[{\"column\":\"d\"}]}}");
    assert_string_equal(report.ignored, "user limits.x? filter.any_of[0].z");
    for (int i = 0; i < 100; i++) {
        snprintf(key, sizeof(key), "a_field_that_nobody_knows_%d", i);
        json_object_set_new(many, key, json_null());
    }
    assert_works(schema_validate(&schema, many, &report, &e), &e);
    assert_int_equal(json_object_size(many), 3);
    assert_non_null(strstr(report.ignored, "a_field_that_nobody_knows_0 "));
    assert_non_null(strstr(report.ignored, " \xe2\x80\xa6"));
}

static void test_faults(void **state)
{
    static const struct {
        const char *text, *loc, *type;
    } cases[] = {
        { "[]", "[\"body\"]", "model_attributes_type" },
        { "{}", "[\"body\",\"name\"]", "missing" },
        { "{\"name\":7}", "[\"body\",\"name\"]", "string_type" },
        { "{\"name\":\"123456\"}", "[\"body\",\"name\"]", "string_too_long" },
        { "{\"name\":\"a\",\"mode\":\"x\"}", "[\"body\",\"mode\"]", "literal_error" },
        { "{\"name\":\"a\",\"tags\":[]}", "[\"body\",\"tags\"]", "too_short" },
        { "{\"name\":\"a\",\"tags\":[\"a\",true]}", "[\"body\",\"tags\",1]", "string_type" },
        { "{\"name\":\"a\",\"limits\":{\"timeout\":61}}", "[\"body\",\"limits\",\"timeout\"]",
          "less_than_equal" },
        { "{\"name\":\"a\",\"limits\":{\"timeout\":\"1\"}}", "[\"body\",\"limits\",\"timeout\"]",
          "int_type" },
        { "{\"name\":\"a\",\"filter\":{\"column\":\"c\",\"any_of\":[{}]}}",
          "[\"body\",\"filter\",\"any_of\",0,\"column\"]", "missing" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        auto_json json_t *j = parse(cases[i].text), *list = NULL;
        auto_free char *loc = NULL;
        struct schema_report report;
        struct err e;

        assert_int_equal(schema_validate(&schema, j, &report, &e), -ERR_VALIDATION);
        list = schema_fault_to_json(&report, "body", &e);
        assert_int_equal(json_array_size(list), 1);
        loc = json_to_str(json_object_get(json_array_get(list, 0), "loc"));
        assert_string_equal(loc, cases[i].loc);
        assert_string_equal(json_string_value(json_object_get(json_array_get(list, 0), "type")),
                            cases[i].type);
        assert_string_equal(json_string_value(json_object_get(json_array_get(list, 0), "msg")),
                            e.message);
    }
}

static void test_open(void **state)
{
    static const struct schema open = { .fields = limits_fields, .open = true },
                               any = { .name = "Any" };
    auto_json json_t *j = parse("{\"timeout\":1,\"other\":2}");
    struct err e;

    (void)state;
    assert_works(schema_validate(&open, j, NULL, &e), &e);
    assert_works(schema_validate(&any, j, NULL, &e), &e);
    assert_int_equal(json_object_size(j), 2);
}

static void test_closed(void **state)
{
    static const struct schema closed = { .fields = limits_fields, .closed = true };
    static const struct schema_field field[] = {
        { .name = "limits", .types = SCHEMA_OBJECT, .object = &closed }, { .name = NULL }
    };
    static const struct schema outer = { .fields = field };
    auto_json json_t *near = parse("{\"limits\":{\"timeuot\":1}}"),
                     *far = parse("{\"limits\":{\"else\":1}}"),
                     *good = parse("{\"limits\":{\"timeout\":1}}"),
                     *shown = schema_to_json(&closed, NULL);
    struct schema_report report;
    struct err e;

    (void)state;
    assert_works(schema_validate(&outer, good, NULL, &e), &e);
    assert_fails(schema_validate(&outer, near, &report, &e), &e, ERR_VALIDATION,
                 "there is no 'limits.timeuot'; did you mean 'timeout'?");
    assert_string_equal(report.fault, "extra_forbidden");
    assert_string_equal(report.path, "limits.timeuot");
    assert_fails(schema_validate(&outer, far, NULL, &e), &e, ERR_VALIDATION,
                 "there is no 'limits.else'");
    assert_true(json_is_false(json_object_get(shown, "additionalProperties")));
}

static void test_text(void **state)
{
    static const struct schema_field number = { .name = "n",
                                                .types = SCHEMA_INTEGER,
                                                SCHEMA_RANGE(1, 5) };
    static const struct schema_field real = { .name = "r", .types = SCHEMA_NUMBER };
    static const struct schema_field flag = { .name = "f", .types = SCHEMA_BOOLEAN };
    static const struct schema_field text = { .name = "t",
                                              .types = SCHEMA_STRING,
                                              .choices = modes };
    static const struct {
        const struct schema_field *field;
        const char *text, *json, *message;
    } cases[] = {
        { &number, "5", "5", NULL },
        { &number, "6", NULL, "'n' must be an integer between 1 and 5, not 6" },
        { &number, "", NULL, "'n' must be an integer between 1 and 5, not \"\"" },
        { &number, "2x", NULL, "'n' must be an integer between 1 and 5, not \"2x\"" },
        { &number, "1e0", NULL, "'n' must be an integer between 1 and 5, not \"1e0\"" },
        { &number, "99999999999999999999", NULL,
          "'n' must be an integer between 1 and 5, not \"99999999999999999999\"" },
        { &real, "1.5", "1.5", NULL },
        { &real, "2", "2", NULL },
        { &real, "nan", NULL, "'r' must be a number, not \"nan\"" },
        { &real, "1e999", NULL, "'r' must be a number, not \"1e999\"" },
        { &flag, "true", "true", NULL },
        { &flag, "0", "false", NULL },
        { &flag, "yes", NULL, "'f' must be a boolean, not \"yes\"" },
        { &text, "slow", "\"slow\"", NULL },
        { &text, "none", NULL, "'t' must be one of \"fast\", \"slow\", not \"none\"" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        auto_json json_t *j = NULL;
        struct err e;

        if (cases[i].json) {
            auto_free char *got = NULL;

            assert_works(schema_parse_text(cases[i].field, cases[i].text, &j, NULL, &e), &e);
            got = json_to_str(j);
            assert_string_equal(got, cases[i].json);
        } else {
            assert_fails(schema_parse_text(cases[i].field, cases[i].text, &j, NULL, &e), &e,
                         ERR_VALIDATION, cases[i].message);
        }
    }
}

static void test_json_schema(void **state)
{
    auto_json json_t *components = json_object(), *ref = schema_to_json(&schema, components);
    auto_free char *ref_text = json_to_str(ref), *text = json_to_str(components);

    (void)state;
    assert_string_equal(ref_text, "{\"$ref\":\"#/components/schemas/Thing\"}");
    assert_string_equal(
        text,
        "{\"Thing\":{\"type\":\"object\",\"description\":\"A thing.\",\"properties\":{"
        "\"name\":{\"type\":\"string\",\"description\":\"The name.\",\"minLength\":1,\"maxLength\":5,\"examples\":[\"Ann\"]},"
        "\"mode\":{\"type\":\"string\",\"enum\":[\"fast\",\"slow\"],\"default\":\"fast\"},"
        "\"note\":{\"type\":[\"string\",\"null\"],\"default\":\"none\"},"
        "\"tags\":{\"type\":\"array\",\"minItems\":1,\"maxItems\":3,\"items\":{\"type\":\"string\",\"maxLength\":3}},"
        "\"limits\":{\"type\":\"object\",\"properties\":{"
        "\"timeout\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":60,\"default\":10},"
        "\"share\":{\"type\":\"number\",\"minimum\":0}}},"
        "\"filter\":{\"anyOf\":[{\"$ref\":\"#/components/schemas/Filter\"},{\"type\":\"null\"}]},"
        "\"on\":{\"type\":\"boolean\"},\"extra\":{}},\"required\":[\"name\"]},"
        "\"Filter\":{\"type\":\"object\",\"description\":\"A filter.\",\"properties\":{"
        "\"column\":{\"type\":\"string\",\"description\":\"A column.\"},"
        "\"value\":{\"type\":[\"string\",\"number\",\"boolean\",\"null\"]},"
        "\"any_of\":{\"type\":\"array\",\"maxItems\":2,\"items\":{\"$ref\":\"#/components/schemas/Filter\"}}},"
        "\"required\":[\"column\"]}}");
}

/* Without components a recursive schema ends somewhere. */
static void test_in_place(void **state)
{
    auto_json json_t *j = schema_to_json(&filter_schema, NULL);

    (void)state;
    assert_string_equal(json_string_value(json_object_get(j, "type")), "object");
    assert_null(json_object_get(j, "$ref"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepts),  cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_ignores),  cmocka_unit_test(test_faults),
        cmocka_unit_test(test_open),     cmocka_unit_test(test_closed),
        cmocka_unit_test(test_text),     cmocka_unit_test(test_json_schema),
        cmocka_unit_test(test_in_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
