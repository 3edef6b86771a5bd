/* The table of compat_settings.h. */

#include "base/compat_settings.h"

#include "base/macros.h"
#include "base/str.h"

#define ANALYST "CSV Analyst Chat"
#define AGENT "sandbox-agent"
#define TWO_TOOLS "Sandboxed Agent"

#define NO_MICROSANDBOX "read only with SANDBOX_PROVIDER=microsandbox, which is refused"
#define NO_PYODIDE "code runs in CPython inside the jail, not in Pyodide on Node.js; unset it"

static const struct compat_setting rows[] = {
    { ANALYST, "DATASETS_DIR", "datasets", COMPAT_SAME, "", "", "" },
    { ANALYST, "CAPSULE_DB_PATH", "agent-server/capsules.db", COMPAT_SAME, "", "", "" },
    { ANALYST, "STORAGE_PROVIDER", "sqlite", COMPAT_SAME, "", "", "" },
    { ANALYST, "LLM_PROVIDER", "auto", COMPAT_SAME, "", "", "" },
    { ANALYST, "OPENAI_API_KEY", "", COMPAT_SAME, "", "", "" },
    { ANALYST, "OPENAI_MODEL", "gpt-4o-mini", COMPAT_SAME, "", "", "" },
    { ANALYST, "ANTHROPIC_API_KEY", "", COMPAT_SAME, "", "", "" },
    { ANALYST, "ANTHROPIC_MODEL", "claude-3-5-sonnet-20240620", COMPAT_SAME, "", "", "" },
    { ANALYST, "RUN_TIMEOUT_SECONDS", "10", COMPAT_SAME, "", "", "" },
    { ANALYST, "MAX_ROWS", "200", COMPAT_SAME, "", "", "" },
    { ANALYST, "MAX_OUTPUT_BYTES", "65536", COMPAT_SAME, "", "", "" },
    { ANALYST, "ENABLE_PYTHON_EXECUTION", "true", COMPAT_SAME, "", "", "" },
    { ANALYST, "THREAD_HISTORY_WINDOW", "12", COMPAT_SAME, "", "", "" },
    { ANALYST, "LOG_LEVEL", "info", COMPAT_SAME, "", "",
      "Python's names of levels are known, too" },
    { ANALYST, "SANDBOX_PROVIDER", "docker", COMPAT_SAME, "", "", "" },
    { ANALYST, "RUNNER_IMAGE", "csv-analyst-runner:test", COMPAT_SAME, "", "", "" },
    { ANALYST, "MSB_SERVER_URL", "http://127.0.0.1:5555/api/v1/rpc", COMPAT_IDLE, "", "",
      NO_MICROSANDBOX },
    { ANALYST, "MSB_API_KEY", "", COMPAT_IDLE, "", "", NO_MICROSANDBOX },
    { ANALYST, "MSB_NAMESPACE", "default", COMPAT_IDLE, "", "", NO_MICROSANDBOX },
    { ANALYST, "MSB_MEMORY_MB", "512", COMPAT_IDLE, "", "", NO_MICROSANDBOX },
    { ANALYST, "MSB_CPUS", "1.0", COMPAT_IDLE, "", "", NO_MICROSANDBOX },
    { ANALYST, "MSB_CLI_PATH", "", COMPAT_IDLE, "", "", NO_MICROSANDBOX },
    { ANALYST, "MSB_FALLBACK_IMAGE", "python:3.11-slim", COMPAT_IDLE, "", "", NO_MICROSANDBOX },
    { ANALYST, "RUN_MICROSANDBOX_TESTS", "", COMPAT_IDLE, "", "",
      "read only by that system's own tests" },
    { ANALYST, "K8S_KEEP_JOBS", "", COMPAT_IDLE, "", "",
      "read only with SANDBOX_PROVIDER=k8s, which is refused" },
    { AGENT, "OPENAI_API_KEY", "", COMPAT_SAME, "", "", "" },
    { AGENT, "SANDBOX_RUNTIME", "docker", COMPAT_AS, "SANDBOX_PROVIDER", "", "" },
    { AGENT, "E2B_API_KEY", "", COMPAT_IDLE, "", "",
      "read only with SANDBOX_RUNTIME=e2b, which is refused" },
    { AGENT, "REDIS_HOST", "localhost", COMPAT_REFUSED, "", "",
      "threads are kept in the store (STORAGE_PROVIDER), not in Redis; unset it" },
    { AGENT, "REDIS_PORT", "6379", COMPAT_REFUSED, "", "",
      "threads are kept in the store (STORAGE_PROVIDER), not in Redis; unset it" },
    { TWO_TOOLS, "OPENAI_API_KEY", "", COMPAT_SAME, "", "", "" },
    { TWO_TOOLS, "RATE_LIMIT_WINDOW_MS", "60000", COMPAT_SAME, "", "", "" },
    { TWO_TOOLS, "RATE_LIMIT_MAX", "20", COMPAT_SAME, "", "", "" },
    { TWO_TOOLS, "MAX_INPUT_CHARS", "4000", COMPAT_SAME, "", "", "" },
    { TWO_TOOLS, "SESSION_TTL_S", "600", COMPAT_AS, "SESSION_TTL_SECONDS", "", "" },
    { TWO_TOOLS, "SESSION_MAX_BYTES", "5242880", COMPAT_AS, "SESSION_QUOTA_BYTES", "", "" },
    { TWO_TOOLS, "SESSION_BASE_DIR", "/tmp/sandbox-sessions", COMPAT_REFUSED, "", "",
      "files of sessions are kept below RIDDLE_HOME; set that" },
    { TWO_TOOLS, "SANDBOX_TIMEOUT_S", "6", COMPAT_AS, "RUN_TIMEOUT_SECONDS", "", "" },
    { TWO_TOOLS, "SANDBOX_AS_MB", "768", COMPAT_AS, "RIDDLE_MEMORY", "m", "" },
    { TWO_TOOLS, "SANDBOX_ECHO_CODE", "", COMPAT_FIXED, "1|true|yes", "",
      "answers always carry the code that ran" },
    { TWO_TOOLS, "CPYTHON_TIMEOUT_S", "15", COMPAT_AS, "RUN_TIMEOUT_SECONDS", "", "" },
    { TWO_TOOLS, "CPYTHON_AS_MB", "0", COMPAT_AS, "RIDDLE_MEMORY", "m", "" },
    { TWO_TOOLS, "CPYTHON_FSIZE_MB", "50", COMPAT_AS, "RIDDLE_FILE_SIZE", "m", "" },
    { TWO_TOOLS, "CPYTHON_NOFILE", "64", COMPAT_AS, "RIDDLE_OPEN_FILES", "", "" },
    { TWO_TOOLS, "CPYTHON_DATA_ROOT", "/data", COMPAT_FIXED, "/data", "",
      "code finds its files in /data" },
    { TWO_TOOLS, "CPYTHON_BIN", "", COMPAT_REFUSED, "", "",
      "riddle-kernel has CPython inside and starts no interpreter; unset it, or set RIDDLE_KERNEL" },
    { TWO_TOOLS, "NODE_BIN", "", COMPAT_REFUSED, "", "", NO_PYODIDE },
    { TWO_TOOLS, "PYODIDE_INDEX_URL", "", COMPAT_REFUSED, "", "", NO_PYODIDE },
    { TWO_TOOLS, "BACKEND_URL", "", COMPAT_REFUSED, "", "",
      "the page is served by Riddle itself; unset it" },
};

static const struct {
    const char *setting, *theirs, *ours;
} values[] = {
    { "LOG_LEVEL", "warning", "warn" },
    { "LOG_LEVEL", "critical", "error" },
    { "LOG_LEVEL", "fatal", "error" },
    { "LOG_LEVEL", "notset", "debug" },
};

static const struct compat_default defaults[] = {
    { "RATE_LIMIT_MAX", "RATE_LIMIT_WINDOW_MS", "20" },
    { "RATE_LIMIT_MAX", "SESSION_MAX_BYTES", "20" },
    { "RATE_LIMIT_MAX", "SESSION_TTL_S", "20" },
};

const struct compat_default *compat_default_at(size_t i)
{
    return i < ARRAY_SIZE(defaults) ? &defaults[i] : NULL;
}

const struct compat_setting *compat_setting_at(size_t i)
{
    return i < ARRAY_SIZE(rows) ? &rows[i] : NULL;
}

const char *compat_value(const char *setting, const char *text)
{
    for (size_t i = 0; i < ARRAY_SIZE(values); i++)
        if (str_eq(values[i].setting, setting) && str_ieq(values[i].theirs, text))
            return values[i].ours;
    return text;
}
