/* SPDX-License-Identifier: Apache-2.0 */
/* What each step of a plan takes on a fabric, worked out once, since bodies repeat. */
#include "model.h"

#include <string.h>

#define PS_PER_US 1e6
#define LINE 64u
#define PACKET_FACTOR 2.0 /* half of each word is the stamp */

static uint64_t ps_of(double us)
{
    return us > 0 ? (uint64_t)(us * PS_PER_US + 0.5) : 0;
}

static double bytes_per_ps(double gbs)
{
    return gbs * 1e-3;
}

/* Zeroed; NULL: out of memory. */
static void *make_lines(const struct peal_sim *sim, size_t count, size_t bytes,
                        struct sim_lines *lines)
{
    if (peal_mul_overflows(count, bytes, &lines->bytes) || lines->bytes > SIZE_MAX - LINE)
        return NULL;
    lines->bytes += LINE;
    lines->raw = peal_calloc(sim->ctx, 1, lines->bytes);
    return lines->raw ? (char *)lines->raw + (LINE - (uintptr_t)lines->raw % LINE) % LINE : NULL;
}

/* ---- semaphores and links by the ranks they join */

static uint64_t mix(uint64_t key)
{
    key *= 0x9E3779B97F4A7C15ull;
    return key ^ key >> 29;
}

static peal_status index_links(struct peal_sim *sim)
{
    const struct peal_plan *plan = sim->plan;
    sim->pairs = 16;
    while (sim->pairs < 2 * plan->nlinks)
        sim->pairs *= 2;
    sim->pair = peal_calloc(sim->ctx, sim->pairs, sizeof *sim->pair);
    if (!sim->pair)
        return PEAL_ERR_MEMORY;
    for (uint32_t i = 0; i < plan->nlinks; i++) {
        uint64_t key = (uint64_t)plan->links[i].from << 32 | plan->links[i].to;
        uint32_t at = (uint32_t)mix(key) & (sim->pairs - 1);
        while (sim->pair[at])
            at = (at + 1) & (sim->pairs - 1);
        sim->pair[at] = i + 1;
    }
    return PEAL_OK;
}

void peal_sim_path(const struct peal_sim *sim, uint32_t from, uint32_t to, struct topo_path *path)
{
    uint32_t at = (uint32_t)mix((uint64_t)from << 32 | to) & (sim->pairs - 1);
    for (; sim->pair[at]; at = (at + 1) & (sim->pairs - 1)) {
        const struct plan_link *link = &sim->plan->links[sim->pair[at] - 1];
        if (link->from == from && link->to == to) {
            *path = sim->path[sim->pair[at] - 1];
            return;
        }
    }
    *path = (struct topo_path){.uses = 0};
    if (sim->fabric)
        peal_topo_path(sim->fabric, from, to, path);
}

static peal_status grow_sems(struct peal_sim *sim)
{
    uint32_t buckets = sim->sem_buckets ? 2 * sim->sem_buckets : 1024;
    uint32_t *map = peal_calloc(sim->ctx, buckets, sizeof *map);
    if (!map)
        return PEAL_ERR_MEMORY;
    for (uint32_t i = 0; i < sim->sems; i++) {
        uint32_t at = (uint32_t)mix(sim->sem_key[i].ends) & (buckets - 1);
        while (map[at])
            at = (at + 1) & (buckets - 1);
        map[at] = i + 1;
    }
    peal_free(sim->ctx, sim->sem_map, sim->sem_buckets * sizeof *map);
    sim->sem_map = map;
    sim->sem_buckets = buckets;
    return PEAL_OK;
}

static peal_status find_sem(struct peal_sim *sim, uint32_t from, uint32_t to, uint32_t index,
                            uint32_t *sem_out)
{
    /* Ranks are below 2^16, semaphores below 2^8 (plan.h). */
    uint64_t key = (uint64_t)from << 40 | (uint64_t)to << 16 | index;
    if (2 * sim->sems >= sim->sem_buckets)
        PEAL_TRY(grow_sems(sim));
    uint32_t at = (uint32_t)mix(key) & (sim->sem_buckets - 1);
    for (; sim->sem_map[at]; at = (at + 1) & (sim->sem_buckets - 1))
        if (sim->sem_key[sim->sem_map[at] - 1].ends == key) {
            *sem_out = sim->sem_map[at] - 1;
            return PEAL_OK;
        }
    PEAL_TRY(peal_grow(sim->ctx, (void **)&sim->sem_key, &sim->sem_key_capacity,
                       (size_t)sim->sems + 1, sizeof *sim->sem_key, UINT32_MAX / 4));
    sim->sem_key[sim->sems] = (struct sim_sem_key){key, SIM_NONE};
    sim->sem_map[at] = ++sim->sems;
    *sem_out = sim->sems - 1;
    return PEAL_OK;
}

/* ---- bytes */

/* Elements of one byte stand for all types. */
peal_status peal_sim_cut(const struct peal_plan *plan, uint64_t bytes, uint64_t **chunk_out,
                         uint32_t *trips_out)
{
    const struct plan_collective *what = peal_plan_collective(plan->collective);
    uint32_t blocks = peal_plan_blocks(plan);
    uint64_t count = bytes;
    /* What a rank has of all blocks, or, of a list of pairs, one block. */
    uint32_t times = plan->npairs ? plan->npairs : what->block_power == 2 ? plan->nranks : 1;
    count = count > UINT64_MAX / times ? UINT64_MAX : count * times;
    count = count / blocks * blocks;
    uint64_t *chunk = peal_calloc(plan->ctx, (size_t)plan->nchunks + 1, sizeof *chunk);
    if (!chunk)
        return PEAL_ERR_MEMORY;
    for (uint32_t c = 0; c < plan->nchunks; c++) {
        uint64_t first, last;
        peal_plan_chunk(plan, count, 1, c, &first, &last);
        chunk[c] = last - first;
    }
    *trips_out = peal_plan_trips(plan, count, 1);
    *chunk_out = chunk;
    return PEAL_OK;
}

static uint64_t tile_of(const struct peal_plan *plan, uint64_t bytes, uint32_t trip)
{
    uint64_t tile = plan->tile_bytes, before = tile * trip;
    if (!tile)
        return trip ? 0 : bytes;
    if (bytes <= before)
        return 0;
    return bytes - before < tile ? bytes - before : tile;
}

uint64_t peal_sim_tile(const struct peal_sim *sim, uint32_t chunk, uint32_t trip)
{
    return tile_of(sim->plan, sim->chunk[chunk], trip);
}

uint64_t peal_sim_moved(const struct peal_plan *plan, const uint64_t *chunk,
                        const struct plan_step *step, uint32_t trip)
{
    uint64_t bytes = 0;
    for (uint32_t nth = 0; nth <= step->more; nth++)
        bytes += tile_of(plan, chunk[step->chunk + nth * step->stride], trip);
    return bytes;
}

uint64_t peal_sim_held(const struct peal_plan *plan, const uint64_t *chunk,
                       const struct plan_step *step, const struct plan_operand *operand,
                       uint32_t trip)
{
    uint8_t wire = peal_plan_operand_wire(plan, operand);
    uint64_t sum = 0;
    if (!wire)
        return peal_sim_moved(plan, chunk, step, trip);
    for (uint32_t nth = 0; nth <= step->more; nth++) {
        uint64_t bytes = tile_of(plan, chunk[step->chunk + nth * step->stride], trip);
        sum += peal_plan_wire_bytes(wire, (bytes + 3) / 4);
    }
    return sum;
}

/* The operand that goes over a link, or the source. */
static const struct plan_operand *carried(const struct plan_step *step,
                                          const struct plan_operand *operands)
{
    for (uint32_t i = 0; i < (uint32_t)step->nsrc + step->ndst; i++)
        if (operands[i].link != PLAN_NO_LINK)
            return &operands[i];
    return operands;
}

static uint64_t moved_in(const struct peal_sim *sim, uint32_t rank, const struct plan_step *step,
                         uint32_t trip)
{
    const struct plan_operand *operands = &sim->plan->ranks[rank].operands[step->operands];
    return peal_sim_held(sim->plan, sim->chunk, step, carried(step, operands), trip);
}

uint64_t peal_sim_step_bytes(const struct peal_sim *sim, const struct sim_lane *lane)
{
    if (lane->trip < sim->full_trips)
        return sim->need[sim->step[lane->at].need].bytes;
    return moved_in(sim, lane->rank, peal_sim_step(sim, lane), lane->trip);
}

/* In which all chunks have a whole tile; a plan without tiles has one trip. */
static uint32_t full_trips(const struct peal_plan *plan, const uint64_t *chunk)
{
    uint64_t least = UINT32_MAX;
    for (uint32_t c = 0; c < plan->nchunks && plan->tile_bytes; c++)
        least = chunk[c] / plan->tile_bytes < least ? chunk[c] / plan->tile_bytes : least;
    return plan->tile_bytes ? (uint32_t)least : 1;
}

/* ---- one step */

/* A link of the plan has to be what the fabric has between its ranks. */
static peal_status check_links(struct peal_sim *sim, peal_diag *diag)
{
    const struct peal_plan *plan = sim->plan;
    for (uint32_t i = 0; i < plan->nlinks; i++) {
        const struct plan_link *link = &plan->links[i];
        struct topo_path *path = &sim->path[i];
        peal_topo_path(sim->fabric, link->from, link->to, path);
        if ((uint8_t)path->link_class != link->link_class || (link->direct && !path->direct) ||
            (link->multicast && !path->multicast))
            return peal_fail(diag, PEAL_ERR_ARG,
                             "the plan is of another machine: from rank %u to rank %u it has %s, "
                             "here is %s",
                             link->from, link->to,
                             peal_link_class_name((peal_link_class)link->link_class),
                             peal_link_class_name(path->link_class));
    }
    return PEAL_OK;
}

static peal_status add_use(struct peal_sim *sim, struct sim_need *need, uint32_t resource,
                           double weight)
{
    for (uint32_t u = 0; u < need->uses; u++)
        if (sim->use[need->first_use + u].resource == resource) {
            sim->use[need->first_use + u].weight += weight;
            return PEAL_OK;
        }
    PEAL_TRY(peal_grow(sim->ctx, (void **)&sim->use, &sim->use_capacity, (size_t)sim->uses + 1,
                       sizeof *sim->use, UINT32_MAX / 4));
    sim->use[sim->uses++] = (struct sim_use){resource, weight};
    need->uses++;
    return PEAL_OK;
}

static uint32_t queue_of(const struct peal_sim *sim, uint32_t rank, uint32_t lane, uint8_t engine)
{
    if (!peal_plan_engine_async(engine))
        return SIM_NONE;
    if (engine == PEAL_ENGINE_TMA) /* the lane issues by itself */
        return sim->plan->nranks * PEAL_ENGINE_COUNT + lane;
    if (peal_plan_engine_nets(engine))
        rank = sim->nic_rank[rank];
    return rank * PEAL_ENGINE_COUNT + engine;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Its path's resources, and the start-up on it. */
static peal_status need_remote(struct peal_sim *sim, struct sim_need *need,
                               const struct plan_operand *operand, uint8_t engine, int source,
                               double factor)
{
    const struct topo_path *path = &sim->path[operand->link - 1];
    struct topo_engine_cost cost;
    peal_topo_hop_cost(sim->fabric, path, (peal_engine)engine, &cost);
    for (uint32_t u = 0; u < path->uses; u++)
        PEAL_TRY(add_use(sim, need, (uint32_t)path->use[u].resource, factor / cost.beta_scale));
    double start = cost.alpha_us < path->alpha_us ? cost.alpha_us : path->alpha_us;
    if (peal_plan_engine_async(engine)) {
        need->alpha = larger(need->alpha, ps_of(start));
        need->latency = larger(need->latency, ps_of(cost.alpha_us - start));
        need->gap = larger(need->gap, ps_of(cost.gap_us));
    } else if (source) {
        /* A load of shared memory is answered by a cache: the flag before it paid for that. */
        if (path->link_class != PEAL_LINK_SHM)
            need->latency = larger(need->latency, ps_of(cost.alpha_us));
    } else {
        need->alpha = larger(need->alpha, ps_of(cost.alpha_us));
        if (operand->buffer == PLAN_BUF_PACKET) /* a message, since it carries its flag */
            need->gap += ps_of(cost.gap_us);
    }
    return PEAL_OK;
}

/* What bounds the rate of the tile: the lane, or what is narrowest on the way. */
static double cap_of(const struct peal_sim *sim, const struct sim_need *need, uint32_t rank,
                     uint8_t engine, double touched)
{
    double cap = bytes_per_ps(peal_topo_reduce_gbs(sim->fabric, rank)); /* a copy in own memory */
    if (!peal_plan_engine_async(engine))
        cap = 2 * bytes_per_ps(peal_topo_lane_gbs(sim->fabric, rank)) / touched;
    else if (need->uses)
        cap = 1e9;
    for (uint32_t u = 0; u < need->uses; u++) {
        const struct sim_use *use = &sim->use[need->first_use + u];
        double own = sim->resource[use->resource].capacity / use->weight;
        cap = own < cap ? own : cap;
    }
    return cap;
}

/* What a group's member carries on its link to the switch: loads leave it, stores reach it, and the
 * rank that moves has one stream the other way. */
static peal_status need_member(struct peal_sim *sim, struct sim_need *need, uint32_t self,
                               uint32_t rank, uint32_t other, int source)
{
    uint32_t far = rank == self ? other : self;
    struct topo_path up, down;
    peal_topo_path(sim->fabric, rank, far, &up);
    peal_topo_path(sim->fabric, far, rank, &down);
    PEAL_TRY(add_use(sim, need, (uint32_t)(source ? up.use[0] : down.use[1]).resource, 1));
    if (rank != self)
        return PEAL_OK;
    return add_use(sim, need, (uint32_t)(source ? down.use[1] : up.use[0]).resource, 1);
}

/* A step that a switch makes: the lane reads or writes the tile once for all of the group. */
static peal_status need_group(struct peal_sim *sim, uint32_t rank, const struct plan_step *step,
                              struct sim_need *need)
{
    const struct plan_rank *program = &sim->plan->ranks[rank];
    const struct plan_operand *operands = &program->operands[step->operands];
    int folds = step->op == PLAN_LOAD_REDUCE, stores = peal_plan_multicasts(program, step);
    uint32_t first = folds ? 0 : step->nsrc;
    uint32_t end = stores ? (uint32_t)step->nsrc + step->ndst : step->nsrc;
    uint32_t other = operands[first].rank == rank ? operands[first + 1].rank : operands[first].rank;
    struct topo_path path;
    peal_topo_path(sim->fabric, rank, other, &path);
    for (uint32_t i = first; i < end; i++)
        PEAL_TRY(need_member(sim, need, rank, operands[i].rank, other, i < step->nsrc));
    need->latency = folds ? ps_of(path.alpha_us) : 0;
    need->alpha = stores ? ps_of(path.alpha_us) : 0;
    need->cap = cap_of(sim, need, rank, step->engine, 1 + (stores ? 1.0 : step->ndst));
    return PEAL_OK;
}

static peal_status need_move(struct peal_sim *sim, uint32_t rank, uint32_t lane,
                             const struct plan_step *step, struct sim_need *need)
{
    const struct plan_operand *operands = &sim->plan->ranks[rank].operands[step->operands];
    uint64_t one_gap = 0;
    double touched = 0, read = 0;
    need->bytes = moved_in(sim, rank, step, 0);
    if (peal_plan_op_groups(step->op))
        return need_group(sim, rank, step, need);
    for (uint32_t i = 0; i < (uint32_t)step->nsrc + step->ndst; i++) {
        double factor = 1; /* of what is packed for the wire, there is less than of the rest */
        if (need->bytes)
            factor = (double)peal_sim_held(sim->plan, sim->chunk, step, &operands[i], 0) /
                     (double)need->bytes;
        read += i < step->nsrc ? factor : 0;
        factor *= operands[i].buffer == PLAN_BUF_PACKET ? PACKET_FACTOR : 1;
        touched += factor;
        if (operands[i].link == PLAN_NO_LINK)
            continue;
        uint64_t gaps = need->gap;
        PEAL_TRY(need_remote(sim, need, &operands[i], step->engine, i < step->nsrc, factor));
        one_gap = larger(one_gap, need->gap - gaps);
    }
    int folds_into = step->op == PLAN_PUT_REDUCE || step->op == PLAN_GET_REDUCE;
    touched += folds_into;
    if ((step->nsrc > 1 || folds_into) && peal_topo_rank_accelerates(sim->fabric, rank))
        PEAL_TRY(add_use(sim, need, sim->fabric_resources + rank, read + folds_into));
    need->queue = queue_of(sim, rank, lane, step->engine);
    if (need->queue == SIM_NONE) {
        need->gap -= one_gap;    /* the lane goes on behind its last message, */
        need->message = one_gap; /* but for another message */
    }
    need->cap = cap_of(sim, need, rank, step->engine, touched);
    return PEAL_OK;
}

static void need_signal(const struct peal_sim *sim, uint32_t rank, uint32_t lane,
                        const struct plan_step *step, struct sim_need *need)
{
    if (step->peer == rank)
        return;
    struct topo_path path;
    struct topo_engine_cost cost;
    peal_sim_path(sim, rank, step->peer, &path);
    peal_topo_hop_cost(sim->fabric, &path, (peal_engine)step->engine, &cost);
    need->alpha = ps_of(cost.alpha_us);
    need->gap = ps_of(cost.gap_us);
    need->queue = queue_of(sim, rank, lane, step->engine);
}

static enum sim_does does(const struct plan_step *step)
{
    if (peal_plan_op_moves(step->op))
        return peal_plan_engine_async(step->engine) ? SIM_ISSUES : SIM_MOVES;
    return peal_plan_op_signals(step->op) ? SIM_SIGNALS
           : peal_plan_op_waits(step->op) ? SIM_WAITS
                                          : SIM_AWAITS;
}

static uint8_t has_packets(const struct plan_rank *program, const struct plan_step *step)
{
    const struct plan_operand *operands = &program->operands[step->operands];
    for (uint32_t i = 0; i < (uint32_t)step->nsrc + step->ndst; i++)
        if (operands[i].buffer == PLAN_BUF_PACKET)
            return 1;
    return 0;
}

/* ---- steps that take the same share their needs */

static uint64_t hash_need(const struct peal_sim *sim, const struct sim_need *need)
{
    uint64_t hash = mix(need->latency ^ mix(need->alpha ^ mix(need->gap ^ mix(need->bytes))));
    hash = mix(hash ^ need->queue ^ need->message);
    for (uint32_t u = 0; u < need->uses; u++)
        hash = mix(hash ^ sim->use[need->first_use + u].resource);
    return hash;
}

static int same(double a, double b)
{
    return !(a < b) && !(a > b);
}

static int same_need(const struct peal_sim *sim, const struct sim_need *a, const struct sim_need *b)
{
    if (!same(a->cap, b->cap) || a->latency != b->latency || a->alpha != b->alpha ||
        a->gap != b->gap || a->message != b->message || a->bytes != b->bytes ||
        a->queue != b->queue || a->uses != b->uses)
        return 0;
    for (uint32_t u = 0; u < a->uses; u++) {
        const struct sim_use *x = &sim->use[a->first_use + u], *y = &sim->use[b->first_use + u];
        if (x->resource != y->resource || !same(x->weight, y->weight))
            return 0;
    }
    return 1;
}

static peal_status grow_needs(struct peal_sim *sim)
{
    uint32_t buckets = sim->need_buckets ? 2 * sim->need_buckets : 1024;
    uint32_t *map = peal_calloc(sim->ctx, buckets, sizeof *map);
    if (!map)
        return PEAL_ERR_MEMORY;
    for (uint32_t i = 0; i < sim->needs; i++) {
        uint32_t at = (uint32_t)hash_need(sim, &sim->need[i]) & (buckets - 1);
        while (map[at])
            at = (at + 1) & (buckets - 1);
        map[at] = i + 1;
    }
    peal_free(sim->ctx, sim->need_map, sim->need_buckets * sizeof *map);
    sim->need_map = map;
    sim->need_buckets = buckets;
    return PEAL_OK;
}

/* Its uses are the last; they are given up where there is such a need. */
static peal_status find_need(struct peal_sim *sim, const struct sim_need *need, uint32_t *need_out)
{
    if (2 * sim->needs >= sim->need_buckets)
        PEAL_TRY(grow_needs(sim));
    uint32_t at = (uint32_t)hash_need(sim, need) & (sim->need_buckets - 1);
    for (; sim->need_map[at]; at = (at + 1) & (sim->need_buckets - 1))
        if (same_need(sim, need, &sim->need[sim->need_map[at] - 1])) {
            sim->uses -= need->uses;
            *need_out = sim->need_map[at] - 1;
            return PEAL_OK;
        }
    PEAL_TRY(peal_grow(sim->ctx, (void **)&sim->need, &sim->need_capacity, (size_t)sim->needs + 1,
                       sizeof *sim->need, UINT32_MAX / 4));
    sim->need[sim->needs] = *need;
    sim->need_map[at] = ++sim->needs;
    *need_out = sim->needs - 1;
    return PEAL_OK;
}

/* All signals of a semaphore take the same: they are of one lane and one engine. */
static peal_status prepare_signal(struct peal_sim *sim, uint32_t rank, uint32_t lane,
                                  const struct plan_step *step, uint32_t *sem)
{
    struct sim_need need = {.queue = SIM_NONE, .first_use = sim->uses};
    uint32_t found;
    PEAL_TRY(find_sem(sim, rank, step->peer, step->sem, sem));
    need_signal(sim, rank, lane, step, &need);
    PEAL_TRY(find_need(sim, &need, &found));
    uint32_t *known = &sim->sem_key[*sem].need;
    if (*known != SIM_NONE && *known != found)
        return PEAL_ERR_PLAN;
    *known = found;
    return PEAL_OK;
}

static peal_status prepare_step(struct peal_sim *sim, uint32_t rank, uint32_t lane,
                                const struct plan_step *step, struct sim_step *out)
{
    struct sim_need need = {.queue = SIM_NONE, .first_use = sim->uses};
    *out = (struct sim_step){.need = SIM_NONE, .does = (uint8_t)does(step), .event = step->event};
    switch ((enum sim_does)out->does) {
    case SIM_WAITS:
        out->lag = step->lag;
        return find_sem(sim, step->peer, rank, step->sem, &out->sem);
    case SIM_AWAITS:
        out->what = step->what;
        return PEAL_OK;
    case SIM_SIGNALS:
        out->after = step->after;
        return prepare_signal(sim, rank, lane, step, &out->sem);
    case SIM_MOVES:
    case SIM_ISSUES:
        break;
    }
    out->packets = has_packets(&sim->plan->ranks[rank], step);
    PEAL_TRY(need_move(sim, rank, lane, step, &need));
    return find_need(sim, &need, &out->need);
}

static peal_status prepare_lane(struct peal_sim *sim, uint32_t rank, uint32_t lane)
{
    const struct plan_rank *program = &sim->plan->ranks[rank];
    const struct plan_lane *steps = &program->lanes[lane - sim->lane_first[rank]];
    for (uint32_t i = 0; i < steps->pre + steps->body + steps->post; i++)
        PEAL_TRY(prepare_step(sim, rank, lane, &program->steps[steps->first + i],
                              &sim->step[sim->step_first[rank] + steps->first + i]));
    return PEAL_OK;
}

/* ---- all */

static peal_status index_ranks(struct peal_sim *sim)
{
    const struct peal_plan *plan = sim->plan;
    uint64_t steps = 0, lanes = 0;
    sim->step_first = peal_calloc(sim->ctx, (size_t)plan->nranks + 1, sizeof(uint32_t));
    sim->lane_first = peal_calloc(sim->ctx, (size_t)plan->nranks + 1, sizeof(uint32_t));
    sim->nic_rank = peal_calloc(sim->ctx, plan->nranks, sizeof(uint32_t));
    if (!sim->step_first || !sim->lane_first || !sim->nic_rank)
        return PEAL_ERR_MEMORY;
    for (uint32_t r = 0; r < plan->nranks; r++) {
        steps += plan->ranks[r].nsteps;
        lanes += plan->ranks[r].nlanes;
        if (steps > SIM_STEPS_MAX)
            return PEAL_ERR_LIMIT;
        sim->step_first[r + 1] = (uint32_t)steps;
        sim->lane_first[r + 1] = (uint32_t)lanes;
        uint32_t other = peal_topo_host_first(sim->fabric, peal_topo_host_of(sim->fabric, r));
        while (other < r &&
               peal_topo_rank_nic(sim->fabric, other) != peal_topo_rank_nic(sim->fabric, r))
            other++;
        sim->nic_rank[r] = other;
    }
    sim->lanes = (uint32_t)lanes;
    return PEAL_OK;
}

static peal_status make_resources(struct peal_sim *sim)
{
    uint64_t count = peal_topo_resources(sim->fabric);
    if (count + sim->plan->nranks > UINT32_MAX / 2)
        return PEAL_ERR_LIMIT;
    sim->fabric_resources = (uint32_t)count;
    sim->resources = (uint32_t)count + sim->plan->nranks;
    sim->resource = make_lines(sim, sim->resources, sizeof *sim->resource, &sim->resource_lines);
    if (!sim->resource)
        return PEAL_ERR_MEMORY;
    for (uint32_t i = 0; i < sim->resources; i++) {
        double gbs = i < count ? peal_topo_resource_gbs(sim->fabric, i)
                               : peal_topo_reduce_gbs(sim->fabric, i - (uint32_t)count);
        sim->resource[i].capacity = bytes_per_ps(gbs);
    }
    return PEAL_OK;
}

static peal_status make_slots(struct peal_sim *sim)
{
    const struct peal_plan *plan = sim->plan;
    sim->region_first = peal_calloc(sim->ctx, (size_t)plan->nregions + 1, sizeof(uint64_t));
    if (!sim->region_first)
        return PEAL_ERR_MEMORY;
    for (uint32_t i = 0; i < plan->nregions; i++) {
        sim->region_first[i] = sim->slots;
        if (plan->regions[i].buffer == PLAN_BUF_PACKET)
            sim->slots += (uint64_t)plan->regions[i].width * plan->regions[i].depth;
    }
    if (sim->slots > (1u << 28) / plan->nranks)
        return PEAL_ERR_LIMIT;
    sim->slot = peal_calloc(sim->ctx, (size_t)sim->slots * plan->nranks, sizeof *sim->slot);
    if (!sim->slot)
        return PEAL_ERR_MEMORY;
    for (uint64_t i = 0; i < sim->slots * plan->nranks; i++)
        sim->slot[i].writer = sim->slot[i].waiter = SIM_NONE;
    return PEAL_OK;
}

static peal_status make_groups(struct peal_sim *sim)
{
    sim->group = make_lines(sim, sim->needs, sizeof *sim->group, &sim->group_lines);
    if (!sim->group)
        return PEAL_ERR_MEMORY;
    for (uint32_t n = 0; n < sim->needs; n++)
        sim->group[n] = (struct sim_group){.cap = sim->need[n].cap,
                                           .first_use = sim->need[n].first_use,
                                           .uses = sim->need[n].uses,
                                           .bound = SIM_NONE,
                                           .head = SIM_NONE,
                                           .heap_at = SIM_NONE};
    return PEAL_OK;
}

static peal_status make_sems(struct peal_sim *sim)
{
    sim->sem = make_lines(sim, sim->sems, sizeof *sim->sem, &sim->sem_lines);
    if (!sim->sem)
        return PEAL_ERR_MEMORY;
    for (uint32_t i = 0; i < sim->sems; i++)
        sim->sem[i] =
            (struct sim_sem){.waiter = SIM_NONE, .room = SIM_SEM_OWN, .need = sim->sem_key[i].need};
    return PEAL_OK;
}

static peal_status make_lanes(struct peal_sim *sim)
{
    const struct peal_plan *plan = sim->plan;
    sim->queues = plan->nranks * PEAL_ENGINE_COUNT + sim->lanes;
    sim->lane = make_lines(sim, sim->lanes, sizeof *sim->lane, &sim->lane_lines);
    sim->queue = peal_calloc(sim->ctx, sim->queues, sizeof *sim->queue);
    sim->event = peal_calloc(sim->ctx, (size_t)sim->lanes * PLAN_EVENTS_MAX, sizeof *sim->event);
    if (!sim->lane || !sim->queue || !sim->event)
        return PEAL_ERR_MEMORY;
    for (uint32_t q = 0; q < sim->queues; q++)
        sim->queue[q].head = sim->queue[q].tail = SIM_NONE;
    for (uint32_t r = 0; r < plan->nranks; r++)
        for (uint32_t l = sim->lane_first[r]; l < sim->lane_first[r + 1]; l++) {
            struct sim_lane *lane = &sim->lane[l];
            lane->rank = r;
            const struct plan_lane *steps = &plan->ranks[r].lanes[l - sim->lane_first[r]];
            lane->index = (uint16_t)(l - sim->lane_first[r]);
            lane->at = sim->step_first[r] + steps->first;
            lane->end = lane->at + steps->pre;
            lane->cause = lane->deps = lane->record = lane->blocker = SIM_NONE;
            lane->blocked_at = SIM_NEVER;
            lane->on_event = PLAN_NO_EVENT;
            for (uint32_t e = 0; e < PLAN_EVENTS_MAX; e++)
                *peal_sim_event_of(sim, l, (uint8_t)e) =
                    (struct sim_event){SIM_NONE, SIM_NONE, 1, 1};
        }
    return PEAL_OK;
}

static peal_status prepare(struct peal_sim *sim, peal_diag *diag)
{
    const struct peal_plan *plan = sim->plan;
    PEAL_TRY(index_ranks(sim));
    PEAL_TRY(make_resources(sim));
    sim->path = peal_calloc(sim->ctx, plan->nlinks, sizeof *sim->path);
    sim->steps = sim->step_first[plan->nranks] + 1; /* each has one behind it */
    sim->step = peal_calloc(sim->ctx, sim->steps, sizeof *sim->step);
    if (!sim->path || !sim->step)
        return PEAL_ERR_MEMORY;
    PEAL_TRY(check_links(sim, diag));
    PEAL_TRY(index_links(sim));
    PEAL_TRY(peal_sim_cut(plan, sim->bytes, &sim->chunk, &sim->trips));
    sim->full_trips = full_trips(plan, sim->chunk);
    for (uint32_t r = 0; r < plan->nranks; r++)
        for (uint32_t l = sim->lane_first[r]; l < sim->lane_first[r + 1]; l++)
            PEAL_TRY(prepare_lane(sim, r, l));
    PEAL_TRY(make_groups(sim));
    PEAL_TRY(make_sems(sim));
    PEAL_TRY(make_slots(sim));
    return make_lanes(sim);
}

peal_status peal_sim_prepare(struct peal_sim *sim, peal_diag *diag)
{
    peal_status status = prepare(sim, diag);
    if (status == PEAL_ERR_MEMORY)
        return peal_fail(diag, status, "out of memory");
    if (status == PEAL_ERR_LIMIT)
        return peal_fail(diag, status, "the plan is too large to simulate");
    if (status == PEAL_ERR_PLAN)
        return peal_fail(diag, status, "a semaphore is signalled by two lanes or two engines");
    return status;
}
