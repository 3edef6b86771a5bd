/*
 * Which reading it is to be, and whether one is good enough. Probabilities are a softmax of scores
 * with "none of these" as one more candidate of score 0, as scripts/train-nl has it.
 */

#include <math.h>
#include <string.h>

#include "base/macros.h"
#include "base/str.h"
#include "nl/nl_impl.h"

/*
 * Below the first nobody should be told a figure. Chosen on the training sets: see docs/planner.md.
 */
#define ANSWER_PROBABILITY 0.45
#define ASK_PROBABILITY 0.12
#define SCORE_MAX 40.0

bool nl_expects_one(const struct nl_tokens *q)
{
    static const char *const one[] = { "is", "was", "has", "does" }, *const many[] = {
        "are", "were", "have", "do", "list", "all"
    };
    for (int i = 0; i < q->n; i++) {
        for (size_t k = 0; k < ARRAY_SIZE(one); k++)
            if (str_eq(q->t[i].text, one[k]))
                return true;
        for (size_t k = 0; k < ARRAY_SIZE(many); k++)
            if (str_eq(q->t[i].text, many[k]))
                return false;
    }
    return false;
}

/* Many rows are no surprise where groups or the best few are wanted. */
static bool lists(const json_t *plan)
{
    json_int_t limit = json_integer_value(json_object_get(plan, "limit"));
    return json_array_size(json_object_get(plan, "group_by")) > 0 ||
           (limit > 1 && limit < PLAN_LIMIT_MAX);
}

static void judge_rows(bool expects_one, bool listed, const json_t *rows, double *f)
{
    size_t n = json_array_size(rows), i;
    const json_t *first = json_array_get(rows, 0);
    json_t *v;
    bool all_null = n == 1;
    json_array_foreach(first, i, v)
        all_null = all_null && json_is_null(v);
    f[FEATURE_RESULT_EMPTY] = n == 0;
    f[FEATURE_RESULT_NULL] = all_null;
    f[FEATURE_RESULT_ZERO] = n == 1 && json_array_size(first) == 1 &&
                             json_is_number(json_array_get(first, 0)) &&
                             json_number_value(json_array_get(first, 0)) == 0;
    f[FEATURE_RESULT_MANY] = n > 1 && !listed ? log10((double)n) : 0;
    f[FEATURE_RESULT_MANY_FOR_ONE] = expects_one && n > 1 && !listed;
    f[FEATURE_RESULT_ONE] = n == 1;
}

void nl_result_features(bool expects_one, const json_t *rows, json_t *features)
{
    double f[_FEATURE_MAX] = { 0 };
    judge_rows(expects_one, json_object_get(features, nl_feature_names[FEATURE_LISTS]) != NULL,
               rows, f);
    for (int i = 0; i < _FEATURE_MAX; i++)
        if (f[i] != 0)
            json_object_set_new(features, nl_feature_names[i], json_real(f[i]));
}

double nl_score(const double *features, bool unnamed)
{
    double score = 0;
    for (int i = 0; i < _FEATURE_MAX; i++)
        score += (nl_weights[i][0] + (unnamed ? nl_weights[i][1] : 0)) * features[i];
    return score;
}

static double weigh(double score)
{
    return exp(fmin(fmax(score, -SCORE_MAX), SCORE_MAX));
}

void nl_decide(struct nl_answer *a)
{
    double sum = a->others;
    for (size_t i = 0; i < a->n_choices; i++)
        sum += weigh(a->choices[i].score);
    for (size_t i = 0; i < a->n_choices; i++)
        a->choices[i].probability = a->choices[i].share = weigh(a->choices[i].score) / sum;
    if (a->n_choices > 0 && a->evidence) {
        double p = nl_confidence(a), rest = fmax(1 - a->choices[0].share, 1e-9);
        a->choices[0].probability = p;
        for (size_t i = 1; i < a->n_choices; i++)
            a->choices[i].probability = a->choices[i].share / rest * (1 - p);
    }
    bool sure = a->n_choices > 0 && a->choices[0].probability >= ANSWER_PROBABILITY;
    if (sure && !a->must_ask)
        a->status = NL_ANSWERED;
    else if (sure || (a->n_choices > 1 && a->choices[1].share >= ASK_PROBABILITY))
        a->status = NL_ASKED;
    else
        a->status = NL_DECLINED;
}

/* Every word names what it stands for: nothing, or zero, is what the data says. */
static bool is_exact(const struct nl_answer *a)
{
    const double *e = a->evidence;
    return a->choices[0].rule && e[EVIDENCE_RULE_SOFT] < 0.05 && e[EVIDENCE_RULE_WEAK] == 0 &&
           e[EVIDENCE_RULE_PART] == 0 && e[EVIDENCE_RULE_VERB] == 0;
}

void nl_settle(struct nl_answer *a, const json_t *const *rows, size_t ret_order[NL_CHOICES_MAX])
{
    size_t n = 0, order[NL_CHOICES_MAX];
    for (size_t i = 0; i < a->n_choices; i++) {
        double f[_FEATURE_MAX] = { 0 };
        order[i] = i;
        if (!rows[i])
            continue;
        judge_rows(a->expects_one, lists(a->choices[i].plan), rows[i], f);
        a->choices[i].score += nl_score(f, a->unnamed);
    }
    for (size_t i = 1; i < a->n_choices; i++)
        for (size_t k = i; k > 0 && a->choices[k].score > a->choices[k - 1].score; k--) {
            struct nl_choice c = a->choices[k];
            size_t o = order[k];
            a->choices[k] = a->choices[k - 1];
            order[k] = order[k - 1];
            a->choices[k - 1] = c;
            order[k - 1] = o;
        }
    /* The better of two that give the same speaks for both. */
    for (size_t i = 0; i < a->n_choices; i++) {
        size_t twin = n;
        for (size_t k = 0; k < n && twin == n; k++)
            if (rows[order[i]] && rows[ret_order[k]] &&
                json_equal(rows[order[i]], rows[ret_order[k]]))
                twin = k;
        if (twin < n) {
            a->choices[twin].score = log(weigh(a->choices[twin].score) +
                                         weigh(a->choices[i].score));
            json_decref(a->choices[i].plan);
            json_decref(a->choices[i].chart);
            continue;
        }
        ret_order[n] = order[i];
        a->choices[n++] = a->choices[i];
    }
    a->n_choices = n;
    for (size_t i = 1; i < n; i++)
        for (size_t k = i; k > 0 && a->choices[k].score > a->choices[k - 1].score; k--) {
            struct nl_choice c = a->choices[k];
            size_t o = ret_order[k];
            a->choices[k] = a->choices[k - 1];
            ret_order[k] = ret_order[k - 1];
            a->choices[k - 1] = c;
            ret_order[k - 1] = o;
        }
    const json_t *best = n > 0 ? rows[ret_order[0]] : NULL;
    if (best && a->evidence) {
        double f[_FEATURE_MAX] = { 0 };
        judge_rows(a->expects_one, lists(a->choices[0].plan), best, f);
        a->evidence[EVIDENCE_EMPTY] = f[FEATURE_RESULT_EMPTY];
        if (!is_exact(a))
            a->evidence[EVIDENCE_NOTHING] = f[FEATURE_RESULT_NULL] + f[FEATURE_RESULT_ZERO];
        a->evidence[EVIDENCE_MANY_FOR_ONE] = f[FEATURE_RESULT_MANY_FOR_ONE];
    }
    nl_decide(a);
}

void nl_answer_finish(struct nl_answer *a)
{
    for (size_t i = 0; i < a->n_choices; i++) {
        json_decref(a->choices[i].plan);
        json_decref(a->choices[i].chart);
    }
    json_decref(a->meanings);
    *a = (struct nl_answer){ .status = NL_DECLINED };
}
