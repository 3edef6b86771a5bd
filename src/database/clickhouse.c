/*
 * ClickHouse through its HTTP interface. A statement is the body of a POST; database, limits and
 * `readonly` are arguments of its URL, credentials are headers. The server writes the whole answer
 * before it sends the first byte (wait_end_of_query), so that a failure halfway is a failure.
 *
 * The first query of a backend asks for version, time zone and profile (the probe); the others wait
 * for that. A server before version 20 has neither RowBinaryWithNamesAndTypes nor bound parameters:
 * it is asked to DESCRIBE a statement before it runs it, and parameters are written as literals.
 *
 * A query that is cancelled while its server works is killed there by its query_id.
 */

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/id.h"
#include "base/macros.h"
#include "base/str.h"
#include "database/clickhouse_rows.h"
#include "database/clickhouse_text.h"
#include "database/database_impl.h"
#include "net/client.h"

#define QUERIES_MAX 256
#define HTTP_PORT 8123
#define HTTPS_PORT 8443
#define SQL_MAX_BYTES (8u << 20)
#define URL_MAX_BYTES (64u << 10)
#define ERROR_MAX_BYTES (16u << 10)
#define DESCRIPTION_MAX_BYTES (4u << 20)
#define PROBE_TIMEOUT_MS 10000
#define KILL_TIMEOUT_MS 2000
#define KNOWN_MS 60000  /* then it is asked again what it is: it may have been replaced */
#define FIRST_MODERN 20 /* version with bound parameters and types in front of binary rows */

struct op {
    struct clickhouse *click;
    struct db_query *q;
    struct client_request *request; /* NULL: it waits */
    struct sql_text text;
    struct sql_verdict verdict;
    struct buf sql, params; /* once the server is known */
    struct buf told;        /* of an error or a description */
    struct click_rows *rows;
    bool is_modern, describes;
    char id[24];
    struct err failure; /* of the rows */
};

struct kill {
    struct clickhouse *click;
    struct kill *next;
    struct client_request *request;
};

struct clickhouse {
    struct db_backend base;
    char *origin; /* http://host:port */
    char *user, *password, *database;
    struct client *client;
    uv_idle_t kick;
    struct op *waiting[QUERIES_MAX];
    size_t n_waiting, n_running;
    struct kill *kills;
    /* The probe, and what it told. */
    struct client_request *probing;
    struct buf told;
    int64_t known_until_ms;
    bool is_modern, is_utc;
    int readonly; /* of the role's profile: 0, or 2, which lets us set limits but not this */
    bool closing;
};

static void advance(struct clickhouse *c);
static void on_kick(uv_idle_t *kick);

/* ---- requests ---- */

static int start(struct clickhouse *c, const char *arguments, const char *sql, size_t sql_len,
                 int64_t timeout_ms, uint64_t max_bytes, const struct client_events *events,
                 struct client_request **ret, struct err *err)
{
    auto_buf struct buf url = BUF_INIT(URL_MAX_BYTES + 4096);
    const struct client_header headers[] = {
        { "Content-Type", "text/plain; charset=utf-8" },
        { "X-ClickHouse-User", c->user },
        { "X-ClickHouse-Key", c->password },
    };
    int r = buf_printf(&url, err, "%s/?database=", c->origin);
    if (r == 0)
        r = click_url_escape(c->database, strlen(c->database), &url, err);
    if (r == 0)
        r = buf_append_str(&url, arguments, err);
    const struct client_options options = { .method = "POST",
                                            .url = buf_cstr(&url),
                                            .headers = headers,
                                            .n_headers = ARRAY_SIZE(headers) - !*c->password,
                                            .body = sql,
                                            .body_len = sql_len,
                                            .timeout_ms = timeout_ms,
                                            .max_body_bytes = max_bytes };
    if (r == 0 && !c->client)
        r = client_create(db_loop(&c->base), db_ca_file(&c->base), &c->client, err);
    return r < 0 ? r : client_start(c->client, &options, events, ret, err);
}

/* Words of our own: those of the client have the address. */
/* It may be another server that comes back. */
static void unreachable(struct clickhouse *c, const struct err *why, struct err *err)
{
    c->known_until_ms = 0;
    const char *what = why->code == ERR_TIMEOUT  ? "it does not answer" :
                       why->code == ERR_PROTOCOL ? "it does not speak HTTP, or its certificate is "
                                                   "not trusted" :
                       why->code == ERR_TOO_LARGE ?
                                                   "its answer is too long" :
                                                   "nothing listens there, or the connection broke";
    err_set(err, ERR_UNAVAILABLE, "the database '%s' could not be asked: %s", c->base.entry->name,
            what);
}

/* "Code: 62, e.displayText() = DB::Exception: Syntax error: …, e.what() = DB::Exception" */
static void read_error(const struct clickhouse *c, const struct buf *told, int64_t timeout_ms,
                       struct err *err)
{
    static const char mark[] = "DB::Exception: ";
    const char *text = buf_cstr(told), *code_at = strstr(text, "Code: "),
               *said = strstr(text, mark);
    long code = code_at ? strtol(code_at + 6, NULL, 10) : 0;
    const char *name = c->base.entry->name;
    char shown[ERR_MESSAGE_MAX / 2];
    said = said ? said + strlen(mark) : text;
    size_t n = strcspn(said, "\n");
    static const char *const ends[] = { ", e.what()", " (version ", ". Stack trace" };
    for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
        const char *end = memmem(said, n, ends[i], strlen(ends[i]));
        n = end ? (size_t)(end - said) : n;
    }
    str_show(said, n, shown, sizeof(shown));
    switch (code) {
    case 159: /* TIMEOUT_EXCEEDED */
    case 160: /* TOO_SLOW */
        err_set(err, ERR_TIMEOUT, "the query took longer than %lld ms", (long long)timeout_ms);
        break;
    case 164: /* READONLY */
    case 291: /* DATABASE_ACCESS_DENIED */
    case 358: /* INTO_OUTFILE_NOT_ALLOWED */
    case 497: /* ACCESS_DENIED */
        err_set(err, ERR_FORBIDDEN, "the database refused it: %s", shown);
        break;
    case 192: /* UNKNOWN_USER */
    case 193: /* WRONG_PASSWORD */
    case 194: /* REQUIRED_PASSWORD */
    case 195: /* IP_ADDRESS_NOT_ALLOWED */
    case 516: /* AUTHENTICATION_FAILED */
        err_set(err, ERR_UNAVAILABLE, "the database '%s' refused the login", name);
        break;
    case 81: /* UNKNOWN_DATABASE */
        err_set(err, ERR_UNAVAILABLE, "the server of '%s' has no database of that name", name);
        break;
    case 202: /* TOO_MANY_SIMULTANEOUS_QUERIES */
    case 209: /* SOCKET_TIMEOUT */
    case 210: /* NETWORK_ERROR */
    case 279: /* ALL_CONNECTION_TRIES_FAILED */
    case 394: /* QUERY_WAS_CANCELLED */
        err_set(err, ERR_UNAVAILABLE, "the database '%s' could not answer: %s", name,
                code == 202 ? "too many queries are under way there" :
                code == 394 ? "the query was killed there" :
                              "one of its servers is not reachable");
        break;
    case 0:
    case 1000: /* of a library of the server's */
        err_set(err, ERR_UNAVAILABLE, "the database '%s' answered with no error of ClickHouse",
                name);
        break;
    default:
        err_set(err, ERR_VALIDATION, "%s", shown);
    }
}

static int keep(struct buf *told, const char *data, size_t len, size_t most)
{
    return buf_append(told, data, MIN_OF(len, most - MIN_OF(told->len, most)), NULL);
}

/* ---- one query ---- */

static void op_free(struct op *op)
{
    if (!op)
        return;
    sql_text_finish(&op->text);
    buf_finish(&op->sql);
    buf_finish(&op->params);
    buf_finish(&op->told);
    click_rows_free(op->rows);
    free(op);
}

static void op_end(struct op *op, const struct err *err)
{
    struct clickhouse *c = op->click;
    struct db_query *q = op->q;
    c->n_running -= op->id[0] != '\0';
    op_free(op);
    db_query_end(q, err);
    if (!c->closing && c->n_waiting > 0)
        uv_idle_start(&c->kick, on_kick);
}

static int on_rows(void *arg, const struct client_response *resp, const char *data, size_t len,
                   struct err *err)
{
    struct op *op = arg;
    if (resp->status != 200)
        return keep(&op->told, data, len, ERROR_MAX_BYTES);
    if (op->describes)
        return buf_append(&op->told, data, len, err);
    int r = op->rows && !op->verdict.writes ? click_rows_feed(op->rows, data, len, err) : 0;
    if (r < 0)
        op->failure = *err;
    return r;
}

static int ask(struct op *op, struct err *err);

/* name TAB type TAB …; the names are read as the server escapes them. */
static int take_description(struct op *op, struct err *err)
{
    char *rest = NULL, *text = op->told.data;
    int r = 0;
    if (op->told.len == 0)
        return err_set(err, ERR_PROTOCOL, "the database described no columns");
    if (buf_append(&op->told, "", 1, err) < 0)
        return -(int)err->code;
    text = op->told.data;
    for (char *line = strtok_r(text, "\n", &rest); line && r == 0;
         line = strtok_r(NULL, "\n", &rest)) {
        char *type = strchr(line, '\t'), *end = type ? strchr(type + 1, '\t') : NULL;
        if (!end)
            return err_set(err, ERR_PROTOCOL, "the database described no columns");
        *type++ = *end = '\0';
        for (char *field = line; field; field = field == line ? type : NULL) {
            char *to = field;
            for (const char *from = field; *from; from++) {
                static const char escapes[] = "bfnrt0", bytes[] = "\b\f\n\r\t";
                const char *at = *from == '\\' && from[1] ? strchr(escapes, from[1]) : NULL;
                from += *from == '\\' && from[1];
                *to++ = at ? bytes[at - escapes] : *from;
            }
            *to = '\0';
        }
        r = click_rows_add_column(op->rows, line, type, err);
    }
    buf_clear(&op->told);
    return r;
}

static void on_done(void *arg, const struct client_response *resp, const struct err *why)
{
    struct op *op = arg;
    struct err err = ERR_INIT;
    op->request = NULL;
    int r = 0;
    if (op->failure.code != ERR_NONE)
        err = op->failure;
    else if (why)
        unreachable(op->click, why, &err);
    else if (resp->status != 200)
        read_error(op->click, &op->told, op->q->timeout_ms, &err);
    else if (op->describes) {
        op->describes = false;
        r = take_description(op, &err);
        if (r == 0)
            r = ask(op, &err);
        if (r == 0)
            return;
    } else if (op->verdict.writes) {
        op->q->result.affected_rows = click_count_values(&op->text);
        if (op->q->result.affected_rows < 0)
            op->q->result.affected_rows = 0;
    } else {
        r = click_rows_end(op->rows, &err);
    }
    op_end(op, err.code == ERR_NONE ? NULL : &err);
}

/* What the server holds the query to, besides riddle. */
static int put_limits(const struct op *op, struct buf *out, struct err *err)
{
    const struct clickhouse *c = op->click;
    const struct db_result *r = &op->q->result;
    int e = buf_printf(
        out, err,
        "&query_id=%s&wait_end_of_query=1&buffer_size=1048576&max_execution_time=%lld"
        "&timeout_overflow_mode=throw&join_use_nulls=1&distributed_product_mode=global",
        op->id, (long long)(op->q->timeout_ms + 999) / 1000);
    if (e == 0 && !op->verdict.writes)
        /* Values take at most eight times the bytes there that they are counted as here. */
        e = buf_printf(out, err,
                       "&max_result_rows=%lld&max_result_bytes=%lld&result_overflow_mode=break%s",
                       (long long)r->max_rows + 1, (long long)r->max_bytes * 8,
                       c->readonly == 0 ? "&readonly=1" : "");
    return e;
}

/* The text of a SELECT without a ';' at its end. */
static size_t statement_len(const struct op *op)
{
    size_t n = op->sql.len;
    bool cut = op->text.n > 0 && sql_is_mark(&op->text, op->text.n - 1, ';');
    const struct sql_token *last = cut ? &op->text.tokens[op->text.n - 1] : NULL;
    return last ? n - (op->text.len - last->at) : n;
}

static int ask(struct op *op, struct err *err)
{
    struct clickhouse *c = op->click;
    auto_buf struct buf arguments = BUF_INIT(URL_MAX_BYTES);
    auto_buf struct buf described = BUF_INIT(SQL_MAX_BYTES);
    const struct client_events events = { .body = on_rows, .done = on_done, .arg = op };
    const struct buf *sql = &op->sql;
    int r = put_limits(op, &arguments, err);
    if (r == 0)
        r = buf_printf(&arguments, err, "&default_format=%s",
                       op->describes ? "TabSeparated" :
                       op->is_modern ? "RowBinaryWithNamesAndTypes" :
                                       "RowBinary");
    if (r == 0)
        r = buf_append(&arguments, op->params.data, op->params.len, err);
    if (r == 0 && op->describes) {
        r = buf_append_str(&described, "DESCRIBE TABLE (", err);
        if (r == 0)
            r = buf_append(&described, op->sql.data, statement_len(op), err);
        if (r == 0) /* behind a comment, too */
            r = buf_append_str(&described, "\n)", err);
        sql = &described;
    }
    if (r < 0)
        return r;
    uint64_t most = op->describes ? DESCRIPTION_MAX_BYTES : (uint64_t)op->q->result.max_bytes * 16;
    return start(c, buf_cstr(&arguments), sql->data, sql->len, 0, most, &events, &op->request, err);
}

static int begin_asking(struct op *op, struct err *err)
{
    struct clickhouse *c = op->click;
    op->is_modern = c->is_modern;
    int r = click_statement_make(&op->text, op->q->params, op->is_modern, &op->sql, &op->params,
                                 err);
    if (r < 0)
        return r;
    op->rows = click_rows_create(&op->q->result, c->is_utc);
    if (!op->rows)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    if (op->is_modern && !op->verdict.writes)
        click_rows_expect_head(op->rows);
    op->describes = !op->is_modern && !op->verdict.writes;
    return ask(op, err);
}

/* ---- the probe ---- */

static const char probe_sql[] =
    "SELECT version(), timezone(), (SELECT value FROM system.settings WHERE name = 'readonly') "
    "FORMAT TabSeparated";

static void fail_waiting(struct clickhouse *c, const struct err *err)
{
    while (c->n_waiting > 0)
        op_end(c->waiting[--c->n_waiting], err);
}

static int on_probe_body(void *arg, const struct client_response *resp, const char *data,
                         size_t len, struct err *err)
{
    struct clickhouse *c = arg;
    (void)resp;
    (void)err;
    return keep(&c->told, data, len, ERROR_MAX_BYTES);
}

static int take_probe(struct clickhouse *c, struct err *err)
{
    char zone[64] = "", readonly[8] = "";
    unsigned major = 0;
    if (sscanf(buf_cstr(&c->told), "%u%*[^\t]\t%63[^\t]\t%7[0-9]", &major, zone, readonly) != 3)
        return err_set(err, ERR_UNAVAILABLE,
                       "the database '%s' could not be asked: it is no ClickHouse",
                       c->base.entry->name);
    c->readonly = (int)strtol(readonly, NULL, 10);
    c->is_modern = major >= FIRST_MODERN;
    c->is_utc = str_has_word("UTC Etc/UTC GMT Etc/GMT Etc/UCT UCT Zulu Universal", zone);
    if (c->readonly == 1)
        return err_set(err, ERR_UNAVAILABLE,
                       "the role of '%s' may not set limits for its queries: its profile has "
                       "readonly = 1; give it readonly = 2",
                       c->base.entry->name);
    c->known_until_ms = clock_now_ms() + KNOWN_MS;
    return 0;
}

static void on_probed(void *arg, const struct client_response *resp, const struct err *why)
{
    struct clickhouse *c = arg;
    struct err err = ERR_INIT;
    c->probing = NULL;
    if (why)
        unreachable(c, why, &err);
    else if (resp->status != 200)
        read_error(c, &c->told, PROBE_TIMEOUT_MS, &err);
    else
        (void)take_probe(c, &err);
    buf_clear(&c->told);
    if (err.code != ERR_NONE)
        fail_waiting(c, &err);
    else
        advance(c);
}

static void probe(struct clickhouse *c)
{
    struct err why = ERR_INIT, err = ERR_INIT;
    const struct client_events events = { .body = on_probe_body, .done = on_probed, .arg = c };
    if (c->probing)
        return;
    buf_clear(&c->told);
    if (start(c, "", probe_sql, strlen(probe_sql), PROBE_TIMEOUT_MS, ERROR_MAX_BYTES, &events,
              &c->probing, &why) == 0)
        return;
    unreachable(c, &why, &err);
    fail_waiting(c, &err);
}

static void advance(struct clickhouse *c)
{
    bool is_known = clock_now_ms() < c->known_until_ms;
    while (c->n_waiting > 0 && !c->closing && is_known &&
           (long long)c->n_running < db_connections_max(&c->base)) {
        struct err err = ERR_INIT;
        struct op *op = c->waiting[0];
        c->n_waiting--;
        memmove(c->waiting, c->waiting + 1, c->n_waiting * sizeof(c->waiting[0]));
        memcpy(op->id, "riddle-", 7);
        id_hex(op->id + 7, 16);
        c->n_running++;
        if (begin_asking(op, &err) < 0)
            op_end(op, &err);
    }
    if (c->n_waiting > 0 && !c->closing && !is_known)
        probe(c);
}

static void on_kick(uv_idle_t *kick)
{
    uv_idle_stop(kick);
    advance(kick->data);
}

static int begin(struct db_backend *b, struct db_query *q, struct err *err)
{
    struct clickhouse *c = (struct clickhouse *)b;
    struct op *op = calloc(1, sizeof(*op));
    if (!op || c->n_waiting == ARRAY_SIZE(c->waiting)) {
        free(op);
        return op ? err_set(err, ERR_UNAVAILABLE, "too many queries wait") :
                    err_set(err, ERR_NO_MEMORY, "out of memory");
    }
    op->click = c;
    op->q = q;
    buf_init(&op->sql, SQL_MAX_BYTES);
    buf_init(&op->params, URL_MAX_BYTES);
    buf_init(&op->told, DESCRIPTION_MAX_BYTES + 1);
    int r = sql_text_read(SQL_CLICKHOUSE, q->sql, &op->text, err);
    if (r == 0 && !q->internal)
        r = click_check_statement(&op->text, b->entry->writable, &op->verdict, err);
    if (r < 0) {
        op_free(op);
        return r;
    }
    q->op = op;
    c->waiting[c->n_waiting++] = op;
    uv_idle_start(&c->kick, on_kick);
    return 0;
}

/* ---- cancelling and closing ---- */

static void close_when_over(struct clickhouse *c);

static void on_killed(void *arg, const struct client_response *resp, const struct err *why)
{
    struct kill *k = arg;
    struct clickhouse *c = k->click;
    (void)resp;
    (void)why; /* its time-out ends it then */
    for (struct kill **at = &c->kills; *at; at = &(*at)->next)
        if (*at == k) {
            *at = k->next;
            break;
        }
    free(k);
    close_when_over(c);
}

static int on_kill_body(void *arg, const struct client_response *resp, const char *data, size_t len,
                        struct err *err)
{
    (void)arg;
    (void)resp;
    (void)data;
    (void)len;
    (void)err;
    return 0;
}

static void send_kill(struct clickhouse *c, const char *id)
{
    struct kill *k = calloc(1, sizeof(*k));
    char sql[96];
    int n = snprintf(sql, sizeof(sql), "KILL QUERY WHERE query_id = '%s' ASYNC", id);
    if (!k)
        return;
    *k = (struct kill){ .click = c, .next = c->kills };
    const struct client_events events = { .body = on_kill_body, .done = on_killed, .arg = k };
    if (start(c, "", sql, (size_t)n, KILL_TIMEOUT_MS, ERROR_MAX_BYTES, &events, &k->request, NULL) <
        0) {
        free(k);
        return;
    }
    c->kills = k;
}

static void cancel(struct db_backend *b, struct db_query *q)
{
    struct clickhouse *c = (struct clickhouse *)b;
    struct op *op = q->op;
    for (size_t i = 0; i < c->n_waiting; i++)
        if (c->waiting[i] == op) {
            c->n_waiting--;
            memmove(c->waiting + i, c->waiting + i + 1, (c->n_waiting - i) * sizeof(c->waiting[0]));
            op_free(op);
            return;
        }
    client_cancel(op->request);
    c->n_running--;
    if (!op->describes)
        send_kill(c, op->id);
    op_free(op);
    uv_idle_start(&c->kick, on_kick);
}

static void free_backend(struct clickhouse *c)
{
    if (c->password)
        explicit_bzero(c->password, strlen(c->password));
    free(c->origin);
    free(c->user);
    free(c->password);
    free(c->database);
    buf_finish(&c->told);
    free(c);
}

static void kick_closed(uv_handle_t *handle)
{
    struct clickhouse *c = handle->data;
    db_backend_closed(&c->base);
    free_backend(c);
}

/* Kills that are under way are waited for; each has its own time-out. */
static void close_when_over(struct clickhouse *c)
{
    if (!c->closing || c->kills || uv_is_closing((uv_handle_t *)&c->kick))
        return;
    client_destroy(TAKE_PTR(c->client));
    uv_close((uv_handle_t *)&c->kick, kick_closed);
}

static void close_backend(struct db_backend *b)
{
    struct clickhouse *c = (struct clickhouse *)b;
    c->closing = true;
    if (c->probing)
        client_cancel(TAKE_PTR(c->probing));
    close_when_over(c);
}

/* ---- the entry ---- */

/* Text between two places of a URL, percent-decoded. NULL: no memory, or a zero byte. */
static char *decoded(const char *from, const char *to)
{
    char *text = malloc((size_t)(to - from) + 1), *at = text;
    for (; text && from < to; from++) {
        unsigned v = 0;
        if (*from == '%' && to - from > 2 && isxdigit((unsigned char)from[1]) &&
            isxdigit((unsigned char)from[2]) && sscanf(from + 1, "%2x", &v) == 1) {
            *at++ = (char)v;
            from += 2;
        } else {
            *at++ = *from;
        }
    }
    if (text)
        *at = '\0';
    return text;
}

static bool is_host(const char *from, const char *to)
{
    for (const char *p = from; p < to; p++)
        if (!isalnum((unsigned char)*p) && !strchr("-._:[]", *p))
            return false;
    return to > from;
}

/* clickhouse[s]://user:password@host:port/database */
static int read_url(struct clickhouse *c, const char *url, struct err *err)
{
    bool tls = str_starts(url, "clickhouses:");
    const char *from = strstr(url, "://");
    from = from ? from + 3 : url + strlen(url);
    const char *end = from + strcspn(from, "/?#"), *at = memrchr(from, '@', (size_t)(end - from));
    const char *host = at ? at + 1 : from, *login_end = at ? at : from;
    const char *colon = memchr(from, ':', (size_t)(login_end - from));
    const char *user_end = colon ? colon : login_end;
    const char *bracket = memchr(host, ']', (size_t)(end - host));
    const char *port = memchr(bracket ? bracket : host, ':',
                              (size_t)(end - (bracket ? bracket : host)));
    const char *database = *end == '/' ? end + 1 : end;
    long long number = tls ? HTTPS_PORT : HTTP_PORT;
    auto_free char *port_text = port ? decoded(port + 1, end) : NULL;
    char origin[300];
    const char *host_end = port ? port : end;
    bool good = is_host(host, host_end) && host_end - host < 256 && !strpbrk(database, "/?#") &&
                (!port || str_parse_i64(port_text, "port", 1, 65535, &number, NULL) == 0);
    if (!good)
        return err_set(err, ERR_CONFIG,
                       "a URL of ClickHouse is clickhouse://user:password@host:port/database, with "
                       "the port of its HTTP interface (clickhouses:// for TLS)");
    snprintf(origin, sizeof(origin), "%s://%.*s:%lld", tls ? "https" : "http",
             (int)(host_end - host), host, number);
    c->origin = strdup(origin);
    c->user = user_end > from ? decoded(from, user_end) : strdup("default");
    c->password = colon ? decoded(colon + 1, login_end) : strdup("");
    c->database = *database ? decoded(database, database + strlen(database)) : strdup("default");
    if (!c->origin || !c->user || !c->password || !c->database)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    return strpbrk(c->user, "\r\n") || strpbrk(c->password, "\r\n") ?
               err_set(err, ERR_CONFIG, "the user or the password has a line break") :
               0;
}

static int open_backend(struct databases *d, const struct db_entry *entry, struct db_backend **ret,
                        struct err *err)
{
    struct clickhouse *c = calloc(1, sizeof(*c));
    if (!c)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    buf_init(&c->told, ERROR_MAX_BYTES);
    int r = read_url(c, entry->url, err);
    if (r < 0) {
        free_backend(c);
        return r;
    }
    uv_idle_init(databases_loop(d), &c->kick);
    c->kick.data = c;
    *ret = &c->base;
    return 0;
}

static const char schema_sql[] =
    "SELECT table, name, type, if(type LIKE 'Nullable(%' OR type LIKE 'LowCardinality(Nullable(%', "
    "'YES', 'NO') AS is_nullable, nullIf(default_expression, '') AS default_value FROM (SELECT "
    "table, name, type, default_expression, rowNumberInAllBlocks() AS place FROM system.columns "
    "WHERE database = currentDatabase() AND table NOT LIKE '.inner%' AND (:table IS NULL OR table "
    "= assumeNotNull(coalesce(:table, '')))) ORDER BY table, place";

/*
 * There are no foreign keys: a comment with REFERENCES table(column) declares one. RE2 reads what
 * is left of the backslashes after C and ClickHouse have read theirs. Version 18 knows no (?i).
 */
#define REFERENCES                                                                                 \
    "[Rr][Ee][Ff][Ee][Rr][Ee][Nn][Cc][Ee][Ss]\\\\s+\"?(\\\\w+)\"?\\\\s*\\\\(\\\\s*\"?(\\\\w+)"

static const char facts_sql[] =
    "SELECT * FROM (SELECT 'comment' AS kind, table, name, comment AS said, CAST(NULL AS "
    "Nullable(String)) AS other FROM system.columns WHERE database = currentDatabase() AND comment "
    "!= '' UNION ALL "
    "SELECT 'key' AS kind, table, name, replaceRegexpOne(comment, '^.*?" REFERENCES
    ".*$', '\\\\1') AS said, CAST(replaceRegexpOne(comment, '^.*?" REFERENCES
    ".*$', '\\\\2') AS Nullable(String)) AS other FROM system.columns WHERE database = "
    "currentDatabase() AND match(comment, '" REFERENCES "')) ORDER BY kind, table, name";

const struct database_ops database_clickhouse_ops = {
    .kind = "clickhouse",
    .schemes = "clickhouse clickhouses",
    .open = open_backend,
    .close = close_backend,
    .begin = begin,
    .cancel = cancel,
    .schema_sql = schema_sql,
    .facts_sql = facts_sql,
    .describe_sql = "SELECT concat('ClickHouse ', version(), ', ', toString(count()), ' tables') "
                    "FROM system.tables WHERE database = currentDatabase()",
};
