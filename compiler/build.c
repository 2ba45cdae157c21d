/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the steps of one rank's program. Errors are sticky: the emitters stay free of checks. */
#include "compiler.h"

#include <string.h>

#define STEPS_MAX (1u << 26)
#define OPERANDS_MAX (1u << 28)

struct plan_operand peal_op_user(uint32_t rank, uint8_t buffer, uint32_t chunk)
{
    return (struct plan_operand){rank, chunk, PLAN_NO_LINK, 0, buffer, 0};
}

struct plan_operand peal_op_slot(uint32_t rank, uint8_t buffer, uint32_t region, uint32_t slot)
{
    return (struct plan_operand){rank, region, PLAN_NO_LINK, (uint16_t)slot, buffer, 0};
}

static void fail(struct build *b, peal_status status)
{
    if (b->status == PEAL_OK)
        b->status = status;
}

void peal_build_rank(struct build *b, uint32_t rank)
{
    struct plan_slice *slice = b->slice;
    slice->program.nlanes = slice->program.nsteps = slice->program.noperands = 0;
    slice->nlinks = 0;
    peal_plan_link_index_clear(&b->links);
    b->status = PEAL_OK;
    b->self = rank;
}

uint32_t peal_build_region(struct build *b, uint8_t buffer, uint32_t width, uint32_t depth,
                           uint64_t slot_bytes)
{
    struct peal_plan *plan = b->plan;
    peal_status status =
        peal_grow(plan->ctx, (void **)&plan->regions, &plan->regions_capacity,
                  (size_t)plan->nregions + 1, sizeof *plan->regions, PLAN_REGIONS_MAX);
    if (status != PEAL_OK || width > UINT16_MAX) {
        fail(b, status != PEAL_OK ? status : PEAL_ERR_LIMIT);
        return 0;
    }
    plan->regions[plan->nregions] =
        (struct plan_region){buffer, (uint16_t)width, (uint16_t)depth, slot_bytes, 0};
    return plan->nregions++;
}

uint32_t peal_build_wire_region(struct build *b, uint8_t wire, uint32_t width, uint32_t depth,
                                uint64_t slot_bytes)
{
    uint32_t region = peal_build_region(b, PLAN_BUF_SCRATCH, width, depth, slot_bytes);
    if (b->status == PEAL_OK)
        b->plan->regions[region].wire = wire;
    return region;
}

void peal_build_lane(struct build *b)
{
    struct plan_rank *rank = &b->slice->program;
    peal_status status = peal_grow(b->plan->ctx, (void **)&rank->lanes, &rank->lanes_capacity,
                                   (size_t)rank->nlanes + 1, sizeof *rank->lanes, PLAN_LANES_MAX);
    if (status != PEAL_OK) {
        fail(b, status);
        return;
    }
    rank->lanes[rank->nlanes++] = (struct plan_lane){rank->nsteps, 0, 0, 0};
    b->section = 0;
    b->events = 0;
    b->next_event = 0;
}

void peal_build_section(struct build *b, uint32_t section)
{
    b->section = section;
}

void peal_build_reserve(struct build *b, uint64_t steps, uint64_t operands)
{
    struct plan_rank *rank = &b->slice->program;
    if (b->status != PEAL_OK || steps > STEPS_MAX || operands > OPERANDS_MAX)
        return;
    fail(b, peal_grow(b->plan->ctx, (void **)&rank->steps, &rank->steps_capacity, (size_t)steps,
                      sizeof *rank->steps, STEPS_MAX));
    fail(b, peal_grow(b->plan->ctx, (void **)&rank->operands, &rank->operands_capacity,
                      (size_t)operands, sizeof *rank->operands, OPERANDS_MAX));
}

static void add_step(struct build *b, const struct plan_step *step)
{
    struct plan_rank *rank = &b->slice->program;
    if (b->status != PEAL_OK)
        return;
    peal_status status = peal_grow(b->plan->ctx, (void **)&rank->steps, &rank->steps_capacity,
                                   (size_t)rank->nsteps + 1, sizeof *rank->steps, STEPS_MAX);
    if (status != PEAL_OK) {
        fail(b, status);
        return;
    }
    struct plan_lane *lane = &rank->lanes[rank->nlanes - 1];
    uint32_t *counts[] = {&lane->pre, &lane->body, &lane->post};
    rank->steps[rank->nsteps++] = *step;
    ++*counts[b->section];
}

/* ---- links ------------------------------------------------------------------ */

/* 1 + the index of the link from -> to in the slice, made when new; 0 on failure. */
static uint32_t link_between(struct build *b, uint32_t from, uint32_t to)
{
    struct plan_slice *slice = b->slice;
    uint32_t number = 0;
    int added = 0;
    if (b->status == PEAL_OK)
        fail(b, peal_plan_link_find(b->plan->ctx, &b->links, &slice->links, &slice->nlinks,
                                    &slice->links_capacity, from, to, &number, &added));
    if (b->status != PEAL_OK || !added)
        return b->status == PEAL_OK ? number : 0;
    struct plan_link *link = &slice->links[number - 1];
    struct topo_path path;
    peal_group_path(&b->planner->group, from, to, &path);
    link->link_class = (uint8_t)path.link_class;
    link->direct = path.direct ? 1 : 0;
    link->multicast = path.multicast ? 1 : 0;
    peal_topo_via(b->planner->fabric, peal_group_rank(&b->planner->group, from),
                  peal_group_rank(&b->planner->group, to), link->via, sizeof link->via);
    return number;
}

/* A lane talks to the same few ranks step after step: each hop is looked up once. */
static const struct hop *hop_to(const struct build *b, uint32_t peer)
{
    struct build_hops *hops = b->hops;
    uint32_t at = peer % BUILD_HOPS;
    if (hops->from != b->self) {
        for (uint32_t i = 0; i < BUILD_HOPS; i++)
            hops->to[i] = NO_RANK;
        hops->from = b->self;
    }
    if (hops->to[at] != peer) {
        peal_planner_hop(b->planner, b->self, peer, &hops->hop[at]);
        hops->to[at] = peer;
    }
    return &hops->hop[at];
}

int peal_build_direct(const struct build *b, uint32_t peer)
{
    return peer == b->self || hop_to(b, peer)->path.direct;
}

uint8_t peal_build_engine(const struct build *b, uint32_t peer)
{
    return peer == b->self ? PEAL_ENGINE_SM : hop_to(b, peer)->engine;
}

/* ---- steps ------------------------------------------------------------------- */

static uint32_t add_operands(struct build *b, uint32_t nsrc, const struct plan_operand *src,
                             uint32_t ndst, const struct plan_operand *dst)
{
    struct plan_rank *rank = &b->slice->program;
    peal_status status =
        peal_grow(b->plan->ctx, (void **)&rank->operands, &rank->operands_capacity,
                  (size_t)rank->noperands + nsrc + ndst, sizeof *rank->operands, OPERANDS_MAX);
    if (status != PEAL_OK) {
        fail(b, status);
        return 0;
    }
    uint32_t first = rank->noperands;
    for (uint32_t i = 0; i < nsrc + ndst; i++) {
        struct plan_operand operand = i < nsrc ? src[i] : dst[i - nsrc];
        if (operand.rank != b->self)
            operand.link = i < nsrc ? link_between(b, operand.rank, b->self)
                                    : link_between(b, b->self, operand.rank);
        rank->operands[rank->noperands++] = operand;
    }
    return first;
}

static uint8_t move_opcode(const struct build *b, uint32_t nsrc, const struct plan_operand *src,
                           uint32_t ndst, const struct plan_operand *dst)
{
    if (nsrc > 1)
        return PLAN_REDUCE;
    for (uint32_t i = 0; i < ndst; i++)
        if (dst[i].rank != b->self)
            return PLAN_PUT;
    return src[0].rank == b->self ? PLAN_COPY : PLAN_GET;
}

void peal_build_span(struct build *b, uint32_t span, uint32_t stride)
{
    b->more = span - 1;
    b->stride = span > 1 ? stride : 0;
    b->jump = 0;
}

void peal_build_jump(struct build *b, uint32_t jump)
{
    b->jump = jump;
}

/* Said only where there is anything to skip: of several slots. */
static uint16_t skip_of(struct build *b, uint32_t count, const struct plan_operand *operand)
{
    int slots = 0;
    for (uint32_t i = 0; i < count; i++)
        slots |= operand[i].buffer >= PLAN_BUF_SCRATCH;
    if (!b->more || !b->jump || !slots)
        return 0;
    if (b->jump > UINT16_MAX)
        fail(b, PEAL_ERR_LIMIT);
    return (uint16_t)(b->jump - 1);
}

static void add_await(struct build *b, uint32_t event, uint8_t what)
{
    struct plan_step step = {0};
    step.op = PLAN_AWAIT;
    step.event = (uint8_t)event;
    step.after = PLAN_NO_EVENT;
    step.what = what;
    add_step(b, &step);
}

/* A move that the lane would make itself, by a copy engine: done when the lane goes on. */
static void copy_for_lane(struct build *b, uint32_t chunk, const struct plan_operand *src,
                          uint32_t ndst, const struct plan_operand *dst)
{
    uint32_t more = b->more, stride = b->stride, jump = b->jump;
    for (uint32_t i = 0; i < ndst; i++) {
        peal_build_span(b, more + 1, stride);
        peal_build_jump(b, jump);
        peal_build_move(b, chunk, 1, src, 1, &dst[i], PEAL_ENGINE_CE, 0);
        add_await(b, b->next_event, 1);
    }
}

/* 1: the plan holds no SM: whatever sm would do, a copy engine does. */
static int without_lanes(const struct build *b)
{
    return b->planner->corner == CORNER_COPY && !peal_plan_collective(b->plan->collective)->reduces;
}

void peal_build_move(struct build *b, uint32_t chunk, uint32_t nsrc, const struct plan_operand *src,
                     uint32_t ndst, const struct plan_operand *dst, uint8_t engine, int final)
{
    if (engine == PEAL_ENGINE_SM && nsrc == 1 && without_lanes(b)) {
        copy_for_lane(b, chunk, src, ndst, dst);
        return;
    }
    if (nsrc > PLAN_OPERANDS_MAX || ndst > PLAN_OPERANDS_MAX) {
        fail(b, PEAL_ERR_LIMIT);
        return;
    }
    struct plan_step step = {0};
    step.op = move_opcode(b, nsrc, src, ndst, dst);
    step.engine = engine;
    step.event = PLAN_NO_EVENT;
    step.after = PLAN_NO_EVENT;
    step.flags = final ? PLAN_FLAG_FINAL : 0;
    step.nsrc = (uint8_t)nsrc;
    step.ndst = (uint8_t)ndst;
    step.chunk = chunk;
    step.more = b->more;
    step.stride = b->stride;
    step.skip = skip_of(b, nsrc, src) | skip_of(b, ndst, dst);
    peal_build_span(b, 1, 0);
    step.operands = add_operands(b, nsrc, src, ndst, dst);
    if (peal_plan_engine_async(engine)) {
        step.event = (uint8_t)b->next_event;
        b->events |= 1u << b->next_event;
    }
    add_step(b, &step);
}

void peal_build_group(struct build *b, uint8_t op, uint32_t chunk, uint32_t nsrc,
                      const struct plan_operand *src, uint32_t ndst, const struct plan_operand *dst,
                      int final)
{
    struct plan_step step = {.op = op,
                             .engine = PEAL_ENGINE_SM,
                             .event = PLAN_NO_EVENT,
                             .after = PLAN_NO_EVENT,
                             .flags = final ? PLAN_FLAG_FINAL : 0,
                             .nsrc = (uint8_t)nsrc,
                             .ndst = (uint8_t)ndst,
                             .chunk = chunk};
    if (nsrc > PLAN_OPERANDS_MAX || ndst > PLAN_OPERANDS_MAX) {
        fail(b, PEAL_ERR_LIMIT);
        return;
    }
    step.operands = add_operands(b, nsrc, src, ndst, dst);
    add_step(b, &step);
}

void peal_build_convert(struct build *b, uint8_t op, uint32_t chunk, const struct plan_operand *src,
                        uint32_t ndst, const struct plan_operand *dst)
{
    struct plan_step step = {.op = op,
                             .engine = PEAL_ENGINE_SM,
                             .event = PLAN_NO_EVENT,
                             .after = PLAN_NO_EVENT,
                             .nsrc = 1,
                             .ndst = (uint8_t)ndst,
                             .chunk = chunk};
    if (ndst > PLAN_OPERANDS_MAX) {
        fail(b, PEAL_ERR_LIMIT);
        return;
    }
    step.operands = add_operands(b, 1, src, ndst, dst);
    add_step(b, &step);
}

static void add_signal(struct build *b, uint8_t op, uint32_t peer, uint32_t sem, uint8_t engine,
                       uint8_t after)
{
    struct plan_step step = {0};
    if (peer != b->self)
        (void)link_between(b, b->self, peer);
    step.op = op;
    step.engine = engine;
    step.event = PLAN_NO_EVENT;
    step.after = after;
    step.peer = peer;
    step.sem = (uint16_t)sem;
    add_step(b, &step);
}

void peal_build_push_to(struct build *b, uint32_t chunk, struct plan_operand src,
                        struct plan_operand dst, uint32_t nsems, const uint32_t *sems)
{
    uint8_t engine = peal_build_engine(b, dst.rank);
    int async = peal_plan_engine_async(engine);
    peal_build_move(b, chunk, 1, &src, 1, &dst, engine, 0);
    for (uint32_t i = 0; i < nsems; i++)
        add_signal(b, PLAN_SIGNAL, dst.rank, sems[i], engine,
                   async ? (uint8_t)b->next_event : PLAN_NO_EVENT);
    if (async)
        b->next_event = (b->next_event + 1) % b->in_flight;
}

void peal_build_push(struct build *b, uint32_t chunk, struct plan_operand src,
                     struct plan_operand dst, uint32_t sem)
{
    peal_build_push_to(b, chunk, src, dst, 1, &sem);
}

/* The engine of a signal behind nothing. */
static uint8_t signal_engine(const struct build *b, uint32_t peer)
{
    if (peal_build_direct(b, peer))
        return without_lanes(b) ? PEAL_ENGINE_CE : PEAL_ENGINE_SM;
    return peal_build_engine(b, peer);
}

void peal_build_signal(struct build *b, uint32_t peer, uint32_t sem)
{
    add_signal(b, PLAN_SIGNAL, peer, sem, signal_engine(b, peer), PLAN_NO_EVENT);
}

void peal_build_tell(struct build *b, uint32_t peer, uint32_t sem)
{
    add_signal(b, PLAN_TELL, peer, sem, signal_engine(b, peer), PLAN_NO_EVENT);
}

static void add_wait(struct build *b, uint8_t op, uint32_t peer, uint32_t sem, uint32_t lag)
{
    struct plan_step step = {0};
    step.op = op;
    step.event = PLAN_NO_EVENT;
    step.after = PLAN_NO_EVENT;
    step.peer = peer;
    step.sem = (uint16_t)sem;
    step.lag = (uint16_t)lag;
    add_step(b, &step);
}

void peal_build_wait(struct build *b, uint32_t peer, uint32_t sem, uint32_t lag)
{
    add_wait(b, PLAN_WAIT, peer, sem, lag);
}

void peal_build_learn(struct build *b, uint32_t peer, uint32_t sem)
{
    add_wait(b, PLAN_LEARN, peer, sem, 0);
}

void peal_build_await_event(struct build *b, uint32_t event)
{
    add_await(b, event, 0);
}

uint32_t peal_build_stage(struct build *b)
{
    add_await(b, b->next_event, 0);
    return b->next_event;
}

void peal_build_await_last(struct build *b)
{
    uint32_t last = (b->next_event + b->in_flight - 1) % b->in_flight;
    if (b->events >> last & 1)
        add_await(b, last, 0);
}

static void await_all(struct build *b, uint8_t what)
{
    for (uint32_t e = 0; e < PLAN_EVENTS_MAX; e++)
        if (b->events >> e & 1)
            add_await(b, e, what);
}

void peal_build_await_free(struct build *b)
{
    await_all(b, 0);
}

void peal_build_drain(struct build *b)
{
    peal_build_section(b, 2);
    await_all(b, 1);
}

uint64_t peal_build_slot_bytes(const struct build *b)
{
    return (peal_plan_tile_bound(b->plan) + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
}
