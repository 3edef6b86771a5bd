#ifndef RIDDLE_KERNEL_CONTROL_H
#define RIDDLE_KERNEL_CONTROL_H

/*
 * A kernel's end of its control stream (sandbox/wire.h), descriptor 3. Messages are taken one at a
 * time; what the table of messages does not permit in the state that the kernel is in is refused
 * or, if it only came too late, dropped.
 *
 * There is one kernel in a process, so there is one stream: functions that signal handlers and
 * CPython call take no argument.
 */

#include <stdbool.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "sandbox/wire.h"

#define CONTROL_FD 3

struct control_message {
    enum wire_type type;
    uint32_t id;
    json_t *body; /* checked; the receiver's to free */
};

/*
 * `interrupt` is called for a message that asks for it: from the reader or, after control_watch(),
 * from a signal handler.
 */
void control_open(void (*interrupt)(void));
void control_set_state(enum wire_state state, uint32_t request);

/*
 * Waits for the next message; `bytes` before a request are kept for it. False when riddle has
 * closed the stream.
 */
bool control_next(struct control_message *ret);
const struct buf *control_bytes(void);
/* Descriptors that came along, first in first out. -1 if there is none. */
int control_take_fd(void);

/*
 * What was read of the stream and not taken yet; and the same, in a process that goes on with it.
 */
const void *control_unread(size_t *ret_len);
void control_resume(const void *unread, size_t len);

/* Ends the process when riddle is gone. */
void control_send(enum wire_type type, uint32_t id, const void *body, size_t len);
void control_send_json(enum wire_type type, uint32_t id, json_t *body); /* takes the body */
void control_send_failed(uint32_t id, const struct err *err);
/* An event of the request under way. */
void control_event(enum wire_type type, const void *body, size_t len);

/* From now on an `interrupt` is noticed while a request runs. Before the jail is closed. */
int control_watch(struct err *err);
/* A request begins: takes notice of an interrupt that came right behind it. */
void control_watch_now(void);

/* Whether riddle has asked since the last call that the request under way be paused. */
bool control_take_pause(void);

/*
 * The stream is this process's from now on, a fork of the one that has read it so far. NULL instead
 * if only that one can be told of interrupts.
 */
typedef void (*control_adopt_fn)(void);
control_adopt_fn control_adopter(void);

/*
 * Asks riddle. control_reply() waits for the reply; CANCELLED when a signal came first, and it may
 * be called again.
 */
int control_ask(const char *body, size_t len, struct err *err);
int control_reply(json_t **ret, struct err *err);
/* The reply is not wanted any more. */
void control_withdraw(void);

#endif
