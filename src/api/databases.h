#ifndef RIDDLE_API_DATABASES_H
#define RIDDLE_API_DATABASES_H

/* Answers about databases, for the routes of /databases and of /sandbox/{id}/database. */

#include "net/http.h"

/* The body of a query: {query, parameters?, redact?, max_rows?, timeout_seconds?, database?}. */
extern const struct schema database_query_schema;
extern const struct route_response database_query_responses[], database_schema_responses[];
/* What both may answer. */
#define DATABASE_ERRORS                                                                            \
    (ROUTE_ERR(NOT_FOUND) | ROUTE_ERR(FORBIDDEN) | ROUTE_ERR(VALIDATION) | ROUTE_ERR(TIMEOUT) |    \
     ROUTE_ERR(UNAVAILABLE) | ROUTE_ERR(TOO_LARGE))

/*
 * Runs the query of the body for a thread (NULL: none) and answers {query, parameters, results,
 * count, columns, types, truncated, affected_rows, timestamp}. database NULL: the one that the body
 * names, else the first. A client that leaves cancels it.
 */
void database_serve_query(struct http_request *req, const char *database, const char *thread_id);
/* Answers {<id_name>: id, database, schema: {tables, schema, total_tables}, timestamp}. */
void database_serve_schema(struct http_request *req, const char *database, const char *table,
                           const char *id_name, const char *id);

#endif
