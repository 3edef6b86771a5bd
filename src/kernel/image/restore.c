/*
 * Becoming what an image holds, in two halves. The first (plan) uses the C library: it reads and
 * checks the tables, brings back files and descriptors, and makes sure that the second half will
 * find what it needs. The second (become) replaces every mapping below its own feet: it runs on a
 * stack in the room, makes system calls itself and touches no variable of the program.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include "base/fdio.h"
#include "base/macros.h"
#include "base/str.h"
#include "kernel/image/base.h"
#include "kernel/image/pagemap.h"

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)

#define STACK_BYTES (256u << 10)
#define ENTRIES 4096
#define GAP_PAGES 64 /* so many are discarded without a look at them */
#define PIECES 512   /* of one preadv() */
#define HIGH_FD 200
#define HIGH_FDS 4              /* below the limit of open files, where that is lower */
#define LAYOUT_AT (64ull << 20) /* in the room: the largest tables end before it */
#define EXIT_DAMAGED 86         /* what was read is not what was written */
#define EXIT_LAYOUT 87          /* Linux refused a mapping */

/* What a mapping of the image has: its own, another one, or one that it can be written to with. */
enum protection { PROTECTION_SAME, PROTECTION_OTHER, PROTECTION_OPEN };

struct plan {
    struct image_carried carried;
    struct image_tables t;
    struct image_map *now; /* the mappings of this process */
    size_t n_now;
    int fd;
    bool is_stream;    /* fd is a pipe, which a living kernel writes to */
    uint64_t magic;    /* … and this was its first word */
    bool follows;      /* … and instead of an image, the portable form follows */
    uint64_t pages_at; /* where the file has its first page */
    bool may_map;      /* the file */
    int base_fd, pagemap;
    int spare;    /* the file again, for a reader of what follows the image */
    bool is_base; /* of the process that this one was forked from */
    bool is_zygote;
    struct image_changes changes;
    struct base base;
    struct maps reader;
    struct pagemap_zeros zeros;
    uint64_t entries[ENTRIES];
    unsigned char protection[IMAGE_MAPS_MAX]; /* enum protection */
    struct iovec pieces[PIECES];
    char bounce[1u << 20];
    char stack[STACK_BYTES];
    char bytes[];
};

_Static_assert(sizeof(struct plan) + sizeof(struct image_head) +
                       IMAGE_MAPS_MAX * sizeof(struct image_map) +
                       (IMAGE_RUNS_MAX + IMAGE_LONGS_MAX + IMAGE_DROPS_MAX) *
                           sizeof(struct image_run) +
                       IMAGE_PATCHES_MAX * sizeof(struct image_patch) +
                       IMAGE_FDS_MAX * sizeof(struct image_fd) + IMAGE_NAMES_MAX <=
                   LAYOUT_AT,
               "the tables reach into the layout");

#define OTHER(...) err_set(err, ERR_CONFLICT, __VA_ARGS__)

/* ---- the second half ---- */

#define BARE __attribute__((no_stack_protector, noinline))

#define call bare_call

static inline __attribute__((always_inline)) void copy(char *to, const char *from, uint64_t len)
{
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(len) : : "memory");
}

static inline __attribute__((always_inline)) void die(int status)
{
    for (;;)
        call(SYS_exit_group, status, 0, 0, 0, 0, 0);
}

static inline __attribute__((always_inline)) bool is_same(const struct image_map *now,
                                                          const struct image_map *m)
{
    if (now->kind != m->kind)
        return false;
    if (m->kind != IMAGE_FILE)
        return true;
    return now->dev == m->dev && now->ino == m->ino && !now->is_shared && !m->is_shared &&
           now->offset - now->from == m->offset - m->from;
}

static inline __attribute__((always_inline)) void make(const struct plan *p,
                                                       const struct image_map *m, uint64_t from,
                                                       uint64_t to)
{
    long fd = -1, flags = MAP_FIXED | (m->is_shared ? MAP_SHARED : MAP_PRIVATE);
    if (m->kind == IMAGE_STACK)
        return; /* it grows as it is written to */
    if (m->kind == IMAGE_FILE) {
        fd = call(SYS_open, (long)(p->t.names + m->name),
                  m->is_shared && (m->prot & PROT_WRITE) ? O_RDWR : O_RDONLY, 0, 0, 0, 0);
        if (fd < 0)
            die(EXIT_LAYOUT);
    } else {
        flags |= MAP_ANONYMOUS | MAP_NORESERVE;
    }
    long at = call(SYS_mmap, (long)from, (long)(to - from), m->prot, flags, fd,
                   m->kind == IMAGE_FILE ? (long)(m->offset + (from - m->from)) : 0);
    if (at != (long)from)
        die(EXIT_LAYOUT);
    if (fd >= 0)
        call(SYS_close, fd, 0, 0, 0, 0, 0);
}

/* Unmaps what the image has not. */
static BARE void unmap_others(const struct plan *p)
{
    size_t k = 0;
    for (size_t i = 0; i < p->n_now; i++) {
        const struct image_map *now = &p->now[i];
        if (now->kind == IMAGE_SYSTEM || now->kind == IMAGE_STACK)
            continue;
        uint64_t at = now->from;
        while (k < p->t.head->n_maps && p->t.maps[k].to <= at)
            k++;
        for (size_t j = k; at < now->to; j++) {
            uint64_t end = j < p->t.head->n_maps && p->t.maps[j].from < now->to ?
                               p->t.maps[j].from :
                               now->to;
            if (end > at)
                call(SYS_munmap, (long)at, (long)(end - at), 0, 0, 0, 0);
            at = j < p->t.head->n_maps && end < now->to ? p->t.maps[j].to : now->to;
        }
    }
}

static BARE void map_missing(const struct plan *p)
{
    size_t k = 0;
    for (size_t i = 0; i < p->t.head->n_maps; i++) {
        const struct image_map *m = &p->t.maps[i];
        if (m->kind == IMAGE_SYSTEM)
            continue;
        uint64_t at = m->from;
        while (k < p->n_now && p->now[k].to <= at)
            k++;
        for (size_t j = k; at < m->to; j++) {
            bool any = j < p->n_now && p->now[j].from < m->to;
            uint64_t gap = any ? p->now[j].from : m->to;
            if (gap > at)
                make(p, m, at, gap);
            if (!any)
                break;
            uint64_t from = p->now[j].from > at ? p->now[j].from : at,
                     to = p->now[j].to < m->to ? p->now[j].to : m->to;
            if (!is_same(&p->now[j], m))
                make(p, m, from, to);
            at = to;
        }
    }
}

struct run_cursor {
    const struct image_run *runs;
    size_t n, at;
};

static inline __attribute__((always_inline)) bool has_page(struct run_cursor *c, uint64_t at)
{
    while (c->at < c->n && c->runs[c->at].from + c->runs[c->at].pages * IMAGE_PAGE <= at)
        c->at++;
    return c->at < c->n && c->runs[c->at].from <= at;
}

/* Whether the page is the zygote's, which has it as the base, or zero. */
static inline __attribute__((always_inline)) bool is_zygotes(const struct plan *p, uint64_t at,
                                                             uint64_t entry,
                                                             struct base_cursor *cursor)
{
    bool shared = (entry & PM_PRESENT) && !(entry & (PM_EXCLUSIVE | PM_FILE));
    return shared && p->is_base && !base_differs(&p->changes, cursor, at);
}

/* Whether the page is as the base has it. */
static inline __attribute__((always_inline)) bool is_settled(const struct plan *p, uint64_t at,
                                                             uint64_t entry, const void *base,
                                                             struct base_cursor *cursor)
{
    bool is_ours = (entry & PM_PRESENT) && !(entry & PM_FILE);
    if (is_zygotes(p, at, entry, cursor))
        return !page_is_zero((const void *)at);
    return is_ours && pages_are_equal((const void *)at, base);
}

static inline __attribute__((always_inline)) void forget(uint64_t *from, uint64_t to)
{
    if (*from)
        call(SYS_madvise, (long)*from, (long)(to - *from), MADV_DONTNEED, 0, 0, 0);
    *from = 0;
}

/* Mappings can be written to from here on; protect() takes that back. */
static inline __attribute__((always_inline)) void open_map(struct plan *p, size_t i)
{
    const struct image_map *m = &p->t.maps[i];
    bool can_be = (m->prot & (PROT_READ | PROT_WRITE)) == (PROT_READ | PROT_WRITE);
    if (p->protection[i] == PROTECTION_OPEN || (p->protection[i] == PROTECTION_SAME && can_be))
        return;
    p->protection[i] = PROTECTION_OPEN;
    if (call(SYS_mprotect, (long)m->from, (long)(m->to - m->from), m->prot | PROT_READ | PROT_WRITE,
             0, 0, 0) < 0)
        die(EXIT_LAYOUT);
}

/* The first page from `at` on. */
static inline __attribute__((always_inline)) uint64_t next_page(struct run_cursor *c, uint64_t at)
{
    if (has_page(c, at))
        return at;
    return c->at < c->n ? c->runs[c->at].from : IMAGE_ADDRESS_MAX;
}

struct settling {
    struct run_cursor run, far, drop;
    struct base_cursor base;
};

/* The first page from `at` on that the image has something to say of. */
static inline __attribute__((always_inline)) uint64_t next_said(struct settling *s, uint64_t at)
{
    uint64_t run = next_page(&s->run, at), far = next_page(&s->far, at),
             drop = next_page(&s->drop, at), next = run < far ? run : far;
    return drop < next ? drop : next;
}

/* Pages of one mapping, as many as the page map is read of at a time. Returns where they end. */
static inline __attribute__((always_inline)) uint64_t settle_some(struct plan *p, size_t i,
                                                                  uint64_t at, struct settling *s)
{
    const struct image_map *m = &p->t.maps[i];
    uint64_t n = (m->to - at) / IMAGE_PAGE, gone = 0, said = 0;
    n = n < ENTRIES ? n : ENTRIES;
    if (call(SYS_pread64, p->pagemap, (long)p->entries, (long)(n * 8), (long)(at / IMAGE_PAGE * 8),
             0, 0) != (long)(n * 8))
        die(EXIT_LAYOUT);
    bool no_zeros = pagemap_has_no_zeros(&p->zeros, at, at + n * IMAGE_PAGE);
    for (uint64_t k = 0; k < n; k++, at += IMAGE_PAGE) {
        uint64_t e = p->entries[k];
        bool ours = (e & (PM_PRESENT | PM_SWAP)) && !(e & PM_FILE);
        const void *want = base_page(&p->base, &s->base, at);
        said = said > at ? said : next_said(s, at);
        if (no_zeros && want && at < said && is_zygotes(p, at, e, &s->base)) {
            uint64_t end = base_same_until(&p->base, &p->changes, &s->base);
            end = said < end ? said : end;
            uint64_t left = (end - at) / IMAGE_PAGE;
            uint64_t more = pages_shared(p->entries + k, left < n - k ? left : n - k) - 1;
            forget(&gone, at);
            k += more;
            at += more * IMAGE_PAGE;
            continue;
        }
        bool follows = has_page(&s->run, at) || has_page(&s->far, at);
        bool dropped = want && has_page(&s->drop, at);
        if (ours && !follows && (!want || dropped)) {
            gone = gone ? gone : at;
            continue;
        }
        forget(&gone, at);
        if (!want || dropped || follows)
            continue;
        uint64_t ahead = k + IMAGE_PREFETCH < n ? p->entries[k + IMAGE_PREFETCH] : 0;
        if (!no_zeros || (ahead & PM_EXCLUSIVE))
            __builtin_prefetch((const char *)at + IMAGE_PREFETCH * IMAGE_PAGE);
        if (!(m->prot & PROT_READ) || p->protection[i] == PROTECTION_OTHER)
            open_map(p, i);
        if (is_settled(p, at, e, want, &s->base))
            continue;
        open_map(p, i);
        copy((char *)at, want, IMAGE_PAGE);
    }
    forget(&gone, at);
    return at;
}

/*
 * Makes all private pages what the base has, or nothing, but for those that the image has itself.
 * Mappings can be written to afterwards where pages follow.
 */
static BARE void settle(struct plan *p)
{
    const struct image_tables *t = &p->t;
    struct settling s = { .run = { t->runs, t->head->n_runs, 0 },
                          .far = { t->longs, t->head->n_longs, 0 },
                          .drop = { t->drops, t->head->n_drops, 0 } };
    pagemap_find_zeros(p->pagemap, 0, IMAGE_ADDRESS_MAX, &p->zeros);
    for (size_t i = 0; i < t->head->n_maps; i++) {
        const struct image_map *m = &t->maps[i];
        if (m->kind == IMAGE_SYSTEM || m->kind == IMAGE_STACK || m->is_shared)
            continue;
        if (next_page(&s.run, m->from) < m->to)
            open_map(p, i);
        for (uint64_t at = m->from; at < m->to;) {
            uint64_t next = next_page(&s.run, at), far = next_page(&s.far, at);
            (void)base_page(&p->base, &s.base, at);
            next = far < next ? far : next;
            next = base_next(&p->base, &s.base) < next ? base_next(&p->base, &s.base) : next;
            next = m->to < next ? m->to : next;
            bool is_fixed = m->kind == IMAGE_FILE && !(m->prot & PROT_WRITE) &&
                            p->protection[i] == PROTECTION_SAME;
            if (m->kind == IMAGE_ANON && next > at && next - at >= GAP_PAGES * IMAGE_PAGE) {
                call(SYS_madvise, (long)at, (long)(next - at), MADV_DONTNEED, 0, 0, 0);
                at = next;
            } else if (is_fixed && next > at) {
                at = next; /* the file's: nobody has written there */
            } else {
                at = settle_some(p, i, at, &s);
            }
        }
    }
}

static BARE void grow_stack(const struct plan *p)
{
    uint64_t low = 0;
    for (size_t i = 0; i < p->n_now; i++)
        if (p->now[i].kind == IMAGE_STACK)
            low = p->now[i].from;
    for (size_t i = 0; i < p->t.head->n_maps; i++)
        if (p->t.maps[i].kind == IMAGE_STACK) {
            const struct image_map *m = &p->t.maps[i];
            for (uint64_t at = low; at > m->from; at -= IMAGE_PAGE)
                *(volatile char *)(at - IMAGE_PAGE) = 0;
            call(SYS_madvise, (long)m->from, (long)(m->to - m->from), MADV_DONTNEED, 0, 0, 0);
        }
}

static inline __attribute__((always_inline)) void read_whole(const struct plan *p, char *to,
                                                             uint64_t len, uint64_t at)
{
    for (uint64_t got = 0; got < len;) {
        long n = call(SYS_pread64, p->fd, (long)(to + got), (long)(len - got), (long)(at + got), 0,
                      0);
        if (n <= 0 && n != -EINTR)
            die(EXIT_DAMAGED);
        got += n > 0 ? (uint64_t)n : 0;
    }
}

/* Reads the runs from `first` on that one system call takes, and checks them. */
static inline __attribute__((always_inline)) size_t read_some(struct plan *p, size_t first,
                                                              uint64_t *at, uint64_t *check)
{
    const struct image_tables *t = &p->t;
    size_t n = 0;
    uint64_t len = 0;
    for (; first + n < t->head->n_runs && n < PIECES; n++) {
        const struct image_run *r = &t->runs[first + n];
        bool aside = image_is_near(r, t->head->thread_pointer);
        if (aside && n > 0)
            break; /* alone, for there is one bounce buffer */
        p->pieces[n] = (struct iovec){ aside ? p->bounce : (char *)r->from, r->pages * IMAGE_PAGE };
        len += r->pages * IMAGE_PAGE;
        if (aside && len > sizeof(p->bounce))
            die(EXIT_DAMAGED);
        if (aside) {
            n++;
            break;
        }
    }
    long got = call(SYS_preadv, p->fd, (long)p->pieces, (long)n, (long)*at, 0, 0);
    for (size_t i = 0; i < n; i++) {
        char *to = p->pieces[i].iov_base;
        uint64_t want = p->pieces[i].iov_len;
        if (got < (long)want) /* the rest, one by one */
            read_whole(p, to, want, *at);
        got = got < (long)want ? 0 : got - (long)want;
        *at += want;
        *check = checksum(*check, to, want);
        if (to == p->bounce)
            copy((char *)t->runs[first + i].from, to, want);
    }
    return first + n;
}

static inline __attribute__((always_inline)) void read_stream(const struct plan *p, char *to,
                                                              uint64_t len)
{
    for (uint64_t got = 0; got < len;) {
        long n = call(SYS_read, p->fd, (long)(to + got), (long)(len - got), 0, 0, 0);
        if (n <= 0 && n != -EINTR)
            die(EXIT_DAMAGED);
        got += n > 0 ? (uint64_t)n : 0;
    }
}

/* All pages in their order, as the writer lays them out. They have no checksums. */
static BARE void stream_pages(struct plan *p)
{
    const struct image_tables *t = &p->t;
    size_t map = 0;
    for (size_t i = 0; i < t->head->n_runs; i++) {
        const struct image_run *r = &t->runs[i];
        uint64_t len = r->pages * IMAGE_PAGE;
        bool aside = image_is_near(r, t->head->thread_pointer);
        if (aside && len > sizeof(p->bounce))
            die(EXIT_DAMAGED);
        read_stream(p, aside ? p->bounce : (char *)r->from, len);
        if (aside)
            copy((char *)r->from, p->bounce, len);
    }
    for (size_t i = 0; i < t->head->n_longs; i++) {
        const struct image_run *r = &t->longs[i];
        while (t->maps[map].to <= r->from)
            map++;
        open_map(p, map);
        call(SYS_madvise, (long)r->from, (long)(r->pages * IMAGE_PAGE), MADV_POPULATE_WRITE, 0, 0,
             0); /* fewer faults; without it there are more */
        read_stream(p, (char *)r->from, r->pages * IMAGE_PAGE);
    }
}

/* What Linux itself writes to (image_is_near) is checked before it is put there. */
static BARE void read_pages(struct plan *p)
{
    const struct image_tables *t = &p->t;
    uint64_t at = p->pages_at, checks = at + t->head->n_pages * IMAGE_PAGE, check = 0, want;
    for (size_t i = 0; i < t->head->n_runs;)
        i = read_some(p, i, &at, &check);
    read_whole(p, (char *)&want, sizeof(want), checks);
    if (want != check)
        die(EXIT_DAMAGED);
    size_t map = 0;
    for (size_t i = 0; i < t->head->n_longs; i++) {
        const struct image_run *r = &t->longs[i];
        uint64_t len = r->pages * IMAGE_PAGE;
        while (t->maps[map].to <= r->from)
            map++;
        if (p->may_map) {
            if (call(SYS_mmap, (long)r->from, (long)len, t->maps[map].prot, MAP_PRIVATE | MAP_FIXED,
                     p->fd, (long)at) != (long)r->from)
                die(EXIT_LAYOUT);
        } else {
            open_map(p, map);
            read_whole(p, (char *)r->from, len, at);
            read_whole(p, (char *)&want, sizeof(want), checks + (1 + i) * sizeof(want));
            if (checksum(0, (const void *)r->from, len) != want)
                die(EXIT_DAMAGED);
        }
        at += len;
    }
}

static BARE void patch_pages(struct plan *p)
{
    const struct image_tables *t = &p->t;
    size_t map = 0;
    for (size_t i = 0; i < t->head->n_patches; i++) {
        while (t->maps[map].to <= t->patches[i].at)
            map++;
        open_map(p, map);
        *(checksum_word *)t->patches[i].at = t->patches[i].value;
    }
}

static BARE void protect(const struct plan *p)
{
    for (size_t i = 0; i < p->t.head->n_maps; i++) {
        const struct image_map *m = &p->t.maps[i];
        if (p->protection[i] != PROTECTION_SAME &&
            (m->kind == IMAGE_ANON || m->kind == IMAGE_FILE) &&
            call(SYS_mprotect, (long)m->from, (long)(m->to - m->from), m->prot, 0, 0, 0) < 0)
            die(EXIT_LAYOUT);
    }
}

__attribute__((naked, noreturn)) static void go_on(__attribute__((unused))
                                                   const struct image_context *c)
{
    __asm__("movq 0(%rdi), %rbx\n\t"
            "movq 8(%rdi), %rbp\n\t"
            "movq 16(%rdi), %r12\n\t"
            "movq 24(%rdi), %r13\n\t"
            "movq 32(%rdi), %r14\n\t"
            "movq 40(%rdi), %r15\n\t"
            "ldmxcsr 64(%rdi)\n\t"
            "fldcw 68(%rdi)\n\t"
            "movq 48(%rdi), %rsp\n\t"
            "movl $1, %eax\n\t"
            "jmpq *56(%rdi)\n\t");
}

static BARE __attribute__((noreturn)) void become(struct plan *p)
{
    const struct image_head *h = p->t.head;
    if (call(SYS_brk, (long)h->brk, 0, 0, 0, 0, 0) != (long)h->brk)
        die(EXIT_LAYOUT);
    unmap_others(p);
    map_missing(p);
    settle(p);
    grow_stack(p);
    if (p->is_stream)
        stream_pages(p);
    else
        read_pages(p);
    patch_pages(p);
    protect(p);
    for (int sig = 1; sig <= IMAGE_SIGNALS; sig++)
        call(SYS_rt_sigaction, sig, (long)&h->signals[sig - 1], 0, 8, 0,
             0); /* Linux refuses the two that are its own */
    call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&h->sigmask, 0, 8, 0, 0);
    call(SYS_close, p->fd, 0, 0, 0, 0, 0);
    call(SYS_close, p->pagemap, 0, 0, 0, 0, 0);
    call(SYS_close, p->spare, 0, 0, 0, 0, 0);
    go_on(&h->context);
}

__attribute__((naked, noreturn)) static void on_stack(
    __attribute__((unused)) struct plan *p, __attribute__((unused)) void *top,
    __attribute__((unused)) void (*fn)(struct plan *p))
{
    __asm__("movq %rsi, %rsp\n\t"
            "xorl %ebp, %ebp\n\t"
            "call *%rdx\n\t"
            "ud2\n\t");
}

/* ---- the first half ---- */

/* The first mapping of this process that ends behind an address, by rising addresses. */
static size_t find_now(const struct plan *p, size_t from, uint64_t at)
{
    while (from < p->n_now && p->now[from].to <= at)
        from++;
    return from;
}

/* Whether all of m is mapped now as the image has it. `first` is the mapping at its begin. */
static bool is_mapped(const struct plan *p, const struct image_map *m, size_t first)
{
    uint64_t at = m->from;
    for (size_t i = first; i < p->n_now && at < m->to; i++) {
        const struct image_map *now = &p->now[i];
        if (now->from > at || !is_same(now, m))
            return false;
        at = now->to;
    }
    return at >= m->to;
}

/* Whether a page, the first one of a program or library, has the id of its build in it. */
static bool has_build_id(const void *page)
{
    static const unsigned char note[] = { 4, 0, 0, 0, 20, 0, 0, 0, 3, 0, 0, 0, 'G', 'N', 'U', 0 };
    return memcmp(page, "\177ELF", 4) == 0 && memmem(page, IMAGE_PAGE, note, sizeof(note));
}

/*
 * A program or library that was installed anew is the one that it was if it is of the same build:
 * from here on the image's mappings of it are mappings of this one.
 */
static void accept_same_builds(struct plan *p)
{
    size_t k = 0;
    for (size_t i = 0; i < p->t.head->n_maps; i++) {
        const struct image_map m = p->t.maps[i];
        k = find_now(p, k, m.from);
        const struct image_map *now = k < p->n_now ? &p->now[k] : NULL;
        if (m.kind != IMAGE_FILE || !m.first || !now || now->from != m.from ||
            now->kind != IMAGE_FILE || now->is_shared || now->offset != 0 ||
            !(now->prot & PROT_READ) || (now->dev == m.dev && now->ino == m.ino) ||
            checksum(1, (const void *)now->from, IMAGE_PAGE) != m.first ||
            !has_build_id((const void *)now->from))
            continue;
        for (size_t j = 0; j < p->t.head->n_maps; j++)
            if (p->t.maps[j].kind == IMAGE_FILE && p->t.maps[j].dev == m.dev &&
                p->t.maps[j].ino == m.ino) {
                p->t.maps[j].dev = now->dev;
                p->t.maps[j].ino = now->ino;
            }
    }
}

/* A file that must be mapped anew has to be the one that it was. */
static int check_file(const struct plan *p, const struct image_map *m, size_t first,
                      struct err *err)
{
    const char *name = p->t.names + m->name;
    struct stat st;
    if (is_mapped(p, m, first)) {
        if (m->first && checksum(1, (const void *)m->from, IMAGE_PAGE) != m->first)
            return OTHER("the image is of another version of '%s'", name);
        return 0;
    }
    auto_close int fd = name[0] == '/' ?
                            open(name,
                                 (m->is_shared && (m->prot & PROT_WRITE) ? O_RDWR : O_RDONLY) |
                                     O_CLOEXEC | O_NONBLOCK) :
                            -1;
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return OTHER("the image needs '%s', which is not here", name);
    bool is_own = str_starts(name, "/workspace/") || str_starts(name, "/tmp/");
    if (!is_own && (st.st_ino != m->ino || st.st_dev != m->dev))
        return OTHER("the image is of another version of '%s'", name);
    return 0;
}

/* Notes which mappings this process has with another protection. */
static void compare_protection(struct plan *p)
{
    size_t k = 0;
    for (size_t i = 0; i < p->t.head->n_maps; i++) {
        const struct image_map *m = &p->t.maps[i];
        while (k < p->n_now && p->now[k].to <= m->from)
            k++;
        for (size_t j = k; j < p->n_now && p->now[j].from < m->to; j++)
            if (p->now[j].prot != m->prot)
                p->protection[i] = PROTECTION_OTHER;
    }
}

static int check_layout(const struct plan *p, struct err *err)
{
    uint64_t pointer;
    size_t first = 0;
    int r = 0;
    __asm__("movq %%fs:0, %0" : "=r"(pointer));
    if (pointer != p->t.head->thread_pointer)
        return OTHER("the image is of a kernel with another layout");
    for (size_t i = 0; i < p->t.head->n_maps && r == 0; i++) {
        const struct image_map *m = &p->t.maps[i];
        size_t last = first = find_now(p, first, m->from);
        while (last < p->n_now && p->now[last].to < m->to)
            last++;
        bool found = last < p->n_now && p->now[last].kind == m->kind && p->now[last].to == m->to &&
                     (m->kind == IMAGE_STACK || p->now[last].from == m->from);
        if ((m->kind == IMAGE_SYSTEM || m->kind == IMAGE_STACK) && !found)
            return OTHER("the image is of a kernel with another layout");
        if (m->kind == IMAGE_FILE)
            r = check_file(p, m, first, err);
    }
    return r;
}

/* Out of the way of descriptors that the image has. */
static int move_high(int *fd, struct err *err)
{
    struct rlimit files = { .rlim_cur = HIGH_FD };
    (void)getrlimit(RLIMIT_NOFILE, &files);
    rlim_t below = files.rlim_cur - MIN_OF(files.rlim_cur, (rlim_t)HIGH_FDS);
    int high = fcntl(*fd, F_DUPFD, (int)MIN_OF((rlim_t)HIGH_FD, below));
    if (high < 0)
        return err_errno(err, ERR_CONFLICT, errno,
                         "the limit of open files is too low for an image");
    close(*fd);
    *fd = high;
    return 0;
}

static int open_fds(struct plan *p, struct err *err)
{
    p->pagemap = open("/proc/self/pagemap", O_RDONLY);
    int r = p->pagemap < 0 ? OTHER("/proc/self/pagemap cannot be read") : move_high(&p->fd, err);
    if (r == 0)
        r = move_high(&p->pagemap, err);
    if (r == 0)
        r = move_high(&p->spare, err);
    const int keep[] = { 3, p->fd, p->pagemap, p->spare };
    if (r == 0)
        r = fd_close_all_but(3, keep, ARRAY_SIZE(keep), err);
    for (size_t i = 0; i < p->t.head->n_fds && r == 0; i++) {
        const struct image_fd *f = &p->t.fds[i];
        const char *name = p->t.names + f->name;
        int fd = open(name, (f->flags & ~O_CLOEXEC) | O_NOCTTY);
        if (fd < 0)
            return err_errno(err, ERR_CONFLICT, errno, "opening '%s' again", name);
        if (f->fd == p->fd || f->fd == p->pagemap || f->fd == p->spare)
            return err_set(err, ERR_CONFLICT, "too many open files");
        if (fd != f->fd && dup2(fd, f->fd) < 0)
            return err_errno(err, ERR_CONFLICT, errno, "opening '%s' again", name);
        if (fd != f->fd)
            close(fd);
        if (f->flags & O_CLOEXEC)
            (void)fcntl(f->fd, F_SETFD, FD_CLOEXEC);
        if (f->offset)
            (void)lseek(f->fd, (off_t)f->offset, SEEK_SET);
    }
    return r;
}

/* Reads head and tables behind what `at` bytes of the file have been taken of. */
static int read_tables(struct plan *p, uint64_t at, uint64_t size, struct err *err)
{
    int r = image_read_tables(p->fd, p->is_stream, at, p->bytes, LAYOUT_AT - sizeof(*p), &p->t,
                              &p->pages_at, err);
    p->follows = r == -ERR_NOT_FOUND;
    if (p->follows)
        return OTHER("the kernel that was to be copied cannot be an image");
    if (r == 0 && !p->is_stream &&
        size < p->pages_at + p->t.head->n_pages * IMAGE_PAGE + 8 * (1 + p->t.head->n_longs))
        return err_set(err, ERR_VALIDATION, "the image is damaged: it is cut off");
    return r;
}

static int open_base(struct plan *p, struct err *err)
{
    if (p->t.head->base == 0)
        return 0;
    if (p->base_fd < 0)
        return OTHER("the image needs a base, which is not here");
    int r = base_map(p->base_fd, &p->base, err);
    if (r == 0 && p->base.head->check != p->t.head->base)
        r = OTHER("the image is of another base");
    return r;
}

/*
 * Long runs are mapped from the file unless code in the kernel would see a path of the host in
 * /proc/self/maps. riddle hides it by a mount of the file alone, where it can.
 */
static void prepare_mapping(struct plan *p)
{
    char link[64], path[8];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", p->fd);
    p->may_map = !p->is_stream && readlink(link, path, sizeof(path)) == 1 && path[0] == '/' &&
                 mmap((void *)IMAGE_PROBE_AT, IMAGE_PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, p->fd,
                      0) != MAP_FAILED;
}

static void note_mapped(struct plan *p)
{
    p->carried.mapped.n = p->may_map ? p->t.head->n_longs : 0;
    memcpy(p->carried.mapped.runs, p->t.longs,
           p->carried.mapped.n * sizeof(p->carried.mapped.runs[0]));
}

/* The mappings of this process, behind the largest tables that an image may have. */
static int read_layout(struct plan *p, char **ret_names, struct err *err)
{
    char *names = (char *)IMAGE_ROOM_AT + LAYOUT_AT + IMAGE_MAPS_MAX * sizeof(p->now[0]);
    size_t names_len = 0;
    *ret_names = names;
    p->now = (struct image_map *)(IMAGE_ROOM_AT + LAYOUT_AT);
    prepare_mapping(p);
    return layout_read(&p->reader, p->now, IMAGE_MAPS_MAX, &p->n_now, names, IMAGE_NAMES_MAX,
                       &names_len, &p->carried.mapped, err);
}

static int prepare(struct plan *p, struct err *err)
{
    struct image_mark mark = { .magic = p->magic };
    char system[sizeof(mark.system)], *names;
    struct stat st;
    off_t begin = lseek(p->fd, 0, SEEK_CUR);
    size_t taken = p->is_stream ? sizeof(mark.magic) : 0;
    uint64_t at = (p->is_stream ? 0 : (uint64_t)begin) + sizeof(mark);
    if (getpid() != 1 && !p->is_zygote)
        return OTHER("a kernel without a process namespace of its own");
    if (fstat(p->fd, &st) < 0 || !(p->is_stream || (begin >= 0 && S_ISREG(st.st_mode))))
        return err_set(err, ERR_VALIDATION, "the image is no file");
    int r = image_read(p->fd, (char *)&mark + taken, sizeof(mark) - taken, err);
    if (r == 0 && mark.magic != IMAGE_MAGIC)
        r = err_set(err, ERR_VALIDATION, "the image is damaged: it has no mark");
    if (r == 0)
        r = archive_read(p->fd, &at, err);
    image_system(system);
    if (r == 0 && memcmp(system, mark.system, sizeof(system)) != 0)
        r = OTHER("the image is of another machine or another version of Linux");
    if (r == 0)
        r = read_layout(p, &names, err); /* while a living kernel still finds its pages */
    if (r == 0)
        r = read_tables(p, at, (uint64_t)st.st_size, err);
    if (r == 0)
        r = open_base(p, err);
    if (r < 0)
        return r;
    note_mapped(p);
    if (chdir(p->t.names + p->t.head->cwd) < 0)
        return err_errno(err, ERR_CONFLICT, errno, "the working directory");
    umask(p->t.head->umask & 0777);
    r = open_fds(p, err);
    if (r < 0)
        return r;
    struct image_map *heap = NULL; /* the last piece of it */
    for (size_t i = 0; i < p->n_now; i++)
        if (str_eq(names + p->now[i].name, "[heap]"))
            heap = &p->now[i];
    if (heap)
        heap->to = MAX_OF(image_pad(p->t.head->brk), heap->from); /* as become() makes it first */
    accept_same_builds(p);
    r = check_layout(p, err);
    if (r == 0)
        compare_protection(p);
    return r;
}

int image_restore(struct image_source *source, const void *carried, size_t len, struct err *err)
{
    struct plan *p = mmap((void *)IMAGE_ROOM_AT, IMAGE_ROOM_BYTES, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (p != (void *)IMAGE_ROOM_AT)
        return err_set(err, ERR_CONFLICT, "memory at the address that is reserved for images");
    p->fd = source->fd;
    p->is_stream = lseek(p->fd, 0, SEEK_CUR) < 0;
    p->magic = source->magic;
    p->spare = dup(source->fd);
    p->base_fd = source->base_fd;
    p->is_base = source->is_base;
    p->is_zygote = source->is_zygote;
    p->changes = *image_changes();
    p->carried.len = MIN_OF(len, sizeof(p->carried.bytes));
    if (len > 0)
        memcpy(p->carried.bytes, carried, p->carried.len);
    int r = p->carried.len == len ?
                prepare(p, err) :
                err_set(err, ERR_PROTOCOL, "too much came before the image was read");
    if (r < 0) {
        const int keep[] = { 3, p->spare };
        struct err ignored = ERR_INIT;
        source->fd = p->spare;
        source->follows = p->follows;
        (void)fd_close_all_but(3, keep, ARRAY_SIZE(keep), &ignored);
        munmap(p, IMAGE_ROOM_BYTES);
        base_unmap();
        return r;
    }
    on_stack(p, p->stack + STACK_BYTES, become);
}

#else

int image_restore(struct image_source *source, const void *carried, size_t len, struct err *err)
{
    (void)source, (void)carried, (void)len;
    return err_set(err, ERR_UNAVAILABLE, "this build of riddle-kernel cannot read images");
}

#endif
