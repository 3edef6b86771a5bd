/* Random numbers, dates and decimal cells from integer arithmetic alone. */

#include "data/synth.h"

#include <assert.h>

/* ---- random numbers ---- */

static uint64_t splitmix64(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t rotate_left(uint64_t x, int k)
{
    return (x << k) | (x >> (64 - k));
}

void synth_init(struct synth *s, uint64_t seed)
{
    for (int i = 0; i < 4; i++)
        s->s[i] = splitmix64(&seed);
}

uint64_t synth_next(struct synth *s)
{
    uint64_t result = rotate_left(s->s[1] * 5, 7) * 9;
    uint64_t t = s->s[1] << 17;

    s->s[2] ^= s->s[0];
    s->s[3] ^= s->s[1];
    s->s[1] ^= s->s[2];
    s->s[0] ^= s->s[3];
    s->s[2] ^= t;
    s->s[3] = rotate_left(s->s[3], 45);
    return result;
}

int synth_below(struct synth *s, int n)
{
    uint64_t range = (uint64_t)n;
    uint64_t unfair = -range %
                      range; /* 2^64 mod n: so many values have no full set of companions */
    uint64_t x;

    assert(n > 0);
    do {
        x = synth_next(s);
    } while (x < unfair);
    return (int)(x % range);
}

int synth_between(struct synth *s, int lo, int hi)
{
    return lo + synth_below(s, hi - lo + 1);
}

bool synth_chance(struct synth *s, int per_mille)
{
    return synth_below(s, 1000) < per_mille;
}

size_t synth_pick(struct synth *s, const int *weights, size_t n)
{
    int total = 0, x;

    for (size_t i = 0; i < n; i++)
        total += weights[i];
    x = synth_below(s, total);
    for (size_t i = 0; i < n; i++) {
        if (x < weights[i])
            return i;
        x -= weights[i];
    }
    assert(false); /* weights are not negative and their sum was positive */
    return n - 1;
}

/* Twelve uniform draws have four times the variance of the deviation asked for. */
int synth_bell(struct synth *s, int deviation)
{
    int sum = 0;

    for (int i = 0; i < 12; i++)
        sum += synth_between(s, -deviation, deviation);
    return sum / 2;
}

void synth_shuffle(struct synth *s, int *a, size_t n)
{
    for (size_t i = n; i > 1; i--) {
        size_t j = (size_t)synth_below(s, (int)i);
        int moved = a[i - 1];

        a[i - 1] = a[j];
        a[j] = moved;
    }
}

/* ---- calendar ---- */

/* Years begin in March here, so that the leap day is the last of its year. */
int synth_day(int year, int month, int day)
{
    int y = month <= 2 ? year - 1 : year;
    int era = y / 400;
    int of_era = y % 400;
    int of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;

    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

struct synth_date synth_date(int day)
{
    int z = day + 719468;
    int era = z / 146097;
    int of_era = z % 146097;
    int year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int of_year = of_era - (365 * year + year / 4 - year / 100);
    int month = (5 * of_year + 2) / 153;
    struct synth_date d = {
        .year = year + era * 400 + (month >= 10 ? 1 : 0),
        .month = month < 10 ? month + 3 : month - 9,
        .day = of_year - (153 * month + 2) / 5 + 1,
        .weekday = (day + 4) % 7, /* 1970-01-01 was a Thursday */
    };

    return d;
}

/* ---- cells ---- */

int synth_put_date(struct buf *b, int day, struct err *err)
{
    struct synth_date d = synth_date(day);

    return buf_printf(b, err, "%04d-%02d-%02d", d.year, d.month, d.day);
}

int synth_put_time(struct buf *b, int64_t second, struct err *err)
{
    int of_day = (int)(second % 86400);
    int r = synth_put_date(b, (int)(second / 86400), err);

    if (r < 0)
        return r;
    return buf_printf(b, err, " %02d:%02d:%02d", of_day / 3600, of_day / 60 % 60, of_day % 60);
}

int synth_put_fixed(struct buf *b, int value, int digits, struct err *err)
{
    int scale = 1;

    for (int i = 0; i < digits; i++)
        scale *= 10;
    if (digits == 0)
        return buf_printf(b, err, "%d", value);
    return buf_printf(b, err, "%s%d.%0*d", value < 0 ? "-" : "", abs(value / scale), digits,
                      abs(value % scale));
}
