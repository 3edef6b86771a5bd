/* Values that are spelt like a text, from the index of the schema: for people and models who know a
 * value only roughly. */

#include <ctype.h>
#include <string.h>

#include "base/macros.h"
#include "base/str.h"
#include "nl/nl_impl.h"

#define TEXT_MAX 128
#define EQUAL 1.0
#define CONTAINED 0.9
#define WORD_WEIGHT 0.95 /* of a word of a value that is like the text */
#define LIKE_MIN 0.7

/* Lower case of what is ASCII; the rest is compared as it is. */
static void lower(const char *s, char ret[TEXT_MAX])
{
    size_t n = 0;
    for (; s[n] && n + 1 < TEXT_MAX; n++)
        ret[n] = (char)tolower((unsigned char)s[n]);
    ret[n] = '\0';
}

/* One typing error in four bytes is forgiven. */
static double spelt_like(const char *a, const char *b)
{
    int longer = (int)MAX_OF(strlen(a), strlen(b)), limit = MAX_OF(longer / 4, 1);
    if (longer < 3)
        return str_eq(a, b) ? EQUAL : 0;
    int d = nl_edit_distance(a, b, limit);
    return d > limit ? 0 : 1 - (double)d / longer;
}

static double likeness(const char *text, const char *value)
{
    char v[TEXT_MAX], *save = NULL;
    lower(value, v);
    if (str_eq(text, v))
        return EQUAL;
    if (*text && strstr(v, text))
        return CONTAINED;
    double best = spelt_like(text, v);
    for (char *w = strtok_r(v, " -_/.,", &save); w; w = strtok_r(NULL, " -_/.,", &save))
        best = MAX_OF(best, WORD_WEIGHT * spelt_like(text, w));
    return best >= LIKE_MIN ? best : 0;
}

size_t nl_values_like(const struct nl_schema *s, const char *text, struct nl_like *ret, size_t max)
{
    char wanted[TEXT_MAX];
    size_t n = 0;
    lower(text, wanted);
    for (int t = 0; t < s->n_tables; t++)
        for (int c = 0; c < s->tables[t].n_columns; c++) {
            const struct nl_column *col = &s->tables[t].columns[c];
            for (size_t i = 0; col->type == TYPE_TEXT && i < col->n_values; i++) {
                double score = likeness(wanted, col->values[i]);
                if (score == 0 || (n == max && score <= ret[n - 1].score))
                    continue;
                size_t k = n < max ? n++ : n - 1;
                for (; k > 0 && ret[k - 1].score < score; k--)
                    ret[k] = ret[k - 1];
                ret[k] = (struct nl_like){ s->tables[t].name, col->name, col->values[i], score };
            }
        }
    return n;
}

bool nl_has_values(const struct nl_schema *s, int table, int column, long long distinct)
{
    const struct nl_column *c = &s->tables[table].columns[column];
    return !c->many_values && distinct >= 0 && (long long)c->n_values == distinct;
}
