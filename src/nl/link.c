/*
 * Linking: which words of a question speak of what. Every span that could be a column, a value, a
 * table, a number, a date or a phrase gets a weight; the mentions are the spans that do not overlap
 * and weigh the most together.
 */

#include <stdio.h>
#include <ctype.h>
#include <string.h>

#include "base/macros.h"
#include "base/str.h"
#include "nl/frame.h"

#define MAX_SPANS 600
#define TABLE_FAR 9 /* a table that is spoken of farther off does not count */
#define NEARLY 0.88 /* as good a link */
#define WIDER 0.62  /* for a noun that says of what kind a column is: less than a name weighs */
#define MAX_COLUMN_TOKENS 6
#define MAX_VALUE_TOKENS 9
#define SENTENCE_WORDS 5 /* a name of so many is a sentence */

struct nl_spans {
    struct nl_mention m[MAX_SPANS];
    double weight[MAX_SPANS];
    int n;
};

struct nl_mention *nl_add_span(struct nl_spans *sp, enum nl_kind kind, int start, int end,
                               double weight)
{
    if (sp->n == MAX_SPANS)
        return NULL;
    sp->weight[sp->n] = weight;
    struct nl_mention *m = &sp->m[sp->n++];
    *m = (struct nl_mention){ .kind = kind,
                              .start = start,
                              .end = end,
                              .ref = { -1, -1 },
                              .other = { -1, -1 },
                              .table = -1 };
    return m;
}

/* ---- columns ---- */

static bool is_glue(const struct nl_token *t)
{
    return str_eq(t->text, "of") || str_eq(t->text, "the") || str_eq(t->text, "per") ||
           str_eq(t->text, "in") || str_eq(t->text, "and");
}

/* "hours per week" has its "per" in the name; "properties per type" groups. */
static bool holds_glue(const struct nl_name *n, const char *word)
{
    if (str_eq(word, "of") || str_eq(word, "the"))
        return true;
    for (int w = 0; w < n->n; w++)
        if (str_eq(n->words[w], word))
            return true;
    return false;
}

/* "csat" for "customer satisfaction": beginnings of both words. */
static bool is_contraction(const char *word, const struct nl_token *a, const struct nl_token *b)
{
    size_t n = strlen(word);
    if (n < 3 || n > 6 || a->is_stop || b->is_stop || a->is_number || b->is_number ||
        a->text[0] != word[0])
        return false;
    for (size_t k = 1; k < n && k <= 3; k++)
        if (strncmp(word, a->text, k) == 0 && strncmp(word + k, b->text, n - k) == 0 &&
            strlen(a->text) > k && strlen(b->text) > n - k)
            return true;
    return false;
}

/* How well tokens [i, end) name the column; 0 if one of them does not belong to it. */
double nl_name_score(const struct nl_name *n, const struct nl_tokens *q, int i, int end)
{
    double total = 0, matched = 0, quality = 0;
    bool taken[NL_MAX_WORDS] = { false };
    int words = 0;
    double most = 0;
    for (int w = 0; w < n->n; w++) {
        total += n->weights[w];
        most = MAX_OF(most, n->weights[w]);
    }
    if (n->n >= SENTENCE_WORDS) /* "How likely are you to recommend us?": by one word of it */
        total = MIN_OF(total, 2 * most);
    for (int k = i; k < end; k++) {
        double best = 0;
        int at = -1, run = 1;
        for (int w = 0; w < n->n; w++) {
            if (taken[w])
                continue;
            double m = nl_word_match(n, w, &q->t[k]);
            size_t len = strlen(q->t[k].text);
            if (k + 1 < end && m < 0.8 && is_contraction(n->words[w], &q->t[k], &q->t[k + 1]) &&
                best < 0.85) {
                best = 0.85;
                at = w;
                run = 2;
                continue;
            }
            if (k + 1 < end && strncmp(n->words[w], q->t[k].text, len) == 0 && len >= 2 &&
                nl_edit_distance(n->words[w] + len, q->t[k + 1].text, 1) <=
                    (strlen(q->t[k + 1].text) > 4)) {
                m = 1.01; /* "phone number" for phonenumber */
                best = m;
                at = w;
                run = 2;
            } else if (m > best) {
                best = m;
                at = w;
                run = 1;
            }
        }
        if (best < 0.5) {
            if (k > i && k + 1 < end && is_glue(&q->t[k]) && holds_glue(n, q->t[k].text))
                continue;
            return 0;
        }
        taken[at] = true;
        matched += n->weights[at];
        quality += MIN_OF(best, 1) * run;
        words += run;
        k += run - 1;
    }
    return words ? quality / words * (0.35 + 0.65 * MIN_OF(matched / total, 1)) : 0;
}

static const char *last_stem(const struct nl_name *n)
{
    return n->n > 1 ? n->stems[n->n - 1] : "";
}

static bool speaks_of_money(const struct nl_tokens *q, int i, int end)
{
    uint64_t money[2];
    nl_synonym_groups("pay", money);
    for (int k = i; k < end; k++)
        if ((q->t[k].synonyms[0] & money[0]) || (q->t[k].synonyms[1] & money[1]))
            return true;
    return false;
}

/* Flags are spoken of by their own words, in any form, hardly by others of the same field. */
static bool says_own(const struct nl_name *n, const struct nl_tokens *q, int i, int end)
{
    for (int k = i; k < end; k++)
        for (int w = 0; w < n->n; w++) {
            const char *stem = q->t[k].stem;
            size_t same = 0;
            while (stem[same] && stem[same] == n->stems[w][same])
                same++;
            if (same >= 3 && same + 3 >= strlen(stem))
                return true;
        }
    return false;
}

static void link_columns(const struct nl_schema *s, const struct nl_scope *scope,
                         const struct nl_tokens *q, struct nl_spans *sp)
{
    for (int i = 0; i < q->n; i++) {
        if (q->t[i].quoted)
            continue;
        bool calls_table = false; /* it is what a table is called */
        for (int t = 0; t < scope->n; t++)
            calls_table |= s->tables[scope->tables[t]].words.n == 1 &&
                           str_eq(s->tables[scope->tables[t]].words.words[0], q->t[i].text);
        for (int end = i + 1; end <= q->n && end - i <= MAX_COLUMN_TOKENS; end++) {
            if (q->t[end - 1].quoted)
                break;
            if (end - 1 > i && is_glue(&q->t[end - 1]))
                continue;
            struct nl_ref best = { -1, -1 }, other = { -1, -1 };
            double score = 0, other_score = 0;
            for (int t = 0; t < scope->n; t++)
                for (int c = 0; c < s->tables[scope->tables[t]].n_columns; c++) {
                    const struct nl_column *col = &s->tables[scope->tables[t]].columns[c];
                    double x = nl_name_score(&col->words, q, i, end);
                    if (col->told)
                        x = MAX_OF(x, nl_told_score(col, q, i, end));
                    const struct nl_name *tn = &s->tables[scope->tables[t]].words;
                    if (x == 0 && end == i + 1 && str_eq(q->t[i].stem, "nam") &&
                        col->type == TYPE_TEXT && col->words.n == 1 && tn->n == 1 &&
                        str_eq(col->words.stems[0], tn->stems[0]))
                        x = 0.8; /* the name of an institution is the institution */
                    if (x == 0)
                        continue;
                    if (end == i + 1 && col->words.n == 1 &&
                        !str_eq(q->t[i].text, col->words.words[0]))
                        x *= 0.995; /* "guests" is Guests rather than Guest */
                    if ((col->is_flag || (nl_is_date(col) && speaks_of_money(q, i, end))) &&
                        !says_own(&col->words, q, i, end))
                        x *= 0.6; /* "cost" is no word for a flag "paid", nor for a day */
                    if (col->formula)
                        x *= 0.72; /* a column that has it comes before one that is computed */
                    if (t > 0)
                        x *= 0.97; /* the first table's own columns first */
                    bool number_of = end > i + 1 && str_eq(q->t[i].stem, "number");
                    if (number_of && (col->is_id || (str_eq(q->t[i + 1].text, "of") &&
                                                     str_eq(last_stem(&col->words), "number"))))
                        continue; /* "number of students" counts, "number of cards" as well */
                    if (col->words.n == 1 && tn->n == 1 &&
                        str_eq(col->words.stems[0], tn->stems[0]) &&
                        !str_eq(q->t[i].text, col->words.words[0]))
                        x *= 0.9; /* the plural is the table */
                    if (calls_table && end <= i + 2 && !str_eq(q->t[i].text, col->words.words[0]) &&
                        col->words.n > 1)
                        x *= 0.6; /* "loans on Mondays": the loans, not loaned_on */
                    bool says_id = false;
                    for (int k = i; k < end; k++)
                        says_id |= str_eq(q->t[k].stem, "id") || str_eq(q->t[k].stem, "code") ||
                                   str_eq(q->t[k].stem, "number") || str_eq(q->t[k].stem, "key") ||
                                   str_eq(q->t[k].stem, "identifier");
                    if (col->is_id && !says_id)
                        x *= 0.7;
                    if (x > score) {
                        other = best;
                        other_score = score;
                        best = (struct nl_ref){ scope->tables[t], c };
                        score = x;
                    } else if (x > other_score) {
                        other = (struct nl_ref){ scope->tables[t], c };
                        other_score = x;
                    }
                }
            if (score < 0.35 || (q->t[i].is_stop && end == i + 1 && score < 0.85))
                continue;
            double content = 0;
            for (int k = i; k < end; k++)
                content += q->t[k].is_stop ? 0.8 : 1;
            struct nl_mention *m = nl_add_span(sp, KIND_COLUMN, i, end,
                                               content * score * score + 0.02);
            if (!m)
                return;
            m->ref = best;
            m->score = score;
            if (other_score > 0.8 * score) {
                m->other = other;
                m->other_score = other_score;
            }
        }
    }
}

static void link_pair(const struct nl_schema *s, const struct nl_scope *scope,
                      const struct nl_tokens *q, int i, int head, struct nl_spans *sp)
{
    struct nl_tokens *pair = &(struct nl_tokens){ .t = { q->t[i], q->t[head] }, .n = 2 };
    for (int t = 0; t < scope->n; t++)
        for (int c = 0; c < s->tables[scope->tables[t]].n_columns; c++) {
            double x = nl_name_score(&s->tables[scope->tables[t]].columns[c].words, pair, 0, 2);
            struct nl_mention *m = x < 0.8 ? NULL : nl_add_span(sp, KIND_COLUMN, i, i + 1, 1.3);
            if (m) {
                m->ref = (struct nl_ref){ scope->tables[t], c };
                m->score = x;
            }
        }
}

/* "first, middle and last names" */
static void link_series(const struct nl_schema *s, const struct nl_scope *scope,
                        const struct nl_tokens *q, struct nl_spans *sp)
{
    for (int i = 0; i + 4 < q->n; i++) {
        bool quoted = false;
        for (int k = i; k < i + 5; k++)
            quoted |= q->t[k].quoted;
        if (quoted || !q->t[i].comma_after || !str_eq(q->t[i + 2].text, "and"))
            continue;
        link_pair(s, scope, q, i, i + 4, sp);
        link_pair(s, scope, q, i + 1, i + 4, sp);
    }
}

/* "first and last name", "start and end dates": the head belongs to both. */
static void link_coordinated(const struct nl_schema *s, const struct nl_scope *scope,
                             const struct nl_tokens *q, struct nl_spans *sp)
{
    for (int i = 0; i + 3 < q->n; i++) {
        bool full = str_eq(q->t[i].text, "full") && str_eq(q->t[i + 1].stem, "nam");
        if (!full && (!str_eq(q->t[i + 1].text, "and") || q->t[i].quoted || q->t[i + 2].quoted ||
                      q->t[i + 3].quoted))
            continue;
        struct nl_tokens *pair = &(struct nl_tokens){ .t = { q->t[i], q->t[i + 3] }, .n = 2 };
        for (int half = 0; half <= full; half++) {
            if (full)
                pair->t[0] = (struct nl_token){ .text = half ? "last" : "first",
                                                .stem = half ? "last" : "first",
                                                .raw = "" };
            if (full)
                pair->t[1] = q->t[i + 1];
            for (int t = 0; t < scope->n; t++)
                for (int c = 0; c < s->tables[scope->tables[t]].n_columns; c++) {
                    double x = nl_name_score(&s->tables[scope->tables[t]].columns[c].words, pair, 0,
                                             2);
                    if (x < 0.8)
                        continue;
                    struct nl_mention *m = nl_add_span(sp, KIND_COLUMN, i + half, i + half + 1,
                                                       1.3);
                    if (m) {
                        m->ref = (struct nl_ref){ scope->tables[t], c };
                        m->score = x;
                    }
                }
        }
    }
}

/* ---- values ---- */

/* "engineers" spells Engineer, not Engineering. */
static bool is_spelled(const char *value, const char *word)
{
    size_t n = strlen(value), len = strlen(word);
    return str_ieq(value, word) ||
           (len == n + 1 && word[n] == 's' && strncasecmp(value, word, n) == 0);
}

/*
 * Whether two spellings of one stem are forms of one word: "Returned" and "returns", but not
 * "Animalia" and "animals".
 */
static bool is_form(const char *value, const char *word)
{
    static const char *const ends[] = { "",    "s",   "es",   "e",     "ed", "d",   "ing",
                                        "er",  "ers", "y",    "ies",   "ly", "n",   "en",
                                        "ied", "ion", "ions", "al",    "or", "ors", "'s",
                                        "st",  "est", "ment", "ation", "ity" };
    size_t same = 0;
    while (value[same] && tolower((unsigned char)value[same]) == tolower((unsigned char)word[same]))
        same++;
    bool fine[2] = { false, false };
    for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
        fine[0] |= strcasecmp(value + same, ends[i]) == 0;
        fine[1] |= strcasecmp(word + same, ends[i]) == 0;
    }
    return same < 3 || (fine[0] && fine[1]) || strpbrk(value, " -_/.&") != NULL;
}

static void link_value(const struct nl_schema *s, const struct nl_scope *scope, const char *key,
                       const char *spelled, struct nl_spans *sp, int i, int end, double weight)
{
    struct nl_mention *m = NULL;
    for (const struct nl_value *v = nl_find_value(s, key, NULL); v; v = nl_find_value(s, key, v)) {
        if (!nl_in_scope(scope, v->table) || v->is_part || (spelled && !is_form(v->text, spelled)))
            continue;
        if (!m) {
            m = nl_add_span(sp, KIND_VALUE, i, end, weight);
            if (!m)
                return;
            m->ref = (struct nl_ref){ v->table, v->column };
            m->text = v->text;
            m->score = 1;
        } else if (v->table != m->ref.table || v->column != m->ref.column) {
            const struct nl_column *had = nl_col(s, m->ref),
                                   *now = &s->tables[v->table].columns[v->column];
            bool exact = spelled && is_spelled(v->text, spelled),
                 was_exact = spelled && is_spelled(m->text, spelled);
            if (was_exact && !exact)
                continue; /* "Engineering" is no "Engineer" */
            m->other = (struct nl_ref){ v->table, v->column };
            /* Names first, and of the first table. */
            if ((exact && !was_exact) || (now->is_name && !had->is_name) ||
                (v->table == scope->tables[0] && m->ref.table != v->table)) {
                m->other = m->ref;
                m->ref = (struct nl_ref){ v->table, v->column };
                m->text = v->text;
            }
        }
    }
}

/*
 * A word that is in no value as a whole, but in some: in values of one column, or of a second one.
 */
static void link_part(const struct nl_schema *s, const struct nl_scope *scope,
                      const struct nl_token *t, struct nl_spans *sp, int i)
{
    static const char *const anybody[] = { "people", "person", "persons", "thing", "things" };
    struct nl_ref ref = { -1, -1 }, other = { -1, -1 };
    const char *only = NULL;
    bool several = false;
    if (nl_is_one_of(t->text, anybody, ARRAY_SIZE(anybody)))
        return; /* no part of "in person" */
    for (const struct nl_value *v = nl_find_value(s, t->stem, NULL); v;
         v = nl_find_value(s, t->stem, v)) {
        if (!nl_in_scope(scope, v->table))
            continue;
        if (!v->is_part)
            return;
        if (ref.table >= 0 && (ref.table != v->table || ref.column != v->column)) {
            if (other.table >= 0 && (other.table != v->table || other.column != v->column))
                return;
            other = (struct nl_ref){ v->table, v->column };
            continue;
        }
        several |= only && !str_eq(only, v->text);
        only = v->text;
        ref = (struct nl_ref){ v->table, v->column };
    }
    struct nl_mention *m = ref.table >= 0 ?
                               nl_add_span(sp, KIND_VALUE, i, i + 1, t->capital ? 0.7 : 0.4) :
                               NULL;
    if (m) {
        m->ref = ref;
        m->other = other;
        m->is_part = several || other.table >= 0;
        m->text = m->is_part ? t->text : only;
        m->is_piece = true;
        m->score = 0.5;
    }
}

/* A verb that says little, unless the data has it as a value: "played", "listed". */
static bool is_participle(const char *word)
{
    size_t n = strlen(word);
    return n >= 5 && strcmp(word + n - 2, "ed") == 0;
}

static void link_values(const struct nl_schema *s, const struct nl_scope *scope,
                        const struct nl_tokens *q, struct nl_spans *sp)
{
    char key[2 * NL_VALUE_MAX_BYTES];
    for (int i = 0; i < q->n; i++) {
        size_t n = 0;
        int content = 0, capitals = 0;
        if (!q->t[i].is_stop && !q->t[i].quoted && !q->t[i].is_number)
            link_part(s, scope, &q->t[i], sp, i);
        for (int end = i + 1; end <= q->n && end - i <= MAX_VALUE_TOKENS; end++) {
            const struct nl_token *t = &q->t[end - 1];
            int w = snprintf(key + n, sizeof(key) - n, "%s%s", n ? " " : "", t->stem);
            if (w < 0 || n + (size_t)w >= sizeof(key))
                break;
            n += (size_t)w;
            content += !t->is_stop;
            capitals += t->capital && i > 0;
            if (t->quoted && end > i + 1)
                break;
            if (t->quoted) {
                int before = sp->n;
                link_value(s, scope, key, t->text, sp, i, end, 3);
                if (sp->n == before) {
                    struct nl_mention *m = nl_add_span(sp, KIND_TEXT, i, end, 2.5);
                    if (m) {
                        m->text = t->raw;
                        m->score = 1;
                    }
                }
                break;
            }
            if (content == 0 && end - i < 2 && !is_participle(t->text))
                continue; /* but "no show" and "played" may be values */
            if (end == i + 1 && t->is_number && !t->is_ordinal)
                continue;
            double weight = end == i + 1 ?
                                (capitals ? 1.3 : 0.9) :
                                content + 0.9 * (end - i - content) + 0.3 + 0.2 * (capitals > 0);
            link_value(s, scope, key, end == i + 1 ? t->text : NULL, sp, i, end, weight);
        }
    }
}

/* A column of genders that has letters: "female" is F. */
static void link_genders(const struct nl_schema *s, const struct nl_scope *scope,
                         const struct nl_tokens *q, struct nl_spans *sp)
{
    static const struct {
        const char *word, *letter, *full;
    } genders[] = { { "female", "f", "female" }, { "male", "m", "male" },
                    { "woman", "f", "female" },  { "man", "m", "male" },
                    { "girl", "f", "female" },   { "boy", "m", "male" } };
    for (int i = 0; i < q->n; i++)
        for (size_t g = 0; g < ARRAY_SIZE(genders); g++) {
            if (!str_eq(q->t[i].stem, genders[g].word) &&
                !str_starts(genders[g].word, q->t[i].stem))
                continue;
            if (strlen(q->t[i].stem) + 1 < strlen(genders[g].word))
                continue;
            for (int t = 0; t < scope->n; t++)
                for (int c = 0; c < s->tables[scope->tables[t]].n_columns; c++) {
                    const struct nl_column *col = &s->tables[scope->tables[t]].columns[c];
                    if (col->n_values == 0 || col->n_values > 4 || col->type != TYPE_TEXT)
                        continue;
                    for (size_t v = 0; v < col->n_values; v++)
                        if (str_ieq(col->values[v], genders[g].letter) ||
                            str_ieq(col->values[v], genders[g].full)) {
                            struct nl_mention *m = nl_add_span(sp, KIND_VALUE, i, i + 1, 1.2);
                            if (m) {
                                m->ref = (struct nl_ref){ scope->tables[t], c };
                                m->text = col->values[v];
                                m->score = 0.9;
                            }
                        }
                }
        }
}

/* ---- tables, numbers, dates, phrases ---- */

static double table_score(const struct nl_table *t, const struct nl_tokens *q, int i, int end)
{
    double x = nl_name_score(&t->words, q, i, end);
    return end == i + 1 && q->t[i].is_stop && x < 0.95 ?
               0 :
               x; /* "total" is no word for a table of sales */
}

static void link_tables(const struct nl_schema *s, const struct nl_scope *scope,
                        const struct nl_tokens *q, struct nl_spans *sp)
{
    for (int i = 0; i < q->n; i++)
        for (int end = i + 1; end <= q->n && end - i <= 4; end++) {
            if (q->t[end - 1].quoted)
                break;
            for (int t = 0; t < scope->n; t++) {
                double x = table_score(&s->tables[scope->tables[t]], q, i, end);
                if (x < 0.45)
                    continue;
                struct nl_mention *m = nl_add_span(sp, KIND_TABLE, i, end,
                                                   0.92 * (end - i) * (x > 0.8 ? x : x * x));
                if (m) {
                    m->table = scope->tables[t];
                    m->score = x;
                }
            }
        }
}

double nl_table_mentioned(const struct nl_schema *s, int table, const struct nl_tokens *q)
{
    double best = 0;
    for (int i = 0; i < q->n; i++)
        for (int end = i + 1; end <= q->n && end - i <= 4; end++)
            if (!q->t[i].quoted && !q->t[end - 1].quoted)
                best = MAX_OF(best, table_score(&s->tables[table], q, i, end));
    return best;
}

static void link_numbers(const struct nl_schema *s, const struct nl_scope *scope,
                         const struct nl_tokens *q, struct nl_spans *sp)
{
    bool dates = false;
    for (int t = 0; t < scope->n; t++)
        for (int c = 0; c < s->tables[scope->tables[t]].n_columns; c++)
            dates |= nl_is_date(&s->tables[scope->tables[t]].columns[c]);
    for (int i = 0; i < q->n; i++) {
        char from[11], to[11];
        int n = nl_read_date(q, i, from, to);
        if (n == 0 && dates && !q->t[i].quoted)
            n = nl_read_month(q, i, from, to);
        if (n > 0) {
            struct nl_mention *m = nl_add_span(sp, KIND_DATE, i, i + n, 1.5 * n);
            if (m) {
                memcpy(m->from, from, sizeof(from));
                memcpy(m->to, to, sizeof(to));
            }
        }
        bool times = (str_eq(q->t[i].text, "once") || str_eq(q->t[i].text, "twice")) && i > 0 &&
                     (str_eq(q->t[i - 1].text, "least") || str_eq(q->t[i - 1].text, "than") ||
                      str_eq(q->t[i - 1].text, "most") || str_eq(q->t[i - 1].text, "exactly"));
        struct nl_mention *n_times = times ? nl_add_span(sp, KIND_NUMBER, i, i + 1, 0.7) : NULL;
        if (n_times) {
            n_times->number = q->t[i].text[0] == 'o' ? 1 : 2;
            n_times->text = q->t[i].raw;
        }
        if (!q->t[i].is_number || q->t[i].quoted)
            continue;
        /* "one" is mostly no number. */
        struct nl_mention *m = nl_add_span(sp, KIND_NUMBER, i, i + 1,
                                           str_eq(q->t[i].text, "one") ? 0.3 : 0.7);
        if (m) {
            m->number = q->t[i].number;
            m->text = q->t[i].raw;
        }
    }
}

static int phrase_at(const struct nl_phrase *p, const struct nl_tokens *q, int i)
{
    const char *w = p->words;
    int n = 0;
    while (*w) {
        size_t len = strcspn(w, " ");
        if (i + n >= q->n || q->t[i + n].quoted || strlen(q->t[i + n].text) != len ||
            strncmp(q->t[i + n].text, w, len) != 0)
            return 0;
        n++;
        w += len;
        w += *w == ' ';
    }
    return n;
}

bool nl_in_phrase(const struct nl_tokens *q, int at)
{
    for (int i = MAX_OF(at - 4, 0); i <= at; i++)
        for (size_t p = 0; p < nl_n_phrases; p++)
            if (nl_phrases[p].words[0] == q->t[i].text[0] &&
                phrase_at(&nl_phrases[p], q, i) > at - i)
                return true;
    return false;
}

static void link_phrases(const struct nl_linker *l, const struct nl_tokens *q, struct nl_spans *sp)
{
    for (int i = 0; i < q->n; i++)
        for (size_t p = 0; p < l->n_phrases; p++) {
            if (l->phrases[p].words[0] != q->t[i].text[0])
                continue;
            int n = phrase_at(&l->phrases[p], q, i);
            if (n == 0)
                continue;
            struct nl_mention *m = nl_add_span(sp, KIND_MARK, i, i + n, 0.6 * n + 0.05 * (n - 1));
            if (m) {
                m->mark = l->phrases[p].mark;
                m->arg = l->phrases[p].arg;
                m->hint = l->phrases[p].hint;
                m->score = 1;
            }
        }
}

/*
 * "membership type", "satisfaction scores": a noun that says what kind of thing a column is adds
 * nothing to its name, unless something is called so itself.
 */
static void widen_names(const struct nl_schema *s, const struct nl_tokens *q, struct nl_spans *sp)
{
    static const char kinds[] = " type types kind kinds category categories class classes group "
                                "groups level levels name names value values ";
    static const char amounts[] = " score scores count counts number numbers figure figures volume "
                                  "volumes amount amounts value values level levels reading "
                                  "readings ";
    for (int k = 0, n = sp->n; k < n; k++) {
        struct nl_mention m = sp->m[k];
        if (m.kind != KIND_COLUMN || m.end >= q->n || q->t[m.end].quoted || m.score < 0.5 ||
            q->t[m.end - 1].comma_after)
            continue;
        const struct nl_column *c = nl_col(s, m.ref);
        const char *list = c->is_numeric && !c->is_id && !c->is_flag ? amounts : kinds;
        const char *w = q->t[m.end].text, *at = strstr(list, w);
        size_t len = strlen(w);
        while (at && !(at[-1] == ' ' && at[len] == ' '))
            at = strstr(at + 1, w);
        struct nl_mention *wide = !at || len < 4 ? NULL :
                                                   nl_add_span(sp, KIND_COLUMN, m.start, m.end + 1,
                                                               sp->weight[k] + WIDER);
        if (wide) {
            int end = wide->end;
            *wide = m;
            wide->end = end;
        }
    }
}

/* ---- choosing ---- */

/* How far the nearest mention of the table is: "name of the city", "city name". */
static int distance_to(const struct nl_mentions *all, const struct nl_mention *m, int table)
{
    int best = TABLE_FAR;
    for (int i = 0; i < all->n; i++) {
        const struct nl_mention *x = &all->m[i];
        if (x->kind != KIND_TABLE || x->table != table)
            continue;
        int d = x->start >= m->end ? 2 * (x->start - m->end) : 2 * (m->start - x->end) + 1;
        best = MIN_OF(best, d);
    }
    return best;
}

/* Of columns of several tables that a word names equally well, that of the table beside it. */
static void prefer_near_tables(const struct nl_schema *s, const struct nl_scope *scope,
                               const struct nl_tokens *q, struct nl_mentions *all)
{
    for (int i = 0; i < all->n; i++) {
        struct nl_mention *m = &all->m[i];
        if (m->kind != KIND_COLUMN)
            continue;
        int nearest = distance_to(all, m, m->ref.table);
        double own = nl_name_score(&nl_col(s, m->ref)->words, q, m->start, m->end);
        struct nl_ref was = m->ref;
        for (int t = 0; t < scope->n; t++) {
            int table = scope->tables[t], d = distance_to(all, m, table);
            double best = 0;
            int at = -1;
            for (int c = 0; c < s->tables[table].n_columns; c++) {
                double x = nl_name_score(&s->tables[table].columns[c].words, q, m->start, m->end);
                if (s->tables[table].columns[c].is_id)
                    x *= 0.9;
                if (x > best) {
                    best = x;
                    at = c;
                }
            }
            if (table != was.table && d < nearest && at >= 0 && best >= NEARLY * own) {
                nearest = d;
                m->other = was;
                m->other_score = m->score;
                m->ref = (struct nl_ref){ table, at };
            }
        }
    }
}

int nl_link(const struct nl_schema *s, const struct nl_scope *scope, const struct nl_tokens *q,
            struct arena *a, struct nl_mentions *ret, struct err *err)
{
    const struct nl_linker linker = { nl_phrases, nl_n_phrases, NULL, NULL };
    int r = nl_link_by(s, scope, q, &linker, a, ret, err);
    if (r >= 0 && scope->n > 1)
        prefer_near_tables(s, scope, q, ret);
    return r;
}

int nl_link_by(const struct nl_schema *s, const struct nl_scope *scope, const struct nl_tokens *q,
               const struct nl_linker *linker, struct arena *a, struct nl_mentions *ret,
               struct err *err)
{
    struct nl_spans *sp = arena_alloc(a, sizeof(*sp));
    if (!sp)
        return err_set(err, ERR_NO_MEMORY, "the question does not fit");
    sp->n = 0;
    link_columns(s, scope, q, sp);
    link_coordinated(s, scope, q, sp);
    link_series(s, scope, q, sp);
    link_values(s, scope, q, sp);
    link_genders(s, scope, q, sp);
    link_tables(s, scope, q, sp);
    link_numbers(s, scope, q, sp);
    link_phrases(linker, q, sp);
    widen_names(s, q, sp);
    if (linker->more)
        linker->more(linker->ctx, sp);

    double best[NL_MAX_TOKENS + 1] = { 0 };
    int pick[NL_MAX_TOKENS + 1];
    for (int e = 1; e <= q->n; e++) {
        best[e] = best[e - 1];
        pick[e] = -1;
        for (int k = 0; k < sp->n; k++)
            if (sp->m[k].end == e && best[sp->m[k].start] + sp->weight[k] > best[e] + 1e-9) {
                best[e] = best[sp->m[k].start] + sp->weight[k];
                pick[e] = k;
            }
    }
    int order[NL_MAX_TOKENS], n = 0;
    for (int e = q->n; e > 0;) {
        if (pick[e] < 0) {
            e--;
            continue;
        }
        order[n++] = pick[e];
        e = sp->m[pick[e]].start;
    }
    ret->n = 0;
    while (n > 0 && ret->n < NL_MAX_MENTIONS) {
        struct nl_mention *m = &ret->m[ret->n++];
        *m = sp->m[order[--n]];
    }
    return 0;
}

void nl_alternate(struct nl_mentions *all)
{
    for (int i = 0; i < all->n; i++) {
        struct nl_mention *m = &all->m[i];
        if ((m->kind != KIND_COLUMN && m->kind != KIND_VALUE) || m->other.table < 0)
            continue;
        struct nl_ref other = m->other;
        double score = m->other_score;
        m->other = m->ref;
        m->ref = other;
        if (m->kind == KIND_COLUMN) {
            m->other_score = m->score;
            m->score = score;
        }
    }
}
