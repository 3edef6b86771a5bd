/* Leases that are frozen and thawed. */

#include "sandbox/pool/executor_impl.h"
#include "sandbox/sandbox_impl.h"

static void on_settled(void *arg, const struct err *err)
{
    struct lease *l = arg;
    if (err)
        l->is_frozen = !l->is_frozen; /* as it was */
    l->state = l->is_frozen ? LEASE_FROZEN : LEASE_IDLE;
    l->slept(l, err, l->slept_arg);
}

static int set_frozen(struct lease *l, bool frozen, lease_ready_fn done, void *arg, struct err *err)
{
    const struct provider_ops *ops = l->ex->provider->ops;
    if (!(ops->caps & PROVIDER_FREEZE))
        return err_set(err, ERR_UNAVAILABLE, "the sandbox provider '%s' cannot freeze", ops->name);
    if (!lease_alive(l))
        return err_set(err, ERR_UNAVAILABLE, "the kernel of this sandbox is gone");
    if (l->state != (frozen ? LEASE_IDLE : LEASE_FROZEN) || l->is_frozen == frozen)
        return err_set(err, ERR_CONFLICT, "this sandbox is %s",
                       frozen ? "busy with another run" : "not frozen");
    l->slept = done;
    l->slept_arg = arg;
    l->is_frozen = frozen;
    l->state = LEASE_FROZEN;
    if (frozen)
        ops->freeze(lease_link(l), on_settled, l);
    else
        ops->thaw(lease_link(l), on_settled, l);
    return 0;
}

int lease_freeze(struct lease *l, lease_ready_fn done, void *arg, struct err *err)
{
    return set_frozen(l, true, done, arg, err);
}

int lease_thaw(struct lease *l, lease_ready_fn done, void *arg, struct err *err)
{
    return set_frozen(l, false, done, arg, err);
}
