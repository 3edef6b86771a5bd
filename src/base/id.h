#ifndef RIDDLE_BASE_ID_H
#define RIDDLE_BASE_ID_H

#include <stddef.h>

/* Random identifiers from getrandom(2). They cannot fail: a machine without entropy is not one to run on (abort). */
#define ID_UUID_SIZE 37
void id_uuid4(char ret[ID_UUID_SIZE]);
void id_hex(char *ret, size_t digits); /* ret holds digits + 1 */

#endif
