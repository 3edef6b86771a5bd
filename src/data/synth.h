#ifndef RIDDLE_DATA_SYNTH_H
#define RIDDLE_DATA_SYNTH_H

/*
 * What the generators of the bundled sets are made of: a random generator of our own, a calendar,
 * and CSV cells. Integers only: floating point, libm, locale and clock may differ between machines,
 * and the files may not. For the same reason a draw never shares an expression with another draw:
 * the compiler chooses the order in which arguments are evaluated.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"

struct synth {
    uint64_t s[4]; /* xoshiro256** */
};

void synth_init(struct synth *s, uint64_t seed);
uint64_t synth_next(struct synth *s);
int synth_below(struct synth *s, int n);            /* 0 … n-1, each equally likely; n > 0 */
int synth_between(struct synth *s, int lo, int hi); /* both included */
bool synth_chance(struct synth *s, int per_mille);
size_t synth_pick(struct synth *s, const int *weights, size_t n); /* an index, by weight */
int synth_bell(struct synth *s, int deviation); /* around 0, nearly normal, within 6 deviations */
void synth_shuffle(struct synth *s, int *a, size_t n);

struct synth_date {
    int year, month, day;
    int weekday; /* 0 is Sunday */
};

int synth_day(int year, int month, int day); /* days since 1970-01-01 */
struct synth_date synth_date(int day);

/* Cells. A list of CSV cells ends with '\n' instead of ',': the caller appends either. */
int synth_put_date(struct buf *b, int day, struct err *err);        /* 2026-01-31 */
int synth_put_time(struct buf *b, int64_t second, struct err *err); /* 2026-01-31 23:00:00 */
int synth_put_fixed(struct buf *b, int value, int digits, struct err *err); /* 1234, 2 → 12.34 */

#endif
