/* A container as the Engine API wants it described. */

#include <stdio.h>
#include "base/str.h"
#include "sandbox/docker/docker_impl.h"

/* The relay and the kernel's first process, besides what the limit allows. */
#define OWN_PIDS 2

static json_t *tmpfs(const struct config *cfg, const struct sandbox_limits *l)
{
    char workspace[256], tmp[256];
    static const char form[] =
        "rw,noexec,nosuid,nodev,size=%lld,nr_inodes=%lld,uid=%lld,gid=%lld,mode=755";
    snprintf(workspace, sizeof(workspace), form, (long long)l->workspace_bytes,
             (long long)l->inodes, cfg->sandbox_uid, cfg->sandbox_uid);
    snprintf(tmp, sizeof(tmp), form, (long long)l->tmp_bytes, (long long)l->inodes,
             cfg->sandbox_uid, cfg->sandbox_uid);
    return json_pack("{s:s, s:s}", "/workspace", workspace, "/tmp", tmp);
}

static long long nano_cpus(double cpus)
{
    return (long long)(cpus * 1e9);
}

json_t *docker_container_spec(const struct docker *p, const struct spawn_spec *spec)
{
    const struct config *cfg = p->base.cfg;
    const struct sandbox_limits *l = &spec->limits;
    char preload[1200], user[64];
    snprintf(preload, sizeof(preload), "--preload=%s", cfg->preload);
    snprintf(user, sizeof(user), "%lld:%lld", cfg->sandbox_uid, cfg->sandbox_uid);
    json_t *host = json_pack(
        "{s:s, s:b, s:I, s:I, s:I, s:I, s:[s], s:[s], s:s, s:o, s:b, s:{s:s}, s:[{s:s, s:s}]}",
        "NetworkMode", "none", "ReadonlyRootfs", 1, "Memory", (json_int_t)l->memory_bytes,
        "MemorySwap", (json_int_t)l->memory_bytes, "NanoCpus", (json_int_t)nano_cpus(l->cpus),
        "PidsLimit", (json_int_t)l->pids + OWN_PIDS, "CapDrop", "ALL", "SecurityOpt",
        "no-new-privileges", "IpcMode", "none", "Tmpfs", tmpfs(cfg, l), "AutoRemove", 1,
        "LogConfig", "Type", "none", "Mounts", "Type", "volume", "Target", "/data");
    if (host && *cfg->docker_runtime)
        json_object_set_new(host, "Runtime", json_string(cfg->docker_runtime));
    return json_pack(
        "{s:s, s:[s, s], s:s, s:s, s:b, s:b, s:b, s:b, s:b, s:b, s:b, s:{s:s, s:s}, s:o}", "Image",
        cfg->runner_image, "Cmd", spec->kind == RUN_PYTHON ? "--attached=python" : "--attached=sql",
        preload, "User", user, "Hostname", "riddle", "Tty", 0, "OpenStdin", 1, "StdinOnce", 1,
        "AttachStdin", 1, "AttachStdout", 1, "AttachStderr", 1, "NetworkDisabled", 1, "Labels",
        LABEL_HOME, p->home_id, LABEL_INSTANCE, p->instance_id, "HostConfig", host);
}

int docker_container_update(const struct sandbox_limits *from, const struct sandbox_limits *to,
                            json_t **ret, struct err *err)
{
    *ret = NULL;
    if (from->workspace_bytes != to->workspace_bytes || from->tmp_bytes != to->tmp_bytes ||
        from->inodes != to->inodes)
        return err_set(err, ERR_CONFLICT,
                       "the sizes of a container's /workspace and /tmp cannot be changed");
    if (from->memory_bytes == to->memory_bytes && from->cpus == to->cpus && from->pids == to->pids)
        return 0;
    *ret = json_pack("{s:I, s:I, s:I, s:I}", "Memory", (json_int_t)to->memory_bytes, "MemorySwap",
                     (json_int_t)to->memory_bytes, "NanoCpus", (json_int_t)nano_cpus(to->cpus),
                     "PidsLimit", (json_int_t)to->pids + OWN_PIDS);
    return *ret ? 0 : err_set(err, ERR_NO_MEMORY, "out of memory");
}
