/* Metrics as Prometheus reads them. */

#include "base/check.h"
#include "net/metrics.h"

static void expect_print(struct metrics *m, const char *text)
{
    auto_buf struct buf b = BUF_INIT(1 << 20);
    struct err e;

    assert_works(metrics_print(m, &b, &e), &e);
    assert_string_equal(buf_cstr(&b), text);
}

static void test_print(void **state)
{
    static const double bounds[] = { 0.1, 1 };
    struct metrics *m = metrics_create();
    struct metric_family *runs = metrics_counter(m, "runs_total", "Runs by\nverdict \\.", "verdict",
                                                 "kind", NULL);
    struct metric *open = metric_series(metrics_gauge(m, "open", "Open.", NULL));
    struct metric *time = metric_series(
        metrics_histogram(m, "time_seconds", "Time.", bounds, 2, "route", NULL), "/a");

    (void)state;
    metric_add(metric_series(runs, "ok", "sql"), 1);
    metric_add(metric_series(runs, "ok", "sql"), 1.5);
    metric_add(metric_series(runs, "a\"b\\c\nd", "sql"), 1);
    metric_set(open, 3);
    metric_add(open, -5);
    metric_observe(time, 0.05);
    metric_observe(time, 0.1);
    metric_observe(time, 0.5);
    metric_observe(time, 7);
    expect_print(m, "# HELP runs_total Runs by\\nverdict \\\\.\n# TYPE runs_total counter\n"
                    "runs_total{verdict=\"ok\",kind=\"sql\"} 2.5\n"
                    "runs_total{verdict=\"a\\\"b\\\\c\\nd\",kind=\"sql\"} 1\n"
                    "# HELP open Open.\n# TYPE open gauge\nopen -2\n"
                    "# HELP time_seconds Time.\n# TYPE time_seconds histogram\n"
                    "time_seconds_bucket{route=\"/a\",le=\"0.1\"} 2\n"
                    "time_seconds_bucket{route=\"/a\",le=\"1\"} 3\n"
                    "time_seconds_bucket{route=\"/a\",le=\"+Inf\"} 4\n"
                    "time_seconds_sum{route=\"/a\"} 7.65\n"
                    "time_seconds_count{route=\"/a\"} 4\n");
    assert_true(metric_value(time) == 4);
    assert_true(metric_value(open) == -2);
    metrics_destroy(m);
}

static void test_same_family(void **state)
{
    struct metrics *m = metrics_create();
    struct metric_family *a = metrics_counter(m, "x_total", "X.", "l", NULL);

    (void)state;
    assert_ptr_equal(a, metrics_counter(m, "x_total", "X.", "l", NULL));
    assert_ptr_equal(metric_series(a, "1"), metric_series(a, "1"));
    assert_ptr_not_equal(metric_series(a, "1"), metric_series(a, "2"));
    metrics_destroy(m);
}

static void test_bounded(void **state)
{
    struct metrics *m = metrics_create();
    struct metric_family *a = metrics_counter(m, "x_total", "X.", "l", NULL);

    (void)state;
    for (int i = 0; i < METRIC_SERIES_MAX + 10; i++) {
        char label[16];

        snprintf(label, sizeof(label), "%d", i);
        metric_add(metric_series(a, label), 1);
    }
    assert_true(metric_value(metric_series(a, "other")) == 10);
    assert_true(metric_value(metric_series(a, "0")) == 1);
    metrics_destroy(m);
}

static void collect(void *arg)
{
    metric_set(arg, 42);
}

static void test_collect(void **state)
{
    struct metrics *m = metrics_create();
    struct metric *g = metric_series(metrics_gauge(m, "g", "G.", NULL));
    struct err e;

    (void)state;
    assert_works(metrics_on_collect(m, collect, g, &e), &e);
    expect_print(m, "# HELP g G.\n# TYPE g gauge\ng 42\n");
    metrics_destroy(m);
}

/* Without a registry everything is quietly nothing. */
static void test_none(void **state)
{
    struct metric *s = metric_series(metrics_counter(NULL, "x_total", "X.", "l", NULL), "1");

    (void)state;
    assert_null(s);
    metric_add(s, 1);
    metric_observe(s, 1);
    metric_set(s, 1);
    assert_true(metric_value(s) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_print),   cmocka_unit_test(test_same_family),
        cmocka_unit_test(test_bounded), cmocka_unit_test(test_collect),
        cmocka_unit_test(test_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
