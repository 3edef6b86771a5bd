/*
 * Constructions: what words do to each other by where they stand, whatever the data is about. Verbs
 * that nothing here has, words of degree, two words for one column, nouns for rows, and what a
 * preposition says of a value.
 */

#include <string.h>

#include "nl/frame.h"

#define SUBJECTS 20    /* different names, at the least, of those who have rows */
#define NEAR_SAME 0.45 /* as near as two words for one thing are, where rows are named */
#define NEAR_ROWS 0.3  /* as near as another word for the rows is to their name */

static bool ends_with(const char *w, const char *end)
{
    size_t n = strlen(w), k = strlen(end);
    return n > k + 1 && str_eq(w + n - k, end);
}

/* ---- before words are linked ---- */

/* "exceptionally slow", "suspiciously high": one word for all of them. */
static void name_degrees(struct frame *f)
{
    for (int i = 0; i + 1 < f->q->n; i++) {
        if (!ONE_OF(fr_word(f, i), "exceptionally", "abnormally", "extremely", "suspiciously",
                    "strangely", "oddly", "weirdly", "extraordinarily", "remarkably",
                    "surprisingly", "excessively", "anomalously", "atypically"))
            continue;
        for (size_t p = 0; p < fr_n_phrases; p++)
            if (strncmp(fr_phrases[p].words, "unusually ", 10) == 0 &&
                str_eq(fr_phrases[p].words + 10, fr_word(f, i + 1)))
                f->q->t[i].text = "unusually";
    }
}

/* "how high is the share of …", "split the orders by …": what is asked stands behind. */
static void skip_openings(struct frame *f)
{
    int n = f->q->n;
    if (n > 3 && str_eq(fr_word(f, 0), "how") &&
        ONE_OF(fr_word(f, 1), "high", "large", "big", "great", "low", "small") &&
        ONE_OF(fr_word(f, 2), "is", "are", "was", "were")) {
        int at = 3 + ONE_OF(fr_word(f, 3), "the", "our", "their");
        if (ONE_OF(fr_word(f, at), "share", "percentage", "proportion", "average", "mean", "median",
                   "total", "number", "rate", "fraction", "percent", "sum", "difference", "gap"))
            for (int i = 0; i < 3; i++)
                f->q->t[i] = (struct nl_token){
                    .text = "the", .stem = "the", .raw = f->q->t[i].raw, .is_stop = true
                };
    }
    bool verb = ONE_OF(fr_word(f, 0), "split", "divide", "segment", "slice", "categorise",
                       "categorize", "separate", "break", "cluster", "aggregate", "bucket");
    for (int i = 1; i < n && verb; i++)
        if (ONE_OF(fr_word(f, i), "by", "per", "into", "across")) {
            f->q->t[0].is_stop = true;
            f->q->t[0].lex = NULL;
            for (int k = 1; k < i; k++)
                if (ONE_OF(fr_word(f, k), "down", "up")) {
                    f->q->t[k].is_stop = true;
                    f->q->t[k].lex = NULL;
                }
            break;
        }
}

/* "e-mail" is one word. */
static void join_mail(struct frame *f)
{
    for (int i = 0; i + 1 < f->q->n; i++) {
        struct nl_token *t = &f->q->t[i];
        if (!str_eq(fr_word(f, i), "e") || !ONE_OF(fr_word(f, i + 1), "mail", "mails"))
            continue;
        memmove(t, t + 1, sizeof(*t) * (size_t)(f->q->n - i - 1));
        f->q->n--;
        t->text = t->stem = "email";
        t->lex = nl_lex_of(f->a, "email");
        nl_synonym_groups("email", t->synonyms);
    }
}

/* Words that the ways of a language put in front; the rest is read as if they were not there. */
void fr_before_linking(struct frame *f)
{
    name_degrees(f);
    skip_openings(f);
    join_mail(f);
}

/* ---- after words are linked ---- */

void fr_make_light(struct nl_mention *m)
{
    m->kind = KIND_MARK;
    m->mark = (enum nl_mark)FM_LIGHT;
    m->ref = m->other = fr_none;
    m->used = true;
}

void fr_put_mention(struct frame *f, int start, int end, struct nl_mention m)
{
    int kept = 0, at = 0;
    for (int i = 0; i < f->m.n; i++)
        if (f->m.m[i].end <= start || f->m.m[i].start >= end)
            f->m.m[kept++] = f->m.m[i];
    f->m.n = kept;
    if (f->m.n == NL_MAX_MENTIONS)
        return;
    while (at < f->m.n && f->m.m[at].start < start)
        at++;
    memmove(&f->m.m[at + 1], &f->m.m[at], sizeof(f->m.m[0]) * (size_t)(f->m.n - at));
    f->m.n++;
    m.start = start;
    m.end = end;
    m.other = fr_none;
    f->m.m[at] = m;
}

/* A column that numbers the rows and is called as they are: "a ticket", "weekly ticket count". */
static void name_rows(struct frame *f)
{
    for (int i = 0; i < f->m.n; i++) {
        struct nl_mention *m = &f->m.m[i];
        const struct nl_column *c = m->kind == KIND_COLUMN ? fr_c(f, m->ref) : NULL;
        const struct nl_name *t = c ? &f->s->tables[m->ref.table].words : NULL;
        bool repeats = c && c->n_values > 0 && !c->is_unique && !c->is_key && !c->many_values;
        if (!c || repeats || c->words.n != 1 || t->n != 1 ||
            !str_eq(c->words.stems[0], t->stems[0]) || m->end - m->start != 1)
            continue;
        const char *before = fr_word(f, m->start - 1), *after = fr_word(f, m->end);
        bool bucket = i > 0 && fr_is(m - 1, FM_BUCKET) && (m - 1)->end == m->start;
        if (!bucket && !ONE_OF(before, "a", "an", "per", "each", "every") &&
            !ONE_OF(after, "count", "counts", "volume", "volumes", "numbers", "figures", "total",
                    "totals"))
            continue;
        m->kind = KIND_TABLE;
        m->table = m->ref.table;
        m->ref = m->other = fr_none;
        m->score = 1;
    }
}

/* The table that the noun may stand for by its meaning; -1: none, or more than one. */
static int rows_called(const struct frame *f, const char *noun)
{
    const struct nl_lex *lex = nl_lex_of(f->a, noun);
    int found = -1;
    bool many = ends_with(noun, "s") && !ends_with(noun, "ss");
    for (int t = 0; t < f->s->n_tables && lex; t++) {
        const struct nl_name *n = &f->s->tables[t].words;
        bool same = false;
        for (int w = 0; w < n->n; w++) /* nurses are used like doctors, and are none */
            same |= n->lex[w] && (nl_lex_match(n->lex[w], lex) >= (many ? 0.01 : 0.6) ||
                                  (many && !lex->is_person && !n->lex[w]->is_person &&
                                   nl_lex_cosine(n->lex[w], lex) >= NEAR_SAME));
        if (same && found >= 0)
            return -1;
        if (same)
            found = t;
    }
    return found;
}

/* "complaints" where a column is called complaint type: rows of which there are kinds. */
static bool is_kind_column(const struct frame *f, const struct nl_mention *m)
{
    const struct nl_name *n = &fr_c(f, m->ref)->words;
    const char *word = fr_word(f, m->start);
    int named = 0;
    if (n->n != 2 || !ends_with(word, "s") || !str_eq(n->stems[0], f->q->t[m->start].stem) ||
        !ONE_OF(n->words[1], "type", "kind", "category", "class", "reason", "status", "state"))
        return false;
    for (int c = 0; c < f->s->tables[m->ref.table].n_columns; c++) {
        const struct nl_name *other = &f->s->tables[m->ref.table].columns[c].words;
        bool own = other->n > 1 && ONE_OF(other->words[other->n - 1], "id", "name", "code", "no",
                                          "number", "title");
        named += own && str_eq(other->stems[0], n->stems[0]);
    }
    return named == 0;
}

/*
 * "how many rides", "rides by hour", where the rows are trips and a column is called rider type:
 * another word for the rows at their place, not a part of that name.
 */
static void name_rows_by_meaning(struct frame *f)
{
    for (int i = 0; i < f->m.n; i++)
        if (f->m.m[i].kind == KIND_TABLE)
            return;
    for (int i = 0; i < f->m.n; i++) {
        struct nl_mention *m = &f->m.m[i];
        if (fr_is(m, FM_COUNT) || fr_is(m, FM_SHARE) || fr_is(m, FM_LIGHT) || fr_is(m, FM_ROWS) ||
            m->kind == KIND_VALUE || m->kind == KIND_NUMBER || fr_is(m, FM_TOP) ||
            fr_is(m, FM_BUCKET) || fr_is(m, FM_SUPER) || fr_is(m, FM_AGG) || fr_is(m, FM_ONAVG))
            continue;
        const struct nl_mention *before = i > 0 ? m - 1 : NULL;
        int t = -1;
        if (m->kind == KIND_COLUMN && m->end - m->start == 1 && is_kind_column(f, m))
            t = m->ref.table;
        else if (m->kind == KIND_COLUMN && m->end - m->start == 1 &&
                 m->score < (fr_is(before, FM_SUPER) ? 0.7 : 0.6))
            t = rows_called(f, fr_word(f, m->start));
        if (t < 0 || (t != m->ref.table && !fr_is(before, FM_SUPER)))
            return;
        if (m->kind == KIND_COLUMN && fr_c(f, m->ref)->has_nulls && is_kind_column(f, m))
            (void)fr_filter(f, m->ref, FILTER_IS_NOT_NULL); /* "closures": rows with a reason */
        m->kind = KIND_TABLE;
        m->table = t;
        m->ref = m->other = fr_none;
        m->score = 0.75;
        return;
    }
}

/* "the most deliveries", "how many deliveries" with `delivered_at`: rows that have that date. */
static void name_events(struct frame *f)
{
    for (int i = 0; i < f->m.n; i++) {
        struct nl_mention *m = &f->m.m[i];
        const struct nl_column *c = m->kind == KIND_COLUMN ? fr_c(f, m->ref) : NULL;
        const struct nl_mention *before = i > 0 ? m - 1 : NULL;
        const char *word = fr_word(f, m->start);
        const struct nl_lex *lex = c && m->end - m->start == 1 ? nl_lex_of(f->a, word) : NULL;
        if (!lex || !nl_is_date(c) || !lex->is_noun || !ends_with(word, "s") ||
            ends_with(word, "ss") || m->score >= 0.95 ||
            !(fr_is(before, FM_SUPER) || fr_is(before, FM_COUNT)) || fr_gap(f, before, m) > 0)
            continue;
        if (c->has_nulls)
            (void)fr_filter(f, m->ref, FILTER_IS_NOT_NULL);
        m->kind = KIND_TABLE; /* with the date in `ref`, which times will be of */
        m->table = m->ref.table;
        m->other = fr_none;
    }
}

/* "open" with a status Open and a date `opened`: the value is the very word. */
static void prefer_exact(struct frame *f)
{
    for (int i = 0; i < f->m.n; i++) {
        struct nl_mention *m = &f->m.m[i];
        const struct nl_column *c = m->kind == KIND_COLUMN ? fr_c(f, m->ref) : NULL;
        const char *word = fr_word(f, m->start);
        if (!c || m->end - m->start != 1 || !nl_is_date(c) || !*word)
            continue;
        bool own = false;
        for (int w = 0; w < c->words.n; w++)
            own |= str_eq(c->words.words[w], word);
        const char *stem = f->q->t[m->start].stem;
        for (const struct nl_value *v = own ? NULL : nl_find_value(f->s, stem, NULL); v;
             v = nl_find_value(f->s, stem, v))
            if (!v->is_part && str_ieq(v->text, word)) {
                fr_put_mention(f, m->start, m->end,
                               (struct nl_mention){ .kind = KIND_VALUE,
                                                    .score = 1,
                                                    .ref = { v->table, v->column },
                                                    .text = v->text,
                                                    .table = -1 });
                break;
            }
    }
}

/* "the promised date" with `promised_by`. */
static void drop_date_nouns(struct frame *f)
{
    for (int i = 1; i < f->q->n; i++) {
        const struct nl_mention *m = fr_mention_of(f, i), *before = fr_mention_of(f, i - 1);
        if (!ONE_OF(fr_word(f, i), "date", "dates") || !fr_is_col(before) ||
            before->end != i || !nl_is_date(fr_c(f, before->ref)) ||
            (m && !fr_is(m, FM_BUCKET) && !(fr_is_col(m) && m->score < 0.6)))
            continue;
        if (m)
            fr_make_light(&f->m.m[m - f->m.m]);
        f->q->t[i].is_stop = true;
    }
}

/* "days" of a daily log are its rows. */
static void name_days(struct frame *f)
{
    int table = -1;
    for (int t = 0; t < f->s->n_tables; t++)
        for (int w = 0; w < f->s->tables[t].words.n; w++)
            if (ONE_OF(f->s->tables[t].words.words[w], "daily", "day", "days") &&
                nl_own_date(&f->s->tables[t]) >= 0)
                table = table == -1 ? t : -2;
    for (int i = 0; i < f->m.n && table >= 0; i++) {
        struct nl_mention *m = &f->m.m[i], *before = i > 0 ? m - 1 : NULL;
        if (!fr_is(m, FM_BUCKET) || m->arg != BUCKET_DAY || !str_eq(fr_word(f, m->start), "days") ||
            fr_is(before, FM_BY) || fr_is(before, FM_EACH) ||
            (before && before->kind == KIND_NUMBER && before->end == m->start))
            continue;
        m->kind = KIND_TABLE;
        m->table = table;
        m->ref = m->other = fr_none;
        m->score = 0.9;
    }
}

/* "beer" of the sales, where batches have a column of that name as well. */
static void prefer_own_table(struct frame *f)
{
    int table = -1;
    for (int i = 0; i < f->m.n; i++)
        if (fr_is_col(&f->m.m[i]) && fr_is_measure(fr_c(f, f->m.m[i].ref))) {
            if (table >= 0 && table != f->m.m[i].ref.table)
                return;
            table = f->m.m[i].ref.table;
        }
    for (int i = 0; i < f->m.n && table >= 0; i++) {
        struct nl_mention *m = &f->m.m[i];
        const struct nl_column *c = m->kind == KIND_COLUMN ? fr_c(f, m->ref) : NULL;
        if (!c || m->ref.table == table || c->type != TYPE_TEXT)
            continue;
        for (int k = 0; k < f->s->tables[table].n_columns; k++)
            if (str_ieq(f->s->tables[table].columns[k].name, c->name))
                m->ref = (struct nl_ref){ table, k };
    }
}

/* "ticket volume", "visitor numbers": how many of them. */
static void count_behind(struct frame *f)
{
    for (int i = 0; i < f->m.n; i++) {
        struct nl_mention *m = &f->m.m[i], *next = fr_at(f, i + 1);
        const struct nl_mention *other;
        if (m->kind != KIND_TABLE || m->end >= f->q->n ||
            !ONE_OF(fr_word(f, m->end), "volume", "volumes", "numbers", "figures", "tally"))
            continue;
        if (!(other = fr_mention_of(f, m->end))) {
            f->q->t[m->end].is_stop = true;
        } else if (other == next && next->end - next->start == 1 && next->score < 0.8) {
            fr_make_light(next);
        }
    }
}

/* "delays at departure", "delayed on arrival": two words, one column. */
static void merge_columns(struct frame *f)
{
    for (int i = 0; i < f->m.n; i++)
        for (int k = i + 1; k < f->m.n && k <= i + 2; k++) {
            struct nl_mention *a = &f->m.m[i], *b = &f->m.m[k];
            if (a->kind != KIND_COLUMN || b->kind != KIND_COLUMN || a->ref.table != b->ref.table ||
                b->end - b->start != 1 || a->end - a->start != 1 ||
                (a->score >= 0.9 && b->score >= 0.9) ||
                !ONE_OF(fr_word(f, b->start - 1), "at", "on", "upon", "in", "of", "for") ||
                !fr_is_measure(fr_c(f, b->ref)) || (k > i + 1 && fr_gap(f, a, b) > 1))
                continue;
            struct nl_tokens *pair = &(
                struct nl_tokens){ .t = { f->q->t[a->start], f->q->t[b->start] }, .n = 2 };
            int found = -1, n = 0;
            for (int c = 0; c < f->s->tables[a->ref.table].n_columns; c++)
                if (nl_name_score(&f->s->tables[a->ref.table].columns[c].words, pair, 0, 2) > 0) {
                    found = c;
                    n++;
                }
            if (n != 1)
                continue;
            a->ref.column = found;
            a->other = fr_none;
            a->score = 0.9;
            fr_make_light(b);
        }
}

/*
 * "gifts paid in cash", "trips ended at noon": a participle behind its noun and before a
 * preposition says what happened, and is no measure, unless that is called so.
 */
static void drop_participles(struct frame *f)
{
    for (int i = 1; i < f->m.n; i++) {
        struct nl_mention *m = &f->m.m[i], *before = m - 1, *next = fr_at(f, i + 1);
        const struct nl_lex *lex = m->kind == KIND_COLUMN && m->end - m->start == 1 ?
                                       nl_lex_of(f->a, f->q->t[m->start].text) :
                                       NULL;
        if (!lex || !lex->is_verb || m->score >= 0.8 || !fr_is_measure(fr_c(f, m->ref)) ||
            before->kind != KIND_TABLE || before->end != m->start || !next ||
            next->kind != KIND_VALUE || next->start - m->end > 2 ||
            !ONE_OF(fr_word(f, m->end), "in", "by", "with", "via", "at", "on", "from", "to",
                    "through", "for", "using"))
            continue;
        fr_make_light(m);
    }
}

/*
 * "which supplier provides the most", "which genre gets borrowed the most": a verb that reminds of
 * a column, where another word names it or the verb stands before "the most".
 */
static void drop_verbs(struct frame *f)
{
    for (int i = 0; i < f->m.n; i++) {
        struct nl_mention *m = &f->m.m[i], *next = fr_at(f, i + 1);
        const struct nl_column *c = m->kind == KIND_COLUMN ? fr_c(f, m->ref) : NULL;
        const char *word = fr_word(f, m->start);
        const struct nl_lex *lex = c && m->end - m->start == 1 ? nl_lex_of(f->a, word) : NULL;
        if (!lex || !lex->is_verb || m->score >= 0.8 || i == 0 || c->type != TYPE_TEXT ||
            !(ends_with(word, "ed") || !lex->is_noun))
            continue;
        bool named = false;
        for (int k = 0; k < f->m.n; k++)
            named |= k != i && f->m.m[k].kind == KIND_COLUMN && fr_same(f->m.m[k].ref, m->ref) &&
                     f->m.m[k].score > m->score;
        bool most = next && (fr_is(next, FM_SUPER) || fr_is(next, FM_COMMON)) &&
                    next->start == m->end && ends_with(fr_word(f, next->end - 1), "st");
        bool subject = (m - 1)->kind == KIND_COLUMN || (m - 1)->kind == KIND_TABLE;
        bool far = m->score < 0.5 && !lex->is_noun; /* "anyone rode": no rider type */
        if (named || (most && subject) || far)
            fr_make_light(m);
    }
}

/* "billing related": what kind they are of, and no correlation. */
static void drop_related(struct frame *f)
{
    for (int i = 1; i < f->m.n; i++)
        if (fr_is(&f->m.m[i], FM_CORR) && f->m.m[i - 1].kind == KIND_VALUE &&
            f->m.m[i].start - f->m.m[i - 1].end <= 0 &&
            str_eq(fr_word(f, f->m.m[i].start), "related"))
            fr_make_light(&f->m.m[i]);
}

/* "new members each year": those that came to be then. */
static void drop_new(struct frame *f)
{
    for (int i = 0; i < f->q->n; i++) {
        const struct nl_mention *m = NULL, *next = NULL;
        if (!str_eq(fr_word(f, i), "new") || !(next = fr_mention_of(f, i + 1)) ||
            next->kind != KIND_TABLE || nl_own_date(&f->s->tables[next->table]) < 0)
            continue;
        if (!(m = fr_mention_of(f, i)))
            f->q->t[i].is_stop = true;
        else if (m->kind == KIND_COLUMN && m->score < 0.8)
            fr_make_light(&f->m.m[m - f->m.m]);
    }
}

/* "max 300", "minimum 3": at most, at least. */
static void bound_numbers(struct frame *f)
{
    for (int i = 0; i + 1 < f->m.n; i++) {
        struct nl_mention *m = &f->m.m[i];
        if (!fr_is(m, FM_AGG) || (m->arg != FUNC_MAX && m->arg != FUNC_MIN) ||
            (m + 1)->kind != KIND_NUMBER || (m + 1)->start != m->end)
            continue;
        m->mark = (enum nl_mark)FM_CMP;
        m->arg = m->arg == FUNC_MAX ? FILTER_LE : FILTER_GE;
        m->hint = NULL;
    }
}

void fr_after_linking(struct frame *f)
{
    bound_numbers(f);
    prefer_exact(f);
    drop_date_nouns(f);
    name_days(f);
    fr_name_causes(f);
    fr_name_agents(f);
    fr_name_presence(f);
    fr_name_durations(f);
    fr_name_past(f);
    fr_name_units(f);
    fr_name_rates(f);
    fr_name_totals(f);
    fr_name_amounts(f);
    fr_name_revenue(f);
    name_events(f);
    name_rows(f);
    name_rows_by_meaning(f);
    count_behind(f);
    merge_columns(f);
    drop_participles(f);
    drop_verbs(f);
    drop_related(f);
    drop_new(f);
    prefer_own_table(f);
    fr_leave_modifiers(f);
}

/* ---- verbs and particles ---- */

/* Whether an unknown word stands where a verb stands: "do we stock", "which agent handled". */
bool fr_is_verb_at(const struct frame *f, int i)
{
    const struct nl_token *t = &f->q->t[i];
    const struct nl_lex *lex = t->lex ? t->lex : nl_lex_of(f->a, t->text);
    const struct nl_mention *m = NULL;
    if (!lex || !lex->is_verb || t->quoted || i == 0)
        return false;
    const char *before = fr_word(f, i - 1);
    if (!lex->is_noun && !lex->is_other)
        return true;
    if (ONE_OF(before, "we", "you", "they", "i", "who", "anyone", "anybody", "someone", "somebody",
               "everyone", "people", "has", "have", "had", "been", "being", "did", "get", "gets",
               "got", "not", "to"))
        return true;
    bool after_name = (m = fr_mention_of(f, i - 1)) != NULL &&
                      (m->kind == KIND_TABLE || m->kind == KIND_COLUMN || m->kind == KIND_VALUE);
    if (!after_name)
        return false;
    if (ends_with(t->text, "ed") || ends_with(before, "s"))
        return true;
    /* "which branch lends the most", "how many tickets does an agent handle" */
    if (ONE_OF(fr_word(f, 0), "which", "what", "who") && ends_with(t->text, "s"))
        return true;
    for (int k = i - 2; k >= 0 && k >= i - 4; k--)
        if (ONE_OF(fr_word(f, k), "does", "do", "did"))
            return true;
    return false;
}

/* "how many are still out", "which ones are down": the particle is what is asked for. */
bool fr_is_state_at(const struct frame *f, int i)
{
    const struct nl_mention *m = NULL;
    if (!ONE_OF(fr_word(f, i), "out", "up", "down", "off", "over", "away", "back", "in", "on") ||
        (i + 1 < f->q->n && !f->q->t[i].comma_after) || (m = fr_mention_of(f, i)) != NULL)
        return false;
    int k = i - 1;
    while (k > 0 &&
           ONE_OF(fr_word(f, k), "still", "currently", "now", "already", "all", "yet", "not"))
        k--;
    return k > 0 && ONE_OF(fr_word(f, k), "is", "are", "was", "were", "be");
}

/*
 * A verb in a relative clause says which rows are meant: "games that the home team won". What it
 * says is lost if it is passed over, unless it leads to a condition: "who gave 3 or less".
 */
bool fr_restricts_at(const struct frame *f, int i)
{
    static const char *const states[] = { "won",  "win",  "wins", "lost",     "sold",
                                          "kept", "held", "sent", "complete", "available" };
    if (!nl_is_one_of(fr_word(f, i), states, ARRAY_SIZE(states)) &&
        (f->q->t[i].is_stop || fr_is_light(fr_word(f, i)) || !fr_is_verb_at(f, i)))
        return false;
    for (int k = 0; k < f->m.n; k++)
        if (f->m.m[k].start > i && f->m.m[k].start <= i + 3)
            return false;
    for (int k = i - 1; k > 1 && k >= i - 5; k--)
        if (ONE_OF(fr_word(f, k), "who", "that", "which", "where", "whose"))
            return true;
    return false;
}

/*
 * "how long do patients wait", "visits of customers over 60": whoever has a row, where something of
 * theirs is asked for. A name or an id in the plural, which nothing groups by and nothing counts.
 */
bool fr_is_subject(const struct frame *f, const struct nl_mention *m)
{
    const struct nl_column *c = fr_c(f, m->ref);
    const char *word = fr_word(f, m->start), *before = fr_word(f, m->start - 1);
    const struct nl_lex *lex = m->end - m->start == 1 ? nl_lex_of(f->a, word) : NULL;
    if (!lex || !lex->is_person || !ends_with(word, "s") || !c || fr_is_measure(c) ||
        (!c->is_id && !c->many_values && c->n_values < SUBJECTS) ||
        (f->n_measures == 0 && !f->counts) || f->counted.table >= 0 || f->super != 0)
        return false;
    for (int t = 0; t < f->r.scope.n; t++)
        if (f->r.scope.tables[t] == m->ref.table)
            return !ONE_OF(before, "by", "per", "each", "every", "no", "without", "not",
                           "different", "distinct", "which", "many");
    return false;
}

/* ---- nouns that nothing here has ---- */

int fr_fact_table(const struct nl_schema *s)
{
    int found = s->only;
    for (int t = 0; t < s->n_tables && s->only < 0; t++) {
        bool from = false, to = false;
        for (int k = 0; k < s->n_keys; k++) {
            from |= s->keys[k].from_table == t;
            to |= s->keys[k].to_table == t;
        }
        if (from && !to && found >= 0)
            return -1;
        if (from && !to)
            found = t;
    }
    return found;
}

double fr_nearness(const struct nl_name *n, const struct nl_lex *lex)
{
    double best = 0;
    for (int w = 0; w < n->n; w++)
        if (n->lex[w])
            best = MAX_OF(best, nl_lex_cosine(n->lex[w], lex));
    return best;
}

/*
 * "how many tickets came in last week", where the rows are called issues: a plural of what is done,
 * said or made, at the place of the subject, where nothing else names rows.
 */
void fr_find_noun(struct frame *f)
{
    const struct nl_mention *m;
    int table = fr_fact_table(f->s);
    for (int i = 0; i < f->m.n; i++)
        if (f->m.m[i].kind == KIND_TABLE)
            return;
    for (int i = 0; i < f->q->n && table >= 0; i++) {
        const struct nl_token *t = &f->q->t[i];
        if (t->is_stop || fr_is_light(t->text))
            continue;
        if ((m = fr_mention_of(f, i)) != NULL) {
            if (m->kind == KIND_VALUE || fr_is(m, FM_COUNT) || fr_is(m, FM_SHARE) ||
                fr_is(m, FM_LIGHT) || fr_is(m, FM_DIST) || fr_is(m, FM_RUNNING) ||
                (fr_is(m, FM_BUCKET) && m->hint))
                continue;
            return;
        }
        if (ONE_OF(t->text, "items", "articles", "goods", "entries", "occurrences", "instances")) {
            f->noun = i; /* any rows may be called so */
            f->noun_is_rows = true;
            f->head = table;
            return;
        }
        const struct nl_lex *lex = t->lex;
        size_t n = strlen(t->text);
        if (!lex || !lex->is_noun || !lex->is_event || n < 4 || t->text[n - 1] != 's' ||
            t->text[n - 2] == 's' || fr_is_verb_at(f, i))
            return;
        if (fr_nearness(&f->s->tables[table].words, lex) < NEAR_ROWS)
            return;
        f->noun = i;
        f->noun_is_rows = true;
        f->head = table;
        return;
    }
}

/*
 * Whether rows of the table are what the words from a token on speak of: "never sold" of order
 * lines, but not "nobody is responsible".
 */
bool fr_is_done_in(const struct frame *f, int table, int from)
{
    const struct nl_table *t = &f->s->tables[table];
    bool other = false;
    for (int i = from; i < f->q->n && i <= from + 2; i++) {
        const struct nl_lex *lex = nl_lex_of(f->a, fr_word(f, i));
        if (nl_is_stop(fr_word(f, i)))
            continue;
        if (lex && lex->is_verb)
            return true;
        other |= !lex || fr_nearness(&t->words, lex) < NEAR_ROWS;
    }
    return !other;
}

/* "safari users", "crime novels": a noun behind a value says what such a thing is. */
static bool is_kind_of(const struct frame *f, int i)
{
    const struct nl_mention *m = NULL, *next = NULL;
    const struct nl_lex *lex = f->q->t[i].lex;
    return i > 0 && lex && lex->is_noun && (lex->is_event || lex->is_person) &&
           (m = fr_mention_of(f, i - 1)) != NULL && m->kind == KIND_VALUE && m->used &&
           !m->is_part && !f->q->t[i - 1].comma_after &&
           (!(next = fr_mention_of(f, i + 1)) || next->kind == KIND_MARK);
}

bool fr_sums_unknown(const struct frame *f)
{
    const struct nl_mention *other;
    for (int i = 0; i < f->m.n; i++) {
        int at = f->m.m[i].end;
        if (!fr_is(&f->m.m[i], FM_AGG))
            continue;
        while (at < f->q->n && ONE_OF(fr_word(f, at), "the", "our", "of", "a", "all", "total"))
            at++;
        if (at < f->q->n && !(other = fr_mention_of(f, at)) && !f->q->t[at].is_stop &&
            !fr_is_light(fr_word(f, at)) && !fr_is_verb_at(f, at))
            return true;
    }
    return false;
}

bool fr_is_noun_at(const struct frame *f, int i)
{
    return (i == f->noun && f->noun_is_rows) || is_kind_of(f, i);
}

/* ---- what a preposition says of a value ---- */

static bool is_called_one_of(const struct nl_column *c, const char *const *stems, size_t n)
{
    for (int w = 0; w < c->words.n; w++)
        for (size_t k = 0; k < n; k++)
            if (strncmp(c->words.stems[w], stems[k], strlen(stems[k])) == 0)
                return true;
    return false;
}

static bool has_value(const struct nl_column *c, const char *text)
{
    for (size_t v = 0; v < c->n_values && c->type == TYPE_TEXT; v++)
        if (str_ieq(c->values[v], text))
            return true;
    return false;
}

int fr_place_value(const struct frame *f, const struct nl_mention *m, struct nl_ref *ref)
{
    static const char *const from[] = { "origin", "from", "sourc", "depart",
                                        "start",  "send", "pickup" },
                             *const to[] = { "dest",   "to",        "target",  "arriv", "end",
                                             "receiv", "recipient", "dropoff", "reciev" };
    const struct nl_table *t = &f->s->tables[ref->table];
    int n = 0, found = -1, fits = 0, at = m->start - 1;
    while (at > 0 && ONE_OF(fr_word(f, at), "the", "airport", "station", "city"))
        at--;
    bool leaves = ONE_OF(fr_word(f, at), "from", "leaving", "departing"),
         comes = ONE_OF(fr_word(f, at), "to", "into", "towards", "reaching");
    for (int c = 0; c < t->n_columns; c++) {
        if (!has_value(&t->columns[c], m->text))
            continue;
        n++;
        if ((leaves && is_called_one_of(&t->columns[c], from, ARRAY_SIZE(from))) ||
            (comes && is_called_one_of(&t->columns[c], to, ARRAY_SIZE(to)))) {
            fits++;
            found = c;
        }
    }
    if (n > 1 && fits == 1) {
        ref->column = found;
        return 1;
    }
    return n;
}
