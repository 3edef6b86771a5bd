/* riddle serve: the server, until a signal stops it. */

#include <getopt.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include "api/app.h"
#include "base/background.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/cli.h"

static const char usage[] =
    "usage: riddle serve [--host ADDRESS] [--port N]\n"
    "\n"
    "  --host ADDRESS   address to bind; RIDDLE_HOST, else 127.0.0.1\n"
    "  --port N         port; PORT, else 8000; 0 takes a free one and prints it\n"
    "\n"
    "Settings come from the environment and from .env: docs/env.md lists them.\n";

struct serving {
    struct loop *loop;
    struct app *app;
};

static void on_stopped(void *arg)
{
    struct serving *s = arg;
    loop_quit(s->loop);
}

static void on_signal(void *arg, int count)
{
    struct serving *s = arg;
    if (count == 1) {
        log_info("server.stopping", LOG_INT("in_flight", http_server_active(s->app->server)));
        app_stop(s->app, on_stopped, s);
    } else {
        loop_quit(s->loop); /* asked twice: now */
    }
}

/* One line on standard output, for people and for scripts that wait for it. */
static void announce(const struct app *app)
{
    const struct config *cfg = app->cfg;
    bool any = str_eq(cfg->host, "0.0.0.0") || str_eq(cfg->host, "::");
    bool v6 = strchr(cfg->host, ':') != NULL;
    printf("Riddle is ready: http://%s%s%s:%d  (API: /docs, stop: Ctrl-C)\n", v6 && !any ? "[" : "",
           any ? "localhost" : cfg->host, v6 && !any ? "]" : "", http_server_port(app->server));
    fflush(stdout);
    log_info("server.ready", LOG_INT("port", http_server_port(app->server)),
             LOG_INT("ms", clock_now_ms() - app->started_ms));
}

int cli_serve(const struct cli *cli, int argc, char **argv)
{
    (void)cli;
    static const struct option options[] = { { "host", required_argument, NULL, 'H' },
                                             { "port", required_argument, NULL, 'p' },
                                             { "help", no_argument, NULL, 'h' },
                                             { NULL, 0, NULL, 0 } };
    struct config cfg;
    struct err err = ERR_INIT;
    int status = cli_load_config(&cfg);
    if (status != CLI_OK)
        return status;
    for (int c; (c = getopt_long(argc, argv, ":", options, NULL)) != -1;) {
        if (c == 'H') {
            cfg.host = optarg;
        } else if (c == 'p') {
            if (str_parse_i64(optarg, "--port", 0, 65535, &cfg.port, &err) < 0) {
                cli_complain("%s", err.message);
                config_finish(&cfg);
                return CLI_USAGE;
            }
        } else if (c == 'h') {
            fputs(usage, stdout);
            config_finish(&cfg);
            return CLI_OK;
        } else {
            config_finish(&cfg);
            return cli_bad_option("serve", argv, options);
        }
    }
    if (optind < argc) {
        cli_complain("serve takes no argument '%s'", argv[optind]);
        config_finish(&cfg);
        return CLI_USAGE;
    }

    /*
     * Large buffers (frames, figures, results) go back to the system as soon as they are freed. By
     * default glibc raises the threshold after the first of them and keeps the memory.
     */
    mallopt(M_MMAP_THRESHOLD, 256 << 10);
    mallopt(M_TRIM_THRESHOLD, 8 << 20);
    mallopt(M_TOP_PAD, 1 << 20);
    mallopt(M_ARENA_MAX, 2 + background_start());
    struct serving s = { 0 };
    int r = loop_create(&s.loop, &err);
    if (r == 0)
        r = app_create(s.loop, &cfg, &s.app, &err);
    if (r == 0)
        r = loop_on_stop_signal(s.loop, on_signal, &s, &err);
    if (r == 0) {
        announce(s.app);
        loop_run(s.loop);
        log_info("server.stopped");
    } else {
        cli_complain("%s", err.message);
    }
    app_destroy(s.app);
    loop_destroy(s.loop);
    config_finish(&cfg);
    return r < 0 ? CLI_FAILED : CLI_OK;
}
