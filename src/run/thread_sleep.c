/* How kernels of threads are put aside and brought back, by what the provider can do. */

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

static void discard(const char *path)
{
    (void)unlink(path);
}

static const struct kernel_sleep_ops freezing = { .freeze = lease_freeze, .thaw = lease_thaw };
static const struct kernel_sleep_ops imaging = { .freeze = lease_freeze,
                                                 .thaw = lease_thaw,
                                                 .image = lease_image,
                                                 .restore = restore,
                                                 .discard = discard };

const struct kernel_sleep_ops *thread_sleep_ops(const struct executor *ex)
{
    struct executor_stats stats;
    executor_stats(ex, &stats);
    if (stats.caps & PROVIDER_IMAGE)
        return &imaging;
    return stats.caps & PROVIDER_FREEZE ? &freezing : NULL;
}
