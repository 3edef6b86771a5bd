/* Images and copies of a thread's kernel: when one may be written, and what is known of it. */

#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/macros.h"
#include "run/thread_kernel_impl.h"

int thread_kernel_freeze(struct thread_kernel *k, struct err *err)
{
    return kernel_step(k, KERNEL_EV_FREEZE, "its sandbox ended while it was put aside", err);
}

const char *thread_kernel_refusal(const struct thread_kernel *k)
{
    return k->refusal[0] ? k->refusal : NULL;
}

int thread_kernel_adopt(struct thread_kernel *k, const char *path, struct err *err)
{
    if (k->state != KERNEL_NONE || !(kernel_caps(k) & KERNEL_CAN_IMAGE))
        return err_set(err, ERR_CONFLICT, "a thread's kernel that is %s takes no image",
                       kernel_state_name(k->state));
    free(k->image);
    k->image = strdup(path);
    if (!k->image)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    k->state = KERNEL_COLD;
    k->is_retired = false;
    k->variables = true;
    return 0;
}

static int begin_image(struct thread_kernel *k, const char *path, bool stays, bool ports,
                       struct err *err)
{
    struct kernel_move move;
    if (k->stale)
        return err_set(err, ERR_CONFLICT,
                       "files were added to the thread after its kernel started");
    int r = kernel_move(k->state, KERNEL_EV_IMAGE, kernel_caps(k), &move, err);
    if (r < 0)
        return r;
    free(k->image);
    k->image = strdup(path);
    if (!k->image)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    k->stays = stays;
    k->ports = ports;
    return kernel_step(k, KERNEL_EV_IMAGE, "its sandbox ended while it was put aside", err);
}

int thread_kernel_image(struct thread_kernel *k, const char *path, struct err *err)
{
    return begin_image(k, path, false, false, err);
}

int thread_kernel_save(struct thread_kernel *k, const char *path, struct err *err)
{
    return begin_image(k, path, true, false, err);
}

int thread_kernel_port(struct thread_kernel *k, const char *path, struct err *err)
{
    if (k->is_unportable)
        return err_set(err, ERR_CONFLICT, "%s", k->refusal);
    return begin_image(k, path, false, k->env.sleep && k->env.sleep->port, err);
}

const char *thread_kernel_not_elsewhere(const struct thread_kernel *k)
{
    if (!k->is_companion_known || k->state != KERNEL_COLD || k->not_kept[0])
        return NULL;
    return !k->has_companion     ? LEASE_NO_COMPANION :
           k->companion_lacks[0] ? k->companion_lacks :
                                   NULL;
}

const char *thread_kernel_not_kept(const struct thread_kernel *k)
{
    return k->not_kept[0] ? k->not_kept : NULL;
}

int thread_kernel_branch(struct thread_kernel *k, struct thread_kernel *to, struct err *err)
{
    struct kernel_move move;
    if (k->stale)
        return err_set(err, ERR_CONFLICT,
                       "files were added to the thread after its kernel started");
    if (!k->env.sleep || !k->env.sleep->branch)
        return err_set(err, ERR_UNAVAILABLE, "the sandbox provider cannot do 'branch'");
    if (to->state != KERNEL_NONE)
        return err_set(err, ERR_CONFLICT, "a thread's kernel that is %s takes no image",
                       kernel_state_name(to->state));
    int r = kernel_move(k->state, KERNEL_EV_IMAGE, kernel_caps(k), &move, err);
    if (r < 0)
        return r;
    to->state = KERNEL_COLD;
    to->variables = true;
    to->unsaved_ms = clock_now_ms();
    to->source = k;
    k->branch = to;
    k->is_branching = true;
    k->is_branched = false;
    r = kernel_step(k, KERNEL_EV_IMAGE, "its sandbox ended while it was copied", err);
    k->branch = to->source = NULL;
    if (r < 0)
        k->is_branching = false;
    return r;
}

bool thread_kernel_is_branched(const struct thread_kernel *k)
{
    return k->is_branched;
}

int64_t thread_kernel_unsaved_ms(const struct thread_kernel *k)
{
    return k->variables ? k->unsaved_ms : 0;
}
