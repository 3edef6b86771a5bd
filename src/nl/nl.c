/*
 * The planner as others see it: candidates over scopes and variants, their probabilities, and what
 * follows from them.
 */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/str.h"
#include "nl/follow.h"
#include "nl/frame.h"

#define UNNAMED_SCORE 0.5 /* as scripts/train-nl has it */
#define UNSUPPORTED_PENALTY 6
#define SURE_PROBABILITY 0.8 /* of the reader by weights */
#define FRAME_ADVANTAGE 4    /* of what was understood to the last word */

const char *const nl_status_names[_NL_STATUS_MAX] = {
    [NL_ANSWERED] = "answered", [NL_ASKED] = "asked", [NL_DECLINED] = "declined"
};

const char *const nl_feature_names[_FEATURE_MAX] = {
#define X(id, name) [FEATURE_##id] = name,
#include "nl/features.inc"
#undef X
};

const double nl_weights[_FEATURE_MAX][2] = {
#define W(id, weight, unnamed) [FEATURE_##id] = { weight, unnamed },
#include "nl/weights.inc"
#undef W
};

struct candidates {
    struct nl_candidate *c[NL_MAX_CANDIDATES];
    int n;
    bool expects_one, unnamed;
};

static int add_candidate(const struct nl_schema *s, struct nl_candidate *c, struct candidates *all,
                         struct arena *a)
{
    c->plan = nl_build_plan(s, &c->reading, a);
    if (!c->plan)
        return 0;
    c->score = nl_score(c->features, all->unnamed);
    /*
     * A rule and no weight: words that are known not to be understood are never left out of an
     * answer.
     */
    bool guessed =
        (c->features[FEATURE_IMPLIED_COUNT] > 0 && c->features[FEATURE_UNUSED_AGG] > 0) ||
        (c->features[FEATURE_IMPLIED_COUNT] > 0 && c->features[FEATURE_UNUSED_COLUMN] > 0) ||
        (c->features[FEATURE_GROUP_MEASURE] > 0 && c->features[FEATURE_SUPER_COUNT] > 0) ||
        (c->features[FEATURE_GROUP_UNIQUE] > 0 && c->features[FEATURE_SUPER_COUNT] > 0);
    for (int i = 0; i < c->reading.n_select; i++) /* numbers of rows are not summed up */
        guessed |= (c->reading.select[i].func == FUNC_SUM || c->reading.select[i].func == FUNC_AVG) &&
                   nl_col(s, c->reading.select[i].ref) &&
                   (nl_col(s, c->reading.select[i].ref)->is_key ||
                    nl_col(s, c->reading.select[i].ref)->is_serial);
    if (c->features[FEATURE_UNSUPPORTED] > 0 || (guessed && !all->unnamed))
        c->score -= UNSUPPORTED_PENALTY;
    auto_free char *key = json_to_str(c->plan);
    c->key = key ? arena_strdup(a, key) : NULL;
    if (!c->key)
        return -1;
    for (int i = 0; i < all->n; i++)
        if (str_eq(all->c[i]->key, c->key)) {
            /* One plan that is reached in two ways is judged by the better one. */
            if (c->score > all->c[i]->score) {
                memcpy(all->c[i]->features, c->features, sizeof(c->features));
                all->c[i]->score = c->score;
            }
            json_decref(c->plan);
            c->plan = NULL;
            return 0;
        }
    if (all->n == NL_MAX_CANDIDATES) {
        json_decref(c->plan);
        c->plan = NULL;
        return 0;
    }
    all->c[all->n++] = c;
    return 1;
}

static int read_variants(const struct nl_schema *s, const struct nl_scope *scope,
                         const struct nl_tokens *q, const double *table_scores, struct arena *a,
                         struct candidates *all, struct err *err)
{
    struct nl_mentions *mentions[2] = { arena_alloc(a, sizeof(**mentions)),
                                        arena_alloc(a, sizeof(**mentions)) };
    if (!mentions[0] || !mentions[1])
        return err_set(err, ERR_NO_MEMORY, "the question does not fit");
    int linked = nl_link(s, scope, q, a, mentions[0], err);
    if (linked < 0)
        return linked;
    *mentions[1] = *mentions[0];
    nl_alternate(mentions[1]);
    /* Alone and in pairs: three things that are all meant otherwise is no reading of a question. */
    for (unsigned v = 0; v < _VARIANT_END; v++) {
        if (__builtin_popcount(v) > 2)
            continue;
        struct nl_candidate *c = arena_alloc(a, sizeof(*c));
        if (!c)
            return err_set(err, ERR_NO_MEMORY, "the question does not fit");
        int r = nl_read(s, scope, q, v, mentions[(v & VARIANT_ALTERNATE) != 0], table_scores, a, c,
                        err);
        if (r < 0)
            return r;
        int added = r == 0 ? add_candidate(s, c, all, a) : 0;
        struct nl_candidate *more[NL_DERIVED_MAX];
        int n = added > 0 ? nl_derive(s, q, c, a, more) : 0;
        for (int i = 0; i < n && added >= 0; i++)
            added = add_candidate(s, more[i], all, a);
        if (added < 0)
            return err_set(err, ERR_NO_MEMORY, "the question does not fit");
    }
    return 0;
}

static int check_question(const char *question, struct err *err)
{
    if (strlen(question) > NL_QUESTION_MAX_BYTES || !str_is_utf8(question, strlen(question)))
        return err_set(err, ERR_VALIDATION, "a question is UTF-8 text of at most %d bytes",
                       NL_QUESTION_MAX_BYTES);
    return 0;
}

size_t nl_effort(const struct nl_schema *s, const char *question)
{
    size_t words = 0, columns = 0;
    for (const char *p = question; *p; words++) {
        p += strspn(p, " \t\r\n_.,;:/()-");
        p += strcspn(p, " \t\r\n_.,;:/()-");
    }
    for (int t = 0; t < s->n_tables; t++)
        columns += (size_t)s->tables[t].n_columns;
    return words * columns;
}

static int find_candidates(const struct nl_schema *s, const char *question, struct arena *a,
                           struct candidates *all, struct err *err)
{
    struct nl_tokens *q = arena_alloc(a, sizeof(*q));
    struct nl_scope *scopes = arena_alloc(a, sizeof(*scopes) * NL_SCOPES_MAX);
    double said[NL_MAX_TABLES];
    if (!q || !scopes)
        return err_set(err, ERR_NO_MEMORY, "the question does not fit");
    int r = check_question(question, err);
    if (r < 0)
        return r;
    r = nl_tokenize(question, a, q, err);
    if (r < 0)
        return r;
    nl_prefer_names(s, q);
    all->expects_one = nl_expects_one(q);
    all->unnamed = s->n_tables == 1 && nl_table_mentioned(s, 0, q) < UNNAMED_SCORE;
    int n = nl_find_scopes(s, q, said, a, scopes, err);
    for (int i = 0; i < n && r >= 0; i++)
        r = read_variants(s, &scopes[i], q, said, a, all, err);
    if (n < 0)
        return n;
    if (r < 0)
        return r;
    for (int i = 1; i < all->n; i++)
        for (int k = i; k > 0 && all->c[k]->score > all->c[k - 1]->score; k--) {
            struct nl_candidate *swap = all->c[k];
            all->c[k] = all->c[k - 1];
            all->c[k - 1] = swap;
        }
    return 0;
}

static void drop(struct candidates *all)
{
    for (int i = 0; i < all->n; i++)
        json_decref(all->c[i]->plan);
    all->n = 0;
}

/* ---- what works on this data ---- */

/* The rules list some columns of the rows that the best reading by weights has whole. */
static bool lists_less(const struct frame *f, const struct candidates *all)
{
    const struct nl_reading *r = all->n > 0 ? &all->c[0]->reading : NULL;
    json_int_t limit = json_integer_value(json_object_get(f->plan, "limit"));
    if (!r || r->n_select > 0 || r->n_group > 0 || f->r.n_group > 0 ||
        limit != (r->limit > 0 ? r->limit : PLAN_LIMIT_MAX))
        return false;
    for (int i = 0; i < f->r.n_select; i++)
        if (f->r.select[i].func >= 0)
            return false;
    int mine = 0, its = 0;
    for (int i = 0; i < f->r.n_filters; i++)
        mine += f->r.filters[i].op != FILTER_IS_NOT_NULL;
    for (int i = 0; i < r->n_filters; i++)
        its += r->filters[i].op != FILTER_IS_NOT_NULL;
    return mine == its;
}

/*
 * The reader by rules comes first: it answers only what it understood to the last word. Where words
 * are left over, the confidence in other readings is less (confidence.c).
 */
static void offer_frame(const struct nl_schema *s, struct frame *f, bool complete,
                        const struct candidates *all, struct arena *a, struct nl_answer *ret)
{
    double best = all->n > 0 ? all->c[0]->score : 0, sum = 1;
    for (int i = 0; i < all->n; i++)
        sum += exp(all->c[i]->score);
    double share = all->n > 0 ? exp(best) / sum : 0;
    if (complete && f->n_foreign_verbs > 0 && ret->unnamed && s->tables[0].words.lex[0] == NULL) {
        json_decref(f->plan);
        json_decref(f->chart);
        complete = false;
    }
    nl_evidence_begin(s, f, complete, all->n > 0 ? all->c[0] : NULL, share, a, ret);
    ret->reason = f->reason;
    for (int i = 0; i < f->n_left_out && complete; i++)
        ret->not_understood[ret->n_not_understood++] = f->left_out[i];
    for (int i = 0; i < f->n_unknown && !complete; i++)
        ret->not_understood[ret->n_not_understood++] = f->unknown[i];
    if (!complete)
        return;
    /*
     * The weights know more of tables that no question names, as on pages of the web. Where they are
     * as sure of the same rows, they show all columns of them.
     */
    bool page = ret->unnamed && s->tables[0].words.lex[0] == NULL;
    if ((page || lists_less(f, all)) && f->is_plain && share >= SURE_PROBABILITY &&
        all->c[0]->features[FEATURE_UNUSED_NUMBER] == 0) {
        json_decref(f->plan);
        json_decref(f->chart);
        return;
    }
    json_decref(ret->meanings);
    ret->meanings = fr_meanings(f);
    ret->choices[ret->n_choices++] = (struct nl_choice){ .reading = f->reading,
                                                         .plan = f->plan,
                                                         .chart = f->chart,
                                                         .rule = f->rule,
                                                         .score = MAX_OF(best, 0) +
                                                                  FRAME_ADVANTAGE };
}

/* metric: the question has its measure in the place of its name; NULL: none. */
static int plan_words(const struct nl_schema *s, const char *question,
                      const struct nl_metric *metric, struct arena *a, struct nl_answer *ret,
                      struct err *err)
{
    struct candidates all = { .n = 0 };
    struct frame *frame = NULL;
    bool complete = false;
    int r = metric ? 0 : fr_read(s, question, a, &frame, &complete, err);
    if (r >= 0)
        r = find_candidates(s, question, a, &all, err);
    if (r < 0) {
        if (frame) {
            json_decref(frame->plan);
            json_decref(frame->chart);
        }
        drop(&all);
        return r;
    }
    *ret = (struct nl_answer){
        .status = NL_DECLINED, .others = 1, .expects_one = all.expects_one, .unnamed = all.unnamed
    };
    if (frame)
        offer_frame(s, frame, complete, &all, a, ret);
    if (ret->reason) {
        nl_suggest(s, a, ret);
        drop(&all);
        return 0;
    }
    for (int i = 0; i < all.n; i++) {
        const struct nl_candidate *c = all.c[i];
        if (ret->n_choices == NL_CHOICES_MAX || !nl_is_valid(s, c->plan)) {
            ret->others += exp(c->score);
            continue;
        }
        ret->choices[ret->n_choices++] = (struct nl_choice){ .reading = nl_describe(s, &c->reading,
                                                                                    a),
                                                             .plan = json_incref(c->plan),
                                                             .chart = nl_chart(s, &c->reading, a),
                                                             .features = c->features,
                                                             .score = c->score };
    }
    if (metric)
        nl_told_apply(s, metric, a, ret);
    nl_decide(ret);
    nl_suggest(s, a, ret);
    drop(&all);
    return 0;
}

int nl_plan_plain(const struct nl_schema *s, const char *question, struct arena *a,
                  struct nl_answer *ret, struct err *err)
{
    return plan_words(s, question, NULL, a, ret, err);
}

static int plan_english(const struct nl_schema *s, const char *question,
                        const struct nl_context *ctx, struct arena *a, struct nl_answer *ret,
                        struct err *err)
{
    struct nl_metric metric;
    const char *combined = NULL;
    int r = check_question(question, err);
    if (r >= 0 && ctx && ctx->previous_plan)
        r = follow_shown(s, question, ctx, a, ret, err);
    if (r != 0)
        return r < 0 ? r : 0;
    if (ctx && ctx->previous_plan && ctx->previous_question)
        r = nl_follow_words(s, ctx->previous_question, question, a, &combined, err);
    if (r >= 0 && combined) {
        r = plan_words(s, combined, NULL, a, ret, err);
        ret->meant = combined;
        if (r < 0 || (ret->status == NL_ANSWERED && ret->evidence &&
                      ret->evidence[EVIDENCE_INCOMPLETE] == 0))
            return r;
        nl_answer_finish(ret);
    }
    if (r >= 0 && ctx && ctx->previous_plan)
        r = nl_follow(s, question, ctx, a, ret, err);
    bool leans = r == NL_FOLLOW_UNREAD;
    if (r != 0 && !leans)
        return r < 0 ? r : 0;
    const char *meant = nl_told_rewrite(s, question, a, &metric);
    if (meant) {
        r = plan_words(s, meant, &metric, a, ret, err);
        json_decref(metric.filters);
        if (r < 0 || ret->n_choices > 0)
            return r;
        nl_answer_finish(ret);
    }
    r = plan_words(s, question, NULL, a, ret, err);
    if (r >= 0 && ctx && ctx->previous_plan)
        leans |= !follow_refer(s, question, ctx, a, ret);
    if (r >= 0 && leans) { /* what it leans on is missing from any reading of it alone */
        ret->must_ask = true;
        nl_decide(ret);
    }
    return r;
}

int nl_plan(const struct nl_schema *s, const char *question, const struct nl_context *ctx,
            struct arena *a, struct nl_answer *ret, struct err *err)
{
    if (strlen(question) <= NL_QUESTION_MAX_BYTES && nl_effort(s, question) > NL_EFFORT_MAX) {
        *ret = (struct nl_answer){ .status = NL_DECLINED };
        ret->reason = "a question in fewer words: the tables have very many columns";
        return 0;
    }
    const char *english = check_question(question, err) < 0 ? NULL : nl_in_english(s, question, a);
    int r = plan_english(s, english ? english : question, ctx, a, ret, err);
    if (r >= 0 && english && !ret->meant)
        ret->meant = english;
    return r;
}

int nl_candidates(const struct nl_schema *s, const char *question, struct arena *a, json_t **ret,
                  struct err *err)
{
    struct candidates all = { .n = 0 };
    int r = find_candidates(s, question, a, &all, err);
    if (r < 0) {
        drop(&all);
        return r;
    }
    json_t *list = json_array();
    for (int i = 0; i < all.n; i++) {
        json_t *features = json_object();
        for (int f = 0; f < _FEATURE_MAX; f++)
            if (all.c[i]->features[f] != 0)
                json_object_set_new(features, nl_feature_names[f],
                                    json_real(all.c[i]->features[f]));
        json_array_append_new(list, json_pack("{s:b, s:O, s:s, s:o, s:f}", "expects_one",
                                              all.expects_one, "plan", all.c[i]->plan, "reading",
                                              nl_describe(s, &all.c[i]->reading, a), "features",
                                              features, "score", all.c[i]->score));
    }
    drop(&all);
    *ret = list;
    return 0;
}

int nl_explain(const struct nl_schema *s, const char *question, struct arena *a, json_t **ret,
               struct err *err)
{
    struct frame *f = NULL;
    bool complete;
    json_t *candidates = NULL;
    int r = check_question(question, err);
    const char *english = r >= 0 ? nl_in_english(s, question, a) : NULL;
    question = english ? english : question;
    if (r >= 0)
        r = fr_read(s, question, a, &f, &complete, err);
    if (r >= 0)
        r = nl_candidates(s, question, a, &candidates, err);
    if (r < 0) {
        if (f)
            json_decref(f->plan);
        return r;
    }
    json_decref(f->chart);
    json_t *unknown = json_array();
    for (int i = 0; i < f->n_unknown && !complete; i++)
        json_array_append_new(unknown, json_string(f->unknown[i]));
    json_t *out = json_pack("{s:o, s:b, s:o, s:o}", "words", fr_explain(f), "complete", complete,
                            "not_understood", unknown, "candidates", candidates);
    if (out && f->rule)
        json_object_set_new(out, "rule", json_string(f->rule));
    if (out && !complete && f->stopped)
        json_object_set_new(out, "stopped", json_string(f->stopped));
    if (out && f->reason)
        json_object_set_new(out, "reason", json_string(f->reason));
    if (out && f->plan)
        json_object_set_new(out, "plan", f->plan);
    *ret = out;
    return out ? 0 : err_set(err, ERR_NO_MEMORY, "out of memory");
}
