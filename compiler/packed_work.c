/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the lanes of packed trees have to do, as dealt: how long the busiest lane of each kind takes
 * by itself, and how long lanes take that share a link.
 */
#include "packed.h"

#include <string.h>

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* ---- seats ---------------------------------------------------------------------------------- */

/* Microseconds per byte of a step that stores to all of `to` at once: of links that they share, the
 * sum. */
static double stores_us(const struct planner *planner, uint32_t from, const uint32_t *to,
                        uint32_t count, struct load *load)
{
    for (uint32_t i = 0; i < count; i++) {
        struct hop hop;
        peal_planner_hop(planner, from, to[i], &hop);
        if (hop.engine == PEAL_ENGINE_SM)
            peal_load_add(load, &hop.path, 1, hop.scale, 1);
    }
    double us = load->worst;
    peal_load_clear(load);
    return us;
}

static uint32_t stored(const struct planner *planner, uint32_t from, const uint32_t *to,
                       uint32_t count)
{
    uint32_t stores = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct hop hop;
        peal_planner_hop(planner, from, to[i], &hop);
        stores += hop.engine == PEAL_ENGINE_SM;
    }
    return stores;
}

/* One seat's step: what it takes a lane that has links and reducing unit to itself. */
static double seat_us(struct planner *planner, const struct packed *packed, int way, uint32_t index)
{
    const struct packed_way *ways = packed->way;
    const struct seat *seat = &ways[way].seat[index];
    uint32_t rank = index % packed->n, stores, reads = way == PACKED_UP ? 1 + seat->children : 1;
    const uint32_t *to = &seat->parent;
    double lane_us = 1 / (peal_planner_lane_gbs(planner) * 1e3), own = 0, link_us;
    if (way == PACKED_DOWN || seat->parent == NO_RANK) {
        const struct seat *below =
            &ways[way == PACKED_UP && !ways[PACKED_DOWN].levels ? PACKED_UP : PACKED_DOWN]
                 .seat[index];
        stores = ways[PACKED_DOWN].levels ? below->children : 0;
        to = stores ? &ways[PACKED_DOWN].child[below->first_child] : to;
        own = seat->parent == NO_RANK; /* its output */
    } else {
        stores = 1;
    }
    uint32_t reach = stored(planner, rank, to, stores);
    link_us = stores_us(planner, rank, to, stores, &planner->load);
    if (way == PACKED_UP && seat->parent != NO_RANK && !reach)
        own = seat->children > 0; /* the stage that another engine sends from */
    if (!reach && own <= 0)
        return 0;
    double touched = (reads + reach + own) / 2 * lane_us;
    return touched > link_us ? touched : link_us;
}

static size_t seat_bytes(const struct packed *packed)
{
    return (size_t)packed->blocks * packed->trees * packed->n * sizeof(double);
}

peal_status peal_packed_measure_seats(struct planner *planner, struct packed *packed)
{
    for (int w = 0; w < PACKED_WAYS; w++) {
        if (!packed->way[w].levels)
            continue;
        packed->seat_us[w] = peal_alloc(packed->ctx, seat_bytes(packed));
        if (!packed->seat_us[w])
            return PEAL_ERR_MEMORY;
        for (uint32_t i = 0; i < packed->blocks * packed->trees * packed->n; i++)
            packed->seat_us[w][i] = seat_us(planner, packed, w, i);
    }
    return PEAL_OK;
}

void peal_packed_forget_seats(struct packed *packed)
{
    for (int w = 0; w < PACKED_WAYS; w++) {
        peal_free(packed->ctx, packed->seat_us[w], seat_bytes(packed));
        packed->seat_us[w] = NULL;
    }
}

/* ---- lanes ---------------------------------------------------------------------------------- */

/* One lane of a rank, while they are added up. */
struct lane_work {
    double us;
    double link_us;   /* of it, what it keeps its link busy with */
    double pushed_us; /* what another engine keeps the link busy with for it */
    uint32_t peer;    /* the other end of the link */
    double gap_us;    /* of its messages */
    double waits_us;
    uint32_t hops;
    uint32_t used;
};

/* Gaps of a rank's messages, and of one. */
struct pushed {
    double us;
    double most_us;
};

static void add_pushed(struct pushed *to, double gap_us, double messages)
{
    to->us += gap_us * messages;
    to->most_us = larger(to->most_us, gap_us);
}

struct measuring {
    const struct planner *planner;
    const struct packed *packed;
    struct lane_work *lane; /* [kind x lanes + group], of one rank */
    double *folds;          /* [kind]: its reducing unit, over all channels */
    struct pushed *pushed;  /* [kind]: by other engines */
    struct packed_work *work;
};

static struct lane_work *lane_of(const struct measuring *m, uint32_t kind, uint32_t group)
{
    struct lane_work *lane = &m->lane[kind * m->packed->lanes + group];
    lane->used = 1;
    return lane;
}

/* By how many lanes of a rank a chunk is heard of. */
static uint32_t hearers(const struct packed *packed, uint32_t chunk, uint32_t rank)
{
    const struct seat *seat = peal_packed_seat(packed, PACKED_DOWN, chunk, rank);
    const uint32_t *child = peal_packed_children(packed, PACKED_DOWN, seat);
    uint32_t count = !seat->children;
    for (uint32_t i = 0; i < seat->children; i++)
        count += (uint32_t)peal_packed_first(packed, chunk, child, i);
    return count;
}

/* The root of a chunk that goes down again tells its children, too. */
static void add_root(const struct measuring *m, uint32_t chunk, uint32_t rank,
                     struct lane_work *lane)
{
    const struct packed *packed = m->packed;
    const struct seat *seat = peal_packed_seat(packed, PACKED_DOWN, chunk, rank);
    const uint32_t *child = peal_packed_children(packed, PACKED_DOWN, seat);
    double told_us = 0, gap_us = 0;
    for (uint32_t i = 0; i < seat->children; i++) {
        const struct packed_link *link = peal_packed_link(packed, PACKED_DOWN, child[i], rank);
        if (!link->stores) {
            add_pushed(&m->pushed[0], link->gap_us, hearers(packed, chunk, child[i]));
            continue;
        }
        gap_us = larger(gap_us, link->gap_us);
        told_us += link->gap_us * hearers(packed, chunk, child[i]);
    }
    lane->waits_us += told_us;
    m->work[0].told_us = larger(m->work[0].told_us, told_us - gap_us);
}

static void add_climb(const struct measuring *m, uint32_t rank, const struct seat *seat,
                      double share, struct lane_work *lane)
{
    const struct packed_link *link = peal_packed_link(m->packed, PACKED_UP, rank, seat->parent);
    if (link->stores)
        lane->gap_us += link->gap_us;
    else
        add_pushed(&m->pushed[seat->depth], link->gap_us, 1);
    lane->peer = seat->parent;
    *(link->stores ? &lane->link_us : &lane->pushed_us) += (double)link->ps * 1e-12 * share;
    if (link->stores)
        lane->waits_us += seat->children * link->gap_us; /* credits to each child, behind it */
}

static void add_up(const struct measuring *m, uint32_t chunk, uint32_t rank)
{
    const struct packed *packed = m->packed;
    const struct seat *seat = peal_packed_seat(packed, PACKED_UP, chunk, rank);
    double share = peal_packed_share(packed, chunk);
    struct lane_work *lane =
        lane_of(m, seat->depth, peal_packed_group(packed, PACKED_UP, chunk, rank));
    if (packed->by_link && seat->parent == NO_RANK) /* into the own output alone */
        lane->us += (2.0 + seat->children) / 2 * (double)packed->lane_ps * 1e-12 * share;
    else
        lane->us += packed->seat_us[PACKED_UP][seat - packed->way[PACKED_UP].seat] * share;
    lane->hops++;
    if (seat->parent != NO_RANK)
        add_climb(m, rank, seat, share, lane);
    else if (peal_packed_fused(packed))
        add_root(m, chunk, rank, lane);
    if (seat->children)
        m->folds[seat->depth] += (1 + seat->children) * share * peal_planner_fold_us(m->planner);
}

/* A lane's hops down from one seat, its child `first` and later ones: it reads once, and stores to
 * all that it serves; the root's output too, by the lane of the first. */
static void add_serving(const struct measuring *m, uint32_t chunk, uint32_t rank, uint32_t first)
{
    const struct packed *packed = m->packed;
    const struct seat *seat = peal_packed_seat(packed, PACKED_DOWN, chunk, rank);
    const uint32_t *child = peal_packed_children(packed, PACKED_DOWN, seat);
    uint32_t kind = peal_packed_kind(packed, PACKED_DOWN, seat);
    uint32_t group = peal_packed_group(packed, PACKED_DOWN, chunk, child[first]);
    struct lane_work *lane = lane_of(m, kind, group);
    double link_us = 0, told_us = 0, gap_us = 0,
           own = seat->parent == NO_RANK && first == 0 && !packed->way[PACKED_UP].levels;
    double touched = 1 + own;
    for (uint32_t i = first; i < seat->children; i++) {
        const struct packed_link *link = peal_packed_link(packed, PACKED_DOWN, child[i], rank);
        if (peal_packed_group(packed, PACKED_DOWN, chunk, child[i]) != group)
            continue;
        if (!link->stores) {
            add_pushed(&m->pushed[kind], link->gap_us, hearers(packed, chunk, child[i]));
            lane->pushed_us += (double)link->ps * 1e-12 * peal_packed_share(packed, chunk);
            continue;
        }
        touched += 1;
        gap_us = larger(gap_us, link->gap_us);
        told_us += link->gap_us * hearers(packed, chunk, child[i]);
        link_us = larger(link_us, (double)link->ps * 1e-12);
    }
    if (!packed->by_link) /* links that its children share count */
        lane->us += m->packed->seat_us[PACKED_DOWN][seat - packed->way[PACKED_DOWN].seat] *
                    peal_packed_share(packed, chunk);
    else if (touched > 1)
        lane->us += larger(touched / 2 / (peal_planner_lane_gbs(m->planner) * 1e3), link_us) *
                    peal_packed_share(packed, chunk);
    lane->hops++;
    lane->peer = child[first];
    lane->link_us += link_us * peal_packed_share(packed, chunk);
    lane->waits_us += told_us - gap_us;
    lane->gap_us += packed->by_link ? gap_us : 0;
    m->work[kind].told_us = larger(m->work[kind].told_us, told_us - gap_us);
}

static void add_down(const struct measuring *m, uint32_t chunk, uint32_t rank)
{
    const struct packed *packed = m->packed;
    const struct seat *seat = peal_packed_seat(packed, PACKED_DOWN, chunk, rank);
    const uint32_t *child = peal_packed_children(packed, PACKED_DOWN, seat);
    uint32_t kind = peal_packed_kind(packed, PACKED_DOWN, seat);
    if (seat->depth == 0 && peal_packed_fused(packed))
        return; /* done with the fold */
    if (!seat->children) {
        (void)lane_of(m, kind, peal_packed_leaf_group(packed, chunk));
        return;
    }
    for (uint32_t i = 0; i < seat->children; i++)
        if (peal_packed_first(packed, chunk, child, i))
            add_serving(m, chunk, rank, i);
}

/* What lanes that share a link take, all of them from one time on: each has its share of it, at
 * most what it moves by itself, and the others have more when one is through. */
static double sharing_us(struct lane_work *const *lane, uint32_t count)
{
    double left[PLAN_LANES_MAX], rate[PLAN_LANES_MAX], us = 0;
    for (uint32_t i = 0; i < count; i++)
        left[i] = lane[i]->link_us;
    for (uint32_t through = 0; through < count;) {
        double rest = 1, step = -1;
        uint32_t open = 0;
        for (uint32_t i = 0; i < count; i++) {
            rate[i] = left[i] > 0 ? -1 : 0;
            open += left[i] > 0;
        }
        for (uint32_t capped = 1; capped && open;) { /* those that cannot use their share */
            double share = rest / open;
            capped = 0;
            for (uint32_t i = 0; i < count; i++)
                if (rate[i] < 0 && lane[i]->link_us <= share * lane[i]->us) {
                    rate[i] = lane[i]->link_us / lane[i]->us;
                    rest -= rate[i];
                    open--;
                    capped = 1;
                }
        }
        for (uint32_t i = 0; i < count; i++) {
            rate[i] = rate[i] < 0 ? rest / open : rate[i];
            if (left[i] > 0 && (step < 0 || left[i] < step * rate[i]))
                step = left[i] / rate[i];
        }
        us += step;
        for (uint32_t i = 0; i < count; i++) {
            int moves = left[i] > 0;
            left[i] -= rate[i] * step;
            if (moves && left[i] <= lane[i]->link_us * 1e-9) {
                left[i] = 0;
                through++;
            }
        }
    }
    return us;
}

/* Neighbours of a rank that one resource leads to have one link. */
static uint32_t link_of(const struct packed *packed, uint32_t rank, uint32_t peer)
{
    const struct packed_link *link = &packed->link[rank * packed->n];
    uint32_t first = 0;
    while (!link[first].ps || link[first].way_out != link[peer].way_out)
        first++;
    return first;
}

/* The lanes of a rank that use one link. */
struct sharers {
    struct lane_work *lane[PLAN_LANES_MAX];
    uint32_t count;
};

static void find_sharers(const struct measuring *m, uint32_t rank, uint32_t link, int stores,
                         struct sharers *to)
{
    uint32_t all = peal_packed_lane_kinds(m->packed) * m->packed->lanes;
    to->count = 0;
    for (uint32_t i = 0; i < all && to->count < PLAN_LANES_MAX; i++) {
        struct lane_work *lane = &m->lane[i];
        if ((stores ? lane->link_us : lane->pushed_us) > 0 &&
            link_of(m->packed, rank, lane->peer) == link)
            to->lane[to->count++] = lane;
    }
}

/* Lanes that have equally much to do over a link stay in step, and stand still together. */
static double in_step_us(const struct sharers *by)
{
    double waits_us = by->lane[0]->waits_us;
    for (uint32_t i = 1; i < by->count; i++) {
        if (by->lane[i]->hops != by->lane[0]->hops)
            return 0;
        waits_us = by->lane[i]->waits_us < waits_us ? by->lane[i]->waits_us : waits_us;
    }
    return waits_us;
}

static void add_stored(const struct sharers *by, struct packed_work *work)
{
    if (!by->count)
        return;
    double us = sharing_us(by->lane, by->count), waits_us = in_step_us(by), longest_us = 0;
    for (uint32_t i = 0; i < by->count; i++)
        longest_us = larger(longest_us, by->lane[i]->waits_us);
    work->links_us = larger(work->links_us, us);
    work->links_waits_us = larger(work->links_waits_us, longest_us / by->count);
    if (waits_us > work->held_waits_us || (waits_us == work->held_waits_us && us > work->held_us)) {
        work->held_waits_us = waits_us;
        work->held_us = us;
    }
}

/* Of a kind, the lane whose transfers take longest, among those of most hops. Others on the link
 * have no more of it than each its share. */
static void add_flight(const struct lane_work *lane, double pushed_us, uint32_t lanes,
                       struct packed_work *kind)
{
    double others_us = pushed_us - lane->pushed_us, most_us = lane->pushed_us * (lanes - 1);
    double beside_us = others_us < most_us ? others_us : most_us;
    if (lane->hops < kind->sent_hops ||
        (lane->hops == kind->sent_hops &&
         lane->pushed_us + beside_us <= kind->sent_us + kind->beside_us))
        return;
    kind->sent_hops = lane->hops;
    kind->sent_us = lane->pushed_us;
    kind->beside_us = beside_us;
    kind->folded = lane->us > 0;
}

/* A lane of one hop folds when its last fold has left, beside what other lanes send there. */
static void add_pushers(const struct measuring *m, const struct sharers *by, int nets,
                        struct packed_work *work)
{
    double pushed_us = 0;
    for (uint32_t i = 0; i < by->count; i++)
        pushed_us += by->lane[i]->pushed_us;
    for (uint32_t i = 0; i < by->count; i++) {
        const struct lane_work *lane = by->lane[i];
        uint32_t kind = (uint32_t)(lane - m->lane) / m->packed->lanes;
        if (nets)
            add_flight(lane, pushed_us, by->count, &work[kind]);
        if (lane->hops > 1 || lane->us <= 0)
            continue;
        double sent_us = peal_beside_us(lane->pushed_us, pushed_us - lane->pushed_us, lane->us);
        work->links_us = larger(work->links_us, lane->us + sent_us);
    }
}

static void add_links(const struct measuring *m, uint32_t rank, struct packed_work *work)
{
    const struct packed *packed = m->packed;
    for (uint32_t first = 0; first < packed->n; first++) {
        struct sharers by;
        if (!packed->link[rank * packed->n + first].ps || link_of(packed, rank, first) != first)
            continue;
        find_sharers(m, rank, first, 1, &by);
        add_stored(&by, work);
        find_sharers(m, rank, first, 0, &by);
        add_pushers(m, &by, packed->link[rank * packed->n + first].nets, work);
    }
}

static double but_one(double sum, uint32_t count)
{
    return sum * (count - 1) / count;
}

static double add_rank(const struct measuring *m, uint32_t rank, struct packed_work *work,
                       uint32_t *lanes)
{
    const struct packed *packed = m->packed;
    uint32_t kinds = peal_packed_lane_kinds(packed);
    double sum = 0;
    *lanes = 0;
    memset(m->lane, 0, (size_t)kinds * packed->lanes * sizeof *m->lane);
    for (uint32_t k = 0; k < kinds; k++)
        m->folds[k] = 0, m->pushed[k] = (struct pushed){0, 0};
    for (uint32_t chunk = 0; chunk < peal_packed_chunks(packed); chunk++) {
        if (packed->way[PACKED_UP].levels)
            add_up(m, chunk, rank);
        if (packed->way[PACKED_DOWN].levels)
            add_down(m, chunk, rank);
    }
    if (packed->by_link)
        add_links(m, rank, work);
    for (uint32_t i = 0; i < kinds * packed->lanes; i++) {
        struct packed_work *to = &work[i / packed->lanes];
        *lanes += m->lane[i].used;
        to->us = larger(to->us, m->lane[i].us);
        to->hops = to->hops > m->lane[i].hops ? to->hops : m->lane[i].hops;
        to->waits_us = larger(to->waits_us, m->lane[i].waits_us);
        if (m->lane[i].hops)
            to->gap_us = larger(to->gap_us, but_one(m->lane[i].gap_us, m->lane[i].hops));
    }
    for (uint32_t k = 0; k < kinds; k++) {
        sum += m->folds[k];
        work[k].fold_us = larger(work[k].fold_us, m->folds[k]);
        work[k].gap_us = larger(work[k].gap_us, m->pushed[k].us - m->pushed[k].most_us);
    }
    return sum;
}

peal_status peal_packed_measure(const struct planner *planner, const struct packed *packed,
                                struct packed_work *work, uint32_t *lanes_out, double *fold_us)
{
    double folds[PACKED_KINDS_MAX];
    struct pushed pushed[PACKED_KINDS_MAX];
    size_t bytes =
        (size_t)peal_packed_lane_kinds(packed) * packed->lanes * sizeof(struct lane_work);
    struct measuring m = {.planner = planner,
                          .packed = packed,
                          .lane = peal_alloc(packed->ctx, bytes),
                          .folds = folds,
                          .pushed = pushed,
                          .work = work};
    *lanes_out = 0;
    *fold_us = 0;
    for (uint32_t k = 0; k < peal_packed_lane_kinds(packed); k++)
        work[k] = (struct packed_work){0};
    for (uint32_t r = 0; m.lane && r < packed->n; r++) {
        uint32_t lanes;
        *fold_us = larger(*fold_us, add_rank(&m, r, work, &lanes));
        *lanes_out = *lanes_out > lanes ? *lanes_out : lanes;
    }
    peal_status status = m.lane ? PEAL_OK : PEAL_ERR_MEMORY;
    peal_free(packed->ctx, m.lane, bytes);
    return status;
}
