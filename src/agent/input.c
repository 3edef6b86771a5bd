/*
 * input() in code that a person runs: the prompt is an event of the turn, and the line that the
 * client posts is the answer. The clocks of run and turn stand meanwhile. Code that a model has
 * written gets no answer, and neither does a turn whose events nobody hears.
 */

#include "agent/agent_impl.h"
#include "base/clock.h"
#include "base/str.h"

static bool is_heard(const struct turn *t)
{
    for (const struct turn_ear *e = t->ears; e; e = e->next)
        if (e->listener.event)
            return true;
    return false;
}

bool input_ask(struct turn *t, uint32_t id, const char *what, const json_t *args)
{
    const char *prompt = json_string_value(json_object_get(args, "prompt"));
    if (!str_eq(what, "input") || !is_heard(t) || (t->message && !chat_is_code(t->message)))
        return false;
    if (t->timer) {
        t->input.left_ms = MAX_OF(1, t->deadline_ms - clock_now_ms());
        loop_cancel(TAKE_PTR(t->timer));
    }
    t->input.is_open = true;
    t->input.ask = id;
    turn_say(t, "status",
             json_pack("{s:s, s:s, s:s}", "stage", "input", "text", "Waiting for input", "prompt",
                       prompt ? prompt : ""));
    return true;
}

int chat_input(struct chat *c, const char *text, struct err *err)
{
    struct turn *t = c->turns;
    if (!t || !t->input.is_open)
        return err_set(err, ERR_CONFLICT, "no code waits for input");
    auto_json json_t *line = json_string(text);
    if (!line)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    t->input.is_open = false;
    c->used_ms = clock_now_ms();
    if (t->input.left_ms) {
        turn_start_timer(t, t->input.left_ms);
        t->input.left_ms = 0;
    }
    turn_stage(t, "executing", "Running");
    thread_kernel_reply(c->kernel, t->input.ask, line);
    return 0;
}
