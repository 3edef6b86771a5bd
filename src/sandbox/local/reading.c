/*
 * Reading from a kernel: its control socket, stdout and stderr. Whatever it sends, the loop has
 * time for others: bytes of a turn are bounded, and a kernel that takes much of the loop's time
 * rests.
 */

#include <errno.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "base/macros.h"
#include "sandbox/local/local_impl.h"

/*
 * What one descriptor may take of one turn of the loop: bytes, and processor time until the next
 * piece is read. A kernel that has used up the time is not read for four times as long; all that
 * flood have a fourth of the loop's time together.
 */
#define READ_MAX_BYTES (256 << 10)
#define PIECE_BYTES (16 << 10)
#define TURN_US 150
#define REST_FACTOR 4
#define REST_MAX_MS 50

static int64_t thread_cpu_us(void)
{
    struct timespec t = { 0 };
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void deliver(struct local_link *l, int end, const char *bytes, size_t len)
{
    if (!l->base.events)
        return;
    if (end == END_CONTROL)
        l->base.events->control(l->base.arg, bytes, len);
    else
        l->base.events->output(l->base.arg, end == END_ERR, bytes, len);
}

static int fd_at(const struct local_link *l, int end)
{
    return end == END_CONTROL ? l->kernel.control :
           end == END_OUT     ? l->kernel.out :
                                l->kernel.errout;
}

static void on_readable(uv_poll_t *h, int status, int events);

/* libuv makes system calls for each start and each stop, also where nothing changes. */
static void poll_for(struct local_link *l, int end, int events)
{
    if (l->polled[end] == events)
        return;
    l->polled[end] = events;
    if (events)
        uv_poll_start(&l->polls[end], events, on_readable);
    else
        uv_poll_stop(&l->polls[end]);
}

void local_poll_stop(struct local_link *l, int end)
{
    poll_for(l, end, 0);
}

static void end_of_file(struct local_link *l, int end)
{
    local_poll_stop(l, end);
    l->ended[end] = true;
    /*
     * Without its control socket a kernel cannot answer any more; if it is not dead already, it is
     * now.
     */
    if (end == END_CONTROL)
        local_signal(l, SIGKILL);
}

/* Takes what is there, up to a bound. True if there may be more. */
bool local_read_end(struct local_link *l, int end)
{
    char chunk[PIECE_BYTES];
    int64_t begun_us = 0;
    for (size_t got = 0; got < READ_MAX_BYTES;) {
        if (got && thread_cpu_us() - begun_us >= TURN_US)
            return true;
        if (l->ended[end] || !l->base.events || (end == END_CONTROL && l->control_paused))
            return false;
        /* descriptors that a kernel attaches are discarded */
        ssize_t n = read(fd_at(l, end), chunk, sizeof(chunk));
        if (n > 0) {
            if (!got)
                begun_us = thread_cpu_us();
            got += (size_t)n;
            deliver(l, end, chunk, (size_t)n);
            if ((size_t)n < sizeof(chunk) && end == END_CONTROL)
                return true;
        } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
            end_of_file(l, end);
        } else if (errno == EAGAIN) {
            return false;
        }
    }
    return true;
}

void local_drain(struct kernel_link *link)
{
    (void)local_read_end(of(link), END_OUT);
    (void)local_read_end(of(link), END_ERR);
}

void local_poll_control(struct local_link *l)
{
    bool writes = l->unsent.len > 0 && !l->unsealing; /* nothing comes before the start */
    int events = (l->control_paused ? 0 : UV_READABLE) | (writes ? UV_WRITABLE : 0);
    if (l->ended[END_CONTROL] || !l->busy)
        return;
    poll_for(l, END_CONTROL, l->resting ? 0 : events);
}

/* 0, or UNAVAILABLE when nobody is there to take it. */
static int flush(struct local_link *l, struct err *err)
{
    while (l->unsent.len > 0) {
        ssize_t n = send(l->kernel.control, l->unsent.data, l->unsent.len,
                         MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n > 0)
            buf_consume(&l->unsent, (size_t)n);
        else if (n < 0 && errno != EINTR)
            return errno == EAGAIN ?
                       0 :
                       err_errno(err, ERR_UNAVAILABLE, errno, "sending a request to the kernel");
    }
    return 0;
}

void local_end_rest(struct local_link *l)
{
    if (l->resting)
        provider_of(l)->n_resting--;
    l->resting = false;
    uv_timer_stop(&l->rest);
}

void local_poll_output(struct local_link *l)
{
    for (int end = END_OUT; end <= END_ERR; end++) {
        if (!l->ended[end])
            poll_for(l, end, l->busy && !l->resting ? UV_READABLE : 0);
    }
}

static void on_rested(uv_timer_t *h)
{
    struct local_link *l = h->data;
    local_end_rest(l);
    if (l->base.dead)
        return;
    local_poll_control(l);
    local_poll_output(l);
}

static void begin_rest(struct local_link *l, int64_t took_us)
{
    if (l->resting || l->base.dead || l->released)
        return;
    l->resting = true;
    int64_t us = took_us * REST_FACTOR * ++provider_of(l)->n_resting;
    uv_timer_start(&l->rest, on_rested, (uint64_t)MIN_OF((us + 999) / 1000, REST_MAX_MS), 0);
    local_poll_control(l);
    local_poll_output(l);
}

static void read_from(struct local_link *l, int end, int events)
{
    if (end == END_CONTROL && (events & UV_WRITABLE) && !l->ended[end]) {
        struct err ignored = ERR_INIT; /* the kernel's end is noticed by its pidfd */
        (void)flush(l, &ignored);
        if (l->unsent.len == 0)
            local_poll_control(l);
    }
    /* What was printed before an answer is shown before it. */
    if (end == END_CONTROL)
        local_drain(&l->base);
    if (!(events & UV_WRITABLE) || (events & UV_READABLE))
        (void)local_read_end(l, end);
}

static void on_readable(uv_poll_t *h, int status, int events)
{
    struct local_link *l = h->data;
    int end = (int)(h - l->polls);
    if (status < 0) /* libuv has stopped it; a broken descriptor shows when it is read */
        l->polled[end] = 0;
    if (!l->busy) {
        local_poll_stop(l, end);
        return;
    }
    int64_t begun_us = thread_cpu_us();
    read_from(l, end, events);
    int64_t took_us = thread_cpu_us() - begun_us;
    if (took_us >= TURN_US)
        begin_rest(l, took_us);
}
