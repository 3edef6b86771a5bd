#include "kernel/ingest/archive.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/macros.h"
#include "base/str.h"

#define BLOCK_BYTES (256u << 10)

static const char *const table_endings[] = { ".csv",    ".tsv",   ".tab",     ".psv", ".json",
                                             ".ndjson", ".jsonl", ".parquet", NULL };
/* What may be a table, or the text that comes with one: read only if there is nothing better. */
static const char *const text_endings[] = { ".txt", ".dat", ".data", NULL };

static const char *const book_endings[] = { ".xlsx", ".xlsm", ".xls", ".ods", NULL };

/* Of the name of the file alone. What programs leave in archives begins with a dot. */
static bool is_candidate(const char *name, const char *const *endings)
{
    const char *slash = strrchr(name, '/');
    const char *base = slash ? slash + 1 : name;
    size_t n = strlen(base);

    if (n == 0 || base[0] == '.' || strncasecmp(name, "__MACOSX/", 9) == 0)
        return false;
    for (; *endings; endings++) {
        size_t k = strlen(*endings);

        if (n > k && strncasecmp(base + n - k, *endings, k) == 0)
            return true;
    }
    return false;
}

static size_t count(const struct package *p, const char *const *endings)
{
    size_t n = 0;

    for (int64_t i = 0; i < p->n_entries; i++)
        n += is_candidate(package_name(p, i), endings);
    return n;
}

/* Documents of office programs are archives, too, and have files of data inside. */
static bool is_document(const struct package *p)
{
    return package_find(p, "[Content_Types].xml") >= 0 || package_find(p, "xl/workbook.xml") >= 0 ||
           package_find(p, "xl/workbook.bin") >= 0 || package_find(p, "META-INF/manifest.xml") >= 0;
}

int archive_open(const char *path, struct archive **ret, struct err *err)
{
    struct archive *a = calloc(1, sizeof(*a));
    struct err damaged = ERR_INIT;
    int r;

    if (!a)
        return err_set(err, ERR_NO_MEMORY, "out of memory for an archive");
    r = fd_map_file(path, &a->file, err);
    if (r == 0 && package_open(&a->package, a->file.data, a->file.len, &damaged) == 0 &&
        !is_document(&a->package)) {
        a->endings = table_endings;
        a->n_files = count(&a->package, a->endings);
        if (a->n_files == 0) {
            a->endings = text_endings;
            a->n_files = count(&a->package, a->endings);
        }
        if (a->n_files == 0) {
            a->endings = book_endings;
            a->has_book = count(&a->package, a->endings) == 1;
            a->n_files = a->has_book;
        }
    }
    if (r == 0 && a->n_files > 0) {
        *ret = a;
        return 1;
    }
    archive_close(a);
    return r;
}

void archive_close(struct archive *a)
{
    if (!a)
        return;
    package_finish(&a->package);
    fd_mapping_finish(&a->file);
    free(a);
}

int64_t archive_next(struct archive *a)
{
    while (a->next < a->package.n_entries) {
        int64_t entry = a->next++;
        const char *name = package_name(&a->package, entry);

        if (is_candidate(name, a->endings) && (!a->wanted || str_eq(a->wanted, name)))
            return entry;
    }
    return -1;
}

static int refuse(const struct archive *a, int r, const struct err *why, struct err *err)
{
    if (r == -ERR_VALIDATION || r == -ERR_TOO_LARGE)
        return err_set(err, ERR_VALIDATION, "'%.200s' cannot be unpacked: %.600s", a->member,
                       why->message);
    return err_set(err, why->code, "%s", why->message);
}

int archive_unpack(struct archive *a, int64_t entry, int fd, const struct archive_hooks *hooks,
                   struct err *err)
{
    auto_package_stream struct package_stream *stream = NULL;
    auto_free char *block = malloc(BLOCK_BYTES);
    struct err why = ERR_INIT;
    ssize_t n = 0;
    int r;

    const char *name = package_name(&a->package, entry);
    str_show(name, strlen(name), a->member, sizeof(a->member));
    if (!block)
        return err_set(err, ERR_NO_MEMORY, "out of memory for unpacking");
    r = package_stream_open(&a->package, entry, hooks->max_bytes, &stream, &why);
    while (r == 0 && (n = package_stream_read(stream, block, BLOCK_BYTES, &why)) > 0) {
        if (hooks->must_stop(hooks->arg))
            return err_set(err, ERR_CANCELLED, "interrupted");
        r = fd_write_all(fd, block, (size_t)n, &why);
    }
    if (r == 0 && n < 0)
        r = (int)n;
    return r < 0 ? refuse(a, r, &why, err) : 0;
}
