/*
 * Where kernels of threads are kept: hot, warm (frozen) or cold (an image, a file below
 * RIDDLE_HOME/images). Idle kernels are frozen and then become images; beyond RIDDLE_HOT_THREADS,
 * and when memory is short, the least recently used one of the owner who has most becomes an image
 * at once. What cannot be imaged is frozen only, or given up, and the thread says so.
 *
 * An image is named by its thread, by the data that the thread has (with other data it is not
 * found), by its owner, whose quota it counts for (image_quota.c), and by the ids of its data sets
 * and uploads: when one is deleted, its images go, too. When a kernel has been made from it, it is
 * kept under another name until there is a new one: after a server that was killed the thread goes
 * on from it, and says so if code ran since that is not in it. With CHECKPOINT_SECONDS kernels that
 * live write images, too.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "agent/agent_impl.h"
#include "base/fdio.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/str.h"
#include "sandbox/image_file.h"

#define SWEEP_MS 10000       /* or sooner, when kernels are to be frozen sooner */
#define SANDBOX_SWEEP_MS 500 /* with sandboxes, which may live for seconds */
#define STATELESS_KERNEL_MS                                                                        \
    60000 /* how long a kernel without variables is kept for the next message */
#define BRANCH_IMAGE_MS 1000 /* how old a fork is when its first image is written, or somewhat older */
#define LOOK_MS                                                                                    \
    10 /* how often kernels are looked at that are being put aside when the server stops */
#define LINKED ".link" IMAGE_PARTIAL /* another name of an image: never one that is written to */
#define LINKED_PATH_SIZE (IMAGE_PATH_SIZE + sizeof(LINKED))
#define SOURCE_HEX 8
#define IMAGE_NAME_SIZE 240 /* leaves room for what is put behind it */

/* Somebody who waits until the kernel is not on its way from one state to another. */
struct settle_waiter {
    struct settle_waiter *next;
    void (*done)(void *arg);
    void *arg;
};

/* ---- images ---- */

bool keeper_thread_name(const char *owner, const char *id, char ret[HASH_HEX_SIZE])
{
    char text[256];
    int n = snprintf(text, sizeof(text), "%s\n%s", owner, id);
    return hash_bytes(text, (size_t)MIN_OF(n, (int)sizeof(text) - 1), ret, NULL) == 0;
}

/* Appends the names of data sets or uploads. False if there are too many. */
static bool add_sources(const struct chat *c, const json_t *ids, char *name, size_t n)
{
    char source[HASH_HEX_SIZE];
    size_t i;
    json_t *id;
    json_array_foreach(ids, i, id) {
        size_t len = strlen(name);
        if (len + SOURCE_HEX >= n || !keeper_thread_name(c->owner, json_string_value(id), source))
            return false;
        snprintf(name + len, n - len, "%.*s", SOURCE_HEX, source);
    }
    return true;
}

/* False when the chat can have none. */
static bool image_path(const struct chat *c, char ret[IMAGE_PATH_SIZE])
{
    char thread[HASH_HEX_SIZE], data[HASH_HEX_SIZE], owner[HASH_HEX_SIZE], name[IMAGE_NAME_SIZE];
    const char *key = c->has_data && c->data.key ? c->data.key : "";
    if (!c->agent->env.store || !c->agent->env.cfg->images_bytes || c->data_is_gone ||
        !keeper_thread_name(c->owner, c->id, thread) || !keeper_thread_name(c->owner, "", owner) ||
        hash_bytes(key, strlen(key), data, NULL) < 0)
        return false;
    snprintf(name, sizeof(name), "%.*s-%.*s-%.*s-", IMAGE_THREAD_HEX, thread, IMAGE_DATA_HEX, data,
             IMAGE_OWNER_HEX, owner);
    if (!add_sources(c, c->datasets, name, sizeof(name)) ||
        !add_sources(c, c->uploads, name, sizeof(name)))
        return false;
    snprintf(ret, IMAGE_PATH_SIZE, "%s/images/%s", c->agent->env.cfg->home, name);
    return true;
}

static bool lost_path(const struct agent *a, const char *thread, char ret[IMAGE_PATH_SIZE])
{
    int n = snprintf(ret, IMAGE_PATH_SIZE, "%s/images/%.*s-lost", a->env.cfg->home,
                     IMAGE_THREAD_HEX, thread);
    return n < IMAGE_PATH_SIZE;
}

void keeper_leave_lost(const struct agent *a, const char *thread, enum image_loss loss)
{
    char path[IMAGE_PATH_SIZE];
    struct err ignored = ERR_INIT;
    if (lost_path(a, thread, path))
        (void)fd_replace_file(path, "012", (size_t)loss, 0600, &ignored);
}

/* Why it was removed, once. NULL: there is no such file. */
static const char *take_lost(const struct agent *a, const char *thread)
{
    static const char *const reasons[] = {
        [LOST_DATA_CHANGED] = "its data changed while it was put aside",
        [LOST_MID_FORK] = "the server ended before the thread that was forked had an image",
        [LOST_TO_QUOTA] = IMAGE_LOST_TO_QUOTA,
    };
    char path[IMAGE_PATH_SIZE];
    struct stat st;
    if (!lost_path(a, thread, path) || stat(path, &st) < 0 || unlink(path) < 0)
        return NULL;
    return reasons[MIN_OF(st.st_size, LOST_TO_QUOTA)];
}

/* Whether there is an image of the thread under a name that it has no more. */
static bool has_other_image(const struct agent *a, const char *thread)
{
    char path[IMAGE_PATH_SIZE];
    bool any = false;
    snprintf(path, sizeof(path), "%s/images", a->env.cfg->home);
    DIR *dir = opendir(path);
    for (const struct dirent *e; dir && !any && (e = readdir(dir));)
        any = strncmp(e->d_name, thread, IMAGE_THREAD_HEX) == 0 &&
              !strstr(e->d_name, CHECKPOINT_MARK);
    if (dir)
        closedir(dir);
    return any;
}

void keeper_adopt(struct chat *c)
{
    char path[IMAGE_PATH_SIZE], thread[HASH_HEX_SIZE];
    struct err ignored = ERR_INIT;
    if (!image_path(c, path) || !keeper_thread_name(c->owner, c->id, thread))
        return;
    bool is_old = false, found = thread_sleep_recover(path, &is_old);
    const char *lost = take_lost(c->agent, thread);
    if (found && thread_kernel_adopt(c->kernel, path, &ignored) == 0) {
        if (is_old)
            thread_kernel_note_loss(c->kernel,
                                    "the server ended before it put this thread aside: variables "
                                    "are as they were when it was put aside last, without what ran "
                                    "since");
    } else if (lost) {
        thread_kernel_note_loss(c->kernel, lost);
    } else if (!found && has_other_image(c->agent, thread)) {
        thread_kernel_note_loss(c->kernel, "its image is of other data than it has now, or of "
                                           "another version of Riddle");
    }
}

/* Files of a thread that have this in their names. True if there were any. */
static bool remove_images(struct agent *a, const char *thread, const char *part)
{
    char path[IMAGE_PATH_SIZE];
    bool any = false;
    snprintf(path, sizeof(path), "%s/images", a->env.cfg->home);
    DIR *dir = a->env.store ? opendir(path) : NULL;
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (strncmp(e->d_name, thread, IMAGE_THREAD_HEX) == 0 && strstr(e->d_name, part))
            any = unlinkat(dirfd(dir), e->d_name, 0) == 0 || any;
    if (dir)
        closedir(dir);
    if (any)
        a->images.at_ms = 0; /* their bytes are free at once */
    return any;
}

void keeper_remove_images(struct agent *a, const char *owner, const char *id)
{
    char thread[HASH_HEX_SIZE];
    if (keeper_thread_name(owner, id, thread))
        (void)remove_images(a, thread, "");
}

void keeper_remove_checkpoints(const struct chat *c)
{
    char thread[HASH_HEX_SIZE];
    if (keeper_thread_name(c->owner, c->id, thread))
        (void)remove_images(c->agent, thread, CHECKPOINT_MARK);
}

/* Whether an image's name says that it has this source. */
static bool has_source(const char *name, const char *source)
{
    const size_t first = IMAGE_OWNER_AT + IMAGE_OWNER_HEX + 1;
    for (size_t at = first; at + SOURCE_HEX <= strlen(name); at += SOURCE_HEX)
        if (strncmp(name + at, source, SOURCE_HEX) == 0)
            return true;
    return false;
}

void keeper_forget_data(struct agent *a, const char *owner, const char *id)
{
    char path[IMAGE_PATH_SIZE], source[HASH_HEX_SIZE];
    snprintf(path, sizeof(path), "%s/images", a->env.cfg->home);
    DIR *dir = a->env.store && keeper_thread_name(owner, id, source) ? opendir(path) : NULL;
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (has_source(e->d_name, source)) {
            keeper_leave_lost(a, e->d_name, LOST_DATA_CHANGED);
            unlinkat(dirfd(dir), e->d_name, 0);
        }
    if (dir)
        closedir(dir);
}

void keeper_forget_chat(struct chat *c)
{
    c->data_is_gone = true;
    if (thread_kernel_state(c->kernel) == KERNEL_COLD)
        thread_kernel_drop(c->kernel, "data that it had was deleted");
}

void agent_forget_files(struct agent *a, const char *owner, const char *thread_id)
{
    char thread[HASH_HEX_SIZE];
    if (!chat_find(a, owner, thread_id) && keeper_thread_name(owner, thread_id, thread) &&
        remove_images(a, thread, ""))
        keeper_leave_lost(a, thread, LOST_DATA_CHANGED);
}

int keeper_image_file(const struct chat *c, const char *suffix, char ret[IMAGE_PATH_SIZE],
                      struct err *err)
{
    if (!image_path(c, ret))
        return err_set(err, ERR_CONFLICT, "this thread cannot have an image");
    size_t len = strlen(ret);
    snprintf(ret + len, IMAGE_PATH_SIZE - len, "%s", suffix);
    return 0;
}

int keeper_thread_file(const struct chat *c, const char *suffix, char ret[IMAGE_PATH_SIZE],
                       struct err *err)
{
    char thread[HASH_HEX_SIZE];
    if (!c->agent->env.store || !keeper_thread_name(c->owner, c->id, thread))
        return err_set(err, ERR_CONFLICT, "this thread cannot have an image");
    snprintf(ret, IMAGE_PATH_SIZE, "%s/images/%.*s%s", c->agent->env.cfg->home, IMAGE_THREAD_HEX,
             thread, suffix);
    return 0;
}

int keeper_link(const struct chat *from, const struct chat *to, struct err *err)
{
    char path[IMAGE_PATH_SIZE];
    if (!image_path(from, path) || !str_eq(from->data.key, to->data.key))
        return err_set(err, ERR_CONFLICT, "the thread's data changed");
    return keeper_link_file(path, to, err);
}

int keeper_link_file(const char *path, const struct chat *to, struct err *err)
{
    char image[IMAGE_PATH_SIZE], linked[LINKED_PATH_SIZE];
    if (!image_path(to, image))
        return err_set(err, ERR_CONFLICT, "the thread's data changed");
    snprintf(linked, sizeof(linked), "%s" LINKED, image);
    (void)unlink(linked);
    return link(path, linked) == 0 ? 0 : err_errno(err, ERR_IO, errno, "linking the image");
}

int keeper_take_link(struct chat *c, struct err *err)
{
    char image[IMAGE_PATH_SIZE], linked[LINKED_PATH_SIZE];
    if (!image_path(c, image))
        return err_set(err, ERR_CONFLICT, "the thread's data changed");
    snprintf(linked, sizeof(linked), "%s" LINKED, image);
    if (rename(linked, image) < 0)
        return err_errno(err, ERR_IO, errno, "linking the image");
    c->agent->images.at_ms = 0; /* there is one more */
    return thread_kernel_adopt(c->kernel, image, err);
}

int keeper_branch(struct chat *from, struct chat *to, struct err *err)
{
    char image[IMAGE_PATH_SIZE], mark[LINKED_PATH_SIZE];
    if (!image_path(to, image) || !str_eq(from->data.key, to->data.key))
        return err_set(err, ERR_CONFLICT, "the thread's data changed");
    snprintf(mark, sizeof(mark), "%s" LINKED, image);
    auto_close int fd = open(mark, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return err_errno(err, ERR_IO, errno, "marking a fork");
    int r = thread_kernel_branch(from->kernel, to->kernel, err);
    to->is_branch = r == 0;
    if (r < 0)
        (void)unlink(mark);
    return r;
}

/* It has an image of its own. */
static void unmark_branch(struct chat *c)
{
    char image[IMAGE_PATH_SIZE], mark[LINKED_PATH_SIZE];
    c->is_branch = false;
    if (!image_path(c, image))
        return;
    snprintf(mark, sizeof(mark), "%s" LINKED, image);
    (void)unlink(mark);
}

/* What a server that was killed left half written or half linked. */
static void remove_partial(struct agent *a, const char *path)
{
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        const char *dot = strrchr(e->d_name, '.');
        if (!dot || !str_eq(dot, IMAGE_PARTIAL))
            continue;
        if (strstr(e->d_name, LINKED))
            keeper_leave_lost(a, e->d_name, LOST_MID_FORK); /* unless there is another image */
        unlinkat(dirfd(dir), e->d_name, 0);
    }
    if (dir)
        closedir(dir);
}

/* ---- putting a kernel aside ---- */

/* May have: its kernel is its image, or is as the image that it wrote when it was due. */
static bool has_new_image(const struct chat *c)
{
    enum kernel_state state = thread_kernel_state(c->kernel);
    return state == KERNEL_COLD ||
           (state == KERNEL_HOT && (c->is_branch || c->agent->env.cfg->checkpoint_s > 0) &&
            thread_kernel_has_variables(c->kernel) && !thread_kernel_unsaved_ms(c->kernel));
}

void keeper_tell_settled(struct chat *c)
{
    if (has_new_image(c) && c->is_branch)
        unmark_branch(c);
    if (has_new_image(c))
        keeper_trim_images(c);
    if (c->data_is_gone)
        keeper_forget_chat(c);
    while (c->settling && !kernel_state_is_moving(thread_kernel_state(c->kernel))) {
        struct settle_waiter *w = c->settling;
        c->settling = w->next;
        w->done(w->arg);
        free(w);
        chat_unref(c);
    }
}

static void settle_soon(void *arg)
{
    struct chat *c = arg;
    if (!c->agent->closing)
        keeper_tell_settled(c);
    chat_unref(c);
}

void chat_when_settled(struct chat *c, void (*done)(void *arg), void *arg)
{
    struct settle_waiter *w = calloc(1, sizeof(*w));
    struct err err = ERR_INIT;
    if (!w) {
        done(arg);
        return;
    }
    *w = (struct settle_waiter){ .next = c->settling, .done = done, .arg = arg };
    c->settling = w;
    chat_ref(c);
    chat_ref(c); /* for settle_soon() */
    if (loop_defer(c->agent->env.loop, settle_soon, c, &err) < 0)
        settle_soon(c);
}

void chat_sandbox(const struct chat *c, struct chat_sandbox *ret)
{
    struct stat st;
    char path[IMAGE_PATH_SIZE];
    enum kernel_state state = thread_kernel_state(c->kernel);
    bool kept = thread_kernel_is_kept(c->kernel);
    *ret = (struct chat_sandbox){ .state = "cold",
                                  .moved = thread_kernel_moved(c->kernel),
                                  .refusal = thread_kernel_refusal(c->kernel) };
    if (thread_kernel_is_hot(c->kernel))
        ret->state = "hot";
    else if (kept)
        ret->state = "warm";
    ret->has_variables = (kept || state == KERNEL_COLD || state == KERNEL_RESTORING) &&
                         thread_kernel_has_variables(c->kernel);
    if (state == KERNEL_COLD && image_path(c, path) && stat(path, &st) == 0)
        ret->bytes = st.st_size;
}

void agent_image_notes(const struct agent *a, const char *owner, const char *thread_id,
                       struct image_notes *ret, int64_t *ret_since_wall_ms)
{
    char thread[HASH_HEX_SIZE], path[IMAGE_PATH_SIZE];
    struct stat st;
    *ret = (struct image_notes){ 0 };
    *ret_since_wall_ms = 0;
    snprintf(path, sizeof(path), "%s/images", a->env.cfg->home);
    DIR *dir = keeper_thread_name(owner, thread_id, thread) ? opendir(path) : NULL;
    for (const struct dirent *e; dir && (e = readdir(dir));)
        if (strncmp(e->d_name, thread, IMAGE_THREAD_HEX) == 0 && !strchr(e->d_name, '.') &&
            !strstr(e->d_name, "-lost") &&
            snprintf(path, sizeof(path), "%s/images/%s", a->env.cfg->home, e->d_name) <
                (int)sizeof(path)) {
            image_file_noted(path, ret);
            if (stat(path, &st) == 0)
                *ret_since_wall_ms = (int64_t)st.st_mtim.tv_sec * 1000 +
                                     st.st_mtim.tv_nsec / 1000000;
            break;
        }
    if (dir)
        closedir(dir);
}

void chat_image_notes(const struct chat *c, struct image_notes *ret)
{
    char path[IMAGE_PATH_SIZE];
    *ret = (struct image_notes){ 0 };
    if (thread_kernel_state(c->kernel) == KERNEL_COLD && image_path(c, path))
        image_file_noted(path, ret);
}

int chat_freeze(struct chat *c, struct err *err)
{
    if (c->turns || thread_kernel_is_busy(c->kernel))
        return err_set(err, ERR_CONFLICT, "this thread is busy");
    if (thread_kernel_state(c->kernel) == KERNEL_WARM)
        return 0;
    return thread_kernel_freeze(c->kernel, err);
}

static int write_image(struct chat *c,
                       int (*write)(struct thread_kernel *k, const char *path, struct err *err),
                       struct err *err)
{
    char path[IMAGE_PATH_SIZE];
    if (c->turns || thread_kernel_is_busy(c->kernel))
        return err_set(err, ERR_CONFLICT, "this thread is busy");
    if (!image_path(c, path))
        return err_set(err, ERR_UNAVAILABLE,
                       c->data_is_gone ? "data that the thread had was deleted" :
                                         "this thread cannot have an image");
    int r = keeper_check_room(c->agent, 0, err);
    return r < 0 ? r : write(c->kernel, path, err);
}

int chat_cool(struct chat *c, struct err *err)
{
    if (thread_kernel_state(c->kernel) == KERNEL_COLD && !c->turns &&
        !thread_kernel_is_busy(c->kernel))
        return 0;
    return write_image(c, thread_kernel_image, err);
}

/* Code ran so long ago that what it left is to outlive the server. */
static bool is_due(const struct chat *c, int64_t now)
{
    int64_t since = thread_kernel_unsaved_ms(c->kernel),
            after_ms = c->agent->env.cfg->checkpoint_s * 1000;
    if (c->is_branch && (after_ms <= 0 || after_ms > BRANCH_IMAGE_MS))
        after_ms = BRANCH_IMAGE_MS;
    return after_ms > 0 && since > 0 && now - since >= after_ms &&
           thread_kernel_is_kept(c->kernel) && !thread_kernel_refusal(c->kernel);
}

int chat_wake(struct chat *c, struct err *err)
{
    if (!c->agent->env.cfg->enable_python)
        return err_set(err, ERR_FEATURE_DISABLED,
                       "Python execution is disabled (ENABLE_PYTHON_EXECUTION)");
    thread_kernel_prepare(c->kernel);
    return 0;
}

void keeper_forget(struct chat *c)
{
    while (c->settling) {
        struct settle_waiter *w = c->settling;
        c->settling = w->next;
        w->done(w->arg);
        free(w);
    }
}

/* ---- who may keep a kernel ---- */

static size_t kept_of(const struct agent *a, const char *owner)
{
    size_t n = 0;
    for (const struct chat *c = a->chats; c; c = c->next)
        n += str_eq(c->owner, owner) && thread_kernel_is_kept(c->kernel);
    return n;
}

/* The thread to give its kernel up: the least recently used one of the owner who has most. */
static struct chat *least_wanted(struct agent *a, const struct chat *keep)
{
    struct chat *best = NULL;
    size_t most = 0;
    for (struct chat *c = a->chats; c; c = c->next) {
        if (c == keep || !thread_kernel_is_kept(c->kernel) || c->turns)
            continue;
        size_t n = best && str_eq(best->owner, c->owner) ? most : kept_of(a, c->owner);
        if (!best || n > most || (n == most && c->used_ms < best->used_ms)) {
            best = c;
            most = n;
        }
    }
    return best;
}

/* Its kernel becomes a file, if it can; else what it holds is lost, and its next answer says so. */
static void evict(struct agent *a, struct chat *c, const char *why)
{
    struct err ignored = ERR_INIT;
    if (thread_kernel_has_variables(c->kernel) && write_image(c, thread_kernel_port, &ignored) == 0)
        return;
    if (thread_kernel_has_variables(c->kernel))
        a->stats.evicted++;
    chat_ref(c);
    thread_kernel_drop(c->kernel, why);
    chat_unref(c);
}

void agent_trim(struct agent *a, const struct chat *keep)
{
    size_t kept = 0, most = (size_t)a->env.cfg->hot_threads;
    struct chat *c;
    for (c = a->chats; c; c = c->next)
        kept += thread_kernel_is_kept(c->kernel);
    while (kept > most && (c = least_wanted(a, keep))) {
        evict(a, c, "its sandbox was given up to make room for other threads");
        kept--;
    }
}

/* Others wait for the memory of kernels that run nothing, or the machine is short of it. */
static bool make_room(void *arg)
{
    struct agent *a = arg;
    struct chat *c = least_wanted(a, NULL);
    if (c)
        evict(a, c, "its sandbox was given up because memory was short");
    return c != NULL;
}

static uint64_t sweep_ms(const struct agent *a)
{
    int64_t ms = SWEEP_MS;
    if (a->env.cfg->freeze_after_s > 0)
        ms = MIN_OF(ms, a->env.cfg->freeze_after_s * 500);
    if (a->env.cfg->cold_after_s > 0)
        ms = MIN_OF(ms, a->env.cfg->cold_after_s * 500);
    if (a->env.cfg->checkpoint_s > 0)
        ms = MIN_OF(ms, a->env.cfg->checkpoint_s * 500);
    if (agent_has_sandboxes(a))
        ms = MIN_OF(ms, SANDBOX_SWEEP_MS);
    return (uint64_t)ms;
}

static void on_sweep(void *arg)
{
    struct agent *a = arg;
    struct err err = ERR_INIT;
    int64_t now = clock_now_ms();
    for (struct chat *c = a->chats, *next; c; c = next) {
        next = c->next;
        if (thread_kernel_is_kept(c->kernel) && !c->turns &&
            !thread_kernel_has_variables(c->kernel) && now - c->used_ms > STATELESS_KERNEL_MS)
            evict(a, c, NULL);
        else if (a->env.cfg->cold_after_s > 0 && thread_kernel_is_kept(c->kernel) &&
                 !thread_kernel_refusal(c->kernel) &&
                 now - c->used_ms > a->env.cfg->cold_after_s * 1000)
            (void)chat_cool(c, &err); /* what cannot be imaged stays as it is */
        else if (is_due(c, now) && write_image(c, thread_kernel_save, &err) == 0)
            continue; /* it is frozen by a later sweep */
        else if (a->env.cfg->freeze_after_s > 0 && thread_kernel_state(c->kernel) == KERNEL_HOT &&
                 thread_kernel_is_hot(c->kernel) &&
                 now - c->used_ms > a->env.cfg->freeze_after_s * 1000)
            (void)chat_freeze(c, &err); /* what cannot be frozen stays hot */
    }
    agent_expire_sandboxes(a);
    agent_trim(a, NULL);
    if (memory_available_bytes("") < memory_limit_bytes("") / 5)
        (void)make_room(a);
    (void)loop_after(a->env.loop, sweep_ms(a), on_sweep, a, &a->sweep, &err);
}

/* ---- begin and end ---- */

int keeper_begin(struct agent *a, struct err *err)
{
    char path[IMAGE_PATH_SIZE];
    int r = a->env.cfg->image_key[0] ? seal_check_key(a->env.cfg->image_key, err) : 0;
    if (r < 0)
        return err_wrap(err, "RIDDLE_IMAGE_KEY");
    snprintf(path, sizeof(path), "%s/images", a->env.cfg->home);
    if (a->env.store)
        r = fd_mkdir_p(path, 0700, err);
    if (r < 0)
        return r;
    if (a->env.store)
        remove_partial(a, path);
    if (a->env.store)
        image_sweep_bases(path);
    executor_on_shortage(a->env.executor, make_room, a);
    return loop_after(a->env.loop, sweep_ms(a), on_sweep, a, &a->sweep, err);
}

/* A kernel that is on its way, as that of a new fork is, is put aside once it has arrived. */
static void put_aside(struct agent *a)
{
    for (struct chat *c = a->chats; c; c = c->next) {
        struct err err = ERR_INIT; /* what is lost is told later */
        if (c->deleted || c->is_put_aside || !thread_kernel_is_kept(c->kernel) ||
            kernel_state_is_moving(thread_kernel_state(c->kernel)) ||
            !thread_kernel_has_variables(c->kernel))
            continue;
        c->is_put_aside = true;
        (void)write_image(c, thread_kernel_port, &err);
    }
}

static void look_again(void *arg)
{
    struct agent *a = arg;
    struct err err = ERR_INIT;
    bool moving = false;
    a->aside.timer = NULL;
    put_aside(a);
    for (const struct chat *c = a->chats; c; c = c->next)
        moving = moving || kernel_state_is_moving(thread_kernel_state(c->kernel));
    if (moving && clock_now_ms() < a->aside.until_ms &&
        loop_after(a->env.loop, LOOK_MS, look_again, a, &a->aside.timer, &err) == 0)
        return;
    a->aside.done(a->aside.arg);
}

void agent_put_aside(struct agent *a, int64_t max_ms, void (*done)(void *arg), void *arg)
{
    a->aside.done = done;
    a->aside.arg = arg;
    a->aside.until_ms = clock_now_ms() + max_ms;
    look_again(a);
}
