/*
 * libedit lives in the loop through its callback interface: a poll of the terminal feeds it key by
 * key. Its handler is only installed while a line is asked for; in between the terminal is in its
 * usual mode, and what is typed ahead waits in the kernel.
 *
 * The line handler only keeps the line: libedit takes the terminal once more after calling it, so
 * the handler is removed when rl_callback_read_char() has returned.
 */

#include "cli/chat_input.h"

#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fdio.h"
#include "base/macros.h"
#include "base/str.h"
#include "cli/edit_lib.h"

#define HISTORY_MAX_BYTES ((size_t)CHAT_HISTORY_LINES * 2 * (CHAT_HISTORY_LINE_BYTES + 1))

struct chat_input {
    struct loop *loop;
    struct chat_input_events events;
    bool terminal, asked, ended;
    uv_poll_t *poll;    /* NULL: a file, which is always ready */
    struct buf pending; /* read and not yet given, of what is no terminal */

    /* Of a terminal. */
    char *prompt, *line;
    bool got_line, touched; /* a key was pressed since the prompt came */
    const char *history_path;
    char *last; /* the line remembered last */
    const char *const *words;
    size_t n_words;
};

static struct chat_input *current; /* libedit's callbacks have no argument */

/* ---- history ---- */

/* Where the newest lines begin, when there are more than are kept. */
static const char *newest_lines(const struct buf *b)
{
    const char *start = buf_cstr(b), *p = start + b->len;
    size_t n = 0;
    while (p > start)
        if (*--p == '\n' && ++n > CHAT_HISTORY_LINES)
            return p + 1;
    return start;
}

/*
 * Bounded at the start and at the end: in between lines are only appended, so that chats side by
 * side lose nothing.
 */
static void trim_history(struct chat_input *in, bool load)
{
    struct err err = ERR_INIT;
    auto_buf struct buf b = BUF_INIT(HISTORY_MAX_BYTES);
    int r = fd_read_file(in->history_path, &b, &err);
    const char *from = newest_lines(&b);
    if (r == -ERR_NOT_FOUND)
        return;
    if (r < 0 || from > buf_cstr(&b))
        (void)fd_replace_file(in->history_path, from, strlen(from), 0600, &err);
    for (char *save = NULL, *line = load ? strtok_r((char *)(uintptr_t)from, "\n", &save) : NULL;
         line; line = strtok_r(NULL, "\n", &save))
        edit_lib.add_history(line);
}

void chat_input_remember(struct chat_input *in, const char *line)
{
    size_t len = strlen(line);
    if (!in->terminal || len == 0 || len > CHAT_HISTORY_LINE_BYTES || strchr(line, '\n') ||
        str_eq(line, in->last))
        return;
    free(in->last);
    in->last = strdup(line);
    edit_lib.add_history(line);
    auto_close int fd = open(in->history_path,
                             O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    auto_buf struct buf b = BUF_INIT(CHAT_HISTORY_LINE_BYTES + 16);
    if (fd >= 0 && buf_printf(&b, NULL, "%s\n", line) == 0)
        (void)fd_write_all(fd, b.data, b.len, NULL);
}

/* ---- completion ---- */

static char *next_match(const char *text, int state)
{
    static size_t at;
    if (state == 0)
        at = 0;
    while (current && at < current->n_words) {
        const char *word = current->words[at++];
        if (strncasecmp(word, text, strlen(text)) == 0)
            return strdup(word);
    }
    return NULL;
}

/* Names of commands, tables and columns; files where a command takes one. */
static char **complete(const char *text, int start, int end)
{
    (void)end;
    bool is_file = start > 0 && (str_starts(*edit_lib.rl_line_buffer, "/save ") ||
                                 str_starts(*edit_lib.rl_line_buffer, "/chart "));
    if (is_file)
        return NULL;
    *edit_lib.rl_attempted_completion_over = 1;
    return edit_lib.rl_completion_matches(text, next_match);
}

/* ---- a terminal ---- */

static void on_line(char *line)
{
    current->line = line;
    current->got_line = true;
}

static void leave_terminal(struct chat_input *in)
{
    uv_poll_stop(in->poll);
    edit_lib.rl_callback_handler_remove();
    in->asked = false;
}

static void read_keys(struct chat_input *in)
{
    struct pollfd pfd = { .fd = STDIN_FILENO, .events = POLLIN };
    bool gone = poll(&pfd, 1, 0) > 0 && (pfd.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
    in->touched = true;
    if (!gone)
        edit_lib.rl_callback_read_char();
    if (!gone && !in->got_line)
        return;
    leave_terminal(in);
    in->got_line = false;
    auto_free char *line = TAKE_PTR(in->line);
    if (line) {
        in->events.line(in->events.arg, line);
        return;
    }
    in->ended = true;
    fputc('\n', stdout);
    in->events.end(in->events.arg, NULL);
}

static int take_terminal(struct chat_input *in, struct err *err)
{
    /* libedit counts characters by the locale; what is typed and shown here is always UTF-8. */
    (void)setlocale(LC_CTYPE, "");
    if (!str_eq(nl_langinfo(CODESET), "UTF-8") && !setlocale(LC_CTYPE, "C.UTF-8"))
        return err_set(err, ERR_CONFIG, "there is no UTF-8 locale");
    int r = edit_lib_load(err);
    if (r < 0)
        return r;
    *edit_lib.rl_readline_name = "riddle";
    *edit_lib.rl_catch_signals = 0;
    edit_lib.rl_initialize();
    edit_lib.using_history();
    edit_lib.stifle_history(CHAT_HISTORY_LINES);
    *edit_lib.rl_attempted_completion_function = complete;
    trim_history(in, true);
    return 0;
}

bool chat_input_clear(struct chat_input *in)
{
    if (!in->terminal || !in->asked)
        return true;
    bool untouched = !in->touched;
    in->touched = false;
    edit_lib.rl_callback_handler_remove();
    fputs("^C\n", stdout);
    fflush(stdout);
    edit_lib.rl_callback_handler_install(in->prompt, on_line);
    return untouched;
}

void chat_input_resume(struct chat_input *in)
{
    if (!in->terminal || !in->asked)
        return;
    edit_lib.rl_deprep_terminal(); /* or libedit believes that it still has it */
    edit_lib.rl_prep_terminal(1);
    edit_lib.rl_forced_update_display();
}

/* ---- anything else ---- */

static void give_end(struct chat_input *in, const struct err *err)
{
    in->ended = true;
    in->asked = false;
    if (in->poll)
        uv_poll_stop(in->poll);
    in->events.end(in->events.arg, err);
}

/* The first line of what is pending, if it is whole. */
static bool give_line(struct chat_input *in, bool at_end)
{
    const char *start = buf_cstr(&in->pending),
               *eol = in->pending.len ? memchr(start, '\n', in->pending.len) : NULL;
    size_t len = eol ? (size_t)(eol - start) : in->pending.len, used = len + (eol != NULL);
    if (!eol && (!at_end || len == 0))
        return false;
    auto_free char *line = strndup(start, len); /* up to a NUL, if somebody sends one */
    if (line && strlen(line) > 0 && line[strlen(line) - 1] == '\r')
        line[strlen(line) - 1] = '\0';
    buf_consume(&in->pending, used);
    in->asked = false;
    if (in->poll)
        uv_poll_stop(in->poll);
    in->events.line(in->events.arg, line ? line : "");
    return true;
}

static void read_more(struct chat_input *in)
{
    char piece[16384];
    struct err err = ERR_INIT;
    if (give_line(in, in->ended))
        return;
    ssize_t n = in->ended ? 0 : read(STDIN_FILENO, piece, sizeof(piece));
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n < 0) {
        err_errno(&err, ERR_IO, errno, "reading standard input");
        give_end(in, &err);
    } else if (n == 0) {
        in->ended = true;
        if (!give_line(in, true))
            give_end(in, NULL);
    } else if (buf_append(&in->pending, piece, (size_t)n, &err) < 0) {
        err_set(&err, ERR_TOO_LARGE, "a line of standard input has more than %u bytes",
                CHAT_LINE_MAX_BYTES);
        give_end(in, &err);
    } else {
        (void)give_line(in, false);
    }
}

static void read_file(void *arg)
{
    struct chat_input *in = arg;
    while (in->asked)
        read_more(in);
}

/* What is there already; for more, the poll is waited for. */
static void give_pending(void *arg)
{
    struct chat_input *in = arg;
    if (in->asked && !give_line(in, in->ended) && in->ended)
        give_end(in, NULL);
}

/* ---- both ---- */

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct chat_input *in = poll->data;
    (void)status, (void)events;
    if (!in->asked)
        return;
    if (in->terminal)
        read_keys(in);
    else
        read_more(in);
}

int chat_input_create(struct loop *loop, bool terminal, const char *history_path,
                      const struct chat_input_events *events, struct chat_input **ret,
                      struct err *err)
{
    struct chat_input *in = calloc(1, sizeof(*in));
    if (!in)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    *in = (struct chat_input){
        .loop = loop, .events = *events, .terminal = terminal, .history_path = history_path
    };
    buf_init(&in->pending, CHAT_LINE_MAX_BYTES + 16384);
    current = in;
    int r = terminal ? take_terminal(in, err) : 0;
    in->poll = r == 0 ? calloc(1, sizeof(*in->poll)) : NULL;
    if (in->poll && uv_poll_init(loop_uv(loop), in->poll, STDIN_FILENO) < 0) { /* a file */
        free(TAKE_PTR(in->poll));
        if (terminal)
            r = err_set(err, ERR_IO, "the terminal cannot be waited for");
    }
    if (in->poll)
        in->poll->data = in;
    if (r < 0) {
        chat_input_destroy(in);
        return r;
    }
    *ret = in;
    return 0;
}

static void free_poll(uv_handle_t *h)
{
    free(h);
}

void chat_input_stop(struct chat_input *in)
{
    if (in && in->asked && in->terminal)
        leave_terminal(in);
    if (in)
        in->asked = false;
}

void chat_input_destroy(struct chat_input *in)
{
    if (!in)
        return;
    chat_input_stop(in);
    if (in->poll)
        uv_close((uv_handle_t *)in->poll, free_poll);
    if (in->terminal && in->last)
        trim_history(in, false);
    current = NULL;
    buf_finish(&in->pending);
    free(in->prompt);
    free(in->line);
    free(in->last);
    free(in);
}

void chat_input_words(struct chat_input *in, const char *const *words, size_t n)
{
    in->words = words;
    in->n_words = n;
}

void chat_input_ask(struct chat_input *in, const char *prompt)
{
    struct err err = ERR_INIT;
    in->asked = true;
    if (in->terminal) {
        free(in->prompt);
        in->prompt = strdup(prompt);
        in->touched = false;
        fflush(stdout);
        edit_lib.rl_callback_handler_install(in->prompt ? in->prompt : "> ", on_line);
        uv_poll_start(in->poll, UV_READABLE, on_readable);
        return;
    }
    if (in->poll)
        uv_poll_start(in->poll, UV_READABLE, on_readable);
    if (loop_defer(in->loop, in->poll ? give_pending : read_file, in, &err) < 0)
        give_end(in, &err);
}
