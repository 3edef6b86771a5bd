/* From mentions to filters: comparisons, ranges, texts, values, dates, empty cells. */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/str.h"
#include "nl/nl_impl.h"

int nl_gap(const struct nl_parse *p, const struct nl_mention *a, const struct nl_mention *b)
{
    int n = 0;
    for (int i = a->end; i < b->start; i++)
        n += p->q->t[i].is_stop ? 0 : 1;
    return n;
}

bool nl_is_date(const struct nl_column *c)
{
    return c && (c->type == TYPE_DATE || c->type == TYPE_TIMESTAMP);
}

bool nl_is_year(const struct nl_column *c)
{
    if (!c || !c->is_numeric)
        return false;
    for (int i = 0; i < c->words.n; i++)
        if (str_eq(c->words.stems[i], "year") || str_eq(c->words.words[i], "yr") ||
            str_eq(c->words.words[i], "season") || str_eq(c->words.stems[i], "found") ||
            str_eq(c->words.stems[i], "built"))
            return true;
    /* "member_since": years, as the values show */
    static const char *const began[] = { "since",  "start", "open",   "establish", "join",
                                         "hir",    "birth", "born",   "releas",    "publish",
                                         "launch", "model", "vintag", "construct", "graduat" };
    for (size_t v = 0; v < c->n_values && v < 8; v++) {
        double y = strtod(c->values[v], NULL);
        if (c->type != TYPE_INTEGER || y < 1850 || y > 2100)
            return false;
    }
    for (int i = 0; i < c->words.n && c->n_values > 0; i++)
        for (size_t k = 0; k < ARRAY_SIZE(began); k++)
            if (strncmp(c->words.stems[i], began[k], strlen(began[k])) == 0)
                return true;
    return false;
}

bool nl_hint_column(const struct nl_parse *p, const char *hint, struct nl_ref *ret,
                    bool *ret_reversed)
{
    while (hint && *hint) {
        size_t n = strcspn(hint, "|");
        bool reversed = *hint == '-';
        const char *stem = hint + reversed;
        size_t len = n - reversed;
        for (int t = 0; t < p->r->scope.n; t++) {
            const struct nl_table *table = &p->s->tables[p->r->scope.tables[t]];
            for (int c = 0; c < table->n_columns; c++) {
                const struct nl_column *col = &table->columns[c];
                if (!col->is_numeric && !nl_is_date(col))
                    continue;
                for (int w = 0; w < col->words.n; w++) {
                    const char *x = col->words.stems[w];
                    if (strncmp(x, stem, len) != 0 || strlen(x) > len + 2 || col->is_id)
                        continue;
                    *ret = (struct nl_ref){ p->r->scope.tables[t], c };
                    *ret_reversed = reversed;
                    return true;
                }
            }
        }
        hint += n;
        hint += *hint == '|';
    }
    return false;
}

bool nl_date_column(struct nl_parse *p, struct nl_ref *ret)
{
    for (int i = 0; i < p->mentions.n; i++) {
        const struct nl_mention *m = &p->mentions.m[i];
        if (m->kind == KIND_COLUMN && nl_is_date(nl_col(p->s, m->ref))) {
            *ret = m->ref;
            return true;
        }
    }
    for (int t = 0; t < p->r->scope.n; t++) {
        int own = nl_own_date(&p->s->tables[p->r->scope.tables[t]]);
        if (own >= 0) {
            *ret = (struct nl_ref){ p->r->scope.tables[t], own };
            return true;
        }
    }
    for (int t = 0; t < p->r->scope.n; t++)
        for (int c = 0; c < p->s->tables[p->r->scope.tables[t]].n_columns; c++)
            if (nl_is_date(&p->s->tables[p->r->scope.tables[t]].columns[c])) {
                *ret = (struct nl_ref){ p->r->scope.tables[t], c };
                return true;
            }
    return false;
}

bool nl_year_column(struct nl_parse *p, struct nl_ref *ret)
{
    for (int t = 0; t < p->r->scope.n; t++)
        for (int c = 0; c < p->s->tables[p->r->scope.tables[t]].n_columns; c++)
            if (nl_is_year(&p->s->tables[p->r->scope.tables[t]].columns[c])) {
                *ret = (struct nl_ref){ p->r->scope.tables[t], c };
                return true;
            }
    return false;
}

struct nl_filter *nl_add_filter(struct nl_parse *p, struct nl_ref ref, enum plan_filter_op op,
                                int mention)
{
    if (p->r->n_filters == NL_MAX_FILTERS)
        return NULL;
    struct nl_filter *f = &p->r->filters[p->r->n_filters];
    *f = (struct nl_filter){ .ref = ref, .op = op, .having = -1 };
    p->filter_at[p->r->n_filters++] = mention;
    return f;
}

/* "not" shortly before mention i, with no other filter between. */
static bool is_negated(struct nl_parse *p, int i)
{
    for (int k = i - 1; k >= 0 && k >= i - 3; k--) {
        struct nl_mention *m = nl_at(p, k);
        if (nl_is_mark(m, MARK_NOT)) {
            if (m->arg == 1 && nl_at(p, i)->kind != KIND_VALUE)
                return false;
            m->used = true;
            return true;
        }
        if (m->kind == KIND_MARK && (m->mark == MARK_WHERE || m->mark == MARK_AND) && k < i - 1)
            return false;
        if (m->kind != KIND_COLUMN && m->kind != KIND_MARK)
            return false;
    }
    return false;
}

void nl_add_text(struct nl_filter *f, const char *text)
{
    for (int i = 0; f && i < f->n_texts; i++)
        if (str_eq(f->text[i], text))
            return;
    if (f && f->n_texts < (int)ARRAY_SIZE(f->text))
        f->text[f->n_texts++] = text;
}

static bool is_text(const struct nl_parse *p, const struct nl_mention *m)
{
    const struct nl_column *c = m && m->kind == KIND_COLUMN ? nl_col(p->s, m->ref) : NULL;
    return c && c->type == TYPE_TEXT;
}

/* The nearest text column before mention i, then after it. */
static struct nl_mention *text_column_near(struct nl_parse *p, int i)
{
    for (int k = i - 1; k >= 0 && k >= i - 3; k--)
        if (is_text(p, nl_at(p, k)))
            return nl_at(p, k);
    for (int k = i + 1; k < p->mentions.n && k <= i + 2; k++)
        if (is_text(p, nl_at(p, k)))
            return nl_at(p, k);
    return NULL;
}

/* A text that is no known value can only be in a column whose values are not all known. */
static bool open_column(const struct nl_parse *p, struct nl_ref *ret)
{
    for (int pass = 0; pass < 2; pass++)
        for (int t = 0; t < p->r->scope.n; t++) {
            const struct nl_table *table = &p->s->tables[p->r->scope.tables[t]];
            for (int c = 0; c < table->n_columns; c++)
                if (table->columns[c].type == TYPE_TEXT && table->columns[c].many_values &&
                    (pass > 0 || table->columns[c].is_name)) {
                    *ret = (struct nl_ref){ p->r->scope.tables[t], c };
                    return true;
                }
        }
    return false;
}

static bool name_column(const struct nl_parse *p, struct nl_ref *ret)
{
    const struct nl_table *t = &p->s->tables[p->r->scope.tables[0]];
    for (int c = 0; c < t->n_columns; c++)
        if (t->columns[c].is_name) {
            *ret = (struct nl_ref){ p->r->scope.tables[0], c };
            return true;
        }
    return false;
}

static void read_texts(struct nl_parse *p)
{
    for (int i = 0; i < p->mentions.n; i++) {
        struct nl_mention *m = nl_at(p, i);
        if (!nl_is_mark(m, MARK_CONTAINS) || m->used)
            continue;
        struct nl_mention *what = nl_at(p, i + 1);
        const char *text = NULL;
        if (what && !what->used && (what->kind == KIND_TEXT || what->kind == KIND_VALUE) &&
            what->start - m->end <= 2)
            text = what->kind == KIND_VALUE ? p->q->t[what->start].raw : what->text;
        else if (what && nl_is_mark(what, MARK_CONTAINS)) {
            if (what->start == m->end) { /* "ending with" and "the letter" */
                what->arg = m->arg;
                m->used = true;
            }
            continue;
        } else if (m->end < p->q->n && (!p->q->t[m->end].is_stop || p->q->t[m->end].capital) &&
                   (strlen(p->q->t[m->end].raw) <= 2 || !what || what->start > m->end)) {
            text = p->q->t[m->end].raw; /* "starts with A" */
            what = NULL;
        }
        if (!text)
            continue;
        struct nl_mention *column = text_column_near(p, i);
        struct nl_ref ref;
        if (column)
            ref = column->ref;
        else if (!name_column(p, &ref))
            continue;
        bool negated = is_negated(p, i);
        struct nl_filter *f = nl_add_filter(p, ref, (enum plan_filter_op)m->arg, i);
        nl_add_text(f, text);
        if (f) {
            f->negated = negated;
            f->is_literal = what ? p->q->t[what->start].quoted : true;
        }
        m->used = true;
        if (what)
            what->used = true;
        if (column)
            column->used = true;
    }
}

static bool column_has(const struct nl_parse *p, struct nl_ref ref, const char *text,
                       const char **ret)
{
    const char *key = nl_value_key(p->arena, text);
    for (const struct nl_value *v = key ? nl_find_value(p->s, key, NULL) : NULL; v;
         v = nl_find_value(p->s, key, v))
        if (!v->is_part && v->table == ref.table && v->column == ref.column) {
            *ret = v->text;
            return true;
        }
    return false;
}

static void read_empty(struct nl_parse *p)
{
    for (int i = 0; i < p->mentions.n; i++) {
        struct nl_mention *m = nl_at(p, i);
        struct nl_mention *c = nl_at(p, i - 1), *after = nl_at(p, i + 1);
        bool none = nl_is_mark(m, MARK_NOT) && !m->used &&
                    (m->arg == 1 || str_eq(p->q->t[m->start].text, "without"));
        if (none && after && after->kind == KIND_COLUMN && !after->used &&
            after->start - m->end <= 1 && !nl_col(p->s, after->ref)->is_flag) {
            struct nl_mention *then = nl_at(p, i + 2); /* "no score above 3" is something else */
            if (!then || (then->kind != KIND_VALUE && then->kind != KIND_NUMBER &&
                          !nl_is_mark(then, MARK_CMP))) {
                const struct nl_column *what = nl_col(p->s, after->ref);
                m->used = after->used = true;
                const char *zero = NULL;
                if (what->is_numeric && !what->is_id && !what->has_nulls &&
                    column_has(p, after->ref, "0", &zero)) { /* "no losses" */
                    nl_number_filter(p, after->ref, FILTER_EQ, 0, i);
                    p->f[FEATURE_ZERO] += 1;
                } else {
                    nl_add_filter(p, after->ref, FILTER_IS_NULL, i);
                }
            }
            continue;
        }
        if (!nl_is_mark(m, MARK_NULL))
            continue;
        bool negated = false;
        if (nl_is_mark(c, MARK_NOT)) {
            negated = c->used = true;
            c = nl_at(p, i - 2);
        }
        if (!c || c->kind != KIND_COLUMN || c->used)
            c = after && after->kind == KIND_COLUMN && after->start == m->end ? after : NULL;
        if (!c)
            continue;
        m->used = c->used = true;
        nl_add_filter(p, c->ref, negated ? FILTER_IS_NOT_NULL : FILTER_IS_NULL, i);
    }
}

/*
 * "the player after X", "listed above X": the row beside the one that X is in. Returns which of the
 * rows around has it: -1 the one before, 1 the one after; 0 when nothing says so. Words such as
 * "after" that are not followed by a day or a number mean rows.
 */
static int neighbour(struct nl_parse *p, int i)
{
    struct nl_mention *before = nl_at(p, i - 1), *value = nl_at(p, i);
    bool column = before && before->kind == KIND_COLUMN && nl_gap(p, before, value) == 0;
    struct nl_mention *mark = column ? nl_at(p, i - 2) : before;
    if (mark && nl_is_mark(mark, MARK_CMP) && !mark->used && value->start - mark->end <= 4 &&
        nl_gap(p, mark, value) <= 1) {
        const char *word = p->q->t[mark->end - 1].text;
        if (str_eq(word, "after") || str_eq(word, "below")) {
            mark->used = true;
            return -1;
        }
        if (str_eq(word, "before") || str_eq(word, "above")) {
            mark->used = true;
            return 1;
        }
    }
    for (int k = 0; k < p->mentions.n; k++) {
        struct nl_mention *m = nl_at(p, k);
        if (!nl_is_mark(m, MARK_AFTER))
            continue;
        m->used = true;
        /* "the next one after X": both say the same */
        if (mark && nl_is_mark(mark, MARK_CMP))
            mark->used = true;
        return m->arg > 0 ? -1 : 1;
    }
    return 0;
}

static void read_values(struct nl_parse *p)
{
    for (int i = 0; i < p->mentions.n; i++) {
        struct nl_mention *m = nl_at(p, i);
        if (m->used || (m->kind != KIND_VALUE && m->kind != KIND_TEXT))
            continue;
        struct nl_mention *before = nl_at(p, i - 1), *after = nl_at(p, i + 1), *column = NULL;
        bool negated = false;
        if (nl_is_mark(before, MARK_NOT) ||
            (before && before->kind == KIND_MARK && before->mark == MARK_CMP &&
             before->arg == FILTER_EQ)) {
            negated = before->mark == MARK_NOT;
            before->used = true;
            before = nl_at(p, i - 2);
        }
        const char *text = m->text;
        if (before && before->kind == KIND_COLUMN && nl_gap(p, before, m) == 0 &&
            !p->q->t[before->end - 1].comma_after &&
            (m->kind == KIND_TEXT || column_has(p, before->ref, m->text, &text)))
            column = before;
        else if (after && after->kind == KIND_COLUMN && after->start - m->end <= 0 &&
                 (column_has(p, after->ref, m->text, &text)))
            column = after;
        struct nl_ref ref = m->ref;
        if (column) {
            ref = column->ref;
            column->used = true;
            p->f[FEATURE_VALUE_COLUMN_SAID] += 1;
        } else if (m->kind == KIND_TEXT) {
            struct nl_mention *near = text_column_near(p, i);
            bool can_be = near && nl_col(p->s, near->ref)->many_values;
            if (!can_be && open_column(p, &ref)) {
                p->f[FEATURE_TEXT_OPEN] += 1;
            } else if (near) {
                ref = near->ref;
                near->used = true;
            } else if (!name_column(p, &ref)) {
                continue;
            }
            p->f[FEATURE_TEXT_UNKNOWN] += 1;
        } else if (m->other.table >= 0) {
            p->f[FEATURE_VALUE_AMBIGUOUS] += 1;
        }
        m->used = true;
        negated = negated || is_negated(p, i);
        int around = neighbour(p, i);
        p->f[FEATURE_ROW_AROUND] += around != 0;
        if (m->is_part) {
            struct nl_filter *part = nl_add_filter(p, m->ref, FILTER_CONTAINS, i);
            nl_add_text(part, m->text);
            if (part)
                part->negated = negated;
            if (part)
                part->around = around;
            p->f[FEATURE_VALUE_PART] += 1;
            continue;
        }
        p->f[FEATURE_VALUE_PIECE] += m->is_piece;
        struct nl_filter *last = p->r->n_filters ? &p->r->filters[p->r->n_filters - 1] : NULL;
        if (last && last->ref.table == ref.table && last->ref.column == ref.column &&
            last->op == FILTER_EQ && last->n_texts > 0 && last->n_numbers == 0 &&
            last->negated == negated && last->around == around) {
            nl_add_text(last, text);
            continue;
        }
        if (last && last->ref.table == ref.table && last->ref.column == ref.column &&
            last->negated && last->op == FILTER_EQ)
            negated = true;
        struct nl_filter *f = nl_add_filter(p, ref, FILTER_EQ, i);
        nl_add_text(f, text);
        if (f)
            f->negated = negated;
        if (f)
            f->around = around;
    }
}

/* "during working hours", "on Mondays" */
static void read_times(struct nl_parse *p)
{
    static const char *const days[] = { "Sunday",   "Monday", "Tuesday", "Wednesday",
                                        "Thursday", "Friday", "Saturday" };
    for (int i = 0; i < p->mentions.n; i++) {
        struct nl_mention *m = nl_at(p, i);
        struct nl_ref ref;
        if (!nl_is_mark(m, MARK_TIMES) || !nl_date_column(p, &ref))
            continue;
        m->used = true;
        if (m->arg == TIMES_WORK && nl_col(p->s, ref)->type == TYPE_TIMESTAMP) {
            struct nl_filter *f = nl_add_filter(p, ref, FILTER_BETWEEN, i);
            if (f) { /* 9:00 to 16:59 */
                f->part = PART_HOUR;
                f->number[f->n_numbers++] = 9;
                f->number[f->n_numbers++] = 16;
            }
        }
        if (m->arg >= TIMES_DAY) {
            struct nl_filter *f = nl_add_filter(p, ref, FILTER_EQ, i);
            nl_add_text(f, days[m->arg - TIMES_DAY]);
            if (f)
                f->part = PART_WEEKDAY;
            continue;
        }
        struct nl_filter *f = nl_add_filter(p, ref, FILTER_BETWEEN, i);
        if (f) {
            f->part = PART_WEEKDAY_NUMBER;
            f->negated = m->arg == TIMES_WEEKEND;
            f->number[f->n_numbers++] = 1;
            f->number[f->n_numbers++] = 5;
        }
    }
}

/* "out of stock": none is left. */
static void read_out(struct nl_parse *p)
{
    for (int i = 0; i < p->mentions.n; i++) {
        struct nl_mention *m = nl_at(p, i), *next = nl_at(p, i + 1);
        if (!nl_is_mark(m, MARK_OUT) || !next || next->kind != KIND_COLUMN ||
            next->start != m->end || next->used)
            continue;
        const struct nl_column *c = nl_col(p->s, next->ref);
        if (!c->is_numeric || c->is_id)
            continue;
        struct nl_filter *f = nl_add_filter(p, next->ref, FILTER_LE, i);
        if (f)
            f->number[f->n_numbers++] = 0;
        m->used = next->used = true;
    }
}

/* "in March": the last one that the data has. */
static void place_months(struct nl_parse *p)
{
    for (int i = 0; i < p->mentions.n; i++) {
        struct nl_mention *m = nl_at(p, i);
        struct nl_ref ref;
        if (m->kind == KIND_DATE && str_starts(m->from, "0000") &&
            (!nl_date_column(p, &ref) || !nl_place_month(nl_col(p->s, ref)->max, m->from, m->to)))
            m->used = true; /* no date to speak of */
    }
}

/* "last 30 days": of the data, whose last day the column's range tells. */
static void read_recent(struct nl_parse *p)
{
    static const int days[] = {
        [BUCKET_HOUR] = 0, [BUCKET_DAY] = 1, [BUCKET_WEEK] = 7, [BUCKET_YEAR] = 0
    };
    static const int months_of[] = { [BUCKET_MONTH] = 1, [BUCKET_QUARTER] = 3, [BUCKET_YEAR] = 12 };
    for (int i = 0; i < p->mentions.n; i++) {
        struct nl_mention *m = nl_at(p, i), *n = nl_at(p, i + 1), *unit = nl_at(p, i + 2);
        struct nl_ref ref;
        if (!nl_is_mark(m, MARK_LAST) || m->arg != -1 || !n)
            continue;
        double count = 1;
        bool numbered = n->kind == KIND_NUMBER;
        if (numbered)
            count = n->number;
        else
            unit = n;
        static const char *const units[] = { "hour", "day", "week", "month", "quarter", "year" };
        int bucket = -1;
        for (size_t u = 0; unit && u < ARRAY_SIZE(units); u++)
            if (unit->start + 1 == unit->end && str_starts(p->q->t[unit->start].text, units[u]))
                bucket = (int)u;
        int next = numbered ? n->end : m->end;
        for (size_t u = 0; bucket < 0 && next < p->q->n && u < ARRAY_SIZE(units); u++)
            if (str_starts(p->q->t[next].text, units[u]))
                bucket = (int)u;
        if (bucket < 0 || !nl_date_column(p, &ref) || !nl_col(p->s, ref)->max)
            continue;
        char from[20];
        const char *max = nl_col(p->s, ref)->max;
        bool hours = bucket == BUCKET_HOUR,
             months = bucket == BUCKET_MONTH || bucket == BUCKET_QUARTER || bucket == BUCKET_YEAR;
        bool placed = count >= 1 && count <= 10000;
        if (hours)
            placed = placed && nl_add_hours(max, -(int)count, from);
        else if (months) /* up to the same day of the month */
            placed = placed && nl_add_months(max, -(int)(count * months_of[bucket]), from) &&
                     nl_add_days(from, 1, from);
        else
            placed = placed && nl_add_days(max, -(int)(count * days[bucket]) + 1, from);
        if (!placed)
            continue;
        m->used = n->used = true;
        if (unit && unit->start == next)
            unit->used = true;
        nl_add_text(nl_add_filter(p, ref, hours ? FILTER_GT : FILTER_GE, i),
                    arena_strdup(p->arena, from));
    }
}

static void read_dates(struct nl_parse *p)
{
    for (int i = 0; i < p->mentions.n; i++) {
        struct nl_mention *m = nl_at(p, i);
        struct nl_ref ref;
        if (m->used || m->kind != KIND_DATE || !nl_date_column(p, &ref))
            continue;
        struct nl_mention *before = nl_at(p, i - 1);
        if (before && before->kind == KIND_COLUMN && nl_is_date(nl_col(p->s, before->ref)) &&
            nl_gap(p, before, m) == 0) {
            ref = before->ref;
            before->used = true;
        }
        m->used = true;
        nl_date_filter(p, ref, FILTER_EQ, m->from, m->to, i);
    }
}

static bool has_superlative(struct nl_parse *p)
{
    for (int i = 0; i < p->mentions.n; i++)
        if (nl_is_mark(nl_at(p, i), MARK_SUPER) || nl_is_mark(nl_at(p, i), MARK_COMMON))
            return true;
    return false;
}

static bool has_dates(const struct nl_parse *p)
{
    for (int t = 0; t < p->r->scope.n; t++)
        for (int c = 0; c < p->s->tables[p->r->scope.tables[t]].n_columns; c++)
            if (nl_is_date(&p->s->tables[p->r->scope.tables[t]].columns[c]))
                return true;
    return false;
}

/* "in 2024", where there are days or years to find it in. */
static bool is_year_number(struct nl_parse *p, const struct nl_mention *m)
{
    struct nl_ref ref;
    const char *before = m->start > 0 ? p->q->t[m->start - 1].text : "";
    return m->number >= 1500 && m->number <= 2100 &&
           (str_eq(before, "in") || str_eq(before, "of") || str_eq(before, "during")) &&
           (nl_year_column(p, &ref) || nl_date_column(p, &ref) || has_dates(p));
}

static void read_numbers(struct nl_parse *p)
{
    for (int i = 0; i < p->mentions.n; i++) {
        struct nl_mention *m = nl_at(p, i), *before = nl_at(p, i - 1), *after = nl_at(p, i + 1);
        struct nl_ref ref;
        if (m->used || m->kind != KIND_NUMBER)
            continue;
        if (p->q->t[m->start].is_ordinal) { /* "8th place" */
            const struct nl_column *c = after && after->kind == KIND_COLUMN &&
                                                after->start == m->end ?
                                            nl_col(p->s, after->ref) :
                                            NULL;
            if (c && c->is_numeric && !after->used) {
                m->used = after->used = true;
                nl_number_filter(p, after->ref, FILTER_EQ, m->number, i);
            }
            continue;
        }
        bool negated = nl_is_mark(before, MARK_NOT);
        if (negated) {
            before->used = true;
            before = nl_at(p, i - 2);
        }
        if (after && after->kind == KIND_MARK &&
            (after->mark == MARK_SUPER || after->mark == MARK_COMMON))
            continue;
        if (after && after->kind == KIND_TABLE && after->start == m->end && has_superlative(p) &&
            m->number <= 1000)
            continue; /* "the three hotels with the lowest prices" */
        if (before && before->kind == KIND_MARK &&
            (before->mark == MARK_TOP || before->mark == MARK_LAST || before->mark == MARK_SUPER))
            continue;
        const struct nl_column *b = before && before->kind == KIND_COLUMN ?
                                        nl_col(p->s, before->ref) :
                                        NULL;
        struct nl_filter *last = p->r->n_filters ? &p->r->filters[p->r->n_filters - 1] : NULL;
        bool years_old = m->end + 1 < p->q->n && str_eq(p->q->t[m->end].stem, "year") &&
                         str_eq(p->q->t[m->end + 1].text, "old");
        bool reversed;
        if (years_old && nl_hint_column(p, "ag", &ref, &reversed)) {
            m->used = true;
            for (int k = i + 1; k < p->mentions.n && nl_at(p, k)->start <= m->end + 1; k++)
                nl_at(p, k)->used = true;
            nl_number_filter(p, ref, FILTER_EQ, m->number, i);
        } else if (b && nl_gap(p, before, m) == 0 &&
                   !(is_year_number(p, m) && !nl_is_year(b) && !nl_is_date(b))) {
            m->used = before->used = true;
            nl_number_filter(p, before->ref, negated ? FILTER_NE : FILTER_EQ, m->number, i);
        } else if (nl_is_mark(before, MARK_OR) && last && last->n_numbers == 1 &&
                   last->op == FILTER_EQ && p->filter_at[p->r->n_filters - 1] == i - 2) {
            m->used = before->used = true;
            nl_number_filter(p, last->ref, FILTER_EQ, m->number, i);
            p->r->filters[p->r->n_filters - 1].is_or = true;
        } else if (after && after->kind == KIND_TABLE && after->start == m->end &&
                   m->number <= 20 && !nl_is_mark(before, MARK_COUNT) && !has_superlative(p)) {
            struct nl_filter *f = nl_add_filter(p, (struct nl_ref){ -1, -1 }, FILTER_EQ, i);
            if (f) {
                f->having = FUNC_COUNT;
                f->number[f->n_numbers++] = m->number;
            }
            m->used = after->used = true;
            p->f[FEATURE_HAVING_COUNT] += 1;
        } else if (nl_comparable(p, after) && after->start - m->end <= 0 &&
                   !nl_col(p->s, after->ref)->is_id) {
            m->used = after->used = true;
            nl_number_filter(p, after->ref, FILTER_EQ, m->number, i);
        } else if (m->number >= 1500 && m->number <= 2100 &&
                   (nl_year_column(p, &ref) || nl_date_column(p, &ref))) {
            m->used = true;
            p->f[FEATURE_GUESSED_COLUMN] += 1;
            nl_number_filter(p, ref, FILTER_EQ, m->number, i);
        } else {
            /* The only column that has this value. */
            const char *key = nl_value_key(p->arena, m->text);
            const struct nl_value *v = key ? nl_find_value(p->s, key, NULL) : NULL;
            while (v && (v->is_part || v->table != p->r->scope.tables[0]))
                v = nl_find_value(p->s, key, v);
            const struct nl_value *inside = key && !v ? nl_find_value(p->s, key, NULL) : NULL;
            while (inside && (!inside->is_part || inside->table != p->r->scope.tables[0]))
                inside = nl_find_value(p->s, key, inside);
            if (inside && m->number > 31) { /* "in 1964", of dates that are texts */
                m->used = true;
                p->f[FEATURE_VALUE_PART] += 1;
                nl_add_text(nl_add_filter(p, (struct nl_ref){ inside->table, inside->column },
                                          FILTER_CONTAINS, i),
                            m->text);
                continue;
            }
            if (v && m->number > 20) {
                m->used = true;
                p->f[FEATURE_GUESSED_COLUMN] += 1;
                nl_number_filter(p, (struct nl_ref){ v->table, v->column }, FILTER_EQ, m->number,
                                 i);
            }
        }
    }
}

/* "or" between what two filters came from. */
static void read_or(struct nl_parse *p)
{
    /* The passes found them in an order of their own: back to that of the question. */
    for (int i = 1; i < p->r->n_filters; i++)
        for (int j = i; j > 0 && p->filter_at[j] < p->filter_at[j - 1]; j--) {
            struct nl_filter f = p->r->filters[j];
            int at = p->filter_at[j];
            p->r->filters[j] = p->r->filters[j - 1];
            p->filter_at[j] = p->filter_at[j - 1];
            p->r->filters[j - 1] = f;
            p->filter_at[j - 1] = at;
        }
    for (int i = 1; i < p->r->n_filters; i++) {
        int a = p->filter_at[i - 1], b = p->filter_at[i];
        for (int k = MIN_OF(a, b) + 1; k < MAX_OF(a, b); k++)
            if (nl_is_mark(nl_at(p, k), MARK_OR) && nl_at(p, k)->arg == 0 &&
                p->r->filters[i].having < 0 && p->r->filters[i - 1].having < 0) {
                p->r->filters[i].is_or = true;
                nl_at(p, k)->used = true;
            }
    }
}

void nl_read_filters(struct nl_parse *p)
{
    place_months(p);
    read_times(p);
    read_out(p);
    read_recent(p);
    nl_read_ranges(p);
    nl_read_than(p);
    nl_read_comparisons(p);
    read_texts(p);
    read_empty(p);
    read_values(p);
    read_dates(p);
    read_numbers(p);
    read_or(p);
}
