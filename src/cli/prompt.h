#ifndef RIDDLE_CLI_PROMPT_H
#define RIDDLE_CLI_PROMPT_H

/* input() of code that a command runs: a line of the command's standard input. */

#include <stdbool.h>
#include <stdint.h>
#include "base/json.h"
#include "sandbox/pool/executor.h"

/*
 * For run_events.ask. Shows the prompt, waits for a line and answers; the end of the input is an
 * EOFError in the code. False when the question is another one, and when stop_fd (-1: none) becomes
 * readable first, which is left to be read.
 */
bool prompt_answer(struct lease *lease, int stop_fd, uint32_t id, const char *what,
                   const json_t *args);

#endif
