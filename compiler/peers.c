/* SPDX-License-Identifier: Apache-2.0 */
/* Who has something for whom in each collective, where it goes in one hop. */
#include "compiler.h"

int peal_from_root(peal_collective collective)
{
    return collective == PEAL_BROADCAST || collective == PEAL_SCATTER;
}

int peal_to_root(peal_collective collective)
{
    return collective == PEAL_REDUCE || collective == PEAL_GATHER;
}

double peal_peers_share(const struct planner *planner)
{
    switch (planner->request.collective) {
    case PEAL_ALLREDUCE:
    case PEAL_BROADCAST:
    case PEAL_REDUCE:
    case PEAL_SENDRECV:
        return 1;
    case PEAL_BARRIER:
        return 0;
    default:
        return 1.0 / planner->group.n;
    }
}

uint32_t peal_peers_blocks(const struct planner *planner)
{
    uint32_t blocks = planner->npairs ? planner->npairs : 1;
    for (uint32_t i = 0; i < peal_plan_collective(planner->request.collective)->block_power; i++)
        blocks *= planner->group.n;
    return blocks;
}

static uint64_t listed_peers(const struct planner *planner, uint32_t rank, int into)
{
    uint64_t peers = 0;
    uint32_t from, to;
    for (uint32_t i = 0; peal_planner_pair(planner, i, &from, &to); i++)
        if ((into ? to : from) == rank)
            peers |= 1ull << (into ? from : to);
    return peers;
}

uint64_t peal_peers(const struct planner *planner, uint32_t rank, int into)
{
    peal_collective collective = planner->request.collective;
    uint32_t root = planner->request.root;
    uint64_t all = UINT64_MAX >> (PEERS_MAX - planner->group.n), peers = all;
    if (collective == PEAL_BARRIER)
        peers = 0;
    else if (collective == PEAL_SENDRECV)
        peers = listed_peers(planner, rank, into);
    else if (into ? peal_from_root(collective) : peal_to_root(collective))
        peers = rank == root ? 0 : 1ull << root;
    else if (peal_from_root(collective) || peal_to_root(collective))
        peers = rank == root ? all : 0;
    return peers & ~(1ull << rank);
}

uint32_t peal_peers_count(uint64_t peers)
{
    uint32_t count = 0;
    for (; peers; peers &= peers - 1)
        count++;
    return count;
}

int peal_peers_once(const struct planner *planner)
{
    uint64_t seen[PEERS_MAX] = {0};
    uint32_t from, to;
    if (planner->request.collective != PEAL_SENDRECV)
        return 1;
    for (uint32_t i = 0; peal_planner_pair(planner, i, &from, &to); i++) {
        if (seen[from] >> to & 1)
            return 0;
        seen[from] |= 1ull << to;
    }
    return 1;
}
