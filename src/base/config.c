/*
 * Settings. The table of config_table.h is expanded a second time here, into rows that say how a
 * value is read, checked and documented. Loading goes: read .env, look for misspelt names, then
 * take each setting from the environment, from .env or from its default, all through the same
 * reader, so that a default that breaks its own rule cannot hide.
 */

#include "base/config.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/compat_settings.h"
#include "base/fdio.h"
#include "base/str.h"

#define DOTENV_MAX_BYTES (64u << 10)
#define OUR_PREFIX "RIDDLE_"

extern char **environ;

enum kind {
    KIND_SECTION,
    KIND_STR,
    KIND_SECRET,
    KIND_INT,
    KIND_BYTES,
    KIND_DOUBLE,
    KIND_BOOL,
    KIND_ENUM,
};

struct setting {
    enum kind kind;
    const char *name; /* of the variable, or the title of a section */
    size_t offset;    /* of its member in struct config */
    const char *dflt;
    long long min, max;
    double dmin, dmax;
    const char *choices; /* "a|b|c" */
    const char *doc;
};

/* clang-format off */
static const struct setting settings[] = {
#define AT(field) .offset = offsetof(struct config, field)
#define CONFIG_SECTION(title) { .kind = KIND_SECTION, .name = title },
#define CONFIG_STR(field, env, d, text)                                                            \
    { .kind = KIND_STR, .name = env, AT(field), .dflt = d, .doc = text },
#define CONFIG_SECRET(field, env, d, text)                                                         \
    { .kind = KIND_SECRET, .name = env, AT(field), .dflt = d, .doc = text },
#define CONFIG_INT(field, env, d, lo, hi, text)                                                    \
    { .kind = KIND_INT, .name = env, AT(field), .dflt = #d, .min = lo, .max = hi, .doc = text },
#define CONFIG_BYTES(field, env, d, lo, hi, text)                                                  \
    { .kind = KIND_BYTES, .name = env, AT(field), .dflt = d, .min = lo, .max = hi, .doc = text },
#define CONFIG_DOUBLE(field, env, d, lo, hi, text)                                                 \
    { .kind = KIND_DOUBLE, .name = env, AT(field), .dflt = #d, .dmin = lo, .dmax = hi, .doc = text },
#define CONFIG_BOOL(field, env, d, text)                                                           \
    { .kind = KIND_BOOL, .name = env, AT(field), .dflt = #d, .doc = text },
#define CONFIG_ENUM(field, env, d, list, text)                                                     \
    { .kind = KIND_ENUM, .name = env, AT(field), .dflt = d, .choices = list, .doc = text },
    CONFIG_TABLE
#undef AT
#undef CONFIG_SECTION
#undef CONFIG_STR
#undef CONFIG_SECRET
#undef CONFIG_INT
#undef CONFIG_BYTES
#undef CONFIG_DOUBLE
#undef CONFIG_BOOL
#undef CONFIG_ENUM
};
/* clang-format on */

/* ---- .env ---- */

/* A line of the file, split in place: name and value point into its text. */
struct entry {
    char *name, *value;
    size_t line;
};

struct dotenv {
    const char *path;
    struct buf text;
    struct entry *entries;
    size_t n;
};

static void dotenv_finish(struct dotenv *d)
{
    buf_finish(&d->text);
    free(d->entries);
}

static char *skip_blanks(char *p)
{
    while (*p == ' ' || *p == '\t')
        p++;
    return p;
}

static void trim_end(char *start, char *end)
{
    while (end > start && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    *end = '\0';
}

/*
 * Takes the quotes off a value in place; a pointer to a reason when it cannot. Only "…" knows
 * escapes.
 */
static const char *unquote(char *value)
{
    char quote = *value, *to = value, *from = value + 1;

    for (; *from != quote; from++) {
        if (*from == '\0')
            return "the quote is not closed";
        if (quote == '"' && *from == '\\' && from[1]) {
            from++;
            *to++ = (char)(*from == 'n' ? '\n' : *from == 't' ? '\t' : *from == 'r' ? '\r' : *from);
        } else {
            *to++ = *from;
        }
    }
    from = skip_blanks(from + 1);
    if (*from != '\0' && *from != '#')
        return "text follows the closing quote";
    *to = '\0';
    return NULL;
}

/*
 * Splits one line. *ret has no name for a blank line or a comment. The line itself is never told:
 * it may be a secret.
 */
static const char *split_line(char *line, struct entry *ret)
{
    char *equals;

    line = skip_blanks(line);
    ret->name = NULL;
    if (*line == '\0' || *line == '#')
        return NULL;
    if (str_starts(line, "export") && (line[6] == ' ' || line[6] == '\t'))
        line = skip_blanks(line + 6);
    equals = strchr(line, '=');
    if (!equals)
        return "expected NAME=value";
    trim_end(line, equals);
    if (!str_is_identifier(line))
        return "the name before '=' must consist of letters, digits and '_'";
    ret->name = line;
    ret->value = skip_blanks(equals + 1);
    if (*ret->value == '"' || *ret->value == '\'')
        return unquote(ret->value);
    /* A comment begins at the value's start or after a blank, so that '#' can be inside of one. */
    for (char *p = ret->value; *p; p++) {
        if (*p == '#' && (p == ret->value || p[-1] == ' ' || p[-1] == '\t')) {
            *p = '\0';
            break;
        }
    }
    trim_end(ret->value, ret->value + strlen(ret->value));
    return NULL;
}

static int dotenv_load(struct dotenv *d, struct err *err)
{
    size_t line = 1, n_lines = 1;
    char *p, *end;
    struct err why = ERR_INIT; /* apart from err, because a missing file is no failure */
    int r = fd_read_file(d->path, &d->text, &why);

    if (r == -ERR_NOT_FOUND)
        return 0;
    if (r < 0)
        return err_set(err, ERR_CONFIG, "cannot take settings from '%s': %s", d->path, why.message);
    if (d->text.len == 0)
        return 0;
    p = d->text.data;
    end = p + d->text.len;
    for (const char *q = p; q < end; q++)
        n_lines += *q == '\n';
    d->entries = calloc(n_lines, sizeof(*d->entries));
    if (!d->entries)
        return err_set(err, ERR_NO_MEMORY, "out of memory for '%s'", d->path);

    if (str_starts(p, "\xef\xbb\xbf")) /* the mark that some editors put first */
        p += 3;
    for (; p < end; line++) {
        char *newline = memchr(p, '\n', (size_t)(end - p));
        char *next = newline ? newline + 1 : end, *stop = newline ? newline : end;
        struct entry *entry = &d->entries[d->n];
        const char *reason = "a NUL byte";

        if (!memchr(p, '\0', (size_t)(stop - p))) {
            if (stop > p && stop[-1] == '\r')
                stop--;
            *stop = '\0';
            reason = split_line(p, entry);
        }
        if (reason)
            return err_set(err, ERR_CONFIG, "'%s' line %zu: %s", d->path, line, reason);
        if (entry->name) {
            entry->line = line;
            d->n++;
        }
        p = next;
    }
    return 0;
}

/* The last one wins, as in a shell. */
static const struct entry *dotenv_find(const struct dotenv *d, const char *name)
{
    for (size_t i = d->n; i > 0; i--) {
        if (str_eq(d->entries[i - 1].name, name))
            return &d->entries[i - 1];
    }
    return NULL;
}

/* ---- names ---- */

/*
 * Refuses a name with our prefix that is none of ours: a misspelt limit must not silently be no
 * limit.
 */
static int check_name(const char *name, struct err *err)
{
    const char *names[ARRAY_SIZE(settings)], *nearest;
    char shown[STR_SHOWN_SIZE];
    size_t n = 0;

    if (!str_starts(name, OUR_PREFIX))
        return 0;
    for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
        if (settings[i].kind == KIND_SECTION)
            continue;
        if (str_eq(settings[i].name, name))
            return 0;
        names[n++] = settings[i].name;
    }
    str_show(name, strlen(name), shown, sizeof(shown));
    nearest = str_nearest(name, names, n);
    if (nearest)
        return err_set(err, ERR_CONFIG, "there is no setting %s; did you mean %s?", shown, nearest);
    return err_set(err, ERR_CONFIG, "there is no setting %s; docs/env.md lists all", shown);
}

static int check_names(const struct dotenv *d, struct err *err)
{
    int r;

    for (size_t i = 0; i < d->n; i++) {
        r = check_name(d->entries[i].name, err);
        if (r < 0)
            return err_wrap(err, "'%s' line %zu", d->path, d->entries[i].line);
    }
    for (char **e = environ; e && *e; e++) {
        char name[128];
        size_t n = MIN_OF(strcspn(*e, "="), sizeof(name) - 1); /* longer is unknown anyway */

        memcpy(name, *e, n);
        name[n] = '\0';
        r = check_name(name, err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- values ---- */

/* "64k" for 65536: the largest unit that divides it. */
static int append_bytes(struct buf *b, long long v, struct err *err)
{
    const char *unit = "";

    for (const char *u = "kmgt"; *u && v && v % 1024 == 0; u++) {
        v /= 1024;
        unit = u;
    }
    return buf_printf(b, err, "%lld%.1s", v, unit);
}

/* What is allowed, in words that follow "must be". */
static int append_allowed(struct buf *b, const struct setting *s, struct err *err)
{
    char low[STR_DOUBLE_SIZE], high[STR_DOUBLE_SIZE];
    int r = 0;

    switch (s->kind) {
    case KIND_INT:
        return buf_printf(b, err, "a whole number between %lld and %lld", s->min, s->max);
    case KIND_BYTES:
        r = buf_append_str(b, "a size between ", err);
        if (r == 0)
            r = append_bytes(b, s->min, err);
        if (r == 0)
            r = buf_append_str(b, " and ", err);
        if (r == 0)
            r = append_bytes(b, s->max, err);
        return r == 0 ? buf_append_str(b, " (bytes, or with k, m, g or t)", err) : r;
    case KIND_DOUBLE:
        str_from_double(s->dmin, low);
        str_from_double(s->dmax, high);
        return buf_printf(b, err, "a number between %s and %s", low, high);
    case KIND_BOOL:
        return buf_append_str(b, "true or false", err);
    case KIND_ENUM:
        for (const char *p = s->choices; r == 0 && *p;) {
            size_t n = strcspn(p, "|");
            const char *joint = p[n] ? ", " : " or ";

            r = buf_printf(b, err, "%s%.*s", p == s->choices ? "" : joint, (int)n, p);
            p += n + (p[n] == '|');
        }
        return r;
    case KIND_SECTION:
    case KIND_STR:
    case KIND_SECRET:
        break;
    }
    return buf_append_str(b, "text without control characters", err);
}

static bool read_double(const char *text, double min, double max, double *ret)
{
    char *end;
    double v;

    /* strtod alone would take "nan", "inf", "0x1p3" and leading blanks. */
    if (!*text || text[strspn(text, "0123456789.eE+-")] != '\0')
        return false;
    errno = 0;
    v = strtod(text, &end);
    if (*end || errno == ERANGE || !isfinite(v) || v < min || v > max)
        return false;
    *ret = v;
    return true;
}

static bool read_bool(const char *text, bool *ret)
{
    static const char *const yes[] = { "true", "1", "yes", "on" };
    static const char *const no[] = { "false", "0", "no", "off" };

    for (size_t i = 0; i < ARRAY_SIZE(yes); i++) {
        if (str_ieq(text, yes[i]) || str_ieq(text, no[i])) {
            *ret = str_ieq(text, yes[i]);
            return true;
        }
    }
    return false;
}

/*
 * A line break at the end of a key or a path comes from a file that was read carelessly, and fails
 * far from here.
 */
static bool is_clean(const char *text)
{
    for (; *text; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            return false;
    }
    return true;
}

/* The choice that text names, case ignored, or NULL. It ends at a bar or at the end of the list. */
static const char *find_choice(const char *choices, const char *text)
{
    size_t len = strlen(text);

    for (const char *p = choices; *p;) {
        size_t n = strcspn(p, "|");

        if (n == len && strncasecmp(p, text, n) == 0)
            return p;
        p += n + (p[n] == '|');
    }
    return NULL;
}

/* Reads one value into its member. Strings are copied to *storage, which has room and moves on. */
static int read_value(const struct setting *s, const char *text, struct config *c, char **storage,
                      struct err *err)
{
    void *at = (char *)c + s->offset;
    auto_buf struct buf allowed = BUF_INIT(ERR_MESSAGE_MAX);
    char shown[STR_SHOWN_SIZE];
    unsigned long long bytes;
    const char *choice = text;
    bool good = true;

    switch (s->kind) {
    case KIND_SECTION:
        return 0;
    case KIND_STR:
    case KIND_SECRET:
    case KIND_ENUM:
        if (s->kind == KIND_ENUM)
            choice = find_choice(s->choices, text);
        good = choice && is_clean(choice);
        if (good) {
            size_t n = strlen(text); /* a choice is as long as the text that names it */

            memcpy(*storage, choice, n);
            (*storage)[n] = '\0';
            *(const char **)at = *storage;
            *storage += n + 1;
        }
        break;
    case KIND_INT:
        good = str_parse_i64(text, s->name, s->min, s->max, at, NULL) == 0;
        break;
    case KIND_BYTES:
        good = str_parse_bytes(text, s->name, &bytes, NULL) == 0 &&
               bytes >= (unsigned long long)s->min && bytes <= (unsigned long long)s->max;
        if (good)
            *(long long *)at = (long long)bytes;
        break;
    case KIND_DOUBLE:
        good = read_double(text, s->dmin, s->dmax, at);
        break;
    case KIND_BOOL:
        good = read_bool(text, at);
        break;
    }
    if (good)
        return 0;
    append_allowed(&allowed, s, NULL);
    if (s->kind == KIND_SECRET)
        return err_set(err, ERR_CONFIG, "%s must be %s (its value is not shown)", s->name,
                       buf_cstr(&allowed));
    return err_set(err, ERR_CONFIG, "%s is '%s', but must be %s", s->name,
                   str_show(text, strlen(text), shown, sizeof(shown)), buf_cstr(&allowed));
}

/* Where the value of a setting comes from. */
struct source {
    const char *name; /* of the variable: the setting's own, or one that stands for it */
    const char *text, *suffix;
    const struct entry *entry; /* NULL unless from .env */
};

/* A variable of the environment, or of .env. NULL when it is not there. */
static const char *look_up(const struct dotenv *d, bool in_file, const char *name,
                           const struct entry **ret_entry)
{
    *ret_entry = in_file ? dotenv_find(d, name) : NULL;
    if (in_file)
        return *ret_entry ? (*ret_entry)->value : NULL;
    return getenv(name);
}

static bool same_value(const struct source *a, const struct source *b)
{
    size_t n = strlen(a->text), m = strlen(b->text);

    return n + strlen(a->suffix) == m + strlen(b->suffix) &&
           strncmp(a->text, b->text, MIN_OF(n, m)) == 0 &&
           (n == m ? str_eq(a->suffix, b->suffix) :
            n > m  ? str_eq(a->text + m, b->suffix) :
                     str_eq(b->text + n, a->suffix));
}

static const char *default_beside(const struct setting *s, const struct dotenv *d)
{
    const struct compat_default *c;

    for (size_t i = 0; (c = compat_default_at(i)); i++) {
        const struct entry *entry;
        const char *in_env = look_up(d, false, c->beside, &entry);
        const char *in_file = look_up(d, true, c->beside, &entry);

        if (str_eq(c->setting, s->name) && ((in_env && *in_env) || (in_file && *in_file)))
            return c->text;
    }
    return s->dflt;
}

/* The environment wins over .env; in each, two names of one setting must agree. */
static int choose(const struct setting *s, const struct dotenv *d, struct source *ret,
                  struct err *err)
{
    /* `NAME=` is how a compose file passes on what is not set. Only a text can mean to be empty. */
    bool may_be_empty = s->kind == KIND_STR || s->kind == KIND_SECRET;
    bool decided = false;

    *ret = (struct source){ s->name, s->dflt, "", NULL };
    for (int in_file = 0; in_file < 2 && !decided; in_file++) {
        struct source found = { s->name, NULL, "", NULL };
        const struct compat_setting *c;

        found.text = look_up(d, in_file, s->name, &found.entry);
        decided = found.text != NULL;
        if (found.text && (*found.text || may_be_empty))
            *ret = found;
        for (size_t i = 0; (c = compat_setting_at(i)); i++) {
            if (c->kind != COMPAT_AS || !str_eq(c->ours, s->name))
                continue;
            found = (struct source){ c->name, NULL, c->suffix, NULL };
            found.text = look_up(d, in_file, c->name, &found.entry);
            if (!found.text || !*found.text)
                continue;
            if (decided && ret->text != s->dflt && !same_value(ret, &found))
                return err_set(err, ERR_CONFIG,
                               "%s and %s are the same setting with different values; set only %s",
                               ret->name, found.name, s->name);
            if (!decided || ret->text == s->dflt)
                *ret = found;
            decided = true;
        }
    }
    if (ret->text == s->dflt)
        ret->text = default_beside(s, d);
    ret->text = compat_value(s->name, ret->text);
    return 0;
}

static int read_source(const struct setting *s, const struct source *from, struct config *c,
                       char **storage, struct err *err)
{
    auto_buf struct buf whole = BUF_INIT(DOTENV_MAX_BYTES + 8);
    struct err why = ERR_INIT;
    int r;

    if (str_eq(from->name, s->name))
        return read_value(s, from->text, c, storage, err);
    r = buf_printf(&whole, err, "%s%s", from->text, from->suffix);
    if (r == 0 && read_value(s, buf_cstr(&whole), c, storage, &why) < 0)
        r = err_set(err, why.code, "%s stands for %s: %s", from->name, s->name, why.message);
    return r;
}

/* Variables of other systems that have no meaning here, and those that have another one. */
static int check_compat(const struct dotenv *d, struct err *err)
{
    const struct compat_setting *c;

    for (size_t i = 0; (c = compat_setting_at(i)); i++) {
        const struct entry *entry;
        const char *text = look_up(d, false, c->name, &entry);
        char shown[STR_SHOWN_SIZE];

        if (c->kind != COMPAT_FIXED && c->kind != COMPAT_REFUSED)
            continue;
        if (!text)
            text = look_up(d, true, c->name, &entry);
        if (!text || !*text || (c->kind == COMPAT_FIXED && find_choice(c->ours, text)))
            continue;
        if (c->kind == COMPAT_FIXED)
            err_set(err, ERR_CONFIG, "%s is '%s', but %s; unset it", c->name,
                    str_show(text, strlen(text), shown, sizeof(shown)), c->text);
        else
            err_set(err, ERR_CONFIG, "%s is set, but %s", c->name, c->text);
        return entry ? err_wrap(err, "'%s' line %zu", d->path, entry->line) : -ERR_CONFIG;
    }
    return 0;
}

static int load_all(const struct dotenv *d, struct config *ret, struct err *err)
{
    struct config c;
    struct source from[ARRAY_SIZE(settings)];
    size_t total = 1;
    auto_free char *storage = NULL;
    char *next;

    memset(&c, 0, sizeof(c));
    for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
        if (settings[i].kind == KIND_SECTION)
            continue;
        if (choose(&settings[i], d, &from[i], err) < 0)
            return -ERR_CONFIG;
        total += strlen(from[i].text) + strlen(from[i].suffix) + 1;
    }
    next = storage = malloc(total);
    if (!storage)
        return err_set(err, ERR_NO_MEMORY, "out of memory for the settings");
    for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
        int r;

        if (settings[i].kind == KIND_SECTION)
            continue;
        r = read_source(&settings[i], &from[i], &c, &next, err);
        if (r < 0)
            return from[i].entry ? err_wrap(err, "'%s' line %zu", d->path, from[i].entry->line) : r;
    }
    c.storage = TAKE_PTR(storage);
    *ret = c;
    return 0;
}

int config_load(struct config *ret, const char *dotenv_path, struct err *err)
{
    struct dotenv d = { .path = dotenv_path, .text = BUF_INIT(DOTENV_MAX_BYTES) };
    int r = dotenv_path ? dotenv_load(&d, err) : 0;

    if (r == 0)
        r = check_names(&d, err);
    if (r == 0)
        r = check_compat(&d, err);
    if (r == 0)
        r = load_all(&d, ret, err);
    dotenv_finish(&d);
    return r;
}

void config_finish(struct config *c)
{
    free(c->storage);
    memset(c, 0, sizeof(*c));
}

/* ---- docs/env.md ---- */

/* Text for a cell of a table, where a bar would end it. */
static int append_cell(struct buf *b, const char *text, struct err *err)
{
    int r = 0;

    for (; r == 0 && *text; text++)
        r = *text == '|' ? buf_append(b, "\\|", 2, err) : buf_append(b, text, 1, err);
    return r;
}

static int append_row(struct buf *b, const struct setting *s, struct err *err)
{
    auto_buf struct buf allowed = BUF_INIT(4096);
    int r = append_allowed(&allowed, s, err);

    if (r == 0)
        r = buf_printf(b, err, "| `%s` | ", s->name);
    if (r == 0)
        r = *s->dflt ? buf_printf(b, err, "`%s`", s->dflt) : buf_append_str(b, "(empty)", err);
    if (r == 0)
        r = buf_append_str(b, " | ", err);
    if (r == 0)
        r = append_cell(b, buf_cstr(&allowed), err);
    if (r == 0)
        r = buf_append_str(b, " | ", err);
    if (r == 0)
        r = append_cell(b, s->doc, err);
    return r == 0 ? buf_append_str(b, " |\n", err) : r;
}

/* What a variable of another system does here. */
static int append_effect(struct buf *b, const struct compat_setting *c, struct err *err)
{
    const char *unit = *c->suffix ? " megabytes" : "";
    int r;

    switch (c->kind) {
    case COMPAT_SAME:
        return *c->text ? buf_printf(b, err, "the same setting; %s", c->text) :
                          buf_append_str(b, "the same setting", err);
    case COMPAT_AS:
        return buf_printf(b, err, "stands for `%s`%s%s", c->ours, *unit ? ", in" : "", unit);
    case COMPAT_FIXED:
        r = buf_append_str(b, "only `", err);
        for (const char *p = c->ours; r == 0 && *p; p++)
            r = *p == '|' ? buf_append_str(b, "`, `", err) : buf_append(b, p, 1, err);
        return r == 0 ? buf_printf(b, err, "`, else refused: %s", c->text) : r;
    case COMPAT_IDLE:
        return buf_append_str(b, c->text, err);
    case COMPAT_REFUSED:
        break;
    }
    return buf_printf(b, err, "refused: %s", c->text);
}

static int append_compat(struct buf *b, struct err *err)
{
    const struct compat_setting *c;
    int r = buf_append_str(
        b,
        "\n## Variables of other systems\n\n"
        "Riddle serves the clients of these systems, and their `.env` files: each of their variables has its effect, or is\n"
        "refused at start. When a variable and the setting that it stands for are both set, they must agree. `Python Sandbox\n"
        "Environment` and `CSV Analyst Runner` have none of their own.\n\n"
        "| System | Variable | Default there | Here |\n|---|---|---|---|\n",
        err);

    for (size_t i = 0; r == 0 && (c = compat_setting_at(i)); i++) {
        r = buf_printf(b, err, "| %s | `%s` | ", c->system, c->name);
        if (r == 0)
            r = *c->dflt ? buf_printf(b, err, "`%s` | ", c->dflt) :
                           buf_append_str(b, "(empty) | ", err);
        if (r == 0)
            r = append_effect(b, c, err);
        if (r == 0)
            r = buf_append_str(b, " |\n", err);
    }
    return r;
}

int config_print_markdown(struct buf *b, struct err *err)
{
    int r = buf_append_str(
        b,
        "# Environment variables\n\n"
        "<!-- Printed from src/base/config_table.h; edit that file, not this one. -->\n\n"
        "Settings are read at start from the environment and from a file `.env` in the working directory; the\n"
        "environment wins. A value that is not allowed is refused with the reason, as is a name that begins with\n"
        "`RIDDLE_` but is not listed here. An empty value stands for the default, except where text is allowed.\n\n"
        "`.env` holds lines `NAME=value` (at most 64 kB in all). `export ` may precede a name, `#` begins a comment,\n"
        "and a value may be quoted: `'…'` is taken as it is, in `\"…\"` the escapes `\\n`, `\\t`, `\\r`, `\\\"` and `\\\\`\n"
        "are known. Variables are not expanded. The last line for a name wins.\n",
        err);

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(settings); i++) {
        const struct setting *s = &settings[i];

        if (s->kind == KIND_SECTION)
            r = buf_printf(
                b, err,
                "\n## %s\n\n| Variable | Default | Allowed | Meaning |\n|---|---|---|---|\n",
                s->name);
        else
            r = append_row(b, s, err);
    }
    return r == 0 ? append_compat(b, err) : r;
}

/* Lines that begin with "# ", at most 100 columns wide. */
static int append_comment(struct buf *b, const char *text, struct err *err)
{
    int r = 0;

    while (r == 0 && *text) {
        size_t n = strlen(text);

        if (n > 97)
            for (n = 97; n > 0 && text[n] != ' '; n--)
                continue;
        r = buf_printf(b, err, "# %.*s\n", (int)n, text);
        text += n + (text[n] == ' ');
    }
    return r;
}

int config_print_example(struct buf *b, struct err *err)
{
    int r = buf_append_str(
        b,
        "# Settings of Riddle with their defaults: copy to .env, and uncomment what shall differ.\n"
        "# Made by `make docs` from src/base/config_table.h; docs/env.md says what each may be.\n",
        err);

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(settings); i++) {
        const struct setting *s = &settings[i];

        if (s->kind == KIND_SECTION) {
            r = buf_printf(b, err, "\n# ---- %s ----\n", s->name);
            continue;
        }
        r = buf_append_str(b, "\n", err);
        if (r == 0)
            r = append_comment(b, s->doc, err);
        if (r == 0)
            r = buf_printf(b, err, "#%s=%s\n", s->name, s->dflt);
    }
    return r;
}

/* ---- what is in force ---- */

static json_t *value_json(const struct setting *s, const void *at)
{
    switch (s->kind) {
    case KIND_INT:
    case KIND_BYTES:
        return json_integer(*(const long long *)at);
    case KIND_DOUBLE:
        return json_real(*(const double *)at);
    case KIND_BOOL:
        return json_boolean(*(const bool *)at);
    case KIND_ENUM:
        return json_string(*(const char *const *)at);
    case KIND_SECTION:
    case KIND_STR:
    case KIND_SECRET:
        break;
    }
    return json_null();
}

json_t *config_in_force(const struct config *c)
{
    static const char *const kinds[] = {
        [KIND_STR] = "text",    [KIND_SECRET] = "secret", [KIND_INT] = "integer",
        [KIND_BYTES] = "bytes", [KIND_DOUBLE] = "number", [KIND_BOOL] = "boolean",
        [KIND_ENUM] = "choice"
    };
    const char *section = "";
    json_t *all = json_array();
    for (size_t i = 0; all && i < ARRAY_SIZE(settings); i++) {
        const struct setting *s = &settings[i];
        const void *at = (const char *)c + s->offset;
        if (s->kind == KIND_SECTION) {
            section = s->name;
            continue;
        }
        json_t *one = json_pack("{s:s, s:s, s:s, s:o, s:s, s:s}", "name", s->name, "section",
                                section, "kind", kinds[s->kind], "value", value_json(s, at),
                                "default", s->dflt, "doc", s->doc);
        if (s->kind == KIND_STR || s->kind == KIND_SECRET)
            json_object_set_new(one, "is_set", json_boolean(**(const char *const *)at != '\0'));
        json_array_append_new(all, one);
    }
    return all;
}
