/* SPDX-License-Identifier: Apache-2.0 */
/* What each collective is; see action.h. */
#include "team.h"

#include <string.h>

enum holds { NOTHING, BLOCK, ALL, ROOT_BLOCK, ROOT_ALL, PEER_BLOCK };

struct about {
    enum holds in;
    enum holds out;
    unsigned char reduces;
    unsigned char rooted;
    unsigned char in_place;
};

static const struct about table[PEAL_COLLECTIVE_COUNT] = {
    [PEAL_ALLREDUCE] = {BLOCK, BLOCK, 1, 0, 1},
    [PEAL_REDUCE_SCATTER] = {ALL, BLOCK, 1, 0, 1},
    [PEAL_ALLGATHER] = {BLOCK, ALL, 0, 0, 1},
    [PEAL_BROADCAST] = {ROOT_BLOCK, BLOCK, 0, 1, 1},
    [PEAL_REDUCE] = {BLOCK, ROOT_BLOCK, 1, 1, 1},
    [PEAL_SCATTER] = {ROOT_ALL, BLOCK, 0, 1, 1},
    [PEAL_GATHER] = {BLOCK, ROOT_ALL, 0, 1, 1},
    [PEAL_ALLTOALL] = {ALL, ALL, 0, 0, 0},
    [PEAL_SENDRECV] = {ROOT_BLOCK, PEER_BLOCK, 0, 1, 0},
    [PEAL_BARRIER] = {NOTHING, NOTHING, 0, 0, 0},
    [PEAL_ALLTOALLV] = {ALL, ALL, 0, 0, 0},
    [PEAL_CUSTOM] = {NOTHING, NOTHING, 1, 0, 0},
};

static const struct about *about(const struct action *action)
{
    return &table[action->collective];
}

int action_reduces(const struct action *action)
{
    return about(action)->reduces;
}

int action_rooted(const struct action *action)
{
    return about(action)->rooted;
}

int action_in_place(const struct action *action)
{
    return about(action)->in_place;
}

static int is_all(enum holds holds)
{
    return holds == ALL || holds == ROOT_ALL;
}

int action_blocks(const struct action *action)
{
    return is_all(about(action)->in) || is_all(about(action)->out);
}

int action_same(const struct action *a, const struct action *b)
{
    return a->collective == b->collective && a->root == b->root && a->peer == b->peer;
}

static uint32_t pairs_of(const struct action *action, uint32_t rank, uint32_t end)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < action->npairs; i++)
        count += action->pairs[2 * (size_t)i + end] == rank;
    return count;
}

static uint32_t blocks(enum holds holds, const struct action *action, uint32_t rank, uint32_t ranks)
{
    switch (holds) {
    case NOTHING:
        return 0;
    case BLOCK:
        return 1;
    case ALL:
        return ranks;
    case ROOT_BLOCK:
        return rank == action->root;
    case ROOT_ALL:
        return rank == action->root ? ranks : 0;
    default:
        return rank == action->peer;
    }
}

uint32_t action_input(const struct action *action, uint32_t rank, uint32_t ranks)
{
    if (action->custom)
        return custom_held(action->custom, rank, 0);
    return action->npairs ? pairs_of(action, rank, 0)
                          : blocks(about(action)->in, action, rank, ranks);
}

uint32_t action_output(const struct action *action, uint32_t rank, uint32_t ranks)
{
    if (action->custom)
        return custom_held(action->custom, rank, 1);
    return action->npairs ? pairs_of(action, rank, 1)
                          : blocks(about(action)->out, action, rank, ranks);
}

/* ---- sizes */

/* Blocks that a message is counted in. */
static uint32_t counted(const struct action *action, uint32_t ranks)
{
    if (action->custom)
        return action->custom->blocks;
    return action_blocks(action) ? ranks : 1;
}

uint64_t action_bytes(const struct action *action, uint64_t count, peal_dtype dtype, uint32_t ranks)
{
    if (action->collective == PEAL_BARRIER)
        return 0;
    return count * peal_dtype_size(dtype) * counted(action, ranks);
}

uint64_t action_room(const struct action *action, uint64_t count, peal_dtype dtype, uint32_t ranks)
{
    uint64_t most = 1;
    for (uint32_t r = 0; action->npairs && r < ranks; r++) {
        uint32_t in = action_input(action, r, ranks), out = action_output(action, r, ranks);
        most = in > most ? in : most;
        most = out > most ? out : most;
    }
    return most * action_bytes(action, count, dtype, ranks);
}

uint64_t action_count(const struct action *action, uint64_t bytes, peal_dtype dtype, uint32_t ranks)
{
    uint64_t elements = bytes / peal_dtype_size(dtype);
    if (action->collective == PEAL_BARRIER)
        return 0;
    uint32_t blocks = counted(action, ranks);
    return elements && elements < blocks ? 1 : elements / blocks;
}

double action_bus_factor(const struct action *action, uint32_t ranks)
{
    double share = ranks ? (ranks - 1.0) / ranks : 0;
    if (action->collective == PEAL_ALLREDUCE)
        return 2 * share;
    return action_blocks(action) ? share : 1;
}

/* ---- words */

const char *action_text(const struct action *action, char *text)
{
    const char *name = peal_collective_name(action->collective);
    if (action->collective == PEAL_SENDRECV && action->root == action->peer)
        (void)snprintf(text, ACTION_TEXT, "%s (list %lu of pairs)", name,
                       (unsigned long)action->root);
    else if (action->collective == PEAL_SENDRECV)
        (void)snprintf(text, ACTION_TEXT, "%s (rank %lu to rank %lu)", name,
                       (unsigned long)action->root, (unsigned long)action->peer);
    else if (action_rooted(action))
        (void)snprintf(text, ACTION_TEXT, "%s (root %lu)", name, (unsigned long)action->root);
    else
        (void)snprintf(text, ACTION_TEXT, "%s", name);
    return text;
}

const char *action_root_text(const struct action *action, char *text)
{
    if (action->collective == PEAL_SENDRECV && action->root == action->peer)
        (void)snprintf(text, ACTION_TEXT, "list %lu", (unsigned long)action->root);
    else if (action->collective == PEAL_SENDRECV)
        (void)snprintf(text, ACTION_TEXT, "%lu>%lu", (unsigned long)action->root,
                       (unsigned long)action->peer);
    else if (action_rooted(action))
        (void)snprintf(text, ACTION_TEXT, "%lu", (unsigned long)action->root);
    else
        (void)snprintf(text, ACTION_TEXT, "-");
    return text;
}

const char *action_op_name(const struct action *action, peal_op op)
{
    return action_reduces(action) ? peal_op_name(op) : "none";
}

const char *action_dtype_name(const struct action *action, peal_dtype dtype)
{
    return action->collective == PEAL_BARRIER ? "none" : peal_dtype_name(dtype);
}
