/*
 * `riddle bench-stream`: one question to a thread of a running server, first for the whole answer,
 * then as a stream. Shows stage by stage when a person would have seen what.
 */

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/remote.h"
#include "llm/sse_read.h"

#define PREVIEW_BYTES 120

static const char usage[] =
    "usage: riddle bench-stream [--server URL] THREAD QUESTION\n\n"
    "Asks a thread of a running server twice: for the whole answer, then as a stream, and shows\n"
    "the time of every stage.\n\n" REMOTE_USAGE
    "Exit status: 0 both were answered, 1 one was not, 2 the request is wrong.\n";

/* One request, and what came of it. */
struct ask {
    int64_t begun_us;
    double first_token_ms, total_ms; /* -1: none yet */
    struct buf body;                 /* the whole answer */
    struct sse_reader reader;
    struct buf text;
    json_t *answer; /* the whole one, or the event `done` */
    struct err err;
    bool stream;
};

static double since(const struct ask *a)
{
    return (double)(clock_now_us() - a->begun_us) / 1000;
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
    const char *type = remote_text(event, "type");
    if (str_eq(type, "token")) {
        if (a->first_token_ms < 0)
            a->first_token_ms = since(a);
        r = buf_append_str(&a->text, remote_text(event, "text"), err);
    } else if (str_eq(type, "status") || str_eq(type, "progress")) {
        printf("  [%7.1f ms] %s: %s\n", since(a), type, remote_text(event, "text"));
    } else if (str_eq(type, "tool_call")) {
        printf("  [%7.1f ms] tool_call: %s\n", since(a), remote_text(event, "name"));
    } else if (str_eq(type, "code_run")) {
        printf("  [%7.1f ms] code_run (%.1f ms exec)\n", since(a),
               json_number_value(json_object_get(event, "exec_ms")));
    } else if (str_eq(type, "error")) {
        r = err_set(err, ERR_UNAVAILABLE, "%s", remote_text(event, "message"));
    } else if (str_eq(type, "done")) {
        a->total_ms = since(a);
        a->answer = json_incref(event);
    }
    return r < 0 ? r : 0;
}

static int on_stream(void *arg, const char *data, size_t len, struct err *err)
{
    struct ask *a = arg;
    return sse_read(&a->reader, data, len, on_event, a, err);
}

static int ask(struct ask *a, const struct remote *to, const char *thread, const char *question)
{
    auto_json json_t *message = json_pack("{s:s}", "message", question);
    auto_free char *body = json_to_str(message);
    auto_buf struct buf path = BUF_INIT(4096);
    if (!body)
        return err_set(&a->err, ERR_NO_MEMORY, "out of memory");
    int r = buf_append_str(&path, "/thread/", &a->err);
    if (r == 0)
        r = remote_append_coded(&path, thread, false, &a->err);
    if (r == 0)
        r = buf_append_str(&path, a->stream ? "/message/stream" : "/message", &a->err);
    if (r < 0)
        return r;
    struct remote_request request = { .method = "POST",
                                      .path = buf_cstr(&path),
                                      .accept = a->stream ? "text/event-stream" : NULL,
                                      .body = body,
                                      .body_len = strlen(body),
                                      .take = a->stream ? on_stream : NULL,
                                      .arg = a };
    a->begun_us = clock_now_us();
    r = remote_call(to, &request, &a->body, &a->err);
    if (a->total_ms < 0)
        a->total_ms = since(a);
    if (r == 0 && !a->stream)
        r = json_parse(buf_cstr(&a->body), a->body.len, &a->answer, &a->err);
    else if (r == 0 && !a->answer)
        r = err_set(&a->err, ERR_UNAVAILABLE, "the stream ended without its answer");
    return r;
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
    buf_init(&a->body, REMOTE_ANSWER_MAX_BYTES);
    buf_init(&a->text, REMOTE_ANSWER_MAX_BYTES);
    sse_reader_init(&a->reader);
}

static void ask_finish(struct ask *a)
{
    buf_finish(&a->body);
    buf_finish(&a->text);
    sse_reader_finish(&a->reader);
    json_decref(a->answer);
}

static int bench(const struct remote *to, const char *thread, const char *question)
{
    struct ask whole, stream;
    ask_init(&whole, false);
    ask_init(&stream, true);
    printf("Thread:  %s\nMessage: %s\n\n[ Non-streaming ]\n", thread, question);
    int r = ask(&whole, to, thread, question);
    if (r == 0) {
        show_end(&whole, remote_text(whole.answer, "response"));
        puts("[ Streaming ]");
        r = ask(&stream, to, thread, question);
        whole.err = stream.err;
    }
    if (r == 0) {
        printf("  TTFT (first token):  %.1f ms\n", stream.first_token_ms);
        show_end(&stream, buf_cstr(&stream.text));
    }
    if (r == 0 && stream.first_token_ms >= 0 && whole.total_ms > 0)
        printf("TTFT vs non-stream total: %.1f ms vs %.1f ms: "
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

int cli_bench_stream(const struct cli *cli, int argc, char **argv)
{
    static const struct option options[] = { { "server", required_argument, NULL, 's' },
                                             { "help", no_argument, NULL, 'h' },
                                             { NULL, 0, NULL, 0 } };
    const char *server = NULL;
    struct remote to;
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
        server = optarg;
    }
    if (argc - optind != 2 || !remote_is_id(argv[optind])) {
        fputs(usage, stderr);
        return CLI_USAGE;
    }
    int status = remote_init(&to, server);
    return status == CLI_OK ? bench(&to, argv[optind], argv[optind + 1]) : status;
}
