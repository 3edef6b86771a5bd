/*
 * The kernel's side of files in /workspace, on a directory of the host: with what the jail does not
 * let user code make (FIFOs, devices, links to real files of the machine), so that this layer is
 * seen to hold by itself.
 */

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include "base/check.h"
#include "base/fdio.h"
#include "base/json.h"
#include "base/macros.h"
#include "kernel/workspace.h"

static char root[64], outside[64];

static int make_root(void **state)
{
    (void)state;
    snprintf(root, sizeof(root), "/tmp/riddle-workspace-XXXXXX");
    snprintf(outside, sizeof(outside), "/tmp/riddle-outside-XXXXXX");
    assert_non_null(mkdtemp(root));
    assert_non_null(mkdtemp(outside));
    assert_int_equal(chdir(root), 0);
    return 0;
}

static int remove_root(void **state)
{
    (void)state;
    assert_int_equal(chdir("/"), 0);
    assert_int_equal(fd_remove_tree(root, NULL), 0);
    assert_int_equal(fd_remove_tree(outside, NULL), 0);
    return 0;
}

static void put(const char *path, const char *text)
{
    assert_int_equal(fd_write_file(path, text, NULL), 0);
}

static json_t *parsed(struct result *out)
{
    struct err err;
    json_t *ret = NULL;
    assert_works(result_end(out, &err), &err);
    assert_works(json_parse(out->json.text.data, out->json.text.len, &ret, &err), &err);
    result_finish(out);
    return ret;
}

static json_t *list(void)
{
    struct result out;
    result_init(&out, 1u << 20);
    result_begin(&out, WIRE_VERDICT_OK);
    workspace_list(root, &out.json);
    return parsed(&out);
}

static char emitted[256];
static size_t n_emitted;

static void emit(const char *bytes, size_t len)
{
    assert_true(len > 0 && len <= sizeof(emitted));
    memcpy(emitted, bytes, len);
    n_emitted = len;
}

static json_t *read_file(const char *path)
{
    n_emitted = 0;
    struct result out;
    result_init(&out, 4u << 20);
    auto_json json_t *req = json_pack("{s:s, s:i, s:i}", "path", path, "offset", 0, "max_bytes",
                                      1 << 20);
    workspace_read(root, req, emit, &out);
    return parsed(&out);
}

static json_t *write_file(const char *path, const char *text)
{
    struct result out;
    result_init(&out, 1u << 20);
    auto_json json_t *req = json_pack("{s:s}", "path", path);
    workspace_write(root, req, text, strlen(text), &out);
    return parsed(&out);
}

static void assert_refused(json_t *answer, const char *type, const char *message)
{
    json_t *error = json_object_get(answer, "error");
    assert_string_equal(json_string_value(json_object_get(answer, "verdict")), "error");
    assert_string_equal(json_string_value(json_object_get(error, "message")), message);
    assert_string_equal(json_string_value(json_object_get(error, "type")), type);
    json_decref(answer);
}

/* Neither listed nor read nor written to, at once. */
static void assert_untouchable(const char *path, const char *message)
{
    alarm(10); /* an open that waits ends the test */
    assert_refused(read_file(path), "VALIDATION_ERROR", message);
    assert_refused(write_file(path, "written"), "VALIDATION_ERROR", message);
    auto_json json_t *all = list();
    size_t i;
    json_t *f;
    json_array_foreach(json_object_get(all, "files"), i, f)
        assert_string_not_equal(json_string_value(json_object_get(f, "path")), path);
    alarm(0);
}

static void test_fifo(void **state)
{
    (void)state;
    assert_int_equal(mkfifo("fifo", 0666), 0);
    assert_untouchable("fifo", "'fifo' is not a regular file");
    assert_untouchable("fifo/x",
                       "'fifo' leads through a link or something else that is no directory");
    /* With somebody at its other end, too. */
    auto_close int other = open("fifo", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    assert_true(other >= 0);
    assert_int_equal(write(other, "secret", 6), 6);
    assert_untouchable("fifo", "'fifo' is not a regular file");
    char still[16];
    assert_int_equal(read(other, still, sizeof(still)), 6);
}

static void test_socket(void **state)
{
    (void)state;
    struct sockaddr_un at = { .sun_family = AF_UNIX, .sun_path = "socket" };
    auto_close int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(s, (const struct sockaddr *)&at, sizeof(at)), 0);
    assert_untouchable("socket", "'socket' is not a regular file");
}

static void test_device(void **state)
{
    (void)state;
    if (mknod("device", S_IFCHR | 0666, (dev_t)((1 << 8) + 3)) < 0)
        skip(); /* only root can */
    alarm(10);
    /* a tmpfs or disk mounted nodev refuses the open itself */
    json_t *answer = read_file("device");
    assert_string_equal(json_string_value(json_object_get(answer, "verdict")), "error");
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(answer, "error"), "type")),
        "VALIDATION_ERROR");
    json_decref(answer);
    alarm(0);
}

static void test_links(void **state)
{
    (void)state;
    char target[128];
    snprintf(target, sizeof(target), "%s/secret", outside);
    put(target, "secret");
    assert_int_equal(symlink("/etc/passwd", "passwd"), 0);
    assert_int_equal(symlink(target, "link"), 0);
    assert_int_equal(symlink(outside, "dir"), 0);
    assert_int_equal(mkdir("sub", 0755), 0);
    assert_int_equal(symlink("..", "sub/up"), 0);
    assert_untouchable("passwd", "'passwd' is a link, and links are not followed");
    assert_untouchable("link", "'link' is a link, and links are not followed");
    assert_untouchable("dir/secret",
                       "'dir' leads through a link or something else that is no directory");
    assert_untouchable("dir/new",
                       "'dir' leads through a link or something else that is no directory");
    assert_untouchable("sub/up/x",
                       "'up' leads through a link or something else that is no directory");
    auto_buf struct buf kept = BUF_INIT(100);
    assert_int_equal(fd_read_file(target, &kept, NULL), 0);
    assert_string_equal(buf_cstr(&kept), "secret");
    char new_path[128];
    snprintf(new_path, sizeof(new_path), "%s/new", outside);
    assert_int_equal(access(new_path, F_OK), -1);
}

static void test_paths(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",   ".",   "..",   "/",     "/etc/passwd",      "../x", "a/../b", "a//b",
        "a/", "./a", "a\nb", "a\xff", "1/2/3/4/5/6/7/8/9"
    };
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct result out;
        result_init(&out, 1u << 20);
        auto_json json_t *req = json_pack("{s:o, s:i, s:i}", "path",
                                          json_text(bad[i], strlen(bad[i])), "offset", 0,
                                          "max_bytes", 10);
        workspace_read(root, req, emit, &out);
        if (strchr(bad[i], '\xff')) { /* JSON cannot say it */
            assert_refused(parsed(&out), "NOT_FOUND", "there is no 'a\xef\xbf\xbd' in /workspace");
            continue;
        }
        assert_refused(parsed(&out), "VALIDATION_ERROR", "no path of a file in /workspace");
        result_init(&out, 1u << 20);
        workspace_write(root, req, "x", 1, &out);
        assert_refused(parsed(&out), "VALIDATION_ERROR", "no path of a file in /workspace");
    }
}

static void test_list(void **state)
{
    (void)state;
    auto_json json_t *none = list();
    assert_int_equal(json_array_size(json_object_get(none, "files")), 0);
    assert_true(json_is_false(json_object_get(none, "files_truncated")));
    json_t *made = write_file("sub/dir/b", "12345");
    assert_int_equal(json_integer_value(json_object_get(made, "size")), 5);
    json_decref(made);
    put("a", "1");
    put("sub-x", "");
    json_t *got = read_file("sub/dir/b");
    assert_int_equal(json_integer_value(json_object_get(got, "bytes")), 5);
    assert_int_equal(n_emitted, 5);
    assert_memory_equal(emitted, "12345", 5);
    json_decref(got);
    got = read_file("sub-x");
    assert_int_equal(json_integer_value(json_object_get(got, "bytes")), 0);
    assert_int_equal(n_emitted, 0);
    json_decref(got);
    auto_json json_t *all = list();
    auto_free char *text = json_to_str(json_object_get(all, "files"));
    assert_non_null(strstr(text, "{\"path\":\"a\",\"size\":1,\"modified\":"));
    static const char *const sorted[] = { "a", "sub-x", "sub/dir/b" };
    assert_int_equal(json_array_size(json_object_get(all, "files")), 3);
    for (size_t i = 0; i < 3; i++)
        assert_string_equal(json_string_value(json_object_get(
                                json_array_get(json_object_get(all, "files"), i), "path")),
                            sorted[i]);
    assert_true(json_is_false(json_object_get(all, "files_truncated")));
}

/* A jail without namespaces has no workspace: its directory is the machine's. */
static void test_no_workspace(void **state)
{
    (void)state;
    struct result out;
    result_init(&out, 1000);
    workspace_list(NULL, &out.json);
    assert_int_equal(out.json.text.len, 0);
    auto_json json_t *req = json_pack("{s:s, s:i, s:i}", "path", "a", "offset", 0, "max_bytes", 1);
    workspace_read(NULL, req, emit, &out);
    assert_refused(parsed(&out), "UNAVAILABLE",
                   "this jail has no /workspace of its own; 'riddle doctor' tells why");
    result_init(&out, 1000);
    workspace_write(NULL, req, "x", 1, &out);
    assert_refused(parsed(&out), "UNAVAILABLE",
                   "this jail has no /workspace of its own; 'riddle doctor' tells why");
}

int main(void)
{
#define ROOTED(test) cmocka_unit_test_setup_teardown(test, make_root, remove_root)
    const struct CMUnitTest tests[] = {
        ROOTED(test_fifo),  ROOTED(test_socket), ROOTED(test_device),       ROOTED(test_links),
        ROOTED(test_paths), ROOTED(test_list),   ROOTED(test_no_workspace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
