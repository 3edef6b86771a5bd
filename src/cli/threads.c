/* `riddle threads` and `riddle thread`: threads of a running server and their kernels. */

#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "base/buf.h"
#include "base/clock.h"
#include "base/fdio.h"
#include "base/json.h"
#include "base/macros.h"
#include "base/str.h"
#include "cli/branches.h"
#include "cli/cli.h"
#include "cli/remote.h"
#include "cli/table.h"
#include "cli/thread_file.h"

#define PAGE "200"
#define PATH_MAX_BYTES 8192u

static const char threads_usage[] =
    "usage: riddle threads [--search TEXT] [--json] [--server URL]\n\n"
    "Lists your threads of a running server, the last used first: id, title, state of the\n"
    "kernel (hot, warm or cold: docs/chat.md), bytes of its image, messages, and age: the time\n"
    "since the last use.\n\n"
    "  --search TEXT only threads with this text in their title\n"
    "  --json        one JSON object per thread and line\n" REMOTE_USAGE
    "Exit status: 0 they were listed, 1 they were not, 2 the request is wrong.\n";

static const char thread_usage[] =
    "usage: riddle thread freeze|cool|wake|rm [--server URL] ID...\n"
    "       riddle thread fork|checkpoint|checkpoints [--name NAME] ID\n"
    "       riddle thread rollback ID [CHECKPOINT]\n"
    "       riddle thread export [--force] ID FILE\n"
    "       riddle thread import FILE\n\n"
    "  freeze        the kernel keeps its variables and uses no processor\n"
    "  cool          the kernel becomes a file, which the next code goes on with\n"
    "  wake          the kernel is thawed, made of its file, or started\n"
    "  rm            the thread is deleted, with its messages, files and variables\n" BRANCHES_USAGE
    "  export        writes messages, files and variables to FILE, and tells what is not in it\n"
    "  import        makes a new thread of FILE, and prints its id\n\n"
    "  --name NAME   what the checkpoint is called\n"
    "  --force       export replaces a file that is there\n" REMOTE_USAGE
    "Exit status: 0 it is so for every thread, 1 it is not, 2 the request is wrong.\n";

static const struct option list_options[] = { { "server", required_argument, NULL, 's' },
                                              { "search", required_argument, NULL, 'q' },
                                              { "json", no_argument, NULL, 'j' },
                                              { "help", no_argument, NULL, 'h' },
                                              { NULL, 0, NULL, 0 } };
static const struct option thread_options[] = { { "server", required_argument, NULL, 's' },
                                                { "name", required_argument, NULL, 'n' },
                                                { "force", no_argument, NULL, 'F' },
                                                { "help", no_argument, NULL, 'h' },
                                                { NULL, 0, NULL, 0 } };

/* ---- the list ---- */

/* "3 min" since a time of the server; "" when it is none. */
static void age_of(const char *iso, char *ret, size_t n)
{
    static const struct {
        int64_t seconds;
        const char *unit;
    } units[] = { { 86400, "d" }, { 3600, "h" }, { 60, "min" }, { 1, "s" } };
    struct tm tm = { .tm_sec = 0 };
    size_t i = 0;
    *ret = '\0';
    if (!strptime(iso, "%Y-%m-%dT%H:%M:%S", &tm))
        return;
    int64_t age = clock_wall_ms() / 1000 - (int64_t)timegm(&tm);
    while (i + 1 < ARRAY_SIZE(units) && age < units[i].seconds)
        i++;
    snprintf(ret, n, "%lld %s", (long long)(age > 0 ? age / units[i].seconds : 0), units[i].unit);
}

static int get_page(const struct remote *to, const char *search, const char *cursor, json_t **ret,
                    struct err *err)
{
    auto_buf struct buf path = BUF_INIT(PATH_MAX_BYTES);
    int r = buf_append_str(&path, "/threads?limit=" PAGE, err);
    if (r == 0 && *search)
        r = buf_append_str(&path, "&search=", err);
    if (r == 0)
        r = remote_append_coded(&path, search, false, err);
    if (r == 0 && *cursor)
        r = buf_append_str(&path, "&cursor=", err);
    if (r == 0)
        r = remote_append_coded(&path, cursor, false, err);
    return r < 0 ? r : remote_call_json(to, "GET", buf_cstr(&path), NULL, ret, err);
}

static int add_thread(const char *id, json_t *thread, bool json, json_t *rows, struct buf *out,
                      struct err *err)
{
    char age[32];
    if (json) {
        auto_json json_t *line = json_pack("{s:s}", "thread_id", id);
        if (!line || json_object_update(line, thread) < 0)
            return err_set(err, ERR_NO_MEMORY, "out of memory");
        int r = json_write(line, out, err);
        return r < 0 ? r : buf_append_str(out, "\n", err);
    }
    const json_t *count = json_object_get(thread, "message_count");
    age_of(remote_text(thread, "updated_at"), age, sizeof(age));
    json_t *bytes = json_object_get(thread, "bytes");
    json_t *row = json_pack("[s, s, s, O?, I, s]", id, remote_text(thread, "title"),
                            remote_text(thread, "sandbox_status"), bytes, json_integer_value(count),
                            age);
    return json_array_append_new(rows, row) < 0 ? err_set(err, ERR_NO_MEMORY, "out of memory") : 0;
}

static int list(const struct remote *to, const char *search, bool json, struct err *err)
{
    auto_buf struct buf out = BUF_INIT(REMOTE_ANSWER_MAX_BYTES), cursor = BUF_INIT(PATH_MAX_BYTES);
    auto_json json_t *rows = json_array();
    auto_json json_t *columns = json_pack("[s, s, s, s, s, s]", "id", "title", "state", "bytes",
                                          "messages", "age");
    auto_json json_t *types = json_pack("[s, s, s, s, s, s]", "VARCHAR", "VARCHAR", "VARCHAR",
                                        "BIGINT", "BIGINT", "VARCHAR");
    struct table_style style;
    int r;
    do {
        auto_json json_t *page = NULL;
        const json_t *id;
        size_t i;
        r = get_page(to, search, buf_cstr(&cursor), &page, err);
        json_array_foreach(json_object_get(page, "order"), i, id) {
            const char *name = json_string_value(id);
            json_t *thread = name ? json_object_get(json_object_get(page, "threads"), name) : NULL;
            if (r == 0 && thread)
                r = add_thread(name, thread, json, rows, &out, err);
        }
        buf_clear(&cursor);
        if (r == 0)
            r = buf_append_str(&cursor, remote_text(page, "next"), err);
    } while (r == 0 && cursor.len > 0);
    table_style_for(STDOUT_FILENO, &style);
    if (r == 0 && !json)
        r = table_render(columns, types, rows, &style, &out, err);
    return r < 0 ? r : fd_write_all(STDOUT_FILENO, buf_cstr(&out), out.len, err);
}

int cli_threads(const struct cli *cli, int argc, char **argv)
{
    struct err err = ERR_INIT;
    const char *server = NULL, *search = "";
    bool json = false;
    struct remote to;
    int c;
    (void)cli;
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":h", list_options, NULL)) != -1) {
        if (c == 'h') {
            fputs(threads_usage, stdout);
            return CLI_OK;
        } else if (c == 's') {
            server = optarg;
        } else if (c == 'q') {
            search = optarg;
        } else if (c == 'j') {
            json = true;
        } else {
            return cli_bad_option("threads", argv, list_options);
        }
    }
    if (optind < argc) {
        cli_complain("'threads' takes no '%s'; see 'riddle threads --help'", argv[optind]);
        return CLI_USAGE;
    }
    int status = remote_init(&to, server);
    if (status == CLI_OK && list(&to, search, json, &err) < 0) {
        cli_complain("%s", err.message);
        status = CLI_FAILED;
    }
    return status;
}

/* ---- one thread ---- */

static void show_state(const char *id, const json_t *answer)
{
    const json_t *sandbox = json_object_get(answer, "sandbox"),
                 *ms = json_object_get(sandbox, "last_move_ms"),
                 *bytes = json_object_get(sandbox, "bytes");
    printf("%s: %s", id, remote_text(answer, "sandbox_status"));
    if (ms)
        printf(" (%s, %.1f ms)", remote_text(sandbox, "last_move"), json_number_value(ms));
    if (bytes)
        printf(", an image of %lld bytes", (long long)json_integer_value(bytes));
    putchar('\n');
}

static int change(const struct remote *to, const char *action, const char *id, struct err *err)
{
    auto_buf struct buf path = BUF_INIT(PATH_MAX_BYTES);
    auto_json json_t *answer = NULL;
    char shown[STR_SHOWN_SIZE];
    bool removes = str_eq(action, "rm");
    int r = buf_append_str(&path, "/thread/", err);
    if (r == 0)
        r = remote_append_coded(&path, id, false, err);
    if (r == 0 && !removes)
        r = buf_printf(&path, err, "/%s", action);
    if (r == 0)
        r = remote_call_json(to, removes ? "DELETE" : "POST", buf_cstr(&path), NULL, &answer, err);
    if (r < 0)
        return r;
    const char *why = remote_text(json_object_get(answer, "sandbox"), "not_cooled");
    if (str_eq(action, "cool") && !str_eq(remote_text(answer, "sandbox_status"), "cold"))
        return err_set(err, ERR_CONFLICT, "it stays %s: %s", remote_text(answer, "sandbox_status"),
                       *why ? str_show(why, strlen(why), shown, sizeof(shown)) : "it is in use");
    if (removes)
        printf("%s: removed\n", id);
    else
        show_state(id, answer);
    return 0;
}

static int move_file(const char *server, bool exports, bool force, char **words, int n)
{
    struct remote to;
    if (n != (exports ? 2 : 1) || (exports && !remote_is_id(words[0]))) {
        cli_complain(exports ? "'thread export' takes the id of a thread and a file" :
                               "'thread import' takes a file");
        return CLI_USAGE;
    }
    int status = remote_init(&to, server);
    if (status != CLI_OK)
        return status;
    return exports ? thread_file_export(&to, words[0], words[1], force) :
                     thread_file_import(&to, words[0]);
}

int cli_thread(const struct cli *cli, int argc, char **argv)
{
    static const char *const actions[] = { "freeze", "cool", "wake", "rm" };
    const char *server = NULL, *name = NULL, *action = NULL;
    struct remote to;
    bool force = false;
    int c;
    (void)cli;
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":h", thread_options, NULL)) != -1) {
        if (c == 'h') {
            fputs(thread_usage, stdout);
            return CLI_OK;
        }
        if (c == 's')
            server = optarg;
        else if (c == 'n')
            name = optarg;
        else if (c == 'F')
            force = true;
        else
            return cli_bad_option("thread", argv, thread_options);
    }
    if (argc - optind < 2) {
        fputs(thread_usage, stderr);
        return CLI_USAGE;
    }
    for (size_t i = 0; i < ARRAY_SIZE(actions); i++)
        if (str_eq(argv[optind], actions[i]))
            action = actions[i];
    bool exports = str_eq(argv[optind], "export");
    if (force && !exports) {
        cli_complain("'thread %s' takes no --force", argv[optind]);
        return CLI_USAGE;
    }
    if (exports || str_eq(argv[optind], "import"))
        return move_file(server, exports, force, argv + optind + 1, argc - optind - 1);
    if (branches_knows(argv[optind])) {
        int status = remote_init(&to, server);
        return status == CLI_OK ? branches_act(&to, false, argv[optind], name, argv + optind + 1,
                                               argc - optind - 1) :
                                  status;
    }
    if (!action || name) {
        cli_complain(action ? "'thread %s' takes no --name" :
                              "'thread' cannot '%s'; it can freeze, cool, wake, rm, fork, "
                              "checkpoint, checkpoints, rollback, export and import",
                     argv[optind]);
        return CLI_USAGE;
    }
    for (int i = optind + 1; i < argc; i++)
        if (!remote_is_id(argv[i])) {
            cli_complain("'%s' is no id of a thread; 'riddle threads' lists them", argv[i]);
            return CLI_USAGE;
        }
    int status = remote_init(&to, server);
    if (status != CLI_OK)
        return status;
    for (int i = optind + 1; i < argc; i++) {
        struct err err = ERR_INIT;
        if (change(&to, action, argv[i], &err) < 0) {
            cli_complain("%s: %s", argv[i], err.message);
            status = CLI_FAILED;
        }
    }
    return status;
}
