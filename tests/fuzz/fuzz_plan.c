/*
 * Fuzzes plans: any text either is refused or compiles, and what compiles is made of our own tokens
 * only: outside quotes there is no character that a plan could have brought in. Written back as
 * JSON it is the same plan.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "plan/compile.h"
#include "plan/query_plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char schema_text[] =
    "{\"tables\": {\"orders\": {\"order_id\": \"integer\", \"customer_id\": \"integer\", \"order_date\": \"date\","
    " \"total\": \"double\", \"status\": \"string\", \"returned\": \"boolean\", \"odd \\\"name\\\"\": \"timestamp\"},"
    " \"order_items\": {\"order_id\": \"integer\", \"product_id\": \"integer\", \"category\": \"string\","
    " \"quantity\": \"integer\", \"price\": \"double\", \"discount\": \"double\"},"
    " \"inventory\": {\"product_id\": \"integer\", \"name\": \"string\", \"category\": \"string\", \"stock\": \"integer\"}},"
    " \"relationships\": [{\"from\": \"order_items.order_id\", \"to\": \"orders.order_id\"},"
    " {\"from\": \"order_items.product_id\", \"to\": \"inventory.product_id\"}]}";

/* Our own tokens: words, numbers, operators, and anything between quotes that closes. */
static bool is_clean(const char *sql)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_ \n(),.=<>!+-*/%|";

    while (*sql) {
        if (*sql == '"' || *sql == '\'') {
            const char *end = strchr(sql + 1, *sql);
            if (!end)
                return false;
            sql = end + 1; /* a doubled quote closes and opens again */
            continue;
        }
        if (!strchr(plain, *sql) || strncmp(sql, "--", 2) == 0 || strncmp(sql, "/*", 2) == 0)
            return false;
        sql++;
    }
    return true;
}

static void try_compile(const json_t *j, struct arena *a, const struct plan_schema *schema)
{
    auto_buf struct buf sql = BUF_INIT(PLAN_SQL_MAX_BYTES);
    auto_buf struct buf again = BUF_INIT(PLAN_SQL_MAX_BYTES);
    struct err err = ERR_INIT;
    struct query_plan *plan, *copy;

    if (plan_parse(j, a, &plan, &err) < 0) {
        if (err.code == ERR_NONE || err.message[0] == '\0')
            abort();
        return;
    }
    int checked = plan_check(plan, schema, &err);
    int compiled = plan_compile(plan, schema, &sql, &err);
    if (compiled < 0) {
        if (checked == 0 && err.code != ERR_TOO_LARGE)
            abort(); /* what the check accepts compiles, unless it has no room */
        return;
    }
    if (checked < 0 || !is_clean(buf_cstr(&sql)))
        abort();
    auto_json json_t *back = plan_to_json(plan);
    if (!back || plan_parse(back, a, &copy, &err) < 0) {
        if (back && err.code == ERR_TOO_LARGE)
            return;
        abort();
    }
    if (plan_compile(copy, schema, &again, &err) < 0 ||
        strcmp(buf_cstr(&sql), buf_cstr(&again)) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    auto_arena struct arena a, schema_arena;
    auto_json json_t *j = NULL;
    auto_json json_t *schema_json = NULL;
    struct plan_schema *schema;
    struct err err = ERR_INIT;

    arena_init(&a, PLAN_ARENA_BYTES);
    arena_init(&schema_arena, 1u << 20);
    if (json_parse((const char *)data, size, &j, &err) < 0)
        return 0;
    if (json_parse(schema_text, strlen(schema_text), &schema_json, &err) < 0 ||
        plan_schema_parse(schema_json, NULL, &schema_arena, &schema, &err) < 0)
        abort();
    try_compile(j, &a, NULL);
    try_compile(j, &a, schema);
    return 0;
}
