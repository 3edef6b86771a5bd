#include "kernel/sql_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/fdio.h"

char fixture_dir[64];
struct sql_engine *engine;

int fixture_open(void **state)
{
    (void)state;
    snprintf(fixture_dir, sizeof(fixture_dir), "/tmp/riddle-test-XXXXXX");
    return mkdtemp(fixture_dir) ? 0 : -1;
}

int fixture_close(void **state)
{
    struct err err = ERR_INIT;

    (void)state;
    return fd_remove_tree(fixture_dir, &err);
}

const char *fixture_path(const char *name)
{
    static char paths[8][256];
    static unsigned next;
    char *path = paths[next++ % 8];

    snprintf(path, sizeof(paths[0]), "%s/%s", fixture_dir, name);
    return path;
}

void fixture_write(const char *name, const void *data, size_t len)
{
    FILE *f = fopen(fixture_path(name), "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

/* The strict parser: what the kernel writes must pass it whatever the data are. */
static json_t *close_and_parse(struct result *out)
{
    json_t *result = NULL;
    struct err err = ERR_INIT;

    if (result_end(out, &err) < 0 ||
        json_parse(out->json.text.data, out->json.text.len, &result, &err) < 0)
        fail_msg("no result: %s: %.500s", err.message, buf_cstr(&out->json.text));
    assert_string_equal(json_string_value(json_object_get(result, "verdict")),
                        wire_verdict_name(out->verdict));
    result_finish(out);
    return result;
}

json_t *fixture_sql(struct sql_engine *e, const char *sql, bool policy, int64_t max_rows,
                    int64_t max_bytes)
{
    struct result out;
    struct sql_request req = { .sql = sql,
                               .sql_len = strlen(sql),
                               .policy = policy,
                               .max_rows = max_rows,
                               .max_bytes = max_bytes };
    struct err err = ERR_INIT;

    result_init(&out, 16 << 20);
    if (sql_execute(e, &req, &out, &err) < 0)
        fail_msg("the engine failed on %.200s: %s", sql, err.message);
    return close_and_parse(&out);
}

json_t *fixture_ingest(struct sql_engine *e, const char *csv, const char *out_name)
{
    struct result out;
    char out_path[256];
    struct sql_ingest in = { .path = csv[0] == '/' ? csv : fixture_path(csv),
                             .name = csv,
                             .out_path = out_path,
                             .threads = 2,
                             .memory_bytes = 512 << 20,
                             .temp_directory = fixture_dir };
    struct err err = ERR_INIT;

    snprintf(out_path, sizeof(out_path), "%s", fixture_path(out_name));
    result_init(&out, 16 << 20);
    if (sql_ingest(e, &in, &out, &err) < 0)
        fail_msg("the engine failed on %s: %s", csv, err.message);
    return close_and_parse(&out);
}

const char *fixture_verdict(const json_t *result)
{
    return json_string_value(json_object_get(result, "verdict"));
}

const char *fixture_message(const json_t *result)
{
    const char *s = json_string_value(json_object_get(json_object_get(result, "error"), "message"));

    return s ? s : "";
}

const char *fixture_type(const json_t *result)
{
    const char *s = json_string_value(json_object_get(json_object_get(result, "error"), "type"));

    return s ? s : "";
}

int fixture_open_tables(void **state)
{
    static const char orders[] =
        "order_id,status,total\n1,completed,10.50\n2,returned,20\n3,completed,30\n";
    static const char items[] = "order_id,name\n1,pen\n1,ink\n3,paper\n";
    struct sql_engine *e;

    if (fixture_open(state) < 0)
        return -1;
    fixture_write("orders.csv", orders, strlen(orders));
    fixture_write("items.csv", items, strlen(items));
    e = fixture_create();
    json_decref(fixture_ingest(e, "orders.csv", "orders.db"));
    json_decref(fixture_ingest(e, "items.csv", "items.db"));
    sql_engine_destroy(e);
    return 0;
}

struct sql_engine *fixture_create(void)
{
    struct sql_engine *e = NULL;
    struct err err = ERR_INIT;

    if (sql_engine_create(&e, &err) < 0)
        fail_msg("%s", err.message);
    return e;
}

int fixture_set_up(struct sql_engine *e, const char *dataset, int64_t memory_bytes,
                   const char *temp_directory, struct err *err)
{
    struct sql_table tables[] = { { "orders", fixture_path("orders.db"), 0 },
                                  { "order_items", fixture_path("items.db"), 0 } };
    struct sql_setup setup = { .dataset_id = dataset,
                               .tables = tables,
                               .n_tables = 2,
                               .memory_bytes = memory_bytes,
                               .threads = 2,
                               .temp_directory = temp_directory };

    return sql_engine_setup(e, &setup, err);
}

struct sql_engine *fixture_engine(const char *dataset, int64_t memory_bytes,
                                  const char *temp_directory)
{
    struct sql_engine *e = fixture_create();
    struct err err = ERR_INIT;

    if (fixture_set_up(e, dataset, memory_bytes, temp_directory, &err) < 0)
        fail_msg("%s", err.message);
    return e;
}

int fixture_open_engine(void **state)
{
    struct err err = ERR_INIT;

    return fixture_open(state) < 0 || sql_engine_create(&engine, &err) < 0 ? -1 : 0;
}

int fixture_open_shop(void **state)
{
    if (fixture_open_tables(state) < 0)
        return -1;
    engine = fixture_engine("My Shop", 256 << 20, fixture_dir);
    return 0;
}

int fixture_close_engine(void **state)
{
    sql_engine_destroy(engine);
    return fixture_close(state);
}
