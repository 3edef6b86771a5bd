/*
 * The conversation goes to standard output; progress, names of files and failures of our own go to
 * standard error.
 */

#include "cli/chat_screen.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/macros.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/table.h"
#include "run/runner.h"

#define SAID_MAX_BYTES (1u << 20)
#define VALUE_SAID_BYTES 60 /* what a sentence quotes whole */
#define FILES_SHOWN 20

void chat_screen_init(struct chat_screen *s, bool quiet)
{
    *s = (struct chat_screen){ .quiet = quiet,
                               .figures = { .directory = "", .stem = "figure", .keep = true } };
    progress_init(&s->progress);
    buf_init(&s->said, SAID_MAX_BYTES);
}

void chat_screen_finish(struct chat_screen *s)
{
    progress_clear(&s->progress);
    buf_finish(&s->said);
    json_decref(TAKE_PTR(s->files));
}

/* ---- pieces ---- */

static void put(struct chat_screen *s, FILE *to, const char *text, size_t len)
{
    auto_buf struct buf b = BUF_INIT(RUNNER_RESPONSE_MAX);
    if (len == 0)
        return;
    progress_clear(&s->progress);
    if (table_append_visible(&b, text, len, true, NULL) < 0)
        return;
    if (to == stderr)
        fflush(stdout);
    fwrite(b.data, 1, b.len, to);
    fflush(to);
    s->mid_line = text[len - 1] != '\n';
}

void chat_screen_print(struct chat_screen *s, const char *text)
{
    put(s, stdout, text, strlen(text));
}

void chat_screen_fresh_line(struct chat_screen *s)
{
    if (s->mid_line)
        put(s, stdout, "\n", 1);
}

void chat_screen_complain(struct chat_screen *s, const struct err *err)
{
    chat_screen_fresh_line(s);
    progress_clear(&s->progress);
    auto_buf struct buf b = BUF_INIT(1u << 16);
    (void)table_append_visible(&b, err->message, strlen(err->message), true, NULL);
    cli_complain("%s", buf_cstr(&b));
}

static bool dims(void)
{
    struct table_style style;
    table_style_for(STDOUT_FILENO, &style);
    return style.colour;
}

void chat_screen_table(struct chat_screen *s, const json_t *columns, const json_t *types,
                       const json_t *rows)
{
    struct err err = ERR_INIT;
    struct table_style style;
    auto_buf struct buf b = BUF_INIT(RUNNER_RESPONSE_MAX);
    progress_clear(&s->progress);
    table_style_for(STDOUT_FILENO, &style);
    if (table_render(columns, types, rows, &style, &b, &err) < 0) {
        chat_screen_complain(s, &err);
        return;
    }
    fwrite(b.data, 1, b.len, stdout);
    fflush(stdout);
    s->mid_line = false;
}

/* ---- while a turn runs ---- */

void chat_screen_begin(struct chat_screen *s, bool direct)
{
    s->direct = direct;
    s->live = s->lost_figure = false;
    buf_clear(&s->said);
}

static void show_image(struct chat_screen *s, const json_t *data)
{
    struct err err = ERR_INIT;
    const json_t *text = json_object_get(data, "text");
    chat_screen_fresh_line(s);
    progress_clear(&s->progress);
    int r = figures_save(&s->figures, data, &err);
    if (r < 0) {
        chat_screen_complain(s, &err);
        s->lost_figure = true;
    } else if (r == 0 && json_is_string(text)) {
        put(s, stdout, json_string_value(text), json_string_length(text));
        chat_screen_fresh_line(s);
    }
    s->live = true;
}

void chat_screen_event(struct chat_screen *s, const char *type, const json_t *data)
{
    const json_t *text = json_object_get(data, "text");
    if (str_eq(type, "status")) {
        const json_t *fraction = json_object_get(data, "progress");
        if (fraction)
            progress_bar(&s->progress, json_string_value(text), json_number_value(fraction));
        else if (text && !s->mid_line) /* words that are half said stay where they are */
            progress_text(&s->progress, json_string_value(text));
    } else if (str_eq(type, "token") && !s->direct) {
        if (s->said.len == 0)
            chat_screen_fresh_line(s);
        put(s, stdout, json_string_value(text), json_string_length(text));
        (void)buf_append(&s->said, json_string_value(text), json_string_length(text), NULL);
    } else if (str_eq(type, "tool_call")) {
        chat_screen_fresh_line(s);
        buf_clear(&s->said);
    } else if (str_eq(type, "step")) {
        bool bad = str_eq(json_string_value(json_object_get(data, "stream")), "stderr");
        put(s, bad ? stderr : stdout, json_string_value(text), json_string_length(text));
        s->live = true;
    } else if (str_eq(type, "image")) {
        show_image(s, data);
    }
}

/* ---- the answer ---- */

/* What of the answer's words has not been said while they came. */
static void show_words(struct chat_screen *s, const json_t *answer)
{
    const char *all = json_string_value(json_object_get(answer, "assistant_message"));
    const char *said = buf_cstr(&s->said);
    const json_t *result = json_object_get(answer, "result");
    bool ok = str_eq(json_string_value(json_object_get(answer, "status")), "succeeded");
    if (!all)
        return;
    while (*said == '\n')
        said++;
    if (*said && str_starts(all, said)) {
        all += strlen(said);
    } else {
        chat_screen_fresh_line(s);
        /* Code that has spoken for itself needs no sentence about it. */
        if (s->direct && ok && s->live &&
            json_array_size(json_object_get(result, "columns")) == 0 &&
            !json_object_get(answer, "state_lost"))
            return;
    }
    chat_screen_print(s, all);
    chat_screen_fresh_line(s);
}

/* One value, which a sentence has told already. */
static bool is_told(const json_t *answer, const json_t *result)
{
    const json_t *rows = json_object_get(result, "rows"), *row = json_array_get(rows, 0),
                 *cell = json_array_get(row, 0);
    if (json_array_size(rows) != 1 || json_array_size(row) != 1 ||
        json_integer_value(json_object_get(answer, "llm_calls")) > 0)
        return false;
    return !json_is_string(cell) ||
           (json_string_length(cell) <= VALUE_SAID_BYTES && !strchr(json_string_value(cell), '\n'));
}

static void show_result(struct chat_screen *s, const json_t *answer)
{
    const json_t *result = json_object_get(answer, "result"),
                 *rows = json_object_get(result, "rows");
    const json_t *columns = json_object_get(result, "columns"),
                 *text = json_object_get(json_object_get(result, "value"), "text");
    if (!json_is_null(json_object_get(result, "error"))) {
        const char *trace = json_string_value(
            json_object_get(json_object_get(result, "error"), "traceback"));
        if (s->direct && trace && *trace) {
            put(s, stderr, trace, strlen(trace));
            chat_screen_fresh_line(s);
        }
        return;
    }
    if (json_array_size(rows) == 0 || is_told(answer, result))
        return;
    if (json_array_size(columns) == 1 &&
        str_eq(json_string_value(json_array_get(columns, 0)), "value") && json_is_string(text)) {
        /* a value of Python reads best as Python writes it */
        put(s, stdout, json_string_value(text), json_string_length(text));
        chat_screen_fresh_line(s);
        return;
    }
    chat_screen_print(s, "\n");
    chat_screen_table(s, columns, json_object_get(result, "types"), rows);
    if (json_is_true(json_object_get(result, "truncated"))) {
        char note[80];
        snprintf(note, sizeof(note), "… first %zu rows (MAX_ROWS)\n", json_array_size(rows));
        chat_screen_print(s, note);
    }
}

static void show_runs(struct chat_screen *s, const json_t *answer)
{
    const json_t *runs = json_object_get(answer, "code_runs"), *run;
    bool dim = dims();
    size_t i;
    if (s->quiet || s->direct || json_array_size(runs) == 0)
        return;
    chat_screen_print(s, "\n");
    fputs(dim ? "\033[2m" : "", stdout);
    json_array_foreach(runs, i, run) {
        const char *language = json_string_value(json_object_get(run, "language")),
                   *code = json_string_value(json_object_get(run, "code"));
        bool bad = !str_eq(json_string_value(json_object_get(run, "status")), "succeeded");
        printf("%s (%s, %.0f ms%s):\n", i == 0 ? "what was run" : "and",
               str_eq(language, "python") ? "Python" : "SQL",
               json_number_value(json_object_get(run, "exec_ms")), bad ? ", failed" : "");
        chat_screen_print(s, code ? code : "");
        chat_screen_fresh_line(s);
    }
    fputs(dim ? "\033[0m" : "", stdout);
    fflush(stdout);
}

static void show_flagged(struct chat_screen *s, const json_t *answer)
{
    const json_t *flagged = json_object_get(answer, "flagged"), *f;
    size_t i;
    if (json_array_size(flagged) == 0)
        return;
    chat_screen_print(s, "\nNo result bears out:");
    json_array_foreach(flagged, i, f) {
        chat_screen_print(s, i == 0 ? " " : ", ");
        auto_free char *text = json_is_string(f) ? strdup(json_string_value(f)) : json_to_str(f);
        chat_screen_print(s, text ? text : "?");
    }
    chat_screen_print(s, "\n");
}

/* What code has left, when it is not what was told before. */
static void show_files(struct chat_screen *s, const json_t *answer)
{
    json_t *files = json_object_get(answer, "files"), *f;
    size_t i, n = json_array_size(files);
    if (n == 0 || (s->files && json_equal(files, s->files)))
        return;
    json_decref(s->files);
    s->files = json_deep_copy(files);
    chat_screen_print(s, "\nfiles (/save NAME copies one out):\n");
    json_array_foreach(files, i, f) {
        char size[40];
        if (i == FILES_SHOWN)
            break;
        snprintf(size, sizeof(size), "  %12lld  ",
                 (long long)json_integer_value(json_object_get(f, "size")));
        chat_screen_print(s, size);
        auto_buf struct buf name = BUF_INIT(1u << 16);
        const json_t *path = json_object_get(f, "path");
        (void)table_append_visible(&name, json_string_value(path), json_string_length(path), false,
                                   NULL);
        printf("%s\n", buf_cstr(&name));
        s->mid_line = false;
    }
    if (n > FILES_SHOWN) {
        char more[40];
        snprintf(more, sizeof(more), "  … and %zu more\n", n - FILES_SHOWN);
        chat_screen_print(s, more);
    }
}

bool chat_screen_answer(struct chat_screen *s, const json_t *answer)
{
    progress_clear(&s->progress);
    show_words(s, answer);
    show_result(s, answer);
    show_flagged(s, answer);
    show_runs(s, answer);
    show_files(s, answer);
    fflush(stdout);
    return str_eq(json_string_value(json_object_get(answer, "status")), "succeeded") &&
           !json_object_get(answer, "choices") && !json_object_get(answer, "suggestions") &&
           !s->lost_figure;
}
