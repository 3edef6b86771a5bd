/* Answers of a kernel, in the shape that docs/wire.md describes. */

#include "kernel/result.h"

#include <string.h>
#include "base/str.h"

void result_init(struct result *r, size_t max_bytes)
{
    json_out_init(&r->json, max_bytes);
    r->verdict = WIRE_VERDICT_ERROR;
}

void result_finish(struct result *r)
{
    json_out_finish(&r->json);
}

void result_begin(struct result *r, enum wire_verdict verdict)
{
    json_out_clear(&r->json);
    r->verdict = verdict;
    json_out_open(&r->json, '{');
    json_out_key(&r->json, "verdict");
    json_out_text(&r->json, wire_verdict_name(verdict));
}

void result_no_table(struct result *r)
{
    static const char *const lists[] = { "columns", "types", "rows" };
    for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
        json_out_key(&r->json, lists[i]);
        json_out_raw(&r->json, "[]", 2);
    }
    json_out_key(&r->json, "row_count");
    json_out_int(&r->json, 0);
    json_out_key(&r->json, "truncated");
    json_out_bool(&r->json, false);
}

void result_error(struct result *r, const char *type, const char *message)
{
    size_t len = strlen(message);
    /* DuckDB ends its messages with blank lines. */
    while (len > 0 && strchr(" \n\r\t", message[len - 1]))
        len--;
    json_out_key(&r->json, "error");
    json_out_open(&r->json, '{');
    json_out_key(&r->json, "type");
    json_out_text(&r->json, type);
    json_out_key(&r->json, "message");
    json_out_str(&r->json, message, str_utf8_cut(message, len, RESULT_MESSAGE_MAX));
    json_out_close(&r->json, '}');
}

void result_fail(struct result *r, enum wire_verdict verdict, const char *type, const char *message)
{
    result_begin(r, verdict);
    result_no_table(r);
    result_error(r, type, message);
}

int result_end(struct result *r, struct err *err)
{
    json_out_close(&r->json, '}');
    return json_out_status(&r->json, err);
}
