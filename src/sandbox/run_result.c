/* Names of verdicts, results and limits: what users of sandboxes need without one. */

#include <string.h>
#include "base/background.h"
#include "sandbox/sandbox.h"

static const char *const verdict_names[_VERDICT_MAX] = {
#define X(code, name) [VERDICT_##code] = name,
    VERDICT_LIST(X)
#undef X
};

const char *verdict_name(enum verdict v)
{
    return v < _VERDICT_MAX ? verdict_names[v] : "unknown";
}

void run_result_finish(struct run_result *r)
{
    json_discard(r->body);
    json_discard(r->displays);
    buf_finish(&r->bytes);
    buf_finish(&r->out);
    buf_finish(&r->errout);
    memset(r, 0, sizeof(*r));
}

void sandbox_limits_default(const struct config *cfg, struct sandbox_limits *ret)
{
    *ret = (struct sandbox_limits){
        .memory_bytes = cfg->memory_bytes,
        .cpus = cfg->cpus,
        .pids = (int)cfg->pids,
        .open_files = (int)cfg->open_files,
        .file_bytes = cfg->file_bytes,
        .workspace_bytes = cfg->workspace_bytes,
        .tmp_bytes = cfg->tmp_bytes,
        .inodes = cfg->inodes,
    };
}
