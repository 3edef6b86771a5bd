/*
 * Forks: a thread that goes on twice from its present state. The kernel becomes an image as when it
 * is put aside; the fork's image is another name of the same file, and each branch makes its own
 * kernel of it. Images are never written to, so neither sees what the other does.
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
    bool has_image;                 /* the fork has a link to it */
    char not_kept[ERR_MESSAGE_MAX]; /* "": nothing is missing */
    chat_fork_fn done;
    void *arg;
};

/* Takes the fork. */
static void end(struct forking *f, struct chat *fork, const struct err *err)
{
    f->done(fork, f->not_kept[0] ? f->not_kept : NULL, err, f->arg);
    chat_unref(f->from);
    free(f->title);
    free(f);
}

static void on_created(struct chat *fork, const struct err *err, void *arg)
{
    struct forking *f = arg;
    struct err why = ERR_INIT;
    if (err) {
        keeper_remove_images(f->from->agent, f->from->owner, f->id);
        end(f, NULL, err);
        return;
    }
    if (f->has_image && keeper_take_link(fork, &why) < 0)
        snprintf(f->not_kept, sizeof(f->not_kept), "%s", why.message);
    if (f->not_kept[0])
        thread_kernel_note_loss(fork->kernel, "they were not kept when the thread was forked");
    end(f, fork, NULL);
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

static void create(struct forking *f, bool with_image)
{
    struct chat *c = f->from;
    struct err err = ERR_INIT;
    const struct chat_spec spec = { .owner = c->owner,
                                    .thread_id = f->id,
                                    .title = f->title,
                                    .datasets = c->datasets,
                                    .uploads = c->uploads,
                                    .terms = c->terms ? c->terms->config : NULL,
                                    .forked_from = c->id };
    if (thread_kernel_has_loss(c->kernel) && !f->not_kept[0])
        snprintf(f->not_kept, sizeof(f->not_kept), LOST_BEFORE);
    if (chat_create(c->agent, &spec, on_created, f, &err) < 0) {
        end(f, NULL, &err);
        return;
    }
    struct chat *fork = chat_find(c->agent, c->owner, f->id); /* on its way to the store */
    copy_memory(c, fork);
    f->has_image = with_image && keeper_link(c, fork, &err) == 0;
    if (with_image && !f->has_image)
        snprintf(f->not_kept, sizeof(f->not_kept), "%s", err.message);
}

static void on_image(bool has_image, const char *refusal, const struct err *err, void *arg)
{
    struct forking *f = arg;
    if (err) {
        end(f, NULL, err);
        return;
    }
    if (refusal)
        snprintf(f->not_kept, sizeof(f->not_kept), "%s", refusal);
    create(f, has_image);
}

int chat_fork(struct chat *c, const char *id, const char *title, chat_fork_fn done, void *arg,
              struct err *err)
{
    struct forking *f = calloc(1, sizeof(*f));
    char *copy = title ? strdup(title) : NULL;
    int r = f && (!title || copy) ? 0 : err_set(err, ERR_NO_MEMORY, "out of memory");
    if (r == 0) {
        *f = (struct forking){ .from = chat_ref(c), .title = copy, .done = done, .arg = arg };
        snprintf(f->id, sizeof(f->id), "%s", id);
        r = chat_take_image(c, on_image, f, err);
        if (r < 0)
            chat_unref(c);
    }
    if (r < 0) {
        free(f);
        free(copy);
    }
    return r;
}
