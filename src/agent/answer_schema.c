/*
 * "What columns are there?" without a model: answered from what is known of the tables. A question
 * is taken for this only if each of its words is one of such questions, or names a table.
 */

#include <ctype.h>
#include <string.h>
#include <strings.h>
#include "agent/agent_impl.h"
#include "base/str.h"

#define WORD_MAX 64
#define COLUMNS_SAID 60 /* of a table, in the text; the result has all */

static const char *const subjects[] = { "column",    "columns",   "field",      "fields",
                                        "schema",    "schemas",   "structure",  "tables",
                                        "variables", "attribute", "attributes", "headers" };
static const char *const fillers[] = {
    "a",        "about", "an",      "and",      "are",      "available", "can",   "contain",
    "contains", "data",  "dataset", "datasets", "describe", "do",        "does",  "each",
    "every",    "file",  "files",   "for",      "give",     "has",       "have",  "here",
    "i",        "in",    "is",      "it",       "its",      "kind",      "list",  "me",
    "my",       "name",  "names",   "of",       "on",       "please",    "set",   "show",
    "table",    "tell",  "that",    "the",      "their",    "there",     "these", "this",
    "type",     "types", "we",      "what",     "which",    "with",      "you",
};

static bool is_among(const char *word, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (str_eq(word, list[i]))
            return true;
    return false;
}

static const json_t *find_table(const struct turn *t, const char *word)
{
    size_t i;
    json_t *table;
    json_array_foreach(json_object_get(catalog_describe(t->chat->catalog), "tables"), i, table)
        if (str_ieq(json_string_value(json_object_get(table, "name")), word))
            return table;
    return NULL;
}

/* The one table that is named, NULL for all; false when the question is another one. */
static bool read_question(const struct turn *t, const json_t **ret_table)
{
    const char *p = t->message;
    bool has_subject = false;
    *ret_table = NULL;
    while (*p) {
        char word[WORD_MAX];
        size_t n = 0;
        for (; isalnum((unsigned char)*p) || *p == '_' || (unsigned char)*p >= 0x80; p++) {
            if (n + 1 >= sizeof(word))
                return false;
            word[n++] = (char)tolower((unsigned char)*p);
        }
        word[n] = '\0';
        if (n == 0) {
            if (!strchr(" \t\r\n.,?!:;'\"`", *p))
                return false;
            p++;
            continue;
        }
        const json_t *table = find_table(t, word);
        bool subject = is_among(word, subjects, ARRAY_SIZE(subjects));
        if (!table && !subject && !is_among(word, fillers, ARRAY_SIZE(fillers)))
            return false;
        has_subject = has_subject || subject;
        if (table && *ret_table && table != *ret_table)
            return false;
        *ret_table = table ? table : *ret_table;
    }
    return has_subject;
}

static void add_table(struct turn *t, const json_t *table, json_t *rows)
{
    const json_t *columns = json_object_get(table, "columns");
    const char *name = json_string_value(json_object_get(table, "name"));
    struct err err = ERR_INIT;
    size_t i;
    json_t *column;
    (void)buf_printf(&t->text, &err,
                     "%s`%s` has %lld rows and these columns: ", t->text.len ? "\n" : "", name,
                     (long long)json_integer_value(json_object_get(table, "row_count")));
    json_array_foreach(columns, i, column) {
        json_array_append_new(rows, json_pack("[s, O, O]", name, json_object_get(column, "name"),
                                              json_object_get(column, "type")));
        if (i < COLUMNS_SAID)
            (void)buf_printf(&t->text, &err, "%s%s (%s)", i ? ", " : "",
                             json_string_value(json_object_get(column, "name")),
                             json_string_value(json_object_get(column, "type")));
    }
    if (i > COLUMNS_SAID)
        (void)buf_printf(&t->text, &err, " and %zu more", i - COLUMNS_SAID);
    (void)buf_append_str(&t->text, ".", &err);
}

bool answer_by_schema(struct turn *t)
{
    const json_t *one;
    size_t i, most = (size_t)turn_cfg(t)->max_rows;
    json_t *table, *rows = json_array();
    if (!read_question(t, &one)) {
        json_decref(rows);
        return false;
    }
    json_array_foreach(json_object_get(catalog_describe(t->chat->catalog), "tables"), i, table)
        if (!one || table == one)
            add_table(t, table, rows);
    bool cut = json_array_size(rows) > most;
    while (json_array_size(rows) > most)
        json_array_remove(rows, json_array_size(rows) - 1);
    t->result = json_pack("{s:[s, s, s], s:[s, s, s], s:o, s:I, s:b, s:i, s:n}", "columns", "table",
                          "column", "type", "types", "VARCHAR", "VARCHAR", "VARCHAR", "rows", rows,
                          "row_count", (json_int_t)json_array_size(rows), "truncated", cut,
                          "exec_time_ms", 0, "error");
    t->status = "succeeded";
    turn_finish(t);
    return true;
}
