/* SPDX-License-Identifier: Apache-2.0 */
/* The program of a script: its memory, its hops, and the order of its signals once all are known.
 */
#include "script.h"

#include <string.h>

const struct hop *peal_script_hop(struct script_program *p, uint32_t from, uint32_t to)
{
    size_t at = (size_t)from * p->n + to;
    if (!p->hop_known[at])
        peal_planner_hop(p->planner, from, to, &p->hops[at]);
    p->hop_known[at] = 1;
    return &p->hops[at];
}

/* A lane that sends to many has more transfers under way. */
static uint32_t in_flight(const peal_schedule *script)
{
    uint32_t few = 3;
    for (uint32_t i = 0; i < script->nsteps; i++)
        if ((uint32_t)script->steps[i].nfrom + script->steps[i].nto > few)
            return BURST_EVENTS;
    return BUILD_EVENTS;
}

/* Stages with a chunk in common, and all that have one in common with these. */
static peal_status find_families(struct script_program *p)
{
    const peal_schedule *script = p->script;
    size_t chunks = script->head->nchunks;
    uint32_t *stage_of = peal_alloc(p->ctx, chunks * sizeof *stage_of);
    if (!stage_of)
        return PEAL_ERR_MEMORY;
    memset(stage_of, 0xff, chunks * sizeof *stage_of);
    for (uint32_t s = 0; s < p->stages; s++)
        p->family[s] = s;
    for (uint32_t i = 0; i < script->nsteps; i++) {
        const struct script_step *step = &script->steps[i];
        uint32_t *with = &stage_of[step->chunk];
        uint32_t a = p->family[step->stage], b = *with == NO_INDEX ? a : p->family[*with];
        *with = step->stage;
        for (uint32_t s = 0; a != b && s < p->stages; s++)
            if (p->family[s] == a || p->family[s] == b)
                p->family[s] = a < b ? a : b;
    }
    peal_free(p->ctx, stage_of, chunks * sizeof *stage_of);
    for (uint32_t s = 0; s < p->stages; s++)
        for (uint32_t k = 0; k < p->stages; k++) {
            p->place[s] += k < s && p->family[k] == p->family[s];
            p->stages_of[s] += p->family[k] == p->family[s];
        }
    return PEAL_OK;
}

static int make_room(struct script_program *p)
{
    size_t lanes = p->nlanes, pairs = lanes * lanes, hops = (size_t)p->n * p->n;
    p->lanes = peal_calloc(p->ctx, lanes, sizeof *p->lanes);
    p->pair_signal = peal_alloc(p->ctx, pairs * sizeof *p->pair_signal);
    p->pair_pipe = peal_alloc(p->ctx, pairs * sizeof *p->pair_pipe);
    p->enters = peal_calloc(p->ctx, lanes * p->n, 1);
    p->leaves = peal_calloc(p->ctx, lanes * p->n, 1);
    p->touched = peal_calloc(p->ctx, lanes * p->n, sizeof *p->touched);
    p->totals = peal_calloc(p->ctx, pairs * SEM_STREAMS, sizeof *p->totals);
    p->hops = peal_alloc(p->ctx, hops * sizeof *p->hops);
    p->hop_known = peal_calloc(p->ctx, hops, 1);
    if (!p->lanes || !p->pair_signal || !p->pair_pipe || !p->enters || !p->leaves || !p->touched ||
        !p->totals || !p->hops || !p->hop_known)
        return 0;
    memset(p->pair_signal, 0xff, pairs * sizeof *p->pair_signal);
    memset(p->pair_pipe, 0xff, pairs * sizeof *p->pair_pipe);
    for (uint32_t i = 0; i < p->nlanes; i++) {
        struct script_lane *lane = &p->lanes[i];
        uint32_t stage = i % p->stages;
        lane->known = p->n * p->stages_of[stage];
        lane->clock = peal_calloc(p->ctx, lane->known, sizeof *lane->clock);
        if (!lane->clock)
            return 0;
        lane->clock[peal_script_rank(p, i) * p->stages_of[stage] + p->place[stage]] =
            SCRIPT_ENTERED;
    }
    return 1;
}

static void free_lane(struct script_program *p, struct script_lane *lane)
{
    peal_free(p->ctx, lane->items, lane->items_capacity * sizeof *lane->items);
    peal_free(p->ctx, lane->behind, lane->behind ? lane->nitems * sizeof *lane->behind : 0);
    peal_free(p->ctx, lane->clocks,
              (size_t)lane->clocks_capacity * lane->known * sizeof *lane->clocks);
    peal_free(p->ctx, lane->clock, lane->known * sizeof *lane->clock);
}

void peal_script_program_free(struct script_program *p)
{
    if (!p)
        return;
    size_t lanes = p->nlanes, pairs = lanes * lanes, hops = (size_t)p->n * p->n;
    for (uint32_t i = 0; p->lanes && i < p->nlanes; i++)
        free_lane(p, &p->lanes[i]);
    peal_free(p->ctx, p->lanes, lanes * sizeof *p->lanes);
    peal_free(p->ctx, p->pair_signal, pairs * sizeof *p->pair_signal);
    peal_free(p->ctx, p->pair_pipe, pairs * sizeof *p->pair_pipe);
    peal_free(p->ctx, p->enters, lanes * p->n);
    peal_free(p->ctx, p->leaves, lanes * p->n);
    peal_free(p->ctx, p->touched, lanes * p->n * sizeof *p->touched);
    peal_free(p->ctx, p->totals, pairs * SEM_STREAMS * sizeof *p->totals);
    peal_free(p->ctx, p->hops, hops * sizeof *p->hops);
    peal_free(p->ctx, p->hop_known, hops);
    peal_free(p->ctx, p->signals, p->signals_capacity * sizeof *p->signals);
    peal_free(p->ctx, p->pushes, p->pushes_capacity * sizeof *p->pushes);
    peal_free(p->ctx, p->pipes, p->pipes_capacity * sizeof *p->pipes);
    peal_free(p->ctx, p->slots, p->slots_capacity * sizeof *p->slots);
    peal_free(p->ctx, p->operands, p->operands_capacity * sizeof *p->operands);
    peal_free(p->ctx, p->order, p->order_capacity * sizeof *p->order);
    peal_free(p->ctx, p, sizeof *p);
}

/* ---- signals in the order of their lanes --------------------------------------------------- */

/* Strings the signals behind each item together, the first one made first. Those that stand behind
 * nothing in the body (a lane that only gives credit has waited before) do not exist. */
static peal_status string_signals(struct script_program *p)
{
    for (uint32_t i = 0; i < p->nlanes; i++) {
        struct script_lane *lane = &p->lanes[i];
        lane->behind = peal_alloc(p->ctx, lane->nitems * sizeof *lane->behind);
        if (lane->nitems && !lane->behind)
            return PEAL_ERR_MEMORY;
        if (lane->nitems)
            memset(lane->behind, 0xff, lane->nitems * sizeof *lane->behind);
    }
    for (uint32_t i = p->nsignals; i-- > 0;) {
        struct script_signal *signal = &p->signals[i];
        uint32_t *first = &p->lanes[signal->from].behind[signal->after - SCRIPT_ENTERED - 1];
        signal->chain = *first;
        *first = i;
    }
    return PEAL_OK;
}

static void number_signals(struct script_program *p)
{
    for (uint32_t i = 0; i < p->nlanes; i++)
        for (uint32_t k = 0; k < p->lanes[i].nitems; k++)
            for (uint32_t s = p->lanes[i].behind[k]; s != NO_INDEX; s = p->signals[s].chain) {
                struct script_signal *signal = &p->signals[s];
                size_t pair = (size_t)signal->from * p->nlanes + signal->to;
                signal->index = p->totals[pair * SEM_STREAMS + signal->sem]++;
            }
}

/* Clocks have told all they can; they are most of the memory. */
static void drop_clocks(struct script_program *p)
{
    for (uint32_t i = 0; p->lanes && i < p->nlanes; i++) {
        struct script_lane *lane = &p->lanes[i];
        peal_free(p->ctx, lane->clocks,
                  (size_t)lane->clocks_capacity * lane->known * sizeof *lane->clocks);
        lane->clocks = NULL;
        lane->clocks_capacity = 0;
    }
}

peal_status peal_script_lower(const struct planner *planner, struct script_program **program_out)
{
    const peal_schedule *script = planner->script;
    struct script_program *p = peal_calloc(planner->ctx, 1, sizeof *p);
    if (!p)
        return PEAL_ERR_MEMORY;
    p->planner = planner;
    p->ctx = planner->ctx;
    p->script = script;
    p->n = script->head->nranks;
    p->stages = script->stages;
    p->nlanes = p->n * p->stages;
    p->in_flight = in_flight(script);
    peal_status status = find_families(p);
    if (status == PEAL_OK)
        status = make_room(p) ? peal_script_moves(p, script) : PEAL_ERR_MEMORY;
    drop_clocks(p);
    if (status == PEAL_OK)
        status = string_signals(p);
    if (status != PEAL_OK) {
        peal_script_program_free(p);
        return status;
    }
    number_signals(p);
    *program_out = p;
    return PEAL_OK;
}
