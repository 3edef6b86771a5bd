/*
 * ZIP archives, as far as office documents use them: stored and deflated entries, ZIP64, one disk,
 * no encryption.
 */

#include "kernel/ingest/xlsx/zip.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>
#include "base/macros.h"

#define END_BYTES 22
#define END_COMMENT_MAX 65535
#define LOCATOR_BYTES 20
#define END64_BYTES 56
#define ENTRY_BYTES 46
#define LOCAL_BYTES 30
#define INPUT_CHUNK (1u << 20)

/*
 * Deflate cannot do more than 1,032 to 1. Sheets stay below 100; what is small may be as dense as
 * it likes.
 */
#define RATIO_MAX 300
#define RATIO_FREE_BYTES (32u << 20)

static uint16_t get16(const unsigned char *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static uint32_t get32(const unsigned char *p)
{
    return get16(p) | (uint32_t)get16(p + 2) << 16;
}

static uint64_t get64(const unsigned char *p)
{
    return get32(p) | (uint64_t)get32(p + 4) << 32;
}

/* ---- the directory ------------------------------------------------------------------------------------------------- */

struct directory {
    uint64_t at, bytes, n;
};

/* The end record is the last thing in the file but for a comment. */
static int find_end(const struct zip *z, size_t *ret_at, struct err *err)
{
    if (z->len >= END_BYTES) {
        size_t lowest = z->len > END_BYTES + END_COMMENT_MAX ?
                            z->len - END_BYTES - END_COMMENT_MAX :
                            0;

        for (size_t at = z->len - END_BYTES + 1; at-- > lowest;) {
            const unsigned char *p = z->data + at;

            if (memcmp(p, "PK\5\6", 4) == 0 && get16(p + 20) <= z->len - END_BYTES - at) {
                *ret_at = at;
                return 0;
            }
        }
    }
    return err_set(err, ERR_VALIDATION,
                   "it is a ZIP archive without its directory, as a cut-off copy is");
}

static int find_directory(const struct zip *z, struct directory *ret, struct err *err)
{
    size_t end = 0;
    int r = find_end(z, &end, err);

    if (r < 0)
        return r;
    const unsigned char *p = z->data + end;
    *ret = (struct directory){ .at = get32(p + 16), .bytes = get32(p + 12), .n = get16(p + 10) };
    if (end >= LOCATOR_BYTES && memcmp(p - LOCATOR_BYTES, "PK\6\7", 4) == 0) {
        uint64_t at = get64(p - LOCATOR_BYTES + 8);

        if (at > z->len || z->len - at < END64_BYTES || memcmp(z->data + at, "PK\6\6", 4) != 0)
            return err_set(err, ERR_VALIDATION, "its directory is damaged");
        p = z->data + at;
        *ret = (struct directory){ .at = get64(p + 48),
                                   .bytes = get64(p + 40),
                                   .n = get64(p + 32) };
    }
    if (ret->at > z->len || ret->bytes > z->len - ret->at || ret->n > ret->bytes / ENTRY_BYTES)
        return err_set(err, ERR_VALIDATION, "its directory is damaged");
    if (ret->n > ZIP_MAX_ENTRIES)
        return err_set(err, ERR_VALIDATION, "it holds more than %d files", ZIP_MAX_ENTRIES);
    return 0;
}

/*
 * Sizes of 4 GB and more are in the extra field, each only if its place in the record is all ones.
 */
static void read_zip64(const unsigned char *extra, size_t len, bool has_size, bool has_compressed,
                       bool has_at, struct zip_entry *e)
{
    while (len >= 4) {
        size_t n = get16(extra + 2);

        if (n > len - 4)
            return;
        if (get16(extra) == 1) {
            const unsigned char *p = extra + 4;

            if (has_size && n >= 8) {
                p += 8;
                n -= 8;
            }
            if (has_compressed && n >= 8) {
                e->compressed = get64(p);
                p += 8;
                n -= 8;
            }
            if (has_at && n >= 8)
                e->header_at = get64(p);
            return;
        }
        extra += 4 + n;
        len -= 4 + n;
    }
}

int zip_open(struct zip *z, const void *data, size_t len, struct err *err)
{
    struct directory d;

    *z = (struct zip){ .data = data, .len = len };
    int r = find_directory(z, &d, err);
    if (r < 0)
        return r;
    z->entries = calloc(d.n ? d.n : 1, sizeof(*z->entries));
    if (!z->entries)
        return err_set(err, ERR_NO_MEMORY, "out of memory for a directory");
    const unsigned char *p = z->data + d.at, *end = p + d.bytes;
    for (; z->n_entries < d.n; z->n_entries++) {
        struct zip_entry *e = &z->entries[z->n_entries];

        if (end - p < ENTRY_BYTES || memcmp(p, "PK\1\2", 4) != 0)
            return err_set(err, ERR_VALIDATION, "its directory is damaged");
        size_t name = get16(p + 28), extra = get16(p + 30), comment = get16(p + 32);
        if ((size_t)(end - p) - ENTRY_BYTES < name + extra + comment)
            return err_set(err, ERR_VALIDATION, "its directory is damaged");
        *e = (struct zip_entry){
            .name = (const char *)p + ENTRY_BYTES,
            .name_len = name,
            .flags = get16(p + 8),
            .method = get16(p + 10),
            .crc = get32(p + 16),
            .compressed = get32(p + 20),
            .header_at = get32(p + 42),
        };
        read_zip64(p + ENTRY_BYTES + name, extra, get32(p + 24) == UINT32_MAX,
                   e->compressed == UINT32_MAX, e->header_at == UINT32_MAX, e);
        p += ENTRY_BYTES + name + extra + comment;
    }
    return 0;
}

void zip_finish(struct zip *z)
{
    free(z->entries);
    memset(z, 0, sizeof(*z));
}

const struct zip_entry *zip_find(const struct zip *z, const char *name)
{
    size_t len = strlen(name);

    for (size_t i = 0; i < z->n_entries; i++) {
        if (z->entries[i].name_len == len && strncasecmp(z->entries[i].name, name, len) == 0)
            return &z->entries[i];
    }
    return NULL;
}

/* ---- entries ------------------------------------------------------------------------------------------------------- */

struct zip_stream {
    const struct zip_entry *entry;
    const unsigned char *in;
    uint64_t in_len, in_at, out_bytes, max_bytes;
    uint32_t crc;
    bool ended;
    z_stream inflater; /* of deflated entries */
};

static int damaged(const struct zip_stream *s, struct err *err)
{
    return err_set(err, ERR_VALIDATION, "the file '%.*s' in it is damaged",
                   (int)MIN_OF(s->entry->name_len, (size_t)100), s->entry->name);
}

int zip_stream_open(const struct zip *z, const struct zip_entry *entry, uint64_t max_bytes,
                    struct zip_stream **ret, struct err *err)
{
    auto_free struct zip_stream *s = calloc(1, sizeof(*s));

    if (!s)
        return err_set(err, ERR_NO_MEMORY, "out of memory for unpacking");
    s->entry = entry;
    s->max_bytes = max_bytes;
    if (entry->flags & 1)
        return err_set(err, ERR_VALIDATION, "it is encrypted");
    if (entry->method != 0 && entry->method != 8)
        return err_set(err, ERR_VALIDATION, "it is packed by an unusual method (%u)",
                       entry->method);
    if (entry->header_at > z->len || z->len - entry->header_at < LOCAL_BYTES)
        return damaged(s, err);
    const unsigned char *p = z->data + entry->header_at;
    uint64_t at = entry->header_at + LOCAL_BYTES + get16(p + 26) + get16(p + 28);
    if (memcmp(p, "PK\3\4", 4) != 0 || at > z->len || entry->compressed > z->len - at)
        return damaged(s, err);
    s->in = z->data + at;
    s->in_len = entry->compressed;
    s->crc = (uint32_t)crc32(0, NULL, 0);
    if (entry->method == 8 && inflateInit2(&s->inflater, -MAX_WBITS) != Z_OK)
        return err_set(err, ERR_NO_MEMORY, "out of memory for unpacking");
    *ret = TAKE_PTR(s);
    return 0;
}

void zip_stream_close(struct zip_stream *s)
{
    if (!s)
        return;
    if (s->entry->method == 8)
        inflateEnd(&s->inflater);
    free(s);
}

double zip_stream_progress(const struct zip_stream *s)
{
    return s->in_len ? (double)s->in_at / (double)s->in_len : 1;
}

static ssize_t inflate_some(struct zip_stream *s, char *buf, size_t n, struct err *err)
{
    z_stream *z = &s->inflater;

    z->next_out = (unsigned char *)buf;
    z->avail_out = (unsigned)n;
    while (z->avail_out == n && !s->ended) {
        unsigned piece = (unsigned)MIN_OF(s->in_len - s->in_at, (uint64_t)INPUT_CHUNK);

        z->next_in = (unsigned char *)s->in + s->in_at;
        z->avail_in = piece;
        int status = inflate(z, Z_NO_FLUSH);
        s->in_at += piece - z->avail_in;
        s->ended = status == Z_STREAM_END;
        /* Without input and without output it will never go on: the data is cut off. */
        if (status != Z_OK && status != Z_STREAM_END)
            return status == Z_MEM_ERROR ?
                       err_set(err, ERR_NO_MEMORY, "out of memory for unpacking") :
                       damaged(s, err);
    }
    return (ssize_t)(n - z->avail_out);
}

ssize_t zip_stream_read(void *stream, char *buf, size_t n, struct err *err)
{
    struct zip_stream *s = stream;
    ssize_t got;

    n = MIN_OF(n, (size_t)INPUT_CHUNK);
    if (s->entry->method == 8) {
        got = inflate_some(s, buf, n, err);
    } else {
        got = (ssize_t)MIN_OF((uint64_t)n, s->in_len - s->in_at);
        memcpy(buf, s->in + s->in_at, (size_t)got);
        s->in_at += (uint64_t)got;
    }
    if (got < 0)
        return got;
    s->crc = (uint32_t)crc32(s->crc, (const unsigned char *)buf, (unsigned)got);
    s->out_bytes += (uint64_t)got;
    if (s->out_bytes > s->max_bytes)
        return err_set(err, ERR_VALIDATION, "the file '%.*s' in it unpacks to more than %llu MB",
                       (int)MIN_OF(s->entry->name_len, (size_t)100), s->entry->name,
                       (unsigned long long)(s->max_bytes >> 20));
    if (s->out_bytes > RATIO_FREE_BYTES && s->out_bytes / RATIO_MAX > s->in_at)
        return err_set(err, ERR_VALIDATION,
                       "the file '%.*s' in it unpacks to more than %d times its size",
                       (int)MIN_OF(s->entry->name_len, (size_t)100), s->entry->name, RATIO_MAX);
    if (got == 0 && s->crc != s->entry->crc)
        return damaged(s, err);
    return got;
}
