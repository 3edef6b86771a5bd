/* What each word of a question is, over all tables at once. Misspelt words are set right first. */

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "nl/frame.h"

#define NEAR_COSINE 0.55 /* of words that may stand for each other */
#define FAR_SCORE 0.5    /* of a link to one of two words of a name */
#define NEAR_MARGIN 0.06 /* by which one is nearer than all others */

/* ---- spelling ---- */

struct spelling {
    const char *word, *best;
    int limit, distance;
    bool known;
};

static void try_word(struct spelling *sp, const char *w, size_t n)
{
    char one[64];
    if (n < 3 || n >= sizeof(one) || sp->known)
        return;
    for (size_t i = 0; i < n; i++)
        one[i] = (char)tolower((unsigned char)w[i]);
    one[n] = '\0';
    if (str_eq(one, sp->word)) {
        sp->known = true;
        return;
    }
    if (one[0] != sp->word[0] || n < 4)
        return;
    int d = nl_edit_distance(one, sp->word, sp->limit);
    if (d <= sp->limit && d < sp->distance)
        sp->distance = d;
    else
        return;
    sp->best = NULL;
    static char kept[64]; /* copied by the caller before the next question */
    memcpy(kept, one, n + 1);
    sp->best = kept;
}

static void try_words(struct spelling *sp, const char *text)
{
    while (*text) {
        size_t n = 0;
        while (isalnum((unsigned char)text[n]) || (unsigned char)text[n] >= 0x80)
            n++;
        try_word(sp, text, n);
        text += n;
        text += *text != '\0';
    }
}

static bool family(const struct nl_schema *s, const struct nl_token *t)
{
    for (int k = 0; k < s->n_tables; k++) {
        for (int w = 0; w < s->tables[k].words.n; w++)
            if (str_eq(s->tables[k].words.stems[w], t->stem))
                return true;
        for (int c = 0; c < s->tables[k].n_columns; c++)
            for (int w = 0; w < s->tables[k].columns[c].words.n; w++)
                if (str_eq(s->tables[k].columns[c].words.stems[w], t->stem))
                    return true;
    }
    return nl_find_value(s, t->stem, NULL) != NULL;
}

static void respell(struct frame *f)
{
    static const char *const more[] = {
        "january",  "february", "march",    "april",   "june",   "july",   "august",  "september",
        "october",  "november", "december", "quarter", "month",  "monday", "tuesday", "wednesday",
        "thursday", "friday",   "saturday", "sunday",  "female", "male"
    };
    for (int i = 0; i < f->q->n; i++) {
        struct nl_token *t = &f->q->t[i];
        size_t n = strlen(t->text);
        bool usual = t->lex && t->lex->is_known && t->lex->vector; /* rare words may be misspelt */
        if (t->quoted || t->is_stop || t->is_number || n < 4 || fr_is_light(t->text) ||
            t->synonyms[0] || t->synonyms[1] || usual || (n < 5 && t->lex) || family(f->s, t) ||
            fr_country(t->text) || fr_opposite(t->stem, 0))
            continue;
        struct spelling sp = { .word = t->text, .limit = n >= 8 ? 2 : 1, .distance = 3 };
        for (int k = 0; k < f->s->n_tables; k++) {
            try_words(&sp, f->s->tables[k].name);
            for (int c = 0; c < f->s->tables[k].n_columns; c++) {
                const struct nl_column *col = &f->s->tables[k].columns[c];
                try_words(&sp, col->name);
                for (size_t v = 0;
                     v < col->n_values && col->type == TYPE_TEXT && col->n_values <= 300; v++)
                    try_words(&sp, col->values[v]);
            }
        }
        for (size_t k = 0; k < fr_n_phrases && !sp.known; k++)
            try_words(&sp, fr_phrases[k].words);
        for (size_t k = 0; k < ARRAY_SIZE(more) && !sp.known; k++)
            try_words(&sp, more[k]);
        if (sp.known || !sp.best)
            continue;
        const char *better = arena_strdup(f->a, sp.best);
        if (!better)
            return;
        t->text = better;
        t->stem = nl_stem(f->a, better);
        if (!t->stem)
            t->stem = better;
        nl_synonym_groups(t->stem, t->synonyms);
        t->lex = nl_lex_of(f->a, better);
        t->is_stop = nl_is_stop(better);
    }
}

/* ---- words by their use ---- */

static bool is_named(const struct nl_name *n, const struct nl_token *t)
{
    for (int w = 0; w < n->n; w++)
        if (str_eq(n->stems[w], t->stem) || str_eq(n->words[w], t->text) ||
            (n->shortened[w] && str_ieq(n->shortened[w], t->text)) ||
            (n->synonyms[w][0] & t->synonyms[0]) || (n->synonyms[w][1] & t->synonyms[1]))
            return true;
    return false;
}

struct nearest {
    const char *stem;
    double first, second; /* cosines; the second of another stem */
    bool related;         /* a name has to do with the word by its concepts */
};

static void look_near(const struct nl_name *n, const struct nl_token *t, struct nearest *ret)
{
    for (int w = 0; w < n->n; w++) {
        if (!n->lex[w])
            continue;
        ret->related |= nl_lex_match(n->lex[w], t->lex) > 0;
        double x = nl_lex_cosine(n->lex[w], t->lex);
        if (ret->stem && str_eq(ret->stem, n->stems[w]))
            continue;
        if (x > ret->first) {
            ret->second = ret->first;
            ret->first = x;
            ret->stem = n->stems[w];
        } else {
            ret->second = MAX_OF(ret->second, x);
        }
    }
}

/* A noun that no name has, nor any of its synonyms. */
static void link_by_use(const struct nl_schema *s, struct nl_token *t)
{
    struct nearest near = { 0 };
    if (!t->lex->is_noun || !t->lex->vector || t->is_stop || t->is_operator || t->is_number ||
        t->capital || fr_is_light(t->text))
        return;
    for (int k = 0; k < s->n_tables; k++) {
        look_near(&s->tables[k].words, t, &near);
        for (int c = 0; c < s->tables[k].n_columns; c++)
            look_near(&s->tables[k].columns[c].words, t, &near);
    }
    if (!near.related && near.first >= NEAR_COSINE && near.first - near.second >= NEAR_MARGIN)
        t->near = near.stem;
}

/* "Jane Doe" in quotes, where first and last names are columns of their own, is two values. */
static void split_quoted(const struct nl_schema *s, struct nl_tokens *q)
{
    for (int i = 0; i < q->n && q->n < NL_MAX_TOKENS; i++) {
        struct nl_token *t = &q->t[i], half[2];
        const char *space = t->quoted && !nl_find_value(s, t->stem, NULL) ? strchr(t->stem, ' ') :
                                                                            NULL;
        if (!space || strchr(space + 1, ' '))
            continue;
        const struct nl_value *known[2] = { NULL, NULL };
        for (int k = 0; k < 2; k++) {
            size_t n = (size_t)(space - t->stem);
            char key[NL_VALUE_MAX_BYTES];
            if (snprintf(key, sizeof(key), "%.*s", k ? (int)strlen(space + 1) : (int)n,
                         k ? space + 1 : t->stem) < 0)
                continue;
            known[k] = nl_find_value(s, key, NULL);
            while (known[k] && known[k]->is_part)
                known[k] = nl_find_value(s, key, known[k]);
            half[k] = *t;
            if (known[k]) {
                half[k].stem = known[k]->key;
                half[k].raw = half[k].text = known[k]->text;
            }
        }
        if (!known[0] || !known[1] || known[0]->table != known[1]->table)
            continue;
        memmove(&q->t[i + 2], &q->t[i + 1], sizeof(*t) * (size_t)(q->n - i - 1));
        q->t[i] = half[0];
        q->t[i + 1] = half[1];
        q->t[i].comma_after = false;
        q->n++;
        i++;
    }
}

void nl_prefer_names(const struct nl_schema *s, struct nl_tokens *q)
{
    split_quoted(s, q);
    for (int i = 0; i < q->n; i++) {
        struct nl_token *t = &q->t[i];
        bool named = t->lex && nl_find_value(s, t->stem, NULL);
        for (int k = 0; k < s->n_tables && t->lex && !named; k++) {
            named = is_named(&s->tables[k].words, t);
            for (int c = 0; c < s->tables[k].n_columns && !named; c++)
                named = is_named(&s->tables[k].columns[c].words, t);
        }
        if (named)
            t->lex = NULL;
        else if (t->lex)
            link_by_use(s, t);
    }
}

/* ---- more spans ---- */

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

static bool names_column(const struct nl_column *c, const char *stem)
{
    for (int w = 0; w < c->words.n; w++)
        if (str_eq(c->words.stems[w], stem))
            return true;
    return false;
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
                    if (!names_column(col, stems[k]))
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
                bool late = names_column(col, "lat") || names_column(col, "late") ||
                            names_column(col, "delay") || names_column(col, "overdu");
                bool ontime = names_column(col, "ontim") || names_column(col, "punctual") ||
                              (names_column(col, "on") && names_column(col, "tim"));
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
                if (col->is_flag && names_column(col, f->q->t[i + 1].stem))
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
                bool code = strlen(v->text) <= 3 && !names_column(c, "country") &&
                            !names_column(c, "nation") && !names_column(c, "code");
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
                                !strchr(x, ' ') && strlen(x) <= n + 3;
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

static void link_times(struct frame *f, struct nl_spans *sp)
{
    bool dates = false;
    for (int tb = 0; tb < f->s->n_tables; tb++)
        for (int c = 0; c < f->s->tables[tb].n_columns; c++)
            dates |= nl_is_date(&f->s->tables[tb].columns[c]);
    for (int i = 0; i < f->q->n && dates && f->n_times < FRAME_TIMES; i++) {
        struct fr_time *t = &f->times[f->n_times];
        int n = fr_time_at(f->q, i, t);
        if (n == 0)
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
                for (size_t v = 0; v < col->n_values && names_column(col, b->stem); v++)
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
                if (!nl_is_date(col) || !names_column(col, t->stem) || names_table(f, t->stem))
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

static void more_spans(void *ctx, struct nl_spans *sp)
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
}

/* "5-star", "9-10": a number and what it counts. */
static void split_numbers(struct frame *f)
{
    for (int i = 0; i < f->q->n && f->q->n < NL_MAX_TOKENS; i++) {
        struct nl_token *t = &f->q->t[i];
        const char *dash = t->quoted ? NULL : strchr(t->text, '-');
        if (!dash || dash == t->text || !isalpha((unsigned char)dash[1]) || strchr(dash + 1, '-'))
            continue;
        for (const char *p = t->text; p < dash; p++)
            if (!isdigit((unsigned char)*p))
                dash = NULL, p = t->text + strlen(t->text);
        if (!dash || nl_find_value(f->s, nl_value_key(f->a, t->text), NULL))
            continue;
        memmove(t + 2, t + 1, sizeof(*t) * (size_t)(f->q->n - i - 1));
        f->q->n++;
        struct nl_token *w = t + 1;
        const char *rest = arena_strdup(f->a, dash + 1),
                   *digits = arena_strndup(f->a, t->text, (size_t)(dash - t->text));
        if (!rest || !digits)
            return;
        *w = (struct nl_token){
            .text = rest, .raw = rest, .stem = nl_stem(f->a, rest), .comma_after = t->comma_after
        };
        nl_synonym_groups(w->stem, w->synonyms);
        w->lex = nl_lex_of(f->a, rest);
        w->is_stop = nl_is_stop(rest);
        t->text = t->raw = t->stem = digits;
        t->is_number = true;
        t->number = strtod(digits, NULL);
        t->comma_after = false;
    }
}

/* Words between spaces. */
static int words_of(const char *text)
{
    int n = 1;
    for (; *text; text++)
        n += *text == ' ';
    return n;
}

/* One word of a longer name, and not even that: a word that is only used like it. */
static bool is_far(const struct frame *f, const struct nl_mention *m)
{
    return m->kind == KIND_COLUMN && m->end - m->start == 1 && m->score < FAR_SCORE &&
           f->q->t[m->start].near;
}

/*
 * Half a name is no name: "visits" is not first_visit, "time" is not full_time, and a word
 * somewhere in a long text is not
 * that text. A flag is spoken of by its first word or by its verb.
 */
static bool is_sound(const struct frame *f, struct nl_mention *m)
{
    const struct nl_column *c = fr_c(f, m->ref);
    if (is_far(f, m))
        return false;
    if (m->kind == KIND_VALUE && (m->is_piece || m->is_part)) {
        size_t sum = 0;
        for (size_t v = 0; v < c->n_values && v < 50; v++)
            sum += strlen(c->values[v]);
        m->is_part = true;
        return c->n_values == 0 ||
               (sum / MIN_OF(c->n_values, (size_t)50) <= 22 && words_of(m->text) <= 4);
    }
    if (m->kind != KIND_COLUMN || !c->is_flag || m->score >= 0.8)
        return true;
    int first = 0;
    while (first + 1 < c->words.n &&
           (nl_is_stop(c->words.words[first]) || strlen(c->words.words[first]) < 3))
        first++;
    for (int k = m->start; k < m->end; k++) {
        const struct nl_token *t = &f->q->t[k];
        for (int w = 0; w < c->words.n; w++) {
            const char *word = c->words.words[w];
            size_t len = strlen(word);
            bool verb = len > 4 && str_eq(word + len - 2, "ed");
            if (nl_word_match(&c->words, w, t) >= 0.6 && (w == first || verb))
                return true;
        }
    }
    return false;
}

/* "a line chart of", "pie of": the kind of a picture is no word about the data. */
static void skip_chart_words(struct frame *f)
{
    static const char *const kinds[] = { "line",  "bar",     "pie",     "area",     "column",
                                         "donut", "stacked", "scatter", "doughnut", "bars" },
                             *const charts[] = { "chart",   "graph",  "plot",
                                                 "diagram", "charts", "graphs" };
    for (int i = 0; i < f->q->n; i++) {
        struct nl_token *t = &f->q->t[i];
        const char *next = i + 1 < f->q->n ? f->q->t[i + 1].text : "";
        bool kind = false, chart = false, then = false;
        for (size_t k = 0; k < ARRAY_SIZE(kinds) && !t->quoted; k++)
            kind |= str_eq(t->text, kinds[k]);
        for (size_t k = 0; k < ARRAY_SIZE(charts) && !t->quoted; k++) {
            chart |= str_eq(t->text, charts[k]);
            then |= str_eq(next, charts[k]);
        }
        if (!chart && !(kind && (then || (str_eq(next, "of") && str_eq(t->text, "pie")))))
            continue;
        f->charts = true;
        t->is_stop = true;
    }
}

int fr_link(struct frame *f, struct err *err)
{
    const struct nl_linker linker = { fr_phrases, fr_n_phrases, more_spans, f };
    split_numbers(f);
    fr_before_linking(f);
    skip_chart_words(f);
    respell(f);
    nl_prefer_names(f->s, f->q);
    f->all.n = 0;
    for (int t = 0; t < f->s->n_tables && f->all.n < NL_SCOPE_TABLES; t++)
        f->all.tables[f->all.n++] = t;
    int r = nl_link_by(f->s, &f->all, f->q, &linker, f->a, &f->m, err);
    int n = 0;
    for (int i = 0; i < f->m.n && r >= 0; i++)
        if (is_sound(f, &f->m.m[i]))
            f->m.m[n++] = f->m.m[i];
    f->m.n = r < 0 ? 0 : n;
    if (r >= 0)
        fr_after_linking(f);
    return r;
}
