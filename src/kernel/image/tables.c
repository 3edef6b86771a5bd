/* Reading head and tables of an image: of a file, or of a pipe, which cannot be read twice. */

#include <string.h>
#include <unistd.h>
#include "kernel/image/image_impl.h"

#define BAD(...) err_set(err, ERR_VALIDATION, "the image is damaged: " __VA_ARGS__)

/* Goes on at the next page, `at` bytes from the begin. */
static int skip_padding(int fd, bool is_stream, uint64_t at, struct err *err)
{
    char padding[IMAGE_PAGE];
    if (is_stream)
        return image_read(fd, padding, (size_t)(image_pad(at) - at), err);
    return lseek(fd, (off_t)image_pad(at), SEEK_SET) >= 0 ? 0 : BAD("it is cut off");
}

int image_read_tables(int fd, bool is_stream, uint64_t at, void *bytes, size_t max,
                      struct image_tables *ret, uint64_t *ret_end, struct err *err)
{
    uint64_t from = image_pad(at);
    struct image_head head;
    struct image_tables t;
    int r = skip_padding(fd, is_stream, at, err);
    if (r == 0)
        r = image_read(fd, &head.magic, sizeof(head.magic), err);
    if (r == 0 && is_stream && head.magic == COMPANION_MAGIC)
        return err_set(err, ERR_NOT_FOUND, "there is no image");
    if (r == 0)
        r = image_read(fd, (char *)&head + sizeof(head.magic), sizeof(head) - sizeof(head.magic),
                       err);
    if (r < 0)
        return r;
    if (head.magic != IMAGE_MAGIC || !image_sizes_are_good(&head))
        return BAD("it has no head");
    size_t len = image_tables_bytes(&head);
    if (len > max)
        return BAD("its tables are too large");
    memcpy(bytes, &head, sizeof(head));
    r = image_read(fd, (char *)bytes + sizeof(head), len - sizeof(head), err);
    if (r == 0)
        r = image_check(bytes, len, &t, err);
    if (r == 0)
        r = skip_padding(fd, is_stream, from + len, err);
    if (r < 0)
        return r;
    *ret = t;
    *ret_end = image_pad(from + len);
    return 0;
}
