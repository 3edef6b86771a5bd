/*
 * Words that found no use: those that a question can do without, and those that it cannot, which
 * are named as not understood.
 */

#include <string.h>

#include "nl/frame.h"

/* Cosines of word vectors. */
#define TOPIC 0.3       /* as near as a word of the same subject is to the names of a table */
#define ROWS_CALLED 0.4 /* as near as another word for the rows is to the table's name */
#define VALUE_LIKE 0.5  /* as near as a value that is not there is to one that is */

#define FEW_VALUES 40  /* values of a column that are compared with a word */
#define LEFT_OUT_MAX 2 /* words of a question */
#define WEAK_LINK 0.7  /* a link with a lower score may be none */

/* ---- mentions that found no use and need none ---- */

bool fr_is_harmless(const struct frame *f, const struct nl_mention *m)
{
    const struct nl_mention *next = m + 1 < f->m.m + f->m.n ? m + 1 : NULL;
    if (m->kind == KIND_TABLE)
        return nl_in_scope(&f->r.scope, m->table) || m->table == f->semi || m->table == f->anti;
    if (m->kind == KIND_COLUMN && fr_is_subject(f, m))
        return true;
    if (m->kind == KIND_COLUMN && m->end - m->start == 1) {
        /* "shipped by rail": every row of these was */
        const struct nl_column *c = fr_c(f, m->ref);
        const struct nl_token *t = &f->q->t[m->start];
        const struct nl_mention *left = m > f->m.m ? m - 1 : NULL;
        const struct nl_lex *lex = nl_is_date(c) ? nl_lex_of(f->a, t->text) : NULL;
        return lex && !c->has_nulls && lex->is_verb && !lex->is_noun &&
               nl_in_scope(&f->r.scope, m->ref.table) && !fr_is(left, FM_BY) && !fr_is(left, FM_EACH);
    }
    if (m->kind != KIND_MARK)
        return false;
    switch ((enum fr_mark)m->mark) {
    case FM_AND:
    case FM_WHO:
    case FM_WHEN:
    case FM_LIGHT:
    case FM_ANY:
    case FM_COUNT:
    case FM_ROWS:
    case FM_COLUMNS:
    case FM_DESCRIBE:
        return true;
    case FM_DECLINE:
        return m->arg == 1;
    case FM_DISTINCT:
        return f->counts;
    case FM_CMP: /* "over the last 7 days", "from Germany", "through a friend" */
        if (str_eq(f->q->t[m->start].text, "through") && next && next->kind == KIND_VALUE)
            return true;
        return next && next->used && !(next->kind == KIND_NUMBER) &&
                       (fr_is(next, FM_TIME) || (m->hint && str_eq(m->hint, "@~"))) ?
                   true :
                   m->hint && str_eq(m->hint, "@~");
    case FM_BY: /* "by phone", "reported by a customer" */
        return next && next->used && next->kind != KIND_MARK;
    case FM_AGG:
        if (m->arg == FUNC_SUM)
            return f->counts || f->n_measures > 0 || f->said[FM_SHARE];
        for (int i = 0; i < f->n_measures; i++)
            if (f->measures[i].func == m->arg)
                return true;
        return false;
    default:
        return false;
    }
}

/*
 * "how many bugs have high priority": of the only table, whatever its name. Without a
 * condition that
 * its columns know, the noun may be anything, unless the table has a name that says nothing.
 */
static bool is_rows(const struct frame *f)
{
    bool times = false, named = false;
    for (int k = 0; k < f->n_times; k++)
        times |= f->times[k].used;
    const struct nl_name *name = &f->s->tables[f->s->only >= 0 ? f->s->only : 0].words;
    for (int w = 0; w < name->n; w++)
        named |= name->lex[w] != NULL;
    return !named || ((f->r.n_filters > 0 || times) && f->r.n_group == 0);
}

/* "in kilos", behind a weight that is in kilos: it says what is so anyway. */
static bool is_said_unit(const struct frame *f, int at)
{
    bool square = at > 0 && at < f->q->n && str_eq(f->q->t[at - 1].text, "square");
    if (at >= f->q->n)
        return false;
    const char *before = at > square ? f->q->t[at - 1 - square].text : "";
    const char *unit = square ? "sqm" : f->q->t[at].text;
    if (!str_eq(before, "in") || !fr_is_unit(unit))
        return false;
    for (int i = 0; i < f->r.n_select; i++) {
        const struct nl_column *c = fr_c(f, f->r.select[i].ref);
        if (c && f->r.select[i].func != FUNC_COUNT && f->r.select[i].func != FUNC_COUNT_DISTINCT &&
            fr_is_measure(c) && fr_unit_factor(c, unit) == 1)
            return true;
    }
    return false;
}

/*
 * "stock value by category", read as how many rows there are: the noun that says what is measured
 * was not found.
 */
static bool is_lost_amount(const struct frame *f, int at)
{
    static const char *const words[] = { "value", "values", "amount", "amounts", "worth", "size" };
    bool amount = false, counted = f->n_measures == 0 && !f->has_by;
    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        amount |= str_eq(f->q->t[at].text, words[i]);
    for (int i = 0; i < f->r.n_select && counted && amount; i++)
        if (f->r.select[i].func == FUNC_COUNT && !f->said[FM_COUNT])
            return true;
    return false;
}

/* ---- words that can be left out ---- */

/* Whether the word belongs to what the tables are about: "workout" where there are visits. */
static bool is_of_topic(const struct frame *f, const struct nl_lex *lex)
{
    double best = 0;
    for (int i = 0; i < f->r.scope.n; i++) {
        const struct nl_table *t = &f->s->tables[f->r.scope.tables[i]];
        best = MAX_OF(best, fr_nearness(&t->words, lex));
        for (int c = 0; c < t->n_columns; c++)
            best = MAX_OF(best, fr_nearness(&t->columns[c].words, lex));
    }
    return best >= TOPIC;
}

/* Whether it could be meant for a value: "in the evening" where there are mornings. */
static bool is_like_value(const struct frame *f, const struct nl_lex *lex)
{
    for (int i = 0; i < f->r.scope.n; i++) {
        const struct nl_table *t = &f->s->tables[f->r.scope.tables[i]];
        for (int c = 0; c < t->n_columns; c++) {
            const struct nl_column *x = &t->columns[c];
            for (size_t v = 0; x->type == TYPE_TEXT && x->n_values <= FEW_VALUES && v < x->n_values;
                 v++) {
                struct nl_name words = { .n = 0 };
                if (nl_split_name(f->a, x->values[v], &words) >= 0 &&
                    fr_nearness(&words, lex) >= VALUE_LIKE)
                    return true;
            }
        }
    }
    return false;
}

static bool is_plural(const char *word)
{
    size_t n = strlen(word);
    return n > 3 && word[n - 1] == 's' && word[n - 2] != 's';
}

/* Whether the noun phrase ends here: a comma, a phrase of the planner or a function word is next. */
static bool ends_phrase(const struct frame *f, int i)
{
    const struct nl_mention *next = fr_mention_of(f, i + 1);
    return i + 1 >= f->q->n || f->q->t[i].comma_after || (next && next->kind == KIND_MARK) ||
           (!next && (f->q->t[i + 1].is_stop || fr_is_light(fr_word(f, i + 1))));
}

/* "of the season", "at our school": the whole that the data is of. */
static bool is_whole(const struct frame *f, int i)
{
    return ONE_OF(fr_word(f, i - 1), "the", "our", "this", "your") &&
           ONE_OF(fr_word(f, i - 2), "in", "at", "of", "on", "with") && !is_plural(fr_word(f, i)) &&
           ends_phrase(f, i);
}

/* "workout duration", "support tickets": a noun before a name that is used. */
static bool is_before_name(const struct frame *f, int i)
{
    const struct nl_mention *m = fr_mention_of(f, i + 1);
    return m && !f->q->t[i].comma_after && m->score >= WEAK_LINK &&
           (m->kind == KIND_TABLE ||
            (m->kind == KIND_COLUMN && !fr_c(f, m->ref)->is_id &&
             (m->other.table < 0 || m->other_score < 0.9 * m->score)));
}

/* "email address", "solar power": a noun behind a name that is used. */
static bool is_behind_name(const struct frame *f, int i)
{
    const struct nl_mention *m = i > 0 ? fr_mention_of(f, i - 1) : NULL;
    bool kind = ONE_OF(f->q->t[i].stem, "typ", "type", "status", "statu", "code", "cod", "kind",
                       "class", "categori", "category", "level", "rate", "date", "number");
    return m && m->used && !f->q->t[i - 1].comma_after && m->score >= WEAK_LINK && !kind &&
           !f->said[FM_DISTINCT] && (m->kind == KIND_COLUMN || m->kind == KIND_TABLE) &&
           ends_phrase(f, i);
}

/* "homes with a garden", "how many items were lent in June": a noun at the place of the rows. */
static bool is_rows_noun(const struct frame *f, int i)
{
    bool bears = f->r.n_filters + f->n_times + f->r.n_group + f->n_measures > 0;
    if (!is_plural(fr_word(f, i)) || f->said[FM_DISTINCT] || f->anchor < 0 || !bears ||
        f->counted.table >= 0)
        return false;
    for (int k = i - 1; k >= 0; k--) {
        const struct nl_mention *m = fr_mention_of(f, k);
        if (f->q->t[k].comma_after)
            return false;
        if (m && m->kind != KIND_VALUE && m->kind != KIND_NUMBER &&
            !(m->kind == KIND_MARK && !fr_is(m, FM_BY) && !fr_is(m, FM_EACH) && !fr_is(m, FM_NOT)))
            return false;
    }
    return true;
}

/* "how long is a book kept", "the median age of a customer": each row is about one. */
static bool is_each(const struct frame *f, int i)
{
    bool mean = false;
    for (int k = 0; k < f->n_measures; k++)
        mean |= f->measures[k].func == FUNC_AVG || f->measures[k].func == FUNC_MEDIAN;
    return mean && ONE_OF(fr_word(f, i - 1), "a", "an") && !ONE_OF(fr_word(f, i - 2), "with", "by") &&
           !(fr_mention_of(f, i + 1) && fr_mention_of(f, i + 1)->kind != KIND_MARK);
}

/*
 * A noun of the subject that does not tell rows from each other. A name, a number or an adjective
 * always may.
 */
static bool can_do_without(const struct frame *f, int i)
{
    const struct nl_token *t = &f->q->t[i];
    const struct nl_lex *lex = t->lex ? t->lex : nl_lex_of(f->a, t->text);
    const struct nl_mention *left = i > 0 ? fr_mention_of(f, i - 1) : NULL;
    /* "stock worth", "profit on jobs": what is measured is never left out */
    if (ONE_OF(t->stem, "worth", "valu", "value", "profit", "margin", "cost", "price", "pric",
               "revenu", "revenue", "salary", "salari", "wage", "wag", "budget", "size", "siz",
               "age", "weight", "amount", "total", "loss", "growth", "interest"))
        return false;
    if (!lex || !lex->is_noun || t->quoted || t->is_number || (t->capital && i > 0) ||
        fr_is(left, FM_NOT) || fr_restricts_at(f, i))
        return false;
    if (is_whole(f, i))
        return !f->noun_is_rows && !is_like_value(f, lex);
    if (is_before_name(f, i) || is_behind_name(f, i) || is_each(f, i))
        return is_of_topic(f, lex);
    return is_rows_noun(f, i) && fr_nearness(&f->s->tables[f->anchor].words, lex) >= ROWS_CALLED;
}

/* "by book category", "median workout length": seen before the rules look for the name. */
void fr_leave_modifiers(struct frame *f)
{
    for (int i = 0; i + 1 < f->q->n; i++) {
        const struct nl_token *t = &f->q->t[i];
        const struct nl_lex *lex = t->lex ? t->lex : nl_lex_of(f->a, t->text);
        const struct nl_mention *left = i > 0 ? fr_mention_of(f, i - 1) : NULL;
        if (t->is_stop || t->quoted || t->is_number || t->capital || fr_is_light(t->text) ||
            fr_mention_of(f, i) || !lex || !lex->is_noun ||
            !(fr_is(left, FM_BY) || fr_is(left, FM_EACH) || fr_is(left, FM_AGG)) ||
            !is_before_name(f, i) || f->n_left_out == LEFT_OUT_MAX)
            continue;
        f->left_out[f->n_left_out++] = t->raw;
        f->q->t[i].is_stop = true;
    }
}

/* What is correlated with what: two names say it all. */
static bool is_correlation(const struct frame *f)
{
    return f->rule && str_eq(f->rule, "correlation");
}

static bool leave_out(struct frame *f, int i)
{
    bool related = is_correlation(f);
    if (f->n_left_out >= (related ? FRAME_UNKNOWN : LEFT_OUT_MAX) ||
        !(related ? !f->q->t[i].is_number && !f->q->t[i].capital : can_do_without(f, i)))
        return false;
    f->left_out[f->n_left_out++] = f->q->t[i].raw;
    return true;
}

/* "no bin assigned", "without an email given": it says again that there is none. */
static bool is_said_of_empty(const struct frame *f, int i)
{
    const struct nl_mention *m = i > 0 ? fr_mention_of(f, i - 1) : NULL;
    const struct nl_lex *lex = nl_lex_of(f->a, fr_word(f, i));
    for (int k = 0; k < f->r.n_filters && fr_is_col(m) && lex && !lex->is_noun; k++)
        if (f->r.filters[k].op == FILTER_IS_NULL && fr_same(f->r.filters[k].ref, m->ref))
            return true;
    return false;
}

static bool all_used(struct frame *f)
{
    bool covered[NL_MAX_TOKENS] = { false };
    for (int i = 0; i < f->m.n; i++) {
        struct nl_mention *m = fr_at(f, i);
        bool fine = m->used || fr_is_harmless(f, m);
        for (int k = m->start; k < m->end; k++)
            covered[k] = fine;
        if (!fine && m->kind == KIND_COLUMN && m->end - m->start == 1 &&
            (m->score < WEAK_LINK || (m->score < 0.8 && is_each(f, m->start))) &&
            leave_out(f, m->start)) {
            covered[m->start] = true;
        } else if (!fine && f->n_unknown < FRAME_UNKNOWN) {
            const char *first = f->q->t[m->start].raw;
            f->unknown[f->n_unknown++] = first;
            bool name = m->kind == KIND_COLUMN || m->kind == KIND_TABLE;
            f->n_left += !name;
            f->n_left_names += name;
        }
    }
    for (int i = 0; i < f->q->n; i++) {
        const struct nl_token *t = &f->q->t[i];
        if (!covered[i] && fr_is_state_at(f, i) && f->n_unknown < FRAME_UNKNOWN) {
            f->unknown[f->n_unknown++] = t->raw;
            f->n_left++;
            f->leaves_state = true;
            continue;
        }
        if (!covered[i] && is_said_of_empty(f, i))
            continue;
        bool restricts = !covered[i] && (fr_restricts_at(f, i) || is_lost_amount(f, i));
        if (covered[i] || ((t->is_stop || fr_is_light(t->text)) && !restricts) ||
            (i == f->noun && is_rows(f)) || fr_is_noun_at(f, i) || is_said_unit(f, i) ||
            (str_eq(t->text, "square") && is_said_unit(f, i + 1)))
            continue;
        bool in_mention = fr_mention_of(f, i) != NULL;
        bool verb = fr_is_verb_at(f, i) && !restricts;
        f->leaves_state |= restricts;
        bool foreign = !in_mention && !nl_in_phrase(f->q, i);
        if (foreign && ((!verb && !restricts) || is_correlation(f)) && leave_out(f, i))
            continue;
        f->n_foreign += foreign && !verb;
        f->n_foreign_verbs += foreign && verb;
        f->says_best |= ONE_OF(t->text, "best", "worst", "better", "worse", "important");
        if (!in_mention && f->n_unknown < FRAME_UNKNOWN)
            f->unknown[f->n_unknown++] = t->raw;
    }
    return f->n_unknown == 0;
}

/*
 * A verb that nothing here has adds nothing where the rest says what is asked for. "How many
 * people left" is another matter: there the verb is all there is.
 */
static bool bears_verb(const struct frame *f)
{
    int tables = 0;
    for (int i = 0; i < f->m.n; i++)
        tables += f->m.m[i].kind == KIND_TABLE;
    bool counts_others = f->counted.table >= 0 && (f->said[FM_DISTINCT] || tables > 0);
    return f->r.n_filters + f->n_times + f->r.n_group + f->super * f->super > 0 ||
           f->average_of_groups || f->said[FM_THAN_AVG] || counts_others ||
           (f->n_measures > 0 && f->said[FM_AGG]);
}

bool fr_understood(struct frame *f)
{
    return all_used(f) ||
           (f->n_unknown == f->n_foreign_verbs && f->n_foreign_verbs == 1 && bears_verb(f));
}
