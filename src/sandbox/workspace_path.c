/* Names and paths below /workspace, as both sides of the wire take them. */

#include "sandbox/workspace_path.h"

#include <string.h>
#include "base/str.h"

bool workspace_name_ok(const char *name, size_t len)
{
    if (len == 0 || len > WORKSPACE_NAME_MAX ||
        (name[0] == '.' && (len == 1 || (len == 2 && name[1] == '.'))))
        return false;
    /* Names end up in headers and on terminals. */
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f || name[i] == '/')
            return false;
    return str_is_utf8(name, len);
}

bool workspace_path_ok(const char *path, size_t len)
{
    size_t depth = 0;
    if (len == 0 || len > WORKSPACE_PATH_MAX)
        return false;
    for (const char *at = path, *end = path + len; at <= end; depth++) {
        const char *slash = memchr(at, '/', (size_t)(end - at));
        const char *stop = slash ? slash : end;
        if (!workspace_name_ok(at, (size_t)(stop - at)))
            return false;
        at = stop + 1;
    }
    return depth <= WORKSPACE_DEPTH_MAX;
}

int workspace_path(const char *path, char ret[WORKSPACE_PATH_MAX + 1], struct err *err)
{
    char shown[STR_SHOWN_SIZE];
    const char *at = path;
    if (str_starts(at, "/workspace/"))
        at += strlen("/workspace/");
    while (str_starts(at, "./"))
        at += 2;
    size_t len = strlen(at);
    if (!workspace_path_ok(at, len))
        return err_set(
            err, ERR_VALIDATION,
            "'%s' is no path of a file in /workspace: give names of at most %d bytes with '/' between them, at most %d "
            "of them and %d bytes in all, without '..'",
            str_show(path, strlen(path), shown, sizeof(shown)), WORKSPACE_NAME_MAX,
            WORKSPACE_DEPTH_MAX, WORKSPACE_PATH_MAX);
    memcpy(ret, at, len + 1);
    return 0;
}
