/*
 * What needs nobody to read it: executions, and messages with SQL, Python or a query plan, run as
 * they are.
 */

#include <ctype.h>
#include <string.h>
#include <strings.h>
#include "agent/agent_impl.h"
#include "base/str.h"

/* What stands behind the prefix, or NULL. */
static const char *after_prefix(const char *message, const char *prefix)
{
    while (isspace((unsigned char)*message))
        message++;
    size_t n = strlen(prefix);
    if (strncasecmp(message, prefix, n) != 0)
        return NULL;
    message += n;
    while (*message == ' ' || *message == '\t')
        message++;
    while (*message == '\n' || *message == '\r')
        message++;
    return message;
}

static void direct_done(struct turn *t)
{
    if (t->message) /* an execution is answered without words */
        turn_summarise(t);
    turn_finish(t);
}

static void run_code(struct turn *t, const char *code)
{
    struct err err = ERR_INIT;
    struct turn_run run = { .language = t->mode, .code = code };
    if (str_eq(t->mode, "python") && !turn_cfg(t)->enable_python) {
        err_set(&err, ERR_FEATURE_DISABLED,
                "Python is switched off on this server (ENABLE_PYTHON_EXECUTION)");
        turn_fail(t, &err);
        return;
    }
    turn_run_code(t, &run, direct_done);
}

void answer_by_code(struct turn *t)
{
    t->mode = t->code.language;
    run_code(t, t->code.code);
}

/* The tables are known now. */
static void run_plan(struct turn *t)
{
    struct err err = ERR_INIT;
    struct turn_run run = { .language = "plan", .plan = t->plan };
    if (turn_compile(t, t->plan, &run.code, &err) < 0)
        turn_fail(t, &err);
    else
        turn_run_code(t, &run, direct_done);
}

static void read_plan(struct turn *t, const char *text)
{
    struct err err = ERR_INIT;
    auto_json json_t *plan = NULL;
    if (json_parse(text, strlen(text), &plan, &err) < 0) {
        err.code = ERR_VALIDATION;
        err_wrap(&err, "the plan behind 'PLAN:' cannot be read");
        turn_fail(t, &err);
        return;
    }
    turn_set_plan(t, plan);
    turn_need_catalog(t, run_plan);
}

struct way {
    const char *prefix, *mode;
    void (*fn)(struct turn *t, const char *text);
};

static const struct way ways[] = { { "SQL:", "sql", run_code },
                                   { "PYTHON:", "python", run_code },
                                   { "PLAN:", "plan", read_plan } };

/* The way that a message names, and the text behind its prefix; NULL: none. */
static const struct way *way_of(const char *message, const char **ret_text)
{
    for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
        const char *text = after_prefix(message, ways[i].prefix);
        /* "Plan: sell more" is no plan of ours */
        if (!text || (ways[i].fn == read_plan && *text != '{'))
            continue;
        *ret_text = text;
        return &ways[i];
    }
    return NULL;
}

bool chat_is_code(const char *text)
{
    const char *code;
    return way_of(text, &code) != NULL;
}

bool answer_directly(struct turn *t)
{
    const char *text;
    const struct way *way = way_of(t->message, &text);
    struct err err = ERR_INIT;
    if (!way)
        return false;
    t->mode = way->mode;
    if (*text) {
        way->fn(t, text);
    } else {
        err_set(&err, ERR_VALIDATION, "there is nothing behind '%s'", way->prefix);
        turn_fail(t, &err);
    }
    return true;
}
