/*
 * Lines of one fixed buffer. Linux gives whole lines, a page at a time; nothing here relies on it.
 * Fields are read strictly: what follows from an entry is madvise() and mprotect().
 */

#include "base/maps.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include "base/macros.h"

bool maps_open(struct maps *m, const char *proc)
{
    return maps_open_of(m, proc, "self");
}

bool maps_open_of(struct maps *m, const char *proc, const char *process)
{
    char path[64];
    snprintf(path, sizeof(path), "%s/%s/maps", proc, process);
    m->fd = open(path, O_RDONLY | O_CLOEXEC);
    m->in_cut_line = false;
    m->len = m->used = 0;
    return m->fd >= 0;
}

void maps_close(struct maps *m)
{
    if (m->fd >= 0)
        close(m->fd);
    m->fd = -1;
}

/* ---- lines ---- */

static bool read_more(struct maps *m)
{
    m->len -= m->used;
    memmove(m->text, m->text + m->used, m->len);
    m->used = 0;
    ssize_t got;
    do
        got = read(m->fd, m->text + m->len, sizeof(m->text) - 1 - m->len);
    while (got < 0 && errno == EINTR);
    m->len += got > 0 ? (size_t)got : 0;
    return got > 0;
}

/* NULL behind the last one. Of one that is longer than the buffer, its beginning. */
static char *next_line(struct maps *m)
{
    for (;;) {
        char *line = m->text + m->used, *end = memchr(line, '\n', m->len - m->used);
        if (!end && (m->used > 0 || m->len < sizeof(m->text) - 1)) {
            if (!read_more(m))
                return NULL; /* what has no end may be anything */
            continue;
        }
        bool is_rest = m->in_cut_line;
        m->in_cut_line = !end;
        if (!end)
            end = m->text + m->len;
        *end = '\0';
        m->used = MIN_OF((size_t)(end - m->text) + 1, m->len);
        if (!is_rest)
            return line;
    }
}

/* ---- what is in one ---- */

static bool take_number(const char **at, int base, char delimiter, uint64_t *ret)
{
    char *end;
    if (!isxdigit((unsigned char)**at)) /* no sign, no space */
        return false;
    errno = 0;
    *ret = strtoull(*at, &end, base);
    if (errno != 0 || *end != delimiter)
        return false;
    *at = end + 1;
    return true;
}

static bool take_perms(const char **at, char ret[5])
{
    if (strspn(*at, "rwxps-") != 4 || (*at)[4] != ' ')
        return false;
    snprintf(ret, 5, "%.4s", *at);
    *at += 5;
    return true;
}

/* 00400000-00452000 r-xp 00001000 08:02 173521      /usr/bin/x */
static bool parse(const char *at, struct maps_entry *ret)
{
    uint64_t from, to, major, minor;
    if (!take_number(&at, 16, '-', &from) || !take_number(&at, 16, ' ', &to) ||
        !take_perms(&at, ret->perms) || !take_number(&at, 16, ' ', &ret->offset) ||
        !take_number(&at, 16, ':', &major) || !take_number(&at, 16, ' ', &minor) ||
        !take_number(&at, 10, ' ', &ret->inode) || from >= to)
        return false;
    ret->from = from;
    ret->to = to;
    ret->device = makedev(major, minor);
    ret->path = at + strspn(at, " ");
    return true;
}

bool maps_next(struct maps *m, struct maps_entry *ret)
{
    const char *line;
    while ((line = next_line(m)))
        if (parse(line, ret))
            return true;
    return false;
}
