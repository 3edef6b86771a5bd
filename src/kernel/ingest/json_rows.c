/*
 * Rows that are lists in JSON: [["a", "b"], [1, 2], …] and {"columns": ["a", "b"], "data": [[1, 2],
 * …]}. The text is gone through twice: for the width and for columns of truth values, and to write
 * the rows. Values that are lists or objects themselves are kept as text.
 */

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "base/macros.h"
#include "base/str.h"
#include "kernel/ingest/formats.h"
#include "kernel/ingest/scratch_db.h"

#define MAX_DEPTH 200
#define ROWS_BETWEEN_CHECKS 1024
#define MAX_VALUE_BYTES (16u << 20)

struct cursor {
    const char *at, *end;
};

struct value {
    const char *begin;
    size_t len;
};

struct rows {
    const struct scratch_job *job;
    struct cursor rows, names; /* behind the bracket that opens the list; names.at NULL: none */
    size_t width, n_names;
    bool named_by_first; /* the first row has the names */
    struct scratch_column columns[SCRATCH_MAX_COLUMNS];
    bool any[SCRATCH_MAX_COLUMNS]; /* a truth value */
};

static void skip_space(struct cursor *c)
{
    while (c->at < c->end && strchr(" \t\r\n", *c->at) && *c->at)
        c->at++;
}

static bool take(struct cursor *c, char sign)
{
    skip_space(c);
    if (c->at == c->end || *c->at != sign)
        return false;
    c->at++;
    return true;
}

static void skip_string(struct cursor *c)
{
    for (c->at++; c->at < c->end && *c->at != '"'; c->at++)
        if (*c->at == '\\')
            c->at++;
    c->at = MIN_OF(c->at + 1, c->end);
}

/* A value of any kind. False: there is none, or it has no end. */
static bool take_value(struct cursor *c, struct value *ret)
{
    size_t depth = 0;

    skip_space(c);
    *ret = (struct value){ .begin = c->at };
    while (c->at < c->end) {
        char sign = *c->at;

        if (sign == '"')
            skip_string(c);
        else if (depth == 0 && strchr(",]}:", sign))
            break;
        else
            c->at++;
        depth += sign == '[' || sign == '{';
        depth -= (sign == ']' || sign == '}') && depth > 0;
        if (depth > MAX_DEPTH)
            return false;
        if (depth == 0 && strchr("\"]}", sign))
            break;
    }
    ret->len = (size_t)(c->at - ret->begin);
    while (ret->len > 0 && isspace((unsigned char)ret->begin[ret->len - 1]))
        ret->len--;
    return ret->len > 0 && depth == 0;
}

static bool is(const struct value *v, const char *word)
{
    return v->len == strlen(word) && memcmp(v->begin, word, v->len) == 0;
}

static bool is_text(const struct value *v)
{
    return v->begin[0] == '"';
}

/* ---- where they are ---- */

static bool is_list_of(struct cursor c, char first)
{
    return take(&c, '[') && take(&c, first);
}

/* How many texts the list has; 0: it has something else. */
static size_t count_texts(struct cursor c)
{
    struct value v;
    size_t n = 0;

    if (!take(&c, '['))
        return 0;
    do {
        if (!take_value(&c, &v) || !is_text(&v))
            return 0;
        n++;
    } while (take(&c, ','));
    return take(&c, ']') ? n : 0;
}

/* The one list of lists of the object, and a list of texts that may be the names. */
static bool find_rows(struct rows *r, struct cursor c)
{
    struct value key, v;

    if (is_list_of(c, '[')) {
        take(&c, '[');
        r->rows = c;
        return true;
    }
    if (!take(&c, '{'))
        return false;
    do {
        if (!take_value(&c, &key) || !is_text(&key) || !take(&c, ':'))
            return false;
        skip_space(&c);
        struct cursor at = c;
        if (!take_value(&c, &v))
            return false;
        size_t n = count_texts(at);
        if (is_list_of(at, '[')) {
            if (r->rows.at)
                return false;
            take(&at, '[');
            r->rows = at;
        } else if (n > 0 && (!r->names.at || is(&key, "\"columns\""))) {
            take(&at, '[');
            r->names = at;
            r->n_names = n;
        }
    } while (take(&c, ','));
    return r->rows.at && take(&c, '}');
}

/* ---- through all rows ---- */

static int refuse(const struct rows *r, size_t row, const char *what, struct err *err)
{
    return err_set(err, ERR_VALIDATION,
                   "'%.200s' cannot be read as JSON: list %zu of its rows %s; send "
                   "[{\"name\": value, …}, …] with an object for each row",
                   r->job->name, row + 1, what);
}

/* 1: the next value of the row; 0: that was the last. */
static int next_value(const struct rows *r, struct cursor *c, size_t row, size_t i, struct value *v,
                      struct err *err)
{
    if (take(c, ']'))
        return 0;
    if ((i > 0 && !take(c, ',')) || !take_value(c, v))
        return refuse(r, row, "is malformed", err);
    if (i >= SCRATCH_MAX_COLUMNS)
        return refuse(r, row, "has more than 2,000 values", err);
    return 1;
}

/* 1: the next row is open. */
static int next_row(const struct rows *r, struct cursor *c, size_t row, struct err *err)
{
    if (take(c, ']'))
        return 0;
    if ((row > 0 && !take(c, ',')) || !take(c, '['))
        return refuse(r, row, "is malformed, or no list", err);
    return 1;
}

static int look(struct rows *r, struct err *err)
{
    struct cursor c = r->rows;
    bool texts = true;
    size_t row = 0;
    int open;

    for (; (open = next_row(r, &c, row, err)) == 1; row++) {
        struct value v;
        size_t i = 0;
        int more;

        for (; (more = next_value(r, &c, row, i, &v, err)) == 1; i++) {
            bool truth = is(&v, "true") || is(&v, "false");

            texts = texts && (row > 0 || (is_text(&v) && v.len > 2));
            if (row == 0)
                r->columns[i].kind = SCRATCH_BOOLEAN;
            r->any[i] = r->any[i] || truth;
            /* The names, if it turns out that the first row has them, are no values. */
            if (!truth && !is(&v, "null") && (row > 0 || !is_text(&v)))
                r->columns[i].kind = SCRATCH_ANY;
        }
        if (more < 0)
            return more;
        r->width = MAX_OF(r->width, i);
    }
    for (size_t i = 0; i < r->width; i++)
        if (!r->any[i])
            r->columns[i].kind = SCRATCH_ANY;
    if (r->n_names != r->width)
        r->names.at = NULL;
    r->named_by_first = !r->names.at && texts && row > 1;
    return open < 0 ? open : 0;
}

static int put(struct scratch_db *out, const struct rows *r, size_t i, const struct value *v,
               struct buf *text, struct err *err)
{
    enum scratch_kind kind = r->columns[i].kind;
    int n = 0;

    if (is(v, "null"))
        return 0;
    if (!is_text(v) || !memchr(v->begin, '\\', v->len))
        return scratch_db_set(out, i, kind, v->begin + is_text(v), v->len - 2 * is_text(v),
                              is_text(v), err);
    auto_json json_t *parsed = NULL;
    buf_clear(text);
    n = buf_append_str(text, "[", err);
    if (n == 0)
        n = buf_append(text, v->begin, v->len, err);
    if (n == 0)
        n = buf_append_str(text, "]", err);
    if (n == 0)
        n = json_parse(text->data, text->len, &parsed, err);
    const json_t *s = json_array_get(parsed, 0);
    return n < 0 ?
               n :
               scratch_db_set(out, i, kind, json_string_value(s), json_string_length(s), true, err);
}

static int take_names(struct rows *r, struct cursor *c, struct err *err)
{
    struct cursor names = r->named_by_first ? *c : r->names;
    struct value v;

    if (r->named_by_first)
        take(&names, '[');
    for (size_t i = 0; i < r->width; i++) {
        bool has = (r->named_by_first || r->names.at) && (i == 0 || take(&names, ',')) &&
                   take_value(&names, &v) && is_text(&v) && v.len > 2;

        int len = has ? (int)MIN_OF(v.len - 2, (size_t)INT_MAX) : 0;
        int n = has ? asprintf(&r->columns[i].name, "%.*s", len, v.begin + 1) :
                      asprintf(&r->columns[i].name, "column%zu", i);

        if (n < 0)
            return err_set(err, ERR_NO_MEMORY, "out of memory for names");
    }
    if (r->named_by_first) {
        take_value(c, &v);
        take(c, ',');
    }
    return 0;
}

static int write_rows(struct rows *r, struct scratch_db *out, struct err *err)
{
    auto_buf struct buf text = BUF_INIT(MAX_VALUE_BYTES);
    struct cursor c = r->rows;
    int n = take_names(r, &c, err), open = 1;

    if (n == 0)
        n = scratch_db_create(out, "data", r->columns, r->width, err);
    for (size_t row = 0; n == 0 && (open = next_row(r, &c, row, err)) == 1; row++) {
        struct value v;

        for (size_t i = 0; n == 0 && (n = next_value(r, &c, row, i, &v, err)) == 1; i++)
            n = put(out, r, i, &v, &text, err);
        if (n == 0)
            n = scratch_db_end_row(out, err);
        if (n == 0 && row % ROWS_BETWEEN_CHECKS == 0 &&
            r->job->hooks->must_stop(r->job->hooks->arg))
            n = err_set(err, ERR_CANCELLED, "interrupted");
    }
    return n < 0 ? n : MIN_OF(open, 0);
}

int scratch_from_json(const struct scratch_job *job, struct err *err)
{
    auto_free struct rows *r = calloc(1, sizeof(*r));
    struct scratch_db out = { 0 };
    struct cursor c = { job->text, job->text + job->len };
    int n = r ? 0 : err_set(err, ERR_NO_MEMORY, "out of memory for rows");

    if (n < 0)
        return n;
    r->job = job;
    if (!find_rows(r, c))
        return 0;
    n = look(r, err);
    if (n == 0 && r->width == 0)
        return 0;
    if (n == 0)
        n = scratch_db_open(&out, job->out_path, job->max_bytes, err);
    if (n == 0)
        n = write_rows(r, &out, err);
    if (n == 0)
        n = scratch_db_close(&out, err);
    scratch_db_finish(&out);
    for (size_t i = 0; i < SCRATCH_MAX_COLUMNS; i++)
        free(r->columns[i].name);
    return n < 0 ? n : 1;
}
