#ifndef RIDDLE_BASE_TEXT_NAME_H
#define RIDDLE_BASE_TEXT_NAME_H

/* Names of files that hold text of any kind: a table, a log, a letter. */

#include <stdbool.h>
#include <string.h>
#include <strings.h>
#include "base/macros.h"

/* An ending that promises no table: such a file is one only if columns are found in it. */
static inline bool is_text_name(const char *name)
{
    static const char *const endings[] = { ".txt", ".text", ".dat", ".data",
                                           ".log", ".out",  ".asc", ".prn" };
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < ARRAY_SIZE(endings); i++)
        if (strcasecmp(dot, endings[i]) == 0)
            return true;
    return false;
}

#endif
