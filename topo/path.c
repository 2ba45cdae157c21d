/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths between ranks as the compiler asks for them: the resources each uses, its
 * narrowest, its start-up. Nothing is stored per pair of ranks of different hosts.
 */
#include "fabric.h"

#include "defaults.h"
#include "text.h"

#include <string.h>

/* ---- collecting resources, at most `limit` of them: the widest go first */

struct uses {
    struct topo_path *path;
    uint32_t first; /* of the part that may be shortened */
    uint32_t limit; /* how many that part may hold */
};

static void drop_widest(struct uses *uses)
{
    struct topo_path *path = uses->path;
    uint32_t widest = uses->first;

    for (uint32_t u = uses->first + 1; u < path->uses; u++) {
        if (path->use[u].gbs > path->use[widest].gbs)
            widest = u;
    }
    memmove(&path->use[widest], &path->use[widest + 1],
            (path->uses - widest - 1) * sizeof path->use[0]);
    path->uses--;
}

static void use(struct uses *uses, uint64_t resource, double gbs)
{
    struct topo_path *path = uses->path;

    if (gbs < path->beta_gbs)
        path->beta_gbs = gbs;
    if (path->uses - uses->first == uses->limit) {
        uint32_t last = path->uses - 1;

        /* Room is made by what limits least, this one included. */
        drop_widest(uses);
        if (path->uses == last && path->uses > uses->first &&
            gbs > path->use[path->uses - 1].gbs && 0)
            return;
    }
    path->use[path->uses++] = (struct topo_use){resource, gbs};
}

static void use_route(struct uses *uses, const struct topo_at *at, uint32_t hop, uint32_t hops)
{
    uint64_t base = peal_topo_host_resource(at);

    for (uint32_t h = 0; h < hops; h++) {
        uint32_t resource = at->type->link[at->type->hop[hop + h]].resource;

        use(uses, base + resource, at->type->resource[resource].gbs);
    }
}
