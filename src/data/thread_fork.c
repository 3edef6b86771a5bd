/* Files of a thread that is forked: the fork has links to them under ids of its own. */

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "data/thread_files_impl.h"
#include "base/fdio.h"
#include "base/id.h"
#include "base/str.h"

/* The file and the tables beside it. */
static int link_files(const char *from_dir, const char *to_dir, struct err *err)
{
    int r = fd_mkdir_p(to_dir, 0700, err);
    DIR *from = r == 0 ? opendir(from_dir) : NULL;
    auto_close int to = from ? open(to_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    struct stat st;
    if (r == 0 && to < 0)
        r = err_errno(err, ERR_IO, errno, "opening the files of a thread");
    for (struct dirent *e; r == 0 && (e = readdir(from));)
        if (fstatat(dirfd(from), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(st.st_mode) && linkat(dirfd(from), e->d_name, to, e->d_name, 0) < 0)
            r = err_errno(err, ERR_IO, errno, "linking the files of a thread");
    if (r == 0 && fsync(to) < 0)
        r = err_errno(err, ERR_IO, errno, "linking the files of a thread");
    if (from)
        closedir(from);
    return r;
}

static int fork_file(struct session *to, const struct session_file *f, struct err *err)
{
    char id[SESSION_FILE_DIGITS + 1], from_dir[PATH_MAX], to_dir[PATH_MAX];
    id_hex(id, SESSION_FILE_DIGITS);
    struct session_file *copy = session_file_create(to, id, f->name, f->size);
    if (!copy)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    snprintf(copy->table, sizeof(copy->table), "%s", f->table);
    snprintf(copy->note, sizeof(copy->note), "%s", f->note);
    memcpy(copy->sha256, f->sha256, sizeof(copy->sha256));
    copy->modified_ms = f->modified_ms;
    snprintf(from_dir, sizeof(from_dir), "%s", f->path);
    snprintf(to_dir, sizeof(to_dir), "%s", copy->path);
    int r = *from_dir && *to_dir ? 0 : err_set(err, ERR_IO, "RIDDLE_HOME is too deep");
    if (r == 0) {
        *strrchr(from_dir, '/') = *strrchr(to_dir, '/') = '\0';
        r = link_files(from_dir, to_dir, err);
    }
    if (r < 0) {
        copy->removed = true;
        session_file_unref(copy);
        return r;
    }
    session_add(to, copy);
    return 0;
}

struct nothing {
    void (*done)(const struct err *err, void *arg);
    void *arg;
};

static void tell_nothing(void *arg)
{
    struct nothing n = *(struct nothing *)arg;
    free(arg);
    n.done(NULL, n.arg);
}

static int soon(struct loop *loop, session_saved_fn done, void *arg, struct err *err)
{
    struct nothing *n = calloc(1, sizeof(*n));
    if (!n)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    *n = (struct nothing){ done, arg };
    int r = loop_defer(loop, tell_nothing, n, err);
    if (r < 0)
        free(n);
    return r;
}

int session_fork(struct data_room *room, const char *owner, const char *from_id, const char *to_id,
                 session_saved_fn done, void *arg, struct err *err)
{
    struct session *from = session_find(room->sessions, owner, from_id), *to;
    struct upload_use *use = from ? uploads_use(room->uploads, owner) : NULL;
    int64_t bytes = 0;
    if (!from || from->n_files == 0)
        return soon(room->env.loop, done, arg, err);
    for (size_t i = 0; i < from->n_files; i++)
        bytes += from->files[i]->size + from->files[i]->table_bytes;
    int r = use ? uploads_may_grow(use, room->env.cfg, bytes, err) :
                  err_set(err, ERR_NO_MEMORY, "out of memory");
    if (r == 0)
        r = session_pin(room->sessions, owner, to_id, &to, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < from->n_files && r == 0; i++)
        r = fork_file(to, from->files[i], err);
    if (r == 0)
        r = session_save(to, done, arg, err);
    if (r < 0)
        session_clear(to);
    session_unpin(to);
    return r;
}
