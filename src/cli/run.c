/*
 * `riddle run`: SQL or Python on CSV files, in a sandbox of its own that is gone afterwards.
 *
 * The short form builds the same RunnerRequest that `--json` reads from standard input, so there is
 * one set of checks and one meaning. What Python prints goes through as it comes; the result
 * follows when the run has ended. Standard output carries results only: messages, names of figures
 * and the progress bar are on standard error.
 */

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/fdio.h"
#include "base/macros.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/figures.h"
#include "cli/progress.h"
#include "cli/prompt.h"
#include "cli/read_args.h"
#include "cli/save.h"
#include "cli/table.h"
#include "run/foreground.h"
#include "run/runner.h"

enum format { FORMAT_TABLE, FORMAT_CSV, FORMAT_JSON };

struct options {
    const char *sql;
    const char *python; /* path of the script, "-" for standard input */
    const char *timeout, *max_rows, *policy, *out, *save;
    bool svg, force;
    enum format format;
    char **files;
    size_t n_files;
    const char *data; /* directory that stands for /data */
    struct read_args *reading;
};

/* What the callbacks of a run need. */
struct screen {
    enum format format;
    bool out_tty, err_tty;
    struct progress progress;
    struct figures figures;
    struct save save; /* no directory: what is left in /workspace goes with it */
    bool lost_figure, lost_file;
    bool stopped; /* by Ctrl-C */
    bool may_ask; /* standard input is there for input() */
    const struct runner_request *request;
    struct run_stop stop;
};

static const char usage[] =
    "usage: riddle run --sql QUERY [options] [TABLE=]FILE.csv …\n"
    "       riddle run --python SCRIPT [options] [TABLE=]FILE.csv …\n"
    "       riddle run --json [--data DIR] < request.json\n"
    "\n"
    "Each file is a table named by its file name without extension, or by TABLE. QUERY and SCRIPT may be '-': standard\n"
    "input. Python finds each table as a DataFrame of that name and in `dfs`, and sql(\"SELECT …\") gives a DataFrame.\n"
    "\n"
    "  --csv            the result as CSV on standard output (what the code prints goes to standard error)\n"
    "  --json           the RunnerResponse as JSON; without --sql and --python, a RunnerRequest is read from standard input\n"
    "  --data DIR       what /data is in that request (RIDDLE_DATA_ROOT); no file elsewhere is\n"
    "                   read\n"
    "  --max-rows N     rows of the result, 1 to 1000 (200; with --sql and --csv all)\n"
    "  --timeout N      seconds, 1 to 60 (10)\n"
    "  --policy NAME    of Python: restricted or open (PYTHON_POLICY, else open)\n"
    "  --out DIR        where figures are saved (beside the script; the working directory when there is none)\n"
    "  --svg            figures as SVG too\n"
    "  --save DIR       copies the files that Python code left in its working directory to DIR\n"
    "  --force          --save replaces files that are there\n"
    "\n" READ_ARGS_USAGE "\n"
    "Exit status: 0 success, 1 the run failed, 2 the request is wrong, 124 time ran out, 130 interrupted.\n";

static const struct option long_options[] = {
    { "sql", required_argument, NULL, 's' },
    { "python", required_argument, NULL, 'p' },
    { "json", no_argument, NULL, 'j' },
    { "csv", no_argument, NULL, 'c' },
    { "max-rows", required_argument, NULL, 'm' },
    { "timeout", required_argument, NULL, 't' },
    { "policy", required_argument, NULL, 'P' },
    { "svg", no_argument, NULL, 'v' },
    { "out", required_argument, NULL, 'o' },
    { "help", no_argument, NULL, 'h' },
    { "save", required_argument, NULL, 'S' },
    { "force", no_argument, NULL, 'f' },
    { "data", required_argument, NULL, 'd' },
    READ_ARGS,
    { NULL, 0, NULL, 0 },
};

/* ---- from the command line to a request ---- */

/* Returns -1 to go on, or the exit status. */
static int parse_options(int argc, char **argv, struct options *ret)
{
    bool csv = false, json = false;
    int c;
    opterr = 0;
    optind = 0; /* 0, not 1: argv is not the one that getopt has seen, so it has to start afresh */
    while ((c = getopt_long(argc, argv, ":h", long_options, NULL)) != -1) {
        switch (c) {
        case 's':
            ret->sql = optarg;
            break;
        case 'p':
            ret->python = optarg;
            break;
        case 'd':
            ret->data = optarg;
            break;
        case 'j':
            json = true;
            break;
        case 'c':
            csv = true;
            break;
        case 'm':
            ret->max_rows = optarg;
            break;
        case 't':
            ret->timeout = optarg;
            break;
        case 'P':
            ret->policy = optarg;
            break;
        case 'v':
            ret->svg = true;
            break;
        case 'o':
            ret->out = optarg;
            break;
        case 'S':
            ret->save = optarg;
            break;
        case 'f':
            ret->force = true;
            break;
        case 'h':
            fputs(usage, stdout);
            return CLI_OK;
        default:
            if (read_args_take(ret->reading, c, optarg))
                break;
            return cli_bad_option("run", argv, long_options);
        }
    }
    ret->files = argv + optind;
    ret->n_files = (size_t)(argc - optind);
    ret->format = json ? FORMAT_JSON : csv ? FORMAT_CSV : FORMAT_TABLE;
    if (csv && json) {
        cli_complain("--csv and --json exclude each other");
        return CLI_USAGE;
    }
    if (ret->sql && ret->python) {
        cli_complain(
            "--sql and --python exclude each other: Python code can call sql(\"SELECT …\")");
        return CLI_USAGE;
    }
    if (!ret->sql && !ret->python && !json) {
        cli_complain(
            "what is there to run? Give --sql QUERY, --python SCRIPT, or --json; see 'riddle run --help'");
        return CLI_USAGE;
    }
    if (!ret->sql && !ret->python &&
        (ret->n_files > 0 || ret->max_rows || ret->timeout || ret->policy || ret->out || ret->svg ||
         ret->save)) {
        cli_complain(
            "with --json alone the whole request comes from standard input: leave out files and other options, or "
            "give --sql or --python");
        return CLI_USAGE;
    }
    if (ret->data && (ret->sql || ret->python)) {
        cli_complain("--data goes with a request on standard input; --sql and --python take files "
                     "as they are");
        return CLI_USAGE;
    }
    if ((ret->save && !ret->python) || (ret->force && !ret->save)) {
        cli_complain("%s", ret->force && !ret->save ?
                               "--force belongs to --save DIR" :
                               "--save belongs to --python: SQL leaves no files");
        return CLI_USAGE;
    }
    return -1;
}

static int set_number(json_t *request, const char *key, const char *option, const char *text,
                      long long max, struct err *err)
{
    long long n;
    if (!text)
        return 0;
    int r = str_parse_i64(text, option, 1, max, &n, err);
    return r < 0 ? r : json_object_set_new(request, key, json_integer(n));
}

/* One "[TABLE=]PATH" as a file of the request. */
static int add_file(json_t *files, const char *word, struct err *err)
{
    char table[NAME_MAX + 1], cwd[PATH_MAX] = "";
    const char *equals = strchr(word, '='), *path = word;

    /* A '=' names the table only if a name stands before it, so that "./a=b.csv" remains a path. */
    str_stem(word, table, sizeof(table));
    if (equals && !memchr(word, '/', (size_t)(equals - word))) {
        path = equals + 1;
        snprintf(table, sizeof(table), "%.*s", (int)MIN_OF(equals - word, NAME_MAX), word);
        if (!str_is_identifier(table))
            return err_set(
                err, ERR_VALIDATION,
                "invalid table name '%s': it must begin with a letter or '_' and hold only letters, digits and "
                "'_'",
                table);
    } else if (!str_is_identifier(table)) {
        return err_set(
            err, ERR_VALIDATION,
            "invalid table name '%s' (from file '%.256s'): say which name it shall have, as in "
            "mytable='%.256s'",
            table, word, word);
    }
    if (!*path)
        return err_set(err, ERR_VALIDATION, "'%.256s' names no file", word);
    if (path[0] != '/' && !getcwd(cwd, sizeof(cwd)))
        return err_errno(err, ERR_IO, errno, "the working directory cannot be used");

    for (size_t i = 0; i < json_array_size(files); i++) {
        char other[NAME_MAX + 1];
        const json_t *f = json_array_get(files, i);
        str_stem(json_string_value(json_object_get(f, "name")), other, sizeof(other));
        if (str_ieq(other, table))
            return err_set(
                err, ERR_VALIDATION,
                "duplicate table name '%s': give one of the files another name, as in %s2='%.256s'",
                table, table, path);
    }

    const char *base = strrchr(path, '/'), *dot = strrchr(base ? base : path, '.');
    auto_free char *name = NULL, *full = NULL;
    if (asprintf(&name, "%s%s", table, dot && dot[1] ? dot : "") < 0 ||
        asprintf(&full, "%s%s%s", cwd, cwd[0] ? "/" : "", path) < 0)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    json_t *file = json_pack("{s:s, s:s}", "name", name, "path", full);
    if (!file)
        return err_set(err, ERR_VALIDATION, "the name of file '%.256s' is not UTF-8: rename it",
                       path);
    return json_array_append_new(files, file) < 0 ? err_set(err, ERR_NO_MEMORY, "out of memory") :
                                                    0;
}

/* The query or the script's text. */
static int read_code(const struct options *o, struct buf *b, struct err *err)
{
    if (o->sql && !str_eq(o->sql, "-"))
        return buf_append_str(b, o->sql, err);
    if (str_eq(o->sql, "-") || str_eq(o->python, "-"))
        return fd_read_to_end(STDIN_FILENO, b, err);
    return fd_read_file(o->python, b, err);
}

static int build_request(const struct config *cfg, const struct options *o,
                         struct runner_request *ret, struct err *err)
{
    auto_buf struct buf code = BUF_INIT(RUN_BODY_MAX);
    auto_json json_t *request = json_object();
    json_t *files = json_array();

    json_object_set_new(request, "files", files);
    int r = read_code(o, &code, err);
    if (r >= 0)
        r = read_args_stdin(o->files, o->n_files, err);
    if (r < 0)
        return r;
    if (!str_is_utf8(buf_cstr(&code), code.len) || strlen(buf_cstr(&code)) != code.len)
        return err_set(err, ERR_VALIDATION, "the %s is not UTF-8 text",
                       o->sql ? "query" : "script");
    json_object_set_new(request, "query_type", json_string(o->sql ? "sql" : "python"));
    json_object_set_new(request, o->sql ? "sql" : "python_code",
                        json_stringn(buf_cstr(&code), code.len));
    json_object_set_new(request, "python_policy",
                        json_string(o->policy ? o->policy : cfg->python_policy));
    json_object_set_new(request, "svg", json_boolean(o->svg));
    /*
     * A person reads or pipes the rows: cut them at --max-rows, not at the bytes that suit a chat.
     */
    json_object_set_new(request, "max_output_bytes", json_integer(RUN_OUTPUT_MAX));
    r = set_number(request, "timeout_seconds", "--timeout", o->timeout, RUN_TIMEOUT_MAX_S, err);
    if (r >= 0)
        r = set_number(request, "max_rows", "--max-rows", o->max_rows, RUN_ROWS_MAX, err);
    for (size_t i = 0; i < o->n_files && r >= 0; i++)
        r = add_file(files, o->files[i], err);
    if (r < 0)
        return r;
    r = runner_request_from_json(cfg, RUNNER_HOST_PATHS | RUNNER_FILES_OPTIONAL, request, ret, err);
    if (r >= 0)
        ret->run.pause_ms = (int64_t)cfg->debug_pause_s * 1000;
    for (size_t i = 0; r >= 0 && i < ret->n_files; i++)
        ret->files[i].options = o->reading->text;
    return r;
}

/* ---- while it runs ---- */

static void on_progress(void *arg, const char *stage, double fraction)
{
    struct screen *s = arg;
    progress_bar(&s->progress, stage, fraction);
}

static void on_output(void *arg, bool is_stderr, const char *text, size_t len)
{
    struct screen *s = arg;
    progress_clear(&s->progress);
    if (is_stderr || s->format == FORMAT_CSV)
        cli_pass_through(STDERR_FILENO, s->err_tty, text, len);
    else
        cli_pass_through(STDOUT_FILENO, s->out_tty, text, len);
}

static void on_display(void *arg, json_t *data)
{
    struct screen *s = arg;
    struct err err = ERR_INIT;
    progress_clear(&s->progress);
    int r = figures_save(&s->figures, data, &err);
    if (r < 0) {
        cli_complain("%s", err.message);
        s->lost_figure = true;
        return;
    }
    const json_t *text = json_object_get(data, "text");
    if (r == 0 && json_is_string(text)) {
        on_output(s, false, json_string_value(text), json_string_length(text));
        on_output(s, false, "\n", 1);
    }
}

static bool on_ask(void *arg, struct lease *lease, uint32_t id, const char *what,
                   const json_t *args)
{
    const struct screen *s = arg;
    return prompt_answer(lease, s->stop.fd, id, what, args);
}

/* ---- afterwards ---- */

static void print_error(const json_t *response, bool tty)
{
    const json_t *error = json_object_get(response, "error");
    const json_t *trace = json_object_get(error, "traceback");
    const char *message = json_string_value(json_object_get(error, "message"));

    /* A traceback ends with the message, so it replaces it. */
    if (json_is_string(trace) && json_string_length(trace) > 0) {
        message = json_string_value(trace);
        fputs("riddle: the code failed\n", stderr);
    } else {
        fputs("riddle: ", stderr);
    }
    if (!message)
        message = "the run failed";
    cli_pass_through(STDERR_FILENO, tty, message, strlen(message));
    if (!str_ends(message, "\n"))
        fputc('\n', stderr);
}

/*
 * True if the result is one plain value, which is better printed as it is than as a table of one
 * cell.
 */
static bool is_plain_value(const struct run_result *result)
{
    const json_t *columns = json_object_get(result->body, "columns");
    const json_t *rows = json_object_get(result->body, "rows");
    return json_array_size(columns) == 1 && json_array_size(rows) == 1 &&
           str_eq(json_string_value(json_array_get(columns, 0)), "value") &&
           json_is_string(json_object_get(json_object_get(result->body, "value"), "text"));
}

static int append_footer(const struct runner_request *req, const json_t *response, struct buf *b,
                         struct err *err)
{
    size_t n = json_array_size(json_object_get(response, "rows"));
    if (!json_is_true(json_object_get(response, "truncated")))
        return 0;
    if ((int64_t)n < req->run.max_rows)
        return buf_printf(
            b, err, "… first %zu rows: more do not fit into %lld bytes; select fewer columns\n", n,
            (long long)req->run.max_output_bytes);
    return buf_printf(b, err, "… first %zu rows; use --max-rows for more (at most %d)\n", n,
                      RUN_ROWS_MAX);
}

static int print_result(const struct screen *s, const struct runner_request *req,
                        const struct run_result *result, const json_t *response, struct err *err)
{
    const json_t *columns = json_object_get(response, "columns"),
                 *rows = json_object_get(response, "rows");
    auto_buf struct buf out = BUF_INIT(RUNNER_RESPONSE_MAX), note = BUF_INIT(4096);
    int r;

    if (s->format == FORMAT_JSON) {
        r = json_write(response, &out, err);
        if (r >= 0)
            r = buf_append_str(&out, "\n", err);
    } else if (s->format == FORMAT_CSV) {
        r = table_render_csv(columns, rows, &out, err);
        if (r >= 0)
            r = append_footer(req, response, &note, err);
        if (note.len > 0)
            fprintf(stderr, "riddle: %s", buf_cstr(&note));
    } else if (req->run.kind == RUN_PYTHON && is_plain_value(result)) {
        const char *text = json_string_value(
            json_object_get(json_object_get(result->body, "value"), "text"));
        cli_pass_through(STDOUT_FILENO, s->out_tty, text, strlen(text));
        r = buf_append_str(&out, "\n", err);
    } else {
        struct table_style style;
        table_style_for(STDOUT_FILENO, &style);
        r = table_render(columns, json_object_get(response, "types"), rows, &style, &out, err);
        if (r >= 0)
            r = append_footer(req, response, &out, err);
    }
    return r < 0 ? r : fd_write_all(STDOUT_FILENO, buf_cstr(&out), out.len, err);
}

static int print_response(const json_t *response, struct err *err)
{
    auto_buf struct buf out = BUF_INIT(RUNNER_RESPONSE_MAX);
    int r = json_write(response, &out, err);
    if (r >= 0)
        r = buf_append_str(&out, "\n", err);
    return r < 0 ? r : fd_write_all(STDOUT_FILENO, out.data, out.len, err);
}

/* ---- one run ---- */

/*
 * Until the code runs, Ctrl-C ends this program, and what it had started ends with it. From then on
 * the signal is read here, so that the run can be stopped and still give its result.
 */
static int open_stop_fd(struct err *err)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return err_errno(err, ERR_INTERNAL, errno, "blocking signals");
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd < 0 ? err_errno(err, ERR_INTERNAL, errno, "making a signalfd") : fd;
}

static void tell_files(const struct lease *lease, const struct runner_request *req)
{
    const char *names[SANDBOX_FILES_MAX];
    for (size_t i = 0; i < req->n_files; i++)
        names[i] = req->files[i].name;
    read_args_tell(lease, names);
}

static void on_begun(void *arg, struct lease *lease)
{
    struct screen *s = arg;
    struct err err = ERR_INIT;
    progress_clear(&s->progress);
    if (s->format != FORMAT_JSON)
        tell_files(lease, s->request);
    s->stop.fd = open_stop_fd(&err);
    if (s->stop.fd < 0)
        cli_complain("%s", err.message);
}

/* The lease is left to the caller: its end takes milliseconds that nobody need wait for. */
static int execute(struct foreground *fg, const struct runner_request *req, struct screen *s,
                   struct lease **ret_lease, struct run_result *ret, struct err *err)
{
    struct run_spec spec = runner_spec(req);
    bool live = s->format != FORMAT_JSON;
    struct run_listener listener = {
        .begun = on_begun,
        .output = live ? on_output : NULL,
        .display = live ? on_display : NULL,
        .ask = s->may_ask ? on_ask : NULL,
        .progress = on_progress,
        .arg = s,
    };

    s->request = req;
    int r = foreground_execute(fg, &spec, &listener, &s->stop, ret_lease, ret, err);
    progress_clear(&s->progress);
    struct err why = ERR_INIT;
    if (r >= 0 && s->save.directory && !ret->state_lost &&
        save_files(&s->save, fg, *ret_lease, ret->body, &why) < 0) {
        cli_complain("%s", why.message);
        s->lost_file = true;
    }
    cleanup_close(&s->stop.fd);
    s->stopped = s->stop.count > 0;
    return r;
}

static int write_out(void *arg, const void *data, size_t len, struct err *err)
{
    (void)arg;
    return fd_write_all(STDOUT_FILENO, data, len, err);
}

/* All rows, as they come: no limit of rows and none of bytes. */
static int export_rows(struct foreground *fg, const struct runner_request *req, struct screen *s,
                       struct lease **ret_lease, struct err *err)
{
    struct sandbox_spec spec = { .kind = req->run.kind,
                                 .dataset_id = req->dataset_id,
                                 .files = req->files,
                                 .n_files = req->n_files,
                                 .limits = req->limits,
                                 .exports = true };
    struct run_events events = { .progress = on_progress, .arg = s };
    struct lease_export export = {
        .sql = req->run.code, .format = "csv", .plain = true, .timeout_ms = req->run.timeout_ms
    };
    int r = foreground_acquire(fg, &spec, &events, ret_lease, err);
    s->request = req;
    if (r >= 0) {
        on_begun(s, *ret_lease);
        r = foreground_export(fg, *ret_lease, &export, write_out, NULL, &s->stop, err);
    }
    progress_clear(&s->progress);
    cleanup_close(&s->stop.fd);
    s->stopped = s->stop.count > 0;
    return r;
}

static int exit_status(const struct screen *s, const json_t *response)
{
    const char *verdict = json_string_value(json_object_get(response, "verdict"));
    if (runner_succeeded(response))
        return CLI_OK;
    if (str_eq(verdict, verdict_name(VERDICT_TIMEOUT)))
        return CLI_TIMEOUT;
    if (s->stopped && str_eq(verdict, verdict_name(VERDICT_KILLED)))
        return CLI_INTERRUPTED;
    return CLI_FAILED;
}

static int run_short_form(const struct config *cfg, const struct options *o, struct screen *s)
{
    struct err err = ERR_INIT;
    struct runner_request req;
    struct foreground *fg = NULL;
    struct lease *lease = NULL;
    struct run_result result = { .verdict = VERDICT_OK };
    auto_json json_t *response = NULL;
    int status;

    if (build_request(cfg, o, &req, &err) < 0) {
        if (o->format != FORMAT_JSON) {
            cli_complain("%s", err.message);
        } else {
            response = runner_failure(&err);
            (void)print_response(response, &err);
        }
        return CLI_USAGE;
    }
    int r = o->out ? fd_mkdir_p(o->out, 0755, &err) : 0;
    struct executor_options once = { .one_shot = true, .kind = req.run.kind, .code = req.run.code };
    if (r >= 0)
        r = foreground_open(cfg, &once, &fg, &err);
    bool whole = o->format == FORMAT_CSV && o->sql && !o->max_rows;
    if (r >= 0)
        r = whole ? export_rows(fg, &req, s, &lease, &err) :
                    execute(fg, &req, s, &lease, &result, &err);
    if (whole) {
        status = r >= 0                  ? CLI_OK :
                 s->stopped              ? CLI_INTERRUPTED :
                 err.code == ERR_TIMEOUT ? CLI_TIMEOUT :
                                           CLI_FAILED;
        if (r < 0)
            cli_complain("%s", err.message);
    } else if (r < 0) {
        response = runner_failure(&err);
        status = exit_status(s, response);
        if (s->format == FORMAT_JSON)
            (void)print_response(response, &err);
        else
            print_error(response, s->err_tty);
    } else {
        response = runner_response(&req, &result);
        status = exit_status(s, response);
        if (s->format != FORMAT_JSON) {
            if (result.out_truncated || result.errout_truncated)
                cli_complain("the output was cut at %lld bytes",
                             (long long)req.run.max_output_bytes);
        }
        if (status != CLI_OK && s->format != FORMAT_JSON)
            print_error(response, s->err_tty);
        else if (print_result(s, &req, &result, response, &err) < 0) {
            cli_complain("%s", err.message);
            status = CLI_FAILED;
        }
        if (status == CLI_OK && (s->lost_figure || s->lost_file))
            status = CLI_FAILED;
        run_result_finish(&result);
    }
    cli_end_output();
    lease_release(lease);
    foreground_close(fg);
    runner_request_finish(&req);
    return status;
}

/* The code or a file is standard input: it is not there for input(). */
static bool reads_stdin(const struct options *o)
{
    for (size_t i = 0; i < o->n_files; i++)
        if (str_eq(o->files[i], "-") || str_ends(o->files[i], "=-"))
            return true;
    return str_eq(o->python, "-");
}

/* Figures go beside the script, under its name. */
static void name_figures(const struct options *o, char *directory, size_t n_directory, char *stem,
                         size_t n_stem)
{
    bool script = o->python && !str_eq(o->python, "-");
    snprintf(stem, n_stem, "figure");
    snprintf(directory, n_directory, "%s", o->out ? o->out : "");
    if (!script)
        return;
    str_stem(o->python, stem, n_stem);
    const char *slash = strrchr(o->python, '/');
    if (!o->out && slash)
        snprintf(directory, n_directory, "%.*s", slash == o->python ? 1 : (int)(slash - o->python),
                 o->python);
}

int cli_run(const struct cli *cli, int argc, char **argv)
{
    auto_read_args struct read_args reading = { 0 };
    struct options o = { .reading = &reading };
    struct config cfg;
    char directory[PATH_MAX], stem[NAME_MAX + 1];

    (void)cli;
    int status = parse_options(argc, argv, &o);
    if (status >= 0)
        return status;
    status = cli_load_config(&cfg);
    if (status != CLI_OK)
        return status;
    if (read_args_finish(o.reading, &(struct err)ERR_INIT) < 0) {
        cli_complain("an option is not UTF-8 text");
        return CLI_USAGE;
    }
    if (!o.sql && !o.python) {
        if (isatty(STDIN_FILENO))
            cli_complain("reading a RunnerRequest from the terminal; end it with Ctrl-D");
        if (o.data)
            cfg.data_root = o.data;
        status = runner_run_once(&cfg, RUNNER_IN_DATA_ROOT, STDIN_FILENO, STDOUT_FILENO);
    } else {
        name_figures(&o, directory, sizeof(directory), stem, sizeof(stem));
        struct screen screen = {
            .format = o.format,
            .out_tty = isatty(STDOUT_FILENO),
            .err_tty = isatty(STDERR_FILENO),
            .figures = { .directory = directory, .stem = stem },
            .stop = { .fd = -1 },
            .save = { .directory = o.save, .force = o.force, .max_bytes = cfg.workspace_bytes },
        };
        screen.may_ask = o.python && !reads_stdin(&o);
        progress_init(&screen.progress);
        status = run_short_form(&cfg, &o, &screen);
    }
    config_finish(&cfg);
    return status;
}
