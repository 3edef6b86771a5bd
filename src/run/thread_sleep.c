/* How kernels of threads are put aside and brought back, by what the provider can do. */

#include "run/thread_kernel.h"
#include "sandbox/provider.h"

static const struct kernel_sleep_ops freezing = { .freeze = lease_freeze, .thaw = lease_thaw };

const struct kernel_sleep_ops *thread_sleep_ops(const struct executor *ex)
{
    struct executor_stats stats;
    executor_stats(ex, &stats);
    return stats.caps & PROVIDER_FREEZE ? &freezing : NULL;
}
