#ifndef RIDDLE_API_ROWS_H
#define RIDDLE_API_ROWS_H

/*
 * The rows of a SELECT, however many there are: a page of them, or all of them as a file. The
 * statement runs in a jail each time it is asked for, on the files that it names; nothing of its
 * result is kept between requests.
 */

#include "api/app.h"
#include "base/limits.h"

struct selection {
    const char *owner, *dataset_id;
    const char *database; /* that runs the statement; NULL: a kernel does */
    const struct sandbox_file *files;
    size_t n_files;
    const char *sql;
    const char *name; /* of the file to be saved, without its ending */
    bool refused;     /* of a table: what was refused of it (lease_export) */
    int64_t total;    /* rows of the statement; -1: they are to be counted */
    /* Called when the files are not needed any more. */
    void (*release)(void *held);
    void *held;
};

/*
 * Answers the request by its query: rows_send() by offset, limit, sort and filter, rows_export() by
 * format, sort and filter. Takes over what is held, also when it fails. Strings and files are
 * borrowed until release().
 */
void rows_send(struct http_request *req, const struct selection *s);
void rows_export(struct http_request *req, const struct selection *s);

/* Parameters of both, for routes' tables. */
#define ROWS_LIMIT_DEFAULT 100
extern const char *const rows_formats[];

#define ROWS_SORT_PARAM                                                                            \
    ROUTE_QUERY("sort", STRING,                                                                    \
                "Columns, separated by commas; `-` in front: the largest first. "                  \
                "A name with a comma or a quote in it stands in double quotes.",                   \
                SCHEMA_RANGE(1, 2000), .example = "\"-total,id\"")
#define ROWS_FILTER_PARAM                                                                          \
    ROUTE_QUERY("filter", STRING, "Only rows for which this condition, in SQL, is true.",          \
                SCHEMA_RANGE(1, 4000), .example = "\"total > 100\"")
#define ROWS_PAGE_PARAMS                                                                           \
    ROUTE_QUERY("offset", INTEGER, "Rows to leave out at the beginning.",                          \
                SCHEMA_RANGE(0, 1LL << 53)),                                                       \
        ROUTE_QUERY("limit", INTEGER, "Rows of a page; 100 when missing.",                         \
                    SCHEMA_RANGE(1, RUN_ROWS_MAX)),                                                \
        ROWS_SORT_PARAM, ROWS_FILTER_PARAM
#define ROWS_EXPORT_PARAMS                                                                         \
    ROUTE_QUERY("format", STRING, "Of the file; CSV when missing.", .choices = rows_formats),      \
        ROWS_SORT_PARAM, ROWS_FILTER_PARAM

extern const struct route_response rows_page_responses[], rows_export_responses[];
#define ROWS_ERRORS                                                                                \
    (ROUTE_ERR(NOT_FOUND) | ROUTE_ERR(VALIDATION) | ROUTE_ERR(CONFLICT) | ROUTE_ERR(TOO_LARGE) |   \
     ROUTE_ERR(UNAVAILABLE) | ROUTE_ERR(TIMEOUT))

/* Headers with which a browser saves the file and runs nothing of it; its content type. */
const char *download_headers(struct http_request *req, const char *name);

#endif
