/* Clocks: monotonic for durations and deadlines, wall time for people. */

#include "base/clock.h"

#include <stdio.h>
#include <time.h>

int64_t clock_now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

int64_t clock_now_ms(void)
{
    return clock_now_us() / 1000;
}

int64_t clock_wall_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

void clock_iso8601(int64_t wall_ms, char ret[CLOCK_ISO_SIZE])
{
    int64_t ms = wall_ms % 1000;
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm tm = { .tm_mday = 1 };

    if (ms < 0) { /* before 1970: the fraction counts forward, too */
        ms += 1000;
        seconds--;
    }
    gmtime_r(&seconds, &tm);
    /*
     * The remainders change nothing in a time that ISO 8601 can write; they bound the text for
     * every other.
     */
    snprintf(ret, CLOCK_ISO_SIZE, "%04u-%02u-%02uT%02u:%02u:%02u.%03u+00:00",
             (unsigned)(tm.tm_year + 1900) % 10000, (unsigned)(tm.tm_mon + 1) % 100,
             (unsigned)tm.tm_mday % 100, (unsigned)tm.tm_hour % 100, (unsigned)tm.tm_min % 100,
             (unsigned)tm.tm_sec % 100, (unsigned)ms % 1000);
}
