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

struct forking {
    struct chat *from; /* a reference */
    char id[CHAT_ID_MAX + 1];
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

static bool is_busy(const struct chat *c)
{
    return c->turns || thread_kernel_is_busy(c->kernel);
}

static int refuse_busy(struct err *err)
{
    return err_set(err, ERR_CONFLICT,
                   "this thread is busy; fork it when its answer is there, or stop it");
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

static void cooled(void *arg)
{
    struct forking *f = arg;
    struct chat *c = f->from;
    struct err err = ERR_INIT;
    bool is_cold = thread_kernel_state(c->kernel) == KERNEL_COLD;
    const char *refusal = thread_kernel_refusal(c->kernel);
    if (is_busy(c) || (!is_cold && !refusal && thread_kernel_is_kept(c->kernel))) {
        (void)refuse_busy(&err); /* a message came meanwhile */
        end(f, NULL, &err);
        return;
    }
    if (!is_cold)
        snprintf(f->not_kept, sizeof(f->not_kept), "%s",
                 refusal ? refusal : "its sandbox ended while it was put aside");
    create(f, is_cold);
}

static void settled(void *arg)
{
    struct forking *f = arg;
    struct chat *c = f->from;
    struct err err = ERR_INIT;
    struct chat_sandbox now;
    chat_sandbox(c, &now);
    int r = is_busy(c) ? refuse_busy(&err) : 0;
    if (r == 0 && now.has_variables && c->agent->env.cfg->images_bytes > 0)
        r = keeper_check_room(c->agent, &err);
    if (r < 0) {
        end(f, NULL, &err);
    } else if (!now.has_variables) {
        create(f, false);
    } else if (chat_cool(c, &err) < 0) {
        snprintf(f->not_kept, sizeof(f->not_kept), "%s", err.message);
        create(f, false);
    } else {
        chat_when_settled(c, cooled, f);
    }
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
    *f = (struct forking){ .from = chat_ref(c), .title = copy, .done = done, .arg = arg };
    snprintf(f->id, sizeof(f->id), "%s", id);
    chat_when_settled(c, settled, f);
    return 0;
}
