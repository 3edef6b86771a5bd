#ifndef RIDDLE_TESTS_SQL_FIXTURE_H
#define RIDDLE_TESTS_SQL_FIXTURE_H

/*
 * A directory of its own, CSV files in it, and results as JSON objects: what the tests of the SQL
 * engine share.
 */

#include <jansson.h>
#include <stddef.h>
#include "kernel/sql/sql.h"

extern char fixture_dir[64]; /* made by fixture_open(), removed with all in it by fixture_close() */

int fixture_open(void **state);
int fixture_close(void **state);
int fixture_open_tables(void **state); /* fixture_open() and two ingested tables */

/* the one that all tests of a program share; destroyed by fixture_close_engine() */
extern struct sql_engine *engine;

int fixture_open_engine(void **state); /* fixture_open() and `engine`, not set up */
/* fixture_open_tables() and `engine`, set up with them as dataset "My Shop" */
int fixture_open_shop(void **state);
int fixture_close_engine(void **state);

struct sql_engine *fixture_create(void);
/* With the tables of fixture_open_tables(), orders and order_items, and two threads. */
int fixture_set_up(struct sql_engine *e, const char *dataset, int64_t memory_bytes,
                   const char *temp_directory, struct err *err);
struct sql_engine *fixture_engine(const char *dataset, int64_t memory_bytes,
                                  const char *temp_directory);

const char *fixture_path(const char *name); /* in fixture_dir; one of eight static buffers */
void fixture_write(const char *name, const void *data, size_t len);

/*
 * The result object; the test fails if the engine fails or the members are no JSON. Caller frees.
 */
json_t *fixture_sql(struct sql_engine *e, const char *sql, bool policy, int64_t max_rows,
                    int64_t max_bytes);
json_t *fixture_ingest(struct sql_engine *e, const char *csv, const char *out);

const char *fixture_verdict(const json_t *result);
const char *fixture_message(const json_t *result); /* "" without an error */
const char *fixture_type(const json_t *result);

#endif
