/* From a reading to its QueryPlan, to words, and to a picture. */

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/str.h"
#include "nl/nl_impl.h"

#define EXPR_BYTES 3000

/* ---- names ---- */

/* The column as a plan names it. */
static const char *path_of(const struct nl_schema *s, const struct nl_reading *r, struct nl_ref ref,
                           struct arena *a)
{
    const struct nl_column *c = nl_col(s, ref);
    return r->scope.n > 1 ? arena_printf(a, "%s.%s", s->tables[ref.table].name, c->name) : c->name;
}

/* A flag that is a text, as 1 and 0. */
static bool is_text_flag(const struct nl_column *c)
{
    return c && c->is_flag && c->type == TYPE_TEXT;
}

static const char *part_expr(int part, const char *date, struct arena *a)
{
    static const char *const functions[] = { "dayname(%s)", "dayofweek(%s)", "hour(%s)",
                                             "monthname(%s)" };
    const char *end = strchr(functions[part - PART_WEEKDAY], '%');
    size_t n = (size_t)(end - functions[part - PART_WEEKDAY]);
    return arena_printf(a, "%.*s%s)", (int)n, functions[part - PART_WEEKDAY], date);
}

#define SECONDS_OF_DAY 86400

static const char *formula_expr(const struct nl_schema *s, const struct nl_reading *r,
                                struct nl_ref ref, const struct nl_formula *f, struct arena *a)
{
    bool pair = f->kind != FORMULA_REVENUE;
    struct nl_ref first = { ref.table, pair ? f->from : f->quantity },
                  second = { ref.table, pair ? f->to : f->price },
                  discount = { ref.table, f->discount };
    const char *x = nl_expr_of(s, r, first, pair, a), *y = nl_expr_of(s, r, second, pair, a);
    if (f->kind == FORMULA_DIFFERENCE)
        return arena_printf(a, "%s - %s", y, x);
    bool days = nl_col(s, first)->type == TYPE_DATE || nl_col(s, second)->type == TYPE_DATE;
    if (f->kind == FORMULA_DURATION && days && f->seconds == SECONDS_OF_DAY)
        return arena_printf(a, "date_diff('day', %s, %s)", x, y);
    if (f->kind == FORMULA_DURATION)
        return arena_printf(a, "date_diff('second', %s, %s) / %d.0", x, y, f->seconds);
    if (f->discount < 0)
        return arena_printf(a, "%s * %s", x, y);
    return arena_printf(a, "%s * %s * (1 - coalesce(%s, 0)%s)", x, y,
                        nl_expr_of(s, r, discount, false, a), f->percent ? " / 100.0" : "");
}

/* The column as an expression has it; as a number if it is a text that holds numbers. */
const char *nl_expr_of(const struct nl_schema *s, const struct nl_reading *r, struct nl_ref ref,
                       bool number, struct arena *a)
{
    auto_buf struct buf b = BUF_INIT(EXPR_BYTES);
    const struct nl_column *c = nl_col(s, ref);
    if (c->formula)
        return formula_expr(s, r, ref, c->formula, a);
    bool flag = number && is_text_flag(c);
    number = number && c->numeric_text;
    if (flag)
        (void)buf_append_str(&b, "case when ", NULL);
    if (number)
        (void)buf_append_str(&b, "cast(replace(replace(replace(", NULL);
    if (r->scope.n > 1) {
        (void)buf_append_quoted(&b, "\"", s->tables[ref.table].name, NULL);
        (void)buf_append_str(&b, ".", NULL);
    }
    (void)buf_append_quoted(&b, "\"", c->name, NULL);
    if (number)
        (void)buf_append_str(&b, ", ',', ''), '$', ''), '%', '') as double)", NULL);
    if (flag) {
        auto_buf struct buf name = BUF_INIT(EXPR_BYTES);
        (void)buf_append_str(&name, buf_cstr(&b) + strlen("case when "), NULL);
        (void)buf_append_str(&b, " = ", NULL);
        (void)buf_append_quoted(&b, "'", c->yes, NULL);
        (void)buf_printf(&b, NULL, " then 1 when %s = ", buf_cstr(&name));
        (void)buf_append_quoted(&b, "'", c->no, NULL);
        (void)buf_append_str(&b, " then 0 end", NULL);
    }
    return arena_strdup(a, buf_cstr(&b));
}

const char *nl_name_of(const char *text, struct arena *a)
{
    size_t len = text ? str_utf8_cut(text, strlen(text), 60) : 0, n = 0;
    char *name = text ? arena_alloc(a, len + 1) : NULL;
    for (size_t i = 0, step; name && i < len; i += step) {
        char one[8] = { 0 };
        step = 1;
        while (i + step < len && ((unsigned char)text[i + step] & 0xc0) == 0x80)
            step++;
        memcpy(one, text + i, MIN_OF(step, sizeof(one) - 1));
        if (*one != '_' && expr_is_plain_name(one)) {
            memcpy(name + n, text + i, step);
            n += step;
        } else if (n > 0 && name[n - 1] != '_') {
            name[n++] = '_';
        }
    }
    while (n > 0 && name[n - 1] == '_')
        n--;
    if (name)
        name[n] = '\0';
    return n > 0 ? name : "value";
}

const char *nl_func_alias(int func, const char *column, struct arena *a)
{
    char name[160];
    bool total = strncasecmp(column, "total", 5) == 0; /* no total_total */
    snprintf(name, sizeof(name), "%s_%.120s",
             func == FUNC_COUNT_DISTINCT ? "distinct" :
             func == FUNC_SUM && !total  ? "total" :
                                           plan_func_names[func],
             column);
    return nl_name_of(name, a);
}

const char *nl_alias(const struct nl_schema *s, const struct nl_reading *r,
                     const struct nl_item *item, struct arena *a)
{
    static const char *const parts[] = { "weekday", "weekday_number", "hour_of_day", "month_name" };
    const struct nl_column *c = nl_col(s, item->ref);
    if (r->diff && item->func == FUNC_SUM)
        return "difference";
    if (item->is_share || item->is_part)
        return "percentage";
    if (item->func == FUNC_COUNT && !c)
        return "row_count";
    if (!c)
        return "value";
    if (item->bucket >= PART_WEEKDAY)
        return parts[item->bucket - PART_WEEKDAY];
    if (item->bucket >= 0)
        return plan_bucket_names[item->bucket];
    if (item->func < 0)
        return c->name;
    if (item->func == FUNC_AVG && c->is_flag)
        return nl_name_of(arena_printf(a, "%s_rate", c->name), a);
    return nl_func_alias(item->func, c->name, a);
}

/* ---- the plan ---- */

static json_t *number_json(double n)
{
    return n == floor(n) && fabs(n) < 9e15 ? json_integer((json_int_t)n) : json_real(n);
}

/* A number that was quoted, or found among the values, is still a number to a column of numbers. */
static json_t *value_json(const struct nl_column *c, const char *text)
{
    char *end;
    double n = strtod(text, &end);
    if ((c->type == TYPE_INTEGER || c->type == TYPE_NUMBER) && end != text && !*end)
        return number_json(n);
    return json_text(text, strlen(text));
}

/* A filter whose values another plan gives. */
static json_t *inner_json(const struct nl_schema *s, const struct nl_reading *r,
                          const struct nl_filter *f, struct arena *a)
{
    json_t *plan;
    if (f->inner) {
        plan = nl_build_plan(s, f->inner, a);
        json_object_del(plan, "dataset_id");
        json_object_del(plan, "limit");
        json_object_del(plan, "order_by");
        if (f->than)
            return json_pack("{s:s, s:s, s:o}", "expr", nl_expr_of(s, r, f->ref, true, a), "op",
                             plan_filter_op_names[f->op], "plan", plan);
        return json_pack("{s:s, s:s, s:o}", "column", path_of(s, r, f->ref, a), "op",
                         f->negated ? "not_in" : "in", "plan", plan);
    }
    struct nl_reading alone = { .scope = { .tables = { f->ref.table }, .n = 1 } };
    struct nl_item item = { .ref = f->ref, .func = f->than - 1, .bucket = -1 };
    plan = json_pack("{s:s, s:[o]}", "table", s->tables[f->ref.table].name, "select",
                     nl_item_json(s, &alone, &item, a));
    return json_pack("{s:s, s:s, s:o}", "expr", nl_expr_of(s, r, f->ref, true, a), "op",
                     plan_filter_op_names[f->op], "plan", plan);
}

json_t *nl_filter_json(const struct nl_schema *s, const struct nl_reading *r,
                       const struct nl_filter *f, struct arena *a)
{
    const struct nl_column *c = nl_col(s, f->ref);
    if (f->inner || f->than)
        return inner_json(s, r, f, a);
    json_t *j = json_object();
    enum plan_filter_op op = f->op;
    if (f->having >= 0) {
        json_object_set_new(j, "func", json_string(plan_func_names[f->having]));
        if (c && (c->numeric_text || c->formula))
            json_object_set_new(j, "expr", json_string(nl_expr_of(s, r, f->ref, true, a)));
        else
            json_object_set_new(j, "column", json_string(c ? path_of(s, r, f->ref, a) : "*"));
    } else if (f->part) {
        json_object_set_new(j, "expr",
                            json_string(part_expr(f->part, nl_expr_of(s, r, f->ref, false, a), a)));
    } else if (f->around) {
        json_object_set_new(
            j, "expr",
            json_string(arena_printf(a, "%s(%s)", f->around < 0 ? "previous" : "next",
                                     nl_expr_of(s, r, f->ref, false, a))));
    } else if (c->formula || (c->numeric_text && f->n_numbers > 0)) {
        json_object_set_new(j, "expr", json_string(nl_expr_of(s, r, f->ref, true, a)));
    } else {
        json_object_set_new(j, "column", json_string(path_of(s, r, f->ref, a)));
    }
    json_t *value = NULL;
    bool negate_outside = false;
    if (op == FILTER_EQ && f->n_texts > 1) {
        op = f->negated ? FILTER_NOT_IN : FILTER_IN;
        value = json_array();
        for (int i = 0; i < f->n_texts; i++)
            json_array_append_new(value, value_json(c, f->text[i]));
    } else if (f->n_texts > 0) {
        if (f->negated && op == FILTER_EQ)
            op = FILTER_NE;
        else if (f->negated && op == FILTER_CONTAINS)
            op = FILTER_NOT_CONTAINS;
        else
            negate_outside = f->negated;
        if (c->is_flag && (str_eq(f->text[0], "true") || str_eq(f->text[0], "false")))
            value = c->type == TYPE_BOOL ?
                        json_boolean(str_eq(f->text[0], "true")) :
                    c->type == TYPE_TEXT ?
                        json_string(str_eq(f->text[0], "true") ? c->yes : c->no) :
                        json_integer(str_eq(f->text[0], "true"));
        else
            value = value_json(c, f->text[0]);
    } else if (op == FILTER_BETWEEN) {
        negate_outside = f->negated;
        value = json_array();
        json_array_append_new(value, number_json(f->number[0]));
        json_array_append_new(value, number_json(f->number[1]));
    } else if (f->n_numbers > 0) {
        negate_outside = f->negated;
        value = number_json(f->number[0]);
    }
    json_object_set_new(j, "op", json_string(plan_filter_op_names[op]));
    if (value)
        json_object_set_new(j, "value", value);
    if (!f->is_literal && (op == FILTER_CONTAINS || op == FILTER_NOT_CONTAINS ||
                           op == FILTER_STARTSWITH || op == FILTER_ENDSWITH))
        json_object_set_new(j, "ignore_case", json_true());
    if (negate_outside) {
        json_t *outer = json_object();
        json_object_set_new(outer, "not", j);
        return outer;
    }
    return j;
}

/* A filter as an expression, for shares. NULL: cannot be said. */
bool nl_append_condition(const struct nl_schema *s, const struct nl_reading *r,
                         const struct nl_filter *f, struct buf *b, struct arena *a)
{
    const char *name = f->having >= 0 ? NULL : nl_expr_of(s, r, f->ref, f->n_numbers > 0, a);
    char number[STR_DOUBLE_SIZE];
    if (!name || f->around || f->inner || f->than)
        return false;
    if (f->part)
        name = part_expr(f->part, name, a);
    if (f->negated && buf_append_str(b, "not (", NULL) < 0)
        return false;
    if (nl_col(s, f->ref)->is_flag && nl_col(s, f->ref)->type != TYPE_TEXT && f->n_texts == 1) {
        const char *bit = nl_col(s, f->ref)->type == TYPE_BOOL ? f->text[0] :
                          str_eq(f->text[0], "true")           ? "1" :
                                                                 "0";
        if (buf_printf(b, NULL, "%s = %s", name, bit) < 0)
            return false;
    } else if (nl_col(s, f->ref)->is_flag && f->n_texts == 1 && f->op == FILTER_EQ &&
               (str_eq(f->text[0], "true") || str_eq(f->text[0], "false"))) {
        const struct nl_column *c = nl_col(s, f->ref);
        if (buf_printf(b, NULL, "%s = ", name) < 0 ||
            buf_append_quoted(b, "'", str_eq(f->text[0], "true") ? c->yes : c->no, NULL) < 0)
            return false;
    } else if (f->n_texts > 0 && f->op <= FILTER_GE) {
        if (buf_printf(b, NULL, f->n_texts > 1 ? "%s in (" : "%s ", name) < 0)
            return false;
        if (f->n_texts == 1 && buf_printf(b, NULL, "%s ", plan_filter_op_names[f->op]) < 0)
            return false;
        for (int i = 0; i < f->n_texts; i++)
            if ((i > 0 && buf_append_str(b, ", ", NULL) < 0) ||
                buf_append_quoted(b, "'", f->text[i], NULL) < 0)
                return false;
        if (f->n_texts > 1 && buf_append_str(b, ")", NULL) < 0)
            return false;
    } else if (f->n_numbers == 1 && f->op <= FILTER_GE) {
        str_from_double(f->number[0], number);
        if (buf_printf(b, NULL, "%s %s %s", name, plan_filter_op_names[f->op], number) < 0)
            return false;
    } else if (f->op == FILTER_IS_NULL || f->op == FILTER_IS_NOT_NULL) {
        if (buf_printf(b, NULL, "%s is %snull", name, f->op == FILTER_IS_NULL ? "" : "not ") < 0)
            return false;
    } else if (f->op == FILTER_BETWEEN) {
        if (buf_printf(b, NULL, "%s between %.15g and %.15g", name, f->number[0], f->number[1]) < 0)
            return false;
    } else {
        return false;
    }
    return !f->negated || buf_append_str(b, ")", NULL) >= 0;
}

/* Of the rows, or of the sum of a column. */
static const char *share_expr(const struct nl_schema *s, const struct nl_reading *r,
                              struct nl_ref of, struct arena *a)
{
    auto_buf struct buf b = BUF_INIT(EXPR_BYTES);
    const char *what = of.table >= 0 ? nl_expr_of(s, r, of, true, a) : "1";
    bool first = true;
    if (buf_append_str(&b, "100.0 * sum(case when ", NULL) < 0)
        return NULL;
    for (int i = 0; i < r->n_filters; i++) {
        if (!r->filters[i].in_share)
            continue;
        if (!first && buf_append_str(&b, r->filters[i].is_or ? " or " : " and ", NULL) < 0)
            return NULL;
        if (!nl_append_condition(s, r, &r->filters[i], &b, a))
            return NULL;
        first = false;
    }
    if (first || buf_printf(&b, NULL, " then %s else 0 end) / ", what) < 0)
        return NULL;
    if (of.table >= 0 ? buf_printf(&b, NULL, "sum(%s)", what) < 0 :
                        buf_append_str(&b, "count(*)", NULL) < 0)
        return NULL;
    return arena_strdup(a, buf_cstr(&b));
}

static const char *difference_expr(const struct nl_schema *s, const struct nl_reading *r,
                                   struct nl_ref ref, struct arena *a)
{
    auto_buf struct buf b = BUF_INIT(EXPR_BYTES);
    const struct nl_filter *f = &r->filters[0];
    const char *key = nl_expr_of(s, r, f->ref, false, a), *value = nl_expr_of(s, r, ref, true, a);
    if (buf_append_str(&b, "abs(", NULL) < 0)
        return NULL;
    for (int i = 0; i < 2; i++)
        if (buf_printf(&b, NULL, "%smax(case when %s = ", i ? " - " : "", key) < 0 ||
            buf_append_quoted(&b, "'", f->text[i], NULL) < 0 ||
            buf_printf(&b, NULL, " then %s end)", value) < 0)
            return NULL;
    if (buf_append_str(&b, ")", NULL) < 0)
        return NULL;
    return arena_strdup(a, buf_cstr(&b));
}

json_t *nl_item_json(const struct nl_schema *s, const struct nl_reading *r,
                     const struct nl_item *item, struct arena *a)
{
    json_t *j = json_object();
    const struct nl_column *c = nl_col(s, item->ref);
    if (item->is_share) {
        const char *e = share_expr(s, r, item->ref, a);
        if (!e) {
            json_decref(j);
            return NULL;
        }
        json_object_set_new(j, "expr", json_string(e));
    } else if (r->diff && item->func == FUNC_SUM) {
        const char *e = difference_expr(s, r, item->ref, a);
        if (!e) {
            json_decref(j);
            return NULL;
        }
        json_object_set_new(j, "expr", json_string(e));
    } else if (item->is_part) {
        const char *sum = c ? arena_printf(a, "share(sum(%s))",
                                           nl_expr_of(s, r, item->ref, true, a)) :
                              "share(count(*))";
        json_object_set_new(j, "expr", json_string(sum));
    } else if (item->bucket >= PART_WEEKDAY) {
        json_object_set_new(
            j, "expr",
            json_string(part_expr(item->bucket, nl_expr_of(s, r, item->ref, false, a), a)));
    } else if (item->bucket >= 0) {
        json_object_set_new(j, "column", json_string(path_of(s, r, item->ref, a)));
        json_object_set_new(j, "bucket", json_string(plan_bucket_names[item->bucket]));
    } else if (item->func < 0 && c->formula) {
        json_object_set_new(j, "expr", json_string(nl_expr_of(s, r, item->ref, false, a)));
        json_object_set_new(j, "alias", json_string(c->name));
        return j;
    } else if (item->func < 0) {
        json_object_set_new(j, "column", json_string(path_of(s, r, item->ref, a)));
        return j;
    } else {
        json_object_set_new(j, "func", json_string(plan_func_names[item->func]));
        bool counts = item->func == FUNC_COUNT || item->func == FUNC_COUNT_DISTINCT;
        if (c && (c->formula || (!counts && (c->numeric_text || is_text_flag(c)))))
            json_object_set_new(j, "expr", json_string(nl_expr_of(s, r, item->ref, true, a)));
        else
            json_object_set_new(j, "column", json_string(c ? path_of(s, r, item->ref, a) : "*"));
    }
    json_object_set_new(j, "alias", json_string(nl_alias(s, r, item, a)));
    return j;
}

static void put_filters(const struct nl_schema *s, const struct nl_reading *r, bool having,
                        json_t *plan, struct arena *a)
{
    json_t *list = json_array(), *group = NULL;
    bool skip = !having && r->diff;
    for (int i = 0; i < r->n_filters && !skip; i++) {
        const struct nl_filter *f = &r->filters[i];
        if ((f->having >= 0) != having || (r->share && f->in_share))
            continue;
        bool more = i + 1 < r->n_filters && r->filters[i + 1].is_or &&
                    (r->filters[i + 1].having >= 0) == having;
        if (f->is_or && group) {
            json_array_append_new(group, nl_filter_json(s, r, f, a));
        } else if (more) {
            group = json_array();
            json_t *o = json_object();
            json_object_set_new(o, "or", group);
            json_array_append_new(list, o);
            json_array_append_new(group, nl_filter_json(s, r, f, a));
        } else {
            group = NULL;
            json_array_append_new(list, nl_filter_json(s, r, f, a));
        }
        if (!more)
            group = NULL;
    }
    if (json_array_size(list))
        json_object_set_new(plan, having ? "having" : "filters", list);
    else
        json_decref(list);
}

/* Groups with one figure come in the order of their numbers, or the largest figure first. */
static void put_usual_order(const struct nl_schema *s, const struct nl_reading *r, json_t *order,
                            struct arena *a)
{
    const struct nl_item *figure = NULL;
    for (int i = 0; i < r->n_select; i++)
        if (r->select[i].func >= 0 || r->select[i].is_share || r->select[i].is_part)
            figure = figure ? figure : &r->select[i];
    if (r->n_group == 0 || !figure || r->diff)
        return;
    if (!nl_col(s, r->group[0].ref)->is_numeric)
        json_array_append_new(
            order, json_pack("{s:s, s:s}", "expr", nl_alias(s, r, figure, a), "direction", "desc"));
    for (int i = 0; i < r->n_group; i++)
        json_array_append_new(order, json_pack("{s:s}", "expr", path_of(s, r, r->group[i].ref, a)));
}

json_t *nl_build_plan(const struct nl_schema *s, const struct nl_reading *r, struct arena *a)
{
    json_t *plan = json_object(), *select = json_array(), *group = json_array(),
           *order = json_array();
    json_object_set_new(plan, "dataset_id", json_string(s->dataset_id));
    json_object_set_new(plan, "table", json_string(s->tables[r->scope.tables[0]].name));
    json_object_set_new(plan, "select", select);
    json_object_set_new(plan, "group_by", group);
    json_object_set_new(plan, "order_by", order);
    for (int i = 0; i < r->n_select; i++) {
        json_t *item = nl_item_json(s, r, &r->select[i], a);
        if (!item) {
            json_decref(plan);
            return NULL;
        }
        json_array_append_new(select, item);
    }
    json_t *joins = r->scope.n > 1 ? json_array() : NULL;
    for (int i = 1; i < r->scope.n; i++) {
        const struct nl_link_key *k = r->scope.keys[i];
        auto_buf struct buf on = BUF_INIT(EXPR_BYTES);
        struct nl_ref from = { k->from_table, k->from_column }, to = { k->to_table, k->to_column };
        (void)buf_printf(&on, NULL, "%s = %s", nl_expr_of(s, r, from, false, a),
                         nl_expr_of(s, r, to, false, a));
        json_array_append_new(joins,
                              json_pack("{s:s, s:s}", "table", s->tables[r->scope.tables[i]].name,
                                        "on", buf_cstr(&on)));
    }
    if (joins)
        json_object_set_new(plan, "joins", joins);
    if (r->distinct)
        json_object_set_new(plan, "distinct", json_true());
    put_filters(s, r, false, plan, a);
    put_filters(s, r, true, plan, a);
    for (int i = 0; i < r->n_group; i++)
        json_array_append_new(group, json_string(r->group[i].bucket >= 0 ?
                                                     nl_alias(s, r, &r->group[i], a) :
                                                     path_of(s, r, r->group[i].ref, a)));
    for (int i = 0; i < r->n_order; i++) {
        const struct nl_item *o = &r->order[i];
        const struct nl_column *c = nl_col(s, o->ref);
        const char *e;
        bool shown = false;
        if (o->ref.table == -3) {
            json_array_append_new(order,
                                  json_pack("{s:s, s:s}", "expr", "row_number()", "direction",
                                            r->order_dir[i] < 0 ? "desc" : "asc"));
            continue;
        }
        for (int k = 0; k < r->n_select; k++)
            shown |= r->select[k].func == o->func && r->select[k].ref.table == o->ref.table &&
                     r->select[k].ref.column == o->ref.column;
        if (o->bucket >= 0 || (o->func >= 0 && shown))
            e = nl_alias(s, r, o, a);
        else if (o->func >= 0)
            e = c ? arena_printf(a, "%s(%s)", plan_func_names[o->func],
                                 nl_expr_of(s, r, o->ref, true, a)) :
                    "count(*)";
        else
            e = c->numeric_text && !r->distinct ? nl_expr_of(s, r, o->ref, true, a) :
                                                  path_of(s, r, o->ref, a);
        json_array_append_new(order, json_pack("{s:s, s:s}", "expr", e, "direction",
                                               r->order_dir[i] < 0 ? "desc" : "asc"));
    }
    /* Time runs from left to right unless the question wants another order. */
    for (int i = 0; i < r->n_group && r->n_order == 0; i++) {
        const struct nl_item *g = &r->group[i];
        if (g->bucket < 0)
            continue;
        const char *e = nl_alias(s, r, g, a), *date = nl_expr_of(s, r, g->ref, false, a);
        if (g->bucket == PART_WEEKDAY) /* weeks begin on Monday */
            e = arena_printf(a, "min((dayofweek(%s) + 6) %% 7)", date);
        else if (g->bucket == PART_MONTH)
            e = arena_printf(a, "min(month(%s))", date);
        json_array_append_new(order, json_pack("{s:s}", "expr", e));
        for (int k = 0; k < r->n_group; k++)
            if (r->group[k].bucket < 0)
                json_array_append_new(
                    order, json_pack("{s:s}", "expr", path_of(s, r, r->group[k].ref, a)));
        break;
    }
    if (r->n_order == 0 && json_array_size(order) == 0)
        put_usual_order(s, r, order, a);
    if (json_array_size(select) == 0)
        json_object_del(plan, "select");
    if (json_array_size(group) == 0)
        json_object_del(plan, "group_by");
    if (json_array_size(order) == 0)
        json_object_del(plan, "order_by");
    json_object_set_new(
        plan, "limit",
        json_integer(r->limit > 0 ? MIN_OF(r->limit, PLAN_LIMIT_MAX) : PLAN_LIMIT_MAX));
    return plan;
}

bool nl_is_valid(const struct nl_schema *s, const json_t *plan)
{
    struct err err = ERR_INIT;
    auto_arena struct arena a;
    struct query_plan *parsed = NULL;
    arena_init(&a, PLAN_ARENA_BYTES);
    if (plan_parse(plan, &a, &parsed, &err) < 0)
        return false;
    return !s->plan_schema || plan_check(parsed, s->plan_schema, &err) >= 0;
}

/* ---- in words ---- */

static void say_item(const struct nl_schema *s, const struct nl_item *item, struct buf *b)
{
    static const char *const words[_PLAN_FUNC_MAX] = {
        [FUNC_COUNT] = "number of",
        [FUNC_COUNT_DISTINCT] = "number of different",
        [FUNC_SUM] = "sum of",
        [FUNC_AVG] = "average of",
        [FUNC_MIN] = "least",
        [FUNC_MAX] = "greatest",
        [FUNC_MEDIAN] = "median of",
        [FUNC_MODE] = "most frequent",
        [FUNC_STDDEV] = "standard deviation of",
        [FUNC_VARIANCE] = "variance of",
        [FUNC_QUANTILE] = "quantile of",
    };
    const struct nl_column *c = nl_col(s, item->ref);
    static const char *const parts[] = { "weekday", "number of the weekday", "hour of the day",
                                         "month of the year" };
    if (item->ref.table == -3)
        (void)buf_append_str(b, "their place in the table", NULL);
    else if ((item->is_share || item->is_part) && c)
        (void)buf_printf(b, NULL, "percentage of `%s`", c->name);
    else if (item->is_share || item->is_part)
        (void)buf_append_str(b, "percentage of rows", NULL);
    else if (item->bucket >= PART_WEEKDAY)
        (void)buf_printf(b, NULL, "%s of `%s`", parts[item->bucket - PART_WEEKDAY], c->name);
    else if (!c)
        (void)buf_append_str(b, "number of rows", NULL);
    else if (item->func >= 0)
        (void)buf_printf(b, NULL, "%s `%s`", words[item->func], c->name);
    else if (item->bucket >= 0)
        (void)buf_printf(b, NULL, "%s of `%s`", plan_bucket_names[item->bucket], c->name);
    else
        (void)buf_printf(b, NULL, "`%s`", c->name);
}

static void say_filter(const struct nl_schema *s, const struct nl_filter *f, struct buf *b,
                       struct arena *a)
{
    if (f->having >= 0)
        say_item(s, &(struct nl_item){ .ref = f->ref, .func = f->having, .bucket = -1 }, b);
    else
        say_item(
            s, &(struct nl_item){ .ref = f->ref, .func = -1, .bucket = f->part ? f->part : -1 }, b);
    if (f->inner && f->than) {
        (void)buf_printf(b, NULL, " %s the ", plan_filter_op_names[f->op]);
        (void)buf_append_str(b, nl_describe(s, f->inner, a), NULL);
        return;
    }
    if (f->inner) {
        (void)buf_printf(b, NULL, " is %samong: ", f->negated ? "not " : "");
        (void)buf_append_str(b, nl_describe(s, f->inner, a), NULL);
        return;
    }
    if (f->than) {
        struct nl_item all = { .ref = f->ref, .func = f->than - 1, .bucket = -1 };
        (void)buf_printf(b, NULL, " %s the ", plan_filter_op_names[f->op]);
        say_item(s, &all, b);
        return;
    }
    if (f->around)
        (void)buf_printf(b, NULL, " of the row %s it", f->around < 0 ? "before" : "after");
    const char *op = f->op == FILTER_IS_NULL     ? "is empty" :
                     f->op == FILTER_IS_NOT_NULL ? "is not empty" :
                                                   plan_filter_op_names[f->op];
    (void)buf_printf(b, NULL, " %s%s", f->negated ? "not " : "", op);
    for (int i = 0; i < f->n_texts; i++)
        (void)buf_printf(b, NULL, "%s'%s'", i ? " or " : " ", f->text[i]);
    for (int i = 0; i < f->n_numbers; i++)
        (void)buf_printf(b, NULL, "%s%.15g", i ? " and " : " ", f->number[i]);
}

const char *nl_describe_item(const struct nl_schema *s, const struct nl_item *item, struct arena *a)
{
    auto_buf struct buf b = BUF_INIT(1000);
    say_item(s, item, &b);
    return arena_strdup(a, buf_cstr(&b));
}

/* all: also those that a rule adds to leave out rows without a value. */
static void say_filters(const struct nl_schema *s, const struct nl_reading *r, bool all,
                        struct buf *b, struct arena *a)
{
    bool first = true;
    for (int i = 0; i < r->n_filters; i++) {
        const struct nl_filter *f = &r->filters[i];
        if (!all && f->op == FILTER_IS_NOT_NULL)
            continue;
        (void)buf_append_str(b, first ? " where " : f->is_or ? " or " : " and ", NULL);
        say_filter(s, f, b, a);
        first = false;
    }
}

const char *nl_describe_filters(const struct nl_schema *s, const struct nl_reading *r,
                                struct arena *a)
{
    auto_buf struct buf b = BUF_INIT(4000);
    say_filters(s, r, false, &b, a);
    return arena_strdup(a, buf_cstr(&b));
}

const char *nl_describe(const struct nl_schema *s, const struct nl_reading *r, struct arena *a)
{
    auto_buf struct buf b = BUF_INIT(4000);
    bool first = true;
    if (r->distinct)
        (void)buf_append_str(&b, "different ", NULL);
    if (r->n_select == 0)
        (void)buf_append_str(&b, "all columns", NULL);
    for (int i = 0; i < r->n_select; i++) {
        bool grouped = false;
        for (int k = 0; k < r->n_group; k++)
            grouped |= r->select[i].func < 0 && r->select[i].ref.table == r->group[k].ref.table &&
                       r->select[i].ref.column == r->group[k].ref.column;
        if (grouped || (r->select[i].hidden_key && !first))
            continue;
        if (!first)
            (void)buf_append_str(&b, ", ", NULL);
        if (r->diff && r->select[i].func == FUNC_SUM)
            (void)buf_append_str(&b, "difference in ", NULL);
        say_item(s, &r->select[i], &b);
        first = false;
    }
    if (first && r->n_group > 0)
        (void)buf_append_str(&b, "groups", NULL);
    for (int i = 0; i < r->n_group; i++) {
        (void)buf_append_str(&b, i ? " and " : " by ", NULL);
        say_item(s, &r->group[i], &b);
    }
    (void)buf_printf(&b, NULL, " of `%s`", s->tables[r->scope.tables[0]].name);
    for (int i = 1; i < r->scope.n; i++)
        (void)buf_printf(&b, NULL, "%s `%s`", i == 1 ? " with" : " and",
                         s->tables[r->scope.tables[i]].name);
    say_filters(s, r, true, &b, a);
    for (int i = 0; i < r->n_order; i++) {
        (void)buf_append_str(&b, i ? ", then " : ", ordered by ", NULL);
        say_item(s, &r->order[i], &b);
        (void)buf_append_str(&b, r->order_dir[i] < 0 ? " downwards" : "", NULL);
    }
    if (r->limit > 0)
        (void)buf_printf(&b, NULL, ", %s %d", r->n_order ? "top" : "first", r->limit);
    return arena_strdup(a, buf_cstr(&b));
}

/* ---- a picture ---- */

json_t *nl_chart(const struct nl_schema *s, const struct nl_reading *r, struct arena *a)
{
    const struct nl_item *y = NULL;
    for (int i = 0; i < r->n_select && !y; i++)
        if (r->select[i].func >= 0)
            y = &r->select[i];
    if (r->n_group == 0 || r->n_group > 2 || !y || r->limit == 1)
        return NULL;
    const struct nl_item *x = &r->group[0], *series = r->n_group > 1 ? &r->group[1] : NULL;
    bool temporal = x->bucket >= 0 || nl_is_date(nl_col(s, x->ref)) ||
                    nl_is_year(nl_col(s, x->ref));
    const char *xn = x->bucket >= 0 ? nl_alias(s, r, x, a) : nl_col(s, x->ref)->name;
    json_t *j = json_pack("{s:s, s:{s:s, s:s}, s:{s:s, s:s}}", "mark", temporal ? "line" : "bar",
                          "x", "field", xn, "type", temporal ? "temporal" : "nominal", "y", "field",
                          nl_alias(s, r, y, a), "type", "quantitative");
    if (j && series)
        json_object_set_new(j, "series",
                            json_pack("{s:s, s:s}", "field",
                                      series->bucket >= 0 ? nl_alias(s, r, series, a) :
                                                            nl_col(s, series->ref)->name,
                                      "type", "nominal"));
    return j;
}
