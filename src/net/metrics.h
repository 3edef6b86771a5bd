#ifndef RIDDLE_NET_METRICS_H
#define RIDDLE_NET_METRICS_H

/*
 * Counters, gauges and histograms in Prometheus' text format. A family is registered once by name;
 * a series of it is found by its label values and may be kept (pointers live as long as the
 * registry). One thread.
 *
 *   struct metric_family *runs = metrics_counter(m, "runs_total", "Runs.", "verdict", NULL);
 *   metric_add(metric_series(runs, "ok"), 1);
 */

#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"

#define METRIC_LABELS_MAX 4
#define METRIC_SERIES_MAX                                                                          \
    1000 /* per family; what comes after is counted in the series whose labels are "other" */

struct metrics;
struct metric_family;
struct metric;

struct metrics *metrics_create(void); /* NULL when out of memory */
void metrics_destroy(struct metrics *m);

/*
 * Label names end with NULL. Asking again for a name yields the same family. NULL only when out of
 * memory; that is fine to use.
 */
struct metric_family *metrics_counter(struct metrics *m, const char *name, const char *help, ...)
    __attribute__((sentinel));
struct metric_family *metrics_gauge(struct metrics *m, const char *name, const char *help, ...)
    __attribute__((sentinel));
/* bounds are ascending upper limits; +Inf is added. Copied. */
struct metric_family *metrics_histogram(struct metrics *m, const char *name, const char *help,
                                        const double *bounds, size_t n_bounds, ...)
    __attribute__((sentinel));

/* As many values as the family has labels. NULL only when out of memory; that is fine to use. */
struct metric *metric_series_(struct metric_family *f, const char *const *values, size_t n);
#define metric_series(f, ...)                                                                      \
    metric_series_(                                                                                \
        (f), (const char *const[]){ __VA_ARGS__ __VA_OPT__(, ) NULL },                             \
        sizeof((const char *const[]){ __VA_ARGS__ __VA_OPT__(, ) NULL }) / sizeof(char *) - 1)

void metric_add(struct metric *m, double v);     /* counter (v >= 0) or gauge */
void metric_set(struct metric *m, double v);     /* gauge, or a counter that is kept elsewhere */
void metric_observe(struct metric *m, double v); /* histogram */
/*
 * A histogram that is kept elsewhere: a count for each of the family's bounds (not cumulative), of
 * all, and their sum.
 */
void metric_set_histogram(struct metric *m, const uint64_t *buckets, uint64_t count, double sum);
double metric_value(const struct metric *m); /* counter, gauge; count of a histogram; 0 for NULL */

/* fn runs before each print: to set gauges from what is known elsewhere. */
int metrics_on_collect(struct metrics *m, void (*fn)(void *arg), void *arg, struct err *err);

#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"
int metrics_print(struct metrics *m, struct buf *b, struct err *err);

/* Seconds, from 0.5 ms to 60 s. */
extern const double metrics_latency_bounds[];
extern const size_t metrics_n_latency_bounds;

#endif
