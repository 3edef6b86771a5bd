#include "kernel/ingest/sqlite_file.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/macros.h"
#include "base/str.h"
#include "kernel/ingest/csv_records.h"
#include "kernel/ingest/names.h"
#include "kernel/ingest/value.h"

#define MAX_TABLES 10000
#define STEPS_BETWEEN_STOPS 10000
#define FRACTION_DIGITS 6 /* of a TIMESTAMP */
#define REAL_INTEGER_MAX (1ll << 53)

/* ---- errors ---- */

static int failed(struct sqlite_file *f, int status, struct err *err)
{
    char shown[200];
    const char *message = f->db ? sqlite3_errmsg(f->db) : sqlite3_errstr(status);

    str_show(message, strlen(message), shown, sizeof(shown));
    switch (status & 0xff) {
    case SQLITE_INTERRUPT:
        return err_set(err, ERR_CANCELLED, "interrupted");
    case SQLITE_NOMEM:
        return err_set(err, ERR_VALIDATION, "needs more memory than there is");
    case SQLITE_TOOBIG:
        return err_set(err, ERR_VALIDATION, "has a value of more than %d MB",
                       SQLITE_VALUE_MAX >> 20);
    case SQLITE_NOTADB:
        return err_set(err, ERR_VALIDATION,
                       "is encrypted or damaged: its first page cannot be read");
    case SQLITE_CORRUPT:
    case SQLITE_IOERR:
        return err_set(err, ERR_VALIDATION, "is damaged: %s", shown);
    default:
        return err_set(err, ERR_VALIDATION, "cannot be read: %s", shown);
    }
}

/* ---- the file ---- */

static int stop_or_not(void *arg)
{
    const struct sqlite_file *f = arg;

    return f->must_stop && f->must_stop(f->stop_arg);
}

/* A URI, in which any character may be part of the path. */
static int write_uri(const char *path, struct buf *uri, struct err *err)
{
    int r = buf_append_str(uri, "file:", err);

    for (const unsigned char *p = (const unsigned char *)path; r == 0 && *p; p++)
        r = isalnum(*p) || strchr("/._-", *p) ? buf_append(uri, p, 1, err) :
                                                buf_printf(uri, err, "%%%02X", *p);
    return r < 0 ? r : buf_append_str(uri, "?immutable=1", err);
}

/* What is in the schema must not do anything but tell where the rows are. */
static int confine(struct sqlite_file *f, struct err *err)
{
    static const struct {
        int what, value;
    } settings[] = {
        { SQLITE_DBCONFIG_DEFENSIVE, 1 },
        { SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0 },
        { SQLITE_DBCONFIG_ENABLE_VIEW, 0 },
        { SQLITE_DBCONFIG_ENABLE_TRIGGER, 0 },
        { SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0 },
    };
    int status = SQLITE_OK;

    for (size_t i = 0; i < ARRAY_SIZE(settings) && status == SQLITE_OK; i++)
        status = sqlite3_db_config(f->db, settings[i].what, settings[i].value, NULL);
    sqlite3_limit(f->db, SQLITE_LIMIT_LENGTH, SQLITE_VALUE_MAX);
    sqlite3_limit(f->db, SQLITE_LIMIT_ATTACHED, 0);
    sqlite3_limit(f->db, SQLITE_LIMIT_WORKER_THREADS, 0);
    sqlite3_progress_handler(f->db, STEPS_BETWEEN_STOPS, stop_or_not, f);
    if (status == SQLITE_OK)
        status = sqlite3_exec(f->db, "PRAGMA cell_size_check=ON;PRAGMA mmap_size=0", NULL, NULL,
                              NULL);
    return status == SQLITE_OK ? 0 : failed(f, status, err);
}

static bool has_rows(struct sqlite_file *f, const char *name)
{
    char *sql = sqlite3_mprintf("SELECT 1 FROM \"%w\" LIMIT 1", name);
    sqlite3_stmt *statement = NULL;
    /* What cannot be read is told when it is its turn. */
    bool any = sql && sqlite3_prepare_v2(f->db, sql, -1, &statement, NULL) == SQLITE_OK &&
               sqlite3_step(statement) == SQLITE_ROW;

    sqlite3_finalize(statement);
    sqlite3_free(sql);
    return any;
}

static int list_tables(struct sqlite_file *f, struct err *err)
{
    static const char sql[] =
        "SELECT s.name, l.type FROM sqlite_schema s JOIN pragma_table_list l ON l.schema = 'main' "
        "AND l.name = s.name WHERE s.type IN ('table', 'view') AND "
        "s.name NOT LIKE 'sqlite^_%' ESCAPE '^' "
        "ORDER BY s.rowid LIMIT 10000"; /* MAX_TABLES */
    sqlite3_stmt *statement = NULL;
    int status = sqlite3_prepare_v2(f->db, sql, -1, &statement, NULL), r = 0;
    struct sqlite_table *empty = arena_alloc(&f->arena, MAX_TABLES * sizeof(*empty));
    size_t n_empty = 0;

    f->tables = arena_alloc(&f->arena, MAX_TABLES * sizeof(*f->tables));
    if (!f->tables || !empty)
        r = err_set(err, ERR_NO_MEMORY, "out of memory for tables");
    while (r == 0 && status == SQLITE_OK && (status = sqlite3_step(statement)) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(statement, 0);
        const char *type = (const char *)sqlite3_column_text(statement, 1);
        const char *copy = arena_strdup(&f->arena, name ? name : "");

        status = SQLITE_OK;
        if (!copy)
            r = err_set(err, ERR_NO_MEMORY, "out of memory for the name of a table");
        else if (str_eq(type, "view"))
            f->n_views++;
        else if (!str_eq(type, "table"))
            f->n_virtual++;
        else if (has_rows(f, copy))
            f->tables[f->n_tables++].name = copy;
        else
            empty[n_empty++].name = copy;
    }
    if (r == 0 && status != SQLITE_OK && status != SQLITE_DONE)
        r = failed(f, status, err);
    sqlite3_finalize(statement);
    if (r == 0 && n_empty > 0)
        memcpy(f->tables + f->n_tables, empty, n_empty * sizeof(*empty));
    f->n_tables += r == 0 ? n_empty : 0;
    return r;
}

int sqlite_open_file(struct sqlite_file *f, const char *path, const struct sqlite_options *options,
                     struct err *err)
{
    auto_buf struct buf uri = BUF_INIT(16 * 1024);
    int r, status;

    *f = (struct sqlite_file){ .text = options->text,
                               .must_stop = options->must_stop,
                               .stop_arg = options->stop_arg,
                               .scratch = BUF_INIT(4 * (size_t)SQLITE_VALUE_MAX) };
    arena_init(&f->arena, 64 << 20);
    if (options->memory_bytes > 0)
        sqlite3_hard_heap_limit64(options->memory_bytes);
    r = write_uri(path, &uri, err);
    if (r < 0)
        return r;
    status = sqlite3_open_v2(buf_cstr(&uri), &f->db,
                             SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_PRIVATECACHE,
                             NULL);
    if (status != SQLITE_OK)
        return failed(f, status, err);
    r = confine(f, err);
    return r < 0 ? r : list_tables(f, err);
}

static void forget_columns(struct sqlite_file *f)
{
    sqlite3_finalize(f->rows);
    f->rows = NULL;
    for (size_t i = 0; i < f->n_columns; i++)
        free(f->columns[i].name);
    free(f->columns);
    f->columns = NULL;
    f->n_columns = 0;
    f->n_rows = f->n_replaced = f->n_nul = 0;
    f->at_end = false;
}

void sqlite_finish(struct sqlite_file *f)
{
    forget_columns(f);
    sqlite3_close(f->db);
    f->db = NULL;
    buf_finish(&f->scratch);
    arena_finish(&f->arena);
}

/* ---- texts ---- */

/* Copies a text, U+FFFD for what is no UTF-8. */
static int repair(struct sqlite_file *f, const char *s, size_t len, struct err *err)
{
    int r = 0;

    buf_clear(&f->scratch);
    for (size_t at = 0; r == 0 && at < len;) {
        size_t bad = 1, n = str_utf8_next(s + at, len - at, &bad);

        if (n == 1 && s[at] == '\0') {
            f->n_nul++;
        } else if (n > 0) {
            r = buf_append(&f->scratch, s + at, n, err);
        } else {
            f->n_replaced++;
            r = buf_append_str(&f->scratch, "\xef\xbf\xbd", err);
        }
        at += n ? n : MAX_OF(bad, (size_t)1);
    }
    return r;
}

static int write_hex(struct sqlite_file *f, const unsigned char *s, size_t len, struct err *err)
{
    int r = 0;

    buf_clear(&f->scratch);
    for (size_t i = 0; r == 0 && i < len; i++)
        r = buf_printf(&f->scratch, err, "%02X", s[i]);
    return r;
}

/* As it was declared otherwise, or as SQLite compares it: the exact number. */
static int write_number(struct sqlite_file *f, size_t column, int type, struct err *err)
{
    char text[MAX_OF(STR_DOUBLE_SIZE, STR_I64_SIZE)];

    if (type == SQLITE_INTEGER)
        str_from_i64(sqlite3_column_int64(f->rows, (int)column), text);
    else
        str_from_double(sqlite3_column_double(f->rows, (int)column), text);
    buf_clear(&f->scratch);
    return buf_append_str(&f->scratch, text, err);
}

/* Year first, day, and a time that a TIMESTAMP can hold. */
static bool parse_iso(const char *s, size_t len, struct when *ret)
{
    if (len < 10 || s[4] != '-' || s[7] != '-' || !when_parse(s, len, ret) || ret->order_counts)
        return false;
    return (ret->kind == WHEN_DAY && len == 10) ||
           (ret->kind == WHEN_MOMENT && len >= 16 && (s[10] == ' ' || s[10] == 'T') &&
            strlen(ret->fraction) <= FRACTION_DIGITS);
}

const char *sqlite_text(struct sqlite_file *f, size_t column, size_t *ret_len, struct err *err)
{
    const struct sqlite_column *c = &f->columns[column];
    int type = sqlite3_column_type(f->rows, (int)column), r = 0;
    const char *s = NULL;
    struct when when;
    size_t len;

    *ret_len = 0;
    if (type == SQLITE_NULL)
        return NULL;
    if (type == SQLITE_BLOB) {
        s = sqlite3_column_blob(f->rows, (int)column);
        len = (size_t)sqlite3_column_bytes(f->rows, (int)column);
        r = write_hex(f, (const unsigned char *)s, len, err);
    } else if (type != SQLITE_TEXT) {
        r = write_number(f, column, type, err);
    } else {
        s = (const char *)sqlite3_column_text(f->rows, (int)column);
        len = (size_t)sqlite3_column_bytes(f->rows, (int)column);
        if (!s) {
            err_set(err, ERR_NO_MEMORY, "out of memory for a value");
            return NULL;
        }
        if (c->type >= SQLITE_COLUMN_DATE && c->type <= SQLITE_COLUMN_TIMESTAMP_ZONE) {
            char text[WHEN_TEXT_MAX];

            value_trim(&s, &len);
            if (!parse_iso(s, len, &when)) /* a word for "no value" */
                return NULL;
            len = when_write(&when, DATE_YMD, c->type != SQLITE_COLUMN_DATE, text);
            buf_clear(&f->scratch);
            r = buf_append(&f->scratch, text, len, err);
        } else if (!memchr(s, 0, len) && str_is_utf8(s, len)) {
            *ret_len = len;
            return s;
        } else {
            r = repair(f, s, len, err);
        }
    }
    if (r < 0)
        return NULL;
    *ret_len = f->scratch.len;
    return buf_cstr(&f->scratch);
}

/* ---- types ---- */

static void look_at_text(struct sqlite_column *c, const char *s, size_t len)
{
    struct when when;

    c->n_texts++;
    if (c->n_texts > c->n_days + c->n_moments + c->n_null_words + 1)
        return; /* it is text anyway */
    value_trim(&s, &len);
    if (len == 0 || is_null_word(s, len)) {
        c->n_null_words++;
    } else if (parse_iso(s, len, &when)) {
        c->n_days += when.kind == WHEN_DAY;
        c->n_moments += when.kind == WHEN_MOMENT;
        c->n_zoned += when.kind == WHEN_MOMENT && when.zone;
    }
}

static void look_at_value(struct sqlite_file *f, size_t i)
{
    struct sqlite_column *c = &f->columns[i];
    int64_t v;

    switch (sqlite3_column_type(f->rows, (int)i)) {
    case SQLITE_INTEGER:
        v = sqlite3_column_int64(f->rows, (int)i);
        c->n_integers++;
        c->large = c->large || v > REAL_INTEGER_MAX || v < -REAL_INTEGER_MAX;
        c->other_than_bits = c->other_than_bits || (v != 0 && v != 1);
        break;
    case SQLITE_FLOAT:
        c->n_reals++;
        break;
    case SQLITE_TEXT: {
        const char *s = (const char *)sqlite3_column_text(f->rows, (int)i);

        if (s)
            look_at_text(c, s, (size_t)sqlite3_column_bytes(f->rows, (int)i));
        break;
    }
    case SQLITE_BLOB:
        c->n_blobs++;
        break;
    default:
        break;
    }
}

static enum sqlite_column_type type_of_numbers(const struct sqlite_column *c)
{
    if (c->n_reals == 0)
        return strcasestr(c->declared, "bool") && !c->other_than_bits ? SQLITE_COLUMN_BOOLEAN :
                                                                        SQLITE_COLUMN_INTEGER;
    return c->large ? SQLITE_COLUMN_TEXT : SQLITE_COLUMN_REAL;
}

/* Without a value the declaration decides, as SQLite understands it. */
static enum sqlite_column_type type_declared(const char *declared)
{
    return strcasestr(declared, "int") ? SQLITE_COLUMN_INTEGER :
           strcasestr(declared, "real") || strcasestr(declared, "floa") ||
                   strcasestr(declared, "doub") ?
                                         SQLITE_COLUMN_REAL :
           strcasestr(declared, "datetime") || strcasestr(declared, "timestamp") ?
                                         SQLITE_COLUMN_TIMESTAMP :
           strcasestr(declared, "date") ? SQLITE_COLUMN_DATE :
           strcasestr(declared, "bool") ? SQLITE_COLUMN_BOOLEAN :
                                          SQLITE_COLUMN_TEXT;
}

static enum sqlite_column_type decide(const struct sqlite_column *c)
{
    int64_t numbers = c->n_integers + c->n_reals, words = c->n_texts - c->n_null_words;

    if (numbers + c->n_texts + c->n_blobs == 0)
        return type_declared(c->declared);
    if (c->n_blobs > 0)
        return numbers + c->n_texts == 0 ? SQLITE_COLUMN_BLOB : SQLITE_COLUMN_TEXT;
    if (numbers > 0)
        return words == 0 ? type_of_numbers(c) : SQLITE_COLUMN_TEXT;
    if (words == 0 || words != c->n_days + c->n_moments)
        return SQLITE_COLUMN_TEXT;
    if (c->n_moments == 0)
        return SQLITE_COLUMN_DATE;
    return c->n_zoned == 0     ? SQLITE_COLUMN_TIMESTAMP :
           c->n_zoned == words ? SQLITE_COLUMN_TIMESTAMP_ZONE :
                                 SQLITE_COLUMN_TEXT;
}

/* ---- tables ---- */

static int name_columns(struct sqlite_file *f, struct err *err)
{
    auto_free char **names = calloc(f->n_columns, sizeof(*names));
    int r = names ? 0 : err_set(err, ERR_NO_MEMORY, "out of memory for columns");

    for (size_t i = 0; r == 0 && i < f->n_columns; i++) {
        const char *name = sqlite3_column_name(f->rows, (int)i);
        const char *declared = sqlite3_column_decltype(f->rows, (int)i);

        f->columns[i].declared = declared ? declared : "";
        if (!name || !*name)
            r = asprintf(&names[i], "column%zu", i) < 0 ? -1 : 0;
        else if (repair(f, name, strlen(name), err) < 0 ||
                 !(names[i] = strdup(buf_cstr(&f->scratch))))
            r = -1;
        if (r < 0)
            r = err_set(err, ERR_NO_MEMORY, "out of memory for the name of a column");
    }
    f->n_replaced = 0;
    if (r == 0)
        r = names_make_unique(names, f->n_columns, err);
    for (size_t i = 0; names && i < f->n_columns; i++)
        f->columns[i].name = names[i];
    return r;
}

int sqlite_next_row(struct sqlite_file *f, struct err *err)
{
    int status;

    if (f->at_end) /* SQLite would begin again */
        return 0;
    status = sqlite3_step(f->rows);
    if (status == SQLITE_ROW)
        return 1;
    f->at_end = true;
    return status == SQLITE_DONE ? 0 : failed(f, status, err);
}

void sqlite_rewind(struct sqlite_file *f)
{
    sqlite3_reset(f->rows);
    f->at_end = false;
}

int sqlite_choose(struct sqlite_file *f, size_t table, struct err *err)
{
    char *sql = sqlite3_mprintf("SELECT * FROM \"%w\"", f->tables[table].name);
    int status, r = 0;

    forget_columns(f);
    if (!sql)
        return err_set(err, ERR_NO_MEMORY, "out of memory for a statement");
    status = sqlite3_prepare_v2(f->db, sql, -1, &f->rows, NULL);
    sqlite3_free(sql);
    if (status != SQLITE_OK)
        return failed(f, status, err);
    size_t n = (size_t)sqlite3_column_count(f->rows);
    if (n > CSV_MAX_COLUMNS)
        return err_set(err, ERR_VALIDATION, "has more than %d columns", CSV_MAX_COLUMNS);
    f->columns = calloc(n + 1, sizeof(*f->columns));
    if (!f->columns)
        return err_set(err, ERR_NO_MEMORY, "out of memory for columns");
    f->n_columns = n;
    r = name_columns(f, err);
    while (r == 0 && (r = sqlite_next_row(f, err)) == 1) {
        for (size_t i = 0; i < n; i++)
            look_at_value(f, i);
        f->n_rows++;
        r = 0;
        /* Rows are quick: the progress handler may not be called between them. */
        if (f->n_rows % 4096 == 0 && stop_or_not(f))
            r = err_set(err, ERR_CANCELLED, "interrupted");
    }
    for (size_t i = 0; r == 0 && i < n; i++)
        f->columns[i].type = f->text ? SQLITE_COLUMN_TEXT : decide(&f->columns[i]);
    sqlite_rewind(f);
    return r;
}
