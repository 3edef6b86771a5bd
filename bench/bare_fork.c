/*
 * The floor for starting a kernel: the same zygote (CPython, packages, DuckDB, warmed, frozen, its
 * memory arranged), forked with plain fork(2) and no jail at all, up to the result of the cell.
 * Prints one duration in microseconds per line.
 *
 *   bare_fork COUNT PRELOAD CODE
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "kernel/python/python.h"
#include "kernel/sql/sql.h"
#include "kernel/zygote/arenas.h"
#include "kernel/zygote/memory.h"

static void child(const char *code, int out)
{
    struct err err = ERR_INIT;
    struct result result;
    struct python_setup setup = { .policy_allowed = "", .policy_blocked = "" };
    struct python_request req = {
        .code = code, .code_len = strlen(code), .max_rows = 200, .max_output_bytes = 65536
    };
    result_init(&result, 1u << 20);
    int r = python_prepare(&err);
    if (r == 0)
        r = python_start(&setup, &err);
    if (r == 0)
        r = python_execute(&req, &result, &err);
    if (r == 0)
        r = result_end(&result, &err);
    if (r < 0) {
        fprintf(stderr, "bare_fork: %s\n", err.message);
        _exit(1);
    }
    (void)!write(out, result.json.text.data, result.json.text.len);
    _exit(0);
}

int main(int argc, char **argv)
{
    struct err err = ERR_INIT;
    struct sql_engine *engine;
    if (argc != 4)
        return 2;
    arenas_install();
    if (sql_engine_create(&engine, &err) < 0 || sql_engine_warm(engine, &err) < 0 ||
        python_init(argv[2], engine, &err) < 0 || python_warm(&err) < 0) {
        fprintf(stderr, "bare_fork: %s\n", err.message);
        return 1;
    }
    memory_fill_gaps();
    memory_join_libraries();
    memory_collapse();
    for (int i = 0; i < atoi(argv[1]); i++) {
        int ends[2];
        char answer[65536];
        if (pipe(ends) < 0)
            return 1;
        int64_t begun = clock_now_us();
        pid_t pid = fork();
        if (pid == 0)
            child(argv[3], ends[1]);
        ssize_t n = read(ends[0], answer, sizeof(answer));
        int64_t us = clock_now_us() - begun;
        int status;
        waitpid(pid, &status, 0);
        close(ends[0]);
        close(ends[1]);
        if (n <= 0 || !memmem(answer, (size_t)n, "\"verdict\":\"ok\"", 14)) {
            fprintf(stderr, "bare_fork: the cell failed: %.*s\n", (int)(n > 0 ? n : 0), answer);
            return 1;
        }
        printf("%lld\n", (long long)us);
        fflush(stdout);
    }
    _exit(0); /* as a zygote ends: without tearing CPython down */
}
