/*
 * Questions that lean on the one before, by its words: "and in 2023?" after "how many members
 * joined in 2022" is read as "how many members joined in 2023". A value takes the place of one of
 * the same column, a time that of a time, a group that of a group, a measure that of a measure;
 * what has no counterpart is added at the end. What is not of these kinds is left to follow.c.
 */

#include <string.h>

#include "nl/frame.h"

#define ADDED_MAX 4

struct piece { /* takes the place of tokens [start, end) of the question before */
    int start, end;
    const char *text;
};

struct combined {
    struct frame *before, *now;
    struct piece pieces[ADDED_MAX];
    const char *added[ADDED_MAX];
    int n_pieces, n_added;
    bool adds; /* "also by" */
};

static bool is_word(const struct frame *f, int i, const char *list)
{
    if (i < 0 || i >= f->q->n || f->q->t[i].quoted)
        return false;
    size_t n = strlen(f->q->t[i].text);
    for (const char *p = list; n > 0 && (p = strstr(p, f->q->t[i].text)) != NULL; p++)
        if ((p == list || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\0'))
            return true;
    return false;
}

/* Words that say that this goes on from before. How many there are; 0: it stands on its own. */
static int lead_of(const struct frame *f)
{
    int i = 0;
    bool leans = f->q->n > 0 && is_word(f, f->q->n - 1, "instead");
    while (is_word(f, i, "and also now but then ok okay so only just same"))
        i++, leans = true;
    if (is_word(f, i, "what how") && is_word(f, i + 1, "about"))
        i += 2, leans = true;
    leans |= is_word(f, i, "for in by per without except excluding since before after from");
    return leans ? i + 1 : 0;
}

/* "last 2 weeks", "Riverside?": times and values only. */
static bool is_bare(struct frame *f)
{
    bool covered[NL_MAX_TOKENS] = { false };
    int n = 0;
    for (int i = 0; i < f->m.n; i++) {
        const struct nl_mention *m = fr_at(f, i);
        if (m->kind != KIND_VALUE && !fr_is(m, FM_TIME))
            return false;
        for (int k = m->start; k < m->end; k++)
            covered[k] = true;
        n++;
    }
    for (int i = 0; i < f->q->n; i++)
        if (!covered[i] && !f->q->t[i].is_stop && !fr_is_light(f->q->t[i].text))
            return false;
    return n > 0;
}

/* "and how many …" is a question of its own. */
static bool asks(const struct frame *f)
{
    for (int i = 0; i < f->q->n; i++)
        if (is_word(f, i, "which what how show list who where when"))
            return true;
    return false;
}

static bool has_own_subject(const struct frame *f)
{
    for (int i = 0; i < f->m.n; i++) {
        const struct nl_mention *m = &f->m.m[i];
        if (fr_is(m, FM_COUNT) || fr_is(m, FM_AGG) || fr_is(m, FM_SUPER) || fr_is(m, FM_TOP) ||
            fr_is(m, FM_COMMON) || fr_is(m, FM_SHARE) || fr_is(m, FM_RATE) || fr_is(m, FM_RANK) ||
            fr_is(m, FM_ADVERB) || fr_is(m, FM_FIRST) || fr_is(m, FM_WHO) || fr_is(m, FM_WHEN))
            return true;
        if (m->kind == KIND_COLUMN && fr_is_measure(fr_c(f, m->ref)))
            return true;
    }
    return asks(f);
}

bool fr_leans(const struct frame *f)
{
    bool about = is_word(f, 0, "what how") && is_word(f, 1, "about");
    if (about || is_word(f, 0, "remove clear reset undo") || (is_word(f, 0, "as") && f->q->n <= 4))
        return true;
    return lead_of(f) > 0 && !(is_word(f, 0, "and but also") ? asks(f) : has_own_subject(f));
}

/* Tokens [from, to) as they were written. */
static const char *words_between(struct frame *f, int from, int to)
{
    auto_buf struct buf b = BUF_INIT(NL_QUESTION_MAX_BYTES);
    for (int i = from; i < to && i < f->q->n; i++) {
        const char *quote = f->q->t[i].quoted ? "\"" : "";
        if (buf_printf(&b, NULL, "%s%s%s%s", i > from ? " " : "", quote, f->q->t[i].raw, quote) < 0)
            return NULL;
    }
    return arena_strdup(f->a, buf_cstr(&b));
}

static bool replace(struct combined *c, int start, int end, const char *text)
{
    if (!text || c->n_pieces == ADDED_MAX)
        return false;
    c->pieces[c->n_pieces++] = (struct piece){ start, end, text };
    return true;
}

static bool add(struct combined *c, const char *text)
{
    if (!text || c->n_added == ADDED_MAX)
        return false;
    c->added[c->n_added++] = text;
    return true;
}

static bool is_group_mark(const struct nl_mention *m)
{
    return fr_is(m, FM_BY) || fr_is(m, FM_EACH);
}

static bool is_group_word(const struct nl_mention *m)
{
    return m && (m->kind == KIND_COLUMN || m->kind == KIND_TABLE || fr_is(m, FM_BUCKET));
}

/* Mentions [i, *ret_end) are "by" and what it groups by. */
static bool group_at(struct frame *f, int i, int *ret_end)
{
    struct nl_mention *m = fr_at(f, i);
    if (fr_is(m, FM_BUCKET) && m->hint && *m->hint == '!') {
        *ret_end = i + 1;
        return true;
    }
    if (!is_group_mark(m) || !is_group_word(fr_at(f, i + 1)))
        return false;
    int k = i + 2;
    for (; fr_at(f, k); k++) {
        bool next = is_group_word(fr_at(f, k)) && fr_gap(f, fr_at(f, k - 1), fr_at(f, k)) == 0;
        if (!next && !(fr_is(fr_at(f, k), FM_AND) && is_group_word(fr_at(f, k + 1))))
            break;
    }
    *ret_end = k;
    return true;
}

static bool put_group(struct combined *c, int i, int end)
{
    struct frame *f = c->now, *b = c->before;
    bool mark = is_group_mark(fr_at(f, i));
    const char *text = words_between(f, fr_at(f, i + mark)->start, fr_at(f, end - 1)->end);
    int old = -1, old_end = 0;
    for (int k = 0; k < b->m.n; k++) /* "by plan" after "only premium": follow.c drops the filter */
        for (int n = i; n < end; n++)
            if (b->m.m[k].kind == KIND_VALUE && fr_is_col(fr_at(f, n)) &&
                fr_same(b->m.m[k].ref, fr_at(f, n)->ref))
                return false;
    for (int k = 0; k < b->m.n; k++) {
        int e;
        if (!group_at(b, k, &e))
            continue;
        if (old >= 0)
            return false;
        old = k;
        old_end = e;
        k = e - 1;
    }
    if (old >= 0 && c->adds)
        return add(c, arena_printf(f->a, "and %s", text));
    if (old < 0)
        return add(c, mark ? arena_printf(f->a, "by %s", text) : text);
    return replace(c, fr_at(b, old)->start, fr_at(b, old_end - 1)->end,
                   mark ? arena_printf(f->a, "by %s", text) : text);
}

static bool put_time(struct combined *c, int i)
{
    struct frame *f = c->now, *b = c->before;
    const struct nl_mention *m = fr_at(f, i);
    const char *text = words_between(f, m->start, m->end);
    bool bound = is_word(f, m->start - 1, "since before after until");
    int old = -1;
    for (int k = 0; k < b->m.n; k++)
        if (fr_is(fr_at(b, k), FM_TIME)) {
            if (old >= 0)
                return false;
            old = k;
        }
    if (bound)
        text = words_between(f, m->start - 1, m->end);
    if (old < 0)
        return add(c, bound ? text : arena_printf(f->a, "in %s", text));
    int start = fr_at(b, old)->start;
    bool was = is_word(b, start - 1,
                       bound ? "in on during for since before after until" :
                               "since before after until");
    return replace(c, start - was, fr_at(b, old)->end,
                   was && !bound ? arena_printf(f->a, "in %s", text) : text);
}

static bool put_value(struct combined *c, int i)
{
    struct frame *f = c->now, *b = c->before;
    const struct nl_mention *m = fr_at(f, i), *left = fr_at(f, i - 1);
    bool not = fr_is(left, FM_NOT) && left->end == m->start;
    const char *text = words_between(f, m->start, m->end);
    int old = -1, n = 0;
    for (int k = 0; k < b->m.n && !not ; k++) {
        const struct nl_mention *o = &b->m.m[k];
        bool names = o->kind == KIND_VALUE && o->ref.table == m->ref.table &&
                     fr_c(b, o->ref)->is_unique && fr_c(f, m->ref)->is_unique;
        if (o->kind == KIND_VALUE && (fr_same(o->ref, m->ref) || names)) {
            old = k;
            n++;
        }
    }
    if (n > 1)
        return false;
    if (n == 1)
        return replace(c, b->m.m[old].start, b->m.m[old].end, text);
    return add(c, arena_printf(f->a, "%s %s", not ? "without" : "for", text));
}

static bool put_measure(struct combined *c, int i)
{
    struct frame *f = c->now, *b = c->before;
    const struct nl_mention *m = fr_at(f, i);
    int old = -1, func = -1, new_func = fr_is(fr_at(f, i - 1), FM_AGG) ? i - 1 : -1;
    for (int k = 0; k < b->m.n; k++) {
        if (fr_is(fr_at(b, k), FM_AGG))
            func = func < 0 ? k : -2;
        if (!fr_is_col(fr_at(b, k)) || !fr_is_measure(fr_c(b, fr_at(b, k)->ref)))
            continue;
        if (old >= 0)
            return false;
        old = k;
    }
    if (old < 0 || func == -2)
        return false;
    if (new_func >= 0 && func >= 0 &&
        !replace(c, fr_at(b, func)->start, fr_at(b, func)->end,
                 words_between(f, fr_at(f, new_func)->start, fr_at(f, new_func)->end)))
        return false;
    const char *text = words_between(
        f, new_func >= 0 && func < 0 ? fr_at(f, new_func)->start : m->start, m->end);
    return replace(c, fr_at(b, old)->start, fr_at(b, old)->end, text);
}

static bool put_words(struct combined *c)
{
    struct frame *f = c->now;
    bool covered[NL_MAX_TOKENS] = { false };
    int end;
    for (int i = 0; i < f->m.n; i++) {
        const struct nl_mention *m = fr_at(f, i);
        for (int k = m->start; k < m->end; k++)
            covered[k] = true;
        if (group_at(f, i, &end)) {
            for (int k = i; k < end; k++)
                for (int t = f->m.m[k].start; t < f->m.m[k].end; t++)
                    covered[t] = true;
            if (!put_group(c, i, end))
                return false;
            i = end - 1;
        } else if (m->kind == KIND_VALUE) {
            if (!put_value(c, i))
                return false;
        } else if (fr_is(m, FM_TIME)) {
            if (!put_time(c, i))
                return false;
        } else if (fr_is_col(m) && fr_c(f, m->ref)->is_flag) {
            bool not = fr_is(fr_at(f, i - 1), FM_NOT);
            if (!add(c, arena_printf(f->a, "%s%s", not ? "not " : "",
                                     words_between(f, m->start, m->end))))
                return false;
        } else if (fr_is_col(m) && fr_is_measure(fr_c(f, m->ref))) {
            if (!put_measure(c, i))
                return false;
        } else if (m->kind == KIND_TABLE || fr_is(m, FM_AND) || fr_is(m, FM_OR) ||
                   fr_is(m, FM_NOT) || fr_is(m, FM_LIGHT) ||
                   (fr_is(m, FM_AGG) && fr_is_col(fr_at(f, i + 1))) ||
                   (fr_is(m, FM_CMP) && m->hint && m->hint[0] == '@')) {
            continue;
        } else {
            return false;
        }
    }
    for (int i = 0; i < f->q->n; i++)
        if (!covered[i] && !f->q->t[i].is_stop && !fr_is_light(f->q->t[i].text) &&
            !is_word(f, i, "instead please only just same again now"))
            return false;
    return c->n_pieces + c->n_added > 0;
}

int nl_follow_words(const struct nl_schema *s, const char *before, const char *question,
                    struct arena *a, const char **ret, struct err *err)
{
    struct combined c = { .n_added = 0 };
    *ret = NULL;
    int r = fr_begin(s, before, a, &c.before, err);
    if (r >= 0)
        r = fr_begin(s, question, a, &c.now, err);
    if (r < 0 || fr_leans(c.before) || (lead_of(c.now) == 0 && !is_bare(c.now)) || c.now->q->n > 10)
        return r;
    c.adds = is_word(c.now, 0, "also") || is_word(c.now, 1, "also");
    if (!put_words(&c))
        return 0;
    auto_buf struct buf b = BUF_INIT(NL_QUESTION_MAX_BYTES);
    for (int i = 0; i < c.before->q->n;) {
        const struct piece *p = NULL;
        for (int k = 0; k < c.n_pieces && !p; k++)
            if (c.pieces[k].start == i)
                p = &c.pieces[k];
        int end = p ? p->end : i + 1;
        const char *text = p ? p->text : words_between(c.before, i, i + 1);
        const char *comma = c.before->q->t[end - 1].comma_after ? "," : "";
        if (!text || buf_printf(&b, NULL, "%s%s%s", i ? " " : "", text, comma) < 0)
            return 0;
        i = end;
    }
    for (int k = 0; k < c.n_added; k++)
        if (buf_printf(&b, NULL, " %s", c.added[k]) < 0)
            return 0;
    *ret = arena_strdup(a, buf_cstr(&b));
    return 0;
}
