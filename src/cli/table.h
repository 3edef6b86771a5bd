#ifndef RIDDLE_CLI_TABLE_H
#define RIDDLE_CLI_TABLE_H

/* Results for people (a table that fits the terminal) and for programs (CSV as RFC 4180 has it). */

#include <stdbool.h>
#include <stddef.h>
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

struct table_style {
    int width;   /* columns of the terminal; 0: no limit */
    bool colour; /* bold header, dim NULL */
};

/*
 * Appends the table to b. columns: array of strings; types: array of SQL type names or NULL; rows:
 * array of arrays. A terminal cannot be harmed by it: control characters are shown, not sent.
 * Numbers are never cut.
 */
int table_render(const json_t *columns, const json_t *types, const json_t *rows,
                 const struct table_style *style, struct buf *b, struct err *err);

/* Header and rows, CRLF after each. NULL is an empty field, an empty string is "". */
int table_render_csv(const json_t *columns, const json_t *rows, struct buf *b, struct err *err);

/*
 * Appends text with its control characters made visible (newline and tab too, unless `multiline`),
 * for a terminal. Bytes that are no UTF-8 become U+FFFD. Returns the columns it takes, or a
 * negative error.
 */
int table_append_visible(struct buf *b, const char *text, size_t len, bool multiline,
                         struct err *err);

/*
 * The style for a descriptor: width and colour if it is a terminal (NO_COLOR is honoured), plain
 * otherwise.
 */
void table_style_for(int fd, struct table_style *ret);

#endif
