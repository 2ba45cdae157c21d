/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A switch that sends more than it receives would have to copy. Some of what it could send is
 * not needed, though, and is taken away here; the trees exist when no switch is left that sends
 * more than it receives (Bang-Jensen, Frank and Jackson 1995).
 */
#include "pack.h"

/* How much more a switch sends than it receives, in units; 0 when it does not. */
static uint64_t excess_of(const struct pack_net *net, uint32_t node)
{
    uint64_t in = 0;
    uint64_t out = 0;
    for (uint32_t i = 0; i < net->nlinks; i++) {
        if (net->links[i].to == node)
            in += net->links[i].units;
        if (net->links[i].from == node)
            out += net->links[i].units;
    }
    return out > in ? out - in : 0;
}

static uint64_t take(struct pack_net *net, uint32_t link, uint64_t units)
{
    struct pack_change change = {{link, PACK_NONE}, PACK_NONE};
    return units ? peal_pack_net_admit(net, &change, units) : 0;
}

static uint64_t units_from(const struct pack_net *net, uint32_t node)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < net->nlinks; i++)
        if (net->links[i].from == node)
            sum += net->links[i].units;
    return sum;
}

/* From each link its share first, so that what one way lacks is not all taken from another; then
 * from whichever can spare it. */
static uint64_t trim_switch(struct pack_net *net, uint32_t node, uint64_t excess)
{
    uint64_t all = units_from(net, node), whole = excess;
    for (uint32_t i = 0; i < net->nlinks && excess; i++) {
        uint64_t share;
        if (net->links[i].from != node ||
            peal_pack_muldiv_overflows(net->links[i].units, whole, all, &share))
            continue;
        excess -= take(net, i, share < excess ? share : excess);
    }
    for (uint32_t i = 0; i < net->nlinks && excess; i++) {
        uint64_t units = net->links[i].units;
        if (net->links[i].from == node)
            excess -= take(net, i, units < excess ? units : excess);
    }
    return excess;
}

/* What is taken from one switch's links another one receives less of, so that trimming goes
 * round; on a cycle it may do so in ever smaller steps, hence the end of patience. */
void peal_pack_trim(struct pack_net *net, uint32_t *switch_out)
{
    uint32_t patience = 8;
    *switch_out = PACK_NONE;
    for (int again = 1; again; patience--) {
        again = 0;
        for (uint32_t v = net->compute; v < net->nodes; v++) {
            uint64_t excess = excess_of(net, v);
            if (!excess)
                continue;
            again = 1;
            if (!patience || trim_switch(net, v, excess)) {
                *switch_out = v;
                return;
            }
        }
    }
}
