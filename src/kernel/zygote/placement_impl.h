#ifndef RIDDLE_KERNEL_ZYGOTE_PLACEMENT_IMPL_H
#define RIDDLE_KERNEL_ZYGOTE_PLACEMENT_IMPL_H

#define PLAN_HEADING "riddle heap plan 1\n"

/* For the one that records: the blocks that follow are of this section. */
void blocks_section(const char *name);

#endif
