#ifndef RIDDLE_NL_NL_IMPL_H
#define RIDDLE_NL_NL_IMPL_H

/*
 * What the files of the planner share. The way of a question: token.c, link.c, read.c, assemble.c,
 * judge.c, build.c, nl.c, settle.c.
 */

#include <stdint.h>

#include "base/macros.h"
#include "base/str.h"
#include "nl/lexicon.h"
#include "nl/nl.h"
#include "plan/plan_schema.h"
#include "plan/query_plan.h"

#define NL_MAX_TOKENS 96
#define NL_MAX_MENTIONS 96
#define NL_MAX_WORDS 10  /* of a name */
#define NL_MAX_TABLES 64 /* of a schema */
#define NL_MAX_SELECT 12
#define NL_MAX_FILTERS 12
#define NL_MAX_CANDIDATES 160
#define NL_SCOPE_TABLES 16

/* ---- schema ---- */

struct nl_tokens;

struct nl_name {
    const char *words[NL_MAX_WORDS];
    const char *shortened[NL_MAX_WORDS]; /* as it is written, if that is an abbreviation; NULL */
    const char *stems[NL_MAX_WORDS];
    double weights[NL_MAX_WORDS];
    uint64_t synonyms[NL_MAX_WORDS][2];     /* a bit for each group that the word belongs to */
    const struct nl_lex *lex[NL_MAX_WORDS]; /* NULL: not looked up */
    int n;
};

enum nl_formula_kind { FORMULA_REVENUE, FORMULA_DURATION, FORMULA_DIFFERENCE };

/* How a column is computed from others of its table. */
struct nl_formula {
    enum nl_formula_kind kind;
    int quantity, price, discount; /* revenue: quantity * price * (1 - discount); < 0: none */
    bool percent;                  /* the discount is 15, not 0.15 */
    int from, to;                  /* duration, difference: to - from */
    int seconds;                   /* duration: of its unit */
};

#define NL_TOLD_WORDS 40

/* Stems of a description and a unit that lead to the column. */
struct nl_told {
    const char *stems[NL_TOLD_WORDS];
    int n;
};

#define NL_METRICS_MAX 100

/* A measure that people named. What is below `meaning` is known once a question names it. */
struct nl_metric {
    const char *name;
    struct nl_name words;
    const char *meaning;
    int table;
    const char *func, *column; /* column "*": rows */
    const char *expr;          /* in the column's place; NULL: the column itself */
    const char *phrase;        /* what a question says for it: "total amount" */
    json_t *filters;           /* owned; NULL: none */
};

struct nl_column {
    const char *name;
    const char *sql_type;
    enum plan_type type;
    struct nl_name words;
    bool is_id;        /* named as a key */
    bool is_name;      /* what rows are called by */
    bool is_numeric;   /* numbers, or texts nearly all of which read as numbers */
    bool numeric_text; /* the latter */
    bool is_flag;      /* boolean, or two values such as yes and no */
    bool is_unique;    /* no value comes twice */
    bool many_values;  /* not all are known */
    bool is_key;       /* an id that every row has its own of, as far as is known */
    bool is_serial;    /* numbers the rows: all different, with few gaps */
    bool has_nulls;
    bool is_rate;         /* averaged rather than summed up: prices, scores, temperatures */
    const char *role;     /* what people said it is for; NULL: nothing */
    const char *yes, *no; /* the values of a flag, as the column has them */
    const struct nl_formula
        *formula;         /* computed from others of its table; NULL for a column of the data */
    struct nl_told *told; /* words that people described it with; NULL: none */
    const char *min, *max;
    const char **values;
    size_t n_values, cap_values;
};

struct nl_table {
    const char *name;
    long long n_rows;
    struct nl_name words;
    struct nl_column *columns;
    int n_columns, cap_columns;
};

struct nl_value {
    struct nl_value *next;
    const char *key; /* stems with a space between them */
    int table, column;
    const char *text;
    bool is_part; /* the key is only one word of it */
};

struct nl_link_key { /* two tables join where these columns are equal */
    int from_table, from_column, to_table, to_column;
    bool declared;
    bool by_values; /* found in the data */
};

struct nl_schema {
    struct arena arena;
    const char *dataset_id;
    struct nl_table tables[NL_MAX_TABLES];
    int n_tables;
    int only; /* the only table that has columns; -1: there are several */
    struct nl_link_key *keys;
    int n_keys, cap_keys;
    struct nl_metric metrics[NL_METRICS_MAX];
    int n_metrics;
    struct nl_value **buckets;
    size_t n_buckets;
    bool finished;
    struct plan_schema
        *plan_schema; /* the same for the compiler; NULL if it has names that a plan cannot say */
};

/* ---- what people wrote: told.c ---- */

/* Keeps the words of descriptions that lead to a column. After the index of values is made. */
void nl_told_finish(struct nl_schema *s);
/* How well tokens [i, end) are words of the column's description; 0: one is not. `told` is there.
 */
double nl_told_score(const struct nl_column *c, const struct nl_tokens *q, int i, int end);
/*
 * The question with the measure in the place of a metric's name, in the arena, and the metric,
 * whose filters the caller releases. NULL: it names none that is understood.
 */
const char *nl_told_rewrite(const struct nl_schema *s, const char *question, struct arena *a,
                            struct nl_metric *ret);
/* Makes the metric of its measure in every choice, and drops those that have none. */
void nl_told_apply(const struct nl_schema *s, const struct nl_metric *m, struct arena *a,
                   struct nl_answer *answer);
/* nl_plan() without what came before and without metrics. */
int nl_plan_plain(const struct nl_schema *s, const char *question, struct arena *a,
                  struct nl_answer *ret, struct err *err);

/* The date column of the table's own rows; nobody means that of birth without saying so. -1: none.
 */
int nl_own_date(const struct nl_table *t);

/* The first value of this key, or the next after one. NULL: none. */
const struct nl_value *nl_find_value(const struct nl_schema *s, const char *key,
                                     const struct nl_value *after);

/* ---- other languages: languages.c ---- */

/* A question in German, French or Spanish in English words, in the arena. NULL: it is in none. */
const char *nl_in_english(const struct nl_schema *s, const char *question, struct arena *a);

/* ---- tokens ---- */

struct nl_token {
    const char *text; /* lower case */
    const char *stem;
    const char *raw;
    bool quoted; /* the whole is between quotes, and may hold several words */
    bool capital;
    bool is_stop; /* carries no meaning of its own */
    bool is_number;
    bool is_ordinal;
    bool is_operator; /* "average", "most" */
    bool comma_after, comma_before;
    bool begins_sentence; /* the second one */
    uint64_t synonyms[2];
    const struct nl_lex *lex; /* NULL: not looked up */
    const char *near;         /* the stem of a name that it is used like; NULL: none */
    double number;
};

struct nl_tokens {
    struct nl_token t[NL_MAX_TOKENS];
    int n;
};

int nl_tokenize(const char *question, struct arena *a, struct nl_tokens *ret, struct err *err);
/* The stem of a word in lower case, in the arena. NULL when it is full. */
static inline bool nl_is_one_of(const char *word, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (str_eq(word, list[i]))
            return true;
    return false;
}
#define ONE_OF(word, ...)                                                                          \
    nl_is_one_of((word), (const char *const[]){ __VA_ARGS__ },                                     \
                 ARRAY_SIZE(((const char *const[]){ __VA_ARGS__ })))

const char *nl_stem(struct arena *a, const char *word);
/* "qty" is "quantity"; NULL for what is no abbreviation. */
const char *nl_in_full(const char *word);
bool nl_is_stop(const char *word);
/* snake_case, camelCase and spaced names into words. */
int nl_split_name(struct arena *a, const char *name, struct nl_name *ret);
void nl_lighten_units(struct nl_name *n);
bool nl_number_word(const char *word, double *ret);
int nl_edit_distance(const char *a, const char *b, int limit);
/* How well a word of a name and a word of a question agree, 0 to 1. */
double nl_word_match(const struct nl_name *name, int word, const struct nl_token *t);
void nl_synonym_groups(const char *stem, uint64_t ret[2]);
/* The word's entry in the lexicon, in the arena; NULL: it has none. */
const struct nl_lex *nl_lex_of(struct arena *a, const char *word);
/* Lower-cased, punctuation dropped, stems with a space between: what values are looked up by. */
const char *nl_value_key(struct arena *a, const char *text);

/* ---- mentions ---- */

enum nl_mark {
    MARK_NONE,
    MARK_COUNT,  /* how many, number of */
    MARK_AGG,    /* arg: enum plan_func */
    MARK_SUPER,  /* arg: 1 greatest, -1 least */
    MARK_COMMON, /* most common; arg: 1, -1 */
    MARK_CMP,    /* arg: enum plan_filter_op */
    MARK_BETWEEN,
    MARK_GROUP, /* each, per */
    MARK_BY,    /* by */
    MARK_ORDER, /* sorted by */
    MARK_ALPHA,
    MARK_ASC,
    MARK_DESC,
    MARK_DISTINCT,
    MARK_NOT,
    MARK_OR,
    MARK_AND,
    MARK_WHERE,    /* what follows narrows */
    MARK_CONTAINS, /* arg: enum plan_filter_op */
    MARK_NULL,
    MARK_SHARE,
    MARK_TOP,    /* arg: 1 top, -1 bottom */
    MARK_BUCKET, /* arg: enum plan_bucket */
    MARK_LAST,   /* last 30 days */
    MARK_WHO,
    MARK_WHEN,
    MARK_HOWMUCH,
    MARK_TREND,
    MARK_DIFF,     /* difference between, how many more */
    MARK_FIRSTROW, /* arg: 1 first, -1 last */
    MARK_AFTER,    /* next after, previous */
    MARK_MORE,     /* which is higher; arg: 1, -1 */
    MARK_TIMES,    /* working hours, weekends; arg: enum nl_times */
    MARK_OUT,      /* out of stock */
    MARK_UNREAD,   /* times that are not understood: summer, yesterday */
    MARK_COMPARE,  /* how does … differ */
    MARK_SAME,     /* the same … as */
    _MARK_MAX
};

enum nl_times { TIMES_WORK, TIMES_WEEKEND, TIMES_WEEKDAYS, TIMES_DAY /* + 0 for Sunday … */ };

struct nl_phrase {
    const char *words; /* separated by a space */
    enum nl_mark mark;
    int arg;
    const char *
        hint; /* stems of the columns that an adjective speaks of, '|' between; '-' before one: the other way */
};
extern const struct nl_phrase nl_phrases[];
extern const size_t nl_n_phrases;

enum nl_kind { KIND_MARK, KIND_COLUMN, KIND_VALUE, KIND_NUMBER, KIND_TABLE, KIND_DATE, KIND_TEXT };

struct nl_ref { /* a column of the scope; table < 0: none */
    int table, column;
};

struct nl_mention {
    enum nl_kind kind;
    int start, end; /* tokens */
    double score;
    struct nl_ref ref;
    struct nl_ref other; /* a column that fits nearly as well; table < 0: none */
    double other_score;
    enum nl_mark mark;
    int arg;
    const char *hint;
    const char *text; /* VALUE, TEXT */
    double number;
    int table;
    char from[11], to[11]; /* DATE: first day, last day */
    bool used;
    bool is_part;  /* VALUE: `text` is a word that values of the column contain */
    bool is_piece; /* VALUE: only a word of it was said */
};

struct nl_mentions {
    struct nl_mention m[NL_MAX_MENTIONS];
    int n;
};

struct nl_scope {
    int tables[NL_SCOPE_TABLES];
    int n;
    const struct nl_link_key *keys[NL_SCOPE_TABLES]; /* how each joins one before it; [0]: none */
};

/*
 * The key by which rows of the table are found from others of the scope: a join repeats them.
 * NULL: there is none.
 */
static inline const struct nl_link_key *nl_key_to(const struct nl_scope *scope, int table)
{
    for (int i = 1; i < scope->n; i++)
        if (scope->keys[i]->to_table == table)
            return scope->keys[i];
    return NULL;
}

static inline bool nl_in_scope(const struct nl_scope *scope, int table)
{
    for (int i = 0; i < scope->n; i++)
        if (scope->tables[i] == table)
            return true;
    return false;
}

/* ---- scope.c ---- */

#define NL_SCOPES_MAX 14

/*
 * The tables that are worth a reading, alone and joined, the best first. said becomes how well each
 * is spoken of. Returns how many, or a negative error.
 */
int nl_find_scopes(const struct nl_schema *s, const struct nl_tokens *q,
                   double said[NL_MAX_TABLES], struct arena *a,
                   struct nl_scope ret[NL_SCOPES_MAX], struct err *err);

/* Spans that could be mentions, in the making. */
struct nl_spans;
/* One more; the caller fills in the rest. NULL: there is no room. */
struct nl_mention *nl_add_span(struct nl_spans *sp, enum nl_kind kind, int start, int end,
                               double weight);

/* What a reader links by, beside names and values. */
struct nl_linker {
    const struct nl_phrase *phrases;
    size_t n_phrases;
    void (*more)(void *ctx, struct nl_spans *sp); /* may be NULL */
    void *ctx;
};
/* How well tokens [i, end) name something; 0 if one of them does not belong to it. */
double nl_name_score(const struct nl_name *n, const struct nl_tokens *q, int i, int end);
int nl_link_by(const struct nl_schema *s, const struct nl_scope *scope, const struct nl_tokens *q,
               const struct nl_linker *linker, struct arena *a, struct nl_mentions *ret,
               struct err *err);
/* Which words of the question speak of what in the scope. */
int nl_link(const struct nl_schema *s, const struct nl_scope *scope, const struct nl_tokens *q,
            struct arena *a, struct nl_mentions *ret, struct err *err);
/*
 * Words that a name or a value has are not linked by their meaning. Others may be linked to a name
 * that is used like them, if one is clearly nearer than the rest.
 */
void nl_prefer_names(const struct nl_schema *s, struct nl_tokens *q);
/* Whether token `at` belongs to a phrase that the reader by weights knows. */
bool nl_in_phrase(const struct nl_tokens *q, int at);
/* Takes the second best of whatever is ambiguous. */
void nl_alternate(struct nl_mentions *m);
/* How well a table's name is spoken of, 0 to 1. */
double nl_table_mentioned(const struct nl_schema *s, int table, const struct nl_tokens *q);
/*
 * A date or a range of days that starts at token i; returns how many tokens it takes, 0 for none.
 */
int nl_read_date(const struct nl_tokens *q, int i, char from[11], char to[11]);
/* A month without its year: as nl_read_date(), of the year 0. */
int nl_read_month(const struct nl_tokens *q, int i, char from[11], char to[11]);
/* Puts the latest year into [from, to] for which it begins by `max`, the last day of the data. */
bool nl_place_month(const char *max, char from[11], char to[11]);
/* "2024-03-01 10:00:00" or a day, some hours earlier. */
bool nl_add_hours(const char *at, int n, char ret[20]);
/* day, n months earlier or later. */
bool nl_add_months(const char *day, int n, char ret[11]);
/* day + n, both ISO. False if `day` is none. */
bool nl_add_days(const char *day, int n, char ret[11]);

/* ---- readings ---- */

/* Parts of a date that repeat, beside the buckets of enum plan_bucket. */
enum nl_part { PART_WEEKDAY = 100, PART_WEEKDAY_NUMBER, PART_HOUR, PART_MONTH };

struct nl_item {
    struct nl_ref ref; /* table < 0: rows, for count */
    int func;          /* enum plan_func, -1: the plain column */
    int bucket;        /* enum plan_bucket or nl_part, -1: none */
    bool is_share;     /* percentage of rows (or of the sum of ref) for which the filters hold */
    bool is_part;      /* percentage of what all groups have together */
    bool hidden_key;   /* shown only because rows are ordered by it */
};

struct nl_filter {
    struct nl_ref ref;
    enum plan_filter_op op;
    const char *text[8];
    int n_texts;
    double number[2];
    int n_numbers;
    bool is_or; /* joined to the one before by or */
    bool negated;
    bool is_literal; /* a text that was quoted: its case counts */
    int part;        /* enum nl_part: this part of the date is compared; 0: the whole */
    bool in_share;   /* counted in a share; the others say of what */
    int around;      /* -1, 1: it is the row before or after that fits */
    /* enum plan_func of an aggregate on ref (rows when ref is none); -1: a filter on rows */
    int having;
    int than; /* enum plan_func + 1: compared with that of all rows; 0: with what was said */
    const struct nl_reading *inner; /* its values are looked for among those of this; NULL: no */
};

struct nl_reading {
    struct nl_scope scope;
    struct nl_item select[NL_MAX_SELECT];
    int n_select;
    bool distinct;
    struct nl_filter filters[NL_MAX_FILTERS];
    int n_filters;
    struct nl_item group[3];
    int n_group;
    struct nl_item order[3];
    int order_dir[3];
    int n_order;
    int limit;  /* 0: none */
    bool share; /* of the rows: the filters move into the numerator */
    int diff;   /* difference of two rows' values: filters[0] and [1] name them */
};

enum nl_feature {
#define X(id, name) FEATURE_##id,
#include "nl/features.inc"
#undef X
    _FEATURE_MAX
};
extern const char *const nl_feature_names[_FEATURE_MAX];
/* [1] is added to [0] where the question does not name the only table that there is. */
extern const double nl_weights[_FEATURE_MAX][2];
double nl_score(const double *features, bool unnamed);

/* What the confidence in a reading is made of: confidence.c. */
enum nl_evidence {
#define X(id, name) EVIDENCE_##id,
#include "nl/evidence.inc"
#undef X
    _EVIDENCE_MAX
};
extern const char *const nl_evidence_names[_EVIDENCE_MAX];
struct frame;
/*
 * Notes what the words tell. best: the best reading by weights, NULL if there is none; share:
 * its part
 * of all of those. Sets ret->evidence, in the arena.
 */
struct nl_candidate;
void nl_evidence_begin(const struct nl_schema *s, const struct frame *f, bool complete,
                       const struct nl_candidate *best, double share, struct arena *a,
                       struct nl_answer *ret);
/* Evidence for the best choice, whose share is known. */
void nl_evidence_of(const struct nl_answer *a, double ret[_EVIDENCE_MAX]);
/* How likely the best choice is right. */
double nl_confidence(const struct nl_answer *a);

struct nl_candidate {
    struct nl_reading reading;
    double features[_FEATURE_MAX];
    double score;
    json_t *plan;
    char *key; /* the plan as text */
};

/* The variants of a reading that parse.c is asked for. */
enum nl_variant {
    VARIANT_DISTINCT = 1 << 0,  /* the other way than the words say */
    VARIANT_COUNT = 1 << 1,     /* the count's second meaning */
    VARIANT_SUPER = 1 << 2,     /* the superlative's second meaning */
    VARIANT_DEFAULT = 1 << 3,   /* other columns where none are named */
    VARIANT_GROUP = 1 << 4,     /* group by a column that is merely shown, or don't */
    VARIANT_ALTERNATE = 1 << 5, /* the second best of ambiguous columns */
    _VARIANT_END = 1 << 6,
    VARIANT_FRAGMENT = 1 << 7 /* no whole question: words that say what to do suffice */
};

/*
 * A reading in the making. Passes over the mentions take what they understand (`used`) and leave
 * the rest to the next.
 */
struct nl_parse {
    const struct nl_schema *s;
    const struct nl_tokens *q;
    unsigned variant;
    struct nl_mentions mentions;
    struct nl_reading *r;
    double *f; /* features */
    struct arena *arena;
    int filter_at[NL_MAX_FILTERS]; /* the mention that each filter came from */
};

/* Mention i, or NULL when there is none. */
static inline struct nl_mention *nl_at(struct nl_parse *p, int i)
{
    return i >= 0 && i < p->mentions.n ? &p->mentions.m[i] : NULL;
}
static inline bool nl_is_mark(const struct nl_mention *m, enum nl_mark mark)
{
    return m && m->kind == KIND_MARK && m->mark == mark;
}
/* Words between the ends of two mentions that are neither empty nor understood. */
int nl_gap(const struct nl_parse *p, const struct nl_mention *a, const struct nl_mention *b);
bool nl_is_date(const struct nl_column *c);
bool nl_is_year(const struct nl_column *c);
/* The column that an adjective's hint speaks of; *ret_reversed if it runs the other way. */
/* The id that names rows of the table, e.g. sensor_id of sensors. False if there is none. */
bool nl_own_id(const struct nl_schema *s, int table, struct nl_ref *ret);
/* Puts questions into a declined answer that work on this data. */
void nl_suggest(const struct nl_schema *s, struct arena *a, struct nl_answer *ret);
/* What "how much" is of: an amount, a price. */
bool nl_money_measure(const struct nl_schema *s, int table, struct nl_ref *ret);
/* What "the value of an order" means: that, or the only number there is. */
bool nl_main_measure(const struct nl_schema *s, int table, struct nl_ref *ret);
bool nl_hint_column(const struct nl_parse *p, const char *hint, struct nl_ref *ret,
                    bool *ret_reversed);
bool nl_date_column(struct nl_parse *p, struct nl_ref *ret);
struct nl_filter *nl_add_filter(struct nl_parse *p, struct nl_ref ref, enum plan_filter_op op,
                                int mention);
void nl_add_text(struct nl_filter *f, const char *text);
bool nl_year_column(struct nl_parse *p, struct nl_ref *ret);
/* Compares a column with a number, or with the days [from, to]. */
void nl_number_filter(struct nl_parse *p, struct nl_ref ref, enum plan_filter_op op, double n,
                      int mention);
void nl_date_filter(struct nl_parse *p, struct nl_ref ref, enum plan_filter_op op, const char *from,
                    const char *to, int mention);
bool nl_comparable(const struct nl_parse *p, const struct nl_mention *m);
void nl_read_comparisons(struct nl_parse *p);
void nl_read_ranges(struct nl_parse *p);
/* "higher than the average" */
void nl_read_than(struct nl_parse *p);
void nl_read_filters(struct nl_parse *p);

/* 0 and a reading with its features; 1 when these words make none. */
int nl_read(const struct nl_schema *s, const struct nl_scope *scope, const struct nl_tokens *q,
            unsigned variant, const struct nl_mentions *mentions, const double *table_scores,
            struct arena *a, struct nl_candidate *ret, struct err *err);

/* ---- derive.c ---- */

#define NL_DERIVED_MAX 8
/* Readings that follow from one, with their features. Returns how many. */
int nl_derive(const struct nl_schema *s, const struct nl_tokens *q, const struct nl_candidate *from,
              struct arena *a, struct nl_candidate *ret[NL_DERIVED_MAX]);

/*
 * A question that leans on the one before. 1 and an answer; 0 when it does not,
 * NL_FOLLOW_UNREAD when
 * it is not understood.
 */
#define NL_FOLLOW_UNREAD 2
#define FOLLOW_OTHERS                                                                              \
    0.01 /* how far such a reading is to be doubted, against its own weight of 1 */
/*
 * The question before with words of this one in it, in the arena; NULL: it does not lean on that.
 */
int nl_follow_words(const struct nl_schema *s, const char *before, const char *question,
                    struct arena *a, const char **ret, struct err *err);
int nl_follow(const struct nl_schema *s, const char *question, const struct nl_context *ctx,
              struct arena *a, struct nl_answer *ret, struct err *err);

/* Whether it compiles; what does not is no reading. */
bool nl_is_valid(const struct nl_schema *s, const json_t *plan);
json_t *nl_filter_json(const struct nl_schema *s, const struct nl_reading *r,
                       const struct nl_filter *f, struct arena *a);
json_t *nl_item_json(const struct nl_schema *s, const struct nl_reading *r,
                     const struct nl_item *item, struct arena *a);
/* "avg", "amount" → avg_amount */
const char *nl_func_alias(int func, const char *column, struct arena *a);
/* The column as an expression has it; number: as a number where it is a text that holds one. */
const char *nl_expr_of(const struct nl_schema *s, const struct nl_reading *r, struct nl_ref ref,
                       bool number, struct arena *a);
/* A filter as an expression. False: it cannot be said. */
bool nl_append_condition(const struct nl_schema *s, const struct nl_reading *r,
                         const struct nl_filter *f, struct buf *b, struct arena *a);
json_t *nl_build_plan(const struct nl_schema *s, const struct nl_reading *r, struct arena *a);
const char *nl_describe(const struct nl_schema *s, const struct nl_reading *r, struct arena *a);
/* "average of `price`" */
const char *nl_describe_item(const struct nl_schema *s, const struct nl_item *item,
                             struct arena *a);
/* " where …", or "" without a filter. */
const char *nl_describe_filters(const struct nl_schema *s, const struct nl_reading *r,
                                struct arena *a);
json_t *nl_chart(const struct nl_schema *s, const struct nl_reading *r, struct arena *a);
bool nl_expects_one(const struct nl_tokens *q);
void nl_decide(struct nl_answer *answer);
/* What an item is called in the result. */
/* A name that needs no quotes: what is no letter and no digit of any script becomes one '_'. */
const char *nl_name_of(const char *text, struct arena *a);
const char *nl_alias(const struct nl_schema *s, const struct nl_reading *r,
                     const struct nl_item *item, struct arena *a);

static inline const struct nl_column *nl_col(const struct nl_schema *s, struct nl_ref ref)
{
    return ref.table < 0 ? NULL : &s->tables[ref.table].columns[ref.column];
}

#endif
