/*
 * RunnerRequest → checked struct → sandbox → RunnerResponse. See runner.h.
 *
 * Checks come in the order in which a person would mend them: is it JSON, is it an object, are its
 * fields of the right type and range, is there code, are the files there. The first fault is told,
 * with what to do about it. Unknown fields are skipped.
 */

#include "run/runner.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fdio.h"
#include "base/log.h"
#include "base/str.h"
#include "run/foreground.h"

#define MEGABYTE (1024 * 1024)
#define DATA_DIR "/data"      /* of requests, whatever the setting data_root says */
#define IGNORED_SHOWN_MAX 512 /* of the names of skipped fields, in the log */

/* Code, and SANDBOX_FILES_MAX times a name, a path and a table, with room for rounding. */
#define REQUEST_ARENA_MAX                                                                          \
    (CODE_MAX_BYTES + SANDBOX_FILES_MAX * (PATH_MAX + 4 * NAME_MAX) + (256u << 10))

static const char *const request_keys[] = {
    "dataset_id",  "files",           "query_type", "sql",
    "python_code", "timeout_seconds", "max_rows",   "max_output_bytes",
    "svg",         "python_policy",   "memory_mb",  NULL,
};
static const char *const file_keys[] = { "name", "path", NULL };

/* ---- fields ---- */

static int get_integer(const json_t *obj, const char *key, long long dflt, long long min,
                       long long max, const char *range_message, long long *ret, struct err *err)
{
    const json_t *v = json_object_get(obj, key);
    if (!v || json_is_null(v)) {
        *ret = dflt;
        return 0;
    }
    if (!json_is_integer(v))
        return err_set(err, ERR_VALIDATION, "'%s' must be an integer, not %s", key,
                       json_type_name(v));
    long long n = json_integer_value(v);
    if (n < min || n > max) {
        if (range_message)
            return err_set(err, ERR_VALIDATION, "%s", range_message);
        return err_set(err, ERR_VALIDATION, "'%s' must be between %lld and %lld, not %lld", key,
                       min, max, n);
    }
    *ret = n;
    return 0;
}

static int parse_dataset_id(const json_t *obj, struct runner_request *req, struct err *err)
{
    const char *id;
    int r = json_get_str(obj, "dataset_id", "unknown", &id, err);
    if (r < 0)
        return r;
    size_t len = strlen(id);
    size_t good = strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-");
    if (len == 0 || len > 128 || good != len || id[0] == '.' || id[0] == '-')
        return err_set(
            err, ERR_VALIDATION,
            "'dataset_id' must be 1 to 128 letters, digits, '_', '-' or '.', beginning with a letter, a digit "
            "or '_'");
    req->dataset_id = arena_strdup(&req->arena, id);
    return req->dataset_id ? 0 : err_set(err, ERR_NO_MEMORY, "out of memory");
}

static int parse_policy(const json_t *obj, struct runner_request *req, struct err *err)
{
    const char *name;
    int r = json_get_str(obj, "python_policy", "restricted", &name, err);
    if (r < 0)
        return r;
    if (str_eq(name, "restricted"))
        req->run.policy = POLICY_RESTRICTED;
    else if (str_eq(name, "open"))
        req->run.policy = POLICY_OPEN;
    else
        return err_set(err, ERR_VALIDATION, "unknown python_policy '%.64s': use restricted or open",
                       name);
    return 0;
}

static int parse_limits(const json_t *obj, const struct config *cfg, struct runner_request *req,
                        struct err *err)
{
    long long timeout_s, max_rows, max_bytes, memory_mb;
    long long memory_max_mb = MAX_OF(cfg->memory_bytes / MEGABYTE, 64);
    int r = get_integer(obj, "timeout_seconds", cfg->run_timeout_s, 1, RUN_TIMEOUT_MAX_S,
                        "Timeout must be between 1 and 60 seconds", &timeout_s, err);
    if (r < 0)
        return r;
    r = get_integer(obj, "max_rows", cfg->max_rows, 1, RUN_ROWS_MAX, NULL, &max_rows, err);
    if (r < 0)
        return r;
    r = get_integer(obj, "max_output_bytes", cfg->max_output_bytes, RUN_OUTPUT_MIN, RUN_OUTPUT_MAX,
                    "'max_output_bytes' must be greater than 1024 and at most 1000000", &max_bytes,
                    err);
    if (r < 0)
        return r;
    /* A request may ask for less memory than the setting, never for more. */
    r = get_integer(obj, "memory_mb", memory_max_mb, 64, memory_max_mb, NULL, &memory_mb, err);
    if (r < 0)
        return r;

    sandbox_limits_default(cfg, &req->limits);
    req->limits.memory_bytes = MIN_OF(req->limits.memory_bytes, (int64_t)memory_mb * MEGABYTE);
    req->run.timeout_ms = timeout_s * 1000;
    req->run.max_rows = max_rows;
    req->run.max_output_bytes = max_bytes;
    return json_get_bool(obj, "svg", false, &req->run.svg, err);
}

static bool is_blank(const char *s)
{
    while (isspace((unsigned char)*s))
        s++;
    return *s == '\0';
}

static int parse_code(const json_t *obj, struct runner_request *req, struct err *err)
{
    const char *type, *sql, *python;
    int r = json_get_str(obj, "query_type", NULL, &type, err);
    if (r < 0)
        return r;
    r = json_get_str(obj, "sql", NULL, &sql, err);
    if (r < 0)
        return r;
    r = json_get_str(obj, "python_code", NULL, &python, err);
    if (r < 0)
        return r;

    /*
     * The first runner had one entrypoint per language and no query_type: then the code that is
     * there decides.
     */
    if (!type)
        type = python && !is_blank(python) && (!sql || is_blank(sql)) ? "python" : "sql";

    const char *key, *code;
    /* The first server sent a compiled plan as SQL, with the mode of its draft as the type. */
    if (str_eq(type, "sql") || str_eq(type, "plan")) {
        req->run.kind = RUN_SQL;
        key = "sql";
        code = sql;
        if (!code || is_blank(code))
            return err_set(err, ERR_VALIDATION, "SQL query is required");
    } else if (str_eq(type, "python")) {
        req->run.kind = RUN_PYTHON;
        key = "python_code";
        code = python;
        if (!code || is_blank(code))
            return err_set(err, ERR_VALIDATION, "python_code is required");
    } else {
        return err_set(err, ERR_VALIDATION,
                       "unknown query_type '%.64s': use one of sql, python, plan", type);
    }

    size_t len = strlen(code);
    if (len > CODE_MAX_BYTES)
        return err_set(
            err, ERR_VALIDATION,
            "'%s' is %zu bytes long and the limit is 1 MB (%u bytes): put data into a file of the request "
            "instead of into the code",
            key, len, CODE_MAX_BYTES);
    req->run.code = arena_strndup(&req->arena, code, len);
    req->run.code_len = len;
    return req->run.code ? 0 : err_set(err, ERR_NO_MEMORY, "out of memory");
}

/* ---- files ---- */

/* True if path is strictly inside root, by name alone. */
static bool path_under(const char *path, const char *root)
{
    size_t len = strlen(root);
    while (len > 1 && root[len - 1] == '/')
        len--;
    if (len == 1 && root[0] == '/')
        return path[0] == '/' && path[1] != '\0';
    return strncmp(path, root, len) == 0 && path[len] == '/';
}

/* Resolves links, and checks where the file is, that it is a file, and that it can be read. */
static int resolve_path(const struct config *cfg, unsigned flags, struct runner_request *req,
                        const char *path, const char **ret, struct err *err)
{
    if (path[0] != '/')
        return err_set(err, ERR_VALIDATION,
                       "path '%.256s' must be absolute: it must begin with '/'", path);
    if (strlen(path) >= PATH_MAX)
        return err_set(err, ERR_VALIDATION, "a path must be shorter than %d bytes", PATH_MAX);

    /*
     * The root as it was written is checked first, so that the answer for a path elsewhere does not
     * depend on whether something is there; the resolved path is checked again because a link may
     * lead out.
     */
    auto_free char *root = NULL;
    char below[PATH_MAX];
    const char *real = path;
    if (!(flags & RUNNER_HOST_PATHS)) {
        root = realpath(cfg->data_root, NULL);
        if (!root)
            return err_errno(err, ERR_VALIDATION, errno,
                             "the data directory '%s' (RIDDLE_DATA_ROOT) cannot be used",
                             cfg->data_root);
        bool is_named = path_under(path, cfg->data_root) || path_under(path, root);
        /* The root stands for /data, as a volume of a container does. */
        if (!is_named && path_under(path, DATA_DIR)) {
            if (snprintf(below, sizeof(below), "%s%s", root, path + strlen(DATA_DIR)) >=
                (int)sizeof(below))
                return err_set(err, ERR_VALIDATION, "a path must be shorter than %d bytes",
                               PATH_MAX);
            real = below;
        } else if (!is_named) {
            return err_set(err, ERR_VALIDATION,
                           "path '%.256s' must be under " DATA_DIR " (here %.256s)", path,
                           cfg->data_root);
        }
    }

    auto_free char *resolved = realpath(real, NULL);
    if (!resolved) {
        if (errno == ENOENT || errno == ENOTDIR)
            return err_set(err, ERR_VALIDATION, "file '%.256s' does not exist: check the path",
                           path);
        return err_errno(err, ERR_VALIDATION, errno,
                         "file '%.256s' cannot be reached: check its path and permissions", path);
    }
    if (root && !path_under(resolved, root))
        return err_set(err, ERR_VALIDATION,
                       "path '%.256s' must be under " DATA_DIR
                       " (here %.256s), and it leads outside",
                       path, cfg->data_root);

    /* stat before open: opening a device or a FIFO can have effects of its own. */
    struct stat st;
    if (stat(resolved, &st) < 0)
        return err_errno(err, ERR_VALIDATION, errno, "file '%.256s' cannot be reached", path);
    if (S_ISDIR(st.st_mode))
        return err_set(err, ERR_VALIDATION, "'%.256s' is a directory: name a CSV file in it", path);
    if (!S_ISREG(st.st_mode))
        return err_set(err, ERR_VALIDATION,
                       "'%.256s' is not a regular file: copy its content into a file first", path);
    auto_close int fd = open(resolved, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return err_errno(err, ERR_VALIDATION, errno,
                         "file '%.256s' cannot be read: give this user the right to read it", path);
    if (st.st_size == 0)
        return err_set(err, ERR_VALIDATION,
                       "file '%.256s' is empty: it needs at least a line of column names", path);

    *ret = arena_strdup(&req->arena, resolved);
    return *ret ? 0 : err_set(err, ERR_NO_MEMORY, "out of memory");
}

static int check_file_name(const char *name, struct err *err)
{
    size_t len = strlen(name);
    bool good = len > 0 && len <= NAME_MAX && !strchr(name, '/') && !str_eq(name, ".") &&
                !str_eq(name, "..");
    for (size_t i = 0; good && i < len; i++)
        good = (unsigned char)name[i] >= ' ' && name[i] != 0x7f;
    if (!good)
        return err_set(
            err, ERR_VALIDATION,
            "file name '%.64s' cannot be used: a name is 1 to %d bytes with no '/' and no control characters",
            name, NAME_MAX);
    return 0;
}

static int parse_file(const struct config *cfg, unsigned flags, const json_t *value,
                      struct runner_request *req, struct err *err)
{
    struct sandbox_file *f = &req->files[req->n_files];
    const char *name, *path;

    int r = json_skip_keys(value, file_keys, &req->ignored, err);
    if (r >= 0)
        r = json_get_str(value, "path", NULL, &path, err);
    if (r >= 0)
        r = json_get_str(value, "name", NULL, &name, err);
    if (r >= 0 && (!path || !*path))
        r = err_set(err, ERR_VALIDATION, "'path' is required: the absolute path of the CSV file");
    if (r < 0)
        return err_wrap(err, "files[%zu]", req->n_files);
    if (!name) {
        const char *slash = strrchr(path, '/');
        name = slash ? slash + 1 : path;
    }
    r = check_file_name(name, err);
    if (r < 0)
        return r;

    char table[NAME_MAX + 1];
    str_stem(name, table, sizeof(table));
    if (!str_is_identifier(table))
        return err_set(err, ERR_VALIDATION,
                       "Invalid table name '%.64s' (from file '%.64s'): it must begin with a "
                       "letter or '_' and hold only letters, digits and '_'; give the file another "
                       "name",
                       table, name);
    /* SQL names have no case, so files that differ only in case collide too. */
    for (size_t i = 0; i < req->n_files; i++)
        if (str_ieq(req->files[i].table, table))
            return err_set(
                err, ERR_VALIDATION,
                "duplicate table name '%s' (from files '%.64s' and '%.64s'): give one of them another name",
                table, req->files[i].name, name);

    r = resolve_path(cfg, flags, req, path, &f->path, err);
    if (r < 0)
        return r;
    f->name = arena_strdup(&req->arena, name);
    f->table = arena_strdup(&req->arena, table);
    if (!f->name || !f->table)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    req->n_files++;
    return 0;
}

static int parse_files(const struct config *cfg, unsigned flags, const json_t *obj,
                       struct runner_request *req, struct err *err)
{
    json_t *files;
    int r = json_get_array(obj, "files", &files, err);
    if (r < 0)
        return r;
    size_t n = files ? json_array_size(files) : 0;
    if (n == 0 && !(flags & RUNNER_FILES_OPTIONAL))
        return err_set(err, ERR_VALIDATION, "At least one file is required");
    if (n > SANDBOX_FILES_MAX)
        return err_set(err, ERR_VALIDATION, "'files' has %zu entries and the limit is %d", n,
                       SANDBOX_FILES_MAX);
    req->files = arena_alloc(&req->arena, sizeof(*req->files) * MAX_OF(n, (size_t)1));
    if (!req->files)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < n; i++) {
        r = parse_file(cfg, flags, json_array_get(files, i), req, err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- requests ---- */

int runner_request_from_json(const struct config *cfg, unsigned flags, const json_t *value,
                             struct runner_request *ret, struct err *err)
{
    if (!json_is_object(value))
        return err_set(err, ERR_INVALID_INPUT, "the request must be a JSON object, not %s",
                       json_type_name(value));

    struct runner_request req = { .dataset_id = NULL };
    arena_init(&req.arena, REQUEST_ARENA_MAX);
    buf_init(&req.ignored, IGNORED_SHOWN_MAX);
    int r = json_skip_keys(value, request_keys, &req.ignored, err);
    if (r >= 0)
        r = parse_dataset_id(value, &req, err);
    if (r >= 0)
        r = parse_policy(value, &req, err);
    if (r >= 0)
        r = parse_limits(value, cfg, &req, err);
    if (r >= 0)
        r = parse_code(value, &req, err);
    if (r >= 0)
        r = parse_files(cfg, flags, value, &req, err);
    if (r < 0) {
        runner_request_finish(&req);
        return r;
    }
    *ret = req;
    return 0;
}

int runner_request_parse(const struct config *cfg, unsigned flags, const char *text, size_t len,
                         struct runner_request *ret, struct err *err)
{
    size_t start = 0;
    while (start < len && strchr(" \t\r\n", text[start]) && text[start] != '\0')
        start++;
    if (start == len)
        return err_set(err, ERR_INVALID_INPUT,
                       "no input: write one RunnerRequest (a JSON object) to standard input");

    auto_json json_t *value = NULL;
    int r = json_parse(text, len, &value, err);
    if (r < 0)
        return r;
    return runner_request_from_json(cfg, flags, value, ret, err);
}

void runner_request_finish(struct runner_request *req)
{
    buf_finish(&req->ignored);
    arena_finish(&req->arena);
    *req = (struct runner_request){ .dataset_id = NULL };
}

/* ---- running ---- */

struct run_spec runner_spec(const struct runner_request *req)
{
    bool is_python = req->run.kind == RUN_PYTHON;
    return (struct run_spec){
        .owner = FOREGROUND_OWNER,
        .dataset_id = req->dataset_id,
        .query_mode = is_python ? "python" : "sql",
        .sql = is_python ? NULL : req->run.code,
        .python = is_python ? req->run.code : NULL,
        .request = req->run,
        .limits = req->limits,
        .files = req->files,
        .n_files = req->n_files,
    };
}

/*
 * Everything between request and result, so that the caller has one place where a failure becomes a
 * response.
 */
static json_t *run_request(const struct config *cfg, unsigned flags, const struct buf *text)
{
    struct err err = ERR_INIT;
    struct runner_request req;
    struct foreground *fg = NULL;
    struct run_result result = { .verdict = VERDICT_OK };
    json_t *response;

    int r = runner_request_parse(cfg, flags, buf_cstr(text), text->len, &req, &err);
    if (r < 0)
        return runner_failure(&err);
    struct executor_options once = { .one_shot = true, .kind = req.run.kind, .code = req.run.code };
    struct run_spec spec = runner_spec(&req);
    if (req.ignored.len > 0)
        log_debug("request.ignored", LOG_STR("fields", buf_cstr(&req.ignored)));
    r = foreground_open(cfg, &once, &fg, &err);
    if (r >= 0)
        r = foreground_execute(fg, &spec, NULL, NULL, NULL, &result, &err);
    if (r >= 0) {
        response = runner_response(&req, &result);
        run_result_finish(&result);
    } else {
        response = runner_failure(&err);
    }
    foreground_close(fg);
    runner_request_finish(&req);
    return response;
}

int runner_run_once(const struct config *cfg, unsigned flags, int in_fd, int out_fd)
{
    struct err err = ERR_INIT;
    auto_buf struct buf in = BUF_INIT(RUN_BODY_MAX);
    auto_buf struct buf out = BUF_INIT(RUNNER_RESPONSE_MAX);
    auto_json json_t *response = NULL;

    if (fd_read_to_end(in_fd, &in, &err) < 0) {
        if (err.code == ERR_TOO_LARGE)
            err_set(&err, ERR_VALIDATION,
                    "the request is larger than the limit of %u MB: put data into files",
                    RUN_BODY_MAX >> 20);
        response = runner_failure(&err);
    } else {
        response = run_request(cfg, flags, &in);
    }
    if (!response || json_write(response, &out, &err) < 0 || buf_append_str(&out, "\n", &err) < 0) {
        buf_clear(&out);
        static const char fallback[] =
            "{\"status\":\"error\",\"columns\":[],\"rows\":[],\"row_count\":0,\"exec_time_ms\":0,\"stdout_trunc\":\"\","
            "\"stderr_trunc\":\"\",\"error\":{\"type\":\"RUNNER_INTERNAL_ERROR\",\"message\":\"the response could not be "
            "built: out of memory\"},\"truncated\":false,\"verdict\":\"error\"}\n";
        (void)fd_write_all(out_fd, fallback, sizeof(fallback) - 1, &err);
        return 1;
    }
    if (fd_write_all(out_fd, out.data, out.len, &err) < 0)
        return 1;
    return runner_succeeded(response) ? 0 : 1;
}
