/*
 * How sure the planner is of its best reading. Scores only rank readings against each other;
 * whether
 * the best one is right depends on more: which reader made it, whether both agree, which words
 * mean
 * nothing here, and what the rows look like.
 */

#include <math.h>
#include <string.h>

#include "nl/frame.h"

#define LOGIT_MAX 5.0
#define TIE 0.99
#define MANY_GROUPS 30

/*
 * The weights were learned from sets for most of which rules were written: on others they promise
 * too much. What they give 0.9 is told as 0.8; docs/planner.md says how that was chosen.
 */
#define LEARNED_SURE 0.9
#define SURE 0.8

const char *const nl_evidence_names[_EVIDENCE_MAX] = {
#define X(id, name) [EVIDENCE_##id] = name,
#include "nl/evidence.inc"
#undef X
};

static const double confidence_weights[_EVIDENCE_MAX][2] = {
#define W(id, weight, unnamed) [EVIDENCE_##id] = { weight, unnamed },
#include "nl/confidence.inc"
#undef W
};

/* ---- do two readings say the same? ---- */

static bool same_filter(const struct nl_filter *a, const struct nl_filter *b)
{
    if (!fr_same(a->ref, b->ref) || a->op != b->op || a->negated != b->negated ||
        a->having != b->having || a->part != b->part || a->n_texts != b->n_texts ||
        a->n_numbers != b->n_numbers)
        return false;
    for (int i = 0; i < a->n_texts; i++)
        if (!str_ieq(a->text[i], b->text[i]))
            return false;
    for (int i = 0; i < a->n_numbers; i++)
        if (a->number[i] != b->number[i])
            return false;
    return true;
}

static bool has_item(const struct nl_item *list, int n, const struct nl_item *x)
{
    for (int i = 0; i < n; i++)
        if (fr_same(list[i].ref, x->ref) && list[i].func == x->func && list[i].bucket == x->bucket)
            return true;
    return false;
}

static int aggregates(const struct nl_reading *r, const struct nl_item **ret)
{
    int n = 0;
    for (int i = 0; i < r->n_select; i++)
        if (r->select[i].func >= 0 || r->select[i].is_share)
            ret[n++] = &r->select[i];
    return n;
}

/*
 * The same rows are gone through, put together and ordered in the same way. Columns that are
 * merely
 * shown may differ.
 */
static bool say_the_same(const struct nl_reading *a, const struct nl_reading *b)
{
    const struct nl_item *x[NL_MAX_SELECT], *y[NL_MAX_SELECT];
    int n = aggregates(a, x), m = aggregates(b, y);
    if (n != m || a->n_filters != b->n_filters || a->n_group != b->n_group || a->limit != b->limit)
        return false;
    for (int i = 0; i < a->n_filters; i++) {
        bool found = false;
        for (int k = 0; k < b->n_filters; k++)
            found |= same_filter(&a->filters[i], &b->filters[k]);
        if (!found)
            return false;
    }
    for (int i = 0; i < a->n_group; i++)
        if (!has_item(b->group, b->n_group, &a->group[i]))
            return false;
    for (int i = 0; i < n; i++) {
        bool found = false;
        for (int k = 0; k < m; k++)
            found |= has_item(y[k], 1, x[i]);
        if (!found)
            return false;
    }
    return a->n_order == 0 || b->n_order == 0 ||
           (fr_same(a->order[0].ref, b->order[0].ref) && a->order_dir[0] == b->order_dir[0]);
}

/* ---- what is known before anything is run ---- */

static double logit(double p)
{
    double x = log(fmax(p, 1e-6) / fmax(1 - p, 1e-6));
    return fmin(fmax(x, -LOGIT_MAX), LOGIT_MAX);
}

/* "revenue by region", "only the late ones": no verb and nothing that asks. */
static bool is_fragment(const struct nl_tokens *q)
{
    static const char *const starts[] = { "by", "only", "and",  "for", "in",  "without", "except",
                                          "as", "per",  "just", "not", "but", "or",      "also" };
    for (size_t i = 0; i < ARRAY_SIZE(starts) && q->n > 0; i++)
        if (str_eq(q->t[0].text, starts[i]))
            return true;
    return false;
}

static bool is_called(const struct nl_name *n)
{
    for (int w = 0; w < n->n; w++)
        if (n->lex[w])
            return true;
    return false;
}

/* Rows are counted: a word that means nothing here may be what to sum up, or which of them. */
static bool counts_rows(const struct nl_reading *r)
{
    for (int i = 0; i < r->n_select; i++)
        if (r->select[i].func == FUNC_COUNT || r->select[i].func == FUNC_COUNT_DISTINCT)
            return true;
    return false;
}

/* Rows are summed up: a word that means nothing here may be which of them. */
static bool puts_together(const struct nl_reading *r)
{
    const struct nl_item *x[NL_MAX_SELECT];
    return aggregates(r, x) > 0;
}

/* "the average rate of suites", read over a table that has no suites. */
static bool drops_value(const struct frame *f, const struct nl_reading *r)
{
    for (int i = 0; i < f->m.n; i++) {
        const struct nl_mention *m = &f->m.m[i];
        bool there = m->kind != KIND_VALUE || m->is_part || m->is_piece || !m->text;
        for (int t = 0; t < r->scope.n && !there; t++)
            there = r->scope.tables[t] == m->ref.table;
        for (int k = 0; k < r->n_filters && !there; k++)
            for (int x = 0; x < r->filters[k].n_texts && !there; x++)
                there = str_ieq(r->filters[k].text[x], m->text);
        if (!there)
            return true;
    }
    return false;
}

/* "who left in 2023": the verb says which of the dates, and is not known. */
static bool verb_before_time(const struct frame *f)
{
    int dates = 0;
    for (int t = 0; t < f->s->n_tables; t++) {
        int own = 0;
        for (int c = 0; c < f->s->tables[t].n_columns; c++)
            own += nl_is_date(&f->s->tables[t].columns[c]);
        dates = MAX_OF(dates, own);
    }
    for (int i = 0; i < f->m.n && dates > 1; i++) {
        int at = f->m.m[i].start - 1;
        if (!fr_is(&f->m.m[i], FM_TIME))
            continue;
        while (at >= 0 && f->q->t[at].is_stop)
            at--;
        bool linked = at < 0 || fr_mention_of(f, at);
        const struct nl_lex *lex = linked ? NULL : f->q->t[at].lex;
        if (lex && lex->is_verb && !lex->is_noun)
            return true;
    }
    return false;
}

/* "the average delay" where there are departure delays and arrival delays. */
static bool has_tie(const struct frame *f)
{
    for (int i = 0; i < f->m.n; i++) {
        const struct nl_mention *m = &f->m.m[i];
        if (m->kind != KIND_COLUMN || m->other.table != m->ref.table || m->score >= 0.9 ||
            m->other_score < TIE * m->score)
            continue;
        if (fr_is_measure(fr_c(f, m->ref)) && fr_is_measure(fr_c(f, m->other)))
            return true;
        /* "which city" where there are the sender's and the recipient's */
        for (int k = 0; k < f->r.n_group; k++)
            if (fr_same(f->r.group[k].ref, m->ref) && fr_c(f, m->other)->type == TYPE_TEXT)
                return true;
    }
    return false;
}

/*
 * "nurses" where there are doctors: words that are used alike are not always words for the same.
 * What is counted, summed up or listed by such a link has to be confirmed.
 */
static bool rests_on_use(const struct frame *f)
{
    for (int i = 0; i < f->m.n; i++) {
        const struct nl_mention *m = &f->m.m[i];
        const struct nl_token *t = &f->q->t[m->start];
        bool what = m->kind == KIND_TABLE;
        for (int k = 0; k < f->n_measures && m->kind == KIND_COLUMN; k++)
            what |= fr_same(f->measures[k].ref, m->ref);
        for (int k = 0; k < f->r.n_select && f->r.n_group == 0 && m->kind == KIND_COLUMN; k++)
            what |= fr_same(f->r.select[k].ref, m->ref) && fr_c(f, m->ref)->type == TYPE_TEXT;
        bool unit = m->kind == KIND_COLUMN && (fr_is_unit(t->text) || str_eq(t->text, "money"));
        if (what && !unit && m->end - m->start == 1 && t->near && m->score <= 0.6 && t->lex &&
            t->lex->is_noun)
            return true;
    }
    return false;
}

/* "men over 65", where nothing says of what: the other reader has guessed a column for it. */
static bool guesses_number(const struct frame *f, const struct nl_reading *r)
{
    bool left = false, compared = false;
    for (int i = 0; i < f->m.n; i++)
        left |= f->m.m[i].kind == KIND_NUMBER && !f->m.m[i].used;
    for (int i = 0; i < r->n_filters; i++) {
        bool named = false;
        for (int k = 0; k < f->m.n; k++)
            named |= f->m.m[k].kind == KIND_COLUMN && fr_same(f->m.m[k].ref, r->filters[i].ref);
        compared |= r->filters[i].n_numbers > 0 && r->filters[i].ref.table >= 0 && !named &&
                    !nl_is_year(fr_c(f, r->filters[i].ref)); /* a year is told by itself */
    }
    for (int i = 0; i < r->n_filters; i++)
        compared |= r->filters[i].n_numbers > 0 && r->filters[i].having == FUNC_COUNT &&
                    !f->said[FM_COUNT] && r->n_group == 0;
    return left && compared;
}

/* "which requests have no address", read without the "no". */
static bool drops_negation(const struct frame *f, const struct nl_candidate *best)
{
    bool said = false;
    for (int i = 0; i < f->m.n; i++)
        said |= fr_is(&f->m.m[i], FM_NOT);
    for (int i = 0; i < best->reading.n_filters; i++) {
        const struct nl_filter *x = &best->reading.filters[i];
        if (x->negated || x->op == FILTER_IS_NULL || x->op == FILTER_NE ||
            x->op == FILTER_IS_NOT_NULL)
            return false;
    }
    return said && !(best->key && strstr(best->key, "not_in"));
}

/* "average delay", read as how many are delayed: what to do with the numbers was left out. */
static bool drops_function(const struct frame *f, const struct nl_candidate *best)
{
    static const int unused[] = { FEATURE_UNUSED_AGG, FEATURE_UNUSED_SUPER, FEATURE_UNUSED_CMP };
    for (size_t i = 0; i < ARRAY_SIZE(unused); i++)
        if (best->features[unused[i]] > 0)
            return true;
    for (int i = 0; i < best->reading.n_group; i++) { /* nobody groups by amounts */
        const struct nl_column *c = fr_c(f, best->reading.group[i].ref);
        if (best->reading.group[i].bucket < 0 && c && fr_is_measure(c) && c->n_values > MANY_GROUPS)
            return true;
    }
    for (int i = 0; i < f->m.n; i++) {
        const struct nl_mention *m = &f->m.m[i];
        bool there = !fr_is(m, FM_AGG) || m->arg == FUNC_SUM;
        for (int k = 0; k < best->reading.n_select && !there; k++)
            there = best->reading.select[k].func == m->arg;
        for (int k = 0; k < best->reading.n_order && !there; k++)
            there = best->reading.order[k].func == m->arg || best->reading.order[k].func < 0;
        for (int k = 0; k < best->reading.n_filters && !there; k++)
            there = best->reading.filters[k].having == m->arg || best->reading.filters[k].than;
        if (!there || (fr_is(m, FM_OUT) && best->reading.n_filters == 0))
            return true;
    }
    return false;
}

/* "per hour" where there are days only; the first of something beside a share of it. */
static bool is_absurd(const struct frame *f, const struct nl_reading *r)
{
    for (int i = 0; i < r->n_group; i++)
        if (r->group[i].bucket == BUCKET_HOUR && fr_c(f, r->group[i].ref) &&
            fr_c(f, r->group[i].ref)->type == TYPE_DATE)
            return true;
    return f->said[FM_SHARE] && r->n_group == 0 && r->n_select > 1;
}

/* What the reader by weights has no notion of, or takes for less. */
static bool leaves_out(const struct frame *f, const struct nl_candidate *best)
{
    bool compares = best && best->features[FEATURE_THAN] > 0;
    static const int marks[] = { FM_ONAVG,   FM_THAN_AVG, FM_VS,   FM_CHANGE, FM_RUNNING, FM_CORR,
                                 FM_OUTLIER, FM_RATIO,    FM_RANK, FM_UNREAD, FM_DESCRIBE };
    for (int i = 0; i < f->m.n; i++)
        for (size_t k = 0; k < ARRAY_SIZE(marks); k++)
            if (fr_is(&f->m.m[i], (enum fr_mark)marks[k]) && !(marks[k] == FM_THAN_AVG && compares))
                return true;
    /* the best of each group, and not the best group */
    return (f->said[FM_EACH] && (f->said[FM_TOP] || f->said[FM_COMMON])) ||
           (f->said[FM_DIST] && f->said[FM_AGG]);
}

/* What the rules guessed though every word found its place. */
static void weigh_guesses(const struct frame *f, double *e)
{
    double soft = 0;
    bool counts = false;
    int light = 0;
    for (int i = 0; i < f->m.n; i++) {
        const struct nl_mention *m = &f->m.m[i];
        if (m->used && (m->kind == KIND_COLUMN || m->kind == KIND_TABLE))
            soft += 1 - fmin(m->score, 1);
    }
    for (int i = 0; i < f->r.n_select; i++)
        counts |= f->r.select[i].func == FUNC_COUNT;
    for (int i = 0; i < f->q->n; i++) {
        light += !f->q->t[i].is_stop && !nl_is_stop(f->q->t[i].text) && !fr_mention_of(f, i);
    }
    bool said = f->said[FM_AGG] || f->said[FM_ONAVG] || f->said[FM_SUPER] || f->said[FM_TOP];
    e[EVIDENCE_RULE_SOFT] = fmin(soft, 1.5);
    e[EVIDENCE_RULE_DEFAULT] = f->n_measures > 0 && !said;
    e[EVIDENCE_RULE_COUNT] = counts && !f->said[FM_COUNT] && !f->said[FM_COMMON];
    e[EVIDENCE_RULE_LIGHT] = MIN_OF(light, 3);
}

void nl_evidence_begin(const struct nl_schema *s, const struct frame *f, bool complete,
                       const struct nl_candidate *best, double share, struct arena *a,
                       struct nl_answer *ret)
{
    /* Tables of pages are called by numbers, and have words around them that no column has. */
    bool unnamed = ret->unnamed && !is_called(&s->tables[0].words);
    double *e = arena_alloc(a, sizeof(*e) * _EVIDENCE_MAX);
    if (!e)
        return;
    memset(e, 0, sizeof(*e) * _EVIDENCE_MAX);
    e[EVIDENCE_BIAS] = 1;
    e[EVIDENCE_INCOMPLETE] = !complete;
    e[EVIDENCE_FOREIGN] = unnamed ? 0 : MIN_OF(f->n_foreign, 2);
    e[EVIDENCE_FOREIGN_VERB] = MIN_OF(f->n_foreign_verbs, 2);
    e[EVIDENCE_LEFT_MARK] = !complete && f->n_left > 0;
    e[EVIDENCE_LEFT_NAME] = !complete && f->n_left_names > 0;
    e[EVIDENCE_TABLES] = s->n_tables > 1;
    e[EVIDENCE_UNNAMED] = unnamed;
    e[EVIDENCE_UNNAMED_FOREIGN] = unnamed ? MIN_OF(f->n_foreign, 3) : 0;
    e[EVIDENCE_FRAGMENT] = is_fragment(f->q);
    e[EVIDENCE_LONG] = MAX_OF(f->q->n - 10, 0) / 5.0;
    /* Of the rule's reading; nl_confidence() leaves it out where the other was chosen. */
    e[EVIDENCE_RULE] = complete;
    e[EVIDENCE_RULE_LIST] = complete && str_eq(f->rule, "list");
    e[EVIDENCE_RULE_SUMS] = complete && str_eq(f->rule, "sums");
    e[EVIDENCE_RULE_RANKING] = complete && str_eq(f->rule, "ranking");
    e[EVIDENCE_RULE_JOINED] = complete && f->r.scope.n > 1;
    e[EVIDENCE_RULE_VERB] = complete && f->n_foreign_verbs > 0;
    for (int i = 0; i < f->m.n && complete; i++) {
        const struct nl_column *c = f->m.m[i].kind == KIND_COLUMN ? fr_c(f, f->m.m[i].ref) : NULL;
        e[EVIDENCE_RULE_WEAK] += c && f->m.m[i].used && f->m.m[i].score < 0.7 && !c->formula &&
                                 !c->is_id;
        e[EVIDENCE_RULE_WEAK] += f->m.m[i].kind == KIND_TABLE && f->m.m[i].used &&
                                 f->m.m[i].score < 0.7;
        e[EVIDENCE_RULE_PART] += f->m.m[i].kind == KIND_VALUE && f->m.m[i].used &&
                                 f->m.m[i].is_part;
    }
    e[EVIDENCE_RULE_WEAK] += complete && f->noun_is_rows;
    e[EVIDENCE_RULE_WEAK] += complete && f->s != s; /* all tables together gave no reading */
    if (complete)
        weigh_guesses(f, e);
    if (complete && best) {
        bool same = say_the_same(&f->r, &best->reading);
        e[same ? EVIDENCE_AGREE : EVIDENCE_DISAGREE] = 1;
        e[same ? EVIDENCE_AGREE_SCORE : EVIDENCE_DISAGREE_SCORE] = logit(share);
    }
    ret->evidence = e;
    ret->must_ask = !unnamed && ((!complete && best && drops_value(f, &best->reading)) ||
                                 verb_before_time(f) || f->is_ambiguous || rests_on_use(f));
    ret->must_ask |= !unnamed && !complete && best && drops_function(f, best);
    ret->must_ask |= !unnamed && !complete && best && puts_together(&best->reading) &&
                     f->n_foreign_verbs > 0;
    ret->must_ask |= !complete && (f->says_best || (best && is_absurd(f, &best->reading)));
    ret->must_ask |= !unnamed && !complete && (fr_sums_unknown(f) || f->leaves_state);
    ret->must_ask |= !unnamed && !complete && best &&
                     (guesses_number(f, &best->reading) || drops_negation(f, best) ||
                      (f->n_foreign_verbs > 0 && best->reading.n_filters == 0 &&
                       counts_rows(&best->reading)));
    /* "who owes us the most": the verb says the most of what */
    ret->must_ask |= !unnamed && !complete && best && f->n_foreign_verbs > 0 && f->said[FM_SUPER] &&
                     counts_rows(&best->reading);
    ret->must_ask |= !unnamed && (has_tie(f) || (f->n_foreign > 0 && !complete && best &&
                                                 puts_together(&best->reading)));
    ret->must_ask |= !unnamed && ((!complete && leaves_out(f, best)) || fr_leans(f) ||
                                  (!complete && best &&
                                   (best->features[FEATURE_UNUSED_NUMBER] > 0 ||
                                    best->features[FEATURE_UNUSED_BY] > 0)));
}

/* ---- the confidence ---- */

void nl_evidence_of(const struct nl_answer *a, double ret[_EVIDENCE_MAX])
{
    static const int of_rule[] = {
        EVIDENCE_RULE,      EVIDENCE_RULE_LIST,    EVIDENCE_RULE_SUMS,   EVIDENCE_RULE_RANKING,
        EVIDENCE_RULE_WEAK, EVIDENCE_RULE_PART,    EVIDENCE_RULE_JOINED, EVIDENCE_RULE_VERB,
        EVIDENCE_RULE_SOFT, EVIDENCE_RULE_DEFAULT, EVIDENCE_RULE_COUNT,  EVIDENCE_RULE_LIGHT
    };
    static const int guesses[] = { FEATURE_GUESSED_COLUMN, FEATURE_DEFAULT_MEASURE,
                                   FEATURE_IMPLIED_COUNT,  FEATURE_IMPLIED_AGG,
                                   FEATURE_COUNT_FLAG,     FEATURE_TYPE_CLASH };
    const struct nl_choice *best = &a->choices[0];
    memcpy(ret, a->evidence, sizeof(*ret) * _EVIDENCE_MAX);
    if (!best->rule)
        ret[EVIDENCE_SCORE] = logit(best->share);
    for (size_t i = 0; i < ARRAY_SIZE(of_rule) && !best->rule; i++)
        ret[of_rule[i]] = 0;
    for (size_t i = 0; i < ARRAY_SIZE(guesses) && best->features; i++)
        ret[EVIDENCE_GUESSED] += best->features[guesses[i]];
    if (best->features) {
        ret[EVIDENCE_UNUSED] = best->features[FEATURE_UNUSED_WORDS];
        ret[EVIDENCE_WEAK] = best->features[FEATURE_LINK_WEAK];
        ret[EVIDENCE_JOINED] = best->features[FEATURE_JOINED];
    }
}

json_t *nl_evidence_json(const struct nl_answer *a)
{
    double e[_EVIDENCE_MAX];
    if (!a->evidence || a->n_choices == 0)
        return NULL;
    nl_evidence_of(a, e);
    json_t *out = json_object();
    for (int i = 0; i < _EVIDENCE_MAX; i++)
        if (e[i] != 0)
            json_object_set_new(out, nl_evidence_names[i], json_real(e[i]));
    return out;
}

double nl_confidence(const struct nl_answer *a)
{
    double e[_EVIDENCE_MAX], sum = 0;
    nl_evidence_of(a, e);
    bool unnamed = e[EVIDENCE_UNNAMED] > 0;
    for (int i = 0; i < _EVIDENCE_MAX; i++)
        sum += confidence_weights[i][unnamed] * e[i];
    double p = 1 / (1 + exp(-sum));
    return unnamed          ? p :
           p < LEARNED_SURE ? p * SURE / LEARNED_SURE :
                              SURE + (p - LEARNED_SURE) * (1 - SURE) / (1 - LEARNED_SURE);
}
