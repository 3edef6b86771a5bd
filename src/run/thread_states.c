/* The table of a thread's kernel. A pair that is not listed is refused. */

#include "run/thread_states.h"

static const char *const state_names[_KERNEL_STATE_MAX] = {
#define X(code, name) name,
    KERNEL_STATE_LIST(X)
#undef X
};

static const char *const event_names[_KERNEL_EVENT_MAX] = {
#define X(code, name) name,
    KERNEL_EVENT_LIST(X)
#undef X
};

#define MOVE(to, act)                                                                              \
    {                                                                                              \
        .next = KERNEL_##to, .action = KERNEL_DO_##act, .legal = true                              \
    }
#define MOVE_IF(can, to, act)                                                                      \
    {                                                                                              \
        .next = KERNEL_##to, .action = KERNEL_DO_##act, .needs = KERNEL_CAN_##can, .legal = true   \
    }

static const struct kernel_move moves[_KERNEL_STATE_MAX][_KERNEL_EVENT_MAX] = {
    [KERNEL_NONE] = {
        [KERNEL_EV_WANT] = MOVE(STARTING, START),
        [KERNEL_EV_DROP] = MOVE(NONE, NOTHING),
    },
    [KERNEL_STARTING] = {
        [KERNEL_EV_WANT] = MOVE(STARTING, NOTHING),
        [KERNEL_EV_READY] = MOVE(HOT, REST),
        [KERNEL_EV_FAILED] = MOVE(LOST, RELEASE),
        [KERNEL_EV_DROP] = MOVE(LOST, RELEASE),
    },
    [KERNEL_HOT] = {
        [KERNEL_EV_WANT] = MOVE(HOT, NOTHING),
        [KERNEL_EV_RUN] = MOVE(RUNNING, RUN),
        [KERNEL_EV_COPY] = MOVE(COPYING, COPY),
        [KERNEL_EV_FREEZE] = MOVE_IF(FREEZE, FREEZING, FREEZE),
        [KERNEL_EV_IMAGE] = MOVE_IF(IMAGE, IMAGING, IMAGE),
        [KERNEL_EV_FAILED] = MOVE(LOST, RELEASE),
        [KERNEL_EV_DIED] = MOVE(LOST, RELEASE),
        [KERNEL_EV_DROP] = MOVE(LOST, RELEASE),
    },
    [KERNEL_RUNNING] = {
        [KERNEL_EV_WANT] = MOVE(RUNNING, NOTHING),
        [KERNEL_EV_RAN] = MOVE(HOT, REST),
        [KERNEL_EV_FAILED] = MOVE(LOST, RELEASE),
        [KERNEL_EV_DIED] = MOVE(LOST, RELEASE),
        [KERNEL_EV_DROP] = MOVE(LOST, RELEASE),
    },
    [KERNEL_COPYING] = {
        [KERNEL_EV_WANT] = MOVE(COPYING, NOTHING),
        [KERNEL_EV_COPIED] = MOVE(HOT, REST),
        [KERNEL_EV_FAILED] = MOVE(HOT, REST), /* this piece only */
        [KERNEL_EV_DIED] = MOVE(LOST, RELEASE),
        [KERNEL_EV_DROP] = MOVE(LOST, RELEASE),
    },
    [KERNEL_FREEZING] = {
        [KERNEL_EV_WANT] = MOVE(FREEZING, NOTHING), /* it is thawed once it is frozen */
        [KERNEL_EV_FROZEN] = MOVE(WARM, NOTHING),
        [KERNEL_EV_FAILED] = MOVE(HOT, REST),
        [KERNEL_EV_DIED] = MOVE(LOST, RELEASE),
        [KERNEL_EV_DROP] = MOVE(LOST, RELEASE),
    },
    [KERNEL_WARM] = {
        [KERNEL_EV_WANT] = MOVE(THAWING, THAW),
        [KERNEL_EV_IMAGE] = MOVE_IF(IMAGE, IMAGING, IMAGE),
        [KERNEL_EV_DIED] = MOVE(LOST, RELEASE),
        [KERNEL_EV_DROP] = MOVE(LOST, RELEASE),
    },
    [KERNEL_THAWING] = {
        [KERNEL_EV_WANT] = MOVE(THAWING, NOTHING),
        [KERNEL_EV_READY] = MOVE(HOT, REST),
        [KERNEL_EV_FAILED] = MOVE(LOST, RELEASE),
        [KERNEL_EV_DIED] = MOVE(LOST, RELEASE),
        [KERNEL_EV_DROP] = MOVE(LOST, RELEASE),
    },
    [KERNEL_IMAGING] = {
        [KERNEL_EV_WANT] = MOVE(IMAGING, NOTHING), /* it is restored once it is a file */
        [KERNEL_EV_IMAGED] = MOVE(COLD, SHELVE),
        [KERNEL_EV_READY] = MOVE(HOT, REST), /* its image is written, and a job waits for it */
        [KERNEL_EV_FAILED] = MOVE(HOT, REST),
        [KERNEL_EV_DIED] = MOVE(LOST, RELEASE),
        [KERNEL_EV_DROP] = MOVE(LOST, RELEASE),
    },
    [KERNEL_COLD] = {
        [KERNEL_EV_WANT] = MOVE_IF(IMAGE, RESTORING, RESTORE),
        [KERNEL_EV_DROP] = MOVE(LOST, RELEASE),
    },
    [KERNEL_RESTORING] = {
        [KERNEL_EV_WANT] = MOVE(RESTORING, NOTHING),
        [KERNEL_EV_READY] = MOVE(HOT, REST),
        [KERNEL_EV_IMAGED] = MOVE(COLD, NOTHING), /* not now; its image is still good */
        [KERNEL_EV_FAILED] = MOVE(LOST, RELEASE),
        [KERNEL_EV_DROP] = MOVE(LOST, RELEASE),
    },
    [KERNEL_LOST] = {
        [KERNEL_EV_WANT] = MOVE(STARTING, START),
        [KERNEL_EV_DROP] = MOVE(LOST, NOTHING),
        [KERNEL_EV_TOLD] = MOVE(NONE, NOTHING),
    },
};

int kernel_move(enum kernel_state state, enum kernel_event event, unsigned caps,
                struct kernel_move *ret, struct err *err)
{
    const struct kernel_move *m = &moves[state][event];
    if (!m->legal)
        return err_set(err, ERR_CONFLICT, "a thread's kernel that is %s takes no '%s'",
                       state_names[state], event_names[event]);
    if ((m->needs & caps) != m->needs)
        return err_set(err, ERR_UNAVAILABLE, "the sandbox provider cannot do '%s'",
                       event_names[event]);
    *ret = *m;
    return 0;
}

const char *kernel_state_name(enum kernel_state s)
{
    return state_names[s];
}

const char *kernel_event_name(enum kernel_event e)
{
    return event_names[e];
}

bool kernel_state_is_hot(enum kernel_state s)
{
    return s == KERNEL_HOT || s == KERNEL_RUNNING || s == KERNEL_COPYING;
}

bool kernel_state_is_kept(enum kernel_state s)
{
    return kernel_state_is_hot(s) || s == KERNEL_FREEZING || s == KERNEL_WARM ||
           s == KERNEL_THAWING;
}

bool kernel_state_is_moving(enum kernel_state s)
{
    return s == KERNEL_STARTING || s == KERNEL_FREEZING || s == KERNEL_THAWING ||
           s == KERNEL_IMAGING || s == KERNEL_RESTORING;
}

bool kernel_state_is_gone(enum kernel_state s)
{
    return s == KERNEL_NONE || s == KERNEL_LOST;
}
