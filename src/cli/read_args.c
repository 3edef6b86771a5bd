#include "cli/read_args.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/fdio.h"
#include "base/json.h"
#include "base/macros.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/table.h"
#include "sandbox/pool/executor.h"

static const char *const names[] = { "encoding",  "delimiter",  "quote", "header_line", "decimal",
                                     "thousands", "date_order", "types", "sheet",       "nulls" };

bool read_args_take(struct read_args *a, int c, const char *value)
{
    size_t i = (size_t)(c - 1000);
    if (c < 1000 || i >= ARRAY_SIZE(names))
        return false;
    if (!a->options)
        a->options = json_object();
    if (c == 1003) {
        char *end;
        long long line = strtoll(value, &end, 10);
        json_object_set_new(a->options, names[i],
                            *value && !*end ? json_integer(line) : json_string(value));
    } else if (c == 1009) {
        json_t *words = json_object_get(a->options, names[i]);
        if (!words) {
            words = json_array();
            json_object_set_new(a->options, names[i], words);
        }
        json_array_append_new(words, json_string(value));
    } else {
        json_object_set_new(a->options, names[i], json_string(value));
    }
    return true;
}

int read_args_finish(struct read_args *a, struct err *err)
{
    if (!a->options)
        return 0;
    a->text = json_dumps(a->options, JSON_COMPACT | JSON_SORT_KEYS);
    return a->text ? 0 : err_set(err, ERR_VALIDATION, "an option is not UTF-8 text");
}

void read_args_clear(struct read_args *a)
{
    json_decref(a->options);
    free(a->text);
    *a = (struct read_args){ 0 };
}

/* ---- standard input ---- */

static char copy_dir[PATH_MAX], copy_path[PATH_MAX + 16];

static void remove_copy(void)
{
    (void)unlink(copy_path);
    (void)rmdir(copy_dir);
}

static int copy_stdin(struct err *err)
{
    const char *tmp = getenv("TMPDIR");
    char block[65536];
    snprintf(copy_dir, sizeof(copy_dir), "%.3000s/riddle-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(copy_dir))
        return err_errno(err, ERR_IO, errno, "making a directory for standard input");
    snprintf(copy_path, sizeof(copy_path), "%s/data.csv", copy_dir);
    atexit(remove_copy);
    auto_close int fd = open(copy_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_errno(err, ERR_IO, errno, "copying standard input");
    for (;;) {
        ssize_t n = read(STDIN_FILENO, block, sizeof(block));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(err, ERR_IO, errno, "reading standard input");
        if (n == 0)
            return 0;
        int r = fd_write_all(fd, block, (size_t)n, err);
        if (r < 0)
            return r;
    }
}

int read_args_stdin(char **words, size_t n, struct err *err)
{
    static char word[2 * PATH_MAX + 600];
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(words[i]);
        if (!str_eq(words[i], "-") && !(len > 1 && str_ends(words[i], "=-")))
            continue;
        if (*copy_path)
            return err_set(err, ERR_VALIDATION, "standard input can be one file only");
        int r = copy_stdin(err);
        if (r < 0)
            return r;
        snprintf(word, sizeof(word), "%.*s%s", (int)MIN_OF(len - 1, (size_t)500), words[i],
                 copy_path);
        words[i] = word;
    }
    return 0;
}

/* ---- reports ---- */

static void tell(const char *name, const json_t *report)
{
    const json_t *notes = json_object_get(report, "notes");
    for (size_t i = 0; i < json_array_size(notes); i++) {
        const char *note = json_string_value(json_array_get(notes, i));
        auto_buf struct buf b = BUF_INIT(8192);
        if (note && table_append_visible(&b, note, strlen(note), false, NULL) >= 0)
            cli_complain("%s: %s", name, buf_cstr(&b));
    }
}

void read_args_tell(const struct lease *lease, const char *const *files)
{
    size_t n;
    const struct lease_table *tables = lease_tables(lease, &n);
    for (size_t i = 0; i < n; i++) {
        char name[600];
        const char *file = files[tables[i].file], *slash = strrchr(file, '/');
        bool part = tables[i].part > 0;
        file = slash ? slash + 1 : file;
        snprintf(name, sizeof(name), "%.255s%s%s%s", file, part ? " (" : "",
                 part ? tables[i].name : "", part ? ")" : "");
        if (part)
            cli_complain("%s: a table of its own", name);
        tell(name, tables[i].report);
    }
}
