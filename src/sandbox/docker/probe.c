/* What `riddle doctor` says about the docker provider. */

#include <stdio.h>
#include <string.h>
#include "base/str.h"
#include "base/version.h"
#include "sandbox/docker/docker_impl.h"

#define PROBE_MS 10000

struct probe {
    const struct config *cfg;
    probe_fn say;
    void *arg;
    uv_loop_t loop;
    struct engine *engine;
    json_t *body; /* of the last answer */
    struct err err;
    bool answered;
};

static void on_answer(void *arg, const json_t *body, const struct err *err)
{
    struct probe *p = arg;
    p->answered = true;
    p->body = json_deep_copy(body);
    if (err)
        p->err = *err;
}

/* Waits for the answer: its JSON, or NULL and p->err. */
static const json_t *ask(struct probe *p, const char *path)
{
    json_decref(p->body);
    p->body = NULL;
    p->answered = false;
    p->err = (struct err)ERR_INIT;
    if (engine_call(p->engine, "GET", path, NULL, PROBE_MS, on_answer, p, &p->err) < 0)
        return NULL;
    while (!p->answered && uv_run(&p->loop, UV_RUN_ONCE))
        ;
    return p->err.code ? NULL : p->body;
}

static const char *text_of(const json_t *obj, const char *key)
{
    const char *s = json_string_value(json_object_get(obj, key));
    return s ? s : "unknown";
}

static bool probe_daemon(struct probe *p)
{
    char detail[600], shown[STR_SHOWN_SIZE];
    const json_t *version = ask(p, "/version");
    if (!version) {
        p->say(p->arg, PROBE_FAIL, "docker daemon", p->err.message,
               "start one, set DOCKER_HOST to where it is, and let riddle use it");
        return false;
    }
    const char *is = text_of(version, "Version");
    snprintf(detail, sizeof(detail), "%s at %s", str_show(is, strlen(is), shown, sizeof(shown)),
             p->cfg->docker_host);
    p->say(p->arg, PROBE_PASS, "docker daemon", detail, NULL);
    return true;
}

static bool probe_image(struct probe *p)
{
    char path[400], detail[900];
    snprintf(path, sizeof(path), "/images/%.300s/json", p->cfg->runner_image);
    const json_t *image = ask(p, path);
    if (!image) {
        p->say(p->arg, PROBE_FAIL, "docker image", p->err.message,
               "run 'make image', or set RUNNER_IMAGE");
        return false;
    }
    const json_t *labels = json_object_get(json_object_get(image, "Config"), "Labels");
    const char *mux = text_of(labels, "io.riddle.mux"),
               *version = text_of(labels, "io.riddle.version");
    char expected[16];
    snprintf(expected, sizeof(expected), "%d", MUX_VERSION);
    bool good = str_eq(mux, expected);
    snprintf(detail, sizeof(detail), "%.300s, riddle %.40s, protocol %.20s%s%s",
             p->cfg->runner_image, version, mux, good ? "" : ", expected ", good ? "" : expected);
    bool same = str_eq(version, RIDDLE_VERSION);
    p->say(p->arg,
           !good ? PROBE_FAIL :
           same  ? PROBE_PASS :
                   PROBE_CAUTION,
           "docker image", detail,
           good && same ? NULL : "run 'make image': the image is of another version of riddle");
    return good;
}

static bool has_seccomp(const json_t *info)
{
    size_t i;
    const json_t *option;
    json_array_foreach(json_object_get(info, "SecurityOptions"), i, option) {
        if (json_is_string(option) && str_starts(json_string_value(option), "name=seccomp"))
            return true;
    }
    return false;
}

static bool probe_runtime(struct probe *p)
{
    char detail[300];
    const json_t *info = ask(p, "/info");
    if (!info) {
        p->say(p->arg, PROBE_FAIL, "docker runtime", p->err.message, "see the daemon's log");
        return false;
    }
    const char *name = *p->cfg->docker_runtime ? p->cfg->docker_runtime :
                                                 text_of(info, "DefaultRuntime");
    bool known = json_object_get(json_object_get(info, "Runtimes"), name) != NULL;
    snprintf(detail, sizeof(detail), "%.200s%s", name, known ? "" : " is not known to the daemon");
    p->say(p->arg, known ? PROBE_PASS : PROBE_FAIL, "docker runtime", detail,
           known ? NULL :
                   "add it to the daemon's configuration (\"runtimes\"), or set DOCKER_RUNTIME");
    static const struct {
        const char *key, *what;
    } limits[] = { { "MemoryLimit", "memory" },
                   { "SwapLimit", "swap" },
                   { "PidsLimit", "processes" },
                   { "CpuCfsQuota", "processors" } };
    char missing[100] = "";
    for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
        if (!json_is_true(json_object_get(info, limits[i].key)))
            snprintf(missing + strlen(missing), sizeof(missing) - strlen(missing), "%s%s",
                     *missing ? ", " : "", limits[i].what);
    bool seccomp = has_seccomp(info);
    snprintf(detail, sizeof(detail), "%s%s%s",
             *missing ? "the daemon cannot limit " :
                        "memory, swap, processes and processors; seccomp",
             missing,
             seccomp  ? "" :
             *missing ? "" :
                        " only riddle-kernel's own");
    p->say(p->arg, *missing ? PROBE_CAUTION : PROBE_PASS, "docker limits", detail,
           *missing ? "boot the daemon's machine with these control groups enabled" : NULL);
    return known;
}

static void ignore_closed(uv_handle_t *h, void *arg)
{
    (void)arg;
    if (!uv_is_closing(h))
        uv_close(h, NULL);
}

bool docker_probe(const struct config *cfg, probe_fn say, void *arg)
{
    struct probe p = { .cfg = cfg, .say = say, .arg = arg };
    struct err err = ERR_INIT;
    if (uv_loop_init(&p.loop) < 0)
        return false;
    bool good = engine_create(&p.loop, cfg->docker_host, &p.engine, &err) == 0;
    if (!good)
        say(arg, PROBE_FAIL, "docker daemon", err.message, "correct DOCKER_HOST");
    else
        good = probe_daemon(&p) && probe_image(&p) && probe_runtime(&p);
    json_decref(p.body);
    engine_destroy(p.engine);
    uv_run(&p.loop, UV_RUN_DEFAULT);
    uv_walk(&p.loop, ignore_closed, NULL);
    uv_run(&p.loop, UV_RUN_DEFAULT);
    uv_loop_close(&p.loop);
    return good;
}
