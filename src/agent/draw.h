#ifndef RIDDLE_AGENT_DRAW_H
#define RIDDLE_AGENT_DRAW_H

/*
 * A chart as an image. It is drawn in a kernel, by trusted code (draw.py) that reads the result and
 * its specification from a file:
 *
 *   draw_input()   → write it to /workspace as DRAW_INPUT
 *   draw_code()    → run it as Python, under the open policy
 *   read DRAW_OUTPUT, then draw_check()
 */

#include <stddef.h>
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

#define DRAW_INPUT ".riddle-chart.json"
#define DRAW_OUTPUT ".riddle-chart.out"
#define DRAW_MAX_BYTES (16u << 20) /* of either */
#define DRAW_TIMEOUT_MS 30000

/*
 * The Python files of this folder, compiled in by scripts/embed-files. The list ends with a NULL
 * name.
 */
struct cell_file {
    const char *name; /* "draw" */
    const char *text; /* UTF-8, terminated */
    size_t len;
};
extern const struct cell_file cell_files[];

const char *draw_code(void);

/* result and spec as chart_suggest() had and gave them; format: "png" or "svg". */
int draw_input(const json_t *result, const json_t *spec, const char *format, struct buf *b,
               struct err *err);

/* PROTOCOL unless the bytes, which come out of a jail, begin like an image of that format. */
int draw_check(const char *format, const void *data, size_t len, struct err *err);

#endif
