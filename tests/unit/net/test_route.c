/* Matching of paths, and what a table of routes may not hold. */

#include "base/check.h"
#include "base/str.h"
#include "net/openapi.h"
#include "net/route.h"

static void nothing(struct http_request *req)
{
    (void)req;
}

#define PARAM(n)                                                                                   \
    {                                                                                              \
        .field = {.name = n, .types = SCHEMA_STRING }                                              \
    }
#define END                                                                                        \
    {                                                                                              \
        .field = {.name = NULL }                                                                   \
    }
static const struct route_param id_params[] = { PARAM("id"), END };
static const struct route_param two_params[] = { PARAM("id"), PARAM("part"), END };
static const struct route_param path_params[] = { PARAM("path"), END };

static const struct route routes[] = {
    { HTTP_GET, "/", nothing, .id = "root" },
    { HTTP_GET, "/runs", nothing, .id = "list" },
    { HTTP_POST, "/runs", nothing, .id = "create" },
    { HTTP_GET, "/runs/{id}", nothing, .id = "get", .params = id_params },
    { HTTP_DELETE, "/runs/{id}", nothing, .id = "delete", .params = id_params },
    { HTTP_POST, "/runs/stream", nothing, .id = "stream" },
    { HTTP_GET, "/runs/{id}/status", nothing, .id = "status", .params = id_params },
    { HTTP_GET, "/runs/{id}/{part}", nothing, .id = "part", .params = two_params },
    { HTTP_GET, "/static/{path...}", nothing, .id = "static", .params = path_params },
};

static struct router *router;

static int setup(void **state)
{
    struct err e;

    (void)state;
    assert_works(router_create(&router, &e), &e);
    assert_works(router_add(router, routes, ARRAY_SIZE(routes), &e), &e);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    router_destroy(router);
    return 0;
}

/* id of the route, or "-"; the parameters as "name=value " in `params`. */
static const char *match(enum http_method method, const char *path, char params[256])
{
    auto_arena struct arena arena;
    struct route_match m;
    struct err e;
    size_t n = 0;

    arena_init(&arena, 1 << 20);
    assert_works(router_match(router, method, path, strlen(path), &arena, &m, &e), &e);
    params[0] = '\0';
    for (size_t i = 0; i < m.n_params; i++)
        n += (size_t)snprintf(params + n, 256 - n, "%.*s=%s ", (int)m.params[i].name_len,
                              m.params[i].name, m.params[i].value);
    if (m.route)
        assert_ptr_equal(m.route, router_at(router, m.index));
    return m.route ? m.route->id : "-";
}

static void test_match(void **state)
{
    static const struct {
        enum http_method method;
        const char *path, *id, *params;
    } cases[] = {
        { HTTP_GET, "/", "root", "" },
        { HTTP_GET, "/runs", "list", "" },
        { HTTP_HEAD, "/runs", "list", "" },
        { HTTP_POST, "/runs", "create", "" },
        { HTTP_GET, "/runs/42", "get", "id=42 " },
        { HTTP_DELETE, "/runs/42", "delete", "id=42 " },
        { HTTP_GET, "/runs/a%20b%2Fc", "get", "id=a b/c " },
        { HTTP_GET, "/runs/a+b", "get", "id=a+b " },
        { HTTP_POST, "/runs/stream", "stream", "" },
        { HTTP_GET, "/runs/stream", "get", "id=stream " }, /* the literal has no GET */
        { HTTP_GET, "/runs/1/status", "status", "id=1 " },
        { HTTP_GET, "/runs/1/log", "part", "id=1 part=log " },
        { HTTP_GET, "/static/", "static", "path= " },
        { HTTP_GET, "/static/a/b.js", "static", "path=a/b.js " },
        { HTTP_GET, "/static/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17/18", "static",
          "path=1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17/18 " },
        { HTTP_GET, "/static", "-", "" },
        { HTTP_GET, "/runs/", "-", "" },
        { HTTP_GET, "/runs//status", "-", "" },
        { HTTP_GET, "//runs", "-", "" },
        { HTTP_GET, "/Runs", "-", "" },
        { HTTP_GET, "/runs/1/status/x", "-", "" },
        { HTTP_PUT, "/runs", "-", "" },
        { HTTP_GET, "", "-", "" },
        { HTTP_GET, "runs", "-", "" },
    };
    char params[256];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const char *id = match(cases[i].method, cases[i].path, params);

        if (!str_eq(id, cases[i].id) || !str_eq(params, cases[i].params))
            fail_msg("'%s' gave '%s' with '%s'", cases[i].path, id, params);
    }
}

static void test_allowed(void **state)
{
    static const struct {
        const char *path, *allow;
    } cases[] = {
        { "/runs", "GET, HEAD, POST, OPTIONS" },
        { "/runs/7", "GET, HEAD, DELETE, OPTIONS" },
        { "/runs/stream", "GET, HEAD, POST, DELETE, OPTIONS" },
        { "/nothing", "" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        auto_arena struct arena arena;
        char allow[ROUTE_ALLOW_SIZE];
        struct route_match m;
        struct err e;

        arena_init(&arena, 1 << 20);
        assert_works(
            router_match(router, HTTP_PATCH, cases[i].path, strlen(cases[i].path), &arena, &m, &e),
            &e);
        assert_null(m.route);
        route_allow_header(m.allowed, allow);
        assert_string_equal(allow, cases[i].allow);
    }
}

static void test_bad_paths(void **state)
{
    static const struct {
        const char *path, *message;
    } cases[] = {
        { "/runs/%", "the URL has a '%' that two hexadecimal digits do not follow" },
        { "/runs/%4", "the URL has a '%' that two hexadecimal digits do not follow" },
        { "/runs/%4g", "the URL has a '%' that two hexadecimal digits do not follow" },
        { "/runs/a%00", "the URL has an encoded NUL character" },
        { "/runs/%c3", "the URL is not UTF-8" },
        { "/static/x/%ff", "the URL is not UTF-8" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        auto_arena struct arena arena;
        struct route_match m;
        struct err e;

        arena_init(&arena, 1 << 20);
        assert_fails(
            router_match(router, HTTP_GET, cases[i].path, strlen(cases[i].path), &arena, &m, &e),
            &e, ERR_INVALID_INPUT, cases[i].message);
    }
}

static void test_nearest(void **state)
{
    (void)state;
    assert_string_equal(router_nearest(router, "/run"), "/runs");
    assert_null(router_nearest(router, "/completely/other/things"));
}

static void refused(struct route route, const char *message)
{
    struct router *r;
    struct err e;

    assert_works(router_create(&r, &e), &e);
    assert_works(router_add(r, routes, ARRAY_SIZE(routes), &e), &e);
    assert_fails(router_add(r, &route, 1, &e), &e, ERR_CONFIG, message);
    router_destroy(r);
}

static void test_bad_routes(void **state)
{
    static const struct schema body = { .name = "B" };

    (void)state;
    refused((struct route){ HTTP_GET, "runs", nothing, .id = "x" },
            "route 'runs': a path begins with '/'");
    refused((struct route){ HTTP_GET, "/x/{id", nothing, .id = "x" },
            "route '/x/{id': a parameter is a whole segment in braces");
    refused((struct route){ HTTP_GET, "/x/a{id}", nothing, .id = "x" },
            "route '/x/a{id}': a parameter is a whole segment in braces");
    refused((struct route){ HTTP_GET, "/x/{id}", nothing, .id = "x" },
            "route '/x/{id}': parameter 'id' is not declared");
    refused((struct route){ HTTP_GET, "/x/{path...}/y", nothing, .id = "x", .params = path_params },
            "route '/x/{path...}/y': nothing may follow '{name...}'");
    refused((struct route){ HTTP_GET, "/runs/{path}", nothing, .id = "x", .params = path_params },
            "route 'GET /runs/{path}' is there twice");
    refused((struct route){ HTTP_GET, "/x", nothing, .id = "list" },
            "route id 'list' is there twice");
    refused((struct route){ HTTP_GET, "/x", nothing, .id = NULL }, "route '/x': no id");
    refused((struct route){ HTTP_GET, "/x", .id = "x" }, "route '/x': no handler");
    refused((struct route){ HTTP_HEAD, "/x", nothing, .id = "x" },
            "route '/x': HEAD is answered for every route");
    refused((struct route){ HTTP_POST, "/x", nothing, .id = "x", .body = &body,
                            .on_body = (void *)nothing },
            "route '/x': a body is JSON or streamed, not both");
}

/* ---- the API description ---- */

static void test_openapi(void **state)
{
    static const struct schema_field fields[] = {
        { .name = "sql", .types = SCHEMA_STRING, .required = true }, { .name = NULL }
    };
    static const struct schema body = { .name = "RunRequest", .fields = fields };
    static const struct route_response answers[] = { { .status = 201, .doc = "The run." },
                                                     { .status = 409, .doc = "Another runs." },
                                                     { .status = 0 } };
    static const struct route_response many[] = { { .status = 200 }, { .status = 0 } };
    static const char types[] =
        "{\"types\": {\"Run\": {\"//\": \"A run.\", \"id\": \"string: Its id.\", \"left?\": "
        "\"number|null\", \"state\": \"'on'|'off'|null\", \"next\": \"Run|null\", \"any\": \"any\", "
        "\"by\": {\"*\": [\"Run\"]}}}, \"answers\": {\"createRun\": \"Run\", \"createRun 409\": "
        "{\"why\": \"string\"}, \"getFile\": [\"Run\"]}}";
    static const char made[] =
        "{\"type\":\"object\",\"description\":\"A run.\",\"properties\":{\"id\":{\"type\":\"string\","
        "\"description\":\"Its id.\"},\"left\":{\"type\":[\"number\",\"null\"]},\"state\":{\"anyOf\":"
        "[{\"enum\":[\"on\",\"off\"]},{\"type\":\"null\"}]},\"next\":{\"anyOf\":[{\"$ref\":"
        "\"#/components/schemas/Run\"},{\"type\":\"null\"}]},\"any\":{},\"by\":{\"type\":\"object\","
        "\"additionalProperties\":{\"type\":\"array\",\"items\":{\"$ref\":"
        "\"#/components/schemas/Run\"}}}},\"required\":[\"id\",\"state\",\"next\",\"any\",\"by\"]}";
    static const struct route_param params[] = {
        { .field = { .name = "path", .types = SCHEMA_STRING, .doc = "Where." } },
        { .field = { .name = "limit", .types = SCHEMA_INTEGER, .dflt = "10" }, .in_query = true },
        END,
    };
    static const struct route table[] = {
        { HTTP_POST, "/runs", nothing, .id = "createRun", .tag = "runs", .summary = "Run.",
          .body = &body, .responses = answers, .errors = ROUTE_ERR(NOT_FOUND) },
        { HTTP_GET, "/files/{path...}", nothing, .id = "getFile", .tag = "runs", .params = params,
          .responses = many, .flags = ROUTE_PUBLIC },
        { HTTP_GET, "/page", nothing, .flags = ROUTE_HIDDEN },
    };
    struct openapi_info info = { .title = "Riddle", .version = "1", .has_keys = true };
    auto_json json_t *doc = NULL, *described = NULL;
    auto_free char *run = NULL;
    json_t *post, *get;
    struct router *r;
    struct err e;

    (void)state;
    assert_works(router_create(&r, &e), &e);
    assert_works(router_add(r, table, ARRAY_SIZE(table), &e), &e);
    assert_works(json_parse(types, sizeof(types) - 1, &described, &e), &e);
    info.answers = described;
    doc = openapi_document(r, &info);
    router_destroy(r);
#define TEXT(node, ...)                                                                            \
    ({                                                                                             \
        const char *text_ = NULL;                                                                  \
        assert_int_equal(json_unpack(node, __VA_ARGS__, &text_), 0);                               \
        text_;                                                                                     \
    })
    assert_string_equal(TEXT(doc, "{s:s}", "openapi"), "3.1.0");
    assert_int_equal(json_object_size(json_object_get(doc, "paths")), 2);
    assert_int_equal(json_unpack(doc, "{s:{s:{s:o}, s:{s:o}}}", "paths", "/runs", "post", &post,
                                 "/files/{path}", "get", &get),
                     0);
    assert_string_equal(TEXT(post, "{s:s}", "operationId"), "createRun");
    assert_string_equal(TEXT(post, "{s:{s:{s:{s:{s:s}}}}}", "requestBody", "content",
                             "application/json", "schema", "$ref"),
                        "#/components/schemas/RunRequest");
    assert_string_equal(TEXT(post, "{s:{s:{s:{s:{s:{s:s}}}}}}", "responses", "201", "content",
                             "application/json", "schema", "$ref"),
                        "#/components/schemas/Run");
    assert_string_equal(TEXT(post, "{s:{s:{s:{s:{s:{s:{s:{s:s}}}}}}}}", "responses", "409",
                             "content", "application/json", "schema", "properties", "why", "type"),
                        "string");
    run = json_to_str(
        json_object_get(json_object_get(json_object_get(doc, "components"), "schemas"), "Run"));
    assert_string_equal(run, made);
    static const char *const statuses[] = { "201", "400", "401", "403", "404", "409",
                                            "411", "413", "415", "422", "429", "500" };
    assert_int_equal(json_object_size(json_object_get(post, "responses")), ARRAY_SIZE(statuses));
    for (size_t i = 0; i < ARRAY_SIZE(statuses); i++)
        assert_non_null(json_object_get(json_object_get(post, "responses"), statuses[i]));
    assert_string_equal(
        TEXT(doc, "{s:{s:{s:{s:s}}}}", "components", "responses", "Error404", "description"),
        "`NOT_FOUND`");
    assert_int_equal(json_array_size(json_object_get(get, "security")), 0);
    assert_non_null(json_object_get(get, "security"));
    assert_string_equal(TEXT(get, "{s:[{s:s}]}", "parameters", "in"), "path");
    assert_string_equal(TEXT(json_array_get(json_object_get(get, "parameters"), 1), "{s:s}", "in"),
                        "query");
    assert_string_equal(TEXT(get, "{s:{s:{s:{s:{s:{s:s}}}}}}", "responses", "200", "content",
                             "application/json", "schema", "type"),
                        "array");
    assert_string_equal(
        TEXT(doc, "{s:{s:{s:{s:s}}}}", "components", "securitySchemes", "key", "scheme"), "bearer");
    assert_int_equal(json_array_size(json_object_get(doc, "tags")), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_match),      cmocka_unit_test(test_allowed),
        cmocka_unit_test(test_bad_paths),  cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_bad_routes), cmocka_unit_test(test_openapi),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
