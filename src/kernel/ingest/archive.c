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
static bool is_candidate(const struct zip_entry *e, const char *const *endings)
{
    const char *slash = memrchr(e->name, '/', e->name_len);
    const char *base = slash ? slash + 1 : e->name;
    size_t n = e->name_len - (size_t)(base - e->name);

    if (n == 0 || base[0] == '.' || (e->name_len >= 9 && strncasecmp(e->name, "__MACOSX/", 9) == 0))
        return false;
    for (; *endings; endings++) {
        size_t k = strlen(*endings);

        if (n > k && strncasecmp(base + n - k, *endings, k) == 0)
            return true;
    }
    return false;
}

static size_t count(const struct zip *z, const char *const *endings)
{
    size_t n = 0;

    for (size_t i = 0; i < z->n_entries; i++)
        n += is_candidate(&z->entries[i], endings);
    return n;
}

/* Documents of office programs are archives, too, and have files of data inside. */
static bool is_document(const struct zip *z)
{
    return zip_find(z, "[Content_Types].xml") || zip_find(z, "xl/workbook.xml") ||
           zip_find(z, "xl/workbook.bin") || zip_find(z, "META-INF/manifest.xml");
}

int archive_open(const char *path, struct archive **ret, struct err *err)
{
    struct archive *a = calloc(1, sizeof(*a));
    struct err damaged = ERR_INIT;
    int r;

    if (!a)
        return err_set(err, ERR_NO_MEMORY, "out of memory for an archive");
    r = fd_map_file(path, &a->file, err);
    if (r == 0 && zip_open(&a->zip, a->file.data, a->file.len, &damaged) == 0 &&
        !is_document(&a->zip)) {
        a->endings = table_endings;
        a->n_files = count(&a->zip, a->endings);
        if (a->n_files == 0) {
            a->endings = text_endings;
            a->n_files = count(&a->zip, a->endings);
        }
        if (a->n_files == 0) {
            a->endings = book_endings;
            a->has_book = count(&a->zip, a->endings) == 1;
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
    zip_finish(&a->zip);
    fd_mapping_finish(&a->file);
    free(a);
}

const struct zip_entry *archive_next(struct archive *a)
{
    while (a->next < a->zip.n_entries) {
        const struct zip_entry *e = &a->zip.entries[a->next++];

        if (is_candidate(e, a->endings) &&
            (!a->wanted ||
             (strlen(a->wanted) == e->name_len && memcmp(a->wanted, e->name, e->name_len) == 0)))
            return e;
    }
    return NULL;
}

static int refuse(const struct archive *a, int r, const struct err *why, struct err *err)
{
    if (r == -ERR_VALIDATION || r == -ERR_TOO_LARGE)
        return err_set(err, ERR_VALIDATION, "'%.200s' cannot be unpacked: %.600s", a->member,
                       why->message);
    return err_set(err, why->code, "%s", why->message);
}

int archive_unpack(struct archive *a, const struct zip_entry *entry, int fd,
                   const struct archive_hooks *hooks, struct err *err)
{
    auto_zip_stream struct zip_stream *stream = NULL;
    auto_free char *block = malloc(BLOCK_BYTES);
    struct err why = ERR_INIT;
    ssize_t n = 0;
    int r;

    str_show(entry->name, entry->name_len, a->member, sizeof(a->member));
    if (!block)
        return err_set(err, ERR_NO_MEMORY, "out of memory for unpacking");
    r = zip_stream_open(&a->zip, entry, hooks->max_bytes, &stream, &why);
    while (r == 0 && (n = zip_stream_read(stream, block, BLOCK_BYTES, &why)) > 0) {
        if (hooks->must_stop(hooks->arg))
            return err_set(err, ERR_CANCELLED, "interrupted");
        r = fd_write_all(fd, block, (size_t)n, &why);
    }
    if (r == 0 && n < 0)
        r = (int)n;
    return r < 0 ? refuse(a, r, &why, err) : 0;
}
