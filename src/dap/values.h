#ifndef RIDDLE_DAP_VALUES_H
#define RIDDLE_DAP_VALUES_H

/*
 * Values of a paused execution as the protocol tells them. What holds other values gets a number
 * (variablesReference), which a client asks with until the execution goes on.
 */

#include <stdbool.h>
#include <stddef.h>
#include "base/json.h"

#define DAP_VALUES_MAX                                                                             \
    20000 /* numbers in one pause; past it a value is told without what it holds */

struct dap_value {
    int frame;
    bool is_globals;
    json_t *path;     /* of names, as the debugger's `variables` takes it; empty: a whole scope */
    char *expression; /* that yields it; NULL: a scope, or there is none */
    char *type;       /* NULL: a scope */
};

struct dap_values {
    struct dap_value *list;
    size_t n, capacity;
};

void dap_values_clear(struct dap_values *v); /* frees; the numbers start anew */
/* A number for a scope; 0 when there is no room. */
int dap_values_scope(struct dap_values *v, int frame, bool is_globals);
/* NULL: nothing has this number. */
const struct dap_value *dap_values_find(const struct dap_values *v, long long number);
/*
 * {value, type, variablesReference, …} of an expression in a frame, told as the debugger does
 * ({type, repr, children, …}).
 */
json_t *dap_value_json(struct dap_values *v, int frame, const char *expression, const json_t *told);
/* [{name, value, type, evaluateName?, variablesReference}] of what `holder` holds: {name: told}. */
json_t *dap_variables_json(struct dap_values *v, long long holder, const json_t *variables);
/* What yields the value of this name in its holder. The caller frees; NULL: nothing does. */
char *dap_member_expression(const struct dap_value *holder, const char *name);

#endif
