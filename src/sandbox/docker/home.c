/*
 * Whose containers are whose. RIDDLE_HOME/docker/id is a random number that all containers of this
 * home carry as a label. Each process has a number of its own, another label, and holds a lock on
 * RIDDLE_HOME/docker/<number>.lock while it lives. So the containers of a process that is gone can
 * be told from those of one that lives, whatever machine the daemon is on, and nobody else's are
 * touched.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
#include "base/fdio.h"
#include "base/id.h"
#include "base/str.h"
#include "sandbox/docker/docker_impl.h"

#define SWEEP_MS 60000

static bool is_id(const char *s)
{
    return s && strlen(s) == DOCKER_ID_DIGITS && strspn(s, "0123456789abcdef") == DOCKER_ID_DIGITS;
}

static int read_home_id(const char *dir, char ret[DOCKER_ID_DIGITS + 1], struct err *err)
{
    char path[4200];
    auto_buf struct buf text = BUF_INIT(256);
    snprintf(path, sizeof(path), "%.4000s/id", dir);
    int r = fd_read_file(path, &text, err);
    if (r == -ERR_NOT_FOUND) {
        id_hex(ret, DOCKER_ID_DIGITS);
        /* Two at once: both take what is there in the end. */
        r = fd_replace_file(path, ret, DOCKER_ID_DIGITS, 0600, err);
        if (r == 0)
            r = fd_read_file(path, &text, err);
    }
    if (r < 0)
        return r;
    if (!is_id(buf_cstr(&text)))
        return err_set(err, ERR_CONFIG, "'%s' does not hold %d hexadecimal digits; remove it", path,
                       DOCKER_ID_DIGITS);
    snprintf(ret, DOCKER_ID_DIGITS + 1, "%s", buf_cstr(&text));
    return 0;
}

int docker_home_open(struct docker *p, struct err *err)
{
    char dir[4100];
    p->lock_fd = -1;
    if (snprintf(dir, sizeof(dir), "%s/docker", p->base.cfg->home) >= (int)sizeof(dir) - 64)
        return err_set(err, ERR_CONFIG, "RIDDLE_HOME is too long");
    int r = fd_mkdir_p(dir, 0700, err);
    if (r == 0)
        r = read_home_id(dir, p->home_id, err);
    if (r < 0)
        return err_wrap(err, "RIDDLE_HOME");
    id_hex(p->instance_id, DOCKER_ID_DIGITS);
    snprintf(p->lock_path, sizeof(p->lock_path), "%.4000s/%s.lock", dir, p->instance_id);
    p->lock_fd = open(p->lock_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (p->lock_fd < 0 || flock(p->lock_fd, LOCK_EX | LOCK_NB) < 0)
        return err_errno(err, ERR_IO, errno, "locking '%s'", p->lock_path);
    return 0;
}

void docker_home_close(struct docker *p)
{
    if (p->lock_fd < 0)
        return;
    unlink(p->lock_path);
    close(TAKE_FD(p->lock_fd));
}

/* True if nobody holds the lock of that process; its file goes. */
static bool is_gone(const struct docker *p, const char *instance)
{
    char path[4200];
    snprintf(path, sizeof(path), "%.4000s/docker/%s.lock", p->base.cfg->home, instance);
    auto_close int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return false;
    unlink(path);
    return true;
}

static void removed(void *arg, const json_t *body, const struct err *err)
{
    (void)body, (void)err; /* gone already, or going by itself: it is all the same */
    docker_call_ended(arg);
}

void docker_remove(struct docker *p, const char *container)
{
    char path[256];
    struct err err = ERR_INIT;
    snprintf(path, sizeof(path), "/containers/%.80s?force=1&v=1", container);
    if (engine_call(p->engine, "DELETE", path, NULL, SWEEP_MS, removed, p, &err) == 0)
        p->n_calls++;
}

static void swept(void *arg, const json_t *body, const struct err *err)
{
    struct docker *p = arg;
    size_t i;
    const json_t *one;
    (void)err;
    json_array_foreach(body, i, one) {
        const json_t *labels = json_object_get(one, "Labels");
        const char *instance = json_string_value(json_object_get(labels, LABEL_INSTANCE));
        const char *id = json_string_value(json_object_get(one, "Id"));
        if (id && is_id(instance) &&
            str_eq(json_string_value(json_object_get(labels, LABEL_HOME)), p->home_id) &&
            !str_eq(instance, p->instance_id) && is_gone(p, instance))
            docker_remove(p, id);
    }
    docker_call_ended(p);
}

void docker_sweep(struct docker *p)
{
    char path[256];
    struct err err = ERR_INIT;
    snprintf(path, sizeof(path),
             "/containers/json?all=1&filters=%%7B%%22label%%22%%3A%%5B%%22" LABEL_HOME
             "%%3D%s%%22%%5D%%7D",
             p->home_id);
    if (engine_call(p->engine, "GET", path, NULL, SWEEP_MS, swept, p, &err) == 0)
        p->n_calls++;
}
