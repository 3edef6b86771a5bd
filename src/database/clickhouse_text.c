/* Statements of ClickHouse; see clickhouse_text.h. */

#include "database/clickhouse_text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/macros.h"
#include "base/str.h"
#include "database/params.h"

#define BOUND_MAX_BYTES 4096 /* a longer text is written into the statement */
#define URL_PARAMS_MAX (32u << 10)
#define ARRAY_DEPTH_MAX 6

/* ---- what is refused ---- */

/* A way to files, programs, other servers or time, as a table or a function. '*': any letters. */
static const char *const refused[] = {
    "url",
    "urlcluster",
    "file",
    "filecluster",
    "remote",
    "remotesecure",
    "cluster",
    "clusterallreplicas",
    "s3*",
    "gcs*",
    "oss*",
    "cosn*",
    "hdfs*",
    "azureblobstorage*",
    "mysql",
    "postgresql",
    "mongodb",
    "redis",
    "sqlite",
    "odbc",
    "jdbc",
    "executable*",
    "input",
    "deltalake*",
    "iceberg*",
    "hudi*",
    "paimon*",
    "ytsaurus",
    "arrowflight*",
    "catboost*",
    "shardbyhash",
    "loop",
    "fuzz*",
    "sleep",
    "sleepeachrow",
    "addressto*",
    "demangle",
    "modelevaluate",
    "generateserialid",
    "reversednsquery",
    "logtrace",
    "prometheus*",
};

/* Tables that are made of their arguments or of other tables of this server. */
static const char tables[] = "numbers numbers_mt zeros zeros_mt values view null merge format "
                             "generate_series generateseries primes";

/* Functions in whose parentheses FROM is a word of theirs. */
static const char from_inside[] = "extract trim ltrim rtrim substring substr overlay position";

static bool matches(const char *pattern, const char *name)
{
    size_t n = strcspn(pattern, "*");
    return pattern[n] ? strncasecmp(pattern, name, n) == 0 : strcasecmp(pattern, name) == 0;
}

/* The name as it stands in the text: ClickHouse tells letters by their case. */
static bool name_at(const struct sql_text *t, size_t i, char ret[SQL_NAME_MAX])
{
    const struct sql_token *k = &t->tokens[i];
    if (k->kind == SQL_WORD && k->len < SQL_NAME_MAX) {
        memcpy(ret, t->text + k->at, k->len);
        ret[k->len] = '\0';
        return true;
    }
    memcpy(ret, k->name, SQL_NAME_MAX);
    return k->kind == SQL_QUOTED && k->len == strlen(k->name) + 2;
}

static int check_call(const struct sql_text *t, size_t i, bool is_table, struct err *err)
{
    char name[SQL_NAME_MAX];
    (void)name_at(t, i, name);
    for (size_t k = 0; k < ARRAY_SIZE(refused); k++)
        if (matches(refused[k], name))
            return err_set(err, ERR_FORBIDDEN,
                           "the function '%s' reaches outside of the database's tables, or only "
                           "takes time, and is refused",
                           name);
    for (char *p = name; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    if (is_table && !str_has_word(tables, name))
        return err_set(err, ERR_FORBIDDEN, "the table function '%s' is not allowed", name);
    if (is_table && str_eq(name, "merge") && !sql_is_mark(t, i + 3, ')') &&
        !sql_is_word(t, i + 2, "currentdatabase"))
        return err_set(err, ERR_FORBIDDEN,
                       "merge() of another database is refused; "
                       "write merge(currentDatabase(), …)");
    return 0;
}

/* Tables that hold statements of others, who share this role. */
static int check_system_table(const struct sql_text *t, size_t i, struct err *err)
{
    char name[SQL_NAME_MAX];
    (void)name_at(t, i, name);
    if (!str_ieq(name, "system") || !sql_is_mark(t, i + 1, '.') || !sql_is_name(t, i + 2))
        return 0;
    (void)name_at(t, i + 2, name);
    if (!str_ieq(name, "processes") && !str_ieq(name, "asynchronous_inserts") &&
        !str_ends(name, "_log"))
        return 0;
    return err_set(err, ERR_FORBIDDEN,
                   "the table 'system.%s' has statements of others and is refused", name);
}

static bool is_word(const struct sql_text *t, size_t i, const char *words)
{
    return i < t->n && t->tokens[i].kind == SQL_WORD && str_has_word(words, t->tokens[i].name);
}

static bool is_op(const struct sql_text *t, size_t i, const char *op)
{
    return i < t->n && t->tokens[i].kind == SQL_OP && str_eq(t->tokens[i].name, op);
}

/* FORMAT x at the end of a statement. */
static bool is_format(const struct sql_text *t, size_t i)
{
    return sql_is_word(t, i, "format") && sql_is_name(t, i + 1) &&
           !is_word(t, i + 1, "asc desc end nulls") &&
           (i + 2 >= t->n || sql_is_mark(t, i + 2, ';') || is_word(t, i + 2, "settings into"));
}

static int check_word(const struct sql_text *t, size_t i, struct err *err)
{
    bool named = i > 0 && (sql_is_word(t, i - 1, "as") || sql_is_mark(t, i - 1, '.'));
    if (sql_is_mark(t, i, ';') && i + 1 < t->n)
        return err_set(err, ERR_FORBIDDEN, "only one statement is allowed");
    if (sql_is_mark(t, i, '{') && sql_is_name(t, i + 1))
        return err_set(err, ERR_FORBIDDEN, "parameters are written ':name', not '{name:Type}'");
    if (sql_is_name(t, i) && check_system_table(t, i, err) < 0)
        return -(int)err->code;
    if (named)
        return 0;
    if (sql_is_word(t, i, "into") && (i > 1 || !is_word(t, 0, "insert")) &&
        is_word(t, i + 1, "outfile"))
        return err_set(err, ERR_FORBIDDEN, "INTO OUTFILE writes a file and is refused");
    if (i > 0 && sql_is_word(t, i, "insert") && sql_is_word(t, i + 1, "into"))
        return err_set(err, ERR_FORBIDDEN, "insert inside of a statement is refused");
    if (sql_is_word(t, i, "settings") && sql_is_name(t, i + 1) && is_op(t, i + 2, "="))
        return err_set(err, ERR_FORBIDDEN, "SETTINGS of a statement are refused");
    if (sql_is_word(t, i, "parallel") && sql_is_word(t, i + 1, "with"))
        return err_set(err, ERR_FORBIDDEN, "only one statement is allowed");
    if (i > 0 && is_format(t, i))
        return err_set(err, ERR_FORBIDDEN, "FORMAT is refused: rows have one format here");
    return 0;
}

#define PARENTHESES_MAX 512

/* What a list inside of some parentheses is of: where a call in it is one of a table function. */
struct list {
    bool own_from; /* FROM belongs to a function */
    bool tables;   /* behind FROM and JOIN */
    bool arrays;   /* behind ARRAY JOIN, where tables might be */
};

/* The word at i may begin or end a list of tables. */
static void follow_list(const struct sql_text *t, size_t i, struct list *l)
{
    if (is_word(t, i, "from") && !l->own_from)
        *l = (struct list){ .tables = true };
    else if (is_word(t, i, "join"))
        l->arrays = i > 0 && is_word(t, i - 1, "array");
    else if (is_word(t, i,
                     "with select where prewhere group having order limit offset window "
                     "qualify union except intersect settings format into"))
        l->tables = l->arrays = false;
}

/* Whether a table is expected behind this token. */
static bool expects_table(const struct sql_text *t, size_t i, const struct list *l)
{
    return l->tables && !l->arrays && (is_word(t, i, "from join") || sql_is_mark(t, i, ','));
}

static int check_rest(const struct sql_text *t, size_t from, struct err *err)
{
    struct list lists[PARENTHESES_MAX] = { { .tables = false } };
    size_t depth = 0;
    bool is_table = false;
    for (size_t i = from; i < t->n; i++) {
        int r = check_word(t, i, err);
        if (r < 0)
            return r;
        bool expected = is_table;
        is_table = false;
        if (sql_is_mark(t, i, '(')) {
            if (++depth >= PARENTHESES_MAX)
                return err_set(err, ERR_FORBIDDEN, "parentheses nest deeper than %d",
                               PARENTHESES_MAX);
            lists[depth] = (struct list){ .own_from = i > 0 && is_word(t, i - 1, from_inside),
                                          .tables = expected };
            is_table = expected; /* a table in parentheses, or a SELECT */
            continue;
        }
        if (sql_is_mark(t, i, ')')) {
            depth -= depth > 0;
            continue;
        }
        follow_list(t, i, &lists[depth]);
        is_table = expects_table(t, i, &lists[depth]);
        if (!sql_is_name(t, i) || !sql_is_mark(t, i + 1, '(') ||
            is_word(t, i, "select in and or not on where using values"))
            continue;
        /* database.function() is no function, and a column or table cannot be called. */
        r = check_call(t, i, expected, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int check_write(const struct sql_text *t, const char *writable, struct sql_verdict *ret,
                       struct err *err)
{
    bool is_insert = is_word(t, 0, "insert");
    size_t i = is_word(t, 0, "update") ? 1 : 2;
    char shown[STR_SHOWN_SIZE];
    if (i == 2 && !is_word(t, 1, is_insert ? "into" : "from"))
        return err_set(err, ERR_FORBIDDEN, "only INSERT INTO, UPDATE and DELETE FROM can write");
    if (is_insert && is_word(t, i, "table") && sql_is_name(t, i + 1))
        i++;
    if (!sql_is_name(t, i) || !name_at(t, i, ret->table) || sql_is_mark(t, i + 1, '.'))
        return err_set(err, ERR_FORBIDDEN,
                       "only tables of this database can be written, by their plain names");
    if (!writable || strpbrk(ret->table, " ,\n") || !str_has_word(writable, ret->table))
        return err_set(err, ERR_FORBIDDEN,
                       "this database is read-only: its entry in DATABASES gives no right to "
                       "write to the table '%s'",
                       str_show(ret->table, strlen(ret->table), shown, sizeof(shown)));
    for (size_t k = i + 1; k < t->n; k++)
        if (is_word(t, k, "on") && is_word(t, k + 1, "cluster"))
            return err_set(err, ERR_FORBIDDEN, "ON CLUSTER is refused");
    if (is_insert && sql_is_mark(t, ++i, '('))
        while (i < t->n && !sql_is_mark(t, i++, ')'))
            continue;
    if (is_insert && !is_word(t, i, "values select with"))
        return err_set(err, ERR_FORBIDDEN, "INSERT is allowed with VALUES or a SELECT only");
    ret->writes = true;
    return 0;
}

/* EXPLAIN, EXPLAIN AST, EXPLAIN PLAN header = 1 … in front of a SELECT. */
static bool explains_select(const struct sql_text *t, size_t i)
{
    while (i < t->n && !is_word(t, i, "select with") &&
           (is_word(t, i, "ast syntax query tree plan pipeline estimate") ||
            t->tokens[i].kind == SQL_NUMBER || sql_is_mark(t, i, ',') ||
            (sql_is_name(t, i) && is_op(t, i + 1, "=")) || is_op(t, i, "=")))
        i++;
    return is_word(t, i, "select with");
}

int click_check_statement(const struct sql_text *t, const char *writable, struct sql_verdict *ret,
                          struct err *err)
{
    size_t i = 0;
    char shown[STR_SHOWN_SIZE];
    *ret = (struct sql_verdict){ .writes = false };
    while (sql_is_mark(t, i, '('))
        i++;
    if (i >= t->n || sql_is_mark(t, i, ';'))
        return err_set(err, ERR_VALIDATION, "there is no statement");
    int r = 0;
    if (i == 0 && is_word(t, 0, "insert update delete"))
        r = check_write(t, writable, ret, err);
    else if (!is_word(t, i, "select with") &&
             !(is_word(t, i, "explain") && explains_select(t, i + 1)))
        r = err_set(err, ERR_FORBIDDEN,
                    "only SELECT, WITH and EXPLAIN SELECT are allowed; this begins with '%s'",
                    str_show(t->text + t->tokens[i].at, t->tokens[i].len, shown, sizeof(shown)));
    /* The list of columns of an INSERT looks like a call of its table. */
    return r < 0 ? r : check_rest(t, ret->writes ? 3 : 0, err);
}

int64_t click_count_values(const struct sql_text *t)
{
    size_t i = 0, depth = 0;
    int64_t n = 0;
    while (i < t->n && !(depth == 0 && is_word(t, i, "values select with"))) {
        depth += sql_is_mark(t, i, '(');
        depth -= depth > 0 && sql_is_mark(t, i, ')');
        i++;
    }
    if (!is_word(t, i, "values"))
        return -1;
    for (i++; i < t->n; i++) {
        n += depth == 0 && sql_is_mark(t, i, '(');
        depth += sql_is_mark(t, i, '(');
        depth -= depth > 0 && sql_is_mark(t, i, ')');
    }
    return n;
}

/* ---- literals ---- */

int click_quote(const char *s, size_t len, struct buf *out, struct err *err)
{
    int r = buf_append_str(out, "'", err);
    for (size_t i = 0; i < len && r == 0; i++) {
        if (s[i] == '\0')
            r = buf_append_str(out, "\\0", err);
        else if (s[i] == '\'' || s[i] == '\\')
            r = buf_append(out, (const char[]){ '\\', s[i] }, 2, err);
        else
            r = buf_append(out, s + i, 1, err);
    }
    return r < 0 ? r : buf_append_str(out, "'", err);
}

int click_url_escape(const char *s, size_t len, struct buf *out, struct err *err)
{
    int r = 0;
    for (size_t i = 0; i < len && r == 0; i++) {
        unsigned char c = (unsigned char)s[i];
        r = isalnum(c) || (c && strchr("-_.~", c)) ? buf_append(out, s + i, 1, err) :
                                                     buf_printf(out, err, "%%%02X", c);
    }
    return r;
}

struct statement {
    bool bind;
    unsigned n; /* of those that are bound */
    struct buf *sql, *url;
    const char *name; /* of the parameter, for messages */
    struct err *err;
};

static int is_no(const struct statement *s, const char *what)
{
    return err_set(s->err, ERR_VALIDATION, "parameter '%s' is no %s that ClickHouse has", s->name,
                   what);
}

/* A value of param_: text as in a file of tab-separated values, then as in a URL. */
static int bind_text(struct statement *s, const char *type, const char *text, size_t len)
{
    auto_buf struct buf escaped = BUF_INIT(2 * BOUND_MAX_BYTES + 16);
    int r = 0;
    for (size_t i = 0; i < len && r == 0; i++) {
        static const char from[] = "\\\t\n\r\b\f", to[] = "\\tnrbf";
        const char *at = text[i] ? strchr(from, text[i]) : NULL;
        r = !text[i] ? buf_append_str(&escaped, "\\0", s->err) :
            at       ? buf_append(&escaped, (const char[]){ '\\', to[at - from] }, 2, s->err) :
                       buf_append(&escaped, text + i, 1, s->err);
    }
    if (r == 0)
        r = buf_printf(s->sql, s->err, "{p%u:%s}", ++s->n, type);
    if (r == 0)
        r = buf_printf(s->url, s->err, "&param_p%u=", s->n);
    return r < 0 ? r : click_url_escape(buf_cstr(&escaped), escaped.len, s->url, s->err);
}

static int put_text(struct statement *s, const char *text, size_t len)
{
    bool fits = len <= BOUND_MAX_BYTES && s->url->len + 3 * len < URL_PARAMS_MAX;
    return s->bind && fits ? bind_text(s, "String", text, len) :
                             click_quote(text, len, s->sql, s->err);
}

/* function('text') or function('text', more) */
static int put_made(struct statement *s, const char *function, const char *text, const char *more)
{
    int r = buf_printf(s->sql, s->err, "%s(", function);
    if (r == 0)
        r = put_text(s, text, strlen(text));
    return r < 0 ? r : buf_printf(s->sql, s->err, "%s)", more);
}

/* A sign goes between parentheses: "x -:n" must not begin a comment. */
static int put_integer(struct statement *s, const char *text)
{
    const char *digits = text + (*text == '-' || *text == '+');
    size_t n = strlen(digits);
    long long v;
    if (n == 0 || n > 76 || strspn(digits, "0123456789") != n)
        return is_no(s, "whole number");
    bool small = str_parse_i64(text + (*text == '+'), "", INT64_MIN, INT64_MAX, &v, NULL) == 0;
    if (small && s->bind)
        return bind_text(s, "Int64", text, strlen(text));
    if (small)
        return buf_printf(s->sql, s->err, v < 0 ? "(%lld)" : "%lld", v);
    if (*text != '-' && (n < 20 || (n == 20 && strcmp(digits, "18446744073709551615") <= 0)))
        return buf_append_str(s->sql, digits, s->err); /* a UInt64 */
    return put_made(s, n <= 38 ? "toDecimal128" : "toDecimal256", text, ", 0");
}

static int put_decimal(struct statement *s, const char *text)
{
    const char *digits = text + (*text == '-' || *text == '+');
    size_t whole = strspn(digits, "0123456789");
    size_t scale = digits[whole] == '.' ? strspn(digits + whole + 1, "0123456789") : 0;
    char more[16];
    if (whole == 0 || digits[whole + (digits[whole] == '.') + scale] || whole + scale > 76)
        return is_no(s, "decimal (digits without an exponent, at most 76)");
    snprintf(more, sizeof(more), ", %zu", scale);
    return put_made(s, whole + scale <= 38 ? "toDecimal128" : "toDecimal256", text, more);
}

static int put_real(struct statement *s, const char *text)
{
    char *end;
    (void)strtod(text, &end);
    if (end == text || *end || strpbrk(text, "xX("))
        return is_no(s, "number");
    return put_made(s, "toFloat64", text, "");
}

static bool all_digits(const char *s, size_t n)
{
    return strspn(s, "0123456789") >= n;
}

/* YYYY-MM-DD; days since 1970 too. */
static bool read_date(const char *s, int64_t *ret_days)
{
    if (!all_digits(s, 4) || s[4] != '-' || !all_digits(s + 5, 2) || s[7] != '-' ||
        !all_digits(s + 8, 2))
        return false;
    long y = strtol(s, NULL, 10), m = strtol(s + 5, NULL, 10), d = strtol(s + 8, NULL, 10);
    static const int lengths[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    bool leap = (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;
    if (m < 1 || m > 12 || d < 1 || d > lengths[m - 1] + (m == 2 && leap))
        return false;
    long shifted = m <= 2 ? y - 1 : y, era = shifted / 400, yoe = shifted - era * 400;
    long doy = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
    *ret_days = (int64_t)era * 146097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719468;
    return true;
}

#define DATE_DAYS_MAX 49709 /* the last that every server has as a Date: 2106-02-06 */

static int put_date(struct statement *s, const char *text)
{
    int64_t days;
    if (!read_date(text, &days) || text[10] || (!s->bind && (days < 0 || days > DATE_DAYS_MAX)))
        return is_no(s, "date");
    return put_made(s, days < 0 || days > DATE_DAYS_MAX ? "toDate32" : "toDate", text, "");
}

/* +HH:MM, +HH or Z in seconds. */
static bool read_offset(const char *s, int64_t *ret)
{
    *ret = 0;
    if (str_eq(s, "Z"))
        return true;
    if ((*s != '+' && *s != '-') || !all_digits(s + 1, 2))
        return false;
    *ret = strtol((const char[]){ s[1], s[2], '\0' }, NULL, 10) * 3600;
    const char *rest = s + 3 + (s[3] == ':');
    if (*rest && (!all_digits(rest, 2) || rest[2]))
        return false;
    *ret += *rest ? strtol(rest, NULL, 10) * 60 : 0;
    *ret = *s == '-' ? -*ret : *ret;
    return true;
}

/* Without a zone it is a time of the server's; with one, it is sent as seconds since 1970. */
static int put_timestamp(struct statement *s, const char *text, bool zoned)
{
    int64_t days, offset = 0;
    char plain[32], more[24];
    const char *rest = text + 19, *fraction = "";
    if (!read_date(text, &days) || (text[10] != ' ' && text[10] != 'T') ||
        !all_digits(text + 11, 2) || text[13] != ':' || !all_digits(text + 14, 2) ||
        text[16] != ':' || !all_digits(text + 17, 2))
        return is_no(s, "point in time");
    size_t digits = *rest == '.' ? strspn(rest + 1, "0123456789") : 0;
    if (digits > 9 || (*rest == '.' && digits == 0))
        return is_no(s, "point in time");
    fraction = digits ? rest : "";
    rest += digits ? digits + 1 : 0;
    long hour = strtol(text + 11, NULL, 10), minute = strtol(text + 14, NULL, 10);
    long second = strtol(text + 17, NULL, 10);
    if ((zoned ? !read_offset(rest, &offset) : *rest != '\0') || hour > 23 || minute > 59 ||
        second > 59)
        return is_no(s, "point in time");
    int64_t seconds = days * 86400 + hour * 3600 + minute * 60 + second - offset;
    bool exact = strspn(fraction, ".0") >= digits + (digits > 0);
    if (!s->bind && (!exact || seconds < 0 || seconds > UINT32_MAX))
        return is_no(s, "point in time (seconds between 1970 and 2106)");
    if (zoned && exact && seconds >= 0 && seconds <= UINT32_MAX)
        return buf_printf(s->sql, s->err, "toDateTime(%lld, 'UTC')", (long long)seconds);
    if (zoned) {
        snprintf(plain, sizeof(plain), "%lld%.*s", (long long)seconds, (int)digits + 1, fraction);
        snprintf(more, sizeof(more), ", %zu, 'UTC'", digits);
        return seconds < 0 ? is_no(s, "point in time (not before 1970)") :
                             put_made(s, "toDateTime64", plain, more);
    }
    snprintf(plain, sizeof(plain), "%.10s %.8s%.*s", text, text + 11, (int)digits + 1, fraction);
    snprintf(more, sizeof(more), ", %zu", digits);
    return exact && seconds >= 0 && seconds <= UINT32_MAX ?
               (plain[19] = '\0', put_made(s, "toDateTime", plain, "")) :
               put_made(s, "toDateTime64", plain, more);
}

static int put_bytes(struct statement *s, const struct buf *bytes)
{
    int r = buf_append_str(s->sql, "unhex('", s->err);
    for (size_t i = 0; i < bytes->len && r == 0; i++)
        r = buf_printf(s->sql, s->err, "%02x", (unsigned char)bytes->data[i]);
    return r < 0 ? r : buf_append_str(s->sql, "')", s->err);
}

static int put_uuid(struct statement *s, const char *text)
{
    if (strlen(text) != 36 || strspn(text, "0123456789abcdefABCDEF-") != 36)
        return is_no(s, "UUID");
    return put_made(s, "toUUID", text, "");
}

static int put_param(struct statement *s, const json_t *value, unsigned depth);

static int put_array(struct statement *s, const json_t *items, unsigned depth)
{
    size_t i;
    json_t *item;
    struct statement inner = *s;
    inner.bind = false;
    if (depth >= ARRAY_DEPTH_MAX)
        return err_set(s->err, ERR_VALIDATION, "parameter '%s' nests deeper than %d", s->name,
                       ARRAY_DEPTH_MAX);
    int r = buf_append_str(s->sql, "[", s->err);
    json_array_foreach(items, i, item) {
        if (r == 0 && i > 0)
            r = buf_append_str(s->sql, ", ", s->err);
        if (r == 0)
            r = put_param(&inner, item, depth + 1);
    }
    return r < 0 ? r : buf_append_str(s->sql, "]", s->err);
}

static int put_typed(struct statement *s, const struct db_param *p, unsigned depth)
{
    const char *text = buf_cstr(&p->text);
    bool nul = p->type != DB_PARAM_BYTES && p->type != DB_PARAM_TEXT &&
               memchr(text, '\0', p->text.len);
    if (nul)
        return is_no(s, "value");
    switch (p->type) {
    case DB_PARAM_NULL:
        return buf_append_str(s->sql, "NULL", s->err);
    case DB_PARAM_BOOL:
        return buf_append_str(s->sql, *text == 't' ? "1" : "0", s->err);
    case DB_PARAM_INTEGER:
        return put_integer(s, text);
    case DB_PARAM_REAL:
        return put_real(s, text);
    case DB_PARAM_DECIMAL:
        return put_decimal(s, text);
    case DB_PARAM_DATE:
        return put_date(s, text);
    case DB_PARAM_TIMESTAMP:
    case DB_PARAM_TIMESTAMPTZ:
        return put_timestamp(s, text, p->type == DB_PARAM_TIMESTAMPTZ);
    case DB_PARAM_UUID:
        return put_uuid(s, text);
    case DB_PARAM_BYTES:
        return put_bytes(s, &p->text);
    case DB_PARAM_ARRAY:
        return put_array(s, p->items, depth);
    default: /* text, JSON, time, interval: ClickHouse has them as texts */
        return put_text(s, text, p->text.len);
    }
}

static int put_param(struct statement *s, const json_t *value, unsigned depth)
{
    struct db_param p;
    int r = db_param_read(s->name, value, &p, s->err);
    if (r == 0)
        r = put_typed(s, &p, depth);
    db_param_finish(&p);
    return r;
}

int click_statement_make(const struct sql_text *t, const json_t *params, bool bind,
                         struct buf *out_sql, struct buf *out_url, struct err *err)
{
    struct statement s = { .bind = bind, .sql = out_sql, .url = out_url, .err = err };
    size_t from = 0;
    int r = 0;
    for (size_t i = 0; i < t->n && r == 0; i++) {
        const struct sql_token *k = &t->tokens[i];
        if (k->kind != SQL_PARAM)
            continue;
        const json_t *value = json_object_get(params, k->name);
        s.name = k->name;
        if (!value)
            return err_set(err, ERR_VALIDATION, "the parameter ':%s' was not given", k->name);
        r = buf_append(out_sql, t->text + from, k->at - from, err);
        if (r == 0)
            r = put_param(&s, value, 0);
        from = k->at + k->len;
    }
    return r < 0 ? r : buf_append(out_sql, t->text + from, t->len - from, err);
}
