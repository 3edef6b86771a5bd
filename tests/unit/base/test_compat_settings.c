/* Variables of other systems: each has its effect, or is refused with what to set instead. */

#include <stdio.h>
#include <unistd.h>
#include "base/compat_settings.h"
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

static int clean(void **state)
{
    (void)state;
    clearenv();
    unlink(dotenv);
    return 0;
}

static void load(struct config *c)
{
    struct err e = ERR_INIT;
    int r = config_load(c, dotenv, &e);

    if (r < 0)
        fail_msg("%s", e.message);
}

/* With that one variable in the environment. */
static void refuses(const char *name, const char *value, const char *message)
{
    struct config c = { .storage = NULL };
    struct err e = ERR_INIT;

    clearenv();
    setenv(name, value, 1);
    assert_fails(config_load(&c, dotenv, &e), &e, ERR_CONFIG, message);
}

static void test_table(void **state)
{
    auto_buf struct buf page = BUF_INIT(1u << 20);
    struct err e = ERR_INIT;
    char cell[80];
    const struct compat_setting *c;
    size_t n = 0;

    (void)state;
    assert_int_equal(config_print_markdown(&page, &e), 0);
    for (; (c = compat_setting_at(n)); n++) {
        const char *setting = c->kind == COMPAT_SAME ? c->name :
                              c->kind == COMPAT_AS   ? c->ours :
                                                       NULL;

        if (setting) {
            snprintf(cell, sizeof(cell), "\n| `%s` | ", setting);
            if (!strstr(buf_cstr(&page), cell))
                fail_msg("%s: there is no setting %s", c->name, setting);
        } else {
            assert_true(*c->text);
            /* A name of ours is never of the other kinds. */
            snprintf(cell, sizeof(cell), "\n| `%s` | ", c->name);
            assert_null(strstr(buf_cstr(&page), cell));
        }
    }
    assert_true(n > 40);
}

static void test_stands_for(void **state)
{
    struct config c;

    (void)state;
    setenv("SESSION_TTL_S", "77", 1);
    setenv("SESSION_MAX_BYTES", "5000", 1);
    setenv("CPYTHON_TIMEOUT_S", "15", 1);
    setenv("CPYTHON_AS_MB", "300", 1);
    setenv("CPYTHON_FSIZE_MB", "50", 1);
    setenv("CPYTHON_NOFILE", "64", 1);
    setenv("SANDBOX_RUNTIME", "docker", 1);
    setenv("SANDBOX_ECHO_CODE", "1", 1);
    setenv("CPYTHON_DATA_ROOT", "/data", 1);
    load(&c);
    assert_int_equal(c.session_ttl_s, 77);
    assert_int_equal(c.session_quota_bytes, 5000);
    assert_int_equal(c.run_timeout_s, 15);
    assert_int_equal(c.memory_bytes, 300 << 20);
    assert_int_equal(c.file_bytes, 50 << 20);
    assert_int_equal(c.open_files, 64);
    assert_string_equal(c.sandbox_provider, "docker");
    config_finish(&c);
}

static void test_two_names(void **state)
{
    static const char file[] = "SESSION_TTL_S=600\nSANDBOX_AS_MB=512\n";
    struct config c;

    (void)state;
    /* Equal values agree, whichever way they are written. */
    setenv("SANDBOX_AS_MB", "256", 1);
    setenv("CPYTHON_AS_MB", "256", 1);
    setenv("RIDDLE_MEMORY", "256m", 1);
    load(&c);
    assert_int_equal(c.memory_bytes, 256 << 20);
    config_finish(&c);

    /* The environment wins over the file, by any of the names. */
    clearenv();
    assert_int_equal(fd_replace_file(dotenv, file, sizeof(file) - 1, 0600, NULL), 0);
    setenv("SESSION_TTL_SECONDS", "5", 1);
    setenv("REDIS_HOST", "", 1);
    load(&c);
    assert_int_equal(c.session_ttl_s, 5);
    assert_int_equal(c.memory_bytes, 512 << 20);
    config_finish(&c);

    setenv("SESSION_TTL_S", "6", 1);
    struct err e = ERR_INIT;
    assert_fails(
        config_load(&c, dotenv, &e), &e, ERR_CONFIG,
        "SESSION_TTL_SECONDS and SESSION_TTL_S are the same setting with different values; set only "
        "SESSION_TTL_SECONDS");
    clearenv();
    setenv("SANDBOX_TIMEOUT_S", "6", 1);
    setenv("CPYTHON_TIMEOUT_S", "15", 1);
    assert_fails(
        config_load(&c, dotenv, &e), &e, ERR_CONFIG,
        "SANDBOX_TIMEOUT_S and CPYTHON_TIMEOUT_S are the same setting with different values; set only "
        "RUN_TIMEOUT_SECONDS");
}

static void test_refused(void **state)
{
    static const char file[] = "OPENAI_MODEL=x\nREDIS_PORT=6379\n";
    struct config c = { .storage = NULL };
    struct err e = ERR_INIT;
    char message[200];

    (void)state;
    refuses("SANDBOX_PROVIDER", "microsandbox",
            "SANDBOX_PROVIDER is 'microsandbox', but must be local or docker");
    refuses(
        "SANDBOX_RUNTIME", "e2b",
        "SANDBOX_RUNTIME stands for SANDBOX_PROVIDER: SANDBOX_PROVIDER is 'e2b', but must be local or docker");
    refuses(
        "CPYTHON_AS_MB", "0",
        "CPYTHON_AS_MB stands for RIDDLE_MEMORY: RIDDLE_MEMORY is '0m', but must be a size between 64m and 1t (bytes, or "
        "with k, m, g or t)");
    refuses(
        "REDIS_HOST", "localhost",
        "REDIS_HOST is set, but threads are kept in the store (STORAGE_PROVIDER), not in Redis; unset it");
    refuses("SESSION_BASE_DIR", "/x",
            "SESSION_BASE_DIR is set, but files of sessions are kept below RIDDLE_HOME; set that");
    refuses("SANDBOX_ECHO_CODE", "no",
            "SANDBOX_ECHO_CODE is 'no', but answers always carry the code that ran; unset it");
    refuses("CPYTHON_DATA_ROOT", "/mnt",
            "CPYTHON_DATA_ROOT is '/mnt', but code finds its files in /data; unset it");

    clearenv();
    assert_int_equal(fd_replace_file(dotenv, file, sizeof(file) - 1, 0600, NULL), 0);
    snprintf(
        message, sizeof(message),
        "'%s' line 2: REDIS_PORT is set, but threads are kept in the store (STORAGE_PROVIDER), not in Redis; unset it",
        dotenv);
    assert_fails(config_load(&c, dotenv, &e), &e, ERR_CONFIG, message);
}

/* The .env that CSV Analyst Chat's people have, as its documentation lists it. */
static void test_file_of_another_system(void **state)
{
    static const char file[] =
        "LLM_PROVIDER=auto\nOPENAI_API_KEY=\nOPENAI_MODEL=gpt-4o-mini\nANTHROPIC_API_KEY=\nDATASETS_DIR=datasets\n"
        "CAPSULE_DB_PATH=agent-server/capsules.db\nRUNNER_IMAGE=csv-analyst-runner:test\nRUN_TIMEOUT_SECONDS=10\nMAX_ROWS=200\n"
        "LOG_LEVEL=info\nSANDBOX_PROVIDER=docker\nMSB_SERVER_URL=http://127.0.0.1:5555/api/v1/rpc\nMSB_API_KEY=\n"
        "MSB_NAMESPACE=default\nMSB_MEMORY_MB=512\nMSB_CPUS=1.0\nMAX_OUTPUT_BYTES=65536\nENABLE_PYTHON_EXECUTION=true\n"
        "STORAGE_PROVIDER=sqlite\nTHREAD_HISTORY_WINDOW=12\n";
    struct config c;

    (void)state;
    assert_int_equal(fd_replace_file(dotenv, file, sizeof(file) - 1, 0600, NULL), 0);
    load(&c);
    assert_string_equal(c.runner_image, "csv-analyst-runner:test");
    assert_string_equal(c.sandbox_provider, "docker");
    config_finish(&c);
}

static void test_level_names(void **state)
{
    static const char *const names[][2] = { { "warning", "warn" },   { "WARNING", "warn" },
                                            { "critical", "error" }, { "Info", "info" },
                                            { "FATAL", "error" },    { "NOTSET", "debug" } };
    struct config c;

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        setenv("LOG_LEVEL", names[i][0], 1);
        load(&c);
        assert_string_equal(c.log_level, names[i][1]);
        config_finish(&c);
    }
    refuses("LOG_LEVEL", "loud", "LOG_LEVEL is 'loud', but must be debug, info, warn or error");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_table, clean),
        cmocka_unit_test_setup(test_stands_for, clean),
        cmocka_unit_test_setup(test_two_names, clean),
        cmocka_unit_test_setup(test_refused, clean),
        cmocka_unit_test_setup(test_file_of_another_system, clean),
        cmocka_unit_test_setup(test_level_names, clean),
    };

    return cmocka_run_group_tests(tests, open_scratch, close_scratch);
}
