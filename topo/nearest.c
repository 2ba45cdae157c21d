/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which NIC a rank sends through: RDMA before sockets, real before virtual, then the
 * nearest, then the fastest; equally good ones are dealt out so that each serves as few
 * ranks as possible. Ranks with the least choice choose first. NICs in use are numbered
 * as rails.
 */
#include "nearest.h"
#include "topo_text.h"

#include <string.h>

/* How near: the class of the way, then whether it crosses the CPU. */
static uint32_t distance(const struct topo_label *label)
{
    return label->link == TOPO_NONE ? UINT32_MAX
                                    : (uint32_t)label->link_class * 2 + (label->host != 0);
}

/* Sockets are looked at only where there is no RDMA, virtual ones only where nothing else. */
static int tier(const struct topo_nic *nic)
{
    return nic->rdma ? 0 : nic->virtual_ ? 2 : 1;
}

static int best_tier(const struct topo_type *type)
{
    int best = 2;

    for (uint32_t n = 0; n < type->nics; n++) {
        if (tier(&type->nic[n]) < best)
            best = tier(&type->nic[n]);
    }
    return best;
}

struct choice {
    uint32_t distance;
    double gbs;
    uint32_t hops;
};

static int nearer(const struct choice *a, const struct choice *b)
{
    if (a->distance != b->distance)
        return a->distance < b->distance;
    if (a->gbs > b->gbs || a->gbs < b->gbs)
        return a->gbs > b->gbs;
    return a->hops < b->hops;
}

static struct choice judge(const struct topo_type *type, const struct topo_label *label, uint32_t n)
{
    const struct topo_nic *nic = &type->nic[n];
    const struct topo_label *end = &label[nic->node];
    struct choice choice = {distance(end), end->gbs, end->hops};

    if (type->resource[nic->tx].gbs < choice.gbs)
        choice.gbs = type->resource[nic->tx].gbs;
    return choice;
}

/* Marks the NICs that are equally good and best for an accelerator; returns how many. */
static uint32_t candidates(const struct topo_type *type, const struct topo_label *label, int want,
                           uint8_t *mark)
{
    struct choice best = {UINT32_MAX, 0, 0};
    uint32_t count = 0;

    memset(mark, 0, type->nics);
    for (uint32_t n = 0; n < type->nics; n++) {
        struct choice choice = judge(type, label, n);

        if (tier(&type->nic[n]) == want && choice.distance != UINT32_MAX && nearer(&choice, &best))
            best = choice;
    }
    for (uint32_t n = 0; n < type->nics; n++) {
        struct choice choice = judge(type, label, n);

        if (tier(&type->nic[n]) == want && choice.distance != UINT32_MAX &&
            !nearer(&choice, &best) && !nearer(&best, &choice)) {
            mark[n] = 1;
            count++;
        }
    }
    return count;
}

static uint32_t least_loaded(const struct topo_type *type, const struct topo_nearest *work,
                             uint32_t a)
{
    const uint8_t *mark = &work->mark[(size_t)a * type->nics];
    uint32_t best = TOPO_NONE;

    for (uint32_t n = 0; n < type->nics; n++) {
        if (mark[n] && (best == TOPO_NONE || work->load[n] < work->load[best]))
            best = n;
    }
    return best;
}

static void deal(struct topo_type *type, struct topo_nearest *work)
{
    for (uint32_t wanted = 1; wanted <= type->nics; wanted++) {
        for (uint32_t a = 0; a < type->accels; a++) {
            uint32_t n;

            if (work->choices[a] != wanted)
                continue;
            n = least_loaded(type, work, a);
            type->accel[a].nic = (int32_t)n;
            work->load[n]++;
        }
    }
}

/* The way out to the NIC and the way in from it. A bundle's members hang on one node, and
 * their own PCIe links are counted in its port, so the way ends above them. */
static peal_status keep_ways(peal_fabric *fabric, struct topo_type *type, struct topo_nearest *work)
{
    for (uint32_t a = 0; a < type->accels; a++) {
        struct topo_accel *accel = &type->accel[a];
        const struct topo_label *label;
        uint32_t nic;

        if (accel->nic < 0)
            continue;
        nic = type->nic[accel->nic].node;
        label = peal_topo_search_from(work->search, accel->node);
        PEAL_TRY(peal_topo_keep_route(fabric->ctx, type, label, nic, &accel->out, &accel->outs));
        label = peal_topo_search_from(work->search, nic);
        if (label[accel->node].link == TOPO_NONE)
            return PEAL_ERR_INTERNAL;
        PEAL_TRY(
            peal_topo_keep_route(fabric->ctx, type, label, accel->node, &accel->in, &accel->ins));
        if (accel->bundle) {
            accel->outs--;
            accel->in++;
            accel->ins--;
            continue;
        }
        accel->tx = type->nic[accel->nic].tx;
        accel->rx = type->nic[accel->nic].rx;
    }
    return PEAL_OK;
}

static peal_status warn_far(peal_fabric *fabric, const struct topo_type *type, uint32_t a,
                            const struct topo_label *label)
{
    const struct topo_accel *accel = &type->accel[a];

    if (accel->nic < 0 || label[type->nic[accel->nic].node].link_class < PEAL_LINK_SMP)
        return PEAL_OK;
    return peal_topo_trap(&fabric->notes, "far-nic", accel->line,
                          "gpu%u is far from its NIC: every usable one is on another NUMA node "
                          "(%s is chosen)",
                          (unsigned)a, type->node[type->nic[accel->nic].node].name);
}

static int in_use(const struct topo_nearest *work, uint32_t n)
{
    return work->load[n] || work->owner[n] != TOPO_NONE;
}

/* The lowest NIC in use that has the same port, or is of the same bundle. */
static uint32_t leader(const struct topo_type *type, const struct topo_nearest *work, uint32_t n)
{
    for (uint32_t o = 0; o < n; o++) {
        if (in_use(work, o) && (type->nic[o].tx == type->nic[n].tx ||
                                (work->owner[n] != TOPO_NONE && work->owner[o] == work->owner[n])))
            return o;
    }
    return n;
}

static void number_rails(struct topo_type *type, const struct topo_nearest *work)
{
    type->rails = 0;
    type->net_gbs = 0;
    for (uint32_t n = 0; n < type->nics; n++) {
        struct topo_nic *nic = &type->nic[n];
        uint32_t first = leader(type, work, n);

        if (!in_use(work, n))
            continue;
        if (nic->rail_stated >= 0)
            nic->rail = nic->rail_stated;
        else
            nic->rail = first < n ? type->nic[first].rail : (int32_t)type->rails;
        if ((uint32_t)nic->rail >= type->rails)
            type->rails = (uint32_t)nic->rail + 1;
        if (first == n || type->nic[first].tx != nic->tx)
            type->net_gbs += type->resource[nic->tx].gbs;
    }
}

static peal_status choose(peal_fabric *fabric, struct topo_type *type, struct topo_nearest *work)
{
    int want = best_tier(type);

    for (uint32_t a = 0; a < type->accels; a++)
        work->choices[a] =
            candidates(type, peal_topo_search_from(work->search, type->accel[a].node), want,
                       &work->mark[(size_t)a * type->nics]);
    deal(type, work);
    for (uint32_t n = 0; n < type->nics; n++)
        work->owner[n] = TOPO_NONE;
    PEAL_TRY(peal_topo_bundle_nics(fabric, type, work));
    number_rails(type, work);
    for (uint32_t a = 0; a < type->accels; a++)
        PEAL_TRY(
            warn_far(fabric, type, a, peal_topo_search_from(work->search, type->accel[a].node)));
    return keep_ways(fabric, type, work);
}

peal_status peal_topo_nearest_nics(peal_fabric *fabric, struct topo_type *type)
{
    peal_ctx *ctx = fabric->ctx;
    size_t marks = (size_t)type->accels * type->nics;
    struct topo_nearest work = {.search = NULL};
    peal_status status;

    if (!type->nics)
        return PEAL_OK;
    work.mark = peal_calloc(ctx, marks, 1);
    work.choices = peal_calloc(ctx, type->accels, sizeof *work.choices);
    work.load = peal_calloc(ctx, type->nics, sizeof *work.load);
    work.owner = peal_calloc(ctx, type->nics, sizeof *work.owner);
    status = work.mark && work.choices && work.load && work.owner
                 ? peal_topo_search_init(&work.search, ctx, type)
                 : PEAL_ERR_MEMORY;
    if (status == PEAL_OK)
        status = choose(fabric, type, &work);
    peal_topo_search_free(work.search);
    peal_free(ctx, work.mark, marks);
    peal_free(ctx, work.choices, type->accels * sizeof *work.choices);
    peal_free(ctx, work.load, type->nics * sizeof *work.load);
    peal_free(ctx, work.owner, type->nics * sizeof *work.owner);
    return status;
}
