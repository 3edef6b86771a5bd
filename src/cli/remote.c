#include "cli/remote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>
#include "base/macros.h"
#include "base/str.h"
#include "cli/cli.h"
#include "net/client.h"

#define TIMEOUT_MS (30 * 60 * 1000)
#define REFUSAL_MAX_BYTES (1u << 20)

int remote_init(struct remote *r, const char *server)
{
    struct config cfg;
    *r = (struct remote){ .server = "" };
    if (server && strlen(server) >= sizeof(r->server)) {
        cli_complain("the URL of --server has more than %zu bytes", sizeof(r->server) - 1);
        return CLI_USAGE;
    }
    int status = cli_load_config(&cfg);
    if (status != CLI_OK)
        return status;
    if (server)
        snprintf(r->server, sizeof(r->server), "%s", server);
    else
        snprintf(r->server, sizeof(r->server), "http://127.0.0.1:%lld", (long long)cfg.port);
    size_t n = strlen(r->server);
    if (n > 0 && r->server[n - 1] == '/')
        r->server[n - 1] = '\0';
    const char *colon = strchr(cfg.api_keys, ':'), *key = *cfg.api_key ? cfg.api_key :
                                                          colon        ? colon + 1 :
                                                                         "";
    snprintf(r->key, sizeof(r->key), "%.*s", (int)strcspn(key, ","), key);
    config_finish(&cfg);
    return CLI_OK;
}

/* ---- one request ---- */

struct call {
    const struct remote_request *request;
    const char *server;
    struct buf *answer, refusal;
    struct err err;
    bool done;
};

static int on_body(void *arg, const struct client_response *resp, const char *data, size_t len,
                   struct err *err)
{
    struct call *c = arg;
    if (resp->status != 200)
        return buf_append(&c->refusal, data, len, err);
    if (c->request->take)
        return c->request->take(c->request->arg, data, len, err);
    return buf_append(c->answer, data, len, err);
}

/* What an answer that is no success says: in `detail`, or, when that is a list, in `error`. */
static void read_refusal(struct call *c, int status)
{
    struct err unreadable = ERR_INIT;
    auto_json json_t *body = NULL;
    char shown[ERR_MESSAGE_MAX / 2];
    if (c->refusal.len > 0)
        (void)json_parse(c->refusal.data, c->refusal.len, &body, &unreadable);
    const char *text = remote_text(body, "detail");
    if (!*text)
        text = remote_text(json_object_get(body, "error"), "message");
    err_set(&c->err, ERR_UNAVAILABLE, "the server answers %d%s%s%s", status, *text ? ": " : "",
            str_show(text, strlen(text), shown, sizeof(shown)),
            status == 401 ? " (RIDDLE_API_KEY is the key that is sent)" : "");
}

static void on_done(void *arg, const struct client_response *resp, const struct err *err)
{
    struct call *c = arg;
    c->done = true;
    if (err && err->code == ERR_UNAVAILABLE && resp->status == 0) {
        char origin[CLIENT_ORIGIN_SIZE], again[CLIENT_ORIGIN_SIZE + 32];
        client_origin(c->server, origin);
        snprintf(again, sizeof(again), "cannot connect to %s: ", origin);
        err_set(&c->err, ERR_UNAVAILABLE,
                "no server answers at %s ('riddle serve' starts one, --server names another): %s",
                origin, err->message + (str_starts(err->message, again) ? strlen(again) : 0));
    } else if (err) {
        c->err = *err;
    } else if (resp->status != 200) {
        read_refusal(c, resp->status);
    }
}

int remote_call(const struct remote *r, const struct remote_request *q, struct buf *answer,
                struct err *err)
{
    uv_loop_t *loop = uv_default_loop();
    struct client *client = NULL;
    struct client_request *request = NULL;
    auto_free char *url = NULL, *bearer = NULL;
    struct call c = { .request = q,
                      .server = r->server,
                      .answer = answer,
                      .refusal = BUF_INIT(REFUSAL_MAX_BYTES),
                      .err = ERR_INIT };
    struct client_header headers[3] = { { "Accept", q->accept ? q->accept : "application/json" } };
    size_t n = 1;
    if (asprintf(&url, "%s%s", r->server, q->path) < 0 ||
        asprintf(&bearer, "Bearer %s", r->key) < 0)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    if (q->body)
        headers[n++] = (struct client_header){ "Content-Type", q->content_type ?
                                                                   q->content_type :
                                                                   "application/json" };
    if (*r->key)
        headers[n++] = (struct client_header){ "Authorization", bearer };
    struct client_options options = { .method = q->method,
                                      .url = url,
                                      .headers = headers,
                                      .n_headers = n,
                                      .body = q->body,
                                      .body_len = q->body_len,
                                      .timeout_ms = TIMEOUT_MS,
                                      .max_body_bytes = answer->max_bytes };
    struct client_events events = { .body = on_body, .done = on_done, .arg = &c };
    int code = client_create(loop, NULL, &client, &c.err);
    if (code == 0)
        code = client_start(client, &options, &events, &request, &c.err);
    if (code == -ERR_INVALID_INPUT)
        err_wrap(&c.err, "--server");
    while (code == 0 && !c.done)
        uv_run(loop, UV_RUN_ONCE);
    client_destroy(client);
    uv_run(loop, UV_RUN_NOWAIT);
    buf_finish(&c.refusal);
    if (c.err.code != ERR_NONE)
        *err = c.err;
    return -(int)c.err.code;
}

int remote_call_json(const struct remote *r, const char *method, const char *path,
                     const json_t *body, json_t **ret, struct err *err)
{
    auto_buf struct buf answer = BUF_INIT(REMOTE_ANSWER_MAX_BYTES);
    auto_free char *text = body ? json_to_str(body) : NULL;
    if (body && !text)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    struct remote_request q = {
        .method = method, .path = path, .body = text, .body_len = text ? strlen(text) : 0
    };
    int code = remote_call(r, &q, &answer, err);
    if (code == 0)
        code = json_parse(buf_cstr(&answer), answer.len, ret, err);
    return code;
}

/* ---- texts ---- */

int remote_append_coded(struct buf *b, const char *text, bool slashes, struct err *err)
{
    int r = 0;
    for (const char *s = text; *s && r == 0; s++) {
        bool plain = (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') ||
                     (*s >= '0' && *s <= '9') || strchr("-_.~", *s) || (slashes && *s == '/');
        r = plain ? buf_append(b, s, 1, err) : buf_printf(b, err, "%%%02X", (unsigned char)*s);
    }
    return r;
}

bool remote_is_id(const char *s)
{
    return *s && !str_eq(s, ".") && !str_eq(s, "..");
}

const char *remote_text(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}
