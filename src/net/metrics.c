/*
 * The registry: families in the order of registration, series in a list per family found by
 * comparing label values. Lookups are for set-up; what is hot keeps its pointer.
 */

#include "net/metrics.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "base/str.h"

#define COLLECTORS_MAX 16

enum kind { COUNTER, GAUGE, HISTOGRAM };

struct metric {
    struct metric *next;
    const struct metric_family *family;
    char *labels[METRIC_LABELS_MAX];
    double value; /* sum of a histogram */
    uint64_t count;
    uint64_t buckets[]; /* not cumulative; as many as the family has bounds */
};

struct metric_family {
    struct metric_family *next;
    enum kind kind;
    char *name, *help;
    char *label_names[METRIC_LABELS_MAX];
    size_t n_labels;
    double *bounds;
    size_t n_bounds;
    struct metric *first, **last;
    size_t n_series;
};

struct metrics {
    struct metric_family *first, **last;
    struct {
        void (*fn)(void *arg);
        void *arg;
    } collectors[COLLECTORS_MAX];
    size_t n_collectors;
};

const double metrics_latency_bounds[] = { 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                          0.25,   0.5,   1,      2.5,   5,    10,    30,   60 };
const size_t metrics_n_latency_bounds = ARRAY_SIZE(metrics_latency_bounds);

struct metrics *metrics_create(void)
{
    struct metrics *m = calloc(1, sizeof(*m));

    if (m)
        m->last = &m->first;
    return m;
}

static void series_destroy(struct metric *s)
{
    for (size_t i = 0; i < METRIC_LABELS_MAX; i++)
        free(s->labels[i]);
    free(s);
}

static void family_destroy(struct metric_family *f)
{
    while (f->first) {
        struct metric *s = f->first;

        f->first = s->next;
        series_destroy(s);
    }
    for (size_t i = 0; i < METRIC_LABELS_MAX; i++)
        free(f->label_names[i]);
    free(f->name);
    free(f->help);
    free(f->bounds);
    free(f);
}

void metrics_destroy(struct metrics *m)
{
    if (!m)
        return;
    while (m->first) {
        struct metric_family *f = m->first;

        m->first = f->next;
        family_destroy(f);
    }
    free(m);
}

static struct metric_family *family(struct metrics *m, enum kind kind, const char *name,
                                    const char *help, const double *bounds, size_t n_bounds,
                                    va_list labels)
{
    struct metric_family *f;
    const char *label;

    if (!m)
        return NULL;
    for (f = m->first; f; f = f->next) {
        if (str_eq(f->name, name)) {
            assert(f->kind == kind);
            return f;
        }
    }
    f = calloc(1, sizeof(*f));
    if (!f)
        return NULL;
    f->kind = kind;
    f->name = strdup(name);
    f->help = strdup(help);
    f->last = &f->first;
    f->n_bounds = n_bounds;
    if (n_bounds > 0) {
        f->bounds = calloc(n_bounds, sizeof(*bounds));
        if (f->bounds)
            memcpy(f->bounds, bounds, n_bounds * sizeof(*bounds));
    }
    while ((label = va_arg(labels, const char *))) {
        assert(f->n_labels < METRIC_LABELS_MAX);
        f->label_names[f->n_labels] = strdup(label);
        if (!f->label_names[f->n_labels++])
            break;
    }
    if (!f->name || !f->help || label || (n_bounds > 0 && !f->bounds)) {
        family_destroy(f);
        return NULL;
    }
    *m->last = f;
    m->last = &f->next;
    return f;
}

struct metric_family *metrics_counter(struct metrics *m, const char *name, const char *help, ...)
{
    struct metric_family *f;
    va_list args;

    va_start(args, help);
    f = family(m, COUNTER, name, help, NULL, 0, args);
    va_end(args);
    return f;
}

struct metric_family *metrics_gauge(struct metrics *m, const char *name, const char *help, ...)
{
    struct metric_family *f;
    va_list args;

    va_start(args, help);
    f = family(m, GAUGE, name, help, NULL, 0, args);
    va_end(args);
    return f;
}

struct metric_family *metrics_histogram(struct metrics *m, const char *name, const char *help,
                                        const double *bounds, size_t n_bounds, ...)
{
    struct metric_family *f;
    va_list args;

    va_start(args, n_bounds);
    f = family(m, HISTOGRAM, name, help, bounds, n_bounds, args);
    va_end(args);
    return f;
}

/* ---- series ---- */

static struct metric *find(const struct metric_family *f, const char *const *values)
{
    for (struct metric *s = f->first; s; s = s->next) {
        size_t i = 0;

        while (i < f->n_labels && strcmp(s->labels[i], values[i]) == 0)
            i++;
        if (i == f->n_labels)
            return s;
    }
    return NULL;
}

struct metric *metric_series_(struct metric_family *f, const char *const *values, size_t n)
{
    static const char *const other[METRIC_LABELS_MAX] = { "other", "other", "other", "other" };
    struct metric *s;

    if (!f)
        return NULL;
    assert(n == f->n_labels);
    s = find(f, values);
    if (!s && f->n_series >= METRIC_SERIES_MAX) {
        values = other;
        s = find(f, values);
    }
    if (s)
        return s;
    s = calloc(1, sizeof(*s) + f->n_bounds * sizeof(s->buckets[0]));
    if (!s)
        return NULL;
    s->family = f;
    for (size_t i = 0; i < n; i++) {
        s->labels[i] = strdup(values[i]);
        if (!s->labels[i]) {
            series_destroy(s);
            return NULL;
        }
    }
    *f->last = s;
    f->last = &s->next;
    f->n_series++;
    return s;
}

void metric_add(struct metric *m, double v)
{
    if (!m)
        return;
    assert(m->family->kind == GAUGE || (m->family->kind == COUNTER && v >= 0));
    m->value += v;
}

void metric_set(struct metric *m, double v)
{
    if (!m)
        return;
    assert(m->family->kind == GAUGE || m->family->kind == COUNTER);
    m->value = v;
}

void metric_observe(struct metric *m, double v)
{
    if (!m)
        return;
    assert(m->family->kind == HISTOGRAM);
    m->count++;
    m->value += v;
    for (size_t i = 0; i < m->family->n_bounds; i++) {
        if (v <= m->family->bounds[i]) {
            m->buckets[i]++;
            return;
        }
    }
}

void metric_set_histogram(struct metric *m, const uint64_t *buckets, uint64_t count, double sum)
{
    if (!m)
        return;
    assert(m->family->kind == HISTOGRAM);
    memcpy(m->buckets, buckets, m->family->n_bounds * sizeof(m->buckets[0]));
    m->count = count;
    m->value = sum;
}

double metric_value(const struct metric *m)
{
    return !m ? 0 : m->family->kind == HISTOGRAM ? (double)m->count : m->value;
}

/* ---- printing ---- */

int metrics_on_collect(struct metrics *m, void (*fn)(void *arg), void *arg, struct err *err)
{
    if (m->n_collectors == COLLECTORS_MAX)
        return err_set(err, ERR_INTERNAL, "more than %d collectors of metrics", COLLECTORS_MAX);
    m->collectors[m->n_collectors].fn = fn;
    m->collectors[m->n_collectors].arg = arg;
    m->n_collectors++;
    return 0;
}

static int print_escaped(struct buf *b, const char *s, bool quotes, struct err *err)
{
    int r = 0;

    for (; *s && r == 0; s++) {
        if (*s == '\n')
            r = buf_append_str(b, "\\n", err);
        else if (*s == '\\' || (quotes && *s == '"'))
            r = buf_printf(b, err, "\\%c", *s);
        else
            r = buf_append(b, s, 1, err);
    }
    return r;
}

/* name{label="value",…} value; `le` is the bound of a bucket or NULL. */
static int print_sample(struct buf *b, const struct metric *s, const char *suffix, const char *le,
                        double value, struct err *err)
{
    const struct metric_family *f = s->family;
    char number[STR_DOUBLE_SIZE];
    int r = buf_printf(b, err, "%s%s", f->name, suffix);

    for (size_t i = 0; i < f->n_labels && r == 0; i++) {
        r = buf_printf(b, err, "%c%s=\"", i ? ',' : '{', f->label_names[i]);
        if (r == 0)
            r = print_escaped(b, s->labels[i], true, err);
        if (r == 0)
            r = buf_append_str(b, "\"", err);
    }
    if (r == 0 && le)
        r = buf_printf(b, err, "%cle=\"%s\"", f->n_labels ? ',' : '{', le);
    if (r == 0 && (f->n_labels > 0 || le))
        r = buf_append_str(b, "}", err);
    str_from_double(value, number);
    if (isnan(value) || isinf(value))
        strcpy(number, isnan(value) ? "NaN" : value > 0 ? "+Inf" : "-Inf");
    return r == 0 ? buf_printf(b, err, " %s\n", number) : r;
}

static int print_histogram(struct buf *b, const struct metric *s, struct err *err)
{
    char le[STR_DOUBLE_SIZE];
    uint64_t sum = 0;
    int r = 0;

    for (size_t i = 0; i < s->family->n_bounds && r == 0; i++) {
        sum += s->buckets[i];
        str_from_double(s->family->bounds[i], le);
        r = print_sample(b, s, "_bucket", le, (double)sum, err);
    }
    if (r == 0)
        r = print_sample(b, s, "_bucket", "+Inf", (double)s->count, err);
    if (r == 0)
        r = print_sample(b, s, "_sum", NULL, s->value, err);
    return r == 0 ? print_sample(b, s, "_count", NULL, (double)s->count, err) : r;
}

int metrics_print(struct metrics *m, struct buf *b, struct err *err)
{
    static const char *const kinds[] = {
        [COUNTER] = "counter", [GAUGE] = "gauge", [HISTOGRAM] = "histogram"
    };
    int r = 0;

    for (size_t i = 0; i < m->n_collectors; i++)
        m->collectors[i].fn(m->collectors[i].arg);
    for (const struct metric_family *f = m->first; f && r == 0; f = f->next) {
        r = buf_printf(b, err, "# HELP %s ", f->name);
        if (r == 0)
            r = print_escaped(b, f->help, false, err);
        if (r == 0)
            r = buf_printf(b, err, "\n# TYPE %s %s\n", f->name, kinds[f->kind]);
        for (const struct metric *s = f->first; s && r == 0; s = s->next)
            r = f->kind == HISTOGRAM ? print_histogram(b, s, err) :
                                       print_sample(b, s, "", NULL, s->value, err);
    }
    return r;
}
