/*
 * The columns behind a table's file (sql/stored_frame.h) as arrays.
 *
 * The file was written by another kernel, so nothing in it is believed: every number is checked
 * against the bytes that are there before it is used. Columns that are damaged, or that are not
 * there, are no error: the caller reads the table by SQL.
 */

#include "kernel/python/dataframe.h"
#include "kernel/python/dataframe_impl.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/macros.h"
#include "kernel/checksum.h"
#include "kernel/sql/stored_frame.h"

/* ---- the file -------------------------------------------------------------------------------- */

static bool read_at(int fd, void *ret, size_t len, uint64_t at)
{
    return pread(fd, ret, len, (off_t)at) == (ssize_t)len;
}

static bool find_part(int fd, uint64_t size, size_t part, struct stored_part *ret)
{
    struct stored_trailer t;
    struct stored_part parts[STORED_FRAME_PARTS_MAX];

    if (size < sizeof(t) || !read_at(fd, &t, sizeof(t), size - sizeof(t)) ||
        t.magic != STORED_FRAME_MAGIC || t.n_parts > ARRAY_SIZE(parts) || part >= t.n_parts ||
        t.parts_at > size - sizeof(t) ||
        t.n_parts * sizeof(parts[0]) > size - sizeof(t) - t.parts_at ||
        !read_at(fd, parts, t.n_parts * sizeof(parts[0]), t.parts_at) ||
        checksum(0, parts, t.n_parts * sizeof(parts[0])) != t.check)
        return false;
    *ret = parts[part];
    return ret->bytes >= sizeof(struct stored_head) && ret->bytes <= STORED_FRAME_BYTES_MAX &&
           ret->at % 8 == 0 && ret->at <= size && ret->bytes <= size - ret->at;
}

/*
 * The bytes of a part: the object that arrays hold, because they lie in it. The mapping is private,
 * so a cell that writes to an array gets copies of the pages.
 */
struct mapping {
    PyObject_HEAD char *from; /* NULL: not mapped yet */
    size_t mapped;
    const char *data;
    size_t len;
    struct mapping *next, **link; /* in the list of all */
};

static struct {
    PyTypeObject *type;
    struct mapping *all;
} mappings;

static void mapping_destroy(PyObject *o)
{
    struct mapping *m = (struct mapping *)o;
    PyTypeObject *type = Py_TYPE(o);

    if (m->from) {
        *m->link = m->next;
        if (m->next)
            m->next->link = m->link;
        munmap(m->from, m->mapped);
    }
    type->tp_free(o);
    Py_DECREF(type);
}

static int mapping_get_buffer(PyObject *o, Py_buffer *view, int flags)
{
    struct mapping *m = (struct mapping *)o;

    return PyBuffer_FillInfo(view, o, (void *)(uintptr_t)m->data, (Py_ssize_t)m->len, 0, flags);
}

int dataframe_stored_init(void)
{
    PyType_Slot slots[] = {
        { Py_tp_dealloc, mapping_destroy },
        { Py_bf_getbuffer, mapping_get_buffer },
        { 0, NULL },
    };
    PyType_Spec spec = { .name = "_riddle_frames.Mapping",
                         .basicsize = sizeof(struct mapping),
                         .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                         .slots = slots };

    Py_XSETREF(mappings.type, (PyTypeObject *)PyType_FromSpec(&spec));
    return mappings.type ? 0 : -1;
}

void dataframe_stored_detach(void)
{
    for (struct mapping *m = mappings.all; m; m = m->next) {
        void *copy = mmap(NULL, m->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                          0);

        if (copy == MAP_FAILED)
            continue; /* the image then needs the file */
        memcpy(copy, m->from, m->mapped);
        if (mremap(copy, m->mapped, m->mapped, MREMAP_MAYMOVE | MREMAP_FIXED, m->from) ==
            MAP_FAILED)
            munmap(copy, m->mapped);
    }
}

/* NULL without an exception: there are no such bytes. */
static struct mapping *map_part(const char *path, size_t part)
{
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), skip;
    struct mapping *m;
    struct stored_part p;
    struct stat st;
    void *from;

    if (fd < 0 || fstat(fd, &st) < 0 || !find_part(fd, (uint64_t)st.st_size, part, &p))
        return NULL;
    m = PyObject_New(struct mapping, mappings.type);
    if (!m)
        return NULL;
    m->from = NULL;
    skip = p.at % page;
    from = mmap(NULL, p.bytes + skip, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd,
                (off_t)(p.at - skip));
    /* Populated as it is read: what may be written to would be copied at once. */
    if (from == MAP_FAILED || mprotect(from, p.bytes + skip, PROT_READ | PROT_WRITE) < 0) {
        if (from != MAP_FAILED)
            munmap(from, p.bytes + skip);
        Py_DECREF(m);
        return NULL;
    }
    m->from = from;
    m->mapped = p.bytes + skip;
    m->data = m->from + skip;
    m->len = p.bytes;
    m->next = mappings.all;
    m->link = &mappings.all;
    if (m->next)
        m->next->link = &m->next;
    mappings.all = m;
    return m;
}

/* ---- checks ---------------------------------------------------------------------------------- */

/* n things of `width` bytes lie there; where, or NULL. */
static const void *at(const struct mapping *b, uint64_t offset, uint64_t n, uint64_t width)
{
    return offset % 8 == 0 && offset <= b->len && n <= (b->len - offset) / width ?
               b->data + offset :
               NULL;
}

/* A column, with pointers instead of offsets. */
struct stored {
    const struct stored_column *is;
    const char *name;
    const void *data;
    const uint64_t *validity;
    const uint32_t *ends;
    const char *texts;
};

static bool check_texts(uint64_t n_rows, const struct stored *s)
{
    const uint32_t *numbers = s->data;
    uint32_t n = s->is->n_texts, before = 0;

    for (uint32_t i = 0; i < n; before = s->ends[i++])
        if (s->ends[i] < before || s->ends[i] > s->is->texts_bytes)
            return false;
    for (uint64_t i = 0; i < n_rows; i++)
        if (numbers[i] >= n && !plain_is_null(s->validity, i))
            return false;
    return true;
}

static const struct stored_dtype dtypes[] = STORED_DTYPES;

/* Whether form, type and width of what a row has agree. */
static bool check_form(const struct stored_column *is)
{
    int width = stored_width((duckdb_type)is->type, DUCKDB_TYPE_INVALID);

    switch (is->form) {
    case STORED_ARRAY:
        return is->dtype < ARRAY_SIZE(dtypes) && is->width == dtypes[is->dtype].width;
    case STORED_RAW: /* a DECIMAL is always an array */
        return width > 0 && is->width == (uint32_t)width && is->type != DUCKDB_TYPE_DECIMAL;
    case STORED_TEXTS:
        return width == 0 && is->width == sizeof(uint32_t) && is->type != DUCKDB_TYPE_ENUM;
    default:
        return false;
    }
}

static uint64_t column_sum(const struct stored *s, uint64_t n_rows)
{
    uint64_t sum = checksum(0, s->name, s->is->name_bytes);

    sum = checksum(sum, s->data, n_rows * s->is->width);
    sum = checksum(sum, s->validity, s->validity ? (n_rows + 63) / 64 * sizeof(uint64_t) : 0);
    sum = checksum(sum, s->ends, s->is->n_texts * sizeof(uint32_t));
    return checksum(sum, s->texts, s->is->texts_bytes);
}

static bool check_column(const struct mapping *b, uint64_t n_rows, const struct stored_column *is,
                         struct stored *ret)
{
    *ret = (struct stored){ .is = is };
    if (!check_form(is))
        return false;
    ret->name = at(b, is->name_at, is->name_bytes, 1);
    ret->data = at(b, is->data_at, n_rows, is->width);
    if (is->validity_at)
        ret->validity = at(b, is->validity_at, (n_rows + 63) / 64, sizeof(uint64_t));
    if (!ret->name || !ret->data || (is->validity_at && !ret->validity))
        return false;
    ret->ends = at(b, is->ends_at, is->n_texts, sizeof(uint32_t));
    ret->texts = at(b, is->texts_at, is->texts_bytes, 1);
    if (!ret->ends || !ret->texts || column_sum(ret, n_rows) != is->check)
        return false;
    return is->form != STORED_TEXTS || check_texts(n_rows, ret);
}

/* The head of a part, with whole descriptions of its columns behind it; NULL: it has none. */
static const struct stored_head *check_head(const struct mapping *b)
{
    const struct stored_head *head = (const void *)b->data;

    return head->n_rows <= STORED_FRAME_ROWS_MAX &&
                   at(b, sizeof(*head), head->n_columns, sizeof(struct stored_column)) &&
                   checksum(head->n_rows, head + 1,
                            head->n_columns * sizeof(struct stored_column)) == head->check ?
               head :
               NULL;
}

/* ---- columns --------------------------------------------------------------------------------- */

static duckdb_string_t entry(const struct stored *s, uint32_t i)
{
    uint32_t from = i ? s->ends[i - 1] : 0, len = s->ends[i] - from;
    duckdb_string_t text = { .value.pointer.length = len };

    if (len <= sizeof(text.value.inlined.inlined))
        memcpy(text.value.inlined.inlined, s->texts + from, len);
    else
        text.value.pointer.ptr = (char *)(uintptr_t)(s->texts + from); /* which nobody writes to */
    return text;
}

static void drop_objects(PyObject **objects, uint32_t n)
{
    while (n > 0)
        Py_DECREF(objects[--n]);
    PyMem_RawFree(objects);
}

/* The dictionary's entries; drop_objects() ends them. */
static PyObject **make_entries(const struct stored *s)
{
    struct dataframe_type type = { .id = (duckdb_type)s->is->type };
    uint32_t n = s->is->n_texts;
    PyObject **objects = PyMem_RawMalloc((n ? n : 1) * sizeof(*objects));

    if (!objects)
        PyErr_NoMemory();
    for (uint32_t i = 0; objects && i < n; i++) {
        duckdb_string_t text = entry(s, i);

        objects[i] = dataframe_scalar(&type, &text, 0);
        if (!objects[i]) {
            drop_objects(objects, i);
            return NULL;
        }
    }
    return objects;
}

static PyObject *array_of_texts(const struct stored *s, uint64_t n_rows)
{
    const uint32_t *numbers = s->data;
    PyObject **entries = make_entries(s), *array = NULL, **to;
    Py_buffer view;

    if (entries)
        array = dataframe_array_of_none(n_rows, &view);
    if (array) {
        to = view.buf;
        for (uint64_t i = 0; i < n_rows; i++)
            if (!plain_is_null(s->validity, i))
                Py_XSETREF(to[i], Py_NewRef(entries[numbers[i]]));
        PyBuffer_Release(&view);
    }
    if (entries)
        drop_objects(entries, s->is->n_texts);
    return array;
}

static PyObject *array_of_bytes(const struct mapping *m, const struct stored *s, uint64_t n_rows)
{
    auto_ref PyObject *array = dataframe_array((PyObject *)(uintptr_t)m, dtypes[s->is->dtype].name,
                                               n_rows, s->is->data_at);

    if (array && s->is->type == DUCKDB_TYPE_TIMESTAMP_TZ)
        return dataframe_array_in_utc(array);
    return TAKE_PTR(array);
}

/* The tuple (name, array) of values that are converted. */
static PyObject *convert_column(const struct stored *s, uint64_t n_rows)
{
    struct dataframe_type *type = dataframe_type_plain((duckdb_type)s->is->type);
    struct dataframe_column *c = type ? dataframe_column_plain(s->name, s->is->name_bytes, type) :
                                        NULL;
    PyObject *pair = NULL;

    if (c && dataframe_column_append_plain(c, s->data, s->validity, n_rows) == 0)
        pair = dataframe_column_finish(c);
    dataframe_column_destroy(c);
    return pair;
}

static PyObject *make_column(const struct mapping *m, const struct stored *s, uint64_t n_rows)
{
    auto_ref PyObject *array = NULL, *name = NULL;

    if (s->is->form == STORED_RAW)
        return convert_column(s, n_rows);
    array = s->is->form == STORED_TEXTS ? array_of_texts(s, n_rows) : array_of_bytes(m, s, n_rows);
    if (array)
        name = PyUnicode_DecodeUTF8(s->name, (Py_ssize_t)s->is->name_bytes, "replace");
    return name ? PyTuple_Pack(2, name, array) : NULL;
}

static PyObject *make_columns(const struct mapping *m)
{
    const struct stored_head *head = check_head(m);
    const struct stored_column *columns = head ? (const void *)(head + 1) : NULL;
    auto_ref PyObject *list = head ? PyList_New(0) : NULL;

    if (!head)
        Py_RETURN_NONE;
    for (uint64_t i = 0; list && i < head->n_columns; i++) {
        auto_ref PyObject *pair = NULL;
        struct stored s;

        if (!check_column(m, head->n_rows, &columns[i], &s))
            Py_RETURN_NONE;
        pair = make_column(m, &s, head->n_rows);
        if (!pair || PyList_Append(list, pair) < 0)
            return NULL;
    }
    return Py_XNewRef(list);
}

PyObject *dataframe_stored_columns(const char *path, size_t part)
{
    struct mapping *m = map_part(path, part);
    PyObject *list;

    if (!m && PyErr_Occurred())
        return NULL;
    if (!m)
        Py_RETURN_NONE;
    list = make_columns(m);
    Py_DECREF(m); /* the arrays hold it */
    return list;
}
