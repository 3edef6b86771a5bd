#ifndef RIDDLE_KERNEL_ZYGOTE_MEMORY_H
#define RIDDLE_KERNEL_ZYGOTE_MEMORY_H

/*
 * The memory of a zygote, arranged so that forks are cheap. What a fork and the end of its child
 * cost grows with the number of mappings and of page-table entries, not with what the child does.
 */

/* Each in the zygote, once, when everything is loaded. Best effort. */

/*
 * Takes the free chunks inside the C library's heap, so that kernels allocate side by side at its
 * end.
 */
void memory_fill_gaps(void);

/*
 * Collapses the heap into huge pages: a fork copies one entry for 2 MB. A kernel that writes still
 * copies only 4 kB.
 */
void memory_collapse(void);

/*
 * Joins the five mappings of each shared library to two: what is read and executed, and what is
 * written. It costs the separation of read-only data from code, and of relocated pointers from
 * variables (RELRO), inside kernels.
 */
void memory_join_libraries(void);

#endif
