#ifndef RIDDLE_CLI_DOCTOR_MODEL_H
#define RIDDLE_CLI_DOCTOR_MODEL_H

/* `riddle doctor --model`: one small conversation with the configured model, and what came of it.
 */

#include <stdbool.h>
#include <uv.h>
#include "llm/llm.h"

/* good: it works; otherwise `remedy` says what to do (a FAIL when `is_bad`, else a CAUTION). */
typedef void (*model_finding_fn)(void *arg, const char *name, bool good, bool is_bad,
                                 const char *remedy, const char *detail);

/* Runs the loop until the conversation is over. It costs a few hundred tokens. */
void doctor_ask_model(struct llm *llm, uv_loop_t *loop, model_finding_fn tell, void *arg);

#endif
