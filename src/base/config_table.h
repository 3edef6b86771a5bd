#ifndef RIDDLE_BASE_CONFIG_TABLE_H
#define RIDDLE_BASE_CONFIG_TABLE_H

/*
 * Every setting, once: field, variable, default, what is allowed, what it means. docs/env.md is
 * printed from here.
 */

#include "base/limits.h"

#define CONFIG_TABLE                                                                                                                  \
    CONFIG_SECTION("General")                                                                                                         \
    CONFIG_STR(home, "RIDDLE_HOME", ".riddle",                                                                                        \
               "Directory of everything Riddle keeps: ingested tables, caches, the store.")                                           \
    CONFIG_ENUM(log_level, "LOG_LEVEL", "info", "debug|info|warn|error",                                                              \
                "Least severe event that is logged (to standard error).")                                                             \
    CONFIG_ENUM(log_format, "LOG_FORMAT", "kv", "kv|json",                                                                            \
                "One line per event: key=value, or JSON.")                                                                            \
    CONFIG_SECTION("Server")                                                                                                          \
    CONFIG_STR(                                                                                                                       \
        host, "RIDDLE_HOST", "127.0.0.1",                                                                                             \
        "Address that the server binds. Beyond loopback it needs RIDDLE_API_KEYS, or RIDDLE_ALLOW_OPEN.")                             \
    CONFIG_INT(port, "PORT", 8000, 0, 65535,                                                                                          \
               "Port that the server binds; 0 takes any free one and logs it.")                                                       \
    CONFIG_SECRET(                                                                                                                    \
        api_keys, "RIDDLE_API_KEYS", "",                                                                                              \
        "Bearer keys as `name:key,name2:key2`, each key at least 16 characters. A name owns its threads, uploads and "                \
        "sandboxes. Empty: no keys, and everybody is `local`.")                                                                       \
    CONFIG_SECRET(api_key, "RIDDLE_API_KEY", "",                                                                                      \
                  "Key that `riddle sandbox`, `threads`, `thread` and `bench-stream` send to a "                                      \
                  "server. Empty: the first of RIDDLE_API_KEYS.")                                                                     \
    CONFIG_BOOL(                                                                                                                      \
        allow_open, "RIDDLE_ALLOW_OPEN", false,                                                                                       \
        "Bind beyond loopback without keys: whoever reaches the port may run code in the sandbox.")                                   \
    CONFIG_STR(                                                                                                                       \
        allowed_hosts, "RIDDLE_ALLOWED_HOSTS", "",                                                                                    \
        "Host names that requests may name, separated by commas, besides addresses and localhost; `*` for any. "                      \
        "Other names are refused: that is how DNS rebinding looks.")                                                                  \
    CONFIG_STR(                                                                                                                       \
        cors_origins, "CORS_ORIGINS", "",                                                                                             \
        "Origins of other sites whose pages may use the API, such as `https://app.example`, separated by commas; "                    \
        "`*` for any.")                                                                                                               \
    CONFIG_INT(rate_limit_window_ms, "RATE_LIMIT_WINDOW_MS", 60000, 100, 86400000,                                                    \
               "Window of the rate limit.")                                                                                           \
    CONFIG_INT(rate_limit_max, "RATE_LIMIT_MAX", 1200, 0, 1000000000,                                                                 \
               "Messages to a chat of one key, or of one address without keys, in a window; "                                         \
               "0 for no limit. Other requests may be as many, and at least 1200. The default is "                                    \
               "20 where `RATE_LIMIT_WINDOW_MS`, `SESSION_MAX_BYTES` or `SESSION_TTL_S` is set.")                                     \
    CONFIG_STR(trusted_proxies, "TRUSTED_PROXIES", "",                                                                                \
               "Addresses of proxies, separated by commas, whose X-Forwarded-For names the "                                          \
               "client for the rate limit.")                                                                                          \
    CONFIG_INT(max_connections, "RIDDLE_MAX_CONNECTIONS", 4096, 8, 100000,                                                            \
               "Connections open at once; more wait until one closes.")                                                               \
    CONFIG_INT(max_input_chars, "MAX_INPUT_CHARS", 4000, 1, 1000000,                                                                  \
               "Characters of a question, all messages of the request together.")                                                     \
    CONFIG_BYTES(max_upload_bytes, "MAX_UPLOAD_BYTES", "4g", 1024, 1099511627776,                                                     \
                 "Bytes of one uploaded file.")                                                                                       \
    CONFIG_BYTES(upload_quota_bytes, "UPLOAD_QUOTA_BYTES", "20g", 0, 1125899906842624,                                                \
                 "Bytes of all uploads of one owner, their tables included; 0 for no limit.")                                         \
    CONFIG_INT(upload_ttl_s, "UPLOAD_TTL_SECONDS", 2592000, 0, 3153600000,                                                            \
               "How long an upload is kept (30 days); 0: until it is deleted.")                                                       \
    CONFIG_BYTES(run_quota_bytes, "RUN_QUOTA_BYTES", "10g", 0, 1125899906842624,                                                      \
                 "Bytes of all kept runs of one owner, figures included; past it the oldest "                                         \
                 "figures, then the oldest runs are removed. 0 for no limit.")                                                        \
    CONFIG_INT(run_ttl_s, "RUN_TTL_SECONDS", 0, 0, 3153600000,                                                                        \
               "How long a run is kept; 0: until it is deleted or RUN_QUOTA_BYTES is used up.")                                       \
    CONFIG_BYTES(thread_quota_bytes, "THREAD_QUOTA_BYTES", "2g", 0, 1125899906842624, \
                 "Bytes of all threads of one owner with their messages, and of what they told " \
                 "about data: words and verified questions. Past it new ones are refused " \
                 "until some are deleted. 0 for no limit.") \
    CONFIG_INT(                                                                                                                       \
        stop_timeout_s, "RIDDLE_STOP_TIMEOUT_SECONDS", 10, 0, 3600,                                                                   \
        "How long a server that was told to stop lets requests finish before it fails them.")                                         \
    CONFIG_BOOL(enable_python, "ENABLE_PYTHON_EXECUTION", true,                                                                       \
                "Whether requests may run Python; SQL and plans always may.")                                                         \
    CONFIG_SECTION("Chat")                                                                                                            \
    CONFIG_INT(thread_history_window, "THREAD_HISTORY_WINDOW", 12, 0, 200,                                                            \
               "Messages of a thread that a model is shown with a new one.")                                                          \
    CONFIG_INT(agent_max_calls, "AGENT_MAX_CALLS", 10, 1, 100,                                                                        \
               "Calls of the model for one message.")                                                                                 \
    CONFIG_INT(agent_max_tokens, "AGENT_MAX_TOKENS", 200000, 1000, 100000000,                                                         \
               "Tokens, in and out, for one message.")                                                                                \
    CONFIG_INT(agent_timeout_s, "AGENT_TIMEOUT_SECONDS", 180, 5, 3600,                                                                \
               "Time for one message, model and code together.")                                                                      \
    CONFIG_INT(hot_threads, "RIDDLE_HOT_THREADS", 128, 1, 10000,                                                                      \
               "Threads whose Python variables are kept in a living kernel, hot or frozen, at "                                       \
               "once. Beyond it, and when memory is short, the least recently used one of the "                                       \
               "owner who has most gives its kernel up; its next answer says so.")                                                    \
    CONFIG_INT(freeze_after_s, "RIDDLE_FREEZE_SECONDS", 60, 0, 3153600000,                                                            \
               "After this time without use a thread's kernel is frozen: it keeps its variables "                                     \
               "and uses no processor. The next message thaws it. 0: kernels are never frozen.")                                      \
    CONFIG_INT(cold_after_s, "RIDDLE_COLD_SECONDS", 900, 0, 3153600000,                                                               \
               "After this time without use a thread's kernel is written to a file below "                                            \
               "RIDDLE_HOME and ended. The next message makes a kernel of it that goes on with "                                      \
               "the same variables. 0: never.")                                                                                       \
    CONFIG_INT(checkpoint_s, "CHECKPOINT_SECONDS", 0, 0, 3153600000,                                                                  \
               "When code ran so long ago that no file has its variables yet, a thread's kernel "                                     \
               "is written to one as soon as it runs nothing, and goes on. If the server is "                                         \
               "killed, no more is lost. 0: only kernels that are ended are written to files.")                                       \
    CONFIG_BYTES(images_bytes, "RIDDLE_IMAGES_SIZE", "4g", 0, 1125899906842624,                                                       \
                 "Bytes of those files together: about 0.2 MB for each thread besides what it "                                       \
                 "holds, and 80 MB for each start of the server that wrote some. Beyond it "                                          \
                 "kernels are not written to files: they are frozen, and given up when there "                                        \
                 "are too many. 0: there are no such files.")                                                                         \
    CONFIG_BYTES(image_quota_bytes, "IMAGE_QUOTA_BYTES", "2g", 0, 1125899906842624,                                                   \
                 "Bytes of those files of one owner, checkpoints included; past it the oldest "                                       \
                 "are removed, and their threads say so. The newest one stays. 0 for no limit.")                                      \
    CONFIG_SECRET(image_key, "RIDDLE_IMAGE_KEY", "",                                                                                  \
                  "Key that those files are encrypted with: 64 hexadecimal digits, as "                                               \
                  "`openssl rand -hex 32` prints. Files of another key, or of none, are refused, "                                    \
                  "and their threads say so. Empty: they are not encrypted.")                                                         \
    CONFIG_INT(sandbox_idle_s, "RIDDLE_SANDBOX_IDLE_SECONDS", 1800, 1, 3153600000,                                                    \
               "A sandbox of /sandbox that nobody has used for so long is deleted; one may ask "                                      \
               "for less.")                                                                                                           \
    CONFIG_INT(sandbox_life_s, "RIDDLE_SANDBOX_TTL_SECONDS", 86400, 1, 3153600000,                                                    \
               "A sandbox of /sandbox is deleted at this age; one may ask for less.")                                                 \
    CONFIG_INT(debug_pause_s, "RIDDLE_DEBUG_PAUSE_SECONDS", 300, 1, 86400,                                                            \
               "A debugged execution that is paused, or code that waits for input(), for longer "                                     \
               "is stopped.")                                                                                                         \
    CONFIG_INT(dap_port, "RIDDLE_DAP_PORT", 0, 0, 65535,                                                                              \
               "Port on which editors attach to sandboxes (docs/debugger.md), from the first "                                        \
               "`POST /sandbox/{id}/dap` on; 0 takes any free one.")                                                                  \
    CONFIG_INT(sandboxes_max, "RIDDLE_SANDBOXES", 1000, 1, 100000,                                                                    \
               "Sandboxes of /sandbox that one owner may have at once.")                                                              \
    CONFIG_INT(                                                                                                                       \
        session_ttl_s, "SESSION_TTL_SECONDS", 86400, 0, 3153600000,                                                                   \
        "How long the files of a session (a thread) are kept after it was used last; 0: until they are cleared.")                     \
    CONFIG_BYTES(session_quota_bytes, "SESSION_QUOTA_BYTES", "256m", 1024, 1099511627776,                                             \
                 "Bytes of all files of one session. They count for UPLOAD_QUOTA_BYTES, too.")                                        \
    CONFIG_INT(session_files_max, "SESSION_FILES_MAX", 50, 1, SANDBOX_FILES_MAX,                                                      \
               "Files of one session.")                                                                                               \
    CONFIG_SECTION("Limits of a run")                                                                                                 \
    CONFIG_INT(run_timeout_s, "RUN_TIMEOUT_SECONDS", 10, 1, RUN_TIMEOUT_MAX_S,                                                        \
               "Wall time of a run when the request names none.")                                                                     \
    CONFIG_INT(max_rows, "MAX_ROWS", 200, 1, RUN_ROWS_MAX,                                                                            \
               "Rows of a result when the request names no limit.")                                                                   \
    CONFIG_BYTES(                                                                                                                     \
        max_output_bytes, "MAX_OUTPUT_BYTES", "64k", RUN_OUTPUT_MIN, RUN_OUTPUT_MAX,                                                  \
        "Bytes of standard output, of standard error and of result rows when the request names no limit.")                            \
    CONFIG_BYTES(memory_bytes, "RIDDLE_MEMORY", "512m", 67108864, 1099511627776,                                                      \
                 "Memory of one kernel, swap, /tmp and /workspace included.")                                                         \
    CONFIG_DOUBLE(cpus, "RIDDLE_CPUS", 2.0, 0.05, 256, "Processors that one kernel may use.")                                         \
    CONFIG_INT(pids, "RIDDLE_PIDS", 64, 1, 4096, "Processes and threads of one kernel.")                                              \
    CONFIG_INT(open_files, "RIDDLE_OPEN_FILES", 256, 32, 65536,                                                                       \
               "Open files of one process of a kernel.")                                                                              \
    CONFIG_BYTES(file_bytes, "RIDDLE_FILE_SIZE", "64m", 65536, 1099511627776,                                                         \
                 "Largest file that user code may write.")                                                                            \
    CONFIG_BYTES(workspace_bytes, "RIDDLE_WORKSPACE_SIZE", "128m", 1048576, 1099511627776,                                            \
                 "Size of /workspace.")                                                                                               \
    CONFIG_BYTES(tmp_bytes, "RIDDLE_TMP_SIZE", "64m", 1048576, 1099511627776, "Size of /tmp.")                                        \
    CONFIG_BYTES(spill_bytes, "RIDDLE_SPILL_SIZE", "4g", 0, 1099511627776,                                                            \
                 "Disk under RIDDLE_HOME that a query on large tables may use when its memory is "                                    \
                 "full. 0: none.")                                                                                                    \
    CONFIG_INT(inodes, "RIDDLE_INODES", 8192, 64, 10000000,                                                                           \
               "Files and directories in each of /workspace and /tmp.")                                                               \
    CONFIG_SECTION("Datasets")                                                                                                        \
    CONFIG_STR(datasets_dir, "DATASETS_DIR", "datasets",                                                                              \
               "Directory of the datasets: registry.json and a folder of CSV files for each.")                                        \
    CONFIG_SECTION("Ingest of data files")                                                                                            \
    CONFIG_BYTES(ingest_memory_bytes, "RIDDLE_INGEST_MEMORY", "2g", 134217728, 1099511627776,                                         \
                 "Memory for turning one data file into a table.")                                                                    \
    CONFIG_BYTES(ingest_file_bytes, "RIDDLE_INGEST_FILE_SIZE", "256g", 1048576, 1099511627776,                                        \
                 "Largest table that an ingest may write.")                                                                           \
    CONFIG_SECTION("Sandbox")                                                                                                         \
    CONFIG_ENUM(                                                                                                                      \
        sandbox_provider, "SANDBOX_PROVIDER", "local", "local|docker",                                                                \
        "Where code runs. `local`: in jails made by this machine's Linux. `docker`: in containers.")                                  \
    CONFIG_STR(                                                                                                                       \
        docker_host, "DOCKER_HOST", "unix:///var/run/docker.sock",                                                                    \
        "Docker's Engine API: `unix:///path` or `tcp://host:port`. Read with SANDBOX_PROVIDER=docker.")                               \
    CONFIG_STR(docker_runtime, "DOCKER_RUNTIME", "",                                                                                  \
               "Runtime of containers, such as `runsc`; Docker's default when empty.")                                                \
    CONFIG_STR(runner_image, "RUNNER_IMAGE", "riddle-runner",                                                                         \
               "Image of containers: one that `make image` or deploy/Dockerfile made.")                                               \
    CONFIG_INT(pool_size, "RIDDLE_POOL_SIZE", 2, 0, 256,                                                                              \
               "Kernels kept forked and ready by the server; 0 forks one for each request.")                                          \
    CONFIG_INT(max_kernels, "RIDDLE_MAX_KERNELS", 0, 0, 10000,                                                                        \
               "Kernels of each kind (SQL, Python) that run at once; 0: four for each processor. "                                    \
               "Never more than four fifths of the memory hold at their limits.")                                                     \
    CONFIG_INT(                                                                                                                       \
        idle_kernels, "RIDDLE_IDLE_KERNELS", 16, 0, 64,                                                                               \
        "SQL kernels kept up to a minute for the next query of the same owner on the same tables.")                                   \
    CONFIG_INT(queue_max, "RIDDLE_QUEUE", 256, 0, 100000,                                                                             \
               "Runs of one owner that may wait for a kernel of one kind; more are answered 503.")                                    \
    CONFIG_ENUM(                                                                                                                      \
        jail, "RIDDLE_JAIL", "full", "full|partial",                                                                                  \
        "`full` refuses to run code when the machine denies a layer of the jail. `partial` goes on without it and "                   \
        "says so: only where something else, such as a container, is the wall.")                                                      \
    CONFIG_INT(sandbox_uid, "RIDDLE_SANDBOX_UID", 64646, 1, 4294967293,                                                               \
               "Host user and group id that kernels run as when Riddle is started by root.")                                          \
    CONFIG_INT(sandbox_uids, "RIDDLE_SANDBOX_UIDS", 512, 1, 65536,                                                                    \
               "Host user ids from RIDDLE_SANDBOX_UID on, of which each kernel has its own "                                          \
               "while there are enough. All have the same group. 1: they share one.")                                                 \
    CONFIG_STR(kernel_path, "RIDDLE_KERNEL", "",                                                                                      \
               "The riddle-kernel program; beside riddle when empty.")                                                                \
    CONFIG_STR(preload, "RIDDLE_PRELOAD", "numpy,pandas,matplotlib,seaborn",                                                          \
               "Python packages that the zygote imports before it forks.")                                                            \
    CONFIG_SECTION("Store")                                                                                                           \
    CONFIG_ENUM(storage_provider, "STORAGE_PROVIDER", "sqlite", "sqlite",                                                             \
                "What keeps runs, threads, messages and records of uploads.")                                                         \
    CONFIG_STR(capsule_db_path, "CAPSULE_DB_PATH", "",                                                                                \
               "Database file of the store `sqlite`; `riddle.db` in RIDDLE_HOME when empty.")                                         \
    CONFIG_SECTION("Databases")                                                                                                       \
    CONFIG_SECRET(databases, "DATABASES", "",                                                                                         \
                  "Databases that code and questions may ask, as `name=url,name=url`: "                                               \
                  "`postgresql://…`, `clickhouse://…`, `sqlite:///path`. "                                                        \
                  "After a URL may stand "                                                                                            \
                  "`;write=table+table`, `;redact=parameter` and `;superuser=yes`. Kernels never "                                    \
                  "see a URL. docs/databases.md has more.")                                                                           \
    CONFIG_INT(database_connections, "DATABASE_CONNECTIONS", 4, 1, 64,                                                                \
               "Connections to one database at once; more queries wait.")                                                             \
    CONFIG_INT(database_timeout_s, "DATABASE_TIMEOUT_SECONDS", 30, 1, 3600,                                                           \
               "Time of one query of a database.")                                                                                    \
    CONFIG_INT(database_max_rows, "DATABASE_MAX_ROWS", 100000, 1, 10000000,                                                           \
               "Rows of one query of a database.")                                                                                    \
    CONFIG_BYTES(database_max_bytes, "DATABASE_MAX_BYTES", "12m", 65536, 14680064,                                                    \
                 "Bytes of the rows of one query of a database.")                                                                     \
    CONFIG_SECTION("Models")                                                                                                          \
    CONFIG_ENUM(                                                                                                                      \
        llm_provider, "LLM_PROVIDER", "auto",                                                                                         \
        "auto|openai|openai-chat|openai-responses|anthropic|builtin",                                                                 \
        "Who answers questions. `auto`: OpenAI if it has a key or a base URL, else Anthropic likewise, else `builtin`, "              \
        "which is the planner that needs no model. `openai` asks api.openai.com by its Responses API and every other server by Chat " \
        "Completions; `openai-responses` and `openai-chat` insist on one of them.")                                                   \
    CONFIG_SECRET(openai_api_key, "OPENAI_API_KEY", "",                                                                               \
                  "Key of OpenAI; a compatible server of your own may need none.")                                                    \
    CONFIG_STR(                                                                                                                       \
        openai_base_url, "OPENAI_BASE_URL", "https://api.openai.com/v1",                                                              \
        "Where `/chat/completions` or `/responses` is: OpenAI, or any server that speaks its protocol.")                              \
    CONFIG_STR(openai_model, "OPENAI_MODEL", "gpt-6-luna", "Model to ask there.")                                                     \
    CONFIG_SECRET(anthropic_api_key, "ANTHROPIC_API_KEY", "", "Key of Anthropic.")                                                    \
    CONFIG_STR(anthropic_base_url, "ANTHROPIC_BASE_URL", "https://api.anthropic.com",                                                 \
               "Where `/v1/messages` is.")                                                                                            \
    CONFIG_STR(anthropic_model, "ANTHROPIC_MODEL", "claude-sonnet-5-5", "Model to ask there.")                                        \
    CONFIG_INT(llm_timeout_s, "LLM_TIMEOUT_SECONDS", 120, 1, 3600,                                                                    \
               "Time of one call of a model, its retries included.")                                                                  \
    CONFIG_INT(                                                                                                                       \
        llm_max_tokens, "LLM_MAX_TOKENS", 0, 0, 1000000,                                                                              \
        "Tokens that a model may answer in one call, its thinking included; 0: 16,000, and 32,000 for models that think.")            \
    CONFIG_ENUM(                                                                                                                      \
        llm_effort, "LLM_EFFORT", "auto", "auto|none|minimal|low|medium|high|xhigh|max",                                              \
        "How much a model thinks before it answers; `auto`: as its maker has set it. Not every model takes every value.")             \
    CONFIG_ENUM(                                                                                                                      \
        llm_vision, "LLM_VISION", "auto", "auto|on|off",                                                                              \
        "Whether the figures that code drew are sent to the model; `auto`: to models that are known to take images.")                 \
    CONFIG_STR(llm_record, "LLM_RECORD", "",                                                                                          \
               "Directory that keeps every request to a model and its answer, without the key: "                                      \
               "to see what a server did. It has what people asked.")                                                                 \
    CONFIG_INT(                                                                                                                       \
        llm_max_retries, "LLM_MAX_RETRIES", 3, 0, 10,                                                                                 \
        "How often a call is tried again when a model's server is busy or cannot be reached.")                                        \
    CONFIG_STR(ssl_cert_file, "SSL_CERT_FILE", "",                                                                                    \
               "Certificates to trust when Riddle calls others, instead of the system's.")                                            \
    CONFIG_STR(curl_ca_bundle, "CURL_CA_BUNDLE", "", "The same; wins over SSL_CERT_FILE.")                                            \
    CONFIG_SECTION("Python policy")                                                                                                   \
    CONFIG_ENUM(python_policy, "PYTHON_POLICY", "open", "open|restricted",                                                            \
                "Of Python in chats, threads and `riddle run --python`. `POST /runs` and "                                            \
                "RunnerRequests are `restricted` unless they say `\"python_policy\": \"open\"`.")                                     \
    CONFIG_STR(python_allowed, "RIDDLE_PYTHON_ALLOWED", "",                                                                           \
               "Modules allowed besides the built-in list, separated by commas.")                                                     \
    CONFIG_STR(                                                                                                                       \
        python_blocked, "RIDDLE_PYTHON_BLOCKED", "",                                                                                  \
        "Modules blocked besides the built-in list, separated by commas. A blocked module wins over an allowed one.")                 \
    CONFIG_SECTION("The runner (`riddle-kernel --once`)")                                                                             \
    CONFIG_STR(data_root, "RIDDLE_DATA_ROOT", "/data",                                                                                \
               "Directory that the paths of a RunnerRequest must be under. It stands for /data "                                      \
               "there, as a container's volume does.")

#endif
