/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maximal flow by blocking flows (Dinic 1970). Distances are counted back from the sink, so that
 * the search from the source enters no dead end but those that its own flow made. What a run
 * changed is remembered and taken back by the next: most runs touch a small part of the network,
 * and there are very many of them.
 */
#include "pack.h"

#include <string.h>

#define ARCS_MAX (1u << 26)

void peal_pack_flow_init(struct pack_flow *flow, peal_ctx *ctx)
{
    *flow = (struct pack_flow){.ctx = ctx};
}

void peal_pack_flow_free(struct pack_flow *flow)
{
    peal_ctx *ctx = flow->ctx;
    if (!ctx)
        return;
    peal_free(ctx, flow->node, (size_t)flow->nodes_room * 5 * sizeof *flow->node);
    peal_free(ctx, flow->arc, flow->arcs_room * sizeof *flow->arc);
    peal_free(ctx, flow->base, flow->base_room * sizeof *flow->base);
    peal_free(ctx, flow->touched, flow->touched_room * sizeof *flow->touched);
    peal_free(ctx, flow->mark, flow->mark_room);
    *flow = (struct pack_flow){0};
}

void peal_pack_flow_clear(struct pack_flow *flow)
{
    flow->nodes = 0;
    flow->arcs = 0;
    flow->ntouched = 0;
}

/* head survives a move to a larger block; what the others hold lives no longer than a run. */
static peal_status make_room(struct pack_flow *flow, uint32_t nodes)
{
    uint32_t room = nodes + nodes / 2 + 8;
    uint32_t *block = peal_alloc(flow->ctx, (size_t)room * 5 * sizeof *block);
    if (!block)
        return PEAL_ERR_MEMORY;
    if (flow->nodes)
        memcpy(block, flow->head, flow->nodes * sizeof *block);
    peal_free(flow->ctx, flow->node, (size_t)flow->nodes_room * 5 * sizeof *block);
    flow->nodes_room = room;
    flow->node = block;
    flow->head = block;
    flow->level = block + room;
    flow->cursor = block + 2 * (size_t)room;
    flow->queue = block + 3 * (size_t)room;
    flow->trail = block + 4 * (size_t)room;
    return PEAL_OK;
}

peal_status peal_pack_flow_nodes(struct pack_flow *flow, uint32_t nodes)
{
    if (nodes > flow->nodes_room)
        PEAL_TRY(make_room(flow, nodes));
    for (; flow->nodes < nodes; flow->nodes++)
        flow->head[flow->nodes] = PACK_NONE;
    return PEAL_OK;
}

static peal_status grow_arcs(struct pack_flow *flow)
{
    peal_ctx *ctx = flow->ctx;
    size_t pairs = flow->arcs / 2 + 1;
    PEAL_TRY(peal_grow(ctx, (void **)&flow->arc, &flow->arcs_room, 2 * pairs, sizeof *flow->arc,
                       ARCS_MAX));
    PEAL_TRY(peal_grow(ctx, (void **)&flow->base, &flow->base_room, pairs, sizeof *flow->base,
                       ARCS_MAX));
    PEAL_TRY(peal_grow(ctx, (void **)&flow->touched, &flow->touched_room, pairs,
                       sizeof *flow->touched, ARCS_MAX));
    return peal_grow(ctx, (void **)&flow->mark, &flow->mark_room, pairs, 1, ARCS_MAX);
}

static void link_arc(struct pack_flow *flow, uint32_t from, uint32_t to, uint64_t cap)
{
    uint32_t arc = flow->arcs++;
    flow->arc[arc] = (struct pack_arc){to, flow->head[from], cap};
    flow->head[from] = arc;
}

peal_status peal_pack_flow_arc(struct pack_flow *flow, uint32_t from, uint32_t to, uint64_t cap)
{
    PEAL_TRY(grow_arcs(flow));
    flow->base[flow->arcs / 2] = cap;
    flow->mark[flow->arcs / 2] = 0;
    link_arc(flow, from, to, cap);
    link_arc(flow, to, from, 0);
    return PEAL_OK;
}

static void restore(struct pack_flow *flow)
{
    for (uint32_t i = 0; i < flow->ntouched; i++) {
        uint32_t pair = flow->touched[i];
        flow->mark[pair] = 0;
        flow->arc[2 * (size_t)pair].cap = flow->base[pair];
        flow->arc[2 * (size_t)pair + 1].cap = 0;
    }
    flow->ntouched = 0;
}

void peal_pack_flow_set(struct pack_flow *flow, uint32_t i, uint64_t cap)
{
    restore(flow);
    flow->base[i] = cap;
    flow->arc[2 * (size_t)i].cap = cap;
}

/* Distance of every node to t over arcs with capacity left, as far as s. */
static int label(struct pack_flow *flow, uint32_t s, uint32_t t)
{
    uint32_t *queue = flow->queue;
    uint32_t first = 0;
    uint32_t last = 0;
    memset(flow->level, 0xff, flow->nodes * sizeof *flow->level);
    memcpy(flow->cursor, flow->head, flow->nodes * sizeof *flow->cursor);
    flow->level[t] = 0;
    queue[last++] = t;
    while (first < last) {
        uint32_t v = queue[first++];
        for (uint32_t a = flow->head[v]; a != PACK_NONE; a = flow->arc[a].next) {
            uint32_t u = flow->arc[a].to;
            if (flow->level[u] != PACK_NONE || !flow->arc[a ^ 1].cap)
                continue;
            flow->level[u] = flow->level[v] + 1;
            if (u == s)
                return 1;
            queue[last++] = u;
        }
    }
    return 0;
}

/* The next arc from v towards the sink, or PACK_NONE. */
static uint32_t advance(struct pack_flow *flow, uint32_t v)
{
    uint32_t a = flow->cursor[v];
    while (a != PACK_NONE &&
           (!flow->arc[a].cap || flow->level[flow->arc[a].to] != flow->level[v] - 1))
        a = flow->arc[a].next;
    flow->cursor[v] = a;
    return a;
}

/* Sends what the trail can take. Returns how many arcs of it are before the first full one. */
static uint32_t push(struct pack_flow *flow, uint32_t length, uint64_t *amount)
{
    uint32_t full = 0;
    for (uint32_t i = 0; i < length; i++)
        if (flow->arc[flow->trail[i]].cap < *amount)
            *amount = flow->arc[flow->trail[i]].cap;
    for (uint32_t i = length; i-- > 0;) {
        uint32_t a = flow->trail[i];
        if (!flow->mark[a / 2]) {
            flow->mark[a / 2] = 1;
            flow->touched[flow->ntouched++] = a / 2;
        }
        flow->arc[a].cap -= *amount;
        flow->arc[a ^ 1].cap += *amount;
        if (!flow->arc[a].cap)
            full = i;
    }
    return full;
}

/* A flow that leaves no way from s to t along falling distances. */
static uint64_t block(struct pack_flow *flow, uint32_t s, uint32_t t, uint64_t limit)
{
    uint64_t total = 0;
    uint32_t length = 0;
    uint32_t v = s;
    while (total < limit) {
        uint32_t a = PACK_NONE;
        if (v == t) {
            uint64_t amount = limit - total;
            length = push(flow, length, &amount);
            total += amount;
            v = flow->arc[flow->trail[length] ^ 1].to;
        } else if ((a = advance(flow, v)) != PACK_NONE) {
            flow->trail[length++] = a;
            v = flow->arc[a].to;
        } else if (length) {
            flow->level[v] = PACK_NONE; /* a dead end */
            v = flow->arc[flow->trail[--length] ^ 1].to;
        } else {
            break;
        }
    }
    return total;
}

static uint64_t augment(struct pack_flow *flow, uint32_t s, uint32_t t, uint64_t limit)
{
    uint64_t total = 0;
    while (total < limit && label(flow, s, t))
        total += block(flow, s, t, limit - total);
    return total;
}

uint64_t peal_pack_flow_run(struct pack_flow *flow, uint32_t s, uint32_t t, uint64_t limit)
{
    restore(flow);
    return augment(flow, s, t, limit);
}

/* A set with s and t has the flow's value from s to t as its net outflow, 0, so that what can still
 * leave it is all that it has; one with s alone was no narrower than the value. */
uint64_t peal_pack_flow_move(struct pack_flow *flow, uint32_t t, uint32_t u, uint64_t value)
{
    return augment(flow, t, u, value);
}

int peal_pack_flow_inside(const struct pack_flow *flow, uint32_t node)
{
    return flow->level[node] == PACK_NONE;
}
