/* How kernels of threads are put aside and brought back, by what the provider can do. */

#include <stdio.h>
#include <unistd.h>
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

static void retired_path(const char *path, char ret[RETIRED_SIZE])
{
    snprintf(ret, RETIRED_SIZE, "%s.used", path);
}

static void retire(const char *path)
{
    char retired[RETIRED_SIZE];
    retired_path(path, retired);
    (void)rename(path, retired);
}

static void imaged(const char *path)
{
    char retired[RETIRED_SIZE];
    retired_path(path, retired);
    (void)unlink(retired);
}

static void discard(const char *path)
{
    (void)unlink(path);
    imaged(path);
}

bool thread_sleep_recover(const char *path)
{
    char retired[RETIRED_SIZE];
    retired_path(path, retired);
    return rename(retired, path) == 0;
}

static const struct kernel_sleep_ops freezing = { .freeze = lease_freeze, .thaw = lease_thaw };
static const struct kernel_sleep_ops imaging = { .freeze = lease_freeze,
                                                 .thaw = lease_thaw,
                                                 .image = lease_image,
                                                 .restore = restore,
                                                 .retire = retire,
                                                 .imaged = imaged,
                                                 .discard = discard };

const struct kernel_sleep_ops *thread_sleep_ops(const struct executor *ex)
{
    struct executor_stats stats;
    executor_stats(ex, &stats);
    if (stats.caps & PROVIDER_IMAGE)
        return &imaging;
    return stats.caps & PROVIDER_FREEZE ? &freezing : NULL;
}
