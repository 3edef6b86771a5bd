#ifndef RIDDLE_KERNEL_INGEST_READ_OPTIONS_H
#define RIDDLE_KERNEL_INGEST_READ_OPTIONS_H

/* What the user has said about how a file is to be read; what is not said is found out. */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "kernel/ingest/value.h"

#define READ_NULL_WORDS 32

struct read_options {
    const char *encoding;  /* as iconv names it; NULL: not said, as below */
    const char *delimiter; /* one to three bytes */
    const char *quote;     /* "" for none */
    int64_t header_line;   /* 0: there is no header; -1: not said */
    char decimal, thousands;
    enum date_order order;
    bool text; /* values as they stand */
    const char *sheet;
    const char *null_words[READ_NULL_WORDS];
    size_t n_null_words;
    int64_t first_line; /* not the user's: of the text that is read, in its file; 0: the first */
};

#define READ_OPTIONS_INIT                                                                          \
    {                                                                                              \
        .header_line = -1                                                                          \
    }

/*
 * {"encoding","delimiter","quote","header_line","decimal","thousands","date_order","types","sheet",
 * "nulls"}, each optional. The strings
 * stay the JSON's. VALIDATION names the option that is wrong. NULL is an object without members.
 */
int read_options_parse(const json_t *json, struct read_options *ret, struct err *err);

#endif
