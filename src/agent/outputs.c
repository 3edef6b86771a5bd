/*
 * What code saved to /data/outputs, kept on disk with its thread: after each cell riddle reads the
 * new ones from the thread's kernel, a piece at a time, and adds them to the thread's files. They
 * can be listed and downloaded when the kernel is gone, until the thread's time is over or it is
 * cleared. A kernel never sees them again: they are no data.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include "agent/agent_impl.h"
#include "base/fdio.h"
#include "base/hash.h"
#include "base/id.h"
#include "base/log.h"
#include "base/str.h"
#include "data/threads.h"

struct keeping {
    struct file_sets *all;      /* a reference */
    struct data_thread *thread; /* pinned */
    struct chat *chat;          /* a reference */
    json_t *todo;               /* [{path, size, modified}] */
    struct kernel_file_op *op;
    struct file_set *file; /* on its way; not the thread's yet */
    int fd;
    int64_t at;
    struct keeping *next, **prev;
};

static void drop_file(struct keeping *k)
{
    if (k->fd >= 0)
        close(TAKE_FD(k->fd));
    if (k->file)
        k->file->remove_files = true;
    file_set_unref(TAKE_PTR(k->file));
}

static void keeping_free(struct keeping *k)
{
    *k->prev = k->next;
    if (k->next)
        k->next->prev = k->prev;
    kernel_file_op_drop(k->op);
    drop_file(k);
    chat_unref(k->chat);
    json_decref(k->todo);
    data_thread_unpin(k->thread);
    file_sets_unref(k->all);
    free(k);
}

static void on_recorded(const struct err *err, int64_t value, void *arg)
{
    (void)value;
    struct file_set *set = arg;
    if (err) {
        log_error("outputs.keep", LOG_STR("error", err->message));
        set->remove_files = true;
    } else if (set->all->room) {
        file_set_list(set);
        data_thread_join(set);
        (void)file_ingest(set, NULL); /* which names it */
    }
    file_set_unref(set);
}

static void keep_next(struct keeping *k);

static void on_piece(const struct file_piece *piece, const struct err *err, void *arg)
{
    struct keeping *k = arg;
    struct err why = ERR_INIT;
    k->op = NULL;
    int r = err ? -(int)err->code : fd_write_all(k->fd, piece->data, piece->len, &why);
    if (r == 0)
        k->at += (int64_t)piece->len;
    if (r == 0 && k->at > k->file->file.size_bytes)
        r = -ERR_CONFLICT; /* it grows: the next cell's list has it again */
    if (r == 0 && !piece->end &&
        chat_read_file(k->chat, k->file->file.name, k->at, on_piece, k, &k->op, &why) == 0)
        return;
    if (r == 0 && piece->end && k->at == k->file->file.size_bytes && k->all->room &&
        file_set_store(k->file, FILE_PROCESSING, NULL, STORE_CREATE, on_recorded, k->file, &why) ==
            0) {
        k->file = NULL;
        close(TAKE_FD(k->fd));
    } else {
        drop_file(k);
    }
    keep_next(k);
}

static bool has_room(const struct keeping *k, int64_t size)
{
    const struct config *cfg = k->all->room->env.cfg;
    struct file_use *use = file_use_of(k->all, k->thread->owner);
    return k->thread->n_files < THREAD_FILES_ROOM && use &&
           k->thread->bytes + size <= cfg->session_quota_bytes &&
           file_may_grow(use, cfg, size, NULL) == 0;
}

/* Makes the file that the entry's bytes go to. */
static bool begin_file(struct keeping *k, const char *path, int64_t size, int64_t modified_ms)
{
    char id[FILE_ID_DIGITS + 1], created[CLOCK_ISO_SIZE], no_hash[HASH_HEX_SIZE],
        part[PATH_MAX + 16];
    id_hex(id, FILE_ID_DIGITS);
    clock_iso8601(modified_ms, created);
    memset(no_hash, '0', HASH_HEX_SIZE - 1);
    no_hash[HASH_HEX_SIZE - 1] = '\0';
    struct file_facts facts = { .owner = k->thread->owner,
                                .id = id,
                                .filename = path,
                                .sha256 = no_hash,
                                .created_at = created,
                                .thread_id = k->thread->id,
                                .size_bytes = size };
    k->file = strlen(path) < FILE_NAME_SIZE ? file_set_create(k->all, &facts) : NULL;
    if (!k->file || fd_mkdir_p(k->file->dir, 0700, NULL) < 0)
        return false;
    file_set_part(k->file, part);
    k->fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    k->at = 0;
    return k->fd >= 0;
}

static void keep_next(struct keeping *k)
{
    struct err err = ERR_INIT;
    while (k->all->room && json_array_size(k->todo) > 0) {
        auto_json json_t *entry = json_incref(json_array_get(k->todo, 0));
        const char *path = json_string_value(json_object_get(entry, "path"));
        int64_t size = json_integer_value(json_object_get(entry, "size"));
        int64_t modified = json_integer_value(json_object_get(entry, "modified"));
        json_array_remove(k->todo, 0);
        if (!has_room(k, size))
            continue; /* it can be downloaded while its kernel lives */
        if (begin_file(k, path, size, modified) &&
            chat_read_file(k->chat, path, 0, on_piece, k, &k->op, &err) == 0)
            return;
        drop_file(k);
    }
    keeping_free(k);
}

/* Whether the thread has it as it is. */
static bool is_kept(const struct data_thread *t, const char *path, const json_t *entry)
{
    const struct file_set *f = t ? data_thread_named(t, path) : NULL;
    return f && f->file.size_bytes == json_integer_value(json_object_get(entry, "size")) &&
           store_time_ms(f->created_at) == json_integer_value(json_object_get(entry, "modified"));
}

void outputs_keep(struct chat *c, const json_t *files)
{
    struct agent *a = c->agent;
    struct file_sets *all = a->env.room ? a->env.room->files : NULL;
    struct data_thread *t = all ? data_thread_find(a->env.room, c->owner, c->id) : NULL;
    auto_json json_t *todo = json_array();
    struct err err = ERR_INIT;
    size_t i;
    json_t *f;
    if (!all)
        return;
    for (struct keeping *k = a->keeping; k; k = k->next)
        if (k->chat == c)
            return; /* the next cell's list has what this one missed */
    json_array_foreach(files, i, f) {
        const char *path = json_string_value(json_object_get(f, "path"));
        int64_t modified = json_integer_value(json_object_get(f, "modified"));
        if (path && file_is_output(path) && !is_kept(t, path, f) &&
            !data_thread_hides(all, c->owner, c->id, path, modified))
            json_array_append(todo, f);
    }
    struct keeping *k = json_array_size(todo) > 0 ? calloc(1, sizeof(*k)) : NULL;
    if (!k)
        return;
    if (data_thread_pin(all, c->owner, c->id, &k->thread, &err) < 0) {
        free(k);
        return;
    }
    k->all = file_sets_ref(all);
    k->chat = chat_ref(c);
    k->todo = json_incref(todo);
    k->fd = -1;
    k->next = a->keeping;
    k->prev = &a->keeping;
    if (k->next)
        k->next->prev = &k->next;
    a->keeping = k;
    keep_next(k);
}

void outputs_close(struct agent *a)
{
    while (a->keeping)
        keeping_free(a->keeping);
}
