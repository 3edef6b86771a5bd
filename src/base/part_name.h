#ifndef RIDDLE_BASE_PART_NAME_H
#define RIDDLE_BASE_PART_NAME_H

/*
 * Names of tables of a file that has several: the first is called after the file, the others
 * `<that>_<part>`, after their sheet or whatever they are. What they are comes out of a jail: a
 * part's name is checked here.
 */

#include <stdio.h>
#include <string.h>

#define PART_TABLE_SIZE 64
#define PART_NAME_MAX 31

/* "" when the part has no name that can be one. */
static inline void part_table_name(const char *table, const char *part, char ret[PART_TABLE_SIZE])
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    size_t n = part ? strspn(part, allowed) : 0;
    ret[0] = '\0';
    if (n > 0 && n <= PART_NAME_MAX && !part[n])
        snprintf(ret, PART_TABLE_SIZE, "%.*s_%s", (int)(PART_TABLE_SIZE - 2 - n), table, part);
}

#endif
