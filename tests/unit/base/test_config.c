/*
 * Settings as the programs see them: the real table, the environment, .env files, and the page
 * printed from the table.
 */

#include <sys/stat.h>
#include <unistd.h>
#include "base/config.h"
#include "base/fdio.h"
#include "base/str.h"
#include "check.h"

static char dir[64], dotenv[80];

static int open_scratch(void **state)
{
    (void)state;
    make_scratch(dir);
    snprintf(dotenv, sizeof(dotenv), "%s/.env", dir);
    return 0;
}

static int close_scratch(void **state)
{
    (void)state;
    return fd_remove_tree(dir, NULL);
}

/* Each test begins with an empty environment and no .env. */
static int clean(void **state)
{
    (void)state;
    clearenv();
    unlink(dotenv);
    return 0;
}

static void put(const char *text, size_t len)
{
    assert_int_equal(fd_replace_file(dotenv, text, len, 0600, NULL), 0);
}

static void fails(const char *message)
{
    struct config c = { .storage = NULL };
    struct err e;

    assert_fails(config_load(&c, dotenv, &e), &e, ERR_CONFIG, message);
    assert_null(c.storage);
}

/* Fails in .env at that line. */
static void fails_in_file(const char *text, int line, const char *message)
{
    char whole[400];

    put(text, strlen(text));
    snprintf(whole, sizeof(whole), "'%s' line %d: %s", dotenv, line, message);
    fails(whole);
}

static struct config load(void)
{
    struct config c;
    struct err e;

    assert_works(config_load(&c, dotenv, &e), &e);
    return c;
}

static void test_defaults(void **state)
{
    struct config c = load();
    struct err e;

    (void)state;
    assert_string_equal(c.home, ".riddle");
    assert_string_equal(c.log_level, "info");
    assert_int_equal(c.pids, 64);
    assert_int_equal(c.memory_bytes, 512ll << 20);
    assert_true(c.cpus > 0);
    config_finish(&c);
    assert_null(c.storage);
    config_finish(&c); /* harmless */
    assert_works(config_load(&c, NULL, &e), &e);
    config_finish(&c);
}

static void test_environment(void **state)
{
    struct config c;

    (void)state;
    setenv("RIDDLE_PIDS", "100", 1);
    setenv("RIDDLE_MEMORY", "1G", 1);
    setenv("RIDDLE_CPUS", "0.5", 1);
    setenv("LOG_LEVEL", "DEBUG", 1);
    setenv("RIDDLE_HOME", "/srv/x", 1);
    setenv("MAX_ROWS", "", 1);       /* empty: the default */
    setenv("RIDDLE_PRELOAD", "", 1); /* text: empty */
    c = load();
    assert_int_equal(c.pids, 100);
    assert_int_equal(c.memory_bytes, 1ll << 30);
    assert_true(c.cpus == 0.5);
    assert_string_equal(c.log_level, "debug"); /* as the table spells it */
    assert_string_equal(c.home, "/srv/x");
    assert_int_equal(c.max_rows, 200);
    assert_string_equal(c.preload, "");
    config_finish(&c);
}

static void test_bad_values(void **state)
{
    static const struct {
        const char *name, *value, *message;
    } cases[] = {
        { "RIDDLE_PIDS", "many",
          "RIDDLE_PIDS is 'many', but must be a whole number between 1 and 4096" },
        { "RIDDLE_PIDS", "0", "RIDDLE_PIDS is '0', but must be a whole number between 1 and 4096" },
        { "RIDDLE_PIDS", "4097",
          "RIDDLE_PIDS is '4097', but must be a whole number between 1 and 4096" },
        { "RIDDLE_PIDS", "1e2",
          "RIDDLE_PIDS is '1e2', but must be a whole number between 1 and 4096" },
        { "RIDDLE_TMP_SIZE", "1k",
          "RIDDLE_TMP_SIZE is '1k', but must be a size between 1m and 1t (bytes, or with k, m, g or t)" },
        { "RIDDLE_TMP_SIZE", "2t",
          "RIDDLE_TMP_SIZE is '2t', but must be a size between 1m and 1t (bytes, or with k, m, g or t)" },
        { "RIDDLE_TMP_SIZE", "99999999999999999999",
          "RIDDLE_TMP_SIZE is '99999999999999999999', but must be a size between 1m and 1t (bytes, or with k, m, "
          "g or t)" },
        { "RIDDLE_CPUS", "nan", "RIDDLE_CPUS is 'nan', but must be a number between 0.05 and 256" },
        { "RIDDLE_CPUS", "0.01",
          "RIDDLE_CPUS is '0.01', but must be a number between 0.05 and 256" },
        { "RIDDLE_CPUS", "1.5x",
          "RIDDLE_CPUS is '1.5x', but must be a number between 0.05 and 256" },
        { "RIDDLE_CPUS", "1.5-",
          "RIDDLE_CPUS is '1.5-', but must be a number between 0.05 and 256" },
        { "LOG_LEVEL", "loud", "LOG_LEVEL is 'loud', but must be debug, info, warn or error" },
        { "LOG_LEVEL", "info|warn",
          "LOG_LEVEL is 'info|warn', but must be debug, info, warn or error" },
        { "RIDDLE_HOME", "/srv\n",
          "RIDDLE_HOME is '/srv?', but must be text without control characters" },
        { "RIDDLE_PIDZ", "1", "there is no setting RIDDLE_PIDZ; did you mean RIDDLE_PIDS?" },
        { "RIDDLE_ENTIRELY_DIFFERENT", "1",
          "there is no setting RIDDLE_ENTIRELY_DIFFERENT; docs/env.md lists all" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        clearenv();
        setenv(cases[i].name, cases[i].value, 1);
        fails(cases[i].message);
    }
}

static void test_dotenv(void **state)
{
    static const char text[] = "\xef\xbb\xbf# comment\r\n"
                               "\n"
                               "  export RIDDLE_PIDS = 70  # why\r\n"
                               "MAX_ROWS='33' # quoted\n"
                               "RIDDLE_HOME=\"/a b\\\\c\\\"d#e\"\n"
                               "RIDDLE_PRELOAD=x#y \n"
                               "RIDDLE_PYTHON_ALLOWED='a\\nb $HOME'\n"
                               "export\tRIDDLE_PYTHON_BLOCKED= # empty\n"
                               "exported=no setting of ours\n"
                               "SOMETHING_ELSE=is fine\n"
                               "RIDDLE_INODES=100\n"
                               "RIDDLE_INODES=200\n"
                               "LOG_FORMAT=json"; /* no newline at the end */
    struct config c;

    (void)state;
    put(text, sizeof(text) - 1);
    c = load();
    assert_int_equal(c.pids, 70);
    assert_int_equal(c.max_rows, 33);
    assert_string_equal(c.home, "/a b\\c\"d#e");
    assert_string_equal(c.preload, "x#y");
    assert_string_equal(c.python_allowed, "a\\nb $HOME");
    assert_string_equal(c.python_blocked, "");
    assert_int_equal(c.inodes, 200); /* the last wins */
    assert_string_equal(c.log_format, "json");
    config_finish(&c);

    setenv("RIDDLE_PIDS", "80", 1); /* the environment wins */
    c = load();
    assert_int_equal(c.pids, 80);
    config_finish(&c);

    setenv("RIDDLE_PIDS", "", 1); /* empty stands for the default, not for what .env says */
    c = load();
    assert_int_equal(c.pids, 64);
    config_finish(&c);

    put("", 0);
    c = load();
    config_finish(&c);
}

static void test_bad_dotenv(void **state)
{
    char message[300];
    static char big[70000];

    (void)state;
    fails_in_file("# ok\nno equals sign\n", 2, "expected NAME=value");
    fails_in_file("\n\n1X=2\n", 3, "the name before '=' must consist of letters, digits and '_'");
    fails_in_file("=2\n", 1, "the name before '=' must consist of letters, digits and '_'");
    fails_in_file("A B=2\n", 1, "the name before '=' must consist of letters, digits and '_'");
    fails_in_file("X=\"open\n", 1, "the quote is not closed");
    fails_in_file("X='closed\\'\nY='open\n", 2, "the quote is not closed");
    fails_in_file("X=\"open\\\"\n", 1, "the quote is not closed");
    fails_in_file("X='a' b\n", 1, "text follows the closing quote");
    fails_in_file("A=1\nRIDDLE_PIDS=many\n", 2,
                  "RIDDLE_PIDS is 'many', but must be a whole number between 1 and 4096");
    fails_in_file("A=1\n\nRIDLE=fine\nRIDDLE_JALE=full\n", 4,
                  "there is no setting RIDDLE_JALE; did you mean RIDDLE_JAIL?");
    put("A=1\nB=\0x\n", 9);
    snprintf(message, sizeof(message), "'%s' line 2: a NUL byte", dotenv);
    fails(message);

    memset(big, '#', sizeof(big));
    put(big, 65537);
    snprintf(message, sizeof(message),
             "cannot take settings from '%s': reading '%s': larger than the limit of 65536 bytes",
             dotenv, dotenv);
    fails(message);
    put(big, 65536);
    struct config c = load();
    config_finish(&c);

    unlink(dotenv);
    assert_int_equal(mkdir(dotenv, 0700), 0);
    snprintf(message, sizeof(message),
             "cannot take settings from '%s': reading '%s': cannot read: Is a directory", dotenv,
             dotenv);
    fails(message);
    assert_int_equal(rmdir(dotenv), 0);
}

static void test_markdown(void **state)
{
    auto_buf struct buf b = BUF_INIT(1 << 20), small = BUF_INIT(1000);
    struct err e;

    (void)state;
    assert_works(config_print_markdown(&b, &e), &e);
    assert_true(str_starts(buf_cstr(&b), "# Environment variables\n\n"));
    assert_non_null(
        strstr(buf_cstr(&b), "\n## General\n\n| Variable | Default | Allowed | Meaning |\n"));
    assert_non_null(strstr(
        buf_cstr(&b), "\n| `RIDDLE_PIDS` | `64` | a whole number between 1 and 4096 | Processes"));
    assert_non_null(strstr(buf_cstr(&b), "\n| `RIDDLE_KERNEL` | (empty) | text"));
    assert_fails(config_print_markdown(&small, &e), &e, ERR_TOO_LARGE,
                 "larger than the limit of 1000 bytes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_defaults, clean),
        cmocka_unit_test_setup(test_environment, clean),
        cmocka_unit_test_setup(test_bad_values, clean),
        cmocka_unit_test_setup(test_dotenv, clean),
        cmocka_unit_test_setup(test_bad_dotenv, clean),
        cmocka_unit_test_setup(test_markdown, clean),
    };

    return cmocka_run_group_tests(tests, open_scratch, close_scratch);
}
