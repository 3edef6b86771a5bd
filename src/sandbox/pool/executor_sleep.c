/* Leases that are frozen and thawed, written to a file and made from one. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/str.h"
#include "sandbox/image_file.h"
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

/* ---- images ---- */

#define IMAGE_TIMEOUT_MS 60000
#define RESTORE_TIMEOUT_MS 60000
/* Besides memory, /workspace and /tmp, an image has tables of them. */
#define IMAGE_EXTRA_BYTES (64ll << 20)

void lease_forget_image(struct lease *l)
{
    if (l->image.partial)
        unlink(l->image.partial);
    free(TAKE_PTR(l->image.path));
    free(TAKE_PTR(l->image.partial));
}

/* What the kernel says it cannot keep, or how it ended. */
static int judge(const struct run_result *result, struct err *err)
{
    const json_t *error = json_object_get(result->body, "error");
    const json_t *message = json_object_get(error, "message");
    char shown[ERR_MESSAGE_MAX - 40] = "the kernel gave no reason";
    if (result->verdict == VERDICT_OK)
        return 0;
    if (json_is_string(message))
        str_show(json_string_value(message), json_string_length(message), shown, sizeof(shown));
    return err_set(err, result->state_lost ? ERR_UNAVAILABLE : ERR_CONFLICT, "%s", shown);
}

static int begin_image(struct lease *l, struct err *err);

/* Once more, without what cannot be an image. False if that cannot be. */
static bool port_instead(struct lease *l)
{
    struct err ignored = ERR_INIT;
    if (l->image.err.code != ERR_CONFLICT || !l->image.may_port || l->image.is_portable ||
        !lease_alive(l))
        return false;
    l->image.is_portable = true;
    l->image.written = l->image.answered = false;
    struct err why = l->image.err;
    l->image.err = (struct err)ERR_INIT;
    if (begin_image(l, &ignored) == 0)
        return true;
    l->image.err = why;
    return false;
}

/* What the file lacks is in it, for whoever asks for the state of the thread. */
static void note_lacks(const struct lease *l)
{
    struct image_notes notes = { 0 };
    if (l->ex->cfg->image_key[0])
        return; /* names of variables are the thread's own */
    snprintf(notes.not_kept, sizeof(notes.not_kept), "%s", l->not_kept);
    if (!l->image.is_portable)
        snprintf(notes.not_elsewhere, sizeof(notes.not_elsewhere), "%s",
                 l->has_companion ? l->companion_lacks : LEASE_NO_COMPANION);
    image_file_note(l->image.partial, &notes);
}

/* Both the kernel and whoever writes the file are done. */
static void end_image(struct lease *l)
{
    if (!l->image.written || !l->image.answered || port_instead(l))
        return;
    struct err err = l->image.err;
    if (!err.code)
        note_lacks(l);
    if (!err.code && rename(l->image.partial, l->image.path) < 0)
        err_errno(&err, ERR_IO, errno, "naming an image");
    if (!err.code)
        free(TAKE_PTR(l->image.partial));
    lease_forget_image(l);
    l->state = LEASE_IDLE;
    l->slept(l, err.code ? &err : NULL, l->slept_arg);
}

static void take_text(const struct run_result *result, const char *key, char *ret, size_t n)
{
    const json_t *text = json_object_get(result->body, key);
    ret[0] = '\0';
    if (json_string_length(text) > 0)
        str_show(json_string_value(text), json_string_length(text), ret, n);
}

static void note_not_kept(struct lease *l, const struct run_result *result)
{
    take_text(result, "not_kept", l->not_kept, sizeof(l->not_kept));
    take_text(result, "no_image", l->no_image, sizeof(l->no_image));
}

static void note_companion(struct lease *l, const struct run_result *result)
{
    l->has_companion = json_is_string(json_object_get(result->body, "companion_lacks"));
    take_text(result, "companion_lacks", l->companion_lacks, sizeof(l->companion_lacks));
}

const char *lease_not_kept(const struct lease *l)
{
    return l->not_kept[0] ? l->not_kept : NULL;
}

const char *lease_no_image(const struct lease *l)
{
    return l->no_image[0] ? l->no_image : NULL;
}

const char *lease_companion_lacks(const struct lease *l)
{
    return l->has_companion ? l->companion_lacks : NULL;
}

static void on_written(void *arg, const struct err *err)
{
    struct lease *l = arg;
    l->image.written = true;
    if (err && !l->image.err.code)
        l->image.err = *err;
    end_image(l);
}

static void on_imaged(struct sandbox *sb, struct run_result *result, const struct err *err,
                      void *arg)
{
    struct lease *l = arg;
    (void)sb;
    l->image.answered = true;
    if (err)
        l->image.err = *err;
    else if (judge(result, &l->image.err) == 0 && l->image.is_portable)
        note_not_kept(l, result);
    else if (!l->image.err.code)
        note_companion(l, result);
    if (result)
        run_result_finish(result);
    end_image(l);
}

static int begin_image(struct lease *l, struct err *err)
{
    const struct provider_ops *ops = l->ex->provider->ops;
    const struct sandbox_limits *limits = &l->spec.limits;
    auto_json json_t *body =
        json_pack("{s:b}", l->image.is_portable ? "portable" : "companion", true);
    struct sandbox_request req = {
        .type = WIRE_IMAGE, .body = body, .timeout_ms = IMAGE_TIMEOUT_MS, .max_output_bytes = 65536
    };
    l->state = LEASE_FROZEN;
    ops->image(lease_link(l), l->image.partial,
               limits->memory_bytes + limits->workspace_bytes + limits->tmp_bytes +
                   IMAGE_EXTRA_BYTES,
               on_written, l);
    int r = sandbox_request(l->sandbox, &req, NULL, on_imaged, l, err);
    if (r < 0)
        l->state = LEASE_IDLE;
    return r;
}

static void fail_image(struct lease *l, const struct err *why)
{
    struct lease *branch = TAKE_PTR(l->branch);
    if (branch) {
        branch->spec.from = NULL;
        lease_fail(branch, why);
    }
    lease_forget_image(l);
    l->state = LEASE_IDLE;
    l->slept(l, why, l->slept_arg);
}

/* The branch went while this was prepared. */
static void leave_unbranched(struct lease *l)
{
    struct err err = ERR_INIT;
    err_set(&err, ERR_CANCELLED, "the sandbox that was to go on is gone");
    fail_image(l, &err);
}

static void on_prepared(void *arg, const struct err *err)
{
    struct lease *l = arg;
    struct err why = ERR_INIT;
    (void)err;
    l->image.is_prepared = true;
    if (l->image.path && begin_image(l, &why) < 0)
        fail_image(l, &why);
    else if (!l->image.path && !l->branch)
        leave_unbranched(l);
    else if (!l->image.path && l->branch->waits_for_source)
        load_advance(l->branch);
}

static void on_thawed_to_image(void *arg, const struct err *err)
{
    struct lease *l = arg;
    l->is_frozen = false;
    if (err)
        fail_image(l, err);
    else
        l->ex->provider->ops->prepare_image(lease_link(l), on_prepared, l);
}

/* Whether something can be written of it now. */
static int check_at_rest(const struct lease *l, struct err *err)
{
    const struct provider_ops *ops = l->ex->provider->ops;
    if (!(ops->caps & PROVIDER_IMAGE))
        return err_set(err, ERR_UNAVAILABLE, "the sandbox provider '%s' writes no images",
                       ops->name);
    if (!lease_alive(l))
        return err_set(err, ERR_UNAVAILABLE, "the kernel of this sandbox is gone");
    if (l->state != LEASE_IDLE && !(l->state == LEASE_FROZEN && l->is_frozen))
        return err_set(err, ERR_CONFLICT, "this sandbox is busy with another run");
    return 0;
}

/* Thaws it, has what images share made, and calls on. */
static void prepare(struct lease *l, lease_ready_fn done, void *arg)
{
    const struct provider_ops *ops = l->ex->provider->ops;
    l->image.written = l->image.answered = l->image.is_portable = l->image.is_prepared = false;
    l->image.err = (struct err)ERR_INIT;
    l->has_companion = false;
    l->not_kept[0] = '\0';
    l->slept = done;
    l->slept_arg = arg;
    l->state = LEASE_FROZEN;
    if (l->is_frozen)
        ops->thaw(lease_link(l), on_thawed_to_image, l);
    else
        ops->prepare_image(lease_link(l), on_prepared, l);
}

static int write_image(struct lease *l, const char *path, bool may_port, lease_ready_fn done,
                       void *arg, struct err *err)
{
    int r = check_at_rest(l, err);
    if (r < 0)
        return r;
    lease_forget_image(l);
    l->image.may_port = may_port;
    l->image.path = strdup(path);
    if (!l->image.path || asprintf(&l->image.partial, "%s.partial", path) < 0) {
        l->image.partial = NULL;
        lease_forget_image(l);
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    }
    prepare(l, done, arg);
    return 0;
}

int lease_image(struct lease *l, const char *path, lease_ready_fn done, void *arg, struct err *err)
{
    return write_image(l, path, false, done, arg, err);
}

int lease_port(struct lease *l, const char *path, lease_ready_fn done, void *arg, struct err *err)
{
    return write_image(l, path, true, done, arg, err);
}

/* ---- branches ---- */

/*
 * Two things come first, in either order: the source is prepared, and the branch has a kernel. Then
 * both are told at once, and the one reads what the other writes.
 */

static void end_branch(struct lease *from, const struct err *err)
{
    if (from->branch)
        from->branch->spec.from = NULL;
    from->branch = NULL;
    from->state = LEASE_IDLE;
    from->slept(from, err, from->slept_arg);
}

static void on_branched(struct sandbox *sb, struct run_result *result, const struct err *err,
                        void *arg)
{
    struct lease *from = arg;
    struct err why = ERR_INIT;
    (void)sb;
    if (err)
        why = *err;
    else if (judge(result, &why) == 0)
        note_not_kept(from, result);
    if (result)
        run_result_finish(result);
    end_branch(from, why.code ? &why : NULL);
}

void lease_write_to_branch(struct lease *from)
{
    struct err err = ERR_INIT;
    auto_json json_t *body = json_pack("{s:b}", "live", true);
    struct sandbox_request req = {
        .type = WIRE_IMAGE, .body = body, .timeout_ms = IMAGE_TIMEOUT_MS, .max_output_bytes = 65536
    };
    from->branch->spec.from = NULL; /* it goes on without: it has its end of the pipe */
    from->branch = NULL;
    if (sandbox_request(from->sandbox, &req, NULL, on_branched, from, &err) < 0)
        end_branch(from, &err);
}

void lease_leave_branch(struct lease *l)
{
    struct lease *from = TAKE_PTR(l->spec.from), *branch = TAKE_PTR(l->branch);
    struct err err = ERR_INIT;
    if (from && from->branch == l) { /* which has written nothing yet */
        from->branch = NULL;
        if (from->image.is_prepared) {
            err_set(&err, ERR_CANCELLED, "the sandbox that was to go on is gone");
            end_branch(from, &err);
        }
    }
    if (branch) {
        branch->spec.from = NULL;
        err_set(&err, ERR_UNAVAILABLE, "the sandbox that was to be copied is gone");
        lease_fail(branch, &err);
    }
}

int lease_branch(struct lease *from, const char *owner, const struct sandbox_spec *spec,
                 lease_ready_fn ready, void *arg, struct lease **ret, lease_ready_fn done,
                 void *done_arg, struct err *err)
{
    struct sandbox_spec branched = *spec;
    int r = check_at_rest(from, err);
    if (r < 0)
        return r;
    lease_forget_image(from);
    from->image.is_prepared = false;
    branched.from = from;
    r = executor_acquire(from->ex, owner, &branched, NULL, ready, arg, &from->branch, err);
    if (r < 0)
        return r;
    *ret = from->branch;
    prepare(from, done, done_arg);
    return 0;
}

static void on_restored(struct sandbox *sb, struct run_result *result, const struct err *err,
                        void *arg)
{
    struct lease *l = arg;
    struct err why = ERR_INIT;
    (void)sb;
    if (err)
        why = *err;
    else if (judge(result, &why) == 0) {
        note_not_kept(l, result);
        if (json_is_true(json_object_get(result->body, "ported")))
            l->ex->provider->ops->was_ported(lease_link(l));
    }
    if (result)
        run_result_finish(result);
    l->times.start_us = clock_now_us() - l->since_us;
    executor_refill(l->ex);
    if (why.code)
        lease_fail(l, &why);
    else
        lease_is_ready(l);
}

int lease_await_restored(struct lease *l, struct err *err)
{
    struct sandbox_request req = { .type = WIRE_LIST,
                                   .timeout_ms = RESTORE_TIMEOUT_MS,
                                   .max_output_bytes = 65536 };
    return sandbox_request(l->sandbox, &req, NULL, on_restored, l, err);
}
