/* Saves figures. What comes from a sandbox is checked here: it must be base64, and a PNG must begin like one. */

#include "cli/figures.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/fdio.h"
#include "base/macros.h"

#define FIGURE_MAX (64u << 20)

static int save(const struct figures *f, const char *extension, const void *data, size_t len, struct err *err)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof(path), "%s%s%s-%d.%s", f->directory, f->directory[0] ? "/" : "", f->stem, f->count,
                     extension);
    if (n < 0 || (size_t)n >= sizeof(path))
        return err_set(err, ERR_INVALID_INPUT, "the name of the figure's file is too long: use --out");
    int r = fd_replace_file(path, data, len, 0644, err);
    if (r < 0)
        return err_wrap(err, "saving figure '%s'", path);
    fprintf(stderr, "figure: %s\n", path);
    return 0;
}

int figures_save(struct figures *f, const json_t *display, struct err *err)
{
    const json_t *png = json_object_get(display, "png"), *svg = json_object_get(display, "svg");
    auto_buf struct buf b = BUF_INIT(FIGURE_MAX);
    int r = 0;
    if (!json_is_string(png) && !json_is_string(svg))
        return 0;
    f->count++;
    if (json_is_string(png)) {
        r = base64_decode(json_string_value(png), json_string_length(png), &b, err);
        if (r >= 0 && (b.len < 8 || memcmp(b.data, "\x89PNG\r\n\x1a\n", 8) != 0))
            r = err_set(err, ERR_PROTOCOL, "a figure is not a PNG image");
        if (r >= 0)
            r = save(f, "png", b.data, b.len, err);
    }
    if (r >= 0 && json_is_string(svg))
        r = save(f, "svg", json_string_value(svg), json_string_length(svg), err);
    return r < 0 ? r : 1;
}
