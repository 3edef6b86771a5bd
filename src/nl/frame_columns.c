/* What columns are good for: measures, categories, keys, names, dates, adjectives. */

#include <string.h>

#include "nl/frame.h"

bool fr_is_measure(const struct nl_column *c)
{
    if (!c || !c->is_numeric || c->is_id || c->is_flag)
        return false;
    if (c->role)
        return str_eq(c->role, "measure");
    if (c->is_serial || nl_is_year(c))
        return false;
    for (int w = 0; w < c->words.n; w++)
        if (str_eq(c->words.words[w], "no") || str_eq(c->words.words[w], "code") ||
            str_eq(c->words.stems[w], "phon") || str_eq(c->words.words[w], "zip") ||
            str_eq(c->words.stems[w], "postcod") ||
            (str_eq(c->words.words[w], "number") && c->is_unique && !(w + 1 < c->words.n)))
            return false;
    return !(c->words.n == 1 && str_eq(c->words.words[0], "number") && c->is_unique);
}

bool fr_is_compared(const struct frame *f, struct nl_ref ref)
{
    const struct nl_column *c = fr_c(f, ref);
    return c && c->is_numeric && !c->is_flag && !c->is_id && !c->is_serial;
}

bool fr_is_category(const struct frame *f, struct nl_ref ref)
{
    const struct nl_column *c = fr_c(f, ref);
    return c && (c->type == TYPE_TEXT || c->is_flag || (c->role && str_eq(c->role, "category")) ||
                 (c->is_numeric && !fr_is_measure(c)));
}

bool fr_key(const struct nl_schema *s, int table, struct nl_ref *ret)
{
    const struct nl_table *t = &s->tables[table];
    if (nl_own_id(s, table, ret) && t->columns[ret->column].is_unique)
        return true;
    for (int i = 0; i < s->n_keys; i++)
        if (s->keys[i].to_table == table) {
            *ret = (struct nl_ref){ table, s->keys[i].to_column };
            return true;
        }
    for (int c = 0; c < t->n_columns && c < 2; c++)
        if (t->columns[c].is_unique && !nl_is_date(&t->columns[c])) {
            *ret = (struct nl_ref){ table, c };
            return true;
        }
    if (nl_own_id(s, table, ret))
        return true;
    *ret = (struct nl_ref){ table, 0 };
    return t->n_columns > 0;
}

/* What rows are called by; the key where they have no name. */
bool fr_label(const struct nl_schema *s, int table, struct nl_ref *ret)
{
    const struct nl_table *t = &s->tables[table];
    for (int c = 0; c < t->n_columns; c++)
        if (t->columns[c].is_name && t->n_rows > 0 &&
            (t->columns[c].many_values || t->columns[c].n_values * 10 >= (size_t)t->n_rows)) {
            *ret = (struct nl_ref){ table, c };
            return true;
        }
    for (int c = 0; c < t->n_columns; c++) {
        const struct nl_column *x = &t->columns[c];
        if (x->type == TYPE_TEXT && !x->is_id && !x->numeric_text && t->n_rows > 0 &&
            !x->many_values && x->n_values * 10 >= (size_t)t->n_rows * 9 && c <= 3) {
            *ret = (struct nl_ref){ table, c };
            return true;
        }
    }
    return fr_key(s, table, ret);
}

/* A column of people, as its name says: borrower, agent, sales_rep; the only one of the table. */
bool fr_person(const struct frame *f, int table, struct nl_ref *ret)
{
    int n = 0;
    for (int c = 0; table >= 0 && c < f->s->tables[table].n_columns; c++) {
        const struct nl_column *col = &f->s->tables[table].columns[c];
        const struct nl_name *w = &col->words;
        int head = w->n - 1 - (w->n > 1 && str_eq(w->stems[w->n - 1], "nam"));
        struct nl_lex lex;
        if (col->type != TYPE_TEXT || col->is_flag || w->n == 0)
            continue;
        nl_lex_find(w->words[head], &lex);
        if (!lex.is_noun || !lex.is_person)
            continue;
        *ret = (struct nl_ref){ table, c };
        n++;
    }
    return n == 1;
}

static bool own_date_column(const struct frame *f, int table, struct nl_ref *ret)
{
    if (table < 0)
        return false;
    const struct nl_table *t = &f->s->tables[table];
    for (int i = 0; i < f->m.n; i++) /* "arrivals in May" */
        if (f->m.m[i].kind == KIND_TABLE && f->m.m[i].table == table &&
            f->m.m[i].ref.table == table) {
            *ret = f->m.m[i].ref;
            return true;
        }
    int best = nl_own_date(t);
    *ret = (struct nl_ref){ table, best };
    return best >= 0;
}

/* The lines of an order have the order's date. */
bool fr_date_column(const struct frame *f, int table, struct nl_ref *ret)
{
    struct nl_ref found = fr_none, one;
    if (own_date_column(f, table, ret))
        return true;
    for (int i = 0; i < f->s->n_keys && table >= 0; i++) {
        const struct nl_link_key *k = &f->s->keys[i];
        if (k->from_table != table || !own_date_column(f, k->to_table, &one) || fr_same(found, one))
            continue;
        if (found.table >= 0)
            return false;
        found = one;
    }
    *ret = found;
    return found.table >= 0;
}

bool fr_hint(const struct frame *f, int table, const char *hint, struct nl_ref *ret, int *ret_dir)
{
    bool measures = hint && *hint == '#';
    bool dates = hint && (strchr(hint, '-') || strstr(hint, "dat")); /* old, new */
    for (hint += measures; hint && *hint && table >= 0;
         hint += strcspn(hint, "|"), hint += *hint == '|') {
        bool back = *hint == '-', less = *hint == '~'; /* "~tim": the more, the slower */
        size_t n = strcspn(hint, "|") - (back || less);
        for (int c = 0; c < f->s->tables[table].n_columns; c++) {
            const struct nl_column *col = &f->s->tables[table].columns[c];
            bool dated = nl_is_date(col) || nl_is_year(col);
            if (!fr_is_measure(col) && (measures || !dated || !dates))
                continue;
            for (int w = 0; w < col->words.n; w++)
                if (strncmp(col->words.stems[w], hint + (back || less), n) == 0 &&
                    !(n == 3 && strncmp(col->words.words[w], "rating", 6) == 0) &&
                    strlen(col->words.stems[w]) <= n + 2 && dated == (back || dated)) {
                    *ret = (struct nl_ref){ table, c };
                    *ret_dir = back || less ? -1 : 1;
                    return true;
                }
        }
    }
    return false;
}

bool fr_hint_like(const struct frame *f, struct nl_ref like, const char *hint, struct nl_ref *ret)
{
    const struct nl_column *other = fr_c(f, like);
    for (hint += *hint == '#'; *hint; hint += strcspn(hint, "|"), hint += *hint == '|') {
        size_t n = strcspn(hint, "|");
        for (int c = 0; c < f->s->tables[like.table].n_columns; c++) {
            const struct nl_column *col = &f->s->tables[like.table].columns[c];
            bool hinted = false, shares = false;
            for (int w = 0; w < col->words.n; w++) {
                hinted |= strncmp(col->words.stems[w], hint, n) == 0;
                for (int k = 0; k < other->words.n; k++)
                    shares |= str_eq(col->words.stems[w], other->words.stems[k]);
            }
            if (hinted && shares && fr_is_measure(col)) {
                *ret = (struct nl_ref){ like.table, c };
                return true;
            }
        }
    }
    return false;
}

bool fr_turns(const struct frame *f, const char *hint, struct nl_ref ref)
{
    const struct nl_column *c = hint && strchr(hint, '~') ? fr_c(f, ref) : NULL;
    for (int w = 0; c && w < c->words.n; w++)
        for (const char *h = strchr(hint, '~'); h; h = strchr(h + 1, '~'))
            if (strncmp(c->words.stems[w], h + 1, strcspn(h + 1, "|")) == 0)
                return true;
    return c && fr_unit_factor(c, "seconds") > 0;
}

int fr_default_func(const struct nl_column *c)
{
    static const char *const means[] = { "scor", "rating", "star", "satisfaction", "wait",
                                         "stay", "averag", "eas",  "recommend",    "lik",
                                         "food", "servic", "grad", "mark",         "temperatur" };
    if (!c || c->is_rate)
        return FUNC_AVG;
    for (int w = 0; w < c->words.n; w++)
        for (size_t k = 0; k < ARRAY_SIZE(means); k++)
            if (str_eq(c->words.stems[w], means[k]))
                return FUNC_AVG;
    return FUNC_SUM;
}
