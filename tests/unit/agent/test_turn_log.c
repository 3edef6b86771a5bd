/* What a client that follows a turn later is told: joined, in order, bounded. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "agent/turn_log.h"
#include "base/buf.h"
#include "base/str.h"

static struct turn_log turn_log;

static void add(const char *type, json_t *taken)
{
    assert_non_null(taken);
    turn_log_add(&turn_log, type, taken);
    json_decref(taken);
}

static void write_event(void *arg, const char *type, json_t *data)
{
    struct err err = ERR_INIT;
    const char *stream = json_string_value(json_object_get(data, "stream")),
               *text = json_string_value(json_object_get(data, "text"));
    assert_int_equal(buf_printf(arg, &err, "%s%s%s:%.40s;", type, stream ? "/" : "",
                                stream ? stream : "", text ? text : ""),
                     0);
}

static void assert_replay(const char *want)
{
    auto_buf struct buf b = BUF_INIT(1u << 20);
    turn_log_replay(&turn_log, write_event, &b);
    assert_string_equal(buf_cstr(&b), want);
}

static int setup(void **state)
{
    (void)state;
    turn_log_init(&turn_log);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    turn_log_finish(&turn_log);
    return 0;
}

static json_t *token(const char *text)
{
    return json_pack("{s:s}", "text", text);
}

static json_t *step(const char *stream, const char *text)
{
    return json_pack("{s:s, s:s}", "stream", stream, "text", text);
}

static void text_is_joined_and_the_newest_status_comes_last(void **state)
{
    (void)state;
    assert_replay("");
    add("status", token("planning"));
    add("token", token("Let me "));
    add("token", token("see."));
    add("tool_call", token("run"));
    add("status", token("running"));
    add("step", step("stdout", "a"));
    add("step", step("stdout", "b"));
    add("step", step("stderr", "c"));
    add("step", step("stdout", "d"));
    add("token", token("Done."));
    assert_replay(
        "token:Let me see.;tool_call:run;step/stdout:ab;step/stderr:c;step/stdout:d;token:Done.;status:running;");
    assert_int_equal(turn_log.skipped, 0);
}

static void output_and_figures_go_first(void **state)
{
    (void)state;
    size_t half = TURN_LOG_BYTES / 2;
    char *large = malloc(half + 1);
    memset(large, 'x', half);
    large[half] = '\0';
    add("token", token("kept"));
    add("step", step("stdout", "old"));
    add("code_run", token("code"));
    add("image", json_pack("{s:s, s:s}", "text", "one", "png", large));
    assert_int_equal(turn_log.skipped, 0);
    /* too much: the output goes, then the first figure */
    add("image", json_pack("{s:s, s:s}", "text", "two", "png", large));
    assert_replay("token:kept;code_run:code;image:two;");
    assert_int_equal(turn_log.skipped, 2);
    assert_true(turn_log.bytes <= TURN_LOG_BYTES);
    add("token", token("end"));
    assert_replay("token:kept;code_run:code;image:two;token:end;");
    free(large);
}

static void nothing_makes_it_grow(void **state)
{
    (void)state;
    char text[1000];
    memset(text, 'y', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    for (int i = 0; i < 5000; i++)
        add(i % 2 ? "code_run" : "token", token(text));
    assert_true(turn_log.bytes <= TURN_LOG_BYTES);
    assert_true(turn_log.skipped > 0);
    for (int i = 0; i < 5000; i++)
        add("token", token(text));
    assert_true(turn_log.bytes <= TURN_LOG_BYTES && turn_log.bytes > TURN_LOG_BYTES / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(text_is_joined_and_the_newest_status_comes_last, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(output_and_figures_go_first, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_makes_it_grow, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
