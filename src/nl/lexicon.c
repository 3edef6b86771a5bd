/* Looks words up in the embedded table: see lexicon.h. */

#include "nl/lexicon.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/str.h"

#define WORD_MAX 32
#define SAME 0.75    /* synonyms */
#define DERIVED 0.68 /* borrower, borrow; old, age */
#define WIDER 0.6    /* a car is a vehicle */

/* The line of the word; NULL: there is none. */
static const char *find_line(const char *word, size_t n)
{
    size_t lo = 0, hi = nl_lexicon_bytes;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        while (mid > lo && nl_lexicon[mid - 1] != '\n')
            mid--;
        const char *line = nl_lexicon + mid;
        size_t len = strcspn(line, "|>\n");
        int c = strncmp(line, word, MIN_OF(len, n));
        if (c == 0 && len == n)
            return line;
        if (c < 0 || (c == 0 && len < n))
            lo = mid + strcspn(line, "\n") + 1;
        else
            hi = mid;
    }
    return NULL;
}

/* The vector of the word; NULL: there is none. */
static const int8_t *find_vector(const char *word, size_t n)
{
    const size_t record = LEX_WORD_BYTES + LEX_NUMBERS;
    size_t lo = 0, hi = lexicon_vectors[0].n_bytes / record;
    while (lo < hi && n < LEX_WORD_BYTES) {
        size_t mid = lo + (hi - lo) / 2;
        const char *at = lexicon_vectors[0].bytes + mid * record;
        int c = strncmp(at, word, n);
        if (c == 0 && at[n] == '\0')
            return (const int8_t *)at + LEX_WORD_BYTES;
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

static void read_numbers(const char **p, uint32_t *list, size_t max, uint8_t *ret_n, uint64_t *mask)
{
    while (**p && **p != '|' && **p != '\n') {
        char *end;
        unsigned long x = strtoul(*p, &end, 36);
        if (end == *p)
            return;
        if (*ret_n < max) {
            list[(*ret_n)++] = (uint32_t)x;
            *mask |= (uint64_t)1 << (x % 64);
        }
        *p = end + (*end == ',');
    }
}

static bool read_line(const char *word, size_t n, struct nl_lex *ret)
{
    const char *line = n > 2 ? find_line(word, n) : NULL;
    if (!line)
        return false;
    const char *p = line + n;
    ret->vector = find_vector(word, n);
    if (*p == '>') { /* an irregular form */
        size_t len = strcspn(p + 1, "\n");
        line = find_line(p + 1, len);
        if (!line || line[len] != '|')
            return false;
        p = line + len;
        if (!ret->vector)
            ret->vector = find_vector(line, len);
    }
    ret->is_known = true;
    for (p++; *p && *p != '|' && *p != '\n'; p++) {
        ret->is_verb |= *p == 'v';
        ret->is_noun |= *p == 'n';
        ret->is_other |= *p == 'a' || *p == 'r';
        ret->is_person |= *p == 'P';
        ret->is_event |= *p == 'E';
    }
    p += *p == '|';
    read_numbers(&p, ret->own, LEX_OWN, &ret->n_own, &ret->mask);
    p += *p == '|';
    read_numbers(&p, ret->wider, LEX_WIDER, &ret->n_wider, &ret->mask);
    p += *p == '|';
    read_numbers(&p, ret->derived, LEX_DERIVED, &ret->n_derived, &ret->mask);
    return true;
}

void nl_lex_find(const char *word, struct nl_lex *ret)
{
    static const struct {
        const char *end, *instead;
        bool verb; /* the form is one of verbs only */
    } forms[] = { { "ies", "y", false }, { "s", "", false },  { "es", "", false },
                  { "ied", "y", true },  { "ed", "e", true }, { "ed", "", true },
                  { "ing", "e", true },  { "ing", "", true } };
    char base[WORD_MAX];
    size_t n = strlen(word);
    *ret = (struct nl_lex){ 0 };
    if (n >= WORD_MAX || read_line(word, n, ret))
        return;
    for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
        size_t e = strlen(forms[i].end);
        if (n < e + 2 || strcmp(word + n - e, forms[i].end) != 0)
            continue;
        size_t k = n - e;
        memcpy(base, word, k);
        size_t more = strlen(forms[i].instead);
        memcpy(base + k, forms[i].instead, more + 1);
        bool found = read_line(base, k + more, ret);
        if (!found && forms[i].verb && k > 3 && base[k - 1] == base[k - 2]) /* planned, running */
            found = read_line(base, k - 1, ret);
        if (!found)
            continue;
        if (str_ends(forms[i].end, "ed")) /* shipped: of the verb, rare as that may be */
            ret->is_verb = true;
        if (forms[i].verb && ret->is_verb)
            ret->is_noun = ret->is_other = false;
        return;
    }
}

static bool share(const uint32_t *a, size_t n, const uint32_t *b, size_t m)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < m; k++)
            if (a[i] == b[k])
                return true;
    return false;
}

double nl_lex_match(const struct nl_lex *a, const struct nl_lex *b)
{
    if (!(a->mask & b->mask))
        return 0;
    if (share(a->own, a->n_own, b->own, b->n_own))
        return SAME;
    if (share(a->derived, a->n_derived, b->own, b->n_own) ||
        share(a->own, a->n_own, b->derived, b->n_derived))
        return DERIVED;
    if (share(a->wider, a->n_wider, b->own, b->n_own) ||
        share(a->own, a->n_own, b->wider, b->n_wider))
        return WIDER;
    return 0;
}

double nl_lex_cosine(const struct nl_lex *a, const struct nl_lex *b)
{
    if (!a->vector || !b->vector)
        return 0;
    int32_t dot = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < LEX_NUMBERS; i++) {
        dot += a->vector[i] * b->vector[i];
        aa += a->vector[i] * a->vector[i];
        bb += b->vector[i] * b->vector[i];
    }
    return dot > 0 ? dot / sqrt((double)aa * bb) : 0;
}
