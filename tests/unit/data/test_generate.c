/*
 * The bundled sets: their bytes are pinned, their counts are those promised, and what is said to
 * hold without exception is checked row by row, by reading the files as CSV.
 */

#include <sys/stat.h>
#include "base/check.h"
#include "base/fdio.h"
#include "base/json.h"
#include "base/macros.h"
#include "base/str.h"
#include "data/bundled.h"
#include "data/generate.h"
#include "data/version.h"
#include "data/synth.h"

#define MAX_CELLS 16
#define MAX_FILE_BYTES (16u << 20)

static char dir[64];

static char *path_in(const char *where, const char *name)
{
    static char path[256];

    snprintf(path, sizeof(path), "%s/%s", where, name);
    return path;
}

static int generate_once(void **state)
{
    struct err err;

    (void)state;
    make_scratch(dir);
    assert_works(datasets_generate(dir, &err), &err);
    return 0;
}

static int remove_all(void **state)
{
    (void)state;
    return fd_remove_tree(dir, NULL);
}

/* ---- a CSV reader for files without quotes ---- */

struct csv {
    struct buf text;
    char *next;
    char *cells[MAX_CELLS];
    int n;
};

static bool csv_row(struct csv *csv)
{
    char *p = csv->next;

    if (!*p)
        return false;
    csv->n = 0;
    for (;;) {
        size_t len = 0;
        char end;

        /* Not strcspn(): under AddressSanitizer it measures the rest of the file for every cell. */
        while (p[len] && p[len] != ',' && p[len] != '\n')
            len++;
        end = p[len];

        assert_true(csv->n < MAX_CELLS);
        assert_true(end == ',' || end == '\n'); /* the last line ends too */
        csv->cells[csv->n++] = p;
        p[len] = '\0';
        p += len + 1;
        if (end == '\n')
            break;
    }
    csv->next = p;
    return true;
}

/* Opens a file and checks its header and that no quotes are in it. */
static void csv_open(struct csv *csv, const char *name, const char *header)
{
    struct err err;
    size_t len = strlen(header);

    buf_init(&csv->text, MAX_FILE_BYTES);
    assert_works(fd_read_file(path_in(dir, name), &csv->text, &err), &err);
    assert_null(strchr(csv->text.data, '"'));
    assert_null(strchr(csv->text.data, '\r'));
    assert_int_equal(strncmp(csv->text.data, header, len), 0);
    assert_int_equal(csv->text.data[len], '\n');
    csv->next = csv->text.data + len + 1;
}

static void csv_close(struct csv *csv)
{
    buf_finish(&csv->text);
}

/* "12.34" with two digits → 1234; fails the test for anything else. */
static int hundredths(const char *cell, int digits)
{
    const char *point = strchr(cell, '.');
    int whole = (int)strtol(cell, NULL, 10), scale = digits == 1 ? 10 : 100, part;

    assert_non_null(point);
    assert_int_equal(strlen(point + 1), digits);
    part = (int)strtol(point + 1, NULL, 10);
    return whole * scale + (cell[0] == '-' ? -part : part);
}

static int number(const char *cell)
{
    struct err err;
    long long value = 0;

    assert_works(str_parse_i64(cell, "cell", 0, 10000000, &value, &err), &err);
    return (int)value;
}

static int index_of(const char *cell, const char *const *names, int n)
{
    for (int i = 0; i < n; i++) {
        if (str_eq(cell, names[i]))
            return i;
    }
    print_error("'%s' is none of the values\n", cell);
    fail();
    return 0;
}

/* "2025-08-12" or "2025-08-12 10:00:00" → seconds since 1970. */
static int64_t seconds(const char *cell)
{
    int y, mo, d, h = 0, mi = 0, s = 0, n = 0;
    bool has_time = strlen(cell) > 10;

    if (has_time)
        assert_int_equal(sscanf(cell, "%4d-%2d-%2d %2d:%2d:%2d%n", &y, &mo, &d, &h, &mi, &s, &n),
                         6);
    else
        assert_int_equal(sscanf(cell, "%4d-%2d-%2d%n", &y, &mo, &d, &n), 3);
    assert_int_equal(n, strlen(cell));
    return (int64_t)synth_day(y, mo, d) * 86400 + h * 3600 + mi * 60 + s;
}

/* ---- bytes ---- */

static const struct {
    const char *name, *sha256;
} pinned[] = {
    { "ecommerce/orders.csv", "869138c373712afcd54371bf14c3d67fc8f835aa2d4f32fb60847c3a4035dc1f" },
    { "ecommerce/order_items.csv",
      "fdf797485c3aa4e66171d8b4702da312225e2d80489e57ddcdfd7172228f485a" },
    { "ecommerce/inventory.csv",
      "8440babc127c609d8bf5d7e476f9fb60f650607db69d59e6c285bd117c87c521" },
    { "support/tickets.csv", "56a1f73618c9b294ae45bf7fcb7461c398b629fe3ac6e81b7b31405d69a0fd6f" },
    { "sensors/sensors.csv", "0de0463f5e3ab97fee7bce9105710d4cbe24247c83bf4c36d3dabd723a4c292a" },
    { "transactions/transactions.csv",
      "b94c4e0d3b4fdc4bd27c387dba6ae990f9ad0bb060abf2ea0096fccf3582d85b" },
    { "registry.json", "b66982d94cf4fb1c49a2afa25cf3fefd74482f02b191d52482bf02109d29f222" },
};

static void check_pinned(const char *where)
{
    for (size_t i = 0; i < ARRAY_SIZE(pinned); i++) {
        auto_buf struct buf b = BUF_INIT(MAX_FILE_BYTES);
        char hex[HASH_HEX_SIZE];
        struct err err;

        assert_works(fd_read_file(path_in(where, pinned[i].name), &b, &err), &err);
        assert_works(hash_bytes(b.data, b.len, hex, &err), &err);
        if (!str_eq(hex, pinned[i].sha256))
            print_error("%s is no longer what it was\n", pinned[i].name);
        assert_string_equal(hex, pinned[i].sha256);
    }
}

static void test_bytes(void **state)
{
    (void)state;
    check_pinned(dir);
}

/* Over what is there already. */
static void test_again(void **state)
{
    struct err err;

    (void)state;
    assert_works(datasets_generate(dir, &err), &err);
    check_pinned(dir);
}

/* ---- the parts ---- */

static void test_calendar(void **state)
{
    (void)state;
    assert_int_equal(synth_day(1970, 1, 1), 0);
    assert_int_equal(synth_day(2000, 3, 1), 11017);
    assert_int_equal(synth_day(2024, 2, 29) + 1, synth_day(2024, 3, 1));
    for (int day = 0, y = 1970; y < 2100; y++) {
        static const int lengths[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
        bool leap = y % 4 == 0 && (y % 100 != 0 || y % 400 == 0);

        for (int m = 1; m <= 12; m++) {
            for (int d = 1; d <= lengths[m - 1] + (leap && m == 2); d++, day++) {
                struct synth_date date = synth_date(day);

                assert_int_equal(synth_day(y, m, d), day);
                assert_true(date.year == y && date.month == m && date.day == d);
                assert_int_equal(date.weekday, (day + 4) % 7);
            }
        }
    }
}

/* The reference implementation of xoshiro256** gives these for the state 1, 2, 3, 4. */
static void test_random(void **state)
{
    static const uint64_t expected[] = { 11520, 0, 1509978240, 1215971899390074240u };
    struct synth s = { .s = { 1, 2, 3, 4 } };
    int sum = 0, spread = 0, seen[7] = { 0 };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(expected); i++)
        assert_true(synth_next(&s) == expected[i]);
    synth_init(&s, 0); /* splitmix64 from 0 begins with this */
    assert_true(s.s[0] == 0xe220a8397b1dcdafu);
    for (int i = 0; i < 70000; i++) {
        int bell = synth_bell(&s, 10);

        seen[synth_below(&s, 7)]++;
        sum += bell;
        spread += bell * bell;
        assert_in_range(synth_between(&s, 3, 5), 3, 5);
    }
    for (int i = 0; i < 7; i++)
        assert_in_range(seen[i], 9500, 10500);
    assert_in_range(sum + 70000, 70000 - 14000, 70000 + 14000);
    /* Integers from -10 to 10 have a variance of 110/3; twelve of them, halved, 110. */
    assert_in_range(spread / 70000, 105, 115);
}

static void test_fixed(void **state)
{
    static const struct {
        int value, digits;
        const char *text;
    } cases[] = {
        { 1234, 2, "12.34" },   { 5, 2, "0.05" }, { -5, 1, "-0.5" },
        { -1234, 2, "-12.34" }, { 0, 2, "0.00" }, { 7, 0, "7" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        auto_buf struct buf b = BUF_INIT(100);
        struct err err;

        assert_works(synth_put_fixed(&b, cases[i].value, cases[i].digits, &err), &err);
        assert_string_equal(buf_cstr(&b), cases[i].text);
    }
}

/* ---- ecommerce ---- */

static const char *const categories[] = { "Electronics", "Clothing", "Home", "Books", "Toys" };

static void test_ecommerce(void **state)
{
    static const char *const statuses[] = { "completed", "returned", "cancelled" };
    static int product_category[ECOMMERCE_PRODUCTS + 1], total[ECOMMERCE_ORDERS + 1],
        items_of[ECOMMERCE_ORDERS + 1];
    static long long sum[ECOMMERCE_ORDERS + 1];
    int counts[3] = { 0 }, sold_out = 0, n;
    int64_t before = 0;
    char last[16] = "";
    struct csv csv;

    (void)state;
    csv_open(&csv, "ecommerce/inventory.csv", "product_id,name,category,stock");
    for (n = 0; csv_row(&csv); n++) {
        assert_int_equal(csv.n, 4);
        assert_int_equal(number(csv.cells[0]), n + 1);
        product_category[n + 1] = index_of(csv.cells[2], categories, 5);
        sold_out += number(csv.cells[3]) == 0;
    }
    csv_close(&csv);
    assert_int_equal(n, 500);
    assert_in_range(sold_out, 1, 100);

    csv_open(&csv, "ecommerce/orders.csv", "order_id,customer_id,order_date,total,status,returned");
    for (n = 0; csv_row(&csv); n++) {
        int status;

        assert_int_equal(csv.n, 6);
        assert_int_equal(number(csv.cells[0]), n + 1);
        assert_in_range(number(csv.cells[1]), 1, 1180);
        assert_true(seconds(csv.cells[2]) >= before);
        before = seconds(csv.cells[2]);
        if (n == 0)
            assert_string_equal(csv.cells[2], "2025-08-12");
        snprintf(last, sizeof(last), "%s", csv.cells[2]);
        total[n + 1] = hundredths(csv.cells[3], 2);
        status = index_of(csv.cells[4], statuses, 3);
        counts[status]++;
        assert_string_equal(csv.cells[5], status == 1 ? "1" : "0");
    }
    csv_close(&csv);
    assert_int_equal(n, 4018);
    assert_string_equal(last, "2026-01-31");
    assert_int_equal(counts[0], 2470);
    assert_int_equal(counts[1], 1416);
    assert_int_equal(counts[2], 132);

    csv_open(&csv, "ecommerce/order_items.csv",
             "item_id,order_id,product_id,category,quantity,price,discount");
    for (n = 0; csv_row(&csv); n++) {
        int order, product, discount;

        assert_int_equal(csv.n, 7);
        assert_int_equal(number(csv.cells[0]), n + 1);
        order = number(csv.cells[1]);
        product = number(csv.cells[2]);
        discount = hundredths(csv.cells[6], 2);
        assert_in_range(order, 1, 4018);
        assert_in_range(product, 1, 500);
        assert_in_range(discount, 0, 30);
        assert_int_equal(index_of(csv.cells[3], categories, 5), product_category[product]);
        assert_in_range(number(csv.cells[4]), 1, 5);
        items_of[order]++;
        sum[order] += (long long)number(csv.cells[4]) * hundredths(csv.cells[5], 2) *
                      (100 - discount);
    }
    csv_close(&csv);
    assert_int_equal(n, 9008);
    for (int i = 1; i <= 4018; i++) {
        assert_true(items_of[i] >= 1);
        assert_int_equal((sum[i] + 50) / 100, total[i]);
    }
}

/* ---- support ---- */

static void test_support(void **state)
{
    static const char *const priorities[] = { "Low", "Medium", "High", "Critical" };
    static const int target_hours[] = { 72, 24, 8, 4 };
    static const char *const topics[] = { "Technical", "Billing", "Account", "Product" };
    static const char *const statuses[] = { "Open", "Resolved", "Closed" };
    static const char *const channels[] = { "Email", "Chat", "Phone" };
    int64_t now = seconds("2026-01-31 23:59:59"), before = 0;
    int n, critical_open = 0, scored = 0, counts[3] = { 0 };
    struct csv csv;

    (void)state;
    csv_open(&csv, "support/tickets.csv",
             "ticket_id,created_at,resolved_at,category,priority,csat_score,sla_met,"
             "resolution_time_hours,status,agent_id,channel");
    for (n = 0; csv_row(&csv); n++) {
        char id[16];
        int64_t created = seconds(csv.cells[1]), age;
        int priority, status;

        assert_int_equal(csv.n, 11);
        snprintf(id, sizeof(id), "TKT-%05d", n + 1);
        assert_string_equal(csv.cells[0], id);
        assert_true(created >= before);
        before = created;
        index_of(csv.cells[3], topics, 4);
        priority = index_of(csv.cells[4], priorities, 4);
        status = index_of(csv.cells[8], statuses, 3);
        assert_int_equal(strncmp(csv.cells[9], "AGT-", 4), 0);
        index_of(csv.cells[10], channels, 3);
        counts[status]++;
        if (status == 0) {
            assert_string_equal(csv.cells[2], "");
            assert_string_equal(csv.cells[5], "");
            assert_string_equal(csv.cells[7], "");
            age = now - created;
            critical_open += priority == 3;
        } else {
            int64_t resolved = seconds(csv.cells[2]);

            age = resolved - created;
            assert_true(age > 0 && resolved <= now);
            assert_int_equal(hundredths(csv.cells[7], 2), (age * 100 + 1800) / 3600);
            if (csv.cells[5][0]) {
                assert_in_range(number(csv.cells[5]), 1, 5);
                scored++;
            }
        }
        assert_string_equal(csv.cells[6], age <= target_hours[priority] * 3600 ? "1" : "0");
    }
    csv_close(&csv);
    assert_int_equal(n, 6417);
    assert_true(critical_open >= 3);
    assert_in_range(scored, 3000, 4500);
    for (int i = 0; i < 3; i++)
        assert_true(counts[i] > 50);
}

/* ---- sensors ---- */

static void test_sensors(void **state)
{
    static const char *const zones[] = { "North", "South", "East", "West" };
    static const char *const statuses[] = { "online", "offline", "maintenance" };
    static const char *const types[] = {
        "", "high_temp", "low_temp", "high_humidity", "sensor_fault", "vibration_alarm"
    };
    static int battery[151];
    int n, counts[6] = { 0 }, low_batteries = 0;
    struct csv csv;

    (void)state;
    csv_open(
        &csv, "sensors/sensors.csv",
        "sensor_id,timestamp,location,zone,temperature_c,humidity_pct,pressure_hpa,vibration_mm_s,"
        "anomaly_flag,anomaly_type,battery_pct,status");
    for (n = 0; csv_row(&csv); n++) {
        char id[16];
        int sensor = n % 150 + 1, type, expected = 0, status;
        bool silent;

        assert_int_equal(csv.n, 12);
        snprintf(id, sizeof(id), "SEN-%03d", sensor);
        assert_string_equal(csv.cells[0], id);
        assert_int_equal(seconds(csv.cells[1]),
                         seconds("2026-01-31 23:00:00") - (int64_t)(332 - n / 150) * 3600);
        index_of(csv.cells[3], zones, 4);
        type = index_of(csv.cells[9], types, 6);
        status = index_of(csv.cells[11], statuses, 3);
        silent = !csv.cells[4][0] && !csv.cells[5][0] && !csv.cells[6][0] && !csv.cells[7][0];
        if (status == 1) {
            assert_true(silent && !csv.cells[10][0]);
        } else if (silent) {
            expected = 4;
        } else if (csv.cells[4][0] && hundredths(csv.cells[4], 1) > 350) {
            expected = 1;
        } else if (csv.cells[4][0] && hundredths(csv.cells[4], 1) < 50) {
            expected = 2;
        } else if (csv.cells[5][0] && hundredths(csv.cells[5], 1) > 850) {
            expected = 3;
        } else if (csv.cells[7][0] && hundredths(csv.cells[7], 2) > 800) {
            expected = 5;
        }
        assert_int_equal(type, expected);
        assert_string_equal(csv.cells[8], type ? "1" : "0");
        counts[type]++;
        if (status != 1) {
            int charge = hundredths(csv.cells[10], 1);

            assert_in_range(charge, 0, 1000);
            /* It only ever declines, or was changed for a full one. */
            assert_true(battery[sensor] == 0 || charge <= battery[sensor] || charge == 1000);
            battery[sensor] = charge;
        }
    }
    csv_close(&csv);
    assert_int_equal(n, 49950);
    for (int i = 0; i < 6; i++)
        assert_true(counts[i] > 50);
    for (int i = 1; i <= 150; i++)
        low_batteries += battery[i] < 200;
    assert_in_range(low_batteries, 5, 50);
}

/* ---- transactions ---- */

static void test_transactions(void **state)
{
    static const char *const statuses[] = { "completed", "pending", "refunded", "failed" };
    static const char *const kinds[] = { "Housing", "Utilities", "Insurance", "Groceries",
                                         "Dining",  "Transport", "Shopping",  "Entertainment",
                                         "Health",  "Travel" };
    int n, counts[4] = { 0 }, of_kind[10] = { 0 };
    int64_t before = seconds("2024-01-01");
    struct csv csv;

    (void)state;
    csv_open(&csv, "transactions/transactions.csv", "id,date,description,amount,category,status");
    for (n = 0; csv_row(&csv); n++) {
        char id[16];

        assert_int_equal(csv.n, 6);
        snprintf(id, sizeof(id), "TXN%04d", n + 1);
        assert_string_equal(csv.cells[0], id);
        if (n == 0)
            assert_string_equal(csv.cells[1], "2024-01-01");
        assert_true(seconds(csv.cells[1]) >= before &&
                    seconds(csv.cells[1]) <= seconds("2024-12-31"));
        before = seconds(csv.cells[1]);
        assert_true(csv.cells[2][0] != '\0');
        assert_true(hundredths(csv.cells[3], 2) > 0);
        of_kind[index_of(csv.cells[4], kinds, 10)]++;
        counts[index_of(csv.cells[5], statuses, 4)]++;
    }
    csv_close(&csv);
    assert_int_equal(n, 1000);
    assert_int_equal(of_kind[0], 12);
    for (int i = 0; i < 10; i++)
        assert_true(of_kind[i] >= 12);
    for (int i = 0; i < 4; i++)
        assert_true(counts[i] > 0);
}

/* ---- other people's sets ---- */

static void test_other_entries_stay(void **state)
{
    static const char mine[] =
        "{\"version\":\"1.0\",\"datasets\":["
        "{\"id\":\"mine\",\"name\":\"Mine\",\"files\":[{\"name\":\"a.csv\",\"path\":\"mine/a.csv\"}]},"
        "{\"id\":\"support\",\"name\":\"Old\",\"files\":[{\"name\":\"t.csv\",\"path\":\"support/t.csv\"}]}]}";
    auto_buf struct buf b = BUF_INIT(MAX_FILE_BYTES);
    auto_json json_t *json = NULL;
    const json_t *list;
    char where[64];
    struct err err;

    (void)state;
    make_scratch(where);
    assert_works(fd_write_file(path_in(where, "registry.json"), mine, &err), &err);
    assert_works(datasets_generate(where, &err), &err);
    assert_works(fd_read_file(path_in(where, "registry.json"), &b, &err), &err);
    assert_works(json_parse(b.data, b.len, &json, &err), &err);
    list = json_object_get(json, "datasets");
    assert_int_equal(json_array_size(list), n_bundled_sets + 1);
    assert_string_equal(json_string_value(json_object_get(json_array_get(list, 1), "name")),
                        "Support Tickets");
    assert_string_equal(json_string_value(json_object_get(json_array_get(list, 4), "name")),
                        "Mine");
    assert_works(fd_remove_tree(where, &err), &err);
}

static void test_bad_registry_is_kept(void **state)
{
    char where[64], message[256];
    struct err err;

    (void)state;
    make_scratch(where);
    assert_works(fd_write_file(path_in(where, "registry.json"), "{\n\"version\": oops", &err),
                 &err);
    snprintf(
        message, sizeof(message),
        "registry '%s/registry.json': invalid JSON at line 2, column 15: invalid token near 'oops'; nothing was written",
        where);
    assert_fails(datasets_generate(where, &err), &err, ERR_INVALID_JSON, message);
    assert_int_equal(access(path_in(where, "ecommerce"), F_OK), -1);
    assert_works(fd_remove_tree(where, &err), &err);
}

static void test_unwritable(void **state)
{
    char where[64], message[256];
    struct err err;

    (void)state;
    make_scratch(where);
    assert_works(fd_write_file(path_in(where, "ecommerce"), "a file in the way", &err), &err);
    assert_int_equal(datasets_generate(where, &err), -ERR_IO);
    snprintf(message, sizeof(message), "generating dataset 'ecommerce': ");
    assert_int_equal(strncmp(err.message, message, strlen(message)), 0);
    assert_int_equal(access(path_in(where, "registry.json"), F_OK), -1);
    assert_works(fd_remove_tree(where, &err), &err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calendar),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_fixed),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_again),
        cmocka_unit_test(test_ecommerce),
        cmocka_unit_test(test_support),
        cmocka_unit_test(test_sensors),
        cmocka_unit_test(test_transactions),
        cmocka_unit_test(test_other_entries_stay),
        cmocka_unit_test(test_bad_registry_is_kept),
        cmocka_unit_test(test_unwritable),
    };

    return cmocka_run_group_tests(tests, generate_once, remove_all);
}
