/*
 * Forks: a thread that goes on twice from its present state. A kernel that lives writes itself to a
 * pipe and goes on; the kernel of the fork, in a jail of its own, reads the pipe and becomes it. The
 * fork of a thread that is cold has another name of its image. Images are never written to, so
 * neither sees what the other does.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "agent/agent_impl.h"
#include "base/str.h"

#define LOST_BEFORE "variables were lost before the thread was forked"

/* ---- the image ---- */

struct taking {
    struct chat *chat; /* a reference */
    chat_image_fn done;
    void *arg;
};

static bool is_busy(const struct chat *c)
{
    return c->turns || thread_kernel_is_busy(c->kernel);
}

static int refuse_busy(struct err *err)
{
    return err_set(err, ERR_CONFLICT,
                   "this thread is busy; try again when its answer is there, or stop it");
}

static void taken(struct taking *t, bool has_image, const char *refusal, const struct err *err)
{
    t->done(has_image, refusal, err, t->arg);
    chat_unref(t->chat);
    free(t);
}

static void cooled(void *arg)
{
    struct taking *t = arg;
    const struct chat *c = t->chat;
    struct err err = ERR_INIT;
    const char *refusal = thread_kernel_refusal(c->kernel);
    bool is_cold = thread_kernel_state(c->kernel) == KERNEL_COLD;
    if (c->agent->closing) {
        err_set(&err, ERR_CANCELLED, "the server stops");
        taken(t, false, NULL, &err);
    } else if (is_busy(c) || (!is_cold && !refusal && thread_kernel_is_kept(c->kernel))) {
        (void)refuse_busy(&err); /* a message came meanwhile */
        taken(t, false, NULL, &err);
    } else if (is_cold) {
        taken(t, true, NULL, NULL);
    } else {
        taken(t, false, refusal ? refusal : "its sandbox ended while it was put aside", NULL);
    }
}

static void settled(void *arg)
{
    struct taking *t = arg;
    struct chat *c = t->chat;
    struct err err = ERR_INIT;
    struct chat_sandbox now;
    chat_sandbox(c, &now);
    int r = c->agent->closing ? err_set(&err, ERR_CANCELLED, "the server stops") :
            is_busy(c)        ? refuse_busy(&err) :
                                0;
    if (r == 0 && now.has_variables && c->agent->env.cfg->images_bytes > 0)
        r = keeper_check_room(c->agent, 0, &err);
    if (r < 0)
        taken(t, false, NULL, &err);
    else if (!now.has_variables)
        taken(t, false, NULL, NULL);
    else if (chat_cool(c, &err) < 0)
        taken(t, false, err.message, NULL);
    else
        chat_when_settled(c, cooled, t);
}

int chat_take_image(struct chat *c, chat_image_fn done, void *arg, struct err *err)
{
    if (is_busy(c))
        return refuse_busy(err);
    struct taking *t = calloc(1, sizeof(*t));
    if (!t)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    *t = (struct taking){ .chat = chat_ref(c), .done = done, .arg = arg };
    chat_when_settled(c, settled, t);
    return 0;
}

/* ---- forks ---- */

struct forking {
    struct chat *from; /* a reference */
    char id[THREAD_ID_MAX + 1];
    char *title;
    struct chat *fork; /* a reference, once it is in the store */
    bool has_link;     /* … to the image of a thread that is cold */
    bool creates;      /* it is on its way to the store */
    bool copies;       /* its kernel is being copied */
    bool is_portable;  /* … and lacks some variables, which its kernel tells of */
    struct err err;    /* why there is no fork */
    char not_kept[MAX_OF(ERR_MESSAGE_MAX, LEASE_NOT_KEPT_SIZE)]; /* "": nothing is missing */
    chat_fork_fn done;
    void *arg;
};

static void end(struct forking *f)
{
    struct chat *fork = TAKE_PTR(f->fork);
    if (f->err.code) {
        keeper_remove_images(f->from->agent, f->from->owner, f->id);
        chat_unref(fork);
        fork = NULL;
    } else if (f->not_kept[0] && !f->is_portable) {
        thread_kernel_note_loss(fork->kernel, "they were not kept when the thread was forked");
    }
    f->done(fork, f->not_kept[0] ? f->not_kept : NULL, f->err.code ? &f->err : NULL, f->arg);
    chat_unref(f->from);
    free(f->title);
    free(f);
}

/* The store has the fork and its kernel is there: whichever comes last. */
static void end_if_done(struct forking *f)
{
    if (!f->copies && !f->creates)
        end(f);
}

static void on_created(struct chat *fork, const struct err *err, void *arg)
{
    struct forking *f = arg;
    struct err why = ERR_INIT;
    f->fork = fork;
    f->creates = false;
    if (err)
        f->err = *err;
    else if (f->has_link && keeper_take_link(fork, &why) < 0)
        snprintf(f->not_kept, sizeof(f->not_kept), "%s", why.message);
    end_if_done(f);
}

/* What a chat in memory knows beside its record. */
static void copy_memory(const struct chat *from, struct chat *to)
{
    json_decref(to->history);
    to->history = json_deep_copy(from->history);
    to->last_plan = json_deep_copy(from->last_plan);
    to->last_question = from->last_question ? strdup(from->last_question) : NULL;
    to->message_count = from->message_count;
}

/* The kernel of the thread goes on, and that of the fork has what it wrote, or cannot have it. */
static void on_copied(void *arg)
{
    struct forking *f = arg;
    const struct chat *c = f->from;
    const char *refusal = thread_kernel_refusal(c->kernel);
    f->copies = false;
    if (c->agent->closing)
        err_set(&f->err, ERR_CANCELLED, "the server stops");
    else if (!thread_kernel_is_branched(c->kernel))
        snprintf(f->not_kept, sizeof(f->not_kept), "%s",
                 refusal ? refusal : "its sandbox ended while it was copied");
    else if (thread_kernel_not_kept(c->kernel)) {
        f->is_portable = true;
        snprintf(f->not_kept, sizeof(f->not_kept), "%s", thread_kernel_not_kept(c->kernel));
    }
    end_if_done(f);
}

static int create(struct forking *f, struct err *err)
{
    struct chat *c = f->from;
    const struct chat_spec spec = { .owner = c->owner,
                                    .thread_id = f->id,
                                    .title = f->title,
                                    .datasets = c->datasets,
                                    .uploads = c->uploads,
                                    .terms = c->terms ? c->terms->config : NULL,
                                    .forked_from = c->id };
    if (thread_kernel_has_loss(c->kernel))
        snprintf(f->not_kept, sizeof(f->not_kept), LOST_BEFORE);
    f->creates = true;
    return chat_create(c->agent, &spec, on_created, f, err);
}

/* While the record of the fork is on its way to the store. */
static void begin_variables(struct forking *f)
{
    struct chat *c = f->from, *fork = chat_find(c->agent, c->owner, f->id);
    struct chat_sandbox now;
    struct err why = ERR_INIT;
    copy_memory(c, fork);
    chat_sandbox(c, &now);
    if (!now.has_variables)
        return;
    if (thread_kernel_state(c->kernel) == KERNEL_COLD)
        f->has_link = keeper_link(c, fork, &why) == 0;
    else if (keeper_branch(c, fork, &why) == 0)
        f->copies = true;
    if (f->copies)
        chat_when_settled(c, on_copied, f);
    else if (!f->has_link)
        snprintf(f->not_kept, sizeof(f->not_kept), "%s", why.message);
}

static void on_settled(void *arg)
{
    struct forking *f = arg;
    const struct chat *c = f->from;
    struct chat_sandbox now;
    chat_sandbox(c, &now);
    int r = c->agent->closing ? err_set(&f->err, ERR_CANCELLED, "the server stops") :
            is_busy(c)        ? refuse_busy(&f->err) :
                                0;
    if (r == 0 && now.has_variables && c->agent->env.cfg->images_bytes > 0)
        r = keeper_check_room(c->agent, 0, &f->err);
    if (r == 0)
        r = create(f, &f->err);
    if (r == 0)
        begin_variables(f);
    else
        end(f);
}

int chat_fork(struct chat *c, const char *id, const char *title, chat_fork_fn done, void *arg,
              struct err *err)
{
    if (is_busy(c))
        return refuse_busy(err);
    struct forking *f = calloc(1, sizeof(*f));
    char *copy = title ? strdup(title) : NULL;
    if (!f || (title && !copy)) {
        free(f);
        free(copy);
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    }
    *f = (struct forking){
        .from = chat_ref(c), .title = copy, .err = ERR_INIT, .done = done, .arg = arg
    };
    snprintf(f->id, sizeof(f->id), "%s", id);
    chat_when_settled(c, on_settled, f);
    return 0;
}
