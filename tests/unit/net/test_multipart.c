/* The multipart parser: every cut of the input, every pause, every limit. */

#include "base/check.h"
#include "base/buf.h"
#include "net/multipart.h"

/* What came, as text: "<name|filename|type:data>". */
struct log {
    struct buf b;
    size_t take_at_most; /* by one call of data(); 0: all */
    bool refuse;
};

static int on_begin(void *arg, const struct multipart_part *part, struct err *err)
{
    struct log *log = arg;

    if (log->refuse)
        return err_set(err, ERR_CONFLICT, "refused");
    return buf_printf(&log->b, err, "<%s|%s|%s:", part->name, part->filename ? part->filename : "-",
                      part->content_type);
}

static ssize_t on_data(void *arg, const char *data, size_t len, struct err *err)
{
    struct log *log = arg;
    size_t n = log->take_at_most ? MIN_OF(len, log->take_at_most) : len;
    int r = buf_append(&log->b, data, n, err);

    return r < 0 ? r : (ssize_t)n;
}

static int on_end(void *arg, struct err *err)
{
    struct log *log = arg;

    return buf_append_str(&log->b, ">", err);
}

static const struct multipart_handler handler = { .begin = on_begin,
                                                  .data = on_data,
                                                  .end = on_end };

static struct log new_log(void)
{
    return (struct log){ .b = BUF_INIT(1 << 20) };
}

/* Feeds in pieces of `piece` bytes; offers again what was not consumed. */
static int feed(struct multipart *mp, const char *text, size_t len, size_t piece, struct err *err)
{
    for (size_t i = 0; i < len;) {
        ssize_t n = multipart_feed(mp, text + i, MIN_OF(piece, len - i), err);

        if (n < 0)
            return (int)n;
        i += (size_t)n;
    }
    return multipart_finish(mp, err);
}

#define TYPE "multipart/form-data; boundary=XyZ"
static const char body[] =
    "preamble\r\n--Xy\r\n"
    "--XyZ\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nplain\r\n--XyZ \t\r\n"
    "content-disposition: form-data; name=files; filename=\"C:\\\\dir\\\\o \\\"1\\\".csv\"\r\nContent-Type: text/csv\r\n\r\n"
    "x,y\r\n1,2\r\r\n--Xy\r\n--XyY\r\n-\r\n--XyZ\r\nContent-Disposition: form-data; name=\"empty\"; filename=\"../../etc/passwd\"\r\n\r\n"
    "\r\n--XyZ--\r\nepilogue --XyZ";
static const char parsed[] =
    "<a|-|:plain><files|o \"1\".csv|text/csv:x,y\r\n1,2\r\r\n--Xy\r\n--XyY\r\n-><empty|passwd|:>";

static void test_every_piece_size(void **state)
{
    (void)state;
    for (size_t piece = 1; piece < sizeof(body); piece++) {
        struct log log = new_log();
        struct multipart *mp;
        struct err e;

        assert_works(multipart_create(TYPE, 0, &handler, &log, &mp, &e), &e);
        assert_works(feed(mp, body, sizeof(body) - 1, piece, &e), &e);
        assert_string_equal(buf_cstr(&log.b), parsed);
        multipart_destroy(mp);
        buf_finish(&log.b);
    }
}

static void test_cut_at_every_byte(void **state)
{
    (void)state;
    for (size_t cut = 0; cut < sizeof(body) - 1; cut++) {
        struct log log = new_log();
        struct multipart *mp;
        struct err e;

        assert_works(multipart_create(TYPE, 0, &handler, &log, &mp, &e), &e);
        assert_int_equal(multipart_feed(mp, body, cut, &e), cut);
        assert_int_equal(multipart_feed(mp, body + cut, sizeof(body) - 1 - cut, &e),
                         sizeof(body) - 1 - cut);
        assert_works(multipart_finish(mp, &e), &e);
        assert_string_equal(buf_cstr(&log.b), parsed);
        multipart_destroy(mp);
        buf_finish(&log.b);
    }
}

/* The handler takes a byte or two at a time; delimiters that turn out to be data included. */
static void test_pauses(void **state)
{
    (void)state;
    for (size_t take = 1; take < 8; take++) {
        for (size_t piece = 1; piece < 40; piece++) {
            struct log log = new_log();
            struct multipart *mp;
            struct err e;

            log.take_at_most = take;
            assert_works(multipart_create(TYPE, 0, &handler, &log, &mp, &e), &e);
            assert_works(feed(mp, body, sizeof(body) - 1, piece, &e), &e);
            assert_string_equal(buf_cstr(&log.b), parsed);
            multipart_destroy(mp);
            buf_finish(&log.b);
        }
    }
}

/* Ends before the closing boundary, wherever that is. */
static void test_truncated(void **state)
{
    const char *end = strstr(body, "--XyZ--") + 7;

    (void)state;
    for (size_t len = 0; len < (size_t)(end - body); len++) {
        struct log log = new_log();
        struct multipart *mp;
        struct err e;
        bool begun = len >= (size_t)(strstr(body, "--XyZ") + 5 - body);

        assert_works(multipart_create(TYPE, 0, &handler, &log, &mp, &e), &e);
        assert_fails(feed(mp, body, len, 7, &e), &e, ERR_INVALID_INPUT,
                     begun ? "the body ends before its closing boundary" :
                             "the body has no part: its boundary was not found");
        multipart_destroy(mp);
        buf_finish(&log.b);
    }
}

static void test_content_types(void **state)
{
    static const struct {
        const char *type;
        int code;
        const char *message;
    } cases[] = {
        { NULL, ERR_UNSUPPORTED_MEDIA, "the content type must be multipart/form-data" },
        { "application/json", ERR_UNSUPPORTED_MEDIA,
          "the content type must be multipart/form-data" },
        { "multipart/form-dataX; boundary=a", ERR_UNSUPPORTED_MEDIA,
          "the content type must be multipart/form-data" },
        { "multipart/form-data", ERR_INVALID_INPUT, "the content type has no boundary" },
        { "multipart/form-data; boundary=", ERR_INVALID_INPUT,
          "the boundary must have 1 to 70 characters" },
        { "multipart/form-data; boundary=\"\"", ERR_INVALID_INPUT,
          "the boundary must have 1 to 70 characters" },
        { "multipart/form-data; boundary=12345678901234567890123456789012345678901234567890123456789012345678901",
          ERR_INVALID_INPUT, "the boundary must have 1 to 70 characters" },
        { "multipart/form-data; boundary=a\x01", ERR_INVALID_INPUT,
          "the boundary has characters that are not allowed" },
    };
    struct multipart *mp;
    struct err e;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        assert_fails(multipart_create(cases[i].type, 0, &handler, NULL, &mp, &e), &e, cases[i].code,
                     cases[i].message);
    assert_works(multipart_create("Multipart/Form-Data; charset=x; Boundary=\"a b\"", 0, &handler,
                                  NULL, &mp, &e),
                 &e);
    multipart_destroy(mp);
}

static void fails(const char *text, size_t max_parts, int code, const char *message)
{
    struct log log = new_log();
    struct multipart *mp;
    struct err e;

    assert_works(multipart_create(TYPE, max_parts, &handler, &log, &mp, &e), &e);
    assert_fails(feed(mp, text, strlen(text), 5, &e), &e, code, message);
    /* A parser that failed stays so. */
    assert_fails((int)multipart_feed(mp, "x", 1, &e), &e, ERR_INVALID_INPUT,
                 "the upload has already failed");
    multipart_destroy(mp);
    buf_finish(&log.b);
}

static void test_malformed(void **state)
{
    static char text[8192];
    size_t n;

    (void)state;
    fails("--XyZx\r\n", 0, ERR_INVALID_INPUT, "a boundary is not followed by a line break");
    fails("--XyZ\rx", 0, ERR_INVALID_INPUT, "a boundary is not followed by a line break");
    fails("--XyZ-x", 0, ERR_INVALID_INPUT, "a boundary is followed by a single '-'");
    fails("--XyZ\r\n\r\ndata", 0, ERR_INVALID_INPUT, "a part has no headers");
    fails("--XyZ\r\nnonsense\r\n\r\n", 0, ERR_INVALID_INPUT,
          "a part has a header line without ':'");
    fails("--XyZ\r\nX: y\r\n\r\n", 0, ERR_INVALID_INPUT,
          "a part has no name ('Content-Disposition: form-data; name=…')");
    fails("--XyZ\r\nContent-Disposition: attachment; name=a\r\n\r\n", 0, ERR_INVALID_INPUT,
          "a part is no form-data");
    fails("--XyZ\r\nContent-Disposition: form-data; name=\"\xff\"\r\n\r\n", 0, ERR_INVALID_INPUT,
          "the name of a part is not UTF-8 text");
    fails(
        "--XyZ\r\nContent-Disposition: form-data; name=a\r\nContent-Transfer-Encoding: base64\r\n\r\n",
        0, ERR_INVALID_INPUT,
        "a part is encoded ('Content-Transfer-Encoding'), which is not supported");
    fails(
        "--XyZ\r\nContent-Disposition: form-data; name=a\r\n\r\n\r\n--XyZ\r\nContent-Disposition: form-data; name=b\r\n\r\n",
        1, ERR_TOO_LARGE, "more than 1 parts");

    n = (size_t)sprintf(text, "--XyZ\r\nContent-Disposition: form-data; name=\"");
    memset(text + n, 'n', 256);
    strcpy(text + n + 256, "\"\r\n\r\n");
    fails(text, 0, ERR_TOO_LARGE, "'name' of a part is longer than 255 bytes");

    n = (size_t)sprintf(text, "--XyZ\r\nX: ");
    memset(text + n, 'h', 5000);
    text[n + 5000] = '\0';
    fails(text, 0, ERR_TOO_LARGE, "the headers of a part are longer than 4096 bytes");
}

static void test_callback_fails(void **state)
{
    struct log log = new_log();
    struct multipart *mp;
    struct err e;

    (void)state;
    log.refuse = true;
    assert_works(multipart_create(TYPE, 0, &handler, &log, &mp, &e), &e);
    assert_fails(feed(mp, body, sizeof(body) - 1, 9, &e), &e, ERR_CONFLICT, "refused");
    multipart_destroy(mp);
}

static void test_file_names(void **state)
{
    static const struct {
        const char *sent, *got;
    } cases[] = {
        { "a.csv", "a.csv" },
        { "/abs/b.csv", "b.csv" },
        { "C:\\x\\c.csv", "c.csv" },
        { "..", ".." },
        { "a\x01\x1f\x7f.csv", "a.csv" },
        { "\xff.csv", "_.csv" },
        { "\xc3\xa4.csv", "\xc3\xa4.csv" },
        { "dir/", "" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct log log = new_log();
        char text[512], expected[128];
        struct multipart *mp;
        struct err e;

        snprintf(
            text, sizeof(text),
            "--XyZ\r\nContent-Disposition: form-data; name=f; filename=\"%s\"\r\n\r\n\r\n--XyZ--",
            cases[i].sent);
        snprintf(expected, sizeof(expected), "<f|%s|:>", cases[i].got);
        assert_works(multipart_create(TYPE, 0, &handler, &log, &mp, &e), &e);
        assert_works(feed(mp, text, strlen(text), 3, &e), &e);
        assert_string_equal(buf_cstr(&log.b), expected);
        multipart_destroy(mp);
        buf_finish(&log.b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_piece_size), cmocka_unit_test(test_cut_at_every_byte),
        cmocka_unit_test(test_pauses),           cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_content_types),    cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_callback_fails),   cmocka_unit_test(test_file_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
