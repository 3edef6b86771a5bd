#ifndef RIDDLE_BASE_JSON_OUT_H
#define RIDDLE_BASE_JSON_OUT_H

/*
 * A JSON writer: text without a tree of values behind it. Commas are its own business. The first
 * failure (the buffer is full, no memory) stays: later calls do nothing, and json_out_status()
 * tells it, so that callers check once.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

struct json_out {
    struct buf text;
    bool comma; /* a value stands before what comes next */
    struct err err;
};

void json_out_init(struct json_out *j, size_t max_bytes);
void json_out_finish(struct json_out *j);
void json_out_clear(struct json_out *j); /* forgets text and failure, keeps the memory */
int json_out_status(const struct json_out *j, struct err *err);

void json_out_open(struct json_out *j, char bracket);        /* '{' or '[' */
void json_out_close(struct json_out *j, char bracket);       /* '}' or ']' */
void json_out_key(struct json_out *j, const char *key);      /* plain ASCII; its value follows */
void json_out_key_text(struct json_out *j, const char *key); /* any UTF-8, escaped */

void json_out_str(struct json_out *j, const char *s, size_t len); /* UTF-8; NUL becomes U+FFFD */
/* the same of a C string; NULL is null */
void json_out_text(struct json_out *j, const char *s);
void json_out_int(struct json_out *j, int64_t v);
void json_out_fixed(struct json_out *j, double v, int decimals); /* null unless it is finite */
void json_out_bool(struct json_out *j, bool v);
void json_out_null(struct json_out *j);
void json_out_value(struct json_out *j, const json_t *v);
void json_out_raw(struct json_out *j, const char *json, size_t len); /* one value, already JSON */

/*
 * For whoever writes a value piece by piece: the buffer, with the comma in front of the value
 * written. What it appends must be one value. The failure of an append is the caller's to report.
 */
struct buf *json_out_begin(struct json_out *j);

#endif
