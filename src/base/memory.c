/*
 * Limits of memory, read from /proc and from the control groups from our own up to the top of what
 * we see.
 */

#include "base/memory.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/buf.h"
#include "base/fdio.h"
#include "base/macros.h"
#include "base/str.h"

#define FILE_MAX_BYTES (256u << 10)
#define POINT_SIZE 512

/* ---- control groups ---- */

bool cgroup_own_path(const char *cgroup_file, const char *controller, char *ret, size_t n)
{
    char line[2048];
    for (const char *p = cgroup_file; *p;) {
        const char *end = strchrnul(p, '\n');
        snprintf(line, sizeof(line), "%.*s", (int)(end - p), p);
        p = *end ? end + 1 : end;
        char *names = strchr(line, ':');
        char *path = names ? strchr(names + 1, ':') : NULL;
        if (!path)
            continue;
        *names++ = 0;
        *path++ = 0;
        bool match = *controller ? str_has_word(names, controller) : *names == 0;
        if (match) {
            snprintf(ret, n, "%s", path);
            return true;
        }
    }
    return false;
}

/* fstype cgroup2, or cgroup with the controller among its options. */
bool cgroup_mount_point(const char *mountinfo, const char *controller, char *ret, size_t n)
{
    for (const char *p = mountinfo; *p;) {
        const char *end = strchrnul(p, '\n');
        char line[2048], point[POINT_SIZE], type[64], options[512];
        snprintf(line, sizeof(line), "%.*s", (int)(end - p), p);
        p = *end ? end + 1 : end;
        const char *dash = strstr(line, " - ");
        if (!dash || sscanf(line, "%*s %*s %*s %*s %511s", point) != 1 ||
            sscanf(dash, " - %63s %*s %511s", type, options) != 2)
            continue;
        bool match = *controller ? str_eq(type, "cgroup") && str_has_word(options, controller) :
                                   str_eq(type, "cgroup2");
        if (match) {
            snprintf(ret, n, "%s", point);
            return true;
        }
    }
    return false;
}

/* ---- figures ---- */

static bool read_text(const char *root, const char *path, struct buf *b)
{
    char full[2 * PATH_MAX];
    snprintf(full, sizeof(full), "%s%s", root, path);
    buf_clear(b);
    return fd_read_file(full, b, NULL) == 0;
}

/* The number of a file that holds nothing else; -1 for "max" and for what cannot be read. */
static int64_t read_number(const char *dir, const char *name)
{
    auto_buf struct buf b = BUF_INIT(4096);
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "/%s", name);
    uint64_t n;
    if (!read_text(dir, path, &b) || sscanf(buf_cstr(&b), "%" SCNu64, &n) != 1)
        return -1;
    return n > INT64_MAX ? INT64_MAX : (int64_t)n;
}

/* The number behind this word at the start of a line; 0 if there is none. */
static int64_t number_after(const char *text, const char *word)
{
    long long n = 0;
    for (const char *line = text; line && *line;
         line = (line = strchr(line, '\n')) ? line + 1 : NULL)
        if (str_starts(line, word))
            (void)sscanf(line + strlen(word), " %lld", &n);
    return n;
}

struct memory {
    int64_t limit, available; /* -1: unknown */
};

static int64_t smaller(int64_t a, int64_t b)
{
    return a < 0 || (b >= 0 && b < a) ? b : a;
}

/* One group. What it holds of files that nobody uses can be had. */
static void look_at_group(const char *dir, bool v2, struct memory *m)
{
    int64_t limit = read_number(dir, v2 ? "memory.max" : "memory.limit_in_bytes");
    int64_t used = limit < 0 ? -1 :
                               read_number(dir, v2 ? "memory.current" : "memory.usage_in_bytes");
    m->limit = smaller(m->limit, limit);
    if (used < 0)
        return;
    auto_buf struct buf stat = BUF_INIT(FILE_MAX_BYTES);
    if (read_text(dir, "/memory.stat", &stat))
        used -= number_after(buf_cstr(&stat), v2 ? "inactive_file " : "total_inactive_file ");
    m->available = smaller(m->available, MAX_OF(0, limit - MAX_OF(0, used)));
}

/* Our own group and those above it, as far as the mount shows them. */
static void look_at_groups(const char *root, const char *own, const char *mounts, bool v2,
                           struct memory *m)
{
    char point[POINT_SIZE], path[2048], dir[PATH_MAX];
    const char *controller = v2 ? "" : "memory";
    if (!cgroup_mount_point(mounts, controller, point, sizeof(point)) ||
        !cgroup_own_path(own, controller, path, sizeof(path)))
        return;
    snprintf(dir, sizeof(dir), "%s%s%s", root, point, str_eq(path, "/") ? "" : path);
    size_t top = strlen(root) + strlen(point);
    if (access(dir, F_OK) <
        0) /* in a container the path is the host's; the mount shows our own group */
        dir[top] = '\0';
    for (;;) {
        look_at_group(dir, v2, m);
        char *slash = strrchr(dir, '/');
        if (strlen(dir) <= top || !slash)
            return;
        *slash = '\0';
    }
}

static struct memory look(const char *root)
{
    struct memory m = { -1, -1 };
    auto_buf struct buf own = BUF_INIT(FILE_MAX_BYTES), mounts = BUF_INIT(8 * FILE_MAX_BYTES),
                        info = BUF_INIT(FILE_MAX_BYTES);
    if (read_text(root, "/proc/meminfo", &info)) {
        int64_t total = number_after(buf_cstr(&info), "MemTotal:"),
                available = number_after(buf_cstr(&info), "MemAvailable:");
        m.limit = total > 0 ? total * 1024 : -1;
        m.available = total > 0 ? available * 1024 : -1;
    }
    if (read_text(root, "/proc/self/cgroup", &own) &&
        read_text(root, "/proc/self/mountinfo", &mounts)) {
        look_at_groups(root, buf_cstr(&own), buf_cstr(&mounts), false, &m);
        look_at_groups(root, buf_cstr(&own), buf_cstr(&mounts), true, &m);
    }
    return m;
}

int64_t memory_limit_bytes(const char *root)
{
    return look(root).limit;
}

int64_t memory_available_bytes(const char *root)
{
    return look(root).available;
}
