/*
 * The bytes of images: those of all owners have RIDDLE_IMAGES_SIZE, those of one IMAGE_QUOTA_BYTES.
 * A file with several names (forks, checkpoints) counts once.
 */

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "agent/agent_impl.h"
#include "base/str.h"

#define IMAGES_KNOWN_MS 2000
#define HEX "0123456789abcdef"

struct image_size {
    char thread[IMAGE_THREAD_HEX + 1], owner[IMAGE_OWNER_HEX + 1]; /* of its name */
    bool is_image; /* of a thread that is cold: not retired, half written or a checkpoint */
    int64_t bytes;
    int64_t share; /* … divided by the number of its names */
};

/* False: it is a base, or something beside the images. */
static bool owner_of(const char *name, char ret[IMAGE_OWNER_HEX + 1])
{
    if (strspn(name, HEX) != IMAGE_THREAD_HEX || strlen(name) <= IMAGE_OWNER_AT ||
        strspn(name + IMAGE_OWNER_AT, HEX) != IMAGE_OWNER_HEX)
        return false;
    snprintf(ret, IMAGE_OWNER_HEX + 1, "%.*s", IMAGE_OWNER_HEX, name + IMAGE_OWNER_AT);
    return true;
}

/* Images first. */
static int compare_sizes(const void *a, const void *b)
{
    const struct image_size *x = a, *y = b;
    int order = strcmp(x->thread, y->thread);
    return order ? order : (int)y->is_image - (int)x->is_image;
}

static void add_size(struct agent *a, size_t *room, const char *name, const struct stat *st)
{
    char owner[IMAGE_OWNER_HEX + 1];
    int64_t names = MAX_OF(1, (int64_t)st->st_nlink), share = (st->st_size + names - 1) / names;
    a->images.bytes += share;
    if (!owner_of(name, owner))
        return;
    if (a->images.n == *room) {
        size_t more = MAX_OF(64, 2 * *room);
        struct image_size *sizes = realloc(a->images.sizes, more * sizeof(*sizes));
        if (!sizes)
            return;
        a->images.sizes = sizes;
        *room = more;
    }
    struct image_size *s = &a->images.sizes[a->images.n++];
    *s = (struct image_size){ .is_image = !strchr(name, '.'),
                              .bytes = st->st_size,
                              .share = share };
    snprintf(s->thread, sizeof(s->thread), "%.*s", IMAGE_THREAD_HEX, name);
    memcpy(s->owner, owner, sizeof(owner));
    a->images.cold += s->is_image;
}

static DIR *open_images(const struct agent *a)
{
    char path[IMAGE_PATH_SIZE];
    snprintf(path, sizeof(path), "%s/images", a->env.cfg->home);
    return opendir(path);
}

/* Bytes of all images, as they were some seconds ago at most. */
static int64_t images_bytes(struct agent *a)
{
    size_t room = 0;
    struct stat st;
    if (a->images.at_ms && clock_now_ms() - a->images.at_ms < IMAGES_KNOWN_MS)
        return a->images.bytes;
    a->images.bytes = 0;
    a->images.n = a->images.cold = 0;
    free(TAKE_PTR(a->images.sizes));
    a->images.at_ms = clock_now_ms();
    DIR *dir = open_images(a);
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
            add_size(a, &room, e->d_name, &st);
    if (dir)
        closedir(dir);
    if (a->images.n > 0)
        qsort(a->images.sizes, a->images.n, sizeof(*a->images.sizes), compare_sizes);
    return a->images.bytes;
}

static bool has_images(const struct agent *a)
{
    return a->env.store && a->env.cfg->images_bytes > 0;
}

int64_t agent_image_bytes(struct agent *a, const char *owner, const char *thread_id)
{
    char thread[HASH_HEX_SIZE];
    struct image_size key = { .is_image = true }, *found = NULL;
    if (!has_images(a) || !keeper_thread_name(owner, thread_id, thread))
        return 0;
    (void)images_bytes(a);
    snprintf(key.thread, sizeof(key.thread), "%.*s", IMAGE_THREAD_HEX, thread);
    if (a->images.n > 0)
        found = bsearch(&key, a->images.sizes, a->images.n, sizeof(key), compare_sizes);
    return found ? found->bytes : 0;
}

/* By the first digits of the owner's name. */
static int64_t bytes_of(struct agent *a, const char *owner)
{
    int64_t bytes = 0;
    (void)images_bytes(a);
    for (size_t i = 0; i < a->images.n; i++)
        if (str_starts(owner, a->images.sizes[i].owner))
            bytes += a->images.sizes[i].share;
    return bytes;
}

int64_t agent_owner_image_bytes(struct agent *a, const char *owner)
{
    char name[HASH_HEX_SIZE];
    return has_images(a) && keeper_thread_name(owner, "", name) ? bytes_of(a, name) : 0;
}

void keeper_stats(struct agent *a, struct agent_stats *ret)
{
    if (has_images(a)) {
        ret->images_bytes = images_bytes(a);
        ret->cold = a->images.cold;
    }
}

int keeper_check_room(struct agent *a, int64_t bytes, struct err *err)
{
    if (images_bytes(a) + bytes < a->env.cfg->images_bytes)
        return 0;
    return err_set(err, ERR_UNAVAILABLE,
                   "images take all the room that they may have (RIDDLE_IMAGES_SIZE)");
}

/* ---- the owner's quota ---- */

struct owned_name {
    char *name;
    ino_t ino;
    struct timespec written;
    int64_t bytes;
};

struct owned_names {
    struct owned_name *all;
    size_t n, room;
};

static int compare_ages(const void *a, const void *b)
{
    const struct owned_name *x = a, *y = b;
    if (x->written.tv_sec != y->written.tv_sec)
        return x->written.tv_sec < y->written.tv_sec ? -1 : 1;
    if (x->written.tv_nsec != y->written.tv_nsec)
        return x->written.tv_nsec < y->written.tv_nsec ? -1 : 1;
    return (x->ino > y->ino) - (x->ino < y->ino);
}

static void add_name(struct owned_names *names, const char *name, const struct stat *st)
{
    if (names->n == names->room) {
        size_t more = MAX_OF(64, 2 * names->room);
        struct owned_name *all = realloc(names->all, more * sizeof(*all));
        if (!all)
            return;
        names->all = all;
        names->room = more;
    }
    char *copy = strdup(name);
    if (copy)
        names->all[names->n++] = (struct owned_name){
            .name = copy, .ino = st->st_ino, .written = st->st_mtim, .bytes = st->st_size
        };
}

/* What is complete, the oldest first; names of one file follow each other. */
static void find_names(DIR *dir, const char *owner, struct owned_names *ret)
{
    char of[IMAGE_OWNER_HEX + 1];
    struct stat st;
    for (struct dirent *e; (e = readdir(dir));)
        if (owner_of(e->d_name, of) && str_starts(owner, of) && !strstr(e->d_name, IMAGE_PARTIAL) &&
            fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
            add_name(ret, e->d_name, &st);
    if (ret->n > 0)
        qsort(ret->all, ret->n, sizeof(*ret->all), compare_ages);
}

/* NULL: it is not in memory. */
static struct chat *chat_of(const struct agent *a, const char *name)
{
    char thread[HASH_HEX_SIZE];
    for (struct chat *c = a->chats; c; c = c->next)
        if (!c->deleted && keeper_thread_name(c->owner, c->id, thread) &&
            strncmp(thread, name, IMAGE_THREAD_HEX) == 0)
            return c;
    return NULL;
}

static bool is_its_image(const struct chat *c, const char *name)
{
    char path[IMAGE_PATH_SIZE];
    struct err ignored = ERR_INIT;
    return thread_kernel_state(c->kernel) == KERNEL_COLD &&
           keeper_image_file(c, "", path, &ignored) == 0 && str_eq(strrchr(path, '/') + 1, name);
}

/* A checkpoint that is gone is not in the list of its thread any more. */
static void remove_name(struct agent *a, DIR *dir, const char *name)
{
    struct chat *c = chat_of(a, name);
    if (c && is_its_image(c, name)) {
        chat_ref(c);
        thread_kernel_drop(c->kernel, IMAGE_LOST_TO_QUOTA);
        chat_unref(c);
    } else if (!c && !strstr(name, CHECKPOINT_MARK)) {
        keeper_leave_lost(a, name, LOST_TO_QUOTA);
    }
    (void)unlinkat(dirfd(dir), name, 0);
}

/* A kernel is on its way to or from one of these names. */
static bool is_in_use(const struct agent *a, const struct owned_name *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct chat *c = chat_of(a, names[i].name);
        if (c && kernel_state_is_moving(thread_kernel_state(c->kernel)))
            return true;
    }
    return false;
}

static void remove_oldest(struct agent *a, DIR *dir, const struct owned_names *names,
                          int64_t too_much)
{
    size_t next;
    for (size_t i = 0; i < names->n && too_much > 0; i = next) {
        for (next = i + 1; next < names->n && names->all[next].ino == names->all[i].ino;)
            next++;
        if (next == names->n)
            return; /* the newest */
        if (is_in_use(a, names->all + i, next - i))
            continue;
        too_much -= names->all[i].bytes;
        for (size_t k = i; k < next; k++)
            remove_name(a, dir, names->all[k].name);
    }
}

void keeper_trim_images(const struct chat *c)
{
    struct agent *a = c->agent;
    struct owned_names names = { 0 };
    char owner[HASH_HEX_SIZE];
    a->images.at_ms = 0;
    if (!has_images(a) || a->env.cfg->image_quota_bytes == 0 ||
        !keeper_thread_name(c->owner, "", owner))
        return;
    int64_t too_much = bytes_of(a, owner) - a->env.cfg->image_quota_bytes;
    DIR *dir = too_much > 0 ? open_images(a) : NULL;
    if (!dir)
        return;
    find_names(dir, owner, &names);
    remove_oldest(a, dir, &names, too_much);
    closedir(dir);
    for (size_t i = 0; i < names.n; i++)
        free(names.all[i].name);
    free(names.all);
    a->images.at_ms = 0;
}
