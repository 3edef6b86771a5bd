#ifndef RIDDLE_KERNEL_FRAMES_SCAN_H
#define RIDDLE_KERNEL_FRAMES_SCAN_H

/* A DataFrame as it was when a query was bound, readable without the GIL. Shared by frames_scan.c and frames_capture.c. */

#include "kernel/frames_impl.h"

enum frames_read {
    FRAMES_READ_PLAIN,  /* as it lies there */
    FRAMES_READ_FLOAT,  /* NaN is NULL */
    FRAMES_READ_DOUBLE, /* NaN is NULL */
    FRAMES_READ_NS,     /* int64, NaT is NULL */
    FRAMES_READ_NS_AS_US,
    FRAMES_READ_DELTA, /* int64 nanoseconds → INTERVAL, NaT is NULL */
    FRAMES_READ_TEXT,  /* references to str or None */
    FRAMES_READ_BYTES, /* references to bytes or None */
    _FRAMES_READ_MAX
};

struct frames_captured {
    char *name;
    duckdb_type type;
    enum frames_read read;
    size_t width;
    const char *data;
    ptrdiff_t stride;
    const uint8_t *mask;       /* a byte for each row, not 0: NULL; or NULL */
    Py_buffer view, mask_view; /* hold data and mask, unless empty */
    void *owned, *owned_mask;  /* the same for what was converted */
};

struct frames_capture {
    struct frames_capture *next; /* in the list of finished ones */
    size_t n_rows, n_columns;
    struct frames_captured columns[];
};

/* With the GIL. */
struct frames_capture *frames_capture_create(PyObject *frame, const char *name);
void frames_capture_destroy(struct frames_capture *capture);

/* Without: rows [first, first + n) into a vector. false when out of memory. */
bool frames_capture_read(const struct frames_captured *c, size_t first, size_t n, duckdb_vector vector);

int frames_capture_init(void);

#endif
