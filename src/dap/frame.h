#ifndef RIDDLE_DAP_FRAME_H
#define RIDDLE_DAP_FRAME_H

/* A message of the protocol on the wire: `Content-Length: N`, an empty line, N bytes of JSON. */

#include <stddef.h>
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

#define DAP_HEAD_MAX 1024
#define DAP_MESSAGE_MAX (2u << 20)
#define DAP_NODES_MAX 20000 /* values and keys of a message */

/*
 * Takes the first message of the buffer out of it: 1 and *ret (the caller's), or 0 while it is not
 * whole. PROTOCOL for a head that is none, TOO_LARGE, INVALID_JSON, VALIDATION unless it is a
 * request with a number and a command.
 */
int dap_take_request(struct buf *in, json_t **ret, struct err *err);
/* The same of a message without its head. */
int dap_parse_request(const char *text, size_t len, json_t **ret, struct err *err);
/* Appends a message. */
int dap_write(const json_t *message, struct buf *out, struct err *err);

#endif
