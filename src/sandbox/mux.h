#ifndef RIDDLE_SANDBOX_MUX_H
#define RIDDLE_SANDBOX_MUX_H

/*
 * What a provider without descriptors of its own (a container's attached stream) has instead of
 * three: frames on one stream of bytes each way, between the provider and the relay that
 * `riddle-kernel --attached` is. docs/wire.md describes them.
 *
 * A frame is a type (one byte), three zero bytes, a length (u32, little-endian) and that many
 * bytes. The provider believes nothing that a relay says about sizes or files.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"

#define MUX_VERSION 1
#define MUX_HEAD_BYTES 8
#define MUX_PAYLOAD_MAX (256u << 10)

enum mux_type {
    MUX_CONTROL = 1, /* both: bytes of the wire */
    /*
     * both: a file begins; {"target","size"}, or {"target","writable":true} for a directory that
     * is sent back
     */
    MUX_FILE,
    MUX_DATA,      /* both: bytes of that file */
    MUX_INTERRUPT, /* to the relay: SIGINT for the kernel */
    /* to the relay: one byte; 0, as at first, leaves in the kernel's pipes what it writes */
    MUX_BUSY,
    MUX_STDOUT, /* from the relay */
    MUX_STDERR,
    MUX_READY, /* from the relay, once: everything is loaded; {"mux","version"} */
    MUX_USAGE, /* from the relay, before each MUX_CONTROL and before the end: struct mux_usage */
    MUX_EXIT, /* from the relay, last: {"code","signal"} of the kernel, or {"error"} of the relay */
    _MUX_TYPE_MAX
};

/* In the machine's own byte order, which is x86's. Unknown figures are -1. */
struct mux_usage {
    int64_t cpu_us, peak_memory_bytes, oom_kills, pids_refused;
};

struct mux_frame {
    enum mux_type type;
    const char *data;
    size_t len;
};

/* Bytes longer than MUX_PAYLOAD_MAX become several frames. */
int mux_append(struct buf *out, enum mux_type type, const void *data, size_t len, struct err *err);

/* Collects bytes into frames. */
struct mux_reader {
    struct buf in;
    size_t at;
};

void mux_reader_init(struct mux_reader *r);
void mux_reader_finish(struct mux_reader *r);
/* Frames given out before are gone. */
int mux_reader_feed(struct mux_reader *r, const char *bytes, size_t len, struct err *err);
/* 1: *ret is the next frame, good until the next feed; 0: none is whole; PROTOCOL. */
int mux_reader_next(struct mux_reader *r, struct mux_frame *ret, struct err *err);

/*
 * Where a kernel's file lies inside a container: "/data/orders.csv" for "data/orders.csv",
 * "/data/.tables/0.duckdb" for "tables/0.duckdb", "/data/.out" for the writable directory "out".
 * VALIDATION for a target that is below neither, or that leaves it.
 */
int mux_path(const char *target, bool writable, char *ret, size_t n, struct err *err);

#endif
