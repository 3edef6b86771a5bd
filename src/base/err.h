#ifndef RIDDLE_BASE_ERR_H
#define RIDDLE_BASE_ERR_H

/*
 * The one error type. A function that can fail returns 0 or a negative code (-ERR_x) and takes a
 * `struct err *` last. Success never touches it; failure always sets it. It lives on the caller's
 * stack and its message is bounded, so nothing is allocated while failing. What user code does
 * (time-out, exception, out of memory) is a result, not an err.
 */

#include "base/macros.h"

/*  code            wire name            HTTP */
#define ERR_LIST(X)                                                                                \
    X(INVALID_INPUT, "INVALID_INPUT", 400)                                                         \
    X(INVALID_JSON, "INVALID_JSON", 400)                                                           \
    X(VALIDATION, "VALIDATION_ERROR", 400)                                                         \
    X(UNAUTHORIZED, "UNAUTHORIZED", 401)                                                           \
    X(FORBIDDEN, "FORBIDDEN", 403)                                                                 \
    X(FEATURE_DISABLED, "FEATURE_DISABLED", 403)                                                   \
    X(NOT_FOUND, "NOT_FOUND", 404)                                                                 \
    X(METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", 405)                                               \
    X(CONFLICT, "CONFLICT", 409)                                                                   \
    X(LENGTH_REQUIRED, "LENGTH_REQUIRED", 411)                                                     \
    X(TOO_LARGE, "TOO_LARGE", 413)                                                                 \
    X(UNSUPPORTED_MEDIA, "UNSUPPORTED_MEDIA_TYPE", 415)                                            \
    X(RATE_LIMITED, "RATE_LIMITED", 429)                                                           \
    X(CANCELLED, "CANCELLED", 499)                                                                 \
    X(INTERNAL, "RUNNER_INTERNAL_ERROR", 500)                                                      \
    X(NO_MEMORY, "OUT_OF_MEMORY", 500)                                                             \
    X(IO, "IO_ERROR", 500)                                                                         \
    X(CONFIG, "BAD_CONFIGURATION", 500)                                                            \
    X(ISOLATION, "ISOLATION_UNAVAILABLE", 500)                                                     \
    X(PROTOCOL, "PROTOCOL_ERROR", 502)                                                             \
    X(UNAVAILABLE, "UNAVAILABLE", 503)                                                             \
    X(TIMEOUT, "TIMEOUT", 504)                                                                     \
    X(LLM_RATE_LIMITED, "LLM_RATE_LIMITED", 429)                                                   \
    X(LLM_REJECTED, "LLM_REJECTED", 502)                                                           \
    X(LLM_BAD_RESPONSE, "LLM_BAD_RESPONSE", 502)                                                   \
    X(LLM_UNAVAILABLE, "LLM_UNAVAILABLE", 503)                                                     \
    X(LLM_TIMEOUT, "LLM_TIMEOUT", 504)

enum err_code {
    ERR_NONE = 0,
#define X(code, name, http) ERR_##code,
    ERR_LIST(X)
#undef X
        ERR_CODE_MAX
};

#define ERR_MESSAGE_MAX 1024

struct err {
    enum err_code code;
    char message[ERR_MESSAGE_MAX]; /* cut at a UTF-8 boundary, always terminated */
};

#define ERR_INIT                                                                                   \
    {                                                                                              \
        .code = ERR_NONE, .message = ""                                                            \
    }

/*
 * Sets err and returns -code, so that `return err_set(err, ERR_IO, "…")` is the whole failure path.
 * err may be NULL.
 */
int err_set(struct err *err, enum err_code code, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* As err_set, with ": " and the text of errno value `errnum` behind the message. */
int err_errno(struct err *err, enum err_code code, int errnum, const char *fmt, ...)
    PRINTF_LIKE(4, 5);

/* Puts "context: " before the message that is already there; returns -err->code. */
int err_wrap(struct err *err, const char *fmt, ...) PRINTF_LIKE(2, 3);

const char *err_name(enum err_code code); /* wire name; "OK" for ERR_NONE */
int err_http_status(enum err_code code);  /* 200 for ERR_NONE */

#endif
