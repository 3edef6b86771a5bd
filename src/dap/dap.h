#ifndef RIDDLE_DAP_DAP_H
#define RIDDLE_DAP_DAP_H

/*
 * The Debug Adapter Protocol: an editor attaches to a sandbox over TCP or a WebSocket and steps
 * through code in it (docs/debugger.md). Whoever owns the sandbox offers an execution over HTTP and
 * gets a token, which works once; the client sends it with `attach` or `launch`.
 *
 *   dap.c      the listener, offers and their tokens
 *   frame.c    messages on the wire: a head with their length, and JSON
 *   session.c  one client: its connection, its execution, the requests that it makes
 *   values.c   how the debugger's values are told, and the numbers that stand for them
 *
 * Everything happens in the loop's thread.
 */

#include <stdbool.h>
#include <stdint.h>
#include "agent/agent.h"
#include "net/loop.h"

struct dap;

#define DAP_TOKEN_SIZE 65
#define DAP_OFFER_SECONDS 300 /* a token that nobody has used by then is gone */
#define DAP_PATH_MAX 4096

/* Listens from the first offer on: at host, on port; 0 takes any free one. */
int dap_create(struct loop *loop, struct agent *agent, const char *host, int port, struct dap **ret,
               struct err *err);
/* Ends all sessions without a word; before the agent stops. NULL is fine. */
void dap_destroy(struct dap *d);

/* Code that a client may debug once. All of it is copied. */
struct dap_offer {
    const char *owner, *sandbox_id;
    /* Its debug options are made here. Without code: what is executed next, by whomever. */
    struct chat_code code;
    const char *path; /* what the client calls the file of the code; may be NULL */
    bool stop_on_entry;
};

/*
 * UNAVAILABLE when the listener cannot be opened; RATE_LIMITED when the owner has too many offers
 * that wait.
 */
int dap_offer(struct dap *d, const struct dap_offer *offer, char ret_token[DAP_TOKEN_SIZE],
              int *ret_port, struct err *err);

/*
 * A client over a WebSocket: each message is a text without a head. fd, which is taken, is its
 * connection after the handshake, bytes are what it has sent by then. It may attach to offers of
 * this owner for this sandbox.
 */
void dap_serve_websocket(struct dap *d, int fd, const char *bytes, size_t len, const char *owner,
                         const char *sandbox_id);

#endif
