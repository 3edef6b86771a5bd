/* Heads are few and short: each is looked at as a text of at most DAP_HEAD_MAX bytes. */

#include "dap/frame.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>
#include "base/str.h"

/* The value of Content-Length in a head of whole lines. */
static int read_head(const char *head, size_t len, size_t *ret_length, struct err *err)
{
    static const char name[] = "Content-Length:";
    bool found = false;
    for (size_t at = 0; at < len;) {
        const char *line = head + at, *end = memchr(line, '\r', len - at);
        size_t n = end ? (size_t)(end - line) : len - at;
        at += n + 2;
        if (n < sizeof(name) - 1 || strncasecmp(line, name, sizeof(name) - 1) != 0)
            continue;
        char digits[24];
        const char *p = line + sizeof(name) - 1;
        while (p < line + n && *p == ' ')
            p++;
        size_t count = (size_t)(line + n - p);
        long long value;
        if (found || count == 0 || count >= sizeof(digits))
            return err_set(err, ERR_PROTOCOL, "a message has no single Content-Length");
        memcpy(digits, p, count);
        digits[count] = 0;
        if (str_parse_i64(digits, "Content-Length", 0, INT64_MAX, &value, NULL) < 0)
            return err_set(err, ERR_PROTOCOL, "the Content-Length of a message is no number");
        if (value > DAP_MESSAGE_MAX)
            return err_set(err, ERR_TOO_LARGE, "a message has %lld bytes; at most %u are taken",
                           value, DAP_MESSAGE_MAX);
        *ret_length = (size_t)value;
        found = true;
    }
    return found ? 0 : err_set(err, ERR_PROTOCOL, "a message has no Content-Length");
}

static int check_request(const json_t *message, struct err *err)
{
    long long seq;
    const char *type, *command;
    if (!json_is_object(message))
        return err_set(err, ERR_VALIDATION, "a message is no object");
    int r = json_get_i64(message, "seq", 0, 0, INT32_MAX, &seq, err);
    if (r == 0)
        r = json_get_str(message, "type", NULL, &type, err);
    if (r == 0)
        r = json_get_str(message, "command", NULL, &command, err);
    if (r == 0 && (!str_eq(type, "request") || !command))
        r = err_set(err, ERR_VALIDATION, "a message is no request with a command");
    return r;
}

int dap_parse_request(const char *text, size_t len, json_t **ret, struct err *err)
{
    json_t *message = NULL;
    int r = json_parse_within(text, len, DAP_NODES_MAX, &message, NULL, err);
    if (r == 0)
        r = check_request(message, err);
    if (r < 0)
        json_decref(message);
    else
        *ret = message;
    return r;
}

int dap_take_request(struct buf *in, json_t **ret, struct err *err)
{
    const char *text = buf_cstr(in),
               *end = memmem(text, MIN_OF(in->len, DAP_HEAD_MAX), "\r\n\r\n", 4);
    size_t length = 0;
    if (!end)
        return in->len < DAP_HEAD_MAX ?
                   0 :
                   err_set(err, ERR_PROTOCOL, "the head of a message is longer than %d bytes",
                           DAP_HEAD_MAX);
    size_t head = (size_t)(end - text) + 4;
    int r = read_head(text, head - 2, &length, err);
    if (r < 0)
        return r;
    if (in->len - head < length)
        return 0;
    r = dap_parse_request(text + head, length, ret, err);
    if (r < 0)
        return r;
    buf_consume(in, head + length);
    return 1;
}

int dap_write(const json_t *message, struct buf *out, struct err *err)
{
    auto_free char *text = json_to_str(message);
    if (!text)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    return buf_printf(out, err, "Content-Length: %zu\r\n\r\n%s", strlen(text), text);
}
