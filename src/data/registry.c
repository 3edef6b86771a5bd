/*
 * Loading: the registry is read and checked, then the folders that it does not speak of are looked
 * through, then every file is resolved and hashed. A loaded registry does not change, but for
 * profiles; a reload makes a new one, and who still holds the old one keeps it alive.
 */

#include "data/registry.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/fdio.h"
#include "base/macros.h"
#include "base/str.h"
#include "data/registry_impl.h"
#include "data/scan.h"

#define MEMORY_MAX_BYTES (64 * 1024 * 1024)
#define MAX_ENTRIES 10000 /* of a directory that is looked through */
#define MAX_NOTES 100

/* ---- memory ---- */

void *registry_alloc(struct registry *r, size_t size, struct err *err)
{
    void *p = arena_alloc(&r->memory, size);

    if (!p)
        err_set(err, ERR_NO_MEMORY, "the registry is too large for memory");
    return p;
}

char *registry_strdup(struct registry *r, const char *s, struct err *err)
{
    char *p = arena_strdup(&r->memory, s);

    if (!p)
        err_set(err, ERR_NO_MEMORY, "the registry is too large for memory");
    return p;
}

static void release_dataset(struct dataset *d)
{
    for (size_t i = 0; i < d->n_files; i++) {
        json_decref(d->files[i].schema);
        json_decref(d->files[i].profile);
    }
    json_decref(d->prompts);
    json_decref(d->notes);
    json_decref(d->metrics);
    json_decref(d->tags);
}

struct registry *registry_ref(struct registry *r)
{
    r->refs++;
    return r;
}

void registry_unref(struct registry *r)
{
    if (!r || --r->refs > 0)
        return;
    for (size_t i = 0; i < r->n; i++)
        release_dataset(r->datasets[i]);
    free(r->datasets);
    json_decref(r->json);
    json_decref(r->notes);
    arena_finish(&r->memory);
    free(r->dir);
    free(r);
}

static void cleanup_registry(struct registry **r)
{
    registry_unref(*r);
}
#define auto_registry __attribute__((cleanup(cleanup_registry)))

/* Something was left out. Only the first hundred are kept: they are for a person to read. */
static void note(struct registry *r, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void note(struct registry *r, const char *fmt, ...)
{
    char text[1024];
    va_list ap;

    if (json_array_size(r->notes) >= MAX_NOTES)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    json_array_append_new(r->notes, json_text(text, strlen(text)));
}

/* ---- lookups ---- */

size_t registry_count(const struct registry *r)
{
    return r->n;
}

const struct dataset *registry_get(const struct registry *r, size_t i)
{
    assert(i < r->n);
    return r->datasets[i];
}

const struct dataset *registry_find(const struct registry *r, const char *id)
{
    for (size_t i = 0; i < r->n; i++) {
        if (str_eq(r->datasets[i]->id, id))
            return r->datasets[i];
    }
    return NULL;
}

const json_t *registry_notes(const struct registry *r)
{
    return r->notes;
}

/* ---- files ---- */

static int64_t nanoseconds(const struct timespec *t)
{
    return (int64_t)t->tv_sec * 1000000000 + t->tv_nsec;
}

/* The hash that an unchanged file had before; NULL if there is none. */
static const char *known_hash(const struct registry *previous, const struct dataset_file *f)
{
    for (size_t i = 0; previous && i < previous->n; i++) {
        const struct dataset *d = previous->datasets[i];

        for (size_t k = 0; k < d->n_files; k++) {
            const struct dataset_file *old = &d->files[k];

            if (old->inode == f->inode && old->device == f->device &&
                old->size_bytes == f->size_bytes && old->mtime_ns == f->mtime_ns &&
                old->ctime_ns == f->ctime_ns)
                return old->sha256;
        }
    }
    return NULL;
}

/* Where the file really is: within the directory, or it is refused. */
static int resolve_file(struct registry *r, struct dataset_file *f, struct err *err)
{
    char joined[PATH_MAX], real[PATH_MAX], shown[STR_SHOWN_SIZE];
    size_t n = strlen(r->dir);

    str_show(f->path, strlen(f->path), shown, sizeof(shown));
    if ((size_t)snprintf(joined, sizeof(joined), "%s/%s", r->dir, f->path) >= sizeof(joined))
        return err_set(err, ERR_VALIDATION, "path '%s' is too long", shown);
    if (!realpath(joined, real)) {
        if (errno == ENOENT || errno == ENOTDIR)
            return err_set(err, ERR_NOT_FOUND, "file '%s' is missing", shown);
        return err_errno(err, ERR_IO, errno, "cannot look at file '%s'", shown);
    }
    if (strncmp(real, r->dir, n) != 0 || (real[n] != '/' && !str_eq(r->dir, "/")))
        return err_set(err, ERR_VALIDATION, "path '%s' leads out of the registry's directory",
                       shown);
    f->full_path = registry_strdup(r, real, err);
    return f->full_path ? 0 : -ERR_NO_MEMORY;
}

static int inspect_file(struct registry *r, const struct registry *previous, struct dataset_file *f,
                        struct err *err)
{
    char shown[STR_SHOWN_SIZE];
    const char *hash;
    struct stat st;
    int n = resolve_file(r, f, err);

    if (n < 0)
        return n;
    str_show(f->path, strlen(f->path), shown, sizeof(shown));
    /* Not blocking: a pipe in place of a file must not hang the load. */
    auto_close int fd = open(f->full_path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_errno(err, ERR_IO, errno, "cannot open file '%s'", shown);
    if (!S_ISREG(st.st_mode))
        return err_set(err, ERR_VALIDATION, "'%s' is %s, not a file", shown,
                       S_ISDIR(st.st_mode) ? "a directory" : "a device or pipe");
    f->size_bytes = st.st_size;
    f->mtime_ns = nanoseconds(&st.st_mtim);
    f->ctime_ns = nanoseconds(&st.st_ctim);
    f->device = st.st_dev;
    f->inode = st.st_ino;
    hash = known_hash(previous, f);
    if (hash) {
        memcpy(f->sha256, hash, sizeof(f->sha256));
        return 0;
    }
    n = hash_fd(fd, NULL, NULL, f->sha256, err);
    return n < 0 ? err_wrap(err, "file '%s'", shown) : 0;
}

static int inspect_files(struct registry *r, const struct registry *previous, struct dataset *d,
                         struct err *err)
{
    auto_buf struct buf lines = BUF_INIT((REGISTRY_MAX_TEXT + HASH_HEX_SIZE + 2) *
                                         REGISTRY_MAX_FILES);
    char declared[HASH_VERSION_SIZE];
    int n = 0;

    for (size_t i = 0; n == 0 && i < d->n_files; i++) {
        n = inspect_file(r, previous, &d->files[i], err);
        if (n == 0)
            n = hash_add_line(&lines, d->files[i].sha256, d->files[i].name, err);
        d->size_bytes += d->files[i].size_bytes;
    }
    memcpy(declared, d->version_hash, sizeof(declared));
    if (n == 0)
        n = hash_version(&lines, d->version_hash, err);
    /* Rows were counted in the version that the registry declares, and only there. */
    for (size_t i = 0; n == 0 && i < d->n_files; i++) {
        if (!str_eq(declared, d->version_hash))
            d->files[i].row_count = -1;
    }
    return n;
}

/* ---- what is declared ---- */

int registry_read_json(const char *path, json_t **ret, struct err *err)
{
    static const char *const keys[] = { "version", "generated_at", "description", "datasets",
                                        NULL };
    auto_buf struct buf text = BUF_INIT(REGISTRY_MAX_BYTES);
    auto_json json_t *json = NULL;
    char shown[STR_SHOWN_SIZE];
    const char *version, *ignored;
    json_t *datasets = NULL;
    int r = fd_read_file(path, &text, err);

    if (r < 0)
        return r;
    r = json_parse(buf_cstr(&text), text.len, &json, err);
    if (r == 0)
        r = json_check_keys(json, keys, err);
    if (r == 0)
        r = json_get_str(json, "version", NULL, &version, err);
    if (r == 0 && !version)
        r = err_set(err, ERR_VALIDATION, "'version' is required");
    if (r == 0 && !str_eq(version, REGISTRY_VERSION))
        r = err_set(err, ERR_VALIDATION, "'version' must be \"" REGISTRY_VERSION "\", not \"%s\"",
                    str_show(version, strlen(version), shown, sizeof(shown)));
    if (r == 0)
        r = json_get_str(json, "generated_at", NULL, &ignored, err);
    if (r == 0)
        r = json_get_str(json, "description", NULL, &ignored, err);
    if (r == 0)
        r = json_get_array(json, "datasets", &datasets, err);
    if (r == 0 && !datasets)
        r = err_set(err, ERR_VALIDATION, "'datasets' is required");
    if (r == 0 && json_array_size(datasets) > REGISTRY_MAX_DATASETS)
        r = err_set(err, ERR_VALIDATION, "'datasets' has %zu members; the maximum is %d",
                    json_array_size(datasets), REGISTRY_MAX_DATASETS);
    if (r < 0)
        return err_wrap(err, "registry '%s'", path);
    *ret = TAKE_PTR(json);
    return 0;
}

static int read_declared(struct registry *r, const struct registry *previous, const char *path,
                         struct err *err)
{
    struct err missing = ERR_INIT;
    json_t *entry;
    size_t i;
    int n = registry_read_json(path, &r->json, &missing);

    if (n < 0 && missing.code == ERR_NOT_FOUND)
        return 0; /* only folders, then */
    if (n < 0)
        return err_set(err, missing.code, "%s", missing.message);
    json_array_foreach(json_object_get(r->json, "datasets"), i, entry) {
        struct dataset *d = NULL;

        n = registry_read_entry(r, entry, &d, err);
        if (n == 0 && registry_find(r, d->id))
            n = err_set(err, ERR_VALIDATION, "two datasets have the id '%s'", d->id);
        if (d)
            r->datasets[r->n++] = d;
        if (n == 0) {
            n = inspect_files(r, previous, d, err);
            if (n < 0)
                n = err_wrap(err, "dataset '%s'", d->id);
        }
        if (n < 0)
            return err_wrap(err, "registry '%s': entry %zu", path, i + 1);
    }
    return 0;
}

/* ---- what is found ---- */

struct names {
    char **list;
    size_t n;
};

static void cleanup_names(struct names *names)
{
    for (size_t i = 0; i < names->n; i++)
        free(names->list[i]);
    free(names->list);
}
#define auto_names __attribute__((cleanup(cleanup_names)))

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The visible names in a directory, sorted by their bytes. */
static int read_names(const char *path, struct names *ret, struct err *err)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    int r = 0;

    if (!dir)
        return err_errno(err, ERR_IO, errno, "cannot look through '%s'", path);
    ret->list = calloc(MAX_ENTRIES, sizeof(*ret->list));
    if (!ret->list)
        r = err_set(err, ERR_NO_MEMORY, "out of memory for the names in '%s'", path);
    while (r == 0 && (errno = 0, entry = readdir(dir))) {
        if (entry->d_name[0] == '.')
            continue;
        if (ret->n == MAX_ENTRIES) {
            r = err_set(err, ERR_TOO_LARGE, "'%s' has more than %d entries", path, MAX_ENTRIES);
        } else {
            ret->list[ret->n] = strdup(entry->d_name);
            if (!ret->list[ret->n++])
                r = err_set(err, ERR_NO_MEMORY, "out of memory for the names in '%s'", path);
        }
    }
    if (r == 0 && errno)
        r = err_errno(err, ERR_IO, errno, "cannot look through '%s'", path);
    closedir(dir);
    if (ret->n > 0)
        qsort(ret->list, ret->n, sizeof(*ret->list), compare_names);
    return r;
}

/* Does a declared file lie in this folder? */
static bool is_spoken_for(const struct registry *r, const char *folder)
{
    size_t len = strlen(folder);

    for (size_t i = 0; i < r->n; i++) {
        const struct dataset *d = r->datasets[i];

        for (size_t k = 0; d->is_declared && k < d->n_files; k++) {
            if (strncmp(d->files[k].path, folder, len) == 0 && d->files[k].path[len] == '/')
                return true;
        }
    }
    return false;
}

static bool has_suffix_ignoring_case(const char *s, const char *suffix)
{
    size_t n = strlen(s), m = strlen(suffix);

    return n > m && str_ieq(s + n - m, suffix);
}

/* Appends _2, _3, … to a name until nobody has it. */
static void make_unique(char *name, size_t size, bool (*taken)(const void *arg, const char *name),
                        const void *arg)
{
    size_t room = size - sizeof("_10000");
    size_t n = MIN_OF(strlen(name), room);

    for (int i = 2; taken(arg, name); i++)
        snprintf(name + n, size - n, "_%d", i);
}

static bool is_table_taken(const void *arg, const char *name)
{
    struct dataset_table found;
    return dataset_find_table(arg, name, &found);
}

static bool is_id_taken(const void *arg, const char *name)
{
    return registry_find(arg, name) != NULL;
}

static int add_found_file(struct registry *r, struct dataset *d, const char *folder,
                          const char *name, struct err *err)
{
    struct dataset_file *f = &d->files[d->n_files];
    char table[DATASET_TABLE_MAX + 1], stem[NAME_MAX + 1];

    str_stem(name, stem, sizeof(stem));
    dataset_safe_name(stem, "data", true, table, sizeof(table));
    make_unique(table, sizeof(table), is_table_taken, d);
    f->row_count = -1;
    f->description = "";
    f->name = registry_strdup(r, name, err);
    f->table = registry_strdup(r, table, err);
    f->path = arena_printf(&r->memory, "%s/%s", folder, name);
    if (!f->name || !f->table || !f->path)
        return err_set(err, ERR_NO_MEMORY, "the registry is too large for memory");
    d->n_files++;
    return 0;
}

/* A dataset from the CSV files of a folder; *ret is NULL when it has none. */
static int make_found(struct registry *r, const char *folder, const struct names *names,
                      struct dataset **ret, struct err *err)
{
    char id[DATASET_ID_MAX + 1];
    struct dataset *d;
    size_t csv_files = 0;
    int n = 0;

    for (size_t i = 0; i < names->n; i++)
        csv_files += has_suffix_ignoring_case(names->list[i], ".csv");
    if (csv_files == 0)
        return 0;
    if (csv_files > REGISTRY_MAX_FILES)
        return err_set(err, ERR_TOO_LARGE, "it has %zu CSV files; the maximum is %d", csv_files,
                       REGISTRY_MAX_FILES);
    dataset_safe_name(folder, "dataset", false, id, sizeof(id));
    make_unique(id, sizeof(id), is_id_taken, r);
    d = registry_alloc(r, sizeof(*d), err);
    if (!d)
        return -ERR_NO_MEMORY;
    d->description = d->domain = "";
    d->id = registry_strdup(r, id, err);
    d->name = registry_strdup(r, folder, err);
    d->files = registry_alloc(r, csv_files * sizeof(*d->files), err);
    if (!d->id || !d->name || !d->files)
        return -ERR_NO_MEMORY;
    for (size_t i = 0; n == 0 && i < names->n; i++) {
        if (has_suffix_ignoring_case(names->list[i], ".csv"))
            n = add_found_file(r, d, folder, names->list[i], err);
    }
    if (n < 0)
        return n;
    d->prompts = json_array();
    d->tags = json_array();
    *ret = d;
    return 0;
}

static int add_found(struct registry *r, const struct registry *previous, const char *folder,
                     struct err *err)
{
    auto_names struct names names = { 0 };
    char path[PATH_MAX];
    struct dataset *d = NULL;
    struct stat st;
    int n;

    /*
     * A folder may be a link to elsewhere; its files are then refused one by one, with the reason.
     */
    if ((size_t)snprintf(path, sizeof(path), "%s/%s", r->dir, folder) >= sizeof(path) ||
        stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
        return 0;
    if (r->n == REGISTRY_MAX_DATASETS)
        return err_set(err, ERR_TOO_LARGE, "there are more than %d datasets",
                       REGISTRY_MAX_DATASETS);
    n = read_names(path, &names, err);
    if (n == 0)
        n = make_found(r, folder, &names, &d, err);
    if (n < 0 || !d)
        return n;
    n = inspect_files(r, previous, d, err);
    if (n < 0) {
        release_dataset(d);
        return n;
    }
    r->datasets[r->n++] = d;
    return 0;
}

static int look_for_folders(struct registry *r, const struct registry *previous, struct err *err)
{
    auto_names struct names folders = { 0 };
    int n = read_names(r->dir, &folders, err);

    for (size_t i = 0; n == 0 && i < folders.n; i++) {
        struct err problem = ERR_INIT;
        char shown[STR_SHOWN_SIZE];

        if (is_spoken_for(r, folders.list[i]))
            continue;
        n = add_found(r, previous, folders.list[i], &problem);
        if (n == -ERR_NO_MEMORY)
            return err_set(err, ERR_NO_MEMORY, "%s", problem.message);
        /* A folder that somebody is still copying into must not take the others away. */
        if (n < 0)
            note(r, "folder '%s' is left out: %s",
                 str_show(folders.list[i], strlen(folders.list[i]), shown, sizeof(shown)),
                 problem.message);
        n = 0;
    }
    return n;
}

/* ---- loading ---- */

int registry_load(const char *dir, const struct registry *previous, struct registry **ret,
                  struct err *err)
{
    auto_registry struct registry *r = calloc(1, sizeof(*r));
    auto_buf struct buf path = BUF_INIT(PATH_BYTES_MAX);
    int n;

    if (!r)
        return err_set(err, ERR_NO_MEMORY, "out of memory for the registry");
    r->refs = 1;
    arena_init(&r->memory, MEMORY_MAX_BYTES);
    r->notes = json_array();
    r->datasets = calloc(REGISTRY_MAX_DATASETS, sizeof(*r->datasets));
    if (!r->notes || !r->datasets)
        return err_set(err, ERR_NO_MEMORY, "out of memory for the registry");
    r->dir = realpath(dir, NULL);
    if (!r->dir && (errno == ENOENT || errno == ENOTDIR))
        return err_set(err, ERR_NOT_FOUND,
                       "there is no directory '%s'; 'riddle datasets generate' makes it", dir);
    if (!r->dir)
        return err_errno(err, ERR_IO, errno, "cannot look at '%s'", dir);
    n = buf_printf(&path, err, "%s/" REGISTRY_FILE, dir);
    if (n == 0)
        n = read_declared(r, previous, buf_cstr(&path), err);
    if (n == 0)
        n = look_for_folders(r, previous, err);
    if (n < 0)
        return n;
    *ret = TAKE_PTR(r);
    return 0;
}

/* ---- profiles ---- */

static size_t attach(struct registry *r, const char *sha256, json_t *profile)
{
    size_t attached = 0;

    for (size_t i = 0; i < r->n; i++) {
        for (size_t k = 0; k < r->datasets[i]->n_files; k++) {
            struct dataset_file *f = &r->datasets[i]->files[k];

            if (!str_eq(f->sha256, sha256))
                continue;
            json_decref(f->profile);
            f->profile = json_incref(profile);
            f->row_count = json_integer_value(json_object_get(profile, "row_count"));
            attached++;
        }
    }
    return attached;
}

int registry_set_profile(struct registry *r, const char *sha256, json_t *profile, struct err *err)
{
    int n = table_profile_check(profile, err);

    if (n < 0)
        return n;
    if (attach(r, sha256, profile) == 0)
        return err_set(err, ERR_NOT_FOUND, "no file has the contents %.64s", sha256);
    return 0;
}

void registry_adopt_profiles(struct registry *r, const struct registry *previous)
{
    for (size_t i = 0; previous && i < previous->n; i++) {
        for (size_t k = 0; k < previous->datasets[i]->n_files; k++) {
            const struct dataset_file *f = &previous->datasets[i]->files[k];

            if (f->profile)
                attach(r, f->sha256, f->profile);
        }
    }
}
