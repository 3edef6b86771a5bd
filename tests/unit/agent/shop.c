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

void feed_scan(struct table_scan *s, const char *body)
{
    struct err err = ERR_INIT;
    auto_json json_t *j = json_of(body);
    if (table_scan_feed(s, j, &err) < 0)
        fail_msg("%s", err.message);
}

json_t *scan_of(const char *table, enum plan_dialect dialect, const char *const *answers, size_t n,
                json_t **ret_values)
{
    struct err err = ERR_INIT;
    struct table_scan *s = NULL;
    json_t *profile = NULL;
    int64_t rows;
    assert_int_equal(table_scan_create(table, dialect, &s, &err), 0);
    for (size_t i = 0; i < n; i++)
        feed_scan(s, answers[i]);
    assert_null(table_scan_next_sql(s, &rows));
    table_scan_take(s, &profile, ret_values);
    table_scan_destroy(s);
    return profile;
}

struct catalog *catalog_of_sales(void)
{
    static const char *const answers[] = { SALES_SHAPE, SALES_FIGURES, SALES_VALUES };
    struct err err = ERR_INIT;
    struct catalog *c = NULL;
    auto_json json_t *values = NULL,
                     *profile = scan_of("sales", DIALECT_DUCKDB, answers, 3, &values);
    assert_int_equal(catalog_create("shop", DIALECT_DUCKDB, NULL, NULL, &c, &err), 0);
    assert_int_equal(catalog_add(c, "sales", profile, values, &err), 0);
    assert_int_equal(catalog_finish(c, &err), 0);
    return c;
}
