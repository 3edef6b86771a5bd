/* A chart as an image: see draw.h. */

#include "agent/draw.h"

#include <string.h>

#include "base/macros.h"
#include "base/str.h"

const char *draw_code(void)
{
    for (const struct cell_file *c = cell_files; c->name; c++)
        if (str_eq(c->name, "draw"))
            return c->text;
    return "";
}

int draw_input(const json_t *result, const json_t *spec, const char *format, struct buf *b,
               struct err *err)
{
    auto_json json_t *j = json_pack("{s:s, s:O, s:{s:O, s:O}}", "format", format, "spec", spec,
                                    "result", "columns", json_object_get(result, "columns"), "rows",
                                    json_object_get(result, "rows"));
    if (!j)
        return err_set(err, ERR_VALIDATION, "a chart needs columns, rows and a specification");
    return json_write(j, b, err);
}

int draw_check(const char *format, const void *data, size_t len, struct err *err)
{
    static const char png[] = "\x89PNG\r\n\x1a\n", xml[] = "<?xml";
    bool is_svg = str_eq(format, "svg");
    const char *start = is_svg ? xml : png;
    size_t n = is_svg ? sizeof(xml) - 1 : sizeof(png) - 1;
    if (len < n || memcmp(data, start, n) != 0 || (is_svg && !memmem(data, len, "<svg", 4)))
        return err_set(err, ERR_PROTOCOL, "what was drawn is no %s image", is_svg ? "SVG" : "PNG");
    return 0;
}
