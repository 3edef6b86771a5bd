/*
 * Writing an image. The process looks at itself: tables are kept in a room of their own that is no
 * part of the image, nothing is allocated once the mappings have been read, and the registers are
 * saved first, so that what the writer does from then on is below the stack that the image goes on
 * with.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>
#include "base/macros.h"
#include "base/str.h"
#include "kernel/image/base.h"
#include "kernel/image/pagemap.h"

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)

#define BOUNCE_BYTES (1u << 20)
#define MAPPING_MAX (1ull << 36)

/* Everything that the writer keeps, in its room. */
struct room {
    struct image_head head;
    struct image_map maps[IMAGE_MAPS_MAX];
    struct image_run runs[IMAGE_RUNS_MAX], longs[IMAGE_LONGS_MAX], drops[IMAGE_DROPS_MAX];
    struct image_patch patches[IMAGE_PATCHES_MAX];
    struct image_fd fds[IMAGE_FDS_MAX];
    char names[IMAGE_NAMES_MAX];
    size_t names_len;
    struct pagemap_walk walk;
    struct maps reader;
    struct base base;
    uint64_t checks[1 + IMAGE_LONGS_MAX];
    char bounce[BOUNCE_BYTES];
    bool is_live;
    int64_t bytes;
};

_Static_assert(sizeof(struct room) < IMAGE_ROOM_BYTES, "the room is too small");

/* 0 now; 1 when a process made from the image goes on here. */
__attribute__((naked, noinline, returns_twice)) static int save_context(
    __attribute__((unused)) struct image_context *c)
{
    __asm__("movq %rbx, 0(%rdi)\n\t"
            "movq %rbp, 8(%rdi)\n\t"
            "movq %r12, 16(%rdi)\n\t"
            "movq %r13, 24(%rdi)\n\t"
            "movq %r14, 32(%rdi)\n\t"
            "movq %r15, 40(%rdi)\n\t"
            "leaq 8(%rsp), %rax\n\t"
            "movq %rax, 48(%rdi)\n\t"
            "movq (%rsp), %rax\n\t"
            "movq %rax, 56(%rdi)\n\t"
            "stmxcsr 64(%rdi)\n\t"
            "fnstcw 68(%rdi)\n\t"
            "xorl %eax, %eax\n\t"
            "ret\n\t");
}

/* ---- what cannot be kept ---- */

static int check_alone(struct err *err)
{
    struct itimerval timer;
    char line[64];
    DIR *tasks = opendir("/proc/self/task"), *all = opendir("/proc");
    unsigned threads = 0, processes = 0;
    for (struct dirent *e; tasks && (e = readdir(tasks));)
        threads += e->d_name[0] != '.';
    for (struct dirent *e; all && (e = readdir(all));)
        processes += e->d_name[0] >= '0' && e->d_name[0] <= '9';
    bool seen = tasks && all;
    if (tasks)
        closedir(tasks);
    if (all)
        closedir(all);
    if (!seen || getpid() != 1)
        return err_set(err, ERR_CONFLICT, "a kernel without a process namespace of its own");
    if (threads != 1)
        return err_set(err, ERR_CONFLICT, "%u threads besides the first", threads - 1);
    if (processes != 1)
        return err_set(err, ERR_CONFLICT, "%u processes that code has started", processes - 1);
    auto_close int timers = open("/proc/self/timers", O_RDONLY | O_CLOEXEC);
    if (getitimer(ITIMER_REAL, &timer) < 0 || timer.it_value.tv_sec || timer.it_value.tv_usec ||
        (timers >= 0 && read(timers, line, sizeof(line)) > 0))
        return err_set(err, ERR_CONFLICT, "a timer that is running");
    return 0;
}

static uint32_t add_name(struct room *room, const char *name)
{
    size_t len = strlen(name) + 1, at = room->names_len;
    if (at + len > sizeof(room->names))
        return 0;
    memcpy(room->names + at, name, len);
    room->names_len += len;
    return (uint32_t)at;
}

static int keep_fd(struct room *room, int fd, struct err *err)
{
    char link[64], path[PATH_MAX];
    struct stat st;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof(path) - 1);
    if (n < 0 || fstat(fd, &st) < 0)
        return err_set(err, ERR_CONFLICT, "descriptor %d, which cannot be looked at", fd);
    path[n] = 0;
    bool is_file = S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) || S_ISCHR(st.st_mode);
    struct stat now;
    if (path[0] != '/' || !is_file || stat(path, &now) < 0 || now.st_ino != st.st_ino ||
        now.st_dev != st.st_dev)
        return err_set(err, ERR_CONFLICT,
                       "descriptor %d (%.100s), which is no file that could be opened again", fd,
                       path);
    if (room->head.n_fds == IMAGE_FDS_MAX)
        return err_set(err, ERR_CONFLICT, "more than %d open files", IMAGE_FDS_MAX);
    off_t offset = S_ISREG(st.st_mode) ? lseek(fd, 0, SEEK_CUR) : 0;
    struct image_fd *f = &room->fds[room->head.n_fds++];
    int flags = fcntl(fd, F_GETFL) &
                (O_ACCMODE | O_APPEND | O_NONBLOCK | O_DIRECTORY | O_SYNC | O_DSYNC);
    if (fcntl(fd, F_GETFD) & FD_CLOEXEC)
        flags |= O_CLOEXEC;
    *f = (struct image_fd){ .fd = fd,
                            .flags = flags,
                            .offset = offset > 0 ? (uint64_t)offset : 0,
                            .name = add_name(room, path) };
    return 0;
}

static int keep_fds(struct room *room, int image_fd, int base_fd, struct err *err)
{
    DIR *dir = opendir("/proc/self/fd");
    int r = dir ? 0 : err_set(err, ERR_CONFLICT, "/proc/self/fd cannot be read");
    for (struct dirent *e; r == 0 && (e = readdir(dir));) {
        int fd = atoi(e->d_name);
        if (e->d_name[0] != '.' && fd > 3 && fd != image_fd && fd != base_fd && fd != dirfd(dir))
            r = keep_fd(room, fd, err);
    }
    if (dir)
        closedir(dir);
    return r;
}

static int keep_process(struct room *room, struct err *err)
{
    char path[PATH_MAX];
    mode_t mask = umask(0);
    umask(mask);
    room->head.umask = mask;
    if (!getcwd(path, sizeof(path)))
        return err_set(err, ERR_CONFLICT, "a working directory that is gone");
    room->head.cwd = add_name(room, path);
    for (int sig = 1; sig <= IMAGE_SIGNALS; sig++)
        (void)syscall(SYS_rt_sigaction, sig, NULL, &room->head.signals[sig - 1], 8);
    (void)syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &room->head.sigmask, 8);
    __asm__("movq %%fs:0, %0" : "=r"(room->head.thread_pointer));
    return 0;
}

/* ---- pages ---- */

/* No run goes from one mapping into the next. */
static int add_page(struct room *room, const struct image_map *m, uint64_t at, struct err *err)
{
    struct image_head *h = &room->head;
    struct image_run *last = h->n_runs ? &room->runs[h->n_runs - 1] : NULL;
    h->n_pages++;
    if (last && last->from >= m->from && last->from + last->pages * IMAGE_PAGE == at &&
        last->pages < BOUNCE_BYTES / IMAGE_PAGE) {
        last->pages++;
        return 0;
    }
    if (h->n_runs == IMAGE_RUNS_MAX)
        return err_set(err, ERR_CONFLICT, "memory in too many pieces");
    room->runs[h->n_runs++] = (struct image_run){ at, 1 };
    return 0;
}

static int add_drop(struct room *room, const struct image_map *m, uint64_t at, struct err *err)
{
    struct image_head *h = &room->head;
    struct image_run *last = h->n_drops ? &room->drops[h->n_drops - 1] : NULL;
    if (last && last->from >= m->from && last->from + last->pages * IMAGE_PAGE == at) {
        last->pages++;
        return 0;
    }
    if (h->n_drops == IMAGE_DROPS_MAX)
        return err_set(err, ERR_CONFLICT, "memory in too many pieces");
    room->drops[h->n_drops++] = (struct image_run){ at, 1 };
    return 0;
}

/* Notes the words of a page that differ from the base. False if there are too many. */
static bool add_patches(struct room *room, uint64_t at, const void *base)
{
    const checksum_word *now = (const void *)at, *was = base;
    size_t n = room->head.n_patches, max = MIN_OF(n + IMAGE_PATCH_WORDS, IMAGE_PATCHES_MAX);
    const size_t words = PAGE_BLOCK / sizeof(*now);
    for (size_t block = 0; block < IMAGE_PAGE / sizeof(*now); block += words) {
        if (blocks_are_equal(now + block, was + block))
            continue;
        for (size_t i = block; i < block + words; i++) {
            if (now[i] == was[i])
                continue;
            if (n == max)
                return false;
            room->patches[n++] = (struct image_patch){ at + i * sizeof(*now), now[i] };
        }
    }
    room->head.n_patches = n;
    return true;
}

/* Long runs are kept apart. Before, they are in pieces that the bounce buffer can take. */
static void part_runs(struct room *room)
{
    struct image_head *h = &room->head;
    size_t kept = 0, map = 0;
    for (size_t i = 0, next; i < h->n_runs; i = next) {
        struct image_run all = room->runs[i];
        while (room->maps[map].to <= all.from)
            map++;
        for (next = i + 1; next < h->n_runs && room->runs[next].from < room->maps[map].to &&
                           room->runs[next].from == all.from + all.pages * IMAGE_PAGE;
             next++)
            all.pages += room->runs[next].pages;
        bool is_long = all.pages >= IMAGE_LONG_PAGES && room->maps[map].kind == IMAGE_ANON &&
                       h->n_longs < IMAGE_LONGS_MAX && !image_is_near(&all, h->thread_pointer);
        if (is_long)
            room->longs[h->n_longs++] = all;
        for (size_t k = i; k < next && !is_long; k++)
            room->runs[kept++] = room->runs[k];
    }
    h->n_runs = kept;
}

/*
 * One page that is the process's own, not of a file. What it shares with the zygote is as the base
 * has it, unless it is the page of zeros that Linux shows where nothing was written yet; range says
 * whether it is, unless the walk is blind. A page of the image that the process was made from may
 * be shared with a fork of it, which says nothing.
 */
static int look_at_page(struct room *room, const struct image_map *m, uint64_t at, uint64_t entry,
                        const struct pagemap_range *range, const void *base, bool differs,
                        struct err *err)
{
    bool shared = (entry & PM_PRESENT) && !(entry & (PM_EXCLUSIVE | PM_FILE)) && !differs;
    if (!(m->prot & PROT_READ))
        return shared && base ? 0 : err_set(err, ERR_CONFLICT, "memory that cannot be read");
    bool zero = m->kind == IMAGE_FILE                  ? false :
                shared && base && !room->walk.is_blind ? range->categories & PAGE_ZERO :
                                                         page_is_zero((const void *)at);
    if (base && zero)
        return add_drop(room, m, at, err);
    if (zero || (base && (shared || add_patches(room, at, base))))
        return 0;
    return add_page(room, m, at, err);
}

/* What the base has where the process has nothing, or a file's page. */
static int drop_gap(struct room *room, const struct image_map *m, uint64_t at, uint64_t to,
                    struct base_cursor *cursor, struct err *err)
{
    int r = 0;
    while (at < to && r == 0) {
        bool has = base_page(&room->base, cursor, at) != NULL;
        if (has)
            r = add_drop(room, m, at, err);
        at = has ? at + IMAGE_PAGE : base_next(&room->base, cursor);
    }
    return r;
}

/*
 * How many pages from this one on, which is in the base, are the zygote's own, as the base has
 * them: nothing of them is in the image. Most pages are, and this is quicker than looking at each.
 */
static size_t count_shared(const struct room *room, const struct image_map *m, uint64_t at,
                           const struct pagemap_range *range, const struct base_cursor *cursor)
{
    const struct pagemap_walk *w = &room->walk;
    if (m->kind != IMAGE_FILE && (w->is_blind || (range->categories & PAGE_ZERO)))
        return 0;
    uint64_t end = base_same_until(&room->base, image_changes(), cursor);
    end = MIN_OF(end, MIN_OF(range->to, w->to));
    return pages_shared(&w->entries[(at - w->from) / IMAGE_PAGE], (end - at) / IMAGE_PAGE);
}

/* is_image: the pages are those of the image that the process was made from. */
static int look_at_range(struct room *room, const struct image_map *m,
                         const struct pagemap_range *range, bool is_image,
                         struct base_cursor *cursor, struct err *err)
{
    const struct image_changes *changes = image_changes();
    uint64_t e = PM_PRESENT | PM_EXCLUSIVE;
    int r = 0;
    for (uint64_t at = range->from; at < range->to && r == 0; at += IMAGE_PAGE) {
        if (!is_image && !pagemap_walk_entry(&room->walk, range, at, &e))
            return err_set(err, ERR_UNAVAILABLE, "/proc/self/pagemap cannot be read");
        const void *base = base_page(&room->base, cursor, at);
        bool differs = base_differs(changes, cursor, at);
        size_t shared = base && !is_image && !differs ? count_shared(room, m, at, range, cursor) :
                                                        0;
        if (shared > 0) {
            at += (shared - 1) * IMAGE_PAGE;
            continue;
        }
        if (e & PM_EXCLUSIVE)
            __builtin_prefetch((const char *)at + IMAGE_PREFETCH * IMAGE_PAGE);
        if ((e & (PM_PRESENT | PM_SWAP)) && !(e & PM_FILE))
            r = look_at_page(room, m, at, e, range, base, differs, err);
        else if (base)
            r = add_drop(room, m, at, err);
    }
    return r;
}

/*
 * Pages that are the process's own: not those of a file that nobody has written to, unless that is
 * the image that the process was made from.
 */
static int find_pages(struct room *room, const struct image_map *m, struct base_cursor *cursor,
                      struct err *err)
{
    struct pagemap_range range = { .from = m->from, .to = m->to };
    uint64_t at = m->from;
    int r = 0;
    if (m->to - m->from > MAPPING_MAX)
        return err_set(err, ERR_CONFLICT, "a mapping of %llu GB",
                       (unsigned long long)((m->to - m->from) >> 30));
    if (m->kind == IMAGE_ANON && m->ino)
        return look_at_range(room, m, &range, true, cursor, err);
    while (r == 0 && pagemap_walk_next(&room->walk, at, m->to, &range)) {
        r = drop_gap(room, m, at, range.from, cursor, err);
        if (r == 0)
            r = look_at_range(room, m, &range, false, cursor, err);
        at = range.to;
    }
    return r < 0 ? r : drop_gap(room, m, at, m->to, cursor, err);
}

static int find_memory(struct room *room, struct err *err)
{
    struct base_cursor cursor = { 0 };
    size_t n = 0;
    int r = layout_read(&room->reader, room->maps, IMAGE_MAPS_MAX, &n, room->names,
                        sizeof(room->names), &room->names_len, NULL, err);
    room->head.n_maps = n;
    int pagemap = r == 0 ? image_open_pagemap() : -1;
    if (r == 0 && pagemap < 0)
        r = err_set(err, ERR_UNAVAILABLE, "/proc/self/pagemap cannot be read");
    if (r == 0)
        pagemap_walk_begin(&room->walk, pagemap, 0, IMAGE_ADDRESS_MAX);
    for (size_t i = 0; i < n && r == 0; i++) {
        struct image_map *m = &room->maps[i];
        if (m->kind == IMAGE_FILE && m->offset == 0 &&
            (m->prot & (PROT_READ | PROT_WRITE)) == PROT_READ)
            m->first = checksum(1, (const void *)m->from, IMAGE_PAGE);
        if (m->kind != IMAGE_SYSTEM && !m->is_shared)
            r = find_pages(room, m, &cursor, err);
    }
    if (pagemap >= 0)
        close(pagemap);
    if (r == 0)
        part_runs(room);
    for (size_t i = 0; i < n; i++)
        if (room->maps[i].kind == IMAGE_ANON)
            room->maps[i].dev = room->maps[i].ino = 0;
    return r;
}

/* ---- writing ---- */

static int write_padding(int fd, uint64_t *at, struct err *err)
{
    static const char zeros[IMAGE_PAGE];
    size_t n = (size_t)(image_pad(*at) - *at);
    *at += n;
    return image_write(fd, zeros, n, err);
}

static int write_tables(struct room *room, int fd, uint64_t *at, struct err *err)
{
    struct image_head *h = &room->head;
    h->magic = IMAGE_MAGIC;
    h->names_bytes = (room->names_len + 7) & ~7ull;
    h->brk = (uint64_t)syscall(SYS_brk, 0);
    h->check = 0;
    /* One piece, as the reader has it: what is between the tables of the room is moved away. */
    char *to = (char *)h + sizeof(*h);
    const struct {
        const void *from;
        size_t bytes;
    } parts[] = { { room->maps, h->n_maps * sizeof(room->maps[0]) },
                  { room->runs, h->n_runs * sizeof(room->runs[0]) },
                  { room->longs, h->n_longs * sizeof(room->longs[0]) },
                  { room->drops, h->n_drops * sizeof(room->drops[0]) },
                  { room->patches, h->n_patches * sizeof(room->patches[0]) },
                  { room->fds, h->n_fds * sizeof(room->fds[0]) },
                  { room->names, h->names_bytes } };
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
        memmove(to, parts[i].from, parts[i].bytes);
        to += parts[i].bytes;
    }
    size_t len = image_tables_bytes(h);
    h->check = checksum(0, h, len);
    *at += len;
    int r = image_write(fd, h, len, err);
    return r < 0 ? r : write_padding(fd, at, err);
}

/* Some pages of short runs change while they are written: all are copied first. */
static int write_short(struct room *room, const struct image_run *runs, int fd, struct err *err)
{
    size_t used = 0;
    int r = 0;
    for (size_t i = 0; i < room->head.n_runs && r == 0; i++) {
        size_t len = runs[i].pages * IMAGE_PAGE;
        if (used + len > sizeof(room->bounce)) {
            r = image_write(fd, room->bounce, used, err);
            used = 0;
        }
        memcpy(room->bounce + used, (const void *)runs[i].from, len);
        if (!room->is_live)
            room->checks[0] = checksum(room->checks[0], room->bounce + used, len);
        used += len;
    }
    return r < 0 ? r : image_write(fd, room->bounce, used, err);
}

static int write_pages(struct room *room, int fd, uint64_t *at, struct err *err)
{
    const struct image_head *h = &room->head;
    /* They were moved with the tables. */
    const struct image_run *runs =
        (const struct image_run *)(const void *)((const char *)h + sizeof(*h) +
                                                 h->n_maps * sizeof(struct image_map));
    const struct image_run *longs = runs + h->n_runs;
    int r = write_short(room, runs, fd, err);
    for (size_t i = 0; i < h->n_longs && r == 0; i++) {
        size_t len = longs[i].pages * IMAGE_PAGE;
        if (!room->is_live)
            room->checks[1 + i] = checksum(0, (const void *)longs[i].from, len);
        r = image_write(fd, (const void *)longs[i].from, len, err);
    }
    size_t len = room->is_live ? 0 : (1 + h->n_longs) * sizeof(room->checks[0]);
    *at += h->n_pages * IMAGE_PAGE + len;
    return r < 0 ? r : image_write(fd, room->checks, len, err);
}

/* hooks: NULL in a zygote. */
static int write_image(struct room *room, int fd, int base_fd, const struct image_hooks *hooks,
                       struct err *err)
{
    bool is_zygote = !hooks;
    uint64_t at = sizeof(struct image_mark);
    struct image_mark mark = { .magic = IMAGE_MAGIC };
    image_system(mark.system);
    int r = base_fd < 0 ? 0 : base_map(base_fd, &room->base, err);
    if (r == 0 && base_fd >= 0)
        room->head.base = room->base.head->check;
    if (r == 0 && !is_zygote)
        r = keep_fds(room, fd, base_fd, err);
    if (r == 0)
        r = keep_process(room, err);
    room->is_live = hooks && hooks->is_live;
    if (r == 0)
        r = image_write(fd, &mark, sizeof(mark), err);
    if (r == 0)
        r = is_zygote ? archive_write_none(fd, &at, err) : archive_write(fd, &at, err);
    if (r == 0)
        r = write_padding(fd, &at, err);
    if (r < 0)
        return r;
    room->bytes = (int64_t)at;
    /* From here on nothing is allocated, and nothing above this frame changes. */
    if (save_context(&((struct room *)IMAGE_ROOM_AT)->head.context) != 0)
        return 1;
    r = find_memory(room, err);
    if (r == 0 && hooks && hooks->found)
        hooks->found(hooks->arg, (int64_t)(at + room->head.n_pages * IMAGE_PAGE));
    if (r == 0)
        r = write_tables(room, fd, &at, err);
    if (r == 0)
        r = write_pages(room, fd, &at, err);
    room->bytes = (int64_t)at;
    return r;
}

static int open_room(struct err *err)
{
    void *room = mmap((void *)IMAGE_ROOM_AT, IMAGE_ROOM_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (room != (void *)IMAGE_ROOM_AT) {
        if (room != MAP_FAILED)
            munmap(room, IMAGE_ROOM_BYTES);
        return err_set(err, ERR_CONFLICT, "memory at the address that is reserved for images");
    }
    (void)madvise(room, IMAGE_ROOM_BYTES, MADV_DONTFORK); /* no child that is forked needs it */
    return 0;
}

int image_save(int fd, int base_fd, const struct image_hooks *hooks, int64_t *ret_bytes,
               struct err *err)
{
    *ret_bytes = 0;
    int r = check_alone(err);
    if (r == 0)
        r = open_room(err);
    if (r < 0)
        return r;
    r = write_image((struct room *)IMAGE_ROOM_AT, fd, base_fd, hooks, err);
    const struct image_carried *carried = (const void *)IMAGE_ROOM_AT;
    if (r == 1) {
        image_note_mapped(&carried->mapped);
        hooks->carry(carried->bytes, carried->len);
    }
    *ret_bytes = r <= 0 ? ((struct room *)IMAGE_ROOM_AT)->bytes : 0;
    munmap((void *)IMAGE_ROOM_AT, IMAGE_ROOM_BYTES);
    base_unmap();
    return r < 0 ? r : r == 0 ? IMAGE_SAVED : IMAGE_RESTORED;
}

/* In the process that was made from it, the base stays mapped for image_note_changes(). */
int image_save_zygote(int fd, struct err *err)
{
    int r = open_room(err);
    if (r < 0)
        return r;
    r = write_image((struct room *)IMAGE_ROOM_AT, fd, fd, NULL, err);
    munmap((void *)IMAGE_ROOM_AT, IMAGE_ROOM_BYTES);
    if (r != 1)
        base_unmap();
    return r < 0 ? r : r == 0 ? IMAGE_SAVED : IMAGE_RESTORED;
}

#else

int image_save(int fd, int base_fd, const struct image_hooks *hooks, int64_t *ret_bytes,
               struct err *err)
{
    (void)fd, (void)base_fd, (void)hooks, (void)ret_bytes;
    return err_set(err, ERR_UNAVAILABLE, "this build of riddle-kernel cannot write images");
}

#endif
