#ifndef RIDDLE_API_SANDBOXES_H
#define RIDDLE_API_SANDBOXES_H

/*
 * /sandbox: a place where an agent of somebody else runs code. A sandbox is a thread without a
 * conversation (src/agent/sandboxes.c): what is here gives it the names that its clients know.
 *
 *   sandbox_routes.c  create, status, delete, history, statistics, help, templates
 *   sandbox_run.c     execute, quick-execute, analyze-data
 *   sandbox_debug.c   debug: steps, breakpoints, pauses
 *   sandbox_files.c   files of its /workspace
 *   sandbox_help.c    functions, examples and templates, as texts
 */

#include "agent/agent.h"
#include "api/app.h"
#include "run/sandbox_terms.h"

extern const struct schema sandbox_terms_schema;

/* Calls fn with the sandbox that the path names, now or later, or answers 404. Borrowed. */
typedef void (*sandbox_fn)(struct http_request *req, struct chat *c);
void sandbox_with(struct http_request *req, sandbox_fn fn);
/* 404 "Sandbox not found: {id}" */
void sandbox_reply_unknown(struct http_request *req);

void sandbox_new_id(char ret[THREAD_ID_MAX + 1]);

/*
 * An answer to chat_execute() as clients of /sandbox know it: {execution_id, sandbox_id, status,
 * result, stdout, stderr, error, execution_time, debug_info, timestamp}. sandbox_id may be NULL.
 */
json_t *sandbox_answer_json(const json_t *answer, const char *sandbox_id,
                            const struct sandbox_terms *terms, int64_t timeout_ms);
/* created, running, completed, failed, timeout, cancelled: from the status of a run. */
const char *sandbox_status(const char *status);
json_t *sandbox_now(void);                /* ISO 8601 */
double sandbox_seconds(const json_t *ms); /* to the microsecond */

/* Fields of a body that has code, and the code. VALIDATION, TOO_LARGE. */
#define SANDBOX_CODE_FIELD                                                                         \
    SCHEMA_REQUIRED("code", STRING,                                                                \
                    "Python; at most 1 MB. `await` works at its top. `__result__` or the last "    \
                    "expression is the result.",                                                   \
                    .example = "\"__result__ = 1 + 1\"")
#define SANDBOX_CONTEXT_FIELD                                                                      \
    SCHEMA_OPTIONAL("context", OBJECT, "Variables that are set first; at most 256.")
#define SANDBOX_TIMEOUT_FIELD                                                                      \
    SCHEMA_OPTIONAL("timeout_seconds", INTEGER,                                                    \
                    "No more than max_execution_time, which it is when missing.",                  \
                    SCHEMA_RANGE(1, SANDBOX_SECONDS_MAX))
#define SANDBOX_OUTPUT_FIELD                                                                       \
    SCHEMA_OPTIONAL("max_output_bytes", INTEGER,                                                   \
                    "Of stdout, of stderr and of the result; the largest when missing.",           \
                    SCHEMA_RANGE(RUN_OUTPUT_MIN, RUN_OUTPUT_MAX))

int sandbox_read_code(const json_t *body, struct chat_code *ret, struct err *err);

/* All routes of /sandbox. */
extern const struct route_table sandbox_run_routes, sandbox_file_routes, sandbox_debug_routes;
int sandbox_add_routes(struct http_server *s, struct err *err);

/* ---- sandbox_help.c ---- */

json_t *sandbox_help_functions(const struct sandbox_terms *terms);
json_t *sandbox_help_examples(void);
const char *sandbox_template(const char *type);    /* of an unknown type: the first */
extern const char *const sandbox_template_types[]; /* NULL past the last */

#endif
