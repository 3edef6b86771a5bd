#ifndef RIDDLE_TESTS_UNIT_FAULT_FAULT_H
#define RIDDLE_TESTS_UNIT_FAULT_FAULT_H

/*
 * Failures by countdown: the nth allocation, write or start of a process fails, of our code, of
 * jansson and of SQLite. A case is run for n = 1, 2, … until one went through without a failure
 * (past a hundred in growing strides, so that a long case stays short). Programs of this folder are
 * linked with --wrap for the functions in question (Makefile).
 */

#include <stdbool.h>
#include <stddef.h>

enum fault {
    FAULT_ALLOC, /* NULL, or SQLite's and jansson's word for it */
    FAULT_WRITE, /* of files and sockets, syncing and renaming included: ENOSPC */
    FAULT_SPAWN, /* fork: EAGAIN */
    _FAULT_MAX
};

/* Once, before anything of jansson or SQLite is used. */
void fault_init(void);

/* The nth call from now on fails, by any thread; or, with `from`, that one and all after it. */
void fault_arm(enum fault kind, long nth, bool from);
/* Nothing fails any more. Whether something did. */
bool fault_disarm(void);

/*
 * Runs a case until it went through without a failure, and returns the last n. The case
 * arms nothing itself; what it has to set up and check undisturbed it does between fault_pause()
 * and fault_resume(). It fails after `max` rounds.
 */
long fault_rounds(enum fault kind, bool from, long max, void (*run)(void *arg), void *arg);
void fault_pause(void); /* may be nested */
void fault_resume(void);
bool fault_fired(void); /* in this round, so far */

/*
 * For a provider that lives in this process and takes its turns by timers of 0 ms: they run as
 * between fault_pause() and fault_resume().
 */
void fault_spare_turns(bool on);

#endif
