/*
 * The outline of a JSON file. The text is gone through once, without building anything: strings are skipped, brackets counted, and
 * the keys on the way down remembered. A file of lines is left after its first line.
 */

#include "kernel/ingest/json_file.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include "base/macros.h"
#include "base/str.h"
#include "kernel/ingest/csv_records.h"

#define MAX_DEPTH 64 /* below this no array is looked for */
#define MAX_SHOWN 4

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
    size_t n_found; /* arrays of objects */
    bool open;      /* within one of them */
    size_t found_depth[MAX_SHOWN];
    struct span found_keys[MAX_SHOWN][MAX_DEPTH];
    size_t begin, end; /* of the first */
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

static void open_array(struct outline *o)
{
    size_t next = skip_space(o->data, o->len, o->at + 1);

    if (o->in_arrays == 0 && o->depth < MAX_DEPTH && next < o->len && o->data[next] == '{') {
        if (o->n_found == 0)
            o->begin = o->at;
        if (o->n_found < MAX_SHOWN) {
            o->found_depth[o->n_found] = o->depth;
            memcpy(o->found_keys[o->n_found], o->keys, sizeof(o->keys));
        }
        o->n_found++;
        o->open = true;
    }
    o->in_arrays++;
}

static void close_array(struct outline *o)
{
    o->in_arrays -= o->in_arrays > 0;
    if (o->in_arrays == 0 && o->open) {
        if (o->n_found == 1)
            o->end = o->at + 1;
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

static void write_path(const struct outline *o, size_t i, char *ret, size_t size)
{
    char shown[STR_SHOWN_SIZE];
    size_t n = 0;

    ret[0] = '\0';
    for (size_t k = 0; k < o->found_depth[i] && n < size; k++) {
        const struct span *key = &o->found_keys[i][k];
        int written = snprintf(ret + n, size - n, "%s%s", k ? "." : "",
                               str_show(o->data + key->at, key->len, shown, sizeof(shown)));

        n += written > 0 ? (size_t)written : 0;
    }
    ret[str_utf8_cut(ret, strlen(ret), size - 1)] = '\0';
}

static int refuse_several(const struct outline *o, const char *name, struct err *err)
{
    char list[MAX_SHOWN * (JSON_PATH_SIZE + 8)] = "", path[JSON_PATH_SIZE];

    for (size_t i = 0; i < MIN_OF(o->n_found, (size_t)MAX_SHOWN); i++) {
        size_t n = strlen(list);

        write_path(o, i, path, sizeof(path));
        snprintf(list + n, sizeof(list) - n, "%s'%s'", i ? ", " : "", path);
    }
    return err_set(
        err, ERR_VALIDATION,
        "'%.200s' has %zu lists of objects (%s%s); send the one that is meant, as a file of its own",
        name, o->n_found, list, o->n_found > MAX_SHOWN ? ", …" : "");
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

int json_find_records(const char *data, size_t len, const char *name, struct json_records *ret,
                      struct err *err)
{
    struct outline o = { .data = data, .len = len };
    struct json_records found = { .layout = RECORDS_ARRAY };
    size_t start;

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
        *ret = found;
        return 0;
    }
    if (start == len || data[start] != '{')
        return err_set(
            err, ERR_VALIDATION,
            "'%.200s' is not JSON with rows in it; send an array of objects, or one object on each line",
            name);
    if (!pass_object(&o)) {
        found.layout = RECORDS_OBJECTS;
    } else if (skip_space(data, len, o.at) < len) {
        found.layout = memchr(data + start, '\n', o.at - start) ? RECORDS_OBJECTS : RECORDS_LINES;
    } else if (o.n_found > 1) {
        return refuse_several(&o, name, err);
    } else if (o.n_found == 1) {
        found = (struct json_records){ .layout = RECORDS_INSIDE, .begin = o.begin, .end = o.end };
        write_path(&o, 0, found.path, sizeof(found.path));
    } else {
        found.layout = RECORDS_OBJECTS;
    }
    *ret = found;
    return 0;
}
