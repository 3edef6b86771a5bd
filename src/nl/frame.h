#ifndef RIDDLE_NL_FRAME_H
#define RIDDLE_NL_FRAME_H

/*
 * The reader by rules. It accounts for every word of a question before it answers: a word is
 * linked to
 * a table, a column, a value, a time or a phrase that is used, or it is a function word, or it is
 * named
 * as not understood, and then there is no answer. The way: frame_link.c (what each word is),
 * frame_time.c, frame_filters.c, frame_shape.c (what is asked for), frame_rules.c (the kinds of
 * questions, a table of rules tried in order), frame.c (joins, what was left over).
 */

#include "base/macros.h"
#include "base/str.h"
#include "nl/nl_impl.h"

#define FRAME_MEASURES 4
#define FRAME_TIMES 16
#define FRAME_UNKNOWN 6

enum fr_mark {
    FM_NONE,
    FM_COUNT,
    FM_AGG,    /* arg: enum plan_func */
    FM_SUPER,  /* arg: 1, -1; hint: columns that the adjective speaks of */
    FM_COMMON, /* arg: 1, -1 */
    FM_CMP,    /* arg: enum plan_filter_op; hint "<": the number stands before */
    FM_BETWEEN,
    FM_EACH, /* per, for each */
    FM_BY,
    FM_ORDER, /* arg: 1 highest first, -1, 0: not said */
    FM_DISTINCT,
    FM_NOT, /* arg: 1 for what goes with nouns: no, without */
    FM_OR,
    FM_AND,
    FM_CONTAINS, /* arg: enum plan_filter_op */
    FM_NULL,
    FM_SHARE,
    FM_RATE,
    FM_TOP,    /* arg: 1, -1 */
    FM_BUCKET, /* arg: enum plan_bucket or nl_part; hint "!": groups by itself */
    FM_VS,
    FM_CHANGE, /* arg: 1 in per cent */
    FM_RUNNING,
    FM_CORR,
    FM_OUTLIER, /* arg: 1 high, -1 low, 0 both */
    FM_DIST,
    FM_RATIO,
    FM_DIFF,
    FM_THAN_AVG, /* arg: enum plan_filter_op */
    FM_COLUMNS,
    FM_DESCRIBE,
    FM_ROWS,
    FM_RANK,
    FM_ONAVG,
    FM_DECLINE, /* hint: what it is */
    FM_MORE,    /* more, less, higher …, in comparisons; arg: 1, -1 */
    FM_ANY,     /* is there any */
    FM_WHEN,
    FM_WHO,
    FM_FIRST, /* first, latest: by date; arg: -1 earliest, 1 latest */
    FM_TREND,
    FM_TIME, /* of frame_time.c; arg: index into times */
    FM_OUT,  /* out of stock: there are none */
    FM_LIGHT,
    FM_ADVERB, /* how long, how old; hint: columns */
    FM_UNREAD, /* says something that only a value or a flag could answer */
    _FM_MAX
};

extern const struct nl_phrase fr_phrases[];
extern const size_t fr_n_phrases;

bool fr_is_light(const char *word);
/*
 * The ways to write the country that a word speaks of: "german" → germany, de, …; NULL: none.
 */
const char *const *fr_country(const char *word);
/* Pairs of opposites, by stem; NULL: none. */
const char *fr_opposite(const char *stem, int n);
/* How many of the column's own unit one of the said unit is; 0: they do not go together. */
double fr_unit_factor(const struct nl_column *c, const char *said);
bool fr_is_unit(const char *word);
/* Whether the column's name says its unit. */
bool fr_has_unit(const struct nl_column *c);

enum fr_time_kind {
    TIME_DAYS,    /* from, to */
    TIME_MONTH,   /* a: first month, b: how many; the year is that of the data */
    TIME_LAST,    /* a: n, b: unit; n 0: the unit before the one that the data ends in */
    TIME_THIS,    /* b: unit */
    TIME_DAY,     /* a: days back from the end */
    TIME_WEEKDAY, /* a: 0 Sunday …; 7: weekend, 8: weekdays */
    TIME_HOUR,    /* a: from, b: to (not with it) */
    TIME_PART /* a month without its year in `from`: a: month, b: first day, n_days in `to`… */
};

struct fr_time {
    enum fr_time_kind kind;
    int a, b, month, day_from, day_to;
    char from[11], to[11];
    int mention;
    struct nl_ref ref; /* the column, once it is known */
    int op;            /* -1: within; else enum plan_filter_op */
    int upto;          /* index of the time that ends the range; -1: none */
    bool used, open_end;
};

struct frame {
    const struct nl_schema *s;
    struct arena *a;
    struct nl_tokens *q;
    struct nl_scope all; /* of every table, for linking */
    struct nl_mentions m;
    struct fr_time times[FRAME_TIMES];
    int n_times;
    struct nl_reading r;

    int head;   /* table that the question is about, as its words say; -1 */
    int anchor; /* table whose rows are counted or listed */
    struct nl_item measures[FRAME_MEASURES];
    int n_measures;
    bool said[_FM_MAX]; /* marks of the question */
    bool counts;        /* how many */
    struct nl_ref counted;
    int super, super_n, nth; /* direction; how many; the second, the third */
    bool super_rows;         /* rows are ordered, not groups */
    bool super_amount;       /* the most of something: sums are ordered, not rows */
    struct nl_item by;       /* what the superlative orders by; func -1 with ref none: count */
    bool has_by;
    struct nl_ref entity;  /* whose rows or groups; column < 0: the table's */
    bool entity_plural;    /* "which agents have": several */
    bool entity_many;      /* its word is a plural */
    bool entity_one;       /* its word is a singular */
    int entity_bucket;     /* months, weekdays: the best of those; -1 */
    bool within;           /* of each group: top n per group */
    int per;               /* table that a measure is divided by: revenue per order; -1 */
    struct nl_ref per_ref; /* column that it is divided by */
    int per_bucket;        /* average per day, per month; -1 */
    bool average_of_groups;
    int anti; /* table that must not have a row; -1 */
    struct {  /* compared with an average, or with one row's value */
        bool is_set;
        struct nl_ref ref, value; /* value: the column that `text` is of; none: the average */
        enum plan_filter_op op;
        const char *text;
    } than;
    bool yes_no, percent, lists, bare;
    bool says_best;         /* "best", "worst": of what is not known */
    bool asks_why;          /* how often there was each reason */
    bool charts;            /* a picture is wanted */
    struct nl_ref key_hint; /* the column that a join goes by, where there are several */
    const char *reason;     /* of a refusal */
    const char *unknown[FRAME_UNKNOWN];
    int n_unknown;
    const char *left_out[FRAME_UNKNOWN]; /* nouns that the question can do without */
    int n_left_out;
    bool is_ambiguous;
    bool leaves_state; /* "still out" was not understood */
    bool noun_is_rows; /* it is at the place where rows are named */
    int noun;         /* token behind "how many" that nothing has: rows, if the rest bears it; -1 */
    int n_left;       /* of them: phrases, values, numbers that found no use */
    int n_left_names; /* columns and tables that did not */
    int n_foreign;    /* words that nothing here has; without verbs */
    int n_foreign_verbs;
    struct nl_filter inside[NL_MAX_FILTERS]; /* of rows that a table of the many must have */
    int n_inside, semi;
    const struct nl_link_key *semi_key;
    const char *rule;    /* that fired */
    const char *stopped; /* why it made no plan, for --explain; NULL: not told */
    bool is_plain;       /* a sum, a list, a ranking: what the reader by weights knows too */
    json_t *plan;
    json_t *chart;
    const char *reading;
};

static inline struct nl_mention *fr_at(struct frame *f, int i)
{
    return i >= 0 && i < f->m.n ? &f->m.m[i] : NULL;
}
static inline bool fr_is(const struct nl_mention *m, enum fr_mark mark)
{
    return m && m->kind == KIND_MARK && (int)m->mark == (int)mark;
}
static inline bool fr_is_col(const struct nl_mention *m)
{
    return m && m->kind == KIND_COLUMN;
}
/* The text at a place of the question, quoted or not; "" where there is none. */
static inline const char *fr_token(const struct frame *f, int i)
{
    return i >= 0 && i < f->q->n ? f->q->t[i].text : "";
}
/* The mention says nothing any more. */
void fr_make_light(struct nl_mention *m);
/* Words [start, end) become a mention; what had them gives way. */
void fr_put_mention(struct frame *f, int start, int end, struct nl_mention m);
/* "rejection rate", "why": states and causes by other words than the data's (frame_states.c). */
void fr_name_rates(struct frame *f);
void fr_name_causes(struct frame *f);
void fr_name_presence(struct frame *f);
void fr_name_agents(struct frame *f);
/* Words for measures, once words are linked (frame_amounts.c). */
void fr_name_units(struct frame *f);
void fr_name_totals(struct frame *f);
void fr_name_amounts(struct frame *f);
void fr_name_revenue(struct frame *f);
/* "revenue", "spending": amounts that are summed up, whatever the column is. */
bool fr_is_earned(const char *word);
/* Times between two dates of a row, and one column past another (frame_between.c). */
void fr_name_durations(struct frame *f);
void fr_name_past(struct frame *f);
/* The word at a place of the question; "" where there is none, or a quoted one. */
static inline const char *fr_word(const struct frame *f, int i)
{
    return i >= 0 && i < f->q->n && !f->q->t[i].quoted ? f->q->t[i].text : "";
}
/* The mention that a word is part of; NULL: nothing has linked it. */
static inline const struct nl_mention *fr_mention_of(const struct frame *f, int word)
{
    for (int k = 0; k < f->m.n; k++)
        if (f->m.m[k].start <= word && f->m.m[k].end > word)
            return &f->m.m[k];
    return NULL;
}
static inline bool fr_names_column(const struct nl_column *c, const char *stem)
{
    for (int w = 0; w < c->words.n; w++)
        if (str_eq(c->words.stems[w], stem))
            return true;
    return false;
}
/* Words between two mentions that say something. */
int fr_gap(const struct frame *f, const struct nl_mention *a, const struct nl_mention *b);
static inline const struct nl_column *fr_c(const struct frame *f, struct nl_ref ref)
{
    return ref.table < 0 || ref.column < 0 ? NULL : &f->s->tables[ref.table].columns[ref.column];
}
static inline bool fr_same(struct nl_ref a, struct nl_ref b)
{
    return a.table == b.table && a.column == b.column;
}
static const struct nl_ref fr_none = { -1, -1 };

/* A number that is counted, summed or averaged: no id, year, code or flag. */
bool fr_is_measure(const struct nl_column *c);
/* A number of any kind that is no id: also a year, a rank. */
bool fr_is_compared(const struct frame *f, struct nl_ref ref);
/* Groups of rows: a text with few values, a flag, a small number. */
bool fr_is_category(const struct frame *f, struct nl_ref ref);
bool fr_label(const struct nl_schema *s, int table, struct nl_ref *ret);
bool fr_person(const struct frame *f, int table, struct nl_ref *ret);
bool fr_key(const struct nl_schema *s, int table, struct nl_ref *ret);
bool fr_date_column(const struct frame *f, int table, struct nl_ref *ret);
/* A column of the table that an adjective's hint speaks of. */
bool fr_hint(const struct frame *f, int table, const char *hint, struct nl_ref *ret, int *ret_dir);
/* The measure of the hint that shares a word with the other column: soldOn, soldPrice. */
bool fr_hint_like(const struct frame *f, struct nl_ref like, const char *hint, struct nl_ref *ret);
/* Whether more of the column is less of what the adjective says: the slowest takes the longest. */
bool fr_turns(const struct frame *f, const char *hint, struct nl_ref ref);
int fr_default_func(const struct nl_column *c);

int fr_link(struct frame *f, struct err *err);
/* Of a struct frame: spans beyond names, values and phrases. */
void fr_more_spans(void *ctx, struct nl_spans *sp);
/* Constructions (frame_grammar.c), before and after words are linked. */
void fr_before_linking(struct frame *f);
void fr_after_linking(struct frame *f);
/* Whether the word, which nothing here has, stands where a verb stands. */
bool fr_is_done_in(const struct frame *f, int table, int from);
bool fr_is_subject(const struct frame *f, const struct nl_mention *m);
bool fr_restricts_at(const struct frame *f, int i);
bool fr_is_verb_at(const struct frame *f, int token);
/* A noun that nothing here has, where only rows can be meant; the reading is of the main table. */
void fr_find_noun(struct frame *f);
/* Whether the word is that noun, or says what a value is: "crime novels". */
bool fr_is_noun_at(const struct frame *f, int token);
/* The table that speaks of others and that no other speaks of: orders, visits, loans; -1: none. */
int fr_fact_table(const struct nl_schema *s);
/* "how much VAT": what is to be summed up or averaged is nothing that is known here. */
bool fr_sums_unknown(const struct frame *f);
/* Measures that are meant though none is named. */
void fr_read_amounts(struct frame *f);
/* The amount that the verb before token `at` speaks of: "raised", "paid". */
bool fr_amount_of_verb(const struct frame *f, int at, struct nl_ref *ret);
/* The table's amount, if there is one that nothing else there could be taken for. */
bool fr_amount_of(const struct frame *f, int table, bool money, struct nl_ref *ret);
/* "how many are still out": a particle that says which. */
bool fr_is_state_at(const struct frame *f, int token);
/*
 * How many columns of ref's table have the value; ref is the one that the word before it means,
 * where there is such a word ("from Oslo"), and then it is one.
 */
int fr_place_value(const struct frame *f, const struct nl_mention *m, struct nl_ref *ref);
/* The time that begins at token i; how many tokens it takes, 0: none. */
int fr_time_at(const struct nl_tokens *q, int i, struct fr_time *t);
/* The days [from, to] of a time by the column's own span; false if they cannot be told. */
bool fr_days(const struct frame *f, const struct fr_time *t, char from[11], char to[11]);
void fr_read_filters(struct frame *f);
void fr_read_comparisons(struct frame *f);
void fr_read_spans(struct frame *f);
void fr_read_equals(struct frame *f);
void fr_number_filter(struct frame *f, struct nl_ref ref, enum plan_filter_op op, double n);
void fr_text_filter(struct frame *f, struct nl_ref ref, enum plan_filter_op op, const char *text);
/* A "not" that belongs to mention i. */
bool fr_negated(struct frame *f, int i);
void fr_place_times(struct frame *f);
void fr_read_shape(struct frame *f);
void fr_read_ends(struct frame *f);
void fr_read_super(struct frame *f);
void fr_read_first(struct frame *f);
void fr_add_measure(struct frame *f, struct nl_ref ref, int func);
/* A measure that no one has used yet. */
bool fr_measure_at(const struct frame *f, const struct nl_mention *m);
/* What there can be a best one of: rows, values of a category, months. */
bool fr_is_entity(const struct frame *f, const struct nl_mention *m);
struct nl_filter *fr_filter(struct frame *f, struct nl_ref ref, enum plan_filter_op op);
void fr_date_filter(struct frame *f, struct nl_ref ref, int op, const char *from, const char *to);

/* Whether every word was used or can be left out; tells those that were not (frame_left.c). */
bool fr_understood(struct frame *f);
void fr_leave_modifiers(struct frame *f);
/* How near a word is to the nearest of a name, by use. */
double fr_nearness(const struct nl_name *n, const struct nl_lex *lex);
/* Whether a mention that found no use needs none. */
bool fr_is_harmless(const struct frame *f, const struct nl_mention *m);
/* Joins that the reading's columns need, from the anchor on. False: there is no safe way. */
bool fr_join(struct frame *f);
bool fr_apply_rules(struct frame *f);

/* What each word became. New reference. */
json_t *fr_explain(struct frame *f);
/* [{"text", "is"}] of the words that name something of the data. New reference. */
json_t *fr_meanings(struct frame *f);
/* What each word of a question is, and nothing more. */
int fr_begin(const struct nl_schema *s, const char *question, struct arena *a, struct frame **ret,
             struct err *err);
/* Whether the question goes on from one before: "and in May?", "only women". */
bool fr_leans(const struct frame *f);
/* Reads a question. 0, with *ret_complete false when it is not understood as a whole. */
int fr_read(const struct nl_schema *s, const char *question, struct arena *a, struct frame **ret,
            bool *ret_complete, struct err *err);

#endif
