/* Writing and mapping the memory of a zygote. */

#include "kernel/image/base.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/macros.h"

#define BAD(...) err_set(err, ERR_VALIDATION, "the base of the image is damaged: " __VA_ARGS__)

static struct image_changes changes;

const struct image_changes *image_changes(void)
{
    return &changes;
}

/* ---- mapping ---- */

static int check_base(const struct base_head *h, uint64_t size, struct base *ret, struct err *err)
{
    struct base_head head = *h;
    uint64_t len = sizeof(head) + head.n_runs * sizeof(struct image_run), pages = 0, above = 0;
    const struct image_run *runs = (const struct image_run *)(h + 1);
    if (head.magic != BASE_MAGIC || head.n_runs > IMAGE_RUNS_MAX || size < image_pad(len) ||
        size - image_pad(len) < head.n_pages * IMAGE_PAGE)
        return BAD("it is cut off");
    head.check = 0;
    if (checksum(checksum(0, &head, sizeof(head)), runs, len - sizeof(head)) != h->check)
        return BAD("its checksum is wrong");
    for (size_t i = 0; i < head.n_runs; i++) {
        const struct image_run *r = &runs[i];
        if (r->from < above || r->from % IMAGE_PAGE || r->pages == 0 ||
            r->pages > IMAGE_ADDRESS_MAX / IMAGE_PAGE)
            return BAD("pages are out of order");
        above = r->from + r->pages * IMAGE_PAGE;
        pages += r->pages;
    }
    if (pages != head.n_pages)
        return BAD("the number of pages is wrong");
    *ret = (struct base){
        .head = h, .runs = runs, .n_runs = head.n_runs, .pages = (const char *)h + image_pad(len)
    };
    return 0;
}

int base_map(int fd, struct base *ret, struct err *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size < (off_t)IMAGE_PAGE ||
        (uint64_t)st.st_size > IMAGE_BASE_BYTES)
        return BAD("it is cut off");
    void *at = mmap((void *)IMAGE_BASE_AT, (size_t)st.st_size, PROT_READ,
                    MAP_PRIVATE | MAP_FIXED_NOREPLACE, fd, 0);
    if (at != (void *)IMAGE_BASE_AT) {
        if (at != MAP_FAILED)
            munmap(at, (size_t)st.st_size);
        return err_set(err, ERR_CONFLICT, "memory at the address that is reserved for images");
    }
    int r = check_base(at, (uint64_t)st.st_size, ret, err);
    if (r < 0)
        base_unmap();
    return r;
}

void base_unmap(void)
{
    munmap((void *)IMAGE_BASE_AT, IMAGE_BASE_BYTES);
}

/* ---- writing ---- */

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)

/* Everything that the writer keeps is in the room: the zygote's other pages stay as they are. */
struct base_room {
    struct base_head head;
    struct image_run runs[IMAGE_RUNS_MAX];
    struct image_map maps[IMAGE_MAPS_MAX];
    char names[IMAGE_NAMES_MAX];
    size_t names_len, n_maps;
    struct maps reader;
    uint64_t entries[4096];
};

_Static_assert(sizeof(struct base_room) < IMAGE_ROOM_BYTES, "the room is too small");

static int add_run(struct base_room *room, const struct image_map *m, uint64_t at, struct err *err)
{
    struct base_head *h = &room->head;
    struct image_run *last = h->n_runs ? &room->runs[h->n_runs - 1] : NULL;
    h->n_pages++;
    if (last && last->from >= m->from && last->from + last->pages * IMAGE_PAGE == at) {
        last->pages++;
        return 0;
    }
    if (h->n_runs == IMAGE_RUNS_MAX)
        return err_set(err, ERR_CONFLICT, "memory in too many pieces");
    room->runs[h->n_runs++] = (struct image_run){ at, 1 };
    return 0;
}

static int find_pages(struct base_room *room, int pagemap, const struct image_map *m,
                      struct err *err)
{
    int r = 0;
    for (uint64_t at = m->from; at < m->to && r == 0;) {
        size_t want = MIN_OF((m->to - at) / IMAGE_PAGE, ARRAY_SIZE(room->entries));
        if (pread(pagemap, room->entries, want * 8, (off_t)(at / IMAGE_PAGE * 8)) !=
            (ssize_t)(want * 8))
            return err_set(err, ERR_UNAVAILABLE, "/proc/self/pagemap cannot be read");
        for (size_t i = 0; i < want && r == 0; i++, at += IMAGE_PAGE) {
            uint64_t e = room->entries[i];
            if (!(e & (PM_PRESENT | PM_SWAP)) || (e & PM_FILE))
                continue;
            if (m->kind == IMAGE_FILE || !page_is_zero((const void *)at))
                r = add_run(room, m, at, err);
        }
    }
    return r;
}

static uint64_t hash_pages(const struct base *b)
{
    uint64_t check = 0;
    for (uint64_t i = 0; i < b->head->n_pages; i++)
        check = checksum(check, b->pages + i * IMAGE_PAGE, IMAGE_PAGE);
    return check;
}

static void seal_head(struct base_head *h, const struct image_run *runs)
{
    h->check = 0;
    h->check = checksum(checksum(0, h, sizeof(*h)), runs, h->n_runs * sizeof(runs[0]));
}

/* As they are in the file: Linux writes to some of them meanwhile (image_is_near). */
static int note_pages(struct base_room *room, int fd, struct err *err)
{
    struct base base;
    int r = base_map(fd, &base, err);
    if (r < 0)
        return r;
    room->head.pages_check = hash_pages(&base);
    base_unmap();
    seal_head(&room->head, room->runs);
    return pwrite(fd, &room->head, sizeof(room->head), 0) == (ssize_t)sizeof(room->head) ?
               0 :
               err_set(err, ERR_IO, "writing the base of images");
}

static int write_base(struct base_room *room, int fd, struct err *err)
{
    int r = layout_read(&room->reader, room->maps, IMAGE_MAPS_MAX, &room->n_maps, room->names,
                        sizeof(room->names), &room->names_len, NULL, err);
    int pagemap = r == 0 ? image_open_pagemap() : -1;
    if (r == 0 && pagemap < 0)
        r = err_set(err, ERR_UNAVAILABLE, "/proc/self/pagemap cannot be read");
    for (size_t i = 0; i < room->n_maps && r == 0; i++) {
        const struct image_map *m = &room->maps[i];
        if ((m->kind == IMAGE_ANON || m->kind == IMAGE_FILE) && !m->is_shared &&
            (m->prot & PROT_READ))
            r = find_pages(room, pagemap, m, err);
    }
    if (pagemap >= 0)
        close(pagemap);
    if (r < 0)
        return r;
    struct base_head *h = &room->head;
    size_t len = h->n_runs * sizeof(room->runs[0]),
           padding = image_pad(sizeof(*h) + len) - sizeof(*h) - len;
    h->magic = BASE_MAGIC;
    seal_head(h, room->runs);
    memset(room->entries, 0, sizeof(room->entries));
    r = image_write(fd, h, sizeof(*h), err);
    if (r == 0)
        r = image_write(fd, room->runs, len, err);
    if (r == 0)
        r = image_write(fd, room->entries, padding, err);
    for (size_t i = 0; i < h->n_runs && r == 0; i++)
        r = image_write(fd, (const void *)room->runs[i].from, room->runs[i].pages * IMAGE_PAGE,
                        err);
    return r < 0 ? r : note_pages(room, fd, err);
}

int image_write_base(int fd, struct err *err)
{
    void *room = mmap((void *)IMAGE_ROOM_AT, IMAGE_ROOM_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (room != (void *)IMAGE_ROOM_AT)
        return err_set(err, ERR_CONFLICT, "memory at the address that is reserved for images");
    int r = write_base(room, fd, err);
    munmap(room, IMAGE_ROOM_BYTES);
    return r < 0 ? r : image_save_zygote(fd, err);
}

/* ---- a zygote that was made from it ---- */

int image_become_base(int fd, struct err *err)
{
    struct base base;
    int r = base_map(fd, &base, err);
    if (r < 0)
        return r;
    off_t image = (off_t)((uint64_t)(base.pages - (const char *)base.head) +
                          base.head->n_pages * IMAGE_PAGE);
    if (hash_pages(&base) != base.head->pages_check || lseek(fd, image, SEEK_SET) != image)
        r = BAD("its pages are not what was written");
    base_unmap();
    struct image_source source = { .fd = fd, .base_fd = fd, .is_zygote = true };
    if (r < 0)
        return r;
    r = image_restore(&source, NULL, 0, err);
    close(source.fd);
    return r;
}

static void note_change(uint64_t at)
{
    struct image_run *last = changes.n ? &changes.runs[changes.n - 1] : NULL;
    if (last && last->from + last->pages * IMAGE_PAGE == at)
        last->pages++;
    else if (changes.n < IMAGE_CHANGES_MAX)
        changes.runs[changes.n++] = (struct image_run){ at, 1 };
    else
        changes.any = true;
}

/* image_write_base() came back in a process that was made from the base, which is still mapped. */
void image_note_changes(void)
{
    static struct maps reader;
    struct maps_entry e;
    struct base base = { 0 };
    struct base_cursor cursor = { 0 };
    struct err ignored = ERR_INIT;
    changes = (struct image_changes){ 0 };
    bool is_open = maps_open(&reader, "/proc") || maps_open(&reader, IMAGE_ZYGOTE_PROC);
    changes.any = !is_open || check_base((const struct base_head *)IMAGE_BASE_AT, IMAGE_BASE_BYTES,
                                         &base, &ignored) < 0;
    while (!changes.any && maps_next(&reader, &e)) {
        if (e.perms[0] != 'r' || e.perms[3] != 'p' || e.to > IMAGE_ADDRESS_MAX ||
            (e.from >= IMAGE_ROOM_AT && e.to <= IMAGE_BASE_AT + IMAGE_BASE_BYTES))
            continue;
        for (uint64_t at = e.from; at < e.to && !changes.any; at += IMAGE_PAGE) {
            const void *page = base_page(&base, &cursor, at);
            if (page && !pages_are_equal(page, (const void *)at))
                note_change(at);
            else if (!page)
                at = MAX_OF(at, MIN_OF(base_next(&base, &cursor), e.to) - IMAGE_PAGE);
        }
    }
    if (is_open)
        maps_close(&reader);
    base_unmap();
}

#else

int image_write_base(int fd, struct err *err)
{
    (void)fd;
    return err_set(err, ERR_UNAVAILABLE, "this build of riddle-kernel cannot write images");
}

int image_become_base(int fd, struct err *err)
{
    (void)fd;
    return err_set(err, ERR_UNAVAILABLE, "this build of riddle-kernel cannot read images");
}

void image_note_changes(void)
{
}

#endif
