#ifndef RIDDLE_RUN_THREAD_STATES_H
#define RIDDLE_RUN_THREAD_STATES_H

/*
 * The states of a thread's kernel and what leads from one to the next: one table, without any
 * side effect. thread_kernel.c does what the table says.
 */

#include <stdbool.h>
#include "base/err.h"

#define KERNEL_STATE_LIST(X)                                                                       \
    X(NONE, "none")         /* nothing ran yet, or nothing is left of it */                        \
    X(STARTING, "starting") /* a sandbox was asked for */                                          \
    X(HOT, "hot")           /* waits for code */                                                   \
    X(RUNNING, "running")   /* runs code */                                                        \
    X(COPYING, "copying")   /* lists, reads or writes a file of /workspace */                      \
    X(FREEZING, "freezing")                                                                        \
    X(WARM, "warm") /* frozen: keeps its memory, uses no processor */                              \
    X(THAWING, "thawing")                                                                          \
    X(IMAGING, "imaging")                                                                          \
    X(COLD, "cold") /* a file */                                                                   \
    X(RESTORING, "restoring")                                                                      \
    X(LOST, "lost") /* gone with its variables, and the user was not told yet */

#define KERNEL_EVENT_LIST(X)                                                                       \
    X(WANT, "want")     /* somebody needs it */                                                    \
    X(READY, "ready")   /* it started, thawed or was restored */                                   \
    X(FAILED, "failed") /* what was under way could not be done */                                 \
    X(RUN, "run")                                                                                  \
    X(RAN, "ran") /* code ended and left the kernel alive */                                       \
    X(COPY, "copy")                                                                                \
    X(COPIED, "copied")                                                                            \
    X(FREEZE, "freeze")                                                                            \
    X(FROZEN, "frozen")                                                                            \
    X(IMAGE, "image")                                                                              \
    X(IMAGED, "imaged")                                                                            \
    X(DIED, "died") /* it ended by itself */                                                       \
    X(DROP, "drop") /* it is given up */                                                           \
    X(TOLD, "told") /* the user knows of the loss */

enum kernel_state {
#define X(code, name) KERNEL_##code,
    KERNEL_STATE_LIST(X)
#undef X
        _KERNEL_STATE_MAX
};

enum kernel_event {
#define X(code, name) KERNEL_EV_##code,
    KERNEL_EVENT_LIST(X)
#undef X
        _KERNEL_EVENT_MAX
};

/* What is to be done when the next state is entered. */
enum kernel_action {
    KERNEL_DO_NOTHING,
    KERNEL_DO_START, /* ask for a sandbox */
    KERNEL_DO_REST,  /* run the code that waits, or make room for others until some comes */
    KERNEL_DO_RUN,
    KERNEL_DO_COPY,
    KERNEL_DO_FREEZE,
    KERNEL_DO_THAW,
    KERNEL_DO_IMAGE,
    KERNEL_DO_SHELVE, /* release the sandbox, whose image is safe */
    KERNEL_DO_RESTORE,
    KERNEL_DO_RELEASE, /* the sandbox, or its image; with them its variables */
};

/* What a provider must be able to do for a transition. */
enum kernel_cap { KERNEL_CAN_FREEZE = 1 << 0, KERNEL_CAN_IMAGE = 1 << 1 };

struct kernel_move {
    enum kernel_state next; /* LOST stands for NONE when no variables went with the kernel */
    enum kernel_action action;
    unsigned needs; /* kernel_cap */
    bool legal;
};

/*
 * CONFLICT for an event that the state does not take; UNAVAILABLE when the provider cannot do it.
 */
int kernel_move(enum kernel_state state, enum kernel_event event, unsigned caps,
                struct kernel_move *ret, struct err *err);

const char *kernel_state_name(enum kernel_state s);
const char *kernel_event_name(enum kernel_event e);
/* A sandbox is there and awake. */
bool kernel_state_is_hot(enum kernel_state s);
/* A sandbox is there, awake or frozen. */
bool kernel_state_is_kept(enum kernel_state s);
/* On its way to another state; never while code runs. */
bool kernel_state_is_moving(enum kernel_state s);
/* Nothing is there, on its way or on disk. */
bool kernel_state_is_gone(enum kernel_state s);

#endif
