/* What else words can be to the reader by rules: opposites, countries, times, events. */

#include <ctype.h>
#include <string.h>

#include "nl/frame.h"

static void value_span(struct frame *f, struct nl_spans *sp, int i, int end, struct nl_ref ref,
                       const char *text, double weight)
{
    struct nl_mention *m = nl_add_span(sp, KIND_VALUE, i, end, weight);
    if (!m)
        return;
    m->ref = ref;
    m->text = text;
    m->score = 0.9;
    (void)f;
}

static bool names_table(const struct frame *f, const char *stem)
{
    for (int t = 0; t < f->s->n_tables; t++)
        for (int w = 0; w < f->s->tables[t].words.n; w++)
            if (str_eq(f->s->tables[t].words.stems[w], stem))
                return true;
    return false;
}

/* "unpaid", "inactive", "non-smokers", "failed": the other value of a flag, or no value at all. */
static void link_opposites(struct frame *f, struct nl_spans *sp)
{
    static const char *const prefixes[] = { "un", "in", "non", "not", "dis" };
    for (int i = 0; i < f->q->n; i++) {
        const struct nl_token *t = &f->q->t[i];
        if (t->quoted || t->is_number || strlen(t->text) < 4)
            continue;
        const char *stems[8];
        int n = 0, end = i + 1;
        for (size_t p = 0; p < ARRAY_SIZE(prefixes); p++) {
            size_t len = strlen(prefixes[p]);
            if (strncmp(t->text, prefixes[p], len) == 0 && strlen(t->text) > len + 2)
                stems[n++] = nl_stem(f->a, t->text + len);
        }
        const char *other;
        int n_prefixed = n;
        for (int k = 0; k < 3 && n < 8 && (other = fr_opposite(t->stem, k)) != NULL; k++)
            stems[n++] = other;
        for (int k = 0; k < n; k++)
            for (int tb = 0; tb < f->s->n_tables && stems[k]; tb++)
                for (int c = 0; c < f->s->tables[tb].n_columns; c++) {
                    const struct nl_column *col = &f->s->tables[tb].columns[c];
                    if (!fr_names_column(col, stems[k]))
                        continue;
                    const char *head = col->words.stems[col->words.n - 1];
                    bool whole = col->words.n == 1 || str_eq(head, stems[k]) ||
                                 nl_is_stop(col->words.words[0]) || k >= n_prefixed;
                    if (col->is_flag && whole)
                        value_span(f, sp, i, end, (struct nl_ref){ tb, c }, col->no, 1.25);
                    else if (strncmp(t->text, "un", 2) == 0 && !fr_is_measure(col)) {
                        struct nl_mention *m = nl_add_span(sp, KIND_MARK, i, end, 1.2);
                        if (m) {
                            m->mark = (enum nl_mark)FM_NULL;
                            m->ref = (struct nl_ref){ tb, c };
                        }
                    }
                }
    }
    for (int i = 0; i + 1 < f->q->n; i++) { /* "on time" */
        if (!(str_eq(f->q->t[i].text, "on") || str_eq(f->q->t[i].text, "in")) ||
            !str_eq(f->q->t[i + 1].text, "time"))
            continue;
        for (int tb = 0; tb < f->s->n_tables; tb++)
            for (int c = 0; c < f->s->tables[tb].n_columns; c++) {
                const struct nl_column *col = &f->s->tables[tb].columns[c];
                bool late = fr_names_column(col, "lat") || fr_names_column(col, "late") ||
                            fr_names_column(col, "delay") || fr_names_column(col, "overdu");
                bool ontime = fr_names_column(col, "ontim") || fr_names_column(col, "punctual") ||
                              (fr_names_column(col, "on") && fr_names_column(col, "tim"));
                if (col->is_flag && (late || ontime))
                    value_span(f, sp, i, i + 2, (struct nl_ref){ tb, c }, late ? col->no : col->yes,
                               2.6);
            }
    }
    /* non-smokers come as two words */
    for (int i = 0; i + 1 < f->q->n; i++) {
        if (!str_eq(f->q->t[i].text, "non"))
            continue;
        for (int tb = 0; tb < f->s->n_tables; tb++)
            for (int c = 0; c < f->s->tables[tb].n_columns; c++) {
                const struct nl_column *col = &f->s->tables[tb].columns[c];
                if (col->is_flag && fr_names_column(col, f->q->t[i + 1].stem))
                    value_span(f, sp, i, i + 2, (struct nl_ref){ tb, c }, col->no, 2.3);
            }
    }
}

/* "part-time" where there is a flag "Full-time": two words, the first of which is turned round. */
static void link_compounds(struct frame *f, struct nl_spans *sp)
{
    for (int i = 0; i + 1 < f->q->n; i++) {
        const char *other = fr_opposite(f->q->t[i].stem, 0);
        const char *second = f->q->t[i + 1].stem;
        if (!other || f->q->t[i].quoted)
            continue;
        for (int tb = 0; tb < f->s->n_tables; tb++)
            for (int c = 0; c < f->s->tables[tb].n_columns; c++) {
                const struct nl_column *col = &f->s->tables[tb].columns[c];
                bool both = false;
                for (int w = 0; w + 1 < col->words.n; w++)
                    both |= str_eq(col->words.stems[w], other) &&
                            strncmp(col->words.stems[w + 1], second, 3) == 0;
                if (col->is_flag && both)
                    value_span(f, sp, i, i + 2, (struct nl_ref){ tb, c }, col->no, 2.4);
            }
    }
}

static void link_countries(struct frame *f, struct nl_spans *sp)
{
    for (int i = 0; i < f->q->n; i++) {
        const char *const *names = f->q->t[i].quoted ? NULL : fr_country(f->q->t[i].text);
        for (int k = 0; names && k < 10 && names[k]; k++) {
            const char *key = nl_value_key(f->a, names[k]);
            for (const struct nl_value *v = key ? nl_find_value(f->s, key, NULL) : NULL; v;
                 v = nl_find_value(f->s, key, v)) {
                const struct nl_column *c = &f->s->tables[v->table].columns[v->column];
                bool code = strlen(v->text) <= 3 && !fr_names_column(c, "country") &&
                            !fr_names_column(c, "nation") && !fr_names_column(c, "code");
                if (!v->is_part && !code)
                    value_span(f, sp, i, i + 1, (struct nl_ref){ v->table, v->column }, v->text,
                               1.3);
            }
        }
    }
}

/* "maths" for Mathematics, "emergencies" for Emergency: one value of a column with few of them. */
static void link_short(struct frame *f, struct nl_spans *sp)
{
    for (int i = 0; i < f->q->n; i++) {
        const struct nl_token *t = &f->q->t[i];
        size_t n = strlen(t->stem);
        if (t->quoted || t->is_stop || t->is_number || n < 4 || fr_is_light(t->text) ||
            nl_find_value(f->s, t->stem, NULL))
            continue;
        const char *found = NULL;
        struct nl_ref ref = fr_none;
        bool several = false;
        for (int tb = 0; tb < f->s->n_tables; tb++)
            for (int c = 0; c < f->s->tables[tb].n_columns; c++) {
                const struct nl_column *col = &f->s->tables[tb].columns[c];
                for (size_t v = 0;
                     v < col->n_values && col->type == TYPE_TEXT && col->n_values <= 60; v++) {
                    const char *x = col->values[v];
                    bool fits = strncasecmp(x, t->stem, n) == 0 && strlen(x) > n &&
                                !strchr(x, ' ') && strlen(x) <= n + 3 &&
                                (!t->lex || !t->lex->is_known ||
                                 ONE_OF(x + n, "y", "ies", "s", "es", "e", "ed", "d", "er", "ing"));
                    size_t len = strlen(x);
                    bool inside = len >= 4 && strncasecmp(t->text, x, len) == 0 &&
                                  strlen(t->text) <= len + 3;
                    if (!fits && !inside)
                        continue;
                    several |= found && !(str_ieq(found, x));
                    found = x;
                    ref = (struct nl_ref){ tb, c };
                }
            }
        if (found && !several)
            value_span(f, sp, i, i + 1, ref, found, 0.75);
    }
}

/*
 * A season that is the value of a column ("spring" of a term), and the words of a time that are
 * within a column's name ("visits last month"): the data's own words come first.
 */
static bool is_own_time(const struct frame *f, int i, int n)
{
    for (const struct nl_value *v = n == 1 ? nl_find_value(f->s, f->q->t[i].stem, NULL) : NULL; v;
         v = nl_find_value(f->s, f->q->t[i].stem, v))
        if (!v->is_part && str_ieq(v->text, f->q->t[i].text) && !f->q->t[i].is_number)
            return true;
    for (int tb = 0; tb < f->s->n_tables && n > 1; tb++)
        for (int c = 0; c < f->s->tables[tb].n_columns; c++) {
            const struct nl_name *name = &f->s->tables[tb].columns[c].words;
            for (int w = 1; w + n <= name->n && i > 0; w++) {
                bool same = str_eq(name->stems[w - 1], f->q->t[i - 1].stem);
                for (int k = 0; k < n && same; k++)
                    same = str_eq(name->stems[w + k], f->q->t[i + k].stem);
                if (same)
                    return true;
            }
        }
    return false;
}

static void link_times(struct frame *f, struct nl_spans *sp)
{
    bool dates = false;
    for (int tb = 0; tb < f->s->n_tables; tb++)
        for (int c = 0; c < f->s->tables[tb].n_columns; c++)
            dates |= nl_is_date(&f->s->tables[tb].columns[c]);
    for (int i = 0; i < f->q->n && dates && f->n_times < FRAME_TIMES; i++) {
        struct fr_time *t = &f->times[f->n_times];
        int n = fr_time_at(f->q, i, t);
        if (n == 0 || is_own_time(f, i, n))
            continue;
        bool year = n == 1 && f->q->t[i].is_number;
        double weight = year ? 1.1 : t->open_end ? 0.6 * n : 1.6 * n;
        struct nl_mention *m = nl_add_span(sp, KIND_MARK, i, i + n, weight);
        if (!m)
            return;
        m->mark = (enum nl_mark)FM_TIME;
        m->arg = f->n_times++;
        /* "since August": the word before a time speaks of it, whatever columns are called */
        for (size_t p = 0; p < fr_n_phrases && i > 0; p++)
            if (fr_phrases[p].hint && fr_phrases[p].hint[0] == '@' &&
                str_eq(fr_phrases[p].words, f->q->t[i - 1].text) &&
                (m = nl_add_span(sp, KIND_MARK, i - 1, i, 1.3)) != NULL) {
                m->mark = fr_phrases[p].mark;
                m->arg = fr_phrases[p].arg;
                m->hint = fr_phrases[p].hint;
            }
    }
}

/*
 * "average" and "total" are what to do, even where a column is called so; "Average" is the
 * column.
 */
static void link_functions(struct frame *f, struct nl_spans *sp)
{
    for (int i = 0; i < f->q->n; i++) {
        const struct nl_token *t = &f->q->t[i];
        if (t->quoted || (t->capital && i > 0))
            continue;
        const char *b = i > 0 ? f->q->t[i - 1].text : "";
        if (str_eq(b, "the") || str_eq(b, "overall"))
            b = i > 1 ? f->q->t[i - 2].text : "";
        if (str_eq(b, "the"))
            b = i > 2 ? f->q->t[i - 3].text : "";
        if (str_eq(b, "above") || str_eq(b, "below") || str_eq(b, "than") || str_eq(b, "under") ||
            str_eq(b, "over") || str_eq(b, "exceed") || str_eq(b, "exceeds"))
            continue; /* compared with */
        for (size_t p = 0; p < fr_n_phrases; p++)
            if (((int)fr_phrases[p].mark == FM_AGG || (int)fr_phrases[p].mark == FM_ONAVG) &&
                str_eq(fr_phrases[p].words, t->text)) {
                struct nl_mention *m = nl_add_span(sp, KIND_MARK, i, i + 1, 1.1);
                if (!m)
                    return;
                m->mark = fr_phrases[p].mark;
                m->arg = fr_phrases[p].arg;
            }
    }
}

/* "grade A": a letter behind the name of its column. */
static void link_letters(struct frame *f, struct nl_spans *sp)
{
    for (int i = 1; i < f->q->n; i++) {
        const struct nl_token *t = &f->q->t[i], *b = &f->q->t[i - 1];
        if (strlen(t->raw) != 1 || !isupper((unsigned char)t->raw[0]))
            continue;
        for (int tb = 0; tb < f->s->n_tables; tb++)
            for (int c = 0; c < f->s->tables[tb].n_columns; c++) {
                const struct nl_column *col = &f->s->tables[tb].columns[c];
                for (size_t v = 0; v < col->n_values && fr_names_column(col, b->stem); v++)
                    if (str_eq(col->values[v], t->raw))
                        value_span(f, sp, i, i + 1, (struct nl_ref){ tb, c }, col->values[v], 1.5);
            }
    }
}

/*
 * "arrivals", "bookings" where rows have a date "arrival" or "booked": the rows, by that date.
 * Where
 * a table is called so, it is the table.
 */
static void link_events(struct frame *f, struct nl_spans *sp)
{
    for (int i = 0; i < f->q->n; i++) {
        const struct nl_token *t = &f->q->t[i];
        size_t n = strlen(t->text);
        if (t->quoted || n < 5 || t->text[n - 1] != 's' || t->text[n - 2] == 's')
            continue;
        for (int tb = 0; tb < f->s->n_tables; tb++)
            for (int c = 0; c < f->s->tables[tb].n_columns; c++) {
                const struct nl_column *col = &f->s->tables[tb].columns[c];
                if (!nl_is_date(col) || !fr_names_column(col, t->stem) || names_table(f, t->stem))
                    continue;
                struct nl_mention *m = nl_add_span(sp, KIND_TABLE, i, i + 1, 1.1);
                if (!m)
                    return;
                m->table = tb;
                m->ref = (struct nl_ref){ tb, c };
                m->score = 0.9;
            }
    }
}

/* "how many work in IT": capitals where the words around have none. */
static void link_capitals(struct frame *f, struct nl_spans *sp)
{
    int small = 0;
    for (int i = 0; i < f->q->n; i++)
        small += islower((unsigned char)f->q->t[i].raw[0]) != 0;
    for (int i = 0; i < f->q->n && small > 1; i++) {
        const struct nl_token *t = &f->q->t[i];
        size_t n = strlen(t->raw), upper = 0;
        while (isupper((unsigned char)t->raw[upper]))
            upper++;
        if (upper != n || n < 2 || t->quoted)
            continue;
        for (const struct nl_value *v = nl_find_value(f->s, t->stem, NULL); v;
             v = nl_find_value(f->s, t->stem, v))
            if (!v->is_part && str_eq(v->text, t->raw))
                value_span(f, sp, i, i + 1, (struct nl_ref){ v->table, v->column }, v->text, 1.4);
    }
}

/*
 * "how many homes were sold", "unsold": rows that have a sale price, or none. "delivered in May":
 * the day of delivery, whatever else is called so.
 */
static void link_done(struct frame *f, struct nl_spans *sp)
{
    static const char *const before[] = { "were", "was", "been", "got", "is", "are", "be", "not" };
    for (int i = 1; i < f->q->n; i++) {
        const struct nl_token *t = &f->q->t[i];
        struct nl_token plain = *t;
        plain.lex = nl_lex_of(f->a, t->text); /* also of words that names have */
        bool un = strncmp(t->text, "un", 2) == 0 && strlen(t->text) > 5, passive = un;
        if (un) {
            plain.text = t->text + 2;
            plain.stem = nl_stem(f->a, plain.text);
            plain.lex = nl_lex_of(f->a, plain.text);
            plain.synonyms[0] = plain.synonyms[1] = 0;
        }
        for (size_t k = 0; k < ARRAY_SIZE(before); k++)
            passive |= str_eq(f->q->t[i - 1].text, before[k]);
        if (t->quoted || !passive || !plain.stem || !plain.lex || !plain.lex->is_verb ||
            plain.lex->is_noun)
            continue;
        struct nl_ref found = fr_none;
        int n = 0;
        bool dated = false;
        for (int tb = 0; tb < f->s->n_tables; tb++)
            for (int c = 0; c < f->s->tables[tb].n_columns; c++) {
                const struct nl_column *col = &f->s->tables[tb].columns[c];
                bool date = nl_is_date(col);
                if (!(date || fr_is_measure(col)) || !(col->has_nulls || date) ||
                    nl_word_match(&col->words, 0, &plain) < 0.6 || (dated && !date))
                    continue;
                n = date && !dated ? 1 : n + 1;
                dated |= date;
                found = (struct nl_ref){ tb, c };
            }
        if (n != 1)
            continue;
        struct fr_time time;
        int at = i + 1;
        while (at < f->q->n && f->q->t[at].is_stop && fr_time_at(f->q, at, &time) == 0)
            at++;
        bool timed = at < f->q->n && fr_time_at(f->q, at, &time) > 0;
        if (timed && !un && fr_c(f, found)->type != TYPE_TEXT && dated) {
            struct nl_mention *m = nl_add_span(sp, KIND_COLUMN, i, i + 1, 1.7);
            if (m) {
                m->ref = found;
                m->score = 0.95;
            }
        } else if (fr_c(f, found)->has_nulls && !nl_find_value(f->s, t->stem, NULL)) {
            struct nl_mention *m = nl_add_span(sp, KIND_MARK, i, i + 1, 1.3);
            if (m) {
                m->mark = (enum nl_mark)FM_NULL;
                m->ref = found;
                m->arg = !un;
            }
        }
    }
}

/* Words of a name that only say of what kind it is. */
static bool is_generic(const char *word)
{
    static const char *const words[] = { "level", "type", "kind",  "name",  "number", "date",
                                         "time",  "day",  "score", "value", "status", "amount",
                                         "count", "no",   "code",  "group", "on",     "at" };
    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (str_eq(word, words[i]))
            return true;
    return nl_is_stop(word) || fr_is_unit(word);
}

/* The word is what the name is about: delay of delay_minutes, but not unit of unit_price. */
static bool is_head_of(const struct nl_column *c, const struct nl_token *t)
{
    size_t n = strlen(t->text);
    int own = 0, generic = 0;
    for (int w = 0; w < c->words.n; w++) {
        const char *word = c->words.words[w];
        bool same = str_eq(word, t->text) ||
                    (n > 4 && t->text[n - 1] == 's' && strlen(word) == n - 1 &&
                     strncmp(word, t->text, n - 1) == 0);
        own += same;
        generic += !same && is_generic(word);
    }
    return own == 1 && own + generic == c->words.n;
}

/*
 * "average delay" with a column delay_minutes and a status Delayed, "grade" with grade_level and
 * scores: the column that has the very word comes before values and names of its kind.
 */
static void link_own_words(struct frame *f, struct nl_spans *sp)
{
    for (int i = 0; i < f->q->n; i++) {
        const struct nl_token *t = &f->q->t[i];
        struct nl_ref found = fr_none;
        int n = 0;
        if (t->quoted || t->is_stop || t->is_number || names_table(f, t->stem))
            continue;
        for (int tb = 0; tb < f->s->n_tables; tb++)
            for (int c = 0; c < f->s->tables[tb].n_columns; c++)
                if (is_head_of(&f->s->tables[tb].columns[c], t)) {
                    found = (struct nl_ref){ tb, c };
                    n++;
                }
        const struct nl_column *col = fr_c(f, found);
        if (n != 1 || col->words.n == 1 || col->is_flag || col->is_id)
            continue;
        bool valued = false, spelled = false;
        for (const struct nl_value *v = nl_find_value(f->s, t->stem, NULL); v;
             v = nl_find_value(f->s, t->stem, v)) {
            valued |= !v->is_part;
            size_t len = strlen(v->text);
            spelled |= !v->is_part && strncasecmp(v->text, t->text, len) == 0 &&
                       (t->text[len] == '\0' || str_eq(t->text + len, "s"));
        }
        if (spelled || (valued && !fr_is_measure(col) && !nl_is_date(col)))
            continue;
        struct nl_mention *m = nl_add_span(sp, KIND_COLUMN, i, i + 1, valued ? 1.0 : 0.58);
        if (!m)
            return;
        m->ref = found;
        m->score = 0.75;
    }
}

void fr_more_spans(void *ctx, struct nl_spans *sp)
{
    struct frame *f = ctx;
    link_capitals(f, sp);
    link_opposites(f, sp);
    link_compounds(f, sp);
    link_countries(f, sp);
    link_short(f, sp);
    link_times(f, sp);
    link_functions(f, sp);
    link_letters(f, sp);
    link_events(f, sp);
    link_done(f, sp);
    link_own_words(f, sp);
}
