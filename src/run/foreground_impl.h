#ifndef RIDDLE_RUN_FOREGROUND_IMPL_H
#define RIDDLE_RUN_FOREGROUND_IMPL_H

/* What the files of foreground.h share. */

#include <uv.h>
#include "run/foreground.h"

/* Runs the loop until *done. */
void foreground_wait_for(struct foreground *fg, const bool *done);

/* A run_stop that is watched while something is waited for. */
struct foreground_stop {
    uv_poll_t poll;
    struct run_stop *stop;
    struct lease *lease;
    bool *done; /* of what is waited for, and why it ended */
    struct err *err;
    bool polled, closed;
};

void foreground_watch_stop(struct foreground *fg, struct foreground_stop *s);
void foreground_unwatch_stop(struct foreground *fg, struct foreground_stop *s);

#endif
