#include "shop.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

json_t *json_of(const char *text)
{
    struct err err = ERR_INIT;
    json_t *j = NULL;
    char *copy = strdup(text);
    for (char *p = copy; *p; p++)
        *p = *p == '\'' ? '"' : *p;
    if (json_parse(copy, strlen(copy), &j, &err) < 0)
        fail_msg("%s: %s", err.message, copy);
    free(copy);
    return j;
}

void feed_catalog(struct catalog *c, const char *body)
{
    struct err err = ERR_INIT;
    auto_json json_t *j = json_of(body);
    if (catalog_feed(c, j, &err) < 0)
        fail_msg("%s", err.message);
}

struct catalog *catalog_of_sales(void)
{
    struct err err = ERR_INIT;
    struct catalog *c = NULL;
    static const char *const tables[] = { "sales" };
    assert_int_equal(catalog_create("shop", DIALECT_DUCKDB, tables, 1, NULL, NULL, &c, &err), 0);
    feed_catalog(c, SALES_SHAPE);
    feed_catalog(c, SALES_FACTS);
    return c;
}
