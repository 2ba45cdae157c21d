/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a script takes: its items once through, in the order of the script, for some trips. A
 * move takes as long as its lane needs, or as the busiest resource on its way needs for all that is
 * on it at the same time: the moves at the same depth, counted in hops that follow each other.
 * Start-ups, gaps, events and slots are those of the programs.
 */
#include "script.h"

#include <string.h>

#define TRIPS 6u        /* the last half of which tells the interval */
#define MANY (1u << 18) /* items, from which on fewer sizes are looked at */

struct cost_of {
    double us[2];    /* of the network, per byte of the message, with siblings and without */
    double share;    /* what the lane reads and writes, halved, in chunks */
    double load_us;  /* start-up of loads, there and back */
    double alpha_us; /* push: start-up, and */
    double gap_us;   /* what its issuer or NIC takes for as many as come at once, of a channel */
    uint32_t depth;
};

struct script_clockwork {
    struct script_program *p;
    double lane_us; /* per byte */
    uint32_t accelerators;
    struct cost_of *item;  /* in the order of all items */
    uint32_t *of;          /* item of its lane, likewise */
    double *signal_us;     /* start-up of each */
    double *signal_gap_us; /* and what those behind the same item wait for it */
    double leave_us;       /* behind everything */
    double enter_us;       /* before loads and stores may begin */
    uint32_t nsignals;     /* as when it was made */
};

/* ---- what an item takes --------------------------------------------------------------------- */

static const struct script_item *item_at(const struct script_clockwork *w, uint32_t i)
{
    return &w->p->lanes[w->p->order[i]].items[w->of[i]];
}

/* Ranks whose messages leave through the same NIC as this one's. */
static uint32_t sharers(const struct planner *planner, uint32_t rank)
{
    const struct group *group = &planner->group;
    int32_t nic = peal_topo_rank_nic(planner->fabric, peal_group_rank(group, rank));
    uint32_t count = 0;
    for (uint32_t r = 0; r < group->n; r++)
        count += peal_group_same_host(group, r, rank) &&
                 peal_topo_rank_nic(planner->fabric, peal_group_rank(group, r)) == nic;
    return count;
}

static int remote(const struct script_operand *operand, uint32_t rank)
{
    return operand->place != SCRIPT_STAGING && operand->rank != rank;
}

static void item_cost(struct planner *planner, struct script_clockwork *w, uint32_t i)
{
    const struct script_item *item = item_at(w, i);
    struct cost_of *cost = &w->item[i];
    uint32_t rank = peal_script_rank(w->p, w->p->order[i]);
    cost->share = (item->nsrc + item->ndst) / 2.0;
    for (uint32_t k = 0; k < (uint32_t)item->nsrc + item->ndst; k++) {
        const struct script_operand *operand = &w->p->operands[item->operand + k];
        if (!remote(operand, rank))
            continue;
        int loads = k < item->nsrc;
        const struct hop *hop =
            peal_script_hop(w->p, loads ? operand->rank : rank, loads ? rank : operand->rank);
        if (loads && w->accelerators && hop->path.alpha_us > cost->load_us)
            cost->load_us = hop->path.alpha_us;
        if (item->kind != SCRIPT_PUSH)
            continue;
        cost->alpha_us = hop->alpha_us;
        cost->gap_us = hop->gap_us;
        if (hop->path.link_class == PEAL_LINK_NET)
            cost->gap_us *= sharers(planner, rank);
    }
}

static void signal_cost(struct script_clockwork *w, uint32_t index)
{
    const struct script_signal *signal = &w->p->signals[index];
    uint32_t from = peal_script_rank(w->p, signal->from), to = peal_script_rank(w->p, signal->to);
    if (from == to)
        return;
    const struct hop *hop = peal_script_hop(w->p, from, to);
    w->signal_us[index] = hop->path.direct ? hop->path.alpha_us : hop->alpha_us;
    w->signal_gap_us[index] = hop->path.direct ? hop->gap_us : hop->path.gap_us;
}

/* The shakes of hands before and after: one start-up, and the flags of a rank one by one. */
static void shake_cost(struct script_clockwork *w)
{
    struct script_program *p = w->p;
    for (uint32_t r = 0; r < p->n; r++) {
        double alpha[2] = {0, 0}, gap[2] = {0, 0};
        uint32_t flags[2] = {0, 0};
        for (uint32_t lane = 0; lane < p->nlanes; lane++) {
            uint32_t other = peal_script_rank(p, lane);
            for (int leaves = 0; leaves < 2; leaves++) {
                if (!(leaves ? p->leaves[(size_t)lane * p->n + r]
                             : p->enters[(size_t)r * p->nlanes + lane]))
                    continue;
                const struct hop *hop = peal_script_hop(p, leaves ? other : r, leaves ? r : other);
                alpha[leaves] =
                    hop->path.alpha_us > alpha[leaves] ? hop->path.alpha_us : alpha[leaves];
                double own = hop->path.direct ? hop->gap_us : hop->path.gap_us;
                gap[leaves] = own > gap[leaves] ? own : gap[leaves];
                flags[leaves]++;
            }
        }
        double enter = alpha[0] + (flags[0] > 1 ? (flags[0] - 1) * gap[0] : 0);
        double leave = alpha[1] + (flags[1] > 1 ? (flags[1] - 1) * gap[1] : 0);
        w->enter_us = enter > w->enter_us ? enter : w->enter_us;
        w->leave_us = leave > w->leave_us ? leave : w->leave_us;
    }
}

/* ---- what is under way at the same time ------------------------------------------------------ */

static int crosses(const struct script_clockwork *w, uint32_t i)
{
    const struct script_item *item = item_at(w, i);
    for (uint32_t k = 0; k < (uint32_t)item->nsrc + item->ndst; k++)
        if (remote(&w->p->operands[item->operand + k], peal_script_rank(w->p, w->p->order[i])))
            return 1;
    return 0;
}

/* How many hops are before an item; returns the deepest. */
static uint32_t find_depths(struct script_clockwork *w, uint32_t *lane_depth,
                            uint32_t *signal_depth)
{
    const struct script_program *p = w->p;
    uint32_t deepest = 0;
    for (uint32_t i = 0; i < p->nitems; i++) {
        uint32_t lane = p->order[i], *depth = &lane_depth[lane];
        const struct script_item *item = item_at(w, i);
        if (item->kind == SCRIPT_WAIT && signal_depth[item->what] > *depth)
            *depth = signal_depth[item->what];
        w->item[i].depth = *depth;
        deepest = *depth > deepest ? *depth : deepest;
        uint32_t behind = *depth;
        if (item->kind == SCRIPT_PUSH)
            behind = *depth + 1;
        else if (item->kind == SCRIPT_MOVE && crosses(w, i))
            behind = ++*depth;
        for (uint32_t s = p->lanes[lane].behind[w->of[i]]; s != NO_INDEX; s = p->signals[s].chain)
            signal_depth[s] = behind;
    }
    return deepest;
}

static void each_hop(struct planner *planner, struct script_clockwork *w, uint32_t i, int add)
{
    const struct script_item *item = item_at(w, i);
    uint32_t rank = peal_script_rank(w->p, w->p->order[i]);
    double share = 1.0 / w->p->script->head->nchunks;
    for (uint32_t k = 0; k < (uint32_t)item->nsrc + item->ndst; k++) {
        const struct script_operand *operand = &w->p->operands[item->operand + k];
        if (!remote(operand, rank))
            continue;
        int loads = k < item->nsrc;
        const struct hop *hop =
            peal_script_hop(w->p, loads ? operand->rank : rank, loads ? rank : operand->rank);
        if (add) {
            peal_planner_load(planner, hop, share, hop->scale);
            continue;
        }
        for (int own = 0; own < 2; own++) {
            double us = peal_load_of(&planner->load, &hop->path, own);
            w->item[i].us[own] = us > w->item[i].us[own] ? us : w->item[i].us[own];
        }
    }
}

/* Items of one depth load the network together. */
static void load_depth(struct planner *planner, struct script_clockwork *w, const uint32_t *list,
                       uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        each_hop(planner, w, list[i], 1);
    for (uint32_t i = 0; i < count; i++)
        each_hop(planner, w, list[i], 0);
    struct load *load = &planner->load;
    for (uint64_t i = 0; i < load->ntouched; i++)
        peal_load_use(&planner->total, load->touched[i], load->us[load->touched[i]],
                      load->own[load->touched[i]]);
    peal_load_clear(load);
}

static peal_status load_all(struct planner *planner, struct script_clockwork *w)
{
    const struct script_program *p = w->p;
    size_t lanes = p->nlanes * sizeof(uint32_t), signals = (p->nsignals + 1) * sizeof(uint32_t);
    uint32_t *lane_depth = peal_calloc(p->ctx, p->nlanes, sizeof(uint32_t));
    uint32_t *signal_depth = peal_calloc(p->ctx, p->nsignals + 1, sizeof(uint32_t));
    uint32_t deepest = lane_depth && signal_depth ? find_depths(w, lane_depth, signal_depth) : 0;
    size_t room = (deepest + 2) * sizeof(uint32_t);
    uint32_t *first = peal_calloc(p->ctx, deepest + 2, sizeof(uint32_t));
    uint32_t *list = peal_alloc(p->ctx, (p->nitems + 1) * sizeof *list);
    peal_status status = lane_depth && signal_depth && first && list ? PEAL_OK : PEAL_ERR_MEMORY;
    for (uint32_t i = 0; status == PEAL_OK && i < p->nitems; i++)
        first[w->item[i].depth + 1]++;
    for (uint32_t d = 0; status == PEAL_OK && d <= deepest; d++)
        first[d + 1] += first[d];
    for (uint32_t i = 0; status == PEAL_OK && i < p->nitems; i++)
        list[first[w->item[i].depth]++] = i;
    for (uint32_t d = 0, at = 0; status == PEAL_OK && d <= deepest; at = first[d++])
        load_depth(planner, w, list + at, first[d] - at);
    peal_free(p->ctx, lane_depth, lanes);
    peal_free(p->ctx, signal_depth, signals);
    peal_free(p->ctx, first, room);
    peal_free(p->ctx, list, (p->nitems + 1) * sizeof *list);
    return status;
}

static int make_room(struct script_clockwork *w)
{
    const struct script_program *p = w->p;
    w->nsignals = p->nsignals;
    w->item = peal_calloc(p->ctx, p->nitems + 1, sizeof *w->item);
    w->of = peal_alloc(p->ctx, (p->nitems + 1) * sizeof *w->of);
    w->signal_us = peal_calloc(p->ctx, p->nsignals + 1, sizeof(double));
    w->signal_gap_us = peal_calloc(p->ctx, p->nsignals + 1, sizeof(double));
    uint32_t *seen = peal_calloc(p->ctx, p->nlanes, sizeof *seen);
    int made = w->item && w->of && w->signal_us && w->signal_gap_us && seen;
    for (uint32_t i = 0; made && i < p->nitems; i++)
        w->of[i] = seen[p->order[i]]++;
    peal_free(p->ctx, seen, p->nlanes * sizeof *seen);
    return made;
}

void peal_script_clockwork_free(struct script_clockwork *w)
{
    if (!w)
        return;
    const struct script_program *p = w->p;
    peal_free(p->ctx, w->item, (p->nitems + 1) * sizeof *w->item);
    peal_free(p->ctx, w->of, (p->nitems + 1) * sizeof *w->of);
    peal_free(p->ctx, w->signal_us, (w->nsignals + 1) * sizeof(double));
    peal_free(p->ctx, w->signal_gap_us, (w->nsignals + 1) * sizeof(double));
    peal_free(p->ctx, w, sizeof *w);
}

peal_status peal_script_clockwork(struct planner *planner, struct script_program *p,
                                  struct script_clockwork **clockwork_out)
{
    struct script_clockwork *w = peal_calloc(p->ctx, 1, sizeof *w);
    if (!w)
        return PEAL_ERR_MEMORY;
    w->p = p;
    w->accelerators = planner->group.accelerators != 0;
    w->lane_us = 1 / (peal_planner_lane_gbs(planner) * 1e3);
    peal_status status = make_room(w) ? PEAL_OK : PEAL_ERR_MEMORY;
    for (uint32_t i = 0; status == PEAL_OK && i < p->nitems; i++)
        item_cost(planner, w, i);
    for (uint32_t i = 0; status == PEAL_OK && i < p->nsignals; i++)
        signal_cost(w, i);
    if (status == PEAL_OK)
        shake_cost(w);
    if (status == PEAL_OK)
        status = load_all(planner, w);
    if (status != PEAL_OK) {
        peal_script_clockwork_free(w);
        return status;
    }
    *clockwork_out = w;
    return PEAL_OK;
}

/* ---- going through them ------------------------------------------------------------------------
 */

struct running {
    const struct script_clockwork *w;
    uint32_t channels;
    int own;
    double bytes; /* of the message in a trip */
    double chunk; /* bytes that an item of one channel moves */
    uint32_t trip;
    double *lane;    /* when each goes on */
    double *queue;   /* when its engine takes up the next */
    double *event;   /* [lane][event]: when its transfer is delivered */
    double *freed;   /* [push]: its source */
    double *arrival; /* [signal][trip % (SLOT_DEPTH + 1)] */
};

static double later(double a, double b)
{
    return a > b ? a : b;
}

static double *arrival_of(const struct running *r, uint32_t signal, uint32_t trip)
{
    return &r->arrival[(size_t)signal * (SLOT_DEPTH + 1) + trip % (SLOT_DEPTH + 1)];
}

static void run_push(struct running *r, uint32_t i, const struct script_item *item)
{
    const struct script_program *p = r->w->p;
    const struct cost_of *cost = &r->w->item[i];
    const struct script_push *push = &p->pushes[item->what];
    uint32_t lane = p->order[i];
    double *event = &r->event[(size_t)lane * PLAN_EVENTS_MAX + push->event];
    r->lane[lane] = later(r->lane[lane], *event);
    double start = later(r->lane[lane], r->queue[lane]);
    double busy = cost->us[r->own] * r->bytes;
    r->queue[lane] = start + cost->gap_us * r->channels;
    r->freed[item->what] = start + busy;
    *event = start + busy + cost->alpha_us;
    *arrival_of(r, push->signal, r->trip) = *event;
}

static void run_claim(struct running *r, uint32_t lane, const struct script_item *item)
{
    const struct script_program *p = r->w->p;
    const struct script_slot *slot = &p->slots[item->nth];
    if (slot->trips <= r->trip)
        r->lane[lane] = later(
            r->lane[lane], *arrival_of(r, p->slots[slot->blocker].credit, r->trip - slot->trips));
}

static void run_item(struct running *r, uint32_t i)
{
    const struct script_program *p = r->w->p;
    const struct script_item *item = item_at(r->w, i);
    const struct cost_of *cost = &r->w->item[i];
    uint32_t lane = p->order[i];
    double *now = &r->lane[lane], flags = 0;
    switch (item->kind) {
    case SCRIPT_WAIT:
        *now = later(*now, *arrival_of(r, item->what, r->trip));
        break;
    case SCRIPT_CLAIM:
        run_claim(r, lane, item);
        break;
    case SCRIPT_FREE:
        *now = later(*now, r->freed[item->what]);
        break;
    case SCRIPT_SETTLE:
        break;
    case SCRIPT_PUSH:
        run_push(r, i, item);
        break;
    default:
        *now += cost->load_us +
                later(cost->share * r->w->lane_us * r->chunk, cost->us[r->own] * r->bytes);
    }
    for (uint32_t s = p->lanes[lane].behind[r->w->of[i]]; s != NO_INDEX; s = p->signals[s].chain) {
        if (p->signals[s].sem == SEM_PUSHED)
            continue;
        *arrival_of(r, s, r->trip) = *now + r->w->signal_us[s] + flags;
        flags += p->signals[s].sem == SEM_PLAIN ? r->w->signal_gap_us[s] : 0;
    }
}

static double run_trip(struct running *r)
{
    const struct script_program *p = r->w->p;
    double end = 0;
    for (uint32_t i = 0; i < p->nitems; i++)
        run_item(r, i);
    for (uint32_t lane = 0; lane < p->nlanes; lane++)
        end = later(end, r->lane[lane]);
    return end;
}

static void run(struct running *r, double *first, double *interval)
{
    const struct script_program *p = r->w->p;
    double end[TRIPS];
    for (uint32_t i = 0; i < p->nlanes; i++) {
        r->lane[i] = r->w->enter_us;
        r->queue[i] = 0;
    }
    memset(r->event, 0, (size_t)p->nlanes * PLAN_EVENTS_MAX * sizeof(double));
    for (r->trip = 0; r->trip < TRIPS; r->trip++)
        end[r->trip] = run_trip(r);
    *first = end[0] + r->w->leave_us;
    *interval = (end[TRIPS - 1] - end[TRIPS / 2 - 1]) / (TRIPS / 2);
}

/* ---- sizes --------------------------------------------------------------------------------------
 */

/* 0, and quarters of powers of two. */
static double point_bytes(uint32_t point)
{
    uint32_t steps = point - 1;
    return point ? (double)((uint64_t)(4 + steps % 4) << (6 + steps / 4)) : 0;
}

double peal_script_curve_at(const double *points, double bytes)
{
    uint32_t at = 0;
    while (at + 2 < SCRIPT_POINTS && point_bytes(at + 1) < bytes)
        at++;
    double low = point_bytes(at), high = point_bytes(at + 1);
    return points[at] + (points[at + 1] - points[at]) * (bytes - low) / (high - low);
}

/* Those between two that were looked at lie on a line. */
static void fill(double *points, uint32_t stride)
{
    for (uint32_t i = 0; i + stride < SCRIPT_POINTS; i += stride)
        for (uint32_t k = 1; k < stride; k++) {
            double low = point_bytes(i), high = point_bytes(i + stride);
            points[i + k] = points[i] + (points[i + stride] - points[i]) *
                                            (point_bytes(i + k) - low) / (high - low);
        }
}

static void run_sizes(struct running *r, struct script_times *times)
{
    const struct script_program *p = r->w->p;
    uint32_t stride = p->nitems < MANY ? 1 : 4;
    int ways = p->planner->group.nsiblings ? 2 : 1;
    for (r->own = 0; r->own < ways; r->own++) {
        struct script_curve *curve = &times->curve[r->own];
        for (uint32_t i = 0; i < SCRIPT_POINTS; i += stride) {
            r->bytes = point_bytes(i);
            r->chunk = r->bytes / p->script->head->nchunks / r->channels;
            run(r, &curve->first[i], &curve->interval[i]);
        }
        fill(curve->first, stride);
        fill(curve->interval, stride);
    }
    if (ways == 1)
        times->curve[1] = times->curve[0];
}

peal_status peal_script_time(const struct script_clockwork *w, uint32_t channels,
                             struct script_times *times)
{
    const struct script_program *p = w->p;
    struct running r = {.w = w, .channels = channels};
    size_t lanes = p->nlanes * sizeof(double), events = lanes * PLAN_EVENTS_MAX,
           pushes = ((size_t)p->npushes + 1) * sizeof(double),
           arrivals = ((size_t)p->nsignals + 1) * (SLOT_DEPTH + 1) * sizeof(double);
    r.lane = peal_alloc(p->ctx, lanes);
    r.queue = peal_alloc(p->ctx, lanes);
    r.event = peal_alloc(p->ctx, events);
    r.freed = peal_alloc(p->ctx, pushes);
    r.arrival = peal_calloc(p->ctx, arrivals, 1);
    peal_status status =
        r.lane && r.queue && r.event && r.freed && r.arrival ? PEAL_OK : PEAL_ERR_MEMORY;
    if (status == PEAL_OK)
        run_sizes(&r, times);
    peal_free(p->ctx, r.lane, lanes);
    peal_free(p->ctx, r.queue, lanes);
    peal_free(p->ctx, r.event, events);
    peal_free(p->ctx, r.freed, pushes);
    peal_free(p->ctx, r.arrival, arrivals);
    return status;
}
