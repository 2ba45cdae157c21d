/* SPDX-License-Identifier: Apache-2.0 */
/* The capability matrix: which engines can move data over a path. */
#include "plan.h"

#define BIT(engine) (1u << (engine))
#define IBGDA_ARCH 80u /* compute capability x 10 */

int peal_plan_engine_async(uint8_t engine)
{
    return engine != PEAL_ENGINE_SM && engine < PEAL_ENGINE_COUNT;
}

int peal_plan_engine_nets(uint8_t engine)
{
    return engine == PEAL_ENGINE_RDMA || engine == PEAL_ENGINE_TCP || engine == PEAL_ENGINE_IBGDA;
}

/* Where loads and stores reach the other end, the lane and the copy engine do. Bulk copies
 * need compute capability 9.0; arch 0 is the host executor, which has them, but over xgmi it
 * stands for a machine of another vendor. */
static uint32_t direct_engines(uint8_t link_class, uint32_t arch)
{
    uint32_t engines = BIT(PEAL_ENGINE_SM) | BIT(PEAL_ENGINE_CE);
    if (arch >= 90 || (arch == 0 && link_class != PEAL_LINK_XGMI))
        engines |= BIT(PEAL_ENGINE_TMA);
    return engines;
}

uint32_t peal_plan_engines(uint8_t link_class, uint8_t direct, uint32_t arch)
{
    if (link_class >= PEAL_LINK_CLASS_COUNT)
        return 0;
    if (direct)
        return direct_engines(link_class, arch);
    /* It takes a kernel of an NVIDIA GPU to post to a NIC. */
    if (link_class == PEAL_LINK_NET)
        return BIT(PEAL_ENGINE_RDMA) | BIT(PEAL_ENGINE_TCP) |
               (arch >= IBGDA_ARCH ? BIT(PEAL_ENGINE_IBGDA) : 0);
    return BIT(PEAL_ENGINE_STAGED);
}
