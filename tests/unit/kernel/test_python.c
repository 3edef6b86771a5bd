/*
 * Cells: namespace, errors, verdicts, interrupts, streams, tables, policies, and what a fork of the
 * zygote gets.
 */

#include "python_check.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include "base/clock.h"
#include "base/proc.h"
#include "gen/platform.h"

#define EXECUTION "PYTHON_EXECUTION_ERROR"
#define VIOLATION "PYTHON_POLICY_VIOLATION"

/* ---- the process ---- */

static void test_one_thread(void **state)
{
    (void)state;
    assert_int_equal(proc_status_value(0, "Threads"), 1);
    print_message("rss %lld kB\n", proc_status_value(0, "VmRSS"));
}

static void test_interpreter(void **state)
{
    (void)state;
    check_table(
        "import sys\n[sys.executable, hash('riddle') == hash('riddle'), sys.flags.isolated, sys.flags.hash_randomization,"
        " sys.flags.utf8_mode, sys.dont_write_bytecode, '" PLATFORM_PYTHON_PACKAGES
        "' in sys.path]",
        "[\"value\"]", "[[\"/usr/bin/python3\"],[true],[1],[0],[1],[true],[true]]");
}

/* A fork server that is made from a base asks whether its modules are still those of the files. */
static void test_sources(void **state)
{
    (void)state;
    char path[] = "/tmp/riddle-sources-XXXXXX.py";
    char code[200];
    struct err err = ERR_INIT;
    int fd = mkstemps(path, 3);
    assert_true(fd >= 0 && write(fd, "a = 1\n", 6) == 6);
    snprintf(code, sizeof(code),
             "import sys, types\nm = types.ModuleType('sources_of_test')\nm.__file__ = '%s'\n"
             "sys.modules['sources_of_test'] = m\n1",
             path);
    check_table(code, "[\"value\"]", "[[1]]");
    assert_int_equal(python_note_sources(&err), 0);
    assert_false(python_sources_changed());
    assert_int_equal(write(fd, "b = 2\n", 6), 6);
    assert_true(python_sources_changed());
    assert_int_equal(python_note_sources(&err), 0);
    assert_false(python_sources_changed());
    unlink(path);
    assert_true(python_sources_changed());
    close(fd);
}

static void test_environment(void **state)
{
    (void)state;
    check_table(
        "import os\nos.environ.get('RIDDLE_SECRET'), os.getenv('MPLCONFIGDIR'), os.environ['OPENBLAS_NUM_THREADS']",
        "[\"value\"]", "[[null],[\"/tmp/matplotlib\"],[\"1\"]]");
    assert_null(getenv("RIDDLE_SECRET"));
}

/* Made in the zygote, they are streams on a pipe with the numbers that kernels use. */
static void test_streams_of_kernels(void **state)
{
    (void)state;
    check_table("import sys\n[[s.fileno(), s.seekable(), s.line_buffering, s is o] for s, o in"
                " ((sys.stdout, sys.__stdout__), (sys.stderr, sys.__stderr__))]",
                "[\"col_1\",\"col_2\",\"col_3\",\"col_4\"]",
                "[[1,false,true,true],[2,false,true,true]]");
}

static void test_bad_preload(void **state)
{
    (void)state;
    char line[400] = "";
    FILE *p = popen("/proc/$PPID/exe --bad-preload 2>&1", "r");
    assert_non_null(p);
    assert_non_null(fgets(line, sizeof(line), p));
    pclose(p);
    assert_string_equal(
        line,
        "BAD_CONFIGURATION: cannot preload Python package 'no_such_package': ModuleNotFoundError: "
        "No module named 'no_such_package'\n");
}

static int bad_preload(void)
{
    struct err err = ERR_INIT;
    struct sql_engine *e;
    if (sql_engine_create(&e, &err) == 0 && python_init("no_such_package", e, &err) == 0)
        return 1;
    printf("%s: %s\n", err_name(err.code), err.message);
    return 0;
}

/* Draws in a forked child, as a kernel would. */
static void draw_in_fork(char *ret, size_t n)
{
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        start_session(NULL, NULL);
        json_t *r = run("import random\nresult = f'{random.random()} {np.random.rand()}'");
        char *text = json_dumps(json_object_get(r, "rows"), 0);
        _exit(text && write(fds[1], text, strlen(text)) > 0 ? 0 : 1);
    }
    close(fds[1]);
    ssize_t got = read(fds[0], ret, n - 1);
    close(fds[0]);
    assert_true(got > 0);
    ret[got] = '\0';
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void test_forks_differ(void **state)
{
    (void)state;
    char a[200], b[200], *a_np, *b_np;
    draw_in_fork(a, sizeof(a));
    draw_in_fork(b, sizeof(b));
    a_np = strchr(a, ' ');
    b_np = strchr(b, ' ');
    assert_non_null(a_np);
    assert_non_null(b_np);
    assert_string_not_equal(a_np, b_np);
    *a_np = *b_np = '\0';
    assert_string_not_equal(a, b);
}

/* ---- cells ---- */

static void test_namespace(void **state)
{
    (void)state;
    check_ok("x = 5\ndef twice(n):\n    return n * factor\nfactor = 2");
    check_table("[twice(x) for _ in range(2)]", "[\"value\"]", "[[10],[10]]");
    check_ok(
        "from dataclasses import dataclass\n@dataclass\nclass P:\n    a: 'int'\nimport pickle");
    check_table("pickle.loads(pickle.dumps(P(3))).a", "[\"value\"]", "[[3]]");
    check_table("__name__", "[\"value\"]", "[[\"__main__\"]]");
    check_table("import inspect\ninspect.getsource(twice)", "[\"value\"]",
                "[[\"def twice(n):\\n    return n * factor\\n\"]]");
}

static void test_await(void **state)
{
    (void)state;
    check_ok(
        "import asyncio\nqueue = asyncio.Queue()\nloop = asyncio.get_running_loop()\nawait asyncio.sleep(0)\n"
        "task = asyncio.create_task(queue.get())");
    check_table("await queue.put(7)\n(await task, asyncio.get_running_loop() is loop)",
                "[\"value\"]", "[[7],[true]]");
    check_table("async def f():\n    return 3\nasyncio.run(f())", "[\"value\"]", "[[3]]");
    check_table("await f()", "[\"value\"]", "[[3]]");
    check_failure(run("async def bad():\n    1 / 0\nawait bad()"), "error", EXECUTION,
                  "ZeroDivisionError: division by zero (line 2)");
}

static void test_error(void **state)
{
    (void)state;
    auto_json json_t *r = run("import json\ndef parse(t):\n    return json.loads(t)\n\nparse('{')");
    const json_t *error = json_object_get(r, "error");
    check_json(r, "verdict", "\"error\"");
    assert_int_equal(json_integer_value(json_object_get(error, "line")), 3);
    assert_string_equal(
        text_at(error, "message"),
        "JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1) (line 3)");
    const char *tb = text_at(error, "traceback");
    assert_non_null(strstr(tb, "line 5, in <module>\n    parse('{')\n"));
    assert_non_null(strstr(tb, "line 3, in parse\n    return json.loads(t)\n"));
    assert_null(strstr(tb, "/usr/lib"));
    assert_null(strstr(tb, "riddle"));
    check_failure(run("1\n\n1 / 0"), "error", EXECUTION,
                  "ZeroDivisionError: division by zero (line 3)");
    check_failure(run("raise ValueError"), "error", EXECUTION, "ValueError (line 1)");
}

static void test_error_of_earlier_cell(void **state)
{
    (void)state;
    check_ok("\n\n\ndef fails():\n    raise KeyError('k')");
    auto_json json_t *r = run("\nfails()");
    const json_t *error = json_object_get(r, "error");
    assert_string_equal(text_at(error, "message"), "KeyError: 'k' (line 2)");
    assert_non_null(
        strstr(text_at(error, "traceback"), "line 5, in fails\n    raise KeyError('k')\n"));
}

static void test_hostile_errors(void **state)
{
    (void)state;
    check_failure(run("def f():\n    return f()\nf()"), "error", EXECUTION,
                  "RecursionError: maximum recursion depth exceeded (line 2)");
    check_failure(run("class E(Exception):\n    def __str__(self):\n        1 / 0\nraise E"),
                  "error", EXECUTION,
                  "E: <E object: str() failed with ZeroDivisionError> (line 4)");
    check_failure(run("raise ValueError('\\ud800\\0')"), "error", EXECUTION,
                  "ValueError: \xef\xbf\xbd\xef\xbf\xbd (line 1)");
    auto_json json_t *r = run("raise ValueError('x' * 10_000_000)");
    assert_in_range(strlen(text_at(json_object_get(r, "error"), "message")), 8000, 8400);
    check_ok("raise_later = lambda: 1\nraise_later()");
    check_failure(run("raise ExceptionGroup('g', [ValueError(1)])"), "error", EXECUTION,
                  "ExceptionGroup: g (1 sub-exception) (line 1)");
    check_failure(run("class B(BaseException): pass\nraise B('b')"), "error", EXECUTION,
                  "B: b (line 2)");
    check_failure(run("raise GeneratorExit"), "error", EXECUTION, "GeneratorExit (line 1)");
}

static void test_syntax(void **state)
{
    (void)state;
    struct cell restricted = { .restricted = true };
    check_failure(run("x = 1\ny = = 2"), "error", EXECUTION,
                  "Invalid Python syntax: invalid syntax (line 2)");
    check_failure(run_how("x = 1\ny = = 2", restricted), "policy", VIOLATION,
                  "Invalid Python syntax: invalid syntax (line 2)");
    check_failure(run("return 5"), "error", EXECUTION,
                  "Invalid Python syntax: 'return' outside function (line 1)");
    check_failure(run_bytes("x\0y", 3, (struct cell){ 0 }), "error", EXECUTION,
                  "Invalid Python syntax: source code string cannot contain null bytes");
    auto_buf struct buf deep = BUF_INIT(1 << 20);
    for (int i = 0; i < 100000; i++)
        assert_int_equal(buf_append_str(&deep, "-", NULL), 0);
    assert_int_equal(buf_append_str(&deep, "1", NULL), 0);
    check_failure(run(deep.data), "error", EXECUTION,
                  "Invalid Python syntax: too many nested expressions");
}

static void test_validation(void **state)
{
    (void)state;
    check_failure(run(""), "error", "VALIDATION_ERROR", "python_code is required");
    check_failure(run(" \n\t"), "error", "VALIDATION_ERROR", "python_code is required");
    check_failure(run("x = '\xff'"), "error", "VALIDATION_ERROR",
                  "python_code is not valid UTF-8 (byte 5)");
    size_t n = (1 << 20) + 1;
    auto_free char *code = malloc(n);
    assert_non_null(code);
    memset(code, '#', n);
    check_failure(run_bytes(code, n, (struct cell){ 0 }), "error", "VALIDATION_ERROR",
                  "python_code has 1048577 bytes; at most 1048576 are allowed");
    auto_json json_t *r = run_bytes(code, n - 1, (struct cell){ 0 });
    check_json(r, "verdict", "\"ok\"");
}

static void test_exit(void **state)
{
    (void)state;
    check_ok("kept = 1\nexit()");
    check_ok("import sys\nsys.exit(0)");
    check_ok("import asyncio\nawait asyncio.sleep(0)\nsys.exit()");
    check_failure(run("raise SystemExit(3)"), "error", EXECUTION, "SystemExit: 3 (line 1)");
    check_failure(run("import sys\nsys.exit('no data')"), "error", EXECUTION,
                  "SystemExit: no data (line 2)");
    check_table("kept", "[\"value\"]", "[[1]]");
}

/* ---- verdicts ---- */

static void test_verdicts(void **state)
{
    (void)state;
    check_failure(run("raise MemoryError"), "memory", EXECUTION, "MemoryError (line 1)");
    auto_json json_t *huge = run("np.empty(1 << 50)");
    check_json(huge, "verdict", "\"memory\"");
    check_failure(run("with open('/dev/full', 'w') as f:\n    f.write('x')"), "filesize", EXECUTION,
                  "OSError: [Errno 28] No space left on device (line 1)");
    check_failure(run("import os, errno\nraise OSError(errno.EFBIG, os.strerror(errno.EFBIG))"),
                  "filesize", EXECUTION, "OSError: [Errno 27] File too large (line 2)");
    check_failure(run("raise OSError(errno.EDQUOT, 'quota')"), "filesize", EXECUTION,
                  "OSError: [Errno 122] quota (line 1)");
    check_failure(run("raise BlockingIOError(errno.EAGAIN, 'a pipe')"), "error", EXECUTION,
                  "BlockingIOError: [Errno 11] a pipe (line 1)");
}

/* As another user, so that the limit holds for root too. */
static void run_with_one_process(const char *code, char *ret, size_t n)
{
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct rlimit one = { 0, 0 };
        if ((geteuid() == 0 && setresuid(54321, 54321, 54321) < 0) ||
            setrlimit(RLIMIT_NPROC, &one) < 0)
            _exit(1);
        start_session(NULL, NULL);
        const char *verdict = text_at(run(code), "verdict");
        _exit(write(fds[1], verdict, strlen(verdict)) > 0 ? 0 : 1);
    }
    close(fds[1]);
    ssize_t got = read(fds[0], ret, n - 1);
    close(fds[0]);
    ret[got > 0 ? got : 0] = '\0';
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void test_processes(void **state)
{
    (void)state;
    static const char *const cells[] = {
        "import os\nos.fork()",
        "import subprocess\nsubprocess.run(['true'])",
        "import threading\nthreading.Thread(target=print).start()",
    };
    for (size_t i = 0; i < ARRAY_SIZE(cells); i++) {
        char verdict[64];
        run_with_one_process(cells[i], verdict, sizeof(verdict));
        assert_string_equal(verdict, "processes");
    }
}

static void test_fork_in_cell(void **state)
{
    (void)state;
    /* The child must neither answer nor show anything, and must not go on as a second kernel. */
    check_table("import os\npid = os.fork()\nif pid == 0:\n    display('child')\nelse:\n"
                "    result = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])",
                "[\"value\"]", "[[0]]");
    assert_int_equal(json_array_size(events), 0);
}

/* ---- interrupts ---- */

static void on_sigint(int sig)
{
    (void)sig;
    sql_interrupt(engine);
    python_interrupt();
}

static void test_interrupt(void **state)
{
    (void)state;
    struct sigaction sa = { .sa_handler = on_sigint }, old, now;
    sigaction(SIGINT, &sa, &old);
    start_session(NULL, NULL);
    check_failure(run("import os\nkept = 1\nos.kill(os.getpid(), 2)\nwhile True:\n    pass"),
                  "interrupted", EXECUTION, "Interrupted (line 3)");
    check_table("kept", "[\"value\"]", "[[1]]");
    check_failure(
        run("import asyncio\nasyncio.get_running_loop().call_soon(os.kill, os.getpid(), 2)\n"
            "await asyncio.sleep(3600)"),
        "interrupted", EXECUTION, "Interrupted (line 3)");
    check_table("await asyncio.sleep(0, 5)", "[\"value\"]", "[[5]]");
    /* A cell that has made SIGINT its own gets it back. */
    check_ok("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)");
    check_failure(run("os.kill(os.getpid(), 2)\nwhile True:\n    pass"), "interrupted", EXECUTION,
                  "Interrupted (line 1)");
    check_ok("async def f(): pass\nasyncio.run(f())");
    sigaction(SIGINT, NULL, &now);
    assert_ptr_equal(now.sa_handler, on_sigint);
    /* While a value is written, no line is to blame. */
    check_failure(
        run("class Slow:\n    def __str__(self):\n        os.kill(os.getpid(), 2)\n        return ''\nresult = Slow()"),
        "interrupted", EXECUTION, "Interrupted");
    /* None that comes while nothing runs. */
    python_interrupt();
    check_ok("1 + 1");
    sigaction(SIGINT, &old, NULL);
    start_session(NULL, NULL);
}

static void on_alarm(int sig)
{
    on_sigint(sig);
}

static void test_interrupt_query(void **state)
{
    (void)state;
    struct sigaction sa = { .sa_handler = on_alarm }, old;
    sigaction(SIGALRM, &sa, &old);
    /* The timer repeats, since DuckDB forgets an interrupt that comes before the query runs. */
    check_failure(
        run("import signal\nsignal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)\ntry:\n"
            "    sql('SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range * b.range = 7')\n"
            "finally:\n    signal.setitimer(signal.ITIMER_REAL, 0)"),
        "interrupted", EXECUTION, "Interrupted (line 4)");
    sigaction(SIGALRM, &old, NULL);
    check_table("sql('SELECT 1 AS one')", "[\"one\"]", "[[1]]");
}

/* ---- streams ---- */

/* What the cell writes to descriptor `fd`. Must fit a pipe. */
static void capture(int fd, const char *code, char *ret, size_t n)
{
    int fds[2], saved = dup(fd);
    fflush(NULL);
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(dup2(fds[1], fd), fd);
    close(fds[1]);
    json_decref(run(code));
    assert_int_equal(dup2(saved, fd), fd);
    close(saved);
    ssize_t got = read(fds[0], ret, n - 1);
    close(fds[0]);
    ret[got > 0 ? got : 0] = '\0';
}

static void test_streams(void **state)
{
    (void)state;
    char out[400];
    capture(1, "print('a')\nprint('b \\ud800 \\u20ac', end='')", out, sizeof(out));
    assert_string_equal(out, "a\nb \\ud800 \xe2\x82\xac");
    capture(2, "import sys\nprint('e', file=sys.stderr)", out, sizeof(out));
    assert_string_equal(out, "e\n");
    capture(1, "import os\nprint('first')\nos.write(1, b'second\\n')\nNone", out, sizeof(out));
    assert_string_equal(out, "first\nsecond\n");
    /* Closing or replacing them lasts no longer than the cell. */
    check_ok("import sys\nsys.stdout.close()");
    capture(1, "print('again')", out, sizeof(out));
    assert_string_equal(out, "again\n");
    check_ok("import io\nsys.stdout = io.StringIO()");
    capture(1, "print('and again')", out, sizeof(out));
    assert_string_equal(out, "and again\n");
    check_failure(
        run("input('? ')"), "error", EXECUTION,
        "EOFError: only the cell itself can ask, not a process or thread that it started (line 1)");
}

/* ---- tables ---- */

static void test_tables(void **state)
{
    (void)state;
    start_session(NULL, NULL);
    check_table("len(orders), orders['total'].sum(), list(dfs), dfs['orders'] is orders",
                "[\"value\"]", "[[3],[7.5],[[\"orders\"]],[true]]");
    check_table("orders", "[\"id\",\"kind\",\"total\"]",
                "[[1,\"a\",1.5],[2,\"b\",2.5],[3,\"a\",3.5]]");
    /* What the user calls by that name is the user's. */
    check_ok("orders = 5");
    check_table("orders", "[\"value\"]", "[[5]]");
    check_failure(run("dfs['nothing']"), "error", EXECUTION, "KeyError: 'nothing' (line 1)");
    check_failure(run("nothing"), "error", EXECUTION,
                  "NameError: name 'nothing' is not defined (line 1)");
}

static void test_sql(void **state)
{
    (void)state;
    start_session(NULL, NULL);
    check_table("sql('SELECT kind, sum(total) AS s FROM orders GROUP BY kind ORDER BY kind')",
                "[\"kind\",\"s\"]", "[[\"a\",5.0],[\"b\",2.5]]");
    check_table("mine = pd.DataFrame({'id': [1, 3], 'w': [10, 30]})\n"
                "sql('SELECT o.kind, m.w FROM orders o JOIN mine m USING (id) ORDER BY 2')",
                "[\"kind\",\"w\"]", "[[\"a\",10],[\"a\",30]]");
    /* The dataset's tables win; a function's own frames are found. */
    check_table("orders = pd.DataFrame({'x': [1]})\nlen(sql('SELECT * FROM orders'))",
                "[\"value\"]", "[[3]]");
    check_table(
        "def f():\n    inner = pd.DataFrame({'q': [4]})\n    return sql('SELECT q FROM inner_')\n"
        "def g():\n    inner_ = pd.DataFrame({'q': [4]})\n    return sql('SELECT q FROM inner_')\ng()",
        "[\"q\"]", "[[4]]");
    auto_json json_t *r = run("x = 1\nsql('SELEC 1')");
    const char *message = text_at(json_object_get(r, "error"), "message");
    assert_true(str_starts(message, "SqlError: Parser Error: syntax error at or near \"SELEC\""));
    assert_true(str_ends(message, "(line 2)"));
    check_table(
        "try:\n    sql('SELECT * FROM nowhere')\nexcept RuntimeError as e:\n    result = 'nowhere' in str(e)",
        "[\"value\"]", "[[true]]");
    check_failure(run("sql(5)"), "error", EXECUTION,
                  "TypeError: sql() takes a query as text, not int (line 1)");
}

/* ---- policies ---- */

struct policy_case {
    const char *code, *message; /* NULL: allowed */
};

static void check_policy(const struct policy_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        json_t *r = run_how(cases[i].code, (struct cell){ .restricted = true });
        if (cases[i].message) {
            check_failure(r, "policy", VIOLATION, cases[i].message);
            continue;
        }
        if (!json_is_null(json_object_get(r, "error")))
            print_error("%s: %s\n", cases[i].code, text_at(json_object_get(r, "error"), "message"));
        check_json(r, "verdict", "\"ok\"");
        json_decref(r);
    }
}

static void test_policy_tree(void **state)
{
    (void)state;
    static const struct policy_case cases[] = {
        { "import os", "Blocked import: os (line 1)" },
        { "x = 1\nimport os.path as p", "Blocked import: os (line 2)" },
        { "from subprocess import run", "Blocked import: subprocess (line 1)" },
        { "import foo.bar", "Import not allowed: foo (line 1)" },
        { "import _thread", "Blocked import: _thread (line 1)" },
        { "import urllib.request", "Import not allowed: urllib.request (line 1)" },
        { "from urllib import request", "Import not allowed: urllib (line 1)" },
        { "from . import x", "Import not allowed: . (line 1)" },
        { "\nopen('x')", "Blocked call: open (line 2)" },
        { "exec('1')", "Blocked call: exec (line 1)" },
        { "eval('1')", "Blocked call: eval (line 1)" },
        { "compile('1', '', 'eval')", "Blocked call: compile (line 1)" },
        { "__import__('os')", "Blocked call: __import__ (line 1)" },
        { "input()", "Blocked call: input (line 1)" },
        { "globals()", "Blocked call: globals (line 1)" },
        { "locals()", "Blocked call: locals (line 1)" },
        { "vars()", "Blocked call: vars (line 1)" },
        { "breakpoint()", "Blocked call: breakpoint (line 1)" },
        { "os.system('true')", "Blocked module access: os (line 1)" },
        { "pd.compat.os.getcwd()", "Blocked module access: os (line 1)" },
        { "pd.read_csv('/data/x.csv')", "Blocked method: pd.read_csv (line 1)" },
        { "import pandas as frames\nframes.read_json('x')",
          "Blocked method: frames.read_json (line 2)" },
        { "from pandas import read_pickle", "Blocked method: pandas.read_pickle (line 1)" },
        { "np.loadtxt('x')", "Blocked method: np.loadtxt (line 1)" },
        { "import io\nio.open('x')", "Blocked method: io.open (line 2)" },
        { "pd.DataFrame().to_csv('x')", "Blocked method: to_csv (line 1)" },
        { "f = pd.DataFrame().to_pickle", "Blocked method: to_pickle (line 1)" },
        { "np.zeros(3).tofile('x')", "Blocked method: tofile (line 1)" },
        { "().__class__", "Blocked dunder access: __class__ (line 1)" },
        { "__builtins__", "Blocked dunder access: __builtins__ (line 1)" },
        /* The first in the text is the one that is named. */
        { "x = (\n ().__class__,\n open('y'))\nimport os",
          "Blocked dunder access: __class__ (line 2)" },
        { "def f():\n    import sys", "Blocked import: sys (line 2)" },
    };
    check_policy(cases, ARRAY_SIZE(cases));
}

static void test_policy_allows(void **state)
{
    (void)state;
    static const struct policy_case cases[] = {
        { "import pandas, numpy as np, math, statistics, re, datetime, json, random, collections, itertools, functools",
          NULL },
        { "import operator, string, uuid, hashlib, base64, urllib.parse, typing, dataclasses, enum, asyncio, decimal",
          NULL },
        { "import fractions, time, calendar, textwrap, heapq, bisect, copy, zoneinfo, csv, io, matplotlib.pyplot as plt",
          NULL },
        { "from __future__ import annotations\ndef f(x: nothing): pass", NULL },
        { "from collections import Counter\nfrom urllib import parse\nparse.quote('a b')", NULL },
        /* Libraries import what they need: only the user's own imports are looked at. */
        { "pd.DataFrame({'a': [1]}).to_xml(parser='etree')", NULL },
        { "pd.DataFrame({'a': [1]}).to_html()", NULL },
        { "import time\ntime.strptime('2024', '%Y').tm_year", NULL },
        { "from datetime import datetime\ndatetime.utcnow().year", NULL }, /* warns from 3.12 on */
        { "class A:\n    def __init__(self):\n        super().__init__()\n        self.x = 1\nA().x",
          NULL },
        { "signal = pd.Series([1, 2])\nsignal.mean()", NULL },
        { "signal.sum()", NULL },
        { "len(orders), sql('SELECT 1'), dfs['orders']", NULL },
        { "__result__ = __name__", NULL },
        { "import asyncio\nawait asyncio.sleep(0)", NULL },
        { "getattr('x', 'upper')()", NULL },
    };
    check_policy(cases, ARRAY_SIZE(cases));
}

/* What the tree does not show is refused when it happens. */
static void test_policy_run_time(void **state)
{
    (void)state;
    static const struct policy_case cases[] = {
        { "f = [open][0]\nf('/etc/passwd')", "Blocked call: open (line 2)" },
        { "x = 1\ngetattr(x, '__cl' + 'ass__')", "Blocked dunder access: __class__ (line 2)" },
        { "from random import _os", "Blocked import: os (line 1)" },
        { "from statistics import sys", "Blocked import: sys (line 1)" },
    };
    check_policy(cases, ARRAY_SIZE(cases));
    /* A function of an open cell keeps what it was born with; a restricted one too. */
    check_ok("def reader():\n    import os\n    return os.sep");
    auto_json json_t *r = run_how("reader()", (struct cell){ .restricted = true });
    check_json(r, "rows", "[[\"/\"]]");
    check_ok("import os\nos.sep, open('/dev/null').close()");
    check_policy((const struct policy_case[]){ { "os.sep", "Blocked module access: os (line 1)" } },
                 1);
}

static void test_policy_lists(void **state)
{
    (void)state;
    static const struct policy_case cases[] = {
        { "import xml.dom", NULL },
        { "import os", "Blocked import: os (line 1)" }, /* blocked wins */
        { "import json", "Blocked import: json (line 1)" },
        { "import fractions", NULL },
        { "import html", "Import not allowed: html (line 1)" },
    };
    start_session("xml, os", "json");
    check_policy(cases, ARRAY_SIZE(cases));
    start_session(NULL, NULL);
}

int main(int argc, char **argv)
{
    if (argc > 1 && str_eq(argv[1], "--bad-preload"))
        return bad_preload();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_thread),
        cmocka_unit_test(test_interpreter),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_sources),
        cmocka_unit_test(test_bad_preload),
        cmocka_unit_test(test_forks_differ),
        cmocka_unit_test(test_streams_of_kernels),
        cmocka_unit_test(test_namespace),
        cmocka_unit_test(test_await),
        cmocka_unit_test(test_error),
        cmocka_unit_test(test_error_of_earlier_cell),
        cmocka_unit_test(test_hostile_errors),
        cmocka_unit_test(test_syntax),
        cmocka_unit_test(test_validation),
        cmocka_unit_test(test_exit),
        cmocka_unit_test(test_verdicts),
        cmocka_unit_test(test_processes),
        cmocka_unit_test(test_fork_in_cell),
        cmocka_unit_test(test_interrupt),
        cmocka_unit_test(test_interrupt_query),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_sql),
        cmocka_unit_test(test_policy_tree),
        cmocka_unit_test(test_policy_allows),
        cmocka_unit_test(test_policy_run_time),
        cmocka_unit_test(test_policy_lists),
    };
    return cmocka_run_group_tests(tests, start_python, stop_python);
}
