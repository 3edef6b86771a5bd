/*
 * Files of a chat. Hashing blocks, before there is a loop to hold up; the rest is the executor's
 * and happens in the loop.
 */

#include "cli/chat_tables.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "base/macros.h"
#include "cli/ask_data.h"

#define DATASET "data"

void chat_tables_init(struct chat_tables *t, struct progress *progress)
{
    *t = (struct chat_tables){ .progress = progress };
    arena_init(&t->arena, 4u << 20);
}

void chat_tables_stop(struct chat_tables *t)
{
    catalog_read_stop(TAKE_PTR(t->reading));
    records_destroy(TAKE_PTR(t->records));
}

void chat_tables_finish(struct chat_tables *t)
{
    chat_tables_stop(t);
    catalog_unref(TAKE_PTR(t->catalog));
    arena_finish(&t->arena);
}

/* ---- names and contents ---- */

static void on_hashed(void *arg, int64_t bytes)
{
    struct chat_tables *t = arg;
    progress_bar(t->progress, "hash", (double)bytes / (double)t->hashed_bytes);
}

/* A file that cannot be read is left without a hash: the executor says what is wrong with it. */
static void hash_file(struct chat_tables *t, struct sandbox_file *f)
{
    char hex[HASH_HEX_SIZE];
    struct stat st;
    auto_close int fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size == 0)
        return;
    t->hashed_bytes = st.st_size;
    if (hash_fd(fd, on_hashed, t, hex, NULL) == 0)
        f->sha256 = arena_strdup(&t->arena, hex);
}

int chat_tables_name(struct chat_tables *t, char **words, size_t n, struct err *err)
{
    auto_buf struct buf key = BUF_INIT(1u << 20);
    char hash[HASH_HEX_SIZE];
    int r = ask_data_name_files(&t->arena, (const char *const *)words, n, t->files, err);
    for (t->n_files = 0; r >= 0 && t->n_files < n; t->n_files++) {
        struct sandbox_file *f = &t->files[t->n_files];
        hash_file(t, f);
        r = buf_printf(&key, err, "%s=%s ", f->table, f->sha256 ? f->sha256 : f->path);
    }
    progress_clear(t->progress);
    if (r >= 0)
        r = hash_bytes(buf_cstr(&key), key.len, hash, err);
    if (r < 0)
        return r;
    const char *name = arena_strdup(&t->arena, hash);
    t->data = (struct data_view){ .dataset_id = DATASET,
                                  .key = name,
                                  .catalog_key = name,
                                  .version_hash = arena_printf(&t->arena, "sha256:%s", hash),
                                  .files = t->files,
                                  .n_files = t->n_files };
    return name && t->data.version_hash ? 0 : err_set(err, ERR_NO_MEMORY, "out of memory");
}

/* ---- loading ---- */

static void on_read(struct catalog *catalog, const struct err *err, void *arg)
{
    struct chat_tables *t = arg;
    t->reading = NULL;
    t->catalog = catalog ? catalog_ref(catalog) : NULL;
    progress_clear(t->progress);
    t->done(t->arg, err);
}

static void on_progress(void *arg, const char *stage, double fraction)
{
    struct chat_tables *t = arg;
    progress_bar(t->progress, stage, fraction);
}

int chat_tables_load(struct chat_tables *t, struct executor *ex,
                     void (*done)(void *arg, const struct err *err), void *arg, struct err *err)
{
    struct catalog_source source = { .records = t->records,
                                     .owner = CHAT_OWNER,
                                     .dataset_id = DATASET,
                                     .files = t->files,
                                     .n_files = t->n_files };
    t->done = done;
    t->arg = arg;
    return catalog_read(ex, &source, on_progress, on_read, t, &t->reading, err);
}
