/*
 * The transactions set: what a household spent in 2024. Bills come on their day of the month, the
 * rest falls as it does, with more shopping in December and travel in July and August; the last
 * days are still pending.
 */

#include <stdlib.h>
#include "base/macros.h"
#include "data/bundled.h"
#include "data/synth.h"

#define N_MONTHS 12
#define N_DAYS 366
#define N_SHOPS 6

static const struct bill {
    const char *description, *category;
    int day;
    int min_cents, max_cents;
} bills[] = {
    { "Maple Court Apartments - Rent", "Housing", 1, 145000, 145000 },
    { "Iron Works Gym", "Health", 3, 3900, 3900 },
    { "City Power and Light", "Utilities", 5, 6200, 14800 },
    { "Fibernet Internet", "Utilities", 8, 4999, 4999 },
    { "Redwood Mobile", "Utilities", 12, 3200, 4100 },
    { "Streamly Premium", "Entertainment", 15, 1599, 1599 },
    { "Harbor Mutual Insurance", "Insurance", 20, 11850, 11850 },
};

static const struct spending {
    const char *category;
    int weight;
    int min_cents, max_cents;
    const char *shops[N_SHOPS];
} spendings[] = {
    { "Groceries",
      300,
      900,
      16500,
      { "Green Basket Market", "Corner Grocer", "Fresh Fields", "Saturday Farmers Market",
        "Bulk Barn", "Daily Bread Bakery" } },
    { "Dining",
      230,
      450,
      8800,
      { "Blue Door Cafe", "Noodle House", "Taqueria Sol", "The Copper Pot", "Pizza Vicolo",
        "Sushi Kawa" } },
    { "Transport",
      180,
      250,
      6900,
      { "Metro Transit Pass", "City Cab", "Quick Fuel", "Park and Go Garage", "Bike Share",
        "Rail Link Ticket" } },
    { "Shopping",
      130,
      1200,
      24900,
      { "Northgate Department Store", "Paper and Ink", "Thread and Needle", "Gadget Corner",
        "Home and Hearth", "Second Story Books" } },
    { "Entertainment",
      80,
      600,
      12500,
      { "Grand Cinema", "Riverside Theater", "Bowling Palace", "City Museum",
        "Concert Hall Box Office", "Arcade 88" } },
    { "Health",
      50,
      800,
      19500,
      { "Wellspring Pharmacy", "Dr. Okafor Dental", "Vision Center", "Physio Plus", "Family Clinic",
        "Herbal House" } },
    { "Travel",
      30,
      8900,
      98000,
      { "Skyway Airlines", "Lakeside Inn", "Coastal Car Rental", "Mountain Lodge", "Hostel Centro",
        "Ferry Lines" } },
};

struct entry {
    int day, seq;
    const char *description, *category;
    int cents;
};

/* By day, then as made: no two are equal, so every qsort() gives the same. */
static int compare_entries(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;

    if (x->day != y->day)
        return x->day < y->day ? -1 : 1;
    return x->seq < y->seq ? -1 : x->seq > y->seq;
}

static struct entry make_bill(struct synth *rng, const struct bill *bill, int month, int seq)
{
    return (struct entry){ .day = synth_day(2024, month, bill->day),
                           .seq = seq,
                           .description = bill->description,
                           .category = bill->category,
                           .cents = synth_between(rng, bill->min_cents, bill->max_cents) };
}

static struct entry make_spending(struct synth *rng, int seq)
{
    int weights[ARRAY_SIZE(spendings)];
    int day = synth_day(2024, 1, 1) + synth_below(rng, N_DAYS);
    struct synth_date d = synth_date(day);
    const struct spending *what;
    int shop, a, b;

    for (size_t i = 0; i < ARRAY_SIZE(spendings); i++)
        weights[i] = spendings[i].weight;
    if (d.month == 12)
        weights[3] *= 3;
    if (d.month == 7 || d.month == 8)
        weights[6] *= 3;
    if (d.weekday == 0 || d.weekday == 6)
        weights[1] *= 2;
    what = &spendings[synth_pick(rng, weights, ARRAY_SIZE(spendings))];
    shop = synth_below(rng, N_SHOPS);
    a = synth_between(rng, what->min_cents, what->max_cents);
    b = synth_between(rng, what->min_cents, what->max_cents);
    return (struct entry){ .day = day,
                           .seq = seq,
                           .description = what->shops[shop],
                           .category = what->category,
                           .cents = MIN_OF(a, b) };
}

static const char *pick_status(struct synth *rng, int day)
{
    static const char *const names[] = { "completed", "refunded", "failed" };
    static const int weights[] = { 940, 35, 25 };
    size_t settled = synth_pick(rng, weights, ARRAY_SIZE(weights));

    return day >= synth_day(2024, 12, 28) ? "pending" : names[settled];
}

int bundled_write_transactions(struct buf *files, struct err *err)
{
    struct entry entries[TRANSACTIONS_COUNT];
    struct synth rng;
    int n = 0;
    int r = buf_append_str(&files[0], "id,date,description,amount,category,status\n", err);

    synth_init(&rng, TRANSACTIONS_SEED);
    for (int month = 1; month <= N_MONTHS; month++) {
        for (size_t i = 0; i < ARRAY_SIZE(bills); i++, n++)
            entries[n] = make_bill(&rng, &bills[i], month, n);
    }
    for (; n < TRANSACTIONS_COUNT; n++)
        entries[n] = make_spending(&rng, n);
    qsort(entries, TRANSACTIONS_COUNT, sizeof(entries[0]), compare_entries);
    for (int i = 0; r == 0 && i < TRANSACTIONS_COUNT; i++) {
        const struct entry *e = &entries[i];

        r = buf_printf(&files[0], err, "TXN%04d,", i + 1);
        if (r == 0)
            r = synth_put_date(&files[0], e->day, err);
        if (r == 0)
            r = buf_printf(&files[0], err, ",%s,", e->description);
        if (r == 0)
            r = synth_put_fixed(&files[0], e->cents, 2, err);
        if (r == 0)
            r = buf_printf(&files[0], err, ",%s,%s\n", e->category, pick_status(&rng, e->day));
    }
    return r;
}
