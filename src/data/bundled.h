#ifndef RIDDLE_DATA_BUNDLED_H
#define RIDDLE_DATA_BUNDLED_H

/*
 * The sets that come with Riddle: what their files hold, in words, and the functions that write
 * them.
 */

#include <stdbool.h>
#include <stddef.h>
#include "base/buf.h"
#include "base/err.h"

#define BUNDLED_MAX_FILES 3
#define BUNDLED_PROMPTS 6

struct bundled_column {
    const char *name;
    const char *type; /* string, integer, float, date, datetime */
    const char *description;
    const char *values; /* all that occur, separated by '|'; NULL: too many to list */
    bool nullable;
};

struct bundled_file {
    const char *name;
    const char *description;
    int rows;
    const struct bundled_column *columns;
    size_t n_columns;
};

struct bundled_set {
    const char *id;
    const char *name;
    const char *description;
    const char *domain;
    const char *tags; /* separated by '|' */
    struct bundled_file files[BUNDLED_MAX_FILES];
    size_t n_files;
    const char *const (*relationships)[2]; /* many-to-one: {from, to} */
    size_t n_relationships;
    const char *prompts[BUNDLED_PROMPTS];
    int (*write)(struct buf *files, struct err *err); /* appends the CSV of each file, in order */
};

extern const struct bundled_set bundled_sets[];
extern const size_t n_bundled_sets;

#define ECOMMERCE_SEED 42
#define SUPPORT_SEED 43
#define SENSORS_SEED 44
#define TRANSACTIONS_SEED 45

#define ECOMMERCE_ORDERS 4018
#define ECOMMERCE_RETURNED 1416
#define ECOMMERCE_CANCELLED 132
#define ECOMMERCE_ITEMS 9008
#define ECOMMERCE_PRODUCTS 500
#define SUPPORT_TICKETS 6417
#define SENSORS_COUNT 150
#define SENSORS_HOURS 333
#define TRANSACTIONS_COUNT 1000

int bundled_write_ecommerce(struct buf *files, struct err *err);
int bundled_write_support(struct buf *files, struct err *err);
int bundled_write_sensors(struct buf *files, struct err *err);
int bundled_write_transactions(struct buf *files, struct err *err);

#endif
