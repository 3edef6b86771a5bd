/* `riddle sandbox`: sandboxes of a running server, as agents use them (docs/sandbox.md). */

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/buf.h"
#include "base/clock.h"
#include "base/fdio.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/macros.h"
#include "base/str.h"
#include "cli/branches.h"
#include "cli/cli.h"
#include "cli/remote.h"
#include "cli/table.h"
#include "sandbox/workspace_path.h"

#define PATH_MAX_BYTES 8192u
#define FILE_MAX_BYTES (1u << 30) /* no sandbox has more memory */

static const char usage[] =
    "usage: riddle sandbox create [--memory MB] [--timeout SECONDS] [--policy restricted|open]\n"
    "       riddle sandbox list\n"
    "       riddle sandbox exec [--timeout SECONDS] ID CODE|-|--file FILE\n"
    "       riddle sandbox exec --quick [options of create] CODE|-|--file FILE\n"
    "       riddle sandbox debug [--timeout SECONDS] ID [FILE]\n"
    "       riddle sandbox files ID\n"
    "       riddle sandbox files ID get [--force] PATH [FILE]\n"
    "       riddle sandbox files ID put FILE [NAME]\n"
    "       riddle sandbox fork|checkpoint|checkpoints [--name NAME] ID\n"
    "       riddle sandbox rollback ID [CHECKPOINT]\n"
    "       riddle sandbox rm ID...\n\n"
    "Sandboxes of a running server: docs/sandbox.md. create prints the id of a new one, list\n"
    "shows yours and when each is deleted unless it is used. exec runs Python in one and prints\n"
    "what the code prints, then its result; '-' is standard input. Variables stay for the next\n"
    "exec, unless --quick takes a sandbox that ends with the code.\n"
    "debug offers FILE to an editor, or else what others execute next, and prints what goes into\n"
    "its launch.json: docs/debugger.md.\n"
    "files lists /workspace; get writes to FILE (PATH's last name when missing, '-' is standard\n"
    "output), put copies FILE there, under its own name or NAME.\n\n" BRANCHES_USAGE "\n"
    "  --memory MB   the most memory of the sandbox; 256 when missing\n"
    "  --timeout SECONDS  the most time of an execution; 30 when missing\n"
    "  --policy P    open: anything inside the jail, such as open() and every module;\n"
    "                restricted (when missing): imports and calls are checked\n"
    "  --file FILE   the code is in FILE\n"
    "  --name NAME   what the checkpoint is called\n"
    "  --force       get replaces a file that is there\n"
    "  --json        exec, files and list: the server's answer as it is\n" REMOTE_USAGE
    "Exit status: 0 it was done (and the code succeeded), 1 it was not, 2 the request is wrong.\n";

static const struct option options[] = { { "server", required_argument, NULL, 's' },
                                         { "memory", required_argument, NULL, 'm' },
                                         { "timeout", required_argument, NULL, 't' },
                                         { "policy", required_argument, NULL, 'p' },
                                         { "file", required_argument, NULL, 'f' },
                                         { "quick", no_argument, NULL, 'q' },
                                         { "name", required_argument, NULL, 'n' },
                                         { "force", no_argument, NULL, 'F' },
                                         { "json", no_argument, NULL, 'j' },
                                         { "help", no_argument, NULL, 'h' },
                                         { NULL, 0, NULL, 0 } };

struct request {
    struct remote to;
    const char *file, *policy, *name, *action;
    long long memory_mb, seconds; /* 0: not given */
    bool quick, force, json;
    char **words; /* after the action */
    int n;
};

static int fail(const struct err *err)
{
    cli_complain("%s", err->message);
    return CLI_FAILED;
}

static int misused(void)
{
    fputs(usage, stderr);
    return CLI_USAGE;
}

static bool check_id(const char *id)
{
    if (remote_is_id(id))
        return true;
    cli_complain("'%s' is no id of a sandbox; 'riddle sandbox create' prints one", id);
    return false;
}

/* "/sandbox/ID", then `tail`, then a path of /workspace unless it is NULL. */
static int build_path(struct buf *b, const char *id, const char *tail, const char *file,
                      struct err *err)
{
    int r = buf_append_str(b, "/sandbox/", err);
    if (r == 0)
        r = remote_append_coded(b, id, false, err);
    if (r == 0)
        r = buf_append_str(b, tail, err);
    if (r == 0 && file)
        r = remote_append_coded(b, file, true, err);
    return r;
}

static int print_json(const json_t *answer, struct err *err)
{
    auto_buf struct buf out = BUF_INIT(2 * REMOTE_ANSWER_MAX_BYTES);
    int r = json_write(answer, &out, err);
    if (r == 0)
        r = buf_append_str(&out, "\n", err);
    return r < 0 ? r : fd_write_all(STDOUT_FILENO, buf_cstr(&out), out.len, err);
}

/* ---- create, rm ---- */

static json_t *terms_of(const struct request *q)
{
    json_t *terms = json_object();
    if (q->memory_mb)
        json_object_set_new(terms, "max_memory_mb", json_integer(q->memory_mb));
    if (q->seconds)
        json_object_set_new(terms, "max_execution_time", json_integer(q->seconds));
    if (q->policy)
        json_object_set_new(terms, "policy", json_text(q->policy, strlen(q->policy)));
    return terms;
}

static int create(const struct request *q)
{
    struct err err = ERR_INIT;
    auto_json json_t *terms = terms_of(q), *answer = NULL;
    if (q->n != 0)
        return misused();
    if (remote_call_json(&q->to, "POST", "/sandbox/create", terms, &answer, &err) < 0)
        return fail(&err);
    puts(remote_text(answer, "sandbox_id"));
    return CLI_OK;
}

static int remove_all(const struct request *q)
{
    int status = CLI_OK;
    if (q->n == 0)
        return misused();
    for (int i = 0; i < q->n; i++)
        if (!check_id(q->words[i]))
            return CLI_USAGE;
    for (int i = 0; i < q->n; i++) {
        struct err err = ERR_INIT;
        auto_json json_t *answer = NULL;
        auto_buf struct buf path = BUF_INIT(PATH_MAX_BYTES);
        int r = build_path(&path, q->words[i], "", NULL, &err);
        if (r == 0)
            r = remote_call_json(&q->to, "DELETE", buf_cstr(&path), NULL, &answer, &err);
        if (r < 0)
            status = fail(&err);
    }
    return status;
}

/* ---- exec ---- */

static void print_text(int fd, const char *text)
{
    cli_pass_through(fd, isatty(fd), text, strlen(text));
}

/* Output first, then the result: text as it is, everything else as JSON. */
static int show_answer(const json_t *answer)
{
    const json_t *result = json_object_get(answer, "result");
    const json_t *details = json_object_get(answer, "error_details");
    const char *error = remote_text(answer, "error"), *trace = remote_text(details, "traceback");
    print_text(STDOUT_FILENO, remote_text(answer, "stdout"));
    print_text(STDERR_FILENO, remote_text(answer, "stderr"));
    if (result && !json_is_null(result)) {
        auto_free char *text = json_is_string(result) ? strdup(json_string_value(result)) :
                                                        json_to_str(result);
        print_text(STDOUT_FILENO, text ? text : "");
        print_text(STDOUT_FILENO, "\n");
    }
    if (json_is_true(json_object_get(answer, "stdout_truncated")) ||
        json_is_true(json_object_get(answer, "stderr_truncated")))
        cli_complain("the code printed more than is kept; the output is cut");
    if (json_is_true(json_object_get(answer, "state_lost"))) {
        print_text(STDERR_FILENO, "riddle: variables of earlier executions are gone: ");
        print_text(STDERR_FILENO, remote_text(answer, "state_lost_reason"));
        print_text(STDERR_FILENO, "\n");
    }
    if (*trace) {
        print_text(STDERR_FILENO, trace);
        print_text(STDERR_FILENO, str_ends(trace, "\n") ? "" : "\n");
    }
    if (*error) {
        print_text(STDERR_FILENO, "riddle: ");
        print_text(STDERR_FILENO, error);
        print_text(STDERR_FILENO, "\n");
    }
    if (str_eq(remote_text(details, "type"), "PYTHON_POLICY_VIOLATION"))
        cli_complain("code of a sandbox is restricted unless it was made with --policy open");
    return str_eq(remote_text(answer, "status"), "completed") ? CLI_OK : CLI_FAILED;
}

/* The code: of a word, of standard input or of --file. */
static int read_code(const struct request *q, const char *word, struct buf *code, struct err *err)
{
    int r = q->file           ? fd_read_file(q->file, code, err) :
            str_eq(word, "-") ? fd_read_to_end(STDIN_FILENO, code, err) :
                                buf_append_str(code, word, err);
    if (r == -ERR_TOO_LARGE)
        return err_set(err, ERR_TOO_LARGE, "the code has more than %u bytes", CODE_MAX_BYTES);
    if (r == 0 && (!str_is_utf8(buf_cstr(code), code->len) || strlen(buf_cstr(code)) < code->len))
        return err_set(err, ERR_VALIDATION, "the code is no UTF-8 text");
    return r;
}

static int exec_code(const struct request *q)
{
    struct err err = ERR_INIT;
    auto_buf struct buf code = BUF_INIT(CODE_MAX_BYTES), path = BUF_INIT(PATH_MAX_BYTES);
    auto_json json_t *answer = NULL;
    int before = q->quick ? 0 : 1;
    if (q->n != before + (q->file ? 0 : 1)) {
        cli_complain(q->quick ? "'sandbox exec --quick' takes CODE, '-' or --file FILE" :
                                "'sandbox exec' takes the ID of a sandbox and CODE, '-' or --file "
                                "FILE; --quick needs no ID");
        return CLI_USAGE;
    }
    if (!q->quick && !check_id(q->words[0]))
        return CLI_USAGE;
    if (!q->quick && (q->memory_mb || q->policy)) {
        cli_complain("--%s is for 'create' and for 'exec --quick'",
                     q->policy ? "policy" : "memory");
        return CLI_USAGE;
    }
    int r = read_code(q, q->file ? NULL : q->words[before], &code, &err);
    if (r == 0)
        r = q->quick ? buf_append_str(&path, "/sandbox/agent/quick-execute", &err) :
                       build_path(&path, q->words[0], "/execute", NULL, &err);
    if (r < 0)
        return fail(&err);
    auto_json json_t *body = json_pack("{s:s}", "code", buf_cstr(&code));
    if (q->quick)
        json_object_set_new(body, "config", terms_of(q));
    else if (q->seconds)
        json_object_set_new(body, "timeout_seconds", json_integer(q->seconds));
    r = remote_call_json(&q->to, "POST", buf_cstr(&path), body, &answer, &err);
    if (r == 0 && q->json)
        r = print_json(answer, &err);
    if (r < 0)
        return fail(&err);
    if (!q->json)
        return show_answer(answer);
    return str_eq(remote_text(answer, "status"), "completed") ? CLI_OK : CLI_FAILED;
}

/* ---- debug ---- */

static int offer_to_editor(const struct request *q)
{
    struct err err = ERR_INIT;
    auto_buf struct buf code = BUF_INIT(CODE_MAX_BYTES), path = BUF_INIT(PATH_MAX_BYTES);
    auto_json json_t *answer = NULL;
    if (q->n < 1 || q->n > 2)
        return misused();
    if (!check_id(q->words[0]))
        return CLI_USAGE;
    bool has_file = q->n == 2;
    auto_free char *file = has_file ? realpath(q->words[1], NULL) : NULL;
    struct request from_file = *q;
    from_file.file = has_file ? q->words[1] : NULL;
    int r = has_file ? read_code(&from_file, NULL, &code, &err) : 0;
    if (r == 0)
        r = build_path(&path, q->words[0], "/dap", NULL, &err);
    if (r < 0)
        return fail(&err);
    auto_json json_t *body = has_file ? json_pack("{s:s}", "code", buf_cstr(&code)) : json_object();
    if (file)
        json_object_set_new(body, "path", json_text(file, strlen(file)));
    if (q->seconds)
        json_object_set_new(body, "timeout_seconds", json_integer(q->seconds));
    r = remote_call_json(&q->to, "POST", buf_cstr(&path), body, &answer, &err);
    if (r < 0)
        return fail(&err);
    auto_free char *entry = json_dumps(json_object_get(answer, "configuration"), JSON_INDENT(2));
    puts(entry ? entry : "{}");
    fprintf(stderr, "riddle: put this into launch.json and start it within %lld seconds\n",
            (long long)json_integer_value(json_object_get(answer, "expires_in")));
    if (!has_file)
        fputs("riddle: it stops in what is executed next in this sandbox\n", stderr);
    return CLI_OK;
}

/* ---- files ---- */

static int list_files(const struct request *q, struct err *err)
{
    auto_buf struct buf path = BUF_INIT(PATH_MAX_BYTES), out = BUF_INIT(REMOTE_ANSWER_MAX_BYTES);
    auto_json json_t *answer = NULL, *rows = json_array();
    auto_json json_t *columns = json_pack("[s, s, s]", "path", "bytes", "modified");
    auto_json json_t *types = json_pack("[s, s, s]", "VARCHAR", "BIGINT", "VARCHAR");
    struct table_style style;
    const json_t *f;
    size_t i;
    int r = build_path(&path, q->words[0], "/files", NULL, err);
    if (r == 0)
        r = remote_call_json(&q->to, "GET", buf_cstr(&path), NULL, &answer, err);
    if (r == 0 && q->json)
        return print_json(answer, err);
    if (r < 0)
        return r;
    json_array_foreach(json_object_get(answer, "files"), i, f) {
        char modified[CLOCK_ISO_SIZE];
        clock_iso8601(json_integer_value(json_object_get(f, "modified")), modified);
        json_array_append_new(rows,
                              json_pack("[s, I, s]", remote_text(f, "path"),
                                        json_integer_value(json_object_get(f, "size")), modified));
    }
    table_style_for(STDOUT_FILENO, &style);
    r = table_render(columns, types, rows, &style, &out, err);
    return r < 0 ? r : fd_write_all(STDOUT_FILENO, buf_cstr(&out), out.len, err);
}

static int list_sandboxes(const struct request *q)
{
    auto_buf struct buf out = BUF_INIT(REMOTE_ANSWER_MAX_BYTES);
    auto_json json_t *answer = NULL, *rows = json_array();
    auto_json json_t *columns = json_pack("[s, s, s, s]", "sandbox", "created", "kernel",
                                          "deleted unless used");
    auto_json json_t *types = json_pack("[s, s, s, s]", "VARCHAR", "VARCHAR", "VARCHAR", "VARCHAR");
    struct table_style style;
    struct err err = ERR_INIT;
    const json_t *s;
    size_t i;
    if (q->n > 0)
        return misused();
    int r = remote_call_json(&q->to, "GET", "/sandbox", NULL, &answer, &err);
    if (r == 0 && q->json)
        return print_json(answer, &err) < 0 ? fail(&err) : CLI_OK;
    json_array_foreach(json_object_get(answer, "sandboxes"), i, s) {
        bool runs = json_is_true(json_object_get(s, "running"));
        json_array_append_new(rows, json_pack("[O, O, s, O]", json_object_get(s, "sandbox_id"),
                                              json_object_get(s, "created_at"),
                                              runs ? "running" : remote_text(s, "kernel"),
                                              json_object_get(s, "expires_at")));
    }
    if (r == 0 && json_array_size(rows) == 0) {
        cli_complain("there are no sandboxes; 'riddle sandbox create' makes one");
        return CLI_OK;
    }
    table_style_for(STDOUT_FILENO, &style);
    if (r == 0)
        r = table_render(columns, types, rows, &style, &out, &err);
    if (r == 0)
        r = fd_write_all(STDOUT_FILENO, buf_cstr(&out), out.len, &err);
    return r < 0 ? fail(&err) : CLI_OK;
}

static int get_file(const struct request *q, const char *name, const char *file, struct err *err)
{
    auto_buf struct buf path = BUF_INIT(PATH_MAX_BYTES), content = BUF_INIT(FILE_MAX_BYTES);
    char clean[WORKSPACE_PATH_MAX + 1];
    struct stat st;
    int r = workspace_path(name, clean, err);
    if (r < 0)
        return r;
    if (!file)
        file = strrchr(clean, '/') ? strrchr(clean, '/') + 1 : clean;
    bool out = str_eq(file, "-");
    if (!out && !q->force && lstat(file, &st) == 0)
        return err_set(err, ERR_CONFLICT, "'%s' is there already; --force replaces it", file);
    r = build_path(&path, q->words[0], "/files/", clean, err);
    struct remote_request request = { .method = "GET", .path = buf_cstr(&path), .accept = "*/*" };
    if (r == 0)
        r = remote_call(&q->to, &request, &content, err);
    if (r < 0)
        return r;
    return out ? fd_write_all(STDOUT_FILENO, buf_cstr(&content), content.len, err) :
                 fd_replace_file(file, buf_cstr(&content), content.len, 0644, err);
}

static int put_file(const struct request *q, const char *file, const char *name, struct err *err)
{
    auto_buf struct buf path = BUF_INIT(PATH_MAX_BYTES), content = BUF_INIT(FILE_MAX_BYTES),
                        answer = BUF_INIT(REMOTE_ANSWER_MAX_BYTES);
    char clean[WORKSPACE_PATH_MAX + 1];
    bool in = str_eq(file, "-");
    if (in && !name)
        return err_set(err, ERR_VALIDATION, "standard input needs a NAME");
    if (!name)
        name = strrchr(file, '/') ? strrchr(file, '/') + 1 : file;
    int r = workspace_path(name, clean, err);
    if (r == 0)
        r = in ? fd_read_to_end(STDIN_FILENO, &content, err) : fd_read_file(file, &content, err);
    if (r == 0)
        r = build_path(&path, q->words[0], "/files/", clean, err);
    struct remote_request request = { .method = "PUT",
                                      .path = buf_cstr(&path),
                                      .content_type = "application/octet-stream",
                                      .body = buf_cstr(&content),
                                      .body_len = content.len };
    return r < 0 ? r : remote_call(&q->to, &request, &answer, err);
}

static int files(const struct request *q)
{
    struct err err = ERR_INIT;
    const char *what = q->n > 1 ? q->words[1] : NULL;
    int r;
    if (q->n < 1 || (what && (q->n < 3 || q->n > 4)))
        return misused();
    if (!check_id(q->words[0]))
        return CLI_USAGE;
    const char *last = q->n == 4 ? q->words[3] : NULL;
    if (!what) {
        r = list_files(q, &err);
    } else if (str_eq(what, "get")) {
        r = get_file(q, q->words[2], last, &err);
    } else if (str_eq(what, "put")) {
        r = put_file(q, q->words[2], last, &err);
    } else {
        cli_complain("'sandbox files' cannot '%s'; it can get and put", what);
        return CLI_USAGE;
    }
    return r < 0 ? fail(&err) : CLI_OK;
}

/* ---- the verb ---- */

static int branch(const struct request *q)
{
    return branches_act(&q->to, true, q->action, q->name, q->words, q->n);
}

static const struct {
    const char *name, *takes; /* letters of its options */
    int (*fn)(const struct request *q);
} actions[] = { { "create", "mtp", create },     { "list", "j", list_sandboxes },
                { "exec", "mtpfqj", exec_code }, { "debug", "t", offer_to_editor },
                { "files", "Fj", files },        { "fork", "", branch },
                { "checkpoint", "n", branch },   { "checkpoints", "", branch },
                { "rollback", "", branch },      { "rm", "", remove_all } };

/* given: how often each option was given, by its place in `options`. */
static int act(const char *action, struct request *q, const char *server, const int *given)
{
    const char *names[ARRAY_SIZE(actions)];
    for (size_t i = 0; i < ARRAY_SIZE(actions); i++) {
        names[i] = actions[i].name;
        if (!str_eq(action, actions[i].name))
            continue;
        for (size_t k = 0; options[k].name; k++)
            if (given[k] && options[k].val != 's' && !strchr(actions[i].takes, options[k].val)) {
                cli_complain("'sandbox %s' takes no --%s; see 'riddle sandbox --help'", action,
                             options[k].name);
                return CLI_USAGE;
            }
        q->action = action;
        int status = remote_init(&q->to, server);
        return status == CLI_OK ? actions[i].fn(q) : status;
    }
    const char *near = str_nearest(action, names, ARRAY_SIZE(names));
    cli_complain("'sandbox' cannot '%s'; %s%s", action,
                 near ? "did you mean " : "see 'riddle sandbox --help'", near ? near : "");
    return CLI_USAGE;
}

int cli_sandbox(const struct cli *cli, int argc, char **argv)
{
    struct err err = ERR_INIT;
    struct request q = { .file = NULL };
    const char *server = NULL;
    int c, r = 0, at = 0, given[ARRAY_SIZE(options)] = { 0 };
    (void)cli;
    opterr = 0;
    while (r == 0 && (c = getopt_long(argc, argv, ":h", options, &at)) != -1) {
        given[at]++;
        switch (c) {
        case 'h':
            fputs(usage, stdout);
            return CLI_OK;
        case 's':
            server = optarg;
            break;
        case 'm':
            r = str_parse_i64(optarg, "--memory", 1, 1 << 20, &q.memory_mb, &err);
            break;
        case 't':
            r = str_parse_i64(optarg, "--timeout", 1, 1 << 20, &q.seconds, &err);
            break;
        case 'p':
            q.policy = optarg;
            break;
        case 'f':
            q.file = optarg;
            break;
        case 'n':
            q.name = optarg;
            break;
        case 'q':
            q.quick = true;
            break;
        case 'F':
            q.force = true;
            break;
        case 'j':
            q.json = true;
            break;
        default:
            return cli_bad_option("sandbox", argv, options);
        }
    }
    if (r < 0) {
        cli_complain("%s", err.message);
        return CLI_USAGE;
    }
    if (optind >= argc)
        return misused();
    q.words = argv + optind + 1;
    q.n = argc - optind - 1;
    return act(argv[optind], &q, server, given);
}
