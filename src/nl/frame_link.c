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
    static _Thread_local char kept[64]; /* copied by the caller before the next question */
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
    const struct nl_token *t = &f->q->t[m->start];
    return m->kind == KIND_COLUMN && m->end - m->start == 1 && !t->quoted &&
           m->score < FAR_SCORE && t->near;
}

/* "which requests have no address": no "Request No" is meant. */
static void read_no(const struct frame *f, struct nl_mention *m)
{
    const struct nl_column *c = m->kind == KIND_COLUMN ? fr_c(f, m->ref) : NULL;
    if (!c || c->words.n < 2 || m->end - m->start != 1 || !str_eq(fr_word(f, m->start), "no"))
        return;
    m->kind = KIND_MARK;
    m->mark = (enum nl_mark)FM_NOT;
    m->arg = 1;
    m->ref = m->other = fr_none;
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
    const char *last = c->words.words[c->words.n - 1];
    size_t last_len = strlen(last);
    /* "kegs" are not keg_returned, unless the question has the verb */
    bool done = m->end - m->start == 1 && first + 1 < c->words.n && last_len > 4 &&
                str_eq(last + last_len - 2, "ed");
    for (int k = 0; k < f->q->n && done; k++) {
        const char *word = fr_word(f, k);
        done = !(nl_word_match(&c->words, c->words.n - 1, &f->q->t[k]) >= 0.6 ||
                 (strncmp(word, "un", 2) == 0 && str_eq(word + 2, last)));
    }
    for (int k = m->start; k < m->end; k++) {
        const struct nl_token *t = &f->q->t[k];
        for (int w = 0; w < c->words.n; w++) {
            const char *word = c->words.words[w];
            size_t len = strlen(word);
            bool verb = len > 4 && str_eq(word + len - 2, "ed");
            if (nl_word_match(&c->words, w, t) >= 0.6 && ((w == first && !done) || verb))
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
    const struct nl_linker linker = { fr_phrases, fr_n_phrases, fr_more_spans, f };
    split_numbers(f);
    fr_before_linking(f);
    skip_chart_words(f);
    respell(f);
    nl_prefer_names(f->s, f->q);
    f->all.n = 0;
    for (int t = 0; t < f->s->n_tables && f->all.n < NL_SCOPE_TABLES; t++)
        if (f->s->tables[t].n_columns > 0)
            f->all.tables[f->all.n++] = t;
    int r = nl_link_by(f->s, &f->all, f->q, &linker, f->a, &f->m, err);
    int n = 0;
    for (int i = 0; i < f->m.n && r >= 0; i++) {
        read_no(f, &f->m.m[i]);
        if (is_sound(f, &f->m.m[i]))
            f->m.m[n++] = f->m.m[i];
    }
    f->m.n = r < 0 ? 0 : n;
    if (r >= 0)
        fr_after_linking(f);
    return r;
}
