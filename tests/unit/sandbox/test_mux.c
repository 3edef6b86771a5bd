/* Frames of an attached stream: whole, in pieces, and broken. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "sandbox/mux.h"

static void test_frames_survive_any_cut(void **state)
{
    (void)state;
    auto_buf struct buf out = BUF_INIT(1u << 20);
    assert_int_equal(mux_append(&out, MUX_CONTROL, "hello", 5, NULL), 0);
    assert_int_equal(mux_append(&out, MUX_INTERRUPT, NULL, 0, NULL), 0);
    assert_int_equal(mux_append(&out, MUX_STDERR, "x", 1, NULL), 0);
    for (size_t step = 1; step <= out.len; step++) {
        struct mux_reader r;
        struct mux_frame f;
        size_t seen = 0;
        mux_reader_init(&r);
        for (size_t at = 0; at < out.len; at += step) {
            assert_int_equal(mux_reader_feed(&r, out.data + at, MIN_OF(step, out.len - at), NULL),
                             0);
            while (mux_reader_next(&r, &f, NULL) == 1) {
                static const enum mux_type types[] = { MUX_CONTROL, MUX_INTERRUPT, MUX_STDERR };
                static const char *const texts[] = { "hello", "", "x" };
                assert_true(seen < 3 && f.type == types[seen] && f.len == strlen(texts[seen]));
                assert_memory_equal(f.data, texts[seen], f.len);
                seen++;
            }
        }
        assert_int_equal(seen, 3);
        mux_reader_finish(&r);
    }
}

static void test_long_payloads_are_split(void **state)
{
    (void)state;
    size_t len = 2 * MUX_PAYLOAD_MAX + 7;
    auto_free char *bytes = calloc(1, len);
    auto_buf struct buf out = BUF_INIT(4u << 20);
    assert_int_equal(mux_append(&out, MUX_STDOUT, bytes, len, NULL), 0);
    assert_int_equal(out.len, len + 3 * MUX_HEAD_BYTES);
    /* A payload of just the maximum is one frame. */
    buf_clear(&out);
    assert_int_equal(mux_append(&out, MUX_STDOUT, bytes, MUX_PAYLOAD_MAX, NULL), 0);
    assert_int_equal(out.len, MUX_PAYLOAD_MAX + MUX_HEAD_BYTES);
}

static void test_broken_streams_are_refused(void **state)
{
    (void)state;
    static const unsigned char bad[][8] = {
        { 0, 0, 0, 0, 1, 0, 0, 0 },             /* no type */
        { _MUX_TYPE_MAX, 0, 0, 0, 1, 0, 0, 0 }, /* a type that there is not */
        { MUX_CONTROL, 1, 0, 0, 1, 0, 0, 0 },   /* not zero */
        { MUX_CONTROL, 0, 0, 0, 1, 0, 4, 0 },   /* too long by one */
        { MUX_CONTROL, 0, 0, 0, 255, 255, 255, 255 },
    };
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct mux_reader r;
        struct mux_frame f;
        struct err err = ERR_INIT;
        mux_reader_init(&r);
        assert_int_equal(mux_reader_feed(&r, (const char *)bad[i], 8, NULL), 0);
        assert_int_equal(mux_reader_next(&r, &f, &err), -ERR_PROTOCOL);
        mux_reader_finish(&r);
    }
}

static void test_paths(void **state)
{
    (void)state;
    static const struct {
        const char *target, *path; /* NULL: refused */
        bool writable;
    } cases[] = {
        { "data/orders.csv", "/data/orders.csv", false },
        { "tables/0.duckdb", "/data/.tables/0.duckdb", false },
        { "data/..csv", "/data/..csv", false },
        { "out", "/data/.out", true },
        { "out/x", NULL, true },
        { "..", NULL, true },
        { "data/../etc/passwd", NULL, false },
        { "data/x/..", NULL, false },
        { "data/./x", NULL, false },
        { "data//x", NULL, false },
        { "data/", NULL, false },
        { "/data/x", NULL, false },
        { "tmp/x", NULL, false },
        { "", NULL, false },
        { NULL, NULL, false },
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char path[64];
        struct err err = ERR_INIT;
        int r = mux_path(cases[i].target, cases[i].writable, path, sizeof(path), &err);
        assert_int_equal(r, cases[i].path ? 0 : -ERR_VALIDATION);
        if (cases[i].path)
            assert_string_equal(path, cases[i].path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frames_survive_any_cut),
        cmocka_unit_test(test_long_payloads_are_split),
        cmocka_unit_test(test_broken_streams_are_refused),
        cmocka_unit_test(test_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
