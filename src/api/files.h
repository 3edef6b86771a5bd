#ifndef RIDDLE_API_FILES_H
#define RIDDLE_API_FILES_H

/* Files as answers. */

#include "api/app.h"

bool file_is_image(const char *name);

/* Answers with a file of the chat's /workspace, as fast as the client takes it. NULL: not found. */
void workspace_download(struct http_request *req, struct chat *c, const char *path);

void session_download(struct http_request *req);

#endif
