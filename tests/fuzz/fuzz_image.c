/*
 * Fuzzes what is read of images: the tables, which a kernel checks before anything follows from
 * them, also as they come out of the pipe of a live fork; the records of files in front of them; and
 * the head that riddle itself reads. Each is refused with a reason, or holds to what its reader relies on.
 *
 * Input: a byte that says which, then the bytes. The checksum of tables is made right.
 */

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/macros.h"
#include "kernel/image/image_impl.h"
#include "sandbox/image_file.h"
#include "scratch.h"

#define INPUT_MAX (1u << 16)
#define PIPE_BYTES (1 << 17)
#define KEY "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void check_refusal(int r, const struct err *err)
{
    must(r == 0 || (r < 0 && err->code != ERR_NONE && err->message[0]));
}

/* ---- tables ---- */

/* Of the mapping that has all of these bytes; NULL: there is none. */
static const struct image_map *map_of(const struct image_tables *t, uint64_t from, uint64_t to)
{
    for (size_t i = 0; i < t->head->n_maps; i++)
        if (t->maps[i].from <= from && to <= t->maps[i].to)
            return &t->maps[i];
    return NULL;
}

static uint64_t check_runs(const struct image_tables *t, const struct image_run *runs, size_t n,
                           bool anonymous)
{
    uint64_t pages = 0;
    for (size_t i = 0; i < n; i++) {
        must(runs[i].pages > 0 && runs[i].from % IMAGE_PAGE == 0);
        must(i == 0 || runs[i - 1].from + runs[i - 1].pages * IMAGE_PAGE <= runs[i].from);
        const struct image_map *m = map_of(t, runs[i].from,
                                           runs[i].from + runs[i].pages * IMAGE_PAGE);
        must(m && !m->is_shared && m->kind != IMAGE_SYSTEM);
        must(!anonymous || m->kind == IMAGE_ANON);
        pages += runs[i].pages;
    }
    return pages;
}

static void check_name(const struct image_tables *t, uint32_t at)
{
    must(at < t->head->names_bytes && memchr(t->names + at, 0, t->head->names_bytes - at));
}

static void check_tables(const struct image_tables *t)
{
    const struct image_head *h = t->head;
    for (size_t i = 0; i < h->n_maps; i++) {
        const struct image_map *m = &t->maps[i];
        must(m->from < m->to && (i == 0 || t->maps[i - 1].to <= m->from));
        must(m->to <= IMAGE_ROOM_AT || m->from >= IMAGE_BASE_AT + IMAGE_BASE_BYTES);
        must(m->kind == IMAGE_SYSTEM || m->to <= IMAGE_ADDRESS_MAX);
        check_name(t, m->name);
    }
    uint64_t pages = check_runs(t, t->runs, h->n_runs, false) +
                     check_runs(t, t->longs, h->n_longs, true);
    must(pages == h->n_pages);
    (void)check_runs(t, t->drops, h->n_drops, false);
    for (size_t i = 0; i < h->n_patches; i++) {
        const struct image_map *m = map_of(t, t->patches[i].at, t->patches[i].at + 8);
        must(m && m->kind != IMAGE_SYSTEM && !m->is_shared && t->patches[i].at % 8 == 0);
    }
    for (size_t i = 0; i < h->n_fds; i++) {
        must(t->fds[i].fd > 3);
        check_name(t, t->fds[i].name);
    }
    check_name(t, h->cwd);
}

static void make_right(char *bytes, size_t size)
{
    struct image_head *h = (struct image_head *)(void *)bytes;
    if (size < sizeof(*h))
        return;
    h->magic = IMAGE_MAGIC;
    h->check = 0;
    if (image_sizes_are_good(h) && image_tables_bytes(h) <= size)
        h->check = checksum(0, bytes, image_tables_bytes(h));
}

static void try_tables(const uint8_t *data, size_t size)
{
    /* Exactly as large, so that AddressSanitizer sees a read past the end. */
    auto_free char *bytes = malloc(size + 1);
    struct image_tables t;
    struct err err = ERR_INIT;
    if (!bytes)
        return;
    memcpy(bytes, data, size);
    make_right(bytes, size);
    int r = image_check(bytes, size, &t, &err);
    check_refusal(r, &err);
    if (r == 0)
        check_tables(&t);
}

/* ---- the pipe of a live fork ---- */

/* Two bytes: how far into a page the files end, and whether the magic is left as it is. */
static void try_stream(const uint8_t *data, size_t size)
{
    int ends[2];
    if (size < 2)
        return;
    uint64_t at = (data[0] | (data[1] & 15u) << 8) * 8u % IMAGE_PAGE, end = 0;
    bool is_kept = data[1] & 16;
    size_t padding = (size_t)(image_pad(at) - at), len = padding + size - 2;
    auto_free char *sent = calloc(1, len + 1);
    auto_free char *bytes = malloc(size); /* less than head and tables may ask for */
    struct image_tables t;
    struct err err = ERR_INIT;
    must(sent && bytes && pipe2(ends, O_CLOEXEC) == 0);
    memcpy(sent + padding, data + 2, size - 2);
    if (!is_kept)
        make_right(sent + padding, size - 2);
    must(fcntl(ends[1], F_SETPIPE_SZ, PIPE_BYTES) >= (int)len);
    must(write(ends[1], sent, len) == (ssize_t)len);
    close(ends[1]);
    int r = image_read_tables(ends[0], true, at, bytes, size, &t, &end, &err);
    check_refusal(r, &err);
    if (r == 0) {
        check_tables(&t);
        must(end % IMAGE_PAGE == 0 && end - at <= len);
        /* What is left are the pages. */
        size_t left = len - (size_t)(end - at);
        must(read(ends[0], sent, len) == (ssize_t)left);
    }
    close(ends[0]);
}

/* ---- files ---- */

static int file_of(const uint8_t *data, size_t size)
{
    int fd = memfd_create("image", MFD_CLOEXEC);
    must(fd >= 0 && write(fd, data, size) == (ssize_t)size && lseek(fd, 0, SEEK_SET) == 0);
    return fd;
}

static void try_records(const uint8_t *data, size_t size)
{
    auto_close int fd = file_of(data, size);
    struct err err = ERR_INIT;
    uint64_t at = 0;
    check_refusal(archive_skip(fd, &at, &err), &err);
    err = (struct err)ERR_INIT;
    (void)image_is_portable(image_magic(fd));
    check_refusal(image_find_companion(fd, 0, &err), &err);
}

static void try_head(const uint8_t *data, size_t size)
{
    static const char *const keys[] = { "", KEY };
    auto_close int fd = file_of(data, size);
    char path[128], base_id[IMAGE_BASE_ID_SIZE];
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        struct err err = ERR_INIT;
        struct seal seal;
        must(lseek(fd, 0, SEEK_SET) == 0);
        int r = image_file_unlock(fd, keys[i], base_id, &seal, &err);
        check_refusal(r, &err);
        if (r < 0)
            continue;
        must(strspn(base_id, "0123456789abcdef") == strlen(base_id));
        must(strlen(base_id) < sizeof(base_id) && lseek(fd, 0, SEEK_CUR) == IMAGE_FILE_HEAD_BYTES);
        seal_end(&seal);
    }
    struct image_notes notes;
    (void)make_scratch();
    scratch_write("image", data, size);
    snprintf(path, sizeof(path), "%s/image", scratch);
    image_file_noted(path, &notes);
    must(memchr(notes.not_kept, 0, sizeof(notes.not_kept)) &&
         memchr(notes.not_elsewhere, 0, sizeof(notes.not_elsewhere)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const tries[])(const uint8_t *, size_t) = { try_tables, try_records, try_head,
                                                              try_stream };
    if (size > 0 && size <= INPUT_MAX)
        tries[data[0] % ARRAY_SIZE(tries)](data + 1, size - 1);
    return 0;
}
