#ifndef RIDDLE_NL_RULES_H
#define RIDDLE_NL_RULES_H

/* What the files of rules share: small steps towards a plan (rules_make.c), and the rules. */

#include "nl/frame.h"

const char *fr_expr(struct frame *f, struct nl_ref ref);
void fr_select_expr(json_t *plan, const char *expr, const char *alias);
/* Takes column `at` out of what is shown; what was ordered by it is ordered by `instead`. */
void fr_drop_shown(json_t *plan, size_t at, const char *instead);
void fr_order_by(json_t *plan, const char *expr, bool down);
void fr_show(struct frame *f, struct nl_item item);
struct nl_item fr_item(struct nl_ref ref, int func);
struct nl_item fr_main_item(struct frame *f);
const char *fr_aggregate_of(struct frame *f, const struct nl_item *item);
const char *fr_alias(struct frame *f, const struct nl_item *item);
const char *fr_say(struct frame *f, const struct nl_item *item);
bool fr_finish(struct frame *f);
void fr_show_groups(struct frame *f);
bool fr_is_unfiltered(const struct frame *f);
int fr_only_table(const struct frame *f);
void fr_show_row(struct frame *f, int table);
void fr_use_marks(struct frame *f, const int *marks, size_t n);
void fr_find_anchor(struct frame *f);
bool fr_place_buckets(struct frame *f);
const char *fr_aggregate_if(struct frame *f, const struct nl_item *item, const char *cond);
bool fr_uses_change(const struct frame *f);
#define USE_MARKS(f, ...)                                                                          \
    fr_use_marks((f), (const int[]){ __VA_ARGS__ }, ARRAY_SIZE(((const int[]){ __VA_ARGS__ })))

bool fr_apply_absent(struct frame *f);
bool fr_apply_columns(struct frame *f);
bool fr_apply_correlation(struct frame *f);
bool fr_apply_described(struct frame *f);
bool fr_apply_difference(struct frame *f);
bool fr_apply_distribution(struct frame *f);
bool fr_apply_having(struct frame *f);
bool fr_apply_list(struct frame *f);
bool fr_apply_mean_of_groups(struct frame *f);
bool fr_apply_outlier(struct frame *f);
bool fr_apply_ranked(struct frame *f);
bool fr_apply_rate(struct frame *f);
bool fr_apply_ratio(struct frame *f);
bool fr_apply_rows(struct frame *f);
bool fr_apply_series(struct frame *f);
bool fr_apply_share(struct frame *f);
bool fr_apply_summed(struct frame *f);
bool fr_apply_than(struct frame *f);
bool fr_apply_two_periods(struct frame *f);
bool fr_is_absent(struct frame *f);
bool fr_is_columns(struct frame *f);
bool fr_is_correlation(struct frame *f);
bool fr_is_described(struct frame *f);
bool fr_is_difference(struct frame *f);
bool fr_is_distribution(struct frame *f);
bool fr_is_having(struct frame *f);
bool fr_is_list(struct frame *f);
bool fr_is_mean_of_groups(struct frame *f);
bool fr_is_outlier(struct frame *f);
bool fr_is_ranked(struct frame *f);
bool fr_is_rate(struct frame *f);
bool fr_is_ratio(struct frame *f);
bool fr_is_rows(struct frame *f);
bool fr_is_series(struct frame *f);
bool fr_is_share(struct frame *f);
bool fr_is_summed(struct frame *f);
bool fr_is_than(struct frame *f);
bool fr_is_weekend(struct frame *f);
bool fr_apply_weekend(struct frame *f);
bool fr_is_two_periods(struct frame *f);

#endif
