/* The short form of types, turned into JSON Schema. */

#include "net/answers.h"

#include <ctype.h>
#include <string.h>
#include "base/str.h"

#define DEPTH_MAX 16

static json_t *type_to_json(const json_t *types, const json_t *type, int depth);

/* One alternative: `text` is not terminated. */
static json_t *one_to_json(const char *text, size_t len)
{
    if (len == 3 && strncmp(text, "any", 3) == 0)
        return json_object();
    if (len > 0 && isupper((unsigned char)text[0])) {
        auto_json json_t *name = json_stringn(text, len);

        return name ?
                   json_pack("{s:s+}", "$ref", "#/components/schemas/", json_string_value(name)) :
                   NULL;
    }
    return json_pack("{s:s%}", "type", text, len);
}

/* Alternatives that are JSON types become one list, literals one enumeration. */
static json_t *text_to_json(const char *text)
{
    const char *doc = strstr(text, ": "), *end = doc ? doc : text + strlen(text);
    auto_json json_t *types = json_array(), *literals = json_array(), *others = json_array();
    json_t *made;

    while (text < end) {
        size_t len = strcspn(text, "|");
        json_t *one, *plain;

        if (text + len > end)
            len = (size_t)(end - text);
        if (text[0] == '\'' && len >= 2) {
            json_array_append_new(literals, json_stringn(text + 1, len - 2));
        } else {
            one = one_to_json(text, len);
            plain = json_object_get(one, "type");
            json_array_append(plain ? types : others, plain ? plain : one);
            json_decref(one);
        }
        text += len + (text[len] == '|');
    }
    if (json_array_size(literals) > 0)
        json_array_append_new(others, json_pack("{s:O}", "enum", literals));
    if (json_array_size(types) == 1)
        json_array_append_new(others, json_pack("{s:O}", "type", json_array_get(types, 0)));
    else if (json_array_size(types) > 1)
        json_array_append_new(others, json_pack("{s:O}", "type", types));
    made = json_array_size(others) == 1 ? json_incref(json_array_get(others, 0)) :
                                          json_pack("{s:O}", "anyOf", others);
    if (made && doc)
        json_object_set_new(made, "description", json_string(doc + 2));
    return made;
}

struct fields {
    json_t *made, *properties, *required;
};

static void add_fields(const json_t *types, const json_t *fields, struct fields *f, int depth)
{
    const char *name;
    json_t *type;

    json_object_foreach((json_t *)fields, name, type) {
        size_t len = strlen(name);
        bool optional = str_ends(name, "?");

        if (str_eq(name, "//")) {
            json_object_set(f->made, "description", type);
        } else if (str_eq(name, "+")) {
            if (depth < DEPTH_MAX)
                add_fields(types, json_object_get(types, json_string_value(type)), f, depth + 1);
        } else if (str_eq(name, "*")) {
            json_object_set_new(f->made, "additionalProperties",
                                type_to_json(types, type, depth + 1));
        } else {
            json_t *key = json_stringn(name, len - optional);

            json_object_set_new(f->properties, json_string_value(key),
                                type_to_json(types, type, depth + 1));
            if (!optional)
                json_array_append(f->required, key);
            json_decref(key);
        }
    }
}

static json_t *fields_to_json(const json_t *types, const json_t *fields, int depth)
{
    auto_json json_t *properties = json_object(), *required = json_array();
    struct fields f = { json_pack("{s:s}", "type", "object"), properties, required };

    add_fields(types, fields, &f, depth);
    if (json_object_size(properties) > 0)
        json_object_set(f.made, "properties", properties);
    if (json_array_size(required) > 0)
        json_object_set(f.made, "required", required);
    return f.made;
}

static json_t *type_to_json(const json_t *types, const json_t *type, int depth)
{
    if (depth > DEPTH_MAX)
        return NULL;
    if (json_is_string(type))
        return text_to_json(json_string_value(type));
    if (json_is_array(type))
        return json_pack("{s:s, s:o}", "type", "array", "items",
                         type_to_json(types, json_array_get(type, 0), depth + 1));
    return json_is_object(type) ? fields_to_json(types, type, depth) : NULL;
}

json_t *answer_type_to_json(const json_t *types, const json_t *type)
{
    return type_to_json(types, type, 0);
}
