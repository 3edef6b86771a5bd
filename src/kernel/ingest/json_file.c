/*
 * The outline of a JSON file. The text is gone through once, without building anything: strings are
 * skipped, brackets counted, and the keys on the way down remembered. A file of lines is left after
 * its first line.
 */

#include "kernel/ingest/json_file.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include "base/macros.h"
#include "base/str.h"
#include "kernel/ingest/csv_records.h"

#define MAX_DEPTH 64 /* below this no array is looked for */

struct span {
    size_t at, len;
};

struct outline {
    const char *data;
    size_t len, at;
    size_t depth;     /* open brackets */
    size_t in_arrays; /* of which [ */
    struct span text; /* the string that was passed last */
    struct span keys[MAX_DEPTH];
    bool open; /* within an array of objects */
    struct json_records *found;
};

static size_t skip_space(const char *data, size_t len, size_t at)
{
    while (at < len &&
           (data[at] == ' ' || data[at] == '\n' || data[at] == '\r' || data[at] == '\t'))
        at++;
    return at;
}

/* From behind the opening quote to behind the closing one. */
static size_t skip_string(const char *data, size_t len, size_t at)
{
    while (at < len) {
        const char *quote = memchr(data + at, '"', len - at);
        size_t end, slashes = 0;

        if (!quote)
            return len;
        end = (size_t)(quote - data);
        while (slashes < end - at && data[end - 1 - slashes] == '\\')
            slashes++;
        at = end + 1;
        if (slashes % 2 == 0)
            return at;
    }
    return len;
}

static void write_path(const struct outline *o, char ret[JSON_PATH_SIZE])
{
    char shown[STR_SHOWN_SIZE];
    size_t n = 0;

    ret[0] = '\0';
    for (size_t k = 0; k < o->depth && n < JSON_PATH_SIZE; k++) {
        const struct span *key = &o->keys[k];
        int written = snprintf(ret + n, JSON_PATH_SIZE - n, "%s%s", k ? "." : "",
                               str_show(o->data + key->at, key->len, shown, sizeof(shown)));

        n += written > 0 ? (size_t)written : 0;
    }
    ret[str_utf8_cut(ret, strlen(ret), JSON_PATH_SIZE - 1)] = '\0';
}

static void open_array(struct outline *o)
{
    size_t next = skip_space(o->data, o->len, o->at + 1);
    struct json_records *f = o->found;

    if (o->in_arrays == 0 && o->depth < MAX_DEPTH && next < o->len && o->data[next] == '{') {
        if (f->n_found < JSON_MAX_LISTS) {
            struct json_list *list = &f->lists[f->n_lists++];

            *list = (struct json_list){ .begin = o->at, .depth = o->depth };
            write_path(o, list->path);
        }
        f->n_found++;
        o->open = true;
    }
    o->in_arrays++;
}

static void close_array(struct outline *o)
{
    struct json_records *f = o->found;

    o->in_arrays -= o->in_arrays > 0;
    if (o->in_arrays == 0 && o->open) {
        if (f->n_found == f->n_lists)
            f->lists[f->n_lists - 1].end = o->at + 1;
        o->open = false;
    }
}

/* Goes through the object at o->at. False: it has no end. */
static bool pass_object(struct outline *o)
{
    for (; o->at < o->len; o->at++) {
        switch (o->data[o->at]) {
        case '"': {
            size_t begin = o->at + 1;

            o->at = skip_string(o->data, o->len, begin) - 1;
            o->text = (struct span){ .at = begin, .len = o->at > begin ? o->at - begin : 0 };
            break;
        }
        case ':':
            if (o->in_arrays == 0 && o->depth > 0 && o->depth <= MAX_DEPTH)
                o->keys[o->depth - 1] = o->text;
            break;
        case '[':
            open_array(o);
            o->depth++;
            break;
        case '{':
            o->depth++;
            break;
        case ']':
            close_array(o);
            o->depth -= o->depth > 0;
            break;
        case '}':
            o->depth -= o->depth > 0;
            if (o->depth == 0) {
                o->at++;
                return true;
            }
            break;
        default:
            break;
        }
    }
    return false;
}

int json_check_shape(const char *data, size_t len, const char *name, struct err *err)
{
    size_t keys[JSON_SHAPE_DEPTH + 1] = { 0 }, depth = 0;

    len = MIN_OF(len, JSON_SHAPE_BYTES);
    for (size_t at = 0; at < len; at++) {
        switch (data[at]) {
        case '"':
            at = skip_string(data, len, at + 1) - 1;
            break;
        case ':':
            if (++keys[depth] > CSV_MAX_COLUMNS)
                return err_set(
                    err, ERR_VALIDATION,
                    "'%.200s' has an object with more than %d keys, which would be as many "
                    "columns: turn keys into rows, [{\"name\": key, \"value\": value}, …]",
                    name, CSV_MAX_COLUMNS);
            break;
        case '{':
        case '[':
            if (++depth > JSON_SHAPE_DEPTH)
                return err_set(err, ERR_VALIDATION,
                               "'%.200s' has values that are nested deeper than %d levels", name,
                               JSON_SHAPE_DEPTH);
            keys[depth] = 0;
            break;
        case '}':
        case ']':
            depth -= depth > 0;
            break;
        default:
            break;
        }
    }
    return 0;
}

/* What describes a file ({"schema":{"fields":[…]},"data":[…]}) is deeper than its data. */
static void sort_by_depth(struct json_records *f)
{
    for (size_t i = 1; i < f->n_lists; i++) {
        struct json_list list = f->lists[i];
        size_t k = i;

        for (; k > 0 && f->lists[k - 1].depth > list.depth; k--)
            f->lists[k] = f->lists[k - 1];
        f->lists[k] = list;
    }
}

bool json_may_be_rows(const char *data, size_t len)
{
    size_t at = skip_space(data, len, len >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0 ? 3 : 0);
    char last = 0;

    if (at < len && data[at] == '[') {
        at = skip_space(data, len, at + 1);
        return at < len && data[at] == '[';
    }
    for (; at < len; at = skip_space(data, len, at + 1)) {
        if (data[at] == '"')
            at = skip_string(data, len, at + 1) - 1;
        else if (data[at] == '[' && last == '[')
            return true;
        else if (data[at] == '{' && (last == '[' || last == '{'))
            return false;
        if (strchr("[]{}", data[at]))
            last = data[at];
    }
    return false;
}

int json_find_records(const char *data, size_t len, const char *name, struct json_records *ret,
                      struct err *err)
{
    struct outline o = { .data = data, .len = len, .found = ret };
    size_t start;

    *ret = (struct json_records){ .layout = RECORDS_ARRAY };
    if (len >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0)
        o.at = 3;
    start = o.at = skip_space(data, len, o.at);
    if (start < len && data[start] == '[') {
        size_t next = skip_space(data, len, start + 1);

        if (next < len && data[next] == ']')
            return err_set(
                err, ERR_VALIDATION,
                "JSON has no data rows: '%.200s' is an empty list; send a file with rows in it",
                name);
        if (next < len && data[next] != '{')
            return err_set(
                err, ERR_VALIDATION,
                "'%.200s' is a JSON array, but not of objects; send [{\"name\": value, …}, …] with an object for each row",
                name);
        return 0;
    }
    if (start == len || data[start] != '{')
        return err_set(
            err, ERR_VALIDATION,
            "'%.200s' is not JSON with rows in it; send an array of objects, or one object on each line",
            name);
    if (!pass_object(&o)) {
        ret->layout = RECORDS_OBJECTS;
    } else if (skip_space(data, len, o.at) < len) {
        ret->layout = memchr(data + start, '\n', o.at - start) ? RECORDS_OBJECTS : RECORDS_LINES;
    } else {
        ret->layout = ret->n_lists > 0 ? RECORDS_INSIDE : RECORDS_OBJECTS;
    }
    if (ret->layout != RECORDS_INSIDE)
        ret->n_lists = ret->n_found = 0;
    sort_by_depth(ret);
    return 0;
}
