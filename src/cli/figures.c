/*
 * Saves figures. What comes from a sandbox is checked here: it must be base64, and a PNG must begin
 * like one.
 */

#include "cli/figures.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/fdio.h"
#include "base/limits.h"
#include "base/macros.h"

#define NUMBERS_TRIED 100000

/* True if another file has this name, and it must stay. */
static bool is_taken(const struct figures *f, const char *path)
{
    struct stat st;
    return f->keep && lstat(path, &st) == 0;
}

static int save_new(const char *path, const void *data, size_t len, struct err *err)
{
    auto_close int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0)
        return err_errno(err, ERR_IO, errno, "creating it");
    int r = fd_write_all(fd, data, len, err);
    if (r < 0)
        (void)unlink(path);
    return r;
}

static int name_of(const struct figures *f, const char *extension, char path[PATH_MAX],
                   struct err *err)
{
    int n = snprintf(path, PATH_MAX, "%s%s%s-%d.%s", f->directory, f->directory[0] ? "/" : "",
                     f->stem, f->count, extension);
    if (n < 0 || n >= PATH_MAX)
        return err_set(err, ERR_INVALID_INPUT,
                       "the name of the figure's file is too long: use --out");
    return 0;
}

static int save(const struct figures *f, const char *extension, const void *data, size_t len,
                struct err *err)
{
    char path[PATH_MAX];
    int r = name_of(f, extension, path, err);
    if (r < 0)
        return r;
    r = f->keep ? save_new(path, data, len, err) : fd_replace_file(path, data, len, 0644, err);
    if (r < 0)
        return err_wrap(err, "saving figure '%s'", path);
    fprintf(stderr, "figure: %s\n", path);
    return 0;
}

/* The next number whose names, as PNG and as SVG, are free. */
static int take_number(struct figures *f, struct err *err)
{
    char png[PATH_MAX], svg[PATH_MAX];
    for (int i = 0; i < NUMBERS_TRIED; i++) {
        f->count++;
        if (name_of(f, "png", png, err) < 0 || name_of(f, "svg", svg, err) < 0)
            return -(int)ERR_INVALID_INPUT;
        if (!is_taken(f, png) && !is_taken(f, svg))
            return 0;
    }
    return err_set(err, ERR_CONFLICT, "no name is free for another figure '%s-N.png'", f->stem);
}

int figures_save(struct figures *f, const json_t *display, struct err *err)
{
    const json_t *png = json_object_get(display, "png"), *svg = json_object_get(display, "svg");
    auto_buf struct buf b = BUF_INIT(DISPLAY_PART_MAX);
    if (!json_is_string(png) && !json_is_string(svg))
        return 0;
    int r = take_number(f, err);
    if (r >= 0 && json_is_string(png)) {
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
