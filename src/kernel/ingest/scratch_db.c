#include "kernel/ingest/scratch_db.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/macros.h"
#include "base/str.h"
#include "kernel/ingest/names.h"

#define PAGE_BYTES 4096
#define EXACT_INTEGER_DIGITS 18
#define EXACT_REAL_DIGITS 17 /* as in CSV */

static int failed(struct scratch_db *s, struct err *err)
{
    int status = s->db ? sqlite3_errcode(s->db) : SQLITE_NOMEM;

    if (status == SQLITE_NOMEM)
        return err_set(err, ERR_NO_MEMORY, "out of memory for rows");
    if (status == SQLITE_FULL || status == SQLITE_TOOBIG)
        return err_set(err, ERR_VALIDATION, "its rows are too large for the room there is");
    return err_set(err, ERR_VALIDATION, "its rows cannot be kept: %s", sqlite3_errmsg(s->db));
}

static int run(struct scratch_db *s, const char *sql, struct err *err)
{
    return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : failed(s, err);
}

int scratch_db_open(struct scratch_db *s, const char *path, uint64_t max_bytes, struct err *err)
{
    char limit[80];

    *s = (struct scratch_db){ 0 };
    /* Nobody else knows the file, so nothing is locked. */
    if (sqlite3_open_v2(path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, "unix-none") !=
        SQLITE_OK)
        return failed(s, err);
    snprintf(limit, sizeof(limit), "PRAGMA page_size=%d;PRAGMA max_page_count=%llu;BEGIN",
             PAGE_BYTES, (unsigned long long)MIN_OF(max_bytes / PAGE_BYTES + 1, (uint64_t)1 << 30));
    int r = run(s, "PRAGMA journal_mode=OFF;PRAGMA synchronous=OFF;PRAGMA temp_store=MEMORY", err);
    return r < 0 ? r : run(s, limit, err);
}

void scratch_db_finish(struct scratch_db *s)
{
    sqlite3_finalize(s->insert);
    sqlite3_close(s->db);
    *s = (struct scratch_db){ 0 };
}

int scratch_db_close(struct scratch_db *s, struct err *err)
{
    sqlite3_finalize(TAKE_PTR(s->insert));
    return run(s, "COMMIT", err);
}

int scratch_db_create(struct scratch_db *s, const char *table, struct scratch_column *columns,
                      size_t n, struct err *err)
{
    auto_free char **names = calloc(n + 1, sizeof(*names));
    sqlite3_str *sql = sqlite3_str_new(s->db);
    int r = names ? 0 : err_set(err, ERR_NO_MEMORY, "out of memory for names");

    for (size_t i = 0; r == 0 && i < n; i++)
        names[i] = columns[i].name;
    if (r == 0)
        r = names_make_unique(names, n, err);
    for (size_t i = 0; names && i < n && names[i]; i++)
        columns[i].name = names[i];
    sqlite3_str_appendf(sql, "CREATE TABLE \"%w\" (", table);
    for (size_t i = 0; i < n; i++)
        sqlite3_str_appendf(sql, "%s\"%w\"%s", i ? "," : "", columns[i].name,
                            columns[i].kind == SCRATCH_BOOLEAN ? " BOOLEAN" : "");
    sqlite3_str_appendall(sql, ")");
    char *text = sqlite3_str_finish(sql);
    if (r == 0)
        r = text ? run(s, text, err) : err_set(err, ERR_NO_MEMORY, "out of memory for names");
    sqlite3_free(text);
    return r < 0 ? r : scratch_db_choose(s, table, n, err);
}

int scratch_db_choose(struct scratch_db *s, const char *table, size_t n, struct err *err)
{
    sqlite3_str *sql = sqlite3_str_new(s->db);
    int status;

    sqlite3_finalize(TAKE_PTR(s->insert));
    s->width = n;
    sqlite3_str_appendf(sql, "INSERT INTO \"%w\" VALUES (?", table);
    for (size_t i = 1; i < n; i++)
        sqlite3_str_appendall(sql, ",?");
    sqlite3_str_appendall(sql, ")");
    char *text = sqlite3_str_finish(sql);
    status = text ? sqlite3_prepare_v2(s->db, text, -1, &s->insert, NULL) : SQLITE_NOMEM;
    sqlite3_free(text);
    return status == SQLITE_OK ? 0 : failed(s, err);
}

/* -12, 3.50, 1e5: SQLITE_INTEGER or SQLITE_FLOAT if nothing of it would be lost, else SQLITE_TEXT. */
static int number_kind(const char *text, size_t len, bool real)
{
    size_t at = len > 0 && (*text == '-' || *text == '+'), digits = 0, significant = 0;
    bool point = false;

    for (; at < len && (isdigit((unsigned char)text[at]) || (text[at] == '.' && !point)); at++) {
        bool digit = text[at] != '.';

        point = point || !digit;
        digits += digit;
        significant += digit && (significant > 0 || text[at] != '0');
    }
    if (digits == 0)
        return SQLITE_TEXT;
    if (at == len && !point)
        return significant <= EXACT_INTEGER_DIGITS ? SQLITE_INTEGER : SQLITE_TEXT;
    if (at < len) { /* an exponent, of at most three digits */
        size_t sign = at + 1 < len && (text[at + 1] == '-' || text[at + 1] == '+'), from;

        from = at + 1 + sign;
        if ((text[at] | 32) != 'e' || from == len || len - from > 3)
            return SQLITE_TEXT;
        for (at = from; at < len; at++)
            if (!isdigit((unsigned char)text[at]))
                return SQLITE_TEXT;
    }
    return real || significant <= EXACT_REAL_DIGITS ? SQLITE_FLOAT : SQLITE_TEXT;
}

static bool is_word(const char *text, size_t len, const char *word)
{
    return strlen(word) == len && strncasecmp(text, word, len) == 0;
}

int scratch_db_set(struct scratch_db *s, size_t column, enum scratch_kind kind, const char *text,
                   size_t len, bool quoted, struct err *err)
{
    int at = (int)column + 1, status;
    bool real = kind == SCRATCH_REAL;
    int as = (kind == SCRATCH_ANY && !quoted) || kind == SCRATCH_NUMBER || real ?
                 number_kind(text, len, real) :
                 SQLITE_TEXT;
    char number[80];

    if (kind == SCRATCH_BOOLEAN &&
        (is_word(text, len, "t") || is_word(text, len, "true") || is_word(text, len, "1")))
        status = sqlite3_bind_int(s->insert, at, 1);
    else if (kind == SCRATCH_BOOLEAN &&
             (is_word(text, len, "f") || is_word(text, len, "false") || is_word(text, len, "0")))
        status = sqlite3_bind_int(s->insert, at, 0);
    else if (as != SQLITE_TEXT && len < sizeof(number)) {
        memcpy(number, text, len);
        number[len] = '\0';
        status = as == SQLITE_INTEGER ?
                     sqlite3_bind_int64(s->insert, at, strtoll(number, NULL, 10)) :
                     sqlite3_bind_double(s->insert, at, strtod(number, NULL));
    } else {
        status = sqlite3_bind_text64(s->insert, at, text, len, SQLITE_TRANSIENT, SQLITE_UTF8);
    }
    return status == SQLITE_OK ? 0 : failed(s, err);
}

int scratch_db_end_row(struct scratch_db *s, struct err *err)
{
    int status = sqlite3_step(s->insert);

    sqlite3_reset(s->insert);
    sqlite3_clear_bindings(s->insert);
    s->n_rows++;
    return status == SQLITE_DONE ? 0 : failed(s, err);
}
