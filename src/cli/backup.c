/*
 * `riddle backup` and `riddle restore`. A backup is a directory: the store, copied by SQLite's own
 * means while a server may be writing to it, and the files of uploads, sessions and figures. Tables
 * are left out: they are made again from the files.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/clock.h"
#include "base/fdio.h"
#include "base/home_lock.h"
#include "base/macros.h"
#include "base/str.h"
#include "cli/cli.h"
#include "store/store.h"

#define DEPTH_MAX 8
#define STORE_NAME "riddle.db"

static const char backup_usage[] =
    "usage: riddle backup DIRECTORY\n"
    "\n"
    "Copies the store and the files of uploads, sessions and figures to a new directory. A server\n"
    "may be running.\n";
static const char restore_usage[] =
    "usage: riddle restore DIRECTORY\n"
    "\n"
    "Puts a backup back into RIDDLE_HOME. No server may be running there. The store that is there\n"
    "is kept as riddle.db.before-TIME; files that are there stay.\n";

static const char *const trees[] = { "uploads", "sessions", "figures" };

static int copy_file(const char *from, const char *to, struct err *err)
{
    auto_close int in = open(from, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (in < 0)
        return errno == ENOENT ? 0 : err_errno(err, ERR_IO, errno, "reading '%s'", from);
    auto_close int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (out < 0)
        return errno == EEXIST ? 0 : err_errno(err, ERR_IO, errno, "writing '%s'", to);
    char chunk[65536];
    ssize_t n;
    int r = 0;
    while (r == 0 && (n = read(in, chunk, sizeof(chunk))) != 0)
        r = n < 0 ? err_errno(err, ERR_IO, errno, "reading '%s'", from) :
                    fd_write_all(out, chunk, (size_t)n, err);
    if (r == 0 && fsync(out) < 0)
        r = err_errno(err, ERR_IO, errno, "writing '%s'", to);
    struct stat st; /* when a session was used last is the time of its index */
    if (r == 0 && fstat(in, &st) == 0)
        (void)futimens(out, (struct timespec[]){ st.st_atim, st.st_mtim });
    if (r < 0)
        (void)unlink(to);
    return r;
}

/* What goes away meanwhile was deleted, and is left out. Hidden names are tables and half files. */
static int copy_tree(const char *from, const char *to, int depth, struct err *err)
{
    char a[PATH_MAX], b[PATH_MAX];
    struct dirent *e;
    DIR *d = opendir(from);
    if (!d)
        return errno == ENOENT ? 0 : err_errno(err, ERR_IO, errno, "reading '%s'", from);
    int r = fd_mkdir_p(to, 0700, err);
    while (r == 0 && (e = readdir(d))) {
        struct stat st;
        if (e->d_name[0] == '.')
            continue;
        if (snprintf(a, sizeof(a), "%s/%s", from, e->d_name) >= (int)sizeof(a) ||
            snprintf(b, sizeof(b), "%s/%s", to, e->d_name) >= (int)sizeof(b))
            r = err_set(err, ERR_IO, "a path below '%.1000s' is too long", from);
        else if (lstat(a, &st) < 0)
            continue;
        else if (S_ISDIR(st.st_mode) && depth < DEPTH_MAX)
            r = copy_tree(a, b, depth + 1, err);
        else if (S_ISREG(st.st_mode))
            r = copy_file(a, b, err);
    }
    closedir(d);
    return r;
}

static int copy_trees(const char *from, const char *to, struct err *err)
{
    char a[PATH_MAX], b[PATH_MAX];
    int r = 0;
    for (size_t i = 0; i < ARRAY_SIZE(trees) && r == 0; i++) {
        if (snprintf(a, sizeof(a), "%s/%s", from, trees[i]) >= (int)sizeof(a) ||
            snprintf(b, sizeof(b), "%s/%s", to, trees[i]) >= (int)sizeof(b))
            return err_set(err, ERR_IO, "a path is too long");
        r = copy_tree(a, b, 0, err);
    }
    return r;
}

static int back_up(const struct config *cfg, const char *dir, struct err *err)
{
    char store[PATH_MAX], copy[PATH_MAX];
    int r = store_configured_path(cfg, store, sizeof(store), err);
    if (r == 0 && snprintf(copy, sizeof(copy), "%s/" STORE_NAME, dir) >= (int)sizeof(copy))
        r = err_set(err, ERR_VALIDATION, "'%.1000s' is too long", dir);
    if (r == 0 && mkdir(dir, 0700) < 0 && errno != EEXIST)
        r = err_errno(err, ERR_IO, errno, "making '%s'", dir);
    /* The store first: a file without a record does no harm, a record without its file would. */
    if (r == 0)
        r = store_copy(store, copy, err);
    return r == 0 ? copy_trees(cfg->home, dir, err) : r;
}

static int put_aside(const char *store, struct err *err)
{
    static const char *const suffixes[] = { "", "-wal", "-shm" };
    char from[PATH_MAX + 8], to[PATH_MAX + 64], now[CLOCK_ISO_SIZE];
    clock_iso8601(clock_wall_ms(), now);
    for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
        snprintf(from, sizeof(from), "%s%s", store, suffixes[i]);
        snprintf(to, sizeof(to), "%s.before-%s%s", store, now, suffixes[i]);
        if (rename(from, to) < 0 && errno != ENOENT)
            return err_errno(err, ERR_IO, errno, "putting '%s' aside", from);
    }
    return 0;
}

static int restore(const struct config *cfg, const char *dir, struct err *err)
{
    char store[PATH_MAX], fresh[PATH_MAX + 16], copy[PATH_MAX];
    auto_close int lock = -1;
    int r = home_lock(cfg->home, "riddle restore", &lock, err);
    if (r == 0)
        r = store_configured_path(cfg, store, sizeof(store), err);
    if (r == 0 && snprintf(copy, sizeof(copy), "%s/" STORE_NAME, dir) >= (int)sizeof(copy))
        r = err_set(err, ERR_VALIDATION, "'%.1000s' is too long", dir);
    if (r < 0)
        return r;
    snprintf(fresh, sizeof(fresh), "%s.restored", store);
    (void)unlink(fresh);
    r = store_copy(copy, fresh, err); /* checked before anything is put aside */
    if (r == 0)
        r = copy_trees(dir, cfg->home, err);
    if (r == 0)
        r = put_aside(store, err);
    if (r == 0 && rename(fresh, store) < 0)
        r = err_errno(err, ERR_IO, errno, "storing '%s'", store);
    return r;
}

static int main_of(const char *verb, const char *usage, int argc, char **argv,
                   int (*fn)(const struct config *cfg, const char *dir, struct err *err))
{
    static const struct option options[] = { { "help", no_argument, NULL, 'h' },
                                             { NULL, 0, NULL, 0 } };
    struct config cfg;
    struct err err = ERR_INIT;
    for (int c; (c = getopt_long(argc, argv, ":", options, NULL)) != -1;) {
        if (c != 'h')
            return cli_bad_option(verb, argv, options);
        fputs(usage, stdout);
        return CLI_OK;
    }
    if (argc - optind != 1) {
        fputs(usage, stderr);
        return CLI_USAGE;
    }
    int status = cli_load_config(&cfg);
    if (status != CLI_OK)
        return status;
    int r = fn(&cfg, argv[optind], &err);
    if (r < 0)
        cli_complain("%s", err.message);
    config_finish(&cfg);
    return r < 0 ? CLI_FAILED : CLI_OK;
}

int cli_backup(const struct cli *cli, int argc, char **argv)
{
    (void)cli;
    return main_of("backup", backup_usage, argc, argv, back_up);
}

int cli_restore(const struct cli *cli, int argc, char **argv)
{
    (void)cli;
    return main_of("restore", restore_usage, argc, argv, restore);
}
