/*
 * libduckdb called directly, as a program of its own would: ingest of a CSV by CREATE TABLE AS, and
 * a query on that table. Prints the milliseconds of the ingest, then of each run of the query.
 *
 *   duckdb_direct CSV DATABASE THREADS COUNT SQL
 */

#include <duckdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"

static int run(duckdb_connection con, const char *sql)
{
    duckdb_result result;
    if (duckdb_query(con, sql, &result) == DuckDBError) {
        fprintf(stderr, "duckdb_direct: %s\n", duckdb_result_error(&result));
        return 1;
    }
    duckdb_data_chunk chunk;
    while ((chunk = duckdb_fetch_chunk(result)))
        duckdb_destroy_data_chunk(&chunk);
    duckdb_destroy_result(&result);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 6)
        return 2;
    duckdb_database db;
    duckdb_connection con;
    char sql[4096], *error = NULL;
    duckdb_config config;
    duckdb_create_config(&config);
    duckdb_set_config(config, "threads", argv[3]);
    int64_t begun = clock_now_us();
    if (duckdb_open_ext(argv[2], &db, config, &error) == DuckDBError ||
        duckdb_connect(db, &con) == DuckDBError) {
        fprintf(stderr, "duckdb_direct: %s\n", error ? error : "cannot connect");
        return 1;
    }
    snprintf(sql, sizeof(sql), "CREATE TABLE data AS SELECT * FROM read_csv('%s')", argv[1]);
    if (run(con, sql) || run(con, "CHECKPOINT"))
        return 1;
    printf("%.3f\n", (double)(clock_now_us() - begun) / 1000);
    for (int i = 0; i < atoi(argv[4]); i++) {
        begun = clock_now_us();
        if (run(con, argv[5]))
            return 1;
        printf("%.3f\n", (double)(clock_now_us() - begun) / 1000);
    }
    duckdb_disconnect(&con);
    duckdb_close(&db);
    return 0;
}
