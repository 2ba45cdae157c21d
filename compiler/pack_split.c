/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Switch removal: u-w-t, through switch w, becomes a link u-t, as many units at a time as leave
 * every compute node fed, until w is alone. While no switch sends more than it receives, for each
 * unit that one sends there is one it receives to be joined with (splitting off, Mader 1982;
 * where only some nodes have to stay connected, Bang-Jensen, Frank and Jackson 1995). Each new
 * link remembers its way.
 */
#include "pack.h"

#include <string.h>

struct split {
    struct pack_net *net;
    struct pack_pieces *pieces;
    struct pack_deal deal;
    uint32_t *at; /* nodes x nodes: 1 + the link from row to column; 0: none */
    uint64_t portion;
};

void peal_pack_pieces_free(struct pack_pieces *pieces, peal_ctx *ctx)
{
    peal_free(ctx, pieces->paths, pieces->paths_room * sizeof *pieces->paths);
    peal_free(ctx, pieces->pieces, pieces->room * sizeof *pieces->pieces);
    peal_free(ctx, pieces->heads, pieces->heads_room * sizeof *pieces->heads);
    *pieces = (struct pack_pieces){0};
}

/* ---- links by their ends ------------------------------------------------------------- */

static uint32_t *cell(const struct split *split, uint32_t from, uint32_t to)
{
    return &split->at[(size_t)from * split->net->nodes + to];
}

/* PACK_NONE when there is none. */
static uint32_t link_of(const struct split *split, uint32_t from, uint32_t to)
{
    return *cell(split, from, to) - 1;
}

static uint64_t units_of(const struct split *split, uint32_t from, uint32_t to)
{
    uint32_t link = link_of(split, from, to);
    return link == PACK_NONE ? 0 : split->net->links[link].units;
}

static peal_status note_link(struct split *split, uint32_t link)
{
    struct pack_pieces *pieces = split->pieces;
    PEAL_TRY(peal_grow(split->net->ctx, (void **)&pieces->heads, &pieces->heads_room,
                       (size_t)link + 1, sizeof *pieces->heads, PACK_LINKS_MAX));
    pieces->heads[link] = PACK_NONE;
    *cell(split, split->net->links[link].from, split->net->links[link].to) = link + 1;
    return PEAL_OK;
}

/* A link between two nodes, with no units if it is new. */
static peal_status make_link(struct split *split, uint32_t from, uint32_t to)
{
    if (link_of(split, from, to) != PACK_NONE)
        return PEAL_OK;
    PEAL_TRY(peal_pack_net_add(split->net, from, to));
    return note_link(split, split->net->nlinks - 1);
}

/* ---- ways ------------------------------------------------------------------------------ */

static peal_status add_piece(struct split *split, uint32_t link, uint32_t path, uint64_t units)
{
    struct pack_pieces *pieces = split->pieces;
    PEAL_TRY(peal_grow(split->net->ctx, (void **)&pieces->pieces, &pieces->room, pieces->count + 1,
                       sizeof *pieces->pieces, PACK_LINKS_MAX));
    pieces->pieces[pieces->count] = (struct pack_piece){units, path, pieces->heads[link]};
    pieces->heads[link] = pieces->count++;
    return PEAL_OK;
}

/* A link's piece that goes left, via, right; made when there is none. */
static peal_status find_piece(struct split *split, uint32_t link, const struct pack_path *way,
                              uint32_t *piece_out)
{
    struct pack_pieces *pieces = split->pieces;
    for (uint32_t i = pieces->heads[link]; i != PACK_NONE; i = pieces->pieces[i].next) {
        const struct pack_path *path = &pieces->paths[pieces->pieces[i].path];
        if (path->vias && path->left == way->left && path->right == way->right &&
            path->via == way->via) {
            *piece_out = i;
            return PEAL_OK;
        }
    }
    PEAL_TRY(peal_grow(split->net->ctx, (void **)&pieces->paths, &pieces->paths_room,
                       pieces->npaths + 1, sizeof *pieces->paths, PACK_LINKS_MAX));
    pieces->paths[pieces->npaths] = *way;
    PEAL_TRY(add_piece(split, link, pieces->npaths++, 0));
    *piece_out = pieces->heads[link];
    return PEAL_OK;
}

static uint32_t first_piece(const struct pack_pieces *pieces, uint32_t link)
{
    uint32_t i = pieces->heads[link];
    while (i != PACK_NONE && !pieces->pieces[i].units)
        i = pieces->pieces[i].next;
    return i;
}

/* Moves `units` of the ways of left and right, end to end, to those of joined (PACK_NONE: they
 * lead back to where they came from and are dropped). */
static peal_status join_ways(struct split *split, uint32_t left, uint32_t right, uint32_t joined,
                             uint64_t units)
{
    struct pack_pieces *pieces = split->pieces;
    while (units) {
        uint32_t a = first_piece(pieces, left);
        uint32_t b = first_piece(pieces, right);
        uint64_t amount = units;
        if (a == PACK_NONE || b == PACK_NONE)
            return PEAL_ERR_INTERNAL;
        if (amount > pieces->pieces[a].units)
            amount = pieces->pieces[a].units;
        if (amount > pieces->pieces[b].units)
            amount = pieces->pieces[b].units;
        if (joined != PACK_NONE) {
            const struct pack_path *pa = &pieces->paths[pieces->pieces[a].path];
            const struct pack_path *pb = &pieces->paths[pieces->pieces[b].path];
            struct pack_path way = {pieces->pieces[a].path, pieces->pieces[b].path,
                                    split->net->links[left].to, pa->vias + pb->vias + 1};
            uint32_t piece;
            PEAL_TRY(find_piece(split, joined, &way, &piece));
            pieces->pieces[piece].units += amount;
        }
        pieces->pieces[a].units -= amount;
        pieces->pieces[b].units -= amount;
        units -= amount;
    }
    return PEAL_OK;
}

/* ---- one switch -------------------------------------------------------------------------- */

/* The change that joins u-w and w-t; its links exist. */
static struct pack_change change_of(const struct split *split, uint32_t u, uint32_t w, uint32_t t)
{
    return (struct pack_change){{link_of(split, u, w), link_of(split, w, t)},
                                u == t ? PACK_NONE : link_of(split, u, t)};
}

static peal_status commit(struct split *split, const struct pack_change *change, uint64_t amount)
{
    return join_ways(split, change->less[0], change->less[1], change->more, amount);
}

/* As much of one joint as can be; exact. */
static peal_status join(struct split *split, uint32_t u, uint32_t w, uint32_t t, uint64_t amount)
{
    if (u != t)
        PEAL_TRY(make_link(split, u, t));
    struct pack_change change = change_of(split, u, w, t);
    return commit(split, &change, peal_pack_net_admit(split->net, &change, amount));
}

static void change_offers(struct split *split, uint32_t w, uint32_t first, uint32_t last, int undo)
{
    for (uint32_t i = first; i < last; i++) {
        const struct pack_offer *offer = &split->deal.offers[i];
        struct pack_change change = change_of(split, offer->from, w, offer->to);
        if (undo)
            peal_pack_net_undo(split->net, &change, offer->amount);
        else
            peal_pack_net_apply(split->net, &change, offer->amount);
    }
}

static peal_status commit_offers(struct split *split, uint32_t w, uint32_t first, uint32_t last)
{
    for (uint32_t i = first; i < last; i++) {
        const struct pack_offer *offer = &split->deal.offers[i];
        struct pack_change change = change_of(split, offer->from, w, offer->to);
        PEAL_TRY(commit(split, &change, offer->amount));
    }
    return PEAL_OK;
}

/* Offers are taken many at a time: all of them when that leaves every node fed, as it nearly
 * always does, else by halves, the earlier half first. Halves wait on a stack of their ends. */
static peal_status take_offers(struct split *split, uint32_t w)
{
    uint32_t ends[33];
    uint32_t depth = 1;
    uint32_t first = 0;
    ends[0] = split->deal.noffers;
    while (depth) {
        uint32_t last = ends[depth - 1];
        if (last - first == 1) {
            const struct pack_offer *offer = &split->deal.offers[first];
            PEAL_TRY(join(split, offer->from, w, offer->to, offer->amount));
        } else if (last > first) {
            change_offers(split, w, first, last, 0);
            if (!peal_pack_net_feeds(split->net)) {
                change_offers(split, w, first, last, 1);
                ends[depth++] = first + (last - first) / 2;
                continue;
            }
            PEAL_TRY(commit_offers(split, w, first, last));
        }
        first = last;
        depth--;
    }
    return PEAL_OK;
}

static peal_status take_deal(struct split *split, uint32_t w)
{
    PEAL_TRY(peal_pack_deal(split->net, w, split->portion, &split->deal));
    for (uint32_t i = 0; i < split->deal.noffers; i++)
        PEAL_TRY(make_link(split, split->deal.offers[i].from, split->deal.offers[i].to));
    return take_offers(split, w);
}

/* What is left after the deal, in the order of use: */
enum rest {
    BACK,    /* from a switch back to itself: what can be dropped, nobody needs */
    TO_ENDS, /* from or to a compute node */
    ANY,
    RESTS
};

static int is_rest(const struct split *split, enum rest rest, uint32_t u, uint32_t t)
{
    uint32_t compute = split->net->compute;
    if (rest == BACK)
        return u == t && u >= compute;
    return rest == ANY || (u != t && (u < compute || t < compute));
}

/* What cannot be joined now cannot later either, for cuts only get smaller: so after one look at
 * each pair nothing is left. */
static peal_status join_rest(struct split *split, uint32_t w, uint32_t t, enum rest rest)
{
    uint32_t nodes = split->net->nodes;
    for (uint32_t i = 1; i <= nodes && units_of(split, w, t); i++) {
        uint32_t u = (t + i) % nodes;
        uint64_t amount = units_of(split, u, w);
        if (amount > units_of(split, w, t))
            amount = units_of(split, w, t);
        if (amount && is_rest(split, rest, u, t))
            PEAL_TRY(join(split, u, w, t, amount));
    }
    return rest == ANY && units_of(split, w, t) ? PEAL_ERR_INTERNAL : PEAL_OK;
}

static peal_status remove_switch(struct split *split, uint32_t w)
{
    PEAL_TRY(take_deal(split, w));
    for (int rest = 0; rest < RESTS; rest++)
        for (uint32_t t = 0; t < split->net->nodes; t++)
            PEAL_TRY(join_rest(split, w, t, (enum rest)rest));
    for (uint32_t u = 0; u < split->net->nodes; u++)
        if (units_of(split, u, w))
            peal_pack_net_set(split->net, link_of(split, u, w), 0); /* leads nowhere */
    return PEAL_OK;
}

/* ---- all of them --------------------------------------------------------------------------- */

static peal_status begin(struct split *split)
{
    struct pack_pieces *pieces = split->pieces;
    PEAL_TRY(peal_grow(split->net->ctx, (void **)&pieces->paths, &pieces->paths_room, 1,
                       sizeof *pieces->paths, PACK_LINKS_MAX));
    pieces->paths[pieces->npaths++] = (struct pack_path){0, 0, PACK_NONE, 0};
    for (uint32_t i = 0; i < split->net->nlinks; i++) {
        PEAL_TRY(note_link(split, i));
        PEAL_TRY(add_piece(split, i, 0, split->net->links[i].units));
    }
    return PEAL_OK;
}

/* Switches near compute nodes come first, the widest before: a box's own before the network's, so
 * that what they made of the box is known when the network is shared out. */
static uint32_t next_switch(const struct split *split)
{
    const struct pack_net *net = split->net;
    uint32_t next = PACK_NONE;
    uint64_t widest = 0;
    for (uint32_t i = 0; i < net->nlinks; i++) {
        const struct pack_link *link = &net->links[i];
        uint64_t width = link->from < net->compute ? link->units : 0;
        if (link->to < net->compute || !link->units || (next != PACK_NONE && width < widest) ||
            (width == widest && link->to >= next))
            continue;
        widest = width;
        next = link->to;
    }
    return next;
}

static peal_status remove_all(struct split *split)
{
    PEAL_TRY(begin(split));
    for (uint32_t w = next_switch(split); w != PACK_NONE; w = next_switch(split))
        PEAL_TRY(remove_switch(split, w));
    return PEAL_OK;
}

peal_status peal_pack_split(struct pack_net *net, uint64_t portion, peal_diag *diag,
                            struct pack_pieces *pieces_out)
{
    struct split split = {.net = net, .pieces = pieces_out, .portion = portion};
    size_t cells = (size_t)net->nodes * net->nodes;
    *pieces_out = (struct pack_pieces){0};
    split.at = peal_calloc(net->ctx, cells, sizeof *split.at);
    peal_status status = split.at ? remove_all(&split) : PEAL_ERR_MEMORY;
    peal_free(net->ctx, split.at, cells * sizeof *split.at);
    peal_free(net->ctx, split.deal.offers, split.deal.room * sizeof *split.deal.offers);
    if (status != PEAL_OK)
        peal_pack_pieces_free(pieces_out, net->ctx);
    if (status == PEAL_ERR_INTERNAL)
        return peal_fail(diag, status, "a switch could not be split off");
    if (status == PEAL_ERR_LIMIT)
        return peal_fail(diag, status, "more than %u links without switches", PACK_LINKS_MAX);
    return status;
}
