#include "sandbox/table_names.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include "base/hash.h"
#include "base/macros.h"
#include "base/str.h"

/* Part of every table's name: a change of engine or of how files are ingested makes new ones. */
#define TABLE_FORMAT "d144-8"
#define PROFILE_FORMAT "profile-4"
#define ENDING_MAX 12

/* "csv", "tsv-gz", …; what is no plain ending is "other". */
static void ending_of(const char *name, char ret[2 * ENDING_MAX + 2])
{
    const char *dot = strrchr(name, '.');
    size_t n = 0;
    if (dot && (strcasecmp(dot, ".gz") == 0 || strcasecmp(dot, ".zst") == 0))
        while (dot > name && *--dot != '.')
            ;
    for (const char *p = dot ? dot + 1 : ""; *p && n < 2 * ENDING_MAX + 1; p++)
        ret[n++] = isalnum((unsigned char)*p) ? (char)tolower((unsigned char)*p) : '-';
    ret[n] = '\0';
    if (n == 0 || n > ENDING_MAX)
        snprintf(ret, ENDING_MAX, "other");
}

/* "" without options, otherwise "-" and a hash of them (FNV-1a). */
static void mark_of(const struct sandbox_file *file, char ret[24])
{
    uint64_t h = 14695981039346656037u;
    ret[0] = '\0';
    if (!file->options || !*file->options)
        return;
    for (const char *p = file->options; *p; p++)
        h = (h ^ (unsigned char)*p) * 1099511628211u;
    snprintf(ret, 24, "-%016llx", (unsigned long long)h);
}

static void name_of(const char *home, const struct sandbox_file *file, const char *hex,
                    const char *hidden, const char *suffix, char ret[TABLE_PATH_SIZE])
{
    char ending[2 * ENDING_MAX + 2], mark[24];
    const char *slash = strrchr(file->path, '/');
    mark_of(file, mark);
    *ret = '\0';
    if (file->is_beside && slash) {
        snprintf(ret, TABLE_PATH_SIZE, "%.*s/.%s%s", (int)(slash - file->path), file->path, hidden,
                 mark);
    } else if (*hex) {
        ending_of(file->name, ending);
        snprintf(ret, TABLE_PATH_SIZE, "%.3900s/tables/%s.%s%s.%s", home, hex, ending, mark,
                 suffix);
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
    const char *slash = strrchr(file_path, '/');
    char dir[TABLE_PATH_SIZE];
    struct dirent *e;
    int64_t sum = 0;
    if (!slash)
        return 0;
    snprintf(dir, sizeof(dir), "%.*s", (int)(slash - file_path), file_path);
    DIR *d = opendir(dir);
    while (d && (e = readdir(d))) {
        struct stat st;
        if ((str_starts(e->d_name, ".table.") || str_starts(e->d_name, ".profile-")) &&
            fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
            sum += st.st_size;
    }
    if (d)
        closedir(d);
    return sum;
}
