/*
 * `riddle bench-stream`: one question to a thread of a running server, first for the whole answer,
 * then as a stream. Shows stage by stage when a person would have seen what.
 */

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>
#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/str.h"
#include "cli/cli.h"
#include "llm/sse_read.h"
#include "net/client.h"

#define ANSWER_MAX_BYTES (64u << 20)
#define TIMEOUT_MS (30 * 60 * 1000)
#define PREVIEW_BYTES 120

static const char usage[] =
    "usage: riddle bench-stream [--server URL] THREAD QUESTION\n\n"
    "Asks a thread of a running server twice: for the whole answer, then as a stream, and shows\n"
    "the time of every stage.\n\n"
    "  --server URL  where the server is; http://127.0.0.1:$PORT when missing\n\n"
    "A server with keys is sent the first one of RIDDLE_API_KEYS.\n\n"
    "Exit status: 0 both were answered, 1 one was not, 2 the request is wrong.\n";

struct target {
    const char *thread;
    char server[256], key[256];
};

/* One request, and what came of it. */
struct ask {
    int64_t begun_us;
    double first_token_ms, total_ms; /* -1: none yet */
    struct buf body;                 /* the whole answer, or why there is no stream */
    struct sse_reader reader;
    struct buf text;
    json_t *answer; /* the whole one, or the event `done` */
    struct err err;
    bool stream, done;
};

static double since(const struct ask *a)
{
    return (double)(clock_now_us() - a->begun_us) / 1000;
}

static const char *text_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

/* ---- events ---- */

static int on_event(void *arg, const char *name, const char *data, size_t len, struct err *err)
{
    struct ask *a = arg;
    auto_json json_t *event = NULL;
    (void)name;
    int r = json_parse(data, len, &event, err);
    if (r < 0)
        return r;
    const char *type = text_of(event, "type");
    if (str_eq(type, "token")) {
        if (a->first_token_ms < 0)
            a->first_token_ms = since(a);
        r = buf_append_str(&a->text, text_of(event, "text"), err);
    } else if (str_eq(type, "status") || str_eq(type, "progress")) {
        printf("  [%7.1f ms] %s: %s\n", since(a), type, text_of(event, "text"));
    } else if (str_eq(type, "tool_call")) {
        printf("  [%7.1f ms] tool_call: %s\n", since(a), text_of(event, "name"));
    } else if (str_eq(type, "code_run")) {
        printf("  [%7.1f ms] code_run (%.1f ms exec)\n", since(a),
               json_number_value(json_object_get(event, "exec_ms")));
    } else if (str_eq(type, "error")) {
        r = err_set(err, ERR_UNAVAILABLE, "%s", text_of(event, "message"));
    } else if (str_eq(type, "done")) {
        a->total_ms = since(a);
        a->answer = json_incref(event);
    }
    return r < 0 ? r : 0;
}

static int on_body(void *arg, const struct client_response *resp, const char *data, size_t len,
                   struct err *err)
{
    struct ask *a = arg;
    if (a->stream && resp->status == 200)
        return sse_read(&a->reader, data, len, on_event, a, err);
    return buf_append(&a->body, data, len, err);
}

static void on_done(void *arg, const struct client_response *resp, const struct err *err)
{
    struct ask *a = arg;
    auto_json json_t *body = NULL;
    a->done = true;
    if (err) {
        a->err = *err;
        return;
    }
    if (a->total_ms < 0)
        a->total_ms = since(a);
    if (a->body.len > 0 && json_parse(a->body.data, a->body.len, &body, &a->err) < 0)
        return;
    if (resp->status != 200)
        err_set(&a->err, ERR_UNAVAILABLE, "the server answers %d: %s", resp->status,
                text_of(body, "detail"));
    else if (!a->stream)
        a->answer = json_incref(body);
    else if (!a->answer)
        err_set(&a->err, ERR_UNAVAILABLE, "the stream ended without its answer");
}

static int ask(struct ask *a, const struct target *to, const char *question)
{
    uv_loop_t *loop = uv_default_loop();
    struct client *client = NULL;
    struct client_request *request = NULL;
    auto_json json_t *message = json_pack("{s:s}", "message", question);
    auto_free char *body = json_to_str(message), *url = NULL, *bearer = NULL;
    if (!body ||
        asprintf(&url, "%s/thread/%s/message%s", to->server, to->thread,
                 a->stream ? "/stream" : "") < 0 ||
        asprintf(&bearer, "Bearer %s", to->key) < 0)
        return err_set(&a->err, ERR_NO_MEMORY, "out of memory");
    struct client_header headers[] = { { "Content-Type", "application/json" },
                                       { "Accept",
                                         a->stream ? "text/event-stream" : "application/json" },
                                       { "Authorization", bearer } };
    struct client_options options = { .method = "POST",
                                      .url = url,
                                      .headers = headers,
                                      .n_headers = ARRAY_SIZE(headers) - (*to->key ? 0 : 1),
                                      .body = body,
                                      .body_len = strlen(body),
                                      .timeout_ms = TIMEOUT_MS,
                                      .max_body_bytes = ANSWER_MAX_BYTES };
    struct client_events events = { .body = on_body, .done = on_done, .arg = a };
    int r = client_create(loop, NULL, &client, &a->err);
    a->begun_us = clock_now_us();
    if (r == 0)
        r = client_start(client, &options, &events, &request, &a->err);
    while (r == 0 && !a->done)
        uv_run(loop, UV_RUN_ONCE);
    client_destroy(client);
    uv_run(loop, UV_RUN_NOWAIT);
    return r < 0 ? r : -(int)a->err.code;
}

/* ---- what is shown ---- */

static void show_end(const struct ask *a, const char *text)
{
    const json_t *t = json_object_get(a->answer, "timings_ms");
    size_t len = strlen(text), cut = str_utf8_cut(text, len, PREVIEW_BYTES);
    char shown[PREVIEW_BYTES + 1];
    snprintf(shown, sizeof(shown), "%.*s", (int)cut, text);
    for (char *p = shown; *p; p++)
        *p = (unsigned char)*p < 0x20 ? ' ' : *p;
    printf("  Total (client-side): %.1f ms\n", a->total_ms);
    printf("  Total (server-side): %.1f ms\n",
           json_number_value(json_object_get(a->answer, "total_ms")));
    printf("  Response preview:    %s%s\n", shown, cut < len ? "…" : "");
    printf("  Breakdown:  restore=%.1fms  openai=%.1fms  exec=%.1fms  overhead=%.1fms\n\n",
           json_number_value(json_object_get(t, "sandbox_restore")),
           json_number_value(json_object_get(t, "openai_total")),
           json_number_value(json_object_get(t, "exec_total")),
           json_number_value(json_object_get(t, "overhead")));
}

static void ask_init(struct ask *a, bool stream)
{
    *a = (struct ask){ .first_token_ms = -1, .total_ms = -1, .stream = stream };
    buf_init(&a->body, ANSWER_MAX_BYTES);
    buf_init(&a->text, ANSWER_MAX_BYTES);
    sse_reader_init(&a->reader);
}

static void ask_finish(struct ask *a)
{
    buf_finish(&a->body);
    buf_finish(&a->text);
    sse_reader_finish(&a->reader);
    json_decref(a->answer);
}

static int bench(const struct target *to, const char *question)
{
    struct ask whole, stream;
    ask_init(&whole, false);
    ask_init(&stream, true);
    printf("Thread:  %s\nMessage: %s\n\n[ Non-streaming ]\n", to->thread, question);
    int r = ask(&whole, to, question);
    if (r == 0) {
        show_end(&whole, text_of(whole.answer, "response"));
        puts("[ Streaming ]");
        r = ask(&stream, to, question);
        whole.err = stream.err;
    }
    if (r == 0) {
        printf("  TTFT (first token):  %.1f ms\n", stream.first_token_ms);
        show_end(&stream, buf_cstr(&stream.text));
    }
    if (r == 0 && stream.first_token_ms >= 0 && whole.total_ms > 0)
        printf(
            "TTFT vs non-stream total: %.1f ms vs %.1f ms: "
               "the first word is there %.1f ms earlier (%.0f%%)\n",
            stream.first_token_ms, whole.total_ms, whole.total_ms - stream.first_token_ms,
            100 * (whole.total_ms - stream.first_token_ms) / whole.total_ms);
    fflush(stdout);
    if (r < 0)
        cli_complain("%s", whole.err.message);
    ask_finish(&whole);
    ask_finish(&stream);
    return r < 0 ? CLI_FAILED : CLI_OK;
}

/* It goes into a path. */
static bool is_thread_id(const char *s)
{
    return *s && strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:") ==
                     strlen(s);
}

int cli_bench_stream(const struct cli *cli, int argc, char **argv)
{
    static const struct option options[] = { { "server", required_argument, NULL, 's' },
                                             { "help", no_argument, NULL, 'h' },
                                             { NULL, 0, NULL, 0 } };
    struct config cfg;
    struct target to = { .thread = NULL };
    int c;
    (void)cli;
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        if (c == 'h') {
            fputs(usage, stdout);
            return CLI_OK;
        }
        if (c != 's')
            return cli_bad_option("bench-stream", argv, options);
        snprintf(to.server, sizeof(to.server), "%s", optarg);
    }
    if (argc - optind != 2 || !is_thread_id(argv[optind])) {
        fputs(usage, stderr);
        return CLI_USAGE;
    }
    int status = cli_load_config(&cfg);
    if (status != CLI_OK)
        return status;
    if (!*to.server)
        snprintf(to.server, sizeof(to.server), "http://127.0.0.1:%lld", (long long)cfg.port);
    size_t n = strlen(to.server);
    if (n > 0 && to.server[n - 1] == '/')
        to.server[n - 1] = '\0';
    to.thread = argv[optind];
    const char *key = strchr(cfg.api_keys, ':');
    if (key)
        snprintf(to.key, sizeof(to.key), "%.*s", (int)strcspn(key + 1, ","), key + 1);
    status = bench(&to, argv[optind + 1]);
    config_finish(&cfg);
    return status;
}
