/*
 * LLM_RECORD: every request to a model and what its server answered, as files of one directory, so
 * that what a server did can be looked at and read again (index.jsonl is as
 * tests/integration/test_recordings.py reads it). The key is in no request's body; where a server
 * repeats it, it is taken out. Files are written when a try ends, by the thread that asks: this is
 * for looking, not for serving.
 */

#include "llm/llm_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/fdio.h"
#include "base/str.h"

#define SECRET_SHOWN "[key]"

void llm_record_begin(struct llm_record *r, const char *request, size_t len)
{
    struct err ignored = ERR_INIT;

    buf_clear(&r->request);
    buf_clear(&r->answer);
    (void)buf_append(&r->request, request, len, &ignored);
}

void llm_record_data(struct llm_record *r, const char *data, size_t len)
{
    struct err ignored = ERR_INIT;

    (void)buf_append(&r->answer, data, len,
                     &ignored); /* what is too large is left out as a whole piece */
}

/* Appends the bytes without the secret. */
static int append_clean(struct buf *out, const struct buf *in, const char *secret, struct err *err)
{
    size_t n = secret ? strlen(secret) : 0, from = 0;
    int r = 0;

    while (r == 0 && from < in->len) {
        const char *hit = n >= LLM_SECRET_MIN ? memmem(in->data + from, in->len - from, secret, n) :
                                                NULL;
        size_t len = hit ? (size_t)(hit - (in->data + from)) : in->len - from;

        r = buf_append(out, in->data + from, len, err);
        if (r == 0 && hit)
            r = buf_append_str(out, SECRET_SHOWN, err);
        from += len + (hit ? n : 0);
    }
    return r;
}

static int write_file(int dir, const char *name, const struct buf *content, const char *secret,
                      struct err *err)
{
    auto_buf struct buf clean = BUF_INIT(2 * LLM_RECORD_MAX);
    auto_close int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                               0600);

    if (fd < 0)
        return err_errno(err, ERR_IO, errno, "making '%s'", name);
    int r = append_clean(&clean, content, secret, err);
    return r == 0 ? fd_write_all(fd, buf_cstr(&clean), clean.len, err) : r;
}

static int add_to_index(int dir, json_t *line, struct err *err)
{
    auto_free char *text = json_to_str(line);
    auto_buf struct buf b = BUF_INIT(8192);
    auto_close int fd = openat(dir, "index.jsonl",
                               O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0)
        return err_errno(err, ERR_IO, errno, "making 'index.jsonl'");
    int r = buf_printf(&b, err, "%s\n", text ? text : "{}");
    return r == 0 ? fd_write_all(fd, b.data, b.len, err) : r;
}

static int keep(struct llm_record *r, const struct llm_target *t, const char *protocol,
                const struct client_response *resp, struct err *err)
{
    static unsigned number;
    char stamp[CLOCK_ISO_SIZE], name[96], request[128], answer[128];
    bool is_stream = str_eq(resp->content_type, "text/event-stream");

    auto_close int dir = open(r->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return err_errno(err, ERR_IO, errno, "opening '%s'", r->dir);
    clock_iso8601(clock_wall_ms(), stamp);
    stamp[19] = '\0'; /* seconds do */
    snprintf(name, sizeof(name), "%s-%d-%u", stamp, (int)getpid(), ++number);
    snprintf(request, sizeof(request), "%s.request.json", name);
    snprintf(answer, sizeof(answer), "%s.%s", name, is_stream ? "sse" : "json");
    int n = write_file(dir, request, &r->request, t->key, err);
    if (n == 0)
        n = write_file(dir, answer, &r->answer, t->key, err);
    auto_json json_t *line = json_pack("{s:s, s:s, s:s, s:i, s:s, s:s}", "file", answer, "request",
                                       request, "protocol", protocol, "status", resp->status,
                                       "content_type", resp->content_type, "model", t->model);
    return n == 0 ? add_to_index(dir, line, err) : n;
}

void llm_record_end(struct llm_record *r, const struct llm_target *t, const char *protocol,
                    const struct client_response *resp)
{
    struct err ignored = ERR_INIT;

    (void)keep(r, t, protocol, resp,
               &ignored); /* a full disk does not stop the call that is looked at */
    buf_clear(&r->request);
    buf_clear(&r->answer);
}
