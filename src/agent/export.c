/*
 * Threads that go to a file and come from one: what the server itself has to say of them, the image
 * of their variables, and messages that another server kept.
 */

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "agent/agent_impl.h"
#include "base/hash.h"
#include "base/str.h"
#include "sandbox/image_file.h"

static const char busy[] = "this thread is busy; try again when its answer is there, or stop it";

/*
 * What an image was made with: names and contents of the files that its kernel sees, the same for
 * every owner and on every server.
 */
static void data_version(const struct chat *c, char ret[HASH_HEX_SIZE])
{
    auto_buf struct buf b = BUF_INIT(1u << 20);
    struct err err = ERR_INIT;
    struct stat st;
    int r = 0;
    for (size_t i = 0; c->has_data && i < c->data.n_files && r == 0; i++) {
        const struct sandbox_file *f = &c->data.files[i];
        if (f->sha256)
            r = buf_printf(&b, &err, "%s=%s:%s%s\n", f->name, f->table ? f->table : "", f->sha256,
                           f->options ? f->options : "");
        else
            r = buf_printf(&b, &err, "%s=%lld\n", f->name,
                           stat(f->path, &st) == 0 ? (long long)st.st_size : -1);
    }
    if (r < 0 || hash_bytes(buf_cstr(&b), b.len, ret, &err) < 0)
        ret[0] = '\0';
}

/* ---- out ---- */

struct exporting {
    struct chat *chat; /* a reference */
    chat_checkpoint_fn done;
    void *arg;
};

static void on_image(bool has_image, const char *refusal, const struct err *err, void *arg)
{
    struct exporting *x = arg;
    const struct chat *c = x->chat;
    char path[IMAGE_PATH_SIZE], version[HASH_HEX_SIZE];
    struct err ignored = ERR_INIT;
    struct stat st = { 0 };
    auto_json json_t *answer = NULL;
    if (has_image &&
        (keeper_image_file(c, "", path, &ignored) < 0 || stat(path, &st) < 0 || st.st_size == 0))
        refusal = "its image is gone";
    data_version(c, version);
    if (!err)
        answer = json_pack("{s:s, s:O?, s:O?, s:s, s:I, s:s*, s:s*}", "thread_id", c->id,
                           "datasets", c->datasets, "file_ids", c->uploads, "data", version,
                           "image_bytes", (json_int_t)st.st_size, "not_kept", refusal,
                           "not_elsewhere",
                           has_image ? thread_kernel_not_elsewhere(c->kernel) : NULL);
    x->done(answer, err, x->arg);
    chat_unref(x->chat);
    free(x);
}

int chat_export(struct chat *c, chat_checkpoint_fn done, void *arg, struct err *err)
{
    struct exporting *x = calloc(1, sizeof(*x));
    if (!x)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    *x = (struct exporting){ .chat = chat_ref(c), .done = done, .arg = arg };
    int r = chat_take_image(c, on_image, x, err);
    if (r < 0) {
        chat_unref(c);
        free(x);
    }
    return r;
}

int chat_open_image(const struct chat *c, int *ret_fd, int64_t *ret_bytes, struct err *err)
{
    char path[IMAGE_PATH_SIZE];
    struct stat st;
    if (thread_kernel_state(c->kernel) != KERNEL_COLD)
        return err_set(err, ERR_CONFLICT, "this thread has no image now: export it first");
    int r = keeper_image_file(c, "", path, err);
    if (r < 0)
        return r;
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_errno(err, ERR_IO, errno, "opening the image");
    *ret_bytes = st.st_size;
    *ret_fd = TAKE_FD(fd);
    return 0;
}

/* ---- in ---- */

int agent_begin_image(struct agent *a, int64_t bytes, char ret[AGENT_PATH_SIZE], struct err *err)
{
    char id[17];
    if (a->env.cfg->images_bytes == 0)
        return err_set(err, ERR_UNAVAILABLE, "this server keeps no images (RIDDLE_IMAGES_SIZE)");
    int r = keeper_check_room(a, bytes, err);
    if (r < 0)
        return r;
    id_hex(id, 16);
    snprintf(ret, AGENT_PATH_SIZE, "%s/images/import-%s.partial", a->env.cfg->home, id);
    int fd = open(ret, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    return fd >= 0 ? fd : err_errno(err, ERR_IO, errno, "making the image");
}

/*
 * Only its head is read here: the rest is for a kernel in its jail, which takes the portable form
 * behind the image if that is of another server.
 */
static int check_head(const struct chat *c, const char *file, struct err *err)
{
    char id[IMAGE_BASE_ID_SIZE];
    struct seal seal;
    auto_close int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return err_errno(err, ERR_IO, errno, "opening the image");
    int r = image_file_unlock(fd, c->agent->env.cfg->image_key, id, &seal, err);
    if (r < 0)
        return r;
    seal_end(&seal);
    return 0;
}

int chat_import_image(struct chat *c, const char *file, const char *data, struct err *err)
{
    char version[HASH_HEX_SIZE];
    if (c->turns || thread_kernel_is_busy(c->kernel))
        return err_set(err, ERR_CONFLICT, "%s", busy);
    struct chat_sandbox now;
    chat_sandbox(c, &now);
    if (now.has_variables)
        return err_set(err, ERR_CONFLICT, "this thread has variables of its own");
    data_version(c, version);
    if (!version[0] || !str_eq(version, data))
        return err_set(err, ERR_CONFLICT, "its variables were made with other data than it has");
    int r = check_head(c, file, err);
    if (r == 0)
        r = keeper_link_file(file, c, err);
    if (r < 0)
        return r;
    thread_kernel_drop(c->kernel, NULL);
    (void)thread_kernel_take_loss(c->kernel);
    r = keeper_take_link(c, err);
    if (r == 0)
        keeper_trim_images(c);
    return r;
}

struct importing {
    struct chat *chat; /* a reference */
    json_t *messages;
    void (*done)(const struct err *err, void *arg);
    void *arg;
};

static void importing_free(struct importing *i)
{
    json_decref(i->messages);
    chat_unref(i->chat);
    free(i);
}

static const char *text_of(const json_t *message, const char *key)
{
    return json_string_value(json_object_get(message, key));
}

static void on_stored(const struct err *err, int64_t value, void *arg)
{
    struct importing *i = arg;
    size_t k;
    json_t *m;
    (void)value;
    if (!err) {
        json_array_foreach(i->messages, k, m)
            chat_remember(i->chat, text_of(m, "role"), text_of(m, "content"), NULL);
        i->chat->message_count += (int64_t)json_array_size(i->messages);
    }
    i->done(err, i->arg);
    importing_free(i);
}

int chat_import_messages(struct chat *c, const json_t *messages,
                         void (*done)(const struct err *err, void *arg), void *arg, struct err *err)
{
    struct message records[CHAT_IMPORT_MAX];
    struct store_put puts[CHAT_IMPORT_MAX];
    char now[CLOCK_ISO_SIZE];
    size_t n = json_array_size(messages);
    assert(n > 0 && n <= CHAT_IMPORT_MAX);
    if (c->turns || thread_kernel_is_busy(c->kernel))
        return err_set(err, ERR_CONFLICT, "%s", busy);
    if (!c->agent->env.store)
        return err_set(err, ERR_UNAVAILABLE, "nothing is stored here");
    if (store_has_room(c->agent->env.store, c->owner, err) < 0)
        return -(int)err->code;
    struct importing *i = calloc(1, sizeof(*i));
    if (!i)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    *i = (struct importing){
        .chat = chat_ref(c), .messages = json_deep_copy(messages), .done = done, .arg = arg
    };
    clock_iso8601(clock_wall_ms(), now);
    for (size_t k = 0; k < n; k++) {
        const json_t *m = json_array_get(messages, k);
        records[k] = (struct message){ .owner = c->owner,
                                       .thread_id = c->id,
                                       .created_at = now,
                                       .role = text_of(m, "role"),
                                       .content = text_of(m, "content") };
        puts[k] = (struct store_put){ .type = RECORD_MESSAGE, .record = &records[k] };
    }
    int r = store_put_batch(c->agent->env.store, puts, n, on_stored, i, err);
    if (r < 0)
        importing_free(i);
    return r;
}
