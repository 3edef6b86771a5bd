#ifndef RIDDLE_BASE_ID_H
#define RIDDLE_BASE_ID_H

#include <stddef.h>
#include "base/err.h"

/*
 * Random identifiers from getrandom(2). They cannot fail: a machine without entropy is not one to
 * run on (abort).
 */
#define ID_UUID_SIZE 37
void id_uuid4(char ret[ID_UUID_SIZE]);
void id_hex(char *ret, size_t digits); /* ret holds digits + 1 */

/* The id of a thread, which clients may choose: letters, digits and - _ . : */
#define THREAD_ID_MAX 100
int thread_id_check(const char *id, struct err *err); /* VALIDATION */

#endif
