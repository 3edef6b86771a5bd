/*
 * Checks of the tables of an image, before anything follows from them. Nothing here allocates or
 * touches the machine.
 */

#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include "kernel/image/image_impl.h"

#define BAD(...) err_set(err, ERR_VALIDATION, "the image is damaged: " __VA_ARGS__)

void image_system(char ret[120])
{
    struct utsname u;
    memset(ret, 0, 120);
    if (uname(&u) < 0)
        memset(&u, 0, sizeof(u));
    snprintf(ret, 120, "%.24s %.40s %.12s %lx %lx", u.release, u.version, u.machine,
             getauxval(AT_HWCAP), getauxval(AT_HWCAP2));
}

static int check_map(const struct image_map *m, uint64_t above, uint64_t names_bytes,
                     struct err *err)
{
    if (m->from < above || m->to <= m->from || (m->from | m->to | m->offset) % IMAGE_PAGE)
        return BAD("a mapping is out of order");
    if (m->kind >= _IMAGE_KIND_MAX || m->is_shared > 1 ||
        m->prot & ~(uint32_t)(PROT_READ | PROT_WRITE | PROT_EXEC))
        return BAD("a mapping of an unknown kind");
    if (m->kind != IMAGE_SYSTEM && m->to > IMAGE_ADDRESS_MAX)
        return BAD("a mapping beyond the address space");
    if (m->from < IMAGE_BASE_AT + IMAGE_BASE_BYTES && m->to > IMAGE_ROOM_AT)
        return BAD("a mapping where the reader is");
    if (m->name >= names_bytes || (m->is_shared && m->kind != IMAGE_FILE))
        return BAD("a mapping without its file");
    return 0;
}

static int check_runs(const struct image_tables *t, const struct image_run *runs, size_t n,
                      bool anonymous, uint64_t *ret_pages, struct err *err)
{
    const struct image_head *h = t->head;
    uint64_t above = 0;
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        const struct image_run *r = &runs[i];
        if (r->from < above || r->from % IMAGE_PAGE || r->pages == 0 ||
            r->pages > IMAGE_ADDRESS_MAX / IMAGE_PAGE)
            return BAD("pages are out of order");
        while (at < h->n_maps && t->maps[at].to <= r->from)
            at++;
        uint64_t end = r->from + r->pages * IMAGE_PAGE;
        if (at == h->n_maps || r->from < t->maps[at].from || end > t->maps[at].to ||
            t->maps[at].kind == IMAGE_SYSTEM || t->maps[at].is_shared ||
            (anonymous && t->maps[at].kind != IMAGE_ANON))
            return BAD("pages of no mapping");
        above = end;
        *ret_pages += r->pages;
    }
    return 0;
}

static int check_patches(const struct image_tables *t, struct err *err)
{
    uint64_t above = 0;
    size_t at = 0;
    for (size_t i = 0; i < t->head->n_patches; i++) {
        const struct image_patch *p = &t->patches[i];
        while (at < t->head->n_maps && t->maps[at].to <= p->at)
            at++;
        if (p->at < above || p->at % sizeof(p->value) || at == t->head->n_maps ||
            p->at < t->maps[at].from || t->maps[at].is_shared ||
            (t->maps[at].kind != IMAGE_ANON && t->maps[at].kind != IMAGE_FILE))
            return BAD("words of no mapping");
        above = p->at + sizeof(p->value);
    }
    return 0;
}

int image_check(void *bytes, size_t len, struct image_tables *ret, struct err *err)
{
    struct image_head *h = bytes;
    if (len < sizeof(*h) || h->magic != IMAGE_MAGIC)
        return BAD("it has no head");
    if (!image_sizes_are_good(h) || h->names_bytes == 0)
        return BAD("its tables are too large");
    if (len < image_tables_bytes(h))
        return BAD("it is cut off");
    uint64_t check = h->check;
    h->check = 0;
    if (checksum(0, bytes, image_tables_bytes(h)) != check)
        return BAD("its checksum is wrong");
    h->check = check;
    char *at = (char *)bytes + sizeof(*h);
    struct image_tables t = { .head = h, .maps = (struct image_map *)(void *)at };
    t.runs = (struct image_run *)(t.maps + h->n_maps);
    t.longs = t.runs + h->n_runs;
    t.drops = t.longs + h->n_longs;
    t.patches = (struct image_patch *)(t.drops + h->n_drops);
    t.fds = (struct image_fd *)(t.patches + h->n_patches);
    t.names = (char *)(t.fds + h->n_fds);
    if (t.names[h->names_bytes - 1] != 0 || h->cwd >= h->names_bytes)
        return BAD("its names have no end");
    uint64_t above = IMAGE_PAGE, pages = 0, dropped = 0;
    int r = 0;
    for (size_t i = 0; i < h->n_maps && r == 0; i++) {
        r = check_map(&t.maps[i], above, h->names_bytes, err);
        above = t.maps[i].to;
    }
    if (r == 0)
        r = check_runs(&t, t.runs, h->n_runs, false, &pages, err);
    if (r == 0)
        r = check_runs(&t, t.longs, h->n_longs, true, &pages, err);
    if (r == 0 && pages != h->n_pages)
        r = BAD("the number of pages is wrong");
    if (r == 0)
        r = check_runs(&t, t.drops, h->n_drops, false, &dropped, err);
    if (r == 0)
        r = check_patches(&t, err);
    for (size_t i = 0; i < h->n_fds && r == 0; i++)
        if (t.fds[i].fd < 4 || t.fds[i].fd > 1 << 20 || t.fds[i].name >= h->names_bytes)
            r = BAD("an open file that cannot be");
    if (r == 0)
        *ret = t;
    return r;
}
