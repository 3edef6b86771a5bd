/*
 * Dumps of databases as SQL. Nothing of them is run: CREATE TABLE tells names and types of columns,
 * INSERT, REPLACE and COPY … FROM stdin have the rows, and everything else is passed over.
 */

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/macros.h"
#include "base/str.h"
#include "kernel/ingest/formats.h"
#include "kernel/ingest/scratch_db.h"

#define MAX_TABLES 1000
#define MAX_NAME 256
#define MAX_VALUE_BYTES (16u << 20)
#define ROWS_BETWEEN_CHECKS 1024

struct dump_table {
    char name[MAX_NAME];
    struct scratch_column *columns;
    size_t n;
    bool made; /* in the scratch database: at its first row */
};

struct dump {
    const struct scratch_job *job;
    const char *at, *end;
    bool backslashes; /* MySQL: in any string */
    struct dump_table *tables;
    size_t n_tables;
    struct dump_table *chosen; /* whose rows the scratch database takes */
    struct scratch_db out;
    struct buf value;
};

/* ---- characters and words ---- */

static int refuse(const struct dump *d, const char *what, struct err *err)
{
    size_t line = 1;

    for (const char *p = d->job->text; p < d->at; p++)
        line += *p == '\n';
    return err_set(err, ERR_VALIDATION,
                   "'%.200s' cannot be read as an SQL dump: line %zu %s; import it into a database "
                   "and send its tables as CSV",
                   d->job->name, line, what);
}

static bool starts(const struct dump *d, const char *s)
{
    size_t n = strlen(s);

    return (size_t)(d->end - d->at) >= n && memcmp(d->at, s, n) == 0;
}

static void skip_past(struct dump *d, const char *mark)
{
    const char *hit = memmem(d->at, (size_t)(d->end - d->at), mark, strlen(mark));

    d->at = hit ? hit + strlen(mark) : d->end;
}

/* White space and comments. */
static void skip_space(struct dump *d)
{
    while (d->at < d->end) {
        if (isspace((unsigned char)*d->at))
            d->at++;
        else if (starts(d, "--") || *d->at == '#')
            skip_past(d, "\n");
        else if (starts(d, "/*"))
            skip_past(d, "*/");
        else
            return;
    }
}

static bool is_word_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || (c & 0x80);
}

static size_t word_length(const struct dump *d)
{
    const char *p = d->at;

    while (p < d->end && is_word_char(*p))
        p++;
    return (size_t)(p - d->at);
}

static bool at_word(const struct dump *d, const char *word)
{
    size_t n = word_length(d);

    return n == strlen(word) && strncasecmp(d->at, word, n) == 0;
}

/* Is this the next word? Then it is passed. */
static bool take(struct dump *d, const char *word)
{
    skip_space(d);
    if (!at_word(d, word))
        return false;
    d->at += strlen(word);
    return true;
}

static bool take_char(struct dump *d, char c)
{
    skip_space(d);
    if (d->at == d->end || *d->at != c)
        return false;
    d->at++;
    return true;
}

/* Behind a quoted piece; its quotes are doubled inside it, or behind a backslash. */
static void skip_quoted(struct dump *d, bool backslashes)
{
    char quote = *d->at == '[' ? ']' : *d->at;

    for (d->at++; d->at < d->end; d->at++) {
        if (*d->at == '\\' && backslashes)
            d->at++;
        else if (*d->at == quote && (d->at + 1 == d->end || d->at[1] != quote))
            break;
        else if (*d->at == quote)
            d->at++;
    }
    d->at = MIN_OF(d->at + 1, d->end);
}

/* $$ … $$ and $tag$ … $tag$ of PostgreSQL's functions. False: it is none. */
static bool skip_dollars(struct dump *d)
{
    char tag[64];
    size_t n = 1;

    while (d->at + n < d->end && n < sizeof(tag) - 2 && is_word_char(d->at[n]) && d->at[n] != '$')
        n++;
    if (d->at + n >= d->end || d->at[n] != '$')
        return false;
    memcpy(tag, d->at, n + 1);
    tag[n + 1] = '\0';
    d->at += n + 1;
    skip_past(d, tag);
    return true;
}

/* One character or quoted piece of what is passed over. */
static void skip_piece(struct dump *d)
{
    if (*d->at == '\'' || *d->at == '"' || *d->at == '`')
        skip_quoted(d, d->backslashes && *d->at == '\'');
    else if (*d->at != '$' || !skip_dollars(d))
        d->at++;
}

/* GO on a line of its own ends what SQL Server's tools write. */
static bool at_go(const struct dump *d)
{
    return (d->at == d->job->text || d->at[-1] == '\n') && at_word(d, "GO");
}

static void skip_statement(struct dump *d)
{
    for (skip_space(d); d->at < d->end; skip_space(d)) {
        if (*d->at == ';' || at_go(d)) {
            d->at += *d->at == ';' ? 1 : 2;
            return;
        }
        skip_piece(d);
    }
}

/* Up to a comma or the closing bracket of the list that this is in. */
static void skip_entry(struct dump *d)
{
    size_t depth = 0;

    for (skip_space(d); d->at < d->end; skip_space(d)) {
        if (depth == 0 && (*d->at == ',' || *d->at == ')'))
            return;
        depth += *d->at == '(';
        depth -= *d->at == ')';
        skip_piece(d);
    }
}

/* ---- names ---- */

/* A name with or without quotes. False: there is none. */
static bool take_name(struct dump *d, char ret[MAX_NAME])
{
    skip_space(d);
    const char *from = d->at;
    size_t n = word_length(d), len = 0;

    if (n > 0) {
        d->at += n;
    } else if (d->at < d->end && strchr("`\"[", *d->at)) {
        skip_quoted(d, false);
        from++;
        n = (size_t)(d->at - from) - (d->at > from);
    }
    for (size_t i = 0; i < n && len < MAX_NAME - 1; i++) {
        ret[len++] = from[i];
        i += i + 1 < n && strchr("`\"]", from[i]) && from[i + 1] == from[i];
    }
    ret[str_utf8_cut(ret, len, len)] = '\0';
    return n > 0;
}

/* Of a table: schema.name is called by its last part. */
static bool take_table_name(struct dump *d, char ret[MAX_NAME])
{
    bool any = take_name(d, ret);

    while (any && take_char(d, '.'))
        any = take_name(d, ret);
    return any;
}

static struct dump_table *find_table(struct dump *d, const char *name)
{
    for (size_t i = 0; i < d->n_tables; i++)
        if (str_ieq(d->tables[i].name, name))
            return &d->tables[i];
    return NULL;
}

static struct dump_table *add_table(struct dump *d, const char *name, struct err *err)
{
    if (d->n_tables == MAX_TABLES) {
        err_set(err, ERR_VALIDATION, "'%.200s' has more than %d tables", d->job->name, MAX_TABLES);
        return NULL;
    }
    struct dump_table *t = &d->tables[d->n_tables++];
    *t = (struct dump_table){ 0 };
    snprintf(t->name, sizeof(t->name), "%s", name);
    return t;
}

static int add_column(struct dump *d, struct dump_table *t, const char *name,
                      enum scratch_kind kind, struct err *err)
{
    if (t->n == SCRATCH_MAX_COLUMNS)
        return refuse(d, "is in a table of more than 2,000 columns", err);
    struct scratch_column *more = realloc(t->columns, (t->n + 1) * sizeof(*more));
    if (!more)
        return err_set(err, ERR_NO_MEMORY, "out of memory for columns");
    t->columns = more;
    t->columns[t->n] = (struct scratch_column){ .name = strdup(name), .kind = kind };
    return t->columns[t->n++].name ? 0 : err_set(err, ERR_NO_MEMORY, "out of memory for columns");
}

/* ---- CREATE TABLE ---- */

static bool is_one_of(const char *type, const char *const *names)
{
    while (*names && strcasecmp(type, *names) != 0)
        names++;
    return *names;
}

static enum scratch_kind kind_of(const char *type)
{
    static const char *const reals[] = { "float", "float4", "float8", "double", "real", NULL };
    static const char *const numbers[] = { "int",     "integer",   "bigint", "smallint",
                                           "tinyint", "mediumint", "serial", "bigserial",
                                           "int2",    "int4",      "int8",   "decimal",
                                           "numeric", "number",    "money",  "year",
                                           "bit",     NULL };

    return is_one_of(type, reals)            ? SCRATCH_REAL :
           is_one_of(type, numbers)          ? SCRATCH_NUMBER :
           strncasecmp(type, "bool", 4) == 0 ? SCRATCH_BOOLEAN :
                                               SCRATCH_TEXT;
}

static bool is_constraint(const struct dump *d)
{
    static const char *const words[] = { "PRIMARY", "KEY",     "UNIQUE", "CONSTRAINT",
                                         "FOREIGN", "CHECK",   "INDEX",  "FULLTEXT",
                                         "SPATIAL", "EXCLUDE", "LIKE",   "PERIOD" };

    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (at_word(d, words[i]))
            return true;
    return false;
}

static int read_create(struct dump *d, struct err *err)
{
    char name[MAX_NAME], type[MAX_NAME];
    int r = 0;

    while (take(d, "TEMPORARY") || take(d, "TEMP") || take(d, "UNLOGGED") || take(d, "GLOBAL"))
        ;
    if (!take(d, "TABLE"))
        return 0;
    if (take(d, "IF") && (!take(d, "NOT") || !take(d, "EXISTS")))
        return 0;
    if (!take_table_name(d, name) || !take_char(d, '(') || find_table(d, name))
        return 0;
    struct dump_table *t = add_table(d, name, err);
    if (!t)
        return -(int)err->code;
    do {
        skip_space(d);
        if (!is_constraint(d) && take_name(d, name)) {
            type[0] = '\0';
            take_name(d, type);
            r = add_column(d, t, name, kind_of(type), err);
        }
        skip_entry(d);
    } while (r == 0 && take_char(d, ','));
    return r;
}

/* ---- rows ---- */

/* The table's columns that the values are for, by the list behind its name, if there is one. */
static int read_targets(struct dump *d, struct dump_table **table, size_t *targets, size_t *ret_n,
                        struct err *err)
{
    char name[MAX_NAME];
    struct dump_table *t;
    bool is_new;
    int r = 0;

    *ret_n = 0;
    if (!take_table_name(d, name))
        return refuse(d, "names no table", err);
    t = find_table(d, name);
    is_new = !t;
    if (is_new && !(t = add_table(d, name, err)))
        return -(int)err->code;
    *table = t;
    if (!take_char(d, '('))
        return 0;
    do {
        size_t i = 0;

        if (!take_name(d, name))
            return refuse(d, "has no list of columns", err);
        while (i < t->n && !str_ieq(t->columns[i].name, name))
            i++;
        if (i == t->n && (!is_new || *ret_n == SCRATCH_MAX_COLUMNS))
            return refuse(d, "names a column that its table does not have", err);
        if (i == t->n)
            r = add_column(d, t, name, SCRATCH_ANY, err);
        if (*ret_n == SCRATCH_MAX_COLUMNS)
            return refuse(d, "names a column twice", err);
        targets[(*ret_n)++] = i;
    } while (r == 0 && take_char(d, ','));
    if (r == 0 && !take_char(d, ')'))
        r = refuse(d, "has no list of columns", err);
    return r;
}

/* Before the first value: rows go to this table. `width` is of a table that nothing is known of. */
static int choose(struct dump *d, struct dump_table *t, size_t width, struct err *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < width && t->n == i; i++) {
        char name[32];

        snprintf(name, sizeof(name), "column%zu", i);
        r = add_column(d, t, name, SCRATCH_ANY, err);
    }
    if (r == 0 && t->n == 0)
        r = refuse(d, "has a row without values", err);
    if (r == 0 && t != d->chosen)
        r = t->made ? scratch_db_choose(&d->out, t->name, t->n, err) :
                      scratch_db_create(&d->out, t->name, t->columns, t->n, err);
    if (r == 0) {
        t->made = true;
        d->chosen = t;
    }
    return r;
}

static int end_row(struct dump *d, struct err *err)
{
    int r = scratch_db_end_row(&d->out, err);

    if (r == 0 && d->out.n_rows % ROWS_BETWEEN_CHECKS == 0 &&
        d->job->hooks->must_stop(d->job->hooks->arg))
        r = err_set(err, ERR_CANCELLED, "interrupted");
    return r;
}

static char unescape(char c)
{
    switch (c) {
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    case 'b':
        return '\b';
    case 'f':
        return '\f';
    case 'v':
        return '\v';
    case '0':
        return '\0';
    default:
        return c;
    }
}

/* The string at d->at, without its quotes, into d->value. */
static int take_string(struct dump *d, bool backslashes, struct err *err)
{
    int r = 0;

    buf_clear(&d->value);
    for (d->at++; r == 0 && d->at < d->end;) {
        const char *p = d->at;

        while (p < d->end && *p != '\'' && (*p != '\\' || !backslashes))
            p++;
        r = buf_append(&d->value, d->at, (size_t)(p - d->at), err);
        d->at = p;
        if (r < 0 || p == d->end || (*p == '\\' && p + 1 == d->end))
            break;
        bool pair = p + 1 < d->end && (*p == '\\' || p[1] == '\'');
        d->at += pair ? 2 : 1;
        if (!pair && *p == '\'')
            return 0;
        char c = *p == '\\' ? unescape(p[1]) : '\'';
        r = buf_append(&d->value, &c, 1, err);
    }
    if (r == -ERR_TOO_LARGE)
        return refuse(d, "has a value of more than 16 MB", err);
    return r < 0 ? r : refuse(d, "has a text without an end", err);
}

/* A value that is no call, into d->value. *ret_null, or *ret_quoted: it is a text. */
static int take_plain(struct dump *d, bool *ret_null, bool *ret_quoted, struct err *err)
{
    skip_space(d);
    const char *from = d->at, *behind;
    size_t n = word_length(d);
    int r;

    *ret_null = n == 4 && strncasecmp(from, "NULL", 4) == 0;
    /* N'…', E'…', b'1', _utf8mb4 '…' */
    if (n > 0 && ((d->at + n < d->end && d->at[n] == '\'') || *from == '_')) {
        d->at += n;
        skip_space(d);
    }
    *ret_quoted = d->at < d->end && *d->at == '\'' && (n == 0 || (*from | 32) != 'b');
    if (d->at < d->end && *d->at == '\'') {
        r = take_string(d, d->backslashes || (n == 1 && (*from | 32) == 'e'), err);
        skip_entry(d); /* ::text may follow */
        return r;
    }
    d->at = from;
    skip_entry(d);
    for (behind = d->at; behind > from && isspace((unsigned char)behind[-1]);)
        behind--;
    buf_clear(&d->value);
    r = buf_append(&d->value, from, (size_t)(behind - from), err);
    return r == -ERR_TOO_LARGE ? refuse(d, "has a value of more than 16 MB", err) : r;
}

/* CAST(N'2024-01-31' AS DateTime) and CONVERT(date, '20240131') are what is inside. */
static int take_value(struct dump *d, bool *ret_null, bool *ret_quoted, struct err *err)
{
    bool cast = take(d, "CAST"), convert = !cast && take(d, "CONVERT");
    int r;

    if (!cast && !convert)
        return take_plain(d, ret_null, ret_quoted, err);
    if (!take_char(d, '('))
        return refuse(d, "has a value that is none", err);
    if (convert) {
        skip_entry(d);
        take_char(d, ',');
    }
    r = take_plain(d, ret_null, ret_quoted, err);
    if (r == 0 && !*ret_quoted) /* 12.50 AS Decimal(10, 2) */
        d->value.len = strcspn(buf_cstr(&d->value), " \t\r\n");
    while (r == 0 && take_char(d, ','))
        skip_entry(d);
    if (r == 0 && !take_char(d, ')'))
        r = refuse(d, "has a value without an end", err);
    skip_entry(d);
    return r;
}

/* How many values the row at d->at has, behind its bracket. */
static size_t count_values(struct dump d)
{
    size_t n = 1;

    for (skip_entry(&d); take_char(&d, ','); skip_entry(&d))
        n++;
    return n;
}

static int read_row(struct dump *d, struct dump_table *t, const size_t *targets, size_t n,
                    struct err *err)
{
    size_t i = 0;
    int r = choose(d, t, t->n ? 0 : count_values(*d), err);

    if (n == 0 && r == 0)
        n = t->n;
    for (; r == 0; i++) {
        bool null = false, quoted = false;

        if (i == n)
            return refuse(d, "has more values than its table has columns", err);
        size_t at = targets[0] == SIZE_MAX ? i : targets[i];
        r = take_value(d, &null, &quoted, err);
        if (r == 0 && !null)
            r = scratch_db_set(&d->out, at, t->columns[at].kind, buf_cstr(&d->value), d->value.len,
                               quoted, err);
        if (r == 0 && !take_char(d, ','))
            break;
    }
    if (r == 0 && i + 1 != n)
        r = refuse(d, "has fewer values than its table has columns", err);
    if (r == 0 && !take_char(d, ')'))
        r = refuse(d, "has a row without an end", err);
    return r < 0 ? r : end_row(d, err);
}

static int read_insert(struct dump *d, size_t *targets, struct err *err)
{
    struct dump_table *t = NULL;
    size_t n = 0;
    int r;

    while (take(d, "LOW_PRIORITY") || take(d, "DELAYED") || take(d, "IGNORE") || take(d, "INTO"))
        ;
    if (take(d, "OR")) /* REPLACE or IGNORE, and INTO */
        while (take(d, "REPLACE") || take(d, "IGNORE") || take(d, "INTO"))
            ;
    targets[0] = SIZE_MAX;
    r = read_targets(d, &t, targets, &n, err);
    if (r < 0)
        return r;
    if (take(d, "OVERRIDING")) /* SYSTEM VALUE */
        while (take(d, "SYSTEM") || take(d, "USER") || take(d, "VALUE"))
            ;
    if (!take(d, "VALUES") && !take(d, "VALUE"))
        return 0; /* … SELECT: what it gives is not in the file */
    do {
        if (!take_char(d, '('))
            return refuse(d, "has no values", err);
        r = read_row(d, t, targets, n, err);
    } while (r == 0 && take_char(d, ','));
    return r;
}

/* Lines of COPY: fields between tabs, \N is null, and \. the end. */
static int read_copy(struct dump *d, size_t *targets, struct err *err)
{
    struct dump_table *t = NULL;
    size_t n = 0;
    int r;

    targets[0] = SIZE_MAX;
    r = read_targets(d, &t, targets, &n, err);
    if (r < 0 || !take(d, "FROM") || !take(d, "stdin"))
        return r;
    skip_statement(d);
    skip_past(d, "\n");
    while (r == 0 && d->at < d->end && !starts(d, "\\.")) {
        const char *end = memchr(d->at, '\n', (size_t)(d->end - d->at));
        size_t i = 0, width = 1;

        end = end ? end : d->end;
        for (const char *p = d->at; t->n == 0 && p < end; p++)
            width += *p == '\t';
        r = choose(d, t, width, err);
        n = n ? n : t->n;
        for (const char *p = d->at; r == 0; p++, i++) {
            if (i == n)
                return refuse(d, "has more values than its table has columns", err);
            bool null = end - p >= 2 && p[0] == '\\' && p[1] == 'N';

            buf_clear(&d->value);
            for (; r == 0 && p < end && *p != '\t' && *p != '\r'; p++) {
                char c = *p == '\\' && p + 1 < end ? unescape(*++p) : *p;
                r = buf_append(&d->value, &c, 1, err);
            }
            size_t at = targets[0] == SIZE_MAX ? i : targets[i];
            if (r == 0 && !null)
                r = scratch_db_set(&d->out, at, t->columns[at].kind, buf_cstr(&d->value),
                                   d->value.len, true, err);
            if (p >= end || *p == '\r')
                break;
        }
        if (r == 0 && i + 1 != n)
            return refuse(d, "has fewer values than its table has columns", err);
        if (r == 0)
            r = end_row(d, err);
        d->at = MIN_OF(end + 1, d->end);
    }
    skip_past(d, "\n");
    return r;
}

/* ---- all of it ---- */

/* MySQL's dumps have backslashes in strings; in those of others one is a character. */
static bool has_backslashes(const struct scratch_job *job)
{
    size_t n = MIN_OF(job->len, (size_t)65536);

    return memmem(job->text, n, "MySQL", 5) || memmem(job->text, n, "MariaDB", 7) ||
           memchr(job->text, '`', n);
}

static int read_statements(struct dump *d, struct err *err)
{
    auto_free size_t *targets = calloc(SCRATCH_MAX_COLUMNS + 1, sizeof(*targets));
    int r = 0;

    d->tables = calloc(MAX_TABLES, sizeof(*d->tables));
    if (!targets || !d->tables)
        return err_set(err, ERR_NO_MEMORY, "out of memory for tables");
    for (skip_space(d); r == 0 && d->at < d->end; skip_space(d)) {
        if (take(d, "INSERT") || take(d, "REPLACE")) {
            r = read_insert(d, targets, err);
            if (r == 0 && !take_char(d, ';') && d->at < d->end && !take(d, "GO") &&
                !at_word(d, "INSERT"))
                skip_statement(d);
        } else if (take(d, "COPY")) {
            r = read_copy(d, targets, err);
        } else {
            r = take(d, "CREATE") ? read_create(d, err) : 0;
            skip_statement(d);
        }
    }
    return r;
}

int scratch_from_sql(const struct scratch_job *job, struct err *err)
{
    struct dump d = { .job = job,
                      .at = job->text,
                      .end = job->text + job->len,
                      .backslashes = has_backslashes(job),
                      .value = BUF_INIT(MAX_VALUE_BYTES) };
    int r = scratch_db_open(&d.out, job->out_path, job->max_bytes, err);

    if (r == 0)
        r = read_statements(&d, err);
    if (r == 0 && d.out.n_rows == 0)
        r = err_set(err, ERR_VALIDATION,
                    "'%.200s' has statements but no rows (INSERT … VALUES, COPY … FROM stdin); run "
                    "it in a database and send its tables as CSV",
                    job->name);
    if (r == 0)
        r = scratch_db_close(&d.out, err);
    scratch_db_finish(&d.out);
    for (size_t i = 0; d.tables && i < d.n_tables; i++) {
        for (size_t k = 0; k < d.tables[i].n; k++)
            free(d.tables[i].columns[k].name);
        free(d.tables[i].columns);
    }
    free(d.tables);
    buf_finish(&d.value);
    return r < 0 ? r : 1;
}
