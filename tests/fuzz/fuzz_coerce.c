/*
 * Fuzzes what models write: any bytes are refused with a reason, or become what was promised: an
 * object with what the schema requires, a draft whose mode has what it needs. What was repaired
 * once needs no repair again.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/claims.h"
#include "agent/coerce.h"
#include "base/str.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_error(const struct err *err)
{
    if ((err->code != ERR_VALIDATION && err->code != ERR_TOO_LARGE) || err->message[0] == '\0')
        abort();
}

static void check_object(const char *text, size_t len, const json_t *schema)
{
    struct err err = ERR_INIT;
    auto_json json_t *once = NULL, *twice = NULL;
    auto_buf struct buf b = BUF_INIT(64u << 20);
    if (coerce_object(text, len, schema, &once, &err) < 0) {
        check_error(&err);
        if (once)
            abort();
        return;
    }
    if (!json_is_object(once) || (schema && !json_object_get(once, "sql")))
        abort();
    if (json_write(once, &b, &err) < 0 || b.len > COERCE_MAX_BYTES)
        return;
    if (coerce_object(b.data, b.len, schema, &twice, &err) < 0)
        abort();
}

static void check_draft(const char *text, size_t len)
{
    static const char *const modes[][2] = {
        { "plan", "plan" }, { "sql", "sql" }, { "python", "python_code" }, { "chat", "message" }
    };
    struct err err = ERR_INIT;
    auto_json json_t *draft = NULL;
    if (coerce_draft(text, len, &draft, &err) < 0) {
        check_error(&err);
        if (draft)
            abort();
        return;
    }
    const char *mode = json_string_value(json_object_get(draft, "mode"));
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
        if (str_eq(mode, modes[i][0])) {
            const json_t *v = json_object_get(draft, modes[i][1]);
            if (i == 0 ? !json_is_object(v) : json_string_length(v) == 0)
                abort();
            return;
        }
    abort();
}

/* The figures of the same text, against a result. */
static void check_claims(const char *text)
{
    auto_json json_t *result = json_pack("{s:[s,s], s:[[s,f],[s,i]]}", "columns", "month", "n",
                                         "rows", "2024-03-01", 12.5, "x 7", 1200);
    const json_t *results[] = { result };
    auto_json json_t *list = claims_unfounded(text, results, 1, &(const char *){ "top 5?" }, 1);
    size_t i;
    json_t *v;
    if (!list || json_array_size(list) > CLAIMS_MAX)
        abort();
    json_array_foreach(list, i, v) {
        const char *s = json_string_value(json_object_get(v, "text"));
        size_t at = (size_t)json_integer_value(json_object_get(v, "offset"));
        if (at + strlen(s) > strlen(text) || memcmp(text + at, s, strlen(s)) != 0)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char schema_text[] =
        "{\"properties\":{\"sql\":{\"type\":\"string\"},\"n\":{\"type\":\"integer\"},\"list\":{\"type\":\"array\","
        "\"items\":{\"properties\":{\"x\":{\"type\":\"number\"}}}}},\"required\":[\"sql\"]}";
    auto_json json_t *schema = json_loads(schema_text, 0, NULL);
    char *text = malloc(size + 1); /* of exactly its size, so that one byte too far is seen */
    if (!text || !schema)
        abort();
    memcpy(text, data, size);
    text[size] = '\0';
    check_claims(text);
    char *exact = malloc(size ? size : 1);
    if (!exact)
        abort();
    memcpy(exact, data, size);
    check_object(exact, size, schema);
    check_object(exact, size, NULL);
    check_draft(exact, size);
    free(exact);
    free(text);
    return 0;
}
