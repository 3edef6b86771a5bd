/*
 * States by other words than the data has for them: "rejection rate" where there are rejected ones,
 * "churn rate" where there is a day of churn, "why" where there is a column of reasons, "who
 * reported" where there is a reporter.
 */

#include <ctype.h>
#include <string.h>

#include "nl/frame.h"

#define SAME_VERB 5   /* letters that a verb and its noun begin with: convert, conversion */
#define SAME_SHORT 4  /* where one of them is as short: fail, failure */
#define FEW_STATES 40 /* values of a column that tells states */

/* ---- rates ---- */

static bool is_same_verb(const char *a, const char *b)
{
    size_t n = 0;
    while (a[n] && tolower((unsigned char)a[n]) == tolower((unsigned char)b[n]))
        n++;
    return n >= SAME_VERB || (n >= SAME_SHORT && (strlen(a) <= SAME_SHORT + 2 ||
                                                  strlen(b) <= SAME_SHORT + 2));
}

static bool is_named_so(const struct nl_column *c, const char *word)
{
    for (int w = 0; w < c->words.n; w++)
        if (is_same_verb(c->words.words[w], word))
            return true;
    return false;
}

enum state_kind { STATE_FLAG, STATE_VALUE, STATE_DAY, STATE_TEXT, _STATE_MAX };

/* The only thing of its kind that has this verb; *ret_text: the value. */
static int find_state(const struct frame *f, enum state_kind kind, const char *word,
                      struct nl_ref *ret, const char **ret_text)
{
    int n = 0;
    for (int t = 0; t < f->s->n_tables; t++)
        for (int c = 0; c < f->s->tables[t].n_columns; c++) {
            const struct nl_column *x = &f->s->tables[t].columns[c];
            bool text = x->type == TYPE_TEXT && !x->is_flag;
            int here = 0;
            for (size_t v = 0;
                 kind == STATE_VALUE && text && x->n_values <= FEW_STATES && v < x->n_values; v++)
                if (is_same_verb(x->values[v], word)) {
                    here++;
                    *ret_text = x->values[v];
                }
            here += kind == STATE_FLAG && x->is_flag && is_named_so(x, word);
            here += kind == STATE_DAY && nl_is_date(x) && x->has_nulls && is_named_so(x, word);
            here += kind == STATE_TEXT && text && x->has_nulls && is_named_so(x, word);
            if (here)
                *ret = (struct nl_ref){ t, c };
            n += here;
        }
    return n;
}

/* "conversion rate", "failure percentage": of a flag, a value, or cells that are not empty. */
void fr_name_rates(struct frame *f)
{
    for (int i = 0; i < f->m.n && f->m.n < NL_MAX_MENTIONS; i++) {
        struct nl_mention *m = &f->m.m[i];
        int at = m->start - 1, kind = 0, n = 0;
        const struct nl_mention *other = at >= 0 ? fr_mention_of(f, at) : NULL;
        struct nl_ref ref = fr_none;
        const char *text = NULL;
        bool weak = !other || (fr_is_col(other) && other->score < 0.8 &&
                               !fr_is_measure(fr_c(f, other->ref)) &&
                               !fr_c(f, other->ref)->is_flag);
        bool noun = at >= 0 && !f->q->t[at].is_stop && weak && strlen(fr_word(f, at)) > SAME_SHORT;
        bool percent = fr_is(m, FM_SHARE) && strncmp(fr_word(f, m->start), "percent", 7) == 0;
        if (!(fr_is(m, FM_RATE) || percent) || !noun)
            continue;
        for (kind = 0; kind < _STATE_MAX && n == 0; kind++)
            n = find_state(f, (enum state_kind)kind, fr_word(f, at), &ref, &text);
        kind--;
        if (n != 1)
            continue;
        if (kind != STATE_FLAG)
            m->mark = (enum nl_mark)FM_SHARE;
        if (kind == STATE_DAY || kind == STATE_TEXT) {
            (void)fr_filter(f, ref, FILTER_IS_NOT_NULL);
            if (other)
                fr_make_light(&f->m.m[other - f->m.m]);
            f->q->t[at].is_stop = true;
        } else {
            fr_put_mention(f, at, at + 1,
                           (struct nl_mention){
                               .kind = kind == STATE_FLAG ? KIND_COLUMN : KIND_VALUE,
                               .score = 0.8,
                               .ref = ref,
                               .text = text,
                               .table = -1 });
        }
    }
}

/* ---- causes ---- */

/* The only column of reasons. */
static bool reasons(const struct frame *f, struct nl_ref *ret)
{
    int n = 0;
    for (int t = 0; t < f->s->n_tables; t++)
        for (int c = 0; c < f->s->tables[t].n_columns; c++) {
            const struct nl_column *x = &f->s->tables[t].columns[c];
            if (x->type == TYPE_TEXT &&
                (fr_names_column(x, "reason") || fr_names_column(x, "caus"))) {
                *ret = (struct nl_ref){ t, c };
                n++;
            }
        }
    return n == 1;
}

/* "why do people return things" where the data has the reasons: how many for each. */
void fr_name_causes(struct frame *f)
{
    struct nl_ref ref;
    bool named = false;
    if (!reasons(f, &ref))
        return;
    for (int i = 0; i < f->m.n; i++)
        named |= fr_is_col(&f->m.m[i]) && fr_same(f->m.m[i].ref, ref);
    for (int i = 0; i < f->m.n; i++) {
        struct nl_mention *m = &f->m.m[i];
        if (!fr_is(m, FM_DECLINE) || !m->hint || !str_eq(m->hint, "causes"))
            continue;
        bool why = str_eq(fr_word(f, m->start), "why") || str_eq(fr_word(f, m->start), "reason");
        if (named || !why) { /* "because of damage": what follows is a reason */
            fr_make_light(m);
            continue;
        }
        m->kind = KIND_COLUMN;
        m->score = 0.9;
        m->ref = ref;
        m->other = fr_none;
        m->table = -1;
        f->asks_why = m->start == 0;
    }
}

/* ---- presence ---- */

/* "what share of visits included a class", "the percentage of accounts that churned" */
void fr_name_presence(struct frame *f)
{
    static const char *const having[] = { "has",      "have",    "had",      "got",  "get",
                                          "with",     "include", "included", "gave", "received",
                                          "contains", "left",    "includes", "used" };
    bool share = false;
    for (int i = 0; i < f->m.n; i++)
        share |= fr_is(&f->m.m[i], FM_SHARE);
    struct nl_mention *m = f->m.n > 1 ? &f->m.m[f->m.n - 1] : NULL;
    const struct nl_column *c = m && fr_is_col(m) ? fr_c(f, m->ref) : NULL;
    if (!share || !c || !c->has_nulls || c->is_flag || m->end != f->q->n)
        return;
    int at = m->start - 1;
    while (at > 0 && ONE_OF(fr_word(f, at), "a", "an", "any", "some", "their"))
        at--;
    const struct nl_lex *lex = nl_lex_of(f->a, fr_word(f, m->start));
    bool done = nl_is_date(c) && lex && lex->is_verb && m->end - m->start == 1;
    bool has = at > 0 && nl_is_one_of(fr_word(f, at), having, ARRAY_SIZE(having));
    if (!done && !(has && at < m->start - 1))
        return;
    (void)fr_filter(f, m->ref, FILTER_IS_NOT_NULL);
    if (has)
        f->q->t[at].is_stop = true;
    fr_make_light(m);
}

/* ---- people by what they do ---- */

static bool does(const struct nl_column *c, const char *verb)
{
    for (int w = 0; w < c->words.n; w++) {
        const char *word = c->words.words[w];
        size_t n = strlen(word);
        bool agent = n > 3 && word[n - 1] == 'r' && (word[n - 2] == 'e' || word[n - 2] == 'o');
        bool by = w + 1 < c->words.n && str_eq(c->words.words[w + 1], "by");
        if ((agent || by) && is_same_verb(word, verb))
            return true;
    }
    return false;
}

/* "who reported the fewest issues" where there is a reporter, "who handled …" and HandledBy. */
void fr_name_agents(struct frame *f)
{
    struct nl_ref ref = fr_none;
    int n = 0, at = 1;
    if (!str_eq(fr_word(f, 0), "who"))
        return;
    while (ONE_OF(fr_word(f, at), "has", "have", "had", "did", "is", "are", "was"))
        at++;
    const char *verb = fr_word(f, at);
    const struct nl_lex *lex = nl_lex_of(f->a, verb);
    if (!lex || !lex->is_verb || strlen(verb) < SAME_VERB)
        return;
    for (int t = 0; t < f->s->n_tables; t++)
        for (int c = 0; c < f->s->tables[t].n_columns; c++) {
            const struct nl_column *x = &f->s->tables[t].columns[c];
            if (x->type != TYPE_TEXT || x->is_flag || !does(x, verb))
                continue;
            ref = (struct nl_ref){ t, c };
            n++;
        }
    if (n != 1)
        return;
    fr_put_mention(f, 0, at + 1,
                   (struct nl_mention){
                       .kind = KIND_COLUMN, .score = 0.9, .ref = ref, .table = -1 });
}
