/*
 * `riddle-kernel --attached`: the inside of a container.
 *
 * Theory of operation. The first process is a relay, and stays small: it loads nothing, runs no
 * user code and looks into nothing that user code wrote. Its child loads CPython and DuckDB, takes
 * the container's namespaces for its own (jail.h), and is a kernel like any other, with a control
 * socket and two pipes; the relay copies between those and the frames of mux.h on its own standard
 * input and output. User code has the same user id, but the relay cannot be traced or signalled: it
 * is not dumpable, and the first process of a pid namespace takes no signal that it did not ask
 * for.
 *
 * What a kernel wrote to its pipes before a message is sent before it. Files come before the
 * kernel's start, into /data. A directory that is announced as writable is sent back, file by file,
 * before each answer of the kernel.
 *
 * The container ends with the relay: when its input ends (riddle is gone) or when the kernel does.
 */

#include "kernel/attached.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "base/fdio.h"
#include "base/json.h"
#include "base/str.h"
#include "base/version.h"
#include "kernel/kernel.h"
#include "kernel/python/python.h"
#include "kernel/zygote/zygote.h"
#include "sandbox/mux.h"
#include "sandbox/wire.h"

#define CHUNK_BYTES 65536
/* Nothing more is read for a direction that has this much waiting. */
#define QUEUE_BYTES (1u << 20)
/* What a kernel left in its pipes is taken up to this much once it is dead. */
#define LAST_CHUNKS 64
#define LAST_FLUSH_MS 10000

struct relay {
    pid_t kernel;
    int control, out, errout, ready, signals;
    bool busy; /* the kernel's side is read: a run is under way */
    struct mux_reader in;
    struct buf up, down; /* to standard output, to the kernel */
    struct buf frames;   /* of the kernel, while answers are looked for */
    struct {
        int fd;
        int64_t left;
    } received, sent;    /* the file that is coming, the one that is going */
    char back[PATH_MAX]; /* the directory that is sent back; "" for none */
    DIR *listing;        /* of it, while it is being sent */
    bool is_back;        /* it has been sent for the answer that is next */
    char back_target[64];
    int usage_fds[4];
};

static _Noreturn void give_up(const struct err *err)
{
    fprintf(stderr, "riddle-kernel: %s\n", err->message);
    _exit(1);
}

/* ---- the kernel's process ---- */

static _Noreturn void become_kernel(const struct attached_options *opt, const int fds[3], int ready)
{
    struct err err = ERR_INIT;
    static struct jail_template jail;
    struct kernel_parts parts = { .jail = &jail, .pooled = true };
    struct zygote_options load = { .python = opt->python, .preload = opt->preload };
    struct jail_confine_options confine = { .container = true };
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    int r = zygote_load_parts(&load, &parts, &err);
    if (r == 0)
        r = jail_confine(&jail, &confine, &err);
    if (r < 0)
        give_up(&err);
    (void)!write(ready, "", 1);
    close(ready);
    kernel_main(&parts, fds[0], fds[1], fds[2]);
}

static int start_kernel(struct relay *r, const struct attached_options *opt, struct err *err)
{
    int control[2], out[2], errout[2], ready[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, control) < 0 ||
        pipe2(out, O_CLOEXEC) < 0 || pipe2(errout, O_CLOEXEC) < 0 || pipe2(ready, O_CLOEXEC) < 0)
        return err_errno(err, ERR_IO, errno, "making the kernel's pipes");
    auto_json json_t *join = json_pack("{s:i}", "groups", 0);
    int sent = wire_send_json(control[0], WIRE_JOIN, 0, join, NULL, 0, err);
    if (sent < 0)
        return sent;
    r->kernel = fork();
    if (r->kernel < 0)
        return err_errno(err, ERR_IO, errno, "starting the kernel");
    if (r->kernel == 0) {
        int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        if (null < 0 || dup2(null, 0) < 0 || dup2(2, 1) < 0)
            _exit(1);
        prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
        become_kernel(opt, (const int[]){ control[1], out[1], errout[1] }, ready[1]);
    }
    close(control[1]);
    close(out[1]);
    close(errout[1]);
    close(ready[1]);
    r->control = control[0];
    r->out = out[0];
    r->errout = errout[0];
    r->ready = ready[0];
    const int fds[] = { r->control, r->out, r->errout };
    int good = 0;
    for (size_t i = 0; i < ARRAY_SIZE(fds) && good == 0; i++)
        good = fd_set_nonblock(fds[i], true, err);
    return good;
}

/*
 * matplotlib keeps its list of fonts in a directory that it wants to write to: the image's becomes
 * a copy in /tmp.
 */
static void copy_fonts(void)
{
    static const char to[] = "/tmp/.matplotlib";
    struct err err = ERR_INIT;
    const char *from = getenv("MPLCONFIGDIR");
    DIR *dir = from ? opendir(from) : NULL;
    if (!dir || fd_mkdir_p(to, 0755, &err) < 0) {
        if (dir)
            closedir(dir);
        return;
    }
    struct dirent *e;
    while ((e = readdir(dir))) {
        char path[PATH_MAX];
        auto_buf struct buf text = BUF_INIT(4u << 20);
        snprintf(path, sizeof(path), "%s/%s", from, e->d_name);
        if (e->d_name[0] == '.' || fd_read_file(path, &text, &err) < 0)
            continue;
        snprintf(path, sizeof(path), "%s/%s", to, e->d_name);
        (void)fd_write_file(path, buf_cstr(&text), &err);
    }
    closedir(dir);
    setenv("MPLCONFIGDIR", to, 1);
}

/* ---- what the container has used ---- */

static const struct {
    const char *v1, *v2;
    const char *v1_key, *v2_key; /* NULL: the file is one number */
    int v1_divisor;
} figures[4] = {
    { "cpuacct/cpuacct.usage", "cpu.stat", NULL, "usage_usec ", 1000 },
    { "memory/memory.max_usage_in_bytes", "memory.peak", NULL, NULL, 1 },
    { "memory/memory.oom_control", "memory.events", "oom_kill ", "oom_kill ", 1 },
    { "pids/pids.events", "pids.events", "max ", "max ", 1 },
};

static bool is_v1(void)
{
    return access("/sys/fs/cgroup/cgroup.controllers", F_OK) < 0;
}

static void open_usage(struct relay *r)
{
    for (size_t i = 0; i < ARRAY_SIZE(figures); i++) {
        char path[128];
        snprintf(path, sizeof(path), "/sys/fs/cgroup/%s", is_v1() ? figures[i].v1 : figures[i].v2);
        r->usage_fds[i] = open(path, O_RDONLY | O_CLOEXEC);
    }
}

static int64_t read_figure(const struct relay *r, size_t i, bool v1)
{
    char text[512];
    ssize_t n = r->usage_fds[i] < 0 ? -1 : pread(r->usage_fds[i], text, sizeof(text) - 1, 0);
    if (n <= 0)
        return -1;
    text[n] = 0;
    const char *key = v1 ? figures[i].v1_key : figures[i].v2_key, *at = text;
    if (key) {
        /* At the start of a line: oom_kill is the end of other names as well. */
        for (at = strstr(text, key); at && at != text && at[-1] != '\n'; at = strstr(at + 1, key))
            ;
        if (!at)
            return -1;
        at += strlen(key);
    }
    return strtoll(at, NULL, 10) / (v1 ? figures[i].v1_divisor : 1);
}

static int send_usage(struct relay *r, struct err *err)
{
    bool v1 = is_v1();
    struct mux_usage u = { read_figure(r, 0, v1), read_figure(r, 1, v1), read_figure(r, 2, v1),
                           read_figure(r, 3, v1) };
    return mux_append(&r->up, MUX_USAGE, &u, sizeof(u), err);
}

/* ---- from riddle ---- */

static int begin_file(struct relay *r, const struct mux_frame *f, struct err *err)
{
    auto_json json_t *head = NULL;
    char path[PATH_MAX];
    long long size = 0;
    bool writable = false;
    const char *target = NULL;
    int code = json_parse(f->data, f->len, &head, err);
    if (code == 0)
        code = json_get_str(head, "target", NULL, &target, err);
    if (code == 0)
        code = json_get_bool(head, "writable", false, &writable, err);
    if (code == 0)
        code = json_get_i64(head, "size", 0, 0, INT64_MAX, &size, err);
    if (code == 0)
        code = mux_path(target, writable, path, sizeof(path), err);
    if (code < 0)
        return code;
    if (r->received.left)
        return err_set(err, ERR_PROTOCOL, "a file before the end of another");
    if (writable) {
        snprintf(r->back, sizeof(r->back), "%s", path);
        snprintf(r->back_target, sizeof(r->back_target), "%s", target);
        return fd_mkdir_p(path, 0700, err);
    }
    char *slash = strrchr(path, '/');
    *slash = 0;
    code = fd_mkdir_p(path, 0755, err);
    *slash = '/';
    if (code < 0)
        return code;
    if (r->received.fd >= 0)
        close(r->received.fd);
    r->received.fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
    r->received.left = size;
    return r->received.fd < 0 ? err_errno(err, ERR_IO, errno, "creating '%s'", path) : 0;
}

static int take_data(struct relay *r, const struct mux_frame *f, struct err *err)
{
    if ((int64_t)f->len > r->received.left)
        return err_set(err, ERR_PROTOCOL, "more of a file than was announced");
    r->received.left -= (int64_t)f->len;
    int code = fd_write_all(r->received.fd, f->data, f->len, err);
    return code < 0 ? err_wrap(err, "writing a data file into the container") : 0;
}

static int take_frame(struct relay *r, const struct mux_frame *f, struct err *err)
{
    switch (f->type) {
    case MUX_CONTROL:
        return buf_append(&r->down, f->data, f->len, err);
    case MUX_FILE:
        return begin_file(r, f, err);
    case MUX_DATA:
        return take_data(r, f, err);
    case MUX_INTERRUPT:
        kill(r->kernel, SIGINT);
        return 0;
    case MUX_BUSY:
        r->busy = f->len == 1 && f->data[0];
        return 0;
    default:
        return err_set(err, ERR_PROTOCOL, "frame %d is not permitted", (int)f->type);
    }
}

/* UNAVAILABLE at the end of input. */
static int read_input(struct relay *r, struct err *err)
{
    static char chunk[CHUNK_BYTES];
    ssize_t n = read(0, chunk, sizeof(chunk));
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ?
                   0 :
                   err_errno(err, ERR_UNAVAILABLE, errno, "reading");
    if (n == 0)
        return err_set(err, ERR_UNAVAILABLE, "riddle is gone");
    int code = mux_reader_feed(&r->in, chunk, (size_t)n, err);
    struct mux_frame f;
    while (code == 0 && (code = mux_reader_next(&r->in, &f, err)) == 1)
        code = take_frame(r, &f, err);
    return code;
}

/* ---- from the kernel ---- */

/* 1: bytes came. */
static int copy_output(struct relay *r, int *fd, enum mux_type type, struct err *err)
{
    static char chunk[CHUNK_BYTES];
    ssize_t n = *fd < 0 ? -1 : read(*fd, chunk, sizeof(chunk));
    if (n > 0) {
        int code = mux_append(&r->up, type, chunk, (size_t)n, err);
        return code < 0 ? code : 1;
    }
    if (n == 0) {
        close(*fd);
        *fd = -1;
    }
    return 0;
}

/* What the kernel wrote so far, as far as there is room. */
static int copy_outputs(struct relay *r, struct err *err)
{
    int code = 1;
    while (code == 1 && r->up.len < QUEUE_BYTES)
        code = copy_output(r, &r->out, MUX_STDOUT, err);
    if (code < 0)
        return code;
    code = 1;
    while (code == 1 && r->up.len < QUEUE_BYTES)
        code = copy_output(r, &r->errout, MUX_STDERR, err);
    return code < 0 ? code : 0;
}

static bool is_answer(enum wire_type type)
{
    return wire_message(type)->kind == WIRE_ANSWER && type != WIRE_READY && type != WIRE_FAILED;
}

/*
 * With a directory to send back, messages are passed on one by one; an answer waits until the
 * directory has been sent.
 */
static int pass_frames(struct relay *r, struct err *err)
{
    while (r->frames.len >= WIRE_HEAD_BYTES && !r->listing) {
        struct wire_head head;
        if (!wire_head_read((const unsigned char *)r->frames.data, WIRE_TO_RIDDLE, &head))
            return err_set(err, ERR_PROTOCOL, "the kernel sent something that is no message");
        size_t len = WIRE_HEAD_BYTES + (size_t)head.len;
        if (r->frames.len < len)
            return 0;
        if (!r->is_back && is_answer(head.type)) {
            r->is_back = true;
            r->listing = opendir(r->back);
            if (r->listing)
                return 0;
        }
        r->is_back = false;
        int code = mux_append(&r->up, MUX_CONTROL, r->frames.data, len, err);
        if (code < 0)
            return code;
        buf_consume(&r->frames, len);
    }
    return 0;
}

/* The next piece of the directory that is sent back. */
static int send_back(struct relay *r, struct err *err)
{
    static char chunk[CHUNK_BYTES];
    if (r->sent.fd >= 0) {
        ssize_t n = read(r->sent.fd, chunk, MIN_OF((int64_t)sizeof(chunk), r->sent.left));
        if (n < 0)
            return err_errno(err, ERR_IO, errno, "reading a file to send it back");
        if (n == 0 && r->sent.left)
            return err_set(err, ERR_IO, "a file became shorter while it was sent back");
        r->sent.left -= n;
        int code = mux_append(&r->up, MUX_DATA, chunk, (size_t)n, err);
        if (r->sent.left == 0)
            close(TAKE_FD(r->sent.fd));
        return code;
    }
    struct dirent *e = readdir(r->listing);
    if (!e) {
        closedir(TAKE_PTR(r->listing));
        return pass_frames(r, err);
    }
    struct stat st;
    int fd = openat(dirfd(r->listing), e->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        if (fd >= 0)
            close(fd);
        return 0;
    }
    char target[NAME_MAX + 80];
    snprintf(target, sizeof(target), "%s/%s", r->back_target, e->d_name);
    auto_json json_t *head = json_pack("{s:s, s:I}", "target", target, "size",
                                       (json_int_t)st.st_size);
    auto_free char *text = json_to_str(head);
    if (!text) {
        close(fd);
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    }
    if (st.st_size == 0)
        close(fd);
    else
        r->sent.fd = fd, r->sent.left = st.st_size;
    return mux_append(&r->up, MUX_FILE, text, strlen(text), err);
}

static int read_control(struct relay *r, struct err *err)
{
    static char chunk[CHUNK_BYTES];
    ssize_t n = read(r->control, chunk, sizeof(chunk));
    if (n <= 0) {
        if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
            /* Its end is told by SIGCHLD. */
            close(TAKE_FD(r->control));
        }
        return 0;
    }
    int code = copy_outputs(r, err);
    if (code == 0)
        code = send_usage(r, err);
    if (code < 0)
        return code;
    if (!*r->back)
        return mux_append(&r->up, MUX_CONTROL, chunk, (size_t)n, err);
    code = buf_append(&r->frames, chunk, (size_t)n, err);
    return code < 0 ? code : pass_frames(r, err);
}

/* ---- the loop ---- */

static int flush(int fd, struct buf *b, struct err *err)
{
    while (b->len) {
        ssize_t n = write(fd, b->data, b->len);
        if (n < 0)
            return errno == EAGAIN || errno == EINTR ?
                       0 :
                       err_errno(err, ERR_UNAVAILABLE, errno, "writing");
        buf_consume(b, (size_t)n);
    }
    return 0;
}

/*
 * Reaps whatever has ended: also what user code left behind. True and its status when the kernel is
 * among it.
 */
static bool reap(struct relay *r, int *ret_status)
{
    struct signalfd_siginfo info;
    bool ended = false;
    (void)!read(r->signals, &info, sizeof(info));
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        if (pid == r->kernel) {
            *ret_status = status;
            ended = true;
        }
    return ended;
}

/* What the kernel left behind, then how it ended. */
static int say_end(struct relay *r, int status, struct err *err)
{
    int code = 0;
    for (int i = 0; i < LAST_CHUNKS && code == 0 && r->control >= 0; i++)
        code = read_control(r, err); /* why it could not start, for one */
    for (int i = 0; i < LAST_CHUNKS && code == 0; i++) {
        int out = copy_output(r, &r->out, MUX_STDOUT, err),
            errout = copy_output(r, &r->errout, MUX_STDERR, err);
        code = MIN_OF(out, errout) < 0 ? -ERR_NO_MEMORY : 0;
        if (out <= 0 && errout <= 0)
            break;
    }
    char text[64];
    int len = snprintf(text, sizeof(text), "{\"code\":%d,\"signal\":%d}",
                       WIFEXITED(status) ? WEXITSTATUS(status) : -1,
                       WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    if (code == 0)
        code = send_usage(r, err);
    if (code == 0)
        code = mux_append(&r->up, MUX_EXIT, text, (size_t)len, err);
    while (code == 0 && r->up.len) {
        struct pollfd pfd = { .fd = 1, .events = POLLOUT };
        if (poll(&pfd, 1, LAST_FLUSH_MS) <= 0)
            break;
        code = flush(1, &r->up, err);
    }
    return code;
}

static int say_ready(struct relay *r, struct err *err)
{
    char byte, text[128];
    ssize_t n = read(r->ready, &byte, 1);
    close(TAKE_FD(r->ready));
    if (n != 1)
        return 0; /* it died; SIGCHLD tells */
    int len = snprintf(text, sizeof(text), "{\"mux\":%d,\"version\":\"%s\"}", MUX_VERSION,
                       RIDDLE_VERSION);
    return mux_append(&r->up, MUX_READY, text, (size_t)len, err);
}

static int serve(struct relay *r, struct err *err)
{
    int code = 0, status;
    while (code == 0) {
        const bool room = r->up.len < QUEUE_BYTES && !r->listing;
        const bool listens = room && r->busy;
        struct pollfd fds[] = {
            { .fd = r->down.len < QUEUE_BYTES ? 0 : -1, .events = POLLIN },
            { .fd = r->up.len ? 1 : -1, .events = POLLOUT },
            { .fd = r->signals, .events = POLLIN },
            { .fd = r->ready, .events = POLLIN },
            { .fd = listens ? r->out : -1, .events = POLLIN },
            { .fd = listens ? r->errout : -1, .events = POLLIN },
            { .fd = r->control,
              .events = (short)((listens ? POLLIN : 0) | (r->down.len ? POLLOUT : 0)) },
        };
        const bool sends_back = r->listing && r->up.len < QUEUE_BYTES;
        if (!fds[6].events)
            fds[6].fd = -1; /* or its hang-up would be reported again and again */
        if (poll(fds, ARRAY_SIZE(fds), sends_back ? 0 : -1) < 0 && errno != EINTR)
            return err_errno(err, ERR_IO, errno, "polling");
        if (fds[0].revents)
            code = read_input(r, err);
        if (code == 0 && fds[3].revents)
            code = say_ready(r, err);
        if (code == 0 && r->down.len && r->control >= 0) {
            struct err gone = ERR_INIT;
            if (flush(r->control, &r->down, &gone) < 0)
                buf_clear(&r->down);
        }
        if (code == 0 && fds[4].revents)
            code = MIN_OF(copy_output(r, &r->out, MUX_STDOUT, err), 0);
        if (code == 0 && fds[5].revents)
            code = MIN_OF(copy_output(r, &r->errout, MUX_STDERR, err), 0);
        if (code == 0 && listens && r->control >= 0 && (fds[6].revents & (POLLIN | POLLHUP)))
            code = read_control(r, err);
        if (code == 0 && sends_back && r->listing)
            code = send_back(r, err);
        if (code == 0 && r->up.len)
            code = flush(1, &r->up, err);
        if (code == 0 && fds[2].revents && reap(r, &status))
            return say_end(r, status, err);
    }
    return code;
}

int attached_run(const struct attached_options *opt)
{
    static struct relay r = { .received = { .fd = -1 }, .sent = { .fd = -1 } };
    struct err err = ERR_INIT;
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, NULL);
    signal(SIGPIPE, SIG_IGN);
    /* Whoever has the same user id could else reach this process's descriptors through /proc. */
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    r.signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    mux_reader_init(&r.in);
    buf_init(&r.up, 4 * QUEUE_BYTES + WIRE_EVENT_MAX);
    buf_init(&r.down, 4 * QUEUE_BYTES);
    buf_init(&r.frames, WIRE_HEAD_BYTES + WIRE_EVENT_MAX + CHUNK_BYTES);
    open_usage(&r);
    copy_fonts();
    int code = r.signals < 0 ? err_errno(&err, ERR_IO, errno, "watching children") : 0;
    if (code == 0)
        code = fd_set_nonblock(0, true, &err);
    if (code == 0)
        code = fd_set_nonblock(1, true, &err);
    if (code == 0)
        code = start_kernel(&r, opt, &err);
    if (code == 0)
        code = serve(&r, &err);
    if (code < 0)
        fprintf(stderr, "riddle-kernel: %s\n", err.message);
    return code < 0;
}
