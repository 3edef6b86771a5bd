#ifndef RIDDLE_RUN_FIGURES_H
#define RIDDLE_RUN_FIGURES_H

/*
 * Displays of a run (figures, tables as HTML, …) on their way into an answer. Small parts stay
 * inside it. A part of more than DISPLAY_INLINE_MAX bytes, and whatever exceeds DISPLAYS_INLINE_MAX
 * in one answer, becomes a file below RIDDLE_HOME/figures/RUN_ID, and the answer has a reference:
 *
 *   {"text": "<Figure 640x480>", "png": "iVBOR…"}
 *   {"text": "<Figure 640x480>", "png_url": "/runs/RUN_ID/figures/1", "png_bytes": 2345678}
 *
 * N is the number of the display in the run, from 1. Files are written by the worker pool; who asks
 * for one that is not written yet waits (figures_wait). Everything is called from the loop.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "base/json.h"
#include "net/loop.h"
#include "store/store.h"

struct figure_store;
struct figures;

/* Makes the directory RIDDLE_HOME/figures. */
int figure_store_open(struct loop *loop, const char *home, struct figure_store **ret,
                      struct err *err);
/* Writes under way still end, before the loop is destroyed. NULL is fine. */
void figure_store_close(struct figure_store *s);
/* Removes, in the background, figures of runs that have no capsule: their server ended too soon. */
void figure_store_sweep(struct figure_store *s, struct store *store);
/* Removes the figures of a run, in the background: for whoever removes its capsule. */
void figure_store_remove(struct figure_store *s, const char *run_id);

/* ---- a run under way ---- */

/* store NULL: every part stays inside. NULL when out of memory. */
struct figures *figures_begin(struct figure_store *s, const char *owner, const char *run_id);
/*
 * The display as answers have it; also appended to the list. Borrowed. NULL when the list is full
 * (DISPLAYS_MAX) or memory is out. slow: a client that waits for it is slow to read, so only a
 * very small part stays inside.
 */
json_t *figures_take(struct figures *f, const json_t *display, bool slow);
json_t *figures_list(const struct figures *f); /* array of all that were taken; borrowed */
/* Of them those with a PNG or SVG, inside or as a reference. New reference; f may be NULL. */
json_t *figures_images(const struct figures *f);
/*
 * A copy of a result for an answer that has figures_images(), too: an output that is a figure is
 * not inside it a second time, but says which of the images it is, {"text", "image": 0}. New
 * reference; f may be NULL.
 */
json_t *figures_result(const struct figures *f, json_t *result);
/* The run is over. Without keep its files are removed. NULL is fine. */
void figures_end(struct figures *f, bool keep);

/* ---- a part of a figure for a client ---- */

enum figure_part { FIGURE_PNG, FIGURE_SVG, FIGURE_HTML, FIGURE_JSON, _FIGURE_PART_MAX };
extern const char *const figure_part_names[_FIGURE_PART_MAX + 1]; /* "png", …; NULL at the end */
const char *figure_content_type(enum figure_part part);

/* True if the run is under way here and the owner's: there is no capsule yet that could tell. */
bool figures_in_flight(const struct figure_store *s, const char *owner, const char *run_id);
/* Calls done(arg) once no file of the run is being written: at once and from within if none is. */
void figures_wait(struct figure_store *s, const char *run_id, void (*done)(void *arg), void *arg);
/*
 * Opens the file of display n; part -1: the first that it has. NOT_FOUND if it has none: then the
 * part is inside the capsule, or there is none.
 */
int figures_open(struct figure_store *s, const char *run_id, int n, int part, int *ret_fd,
                 int64_t *ret_size, enum figure_part *ret_part, struct err *err);
/* The same from a stored result, whose parts are inside. Appends it to b, decoded. NOT_FOUND. */
int figures_from_result(const json_t *result, int n, int part, struct buf *b,
                        enum figure_part *ret_part, struct err *err);

#endif
