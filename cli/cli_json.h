/* SPDX-License-Identifier: Apache-2.0 */
/* Building JSON without looking at each allocation: there is no going on without memory. */
#ifndef PEAL_CLI_CLI_JSON_H
#define PEAL_CLI_CLI_JSON_H

#include "action.h"

#include <jansson.h>

json_t *json_begin(const char *schema);              /* an object with its schema */
json_t *json_list(json_t *object, const char *key);  /* a new list in it */
json_t *json_child(json_t *object, const char *key); /* a new object in it */
json_t *json_item(json_t *list);                     /* a new object at its end */
void json_text(json_t *object, const char *key, const char *text);
void json_count(json_t *object, const char *key, uint64_t number);
void json_signed(json_t *object, const char *key, int64_t number);
void json_number(json_t *object, const char *key, double number);
void json_flag(json_t *object, const char *key, int flag);
void json_engines(json_t *object, const char *key, uint32_t bits); /* a list of names */
void json_end(json_t *object, const struct output *output);        /* writes and frees */

/* Its collective, root and peer; null where it has none. */
void json_action(json_t *object, const struct action *action);
/* The names of the collectives, and the only one's (null: there are several). */
void json_actions(json_t *object, const struct actions *actions);
/* The ranks of a group that options name, and how many siblings it has; null: the first ones. */
void json_team(json_t *object, const struct cli *cli);
/* The fields of a row in peal.table/1. */
void json_row(json_t *object, const peal_row_info *row);

#endif
