/*
 * Pausing: of links that wait in the pool, and of those that are frozen. The daemon is asked for
 * one change at a time; what is wanted meanwhile is asked for when it has answered.
 */

#include "sandbox/docker/docker_impl.h"

static void settle_pause(struct docker_link *l);

static void on_settled(void *arg, const json_t *body, const struct err *err)
{
    struct docker_link *l = arg;
    (void)body;
    l->is_changing = false;
    if (docker_link_call_ended(l))
        return;
    if (err && err->code != ERR_CONFLICT) { /* it is so already */
        link_done_fn done = TAKE_PTR(l->freeze_done);
        if (done)
            done(l->freeze_arg, err);
        else
            docker_link_fail(l, err);
        return;
    }
    l->paused = !l->paused;
    settle_pause(l);
}

/* Asks for what is wanted, one call at a time; tells when it is so. */
static void settle_pause(struct docker_link *l)
{
    struct err err = ERR_INIT;
    if (l->released || l->is_changing)
        return;
    if (l->base.dead) {
        link_done_fn done = TAKE_PTR(l->freeze_done);
        err_set(&err, ERR_UNAVAILABLE, "the kernel of this sandbox is gone");
        if (done)
            done(l->freeze_arg, &err);
        return;
    }
    if (l->want_paused == l->paused) {
        link_done_fn done = TAKE_PTR(l->freeze_done);
        if (done)
            done(l->freeze_arg, NULL);
        return;
    }
    if (docker_link_call(l, "POST", l->want_paused ? "/pause" : "/unpause", NULL, on_settled,
                         &err) < 0)
        docker_link_fail(l, &err);
    else
        l->is_changing = true;
}

void docker_want_paused(struct docker_link *l, bool paused)
{
    l->want_paused = paused;
    settle_pause(l);
}

void docker_enter_pool(struct docker_link *l)
{
    struct docker_link **top = &((struct docker *)l->base.provider)->waiting[l->spec.kind];
    l->waits = true;
    l->below = *top;
    *top = l;
    if (l->below)
        docker_want_paused(l->below, true);
}

void docker_leave_pool(struct docker_link *l)
{
    struct docker_link **at = &((struct docker *)l->base.provider)->waiting[l->spec.kind];
    bool was_top = *at == l;
    if (!l->waits)
        return;
    while (*at != l)
        at = &(*at)->below;
    *at = l->below;
    l->waits = false;
    if (was_top && *at)
        docker_want_paused(*at, false);
}

/* ---- frozen threads ---- */

static void set_frozen(struct docker_link *l, bool frozen, link_done_fn done, void *arg)
{
    l->freeze_done = done;
    l->freeze_arg = arg;
    l->paused = !frozen; /* asked for even if it is so already: no callback comes from within */
    docker_want_paused(l, frozen);
}

void docker_freeze(struct kernel_link *link, link_done_fn done, void *arg)
{
    set_frozen((struct docker_link *)link, true, done, arg);
}

void docker_thaw(struct kernel_link *link, link_done_fn done, void *arg)
{
    set_frozen((struct docker_link *)link, false, done, arg);
}
