#include "kernel/ingest/xlsx/package.h"

#include <stdlib.h>
#include <zip.h>
#include "base/macros.h"

/*
 * Deflate cannot do more than 1,032 to 1. Sheets stay below 100; what is small may be as dense as
 * it likes.
 */
#define RATIO_MAX 300
#define RATIO_FREE_BYTES (32u << 20)

struct package_stream {
    zip_file_t *file;
    const char *name;
    uint64_t packed_bytes, says_bytes, out_bytes, max_bytes;
};

static int refuse(const zip_error_t *why, const char *name, struct err *err)
{
    switch (zip_error_code_zip(why)) {
    case ZIP_ER_MEMORY:
        return err_set(err, ERR_NO_MEMORY, "out of memory for unpacking");
    case ZIP_ER_NOPASSWD:
    case ZIP_ER_ENCRNOTSUPP:
        return err_set(err, ERR_VALIDATION, "it is encrypted");
    case ZIP_ER_COMPNOTSUPP:
        return err_set(err, ERR_VALIDATION, "it is packed by an unusual method");
    case ZIP_ER_NOZIP:
        return err_set(err, ERR_VALIDATION,
                       "it is a ZIP archive without its directory, as a cut-off copy is");
    default:
        return name ? err_set(err, ERR_VALIDATION, "the file '%.100s' in it is damaged", name) :
                      err_set(err, ERR_VALIDATION, "its directory is damaged");
    }
}

int package_open(struct package *p, const void *data, size_t len, struct err *err)
{
    zip_error_t why;
    zip_source_t *source;
    int r = 0;

    *p = (struct package){ .bytes = len };
    zip_error_init(&why);
    source = zip_source_buffer_create(data, len, 0, &why);
    p->zip = source ? zip_open_from_source(source, ZIP_RDONLY, &why) : NULL;
    if (!p->zip) {
        zip_source_free(source);
        r = refuse(&why, NULL, err);
    } else {
        p->n_entries = zip_get_num_entries(p->zip, 0);
        if (p->n_entries > PACKAGE_MAX_ENTRIES)
            r = err_set(err, ERR_VALIDATION, "it holds more than %d files", PACKAGE_MAX_ENTRIES);
    }
    zip_error_fini(&why);
    return r;
}

void package_finish(struct package *p)
{
    if (p->zip)
        zip_discard(p->zip);
    *p = (struct package){ 0 };
}

const char *package_name(const struct package *p, int64_t entry)
{
    const char *name = zip_get_name(p->zip, (zip_uint64_t)entry, 0);

    return name ? name : "";
}

int64_t package_find(const struct package *p, const char *name)
{
    return zip_name_locate(p->zip, name, ZIP_FL_NOCASE);
}

int package_stream_open(const struct package *p, int64_t entry, uint64_t max_bytes,
                        struct package_stream **ret, struct err *err)
{
    auto_free struct package_stream *s = calloc(1, sizeof(*s));
    zip_stat_t st;

    if (!s)
        return err_set(err, ERR_NO_MEMORY, "out of memory for unpacking");
    s->name = package_name(p, entry);
    s->max_bytes = max_bytes;
    if (zip_stat_index(p->zip, (zip_uint64_t)entry, 0, &st) < 0)
        return refuse(zip_get_error(p->zip), s->name, err);
    /* What the directory says: libzip reads no more than so many packed bytes. */
    s->packed_bytes = MIN_OF((uint64_t)st.comp_size, (uint64_t)p->bytes);
    s->says_bytes = st.size;
    s->file = zip_fopen_index(p->zip, (zip_uint64_t)entry, 0);
    if (!s->file)
        return refuse(zip_get_error(p->zip), s->name, err);
    *ret = TAKE_PTR(s);
    return 0;
}

void package_stream_close(struct package_stream *s)
{
    if (!s)
        return;
    zip_fclose(s->file);
    free(s);
}

double package_stream_progress(const struct package_stream *s)
{
    return s->out_bytes < s->says_bytes ? (double)s->out_bytes / (double)s->says_bytes : 1;
}

ssize_t package_stream_read(void *stream, char *buf, size_t n, struct err *err)
{
    struct package_stream *s = stream;
    ssize_t got = zip_fread(s->file, buf, n);

    if (got < 0)
        return refuse(zip_file_get_error(s->file), s->name, err);
    s->out_bytes += (uint64_t)got;
    if (s->out_bytes > s->max_bytes)
        return err_set(err, ERR_VALIDATION, "the file '%.100s' in it unpacks to more than %llu MB",
                       s->name, (unsigned long long)(s->max_bytes >> 20));
    if (s->out_bytes > RATIO_FREE_BYTES && s->out_bytes / RATIO_MAX > s->packed_bytes)
        return err_set(err, ERR_VALIDATION,
                       "the file '%.100s' in it unpacks to more than %d times its size", s->name,
                       RATIO_MAX);
    return got;
}
