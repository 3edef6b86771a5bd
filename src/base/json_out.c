/* The JSON writer of json_out.h. */

#include "base/json_out.h"

#include <math.h>
#include <string.h>

void json_out_init(struct json_out *j, size_t max_bytes)
{
    memset(j, 0, sizeof(*j));
    buf_init(&j->text, max_bytes);
}

void json_out_finish(struct json_out *j)
{
    buf_finish(&j->text);
}

void json_out_clear(struct json_out *j)
{
    buf_clear(&j->text);
    j->comma = false;
    j->err.code = ERR_NONE;
}

int json_out_status(const struct json_out *j, struct err *err)
{
    return j->err.code == ERR_NONE ? 0 : err_set(err, j->err.code, "%s", j->err.message);
}

struct buf *json_out_begin(struct json_out *j)
{
    if (j->comma && j->err.code == ERR_NONE)
        (void)buf_append(&j->text, ",", 1, &j->err);
    j->comma = true;
    return &j->text;
}

static void put(struct json_out *j, const char *s, size_t len)
{
    json_out_begin(j);
    if (j->err.code == ERR_NONE)
        (void)buf_append(&j->text, s, len, &j->err);
}

void json_out_open(struct json_out *j, char bracket)
{
    put(j, &bracket, 1);
    j->comma = false;
}

void json_out_close(struct json_out *j, char bracket)
{
    j->comma = false;
    put(j, &bracket, 1);
}

void json_out_key(struct json_out *j, const char *key)
{
    put(j, "\"", 1);
    if (j->err.code == ERR_NONE)
        (void)buf_append_str(&j->text, key, &j->err);
    if (j->err.code == ERR_NONE)
        (void)buf_append(&j->text, "\":", 2, &j->err);
    j->comma = false;
}

void json_out_key_text(struct json_out *j, const char *key)
{
    json_out_text(j, key);
    if (j->err.code == ERR_NONE)
        (void)buf_append(&j->text, ":", 1, &j->err);
    j->comma = false;
}

void json_out_str(struct json_out *j, const char *s, size_t len)
{
    json_out_begin(j);
    if (j->err.code == ERR_NONE)
        (void)json_write_str(s, len, &j->text, &j->err);
}

void json_out_text(struct json_out *j, const char *s)
{
    if (s)
        json_out_str(j, s, strlen(s));
    else
        json_out_null(j);
}

void json_out_int(struct json_out *j, int64_t v)
{
    json_out_begin(j);
    if (j->err.code == ERR_NONE)
        (void)buf_printf(&j->text, &j->err, "%lld", (long long)v);
}

void json_out_fixed(struct json_out *j, double v, int decimals)
{
    if (!isfinite(v)) {
        json_out_null(j);
        return;
    }
    json_out_begin(j);
    if (j->err.code == ERR_NONE)
        (void)buf_printf(&j->text, &j->err, "%.*f", decimals, v);
}

void json_out_bool(struct json_out *j, bool v)
{
    put(j, v ? "true" : "false", v ? 4 : 5);
}

void json_out_null(struct json_out *j)
{
    put(j, "null", 4);
}

void json_out_value(struct json_out *j, const json_t *v)
{
    json_out_begin(j);
    if (j->err.code == ERR_NONE)
        (void)json_write(v, &j->text, &j->err);
}

void json_out_raw(struct json_out *j, const char *json, size_t len)
{
    put(j, json, len);
}
