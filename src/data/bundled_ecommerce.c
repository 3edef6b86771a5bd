/*
 * The ecommerce set: orders, their items, and the inventory.
 *
 * What there is to find in it: sales grow over the half year, peak in the week of Black Friday and
 * before Christmas and are stronger at weekends; toys sell in December; a tenth of the customers
 * bring two fifths of the money; clothing comes back most often, books least; dear orders are
 * cancelled more often. What holds without exception: an item has the category of its product, an
 * order has at least one item, its total is the sum of quantity * price * (1 - discount) over them,
 * rounded once, and `returned` is 1 exactly when the status says so.
 */

#include <stdlib.h>
#include "base/macros.h"
#include "data/bundled.h"
#include "data/synth.h"

#define N_CUSTOMERS 1180
#define MAX_ITEMS 8 /* of one order */
#define N_WORDS 12

enum category { ELECTRONICS, CLOTHING, HOME, BOOKS, TOYS, _CATEGORY_MAX };
enum status { COMPLETED, RETURNED, CANCELLED, _STATUS_MAX };

static const char *const status_names[_STATUS_MAX] = { "completed", "returned", "cancelled" };

static const struct category_facts {
    const char *name;
    int products;
    int min_price, max_price; /* cents */
    int return_bonus;         /* per mille, over the set's base rate */
    const char *first[N_WORDS], *second[N_WORDS];
} categories[_CATEGORY_MAX] = {
    [ELECTRONICS] = { "Electronics",
                      110,
                      1900,
                      89900,
                      200,
                      { "Volta", "Pixelon", "Nimbus", "Corvid", "Helio", "Quanta", "Arclight",
                        "Sonora", "Zephyr", "Tessera", "Borealis", "Kilo" },
                      { "Headphones", "Tablet", "Smartwatch", "Bluetooth Speaker", "Webcam",
                        "Monitor", "Keyboard", "Power Bank", "Router", "E-Reader", "Dash Camera",
                        "Soundbar" } },
    [CLOTHING] = { "Clothing",
                   130,
                   900,
                   14900,
                   360,
                   { "Harbor", "Alder", "Meadow", "Northway", "Solstice", "Ember", "Juniper",
                     "Fjord", "Cinder", "Willow", "Atlas", "Coast" },
                   { "Rain Jacket", "Wool Sweater", "Linen Shirt", "Denim Jeans", "Running Shoes",
                     "Summer Dress", "Hoodie", "Scarf", "Leather Belt", "Chinos", "Cardigan",
                     "Ankle Boots" } },
    [HOME] = { "Home",
               100,
               800,
               29900,
               110,
               { "Oakridge", "Linden", "Copper", "Stonebrook", "Cedar", "Marble", "Hearth",
                 "Birchwood", "Saffron", "Clay", "Northlight", "Granite" },
               { "Desk Lamp", "Coffee Maker", "Throw Blanket", "Knife Set", "Bookshelf", "Area Rug",
                 "Wall Clock", "Frying Pan", "Side Table", "Duvet Cover", "Planter",
                 "Storage Box" } },
    [BOOKS] = { "Books",
                90,
                500,
                4900,
                0,
                { "The Silent", "A Distant", "The Last", "Beyond the", "The Hidden", "Under the",
                  "The Glass", "A Brief", "The Winter", "Notes on the", "The Paper",
                  "The Seventh" },
                { "River", "Garden", "Harbor", "Archive", "Mountain", "Orchard", "Lighthouse",
                  "Atlas", "Island", "Clockmaker", "Frontier", "Observatory" } },
    [TOYS] = { "Toys",
               70,
               400,
               7900,
               150,
               { "Happy", "Turbo", "Galaxy", "Jungle", "Castle", "Rainbow", "Robo", "Ocean", "Dino",
                 "Circus", "Polar", "Little" },
               { "Building Blocks", "Puzzle", "Race Car", "Plush Bear", "Board Game", "Train Set",
                 "Science Kit", "Doll House", "Kite", "Marble Run", "Play Dough",
                 "Walkie Talkies" } },
};

struct product {
    int category;
    const char *first, *second;
    int price; /* cents, until the end of 2025 */
    int stock;
};

struct order {
    int day;
    int customer;
    int n_items;
    int first_item;
    int total;        /* cents */
    int return_bonus; /* mean of its items */
    int status;
};

struct item {
    int product;
    int quantity;
    int price;    /* cents */
    int discount; /* per cent */
};

struct shop {
    struct synth rng;
    struct product products[ECOMMERCE_PRODUCTS];
    int by_category[_CATEGORY_MAX][ECOMMERCE_PRODUCTS]; /* products, best selling first */
    int popularity[ECOMMERCE_PRODUCTS];                 /* weight of the n-th best seller */
    int favourite[N_CUSTOMERS];                         /* category */
    int customer_weight[N_CUSTOMERS];
    struct order orders[ECOMMERCE_ORDERS];
    struct item items[ECOMMERCE_ITEMS];
};

/* ---- what is sold, and to whom ---- */

static int make_price(struct shop *shop, const struct category_facts *facts)
{
    int a = synth_between(&shop->rng, facts->min_price, facts->max_price);
    int b = synth_between(&shop->rng, facts->min_price, facts->max_price);
    int c = synth_between(&shop->rng, facts->min_price, facts->max_price);
    int low = MIN_OF(MIN_OF(a, b), c); /* most things are cheap */

    return low / 100 * 100 + (synth_chance(&shop->rng, 700) ? 99 : 49);
}

static void make_products(struct shop *shop)
{
    int slots[ECOMMERCE_PRODUCTS], names[_CATEGORY_MAX][N_WORDS * N_WORDS];
    int used[_CATEGORY_MAX] = { 0 };
    size_t n = 0;

    for (int c = 0; c < _CATEGORY_MAX; c++) {
        for (int i = 0; i < categories[c].products; i++)
            slots[n++] = c;
        for (int i = 0; i < N_WORDS * N_WORDS; i++)
            names[c][i] = i;
        synth_shuffle(&shop->rng, names[c], N_WORDS * N_WORDS);
    }
    synth_shuffle(&shop->rng, slots, n);
    for (int i = 0; i < ECOMMERCE_PRODUCTS; i++) {
        int c = slots[i], name = names[c][used[c]];

        shop->by_category[c][used[c]++] = i;
        shop->popularity[i] = 6000 / (i + 6) + 20;
        shop->products[i] = (struct product){ .category = c,
                                              .first = categories[c].first[name / N_WORDS],
                                              .second = categories[c].second[name % N_WORDS],
                                              .price = make_price(shop, &categories[c]) };
    }
    for (int c = 0; c < _CATEGORY_MAX; c++) {
        synth_shuffle(&shop->rng, shop->by_category[c], (size_t)used[c]);
        /* Best sellers are stocked in number, and are also what runs out. */
        for (int i = 0; i < used[c]; i++) {
            bool sold_out = synth_chance(&shop->rng, i < 10 ? 100 : 35);
            int spread = synth_between(&shop->rng, 4, 120);

            shop->products[shop->by_category[c][i]].stock = sold_out ?
                                                                0 :
                                                                spread + shop->popularity[i] / 4;
        }
    }
}

static void make_customers(struct shop *shop)
{
    static const int taste[_CATEGORY_MAX] = { 22, 30, 22, 16, 10 };
    int rank[N_CUSTOMERS];

    for (int i = 0; i < N_CUSTOMERS; i++)
        rank[i] = i;
    synth_shuffle(&shop->rng, rank, N_CUSTOMERS);
    for (int i = 0; i < N_CUSTOMERS; i++) {
        shop->customer_weight[i] = 9000 / (rank[i] + 40) + 8;
        shop->favourite[i] = (int)synth_pick(&shop->rng, taste, _CATEGORY_MAX);
    }
}

/* ---- what is ordered ---- */

static bool is_sale(int day)
{
    return day >= synth_day(2025, 11, 24) && day <= synth_day(2025, 12, 1);
}

static int day_weight(int day, int first, int last)
{
    static const int weekday[7] = { 124, 106, 94, 90, 95, 108, 121 };
    struct synth_date d = synth_date(day);
    int weight = (1000 + 450 * (day - first) / (last - first)) * weekday[d.weekday] / 100;

    if (is_sale(day))
        weight = weight * 22 / 10;
    else if (d.month == 12 && d.day <= 20)
        weight = weight * 15 / 10;
    else if (d.month == 12 && d.day >= 24 && d.day <= 26)
        weight = weight * 4 / 10;
    return weight;
}

static void make_orders(struct shop *shop)
{
    enum { FIRST_YEAR = 2025, N_DAYS = 173 };
    int first = synth_day(FIRST_YEAR, 8, 12), last = first + N_DAYS - 1;
    int weights[N_DAYS], count[N_DAYS] = { 0 };
    int n = 0;

    for (int i = 0; i < N_DAYS; i++)
        weights[i] = day_weight(first + i, first, last);
    count[0] = count[N_DAYS - 1] = 1; /* so that the dates span what the description says */
    for (int i = 2; i < ECOMMERCE_ORDERS; i++)
        count[synth_pick(&shop->rng, weights, N_DAYS)]++;
    for (int d = 0; d < N_DAYS; d++) {
        for (int i = 0; i < count[d]; i++) {
            size_t customer = synth_pick(&shop->rng, shop->customer_weight, N_CUSTOMERS);

            shop->orders[n++] = (struct order){ .day = first + d,
                                                .customer = (int)customer,
                                                .n_items = 1 };
        }
    }
    /* One item each so far; the others fall where people buy much at once. */
    for (int spare = ECOMMERCE_ITEMS - ECOMMERCE_ORDERS; spare > 0;) {
        struct order *o = &shop->orders[synth_below(&shop->rng, ECOMMERCE_ORDERS)];
        int liking = 350 + 80 * o->n_items + (is_sale(o->day) ? 250 : 0);

        if (o->n_items < MAX_ITEMS && synth_chance(&shop->rng, liking)) {
            o->n_items++;
            spare--;
        }
    }
}

static bool is_in_order(const struct item *items, int n, int product)
{
    for (int i = 0; i < n; i++) {
        if (items[i].product == product)
            return true;
    }
    return false;
}

static int pick_product(struct shop *shop, const struct order *o, const struct item *before, int n)
{
    for (;;) {
        int weights[_CATEGORY_MAX] = { 24, 29, 21, 16, 10 };
        struct synth_date d = synth_date(o->day);
        size_t category, rank;

        weights[shop->favourite[o->customer]] += 22;
        if (d.month == 12 && d.day <= 24)
            weights[TOYS] += 22;
        if (d.month == 9)
            weights[BOOKS] += 12;
        if (is_sale(o->day))
            weights[ELECTRONICS] += 20;
        category = synth_pick(&shop->rng, weights, _CATEGORY_MAX);
        rank = synth_pick(&shop->rng, shop->popularity, (size_t)categories[category].products);
        if (!is_in_order(before, n, shop->by_category[category][rank]))
            return shop->by_category[category][rank];
    }
}

static int pick_discount(struct shop *shop, int day)
{
    static const int steps[] = { 0, 5, 10, 15, 20, 25, 30 };
    static const int usual[] = { 640, 110, 110, 70, 50, 15, 5 };
    static const int sale[] = { 150, 50, 150, 150, 200, 150, 150 };

    return steps[synth_pick(&shop->rng, is_sale(day) ? sale : usual, ARRAY_SIZE(steps))];
}

static void make_items(struct shop *shop)
{
    static const int quantities[] = { 720, 170, 70, 30, 10 };
    static const int small_quantities[] = { 560, 250, 110, 50, 30 };
    int n = 0, new_prices = synth_day(2026, 1, 1);

    for (int i = 0; i < ECOMMERCE_ORDERS; i++) {
        struct order *o = &shop->orders[i];
        long long total = 0; /* hundredths of a cent */

        o->first_item = n;
        for (int k = 0; k < o->n_items; k++, n++) {
            struct item *item = &shop->items[n];
            const struct product *p;
            bool is_small;

            item->product = pick_product(shop, o, &shop->items[o->first_item], k);
            p = &shop->products[item->product];
            is_small = p->category == BOOKS || p->category == TOYS;
            item->quantity = 1 + (int)synth_pick(&shop->rng,
                                                 is_small ? small_quantities : quantities,
                                                 ARRAY_SIZE(quantities));
            item->price = o->day >= new_prices ? p->price + p->price * 4 / 100 : p->price;
            item->discount = pick_discount(shop, o->day);
            total += (long long)item->quantity * item->price * (100 - item->discount);
            o->return_bonus += categories[p->category].return_bonus;
        }
        o->return_bonus /= o->n_items;
        o->total = (int)((total + 50) / 100);
    }
}

/* ---- what becomes of it ---- */

struct ranked {
    int score, order;
};

/* Highest score first; equal scores by order, so that every qsort() gives the same. */
static int compare_ranked(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* Gives `status` to the `count` completed orders that score highest. */
static void give_status(struct shop *shop, struct ranked *ranked, int n, int count, int status)
{
    qsort(ranked, (size_t)n, sizeof(*ranked), compare_ranked);
    for (int i = 0; i < count; i++)
        shop->orders[ranked[i].order].status = status;
}

static void make_statuses(struct shop *shop, struct ranked *ranked)
{
    int n = 0;

    for (int i = 0; i < ECOMMERCE_ORDERS; i++) {
        int luck = synth_below(&shop->rng, 1000);

        ranked[n++] = (struct ranked){ shop->orders[i].return_bonus + luck, i };
    }
    give_status(shop, ranked, n, ECOMMERCE_RETURNED, RETURNED);
    n = 0;
    for (int i = 0; i < ECOMMERCE_ORDERS; i++) {
        int luck = synth_below(&shop->rng, 1000);

        if (shop->orders[i].status == COMPLETED)
            ranked[n++] = (struct ranked){ luck + MIN_OF(shop->orders[i].total, 100000) / 800, i };
    }
    give_status(shop, ranked, n, ECOMMERCE_CANCELLED, CANCELLED);
}

/* ---- files ---- */

static int write_orders(const struct shop *shop, struct buf *b, struct err *err)
{
    int r = buf_append_str(b, "order_id,customer_id,order_date,total,status,returned\n", err);

    for (int i = 0; r == 0 && i < ECOMMERCE_ORDERS; i++) {
        const struct order *o = &shop->orders[i];

        r = buf_printf(b, err, "%d,%d,", i + 1, o->customer + 1);
        if (r == 0)
            r = synth_put_date(b, o->day, err);
        if (r == 0)
            r = buf_append(b, ",", 1, err);
        if (r == 0)
            r = synth_put_fixed(b, o->total, 2, err);
        if (r == 0)
            r = buf_printf(b, err, ",%s,%d\n", status_names[o->status], o->status == RETURNED);
    }
    return r;
}

static int write_items(const struct shop *shop, struct buf *b, struct err *err)
{
    int r = buf_append_str(b, "item_id,order_id,product_id,category,quantity,price,discount\n",
                           err);
    int n = 0;

    for (int i = 0; r == 0 && i < ECOMMERCE_ORDERS; i++) {
        for (int k = 0; r == 0 && k < shop->orders[i].n_items; k++, n++) {
            const struct item *item = &shop->items[n];

            r = buf_printf(b, err, "%d,%d,%d,%s,%d,", n + 1, i + 1, item->product + 1,
                           categories[shop->products[item->product].category].name, item->quantity);
            if (r == 0)
                r = synth_put_fixed(b, item->price, 2, err);
            if (r == 0)
                r = buf_append(b, ",", 1, err);
            if (r == 0)
                r = synth_put_fixed(b, item->discount, 2, err);
            if (r == 0)
                r = buf_append(b, "\n", 1, err);
        }
    }
    return r;
}

static int write_inventory(const struct shop *shop, struct buf *b, struct err *err)
{
    int r = buf_append_str(b, "product_id,name,category,stock\n", err);

    for (int i = 0; r == 0 && i < ECOMMERCE_PRODUCTS; i++) {
        const struct product *p = &shop->products[i];

        r = buf_printf(b, err, "%d,%s %s,%s,%d\n", i + 1, p->first, p->second,
                       categories[p->category].name, p->stock);
    }
    return r;
}

int bundled_write_ecommerce(struct buf *files, struct err *err)
{
    auto_free struct shop *shop = calloc(1, sizeof(*shop));
    auto_free struct ranked *ranked = calloc(ECOMMERCE_ORDERS, sizeof(*ranked));
    int r;

    if (!shop || !ranked)
        return err_set(err, ERR_NO_MEMORY, "out of memory for the ecommerce set");
    synth_init(&shop->rng, ECOMMERCE_SEED);
    make_products(shop);
    make_customers(shop);
    make_orders(shop);
    make_items(shop);
    make_statuses(shop, ranked);
    r = write_orders(shop, &files[0], err);
    if (r == 0)
        r = write_items(shop, &files[1], err);
    if (r == 0)
        r = write_inventory(shop, &files[2], err);
    return r;
}
