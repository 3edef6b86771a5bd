#ifndef RIDDLE_SANDBOX_FAKE_H
#define RIDDLE_SANDBOX_FAKE_H

/*
 * The fake provider: kernels that exist only in riddle's memory and follow a script. It is for
 * tests, which can make any step fail at will, and the example of docs/adding-a-provider.md. It
 * never runs code, so no setting chooses it.
 */

#include <limits.h>
#include "base/json.h"
#include "sandbox/provider.h"
#include "sandbox/wire.h"

enum fake_step { FAKE_SPAWN, FAKE_START, FAKE_SEND, FAKE_LIMIT, _FAKE_STEP_MAX };

/*
 * The n-th call of the step from now on fails (1: the next one); 0: none does; FAKE_EVERY: all do.
 */
#define FAKE_EVERY UINT_MAX
void fake_fail(enum fake_step step, unsigned n);
/* How often each step was called since fake_reset(). */
unsigned fake_count(enum fake_step step);
/* Forgets all of this, and the script. */
void fake_reset(void);

/*
 * What a kernel does with a request: called once the request has arrived. It answers with the
 * functions below, now or later. Without a script every "exec" is answered by fake_answer_exec(),
 * and anything else with verdict ok.
 */
struct fake_request {
    enum wire_type type;
    uint32_t id;
    const json_t *body;
};
typedef void (*fake_script_fn)(struct kernel_link *l, const struct fake_request *req, void *arg);
void fake_script(fake_script_fn fn, void *arg);

/* One message of the control stream, taken over; stdout or stderr; the kernel's end. */
void fake_say(struct kernel_link *l, enum wire_type type, uint32_t id, json_t *taken_body);
/* of the control stream, unframed */
void fake_say_bytes(struct kernel_link *l, const char *bytes, size_t len);
void fake_print(struct kernel_link *l, bool is_stderr, const char *text);
void fake_exit(struct kernel_link *l, int code, int signal);
/* The answer to the request, with this verdict. */
void fake_answer(struct kernel_link *l, const struct fake_request *req, const char *verdict);
/*
 * Understands the few cells of the contract tests (tests/tools/contract.c): print('…'), an integer,
 * name = integer, a name, spin(), raise, import os; os._exit(n), SELECT n.
 */
void fake_answer_exec(struct kernel_link *l, const struct fake_request *req);

extern const struct provider_ops fake_provider;

#endif
