/*
 * Ten thousand malformed answers over real HTTP on loopback: good streams of both protocols,
 * changed at random in head and body, cut or reset. Each call ends exactly once, with a reply or
 * with an error that has a reason, and a good answer is understood afterwards. The numbers are
 * pseudo-random, so a failure comes again.
 */

#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/str.h"
#include "llm/llm.h"

#define STREAMS 10000
#define AT_ONCE 16
#define KEY "sk-riddle-unit-test-secret"
#define ANSWER_MAX 16384

static const char openai_stream[] =
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n"
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"The answer \"},\"finish_reason\":null}]}\n\n"
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"is 42.\"},\"finish_reason\":null}]}\n\n"
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"type\":\"function\",\"function\":{\"name\":"
    "\"run_sql\",\"arguments\":\"{\\\"sql\\\":\"}}]},\"finish_reason\":null}]}\n\n"
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"\\\"SELECT 1\\\"}\"}}]},"
    "\"finish_reason\":null}]}\n\n"
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n"
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":20}}\n\n"
    "data: [DONE]\n\n";

static const char anthropic_stream[] =
    "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":10,\"output_tokens\":1}}}\n\n"
    "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n"
    "event: ping\ndata: {\"type\":\"ping\"}\n\n"
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":"
    "\"The answer is 42.\"}}\n\n"
    "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n"
    "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"tool_use\",\"id\":\"a\","
    "\"name\":\"run_sql\",\"input\":{}}}\n\n"
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"input_json_delta\","
    "\"partial_json\":\"{\\\"sql\\\":\\\"SELECT 1\\\"}\"}}\n\n"
    "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":1}\n\n"
    "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"},\"usage\":{\"output_tokens\":20}}\n\n"
    "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";

/* ---- the server, in a thread of its own ---- */

struct server {
    int listener, port;
    pthread_t thread;
    const char *stream;
    uint64_t random;
    atomic_bool is_good; /* answers as it should */
};

static unsigned pick(struct server *s, unsigned n)
{
    s->random ^= s->random << 13;
    s->random ^= s->random >> 7;
    s->random ^= s->random << 17;
    return (unsigned)(s->random >> 33) % n;
}

static void change(struct server *s, char *b, size_t *len)
{
    static const char *const words[] = { "\n\n",
                                         "data: ",
                                         "{",
                                         "}",
                                         "[",
                                         "]",
                                         "\"",
                                         "null",
                                         "\\u0000",
                                         "\\ud83d",
                                         "\xff",
                                         "\r",
                                         "[DONE]",
                                         "-1",
                                         "99999999",
                                         "\"error\":",
                                         "{\"error\":{\"message\":\"" KEY "\"}}",
                                         "event: error\n",
                                         "1e999",
                                         ":" };
    size_t at = *len ? pick(s, (unsigned)*len) : 0, n = 1 + pick(s, 60);
    const char *word = words[pick(s, ARRAY_SIZE(words))];

    switch (pick(s, 6)) {
    case 0: /* another byte */
        if (*len)
            b[at] = (char)pick(s, 256);
        break;
    case 1: /* the end is missing */
        *len = at;
        break;
    case 2: /* some are missing */
        n = MIN_OF(n, *len - at);
        memmove(b + at, b + at + n, *len - at - n);
        *len -= n;
        break;
    case 3: /* something in between */
        n = strlen(word);
        if (*len + n <= ANSWER_MAX) {
            memmove(b + at + n, b + at, *len - at);
            memcpy(b + at, word, n);
            *len += n;
        }
        break;
    case 4: /* some twice */
        n = MIN_OF(n, *len - at);
        if (*len + n <= ANSWER_MAX) {
            memmove(b + at + n, b + at, *len - at);
            *len += n;
        }
        break;
    default: /* over it */
        n = strlen(word);
        if (at + n <= *len)
            memcpy(b + at, word, n);
    }
}

/* A head and a body. */
static size_t compose(struct server *s, char *b)
{
    static const char *const heads[] = {
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nConnection: close\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 300\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 99999\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n100\r\n",
        "HTTP/1.1 429 Slow\r\nContent-Type: application/json\r\nRetry-After: -7\r\n\r\n",
        "HTTP/1.1 500 Oops\r\nRetry-After: Thu, 99 Foo 2099 25:61:61 GMT\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n",
        "HTTP/1.1 401 No\r\nContent-Type: text/plain\r\n\r\n" KEY,
        "HTTP/1.1 400 No\r\nContent-Type: application/json\r\n\r\n{\"error\":{\"message\":\"temperature " KEY
        "\"}}",
    };
    /* Most heads are good, so that bodies are reached. */
    const char *head = atomic_load(&s->is_good) ?
                           heads[0] :
                           heads[pick(s, 3) ? pick(s, 3) : pick(s, ARRAY_SIZE(heads))];
    size_t head_len = strlen(head), len = strlen(s->stream), total;
    bool change_head = pick(s, 20) == 0;

    memcpy(b, head, head_len);
    memcpy(b + head_len, s->stream, len);
    if (atomic_load(&s->is_good))
        return head_len + len;
    for (unsigned n = 1 + pick(s, 4); n > 0 && !change_head; n--)
        change(s, b + head_len, &len);
    total = head_len + len;
    if (change_head)
        change(s, b, &total);
    return total;
}

static void serve(struct server *s, int fd)
{
    static char request[65536], answer[2 * ANSWER_MAX];
    size_t len = 0, need = 0, sent = 0, total;
    ssize_t n;

    while ((need == 0 || len < need) &&
           (n = recv(fd, request + len, sizeof(request) - 1 - len, 0)) > 0) {
        len += (size_t)n;
        request[len] = '\0';
        char *end = strstr(request, "\r\n\r\n"), *length = strcasestr(request, "content-length:");

        if (end && length)
            need = (size_t)(end + 4 - request) + strtoul(length + 15, NULL, 10);
    }
    total = compose(s, answer);
    while (sent < total) {
        size_t piece = pick(s, 3) ? total - sent : MIN_OF(total - sent, 1 + (size_t)pick(s, 400));

        n = send(fd, answer + sent, piece, MSG_NOSIGNAL);
        if (n < 0)
            break;
        sent += (size_t)n;
    }
    if (!atomic_load(&s->is_good) && pick(s, 10) == 0) { /* a reset instead of an end */
        struct linger l = { .l_onoff = 1 };

        setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
    }
    close(fd);
}

static void *run_server(void *arg)
{
    struct server *s = arg;
    int fd;

    while ((fd = accept(s->listener, NULL, NULL)) >= 0)
        serve(s, fd);
    return NULL;
}

static void start_server(struct server *s, const char *stream)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(a);

    *s = (struct server){ .stream = stream, .random = 88172645463325252u };
    s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(s->listener, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(listen(s->listener, 128), 0);
    assert_int_equal(getsockname(s->listener, (struct sockaddr *)&a, &len), 0);
    s->port = ntohs(a.sin_port);
    assert_int_equal(pthread_create(&s->thread, NULL, run_server, s), 0);
}

static void stop_server(struct server *s)
{
    shutdown(s->listener, SHUT_RDWR);
    pthread_join(s->thread, NULL);
    close(s->listener);
}

/* ---- the calls ---- */

struct tally {
    struct llm *llm;
    unsigned started, ended, replies, errors[ERR_CODE_MAX];
    unsigned limit;
    char text[64]; /* of the last reply */
};

static void start_one(struct tally *t);

static void on_token(void *arg, const char *text, size_t len)
{
    (void)arg;
    assert_true(str_is_utf8(text, len));
}

static void on_done(void *arg, const struct llm_reply *reply, const struct err *err)
{
    struct tally *t = arg;

    t->ended++;
    assert_true(!reply != !err);
    if (reply) {
        t->replies++;
        snprintf(t->text, sizeof(t->text), "%s", reply->text);
    } else {
        assert_true(err->message[0] != '\0');
        assert_null(strstr(err->message, KEY));
        t->errors[err->code]++;
    }
    if (t->started < t->limit)
        start_one(t);
}

static void start_one(struct tally *t)
{
    static const struct llm_message question = { .role = LLM_USER,
                                                 .content = "What is the answer?" };
    struct llm_request req = { .messages = &question, .n_messages = 1, .timeout_ms = 20000 };
    struct llm_events events = { .token = on_token, .done = on_done, .arg = t };
    struct err err = ERR_INIT;

    t->started++;
    assert_works(llm_start(t->llm, &req, &events, NULL, &err), &err);
}

static void run(const char *provider, const char *stream)
{
    struct server server;
    struct config cfg;
    struct tally t = { .limit = STREAMS / 2 };
    struct err err = ERR_INIT;
    uv_loop_t loop;
    char url[64];
    int64_t begun;
    unsigned sum;

    start_server(&server, stream);
    snprintf(url, sizeof(url), "http://127.0.0.1:%d", server.port);
    setenv("LLM_PROVIDER", provider, 1);
    setenv("OPENAI_BASE_URL", url, 1);
    setenv("ANTHROPIC_BASE_URL", url, 1);
    setenv("OPENAI_API_KEY", KEY, 1);
    setenv("ANTHROPIC_API_KEY", KEY, 1);
    setenv("LLM_MAX_RETRIES", "0", 1);
    assert_works(config_load(&cfg, NULL, &err), &err);
    uv_loop_init(&loop);
    assert_works(llm_create(&loop, &cfg, &t.llm, &err), &err);

    begun = clock_now_ms();
    for (int i = 0; i < AT_ONCE; i++)
        start_one(&t);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(t.started, STREAMS / 2);
    assert_int_equal(t.ended, STREAMS / 2);
    sum = t.errors[ERR_LLM_BAD_RESPONSE] + t.errors[ERR_LLM_UNAVAILABLE] +
          t.errors[ERR_LLM_REJECTED] + t.errors[ERR_LLM_RATE_LIMITED];
    print_message(
        "%s: %u streams in %lld ms: %u replies, %u cannot be read, %u cut or failed, %u refused, %u limited\n",
        provider, t.ended, (long long)(clock_now_ms() - begun), t.replies,
        t.errors[ERR_LLM_BAD_RESPONSE], t.errors[ERR_LLM_UNAVAILABLE], t.errors[ERR_LLM_REJECTED],
        t.errors[ERR_LLM_RATE_LIMITED]);
    /* no time-out, and nothing that is not the server's fault */
    assert_int_equal(t.replies + sum, STREAMS / 2);
    /* Every kind was there: a server that always refuses would prove nothing. */
    assert_true(t.replies > 100 && t.errors[ERR_LLM_BAD_RESPONSE] > 100 &&
                t.errors[ERR_LLM_UNAVAILABLE] > 100);

    atomic_store(&server.is_good, true);
    t.limit = t.started;
    start_one(&t);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(t.ended, STREAMS / 2 + 1);
    assert_string_equal(t.text, "The answer is 42.");

    llm_destroy(t.llm);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    config_finish(&cfg);
    stop_server(&server);
}

static void test_openai(void **state)
{
    (void)state;
    run("openai", openai_stream);
}

static void test_anthropic(void **state)
{
    (void)state;
    run("anthropic", anthropic_stream);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_openai),
                                        cmocka_unit_test(test_anthropic) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
