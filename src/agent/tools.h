#ifndef RIDDLE_AGENT_TOOLS_H
#define RIDDLE_AGENT_TOOLS_H

/* What a model may ask for: the tools, described once, and what they answer in words. */

#include "agent/agent_impl.h"

/* The tools of this turn; parameters are borrowed from static data. */
size_t tools_list(const struct turn *t, const struct llm_tool **ret);
/* JSON Schema of a tool's arguments; NULL for an unknown name. */
const json_t *tools_schema(const char *name);
const char *tools_names(void); /* "run_plan, run_sql, …" */

/* A result in words for a model: bounded, with the first rows, what was printed, and what went wrong. */
int tools_result_text(const json_t *result, struct buf *b, struct err *err);
int tools_describe_table(const struct turn *t, const char *table, struct buf *b, struct err *err);
int tools_list_files(const struct turn *t, struct buf *b, struct err *err);

/* The instructions of a turn: what the data is, what the rules are. */
int prompt_system(const struct turn *t, struct buf *b, struct err *err);
int prompt_rescue(const struct turn *t, struct buf *b, struct err *err);

#endif
