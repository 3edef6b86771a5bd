#ifndef RIDDLE_RUN_SANDBOX_TERMS_H
#define RIDDLE_RUN_SANDBOX_TERMS_H

/*
 * The terms of a sandbox of /sandbox: limits, policy, modules, debugging and how long it lives. A
 * client states them once, when it creates the sandbox; the store keeps them with the thread that
 * the sandbox is.
 */

#include <stdbool.h>
#include <stdint.h>
#include "base/config.h"
#include "base/err.h"
#include "base/json.h"
#include "sandbox/sandbox.h"

/* Ranges of what a client may ask for. */
#define SANDBOX_SECONDS_MAX 300
#define SANDBOX_MEMORY_MIN_MB 64
#define SANDBOX_MEMORY_MAX_MB 1024
#define SANDBOX_CPU_MIN 5
#define SANDBOX_CPU_MAX 400
#define SANDBOX_FILES_MIN 32
#define SANDBOX_OPEN_FILES_MAX 1024
#define SANDBOX_THREADS_MIN 2
#define SANDBOX_THREADS_MAX 64
#define SANDBOX_NAMES_MAX 256 /* of allowed modules, of blocked operations */

struct sandbox_terms {
    json_t *config; /* every member with its value: what clients are shown */
    int64_t timeout_ms;
    struct sandbox_limits limits;
    enum python_policy policy;
    bool debugging;
    char *allowed, *blocked; /* for struct sandbox_spec */
    int64_t idle_ms, life_ms;
};

/* Of a request or a record; what is missing has its default. VALIDATION. */
int sandbox_terms_create(const struct config *cfg, const json_t *asked, struct sandbox_terms **ret,
                         struct err *err);
void sandbox_terms_destroy(struct sandbox_terms *t); /* NULL is fine */

/* Sets what the terms say of a sandbox. Strings are borrowed. */
void sandbox_terms_apply(const struct sandbox_terms *t, struct sandbox_spec *spec);

#endif
