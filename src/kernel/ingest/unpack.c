#include "kernel/ingest/unpack.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>
#include "base/fdio.h"
#include "base/macros.h"

#define BLOCK_BYTES (1u << 20)
#define ZSTD_WINDOW_LOG 27 /* 128 MB: what the program writes unless it is asked for more */

const char *packed_name(enum packed kind)
{
    static const char *const names[] = { [PACKED_GZIP] = "gzip", [PACKED_ZSTD] = "zstd" };

    return kind < _PACKED_MAX && names[kind] ? names[kind] : "";
}

enum packed unpack_kind(const unsigned char *head, size_t len)
{
    if (len >= 2 && memcmp(head, "\x1f\x8b", 2) == 0)
        return PACKED_GZIP;
    return len >= 4 && memcmp(head, "\x28\xb5\x2f\xfd", 4) == 0 ? PACKED_ZSTD : PACKED_NOT;
}

static int write_block(struct unpack *u, const unsigned char *block, size_t n, struct err *err)
{
    u->written += n;
    if (u->written > u->most)
        return err_set(
            err, ERR_VALIDATION,
            "'%.200s' unpacks to more than %llu MB from %zu kB, which is more than may be "
            "unpacked here; send it in smaller parts",
            u->name, (unsigned long long)(u->most >> 20), u->len >> 10);
    if (u->hooks->must_stop(u->hooks->arg))
        return err_set(err, ERR_CANCELLED, "interrupted");
    if (u->hooks->progress)
        u->hooks->progress(u->hooks->arg, (double)u->at / (double)u->len);
    return fd_write_all(u->fd, block, n, err);
}

static int damaged(const struct unpack *u, enum packed kind, bool ends, struct err *err)
{
    return err_set(err, ERR_VALIDATION,
                   "'%.200s' is a %s file that %s (at byte %zu); pack and send it again", u->name,
                   packed_name(kind), ends ? "ends in the middle" : "is damaged", u->at);
}

/* ---- gzip ---- */

/* A file may be several packed ones, one behind the other; zeros at the end are padding. */
static bool another_member(const struct unpack *u)
{
    return u->len - u->at >= 2 && memcmp(u->data + u->at, "\x1f\x8b", 2) == 0;
}

static int unpack_gzip(struct unpack *u, unsigned char *block, struct err *err)
{
    z_stream z = { 0 };
    int r = 0;

    if (inflateInit2(&z, 16 + MAX_WBITS) != Z_OK)
        return err_set(err, ERR_NO_MEMORY, "out of memory for unpacking");
    while (r == 0) {
        unsigned piece = (unsigned)MIN_OF(u->len - u->at, (size_t)BLOCK_BYTES);

        z.next_in = (unsigned char *)u->data + u->at;
        z.avail_in = piece;
        z.next_out = block;
        z.avail_out = BLOCK_BYTES;
        int status = inflate(&z, Z_NO_FLUSH);
        u->at += piece - z.avail_in;
        if (status == Z_MEM_ERROR)
            r = err_set(err, ERR_NO_MEMORY, "out of memory for unpacking");
        else if (status != Z_OK && status != Z_STREAM_END)
            r = damaged(u, PACKED_GZIP, status == Z_BUF_ERROR, err);
        else
            r = write_block(u, block, BLOCK_BYTES - z.avail_out, err);
        if (status == Z_STREAM_END && !another_member(u))
            break;
        if (r == 0 && status == Z_STREAM_END && inflateReset(&z) != Z_OK)
            r = err_set(err, ERR_INTERNAL, "zlib cannot go on");
    }
    inflateEnd(&z);
    return r;
}

/* ---- zstd ---- */

static int unpack_zstd(struct unpack *u, unsigned char *block, struct err *err)
{
    ZSTD_DStream *z = ZSTD_createDStream();
    ZSTD_inBuffer in = { .src = u->data, .size = u->len };
    size_t left = 1; /* 0: at the end of a frame; another may follow */
    int r = z && !ZSTD_isError(ZSTD_DCtx_setParameter(z, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG)) ?
                0 :
                err_set(err, ERR_NO_MEMORY, "out of memory for unpacking");

    while (r == 0 && (in.pos < in.size || left != 0)) {
        ZSTD_outBuffer out = { .dst = block, .size = BLOCK_BYTES };

        left = ZSTD_decompressStream(z, &out, &in);
        u->at = in.pos;
        if (ZSTD_isError(left))
            r = damaged(u, PACKED_ZSTD, false, err);
        else if (out.pos == 0 && in.pos == in.size && left != 0)
            r = damaged(u, PACKED_ZSTD, true, err);
        else
            r = write_block(u, block, out.pos, err);
    }
    ZSTD_freeDStream(z);
    return r;
}

int unpack(struct unpack *u, enum packed kind, struct err *err)
{
    auto_free unsigned char *block = malloc(BLOCK_BYTES);

    if (!block)
        return err_set(err, ERR_NO_MEMORY, "out of memory for unpacking");
    return kind == PACKED_GZIP ? unpack_gzip(u, block, err) : unpack_zstd(u, block, err);
}
