#include "cli/prompt.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>
#include "base/buf.h"
#include "base/limits.h"
#include "base/macros.h"
#include "base/str.h"
#include "cli/cli.h"

/* Byte by byte: what is behind the line belongs to the next question. 0: end of file. */
static int read_line(int stop_fd, struct buf *line, struct err *err)
{
    for (;;) {
        struct pollfd fds[] = { { .fd = STDIN_FILENO, .events = POLLIN },
                                { .fd = stop_fd, .events = POLLIN } };
        char c;
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return err_errno(err, ERR_IO, errno, "waiting for input");
        if (fds[1].revents)
            return err_set(err, ERR_CANCELLED, "stopped");
        if (!fds[0].revents)
            continue;
        ssize_t n = read(STDIN_FILENO, &c, 1);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n < 0)
            return err_errno(err, ERR_IO, errno, "reading standard input");
        if (n == 0)
            return line->len > 0;
        if (c == '\n')
            return 1;
        int r = buf_append(line, &c, 1, err);
        if (r < 0)
            return r;
    }
}

bool prompt_answer(struct lease *lease, int stop_fd, uint32_t id, const char *what,
                   const json_t *args)
{
    auto_buf struct buf line = BUF_INIT(INPUT_LINE_MAX);
    struct err err = ERR_INIT;
    const char *prompt = json_string_value(json_object_get(args, "prompt"));
    if (!str_eq(what, "input"))
        return false;
    if (prompt)
        cli_pass_through(STDERR_FILENO, isatty(STDERR_FILENO), prompt, strlen(prompt));
    int r = read_line(stop_fd, &line, &err);
    if (r == -ERR_CANCELLED)
        return false;
    auto_json json_t *text = r > 0 ? json_text(buf_cstr(&line), line.len) : NULL;
    if (r == 0)
        err_set(&err, ERR_UNAVAILABLE, "standard input has ended");
    lease_reply(lease, id, text, text ? NULL : &err);
    return true;
}
