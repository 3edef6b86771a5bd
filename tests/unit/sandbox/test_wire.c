/*
 * Messages in every fragmentation, heads that lie, every field of the table, docs/wire.md; zygote
 * records.
 */

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
#include "base/str.h"
#include "../../fuzz/wire_make.h"
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

/* ---- messages in pieces ---- */

struct seen {
    size_t heads, messages;
    size_t len; /* of the last message */
    char last[64];
};

/* Feeds bytes in pieces of `step` bytes. */
static enum wire_step feed(struct wire_reader *r, const char *data, size_t len, size_t step,
                           struct seen *seen)
{
    for (size_t at = 0; at < len;) {
        /* An exact copy, so that AddressSanitizer sees a read past the end. */
        size_t n = MIN_OF(step, len - at);
        char *piece = malloc(n);
        assert_non_null(piece);
        memcpy(piece, data + at, n);
        const char *p = piece;
        size_t left = n;
        enum wire_step got;
        while ((got = wire_reader_step(r, &p, &left)) != WIRE_MORE && got != WIRE_BROKEN) {
            seen->heads += got == WIRE_HEAD;
            if (got == WIRE_MESSAGE) {
                seen->messages++;
                seen->len = r->head.len;
                memcpy(seen->last, r->body, MIN_OF(r->head.len, sizeof(seen->last)));
            }
        }
        free(piece);
        if (got == WIRE_BROKEN)
            return got;
        assert_int_equal(left, 0);
        at += n;
    }
    return WIRE_MORE;
}

static void test_every_fragmentation(void **state)
{
    (void)state;
    struct err err;
    auto_buf struct buf all = BUF_INIT(4096);
    auto_json json_t *progress = json_pack("{s:f}", "fraction", 0.5);
    assert_int_equal(wire_append(&all, WIRE_PROGRESS, 7, progress, &err), 0);
    assert_int_equal(wire_append_bytes(&all, 7, "", 0, &err), 0);
    assert_int_equal(wire_append_bytes(&all, 7, "abc", 3, &err), 0);
    for (size_t step = 1; step <= all.len; step++) {
        struct wire_reader r;
        struct seen seen = { 0 };
        wire_reader_init(&r, WIRE_TO_RIDDLE);
        assert_int_equal(feed(&r, all.data, all.len, step, &seen), WIRE_MORE);
        assert_int_equal(seen.heads, 3);
        assert_int_equal(seen.messages, 3);
        assert_int_equal(seen.len, 3);
        assert_memory_equal(seen.last, "abc", 3);
        assert_int_equal(r.head.id, 7);
        wire_reader_finish(&r);
    }
}

static void test_skipped_bodies_are_not_kept(void **state)
{
    (void)state;
    struct err err;
    auto_buf struct buf all = BUF_INIT(4u << 20);
    auto_free char *large = calloc(1, FILE_PIECE_MAX);
    assert_int_equal(wire_append_bytes(&all, 1, large, FILE_PIECE_MAX, &err), 0);
    assert_int_equal(wire_append_bytes(&all, 2, "x", 1, &err), 0);
    struct wire_reader r;
    wire_reader_init(&r, WIRE_TO_RIDDLE);
    size_t messages = 0;
    for (size_t at = 0; at < all.len; at += 1000) {
        const char *p = all.data + at;
        size_t left = MIN_OF((size_t)1000, all.len - at);
        enum wire_step got;
        while ((got = wire_reader_step(&r, &p, &left)) != WIRE_MORE) {
            if (got == WIRE_HEAD)
                r.skip = r.head.id == 1;
            messages += got == WIRE_MESSAGE;
            assert_true(r.kept.cap < 4096);
        }
    }
    assert_int_equal(messages, 1);
    wire_reader_finish(&r);
}

static void assert_broken(const unsigned char raw[WIRE_HEAD_BYTES], enum wire_direction direction)
{
    struct wire_reader r;
    struct seen seen = { 0 };
    wire_reader_init(&r, direction);
    assert_int_equal(feed(&r, (const char *)raw, WIRE_HEAD_BYTES, 5, &seen), WIRE_BROKEN);
    assert_int_equal(seen.heads, 0);
    wire_reader_finish(&r);
}

/* Refused by the twelfth byte: before any body. */
static void test_heads_that_lie(void **state)
{
    (void)state;
    unsigned char raw[WIRE_HEAD_BYTES];
    for (unsigned type = 0; type < 256; type++) {
        const struct wire_message *m = wire_message(type);
        struct wire_head back,
            head = { .len = m ? m->max_bytes : 0, .id = 0xfedcba98, .type = (enum wire_type)type };
        for (unsigned direction = WIRE_TO_KERNEL; direction <= WIRE_TO_RIDDLE; direction++) {
            bool known = m && (m->directions & direction);
            wire_head_write(&head, raw);
            assert_int_equal(wire_head_read(raw, (enum wire_direction)direction, &back), known);
            if (!known) {
                assert_broken(raw, (enum wire_direction)direction);
                continue;
            }
            assert_true(back.id == head.id && back.len == head.len && back.type == head.type);
            wire_head_write(&(struct wire_head){ .len = m->max_bytes + 1, .type = head.type }, raw);
            assert_broken(raw, (enum wire_direction)direction);
            wire_head_write(&(struct wire_head){ .len = UINT32_MAX, .type = head.type }, raw);
            assert_broken(raw, (enum wire_direction)direction);
            wire_head_write(&head, raw);
            raw[11] = 1;
            assert_broken(raw, (enum wire_direction)direction);
        }
    }
}

/* ---- the table ---- */

static void test_table_is_complete(void **state)
{
    (void)state;
    for (unsigned i = 1; i < _WIRE_TYPE_MAX; i++) {
        const struct wire_message *m = wire_message(i);
        if (!m)
            fail_msg("message %u is not in the table", i);
        assert_true(m->name[0] && m->doc && m->directions && m->states && m->max_bytes);
        for (unsigned k = 1; k < i; k++)
            assert_string_not_equal(m->name, wire_message(k)->name);
        /* A request has an answer, which goes the other way. */
        const struct wire_message *answer = wire_message(m->answer);
        assert_int_equal(answer != NULL, m->kind == WIRE_REQUEST);
        if (answer)
            assert_true(answer->kind == WIRE_ANSWER && answer->directions != m->directions);
    }
}

/*
 * Every field of every message: what the table says is taken, and what it does not say is refused
 * by name.
 */
static void test_every_field(void **state)
{
    (void)state;
    struct err err;
    for (unsigned i = 1; i < _WIRE_TYPE_MAX; i++) {
        const struct wire_message *m = wire_message(i);
        if (i == WIRE_BYTES)
            continue;
        for (int high = 0; high < 2; high++) {
            auto_json json_t *body = make_body(m, high);
            if (wire_check(i, body, &err) < 0)
                fail_msg("%s", err.message);
            json_object_set_new(body, "surplus", json_true());
            assert_int_equal(wire_check(i, body, &err), -ERR_VALIDATION);
        }
        for (size_t k = 0; k < m->n_fields; k++) {
            const struct wire_field *f = &m->fields[k];
            auto_json json_t *body = make_body(m, false);
            json_object_del(body, f->name);
            assert_int_equal(wire_check(i, body, &err) == 0, f->optional);
            json_object_set_new(body, f->name, json_null());
            assert_int_equal(wire_check(i, body, &err) == 0, f->nullable);
            for (int variant = 0; variant < MAKE_WRONG_MAX; variant++) {
                json_t *wrong = make_wrong(f, variant);
                if (!wrong)
                    continue;
                json_object_set_new(body, f->name, wrong);
                if (wire_check(i, body, &err) == 0)
                    fail_msg("'%s' of '%s' takes wrong value %d", f->name, m->name, variant);
                assert_non_null(strstr(err.message, f->name));
            }
        }
    }
}

static void test_parse_has_a_budget(void **state)
{
    (void)state;
    struct err err;
    json_t *body = NULL;
    size_t nodes = 1000;
    auto_buf struct buf text = BUF_INIT(1u << 20);
    assert_int_equal(buf_append_str(&text, "{\"json\":[0", &err), 0);
    for (int i = 0; i < 2000; i++)
        assert_int_equal(buf_append_str(&text, ",0", &err), 0);
    assert_int_equal(buf_append_str(&text, "]}", &err), 0);
    assert_int_equal(wire_parse(WIRE_DISPLAY, text.data, text.len, &nodes, &body, &err),
                     -ERR_PROTOCOL);
    assert_non_null(strstr(err.message, "values"));
    nodes = SIZE_MAX;
    assert_int_equal(wire_parse(WIRE_DISPLAY, text.data, text.len, &nodes, &body, &err), 0);
    assert_in_range(nodes, 2001, 4002);
    json_decref(body);
    assert_int_equal(wire_parse(WIRE_LIST, "", 0, &nodes, &body, &err), 0);
    json_decref(body);
}

static void test_append_refuses(void **state)
{
    (void)state;
    struct err err;
    auto_buf struct buf out = BUF_INIT(64u << 20);
    auto_free char *large = calloc(1, FILE_PIECE_MAX + 1);
    auto_json json_t *bad = json_pack("{s:i}", "fraction", 2);
    assert_int_equal(wire_append_bytes(&out, 1, large, FILE_PIECE_MAX + 1, &err), -ERR_TOO_LARGE);
    assert_int_equal(wire_append(&out, WIRE_PROGRESS, 1, bad, &err), -ERR_VALIDATION);
    assert_int_equal(out.len, 0);
}

static void test_start(void **state)
{
    (void)state;
    struct err err;
    const struct wire_start_table tables[] = { { "orders", 3, 2 } };
    struct wire_start start = { .tables = tables,
                                .n_tables = 1,
                                .memory_bytes = 1,
                                .workspace_bytes = 1,
                                .tmp_bytes = 1,
                                .inodes = 1,
                                .file_bytes = 1,
                                .pids = 1,
                                .open_files = 1,
                                .threads = 1 };
    auto_json json_t *body = wire_start_body(&start);
    assert_int_equal(wire_check(WIRE_START, body, &err), 0);
    assert_int_equal(json_integer_value(json_object_get(
                         json_array_get(json_object_get(body, "tables"), 0), "mount")),
                     3);
    assert_int_equal(json_integer_value(json_object_get(
                         json_array_get(json_object_get(body, "tables"), 0), "part")),
                     2);
    start.dataset_id = "\xff";
    assert_null(wire_start_body(&start));
}

/* docs/wire.md has the table as the program has it. RIDDLE_UPDATE_DOCS=1 writes it. */
static void test_docs(void **state)
{
    (void)state;
    static const char begin[] = "<!-- begin: made from src/sandbox/wire_table.c -->\n",
                      end[] = "<!-- end -->\n";
    struct err err;
    auto_buf struct buf page = BUF_INIT(1u << 20), table = BUF_INIT(1u << 20),
                        whole = BUF_INIT(2u << 20);
    assert_int_equal(fd_read_file("docs/wire.md", &page, &err), 0);
    assert_int_equal(wire_describe(&table, &err), 0);
    const char *from = strstr(buf_cstr(&page), begin), *to = from ? strstr(from, end) : NULL;
    assert_non_null(to);
    from += strlen(begin);
    bool same = (size_t)(to - from) == table.len && memcmp(from, table.data, table.len) == 0;
    if (!same && getenv("RIDDLE_UPDATE_DOCS")) {
        assert_int_equal(buf_append(&whole, page.data, (size_t)(from - page.data), &err), 0);
        assert_int_equal(buf_append(&whole, table.data, table.len, &err), 0);
        assert_int_equal(buf_append_str(&whole, to, &err), 0);
        assert_int_equal(fd_replace_file("docs/wire.md", whole.data, whole.len, 0644, &err), 0);
    } else if (!same) {
        fail_msg("docs/wire.md is not what the table of messages says; 'make docs' writes it");
    }
}

/* ---- descriptors ---- */

static void test_descriptors(void **state)
{
    (void)state;
    struct ends e = make_ends(SOCK_STREAM);
    struct err err;
    auto_json json_t *body = json_pack("{s:i}", "groups", 2);
    int before = count_fds(), got[4];
    size_t n = 0;
    char raw[256];
    assert_int_equal(wire_send_json(e.here, WIRE_JOIN, 0, body, (const int[]){ 0, 1 }, 2, &err), 0);
    /* They come with the first byte. */
    assert_int_equal(fd_recv_fds(e.there, raw, 1, got, 4, &n, &err), 1);
    assert_int_equal(n, 2);
    close(got[0]);
    close(got[1]);
    /* A plain read drops what comes along. */
    assert_int_equal(wire_send_json(e.here, WIRE_JOIN, 0, body, (const int[]){ 0, 1 }, 2, &err), 0);
    assert_true(read(e.there, raw, sizeof(raw)) > WIRE_HEAD_BYTES);
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
        cmocka_unit_test(test_every_fragmentation),
        cmocka_unit_test(test_skipped_bodies_are_not_kept),
        cmocka_unit_test(test_heads_that_lie),
        cmocka_unit_test(test_table_is_complete),
        cmocka_unit_test(test_every_field),
        cmocka_unit_test(test_parse_has_a_budget),
        cmocka_unit_test(test_append_refuses),
        cmocka_unit_test(test_start),
        cmocka_unit_test(test_docs),
        cmocka_unit_test(test_descriptors),
        cmocka_unit_test(test_record),
        cmocka_unit_test(test_record_of_wrong_size),
        cmocka_unit_test(test_record_of_wrong_kind),
        cmocka_unit_test(test_record_at_the_end),
        cmocka_unit_test(test_record_with_too_many_fds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
