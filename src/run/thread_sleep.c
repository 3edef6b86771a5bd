/* How kernels of threads are put aside and brought back, by what the provider can do. */

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/macros.h"
#include "run/thread_kernel.h"
#include "sandbox/provider.h"

static int restore(struct executor *ex, const char *owner, const struct sandbox_spec *spec,
                   const char *path, lease_ready_fn ready, void *arg, struct lease **ret,
                   struct err *err)
{
    struct sandbox_spec with_image = *spec;
    with_image.image = path;
    return executor_acquire(ex, owner, &with_image, NULL, ready, arg, ret, err);
}

#define RETIRED_SIZE 4500

/* Names of the image of a living kernel: SAME until code runs in it, USED from then on. */
#define SAME ".same"
#define USED ".used"

static void retired_path(const char *path, const char *suffix, char ret[RETIRED_SIZE])
{
    snprintf(ret, RETIRED_SIZE, "%s%s", path, suffix);
}

static bool is_same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_ino == y.st_ino && x.st_dev == y.st_dev;
}

/* What was recovered stays USED until there is a new image: its loss may not have been told yet. */
static void retire(const char *path)
{
    char same[RETIRED_SIZE], used[RETIRED_SIZE];
    retired_path(path, SAME, same);
    retired_path(path, USED, used);
    if (is_same_file(path, used))
        (void)unlink(path);
    else
        (void)rename(path, same);
}

static void outdate(const char *path)
{
    char same[RETIRED_SIZE], used[RETIRED_SIZE];
    retired_path(path, SAME, same);
    retired_path(path, USED, used);
    (void)rename(same, used);
}

static void imaged(const char *path)
{
    static const char *const suffixes[] = { SAME, USED };
    char retired[RETIRED_SIZE];
    for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
        retired_path(path, suffixes[i], retired);
        (void)unlink(retired);
    }
}

static void discard(const char *path)
{
    (void)unlink(path);
    imaged(path);
}

bool thread_sleep_recover(const char *path, bool *ret_is_old)
{
    char same[RETIRED_SIZE], used[RETIRED_SIZE];
    retired_path(path, SAME, same);
    retired_path(path, USED, used);
    bool found = access(path, R_OK) == 0 || rename(same, path) == 0 || link(used, path) == 0;
    *ret_is_old = found && is_same_file(path, used);
    return found;
}

static const struct kernel_sleep_ops freezing = { .freeze = lease_freeze, .thaw = lease_thaw };
static const struct kernel_sleep_ops imaging = { .freeze = lease_freeze,
                                                 .thaw = lease_thaw,
                                                 .image = lease_image,
                                                 .port = lease_port,
                                                 .restore = restore,
                                                 .retire = retire,
                                                 .outdate = outdate,
                                                 .imaged = imaged,
                                                 .discard = discard,
                                                 .branch = lease_branch };

const struct kernel_sleep_ops *thread_sleep_ops(const struct executor *ex)
{
    struct executor_stats stats;
    executor_stats(ex, &stats);
    if (stats.caps & PROVIDER_IMAGE)
        return &imaging;
    return stats.caps & PROVIDER_FREEZE ? &freezing : NULL;
}
