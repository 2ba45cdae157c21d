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

/* ---- custom.c: a team keeps them */
/* Of the custom actions the blocks, of --algorithm F.lua; where several actions are chosen, what is
 * not to be had is left out. */
int custom_choose(struct cli *cli, const peal_fabric *fabric, const peal_request *request,
                  struct actions *actions);
/* Of a table with programs, whose rows of custom all have the same; other collectives have none. */
void custom_of_table(struct team *team, const peal_table *table, struct action *action);
/* How many blocks a rank gives (end 0) or gets (1), and which is the nth of them. */
uint32_t custom_held(const struct custom *custom, uint32_t rank, int end);
uint32_t custom_block(const struct custom *custom, uint32_t rank, int end, uint64_t nth);
const uint32_t *custom_givers(const struct custom *custom, uint32_t block, uint32_t *count);

#endif
