/*
 * A thread as a file: a tar archive with `thread.json` (title, data sets, messages, names of its
 * files), then files/0, files/1 … and, if its variables could be kept, `image`.
 *
 * A file that is imported may come from anybody. Its parts are taken in this order and under these
 * names only, each with a limit, and nothing of it becomes a path of this machine: files are
 * uploaded to the server as a browser uploads them, and the image is read by a kernel in its jail.
 */

#include "cli/thread_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/fdio.h"
#include "base/id.h"
#include "base/macros.h"
#include "base/str.h"
#include "cli/cli.h"

#define PATH_MAX_BYTES 8192u
#define BLOCK 512u
#define VERSION 1
#define ABOUT_MAX_BYTES (64u << 20)
#define PART_MAX_BYTES (1u << 30)
#define FILES_MAX 64
#define MESSAGES_MAX 10000
#define MESSAGES_AT_ONCE 16         /* as many as the server takes */
#define MESSAGES_BYTES (256u << 10) /* … and bytes of them, about */

/* ---- the archive ---- */

struct tar_head {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[100];
    char magic[6], version[2], user[32], group[32], major[8], minor[8], prefix[155], rest[12];
};
static_assert(sizeof(struct tar_head) == BLOCK, "a block");

static unsigned sum_of(const struct tar_head *h)
{
    struct tar_head copy = *h;
    unsigned sum = 0;
    memset(copy.sum, ' ', sizeof(copy.sum));
    for (size_t i = 0; i < BLOCK; i++)
        sum += ((const unsigned char *)&copy)[i];
    return sum;
}

static int write_part(int fd, const char *name, const void *data, size_t len, struct err *err)
{
    static const char zeros[BLOCK];
    struct tar_head h = { .mode = "0000600",
                          .uid = "0000000",
                          .gid = "0000000",
                          .mtime = "00000000000",
                          .type = '0',
                          .magic = "ustar",
                          .version = "00" };
    snprintf(h.name, sizeof(h.name), "%s", name);
    snprintf(h.size, sizeof(h.size), "%011zo", len);
    snprintf(h.sum, sizeof(h.sum), "%06o", sum_of(&h));
    h.sum[7] = ' ';
    int r = fd_write_all(fd, &h, sizeof(h), err);
    if (r == 0)
        r = fd_write_all(fd, data, len, err);
    return r < 0 ? r : fd_write_all(fd, zeros, (BLOCK - len % BLOCK) % BLOCK, err);
}

static int damaged(struct err *err)
{
    return err_set(err, ERR_VALIDATION, "it is no file of a thread, or it is damaged");
}

static int read_exactly(int fd, void *data, size_t len, struct err *err)
{
    for (size_t got = 0; got < len;) {
        ssize_t n = read(fd, (char *)data + got, len - got);
        if (n < 0 && errno != EINTR)
            return err_errno(err, ERR_IO, errno, "reading");
        if (n == 0)
            return damaged(err);
        got += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

/* The next part, which must have this name. The buffer's maximum bounds it. */
static int read_part(int fd, const char *name, struct buf *ret, struct err *err)
{
    struct tar_head h;
    char piece[65536], *end;
    int r = read_exactly(fd, &h, sizeof(h), err);
    if (r < 0)
        return r;
    if (strncmp(h.name, name, sizeof(h.name)) != 0 || (h.type != '0' && h.type != '\0') ||
        h.size[11] != '\0' || strtoul(h.sum, NULL, 8) != sum_of(&h))
        return damaged(err);
    unsigned long long left = strtoull(h.size, &end, 8), pad = (BLOCK - left % BLOCK) % BLOCK;
    if (end != h.size + 11 || strspn(h.size, "01234567") != 11)
        return damaged(err);
    if (left > ret->max_bytes)
        return err_set(err, ERR_TOO_LARGE, "'%s' in it has more than %zu bytes", name,
                       ret->max_bytes);
    for (size_t n; left > 0 && r == 0; left -= n) {
        n = (size_t)MIN_OF(left, sizeof(piece));
        r = read_exactly(fd, piece, n, err);
        if (r == 0)
            r = buf_append(ret, piece, n, err);
    }
    return r < 0 ? r : read_exactly(fd, piece, (size_t)pad, err);
}

/* ---- requests ---- */

static int path_of(struct buf *b, const char *before, const char *id, const char *after,
                   struct err *err)
{
    buf_clear(b);
    int r = buf_append_str(b, before, err);
    if (r == 0)
        r = remote_append_coded(b, id, false, err);
    return r < 0 ? r : buf_append_str(b, after, err);
}

static int call(const struct remote *to, const char *method, const char *before, const char *id,
                const char *after, const json_t *body, json_t **ret, struct err *err)
{
    auto_buf struct buf path = BUF_INIT(PATH_MAX_BYTES);
    int r = path_of(&path, before, id, after, err);
    return r < 0 ? r : remote_call_json(to, method, buf_cstr(&path), body, ret, err);
}

static void note(const char *before, const char *text)
{
    char shown[STR_SHOWN_SIZE];
    cli_complain("%s%s", before, str_show(text, strlen(text), shown, sizeof(shown)));
}

/* ---- export ---- */

/* All messages, the oldest first: pages come from the newest one on. */
static int get_messages(const struct remote *to, const char *id, json_t *ret, struct err *err)
{
    auto_buf struct buf after = BUF_INIT(PATH_MAX_BYTES);
    int r = buf_append_str(&after, "/messages?limit=200", err);
    while (r == 0) {
        auto_json json_t *page = NULL;
        r = call(to, "GET", "/threads/", id, buf_cstr(&after), NULL, &page, err);
        const json_t *messages = json_object_get(page, "messages");
        for (size_t i = json_array_size(messages); i > 0 && r == 0; i--) {
            const json_t *m = json_array_get(messages, i - 1);
            json_t *brief = json_pack("{s:s, s:s}", "role", remote_text(m, "role"), "content",
                                      remote_text(m, "content"));
            if (json_array_insert_new(ret, 0, brief) < 0)
                r = err_set(err, ERR_NO_MEMORY, "out of memory");
        }
        const char *before = remote_text(page, "before");
        if (r < 0 || !*before)
            return r;
        buf_clear(&after);
        r = buf_append_str(&after, "/messages?limit=200&cursor=", err);
        if (r == 0)
            r = remote_append_coded(&after, before, false, err);
    }
    return r;
}

/* [{name}] of what was uploaded to the thread. */
static int get_files(const struct remote *to, const char *id, json_t *ret, struct err *err)
{
    auto_json json_t *list = NULL;
    const json_t *f;
    size_t i;
    int r = call(to, "GET", "/files/list?session_id=", id, "", NULL, &list, err);
    json_array_foreach(json_object_get(list, "files"), i, f) {
        const char *path = remote_text(f, "path");
        bool ours = str_eq(remote_text(f, "where"), "data") && str_starts(path, "/data/") &&
                    !strchr(path + strlen("/data/"), '/');
        if (r == 0 && ours)
            json_array_append_new(ret, json_pack("{s:s}", "name", path + strlen("/data/")));
    }
    return r;
}

static int get_part(const struct remote *to, const char *path, struct buf *ret, struct err *err)
{
    struct remote_request request = { .method = "GET", .path = path, .accept = "*/*" };
    return remote_call(to, &request, ret, err);
}

static int write_files(int fd, const struct remote *to, const char *id, const json_t *files,
                       struct err *err)
{
    const json_t *f;
    size_t i;
    json_array_foreach(files, i, f) {
        auto_buf struct buf path = BUF_INIT(PATH_MAX_BYTES), content = BUF_INIT(PART_MAX_BYTES);
        char name[32];
        snprintf(name, sizeof(name), "files/%zu", i);
        int r = path_of(&path, "/files/download?session_id=", id, "&path=%2Fdata%2F", err);
        if (r == 0)
            r = remote_append_coded(&path, remote_text(f, "name"), false, err);
        if (r == 0)
            r = get_part(to, buf_cstr(&path), &content, err);
        if (r == 0)
            r = write_part(fd, name, buf_cstr(&content), content.len, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int write_archive(int fd, const struct remote *to, const char *id, json_t **ret_about,
                         struct err *err)
{
    static const char end[2 * BLOCK];
    auto_buf struct buf text = BUF_INIT(ABOUT_MAX_BYTES), path = BUF_INIT(PATH_MAX_BYTES),
                        image = BUF_INIT(PART_MAX_BYTES);
    auto_json json_t *about = NULL, *status = NULL;
    json_t *messages = json_array(), *files = json_array();
    int r = call(to, "POST", "/thread/", id, "/export", NULL, &about, err);
    if (r == 0)
        r = call(to, "GET", "/thread/", id, "/status", NULL, &status, err);
    if (r == 0)
        r = get_messages(to, id, messages, err);
    if (r == 0)
        r = get_files(to, id, files, err);
    bool has_image = json_integer_value(json_object_get(about, "image_bytes")) > 0;
    json_object_del(about, "thread_id");
    json_object_set_new(about, "riddle_thread", json_integer(VERSION));
    json_object_set(about, "title", json_object_get(status, "title"));
    json_object_set_new(about, "messages", messages);
    json_object_set_new(about, "files", files);
    if (r == 0)
        r = json_write(about, &text, err);
    if (r == 0)
        r = write_part(fd, "thread.json", buf_cstr(&text), text.len, err);
    if (r == 0)
        r = write_files(fd, to, id, files, err);
    if (r == 0 && has_image)
        r = path_of(&path, "/thread/", id, "/image", err);
    if (r == 0 && has_image)
        r = get_part(to, buf_cstr(&path), &image, err);
    if (r == 0 && has_image)
        r = write_part(fd, "image", buf_cstr(&image), image.len, err);
    if (r == 0)
        r = fd_write_all(fd, end, sizeof(end), err);
    *ret_about = TAKE_PTR(about);
    return r;
}

int thread_file_export(const struct remote *to, const char *id, const char *path, bool force)
{
    struct err err = ERR_INIT;
    auto_json json_t *about = NULL;
    auto_free char *partial = NULL;
    struct stat st;
    if (!force && lstat(path, &st) == 0) {
        cli_complain("'%s' is there already; --force replaces it", path);
        return CLI_FAILED;
    }
    if (asprintf(&partial, "%s.partial", path) < 0)
        return CLI_FAILED;
    auto_close int fd = open(partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    int r = fd >= 0 ? write_archive(fd, to, id, &about, &err) :
                      err_errno(&err, ERR_IO, errno, "writing '%s'", partial);
    if (r == 0 && rename(partial, path) < 0)
        r = err_errno(&err, ERR_IO, errno, "writing '%s'", path);
    if (r < 0) {
        (void)unlink(partial);
        cli_complain("%s: %s", id, err.message);
        return CLI_FAILED;
    }
    long long bytes = json_integer_value(json_object_get(about, "image_bytes"));
    printf("%s: %zu messages, %zu files, ", id, json_array_size(json_object_get(about, "messages")),
           json_array_size(json_object_get(about, "files")));
    if (bytes > 0)
        printf("variables in %lld bytes\n", bytes);
    else
        puts("no variables");
    if (*remote_text(about, "not_kept"))
        note("variables are not in the file: ", remote_text(about, "not_kept"));
    if (*remote_text(about, "not_elsewhere"))
        note("variables that another server will not have: ", remote_text(about, "not_elsewhere"));
    return CLI_OK;
}

/* ---- import ---- */

static int read_about(int fd, json_t **ret, struct err *err)
{
    auto_buf struct buf text = BUF_INIT(ABOUT_MAX_BYTES);
    auto_json json_t *about = NULL;
    struct err ignored = ERR_INIT;
    int r = read_part(fd, "thread.json", &text, err);
    if (r < 0)
        return r;
    if (json_parse(buf_cstr(&text), text.len, &about, &ignored) < 0 || !json_is_object(about))
        return damaged(err);
    if (json_integer_value(json_object_get(about, "riddle_thread")) != VERSION)
        return err_set(err, ERR_VALIDATION, "it is of another version of Riddle");
    if (json_array_size(json_object_get(about, "files")) > FILES_MAX ||
        json_array_size(json_object_get(about, "messages")) > MESSAGES_MAX)
        return err_set(err, ERR_TOO_LARGE, "it has more than %d files or %d messages", FILES_MAX,
                       MESSAGES_MAX);
    *ret = TAKE_PTR(about);
    return 0;
}

/* With its data sets and uploads, if the server has them for this person. */
static int make_thread(const struct remote *to, json_t *about, json_t **ret, struct err *err)
{
    struct err without = ERR_INIT;
    auto_json json_t *body = json_object();
    json_t *sets = json_object_get(about, "datasets"), *title = json_object_get(about, "title"),
           *uploads = json_object_get(about, "file_ids");
    if (json_is_string(title))
        json_object_set(body, "title", title);
    json_object_set(body, "datasets", json_is_array(sets) ? sets : json_null());
    json_object_set(body, "file_ids", json_is_array(uploads) ? uploads : json_null());
    int r = remote_call_json(to, "POST", "/thread/new", body, ret, err);
    if (r == 0)
        return 0;
    json_object_set_new(body, "datasets", json_array());
    json_object_del(body, "file_ids");
    if (remote_call_json(to, "POST", "/thread/new", body, ret, &without) < 0)
        return r;
    note("its data sets are not in the new thread: ", err->message);
    *err = (struct err)ERR_INIT;
    return 0;
}

static int send_file(const struct remote *to, const char *id, const char *name,
                     const struct buf *content, struct err *err)
{
    char boundary[41], type[128];
    auto_buf struct buf body = BUF_INIT(PART_MAX_BYTES + 4096u),
                        answer = BUF_INIT(REMOTE_ANSWER_MAX_BYTES);
    for (const char *p = name; *p; p++)
        if ((unsigned char)*p < ' ' || *p == '"' || *p == '\\' || *p == '/' || *p == 127)
            return damaged(err);
    if (!*name || strlen(name) > 255)
        return damaged(err);
    id_hex(boundary, 40);
    int r = buf_printf(&body, err,
                       "--%s\r\nContent-Disposition: form-data; name=\"session_id\"\r\n\r\n%s\r\n"
                       "--%s\r\nContent-Disposition: form-data; name=\"files[]\"; "
                       "filename=\"%s\"\r\nContent-Type: application/octet-stream\r\n\r\n",
                       boundary, id, boundary, name);
    if (r == 0)
        r = buf_append(&body, content->data, content->len, err);
    if (r == 0)
        r = buf_printf(&body, err, "\r\n--%s--\r\n", boundary);
    snprintf(type, sizeof(type), "multipart/form-data; boundary=%s", boundary);
    struct remote_request request = { .method = "POST",
                                      .path = "/files/upload",
                                      .content_type = type,
                                      .body = buf_cstr(&body),
                                      .body_len = body.len };
    return r < 0 ? r : remote_call(to, &request, &answer, err);
}

static int send_files(int fd, const struct remote *to, const char *id, const json_t *files,
                      struct err *err)
{
    const json_t *f;
    size_t i;
    json_array_foreach(files, i, f) {
        auto_buf struct buf content = BUF_INIT(PART_MAX_BYTES);
        char name[32];
        snprintf(name, sizeof(name), "files/%zu", i);
        int r = read_part(fd, name, &content, err);
        if (r == 0)
            r = send_file(to, id, remote_text(f, "name"), &content, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int send_messages(const struct remote *to, const char *id, const json_t *messages,
                         struct err *err)
{
    size_t n = json_array_size(messages);
    for (size_t i = 0; i < n;) {
        auto_json json_t *body = json_pack("{s:[]}", "messages"), *answer = NULL;
        json_t *some = json_object_get(body, "messages");
        size_t bytes = 0;
        for (; i < n && json_array_size(some) < MESSAGES_AT_ONCE &&
               (bytes == 0 || bytes < MESSAGES_BYTES);
             i++) {
            const json_t *m = json_array_get(messages, i);
            bytes += strlen(remote_text(m, "content")) + 1;
            json_array_append_new(some, json_pack("{s:s, s:s}", "role", remote_text(m, "role"),
                                                  "content", remote_text(m, "content")));
        }
        int r = call(to, "POST", "/thread/", id, "/messages", body, &answer, err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* A server that cannot use it says so; the thread goes on without. */
static int send_image(int fd, const struct remote *to, const char *id, const json_t *about,
                      struct err *err)
{
    auto_buf struct buf image = BUF_INIT(PART_MAX_BYTES), path = BUF_INIT(PATH_MAX_BYTES),
                        answer = BUF_INIT(REMOTE_ANSWER_MAX_BYTES);
    struct err why = ERR_INIT;
    if (json_integer_value(json_object_get(about, "image_bytes")) <= 0) {
        if (*remote_text(about, "not_kept"))
            note("variables are not in the file: ", remote_text(about, "not_kept"));
        return 0;
    }
    int r = read_part(fd, "image", &image, err);
    if (r == 0)
        r = path_of(&path, "/thread/", id, "/image?data=", err);
    if (r == 0)
        r = remote_append_coded(&path, remote_text(about, "data"), false, err);
    if (r < 0)
        return r;
    struct remote_request request = { .method = "PUT",
                                      .path = buf_cstr(&path),
                                      .content_type = "application/octet-stream",
                                      .body = buf_cstr(&image),
                                      .body_len = image.len };
    if (remote_call(to, &request, &answer, &why) < 0)
        note("variables are not in the new thread: ", why.message);
    return 0;
}

int thread_file_import(const struct remote *to, const char *path)
{
    struct err err = ERR_INIT, ignored = ERR_INIT;
    auto_json json_t *about = NULL, *made = NULL, *gone = NULL;
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    int r = fd >= 0 ? read_about(fd, &about, &err) :
                      err_errno(&err, ERR_IO, errno, "opening the file");
    if (r == 0)
        r = make_thread(to, about, &made, &err);
    const char *id = remote_text(made, "thread_id");
    if (r == 0 && !remote_is_id(id))
        r = err_set(&err, ERR_PROTOCOL, "the server made no thread");
    bool is_made = r == 0;
    if (r == 0)
        r = send_files(fd, to, id, json_object_get(about, "files"), &err);
    if (r == 0)
        r = send_messages(to, id, json_object_get(about, "messages"), &err);
    if (r == 0)
        r = send_image(fd, to, id, about, &err);
    if (r < 0 && is_made)
        (void)call(to, "DELETE", "/thread/", id, "", NULL, &gone, &ignored);
    if (r < 0) {
        cli_complain("'%s': %s", path, err.message);
        return CLI_FAILED;
    }
    puts(id);
    return CLI_OK;
}
