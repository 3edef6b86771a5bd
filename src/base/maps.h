#ifndef RIDDLE_BASE_MAPS_H
#define RIDDLE_BASE_MAPS_H

/*
 * What is mapped in this process, by rising addresses, from /proc/self/maps. Nothing is allocated:
 * readers arrange the very heap that they see. The caller says where the text is kept, because that
 * is memory that is written to, too.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct maps {
    int fd;
    bool in_cut_line;
    size_t len, used;
    /*
     * a path of any length that open(2) takes, unless it has many newlines: those are four
     * characters here
     */
    char text[8192];
};

struct maps_entry {
    uintptr_t from, to;
    char perms[5]; /* "rw-p" */
    uint64_t offset;
    dev_t device;
    uint64_t inode; /* 0: of no file */
    /*
     * or "[heap]", or ""; ends in " (deleted)" if it is; cut if it is too long; until the next call
     */
    const char *path;
};

/*
 * From the file system at `proc`, usually "/proc". False if that cannot be read: then there are no
 * entries.
 */
bool maps_open(struct maps *m, const char *proc);
/* The same of another process, by its number. */
bool maps_open_of(struct maps *m, const char *proc, const char *process);
/* False behind the last one. Lines that make no sense are passed over. */
bool maps_next(struct maps *m, struct maps_entry *ret);
void maps_close(struct maps *m);

#endif
