#ifndef RIDDLE_AGENT_TOOLS_H
#define RIDDLE_AGENT_TOOLS_H

/*
 * What a model may ask for, and what it is told: the tools, the instructions, the data, the earlier
 * turns.
 */

#include "agent/agent_impl.h"

/* The tools of this turn; parameters are borrowed from static data. */
size_t tools_list(const struct turn *t, const struct llm_tool **ret);
/* JSON Schema of a tool's arguments; NULL for an unknown name. */
const json_t *tools_schema(const char *name);
const char *tools_names(void); /* "run_sql, run_python, …" */

/*
 * A result in words for a model: bounded, with the first rows, what was printed, drawn and written,
 * and what went wrong. files_before are those that were there before the run; t may be NULL.
 */
int tools_result_text(const struct turn *t, const json_t *result, const json_t *files_before,
                      struct buf *b, struct err *err);
int tools_describe_table(const struct turn *t, const json_t *args, struct buf *b, struct err *err);
/* Values like the text, from the planner's index. Appends nothing when there are none. */
int tools_find_values(const struct turn *t, const char *text, struct buf *b, struct err *err);
/*
 * SQL that finds values like the text in the columns whose values the index does not have all of:
 * table, column, value, rows. Appends nothing when it has.
 */
int tools_find_values_sql(const struct turn *t, const char *text, struct buf *b, struct err *err);
int tools_list_files(const struct turn *t, struct buf *b, struct err *err);

/* ---- prompt.c ---- */

/* The instructions of a turn. Nothing of the data stands in them. */
int prompt_system(const struct turn *t, struct buf *b, struct err *err);
int prompt_rescue(const struct turn *t, struct buf *b, struct err *err);
/* The data, fenced: the same for every turn while the data is, so that providers can cache it. */
int prompt_data(const struct turn *t, struct buf *b, struct err *err);
/*
 * Of data that is too large to be described at once: the columns that the question may mean. May
 * append nothing.
 */
int prompt_details(const struct turn *t, struct buf *b, struct err *err);
/* Verified questions that are alike, fenced. May append nothing. */
int prompt_examples(const struct turn *t, struct buf *b, struct err *err);
/* Words of other people: `before`, then the words as JSON in which no tag can stand. */
int prompt_text(struct buf *b, const char *before, const char *words, struct err *err);
/* One line about a table, and one about a column of it. */
int prompt_table(const struct turn *t, const json_t *table, struct buf *b, struct err *err);
int prompt_column(const struct turn *t, const json_t *table, const json_t *column, struct buf *b,
                  struct err *err);
/* A name as SQL has it: quoted unless it is a plain word, on one line whatever is in it. */
int prompt_name(struct buf *b, const char *name, struct err *err);
/* What people wrote about a column; NULL when nothing. */
const char *prompt_words(const struct turn *t, const char *table, const char *column);

/* ---- history.c ---- */

/*
 * What a turn did, for the turns after it: [{"text"?, "kept"?, "calls": [{"name", "arguments",
 * "result", "is_error"?}]}], shortened. New reference; NULL when it ran nothing.
 */
json_t *history_of(const struct turn *t);
/* A message as a chat remembers it: cut. */
json_t *history_entry(const char *role, const char *content, const json_t *calls);
/*
 * Of a page of messages: {messages, told, had_python, plan?}. Metadata may be megabytes, so the
 * thread that reads them parses them.
 */
int history_make(const struct store_query *query, struct store_page *page, struct err *err);
/* Notes a reply of the model and, later, the answers of its calls. */
void history_add_reply(struct turn *t, const struct llm_reply *reply);
void history_add_answer(struct turn *t, const char *text, bool is_error);
/*
 * The messages of an earlier answer, in the turn's arena: calls with their results, then its words.
 * Returns how many; at most max.
 */
size_t history_messages(struct turn *t, const json_t *entry, size_t number, struct llm_message *ret,
                        size_t max);

#endif
