/* SPDX-License-Identifier: Apache-2.0 */
/* The fastest rate with a given number of trees: the least U at which links that carry
 * floor(c x U) trees feed every node. It is j / c for some link's capacity c and a whole j. */
#include "pack.h"

struct search {
    struct pack_net net;
    uint64_t num; /* no U below trees x num / den is enough */
    uint64_t den;
    struct pack_rate best; /* num 0: none yet */
};

static int enough(struct search *search, uint64_t num, uint64_t den, peal_status *status)
{
    struct pack_rate rate = search->best;
    uint32_t stuck;
    rate.num = num;
    rate.den = den;
    *status = peal_pack_net_rate(&search->net, &rate);
    if (*status != PEAL_OK || !peal_pack_net_feeds(&search->net))
        return 0;
    peal_pack_trim(&search->net, &stuck);
    return stuck == PACK_NONE;
}

/* The j of capacity c worth asking: [*low, *high]. No j / c below the bound is enough, any that
 * is above it by 1 / (least capacity) is, since then floor(c U) >= c x the bound everywhere; and
 * nothing that is not below the best is of use. */
static peal_status range_of(const struct search *search, uint64_t c, uint64_t least, uint64_t *low,
                            uint64_t *high)
{
    uint64_t reach;
    if (peal_pack_muldiv_overflows(search->num, search->best.trees, 1, &reach) ||
        peal_pack_muldiv_overflows(reach, c, search->den, low) || *low > UINT64_MAX / 4 ||
        c > UINT64_MAX / 4)
        return PEAL_ERR_LIMIT;
    *low += (uint64_t)peal_pack_less(*low, c, reach, search->den);
    *high = *low + c / least + 1;
    if (!search->best.num)
        return PEAL_OK;
    if (peal_pack_muldiv_overflows(search->best.num, c, search->best.den, high))
        return PEAL_ERR_LIMIT;
    *high += (uint64_t)peal_pack_less(*high, c, search->best.num, search->best.den);
    *high -= *high > 0;
    return PEAL_OK;
}

static peal_status try_capacity(struct search *search, uint64_t c, uint64_t least)
{
    uint64_t low;
    uint64_t high;
    peal_status status = PEAL_OK;
    PEAL_TRY(range_of(search, c, least, &low, &high));
    if (low > high || !enough(search, high, c, &status))
        return status;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (enough(search, middle, c, &status))
            high = middle;
        else
            low = middle + 1;
        PEAL_TRY(status);
    }
    uint64_t gcd = peal_pack_gcd(low, c);
    search->best.num = low / gcd;
    search->best.den = c / gcd;
    return PEAL_OK;
}

/* The largest capacity below `below`, 0: none; by falling capacity, as large ones have the
 * finest steps and so rule out most of the others. */
static uint64_t next_capacity(const struct pack_net *net, uint64_t below)
{
    uint64_t next = 0;
    for (uint32_t i = 0; i < net->nlinks; i++)
        if (net->links[i].capacity < below && net->links[i].capacity > next)
            next = net->links[i].capacity;
    return next;
}

static peal_status try_capacities(struct search *search)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < search->net.nlinks; i++)
        if (search->net.links[i].capacity < least)
            least = search->net.links[i].capacity;
    for (uint64_t c = next_capacity(&search->net, UINT64_MAX); c;
         c = next_capacity(&search->net, c))
        PEAL_TRY(try_capacity(search, c, least));
    return PEAL_OK;
}

static peal_status check_ideal(const struct pack_graph *graph, const struct pack_rate *ideal,
                               uint64_t trees, peal_diag *diag)
{
    if (!trees || !ideal->trees || !ideal->num || !ideal->den ||
        (ideal->root != PACK_EVERY_ROOT && ideal->root >= graph->compute))
        return peal_fail(diag, PEAL_ERR_ARG, "no trees are asked for, or the rate is none");
    return PEAL_OK;
}

static peal_status search_rate(struct search *search, const struct pack_rate *ideal,
                               peal_diag *diag)
{
    uint64_t gcd = peal_pack_gcd(ideal->num, ideal->trees);
    search->num = ideal->num / gcd;
    if (peal_pack_muldiv_overflows(ideal->trees / gcd, ideal->den, 1, &search->den))
        return peal_fail(diag, PEAL_ERR_LIMIT, "the rate is too fine");
    gcd = peal_pack_gcd(search->num, search->den);
    search->num /= gcd;
    search->den /= gcd;
    peal_status status = try_capacities(search);
    if (status == PEAL_ERR_LIMIT)
        return peal_fail(diag, status, "too many trees for capacities of this size");
    PEAL_TRY(status);
    if (!search->best.num)
        return peal_fail(diag, PEAL_ERR_UNSUPPORTED,
                         "no rate was found: switches send more than they receive");
    return PEAL_OK;
}

peal_status peal_pack_fixed(peal_ctx *ctx, const struct pack_graph *graph,
                            const struct pack_rate *ideal, uint64_t trees, peal_diag *diag,
                            struct pack_rate *rate_out)
{
    struct search search = {.best = {ideal->root, trees, 0, 1}};
    PEAL_TRY(peal_pack_net_init(&search.net, ctx, graph, PACK_BOUND_NODES_MAX, diag));
    peal_status status = check_ideal(graph, ideal, trees, diag);
    if (status == PEAL_OK)
        status = search_rate(&search, ideal, diag);
    peal_pack_net_free(&search.net);
    if (status == PEAL_OK)
        *rate_out = search.best;
    return status;
}
