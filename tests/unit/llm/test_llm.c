/* Which provider the settings choose, and what is refused before anything is sent. */

#include "base/check.h"
#include "llm/llm_impl.h"

static void set(const char *name, const char *value)
{
    value ? setenv(name, value, 1) : unsetenv(name);
}

/* The provider for these settings, or the error's message. */
static const char *choose(const char *provider, const char *openai_key, const char *openai_url,
                          const char *anthropic_key)
{
    static struct err err;
    static char name[32];
    struct config cfg;
    struct llm *llm;
    uv_loop_t loop;

    set("LLM_PROVIDER", provider);
    set("OPENAI_API_KEY", openai_key);
    set("OPENAI_BASE_URL", openai_url);
    set("ANTHROPIC_API_KEY", anthropic_key);
    set("ANTHROPIC_BASE_URL", NULL);
    set("OPENAI_MODEL", NULL);
    err = (struct err)ERR_INIT;
    assert_works(config_load(&cfg, NULL, &err), &err);
    uv_loop_init(&loop);
    if (llm_create(&loop, &cfg, &llm, &err) == 0) {
        strcpy(name, llm_provider(llm));
        assert_int_equal(llm_is_builtin(llm), strcmp(name, "builtin") == 0);
        assert_string_equal(llm_model(llm), llm_is_builtin(llm) ? "" :
                                            name[0] == 'o'      ? "gpt-6-luna" :
                                                                  "claude-sonnet-5-5");
        llm_destroy(llm);
    } else {
        assert_int_equal(err.code, ERR_CONFIG);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    config_finish(&cfg);
    return err.code ? err.message : name;
}

static void test_choice(void **state)
{
    (void)state;
    assert_string_equal(choose(NULL, NULL, NULL, NULL), "builtin");
    assert_string_equal(choose("auto", "k", NULL, "k"), "openai-responses");
    assert_string_equal(choose("auto", NULL, NULL, "k"), "anthropic");
    assert_string_equal(choose("auto", NULL, "http://localhost:11434/v1", "k"), "openai");
    assert_string_equal(choose("auto", "", "", ""), "builtin");
    assert_string_equal(choose("auto", "k", "", ""), "openai-responses");
    assert_string_equal(choose("openai", "k", "https://api.openai.com/v1", NULL),
                        "openai-responses");
    assert_string_equal(choose("openai-chat", "k", NULL, NULL), "openai");
    assert_string_equal(choose("openai-responses", NULL, "http://localhost:11434/v1", NULL),
                        "openai-responses");
    assert_string_equal(choose("openai-responses", NULL, NULL, "k"),
                        "LLM_PROVIDER is 'openai-responses', but OPENAI_API_KEY is not set");
    assert_string_equal(choose("anthropic", "k", NULL, "k"), "anthropic");
    assert_string_equal(choose("builtin", "k", NULL, "k"), "builtin");
    assert_string_equal(choose("openai", NULL, "http://localhost:11434/v1", NULL), "openai");
    assert_string_equal(choose("openai", NULL, NULL, "k"),
                        "LLM_PROVIDER is 'openai', but OPENAI_API_KEY is not set");
    assert_string_equal(choose("anthropic", "k", NULL, NULL),
                        "LLM_PROVIDER is 'anthropic', but ANTHROPIC_API_KEY is not set");
    assert_string_equal(choose("openai", "k", "ftp://x/v1", NULL),
                        "OPENAI_BASE_URL must be an http or https URL");
    assert_string_equal(choose("openai", "k", "file:///etc/passwd", NULL),
                        "OPENAI_BASE_URL must be an http or https URL");
    assert_string_equal(choose("openai", "k", "nonsense", NULL),
                        "OPENAI_BASE_URL must be an http or https URL");
}

static void test_builtin_has_no_model(void **state)
{
    struct config cfg;
    struct llm *llm;
    struct err err = ERR_INIT;
    struct llm_request req = { .system = "" };
    struct llm_events events = { .done = (void (*)(void *, const struct llm_reply *,
                                                   const struct err *))abort };
    uv_loop_t loop;

    (void)state;
    set("LLM_PROVIDER", "builtin");
    assert_works(config_load(&cfg, NULL, &err), &err);
    uv_loop_init(&loop);
    assert_works(llm_create(&loop, &cfg, &llm, &err), &err);
    assert_fails(llm_start(llm, &req, &events, NULL, &err), &err, ERR_INTERNAL,
                 "there is no model to ask");
    llm_destroy(llm);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    config_finish(&cfg);
}

static void test_urls(void **state)
{
    static const struct {
        const char *base, *optional, *want;
    } cases[] = { { "http://h/v1", "", "http://h/v1/x" },
                  { "http://h/v1/", "", "http://h/v1/x" },
                  { "http://h", "/v1", "http://h/v1/x" },
                  { "http://h/v1/", "/v1", "http://h/v1/x" },
                  { "http://h/api///", "/v1", "http://h/api/v1/x" },
                  { "https://r.openai.azure.com/openai/deployments/d?api-version=2025-04-01", "",
                    "https://r.openai.azure.com/openai/deployments/d/x?api-version=2025-04-01" } };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        auto_free char *url = llm_join_url(cases[i].base, cases[i].optional, "/x");

        assert_string_equal(url, cases[i].want);
    }
}

static void test_origins(void **state)
{
    char origin[CLIENT_ORIGIN_SIZE];

    (void)state;
    client_origin("https://user:password@model.example:8443/v1?token=x", origin);
    assert_string_equal(origin, "https://model.example:8443");
    client_origin("http://[::1]:1/", origin);
    assert_string_equal(origin, "http://[::1]:1");
    client_origin("gopher://h/", origin);
    assert_string_equal(origin, "");
}

static void test_prices(void **state)
{
    (void)state;
    assert_float_equal(llm_price("gpt-4o-mini", 1000000, 0, 0, 1000000), 0.75, 1e-9);
    assert_float_equal(llm_price("gpt-4o-mini-2024-07-18", 1000000, 0, 0, 0), 0.15, 1e-9);
    assert_float_equal(llm_price("gpt-4o-2024-08-06", 1000000, 0, 0, 0), 2.5, 1e-9);
    assert_float_equal(llm_price("claude-sonnet-4-5-20250929", 0, 0, 0, 1000000), 15, 1e-9);
    assert_float_equal(llm_price("claude-sonnet-5-5", 1000000, 800000, 100000, 0),
                       0.2 + 0.08 + 0.25, 1e-9);
    assert_float_equal(llm_price("openai/gpt-6-luna", 1000000, 500000, 0, 0), 0.055, 1e-9);
    assert_float_equal(llm_price("anthropic/claude-opus-5.5", 0, 0, 0, 1000000), 20, 1e-9);
    assert_float_equal(llm_price("gpt-4o-audio", 1, 0, 0, 1), -1, 1e-9);
    assert_float_equal(llm_price("llama3.1:8b", 1, 0, 0, 1), -1, 1e-9);
    assert_float_equal(llm_price("", 1, 0, 0, 1), -1, 1e-9);
    assert_string_equal(llm_ends("gpt-4o-mini-2024-07-18"), "2027-01-14");
    assert_string_equal(llm_ends("gpt-6-luna"), "");
    assert_true(llm_model_flags("claude-sonnet-5-5") & LLM_MODEL_ADAPTIVE);
    assert_false(llm_model_flags("claude-sonnet-4-5") & LLM_MODEL_ADAPTIVE);
    assert_true(llm_model_flags("google/gemini-3-pro") & LLM_MODEL_SEES);
    assert_int_equal(llm_model_flags("llama3.1:8b"), 0);
}

/* The key goes, wherever it stands; a word that only looks like one stays. */
static void test_show(void **state)
{
    char shown[64];

    (void)state;
    assert_string_equal(
        llm_show("a sk-12345678 b sk-12345678", "sk-12345678", shown, sizeof(shown)),
        "a [key] b [key]");
    assert_string_equal(llm_show("EMPTY choices", "EMPTY", shown, sizeof(shown)), "EMPTY choices");
    /* It is taken out before the text is cut, so not even its beginning is left. */
    llm_show("0123456789012345678901234567890123456789012345678901234567 sk-12345678",
             "sk-12345678", shown, sizeof(shown));
    assert_null(strstr(shown, "sk-"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choice), cmocka_unit_test(test_builtin_has_no_model),
        cmocka_unit_test(test_urls),   cmocka_unit_test(test_origins),
        cmocka_unit_test(test_prices), cmocka_unit_test(test_show),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
