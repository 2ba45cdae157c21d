/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks of a group and of its siblings, and the pairs of a sendrecv, as options name them. */
#ifndef PEAL_CLI_TEAM_H
#define PEAL_CLI_TEAM_H

#include "action.h"

int team_read(const struct cli *cli, struct team *team);
/* Leaves the request as it is when no group is named. It refers to the team. */
void team_request(const struct team *team, peal_request *request);
/* Memory that lasts as long as the team. */
uint32_t *team_keep(struct team *team, size_t count);
uint32_t team_siblings(const struct team *team); /* how many groups */
void team_free(struct team *team);

/* ---- pairs.c */
int pairs_read(struct cli *cli, struct choice *choice);
/* The pairs of a sendrecv by so many ranks whose root is set: a list, or the peer of the root. */
void pairs_choose(const struct choice *choice, uint32_t ranks, struct action *action);
/* 1: all of them are among so many ranks. */
int pairs_among(const struct action *action, uint32_t ranks);

#endif
