/*
 * The API description. Every route may answer the errors of the server itself (a bad request, no
 * key, too many requests); they are named once, as components/responses, and referred to.
 */

#include "net/openapi.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include "base/str.h"
#include "net/answers.h"

static const struct schema_field error_inner_fields[] = {
    { .name = "type",
      .types = SCHEMA_STRING,
      .required = true,
      .doc = "What kind of error, for programs.",
      .example = "\"VALIDATION_ERROR\"" },
    { .name = "message",
      .types = SCHEMA_STRING,
      .required = true,
      .doc = "What is wrong, for people." },
    { .name = NULL },
};
static const struct schema error_inner = { .fields = error_inner_fields, .open = true };
static const struct schema_field error_fields[] = {
    { .name = "error",
      .types = SCHEMA_OBJECT,
      .required = true,
      .object = &error_inner,
      .doc = "The error." },
    { .name = "detail",
      .types = SCHEMA_STRING | SCHEMA_ARRAY | SCHEMA_OBJECT,
      .required = true,
      .doc = "The message again. With status 422 a list of faults: `loc`, `msg`, `type`. Of POST "
             "/upload, when no file could be used, `{errors: [{filename, error}]}`." },
    { .name = NULL },
};
static const struct schema error_schema = {
    .name = "Error",
    .doc = "Every answer that is an error has this shape.",
    .fields = error_fields,
    .open = true,
};

/* What any route may answer, and what the server itself answers for bodies and keys. */
#define COMMON_ERRORS                                                                              \
    (ROUTE_ERR(INVALID_INPUT) | ROUTE_ERR(FORBIDDEN) | ROUTE_ERR(RATE_LIMITED) |                   \
     ROUTE_ERR(INTERNAL))

static json_t *error_response(int status, json_t *components)
{
    char doc[512] = "";
    size_t n = 0;

    if (status == HTTP_UNPROCESSABLE)
        n = (size_t)snprintf(doc, sizeof(doc), "`%s`", err_name(ERR_VALIDATION));
    for (int code = ERR_NONE + 1; code < ERR_CODE_MAX; code++) {
        if (err_http_status((enum err_code)code) == status && n < sizeof(doc))
            n += (size_t)snprintf(doc + n, sizeof(doc) - n, "%s`%s`", n ? ", " : "",
                                  err_name((enum err_code)code));
    }
    return json_pack("{s:s, s:{s:{s:o}}}", "description", doc, "content", "application/json",
                     "schema",
                     schema_to_json(&error_schema, json_object_get(components, "schemas")));
}

static void add_error(json_t *responses, json_t *components, int status)
{
    json_t *shared = json_object_get(components, "responses");
    char key[8], name[24];

    snprintf(key, sizeof(key), "%d", status);
    snprintf(name, sizeof(name), "Error%d", status);
    if (json_object_get(responses, key))
        return;
    if (!json_object_get(shared, name))
        json_object_set_new(shared, name, error_response(status, components));
    json_object_set_new(responses, key,
                        json_pack("{s:s+}", "$ref", "#/components/responses/", name));
}

/* What `answers` has for this status; NULL for nothing. */
static json_t *type_of_answer(const json_t *answers, const struct route *route, int status)
{
    char other[128];

    if (status >= 200 && status < 300)
        return json_object_get(json_object_get(answers, "answers"), route->id);
    snprintf(other, sizeof(other), "%s %d", route->id, status);
    return json_object_get(json_object_get(answers, "answers"), other);
}

/* A route that says nothing of its answers has one: its type, and what follows that as text. */
static json_t *success_of(const struct route *route, const struct openapi_info *info)
{
    const json_t *type = type_of_answer(info->answers, route, 200);
    const char *text = json_string_value(type), *doc = text ? strstr(text, ": ") : NULL;
    auto_json json_t *name = doc ? json_stringn(text, (size_t)(doc - text)) : NULL;
    json_t *answer = json_pack("{s:s}", "description", doc ? doc + 2 : "Success.");

    if (type)
        json_object_set_new(
            answer, "content",
            json_pack("{s:{s:o}}", "application/json", "schema",
                      answer_type_to_json(json_object_get(info->answers, "types"),
                                          name ? name : type)));
    return answer;
}

static json_t *responses_of(const struct route *route, const struct openapi_info *info,
                            json_t *components)
{
    json_t *responses = json_object();
    uint32_t errors = route->errors | COMMON_ERRORS;

    for (const struct route_response *a = route->responses; a && a->status; a++) {
        json_t *answer = json_pack("{s:s}", "description", a->doc ? a->doc : "Success.");
        json_t *type = type_of_answer(info->answers, route, a->status);
        char key[8];

        snprintf(key, sizeof(key), "%d", a->status);
        if (type || a->content_type) {
            json_t *media = json_object();

            if (type)
                json_object_set_new(
                    media, "schema",
                    answer_type_to_json(json_object_get(info->answers, "types"), type));
            json_object_set_new(
                answer, "content",
                json_pack("{s:o}", a->content_type ? a->content_type : "application/json", media));
        }
        json_object_set_new(responses, key, answer);
    }
    if (!route->responses)
        json_object_set_new(responses, "200", success_of(route, info));

    if (route->body || route->on_body) {
        errors |= ROUTE_ERR(VALIDATION) | ROUTE_ERR(TOO_LARGE) | ROUTE_ERR(UNSUPPORTED_MEDIA);
        if (!(route->flags & ROUTE_BODY_OPTIONAL))
            errors |= ROUTE_ERR(LENGTH_REQUIRED);
    }
    if (info->has_keys && !(route->flags & ROUTE_PUBLIC))
        errors |= ROUTE_ERR(UNAUTHORIZED);
    if (route->flags & ROUTE_NO_RATE_LIMIT)
        errors &= ~ROUTE_ERR(RATE_LIMITED);
    if (route->body || route->params)
        add_error(responses, components, HTTP_UNPROCESSABLE);
    for (int code = ERR_NONE + 1; code < ERR_CODE_MAX; code++) {
        if (errors & 1u << code)
            add_error(responses, components, err_http_status((enum err_code)code));
    }
    return responses;
}

static json_t *parameters_of(const struct route *route, json_t *components)
{
    json_t *list = json_array();

    for (const struct route_param *p = route->params; p && p->field.name; p++) {
        struct schema_field plain = p->field;
        json_t *parameter = json_pack("{s:s, s:s, s:b}", "name", p->field.name, "in",
                                      p->in_query ? "query" : "path", "required",
                                      !p->in_query || p->field.required);

        if (p->field.doc)
            json_object_set_new(parameter, "description", json_string(p->field.doc));
        plain.doc = NULL;
        json_object_set_new(parameter, "schema",
                            schema_field_to_json(&plain, json_object_get(components, "schemas")));
        json_array_append_new(list, parameter);
    }
    return list;
}

static json_t *body_of(const struct route *route, json_t *components)
{
    const char *type = route->body     ? "application/json" :
                       route->consumes ? route->consumes :
                                         "application/octet-stream";
    json_t *media = json_object();

    if (str_eq(type, "*"))
        type = "application/octet-stream";
    if (route->body || route->form)
        json_object_set_new(media, "schema",
                            schema_to_json(route->body ? route->body : route->form,
                                           json_object_get(components, "schemas")));
    return json_pack("{s:b, s:{s:o}}", "required", !(route->flags & ROUTE_BODY_OPTIONAL), "content",
                     type, media);
}

static json_t *operation_of(const struct route *route, const struct openapi_info *info,
                            json_t *components)
{
    json_t *op = json_pack("{s:s}", "operationId", route->id), *parameters;

    if (route->summary)
        json_object_set_new(op, "summary", json_string(route->summary));
    if (route->doc)
        json_object_set_new(op, "description", json_string(route->doc));
    if (route->tag)
        json_object_set_new(op, "tags", json_pack("[s]", route->tag));
    parameters = parameters_of(route, components);
    if (json_array_size(parameters) > 0)
        json_object_set(op, "parameters", parameters);
    json_decref(parameters);
    if (route->body || route->on_body)
        json_object_set_new(op, "requestBody", body_of(route, components));
    json_object_set_new(op, "responses", responses_of(route, info, components));
    if (info->has_keys && route->flags & ROUTE_PUBLIC)
        json_object_set_new(op, "security", json_array());
    return op;
}

/* OpenAPI knows no "{name...}". */
static void plain_path(const char *path, char *ret, size_t size)
{
    size_t n = 0;

    for (; *path && n + 1 < size; path++) {
        if (strncmp(path, "...}", 4) == 0)
            path += 3;
        ret[n++] = *path;
    }
    ret[n] = '\0';
}

json_t *openapi_document(const struct router *r, const struct openapi_info *info)
{
    json_t *paths = json_object(), *tags = json_array();
    json_t *components = json_pack("{s:{}, s:{}}", "schemas", "responses");
    json_t *doc = json_pack("{s:s, s:{s:s, s:s}}", "openapi", "3.1.0", "info", "title", info->title,
                            "version", info->version);
    const char *name;
    json_t *type;

    if (info->description)
        json_object_set_new(json_object_get(doc, "info"), "description",
                            json_string(info->description));
    for (size_t i = 0; i < router_count(r); i++) {
        const struct route *route = router_at(r, i);
        const char *const names[] = { "get", "head", "post", "put", "patch", "delete", "options" };
        char path[512];
        json_t *item, *tag;
        bool known = false;
        size_t k;

        if (route->flags & ROUTE_HIDDEN)
            continue;
        plain_path(route->path, path, sizeof(path));
        item = json_object_get(paths, path);
        if (!item) {
            item = json_object();
            json_object_set_new(paths, path, item);
        }
        json_object_set_new(item, names[route->method], operation_of(route, info, components));
        json_array_foreach(tags, k, tag)
            known = known || str_eq(json_string_value(json_object_get(tag, "name")), route->tag);
        if (route->tag && !known)
            json_array_append_new(tags, json_pack("{s:s}", "name", route->tag));
    }
    const json_t *types = json_object_get(info->answers, "types");
    json_object_foreach((json_t *)types, name, type) {
        assert(!json_object_get(json_object_get(components, "schemas"), name)); /* a body's name */
        json_object_set_new(json_object_get(components, "schemas"), name,
                            answer_type_to_json(types, type));
    }
    if (info->has_keys) {
        json_object_set_new(components, "securitySchemes",
                            json_pack("{s:{s:s, s:s}}", "key", "type", "http", "scheme", "bearer"));
        json_object_set_new(doc, "security", json_pack("[{s:[]}]", "key"));
    }
    json_object_set_new(doc, "tags", tags);
    json_object_set_new(doc, "paths", paths);
    json_object_set_new(doc, "components", components);
    return doc;
}
