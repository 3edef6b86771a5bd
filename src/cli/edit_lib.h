#ifndef RIDDLE_CLI_EDIT_LIB_H
#define RIDDLE_CLI_EDIT_LIB_H

/*
 * libedit, loaded when there is a line to edit: most commands have none, and should not wait for
 * it.
 */

#include <stdio.h>
#include <editline/readline.h>
#include "base/err.h"

/* Functions and, behind them, variables. */
#define EDIT_LIB_SYMBOLS(X)                                                                        \
    X(add_history)                                                                                 \
    X(rl_callback_handler_install)                                                                 \
    X(rl_callback_handler_remove)                                                                  \
    X(rl_callback_read_char)                                                                       \
    X(rl_completion_matches)                                                                       \
    X(rl_deprep_terminal)                                                                          \
    X(rl_forced_update_display)                                                                    \
    X(rl_initialize)                                                                               \
    X(rl_prep_terminal)                                                                            \
    X(stifle_history)                                                                              \
    X(using_history)                                                                               \
    X(rl_attempted_completion_function)                                                            \
    X(rl_attempted_completion_over)                                                                \
    X(rl_catch_signals)                                                                            \
    X(rl_line_buffer)                                                                              \
    X(rl_readline_name)

/* Pointers to both. */
struct edit_lib {
#define X(name) __typeof__(name) *name;
    EDIT_LIB_SYMBOLS(X)
#undef X
};

/* Once edit_lib_load() succeeded. */
extern struct edit_lib edit_lib;

/* UNAVAILABLE when there is no libedit. */
int edit_lib_load(struct err *err);

#endif
