/*
 * Questions in German, French and Spanish. Their phrases are put into English by a table for each
 * language, numbers and dates are written as English has them, and what no table knows stays as it
 * is: names and values of the data. The planner then reads the question as any other.
 */

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/macros.h"
#include "base/str.h"
#include "nl/nl_impl.h"

#define WORD_MAX 40
#define PHRASE_WORDS 6

struct phrase {
    const char *words, *english;
    bool is_name;
};

#include "nl/languages.inc"

static const struct language {
    const char *name;
    const struct phrase *phrases;
    size_t n;
    const char *const *marks;
} languages[] = {
    { "German", german, ARRAY_SIZE(german), german_marks },
    { "French", french, ARRAY_SIZE(french), french_marks },
    { "Spanish", spanish, ARRAY_SIZE(spanish), spanish_marks },
};

struct word {
    const char *raw;
    size_t len;
    char folded[WORD_MAX]; /* "" for what is no word: quoted texts, numbers, signs */
};

struct words {
    struct word w[NL_MAX_TOKENS];
    int n;
};

/* ---- words ---- */

/* Letters of Latin-1 without their marks; the second byte after 0xC3. 0: another one. */
static char plain_letter(unsigned char second)
{
    static const char lower[] = "aaaaaaaceeeeiiiidnooooo/ouuuuyt";
    unsigned char at = (unsigned char)((second >= 0xa0 ? second - 0x20 : second) - 0x80);
    return at < sizeof(lower) - 1 ? lower[at] : 0;
}

/* The word in lower case without accents; false if it has other letters. "ß" is "ss". */
static bool fold(const char *raw, size_t len, char ret[WORD_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)raw[i];
        if (n + 3 > WORD_MAX)
            return false;
        if (isalpha(c)) {
            ret[n++] = (char)tolower(c);
        } else if (c == 0xc3 && i + 1 < len && (unsigned char)raw[i + 1] == 0x9f) {
            ret[n++] = 's';
            ret[n++] = 's';
            i++;
        } else if (c == 0xc3 && i + 1 < len && plain_letter((unsigned char)raw[i + 1])) {
            ret[n++] = plain_letter((unsigned char)raw[++i]);
        } else {
            return false;
        }
    }
    ret[n] = '\0';
    return n > 0;
}

/* Bytes of a sign that is no letter, such as an apostrophe of typesetters; 0: none. */
static size_t sign_bytes(const char *s)
{
    static const char *const signs[] = { "\u00bf", "\u00a1", "\u00ab", "\u00bb", "\u00a0",
                                         "\u2019", "\u201c", "\u201d", "\u201e" };
    for (size_t i = 0; i < ARRAY_SIZE(signs); i++)
        if (strncmp(s, signs[i], strlen(signs[i])) == 0)
            return strlen(signs[i]);
    return 0;
}

static bool is_letter(const char *s)
{
    return isalpha((unsigned char)*s) || ((unsigned char)*s >= 0x80 && sign_bytes(s) == 0);
}

/* Pieces between blanks: words, numbers with their signs, quoted texts, single other characters. */
static void split(const char *s, struct words *ret)
{
    ret->n = 0;
    while (*s && ret->n < NL_MAX_TOKENS) {
        struct word *w = &ret->w[ret->n];
        const char *start = s;
        if (isspace((unsigned char)*s) || sign_bytes(s) > 0) {
            s += MAX_OF(sign_bytes(s), 1);
            continue;
        }
        if ((*s == '"' || *s == '`') && strchr(s + 1, *s))
            s = strchr(s + 1, *s) + 1;
        else if (isdigit((unsigned char)*s))
            s += strspn(s, "0123456789.,:-");
        else if (is_letter(s))
            while (is_letter(s) || *s == '_' || isdigit((unsigned char)*s))
                s++;
        else
            s++;
        w->raw = start;
        w->len = (size_t)(s - start);
        if (!fold(start, w->len, w->folded))
            w->folded[0] = '\0';
        ret->n++;
    }
}

/* A word of a table's or a column's name, or a value. */
static bool is_of_the_data(const struct nl_schema *s, const struct word *w, struct arena *a)
{
    const char *raw = arena_strndup(a, w->raw, w->len);
    const char *key = raw ? nl_value_key(a, raw) : NULL;
    if (!key || nl_find_value(s, key, NULL))
        return true;
    for (int t = 0; t < s->n_tables; t++)
        for (int c = -1; c < s->tables[t].n_columns; c++) {
            const struct nl_name *n = c < 0 ? &s->tables[t].words : &s->tables[t].columns[c].words;
            for (int i = 0; i < n->n; i++)
                if (str_ieq(n->words[i], raw) || str_eq(n->stems[i], key))
                    return true;
        }
    return false;
}

/* Words of the data tell nothing: "El Paso" is no Spanish. */
static int count_marks(const struct nl_schema *s, const struct words *q, const char *const *marks,
                       struct arena *a)
{
    int n = 0;
    for (int i = 0; i < q->n; i++) {
        bool is_name = i > 0 && isupper((unsigned char)*q->w[i].raw);
        for (size_t k = 0; marks[k] && !is_name; k++)
            n += str_eq(q->w[i].folded, marks[k]) && !is_of_the_data(s, &q->w[i], a);
    }
    return n;
}

/* The language whose marks are most, if they are more than those of English. NULL: English. */
static const struct language *language_of(const struct nl_schema *s, const struct words *q,
                                          struct arena *a)
{
    const struct language *found = NULL;
    int most = count_marks(s, q, english_marks, a);
    for (size_t i = 0; i < ARRAY_SIZE(languages); i++) {
        int n = count_marks(s, q, languages[i].marks, a);
        if (n > most) {
            found = &languages[i];
            most = n;
        }
    }
    return found;
}

/* ---- phrases ---- */

/* How many words the phrase takes from the i-th on; 0: it is not there. */
static int phrase_at(const struct words *q, int i, const char *phrase)
{
    int n = 0;
    for (const char *p = phrase; *p; n++) {
        size_t len = strcspn(p, " ");
        /* An apostrophe is between two of its words: "chiffre d'affaires". */
        while (i + n < q->n && n > 0 && q->w[i + n].len == 1 && strchr("'-", *q->w[i + n].raw))
            i++;
        if (i + n >= q->n || strlen(q->w[i + n].folded) != len ||
            strncmp(q->w[i + n].folded, p, len) != 0)
            return 0;
        p += len + (p[len] == ' ');
    }
    return n;
}

/* Where the words of the phrase end, signs between them counted. */
static int phrase_end(const struct words *q, int i, int n)
{
    while (n > 0) {
        n -= q->w[i].folded[0] != '\0';
        i++;
    }
    return i;
}

/* ---- numbers and dates ---- */

/* "1.234,5" as 1234.5, "31.12.2024" as 2024-12-31; anything else as it is. */
static int append_number(struct buf *b, const char *raw, size_t len, struct err *err)
{
    char text[WORD_MAX];
    int day, month, year, end = 0;
    size_t n = 0;
    snprintf(text, sizeof(text), "%.*s", (int)MIN_OF(len, sizeof(text) - 1), raw);
    if (sscanf(text, "%2d.%2d.%4d%n", &day, &month, &year, &end) == 3 && year > 999)
        return buf_printf(b, err, "%04d-%02d-%02d%s", year, month, day, text + end);
    const char *comma = strchr(text, ',');
    bool decimals = comma && isdigit((unsigned char)comma[1]) && !strchr(comma + 1, ',');
    bool thousands = false;
    for (const char *p = strchr(text, '.'); p; p = strchr(p + 1, '.'))
        thousands = strspn(p + 1, "0123456789") == 3;
    if (!decimals && !thousands)
        return buf_append(b, raw, len, err);
    for (const char *p = text; *p; p++)
        if (*p != '.')
            text[n++] = *p == ',' && decimals ? '.' : *p;
    return buf_append(b, text, n, err);
}

/* ---- the whole ---- */

static int append_words(const struct nl_schema *s, const struct language *l, const struct words *q,
                        struct arena *a, struct buf *b, struct err *err)
{
    int r = 0;
    for (int i = 0; i < q->n && r >= 0;) {
        const struct word *w = &q->w[i];
        const struct phrase *best = NULL;
        int taken = 0;
        for (size_t k = 0; k < l->n && w->folded[0]; k++) {
            int n = phrase_at(q, i, l->phrases[k].words);
            if (n > taken && !(l->phrases[k].is_name && is_of_the_data(s, w, a))) {
                best = &l->phrases[k];
                taken = n;
            }
        }
        bool sign = w->len == 1 && !is_letter(w->raw) && !isdigit((unsigned char)*w->raw);
        if (b->len > 0 && !sign)
            r = buf_append_str(b, " ", err);
        if (r < 0)
            break;
        if (best)
            r = buf_append_str(b, best->english, err);
        else if (isdigit((unsigned char)*w->raw))
            r = append_number(b, w->raw, w->len, err);
        else if (!sign || *w->raw != '\'')
            r = buf_append(b, w->raw, w->len, err);
        i = best ? phrase_end(q, i, taken) : i + 1;
    }
    return r;
}

const char *nl_in_english(const struct nl_schema *s, const char *question, struct arena *a)
{
    struct words *q = arena_alloc(a, sizeof(*q));
    auto_buf struct buf b = BUF_INIT(8192);
    if (!q)
        return NULL;
    split(question, q);
    const struct language *l = language_of(s, q, a);
    if (!l || append_words(s, l, q, a, &b, NULL) < 0)
        return NULL;
    return arena_strdup(a, buf_cstr(&b));
}
