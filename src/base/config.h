#ifndef RIDDLE_BASE_CONFIG_H
#define RIDDLE_BASE_CONFIG_H

/*
 * Settings come from the environment and from a `.env` file in the working directory; the
 * environment wins. They live in one table (config_table.h) that also prints docs/env.md. A bad
 * value is refused at start with the name, the value and what is allowed. Variables of other
 * systems are in compat_settings.h. Reading a setting afterwards is reading a struct member.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include "base/err.h"
#include "base/buf.h"
#include "base/config_table.h"

struct config {
#define CONFIG_STR(field, env, dflt, doc) const char *field;
#define CONFIG_SECRET(field, env, dflt, doc) const char *field;
#define CONFIG_INT(field, env, dflt, min, max, doc) long long field;
#define CONFIG_BYTES(field, env, dflt, min, max, doc) long long field;
#define CONFIG_DOUBLE(field, env, dflt, min, max, doc) double field;
#define CONFIG_BOOL(field, env, dflt, doc) bool field;
#define CONFIG_ENUM(field, env, dflt, choices, doc) const char *field;
#define CONFIG_SECTION(title)
    CONFIG_TABLE
#undef CONFIG_STR
#undef CONFIG_SECRET
#undef CONFIG_INT
#undef CONFIG_BYTES
#undef CONFIG_DOUBLE
#undef CONFIG_BOOL
#undef CONFIG_ENUM
#undef CONFIG_SECTION
    char *storage; /* what the strings point into */
};

/*
 * CONFIG error on the first bad value, and on a variable that begins with RIDDLE_ but is none of
 * ours (nearest name told).
 */
int config_load(struct config *ret, const char *dotenv_path, struct err *err);
void config_finish(struct config *c);

/*
 * The settings in force: [{name, section, kind, value, default, doc}]. Texts and secrets have no
 * value, only `is_set`: they may name places of this machine, or be passwords. NULL: no memory.
 */
json_t *config_in_force(const struct config *c);

/* docs/env.md, whole. */
int config_print_markdown(struct buf *b, struct err *err);
/* .env.example, whole: every setting with its default, commented out. */
int config_print_example(struct buf *b, struct err *err);

#endif
