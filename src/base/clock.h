#ifndef RIDDLE_BASE_CLOCK_H
#define RIDDLE_BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>

int64_t clock_now_us(void);  /* monotonic */
int64_t clock_now_ms(void);  /* monotonic */
int64_t clock_wall_ms(void); /* since the epoch */
#define CLOCK_ISO_SIZE 33
void clock_iso8601(int64_t wall_ms, char ret[CLOCK_ISO_SIZE]); /* 2026-01-31T12:00:00.123+00:00 */

#endif
