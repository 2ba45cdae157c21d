/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a switch's incoming links had best be joined to its outgoing ones. Any way that keeps
 * every node fed is as fast; the shortest trees come from spreading. Nodes that only the switch
 * connects (the boxes around a network switch) are joined first, place by place, so that hops
 * between boxes stay on their rail; then compute nodes, those first that have the thinnest link
 * yet; then whatever is left. Capacity is dealt in whole portions (what one root sends), so that
 * a root's trees need not be told apart, and strides halve the circle first, so that few links
 * reach far around it. Strides between boxes run the other way: what a box's own switch had not
 * enough portions for, at its last stride, is what the network's second stride makes up for.
 */
#include "pack.h"

#include <string.h>

#define ROUNDS_MAX 16u /* what they leave over is joined without a plan */

/* What a pass joins. */
enum pass {
    ACROSS, /* groups that have compute nodes */
    FILL,   /* compute nodes of a group, up to a portion */
    REST,   /* compute nodes and switches of a group; two switches, if there is nothing else */
    NEAR    /* compute nodes of a group */
};

/* A neighbour of the switch. */
struct seat {
    uint32_t node;
    uint32_t group;
    uint64_t in;     /* left from the node to the switch */
    uint64_t out;    /* left from the switch to the node */
    uint64_t in_all; /* at the beginning of the pass */
    uint64_t out_all;
    uint64_t level; /* what each of its links is brought to first, in whole portions */
};

/* Nodes that are connected without the switch. */
struct group {
    uint32_t first;   /* of its seats */
    uint32_t compute; /* compute nodes, neighbours or not */
    uint64_t in_all;  /* of its seats, at the beginning of the pass */
    uint64_t out_all;
};

struct table {
    const struct pack_net *net;
    uint32_t center;
    uint64_t portion;
    enum pass pass;
    uint32_t nseats;
    uint32_t ngroups;
    uint32_t widest;      /* seats of the largest group */
    int mixed;            /* compute nodes are among the neighbours */
    struct seat *seats;   /* by group */
    struct group *groups; /* and one more */
    uint64_t *present;    /* units from seat to seat, dealt or there before: seats x seats */
    uint32_t *group_of;   /* by node of the network: the lowest node of its group */
    uint32_t *seat_of;    /* by node, PACK_NONE: no neighbour */
    struct pack_deal *deal;
};

/* ---- groups ------------------------------------------------------------------------ */

static uint32_t root_of(uint32_t *parent, uint32_t v)
{
    while (parent[v] != v) {
        parent[v] = parent[parent[v]];
        v = parent[v];
    }
    return v;
}

/* Groups go by the name of their lowest node. */
static void find_groups(struct table *table)
{
    const struct pack_net *net = table->net;
    uint32_t *parent = table->group_of;
    for (uint32_t v = 0; v < net->nodes; v++)
        parent[v] = v;
    for (uint32_t i = 0; i < net->nlinks; i++) {
        const struct pack_link *link = &net->links[i];
        if (!link->units || link->from == table->center || link->to == table->center)
            continue;
        uint32_t a = root_of(parent, link->from);
        uint32_t b = root_of(parent, link->to);
        parent[a > b ? a : b] = a > b ? b : a;
    }
    for (uint32_t v = 0; v < net->nodes; v++)
        parent[v] = root_of(parent, v);
}

/* Seats the neighbours among one group. */
static void seat_group(struct table *table, uint32_t name)
{
    const struct pack_net *net = table->net;
    struct group *group = &table->groups[table->ngroups];
    *group = (struct group){.first = table->nseats};
    for (uint32_t v = name; v < net->nodes; v++) {
        if (table->group_of[v] != name)
            continue;
        group->compute += v < net->compute;
        if (table->seat_of[v] == PACK_NONE)
            continue;
        table->seat_of[v] = table->nseats;
        table->seats[table->nseats++] = (struct seat){.node = v, .group = table->ngroups};
        table->mixed |= v < net->compute;
    }
    uint32_t width = table->nseats - group->first;
    table->ngroups += width > 0;
    if (width > table->widest)
        table->widest = width;
}

static void seat_neighbours(struct table *table)
{
    for (uint32_t v = 0; v < table->net->nodes; v++)
        if (table->group_of[v] == v)
            seat_group(table, v);
    table->groups[table->ngroups] = (struct group){.first = table->nseats};
}

static void find_neighbours(struct table *table)
{
    const struct pack_net *net = table->net;
    memset(table->seat_of, 0xff, net->nodes * sizeof *table->seat_of);
    for (uint32_t i = 0; i < net->nlinks; i++) {
        const struct pack_link *link = &net->links[i];
        if (link->units && link->to == table->center)
            table->seat_of[link->from] = 0;
        if (link->units && link->from == table->center)
            table->seat_of[link->to] = 0;
    }
}

static void count_units(struct table *table)
{
    const struct pack_net *net = table->net;
    for (uint32_t i = 0; i < net->nlinks; i++) {
        const struct pack_link *link = &net->links[i];
        if (link->units && link->to == table->center)
            table->seats[table->seat_of[link->from]].in = link->units;
        if (link->units && link->from == table->center)
            table->seats[table->seat_of[link->to]].out = link->units;
    }
}

static peal_status count_present(struct table *table)
{
    size_t cells = (size_t)table->nseats * table->nseats;
    table->present = peal_calloc(table->net->ctx, cells, sizeof *table->present);
    if (!table->present)
        return PEAL_ERR_MEMORY;
    for (uint32_t i = 0; i < table->net->nlinks; i++) {
        const struct pack_link *link = &table->net->links[i];
        uint32_t from = table->seat_of[link->from];
        uint32_t to = table->seat_of[link->to];
        if (from != PACK_NONE && to != PACK_NONE)
            table->present[(size_t)from * table->nseats + to] = link->units;
    }
    return PEAL_OK;
}

static uint64_t *present(const struct table *table, const struct seat *from, const struct seat *to)
{
    return &table->present[(size_t)(from - table->seats) * table->nseats +
                           (size_t)(to - table->seats)];
}

/* ---- how much of it -------------------------------------------------------------------- */

static int may_join(const struct table *table, const struct seat *from, const struct seat *to)
{
    uint32_t compute = table->net->compute;
    int computing = (from->node < compute) + (to->node < compute);
    if (from->node == to->node || (table->pass == ACROSS) != (from->group != to->group))
        return 0;
    if (table->pass == ACROSS)
        return table->groups[from->group].compute && table->groups[to->group].compute;
    if (table->pass == REST)
        return computing == (table->mixed ? 1 : 0);
    return computing == 2;
}

/* floor(amount x part / whole), part <= whole; nothing of nothing. */
static uint64_t part_of(uint64_t amount, uint64_t part, uint64_t whole)
{
    uint64_t share = 0;
    if (!whole || peal_pack_muldiv_overflows(amount, part, whole, &share))
        return 0;
    return share;
}

/* `amount` shared out over the groups by how many compute nodes lie there (not to group `own`),
 * and over a group's seats by capacity: the part of a seat in group `to` that has `part`. */
static uint64_t share_of(const struct table *table, uint64_t amount, uint32_t own, uint32_t to,
                         uint64_t part, uint64_t whole)
{
    if (table->pass == ACROSS)
        amount = part_of(amount, table->groups[to].compute,
                         table->net->compute - table->groups[own].compute);
    return part_of(amount, part, whole);
}

/* What from would give to, or to would have of from, if that is less. */
static uint64_t fair_share(const struct table *table, const struct seat *from,
                           const struct seat *to)
{
    int across = table->pass == ACROSS;
    uint64_t outs = table->groups[to->group].out_all - (across ? 0 : from->out_all);
    uint64_t ins = table->groups[from->group].in_all - (across ? 0 : to->in_all);
    uint64_t give = share_of(table, from->in_all, from->group, to->group, to->out_all, outs);
    uint64_t have = share_of(table, to->out_all, to->group, from->group, from->in_all, ins);
    return give < have ? give : have;
}

/* To the level in round 0, and up by a portion a round; levels are whole portions. */
static uint64_t lack_of(const struct table *table, const struct seat *from, const struct seat *to,
                        uint32_t round)
{
    uint64_t aim = from->level + round * table->portion;
    uint64_t has = *present(table, from, to);
    return has < aim ? aim - has : 0;
}

static uint64_t amount_of(const struct table *table, const struct seat *from, const struct seat *to,
                          uint32_t round)
{
    uint64_t amount = table->portion;
    if (table->pass == NEAR || table->pass == FILL) {
        amount = lack_of(table, from, to, round);
    } else if (!round) {
        amount = fair_share(table, from, to);
        amount -= amount % table->portion;
    }
    if (amount > from->in)
        amount = from->in;
    return amount > to->out ? to->out : amount;
}

static peal_status deal_pair(struct table *table, struct seat *from, struct seat *to,
                             uint32_t round)
{
    struct pack_deal *deal = table->deal;
    uint64_t amount = amount_of(table, from, to, round);
    if (!amount || deal->noffers == PACK_LINKS_MAX)
        return PEAL_OK;
    PEAL_TRY(peal_grow(table->net->ctx, (void **)&deal->offers, &deal->room,
                       (size_t)deal->noffers + 1, sizeof *deal->offers, PACK_LINKS_MAX));
    deal->offers[deal->noffers++] = (struct pack_offer){from->node, to->node, amount};
    from->in -= amount;
    to->out -= amount;
    *present(table, from, to) += amount;
    return PEAL_OK;
}

/* ---- strides --------------------------------------------------------------------------- */

/* Every seat with the one `groups` groups and `places` places further round. */
static peal_status deal_stride(struct table *table, uint32_t groups, uint32_t places,
                               uint32_t round)
{
    for (uint32_t i = 0; i < table->nseats; i++) {
        struct seat *from = &table->seats[i];
        const struct group *group = &table->groups[(from->group + groups) % table->ngroups];
        uint32_t width = group[1].first - group->first;
        uint32_t place = i - table->groups[from->group].first;
        struct seat *to = &table->seats[group->first + (place + places) % width];
        if (places < width && may_join(table, from, to))
            PEAL_TRY(deal_pair(table, from, to, round));
    }
    return PEAL_OK;
}

/* The i-th number of as many bits as `below` needs, bits reversed: 1/2, 1/4, 3/4 of the way. */
static uint32_t stride_at(uint32_t i, uint32_t below)
{
    uint32_t stride = 0;
    for (uint32_t bit = 1; bit < below; bit *= 2) {
        stride = stride << 1 | (i & 1);
        i >>= 1;
    }
    return stride;
}

static uint32_t stride_count(uint32_t below)
{
    uint32_t count = 1;
    while (count < below)
        count *= 2;
    return count;
}

static peal_status deal_round(struct table *table, uint32_t round)
{
    int across = table->pass == ACROSS;
    uint32_t group_strides = across ? stride_count(table->ngroups) : 1;
    uint32_t place_strides = stride_count(table->widest);
    for (uint32_t p = 0; p < place_strides; p++) {
        uint32_t places = stride_at(across ? place_strides - p : p, table->widest);
        if (places >= table->widest)
            continue;
        for (uint32_t g = 0; g < group_strides; g++) {
            uint32_t groups = across ? stride_at(g, table->ngroups) : 0;
            if (groups < table->ngroups)
                PEAL_TRY(deal_stride(table, groups, places, round));
        }
    }
    return PEAL_OK;
}

/* ---- passes ------------------------------------------------------------------------------ */

/* What each link of the seat could have, were they all alike. */
static uint64_t level_of(const struct table *table, const struct seat *from)
{
    uint64_t units = from->in;
    uint64_t links = 0;
    if (table->pass == FILL)
        return table->portion;
    for (uint32_t i = 0; i < table->nseats; i++)
        if (may_join(table, from, &table->seats[i])) {
            units += *present(table, from, &table->seats[i]);
            links++;
        }
    units = links ? units / links : 0;
    return units - units % table->portion;
}

static void begin_pass(struct table *table, enum pass pass)
{
    table->pass = pass;
    for (uint32_t g = 0; g < table->ngroups; g++)
        table->groups[g].in_all = table->groups[g].out_all = 0;
    for (uint32_t i = 0; i < table->nseats; i++) {
        struct seat *seat = &table->seats[i];
        seat->in_all = seat->in;
        seat->out_all = seat->out;
        seat->level = level_of(table, seat);
        table->groups[seat->group].in_all += seat->in;
        table->groups[seat->group].out_all += seat->out;
    }
}

static peal_status deal_pass(struct table *table, enum pass pass, uint32_t rounds)
{
    begin_pass(table, pass);
    for (uint32_t round = 0; round < rounds; round++) {
        uint32_t before = table->deal->noffers;
        PEAL_TRY(deal_round(table, round));
        if (table->deal->noffers == before && round)
            break;
    }
    return PEAL_OK;
}

static peal_status deal_table(struct table *table)
{
    find_groups(table);
    find_neighbours(table);
    seat_neighbours(table);
    if (!table->nseats)
        return PEAL_OK;
    count_units(table);
    PEAL_TRY(count_present(table));
    PEAL_TRY(deal_pass(table, ACROSS, ROUNDS_MAX));
    PEAL_TRY(deal_pass(table, FILL, 1));
    PEAL_TRY(deal_pass(table, REST, 1));
    PEAL_TRY(deal_pass(table, NEAR, ROUNDS_MAX));
    return deal_pass(table, REST, ROUNDS_MAX);
}

peal_status peal_pack_deal(const struct pack_net *net, uint32_t node, uint64_t portion,
                           struct pack_deal *deal)
{
    struct table table = {.net = net, .center = node, .portion = portion, .deal = deal};
    size_t n = net->nodes;
    peal_status status = PEAL_ERR_MEMORY;
    table.seats = peal_calloc(net->ctx, n, sizeof *table.seats);
    table.groups = peal_calloc(net->ctx, n + 1, sizeof *table.groups);
    table.group_of = peal_calloc(net->ctx, 2 * n, sizeof *table.group_of);
    if (table.seats && table.groups && table.group_of) {
        table.seat_of = table.group_of + n;
        deal->noffers = 0;
        status = deal_table(&table);
    }
    size_t cells = (size_t)table.nseats * table.nseats;
    peal_free(net->ctx, table.present, cells * sizeof *table.present);
    peal_free(net->ctx, table.seats, n * sizeof *table.seats);
    peal_free(net->ctx, table.groups, (n + 1) * sizeof *table.groups);
    peal_free(net->ctx, table.group_of, 2 * n * sizeof *table.group_of);
    return status;
}
