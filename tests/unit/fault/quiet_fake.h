#ifndef RIDDLE_TESTS_UNIT_FAULT_QUIET_FAKE_H
#define RIDDLE_TESTS_UNIT_FAULT_QUIET_FAKE_H

/*
 * The fake provider as the only one. It stands for other processes: nothing of its own fails. What
 * its kernels say is read by the code under test, which may fail.
 */
void quiet_fake_init(void);

#endif
