/* Numbers as people write them. */

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "base/macros.h"
#include "kernel/ingest/value.h"

#define MAX_DIGITS 17     /* what a double can keep */
#define MAX_INT_DIGITS 18 /* what 64 bits can */
#define MAX_GROUPS 12

static const struct {
    char thousands, decimal;
    const char *shown;
} notations[] = {
    [NUMBER_PLAIN] = { 0, '.', "" },
    [NUMBER_COMMA] = { 0, ',', "" },
    [NUMBER_COMMAS_POINT] = { ',', '.', "," },
    [NUMBER_POINTS_COMMA] = { '.', ',', "." },
    [NUMBER_SPACES_POINT] = { ' ', '.', " " },
    [NUMBER_SPACES_COMMA] = { ' ', ',', " " },
    [NUMBER_QUOTES_POINT] = { '\'', '.', "'" },
    [NUMBER_QUOTES_COMMA] = { '\'', ',', "'" },
};

char number_decimal(enum number_notation n)
{
    return notations[n].decimal;
}

const char *number_thousands(enum number_notation n)
{
    return notations[n].shown;
}

size_t value_space(const char *s, size_t len)
{
    if (len == 0)
        return 0;
    if (s[0] == ' ' || s[0] == '\t' || s[0] == '\r' || s[0] == '\n' || s[0] == '\f' || s[0] == '\v')
        return 1;
    if (len >= 2 && memcmp(s, "\xc2\xa0", 2) == 0)
        return 2;
    if (len >= 3 && (memcmp(s, "\xe2\x80\xaf", 3) == 0 || memcmp(s, "\xe2\x80\x89", 3) == 0 ||
                     memcmp(s, "\xe3\x80\x80", 3) == 0))
        return 3;
    return 0;
}

void value_trim(const char **s, size_t *len)
{
    size_t n;

    while ((n = value_space(*s, *len)) > 0) {
        *s += n;
        *len -= n;
    }
    while (*len > 0) {
        if (value_space(*s + *len - 1, 1))
            *len -= 1;
        else if (*len >= 2 && value_space(*s + *len - 2, 2) == 2)
            *len -= 2;
        else if (*len >= 3 && value_space(*s + *len - 3, 3) == 3)
            *len -= 3;
        else
            break;
    }
}

/* ---- what stands before and behind ---- */

static const char *const currencies[] = {
    "$",
    "\xe2\x82\xac",
    "\xc2\xa3",
    "\xc2\xa5",
    "\xe2\x82\xb9",
    "\xe2\x82\xbd",
    "\xe2\x82\xa9",
    "US$",
    "R$",
    "C$",
    "A$",
    "CHF",
    "Fr.",
    "SFr.",
    "EUR",
    "USD",
    "GBP",
    "JPY",
    "CNY",
    "INR",
    "SEK",
    "NOK",
    "DKK",
    "PLN",
    "CZK",
    "HUF",
    "BRL",
    "CAD",
    "AUD",
    "MXN",
    "ZAR",
    "TRY",
    "RUB",
    "KRW",
    "SGD",
    "HKD",
    "NZD",
    "kr",
    "kr.",
    "z\xc5\x82",
    "K\xc4\x8d",
    "Ft",
    "Rs",
    "Rs.",
    "AED",
    "Euro",
    "euro",
    "\xe2\x82\xba",
    "\xe0\xb8\xbf",
    "\xef\xbf\xa5",
    "\xef\xbc\x84",
    "\xe5\x86\x86",
    "\xe5\x85\x83", /* ￥ ＄ 円 元 */
    "\\",           /* the yen sign of Shift-JIS */
};

static const char *const units[] = {
    "kg",
    "g",
    "mg",
    "t",
    "lb",
    "lbs",
    "oz",
    "m",
    "cm",
    "mm",
    "km",
    "mi",
    "ft",
    "in",
    "yd",
    "l",
    "L",
    "ml",
    "mL",
    "cl",
    "kWh",
    "MWh",
    "GWh",
    "Wh",
    "W",
    "kW",
    "MW",
    "h",
    "hr",
    "hrs",
    "min",
    "mins",
    "s",
    "sec",
    "secs",
    "ms",
    "d",
    "days",
    "day",
    "years",
    "yrs",
    "pcs",
    "pc",
    "stk",
    "Stk",
    "\xc2\xb0"
    "C",
    "\xc2\xb0"
    "F",
    "\xc2\xb0",
    "GB",
    "MB",
    "kB",
    "KB",
    "TB",
    "px",
    "rpm",
    "bar",
    "Pa",
    "kPa",
    "hPa",
    "V",
    "Hz",
    "kHz",
    "MHz",
    "GHz",
    "kcal",
    "cal",
    "kJ",
    "km/h",
    "mph",
    "m/s",
    "ha",
    "mm2",
    "pt",
    "pts",
    "ppm",
    "dB",
    "bps",
    "items",
    "units",
    "hours",
    "Std",
    "Tage",
    "m\xc2\xb2",
    "m\xc2\xb3",
    "km\xc2\xb2",
    "\xc2\xb5g",
    "gal",
    "inch",
    "Uhr",
    "minutes",
};

static size_t longest_of(const char *const *words, size_t n, const char *s, size_t len, bool whole)
{
    size_t best = 0;

    for (size_t i = 0; i < n; i++) {
        size_t k = strlen(words[i]);

        if (k > best && (whole ? k == len : k <= len) && memcmp(words[i], s, k) == 0)
            best = k;
    }
    return best;
}

static void set_affix(struct number *n, enum affix_kind kind, const char *s, size_t len)
{
    n->affix = kind;
    n->affix_text = s;
    n->affix_len = len;
}

static bool take_sign(const char **s, size_t *len, struct number *n)
{
    size_t k = 0;

    if (*len > 0 && ((*s)[0] == '-' || (*s)[0] == '+')) {
        n->negative = (*s)[0] == '-';
        n->plus = (*s)[0] == '+';
        k = 1;
    } else if (*len >= 3 && memcmp(*s, "\xe2\x88\x92", 3) == 0) {
        n->negative = true;
        k = 3;
    }
    *s += k;
    *len -= k;
    return k > 0;
}

static bool take_brackets(const char **s, size_t *len)
{
    if (*len <= 2 || (*s)[0] != '(' || (*s)[*len - 1] != ')')
        return false;
    *s += 1;
    *len -= 2;
    value_trim(s, len);
    return true;
}

/*
 * 150 bpm, 12 stores: a word behind a space may be a unit, if the whole column has it. Streets (12
 * Main), months (12 Mar) and halves of a day are none.
 */
static bool is_word(const char *before, const char *s, size_t len)
{
    char day[40];
    struct when w;
    size_t n = 0, capitals = 0;

    for (size_t i = 0; i < len; i++) {
        if (!isalpha((unsigned char)s[i]) && !(s[i] & 0x80))
            return false;
        n += ((unsigned char)s[i] & 0xc0) != 0x80;
        capitals += isupper((unsigned char)s[i]) != 0;
    }
    if (!value_space(before, 1) || n < 2 || n > 12 || (capitals > 0 && capitals < n && n > 2) ||
        strncasecmp(s, "am", len) == 0 || strncasecmp(s, "pm", len) == 0)
        return false;
    snprintf(day, sizeof(day), "1 %.*s 2024", (int)MIN_OF(len, sizeof(day) - 8), s);
    return !when_parse(day, strlen(day), &w);
}

/* Everything that is no part of the digits. False: it is no number. */
static bool take_affixes(const char **s, size_t *len, struct number *n)
{
    bool sign = false, brackets = take_brackets(s, len);
    size_t k, digits;

    sign = take_sign(s, len, n);
    value_trim(s, len);
    if (*len > 0 && !isdigit((unsigned char)(*s)[0]) && (*s)[0] != '.' && (*s)[0] != ',') {
        k = longest_of(currencies, ARRAY_SIZE(currencies), *s, *len, false);
        if (k == 0)
            return false;
        set_affix(n, AFFIX_CURRENCY, *s, k);
        *s += k;
        *len -= k;
        value_trim(s, len);
        if (!sign && !brackets)
            brackets = take_brackets(s, len); /* $(50.00) */
        if (!sign)
            sign = take_sign(s, len, n);
        value_trim(s, len);
    }
    for (digits = *len; digits > 0 && !isdigit((unsigned char)(*s)[digits - 1]); digits--)
        ;
    if (digits == 0)
        return false;
    if (digits < *len) {
        const char *rest = *s + digits;
        size_t rest_len = *len - digits;

        if (rest_len == 1 && *rest == '.') { /* 5. */
            digits++;
            rest_len = 0;
        } else if (rest_len == 2 && rest[0] == '.' && rest[1] == '-') { /* 5.- in Switzerland */
            rest_len = 0;
        } else if (*rest == '-' && !sign && !brackets &&
                   (rest_len == 1 || value_space(rest + 1, rest_len - 1))) {
            n->negative = sign = true;
            rest++;
            rest_len--;
        }
        value_trim(&rest, &rest_len);
        if (rest_len > 0 && n->affix != AFFIX_NONE)
            return false;
        if (rest_len == 1 && *rest == '%')
            set_affix(n, AFFIX_PERCENT, rest, 1);
        else if (rest_len > 0 &&
                 longest_of(currencies, ARRAY_SIZE(currencies), rest, rest_len, true))
            set_affix(n, AFFIX_CURRENCY, rest, rest_len);
        else if (rest_len > 0 && longest_of(units, ARRAY_SIZE(units), rest, rest_len, true))
            set_affix(n, AFFIX_UNIT, rest, rest_len);
        else if (rest_len > 0 && is_word(rest - 1, rest, rest_len)) {
            set_affix(n, AFFIX_UNIT, rest, rest_len);
            n->worded = true;
        } else if (rest_len > 0)
            return false;
        *len = digits;
    }
    if (brackets && (sign || n->affix == AFFIX_UNIT))
        return false;
    n->negative = n->negative || brackets;
    return true;
}

/* ---- the digits ---- */

struct groups {
    size_t n;
    unsigned digits[MAX_GROUPS];
    char sign[MAX_GROUPS]; /* before group i; 0 for the first */
    size_t exponent;       /* where it begins; 0: none */
};

/* The sign between digits at s: ' for all apostrophes, a space for all spaces. */
static size_t sign_at(const char *s, size_t len, char *ret)
{
    size_t n = value_space(s, len);

    *ret = ' ';
    if (n > 0)
        return s[0] == '\n' || s[0] == '\r' ? 0 : n;
    *ret = s[0];
    if (s[0] == '.' || s[0] == ',' || s[0] == '\'')
        return 1;
    *ret = '\'';
    return len >= 3 && memcmp(s, "\xe2\x80\x99", 3) == 0 ? 3 : 0;
}

static bool split(const char *s, size_t len, bool negative, struct groups *g)
{
    size_t i = 0;

    *g = (struct groups){ .n = 1 };
    while (i < len) {
        char sign;
        size_t n;

        if (isdigit((unsigned char)s[i])) {
            g->digits[g->n - 1]++;
            i++;
            continue;
        }
        if ((s[i] == 'e' || s[i] == 'E') && i > 0) {
            size_t k = i + 1;

            if (k < len && (s[k] == '+' || s[k] == '-'))
                k++;
            else if (g->n == 1 && !negative) /* 12E3 is an article */
                return false;
            if (k == len || len - k > 3)
                return false;
            for (; k < len; k++)
                if (!isdigit((unsigned char)s[k]))
                    return false;
            g->exponent = i;
            return true;
        }
        n = sign_at(s + i, len - i, &sign);
        if (n == 0 || g->n == MAX_GROUPS)
            return false;
        g->sign[g->n++] = sign;
        i += n;
    }
    return true;
}

static bool fits(const struct groups *g, enum number_notation notation)
{
    char thousands = notations[notation].thousands, decimal = notations[notation].decimal;
    size_t n_whole = g->n;

    if (g->n > 1 && g->sign[g->n - 1] == decimal)
        n_whole--;
    if (n_whole == 1)
        return g->digits[0] > 0 || (g->n == 2 && g->digits[1] > 0);
    if (!thousands || g->exponent || g->digits[0] == 0 || g->digits[0] > 3 ||
        g->digits[n_whole - 1] != 3)
        return false;
    for (size_t i = 1; i < n_whole; i++) {
        bool indian = thousands == ',' && g->digits[i] == 2 && g->digits[0] <= 2;

        if (g->sign[i] != thousands || (g->digits[i] != 3 && !indian))
            return false;
    }
    return true;
}

bool number_parse(const char *s, size_t len, struct number *ret)
{
    struct groups g;
    unsigned zeros = 0, digits = 0;

    *ret = (struct number){ 0 };
    value_trim(&s, &len);
    if (len == 0 || len > 48 || !take_affixes(&s, &len, ret) || !split(s, len, ret->negative, &g))
        return false;
    for (size_t i = 0; i < g.n; i++)
        digits += g.digits[i];
    while (zeros < g.digits[0] && s[zeros] == '0')
        zeros++;
    if (zeros > 0 &&
        (g.digits[0] > 1 || (g.n > 1 && g.sign[g.n - 1] != '.' && g.sign[g.n - 1] != ',')))
        return false; /* 007 and 0 123 are names of something */
    if (digits > (g.n > 1 || g.exponent ? MAX_DIGITS : MAX_INT_DIGITS))
        return false;
    for (int k = 0; k < _NUMBER_NOTATION_MAX; k++)
        if (fits(&g, (enum number_notation)k))
            ret->notations |= 1u << k;
    if (zeros == 1 && g.n > 1)
        for (int k = 0; k < _NUMBER_NOTATION_MAX; k++)
            if (g.sign[g.n - 1] != notations[k].decimal)
                ret->notations &= ~(1u << k);
    if (ret->notations == 0)
        return false;
    ret->separated = g.n > 1;
    ret->spaced = memchr(g.sign, ' ', sizeof(g.sign)) != NULL;
    if (g.n == 2 && g.digits[1] == 3 && zeros == 0 && !g.exponent)
        ret->perhaps = g.sign[1];
    else
        ret->decimals = g.exponent || g.n == 2 || (g.n > 2 && g.sign[g.n - 1] != g.sign[g.n - 2]);
    ret->n_digits = digits;
    ret->body = s;
    ret->body_len = len;
    return true;
}

/* "12.5" → "0.125" by moving the point: dividing would change digits. */
static size_t move_point(char *text, size_t n)
{
    char digits[NUMBER_TEXT_MAX], out[NUMBER_TEXT_MAX];
    size_t k = 0, whole, sign = text[0] == '-', at = 0;
    char *point = memchr(text, '.', n);

    if (memchr(text, 'e', n) || memchr(text, 'E', n) || n + 4 > NUMBER_TEXT_MAX)
        return n;
    whole = (size_t)((point ? point : text + n) - text) - sign;
    for (size_t i = sign; i < n; i++)
        if (text[i] != '.')
            digits[k++] = text[i];
    if (sign)
        out[at++] = '-';
    if (whole <= 2) {
        out[at++] = '0';
        out[at++] = '.';
        for (size_t i = whole; i < 2; i++)
            out[at++] = '0';
        memcpy(out + at, digits, k);
        at += k;
    } else {
        memcpy(out + at, digits, whole - 2);
        at += whole - 2;
        out[at++] = '.';
        memcpy(out + at, digits + whole - 2, k - (whole - 2));
        at += k - (whole - 2);
    }
    memcpy(text, out, at);
    return at;
}

size_t number_write(const struct number *n, enum number_notation notation,
                    char ret[NUMBER_TEXT_MAX])
{
    char decimal = notations[notation].decimal;
    size_t at = 0;

    if (n->negative)
        ret[at++] = '-';
    for (size_t i = 0; i < n->body_len && at + 4 < NUMBER_TEXT_MAX; i++) {
        char c = n->body[i];

        if (isdigit((unsigned char)c) || c == 'e' || c == 'E' ||
            ((c == '-' || c == '+') && i > 0)) {
            ret[at++] = c;
        } else if (c == decimal) {
            if (at == n->negative)
                ret[at++] = '0';
            ret[at++] = '.';
        }
    }
    if (at > 0 && ret[at - 1] == '.')
        at--;
    return n->affix == AFFIX_PERCENT ? move_point(ret, at) : at;
}

/* ---- words ---- */

/* [c], [x], [low]: why a statistical office leaves a figure out. */
static bool is_shorthand(const char *s, size_t len)
{
    if (len < 3 || len > 6 || s[0] != '[' || s[len - 1] != ']')
        return false;
    for (size_t i = 1; i + 1 < len; i++)
        if (s[i] < 'a' || s[i] > 'z')
            return false;
    return true;
}

bool is_null_word(const char *s, size_t len)
{
    static const char *const words[] = {
        "n/a",
        "na",
        "n.a.",
        "#n/a",
        "null",
        "none",
        "nil",
        "nan",
        "-",
        "--",
        "---",
        "?",
        ".",
        "..",
        "...",
        "missing",
        "unknown",
        "\\n",
        "<na>",
        "nd",
        "n.d.",
        "k.a.",
        "k. a.",
        "s/o",
        "#null!",
        "#div/0!",
        "#value!",
        "#ref!",
        "#name?",
        "#num!",
        "tbd",
        "(null)",
        "(blank)",
        "(leer)",
        "\xe2\x80\x93",
        "\xe2\x80\x94",
        "*",
        "not available",
        "void",
        "#n/v",
        "n.v.",
        "not applicable",
        "<null>",
        "-nan",
        "[null]",
        "empty",
        "(none)",
        ":",
        "\xe2\x80\xa6",
        "#nv",
        "#nd",
        "n/d",
        "n/v",
        "n.c.",
        "s/d",
        "sin dato",
        "sin datos",
        "no data",
        "not reported",
        "keine angabe",
        "k.a",
        "kA",
        "00.00.0000",
        "00/00/0000",
        "0000-00-00",
        "0000/00/00",
    };

    if (len == 0 || len > 14 || (isdigit((unsigned char)s[0]) && s[0] != '0'))
        return false;
    if (len > 1 && s[len - 1] == '-') { /* "$ -": nothing, as accountants write it */
        size_t sign = longest_of(currencies, ARRAY_SIZE(currencies), s, len, false), rest = sign;

        while (sign > 0 && rest < len && s[rest] == ' ')
            rest++;
        if (sign > 0 && rest + 1 == len)
            return true;
    }
    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (strlen(words[i]) == len && strncasecmp(words[i], s, len) == 0)
            return true;
    return is_shorthand(s, len);
}

enum value_kind value_kind(const char *s, size_t len)
{
    struct number n;
    struct when w;

    value_trim(&s, &len);
    if (len == 0)
        return VALUE_EMPTY;
    if (is_null_word(s, len))
        return VALUE_NULL_WORD;
    if (number_parse(s, len, &n) && !n.worded)
        return VALUE_NUMBER;
    return when_parse(s, len, &w) ? VALUE_WHEN : VALUE_TEXT;
}
