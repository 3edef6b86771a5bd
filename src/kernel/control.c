/* The kernel's end of the wire. */

#include "kernel/control.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/fdio.h"

static struct {
    struct wire_reader reader;
    void (*interrupt)(void);
    bool watched;                /* SIGIO tells of what comes */
    volatile sig_atomic_t state; /* enum wire_state */
    volatile uint32_t request;   /* under way */
    atomic_bool pause;           /* the debugger is asked to pause it */
    uint32_t ask;                /* last one */
    struct buf bytes;
    int fds[FD_PASS_MAX];
    size_t n_fds;
    char input[65536]; /* read, and not yet looked at from `at` on */
    size_t at, len;
} control;

void control_open(void (*interrupt)(void))
{
    wire_reader_init(&control.reader, WIRE_TO_KERNEL);
    buf_init(&control.bytes, FILE_PIECE_MAX);
    control.interrupt = interrupt;
    control.state = WIRE_NEW;
}

void control_set_state(enum wire_state state, uint32_t request)
{
    control.request = request;
    if (state == WIRE_BUSY)
        atomic_store(&control.pause, false);
    control.state = (sig_atomic_t)state;
}

const struct buf *control_bytes(void)
{
    return &control.bytes;
}

const void *control_unread(size_t *ret_len)
{
    *ret_len = control.len - control.at;
    return control.input + control.at;
}

void control_resume(const void *unread, size_t len)
{
    control.at = 0;
    control.len = MIN_OF(len, sizeof(control.input));
    control.n_fds = 0;
    memcpy(control.input, unread, control.len);
}

int control_take_fd(void)
{
    if (control.n_fds == 0)
        return -1;
    int fd = control.fds[0];
    memmove(control.fds, control.fds + 1, --control.n_fds * sizeof(control.fds[0]));
    return fd;
}

/* ---- sending ---- */

void control_send(enum wire_type type, uint32_t id, const void *body, size_t len)
{
    struct err err = ERR_INIT;
    /* riddle is the only reader; if it is gone, so are we. */
    if (wire_send(CONTROL_FD, type, id, body, len, &err) < 0)
        _exit(1);
}

void control_send_json(enum wire_type type, uint32_t id, json_t *body)
{
    auto_free char *text = json_to_str(body);
    json_decref(body);
    if (!text)
        _exit(1);
    control_send(type, id, text, strlen(text));
}

void control_send_failed(uint32_t id, const struct err *err)
{
    control_send_json(WIRE_FAILED, id, json_pack("{s:o}", "error", json_error(err)));
}

void control_event(enum wire_type type, const void *body, size_t len)
{
    control_send(type, control.request, body, len);
}

/* ---- receiving ---- */

/* 1, 0 at the end of the stream, CANCELLED when a signal came first. */
static int fill(struct err *err)
{
    size_t n_fds = 0;
    errno = 0;
    ssize_t n = fd_recv_fds(CONTROL_FD, control.input, sizeof(control.input),
                            control.fds + control.n_fds, ARRAY_SIZE(control.fds) - control.n_fds,
                            &n_fds, err);
    control.n_fds += n_fds;
    control.at = 0;
    control.len = n > 0 ? (size_t)n : 0;
    /* User code may have made the socket non-blocking. */
    if (n < 0 && errno == EAGAIN) {
        struct pollfd pfd = { .fd = CONTROL_FD, .events = POLLIN };
        if (poll(&pfd, 1, -1) < 0 && errno != EINTR)
            return 0;
        return err_set(err, ERR_CANCELLED, "nothing came");
    }
    return n > 0;
}

/* What riddle sends without a look at the state that the kernel has come to meanwhile. */
static bool is_late(enum wire_type type)
{
    return type == WIRE_INTERRUPT || type == WIRE_REPLY || type == WIRE_PAUSE;
}

/*
 * Takes a whole message: 1 if it is for the caller, 0 if it has been dealt with, PROTOCOL,
 * CANCELLED.
 */
static int take(struct control_message *ret, struct err *err)
{
    const struct wire_reader *r = &control.reader;
    const struct wire_message *m = wire_message(r->head.type);
    size_t nodes = SIZE_MAX;
    if (!(m->states & (unsigned)control.state))
        return is_late(r->head.type) ?
                   0 :
                   err_set(err, ERR_PROTOCOL, "'%s' is not permitted now", m->name);
    if (r->head.type == WIRE_INTERRUPT) {
        if (r->head.id != control.request)
            return 0;
        control.interrupt();
        return control.state == WIRE_ASKING ?
                   err_set(err, ERR_CANCELLED, "an interrupt came before the reply") :
                   0;
    }
    if (r->head.type == WIRE_PAUSE)
        return 0; /* it came too late: the request waits already, or has ended */
    if (r->head.type == WIRE_BYTES) {
        buf_clear(&control.bytes);
        return buf_append(&control.bytes, r->body, r->head.len, err);
    }
    if (r->head.type == WIRE_REPLY && r->head.id != control.ask)
        return 0;
    *ret = (struct control_message){ .type = r->head.type, .id = r->head.id };
    int rc = wire_parse(r->head.type, r->body, r->head.len, &nodes, &ret->body, err);
    return rc < 0 ? rc : 1;
}

/* The next message for the caller from what has been read: 1, 0 if more must be read, PROTOCOL. */
static int take_next(struct control_message *ret, struct err *err)
{
    for (;;) {
        const char *at = control.input + control.at;
        size_t len = control.len - control.at;
        enum wire_step step = wire_reader_step(&control.reader, &at, &len);
        control.at = control.len - len;
        if (step == WIRE_MORE)
            return 0;
        if (step == WIRE_BROKEN)
            return err_set(err, ERR_PROTOCOL, "what came is no message for a kernel");
        int r = step == WIRE_MESSAGE ? take(ret, err) : 0;
        if (r != 0)
            return r;
    }
}

bool control_next(struct control_message *ret)
{
    struct err err = ERR_INIT;
    int r;
    buf_clear(&control.bytes);
    while ((r = take_next(ret, &err)) == 0) {
        int more = fill(&err);
        if (more == 0 || (more < 0 && more != -ERR_CANCELLED))
            return false;
    }
    if (r < 0) {
        control_send_failed(0, &err);
        _exit(1);
    }
    return true;
}

/* ---- interrupts ---- */

/* Whether an interrupt or a pause begins here; does what it asks for. */
static bool take_interrupt(const unsigned char raw[WIRE_HEAD_BYTES])
{
    struct wire_head head;
    if (!wire_head_read(raw, WIRE_TO_KERNEL, &head) || head.len != 0 ||
        (head.type != WIRE_INTERRUPT && head.type != WIRE_PAUSE))
        return false;
    if (head.id == control.request && head.type == WIRE_PAUSE)
        atomic_store(&control.pause, true);
    else if (head.id == control.request)
        control.interrupt();
    return true;
}

/*
 * Async-signal-safe. Nothing but interrupts and pauses comes while a request runs, so they are at
 * the front of the stream.
 */
static void look_for_interrupt(void)
{
    unsigned char raw[WIRE_HEAD_BYTES];
    while (control.state == WIRE_BUSY && control.at == control.len &&
           recv(CONTROL_FD, raw, sizeof(raw), MSG_PEEK | MSG_DONTWAIT) == sizeof(raw) &&
           take_interrupt(raw))
        (void)!recv(CONTROL_FD, raw, sizeof(raw), MSG_DONTWAIT);
}

static void on_sigio(int sig)
{
    int saved = errno;
    (void)sig;
    look_for_interrupt();
    errno = saved;
}

int control_watch(struct err *err)
{
    struct sigaction sa = {
        .sa_handler = on_sigio
    }; /* no SA_RESTART: a blocked call must notice */
    int flags = fcntl(CONTROL_FD, F_GETFL);
    sigemptyset(&sa.sa_mask);
    if (sigaction(SIGIO, &sa, NULL) < 0 || flags < 0 || fcntl(CONTROL_FD, F_SETOWN, getpid()) < 0 ||
        fcntl(CONTROL_FD, F_SETFL, flags | O_ASYNC) < 0)
        return err_errno(err, ERR_INTERNAL, errno, "watching the control socket");
    control.watched = true;
    return 0;
}

/* What was read with the request, or came before there was anything to interrupt. */
static void look_now(void)
{
    while (control.len - control.at >= WIRE_HEAD_BYTES &&
           take_interrupt((const unsigned char *)control.input + control.at))
        control.at += WIRE_HEAD_BYTES;
    look_for_interrupt();
}

void control_watch_now(void)
{
    if (control.watched)
        look_now();
}

bool control_take_pause(void)
{
    if (!control.watched)
        look_now();
    return atomic_exchange(&control.pause, false);
}

/* What it had read when it was forked, the other one has dealt with. */
static void adopt(void)
{
    control.at = control.len = 0;
    control.n_fds = 0;
    atomic_store(&control.pause, false);
    control.state = WIRE_BUSY;
}

control_adopt_fn control_adopter(void)
{
    return control.watched ? NULL : adopt;
}

/* ---- questions ---- */

int control_ask(const char *body, size_t len, struct err *err)
{
    if (control.state != WIRE_BUSY)
        return err_set(err, ERR_CONFLICT, "only a running request can ask");
    if (len > wire_message(WIRE_ASK)->max_bytes)
        return err_set(err, ERR_TOO_LARGE, "a question of %zu bytes", len);
    control.state = WIRE_ASKING;
    control_send(WIRE_ASK, ++control.ask, body, len);
    return 0;
}

void control_withdraw(void)
{
    if (control.state == WIRE_ASKING)
        control.state = WIRE_BUSY;
}

int control_reply(json_t **ret, struct err *err)
{
    struct control_message reply;
    for (;;) {
        int r = take_next(&reply, err);
        if (r == 0) {
            /* Not in recvmsg(), which goes on after a signal. */
            struct pollfd pfd = { .fd = CONTROL_FD, .events = POLLIN };
            if (poll(&pfd, 1, -1) < 0)
                return err_set(err, ERR_CANCELLED, "a signal came before the reply");
            int more = fill(err);
            if (more == 0)
                _exit(0);
            r = more == -ERR_CANCELLED ? 0 : more;
            if (r == 1)
                continue;
        }
        if (r == -ERR_CANCELLED)
            return r;
        if (r < 0) {
            control_send_failed(control.request, err);
            _exit(1);
        }
        if (r == 1) {
            control.state = WIRE_BUSY;
            *ret = reply.body;
            return 0;
        }
    }
}
