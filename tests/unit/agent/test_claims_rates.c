/*
 * How often figures are judged wrongly: 4,000 answers about random tables that say what rows,
 * prints, earlier turns and simple arithmetic on them give, and as many with a figure that is made
 * up. Prints both rates.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/claims.h"
#include "base/json.h"
#include "base/macros.h"

#define ANSWERS 4000

static uint64_t seed = 4711;

static double uniform(void)
{
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return (double)(seed >> 11) / 9007199254740992.0;
}

static int below(int n)
{
    return (int)(uniform() * n);
}

struct world {
    json_t *result;
    char printed[400], earlier[200], schema[200];
    double cell[8], mean, sum;
    int n;
};

static void make(struct world *w)
{
    json_t *rows = json_array();
    double scale = pow(10, 1 + below(5));
    w->n = 3 + below(5);
    w->sum = 0;
    for (int i = 0; i < w->n; i++) {
        w->cell[i] = below(3) ? floor(uniform() * scale) + 11 :
                                round(uniform() * scale * 100) / 100 + 11;
        w->sum += w->cell[i];
        json_array_append_new(rows, json_pack("[s, f]", "name", w->cell[i]));
    }
    w->mean = w->sum / w->n;
    snprintf(w->printed, sizeof(w->printed),
             "mean   %.6f\nstd    %.4f\nr2=%.3f p=%.4f\n2024-03-%02d  %.2f\n", w->mean,
             uniform() * scale + 1, uniform(), uniform() / 10, 1 + below(28), uniform() * scale);
    snprintf(w->earlier, sizeof(w->earlier),
             "The best month had %d orders and %.1f %% more than before.", 100 + below(90000),
             uniform() * 90);
    snprintf(w->schema, sizeof(w->schema),
             "Table orders (%d rows)\n  - price DOUBLE; min %.2f; max %.2f", 1000 + below(900000),
             uniform() * 9, 10 + uniform() * 900);
    w->result = json_pack("{s:[s, s], s:o, s:i, s:s}", "columns", "name", "amount", "rows", rows,
                          "row_count", w->n, "stdout", w->printed);
}

static double number_after(const char *text, const char *word)
{
    return strtod(strstr(text, word) + strlen(word), NULL);
}

/* A sentence that says what is there. */
static void say_true(const struct world *w, int kind, char *ret, size_t size)
{
    double a = w->cell[below(w->n)], b = w->cell[0];
    switch (kind) {
    case 0:
        snprintf(ret, size, "The amount is %.2f.", a);
        break;
    case 1:
        snprintf(ret, size, "In total that is %.0f over %d names.", w->sum, w->n);
        break;
    case 2:
        snprintf(ret, size, "On average it is %.1f, as printed: %.2f.", w->mean,
                 number_after(w->printed, "mean"));
        break;
    case 3:
        snprintf(ret, size, "It makes up %.1f%% of all.", a / w->sum * 100);
        break;
    case 4:
        snprintf(ret, size, "The correlation is %.2f and the deviation %.1f.",
                 number_after(w->printed, "r2="), number_after(w->printed, "std"));
        break;
    case 5:
        snprintf(ret, size, "As I said, the best month had %.0f orders.",
                 number_after(w->earlier, "had "));
        break;
    case 6:
        snprintf(ret, size, "The table has %.0f rows; prices go up to %.2f.",
                 number_after(w->schema, "("), number_after(w->schema, "max "));
        break;
    default:
        snprintf(ret, size, "The first is %.2f more than another one.", fabs(a - b));
        break;
    }
}

static size_t flagged(const struct world *w, const char *text)
{
    const json_t *results[] = { w->result };
    const char *texts[] = { "how much is it?", w->earlier, w->schema };
    auto_json json_t *list = claims_unfounded(text, results, 1, texts, 3);

    return json_array_size(list);
}

static void test_rates(void **state)
{
    int accused = 0, missed = 0;
    char text[300];

    (void)state;
    for (int i = 0; i < ANSWERS; i++) {
        struct world w;

        make(&w);
        say_true(&w, i % 8, text, sizeof(text));
        accused += flagged(&w, text) > 0;
        /* Made up: of the size that figures here have, with three digits or more. */
        snprintf(text, sizeof(text), i % 2 ? "The profit was %.0f." : "The profit was %.2f.",
                 101 + uniform() * pow(10, 3 + below(4)));
        missed += flagged(&w, text) == 0;
        json_decref(w.result);
    }
    printf("true answers flagged: %.2f %% of %d; invented figures flagged: %.2f %% of %d\n",
           100.0 * accused / ANSWERS, ANSWERS, 100.0 - 100.0 * missed / ANSWERS, ANSWERS);
    assert_true(accused <= ANSWERS / 100);
    assert_true(missed <= ANSWERS / 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_rates) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
