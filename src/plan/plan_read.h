#ifndef RIDDLE_PLAN_PLAN_READ_H
#define RIDDLE_PLAN_PLAN_READ_H

/* What the files that read a plan from JSON share: query_plan.c and read_filters.c. */

#include "plan/query_plan.h"

struct reader {
    struct arena *arena;
    struct buf *ignored; /* takes the names of unknown fields; NULL: they are refused */
    struct err *err;
    size_t n_filters; /* so far, in filters and having */
    size_t n_values;
    const char *dataset_id;
    int depth;      /* of this plan in others */
    char path[256]; /* of the filter that is read: "filters[0].or[2]" */
    bool located;   /* the message of an error says where already */
};

int plan_no_room(struct reader *rd);
int plan_check_keys(struct reader *rd, const json_t *j, const char *const *keys);
/* A member that is text; *ret is NULL if it is missing or null. */
int plan_read_text(struct reader *rd, const json_t *j, const char *key, size_t max_bytes,
                   const char **ret);
/* One of the words, or VALIDATION with all of them. */
int plan_pick_word(struct reader *rd, const char *what, const char *const *words, size_t n,
                   const char *s);
int plan_read_list(struct reader *rd, const json_t *j, const char *key, size_t max, json_t **ret);
int plan_read_operand(struct reader *rd, const json_t *j, struct plan_operand *o);
/* A plan inside another: of the same data set, and with the same budgets. */
int plan_read_inner(struct reader *rd, const json_t *j, const struct query_plan **ret);
int plan_read_filters(struct reader *rd, const json_t *j, const char *key,
                      const struct plan_filter **ret, size_t *ret_n);

#endif
