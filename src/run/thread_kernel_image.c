/* Images and copies of a thread's kernel: when one may be written, and what is known of it. */

#include <stdlib.h>
#include <string.h>
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

int thread_kernel_copy(struct thread_kernel *k, const char *path, struct err *err)
{
    struct kernel_move move;
    if (k->stale)
        return err_set(err, ERR_CONFLICT,
                       "files were added to the thread after its kernel started");
    if (!k->env.sleep || !k->env.sleep->copy)
        return err_set(err, ERR_UNAVAILABLE, "the sandbox provider cannot do 'copy'");
    int r = kernel_move(k->state, KERNEL_EV_IMAGE, kernel_caps(k), &move, err);
    if (r < 0)
        return r;
    free(k->copy);
    k->is_copied = false;
    k->copy = strdup(path);
    if (!k->copy)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    r = kernel_step(k, KERNEL_EV_IMAGE, "its sandbox ended while it was copied", err);
    if (r < 0)
        free(TAKE_PTR(k->copy));
    return r;
}

bool thread_kernel_is_copied(const struct thread_kernel *k)
{
    return k->is_copied;
}

int thread_kernel_adopt_copy(struct thread_kernel *k, const char *path, const char *copy,
                             struct err *err)
{
    char *unsynced = strdup(copy);
    int r = unsynced ? thread_kernel_adopt(k, path, err) :
                       err_set(err, ERR_NO_MEMORY, "out of memory");
    if (r < 0)
        free(unsynced);
    else
        k->unsynced = unsynced;
    return r;
}

void thread_kernel_settle_copy(struct thread_kernel *k)
{
    auto_free char *unsynced = TAKE_PTR(k->unsynced);
    if (unsynced && k->image && k->env.sleep->settle)
        k->env.sleep->settle(unsynced, k->image, k->is_retired, k->unsaved_ms != 0);
}

int64_t thread_kernel_unsaved_ms(const struct thread_kernel *k)
{
    return k->variables ? k->unsaved_ms : 0;
}
