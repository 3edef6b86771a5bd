/* The mappings of this process as an image has them. */

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include "base/str.h"
#include "kernel/image/image_impl.h"

static bool ends_in(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

static int classify(const struct maps_entry *e, struct image_map *ret, struct err *err)
{
    bool shared = e->perms[3] == 's';
    *ret = (struct image_map){ .from = e->from,
                               .to = e->to,
                               .offset = e->inode ? e->offset : 0,
                               .dev = e->device,
                               .ino = e->inode,
                               .prot = (uint32_t)((e->perms[0] == 'r' ? PROT_READ : 0) |
                                                  (e->perms[1] == 'w' ? PROT_WRITE : 0) |
                                                  (e->perms[2] == 'x' ? PROT_EXEC : 0)),
                               .is_shared = shared };
    if (str_eq(e->path, "[stack]"))
        ret->kind = IMAGE_STACK;
    else if (str_starts(e->path, "[v") || e->to > IMAGE_ADDRESS_MAX)
        ret->kind = IMAGE_SYSTEM;
    else if (e->inode == 0 || (!shared && image_is_mapped(e->device, e->inode)))
        ret->kind = IMAGE_ANON;
    else
        ret->kind = IMAGE_FILE;
    if (ret->kind == IMAGE_SYSTEM)
        ret->is_shared = 0;
    if (ret->kind == IMAGE_ANON)
        ret->offset = 0;
    if (ret->is_shared &&
        (ret->kind != IMAGE_FILE || e->path[0] != '/' || ends_in(e->path, " (deleted)")))
        return err_set(err, ERR_CONFLICT, "memory that is shared with other processes");
    return 0;
}

int image_open_pagemap(void)
{
    int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    return fd >= 0 ? fd : open(IMAGE_ZYGOTE_PROC "/self/pagemap", O_RDONLY | O_CLOEXEC);
}

int layout_read(struct maps *reader, struct image_map *maps, size_t max, size_t *ret_n, char *names,
                size_t names_max, size_t *names_len, struct image_mapped *ret_probe,
                struct err *err)
{
    struct maps_entry e;
    size_t n = 0;
    int r = 0;
    if (!maps_open(reader, "/proc") && !maps_open(reader, IMAGE_ZYGOTE_PROC))
        return err_set(err, ERR_UNAVAILABLE, "/proc/self/maps cannot be read");
    while (r == 0 && maps_next(reader, &e)) {
        if (ret_probe && e.from == IMAGE_PROBE_AT) {
            ret_probe->dev = e.device;
            ret_probe->ino = e.inode;
        }
        if (e.from >= IMAGE_ROOM_AT && e.to <= IMAGE_BASE_AT + IMAGE_BASE_BYTES)
            continue;
        struct image_map m;
        r = classify(&e, &m, err);
        if (m.kind == IMAGE_ANON && m.ino)
            e.path = "";
        size_t len = strlen(e.path) + 1;
        if (r == 0 && (n == max || *names_len + len > names_max))
            r = err_set(err, ERR_CONFLICT, "more than %zu mappings", max);
        if (r < 0)
            break;
        maps[n] = m;
        maps[n].name = (uint32_t)*names_len;
        memcpy(names + *names_len, e.path, len);
        *names_len += len;
        n++;
    }
    maps_close(reader);
    *ret_n = n;
    return r;
}
