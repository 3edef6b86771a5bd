/* Streams fed to parsers; see streams.h. */

#include "streams.h"

static int take_event(void *arg, const char *event, const char *data, size_t len, struct err *err)
{
    struct fed *f = arg;

    assert_int_equal(data[len], '\0');
    return f->provider->event(&f->draft, event, data, len, err);
}

static int take_token(void *arg, const char *text, size_t len)
{
    struct fed *f = arg;

    assert_int_equal(buf_append(&f->tokens, text, len, NULL), 0);
    return 0;
}

void feed(struct fed *f, const struct llm_provider *p, const char *stream, size_t len, size_t step)
{
    struct sse_reader reader;

    *f = (struct fed){ .provider = p, .tokens = BUF_INIT(LLM_TEXT_MAX), .err = ERR_INIT };
    llm_draft_init(&f->draft);
    f->draft.secret = "sk-a-secret-of-tests";
    f->draft.token = take_token;
    f->draft.token_arg = f;
    sse_reader_init(&reader);
    for (size_t at = 0; at < len && f->result == 0; at += step) {
        /* An exact copy lets AddressSanitizer see a read past the end. */
        size_t n = MIN_OF(step, len - at);
        char *piece = malloc(n);

        memcpy(piece, stream + at, n);
        f->result = sse_read(&reader, piece, n, take_event, f, &f->err);
        free(piece);
    }
    if (f->result >= 0)
        f->result = llm_draft_close(&f->draft, &f->err);
    sse_reader_finish(&reader);
}

void fed_finish(struct fed *f)
{
    llm_draft_finish(&f->draft);
    buf_finish(&f->tokens);
}

static void assert_same(const struct fed *a, const struct fed *b)
{
    assert_int_equal(a->result, b->result);
    assert_string_equal(a->err.message, b->err.message);
    assert_string_equal(buf_cstr(&a->draft.text), buf_cstr(&b->draft.text));
    assert_string_equal(buf_cstr(&a->tokens), buf_cstr(&b->tokens));
    assert_int_equal(a->draft.n_calls, b->draft.n_calls);
    for (size_t i = 0; i < a->draft.n_calls; i++) {
        assert_string_equal(buf_cstr(&a->draft.calls[i].id), buf_cstr(&b->draft.calls[i].id));
        assert_string_equal(buf_cstr(&a->draft.calls[i].name), buf_cstr(&b->draft.calls[i].name));
        assert_string_equal(buf_cstr(&a->draft.calls[i].arguments),
                            buf_cstr(&b->draft.calls[i].arguments));
    }
    assert_int_equal(a->draft.stop, b->draft.stop);
    assert_int_equal(a->draft.is_whole, b->draft.is_whole);
    assert_int_equal(a->draft.input_tokens, b->draft.input_tokens);
    assert_int_equal(a->draft.output_tokens, b->draft.output_tokens);
}

void feed_all_ways(struct fed *ret, const struct llm_provider *p, const char *stream)
{
    static const size_t steps[] = { 1, 2, 3, 5, 7, 13, 64, 1000 };
    size_t len = strlen(stream);

    feed(ret, p, stream, len, len);
    for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
        struct fed other;

        feed(&other, p, stream, len, steps[i]);
        assert_same(ret, &other);
        fed_finish(&other);
    }
    if (ret->result == 0)
        assert_string_equal(buf_cstr(&ret->tokens), buf_cstr(&ret->draft.text));
}
