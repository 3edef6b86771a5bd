/*
 * `riddle chat`: a conversation about files, with no server and, unless a model is set, no key. The
 * agent (src/agent) answers inside an event loop of this process, one message at a time; what is
 * typed meanwhile waits.
 *
 *   start → the files are hashed, ingested and looked at (loading) → a line is asked for → a command, or a turn of the agent → …
 *
 * Ctrl-C stops what is under way: a turn first politely, so that Python keeps its variables, and by
 * force when it comes again. At the prompt it clears the line, and twice within a second it leaves.
 */

#include <ctype.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/clock.h"
#include "base/fdio.h"
#include "base/macros.h"
#include "base/str.h"
#include "cli/chat_files.h"
#include "cli/chat_input.h"
#include "cli/chat_screen.h"
#include "cli/chat_tables.h"
#include "cli/cli.h"

#define LEAVE_WITHIN_MS 1000
#define WORDS_MAX 2000 /* that Tab completes */

static const char usage[] =
    "usage: riddle chat [options] [TABLE=]FILE …\n"
    "\n"
    "A conversation about tables. Questions are answered by the model that the settings name, or without one by the built-in planner;\n"
    "SQL: … and PYTHON: … run as they are, and Python's variables live until you leave. On a terminal, lines can be edited and are\n"
    "remembered; Ctrl-C stops the answer under way, Ctrl-D leaves. Otherwise standard input is read line by line.\n"
    "\n"
    "  --quiet          do not show what was run\n"
    "\n"
    "Figures are saved as figure-N.png in the working directory. /help lists the commands of the conversation.\n"
    "\n"
    "Exit status: 0 left, or every line was answered; 1 one was not, or something failed; 2 the request is wrong; 130 interrupted.\n";

static const struct option long_options[] = {
    { "quiet", no_argument, NULL, 'q' },
    { "help", no_argument, NULL, 'h' },
    { NULL, 0, NULL, 0 },
};

/* How a message of several lines ends. */
enum gathering { GATHER_NOTHING, GATHER_DOT, GATHER_EMPTY_LINE, GATHER_NEXT };

struct session {
    struct config *cfg;
    struct loop *loop;
    struct executor *executor;
    struct llm *llm;
    struct agent *agent;
    struct chat *chat;
    struct chat_input *input;
    struct chat_screen screen;
    uv_signal_t signals[3];
    bool terminal, greeted, leaving, failed;
    int status;

    struct chat_tables tables;
    const char *words[WORDS_MAX];

    struct turn *turn;
    unsigned n_interrupts; /* of this turn */
    int64_t interrupt_ms;  /* the last one at this prompt; 0: none */
    struct chat_file *file;
    json_t *choices, *answer; /* of the last turn */

    enum gathering gathering;
    struct buf message; /* the lines gathered so far */
};

static void ask_line(struct session *s);

static void leave(struct session *s, int status)
{
    s->leaving = true;
    s->status = status;
    chat_input_stop(s->input);
    loop_quit(s->loop);
}

static int status_of(const struct err *err)
{
    return err->code == ERR_VALIDATION || err->code == ERR_NOT_FOUND ? CLI_USAGE : CLI_FAILED;
}

/* What was asked for could not be done; the conversation goes on. */
static void refuse(struct session *s, const struct err *err)
{
    chat_screen_complain(&s->screen, err);
    s->failed = true;
}

/* ---- the files ---- */

static void load_failed(struct session *s, const struct err *err)
{
    chat_screen_complain(&s->screen, err);
    leave(s, status_of(err));
}

static void offer_words(struct session *s);
static void on_chat(struct chat *chat, const struct err *err, void *arg);

static void open_chat(struct session *s)
{
    struct err err = ERR_INIT;
    struct chat_spec spec = { .owner = CHAT_OWNER };
    if (chat_create(s->agent, &spec, on_chat, s, &err) < 0)
        load_failed(s, &err);
}

static void on_loaded(void *arg, const struct err *err)
{
    struct session *s = arg;
    if (err) {
        load_failed(s, err);
        return;
    }
    agent_keep_catalog(s->agent, s->tables.data.key, s->tables.catalog);
    offer_words(s);
    open_chat(s);
}

/* ---- turns ---- */

static void on_event(void *arg, const char *type, json_t *data)
{
    struct session *s = arg;
    chat_screen_event(&s->screen, type, data);
}

static void on_done(void *arg, json_t *answer, const struct err *err)
{
    struct session *s = arg;
    s->turn = NULL;
    if (err) {
        refuse(s, err);
    } else {
        s->failed |= !chat_screen_answer(&s->screen, answer);
        s->choices = json_incref(json_object_get(answer, "choices"));
        json_decref(s->answer);
        s->answer = json_incref(answer);
    }
    if (ferror(stdout))
        leave(s, CLI_FAILED);
    else if (s->n_interrupts > 0 && !s->terminal)
        leave(s, CLI_INTERRUPTED);
    else if (!s->leaving)
        ask_line(s);
}

static bool has_prefix(const char *line, const char *prefix)
{
    return strncasecmp(line, prefix, strlen(prefix)) == 0;
}

static void send_message(struct session *s, const char *message)
{
    struct err err = ERR_INIT;
    struct turn_listener listener = { .event = on_event, .done = on_done, .arg = s };
    json_decref(TAKE_PTR(s->choices));
    s->n_interrupts = 0;
    chat_screen_begin(&s->screen, has_prefix(message, "SQL:") || has_prefix(message, "PYTHON:"));
    if (!str_is_utf8(message, strlen(message)))
        err_set(&err, ERR_VALIDATION, "the line is not UTF-8");
    else if (chat_send(s->chat, &(struct chat_message){ .text = message }, &listener, &s->turn,
                       &err) == 0)
        return;
    refuse(s, &err);
    ask_line(s);
}

/* ---- commands ---- */

/*
 * A word of the rest of a line, in quotes if it has spaces; NULL when none is left. The line is
 * changed.
 */
static char *next_word(char **rest)
{
    char *p = *rest + strspn(*rest, " \t"), *start;
    if (!*p)
        return NULL;
    if (*p == '"') {
        start = p + 1;
        p = start + strcspn(start, "\"");
    } else {
        start = p;
        p += strcspn(p, " \t");
    }
    if (*p)
        *p++ = '\0';
    *rest = p;
    return start;
}

static void on_file(void *arg, const char *path, const struct err *err)
{
    struct session *s = arg;
    s->file = NULL;
    progress_clear(&s->screen.progress);
    if (err)
        refuse(s, err);
    else
        fprintf(stderr, "file: %s\n", path);
    if (!s->leaving)
        ask_line(s);
}

/* Each returns true if the next line can be asked for at once. */

static bool run_save(struct session *s, char *rest)
{
    struct err err = ERR_INIT;
    struct chat_file_listener listener = { .done = on_file, .arg = s };
    const char *from = next_word(&rest), *to = next_word(&rest);
    if (!from)
        err_set(&err, ERR_VALIDATION, "which file? /save PATH [TO]");
    else if (!chat_is_hot(s->chat))
        err_set(&err, ERR_NOT_FOUND, "there are no files: Python code has to leave one first");
    else if (chat_file_save(s->chat, from, to, s->cfg->workspace_bytes, &listener, &s->file,
                            &err) == 0)
        return false;
    refuse(s, &err);
    return true;
}

static bool run_chart(struct session *s, char *rest)
{
    struct err err = ERR_INIT;
    struct chat_file_listener listener = { .done = on_file, .arg = s };
    const char *to = next_word(&rest);
    const json_t *chart = json_object_get(s->answer, "chart");
    if (!to)
        err_set(&err, ERR_VALIDATION, "into which file? /chart FILE.png or FILE.svg");
    else if (!chart)
        err_set(
            &err, ERR_VALIDATION,
            "no chart fits the last answer: it takes at least two rows, with one number for each name or time");
    else if (chat_file_draw(s->executor, s->cfg, json_object_get(s->answer, "result"), chart, to,
                            &listener, &s->file, &err) == 0) {
        progress_text(&s->screen.progress, "Drawing...");
        return false;
    }
    refuse(s, &err);
    return true;
}

static json_t *table_rows(const struct session *s)
{
    size_t i, k;
    json_t *t, *c, *rows = json_array();
    json_array_foreach(json_object_get(catalog_describe(s->tables.catalog), "tables"), i, t) {
        auto_buf struct buf names = BUF_INIT(1u << 20);
        json_array_foreach(json_object_get(t, "columns"), k, c)
            (void)buf_printf(&names, NULL, "%s%s", k > 0 ? ", " : "",
                             json_string_value(json_object_get(c, "name")));
        json_array_append_new(rows, json_pack("[O, O, o]", json_object_get(t, "name"),
                                              json_object_get(t, "row_count"),
                                              json_text(names.data, names.len)));
    }
    return rows;
}

static bool run_tables(struct session *s, char *rest)
{
    auto_json json_t *columns = json_pack("[s, s, s]", "table", "rows", "columns"),
                     *types = json_pack("[s, s, s]", "VARCHAR", "BIGINT", "VARCHAR");
    auto_json json_t *rows = table_rows(s);
    (void)rest;
    chat_screen_table(&s->screen, columns, types, rows);
    return true;
}

/* The code behind the command, or the lines that follow. */
static bool run_code(struct session *s, const char *prefix, const char *rest)
{
    buf_clear(&s->message);
    (void)buf_printf(&s->message, NULL, "%s", prefix);
    if (!*rest) {
        s->gathering = GATHER_DOT;
        return true;
    }
    (void)buf_printf(&s->message, NULL, " %s", rest);
    send_message(s, buf_cstr(&s->message));
    return false;
}

static bool run_sql(struct session *s, char *rest)
{
    return run_code(s, "SQL:", rest);
}

static bool run_python(struct session *s, char *rest)
{
    return run_code(s, "PYTHON:", rest);
}

static bool run_new(struct session *s, char *rest)
{
    struct err err = ERR_INIT;
    (void)rest;
    (void)chat_delete(s->agent, CHAT_OWNER, chat_id(s->chat), NULL, NULL, &err);
    chat_unref(TAKE_PTR(s->chat));
    json_decref(TAKE_PTR(s->choices));
    json_decref(TAKE_PTR(s->answer));
    json_decref(TAKE_PTR(s->screen.files));
    open_chat(s);
    return false;
}

static bool run_quit(struct session *s, char *rest)
{
    (void)rest;
    leave(s, s->failed && !s->terminal ? CLI_FAILED : CLI_OK);
    return false;
}

static bool run_help(struct session *s, char *rest);

static const struct command {
    const char *name, *takes, *does;
    bool (*fn)(struct session *s, char *rest);
} commands[] = {
    { "/help", "", "this list", run_help },
    { "/tables", "", "the tables: their rows and columns", run_tables },
    { "/sql", "[QUERY]", "runs SQL; without a query, the lines up to one with a single '.'",
      run_sql },
    { "/python", "[CODE]", "runs Python; without code, the lines up to one with a single '.'",
      run_python },
    { "/chart", "FILE", "draws the last answer into a .png or .svg file", run_chart },
    { "/save", "PATH [TO]", "copies a file that Python code left", run_save },
    { "/new", "", "begins anew: what was said and Python's variables are forgotten", run_new },
    { "/quit", "", "leaves, as Ctrl-D does", run_quit },
};

static bool run_help(struct session *s, char *rest)
{
    (void)rest;
    chat_screen_print(&s->screen, "Ask about the data in plain English, or:\n");
    for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
        char line[160];
        snprintf(line, sizeof(line), "  %-8s %-10s %s\n", commands[i].name, commands[i].takes,
                 commands[i].does);
        chat_screen_print(&s->screen, line);
    }
    chat_screen_print(
        &s->screen,
        "SQL: … and PYTHON: … do the same as the commands. A line that ends in '\\' goes on in the next. When readings are\n"
        "offered, the number picks one. Ctrl-C stops an answer; twice, it also ends its sandbox.\n");
    return true;
}

static bool run_command(struct session *s, char *line)
{
    struct err err = ERR_INIT;
    const char *names[ARRAY_SIZE(commands)];
    char *rest = line + strcspn(line, " \t");
    if (*rest)
        *rest++ = '\0';
    rest += strspn(rest, " \t");
    for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
        names[i] = commands[i].name;
        if (str_ieq(line, names[i]))
            return commands[i].fn(s, rest);
    }
    const char *near = str_nearest(line, names, ARRAY_SIZE(names));
    if (near)
        err_set(&err, ERR_VALIDATION, "unknown command '%s'; did you mean '%s'?", line, near);
    else
        err_set(&err, ERR_VALIDATION, "unknown command '%s'; /help lists them", line);
    refuse(s, &err);
    return true;
}

/* ---- lines ---- */

static void ask_line(struct session *s)
{
    chat_screen_fresh_line(&s->screen);
    progress_clear(&s->screen.progress);
    chat_input_ask(s->input, s->gathering == GATHER_NOTHING ? "> " : ". ");
}

/* A number, when readings were offered, as the message that picks one; the caller frees it. */
static char *picked(const struct session *s, const char *line)
{
    long long n;
    if (!s->choices ||
        str_parse_i64(line, "", 1, (long long)json_array_size(s->choices), &n, NULL) < 0)
        return NULL;
    const json_t *choice = json_array_get(s->choices, (size_t)n - 1);
    const char *reading = json_string_value(json_object_get(choice, "reading"));
    if (!json_object_get(choice, "plan")) /* offered by a model, in words */
        return reading ? strdup(reading) : NULL;
    auto_free char *plan = json_to_str(json_object_get(choice, "plan"));
    char *message = NULL;
    return plan && asprintf(&message, "PLAN: %s", plan) >= 0 ? message : NULL;
}

/* True if the line belongs to a message that has not ended. */
static bool gather(struct session *s, const char *line)
{
    size_t len = strlen(line);
    enum gathering was = s->gathering;
    bool more = len > 0 && line[len - 1] == '\\' && (was == GATHER_NOTHING || was == GATHER_NEXT);
    if (was == GATHER_NOTHING)
        buf_clear(&s->message);
    s->gathering = GATHER_NOTHING;
    if ((was == GATHER_DOT && str_eq(line, ".")) ||
        (was == GATHER_EMPTY_LINE && strspn(line, " \t") == len))
        return false;
    if (was != GATHER_NOTHING)
        (void)buf_append_str(&s->message, "\n", NULL);
    (void)buf_append(&s->message, line, len - more, NULL);
    if (more) {
        s->gathering = GATHER_NEXT;
    } else if (was == GATHER_DOT || was == GATHER_EMPTY_LINE) {
        s->gathering = was;
    } else if (s->terminal && has_prefix(buf_cstr(&s->message), "PYTHON:") && str_ends(line, ":") &&
               len > strlen("PYTHON:")) {
        s->gathering = GATHER_EMPTY_LINE; /* a block was opened */
    }
    return s->gathering != GATHER_NOTHING;
}

static void on_line(void *arg, const char *line)
{
    struct session *s = arg;
    if (s->leaving)
        return;
    s->interrupt_ms = 0;
    chat_input_remember(s->input, line);
    if (s->gathering == GATHER_NOTHING) {
        while (isspace((unsigned char)*line))
            line++;
        if (!*line) {
            ask_line(s);
            return;
        }
        auto_free char *copy = strdup(line);
        for (char *end = copy ? copy + strlen(copy) : NULL;
             end && end > copy && isspace((unsigned char)end[-1]);)
            *--end = '\0';
        if (copy && *copy == '/') {
            if (run_command(s, copy))
                ask_line(s);
            return;
        }
        auto_free char *choice = copy ? picked(s, copy) : NULL;
        if (choice) {
            send_message(s, choice);
            return;
        }
    }
    if (gather(s, line))
        ask_line(s);
    else
        send_message(s, buf_cstr(&s->message));
}

static void on_end(void *arg, const struct err *err)
{
    struct session *s = arg;
    if (s->leaving)
        return;
    if (err) {
        refuse(s, err);
    } else if (s->gathering != GATHER_NOTHING && !s->terminal && s->message.len > 0) {
        s->gathering = GATHER_NOTHING; /* a message that nobody ended */
        send_message(s, buf_cstr(&s->message));
        return;
    }
    leave(s, s->failed && !s->terminal ? CLI_FAILED : CLI_OK);
}

/* ---- signals ---- */

static void interrupt_turn(struct session *s)
{
    s->n_interrupts++;
    if (s->n_interrupts == 1) {
        progress_text(&s->screen.progress, "Stopping... (Ctrl-C again ends the sandbox)");
        turn_cancel(s->turn);
    } else {
        turn_kill(s->turn);
    }
}

static void on_interrupt(struct session *s)
{
    int64_t now = clock_now_ms();
    if (s->turn) {
        interrupt_turn(s);
    } else if (s->file) {
        chat_file_stop(s->file);
    } else if (!s->chat || !s->terminal) { /* still loading, or in a script */
        progress_clear(&s->screen.progress);
        leave(s, CLI_INTERRUPTED);
    } else {
        bool again = chat_input_clear(s->input) && s->gathering == GATHER_NOTHING &&
                     s->interrupt_ms > 0 && now - s->interrupt_ms < LEAVE_WITHIN_MS;
        s->interrupt_ms = now;
        if (again) {
            leave(s, CLI_OK);
        } else if (s->gathering != GATHER_NOTHING) {
            s->gathering = GATHER_NOTHING;
            chat_input_stop(s->input);
            ask_line(s);
        }
    }
}

static void on_signal(uv_signal_t *h, int number)
{
    struct session *s = h->data;
    if (s->leaving)
        return;
    if (number == SIGINT)
        on_interrupt(s);
    else if (number == SIGCONT)
        chat_input_resume(s->input);
    else
        leave(s, 128 + number);
}

static int watch_signals(struct session *s, struct err *err)
{
    static const int numbers[] = { SIGINT, SIGTERM, SIGCONT };
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
        int r = uv_signal_init(loop_uv(s->loop), &s->signals[i]);
        s->signals[i].data = s;
        if (r == 0)
            r = uv_signal_start(&s->signals[i], on_signal, numbers[i]);
        if (r < 0)
            return err_set(err, ERR_INTERNAL, "cannot handle signals: %s", uv_strerror(r));
    }
    return 0;
}

/* ---- the beginning and the end ---- */

static void offer_words(struct session *s)
{
    size_t i, k, n = 0;
    json_t *t, *c;
    for (i = 0; i < ARRAY_SIZE(commands); i++)
        s->words[n++] = commands[i].name;
    json_array_foreach(json_object_get(catalog_describe(s->tables.catalog), "tables"), i, t) {
        if (n < WORDS_MAX)
            s->words[n++] = json_string_value(json_object_get(t, "name"));
        json_array_foreach(json_object_get(t, "columns"), k, c)
            if (n < WORDS_MAX)
                s->words[n++] = json_string_value(json_object_get(c, "name"));
    }
    chat_input_words(s->input, s->words, n);
}

static void greet(struct session *s)
{
    size_t i;
    json_t *t;
    json_array_foreach(json_object_get(catalog_describe(s->tables.catalog), "tables"), i, t) {
        auto_buf struct buf line = BUF_INIT(4096);
        long long rows = json_integer_value(json_object_get(t, "row_count"));
        size_t columns = json_array_size(json_object_get(t, "columns"));
        (void)buf_printf(&line, NULL, "%s: %lld row%s, %zu column%s\n",
                         json_string_value(json_object_get(t, "name")), rows, rows == 1 ? "" : "s",
                         columns, columns == 1 ? "" : "s");
        chat_screen_print(&s->screen, buf_cstr(&line));
    }
    if (llm_is_builtin(s->llm)) {
        chat_screen_print(
            &s->screen,
            "Answers come from the built-in planner; /help lists the commands, Ctrl-D leaves.\n");
    } else {
        chat_screen_print(&s->screen, llm_model(s->llm));
        chat_screen_print(&s->screen, " answers; /help lists the commands, Ctrl-D leaves.\n");
    }
}

static void on_chat(struct chat *chat, const struct err *err, void *arg)
{
    struct session *s = arg;
    if (err) {
        load_failed(s, err);
        return;
    }
    s->chat = chat;
    if (s->terminal && !s->greeted)
        greet(s);
    s->greeted = true;
    ask_line(s);
}

static int open_session(struct session *s, char **words, size_t n_words, const char *history,
                        struct err *err)
{
    struct chat_input_events events = { .line = on_line, .end = on_end, .arg = s };
    int r = chat_tables_name(&s->tables, words, n_words, err);
    if (r == 0)
        r = fd_mkdir_p(s->cfg->home, 0700, err);
    if (r == 0)
        r = loop_create(&s->loop, err);
    /*
     * One kernel of each kind waits for a person's next line; a script waits for nothing that it
     * does not use.
     */
    s->cfg->pool_size = s->terminal ? MIN_OF(s->cfg->pool_size, 1) : 0;
    if (r == 0)
        r = executor_create(loop_uv(s->loop), s->cfg, NULL, &s->executor, err);
    if (r == 0)
        r = llm_create(loop_uv(s->loop), s->cfg, &s->llm, err);
    if (r == 0)
        r = records_create(s->executor, s->cfg, s->cfg->home, &s->tables.records, err);
    struct agent_env env = { .loop = s->loop,
                             .cfg = s->cfg,
                             .executor = s->executor,
                             .records = s->tables.records,
                             .llm = s->llm,
                             .data = &s->tables.data };
    if (r == 0)
        r = agent_create(&env, &s->agent, err);
    if (r == 0)
        r = chat_input_create(s->loop, s->terminal, history, &events, &s->input, err);
    if (r == 0)
        r = watch_signals(s, err);
    return r == 0 ? chat_tables_load(&s->tables, s->executor, on_loaded, s, err) : r;
}

static void close_session(struct session *s)
{
    s->leaving = true;
    chat_input_stop(s->input);
    chat_tables_stop(&s->tables);
    if (s->file)
        chat_file_stop(s->file);
    agent_stop(s->agent);
    llm_destroy(s->llm);
    executor_destroy(s->executor);
    chat_unref(s->chat);
    agent_destroy(s->agent);
    chat_input_destroy(s->input);
    loop_destroy(s->loop);
    chat_tables_finish(&s->tables);
    json_decref(s->choices);
    json_decref(s->answer);
    chat_screen_finish(&s->screen);
    buf_finish(&s->message);
}

static int chat_about(struct config *cfg, bool quiet, char **words, size_t n_words)
{
    struct err err = ERR_INIT;
    char history[PATH_MAX];
    struct session s = { .cfg = cfg,
                         .status = CLI_OK,
                         .terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) };
    chat_screen_init(&s.screen, quiet);
    chat_tables_init(&s.tables, &s.screen.progress);
    buf_init(&s.message, CHAT_LINE_MAX_BYTES);
    snprintf(history, sizeof(history), "%.4000s/chat_history", cfg->home);
    if (open_session(&s, words, n_words, history, &err) < 0) {
        chat_screen_complain(&s.screen, &err);
        s.status = status_of(&err);
    } else {
        loop_run(s.loop);
    }
    close_session(&s);
    return s.status;
}

int cli_chat(const struct cli *cli, int argc, char **argv)
{
    struct config cfg;
    bool quiet = false;
    int c;
    (void)cli;
    opterr = 0;
    optind = 0;
    while ((c = getopt_long(argc, argv, ":h", long_options, NULL)) != -1) {
        switch (c) {
        case 'q':
            quiet = true;
            break;
        case 'h':
            fputs(usage, stdout);
            return CLI_OK;
        default:
            return cli_bad_option("chat", argv, long_options);
        }
    }
    if (optind == argc) {
        cli_complain("which file is it about? riddle chat FILE …; see 'riddle chat --help'");
        return CLI_USAGE;
    }
    int status = cli_load_config(&cfg);
    if (status != CLI_OK)
        return status;
    status = chat_about(&cfg, quiet, argv + optind, (size_t)(argc - optind));
    config_finish(&cfg);
    return status;
}
