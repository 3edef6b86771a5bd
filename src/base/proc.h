#ifndef RIDDLE_BASE_PROC_H
#define RIDDLE_BASE_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include "base/err.h"

/* The directory of the running program (from /proc/self/exe), into ret. */
int proc_self_dir(char *ret, size_t n, struct err *err);

/*
 * A field of /proc/<pid>/status such as "VmRSS" (in kB) or "Threads"; -1 when there is none. pid 0:
 * self.
 */
long long proc_status_value(pid_t pid, const char *field);

/* "signal 9 (Killed)" / "exit status 3" for a wait(2) status. */
void proc_describe_exit(int wait_status, char *ret, size_t n);

int proc_pidfd_open(pid_t pid, struct err *err);
int proc_pidfd_signal(int pidfd, int sig, struct err *err);

/* 'R', 'S', 'T' (stopped), 'Z' (a zombie), …; 'X' when there is no such process. */
char proc_state(pid_t pid);
/* Children of this process that have ended and are not reaped, at most `max`. Their number. */
size_t proc_zombies(pid_t *ret, size_t max);

/*
 * Lets the process or thread (0: the caller) run in long slices, with its share of the processor as
 * before. Linux lets a task that wakes up go before one with longer slices; it would otherwise wait
 * for the end of a slice or for the next tick, 4 ms. Children and threads inherit it. Before Linux
 * 6.12 nothing changes.
 */
void proc_run_in_long_slices(pid_t pid);

/* True if `name` is an executable file on PATH. */
bool proc_have_program(const char *name);

#endif
