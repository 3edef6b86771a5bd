#ifndef RIDDLE_CLI_CHAT_INPUT_H
#define RIDDLE_CLI_CHAT_INPUT_H

/*
 * Where the lines of a chat come from: a terminal with editing and history (libedit), or anything
 * else, line by line and without a prompt. Nothing is read until a line is asked for, so that the
 * terminal belongs to whoever answers meanwhile.
 */

#include <stdbool.h>
#include "base/err.h"
#include "net/loop.h"

#define CHAT_LINE_MAX_BYTES (1u << 20)
#define CHAT_HISTORY_LINES 1000
#define CHAT_HISTORY_LINE_BYTES 4000 /* longer lines are not remembered */

struct chat_input;

struct chat_input_events {
    /* The line that was asked for, without its end; borrowed. */
    void (*line)(void *arg, const char *line);
    /* No line comes any more. err is NULL at the end of the input. */
    void (*end)(void *arg, const struct err *err);
    void *arg;
};

/* history_path: where lines typed at a terminal are kept; it is the caller's. One per process. */
int chat_input_create(struct loop *loop, bool terminal, const char *history_path,
                      const struct chat_input_events *events, struct chat_input **ret,
                      struct err *err);
/* No event comes after this, and the terminal is as it was. NULL is fine, as below. */
void chat_input_stop(struct chat_input *in);
/* When nothing that was deferred in the loop can come any more. */
void chat_input_destroy(struct chat_input *in);

/* Words that the Tab key completes, n of them; borrowed for the life of the input. */
void chat_input_words(struct chat_input *in, const char *const *words, size_t n);

/* Asks for one line. One of the events comes, not from within. The prompt is only for terminals. */
void chat_input_ask(struct chat_input *in, const char *prompt);
/* Remembers a line for the arrow keys and for the next time. */
void chat_input_remember(struct chat_input *in, const char *line);

/* Ctrl-C while a line is asked for: clears it. True if no key was pressed since the prompt came. */
bool chat_input_clear(struct chat_input *in);
/*
 * The program goes on after it was stopped (Ctrl-Z): the terminal is taken again, with what was
 * typed.
 */
void chat_input_resume(struct chat_input *in);

#endif
