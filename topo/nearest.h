/* SPDX-License-Identifier: Apache-2.0 */
/* What the choice of NICs works on. */
#ifndef PEAL_TOPO_NEAREST_H
#define PEAL_TOPO_NEAREST_H

#include "route.h"

struct topo_nearest {
    struct topo_search *search;
    uint8_t *mark;     /* accels x nics: 1 where the NIC is as good as the best */
    uint32_t *choices; /* how many of them each accelerator has */
    uint32_t *load;    /* ranks of each NIC */
    uint32_t *owner;   /* of a NIC in a bundle: the accelerator; TOPO_NONE otherwise */
};

peal_status peal_topo_bundle_nics(peal_fabric *fabric, struct topo_type *type,
                                  struct topo_nearest *work);

#endif
