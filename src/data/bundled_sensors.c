/*
 * The sensors set: 150 sensors in 15 places, a reading every hour for 333 hours up to 2026-01-31
 * 23:00.
 *
 * What there is to find in it: temperatures follow the day, machines shake in working hours,
 * pressure is the same weather for all, batteries decline at different speeds and some die;
 * anomalies come in episodes of a few hours, and some places have more of them. What holds without
 * exception: anomaly_flag is 1 exactly when anomaly_type is given; the type follows from the values
 * (over 35 °C high_temp, under 5 °C low_temp, over 85 % high_humidity, over 8 mm/s vibration_alarm,
 * no value at all while online sensor_fault); an offline sensor reports nothing.
 */

#include <stdlib.h>
#include "base/macros.h"
#include "data/bundled.h"
#include "data/synth.h"

#define PER_PLACE 10
#define N_PLACES (SENSORS_COUNT / PER_PLACE)
#define HIGH_TEMP 350 /* tenths of a degree */
#define LOW_TEMP 50
#define HIGH_HUMIDITY 850  /* tenths of a per cent */
#define HIGH_VIBRATION 800 /* hundredths of mm/s */
#define EMPTY_BATTERY 50   /* hundredths of a per cent */
#define FULL_BATTERY 10000

enum mode {
    NORMAL,
    OFFLINE,
    MAINTENANCE,
    HOT,
    COLD,
    DAMP,
    FAULTY,
    SHAKING,
    _MODE_MAX,
};

static const struct place {
    const char *name, *zone;
    int temperature, humidity; /* tenths */
    int vibration;             /* hundredths, in working hours */
    int trouble;               /* per 10,000 hours, how often an anomaly begins */
} places[N_PLACES] = {
    { "Assembly Hall 1", "North", 221, 420, 290, 60 },
    { "Assembly Hall 2", "East", 218, 430, 310, 75 },
    { "Boiler Room", "North", 288, 330, 180, 130 },
    { "Cold Store", "South", 92, 610, 90, 110 },
    { "Compressor Station", "West", 262, 380, 460, 150 },
    { "Control Room", "East", 214, 400, 25, 15 },
    { "Data Center", "East", 206, 380, 60, 40 },
    { "Laboratory", "West", 211, 450, 30, 25 },
    { "Loading Dock", "South", 152, 560, 120, 70 },
    { "Machine Shop", "North", 229, 400, 420, 95 },
    { "Office Block", "West", 216, 420, 20, 15 },
    { "Paint Shop", "East", 238, 520, 150, 85 },
    { "Pump House", "South", 176, 640, 390, 120 },
    { "Warehouse A", "South", 172, 500, 70, 35 },
    { "Warehouse B", "West", 168, 510, 70, 45 },
};

struct sensor {
    int offset;  /* tenths of a degree: where it hangs */
    int drain;   /* hundredths of a per cent of battery per hour */
    int battery; /* hundredths of a per cent */
    int mode;
    int hours_left; /* of the mode */
};

/* A reading of all values, some of which may be absent. */
enum value { TEMPERATURE, HUMIDITY, PRESSURE, VIBRATION, BATTERY, _VALUE_MAX };
static const int value_digits[_VALUE_MAX] = { 1, 1, 1, 2, 1 };

struct reading {
    int values[_VALUE_MAX];
    bool present[_VALUE_MAX];
};

static int clamp(int x, int lo, int hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

/* ---- what happens to a sensor ---- */

static void enter(struct synth *rng, struct sensor *s, int mode, int min_hours, int max_hours)
{
    s->mode = mode;
    s->hours_left = synth_between(rng, min_hours, max_hours);
}

static int pick_trouble(struct synth *rng, const struct place *place)
{
    int weights[_MODE_MAX] = {
        [HOT] = 25, [COLD] = 15, [DAMP] = 22, [FAULTY] = 18, [SHAKING] = 20
    };

    if (place->temperature < 100)
        weights[COLD] += 60;
    if (place->temperature > 250)
        weights[HOT] += 60;
    if (place->humidity > 550)
        weights[DAMP] += 50;
    if (place->vibration > 350)
        weights[SHAKING] += 60;
    return (int)synth_pick(rng, weights, _MODE_MAX);
}

static void next_mode(struct synth *rng, struct sensor *s, const struct place *place)
{
    int luck;

    if (s->battery <= EMPTY_BATTERY) {
        s->mode = OFFLINE;
        return;
    }
    if (s->hours_left > 0 && --s->hours_left > 0)
        return;
    if (s->mode == MAINTENANCE)
        s->battery = FULL_BATTERY; /* that is what they came for */
    s->mode = NORMAL;
    luck = synth_below(rng, 10000);
    if (luck < place->trouble) {
        int mode = pick_trouble(rng, place);

        enter(rng, s, mode, 1, 6);
    } else if (luck >= 9970) {
        enter(rng, s, OFFLINE, 2, 30);
    } else if (luck >= 9960) {
        enter(rng, s, MAINTENANCE, 1, 4);
    }
}

/* ---- what it measures ---- */

static void measure(struct synth *rng, const struct sensor *s, const struct place *place, int hour,
                    bool working, int weather, struct reading *ret)
{
    /*
     * How far the temperature is from the day's mean, in thousandths of its swing: coldest at 4,
     * warmest at 15.
     */
    static const int swing[24] = { -640, -760, -880, -960, -1000, -960, -840, -620,
                                   -340, -40,  270,  560,  780,   920,  990,  1000,
                                   920,  760,  540,  300,  60,    -160, -360, -510 };
    int *v = ret->values;

    v[TEMPERATURE] = place->temperature + s->offset + swing[hour] * 22 / 1000 + synth_bell(rng, 5);
    v[HUMIDITY] = place->humidity - swing[hour] * 35 / 1000 + synth_bell(rng, 14);
    v[PRESSURE] = weather + synth_bell(rng, 2);
    v[VIBRATION] = (working ? place->vibration : place->vibration / 4) +
                   synth_bell(rng, 4 + place->vibration / 12);
    v[BATTERY] = (s->battery + 5) / 10;

    v[TEMPERATURE] = clamp(v[TEMPERATURE], LOW_TEMP + 5, HIGH_TEMP - 5);
    v[HUMIDITY] = clamp(v[HUMIDITY], 120, HIGH_HUMIDITY - 25);
    v[VIBRATION] = clamp(v[VIBRATION], 2, HIGH_VIBRATION - 40);
    switch (s->mode) {
    case HOT:
        v[TEMPERATURE] = HIGH_TEMP + 4 + synth_below(rng, 90);
        break;
    case COLD:
        v[TEMPERATURE] = LOW_TEMP - 4 - synth_below(rng, 80);
        break;
    case DAMP:
        v[HUMIDITY] = HIGH_HUMIDITY + 5 + synth_below(rng, 125);
        break;
    case SHAKING:
        v[VIBRATION] = HIGH_VIBRATION + 15 + synth_below(rng, 600);
        break;
    default:
        break;
    }
    for (int i = 0; i < _VALUE_MAX; i++)
        ret->present[i] = s->mode != OFFLINE && (s->mode != FAULTY || i == BATTERY);
    /* Now and then one value is lost on the way: never the only one, or it would be a fault. */
    if ((s->mode == NORMAL || s->mode == MAINTENANCE) && synth_chance(rng, 12))
        ret->present[synth_below(rng, BATTERY)] = false;
}

static const char *anomaly(const struct sensor *s, const struct reading *reading)
{
    const int *v = reading->values;

    if (s->mode == OFFLINE)
        return NULL;
    if (s->mode == FAULTY)
        return "sensor_fault";
    if (reading->present[TEMPERATURE] && v[TEMPERATURE] > HIGH_TEMP)
        return "high_temp";
    if (reading->present[TEMPERATURE] && v[TEMPERATURE] < LOW_TEMP)
        return "low_temp";
    if (reading->present[HUMIDITY] && v[HUMIDITY] > HIGH_HUMIDITY)
        return "high_humidity";
    if (reading->present[VIBRATION] && v[VIBRATION] > HIGH_VIBRATION)
        return "vibration_alarm";
    return NULL;
}

/* ---- the file ---- */

static int put_value(struct buf *b, const struct reading *reading, int which, struct err *err)
{
    int r = 0;

    if (reading->present[which])
        r = synth_put_fixed(b, reading->values[which], value_digits[which], err);
    return r < 0 ? r : buf_append(b, ",", 1, err);
}

static int write_reading(struct buf *b, int number, int64_t second, const struct sensor *s,
                         const struct place *place, const struct reading *reading, struct err *err)
{
    const char *type = anomaly(s, reading);
    int r = buf_printf(b, err, "SEN-%03d,", number);

    if (r == 0)
        r = synth_put_time(b, second, err);
    if (r == 0)
        r = buf_printf(b, err, ",%s,%s,", place->name, place->zone);
    for (int i = 0; r == 0 && i < BATTERY; i++)
        r = put_value(b, reading, i, err);
    if (r == 0)
        r = buf_printf(b, err, "%d,%s,", type != NULL, type ? type : "");
    if (r == 0)
        r = put_value(b, reading, BATTERY, err);
    if (r == 0)
        r = buf_printf(b, err, "%s\n",
                       s->mode == OFFLINE     ? "offline" :
                       s->mode == MAINTENANCE ? "maintenance" :
                                                "online");
    return r;
}

int bundled_write_sensors(struct buf *files, struct err *err)
{
    struct synth rng;
    struct sensor sensors[SENSORS_COUNT];
    int64_t end = (int64_t)synth_day(2026, 1, 31) * 86400 + 23 * 3600;
    int weather = 10132; /* tenths of hPa */
    int r = buf_append_str(
        &files[0],
        "sensor_id,timestamp,location,zone,temperature_c,humidity_pct,pressure_hpa,"
        "vibration_mm_s,anomaly_flag,anomaly_type,battery_pct,status\n",
        err);

    synth_init(&rng, SENSORS_SEED);
    for (int i = 0; i < SENSORS_COUNT; i++) {
        int old = synth_chance(&rng, 150) ? 1500 : 4200;

        sensors[i] = (struct sensor){ .mode = NORMAL };
        sensors[i].offset = synth_bell(&rng, 8);
        sensors[i].drain = synth_between(&rng, 1, 9);
        sensors[i].battery = synth_between(&rng, old, old == 1500 ? 4000 : FULL_BATTERY);
    }
    for (int t = 0; r == 0 && t < SENSORS_HOURS; t++) {
        int64_t second = end - (int64_t)(SENSORS_HOURS - 1 - t) * 3600;
        int hour = (int)(second / 3600 % 24), weekday = synth_date((int)(second / 86400)).weekday;
        bool working = hour >= 6 && hour < 22 && weekday != 0;

        weather += synth_bell(&rng, 4) + (10132 - weather) / 40;
        for (int i = 0; r == 0 && i < SENSORS_COUNT; i++) {
            const struct place *place = &places[i % N_PLACES];
            struct reading reading;

            next_mode(&rng, &sensors[i], place);
            measure(&rng, &sensors[i], place, hour, working, weather, &reading);
            r = write_reading(&files[0], i + 1, second, &sensors[i], place, &reading, err);
            if (sensors[i].mode != OFFLINE)
                sensors[i].battery = MAX_OF(sensors[i].battery - sensors[i].drain, 0);
        }
    }
    return r;
}
