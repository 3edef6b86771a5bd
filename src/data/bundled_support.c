/*
 * The support set: tickets of half a year, as they stood at the end of 2026-01-31.
 *
 * What there is to find in it: work comes on weekdays in office hours; an outage on 2025-11-18 and
 * 19 floods the technical queue; billing is busy at the start of a month; agents differ in speed;
 * people whose ticket was late are less happy; a few tickets lie open for weeks, critical ones
 * among them. What holds without exception: an open ticket has no resolution and no score;
 * resolution_time_hours is the time between the two stamps; sla_met compares it (for an open
 * ticket: its age) with the target of the priority, which is 4, 8, 24 and 72 hours from Critical to
 * Low.
 */

#include <stdlib.h>
#include "base/macros.h"
#include "data/bundled.h"
#include "data/synth.h"

#define N_DAYS 184 /* 2025-08-01 to 2026-01-31 */
#define N_AGENTS 24
#define CSAT_MAX 5

enum category { TECHNICAL, BILLING, ACCOUNT, PRODUCT, _CATEGORY_MAX };
enum priority { LOW, MEDIUM, HIGH, CRITICAL, _PRIORITY_MAX };
enum channel { EMAIL, CHAT, PHONE, _CHANNEL_MAX };

static const char *const category_names[_CATEGORY_MAX] = { "Technical", "Billing", "Account",
                                                           "Product" };
static const char *const priority_names[_PRIORITY_MAX] = { "Low", "Medium", "High", "Critical" };
static const char *const channel_names[_CHANNEL_MAX] = { "Email", "Chat", "Phone" };

static const int target_minutes[_PRIORITY_MAX] = { 72 * 60, 24 * 60, 8 * 60, 4 * 60 };

static const int priority_weights[_CATEGORY_MAX][_PRIORITY_MAX] = {
    [TECHNICAL] = { 22, 40, 27, 11 },
    [BILLING] = { 30, 45, 21, 4 },
    [ACCOUNT] = { 40, 42, 15, 3 },
    [PRODUCT] = { 50, 38, 10, 2 },
};

struct desk {
    struct synth rng;
    int first_day;
    int64_t now;                  /* when the tickets were looked at, seconds since 1970 */
    int pace[N_AGENTS];           /* per cent of the usual time that an agent needs */
    int created[SUPPORT_TICKETS]; /* seconds since the first day */
};

static bool is_outage(const struct synth_date *d)
{
    return d->year == 2025 && d->month == 11 && (d->day == 18 || d->day == 19);
}

static int compare_ints(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;

    return x < y ? -1 : x > y;
}

static void make_arrivals(struct desk *desk)
{
    static const int weekday[7] = { 35, 128, 118, 112, 108, 100, 48 };
    static const int hour[24] = { 6,  4,  3,  3,  4,  7,  14, 32, 68, 92, 96, 88,
                                  70, 78, 86, 84, 76, 60, 42, 32, 26, 20, 14, 9 };
    int weights[N_DAYS];

    for (int i = 0; i < N_DAYS; i++) {
        struct synth_date d = synth_date(desk->first_day + i);

        weights[i] = weekday[d.weekday] * (1000 + i) / 100;
        if (is_outage(&d))
            weights[i] = weights[i] * 35 / 10;
        if (d.month == 12 && d.day >= 24 && d.day <= 26)
            weights[i] /= 2;
    }
    for (int i = 0; i < SUPPORT_TICKETS; i++) {
        int day = (int)synth_pick(&desk->rng, weights, N_DAYS);
        int h = (int)synth_pick(&desk->rng, hour, 24);

        desk->created[i] = day * 86400 + h * 3600 + synth_below(&desk->rng, 3600);
    }
    qsort(desk->created, SUPPORT_TICKETS, sizeof(desk->created[0]), compare_ints);
}

static int pick_category(struct desk *desk, const struct synth_date *d)
{
    int weights[_CATEGORY_MAX] = { 38, 24, 22, 16 };

    if (is_outage(d))
        weights[TECHNICAL] += 300;
    if (d->day <= 5)
        weights[BILLING] += 22;
    return (int)synth_pick(&desk->rng, weights, _CATEGORY_MAX);
}

/* How long the ticket takes; most stay within the target of their priority. */
static int pick_minutes(struct desk *desk, int priority, int agent, bool outage)
{
    int luck = synth_below(&desk->rng, 1000), share; /* per cent of the target */

    if (luck < 800)
        share = synth_between(&desk->rng, 6, 92);
    else if (luck < 940)
        share = synth_between(&desk->rng, 93, 180);
    else
        share = synth_between(&desk->rng, 181, 430);
    share = share * desk->pace[agent] / 100 * (outage ? 160 : 100) / 100;
    return MAX_OF(target_minutes[priority] * share / 100, 4) + synth_below(&desk->rng, 4);
}

static int pick_score(struct desk *desk, int channel, bool in_time)
{
    static const int answers[_CHANNEL_MAX] = { 500, 660, 590 }; /* per mille */
    static const int happy[CSAT_MAX] = { 3, 6, 14, 37, 40 };
    static const int cross[CSAT_MAX] = { 24, 27, 25, 16, 8 };

    if (!synth_chance(&desk->rng, answers[channel]))
        return 0;
    return 1 + (int)synth_pick(&desk->rng, in_time ? happy : cross, CSAT_MAX);
}

/* Left lying: the younger a ticket, the likelier. */
static bool is_stuck(struct desk *desk, int64_t created)
{
    int64_t days = (desk->now - created) / 86400;

    return synth_chance(&desk->rng, days < 21 ? 60 : days < 75 ? 12 : 2);
}

static int write_ticket(struct desk *desk, int i, struct buf *b, struct err *err)
{
    static const int channel_weights[_CHANNEL_MAX] = { 46, 36, 18 };
    static const int urgent_weights[_CHANNEL_MAX] = { 15, 35, 50 };
    int64_t created = (int64_t)desk->first_day * 86400 + desk->created[i], resolved;
    struct synth_date d = synth_date((int)(created / 86400));
    int category = pick_category(desk, &d);
    int priority = (int)synth_pick(&desk->rng, priority_weights[category], _PRIORITY_MAX);
    int channel = (int)synth_pick(
        &desk->rng, priority == CRITICAL ? urgent_weights : channel_weights, _CHANNEL_MAX);
    int agent = synth_below(&desk->rng, N_AGENTS);
    int minutes = pick_minutes(desk, priority, agent, category == TECHNICAL && is_outage(&d));
    bool open = is_stuck(desk, created), in_time, lingers = synth_chance(&desk->rng, 70);
    int score;
    int r;

    resolved = created + (int64_t)minutes * 60;
    open = open || resolved > desk->now;
    in_time = open ? desk->now - created <= (int64_t)target_minutes[priority] * 60 :
                     minutes <= target_minutes[priority];
    score = open ? 0 : pick_score(desk, channel, in_time);

    r = buf_printf(b, err, "TKT-%05d,", i + 1);
    if (r == 0)
        r = synth_put_time(b, created, err);
    if (r == 0)
        r = buf_append(b, ",", 1, err);
    if (r == 0 && !open)
        r = synth_put_time(b, resolved, err);
    if (r == 0)
        r = buf_printf(b, err, ",%s,%s,", category_names[category], priority_names[priority]);
    if (r == 0 && score)
        r = buf_printf(b, err, "%d", score);
    if (r == 0)
        r = buf_printf(b, err, ",%d,", in_time);
    if (r == 0 && !open)
        r = synth_put_fixed(b, (minutes * 100 + 30) / 60, 2, err);
    if (r == 0) {
        bool closed = desk->now - resolved > 5 * 86400 && !lingers;

        r = buf_printf(b, err, ",%s,AGT-%02d,%s\n",
                       open   ? "Open" :
                       closed ? "Closed" :
                                "Resolved",
                       agent + 1, channel_names[channel]);
    }
    return r;
}

int bundled_write_support(struct buf *files, struct err *err)
{
    auto_free struct desk *desk = calloc(1, sizeof(*desk));
    int r;

    if (!desk)
        return err_set(err, ERR_NO_MEMORY, "out of memory for the support set");
    synth_init(&desk->rng, SUPPORT_SEED);
    desk->first_day = synth_day(2025, 8, 1);
    desk->now = (int64_t)(desk->first_day + N_DAYS) * 86400 - 1;
    for (int i = 0; i < N_AGENTS; i++)
        desk->pace[i] = synth_between(&desk->rng, 72, 132);
    make_arrivals(desk);
    r = buf_append_str(&files[0],
                       "ticket_id,created_at,resolved_at,category,priority,csat_score,sla_met,"
                       "resolution_time_hours,status,agent_id,channel\n",
                       err);
    for (int i = 0; r == 0 && i < SUPPORT_TICKETS; i++)
        r = write_ticket(desk, i, &files[0], err);
    return r;
}
