#ifndef RIDDLE_DAP_DAP_IMPL_H
#define RIDDLE_DAP_DAP_IMPL_H

/* What the files of src/dap share. */

#include <uv.h>
#include "base/arena.h"
#include "base/buf.h"
#include "dap/dap.h"
#include "dap/values.h"
#include "net/websocket.h"

#define DAP_THREAD 1 /* the one that is traced */
#define DAP_SOURCE 1 /* the reference of code that has no path */
#define DAP_STEPS_MAX 10000

/* An offer in memory. */
struct offer {
    struct offer *next;
    struct arena arena;
    char token[DAP_TOKEN_SIZE];
    int64_t expires_ms;
    const char *owner, *sandbox_id, *path;
    struct chat_code code;
    json_t *context;
    bool stop_on_entry;
};

void offer_free(struct offer *o); /* NULL is fine */

struct dap {
    struct loop *loop;
    struct agent *agent;
    char host[256];
    int port;
    uv_tcp_t listener;
    bool is_listening;
    struct offer *offers;
    struct session *sessions;
    size_t n_sessions;
};

/*
 * The offer with this token, which is the caller's from now on; NULL: none, or it has expired, or
 * is of another owner or sandbox (NULL: of any).
 */
struct offer *dap_take_offer(struct dap *d, const char *token, const char *owner,
                             const char *sandbox_id);

/*
 *                 attach               first pause           configurationDone
 *   SESSION_OPEN ───────► STARTING ───────────► CONFIGURING ───────────► RUNNING ◄──► PAUSED
 *                            │ the execution ends                           │           │
 *                            └──────────────► SESSION_OVER ◄────────────────┴───────────┘
 *
 * An execution is started with a pause before its first line, so that the kernel itself can say
 * which breakpoints are at a line with code. The client hears of that pause only if it asked for
 * it.
 */
enum session_state {
    SESSION_OPEN,
    SESSION_STARTING,
    SESSION_CONFIGURING,
    SESSION_RUNNING,
    SESSION_PAUSED,
    SESSION_OVER,
    _SESSION_STATE_MAX
};

struct session;
/* What a command of the debugger was answered. */
typedef void (*told_fn)(struct session *s, const json_t *value, const struct err *err);

struct session {
    struct dap *dap;
    struct session *next, *prev;
    uv_tcp_t tcp;
    struct loop_timer *timer; /* until it has attached */
    struct buf in;
    bool is_websocket;
    struct ws_reader websocket;
    char *owner, *sandbox_id; /* whose offers it may take; NULL: those of its token */
    size_t queued_bytes;      /* that the client has not read */
    bool is_closing, is_closed;
    bool is_ending; /* it is closed when all is written */
    int64_t seq;

    enum session_state state;
    json_t *waiting; /* requests that wait for the one that is worked on */
    json_t *request; /* that one; NULL: none */
    told_fn told;    /* what happens with the debugger's answer; NULL: none is expected */

    struct offer *offer; /* NULL until it has attached */
    bool is_launched;    /* by `launch`: the execution ends with its client */
    bool is_opening;     /* the sandbox is being opened */
    bool is_awaiting;    /* an execution that somebody else starts */
    bool is_anothers;    /* … and that is what it debugs */
    struct chat *chat;
    struct turn *turn;
    char *debug_id;
    json_t *pause; /* of the debugger; NULL while it runs */
    bool is_going_back;
    const char *went_back_to; /* the reason that is told then */
    json_t *breakpoints;      /* as the debugger takes them */
    const char *exceptions;
    struct dap_values values;
    struct {
        int64_t step;
        int line;
    } * steps; /* that were told; DAP_STEPS_MAX at most, the oldest first */
    size_t n_steps;
};

/* ---- session.c ---- */

void session_start(struct dap *d); /* a client has connected */
void session_end(struct session *s);
/* Starts what session->offer describes. The answer to the request comes when it is paused. */
int session_execute(struct session *s, struct err *err);
/* Sends an event; body is taken. */
void session_event(struct session *s, const char *event, json_t *body);
/* Answers the request that is worked on; body is taken and may be NULL. */
void session_answer(struct session *s, json_t *body);
void session_fail(struct session *s, const struct err *err);
void session_refuse(struct session *s, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Closes the connection when all is written. */
void session_finish(struct session *s);
void session_stopped(struct session *s, const char *reason); /* tells of the pause */
/* A command for the debugger, which is taken; told comes once, now or later. */
void session_ask(struct session *s, json_t *command, told_fn told);

/* ---- requests.c ---- */

/* Works on s->request. It is answered now or later. */
void request_begin(struct session *s);
bool request_is_urgent(const json_t *request); /* does not wait for others */
/* of its code, as the client knows it; or NULL */
const char *session_path(const struct session *s);

#endif
