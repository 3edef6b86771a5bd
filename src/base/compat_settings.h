#ifndef RIDDLE_BASE_COMPAT_SETTINGS_H
#define RIDDLE_BASE_COMPAT_SETTINGS_H

/*
 * Variables of the systems whose clients and `.env` files work with Riddle. Each is known by name:
 * it is a setting of the same name, stands for another one, or is refused at start with what to set
 * instead. None that would have an effect there is ignored here. config.c applies the table and
 * prints it in docs/env.md.
 */

#include <stddef.h>

enum compat_kind {
    COMPAT_SAME,    /* the setting of that name */
    COMPAT_AS,      /* stands for the setting `ours`, its value followed by `suffix` */
    COMPAT_FIXED,   /* only the values `ours` ("a|b") are what Riddle does; others are refused */
    COMPAT_IDLE,    /* read there only together with a choice that is refused here */
    COMPAT_REFUSED, /* refused whenever it is set */
};

struct compat_setting {
    const char *system; /* that has it */
    const char *name;
    const char *dflt; /* there */
    enum compat_kind kind;
    const char *ours, *suffix;
    const char *text; /* what to set instead, or what to know */
};

/* Rows of the table in order; NULL past the last. */
const struct compat_setting *compat_setting_at(size_t i);

/*
 * A default of another system, which holds where its variables are used: of `setting` once
 * `beside` is set. NULL past the last row.
 */
struct compat_default {
    const char *setting, *beside, *text;
};
const struct compat_default *compat_default_at(size_t i);

/*
 * Another word for a value of a setting ("warning" of LOG_LEVEL), case ignored; text itself when
 * there is none.
 */
const char *compat_value(const char *setting, const char *text);

#endif
