/*
 * Fuzzes JSON: any bytes either are refused with a reason, or what was read is written so that it
 * reads back the same. Bytes of any kind become a string that can be written.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A real that is written as "1.0" reads back as a real: json_equal() tells them apart. */
static void check_round_trip(const json_t *value)
{
    auto_buf struct buf once = BUF_INIT(64u << 20);
    auto_buf struct buf twice = BUF_INIT(64u << 20);
    auto_json json_t *back = NULL;
    struct err err = ERR_INIT;

    if (json_write(value, &once, &err) < 0 || json_parse(once.data, once.len, &back, &err) < 0 ||
        !json_equal(value, back) || json_write(back, &twice, &err) < 0 ||
        strcmp(buf_cstr(&once), buf_cstr(&twice)) != 0)
        abort();
}

static void use_getters(const json_t *value)
{
    static const char *const keys[] = { "a", "name", "limit", NULL };
    const char *text;
    long long number;
    double real;
    bool truth;
    json_t *member;

    for (size_t i = 0; keys[i]; i++) {
        struct err err = ERR_INIT;
        int r = json_get_str(value, keys[i], "", &text, &err);

        if (r == 0 && strlen(text) > 64u << 20)
            abort();
        if (json_get_i64(value, keys[i], 7, 0, 100, &number, &err) == 0 &&
            (number < 0 || number > 100))
            abort();
        r = json_get_double(value, keys[i], 0, &real, &err);
        r |= json_get_bool(value, keys[i], false, &truth, &err);
        r |= json_get_array(value, keys[i], &member, &err);
        r |= json_get_object(value, keys[i], &member, &err);
        if (r < 0 && err.message[0] == '\0')
            abort();
    }
    struct err err = ERR_INIT;
    if (json_check_keys(value, keys, &err) < 0 && err.code != ERR_VALIDATION)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    auto_json json_t *value = NULL;
    auto_json json_t *text = json_text((const char *)data, size);
    struct err err = ERR_INIT;

    if (!text)
        abort();
    check_round_trip(text);
    if (json_parse((const char *)data, size, &value, &err) < 0) {
        if (err.code != ERR_INVALID_JSON || err.message[0] == '\0' || value)
            abort();
        auto_json json_t *said = json_error(&err);
        check_round_trip(said);
        return 0;
    }
    check_round_trip(value);
    use_getters(value);
    return 0;
}
