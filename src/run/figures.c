/*
 * Files of figures: RIDDLE_HOME/figures/RUN_ID/N.PART. The loop decides what becomes a file and
 * numbers it; a worker decodes, writes and renames, so that a file with its final name is whole.
 */

#include "run/figures.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/base64.h"
#include "base/fdio.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/str.h"
#include "sandbox/room.h"

#define SLOW_INLINE_MAX 4096 /* of a part, for a client that is slow to read */
#define SWEPT_MAX 100000     /* directories that one sweep looks at */

struct figure_store {
    struct loop *loop;
    char dir[PATH_MAX - 128];
    struct figures *in_flight;
    int refs; /* one of whoever opened it, one of each run and each piece of work */
};

struct waiting {
    struct waiting *next;
    void (*done)(void *arg);
    void *arg;
};

struct figures {
    struct figure_store *store;
    struct figures *next, **prev;
    char *owner;
    char run_id[ID_UUID_SIZE];
    json_t *list;
    size_t inline_bytes;
    int writing;
    bool ended, keep;
    struct waiting *waiting;
};

const char *const figure_part_names[_FIGURE_PART_MAX + 1] = { "png", "svg", "html", "json", NULL };

const char *figure_content_type(enum figure_part part)
{
    static const char *const types[_FIGURE_PART_MAX] = { "image/png", "image/svg+xml",
                                                         "text/html; charset=utf-8",
                                                         "application/json" };
    return types[part];
}

static void store_unref(struct figure_store *s)
{
    if (--s->refs == 0)
        free(s);
}

int figure_store_open(struct loop *loop, const char *home, struct figure_store **ret,
                      struct err *err)
{
    struct figure_store *s = calloc(1, sizeof(*s));
    int r = s ? 0 : err_set(err, ERR_NO_MEMORY, "out of memory");
    if (r == 0 && snprintf(s->dir, sizeof(s->dir), "%s/figures", home) >= (int)sizeof(s->dir))
        r = err_set(err, ERR_CONFIG, "RIDDLE_HOME is too long");
    if (r == 0)
        r = fd_mkdir_p(s->dir, 0700, err);
    if (r < 0) {
        free(s);
        return r;
    }
    s->loop = loop;
    s->refs = 1;
    *ret = s;
    return 0;
}

void figure_store_close(struct figure_store *s)
{
    if (s)
        store_unref(s);
}

/* An id that this server made: nothing else becomes a path. */
static bool is_run_id(const char *id)
{
    return strlen(id) == ID_UUID_SIZE - 1 && strspn(id, "0123456789abcdef-") == ID_UUID_SIZE - 1;
}

/* ---- removal ---- */

struct removal {
    struct figure_store *store;
    char path[PATH_MAX];
};

static void remove_work(void *arg)
{
    struct removal *rm = arg;
    (void)fd_remove_tree(rm->path, NULL);
}

static void removed(void *arg)
{
    struct removal *rm = arg;
    store_unref(rm->store);
    free(rm);
}

void figure_store_remove(struct figure_store *s, const char *run_id)
{
    struct err ignored = ERR_INIT;
    struct removal *rm = is_run_id(run_id) ? malloc(sizeof(*rm)) : NULL;
    if (!rm)
        return;
    rm->store = s;
    snprintf(rm->path, sizeof(rm->path), "%s/%.36s", s->dir, run_id);
    s->refs++;
    if (loop_work(s->loop, remove_work, removed, rm, &ignored) < 0)
        removed(rm); /* the next sweep finds it */
}

/* ---- the sweep: the directory, then one question to the store after the other ---- */

struct sweep {
    struct figure_store *figures;
    struct store *store;
    char (*ids)[ID_UUID_SIZE];
    size_t n, cap, at;
};

static void sweep_work(void *arg)
{
    struct sweep *w = arg;
    DIR *d = opendir(w->figures->dir);
    struct dirent *e;
    while (d && (e = readdir(d)) && w->n < SWEPT_MAX) {
        if (!is_run_id(e->d_name))
            continue;
        if (w->n == w->cap) {
            void *more = realloc(w->ids, (2 * w->cap + 64) * sizeof(*w->ids));
            if (!more)
                break;
            w->ids = more;
            w->cap = 2 * w->cap + 64;
        }
        memcpy(w->ids[w->n++], e->d_name, ID_UUID_SIZE);
    }
    if (d)
        closedir(d);
}

static void swept_one(const struct err *err, const struct store_page *page, void *arg);

static void sweep_next(void *arg)
{
    struct sweep *w = arg;
    struct err ignored = ERR_INIT;
    if (w->at < w->n && store_get(w->store, RECORD_CAPSULE, store_any_owner, w->ids[w->at],
                                  swept_one, w, &ignored) == 0)
        return;
    store_unref(w->figures);
    free(w->ids);
    free(w);
}

static void swept_one(const struct err *err, const struct store_page *page, void *arg)
{
    struct sweep *w = arg;
    bool busy = false, unwanted = err && err->code == ERR_NOT_FOUND;
    char address[64];
    if (!err) { /* figures that its capsule refers to no more were dropped for the quota */
        const char *result = page->capsules[0].result_json;
        snprintf(address, sizeof(address), "/runs/%s/figures/", w->ids[w->at]);
        unwanted = !result || !strstr(result, address);
    }
    for (const struct figures *f = w->figures->in_flight; f; f = f->next)
        busy = busy || str_eq(f->run_id, w->ids[w->at]);
    if (unwanted && !busy)
        figure_store_remove(w->figures, w->ids[w->at]);
    w->at = err && err->code != ERR_NOT_FOUND ? w->n : w->at + 1; /* the store is closing, or ill */
    sweep_next(w);
}

void figure_store_sweep(struct figure_store *s, struct store *store)
{
    struct err ignored = ERR_INIT;
    struct sweep *w = calloc(1, sizeof(*w));
    if (!w)
        return;
    *w = (struct sweep){ .figures = s, .store = store };
    s->refs++;
    if (loop_work(s->loop, sweep_work, sweep_next, w, &ignored) < 0)
        sweep_next(w);
}

/* ---- a run under way ---- */

struct figures *figures_begin(struct figure_store *s, const char *owner, const char *run_id)
{
    struct figures *f = calloc(1, sizeof(*f));
    if (!f)
        return NULL;
    f->list = json_array();
    f->owner = strdup(owner);
    snprintf(f->run_id, sizeof(f->run_id), "%s", run_id);
    if (!f->list || !f->owner) {
        json_decref(f->list);
        free(f->owner);
        free(f);
        return NULL;
    }
    f->store = s;
    if (s) {
        s->refs++;
        f->next = s->in_flight;
        f->prev = &s->in_flight;
        if (f->next)
            f->next->prev = &f->next;
        s->in_flight = f;
    }
    return f;
}

static void wake(struct figures *f)
{
    while (f->waiting && f->writing == 0) {
        struct waiting *w = f->waiting;
        f->waiting = w->next;
        w->done(w->arg);
        free(w);
    }
}

/* Frees a run that is over and whose files are written. */
static void settle(struct figures *f)
{
    if (!f->ended || f->writing > 0)
        return;
    if (f->store) {
        *f->prev = f->next;
        if (f->next)
            f->next->prev = f->prev;
        if (!f->keep)
            figure_store_remove(f->store, f->run_id);
        store_unref(f->store);
    }
    json_decref(f->list);
    free(f->owner);
    free(f);
}

void figures_end(struct figures *f, bool keep)
{
    if (!f)
        return;
    f->ended = true;
    f->keep = keep;
    settle(f);
}

json_t *figures_list(const struct figures *f)
{
    return f->list;
}

static bool is_image(const json_t *display)
{
    return json_object_get(display, "png") || json_object_get(display, "png_url") ||
           json_object_get(display, "svg") || json_object_get(display, "svg_url");
}

json_t *figures_images(const struct figures *f)
{
    json_t *images = json_array(), *display;
    size_t i;
    json_array_foreach(f ? f->list : NULL, i, display) {
        if (is_image(display))
            json_array_append(images, display);
    }
    return images;
}

json_t *figures_result(const struct figures *f, json_t *result)
{
    json_t *copy = f ? json_copy(result) : json_incref(result);
    json_t *outputs = f ? json_array() : NULL, *display;
    json_int_t images = 0;
    size_t i;
    json_array_foreach(f ? f->list : NULL, i, display) {
        if (is_image(display))
            json_array_append_new(outputs,
                                  json_pack("{s:O*, s:I}", "text", json_object_get(display, "text"),
                                            "image", images++));
        else
            json_array_append(outputs, display);
    }
    if (f)
        json_object_set_new(copy, "outputs", outputs);
    return copy;
}

/* ---- writing ---- */

struct writing {
    struct figures *figures;
    json_t *value;    /* a reference: keeps `text` */
    const char *text; /* what to write, */
    size_t len;
    char *own; /* … unless it had to be printed */
    bool is_base64;
    struct room_place room; /* kernels send no more figures than are written */
    char path[PATH_MAX];
    struct err err;
};

static int write_file(const char *path, const void *data, size_t len, struct err *err)
{
    char dir[PATH_MAX], tmp[PATH_MAX + 8];
    snprintf(dir, sizeof(dir), "%s", path);
    *strrchr(dir, '/') = '\0';
    if (mkdir(dir, 0700) < 0 && errno != EEXIST)
        return err_errno(err, ERR_IO, errno, "making '%s'", dir);
    snprintf(tmp, sizeof(tmp), "%s.tmp", path);
    auto_close int fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_errno(err, ERR_IO, errno, "creating '%s'", tmp);
    int r = fd_write_all(fd, data, len, err);
    if (r == 0 && rename(tmp, path) < 0)
        r = err_errno(err, ERR_IO, errno, "renaming '%s'", tmp);
    if (r < 0)
        (void)unlink(tmp);
    return r;
}

static void write_work(void *arg)
{
    struct writing *w = arg;
    auto_buf struct buf bytes = BUF_INIT(2 * DISPLAY_PART_MAX);
    int r = w->is_base64 ? base64_decode(w->text, w->len, &bytes, &w->err) : 0;
    if (r == 0)
        (void)(w->is_base64 ?
                   write_file(w->path, bytes.data ? bytes.data : "", bytes.len, &w->err) :
                   write_file(w->path, w->text, w->len, &w->err));
}

static void written(void *arg)
{
    struct writing *w = arg;
    struct figures *f = w->figures;
    if (w->err.code != ERR_NONE)
        log_error("figure.write", LOG_STR("run", f->run_id), LOG_STR("error", w->err.message));
    room_leave(&w->room);
    json_decref(w->value);
    free(w->own);
    free(w);
    f->writing--;
    wake(f);
    settle(f);
}

/* False if it could not even be begun. */
static bool begin_writing(struct figures *f, size_t n, enum figure_part part, json_t *value,
                          char *printed, size_t len)
{
    struct err ignored = ERR_INIT;
    struct writing *w = calloc(1, sizeof(*w));
    if (!w) {
        free(printed);
        return false;
    }
    w->figures = f;
    w->own = printed;
    w->value = json_incref(value);
    w->text = printed ? printed : json_string_value(value);
    w->len = len;
    w->is_base64 = part == FIGURE_PNG;
    snprintf(w->path, sizeof(w->path), "%s/%s/%zu.%s", f->store->dir, f->run_id, n,
             figure_part_names[part]);
    f->writing++;
    room_hold(&w->room, room_owner(f->owner), len);
    if (loop_work(f->store->loop, write_work, written, w, &ignored) == 0)
        return true;
    room_leave(&w->room);
    f->writing--;
    json_decref(w->value);
    free(w->own);
    free(w);
    return false;
}

static json_int_t decoded_bytes(const char *text, size_t len)
{
    size_t pad = len > 0 && text[len - 1] == '=' ? 1 + (len > 1 && text[len - 2] == '=') : 0;
    return (json_int_t)(len / 4 * 3 - MIN_OF(pad, len / 4 * 3));
}

static void take_part(struct figures *f, size_t n, enum figure_part part, json_t *value,
                      size_t limit, json_t *out)
{
    const char *name = figure_part_names[part];
    char key[16];
    char *printed = json_is_string(value) ? NULL : json_to_str(value);
    size_t len = printed ? strlen(printed) : json_string_length(value);
    if (!f->store || (len <= limit && f->inline_bytes + len <= DISPLAYS_INLINE_MAX)) {
        f->inline_bytes += len;
        json_object_set(out, name, value);
        free(printed);
        return;
    }
    json_int_t bytes = part == FIGURE_PNG ? decoded_bytes(json_string_value(value), len) :
                                            (json_int_t)len;
    if (!begin_writing(f, n, part, value, printed, len))
        return;
    snprintf(key, sizeof(key), "%s_url", name);
    json_object_set_new(
        out, key,
        json_sprintf(part == FIGURE_PNG ? "/runs/%s/figures/%zu" : "/runs/%s/figures/%zu?part=%s",
                     f->run_id, n, name));
    snprintf(key, sizeof(key), "%s_bytes", name);
    json_object_set_new(out, key, json_integer(bytes));
}

/* JSON of many values comes as text: it is a file, or a value again where there are no files. */
static void take_json_text(struct figures *f, size_t n, json_t *text, json_t *out)
{
    if (f->store) {
        take_part(f, n, FIGURE_JSON, text, 0, out);
        return;
    }
    json_t *value = NULL;
    if (json_parse(json_string_value(text), json_string_length(text), &value, NULL) == 0)
        json_object_set_new(out, figure_part_names[FIGURE_JSON], value);
}

json_t *figures_take(struct figures *f, const json_t *display, bool slow)
{
    size_t n = json_array_size(f->list) + 1, limit = slow ? SLOW_INLINE_MAX : DISPLAY_INLINE_MAX;
    json_t *out = n > DISPLAYS_MAX ? NULL : json_object();
    if (!out || json_array_append_new(f->list, out) < 0)
        return NULL;
    for (int part = 0; part < _FIGURE_PART_MAX; part++) {
        json_t *value = json_object_get(display, figure_part_names[part]);
        if (value && (part == FIGURE_JSON || json_is_string(value)))
            take_part(f, n, (enum figure_part)part, value, limit, out);
    }
    json_t *text = json_object_get(display, "json_text");
    if (text)
        take_json_text(f, n, text, out);
    static const char *const others[] = { "text", "data", "chart" };
    for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
        json_t *value = json_object_get(display, others[i]);
        auto_free char *printed = value && !json_is_string(value) ? json_to_str(value) : NULL;
        size_t len = printed ? strlen(printed) : json_string_length(value);
        if (!value ||
            (f->store && (len > DISPLAY_INLINE_MAX || f->inline_bytes + len > DISPLAYS_INLINE_MAX)))
            continue; /* the runtime sends no such text: a kernel that speaks for itself does */
        f->inline_bytes += len;
        json_object_set(out, others[i], value);
    }
    return out;
}

/* ---- for clients ---- */

bool figures_in_flight(const struct figure_store *s, const char *owner, const char *run_id)
{
    for (const struct figures *f = s->in_flight; f; f = f->next)
        if (str_eq(f->run_id, run_id))
            return str_eq(f->owner, owner);
    return false;
}

void figures_wait(struct figure_store *s, const char *run_id, void (*done)(void *arg), void *arg)
{
    struct figures *f = s->in_flight;
    while (f && !str_eq(f->run_id, run_id))
        f = f->next;
    struct waiting *w = f && f->writing > 0 ? malloc(sizeof(*w)) : NULL;
    if (!w) {
        done(arg);
        return;
    }
    *w = (struct waiting){ .next = f->waiting, .done = done, .arg = arg };
    f->waiting = w;
}

int figures_open(struct figure_store *s, const char *run_id, int n, int part, int *ret_fd,
                 int64_t *ret_size, enum figure_part *ret_part, struct err *err)
{
    char path[PATH_MAX];
    struct stat st;
    for (int p = 0; is_run_id(run_id) && p < _FIGURE_PART_MAX; p++) {
        if (part >= 0 && p != part)
            continue;
        snprintf(path, sizeof(path), "%s/%.36s/%d.%s", s->dir, run_id, n, figure_part_names[p]);
        int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
            continue;
        if (fstat(fd, &st) < 0) {
            close(fd);
            continue;
        }
        *ret_fd = fd;
        *ret_size = st.st_size;
        *ret_part = (enum figure_part)p;
        return 0;
    }
    return err_set(err, ERR_NOT_FOUND, "Figure not found");
}

int figures_from_result(const json_t *result, int n, int part, struct buf *b,
                        enum figure_part *ret_part, struct err *err)
{
    const json_t *display = json_array_get(json_object_get(result, "outputs"), (size_t)n - 1);
    for (int p = 0; p < _FIGURE_PART_MAX; p++) {
        json_t *value = part >= 0 && p != part ? NULL :
                                                 json_object_get(display, figure_part_names[p]);
        if (!value)
            continue;
        *ret_part = (enum figure_part)p;
        if (p == FIGURE_PNG)
            return base64_decode(json_string_value(value) ? json_string_value(value) : "",
                                 json_string_length(value), b, err);
        return json_is_string(value) ?
                   buf_append(b, json_string_value(value), json_string_length(value), err) :
                   json_write(value, b, err);
    }
    return err_set(err, ERR_NOT_FOUND, "%s",
                   json_is_true(json_object_get(display, "dropped")) ?
                       "The figure was dropped, because your runs take more than "
                       "RUN_QUOTA_BYTES; the rest of the run is kept" :
                       "Figure not found");
}
