#ifndef RIDDLE_NL_NL_H
#define RIDDLE_NL_NL_H

/*
 * The planner without a model: an English question about tables becomes a QueryPlan, or a question
 * back, or an honest refusal. docs/planner.md tells how it works and how well.
 *
 *   nl_schema_create()           what there is to ask about
 *   nl_schema_add_table() …      tables, columns, and values that the columns have
 *   nl_schema_finish()           makes the index that words are looked up in
 *   nl_plan()                    as often as one likes; changes nothing in the schema
 */

#include <stdbool.h>
#include <stddef.h>
#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "plan/expr.h"

#define NL_QUESTION_MAX_BYTES 2000
#define NL_VALUES_PER_COLUMN 1000
#define NL_VALUE_MAX_BYTES 120
#define NL_CHOICES_MAX 5
#define NL_SCHEMA_ARENA_BYTES (256u << 20)
/* What nl_plan() takes from the arena at most; one of this size suffices for any question. */
#define NL_ARENA_BYTES (32u << 20)

struct nl_schema;

int nl_schema_create(const char *dataset_id, struct nl_schema **ret, struct err *err);
void nl_schema_destroy(struct nl_schema *s); /* NULL is fine */
/* Strings are copied. n_rows: -1 if not known. Both return an index, or a negative error. */
int nl_schema_add_table(struct nl_schema *s, const char *name, long long n_rows, struct err *err);
int nl_schema_add_column(struct nl_schema *s, int table, const char *name, const char *sql_type,
                         struct err *err);
/*
 * A value that the column has; those past NL_VALUES_PER_COLUMN and those that are too long are left
 * out.
 */
int nl_schema_add_value(struct nl_schema *s, int table, int column, const char *value,
                        struct err *err);
/* Least and greatest of a date column, as ISO text: "last 30 days" are those of the data. */
int nl_schema_set_range(struct nl_schema *s, int table, int column, const char *min,
                        const char *max, struct err *err);
/*
 * How many cells are empty, and whether the values number the rows: all different, with few gaps.
 * Such numbers are neither summed up nor averaged.
 */
void nl_schema_set_counts(struct nl_schema *s, int table, int column, long long nulls, bool serial);
/* "from" and "to" are "table.column". Evident ones are found without. */
int nl_schema_add_relationship(struct nl_schema *s, const char *from, const char *to,
                               struct err *err);
/* What people wrote about a column: a description, a unit. Its words lead questions to the column.
 */
int nl_schema_tell_column(struct nl_schema *s, int table, int column, const char *text,
                          struct err *err);
/* What people said a column is for: "id", "measure", "category" or "text". */
int nl_schema_set_role(struct nl_schema *s, int table, int column, const char *role,
                       struct err *err);
/*
 * A measure by name. The meaning is said as a question would say it ("sum of amount where status is
 * completed") or as a call ("sum(quantity * price) where …"); one that is not understood is left
 * out.
 */
int nl_schema_add_metric(struct nl_schema *s, const char *name, const char *meaning,
                         struct err *err);
int nl_schema_finish(struct nl_schema *s, struct err *err);

/* A value that is spelt like a text. Strings are the schema's. */
struct nl_like {
    const char *table, *column, *value;
    double score; /* 1: equal but for its case */
};
/* Of all text columns, the best first. */
size_t nl_values_like(const struct nl_schema *s, const char *text, struct nl_like *ret, size_t max);
/* Whether the schema has all values of a column that has so many different ones. */
bool nl_has_values(const struct nl_schema *s, int table, int column, long long distinct);

enum nl_status { NL_ANSWERED, NL_ASKED, NL_DECLINED, _NL_STATUS_MAX };
extern const char *const nl_status_names[_NL_STATUS_MAX];

struct nl_choice {
    const char *reading; /* "sum of `amount` by `category`, top 5" */
    json_t *plan;        /* owned by the answer, like the chart */
    json_t *chart;    /* {"mark","x","y","series"?} with Vega-Lite's words; NULL when none fits */
    const char *rule; /* of the reader by rules; NULL: by the other */
    const double *features; /* of a reading by weights; NULL: by rules */
    double score;
    double share;       /* of the weight of all readings */
    double probability; /* that this is what was meant */
};

struct nl_answer {
    enum nl_status status;
    struct nl_choice choices[NL_CHOICES_MAX]; /* the best first; may be none */
    size_t n_choices;
    double others;     /* weight of what is not among the choices, "none of these" included */
    double *evidence;  /* for the confidence in the best choice; NULL: its share is all there is */
    bool expects_one;  /* the question speaks of one thing: "what is", "who has" */
    bool must_ask;     /* a word means nothing here, or two columns equally well */
    bool unnamed;      /* the question does not name the only table that there is */
    json_t *meanings;  /* by rules: [{"text", "is"}] of words that name data; NULL: not known */
    const char *meant; /* the question that it was read as, with words of the one before; NULL */
    const char *suggestions[3]; /* when declined: questions that work on this data */
    size_t n_suggestions;
    const char *reason;            /* when declined: the kind of question; NULL */
    const char *not_understood[6]; /* words that mean nothing here */
    size_t n_not_understood;
};

/*
 * What a question costs to read: its words times the columns. Some thousand of them take 30 ms, and
 * NL_EFFORT_MAX a second; a question beyond that is declined.
 */
#define NL_EFFORT_MAX 300000u
size_t nl_effort(const struct nl_schema *s, const char *question);

/*
 * What was asked just before, for questions that lean on it ("and by region?", "only the returned
 * ones", "as a chart"). A question that is complete in itself is read without. Both may be NULL;
 * both are the caller's.
 */
struct nl_context {
    const json_t *previous_plan; /* a plan that nl_plan() gave, or any other over the same tables */
    const char *previous_question;
};

/*
 * Strings live in the arena. ctx: NULL when nothing came before. VALIDATION when the question is
 * too long or not UTF-8.
 */
int nl_plan(const struct nl_schema *s, const char *question, const struct nl_context *ctx,
            struct arena *a, struct nl_answer *ret, struct err *err);
void nl_answer_finish(struct nl_answer *answer);

/*
 * Questions to try, about the best columns of the table with the most to sum up. Each was planned,
 * and answered. At most `max` into ret; the texts live in the arena. How many there are.
 */
size_t nl_prompts(const struct nl_schema *s, struct arena *a, const char **ret, size_t max);

/*
 * Decides again, knowing what the readings give. rows[i] belongs to choices[i]: an array of rows,
 * or NULL if it was not run or failed. Readings that give the same rows are one answer, and an
 * empty one speaks against its reading. The choices are put in a new order; ret_order[i] is where
 * choice i was before.
 */
void nl_settle(struct nl_answer *answer, const json_t *const *rows,
               size_t ret_order[NL_CHOICES_MAX]);

/*
 * For the trainer: what the confidence in the answer is made of, {name: value}. NULL: there is no
 * such. New reference.
 */
json_t *nl_evidence_json(const struct nl_answer *answer);

/*
 * For the trainer: every candidate as {"plan", "reading", "features": {name: value}, "score"}. New
 * reference.
 */
void nl_result_features(bool expects_one, const json_t *rows, json_t *features);
int nl_candidates(const struct nl_schema *s, const char *question, struct arena *a, json_t **ret,
                  struct err *err);

/*
 * How a question was read: {"words": [{"text", "is", "used"?}], "rule"?, "complete",
 * "not_understood", "reason"?, "candidates"}. New reference.
 */
int nl_explain(const struct nl_schema *s, const char *question, struct arena *a, json_t **ret,
               struct err *err);

#endif
