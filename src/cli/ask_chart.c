/*
 * The chart of an answer as a file. The picture is drawn inside a jail, from a file that riddle put
 * there; what comes back is checked and written here.
 */

#include "cli/ask_chart.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "agent/chart.h"
#include "agent/draw.h"
#include "base/fdio.h"
#include "base/macros.h"
#include "base/str.h"

const char *ask_chart_format(const char *path)
{
    static const char *const formats[] = { "png", "svg" };
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; i < ARRAY_SIZE(formats); i++)
        if (dot && strcasecmp(dot + 1, formats[i]) == 0)
            return formats[i];
    return NULL;
}

int ask_chart_check(const char *path, bool force, struct err *err)
{
    if (!ask_chart_format(path))
        return err_set(err, ERR_VALIDATION,
                       "the name of a chart ends in .png or .svg, not like '%s'", path);
    if (!force && access(path, F_OK) == 0)
        return err_set(err, ERR_CONFLICT, "'%s' is there already; --force replaces it", path);
    return 0;
}

static int put_input(struct foreground *fg, struct lease *lease, const struct buf *input,
                     struct err *err)
{
    int r = 0;
    for (size_t at = 0; at < input->len && r >= 0; at += FILE_PIECE_MAX)
        r = foreground_write_file(fg, lease, DRAW_INPUT, input->data + at,
                                  MIN_OF(input->len - at, (size_t)FILE_PIECE_MAX), at > 0, err);
    return r;
}

static int get_output(struct foreground *fg, struct lease *lease, struct buf *image,
                      struct err *err)
{
    auto_buf struct buf data = BUF_INIT(2 * FILE_PIECE_MAX);
    struct file_piece piece = { .end = false };
    int r = 0;
    while (!piece.end && r >= 0) {
        r = foreground_read_file(fg, lease, DRAW_OUTPUT, (int64_t)image->len, FILE_PIECE_MAX, &data,
                                 &piece, err);
        if (r >= 0)
            r = buf_append(image, piece.data, piece.len, err);
        if (r >= 0 && piece.len == 0)
            break;
    }
    return r;
}

static int run_code(struct foreground *fg, struct lease *lease, struct err *err)
{
    const char *code = draw_code();
    struct run_request req = { .kind = RUN_PYTHON,
                               .code = code,
                               .code_len = strlen(code),
                               .policy = POLICY_OPEN,
                               .timeout_ms = DRAW_TIMEOUT_MS,
                               .max_rows = 1,
                               .max_output_bytes = 1 << 16 };
    struct run_result result = { .verdict = VERDICT_OK };
    int r = foreground_run(fg, lease, &req, &result, err);
    if (r < 0)
        return r;
    if (result.verdict != VERDICT_OK) {
        const char *message = json_string_value(
            json_object_get(json_object_get(result.body, "error"), "message"));
        r = err_set(err, ERR_INTERNAL, "drawing the chart failed: %s",
                    message ? message : verdict_name(result.verdict));
    }
    run_result_finish(&result);
    return r;
}

static int write_new(const char *path, const struct buf *image, struct err *err)
{
    auto_close int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0)
        return err_errno(err, errno == EEXIST ? ERR_CONFLICT : ERR_IO, errno, "writing '%s'", path);
    int r = fd_write_all(fd, image->data, image->len, err);
    if (r < 0)
        (void)unlink(path);
    return r;
}

int ask_chart_write(struct foreground *fg, const struct config *cfg, const json_t *answer,
                    const char *path, bool force, struct err *err)
{
    auto_json json_t *spec = chart_suggest(answer, json_object_get(answer, "chart"));
    auto_buf struct buf input = BUF_INIT(DRAW_MAX_BYTES), image = BUF_INIT(DRAW_MAX_BYTES);
    struct sandbox_spec sandbox_spec = { .kind = RUN_PYTHON };
    struct lease *lease = NULL;
    if (!spec)
        return err_set(
            err, ERR_VALIDATION,
            "no chart fits this answer: it takes at least two rows, with one number for each name or time");
    const char *format = ask_chart_format(path);
    int r = draw_input(answer, spec, format, &input, err);
    sandbox_limits_default(cfg, &sandbox_spec.limits);
    if (r >= 0)
        r = foreground_acquire(fg, &sandbox_spec, NULL, &lease, err);
    if (r >= 0)
        r = put_input(fg, lease, &input, err);
    if (r >= 0)
        r = run_code(fg, lease, err);
    if (r >= 0)
        r = get_output(fg, lease, &image, err);
    lease_release(lease);
    if (r >= 0)
        r = draw_check(format, image.data, image.len, err);
    if (r < 0)
        return r;
    return force ? fd_replace_file(path, image.data, image.len, 0644, err) :
                   write_new(path, &image, err);
}
