#ifndef RIDDLE_KERNEL_ZYGOTE_ARENAS_H
#define RIDDLE_KERNEL_ZYGOTE_ARENAS_H

/*
 * Where CPython's small objects live: one range of addresses instead of a mapping per arena
 * wherever there is a gap between libraries. Neighbouring arenas share huge pages, so that a fork
 * copies fewer entries.
 */

/*
 * Before CPython starts. Best effort: without the range, arenas are where they always were. A
 * second call does nothing.
 */
void arenas_install(void);

#endif
