#ifndef RIDDLE_BASE_LOG_H
#define RIDDLE_BASE_LOG_H

/*
 * Structured logging to standard error: one line per event, `key=value` (logfmt) or JSON. Libraries
 * do not log; the boundary (a server, a command) logs once. Secrets never come here.
 *
 *   log_info("kernel.exit", LOG_STR("thread", id), LOG_INT("status", status));
 */

#include <stdbool.h>

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR, _LOG_LEVEL_MAX };
enum log_format { LOG_FORMAT_KV, LOG_FORMAT_JSON, _LOG_FORMAT_MAX };

struct log_field {
    const char *key; /* NULL ends the list */
    enum { LOG_FIELD_STR, LOG_FIELD_INT, LOG_FIELD_DBL } type;
    union {
        const char *s;
        long long i;
        double d;
    };
};

#define LOG_STR(k, v) ((struct log_field){ .key = (k), .type = LOG_FIELD_STR, .s = (v) })
#define LOG_INT(k, v) ((struct log_field){ .key = (k), .type = LOG_FIELD_INT, .i = (long long)(v) })
#define LOG_DBL(k, v) ((struct log_field){ .key = (k), .type = LOG_FIELD_DBL, .d = (v) })

void log_setup(enum log_level level, enum log_format format);
void log_set_fd(int fd); /* 2 by default; for tests */
bool log_enabled(enum log_level level);
void log_event(enum log_level level, const char *event, const struct log_field *fields);

#define log_at(level, event, ...)                                                                  \
    do {                                                                                           \
        if (log_enabled(level))                                                                    \
            log_event(level, event,                                                                \
                      (const struct log_field[]){ __VA_ARGS__ __VA_OPT__(, ){ .key = NULL } });    \
    } while (0)
#define log_debug(event, ...) log_at(LOG_DEBUG, event __VA_OPT__(, ) __VA_ARGS__)
#define log_info(event, ...) log_at(LOG_INFO, event __VA_OPT__(, ) __VA_ARGS__)
#define log_warn(event, ...) log_at(LOG_WARN, event __VA_OPT__(, ) __VA_ARGS__)
#define log_error(event, ...) log_at(LOG_ERROR, event __VA_OPT__(, ) __VA_ARGS__)

#endif
