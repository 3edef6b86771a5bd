#ifndef RIDDLE_AGENT_CHART_H
#define RIDDLE_AGENT_CHART_H

/*
 * The picture that fits a result, as a small Vega-Lite specification; the rows stay where they are.
 */

#include "base/json.h"

#define CHART_ROWS_MAX 5000
#define CHART_BARS_MAX 50
#define CHART_SERIES_MAX 12
#define CHART_SLICES_MAX 8

/*
 * result: {"columns", "types"?, "rows"}, whoever made it; hint: what the planner or a model wants,
 * {"mark", "x": {"field"}, "y": {"field"}, "series"?: {"field"}} where a field may also stand as
 * plain text, or NULL. A hint that does not fit the result is passed over.
 *
 * {"$schema", "title", "data": {"name": "result"}, "mark", "encoding": {"x", "y", "color"?,
 * "xOffset"?} (an arc has "theta" and "color"), "usermeta": {"kind": "line" | "bar" | "point" |
 * "arc", "x", "y", "series"?}}. In usermeta columns are named as they are; fields in the encoding
 * are escaped as Vega-Lite wants them. New reference; NULL when no picture fits.
 */
json_t *chart_suggest(const json_t *result, const json_t *hint);

#endif
