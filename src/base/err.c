/*
 * The error type: bounded messages, wire names and HTTP statuses. Allocates nothing, so it is safe
 * after fork(2).
 */

#include "base/err.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/str.h"

/* clang-format off */
static const char *const err_names[ERR_CODE_MAX] = {
    [ERR_NONE] = "OK",
#define X(code, name, http) [ERR_##code] = name,
    ERR_LIST(X)
#undef X
};

static const int err_statuses[ERR_CODE_MAX] = {
    [ERR_NONE] = 200,
#define X(code, name, http) [ERR_##code] = http,
    ERR_LIST(X)
#undef X
};
/* clang-format on */

/*
 * A message is composed here and copied at the end, because the arguments may point into the
 * message that it replaces. The room behind the maximum lets the cut see whether it would split a
 * character.
 */
struct draft {
    char text[ERR_MESSAGE_MAX + 4];
    size_t len;
};

PRINTF_LIKE(2, 0)
static void draft_vadd(struct draft *d, const char *fmt, va_list args)
{
    size_t room = sizeof(d->text) - d->len;
    int n = vsnprintf(d->text + d->len, room, fmt, args);

    if (n < 0) /* an unprintable argument must not hide the failure itself */
        d->text[d->len] = '\0';
    else
        d->len += MIN_OF((size_t)n, room - 1);
}

static void draft_add(struct draft *d, const char *s)
{
    size_t n = MIN_OF(strlen(s), sizeof(d->text) - 1 - d->len);

    memcpy(d->text + d->len, s, n);
    d->len += n;
    d->text[d->len] = '\0';
}

static void draft_store(const struct draft *d, enum err_code code, struct err *err)
{
    size_t n = str_utf8_cut(d->text, d->len, ERR_MESSAGE_MAX - 1);

    err->code = code;
    memcpy(err->message, d->text, n);
    err->message[n] = '\0';
}

int err_set(struct err *err, enum err_code code, const char *fmt, ...)
{
    assert(code > ERR_NONE && code < ERR_CODE_MAX);
    if (err) {
        struct draft d = { .len = 0 };
        va_list args;

        va_start(args, fmt);
        draft_vadd(&d, fmt, args);
        va_end(args);
        draft_store(&d, code, err);
    }
    return -(int)code;
}

int err_errno(struct err *err, enum err_code code, int errnum, const char *fmt, ...)
{
    assert(code > ERR_NONE && code < ERR_CODE_MAX);
    if (err) {
        struct draft d = { .len = 0 };
        const char *reason = strerrordesc_np(errnum);
        va_list args;

        va_start(args, fmt);
        draft_vadd(&d, fmt, args);
        va_end(args);
        draft_add(&d, ": ");
        if (reason) {
            draft_add(&d, reason);
        } else {
            char number[40];

            snprintf(number, sizeof(number), "unknown error %d", errnum);
            draft_add(&d, number);
        }
        draft_store(&d, code, err);
    }
    return -(int)code;
}

int err_wrap(struct err *err, const char *fmt, ...)
{
    struct draft d = { .len = 0 };
    va_list args;

    if (!err)
        return -ERR_INTERNAL;
    va_start(args, fmt);
    draft_vadd(&d, fmt, args);
    va_end(args);
    draft_add(&d, ": ");
    draft_add(&d, err->message);
    /*
     * Wrapping what is no error is our own mistake, but returning 0 from a failure path would be a
     * worse one.
     */
    draft_store(&d, err->code == ERR_NONE ? ERR_INTERNAL : err->code, err);
    return -(int)err->code;
}

const char *err_name(enum err_code code)
{
    return (unsigned)code < ERR_CODE_MAX ? err_names[code] : err_names[ERR_INTERNAL];
}

int err_http_status(enum err_code code)
{
    return (unsigned)code < ERR_CODE_MAX ? err_statuses[code] : err_statuses[ERR_INTERNAL];
}
