/* The two framings: control frames in every fragmentation, lengths that lie, descriptors that nobody asked for, zygote records. */

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fdio.h"
#include "sandbox/wire.h"

/* One end each; `there` never blocks. */
struct ends {
    int here, there;
};

static struct ends make_ends(int type)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    return (struct ends){ pair[0], pair[1] };
}

static void close_ends(struct ends e)
{
    if (e.here >= 0)
        close(e.here);
    close(e.there);
}

static int count_fds(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = 0;
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static void put(int fd, const void *data, size_t len)
{
    assert_int_equal(write(fd, data, len), (ssize_t)len);
}

static void assert_next(struct wire_reader *r, const char *text)
{
    const char *json;
    size_t len;
    assert_true(wire_reader_next(r, &json, &len));
    assert_int_equal(len, strlen(text));
    assert_memory_equal(json, text, len);
    wire_reader_next_done(r);
}

static void assert_none(struct wire_reader *r)
{
    const char *json;
    size_t len;
    assert_false(wire_reader_next(r, &json, &len));
}

/* ---- control frames ---- */

static void test_frame(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct ends e = make_ends(SOCK_STREAM);
    struct wire_reader r;
    unsigned char head[4];
    assert_int_equal(wire_send(e.here, "{\"a\":1}", 7, NULL, 0, &err), 0);
    assert_int_equal(recv(e.there, head, 4, MSG_PEEK), 4);
    assert_int_equal(head[0] | head[1] | head[2] | head[3], 7);
    wire_reader_init(&r, 100);
    assert_none(&r);
    assert_int_equal(wire_reader_fill(&r, e.there, &err), 1);
    assert_next(&r, "{\"a\":1}");
    assert_none(&r);
    assert_int_equal(wire_reader_fill(&r, e.there, &err), 0);
    wire_reader_finish(&r);
    close_ends(e);
}

/* Three frames as one string of bytes, cut in two places, every two of them. */
static void test_every_fragmentation(void **state)
{
    (void)state;
    static const char bytes[] = "\2\0\0\0{}"
                                "\1\0\0\0"
                                "7"
                                "\5\0\0\0[1,2]";
    const size_t n = sizeof(bytes) - 1;
    for (size_t first = 0; first <= n; first++) {
        for (size_t second = first; second <= n; second++) {
            struct err err = ERR_INIT;
            struct ends e = make_ends(SOCK_STREAM);
            struct wire_reader r;
            const size_t cuts[] = { 0, first, second, n };
            wire_reader_init(&r, 16);
            for (size_t i = 0; i + 1 < 4; i++) {
                if (cuts[i] == cuts[i + 1])
                    continue;
                put(e.here, bytes + cuts[i], cuts[i + 1] - cuts[i]);
                assert_int_equal(wire_reader_fill(&r, e.there, &err), 1);
            }
            assert_next(&r, "{}");
            assert_next(&r, "7");
            assert_next(&r, "[1,2]");
            assert_none(&r);
            wire_reader_finish(&r);
            close_ends(e);
        }
    }
}

/* A byte at a time, taken out as soon as it is whole. */
static void test_byte_by_byte(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct ends e = make_ends(SOCK_STREAM);
    struct wire_reader r;
    static const char bytes[] = "\3\0\0\0abc\2\0\0\0de";
    wire_reader_init(&r, 3);
    for (size_t i = 0; i < sizeof(bytes) - 1; i++) {
        assert_none(&r);
        put(e.here, bytes + i, 1);
        assert_int_equal(wire_reader_fill(&r, e.there, &err), 1);
        if (i == 6)
            assert_next(&r, "abc");
    }
    assert_next(&r, "de");
    wire_reader_finish(&r);
    close_ends(e);
}

static void test_large_frame(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct ends e = make_ends(SOCK_STREAM);
    struct wire_reader r;
    const size_t len = 3u << 20;
    auto_free char *text = malloc(len + 4);
    memset(text, 'x', len + 4);
    memcpy(text, (unsigned char[]){ 0, 0, 0x30, 0 }, 4);
    wire_reader_init(&r, len);
    for (size_t sent = 0; sent < len + 4;) {
        ssize_t n = write(e.here, text + sent, len + 4 - sent);
        assert_true(n > 0);
        sent += (size_t)n;
        int filled;
        do {
            filled = wire_reader_fill(&r, e.there, &err);
            assert_true(filled >= 0);
        } while (filled == 1);
    }
    const char *json;
    size_t got;
    assert_true(wire_reader_next(&r, &json, &got));
    assert_int_equal(got, len);
    assert_memory_equal(json, text + 4, len);
    wire_reader_next_done(&r);
    assert_none(&r);
    wire_reader_finish(&r);
    close_ends(e);
}

static const struct {
    unsigned char head[4];
    const char *message;
} bad_lengths[] = {
    { { 0, 0, 0, 0 }, "control frame of 0 bytes; at most 16 are allowed" },
    { { 17, 0, 0, 0 }, "control frame of 17 bytes; at most 16 are allowed" },
    { { 0, 1, 0, 0 }, "control frame of 256 bytes; at most 16 are allowed" },
    { { 0, 0, 0, 128 }, "control frame of 2147483648 bytes; at most 16 are allowed" },
    { { 255, 255, 255, 255 }, "control frame of 4294967295 bytes; at most 16 are allowed" },
};

static void test_bad_lengths(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(bad_lengths); i++) {
        struct err err = ERR_INIT;
        struct ends e = make_ends(SOCK_STREAM);
        struct wire_reader r;
        wire_reader_init(&r, 16);
        /* Said as soon as the length is there; not a byte of what follows is waited for. */
        put(e.here, bad_lengths[i].head, 3);
        assert_int_equal(wire_reader_fill(&r, e.there, &err), 1);
        put(e.here, bad_lengths[i].head + 3, 1);
        assert_int_equal(wire_reader_fill(&r, e.there, &err), -ERR_PROTOCOL);
        assert_string_equal(err.message, bad_lengths[i].message);
        wire_reader_finish(&r);
        close_ends(e);
    }
}

/* A good frame before it is still delivered, and nothing after it. */
static void test_bad_length_after_a_frame(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct ends e = make_ends(SOCK_STREAM);
    struct wire_reader r;
    wire_reader_init(&r, 16);
    put(e.here, "\2\0\0\0{}\377\377\377\377", 10);
    assert_int_equal(wire_reader_fill(&r, e.there, &err), 1);
    assert_next(&r, "{}");
    assert_none(&r);
    put(e.here, "x", 1);
    assert_int_equal(wire_reader_fill(&r, e.there, &err), -ERR_PROTOCOL);
    wire_reader_finish(&r);
    close_ends(e);
}

static void test_end_of_file(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct ends e = make_ends(SOCK_STREAM);
    struct wire_reader r;
    wire_reader_init(&r, 16);
    put(e.here, "\2\0\0\0{", 5);
    assert_int_equal(wire_reader_fill(&r, e.there, &err), 1);
    close(e.here);
    e.here = -1;
    assert_int_equal(wire_reader_fill(&r, e.there, &err), -ERR_UNAVAILABLE);
    assert_string_equal(err.message, "the control socket is closed");
    assert_none(&r); /* half a frame is none */
    wire_reader_finish(&r);
    close_ends(e);
}

static void test_send_refuses(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct ends e = make_ends(SOCK_STREAM);
    assert_int_equal(wire_send(e.here, "", 0, NULL, 0, &err), -ERR_TOO_LARGE);
    assert_string_equal(err.message, "a message of 0 bytes does not fit the control socket");
    assert_int_equal(wire_send(e.here, "", (size_t)WIRE_EVENT_MAX + 1, NULL, 0, &err),
                     -ERR_TOO_LARGE);
    char byte;
    assert_int_equal(recv(e.there, &byte, 1, 0), -1); /* nothing was sent */
    close_ends(e);
}

/* ---- descriptors ---- */

static void test_fds_are_kept_when_accepted(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct ends e = make_ends(SOCK_STREAM);
    struct wire_reader r;
    int before = count_fds();
    wire_reader_init(&r, 16);
    r.accept_fds = true;
    const int fds[] = { 0, 1, 2 };
    assert_int_equal(wire_send(e.here, "{}", 2, fds, 3, &err), 0);
    assert_int_equal(wire_reader_fill(&r, e.there, &err), 1);
    assert_int_equal(wire_reader_fill(&r, e.there, &err) >= 0, 1);
    assert_next(&r, "{}");
    assert_int_equal(r.n_fds, 3);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(fcntl(r.fds[i], F_GETFD), FD_CLOEXEC);
    assert_int_equal(count_fds(), before + 3);
    wire_reader_finish(&r); /* closes what nobody took */
    assert_int_equal(count_fds(), before);
    close_ends(e);
}

static void test_fds_are_closed_when_not(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct ends e = make_ends(SOCK_STREAM);
    struct wire_reader r;
    int before = count_fds();
    const int fds[] = { 0, 1, 2, 0, 1, 2 };
    wire_reader_init(&r, 16);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(wire_send(e.here, "{}", 2, fds, 6, &err), 0);
        int filled;
        do {
            filled = wire_reader_fill(&r, e.there, &err);
            assert_true(filled >= 0);
        } while (filled == 1);
        assert_next(&r, "{}");
        assert_int_equal(r.n_fds, 0);
        assert_int_equal(count_fds(), before);
    }
    wire_reader_finish(&r);
    close_ends(e);
}

/* More than there is room for in all: those past it are closed, and the count stays within the array. */
static void test_fds_beyond_the_room(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct ends e = make_ends(SOCK_STREAM);
    struct wire_reader r;
    int before = count_fds(), fds[60];
    memset(fds, 0, sizeof(fds));
    wire_reader_init(&r, 16);
    r.accept_fds = true;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(wire_send(e.here, "{}", 2, fds, 60, &err), 0);
        int filled;
        do {
            filled = wire_reader_fill(&r, e.there, &err);
            assert_true(filled >= 0);
        } while (filled == 1);
        assert_next(&r, "{}");
        assert_true(r.n_fds <= ARRAY_SIZE(r.fds));
    }
    assert_int_equal(r.n_fds, ARRAY_SIZE(r.fds));
    assert_int_equal(count_fds(), before + (int)ARRAY_SIZE(r.fds));
    wire_reader_finish(&r);
    assert_int_equal(count_fds(), before);
    close_ends(e);
}

/* ---- zygote records ---- */

static void test_record(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct ends e = make_ends(SOCK_SEQPACKET);
    struct zygote_record rec;
    int fds[3], sent[] = { 0, 1, 2 }, before = count_fds();
    size_t n_fds = 99;
    assert_int_equal(zygote_send(e.here, ZYGOTE_SPAWN, 42, 7, sent, 3, &err), 0);
    assert_int_equal(zygote_recv(e.there, &rec, fds, 3, &n_fds, &err), 0);
    assert_int_equal(rec.op, ZYGOTE_SPAWN);
    assert_int_equal(rec.value, 42);
    assert_int_equal(rec.status, 7);
    assert_int_equal(n_fds, 3);
    for (size_t i = 0; i < 3; i++)
        close(fds[i]);
    assert_int_equal(count_fds(), before);
    close_ends(e);
}

static struct zygote_record good_record(void)
{
    return (
        struct zygote_record){ .magic = WIRE_MAGIC, .version = WIRE_VERSION, .op = ZYGOTE_HELLO };
}

/* Sends raw bytes with a descriptor; the record is refused so, and the descriptor not kept. */
static void refuse(const void *data, size_t len, const char *words)
{
    struct err err = ERR_INIT;
    struct ends e = make_ends(SOCK_SEQPACKET);
    struct zygote_record rec = { .value = 4711 };
    int before = count_fds(), fds[1], sent[] = { 0 };
    size_t n_fds = 0;
    assert_int_equal(fd_send_fds(e.here, data, len, sent, 1, &err), 0);
    assert_int_equal(zygote_recv(e.there, &rec, fds, 1, &n_fds, &err), -ERR_PROTOCOL);
    if (!strstr(err.message, words))
        fail_msg("'%s' lacks '%s'", err.message, words);
    assert_int_equal(rec.value, 4711); /* untouched */
    assert_int_equal(n_fds, 0);
    assert_int_equal(count_fds(), before);
    close_ends(e);
}

static void test_record_of_wrong_size(void **state)
{
    (void)state;
    char bytes[sizeof(struct zygote_record) + 100] = { 0 };
    struct zygote_record rec = good_record();
    memcpy(bytes, &rec, sizeof(rec));
    for (size_t len = 1; len < sizeof(rec); len++)
        refuse(bytes, len, "bytes, expected 24");
    refuse(bytes, sizeof(rec) + 1, "zygote record of 25 bytes, expected 24");
    refuse(bytes, sizeof(bytes), "cut off"); /* longer than any that is looked at */
}

static void test_record_of_wrong_kind(void **state)
{
    (void)state;
    struct zygote_record rec = good_record();
    rec.magic ^= 1;
    refuse(&rec, sizeof(rec), "different versions");
    rec = good_record();
    rec.version++;
    refuse(&rec, sizeof(rec), "different versions");
    rec = good_record();
    rec.version = 0;
    refuse(&rec, sizeof(rec), "rebuild both with 'make'");
    static const uint16_t ops[] = { 0, _ZYGOTE_OP_MAX, 1000, 65535 };
    for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
        rec = good_record();
        rec.op = ops[i];
        refuse(&rec, sizeof(rec), "unknown zygote record");
    }
}

static void test_record_at_the_end(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct ends e = make_ends(SOCK_SEQPACKET);
    struct zygote_record rec;
    size_t n_fds;
    close(e.here);
    e.here = -1;
    assert_int_equal(zygote_recv(e.there, &rec, NULL, 0, &n_fds, &err), -ERR_UNAVAILABLE);
    assert_string_equal(err.message, "the zygote socket is closed");
    close_ends(e);
}

/* A record may bring more descriptors than its reader has room for. */
static void test_record_with_too_many_fds(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct ends e = make_ends(SOCK_SEQPACKET);
    struct zygote_record rec;
    int before = count_fds(), fds[1], sent[] = { 0, 1, 2 };
    size_t n_fds = 0;
    assert_int_equal(zygote_send(e.here, ZYGOTE_SPAWNED, 1, 0, sent, 3, &err), 0);
    assert_int_equal(zygote_recv(e.there, &rec, fds, 1, &n_fds, &err), 0);
    assert_int_equal(n_fds, 1);
    close(fds[0]);
    assert_int_equal(count_fds(), before);
    close_ends(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frame),
        cmocka_unit_test(test_every_fragmentation),
        cmocka_unit_test(test_byte_by_byte),
        cmocka_unit_test(test_large_frame),
        cmocka_unit_test(test_bad_lengths),
        cmocka_unit_test(test_bad_length_after_a_frame),
        cmocka_unit_test(test_end_of_file),
        cmocka_unit_test(test_send_refuses),
        cmocka_unit_test(test_fds_are_kept_when_accepted),
        cmocka_unit_test(test_fds_are_closed_when_not),
        cmocka_unit_test(test_fds_beyond_the_room),
        cmocka_unit_test(test_record),
        cmocka_unit_test(test_record_of_wrong_size),
        cmocka_unit_test(test_record_of_wrong_kind),
        cmocka_unit_test(test_record_at_the_end),
        cmocka_unit_test(test_record_with_too_many_fds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
