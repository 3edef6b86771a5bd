/*
 * Checkpoints of threads: other names of images, which are never written to, so those of one state
 * share their bytes. An index beside them, a file of the thread, says when each was made. They go
 * when the thread's data changes: what was deleted must not come back with them.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "agent/agent_impl.h"
#include "base/fdio.h"
#include "base/str.h"

#define INDEX CHECKPOINT_MARK "index"
#define INDEX_MAX_BYTES (64u << 10)
#define CHECKPOINT_DIGITS 8

static int checkpoint_path(const struct chat *c, const char *id, char ret[IMAGE_PATH_SIZE],
                           struct err *err)
{
    char suffix[CHECKPOINT_DIGITS + 8];
    snprintf(suffix, sizeof(suffix), CHECKPOINT_MARK "%.*s", CHECKPOINT_DIGITS, id);
    return keeper_image_file(c, suffix, ret, err);
}

static json_t *read_index(const struct chat *c)
{
    char path[IMAGE_PATH_SIZE];
    auto_buf struct buf text = BUF_INIT(INDEX_MAX_BYTES);
    json_t *list = NULL;
    struct err ignored = ERR_INIT;
    if (keeper_thread_file(c, INDEX, path, &ignored) == 0 &&
        fd_read_file(path, &text, &ignored) == 0)
        (void)json_parse(buf_cstr(&text), text.len, &list, &ignored);
    if (json_is_array(list))
        return list;
    json_decref(list);
    return json_array();
}

static int write_index(const struct chat *c, const json_t *list, struct err *err)
{
    char path[IMAGE_PATH_SIZE];
    auto_free char *text = json_to_str(list);
    int r = text ? keeper_thread_file(c, INDEX, path, err) :
                   err_set(err, ERR_NO_MEMORY, "out of memory");
    if (r < 0)
        return r;
    if (json_array_size(list) == 0)
        return unlink(path) == 0 || errno == ENOENT ?
                   0 :
                   err_errno(err, ERR_IO, errno, "removing the index of checkpoints");
    return fd_replace_file(path, text, strlen(text), 0600, err);
}

json_t *chat_checkpoints(const struct chat *c)
{
    char path[IMAGE_PATH_SIZE];
    json_t *list = read_index(c), *item;
    struct stat st;
    struct err ignored = ERR_INIT;
    for (size_t i = json_array_size(list); i > 0; i--) {
        item = json_array_get(list, i - 1);
        const char *id = json_string_value(json_object_get(item, "checkpoint_id"));
        if (id && checkpoint_path(c, id, path, &ignored) == 0 && stat(path, &st) == 0)
            json_object_set_new(item, "bytes", json_integer(st.st_size));
        else
            json_array_remove(list, i - 1); /* of other data than now, or gone with it */
    }
    return list;
}

void checkpoints_adopt(const struct chat *c)
{
    auto_json json_t *all = read_index(c), *usable = NULL;
    if (json_array_size(all) > 0)
        usable = chat_checkpoints(c);
    if (usable && json_array_size(usable) == 0)
        keeper_remove_checkpoints(c);
}

/* Borrowed from the list. */
static json_t *find(const json_t *list, const char *id, struct err *err)
{
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item)
        if (str_eq(json_string_value(json_object_get(item, "checkpoint_id")), id))
            return item;
    err_set(err, ERR_NOT_FOUND, "Checkpoint not found");
    return NULL;
}

/* ---- making one ---- */

struct checkpointing {
    struct chat *chat; /* a reference */
    char *text;        /* its name, or the id to go back to */
    chat_checkpoint_fn done;
    void *arg;
};

static struct checkpointing *begin(struct chat *c, const char *text, chat_checkpoint_fn done,
                                   void *arg)
{
    struct checkpointing *k = calloc(1, sizeof(*k));
    char *copy = text ? strdup(text) : NULL;
    if (!k || (text && !copy)) {
        free(k);
        free(copy);
        return NULL;
    }
    *k = (struct checkpointing){ .chat = chat_ref(c), .text = copy, .done = done, .arg = arg };
    return k;
}

static void checkpointing_free(struct checkpointing *k)
{
    chat_unref(k->chat);
    free(k->text);
    free(k);
}

static void end(struct checkpointing *k, json_t *answer, int r, const struct err *err)
{
    k->done(r < 0 ? NULL : answer, r < 0 ? err : NULL, k->arg);
    checkpointing_free(k);
}

static int check_number(const struct chat *c, struct err *err)
{
    auto_json json_t *list = chat_checkpoints(c);
    if (json_array_size(list) < CHECKPOINTS_MAX)
        return 0;
    return err_set(err, ERR_CONFLICT, "a thread has at most %d checkpoints; delete one first",
                   CHECKPOINTS_MAX);
}

static int keep_image(struct chat *c, const char *name, json_t **ret, struct err *err)
{
    char image[IMAGE_PATH_SIZE], path[IMAGE_PATH_SIZE], id[CHECKPOINT_DIGITS + 1];
    char now[CLOCK_ISO_SIZE];
    struct stat st = { 0 };
    id_hex(id, CHECKPOINT_DIGITS);
    int r = check_number(c, err);
    if (r == 0)
        r = keeper_image_file(c, "", image, err);
    if (r == 0)
        r = checkpoint_path(c, id, path, err);
    if (r == 0 && (link(image, path) < 0 || stat(path, &st) < 0))
        r = err_errno(err, ERR_IO, errno, "linking the image");
    if (r < 0)
        return r;
    auto_json json_t *list = chat_checkpoints(c);
    clock_iso8601(clock_wall_ms(), now);
    json_t *item = json_pack("{s:s, s:s?, s:s, s:I, s:I}", "checkpoint_id", id, "name", name,
                             "created_at", now, "message_count", (json_int_t)c->message_count,
                             "bytes", (json_int_t)st.st_size);
    r = item && json_array_append(list, item) == 0 ? write_index(c, list, err) :
                                                     err_set(err, ERR_NO_MEMORY, "out of memory");
    if (r < 0) {
        (void)unlink(path);
        json_decref(item);
        return r;
    }
    c->agent->images.at_ms = 0; /* there is one more */
    *ret = item;
    return 0;
}

static void on_image(bool has_image, const char *refusal, const struct err *err, void *arg)
{
    struct checkpointing *k = arg;
    struct err why = ERR_INIT;
    auto_json json_t *item = NULL;
    int r = 0;
    if (err)
        why = *err;
    else if (!has_image)
        err_set(&why, ERR_CONFLICT, "%s",
                refusal ? refusal : "this thread has no variables to keep");
    else
        (void)keep_image(k->chat, k->text, &item, &why);
    if (why.code)
        r = -(int)why.code;
    end(k, item, r, &why);
}

int chat_checkpoint(struct chat *c, const char *name, chat_checkpoint_fn done, void *arg,
                    struct err *err)
{
    int r = check_number(c, err);
    struct checkpointing *k = r == 0 ? begin(c, name, done, arg) : NULL;
    if (r == 0)
        r = k ? chat_take_image(c, on_image, k, err) : err_set(err, ERR_NO_MEMORY, "out of memory");
    if (r < 0 && k)
        checkpointing_free(k);
    return r;
}

/* ---- going back ---- */

static int roll_back(struct chat *c, const char *id, json_t **ret, struct err *err)
{
    char path[IMAGE_PATH_SIZE];
    if (c->agent->closing)
        return err_set(err, ERR_CANCELLED, "the server stops");
    if (c->turns || thread_kernel_is_busy(c->kernel))
        return err_set(err, ERR_CONFLICT,
                       "this thread is busy; try again when its answer is there, or stop it");
    auto_json json_t *list = chat_checkpoints(c);
    json_t *item = find(list, id, err);
    int r = item ? checkpoint_path(c, id, path, err) : -ERR_NOT_FOUND;
    if (r == 0)
        r = keeper_link_file(path, c, err);
    if (r < 0)
        return r;
    thread_kernel_drop(c->kernel, "it was rolled back");
    (void)thread_kernel_take_loss(c->kernel); /* who asked for it knows */
    r = keeper_take_link(c, err);
    if (r < 0)
        return r;
    json_int_t then = json_integer_value(json_object_get(item, "message_count"));
    json_object_set_new(item, "messages_after", json_integer(c->message_count - then));
    *ret = json_incref(item);
    return 0;
}

static void on_settled(void *arg)
{
    struct checkpointing *k = arg;
    struct err err = ERR_INIT;
    auto_json json_t *item = NULL;
    int r = roll_back(k->chat, k->text, &item, &err);
    end(k, item, r, &err);
}

int chat_rollback(struct chat *c, const char *id, chat_checkpoint_fn done, void *arg,
                  struct err *err)
{
    struct checkpointing *k = begin(c, id, done, arg);
    if (!k)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    chat_when_settled(c, on_settled, k);
    return 0;
}

int chat_remove_checkpoint(struct chat *c, const char *id, struct err *err)
{
    char path[IMAGE_PATH_SIZE];
    auto_json json_t *list = chat_checkpoints(c), *rest = json_array();
    size_t i;
    json_t *item;
    const json_t *found = find(list, id, err);
    int r = found ? checkpoint_path(c, id, path, err) : -ERR_NOT_FOUND;
    if (r < 0)
        return r;
    json_array_foreach(list, i, item)
        if (item != found)
            json_array_append(rest, item);
    r = write_index(c, rest, err);
    if (r == 0 && unlink(path) < 0)
        r = err_errno(err, ERR_IO, errno, "removing a checkpoint");
    c->agent->images.at_ms = 0;
    return r;
}
