/*
 * Homes of earlier versions: the files of a thread were listed in an index.json beside them, whose
 * time of change was when the thread was used last. Each gets a record, then the list goes. A list
 * that cannot be read is left as it is, with its files.
 */

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/fdio.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/str.h"
#include "data/threads.h"
#include "sandbox/workspace_path.h"

#define INDEX_MAX_BYTES (1u << 20)

static const char *text_of(const json_t *entry, const char *key)
{
    const char *text = json_string_value(json_object_get(entry, key));
    return text ? text : "";
}

static bool is_good(const json_t *entry)
{
    const char *id = text_of(entry, "id"), *name = text_of(entry, "name"),
               *table = text_of(entry, "table");
    return strlen(id) == FILE_ID_DIGITS && !strpbrk(id, "./") && *name && *name != '.' &&
           (!strchr(name, '/') ||
            (file_is_output(name) && workspace_path_ok(name, strlen(name)))) &&
           strlen(text_of(entry, "sha256")) == HASH_HEX_SIZE - 1 &&
           (!*table || str_is_identifier(table));
}

static int adopt_file(struct file_sets *all, const char *owner, const char *thread_id,
                      const json_t *entry, int64_t used_ms, struct err *err)
{
    char created[CLOCK_ISO_SIZE], used[CLOCK_ISO_SIZE];
    const char *note = text_of(entry, "note");
    clock_iso8601(json_integer_value(json_object_get(entry, "modified")), created);
    clock_iso8601(used_ms, used);
    struct upload u = { .file_id = text_of(entry, "id"),
                        .owner = owner,
                        .filename = text_of(entry, "name"),
                        .size_bytes = json_integer_value(json_object_get(entry, "size")),
                        .sha256 = text_of(entry, "sha256"),
                        .rows = -1,
                        .status = file_status_name(FILE_READY),
                        .error = *note ? note : NULL,
                        .created_at = created,
                        .thread_id = thread_id,
                        .table_name = text_of(entry, "table"),
                        .used_at = used };
    return store_put_wait(all->room->env.store, RECORD_UPLOAD, &u, STORE_PUT, NULL, err);
}

static int adopt_thread(struct file_sets *all, const char *owner, const char *id, const char *dir,
                        struct err *err)
{
    char path[PATH_MAX + 16];
    auto_buf struct buf text = BUF_INIT(INDEX_MAX_BYTES);
    auto_json json_t *index = NULL;
    struct err why = ERR_INIT;
    struct stat st;
    size_t i;
    json_t *entry;
    int r = 0;
    snprintf(path, sizeof(path), "%s/index.json", dir);
    if (thread_id_check(id, &why) < 0 || stat(path, &st) < 0)
        return 0;
    if (fd_read_file(path, &text, &why) < 0 ||
        json_parse(buf_cstr(&text), text.len, &index, &why) < 0) {
        log_warn("thread.adopt", LOG_STR("index", path), LOG_STR("error", why.message));
        return 0;
    }
    int64_t used_ms = (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;
    json_array_foreach(json_object_get(index, "files"), i, entry) {
        if (r == 0 && is_good(entry))
            r = adopt_file(all, owner, id, entry, used_ms, err);
    }
    if (r < 0)
        return file_put_off(all, "index.json", owner, err);
    (void)unlink(path);
    return 0;
}

int data_threads_adopt(struct file_sets *all, struct err *err)
{
    char owner_dir[PATH_MAX], dir[PATH_MAX];
    DIR *owners = opendir(all->threads_root), *threads;
    int r = 0;
    for (struct dirent *o; r == 0 && owners && (o = readdir(owners));) {
        const char *owner = o->d_name + (o->d_name[0] == '%');
        if (o->d_name[0] == '.' || strlen(owner) >= 64)
            continue;
        snprintf(owner_dir, sizeof(owner_dir), "%.3700s/%s", all->threads_root, o->d_name);
        threads = opendir(owner_dir);
        for (struct dirent *t; r == 0 && threads && (t = readdir(threads));) {
            if (t->d_name[0] == '.' ||
                (size_t)snprintf(dir, sizeof(dir), "%s/%s", owner_dir, t->d_name) >= sizeof(dir))
                continue;
            r = adopt_thread(all, owner, t->d_name + (t->d_name[0] == '%'), dir, err);
        }
        if (threads)
            closedir(threads);
    }
    if (owners)
        closedir(owners);
    return r;
}
