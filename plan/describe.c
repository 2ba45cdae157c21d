/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan says about itself, without its fabric. */
#include "plan.h"

#define PS_PER_US 1e6

/* Notes the engines, per link class, of one rank's data steps; returns whether it uses packets. */
static int note_engines(const struct peal_plan *plan, const struct plan_rank *rank,
                        uint32_t *move_engines)
{
    int packets = 0;
    for (uint32_t s = 0; s < rank->nsteps; s++) {
        const struct plan_step *step = &rank->steps[s];
        for (uint32_t i = 0; i < (uint32_t)step->nsrc + step->ndst; i++) {
            const struct plan_operand *operand = &rank->operands[step->operands + i];
            packets |= operand->buffer == PLAN_BUF_PACKET;
            if (operand->link != PLAN_NO_LINK)
                move_engines[plan->links[operand->link - 1].link_class] |= 1u << step->engine;
        }
    }
    return packets;
}

/* A lane whose steps run on an SM holds one as long as the call lasts. */
static int lane_holds_sm(const struct plan_rank *rank, const struct plan_lane *lane)
{
    for (uint32_t i = 0; i < lane->pre + lane->body + lane->post; i++) {
        const struct plan_step *step = &rank->steps[lane->first + i];
        if ((peal_plan_op_moves(step->op) || peal_plan_op_signals(step->op)) &&
            (step->engine == PEAL_ENGINE_SM || step->engine == PEAL_ENGINE_TMA))
            return 1;
    }
    return 0;
}

static uint32_t rank_sms(const struct plan_rank *rank)
{
    uint32_t sms = 0;
    for (uint32_t i = 0; i < rank->nlanes; i++)
        sms += (uint32_t)lane_holds_sm(rank, &rank->lanes[i]);
    return sms;
}

/* Bytes that the tile of a chunk of the largest message has on average: all its trips together. */
static double chunk_bytes(const struct peal_plan *plan, uint32_t chunk)
{
    uint32_t blocks = peal_plan_blocks(plan), own = plan->nchunks / blocks;
    double block = (double)plan->max_bytes / (blocks > plan->nranks ? plan->nranks : blocks);
    if (!plan->weights)
        return block / own;
    uint32_t first = chunk / own * own;
    double sum = (double)plan->prefix[first + own] - plan->prefix[first];
    return block * plan->weights[chunk] / sum;
}

/* Of all chunks of the step's span. A span of a few bytes may name millions of equal chunks. */
static double span_bytes(const struct peal_plan *plan, const struct plan_step *step)
{
    double bytes = 0;
    if (!plan->weights)
        return chunk_bytes(plan, step->chunk) * ((double)step->more + 1);
    for (uint32_t k = 0; k <= step->more; k++)
        bytes += chunk_bytes(plan, step->chunk + k * step->stride);
    return bytes;
}

/* 1: the step is a message to another host. */
static int crosses(const struct peal_plan *plan, const struct plan_rank *rank,
                   const struct plan_step *step)
{
    for (uint32_t i = step->nsrc; i < (uint32_t)step->nsrc + step->ndst; i++) {
        const struct plan_operand *to = &rank->operands[step->operands + i];
        if (to->link != PLAN_NO_LINK && plan->links[to->link - 1].link_class == PEAL_LINK_NET)
            return 1;
    }
    return 0;
}

/* Messages that cross hosts, of the rank with most of them. */
static void describe_messages(const struct peal_plan *plan, peal_row_info *info)
{
    uint64_t trips = peal_plan_trip_bound(plan);
    for (uint32_t r = peal_plan_first(plan); r < peal_plan_end(plan); r++) {
        const struct plan_rank *rank = peal_plan_program(plan, r);
        uint64_t messages = 0;
        double bytes = 0;
        for (uint32_t s = 0; s < rank->nsteps; s++) {
            const struct plan_step *step = &rank->steps[s];
            if (!crosses(plan, rank, step))
                continue;
            messages += trips;
            bytes += span_bytes(plan, step);
        }
        if (messages <= info->net_messages)
            continue;
        info->net_messages = messages;
        info->net_message_bytes = (uint64_t)(bytes / (double)messages);
    }
}

static void describe_times(const struct peal_plan *plan, peal_row_info *info)
{
    info->time_us = (double)plan->time_ps / PS_PER_US;
    info->bound_us = (double)plan->bound_ps / PS_PER_US;
    if (plan->time_ps == 0)
        return;
    info->algbw_gbs = (double)plan->max_bytes / info->time_us / 1e3;
    info->busbw_gbs = info->algbw_gbs * peal_plan_bus_factor(plan->collective, plan->nranks);
}

uint64_t peal_plan_scratch_bytes(const struct peal_plan *plan)
{
    uint64_t bytes = 0;
    for (uint8_t buffer = PLAN_BUF_SCRATCH; buffer <= PLAN_BUF_PACKET; buffer++)
        bytes += peal_plan_copies(plan, buffer) * peal_plan_memory_bytes(plan, buffer);
    return bytes;
}

void peal_plan_describe(const struct peal_plan *plan, peal_row_info *info)
{
    *info = (peal_row_info){.size = sizeof *info};
    info->collective = plan->collective;
    info->root = plan->root;
    info->peer = plan->peer;
    info->min_bytes = plan->min_bytes;
    info->max_bytes = plan->max_bytes;
    peal_copy_text(info->algorithm, sizeof info->algorithm, plan->algorithm);
    peal_copy_text(info->detail, sizeof info->detail, plan->detail);
    info->channels = plan->channels;
    info->tile_bytes = plan->tile_bytes;
    int packets = 0;
    for (uint32_t r = peal_plan_first(plan); r < peal_plan_end(plan); r++) {
        const struct plan_rank *program = peal_plan_program(plan, r);
        packets |= note_engines(plan, program, info->move_engines);
        uint32_t sms = rank_sms(program);
        if (sms > info->sms)
            info->sms = sms;
    }
    info->protocol = packets ? "packet" : "simple";
    info->scratch_bytes = peal_plan_scratch_bytes(plan);
    info->wire = (peal_wire)peal_plan_wire(plan);
    describe_messages(plan, info);
    describe_times(plan, info);
}
