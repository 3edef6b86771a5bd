/*
 * What code saved to /data/outputs, kept on disk with its session: after each cell riddle reads the
 * new ones from the thread's kernel, a piece at a time, and adds them to the session's files. They
 * can be listed and downloaded when the kernel is gone, until the session's time is over or it is
 * cleared. A kernel never sees them again: they are no data.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include "agent/agent_impl.h"
#include "data/thread_files_impl.h"
#include "base/fdio.h"
#include "base/id.h"
#include "base/log.h"
#include "base/str.h"

struct keeping {
    struct sessions *all;    /* a reference */
    struct session *session; /* pinned */
    struct chat *chat;       /* a reference */
    json_t *todo;            /* [{path, size, modified}] */
    struct kernel_file_op *op;
    struct session_file *file; /* on its way; not in the session yet */
    int fd;
    int64_t at;
    struct keeping *next, **prev;
};

/* ---- keeping ---- */

static void keeping_free(struct keeping *k)
{
    *k->prev = k->next;
    if (k->next)
        k->next->prev = k->prev;
    kernel_file_op_drop(k->op);
    if (k->fd >= 0)
        close(k->fd);
    if (k->file) {
        k->file->removed = true;
        session_file_unref(k->file);
    }
    chat_unref(k->chat);
    json_decref(k->todo);
    session_unpin(k->session);
    sessions_unref(k->all);
    free(k);
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
    if (r == 0 && k->at > k->file->size)
        r = -ERR_CONFLICT; /* it grows: the next cell's list has it again */
    if (r == 0 && !piece->end &&
        chat_read_file(k->chat, k->file->name, k->at, on_piece, k, &k->op, &why) == 0)
        return;
    close(TAKE_FD(k->fd));
    if (r == 0 && piece->end && k->at == k->file->size) {
        session_add(k->session, TAKE_PTR(k->file));
    } else {
        k->file->removed = true;
        session_file_unref(TAKE_PTR(k->file));
    }
    keep_next(k);
}

static bool has_room(const struct keeping *k, int64_t size)
{
    const struct config *cfg = k->all->room->env.cfg;
    struct upload_use *use = uploads_use(k->all->uploads, k->session->owner);
    return k->session->n_files < SESSION_FILES_ROOM && use &&
           k->session->bytes + size <= cfg->session_quota_bytes &&
           uploads_may_grow(use, cfg, size, NULL) == 0;
}

/* Makes the file that the first entry's bytes go to. */
static bool begin_file(struct keeping *k, const char *path, int64_t size, int64_t modified_ms)
{
    char id[SESSION_FILE_DIGITS + 1], dir[PATH_MAX];
    id_hex(id, SESSION_FILE_DIGITS);
    k->file = session_file_create(k->session, id, path, size);
    if (!k->file || !*k->file->path)
        return false;
    k->file->modified_ms = modified_ms;
    memset(k->file->sha256, '0', HASH_HEX_SIZE - 1);
    snprintf(dir, sizeof(dir), "%s", k->file->path);
    *strrchr(dir, '/') = '\0';
    if (fd_mkdir_p(dir, 0700, NULL) < 0)
        return false;
    k->fd = open(k->file->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
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
        if (k->fd >= 0)
            close(TAKE_FD(k->fd));
        if (k->file)
            k->file->removed = true;
        session_file_unref(TAKE_PTR(k->file));
    }
    if (k->all->room && session_save(k->session, NULL, NULL, &err) < 0)
        log_error("session.save", LOG_STR("session", k->session->id),
                  LOG_STR("error", err.message));
    keeping_free(k);
}

/* Whether the session has it as it is. */
static bool is_kept(const struct session *s, const char *path, const json_t *entry)
{
    const struct session_file *f = s ? session_file_named(s, path) : NULL;
    return f && f->size == json_integer_value(json_object_get(entry, "size")) &&
           f->modified_ms == json_integer_value(json_object_get(entry, "modified"));
}

void outputs_keep(struct chat *c, const json_t *files)
{
    struct agent *a = c->agent;
    struct sessions *all = a->env.room ? a->env.room->sessions : NULL;
    struct session *s = all ? session_find(all, c->owner, c->id) : NULL;
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
        if (path && file_is_output(path) && !is_kept(s, path, f) &&
            !session_hides(all, c->owner, c->id, path, modified))
            json_array_append(todo, f);
    }
    struct keeping *k = json_array_size(todo) > 0 ? calloc(1, sizeof(*k)) : NULL;
    if (!k)
        return;
    if (session_pin(all, c->owner, c->id, &k->session, &err) < 0) {
        free(k);
        return;
    }
    k->all = sessions_ref(all);
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
