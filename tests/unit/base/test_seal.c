/* Sealed pieces: what opens them, and what does not. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include "base/seal.h"

#define KEY "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF"
#define PIECES 3

static const char *const texts[PIECES] = { "the first piece", "the second one!", "" };

struct sealed {
    unsigned char bytes[64];
    size_t len;
};

static void seal_all(const char *context, struct sealed ret[PIECES], char check[HASH_HEX_SIZE])
{
    struct seal s;
    struct err err = ERR_INIT;
    assert_int_equal(seal_begin(&s, KEY, context, strlen(context), check, &err), 0);
    for (size_t i = 0; i < PIECES; i++) {
        ret[i].len = strlen(texts[i]) + SEAL_TAG_BYTES;
        assert_int_equal(
            seal_piece(&s, i == PIECES - 1, texts[i], strlen(texts[i]), ret[i].bytes, &err), 0);
    }
    seal_end(&s);
    assert_null(s.cipher);
}

/* How many pieces open, in this order. */
static size_t opened(const char *key, const char *context, const struct sealed *in, size_t n,
                     bool ends)
{
    struct seal s;
    struct err err = ERR_INIT;
    char check[HASH_HEX_SIZE], plain[64];
    size_t i = 0;
    assert_int_equal(seal_begin(&s, key, context, strlen(context), check, &err), 0);
    for (; i < n; i++) {
        if (seal_open_piece(&s, ends && i == n - 1, in[i].bytes, in[i].len, plain, &err) < 0) {
            assert_int_equal(err.code, ERR_VALIDATION);
            break;
        }
        assert_memory_equal(plain, texts[i], in[i].len - SEAL_TAG_BYTES);
    }
    seal_end(&s);
    return i;
}

static void test_pieces_open_as_they_were(void **state)
{
    (void)state;
    struct sealed all[PIECES], other[PIECES];
    char check[HASH_HEX_SIZE], other_check[HASH_HEX_SIZE];
    seal_all("one", all, check);
    assert_int_equal(opened(KEY, "one", all, PIECES, true), PIECES);
    assert_memory_not_equal(all[0].bytes, texts[0], strlen(texts[0]));

    seal_all("two", other, other_check);
    assert_string_not_equal(check, other_check);
    assert_memory_not_equal(all[0].bytes, other[0].bytes, all[0].len);
    assert_int_equal(opened(KEY, "two", all, PIECES, true), 0);
    char key[] = KEY;
    key[0] = '1';
    assert_int_equal(opened(key, "one", all, PIECES, true), 0);
}

static void test_what_was_changed_stays_closed(void **state)
{
    (void)state;
    struct sealed all[PIECES];
    char check[HASH_HEX_SIZE];
    seal_all("one", all, check);
    assert_int_equal(opened(KEY, "one", all, 2, true), 1);       /* cut off */
    assert_int_equal(opened(KEY, "one", all, PIECES, false), 2); /* goes on behind its end */
    const struct sealed swapped[] = { all[1], all[0] }, skipped[] = { all[0], all[2] };
    assert_int_equal(opened(KEY, "one", swapped, 2, false), 0);
    assert_int_equal(opened(KEY, "one", skipped, 2, true), 1);
    for (size_t at = 0; at < all[1].len; at++) {
        all[1].bytes[at] ^= 0x80;
        assert_int_equal(opened(KEY, "one", all, PIECES, true), 1);
        all[1].bytes[at] ^= 0x80;
    }
    all[1].len = SEAL_TAG_BYTES - 1;
    assert_int_equal(opened(KEY, "one", all, PIECES, true), 1);
}

static void test_keys(void **state)
{
    (void)state;
    const char *const bad[] = { "", "00", (KEY "0"), (KEY "00"), ("g" KEY) };
    struct err err = ERR_INIT;
    assert_int_equal(seal_check_key(KEY, &err), 0);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct seal s;
        char check[HASH_HEX_SIZE];
        assert_int_equal(seal_check_key(bad[i], &err), -ERR_VALIDATION);
        assert_int_equal(seal_begin(&s, bad[i], "", 0, check, &err), -ERR_VALIDATION);
        assert_null(s.cipher);
        seal_end(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces_open_as_they_were),
        cmocka_unit_test(test_what_was_changed_stays_closed),
        cmocka_unit_test(test_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
