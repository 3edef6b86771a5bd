/* Questions in German, French and Spanish: what they are in English, and that they are answered. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/arena.h"
#include "base/macros.h"
#include "nl/nl.h"

static struct nl_schema *shop(void)
{
    static const char *const columns[][2] = {
        { "Stadt", "VARCHAR" }, { "product", "VARCHAR" },  { "price", "DOUBLE" },
        { "sold_on", "DATE" },  { "customer", "VARCHAR" },
    };
    static const char *const cities[] = { "Berlin", "Oslo", "Paris", "El Paso", "La Paz" };
    struct err err = ERR_INIT;
    struct nl_schema *s = NULL;
    assert_int_equal(nl_schema_create("shop", &s, &err), 0);
    int t = nl_schema_add_table(s, "sales", 1000, &err);
    for (size_t i = 0; i < ARRAY_SIZE(columns); i++)
        assert_true(nl_schema_add_column(s, t, columns[i][0], columns[i][1], &err) >= 0);
    for (size_t i = 0; i < ARRAY_SIZE(cities); i++)
        assert_int_equal(nl_schema_add_value(s, t, 0, cities[i], &err), 0);
    assert_int_equal(nl_schema_set_range(s, t, 3, "2024-01-01", "2024-12-31", &err), 0);
    assert_int_equal(nl_schema_finish(s, &err), 0);
    return s;
}

static void test_in_english(void **state)
{
    static const struct {
        const char *question, *meant; /* NULL: it is English */
    } cases[] = {
        { "Wie viele Produkte gibt es pro Stadt?", "how many products are there per Stadt?" },
        { "Was ist der durchschnittliche Preis pro Monat?",
          "what is the average price per month?" },
        { "Zeige alle mit einem Preis über 1.000,50", "show all with a price over 1000.50" },
        { "Summe der Preise seit dem 31.12.2023", "total prices since the 2023-12-31" },
        { "Combien de ventes par mois en 2024 ?", "how many sales by month in 2024?" },
        { "Quel est le prix moyen par produit ?", "what is the price average by product?" },
        { "Quel est le chiffre d’affaires par Stadt ?", "what is the revenue by Stadt?" },
        { "¿Cuántos clientes hay en marzo?", "how many customers are there in march?" },
        { "¿Cuál es el promedio de precio por mes?", "what is average price by month?" },
        { "what is the average price per month?", NULL },
        { "how many sales in Berlin", NULL },
        { "price by Stadt", NULL },
        { "sales El Paso, La Paz", NULL },
        { "\xc3\x9f\xff \"wie der", NULL },
    };
    struct nl_schema *s = shop();
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct err err = ERR_INIT;
        auto_arena struct arena a;
        struct nl_answer answer;
        arena_init(&a, NL_ARENA_BYTES);
        if (nl_plan(s, cases[i].question, NULL, &a, &answer, &err) < 0) {
            assert_null(cases[i].meant);
            continue;
        }
        if (cases[i].meant) {
            assert_string_equal(answer.meant, cases[i].meant);
            assert_true(answer.n_choices > 0);
        } else {
            assert_null(answer.meant);
        }
        nl_answer_finish(&answer);
    }
    nl_schema_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_in_english) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
