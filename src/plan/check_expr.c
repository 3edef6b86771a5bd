/*
 * The check of an expression: every name means something, types go with what is done to them, and a
 * plan that aggregates shows only what it groups by. One walk over the tree does all three; where
 * an alias is named, it goes on in that item.
 */

#include "plan/plan_impl.h"

#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/str.h"

/* Aliases that name aliases could make a walk longer than any plan is; and a walk recurses. */
#define CHECK_MAX_VISITS 50000
#define CHECK_MAX_DEPTH 1000

/* ---- types ---- */

bool check_is_number(enum plan_type t)
{
    return t == TYPE_INTEGER || t == TYPE_NUMBER;
}

bool check_is_time(enum plan_type t)
{
    return t == TYPE_DATE || t == TYPE_TIMESTAMP;
}

bool check_is_known(enum plan_type t)
{
    return t != TYPE_UNKNOWN && t != TYPE_OTHER;
}

/* Many a table has its truth values as 0 and 1, and the engine takes them. */
bool check_is_condition(enum plan_type t)
{
    return !check_is_known(t) || t == TYPE_BOOL || t == TYPE_INTEGER;
}

/* Digits at *s, at least min and at most max of them, as a number; -1 if there are none. */
static int scan_digits(const char **s, int min, int max)
{
    int n = 0, v = 0;

    for (; n < max && **s >= '0' && **s <= '9'; n++, (*s)++)
        v = v * 10 + (**s - '0');
    return n < min ? -1 : v;
}

/* 2025-01-31, with a time behind it (10:30, 10:30:00.5) and a zone (Z, +01:00) if so wished. */
bool check_is_date_text(const char *s)
{
    static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    int y = scan_digits(&s, 4, 4);

    if (y < 0 || *s++ != '-')
        return false;
    int m = scan_digits(&s, 1, 2);
    if (m < 1 || m > 12 || *s++ != '-')
        return false;
    int d = scan_digits(&s, 1, 2);
    bool leap = (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;
    if (d < 1 || d > days[m - 1] + (m == 2 && leap))
        return false;
    if (*s == '\0')
        return true;
    if (*s != ' ' && *s != 'T')
        return false;
    s++;
    int h = scan_digits(&s, 2, 2);
    if (h < 0 || h > 23 || *s++ != ':')
        return false;
    int min = scan_digits(&s, 2, 2);
    if (min < 0 || min > 59)
        return false;
    if (*s == ':') {
        s++;
        int sec = scan_digits(&s, 2, 2);
        if (sec < 0 || sec > 59)
            return false;
        if (*s == '.' && (s++, scan_digits(&s, 1, 6) < 0))
            return false;
    }
    if (*s == 'Z')
        return s[1] == '\0';
    if (*s == '+' || *s == '-') {
        s++;
        int zone = scan_digits(&s, 2, 2);
        if (zone < 0 || zone > 14)
            return false;
        if (*s == ':' && (s++, scan_digits(&s, 2, 2) < 0))
            return false;
    }
    return *s == '\0';
}

/* "-12" or "3.5": what the engine turns into a number without asking. */
bool check_is_number_text(const char *s, bool integer)
{
    s += *s == '-';
    size_t n = strspn(s, "0123456789");
    if (n == 0 || n > 9)
        return false;
    s += n;
    if (!integer && *s == '.') {
        n = strspn(s + 1, "0123456789");
        s += n > 0 && n <= 9 ? n + 1 : 0;
    }
    return *s == '\0';
}

bool check_is_bool_text(const char *s)
{
    return str_ieq(s, "true") || str_ieq(s, "false");
}

/* "column 'status' (VARCHAR)", or where in the expression it stands. */
const char *check_describe(const struct standpoint *at, const struct expr *e,
                           char ret[CHECK_DESCRIBE_SIZE])
{
    struct target t;
    char shown[STR_SHOWN_SIZE];

    if (e->kind == EXPR_COLUMN && scope_resolve(at, e, &t, NULL) >= 0) {
        str_show(e->text, strlen(e->text), shown, sizeof(shown));
        if (!t.item && t.type_name && *t.type_name)
            snprintf(ret, CHECK_DESCRIBE_SIZE, "column '%s' (%.40s)", shown, t.type_name);
        else
            snprintf(ret, CHECK_DESCRIBE_SIZE, "'%s'", shown);
    } else if (e->kind == EXPR_STRING) {
        snprintf(ret, CHECK_DESCRIBE_SIZE, "the text '%s'",
                 str_show(e->text, strlen(e->text), shown, sizeof(shown)));
    } else if (e->at > 0) {
        snprintf(ret, CHECK_DESCRIBE_SIZE, "what stands at column %d of the expression", e->at);
    } else {
        snprintf(ret, CHECK_DESCRIBE_SIZE, "it");
    }
    return ret;
}

int check_mismatch(struct walk *w, const struct standpoint *at, const char *who, const char *wants,
                   const struct expr *e, enum plan_type t)
{
    char what[CHECK_DESCRIBE_SIZE];

    return err_set(w->err, ERR_VALIDATION, "%s needs %s, but %s is %s", who, wants,
                   check_describe(at, e, what), plan_type_words[t]);
}

/*
 * Two values that are compared, or that come from the same place. A date may be written as a text.
 */
static int check_same(struct walk *w, const struct standpoint *at, const char *who,
                      const struct expr *a, enum plan_type ta, const struct expr *b,
                      enum plan_type tb)
{
    char first[CHECK_DESCRIBE_SIZE], second[CHECK_DESCRIBE_SIZE], shown[STR_SHOWN_SIZE];

    if (!check_is_known(ta) || !check_is_known(tb) || ta == tb ||
        (check_is_number(ta) && check_is_number(tb)) || (check_is_time(ta) && check_is_time(tb)))
        return 0;
    if (check_is_time(tb) && a->kind == EXPR_STRING) {
        const struct expr *swap = a;
        a = b;
        b = swap;
        ta = tb;
    }
    if (check_is_time(ta) && b->kind == EXPR_STRING) {
        if (check_is_date_text(b->text))
            return 0;
        return err_set(w->err, ERR_VALIDATION,
                       "'%s' is not a date; write it as '2025-01-31' or "
                       "'2025-01-31 10:30:00'",
                       str_show(b->text, strlen(b->text), shown, sizeof(shown)));
    }
    return err_set(w->err, ERR_VALIDATION, "%s cannot go with both: %s is %s, %s is %s", who,
                   check_describe(at, a, first), plan_type_words[ta], check_describe(at, b, second),
                   plan_type_words[tb]);
}

/* ---- the walk ---- */

static bool is_same_column(const struct target *a, const struct target *b)
{
    return str_ieq(a->name, b->name) && (!a->table || !b->table || str_ieq(a->table, b->table));
}

static bool is_grouped_column(const struct scope *s, const struct target *column)
{
    const struct standpoint at = { .scope = s, .place = PLACE_GROUP };

    for (size_t i = 0; i < s->plan->n_group_by; i++) {
        struct target g;

        if (scope_resolve(&at, s->plan->group_by[i], &g, NULL) < 0)
            continue;
        if (g.item && g.item->operand.what->kind == EXPR_COLUMN) {
            const struct standpoint in = scope_within(&at, &g);
            if (scope_resolve(&in, g.item->operand.what, &g, NULL) < 0)
                continue;
        }
        if (!g.item && is_same_column(&g, column))
            return true;
    }
    return false;
}

bool check_is_grouped_item(const struct scope *s, size_t index)
{
    const struct standpoint at = { .scope = s, .place = PLACE_GROUP };

    for (size_t i = 0; i < s->plan->n_group_by; i++) {
        struct target g;

        if (scope_resolve(&at, s->plan->group_by[i], &g, NULL) >= 0 && g.item && g.index == index)
            return true;
    }
    return false;
}

static int visit_name(struct walk *w, const struct standpoint *at, const struct expr *e,
                      bool grouped, enum plan_type *ret)
{
    char shown[STR_SHOWN_SIZE];
    struct target t;
    int r = scope_resolve(at, e, &t, w->err);

    if (r < 0)
        return r;
    str_show(e->text, strlen(e->text), shown, sizeof(shown));
    if (t.item) {
        bool has_aggregate = expr_has_aggregate(t.item->operand.what);

        if (at->place == PLACE_WHERE && has_aggregate)
            return err_set(w->err, ERR_VALIDATION, "'%s' is an aggregate; filter it in 'having'",
                           shown);
        if (++w->alias_depth > PLAN_MAX_ALIAS_DEPTH)
            return err_set(w->err, ERR_VALIDATION, "'%s' leads through more than %d aliases", shown,
                           PLAN_MAX_ALIAS_DEPTH);
        const struct standpoint in = scope_within(at, &t);
        /* In filters and group_by nothing is grouped yet. */
        bool before = at->place == PLACE_WHERE || at->place == PLACE_GROUP;
        r = check_visit(w, &in, t.item->operand.what,
                        grouped || before || check_is_grouped_item(at->scope, t.index), ret);
        w->alias_depth--;
        return r;
    }
    *ret = t.type;
    w->columns++;
    if (!w->aggregated || grouped || at->in_aggregate ||
        !(at->place == PLACE_SELECT || at->place == PLACE_HAVING || at->place == PLACE_ORDER))
        return 0;
    if (is_grouped_column(at->scope, &t))
        return 0;
    if (at->scope->plan->n_group_by == 0)
        return err_set(w->err, ERR_VALIDATION,
                       "When mixing aggregations with regular columns, group_by is required "
                       "(column '%s')",
                       shown);
    return err_set(w->err, ERR_VALIDATION,
                   "Column '%s' must be in group_by when using aggregations", shown);
}

static int visit_aggregate(struct walk *w, const struct standpoint *at, const struct expr *e,
                           enum plan_type *ret)
{
    const char *name = plan_func_names[e->func];
    enum plan_type t = TYPE_UNKNOWN;
    struct standpoint in = *at;
    char who[32];

    if (at->in_aggregate)
        return err_set(w->err, ERR_VALIDATION, "an aggregate inside another: '%s'", name);
    if (at->place == PLACE_WHERE || at->no_aggregate)
        return err_set(w->err, ERR_VALIDATION, "an aggregate ('%s') belongs in 'having'", name);
    in.in_aggregate = true;
    w->columns++; /* also count(*) depends on the rows */
    *ret = e->func == FUNC_COUNT || e->func == FUNC_COUNT_DISTINCT ? TYPE_INTEGER : TYPE_NUMBER;
    if (e->n_args == 0)
        return 0;
    int r = check_visit(w, &in, e->args[0], true, &t);
    if (r < 0)
        return r;
    snprintf(who, sizeof(who), "'%s'", name);
    switch (e->func) {
    case FUNC_COUNT:
    case FUNC_COUNT_DISTINCT:
        return 0;
    case FUNC_MIN:
    case FUNC_MAX:
    case FUNC_MODE:
        *ret = t;
        return 0;
    case FUNC_MEDIAN:
        if (check_is_time(t)) {
            *ret = TYPE_TIMESTAMP;
            return 0;
        }
        break;
    default:
        break;
    }
    for (size_t i = 0;;) {
        if (t != TYPE_UNKNOWN && !check_is_number(t) && t != TYPE_BOOL)
            return check_mismatch(w, &in, who, "a number", e->args[i], t);
        if (++i == e->n_args) /* two of corr() */
            return 0;
        r = check_visit(w, &in, e->args[i], true, &t);
        if (r < 0)
            return r;
    }
}

static int visit_arithmetic(struct walk *w, const struct standpoint *at, const struct expr *e,
                            const enum plan_type t[2], enum plan_type *ret)
{
    char who[16];

    snprintf(who, sizeof(who), "'%s'", expr_op_sql[e->op]);
    for (int i = 0; i < 2; i++)
        if (t[i] != TYPE_UNKNOWN && !check_is_number(t[i]))
            return check_mismatch(
                w, at, who,
                check_is_time(t[i]) ? "a number (for dates use date_diff or date_add)" : "a number",
                e->args[i], t[i]);
    if (e->op != OP_DIV && t[0] == TYPE_INTEGER && t[1] == TYPE_INTEGER)
        *ret = TYPE_INTEGER;
    else if (e->op != OP_DIV && (t[0] == TYPE_UNKNOWN || t[1] == TYPE_UNKNOWN))
        *ret = TYPE_UNKNOWN;
    else
        *ret = TYPE_NUMBER;
    return 0;
}

static int visit_binary(struct walk *w, const struct standpoint *at, const struct expr *e,
                        bool grouped, enum plan_type *ret)
{
    enum plan_type t[2] = { TYPE_UNKNOWN, TYPE_UNKNOWN };
    char who[16];

    for (int i = 0; i < 2; i++) {
        int r = check_visit(w, at, e->args[i], grouped, &t[i]);
        if (r < 0)
            return r;
    }
    snprintf(who, sizeof(who), "'%s'", expr_op_sql[e->op]);
    *ret = TYPE_BOOL;
    switch (e->op) {
    case OP_AND:
    case OP_OR:
        for (int i = 0; i < 2; i++)
            if (!check_is_condition(t[i]))
                return check_mismatch(w, at, who, "a condition", e->args[i], t[i]);
        return 0;
    case OP_CONCAT:
        *ret = TYPE_TEXT;
        return 0;
    case OP_ADD:
    case OP_SUB:
    case OP_MUL:
    case OP_DIV:
    case OP_MOD:
        return visit_arithmetic(w, at, e, t, ret);
    default:
        if ((t[0] == TYPE_INTEGER && t[1] == TYPE_BOOL) ||
            (t[0] == TYPE_BOOL && t[1] == TYPE_INTEGER))
            return 0;
        return check_same(w, at, who, e->args[0], t[0], e->args[1], t[1]);
    }
}

/* The arguments have one type, which is returned. */
static int visit_alike(struct walk *w, const struct standpoint *at, const struct expr *e,
                       bool grouped, const char *who, enum plan_type *ret)
{
    const struct expr *first = NULL;
    enum plan_type t = TYPE_UNKNOWN;

    *ret = TYPE_UNKNOWN;
    for (size_t i = 0; i < e->n_args; i++) {
        int r = check_visit(w, at, e->args[i], grouped, &t);
        if (r < 0)
            return r;
        if (!check_is_known(t))
            continue;
        if (!first) {
            first = e->args[i];
            *ret = t;
            continue;
        }
        r = check_same(w, at, who, first, *ret, e->args[i], t);
        if (r < 0)
            return r;
        if (*ret == TYPE_INTEGER && t == TYPE_NUMBER)
            *ret = TYPE_NUMBER;
        if (check_is_time(t) && *ret != t) { /* also when the first was a date written as a text */
            *ret = *ret == TYPE_TEXT ? t : TYPE_TIMESTAMP;
            first = e->args[i];
        }
    }
    return 0;
}

static int visit_case(struct walk *w, const struct standpoint *at, const struct expr *e,
                      bool grouped, enum plan_type *ret)
{
    size_t pairs = e->n_args / 2;
    enum plan_type t;

    for (size_t i = 0; i < pairs; i++) {
        int r = check_visit(w, at, e->args[2 * i], grouped, &t);
        if (r < 0)
            return r;
        if (!check_is_condition(t))
            return check_mismatch(w, at, "'when'", "a condition", e->args[2 * i], t);
    }
    /* then, then, …, else: gathered, so that they are compared as a list. */
    const struct expr *results[EXPR_MAX_ARGS];
    struct expr list = { .kind = EXPR_CALL, .args = results, .n_args = 0 };
    for (size_t i = 0; i < pairs; i++)
        results[list.n_args++] = e->args[2 * i + 1];
    if (e->n_args % 2)
        results[list.n_args++] = e->args[e->n_args - 1];
    return visit_alike(w, at, &list, grouped, "'case'", ret);
}

static int visit_window(struct walk *w, const struct standpoint *at, const struct expr *e,
                        bool grouped, enum plan_type *ret)
{
    const char *name = e->call->name;
    bool shown = at->place == PLACE_SELECT || at->place == PLACE_ORDER;
    bool share = str_eq(name, "share"), sums = share || str_eq(name, "running");

    if (at->in_aggregate || at->no_aggregate || w->in_window)
        return err_set(w->err, ERR_VALIDATION,
                       "%s() cannot stand inside an aggregate or another function over rows", name);
    if (!shown && (sums || at->place != PLACE_WHERE))
        return err_set(w->err, ERR_VALIDATION, "%s() belongs in 'select' or 'order_by'%s", name,
                       sums ? "" : " or 'filters'");
    if (!shown && w->aggregated)
        return err_set(w->err, ERR_VALIDATION, "%s() cannot filter a plan that aggregates", name);
    w->columns++; /* all of them depend on the rows */
    enum plan_type t = TYPE_INTEGER;
    w->in_window = true;
    int r = e->n_args > 0 ? check_visit(w, at, e->args[0], grouped, &t) : 0;
    enum plan_type by;
    for (size_t i = 1; i < e->n_args && r >= 0; i++)
        r = check_visit(w, at, e->args[i], grouped, &by);
    w->in_window = false;
    if (r < 0)
        return r;
    if (sums && t != TYPE_UNKNOWN && !check_is_number(t))
        return check_mismatch(w, at, share ? "share()" : "running()", "a number", e->args[0], t);
    *ret = sums ? TYPE_NUMBER : str_eq(name, "rank") ? TYPE_INTEGER : t;
    return 0;
}

static int visit_call(struct walk *w, const struct standpoint *at, const struct expr *e,
                      bool grouped, enum plan_type *ret)
{
    if (expr_is_window(e->call))
        return visit_window(w, at, e, grouped, ret);
    const struct expr_function *f = e->call;
    enum plan_type first = TYPE_UNKNOWN, t = TYPE_UNKNOWN;
    char who[40];

    snprintf(who, sizeof(who), "%s()", f->name);
    if (f->args[0] == 's')
        return visit_alike(w, at, e, grouped, who, ret);
    for (size_t i = 0; i < e->n_args; i++) {
        int r = check_visit(w, at, e->args[i], grouped, &t);
        if (r < 0)
            return r;
        if (i == 0)
            first = t;
        switch (f->args[MIN_OF(i, strlen(f->args) - 1)]) {
        case 'n':
            if (t != TYPE_UNKNOWN && !check_is_number(t))
                return check_mismatch(w, at, who, "a number", e->args[i], t);
            break;
        case 'i':
            if (t != TYPE_UNKNOWN && t != TYPE_INTEGER)
                return check_mismatch(w, at, who, "an integer", e->args[i], t);
            break;
        case 't':
            if (t != TYPE_UNKNOWN && t != TYPE_TEXT)
                return check_mismatch(w, at, who, "text (cast(… as text) makes it)", e->args[i], t);
            break;
        case 'd':
            if (t != TYPE_UNKNOWN && !check_is_time(t))
                return check_mismatch(w, at, who, "a date (cast(… as date) makes it)", e->args[i],
                                      t);
            break;
        default: /* any; literals were checked when they were parsed */
            break;
        }
    }
    switch (f->ret) {
    case 'n':
        *ret = TYPE_NUMBER;
        break;
    case 'i':
        *ret = TYPE_INTEGER;
        break;
    case 't':
        *ret = TYPE_TEXT;
        break;
    case 'b':
        *ret = TYPE_BOOL;
        break;
    case 'D':
        *ret = TYPE_DATE;
        break;
    case 'T':
        *ret = TYPE_TIMESTAMP;
        break;
    default:
        *ret = first;
        break;
    }
    return 0;
}

static int visit_inner(struct walk *w, const struct standpoint *at, const struct expr *e,
                       bool grouped, enum plan_type *ret)
{
    enum plan_type t = TYPE_UNKNOWN;
    int r;

    switch (e->kind) {
    case EXPR_NUMBER:
        *ret = strpbrk(e->text, ".eE") || strlen(e->text) > 18 ? TYPE_NUMBER : TYPE_INTEGER;
        return 0;
    case EXPR_STRING:
        *ret = TYPE_TEXT;
        return 0;
    case EXPR_BOOL:
        *ret = TYPE_BOOL;
        return 0;
    case EXPR_NULL:
        *ret = TYPE_UNKNOWN;
        return 0;
    case EXPR_COLUMN:
        return visit_name(w, at, e, grouped, ret);
    case EXPR_BINARY:
        return visit_binary(w, at, e, grouped, ret);
    case EXPR_CASE:
        return visit_case(w, at, e, grouped, ret);
    case EXPR_CALL:
        return visit_call(w, at, e, grouped, ret);
    case EXPR_AGGREGATE:
        return visit_aggregate(w, at, e, ret);
    case EXPR_IN:
        r = visit_alike(w, at, e, grouped, "'in'", &t);
        *ret = TYPE_BOOL;
        return r;
    case EXPR_BETWEEN:
        r = visit_alike(w, at, e, grouped, "'between'", &t);
        *ret = TYPE_BOOL;
        return r;
    default:
        break;
    }
    /* Those with one argument. */
    r = check_visit(w, at, e->args[0], grouped, &t);
    if (r < 0)
        return r;
    *ret = TYPE_BOOL;
    switch (e->kind) {
    case EXPR_NEGATE:
        if (t != TYPE_UNKNOWN && !check_is_number(t))
            return check_mismatch(w, at, "'-'", "a number", e->args[0], t);
        *ret = t;
        return 0;
    case EXPR_NOT:
        if (!check_is_condition(t))
            return check_mismatch(w, at, "'not'", "a condition", e->args[0], t);
        return 0;
    case EXPR_LIKE:
        if (t != TYPE_UNKNOWN && t != TYPE_TEXT)
            return check_mismatch(w, at, "'like'", "text (cast(… as text) makes it)", e->args[0],
                                  t);
        return 0;
    case EXPR_CAST:
        *ret = e->type;
        return 0;
    case EXPR_BUCKET:
        if (t != TYPE_UNKNOWN && !check_is_time(t))
            return check_mismatch(w, at, "'bucket'", "a date", e->args[0], t);
        *ret = e->bucket == BUCKET_HOUR ? TYPE_TIMESTAMP : TYPE_DATE;
        return 0;
    default: /* IS_NULL */
        return 0;
    }
}

int check_visit(struct walk *w, const struct standpoint *at, const struct expr *e, bool grouped,
                enum plan_type *ret)
{
    if (++w->visits > CHECK_MAX_VISITS || w->depth >= CHECK_MAX_DEPTH)
        return err_set(w->err, ERR_VALIDATION, "the plan's expressions are too large");
    w->depth++;
    int r = visit_inner(w, at, e, grouped, ret);
    w->depth--;
    return r;
}

enum plan_type check_type_of(const struct standpoint *at, const struct expr *e)
{
    struct walk w = { .err = NULL };
    enum plan_type t = TYPE_UNKNOWN;

    return check_visit(&w, at, e, true, &t) < 0 ? TYPE_UNKNOWN : t;
}
