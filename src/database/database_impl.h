#ifndef RIDDLE_DATABASE_DATABASE_IMPL_H
#define RIDDLE_DATABASE_DATABASE_IMPL_H

/*
 * What a kind of database implements: a file of this folder that ends in its struct database_ops,
 * and its line in the table of database.c. tests/contract/test_database.py runs the same cases over
 * every kind.
 *
 * database.c has checked the sizes and limits of a query, counts those under way, and cancels them
 * when they take too long; a backend only asks.
 */

#include "database/database.h"
#include "database/sql_text.h"

struct db_backend; /* of one database; embedded first by its kind */

/* One entry of DATABASES. Lives as long as its backend. */
struct db_entry {
    char *name;
    char *url;      /* with credentials */
    char *writable; /* tables, separated by blanks; NULL: none */
    char *redact;   /* parameters, separated by blanks; NULL: none */
    bool superuser; /* the role may be one */
};

struct db_query {
    struct database *db;
    struct db_query *next, *prev;
    char *sql;
    json_t *params;
    bool internal; /* Riddle's own statement: not checked */
    int64_t timeout_ms;
    struct db_result result;
    db_done_fn done;
    void *arg;
    uv_timer_t *timer;
    void *op; /* the backend's */
};

struct database_ops {
    const char *kind;
    const char *schemes; /* of URLs, separated by blanks */
    /* Opens nothing yet: checks the URL. CONFIG, without the URL in its message. */
    int (*open)(struct databases *d, const struct db_entry *entry, struct db_backend **ret,
                struct err *err);
    /* All queries are gone. Calls db_backend_closed() when nothing of it is left in the loop. */
    void (*close)(struct db_backend *b);
    /*
     * Begins a query. Ends in db_query_end(), never from within, unless cancel() comes first. The
     * rows go into q->result.
     */
    int (*begin)(struct db_backend *b, struct db_query *q, struct err *err);
    /* Also on the server. The query is gone when this returns. */
    void (*cancel)(struct db_backend *b, struct db_query *q);
    /* A statement with the columns of database_schema(). */
    const char *schema_sql;
    /* A statement with the rows of database_facts(). */
    const char *facts_sql;
    /* A statement with one text: what there is to say in doctor. */
    const char *describe_sql;
};

extern const struct database_ops database_postgres_ops, database_sqlite_ops,
    database_clickhouse_ops;

struct db_backend {
    const struct database_ops *ops;
    struct databases *databases;
    const struct db_entry *entry;
};

uv_loop_t *databases_loop(const struct databases *d);
uv_loop_t *db_loop(const struct db_backend *b);
long long db_connections_max(const struct db_backend *b);
const char *db_ca_file(const struct db_backend *b); /* certificates to trust; "": the system's */
void db_backend_closed(struct db_backend *b);
/* Exactly once; err NULL: q->result is complete. q is gone when this returns. */
void db_query_end(struct db_query *q, const struct err *err);

#endif
