/*
 * GET /doctor: what `riddle doctor` finds on the machine of a running server. Its probes block and
 * make processes, so a child does them, at most once in a while; whoever asks meanwhile waits for
 * the same one.
 */

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "api/app.h"
#include "base/clock.h"
#include "base/fdio.h"
#include "base/str.h"

#define KEPT_MS 60000
#define DOCTOR_MS 60000
#define REPORT_MAX_BYTES (1u << 20)

struct asker {
    struct asker *next;
    struct http_request *req; /* NULL: the client left */
};

struct doctor {
    struct app *app; /* NULL: it is gone */
    struct asker *askers;
    bool running;
    json_t *report; /* the last one; NULL: none yet */
    int64_t made_ms;
    struct buf text; /* of the child; the worker's while it runs */
};

/* ---- the child ---- */

static pid_t start(int *ret_fd)
{
    char program[] = "/proc/self/exe", name[] = "riddle", verb[] = "doctor", json[] = "--json";
    char *args[] = { name, verb, json, NULL };
    posix_spawn_file_actions_t actions;
    int fds[2];
    pid_t pid = -1;
    if (pipe2(fds, O_CLOEXEC) < 0)
        return -1;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, fds[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    if (posix_spawn(&pid, program, &actions, NULL, args, environ) != 0)
        pid = -1;
    posix_spawn_file_actions_destroy(&actions);
    close(fds[1]);
    *ret_fd = fds[0];
    if (pid < 0)
        close(fds[0]);
    return pid;
}

static void run_child(void *arg)
{
    struct doctor *d = arg;
    int64_t until = clock_now_ms() + DOCTOR_MS;
    int fd;
    char piece[4096];
    pid_t pid = start(&fd);
    if (pid < 0)
        return;
    for (;;) {
        struct pollfd pfd = { .fd = fd, .events = POLLIN };
        int64_t left = until - clock_now_ms();
        int n = poll(&pfd, 1, left > 0 ? (int)left : 0);
        if (n < 0 && errno == EINTR)
            continue;
        ssize_t got = n > 0 ? read(fd, piece, sizeof(piece)) : -1;
        if (got <= 0 || buf_append(&d->text, piece, (size_t)got, NULL) < 0)
            break;
    }
    close(fd);
    kill(pid, SIGKILL); /* it has said all, or too much, or takes too long */
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

/* ---- the answer ---- */

/* What passed needs no words, and its details name paths of this host. */
static json_t *report_of(const struct buf *text)
{
    auto_json json_t *all = NULL;
    json_t *checks = json_array(), *check;
    size_t i;
    if (json_parse(text->data ? text->data : "", text->len, &all, NULL) < 0) {
        json_decref(checks);
        return NULL;
    }
    json_array_foreach(json_object_get(all, "checks"), i, check) {
        bool good = str_eq(json_string_value(json_object_get(check, "status")), "pass");
        json_array_append_new(checks, json_pack("{s:O?, s:O?, s:O*, s:O*}", "name",
                                                json_object_get(check, "name"), "status",
                                                json_object_get(check, "status"), "detail",
                                                good ? NULL : json_object_get(check, "detail"),
                                                "remedy", json_object_get(check, "remedy")));
    }
    return json_pack("{s:O?, s:O?, s:o}", "status", json_object_get(all, "status"), "version",
                     json_object_get(all, "version"), "checks", checks);
}

static void answer(struct doctor *d, struct http_request *req)
{
    if (d->report)
        http_reply_json(req, 200, json_incref(d->report));
    else
        http_reply_fail(req, ERR_UNAVAILABLE,
                        "the checks did not end; run 'riddle doctor' on the server's machine");
}

static void destroy(struct doctor *d)
{
    json_decref(d->report);
    buf_finish(&d->text);
    free(d);
}

static void child_ended(void *arg)
{
    struct doctor *d = arg;
    d->running = false;
    json_decref(d->report);
    d->report = report_of(&d->text);
    d->made_ms = clock_now_ms();
    buf_clear(&d->text);
    while (d->askers) {
        struct asker *a = d->askers;
        d->askers = a->next;
        if (a->req)
            answer(d, a->req);
        free(a);
    }
    if (!d->app)
        destroy(d);
}

static void get_doctor(struct http_request *req)
{
    struct app *app = app_of(req);
    struct doctor *d = app->doctor;
    struct err err = ERR_INIT;
    if (!d->running && d->report && clock_now_ms() - d->made_ms < KEPT_MS) {
        answer(d, req);
        return;
    }
    struct asker *a = calloc(1, sizeof(*a));
    int r = a ? 0 : err_set(&err, ERR_NO_MEMORY, "out of memory");
    if (r == 0 && !d->running) {
        r = loop_work(app->loop, run_child, child_ended, d, &err);
        d->running = r == 0;
    }
    if (r < 0) {
        free(a);
        http_reply_error(req, &err);
        return;
    }
    *a = (struct asker){ .next = d->askers, .req = req };
    d->askers = a;
    http_hold(req, &a->req);
}

int doctor_open(struct app *app, struct err *err)
{
    app->doctor = calloc(1, sizeof(*app->doctor));
    if (!app->doctor)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    app->doctor->app = app;
    buf_init(&app->doctor->text, REPORT_MAX_BYTES);
    return 0;
}

void doctor_close(struct app *app)
{
    struct doctor *d = TAKE_PTR(app->doctor);
    if (!d)
        return;
    d->app = NULL;
    if (!d->running)
        destroy(d);
}

static const struct route_response responses[] = {
    { 200, NULL,
      "{status, version, checks: [{name, status: pass|caution|fail, detail?, remedy?}]}, at most a "
      "minute old." },
    { 503, NULL, "The checks did not end." },
    { .status = 0 }
};

static const struct route routes[] = {
    { HTTP_GET, "/doctor", get_doctor, .id = "doctor", .tag = "server",
      .summary = "What is checked of the machine: namespaces, limits, packages, disk",
      .responses = responses },
};

const struct route_table doctor_routes = { routes, ARRAY_SIZE(routes) };
