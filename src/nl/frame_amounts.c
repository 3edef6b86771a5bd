/*
 * Measures by other words than their names: amounts of money, units, and measures that a question
 * means though it names none.
 */

#include <string.h>

#include "nl/frame.h"

/* ---- words that become mentions ---- */

/* The table's amount, if there is one that nothing else there could be taken for. */
bool fr_amount_of(const struct frame *f, int table, bool money, struct nl_ref *ret)
{
    int same = 0;
    if (!(money ? nl_money_measure : nl_main_measure)(f->s, table, ret) ||
        !fr_is_measure(fr_c(f, *ret)) || fr_c(f, *ret)->formula)
        return false;
    const struct nl_column *best = fr_c(f, *ret);
    if (fr_names_column(best, "limit") || fr_names_column(best, "target") ||
        fr_names_column(best, "quota") || fr_names_column(best, "balanc"))
        return false; /* what may be, not what is */
    for (int c = 0; c < f->s->tables[table].n_columns; c++) {
        const struct nl_column *col = &f->s->tables[table].columns[c];
        bool shares = false;
        for (int a = 0; a < col->words.n; a++)
            for (int b = 0; b < best->words.n; b++)
                shares |= str_eq(col->words.stems[a], best->words.stems[b]) &&
                          !fr_is_unit(col->words.words[a]);
        same += shares && fr_is_measure(col);
    }
    return same == 1;
}

/* The only table that has an amount. */
static bool only_amount(const struct frame *f, struct nl_ref *ret)
{
    struct nl_ref one;
    int n = 0;
    for (int t = 0; t < f->s->n_tables; t++)
        if (fr_amount_of(f, t, true, &one)) {
            *ret = one;
            n++;
        }
    return n == 1;
}

/* A word that nothing has linked becomes a mention of the column. */
static void insert_column(struct frame *f, int token, struct nl_ref ref, double score)
{
    fr_put_mention(f, token, token + 1,
                   (struct nl_mention){
                       .kind = KIND_COLUMN, .score = score, .ref = ref, .table = -1 });
}

bool fr_is_earned(const char *word)
{
    return ONE_OF(word, "revenue", "revenues", "turnover", "takings", "income", "sales", "earnings",
                  "proceeds", "spend", "spending", "expenditure", "expenses");
}

/*
 * "revenue" where the only amount is a fare: what is taken in, but not a cost or a wage; "spending"
 * where it is a cost.
 */
void fr_name_revenue(struct frame *f)
{
    struct nl_ref ref = fr_none;
    const struct nl_mention *m;
    for (int i = 0; i < f->q->n && f->m.n < NL_MAX_MENTIONS; i++) {
        m = fr_mention_of(f, i);
        bool free = !m || (fr_is_col(m) && m->score < 0.6 && m->end - m->start == 1);
        if (!free || !fr_is_earned(fr_word(f, i)) || !only_amount(f, &ref))
            continue;
        bool spends = ONE_OF(fr_word(f, i), "spend", "spending", "expenditure", "expenses");
        const struct nl_column *c = fr_c(f, ref);
        bool spent = false;
        for (int w = 0; w < c->words.n; w++)
            spent |= ONE_OF(c->words.stems[w], "cost", "salary", "wag", "pay", "budget", "expens",
                            "spend", "fin", "debt", "incom", "loss", "tip");
        if (spent != spends)
            continue;
        insert_column(f, i, ref, 0.65);
    }
}

/* "order total", "invoice value": the amount of each of them. */
void fr_name_totals(struct frame *f)
{
    struct nl_ref ref;
    for (int i = 1; i < f->m.n; i++) {
        struct nl_mention *m = &f->m.m[i], *before = m - 1;
        if (!fr_is(m, FM_AGG) || m->arg != FUNC_SUM || m->end - m->start != 1 ||
            before->kind != KIND_TABLE || before->end != m->start ||
            !fr_amount_of(f, before->table, true, &ref))
            continue;
        m->kind = KIND_COLUMN;
        m->ref = ref;
        m->score = 0.8;
    }
}

/*
 * What stands around the mention asks how much of it there was: "by region", "per month", "in
 * May". A number that something is compared with, "all" and superlatives right before it ("the
 * biggest expense") ask for rows, unless the best of some groups is asked for ("which month had
 * the highest sales").
 */
static bool asks_how_much(const struct frame *f, int at)
{
    const struct nl_mention *m = &f->m.m[at], *before = at > 0 ? m - 1 : NULL;
    bool grouped = false, how_much = fr_is(before, FM_AGG), compared = false;
    for (int i = 0; i < f->m.n; i++) {
        const struct nl_mention *x = &f->m.m[i];
        if (fr_is(x, FM_COUNT) || fr_is(x, FM_ROWS) || fr_is(x, FM_COMMON) || fr_is(x, FM_FIRST) ||
            fr_is(x, FM_NULL))
            return false;
        grouped |= fr_is(x, FM_BY) || fr_is(x, FM_EACH) || fr_is(x, FM_BUCKET);
        how_much |= fr_is(x, FM_NOT) || fr_is(x, FM_SHARE) || fr_is(x, FM_TREND) ||
                    fr_is(x, FM_CHANGE) || fr_is(x, FM_VS) || fr_is(x, FM_RUNNING) ||
                    fr_is(x, FM_TIME);
        compared |= fr_is(x, FM_CMP) && i + 1 < f->m.n && f->m.m[i + 1].kind == KIND_NUMBER;
    }
    if (compared || ONE_OF(fr_word(f, 0), "list") || ONE_OF(fr_word(f, m->start - 1), "all"))
        return false;
    if (fr_is(before, FM_SUPER) && before->end == m->start)
        return grouped && at > 1;
    return grouped || how_much;
}

/*
 * "sales by region", "expenses in May", where the rows are called so: their amounts, not how many
 * rows there are. "How many sales" and "the latest sale" are of the rows.
 */
void fr_name_amounts(struct frame *f)
{
    for (int i = 0; i < f->m.n; i++) {
        struct nl_mention *m = &f->m.m[i];
        struct nl_ref ref;
        if (m->kind != KIND_TABLE || m->end - m->start != 1 ||
            !ONE_OF(fr_word(f, m->start), "sales", "revenue", "revenues", "turnover", "takings",
                    "income", "earnings", "proceeds", "expenses", "expense", "expenditure",
                    "expenditures", "costs", "spending", "spend", "spent", "outgoings") ||
            !asks_how_much(f, i) || !nl_money_measure(f->s, m->table, &ref) ||
            !fr_is_measure(fr_c(f, ref)))
            continue;
        m->kind = KIND_COLUMN;
        m->ref = ref;
        m->other = fr_none;
        m->score = 0.8;
        m->table = -1;
    }
}

/* The only measure that is in the unit. */
static bool measure_in(const struct frame *f, const char *unit, struct nl_ref *ret)
{
    int n = 0;
    for (int t = 0; t < f->s->n_tables; t++)
        for (int c = 0; c < f->s->tables[t].n_columns; c++) {
            const struct nl_column *col = &f->s->tables[t].columns[c];
            if (!fr_has_unit(col) || !fr_is_measure(col) || fr_unit_factor(col, unit) != 1)
                continue;
            *ret = (struct nl_ref){ t, c };
            n++;
        }
    return n == 1;
}

/* "total kilometres", "5 issues that took the most hours": what is measured so. */
void fr_name_units(struct frame *f)
{
    struct nl_ref ref;
    for (int i = 0; i < f->m.n; i++) {
        struct nl_mention *m = &f->m.m[i];
        if (m->kind == KIND_COLUMN && m->end - m->start == 1 && m->score < 0.6 &&
            fr_is_unit(fr_word(f, m->start)) && measure_in(f, fr_word(f, m->start), &ref)) {
            m->ref = ref;
            m->other = fr_none;
            m->score = 0.8;
        }
    }
    for (int i = 0; i + 1 < f->m.n; i++) { /* "length in km" is a distance, not a duration */
        struct nl_mention *m = &f->m.m[i], *unit = &f->m.m[i + 1];
        if (m->kind == KIND_COLUMN && m->score < 0.8 && unit->kind == KIND_COLUMN &&
            unit->start == m->end + 1 && str_eq(fr_word(f, m->end), "in") &&
            fr_is_unit(fr_word(f, unit->start)) && fr_has_unit(fr_c(f, m->ref)) &&
            fr_unit_factor(fr_c(f, m->ref), fr_word(f, unit->start)) == 0 &&
            measure_in(f, fr_word(f, unit->start), &ref)) {
            m->ref = ref;
            m->other = fr_none;
            fr_make_light(unit);
        }
    }
    for (int i = 0; i < f->q->n && f->m.n < NL_MAX_MENTIONS; i++) {
        const struct nl_mention *m;
        bool number = i > 0 && f->q->t[i - 1].is_number;
        if (!number && fr_is_unit(fr_word(f, i)) && !str_eq(fr_word(f, i - 1), "in") &&
            !(m = fr_mention_of(f, i)) && measure_in(f, fr_word(f, i), &ref))
            insert_column(f, i, ref, 0.8);
    }
}

/* ---- measures that are not said ---- */

static bool has_free_measure(struct frame *f)
{
    for (int i = 0; i < f->m.n; i++)
        if (fr_is_col(fr_at(f, i)) && !fr_at(f, i)->used && fr_is_measure(fr_c(f, f->m.m[i].ref)))
            return true;
    return false;
}

/* "median donation", "how much did they give", "mean total": of the amount that rows have. */
void fr_read_amounts(struct frame *f)
{
    struct nl_ref ref;
    for (int i = 0; i < f->m.n && f->n_measures == 0 && !f->super; i++) {
        struct nl_mention *m = fr_at(f, i), *next = fr_at(f, i + 1);
        if (!fr_is(m, FM_AGG) || m->used || has_free_measure(f) || f->said[FM_COUNT])
            continue;
        bool much = str_eq(fr_word(f, m->start), "how"), sum = m->arg == FUNC_SUM;
        bool of_rows = next && next->kind == KIND_TABLE && fr_gap(f, m, next) == 0;
        bool said = sum && (much || !of_rows);
        if (sum ? !(said && only_amount(f, &ref)) :
                  !(of_rows ? fr_amount_of(f, next->table, false, &ref) :
                              fr_is(next, FM_AGG) && next->arg == FUNC_SUM && only_amount(f, &ref)))
            continue;
        f->measures[f->n_measures++] = (struct nl_item){ .ref = ref, .func = m->arg, .bucket = -1 };
        f->anchor = ref.table;
        m->used = true;
        if (of_rows && !sum)
            next->used = true;
        if (fr_is(next, FM_AGG) && next->arg == FUNC_SUM) {
            next->used = true;
            f->measures[0].func = FUNC_SUM;
            f->average_of_groups = m->arg == FUNC_AVG && f->r.n_group > 0;
        }
    }
}

/* "which campaign brought in the most": an amount, where the verb is one of money. */
bool fr_amount_of_verb(const struct frame *f, int at, struct nl_ref *ret)
{
    int named = 0;
    if (--at > 0 && ONE_OF(fr_word(f, at), "in", "up", "us"))
        at--;
    for (int t = 0; t < f->s->n_tables && at >= 0; t++) /* "spend the most": spend_eur */
        for (int c = 0; c < f->s->tables[t].n_columns; c++) {
            const struct nl_column *col = &f->s->tables[t].columns[c];
            if (!fr_names_column(col, f->q->t[at].stem) || !fr_is_measure(col))
                continue;
            *ret = (struct nl_ref){ t, c };
            named++;
        }
    if (named > 0)
        return named == 1;
    return ONE_OF(fr_word(f, at), "raised", "raises", "raise", "earned", "earns", "earn", "brought",
                  "brings", "bring", "made", "makes", "make", "spent", "spends", "spend", "gave",
                  "gives", "give", "donated", "donates", "donate", "cost", "costs", "paid", "pays",
                  "pay", "collected", "collects", "generated", "generates", "generate", "grossed",
                  "contributed", "contributes", "yielded", "yields") &&
           only_amount(f, ret);
}
