/*
 * Executions that are stepped through. The kernel sends its steps as events; in a pause it asks
 * for a command, and the reply is what a client posts. Nothing waits here: a pause is a question
 * that has not been answered yet.
 *
 * Breakpoints can be changed while the code runs: it is paused, told, and continued, without a word
 * to the client.
 */

#include <stdint.h>
#include <string.h>
#include "agent/agent_impl.h"
#include "base/str.h"

struct turn_debug {
    bool is_paused;    /* the kernel waits for a command … */
    uint32_t ask;      /* … as the reply to this question */
    json_t *pause;     /* what it said when it paused */
    bool is_answering; /* it works on a command whose answer somebody waits for */
    bool is_quiet;     /* it was paused for a command only: it goes on behind it */
    json_t *waiting;   /* that command, until it is paused */
    bool wants_pause;  /* and nothing has come of it yet */
    debug_fn done;     /* who waits; NULL: nobody */
    void *arg;
};

static void forget_waiter(struct turn_debug *d)
{
    d->done = NULL;
    d->arg = NULL;
}

static void answer_waiter(struct turn_debug *d, const json_t *value, const struct err *err)
{
    debug_fn done = d->done;
    void *arg = d->arg;
    forget_waiter(d);
    d->is_answering = false;
    if (done)
        done(arg, value, err);
}

int debug_begin(struct turn *t, struct err *err)
{
    t->debug = calloc(1, sizeof(*t->debug));
    if (!t->debug)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    turn_say(t, "status",
             json_pack("{s:s, s:s, s:s}", "stage", "debugging", "text", "Stepping through the code",
                       "debug_id", t->run_id));
    return 0;
}

void debug_end(struct turn *t)
{
    struct turn_debug *d = TAKE_PTR(t->debug);
    struct err err = ERR_INIT;
    if (!d)
        return;
    err_set(&err, ERR_UNAVAILABLE, "the execution has ended");
    answer_waiter(d, NULL, &err);
    json_decref(d->pause);
    json_decref(d->waiting);
    free(d);
}

void debug_steps(void *turn, json_t *steps)
{
    struct turn *t = turn;
    json_t *step;
    size_t i;
    json_array_foreach(steps, i, step)
        turn_say(t, "step", json_incref(step));
    /* It may have been asked for before the code began. */
    if (t->debug->wants_pause)
        thread_kernel_pause(t->chat->kernel);
}

/* ---- pauses ---- */

static void reply(struct turn *t, const json_t *command)
{
    t->debug->is_paused = false;
    thread_kernel_reply(t->chat->kernel, t->debug->ask, command);
}

static void go_on(struct turn *t, const json_t *command, bool is_told)
{
    json_decref(TAKE_PTR(t->debug->pause));
    reply(t, command);
    if (is_told)
        turn_say(t, "status",
                 json_pack("{s:s, s:s, s:s}", "stage", "running", "text", "Running", "debug_id",
                           t->run_id));
}

static void tell_pause(struct turn *t)
{
    json_t *told = json_copy(t->debug->pause);
    json_object_del(told, "event");
    json_object_set_new(told, "stage", json_string("paused"));
    json_object_set_new(told, "text", json_string("Paused"));
    json_object_set_new(told, "debug_id", json_string(t->run_id));
    turn_say(t, "status", told);
}

/* The kernel has done what it was told and waits again. */
static void take_answer(struct turn *t, const json_t *args)
{
    struct turn_debug *d = t->debug;
    const char *error = json_string_value(json_object_get(args, "error"));
    struct err why = ERR_INIT;
    if (error)
        err_set(&why, ERR_VALIDATION, "%s", error);
    if (d->is_quiet) {
        auto_json json_t *on = json_pack("{s:s}", "command", "continue");
        d->is_quiet = false;
        go_on(t, on, false);
    }
    answer_waiter(d, json_object_get(args, "value"), error ? &why : NULL);
}

static json_t *state_of(const struct turn *t)
{
    const struct turn_debug *d = t->debug;
    bool paused = d && d->pause && !d->waiting;
    json_t *o = json_pack("{s:s, s:s}", "debug_id", t->run_id, "status",
                          !d     ? "waiting" :
                          paused ? "paused" :
                                   "running");
    if (paused)
        json_object_update_missing(o, d->pause);
    json_object_del(o, "event");
    return o;
}

bool debug_ask(void *turn, uint32_t id, const char *what, const json_t *args)
{
    struct turn *t = turn;
    struct turn_debug *d = t->debug;
    if (!d || !str_eq(what, "debug"))
        return false;
    d->ask = id;
    d->is_paused = true;
    d->wants_pause = false;
    bool is_pause = str_eq(json_string_value(json_object_get(args, "event")), "paused");
    if (d->is_answering && !is_pause) {
        take_answer(t, args);
        return true;
    }
    d->is_quiet = false;
    json_decref(d->pause);
    d->pause = json_deep_copy(args);
    auto_json json_t *waiting = TAKE_PTR(d->waiting);
    if (waiting) {
        d->is_quiet = str_eq(json_string_value(json_object_get(args, "reason")), "pause");
        d->is_answering = true;
        if (!d->is_quiet)
            tell_pause(t);
        reply(t, waiting);
    } else {
        tell_pause(t);
        if (d->is_answering) { /* it has gone back */
            auto_json json_t *state = state_of(t);
            answer_waiter(d, state, NULL);
        }
    }
    return true;
}

/* ---- commands ---- */

static bool is_one_of(const char *word, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (str_eq(word, list[i]))
            return true;
    return false;
}

static struct turn *find_turn(const struct chat *c, const char *debug_id)
{
    for (struct turn *t = c->turns; t; t = t->next)
        if (str_eq(t->run_id, debug_id) && t->code.debug)
            return t;
    return NULL;
}

static void ask_for_pause(struct turn *t)
{
    t->debug->wants_pause = true;
    thread_kernel_pause(t->chat->kernel);
}

static int ask_kernel(struct turn *t, const json_t *command, debug_fn done, void *arg,
                      struct err *err)
{
    struct turn_debug *d = t->debug;
    bool while_running = str_eq(json_string_value(json_object_get(command, "command")),
                                "breakpoints");
    if (d->is_answering || d->waiting)
        return err_set(err, ERR_CONFLICT, "another command is under way");
    if (!d->is_paused && !while_running)
        return err_set(err, ERR_CONFLICT, "the execution is not paused");
    d->done = done;
    d->arg = arg;
    if (!d->is_paused) {
        d->waiting = json_deep_copy(command);
        ask_for_pause(t);
        return 0;
    }
    d->is_answering = true;
    reply(t, command);
    return 0;
}

int chat_debug(struct chat *c, const char *debug_id, const json_t *command, debug_fn done,
               void *arg, struct err *err)
{
    static const char *const moves[] = { "continue", "next", "step", "out" };
    struct turn *t = find_turn(c, debug_id);
    const char *word = json_string_value(json_object_get(command, "command"));
    if (!t)
        return err_set(err, ERR_NOT_FOUND, "no execution '%s' is being debugged", debug_id);
    c->used_ms = clock_now_ms();
    if (str_eq(word, "stop")) {
        turn_cancel(t);
        auto_json json_t *stopping = json_pack("{s:s, s:s}", "debug_id", debug_id, "status",
                                               "stopping");
        done(arg, stopping, NULL);
        return 0;
    } else if (!t->debug && !str_eq(word, "state")) {
        return err_set(err, ERR_CONFLICT, "the execution has not begun, or has ended");
    } else if (str_eq(word, "pause")) {
        if (!t->debug->is_paused)
            ask_for_pause(t);
    } else if (is_one_of(word, moves, ARRAY_SIZE(moves))) {
        if (!t->debug->is_paused || t->debug->is_answering)
            return err_set(err, ERR_CONFLICT, "the execution is not paused");
        go_on(t, command, true);
    } else if (!str_eq(word, "state")) {
        return ask_kernel(t, command, done, arg, err);
    }
    auto_json json_t *state = state_of(t);
    done(arg, state, NULL);
    return 0;
}

/* ---- executions of others ---- */

int chat_await(struct chat *c, const struct chat_debugger *d, struct err *err)
{
    if (c->debugger.begun)
        return err_set(err, ERR_CONFLICT,
                       "another debugger waits for the next execution of this sandbox");
    c->debugger = *d;
    json_incref((json_t *)(uintptr_t)d->options);
    return 0;
}

void chat_await_end(struct chat *c, const void *arg)
{
    if (!c->debugger.begun || c->debugger.arg != arg)
        return;
    json_decref((json_t *)(uintptr_t)c->debugger.options);
    c->debugger = (struct chat_debugger){ .begun = NULL };
}

void chat_debug_forget(struct chat *c, const void *arg)
{
    for (struct turn *t = c->turns; t; t = t->next)
        if (t->debug && t->debug->arg == arg)
            forget_waiter(t->debug);
}
