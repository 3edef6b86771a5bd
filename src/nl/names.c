/* Names of tables and columns as words: "unitPrice", "stu_id", "bname". */

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/macros.h"
#include "base/str.h"
#include "nl/nl_impl.h"

#define WORD_MAX_BYTES 64

static bool is_frequent(const char *word, size_t n)
{
    char w[WORD_MAX_BYTES];
    struct nl_lex lex;
    if (n < 3 || n >= sizeof(w))
        return false;
    memcpy(w, word, n);
    w[n] = '\0';
    nl_lex_find(w, &lex);
    return lex.is_known && lex.vector;
}

/*
 * Where the second word begins in a name without a mark between its two: "unitprice",
 * "roomname", "bname". 0: it is one word.
 */
static size_t second_word(const char *w, size_t len)
{
    static const char *const heads[] = { "name", "date", "code", "price", "number" };
    struct nl_lex whole;
    if (len < 5 || len >= WORD_MAX_BYTES)
        return 0;
    nl_lex_find(w, &whole);
    if (whole.is_known)
        return 0;
    for (size_t i = 0; i < len; i++)
        if (!islower((unsigned char)w[i]))
            return 0;
    for (size_t i = 0; i < ARRAY_SIZE(heads); i++)
        if (len > strlen(heads[i]) && str_ends(w, heads[i]))
            return len - strlen(heads[i]);
    for (size_t i = len - 3; i >= 4 && len >= 8; i--)
        if (is_frequent(w, i) && is_frequent(w + i, len - i))
            return i;
    return 0;
}

/* What people write in names of columns for words that they say in full. */
static const struct {
    const char *shortened, *full;
} abbreviations[] = {
    { "acct", "account" },       { "addr", "address" },     { "amt", "amount" },
    { "approx", "approximate" }, { "appt", "appointment" }, { "avg", "average" },
    { "bal", "balance" },        { "cat", "category" },     { "chk", "check" },
    { "cnt", "count" },          { "cntry", "country" },    { "ctry", "country" },
    { "curr", "currency" },      { "cust", "customer" },    { "dept", "department" },
    { "dest", "destination" },   { "disc", "discount" },    { "dist", "distance" },
    { "div", "division" },       { "dt", "date" },          { "dur", "duration" },
    { "desc", "description" },   { "flg", "flag" },         { "haz", "hazardous" },
    { "rcv", "received" },       { "reord", "reorder" },    { "supp", "supplier" },
    { "vend", "vendor" },        { "emp", "employee" },     { "exp", "expiry" },
    { "prc", "price" },          { "est", "estimated" },    { "freq", "frequency" },
    { "grp", "group" },          { "hosp", "hospital" },    { "ht", "height" },
    { "inv", "invoice" },        { "lang", "language" },    { "loc", "location" },
    { "lvl", "level" },          { "mbr", "member" },       { "mfr", "manufacturer" },
    { "mgr", "manager" },        { "mth", "month" },        { "mthly", "monthly" },
    { "nbr", "number" },         { "nm", "name" },          { "num", "number" },
    { "orig", "origin" },        { "pkg", "package" },
    { "pmt", "payment" },      { "pop", "population" },
    { "prod", "product" },       { "proj", "project" },     { "pymt", "payment" },
    { "qtr", "quarter" },        { "qty", "quantity" },     { "rev", "revenue" },
    { "rpt", "report" },         { "spd", "speed" },        { "src", "source" },
    { "stn", "station" },        { "svc", "service" },      { "tel", "phone" },
    { "temp", "temperature" },   { "tot", "total" },        { "trx", "transaction" },
    { "txn", "transaction" },    { "usr", "user" },         { "veh", "vehicle" },
    { "vol", "volume" },         { "whse", "warehouse" },   { "wk", "week" },
    { "wt", "weight" },          { "yr", "year" },
};

const char *nl_in_full(const char *word)
{
    for (size_t i = 0; i < ARRAY_SIZE(abbreviations); i++)
        if (str_eq(abbreviations[i].shortened, word))
            return abbreviations[i].full;
    return NULL;
}

static int add_name_word(struct arena *a, struct nl_name *n, const char *s, size_t len)
{
    if (n->n == NL_MAX_WORDS || len == 0)
        return 0;
    char *w = arena_strndup(a, s, len);
    if (!w)
        return -1;
    for (char *c = w; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    const char *full = nl_in_full(w);
    if (full && !(w = arena_strdup(a, full)))
        return -1;
    /* fname and lname are what people write for first and last name. */
    static const struct {
        const char *word, *a, *b;
    } split[] = { { "fname", "first", "name" },     { "lname", "last", "name" },
                  { "firstname", "first", "name" }, { "lastname", "last", "name" },
                  { "forename", "first", "name" },  { "surname", "last", "name" },
                  { "dob", "birth", "date" },       { "zipcode", "zip", "code" },
                  { "birthdate", "birth", "date" } };
    for (size_t i = 0; i < ARRAY_SIZE(split); i++)
        if (strcmp(split[i].word, w) == 0)
            return add_name_word(a, n, split[i].a, strlen(split[i].a)) < 0 ?
                       -1 :
                       add_name_word(a, n, split[i].b, strlen(split[i].b));
    size_t w_len = strlen(w);
    if (w_len >= 3 && w_len <= 4 && strcmp(w + w_len - 2, "id") == 0 && strcmp(w, "paid") != 0 &&
        strcmp(w, "said") != 0 && strcmp(w, "grid") != 0 && strcmp(w, "bid") != 0 &&
        strcmp(w, "kid") != 0 && strcmp(w, "acid") != 0)
        return add_name_word(a, n, s, len - 2) < 0 ? -1 : add_name_word(a, n, "id", 2);
    size_t second = second_word(w, w_len);
    if (second > 0) {
        char *first = arena_strndup(a, w, second);
        return !first || add_name_word(a, n, first, second) < 0 ?
                   -1 :
                   add_name_word(a, n, w + second, w_len - second);
    }
    n->words[n->n] = w;
    n->shortened[n->n] = full ? arena_strndup(a, s, len) : NULL;
    n->stems[n->n] = nl_stem(a, w);
    static const char *const small[] = { "of", "the", "in", "by", "for", "and", "to",
                                         "at", "on",  "a",  "is", "or",  "per" };
    bool light = false;
    for (size_t i = 0; i < ARRAY_SIZE(small); i++)
        light |= strcmp(small[i], w) == 0;
    n->weights[n->n] = light ? 0.15 : n->n > 0 && strcmp(w, "id") == 0 ? 0.35 : 1;
    if (!n->stems[n->n])
        return -1;
    nl_synonym_groups(n->stems[n->n], n->synonyms[n->n]);
    n->lex[n->n] = nl_lex_of(a, n->words[n->n]);
    n->n++;
    return 0;
}

int nl_split_name(struct arena *a, const char *name, struct nl_name *ret)
{
    const char *p = name;
    ret->n = 0;
    while (*p) {
        while (*p && !isalnum((unsigned char)*p) && (unsigned char)*p < 0x80 && *p != '#' &&
               *p != '%')
            p++;
        const char *start = p;
        if (*p == '#' || *p == '%') {
            if (add_name_word(a, ret, *p == '#' ? "number" : "percentage", *p == '#' ? 6 : 10) < 0)
                return -1;
            p++;
            continue;
        }
        while (isalnum((unsigned char)*p) || (unsigned char)*p >= 0x80) {
            p++;
            bool camel = isupper((unsigned char)*p) && islower((unsigned char)p[-1]);
            bool acronym = isupper((unsigned char)*p) && isupper((unsigned char)p[-1]) &&
                           islower((unsigned char)p[1]) && p[1] != 's';
            bool digit = isdigit((unsigned char)*p) && isalpha((unsigned char)p[-1]) &&
                         p - start > 2;
            if (camel || acronym || digit)
                break;
        }
        /* "StuID", "courseid": the key at the end is a word of its own. */
        size_t len = (size_t)(p - start);
        if (len > 4 && strncasecmp(p - 2, "id", 2) == 0 &&
            (isupper((unsigned char)p[-2]) ||
             strchr("etnrky", tolower((unsigned char)p[-3])) != NULL) &&
            !isalnum((unsigned char)*p)) {
            if (add_name_word(a, ret, start, len - 2) < 0 || add_name_word(a, ret, "id", 2) < 0)
                return -1;
        } else if (add_name_word(a, ret, start, len) < 0) {
            return -1;
        }
    }
    return 0;
}

/* temperature_c, weight_kg, battery_pct: nobody says the unit. */
void nl_lighten_units(struct nl_name *n)
{
    static const char *const units[] = {
        "c",    "f",   "k",     "pct",  "percent", "hpa",     "pa",    "kpa",     "mm",
        "cm",   "m",   "km",    "kg",   "g",       "mg",      "lb",    "lbs",     "usd",
        "eur",  "gbp", "hours", "hrs",  "hour",    "minutes", "mins",  "seconds", "sec",
        "secs", "ms",  "s",     "days", "kwh",     "kw",      "mw",    "mph",     "kph",
        "kmh",  "ft",  "sqft",  "sqm",  "mb",      "gb",      "flag",  "€",       "$",
        "£",    "¥",   "chf",   "°c",   "°f",      "°",       "degc",  "degf",    "celsius",
        "l",    "ml",  "m2",    "m3",   "m²",      "m³",      "wh",    "mwh",     "w",
        "v",    "bar", "rpm",   "hz",   "inch",    "oz",      "dkk",   "sek",     "nok",
        "pln",  "czk", "min",   "yrs",  "years",   "months",  "weeks", "h",       "hr"
    };
    for (int i = n->n - 1; i > 0; i--) {
        bool unit = false;
        for (size_t k = 0; k < ARRAY_SIZE(units); k++)
            unit |= strcmp(units[k], n->words[i]) == 0;
        if (!unit)
            break;
        n->weights[i] = 0.2;
    }
}
