/*
 * Fuzzes what ClickHouse sends and gets. The first byte chooses:
 *   'r'  the rest is an answer with names and types in front of its rows: however it is cut into
 *        pieces, the result is the same, and every column has as many cells as there are rows
 *   'q'  the rest is a text: as a literal it is one string, which reads back as that text; as the
 *        value of a parameter of any type it is refused, or ends where it should
 *   else a statement: what is accepted has no ';' inside, and none of the tables that reach outside
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"
#include "database/clickhouse_rows.h"
#include "database/clickhouse_text.h"
#include "database/params.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
    if (!good)
        abort();
}

/* ---- rows ---- */

static int read_rows(const uint8_t *data, size_t size, size_t step, struct db_result *result)
{
    struct err err = ERR_INIT;
    struct click_rows *r;
    int e = 0;
    db_result_init(result, 100, 64 << 10);
    r = click_rows_create(result, step % 2 == 0);
    check(r != NULL);
    click_rows_expect_head(r);
    for (size_t at = 0; at < size && e == 0; at += step)
        e = click_rows_feed(r, data + at, size - at < step ? size - at : step, &err);
    if (e >= 0)
        e = click_rows_end(r, &err);
    check(e >= 0 || err.code != ERR_NONE);
    click_rows_free(r);
    return e;
}

static void fuzz_rows(const uint8_t *data, size_t size)
{
    struct db_result whole, pieces;
    int a = read_rows(data, size, size ? size + size % 2 : 2, &whole);
    int b = read_rows(data, size, 2, &pieces);
    check((a < 0) == (b < 0));
    for (size_t i = 0; a >= 0 && i < whole.n_columns; i++) {
        struct db_cursor at = { .column = &whole.columns[i] },
                         other = { .column = &pieces.columns[i] };
        struct db_cell x, y;
        int64_t n = 0;
        for (; db_cursor_next(&at, &x); n++) {
            check(db_cursor_next(&other, &y) && x.len == y.len && !x.data == !y.data);
            check(!x.data || memcmp(x.data, y.data, x.len) == 0);
            check(!x.data || str_is_utf8(x.data, x.len));
        }
        check(n == whole.n_rows && !db_cursor_next(&other, &y));
    }
    db_result_finish(&whole);
    db_result_finish(&pieces);
}

/* ---- literals ---- */

/* What a server reads between the quotes. */
static void check_literal(const struct buf *literal, const char *text, size_t len)
{
    const char *s = buf_cstr(literal);
    size_t n = 0;
    check(literal->len >= 2 && s[0] == '\'' && s[literal->len - 1] == '\'');
    for (size_t i = 1; i + 1 < literal->len; i++) {
        char c = s[i];
        check(c != '\'');
        if (c == '\\') {
            check(i + 2 < literal->len);
            c = s[++i] == '0' ? '\0' : s[i];
        }
        check(n < len && text[n++] == c);
    }
    check(n == len);
}

static void fuzz_text(const char *text, size_t len)
{
    static const char *const types[] = { "decimal",  "date", "time",    "timestamp", "timestamptz",
                                         "interval", "uuid", "integer", "real",      "json" };
    auto_buf struct buf literal = BUF_INIT(1u << 20);
    struct sql_text t;
    struct err err = ERR_INIT;
    check(click_quote(text, len, &literal, &err) == 0);
    check_literal(&literal, text, len);
    if (!str_is_utf8(text, len) || memchr(text, '\0', len))
        return;
    check(sql_text_read(SQL_CLICKHOUSE, buf_cstr(&literal), &t, &err) == 0);
    check(t.n == 1 && t.tokens[0].kind == SQL_STRING && t.tokens[0].len == literal.len);
    sql_text_finish(&t);
    for (size_t i = 0; i <= ARRAY_SIZE(types); i++) {
        for (int bind = 0; bind < 2; bind++) {
            auto_buf struct buf sql = BUF_INIT(4u << 20), url = BUF_INIT(1u << 20);
            json_t *value = i < ARRAY_SIZE(types) ?
                                json_pack("{s:s, s:s%}", "type", types[i], "value", text, len) :
                                json_stringn(text, len);
            json_t *params = json_pack("{s:o}", "x", value);
            struct err why = ERR_INIT;
            check(params && sql_text_read(SQL_CLICKHOUSE, "SELECT :x, 'end'", &t, &why) == 0);
            int r = click_statement_make(&t, params, bind, &sql, &url, &why);
            sql_text_finish(&t);
            check(r == 0 || why.code == ERR_VALIDATION);
            if (r == 0) { /* the rest of the statement is where it was */
                struct sql_text after;
                check(sql_text_read(SQL_CLICKHOUSE, buf_cstr(&sql), &after, &why) == 0);
                check(str_ends(buf_cstr(&sql), ", 'end'") && after.n >= 4);
                check(after.tokens[after.n - 1].kind == SQL_STRING &&
                      after.tokens[after.n - 1].len == 5);
                for (size_t k = 0; k < after.n; k++)
                    check(!sql_is_mark(&after, k, ';'));
                sql_text_finish(&after);
            }
            check(url.len == 0 || (bind && !strpbrk(buf_cstr(&url), " '\"\\<>#\n")));
            json_decref(params);
        }
    }
}

/* ---- statements ---- */

static void fuzz_statement(const char *text)
{
    static const char *const never[] = { "url", "remote", "file", "mysql", "executable", "sleep" };
    struct sql_text t;
    struct sql_verdict verdict;
    struct err err = ERR_INIT;
    if (sql_text_read(SQL_CLICKHOUSE, text, &t, &err) < 0)
        return;
    if (click_check_statement(&t, "notes", &verdict, &err) == 0) {
        check(!verdict.writes || str_eq(verdict.table, "notes"));
        for (size_t i = 0; i < t.n; i++) {
            check(!sql_is_mark(&t, i, ';') || i + 1 == t.n);
            for (size_t k = 0; k < ARRAY_SIZE(never) && sql_is_name(&t, i); k++)
                check(strcasecmp(t.tokens[i].name, never[k]) != 0 || !sql_is_mark(&t, i + 1, '(') ||
                      i < 3);
        }
        (void)click_count_values(&t);
    }
    sql_text_finish(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || size > 64 << 10)
        return 0;
    if (*data == 'r') {
        fuzz_rows(data + 1, size - 1);
        return 0;
    }
    if (*data == 'q') {
        fuzz_text((const char *)data + 1, size - 1);
        return 0;
    }
    char *text = malloc(size + 1);
    check(text != NULL);
    memcpy(text, data, size);
    text[size] = 0;
    fuzz_statement(text);
    free(text);
    return 0;
}
