#ifndef RIDDLE_API_CHATS_H
#define RIDDLE_API_CHATS_H

/*
 * Messages to threads, in the three forms that clients know, and code that runs in them. One thread
 * model is beneath all of them (src/agent); only the shape of what comes back differs. Streams of
 * FORM_CHAT and FORM_CODE have named events, as have those of FORM_SANDBOX, the others unnamed
 * ones:
 *
 *   FORM_THREAD   /thread/{id}/message: {response, code_runs, timings_ms, …}
 *   FORM_CHAT     /chat with dataset_id and message: {assistant_message, result, details, …}
 *   FORM_SESSION  /chat with messages and session_id: {reply, images}
 *   FORM_CODE     /thread/{id}/execute: {run_id, status, result, …}
 *   FORM_SANDBOX  /sandbox/{id}/execute: {execution_id, status, result, stdout, …} (sandboxes.h)
 *
 * A turn that fails (no model answered, not code that went wrong) is told once: as the event
 * `error`, or by status 500. FORM_CHAT has it in its answer.
 *
 * A client that leaves a thread's turn leaves it running; /chat, whose client may not know the
 * thread, stops its turn.
 */

#include "agent/agent.h"
#include "api/app.h"

enum chat_form { FORM_THREAD, FORM_CHAT, FORM_SESSION, FORM_CODE, FORM_SANDBOX };

/* What a request asks for. Strings and arrays are borrowed from it. */
struct chat_request {
    enum chat_form form;
    bool stream;
    const char *message;
    int64_t timeout_ms;           /* of each run; 0: as configured */
    const struct chat_code *code; /* FORM_CODE and FORM_SANDBOX, instead of a message */
    /* the turn that is under way, instead of a new one; 204 when there is none */
    bool follow;
    const char *thread_id; /* NULL: a new thread */
    /* A thread_id that is unknown becomes a new thread of that name. */
    bool may_create;
    const char *id_prefix; /* of a new thread's id */
    /* of a new thread, or other data for an old one; NULL: the default, or what it has */
    const json_t *datasets;
    const json_t *uploads;
    bool set_data; /* the data named above replaces what an existing thread has */
    const json_t
        *earlier; /* FORM_SESSION: the conversation before the message; NULL: the thread's own */
};

/* Answers the request, now or later. */
void chat_serve(struct http_request *req, const struct chat_request *ask);

#endif
