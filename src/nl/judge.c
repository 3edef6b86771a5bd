/*
 * What a reading is judged by: the features that tell which words were left over, and whether what
 * is shown fits the question.
 */

#include <string.h>

#include "base/str.h"
#include "nl/shape.h"

#define TABLE_NAMED 0.9
#define TABLE_SAID 0.6 /* a table that is spoken of no better is not missed */

/* Numbers that only tell rows apart: weeks, rounds, years. Nobody adds them up. */
static bool is_sequence(const struct nl_column *c)
{
    static const char *const words[] = { "no",   "number", "week", "round", "gam", "episod", "pick",
                                         "rank", "match",  "stag", "heat",  "lan", "seed" };
    if (!c || c->formula || !c->is_numeric)
        return false;
    for (int i = 0; i < c->words.n; i++)
        for (size_t k = 0; k < ARRAY_SIZE(words); k++)
            if (str_eq(c->words.stems[i], words[k]) && c->is_unique)
                return true;
    return nl_is_year(c) || c->is_id;
}

/* Does what is shown fit what was asked for, as far as its kind tells? */
static void judge_kind(struct shape *sh)
{
    struct nl_parse *p = sh->p;
    const struct nl_reading *r = p->r;
    double *f = p->f;
    const struct nl_mention *asked = NULL;
    bool who = false, when = false, number = false;
    for (int i = 0; i < p->q->n; i++) {
        const char *w = p->q->t[i].text;
        bool wh = str_eq(w, "which") || str_eq(w, "what") || str_eq(w, "whose");
        for (int k = 0; k < p->mentions.n && wh && !asked; k++) {
            const struct nl_mention *m = nl_at(p, k);
            int gap = 0;
            for (int t = i + 1; t < m->start; t++)
                gap += !p->q->t[t].is_stop;
            if (m->start > i && is_column(m) && gap == 0 && m->start - i <= 4)
                asked = m;
            if (m->start > i)
                break;
        }
        who |= str_eq(w, "who") || str_eq(w, "whom");
        when |= str_eq(w, "when");
        number |= i + 1 < p->q->n && str_eq(w, "how") &&
                  (str_eq(p->q->t[i + 1].text, "many") || str_eq(p->q->t[i + 1].text, "much"));
    }
    const struct nl_item *first = r->n_select > 0 ? &r->select[0] : NULL;
    const struct nl_column *c = first ? nl_col(p->s, first->ref) : NULL;
    bool figure = first && (first->func >= 0 || (c && c->is_numeric));
    bool day = c && first->func < 0 && (nl_is_date(c) || nl_is_year(c));
    for (int i = 0; c && !day && first->func < 0 && i < c->words.n; i++)
        day = str_eq(c->words.stems[i], "dat") || str_eq(c->words.stems[i], "year") ||
              str_eq(c->words.stems[i], "tim");
    bool shown = false;
    for (int i = 0; asked && i < r->n_select; i++)
        shown |= same_ref(r->select[i].ref, asked->ref);
    f[FEATURE_ASKED_SHOWN] = asked && shown;
    f[FEATURE_ASKED_MISSING] = asked && !shown;
    f[FEATURE_WHO_FIGURE] = who && figure && !day;
    f[FEATURE_WHEN_OTHER] = when && !day && first;
    f[FEATURE_NUMBER_TEXT] = number && !figure;
    for (int i = 0; i < r->n_select; i++) {
        const struct nl_item *it = &r->select[i];
        f[FEATURE_SUM_SEQUENCE] += it->func == FUNC_SUM && is_sequence(nl_col(p->s, it->ref));
        for (int k = 0; k < r->n_filters && !it->hidden_key; k++)
            if (same_ref(it->ref, r->filters[k].ref) && r->filters[k].op == FILTER_EQ &&
                r->filters[k].n_texts == 1 && !r->filters[k].negated && !r->filters[k].around &&
                !it->is_share) {
                f[FEATURE_COUNT_FIXED] += it->func == FUNC_COUNT_DISTINCT;
                f[FEATURE_SHOWS_FIXED] += it->func < 0 && r->n_select == 1;
            }
    }
}

/* Which words were left, and how well the others are linked. */
static void judge_words(struct shape *sh, const double *table_scores)
{
    struct nl_parse *p = sh->p;
    double *f = p->f, links = 0, quality = 0;
    bool covered[NL_MAX_TOKENS] = { false };
    int words = 0, unused = 0;

    f[FEATURE_BIAS] = 1;
    for (int i = 0; i < p->mentions.n; i++) {
        const struct nl_mention *m = nl_at(p, i);
        for (int k = m->start; k < m->end; k++)
            covered[k] = true;
        if (m->kind == KIND_COLUMN) {
            links++;
            quality += m->score;
            f[FEATURE_LINK_WEAK] += m->score < 0.7;
            if (m->other.table >= 0) {
                f[FEATURE_LINK_AMBIGUOUS] += 1;
                if (p->variant & VARIANT_ALTERNATE)
                    f[FEATURE_ALTERNATE_GAP] += m->other_score - m->score;
            }
            f[FEATURE_UNUSED_COLUMN] += !m->used;
        }
        if (m->used || m->kind == KIND_COLUMN || m->kind == KIND_TABLE)
            continue;
        if (m->kind == KIND_NUMBER || m->kind == KIND_DATE) {
            f[FEATURE_UNUSED_NUMBER] += str_eq(p->q->t[m->start].text, "one") ? 0.3 : 1;
            continue;
        }
        if (m->kind != KIND_MARK) {
            f[FEATURE_UNUSED_OTHER] += 1;
            continue;
        }
        switch (m->mark) {
        case MARK_NOT:
            f[FEATURE_UNUSED_NOT] += 1;
            break;
        case MARK_OR:
            f[FEATURE_UNUSED_OR] += 1;
            break;
        case MARK_CMP:
        case MARK_BETWEEN:
        case MARK_CONTAINS:
        case MARK_NULL:
            f[FEATURE_UNUSED_CMP] += 1;
            break;
        case MARK_GROUP:
            f[FEATURE_UNUSED_GROUP] += p->r->n_group == 0 && !sh->wants_count ? 0.3 : 1;
            break;
        case MARK_BY: /* "by category", and there is none */
            f[FEATURE_UNUSED_BY] += m->end < p->q->n && !p->q->t[m->end].is_stop &&
                                    !p->q->t[m->end].capital &&
                                    !(i + 1 < p->mentions.n && nl_at(p, i + 1)->start == m->end);
            break;
        case MARK_SUPER:
        case MARK_COMMON:
        case MARK_TOP:
            f[FEATURE_UNUSED_SUPER] += 1;
            break;
        case MARK_AGG:
        case MARK_HOWMUCH:
            f[FEATURE_UNUSED_AGG] += 1;
            break;
        case MARK_COUNT:
            f[FEATURE_UNUSED_COUNT] += 1;
            break;
        case MARK_ORDER:
        case MARK_ASC:
        case MARK_DESC:
        case MARK_ALPHA:
            f[FEATURE_UNUSED_ORDER] += 1;
            break;
        case MARK_UNREAD:
        case MARK_DIFF:
        case MARK_AFTER:
        case MARK_SHARE:
        case MARK_LAST:
            f[FEATURE_UNSUPPORTED] += 1;
            break;
        case MARK_BUCKET:
        case MARK_TREND:
        case MARK_TIMES:
        case MARK_OUT:
        case MARK_COMPARE:
            f[FEATURE_UNUSED_OTHER] += 1;
            break;
        default:
            break;
        }
    }
    for (int i = 0; i < p->q->n; i++) {
        const struct nl_token *t = &p->q->t[i];
        if (t->is_stop)
            continue;
        words++;
        if (!covered[i]) {
            static const char *const before[] = {
                "in", "during", "on", "at", "from", "for", "with"
            };
            for (size_t k = 0; k < ARRAY_SIZE(before) && i > 0; k++)
                f[FEATURE_UNUSED_PLACE] += str_eq(p->q->t[i - 1].text, before[k]);
            unused++;
            f[FEATURE_UNUSED_CAPITAL] += (t->capital && i > 0) || t->quoted;
        }
    }
    f[FEATURE_UNUSED_WORDS] = MIN_OF(unused, 3);
    f[FEATURE_UNUSED_WORDS_2] = MAX_OF(unused - 3, 0) > 4 ? 4 : MAX_OF(unused - 3, 0);
    f[FEATURE_UNUSED_SHARE] = words ? (double)unused / words : 0;
    f[FEATURE_LINK_QUALITY] = links ? quality / links : 0.7;
    f[FEATURE_ALTERNATE] = (p->variant & VARIANT_ALTERNATE) != 0;
    f[FEATURE_N_FILTERS] = MIN_OF(p->r->n_filters, 4);
    f[FEATURE_NO_FILTER] = p->r->n_filters == 0;
    f[FEATURE_MANY_SELECT] = MAX_OF(p->r->n_select - 3, 0);
    f[FEATURE_JOINED] = p->r->scope.n > 1;
    f[FEATURE_JOIN_TABLES] = MAX_OF(p->r->scope.n - 2, 0);
    for (int i = 1; i < p->r->scope.n; i++)
        f[FEATURE_JOIN_BY_VALUES] += p->r->scope.keys[i]->by_values;
    /* Rows of the many are no answer to how many of the one there are. */
    bool one = false, many = false, counts = false;
    for (int i = 0; i < p->mentions.n && p->r->scope.n > 1; i++) {
        bool repeated = nl_key_to(&p->r->scope, nl_at(p, i)->table) != NULL;
        one |= nl_at(p, i)->kind == KIND_TABLE && repeated;
        many |= nl_at(p, i)->kind == KIND_TABLE && !repeated;
    }
    for (int i = 0; i < p->r->n_select; i++)
        counts |= p->r->select[i].func == FUNC_COUNT && p->r->select[i].ref.table < 0;
    /* Through a table between them, rows of the one group those of the other. */
    if (one && !many && counts && !(p->r->scope.n > 2 && p->r->n_group > 0))
        f[FEATURE_UNSUPPORTED] += 1;
    /* A join repeats the rows of the one: sums over them would be too large. */
    for (int i = 0; i < p->r->n_select && p->r->scope.n > 1; i++)
        if (p->r->select[i].func == FUNC_SUM && nl_key_to(&p->r->scope, p->r->select[i].ref.table))
            f[FEATURE_UNSUPPORTED] += 1;
    for (int i = 0; i + 1 < p->q->n; i++)
        f[FEATURE_SAME_UNREAD] += str_eq(p->q->t[i].text, "same") && !p->q->t[i + 1].is_stop &&
                                  !str_eq(p->q->t[i + 1].stem, "tim");
    if (f[FEATURE_THAN_ROW] > 0)
        f[FEATURE_SAME_UNREAD] = 0;
    f[FEATURE_LISTS] = p->r->n_group > 0 || p->r->limit > 1;
    f[FEATURE_LONG] = MAX_OF(p->q->n - 12, 0) / 5.0;
    f[FEATURE_SINGLE_TABLE] = p->s->n_tables == 1;
    f[FEATURE_ONLY_TABLE_SAID] = p->s->n_tables == 1 ? table_scores[0] : 0;
    if (p->s->n_tables > 1) {
        double mine = table_scores[p->r->scope.tables[0]], best = 0;
        for (int t = 0; t < p->s->n_tables; t++)
            if (table_scores[t] >= TABLE_SAID && !nl_in_scope(&p->r->scope, t)) {
                best = MAX_OF(best, table_scores[t]);
                f[FEATURE_TABLE_MISSED] += table_scores[t] >= TABLE_NAMED;
            }
        f[FEATURE_TABLE_SCORE] = mine;
        f[FEATURE_TABLE_OTHER_BETTER] = MAX_OF(best - mine, 0);
        f[FEATURE_TABLE_NOT_SAID] = mine < 0.4;
    }
    static const char *const auxiliaries[] = { "is",   "are", "was", "were", "did",
                                               "does", "do",  "has", "have" };
    for (size_t i = 0; i < ARRAY_SIZE(auxiliaries) && p->q->n > 0; i++)
        f[FEATURE_YES_NO] += str_eq(p->q->t[0].text, auxiliaries[i]);
    for (int i = 0; i < p->r->n_filters; i++)
        f[FEATURE_HAS_HAVING] += p->r->filters[i].having >= 0;
}

void nl_judge(struct shape *sh, const double *table_scores)
{
    judge_words(sh, table_scores);
    judge_kind(sh);
}
