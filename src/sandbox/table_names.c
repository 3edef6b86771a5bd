#include "sandbox/table_names.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include "base/hash.h"
#include "base/macros.h"
#include "base/str.h"

/* Part of every table's name: a change of engine or of how files are ingested makes new ones. */
#define TABLE_FORMAT "d144-4"
#define PROFILE_FORMAT "profile-2"
#define ENDING_MAX 12

/* "csv", "tsv-gz", …; what is no plain ending is "other". */
static void ending_of(const char *name, char ret[2 * ENDING_MAX + 2])
{
    const char *dot = strrchr(name, '.');
    size_t n = 0;
    if (dot && strcasecmp(dot, ".gz") == 0)
        while (dot > name && *--dot != '.')
            ;
    for (const char *p = dot ? dot + 1 : ""; *p && n < 2 * ENDING_MAX + 1; p++)
        ret[n++] = isalnum((unsigned char)*p) ? (char)tolower((unsigned char)*p) : '-';
    ret[n] = '\0';
    if (n == 0 || n > ENDING_MAX)
        snprintf(ret, ENDING_MAX, "other");
}

static void name_of(const char *home, const struct sandbox_file *file, const char *hex,
                    const char *hidden, const char *suffix, char ret[TABLE_PATH_SIZE])
{
    char ending[2 * ENDING_MAX + 2];
    const char *slash = strrchr(file->path, '/');
    *ret = '\0';
    if (file->is_beside && slash) {
        snprintf(ret, TABLE_PATH_SIZE, "%.*s/.%s", (int)(slash - file->path), file->path, hidden);
    } else if (*hex) {
        ending_of(file->name, ending);
        snprintf(ret, TABLE_PATH_SIZE, "%.3900s/tables/%s.%s.%s", home, hex, ending, suffix);
    }
}

void table_path(const char *home, const struct sandbox_file *file, const char *hex,
                char ret[TABLE_PATH_SIZE])
{
    name_of(home, file, hex, "table." TABLE_FORMAT ".duckdb", TABLE_FORMAT ".duckdb", ret);
}

void table_report_path(const char *home, const struct sandbox_file *file, const char *hex,
                       char ret[TABLE_PATH_SIZE])
{
    name_of(home, file, hex, "table." TABLE_FORMAT ".json", TABLE_FORMAT ".json", ret);
}

void table_profile_path(const char *home, const struct sandbox_file *file, const char *hex,
                        char ret[TABLE_PATH_SIZE])
{
    name_of(home, file, hex, PROFILE_FORMAT ".json", PROFILE_FORMAT ".json", ret);
}

bool table_name_is_current(const char *name)
{
    static const char *const suffixes[] = { TABLE_FORMAT ".duckdb", TABLE_FORMAT ".json",
                                            PROFILE_FORMAT ".json" };
    size_t n = strspn(name, "0123456789abcdef");
    const char *ending = name + n + 1;
    const char *dot = name[n] == '.' ? strchr(ending, '.') : NULL;
    if (n != HASH_HEX_SIZE - 1)
        return true; /* nothing of ours */
    for (size_t i = 0; dot && i < ARRAY_SIZE(suffixes); i++)
        if (str_eq(dot + 1, suffixes[i]))
            return true;
    return false;
}

int64_t table_beside_bytes(const char *file_path)
{
    struct sandbox_file file = { .path = file_path, .is_beside = true };
    char paths[3][TABLE_PATH_SIZE];
    int64_t sum = 0;
    table_path("", &file, "", paths[0]);
    table_report_path("", &file, "", paths[1]);
    table_profile_path("", &file, "", paths[2]);
    for (int i = 0; i < 3; i++) {
        struct stat st;
        if (*paths[i] && stat(paths[i], &st) == 0)
            sum += st.st_size;
    }
    return sum;
}
