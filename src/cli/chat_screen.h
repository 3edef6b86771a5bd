#ifndef RIDDLE_CLI_CHAT_SCREEN_H
#define RIDDLE_CLI_CHAT_SCREEN_H

/*
 * What a chat shows: words as they come, tables, figures, what was run. Nothing from data, code or
 * a model can steer the terminal.
 */

#include <stdbool.h>
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "cli/figures.h"
#include "cli/progress.h"

struct chat_screen {
    bool quiet; /* what was run is not shown */
    struct progress progress;
    struct figures figures;
    bool mid_line;    /* something stands on the line already */
    bool direct;      /* of this turn: code runs as it is, so words wait for the result */
    bool live;        /* of this turn: code has shown something by itself */
    bool lost_figure; /* of this turn */
    struct buf said;  /* of this turn: the model's words since it last called a tool */
    json_t *files;    /* in /workspace, as last told */
};

void chat_screen_init(struct chat_screen *s, bool quiet);
void chat_screen_finish(struct chat_screen *s);

void chat_screen_begin(struct chat_screen *s, bool direct);
/* As turn_listener has it. */
void chat_screen_event(struct chat_screen *s, const char *type, const json_t *data);
/* The end of a turn. True if the message was answered. */
bool chat_screen_answer(struct chat_screen *s, const json_t *answer);

/* Text on standard output, made visible; lines are lines. */
void chat_screen_print(struct chat_screen *s, const char *text);
void chat_screen_table(struct chat_screen *s, const json_t *columns, const json_t *types,
                       const json_t *rows);
/* A new line unless one has begun already. */
void chat_screen_fresh_line(struct chat_screen *s);
/* A failure of what was asked for, on standard error. */
void chat_screen_complain(struct chat_screen *s, const struct err *err);

#endif
