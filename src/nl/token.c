/*
 * Words: of questions, of names, of values. Stems, numbers in words, edit distance, and how well
 * two words agree.
 */

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/str.h"
#include "nl/frame.h"

#define WORD_MAX_BYTES 64

/* "average", "most": what to do, and no other way to write a name. */
static bool is_operator(const char *word)
{
    for (size_t i = 0; i < fr_n_phrases; i++)
        if (((int)fr_phrases[i].mark == FM_AGG || (int)fr_phrases[i].mark == FM_SUPER ||
             (int)fr_phrases[i].mark == FM_COUNT || (int)fr_phrases[i].mark == FM_SHARE) &&
            strcmp(fr_phrases[i].words, word) == 0)
            return true;
    /* "coldest": of an adjective */
    struct nl_lex lex;
    char base[WORD_MAX_BYTES];
    size_t n = strlen(word);
    if (n < 6 || n >= sizeof(base) || strcmp(word + n - 3, "est") != 0)
        return false;
    memcpy(base, word, n - 2);
    base[n - 2] = '\0'; /* with its e */
    nl_lex_find(base, &lex);
    if (!lex.is_other) {
        base[n - 3] = '\0';
        nl_lex_find(base, &lex);
    }
    return lex.is_other;
}

static const char *const stop_words[] = {
    "a",
    "an",
    "the",
    "of",
    "is",
    "are",
    "was",
    "were",
    "be",
    "been",
    "do",
    "does",
    "did",
    "have",
    "has",
    "had",
    "we",
    "us",
    "me",
    "i",
    "you",
    "my",
    "our",
    "your",
    "their",
    "its",
    "his",
    "her",
    "it",
    "they",
    "them",
    "he",
    "she",
    "there",
    "here",
    "this",
    "these",
    "those",
    "that",
    "which",
    "who",
    "whom",
    "whose",
    "what",
    "when",
    "where",
    "how",
    "show",
    "list",
    "find",
    "give",
    "return",
    "tell",
    "display",
    "get",
    "please",
    "can",
    "could",
    "would",
    "will",
    "for",
    "from",
    "with",
    "to",
    "in",
    "on",
    "at",
    "by",
    "as",
    "and",
    "or",
    "all",
    "any",
    "some",
    "s",
    "also",
    "so",
    "if",
    "than",
    "then",
    "much",
    "many",
    "such",
    "only",
    "just",
    "into",
    "out",
    "up",
    "about",
    "own",
    "ever",
    "both",
    "along",
    "corresponding",
    "respective",
    "different",
    "distinct",
    "every",
    "each",
    "per",
    "through",
    "during",
    "within",
    "between",
    "among",
    "across",
    "number",
    "total",
    "count",
    "result",
    "results",
    "record",
    "records",
    "row",
    "rows",
    "listed",
    "contain",
    "contains",
    "exist",
    "exists",
    "available",
    "currently",
    "respectively",
    "together",
    "associated",
    "based",
    "order",
    "sorted",
    "ordered",
    "sort",
    "called",
    "named",
    "retrieve",
    "report",
    "select",
    "determine",
    "calculate",
    "compute",
    "provide",
    "want",
    "know",
    "like",
    "see",
    "look",
    "take",
    "make",
    "made",
    "not",
    "no",
    "yes",
    "but",
    "other",
    "used",
    "use",
    "using",
    "including",
    "include",
    "whole",
    "overall",
    "entire",
    "database",
    "table",
    "data",
    "dataset",
    "information",
    "info",
    "details",
    "having",
    "being",
    "one",
    "ones",
    "belong",
    "belongs",
    "given",
    "itself",
    "kind",
    "kinds",
    "present",
    "existing",
    "possible",
    "recorded",
    "registered",
    "stored",
    "shown",
    "appear",
    "appears",
    "value",
    "values",
    "same",
    "least",
    "most",
    "more",
    "less",
    "s'",
    "after",
    "before",
    "first",
    "last",
    "play",
    "played",
    "still",
    "came",
    "come",
    "comes",
    "arrived",
    "went",
    "go",
    "goes",
    "happened",
    "occurred",
    "detected",
    "placed",
    "our",
    "level",
    "levels",
    "currently",
    "s",
    "what's",
    "during",
    "ago",
    "seen",
    "let",
    "now",
    "really",
    "did",
    "draw",
    "plot",
    "chart",
};

bool nl_is_stop(const char *word)
{
    for (size_t i = 0; i < ARRAY_SIZE(stop_words); i++)
        if (strcmp(stop_words[i], word) == 0)
            return true;
    return false;
}

static const struct {
    const char *word, *stem;
} irregular[] = {
    { "people", "person" },   { "men", "man" },         { "women", "woman" },
    { "children", "child" },  { "feet", "foot" },       { "teeth", "tooth" },
    { "mice", "mouse" },      { "news", "news" },       { "series", "series" },
    { "species", "species" }, { "born", "birth" },      { "sold", "sell" },
    { "paid", "pay" },        { "spent", "spend" },     { "bought", "buy" },
    { "won", "win" },         { "lost", "loss" },       { "media", "media" },
    { "status", "status" },   { "statuses", "status" }, { "address", "address" },
    { "bus", "bus" },         { "buses", "bus" },       { "taught", "teach" },
    { "held", "hold" },       { "wives", "wife" },      { "lives", "liv" },
    { "movie", "movi" },      { "movies", "movi" },     { "his", "his" },
    { "this", "this" },       { "is", "is" },           { "was", "was" },
    { "has", "has" },         { "us", "us" },           { "min", "minimum" },
    { "max", "maximum" },     { "avg", "averag" },      { "qty", "quantity" },
    { "num", "number" },      { "nbr", "number" },      { "dob", "birth" },
    { "wins", "win" },        { "losses", "loss" },     { "countries", "country" },
};

const char *nl_stem(struct arena *a, const char *word)
{
    char w[WORD_MAX_BYTES];
    size_t n = strlen(word);
    for (size_t i = 0; i < ARRAY_SIZE(irregular); i++)
        if (strcmp(irregular[i].word, word) == 0)
            return irregular[i].stem;
    if (n >= sizeof(w) || n < 3 || isdigit((unsigned char)word[0]))
        return arena_strdup(a, word);
    memcpy(w, word, n + 1);
    if (n > 3 && w[n - 1] == 's') {
        if (n > 4 && strcmp(w + n - 3, "ies") == 0) {
            strcpy(w + n - 3, "y");
            n -= 2;
        } else if (n > 4 && (strcmp(w + n - 4, "sses") == 0 || strcmp(w + n - 4, "ches") == 0 ||
                             strcmp(w + n - 4, "shes") == 0 || strcmp(w + n - 3, "xes") == 0 ||
                             strcmp(w + n - 3, "zes") == 0)) {
            w[n -= 2] = '\0';
        } else if (w[n - 2] != 's' && w[n - 2] != 'u' && w[n - 2] != 'i') {
            w[--n] = '\0';
        }
    }
    if (n > 5 && strcmp(w + n - 3, "ing") == 0) {
        w[n -= 3] = '\0';
        if (n > 3 && w[n - 1] == w[n - 2] && w[n - 1] != 's' && w[n - 1] != 'l')
            w[--n] = '\0';
    } else if (n > 4 && strcmp(w + n - 2, "ed") == 0) {
        w[n -= 2] = '\0';
        if (n > 3 && w[n - 1] == w[n - 2] && w[n - 1] != 's' && w[n - 1] != 'l')
            w[--n] = '\0';
    }
    if (n > 3 && w[n - 1] == 'e')
        w[--n] = '\0';
    return arena_strdup(a, w);
}

/* ---- numbers ---- */

static const char *const number_words[] = { "zero",    "one",       "two",      "three",
                                            "four",    "five",      "six",      "seven",
                                            "eight",   "nine",      "ten",      "eleven",
                                            "twelve",  "thirteen",  "fourteen", "fifteen",
                                            "sixteen", "seventeen", "eighteen", "nineteen" };
static const char *const ten_words[] = { "twenty", "thirty",  "forty",  "fifty",
                                         "sixty",  "seventy", "eighty", "ninety" };
static const char *const ordinal_words[] = { "zeroth", "first",    "second",  "third",  "fourth",
                                             "fifth",  "sixth",    "seventh", "eighth", "ninth",
                                             "tenth",  "eleventh", "twelfth" };

bool nl_number_word(const char *word, double *ret)
{
    for (size_t i = 0; i < ARRAY_SIZE(number_words); i++)
        if (strcmp(word, number_words[i]) == 0)
            return *ret = (double)i, true;
    for (size_t i = 0; i < ARRAY_SIZE(ten_words); i++)
        if (strcmp(word, ten_words[i]) == 0)
            return *ret = (double)(20 + 10 * i), true;
    if (strcmp(word, "hundred") == 0)
        return *ret = 100, true;
    if (strcmp(word, "thousand") == 0)
        return *ret = 1000, true;
    if (strcmp(word, "million") == 0)
        return *ret = 1e6, true;
    if (strcmp(word, "billion") == 0)
        return *ret = 1e9, true;
    return false;
}

/* "1,234.5", "$40", "12k", "30%", "3rd". */
static bool read_number(const char *w, double *ret, bool *ret_ordinal)
{
    char digits[WORD_MAX_BYTES];
    size_t n = 0;
    bool seen = false, point = false;
    *ret_ordinal = false;
    if (*w == '$')
        w++;
    if (*w == '-' && isdigit((unsigned char)w[1]))
        digits[n++] = *w++;
    for (; *w && n + 1 < sizeof(digits); w++) {
        if (isdigit((unsigned char)*w)) {
            digits[n++] = *w;
            seen = true;
        } else if (*w == '.' && !point && isdigit((unsigned char)w[1])) {
            digits[n++] = *w;
            point = true;
        } else if (*w == ',' && seen && isdigit((unsigned char)w[1])) {
            continue;
        } else {
            break;
        }
    }
    if (!seen)
        return false;
    digits[n] = '\0';
    *ret = strtod(digits, NULL);
    if (!*w || strcmp(w, "%") == 0)
        return true;
    if (strcmp(w, "k") == 0)
        return *ret *= 1e3, true;
    if (strcmp(w, "m") == 0)
        return *ret *= 1e6, true;
    if (strcmp(w, "st") == 0 || strcmp(w, "nd") == 0 || strcmp(w, "rd") == 0 ||
        strcmp(w, "th") == 0)
        return *ret_ordinal = true;
    return false;
}

/* ---- questions ---- */

static bool is_word_byte(unsigned char c)
{
    return isalnum(c) || c >= 0x80 || c == '$' || c == '%' || c == '&' || c == '+' || c == '@';
}

static int add_token(struct arena *a, struct nl_tokens *q, const char *s, size_t len, bool quoted)
{
    if (q->n == NL_MAX_TOKENS || len == 0)
        return 0;
    struct nl_token *t = &q->t[q->n];
    *t = (struct nl_token){ .quoted = quoted };
    char *lower = arena_strndup(a, s, len);
    t->raw = arena_strndup(a, s, len);
    if (!lower || !t->raw)
        return -1;
    for (char *c = lower; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    t->capital = isupper((unsigned char)s[0]);
    t->text = lower;
    const char *full = quoted ? NULL : nl_in_full(lower);
    const struct nl_lex *known = full ? nl_lex_of(a, lower) : NULL;
    if (known && known->is_known)
        full = NULL; /* a cat is no category, unless in the name of a column */
    t->stem = quoted ? nl_value_key(a, lower) : nl_stem(a, full ? full : lower);
    if (!t->stem)
        return -1;
    nl_synonym_groups(t->stem, t->synonyms);
    t->lex = quoted ? NULL : nl_lex_of(a, t->text);
    t->is_operator = !quoted && is_operator(t->text);
    t->is_number = read_number(lower, &t->number, &t->is_ordinal);
    if (!t->is_number && !quoted) {
        t->is_number = nl_number_word(lower, &t->number);
        for (size_t i = 3; i < ARRAY_SIZE(ordinal_words); i++)
            if (strcmp(lower, ordinal_words[i]) == 0) {
                t->is_number = t->is_ordinal = true;
                t->number = (double)i;
            }
    }
    t->is_stop = !quoted && nl_is_stop(lower);
    q->n++;
    return 0;
}

/* "two million", "twenty five": one number. */
static void join_numbers(struct nl_tokens *q)
{
    int n = 0;
    for (int i = 0; i < q->n; i++) {
        struct nl_token *t = &q->t[i], *before = n > 0 ? &q->t[n - 1] : NULL;
        bool is_word = t->is_number && isalpha((unsigned char)t->text[0]) && !t->is_ordinal;
        if (before && before->is_number && is_word && !before->is_ordinal && !before->comma_after) {
            if (t->number >= 100 && before->number < t->number) {
                before->number *= t->number;
                continue;
            }
            if (t->number < 10 && before->number >= 20 && before->number < 100 &&
                isalpha((unsigned char)before->text[0])) {
                before->number += t->number;
                continue;
            }
        }
        q->t[n++] = *t;
    }
    q->n = n;
}

/* An address of mail is one text, as if it were quoted. 0: there is none. */
static size_t address_length(const char *p)
{
    size_t n = strcspn(p, " ,;?\"'()");
    const char *at = memchr(p, '@', n);
    while (n > 0 && p[n - 1] == '.')
        n--;
    return at && at > p && at + 1 < p + n && memchr(at, '.', (size_t)(p + n - at)) ? n : 0;
}

int nl_tokenize(const char *question, struct arena *a, struct nl_tokens *ret, struct err *err)
{
    const char *p = question;
    int sentence = -1; /* the token that the second sentence begins with */
    ret->n = 0;
    while (*p) {
        size_t quote = 0, close_len = 0;
        const char *close = NULL;
        if (*p == '"') {
            quote = close_len = 1;
            close = strchr(p + 1, '"');
        } else if (strncmp(p, "\xe2\x80\x9c", 3) == 0) {
            quote = close_len = 3;
            close = strstr(p + 3, "\xe2\x80\x9d");
        } else if (strncmp(p, "\xe2\x80\x98", 3) == 0) {
            quote = close_len = 3;
            close = strstr(p + 3, "\xe2\x80\x99");
        } else if ((*p == '\'' || *p == '`') && (p == question || p[-1] == ' ' || p[-1] == '(')) {
            quote = close_len = 1;
            for (close = strchr(p + 1, '\''); close && is_word_byte((unsigned char)close[1]);)
                close = strchr(close + 1, '\'');
        }
        if (close && close > p + quote && close - p < 200) {
            if (add_token(a, ret, p + quote, (size_t)(close - p) - quote, true) < 0)
                return err_set(err, ERR_NO_MEMORY, "the question does not fit");
            p = close + close_len;
            continue;
        }
        if (!is_word_byte((unsigned char)*p) &&
            !(*p == '-' && isdigit((unsigned char)p[1]) && (p == question || p[-1] == ' '))) {
            if (*p == ',' || *p == ';')
                if (ret->n > 0)
                    ret->t[ret->n - 1].comma_after = true;
            if (*p == ':' && ret->n == 1 && !ret->t[0].quoted) { /* "Question: how many …" */
                ret->t[0].is_stop = true;
                ret->t[0].lex = NULL;
            }
            if ((*p == '.' || *p == '?') && p[1] == ' ')
                sentence = ret->n;
            if ((*p == '<' || *p == '>' || *p == '=' || *p == '!')) {
                size_t len = p[1] == '=' ? 2 : 1;
                if (!(len == 1 && *p == '!') && add_token(a, ret, p, len, false) < 0)
                    return err_set(err, ERR_NO_MEMORY, "the question does not fit");
                p += len;
                continue;
            }
            p++;
            continue;
        }
        size_t address = address_length(p);
        if (address > 0) {
            if (add_token(a, ret, p, address, true) < 0)
                return err_set(err, ERR_NO_MEMORY, "the question does not fit");
            p += address;
            continue;
        }
        const char *start = p++;
        while (is_word_byte((unsigned char)*p) ||
               ((*p == '.' || *p == ',') && isdigit((unsigned char)p[-1]) &&
                isdigit((unsigned char)p[1])) ||
               (*p == '-' && is_word_byte((unsigned char)p[-1]) &&
                is_word_byte((unsigned char)p[1]) &&
                (isdigit((unsigned char)p[-1]) || isdigit((unsigned char)p[1]))) ||
               (*p == '/' && isdigit((unsigned char)p[-1]) && isdigit((unsigned char)p[1])) ||
               (*p == '.' && isalpha((unsigned char)p[1]) && p - start == 1))
            p++;
        if (add_token(a, ret, start, (size_t)(p - start), false) < 0)
            return err_set(err, ERR_NO_MEMORY, "the question does not fit");
        if (*p == '\'' && (p[1] == 's' || p[1] == 'S') && !is_word_byte((unsigned char)p[2]))
            p += 2;
        else if (*p == '\'' && (p[1] == 't' || p[1] == 'T')) {
            /* don't, isn't, hasn't */
            if (add_token(a, ret, "not", 3, false) < 0)
                return err_set(err, ERR_NO_MEMORY, "the question does not fit");
            p += 2;
        }
    }
    if (sentence > 0 && sentence < ret->n)
        ret->t[sentence].begins_sentence = true;
    join_numbers(ret);
    for (int i = 1; i < ret->n; i++)
        ret->t[i].comma_before = ret->t[i - 1].comma_after;
    return 0;
}

const char *nl_value_key(struct arena *a, const char *text)
{
    char out[2 * NL_VALUE_MAX_BYTES], word[WORD_MAX_BYTES];
    size_t n = 0, w = 0;
    for (const char *p = text;; p++) {
        unsigned char c = (unsigned char)*p;
        bool inside = (isalnum(c) || c >= 0x80) ||
                      (c == '.' && w > 0 && isdigit((unsigned char)p[1]) &&
                       isdigit((unsigned char)p[-1]));
        if (inside && w + 1 < sizeof(word)) {
            word[w++] = (char)tolower(c);
            continue;
        }
        if (c == ',' && w > 0 && isdigit((unsigned char)p[1]) && isdigit((unsigned char)p[-1]))
            continue;
        if (w > 0) {
            word[w] = '\0';
            const char *stem = nl_stem(a, word);
            if (!stem || n + strlen(stem) + 2 > sizeof(out))
                break;
            n += (size_t)snprintf(out + n, sizeof(out) - n, "%s%s", n ? " " : "", stem);
            w = 0;
        }
        if (!c)
            break;
    }
    out[n] = '\0';
    return arena_strdup(a, out);
}

int nl_edit_distance(const char *a, const char *b, int limit)
{
    int la = (int)strlen(a), lb = (int)strlen(b);
    int row[3][WORD_MAX_BYTES + 1];
    if (la >= WORD_MAX_BYTES || lb >= WORD_MAX_BYTES || abs(la - lb) > limit)
        return limit + 1;
    for (int j = 0; j <= lb; j++)
        row[0][j] = j;
    for (int i = 1; i <= la; i++) {
        int *now = row[i % 3], *before = row[(i + 2) % 3], *two = row[(i + 1) % 3], least = i;
        now[0] = i;
        for (int j = 1; j <= lb; j++) {
            int d = MIN_OF(before[j] + 1, now[j - 1] + 1);
            d = MIN_OF(d, before[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d = MIN_OF(d, two[j - 2] + 1);
            now[j] = d;
            least = MIN_OF(least, d);
        }
        if (least > limit)
            return limit + 1;
    }
    return row[la % 3][lb];
}

/* "dept" for "department": the letters in order, from the same first one, few of them vowels. */
static bool abbreviates(const char *shorter, const char *word)
{
    size_t n = strlen(shorter);
    if (n < 3 || n + 2 > strlen(word) || shorter[0] != word[0])
        return false;
    if (strncmp(shorter, word, n) == 0)
        return true;
    size_t same = 0, len = strlen(word), last = len - 1;
    while (shorter[same] == word[same])
        same++;
    const char *p = word + same;
    for (const char *s = shorter + same; *s;
         s++) { /* "qty", "avg": no vowel, up to the last consonant */
        p = strchr("aeiou", *s) ? NULL : strchr(p, *s);
        if (!p++)
            return false;
    }
    while (last > 0 && strchr("aeiou", word[last]))
        last--;
    return n <= 5 && shorter[n - 1] == word[last];
}

const struct nl_lex *nl_lex_of(struct arena *a, const char *word)
{
    struct nl_lex found, *ret;
    nl_lex_find(word, &found);
    if (!found.is_known || !(ret = arena_alloc(a, sizeof(*ret))))
        return NULL;
    *ret = found;
    return ret;
}

double nl_word_match(const struct nl_name *name, int word, const struct nl_token *t)
{
    const char *w = name->words[word], *stem = name->stems[word];
    if (strcmp(stem, t->stem) == 0 || strcmp(w, t->text) == 0)
        return 1;
    if (name->shortened[word] && str_ieq(name->shortened[word], t->text))
        return 1;
    if ((name->synonyms[word][0] & t->synonyms[0]) || (name->synonyms[word][1] & t->synonyms[1]))
        return 0.75;
    size_t nw = strlen(w), nt = strlen(t->text);
    if (t->is_number || isdigit((unsigned char)w[0]) || nt < 3 || t->is_operator)
        return 0;
    if (abbreviates(w, t->text))
        return 0.8;
    if (t->is_stop)
        return 0;
    if (abbreviates(t->text, w) && nt >= 4)
        return 0.75;
    if (nw >= 5 && nt >= 5 && !t->lex && nl_edit_distance(w, t->text, 2) <= (nw >= 8 ? 2 : 1) &&
        w[0] == t->text[0])
        return 0.75;
    if (nt >= 4 && nw > nt && (strcmp(w + nw - nt, t->text) == 0 || strncmp(w, t->text, nt) == 0))
        return 0.65;
    if (name->lex[word] && t->lex && !fr_is_light(t->text)) {
        double meaning = nl_lex_match(name->lex[word], t->lex);
        if (meaning > 0)
            return meaning;
    }
    if (t->near && strcmp(stem, t->near) == 0)
        return 0.6;
    /* One word family: "employment", "employed". */
    size_t ns = strlen(stem), nq = strlen(t->stem), same = 0;
    while (same < ns && same < nq && stem[same] == t->stem[same])
        same++;
    if (same >= 5 && same + 4 >= ns && same + 4 >= nq)
        return same >= 6 ? 0.7 : 0.6;
    return 0;
}
