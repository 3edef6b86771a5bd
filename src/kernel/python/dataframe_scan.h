#ifndef RIDDLE_KERNEL_PYTHON_DATAFRAME_SCAN_H
#define RIDDLE_KERNEL_PYTHON_DATAFRAME_SCAN_H

/*
 * A DataFrame as it was when a query was bound, readable without the GIL. Shared by
 * dataframe_scan.c and dataframe_capture.c.
 */

#include "kernel/python/dataframe_impl.h"

enum dataframe_read {
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

struct dataframe_captured {
    char *name;
    duckdb_type type;
    enum dataframe_read read;
    size_t width;
    const char *data;
    ptrdiff_t stride;
    const uint8_t *mask;       /* a byte for each row, not 0: NULL; or NULL */
    Py_buffer view, mask_view; /* hold data and mask, unless empty */
    void *owned, *owned_mask;  /* the same for what was converted */
};

struct dataframe_capture {
    struct dataframe_capture *next; /* in the list of finished ones */
    size_t n_rows, n_columns;
    struct dataframe_captured columns[];
};

/* With the GIL. */
struct dataframe_capture *dataframe_capture_create(PyObject *frame, const char *name);
void dataframe_capture_destroy(struct dataframe_capture *capture);

/* Without: rows [first, first + n) into a vector. false when out of memory. */
bool dataframe_capture_read(const struct dataframe_captured *c, size_t first, size_t n,
                            duckdb_vector vector);

int dataframe_capture_init(void);

#endif
