#ifndef RIDDLE_CLI_PROGRESS_H
#define RIDDLE_CLI_PROGRESS_H

/* What is under way, on one line of standard error that goes away again. Only on a terminal. */

#include <stdbool.h>
#include <stdint.h>

struct progress {
    bool tty;         /* standard error is one */
    int64_t since_ms; /* 0: nothing loads */
    bool shown;
};

void progress_init(struct progress *p);
/* A bar, once the work has taken long enough for one to be worth it. */
void progress_bar(struct progress *p, const char *stage, double fraction);
/* Dim words. */
void progress_text(struct progress *p, const char *text);
void progress_clear(struct progress *p);

#endif
