/*
 * What there is to ask about: tables, columns and values, and the index that words are looked up
 * in.
 */

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/str.h"
#include "nl/nl_impl.h"
#include "plan/plan_schema.h"

#define BUCKETS 16384
#define PART_WORDS_MAX 6
#define PART_MIN_BYTES 4
#define INTEGER_VALUES 200
#define SERIAL_ROWS 12 /* fewer may be different by chance */

static int no_memory(struct err *err)
{
    return err_set(err, ERR_NO_MEMORY, "the schema does not fit into memory");
}

int nl_schema_create(const char *dataset_id, struct nl_schema **ret, struct err *err)
{
    struct nl_schema *s = calloc(1, sizeof(*s));
    if (!s)
        return no_memory(err);
    arena_init(&s->arena, NL_SCHEMA_ARENA_BYTES);
    s->dataset_id = arena_strdup(&s->arena, dataset_id ? dataset_id : "data");
    if (!s->dataset_id) {
        nl_schema_destroy(s);
        return no_memory(err);
    }
    *ret = s;
    return 0;
}

void nl_schema_destroy(struct nl_schema *s)
{
    if (!s)
        return;
    arena_finish(&s->arena);
    free(s);
}

/* A larger copy of an array, in the arena; what was there before stays in it until the end. */
static void *grow(struct arena *a, const void *old, size_t n, size_t *cap, size_t size)
{
    size_t more = *cap ? *cap * 2 : 8;
    void *p = arena_alloc(a, more * size);
    if (p && n)
        memcpy(p, old, n * size);
    if (p)
        *cap = more;
    return p;
}

int nl_schema_add_table(struct nl_schema *s, const char *name, long long n_rows, struct err *err)
{
    if (s->n_tables == NL_MAX_TABLES)
        return err_set(err, ERR_TOO_LARGE, "more than %d tables", NL_MAX_TABLES);
    struct nl_table *t = &s->tables[s->n_tables];
    *t = (struct nl_table){ .name = arena_strdup(&s->arena, name), .n_rows = n_rows };
    if (!t->name || nl_split_name(&s->arena, name, &t->words) < 0)
        return no_memory(err);
    return s->n_tables++;
}

int nl_schema_add_column(struct nl_schema *s, int table, const char *name, const char *sql_type,
                         struct err *err)
{
    struct nl_table *t = &s->tables[table];
    if (t->n_columns == PLAN_MAX_COLUMNS)
        return err_set(err, ERR_TOO_LARGE, "more than %d columns", PLAN_MAX_COLUMNS);
    if (t->n_columns == t->cap_columns) {
        size_t cap = (size_t)t->cap_columns;
        struct nl_column *more = grow(&s->arena, t->columns, (size_t)t->n_columns, &cap,
                                      sizeof(*more));
        if (!more)
            return no_memory(err);
        t->columns = more;
        t->cap_columns = (int)cap;
    }
    struct nl_column *c = &t->columns[t->n_columns];
    *c = (struct nl_column){ .name = arena_strdup(&s->arena, name),
                             .sql_type = arena_strdup(&s->arena, sql_type),
                             .type = plan_type_from_name(sql_type) };
    if (!c->name || !c->sql_type || nl_split_name(&s->arena, name, &c->words) < 0)
        return no_memory(err);
    nl_lighten_units(&c->words);
    return t->n_columns++;
}

int nl_schema_add_value(struct nl_schema *s, int table, int column, const char *value,
                        struct err *err)
{
    struct nl_column *c = &s->tables[table].columns[column];
    size_t len = strlen(value);
    if (c->n_values == NL_VALUES_PER_COLUMN) {
        c->many_values = true;
        return 0;
    }
    if (len == 0 || len > NL_VALUE_MAX_BYTES)
        return 0;
    if (c->n_values == c->cap_values) {
        const char **more = grow(&s->arena, c->values, c->n_values, &c->cap_values, sizeof(*more));
        if (!more)
            return no_memory(err);
        c->values = more;
    }
    c->values[c->n_values] = arena_strndup(&s->arena, value, len);
    return c->values[c->n_values++] ? 0 : no_memory(err);
}

int nl_schema_set_range(struct nl_schema *s, int table, int column, const char *min,
                        const char *max, struct err *err)
{
    struct nl_column *c = &s->tables[table].columns[column];
    c->min = arena_strdup(&s->arena, min);
    c->max = arena_strdup(&s->arena, max);
    return c->min && c->max ? 0 : no_memory(err);
}

void nl_schema_set_counts(struct nl_schema *s, int table, int column, long long nulls, bool serial)
{
    struct nl_column *c = &s->tables[table].columns[column];
    c->has_nulls = nulls > 0;
    c->is_serial = serial && s->tables[table].n_rows >= SERIAL_ROWS;
}

/* ---- joins ---- */

static int push_key(struct nl_schema *s, struct nl_link_key key, struct err *err)
{
    if (s->n_keys == s->cap_keys) {
        size_t cap = (size_t)s->cap_keys;
        struct nl_link_key *more = grow(&s->arena, s->keys, (size_t)s->n_keys, &cap, sizeof(*more));
        if (!more)
            return no_memory(err);
        s->keys = more;
        s->cap_keys = (int)cap;
    }
    s->keys[s->n_keys++] = key;
    return 0;
}

static int add_key(struct nl_schema *s, struct nl_link_key key, struct err *err)
{
    for (int i = 0; i < s->n_keys; i++) {
        const struct nl_link_key *k = &s->keys[i];
        bool same = k->from_table == key.from_table && k->to_table == key.to_table;
        bool turned = k->from_table == key.to_table && k->to_table == key.from_table;
        if (same || turned)
            return 0; /* the first is the best: declared ones come first */
    }
    return push_key(s, key, err);
}

static bool find_column(const struct nl_schema *s, const char *path, int *ret_table,
                        int *ret_column)
{
    for (int t = 0; t < s->n_tables; t++) {
        size_t n = strlen(s->tables[t].name);
        if (strncasecmp(path, s->tables[t].name, n) != 0 || path[n] != '.')
            continue;
        for (int c = 0; c < s->tables[t].n_columns; c++)
            if (str_ieq(s->tables[t].columns[c].name, path + n + 1)) {
                *ret_table = t;
                *ret_column = c;
                return true;
            }
    }
    return false;
}

int nl_schema_add_relationship(struct nl_schema *s, const char *from, const char *to,
                               struct err *err)
{
    struct nl_link_key k = { .declared = true };
    if (!find_column(s, from, &k.from_table, &k.from_column) ||
        !find_column(s, to, &k.to_table, &k.to_column))
        return err_set(err, ERR_VALIDATION,
                       "relationship '%s' to '%s' names a column that is not there", from, to);
    return add_key(s, k, err);
}

/* Columns of one name that is a key's, or one that names the other table's key. */
static int find_keys(struct nl_schema *s, struct err *err)
{
    for (int a = 0; a < s->n_tables; a++)
        for (int b = 0; b < s->n_tables; b++)
            for (int i = 0; i < s->tables[a].n_columns && a != b; i++) {
                const struct nl_column *x = &s->tables[a].columns[i];
                for (int j = 0; j < s->tables[b].n_columns && x->is_id; j++) {
                    const struct nl_column *y = &s->tables[b].columns[j];
                    if (!str_ieq(x->name, y->name) ||
                        (x->type == TYPE_TEXT) != (y->type == TYPE_TEXT))
                        continue;
                    if (str_ieq(x->name, "id"))
                        continue;
                    struct nl_link_key key = { a, i, b, j, false, false };
                    if (x->is_key && !y->is_key) /* from the many to the one */
                        key = (struct nl_link_key){ b, j, a, i, false, false };
                    int r = add_key(s, key, err);
                    if (r < 0)
                        return r;
                }
            }
    return 0;
}

/* Every value of x is one of y. */
static bool is_contained(struct nl_schema *s, const struct nl_column *x, int table, int column)
{
    for (size_t i = 0; i < x->n_values; i++) {
        const char *key = nl_value_key(&s->arena, x->values[i]);
        bool found = false;
        for (const struct nl_value *v = key ? nl_find_value(s, key, NULL) : NULL; v && !found;
             v = nl_find_value(s, key, v))
            found = !v->is_part && v->table == table && v->column == column &&
                    str_eq(v->text, x->values[i]);
        if (!found)
            return false;
    }
    return x->n_values > 2;
}

/* "start_station_id", "winning_pilot": a whole number that the other table's name is in. */
static bool is_named_after(const struct nl_column *x, const struct nl_table *t, int j)
{
    const struct nl_column *y = &t->columns[j];
    const char *last = t->words.n > 0 ? t->words.stems[t->words.n - 1] : NULL;
    if (x->type != TYPE_INTEGER || y->type != TYPE_INTEGER || !last ||
        !(y->is_unique || y->is_key || j == 0) || !(y->is_id || j == 0))
        return false;
    for (int w = 0; w < x->words.n; w++)
        if (strcmp(x->words.stems[w], last) == 0)
            return true;
    return false;
}

/*
 * Keys that the data shows: a column of one name with another table's first one, a whole number
 * with the other table's name in its own, or a text all of whose values are those of a column
 * that names rows.
 */
static int find_value_keys(struct nl_schema *s, struct err *err)
{
    for (int b = 0; b < s->n_tables; b++)
        for (int j = 0; j < s->tables[b].n_columns; j++) {
            const struct nl_column *y = &s->tables[b].columns[j];
            bool names_rows = (y->is_unique || j == 0) && !nl_is_date(y) && !y->is_flag &&
                              y->type != TYPE_NUMBER && !y->formula;
            for (int a = 0; a < s->n_tables && names_rows; a++)
                for (int i = 0; i < s->tables[a].n_columns && a != b; i++) {
                    const struct nl_column *x = &s->tables[a].columns[i];
                    if ((x->type == TYPE_TEXT) != (y->type == TYPE_TEXT) || x->is_flag ||
                        x->formula || nl_is_date(x) || x->type == TYPE_NUMBER ||
                        (x->is_unique && i == 0))
                        continue;
                    bool same = str_ieq(x->name, y->name) && !str_ieq(x->name, "id") &&
                                !str_ieq(x->name, "name");
                    if (!(same && (y->is_unique || j == 0)) &&
                        !(y->is_unique && y->type == TYPE_TEXT && x->n_values <= y->n_values &&
                          is_contained(s, x, b, j)) &&
                        !(is_named_after(x, &s->tables[b], j) &&
                          (x->n_values >= INTEGER_VALUES || y->n_values >= INTEGER_VALUES ||
                           is_contained(s, x, b, j))))
                        continue;
                    bool known = false;
                    for (int k = 0; k < s->n_keys; k++)
                        known |= s->keys[k].from_table == a && s->keys[k].to_table == b &&
                                 (s->keys[k].from_column == i || s->keys[k].declared);
                    if (known)
                        continue;
                    int r = push_key(s, (struct nl_link_key){ a, i, b, j, false, true }, err);
                    if (r < 0)
                        return r;
                }
        }
    return 0;
}

/* ---- what columns are ---- */

static bool name_has(const struct nl_name *n, const char *word)
{
    for (int i = 0; i < n->n; i++)
        if (strcmp(n->words[i], word) == 0)
            return true;
    return false;
}

static bool reads_as_number(const char *v)
{
    bool digit = false;
    for (const char *p = v + (*v == '-' || *v == '+'); *p; p++) {
        if (isdigit((unsigned char)*p))
            digit = true;
        else if (*p != ',' && *p != '.' && *p != '$' && *p != '%')
            return false;
    }
    return digit;
}

static bool stem_in(const struct nl_name *n, const char *const *stems, size_t n_stems)
{
    for (int i = 0; i < n->n; i++)
        for (size_t k = 0; k < n_stems; k++)
            if (strcmp(n->stems[i], stems[k]) == 0)
                return true;
    return false;
}
#define STEM_IN(name, ...)                                                                         \
    stem_in((name), (const char *const[]){ __VA_ARGS__ },                                          \
            ARRAY_SIZE(((const char *const[]){ __VA_ARGS__ })))

/* Yes and no in one of their spellings. */
static void find_flag(struct nl_column *c)
{
    static const char *const pairs[][2] = {
        { "yes", "no" }, { "y", "n" }, { "true", "false" }, { "t", "f" }, { "1", "0" }
    };
    bool bits = c->type == TYPE_INTEGER && c->n_values == 2,
         text = c->type == TYPE_TEXT && c->n_values == 2;
    if (c->type == TYPE_BOOL) {
        c->is_flag = true;
        c->yes = "true";
        c->no = "false";
    }
    for (size_t i = 0; i < ARRAY_SIZE(pairs) && (bits || text); i++)
        for (int turned = 0; turned < 2; turned++)
            if (str_ieq(c->values[turned], pairs[i][0]) &&
                str_ieq(c->values[!turned], pairs[i][1]) && (text || i == 4)) {
                c->is_flag = true;
                c->yes = c->values[turned];
                c->no = c->values[!turned];
            }
}

static bool ends_in(const struct nl_name *n, const char *word)
{
    return n->n > 0 && strcmp(n->words[n->n - 1], word) == 0;
}

static void classify(const struct nl_table *t, struct nl_column *c)
{
    size_t numbers = 0;
    for (size_t i = 0; i < c->n_values; i++)
        numbers += reads_as_number(c->values[i]);
    bool number_type = c->type == TYPE_INTEGER || c->type == TYPE_NUMBER;
    c->numeric_text = c->type == TYPE_TEXT && c->n_values > 2 && numbers * 10 >= c->n_values * 7;
    c->is_numeric = number_type || c->numeric_text;
    c->is_id = name_has(&c->words, "id") || name_has(&c->words, "key") ||
               (c->words.n == 1 && name_has(&c->words, "code"));
    c->is_name = !c->is_id && c->type == TYPE_TEXT &&
                 (name_has(&c->words, "name") || name_has(&c->words, "title")) &&
                 !name_has(&c->words, "job") && !name_has(&c->words, "file");
    find_flag(c);
    c->is_unique = t->n_rows > 0 && !c->many_values && c->n_values >= (size_t)t->n_rows;
    /*
     * Of numbers no more than INTEGER_VALUES are known: a first column of ids with that many is
     * taken for a key.
     */
    bool many = c->n_values == 0 || c->many_values ||
                (c->type == TYPE_INTEGER && c->n_values >= INTEGER_VALUES);
    c->is_key = c->is_id && (c->is_unique || (t->columns == c && many));
    c->is_rate = STEM_IN(&c->words, "pct", "percent", "percentag", "rat", "ratio", "scor",
                         "temperatur", "temp", "pressur", "humidity", "vibration", "speed", "ag",
                         "pric", "level", "height", "weight", "averag", "mean", "grad", "discount",
                         "latitud", "longitud", "degre", "rank", "csat", "satisfaction", "rating",
                         "voltag", "intensity", "margin", "efficiency", "duration", "tim", "length",
                         "delay", "latency", "index", "siz") ||
                 STEM_IN(&c->words, "hpa", "kpa", "kw", "mw", "mph", "kph", "kmh", "rpm", "db",
                         "hz", "ppm") ||
                 (c->words.n > 1 && (ends_in(&c->words, "min") || ends_in(&c->words, "mins") ||
                                     ends_in(&c->words, "sec") || ends_in(&c->words, "ms") ||
                                     ends_in(&c->words, "days") || ends_in(&c->words, "seconds")));
    if (STEM_IN(&c->words, "total", "sum", "amount", "revenu", "sal"))
        c->is_rate = STEM_IN(&c->words, "pct", "percent", "percentag", "rat", "ratio", "averag");
    for (int i = 0; i < c->words.n; i++)
        for (int j = 0; j < t->words.n && c->words.n > 1; j++)
            if (strcmp(c->words.stems[i], t->words.stems[j]) == 0)
                c->words.weights[i] = 0.25;
}

/* What people said a column is for, over what its name and its values say. */
static void take_role(struct nl_column *c)
{
    if (!c->role)
        return;
    c->is_id = str_eq(c->role, "id");
    c->is_key = c->is_key && c->is_id;
    if (str_eq(c->role, "category") || str_eq(c->role, "text"))
        c->is_numeric = c->numeric_text = false;
    if (str_eq(c->role, "measure"))
        c->is_flag = false;
}

/*
 * The date that rows are counted by: the one that is called as they are ("appointment date"), else
 * when they began, rather than when they ended.
 */
int nl_own_date(const struct nl_table *t)
{
    static const char *const late[] = { "due",      "end",    "ship",     "deliver", "discharg",
                                        "resolv",   "clos",   "leav",     "left",    "expir",
                                        "updat",    "modif",  "repli",    "deadlin", "checkout",
                                        "return",   "cancel", "paid",     "pay",     "complet",
                                        "departur", "finish", "terminat", "last",    "exit",
                                        "resign",   "review", "promot",   "retir" };
    int best = -1, worst = 100;
    for (int c = 0; c < t->n_columns; c++) {
        const struct nl_name *n = &t->columns[c].words;
        int bad = 1;
        bool birth = false;
        for (int w = 0; w < n->n; w++) {
            for (int k = 0; k < t->words.n; k++)
                bad -= n->n > 1 && bad > 0 && str_eq(n->stems[w], t->words.stems[k]);
            birth |= strncmp(n->stems[w], "birth", 5) == 0 || str_eq(n->stems[w], "born") ||
                     str_eq(n->stems[w], "dob");
            for (size_t k = 0; k < ARRAY_SIZE(late); k++)
                bad += strncmp(n->stems[w], late[k], strlen(late[k])) == 0;
        }
        if (nl_is_date(&t->columns[c]) && !birth && bad < worst) {
            worst = bad;
            best = c;
        }
    }
    return best;
}

/*
 * A table of prices and quantities has a revenue, unless it has a column for that already, or
 * people have said what revenue is.
 */
static int add_revenue(struct nl_schema *s, int table, struct err *err)
{
    struct nl_table *t = &s->tables[table];
    struct nl_formula f = { .quantity = -1, .price = -1, .discount = -1 };
    for (int i = 0; i < s->n_metrics; i++)
        if (STEM_IN(&s->metrics[i].words, "revenu", "sal", "turnover"))
            return 0;
    for (int i = 0; i < t->n_columns; i++) {
        const struct nl_column *c = &t->columns[i];
        bool number = c->type == TYPE_INTEGER || c->type == TYPE_NUMBER;
        if (!number || c->is_id || c->is_flag)
            continue;
        if (STEM_IN(&c->words, "total", "amount", "revenu", "sal", "subtotal", "turnover", "valu",
                    "spend"))
            return 0;
        if (STEM_IN(&c->words, "discount")) {
            f.discount = i;
            f.percent = c->type == TYPE_INTEGER ||
                        STEM_IN(&c->words, "pct", "percent", "percentag");
        } else if (STEM_IN(&c->words, "quantity", "quantiti", "unit") &&
                   !STEM_IN(&c->words, "pric", "cost")) {
            f.quantity = f.quantity == -1 ? i : -2;
        } else if (STEM_IN(&c->words, "pric")) {
            f.price = f.price == -1 ? i : -2;
        }
    }
    if (f.quantity < 0 || f.price < 0)
        return 0;
    int c = nl_schema_add_column(s, table, "revenue", "DOUBLE", err);
    struct nl_formula *formula = c < 0 ? NULL : arena_alloc(&s->arena, sizeof(*formula));
    if (c < 0)
        return err->code == ERR_TOO_LARGE ? 0 : c;
    if (!formula)
        return no_memory(err);
    *formula = f;
    t->columns[c].formula = formula;
    t->columns[c].is_numeric = true;
    return 0;
}

bool nl_own_id(const struct nl_schema *s, int table, struct nl_ref *ret)
{
    const struct nl_table *t = &s->tables[table];
    int best = -1;
    for (int c = 0; c < t->n_columns; c++) {
        const struct nl_column *x = &t->columns[c];
        bool mine = x->words.n == 1 && x->is_id;
        for (int i = 0; i < x->words.n && !mine; i++)
            for (int j = 0; j < t->words.n && x->is_id; j++)
                mine |= strcmp(x->words.stems[i], t->words.stems[j]) == 0;
        if (mine && (best < 0 || (x->is_key && !t->columns[best].is_key)))
            best = c;
    }
    if (best < 0 && t->n_columns > 0 && t->columns[0].is_key)
        best = 0;
    *ret = (struct nl_ref){ table, best };
    return best >= 0;
}

static const char *const currencies[] = { "eur", "euro", "usd", "dollar", "gbp",
                                          "chf", "far",  "rent" };

/* Of several amounts, those that rows may lack are of some rows only: cash on delivery, claims. */
static void prefer_full(const struct nl_schema *s, struct nl_ref *ref)
{
    static const char *const words[] = { "amount", "total", "pric", "fee",
                                         "revenu", "sal",   "cost" };
    const struct nl_table *t = &s->tables[ref->table];
    int full = -1;
    for (int c = 0; c < t->n_columns && t->columns[ref->column].has_nulls; c++) {
        const struct nl_column *x = &t->columns[c];
        if (x->is_numeric && !x->is_id && !x->is_flag && !x->has_nulls && !x->formula &&
            (stem_in(&x->words, words, ARRAY_SIZE(words)) ||
             stem_in(&x->words, currencies, ARRAY_SIZE(currencies))))
            full = full == -1 ? c : -2;
    }
    if (full >= 0)
        ref->column = full;
}

bool nl_money_measure(const struct nl_schema *s, int table, struct nl_ref *ret)
{
    static const char *const words[] = { "revenu", "total", "amount", "sal", "valu",
                                         "spend",  "pric",  "cost",   "fee", "salary",
                                         "pay",    "incom", "budget" };
    const struct nl_table *t = &s->tables[table];
    for (size_t w = 0; w < ARRAY_SIZE(words); w++)
        for (int c = 0; c < t->n_columns; c++)
            if (t->columns[c].is_numeric && !t->columns[c].is_id && !t->columns[c].is_serial &&
                !t->columns[c].is_flag && stem_in(&t->columns[c].words, &words[w], 1)) {
                *ret = (struct nl_ref){ table, c };
                prefer_full(s, ret);
                return true;
            }
    int only = -1; /* what is in euros */
    for (int c = 0; c < t->n_columns; c++)
        if (t->columns[c].is_numeric && !t->columns[c].is_flag &&
            stem_in(&t->columns[c].words, currencies, ARRAY_SIZE(currencies)))
            only = only == -1 ? c : -2;
    *ret = (struct nl_ref){ table, only };
    return only >= 0;
}

bool nl_main_measure(const struct nl_schema *s, int table, struct nl_ref *ret)
{
    const struct nl_table *t = &s->tables[table];
    int only = -1;
    if (nl_money_measure(s, table, ret))
        return true;
    for (int c = 0; c < t->n_columns; c++)
        if (t->columns[c].is_numeric && !t->columns[c].is_id && !t->columns[c].is_serial &&
            !t->columns[c].is_flag && !nl_is_year(&t->columns[c]))
            only = only == -1 ? c : -2;
    *ret = (struct nl_ref){ table, only };
    return only >= 0;
}

static size_t hash_of(const char *key, size_t n_buckets)
{
    size_t h = 1469598103934665603u;
    for (; *key; key++)
        h = (h ^ (unsigned char)*key) * 1099511628211u;
    return h % n_buckets;
}

static int index_key(struct nl_schema *s, int table, int column, const char *text, const char *key,
                     bool is_part, struct err *err)
{
    struct nl_value *v = arena_alloc(&s->arena, sizeof(*v));
    if (!key || !v)
        return no_memory(err);
    if (!*key)
        return 0;
    struct nl_value **bucket = &s->buckets[hash_of(key, s->n_buckets)];
    *v = (struct nl_value){ .next = *bucket,
                            .key = key,
                            .table = table,
                            .column = column,
                            .text = text,
                            .is_part = is_part };
    *bucket = v;
    return 0;
}

/* By the whole, and by each longer word of a few: "Spielberg" is found in "Steven Spielberg". */
static int index_value(struct nl_schema *s, int table, int column, const char *text,
                       struct err *err)
{
    const char *key = nl_value_key(&s->arena, text);
    int r = index_key(s, table, column, text, key, false, err), words = 1;
    for (const char *p = key; p && *p; p++)
        words += *p == ' ';
    for (const char *p = key; p && *p && words > 1 && words <= PART_WORDS_MAX && r >= 0;) {
        size_t n = strcspn(p, " ");
        const char *word = arena_strndup(&s->arena, p, n);
        if (!word)
            return no_memory(err);
        if (n >= PART_MIN_BYTES && !nl_is_stop(word))
            r = index_key(s, table, column, text, word, true, err);
        p += n;
        p += *p == ' ';
    }
    return r;
}

const struct nl_value *nl_find_value(const struct nl_schema *s, const char *key,
                                     const struct nl_value *after)
{
    const struct nl_value *v = after ? after->next : s->buckets[hash_of(key, s->n_buckets)];
    for (; v; v = v->next)
        if (strcmp(v->key, key) == 0 && s->tables[v->table].n_columns > 0)
            return v;
    return NULL;
}

/* Readings are checked against it, so that none is offered which the compiler would refuse. */
static void make_plan_schema(struct nl_schema *s)
{
    struct err err = ERR_INIT;
    json_t *tables = json_object();
    auto_json json_t *schema = json_pack("{s:o}", "tables", tables);
    for (int t = 0; schema && t < s->n_tables; t++) {
        json_t *columns = json_object();
        json_object_set_new(tables, s->tables[t].name, columns);
        for (int c = 0; c < s->tables[t].n_columns; c++)
            json_object_set_new(columns, s->tables[t].columns[c].name,
                                json_string(s->tables[t].columns[c].sql_type));
    }
    if (!schema || plan_schema_parse(schema, NULL, &s->arena, &s->plan_schema, &err) < 0)
        s->plan_schema = NULL;
}

int nl_schema_finish(struct nl_schema *s, struct err *err)
{
    s->n_buckets = BUCKETS;
    s->buckets = arena_alloc(&s->arena, s->n_buckets * sizeof(*s->buckets));
    if (!s->buckets)
        return no_memory(err);
    for (int t = 0; t < s->n_tables; t++)
        for (int c = 0; c < s->tables[t].n_columns; c++) {
            struct nl_column *col = &s->tables[t].columns[c];
            classify(&s->tables[t], col);
            take_role(col);
            for (size_t i = 0; i < col->n_values; i++) {
                int r = index_value(s, t, c, col->values[i], err);
                if (r < 0)
                    return r;
            }
        }
    nl_told_finish(s);
    make_plan_schema(s); /* before columns are added that the data does not have */
    int r = find_keys(s, err);
    if (r >= 0)
        r = find_value_keys(s, err);
    for (int i = 0; i < s->n_keys && r >= 0; i++) { /* numbers that tables join by name rows */
        struct nl_column *from = &s->tables[s->keys[i].from_table].columns[s->keys[i].from_column],
                         *to = &s->tables[s->keys[i].to_table].columns[s->keys[i].to_column];
        if (from->is_numeric && to->is_numeric && to->is_unique && from->words.n == 1 &&
            to->words.n == 1)
            from->is_id = to->is_id = true;
    }
    for (int t = 0; t < s->n_tables && r >= 0; t++)
        r = add_revenue(s, t, err);
    s->only = s->n_tables == 1 ? 0 : -1;
    s->finished = r >= 0;
    return r;
}
