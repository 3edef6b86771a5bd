/* A guess at the dialect and the types of a plain CSV file: UTF-8, a header of names, no quotes in its first lines. */

#include "kernel/ingest/csv_guess.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/fdio.h"
#include "base/macros.h"

#define HEAD_BYTES 32768
#define MAX_LINES 200
#define MAX_NAME 63

/* The kinds of values, narrow ones first. A value may be of several: bits. */
enum { IS_BOOLEAN = 1, IS_BIGINT = 2, IS_DOUBLE = 4, IS_DATE = 8, IS_TIMESTAMP = 16, IS_ALL = 31 };

static const struct {
    int kind;
    const char *type;
} kinds[] = {
    { IS_BOOLEAN, "BOOLEAN" }, { IS_BIGINT, "BIGINT" },       { IS_DOUBLE, "DOUBLE" },
    { IS_DATE, "DATE" },       { IS_TIMESTAMP, "TIMESTAMP" },
};

struct field {
    const char *text;
    size_t len;
};

/* Does it look like `pattern`, in which a 0 stands for any digit? Only as far as that goes. */
static bool looks_like(struct field f, const char *pattern)
{
    size_t i = 0;

    for (; pattern[i] && i < f.len; i++)
        if (pattern[i] == '0' ? !isdigit((unsigned char)f.text[i]) : f.text[i] != pattern[i])
            return false;
    return pattern[i] == '\0';
}

static int number_kinds(struct field f)
{
    size_t i = f.len > 0 && f.text[0] == '-', digits = 0, points = 0;

    for (; i < f.len; i++) {
        if (isdigit((unsigned char)f.text[i]))
            digits++;
        else if (f.text[i] == '.' && points == 0)
            points++;
        else
            return 0;
    }
    if (digits == 0 || digits > 18)
        return 0;
    return points ? IS_DOUBLE : IS_BIGINT | IS_DOUBLE;
}

static int kinds_of(struct field f)
{
    if (f.len == 0) /* no value at all */
        return IS_ALL;
    if ((f.len == 4 && memcmp(f.text, "true", 4) == 0) || (f.len == 5 && memcmp(f.text, "false", 5) == 0))
        return IS_BOOLEAN;
    if (looks_like(f, "0000-00-00"))
        return f.len == 10 ? IS_DATE : looks_like(f, "0000-00-00 00:00:00") ? IS_TIMESTAMP : 0;
    return number_kinds(f);
}

/* The next field of the line that ends at `end`; *at moves behind its separator. */
static struct field next_field(const char **at, const char *end, char separator)
{
    const char *stop = memchr(*at, separator, (size_t)(end - *at));
    struct field f = { *at, (size_t)((stop ? stop : end) - *at) };

    *at = stop ? stop + 1 : NULL;
    return f;
}

static int read_names(struct csv_dialect *d, const char *at, const char *end, char separator, struct err *err)
{
    while (at) {
        struct field f = next_field(&at, end, separator);
        char name[MAX_NAME + 1];
        int r;

        if (f.len == 0 || f.len > MAX_NAME || !(isalpha((unsigned char)f.text[0]) || f.text[0] == '_'))
            return 0;
        memcpy(name, f.text, f.len);
        name[f.len] = '\0';
        r = csv_dialect_add_column(d, name, "VARCHAR", err);
        if (r < 0)
            return r;
    }
    return 1;
}

/* Narrows the kinds of each column by one line; false if the line has not as many fields as there are columns. */
static bool look_at_line(int *columns, size_t n, const char *at, const char *end, char separator, bool *seen)
{
    for (size_t i = 0; i < n; i++) {
        struct field f;

        if (!at)
            return false;
        f = next_field(&at, end, separator);
        columns[i] &= kinds_of(f);
        seen[i] = seen[i] || f.len > 0;
    }
    return at == NULL;
}

static int set_text(char **text, const char *value, struct err *err)
{
    char *copy = strdup(value);

    if (!copy)
        return err_set(err, ERR_NO_MEMORY, "out of memory for the dialect");
    free(*text);
    *text = copy;
    return 0;
}

static int set_types(struct csv_dialect *d, const int *columns, const bool *seen, struct err *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < d->n_columns; i++) {
        for (size_t k = 0; seen[i] && k < ARRAY_SIZE(kinds); k++) {
            if (!(columns[i] & kinds[k].kind))
                continue;
            r = set_text(&d->types[i], kinds[k].type, err);
            if (r == 0 && kinds[k].kind == IS_DATE)
                r = set_text(&d->date_format, CSV_ISO_DATE, err);
            break;
        }
    }
    return r;
}

static int guess(const char *head, size_t len, const struct csv_file *file, struct csv_dialect *d, struct err *err)
{
    const char *end = memchr(head, '\n', len), *at;
    size_t n = (size_t)file->n_separators + 1, lines = 0;
    auto_free int *columns = malloc(n * sizeof(*columns));
    auto_free bool *seen = calloc(n, sizeof(*seen));
    char quote[] = "\"", delimiter[] = { file->separator, '\0' };
    bool returns;
    int r;

    if (!columns || !seen)
        return err_set(err, ERR_NO_MEMORY, "out of memory for %zu columns", n);
    if (!end || memchr(head, quote[0], len))
        return 0;
    returns = end > head && end[-1] == '\r';
    r = csv_dialect_init(d, delimiter, quote, n, err);
    if (r == 0)
        r = read_names(d, head, end - returns, file->separator, err);
    if (r <= 0 || d->n_columns != n)
        return MIN_OF(r, 0);
    d->has_header = true;
    for (size_t i = 0; i < n; i++)
        columns[i] = IS_ALL;
    for (at = end + 1; lines < MAX_LINES && (end = memchr(at, '\n', len - (size_t)(at - head))); at = end + 1, lines++) {
        if ((end[-1] == '\r') != returns || !look_at_line(columns, n, at, end - returns, file->separator, seen))
            return 0;
    }
    if (lines == 0)
        return 0;
    r = returns ? set_text(&d->new_line, "\\r\\n", err) : 0;
    if (r == 0)
        r = set_types(d, columns, seen, err);
    if (r < 0)
        return r;
    d->plain_dates = csv_dialect_may_have_plain_dates(d);
    return 1;
}

int csv_guess(const char *path, const struct csv_file *file, struct csv_dialect *ret, struct err *err)
{
    auto_free char *head = NULL;
    auto_close int fd = -1;
    ssize_t len;
    int r;

    memset(ret, 0, sizeof(*ret));
    if (!file->separator || !file->double_quotes_only || file->one_line || file->n_separators < 1)
        return 0;
    head = malloc(HEAD_BYTES);
    if (!head)
        return err_set(err, ERR_NO_MEMORY, "out of memory for the head of a file");
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    len = fd < 0 ? 0 : pread(fd, head, HEAD_BYTES, 0);
    r = len > 0 ? guess(head, (size_t)len, file, ret, err) : 0;
    if (r <= 0)
        csv_dialect_finish(ret);
    return r;
}
