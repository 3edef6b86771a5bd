/*
 * `riddle ask`: a question in English about files, answered without a model, a server or a key. The
 * planner (src/nl) makes a QueryPlan of it, the plan's SQL runs in a sandbox; what was understood
 * and what was run is shown with the answer.
 */

#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/draw.h"
#include "agent/reading.h"
#include "agent/summary.h"
#include "base/fdio.h"
#include "base/macros.h"
#include "base/str.h"
#include "cli/ask_chart.h"
#include "cli/ask_data.h"
#include "cli/cli.h"
#include "cli/read_args.h"
#include "cli/table.h"
#include "plan/compile.h"
#include "run/runner.h"

#define BATCH_MAX_BYTES (256u << 20)
#define BATCH_MAX_LINES 200000

static const char usage[] =
    "usage: riddle ask \"QUESTION\" [options] [TABLE=]FILE …\n"
    "       riddle ask --batch QUESTIONS.jsonl\n"
    "\n"
    "Answers a question about tables without a model. When two readings are close it asks which is meant; when it has none it\n"
    "says so and offers questions that work on this data.\n"
    "\n"
    "  --sql            show what would be run, and don't run it\n"
    "  --json           everything as JSON: status, reading, plan, sql, columns, rows, chart, choices, suggestions\n"
    "  --chart FILE     draw the answer as well, as FILE.png or FILE.svg; --force replaces a file that is there\n"
    "  --explain        what each word became, the rule that fired, every reading with its score\n"
    "  --batch FILE     one {\"id\", \"question\", \"files\": [path, …],\n"
    "                   \"follows\"?: id} a line;\n"
    "                   answers in the same order ('-': standard input)\n"
    "  --candidates     with --batch: every reading with its features and rows, for scripts/train-nl\n"
    "  --evidence       with --batch: what the confidence in the best reading is made of,\n"
    "                   and its rows, for the same\n"
    "\n" READ_ARGS_USAGE "\n"
    "Exit status: 0 answered, 1 not answered or failed, 2 the request is wrong.\n";

static const struct option long_options[] = {
    { "sql", no_argument, NULL, 's' },
    { "json", no_argument, NULL, 'j' },
    { "batch", required_argument, NULL, 'b' },
    { "candidates", no_argument, NULL, 'c' },
    { "chart", required_argument, NULL, 'C' },
    { "force", no_argument, NULL, 'f' },
    { "explain", no_argument, NULL, 'e' },
    { "evidence", no_argument, NULL, 'E' },
    READ_ARGS,
    { "help", no_argument, NULL, 'h' },
    { NULL, 0, NULL, 0 },
};

struct options {
    bool sql_only, json, candidates, evidence, force, explain;
    const char *batch, *chart;
    struct read_args *reading;
};

/* ---- one question ---- */

/* The answer as one object; new reference. Failures become status "error". */
static json_t *answer_json(struct ask_data *d, const char *question,
                           const struct nl_context *before, bool run, bool evidence)
{
    struct err err = ERR_INIT;
    struct reading *reading = NULL;
    const char *sql;
    int64_t max_rows;
    int r = reading_begin(d->catalog, question, before, run, &reading, &err);
    if (r < 0)
        return json_pack("{s:s, s:o}", "status", "error", "error", json_error(&err));
    while ((sql = reading_next_sql(reading, &max_rows))) {
        auto_json json_t *body = NULL;
        err = (struct err)ERR_INIT;
        (void)ask_data_run(d, sql, max_rows, &body, &err);
        reading_feed(reading, body, &err);
    }
    json_t *answer = json_copy((json_t *)(uintptr_t)reading_answer(reading));
    if (evidence) {
        json_t *best = reading_evidence(reading);
        if (best)
            json_object_set_new(answer, "best", best);
    }
    reading_destroy(reading);
    return answer;
}

/* How the question was read, as "explain" of its answer. */
static void add_explanation(struct ask_data *d, const char *question, json_t *answer)
{
    struct err err = ERR_INIT;
    auto_arena struct arena a;
    json_t *how = NULL, *c;
    size_t i;
    arena_init(&a, NL_ARENA_BYTES);
    if (nl_explain(catalog_schema(d->catalog), question, &a, &how, &err) < 0)
        return;
    json_array_foreach(json_object_get(how, "candidates"), i, c) {
        json_object_del(c, "plan");
        json_object_del(c, "features");
        json_object_del(c, "expects_one");
    }
    json_object_set_new(answer, "explain", how);
}

/* ---- for people ---- */

/* Names of columns and values come from the data: what a terminal would obey is shown instead. */
static int print_visible(const char *before, const char *text, const char *after, struct err *err)
{
    auto_buf struct buf b = BUF_INIT(1u << 20);
    int r = table_append_visible(&b, text, strlen(text), true, err);
    if (r >= 0)
        printf("%s%s%s", before, buf_cstr(&b), after);
    return r;
}

static int print_result(const json_t *answer, struct err *err)
{
    struct table_style style;
    auto_buf struct buf sentence = BUF_INIT(1u << 20), table = BUF_INIT(RUNNER_RESPONSE_MAX);
    const json_t *rows = json_object_get(answer, "rows");
    table_style_for(STDOUT_FILENO, &style);
    int r = summary_write(answer, "plan", NULL, &sentence, err);
    if (r >= 0)
        r = summary_write_ties(json_object_get(answer, "ties"), json_array_size(rows), &sentence,
                               err);
    if (r >= 0)
        r = print_visible("", buf_cstr(&sentence), "\n\n", err);
    if (r >= 0 && json_array_size(rows) > 0)
        r = table_render(json_object_get(answer, "columns"), json_object_get(answer, "types"), rows,
                         &style, &table, err);
    if (r >= 0 && table.len > 0)
        printf("%s\n", buf_cstr(&table));
    return r;
}

static void print_explanation(const json_t *how, struct err *err)
{
    size_t i;
    json_t *w;
    json_array_foreach(json_object_get(how, "words"), i, w) {
        bool left = json_is_false(json_object_get(w, "used"));
        (void)print_visible("  ", json_string_value(json_object_get(w, "text")), ": ", err);
        (void)print_visible("", json_string_value(json_object_get(w, "is")),
                            left ? ", left over\n" : "\n", err);
    }
    const char *rule = json_string_value(json_object_get(how, "rule"));
    bool partly = rule && json_is_false(json_object_get(how, "complete"));
    printf("Rule: %s%s\n", rule ? rule : "none", partly ? " (not all words are understood)" : "");
    json_array_foreach(json_object_get(how, "candidates"), i, w) {
        printf("  %6.2f  ", json_real_value(json_object_get(w, "score")));
        (void)print_visible("", json_string_value(json_object_get(w, "reading")), "\n", err);
    }
}

/* What was in the way of an answer. */
static void print_gaps(const json_t *answer, struct err *err)
{
    const char *reason = json_string_value(json_object_get(answer, "reason"));
    const json_t *words = json_object_get(answer, "not_understood");
    size_t i;
    json_t *v;
    if (reason)
        printf("This asks for %s, which no query over tables gives.\n", reason);
    else if (json_array_size(words) > 0)
        fputs("Not understood here:", stdout);
    json_array_foreach(words, i, v)
        if (!reason)
            (void)print_visible(i ? ", " : " ", json_string_value(v), "", err);
    if (!reason && json_array_size(words) > 0)
        puts(".");
}

static int print_answer(const json_t *answer, const struct options *o)
{
    const char *status = json_string_value(json_object_get(answer, "status"));
    const char *sql = json_string_value(json_object_get(answer, "sql"));
    size_t i;
    json_t *v;
    struct err err = ERR_INIT;
    auto_buf struct buf out = BUF_INIT(RUNNER_RESPONSE_MAX);

    if (o->json) {
        if (json_write(answer, &out, &err) < 0 || buf_append_str(&out, "\n", &err) < 0 ||
            fd_write_all(STDOUT_FILENO, out.data, out.len, &err) < 0)
            cli_complain("%s", err.message);
        return str_eq(status, "answered") ? CLI_OK : CLI_FAILED;
    }
    if (json_object_get(answer, "explain"))
        print_explanation(json_object_get(answer, "explain"), &err);
    if (str_eq(status, "error")) {
        cli_complain(
            "%s", json_string_value(json_object_get(json_object_get(answer, "error"), "message")));
        return CLI_FAILED;
    }
    if (str_eq(status, "declined")) {
        print_gaps(answer, &err);
        puts("I can't read this one. Here is what I can:");
        json_array_foreach(json_object_get(answer, "suggestions"), i, v)
            (void)print_visible("  ", json_string_value(v), "\n", &err);
        return CLI_FAILED;
    }
    if (str_eq(status, "asked")) {
        print_gaps(answer, &err);
        const json_t *choices = json_object_get(answer, "choices");
        puts(json_array_size(choices) == 1 ? "Do you mean:" : "Which do you mean?");
        json_array_foreach(choices, i, v) {
            printf("  %zu. ", i + 1);
            (void)print_visible("", json_string_value(json_object_get(v, "reading")), "\n", &err);
        }
        return CLI_FAILED;
    }
    int r = o->sql_only ? 0 : print_result(answer, &err);
    if (r >= 0)
        r = print_visible("Understood: ", json_string_value(json_object_get(answer, "reading")),
                          "\n\n", &err);
    if (r >= 0)
        r = print_visible("", sql, "\n", &err);
    if (r < 0)
        cli_complain("%s", err.message);
    return r < 0 ? CLI_FAILED : CLI_OK;
}

static int write_chart(struct foreground *fg, const struct config *cfg, const struct options *o,
                       const json_t *answer)
{
    struct err err = ERR_INIT;
    fflush(stdout);
    if (ask_chart_write(fg, cfg, answer, o->chart, o->force, &err) < 0) {
        cli_complain("%s", err.message);
        return CLI_FAILED;
    }
    fprintf(stderr, "chart: %s\n", o->chart);
    return CLI_OK;
}

static int ask_one(const struct config *cfg, struct options *o, const char *question, char **files,
                   size_t n_files)
{
    struct err err = ERR_INIT;
    struct foreground *fg = NULL;
    struct ask_data data;
    int status = CLI_FAILED;
    struct executor_options once = { .one_shot = true,
                                     .kind = RUN_SQL,
                                     .code = o->chart ? draw_code() : "" };
    int r = foreground_open(cfg, &once, &fg, &err);
    if (r >= 0)
        r = read_args_finish(o->reading, &err);
    if (r >= 0)
        r = read_args_stdin(files, n_files, &err);
    if (r >= 0)
        r = ask_data_open(fg, cfg, (const char *const *)files, n_files, o->reading->text, NULL,
                          &data, &err);
    if (r >= 0) {
        if (!o->json)
            read_args_tell(data.lease, (const char *const *)files);
        auto_json json_t *answer = answer_json(&data, question, NULL, !o->sql_only, false);
        if (o->explain)
            add_explanation(&data, question, answer);
        status = print_answer(answer, o);
        if (o->chart && status == CLI_OK)
            status = write_chart(fg, cfg, o, answer);
        cli_end_output();
        ask_data_finish(&data);
    } else {
        cli_complain("%s", err.message);
        status = err.code == ERR_VALIDATION || err.code == ERR_NOT_FOUND ? CLI_USAGE : CLI_FAILED;
    }
    foreground_close(fg);
    return status;
}

/* ---- many ---- */

struct line {
    json_t *request;
    char *files; /* the list as text: what lines are grouped by */
    json_t *answer;
};

/* Every reading with what it gives, so that the trainer can tell the right ones. */
static json_t *candidates_json(struct ask_data *d, const char *question)
{
    struct err err = ERR_INIT;
    auto_arena struct arena a;
    json_t *list = NULL, *c;
    size_t i;
    arena_init(&a, NL_ARENA_BYTES);
    if (nl_candidates(catalog_schema(d->catalog), question, &a, &list, &err) < 0)
        return json_array();
    json_array_foreach(list, i, c) {
        auto_buf struct buf sql = BUF_INIT(PLAN_SQL_MAX_BYTES);
        auto_json json_t *body = NULL;
        int r = catalog_compile(d->catalog, json_object_get(c, "plan"), &sql, &err);
        if (r >= 0)
            r = ask_data_run(d, buf_cstr(&sql), READING_ROWS_MAX, &body, &err);
        json_object_set_new(c, "sql", json_string(buf_cstr(&sql)));
        if (r >= 0) {
            json_object_set(c, "rows", json_object_get(body, "rows"));
            nl_result_features(json_is_true(json_object_get(c, "expects_one")),
                               json_object_get(body, "rows"), json_object_get(c, "features"));
        } else {
            json_object_set_new(c, "error", json_string(err.message));
        }
        json_object_del(c, "plan");
    }
    return list;
}

/* The answered line that this one follows, as context. False: it follows none. */
static bool find_before(const struct line *lines, size_t n, const struct line *l,
                        struct nl_context *ret)
{
    const json_t *id = json_object_get(l->request, "follows");
    for (size_t i = 0; id && i < n; i++)
        if (lines[i].answer && json_equal(json_object_get(lines[i].request, "id"), id)) {
            const json_t *meant = json_object_get(lines[i].answer, "meant");
            if (!meant)
                meant = json_object_get(lines[i].request, "question");
            *ret = (struct nl_context){
                .previous_plan = json_object_get(lines[i].answer, "plan"),
                .previous_question = json_string_value(meant),
            };
            return ret->previous_plan != NULL;
        }
    return false;
}

static void answer_group(struct foreground *fg, const struct config *cfg, const struct options *o,
                         struct line *lines, size_t n_lines, const size_t *which, size_t n)
{
    struct err err = ERR_INIT;
    struct ask_data data;
    const char *files[SANDBOX_FILES_MAX];
    size_t n_files = 0, i;
    json_t *v;
    json_array_foreach(json_object_get(lines[which[0]].request, "files"), i, v)
        if (n_files < SANDBOX_FILES_MAX && json_is_string(v))
            files[n_files++] = json_string_value(v);
    int r = ask_data_open(fg, cfg, files, n_files, NULL, NULL, &data, &err);
    for (i = 0; i < n; i++) {
        struct line *l = &lines[which[i]];
        const char *question = json_string_value(json_object_get(l->request, "question"));
        struct nl_context before;
        bool follows = find_before(lines, n_lines, l, &before);
        if (r >= 0 && question) {
            l->answer = o->candidates ?
                            json_pack("{s:o}", "candidates", candidates_json(&data, question)) :
                            answer_json(&data, question, follows ? &before : NULL, !o->sql_only,
                                        o->evidence);
            if (o->explain)
                add_explanation(&data, question, l->answer);
        } else {
            if (r >= 0)
                (void)err_set(&err, ERR_VALIDATION, "the line has no question");
            l->answer = json_pack("{s:s, s:o}", "status", "error", "error", json_error(&err));
        }
        json_object_set(l->answer, "id", json_object_get(l->request, "id"));
    }
    if (r >= 0)
        ask_data_finish(&data);
}

static int read_lines(const char *path, struct line **ret, size_t *ret_n, struct err *err)
{
    auto_buf struct buf text = BUF_INIT(BATCH_MAX_BYTES);
    int r = str_eq(path, "-") ? fd_read_to_end(STDIN_FILENO, &text, err) :
                                fd_read_file(path, &text, err);
    size_t n = 0, number = 0;
    struct line *lines = calloc(BATCH_MAX_LINES, sizeof(*lines));
    *ret = lines;
    *ret_n = 0;
    if (!lines)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    for (const char *p = buf_cstr(&text); r >= 0 && *p;) {
        size_t len = strcspn(p, "\n");
        number++;
        if (len > 0 && strspn(p, " \t\r") < len) {
            if (n == BATCH_MAX_LINES)
                return err_set(err, ERR_TOO_LARGE, "more than %d lines", BATCH_MAX_LINES);
            r = json_parse(p, len, &lines[n].request, err);
            if (r < 0)
                return err_wrap(err, "line %zu", number);
            lines[n].files = json_to_str(json_object_get(lines[n].request, "files"));
            *ret_n = ++n;
        }
        p += len + (p[len] == '\n');
    }
    return r;
}

static int ask_batch(const struct config *cfg, const struct options *o)
{
    struct err err = ERR_INIT;
    struct foreground *fg = NULL;
    struct line *lines = NULL;
    size_t n = 0, *which = NULL;
    int r = read_lines(o->batch, &lines, &n, &err);
    if (r >= 0)
        r = foreground_open(cfg, NULL, &fg, &err);
    which = calloc(n + 1, sizeof(*which));
    if (r >= 0 && !which)
        r = err_set(&err, ERR_NO_MEMORY, "out of memory");
    /*
     * Questions about the same files are asked together, however the lines are mixed; the output
     * keeps their order.
     */
    for (size_t i = 0, printed = 0; i < n && r >= 0; i++) {
        size_t k = 0;
        for (size_t j = i; j < n && !lines[i].answer; j++)
            if (!lines[j].answer && str_eq(lines[j].files, lines[i].files))
                which[k++] = j;
        if (k > 0)
            answer_group(fg, cfg, o, lines, n, which, k);
        for (; printed < n && lines[printed].answer && r >= 0; printed++) {
            auto_buf struct buf out = BUF_INIT(RUNNER_RESPONSE_MAX);
            r = json_write(lines[printed].answer, &out, &err);
            if (r >= 0)
                r = buf_append_str(&out, "\n", &err);
            if (r >= 0)
                r = fd_write_all(STDOUT_FILENO, out.data, out.len, &err);
        }
    }
    for (size_t i = 0; i < n; i++) {
        json_decref(lines[i].request);
        json_decref(lines[i].answer);
        free(lines[i].files);
    }
    free(lines);
    free(which);
    foreground_close(fg);
    if (r < 0)
        cli_complain("%s", err.message);
    return r < 0 ? (err.code == ERR_INVALID_JSON ? CLI_USAGE : CLI_FAILED) : CLI_OK;
}

int cli_ask(const struct cli *cli, int argc, char **argv)
{
    auto_read_args struct read_args reading = { 0 };
    struct options o = { .reading = &reading };
    struct config cfg;
    int c;
    (void)cli;
    opterr = 0;
    optind = 0;
    while ((c = getopt_long(argc, argv, ":h", long_options, NULL)) != -1) {
        switch (c) {
        case 's':
            o.sql_only = true;
            break;
        case 'j':
            o.json = true;
            break;
        case 'b':
            o.batch = optarg;
            break;
        case 'c':
            o.candidates = true;
            break;
        case 'E':
            o.evidence = true;
            break;
        case 'e':
            o.explain = true;
            break;
        case 'C':
            o.chart = optarg;
            break;
        case 'f':
            o.force = true;
            break;
        case 'h':
            fputs(usage, stdout);
            return CLI_OK;
        default:
            if (read_args_take(o.reading, c, optarg))
                break;
            return cli_bad_option("ask", argv, long_options);
        }
    }
    int left = argc - optind;
    if (o.batch ? left > 0 : left < 2) {
        cli_complain(
            o.batch ?
                "with --batch questions and files come from its lines" :
                "a question and the files that it is about are needed; see 'riddle ask --help'");
        return CLI_USAGE;
    }
    struct err err = ERR_INIT;
    if (o.chart && (o.batch || o.sql_only)) {
        cli_complain("--chart draws one answer, which --%s does not give",
                     o.batch ? "batch" : "sql");
        return CLI_USAGE;
    }
    if (o.chart && ask_chart_check(o.chart, o.force, &err) < 0) {
        cli_complain("%s", err.message);
        return CLI_USAGE;
    }
    int status = cli_load_config(&cfg);
    if (status != CLI_OK)
        return status;
    status = o.batch ? ask_batch(&cfg, &o) :
                       ask_one(&cfg, &o, argv[optind], argv + optind + 1, (size_t)left - 1);
    config_finish(&cfg);
    return status;
}
