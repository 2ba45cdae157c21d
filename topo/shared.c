/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hosts without accelerators: ranks that copy through one memory. No graph; each rank
 * has what it copies out, what it takes in, and they share the memory, so resources
 * are 2 * ranks + 1 in that order: rank r out 2r, in 2r + 1, memory last.
 */
#include "defaults.h"
#include "fabric.h"

peal_status peal_topo_shared_memory(peal_fabric *fabric, struct topo_type *type, uint32_t ranks)
{
    struct topo_node numa = {.kind = TOPO_NUMA, .name = "numa0", .busid = "", .numa = 0};
    struct topo_resource resource = {.link_class = PEAL_LINK_SHM};
    uint32_t index;

    type->shared_memory = 1;
    type->ranks = ranks;
    type->numas = 1;
    type->domains = 1;
    PEAL_TRY(peal_topo_add_node(fabric->ctx, type, &numa, &index));
    resource.gbs = peal_topo_constant(TOPO_SHM);
    for (uint32_t r = 0; r < ranks; r++) {
        resource.from = resource.to = r;
        resource.kind = TOPO_RES_RANK_OUT;
        PEAL_TRY(peal_topo_add_resource(fabric->ctx, type, &resource, &index));
        resource.kind = TOPO_RES_RANK_IN;
        PEAL_TRY(peal_topo_add_resource(fabric->ctx, type, &resource, &index));
    }
    resource.kind = TOPO_RES_MEMORY;
    resource.from = resource.to = 0;
    resource.gbs = peal_topo_constant(TOPO_SHM_MEMORY);
    return peal_topo_add_resource(fabric->ctx, type, &resource, &index);
}
