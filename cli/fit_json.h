/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON that nccl-tests write (-J FILE). */
#ifndef PEAL_CLI_FIT_JSON_H
#define PEAL_CLI_FIT_JSON_H

#include "cli.h"

#include <jansson.h>

/* Adds its series; with the times in place, where there are no others. */
int add_nccl_json(const json_t *root, const char *path, peal_measured *measured);

#endif
